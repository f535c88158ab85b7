// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace conformance {

// Lets Boost.Test parse its options. If one is wrong, Boost.Test prints its whole usage in colours;
// this keeps only the first line. Throws what framework::init throws. Main thread only.
void init_boost(int argc, char** argv);

}  // namespace conformance
