// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "generate.h"

#include <fmt/core.h>

#include <set>

namespace datinfo {

namespace {

// Quotes a field as in dat.conf.
std::string in_quotes(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// One entry for programs that serialise their calls themselves, and one for those that rely on the
// provider for that.
std::string entries(const std::string& name, const std::string& library,
                    const std::string& netdev) {
  std::string text;
  for (const char* safety : {"nonthreadsafe", "threadsafe"})
    text += fmt::format("{} u2.0 {} default {} dapl.2.0 {} \"\"\n", in_quotes(name), safety,
                        library, in_quotes(netdev + " 0"));
  return text;
}

}  // namespace

std::string generate(const std::vector<RdmaPort>& ports, const std::vector<Netdev>& netdevs) {
  std::string text =
      "# dat.conf for the devices of this machine, written by datinfo generate. See dat.conf(5).\n";
  std::set<std::string> named;  // one entry per interface, even if several ports share it
  for (const RdmaPort& port : ports) {
    text += fmt::format("\n# {} port {}, {}, {}\n", port.device, port.port,
                        port.link_layer.empty() ? "link unknown" : port.link_layer,
                        port.state.empty() ? "state unknown" : port.state);
    if (port.netdev.empty())
      text += "# no entry: the port has no network interface, which the provider finds it by\n";
    else if (named.insert(port.netdev).second)
      text += entries("ofa-v2-" + port.netdev, "libdaplofa.so.2", port.netdev);
    else
      text += fmt::format("# no entry: {} has one already\n", port.netdev);
  }
  for (const Netdev& netdev : netdevs) {
    text += fmt::format("\n# software RNIC on {}, {}\n", netdev.name, netdev.address);
    text +=
        entries(netdev.loopback ? "soft" : "soft-" + netdev.name, "libdaplsoft.so.2", netdev.name);
  }
  if (netdevs.empty() && ports.empty())
    text += "\n# no RDMA device, and no network interface that is up and has an address\n";
  return text;
}

}  // namespace datinfo
