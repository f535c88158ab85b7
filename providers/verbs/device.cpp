// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/device.h"

#include "common/errno_text.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/connecting/socket_address.h"
#include "providers/verbs/device_list.h"
#include "providers/verbs/environment.h"
#include "providers/verbs/ia_params.h"
#include "providers/verbs/local_address.h"
#include "providers/verbs/status.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <endian.h>

namespace udapl::verbs {

namespace {

using transport::SocketAddress;

// What "NAME PORT" of dat.conf stands for.
struct Found {
  Place place;
  std::string netdev;
  SocketAddress address;
  bool by_gid = false;
};

// The first address on that device and port (0: any port). A device may have several.
std::optional<Found> by_device(const DeviceList& devices, const std::vector<Interface>& interfaces,
                               const IaParams& params) {
  std::optional<Found> second_best;
  for (const Interface& interface : interfaces) {
    const auto place = devices.place_of(interface.address);
    if (!place || place->device != params.name) continue;
    if (params.port != 0 && place->port != params.port) continue;
    // Prefers the best address of the interface if that is IPv4.
    const Interface* const best = by_name(interfaces, interface.name);
    if (best != nullptr && best->address.family() == AF_INET)
      return Found{*place, best->name, best->address};
    if (!second_best) second_best = Found{*place, interface.name, interface.address};
  }
  return second_best;
}

Status not_found(const IaParams& params, const char* why, const DeviceList& devices,
                 const std::vector<Interface>& interfaces) {
  const std::string all = devices.text();
  // The device or port may exist, but could not be searched for.
  if (const int error = devices.shortage(); error != 0) {
    const Status status = status_of(error);
    UDAPL_EXPLAIN(kError, status.code(), "dat.conf: \"%s %d\": the search failed: %s%s",
                  params.name.c_str(), params.port, ErrnoText(error).c_str(), cause::remedy(error));
    return status;
  }
  UDAPL_EXPLAIN(kError, dat_error(DAT_INVALID_ADDRESS),
                "dat.conf: \"%s %d\": %s. RDMA devices: %s. Interfaces: %s", params.name.c_str(),
                params.port, why, all.c_str(), list_of(interfaces).c_str());
  return failure(DAT_INVALID_ADDRESS);
}

// InfiniBand ports can be addressed without an IP address, if rdma_cm can bind to their GIDs.
Result<Found> locate_by_gid(const IaParams& params, const DeviceList& devices,
                            const std::vector<Interface>& interfaces,
                            const std::optional<PortGid>& port) {
  if (!port)
    return not_found(
        params,
        "no interface with an IP address is on that RDMA device and port, and it is not an "
        "InfiniBand port, which would not need one",
        devices, interfaces);
  Found found{port->place, {}, address_of(port->gid), true};
  const auto place = devices.place_of(found.address, port->pkey);
  if (place && place->device == found.place.device && place->port == found.place.port) return found;
  const std::string why = std::string(
                              "no interface with an IP address is on that RDMA device and "
                              "port, and rdma_cm does not bind to its GID ") +
                          to_text(found.address) + ": " +
                          (place ? "it is on " + place->device : ErrnoText(errno).c_str());
  return not_found(params, why.c_str(), devices, interfaces);
}

Result<Found> locate(const IaParams& params, const DeviceList& devices,
                     const std::vector<Interface>& interfaces) {
  const Interface* interface = by_name(interfaces, params.name);
  if (interface == nullptr) interface = by_number(interfaces, params.name);
  if (interface == nullptr && devices.find(params.name) != nullptr) {
    auto found = by_device(devices, interfaces, params);
    if (found) return *std::move(found);
    return locate_by_gid(params, devices, interfaces,
                         devices.infiniband_port(params.name, params.port));
  }
  const bool numeric = is_numeric(params.name);
  if (interface == nullptr && numeric) {
    const auto port = devices.port_with_gid(params.name);
    if (port) return locate_by_gid(params, devices, interfaces, port);
  }
  if (interface == nullptr && !numeric) interface = by_host_name(interfaces, params.name);
  if (interface == nullptr)
    return not_found(params, why_no_interface(params.name).c_str(), devices, interfaces);
  const auto place = devices.place_of(interface->address);
  if (place) return Found{*place, interface->name, interface->address};
  const std::string why = to_text(interface->address) + " (" + interface->name +
                          ") is on no RDMA device: " + ErrnoText(errno).c_str();
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

// Chooses the entry of the GID table. RoCE: that of the address, version 2 before version 1. A port
// that is addressed by its GID: that of the GID. Otherwise, or if there is no such entry: entry 0,
// the port's own.
void choose_gid(Device& device) {
  if ((device.ethernet() && !device.iwarp()) || device.by_gid) {
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

// Chooses the partition of connections by GID: the requested one, otherwise the port's first.
// Connections by IP address are in the partition of their interface.
void choose_partition(Device& device, std::optional<std::uint16_t> wanted) {
  if (!device.by_gid) return;
  constexpr unsigned kPartition = 0x7fff;  // without the membership bit
  std::string all;
  std::optional<std::uint16_t> first;
  for (int i = 0; i < device.port_attr.pkey_tbl_len; ++i) {
    __be16 entry = 0;
    if (ibv_query_pkey(device.context.get(), device.port, i, &entry) != 0) continue;
    const std::uint16_t pkey = be16toh(entry);
    if ((pkey & kPartition) == 0) continue;  // unused
    if (!first) first = pkey;
    if (wanted && ((pkey ^ *wanted) & kPartition) == 0) {
      device.pkey = pkey;
      return;
    }
    char text[16];
    std::snprintf(text, sizeof text, "%s0x%04x", all.empty() ? "" : ", ", pkey);
    all += text;
  }
  device.pkey = first.value_or(kDefaultPkey);
  if (wanted)
    UDAPL_TRACE(kError,
                "DAPL_IB_PKEY: %s port %d is not in partition 0x%04x, but in %s; 0x%04x it is",
                device.name.c_str(), device.port, *wanted, all.c_str(), device.pkey);
}

// Opens the device and queries its capabilities.
Status open(ibv_device* found, const Environment& environment, Device& device) {
  device.context.reset(ibv_open_device(found));
  if (device.context == nullptr) {
    const int error = errno;
    const Status status = status_of(error == 0 ? ENODEV : error);
    UDAPL_EXPLAIN_ERRNO(kError, status.code(), error, "cannot open RDMA device %s",
                        device.name.c_str());
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
                  device.port, ErrnoText(error).c_str());
    return status;
  }
  choose_gid(device);
  choose_partition(device, environment.pkey);
  return Status();
}

}  // namespace

Result<Device> find_device(std::string_view ia_params, const Environment& environment,
                           const ConnectorKit& kit) {
  const auto params = parse_ia_params(ia_params);
  if (!params) {
    UDAPL_EXPLAIN(
        kError, dat_error(DAT_INVALID_PARAMETER),
        "dat.conf: the seventh field \"%.*s\" is not a device and port, as in \"ib0 0\", with "
        "delayed_ack=on or off after them",
        static_cast<int>(ia_params.size()), ia_params.data());
    return failure(DAT_INVALID_PARAMETER);
  }
  const auto interfaces = local_interfaces();
  if (!interfaces) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INSUFFICIENT_RESOURCES),
                  "cannot list the network interfaces: %s", ErrnoText(errno).c_str());
    return failure(DAT_INSUFFICIENT_RESOURCES);
  }
  const DeviceList devices(kit);
  Result<Found> found = locate(*params, devices, *interfaces);
  if (!found.ok()) return found.status();

  Device device;
  const Found& where = *found;
  device.name = where.place.device;
  device.port = where.place.port;
  device.netdev = where.netdev;
  device.address = where.address;
  device.by_gid = where.by_gid;
  ibv_device* const verbs_device = devices.find(device.name);
  if (verbs_device == nullptr)
    return not_found(*params, "its RDMA device has just been removed", devices, *interfaces);
  if (const Status status = open(verbs_device, environment, device); !status.ok()) return status;
  // On InfiniBand and RoCE a request completes only when the peer's adapter has acknowledged it.
  if (params->delayed_ack && device.iwarp()) {
    UDAPL_EXPLAIN(kError, dat_error(DAT_INVALID_PARAMETER),
                  "dat.conf: \"%.*s\": the iWARP device %s does not support delayed_ack",
                  static_cast<int>(ia_params.size()), ia_params.data(), device.name.c_str());
    return failure(DAT_INVALID_PARAMETER);
  }
  return device;
}

}  // namespace udapl::verbs
