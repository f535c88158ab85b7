// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "dapl/endpoint/ep.h"
#include "dapl/objects/ep_state.h"
#include "tests/unit/dapl_events/support.h"

namespace udapl::test {

constexpr DAT_CONN_QUAL kService = 4711;
constexpr auto kDefault = DAT_COMPLETION_DEFAULT_FLAG;

// Registered memory, with all privileges by default.
class Buffer {
 public:
  Buffer(const OpenIa& ia, DAT_PZ_HANDLE pz, std::size_t size = 256,
         unsigned privileges = DAT_MEM_PRIV_ALL_FLAG);

  [[nodiscard]] DAT_LMR_TRIPLET local(DAT_SEG_LENGTH length, std::size_t offset = 0);
  [[nodiscard]] DAT_RMR_TRIPLET remote(DAT_SEG_LENGTH length, std::size_t offset = 0);

  std::vector<std::uint8_t> bytes;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT context = 0;
  DAT_RMR_CONTEXT remote_context = 0;
};

// An EP and its EVDs.
struct Side {
  DAT_EVD_HANDLE recv_evd = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE request_evd = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE connect_evd = DAT_HANDLE_NULL;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

// An open IA with a PZ and a CR EVD.
struct Rig : Fixture {
  // `adjust` changes the attributes that the adapter reports.
  using Adjust = void (*)(transport::Attributes&);
  explicit Rig(bool thread_safe = true, Adjust adjust = nullptr);

  // Attributes that need all three EVDs: 8 receives, 8 requests, 2 segments.
  [[nodiscard]] static DAT_EP_ATTR attributes();
  // A new EP with new EVDs.
  [[nodiscard]] Side side(const DAT_EP_ATTR& attr = attributes()) const;
  [[nodiscard]] Side srq_side(DAT_SRQ_HANDLE srq) const;
  [[nodiscard]] static fake::Qp& qp(DAT_EP_HANDLE ep);
  // Does the pending work of the service thread.
  static int run() { return fake::Scheduler::instance().run(); }

  DAT_PSP_HANDLE psp(DAT_CONN_QUAL conn_qual = kService,
                     DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG) const;
  DAT_RETURN connect(DAT_EP_HANDLE ep, DAT_CONN_QUAL conn_qual = kService,
                     const std::vector<std::uint8_t>& data = {}) const;
  // Dequeues the oldest CR event; fails the test if there is none.
  [[nodiscard]] DAT_CR_ARRIVAL_EVENT_DATA take_request() const;
  [[nodiscard]] DAT_CR_HANDLE take_cr() const { return take_request().cr_handle; }
  // Connects two EPs through a new PSP.
  void join(const Side& active, const Side& passive) const;
  // Makes a new side and brings its EP to `state`.
  [[nodiscard]] Side reach(DAT_EP_STATE state);

  [[nodiscard]] DAT_EP_STATE state(DAT_EP_HANDLE ep) const;
  // Dequeues the oldest connection event and returns its number, or 0 if there is none.
  int take_connection(DAT_EVD_HANDLE evd, DAT_EVENT* event = nullptr) const;
  // Dequeues the oldest completion; fails the test if there is none.
  DAT_DTO_COMPLETION_EVENT_DATA take_dto(DAT_EVD_HANDLE evd) const;
  [[nodiscard]] bool empty(DAT_EVD_HANDLE evd) const;

  DAT_RETURN post_recv(DAT_EP_HANDLE ep, Buffer& buffer, std::uint64_t cookie,
                       DAT_SEG_LENGTH length = 64, unsigned flags = kDefault) const;
  DAT_RETURN post_send(DAT_EP_HANDLE ep, Buffer& buffer, std::uint64_t cookie,
                       DAT_SEG_LENGTH length = 64, unsigned flags = kDefault) const;

  DAT_PZ_HANDLE pz;
  DAT_EVD_HANDLE cr_evd;
  std::vector<DAT_CR_HANDLE> pending_crs;  // left by reach()
};

// An enumeration value that is not an enumerator, as a C program can pass it.
template <class Enum>
[[nodiscard]] Enum raw_enum(int value) {
  Enum made{};
  static_assert(sizeof made == sizeof value);
  std::memcpy(&made, &value, sizeof made);
  return made;
}

[[nodiscard]] inline DAT_DTO_COOKIE cookie_of(std::uint64_t value) {
  DAT_DTO_COOKIE cookie{};
  cookie.as_64 = value;
  return cookie;
}
[[nodiscard]] inline dapl::Ep& ep_object(DAT_EP_HANDLE handle) {
  return *static_cast<dapl::Ep*>(handle);
}
[[nodiscard]] inline DAT_COMPLETION_FLAGS flags_of(unsigned flags) {
  return raw_enum<DAT_COMPLETION_FLAGS>(static_cast<int>(flags));
}

}  // namespace udapl::test
