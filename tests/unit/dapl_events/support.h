// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <dat/udat_redirection.h>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/tracing/trace.h"
#include "dapl/endpoint/srq.h"
#include "dapl/events/evd.h"
#include "dapl/objects/ia.h"
#include "tests/fake_transport/fake.h"
#include "tests/fake_transport/registry.h"

namespace udapl::test {

// An enumeration value that need not be an enumerator: C callers can pass any number.
template <class Enum>
[[nodiscard]] Enum any_value(int value) {
  const volatile int hidden = value;
  return static_cast<Enum>(hidden);
}

constexpr DAT_TIMEOUT kForever = DAT_TIMEOUT_INFINITE;
constexpr DAT_TIMEOUT kSoon = 20'000;  // microseconds
constexpr DAT_TIMEOUT kLate = 20'000'000;
inline constexpr DAT_OS_WAIT_PROXY_AGENT kNoAgent{nullptr, nullptr};

constexpr unsigned kDto = DAT_EVD_DTO_FLAG;
constexpr unsigned kSoftware = DAT_EVD_SOFTWARE_FLAG;
constexpr unsigned kConnection = DAT_EVD_CONNECTION_FLAG;

[[nodiscard]] inline DAT_EVENT connection_event(DAT_EVENT_NUMBER number) {
  DAT_EVENT event{};
  event.event_number = number;
  return event;
}

[[nodiscard]] constexpr DAT_RETURN type_of(DAT_RETURN code) { return code & DAT_TYPE_MASK; }
[[nodiscard]] constexpr bool is_error(DAT_RETURN code, DAT_RETURN type) {
  return code != DAT_SUCCESS && (code & DAT_CLASS_ERROR) != 0 && type_of(code) == type;
}

[[nodiscard]] constexpr DAT_RETURN invalid_handle(DAT_RETURN which) {
  return dat_error(DAT_INVALID_HANDLE, which);
}
[[nodiscard]] constexpr DAT_RETURN invalid_parameter(DAT_RETURN which) {
  return dat_error(DAT_INVALID_PARAMETER, which);
}
[[nodiscard]] constexpr DAT_RETURN invalid_state(DAT_RETURN why) {
  return dat_error(DAT_INVALID_STATE, why);
}

// Checks a return code; a failure prints it in hexadecimal.
#define CHECK_CODE(call, code)                                                                 \
  do {                                                                                         \
    const DAT_RETURN got_ = (call);                                                            \
    BOOST_CHECK_MESSAGE(got_ == static_cast<DAT_RETURN>(code),                                 \
                        #call << " gave 0x" << std::hex << got_ << ", expected 0x" << (code)); \
  } while (false)
#define REQUIRE_OK(call)                                                                 \
  do {                                                                                   \
    const DAT_RETURN got_ = (call);                                                      \
    BOOST_REQUIRE_MESSAGE(got_ == DAT_SUCCESS, #call << " gave 0x" << std::hex << got_); \
  } while (false)
#define CHECK_ERROR(call, type) CHECK_CODE((call) & ~DAT_SUBTYPE_MASK, DAT_CLASS_ERROR | (type))

// Registers the name "fake" for both tables, and resets the whole fake transport.
class Providers {
 public:
  static constexpr const char* kName = "fake";
  Providers();
  ~Providers();
  Providers(const Providers&) = delete;
  Providers& operator=(const Providers&) = delete;
  [[nodiscard]] static DAT_PROVIDER_INFO info(const char* name, bool thread_safe);
};

// An open IA, closed abruptly by the destructor unless the test has closed it. `evd` as in
// dat_ia_open.
class OpenIa {
 public:
  explicit OpenIa(bool thread_safe = true, DAT_EVD_HANDLE evd = DAT_HANDLE_NULL,
                  DAT_COUNT qlen = 8);
  ~OpenIa();
  OpenIa(const OpenIa&) = delete;
  OpenIa& operator=(const OpenIa&) = delete;

  const DAT_PROVIDER* operator->() const { return table; }
  [[nodiscard]] dapl::Ia& object() const { return *static_cast<dapl::Ia*>(raw); }
  DAT_RETURN close(DAT_CLOSE_FLAGS flags = DAT_CLOSE_ABRUPT_FLAG);

  [[nodiscard]] DAT_EVD_HANDLE evd(unsigned flags, DAT_COUNT qlen = 16,
                                   DAT_CNO_HANDLE cno = DAT_HANDLE_NULL) const;
  [[nodiscard]] DAT_CNO_HANDLE cno(DAT_OS_WAIT_PROXY_AGENT agent = kNoAgent) const;
  [[nodiscard]] DAT_PZ_HANDLE pz() const;
  [[nodiscard]] DAT_SRQ_HANDLE srq(DAT_PZ_HANDLE zone, DAT_COUNT buffers = 64) const;
  // Posts a software event that carries `value`.
  DAT_RETURN post(DAT_EVD_HANDLE queue, std::uintptr_t value = 0) const;
  // Dequeues a software event and returns its value, or -1 if there is none.
  [[nodiscard]] long take(DAT_EVD_HANDLE queue) const;

  const DAT_PROVIDER* table;
  DAT_IA_HANDLE raw = DAT_HANDLE_NULL;
  DAT_IA_HANDLE number = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
};

struct Fixture {
  Providers providers;
  OpenIa ia;
};

// Makes completions appear on the CQ of an EVD, as finished receives of an SRQ.
class Completions {
 public:
  Completions(const OpenIa& ia, DAT_EVD_HANDLE evd, DAT_COUNT buffers = 512);

  // Adds a completion with `value` as its cookie. `notify`: it is a notification completion.
  void push(std::uint64_t value, bool notify = true);
  void push_suppressed();
  void push_of(const void* ep, std::uint64_t value);
  [[nodiscard]] int outstanding() const;
  [[nodiscard]] fake::Cq& cq() const { return cq_; }

 private:
  dapl::SrqCookie& claim(std::uint64_t value);

  dapl::Srq& srq_;
  fake::Cq& cq_;
};

[[nodiscard]] inline dapl::Evd& object(DAT_EVD_HANDLE handle) {
  return *static_cast<dapl::Evd*>(handle);
}
[[nodiscard]] inline std::uint64_t cookie(const DAT_EVENT& event) {
  return event.event_data.dto_completion_event_data.user_cookie.as_64;
}

// Waits until the EVD has a waiter.
void await_waiter(DAT_EVD_HANDLE evd);

// Collects the traces of every level during its lifetime. Only one may exist at a time.
class Traced {
 public:
  struct Line {
    trace::Kind kind;
    int level;
    std::int64_t code;
    std::uint64_t cookie, length;
    const void* object;
    std::string ia, type, function, text, detail, status;
  };
  Traced();
  ~Traced();
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

  // The lines of one kind, oldest first.
  [[nodiscard]] std::vector<Line> of(trace::Kind kind) const;
  // Returns whether a line of this level contains `piece`.
  [[nodiscard]] bool has(trace::Level level, std::string_view piece) const;
};

// Runs the scheduler in its own thread, like a transport's service thread.
class ServiceThread {
 public:
  ServiceThread();
  ~ServiceThread();
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Waits until the agent calls that are queued now have returned.
void finish_agents(const OpenIa& ia);

// A proxy agent that counts its calls.
struct CountingAgent {
  std::atomic<int> calls{0};
  std::atomic<DAT_EVD_HANDLE> latest{nullptr};
  [[nodiscard]] DAT_OS_WAIT_PROXY_AGENT agent() {
    return {this, [](DAT_PVOID self, DAT_EVD_HANDLE evd) {
              auto* const counting = static_cast<CountingAgent*>(self);
              counting->latest = evd;
              ++counting->calls;
            }};
  }
};

}  // namespace udapl::test
