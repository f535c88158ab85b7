// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/status.h"

#include <boost/test/unit_test.hpp>

#include <cerrno>
#include <utility>

#include "providers/verbs/mr.h"
#include "providers/verbs/work_tag.h"

namespace udapl::verbs {

BOOST_AUTO_TEST_SUITE(status)

// Every status of verbs, translated as programs for OpenFabrics expect.
BOOST_AUTO_TEST_CASE(each_status_is_translated) {
  const std::pair<ibv_wc_status, int> table[] = {
      {IBV_WC_SUCCESS, DAT_DTO_SUCCESS},
      {IBV_WC_LOC_LEN_ERR, DAT_DTO_ERR_LOCAL_LENGTH},
      {IBV_WC_LOC_QP_OP_ERR, DAT_DTO_ERR_LOCAL_EP},
      {IBV_WC_LOC_EEC_OP_ERR, DAT_DTO_ERR_TRANSPORT},
      {IBV_WC_LOC_PROT_ERR, DAT_DTO_ERR_LOCAL_PROTECTION},
      {IBV_WC_WR_FLUSH_ERR, DAT_DTO_ERR_FLUSHED},
      {IBV_WC_MW_BIND_ERR, DAT_RMR_OPERATION_FAILED},
      {IBV_WC_BAD_RESP_ERR, DAT_DTO_ERR_BAD_RESPONSE},
      {IBV_WC_LOC_ACCESS_ERR, DAT_DTO_ERR_LOCAL_PROTECTION},
      {IBV_WC_REM_INV_REQ_ERR, DAT_DTO_ERR_REMOTE_RESPONDER},
      {IBV_WC_REM_ACCESS_ERR, DAT_DTO_ERR_REMOTE_ACCESS},
      {IBV_WC_REM_OP_ERR, DAT_DTO_ERR_REMOTE_RESPONDER},
      {IBV_WC_RETRY_EXC_ERR, DAT_DTO_ERR_TRANSPORT},
      {IBV_WC_RNR_RETRY_EXC_ERR, DAT_DTO_ERR_RECEIVER_NOT_READY},
      {IBV_WC_LOC_RDD_VIOL_ERR, DAT_DTO_ERR_LOCAL_PROTECTION},
      {IBV_WC_REM_INV_RD_REQ_ERR, DAT_DTO_ERR_REMOTE_RESPONDER},
      {IBV_WC_REM_ABORT_ERR, DAT_DTO_ERR_REMOTE_RESPONDER},
      {IBV_WC_INV_EECN_ERR, DAT_DTO_ERR_TRANSPORT},
      {IBV_WC_INV_EEC_STATE_ERR, DAT_DTO_ERR_TRANSPORT},
      {IBV_WC_FATAL_ERR, DAT_DTO_ERR_TRANSPORT},
      {IBV_WC_RESP_TIMEOUT_ERR, DAT_DTO_ERR_RECEIVER_NOT_READY},
      {IBV_WC_GENERAL_ERR, DAT_DTO_ERR_TRANSPORT}};
  for (const auto& [verbs, dat] : table)
    BOOST_CHECK_MESSAGE(dto_status(verbs) == dat, name_of(verbs) << " is " << dto_status(verbs));
}

BOOST_AUTO_TEST_CASE(each_errno_is_translated) {
  BOOST_CHECK(status_of(0).ok());
  BOOST_CHECK_EQUAL(status_of(ENOMEM, DAT_RESOURCE_MEMORY).code(),
                    dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
  BOOST_CHECK_EQUAL(status_of(-ENOMEM).type(), DAT_INSUFFICIENT_RESOURCES);
  BOOST_CHECK_EQUAL(status_of(EOPNOTSUPP).type(), DAT_MODEL_NOT_SUPPORTED);
  BOOST_CHECK_EQUAL(status_of(EADDRINUSE).type(), DAT_CONN_QUAL_IN_USE);
  BOOST_CHECK_EQUAL(status_of(EIO).code(), dat_error(DAT_INTERNAL_ERROR));
  BOOST_CHECK_EQUAL(post_error(ENOMEM), dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
  BOOST_CHECK_EQUAL(post_error(EINVAL), dat_error(DAT_INVALID_PARAMETER));
}

// Verbs requires local write access with every remote access that changes memory.
BOOST_AUTO_TEST_CASE(remote_write_implies_local_write) {
  BOOST_CHECK_EQUAL(access_flags(DAT_MEM_PRIV_LOCAL_READ_FLAG, false), 0);
  BOOST_CHECK_EQUAL(access_flags(DAT_MEM_PRIV_REMOTE_READ_FLAG, true),
                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
  BOOST_CHECK_EQUAL(access_flags(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, false),
                    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE);
  BOOST_CHECK_EQUAL(access_flags(static_cast<DAT_MEM_PRIV_FLAGS>(0x40), false),
                    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE);
}

BOOST_AUTO_TEST_CASE(tags_leave_the_id_alone) {
  constexpr transport::WorkId id = 0x7ffff0123458;
  for (const std::uint64_t wr_id :
       {request_wr_id(id, transport::kQuiet), bind_wr_id(id, transport::kSignalled),
        receive_wr_id(id, transport::kQuiet)})
    BOOST_CHECK_EQUAL(work_id(wr_id), id);
  BOOST_CHECK_EQUAL(receive_wr_id(id, transport::kQuiet), id | kReceiveTag | kQuietTag);
  BOOST_CHECK_EQUAL(request_wr_id(id, transport::kSignalled | transport::kFence), id);
  for (const std::uint64_t internal : {kMarker, kInvalidation}) {
    BOOST_CHECK_EQUAL(work_id(internal), 0U);
    BOOST_CHECK(!is_bind(internal));
  }
  BOOST_CHECK_NE(kMarker, kInvalidation);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::verbs
