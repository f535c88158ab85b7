// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/device_list.h"

#include <arpa/inet.h>

#include "common/errno_text.h"
#include "providers/connecting/socket_address.h"
#include "providers/verbs/device.h"
#include "providers/verbs/status.h"

#include <cerrno>
#include <cstring>
#include <memory>

#include <endian.h>

namespace udapl::verbs {

using transport::SocketAddress;

namespace {

using Context = std::unique_ptr<ibv_context, CloseDevice>;

bool is_infiniband(const ibv_context* context, const ibv_port_attr& attr) noexcept {
  return context != nullptr && attr.link_layer == IBV_LINK_LAYER_INFINIBAND &&
         context->device->transport_type == IBV_TRANSPORT_IB;
}

std::optional<PortGid> port_gid(ibv_context* context, std::uint8_t port, int index) {
  PortGid result{{ibv_get_device_name(context->device), port}, {}, kDefaultPkey};
  if (ibv_query_gid(context, port, index, &result.gid) != 0) return std::nullopt;
  __be16 pkey = 0;
  if (ibv_query_pkey(context, port, 0, &pkey) == 0 && pkey != 0) result.pkey = be16toh(pkey);
  return result;
}

}  // namespace

DeviceList::DeviceList(const ConnectorKit& kit)
    : kit_(kit), devices_(ibv_get_device_list(&count_)) {
  if (devices_ == nullptr) note(errno);
}

int DeviceList::note(int error) const noexcept {
  if (error == ENOMEM || error == EMFILE || error == ENFILE || error == EAGAIN) shortage_ = error;
  return error;
}

// Calls `what` with the number and attributes of each port; attributes that cannot be queried are
// 0. If the device cannot be opened, calls it once with an error instead.
template <class F>
void DeviceList::for_each_port(ibv_device* device, F what) const {
  errno = 0;
  const Context context(ibv_open_device(device));
  if (context == nullptr) return what(nullptr, 0, {}, note(errno));
  ibv_device_attr attr{};
  if (const int error = ibv_query_device(context.get(), &attr); error != 0)
    return what(nullptr, 0, {}, note(error));
  for (unsigned port = 1; port <= attr.phys_port_cnt; ++port) {
    const auto number = static_cast<std::uint8_t>(port);
    ibv_port_attr state{};
    if (note(ibv_query_port(context.get(), number, &state)) != 0) state = {};
    what(context.get(), number, state, 0);
  }
}

ibv_device* DeviceList::find(const std::string& name) const {
  for (int i = 0; i < count_; ++i)
    if (name == ibv_get_device_name(devices_[i])) return devices_[i];
  return nullptr;
}

std::optional<PortGid> DeviceList::infiniband_port(const std::string& name, int wanted) const {
  ibv_device* const device = find(name);
  std::optional<PortGid> found;
  bool active = false;
  if (device == nullptr) return found;
  for_each_port(device,
                [&](ibv_context* context, std::uint8_t port, const ibv_port_attr& attr, int) {
                  if (!is_infiniband(context, attr) || active || (wanted != 0 && port != wanted))
                    return;
                  active = attr.state == IBV_PORT_ACTIVE;
                  if (active || !found) found = port_gid(context, port, 0);
                });
  return found;
}

std::optional<PortGid> DeviceList::port_with_gid(const std::string& text) const {
  ibv_gid wanted{};
  std::optional<PortGid> found;
  if (::inet_pton(AF_INET6, text.c_str(), wanted.raw) != 1) return found;
  const auto look = [&](ibv_context* context, std::uint8_t port, const ibv_port_attr& attr, int) {
    if (!is_infiniband(context, attr)) return;
    for (int index = 0; index < attr.gid_tbl_len && !found; ++index) {
      const auto entry = port_gid(context, port, index);
      if (entry && std::memcmp(entry->gid.raw, wanted.raw, sizeof wanted.raw) == 0) found = entry;
    }
  };
  for (int i = 0; i < count_ && !found; ++i) for_each_port(devices_[i], look);
  return found;
}

std::string DeviceList::text() const {
  std::string list;
  const auto add = [&](ibv_context* context, std::uint8_t port, const ibv_port_attr& attr,
                       int error) {
    if (context == nullptr) {
      list.append(" (cannot be opened: ").append(ErrnoText(error).c_str()).append(")");
      return;
    }
    list.append(" port ").append(std::to_string(port)).append(1, ' ').append(name_of(attr.state));
    const auto gid = is_infiniband(context, attr) ? port_gid(context, port, 0) : std::nullopt;
    if (gid) list.append(1, ' ').append(to_text(address_of(gid->gid)));
  };
  for (int i = 0; i < count_; ++i) {
    if (!list.empty()) list += ", ";
    list.append(ibv_get_device_name(devices_[i]));
    for_each_port(devices_[i], add);
  }
  return list.empty() ? "none" : list;
}

std::optional<Place> DeviceList::place_of(const SocketAddress& address,
                                          std::optional<std::uint16_t> pkey) const {
  auto place = kit_.place_of(address, pkey);
  if (!place) note(errno);
  return place;
}

SocketAddress address_of(const ibv_gid& gid) noexcept {
  SocketAddress address;
  address.storage.sin6_family = AF_INET6;
  static_assert(sizeof gid.raw == sizeof address.storage.sin6_addr);
  std::memcpy(&address.storage.sin6_addr, gid.raw, sizeof gid.raw);
  return address;
}

}  // namespace udapl::verbs
