// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "providers/reactor/reactor.h"

#include <future>

namespace udapl::test {

// Keeps every thread from driving the reactor during its lifetime.
class Standstill {
 public:
  explicit Standstill(Reactor& reactor) : call_(reactor, Call::to<&Standstill::hold>(this)) {
    call_.post();
    began_.get_future().wait();
  }
  ~Standstill() {
    over_.set_value();
    call_.close();
  }

 private:
  void hold() noexcept {
    began_.set_value();
    over_.get_future().wait();
  }
  std::promise<void> began_;
  std::promise<void> over_;
  Deferred call_;
};

}  // namespace udapl::test
