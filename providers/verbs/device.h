// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <infiniband/verbs.h>

#include "common/result.h"
#include "dapl/transport/cm.h"
#include "providers/verbs/connector.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace udapl::verbs {

struct Environment;  // environment.h

inline constexpr std::uint16_t kDefaultPkey = 0xffff;

struct CloseDevice {
  void operator()(ibv_context* context) const noexcept { ibv_close_device(context); }
};

// An opened device, and the port and address that an adapter uses.
struct Device {
  std::unique_ptr<ibv_context, CloseDevice> context;
  std::string name;                   // "mlx5_0"
  std::string netdev;                 // "ib0"; empty if none is known
  transport::SocketAddress address;   // IPv4 or IPv6 of the port, or its GID; port 0
  bool by_gid = false;                // `address` is a GID
  std::uint16_t pkey = kDefaultPkey;  // if by_gid, the partition of connections
  std::uint8_t port = 1;
  int gid_index = 0;
  ibv_gid gid{};  // of the address; on RoCE, version 2 if there is one
  ibv_gid_type gid_type = IBV_GID_TYPE_IB;
  ibv_device_attr_ex attr{};
  ibv_port_attr port_attr{};

  [[nodiscard]] bool has(unsigned flag) const noexcept {  // ibv_device_cap_flags
    return (attr.orig_attr.device_cap_flags & flag) != 0;
  }
  [[nodiscard]] bool iwarp() const noexcept {
    return context->device->transport_type == IBV_TRANSPORT_IWARP;
  }
  [[nodiscard]] bool has_atomics() const noexcept {
    return attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE;
  }
  // The bits of wc_flags that indicate that a receive has invalidated a key. soft-RoCE passes the
  // kernel's bit through, which has another meaning in user space (checksums, unused on RC).
  [[nodiscard]] unsigned invalidate_flags() const noexcept {
    constexpr std::uint32_t kSoftRoceVendor = 0xffffff;
    return attr.orig_attr.vendor_id == kSoftRoceVendor ? IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK
                                                       : IBV_WC_WITH_INV;
  }
  // Returns whether a CQ that is armed for solicited completions fires for solicited messages and
  // failures. Linux's siw loses the mark of a message: siw_rqe_complete() fires only CQs that are
  // armed for all completions.
  [[nodiscard]] bool wakes_for_solicited() const noexcept {
    constexpr std::uint32_t kSoftIwarpVendor = 0x626d74;
    return attr.orig_attr.vendor_id != kSoftIwarpVendor;
  }
  [[nodiscard]] bool ethernet() const noexcept {
    return port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
  }
};

// Finds and opens the device named by the seventh field of dat.conf, "NAME PORT". NAME is a network
// interface, an IP address, a host name of this machine, the GID of an InfiniBand port, or an RDMA
// device; PORT is used only with an RDMA device (0: any). A port of an RDMA device without an IP
// address is addressed by its GID, which only InfiniBand supports. INVALID_ADDRESS: NAME does not
// exist or has no RDMA device; the trace lists what exists. INVALID_PARAMETER: an empty field.
// INSUFFICIENT_RESOURCES.
Result<Device> find_device(std::string_view ia_params, const Environment& environment,
                           const ConnectorKit& kit);

}  // namespace udapl::verbs
