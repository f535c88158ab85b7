// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What dtest does with its connection. Protocol: each side sends a RemoteBuffer, then both do the
// same steps; a message of 16 bytes says that a step is over. What each writes begins with "client
// RDMA write data..." or "server RDMA ...".
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
  Common common;
  std::uint32_t length = 0;  // 0: not given
  std::uint32_t burst = 1000;
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

/** A line that begins with the number of the process. */
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  tools::print("{} {}\n", ::getpid(), fmt::format(format, std::forward<Args>(args)...));
  tools::flush();
}

/** Sizes of -a: one less, itself and one more of each step up to the longest. */
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
  Memory inbox_;     // what the peer writes to and reads from; behind it messages of the ping-pong
  Memory outbox_;    // what is written and sent; behind it what was read
  Memory messages_;  // three to receive, one to send
  std::size_t room_ = 0;
  std::uint64_t next_message_ = 0;
  double write_us_ = 0;
  std::vector<std::string> results_;
};

}  // namespace dtest
