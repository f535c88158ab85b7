// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "loopback.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

// Two processes with connections between them, each process on a processor of its own: the active
// one, which measures, is the program itself, the passive one its child. Everything here belongs to
// one thread.
namespace bench {

constexpr int kTrial = 8;     // connections after which descriptors are counted
constexpr int kSkipped = 77;  // exit status: this cannot be measured here; the reason is printed

// Data exchanged by the two processes, in shared memory.
struct Meeting {
  std::atomic<DAT_CONN_QUAL> conn_qual{0};
  std::atomic<DAT_VADDR> address{0};  // of memory that the active process may write and read
  std::atomic<DAT_RMR_CONTEXT> context{0};
  std::atomic<int> affordable[2]{};       // connections within the descriptor limit; index: role
  std::atomic<int> steps[2]{};            // calls of meet(); index: role
  std::atomic<double> passive_result{0};  // result of the passive process
};

class PairMember {
 public:
  enum Role { kPassive = 0, kActive = 1 };

  // Opens the IA and creates what all connections share.
  PairMember(Role role, Meeting& meeting, int connections);
  PairMember(const PairMember&) = delete;
  PairMember& operator=(const PairMember&) = delete;

  // Makes connections, one after the other, until there are `until`; connection i here is
  // connection i in the other process. If there are too few descriptors for all connections, prints
  // that and ends the program with kSkipped.
  void connect(int until);
  void connect() { connect(static_cast<int>(ends.size())); }
  // Returns once the other process has called it as often.
  void meet();

  Meeting& meeting;
  Adapter adapter;
  std::vector<End> ends;

 private:
  void listen();
  void connect_one(const End& end);
  void count_descriptors(int connections);

  const Role role_;
  End shared_;  // the EVDs
  DAT_EVD_HANDLE requests_ = DAT_HANDLE_NULL;
  int steps_ = 0;
  int made_ = 0;         // connections
  int descriptors_ = 0;  // before the first connection
};

// Runs `passive` in a child and `active` here, which calls report. The child ends with this
// process.
void run_pair(const std::function<void(Meeting&)>& passive,
              const std::function<void(Meeting&)>& active);

// Prints the result and ends the program, with all its connections.
[[noreturn]] void report(double result);

}  // namespace bench
