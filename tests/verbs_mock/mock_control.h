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
// By VERBS_MOCK_FAIL=CALL or CALL=ERRNO in the environment: every call of that name fails.
// The name of the call that was made to fail since then; null: none was.
const char* verbs_mock_failed_call();
// Calls that could have failed, since then.
unsigned verbs_mock_fallible_calls();

// What the ports of the device are, for what is opened from now on. Also by VERBS_MOCK_FABRIC=roce,
// infiniband or ipoib in the environment.
enum verbs_mock_fabric {
  VERBS_MOCK_ROCE,        // one Ethernet port, with all IP addresses of this machine: the default
  VERBS_MOCK_INFINIBAND,  // two InfiniBand ports without IP addresses, of which the first is down
  VERBS_MOCK_IPOIB        // the same two, and all IP addresses of this machine are on the second
};
void verbs_mock_set_fabric(verbs_mock_fabric fabric);

// The device says that it is soft-iWARP of Linux, and loses as that does the mark of solicited
// messages and failures: a CQ that is armed for these alone never fires. For what is opened from
// now on, and at once.
void verbs_mock_set_siw(bool siw);

// What a QP was told when it became ready to send.
struct verbs_mock_connection {
  unsigned pkey_index;
  unsigned path_mtu;  // bytes
  unsigned timeout;
  unsigned retry_count;
  unsigned rnr_retry;
  unsigned min_rnr_timer;
  unsigned max_inline;
};
// Of all QPs that are ready to send now; how many there are.
unsigned verbs_mock_connections(verbs_mock_connection* connections, unsigned room);
// RDMA_OPTION_ID_TOS as it was set last; 0: never.
unsigned verbs_mock_tos();
// So many bytes may be registered at once, those apart that the device pages in on demand; 0: any.
// The device pages if `paging`, for what is opened from now on.
void verbs_mock_limit_memory(std::size_t bytes, bool paging);
// Registrations that are paged on demand.
unsigned verbs_mock_paged();
// Every context of the device gets the event: a port that has failed, or a device that has.
void verbs_mock_fail_port(unsigned port);
void verbs_mock_fail_device();
// Every QP gets the event, an ibv_event_type.
void verbs_mock_raise_on_qps(int event);
// Every id of rdma_cm on the device is told that it goes.
void verbs_mock_remove_device();
// The next n resolutions of an address or route are lost, and time out at once.
void verbs_mock_lose_resolutions(unsigned n);

// By VERBS_MOCK_PATH_MTU=N in the environment connections have the MTU of that number (5: 4096
// bytes), which a port that has less refuses.

// A call that polls or arms a CQ takes this long, so that another one meets it there.
void verbs_mock_dwell(unsigned microseconds);
// From now on every call of that name fails with `error`, as by VERBS_MOCK_FAIL; null: none.
void verbs_mock_fail_always(const char* call, int error);

// rdma_disconnect of a connection that still stands returns so many microseconds after its events
// are there; 0: at once.
void verbs_mock_delay_disconnect(unsigned microseconds);

// From now on an id of a connection that is being set up goes without a word to its peer, as when
// the connection manager's message is lost.
void verbs_mock_lose_farewells(bool lose);

// While held, completion channels tell nobody of their events; then of all of them.
void verbs_mock_hold_notifications(bool hold);

// The connection manager finds the peer of every connection unreachable, on both sides.
// Exported by the double of librdmacm.
void verbs_mock_lose_peers();

// Verbs and CM objects that exist now, those that librdmacm keeps for itself excepted. `text` (may
// be null) gets their names and counts, as in "qp 1, cq 2".
unsigned verbs_mock_live(char* text, std::size_t size);
}
