// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/mutex.h"
#include "dapl/transport/qp.h"
#include "providers/soft/mr_table.h"

#include <memory>

namespace udapl::soft {

class Cq;
class Qp;
class Reactor;
class Srq;
class TcpStream;
struct Negotiated;

// A connection set-up in progress, active or accepted. Implemented by cm, owned by the Qp, which
// destroys it when the set-up has ended (inside attach() and setup_failed()) or to abort it. The
// destructor closes the connection, never calls the Qp, and makes sure that no call to the Qp runs
// in another thread or starts afterwards. The Qp holds no lock meanwhile.
class Handshake {
 public:
  virtual ~Handshake() = default;
  [[nodiscard]] virtual transport::Endpoints endpoints() const noexcept = 0;
};

// Where a Qp gets its active handshakes from: the adapter's connection manager.
class Connector {
 public:
  // Starts connecting; calls attach() or setup_failed() later, from the driver, never from in here.
  // Errors as transport::Qp::connect.
  virtual Result<std::unique_ptr<Handshake>> connect(Qp& qp,
                                                     const transport::ConnectRequest& request) = 0;

 protected:
  ~Connector() = default;
};

// The parts of an adapter that a Qp works with. They outlive it.
struct QpEnvironment {
  Reactor& reactor;
  MrTable& memory;
  Connector& connector;
};

enum class SetupFailure { kRejected, kRefused, kUnreachable, kTimedOut, kAcceptFailed };

// One end of an iWARP connection: send queue, receive queue, and the epoll handler of the socket
// once it is attached. One lock protects all of it; sinks are called by the reactor's driver after
// that lock was released. Thread-safe. Owned by an Ep.
class Qp final : public transport::Qp {
 public:
  // Allocates everything that posting and transferring need. Throws std::bad_alloc.
  Qp(const QpEnvironment& environment, const transport::QpInit& init);
  ~Qp() override;
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  // ---- transport::Qp ---------------------------------------------------------------------------
  DAT_RETURN post_recv(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                       transport::WorkFlags) noexcept override;
  DAT_RETURN post_send(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                       transport::WorkFlags) noexcept override;
  DAT_RETURN post_send_invalidate(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                  DAT_RMR_CONTEXT, transport::WorkFlags) noexcept override;
  DAT_RETURN post_rdma_write(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                             const DAT_RMR_TRIPLET& remote, transport::WorkFlags) noexcept override;
  DAT_RETURN post_rdma_read(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                            const DAT_RMR_TRIPLET& remote, transport::WorkFlags) noexcept override;
  DAT_RETURN post_rdma_read_to_rmr(transport::WorkId, const DAT_RMR_TRIPLET& sink,
                                   const DAT_RMR_TRIPLET& remote,
                                   transport::WorkFlags) noexcept override;
  DAT_RETURN post_bind(transport::WorkId, const transport::BindRequest&, transport::WorkFlags,
                       DAT_RMR_CONTEXT* context) noexcept override;
  DAT_RETURN post_write_immediate(transport::WorkId, const DAT_LMR_TRIPLET*, DAT_COUNT,
                                  const DAT_RMR_TRIPLET& remote, std::uint32_t immediate,
                                  transport::WorkFlags) noexcept override;
  DAT_RETURN post_fetch_add(transport::WorkId, const DAT_LMR_TRIPLET& local,
                            const DAT_RMR_TRIPLET& remote, std::uint64_t add,
                            transport::WorkFlags) noexcept override;
  DAT_RETURN post_compare_swap(transport::WorkId, const DAT_LMR_TRIPLET& local,
                               const DAT_RMR_TRIPLET& remote, std::uint64_t compare,
                               std::uint64_t swap, transport::WorkFlags) noexcept override;
  Status modify(const transport::QpInit& init) override;
  Status connect(const transport::ConnectRequest& request) override;
  void disconnect(transport::DisconnectMode mode) noexcept override;
  Status reset() override;
  [[nodiscard]] transport::Endpoints endpoints() const noexcept override;
  void set_watermarks(int soft, int hard) noexcept override;
  [[nodiscard]] transport::ReceiveCounts receive_counts() const noexcept override;

  // ---- for cm ----------------------------------------------------------------------------------
  // idle -> connecting, the passive side: `handshake` sends the Reply. INVALID_STATE (the handshake
  // is given back untouched) when not idle.
  Status begin_accept(std::unique_ptr<Handshake>& handshake) noexcept;
  // The depths to offer in the MPA frames.
  [[nodiscard]] int max_rdma_read_in() const noexcept;
  [[nodiscard]] int max_rdma_read_out() const noexcept;

  // MPA start-up is over, on the passive side as soon as the Reply has been handed to TCP. The Qp
  // becomes the epoll handler of the socket; `stream` has none at that time. Destroys the
  // handshake. Does nothing but dropping `stream` when the Qp was disconnected meanwhile. From the
  // driver, without locks; may call the sink.
  void attach(std::unique_ptr<TcpStream> stream, const Negotiated& negotiated) noexcept;
  // The set-up failed: flushes, tells the sink. Destroys the handshake. From the driver, without
  // locks.
  void setup_failed(SetupFailure why, transport::PrivateData from_peer) noexcept;
};

}  // namespace udapl::soft
