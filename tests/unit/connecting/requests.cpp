// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Which requests a listener's sink receives, in which order, and what happens to the rest.
#include "providers/connecting/failures.h"
#include "providers/connecting/listening.h"
#include "tests/unit/reactor/support.h"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cerrno>
#include <vector>

namespace udapl::test {
namespace {

// A request with a number; counts the existing requests.
class Numbered final : public transport::IncomingConnection {
 public:
  Numbered(int which, std::atomic<int>& alive) : number(which), alive_(alive) { ++alive_; }
  ~Numbered() override { --alive_; }

  [[nodiscard]] transport::PrivateData private_data() const noexcept override { return {}; }
  [[nodiscard]] const transport::Endpoints& endpoints() const noexcept override { return ends_; }
  [[nodiscard]] int peer_rdma_read_in() const noexcept override { return -1; }
  [[nodiscard]] int peer_rdma_read_out() const noexcept override { return -1; }
  Status accept(transport::Qp&, transport::PrivateData) override { return Status(); }
  void reject(transport::PrivateData) noexcept override {}

  const int number;

 private:
  std::atomic<int>& alive_;
  transport::Endpoints ends_;
};

// Destroys the queue when request number `last` arrives; -1 means never.
class Sink final : public transport::ListenSink {
 public:
  void on_request(std::unique_ptr<transport::IncomingConnection> request) noexcept override {
    numbers.push_back(static_cast<const Numbered&>(*request).number);
    if (numbers.back() == last) queue.reset();
    ++calls;
  }

  std::vector<int> numbers;
  std::unique_ptr<RequestQueue> queue;
  int last = -1;
  std::atomic<int> calls{0};
};

struct Listening {
  std::atomic<int> alive{0};
  std::unique_ptr<Reactor> reactor = make_reactor();
  Sink sink;

  Listening() { sink.queue = std::make_unique<RequestQueue>(*reactor, sink); }
  bool add(int number) {
    RequestQueue::Request request = std::make_unique<Numbered>(number, alive);
    return sink.queue->add(request) && request == nullptr;
  }
};

BOOST_AUTO_TEST_SUITE(requests)

BOOST_AUTO_TEST_CASE(each_is_reported_once_and_in_order) {
  Listening l;
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) {
    BOOST_REQUIRE(l.add(i));
    expected.push_back(i);
  }
  BOOST_REQUIRE(eventually([&] { return l.sink.calls == 100; }));
  l.sink.queue.reset();
  BOOST_TEST(l.sink.numbers == expected, boost::test_tools::per_element());
  BOOST_TEST(l.alive == 0);
}

BOOST_AUTO_TEST_CASE(the_sink_may_destroy_the_listener) {
  Listening l;
  l.sink.last = 0;
  BOOST_REQUIRE(l.add(0));
  BOOST_REQUIRE(eventually([&] { return l.sink.calls == 1; }));
  BOOST_TEST(l.sink.queue == nullptr);
  BOOST_TEST(l.alive == 0);
}

// Destroying a request refuses the peer.
BOOST_AUTO_TEST_CASE(what_comes_after_close_is_refused) {
  Listening l;
  l.sink.queue->close();
  BOOST_REQUIRE(l.add(7));
  BOOST_TEST(l.alive == 1);
  l.sink.queue.reset();
  BOOST_TEST(l.alive == 0);
  BOOST_TEST(l.sink.calls == 0);
}

BOOST_AUTO_TEST_CASE(errors_of_a_port) {
  BOOST_TEST(listen_failure(EADDRINUSE, false).code() == dat_error(DAT_CONN_QUAL_IN_USE));
  BOOST_TEST(listen_failure(EADDRINUSE, true).code() == dat_error(DAT_CONN_QUAL_UNAVAILABLE));
  BOOST_TEST(listen_failure(EACCES, false).code() == dat_error(DAT_CONN_QUAL_UNAVAILABLE));
  BOOST_TEST(listen_failure(EBUSY, false).code() == dat_error(DAT_CONN_QUAL_IN_USE));
  for (const int error : {EADDRNOTAVAIL, ENODEV, EAFNOSUPPORT, EINVAL})
    BOOST_TEST(listen_failure(error, false).code() == dat_error(DAT_INVALID_ADDRESS), error);
  BOOST_TEST(listen_failure(ENOMEM, false).code() == dat_error(DAT_INSUFFICIENT_RESOURCES));
}

BOOST_AUTO_TEST_CASE(errors_of_a_connect) {
  for (const int error : {EADDRNOTAVAIL, ENODEV, ENETUNREACH, EHOSTUNREACH, ECONNREFUSED})
    BOOST_TEST(connect_failure(error).ok(), error);
  for (const int error : {EMFILE, ENOBUFS, EADDRINUSE})
    BOOST_TEST((connect_failure(error).type() == DAT_INSUFFICIENT_RESOURCES), error);
  BOOST_TEST(connect_failure(ENOMEM).code() ==
             dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
  BOOST_TEST((connect_failure(EAFNOSUPPORT).type() == DAT_INVALID_ADDRESS));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
