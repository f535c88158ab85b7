// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>

// What a test tells the doubles of libibverbs and librdmacm, and asks them. Exported by the double
// of libibverbs in the version node VERBS_MOCK. Thread-safe.
extern "C" {

// Every context that is opened from now on completes posts at once, moves no data and takes no
// lock: for measurements. Also by VERBS_MOCK_NULL=1 in the environment.
void verbs_mock_set_null(bool null);

// The n-th call that can fail, from now on, fails with its typical errno; 0: none does. Also by
// VERBS_MOCK_FAIL_AT=N in the environment.
void verbs_mock_fail_at(unsigned n);
// The name of the call that was made to fail since then; null: none was.
const char* verbs_mock_failed_call();
// Calls that could have failed, since then.
unsigned verbs_mock_fallible_calls();

// rdma_disconnect of a connection that still stands returns so many microseconds after its events
// are there; 0: at once.
void verbs_mock_delay_disconnect(unsigned microseconds);

// Verbs and CM objects that exist now, those that librdmacm keeps for itself excepted. `text` (may
// be null) gets their names and counts, as in "qp 1, cq 2".
unsigned verbs_mock_live(char* text, std::size_t size);
}
