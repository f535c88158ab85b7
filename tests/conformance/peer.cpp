// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace conformance {

namespace {

constexpr const char* kConnQualVariable = "CONFORMANCE_PEER_CONN_QUAL";

}  // namespace

PeerProcess::PeerProcess(DAT_CONN_QUAL conn_qual) {
  ::setenv(kConnQualVariable, std::to_string(conn_qual).c_str(), 1);
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

void PeerProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

DAT_CR_HANDLE PairWithProcess::start_and_take_cr() {
  peer.emplace(pair.conn_qual);
  const DAT_EVENT event = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
  const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
  DAT_CR_PARAM param{};
  REQUIRE_OK(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
  // That it is exact is a test of its own; a provider that pads has its other tests.
  BOOST_REQUIRE_GE(param.private_data_size, static_cast<DAT_COUNT>(sizeof memory));
  std::memcpy(&memory, param.private_data, sizeof memory);
  return cr;
}

void PairWithProcess::connect() {
  REQUIRE_OK(dat_cr_accept(start_and_take_cr(), pair.passive.ep, 0, nullptr));
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

// ---- in the peer process ----

BOOST_AUTO_TEST_SUITE(peer, *boost::unit_test::disabled())

BOOST_AUTO_TEST_CASE(connect) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive the test
  const char* const conn_qual = std::getenv(kConnQualVariable);
  BOOST_REQUIRE(conn_qual != nullptr);
  Ia ia;
  const Pz pz = make_pz(ia);
  Buffer memory(ia, pz, kPeerMemory);
  End end;
  end.create(ia, pz, nullptr);
  REQUIRE_OK(end.post_recv(memory, kPeerMemory, 1));
  DAT_RMR_TRIPLET where = memory.remote(kPeerMemory);
  REQUIRE_OK(dat_ep_connect(end.ep, ia.attr.ia_address_ptr, std::strtoull(conn_qual, nullptr, 10),
                            DAT_TIMEOUT_INFINITE, sizeof where, &where, DAT_QOS_BEST_EFFORT,
                            DAT_CONNECT_DEFAULT_FLAG));
  for (;;) ::pause();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
