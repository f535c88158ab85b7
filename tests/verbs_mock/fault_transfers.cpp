// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Every fault while data moves: transfers, windows, shared receives and marks.
#include <dat/dat_ib_extensions.h>

#include <boost/test/unit_test.hpp>

#include "every_fault.h"

namespace {

using faults::cookie;
using faults::for_every_fault;
using faults::Pair;
using faults::Run;
using faults::send;
using faults::write_to;

constexpr auto kExtensionEvent = static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT);
constexpr auto kRemote =
    static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG);

// Waits for the completion of an extended operation of the active EP.
bool extended(Pair& pair) {
  DAT_EVENT event{};
  return pair.run.expect(pair.active.request_evd, kExtensionEvent, &event, pair.active.connect_evd);
}

// Binds bytes 2048 to 2111 through the passive EP.
bool bind(Pair& pair, DAT_RMR_HANDLE rmr, DAT_RMR_TRIPLET* window) {
  const DAT_LMR_TRIPLET range = pair.local(2048, 64);
  *window = pair.remote(2048, 64);
  DAT_EVENT event{};
  return FAULTS_OK(pair.run, dat_rmr_bind(rmr, pair.lmr, &range, kRemote, DAT_VA_TYPE_VA,
                                          pair.passive.ep, DAT_RMR_COOKIE{},
                                          DAT_COMPLETION_DEFAULT_FLAG, &window->rmr_context)) &&
         pair.run.expect(pair.passive.request_evd, DAT_RMR_BIND_COMPLETION_EVENT, &event,
                         pair.passive.connect_evd);
}

BOOST_AUTO_TEST_SUITE(fault_transfers)

BOOST_AUTO_TEST_CASE(transfers_fail_cleanly) {
  for_every_fault([](Pair& pair) {
    if (!pair.create() || !pair.connect() || !send(pair)) return false;
    const DAT_RMR_TRIPLET remote = pair.remote(2048, 16);
    DAT_LMR_TRIPLET to = pair.local(512, 16);
    return write_to(pair, remote) &&
           FAULTS_OK(pair.run, dat_ep_post_rdma_read(pair.active.ep, 1, &to, cookie(4), &remote,
                                                     DAT_COMPLETION_DEFAULT_FLAG)) &&
           pair.run.expect_done(pair.active.request_evd, pair.active.connect_evd);
  });
}

BOOST_AUTO_TEST_CASE(atomics_fail_cleanly) {
  for_every_fault([](Pair& pair) {
    if (!pair.create() || !pair.connect()) return false;
    DAT_LMR_TRIPLET old = pair.local(768, 8);
    DAT_RMR_TRIPLET word = pair.remote(3072, 8);
    return FAULTS_OK(pair.run, dat_ib_post_fetch_and_add(pair.active.ep, 5, &old, cookie(5), &word,
                                                         DAT_COMPLETION_DEFAULT_FLAG)) &&
           extended(pair) &&
           FAULTS_OK(pair.run, dat_ib_post_cmp_and_swap(pair.active.ep, 5, 6, &old, cookie(6),
                                                        &word, DAT_COMPLETION_DEFAULT_FLAG)) &&
           extended(pair);
  });
}

BOOST_AUTO_TEST_CASE(write_with_immediate_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    if (!pair.create() || !pair.connect()) return false;
    DAT_LMR_TRIPLET to = pair.local(1024, 64);
    DAT_LMR_TRIPLET from = pair.local(0, 16);
    DAT_RMR_TRIPLET remote = pair.remote(2048, 16);
    DAT_EVENT event{};
    return FAULTS_OK(run, dat_ep_post_recv(pair.passive.ep, 1, &to, cookie(1),
                                           DAT_COMPLETION_DEFAULT_FLAG)) &&
           FAULTS_OK(run, dat_ib_post_rdma_write_immed(pair.active.ep, 1, &from, cookie(2), &remote,
                                                       77, DAT_COMPLETION_DEFAULT_FLAG)) &&
           extended(pair) &&
           run.expect(pair.passive.recv_evd, kExtensionEvent, &event, pair.passive.connect_evd);
  });
}

BOOST_AUTO_TEST_CASE(unsignalled_writes_fail_cleanly) {
  for_every_fault([](Pair& pair) {
    if (!pair.create() || !pair.connect()) return false;
    const DAT_RMR_TRIPLET remote = pair.remote(2048, 16);
    DAT_LMR_TRIPLET from = pair.local(0, 16);
    for (int i = 0; i < 40; ++i)  // more than the queue holds
      if (!FAULTS_OK(pair.run, dat_ep_post_rdma_write(pair.active.ep, 1, &from, cookie(3), &remote,
                                                      DAT_COMPLETION_SUPPRESS_FLAG)))
        return false;
    return write_to(pair, remote);
  });
}

BOOST_AUTO_TEST_CASE(bind_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    if (!pair.create() || !pair.connect() || !FAULTS_OK(run, dat_rmr_create(pair.pz, &rmr)))
      return false;
    run.on_finish("dat_rmr_free", [rmr] { return dat_rmr_free(rmr); });
    DAT_RMR_TRIPLET window{};
    return bind(pair, rmr, &window) && write_to(pair, window);
  });
}

// A window of type 2, which the peer invalidates.
BOOST_AUTO_TEST_CASE(invalidation_by_the_peer_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    if (!pair.create() || !pair.connect() || !FAULTS_OK(run, dat_rmr_create_for_ep(pair.pz, &rmr)))
      return false;
    run.on_finish("dat_rmr_free", [rmr] { return dat_rmr_free(rmr); });
    DAT_RMR_TRIPLET window{};
    DAT_LMR_TRIPLET to = pair.local(1024, 64);
    DAT_LMR_TRIPLET from = pair.local(0, 32);
    return bind(pair, rmr, &window) && write_to(pair, window) &&
           FAULTS_OK(run, dat_ep_post_recv(pair.passive.ep, 1, &to, cookie(1),
                                           DAT_COMPLETION_DEFAULT_FLAG)) &&
           FAULTS_OK(run, dat_ep_post_send_with_invalidate(pair.active.ep, 1, &from, cookie(2),
                                                           DAT_COMPLETION_DEFAULT_FLAG, DAT_TRUE,
                                                           window.rmr_context)) &&
           run.expect_done(pair.active.request_evd, pair.active.connect_evd) &&
           run.expect_done(pair.passive.recv_evd, pair.passive.connect_evd) &&
           bind(pair, rmr, &window);
  });
}

// A window of type 2 over two connections, between which a bind is flushed.
BOOST_AUTO_TEST_CASE(bind_after_a_flushed_one_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    if (!pair.create() || !pair.connect() || !FAULTS_OK(run, dat_rmr_create_for_ep(pair.pz, &rmr)))
      return false;
    run.on_finish("dat_rmr_free", [rmr] { return dat_rmr_free(rmr); });
    DAT_RMR_TRIPLET window{};
    const auto bind_twice = [&] {
      const bool once = bind(pair, rmr, &window);
      return once && bind(pair, rmr, &window);
    };
    if (!bind_twice() || !write_to(pair, window) || !pair.disconnect(DAT_CLOSE_ABRUPT_FLAG))
      return false;
    return bind_twice() && FAULTS_OK(run, dat_ep_reset(pair.active.ep)) &&
           FAULTS_OK(run, dat_ep_reset(pair.passive.ep)) && pair.connect() &&
           bind(pair, rmr, &window) && write_to(pair, window);
  });
}

BOOST_AUTO_TEST_CASE(srq_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    if (!pair.create(true) || !FAULTS_OK(run, dat_srq_resize(pair.srq, 32)) || !pair.connect() ||
        !send(pair))
      return false;
    // The SRQ is empty, so the mark fires at once.
    DAT_EVENT event{};
    return FAULTS_OK(run, dat_srq_set_lw(pair.srq, 1)) &&
           run.expect(run.async_evd, DAT_ASYNC_ERROR_EP_BROKEN, &event);
  });
}

// A message takes the SRQ below its mark.
BOOST_AUTO_TEST_CASE(srq_below_its_mark_fails_cleanly) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    if (!pair.create(true) || !pair.connect()) return false;
    DAT_LMR_TRIPLET to = pair.local(1024, 64);
    DAT_LMR_TRIPLET from = pair.local(0, 32);
    for (int i = 0; i < 3; ++i)
      if (!FAULTS_OK(run, dat_srq_post_recv(pair.srq, 1, &to, cookie(1)))) return false;
    DAT_EVENT event{};
    return FAULTS_OK(run, dat_srq_set_lw(pair.srq, 3)) &&
           FAULTS_OK(run, dat_ep_post_send(pair.active.ep, 1, &from, cookie(2),
                                           DAT_COMPLETION_DEFAULT_FLAG)) &&
           run.expect_done(pair.active.request_evd, pair.active.connect_evd) &&
           run.expect(run.async_evd, DAT_ASYNC_ERROR_EP_BROKEN, &event) &&
           run.expect_done(pair.passive.recv_evd, pair.passive.connect_evd);
  });
}

BOOST_AUTO_TEST_CASE(soft_high_watermark) {
  for_every_fault([](Pair& pair) {
    Run& run = pair.run;
    if (!pair.create() ||
        !FAULTS_OK(run, dat_ep_set_watermark(pair.passive.ep, 1, DAT_WATERMARK_INFINITE)) ||
        !pair.connect())
      return false;
    DAT_LMR_TRIPLET to = pair.local(1024, 64);
    for (int i = 0; i < 2; ++i)
      if (!FAULTS_OK(run, dat_ep_post_recv(pair.passive.ep, 1, &to, cookie(1),
                                           DAT_COMPLETION_DEFAULT_FLAG)))
        return false;
    DAT_EVENT event{};
    return run.expect(run.async_evd, DAT_ASYNC_ERROR_EP_BROKEN, &event, pair.passive.connect_evd);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
