// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/device.h"

#include <rdma/rdma_cma.h>

#include "common/cause.h"
#include "common/trace.h"
#include "providers/verbs/ia_params.h"
#include "providers/verbs/local_address.h"
#include "providers/verbs/status.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

namespace udapl::verbs {

namespace {

using transport::SocketAddress;

// The devices of this machine.
class DeviceList {
 public:
  DeviceList() : devices_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (devices_ != nullptr) ibv_free_device_list(devices_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  [[nodiscard]] ibv_device* find(const std::string& name) const {
    for (int i = 0; i < count_; ++i)
      if (name == ibv_get_device_name(devices_[i])) return devices_[i];
    return nullptr;
  }
  // "rxe0 port 1 ACTIVE, mlx5_0 port 1 DOWN, ...".
  [[nodiscard]] std::string text() const {
    std::string list;
    for (int i = 0; i < count_; ++i) {
      if (!list.empty()) list += ", ";
      list.append(ibv_get_device_name(devices_[i])).append(ports_of(devices_[i]));
    }
    return list.empty() ? "none" : list;
  }

 private:
  static std::string ports_of(ibv_device* device) {
    const std::unique_ptr<ibv_context, CloseDevice> context(ibv_open_device(device));
    ibv_device_attr attr{};
    if (context == nullptr || ibv_query_device(context.get(), &attr) != 0)
      return std::string(" (cannot be opened: ") + std::strerror(errno) + ")";
    std::string text;
    for (std::uint8_t port = 1; port <= attr.phys_port_cnt; ++port) {
      ibv_port_attr state{};
      text.append(" port ")
          .append(std::to_string(port))
          .append(1, ' ')
          .append(ibv_query_port(context.get(), port, &state) == 0 ? name_of(state.state)
                                                                   : "UNKNOWN");
    }
    return text;
  }

  int count_ = 0;
  ibv_device** const devices_;
};

struct Place {
  std::string device;
  std::uint8_t port;
};

// Asks the connection manager on which device and port an address is. errno if on none.
std::optional<Place> place_of(const SocketAddress& address) {
  const std::unique_ptr<rdma_event_channel, decltype(&rdma_destroy_event_channel)> channel(
      rdma_create_event_channel(), rdma_destroy_event_channel);
  if (channel == nullptr) return std::nullopt;
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel.get(), &id, nullptr, RDMA_PS_TCP) != 0) return std::nullopt;
  std::optional<Place> place;
  SocketAddress copy = address;
  int error = ENODEV;
  if (rdma_bind_addr(id, copy.get()) != 0)
    error = errno;
  else if (id->verbs != nullptr)
    place = Place{ibv_get_device_name(id->verbs->device), id->port_num};
  rdma_destroy_id(id);
  errno = error;
  return place;
}

// What NAME PORT means.
struct Found {
  Place place;
  const Interface* interface;
};

// The first address that is on that device and port (0: on any). A device may have several.
std::optional<Found> by_device(const std::vector<Interface>& interfaces, const IaParams& params) {
  std::optional<Found> second_best;
  for (const Interface& interface : interfaces) {
    const auto place = place_of(interface.address);
    if (!place || place->device != params.name) continue;
    if (params.port != 0 && place->port != params.port) continue;
    // The best one of its interface, which is IPv4 where there is one.
    const Interface* const best = by_name(interfaces, interface.name);
    if (best != nullptr && best->address.family() == AF_INET) return Found{*place, best};
    if (!second_best) second_best = Found{*place, &interface};
  }
  return second_best;
}

Status not_found(const IaParams& params, const char* why, const DeviceList& devices,
                 const std::vector<Interface>& interfaces) {
  UDAPL_EXPLAIN(kError, dat_error(DAT_INVALID_ADDRESS),
                "dat.conf: \"%s %d\": %s. RDMA devices: %s. Interfaces: %s", params.name.c_str(),
                params.port, why, devices.text().c_str(), list_of(interfaces).c_str());
  return failure(DAT_INVALID_ADDRESS);
}

Result<Found> locate(const IaParams& params, const DeviceList& devices,
                     const std::vector<Interface>& interfaces) {
  const Interface* interface = by_name(interfaces, params.name);
  if (interface == nullptr) interface = by_number(interfaces, params.name);
  if (interface == nullptr && devices.find(params.name) != nullptr) {
    auto found = by_device(interfaces, params);
    if (found) return *std::move(found);
    return not_found(params, "no interface with an IP address is on that RDMA device and port",
                     devices, interfaces);
  }
  const bool numeric = params.name.find_first_not_of("0123456789.") == std::string::npos ||
                       params.name.find(':') != std::string::npos;
  if (interface == nullptr && !numeric) interface = by_host_name(interfaces, params.name);
  if (interface == nullptr)
    return not_found(params,
                     "not a network interface with an address, an address or host name of this "
                     "machine, or an RDMA device",
                     devices, interfaces);
  const auto place = place_of(interface->address);
  if (place) return Found{*place, interface};
  const std::string why = to_text(interface->address) + " (" + interface->name +
                          ") is on no RDMA device: " + std::strerror(errno);
  return not_found(params, why.c_str(), devices, interfaces);
}

bool names_address(const ibv_gid& gid, const SocketAddress& address) noexcept {
  if (address.family() == AF_INET6)
    return std::memcmp(gid.raw, &address.storage.sin6_addr, sizeof gid.raw) == 0;
  constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const auto* const ipv4 = reinterpret_cast<const sockaddr_in*>(address.get());
  return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0 &&
         std::memcmp(gid.raw + sizeof kMapped, &ipv4->sin_addr, sizeof ipv4->sin_addr) == 0;
}

// RoCE: the entry of the address, version 2 before version 1. Else, and without such an entry:
// entry 0, the port's own.
void choose_gid(Device& device) {
  if (device.ethernet() && !device.iwarp()) {
    std::vector<ibv_gid_entry> entries(
        static_cast<std::size_t>(std::max(device.port_attr.gid_tbl_len, 1)) *
        std::max<std::size_t>(device.attr.phys_port_cnt_ex, 1));
    const ssize_t count =
        ibv_query_gid_table(device.context.get(), entries.data(), entries.size(), 0);
    const ibv_gid_entry* best = nullptr;
    for (ssize_t i = 0; i < count; ++i) {
      const ibv_gid_entry& entry = entries[static_cast<std::size_t>(i)];
      if (entry.port_num != device.port || !names_address(entry.gid, device.address)) continue;
      if (best == nullptr || entry.gid_type > best->gid_type) best = &entry;
    }
    if (best != nullptr) {
      device.gid_index = static_cast<int>(best->gid_index);
      device.gid = best->gid;
      device.gid_type = static_cast<ibv_gid_type>(best->gid_type);
      return;
    }
  }
  if (ibv_query_gid(device.context.get(), device.port, 0, &device.gid) != 0) device.gid = {};
}

// Opens the device and asks for what it can do.
Status open(ibv_device* found, Device& device) {
  device.context.reset(ibv_open_device(found));
  if (device.context == nullptr) {
    const int error = errno;
    const Status status = status_of(error == 0 ? ENODEV : error);
    UDAPL_TRACE(kError, "cannot open RDMA device %s: %s", device.name.c_str(),
                std::strerror(error));
    cause::note(status.code(), "cannot open RDMA device %s: %s%s", device.name.c_str(),
                std::strerror(error), cause::remedy(error));
    return status;
  }
  ibv_context* const context = device.context.get();
  int error = ibv_query_device_ex(context, nullptr, &device.attr);
  if (error != 0) {
    device.attr = {};
    error = ibv_query_device(context, &device.attr.orig_attr);
    device.attr.phys_port_cnt_ex = device.attr.orig_attr.phys_port_cnt;
  }
  if (error == 0) error = ibv_query_port(context, device.port, &device.port_attr);
  if (error != 0) {
    const Status status = status_of(error);
    UDAPL_EXPLAIN(kError, status.code(), "cannot query %s port %d: %s", device.name.c_str(),
                  device.port, std::strerror(error));
    return status;
  }
  choose_gid(device);
  return Status();
}

}  // namespace

Result<Device> find_device(std::string_view ia_params) {
  const auto params = parse_ia_params(ia_params);
  if (!params) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INVALID_PARAMETER),
                  "dat.conf: the seventh field \"%.*s\" does not name a device and port: \"ib0 0\"",
                  static_cast<int>(ia_params.size()), ia_params.data());
    return failure(DAT_INVALID_PARAMETER);
  }
  const auto interfaces = local_interfaces();
  if (!interfaces) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INSUFFICIENT_RESOURCES),
                  "cannot list the network interfaces: %s", std::strerror(errno));
    return failure(DAT_INSUFFICIENT_RESOURCES);
  }
  const DeviceList devices;
  Result<Found> found = locate(*params, devices, *interfaces);
  if (!found.ok()) return found.status();

  Device device;
  const Found& where = *found;
  device.name = where.place.device;
  device.port = where.place.port;
  device.netdev = where.interface->name;
  device.address = where.interface->address;
  ibv_device* const verbs_device = devices.find(device.name);
  if (verbs_device == nullptr)
    return not_found(*params, "its RDMA device has just gone", devices, *interfaces);
  if (const Status status = open(verbs_device, device); !status.ok()) return status;
  return device;
}

}  // namespace udapl::verbs
