// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "plan.h"

#include <functional>

namespace datperf {

/** Runs `client` with a server in a child process, and returns the exit status of `client`. Throws
 *  Trouble if the server does not start to listen. Must be called before the process uses DAT or
 *  threads. */
int with_own_server(const Plan& plan, const std::function<int()>& client);

}  // namespace datperf
