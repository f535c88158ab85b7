// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The transfers of a node. In each step the lower rank of a pair writes first, then the higher one.
// A message follows the writes; the peer answers it at once, which stops the clock, and again after
// comparing the data.
#include "layout.h"
#include "node.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <unistd.h>

#include <cstring>

namespace datmesh {

namespace {

enum Word : std::uint32_t { kWritten = 1, kArrived = 2, kRight = 3, kWrong = 4 };

struct TransferError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The byte at offset `at` of the data that `from` writes to `to`.
std::byte pattern(std::uint32_t from, std::uint32_t to, std::size_t at) {
  const std::uint64_t mixed =
      (std::uint64_t{from} << 40 ^ std::uint64_t{to} << 20 ^ at) * 0x9e3779b97f4a7c15;
  return static_cast<std::byte>(mixed >> 56);
}

}  // namespace

std::span<std::byte> Node::target(std::uint32_t peer) {
  return std::span(bytes_).subspan(Layout{options_.size, job_.size()}.target(peer), options_.size);
}

std::span<std::byte> Node::source() {
  return std::span(bytes_).subspan(Layout{options_.size, job_.size()}.source(), options_.size);
}

bool Node::next(std::uint32_t peer, std::uint32_t& slot) {
  const auto end = Clock::now() + std::chrono::seconds(options_.timeout_s);
  for (;;) {
    const auto left = std::chrono::duration_cast<dat::Duration>(end - Clock::now());
    if (left.count() <= 0)
      throw TransferError(fmt::format("no answer in {} s", options_.timeout_s));
    const std::optional<dat::Event> event = transfers_.wait(left);
    if (!event) continue;
    const auto* done = std::get_if<dat::Completion>(&*event);
    if (done == nullptr || done->cookie.as_64 >> 8 != peer) continue;  // from a broken link
    if (!done->good())
      throw TransferError(fmt::format("a transfer failed: {}", done->status_name()));
    slot = static_cast<std::uint32_t>(done->cookie.as_64 & 0xff);
    if (slot == kSlots) --in_flight_;
    return slot != kSlots;
  }
}

void Node::send_word(std::uint32_t peer, std::uint32_t word) {
  const std::size_t place = Layout{options_.size, job_.size()}.message();
  const std::uint32_t wire = htonl(word);
  std::memcpy(bytes_.data() + place, &wire, sizeof wire);
  peers_[peer].endpoint.post_send(memory_.segment(place, sizeof wire),
                                  dat::cookie(cookie_of(peer, kSlots)));
  ++in_flight_;
  // Wait until the send has completed, as the next message reuses its memory.
  for (std::uint32_t slot = 0; in_flight_ > 0;)
    if (next(peer, slot)) early_slots_.push_back(slot);
}

std::uint32_t Node::receive_word(std::uint32_t peer) {
  std::uint32_t slot = 0;
  if (!early_slots_.empty()) {
    slot = early_slots_.front();
    early_slots_.pop_front();
  } else {
    while (!next(peer, slot))
      ;
  }
  std::uint32_t wire = 0;
  std::memcpy(&wire, bytes_.data() + Layout{options_.size, job_.size()}.slot(peer, slot),
              sizeof wire);
  return ntohl(wire);
}

void Node::send_to(std::uint32_t peer) {
  const std::span<std::byte> bytes = source();
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(job_.rank(), peer, i);
  const DAT_LMR_TRIPLET local =
      memory_.segment(Layout{options_.size, job_.size()}.source(), bytes.size());
  const auto start = Clock::now();
  for (std::uint32_t posted = 0; posted < options_.count; ++posted) {
    for (std::uint32_t slot = 0; in_flight_ >= options_.window;)
      if (next(peer, slot)) early_slots_.push_back(slot);
    peers_[peer].endpoint.post_write({&local, 1}, peers_[peer].target,
                                     dat::cookie(cookie_of(peer, kSlots)));
    ++in_flight_;
  }
  send_word(peer, kWritten);
  if (receive_word(peer) != kArrived) throw TransferError("the answer is invalid");
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  links_[peer].rate = static_cast<double>(bytes.size()) * options_.count / seconds / 1e6;
  if (receive_word(peer) != kRight) throw TransferError("the received data is wrong");
}

void Node::receive_from(std::uint32_t peer) {
  if (receive_word(peer) != kWritten) throw TransferError("the message is invalid");
  send_word(peer, kArrived);
  const std::span<std::byte> bytes = target(peer);
  bool right = true;
  for (std::size_t i = 0; i < bytes.size(); ++i) right &= bytes[i] == pattern(peer, job_.rank(), i);
  send_word(peer, right ? kRight : kWrong);
  if (!right) throw TransferError("the received data is wrong");
}

void Node::meet(std::uint32_t peer) {
  if (!peers_[peer].established || !links_[peer].problem.empty()) return;
  in_flight_ = 0;
  early_slots_.clear();
  try {
    if (job_.rank() < peer) send_to(peer);
    receive_from(peer);
    if (job_.rank() > peer) send_to(peer);
  } catch (const std::exception& error) {
    links_[peer].problem = error.what();
  }
}

void Node::measure_all() {
  for (std::uint32_t step = 0; step < steps_of(job_.size()); ++step) {
    const std::uint32_t peer = partner_of(job_.rank(), step, job_.size());
    if (peer != job_.rank()) meet(peer);
    job_.fence([] { ::usleep(200); });
  }
}

}  // namespace datmesh
