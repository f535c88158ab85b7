// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Names of events, states and other numbers, and sets of flags in C++.
#include <boost/test/unit_test.hpp>

#include <dat/dat_diagnosis_extensions.h>
#include <dat/dat_ib_extensions.h>
#include <dat/udat.h>

#include <string>
#include <type_traits>

namespace {

// An operator that a program defines for its own enumeration must still be the one that is used.
namespace before {
enum Own { kOne = 1, kTwo = 2 };
inline int operator|(Own, Own) { return 77; }
}  // namespace before

// Combined flags are constants, and have the type that the calls expect.
static_assert(std::is_same_v<decltype(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG), DAT_EVD_FLAGS>);
static_assert((DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG) == 0x60);
static_assert(std::is_same_v<decltype(DAT_MEM_PRIV_READ_FLAG), DAT_MEM_PRIV_FLAGS>);
static_assert((DAT_MEM_PRIV_READ_FLAG | DAT_MEM_PRIV_WRITE_FLAG) == DAT_MEM_PRIV_ALL_FLAG);
static_assert((DAT_MEM_PRIV_ALL_FLAG & DAT_MEM_PRIV_LOCAL_READ_FLAG) == 1);
// Enumerations that are no sets of flags keep the built-in operator.
static_assert(std::is_same_v<decltype(DAT_EP_STATE_CONNECTED | DAT_EP_STATE_RESERVED), unsigned> ||
              std::is_same_v<decltype(DAT_EP_STATE_CONNECTED | DAT_EP_STATE_RESERVED), int>);

// A C program may pass any number.
template <typename Number>
Number any(int value) {
  return static_cast<Number>(value);
}

BOOST_AUTO_TEST_SUITE(names)

BOOST_AUTO_TEST_CASE(events_have_names) {
  BOOST_TEST(dat_event_name(DAT_CONNECTION_EVENT_BROKEN) ==
             std::string("DAT_CONNECTION_EVENT_BROKEN"));
  BOOST_TEST(dat_event_name(DAT_DTO_COMPLETION_EVENT) == std::string("DAT_DTO_COMPLETION_EVENT"));
  BOOST_TEST(dat_event_name(any<DAT_EVENT_NUMBER>(0x7777)) == std::string("unknown event"));
}

BOOST_AUTO_TEST_CASE(transfer_states_have_names) {
  BOOST_TEST(dat_dto_status_name(DAT_DTO_SUCCESS) == std::string("DAT_DTO_SUCCESS"));
  BOOST_TEST(dat_dto_status_name(DAT_DTO_ERR_REMOTE_ACCESS) ==
             std::string("DAT_DTO_ERR_REMOTE_ACCESS"));
  BOOST_TEST(dat_dto_status_name(any<DAT_DTO_COMPLETION_STATUS>(99)) ==
             std::string("unknown status"));
  BOOST_TEST(dat_dto_operation_name(DAT_DTO_RDMA_WRITE) == std::string("rdma_write"));
  BOOST_TEST(dat_dto_operation_name(any<DAT_DTOS>(DAT_IB_DTO_FETCH_ADD)) ==
             std::string("fetch_add"));
  BOOST_TEST(dat_dto_operation_name(any<DAT_DTOS>(99)) == std::string("unknown operation"));
}

BOOST_AUTO_TEST_CASE(object_states_have_names) {
  for (int state = 0; state <= DAT_EP_STATE_CONNECTED_MULTI_PATH; ++state)
    BOOST_TEST(std::string(dat_ep_state_name(static_cast<DAT_EP_STATE>(state)))
                   .starts_with("DAT_EP_STATE_"));
  BOOST_TEST(dat_ep_state_name(DAT_EP_STATE_CONNECTED) == std::string("DAT_EP_STATE_CONNECTED"));
  BOOST_TEST(dat_ep_state_name(any<DAT_EP_STATE>(99)) == std::string("unknown state"));
  BOOST_TEST(dat_handle_type_name(DAT_HANDLE_TYPE_SRQ) == std::string("SRQ"));
  BOOST_TEST(dat_handle_type_name(any<DAT_HANDLE_TYPE>(99)) == std::string("unknown object"));
}

BOOST_AUTO_TEST_CASE(sets_of_flags) {
  DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_SUPPRESS_FLAG;
  flags |= DAT_COMPLETION_BARRIER_FENCE_FLAG;
  BOOST_TEST(static_cast<int>(flags) == 0x09);
  BOOST_TEST((before::kOne | before::kTwo) == 77);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
