// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The connections of a node; transfer.cpp has the transfers.
#include "node.h"

#include "layout.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

namespace datmesh {

namespace {

constexpr const char* kAddressKey = "datmesh.address";
constexpr std::uint32_t kMagic = 0x646d6831;  // "dmh1"

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
                sizeof text);
  else
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
                sizeof text);
  return text;
}

DAT_EP_ATTR attributes_of(const Options& options) {
  DAT_EP_ATTR attributes{};
  attributes.service_type = DAT_SERVICE_TYPE_RC;
  attributes.max_message_size = std::max<DAT_SEG_LENGTH>(options.size, kMessage);
  attributes.max_rdma_size = options.size;
  attributes.qos = DAT_QOS_BEST_EFFORT;
  attributes.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attributes.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attributes.max_recv_dtos = kSlots;
  attributes.max_request_dtos = static_cast<DAT_COUNT>(options.window + kSlots);
  attributes.max_recv_iov = 1;
  attributes.max_request_iov = 1;
  attributes.max_rdma_write_iov = 1;
  return attributes;
}

}  // namespace

Node::Node(Job& job, const Options& options)
    : job_(job),
      options_(options),
      adapter_(options.ia),
      zone_(adapter_),
      bytes_(Layout{options.size, job.size()}.all()),
      memory_(adapter_, zone_, bytes_,
              DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG |
                  DAT_MEM_PRIV_REMOTE_WRITE_FLAG),
      transfers_(adapter_, DAT_EVD_DTO_FLAG,
                 static_cast<DAT_COUNT>(job.size() * (options.window + 2 * kSlots))),
      connections_(adapter_, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG,
                   static_cast<DAT_COUNT>(8 * job.size() + 64)),
      listener_(adapter_, options.port + job.rank(), connections_),
      links_(job.size()) {
  const DAT_EP_ATTR attributes = attributes_of(options_);
  const Layout layout{options_.size, job.size()};
  for (std::uint32_t peer = 0; peer < job.size(); ++peer) {
    peers_.emplace_back(
        dat::Endpoint(adapter_, zone_, transfers_, transfers_, connections_, &attributes));
    for (std::uint32_t slot = 0; slot < kSlots && peer != job.rank(); ++slot)
      peers_.back().endpoint.post_recv(memory_.segment(layout.slot(peer, slot), kMessage),
                                       dat::cookie(cookie_of(peer, slot)));
  }
}

void Node::publish() {
  const DAT_IA_ATTR attributes = adapter_.attributes();
  job_.put(kAddressKey,
           fmt::format("{} {}", text_of(attributes.ia_address_ptr), options_.port + job_.rank()));
  job_.fence([this] { handle_events(std::chrono::milliseconds(5)); });
}

void Node::read_addresses() {
  for (std::uint32_t peer = 0; peer < job_.size(); ++peer) {
    std::istringstream words(job_.get(peer, kAddressKey));
    words >> peers_[peer].address >> peers_[peer].port;
  }
}

// Private data: this rank, and the memory that the peer may write to.
std::vector<std::byte> Node::introduction(std::uint32_t to) const {
  const Layout layout{options_.size, job_.size()};
  const DAT_RMR_TRIPLET piece = memory_.remote(layout.target(to), options_.size);
  std::vector<std::byte> bytes(24);
  const std::uint32_t magic = htonl(kMagic);
  const std::uint32_t rank = htonl(job_.rank());
  const std::uint32_t high = htonl(static_cast<std::uint32_t>(piece.virtual_address >> 32));
  const std::uint32_t low = htonl(static_cast<std::uint32_t>(piece.virtual_address));
  const std::uint32_t context = htonl(piece.rmr_context);
  const std::uint32_t words[] = {magic, rank, high, low, context, 0};
  std::memcpy(bytes.data(), words, bytes.size());
  return bytes;
}

namespace {

// The rank in an introduction, and its triplet; nullopt if the bytes are no introduction.
std::optional<std::uint32_t> read_introduction(std::span<const std::byte> bytes,
                                               DAT_RMR_TRIPLET& triplet) {
  std::uint32_t words[6];
  if (bytes.size() < sizeof words) return std::nullopt;
  std::memcpy(words, bytes.data(), sizeof words);
  if (ntohl(words[0]) != kMagic) return std::nullopt;
  triplet.virtual_address = DAT_VADDR{ntohl(words[2])} << 32 | ntohl(words[3]);
  triplet.rmr_context = ntohl(words[4]);
  return ntohl(words[1]);
}

}  // namespace

void Node::request_connection(std::uint32_t to) {
  Peer& peer = peers_[to];
  peer.connecting = true;
  peer.requested_at = Clock::now();
  try {
    peer.endpoint.connect(peer.address, peer.port, std::chrono::seconds(options_.timeout_s),
                          introduction(to));
  } catch (const std::exception& error) {
    peer.connecting = false;
    links_[to].problem = error.what();
  }
}

std::uint32_t Node::index_of(DAT_EP_HANDLE endpoint) const {
  for (std::uint32_t i = 0; i < peers_.size(); ++i)
    if (peers_[i].endpoint.handle() == endpoint) return i;
  return job_.rank();
}

void Node::admit(const dat::Arrival& arrival) {
  dat::Request request(arrival);
  const DAT_CR_PARAM parameters = request.parameters();
  DAT_RMR_TRIPLET triplet{};
  const auto from =
      read_introduction({static_cast<const std::byte*>(parameters.private_data),
                         static_cast<std::size_t>(std::max(parameters.private_data_size, 0))},
                        triplet);
  if (!from || *from >= job_.rank() || peers_[*from].connecting) return;  // unknown peer: rejects
  peers_[*from].connecting = true;
  triplet.segment_length = options_.size;
  peers_[*from].target = triplet;
  request.accept(peers_[*from].endpoint, introduction(*from));
}

void Node::established(const dat::Established& event) {
  const std::uint32_t index = index_of(event.endpoint);
  Peer& peer = peers_[index];
  peer.established = true;
  if (index < job_.rank()) return;
  links_[index].setup_us =
      std::chrono::duration<double, std::micro>(Clock::now() - peer.requested_at).count();
  peer.connecting = false;
  if (!read_introduction(event.private_data, peer.target))
    links_[index].problem = "an invalid answer";
  peer.target.segment_length = options_.size;
}

void Node::ended(const dat::Ended& event) {
  const std::uint32_t index = index_of(event.endpoint);
  peers_[index].connecting = peers_[index].established = false;
  if (links_[index].problem.empty()) links_[index].problem = event.name();
}

void Node::handle_events(std::chrono::milliseconds limit) {
  const std::optional<dat::Event> event = connections_.wait(limit);
  if (!event) return;
  std::visit(dat::Handlers{[this](const dat::Arrival& arrival) {
                             try {
                               admit(arrival);
                             } catch (const dat::Error&) {
                               return;  // the peer gets the rejection and reports it
                             }
                           },
                           [this](const dat::Established& up) { established(up); },
                           [this](const dat::Ended& end) { ended(end); }, [](const auto&) {}},
             *event);
}

void Node::connect_all() {
  publish();
  read_addresses();
  for (std::uint32_t peer = job_.rank() + 1; peer < job_.size(); ++peer) {
    request_connection(peer);
    while (peers_[peer].connecting) handle_events(std::chrono::milliseconds(100));
  }
  // When all ranks have reached the fence, every connection request has been answered.
  job_.fence([this] { handle_events(std::chrono::milliseconds(5)); });
  const auto end = Clock::now() + std::chrono::seconds(2);
  for (std::uint32_t peer = 0; peer < job_.rank(); ++peer) {
    while (!peers_[peer].established && peers_[peer].connecting && Clock::now() < end)
      handle_events(std::chrono::milliseconds(20));
    if (!peers_[peer].established && links_[peer].problem.empty())
      links_[peer].problem = "no connection request arrived";
  }
}

}  // namespace datmesh
