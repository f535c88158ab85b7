// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <string_view>

#include "observe.h"

// The run and its options, and checks of return codes.
namespace conformance {

// ---- the run ----

struct Options {
  std::string ia = "soft";              // --ia NAME
  DAT_BOOLEAN thread_safe = DAT_FALSE;  // --threadsafe: open the entry declared threadsafe
  std::string peer;                     // --peer HOST[:PORT]: a partner that listens there
};
const Options& options();
void set_options(const Options& options);

// Unless `condition` holds, prints a skip with its reason, records it for the summary and returns
// true. Use as: `if (skip_unless(condition, "reason")) return;`
[[nodiscard]] bool skip_unless(bool condition, std::string_view reason);

// The reasons given since the last call.
std::string take_skip_reasons();

// ---- return codes ----

// Text such as "DAT_INVALID_STATE DAT_INVALID_STATE_EP_CONNECTED (0x80070033)".
std::string describe(DAT_RETURN rc);

// Returns whether the code means that the function, or the type of object, is not implemented.
bool is_unsupported(DAT_RETURN rc);

// The bodies of the macros below. They are out of line because Boost's own macros, expanded a
// thousand times, are slow to compile. `where` is "file:line: call".
void require_ok(DAT_RETURN rc, const char* where);
void check_type(DAT_RETURN rc, DAT_RETURN type, const char* name, const char* where);
void check_type_or(DAT_RETURN rc, DAT_RETURN type1, DAT_RETURN type2, const char* names,
                   const char* where);

#define CONFORMANCE_TEXT2(x) #x
#define CONFORMANCE_TEXT(x) CONFORMANCE_TEXT2(x)
#define CONFORMANCE_HERE(call) __FILE__ ":" CONFORMANCE_TEXT(__LINE__) ": " call

// The call must succeed; otherwise the test ends.
#define REQUIRE_OK(call) ::conformance::require_ok((call), CONFORMANCE_HERE(#call))

// The call must fail with this type (DAT_INVALID_STATE ...); the subtype is advisory. The test
// continues.
#define CHECK_TYPE(call, type) \
  ::conformance::check_type((call), static_cast<DAT_RETURN>(type), #type, CONFORMANCE_HERE(#call))

// The call must fail with either of two types, where the reference allows both.
#define CHECK_TYPE_OR(call, type1, type2)                                            \
  ::conformance::check_type_or((call), static_cast<DAT_RETURN>(type1),               \
                               static_cast<DAT_RETURN>(type2), #type1 " or " #type2, \
                               CONFORMANCE_HERE(#call))

// ---- time ----

inline constexpr DAT_TIMEOUT kMillisecond = 1000;  // us
inline constexpr DAT_TIMEOUT kPatience =
    20'000'000;  // for a step that must happen; never a measured limit
inline constexpr DAT_TIMEOUT kQuiet =
    30 * kMillisecond;  // long enough for something wrong to show up

// Checks that its own lifetime is shorter than kPatience: waiters were woken, and no call has
// waited in vain until a timeout.
class Promptly {
 public:
  Promptly();
  ~Promptly();
  Promptly(const Promptly&) = delete;
  Promptly& operator=(const Promptly&) = delete;

 private:
  std::chrono::steady_clock::time_point start_;
};

}  // namespace conformance
