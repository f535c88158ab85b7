// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The connection manager on one host: which path a connection takes, and that the path is invisible
// to the consumer.
#include "providers/soft/io/ring_stream.h"
#include "providers/soft/shm/offer.h"
#include "tests/unit/soft_io/cm_fixture.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>

namespace udapl::soft::test {
namespace {

Settings with(Settings::Path path) {
  Settings settings;
  settings.path = path;
  return settings;
}

bool over_rings(FakeQp& qp) { return dynamic_cast<RingStream*>(&qp.stream()) != nullptr; }

// Connection managers of the other kinds, beside the fixture's, which is "auto".
struct Paths : CmFixture {
  // Connects, and returns whether both sides have rings.
  bool connected_by_rings(TcpConnector& from, TcpConnector& to, const Bytes& question,
                          const Bytes& answer) {
    Desk desk;
    auto listener = to.listen({0, nullptr}, desk);
    BOOST_REQUIRE(listener.ok());
    FakeQp active;
    FakeQp passive;
    BOOST_REQUIRE(active.start(from, request((*listener)->conn_qual(), question)).ok());
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    BOOST_TEST((question == incoming->private_data()));
    BOOST_REQUIRE(incoming->accept(passive, answer).ok());
    BOOST_REQUIRE(eventually([&] { return active.attached(); }));
    BOOST_TEST((active.data() == answer));
    BOOST_TEST(over_rings(active) == over_rings(passive));
    BOOST_TEST(active.agreed().crc != over_rings(active));
    BOOST_TEST(passive.agreed().crc != over_rings(active));
    BOOST_TEST((active.agreed().rtr == iwarp::kRtrRead));
    return over_rings(active);
  }

  TcpConnector tcp{*reactor, ipv4("127.0.0.1"), with(Settings::Path::kTcp)};
  TcpConnector shm{*reactor, ipv4("127.0.0.1"), with(Settings::Path::kShm)};
};

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

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cm_rings, Paths)

BOOST_AUTO_TEST_CASE(the_path_is_what_both_sides_can) {
  const Bytes question = pattern(100, 1);
  const Bytes answer = pattern(200, 2);
  BOOST_TEST(connected_by_rings(cm, cm, question, answer));
  BOOST_TEST(connected_by_rings(shm, cm, question, answer));
  BOOST_TEST(connected_by_rings(cm, shm, question, answer));
  BOOST_TEST(!connected_by_rings(tcp, cm, question, answer));
  BOOST_TEST(!connected_by_rings(cm, tcp, question, answer));
}

BOOST_AUTO_TEST_CASE(private_data_of_every_size_is_the_consumers) {
  const std::size_t most = 508 - shm::kTokenSize;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, most - 1, most})
    BOOST_TEST(connected_by_rings(cm, cm, pattern(size, 1), pattern(508 - size, 2)));
  BOOST_TEST(!connected_by_rings(cm, cm, pattern(most + 1, 1), {}));
  BOOST_TEST(!connected_by_rings(cm, cm, pattern(508, 1), {}));
}

BOOST_AUTO_TEST_CASE(path_shm_is_that_or_nothing) {
  Desk desk;
  const auto listener = listen(desk);
  auto strict = shm.listen({0, nullptr}, desk);
  auto plain = tcp.listen({0, nullptr}, desk);
  BOOST_REQUIRE(strict.ok() && plain.ok());
  FakeQp active;
  BOOST_REQUIRE(active.start(shm, request((*plain)->conn_qual())).ok());
  BOOST_TEST(outcome(active) == SetupFailure::kUnreachable);
  FakeQp crowded;
  BOOST_REQUIRE(crowded.start(shm, request(listener->conn_qual(), pattern(508))).ok());
  BOOST_TEST(outcome(crowded) == SetupFailure::kUnreachable);
  RawSocket peer;
  BOOST_REQUIRE(peer.connect((*strict)->address()));
  peer.send(encoded(good_request()));
  BOOST_TEST(peer.closed());
  BOOST_TEST(desk.count() == 0);
}

// The bit for rings is a reserved one of the protocol. Data that has the form of a token is removed
// from the private data even if the token is unknown.
BOOST_AUTO_TEST_CASE(unknown_token_is_cut_from_private_data) {
  for (TcpConnector* const at : {&cm, &tcp}) {
    Desk desk;
    auto listener = at->listen({0, nullptr}, desk);
    BOOST_REQUIRE(listener.ok());
    Bytes data = pattern(10);
    const Bytes own = data;
    const char mark[] = "udaplshm0123456789abcdef";
    for (const char letter : std::span(mark).first(shm::kTokenSize))
      data.push_back(static_cast<std::byte>(letter));
    iwarp::MpaFrame frame = good_request(data);
    frame.rings = true;
    RawSocket peer;
    BOOST_REQUIRE(peer.connect((*listener)->address()));
    peer.send(encoded(frame));
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    BOOST_TEST((own == incoming->private_data()));
    FakeQp passive;
    BOOST_REQUIRE(incoming->accept(passive, {}).ok());
    const Bytes reply = peer.receive(24);
    BOOST_TEST(!iwarp::decode_mpa(reply, iwarp::MpaKind::kReply).frame.rings);
    BOOST_TEST(!over_rings(passive));
  }
}

BOOST_AUTO_TEST_CASE(reserved_bit_of_a_strange_peer_is_ignored) {
  Desk desk;
  const auto listener = listen(desk);
  for (const std::size_t size : {0, 10, 40}) {
    iwarp::MpaFrame frame = good_request();
    const Bytes data = pattern(size);
    frame.private_data = data;
    frame.rings = true;
    RawSocket peer;
    BOOST_REQUIRE(peer.connect(listener->address()));
    peer.send(encoded(frame));
    const auto incoming = desk.next();
    BOOST_REQUIRE(incoming != nullptr);
    BOOST_TEST((data == incoming->private_data()));
  }
}

BOOST_AUTO_TEST_CASE(second_qp_gets_the_rings_when_the_first_refuses) {
  Desk desk;
  const auto listener = listen(desk);
  FakeQp active;
  FakeQp unwilling;
  FakeQp willing;
  unwilling.refuse_stream = true;
  start(active, request(listener->conn_qual()));
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  BOOST_TEST(!incoming->accept(unwilling, {}).ok());
  BOOST_REQUIRE(incoming->accept(willing, {}).ok());
  BOOST_REQUIRE(eventually([&] { return active.attached(); }));
  BOOST_TEST(over_rings(willing));
  const Bytes sent = pattern(1000);
  const iwarp::IoSpan span{sent.data(), sent.size()};
  BOOST_TEST(active.stream().send(std::span(&span, 1), 0).bytes == sent.size());
  Bytes got(2000);
  BOOST_TEST(willing.stream().receive(got).bytes == sent.size());
}

BOOST_AUTO_TEST_CASE(rejection_arrives) {
  Desk desk;
  const auto listener = listen(desk);
  FakeQp active;
  start(active, request(listener->conn_qual(), pattern(3)));
  const auto incoming = desk.next();
  BOOST_REQUIRE(incoming != nullptr);
  incoming->reject(pattern(7));
  BOOST_TEST(outcome(active) == SetupFailure::kRejected);
  BOOST_TEST((active.data() == pattern(7)));
}

// The number of resident pages of the shared memory.
long pages_taken(const Half& half) {
  const auto page =
      reinterpret_cast<std::uintptr_t>(&half.theirs.written()) & ~(shm::Layout::kPage - 1);
  std::vector<unsigned char> resident(shm::Layout::kSize / shm::Layout::kPage);
  BOOST_REQUIRE_EQUAL(::mincore(reinterpret_cast<void*>(page), shm::Layout::kSize, resident.data()),
                      0);
  BOOST_TEST(resident.front() == 1);
  return std::ssize(resident) - std::ranges::count(resident, 0);
}

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
