// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"
#include "peer.h"

#include <optional>

namespace conformance {

// These two pass by themselves, but not while the peer does not go on. COMPLETION_PENDING may pass
// all the same where the adapter answers without the process.
inline bool passes_by_itself(DAT_EP_STATE state) {
  return state == DAT_EP_STATE_COMPLETION_PENDING || state == DAT_EP_STATE_DISCONNECT_PENDING;
}

// A fresh EP in a state, and what operations on it need. Freed with all that they gave it.
struct Subject {
  static constexpr std::size_t kSize = 64;

  explicit Subject(DAT_EP_STATE state);
  ~Subject();
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  [[nodiscard]] DAT_COMM comm() const;
  // For common_connect, where the state is right for it. Refused where there is no common model:
  // then common_connect is, too.
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
  Ep accepted_ep;  // the TENTATIVE one, when it became ours
  DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;  // the subject
  End* end = nullptr;                  // whose EVDs it uses
  bool reached = false;

 private:
  void use(End& one);
  void bring_to(DAT_EP_STATE state);
  DAT_CONN_QUAL reserve();
  // An EP that the provider made, with the PZ and the EVDs that it needs to be used.
  void take_provider_ep();
};

}  // namespace conformance
