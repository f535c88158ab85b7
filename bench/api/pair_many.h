// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string_view>

// The measurements of dat_pair over many connections; both end in report() of pair.h.
namespace bench {

enum class Order { kTurns, kScattered, kFew };
// Measures messages on one connection after the other, on one of them at random, or on one of a few
// at random while the others are idle.
void take_turns(int connections, Order order);
// Measures the memory of connections; `what`: fresh, resident or proportional.
void hold_idle(std::string_view what, int connections);

}  // namespace bench
