// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "common/block_cache.h"
#include "common/fork.h"
#include "dapl/objects/object.h"

// A child is forked while another thread of the parent uses a cache, possibly with its lock held.
namespace udapl::test {

namespace {

struct Block final : dapl::ObjectHeader {};

[[maybe_unused]] void use_block_cache() {
  BlockCache<Block>::release(BlockCache<Block>::allocate());
}

void use_object_pool() {
  auto& pool = dapl::ObjectPool<Block>::instance();
  pool.release(static_cast<dapl::ObjectHeader*>(pool.allocate()));
}

// How many of 100 children of a process whose other thread repeats `use` cannot do the same.
int hung_children(void (*use)()) {
  std::atomic<bool> stop{false};
  for (std::size_t i = 0; i < 200; ++i) use();
  std::thread busy([&] {
    while (!stop.load(std::memory_order_relaxed)) use();
  });
  int hung = 0;
  for (int i = 0; i < 100 && hung == 0; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      for (int n = 0; n < 200; ++n) use();
      ::_exit(0);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) ++hung;
  }
  stop = true;
  busy.join();
  return hung;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(caches_in_children)

BOOST_AUTO_TEST_CASE(locks_held_at_a_fork_do_not_hang_children) {
  BOOST_REQUIRE(forks::watch([]() noexcept {}));
#if !defined(__SANITIZE_ADDRESS__)  // nothing is kept then, and its malloc may hang a child
  BOOST_CHECK_EQUAL(hung_children(&use_block_cache), 0);
#endif
  BOOST_CHECK_EQUAL(hung_children(&use_object_pool), 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
