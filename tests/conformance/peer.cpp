// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace conformance {

namespace {

constexpr const char* kOrderVariable = "CONFORMANCE_PEER";  // conn qual, size, receive
constexpr std::size_t kSmall = 4096;
constexpr std::size_t kLarge = 64U << 20;  // exceeds the buffers between two processes
constexpr int kPostReceive = SIGUSR1;
constexpr DAT_TIMEOUT kStartOfProcess =
    120'000'000;  // us; a busy emulated machine takes half a minute

}  // namespace

PeerProcess::PeerProcess(DAT_CONN_QUAL conn_qual, std::size_t memory, Receive receive) {
  const std::string order = std::to_string(conn_qual) + " " + std::to_string(memory) + " " +
                            std::to_string(static_cast<int>(receive));
  ::setenv(kOrderVariable, order.c_str(), 1);
  std::string program = "conformance";
  std::string ia = "--ia=" + options().ia;
  std::string safety = options().thread_safe == DAT_TRUE ? "--threadsafe" : "--ia=" + options().ia;
  std::string test = "--run_test=peer/connect";
  char* arguments[] = {program.data(), ia.data(), safety.data(), test.data(), nullptr};
  posix_spawn_file_actions_t actions;
  BOOST_REQUIRE_EQUAL(::posix_spawn_file_actions_init(&actions), 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const int error = ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  BOOST_REQUIRE_EQUAL(error, 0);
}

void PeerProcess::stop() {
  BOOST_REQUIRE_EQUAL(::kill(pid_, SIGSTOP), 0);
  int status = 0;
  BOOST_REQUIRE_EQUAL(::waitpid(pid_, &status, WUNTRACED), pid_);
  BOOST_REQUIRE_MESSAGE(WIFSTOPPED(status), "the peer process ended by itself");
}

void PeerProcess::resume() { BOOST_REQUIRE_EQUAL(::kill(pid_, SIGCONT), 0); }

void PeerProcess::post_receive() { BOOST_REQUIRE_EQUAL(::kill(pid_, kPostReceive), 0); }

void PeerProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool sends_wait_for_receives() {
  // Post a Send without a receive, and a Read in the other direction, whose data follow the Send.
  // When the data have arrived, the Send has gone out; if it is still incomplete, Sends wait.
  static const bool answer = [] {
    Pair pair;
    const Buffer here(pair.ia, pair.pz, kSmall);
    const Buffer there(pair.ia, pair.pz, kSmall);
    pair.connect();
    REQUIRE_OK(pair.active.post_send(here, kSmall, 1));
    REQUIRE_OK(pair.passive.post_read(there, here.remote(kSmall), 2));
    const DAT_EVENT read = expect_event(pair.passive.request_evd, DAT_DTO_COMPLETION_EVENT);
    return read.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS &&
           !next_event(pair.active.request_evd, kQuiet);
  }();
  return answer;
}

DAT_CR_HANDLE PairWithProcess::start_and_take_cr() {
  if (!peer) peer.emplace(pair.conn_qual, kSmall, PeerProcess::Receive::kImmediately);
  const auto event = next_event(pair.cr_evd, kStartOfProcess);
  BOOST_REQUIRE_MESSAGE(event, "the peer's process did not connect");
  const DAT_CR_HANDLE cr = event->event_data.cr_arrival_event_data.cr_handle;
  DAT_CR_PARAM param{};
  REQUIRE_OK(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
  // Accept padding: the exact size has a test of its own, and a provider that pads should be able
  // to run the other tests.
  BOOST_REQUIRE_GE(param.private_data_size, static_cast<DAT_COUNT>(sizeof memory));
  std::memcpy(&memory, param.private_data, sizeof memory);
  return cr;
}

void PairWithProcess::connect_stalled() {
  const bool withhold = sends_wait_for_receives();
  const std::size_t size = withhold ? kSmall : kLarge;
  message.emplace(pair.ia, pair.pz, size);
  peer.emplace(pair.conn_qual, size,
               withhold ? PeerProcess::Receive::kOnSignal : PeerProcess::Receive::kImmediately);
  REQUIRE_OK(dat_cr_accept(start_and_take_cr(), pair.passive.ep, 0, nullptr));
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  if (!withhold) peer->stop();
}

DAT_RETURN PairWithProcess::post_stalled_send(std::uint64_t cookie_value) {
  return pair.passive.post_send(*message, message->bytes.size(), cookie_value);
}

void PairWithProcess::unblock_peer() {
  if (sends_wait_for_receives())
    peer->post_receive();
  else
    peer->resume();
}

// ---- in the peer process ----

BOOST_AUTO_TEST_SUITE(peer, *boost::unit_test::disabled())

BOOST_AUTO_TEST_CASE(connect) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the peer must not outlive the test
  const char* const order = std::getenv(kOrderVariable);
  BOOST_REQUIRE(order != nullptr);
  unsigned long long conn_qual = 0;
  std::size_t size = 0;
  int receive = 0;
  BOOST_REQUIRE_EQUAL(std::sscanf(order, "%llu %zu %d", &conn_qual, &size, &receive), 3);
  sigset_t signals;  // blocked before the provider starts its threads, which inherit the mask
  ::sigemptyset(&signals);
  ::sigaddset(&signals, kPostReceive);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Ia ia;
  const Pz pz = make_pz(ia);
  Buffer memory(ia, pz, size);
  End end;
  end.create(ia, pz, nullptr);
  const bool at_once = receive == static_cast<int>(PeerProcess::Receive::kImmediately);
  if (at_once) REQUIRE_OK(end.post_recv(memory, size, 1));
  DAT_RMR_TRIPLET where = memory.remote(size);
  REQUIRE_OK(dat_ep_connect(end.ep, ia.attr.ia_address_ptr, conn_qual, DAT_TIMEOUT_INFINITE,
                            sizeof where, &where, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
  int signal = 0;
  if (!at_once && ::sigwait(&signals, &signal) == 0) REQUIRE_OK(end.post_recv(memory, size, 1));
  for (;;) ::pause();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
