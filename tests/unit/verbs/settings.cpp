// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The inputs of an adapter: its dat.conf field, addresses, environment, device attributes.
#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "providers/verbs/attributes.h"
#include "providers/verbs/environment.h"
#include "providers/verbs/ia_params.h"
#include "providers/verbs/local_address.h"
#include "providers/verbs/rdma_cm/address.h"
#include "providers/verbs/rdma_cm/connector.h"

namespace udapl::verbs {

namespace {

Environment environment_of(const std::map<std::string, std::string>& variables) {
  return Environment::from([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

transport::SocketAddress address_of(const char* text) {
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET, text, &ipv4.sin_addr) == 1)
    return transport::SocketAddress::from(reinterpret_cast<const sockaddr*>(&ipv4));
  BOOST_REQUIRE_EQUAL(inet_pton(AF_INET6, text, &ipv6.sin6_addr), 1);
  return transport::SocketAddress::from(reinterpret_cast<const sockaddr*>(&ipv6));
}

// A device that was never opened.
struct FakeDevice {
  FakeDevice() {
    verbs_device.transport_type = IBV_TRANSPORT_IB;
    context.device = &verbs_device;
    device.context.reset(&context);
    device.name = "mlx5_0";
    device.port = 2;
    device.address = address_of("192.0.2.7");
    ibv_device_attr& attr = device.attr.orig_attr;
    attr.max_qp = 100;
    attr.max_qp_wr = 4096;
    attr.max_cq = 50;
    attr.max_cqe = 1 << 20;
    attr.max_sge = 30;
    attr.max_mw = 10;
    attr.max_srq = 5;
    attr.max_srq_wr = 1000;
    attr.atomic_cap = IBV_ATOMIC_HCA;
    attr.device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    device.port_attr.max_msg_sz = 1U << 30;
    device.port_attr.active_mtu = IBV_MTU_4096;
    device.port_attr.state = IBV_PORT_ACTIVE;
  }
  ~FakeDevice() { static_cast<void>(device.context.release()); }
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  ibv_device verbs_device{};
  ibv_context context{};
  Device device;
};

std::string named(const transport::Attributes& attributes, const std::string& name) {
  for (const auto& [key, value] : attributes.provider_specific)
    if (key == name) return value;
  return "(none)";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(settings)

BOOST_AUTO_TEST_CASE(ia_params_give_a_name_and_a_port) {
  const auto usual = parse_ia_params("ib0 0");
  BOOST_REQUIRE(usual);
  BOOST_CHECK_EQUAL(usual->name, "ib0");
  BOOST_CHECK_EQUAL(usual->port, 0);
  const auto device = parse_ia_params("  mlx5_0\t0x2 whatever");
  BOOST_REQUIRE(device);
  BOOST_CHECK_EQUAL(device->name, "mlx5_0");
  BOOST_CHECK_EQUAL(device->port, 2);
  const auto bare = parse_ia_params("eth2");
  BOOST_REQUIRE(bare);
  BOOST_CHECK_EQUAL(bare->name, "eth2");
  BOOST_CHECK(!bare->delayed_ack);
  BOOST_CHECK(!parse_ia_params("ib0 0 delayed_ack=off")->delayed_ack);
  BOOST_CHECK(!parse_ia_params("ib0 0 delayed_ack=writes")->delayed_ack);
  BOOST_CHECK(parse_ia_params("ib0 0 whatever delayed_ack=on and more")->delayed_ack);
  for (const char* bad : {"ib0 0 delayed_ack=", "ib0 0 delayed_ack=yes", "", "   ", "ib0 x",
                          "ib0 1x", "ib0 -1", "ib0 256"})
    BOOST_CHECK_MESSAGE(!parse_ia_params(bad), bad);
}

BOOST_AUTO_TEST_CASE(unset_variables_give_the_defaults) {
  const Environment e = environment_of({});
  BOOST_CHECK_EQUAL(e.arp_timeout_ms, 4000U);
  BOOST_CHECK_EQUAL(e.arp_retries, 15U);
  BOOST_CHECK_EQUAL(e.route_timeout_ms, 4000U);
  BOOST_CHECK_EQUAL(e.route_retries, 15U);
  BOOST_CHECK_EQUAL(e.drain_timeout_ms, 5000U);
  BOOST_CHECK_EQUAL(e.retry_count, 7);
  BOOST_CHECK_EQUAL(e.rnr_retry, 7);
  BOOST_CHECK_EQUAL(e.max_inline, 64U);
  BOOST_CHECK(!e.ack_timer && !e.rnr_timer && !e.path_mtu && !e.pkey && !e.max_work);
}

BOOST_AUTO_TEST_CASE(set_variables_are_parsed) {
  const Environment e = environment_of({{"DAPL_CM_ARP_TIMEOUT_MS", "0x10"},
                                        {"DAPL_ACK_TIMER", "020"},
                                        {"DAPL_IB_MTU", "1024"},
                                        {"DAPL_IB_PKEY", "0x8001"},
                                        {"DAPL_WR_MAX", "500"},
                                        {"DAPL_MAX_INLINE", "0"}});
  BOOST_CHECK_EQUAL(e.arp_timeout_ms, 16U);
  BOOST_CHECK(e.ack_timer == 16);
  BOOST_CHECK(e.path_mtu == 1024U);
  BOOST_CHECK(e.pkey == 0x8001);
  BOOST_CHECK(e.max_work == 500U);
  BOOST_CHECK_EQUAL(e.max_inline, 0U);
}

BOOST_AUTO_TEST_CASE(environment_nonsense_is_ignored) {
  const Environment e = environment_of({{"DAPL_CM_ARP_TIMEOUT_MS", "4 s"},
                                        {"DAPL_CM_ARP_RETRY_COUNT", "-1"},
                                        {"DAPL_ACK_RETRY", "8"},
                                        {"DAPL_IB_MTU", "1500"},
                                        {"DAPL_IB_PKEY", "0x18001"},
                                        {"DAPL_WR_MAX", "99999999999999999999"},
                                        {"DAPL_MAX_INLINE", ""}});
  BOOST_CHECK_EQUAL(e.arp_timeout_ms, 4000U);
  BOOST_CHECK_EQUAL(e.arp_retries, 15U);
  BOOST_CHECK_EQUAL(e.retry_count, 7);
  BOOST_CHECK(!e.path_mtu && !e.pkey && !e.max_work);
  BOOST_CHECK_EQUAL(e.max_inline, 64U);
}

BOOST_AUTO_TEST_CASE(environment_without_effect) {
  const auto names = [](const std::map<std::string, std::string>& variables,
                        Addressing addressing) {
    std::string all;
    const auto lookup = [&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    };
    for (const Ineffective& variable : ineffective(lookup, addressing)) {
      BOOST_CHECK(*variable.why != '\0');
      all.append(variable.name).append(1, ' ');
    }
    return all;
  };
  BOOST_CHECK_EQUAL(names({{"DAPL_ACK_RETRY", "3"}}, Addressing::kIpOnEthernet), "");
  BOOST_CHECK_EQUAL(names({{"DAPL_IB_MTU", "512"}, {"DAPL_UCM_TIMER", ""}}, Addressing::kGid),
                    "DAPL_IB_MTU DAPL_UCM_TIMER ");
  const std::map<std::string, std::string> pkey = {{"DAPL_IB_PKEY", "0x8001"}};
  BOOST_CHECK_EQUAL(names(pkey, Addressing::kGid), "");
  BOOST_CHECK_EQUAL(names(pkey, Addressing::kIpOnInfiniBand), "DAPL_IB_PKEY ");
  BOOST_CHECK_EQUAL(names(pkey, Addressing::kIpOnEthernet), "DAPL_IB_PKEY ");
}

// The page lists exactly the variables that the provider reads, besides those for traces.
BOOST_AUTO_TEST_CASE(page_lists_exactly_what_is_read) {
  std::ifstream file(UDAPL_ENVIRONMENT_PAGE);
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  BOOST_REQUIRE(!page.empty());
  std::set<std::string> queried;
  const auto note = [&](const char* name) -> const char* {
    queried.insert(name);
    return nullptr;
  };
  (void)Environment::from(note);
  (void)ineffective(note, Addressing::kIpOnEthernet);
  std::set<std::string> documented;
  const std::regex name("`(DAPL_[A-Z_]+)`");
  for (std::sregex_iterator i(page.begin(), page.end(), name), end; i != end; ++i)
    documented.insert((*i)[1]);
  // The variables for traces are read elsewhere.
  for (const char* trace :
       {"DAPL_TRACE_LEVEL", "DAPL_TRACE_SINK", "DAPL_DBG_TYPE", "DAPL_DBG_LEVEL", "DAPL_DBG_DEST"})
    BOOST_CHECK_EQUAL(documented.erase(trace), 1U);
  BOOST_CHECK_EQUAL_COLLECTIONS(documented.begin(), documented.end(), queried.begin(),
                                queried.end());
}

BOOST_AUTO_TEST_CASE(addresses_by_number) {
  const std::vector<Interface> interfaces = {{"lo", address_of("127.0.0.1")},
                                             {"ib0", address_of("2001:db8::1")}};
  BOOST_REQUIRE(by_number(interfaces, "2001:db8::1") != nullptr);
  BOOST_CHECK_EQUAL(by_number(interfaces, "2001:db8::1")->name, "ib0");
  BOOST_CHECK(by_number(interfaces, "192.0.2.99") == nullptr);
  BOOST_CHECK(by_number(interfaces, "ib0") == nullptr);
  BOOST_CHECK(by_host_name(interfaces, "localhost") == &interfaces[0]);
}

BOOST_AUTO_TEST_CASE(attributes_of_a_device) {
  const FakeDevice fake;
  const transport::Attributes a =
      make_attributes(fake.device, environment_of({{"DAPL_IB_MTU", "2048"}, {"DAPL_WR_MAX", "64"}}),
                      kRdmaCm.private_data_room(fake.device));
  BOOST_CHECK_EQUAL(a.device_name, "mlx5_0");
  BOOST_CHECK_EQUAL(a.max_eps, 100);
  BOOST_CHECK_EQUAL(a.max_dto_per_ep, 64);
  BOOST_CHECK_EQUAL(a.max_message_size, 1U << 30);
  BOOST_CHECK_EQUAL(a.private_data.request, 56);
  BOOST_CHECK_EQUAL(a.private_data.reply, 192);
  BOOST_CHECK_EQUAL(a.private_data.rejection, 140);
  BOOST_CHECK_EQUAL(a.max_srqs, 5);
  BOOST_CHECK_EQUAL(a.max_rmrs, 10);
  BOOST_CHECK_EQUAL(a.rmr_scope, DAT_RMR_SCOPE_ANY);
  BOOST_CHECK(!a.send_invalidate);
  BOOST_CHECK_EQUAL(a.extension, DAT_EXTENSION_IB);
  BOOST_CHECK_EQUAL(named(a, "DAT_IB_PROVIDER_NAME"), "CMA");
  BOOST_CHECK_EQUAL(named(a, "DAT_IB_TRANSPORT_MTU"), "2048");
  BOOST_CHECK_EQUAL(named(a, "DAT_IB_PORT_NUMBER"), "2");
  BOOST_CHECK_EQUAL(named(a, "DAT_IB_PORT_STATUS"), "ACTIVE");
  BOOST_CHECK_EQUAL(named(a, "DAT_IB_FETCH_AND_ADD"), "TRUE");
  BOOST_CHECK_EQUAL(named(a, "DAT_IB_NODE_GUID"), "0000:0000:0000:0000");
}

BOOST_AUTO_TEST_CASE(attributes_of_lesser_devices) {
  FakeDevice fake;
  fake.device.attr.orig_attr.device_cap_flags = IBV_DEVICE_MEM_WINDOW;
  fake.device.attr.orig_attr.atomic_cap = IBV_ATOMIC_NONE;
  transport::Attributes a =
      make_attributes(fake.device, Environment{}, kRdmaCm.private_data_room(fake.device));
  BOOST_CHECK_EQUAL(a.rmr_scope, DAT_RMR_SCOPE_PZ);
  BOOST_CHECK_EQUAL(named(a, "DAT_IB_CMP_AND_SWAP"), "FALSE");

  fake.verbs_device.transport_type = IBV_TRANSPORT_IWARP;
  fake.device.attr.orig_attr.device_cap_flags = 0;
  fake.device.attr.orig_attr.max_srq_wr = 0;
  a = make_attributes(fake.device, Environment{}, kRdmaCm.private_data_room(fake.device));
  BOOST_CHECK_EQUAL(a.extension, DAT_EXTENSION_NONE);
  BOOST_CHECK_EQUAL(a.max_rmrs, 0);
  BOOST_CHECK_EQUAL(a.max_srqs, 0);
  BOOST_CHECK_EQUAL(a.max_read_segments, 1);
  BOOST_CHECK_EQUAL(a.private_data.request, 247);  // fits every message of rdma_cm and siw
  BOOST_CHECK(a.read_sink_needs_remote_write);
}

// As rdma_cm records them in the id of a request.
BOOST_AUTO_TEST_CASE(link_local_ends_have_the_scope_of_the_adapter) {
  FakeDevice fake;
  fake.device.address = address_of("fe80::7");
  fake.device.address.storage.sin6_scope_id = 3;
  rdma_cm_id id{};
  id.route.addr.src_sin6 = address_of("fe80::7").storage;
  id.route.addr.dst_sin6 = address_of("fe80::8").storage;
  const transport::Endpoints near = endpoints_of(fake.device, id);
  BOOST_CHECK_EQUAL(near.local.storage.sin6_scope_id, 3);
  BOOST_CHECK_EQUAL(near.remote.storage.sin6_scope_id, 3);

  id.route.addr.dst_sin6 = address_of("2001:db8::8").storage;
  const transport::Endpoints far = endpoints_of(fake.device, id);
  BOOST_CHECK_EQUAL(far.remote.storage.sin6_scope_id, 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::verbs
