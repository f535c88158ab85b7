// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "harness.h"

#include <dat/dat_ib_extensions.h>

#include <cstring>
#include <string>
#include <string_view>

// Common code of the tests of the InfiniBand extensions. Events are those that existing programs
// expect.
namespace conformance {

constexpr DAT_COMPLETION_FLAGS kDefault = DAT_COMPLETION_DEFAULT_FLAG;

inline bool has_extensions(const Ia& ia) { return ia.attr.extension_supported == DAT_EXTENSION_IB; }
constexpr const char* kNoExtensions = "the IA has no IB extensions";

// The value of a named attribute of the provider; empty if there is none.
inline std::string_view named(const Ia& ia, std::string_view name) {
  const DAT_PROVIDER_ATTR& attr = ia.provider();
  for (DAT_COUNT i = 0; i < attr.num_provider_specific_attr; ++i)
    if (attr.provider_specific_attr[i].name == name) return attr.provider_specific_attr[i].value;
  return {};
}

inline DAT_IB_EXTENSION_EVENT_DATA extension_of(const DAT_EVENT& event) {
  DAT_IB_EXTENSION_EVENT_DATA data{};
  static_assert(sizeof data <= sizeof event.event_extension_data);
  std::memcpy(&data, event.event_extension_data, sizeof data);
  return data;
}

// The expected completion of a successful extended operation.
struct ExtendedDto {
  DAT_IB_DTOS operation;
  DAT_IB_EXT_TYPE type;
  std::uint64_t cookie;
  std::size_t length;
};

inline DAT_IB_EXTENSION_EVENT_DATA expect_extended(DAT_EVD_HANDLE evd,
                                                   const ExtendedDto& expected) {
  const DAT_EVENT event = expect_event(evd, static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT));
  const auto& dto = event.event_data.dto_completion_event_data;
  BOOST_CHECK_EQUAL(dto.status, DAT_DTO_SUCCESS);
  BOOST_CHECK_EQUAL(dto.user_cookie.as_64, expected.cookie);
  BOOST_CHECK_EQUAL(static_cast<int>(dto.operation), static_cast<int>(expected.operation));
  BOOST_CHECK_EQUAL(dto.transfered_length, expected.length);
  const DAT_IB_EXTENSION_EVENT_DATA data = extension_of(event);
  BOOST_CHECK_EQUAL(data.type, expected.type);
  BOOST_CHECK_EQUAL(data.status, DAT_OP_SUCCESS);
  return data;
}

// Expects the completion of a failed operation. Its event may have either number; only the status
// matters.
inline void expect_failed(DAT_EVD_HANDLE evd, DAT_DTO_COMPLETION_STATUS status,
                          std::uint64_t value) {
  const auto event = next_event(evd);
  BOOST_REQUIRE(event);
  const auto& dto = event->event_data.dto_completion_event_data;
  BOOST_CHECK_EQUAL(dto.status, status);
  BOOST_CHECK_EQUAL(dto.user_cookie.as_64, value);
  const bool extended = event->event_number == static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT);
  BOOST_CHECK(extended || event->event_number == DAT_DTO_COMPLETION_EVENT);
  if (extended) BOOST_CHECK_NE(extension_of(*event).status, DAT_OP_SUCCESS);
}

// A pair whose EVDs accept extension events, and memory on both sides.
struct ExtendedPair {
  static constexpr std::size_t kSize = 256;

  ExtendedPair()
      : here(pair.ia, pair.pz, kSize),
        there(
            pair.ia, pair.pz, kSize,
            static_cast<DAT_MEM_PRIV_FLAGS>(
                DAT_MEM_PRIV_ALL_FLAG |
                (has_extensions(pair.ia) ? static_cast<int>(DAT_IB_MEM_PRIV_REMOTE_ATOMIC) : 0))) {}

  // The word at the start of a buffer.
  static std::uint64_t word(const Buffer& buffer, std::size_t offset = 0) {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.bytes.data() + offset, sizeof value);
    return value;
  }
  static void set_word(Buffer& buffer, std::uint64_t value, std::size_t offset = 0) {
    std::memcpy(buffer.bytes.data() + offset, &value, sizeof value);
  }

  DAT_RETURN write_immediate(std::size_t length, std::uint32_t data, std::uint64_t value,
                             DAT_COMPLETION_FLAGS flags = kDefault) {
    DAT_LMR_TRIPLET segment = here.local(length);
    DAT_RMR_TRIPLET remote = there.remote(length);
    const DAT_COUNT count = length == 0 ? 0 : 1;
    return dat_ib_post_rdma_write_immed(pair.active.ep, count, &segment, cookie(value), &remote,
                                        data, flags);
  }
  DAT_RETURN fetch_add(std::uint64_t add, std::uint64_t value, std::size_t offset = 0,
                       DAT_COMPLETION_FLAGS flags = kDefault) {
    DAT_LMR_TRIPLET segment = here.local(8);
    DAT_RMR_TRIPLET remote = there.remote(8, offset);
    return dat_ib_post_fetch_and_add(pair.active.ep, add, &segment, cookie(value), &remote, flags);
  }
  DAT_RETURN compare_swap(std::uint64_t compare, std::uint64_t swap, std::uint64_t value) {
    DAT_LMR_TRIPLET segment = here.local(8);
    DAT_RMR_TRIPLET remote = there.remote(8);
    return dat_ib_post_cmp_and_swap(pair.active.ep, compare, swap, &segment, cookie(value), &remote,
                                    kDefault);
  }

  Pair pair;
  Buffer here;
  Buffer there;
};

// Skips the test unless the IA has the extension with that name.
inline bool skip_unless_named(const Ia& ia, const char* name) {
  return skip_unless(has_extensions(ia) && !named(ia, name).empty() && named(ia, name) != "FALSE",
                     std::string("the IA has no ") + name);
}

}  // namespace conformance
