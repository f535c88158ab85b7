// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/status.h"

#include <cerrno>
#include <cstdlib>
#include <iterator>

namespace udapl::verbs {

DAT_DTO_COMPLETION_STATUS dto_status(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS:
      return DAT_DTO_SUCCESS;
    case IBV_WC_WR_FLUSH_ERR:
      return DAT_DTO_ERR_FLUSHED;
    case IBV_WC_LOC_LEN_ERR:
      return DAT_DTO_ERR_LOCAL_LENGTH;
    case IBV_WC_LOC_QP_OP_ERR:
      return DAT_DTO_ERR_LOCAL_EP;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
      return DAT_DTO_ERR_LOCAL_PROTECTION;
    case IBV_WC_MW_BIND_ERR:
      return DAT_RMR_OPERATION_FAILED;
    case IBV_WC_BAD_RESP_ERR:
      return DAT_DTO_ERR_BAD_RESPONSE;
    case IBV_WC_REM_ACCESS_ERR:
      return DAT_DTO_ERR_REMOTE_ACCESS;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return DAT_DTO_ERR_REMOTE_RESPONDER;
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return DAT_DTO_ERR_RECEIVER_NOT_READY;
    default:  // retries exhausted, device failure, end-to-end contexts, future status codes
      return DAT_DTO_ERR_TRANSPORT;
  }
}

Status status_of(int error, DAT_RETURN resource) noexcept {
  switch (std::abs(error)) {
    case 0:
      return Status();
    case ENOMEM:
    case ENOSPC:
    case EAGAIN:
    case EMFILE:
    case ENFILE:
      return failure(DAT_INSUFFICIENT_RESOURCES, resource);
    case EPERM:
    case EACCES:
      return failure(DAT_PRIVILEGES_VIOLATION);
    case EINVAL:
    case EFAULT:
      return failure(DAT_INVALID_PARAMETER);
    case ENOSYS:
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
      return failure(DAT_MODEL_NOT_SUPPORTED);
    case EBUSY:
      return failure(DAT_INVALID_STATE);
    case EADDRINUSE:
      return failure(DAT_CONN_QUAL_IN_USE);
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENODEV:
      return failure(DAT_INVALID_ADDRESS);
    case EINTR:
      return failure(DAT_INTERRUPTED_CALL);
    case ETIMEDOUT:
      return failure(DAT_TIMEOUT_EXPIRED);
    default:
      return failure(DAT_INTERNAL_ERROR);
  }
}

DAT_RETURN post_error(int error) noexcept {
  switch (std::abs(error)) {
    case ENOMEM:
    case EAGAIN:
    case ENOSPC:
      return dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    case EINVAL:
    case EFAULT:
      return dat_error(DAT_INVALID_PARAMETER);
    default:
      return status_of(error).code();
  }
}

const char* name_of(ibv_wc_status status) noexcept {
  static constexpr const char* kNames[] = {
      "IBV_WC_SUCCESS",
      "IBV_WC_LOC_LEN_ERR",
      "IBV_WC_LOC_QP_OP_ERR",
      "IBV_WC_LOC_EEC_OP_ERR",
      "IBV_WC_LOC_PROT_ERR",
      "IBV_WC_WR_FLUSH_ERR",
      "IBV_WC_MW_BIND_ERR",
      "IBV_WC_BAD_RESP_ERR",
      "IBV_WC_LOC_ACCESS_ERR",
      "IBV_WC_REM_INV_REQ_ERR",
      "IBV_WC_REM_ACCESS_ERR",
      "IBV_WC_REM_OP_ERR",
      "IBV_WC_RETRY_EXC_ERR",
      "IBV_WC_RNR_RETRY_EXC_ERR",
      "IBV_WC_LOC_RDD_VIOL_ERR",
      "IBV_WC_REM_INV_RD_REQ_ERR",
      "IBV_WC_REM_ABORT_ERR",
      "IBV_WC_INV_EECN_ERR",
      "IBV_WC_INV_EEC_STATE_ERR",
      "IBV_WC_FATAL_ERR",
      "IBV_WC_RESP_TIMEOUT_ERR",
      "IBV_WC_GENERAL_ERR",
      "IBV_WC_TM_ERR",
      "IBV_WC_TM_RNDV_INCOMPLETE",
  };
  static_assert(std::size(kNames) == IBV_WC_TM_RNDV_INCOMPLETE + 1);
  return static_cast<std::size_t>(status) < std::size(kNames) ? kNames[status] : "IBV_WC_?";
}

const char* name_of(ibv_event_type event) noexcept {
  static constexpr const char* kNames[] = {
      "IBV_EVENT_CQ_ERR",
      "IBV_EVENT_QP_FATAL",
      "IBV_EVENT_QP_REQ_ERR",
      "IBV_EVENT_QP_ACCESS_ERR",
      "IBV_EVENT_COMM_EST",
      "IBV_EVENT_SQ_DRAINED",
      "IBV_EVENT_PATH_MIG",
      "IBV_EVENT_PATH_MIG_ERR",
      "IBV_EVENT_DEVICE_FATAL",
      "IBV_EVENT_PORT_ACTIVE",
      "IBV_EVENT_PORT_ERR",
      "IBV_EVENT_LID_CHANGE",
      "IBV_EVENT_PKEY_CHANGE",
      "IBV_EVENT_SM_CHANGE",
      "IBV_EVENT_SRQ_ERR",
      "IBV_EVENT_SRQ_LIMIT_REACHED",
      "IBV_EVENT_QP_LAST_WQE_REACHED",
      "IBV_EVENT_CLIENT_REREGISTER",
      "IBV_EVENT_GID_CHANGE",
      "IBV_EVENT_WQ_FATAL",
  };
  static_assert(std::size(kNames) == IBV_EVENT_WQ_FATAL + 1);
  return static_cast<std::size_t>(event) < std::size(kNames) ? kNames[event] : "IBV_EVENT_?";
}

const char* name_of(ibv_qp_state state) noexcept {
  static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return static_cast<std::size_t>(state) < std::size(kNames) ? kNames[state] : "UNKNOWN";
}

const char* name_of(ibv_port_state state) noexcept {
  switch (state) {
    case IBV_PORT_NOP:
      return "NOP";
    case IBV_PORT_DOWN:
      return "DOWN";
    case IBV_PORT_INIT:
      return "INIT";
    case IBV_PORT_ARMED:
      return "ARMED";
    case IBV_PORT_ACTIVE:
      return "ACTIVE";
    case IBV_PORT_ACTIVE_DEFER:
      return "DEFER";
    default:
      return "UNKNOWN";
  }
}

}  // namespace udapl::verbs
