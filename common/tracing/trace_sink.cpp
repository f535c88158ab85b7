// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/tracing/trace_sink.h"

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>

#include "common/errno_text.h"
#include "common/fd.h"
#include "common/nonblocking/system_log.h"
#include "common/not_cancelled.h"
#include "common/printable.h"
#include "common/tracing/trace.h"
#include "common/tracing/trace_output.h"

namespace udapl::trace {

namespace {

std::atomic<unsigned> sinks{kStderr};
constinit Output to_stderr;
constinit Output to_stdout;
constinit Output to_file;
constinit Output to_syslog;
// Set once, before records are written there.
int file = -1;
struct stat file_identity;
int log_socket = -1;

const char* level_name(int level) noexcept {
  if (level <= kError) return "error";
  if (level < kCalls) return "normal";
  return level < kDetail ? "call" : "detail";
}

int syslog_priority(int level) noexcept {
  if (level <= kError) return LOG_ERR;
  return level <= kNormal ? LOG_INFO : LOG_DEBUG;
}

// Appends to a line of limited room; what does not fit is cut.
class Line {
 public:
  Line(char* text, std::size_t room) noexcept : text_(text), room_(room - 1) {}

  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) noexcept {
    if (length_ + 1 >= room_) return;
    va_list args;
    va_start(args, format);
    const int more = std::vsnprintf(text_ + length_, room_ - length_, format, args);
    va_end(args);
    if (more > 0) length_ += static_cast<std::size_t>(more);
    if (length_ >= room_) length_ = room_ - 1;
  }
  // One record is one line, whatever is in it.
  std::size_t finish() noexcept {
    make_printable(text_, length_);
    text_[length_++] = '\n';
    return length_;
  }

 private:
  char* const text_;
  const std::size_t room_;
  std::size_t length_ = 0;
};

void add_origin(const Record& record, Line& line) noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  ::localtime_r(&now.tv_sec, &local);
  line.add("%02d:%02d:%02d.%06ld %d/%ld %s %s ", local.tm_hour, local.tm_min, local.tm_sec,
           now.tv_nsec / 1000, ::getpid(), ::syscall(SYS_gettid), record.component,
           level_name(record.level));
  if (record.object == nullptr) {
    line.add("%s ", *record.ia != '\0' ? record.ia : "-");
  } else {
    line.add("%s%s%s=%p ", record.ia, *record.ia != '\0' ? "/" : "",
             *record.type != '\0' ? record.type : "handle", record.object);
  }
  if (*record.function != '\0') line.add("%s: ", record.function);
}

// Traces may contain private data of connections, so only our user may have access to the file.
// Opening anything but a regular file might block. Returns why the file was refused, or null.
const char* open_file(const char* path) noexcept {
  Fd opened = Fd::made(::open(
      path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!opened.valid()) {
    static char reason[112];
    std::snprintf(reason, sizeof reason, "%s", ErrnoText(errno).c_str());
    return reason;
  }
  if (::fstat(opened.get(), &file_identity) != 0 || !S_ISREG(file_identity.st_mode))
    return "not a regular file";
  if (file_identity.st_uid != ::geteuid()) return "it belongs to another user";
  if (file_identity.st_nlink != 1) return "it has more than one name (a hard link)";
  file = opened.release();
  return nullptr;
}

}  // namespace

const char* open_sinks(const Settings& settings) noexcept {
  unsigned chosen = settings.sinks;
  const char* refusal = nullptr;
  if ((chosen & kFile) != 0) {
    refusal = open_file(settings.path.c_str());
    if (refusal != nullptr) chosen = (chosen & ~unsigned{kFile}) | kStderr;
  }
  if ((chosen & kSyslog) != 0) log_socket = open_log_socket().release();
  // In a program that started without them, these numbers will sooner or later be files of its own.
  if (::fcntl(STDERR_FILENO, F_GETFD) < 0) chosen &= ~unsigned{kStderr};
  if (::fcntl(STDOUT_FILENO, F_GETFD) < 0) chosen &= ~unsigned{kStdout};
  sinks.store(chosen, std::memory_order_release);
  return refusal;
}

void write_sinks(int level, const char* text, std::size_t length) noexcept {
  write_standard_streams(text, length);
  write_logs(level, text, length);
}

void write_standard_streams(const char* text, std::size_t length) noexcept {
  const NotCancelled scope;
  const unsigned chosen = sinks.load(std::memory_order_acquire);
  if ((chosen & kStderr) != 0) to_stderr.write(STDERR_FILENO, {text, length});
  if ((chosen & kStdout) != 0) to_stdout.write(STDOUT_FILENO, {text, length});
}

void write_logs(int level, const char* text, std::size_t length) noexcept {
  const NotCancelled scope;
  const unsigned chosen = sinks.load(std::memory_order_acquire);
  if ((chosen & kFile) != 0) to_file.write_to(file, file_identity, {text, length});
  if ((chosen & kSyslog) != 0)
    to_syslog.log(log_socket, kSystemLog, LOG_USER | syslog_priority(level), {text, length});
}

std::size_t render(const Record& record, char* line, std::size_t room) noexcept {
  Line out(line, room);
  add_origin(record, out);
  switch (record.kind) {
    case Kind::kMessage:
      out.add("%s", record.text);
      break;
    case Kind::kError:
      out.add("%s", record.text);
      if (record.code != 0) out.add(" [%s 0x%" PRIx64 "]", record.status, record.code);
      break;
    case Kind::kCall:
      out.add("called");
      break;
    case Kind::kReturn:
      out.add("returns %s (0x%" PRIx64 ")", record.status, record.code);
      break;
    case Kind::kState:
      out.add("%s -> %s", record.detail, record.text);
      break;
    case Kind::kConnection:
      out.add("%s %s", record.text, record.detail);
      break;
    case Kind::kPost:
      out.add("post %s cookie=0x%" PRIx64 " length=%" PRIu64 " flags=0x%" PRIx64, record.text,
              record.cookie, record.length, record.code);
      break;
    case Kind::kCompletion:
      out.add("completion %s cookie=0x%" PRIx64 " length=%" PRIu64 " %s EVD=%p", record.text,
              record.cookie, record.length, record.status, record.other);
      break;
    case Kind::kArm:
    case Kind::kWake:
      out.add("%s", record.text);
      break;
    case Kind::kCreate:
      out.add("created");
      break;
    case Kind::kFree:
      out.add("freed");
      break;
    case Kind::kFrame:
      out.add("%s %s length=%" PRIu64 " number=%" PRIu64, record.detail, record.text, record.length,
              record.cookie);
      break;
    case Kind::kVerbsCall:
      out.add("%s%s%s", record.text, *record.text != '\0' ? ", " : "", record.status);
      break;
    case Kind::kVerbsEvent:
      out.add("%s, %s (%" PRId64 ")", record.text, record.status, record.code);
      break;
    case Kind::kVerbsWork:
      out.add("%s failed: %s wr_id=0x%" PRIx64 " QP=%" PRIu32 " vendor_error=0x%" PRIx32,
              record.text, record.status, record.cookie, record.number, record.vendor_error);
      break;
  }
  return out.finish();
}

}  // namespace udapl::trace
