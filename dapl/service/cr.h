// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "dapl/objects/object.h"
#include "dapl/transport/adapter.h"

#include <array>
#include <atomic>
#include <cstddef>

namespace udapl::dapl {

class Ep;

// The EP that comes with a connection request, if any.
struct OwnEp {
  Ep* ep = nullptr;
  bool made_by_provider = false;  // otherwise the consumer has reserved it by an RSP
};

// A connection request: a peer that waits until the consumer accepts, rejects or hands off. The
// service point at which it arrived may have been freed meanwhile.
//
// Thread safety: one thread at a time decides (claim); reads need no lock. Owned by an Ia until it
// is decided. Destroying it before that refuses the peer.
class Cr : public ObjectHeader {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_CR;
  static constexpr std::size_t kRoom = 512;  // no transport's request has more private data

  // `ends`: those that the consumer sees.
  Cr(Ia& owner, std::unique_ptr<transport::IncomingConnection> request,
     const transport::Endpoints& ends, OwnEp own) noexcept;
  ~Cr();
  Cr(const Cr&) = delete;
  Cr& operator=(const Cr&) = delete;

  [[nodiscard]] const OwnEp& own_ep() const noexcept { return own_; }
  [[nodiscard]] transport::Endpoints& endpoints() noexcept { return endpoints_; }
  // Zeros follow up to kRoom bytes, because programs read a structure or a string there without
  // checking the size (docs/compatibility.md C138).
  [[nodiscard]] transport::PrivateData private_data() const noexcept {
    return {private_data_.data(), private_data_size_};
  }

  // Acquires the right to decide. False: another thread is deciding or has decided.
  [[nodiscard]] bool claim() noexcept {
    return !claimed_.exchange(true, std::memory_order_acquire);
  }
  void release_claim() noexcept { claimed_.store(false, std::memory_order_release); }
  // The request. REQUIRES: claimed.
  [[nodiscard]] std::unique_ptr<transport::IncomingConnection>& request() noexcept {
    return request_;
  }

 private:
  std::unique_ptr<transport::IncomingConnection> request_;
  transport::Endpoints endpoints_;
  std::array<std::byte, kRoom> private_data_{};
  std::size_t private_data_size_;
  const OwnEp own_;
  std::atomic<bool> claimed_{false};
};

// Rejects the request `handle`, without private data, because the consumer can no longer dequeue
// its event; releases its EP. No effect if the handle is not a CR, or another thread decides about
// it. REQUIRES: no lock held.
void reject_lost(DAT_CR_HANDLE handle) noexcept;

}  // namespace udapl::dapl
