// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The transfers of dtest. Protocol: each side sends a RemoteBuffer, then both go through the same
// steps; a message of 16 bytes reports the end of a step. The data that a side writes begin with
// "client RDMA write data..." or "server RDMA ...".
#pragma once

#include "connection.h"
#include "rendezvous.h"

#include <fmt/core.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace dtest {

inline constexpr DAT_CONN_QUAL kConnQual = 45248;

struct Options {
  static constexpr std::uint32_t kBurst = 1000;

  Common common;
  std::uint32_t length = 0;  // 0: not given
  std::uint32_t burst = kBurst;
  std::uint32_t signal_rate = 10;
  std::uint32_t increment = 0;  // 0: powers of two
  unsigned delay_s = 0;
  bool one_way = false;
  bool streaming = false;
  bool pingpong = false;
  bool data_check = false;
  bool all_sizes = false;
  bool times = false;
  bool cno = false;
  bool poll = false;
  bool usage = false;
};

/** Prints a line that begins with the process ID. */
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  tools::print("{} {}\n", ::getpid(), fmt::format(format, std::forward<Args>(args)...));
  tools::flush();
}

/** The sizes of -a: each step up to the longest one, and one byte less and one byte more. */
std::vector<std::uint32_t> sizes_of(const Options& options);

class Transfers {
 public:
  Transfers(const Options& options, const Adapter& adapter);

  void connect(const Record& record);
  void write();
  void read();
  void message_pingpong();
  void write_pingpong();
  void end();
  void print_results() const;

  [[nodiscard]] const Connection& connection() const { return connection_; }
  [[nodiscard]] double reads_total_us() const;

  std::vector<double> read_us;

 private:
  enum class Check { kNothing, kData };

  void exchange_buffers();
  void send_done(std::string_view what);
  void await_done(std::string_view what);
  void post_write(std::uint32_t index, std::uint32_t length, bool last, bool signal);
  void read_once();
  void pingpong_of(std::uint32_t length);
  void await_write(std::uint32_t index, std::uint32_t length);
  void fill(std::uint32_t index, std::uint32_t length);
  [[nodiscard]] bool server() const { return options_.common.server(); }
  [[nodiscard]] std::string text(bool of_server, std::string_view what) const;
  [[nodiscard]] bool begins_with(const std::byte* at, std::string_view text) const;

  const Options& options_;
  const Adapter& adapter_;
  Events events_;
  Connection connection_;
  RemoteBuffer peer_;
  Memory inbox_;     // the peer's target for Writes and Reads, then two messages of the ping-pong
  Memory outbox_;    // the source of Writes and Sends, then the destination of Reads
  Memory messages_;  // three to receive, one to send
  std::size_t room_ = 0;
  std::uint64_t next_message_ = 0;
  double write_us_ = 0;
  std::vector<std::string> results_;
};

}  // namespace dtest
