// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// placed - shows when a completed RDMA Write means that the data is in the peer's memory, in C++
// with <dat/dat.hpp>.
//
//   placed --server [--ia NAME] [--port PORT]           in one window
//   placed [--plain] [--ia NAME] [--port PORT] HOST     in another; --plain: without the attribute
//
// placed.c is the same in C, and explains the purpose of delayed_ack. The two can be combined.
#include <dat/dat_trclvl.h>
#include <dat/dat.hpp>

#include <endian.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>

namespace {

constexpr std::size_t kSize = 4096;
constexpr auto kPatience = std::chrono::seconds(10);

struct Options {
  bool server = false;
  bool plain = false;
  std::string ia = "soft";
  DAT_CONN_QUAL port = 45250;
  std::string host;
};

// The server's private data, big-endian: where the client may write.
struct Invitation {
  std::uint64_t address;
  std::uint32_t rmr_context;
};

// The objects of one side.
struct Side {
  Side(const std::string& name, DAT_MEM_PRIV_FLAGS privileges)
      : adapter(name),
        zone(adapter),
        transfers(adapter, DAT_EVD_DTO_FLAG, 8),
        connections(adapter, DAT_EVD_CONNECTION_FLAG, 8),
        memory(adapter, zone, bytes, privileges),
        endpoint(adapter, zone, transfers, transfers, connections) {}

  std::array<std::byte, kSize> bytes{};
  dat::Adapter adapter;
  dat::Zone zone;
  dat::Queue transfers;
  dat::Queue connections;
  dat::Memory memory;
  dat::Endpoint endpoint;
};

template <typename Kind>
Kind expect(const dat::Queue& queue) {
  const std::optional<dat::Event> event = queue.wait(kPatience);
  if (!event) throw std::runtime_error("timed out");
  const Kind* const kind = std::get_if<Kind>(&*event);
  if (kind == nullptr) throw std::runtime_error("an event that was not expected");
  return *kind;
}

int serve(const Options& options) {
  Side side(options.ia, DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
  const dat::Queue requests(side.adapter, DAT_EVD_CR_FLAG, 8);
  const dat::Listener listener(side.adapter, options.port, requests);
  std::cout << "listening on port " << options.port << std::endl;
  const std::optional<dat::Event> event = requests.wait();
  if (!event) return 1;
  dat::Request request(std::get<dat::Arrival>(*event));
  const DAT_RMR_TRIPLET target = side.memory.remote(0, kSize);
  const std::array invitation = {
      Invitation{htobe64(target.virtual_address), htobe32(target.rmr_context)}};
  request.accept(side.endpoint, std::as_bytes(std::span(invitation)));
  expect<dat::Established>(side.connections);
  expect<dat::Ended>(side.connections);  // the invalid key ends the connection
  return 0;
}

// Sets the attribute; call it before the endpoint is connected. Returns false if the adapter does
// not support it.
bool delay_ack(const Side& side) {
  const DAT_IA_ATTR attributes = side.adapter.attributes();
  const char* const supported = dat_named_attr_value(
      attributes.vendor_attr, attributes.num_vendor_attr, DAT_VENDOR_ATTR_DELAYED_ACK_SUPPORTED);
  if (supported == nullptr || std::string_view(supported) != "true") return false;
  DAT_NAMED_ATTR wanted{};
  wanted.name = DAT_EP_ATTR_DELAYED_ACK;
  wanted.value = "true";
  DAT_EP_PARAM param{};
  param.ep_attr.ep_provider_specific_count = 1;
  param.ep_attr.ep_provider_specific = &wanted;
  dat::check(dat_ep_modify(side.endpoint.handle(),
                           DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR |
                               DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR,
                           &param),
             "dat_ep_modify");
  return true;
}

void write_once(const Side& side, const DAT_RMR_TRIPLET& target, const char* what) {
  const DAT_LMR_TRIPLET source = side.memory.segment();
  side.endpoint.post_write(dat::Segments(&source, 1), target);
  const bool good = expect<dat::Completion>(side.transfers).good();
  std::cout << what << ": " << (good ? "success" : "failed") << '\n';
}

int write_both(const Options& options) {
  const Side side(options.ia, DAT_MEM_PRIV_LOCAL_READ_FLAG);
  if (!options.plain && !delay_ack(side))
    std::cout << "no delayed_ack: completions are as the adapter makes them\n";
  side.endpoint.connect(options.host, options.port, kPatience);
  const auto established = expect<dat::Established>(side.connections);
  Invitation invitation{};
  if (established.private_data.size() < sizeof invitation)
    throw std::runtime_error("this is not a placed server");
  std::memcpy(&invitation, established.private_data.data(), sizeof invitation);
  DAT_RMR_TRIPLET target{};
  target.virtual_address = be64toh(invitation.address);
  target.segment_length = kSize;
  target.rmr_context = be32toh(invitation.rmr_context);
  write_once(side, target, "right key");
  target.rmr_context ^= 0x5a5a00;
  write_once(side, target, "wrong key");
  expect<dat::Ended>(side.connections);
  return 0;
}

int usage(std::ostream& out, int status) {
  out << "usage: placed --server [--ia NAME] [--port PORT]\n"
         "       placed [--plain] [--ia NAME] [--port PORT] HOST\n"
         "NAME is an entry of dat.conf (soft), PORT 1024 to 65535 (45250).\n";
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--help") return usage(std::cout, 0);
    if (word == "--server") {
      options.server = true;
    } else if (word == "--plain") {
      options.plain = true;
    } else if (word == "--ia" && has_value) {
      options.ia = argv[++i];
    } else if (word == "--port" && has_value) {
      options.port = std::strtoul(argv[++i], nullptr, 10);
    } else if (word.starts_with("--") || !options.host.empty()) {
      std::cerr << "placed: '" << word << "' is not an option\n";
      return usage(std::cerr, 2);
    } else {
      options.host = word;
    }
  }
  if (options.server != options.host.empty()) return usage(std::cerr, 2);
  try {
    return options.server ? serve(options) : write_both(options);
  } catch (const std::exception& error) {
    std::cerr << "placed: " << error.what() << '\n';
    return 1;
  }
}
