// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/table/fork_guard.h"

#include <atomic>
#include <cstddef>
#include <type_traits>

#include "common/fork.h"
#include "common/tracing/cause.h"
#include "dapl/objects/ia.h"
#include "dapl/objects/trace_points.h"

namespace udapl::dapl {

namespace {

// Has no lock, because a child reads it, and at the fork another thread could have held the lock.
std::atomic<GuardedTable*> tables{nullptr};

// Whether the object was made by a process that this one was forked from. Freed objects and invalid
// handles are left to the call itself.
bool is_inherited(DAT_HANDLE handle) noexcept {
  if (*identify(handle).type == '\0') return false;
  const Ia* const ia = static_cast<const ObjectHeader*>(handle)->ia;
  return ia != nullptr && ia->generation() != forks::generation();
}

// Whether this process has reported nothing yet.
bool is_first_report() noexcept {
  static constinit std::atomic<unsigned> reported{0};
  const unsigned generation = forks::generation();
  return reported.exchange(generation, std::memory_order_relaxed) != generation;
}

// The first refusal in a child is reported as an error, so that the program learns why its calls
// fail. Calls that only clean up, as in exit handlers (`cleans_up`), are not reported.
[[gnu::cold]] DAT_RETURN refuse(DAT_HANDLE handle, bool cleans_up) noexcept {
  constexpr DAT_RETURN kCode = dat_error(DAT_INVALID_STATE);
  constexpr char kText[] =
      "%p belongs to the process that this one was forked from\ntry: to open the IA after the fork";
  const trace::Level level = !cleans_up && is_first_report() ? trace::kError : trace::kNormal;
  if (trace::enabled(level)) trace::write_error(level, kCode, __func__, kText, handle);
  cause::note(kCode, kText, handle);
  return kCode;
}

const DAT_PROVIDER& original_of(DAT_HANDLE handle) noexcept {
  const DAT_PROVIDER* const table = static_cast<const ObjectHeader*>(handle)->provider;
  return *reinterpret_cast<const GuardedTable*>(table)->original;
}

template <auto Slot, auto Other>
constexpr bool kSame = false;
template <auto Slot>
constexpr bool kSame<Slot, Slot> = true;

// The calls that exit handlers make.
template <auto Slot, class P = DAT_PROVIDER>
constexpr bool kCleansUp = kSame<Slot, &P::ia_close_func> || kSame<Slot, &P::ep_disconnect_func> ||
                           kSame<Slot, &P::cno_free_func> || kSame<Slot, &P::evd_free_func> ||
                           kSame<Slot, &P::ep_free_func> || kSame<Slot, &P::lmr_free_func> ||
                           kSame<Slot, &P::rmr_free_func> || kSame<Slot, &P::psp_free_func> ||
                           kSame<Slot, &P::rsp_free_func> || kSame<Slot, &P::csp_free_func> ||
                           kSame<Slot, &P::pz_free_func> || kSame<Slot, &P::srq_free_func>;

template <auto Slot, class Function = std::remove_reference_t<decltype(DAT_PROVIDER{}.*Slot)>>
struct InChild;

template <auto Slot, class... Rest>
struct InChild<Slot, DAT_RETURN (*)(DAT_HANDLE, Rest...)> {
  static DAT_RETURN call(DAT_HANDLE handle, Rest... rest) {
    if (is_inherited(handle)) return refuse(handle, kCleansUp<Slot>);
    return (original_of(handle).*Slot)(handle, rest...);
  }
};

template <auto... Slots>
void exchange(DAT_PROVIDER& table) noexcept {
  constexpr std::size_t kFunctions = (sizeof(DAT_PROVIDER) - offsetof(DAT_PROVIDER, ia_open_func)) /
                                     sizeof(DAT_PROVIDER::ia_open_func);
  static_assert(sizeof...(Slots) == kFunctions - 1);
  ((table.*Slots = &InChild<Slots>::call), ...);
}

// All but ia_open, which has no handle.
void exchange_all(DAT_PROVIDER& table) noexcept {
  using P = DAT_PROVIDER;
  exchange<&P::ia_query_func, &P::ia_close_func, &P::set_consumer_context_func,
           &P::get_consumer_context_func, &P::get_handle_type_func, &P::cno_create_func,
           &P::cno_modify_agent_func, &P::cno_query_func, &P::cno_free_func, &P::cno_wait_func,
           &P::cr_query_func, &P::cr_accept_func, &P::cr_reject_func, &P::cr_handoff_func,
           &P::evd_create_func, &P::evd_query_func, &P::evd_modify_cno_func, &P::evd_enable_func,
           &P::evd_disable_func, &P::evd_wait_func, &P::evd_resize_func, &P::evd_post_se_func,
           &P::evd_dequeue_func, &P::evd_free_func, &P::ep_create_func, &P::ep_query_func,
           &P::ep_modify_func, &P::ep_connect_func, &P::ep_dup_connect_func, &P::ep_disconnect_func,
           &P::ep_post_send_func, &P::ep_post_recv_func, &P::ep_post_rdma_read_func,
           &P::ep_post_rdma_write_func, &P::ep_get_status_func, &P::ep_free_func,
           &P::lmr_create_func, &P::lmr_query_func, &P::lmr_free_func, &P::rmr_create_func,
           &P::rmr_query_func, &P::rmr_bind_func, &P::rmr_free_func, &P::psp_create_func,
           &P::psp_query_func, &P::psp_free_func, &P::rsp_create_func, &P::rsp_query_func,
           &P::rsp_free_func, &P::pz_create_func, &P::pz_query_func, &P::pz_free_func,
           &P::psp_create_any_func, &P::ep_reset_func, &P::evd_set_unwaitable_func,
           &P::evd_clear_unwaitable_func, &P::lmr_sync_rdma_read_func, &P::lmr_sync_rdma_write_func,
           &P::ep_create_with_srq_func, &P::ep_recv_query_func, &P::ep_set_watermark_func,
           &P::srq_create_func, &P::srq_free_func, &P::srq_post_recv_func, &P::srq_query_func,
           &P::srq_resize_func, &P::srq_set_lw_func, &P::csp_create_func, &P::csp_query_func,
           &P::csp_free_func, &P::ep_common_connect_func, &P::rmr_create_for_ep_func,
           &P::ep_post_send_with_invalidate_func, &P::ep_post_rdma_read_to_rmr_func,
           &P::cno_fd_create_func, &P::cno_trigger_func, &P::ia_ha_related_func,
           &P::handle_extendedop_func>(table);
}

// Runs in the child before fork() returns, and accesses only our own memory.
void on_fork() noexcept {
  for (GuardedTable* table = tables.load(std::memory_order_acquire); table != nullptr;
       table = table->next)
    exchange_all(table->slots);
}

}  // namespace

void guard_in_children(GuardedTable& table) noexcept {
  static const bool watched = forks::watch(&on_fork);
  if (!watched) UDAPL_TRACE(kError, "no memory to protect connections from forked children");
  // A table that is registered in a child is guarded as well, because the child may fork in turn.
  table.next = tables.load(std::memory_order_relaxed);
  while (!tables.compare_exchange_weak(table.next, &table, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

}  // namespace udapl::dapl
