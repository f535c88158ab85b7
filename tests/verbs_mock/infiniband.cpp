// SPDX-License-Identifier: MIT OR GPL-2.0-only
// InfiniBand ports without an IP address: found by device, port or GID, and connected by AF_IB.
#include <dat/dat_diagnosis_extensions.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "mock_control.h"
#include "run.h"

namespace {

using faults::Pair;
using faults::Run;

// A GID of the double: fe80:: (or fec0::) and the GUID of the device + the number of the port.
constexpr unsigned char kGid[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0xff, 0xee, 0, 0, 0, 0, 3};

// Sets the fabric and the wanted partition for the duration of a test.
struct Fabric {
  explicit Fabric(verbs_mock_fabric kind, const char* pkey = nullptr) {
    verbs_mock_set_fabric(kind);
    if (pkey != nullptr) ::setenv("DAPL_IB_PKEY", pkey, 1);
  }
  ~Fabric() {
    verbs_mock_set_fabric(VERBS_MOCK_ROCE);
    ::unsetenv("DAPL_IB_PKEY");
  }
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
};

std::string named(const Run& run, const char* wanted) {
  DAT_PROVIDER_ATTR provider{};
  BOOST_REQUIRE_EQUAL(
      dat_ia_query(run.ia, nullptr, DAT_IA_FIELD_NONE, nullptr, DAT_PROVIDER_FIELD_ALL, &provider),
      DAT_SUCCESS);
  for (int i = 0; i < provider.num_provider_specific_attr; ++i)
    if (std::strcmp(provider.provider_specific_attr[i].name, wanted) == 0)
      return provider.provider_specific_attr[i].value;
  return "(none)";
}

DAT_COUNT private_data_room(const Run& run) {
  DAT_PROVIDER_ATTR provider{};
  BOOST_REQUIRE_EQUAL(
      dat_ia_query(run.ia, nullptr, DAT_IA_FIELD_NONE, nullptr, DAT_PROVIDER_FIELD_ALL, &provider),
      DAT_SUCCESS);
  return provider.max_private_data_size;
}

void check_clean(Run& run) {
  run.finish();
  BOOST_CHECK_MESSAGE(run.outcome().empty(), run.outcome());
  for (const std::string& complaint : run.complaints()) BOOST_ERROR(complaint);
  char left[256];
  BOOST_CHECK_MESSAGE(verbs_mock_live(left, sizeof left) == 0, left);
}

const unsigned char* gid_of(const Run& run) {
  const auto* const address = reinterpret_cast<const sockaddr_in6*>(run.attr.ia_address_ptr);
  BOOST_REQUIRE_EQUAL(address->sin6_family, AF_INET6);
  BOOST_CHECK_EQUAL(address->sin6_port, 0);
  return address->sin6_addr.s6_addr;
}

BOOST_AUTO_TEST_SUITE(infiniband)

BOOST_AUTO_TEST_CASE(found_by_device_and_port) {
  const Fabric fabric(VERBS_MOCK_INFINIBAND);
  // The first port is down; port 0 means the first active one.
  for (const char* adapter : {"device", "device-2"}) {
    Run run(adapter);
    BOOST_REQUIRE(run.open());
    BOOST_CHECK_EQUAL(std::memcmp(gid_of(run), kGid, sizeof kGid), 0);
    BOOST_CHECK_EQUAL(named(run, "DAT_IB_PORT_NUMBER"), "2");
    BOOST_CHECK_EQUAL(named(run, "DAT_IB_GID"), "fe80:0000:0000:0000:02ff:ee00:0000:0003");
    BOOST_CHECK_EQUAL(private_data_room(run), 92);
    check_clean(run);
  }
  Run down("device-1");
  BOOST_REQUIRE(down.open());
  BOOST_CHECK_EQUAL(named(down, "DAT_IB_PORT_STATUS"), "DOWN");
  check_clean(down);
}

BOOST_AUTO_TEST_CASE(found_by_gid) {
  const Fabric fabric(VERBS_MOCK_INFINIBAND);
  Run run("gid");  // the second GID of port 2
  BOOST_REQUIRE(run.open());
  BOOST_CHECK_EQUAL(named(run, "DAT_IB_PORT_NUMBER"), "2");
  BOOST_CHECK_EQUAL(named(run, "DAT_IB_GID"), "fec0:0000:0000:0000:02ff:ee00:0000:0003");
  check_clean(run);
}

// RoCE has two GIDs: one of version 1 from the hardware address, one of version 2 from the IP
// address.
BOOST_AUTO_TEST_CASE(roce_version_2) {
  Run run;
  BOOST_REQUIRE(run.open());
  BOOST_CHECK_EQUAL(named(run, "DAT_IB_GID"), "0000:0000:0000:0000:0000:ffff:7f00:0001");
  check_clean(run);
}

// Names that do not exist are refused, and the cause lists those that do.
BOOST_AUTO_TEST_CASE(unknown_names_are_refused_with_those_there) {
  const auto cause_of = [](const char* adapter) {
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    const DAT_RETURN code = dat_ia_open(const_cast<char*>(adapter), 8, &async_evd, &ia);
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(code), DAT_INVALID_ADDRESS);
    const char* cause = nullptr;
    BOOST_CHECK_EQUAL(dat_last_cause(code, &cause), DAT_SUCCESS);
    return std::string(cause != nullptr ? cause : "");
  };
  {
    const Fabric fabric(VERBS_MOCK_INFINIBAND);
    const char* const ports =
        "RDMA devices: mock0 port 1 DOWN fe80::2ff:ee00:0:2 port 2 ACTIVE fe80::2ff:ee00:0:3.";
    for (const char* adapter : {"device-7", "gid-of-nobody", "mock"}) {
      const std::string cause = cause_of(adapter);
      BOOST_CHECK_MESSAGE(cause.find(ports) != std::string::npos, adapter << ": " << cause);
    }
  }
  {
    // Ethernet has only IP addresses.
    const Fabric fabric(VERBS_MOCK_ROCE);
    const std::string cause = cause_of("gid");
    BOOST_CHECK_MESSAGE(cause.find("mock0 port 1 ACTIVE.") != std::string::npos, cause);
  }
}

// A lack of memory or descriptors is not reported as a wrong name.
BOOST_AUTO_TEST_CASE(shortage_is_no_wrong_name) {
  const Fabric fabric(VERBS_MOCK_INFINIBAND);
  const std::set<std::string> short_of{"ibv_get_device_list", "ibv_query_device", "query_port",
                                       "rdma_create_event_channel", "rdma_create_id"};
  std::set<std::string> met;
  for (unsigned n = 1; n < 100; ++n) {
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    char adapter[] = "device";
    verbs_mock_fail_at(n);
    const DAT_RETURN code = dat_ia_open(adapter, 8, &async_evd, &ia);
    const char* const failed = verbs_mock_failed_call();
    verbs_mock_fail_at(0);
    if (code == DAT_SUCCESS)
      BOOST_CHECK_EQUAL(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    if (failed == nullptr) break;
    if (code == DAT_SUCCESS || !short_of.contains(failed)) continue;
    BOOST_CHECK_MESSAGE(DAT_GET_TYPE(code) == DAT_INSUFFICIENT_RESOURCES, failed << ": " << code);
    met.insert(failed);
  }
  BOOST_CHECK(met == short_of);
}

BOOST_AUTO_TEST_CASE(private_data_of_every_size) {
  const Fabric fabric(VERBS_MOCK_INFINIBAND);
  for (const DAT_COUNT size : {0, 1, 55, 56, 91, 92}) {
    Run run("device");
    Pair pair(run);
    BOOST_CHECK_MESSAGE(
        pair.create() && pair.connect(size) && pair.disconnect(DAT_CLOSE_GRACEFUL_FLAG),
        size << " bytes");
    check_clean(run);
  }
  Run run("device");
  Pair pair(run);
  BOOST_REQUIRE(pair.create());
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(dat_ep_connect(
                        pair.active.ep, run.attr.ia_address_ptr, faults::conn_qual(), 1000000, 93,
                        pair.memory.data(), DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG)),
                    DAT_INVALID_PARAMETER);
  check_clean(run);
}

// A sockaddr_ib is accepted as an address; an IPv4 address is not if the port has only GIDs.
BOOST_AUTO_TEST_CASE(families_of_peers) {
  const Fabric fabric(VERBS_MOCK_INFINIBAND);
  Run run("device");
  Pair pair(run);
  BOOST_REQUIRE(pair.create());

  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto connect = [&](void* address) {
    return dat_ep_connect(pair.active.ep, static_cast<DAT_IA_ADDRESS_PTR>(address),
                          faults::conn_qual(), 5000000, 0, nullptr, DAT_QOS_BEST_EFFORT,
                          DAT_CONNECT_DEFAULT_FLAG);
  };
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(connect(&ipv4)), DAT_INVALID_ADDRESS);

  sockaddr_ib native{};
  native.sib_family = AF_IB;
  BOOST_CHECK_EQUAL(DAT_GET_TYPE(connect(&native)), DAT_INVALID_ADDRESS);
  std::memcpy(&native.sib_addr, kGid, sizeof kGid);
  BOOST_REQUIRE_EQUAL(connect(&native), DAT_SUCCESS);
  DAT_EVENT event{};
  BOOST_REQUIRE(run.expect(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT, &event));
  const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
  BOOST_REQUIRE_EQUAL(dat_cr_accept(cr, pair.passive.ep, 0, nullptr), DAT_SUCCESS);
  BOOST_REQUIRE(run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, &event));
  BOOST_REQUIRE(run.expect(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED, &event));

  DAT_EP_PARAM param{};
  BOOST_REQUIRE_EQUAL(dat_ep_query(pair.active.ep, DAT_EP_FIELD_ALL, &param), DAT_SUCCESS);
  BOOST_CHECK_EQUAL(param.remote_port_qual, faults::conn_qual());
  const auto* const remote = reinterpret_cast<const sockaddr_in6*>(param.remote_ia_address_ptr);
  BOOST_CHECK_EQUAL(remote->sin6_family, AF_INET6);
  BOOST_CHECK_EQUAL(std::memcmp(&remote->sin6_addr, kGid, sizeof kGid), 0);
  check_clean(run);
}

// No port has that GID: the subnet administrator knows no path.
BOOST_AUTO_TEST_CASE(unknown_gid_is_unreachable) {
  const Fabric fabric(VERBS_MOCK_INFINIBAND);
  Run run("device");
  Pair pair(run);
  BOOST_REQUIRE(pair.create());
  sockaddr_in6 unused_gid{};
  unused_gid.sin6_family = AF_INET6;
  std::memcpy(&unused_gid.sin6_addr, kGid, sizeof kGid);
  unused_gid.sin6_addr.s6_addr[15] = 99;
  BOOST_REQUIRE_EQUAL(
      dat_ep_connect(pair.active.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&unused_gid),
                     faults::conn_qual(), 5000000, 0, nullptr, DAT_QOS_BEST_EFFORT,
                     DAT_CONNECT_DEFAULT_FLAG),
      DAT_SUCCESS);
  DAT_EVENT event{};
  BOOST_CHECK(run.expect(pair.active.connect_evd, DAT_CONNECTION_EVENT_UNREACHABLE, &event));
  check_clean(run);
}

// Both QPs of a connection are in the requested partition, or in the first one if the port is not
// in that.
BOOST_AUTO_TEST_CASE(both_qps_are_in_the_requested_partition) {
  struct Case {
    const char* pkey;
    unsigned index;
  };
  for (const Case& c : {Case{nullptr, 0}, Case{"0xffff", 0}, Case{"0x8001", 1}, Case{"0x0001", 1},
                        Case{"0x8002", 2}, Case{"0x8005", 0}, Case{"0", 0}}) {
    const Fabric fabric(VERBS_MOCK_INFINIBAND, c.pkey);
    Run run("device");
    Pair pair(run);
    BOOST_REQUIRE(pair.create() && pair.connect());
    for (const verbs_mock_connection& qp : faults::both_ends())
      BOOST_CHECK_MESSAGE(qp.pkey_index == c.index, (c.pkey != nullptr ? c.pkey : "none")
                                                        << ": at " << qp.pkey_index);
    check_clean(run);
  }
}

// If the device has IP addresses, it is reached by these, as existing peers do.
BOOST_AUTO_TEST_CASE(ip_addresses_first) {
  const Fabric fabric(VERBS_MOCK_IPOIB, "0x8001");
  Run run("device");
  Pair pair(run);
  BOOST_REQUIRE(pair.create() && pair.connect(56));
  BOOST_CHECK_EQUAL(run.attr.ia_address_ptr->sa_family, AF_INET);
  BOOST_CHECK_EQUAL(named(run, "DAT_IB_PORT_NUMBER"), "2");
  BOOST_CHECK_EQUAL(private_data_room(run), 56);
  for (const verbs_mock_connection& qp : faults::both_ends())
    BOOST_CHECK_EQUAL(qp.pkey_index, 0U);  // the interface's partition, not the variable's
  check_clean(run);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
