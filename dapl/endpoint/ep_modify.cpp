// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_ep_modify builds a new configuration beside the old one, checks it as a whole, and replaces
// the old one in one step or not at all.
#include "dapl/endpoint/ep.h"
#include "dapl/endpoint/ep_field_names.h"
#include "dapl/endpoint/named_attributes.h"
#include "dapl/objects/await_posts.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

#include <algorithm>

namespace udapl::dapl {
namespace {

constexpr DAT_EP_PARAM_MASK kReadOnly =
    DAT_EP_FIELD_IA_HANDLE | DAT_EP_FIELD_EP_STATE | DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR |
    DAT_EP_FIELD_LOCAL_PORT_QUAL | DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR |
    DAT_EP_FIELD_REMOTE_PORT_QUAL;

void copy_attributes(DAT_EP_PARAM_MASK mask, const DAT_EP_ATTR& from, DAT_EP_ATTR* to) noexcept {
  const auto copy = [mask](DAT_EP_PARAM_MASK field, const auto& source, auto* target) {
    if ((mask & field) != 0) *target = source;
  };
  copy(DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE, from.service_type, &to->service_type);
  copy(DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, from.max_message_size, &to->max_message_size);
  copy(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE, from.max_rdma_size, &to->max_rdma_size);
  copy(DAT_EP_FIELD_EP_ATTR_QOS, from.qos, &to->qos);
  copy(DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, from.recv_completion_flags,
       &to->recv_completion_flags);
  copy(DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS, from.request_completion_flags,
       &to->request_completion_flags);
  copy(DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, from.max_recv_dtos, &to->max_recv_dtos);
  copy(DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, from.max_request_dtos, &to->max_request_dtos);
  copy(DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, from.max_recv_iov, &to->max_recv_iov);
  copy(DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV, from.max_request_iov, &to->max_request_iov);
  copy(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN, from.max_rdma_read_in, &to->max_rdma_read_in);
  copy(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT, from.max_rdma_read_out, &to->max_rdma_read_out);
  copy(DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW, from.srq_soft_hw, &to->srq_soft_hw);
  copy(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV, from.max_rdma_read_iov, &to->max_rdma_read_iov);
  copy(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV, from.max_rdma_write_iov, &to->max_rdma_write_iov);
}

// If the mask has all attributes, programs often pass the structure that they filled in for
// dat_ep_create, whose named attributes may never have been initialised.
Status name_attributes(DAT_EP_PARAM_MASK mask, const transport::Attributes& adapter,
                       const DAT_EP_ATTR& from, EpConfig* wanted) {
  if ((mask & DAT_EP_FIELD_EP_ATTR_ALL) == DAT_EP_FIELD_EP_ATTR_ALL) {
    adopt_ep_attributes(adapter, from, wanted);
    return Status();
  }
  if ((mask & DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR) != 0 &&
      from.ep_transport_specific_count != 0)  // no transport has any
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "%d transport attributes by name",
                 from.ep_transport_specific_count);
  if ((mask & DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR) == 0) return Status();
  return apply_ep_attributes(adapter, from, DAT_INVALID_ARG3, wanted);
}

// A direction without DTOs, as in an EP that the provider has created, gets the default number when
// it gets an EVD.
void default_dtos(DAT_EP_PARAM_MASK mask, const transport::Attributes& limits,
                  EpConfig* wanted) noexcept {
  const DAT_COUNT dtos = std::min(kDefaultDtos, limits.max_dto_per_ep);
  if ((mask & DAT_EP_FIELD_RECV_EVD_HANDLE) != 0 && wanted->recv_evd != nullptr &&
      (mask & DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS) == 0 && wanted->attr.max_recv_dtos == 0)
    wanted->attr.max_recv_dtos = dtos;
  if ((mask & DAT_EP_FIELD_REQUEST_EVD_HANDLE) != 0 && wanted->request_evd != nullptr &&
      (mask & DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS) == 0 && wanted->attr.max_request_dtos == 0)
    wanted->attr.max_request_dtos = dtos;
}

// The cookie limits of an EP. The destructor undoes set() unless keep() has been called.
class CookieLimits {
 public:
  explicit CookieLimits(Ep& ep) noexcept
      : ep_(ep), requests_(ep.requests.cookies.limit()), receives_(ep.receives.cookies.limit()) {}
  ~CookieLimits() {
    if (!kept_) static_cast<void>(set(requests_, receives_));  // needs no memory: does not throw
  }
  CookieLimits(const CookieLimits&) = delete;
  CookieLimits& operator=(const CookieLimits&) = delete;

  // Returns false if posted receives prevent the change. Throws std::bad_alloc.
  [[nodiscard]] bool set(std::uint32_t requests, std::uint32_t receives) {
    {
      const ScopedLock lock(ep_.requests.lock);
      ep_.requests.cookies.resize(requests);
    }
    const ScopedLock lock(ep_.receives.lock);
    if (!ep_.receives.cookies.can_resize(receives)) return false;
    ep_.receives.cookies.resize(receives);
    return true;
  }
  void keep() noexcept { kept_ = true; }

 private:
  Ep& ep_;
  const std::uint32_t requests_;
  const std::uint32_t receives_;
  bool kept_ = false;
};

// During its lifetime posts of receives wait, without a lock: a receive posted while the transport
// replaces the queue would be lost with the old queue. Posts of requests need not wait, because
// they are refused in the states in which an EP can be modified.
class ReceivePostsPaused {
 public:
  // Waits for posts in progress.
  explicit ReceivePostsPaused(Ep& ep) noexcept : ep_(ep) {
    {
      const ScopedLock lock(ep.receives.lock);
      ep.receives.exchanging = true;
      gate_ = ep.receive_gate.exchange(ObjectHeader::kShut, std::memory_order_relaxed);
    }
    if (gate_ == 0) await_posts(ep);
  }
  ~ReceivePostsPaused() {
    const ScopedLock lock(ep_.receives.lock);
    ep_.receives.exchanging = false;
    if (!published_) ep_.receive_gate.store(gate_, std::memory_order_relaxed);
  }
  ReceivePostsPaused(const ReceivePostsPaused&) = delete;
  ReceivePostsPaused& operator=(const ReceivePostsPaused&) = delete;
  // Called when the new configuration has set the gate, which then stays as it is.
  void published() noexcept { published_ = true; }

 private:
  Ep& ep_;
  std::uint32_t gate_ = ObjectHeader::kShut;
  bool published_ = false;
};

// Whether the QP can stay as it is.
bool same_queues(const EpConfig& a, const EpConfig& b) noexcept {
  const DAT_EP_ATTR& x = a.attr;
  const DAT_EP_ATTR& y = b.attr;
  return a.pz == b.pz && a.recv_evd == b.recv_evd && a.request_evd == b.request_evd &&
         x.recv_completion_flags == y.recv_completion_flags && x.max_recv_dtos == y.max_recv_dtos &&
         x.max_request_dtos == y.max_request_dtos && x.max_recv_iov == y.max_recv_iov &&
         x.max_request_iov == y.max_request_iov && x.max_rdma_read_iov == y.max_rdma_read_iov &&
         x.max_rdma_write_iov == y.max_rdma_write_iov && x.max_rdma_read_in == y.max_rdma_read_in &&
         x.max_rdma_read_out == y.max_rdma_read_out && a.delayed_ack == b.delayed_ack;
}

}  // namespace

Status Ep::modify(DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM& param) {
  Parts retired;  // destroyed after the lock is released
  const ScopedLock lock(mutex_);
  EpConfig wanted = config_;
  // Programs that set all handles name the one that the EP has, or none.
  if ((mask & DAT_EP_FIELD_SRQ_HANDLE) != 0 && param.srq_handle != config_.srq)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "another SRQ than that of the EP");
  const EpHandles handles{param.pz_handle, param.recv_evd_handle, param.request_evd_handle,
                          param.connect_evd_handle};
  if (const Status status = read_handles(handles, mask, &wanted); !status.ok()) return status;
  if ((mask & DAT_EP_FIELD_COMM) != 0) wanted.comm = param.comm;
  copy_attributes(mask, param.ep_attr, &wanted.attr);
  if (const Status named = name_attributes(mask, ia->attributes(), param.ep_attr, &wanted);
      !named.ok())
    return named;
  default_dtos(mask, ia->attributes(), &wanted);
  if ((mask & (DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN | DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT)) !=
      0)
    wanted.default_read_depths = false;
  if ((mask & DAT_EP_FIELD_COMM) != 0 && wanted.comm.domain == 0)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "communicator without a domain");
  if (const Status status = check_config(*ia, wanted, DAT_INVALID_ARG3); !status.ok())
    return status;

  const DAT_EP_STATE now = state();
  const bool legal = (mask & DAT_EP_FIELD_COMM) != 0 && now != DAT_EP_STATE_UNCONNECTED ? false
                     : (mask & DAT_EP_FIELD_PZ_HANDLE) != 0 ? pz_modifiable(now)
                                                            : mask == 0 || modifiable(now);
  if (!legal) {
    const Status status(wrong_state(now));
    UDAPL_EXPLAIN(kNormal, status.code(), "ep %p: %s cannot be modified in state %s",
                  static_cast<void*>(this), EpFieldNames(mask).c_str(), name(now));
    return status;
  }
  if (mask == 0) return Status();
  if (const Status status = configure(wanted, retired); !status.ok()) return status;
  if ((mask & DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW) != 0 && wanted.srq != nullptr) {
    preset_soft_watermark();
    if (qp_ != nullptr) qp_->set_watermarks(soft_watermark_, hard_watermark_);
  }
  return Status();
}

Status Ep::configure(const EpConfig& wanted, Parts& retired) {
  // Steps that can fail for lack of memory come first, then those that can be undone, the QP last.
  Parts fresh;
  fresh.bindings = std::make_unique<EpBindings>(wanted);
  ReceivePostsPaused paused(*this);
  CookieLimits limits(*this);
  if (const Status status = check_posted(wanted); !status.ok()) return status;
  const DAT_COUNT dtos = wanted.srq == nullptr ? wanted.attr.max_recv_dtos : 0;
  if (!limits.set(static_cast<std::uint32_t>(wanted.attr.max_request_dtos),
                  static_cast<std::uint32_t>(dtos)))
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_EVD_RECV,
                 "max_recv_dtos %d with receives posted", dtos);

  if (const Status status = exchange_queues(wanted, fresh); !status.ok()) return status;
  limits.keep();
  config_ = wanted;
  fresh.bindings->attach();
  bindings_->detach();
  std::swap(bindings_, fresh.bindings);
  publish();
  paused.published();
  retired = std::move(fresh);
  return Status();
}

// Posted receives prevent some changes.
Status Ep::check_posted(const EpConfig& wanted) {
  const std::uint32_t posted = receives.cookies.outstanding();
  if (posted == 0 || wanted.srq != nullptr) return Status();
  const auto dtos = static_cast<std::uint32_t>(wanted.attr.max_recv_dtos);
  if (dtos < posted)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "max_recv_dtos %u, %u are posted", dtos,
                 posted);
  return Status();
}

// Leaves the parts that are no longer needed in `fresh`.
Status Ep::exchange_queues(const EpConfig& wanted, Parts& fresh) {
  if (same_queues(config_, wanted) && (qp_ != nullptr) == (wanted.pz != nullptr)) return Status();
  if (wanted.pz == nullptr) {
    const ScopedLock lock(receives.lock);
    if (receives.cookies.outstanding() != 0)
      UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_PZ,
                   "ep %p: receives are posted in its PZ", static_cast<void*>(this));
    receives.qp = nullptr;
    receive_gate.store(kShut, std::memory_order_relaxed);
    fresh.qp = std::move(qp_);
    fresh.discard = std::move(discard_);
    return Status();
  }
  if (const Status status = make_discard(wanted, &fresh.discard); !status.ok()) return status;
  const transport::QpInit init = qp_init(wanted, fresh.discard.get());
  if (qp_ == nullptr) {
    auto qp = ia->adapter().create_qp(init);
    if (!qp.ok()) return qp.status();
    qp_ = *std::move(qp);
    arm_watermarks();
  } else if (const Status status = qp_->modify(init); !status.ok()) {
    UDAPL_TRACE(kNormal, "ep %p: the transport failed to modify: 0x%x", static_cast<void*>(this),
                status.code());
    return status;
  }
  std::swap(discard_, fresh.discard);
  return Status();
}

namespace calls {

DAT_RETURN ep_modify(DAT_EP_HANDLE handle, DAT_EP_PARAM_MASK mask,
                     const DAT_EP_PARAM* param) noexcept {
  return boundary([&]() -> Status {
    const auto ep = require<Ep>(handle);
    if (ep == nullptr) return ep.refusal();
    if (const DAT_EP_PARAM_MASK fixed = mask & (kReadOnly | ~DAT_EP_FIELD_ALL); fixed != 0)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "%s cannot be modified",
                   EpFieldNames(fixed).c_str());
    if (param == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null parameters");
    return ep->modify(mask, *param);
  });
}

}  // namespace calls
}  // namespace udapl::dapl
