// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace datinfo {

// A network interface that is up and has an address.
struct Netdev {
  std::string name;
  std::string address;  // IPv4 if there is one
  bool loopback = false;
};

// A port of an RDMA device.
struct RdmaPort {
  std::string device;
  int port = 0;
  std::string state;       // "ACTIVE", or what the kernel says
  std::string link_layer;  // "InfiniBand", "Ethernet"
  std::string netdev;      // the network interface that is the same port; empty: none found
};

// Interfaces in the order of the kernel, loopback last.
[[nodiscard]] std::vector<Netdev> netdevs();

// Whether `device` is a network interface or a numeric address of this machine, or the name of a
// host whose address is.
[[nodiscard]] bool is_of_this_machine(const std::string& device);

// What keeps the dynamic linker from loading a library; empty: nothing is seen. A path is looked
// at, a bare name is tried in a child process. REQUIRES: the process has one thread.
[[nodiscard]] std::string library_obstacle(const std::string& library);

// Ports below `sysfs`/class/infiniband, sorted by device and port. Reads files; what cannot be read
// stays empty.
[[nodiscard]] std::vector<RdmaPort> rdma_ports(const std::filesystem::path& sysfs);

// Why this process could not use RDMA hardware, or would find its limits soon: permissions of the
// device files below `dev`/infiniband, limits of locked memory and of open files. One line each,
// with advice.
[[nodiscard]] std::vector<std::string> obstacles(const std::filesystem::path& dev, bool has_rdma);

}  // namespace datinfo
