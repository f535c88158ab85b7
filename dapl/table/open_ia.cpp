// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/table/open_ia.h"

#include "common/process_barrier.h"
#include "dapl/endpoint/ep.h"
#include "dapl/endpoint/named_attributes.h"
#include "dapl/endpoint/srq.h"
#include "dapl/events/cno.h"
#include "dapl/events/evd.h"
#include "dapl/memory/lmr.h"
#include "dapl/memory/pz.h"
#include "dapl/memory/rmr.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"
#include "dapl/service/cr.h"
#include "dapl/service/csp.h"
#include "dapl/service/psp.h"
#include "dapl/service/rsp.h"
#include "dapl/table/provider.h"

namespace udapl::dapl {

OpenIa::OpenIa(Provider& owner) : Ia(&owner.table()), owner_(owner) {}

// Every object is destroyed before those that it uses: first the ones that listen or carry data,
// then memory, then events. No lock is held, because the transport's destructors wait for a running
// sink call of their object.
OpenIa::~OpenIa() {
  AsyncEvds::instance().leave(async_, own_async_evd_);
  destroy_all<Psp>();
  destroy_all<Rsp>();
  destroy_all<Csp>();
  destroy_all<Cr>();
  destroy_all<Ep>();
  destroy_all<Srq>();
  destroy_all<Rmr>();
  destroy_all<Lmr>();
  destroy_all<Pz>();
  destroy_all<Evd>();
  destroy_all<Cno>();
  adapter_.reset();  // joins the service thread
  visits_.wait_until_empty();
}

Status OpenIa::open(Provider& provider, DAT_COUNT async_evd_min_qlen, DAT_EVD_HANDLE* async_evd,
                    DAT_IA_HANDLE* ia) {
  if (*async_evd == DAT_HANDLE_NULL && async_evd_min_qlen <= 0)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "async EVD queue length %d",
                 async_evd_min_qlen);
  prepare_process_barrier();  // before the adapter has a thread
  Owned<OpenIa> opened = make_object<OpenIa>(provider);
  auto adapter = provider.open_adapter()(provider.ia_params(), opened->sink_);
  if (!adapter.ok()) {
    UDAPL_TRACE_ERROR(kError, adapter.status().code(),
                      "IA \"%s\" with parameters \"%s\" could not be opened",
                      provider.info().ia_name, provider.ia_params().c_str());
    return adapter.status();
  }
  opened->adapter_ = *std::move(adapter);
  opened->vendor_attributes_ = dapl::vendor_attributes(opened->attributes());
  for (const auto& [name, value] : opened->attributes().provider_specific)
    opened->named_attributes_.push_back({name.c_str(), value.c_str()});

  DAT_EVD_HANDLE chosen = *async_evd;
  if (const Status status = opened->choose_async_evd(async_evd_min_qlen, &chosen); !status.ok())
    return status;
  *async_evd = chosen;
  *ia = opened.release();
  return Status();
}

Status OpenIa::choose_async_evd(DAT_COUNT qlen, DAT_EVD_HANDLE* async_evd) {
  Evd* evd = nullptr;
  if (*async_evd == DAT_HANDLE_NULL) {
    // Programs ask for room for 8 events, although each of their dozens of EPs may cause one. A
    // request for more than the adapter supports is reduced, not refused.
    constexpr DAT_COUNT kMinEvents = 256;
    auto made = Evd::create(*this, std::min(std::max(qlen, kMinEvents), attributes().max_evd_qlen),
                            DAT_EVD_ASYNC_FLAG, nullptr);
    if (!made.ok()) return made.status();
    evd = own_async_evd_ = &adopt(*std::move(made));
    *async_evd = evd;
  } else if (*async_evd == DAT_EVD_ASYNC_EXISTS) {
    *async_evd = DAT_EVD_OUT_OF_SCOPE;
  } else {
    evd = handle_cast<Evd>(*async_evd);
    if (evd == nullptr || (evd->flags() & DAT_EVD_ASYNC_FLAG) == 0 ||
        !AsyncEvds::instance().knows(*evd->ia))
      UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EVD_ASYNC,
                   "%p is not an async EVD of an open adapter of this library", *async_evd);
  }
  AsyncEvds::instance().join(async_, evd);
  return Status();
}

Status OpenIa::close(DAT_CLOSE_FLAGS flags) {
  if (Upcall::running_in_this_thread(*this))
    UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE,
                 "IA %p: closed by a proxy agent of its own", static_cast<void*>(this));
  {
    Closing closing(*this);
    if (!closing.begin())
      UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE,
                   "IA %p: closed by a proxy agent that an agent of this IA waits for",
                   static_cast<void*>(this));
    if (flags == DAT_CLOSE_GRACEFUL_FLAG && has_consumer_objects())
      UDAPL_REFUSE(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE, "IA %p: objects are left",
                   static_cast<void*>(this));
    evict_visitors();
  }
  Owned<OpenIa>(this).reset();
  return Status();
}

// Connection requests, and EPs that the provider has created for them, do not count.
bool OpenIa::has_consumer_objects() noexcept {
  const ScopedLock lock(lock_);
  std::size_t own = own_async_evd_ == nullptr ? 0 : 1;
  for (const Cr* cr = list<Cr>().front(); cr != nullptr; cr = ObjectList<Cr>::next(*cr))
    own += cr->own_ep().made_by_provider ? 2 : 1;
  return std::apply([](const auto&... list) { return (list.size() + ...); }, lists_) > own;
}

// All waits end before the first agent is called, because an agent may wait for a thread that waits
// in DAT.
void OpenIa::evict_visitors() noexcept {
  for_each<Evd>([](Evd& evd) { evd.abort(); });
  for_each<Cno>([](Cno& cno) { cno.abort(); });
  for (;;) {
    Upcall last_call;  // runs at the end of each round, without the lock
    for_each<Cno>([&last_call](Cno& cno) {
      if (last_call.empty()) last_call = cno.last_call();
    });
    if (last_call.empty()) break;
  }
  closing_.store(true, std::memory_order_seq_cst);
  visits_.wait_until_empty();
}

template <class T>
void OpenIa::destroy_all() noexcept {
  for (;;) {
    Owned<T> object;
    {
      const ScopedLock lock(lock_);
      if (list<T>().empty()) return;
      object = list<T>().remove(*list<T>().front());
    }
  }
}

DAT_EVD_HANDLE OpenIa::async_evd() const noexcept {
  Evd* const evd = AsyncEvds::instance().of(async_);
  return evd == nullptr ? DAT_EVD_OUT_OF_SCOPE : evd;
}

void OpenIa::Sink::on_catastrophic() noexcept {
  UDAPL_TRACE(kError, "IA \"%s\": the device or its port is gone", ia.name());
  report_async(ia, DAT_ASYNC_ERROR_IA_CATASTROPHIC, nullptr, DAT_IA_CATASTROPHIC_ERROR);
}

void OpenIa::Sink::on_internal_error() noexcept {
  UDAPL_TRACE(kError, "IA \"%s\": the transport has failed", ia.name());
  report_async(ia, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, nullptr, DAT_IA_OTHER_ERROR);
}

namespace calls {

DAT_RETURN ia_close(DAT_IA_HANDLE handle, DAT_CLOSE_FLAGS flags) {
  return boundary([&]() -> Status {
    // Not by require(), which would make this call a visitor: it waits for the visitors.
    Ia* const ia = handle_cast<Ia>(handle);
    if (ia == nullptr) return handles::refuse_handle(handles::kind_of(Ia::kType), handle);
    if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "close flags 0x%x",
                   static_cast<unsigned>(flags));
    return OpenIa::of(*ia).close(flags);
  });
}

DAT_RETURN ia_ha_related(DAT_IA_HANDLE handle, const DAT_NAME_PTR name, DAT_BOOLEAN* answer) {
  return boundary([&]() -> Status {
    const auto ia = require<Ia>(handle);
    if (ia == nullptr) return ia.refusal();
    if (name == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null name");
    if (answer == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3, "null answer");
    UDAPL_REFUSE(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE, "no high availability");
  });
}

}  // namespace calls
}  // namespace udapl::dapl
