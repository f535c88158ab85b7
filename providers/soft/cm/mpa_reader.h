// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/soft/io/tcp_stream.h"
#include "providers/soft/iwarp/mpa_frame.h"

#include <array>
#include <cstddef>
#include <span>

namespace udapl::soft {

// Collects one MPA start-up frame, which may arrive in any number of pieces, from a socket.
// Consumes no byte behind the frame. Not thread-safe. A member of a handshake.
class MpaReader {
 public:
  enum class Progress : std::uint8_t {
    kMore,   // wait until the socket is readable again
    kFrame,  // frame() is complete and valid
    kBad,    // not an acceptable frame: why() says what is wrong
    kEnded,  // the peer closed before the frame was complete
    kBroken  // error() returns the socket's error
  };

  explicit MpaReader(iwarp::MpaKind expected) noexcept : expected_(expected) {}

  Progress read(TcpStream& stream) noexcept {
    while (true) {
      const iwarp::MpaDecode decode = iwarp::decode_mpa(bytes(), expected_);
      why_ = decode.error;
      if (decode.error == iwarp::MpaError::kNone) return nothing_behind(stream);
      if (decode.error != iwarp::MpaError::kIncomplete) return Progress::kBad;
      const IoResult got = stream.receive(std::span(storage_).subspan(size_, decode.size - size_));
      if (got.kind != IoResult::kDone) return stopped(got);
      size_ += got.bytes;
    }
  }

  // The private data of the frame points into this object.
  [[nodiscard]] iwarp::MpaFrame frame() const noexcept {
    return iwarp::decode_mpa(bytes(), expected_).frame;
  }
  [[nodiscard]] iwarp::MpaError why() const noexcept { return why_; }
  [[nodiscard]] int error() const noexcept { return error_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  void clear() noexcept { size_ = 0; }

 private:
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::span(storage_).first(size_);
  }

  Progress stopped(const IoResult& got) noexcept {
    error_ = got.error;
    if (got.kind == IoResult::kBlocked) return Progress::kMore;
    return got.kind == IoResult::kEnd ? Progress::kEnded : Progress::kBroken;
  }

  // Neither side may send anything after its frame before the other side has answered (RFC 5044
  // §7.1.3).
  Progress nothing_behind(TcpStream& stream) noexcept {
    std::byte next;
    if (stream.peek(std::span(&next, 1)).kind != IoResult::kDone) return Progress::kFrame;
    why_ = iwarp::MpaError::kExtraBytes;
    return Progress::kBad;
  }

  iwarp::MpaKind expected_;
  iwarp::MpaError why_ = iwarp::MpaError::kIncomplete;
  int error_ = 0;
  std::size_t size_ = 0;
  std::array<std::byte, iwarp::kMpaMaxFrameSize> storage_;
};

}  // namespace udapl::soft
