// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"
#include "peer.h"

#include <optional>

namespace conformance {

// These two states end by themselves, but not while the peer is stopped. COMPLETION_PENDING may end
// even then, if the adapter answers without the peer's process.
inline bool is_transient(DAT_EP_STATE state) {
  return state == DAT_EP_STATE_COMPLETION_PENDING || state == DAT_EP_STATE_DISCONNECT_PENDING;
}

// A fresh EP in a given state, and the objects that operations on it need. The destructor frees all
// of them, including those that operations have added.
struct Subject {
  static constexpr std::size_t kSize = 64;

  explicit Subject(DAT_EP_STATE state);
  ~Subject();
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  [[nodiscard]] DAT_COMM comm() const;
  // Prepares for common_connect, if the state allows that. Refused where the provider lacks the
  // common model; then common_connect is refused, too.
  void configure_comm(DAT_EP_HANDLE of) const;
  [[nodiscard]] DAT_CR_HANDLE take_cr() const;
  DAT_RETURN connect(DAT_EP_HANDLE from, DAT_CONN_QUAL to) const;
  // A second connection, to the service point of the pair.
  void connect_others();
  [[nodiscard]] DAT_EP_PARAM query() const { return query_ep(ep); }

  PairWithProcess with_process;
  Pair& pair;
  Buffer buffer;
  Pz other_pz;
  Evd other_evd;
  End other_active;
  End other_passive;
  Rsp rsp;
  Psp provider_psp;
  Rmr rmr;
  Ep accepted_ep;  // the EP of the provider, once the test owns it
  DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;  // the subject
  End* end = nullptr;                  // the owner of the subject's EVDs
  bool reached = false;

 private:
  void use(End& one);
  void reach(DAT_EP_STATE state);
  DAT_CONN_QUAL reserve();
  // Obtains an EP created by the provider, and gives it the PZ and the EVDs that it needs.
  void take_provider_ep();
};

}  // namespace conformance
