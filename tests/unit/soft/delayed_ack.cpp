// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Delayed acknowledgement: a Send or Write completes only after the peer has placed its data
// (docs/adr/0013).
#include "providers/soft/iwarp/sender.h"
#include "tests/unit/soft/support.h"

#include <algorithm>

namespace udapl::soft::test {
namespace {

constexpr Side::Options delayed(int reads = 4) {
  Side::Options options;
  options.delayed_ack = true;
  options.read_out = reads;
  return options;
}

struct Fixture : Pair {
  explicit Fixture(const Side::Options& a_options = delayed(), const Side::Options& b_options = {})
      : Pair(a_options, b_options) {}

  std::vector<std::byte> near = pattern(256 * 1024, 3);
  std::vector<std::byte> far = pattern(256 * 1024, 4);
  std::unique_ptr<Mr> near_mr = a.reg(near);
  std::unique_ptr<Mr> far_mr = b.reg(far);

  DAT_RETURN send(WorkId id, std::size_t length, WorkFlags flags = kSignalled) {
    const auto segment = local(*near_mr, near.data(), length);
    return a.qp->post_send(id, &segment, 1, flags);
  }
  DAT_RETURN receive(WorkId id, std::size_t length) {
    const auto segment = local(*far_mr, far.data(), length);
    return b.qp->post_recv(id, &segment, 1, kSignalled);
  }
  DAT_RETURN write(WorkId id, std::size_t length, WorkFlags flags = kSignalled) {
    const auto segment = local(*near_mr, near.data(), length);
    return a.qp->post_rdma_write(id, &segment, 1, remote(*far_mr, far), flags);
  }
  DAT_RETURN read(WorkId id, std::size_t length) {
    const auto segment = local(*near_mr, near.data() + near.size() / 2, length);
    return a.qp->post_rdma_read(id, &segment, 1, remote(far_mr->rmr_context(), far.data(), length),
                                kSignalled);
  }
};

// A QP that posts, and a peer that answers only when the test calls answer().
struct Slow {
  explicit Slow(const Side::Options& options = delayed()) : side(options) {
    auto [active, passive] = tcp_pair();
    BOOST_REQUIRE(::send(passive.get(), kReply.data(), kReply.size(), 0) ==
                  static_cast<ssize_t>(kReply.size()));
    BOOST_REQUIRE(side.qp->connect({}).ok());
    attach_initiator(side, std::move(active), negotiated(true, iwarp::kRtrNone));
    peer = std::move(passive);
  }
  DAT_RETURN write(WorkId id) {
    const auto segment = local(*mr, bytes);
    return side.qp->post_rdma_write(id, &segment, 1, remote(1, bytes.data(), bytes.size()),
                                    kSignalled);
  }
  // Answers the zero-length Read with which the QP asks whether everything has been placed.
  void answer() {
    sender.begin_read_response(1, 0, {}, 0);
    BOOST_REQUIRE(sender.fill(batch) == iwarp::Sender::Fill::kDone);
    for (const iwarp::IoSpan& span : batch.spans())
      BOOST_REQUIRE(::send(peer.get(), span.data, span.size, 0) == static_cast<ssize_t>(span.size));
    batch.consume(batch.pending_bytes());
  }
  [[nodiscard]] bool completes() {
    for (int i = 0; i < 100; ++i) {
      side.reactor->progress();
      std::this_thread::sleep_for(200us);
      if (side.request_cq->size() != 0) return true;
    }
    return false;
  }
  [[nodiscard]] Completion next() {
    Completion c{};
    BOOST_REQUIRE(eventually([&] { return side.request_cq->poll(&c, 1) == 1; }, {&side}));
    return c;
  }

  Side side;
  Fd peer;
  iwarp::Sender sender{iwarp::SenderConfig{}};
  iwarp::TxBatch batch{256, 65536};
  std::vector<std::byte> bytes = pattern(64);
  std::unique_ptr<Mr> mr = side.reg(bytes);
};
struct SlowAtOnce : Slow {
  SlowAtOnce() : Slow(at_once()) {}
  static Side::Options at_once() {
    Side::Options options;
    options.confirms_writes = false;
    return options;
  }
};

struct FewReads : Fixture {
  FewReads() : Fixture(delayed(1)) {}
};
struct NoReads : Fixture {
  NoReads() : Fixture(delayed(0)) {}
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(delayed_ack, Fixture)

BOOST_FIXTURE_TEST_CASE(without_it_tcp_decides, SlowAtOnce) {
  REQUIRE_OK(write(1));
  BOOST_TEST(completes());
}

BOOST_FIXTURE_TEST_CASE(completions_wait_for_the_peers_answer, Slow) {
  REQUIRE_OK(write(1));
  BOOST_TEST(!completes());
  REQUIRE_OK(write(2));  // after the first zero-length Read
  answer();
  Completion c = next();
  BOOST_TEST(c.id == 1U);
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  BOOST_TEST(!completes());
  answer();
  c = next();
  BOOST_TEST(c.id == 2U);
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
}

BOOST_FIXTURE_TEST_CASE(unacknowledged_data_is_no_success, Slow) {
  REQUIRE_OK(write(1));
  BOOST_TEST(!completes());
  const linger now{1, 0};
  ::setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  peer.reset();
  BOOST_TEST(next().status == DAT_DTO_ERR_TRANSPORT);
}

// An unsolicited answer ends the connection.
BOOST_FIXTURE_TEST_CASE(an_answer_too_many, Slow) {
  REQUIRE_OK(write(1));
  answer();
  BOOST_TEST(next().status == DAT_DTO_SUCCESS);
  answer();
  BOOST_REQUIRE(eventually([&] { return side.sink.ended(); }, {&side}));
  BOOST_TEST((side.sink.reason == transport::BreakReason::kProtocol));
}

BOOST_AUTO_TEST_CASE(a_send_completes_behind_its_receive) {
  REQUIRE_OK(receive(7, 100));
  REQUIRE_OK(send(1, 100));
  const Completion c = next(*a.request_cq);
  BOOST_TEST(c.id == 1U);
  BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  // The peer's own completion is already queued.
  Completion received{};
  BOOST_REQUIRE(b.recv_cq->poll(&received, 1) == 1);
  BOOST_TEST(received.id == 7U);
  BOOST_TEST(std::equal(near.begin(), near.begin() + 100, far.begin()));
}

BOOST_AUTO_TEST_CASE(every_success_is_placed) {
  // Each Write fills the area with another byte, which must be there when the Write completes.
  for (unsigned round = 1; round <= 50; ++round) {
    const auto byte = static_cast<std::byte>(round);
    std::fill(near.begin(), near.end(), byte);
    REQUIRE_OK(write(round, near.size()));
    BOOST_REQUIRE(next(*a.request_cq).id == round);
    BOOST_REQUIRE(std::ranges::all_of(far, [byte](std::byte placed) { return placed == byte; }));
  }
}

BOOST_AUTO_TEST_CASE(completions_keep_their_order_among_reads) {
  for (WorkId id = 100; id < 110; ++id) REQUIRE_OK(receive(id, 64));
  std::vector<WorkId> posted;
  for (WorkId id = 1; id <= 40; ++id) {
    if (id % 4 == 0)
      REQUIRE_OK(send(id, 64));
    else if (id % 4 == 1)
      REQUIRE_OK(read(id, 1000));
    else
      REQUIRE_OK(write(id, 2000));
    posted.push_back(id);
  }
  for (const WorkId id : posted) {
    const Completion c = next(*a.request_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  }
  BOOST_TEST(quiet(*a.request_cq));
}

BOOST_FIXTURE_TEST_CASE(one_read_credit_is_enough, FewReads) {
  for (WorkId id = 1; id <= 60; ++id) REQUIRE_OK(id % 3 == 0 ? read(id, 500) : write(id, 500));
  for (WorkId id = 1; id <= 60; ++id) BOOST_TEST(next(*a.request_cq).id == id);
}

// max_rdma_read_out == 0 limits the application's Reads only.
BOOST_FIXTURE_TEST_CASE(no_reads_of_its_own_are_needed, NoReads) {
  REQUIRE_OK(write(1, 64));
  BOOST_TEST(next(*a.request_cq).status == DAT_DTO_SUCCESS);
  BOOST_TEST(std::equal(near.begin(), near.begin() + 64, far.begin()));
}

BOOST_AUTO_TEST_CASE(suppressed_ones_free_their_place) {
  for (int round = 0; round < 10; ++round) {
    for (int i = 1; i < a.options.max_request; ++i) REQUIRE_OK(write(1, 8, 0));
    REQUIRE_OK(write(2, 8));
    BOOST_REQUIRE(next(*a.request_cq).id == 2U);
  }
}

BOOST_AUTO_TEST_CASE(a_refused_write_never_succeeds) {
  const auto segment = local(*near_mr, near.data(), 64);
  REQUIRE_OK(a.qp->post_rdma_write(1, &segment, 1, remote(0xBAD, far.data(), 64), kSignalled));
  REQUIRE_OK(write(2, 64));
  const Completion first = next(*a.request_cq);
  BOOST_TEST(first.id == 1U);
  BOOST_TEST(first.status == DAT_DTO_ERR_REMOTE_ACCESS);
  const Completion second = next(*a.request_cq);
  BOOST_TEST(second.id == 2U);
  BOOST_TEST(second.status == DAT_DTO_ERR_FLUSHED);
}

// The peer names the Send that it refuses; those before it have arrived.
BOOST_AUTO_TEST_CASE(the_refused_one_of_several_sends_fails) {
  for (const WorkId id : {1, 2, 3}) REQUIRE_OK(receive(id, id == 3 ? 10 : 64));
  for (const WorkId id : {1, 2, 3, 4}) REQUIRE_OK(send(id, 64));
  for (const WorkId id : {1, 2}) {
    const Completion placed = next(*a.request_cq);
    BOOST_TEST(placed.id == id);
    BOOST_TEST(placed.status == DAT_DTO_SUCCESS);
  }
  BOOST_TEST(next(*a.request_cq).status == DAT_DTO_ERR_REMOTE_RESPONDER);
  BOOST_TEST(next(*a.request_cq).status == DAT_DTO_ERR_FLUSHED);
}

BOOST_AUTO_TEST_CASE(a_send_that_finds_no_receive_waits) {
  REQUIRE_OK(send(1, 64));
  BOOST_TEST(quiet(*a.request_cq));
  REQUIRE_OK(receive(2, 64));
  BOOST_TEST(next(*a.request_cq).status == DAT_DTO_SUCCESS);
  BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_SUCCESS);
}

struct StrictFixture : Fixture {
  StrictFixture() : Fixture(delayed(), {.no_receive_limit = Clock::duration::zero()}) {}
};

BOOST_FIXTURE_TEST_CASE(a_send_that_finds_no_receive_never_succeeds, StrictFixture) {
  REQUIRE_OK(send(1, 64));
  BOOST_TEST(next(*a.request_cq).status == DAT_DTO_ERR_RECEIVER_NOT_READY);
}

BOOST_AUTO_TEST_CASE(a_graceful_disconnect_waits_for_the_placement) {
  for (WorkId id = 1; id <= 20; ++id) REQUIRE_OK(write(id, 5000));
  a.qp->disconnect(transport::DisconnectMode::kGraceful);
  for (WorkId id = 1; id <= 20; ++id) {
    const Completion c = next(*a.request_cq);
    BOOST_TEST(c.id == id);
    BOOST_TEST(c.status == DAT_DTO_SUCCESS);
  }
  BOOST_REQUIRE(wait([&] { return a.sink.ended() && b.sink.ended(); }));
  BOOST_TEST(a.sink.calls() == "established disconnected");
  BOOST_TEST(b.sink.calls() == "established disconnected");
}

BOOST_FIXTURE_TEST_CASE(binds_do_not_wait, Slow) {
  auto window = side.memory.create_window(side.pd.id(), transport::WindowScope::kPd);
  BOOST_REQUIRE(window.ok());
  Window rmr(side.memory, *window);
  DAT_RMR_CONTEXT context = 0;
  const transport::BindRequest bind{&rmr, mr.get(), local(*mr, bytes),
                                    DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA};
  REQUIRE_OK(side.qp->post_bind(1, bind, kSignalled, &context));
  BOOST_TEST(completes());
}

// A connection that could not keep the promise is refused.
BOOST_AUTO_TEST_CASE(a_peer_without_reads_is_refused) {
  Side promising(delayed());
  auto [active, passive] = tcp_pair();
  BOOST_REQUIRE(::send(passive.get(), kReply.data(), kReply.size(), 0) ==
                static_cast<ssize_t>(kReply.size()));
  BOOST_REQUIRE(promising.qp->connect({}).ok());
  read_reply(active.get());
  std::unique_ptr<ByteStream> stream =
      std::make_unique<TcpStream>(*promising.reactor, std::move(active), transport::Endpoints{});
  const Status status = promising.qp->attach(stream, negotiated(true, iwarp::kRtrWrite, 4, 0));
  BOOST_TEST(status.type() == static_cast<DAT_RETURN>(DAT_MODEL_NOT_SUPPORTED));
  BOOST_REQUIRE(eventually([&] { return !promising.sink.calls().empty(); }, {&promising}));
  BOOST_TEST(promising.sink.calls() == "refused");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
