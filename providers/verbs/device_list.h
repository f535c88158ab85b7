// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "providers/verbs/connector.h"

#include <cstdint>
#include <optional>
#include <string>

namespace udapl::verbs {

// An InfiniBand port and its address.
struct PortGid {
  Place place;
  ibv_gid gid;
  std::uint16_t pkey;  // its first partition
};

// A snapshot of the RDMA devices of this machine. Not thread-safe.
class DeviceList {
 public:
  explicit DeviceList(const ConnectorKit& kit);
  ~DeviceList() {
    if (devices_ != nullptr) ibv_free_device_list(devices_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  // Null if there is no such device.
  [[nodiscard]] ibv_device* find(const std::string& name) const;
  // Port `port` of device `name`, if it is an InfiniBand port. 0: the first active InfiniBand port,
  // or the first one if none is active.
  [[nodiscard]] std::optional<PortGid> infiniband_port(const std::string& name, int port) const;
  // The InfiniBand port with this GID, written as an IPv6 address.
  [[nodiscard]] std::optional<PortGid> port_with_gid(const std::string& text) const;
  // ConnectorKit::place_of.
  [[nodiscard]] std::optional<Place> place_of(
      const transport::SocketAddress& address,
      std::optional<std::uint16_t> pkey = std::nullopt) const;
  // The errno of a call that failed for lack of memory or descriptors, so that an existing device
  // or port may not have been found; 0 if none failed.
  [[nodiscard]] int shortage() const noexcept { return shortage_; }
  // "rxe0 port 1 ACTIVE, mlx5_0 port 1 DOWN fe80::2:c903:1:2, ..."; with the GID if it can be used
  // as a name.
  [[nodiscard]] std::string text() const;

 private:
  template <class F>
  void for_each_port(ibv_device* device, F what) const;
  int note(int error) const noexcept;

  const ConnectorKit& kit_;
  mutable int shortage_ = 0;
  int count_ = 0;
  ibv_device** const devices_;
};

// A GID in the form that DAT uses: an IPv6 address.
[[nodiscard]] transport::SocketAddress address_of(const ibv_gid& gid) noexcept;

}  // namespace udapl::verbs
