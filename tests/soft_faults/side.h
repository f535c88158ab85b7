// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include <string>

// One side of a connection between two processes, on the public API.
namespace soft_faults {

inline constexpr DAT_TIMEOUT kPatience = 20'000'000;

inline bool arrives(DAT_EVD_HANDLE evd, DAT_EVENT& event) {
  DAT_COUNT more = 0;
  return dat_evd_wait(evd, kPatience, 1, &event, &more) == DAT_SUCCESS;
}

// An IA with one EP, and a listener if need be.
struct Side {
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_IA_ATTR attr{};
  DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE cr_evd = DAT_HANDLE_NULL;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;

  [[nodiscard]] bool open(const char* name) {
    std::string copy = name;
    constexpr auto kStreams = DAT_EVD_FLAGS(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG);
    return dat_ia_open(copy.data(), 8, &async_evd, &ia) == DAT_SUCCESS &&
           dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr) == DAT_SUCCESS &&
           dat_pz_create(ia, &pz) == DAT_SUCCESS &&
           dat_evd_create(ia, 16, DAT_HANDLE_NULL, kStreams, &evd) == DAT_SUCCESS &&
           dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &cr_evd) == DAT_SUCCESS &&
           dat_ep_create(ia, pz, evd, evd, evd, nullptr, &ep) == DAT_SUCCESS;
  }
  [[nodiscard]] bool listen(DAT_CONN_QUAL qualifier) {
    return dat_psp_create(ia, qualifier, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp) == DAT_SUCCESS;
  }
  [[nodiscard]] bool connect(DAT_CONN_QUAL qualifier) {
    DAT_EVENT event{};
    return dat_ep_connect(ep, attr.ia_address_ptr, qualifier, kPatience, 0, nullptr,
                          DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) == DAT_SUCCESS &&
           arrives(evd, event) && event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
  }
  [[nodiscard]] bool accept() {
    DAT_EVENT event{};
    return arrives(cr_evd, event) &&
           dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, ep, 0, nullptr) ==
               DAT_SUCCESS &&
           arrives(evd, event) && event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
  }
};

}  // namespace soft_faults
