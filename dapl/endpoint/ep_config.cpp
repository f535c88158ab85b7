// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/endpoint/ep_config.h"

#include "dapl/objects/ia.h"
#include "dapl/objects/refuse.h"
#include "dapl/objects/require.h"

#include <netinet/in.h>

#include <dat/dat_ib_extensions.h>

#include <algorithm>
#include <limits>

namespace udapl::dapl {

bool is_supported(const DAT_COMM& comm) noexcept {
  return (comm.domain == AF_INET || comm.domain == AF_INET6) && comm.type == SOCK_STREAM &&
         (comm.protocol == 0 || comm.protocol == IPPROTO_TCP);
}
namespace {

constexpr DAT_COUNT kDefaultSegments = 4;
constexpr DAT_COUNT kDefaultReads = 4;
constexpr DAT_SEG_LENGTH kDefaultSize = 0x80000000U;
constexpr DAT_COUNT kNoMinimum = std::numeric_limits<DAT_COUNT>::min();
// Every EP accepts at least this many segments: devices round up the number requested, and some
// programs request fewer than they post.
constexpr DAT_COUNT kMinSegments = 4;

struct Range {
  const char* name;
  DAT_COUNT value;
  DAT_COUNT least;
  DAT_COUNT most;
};

Status check_limits(const transport::Attributes& limits, const EpConfig& config,
                    DAT_RETURN arg) noexcept {
  const DAT_EP_ATTR& attr = config.attr;
  const bool own_receives = config.srq == nullptr;  // otherwise both receive limits are ignored
  const Range ranges[] = {
      {"max_recv_dtos", own_receives ? attr.max_recv_dtos : 0, 0, limits.max_dto_per_ep},
      {"max_request_dtos", attr.max_request_dtos, 0, limits.max_dto_per_ep},
      {"max_recv_iov", own_receives ? attr.max_recv_iov : 0, 0, limits.max_segments},
      {"max_request_iov", attr.max_request_iov, 0, limits.max_segments},
      {"max_rdma_read_in", attr.max_rdma_read_in, kNoMinimum,
       std::max(limits.max_rdma_read_in, limits.max_rdma_read_in_total)},
      {"max_rdma_read_out", attr.max_rdma_read_out, kNoMinimum,
       std::max(limits.max_rdma_read_out, limits.max_rdma_read_out_total)}};
  for (const Range& range : ranges)
    if (range.value < range.least || range.value > range.most)
      UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg, "%s %d, at most %d", range.name, range.value,
                   range.most);
  if (attr.max_message_size > limits.max_message_size)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg, "max_message_size %u, at most %u",
                 attr.max_message_size, limits.max_message_size);
  if (attr.max_rdma_size > limits.max_rdma_size)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg, "max_rdma_size %u, at most %u", attr.max_rdma_size,
                 limits.max_rdma_size);
  return Status();
}

template <class T>
bool foreign(const Ia& ia, const T* object) noexcept {
  return object != nullptr && object->ia != &ia;
}

Status check_objects(const Ia& ia, const EpConfig& config) noexcept {
  if (foreign(ia, config.pz))
    UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ, "the PZ belongs to another IA");
  const struct {
    const Evd* evd;
    DAT_EVD_FLAGS flag;
    DAT_RETURN subtype;
  } roles[] = {{config.recv_evd, DAT_EVD_DTO_FLAG, DAT_INVALID_HANDLE_EVD_RECV},
               {config.request_evd, DAT_EVD_DTO_FLAG, DAT_INVALID_HANDLE_EVD_REQUEST},
               {config.connect_evd, DAT_EVD_CONNECTION_FLAG, DAT_INVALID_HANDLE_EVD_CONN}};
  for (const auto& role : roles) {
    if (role.evd == nullptr) continue;
    if (foreign(ia, role.evd))
      UDAPL_REFUSE(DAT_INVALID_HANDLE, role.subtype, "the EVD belongs to another IA");
    if (const Status status = role.evd->check_stream(role.flag, role.subtype); !status.ok())
      return status;
  }
  if (foreign(ia, config.srq))
    UDAPL_REFUSE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_SRQ, "the SRQ belongs to another IA");
  return Status();
}

}  // namespace

Status read_handles(const EpHandles& handles, DAT_EP_PARAM_MASK mask, EpConfig* config) noexcept {
  Status status;
  const auto read = [&]<class T>(DAT_EP_PARAM_MASK field, DAT_HANDLE handle, DAT_RETURN subtype,
                                 T** object) {
    if (!status.ok() || (mask & field) == 0) return;
    Result<T*> found = require_or_null<T>(handle, subtype);
    status = found.status();
    if (found.ok()) *object = *found;
  };
  read(DAT_EP_FIELD_PZ_HANDLE, handles.pz, DAT_INVALID_HANDLE_PZ, &config->pz);
  read(DAT_EP_FIELD_RECV_EVD_HANDLE, handles.recv_evd, DAT_INVALID_HANDLE_EVD_RECV,
       &config->recv_evd);
  read(DAT_EP_FIELD_REQUEST_EVD_HANDLE, handles.request_evd, DAT_INVALID_HANDLE_EVD_REQUEST,
       &config->request_evd);
  read(DAT_EP_FIELD_CONNECT_EVD_HANDLE, handles.connect_evd, DAT_INVALID_HANDLE_EVD_CONN,
       &config->connect_evd);
  return status;
}

DAT_EP_ATTR default_attributes(const transport::Attributes& limits, DAT_COUNT dtos) noexcept {
  DAT_EP_ATTR attr{};
  attr.service_type = DAT_SERVICE_TYPE_RC;
  attr.max_message_size = std::min(kDefaultSize, limits.max_message_size);
  attr.max_rdma_size = std::min(kDefaultSize, limits.max_rdma_size);
  attr.qos = DAT_QOS_BEST_EFFORT;
  attr.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attr.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
  attr.max_recv_dtos = std::min(dtos, limits.max_dto_per_ep);
  attr.max_request_dtos = std::min(dtos, limits.max_dto_per_ep);
  attr.max_recv_iov = std::min(kDefaultSegments, limits.max_segments);
  attr.max_request_iov = std::min(kDefaultSegments, limits.max_segments);
  attr.max_rdma_read_in = std::min(kDefaultReads, limits.max_rdma_read_in);
  attr.max_rdma_read_out = std::min(kDefaultReads, limits.max_rdma_read_out);
  attr.srq_soft_hw = DAT_WATERMARK_INFINITE;
  attr.max_rdma_read_iov = std::min(attr.max_request_iov, limits.max_read_segments);
  attr.max_rdma_write_iov = std::min(attr.max_request_iov, limits.max_write_segments);
  return attr;
}

EpLimits effective_limits(const transport::Attributes& limits, const EpConfig& config) noexcept {
  const DAT_EP_ATTR& attr = config.attr;
  const auto segments = [](DAT_COUNT requested, DAT_COUNT most) {
    return std::min(std::max(requested, kMinSegments), most);
  };
  const auto own = [&attr](DAT_COUNT requested) {
    return requested > 0 ? requested : attr.max_request_iov;
  };
  // Some programs request the adapter's total, since OpenFabrics reports only one number.
  const auto depth = [](DAT_COUNT requested, DAT_COUNT most) {
    return requested < 0 ? most : std::min(requested, most);
  };
  return {
      .recv_segments = config.srq == nullptr ? segments(attr.max_recv_iov, limits.max_segments) : 0,
      .request_segments = segments(attr.max_request_iov, limits.max_segments),
      .read_segments = segments(own(attr.max_rdma_read_iov), limits.max_read_segments),
      .write_segments = segments(own(attr.max_rdma_write_iov), limits.max_write_segments),
      .rdma_read_in = depth(attr.max_rdma_read_in, limits.max_rdma_read_in),
      .rdma_read_out = depth(attr.max_rdma_read_out, limits.max_rdma_read_out)};
}

Status check_config(const Ia& ia, const EpConfig& config, DAT_RETURN arg) noexcept {
  const transport::Attributes& limits = ia.attributes();
  const DAT_EP_ATTR& attr = config.attr;
  if (const Status status = check_objects(ia, config); !status.ok()) return status;
  // Other values have always been treated as RC.
  if (static_cast<int>(attr.service_type) == DAT_IB_SERVICE_TYPE_UD)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg, "service type %d: no datagrams",
                 static_cast<int>(attr.service_type));
  if ((attr.recv_completion_flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg, "recv_completion_flags 0x%x: SUPPRESS",
                 static_cast<unsigned>(attr.recv_completion_flags));
  if (const Status status = check_limits(limits, config, arg); !status.ok()) return status;
  if (config.srq != nullptr && config.pz != nullptr && config.pz != &config.srq->pz() &&
      !limits.srq_pz_may_differ)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2, "EP and SRQ belong to different PZs");
  if (config.comm.domain != 0 && !is_supported(config.comm))
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg, "communicator {%d, %d, %d}", config.comm.domain,
                 config.comm.type, config.comm.protocol);
  return Status();
}

Status check_directions(const EpConfig& config, DAT_RETURN arg) noexcept {
  const DAT_EP_ATTR& attr = config.attr;
  if (config.srq == nullptr && config.recv_evd != nullptr &&
      (attr.max_recv_dtos == 0 || attr.max_recv_iov == 0))
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg, "a receive EVD with max_recv_dtos %d, max_recv_iov %d",
                 attr.max_recv_dtos, attr.max_recv_iov);
  if (config.request_evd != nullptr && attr.max_request_dtos == 0)
    UDAPL_REFUSE(DAT_INVALID_PARAMETER, arg, "a request EVD with max_request_dtos 0");
  return Status();
}

EpBindings::EpBindings(const EpConfig& config) noexcept
    : pz_(config.pz),
      recv_evd_(config.recv_evd),
      request_evd_(config.request_evd),
      connect_evd_(config.connect_evd),
      srq_(config.srq),
      recv_mode_(completion_mode(config.attr.recv_completion_flags)),
      request_mode_(completion_mode(config.attr.request_completion_flags)) {}

void EpBindings::attach() noexcept {
  if (recv_evd_) recv_evd_->attach_stream(Evd::StreamKind::kRecv, recv_mode_);
  if (request_evd_) request_evd_->attach_stream(Evd::StreamKind::kRequest, request_mode_);
  if (connect_evd_) connect_evd_->count_connections(1);
  attached_ = true;
}

void EpBindings::detach() noexcept {
  if (!attached_) return;
  attached_ = false;
  if (recv_evd_) recv_evd_->detach_stream(Evd::StreamKind::kRecv, recv_mode_);
  if (request_evd_) request_evd_->detach_stream(Evd::StreamKind::kRequest, request_mode_);
  if (connect_evd_) connect_evd_->count_connections(-1);
}

}  // namespace udapl::dapl
