// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// One end of a connection over rings, against a peer that the test plays: the memory it takes, and
// how it ends.
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/shm/offer.h"
#include "tests/unit/soft_io/cm_fixture.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

namespace udapl::soft::test {
namespace {

bool is(const IoResult& result, IoResult::Kind kind, int error = 0) {
  return result.kind == kind && result.error == error;
}

// A stream, and its peer's socket and rings.
struct Half {
  Half() {
    RawSocket server;
    const auto place = server.listen();
    BOOST_REQUIRE(peer.connect(place));
    RawSocket accepted = server.accept();
    shm::OfferBox box;
    shm::NoOffer failure;
    BOOST_REQUIRE(box.open(*place.get()));
    auto offer = shm::make_offer(*place.get(), failure);
    BOOST_REQUIRE_MESSAGE(offer.has_value(), failure.why);
    theirs = box.take(offer->token);
    BOOST_REQUIRE(theirs.valid());
    stream = std::make_unique<RingStream>(
        std::make_unique<TcpStream>(*reactor, Fd(::dup(accepted.fd())), transport::Endpoints{}),
        std::move(offer->rings), false);
  }
  std::unique_ptr<Reactor> reactor = make_reactor();
  RawSocket peer;
  shm::Rings theirs;
  std::unique_ptr<RingStream> stream;
};

// Collects the events of a stream.
class Listener final : public Handler {
 public:
  explicit Listener(RingStream& stream) : stream_(&stream) {}
  void on_ready(std::uint32_t events) noexcept override {
    const std::lock_guard guard(lock);
    if (stream_ != nullptr) seen |= stream_->ready(events);
  }
  Look look() noexcept override {
    const std::lock_guard guard(lock);
    if (stream_ != nullptr) seen |= stream_->look();
    return Look::kNothing;
  }
  bool rest() noexcept override {
    const std::lock_guard guard(lock);
    return stream_ == nullptr || stream_->rest();
  }
  // Runs `work` under the lock, as a QP uses its stream.
  template <class Work>
  auto locked(Work work) {
    const std::lock_guard guard(lock);
    return work(*stream_);
  }
  void end(std::unique_ptr<RingStream>& stream) {
    const std::lock_guard guard(lock);
    stream_ = nullptr;
    stream.reset();
  }
  std::atomic<std::uint32_t> seen{0};

 private:
  std::mutex lock;
  RingStream* stream_;
};

void begin(Listener& listener) {
  const Status watched =
      listener.locked([&](RingStream& stream) { return stream.watch(EPOLLIN, listener); });
  BOOST_REQUIRE(watched.ok());
}

void stop(Half& half, Listener& listener) {
  listener.end(half.stream);
  half.reactor->quiesce(listener);
}

// The number of resident pages of the shared memory.
long pages_taken(const Half& half) {
  auto* const control = reinterpret_cast<std::byte*>(&half.theirs.written());
  std::byte* const page = control - reinterpret_cast<std::uintptr_t>(control) % shm::Layout::kPage;
  std::vector<unsigned char> resident(shm::Layout::kSize / shm::Layout::kPage);
  BOOST_REQUIRE_EQUAL(::mincore(page, shm::Layout::kSize, resident.data()), 0);
  BOOST_TEST(resident.front() == 1);
  return std::ssize(resident) - std::ranges::count(resident, 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ring_stream)

// Most connections have little traffic.
BOOST_AUTO_TEST_CASE(little_traffic_takes_one_page) {
  Half half;
  const Bytes words = pattern(shm::Layout::kPorchSize);
  const iwarp::IoSpan span{words.data(), words.size()};
  shm::RingWriter writer = half.theirs.writer();
  BOOST_TEST(writer.write(words).bytes == words.size());
  BOOST_TEST(half.stream->send(std::span(&span, 1), 0).bytes == words.size());
  Bytes room(words.size());
  BOOST_TEST(half.stream->receive(room).bytes == words.size());
  BOOST_TEST(pages_taken(half) == 1);
}

// The pages used for a large transfer are released after all of it has been read; later transfers
// still arrive.
BOOST_AUTO_TEST_CASE(idle_connection_releases_pages) {
  Half half;
  Listener listener(*half.stream);
  begin(listener);
  shm::RingReader reader = half.theirs.reader();
  const auto send = [&](const Bytes& bytes) {
    const iwarp::IoSpan span{bytes.data(), bytes.size()};
    return listener.locked([&](RingStream& stream) { return stream.send({&span, 1}, 1 << 30); });
  };
  for (int round = 0; round < 2; ++round) {
    const Bytes much = pattern(200'000);
    BOOST_REQUIRE_EQUAL(send(much).bytes, much.size());
    std::this_thread::sleep_for(1500ms);  // nothing has been read, so nothing is released
    BOOST_TEST(pages_taken(half) > 40);
    Bytes got(much.size());
    BOOST_TEST(reader.read(got).bytes == much.size());
    BOOST_TEST((got == much));
    const Bytes word = pattern(1);
    BOOST_REQUIRE_EQUAL(send(word).bytes, word.size());
    BOOST_TEST(reader.read(got).bytes == word.size());
    BOOST_TEST(eventually([&] { return pages_taken(half) <= 2; }));
  }
  stop(half, listener);
}

// A QP is reset and connected again while the reactor is about to call it for the stream before.
BOOST_AUTO_TEST_CASE(late_call_for_the_stream_before_loses_no_input) {
  for (const bool looks : {false, true}) {
    Half half;
    Listener listener(*half.stream);
    begin(listener);
    if (looks)
      static_cast<void>(listener.look());
    else
      listener.on_ready(0);
    shm::RingWriter writer = half.theirs.writer();
    if (writer.write(pattern(5)).wake) BOOST_TEST(::send(half.theirs.bell(), "", 1, 0) == 1);
    BOOST_TEST(eventually([&] { return (listener.seen & EPOLLIN) != 0; }));
    stop(half, listener);
  }
}

// ---- how a stream of rings ends -----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(killed_peer_has_closed_or_lost_something) {
  for (const bool unread : {false, true}) {
    Half half;
    const Bytes word = pattern(5);
    const iwarp::IoSpan span{word.data(), word.size()};
    shm::RingWriter writer = half.theirs.writer();
    BOOST_TEST(writer.write(word).bytes == word.size());
    if (unread) BOOST_TEST(half.stream->send(std::span(&span, 1), 0).bytes == word.size());
    Listener listener(*half.stream);
    begin(listener);
    half.theirs = shm::Rings();
    const auto receive = [](RingStream& stream) {
      std::array<std::byte, 8> room;
      return stream.receive(room);
    };
    // The bytes that it has sent arrive first, also if more is to be sent.
    const auto send = [&](RingStream& stream) { return stream.send(std::span(&span, 1), 0); };
    BOOST_TEST(eventually([&] { return (listener.seen & EPOLLIN) != 0; }));
    listener.on_ready(EPOLLIN | EPOLLRDHUP);
    BOOST_TEST(is(listener.locked(send), IoResult::kEnd));
    BOOST_TEST(eventually([&] { return listener.locked(receive).bytes == word.size(); }));
    BOOST_TEST(eventually([&] {
      half.reactor->progress();
      const IoResult result = listener.locked(receive);
      return unread ? is(result, IoResult::kBroken, ECONNRESET) : is(result, IoResult::kEnd);
    }));
    BOOST_TEST((listener.seen & EPOLLIN) != 0U);
    BOOST_TEST(((listener.seen & EPOLLERR) != 0U) == unread);
    stop(half, listener);
  }
}

// A QP has one handler for all its streams, one after the other.
BOOST_AUTO_TEST_CASE(late_report_of_another_stream_ends_nothing) {
  Half half;
  Listener listener(*half.stream);
  begin(listener);
  listener.on_ready(EPOLLIN | EPOLLHUP | EPOLLRDHUP);
  const auto receive = [](RingStream& stream) {
    std::array<std::byte, 8> room;
    return stream.receive(room);
  };
  BOOST_TEST((listener.locked(receive).kind == IoResult::kBlocked));
  half.theirs = shm::Rings();
  BOOST_TEST(eventually([&] { return listener.locked(receive).kind == IoResult::kEnd; }));
  stop(half, listener);
}

// A bell that is full would not be reported again.
BOOST_AUTO_TEST_CASE(rings_do_not_fill_the_bell) {
  Half half;
  Listener listener(*half.stream);
  begin(listener);
  for (int i = 0; i < 2000; ++i) {
    for (int rings = 0; rings < 2; ++rings)
      BOOST_REQUIRE(::send(half.theirs.bell(), "", 1, MSG_DONTWAIT) == 1);
    static_cast<void>(listener.look());
    static_cast<void>(listener.rest());
  }
  stop(half, listener);
}

BOOST_AUTO_TEST_CASE(reported_end_reaches_the_peer) {
  const auto end_of = [](auto&& finish) {
    Half half;
    const Bytes word = pattern(5);
    shm::RingWriter writer = half.theirs.writer();
    BOOST_TEST(writer.write(word).bytes == word.size());
    finish(half);
    half.stream.reset();
    return half.theirs.reader().end();
  };
  const auto read = [](Half& half) {
    std::array<std::byte, 8> room;
    BOOST_TEST(half.stream->receive(room).bytes == 5U);
  };
  using shm::RingEnd;
  BOOST_TEST((end_of(read) == RingEnd::kFinished));
  BOOST_TEST((end_of([](Half&) {}) == RingEnd::kReset));  // unread input, as with a socket
  BOOST_TEST((end_of([](Half& half) { half.stream->shutdown_write(); }) == RingEnd::kFinished));
  BOOST_TEST((end_of([&](Half& half) {
                read(half);
                half.stream->abort_on_close();
              }) == RingEnd::kReset));
  BOOST_TEST((end_of([](Half& half) { ByteStream::end_gently(std::move(half.stream)); }) ==
              RingEnd::kFinished));
}

// Its program may not have posted a receive yet (docs/adr/0042).
BOOST_AUTO_TEST_CASE(peer_that_makes_no_room_is_waited_for) {
  Half half;
  Listener listener(*half.stream);
  begin(listener);
  const Bytes block = pattern(1 << 20);
  const iwarp::IoSpan span{block.data(), block.size()};
  const auto send = [&](RingStream& stream) { return stream.send(std::span(&span, 1), 0); };
  while (listener.locked(send).kind == IoResult::kDone) {
  }
  listener.locked([](RingStream& stream) { stream.set_events(EPOLLIN | EPOLLOUT); });
  std::this_thread::sleep_for(10ms);
  BOOST_TEST((listener.seen & EPOLLERR) == 0U);
  half.theirs = shm::Rings();  // the peer dies
  BOOST_TEST(eventually([&] { return listener.locked(send).kind == IoResult::kEnd; }));
  stop(half, listener);
}

BOOST_AUTO_TEST_CASE(inconsistent_peer_breaks_the_stream) {
  Half half;
  shm::RingWriter writer = half.theirs.writer();
  for (int i = 0; i < 3; ++i)
    BOOST_TEST(writer.write(pattern(shm::Layout::kPorchSize)).bytes == shm::Layout::kPorchSize);
  // An invalid window, not a power of two, in the rings' page.
  half.theirs.written().window.store(3);
  std::array<std::byte, shm::Layout::kPorchSize + 8> room;
  BOOST_TEST(is(half.stream->receive(room), IoResult::kBroken, EPROTO));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
