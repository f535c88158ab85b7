// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "group.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace datperf {

namespace {

constexpr std::size_t kPage = 4096;

bool has_attribute(const dat::Adapter& adapter, std::string_view name) {
  DAT_PROVIDER_ATTR provider{};
  dat::check(dat_ia_query(adapter.handle(), nullptr, DAT_IA_FIELD_NONE, nullptr,
                          DAT_PROVIDER_FIELD_ALL, &provider),
             "dat_ia_query");
  for (DAT_COUNT i = 0; i < provider.num_provider_specific_attr; ++i)
    if (provider.provider_specific_attr[i].name == name)
      return std::string_view(provider.provider_specific_attr[i].value) == "TRUE";
  return false;
}

DAT_MEM_PRIV_FLAGS privileges(const Device& device) {
  const unsigned atomic = device.atomics ? unsigned{DAT_IB_MEM_PRIV_REMOTE_ATOMIC} : 0U;
  return static_cast<DAT_MEM_PRIV_FLAGS>(unsigned{DAT_MEM_PRIV_ALL_FLAG} | atomic);
}

DAT_EVD_FLAGS completion_flags(const Device& device) {
  const unsigned extended = device.atomics ? unsigned{DAT_IB_EVD_EXTENSION_FLAG} : 0U;
  return static_cast<DAT_EVD_FLAGS>(unsigned{DAT_EVD_DTO_FLAG} | extended);
}

// For a stream of messages, receives are posted for two windows, and the server acknowledges each
// window. Otherwise one message at a time is in flight in each direction.
std::uint32_t receives_of(const Case& what) {
  const bool stream = what.measure == Measure::kBandwidth && what.operation == Operation::kSend;
  return stream ? 2 * what.window + 2 : 4;
}

}  // namespace

Device::Device(const std::string& name)
    : adapter(name),
      limits(adapter.attributes()),
      atomics(has_attribute(adapter, DAT_IB_ATTR_FETCH_AND_ADD)) {}

DAT_EP_ATTR endpoint_attributes(const Device& device, std::uint32_t size, std::uint32_t receives,
                                std::uint32_t requests) {
  DAT_EP_ATTR attributes{};
  attributes.service_type = DAT_SERVICE_TYPE_RC;
  attributes.max_message_size = size;
  attributes.max_rdma_size = size;
  attributes.qos = DAT_QOS_BEST_EFFORT;
  attributes.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attributes.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attributes.max_recv_dtos = static_cast<DAT_COUNT>(receives);
  attributes.max_request_dtos = static_cast<DAT_COUNT>(requests);
  attributes.max_recv_iov = 1;
  attributes.max_request_iov = 1;
  attributes.max_rdma_read_iov = 1;
  attributes.max_rdma_write_iov = 1;
  const DAT_COUNT reads = std::clamp(
      std::min(device.limits.max_rdma_read_per_ep_in, device.limits.max_rdma_read_per_ep_out), 1,
      16);
  attributes.max_rdma_read_in = reads;
  attributes.max_rdma_read_out = reads;
  return attributes;
}

void Group::Free::operator()(std::byte* bytes) const { std::free(bytes); }

Group::Bytes Group::allocate(std::size_t size) {
  Bytes bytes(static_cast<std::byte*>(std::aligned_alloc(kPage, size)));
  if (!bytes) throw Trouble(fmt::format("no memory for {} bytes", size));
  std::memset(bytes.get(), 0, size);
  return bytes;
}

Group::Group(const Device& device, const Case& what, std::chrono::seconds patience)
    : what_(what),
      patience_(patience),
      receives_(receives_of(what)),
      requests_(what.window + 4),
      stride_((what.size + kPage - 1) / kPage * kPage),
      bytes_(allocate(2 * stride_ * what.endpoints)),
      zone_(device.adapter),
      memory_(device.adapter, zone_, {bytes_.get(), 2 * stride_ * what.endpoints},
              privileges(device)),
      completions_(device.adapter, completion_flags(device),
                   static_cast<DAT_COUNT>((receives_ + requests_) * what.endpoints)),
      connections_(device.adapter, DAT_EVD_CONNECTION_FLAG,
                   static_cast<DAT_COUNT>(2 * what.endpoints + 2)),
      peers_(what.endpoints) {
  const DAT_EP_ATTR attributes = endpoint_attributes(device, what.size, receives_, requests_);
  endpoints_.reserve(what.endpoints);
  for (std::uint32_t i = 0; i < what.endpoints; ++i)
    endpoints_.emplace_back(device.adapter, zone_, completions_, completions_, connections_,
                            &attributes);
  switch (what.operation) {
    case Operation::kSend:
      post_ = &Group::post_send_whole;
      break;
    case Operation::kWrite:
      post_ = &Group::post_write;
      break;
    case Operation::kRead:
      post_ = &Group::post_read;
      break;
    case Operation::kFetchAdd:
      post_ = &Group::post_fetch_add;
      break;
  }
}

Invitation Group::invitation(std::uint32_t index) const {
  const DAT_RMR_TRIPLET target_piece = memory_.remote(target(index), what_.size);
  return {target_piece.virtual_address, target_piece.rmr_context};
}

void Group::set_peer(std::uint32_t index, std::uint64_t address, std::uint32_t context) {
  peers_[index].virtual_address = address;
  peers_[index].segment_length = what_.size;
  peers_[index].rmr_context = context;
}

void Group::post_receives() {
  for (std::uint32_t i = 0; i < endpoints(); ++i)
    for (std::uint32_t n = 0; n < receives_; ++n) post_receive(i);
}

void Group::post_read(std::uint32_t index) {
  const DAT_LMR_TRIPLET local = memory_.segment(source(index), what_.size);
  endpoints_[index].post_read({&local, 1}, peers_[index], cookie(index, false));
}

void Group::post_fetch_add(std::uint32_t index) {
  DAT_LMR_TRIPLET local = memory_.segment(source(index), kAtomicSize);
  DAT_RMR_TRIPLET remote = peers_[index];
  remote.segment_length = kAtomicSize;
  const DAT_DTO_COOKIE which = cookie(index, false);
  dat::check(dat_ib_post_fetch_and_add(endpoints_[index].handle(), 1, &local, which, &remote,
                                       DAT_COMPLETION_DEFAULT_FLAG),
             "dat_ib_post_fetch_and_add");
}

bool Group::digest(const DAT_EVENT& event, Done& done, bool& failed) {
  const dat::Completion completion = dat::completion_of(event);
  done.endpoint = static_cast<std::uint32_t>(completion.cookie.as_64 >> 1);
  done.received = (completion.cookie.as_64 & 1) != 0;
  done.length = static_cast<std::uint32_t>(completion.length);
  failed = !completion.good();
  if (failed) [[unlikely]]
    last_failure_ = completion.status;
  return true;
}

bool Group::next(Done& done, bool& failed, std::chrono::milliseconds limit) {
  if (what_.waiting == Waiting::kPoll) {
    Clock::time_point end{};
    for (unsigned turn = 0;; ++turn) {
      if (poll(done, failed)) [[likely]]
        return true;
      if (turn % 1024 == 1023) {  // reading the clock on every turn would cost too much
        const auto now = Clock::now();
        if (end == Clock::time_point{}) end = now + limit;
        if (now >= end) return false;
      }
    }
  }
  DAT_EVENT event;
  DAT_COUNT more = 0;
  const DAT_RETURN status =
      dat_evd_wait(completions_.handle(), dat::timeout(limit), 1, &event, &more);
  if (status == DAT_SUCCESS) [[likely]]
    return digest(event, done, failed);
  if (DAT_GET_TYPE(status) != DAT_TIMEOUT_EXPIRED && DAT_GET_TYPE(status) != DAT_INTERRUPTED_CALL)
    dat::fail(status, "dat_evd_wait");
  return false;
}

Done Group::next() {
  Done done;
  bool failed = false;
  if (!next(done, failed, patience_))
    throw Trouble(fmt::format("no answer in {} s", patience_.count()));
  if (failed)
    throw Trouble(fmt::format("{} failed: {}", done.received ? "a receive" : "a transfer",
                              dat_dto_status_name(last_failure_)));
  return done;
}

// The provider may store the byte at any time, so this data race is intended.
__attribute__((no_sanitize("thread"))) std::uint8_t Group::last_byte(std::uint32_t index) const {
  const volatile std::byte* byte = bytes_.get() + target(index) + what_.size - 1;
  return std::to_integer<std::uint8_t>(*byte);
}

void Group::set_last_byte(std::uint32_t index, std::uint8_t value) {
  bytes_.get()[source(index) + what_.size - 1] = static_cast<std::byte>(value);
}

}  // namespace datperf
