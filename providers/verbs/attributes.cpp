// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/attributes.h"

#include <dat/dat_ib_extensions.h>

#include "providers/verbs/status.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include <endian.h>

namespace udapl::verbs {

namespace {

int bytes_of(ibv_mtu mtu) noexcept { return 128 << mtu; }

// Writes bytes in groups of four hexadecimal digits.
std::string groups(const std::uint8_t* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; i += 2) {
    char group[8];
    std::snprintf(group, sizeof group, "%s%02x%02x", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
    text += group;
  }
  return text;
}

const char* true_or_false(bool value) noexcept { return value ? "TRUE" : "FALSE"; }

// The names, spellings and order that programs for OpenFabrics expect.
void name_attributes(const Device& device, const Environment& environment,
                     transport::Attributes& a) {
  int mtu = bytes_of(device.port_attr.active_mtu);
  if (environment.path_mtu) mtu = std::min(mtu, static_cast<int>(*environment.path_mtu));
  std::uint8_t guid[8];
  static_assert(sizeof guid == sizeof device.attr.orig_attr.node_guid);
  std::copy_n(reinterpret_cast<const std::uint8_t*>(&device.attr.orig_attr.node_guid), sizeof guid,
              guid);
  const bool atomics = device.has_atomics() && !device.iwarp();
  a.provider_specific = {{"DAT_IB_PROVIDER_NAME", "CMA"},
                         {"DAT_IB_DEVICE_NAME", device.name},
                         {"DAT_IB_CONNECTIVITY_MODE", "DIRECT"},
                         {"DAT_IB_RDMA_READ", "TRUE"},
                         {"DAT_IB_NODE_GUID", groups(guid, sizeof guid)},
                         {"DAT_IB_GID", groups(device.gid.raw, sizeof device.gid.raw)},
                         {"DAT_IB_TRANSPORT_MTU", std::to_string(mtu)},
                         {"DAT_IB_PORT_STATUS", name_of(device.port_attr.state)},
                         {"DAT_IB_PORT_NUMBER", std::to_string(device.port)},
                         {"DAT_EXTENSION_INTERFACE", true_or_false(!device.iwarp())},
                         {DAT_IB_ATTR_FETCH_AND_ADD, true_or_false(atomics)},
                         {DAT_IB_ATTR_CMP_AND_SWAP, true_or_false(atomics)},
                         {DAT_IB_ATTR_IMMED_DATA, true_or_false(!device.iwarp())}};
}

void parse_version(const char* text, int (&version)[2]) noexcept {
  if (std::sscanf(text, "%d.%d", &version[0], &version[1]) < 1) version[0] = 0;
}

}  // namespace

bool has_type2_windows(const Device& device) noexcept {
  return device.attr.orig_attr.max_mw > 0 && device.has(IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

bool has_windows(const Device& device) noexcept {
  return device.attr.orig_attr.max_mw > 0 &&
         device.has(IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

transport::Attributes make_attributes(const Device& device, const Environment& environment,
                                      transport::PrivateDataRoom private_data) {
  const ibv_device_attr& d = device.attr.orig_attr;
  const bool iwarp = device.iwarp();
  transport::Attributes a;
  a.device_name = device.name;
  a.hardware_version[0] = static_cast<int>(d.hw_ver);
  parse_version(d.fw_ver, a.firmware_version);
  a.address = device.address;
  a.max_eps = d.max_qp;
  a.max_dto_per_ep = environment.max_work
                         ? std::min(d.max_qp_wr, static_cast<int>(*environment.max_work))
                         : d.max_qp_wr;
  a.max_rdma_read_in = d.max_qp_rd_atom;
  a.max_rdma_read_out = d.max_qp_init_rd_atom;
  a.max_rdma_read_in_total = std::max(d.max_res_rd_atom, d.max_qp_rd_atom);
  a.max_rdma_read_out_total = a.max_rdma_read_in_total;
  a.max_evds = d.max_cq;
  a.max_evd_qlen = d.max_cqe;
  a.max_segments = d.max_sge;
  a.max_write_segments = d.max_sge;
  a.max_read_segments = d.max_sge_rd > 0 ? std::min(d.max_sge_rd, d.max_sge)
                        : iwarp          ? 1
                                         : d.max_sge;
  a.max_lmrs = d.max_mr;
  a.max_lmr_size = d.max_mr_size;
  a.max_lmr_address = std::numeric_limits<DAT_VADDR>::max();
  a.max_pzs = d.max_pd;
  a.max_message_size = device.port_attr.max_msg_sz;
  a.max_rdma_size = device.port_attr.max_msg_sz;
  a.max_rmrs = has_windows(device) ? d.max_mw : 0;
  a.max_rmr_address = std::numeric_limits<DAT_VADDR>::max();
  a.max_srqs = d.max_srq_wr > 0 ? d.max_srq : 0;
  a.max_eps_per_srq = a.max_srqs > 0 ? d.max_qp : 0;
  a.max_recv_per_srq = a.max_srqs > 0 ? d.max_srq_wr : 0;
  a.private_data = private_data;
  a.shared_memory_lmr = true;
  a.read_sink_needs_remote_write = iwarp;
  a.read_sink_context_exposed = iwarp;
  a.posts_return_before_work = true;
  a.completed_is_delivered = !device.iwarp();  // iWARP completes once TCP has accepted the data
  // The peer can invalidate only windows of type 2. A window of type 1 works over all QPs of its
  // PD.
  a.send_invalidate = device.has(IBV_DEVICE_MEM_MGT_EXTENSIONS);
  a.rmr_scope = !device.has(IBV_DEVICE_MEM_WINDOW) ? DAT_RMR_SCOPE_EP
                : has_type2_windows(device)        ? DAT_RMR_SCOPE_ANY
                                                   : DAT_RMR_SCOPE_PZ;
  if (!iwarp) {
    a.extension = DAT_EXTENSION_IB;
    a.extension_version = DAT_IB_EXTENSION_VERSION;
  }
  name_attributes(device, environment, a);
  return a;
}

}  // namespace udapl::verbs
