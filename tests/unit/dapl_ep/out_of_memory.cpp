// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The core runs out of memory while a connection request is delivered to it, when only the peer can
// be notified. (For calls that run out of memory see tests/conformance/resources.cpp.)
#include <cstdlib>
#include <new>
#include <utility>

#include "tests/unit/dapl_ep/places.h"

namespace {

// Only the n-th allocation of this thread from now on fails; 0 means none.
thread_local int fail_allocation = 0;
thread_local int allocations = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  ++allocations;
  if (fail_allocation != 0 && --fail_allocation == 0) throw std::bad_alloc();
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* const memory = alignment <= alignof(std::max_align_t)
                           ? std::malloc(size)
                           : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The other forms in the standard library call these; with a sanitizer, not the one with nothrow.
[[gnu::noinline]] void* operator new(std::size_t size) { return allocate(size, 1); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return allocate(size, 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace udapl::test {
namespace {

// Takes all blocks out of the pool, so that the next object needs memory.
template <class T>
void empty_the_pool() {
  static void* latest;  // a list that keeps the blocks reachable
  for (const int before = allocations; allocations == before;) {
    void** const block = static_cast<void**>(dapl::ObjectPool<T>::instance().allocate());
    *block = std::exchange(latest, block);
  }
}

struct Starved : Places {
  Starved() {
    empty_the_pool<dapl::Cr>();
    empty_the_pool<dapl::Ep>();
  }
  // Makes a peer's request fail in the n-th allocation of its delivery. Returns whether that
  // refused the request.
  [[nodiscard]] bool refused(int n) {
    fake::settings().before_request = [n] { fail_allocation = n; };
    const Side active = request();
    fail_allocation = 0;
    fake::settings().before_request = nullptr;
    const int number = take_connection(active.connect_evd);
    if (number == 0) return false;
    BOOST_CHECK_EQUAL(number, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    BOOST_CHECK(empty(cr_evd));
    ia.object().for_each<dapl::Cr>([](dapl::Cr&) { BOOST_ERROR("a CR is left"); });
    BOOST_CHECK_EQUAL(tentative(), 0);
    return true;
  }
  [[nodiscard]] int tentative() const {
    int count = 0;
    ia.object().for_each<dapl::Ep>([&count](dapl::Ep& ep) {
      count += ep.state() == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING;
    });
    return count;
  }
};

BOOST_FIXTURE_TEST_SUITE(out_of_memory, Starved)

BOOST_AUTO_TEST_CASE(a_request_to_a_psp) {
  psp();
  BOOST_CHECK(refused(1));
  static_cast<void>(request());
  REQUIRE_OK(ia->cr_reject_func(take_cr(), 0, nullptr));
}

BOOST_AUTO_TEST_CASE(a_request_with_a_provider_ep) {
  psp(kService, DAT_PSP_PROVIDER_FLAG);
  int failures = 0;
  while (failures < 50 && refused(failures + 1)) ++failures;
  BOOST_CHECK_GE(failures, 2);  // at least the EP's and the CR's
  BOOST_CHECK_EQUAL(tentative(), 1);
  REQUIRE_OK(ia->cr_reject_func(take_cr(), 0, nullptr));
}

// The RSP refuses the request and listens again. If there is no memory for that, the RSP remains
// without a listener, and its connection qualifier is free.
BOOST_AUTO_TEST_CASE(a_request_to_an_rsp_whose_evd_is_full) {
  const DAT_PSP_HANDLE other = psp(kService + 1);
  for (int i = 0; i < 8; ++i) static_cast<void>(request(kService + 1));
  REQUIRE_OK(ia->psp_free_func(other));
  const Side passive = side();
  int without_place = 0;
  for (int n = 1; n <= 8 && without_place == 0; ++n) {
    empty_the_pool<dapl::Cr>();
    const DAT_CONN_QUAL conn_qual = kService + 1 + static_cast<DAT_CONN_QUAL>(n);
    const DAT_RSP_HANDLE place = rsp(passive.ep, conn_qual);
    fake::settings().before_request = [n] { fail_allocation = n; };
    const Side active = request(conn_qual);
    fail_allocation = 0;
    fake::settings().before_request = nullptr;
    BOOST_CHECK_EQUAL(take_connection(active.connect_evd), DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    DAT_PSP_HANDLE successor = DAT_HANDLE_NULL;
    if (ia->psp_create_func(ia.raw, conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &successor) ==
        DAT_SUCCESS) {
      ++without_place;
      REQUIRE_OK(ia->psp_free_func(successor));
    }
    REQUIRE_OK(ia->rsp_free_func(place));
  }
  BOOST_CHECK_GE(without_place, 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
