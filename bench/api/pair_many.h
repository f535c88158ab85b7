// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string_view>

// What dat_pair measures over many connections; both end in report() of pair.h.
namespace bench {

// Messages on connection after connection.
void take_turns(int connections);
// Memory of connections; `what`: fresh, resident or proportional.
void hold_idle(std::string_view what, int connections);

}  // namespace bench
