// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "fake_dat.h"

#include <dat/udat.h>

#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

struct Endpoint;

struct Queue {
  DAT_EVD_FLAGS flags;
  std::size_t length;
  std::deque<DAT_EVENT> events;
  Endpoint* receiver = nullptr;   // whose receives complete here
  Endpoint* connected = nullptr;  // whose connection events come here
};

struct Receive {
  std::vector<DAT_LMR_TRIPLET> segments;
  DAT_DTO_COOKIE cookie;
};

struct Endpoint {
  Queue *receives, *requests, *connection;
  std::size_t max_receives, max_requests;
  std::deque<Receive> posted;
  bool over = false;
};

struct Region {
  DAT_VADDR begin;
  DAT_VLEN length;
};

struct Message {
  std::vector<std::byte> bytes;
  bool fill = false, wrong = false;
};

std::span<const std::byte> input;
std::vector<std::byte> greeting;
std::map<DAT_HANDLE, std::unique_ptr<Queue>> queues;
std::map<DAT_HANDLE, std::unique_ptr<Endpoint>> endpoints;
std::map<DAT_LMR_CONTEXT, Region> regions;
DAT_LMR_CONTEXT next_context = 1;
bool request_delivered = false;
bool requests_fail = false;
int plain;  // what the handles of everything else point to

constexpr DAT_RETURN failure(DAT_RETURN_TYPE type) { return DAT_CLASS_ERROR | type; }

std::optional<Message> next_message() {
  if (input.size() < 2) return std::nullopt;
  const unsigned head =
      std::to_integer<unsigned>(input[0]) << 8 | std::to_integer<unsigned>(input[1]);
  input = input.subspan(2);
  const std::size_t size = std::min<std::size_t>(head & fuzz::kLength, input.size());
  Message message{{input.begin(), input.begin() + static_cast<std::ptrdiff_t>(size)},
                  (head & fuzz::kFill) != 0,
                  (head & fuzz::kWrong) != 0};
  input = input.subspan(size);
  return message;
}

Queue& queue(DAT_HANDLE handle) {
  const auto found = queues.find(handle);
  require(found != queues.end());
  return *found->second;
}
Endpoint& endpoint(DAT_HANDLE handle) {
  const auto found = endpoints.find(handle);
  require(found != endpoints.end());
  return *found->second;
}

void check(std::span<const DAT_LMR_TRIPLET> segments) {
  for (const DAT_LMR_TRIPLET& segment : segments) {
    const auto found = regions.find(segment.lmr_context);
    require(found != regions.end());
    const Region& region = found->second;
    require(segment.virtual_address >= region.begin && segment.segment_length <= region.length);
    require(segment.virtual_address - region.begin <= region.length - segment.segment_length);
  }
}

void complete(Queue& to, DAT_DTO_COOKIE cookie, DAT_DTO_COMPLETION_STATUS status,
              std::size_t length) {
  require(to.events.size() < to.length);
  DAT_EVENT event{};
  event.event_number = DAT_DTO_COMPLETION_EVENT;
  event.event_data.dto_completion_event_data.user_cookie = cookie;
  event.event_data.dto_completion_event_data.status = status;
  event.event_data.dto_completion_event_data.transfered_length =
      static_cast<DAT_SEG_LENGTH>(length);
  to.events.push_back(event);
}

void connection_event(Queue& to, DAT_EVENT_NUMBER number) {
  DAT_EVENT event{};
  event.event_number = number;
  to.events.push_back(event);
}

void end(Endpoint& ep) {
  if (ep.over) return;
  ep.over = true;
  for (; !ep.posted.empty(); ep.posted.pop_front())
    complete(*ep.receives, ep.posted.front().cookie, DAT_DTO_ERR_FLUSHED, 0);
  connection_event(*ep.connection, DAT_CONNECTION_EVENT_DISCONNECTED);
}

// The peer's next message, or its end.
void deliver(Endpoint& ep) {
  if (ep.over || ep.posted.empty()) return;
  const auto message = next_message();
  if (!message) return end(ep);
  const Receive receive = std::move(ep.posted.front());
  ep.posted.pop_front();
  std::size_t room = 0;
  for (const DAT_LMR_TRIPLET& segment : receive.segments) room += segment.segment_length;
  std::vector<std::byte> bytes = message->bytes;
  if (message->fill) bytes.resize(room);
  if (message->wrong || bytes.size() > room) {
    complete(*ep.receives, receive.cookie,
             message->wrong ? DAT_DTO_ERR_TRANSPORT : DAT_DTO_ERR_LOCAL_LENGTH, 0);
    return end(ep);
  }
  std::span<const std::byte> rest(bytes);
  for (const DAT_LMR_TRIPLET& segment : receive.segments) {
    const std::size_t size = std::min<std::size_t>(segment.segment_length, rest.size());
    if (size > 0) std::memcpy(reinterpret_cast<void*>(segment.virtual_address), rest.data(), size);
    rest = rest.subspan(size);
  }
  complete(*ep.receives, receive.cookie, DAT_DTO_SUCCESS, bytes.size());
}

DAT_RETURN take(Queue& from, DAT_EVENT* event) {
  if (from.events.empty() && from.receiver != nullptr) deliver(*from.receiver);
  if (from.events.empty() && from.connected != nullptr) end(*from.connected);
  if (from.events.empty() && from.flags == DAT_EVD_CR_FLAG && !request_delivered) {
    request_delivered = true;
    DAT_EVENT request{};
    request.event_number = DAT_CONNECTION_REQUEST_EVENT;
    request.event_data.cr_arrival_event_data.cr_handle = &plain;
    from.events.push_back(request);
  }
  if (from.events.empty()) return failure(DAT_QUEUE_EMPTY);
  *event = from.events.front();
  from.events.pop_front();
  return DAT_SUCCESS;
}

DAT_RETURN post_request(DAT_EP_HANDLE handle, DAT_COUNT count, const DAT_LMR_TRIPLET* segments,
                        DAT_DTO_COOKIE cookie) {
  Endpoint& ep = endpoint(handle);
  const std::span all(segments, static_cast<std::size_t>(count));
  check(all);
  if (ep.over) return failure(DAT_INVALID_STATE);
  if (ep.requests->events.size() >= std::min(ep.max_requests, ep.requests->length))
    return failure(DAT_INSUFFICIENT_RESOURCES);
  std::size_t size = 0;
  for (const DAT_LMR_TRIPLET& segment : all) size += segment.segment_length;
  require(size <= fuzz::kLargest);
  complete(*ep.requests, cookie, requests_fail ? DAT_DTO_ERR_FLUSHED : DAT_DTO_SUCCESS, size);
  return DAT_SUCCESS;
}

DAT_RETURN give(DAT_HANDLE* to) {
  *to = &plain;
  return DAT_SUCCESS;
}

}  // namespace

void fuzz::begin(std::span<const std::byte> bytes) {
  require(queues.empty() && endpoints.empty() && regions.empty());
  input = bytes;
  const auto first = next_message();
  greeting = first ? first->bytes : std::vector<std::byte>();
  requests_fail = first && first->wrong;
  request_delivered = false;
}

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
                        DAT_PROVIDER_ATTR_MASK, DAT_PROVIDER_ATTR*) {
  static sockaddr_in address{};
  address.sin_family = AF_INET;
  *attributes = DAT_IA_ATTR{};
  attributes->ia_address_ptr = reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address);
  attributes->max_message_size = attributes->max_rdma_size = fuzz::kLargest;
  attributes->max_dto_per_ep = 1024;
  attributes->max_iov_segments_per_dto = 16;
  attributes->max_iov_segments_per_rdma_read = attributes->max_iov_segments_per_rdma_write = 16;
  attributes->max_rdma_read_per_ep_in = attributes->max_rdma_read_per_ep_out = 4;
  return DAT_SUCCESS;
}
DAT_RETURN dat_strerror(DAT_RETURN, const char** major, const char** minor) {
  *major = *minor = "";
  return DAT_SUCCESS;
}

DAT_RETURN dat_pz_create(DAT_IA_HANDLE, DAT_PZ_HANDLE* pz) { return give(pz); }
DAT_RETURN dat_pz_free(DAT_PZ_HANDLE) { return DAT_SUCCESS; }
DAT_RETURN dat_lmr_create(DAT_IA_HANDLE, DAT_MEM_TYPE, DAT_REGION_DESCRIPTION description,
                          DAT_VLEN length, DAT_PZ_HANDLE, DAT_MEM_PRIV_FLAGS, DAT_VA_TYPE,
                          DAT_LMR_HANDLE* lmr, DAT_LMR_CONTEXT* local, DAT_RMR_CONTEXT* remote,
                          DAT_VLEN* registered, DAT_VADDR* address) {
  *local = *remote = next_context++;
  *address = reinterpret_cast<DAT_VADDR>(description.for_va);
  *registered = length;
  const auto [region, is_new] = regions.emplace(*local, Region{*address, length});
  require(is_new);
  *lmr = &region->second;
  return DAT_SUCCESS;
}
DAT_RETURN dat_lmr_free(DAT_LMR_HANDLE lmr) {
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
  require(length > 0);
  auto made = std::make_unique<Queue>(Queue{flags, static_cast<std::size_t>(length), {}});
  *evd = made.get();
  queues.emplace(*evd, std::move(made));
  return DAT_SUCCESS;
}
DAT_RETURN dat_evd_free(DAT_EVD_HANDLE evd) {
  require(queues.erase(evd) == 1);
  return DAT_SUCCESS;
}
DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT* event) { return take(queue(evd), event); }
DAT_RETURN dat_evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT, DAT_COUNT, DAT_EVENT* event,
                        DAT_COUNT* more) {
  *more = 0;
  const DAT_RETURN result = take(queue(evd), event);
  return result == DAT_SUCCESS ? result : failure(DAT_TIMEOUT_EXPIRED);
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
DAT_RETURN dat_cr_query(DAT_CR_HANDLE, DAT_CR_PARAM_MASK, DAT_CR_PARAM* param) {
  *param = DAT_CR_PARAM{};
  param->private_data_size = static_cast<DAT_COUNT>(greeting.size());
  param->private_data = greeting.data();
  return DAT_SUCCESS;
}
DAT_RETURN dat_cr_accept(DAT_CR_HANDLE, DAT_EP_HANDLE handle, DAT_COUNT, DAT_PVOID) {
  // A service point for one request brings its EP along: any will do.
  Endpoint& ep = handle != DAT_HANDLE_NULL ? endpoint(handle) : *endpoints.begin()->second;
  connection_event(*ep.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
  return DAT_SUCCESS;
}
DAT_RETURN dat_cr_reject(DAT_CR_HANDLE, DAT_COUNT, DAT_PVOID) { return DAT_SUCCESS; }

DAT_RETURN dat_ep_create(DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_EVD_HANDLE receives,
                         DAT_EVD_HANDLE requests, DAT_EVD_HANDLE connection,
                         const DAT_EP_ATTR* attributes, DAT_EP_HANDLE* ep) {
  auto made =
      std::make_unique<Endpoint>(Endpoint{&queue(receives),
                                          &queue(requests),
                                          &queue(connection),
                                          static_cast<std::size_t>(attributes->max_recv_dtos),
                                          static_cast<std::size_t>(attributes->max_request_dtos),
                                          {}});
  made->receives->receiver = made.get();
  made->connection->connected = made.get();
  *ep = made.get();
  endpoints.emplace(*ep, std::move(made));
  return DAT_SUCCESS;
}
DAT_RETURN dat_ep_free(DAT_EP_HANDLE handle) {
  const Endpoint& ep = endpoint(handle);
  ep.receives->receiver = ep.connection->connected = nullptr;
  endpoints.erase(handle);
  return DAT_SUCCESS;
}
DAT_RETURN dat_ep_connect(DAT_EP_HANDLE, DAT_IA_ADDRESS_PTR, DAT_CONN_QUAL, DAT_TIMEOUT, DAT_COUNT,
                          DAT_PVOID, DAT_QOS, DAT_CONNECT_FLAGS) {
  return failure(DAT_INVALID_STATE);
}
DAT_RETURN dat_ep_disconnect(DAT_EP_HANDLE ep, DAT_CLOSE_FLAGS) {
  end(endpoint(ep));
  return DAT_SUCCESS;
}
DAT_RETURN dat_ep_reset(DAT_EP_HANDLE) { return failure(DAT_INVALID_STATE); }
DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE handle, DAT_COUNT count, DAT_LMR_TRIPLET* segments,
                            DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS) {
  Endpoint& ep = endpoint(handle);
  const std::span all(segments, static_cast<std::size_t>(count));
  check(all);
  if (ep.posted.size() + ep.receives->events.size() >=
      std::min(ep.max_receives, ep.receives->length))
    return failure(DAT_INSUFFICIENT_RESOURCES);
  ep.posted.push_back({{all.begin(), all.end()}, cookie});
  if (ep.over) {
    complete(*ep.receives, cookie, DAT_DTO_ERR_FLUSHED, 0);
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

}  // extern "C"
