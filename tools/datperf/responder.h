// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The server's side of a group: a thread that answers until all its connections have ended.
#pragma once

#include "group.h"

#include <atomic>
#include <thread>

namespace datperf {

class Responder {
 public:
  /** Prepares for the connections that `hello` announces; accept() adds them one by one. */
  Responder(const Device& device, const Hello& hello, std::chrono::seconds patience);
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;
  /** Stops the thread and waits for it. */
  ~Responder();

  [[nodiscard]] const Case& what() const { return group_.what(); }
  [[nodiscard]] bool fits(const Hello& hello) const;
  [[nodiscard]] bool complete() const { return accepted_ == group_.endpoints(); }
  [[nodiscard]] Clock::time_point since() const { return since_; }
  /** The bytes of memory that a group needs. */
  [[nodiscard]] static std::uint64_t memory_of(const Case& what);

  /** Accepts a connection of the group. The last one starts the thread. */
  void accept(dat::Request request, const Hello& hello);

  /** Returns whether the thread has finished: all connections have ended, or it failed. */
  [[nodiscard]] bool over() const { return over_; }
  /** What went wrong, if anything; valid once over() is true. */
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /** Makes the thread finish even if connections have not ended. */
  void stop() { stop_ = true; }

 private:
  void run();
  void respond();
  void respond_by_memory();
  void handle(const Done& done, bool failed);
  void answer(const Done& done);

  Group group_;
  std::uint64_t id_;
  Clock::time_point since_ = Clock::now();
  std::uint32_t accepted_ = 0;
  std::vector<bool> ended_;
  std::uint32_t alive_;
  std::vector<std::uint32_t> taken_;  // messages received since the last acknowledgement
  std::vector<std::uint8_t> marks_;
  std::string problem_;
  std::atomic<bool> over_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace datperf
