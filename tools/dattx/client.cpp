// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "client.h"
#include "../program.h"

#include "pattern.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>

namespace dattx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kVerifiedRounds = 3;
constexpr std::uint64_t kMaxBytesPerMeasurement = 64U << 20;
constexpr std::uint32_t kMinCount = 4;

// The measurements of one operation and size.
struct Row {
  std::uint32_t count = 0;
  double latency_us = 0;   // one transfer alone
  double megabytes_s = 0;  // 10^6 bytes per second
  bool verified = false;   // every compared byte was right
};

double us(Clock::duration span) { return std::chrono::duration<double, std::micro>(span).count(); }

// The client's part of one connection. measure() returns nullopt if the connection failed.
class Client {
 public:
  Client(Connection& connection, const Plan& plan) : connection_(connection), plan_(plan) {}

  [[nodiscard]] std::optional<Row> measure(Operation operation, std::uint32_t size) {
    row_ = {};
    row_.verified = true;
    row_.count = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
        kMaxBytesPerMeasurement / size, std::min(kMinCount, plan_.count), plan_.count));
    size_ = size;
    bool done = false;
    switch (operation) {
      case Operation::kSend:
        done = send_verified() && send_latency() && send_bandwidth();
        break;
      case Operation::kWrite:
        done = write_verified() && write_latency() && write_bandwidth();
        break;
      case Operation::kRead:
        done = read_verified() && read_latency() && read_bandwidth();
        break;
      case Operation::kPing:
        done = ping_verified() && ping_latency();
        break;
    }
    return done ? std::optional(row_) : std::nullopt;
  }

 private:
  // Waits for one kDone and records whether it reports correct data.
  [[nodiscard]] bool answer() {
    const auto received = connection_.receive();
    if (!received) {
      if (connection_.closed()) {
        tools::print(stderr, "dattx: the connection broke\n");
      }
      return false;
    }
    const auto words = Words::read(received->data);
    if (!words || Message::decode(*words).command != Command::kDone) {
      tools::print(stderr, "dattx: the server's answer is invalid\n");
      return false;
    }
    row_.verified = row_.verified && Message::decode(*words).good;
    return connection_.release(*received);
  }

  [[nodiscard]] bool command(Command what, std::uint32_t count = 0, bool verify = false) {
    return connection_.send(
        Message{.command = what, .size = size_, .count = count, .seed = seed_, .verify = verify});
  }

  [[nodiscard]] std::span<std::byte> out(std::uint32_t index) {
    return connection_.out_slot(index, size_);
  }

  // Times `body` and returns its result.
  [[nodiscard]] bool timed(const std::function<bool()>& body, double& span_us) {
    const Clock::time_point start = Clock::now();
    const bool done = body();
    span_us = us(Clock::now() - start);
    return done;
  }

  void set_bandwidth(double span_us) {
    row_.megabytes_s = double(size_) * double(row_.count) / span_us;  // bytes per us are MB per s
  }

  // ---- Send and Receive: the server compares and confirms every message

  [[nodiscard]] bool send_verified() {
    if (!command(Command::kSink, kVerifiedRounds, true)) {
      return false;
    }
    for (std::uint32_t i = 0; i < kVerifiedRounds; ++i) {
      fill_pattern(out(0), seed_++);
      if (!connection_.send(out(0)) || !answer() || !connection_.drain()) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool send_latency() {
    double span = 0;
    const bool done = command(Command::kSink, row_.count) &&
                      timed(
                          [&] {
                            for (std::uint32_t i = 0; i < row_.count; ++i) {
                              if (!connection_.send(out(0)) || !answer()) {
                                return false;
                              }
                            }
                            return true;
                          },
                          span);
    row_.latency_us = span / row_.count;
    return done && connection_.drain();
  }

  [[nodiscard]] bool send_bandwidth() {
    double span = 0;
    const bool done = command(Command::kSink, row_.count) &&
                      timed(
                          [&] {
                            std::uint32_t answered = 0;
                            for (std::uint32_t i = 0; i < row_.count; ++i) {
                              if (i - answered == connection_.window()) {
                                ++answered;
                                if (!answer()) {
                                  return false;
                                }
                              }
                              if (!connection_.send(out(i))) {
                                return false;
                              }
                            }
                            for (; answered < row_.count; ++answered) {
                              if (!answer()) {
                                return false;
                              }
                            }
                            return true;
                          },
                          span);
    set_bandwidth(span);
    return done && connection_.drain();
  }

  // ---- RDMA Write: the server compares its memory when a later Send requests it

  [[nodiscard]] bool write_verified() {
    for (std::uint32_t i = 0; i < kVerifiedRounds; ++i) {
      fill_pattern(out(0), ++seed_);
      if (!connection_.write(out(0)) || !command(Command::kCheck) || !answer() ||
          !connection_.drain()) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool write_latency() {
    double span = 0;
    const bool done = timed(
        [&] {
          for (std::uint32_t i = 0; i < row_.count; ++i) {
            if (!connection_.write(out(0)) || !command(Command::kReply) || !answer()) {
              return false;
            }
          }
          return true;
        },
        span);
    row_.latency_us = span / row_.count;
    return done && connection_.drain();
  }

  [[nodiscard]] bool write_bandwidth() {
    double span = 0;
    fill_pattern(out(0), ++seed_);
    const bool done = timed(
        [&] {
          for (std::uint32_t i = 0; i < row_.count; ++i) {
            if (!connection_.drain(connection_.window() - 1) || !connection_.write(out(0))) {
              return false;
            }
          }
          return command(Command::kReply) && answer();  // then all writes have arrived
        },
        span);
    set_bandwidth(span);
    return done && command(Command::kCheck) && answer() && connection_.drain();
  }

  // ---- RDMA Read: from memory that the server has filled

  [[nodiscard]] bool read_verified() {
    for (std::uint32_t i = 0; i < kVerifiedRounds; ++i) {
      ++seed_;
      if (!command(Command::kFill) || !answer() || !connection_.read(out(0)) ||
          !connection_.drain()) {
        return false;
      }
      row_.verified = row_.verified && has_pattern(out(0), seed_);
    }
    return true;
  }

  [[nodiscard]] bool read_latency() {
    double span = 0;
    const bool done = timed(
        [&] {
          for (std::uint32_t i = 0; i < row_.count; ++i) {
            if (!connection_.read(out(0)) || !connection_.drain()) {
              return false;
            }
          }
          return true;
        },
        span);
    row_.latency_us = span / row_.count;
    return done;
  }

  [[nodiscard]] bool read_bandwidth() {
    const std::uint32_t slots = std::min(connection_.window(), connection_.reads_in_flight());
    for (std::uint32_t i = 0; i < slots; ++i) {
      std::fill(out(i).begin(), out(i).end(), std::byte{0});
    }
    double span = 0;
    const bool done = timed(
        [&] {
          for (std::uint32_t i = 0; i < row_.count; ++i) {
            if (!connection_.drain(slots - 1) || !connection_.read(out(i % slots))) {
              return false;
            }
          }
          return connection_.drain();
        },
        span);
    set_bandwidth(span);
    for (std::uint32_t i = 0; i < std::min(slots, row_.count); ++i) {
      row_.verified = row_.verified && has_pattern(out(i), seed_);
    }
    return done;
  }

  // ---- Ping-pong: the server sends every message back

  [[nodiscard]] bool ping(bool verify) {
    const auto received = connection_.send(out(0)) ? connection_.receive() : std::nullopt;
    if (!received) {
      return false;
    }
    row_.verified = row_.verified && received->data.size() == size_ &&
                    (!verify || has_pattern(received->data, seed_));
    return connection_.release(*received);
  }

  [[nodiscard]] bool ping_verified() {
    if (!command(Command::kEcho, kVerifiedRounds)) {
      return false;
    }
    for (std::uint32_t i = 0; i < kVerifiedRounds; ++i) {
      fill_pattern(out(0), ++seed_);
      if (!ping(true) || !connection_.drain()) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool ping_latency() {
    double span = 0;
    const bool done = command(Command::kEcho, row_.count) &&
                      timed(
                          [&] {
                            for (std::uint32_t i = 0; i < row_.count; ++i) {
                              if (!ping(false)) {
                                return false;
                              }
                            }
                            return true;
                          },
                          span);
    row_.latency_us = span / row_.count / 2;
    row_.megabytes_s = size_ / row_.latency_us;
    return done && connection_.drain();
  }

  Connection& connection_;
  const Plan& plan_;
  Row row_;
  std::uint32_t size_ = 0;
  std::uint64_t seed_ = 0;
};

const char* name(Operation operation) {
  switch (operation) {
    case Operation::kSend:
      return "SR Send/Receive";
    case Operation::kWrite:
      return "RW RDMA Write";
    case Operation::kRead:
      return "RR RDMA Read";
    case Operation::kPing:
      return "PP ping-pong";
  }
  return "?";
}

}  // namespace

int run(const Settings& settings, const Plan& plan) {
  const Hello hello{plan.window,
                    std::max<std::uint32_t>(*std::max_element(plan.sizes.begin(), plan.sizes.end()),
                                            Words::kSize)};
  Adapter adapter;
  Connection connection(adapter);
  if (!adapter.open(settings) || !connection.create(hello) ||
      !connection.connect(plan.host, hello)) {
    return 1;
  }
  tools::print("{} on {}: {} in flight, waiting by {}\n", settings.ia, plan.host, plan.window,
               settings.poll ? "polling" : "sleeping");
  tools::print("{:<16} {:>9} {:>7} {:>12} {:>10}  {}\n", "operation", "bytes", "count",
               "latency us", "MB/s", "verified");
  tools::flush();
  bool all_verified = true;
  Client client(connection, plan);
  for (const Operation operation : plan.operations) {
    for (const std::uint32_t size : plan.sizes) {
      const auto row = client.measure(operation, size);
      if (!row) {
        tools::print(stderr, "dattx: {} of {} bytes failed\n", name(operation), size);
        return 1;
      }
      tools::print("{:<16} {:>9} {:>7} {:>12.1f} {:>10.1f}  {}\n", name(operation), size,
                   row->count, row->latency_us, row->megabytes_s, row->verified ? "yes" : "NO");
      tools::flush();
      all_verified = all_verified && row->verified;
    }
  }
  if (!connection.disconnect()) {
    return 1;
  }
  if (!all_verified) {
    tools::print(stderr, "dattx: the received data is wrong\n");
    return 1;
  }
  return 0;
}

}  // namespace dattx
