// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/posted/cookie_ring.h"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <thread>
#include <vector>

namespace udapl::dapl {
namespace {

Cookie* post(CookieRing& ring) {
  Cookie* const cookie = ring.claim();
  if (cookie != nullptr) ring.commit(*cookie);
  return cookie;
}

BOOST_AUTO_TEST_SUITE(cookie_ring)

BOOST_AUTO_TEST_CASE(holds_its_limit_exactly) {
  for (const std::uint32_t limit : {0U, 1U, 2U, 3U, 7U, 8U, 100U}) {
    CookieRing ring(limit);
    for (int lap = 0; lap < 5; ++lap) {
      std::vector<Cookie*> posted;
      while (Cookie* const cookie = post(ring)) posted.push_back(cookie);
      BOOST_CHECK_EQUAL(posted.size(), limit);
      BOOST_CHECK_EQUAL(ring.outstanding(), limit);
      for (const Cookie* const cookie : posted) ring.retire(cookie);
      BOOST_CHECK_EQUAL(ring.outstanding(), 0U);
      if (limit > 1) {  // makes the next lap start at another position
        ring.retire(post(ring));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_retired_cookie_frees_all_before_it) {
  CookieRing ring(5);
  std::vector<Cookie*> posted;
  for (int i = 0; i < 5; ++i) posted.push_back(post(ring));
  ring.retire(posted[2]);
  BOOST_CHECK_EQUAL(ring.outstanding(), 2U);
  BOOST_CHECK(post(ring) != posted[3]);
  BOOST_CHECK_EQUAL(ring.outstanding(), 3U);
  ring.retire(posted[4]);
  BOOST_CHECK_EQUAL(ring.outstanding(), 1U);
}

BOOST_AUTO_TEST_CASE(suppressed_ones_await_no_event) {
  CookieRing ring(3);
  BOOST_CHECK(!ring.awaits_event());
  Cookie* const suppressed = post(ring);
  suppressed->suppressed = true;
  BOOST_CHECK(!ring.awaits_event());
  Cookie* const other = post(ring);
  other->suppressed = false;
  post(ring)->suppressed = true;
  BOOST_CHECK(ring.awaits_event());
  ring.retire(other);
  BOOST_CHECK(!ring.awaits_event());
}

BOOST_AUTO_TEST_CASE(a_refused_post_leaves_no_trace) {
  CookieRing ring(2);
  Cookie* const first = ring.claim();
  ring.commit(*first);
  ring.rollback();
  BOOST_CHECK_EQUAL(ring.outstanding(), 0U);
  BOOST_CHECK_EQUAL(ring.claim(), first);
}

BOOST_AUTO_TEST_CASE(clear_frees_all) {
  CookieRing ring(3);
  while (post(ring) != nullptr) {
  }
  ring.clear();
  BOOST_CHECK_EQUAL(ring.outstanding(), 0U);
  BOOST_CHECK(post(ring) != nullptr);
}

BOOST_AUTO_TEST_CASE(resize_does_not_move_posted_cookies) {
  CookieRing ring(5);  // room for 8
  Cookie* const first = post(ring);
  first->user.as_64 = 42;
  Cookie* const second = post(ring);
  BOOST_CHECK(ring.can_resize(8));
  BOOST_CHECK(ring.can_resize(2));
  BOOST_CHECK(!ring.can_resize(1));
  BOOST_CHECK(!ring.can_resize(9));
  ring.resize(8);
  int more = 0;
  while (post(ring) != nullptr) ++more;
  BOOST_CHECK_EQUAL(more, 6);
  BOOST_CHECK_EQUAL(first->user.as_64, 42U);
  ring.retire(second);
  BOOST_CHECK_EQUAL(ring.outstanding(), 6U);
  ring.clear();
  BOOST_CHECK(ring.can_resize(1000));
  ring.resize(1000);
  for (more = 0; post(ring) != nullptr; ++more) {
  }
  BOOST_CHECK_EQUAL(more, 1000);
  BOOST_CHECK_EQUAL(ring.outstanding(), 1000U);
}

BOOST_AUTO_TEST_CASE(one_thread_posts_while_another_reaps) {
  constexpr std::uint64_t kPosts = 20000;
  CookieRing ring(16);
  std::atomic<Cookie*> handed{nullptr};
  std::thread reaper([&] {
    for (std::uint64_t i = 0; i < kPosts; ++i) {
      Cookie* cookie = nullptr;
      while ((cookie = handed.exchange(nullptr, std::memory_order_acquire)) == nullptr)
        std::this_thread::yield();
      if (cookie->user.as_64 != i) std::abort();
      ring.retire(cookie);
    }
  });
  for (std::uint64_t i = 0; i < kPosts; ++i) {
    Cookie* cookie = nullptr;
    while ((cookie = ring.claim()) == nullptr) std::this_thread::yield();
    cookie->user.as_64 = i;
    ring.commit(*cookie);
    while (handed.load(std::memory_order_relaxed) != nullptr) std::this_thread::yield();
    handed.store(cookie, std::memory_order_release);
  }
  reaper.join();
  BOOST_CHECK_EQUAL(ring.outstanding(), 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::dapl
