// SPDX-License-Identifier: MIT OR GPL-2.0-only
// dat_extension_op: the InfiniBand extensions. The order and types of the variable arguments are
// those of the macros in dat_ib_extensions.h.
#include <dat/udat.h>

#include <dat/dat_ib_extensions.h>

#include "common/not_cancelled.h"
#include "dapl/datapath/post.h"
#include "dapl/objects/boundary.h"
#include "dapl/objects/calls.h"
#include "dapl/objects/ep_calls.h"
#include "dapl/objects/refuse.h"
#include "dapl/table/open_ia.h"
#include "dapl/table/provider.h"

#include <cstdarg>

namespace udapl::dapl::calls {
namespace {

constexpr std::uint32_t kAtomicSize = 8;
constexpr DAT_COUNT kQueryQlen = 8;

// The common arguments of the three posts. These are rare, so they use the transport's virtual
// functions and always acquire the lock.
struct Transfer {
  post::Segments local;
  DAT_DTO_COOKIE cookie;
  const DAT_RMR_TRIPLET* remote;
  DAT_COMPLETION_FLAGS flags;
};

template <class Call>
post::Outcome submit(Ep& ep, RequestQueue& queue, const Transfer& transfer, DAT_IB_DTOS operation,
                     std::uint64_t length, std::uint32_t legal_flags, Call&& call)
    UDAPL_REQUIRES(queue.lock) {
  const DAT_COMPLETION_FLAGS flags = post::legal(transfer.flags, legal_flags);
  return post::submit<transport::Qp, post::Shape::kAny>(
      ep, queue, transfer.cookie, {static_cast<DAT_DTOS>(operation), length, flags, nullptr, true},
      call);
}

post::Outcome write_immediate(Ep& ep, RequestQueue& queue, const Transfer& transfer,
                              std::uint32_t immediate) UDAPL_REQUIRES(queue.lock) {
  static constexpr DAT_RMR_TRIPLET kNoRemoteRange{};
  const post::Segments& local = transfer.local;
  if (!local.fit(queue.max_write_segments))
    return post::bad(DAT_INVALID_ARG2, "bad segment count or list");
  const std::uint64_t length = local.total();
  if (transfer.remote == nullptr && length != 0)
    return post::bad(DAT_INVALID_ARG5, "no remote triplet");
  const DAT_RMR_TRIPLET& remote = transfer.remote != nullptr ? *transfer.remote : kNoRemoteRange;
  if (length > queue.max_rdma)
    return post::bad(DAT_INVALID_ARG3, "longer than the largest RDMA transfer");
  // The write consumes a receive at the peer, whose completion may be a solicited one.
  return submit(ep, queue, transfer, DAT_IB_DTO_RDMA_WRITE_IMMED, length, queue.legal_flags,
                [&](transport::Qp& qp, transport::WorkId id, transport::WorkFlags work) noexcept {
                  return qp.post_write_immediate(id, local.list, local.count, remote, immediate,
                                                 work);
                });
}

post::Outcome check_atomic(const Transfer& transfer) {
  if (transfer.local.list == nullptr) return post::bad(DAT_INVALID_ARG3, "no local triplet");
  if (transfer.remote == nullptr) return post::bad(DAT_INVALID_ARG5, "no remote triplet");
  if (transfer.local.list->segment_length < kAtomicSize)
    return {dat_error(DAT_LENGTH_ERROR), "the old value does not fit into the local triplet"};
  return post::kPosted;
}

template <class Call>
post::Outcome atomic(Ep& ep, RequestQueue& queue, const Transfer& transfer, DAT_IB_DTOS operation,
                     Call&& call) UDAPL_REQUIRES(queue.lock) {
  const post::Outcome checked = check_atomic(transfer);
  if (checked.code != DAT_SUCCESS) return checked;
  DAT_LMR_TRIPLET local = *transfer.local.list;
  local.segment_length = kAtomicSize;
  return submit(ep, queue, transfer, operation, kAtomicSize, queue.legal_flags & post::kRdmaFlags,
                [&](transport::Qp& qp, transport::WorkId id, transport::WorkFlags work) noexcept {
                  return call(qp, id, local, *transfer.remote, work);
                });
}

// Posts an atomic operation. Its operands have been read from `args`; the rest follows there.
template <class Call>
DAT_RETURN post_atomic(DAT_HANDLE handle, va_list args, const char* name, DAT_IB_DTOS operation,
                       Call&& call) {
  Transfer transfer{};
  transfer.local = {va_arg(args, DAT_LMR_TRIPLET*), 1};
  transfer.cookie = va_arg(args, DAT_DTO_COOKIE);
  transfer.remote = va_arg(args, DAT_RMR_TRIPLET*);
  transfer.flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(args, int));
  Ep* const ep = handle_cast<Ep>(handle);
  if (ep == nullptr) return post::bad_handle(handle, name, DAT_INVALID_HANDLE_EP);
  post::Outcome outcome;
  {
    RequestQueue& queue = ep->requests;
    const ScopedLock lock(queue.lock);
    outcome = atomic(*ep, queue, transfer, operation, call);
  }
  return post::finish(handle, name, outcome);
}

DAT_RETURN post_fetch_add(DAT_HANDLE handle, va_list args) {
  const auto add = va_arg(args, DAT_UINT64);
  return post_atomic(handle, args, "fetch_and_add", DAT_IB_DTO_FETCH_ADD,
                     [add](transport::Qp& qp, transport::WorkId id, const DAT_LMR_TRIPLET& local,
                           const DAT_RMR_TRIPLET& remote, transport::WorkFlags work) noexcept {
                       return qp.post_fetch_add(id, local, remote, add, work);
                     });
}

DAT_RETURN post_compare_swap(DAT_HANDLE handle, va_list args) {
  const auto compare = va_arg(args, DAT_UINT64);
  const auto swap = va_arg(args, DAT_UINT64);
  return post_atomic(handle, args, "cmp_and_swap", DAT_IB_DTO_CMP_SWAP,
                     [&](transport::Qp& qp, transport::WorkId id, const DAT_LMR_TRIPLET& local,
                         const DAT_RMR_TRIPLET& remote, transport::WorkFlags work) noexcept {
                       return qp.post_compare_swap(id, local, remote, compare, swap, work);
                     });
}

DAT_RETURN post_write_immediate(DAT_HANDLE handle, va_list args) {
  Transfer transfer{};
  transfer.local.count = va_arg(args, DAT_COUNT);
  transfer.local.list = va_arg(args, DAT_LMR_TRIPLET*);
  transfer.cookie = va_arg(args, DAT_DTO_COOKIE);
  transfer.remote = va_arg(args, DAT_RMR_TRIPLET*);
  const auto immediate = va_arg(args, DAT_UINT32);
  transfer.flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(args, int));
  Ep* const ep = handle_cast<Ep>(handle);
  if (ep == nullptr) return post::bad_handle(handle, "rdma_write_immed", DAT_INVALID_HANDLE_EP);
  post::Outcome outcome;
  {
    RequestQueue& queue = ep->requests;
    const ScopedLock lock(queue.lock);
    outcome = write_immediate(*ep, queue, transfer, immediate);
  }
  return post::finish(handle, "rdma_write_immed", outcome);
}

// The handle of this operation is the name of an IA. Returns attributes, and an IA handle that only
// the close query accepts, because the registry has assigned no number to it.
DAT_RETURN open_query(DAT_HANDLE handle, va_list args) {
  auto* const ia_out = va_arg(args, DAT_HANDLE*);
  const auto ia_mask = va_arg(args, DAT_IA_ATTR_MASK);
  auto* const ia_attr = va_arg(args, DAT_IA_ATTR*);
  const auto provider_mask = va_arg(args, DAT_PROVIDER_ATTR_MASK);
  auto* const provider_attr = va_arg(args, DAT_PROVIDER_ATTR*);
  const NotCancelled scope;
  return boundary([&]() -> Status {
    const auto* const ia_name = static_cast<const char*>(handle);
    if (ia_name == nullptr) UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1, "null IA name");
    if (ia_out == nullptr)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "null pointer for the IA");
    Provider* provider = find_provider(ia_name, false);
    if (provider == nullptr) provider = find_provider(ia_name, true);
    if (provider == nullptr)
      UDAPL_REFUSE(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED, "no IA \"%s\"", ia_name);
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    if (const Status status = OpenIa::open(*provider, kQueryQlen, &async_evd, &ia); !status.ok())
      return status;
    const Status status(ia_query(ia, nullptr, ia_mask, ia_attr, provider_mask, provider_attr));
    if (!status.ok()) {
      static_cast<void>(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
      return status;
    }
    *ia_out = ia;
    return Status();
  });
}

DAT_RETURN close_query(DAT_HANDLE handle) {
  const NotCancelled scope;
  return ia_close(handle, DAT_CLOSE_ABRUPT_FLAG);
}

}  // namespace

DAT_RETURN extended_operation(DAT_HANDLE handle, DAT_EXTENDED_OP operation, va_list args) noexcept {
  switch (operation) {
    case DAT_IB_FETCH_AND_ADD_OP:
      return post_fetch_add(handle, args);
    case DAT_IB_CMP_AND_SWAP_OP:
      return post_compare_swap(handle, args);
    case DAT_IB_RDMA_WRITE_IMMED_OP:
      return post_write_immediate(handle, args);
    case DAT_IB_OPEN_QUERY_OP:
      return open_query(handle, args);
    case DAT_IB_CLOSE_QUERY_OP:
      return close_query(handle);
    default:
      // Without class bits, as programs that probe for operations expect.
      UDAPL_EXPLAIN(kNormal, DAT_NOT_IMPLEMENTED, "extended operation 0x%x is not implemented",
                    static_cast<unsigned>(operation));
      return DAT_NOT_IMPLEMENTED;
  }
}

}  // namespace udapl::dapl::calls
