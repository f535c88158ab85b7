// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Opening and closing, async EVDs, contexts, and providers.
#include "tests/unit/dapl_events/support.h"

#include <array>

namespace udapl::test {

namespace {

int async_events(const OpenIa& ia, DAT_EVD_HANDLE evd, int number, DAT_HANDLE object, int reason) {
  int count = 0;
  DAT_EVENT event{};
  while (ia->evd_dequeue_func(evd, &event) == DAT_SUCCESS) {
    const auto& data = event.event_data.asynch_error_event_data;
    BOOST_CHECK_EQUAL(static_cast<int>(event.event_number), number);
    BOOST_CHECK_EQUAL(event.evd_handle, evd);
    BOOST_CHECK_EQUAL(data.dat_handle, object);
    BOOST_CHECK_EQUAL(data.reason, reason);
    ++count;
  }
  return count;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(ia_life, Providers)

BOOST_AUTO_TEST_CASE(open_refuses_bad_arguments) {
  const DAT_PROVIDER* const table = fake::registered(kName, true);
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  char name[] = "fake";
  char unknown[] = "fake2";
  CHECK_CODE(table->ia_open_func(nullptr, 8, &evd, &ia), invalid_parameter(DAT_INVALID_ARG1));
  CHECK_CODE(table->ia_open_func(unknown, 8, &evd, &ia), invalid_parameter(DAT_INVALID_ARG1));
  CHECK_CODE(table->ia_open_func(name, 8, nullptr, &ia), invalid_parameter(DAT_INVALID_ARG3));
  CHECK_CODE(table->ia_open_func(name, 8, &evd, nullptr), invalid_parameter(DAT_INVALID_ARG4));
  CHECK_CODE(table->ia_open_func(name, 0, &evd, &ia), invalid_parameter(DAT_INVALID_ARG2));
  CHECK_CODE(table->ia_open_func(name, -3, &evd, &ia), invalid_parameter(DAT_INVALID_ARG2));
  evd = DAT_EVD_OUT_OF_SCOPE;
  CHECK_ERROR(table->ia_open_func(name, 8, &evd, &ia), DAT_INVALID_HANDLE);
  BOOST_CHECK(evd == DAT_EVD_OUT_OF_SCOPE);
  evd = DAT_HANDLE_NULL;
  fake::settings().refuse_open = true;
  CHECK_ERROR(table->ia_open_func(name, 8, &evd, &ia), DAT_INVALID_ADDRESS);
  fake::settings().refuse_open = false;
  BOOST_CHECK(evd == DAT_HANDLE_NULL);
  BOOST_CHECK(ia == DAT_HANDLE_NULL);
  BOOST_CHECK(fake::settings().latest == nullptr);
}

BOOST_AUTO_TEST_CASE(open_makes_an_async_evd) {
  const OpenIa ia(true, DAT_HANDLE_NULL, 5);
  BOOST_CHECK_EQUAL(fake::settings().latest_params, "device 1");
  DAT_EVD_PARAM param{};
  REQUIRE_OK(ia->evd_query_func(ia.async, DAT_EVD_FIELD_ALL, &param));
  BOOST_CHECK_EQUAL(param.evd_qlen, 256);
  BOOST_CHECK(param.cno_handle == DAT_HANDLE_NULL);
  BOOST_CHECK_EQUAL(static_cast<unsigned>(param.evd_flags), 0x100U);
  BOOST_CHECK_EQUAL(param.evd_state & 0xF, 0x5);
  REQUIRE_OK(ia->evd_resize_func(ia.async, 50));
  REQUIRE_OK(ia->evd_modify_cno_func(ia.async, ia.cno()));
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ia_query_func(ia.raw, &evd, 0, nullptr, 0, nullptr));
  BOOST_CHECK_EQUAL(evd, ia.async);
}

BOOST_AUTO_TEST_CASE(handles_point_to_their_provider_table) {
  const OpenIa ia;
  const DAT_EVD_HANDLE evd = ia.evd(kSoftware);
  for (const DAT_HANDLE handle : {ia.raw, ia.async, evd}) {
    const DAT_PROVIDER* const table = DAT_HANDLE_TO_PROVIDER(handle);
    BOOST_CHECK_EQUAL(table, ia.table);
    BOOST_CHECK_EQUAL(std::string(table->device_name), "fake");
  }
  REQUIRE_OK(ia->evd_free_func(evd));
  BOOST_CHECK_EQUAL(DAT_HANDLE_TO_PROVIDER(evd), ia.table);  // so that calls can refuse the handle
}

BOOST_AUTO_TEST_CASE(every_slot_of_both_tables_is_filled) {
  for (const bool thread_safe : {false, true}) {
    const DAT_PROVIDER* const table = fake::registered(kName, thread_safe);
    const auto* const slots = reinterpret_cast<const std::uintptr_t*>(table);
    static_assert(sizeof(DAT_PROVIDER) == 648);
    for (std::size_t i = 2; i < sizeof(DAT_PROVIDER) / sizeof *slots; ++i)
      BOOST_CHECK_MESSAGE(slots[i] != 0, "slot " << i);
  }
}

BOOST_AUTO_TEST_CASE(provider_can_be_registered_again) {
  const DAT_PROVIDER* before = nullptr;
  for (int round = 0; round < 3; ++round) {
    const DAT_PROVIDER_INFO info = Providers::info("again", false);
    dapl::register_provider(fake::provider_kit(), &info, nullptr);
    const DAT_PROVIDER* const table = fake::registered("again", false);
    BOOST_REQUIRE(table != nullptr);
    if (before != nullptr) BOOST_CHECK_EQUAL(table, before);  // stale handles remain recognisable
    before = table;
    BOOST_CHECK(dapl::find_provider("again", false) != nullptr);
    BOOST_CHECK(dapl::find_provider("again", true) == nullptr);
    dapl::unregister_provider(&info);
    BOOST_CHECK(dapl::find_provider("again", false) == nullptr);
    BOOST_CHECK(fake::registered("again", false) == nullptr);
    dapl::unregister_provider(&info);  // harmless
  }
  fake::refuse_registration(dat_error(DAT_INSUFFICIENT_RESOURCES));
  const DAT_PROVIDER_INFO info = Providers::info("never", false);
  dapl::register_provider(fake::provider_kit(), &info, "");
  BOOST_CHECK(dapl::find_provider("never", false) == nullptr);
  dapl::register_provider(fake::provider_kit(), nullptr, "");
}

BOOST_AUTO_TEST_CASE(graceful_close_needs_everything_freed) {
  OpenIa ia;
  const DAT_PZ_HANDLE pz = ia.pz();
  CHECK_ERROR(ia.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_INVALID_STATE);
  REQUIRE_OK(ia->pz_free_func(pz));
  const DAT_CNO_HANDLE cno = ia.cno();
  CHECK_ERROR(ia.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_INVALID_STATE);
  REQUIRE_OK(ia->cno_free_func(cno));
  CHECK_ERROR(ia->ia_close_func(ia.raw, any_value<DAT_CLOSE_FLAGS>(2)), DAT_INVALID_PARAMETER);
  CHECK_ERROR(ia->ia_close_func(ia.async, DAT_CLOSE_ABRUPT_FLAG), DAT_INVALID_HANDLE);
  const DAT_IA_HANDLE raw = ia.raw;
  const DAT_EVD_HANDLE async = ia.async;
  REQUIRE_OK(ia.close(DAT_CLOSE_GRACEFUL_FLAG));
  CHECK_ERROR(ia->ia_close_func(raw, DAT_CLOSE_ABRUPT_FLAG), DAT_INVALID_HANDLE);
  CHECK_ERROR(ia->evd_free_func(async), DAT_INVALID_HANDLE);
  BOOST_CHECK(fake::settings().latest == nullptr);  // the adapter has been destroyed
}

BOOST_AUTO_TEST_CASE(abrupt_close_frees_all_objects) {
  OpenIa ia;
  const DAT_PZ_HANDLE pz = ia.pz();
  const DAT_CNO_HANDLE cno = ia.cno();
  const DAT_EVD_HANDLE evd = ia.evd(DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, 8, cno);
  const DAT_SRQ_HANDLE srq = ia.srq(pz);
  std::vector<std::byte> memory(64);
  DAT_REGION_DESCRIPTION region{};
  region.for_va = memory.data();
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->lmr_create_func(ia.raw, DAT_MEM_TYPE_VIRTUAL, region, 64, pz,
                                 DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, nullptr, nullptr,
                                 nullptr, nullptr));
  DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->rmr_create_func(pz, &rmr));
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  REQUIRE_OK(ia->ep_create_func(ia.raw, pz, evd, evd, evd, nullptr, &ep));
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  REQUIRE_OK(
      ia->psp_create_func(ia.raw, 1234, ia.evd(DAT_EVD_CR_FLAG), DAT_PSP_CONSUMER_FLAG, &psp));
  CHECK_ERROR(ia->pz_free_func(pz), DAT_INVALID_STATE);
  CHECK_ERROR(ia->evd_free_func(evd), DAT_INVALID_STATE);
  REQUIRE_OK(ia.close());
  DAT_HANDLE_TYPE type{};
  for (const DAT_HANDLE handle : {pz, cno, evd, srq, lmr, rmr, ep, psp})
    CHECK_ERROR(ia->get_handle_type_func(handle, &type), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(all_opens_of_a_name_get_an_async_event) {
  const OpenIa one;
  const OpenIa two(false);
  fake::settings().latest->catastrophe();
  fake::Scheduler::instance().run();
  BOOST_CHECK_EQUAL(async_events(one, one.async, 0x8002, two.number, 0), 1);
  BOOST_CHECK_EQUAL(async_events(two, two.async, 0x8002, two.number, 0), 1);
  fake::settings().latest->internal_error();
  fake::Scheduler::instance().run();
  BOOST_CHECK_EQUAL(async_events(one, one.async, 0x8005, two.number, 1), 1);
  BOOST_CHECK_EQUAL(async_events(two, two.async, 0x8005, two.number, 1), 1);
}

BOOST_AUTO_TEST_CASE(an_open_of_another_name_gets_no_async_event) {
  const DAT_PROVIDER_INFO info = Providers::info("stranger", true);
  dapl::register_provider(fake::provider_kit(), &info, "");
  const DAT_PROVIDER* const table = fake::registered("stranger", true);
  char name[] = "stranger";
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE stranger = DAT_HANDLE_NULL;
  REQUIRE_OK(table->ia_open_func(name, 8, &evd, &stranger));
  const OpenIa ia;
  fake::settings().latest->catastrophe();
  fake::Scheduler::instance().run();
  DAT_EVENT event{};
  CHECK_ERROR(table->evd_dequeue_func(evd, &event), DAT_QUEUE_EMPTY);
  // Unless one of its opens shares the async EVD.
  DAT_EVD_HANDLE foreign = ia.async;
  DAT_IA_HANDLE other = DAT_HANDLE_NULL;
  REQUIRE_OK(table->ia_open_func(name, 8, &foreign, &other));
  fake::settings().latest->catastrophe();
  fake::Scheduler::instance().run();
  REQUIRE_OK(table->evd_dequeue_func(ia.async, &event));
  BOOST_CHECK_EQUAL(static_cast<int>(event.event_number), 0x8002);
  REQUIRE_OK(table->ia_close_func(other, DAT_CLOSE_GRACEFUL_FLAG));
  REQUIRE_OK(table->ia_close_func(stranger, DAT_CLOSE_GRACEFUL_FLAG));
  dapl::unregister_provider(&info);
}

BOOST_AUTO_TEST_CASE(an_async_evd_can_serve_several_opens) {
  OpenIa owner;
  {
    OpenIa guest(true, owner.async, 0);  // the length is ignored
    BOOST_CHECK_EQUAL(guest.async, owner.async);
    fake::settings().latest->catastrophe();
    fake::Scheduler::instance().run();
    BOOST_CHECK_EQUAL(async_events(owner, owner.async, 0x8002, guest.number, 0), 1);  // one copy
    REQUIRE_OK(guest.close(DAT_CLOSE_GRACEFUL_FLAG));
    DAT_EVD_PARAM param{};
    REQUIRE_OK(owner->evd_query_func(owner.async, DAT_EVD_FIELD_ALL, &param));  // still valid
  }
  OpenIa guest(true, owner.async);
  CHECK_ERROR(owner->evd_free_func(owner.async), DAT_INVALID_STATE);
  REQUIRE_OK(owner.close());  // detaches its EVD from the guest
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  REQUIRE_OK(guest->ia_query_func(guest.raw, &evd, 0, nullptr, 0, nullptr));
  BOOST_CHECK(evd == DAT_EVD_OUT_OF_SCOPE);
  fake::settings().latest->catastrophe();
  fake::Scheduler::instance().run();
}

BOOST_AUTO_TEST_CASE(an_evd_of_the_consumer_can_be_the_async_evd) {
  OpenIa first;
  const DAT_EVD_HANDLE made = first.evd(DAT_EVD_ASYNC_FLAG);
  OpenIa second(true, made);
  CHECK_ERROR(first->evd_free_func(made), DAT_INVALID_STATE);
  fake::settings().latest->catastrophe();
  fake::Scheduler::instance().run();
  BOOST_CHECK_EQUAL(async_events(first, made, 0x8002, second.number, 0), 1);
  BOOST_CHECK_EQUAL(async_events(first, first.async, 0x8002, second.number, 0), 1);
  REQUIRE_OK(second.close());
  REQUIRE_OK(first->evd_free_func(made));
  OpenIa bad_flags;
  const DAT_PROVIDER* const table = first.table;
  DAT_EVD_HANDLE software = first.evd(kSoftware);
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  char name[] = "fake";
  CHECK_ERROR(table->ia_open_func(name, 8, &software, &ia), DAT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(an_open_without_async_evd) {
  const OpenIa with;
  const OpenIa without(true, DAT_EVD_ASYNC_EXISTS);
  BOOST_CHECK(without.async == DAT_EVD_OUT_OF_SCOPE);
  DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
  REQUIRE_OK(without->ia_query_func(without.raw, &evd, 0, nullptr, 0, nullptr));
  BOOST_CHECK(evd == DAT_EVD_OUT_OF_SCOPE);
  fake::settings().latest->catastrophe();
  fake::Scheduler::instance().run();
  BOOST_CHECK_EQUAL(async_events(with, with.async, 0x8002, without.number, 0), 1);
}

BOOST_AUTO_TEST_CASE(async_events_trigger_a_cno) {
  OpenIa ia;
  CountingAgent counting;
  REQUIRE_OK(ia->evd_modify_cno_func(ia.async, ia.cno(counting.agent())));
  fake::settings().latest->catastrophe();
  fake::Scheduler::instance().run();
  finish_agents(ia);
  BOOST_CHECK_EQUAL(counting.calls.load(), 1);
  BOOST_CHECK_EQUAL(counting.latest.load(), ia.async);
}

BOOST_AUTO_TEST_CASE(contexts_and_types_of_all_objects) {
  const OpenIa ia;
  const DAT_PZ_HANDLE pz = ia.pz();
  const std::pair<DAT_HANDLE, DAT_HANDLE_TYPE> objects[] = {{ia.raw, DAT_HANDLE_TYPE_IA},
                                                            {ia.async, DAT_HANDLE_TYPE_EVD},
                                                            {pz, DAT_HANDLE_TYPE_PZ},
                                                            {ia.cno(), DAT_HANDLE_TYPE_CNO},
                                                            {ia.srq(pz), DAT_HANDLE_TYPE_SRQ}};
  for (const auto& [handle, expected] : objects) {
    DAT_HANDLE_TYPE type{};
    REQUIRE_OK(ia->get_handle_type_func(handle, &type));
    BOOST_CHECK_EQUAL(type, expected);
    DAT_CONTEXT context{};
    context.as_64 = 1;
    REQUIRE_OK(ia->get_consumer_context_func(handle, &context));
    BOOST_CHECK_EQUAL(context.as_64, 0U);
    context.as_64 = 0x1122334455667788;
    REQUIRE_OK(ia->set_consumer_context_func(handle, context));
    context.as_64 = 0;
    REQUIRE_OK(ia->get_consumer_context_func(handle, &context));
    BOOST_CHECK_EQUAL(context.as_64, 0x1122334455667788U);
    CHECK_ERROR(ia->get_consumer_context_func(handle, nullptr), DAT_INVALID_PARAMETER);
    CHECK_ERROR(ia->get_handle_type_func(handle, nullptr), DAT_INVALID_PARAMETER);
  }
  const DAT_CNO_HANDLE dead = ia.cno();
  REQUIRE_OK(ia->cno_free_func(dead));
  std::array<std::uint64_t, 32> noise{};
  for (const DAT_HANDLE handle : {DAT_HANDLE{nullptr}, DAT_HANDLE{noise.data()}, dead}) {
    DAT_CONTEXT context{};
    DAT_HANDLE_TYPE type{};
    CHECK_ERROR(ia->set_consumer_context_func(handle, context), DAT_INVALID_HANDLE);
    CHECK_ERROR(ia->get_consumer_context_func(handle, &context), DAT_INVALID_HANDLE);
    CHECK_ERROR(ia->get_handle_type_func(handle, &type), DAT_INVALID_HANDLE);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
