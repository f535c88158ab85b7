// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The adapter as the provider core sees it: limits, factories, local checks, blocking.
#include "providers/soft/adapter.h"

#include <dat/dat_ib_extensions.h>

#include <array>
#include <set>
#include <string>

#include "common/tracing/trace.h"
#include "tests/unit/soft_io/raw_socket.h"

namespace udapl::soft::test {
namespace {

struct Sinks final : transport::AdapterSink,
                     transport::CqSink,
                     transport::SrqSink,
                     transport::ListenSink,
                     transport::ConnectionSink {
  void on_catastrophic() noexcept override {}
  void on_internal_error() noexcept override {}
  void on_notify() noexcept override {}
  void on_overflow() noexcept override {}
  void on_low_watermark() noexcept override {}
  void on_async_error() noexcept override {}
  void on_request(std::unique_ptr<transport::IncomingConnection>) noexcept override {}
  void on_established(transport::PrivateData) noexcept override { ++outcomes; }
  void on_rejected(transport::PrivateData) noexcept override { ++outcomes; }
  void on_refused() noexcept override {
    refused = true;
    ++outcomes;
    word.signal();
  }
  void on_unreachable() noexcept override { ++outcomes; }
  void on_timed_out() noexcept override { ++outcomes; }
  void on_accept_failed() noexcept override { ++outcomes; }
  void on_disconnected() noexcept override { ++outcomes; }
  void on_broken(transport::BreakCause) noexcept override { ++outcomes; }
  void on_soft_watermark() noexcept override {}

  WaitWord word;
  std::atomic<bool> refused{false};
  std::atomic<int> outcomes{0};
};

struct Opened {
  Opened() {
    auto opened = Adapter::open("lo 0", sinks);
    BOOST_REQUIRE(opened.ok());
    adapter = *std::move(opened);
  }
  Sinks sinks;
  std::unique_ptr<transport::Adapter> adapter;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(adapter_of_lo, Opened)

BOOST_AUTO_TEST_CASE(attributes_obey_the_rules_of_the_interface) {
  const transport::Attributes& a = adapter->attributes();
  BOOST_TEST(a.device_name == "lo");
  BOOST_TEST(!a.vendor_name.empty());
  BOOST_TEST(a.address.family() == AF_INET);
  BOOST_TEST(a.private_data.request >= 64);
  BOOST_TEST(a.private_data.request <= static_cast<int>(iwarp::max_private_data(true)));
  BOOST_TEST(a.max_segments >= 4);
  BOOST_TEST(a.max_evds >= 2);
  BOOST_TEST(a.max_dto_per_ep >= 50'000);  // what the uDAPL module of NetPIPE requests
  BOOST_TEST(a.max_evd_qlen >= a.max_dto_per_ep);
  BOOST_TEST(a.max_rdma_read_in <= int{iwarp::kDepthMax});
  BOOST_TEST(a.max_rdma_read_in_total >= a.max_rdma_read_in);
  BOOST_TEST(a.max_rdma_read_out_total >= a.max_rdma_read_out);
  BOOST_TEST(a.max_eps_per_srq > 0);
  BOOST_TEST(a.extension == DAT_EXTENSION_IB);
  BOOST_TEST(a.extension_version == DAT_IB_EXTENSION_VERSION);
  std::set<std::string> names;
  for (const auto& [name, value] : a.provider_specific) {
    BOOST_TEST(names.insert(name).second, name);
    BOOST_TEST(!value.empty(), name);
  }
  BOOST_TEST(names.count(DAT_IB_ATTR_IMMED_DATA) == 1U);
}

BOOST_AUTO_TEST_CASE(wrong_device_is_an_invalid_address) {
  const int level = trace::level();
  trace::set_level(0);
  BOOST_TEST((Adapter::open("nosuch0 0", sinks).status().type() == DAT_INVALID_ADDRESS));
  BOOST_TEST((Adapter::open("", sinks).status().type() == DAT_INVALID_PARAMETER));
  BOOST_TEST((Adapter::open("lo 0 crc=maybe", sinks).status().type() == DAT_INVALID_PARAMETER));
  trace::set_level(level);
}

BOOST_AUTO_TEST_CASE(several_adapters_at_one_address) {
  auto other = Adapter::open("lo 0", sinks);
  BOOST_REQUIRE(other.ok());
  auto here = adapter->listen({0, nullptr}, sinks);
  BOOST_REQUIRE(here.ok());
  // Ports belong to the machine, not to the adapter.
  BOOST_TEST(((*other)->listen({(*here)->conn_qual(), nullptr}, sinks).status().type() ==
              DAT_CONN_QUAL_IN_USE));
}

BOOST_AUTO_TEST_CASE(adapter_makes_all_and_wakes_the_waiter) {
  auto pd = adapter->create_pd();
  auto cq = adapter->create_cq(16, sinks);
  BOOST_REQUIRE((pd.ok() && cq.ok()));
  auto srq = adapter->create_srq(**pd, 8, 2, sinks);
  auto window = adapter->create_window(**pd, transport::WindowScope::kPd);
  BOOST_REQUIRE((srq.ok() && window.ok()));
  transport::QpInit init{};
  init.sink = &sinks;
  init.pd = pd->get();
  init.recv_cq = init.request_cq = cq->get();
  init.srq = srq->get();
  init.max_request = 4;
  init.max_request_segments = 2;
  auto qp = adapter->create_qp(init);
  BOOST_REQUIRE(qp.ok());

  DAT_CONN_QUAL unused_qual = 0;
  {
    auto listener = adapter->listen({0, nullptr}, sinks);
    BOOST_REQUIRE(listener.ok());
    unused_qual = (*listener)->conn_qual();
  }
  BOOST_REQUIRE((*qp)->connect({adapter->attributes().address, unused_qual, 20'000'000, {}}).ok());
  const auto end = Clock::now() + kPatience;
  while (true) {
    const auto seen = sinks.word.value();  // read each time, because the reactor signals it, too
    if (sinks.refused || Clock::now() >= end) break;
    adapter->block(sinks.word, seen, end);
  }
  BOOST_TEST(sinks.refused);
  BOOST_TEST(sinks.outcomes == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
