// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/evd.h"
#include "dapl/object.h"
#include "dapl/pz.h"
#include "dapl/srq.h"
#include "dapl/transport/adapter.h"

#include <memory>

namespace udapl::dapl {

// What the consumer configured: what dat_ep_query returns and dat_ep_modify changes.
struct EpConfig {
  Pz* pz = nullptr;
  Evd* recv_evd = nullptr;
  Evd* request_evd = nullptr;
  Evd* connect_evd = nullptr;
  Srq* srq = nullptr;
  DAT_COMM comm{};  // domain 0: not set
  DAT_EP_ATTR attr{};
  bool delayed_ack = false;         // the named attribute; attr shows it (named_attributes.h)
  bool default_read_depths = true;  // nobody asked for them: negotiation may lower them
};

// Outstanding requests and receives of an EP that is made without attributes.
inline constexpr DAT_COUNT kDefaultDtos = 16;

// The attributes of an EP made without any (semantics 3.8). A direction without EVD has no DTOs.
[[nodiscard]] DAT_EP_ATTR default_attributes(const transport::Attributes& limits, bool recv_evd,
                                             bool request_evd) noexcept;

// Do the objects belong together and are the attributes within the limits? Traces what is not.
// INVALID_HANDLE with the object's subtype, INVALID_PARAMETER with subtype `arg`,
// MODEL_NOT_SUPPORTED.
[[nodiscard]] Status check_config(const Ia& ia, const EpConfig& config, DAT_RETURN arg) noexcept;

// How an attribute value counts: 0 is EVD_THRESHOLD.
[[nodiscard]] constexpr DAT_COMPLETION_FLAGS completion_mode(DAT_COMPLETION_FLAGS flags) noexcept {
  return flags == DAT_COMPLETION_DEFAULT_FLAG ? DAT_COMPLETION_EVD_THRESHOLD_FLAG : flags;
}

// What an EP uses, for as long as it lives: counts the objects and feeds the EVDs. Not thread-safe:
// the Ep's lock protects it.
class EpBindings {
 public:
  // INVALID_PARAMETER: a completion mode does not fit the other streams of its EVD.
  // Throws std::bad_alloc.
  static Result<std::unique_ptr<EpBindings>> make(const EpConfig& config);

  explicit EpBindings(const EpConfig& config) noexcept;
  ~EpBindings() { detach(); }
  EpBindings(const EpBindings&) = delete;
  EpBindings& operator=(const EpBindings&) = delete;

  // Feeds the EVDs. INVALID_PARAMETER as make(); then neither is fed.
  [[nodiscard]] Status attach() noexcept;
  void detach() noexcept;

 private:
  Use<Pz> pz_;
  Use<Evd> recv_evd_;
  Use<Evd> request_evd_;
  Use<Evd> connect_evd_;
  Use<Srq> srq_;
  DAT_COMPLETION_FLAGS recv_mode_;
  DAT_COMPLETION_FLAGS request_mode_;
  bool attached_ = false;
};

}  // namespace udapl::dapl
