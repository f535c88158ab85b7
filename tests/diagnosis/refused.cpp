// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The message on stderr when a set-up call is refused, without any trace setting: one line with the
// call, the attribute and its values. dat_last_cause() returns the same reason to the program.
#include <dat/dat_diagnosis_extensions.h>

#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <utility>

#include "tests/loader/loader_env.h"

namespace {

constexpr DAT_CONN_QUAL kPort = 45199;

// An enumeration with a value that no enumerator has, as a careless C program would pass it.
template <class Enum>
Enum not_an_enumerator(unsigned value) {
  return static_cast<Enum>(value);
}

// An IA on the software RNIC with the objects that the calls need.
struct Rig {
  Rig() {
    char name[] = "soft";
    BOOST_REQUIRE_EQUAL(dat_ia_open(name, 8, &async, &ia), DAT_SUCCESS);
    BOOST_REQUIRE_EQUAL(dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr),
                        DAT_SUCCESS);
    BOOST_REQUIRE_EQUAL(dat_pz_create(ia, &pz), DAT_SUCCESS);
    for (auto [evd, flags] :
         {std::pair{&dto, DAT_EVD_DTO_FLAG}, std::pair{&connection, DAT_EVD_CONNECTION_FLAG},
          std::pair{&requests, DAT_EVD_CR_FLAG}})
      BOOST_REQUIRE_EQUAL(dat_evd_create(ia, 8, nullptr, flags, evd), DAT_SUCCESS);
    BOOST_REQUIRE_EQUAL(dat_ep_create(ia, pz, dto, dto, connection, nullptr, &ep), DAT_SUCCESS);
  }
  ~Rig() { dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG); }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  DAT_RETURN create(const std::function<void(DAT_EP_ATTR*)>& change) const {
    DAT_EP_PARAM param{};
    dat_ep_query(ep, DAT_EP_FIELD_ALL, &param);
    change(&param.ep_attr);
    DAT_EP_HANDLE made = nullptr;
    return dat_ep_create(ia, pz, dto, dto, connection, &param.ep_attr, &made);
  }
  DAT_RETURN connect(DAT_TIMEOUT timeout, DAT_COUNT size, DAT_QOS qos, int flags) const {
    char data[1024] = {};
    return dat_ep_connect(ep, attr.ia_address_ptr, kPort, timeout, size, data, qos,
                          static_cast<DAT_CONNECT_FLAGS>(flags));
  }

  DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_IA_ATTR attr{};
  DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE dto = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE connection = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE requests = DAT_HANDLE_NULL;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

// The call must fail and be reported in one line: "NAME: refused: REASON: CODE".
void check_told(const char* call, const std::string& reason,
                const std::function<DAT_RETURN()>& refused) {
  BOOST_TEST_CONTEXT(call << ": " << reason) {
    std::string told;
    DAT_RETURN code = DAT_SUCCESS;
    {
      const StderrCapture captured;
      code = refused();
      told = captured.text();
    }
    BOOST_TEST(code != 0U);
    const char* type = nullptr;
    const char* subtype = nullptr;
    dat_strerror(code, &type, &subtype);
    BOOST_TEST(contains(told, std::string(call) + ": refused: "));
    BOOST_TEST(contains(told, reason));  // may follow the name of an object
    BOOST_TEST(contains(told, type));
    BOOST_TEST(std::count(told.begin(), told.end(), '\n') == 1);
    const char* cause = nullptr;
    BOOST_TEST(dat_last_cause(code, &cause) == 0U);
    BOOST_REQUIRE(cause != nullptr);
    BOOST_TEST(contains(cause, reason));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(refused)

BOOST_AUTO_TEST_CASE(refused_endpoint_names_the_limit) {
  const Rig rig;
  const auto limit = [](DAT_COUNT value) { return std::to_string(value); };
  check_told("ep_create", "max_recv_dtos 2147483647, at most " + limit(rig.attr.max_dto_per_ep),
             [&] { return rig.create([](DAT_EP_ATTR* a) { a->max_recv_dtos = 0x7fffffff; }); });
  check_told("ep_create", "max_request_iov -1, at most " + limit(rig.attr.max_iov_segments_per_dto),
             [&] { return rig.create([](DAT_EP_ATTR* a) { a->max_request_iov = -1; }); });
  check_told("ep_create", "a request EVD with max_request_dtos 0",
             [&] { return rig.create([](DAT_EP_ATTR* a) { a->max_request_dtos = 0; }); });
  check_told("ep_create", "recv_completion_flags 0x1", [&] {
    return rig.create(
        [](DAT_EP_ATTR* a) { a->recv_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG; });
  });
  check_told("ep_create", "has flags 0x40, needed is 0x20", [&] {
    DAT_EP_HANDLE made = nullptr;
    return dat_ep_create(rig.ia, rig.pz, rig.connection, rig.dto, rig.connection, nullptr, &made);
  });
  check_told("ep_modify",
             "max_rdma_read_in 2147483647, at most " + limit(rig.attr.max_rdma_read_in), [&] {
               DAT_EP_PARAM param{};
               param.ep_attr.max_rdma_read_in = 0x7fffffff;
               return dat_ep_modify(rig.ep, DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN, &param);
             });
  const auto modify = [&](DAT_EP_PARAM_MASK mask) {
    DAT_EP_PARAM param{};
    param.pz_handle = rig.pz;
    param.ep_attr.max_recv_dtos = 8;
    return dat_ep_modify(rig.ep, mask, &param);
  };
  check_told("ep_modify", "ia_handle, ep_state cannot be modified", [&] {
    return modify(DAT_EP_FIELD_IA_HANDLE | DAT_EP_FIELD_EP_STATE | DAT_EP_FIELD_PZ_HANDLE);
  });
  check_told("ep_modify", "0x80000000 cannot be modified", [&] { return modify(0x80000000); });
  BOOST_TEST(rig.connect(1000000, 0, DAT_QOS_BEST_EFFORT, 0) == 0U);
  check_told("ep_modify", "pz_handle, max_recv_dtos cannot be modified in state ",
             [&] { return modify(DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS); });
  check_told("ep_set_watermark", "soft watermark -5, at most 16",
             [&] { return dat_ep_set_watermark(rig.ep, -5, DAT_WATERMARK_INFINITE); });
}

BOOST_AUTO_TEST_CASE(refused_connection_names_the_argument) {
  const Rig rig;
  check_told("ep_connect", "timeout 0", [&] { return rig.connect(0, 0, DAT_QOS_BEST_EFFORT, 0); });
  check_told("ep_connect", "private_data_size 1024, at most ",
             [&] { return rig.connect(1000000, 1024, DAT_QOS_BEST_EFFORT, 0); });
  check_told("ep_connect", "quality_of_service 0x2; there is only BEST_EFFORT",
             [&] { return rig.connect(1000000, 0, DAT_QOS_LOW_LATENCY, 0); });
  check_told("ep_connect", "connect flags 0x40",
             [&] { return rig.connect(1000000, 0, DAT_QOS_BEST_EFFORT, 0x40); });
  check_told("ep_connect", "several paths are required", [&] {
    return rig.connect(1000000, 0, DAT_QOS_BEST_EFFORT, DAT_CONNECT_MULTIPATH_REQUIRED_FLAG);
  });
  check_told("ep_connect", "has no PZ", [&] {
    DAT_EP_HANDLE bare = nullptr;
    BOOST_REQUIRE_EQUAL(
        dat_ep_create(rig.ia, DAT_HANDLE_NULL, rig.dto, rig.dto, rig.connection, nullptr, &bare),
        DAT_SUCCESS);
    return dat_ep_connect(bare, rig.attr.ia_address_ptr, kPort, 1000000, 0, nullptr,
                          DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
  });
  sockaddr_in nowhere{};
  nowhere.sin_family = 77;
  check_told("ep_connect", "address family 77", [&] {
    return dat_ep_connect(rig.ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&nowhere), kPort, 1000000, 0,
                          nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
  });
}

BOOST_AUTO_TEST_CASE(refused_object_names_the_argument) {
  const Rig rig;
  DAT_HANDLE made = nullptr;
  check_told("evd_create", "evd_min_qlen 0, at least 1",
             [&] { return dat_evd_create(rig.ia, 0, nullptr, DAT_EVD_DTO_FLAG, &made); });
  check_told("evd_create",
             "evd_min_qlen 2147483647, at most " + std::to_string(rig.attr.max_evd_qlen),
             [&] { return dat_evd_create(rig.ia, 0x7fffffff, nullptr, DAT_EVD_DTO_FLAG, &made); });
  check_told("evd_create", "EVD flags 0x120: ASYNC and others cannot be merged", [&] {
    return dat_evd_create(rig.ia, 8, nullptr,
                          static_cast<DAT_EVD_FLAGS>(DAT_EVD_ASYNC_FLAG | DAT_EVD_DTO_FLAG), &made);
  });
  check_told("psp_create", "PSP flags 0x9", [&] {
    return dat_psp_create(rig.ia, kPort, rig.requests, not_an_enumerator<DAT_PSP_FLAGS>(9), &made);
  });
  DAT_SRQ_ATTR srq{0, 1, 0};
  check_told("srq_create", "max_recv_dtos 0, 1 to ",
             [&] { return dat_srq_create(rig.ia, rig.pz, &srq, &made); });
  DAT_REGION_DESCRIPTION region{};
  check_told("lmr_create", "null address", [&] {
    return dat_lmr_create(rig.ia, DAT_MEM_TYPE_VIRTUAL, region, 64, rig.pz, DAT_MEM_PRIV_ALL_FLAG,
                          DAT_VA_TYPE_VA, &made, nullptr, nullptr, nullptr, nullptr);
  });
}

// No message if a conn qual is in use, as programs find a free one by trying, nor for posts, as
// there may be too many.
BOOST_AUTO_TEST_CASE(what_is_no_news) {
  const Rig rig;
  DAT_PSP_HANDLE first = nullptr;
  DAT_PSP_HANDLE second = nullptr;
  DAT_CONN_QUAL conn_qual = 0;
  BOOST_REQUIRE_EQUAL(
      dat_psp_create_any(rig.ia, &conn_qual, rig.requests, DAT_PSP_CONSUMER_FLAG, &first),
      DAT_SUCCESS);
  const StderrCapture captured;
  const DAT_RETURN taken =
      dat_psp_create(rig.ia, conn_qual, rig.requests, DAT_PSP_CONSUMER_FLAG, &second);
  BOOST_TEST(DAT_GET_TYPE(taken) == static_cast<DAT_RETURN>(DAT_CONN_QUAL_IN_USE));
  const DAT_RETURN posted =
      dat_ep_post_send(rig.ep, 0, nullptr, DAT_DTO_COOKIE{}, DAT_COMPLETION_DEFAULT_FLAG);
  BOOST_TEST(DAT_GET_TYPE(posted) == static_cast<DAT_RETURN>(DAT_INVALID_STATE));
  BOOST_TEST(captured.text().empty());
}

// Nor if both sides connect and accept with the same EP, as MVAPICH2 does: only the results tell
// it which connection came first.
BOOST_AUTO_TEST_CASE(crossing_connections_are_no_news) {
  const Rig rig;
  DAT_PSP_HANDLE psp = nullptr;
  DAT_CONN_QUAL conn_qual = 0;
  BOOST_REQUIRE_EQUAL(
      dat_psp_create_any(rig.ia, &conn_qual, rig.requests, DAT_PSP_CONSUMER_FLAG, &psp),
      DAT_SUCCESS);
  const auto connect = [&](DAT_EP_HANDLE ep) {
    return dat_ep_connect(ep, rig.attr.ia_address_ptr, conn_qual, DAT_TIMEOUT_INFINITE, 0, nullptr,
                          DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
  };
  BOOST_REQUIRE_EQUAL(connect(rig.ep), DAT_SUCCESS);
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  BOOST_REQUIRE_EQUAL(dat_evd_wait(rig.requests, 10'000'000, 1, &event, &more), DAT_SUCCESS);
  const DAT_CR_HANDLE cr = event.event_data.cr_arrival_event_data.cr_handle;
  DAT_EP_HANDLE other = nullptr;
  BOOST_REQUIRE_EQUAL(
      dat_ep_create(rig.ia, rig.pz, rig.dto, rig.dto, rig.connection, nullptr, &other),
      DAT_SUCCESS);
  {
    const StderrCapture captured;
    BOOST_TEST(dat_cr_accept(cr, rig.ep, 0, nullptr) ==
               (DAT_CLASS_ERROR | DAT_INVALID_STATE | DAT_INVALID_STATE_EP_ACTCONNPENDING));
    BOOST_TEST(dat_cr_accept(cr, other, 0, nullptr) == DAT_SUCCESS);
    BOOST_TEST(DAT_GET_TYPE(connect(other)) == static_cast<DAT_RETURN>(DAT_INVALID_STATE));
    BOOST_TEST(captured.text().empty());
  }
  check_told("ep_connect", "connect in state ", [&] { return connect(rig.ep); });  // twice
}

// Returns what a forked child writes that makes the calls.
std::string told_by_child(const std::function<void()>& calls) {
  const StderrCapture captured;
  const pid_t child = ::fork();
  if (child == 0) {
    calls();
    ::_exit(0);
  }
  int status = -1;
  BOOST_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
  BOOST_REQUIRE_EQUAL(status, 0);
  return captured.text();
}

// Regression: a program that becomes a daemon after it has opened the IA was told nothing. One
// line suffices, and a child that only cleans up needs none.
BOOST_AUTO_TEST_CASE(forked_child_is_told_once) {
  const Rig rig;
  for (int i = 0; i < 2; ++i) {
    const std::string told = told_by_child([&] {
      DAT_EVENT event{};
      DAT_COUNT more = 0;
      dat_evd_free(rig.dto);
      dat_evd_wait(rig.dto, 0, 1, &event, &more);
      dat_ep_reset(rig.ep);
    });
    BOOST_TEST(contains(told, "belongs to the process that this one was forked from"));
    BOOST_TEST(contains(told, "try: to open the IA after the fork"));
    BOOST_TEST(std::count(told.begin(), told.end(), '\n') == 1);
  }
  const std::string told = told_by_child([&] {
    dat_ep_disconnect(rig.ep, DAT_CLOSE_ABRUPT_FLAG);
    dat_ep_free(rig.ep);
    dat_ia_close(rig.ia, DAT_CLOSE_ABRUPT_FLAG);
  });
  BOOST_TEST(told.empty());
}

BOOST_AUTO_TEST_SUITE_END()
