// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What every conformance test needs: the IA under test, owners for the objects of the API, a
// connected pair of EPs, and checks that name return codes. Only the public C API is used, so that
// the suite runs on anybody's provider.
namespace conformance {

// ---- the run ----

struct Options {
  std::string ia = "soft";              // --ia NAME
  DAT_BOOLEAN thread_safe = DAT_FALSE;  // --threadsafe: open the entry that says so
  std::string peer;                     // --peer HOST[:PORT]: a partner that listens there
};
const Options& options();
void set_options(const Options& options);

// Prints the skip with its reason and notes it for the summary. Use as: `if (skip_unless(cond,
// "reason")) return;`
[[nodiscard]] bool skip_unless(bool condition, std::string_view reason);

// The reasons given since the last call.
std::string take_skip_reasons();

// ---- return codes ----

// "DAT_INVALID_STATE DAT_INVALID_STATE_EP_CONNECTED (0x80070033)".
std::string describe(DAT_RETURN rc);

// What the macros below do. Out of line: Boost's own macros, expanded a thousand times, are slow to
// compile. `where` is "file:line: call".
void require_ok(DAT_RETURN rc, const char* where);
void check_type(DAT_RETURN rc, DAT_RETURN type, const char* name, const char* where);
void check_type_or(DAT_RETURN rc, DAT_RETURN type1, DAT_RETURN type2, const char* names,
                   const char* where);

#define CONFORMANCE_TEXT2(x) #x
#define CONFORMANCE_TEXT(x) CONFORMANCE_TEXT2(x)
#define CONFORMANCE_HERE(call) __FILE__ ":" CONFORMANCE_TEXT(__LINE__) ": " call

// The call must succeed; otherwise the test ends.
#define REQUIRE_OK(call) ::conformance::require_ok((call), CONFORMANCE_HERE(#call))

// The call must fail with this type (DAT_INVALID_STATE ...); the subtype is advisory. The test goes
// on.
#define CHECK_TYPE(call, type) \
  ::conformance::check_type((call), static_cast<DAT_RETURN>(type), #type, CONFORMANCE_HERE(#call))

// Either of two types, where the reference allows both.
#define CHECK_TYPE_OR(call, type1, type2)                                            \
  ::conformance::check_type_or((call), static_cast<DAT_RETURN>(type1),               \
                               static_cast<DAT_RETURN>(type2), #type1 " or " #type2, \
                               CONFORMANCE_HERE(#call))

// ---- time ----

inline constexpr DAT_TIMEOUT kMillisecond = 1000;  // us
inline constexpr DAT_TIMEOUT kPatience =
    20'000'000;  // a step that must happen; never a measured limit
inline constexpr DAT_TIMEOUT kQuiet =
    30 * kMillisecond;  // long enough for something wrong to show up

// What is done while it lives takes less than a wait's patience: who was to be woken was woken, and
// did not come to the end of its wait by itself.
class Promptly {
 public:
  Promptly();
  ~Promptly();
  Promptly(const Promptly&) = delete;
  Promptly& operator=(const Promptly&) = delete;

 private:
  std::chrono::steady_clock::time_point start_;
};

// ---- owners ----

// A handle with its free function; freed at the end unless released. A failing free fails the test.
template <class Handle, DAT_RETURN (*kFree)(Handle)>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle handle) : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() {
    if (handle_ == nullptr) return;
    const DAT_RETURN rc = kFree(handle_);
    BOOST_CHECK_MESSAGE(rc == DAT_SUCCESS, "free -> " << describe(rc));
  }

  operator Handle() const { return handle_; }
  Handle* out() { return &handle_; }
  Handle release() { return std::exchange(handle_, nullptr); }

 private:
  Handle handle_ = nullptr;
};

using Evd = Owner<DAT_EVD_HANDLE, dat_evd_free>;
using Cno = Owner<DAT_CNO_HANDLE, dat_cno_free>;
using Pz = Owner<DAT_PZ_HANDLE, dat_pz_free>;
using Ep = Owner<DAT_EP_HANDLE, dat_ep_free>;
using Srq = Owner<DAT_SRQ_HANDLE, dat_srq_free>;
using Psp = Owner<DAT_PSP_HANDLE, dat_psp_free>;
using Rsp = Owner<DAT_RSP_HANDLE, dat_rsp_free>;
using Rmr = Owner<DAT_RMR_HANDLE, dat_rmr_free>;
using LmrHandle = Owner<DAT_LMR_HANDLE, dat_lmr_free>;

// An open IA with its attributes. Closed gracefully at the end, which proves that the test left
// nothing behind.
struct Ia {
  explicit Ia(std::string name = options().ia);
  ~Ia();
  Ia(const Ia&) = delete;
  Ia& operator=(const Ia&) = delete;
  operator DAT_IA_HANDLE() const { return handle; }

  DAT_RETURN close(DAT_CLOSE_FLAGS flags);  // instead of the destructor's

  DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_ATTR attr{};
  // DAT_PROVIDER_ATTR has a const member, so it is made as bytes.
  [[nodiscard]] const DAT_PROVIDER_ATTR& provider() const {
    return *reinterpret_cast<const DAT_PROVIDER_ATTR*>(provider_bytes_);
  }

 private:
  alignas(DAT_PROVIDER_ATTR) std::byte provider_bytes_[sizeof(DAT_PROVIDER_ATTR)] = {};
};

Evd make_evd(DAT_IA_HANDLE ia, DAT_EVD_FLAGS flags, DAT_COUNT qlen = 64,
             DAT_CNO_HANDLE cno = nullptr);
Pz make_pz(DAT_IA_HANDLE ia);

// A conn qual that no other suite uses, and in this process nobody since a thousand calls.
DAT_CONN_QUAL fresh_conn_qual();

// Memory with an LMR over all of it.
struct Buffer {
  Buffer(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, std::size_t size,
         DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_ALL_FLAG);
  void fill(std::uint8_t seed);  // a pattern that depends on seed and place
  [[nodiscard]] bool holds(std::uint8_t seed, std::size_t length, std::size_t offset = 0) const;
  [[nodiscard]] DAT_LMR_TRIPLET local(std::size_t length, std::size_t offset = 0) const;
  [[nodiscard]] DAT_LMR_TRIPLET local() const { return local(bytes.size()); }
  [[nodiscard]] DAT_RMR_TRIPLET remote(std::size_t length, std::size_t offset = 0) const;

  std::vector<std::uint8_t> bytes;
  LmrHandle lmr;
  DAT_LMR_CONTEXT lmr_context = 0;
  DAT_RMR_CONTEXT rmr_context = 0;
};

DAT_DTO_COOKIE cookie(std::uint64_t value);

// An enumeration's value that no enumerator has, as a careless C program would pass it.
template <class Enum>
Enum not_an_enumerator(unsigned value) {
  static_assert(sizeof(Enum) == sizeof value);
  Enum result;
  std::memcpy(&result, &value, sizeof value);
  return result;
}

// EP attributes that every provider can give.
DAT_EP_ATTR default_ep_attr(const Ia& ia);

// ---- events ----

// The next event of `evd`, waiting up to `timeout`; nothing when none comes. Any other outcome
// fails the test.
std::optional<DAT_EVENT> next_event(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout = kPatience);
// The next event, which must have this number.
DAT_EVENT expect_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);
// The next event, which must be a DTO completion with this status; checks the cookie too.
DAT_DTO_COMPLETION_EVENT_DATA expect_dto(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_STATUS status,
                                         std::uint64_t cookie_value);
// The same with any status that tells of a failure, and not of another's. Returns it.
DAT_DTO_COMPLETION_STATUS expect_dto_failure(DAT_EVD_HANDLE evd, std::uint64_t cookie_value);
// No event arrives within kQuiet.
void expect_silence(DAT_EVD_HANDLE evd);
// The next event ends a connection: DISCONNECTED or BROKEN. Returns which.
DAT_EVENT_NUMBER expect_connection_end(DAT_EVD_HANDLE evd);

DAT_EP_STATE ep_state(DAT_EP_HANDLE ep);

// ---- a connected pair ----

struct End {
  Evd recv_evd;
  Evd request_evd;
  Evd connect_evd;
  Ep ep;

  // Makes EVDs and EP. `attr` null: the provider's defaults.
  void create(const Ia& ia, DAT_PZ_HANDLE pz, const DAT_EP_ATTR* attr,
              DAT_SRQ_HANDLE srq = nullptr);
  DAT_RETURN post_recv(const Buffer& buffer, std::size_t length, std::uint64_t cookie_value,
                       DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG);
  DAT_RETURN post_send(const Buffer& buffer, std::size_t length, std::uint64_t cookie_value,
                       DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG);
  DAT_RETURN post_write(const Buffer& from, const DAT_RMR_TRIPLET& to, std::uint64_t cookie_value,
                        DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG);
  DAT_RETURN post_read(const Buffer& into, const DAT_RMR_TRIPLET& from, std::uint64_t cookie_value,
                       DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG);
};

// Two EPs of one IA and one PZ, in this process. Not connected at first.
struct Pair {
  explicit Pair(const DAT_EP_ATTR* attr = nullptr);
  ~Pair();
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // active connects to passive; both are CONNECTED on return.
  void connect(std::string_view private_data = {}, std::string_view accept_data = {});
  // Starts the connect and returns the CR that arrives.
  DAT_CR_HANDLE connect_and_take_cr(DAT_TIMEOUT timeout = kPatience,
                                    std::string_view private_data = {});
  // Ends a connection and takes the events of both sides.
  void disconnect(DAT_CLOSE_FLAGS flags = DAT_CLOSE_ABRUPT_FLAG);

  Ia ia;
  Pz pz;
  Evd cr_evd;
  DAT_CONN_QUAL conn_qual;
  Psp psp;
  End active;
  End passive;
};

// Empties an EVD; returns how many events it held.
int drain(DAT_EVD_HANDLE evd);

}  // namespace conformance
