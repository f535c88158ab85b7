// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <sys/epoll.h>

struct sockaddr;

namespace udapl::sim {

using Clock = std::chrono::steady_clock;
using Rng = std::mt19937_64;

// What happens to the TCP connections of a run. Bytes are counted from the first of each direction.
struct Weather {
  static constexpr std::uint64_t kNever = UINT64_MAX;
  enum class Fault : std::uint8_t {
    kNone,
    kReset,          // both ends see a reset after that many bytes of a direction
    kSilence,        // no more bytes arrive; the ends notice after 20 and 40 seconds
    kCorrupt,        // a bit of that byte flips
    kStalledReader,  // its reader reads nothing for a second, which must do no harm
    kLongStall       // the same for a minute, which is longer than every time limit
  };
  static constexpr std::uint64_t kFaults = 6;
  Fault fault = Fault::kNone;
  std::uint64_t at = kNever;      // byte
  bool from_client = true;        // direction
  std::size_t piece = 65536;      // longest piece that arrives, or that send and recv move, at once
  std::size_t buffer = 65536;     // bytes in flight and unread in one direction
  std::uint32_t mss = 1460;       // as reported by TCP_INFO
  std::uint32_t delay_us = 100;   // longest delay of a piece
  bool spurious_blocking = true;  // sometimes EAGAIN for no reason
};

[[nodiscard]] std::string to_text(const Weather& weather);

// The system calls of the software RNIC, in one process, single-threaded, with a clock that moves
// only when advance() or next_event() is called. Sockets are IPv4 TCP; created threads never run.
// Linked in place of the real calls (-Wl,--wrap, see CMakeLists.txt); calls with descriptors of the
// real kernel still reach that. Not thread-safe.
class Kernel {
 public:
  static Kernel& instance();

  // Starts a new world: drops all state and resets the clock.
  void reset(std::uint64_t seed, const Weather& weather);

  [[nodiscard]] Clock::time_point now() const { return now_; }
  void advance(Clock::duration span);  // runs the events that become due
  // Moves the clock to the next event of the network; returns false if there is none.
  bool next_event();
  [[nodiscard]] std::size_t open_descriptors() const { return descriptors_.size(); }
  // Whether a fault has happened that may end a connection.
  [[nodiscard]] bool fault_happened() const { return fault_happened_; }
  // Whether the fault of the weather has happened, of whatever kind.
  [[nodiscard]] bool fault_injected() const { return fault_injected_; }

  // ---- the calls; on failure they return -1 and set errno
  [[nodiscard]] bool owns(int fd) const { return fd >= kFirstDescriptor; }
  int socket();
  int bind(int fd, const sockaddr* address);
  int listen(int fd);
  int accept(int fd, sockaddr* address);
  int connect(int fd, const sockaddr* address);
  long send(int fd, const void* data, std::size_t size);
  long receive(int fd, void* room, std::size_t size, bool peek);
  int shutdown_write(int fd);
  int close(int fd);
  int name(int fd, sockaddr* address, bool peer);
  int take_error(int fd);
  void linger(int fd);
  [[nodiscard]] std::uint32_t mss() const { return weather_.mss; }
  [[nodiscard]] int unacknowledged(int fd) const;
  int event_descriptor();
  long read_event(int fd);
  void write_event(int fd);
  int epoll_create();
  int epoll_control(int epoll, int operation, int fd, const epoll_event* event);
  int epoll_wait(int epoll, epoll_event* events, int max);

 private:
  static constexpr int kFirstDescriptor = 1 << 20;
  struct Descriptor;
  using Ref = std::shared_ptr<Descriptor>;

  [[nodiscard]] Descriptor* find(int fd) const;
  int add(const Ref& descriptor);
  void at(Clock::time_point when, std::function<void()> what);
  void run_due();
  [[nodiscard]] Clock::duration delay();
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return rng_() % limit; }
  [[nodiscard]] std::size_t room(const Descriptor& sender) const;
  void transport(const Ref& sender, std::string bytes);
  void stop_reading(const Ref& sender, const Ref& reader);
  void deliver(const Ref& to, std::string bytes);
  void break_both(const Ref& one, int error);
  static void break_one(Descriptor& one, int error);
  static void break_both_now(const Ref& one, int error);
  [[nodiscard]] std::uint32_t readiness(const Descriptor& descriptor) const;

  Rng rng_;
  Weather weather_;
  Clock::time_point now_{std::chrono::hours(1)};
  bool fault_happened_ = false;
  bool fault_injected_ = false;
  int next_descriptor_ = kFirstDescriptor;
  std::uint16_t next_port_ = 40000;
  std::uint64_t sequence_ = 0;
  std::map<std::pair<Clock::time_point, std::uint64_t>, std::function<void()>> events_;
  std::map<int, Ref> descriptors_;
};

}  // namespace udapl::sim
