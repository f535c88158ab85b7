// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstddef>

// How a test controls and queries the doubles of libibverbs and librdmacm. Exported by the double
// of libibverbs in the version node VERBS_MOCK. Thread-safe.
//
// Some behaviour is chosen by the environment only, for programs that know nothing of the double:
// VERBS_MOCK_NULL=1: posts complete at once, move no data and take no lock, for measurements;
// VERBS_MOCK_FAIL=CALL or CALL=ERRNO: every call of that name fails.
extern "C" {

// Makes the n-th call from now on, of those that can fail, fail with its typical errno; 0: none.
// Also set by VERBS_MOCK_FAIL_AT=N in the environment.
void verbs_mock_fail_at(unsigned n);
// The name of the call that was made to fail since verbs_mock_fail_at(); null: none.
const char* verbs_mock_failed_call();

// The kind of the device's ports, for contexts that are opened from now on. Also set by
// VERBS_MOCK_FABRIC=roce, infiniband or ipoib in the environment.
enum verbs_mock_fabric {
  VERBS_MOCK_ROCE,        // one Ethernet port, with all IP addresses of this machine: the default
  VERBS_MOCK_INFINIBAND,  // two InfiniBand ports without IP addresses, of which the first is down
  VERBS_MOCK_IPOIB        // the same two; the second has all IP addresses of this machine
};
void verbs_mock_set_fabric(verbs_mock_fabric fabric);

// The device identifies itself as soft-iWARP of Linux. Like that, it does not mark solicited
// messages and failures: a CQ that is armed for these alone never fires; and it refuses receives
// without segments. Private data keeps its size, and destroying an id whose request is not answered
// blocks until it is. The identity applies to contexts that are opened from now on, the behaviour
// at once.
void verbs_mock_set_siw(bool siw);

// The attributes of a QP at the time it became ready to send.
struct verbs_mock_connection {
  unsigned pkey_index;
  unsigned path_mtu;  // bytes
  unsigned timeout;
  unsigned retry_count;
  unsigned rnr_retry;
  unsigned min_rnr_timer;
  unsigned max_inline;
};
// Writes those of all QPs that are ready to send, `room` at most; returns how many such QPs exist.
unsigned verbs_mock_connections(verbs_mock_connection* connections, unsigned room);
// The last value of RDMA_OPTION_ID_TOS; 0: it was never set.
unsigned verbs_mock_tos();
// Limits the bytes that may be registered at the same time, except for memory that the device pages
// on demand; 0: no limit. `paging`: whether the device does so, for contexts that are opened from
// now on.
void verbs_mock_limit_memory(std::size_t bytes, bool paging);
// The number of registrations that are paged on demand.
unsigned verbs_mock_paged();
// Raises the event of a failed port, or of a failed device, on every context.
void verbs_mock_fail_port(unsigned port);
void verbs_mock_fail_device();
// Raises the event, an ibv_event_type, on every QP.
void verbs_mock_raise_on_qps(int event);
// Notifies every rdma_cm id on the device that the device is being removed.
void verbs_mock_remove_device();
// The next n resolutions of an address or route are lost, and time out at once.
void verbs_mock_lose_resolutions(unsigned n);

// If VERBS_MOCK_PATH_MTU=N is in the environment, connections have the MTU of that number (5: 4096
// bytes), which a port with a smaller MTU refuses.

// CQs that are created or resized from now on get 2^n - 1 entries, at least as many as requested,
// as with many devices.
void verbs_mock_round_cqs(bool round);
// The most entries that a resized CQ got since that call.
unsigned verbs_mock_most_cq_entries();

// Calls that wait until this is changed: posts of receives, before the device has the receive or,
// on an SRQ, after; or those that destroy a window.
enum verbs_mock_hold {
  VERBS_MOCK_HOLD_NONE,
  VERBS_MOCK_HOLD_BEFORE,
  VERBS_MOCK_HOLD_AFTER,
  VERBS_MOCK_HOLD_WINDOWS
};
void verbs_mock_hold_calls(verbs_mock_hold when);
// The number of calls that wait.
unsigned verbs_mock_held_calls();
// While set, receives that are posted to a QP in error are flushed only by its next transition to
// that state.
void verbs_mock_flush_lazily(bool lazy);

// Calls that poll or arm a CQ take this long, so that calls of other threads overlap with them.
void verbs_mock_delay_cq_calls(unsigned microseconds);
// rdma_disconnect of an established connection returns this long after its events have been queued;
// 0: at once.
void verbs_mock_delay_disconnect(unsigned microseconds);

// While set, ids of connections that are being set up are destroyed without notifying the peer, as
// if the connection manager's message were lost.
void verbs_mock_lose_disconnects(bool lose);

// While held, completion channels do not report their events; afterwards they report all of them.
void verbs_mock_hold_notifications(bool hold);

// The connection manager reports the peer of every connection as unreachable, on both sides.
// Exported by the double of librdmacm.
void verbs_mock_lose_peers();

// The number of existing verbs and CM objects, except those that librdmacm keeps for itself. Writes
// their names and counts to `text` (may be null), for example "qp 1, cq 2".
unsigned verbs_mock_live(char* text, std::size_t size);
}
