// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The application closes the reactor's descriptors.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/child/in_child.h"
#include "tests/unit/reactor/bell.h"
#include "tests/unit/reactor/processor_time.h"

namespace udapl::test {

namespace {

// Closes them while other threads use them, which is what is tested. A raw system call, to hide
// that race from ThreadSanitizer.
void close_all() {
  for (int fd = 3; fd < 256; ++fd) ::syscall(SYS_close, fd);
}

struct Witness {
  void lost() noexcept { ++times; }
  void called() noexcept { ++calls; }
  std::atomic<int> times{0};
  std::atomic<int> calls{0};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(descriptors_lost)

BOOST_AUTO_TEST_CASE(lost_descriptors_are_reported_without_spinning) {
  in_child([] {
    auto reactor = std::move(*Reactor::create("reactor-test"));
    Witness witness;
    reactor->on_descriptors_lost(Call::to<&Witness::lost>(&witness));
    close_all();
    reactor->progress();  // a polling thread notices at once
    if (!eventually([&] { return witness.times == 1; })) return 1;
    const double before = processor_seconds();
    std::this_thread::sleep_for(1s);
    if (processor_seconds() - before > 0.5) return 2;

    {
      // Everything that needs no descriptor still works.
      Deferred deferred(*reactor, Call::to<&Witness::called>(&witness));
      deferred.post();
      if (!eventually([&] { return witness.calls == 1; })) return 3;
      Timer timer(*reactor, Call::to<&Witness::called>(&witness));
      timer.start_after(1ms);
      if (!eventually([&] { return witness.calls == 2; })) return 4;
      // A blocked thread is woken.
      WaitWord word;
      std::thread waker([&] {
        std::this_thread::sleep_for(20ms);
        word.signal();
      });
      const WaitResult result = reactor->block(word, 0, Clock::now() + kPatience);
      waker.join();
      if (result != WaitResult::kChanged) return 5;
    }
    reactor.reset();
    return witness.times == 1 ? 0 : 6;
  });
}

// The service thread sleeps in epoll, and nothing can wake it there.
BOOST_AUTO_TEST_CASE(a_sleeping_reactor_notices_in_time_and_ends) {
  in_child([] {
    auto reactor = std::move(*Reactor::create("reactor-test"));
    Witness witness;
    reactor->on_descriptors_lost(Call::to<&Witness::lost>(&witness));
    std::this_thread::sleep_for(100ms);  // lets the service thread go to sleep
    close_all();
    reactor.reset();
    return witness.times == 1 ? 0 : 1;
  });
}

// A leader that sleeps directly on one descriptor also polls the lease's timer, and notices when
// that fires.
BOOST_AUTO_TEST_CASE(a_direct_leader_notices_in_time) {
  in_child([] {
    auto reactor = std::move(*Reactor::create("reactor-test"));
    Witness witness;
    reactor->on_descriptors_lost(Call::to<&Witness::lost>(&witness));
    {
      Bell bell(*reactor);
      if (!enters_direct_mode(*reactor, bell)) return 1;
      WaitWord word;
      std::atomic<bool> done{false};
      std::thread leader([&] {
        while (!done) reactor->block(word, word.value(), std::nullopt);
      });
      std::this_thread::sleep_for(1ms);
      close_all();
      const bool noticed = eventually([&] { return witness.times == 1; });
      done = true;
      word.signal();
      leader.join();
      if (!noticed) return 2;
    }
    reactor.reset();
    return 0;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
