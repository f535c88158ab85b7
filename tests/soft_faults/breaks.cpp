// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// If a peer breaks a connection: how often that is reported at the default level, and what the
// program can query.
#include <dat/dat_diagnosis_extensions.h>

#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "every_fault.h"
#include "tests/child/in_child.h"

namespace {

using faults::cookie;
using faults::Pair;
using faults::Run;
using udapl::test::in_child;

constexpr const char* kTooLong = "DDP untagged: message too long for the receive";
constexpr const char* kInvalidStag = "protocol error: DDP tagged: invalid STag";

// Runs `body` in a new process, with the sinks of the environment, and returns the records that it
// left in the sink.
std::vector<std::string> records_of(const std::function<int()>& body) {
  std::string path = "breaks.XXXXXX";
  const int file = ::mkstemp(path.data());
  BOOST_REQUIRE_GE(file, 0);
  in_child([&] {
    ::setenv("DAT_TRACE_SINK", ("file:" + path).c_str(), 1);
    ::unsetenv("DAT_TRACE_LEVEL");
    ::unsetenv("DAPL_TRACE_LEVEL");
    return body();
  });
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ::close(file);
  ::unlink(path.c_str());
  return lines;
}

// Makes the active side write with an STag that is not registered. Takes the event of the passive
// side.
bool break_by_wrong_stag(Pair& pair, DAT_EVENT* event) {
  DAT_RMR_TRIPLET nowhere = pair.remote(0, 8);
  nowhere.rmr_context ^= 0x5a5a5a00;
  DAT_LMR_TRIPLET from = pair.local(0, 8);
  return dat_ep_post_rdma_write(pair.active.ep, 1, &from, cookie(1), &nowhere,
                                DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS &&
         pair.run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_BROKEN, event);
}

// Makes the active side send a message that is longer than the receive of the passive side.
bool break_by_long_message(Pair& pair, DAT_EVENT* event) {
  DAT_LMR_TRIPLET to = pair.local(1024, 8);
  DAT_LMR_TRIPLET from = pair.local(0, 32);
  return dat_ep_post_recv(pair.passive.ep, 1, &to, cookie(1), DAT_COMPLETION_DEFAULT_FLAG) ==
             DAT_SUCCESS &&
         dat_ep_post_send(pair.active.ep, 1, &from, cookie(2), DAT_COMPLETION_DEFAULT_FLAG) ==
             DAT_SUCCESS &&
         pair.run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_BROKEN, event);
}

std::string cause_of(DAT_RETURN status) {
  const char* text = nullptr;
  (void)dat_last_cause(status, &text);
  return text;
}

BOOST_AUTO_TEST_SUITE(breaks)

BOOST_AUTO_TEST_CASE(the_reason_is_in_the_line_and_in_the_cause) {
  const std::vector<std::string> lines = records_of([] {
    Run run;
    Pair pair(run);
    DAT_EVENT event{};
    if (!pair.create() || !pair.connect() || !break_by_wrong_stag(pair, &event)) return 1;
    constexpr auto kBroken = static_cast<DAT_RETURN>(DAT_CONNECTION_EVENT_BROKEN);
    if (cause_of(kBroken).find(kInvalidStag) == std::string::npos) return 2;
    if (!run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN, &event)) return 3;
    if (cause_of(kBroken).find("the peer reported an error: ") == std::string::npos) return 4;
    // A call that is refused because of the state reports the reason, too.
    const DAT_RETURN refused =
        dat_ep_connect(pair.passive.ep, run.attr.ia_address_ptr, faults::conn_qual(), 1000, 0,
                       nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
    if (DAT_GET_TYPE(refused) != DAT_INVALID_STATE) return 5;
    if (cause_of(refused).find(kInvalidStag) == std::string::npos) return 6;
    if (dat_ep_reset(pair.passive.ep) != DAT_SUCCESS) return 7;
    run.finish();
    return 0;
  });
  int reported = 0;
  for (const std::string& line : lines) {
    if (line.find(kInvalidStag) == std::string::npos) continue;
    ++reported;
    BOOST_TEST(line.find(" mock/EP=0x") != std::string::npos, line);
  }
  BOOST_TEST(reported == 2);  // when it broke, and when dat_ep_connect was refused because of that
}

BOOST_AUTO_TEST_CASE(peers_do_not_fill_the_log) {
  constexpr int kTimes = 150;
  const std::vector<std::string> lines = records_of([] {
    Run run;
    Pair pair(run);
    if (!pair.create()) return 1;
    for (int i = 0; i < kTimes; ++i) {
      DAT_EVENT event{};
      if (!pair.connect() || !break_by_long_message(pair, &event) ||
          !run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN, &event))
        return 2;
      for (const DAT_EVD_HANDLE evd : {pair.active.request_evd, pair.passive.recv_evd})
        while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) {
        }
      if (dat_ep_reset(pair.passive.ep) != DAT_SUCCESS ||
          dat_ep_reset(pair.active.ep) != DAT_SUCCESS)
        return 3;
    }
    run.finish();
    return 0;
  });
  const auto of_passive_side = std::count_if(lines.begin(), lines.end(), [](const auto& line) {
    return line.find(kTooLong) != std::string::npos && line.find("peer") == std::string::npos;
  });
  BOOST_TEST(of_passive_side >= 10);
  BOOST_TEST(of_passive_side < kTimes);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
