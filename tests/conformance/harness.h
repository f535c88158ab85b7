// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "checks.h"
#include "owners.h"

#include <atomic>
#include <optional>
#include <string_view>

// What every conformance test needs: besides checks and owners, events and a connected pair of EPs.
// It uses only the public C API, so that the suite runs on any provider.
namespace conformance {

// ---- threads ----

// Lets one thread proceed once another one sleeps, i.e. has entered its wait. If the wait never
// sleeps, the thread proceeds after two seconds.
class Sleeper {
 public:
  void announce();            // called by the waiting thread, before its wait
  void until_asleep() const;  // called by the other thread

 private:
  std::atomic<int> thread_{0};  // its id; 0: not announced
};

// ---- events ----

// Waits for the next event of `evd` for up to `timeout`. Returns nullopt if none arrives. Any other
// outcome fails the test.
std::optional<DAT_EVENT> next_event(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout = kPatience);
// The next event, which must have this number.
DAT_EVENT expect_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);
// The next event, which must be a DTO completion with this status and this cookie.
DAT_DTO_COMPLETION_EVENT_DATA expect_dto(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_STATUS status,
                                         std::uint64_t cookie_value);
// The same with any status that reports a failure of this DTO itself, i.e. not FLUSHED. Returns the
// status.
DAT_DTO_COMPLETION_STATUS expect_dto_failure(DAT_EVD_HANDLE evd, std::uint64_t cookie_value);
// No event arrives within kQuiet.
void expect_silence(DAT_EVD_HANDLE evd);
// The next event must be the end of a connection: DISCONNECTED or BROKEN. Returns which.
DAT_EVENT_NUMBER expect_connection_end(DAT_EVD_HANDLE evd);

// Make a software event that carries a number, post one, and return the number in a received one.
DAT_EVENT software_event(std::uintptr_t number = 0);
DAT_RETURN post_software(DAT_EVD_HANDLE evd, std::uintptr_t number = 0);
std::uintptr_t number_of(const DAT_EVENT& event);

DAT_EVD_PARAM query_evd(DAT_EVD_HANDLE evd);  // every field
DAT_EP_STATE ep_state(DAT_EP_HANDLE ep);
DAT_EP_PARAM query_ep(DAT_EP_HANDLE ep);  // every field

// ---- a connected pair ----

struct End {
  Evd recv_evd;
  Evd request_evd;
  Evd connect_evd;
  Ep ep;

  // Creates the EVDs and the EP. If `attr` is null, with the provider's defaults.
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

// Two EPs of one IA and one PZ, in this process. They are not connected at first.
struct Pair {
  explicit Pair(const DAT_EP_ATTR* attr = nullptr);
  ~Pair();
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // Connects active to passive. Both are CONNECTED on return.
  void connect(std::string_view private_data = {}, std::string_view accept_data = {});
  // Connects two other EPs through the service point; `to` may be of another IA than `from`.
  void connect(const End& from, const End& to);
  // Starts the connect and returns the CR that arrives.
  DAT_CR_HANDLE connect_and_take_cr(DAT_TIMEOUT timeout = kPatience,
                                    std::string_view private_data = {});
  // Ends the connection and takes the events of both sides.
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

// How many completions more than its length an EVD may hold: providers may need entries for
// themselves.
inline constexpr DAT_COUNT kSpareEntries = 128;
// Sends `count` times a byte of `from`, or until the connection breaks. Takes the completions.
void send_many(const End& end, const Buffer& from, DAT_COUNT count);

}  // namespace conformance
