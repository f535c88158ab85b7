// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The reports of connections to the core: which sink calls, in which order, with which arguments.
#include "providers/connecting/connection_report.h"
#include "tests/unit/reactor/support.h"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <string>
#include <vector>

namespace udapl::test {
namespace {

using transport::BreakReason;
using transport::PrivateData;
using transport::qp_locked;
using transport::QpGuard;
using transport::QpLock;

std::string text_of(PrivateData data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}
PrivateData bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

class Sink final : public transport::ConnectionSink {
 public:
  void on_established(PrivateData data) noexcept override { add("established " + text_of(data)); }
  void on_rejected(PrivateData data) noexcept override { add("rejected " + text_of(data)); }
  void on_refused() noexcept override { add("refused"); }
  void on_unreachable() noexcept override { add("unreachable"); }
  void on_timed_out() noexcept override { add("timed out"); }
  void on_accept_failed() noexcept override { add("accept failed"); }
  void on_disconnected() noexcept override { add("disconnected"); }
  void on_broken(transport::BreakCause cause) noexcept override {
    add("broken " + std::to_string(static_cast<int>(cause.why)) + cause.detail);
  }
  void on_soft_watermark() noexcept override { add("soft watermark"); }
  void on_async_error() noexcept override { add("async error"); }
  void on_srq_released() noexcept override { add("srq released"); }

  void add(std::string what) {
    calls.push_back(std::move(what));
    ++count;
  }

  std::vector<std::string> calls;
  std::atomic<std::size_t> count{0};
};

struct Reporting {
  std::unique_ptr<Reactor> reactor = make_reactor();
  QpLock lock;
  Sink sink;
  Deferred after{*reactor, Call::to<&Reporting::on_after>(this)};
  ConnectionReport<8> report{*reactor, sink, lock, &after};

  void on_after() noexcept { sink.add("after"); }
  void all_of(const std::vector<SinkCall>& calls) {
    for (const SinkCall call : calls) report.post(call);
  }
  [[nodiscard]] bool received(std::size_t count) {
    return eventually([&] { return sink.count == count; });
  }
};

// Blocks the driving thread, so that calls posted meanwhile stay pending.
class Held {
 public:
  explicit Held(Reactor& reactor) : call_(reactor, Call::to<&Held::wait>(this)) {
    call_.post();
    BOOST_REQUIRE(eventually([this] { return here_.load(); }));
  }
  ~Held() { go_ = true; }

 private:
  void wait() noexcept {
    here_ = true;
    while (!go_) std::this_thread::yield();
  }

  std::atomic<bool> here_{false};
  std::atomic<bool> go_{false};
  Deferred call_;
};

BOOST_AUTO_TEST_SUITE(reports)

BOOST_AUTO_TEST_CASE(in_the_order_of_their_numbers) {
  Reporting r;
  {
    const Held held(*r.reactor);
    r.all_of({SinkCall::kSrqReleased, SinkCall::kSoftWatermark, SinkCall::kBroken,
              SinkCall::kAsyncError, SinkCall::kEstablished, SinkCall::kNoCall});
  }
  BOOST_REQUIRE(r.received(6));
  r.report.close();
  std::erase(r.sink.calls, "after");  // its position among the others does not matter here
  const std::vector<std::string> expected = {
      "established ", "async error",
      "broken " + std::to_string(static_cast<int>(BreakReason::kTransportLost)), "soft watermark",
      "srq released"};
  BOOST_TEST(r.sink.calls == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_call_reaches_its_function) {
  Reporting r;
  const std::vector<std::pair<SinkCall, std::string>> all = {
      {SinkCall::kRejected, "rejected "},         {SinkCall::kRefused, "refused"},
      {SinkCall::kUnreachable, "unreachable"},    {SinkCall::kTimedOut, "timed out"},
      {SinkCall::kAcceptFailed, "accept failed"}, {SinkCall::kDisconnected, "disconnected"}};
  std::vector<std::string> expected;
  for (const auto& [call, name] : all) {
    expected.push_back(name);
    r.report.post(call);
    BOOST_REQUIRE(r.received(expected.size()));
  }
  r.report.close();
  BOOST_TEST(r.sink.calls == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(peer_data_is_truncated_to_the_room) {
  Reporting r;
  {
    const QpGuard guard(r.lock);
    BOOST_REQUIRE(r.report.reserve());
    r.report.keep(bytes_of("more than eight bytes"));
  }
  r.report.post(SinkCall::kEstablished);
  BOOST_REQUIRE(r.received(2));
  {
    const QpGuard guard(r.lock);
    r.report.forget();
  }
  r.report.post(SinkCall::kRejected);
  BOOST_REQUIRE(r.received(3));
  r.report.close();
  const std::vector<std::string> expected = {"established more tha", "after", "rejected "};
  BOOST_TEST(r.sink.calls == expected, boost::test_tools::per_element());
}

// The peer's data is released with the outcome, and other reports leave it alone.
BOOST_AUTO_TEST_CASE(peer_data_is_for_one_outcome) {
  Reporting r;
  for (const char* const data : {"first", "second"}) {
    r.sink.calls.clear();
    r.sink.count = 0;
    {
      const QpGuard guard(r.lock);
      BOOST_REQUIRE(r.report.reserve());
      r.report.keep(bytes_of(data));
    }
    r.report.post(SinkCall::kSoftWatermark);
    BOOST_REQUIRE(r.received(1));
    r.report.post(SinkCall::kRejected);
    BOOST_REQUIRE(r.received(2));
    r.report.post(SinkCall::kRejected);
    BOOST_REQUIRE(r.received(3));
    const std::vector<std::string> expected = {"soft watermark", std::string("rejected ") + data,
                                               "rejected "};
    BOOST_TEST(r.sink.calls == expected, boost::test_tools::per_element());
  }
  r.report.close();
}

BOOST_AUTO_TEST_CASE(with_the_cause_until_it_is_forgotten) {
  Reporting r;
  const auto why = [](BreakReason reason) { return std::to_string(static_cast<int>(reason)); };
  {
    const QpGuard guard(r.lock);
    r.report.set_cause({BreakReason::kProtocol, " bad"});
  }
  r.report.post(SinkCall::kBroken);
  BOOST_REQUIRE(r.received(1));
  {
    const QpGuard guard(r.lock);
    r.report.forget();
  }
  r.report.post(SinkCall::kBroken);
  BOOST_REQUIRE(r.received(2));
  r.report.close();
  BOOST_TEST(r.sink.calls[0] == "broken " + why(BreakReason::kProtocol) + " bad");
  BOOST_TEST(r.sink.calls[1] == "broken " + why(BreakReason::kTransportLost));
}

// An abrupt disconnect cancels the report of the connection's end, but no report about the QP.
BOOST_AUTO_TEST_CASE(a_cancelled_outcome_is_not_reported) {
  Reporting r;
  {
    const Held held(*r.reactor);
    r.all_of({SinkCall::kEstablished, SinkCall::kRejected, SinkCall::kRefused,
              SinkCall::kUnreachable, SinkCall::kTimedOut, SinkCall::kAcceptFailed,
              SinkCall::kAsyncError, SinkCall::kDisconnected, SinkCall::kBroken,
              SinkCall::kSoftWatermark, SinkCall::kSrqReleased});
    r.report.cancel_outcome();
  }
  BOOST_REQUIRE(r.received(3));
  r.report.close();
  const std::vector<std::string> expected = {"async error", "soft watermark", "srq released"};
  BOOST_TEST(r.sink.calls == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(nothing_is_reported_after_close) {
  Reporting r;
  r.report.close();
  r.report.post(SinkCall::kBroken);
  r.after.post();
  BOOST_REQUIRE(r.received(1));
  BOOST_TEST(r.sink.calls[0] == "after");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
