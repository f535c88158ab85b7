// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Objects that end while another thread is inside a call on them, as in a program whose exit
// handler closes the IA beside a thread that makes progress. The call or the next one reports it.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <functional>
#include <thread>

#include "run.h"
#include "tests/child/in_child.h"

namespace {

using faults::Pair;
using faults::Run;
using udapl::test::in_child;

constexpr int kRounds = 100;

// Runs `call` in a thread until it fails otherwise than by finding nothing, and `end` beside it.
// Returns the failure.
DAT_RETURN until_it_fails(const std::function<DAT_RETURN()>& call,
                          const std::function<void()>& end) {
  std::atomic<int> calls{0};
  DAT_RETURN code = DAT_SUCCESS;
  std::thread caller([&] {
    while (code == DAT_SUCCESS || DAT_GET_TYPE(code) == DAT_QUEUE_EMPTY) {
      code = call();
      calls.fetch_add(1);
    }
  });
  while (calls.load() < 100) std::this_thread::yield();
  end();
  caller.join();
  return DAT_GET_TYPE(code);
}

// 0, or the number of the check that failed.
int poll_while(const char* adapter, bool connected,
               const std::function<DAT_RETURN(Run&, DAT_EVD_HANDLE)>& end) {
  for (int round = 0; round < kRounds; ++round) {
    Run run(adapter);
    Pair pair(run);
    if (!pair.create() || (connected && !pair.connect())) return 1;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    if (dat_evd_create(run.ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd) != DAT_SUCCESS) return 2;
    DAT_RETURN ended = DAT_INTERNAL_ERROR;
    const DAT_RETURN code = until_it_fails(
        [&] {
          DAT_EVENT event{};
          return dat_evd_dequeue(evd, &event);
        },
        [&] { ended = end(run, evd); });
    if (ended != DAT_SUCCESS) return 3;
    if (code != DAT_INVALID_HANDLE) return 4;
    if (dat_ia_close(run.ia, DAT_CLOSE_ABRUPT_FLAG) != DAT_SUCCESS && ended != DAT_SUCCESS)
      return 5;
  }
  return 0;
}

DAT_RETURN close_ia(Run& run, DAT_EVD_HANDLE) {
  return dat_ia_close(run.ia, DAT_CLOSE_ABRUPT_FLAG);
}
DAT_RETURN free_evd(Run&, DAT_EVD_HANDLE evd) { return dat_evd_free(evd); }

BOOST_AUTO_TEST_SUITE(polled_ends)

BOOST_AUTO_TEST_CASE(an_ia_is_closed_beside_a_poll) {
  in_child([] { return poll_while("mock", false, close_ia); });
}

BOOST_AUTO_TEST_CASE(an_ia_with_connections_is_closed_beside_a_poll) {
  in_child([] { return poll_while("mock", true, close_ia); });
}

BOOST_AUTO_TEST_CASE(ia_with_tcp_connections_closes_beside_a_poll) {
  in_child([] { return poll_while("tcp", true, close_ia); });
}

BOOST_AUTO_TEST_CASE(an_evd_is_freed_beside_a_poll) {
  in_child([] { return poll_while("mock", false, free_evd); });
}

BOOST_AUTO_TEST_CASE(ia_closes_beside_a_call_that_creates_memory) {
  in_child([] {
    for (int round = 0; round < kRounds; ++round) {
      Run run;
      Pair pair(run);
      if (!pair.create()) return 1;
      DAT_RETURN closed = DAT_INTERNAL_ERROR;
      const DAT_RETURN code = until_it_fails(
          [&] {
            DAT_REGION_DESCRIPTION region{};
            region.for_va = pair.memory.data();
            DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
            DAT_LMR_CONTEXT lmr_context = 0;
            DAT_RMR_CONTEXT rmr_context = 0;
            DAT_VLEN length = 0;
            DAT_VADDR address = 0;
            return dat_lmr_create(run.ia, DAT_MEM_TYPE_VIRTUAL, region, 8, pair.pz,
                                  DAT_MEM_PRIV_LOCAL_READ_FLAG, DAT_VA_TYPE_VA, &lmr, &lmr_context,
                                  &rmr_context, &length, &address);
          },
          [&] { closed = dat_ia_close(run.ia, DAT_CLOSE_ABRUPT_FLAG); });
      if (closed != DAT_SUCCESS) return 2;
      if (code != DAT_INVALID_HANDLE) return 3;
    }
    return 0;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
