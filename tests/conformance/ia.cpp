// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <thread>

// The interface adapter: section 10.2 of the checklist (checklist.cpp), whose names the tests have.
namespace conformance {

namespace {

// One object of every kind that a consumer can create, connected where possible.
struct Everything {
  explicit Everything(const Ia& ia)
      : pz(make_pz(ia)), buffer(ia, pz, 4096), cr_evd(make_evd(ia, DAT_EVD_CR_FLAG, 8)) {
    REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
    REQUIRE_OK(dat_psp_create(ia, fresh_conn_qual(), cr_evd, DAT_PSP_CONSUMER_FLAG, psp.out()));
    end.create(ia, pz, nullptr);
    reserved.create(ia, pz, nullptr);
    REQUIRE_OK(dat_rsp_create(ia, fresh_conn_qual(), reserved.ep, cr_evd, rsp.out()));
    has_rmr = dat_rmr_create(pz, rmr.out()) == DAT_SUCCESS;
    DAT_SRQ_ATTR attr{};
    attr.max_recv_dtos = 8;
    attr.max_recv_iov = 1;
    attr.low_watermark = DAT_SRQ_LW_DEFAULT;
    has_srq = dat_srq_create(ia, pz, &attr, srq.out()) == DAT_SUCCESS;
  }

  // Frees nothing: closing the IA frees all objects.
  void abandon() {
    rsp.release();
    psp.release();
    for (End* const one : {&end, &reserved}) {
      one->ep.release();
      one->recv_evd.release();
      one->request_evd.release();
      one->connect_evd.release();
    }
    srq.release();
    rmr.release();
    buffer.lmr.release();
    pz.release();
    cr_evd.release();
    cno.release();
  }

  Cno cno;
  Pz pz;
  Buffer buffer;
  Evd cr_evd;
  Srq srq;
  Rmr rmr;
  End end;
  End reserved;
  Psp psp;
  Rsp rsp;
  bool has_rmr = false;
  bool has_srq = false;
};

DAT_HANDLE_TYPE type_of(DAT_HANDLE handle) {
  DAT_HANDLE_TYPE type{};
  REQUIRE_OK(dat_get_handle_type(handle, &type));
  return type;
}

void check_context(DAT_HANDLE handle) {
  DAT_CONTEXT context{};
  REQUIRE_OK(dat_get_consumer_context(handle, &context));
  BOOST_CHECK(context.as_ptr == nullptr);
  for (const std::uint64_t value :
       {std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{0}}) {  // ctx_replace_clear
    context.as_64 = value;
    REQUIRE_OK(dat_set_consumer_context(handle, context));
    DAT_CONTEXT read{};
    REQUIRE_OK(dat_get_consumer_context(handle, &read));
    BOOST_CHECK_EQUAL(read.as_64, value);
  }
  CHECK_TYPE(dat_get_consumer_context(handle, nullptr), DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_get_handle_type(handle, nullptr), DAT_INVALID_PARAMETER);
}

long count_entries(const char* folder) {
  return static_cast<long>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ia)

BOOST_AUTO_TEST_CASE(ia_open_creates_async, *covers("ia_open_async_no_cno")) {
  Ia ia;
  BOOST_REQUIRE(ia.async_evd != DAT_HANDLE_NULL);
  DAT_EVD_PARAM param{};
  REQUIRE_OK(dat_evd_query(ia.async_evd, DAT_EVD_FIELD_ALL, &param));
  BOOST_CHECK(param.evd_flags & DAT_EVD_ASYNC_FLAG);
  BOOST_CHECK_GE(param.evd_qlen, 16);
  BOOST_CHECK(param.cno_handle == DAT_HANDLE_NULL);  // ia_open_async_no_cno
  BOOST_CHECK(param.evd_state & DAT_EVD_STATE_ENABLED);
  BOOST_CHECK(param.evd_state & DAT_EVD_STATE_WAITABLE);
}

BOOST_AUTO_TEST_CASE(ia_open_qlen_zero) {
  std::string name = options().ia;
  for (const DAT_COUNT qlen : {0, -1}) {
    DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    CHECK_TYPE(dat_ia_openv(name.data(), qlen, &async_evd, &handle, 2, 0, options().thread_safe),
               DAT_INVALID_PARAMETER);
  }
}

BOOST_AUTO_TEST_CASE(ia_open_existing_async, *covers("ia_close_keeps_foreign_async")) {
  Ia first;
  std::string name = options().ia;
  DAT_EVD_HANDLE async_evd = first.async_evd;
  DAT_IA_HANDLE second = DAT_HANDLE_NULL;
  REQUIRE_OK(dat_ia_openv(name.data(), -5, &async_evd, &second, 2, 0, options().thread_safe));
  BOOST_CHECK(async_evd == first.async_evd);
  DAT_EVD_HANDLE reported = DAT_HANDLE_NULL;
  REQUIRE_OK(dat_ia_query(second, &reported, 0, nullptr, 0, nullptr));
  BOOST_CHECK(reported == first.async_evd);
  REQUIRE_OK(dat_ia_close(second, DAT_CLOSE_GRACEFUL_FLAG));
  DAT_EVD_PARAM param{};
  REQUIRE_OK(dat_evd_query(first.async_evd, DAT_EVD_FIELD_ALL, &param));
}

BOOST_AUTO_TEST_CASE(ia_open_async_exists) {
  Ia first;
  std::string name = options().ia;
  DAT_EVD_HANDLE async_evd = DAT_EVD_ASYNC_EXISTS;
  DAT_IA_HANDLE second = DAT_HANDLE_NULL;
  REQUIRE_OK(dat_ia_openv(name.data(), 8, &async_evd, &second, 2, 0, options().thread_safe));
  DAT_EVD_HANDLE reported = DAT_HANDLE_NULL;
  REQUIRE_OK(dat_ia_query(second, &reported, 0, nullptr, 0, nullptr));
  BOOST_CHECK(reported == DAT_EVD_OUT_OF_SCOPE || reported != DAT_HANDLE_NULL);
  REQUIRE_OK(dat_ia_close(second, DAT_CLOSE_GRACEFUL_FLAG));
}

BOOST_AUTO_TEST_CASE(ia_open_twice, *covers("ia_close_other_instance")) {
  Ia first;
  {
    Ia second;
    BOOST_CHECK(first.handle != second.handle);
    BOOST_CHECK(first.async_evd != second.async_evd);
    make_pz(second);
  }
  make_pz(first);
}

BOOST_AUTO_TEST_CASE(ia_close_bad_handle, *covers("ia_close_bad_flags ia_close_graceful_empty")) {
  CHECK_TYPE(dat_ia_close(DAT_HANDLE_NULL, DAT_CLOSE_ABRUPT_FLAG), DAT_INVALID_HANDLE);
  Ia ia;
  const DAT_IA_HANDLE closed = ia.handle;
  CHECK_TYPE(dat_ia_close(closed, not_an_enumerator<DAT_CLOSE_FLAGS>(7)), DAT_INVALID_PARAMETER);
  REQUIRE_OK(ia.close(DAT_CLOSE_GRACEFUL_FLAG));
  CHECK_TYPE(dat_ia_close(closed, DAT_CLOSE_ABRUPT_FLAG), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(ia_close_graceful_busy_each) {
  Ia ia;
  const auto busy = [&] {
    CHECK_TYPE(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), DAT_INVALID_STATE);
    make_pz(ia);  // the IA is still usable
  };
  {
    const Pz pz = make_pz(ia);
    busy();
  }
  {
    const Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
    busy();
  }
  {
    Cno cno;
    REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
    busy();
  }
}

BOOST_AUTO_TEST_CASE(ia_close_abrupt_everything) {
  Ia ia;
  Everything all(ia);
  REQUIRE_OK(ia.close(DAT_CLOSE_ABRUPT_FLAG));
  all.abandon();
}

BOOST_AUTO_TEST_CASE(ia_close_abrupt_connected) {
  Pair here;
  Ia there;
  const Pz pz = make_pz(there);
  End end;
  end.create(there, pz, nullptr);
  here.connect(end, here.passive);
  // Closing `there` has freed its objects.
  end.ep.release();
  end.recv_evd.release();
  end.request_evd.release();
  end.connect_evd.release();
  const_cast<Pz&>(pz).release();
  REQUIRE_OK(there.close(DAT_CLOSE_ABRUPT_FLAG));
  expect_connection_end(here.passive.connect_evd);
}

BOOST_AUTO_TEST_CASE(ia_close_abrupt_evd_waiter) {
  for (const DAT_EVD_FLAGS flag : {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_DTO_FLAG}) {
    Ia ia;
    Evd evd = make_evd(ia, flag, 8);
    DAT_RETURN waited = DAT_INTERNAL_ERROR;
    Sleeper sleeper;
    std::thread waiter([&] {
      DAT_EVENT event;
      DAT_COUNT more = 0;
      sleeper.announce();
      waited = dat_evd_wait(evd, kPatience, 1, &event, &more);
    });
    sleeper.until_asleep();
    const Promptly promptly;
    REQUIRE_OK(ia.close(DAT_CLOSE_ABRUPT_FLAG));
    waiter.join();
    evd.release();
    BOOST_CHECK_EQUAL(DAT_GET_TYPE(waited), static_cast<DAT_RETURN>(DAT_ABORT));
  }
}

BOOST_AUTO_TEST_CASE(ia_close_abrupt_cno_waiter, *covers("ia_close_abrupt_agent")) {
  struct Agent {
    static void run(DAT_PVOID self, DAT_EVD_HANDLE evd) {
      auto* const agent = static_cast<Agent*>(self);
      agent->evd = evd;
      ++agent->calls;
    }
    std::atomic<int> calls{0};
    std::atomic<DAT_EVD_HANDLE> evd{reinterpret_cast<DAT_EVD_HANDLE>(&calls)};
  };
  Ia ia;
  Agent agent;
  Cno cno;
  Cno with_agent;
  REQUIRE_OK(dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
  REQUIRE_OK(dat_cno_create(ia, {&agent, &Agent::run}, with_agent.out()));
  Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8, cno);
  DAT_RETURN waited = DAT_INTERNAL_ERROR;
  DAT_EVD_HANDLE woken = evd;
  Sleeper sleeper;
  std::thread waiter([&] {
    sleeper.announce();
    waited = dat_cno_wait(cno, kPatience, &woken);
  });
  sleeper.until_asleep();
  const Promptly promptly;
  REQUIRE_OK(ia.close(DAT_CLOSE_ABRUPT_FLAG));
  waiter.join();
  evd.release();
  cno.release();
  with_agent.release();
  BOOST_CHECK_EQUAL(waited, static_cast<DAT_RETURN>(DAT_SUCCESS));
  BOOST_CHECK(woken == DAT_HANDLE_NULL);
  BOOST_CHECK_EQUAL(agent.calls, 1);
  BOOST_CHECK(agent.evd.load() == DAT_HANDLE_NULL);
}

BOOST_AUTO_TEST_CASE(ia_close_no_leak) {
  const auto round = [] {
    Ia ia;
    Everything all(ia);
    REQUIRE_OK(ia.close(DAT_CLOSE_ABRUPT_FLAG));
    all.abandon();
  };
  // Linux may list a thread for a moment after pthread_join() has returned.
  const auto settled = [](const char* folder) {
    long fewest = count_entries(folder);
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      fewest = std::min(fewest, count_entries(folder));
    }
    return fewest;
  };
  for (int i = 0; i < 5; ++i) round();
  const long descriptors = settled("/proc/self/fd");
  const long threads = settled("/proc/self/task");
  for (int i = 0; i < 50; ++i) round();
  BOOST_CHECK_EQUAL(settled("/proc/self/fd"), descriptors);
  BOOST_CHECK_EQUAL(settled("/proc/self/task"), threads);
}

BOOST_AUTO_TEST_CASE(ctx_set_get_each_type, *covers("ctx_replace_clear handle_type_each")) {
  Ia ia;
  Everything all(ia);
  const std::pair<DAT_HANDLE, DAT_HANDLE_TYPE> objects[] = {
      {ia.handle, DAT_HANDLE_TYPE_IA},       {all.pz, DAT_HANDLE_TYPE_PZ},
      {all.buffer.lmr, DAT_HANDLE_TYPE_LMR}, {all.cr_evd, DAT_HANDLE_TYPE_EVD},
      {all.cno, DAT_HANDLE_TYPE_CNO},        {all.end.ep, DAT_HANDLE_TYPE_EP},
      {all.psp, DAT_HANDLE_TYPE_PSP},        {all.rsp, DAT_HANDLE_TYPE_RSP},
      {all.rmr, DAT_HANDLE_TYPE_RMR},        {all.srq, DAT_HANDLE_TYPE_SRQ},
  };
  for (const auto& [handle, type] : objects) {
    if (handle == DAT_HANDLE_NULL) continue;
    BOOST_CHECK_EQUAL(type_of(handle), type);
    check_context(handle);
  }
  Pair pair;
  const DAT_CR_HANDLE cr = pair.connect_and_take_cr();
  BOOST_CHECK_EQUAL(type_of(cr), DAT_HANDLE_TYPE_CR);
  check_context(cr);
  REQUIRE_OK(dat_cr_reject(cr, 0, nullptr));
}

BOOST_AUTO_TEST_CASE(ctx_bad_handle) {
  DAT_CONTEXT context{};
  DAT_HANDLE_TYPE type{};
  CHECK_TYPE(dat_set_consumer_context(DAT_HANDLE_NULL, context), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_get_consumer_context(DAT_HANDLE_NULL, &context), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_get_handle_type(DAT_HANDLE_NULL, &type), DAT_INVALID_HANDLE);
}

// Passes an EVD handle in place of another object, and a PZ handle in place of an EVD.
BOOST_AUTO_TEST_CASE(handle_wrong_type) {
  Ia ia;
  Everything all(ia);
  const DAT_HANDLE evd = all.cr_evd;
  const DAT_HANDLE pz = all.pz;
  DAT_EVENT event;
  DAT_COUNT more = 0;
  DAT_EVD_HANDLE out_evd = nullptr;
  DAT_RMR_CONTEXT context = 0;
  DAT_LMR_TRIPLET segment = all.buffer.local(8);
  const DAT_RMR_TRIPLET remote = all.buffer.remote(8);
  const DAT_COMPLETION_FLAGS none = DAT_COMPLETION_DEFAULT_FLAG;
  CHECK_TYPE(dat_pz_query(evd, DAT_PZ_FIELD_ALL, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_pz_free(evd), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_lmr_query(evd, DAT_LMR_FIELD_ALL, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_lmr_free(evd), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_rmr_query(evd, DAT_RMR_FIELD_ALL, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_rmr_free(evd), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_rmr_bind(evd, all.buffer.lmr, &segment, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                          DAT_VA_TYPE_VA, all.end.ep, cookie(0), none, &context),
             DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_ep_query(evd, 0, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_ep_get_status(evd, nullptr, nullptr, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_ep_reset(evd), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_ep_disconnect(evd, DAT_CLOSE_ABRUPT_FLAG), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_ep_free(evd), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_ep_post_send(evd, 1, &segment, cookie(0), none), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_ep_post_recv(evd, 1, &segment, cookie(0), none), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_ep_post_rdma_write(evd, 1, &segment, cookie(0), &remote, none),
             DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_ep_post_rdma_read(evd, 1, &segment, cookie(0), &remote, none), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_srq_query(evd, DAT_SRQ_FIELD_ALL, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_srq_post_recv(evd, 1, &segment, cookie(0)), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_srq_free(evd), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_psp_query(evd, DAT_PSP_FIELD_ALL, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_psp_free(evd), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_rsp_query(evd, DAT_RSP_FIELD_ALL, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_rsp_free(evd), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_cr_query(evd, DAT_CR_FIELD_ALL, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_cr_reject(evd, 0, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_cno_query(evd, DAT_CNO_FIELD_ALL, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_cno_wait(evd, 0, &out_evd), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_cno_free(evd), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_evd_query(pz, DAT_EVD_FIELD_ALL, nullptr), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_evd_dequeue(pz, &event), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_evd_wait(pz, 0, 1, &event, &more), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_evd_enable(pz), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_evd_disable(pz), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_evd_set_unwaitable(pz), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_evd_resize(pz, 8), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_evd_free(pz), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(handle_use_after_free) {
  Ia ia;
  Pz pz = make_pz(ia);
  const DAT_PZ_HANDLE freed_pz = pz.release();
  REQUIRE_OK(dat_pz_free(freed_pz));
  DAT_PZ_PARAM pz_param{};
  CHECK_TYPE(dat_pz_query(freed_pz, DAT_PZ_FIELD_ALL, &pz_param), DAT_INVALID_HANDLE);
  CHECK_TYPE(dat_pz_free(freed_pz), DAT_INVALID_HANDLE);
  Evd evd = make_evd(ia, DAT_EVD_SOFTWARE_FLAG, 8);
  const DAT_EVD_HANDLE freed_evd = evd.release();
  REQUIRE_OK(dat_evd_free(freed_evd));
  DAT_EVENT event;
  CHECK_TYPE(dat_evd_dequeue(freed_evd, &event), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
