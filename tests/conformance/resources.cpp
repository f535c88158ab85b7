// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "harness.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <new>

// INSUFFICIENT_RESOURCES, which the specification and include/dat/api list for nearly every
// function that creates something. The tests let memory and file descriptors run out at every point
// where the provider allocates them. The call must report that, leave nothing behind (every IA here
// is closed gracefully), and work once the resource is available again.
namespace {

// In this thread, the allocation with this number fails. 0: none fails.
thread_local int fails_at = 0;
thread_local int failed = 0;

void* allocate(std::size_t size, std::size_t alignment = 0) noexcept {
  if (fails_at > 0 && --fails_at == 0) {
    ++failed;
    return nullptr;
  }
  if (size == 0) size = 1;
  if (alignment == 0) return std::malloc(size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment = 0) {
  if (void* const place = allocate(size, alignment)) return place;
  throw std::bad_alloc();
}

}  // namespace

// A C++ provider that is loaded into this program allocates its memory here.
[[gnu::noinline]] void* operator new(std::size_t size) { return allocate_or_throw(size); }
[[gnu::noinline]] void* operator new[](std::size_t size) { return allocate_or_throw(size); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size);
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace conformance {

namespace {

using Call = std::function<DAT_RETURN()>;

constexpr int kMaxAllocations = 500;
constexpr const char* kOwnMemory = "the provider does not take memory from operator new here";

// Lets the first, the second, ... allocation of the call fail, until the call makes fewer
// allocations; then it must succeed. Returns how often it failed.
int fail_each_allocation(const char* what, const Call& call) {
  int refusals = 0;
  for (int n = 1; n < kMaxAllocations; ++n) {
    failed = 0;
    fails_at = n;
    const DAT_RETURN rc = call();
    fails_at = 0;
    if (rc == DAT_SUCCESS) return refusals;
    BOOST_REQUIRE_MESSAGE(failed > 0, what << " -> " << describe(rc) << " with memory");
    BOOST_CHECK_MESSAGE(DAT_GET_TYPE(rc) == DAT_INSUFFICIENT_RESOURCES,
                        what << ", allocation " << n << " -> " << describe(rc));
    ++refusals;
  }
  BOOST_FAIL(what << " never succeeds");
  return refusals;
}

// Uses up all file descriptors while it exists.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 256;  // not fewer, because the limit applies to poll() as well
    setrlimit(RLIMIT_NOFILE, &few);
    for (;;) {
      const int fd = ::fcntl(0, F_DUPFD_CLOEXEC, 0);
      if (fd < 0) break;
      taken_.push_back(fd);
    }
  }
  ~NoDescriptors() {
    for (const int fd : taken_) ::close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

// Checks that the call fails if there are no descriptors, or needs none.
bool refused_without_descriptors(const char* what, const Call& call) {
  DAT_RETURN rc = DAT_SUCCESS;
  {
    const NoDescriptors none;
    rc = call();
  }
  BOOST_CHECK_MESSAGE(rc == DAT_SUCCESS || DAT_GET_TYPE(rc) == DAT_INSUFFICIENT_RESOURCES,
                      what << " -> " << describe(rc));
  return rc != DAT_SUCCESS;
}

DAT_RETURN connect(Pair& pair, End& end) {
  return dat_ep_connect(end.ep, pair.ia.attr.ia_address_ptr, pair.conn_qual, kPatience, 0, nullptr,
                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(resources)

BOOST_AUTO_TEST_CASE(res_memory_ia) {
  std::string name = options().ia;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
  const int refusals = fail_each_allocation("dat_ia_openv", [&] {
    async = DAT_HANDLE_NULL;
    return dat_ia_openv(name.data(), 8, &async, &ia, DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                        options().thread_safe);
  });
  REQUIRE_OK(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
  if (skip_unless(refusals > 0, kOwnMemory)) return;
}

BOOST_AUTO_TEST_CASE(res_memory_objects) {
  const Ia ia;
  Pz pz;
  int refusals = fail_each_allocation("dat_pz_create", [&] { return dat_pz_create(ia, pz.out()); });
  Cno cno;
  refusals += fail_each_allocation("dat_cno_create", [&] {
    return dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out());
  });
  Cno fd_cno;
  DAT_FD fd = -1;
  refusals += fail_each_allocation("dat_cno_fd_create",
                                   [&] { return dat_cno_fd_create(ia, &fd, fd_cno.out()); });
  Evd evd;
  refusals += fail_each_allocation(
      "dat_evd_create", [&] { return dat_evd_create(ia, 16, cno, DAT_EVD_DTO_FLAG, evd.out()); });
  refusals += fail_each_allocation("dat_evd_resize", [&] { return dat_evd_resize(evd, 5000); });
  char bytes[64];
  DAT_REGION_DESCRIPTION region{};
  region.for_va = bytes;
  LmrHandle lmr;
  DAT_LMR_CONTEXT context = 0;
  DAT_RMR_CONTEXT remote = 0;
  DAT_VLEN length = 0;
  DAT_VADDR address = 0;
  refusals += fail_each_allocation("dat_lmr_create", [&] {
    return dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof bytes, pz, DAT_MEM_PRIV_ALL_FLAG,
                          DAT_VA_TYPE_VA, lmr.out(), &context, &remote, &length, &address);
  });
  Rmr rmr;
  Rmr rmr_for_ep;
  if (ia.attr.max_rmrs > 0)
    refusals +=
        fail_each_allocation("dat_rmr_create", [&] { return dat_rmr_create(pz, rmr.out()); });
  if (ia.attr.max_rmrs > 1 && (ia.provider().rmr_scope_supported & DAT_RMR_SCOPE_EP) != 0)
    refusals += fail_each_allocation("dat_rmr_create_for_ep",
                                     [&] { return dat_rmr_create_for_ep(pz, rmr_for_ep.out()); });
  Srq srq;
  DAT_SRQ_ATTR attr{8, 1, DAT_SRQ_LW_DEFAULT};
  if (ia.attr.max_srqs > 0) {
    refusals += fail_each_allocation("dat_srq_create",
                                     [&] { return dat_srq_create(ia, pz, &attr, srq.out()); });
    refusals += fail_each_allocation("dat_srq_resize", [&] { return dat_srq_resize(srq, 64); });
  }
  if (skip_unless(refusals > 0, kOwnMemory)) return;
}

BOOST_AUTO_TEST_CASE(res_memory_ep) {
  const Ia ia;
  const Pz pz = make_pz(ia);
  const Evd evd = make_evd(ia, DAT_EVD_DTO_FLAG);
  const Evd connect_evd = make_evd(ia, DAT_EVD_CONNECTION_FLAG);
  const DAT_EP_ATTR attr = default_ep_attr(ia);
  Ep ep;
  int refusals = fail_each_allocation("dat_ep_create", [&] {
    return dat_ep_create(ia, pz, evd, evd, connect_evd, &attr, ep.out());
  });
  Ep without_evds;
  refusals += fail_each_allocation("dat_ep_create without EVDs", [&] {
    return dat_ep_create(ia, pz, nullptr, nullptr, connect_evd, nullptr, without_evds.out());
  });
  Srq srq;
  Ep sharing;
  DAT_SRQ_ATTR srq_attr{8, 1, DAT_SRQ_LW_DEFAULT};
  if (ia.attr.max_srqs > 0) {
    REQUIRE_OK(dat_srq_create(ia, pz, &srq_attr, srq.out()));
    refusals += fail_each_allocation("dat_ep_create_with_srq", [&] {
      return dat_ep_create_with_srq(ia, pz, evd, evd, connect_evd, srq, &attr, sharing.out());
    });
    REQUIRE_OK(dat_ep_free(sharing.release()));
  }
  if (skip_unless(refusals > 0, kOwnMemory)) return;
}

BOOST_AUTO_TEST_CASE(res_memory_service_points) {
  Pair pair;
  Psp psp;
  int refusals = fail_each_allocation("dat_psp_create", [&] {
    return dat_psp_create(pair.ia, fresh_conn_qual(), pair.cr_evd, DAT_PSP_CONSUMER_FLAG,
                          psp.out());
  });
  Psp any;
  DAT_CONN_QUAL conn_qual = 0;
  refusals += fail_each_allocation("dat_psp_create_any", [&] {
    return dat_psp_create_any(pair.ia, &conn_qual, pair.cr_evd, DAT_PSP_CONSUMER_FLAG, any.out());
  });
  Rsp rsp;
  refusals += fail_each_allocation("dat_rsp_create", [&] {
    return dat_rsp_create(pair.ia, fresh_conn_qual(), pair.passive.ep, pair.cr_evd, rsp.out());
  });
  DAT_COMM comm{pair.ia.attr.ia_address_ptr->sa_family, SOCK_STREAM, 0};
  Owner<DAT_CSP_HANDLE, dat_csp_free> csp;
  refusals += fail_each_allocation("dat_csp_create", [&] {
    return dat_csp_create(pair.ia, &comm, nullptr, pair.cr_evd, csp.out());
  });
  if (skip_unless(refusals > 0, kOwnMemory)) return;
}

BOOST_AUTO_TEST_CASE(res_memory_connection) {
  Pair pair;
  int refusals = fail_each_allocation("dat_ep_connect", [&] { return connect(pair, pair.active); });
  const DAT_CR_HANDLE cr = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT)
                               .event_data.cr_arrival_event_data.cr_handle;
  refusals += fail_each_allocation("dat_cr_accept",
                                   [&] { return dat_cr_accept(cr, pair.passive.ep, 0, nullptr); });
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
  expect_event(pair.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);

  End other;
  other.create(pair.ia, pair.pz, nullptr);
  refusals += fail_each_allocation("dat_ep_dup_connect", [&] {
    return dat_ep_dup_connect(other.ep, pair.active.ep, kPatience, 0, nullptr, DAT_QOS_BEST_EFFORT);
  });
  const DAT_CR_HANDLE again = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT)
                                  .event_data.cr_arrival_event_data.cr_handle;
  REQUIRE_OK(dat_cr_reject(again, 0, nullptr));
  expect_event(other.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);

  refusals += fail_each_allocation("dat_ep_disconnect", [&] {
    return dat_ep_disconnect(pair.active.ep, DAT_CLOSE_ABRUPT_FLAG);
  });
  expect_connection_end(pair.active.connect_evd);
  expect_connection_end(pair.passive.connect_evd);
  refusals += fail_each_allocation("dat_ep_reset", [&] { return dat_ep_reset(pair.active.ep); });
  BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_UNCONNECTED);
  if (skip_unless(refusals > 0, kOwnMemory)) return;
}

BOOST_AUTO_TEST_CASE(res_memory_common_connect) {
  Pair pair;
  DAT_EP_PARAM param{};
  param.comm = {pair.ia.attr.ia_address_ptr->sa_family, SOCK_STREAM, 0};
  Owner<DAT_CSP_HANDLE, dat_csp_free> csp;
  if (skip_unless(
          dat_csp_create(pair.ia, &param.comm, nullptr, pair.cr_evd, csp.out()) == DAT_SUCCESS,
          "the IA has no CSPs"))
    return;
  REQUIRE_OK(dat_ep_modify(pair.active.ep, DAT_EP_FIELD_COMM, &param));
  DAT_CSP_PARAM place{};
  REQUIRE_OK(dat_csp_query(csp, DAT_CSP_FIELD_ALL, &place));
  fail_each_allocation("dat_ep_common_connect", [&] {
    return dat_ep_common_connect(pair.active.ep, place.address_ptr, kPatience, 0, nullptr);
  });
  const DAT_CR_HANDLE cr = expect_event(pair.cr_evd, DAT_CONNECTION_REQUEST_EVENT)
                               .event_data.cr_arrival_event_data.cr_handle;
  REQUIRE_OK(dat_cr_reject(cr, 0, nullptr));
  expect_event(pair.active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

BOOST_AUTO_TEST_CASE(res_descriptors_ia) {
  std::string name = options().ia;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
  const auto open = [&] {
    async = DAT_HANDLE_NULL;
    return dat_ia_openv(name.data(), 8, &async, &ia, DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                        options().thread_safe);
  };
  { const Ia first; }  // the registry has read its file and loaded the provider
  if (refused_without_descriptors("dat_ia_openv", open)) REQUIRE_OK(open());
  REQUIRE_OK(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

BOOST_AUTO_TEST_CASE(res_descriptors_objects) {
  Pair pair;
  Cno cno;
  DAT_FD fd = -1;
  BOOST_CHECK(refused_without_descriptors(
      "dat_cno_fd_create", [&] { return dat_cno_fd_create(pair.ia, &fd, cno.out()); }));
  Evd evd;
  refused_without_descriptors("dat_evd_create", [&] {
    return dat_evd_create(pair.ia, 8, nullptr, DAT_EVD_DTO_FLAG, evd.out());
  });
  Psp psp;
  refused_without_descriptors("dat_psp_create", [&] {
    return dat_psp_create(pair.ia, fresh_conn_qual(), pair.cr_evd, DAT_PSP_CONSUMER_FLAG,
                          psp.out());
  });
  Ep ep;
  refused_without_descriptors("dat_ep_create", [&] {
    return dat_ep_create(pair.ia, pair.pz, nullptr, nullptr, pair.active.connect_evd, nullptr,
                         ep.out());
  });
}

// A connection for which there is no descriptor fails immediately or with an event, and can be
// retried.
BOOST_AUTO_TEST_CASE(res_descriptors_connect) {
  Pair pair;
  const bool refused =
      refused_without_descriptors("dat_ep_connect", [&] { return connect(pair, pair.active); });
  if (refused) {
    BOOST_CHECK_EQUAL(ep_state(pair.active.ep), DAT_EP_STATE_UNCONNECTED);
  } else {
    const auto request = next_event(pair.cr_evd, 100 * kMillisecond);
    if (request)
      REQUIRE_OK(dat_cr_reject(request->event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
    BOOST_REQUIRE(next_event(pair.active.connect_evd));
    REQUIRE_OK(dat_ep_reset(pair.active.ep));
  }
  pair.connect();
  pair.disconnect();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
