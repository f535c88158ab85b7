// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "fake_dat.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "fake_peers.h"

using namespace fuzz;

namespace {

DAT_LMR_CONTEXT next_context = 1;
int plain;  // the target of handles that do not matter

DAT_RETURN give(DAT_HANDLE* to) {
  *to = &plain;
  return DAT_SUCCESS;
}

DAT_RETURN post_request(DAT_EP_HANDLE handle, DAT_COUNT count, const DAT_LMR_TRIPLET* segments,
                        DAT_DTO_COOKIE cookie) {
  const Lock lock(mutex);
  return request(endpoint(handle), std::span(segments, static_cast<std::size_t>(count)), cookie);
}

}  // namespace

extern "C" {

DAT_RETURN dat_registry_list_providers(DAT_COUNT, DAT_COUNT* count, DAT_PROVIDER_INFO**) {
  *count = 0;
  return DAT_SUCCESS;
}
DAT_RETURN dat_ia_openv(DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE*, DAT_IA_HANDLE* ia, DAT_UINT32,
                        DAT_UINT32, DAT_BOOLEAN) {
  return give(ia);
}
DAT_RETURN dat_ia_close(DAT_IA_HANDLE, DAT_CLOSE_FLAGS) { return DAT_SUCCESS; }
DAT_RETURN dat_ia_query(DAT_IA_HANDLE, DAT_EVD_HANDLE*, DAT_IA_ATTR_MASK, DAT_IA_ATTR* attributes,
                        DAT_PROVIDER_ATTR_MASK, DAT_PROVIDER_ATTR* provider) {
  if (provider != nullptr) provider->num_provider_specific_attr = 0;
  if (attributes == nullptr) return DAT_SUCCESS;
  static sockaddr_in address{};
  address.sin_family = AF_INET;
  *attributes = DAT_IA_ATTR{};
  attributes->ia_address_ptr = reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address);
  attributes->max_message_size = attributes->max_rdma_size = fuzz::kLargest;
  attributes->max_dto_per_ep = kMaxDtos;
  attributes->max_iov_segments_per_dto = 16;
  attributes->max_iov_segments_per_rdma_read = attributes->max_iov_segments_per_rdma_write = 16;
  attributes->max_rdma_read_per_ep_in = attributes->max_rdma_read_per_ep_out = 4;
  return DAT_SUCCESS;
}
DAT_RETURN dat_strerror(DAT_RETURN, const char** major, const char** minor) {
  *major = *minor = "";
  return DAT_SUCCESS;
}

DAT_RETURN dat_last_cause(DAT_RETURN, const char** cause) {
  *cause = "";
  return DAT_SUCCESS;
}
const char* dat_dto_status_name(DAT_DTO_COMPLETION_STATUS) { return ""; }
const char* dat_event_name(DAT_EVENT_NUMBER) { return ""; }

DAT_RETURN dat_pz_create(DAT_IA_HANDLE, DAT_PZ_HANDLE* pz) { return give(pz); }
DAT_RETURN dat_pz_free(DAT_PZ_HANDLE) { return DAT_SUCCESS; }
DAT_RETURN dat_lmr_create(DAT_IA_HANDLE, DAT_MEM_TYPE, DAT_REGION_DESCRIPTION description,
                          DAT_VLEN length, DAT_PZ_HANDLE, DAT_MEM_PRIV_FLAGS, DAT_VA_TYPE,
                          DAT_LMR_HANDLE* lmr, DAT_LMR_CONTEXT* local, DAT_RMR_CONTEXT* remote,
                          DAT_VLEN* registered, DAT_VADDR* address) {
  const Lock lock(mutex);
  *local = *remote = next_context++;
  *address = reinterpret_cast<DAT_VADDR>(description.for_va);
  *registered = length;
  const auto [region, is_new] = regions.emplace(*local, Region{*address, length});
  require(is_new);
  *lmr = &region->second;
  return DAT_SUCCESS;
}
DAT_RETURN dat_lmr_free(DAT_LMR_HANDLE lmr) {
  const Lock lock(mutex);
  require(std::erase_if(regions, [&](const auto& one) { return &one.second == lmr; }) == 1);
  return DAT_SUCCESS;
}

DAT_RETURN dat_cno_create(DAT_IA_HANDLE, DAT_OS_WAIT_PROXY_AGENT, DAT_CNO_HANDLE* cno) {
  return give(cno);
}
DAT_RETURN dat_cno_wait(DAT_CNO_HANDLE, DAT_TIMEOUT, DAT_EVD_HANDLE*) { return DAT_SUCCESS; }
DAT_RETURN dat_cno_free(DAT_CNO_HANDLE) { return DAT_SUCCESS; }
DAT_RETURN dat_evd_create(DAT_IA_HANDLE, DAT_COUNT length, DAT_CNO_HANDLE, DAT_EVD_FLAGS flags,
                          DAT_EVD_HANDLE* evd) {
  const Lock lock(mutex);
  require(length > 0);
  auto made = std::make_unique<Queue>(Queue{flags, static_cast<std::size_t>(length), {}});
  *evd = made.get();
  queues.emplace(*evd, std::move(made));
  return DAT_SUCCESS;
}
DAT_RETURN dat_evd_free(DAT_EVD_HANDLE evd) {
  const Lock lock(mutex);
  require(queues.erase(evd) == 1);
  return DAT_SUCCESS;
}
DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT* event) {
  const Lock lock(mutex);
  return take(queue(evd), event);
}
DAT_RETURN dat_evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT, DAT_COUNT, DAT_EVENT* event,
                        DAT_COUNT* more) {
  const Lock lock(mutex);
  *more = 0;
  const DAT_RETURN result = take(queue(evd), event);
  return result == failure(DAT_QUEUE_EMPTY) ? failure(DAT_TIMEOUT_EXPIRED) : result;
}

DAT_RETURN dat_psp_create(DAT_IA_HANDLE, DAT_CONN_QUAL, DAT_EVD_HANDLE, DAT_PSP_FLAGS,
                          DAT_PSP_HANDLE* psp) {
  return give(psp);
}
DAT_RETURN dat_psp_free(DAT_PSP_HANDLE) { return DAT_SUCCESS; }
DAT_RETURN dat_rsp_create(DAT_IA_HANDLE, DAT_CONN_QUAL, DAT_EP_HANDLE, DAT_EVD_HANDLE,
                          DAT_RSP_HANDLE* rsp) {
  return give(rsp);
}
DAT_RETURN dat_rsp_free(DAT_RSP_HANDLE) { return DAT_SUCCESS; }
DAT_RETURN dat_cr_query(DAT_CR_HANDLE handle, DAT_CR_PARAM_MASK, DAT_CR_PARAM* param) {
  const Lock lock(mutex);
  const auto found = arrived.find(handle);
  require(found != arrived.end());
  std::vector<std::byte>& greeting = *found->second;
  *param = DAT_CR_PARAM{};
  param->private_data_size = static_cast<DAT_COUNT>(greeting.size());
  param->private_data = greeting.data();
  return DAT_SUCCESS;
}
DAT_RETURN dat_cr_accept(DAT_CR_HANDLE, DAT_EP_HANDLE handle, DAT_COUNT, DAT_PVOID) {
  const Lock lock(mutex);
  // A request at an RSP already has an EP. The handle does not tell which, so use any.
  Endpoint& ep = handle != DAT_HANDLE_NULL ? endpoint(handle) : *endpoints.begin()->second;
  connection_event(ep, DAT_CONNECTION_EVENT_ESTABLISHED);
  return DAT_SUCCESS;
}
DAT_RETURN dat_cr_reject(DAT_CR_HANDLE, DAT_COUNT, DAT_PVOID) { return DAT_SUCCESS; }

DAT_RETURN dat_ep_create(DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_EVD_HANDLE receives,
                         DAT_EVD_HANDLE requests, DAT_EVD_HANDLE connection,
                         const DAT_EP_ATTR* attributes, DAT_EP_HANDLE* ep) {
  const Lock lock(mutex);
  if (attributes->max_message_size > fuzz::kLargest || attributes->max_recv_dtos > kMaxDtos ||
      attributes->max_request_dtos > kMaxDtos)
    return failure(DAT_INVALID_PARAMETER);
  auto made =
      std::make_unique<Endpoint>(Endpoint{&queue(receives),
                                          &queue(requests),
                                          &queue(connection),
                                          static_cast<std::size_t>(attributes->max_recv_dtos),
                                          static_cast<std::size_t>(attributes->max_request_dtos),
                                          {}});
  made->receives->receivers.push_back(made.get());
  made->connection->connected = made.get();
  *ep = made.get();
  endpoints.emplace(*ep, std::move(made));
  return DAT_SUCCESS;
}
DAT_RETURN dat_ep_free(DAT_EP_HANDLE handle) {
  const Lock lock(mutex);
  const Endpoint& ep = endpoint(handle);
  std::erase(ep.receives->receivers, &ep);
  if (ep.connection->connected == &ep) ep.connection->connected = nullptr;
  endpoints.erase(handle);
  return DAT_SUCCESS;
}
DAT_RETURN dat_ep_connect(DAT_EP_HANDLE, DAT_IA_ADDRESS_PTR, DAT_CONN_QUAL, DAT_TIMEOUT, DAT_COUNT,
                          DAT_PVOID, DAT_QOS, DAT_CONNECT_FLAGS) {
  return failure(DAT_INVALID_STATE);
}
DAT_RETURN dat_ep_disconnect(DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS) {
  const Lock lock(mutex);
  end(endpoint(ep));
  return DAT_SUCCESS;
}
DAT_RETURN dat_ep_reset(DAT_EP_HANDLE) { return failure(DAT_INVALID_STATE); }
DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* segments,
                            DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS) {
  const Lock lock(mutex);
  Endpoint& ep = endpoint(handle);
  const std::span all(segments, static_cast<std::size_t>(count));
  check(all);
  if (ep.posted.size() + ep.receives->events.size() >=
      std::min(ep.max_receives, ep.receives->length))
    return failure(DAT_INSUFFICIENT_RESOURCES);
  ep.posted.push_back({{all.begin(), all.end()}, cookie});
  if (ep.over) {
    complete(*ep.receives, ep, DAT_DTO_RECEIVE, cookie, DAT_DTO_ERR_FLUSHED, 0);
    ep.posted.pop_back();
  }
  return DAT_SUCCESS;
}
DAT_RETURN dat_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET* segments,
                            DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS) {
  return post_request(ep, count, segments, cookie);
}
DAT_RETURN dat_ep_post_rdma_read(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET* segments,
                                 DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET*,
                                 DAT_COMPLETION_FLAGS) {
  return post_request(ep, count, segments, cookie);
}
DAT_RETURN dat_ep_post_rdma_write(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET* segments,
                                  DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET*,
                                  DAT_COMPLETION_FLAGS) {
  return post_request(ep, count, segments, cookie);
}

DAT_RETURN dat_extension_op(DAT_HANDLE, DAT_EXTENDED_OP, ...) {
  return failure(DAT_NOT_IMPLEMENTED);
}

}  // extern "C"
