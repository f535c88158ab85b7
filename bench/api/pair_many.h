// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string_view>

// The measurements of dat_pair over many connections; both end in report() of pair.h.
namespace bench {

// Measures messages on one connection after the other, or (scattered) on one of them at random.
void take_turns(int connections, bool scattered);
// Measures the memory of connections; `what`: fresh, resident or proportional.
void hold_idle(std::string_view what, int connections);

}  // namespace bench
