// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <cstring>
#include <thread>

// The attributes of an EP: what dat_ep_create and dat_ep_modify accept and dat_ep_query reports.
namespace conformance {

namespace {

// One change of the attributes of an EP, and the mask bit that dat_ep_modify needs for it.
struct Change {
  const char* name;
  DAT_EP_PARAM_MASK mask;
  void (*apply)(const Ia& ia, DAT_EP_ATTR* attr);
};

// Values beyond the limits of the IA, or nonsense: each alone makes dat_ep_create and dat_ep_modify
// fail.
constexpr Change kExcesses[] = {
    {"max_recv_dtos", DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS,
     [](const Ia& ia, DAT_EP_ATTR* a) { a->max_recv_dtos = ia.attr.max_dto_per_ep + 1; }},
    {"max_request_dtos", DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
     [](const Ia& ia, DAT_EP_ATTR* a) { a->max_request_dtos = ia.attr.max_dto_per_ep + 1; }},
    {"max_recv_iov", DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV,
     [](const Ia& ia, DAT_EP_ATTR* a) { a->max_recv_iov = ia.attr.max_iov_segments_per_dto + 1; }},
    {"max_request_iov", DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
     [](const Ia& ia, DAT_EP_ATTR* a) {
       a->max_request_iov = ia.attr.max_iov_segments_per_dto + 1;
     }},
    {"max_rdma_read_in", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN,
     [](const Ia& ia, DAT_EP_ATTR* a) {
       a->max_rdma_read_in = ia.attr.max_rdma_read_in + 1;  // of all EPs together
     }},
    {"max_rdma_read_out", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT,
     [](const Ia& ia, DAT_EP_ATTR* a) { a->max_rdma_read_out = ia.attr.max_rdma_read_out + 1; }},
    {"max_message_size", DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE,
     [](const Ia& ia, DAT_EP_ATTR* a) {  // without a limit of the IA nothing exceeds it
       a->max_message_size = ia.attr.max_message_size + 1;
       if (a->max_message_size == 0) a->max_recv_dtos = -1;
     }},
    {"max_rdma_size", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE,
     [](const Ia& ia, DAT_EP_ATTR* a) {
       a->max_rdma_size = ia.attr.max_rdma_size + 1;
       if (a->max_rdma_size == 0) a->max_recv_dtos = -1;
     }},
    {"negative max_recv_dtos", DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_recv_dtos = -1; }},
    {"negative max_request_iov", DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_request_iov = -1; }},
    {"datagrams", DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE,
     [](const Ia&, DAT_EP_ATTR* a) { a->service_type = DAT_SERVICE_TYPE_EXTENSION_BASE; }},
    {"SUPPRESS receives", DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS,  // ep_create_bad_recv_flags
     [](const Ia&, DAT_EP_ATTR* a) { a->recv_completion_flags = DAT_COMPLETION_SUPPRESS_FLAG; }},
};

// Attributes that programs need not set with care, because OpenFabrics ignores them. Programs
// leave some of them uninitialised.
constexpr Change kCareless[] = {
    {"max_rdma_read_iov", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_rdma_read_iov = 0x7fffffff; }},
    {"max_rdma_write_iov", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_rdma_write_iov = 0x7fffffff; }},
    {"negative max_rdma_read_iov", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_rdma_read_iov = -1; }},
    {"negative max_rdma_write_iov", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_rdma_write_iov = -1; }},
    {"negative max_rdma_read_in", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_rdma_read_in = -1; }},
    {"negative max_rdma_read_out", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_rdma_read_out = -1; }},
    {"max_rdma_read_in of the IA", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN,
     [](const Ia& ia, DAT_EP_ATTR* a) { a->max_rdma_read_in = ia.attr.max_rdma_read_in; }},
    {"max_rdma_read_out of the IA", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT,
     [](const Ia& ia, DAT_EP_ATTR* a) { a->max_rdma_read_out = ia.attr.max_rdma_read_out; }},
    {"negative srq_soft_hw", DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW,
     [](const Ia&, DAT_EP_ATTR* a) { a->srq_soft_hw = -7; }},
    {"service_type", DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE,
     [](const Ia&, DAT_EP_ATTR* a) { a->service_type = not_an_enumerator<DAT_SERVICE_TYPE>(77); }},
    {"qos", DAT_EP_FIELD_EP_ATTR_QOS,
     [](const Ia&, DAT_EP_ATTR* a) { a->qos = not_an_enumerator<DAT_QOS>(0x100); }},
    {"a qos", DAT_EP_FIELD_EP_ATTR_QOS,
     [](const Ia&, DAT_EP_ATTR* a) { a->qos = DAT_QOS_HIGH_THROUGHPUT; }},
    {"BARRIER_FENCE receives", DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS,
     [](const Ia&, DAT_EP_ATTR* a) {
       a->recv_completion_flags = DAT_COMPLETION_BARRIER_FENCE_FLAG;
     }},
    {"flags of receives", DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS,
     [](const Ia&, DAT_EP_ATTR* a) {
       a->recv_completion_flags = not_an_enumerator<DAT_COMPLETION_FLAGS>(0x12345670);
     }},
    {"SOLICITED_WAIT requests", DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS,
     [](const Ia&, DAT_EP_ATTR* a) {
       a->request_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
     }},
    {"flags of requests", DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS,
     [](const Ia&, DAT_EP_ATTR* a) {
       a->request_completion_flags = not_an_enumerator<DAT_COMPLETION_FLAGS>(0x1234567b);
     }},
};

// Legal changes; each is reported by dat_ep_query.
constexpr Change kChanges[] = {
    {"max_message_size", DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_message_size = 4096; }},
    {"max_rdma_size", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_rdma_size = 8192; }},
    {"recv_completion_flags", DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS,
     [](const Ia&, DAT_EP_ATTR* a) { a->recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG; }},
    {"request_completion_flags", DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS,
     [](const Ia&, DAT_EP_ATTR* a) {
       a->request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
     }},
    {"max_recv_dtos", DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_recv_dtos = 5; }},
    {"max_request_dtos", DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_request_dtos = 6; }},
    {"max_recv_iov", DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_recv_iov = 2; }},
    {"max_request_iov", DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_request_iov = 3; }},
    {"max_rdma_read_in", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_rdma_read_in = 1; }},
    {"max_rdma_read_out", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_rdma_read_out = 2; }},
    {"max_rdma_read_iov", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_rdma_read_iov = 1; }},
    {"max_rdma_write_iov", DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV,
     [](const Ia&, DAT_EP_ATTR* a) { a->max_rdma_write_iov = 2; }},
};

// Checks that two results of dat_ep_query agree in every field that dat_ep_modify can change.
void check_same(const DAT_EP_PARAM& before, const DAT_EP_PARAM& after) {
  BOOST_CHECK(before.pz_handle == after.pz_handle);
  BOOST_CHECK(before.recv_evd_handle == after.recv_evd_handle);
  BOOST_CHECK(before.request_evd_handle == after.request_evd_handle);
  BOOST_CHECK(before.connect_evd_handle == after.connect_evd_handle);
  BOOST_CHECK(before.srq_handle == after.srq_handle);
  BOOST_CHECK_EQUAL(before.comm.domain, after.comm.domain);
  const DAT_EP_ATTR& a = before.ep_attr;
  const DAT_EP_ATTR& b = after.ep_attr;
#define SAME(field) BOOST_CHECK_MESSAGE(a.field == b.field, #field " has changed")
  SAME(service_type);
  SAME(max_message_size);
  SAME(max_rdma_size);
  SAME(qos);
  SAME(recv_completion_flags);
  SAME(request_completion_flags);
  SAME(max_recv_dtos);
  SAME(max_request_dtos);
  SAME(max_recv_iov);
  SAME(max_request_iov);
  SAME(max_rdma_read_in);
  SAME(max_rdma_read_out);
  SAME(srq_soft_hw);
  SAME(max_rdma_read_iov);
  SAME(max_rdma_write_iov);
#undef SAME
}

}  // namespace

BOOST_AUTO_TEST_SUITE(endpoint)

BOOST_AUTO_TEST_CASE(ep_create_attr_exceeds, *covers("ep_create_bad_recv_flags")) {
  Pair pair;
  for (const Change& excess : kExcesses) {
    BOOST_TEST_CONTEXT(excess.name) {
      DAT_EP_ATTR attr = default_ep_attr(pair.ia);
      excess.apply(pair.ia, &attr);
      DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
      CHECK_TYPE(dat_ep_create(pair.ia, pair.pz, pair.active.recv_evd, pair.active.request_evd,
                               pair.active.connect_evd, &attr, &ep),
                 DAT_INVALID_PARAMETER);
    }
  }
}

// An EP with such attributes can be created, reports them as given, and works.
BOOST_AUTO_TEST_CASE(ep_create_careless, *covers("ep_create_attr_exceeds")) {
  Ia ia;
  for (const Change& careless : kCareless) {
    BOOST_TEST_CONTEXT(careless.name) {
      DAT_EP_ATTR attr = default_ep_attr(ia);
      careless.apply(ia, &attr);
      char name[] = "no_such_attribute";
      char value[] = "17";
      DAT_NAMED_ATTR unknown[] = {{name, value}};
      attr.ep_transport_specific_count = 1;
      attr.ep_transport_specific = unknown;
      attr.ep_provider_specific_count = 1;
      attr.ep_provider_specific = unknown;
      Pair pair(&attr);
      DAT_EP_PARAM expected = query_ep(pair.active.ep);
      careless.apply(ia, &expected.ep_attr);
      check_same(expected, query_ep(pair.active.ep));
      Buffer out(pair.ia, pair.pz, 64);
      Buffer in(pair.ia, pair.pz, 64);
      out.fill(3);
      pair.connect();
      REQUIRE_OK(pair.passive.post_recv(in, 64, 1));
      REQUIRE_OK(pair.active.post_send(out, 64, 2));
      expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 1);
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 2);
      REQUIRE_OK(pair.active.post_read(in, out.remote(64), 3));
      expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 3);
      BOOST_CHECK(in.holds(3, 64));
    }
  }
}

BOOST_AUTO_TEST_CASE(ep_create_at_limits) {
  Ia ia;
  const Pz pz = make_pz(ia);
  DAT_EP_ATTR attr = default_ep_attr(ia);
  attr.max_recv_iov = ia.attr.max_iov_segments_per_dto;
  attr.max_rdma_read_in = ia.attr.max_rdma_read_per_ep_in;
  attr.max_rdma_read_out = ia.attr.max_rdma_read_per_ep_out;
  attr.max_message_size = ia.attr.max_message_size;
  attr.max_rdma_size = ia.attr.max_rdma_size;
  End end;
  end.create(ia, pz, &attr);
}

BOOST_AUTO_TEST_CASE(ep_query_fields) {
  Ia ia;
  const Pz pz = make_pz(ia);
  DAT_EP_ATTR attr = default_ep_attr(ia);
  attr.max_recv_dtos = 7;
  attr.max_request_dtos = 9;
  attr.max_recv_iov = 2;
  attr.max_request_iov = 3;
  attr.max_message_size = 12345;
  End end;
  end.create(ia, pz, &attr);
  const DAT_EP_PARAM param = query_ep(end.ep);
  BOOST_CHECK(param.ia_handle == ia.handle);
  BOOST_CHECK_EQUAL(param.ep_state, DAT_EP_STATE_UNCONNECTED);
  BOOST_REQUIRE(param.local_ia_address_ptr != nullptr);
  BOOST_CHECK_EQUAL(param.local_ia_address_ptr->sa_family, ia.attr.ia_address_ptr->sa_family);
  BOOST_REQUIRE(param.remote_ia_address_ptr != nullptr);  // programs print it in every state
  BOOST_CHECK_EQUAL(param.remote_ia_address_ptr->sa_family, AF_UNSPEC);
  DAT_EP_PARAM expected = param;
  expected.pz_handle = pz;
  expected.recv_evd_handle = end.recv_evd;
  expected.request_evd_handle = end.request_evd;
  expected.connect_evd_handle = end.connect_evd;
  expected.srq_handle = DAT_HANDLE_NULL;
  expected.ep_attr = attr;
  check_same(expected, param);
  DAT_EP_PARAM untouched{};
  REQUIRE_OK(dat_ep_query(end.ep, 0, &untouched));
  CHECK_TYPE(dat_ep_query(end.ep, DAT_EP_FIELD_ALL, nullptr), DAT_INVALID_PARAMETER);
  REQUIRE_OK(dat_ep_query(end.ep, DAT_EP_FIELD_ALL + 1, &untouched));  // programs do this
}

BOOST_AUTO_TEST_CASE(ep_modify_fields) {
  Ia ia;
  const Pz pz = make_pz(ia);
  for (const Change& change : kChanges) {
    BOOST_TEST_CONTEXT(change.name) {
      DAT_EP_ATTR attr = default_ep_attr(ia);
      End end;
      end.create(ia, pz, &attr);
      DAT_EP_PARAM expected = query_ep(end.ep);
      change.apply(ia, &expected.ep_attr);
      // Fields that are not in the mask are ignored.
      DAT_EP_PARAM wanted{};
      std::memset(static_cast<void*>(&wanted.ep_attr), 0xA5, sizeof wanted.ep_attr);
      change.apply(ia, &wanted.ep_attr);
      REQUIRE_OK(dat_ep_modify(end.ep, change.mask, &wanted));
      check_same(expected, query_ep(end.ep));
    }
  }
}

BOOST_AUTO_TEST_CASE(ep_modify_readonly_fields) {
  Pair pair;
  const DAT_EP_PARAM before = query_ep(pair.active.ep);
  for (const DAT_EP_PARAM_MASK field :
       {DAT_EP_FIELD_IA_HANDLE, DAT_EP_FIELD_EP_STATE, DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR,
        DAT_EP_FIELD_LOCAL_PORT_QUAL, DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR,
        DAT_EP_FIELD_REMOTE_PORT_QUAL, DAT_EP_FIELD_ALL, DAT_EP_FIELD_ALL + 1}) {
    BOOST_TEST_CONTEXT("mask " << field)
    CHECK_TYPE(dat_ep_modify(pair.active.ep, field, &before), DAT_INVALID_PARAMETER);
  }
  CHECK_TYPE(dat_ep_modify(pair.active.ep, DAT_EP_FIELD_PZ_HANDLE, nullptr), DAT_INVALID_PARAMETER);
  REQUIRE_OK(dat_ep_modify(pair.active.ep, 0, &before));
  check_same(before, query_ep(pair.active.ep));
}

// Tries every bad field together with good ones: no field changes, and the EP works as before.
BOOST_AUTO_TEST_CASE(ep_modify_atomic) {
  Pair pair;
  Evd other_recv = make_evd(pair.ia, DAT_EVD_DTO_FLAG);
  Evd other_connect = make_evd(pair.ia, DAT_EVD_CONNECTION_FLAG);
  Pz other_pz = make_pz(pair.ia);
  const DAT_EP_PARAM before = query_ep(pair.passive.ep);
  constexpr DAT_EP_PARAM_MASK kGood =
      DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE |
      DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV |
      DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT | DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS;
  DAT_EP_PARAM good = before;
  good.pz_handle = other_pz;
  good.recv_evd_handle = other_recv;
  good.connect_evd_handle = other_connect;
  good.ep_attr.max_recv_dtos = 3;
  good.ep_attr.max_recv_iov = 1;
  good.ep_attr.max_rdma_read_out = 1;
  good.ep_attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
  for (const Change& excess : kExcesses) {
    BOOST_TEST_CONTEXT(excess.name) {
      DAT_EP_PARAM bad = good;
      excess.apply(pair.ia, &bad.ep_attr);
      CHECK_TYPE(dat_ep_modify(pair.passive.ep, kGood | excess.mask, &bad), DAT_INVALID_PARAMETER);
      check_same(before, query_ep(pair.passive.ep));
    }
  }
  DAT_EP_PARAM bad = good;
  bad.request_evd_handle = pair.cr_evd;  // an EVD without the DTO flag
  CHECK_TYPE_OR(dat_ep_modify(pair.passive.ep, kGood | DAT_EP_FIELD_REQUEST_EVD_HANDLE, &bad),
                DAT_INVALID_HANDLE, DAT_INVALID_PARAMETER);
  bad.request_evd_handle = other_pz;
  CHECK_TYPE_OR(dat_ep_modify(pair.passive.ep, kGood | DAT_EP_FIELD_REQUEST_EVD_HANDLE, &bad),
                DAT_INVALID_HANDLE, DAT_INVALID_PARAMETER);
  check_same(before, query_ep(pair.passive.ep));
  // The rejected objects are not in use, and the old ones still are.
  REQUIRE_OK(dat_evd_free(other_recv.release()));
  REQUIRE_OK(dat_evd_free(other_connect.release()));
  REQUIRE_OK(dat_pz_free(other_pz.release()));
  CHECK_TYPE(dat_evd_free(pair.passive.recv_evd), DAT_INVALID_STATE);
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, pair.pz, 64);
  for (DAT_COUNT i = 0; i < before.ep_attr.max_recv_dtos; ++i)
    REQUIRE_OK(pair.passive.post_recv(in, 64, static_cast<std::uint64_t>(i)));
  pair.connect();
  REQUIRE_OK(pair.active.post_send(out, 64, 1));
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 0);
}

// After the change the new EVDs and the new PZ are in use, and the old ones can be freed.
BOOST_AUTO_TEST_CASE(ep_modify_takes_effect) {
  Pair pair;
  End& passive = pair.passive;
  const Pz other_pz = make_pz(pair.ia);
  End fresh;
  fresh.recv_evd = make_evd(pair.ia, DAT_EVD_DTO_FLAG);
  fresh.request_evd = make_evd(pair.ia, DAT_EVD_DTO_FLAG);
  fresh.connect_evd = make_evd(pair.ia, DAT_EVD_CONNECTION_FLAG, 8);
  DAT_EP_PARAM param{};
  param.pz_handle = other_pz;
  param.recv_evd_handle = fresh.recv_evd;
  param.request_evd_handle = fresh.request_evd;
  param.connect_evd_handle = fresh.connect_evd;
  REQUIRE_OK(dat_ep_modify(passive.ep,
                           DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                               DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                           &param));
  for (Evd* const old : {&passive.recv_evd, &passive.request_evd, &passive.connect_evd})
    REQUIRE_OK(dat_evd_free(old->release()));
  fresh.ep = std::move(passive.ep);  // freed before its EVDs
  Buffer out(pair.ia, pair.pz, 64);
  Buffer in(pair.ia, other_pz, 64);
  out.fill(4);
  REQUIRE_OK(fresh.post_recv(in, 64, 1));
  REQUIRE_OK(dat_cr_accept(pair.connect_and_take_cr(), fresh.ep, 0, nullptr));
  expect_event(fresh.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  REQUIRE_OK(pair.active.post_send(out, 64, 2));
  expect_dto(fresh.recv_evd, DAT_DTO_SUCCESS, 1);
  BOOST_CHECK(in.holds(4, 64));
  REQUIRE_OK(pair.active.post_recv(out, 64, 3));
  REQUIRE_OK(fresh.post_send(in, 64, 4));
  expect_dto(fresh.request_evd, DAT_DTO_SUCCESS, 4);
  REQUIRE_OK(dat_ep_free(fresh.ep.release()));
}

// docs/compatibility.md C161: a program that sets all handles names the SRQ that the EP has.
BOOST_AUTO_TEST_CASE(ep_modify_same_srq) {
  Pair pair;
  DAT_EP_PARAM param = query_ep(pair.active.ep);
  constexpr DAT_EP_PARAM_MASK kHandles = DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                         DAT_EP_FIELD_REQUEST_EVD_HANDLE |
                                         DAT_EP_FIELD_CONNECT_EVD_HANDLE | DAT_EP_FIELD_SRQ_HANDLE;
  for (const DAT_EP_PARAM_MASK mask : {kHandles, DAT_EP_FIELD_SRQ_HANDLE})
    REQUIRE_OK(dat_ep_modify(pair.active.ep, mask, &param));
  check_same(param, query_ep(pair.active.ep));
  param.srq_handle = pair.pz;
  CHECK_TYPE_OR(dat_ep_modify(pair.active.ep, DAT_EP_FIELD_SRQ_HANDLE, &param),
                DAT_INVALID_PARAMETER, DAT_INVALID_HANDLE);
}

// docs/compatibility.md C162. The new flags hold for what arrives later.
BOOST_AUTO_TEST_CASE(ep_modify_recv_flags_after_post) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  Buffer out(pair.ia, pair.pz, 64);
  REQUIRE_OK(pair.passive.post_recv(buffer, 64, 1));
  for (const auto flags : {DAT_COMPLETION_SOLICITED_WAIT_FLAG, DAT_COMPLETION_UNSIGNALLED_FLAG,
                           DAT_COMPLETION_EVD_THRESHOLD_FLAG, DAT_COMPLETION_SOLICITED_WAIT_FLAG}) {
    DAT_EP_PARAM param{};
    param.ep_attr.recv_completion_flags = flags;
    REQUIRE_OK(dat_ep_modify(pair.passive.ep, DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, &param));
    BOOST_CHECK_EQUAL(query_ep(pair.passive.ep).ep_attr.recv_completion_flags, flags);
  }
  pair.connect();
  REQUIRE_OK(pair.passive.post_recv(buffer, 64, 2));
  DAT_EVENT event;
  DAT_COUNT more = 0;
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  std::thread waiter(
      [&] { waited = dat_evd_wait(pair.passive.recv_evd, kPatience, 1, &event, &more); });
  REQUIRE_OK(pair.active.post_send(out, 64, 3));
  expect_dto(pair.active.request_evd, DAT_DTO_SUCCESS, 3);
  REQUIRE_OK(pair.active.post_send(out, 64, 4, DAT_COMPLETION_SOLICITED_WAIT_FLAG));
  waiter.join();
  BOOST_CHECK_EQUAL(waited, static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK_EQUAL(event.event_data.dto_completion_event_data.user_cookie.as_64, 1U);
  expect_dto(pair.passive.recv_evd, DAT_DTO_SUCCESS, 2);
}

BOOST_AUTO_TEST_CASE(ep_modify_fewer_receives_than_posted) {
  Pair pair;
  Buffer buffer(pair.ia, pair.pz, 64);
  REQUIRE_OK(pair.active.post_recv(buffer, 64, 1));
  DAT_EP_PARAM param{};
  // Fewer receives than are posted, and exactly as many.
  REQUIRE_OK(pair.active.post_recv(buffer, 64, 2));
  param.ep_attr.max_recv_dtos = 1;
  CHECK_TYPE(dat_ep_modify(pair.active.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param),
             DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
