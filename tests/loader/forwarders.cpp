// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Every function that libdat2 forwards: it reaches the right slot, with all arguments unchanged,
// its result is returned unchanged, and an invalid handle gives the documented code without
// reaching the provider.
#define BOOST_TEST_MODULE loader_forwarders
#include <dat/dat_registry.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/stub_provider/slots.h"

namespace {

constexpr DAT_RETURN kReturned = 0x1234FACEU;  // returned by every slot: not a DAT code
constexpr DAT_RETURN kMissing = DAT_CLASS_ERROR | DAT_NOT_IMPLEMENTED;

// The last call of a slot.
struct Recorded {
  const char* slot = nullptr;
  std::vector<unsigned char> arguments;  // their bytes, one after the other
};
Recorded recorded;

template <class... Args>
std::vector<unsigned char> bytes_of(const Args&... args) {
  std::vector<unsigned char> bytes;
  const auto append = [&](const auto& value) {
    const auto* first = reinterpret_cast<const unsigned char*>(&value);
    bytes.insert(bytes.end(), first, first + sizeof value);
  };
  (append(args), ...);
  return bytes;
}

template <auto Slot, class Function = std::remove_reference_t<decltype(DAT_PROVIDER{}.*Slot)>>
struct Recorder;

template <auto Slot, class... Args>
struct Recorder<Slot, DAT_RETURN (*)(Args...)> {
  static inline const char* name = nullptr;
  static DAT_RETURN call(Args... args) {
    recorded = {name, bytes_of(args...)};
    return kReturned;
  }
};

// A value that is different for each position, in every byte where the type allows it.
template <class T>
T make_argument(std::size_t position) {
  T value{};
  if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(position % 2);
  } else {
    std::array<unsigned char, sizeof(T)> pattern{};
    for (std::size_t i = 0; i < sizeof(T); ++i)
      pattern[i] = static_cast<unsigned char>(0x11 * position + i + 1);
    std::memcpy(static_cast<void*>(&value), pattern.data(), sizeof(T));
  }
  return value;
}

DAT_PROVIDER make_table() {
  DAT_PROVIDER made{};
#define UDAPL_RECORD(slot)                          \
  made.slot = &Recorder<&DAT_PROVIDER::slot>::call; \
  Recorder<& DAT_PROVIDER::slot>::name = #slot;
  UDAPL_FOR_EACH_SLOT(UDAPL_RECORD)
#undef UDAPL_RECORD
  return made;
}

// An open IA of a provider whose other slots are recorders.
struct World {
  World() {
    opening = this;
    table = make_table();
    table.device_name = "recorder";
    table.ia_open_func = [](DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE*, DAT_IA_HANDLE* opened) {
      *opened = &opening->object;
      return static_cast<DAT_RETURN>(DAT_SUCCESS);
    };
    DAT_PROVIDER_INFO info{};
    std::strcpy(info.ia_name, "recorder");
    info.dapl_version_major = 2;
    BOOST_TEST_REQUIRE(dat_registry_add_provider(&table, &info) == 0U);
    char name[] = "recorder";
    BOOST_TEST_REQUIRE(dat_ia_openv(name, 8, nullptr, &ia, 2, 0, DAT_FALSE) == 0U);
  }
  static World& world();
  static inline World* opening = nullptr;  // for the open function, which has no context

  DAT_PROVIDER table{};
  const DAT_PROVIDER* object = &table;  // a provider's object begins with its table
  DAT_IA_HANDLE ia = nullptr;           // the number
};

World& World::world() {
  static World* const instance = new World;
  return *instance;
}

enum class Kind { kPlain, kIa, kEither };

struct Case {
  const char* function;
  Kind kind;
  const char* slot;
  DAT_RETURN null_result;
  // Calls the function with this handle and distinctive arguments. Returns its result, and in
  // `expected` the bytes that the slot must see, with `seen` as the handle.
  std::function<DAT_RETURN(DAT_HANDLE handle, DAT_HANDLE seen,
                           std::vector<unsigned char>& expected)>
      call;
};

template <class... Args, std::size_t... Positions>
auto make_call(DAT_RETURN (*function)(DAT_HANDLE, Args...), std::index_sequence<Positions...>) {
  return [function](DAT_HANDLE handle, DAT_HANDLE seen, std::vector<unsigned char>& expected) {
    const std::tuple<Args...> args{make_argument<Args>(Positions + 1)...};
    expected = bytes_of(seen, std::get<Positions>(args)...);
    return function(handle, std::get<Positions>(args)...);
  };
}

template <auto Slot, class... Args>
Case make_case(const char* name, Kind kind, DAT_RETURN_SUBTYPE null_subtype,
               DAT_RETURN (*function)(DAT_HANDLE, Args...)) {
  World::world();  // names the recorders
  return {name, kind, Recorder<Slot>::name,
          static_cast<DAT_RETURN>(0x80050000U | static_cast<unsigned>(null_subtype)),
          make_call(function, std::index_sequence_for<Args...>())};
}

#define PLAIN(function, slot, subtype) \
  make_case<&DAT_PROVIDER::slot>(#function, Kind::kPlain, subtype, &function)
#define IA(function, slot) \
  make_case<&DAT_PROVIDER::slot>(#function, Kind::kIa, DAT_INVALID_HANDLE_IA, &function)
#define EITHER(function, slot) \
  make_case<&DAT_PROVIDER::slot>(#function, Kind::kEither, DAT_INVALID_HANDLE1, &function)

std::vector<Case> all_cases() {
  return {
      IA(dat_ia_query, ia_query_func),
      EITHER(dat_set_consumer_context, set_consumer_context_func),
      EITHER(dat_get_consumer_context, get_consumer_context_func),
      EITHER(dat_get_handle_type, get_handle_type_func),
      PLAIN(dat_cr_query, cr_query_func, DAT_INVALID_HANDLE_CR),
      PLAIN(dat_cr_accept, cr_accept_func, DAT_INVALID_HANDLE_CR),
      PLAIN(dat_cr_reject, cr_reject_func, DAT_INVALID_HANDLE_CR),
      PLAIN(dat_cr_handoff, cr_handoff_func, DAT_INVALID_HANDLE_CR),
      PLAIN(dat_evd_resize, evd_resize_func, DAT_INVALID_HANDLE_EVD_REQUEST),
      PLAIN(dat_evd_post_se, evd_post_se_func, DAT_INVALID_HANDLE_EVD_REQUEST),
      PLAIN(dat_evd_dequeue, evd_dequeue_func, DAT_INVALID_HANDLE_EVD_REQUEST),
      PLAIN(dat_evd_query, evd_query_func, DAT_INVALID_HANDLE_EVD_REQUEST),
      PLAIN(dat_evd_free, evd_free_func, DAT_INVALID_HANDLE_EVD_REQUEST),
      IA(dat_ep_create, ep_create_func),
      PLAIN(dat_ep_query, ep_query_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_modify, ep_modify_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_connect, ep_connect_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_dup_connect, ep_dup_connect_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_common_connect, ep_common_connect_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_disconnect, ep_disconnect_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_post_send, ep_post_send_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_post_send_with_invalidate, ep_post_send_with_invalidate_func,
            DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_post_recv, ep_post_recv_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_post_rdma_read, ep_post_rdma_read_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_post_rdma_read_to_rmr, ep_post_rdma_read_to_rmr_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_post_rdma_write, ep_post_rdma_write_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_get_status, ep_get_status_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_free, ep_free_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_reset, ep_reset_func, DAT_INVALID_HANDLE_EP),
      IA(dat_ep_create_with_srq, ep_create_with_srq_func),
      PLAIN(dat_ep_recv_query, ep_recv_query_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_ep_set_watermark, ep_set_watermark_func, DAT_INVALID_HANDLE_EP),
      PLAIN(dat_lmr_free, lmr_free_func, DAT_INVALID_HANDLE_LMR),
      IA(dat_lmr_sync_rdma_read, lmr_sync_rdma_read_func),
      IA(dat_lmr_sync_rdma_write, lmr_sync_rdma_write_func),
      PLAIN(dat_rmr_create, rmr_create_func, DAT_INVALID_HANDLE_PZ),
      PLAIN(dat_rmr_create_for_ep, rmr_create_for_ep_func, DAT_INVALID_HANDLE_PZ),
      PLAIN(dat_rmr_query, rmr_query_func, DAT_INVALID_HANDLE_RMR),
      PLAIN(dat_rmr_bind, rmr_bind_func, DAT_INVALID_HANDLE_RMR),
      PLAIN(dat_rmr_free, rmr_free_func, DAT_INVALID_HANDLE_RMR),
      IA(dat_psp_create, psp_create_func),
      IA(dat_psp_create_any, psp_create_any_func),
      PLAIN(dat_psp_query, psp_query_func, DAT_INVALID_HANDLE_PSP),
      PLAIN(dat_psp_free, psp_free_func, DAT_INVALID_HANDLE_PSP),
      IA(dat_rsp_create, rsp_create_func),
      PLAIN(dat_rsp_query, rsp_query_func, DAT_INVALID_HANDLE_RSP),
      PLAIN(dat_rsp_free, rsp_free_func, DAT_INVALID_HANDLE_RSP),
      IA(dat_csp_create, csp_create_func),
      PLAIN(dat_csp_query, csp_query_func, DAT_INVALID_HANDLE_CSP),
      PLAIN(dat_csp_free, csp_free_func, DAT_INVALID_HANDLE_CSP),
      IA(dat_pz_create, pz_create_func),
      PLAIN(dat_pz_query, pz_query_func, DAT_INVALID_HANDLE_PZ),
      PLAIN(dat_pz_free, pz_free_func, DAT_INVALID_HANDLE_PZ),
      IA(dat_srq_create, srq_create_func),
      PLAIN(dat_srq_free, srq_free_func, DAT_INVALID_HANDLE_SRQ),
      PLAIN(dat_srq_post_recv, srq_post_recv_func, DAT_INVALID_HANDLE_SRQ),
      PLAIN(dat_srq_query, srq_query_func, DAT_INVALID_HANDLE_SRQ),
      PLAIN(dat_srq_resize, srq_resize_func, DAT_INVALID_HANDLE_SRQ),
      PLAIN(dat_srq_set_lw, srq_set_lw_func, DAT_INVALID_HANDLE_SRQ),
      IA(dat_lmr_create, lmr_create_func),
      PLAIN(dat_lmr_query, lmr_query_func, DAT_INVALID_HANDLE_LMR),
      IA(dat_evd_create, evd_create_func),
      PLAIN(dat_evd_modify_cno, evd_modify_cno_func, DAT_INVALID_HANDLE_EVD_REQUEST),
      IA(dat_cno_create, cno_create_func),
      PLAIN(dat_cno_modify_agent, cno_modify_agent_func, DAT_INVALID_HANDLE_CNO),
      PLAIN(dat_cno_query, cno_query_func, DAT_INVALID_HANDLE_CNO),
      PLAIN(dat_cno_free, cno_free_func, DAT_INVALID_HANDLE_CNO),
      PLAIN(dat_cno_wait, cno_wait_func, DAT_INVALID_HANDLE_CNO),
      PLAIN(dat_evd_enable, evd_enable_func, DAT_INVALID_HANDLE_EVD_REQUEST),
      PLAIN(dat_evd_wait, evd_wait_func, DAT_INVALID_HANDLE_EVD_REQUEST),
      PLAIN(dat_evd_disable, evd_disable_func, DAT_INVALID_HANDLE_EVD_REQUEST),
      PLAIN(dat_evd_set_unwaitable, evd_set_unwaitable_func, DAT_INVALID_HANDLE_EVD_REQUEST),
      PLAIN(dat_evd_clear_unwaitable, evd_clear_unwaitable_func, DAT_INVALID_HANDLE_EVD_REQUEST),
      IA(dat_cno_fd_create, cno_fd_create_func),
      PLAIN(dat_cno_trigger, cno_trigger_func, DAT_INVALID_HANDLE_CNO),
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_function_is_here) {
  // 84 exported; open, close, list, strerror, add, remove, related, dats_get_ia_handle and
  // dat_extension_op are not forwarders.
  BOOST_TEST(all_cases().size() == 75U);
}

BOOST_AUTO_TEST_CASE(slot_arguments_and_result) {
  World& world = World::world();
  for (const Case& test : all_cases()) BOOST_TEST_CONTEXT(test.function) {
      std::vector<DAT_HANDLE> handles;
      if (test.kind != Kind::kIa) handles.push_back(&world.object);
      if (test.kind != Kind::kPlain) handles.push_back(world.ia);
      if (test.kind == Kind::kIa) handles.push_back(&world.object);  // as in old async events
      for (const DAT_HANDLE handle : handles) {
        std::vector<unsigned char> expected;
        recorded = {};
        BOOST_TEST(test.call(handle, &world.object, expected) == kReturned);
        BOOST_TEST_REQUIRE(recorded.slot != nullptr);
        BOOST_TEST(std::string(recorded.slot) == test.slot);
        BOOST_TEST(recorded.arguments == expected, boost::test_tools::per_element());
      }
    }
}

BOOST_AUTO_TEST_CASE(null_handles_are_refused) {
  for (const Case& test : all_cases()) BOOST_TEST_CONTEXT(test.function) {
      std::vector<unsigned char> expected;
      recorded = {};
      BOOST_TEST(test.call(nullptr, nullptr, expected) == test.null_result);
      BOOST_TEST(recorded.slot == nullptr);
    }
}

BOOST_AUTO_TEST_CASE(handles_that_are_no_ia) {
  const DAT_PROVIDER* const never_opened = &World::world().table;
  for (const Case& test : all_cases()) {
    if (test.kind == Kind::kPlain) continue;
    BOOST_TEST_CONTEXT(test.function) {
      std::vector<DAT_HANDLE> handles = {
          reinterpret_cast<DAT_HANDLE>(2), reinterpret_cast<DAT_HANDLE>(63),
          reinterpret_cast<DAT_HANDLE>(64), reinterpret_cast<DAT_HANDLE>(65535)};
      if (test.kind == Kind::kIa)
        handles.push_back(const_cast<const DAT_PROVIDER**>(&never_opened));
      for (const DAT_HANDLE handle : handles) {
        std::vector<unsigned char> expected;
        recorded = {};
        BOOST_TEST(test.call(handle, nullptr, expected) == test.null_result);
        BOOST_TEST(recorded.slot == nullptr);
      }
    }
  }
}

// A provider may leave slots empty. On the data path, nothing looks for that.
BOOST_AUTO_TEST_CASE(empty_slots_are_not_implemented) {
  static DAT_PROVIDER table{};
  static const DAT_PROVIDER* object = &table;
  table.ia_open_func = [](DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE*, DAT_IA_HANDLE* opened) {
    *opened = &object;
    return static_cast<DAT_RETURN>(DAT_SUCCESS);
  };
  DAT_PROVIDER_INFO info{};
  std::strcpy(info.ia_name, "empty");
  info.dapl_version_major = 2;
  BOOST_TEST_REQUIRE(dat_registry_add_provider(&table, &info) == 0U);
  char name[] = "empty";
  DAT_IA_HANDLE ia = nullptr;
  BOOST_TEST_REQUIRE(dat_ia_openv(name, 8, nullptr, &ia, 2, 0, DAT_FALSE) == 0U);
  constexpr std::array<std::string_view, 9> kDataPath = {
      "ep_post_send_func",       "ep_post_send_with_invalidate_func",
      "ep_post_recv_func",       "ep_post_rdma_read_func",
      "ep_post_rdma_write_func", "ep_post_rdma_read_to_rmr_func",
      "rmr_bind_func",           "srq_post_recv_func",
      "evd_dequeue_func"};
  for (const Case& test : all_cases()) BOOST_TEST_CONTEXT(test.function) {
      if (std::find(kDataPath.begin(), kDataPath.end(), test.slot) != kDataPath.end()) continue;
      std::vector<unsigned char> expected;
      if (test.kind != Kind::kIa) BOOST_TEST(test.call(&object, nullptr, expected) == kMissing);
      if (test.kind != Kind::kPlain) BOOST_TEST(test.call(ia, nullptr, expected) == kMissing);
    }
  BOOST_TEST(dat_extension_op(ia, 5) == kMissing);
  BOOST_TEST(dat_extension_op(&object, 5) == kMissing);
  BOOST_TEST(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == kMissing);
  table.ia_close_func = [](DAT_IA_HANDLE, DAT_CLOSE_FLAGS) { return DAT_RETURN{DAT_SUCCESS}; };
  BOOST_TEST(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == 0U);
}

BOOST_AUTO_TEST_CASE(every_slot_has_its_own_function) {
  std::vector<std::string> slots;
  for (const Case& test : all_cases()) slots.push_back(test.slot);
  std::sort(slots.begin(), slots.end());
  BOOST_CHECK(std::adjacent_find(slots.begin(), slots.end()) == slots.end());
}
