// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "responder.h"

namespace datperf {

Responder::Responder(const Device& device, const Hello& hello, std::chrono::seconds patience)
    : group_(device, hello.what, patience),
      id_(hello.group),
      ended_(hello.what.endpoints),
      alive_(hello.what.endpoints),
      taken_(hello.what.endpoints),
      marks_(hello.what.endpoints) {
  group_.post_receives();
}

Responder::~Responder() {
  stop();
  if (thread_.joinable()) thread_.join();
}

bool Responder::fits(const Hello& hello) const {
  return hello.group == id_ && hello.what == group_.what() && !complete();
}

std::uint64_t Responder::memory_of(const Case& what) {
  return 2 * (std::uint64_t{what.size} + 4096) * what.endpoints;
}

void Responder::accept(dat::Request request, const Hello& hello) {
  group_.set_peer(accepted_, hello.address, hello.context);
  request.accept(group_.endpoint(accepted_), encode(group_.invitation(accepted_)));
  ++accepted_;
  if (complete()) thread_ = std::thread(&Responder::run, this);
}

void Responder::run() {
  const Case& what = group_.what();
  const bool by_memory = what.measure == Measure::kLatency && what.operation == Operation::kWrite &&
                         what.waiting == Waiting::kPoll;
  try {
    if (by_memory)
      respond_by_memory();
    else
      respond();
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
  over_ = true;
}

void Responder::respond() {
  while (alive_ > 0 && !stop_) {
    Done done;
    bool failed = false;
    if (group_.next(done, failed, std::chrono::milliseconds(500))) handle(done, failed);
  }
}

// Writes back what the client has written.
void Responder::respond_by_memory() {
  while (alive_ > 0 && !stop_) {
    for (std::uint32_t i = 0; i < group_.endpoints(); ++i) {
      const std::uint8_t mark = group_.last_byte(i);
      if (mark == marks_[i] || ended_[i]) continue;
      marks_[i] = mark;
      group_.set_last_byte(i, mark);
      group_.post_write(i);
    }
    Done done;
    bool failed = false;
    if (group_.poll(done, failed)) handle(done, failed);
  }
}

// A failed completion means that its connection has ended: the receives are flushed.
void Responder::handle(const Done& done, bool failed) {
  if (failed) {
    if (!ended_[done.endpoint]) --alive_;
    ended_[done.endpoint] = true;
    return;
  }
  if (!done.received || ended_[done.endpoint]) return;
  try {
    answer(done);
  } catch (const dat::Error& error) {
    if (error.type() != DAT_INVALID_STATE) throw;  // else the connection has ended; flushes follow
  }
}

void Responder::answer(const Done& done) {
  const Case& what = group_.what();
  if (what.measure == Measure::kBandwidth && what.operation == Operation::kSend) {
    group_.post_receive(done.endpoint);
    if (++taken_[done.endpoint] < what.window) return;
    taken_[done.endpoint] = 0;
    return group_.post_send(done.endpoint, 1);
  }
  if (what.measure == Measure::kLatency && what.operation == Operation::kWrite)
    group_.post_write(done.endpoint);
  group_.post_send(done.endpoint, done.length);
  group_.post_receive(done.endpoint);
}

}  // namespace datperf
