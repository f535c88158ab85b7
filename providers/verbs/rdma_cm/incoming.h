// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <rdma/rdma_cma.h>

#include "dapl/transport/cm.h"
#include "providers/verbs/rdma_cm/connection.h"

#include <array>
#include <cstddef>
#include <memory>

namespace udapl::verbs {

class Adapter;

// A connection request that waits for the consumer's decision. Thread-safe as long as one thread
// decides. Owned by the listener, then by a CR.
class RdmaIncoming final : public transport::IncomingConnection {
 public:
  // Takes over the id of an RDMA_CM_EVENT_CONNECT_REQUEST while the event is handled. On
  // INSUFFICIENT_RESOURCES the caller keeps the id.
  static Result<std::unique_ptr<RdmaIncoming>> create(Adapter& adapter, RdmaConnector& connector,
                                                      const rdma_cm_event& event);
  explicit RdmaIncoming(Adapter& adapter) noexcept : adapter_(adapter) {}
  ~RdmaIncoming() override;
  RdmaIncoming(const RdmaIncoming&) = delete;
  RdmaIncoming& operator=(const RdmaIncoming&) = delete;

  [[nodiscard]] transport::PrivateData private_data() const noexcept override {
    return {data_.data(), data_size_};
  }
  [[nodiscard]] const transport::Endpoints& endpoints() const noexcept override {
    return endpoints_;
  }
  [[nodiscard]] int peer_rdma_read_in() const noexcept override { return read_in_; }
  [[nodiscard]] int peer_rdma_read_out() const noexcept override { return read_out_; }

  Status accept(transport::Qp& qp, transport::PrivateData private_data) override;
  void reject(transport::PrivateData private_data) noexcept override;

 private:
  Adapter& adapter_;
  std::unique_ptr<RdmaConnection> connection_;  // null once decided
  std::array<std::byte, 255> data_;
  std::size_t data_size_ = 0;
  transport::Endpoints endpoints_;
  int read_in_ = -1;
  int read_out_ = -1;
};

}  // namespace udapl::verbs
