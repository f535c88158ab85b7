// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

namespace conformance {

// Boost.Test reads its options. Of what it says about a wrong one, with all about its usage and in
// colours, the first line is kept. Throws what framework::init throws. Main thread only.
void init_boost(int argc, char** argv);

}  // namespace conformance
