// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace datinfo {

// A network interface that is up and has an address.
struct Netdev {
  std::string name;
  std::string address;  // the IPv4 address if there is one
  bool loopback = false;
};

// A port of an RDMA device.
struct RdmaPort {
  std::string device;
  int port = 0;
  std::string state;       // "ACTIVE" or another state, as the kernel reports it
  std::string link_layer;  // "InfiniBand", "Ethernet"
  std::string netdev;      // the network interface of the same port; empty if none was found
};

// The interfaces in the kernel's order, loopback last.
[[nodiscard]] std::vector<Netdev> netdevs();

// Returns whether `device` is a network interface or a numeric address of this machine, or a host
// name that resolves to such an address.
[[nodiscard]] bool is_of_this_machine(const std::string& device);

// Returns what keeps the dynamic linker from loading a library, or an empty string if no obstacle
// is found. A path is examined, a bare name is loaded in a child process. REQUIRES: the process has
// one thread.
[[nodiscard]] std::string library_obstacle(const std::string& library);

// The ports below `sysfs`/class/infiniband, sorted by device and port. Fields whose files cannot be
// read stay empty.
[[nodiscard]] std::vector<RdmaPort> rdma_ports(const std::filesystem::path& sysfs);

// Returns why this process could not use RDMA hardware or would soon run into limits: permissions
// of the device files below `dev`/infiniband, limits of locked memory and of open files. One line
// each, with advice.
[[nodiscard]] std::vector<std::string> obstacles(const std::filesystem::path& dev, bool has_rdma);

}  // namespace datinfo
