// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"

// Short forms for tests of connections.
namespace conformance {

// Bytes of private data: more than a reply or a rejection carries on any transport.
inline constexpr DAT_COUNT kMoreThanReplies = 257;

inline DAT_CR_PARAM query_cr(DAT_CR_HANDLE cr) {
  DAT_CR_PARAM param{};
  REQUIRE_OK(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
  return param;
}

inline DAT_RETURN connect_to(const Pair& pair, const sockaddr* address, DAT_CONN_QUAL conn_qual,
                             DAT_TIMEOUT timeout = kPatience, DAT_COUNT size = 0,
                             const char* data = nullptr, DAT_QOS qos = DAT_QOS_BEST_EFFORT) {
  return dat_ep_connect(pair.active.ep, const_cast<sockaddr*>(address), conn_qual, timeout, size,
                        const_cast<char*>(data), qos, DAT_CONNECT_DEFAULT_FLAG);
}

inline DAT_RETURN connect_to(const Pair& pair, DAT_CONN_QUAL conn_qual,
                             DAT_TIMEOUT timeout = kPatience) {
  return connect_to(pair, pair.ia.attr.ia_address_ptr, conn_qual, timeout);
}

inline DAT_CR_HANDLE take_cr(DAT_EVD_HANDLE evd) {
  return expect_event(evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data.cr_handle;
}

}  // namespace conformance
