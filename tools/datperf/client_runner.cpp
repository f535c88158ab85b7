// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The client's side of transfers; responder.cpp is the server's side.
#include "connect.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>

namespace datperf {

namespace {

std::uint64_t new_group() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

class ClientRunner : public Runner {
 public:
  ClientRunner(const Device& device, const Target& target, const Case& what)
      : group_(device, what, target.patience), patience_(target.patience) {
    if (what.operation == Operation::kFetchAdd && !device.atomics)
      throw Trouble("the provider has no atomic operations");
    group_.post_receives();
    Hello hello{Role::kMember, what, new_group(), 0, 0};
    for (std::uint32_t i = 0; i < group_.endpoints(); ++i) {
      const Invitation mine = group_.invitation(i);
      hello.address = mine.address;
      hello.context = mine.context;
      request(group_.endpoint(i), target, hello);
      const dat::Established answer = established_of(group_.connections().wait(patience_), target);
      const std::optional<Invitation> peer = invitation_of(answer.private_data);
      if (!peer) throw Trouble(target.name + ": an invalid answer");
      group_.set_peer(i, peer->address, peer->context);
    }
  }
  ~ClientRunner() override {
    for (std::uint32_t i = 0; i < group_.endpoints(); ++i)
      part(group_.endpoint(i), group_.connections(), patience_);
  }

  Round run(const Limit& limit) override {
    return group_.what().measure == Measure::kLatency ? latency(limit) : bandwidth(limit);
  }

 private:
  Round latency(const Limit& limit);
  Round bandwidth(const Limit& limit);
  // One operation, from the post until its completion or answer arrives.
  void ping(std::uint32_t index);
  void ping_by_memory(std::uint32_t index);
  void await_message(std::uint32_t index);
  void await_completion();
  // Bandwidth: fill() posts as much as the window allows, take() waits for a completion and returns
  // the index of its endpoint.
  void fill(std::uint32_t index);
  std::uint32_t take();
  [[nodiscard]] bool idle() const;
  void flush_writes();

  struct Flow {
    std::uint64_t posted = 0;
    std::uint64_t completed = 0;
    std::uint64_t acknowledged = 0;  // messages that the server has received
  };

  Group group_;
  std::chrono::seconds patience_;
  std::uint8_t mark_ = 0;  // the last byte of the current write
  std::vector<Flow> flows_;
  std::uint64_t posted_ = 0;  // on all endpoints
  bool stopping_ = false;
  bool streaming_ = false;
};

void ClientRunner::await_completion() {
  while (group_.next().received)
    ;
}

void ClientRunner::await_message(std::uint32_t index) {
  while (!group_.next().received)
    ;
  group_.post_receive(index);
}

// The server writes the same byte back. The mark is never 0, the initial content of the memory.
void ClientRunner::ping_by_memory(std::uint32_t index) {
  group_.set_last_byte(index, mark_);
  group_.post(index);
  bool completed = false;
  Clock::time_point end{};
  for (unsigned turn = 0; group_.last_byte(index) != mark_ || !completed; ++turn) {
    Done done;
    bool failed = false;
    if (group_.poll(done, failed)) {
      if (failed) throw Trouble("a write failed: the connection is broken");
      completed = true;
    } else if (turn % 1024 == 1023) {
      const auto now = Clock::now();
      if (end == Clock::time_point{}) end = now + patience_;
      if (now >= end) throw Trouble(fmt::format("no answer in {} s", patience_.count()));
    }
  }
}

void ClientRunner::ping(std::uint32_t index) {
  const Case& what = group_.what();
  switch (what.operation) {
    case Operation::kSend:
      group_.post(index);
      return await_message(index);
    case Operation::kWrite:
      if (what.waiting == Waiting::kPoll) return ping_by_memory(index);
      group_.post(index);
      group_.post_send(index, 1);
      return await_message(index);
    case Operation::kRead:
    case Operation::kFetchAdd:
      group_.post(index);
      return await_completion();
  }
}

Round ClientRunner::latency(const Limit& limit) {
  const Operation operation = group_.what().operation;
  const bool there_and_back = operation == Operation::kSend || operation == Operation::kWrite;
  Round round;
  round.samples.reserve(1U << 16);
  const auto start = Clock::now();
  auto now = start;
  std::uint32_t index = 0;
  while (!limit.reached(round.operations, now)) {
    if (index == 0) mark_ = mark_ == 255 ? 1 : static_cast<std::uint8_t>(mark_ + 1);
    const auto before = now;  // one clock reading per operation, because it is not negligible
    ping(index);
    now = Clock::now();
    const double us = us_between(before, now);
    round.samples.push_back(there_and_back ? us / 2 : us);
    ++round.operations;
    index = index + 1 == group_.endpoints() ? 0 : index + 1;
  }
  round.seconds = seconds_between(start, now);
  return round;
}

void ClientRunner::fill(std::uint32_t index) {
  const std::uint32_t window = group_.what().window;
  Flow& flow = flows_[index];
  while (flow.posted - flow.completed < window &&
         (!streaming_ || flow.posted - flow.acknowledged < 2 * window)) {
    // A stream ends with a whole window, because the server acknowledges whole windows.
    if (stopping_ && (!streaming_ || flow.posted % window == 0)) return;
    group_.post(index);
    ++flow.posted;
    ++posted_;
  }
}

std::uint32_t ClientRunner::take() {
  const Done done = group_.next();
  Flow& flow = flows_[done.endpoint];
  if (done.received) {
    flow.acknowledged += group_.what().window;
    group_.post_receive(done.endpoint);
  } else {
    ++flow.completed;
  }
  return done.endpoint;
}

// A completed write may not have reached the peer's memory yet. Once a message sent after it has
// been answered, it has.
void ClientRunner::flush_writes() {
  for (std::uint32_t i = 0; i < group_.endpoints(); ++i) group_.post_send(i, 1);
  for (std::uint32_t left = 2 * group_.endpoints(); left > 0; --left) {
    const Done done = group_.next();
    if (done.received) group_.post_receive(done.endpoint);
  }
}

bool ClientRunner::idle() const {
  return std::all_of(flows_.begin(), flows_.end(), [this](const Flow& flow) {
    return flow.completed == flow.posted && (!streaming_ || flow.acknowledged == flow.posted);
  });
}

Round ClientRunner::bandwidth(const Limit& limit) {
  streaming_ = group_.what().operation == Operation::kSend;
  stopping_ = false;
  flows_.assign(group_.endpoints(), Flow{});
  posted_ = 0;
  const auto start = Clock::now();
  for (std::uint32_t i = 0; i < group_.endpoints(); ++i) fill(i);
  for (unsigned turn = 0; !stopping_ || !idle(); ++turn) {
    const std::uint32_t index = take();
    if (!stopping_) stopping_ = limit.reached(posted_, turn % 16 == 15 ? Clock::now() : start);
    fill(index);
  }
  if (group_.what().operation == Operation::kWrite) flush_writes();
  return {posted_, seconds_between(start, Clock::now()), {}};
}

}  // namespace

std::unique_ptr<Runner> make_transfer_runner(const Device& device, const Target& target,
                                             const Case& what) {
  return std::make_unique<ClientRunner>(device, target, what);
}

}  // namespace datperf
