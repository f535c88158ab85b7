// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/strerror.h"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>

using udapl::dat::describe;
using udapl::dat::error_text;

// The tables are literals on purpose: values and texts are part of the ABI, and a mistake in a
// header would not be noticed if both sides were derived from it.
namespace {

struct Row {
  DAT_RETURN value;
  const char* text;
};

constexpr Row kTypes[] = {
    {0x00000000, "DAT_SUCCESS"},
    {0x00010000, "DAT_ABORT"},
    {0x00020000, "DAT_CONN_QUAL_IN_USE"},
    {0x00030000, "DAT_INSUFFICIENT_RESOURCES"},
    {0x00040000, "DAT_INTERNAL_ERROR"},
    {0x00050000, "DAT_INVALID_HANDLE"},
    {0x00060000, "DAT_INVALID_PARAMETER"},
    {0x00070000, "DAT_INVALID_STATE"},
    {0x00080000, "DAT_LENGTH_ERROR"},
    {0x00090000, "DAT_MODEL_NOT_SUPPORTED"},
    {0x000A0000, "DAT_PROVIDER_NOT_FOUND"},
    {0x000B0000, "DAT_PRIVILEGES_VIOLATION"},
    {0x000C0000, "DAT_PROTECTION_VIOLATION"},
    {0x000D0000, "DAT_QUEUE_EMPTY"},
    {0x000E0000, "DAT_QUEUE_FULL"},
    {0x000F0000, "DAT_TIMEOUT_EXPIRED"},
    {0x00100000, "DAT_PROVIDER_ALREADY_REGISTERED"},
    {0x00110000, "DAT_PROVIDER_IN_USE"},
    {0x00120000, "DAT_INVALID_ADDRESS"},
    {0x00130000, "DAT_INTERRUPTED_CALL"},
    {0x00140000, "DAT_CONN_QUAL_UNAVAILABLE"},
    {0x00150000, "DAT_RESERVED_LMR"},
    {0x00160000, "DAT_PORT_IN_USE"},
    {0x00170000, "DAT_COMM_NOT_SUPPORTED"},
    {0x10000000, "DAT_EXTENSION_BASE"},
    {0x3FFF0000, "DAT_NOT_IMPLEMENTED"},
};

constexpr Row kSubtypes[] = {
    {0, ""},
    {1, "DAT_SUB_INTERRUPTED"},
    {2, "DAT_RESOURCE_MEMORY"},
    {3, "DAT_RESOURCE_DEVICE"},
    {4, "DAT_RESOURCE_TEP"},
    {5, "DAT_RESOURCE_TEVD"},
    {6, "DAT_RESOURCE_PROTECTION_DOMAIN"},
    {7, "DAT_RESOURCE_MEMORY_REGION"},
    {8, "DAT_RESOURCE_ERROR_HANDLER"},
    {9, "DAT_RESOURCE_CREDITS"},
    {10, "DAT_RESOURCE_SRQ"},
    {11, "DAT_INVALID_HANDLE_IA"},
    {12, "DAT_INVALID_HANDLE_EP"},
    {13, "DAT_INVALID_HANDLE_LMR"},
    {14, "DAT_INVALID_HANDLE_RMR"},
    {15, "DAT_INVALID_HANDLE_PZ"},
    {16, "DAT_INVALID_HANDLE_PSP"},
    {17, "DAT_INVALID_HANDLE_RSP"},
    {18, "DAT_INVALID_HANDLE_CR"},
    {19, "DAT_INVALID_HANDLE_CNO"},
    {20, "DAT_INVALID_HANDLE_EVD_CR"},
    {21, "DAT_INVALID_HANDLE_EVD_REQUEST"},
    {22, "DAT_INVALID_HANDLE_EVD_RECV"},
    {23, "DAT_INVALID_HANDLE_EVD_CONN"},
    {24, "DAT_INVALID_HANDLE_EVD_ASYNC"},
    {25, "DAT_INVALID_HANDLE_SRQ"},
    {26, "DAT_INVALID_HANDLE_CSP"},
    {27, "DAT_INVALID_HANDLE1"},
    {28, "DAT_INVALID_HANDLE2"},
    {29, "DAT_INVALID_HANDLE3"},
    {30, "DAT_INVALID_HANDLE4"},
    {31, "DAT_INVALID_HANDLE5"},
    {32, "DAT_INVALID_HANDLE6"},
    {33, "DAT_INVALID_HANDLE7"},
    {34, "DAT_INVALID_HANDLE8"},
    {35, "DAT_INVALID_HANDLE9"},
    {36, "DAT_INVALID_HANDLE10"},
    {37, "DAT_INVALID_ARG1"},
    {38, "DAT_INVALID_ARG2"},
    {39, "DAT_INVALID_ARG3"},
    {40, "DAT_INVALID_ARG4"},
    {41, "DAT_INVALID_ARG5"},
    {42, "DAT_INVALID_ARG6"},
    {43, "DAT_INVALID_ARG7"},
    {44, "DAT_INVALID_ARG8"},
    {45, "DAT_INVALID_ARG9"},
    {46, "DAT_INVALID_ARG10"},
    {47, "DAT_INVALID_STATE_EP_UNCONNECTED"},
    {48, "DAT_INVALID_STATE_EP_ACTCONNPENDING"},
    {49, "DAT_INVALID_STATE_EP_PASSCONNPENDING"},
    {50, "DAT_INVALID_STATE_EP_TENTCONNPENDING"},
    {51, "DAT_INVALID_STATE_EP_CONNECTED"},
    {52, "DAT_INVALID_STATE_EP_DISCONNECTED"},
    {53, "DAT_INVALID_STATE_EP_RESERVED"},
    {54, "DAT_INVALID_STATE_EP_COMPLPENDING"},
    {55, "DAT_INVALID_STATE_EP_DISCPENDING"},
    {56, "DAT_INVALID_STATE_EP_PROVIDERCONTROL"},
    {57, "DAT_INVALID_STATE_EP_NOTREADY"},
    {58, "DAT_INVALID_STATE_EP_RECV_WATERMARK"},
    {59, "DAT_INVALID_STATE_EP_PZ"},
    {60, "DAT_INVALID_STATE_EP_EVD_REQUEST"},
    {61, "DAT_INVALID_STATE_EP_EVD_RCV"},
    {62, "DAT_INVALID_STATE_EP_EVD_CONNECT"},
    {63, "DAT_INVALID_STATE_EP_UNCONFIGURED"},
    {64, "DAT_INVALID_STATE_EP_UNCONFRESERVED"},
    {65, "DAT_INVALID_STATE_EP_UNCONFPASSIVE"},
    {66, "DAT_INVALID_STATE_EP_UNCONFTENTATIVE"},
    {67, "DAT_INVALID_STATE_CNO_IN_USE"},
    {68, "DAT_INVALID_STATE_CNO_DEAD"},
    {69, "DAT_INVALID_STATE_EVD_OPEN"},
    {70, "DAT_INVALID_STATE_EVD_ENABLED"},
    {71, "DAT_INVALID_STATE_EVD_DISABLED"},
    {72, "DAT_INVALID_STATE_EVD_WAITABLE"},
    {73, "DAT_INVALID_STATE_EVD_UNWAITABLE"},
    {74, "DAT_INVALID_STATE_EVD_IN_USE"},
    {75, "DAT_INVALID_STATE_EVD_CONFIG_NOTIFY"},
    {76, "DAT_INVALID_STATE_EVD_CONFIG_SOLICITED"},
    {77, "DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD"},
    {78, "DAT_INVALID_STATE_EVD_WAITER"},
    {79, "DAT_INVALID_STATE_EVD_ASYNC"},
    {80, "DAT_INVALID_STATE_IA_IN_USE"},
    {81, "DAT_INVALID_STATE_LMR_IN_USE"},
    {82, "DAT_INVALID_STATE_LMR_FREE"},
    {83, "DAT_INVALID_STATE_PZ_IN_USE"},
    {84, "DAT_INVALID_STATE_PZ_FREE"},
    {85, "DAT_INVALID_STATE_SRQ_OPERATIONAL"},
    {86, "DAT_INVALID_STATE_SRQ_ERROR"},
    {87, "DAT_INVALID_STATE_SRQ_IN_USE"},
    {88, "DAT_INVALID_STATE_SRQ_SHUTDOWN"},
    {89, "DAT_PRIVILEGES_READ"},
    {90, "DAT_PRIVILEGES_WRITE"},
    {91, "DAT_PRIVILEGES_RDMA_READ"},
    {92, "DAT_PRIVILEGES_RDMA_WRITE"},
    {93, "DAT_PROTECTION_READ"},
    {94, "DAT_PROTECTION_WRITE"},
    {95, "DAT_PROTECTION_RDMA_READ"},
    {96, "DAT_PROTECTION_RDMA_WRITE"},
    {97, "DAT_INVALID_ADDRESS_UNSUPPORTED"},
    {98, "DAT_INVALID_ADDRESS_UNREACHABLE"},
    {99, "DAT_INVALID_ADDRESS_MALFORMED"},
    {100, "DAT_NAME_NOT_REGISTERED"},
    {101, "DAT_MAJOR_NOT_FOUND"},
    {102, "DAT_MINOR_NOT_FOUND"},
    {103, "DAT_THREAD_SAFETY_NOT_FOUND"},
};

bool is_known_type(DAT_RETURN type) {
  for (const Row& row : kTypes)
    if (row.value == type) return true;
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(error_names)

BOOST_AUTO_TEST_CASE(every_type_with_every_class) {
  for (const Row& row : kTypes)
    for (const DAT_RETURN class_bits : {0x00000000U, 0x40000000U, 0x80000000U, 0xC0000000U}) {
      const char* major = nullptr;
      const char* minor = nullptr;
      BOOST_TEST(describe(row.value | class_bits, &major, &minor) == 0U);
      BOOST_TEST(std::string(major) == row.text);
      BOOST_TEST(std::string(minor).empty());
    }
}

BOOST_AUTO_TEST_CASE(every_subtype_with_every_type) {
  for (const Row& type : kTypes)
    for (const Row& subtype : kSubtypes) {
      const char* major = nullptr;
      const char* minor = nullptr;
      BOOST_TEST(describe(0x80000000U | type.value | subtype.value, &major, &minor) == 0U);
      BOOST_TEST(std::string(major) == type.text);
      BOOST_TEST(std::string(minor) == subtype.text);
    }
}

BOOST_AUTO_TEST_CASE(unknown_types_leave_minor_alone) {
  for (DAT_RETURN type = 0; type <= 0x3FFF0000U; type += 0x10000U) {
    if (is_known_type(type)) continue;
    const char* major = nullptr;
    const char* untouched = "untouched";
    const char* minor = untouched;
    BOOST_TEST_REQUIRE(describe(0x80000000U | type | 1U, &major, &minor) == 0x00060000U);
    BOOST_TEST_REQUIRE(std::strcmp(major, "unknown error") == 0);
    BOOST_TEST_REQUIRE(minor == untouched);
  }
}

BOOST_AUTO_TEST_CASE(unknown_subtype_keeps_the_major_name) {
  for (DAT_RETURN subtype = 104; subtype <= 0xFFFFU; ++subtype) {
    const char* major = nullptr;
    const char* minor = nullptr;
    BOOST_TEST_REQUIRE(describe(0x80050000U | subtype, &major, &minor) == 0x00060000U);
    BOOST_TEST_REQUIRE(std::strcmp(major, "DAT_INVALID_HANDLE") == 0);
    BOOST_TEST_REQUIRE(std::strcmp(minor, "unknown minor error") == 0);
  }
}

BOOST_AUTO_TEST_CASE(minor_may_be_null) {
  const char* major = nullptr;
  BOOST_TEST(describe(0x80050000U | 999U, &major, nullptr) == 0U);
  BOOST_TEST(std::string(major) == "DAT_INVALID_HANDLE");
}

BOOST_AUTO_TEST_CASE(major_may_not_be_null) {
  const char* minor = nullptr;
  BOOST_TEST(describe(0, nullptr, &minor) == 0x80060026U);
  BOOST_TEST(minor == nullptr);
}

BOOST_AUTO_TEST_CASE(text_for_messages) {
  BOOST_TEST(error_text(0x800A0064U) == "DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED");
  BOOST_TEST(error_text(0x00120000U) == "DAT_INVALID_ADDRESS");
  BOOST_TEST(error_text(0x80180000U) == "unknown error");
}

BOOST_AUTO_TEST_SUITE_END()
