// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "plan.h"

#include <functional>

namespace datperf {

/** Runs `client` while a child process serves, and returns its exit status. Trouble if the child
 *  does not listen. To be called before DAT and threads are used. */
int with_own_server(const Plan& plan, const std::function<int()>& client);

}  // namespace datperf
