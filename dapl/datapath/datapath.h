// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/backoff.h"
#include "dapl/datapath/post.h"
#include "dapl/objects/guard.h"

// The posts as entries of the provider table: each finds the object, posts, and traces a refusal.
// The registry has dispatched the call through the first word of the object, so the handle points
// to an object header; a gate in the header tells whether the object is an EP that accepts plain
// posts. The entries are templates over a provider's final transport classes, so that they call the
// transport's own functions directly and the compiler may inline these.
namespace udapl::dapl::calls {

// The last step of the ladder below.
template <class Post, HotQp Q, class... Remote>
[[nodiscard, gnu::noinline]] DAT_RETURN any_post(DAT_EP_HANDLE handle, DAT_COUNT count,
                                                 DAT_LMR_TRIPLET* local, DAT_DTO_COOKIE cookie,
                                                 Remote... remote,
                                                 DAT_COMPLETION_FLAGS flags) noexcept {
  Ep* const ep = handle_cast<Ep>(handle);
  if (ep == nullptr) [[unlikely]]
    return post::bad_handle(handle, Post::kName, DAT_INVALID_HANDLE_EP);
  for (Backoff backoff;; backoff.wait()) {  // retries while another thread is replacing the queue
    const post::Outcome outcome = Post::template run<Q, TakeLock, post::Shape::kAny>(
        *ep, {local, count}, cookie, remote..., flags);
    if (post::is_final(outcome)) [[likely]]
      return post::finish(handle, Post::kName, outcome);
  }
}

// A post on an EP, as a ladder of functions. plain() is the entry in the provider table. Each
// function of this class is for posts of one shape (post_submit.h), and compiled without the checks
// that the shape makes redundant. A post of another shape, or one that cannot be posted in its
// shape now, goes on to any_post(), which checks everything. They are separate functions so that a
// plain post saves no registers for the others.
//
// plain() enters the guard before it reads the gate; the function that completes the post leaves
// the guard, even if it is another one. any_post() takes the lock of the queue in both tables, as
// do the posts that are not on this ladder.
//
// Post: the class of the post (post.h). Remote: the type of the argument for the remote memory, if
// there is one, at its position in the DAT call, so that no argument changes its register on the
// way.
template <class Post, HotQp Q, Guard G, class... Remote>
class Ladder {
 public:
  // One segment, default flags.
  [[gnu::flatten]] static DAT_RETURN plain(DAT_EP_HANDLE handle, DAT_COUNT count,
                                           DAT_LMR_TRIPLET* local, DAT_DTO_COOKIE cookie,
                                           Remote... remote, DAT_COMPLETION_FLAGS flags) noexcept {
    auto& object = *static_cast<ObjectHeader*>(handle);
    G::enter(object.*Post::kPosting);
    if (post::gate_allows<Shape::kPlain>(object.*Post::kGate, flags)) [[likely]] {
      if (!post::has_list<Shape::kPlain>(count, local)) [[unlikely]]
        return list(handle, count, local, cookie, remote..., flags);
      const post::Outcome outcome = Post::template run<Q, G, Shape::kPlain>(
          static_cast<Ep&>(object), {local, 1}, cookie, remote..., DAT_COMPLETION_DEFAULT_FLAG);
      if (post::is_final(outcome)) [[likely]]
        return leave(object, outcome);
      if constexpr (Post::kLooks) return once_more(handle, count, local, cookie, remote..., flags);
    }
    if constexpr (Post::kSuppressible)
      return suppressed(handle, count, local, cookie, remote..., flags);
    else
      return leave_to_any(handle, count, local, cookie, remote..., flags);
  }

 private:
  using Shape = post::Shape;

  [[nodiscard, gnu::always_inline]] static DAT_RETURN leave(ObjectHeader& object,
                                                            post::Outcome outcome) noexcept {
    G::leave(object.*Post::kPosting);
    return post::finish(&object, Post::kName, outcome);
  }
  [[nodiscard, gnu::always_inline]] static DAT_RETURN leave_to_any(
      DAT_EP_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* local, DAT_DTO_COOKIE cookie,
      Remote... remote, DAT_COMPLETION_FLAGS flags) noexcept {
    G::leave(static_cast<ObjectHeader*>(handle)->*Post::kPosting);
    return any_post<Post, Q, Remote...>(handle, count, local, cookie, remote..., flags);
  }

  // Tries the plain post a second time, after the first try has found no free slot and has then
  // looked for freed ones (Post::kLooks). If a program keeps its queue full, every post comes here.
  [[nodiscard, gnu::noinline, gnu::flatten]] static DAT_RETURN once_more(
      DAT_EP_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* local, DAT_DTO_COOKIE cookie,
      Remote... remote, DAT_COMPLETION_FLAGS flags) noexcept {
    auto& object = *static_cast<ObjectHeader*>(handle);
    const post::Outcome outcome = Post::template run<Q, G, Shape::kPlain>(
        static_cast<Ep&>(object), {local, 1}, cookie, remote..., DAT_COMPLETION_DEFAULT_FLAG);
    if (post::is_final(outcome)) [[likely]]
      return leave(object, outcome);
    return leave_to_any(handle, count, local, cookie, remote..., flags);
  }

  // Several segments, default flags. plain() has checked gate and flags.
  [[nodiscard, gnu::noinline, gnu::flatten]] static DAT_RETURN list(
      DAT_EP_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* local, DAT_DTO_COOKIE cookie,
      Remote... remote, DAT_COMPLETION_FLAGS flags) noexcept {
    auto& object = *static_cast<ObjectHeader*>(handle);
    if (post::has_list<Shape::kList>(count, local)) [[likely]] {
      const post::Outcome outcome = Post::template run<Q, G, Shape::kList>(
          static_cast<Ep&>(object), {local, count}, cookie, remote..., DAT_COMPLETION_DEFAULT_FLAG);
      if (post::is_final(outcome)) [[likely]]
        return leave(object, outcome);
    }
    return leave_to_any(handle, count, local, cookie, remote..., flags);
  }

  // One segment, a suppressed completion.
  [[nodiscard, gnu::noinline, gnu::flatten]] static DAT_RETURN suppressed(
      DAT_EP_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* local, DAT_DTO_COOKIE cookie,
      Remote... remote, DAT_COMPLETION_FLAGS flags) noexcept {
    auto& object = *static_cast<ObjectHeader*>(handle);
    if (post::has_shape<Shape::kSuppressed>(object.*Post::kGate, count, local, flags)) {
      const post::Outcome outcome = Post::template run<Q, G, Shape::kSuppressed>(
          static_cast<Ep&>(object), {local, 1}, cookie, remote..., DAT_COMPLETION_SUPPRESS_FLAG);
      if (post::is_final(outcome)) [[likely]]
        return leave(object, outcome);
    }
    return leave_to_any(handle, count, local, cookie, remote..., flags);
  }
};

template <HotQp Q, Guard G>
inline constexpr auto* ep_post_send = &Ladder<post::Send, Q, G>::plain;
template <HotQp Q, Guard G>
inline constexpr auto* ep_post_recv = &Ladder<post::Receive, Q, G>::plain;
template <HotQp Q, Guard G>
inline constexpr auto* ep_post_rdma_write =
    &Ladder<post::RdmaWrite, Q, G, const DAT_RMR_TRIPLET*>::plain;
template <HotQp Q, Guard G>
inline constexpr auto* ep_post_rdma_read =
    &Ladder<post::RdmaRead, Q, G, const DAT_RMR_TRIPLET*>::plain;

template <HotQp Q, Guard G>
DAT_RETURN ep_post_send_with_invalidate(DAT_EP_HANDLE handle, DAT_COUNT count,
                                        DAT_LMR_TRIPLET* local, DAT_DTO_COOKIE cookie,
                                        DAT_COMPLETION_FLAGS flags, DAT_BOOLEAN invalidate,
                                        DAT_RMR_CONTEXT context) noexcept {
  if (invalidate == DAT_FALSE) return ep_post_send<Q, G>(handle, count, local, cookie, flags);
  Ep* const ep = handle_cast<Ep>(handle);
  if (ep == nullptr) [[unlikely]]
    return post::bad_handle(handle, "post_send_with_invalidate", DAT_INVALID_HANDLE_EP);
  post::Outcome outcome;
  {
    RequestQueue& queue = ep->requests;
    const ScopedLock lock(queue.lock);
    outcome = post::send_invalidate<Q>(*ep, queue, {local, count}, cookie, flags, context);
  }
  return post::finish(handle, "post_send_with_invalidate", outcome);
}

template <HotQp Q>
DAT_RETURN ep_post_rdma_read_to_rmr(DAT_EP_HANDLE handle, const DAT_RMR_TRIPLET* local,
                                    DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET* remote,
                                    DAT_COMPLETION_FLAGS flags) noexcept {
  Ep* const ep = handle_cast<Ep>(handle);
  if (ep == nullptr) [[unlikely]]
    return post::bad_handle(handle, "post_rdma_read_to_rmr", DAT_INVALID_HANDLE_EP);
  post::Outcome outcome;
  {
    RequestQueue& queue = ep->requests;
    const ScopedLock lock(queue.lock);
    outcome = post::rdma_read_to_rmr<Q>(*ep, queue, local, cookie, remote, flags);
  }
  return post::finish(handle, "post_rdma_read_to_rmr", outcome);
}

template <HotQp Q>
DAT_RETURN rmr_bind(DAT_RMR_HANDLE handle, DAT_LMR_HANDLE lmr_handle, const DAT_LMR_TRIPLET* range,
                    DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE va_type, DAT_EP_HANDLE ep_handle,
                    DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
                    DAT_RMR_CONTEXT* context) noexcept {
  Rmr* const rmr = handle_cast<Rmr>(handle);
  if (rmr == nullptr) [[unlikely]]
    return post::bad_handle(handle, "rmr_bind", DAT_INVALID_HANDLE_RMR);
  Lmr* const lmr = handle_cast<Lmr>(lmr_handle);
  const bool unbind = range != nullptr && range->segment_length == 0;
  if ((lmr == nullptr && !(unbind && lmr_handle == DAT_HANDLE_NULL)) ||
      (lmr != nullptr && lmr->ia != rmr->ia)) [[unlikely]]
    return post::bad_handle(lmr_handle, "rmr_bind", DAT_INVALID_HANDLE_LMR);
  Ep* const ep = handle_cast<Ep>(ep_handle);
  if (ep == nullptr || ep->ia != rmr->ia) [[unlikely]]
    return post::bad_handle(ep_handle, "rmr_bind", DAT_INVALID_HANDLE_EP);
  if (range == nullptr) [[unlikely]]
    return post::refused(handle, "rmr_bind", post::bad(DAT_INVALID_ARG3, "null triplet"));
  if (context == nullptr && !unbind) [[unlikely]]
    return post::refused(handle, "rmr_bind",
                         post::bad(DAT_INVALID_ARG9, "null pointer for the context"));
  post::Outcome outcome;
  {
    RequestQueue& queue = ep->requests;
    const ScopedLock lock(queue.lock);
    outcome =
        post::bind<Q>(*ep, queue, {*rmr, lmr, *range, privileges, va_type}, cookie, flags, context);
  }
  return post::finish(handle, "rmr_bind", outcome);
}

// The registry has dispatched the call through the first word of the object, so there is an object.
// Whether it is a live SRQ is checked after the guard was entered, since another thread may be
// freeing it.
template <HotSrq S, Guard G>
DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* local,
                         DAT_DTO_COOKIE user) noexcept {
  auto& object = *static_cast<ObjectHeader*>(handle);
  G::enter(object.posting_receive);
  if (!is_live<Srq>(object)) [[unlikely]] {
    G::leave(object.posting_receive);
    return post::bad_handle(handle, "srq_post_recv", DAT_INVALID_HANDLE_SRQ);
  }
  const post::Outcome outcome =
      post::srq_receive<S, G>(static_cast<Srq&>(object), {local, count}, user);
  G::leave(object.posting_receive);
  return post::finish(handle, "srq_post_recv", outcome);
}

}  // namespace udapl::dapl::calls
