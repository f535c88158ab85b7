// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/tracing/trace.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/dat_names.h"
#include "common/fd.h"
#include "common/printable.h"
#include "common/tracing/refusal.h"
#include "common/tracing/trace_limit.h"
#include "common/tracing/trace_settings.h"
#include "common/tracing/trace_sink.h"

namespace udapl::trace {

constinit Page page(kDefaultLevel);

namespace {

constexpr std::size_t kLine = 1024;

std::atomic<const char*> component_name{"udapl"};
std::atomic<Probe> probe_now{nullptr};
std::atomic<Describe> describe_now{nullptr};
thread_local ThreadState state_of_thread;

// Lets a tool of the same user access the page: replaces it by a file without a name, of which the
// process keeps a descriptor. The kernel decides which processes may open another one's
// descriptors. If this fails, the page stays private, and only the API changes levels.
void share_page(const char* component) noexcept {
  if (::sysconf(_SC_PAGESIZE) > static_cast<long>(kPageSize)) return;
  // A write beyond the limit would kill the process (SIGXFSZ).
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < sizeof page) return;
  char name[64];
  std::snprintf(name, sizeof name, "%s%s", kPageName, component);
  Fd file = Fd::made(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return;
  if (::write(file.get(), &page, sizeof page) != static_cast<ssize_t>(sizeof page)) return;
  // A process that opens it must not be able to shrink it under us.
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return;
  // Maps the file over the page in our data, so that a trace point reads it without an indirection.
  // mremap() does that in one step: other threads may be at a trace point.
  void* const shared =
      ::mmap(nullptr, sizeof page, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (shared == MAP_FAILED) return;
  if (::mremap(shared, sizeof page, sizeof page, MREMAP_MAYMOVE | MREMAP_FIXED, &page) ==
      MAP_FAILED) {
    ::munmap(shared, sizeof page);
    return;
  }
  static_cast<void>(file.release());
}

void configure(const char* component, std::string_view prefix) {
  component_name.store(component, std::memory_order_relaxed);
  const Settings settings =
      read_settings(prefix, [](const char* name) -> const char* { return ::secure_getenv(name); });
  const char* const refusal = open_sinks(settings);
  page.set_text_level(settings.level);
  share_page(component);
  if (&::udapl_trace_probe_1 != nullptr) set_probe(&::udapl_trace_probe_1);
  for (const std::string& complaint : settings.complaints)
    UDAPL_TRACE(kError, "%s", complaint.c_str());
  if (refusal != nullptr)
    UDAPL_TRACE(kError, "cannot write to %s: %s, using stderr", settings.path.c_str(), refusal);
}

using Writer = void (*)(int level, const char* text, std::size_t length) noexcept;

void discard_text(int, const char*, std::size_t) noexcept {}

void complete(Record& record) noexcept {
  record.component = component();
  if (record.object == nullptr) record.object = this_thread().subject;
  if (*record.type != '\0') return;
  const Identity identity = describe(record.object);
  record.type = identity.type;
  record.ia = identity.ia;
}

void send(const Record& record, Writer write_text) noexcept {
  const int saved_errno = errno;
  if (write_text != discard_text &&
      record.level <= page.text_level.load(std::memory_order_relaxed)) {
    char line[kLine];
    write_text(record.level, line, render(record, line, sizeof line));
  }
  if (const Probe probe = probe_now.load(std::memory_order_acquire); probe != nullptr)
    probe(&record);
  errno = saved_errno;
}

}  // namespace

void init(const char* component, const char* variable) noexcept {
  static std::once_flag once;
  try {
    const std::string_view name(variable);
    std::call_once(once, configure, component, name.substr(0, name.find('_')));
  } catch (const std::exception&) {
    // Out of memory: the levels remain unchanged.
  }
}

int level() noexcept { return page.text_level.load(std::memory_order_relaxed); }

void set_level(int level) noexcept { page.set_text_level(level); }

void set_probe(Probe probe) noexcept {
  probe_now.store(probe, std::memory_order_release);
  page.set_probe_level(probe != nullptr ? int{kMax} : -1);
}

void set_describe(Describe describe) noexcept {
  describe_now.store(describe, std::memory_order_release);
}

Identity describe(const void* object) noexcept {
  const Describe known = describe_now.load(std::memory_order_acquire);
  return object == nullptr || known == nullptr ? Identity() : known(object);
}

ThreadState& this_thread() noexcept { return state_of_thread; }

void emit(Record record) noexcept {
  complete(record);
  send(record, write_sinks);
}

const char* component() noexcept { return component_name.load(std::memory_order_relaxed); }

namespace {

// The name of a function, or of the one around the lambda with that signature.
class FunctionName {
 public:
  explicit FunctionName(const char* given) noexcept : name_(given) {
    std::string_view text(given);
    const std::size_t lambda = std::min(text.find("::<lambda"), text.find("::(anonymous class)"));
    if (lambda == std::string_view::npos) return;
    text = text.substr(0, lambda);
    text = text.substr(0, text.find(" [with "));
    text = text.substr(0, parameters_of(text));
    text.remove_prefix(text.find_last_of(" :*&") + 1);  // npos + 1 is 0
    cut_.at(text.copy(cut_.data(), cut_.size() - 1)) = '\0';
    name_ = cut_.data();
  }
  FunctionName(const FunctionName&) = delete;
  FunctionName& operator=(const FunctionName&) = delete;

  [[nodiscard]] const char* c_str() const noexcept { return name_; }

 private:
  // Where the list of parameters begins, which may contain other parentheses.
  static std::size_t parameters_of(std::string_view text) noexcept {
    int depth = 0;
    for (std::size_t at = text.rfind(')'); at < text.size(); --at) {
      if (text[at] == ')') ++depth;
      if (text[at] == '(' && --depth == 0) return at;
    }
    return text.size();
  }

  std::array<char, 64> cut_;
  const char* name_;
};

// The text of a message, formatted and made printable.
class MessageText {
 public:
  [[gnu::format(printf, 2, 0)]] MessageText(const char* format, va_list args) noexcept {
    if (std::vsnprintf(text_.data(), text_.size(), format, args) < 0) text_[0] = '\0';
    make_printable(text_.data(), std::strlen(text_.data()));
  }
  void add_suppressed(unsigned count) noexcept {
    const std::size_t used = std::strlen(text_.data());
    std::snprintf(text_.data() + used, text_.size() - used, " (%u more like this suppressed)",
                  count);
  }
  [[nodiscard]] const char* c_str() const noexcept { return text_.data(); }

 private:
  std::array<char, kLine> text_;
};

}  // namespace

void write(Level level, const char* function, const char* format, ...) noexcept {
  const int saved_errno = errno;
  const FunctionName name(function);
  va_list args;
  va_start(args, format);
  const MessageText text(format, args);
  va_end(args);
  emit(Record{.level = level,
              .kind = level <= kError ? Kind::kError : Kind::kMessage,
              .function = name.c_str(),
              .text = text.c_str()});
  errno = saved_errno;
}

// If more than errors are requested, every record is written; a probe gets all records in any case.
void write_limited(RateLimit& limit, Level level, const char* function, const char* format,
                   ...) noexcept {
  const int saved_errno = errno;
  const FunctionName name(function);
  unsigned suppressed = 0;
  const bool limited = trace::level() < kNormal;
  const bool admitted = !limited || limit.admit(Clock::now(), suppressed);
  va_list args;
  va_start(args, format);
  MessageText text(format, args);
  va_end(args);
  if (suppressed != 0) text.add_suppressed(suppressed);
  Record record{
      .level = level, .kind = Kind::kError, .function = name.c_str(), .text = text.c_str()};
  complete(record);
  send(record, admitted ? write_sinks : discard_text);
  errno = saved_errno;
}

void write_error(Level level, DAT_RETURN code, const char* function, const char* format,
                 ...) noexcept {
  const int saved_errno = errno;
  const FunctionName name(function);
  va_list args;
  va_start(args, format);
  const MessageText text(format, args);
  va_end(args);
  char names[128];
  const char* const subtype = subtype_name(code);
  const char* const type = type_name(code);
  std::snprintf(names, sizeof names, "%s%s%s", type != nullptr ? type : "unknown error",
                subtype != nullptr && *subtype != '\0' ? ", " : "",
                subtype != nullptr ? subtype : "");
  emit(Record{.level = level,
              .kind = Kind::kError,
              .code = code,
              .function = name.c_str(),
              .text = text.c_str(),
              .status = names});
  if (level <= trace::level()) Refusal::mark_shown();
  errno = saved_errno;
}

void report(const char* function, std::string_view prefix, std::string_view text) noexcept {
  const int saved_errno = errno;
  if (level() >= kError) {
    try {
      const std::string shown = printable_lines(std::string(text));
      write_standard_streams(shown.data(), shown.size());
    } catch (const std::exception&) {
      // Out of memory; the records below need none.
    }
  }
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::string_view rest = line.starts_with(prefix) ? line.substr(prefix.size()) : line;
    char copy[kLine];
    std::snprintf(copy, sizeof copy, "%.*s", static_cast<int>(rest.size()), rest.data());
    make_printable(copy, std::strlen(copy));
    send({.level = kError,
          .kind = Kind::kError,
          .component = component(),
          .function = function,
          .text = copy},
         write_logs);
  }
  errno = saved_errno;
}

}  // namespace udapl::trace
