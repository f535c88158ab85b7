// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/trace.h"
#include "common/errno_text.h"

#include <algorithm>
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
#include <unistd.h>

#include "common/dat_names.h"
#include "common/fd.h"
#include "common/trace_settings.h"
#include "common/trace_sink.h"

namespace udapl::trace {

constinit Page page(kDefaultLevel);

namespace {

constexpr std::size_t kLine = 1024;

std::atomic<const char*> component_name{"udapl"};
std::atomic<Probe> probe_now{nullptr};
std::atomic<Describe> describe_now{nullptr};
thread_local const void* subject = nullptr;

// Lets a tool of the same user reach the page: it becomes a file without a name, of which the
// process keeps a descriptor. The kernel decides who may open another process's descriptors. If
// that cannot be had the page stays private, and only the API changes levels.
void share_page(const char* component) noexcept {
  if (::sysconf(_SC_PAGESIZE) > static_cast<long>(kPageSize)) return;
  char name[64];
  std::snprintf(name, sizeof name, "%s%s", kPageName, component);
  const Fd low(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Never one of the standard three, even if the program runs without them.
  Fd file(::fcntl(low.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!file.valid()) return;
  if (::write(file.get(), &page, sizeof page) != static_cast<ssize_t>(sizeof page)) return;
  // Who opens it must not be able to take it away under us.
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return;
  // In place of the page in our data, so that a point reads it without a detour.
  if (::mmap(&page, sizeof page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0) ==
      MAP_FAILED)
    return;
  static_cast<void>(file.release());
}

void configure(const char* component, std::string_view prefix) {
  component_name.store(component, std::memory_order_relaxed);
  const Settings settings =
      read_settings(prefix, [](const char* name) -> const char* { return ::secure_getenv(name); });
  const bool opened = open_sinks(settings);
  const int error = errno;
  page.set_text_level(settings.level);
  share_page(component);
  if (&::udapl_trace_probe_1 != nullptr) set_probe(&::udapl_trace_probe_1);
  for (const std::string& complaint : settings.complaints)
    UDAPL_TRACE(kError, "%s", complaint.c_str());
  if (!opened)
    UDAPL_TRACE(kError, "cannot write to %s: %s, using stderr", settings.path.c_str(),
                ErrnoText(error).c_str());
}

using Writer = void (*)(int level, const char* text, std::size_t length) noexcept;

void send(const Record& record, Writer write_text) noexcept {
  const int saved_errno = errno;
  if (record.level <= page.text_level.load(std::memory_order_relaxed)) {
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
    // No memory: the levels stay as they are.
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

About::About(const void* object) noexcept : outer_(subject) { subject = object; }
About::~About() { subject = outer_; }

void emit(Record record) noexcept {
  record.component = component_name.load(std::memory_order_relaxed);
  if (record.object == nullptr) record.object = subject;
  if (*record.type == '\0') {
    const Identity identity = describe(record.object);
    record.type = identity.type;
    record.ia = identity.ia;
  }
  send(record, write_sinks);
}

void write(Level level, const char* function, const char* format, ...) noexcept {
  const int saved_errno = errno;
  char text[kLine];
  va_list args;
  va_start(args, format);
  if (std::vsnprintf(text, sizeof text, format, args) < 0) text[0] = '\0';
  va_end(args);
  emit(Record{.level = level,
              .kind = level <= kError ? Kind::kError : Kind::kMessage,
              .function = function,
              .text = text});
  errno = saved_errno;
}

void write_error(Level level, DAT_RETURN code, const char* function, const char* format,
                 ...) noexcept {
  const int saved_errno = errno;
  char text[kLine];
  va_list args;
  va_start(args, format);
  if (std::vsnprintf(text, sizeof text, format, args) < 0) text[0] = '\0';
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
              .function = function,
              .text = text,
              .status = names});
  errno = saved_errno;
}

void tell(const char* function, std::string_view prefix, std::string_view text) noexcept {
  const int saved_errno = errno;
  if (level() >= kError) write_people(text.data(), text.size());
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::string_view rest = line.starts_with(prefix) ? line.substr(prefix.size()) : line;
    char copy[kLine];
    std::snprintf(copy, sizeof copy, "%.*s", static_cast<int>(rest.size()), rest.data());
    send({.level = kError,
          .kind = Kind::kError,
          .component = component_name.load(std::memory_order_relaxed),
          .function = function,
          .text = copy},
         write_logs);
  }
  errno = saved_errno;
}

}  // namespace udapl::trace
