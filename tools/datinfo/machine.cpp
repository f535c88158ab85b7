// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <system_error>

namespace datinfo {

namespace {

namespace fs = std::filesystem;

constexpr rlim_t kEnoughFiles = 256;
constexpr rlim_t kEnoughLockedMemory = rlim_t{64} << 20;

std::string address_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
}

// Names in a folder, sorted; none if it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// "4: ACTIVE" -> "ACTIVE"
std::string state_of(const fs::path& port) {
  const std::string text = first_line(port / "state");
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

// The GID table names the interface whose addresses make the GIDs; where it does not, the device
// that both have may: its interface with this port number.
std::string netdev_of(const fs::path& device, int port) {
  const fs::path ndevs = device / "ports" / std::to_string(port) / "gid_attrs" / "ndevs";
  for (const std::string& index : names_in(ndevs))
    if (std::string name = first_line(ndevs / index); !name.empty()) return name;
  const fs::path net = device / "device" / "net";
  const std::vector<std::string> names = names_in(net);
  for (const std::string& name : names) {
    const std::string number = first_line(net / name / "dev_port");
    if (std::atoi(number.c_str()) == port - 1) return name;
  }
  if (names.size() == 1) return names.front();
  return first_line(device / "parent");  // software devices
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit / 1024) + " KiB";
}

}  // namespace

std::vector<Netdev> netdevs() {
  std::vector<Netdev> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, ::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family ||
          (one->ifa_flags & IFF_UP) == 0)
        continue;
      if (std::any_of(found.begin(), found.end(),
                      [&](const Netdev& other) { return other.name == one->ifa_name; }))
        continue;
      found.push_back(
          {one->ifa_name, address_of(one->ifa_addr), (one->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  std::stable_partition(found.begin(), found.end(),
                        [](const Netdev& one) { return !one.loopback; });
  return found;
}

std::vector<RdmaPort> rdma_ports(const fs::path& sysfs) {
  std::vector<RdmaPort> found;
  const fs::path all = sysfs / "class" / "infiniband";
  for (const std::string& device : names_in(all)) {
    std::vector<int> ports;
    for (const std::string& name : names_in(all / device / "ports"))
      if (const int port = std::atoi(name.c_str()); port > 0) ports.push_back(port);
    std::sort(ports.begin(), ports.end());
    for (const int port : ports) {
      const fs::path folder = all / device / "ports" / std::to_string(port);
      found.push_back({device, port, state_of(folder), first_line(folder / "link_layer"),
                       netdev_of(all / device, port)});
    }
  }
  return found;
}

std::vector<std::string> obstacles(const fs::path& dev, bool has_rdma) {
  std::vector<std::string> lines;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kEnoughFiles)
    lines.push_back("this process may open only " + std::to_string(limit.rlim_cur) +
                    " files; try: ulimit -n 1024");
  if (!has_rdma) return lines;
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < kEnoughLockedMemory)
    lines.push_back("this process may lock only " + limit_text(limit.rlim_cur) +
                    " of memory, which RDMA hardware needs for every LMR and queue; try: ulimit -l "
                    "unlimited (memlock in limits.conf)");
  const std::vector<std::string> files = names_in(dev / "infiniband");
  bool has_verbs = false;
  for (const std::string& name : files) {
    has_verbs = has_verbs || name.starts_with("uverbs");
    if (!name.starts_with("uverbs") && name != "rdma_cm") continue;
    const fs::path path = dev / "infiniband" / name;
    if (::access(path.c_str(), R_OK | W_OK) != 0)
      lines.push_back(path.string() + ": " + std::strerror(errno) +
                      "; try: as a member of its group, or a udev rule that opens it");
  }
  if (!has_verbs)
    lines.push_back("there are RDMA devices but no " + (dev / "infiniband").string() +
                    "/uverbs*; try: modprobe ib_uverbs, or pass the files into the container");
  return lines;
}

}  // namespace datinfo
