// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "wire.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <list>

// Strangers at a service point (vm_stranger, which uses rdma_cm directly): the server must answer
// them, serve a good client at the same time and afterwards, and keep none of their resources.
namespace wire {

using namespace conformance;

namespace {

constexpr std::size_t kMessage = 512;
constexpr DAT_TIMEOUT kLook = 20 * kMillisecond;

// vm_stranger as a child process. It prints a line when it has sent its requests.
class Stranger {
 public:
  Stranger(const char* mode, DAT_CONN_QUAL conn_qual, int count) {
    int ends[2];
    BOOST_REQUIRE_EQUAL(::pipe(ends), 0);
    const std::string port = std::to_string(conn_qual);
    const std::string number = std::to_string(count);
    pid_ = ::fork();
    BOOST_REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      const std::string program = output_path();
      ::execl(program.c_str(), "vm_stranger", mode, "192.0.2.1", port.c_str(), number.c_str(),
              nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    says_ = ends[0];
  }
  ~Stranger() {
    if (pid_ > 0) static_cast<void>(end());
    ::close(says_);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  // Returns whether it has ended by itself; checks its exit status.
  [[nodiscard]] bool ended() {
    int status = 0;
    const pid_t who = ::waitpid(pid_, &status, WNOHANG);
    if (who != pid_) return false;
    pid_ = -1;
    BOOST_CHECK_MESSAGE(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                        "the stranger ended with " << status);
    return true;
  }
  bool end() {
    ::kill(pid_, SIGKILL);
    int status = 0;
    const bool gone = ::waitpid(pid_, &status, 0) == pid_;
    pid_ = -1;
    return gone;
  }

 private:
  // The path of vm_stranger, beside this program.
  static std::string output_path() {
    char path[4096];
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
    std::string text(path, length > 0 ? static_cast<std::size_t>(length) : 0);
    return text.substr(0, text.rfind('/') + 1) + "vm_stranger";
  }

  pid_t pid_ = -1;
  int says_ = -1;
};

// Answers the requests of strangers: rejects every second one and gives the others an EP, which is
// freed when its connection has ended.
class Doorman {
 public:
  explicit Doorman(Hosts& hosts) : hosts_(hosts) {}

  void look() {
    const auto event = next_event(hosts_.cr_evd, kLook);
    if (event) {
      BOOST_CHECK_EQUAL(event->event_number, DAT_CONNECTION_REQUEST_EVENT);
      answer(event->event_data.cr_arrival_event_data.cr_handle);
    }
    for (auto it = ends_.begin(); it != ends_.end();) {
      DAT_EVENT what{};
      bool over = false;
      while (dat_evd_dequeue(it->connect_evd, &what) == DAT_SUCCESS)
        over = over || what.event_number != DAT_CONNECTION_EVENT_ESTABLISHED;
      it = over ? ends_.erase(it) : std::next(it);
    }
  }
  void answer(DAT_CR_HANDLE cr) {
    ++requests_;
    DAT_CR_PARAM param{};
    REQUIRE_OK(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
    if (requests_ % 2 == 0) {
      // If the peer has gone already, the call may fail.
      const DAT_RETURN status = dat_cr_reject(cr, 0, nullptr);
      BOOST_CHECK(status == DAT_SUCCESS || DAT_GET_TYPE(status) == DAT_INTERNAL_ERROR);
      return;
    }
    End& end = ends_.emplace_back();
    end.create(hosts_.server.ia, hosts_.server.pz, nullptr);
    REQUIRE_OK(dat_cr_accept(cr, end.ep, 0, nullptr));
  }
  [[nodiscard]] int requests() const { return requests_; }
  [[nodiscard]] std::size_t open() const { return ends_.size(); }
  // Waits until no connection of a stranger is left.
  void wait_for_the_end_of_all() {
    const Stopwatch stopwatch;
    while (!ends_.empty() && stopwatch.seconds() < 60) look();
    BOOST_CHECK_MESSAGE(ends_.empty(), ends_.size() << " connections of strangers do not end");
  }

 private:
  Hosts& hosts_;
  std::list<End> ends_;
  int requests_ = 0;
};

// A connection with a service point of its own, which stays up all the time.
struct Bystander {
  Bystander()
      : connection(hosts),
        here(hosts.client.ia, hosts.client.pz, kMessage),
        there(hosts.server.ia, hosts.server.pz, kMessage) {}

  void exchange() {
    ++seed;
    here.fill(seed);
    REQUIRE_OK(connection.passive.post_recv(there, kMessage, 1));
    REQUIRE_OK(connection.active.post_send(here, kMessage, 2));
    expect_dto(connection.passive.recv_evd, DAT_DTO_SUCCESS, 1);
    BOOST_CHECK(there.holds(seed, kMessage));
    expect_dto(connection.active.request_evd, DAT_DTO_SUCCESS, 2);
  }

  Hosts hosts;
  Connection connection;
  Buffer here;
  Buffer there;
  std::uint8_t seed = 0;
};

// Private data that tell the good client's requests from those of strangers.
constexpr std::string_view kGood = "a good client of this test";

void good_client(Hosts& hosts, Doorman& doorman) {
  End active;
  End passive;
  active.create(hosts.client.ia, hosts.client.pz, nullptr);
  passive.create(hosts.server.ia, hosts.server.pz, nullptr);
  REQUIRE_OK(dat_ep_connect(active.ep, hosts.server.ia.attr.ia_address_ptr, hosts.conn_qual,
                            kPatience, static_cast<DAT_COUNT>(kGood.size()),
                            const_cast<char*>(kGood.data()), DAT_QOS_BEST_EFFORT,
                            DAT_CONNECT_DEFAULT_FLAG));
  for (;;) {
    const DAT_CR_HANDLE cr = hosts.take_request();
    DAT_CR_PARAM param{};
    REQUIRE_OK(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
    const std::string_view data(static_cast<const char*>(param.private_data),
                                static_cast<std::size_t>(param.private_data_size));
    if (data.substr(0, kGood.size()) == kGood) {
      REQUIRE_OK(dat_cr_accept(cr, passive.ep, 0, nullptr));
      break;
    }
    doorman.answer(cr);
  }
  expect_event(active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(dat_ep_disconnect(active.ep, DAT_CLOSE_ABRUPT_FLAG));
  expect_connection_end(active.connect_evd);
  expect_connection_end(passive.connect_evd);
}

void storm(const char* mode, int count) {
  const NothingLeft nothing_left;
  Bystander bystander;
  Hosts hosts;
  Doorman doorman(hosts);
  {
    Stranger stranger(mode, hosts.conn_qual, count);
    while (!stranger.ended()) {
      doorman.look();
      bystander.exchange();
    }
  }
  good_client(hosts, doorman);
  doorman.wait_for_the_end_of_all();
  BOOST_CHECK_GT(doorman.requests(), 0);
  bystander.exchange();
  bystander.connection.disconnect();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hostile)

BOOST_AUTO_TEST_CASE(requests_that_nobody_stands_by) { storm("abandon", 150); }

BOOST_AUTO_TEST_CASE(connections_that_end_at_once) { storm("leave", 60); }

// Strangers send requests and never read the answers. An accepted connection waits for the last
// message of the set-up for DAPL_CM_RTU_TIMEOUT_MS; then its EP is notified.
BOOST_AUTO_TEST_CASE(silent_after_the_request) {
  const Setting timeout("DAPL_CM_RTU_TIMEOUT_MS", "1500");
  const NothingLeft nothing_left;
  Bystander bystander;
  Hosts hosts;
  Doorman doorman(hosts);
  constexpr int kSilent = 20;
  Stranger stranger("silent", hosts.conn_qual, kSilent);
  const Stopwatch stopwatch;
  while (doorman.requests() < kSilent && stopwatch.seconds() < 60) {
    doorman.look();
    bystander.exchange();
  }
  BOOST_CHECK_EQUAL(doorman.requests(), kSilent);
  good_client(hosts, doorman);
  doorman.wait_for_the_end_of_all();
  bystander.exchange();
  BOOST_CHECK(stranger.end());
  bystander.connection.disconnect();
}

// A stranger is killed between its request and the answer.
BOOST_AUTO_TEST_CASE(killed_before_the_answer) {
  const NothingLeft nothing_left;
  Hosts hosts;
  Doorman doorman(hosts);
  std::vector<DAT_CR_HANDLE> requests;
  {
    Stranger stranger("silent", hosts.conn_qual, 10);
    for (int i = 0; i < 10; ++i) requests.push_back(hosts.take_request());
    BOOST_CHECK(stranger.end());
  }
  for (const DAT_CR_HANDLE cr : requests) doorman.answer(cr);
  good_client(hosts, doorman);
  doorman.wait_for_the_end_of_all();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace wire
