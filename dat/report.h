// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/annotations.h"
#include "common/mutex.h"
#include "dat/conf_file.h"

namespace udapl::dat {

// Why one candidate for an open was passed over, or did not open.
struct PassedOver {
  std::string subject;   // what is at fault, e.g. the library path: reported once per subject
  std::string reason;    // one line; a provider's own reason may have more
  std::string advice{};  // dat/advice.h; may be empty
};

// An open that found no provider, or none that opened.
struct NotFound {
  std::string ia_name;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  bool thread_safe = false;
  DAT_RETURN code = DAT_SUCCESS;          // the caller's result
  std::vector<PassedOver> passed_over;    // unusable candidates that were not reported yet
  std::vector<PassedOver> tried;          // all candidates, for cause_of
  std::vector<std::string> alternatives;  // other versions of that name, as text
  std::vector<std::string> known_names;   // all names that could be opened
};

// Explains to the user why an IA could not be opened: what was read, what was skipped and why, with
// the dynamic linker's message if there is one. Each fact is reported once per process: MPI
// libraries probe every name of the file, and a library that is missing for twenty of them is one
// fact.
//
// Thread safe. Owner: Registry. The functions return the text to report, empty if there is nothing
// new; every line ends with a newline.
class Report {
 public:
  explicit Report(const ConfFile& file) : file_(file) {}  // REQUIRES: `file` outlives this

  [[nodiscard]] std::string explain(const NotFound& failure) UDAPL_EXCLUDES(mutex_);

  // For candidates that an open passed over before it succeeded with, or failed at, another one.
  [[nodiscard]] std::string explain(const std::string& ia_name,
                                    const std::vector<PassedOver>& passed_over)
      UDAPL_EXCLUDES(mutex_);

 private:
  bool is_new(const std::string& fact) UDAPL_REQUIRES(mutex_) {
    return reported_.insert(fact).second;
  }
  void add_passed_over(const std::vector<PassedOver>& passed_over, std::string& text)
      UDAPL_REQUIRES(mutex_);
  void add_configuration(std::string& text) UDAPL_REQUIRES(mutex_);

  const ConfFile& file_;
  Mutex mutex_;
  std::set<std::string> reported_ UDAPL_GUARDED_BY(mutex_);
};

// The text of dat_last_cause() for the caller of the open: everything, with advice, even if it was
// reported before. The first line states what failed, the others are indented; no newline at the
// end.
[[nodiscard]] std::string cause_of(const ConfFile& file, const NotFound& failure);

// Writes `text` to the trace sinks (DAT_TRACE_SINK), to stderr in one piece, unless it is empty or
// errors are hidden (DAT_TRACE_LEVEL=0).
void write_report(const std::string& text) noexcept;

}  // namespace udapl::dat
