// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/transport/qp.h"
#include "tests/fake_transport/queues.h"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace udapl::fake {

class Qp;

// A connection that is being set up: what its two sides know of each other. Under world().
struct Handshake {
  Qp* active;  // null: the active side gave up
  transport::Endpoints active_ends;
  int read_in;
  int read_out;
  std::vector<std::byte> request_data;
};

// A posted request.
struct Work {
  enum class Kind { kSend, kWrite, kRead, kReadToRmr, kBind, kFetchAdd, kCompareSwap };
  Kind kind;
  DAT_DTOS operation;
  transport::WorkId id;
  transport::WorkFlags flags;
  std::vector<DAT_LMR_TRIPLET> local;
  DAT_RMR_TRIPLET remote{};
  DAT_RMR_TRIPLET sink{};              // read to RMR
  bool invalidate = false;             // send
  DAT_RMR_CONTEXT invalidated = 0;     // send
  bool has_immediate = false;          // write
  std::uint32_t immediate = 0;         // write
  std::uint64_t operands[2] = {0, 0};  // atomics
  transport::BindRequest bind{};
};

// One end of a connection inside the process. Requests are executed when they are posted, unless
// the QP is held; calls of sinks are deferred to the Scheduler.
class Qp final : public transport::Qp {
 public:
  enum class State { kIdle, kConnecting, kReady, kDraining, kError };

  Qp(const transport::QpInit& init, int max_private_data);
  ~Qp() override;

  DAT_RETURN post_recv(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                       transport::WorkFlags) noexcept override;
  DAT_RETURN post_send(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                       transport::WorkFlags) noexcept override;
  DAT_RETURN post_send_invalidate(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                  DAT_RMR_CONTEXT, transport::WorkFlags) noexcept override;
  DAT_RETURN post_rdma_write(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                             const DAT_RMR_TRIPLET&, transport::WorkFlags) noexcept override;
  DAT_RETURN post_rdma_read(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                            const DAT_RMR_TRIPLET&, transport::WorkFlags) noexcept override;
  DAT_RETURN post_rdma_read_to_rmr(transport::WorkId, const DAT_RMR_TRIPLET&,
                                   const DAT_RMR_TRIPLET&, transport::WorkFlags) noexcept override;
  DAT_RETURN post_bind(transport::WorkId, const transport::BindRequest&, transport::WorkFlags,
                       DAT_RMR_CONTEXT* context) noexcept override;
  DAT_RETURN post_write_immediate(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                  const DAT_RMR_TRIPLET&, std::uint32_t,
                                  transport::WorkFlags) noexcept override;
  DAT_RETURN post_fetch_add(transport::WorkId, const DAT_LMR_TRIPLET&, const DAT_RMR_TRIPLET&,
                            std::uint64_t, transport::WorkFlags) noexcept override;
  DAT_RETURN post_compare_swap(transport::WorkId, const DAT_LMR_TRIPLET&, const DAT_RMR_TRIPLET&,
                               std::uint64_t, std::uint64_t,
                               transport::WorkFlags) noexcept override;
  void complete_requests() noexcept override {
    if (completes_if_asked) hold(false);
  }
  bool await_answer(Backoff& backoff) noexcept override {
    if (answers_after == 0) return false;
    backoff.wait();
    if (--answers_after == 0) hold(false);
    return true;
  }

  Status modify(const transport::QpInit& init) override;
  Status connect(const transport::ConnectRequest& request) override;
  void disconnect(transport::DisconnectMode mode) noexcept override;
  Status reset() override;
  [[nodiscard]] bool flushing() const noexcept override;
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override;
  void set_watermarks(int soft, int hard) noexcept override;
  [[nodiscard]] transport::ReceiveCounts receive_counts() const noexcept override;

  // ---- for tests; calls of sinks are deferred
  // The latest QP that was created with this context (the core's Ep); null: none exists.
  static Qp* of(const void* context);
  [[nodiscard]] State state() const;
  [[nodiscard]] transport::QpInit init() const;
  // The core's count of the receives that it has posted to this QP.
  [[nodiscard]] int receives_of_the_core() const;
  // The outcomes of connect and the ends of a connection, as if the network had caused them.
  void establish(transport::PrivateData from_peer = {});  // without a peer: requests succeed
  void reject(transport::PrivateData from_peer = {});
  void refuse();
  void unreachable();
  void time_out();
  void break_(transport::BreakCause cause);
  void async_error();
  // Held requests stay queued; hold(false) executes them.
  void hold(bool held);
  // Whether complete_requests() executes them.
  bool completes_if_asked = false;
  // How often await_answer() waits until it executes them. 0: there is nothing to wait for.
  int answers_after = 0;
  // Delivers a message as if a peer had sent it. Returns false if there was no buffer; then the
  // connection breaks.
  bool deliver(const void* data, std::size_t length, bool solicited = false);
  std::atomic<bool> refuse_posts{false};
  std::atomic<bool> refuse_connect{false};  // refuses accept, too
  std::atomic<bool> refuse_modify{false};
  std::function<void()> on_modify;  // called in modify()
  std::atomic<bool> refuse_reset{false};
  // How often its CQs must be polled after the end until the flush happens. Negative: it never
  // does.
  std::atomic<int> flush_delay{0};

  // ---- for the other classes, under world()
  void break_later_locked(transport::BreakReason why);
  void connected_locked(Qp* peer, std::vector<std::byte> data);
  void rejected_locked(std::vector<std::byte> data);
  void refused_locked();
  Status accept_locked(const std::shared_ptr<Handshake>& handshake, transport::PrivateData data);
  void accept_failed_locked();
  void polled_locked();

 private:
  using Report = void (*)(transport::ConnectionSink&);

  DAT_RETURN post(Work work, unsigned local_privilege) noexcept;
  void pump_locked();
  [[nodiscard]] DAT_DTO_COMPLETION_STATUS execute_locked(const Work& work);
  [[nodiscard]] DAT_DTO_COMPLETION_STATUS send_locked(const Work& work);
  [[nodiscard]] DAT_DTO_COMPLETION_STATUS rdma_locked(const Work& work);
  [[nodiscard]] DAT_DTO_COMPLETION_STATUS receive_locked(const std::vector<std::byte>& message,
                                                         const Work& work);
  [[nodiscard]] bool take_buffer_locked(Buffer* buffer);
  void complete_locked(const Work& work, DAT_DTO_COMPLETION_STATUS status);
  void complete_buffer_locked(const Buffer& buffer, DAT_DTO_COMPLETION_STATUS status,
                              std::uint32_t length, DAT_DTOS operation, bool solicited);
  void flush_locked();
  // Moves to kError and flushes; then calls the sink by `report`.
  void end_locked(Report report);
  void end_both_locked(Report mine, Report of_peer);
  void finish_drain_locked();
  void check_watermarks_locked();

  transport::QpInit init_;
  const int max_private_data_;
  State state_ = State::kIdle;
  Qp* peer_ = nullptr;
  bool loopback_ = false;  // established without a peer
  bool held_ = false;
  bool flushes_ = false;  // a delayed flush is pending
  std::shared_ptr<Handshake> handshake_;
  transport::Endpoints ends_;
  std::deque<Work> requests_;
  std::deque<Buffer> buffers_;
  int soft_ = -1;
  int hard_ = -1;
};

}  // namespace udapl::fake
