// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Attributes of the ports: link layer, GIDs, partitions.
#include "device.h"

#include "mock_control.h"

#include <net/if.h>
#include <netinet/in.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace verbs_mock {

namespace {

constexpr int kGids = 2;
// The device is a full member of the second partition, and a limited member of the third.
constexpr std::uint16_t kPkeys[kMaxPkeys] = {0xffff, 0x8001, 0x0002};

[[nodiscard]] verbs_mock_fabric chosen_by_environment() {
  const char* const text = std::getenv("VERBS_MOCK_FABRIC");
  if (text == nullptr) return VERBS_MOCK_ROCE;
  if (std::strcmp(text, "infiniband") == 0) return VERBS_MOCK_INFINIBAND;
  return std::strcmp(text, "ipoib") == 0 ? VERBS_MOCK_IPOIB : VERBS_MOCK_ROCE;
}

std::atomic<verbs_mock_fabric>& fabric() {
  static std::atomic<verbs_mock_fabric> value{chosen_by_environment()};
  return value;
}

[[nodiscard]] bool infiniband() noexcept { return fabric() != VERBS_MOCK_ROCE; }

[[nodiscard]] bool has_port(std::uint32_t port) noexcept {
  return port >= 1 && port <= port_count();
}

[[nodiscard]] std::uint32_t pkey_count() noexcept { return infiniband() ? kMaxPkeys : 1; }

ibv_port_attr port_attributes(std::uint8_t port) {
  ibv_port_attr attr{};
  attr.state = port == verbs_mock_active_port() ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = kActiveMtu;
  attr.gid_tbl_len = kGids;
  attr.port_cap_flags = IBV_PORT_CM_SUP;
  attr.max_msg_sz = kMaxMessage;
  attr.pkey_tbl_len = static_cast<std::uint16_t>(pkey_count());
  attr.max_vl_num = 1;
  attr.active_width = 2;
  attr.active_speed = 4;
  attr.phys_state = attr.state == IBV_PORT_ACTIVE ? 5 : 2;
  attr.lid = infiniband() ? port : 0;
  attr.link_layer = infiniband() ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  return attr;
}

// RoCE: version 1 from the hardware address, version 2 from 127.0.0.1. InfiniBand: the port's own,
// and one with another subnet prefix.
ibv_gid_entry gid_entry(std::uint32_t port, std::uint32_t index) {
  constexpr std::uint64_t kPrefixes[kGids] = {0xfe80000000000000, 0xfec0000000000000};
  ibv_gid_entry entry{};
  entry.gid_index = index;
  entry.port_num = port;
  if (infiniband()) {
    entry.gid_type = IBV_GID_TYPE_IB;
    entry.gid.global.subnet_prefix = htobe64(kPrefixes[index]);
    entry.gid.global.interface_id = htobe64(kGuid + port);
    return entry;
  }
  entry.ndev_ifindex = ::if_nametoindex("lo");
  if (index == 0) {
    entry.gid_type = IBV_GID_TYPE_ROCE_V1;
    entry.gid.global.subnet_prefix = htobe64(kPrefixes[0]);
    entry.gid.global.interface_id = htobe64(kGuid);
  } else {
    entry.gid_type = IBV_GID_TYPE_ROCE_V2;
    entry.gid.global.interface_id = htobe64(0x0000ffff00000000 | INADDR_LOOPBACK);
  }
  return entry;
}

}  // namespace

std::uint8_t port_count() noexcept { return infiniband() ? 2 : 1; }

int query_port(ibv_context*, std::uint8_t port, ibv_port_attr* attr, std::size_t size) {
  VERBS_MOCK_FAULT(ENOMEM, ENOMEM);
  if (!has_port(port)) return EINVAL;
  give(port_attributes(port), attr, size);
  return 0;
}

}  // namespace verbs_mock

using namespace verbs_mock;

extern "C" {

void verbs_mock_set_fabric(verbs_mock_fabric chosen) { fabric() = chosen; }

bool verbs_mock_has_ip() noexcept { return fabric() != VERBS_MOCK_INFINIBAND; }

std::uint8_t verbs_mock_active_port() noexcept { return port_count(); }

std::uint8_t verbs_mock_port_with_gid(const void* gid) noexcept {
  for (std::uint32_t port = 1; infiniband() && port <= port_count(); ++port)
    for (std::uint32_t index = 0; index < kGids; ++index)
      if (std::memcmp(gid_entry(port, index).gid.raw, gid, sizeof(ibv_gid)) == 0)
        return static_cast<std::uint8_t>(port);
  return 0;
}

int verbs_mock_index_of_pkey(std::uint16_t pkey) noexcept {
  constexpr unsigned kPartition = 0x7fff;  // without the membership bit
  for (std::uint32_t index = 0; index < pkey_count(); ++index)
    if ((kPkeys[index] & kPartition) == (pkey & kPartition)) return static_cast<int>(index);
  return -1;
}

// Called by programs that were built before 2019, with a shorter structure.
int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attr) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(ibv_context*, std::uint8_t port, int index, ibv_gid* gid) {
  VERBS_MOCK_FAULT(EIO, -1);
  if (!has_port(port) || index < 0 || index >= kGids) {
    errno = EINVAL;
    return -1;
  }
  *gid = gid_entry(port, static_cast<std::uint32_t>(index)).gid;
  return 0;
}

int _ibv_query_gid_ex(ibv_context*, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
                      std::uint32_t, std::size_t size) {
  VERBS_MOCK_FAULT(EIO, EIO);
  if (!has_port(port)) return EINVAL;
  if (index >= kGids) return ENODATA;
  give(gid_entry(port, index), entry, size);
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context*, ibv_gid_entry* entries, std::size_t max, std::uint32_t,
                             std::size_t size) {
  VERBS_MOCK_FAULT(EIO, -EIO);
  const std::uint32_t count = port_count() * kGids;
  if (max < count) return -EINVAL;
  for (std::uint32_t i = 0; i < count; ++i)
    give(gid_entry(1 + i / kGids, i % kGids), reinterpret_cast<std::byte*>(entries) + i * size,
         size);
  return static_cast<ssize_t>(count);
}

int ibv_query_pkey(ibv_context*, std::uint8_t port, int index, __be16* pkey) {
  VERBS_MOCK_FAULT(EIO, -1);
  if (!has_port(port) || index < 0 || index >= static_cast<int>(pkey_count())) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htobe16(kPkeys[index]);
  return 0;
}

int ibv_get_pkey_index(ibv_context*, std::uint8_t port, __be16 pkey) {
  return has_port(port) ? verbs_mock_index_of_pkey(be16toh(pkey)) : -1;
}

}  // extern "C"
