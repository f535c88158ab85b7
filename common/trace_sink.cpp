// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/trace_sink.h"

#include <atomic>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>

#include "common/trace.h"

namespace udapl::trace {

namespace {

std::atomic<unsigned> sinks{kStderr};
std::atomic<int> file{-1};

const char* level_name(int level) noexcept {
  if (level <= kError) return "error";
  if (level < kCalls) return "normal";
  return level < kDetail ? "call" : "detail";
}

int syslog_priority(int level) noexcept {
  if (level <= kError) return LOG_ERR;
  return level <= kNormal ? LOG_INFO : LOG_DEBUG;
}

void write_all(int fd, const char* text, std::size_t length) noexcept {
  [[maybe_unused]] const ssize_t written = ::write(fd, text, length);
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
    for (std::size_t i = 0; i < length_; ++i)
      if (text_[i] == '\n') text_[i] = ' ';
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

}  // namespace

bool open_sinks(const Settings& settings) noexcept {
  unsigned chosen = settings.sinks;
  bool opened = true;
  if ((chosen & kFile) != 0) {
    const int fd = ::open(settings.path.c_str(),
                          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0600);
    opened = fd >= 0;
    if (opened)
      file.store(fd, std::memory_order_relaxed);
    else
      chosen = (chosen & ~unsigned{kFile}) | kStderr;
  }
  sinks.store(chosen, std::memory_order_relaxed);
  return opened;
}

void write_sinks(int level, const char* text, std::size_t length) noexcept {
  write_people(text, length);
  write_logs(level, text, length);
}

void write_people(const char* text, std::size_t length) noexcept {
  const unsigned chosen = sinks.load(std::memory_order_relaxed);
  if ((chosen & kStderr) != 0) write_all(STDERR_FILENO, text, length);
  if ((chosen & kStdout) != 0) write_all(STDOUT_FILENO, text, length);
}

void write_logs(int level, const char* text, std::size_t length) noexcept {
  const unsigned chosen = sinks.load(std::memory_order_relaxed);
  if ((chosen & kFile) != 0) write_all(file.load(std::memory_order_relaxed), text, length);
  if ((chosen & kSyslog) != 0)
    ::syslog(LOG_USER | syslog_priority(level), "%.*s", static_cast<int>(length), text);
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
