// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Every operation on an EVD in every state of the EVD.
#include "tests/unit/dapl_events/support.h"

#include <array>
#include <future>
#include <string>
#include <string_view>

namespace udapl::test {

namespace {

// The state of an EVD, as far as operations depend on it.
struct State {
  bool dto;  // has a CQ
  bool enabled;
  bool waitable;
  bool with_cno;
  bool waited;
  int events;  // 0, 1, or kQlen
};
constexpr DAT_COUNT kQlen = 4;

std::string text(const State& s) {
  return std::string(s.dto ? "dto " : "software ") + (s.enabled ? "enabled " : "disabled ") +
         (s.waitable ? "waitable " : "unwaitable ") + (s.with_cno ? "cno " : "") +
         (s.waited ? "waited " : "") + std::to_string(s.events) + " events";
}

struct Operation {
  const char* name;
  DAT_RETURN (*run)(const OpenIa& ia, DAT_EVD_HANDLE evd);
  DAT_RETURN (*expected)(const State& state);
};

DAT_RETURN error(DAT_RETURN type, DAT_RETURN subtype = 0) {
  return DAT_CLASS_ERROR | type | subtype;
}
DAT_RETURN always_ok(const State&) { return DAT_SUCCESS; }

DAT_RETURN wait_threshold(const OpenIa& ia, DAT_EVD_HANDLE evd, DAT_COUNT threshold) {
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  return ia->evd_wait_func(evd, 0, threshold, &event, &more);
}
DAT_RETURN expect_wait(const State& s, int threshold) {
  if (s.waited) return error(DAT_INVALID_STATE);
  if (!s.waitable) return error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_UNWAITABLE);
  if (s.events >= threshold) return DAT_SUCCESS;
  return s.dto ? static_cast<DAT_RETURN>(DAT_TIMEOUT_EXPIRED) : error(DAT_TIMEOUT_EXPIRED);
}

const std::array kOperations = {
    Operation{"wait 1",
              [](const OpenIa& ia, DAT_EVD_HANDLE evd) { return wait_threshold(ia, evd, 1); },
              [](const State& s) { return expect_wait(s, 1); }},
    Operation{"wait 2",
              [](const OpenIa& ia, DAT_EVD_HANDLE evd) { return wait_threshold(ia, evd, 2); },
              [](const State& s) { return expect_wait(s, 2); }},
    Operation{
        "wait qlen + 1",
        [](const OpenIa& ia, DAT_EVD_HANDLE evd) { return wait_threshold(ia, evd, kQlen + 1); },
        [](const State&) { return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3); }},
    Operation{"dequeue",
              [](const OpenIa& ia, DAT_EVD_HANDLE evd) {
                DAT_EVENT event{};
                return ia->evd_dequeue_func(evd, &event);
              },
              [](const State& s) {
                if (s.waited) return error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER);
                if (s.events > 0) return static_cast<DAT_RETURN>(DAT_SUCCESS);
                return s.dto ? static_cast<DAT_RETURN>(DAT_QUEUE_EMPTY) : error(DAT_QUEUE_EMPTY);
              }},
    Operation{"post_se", [](const OpenIa& ia, DAT_EVD_HANDLE evd) { return ia.post(evd); },
              [](const State& s) {
                return s.events == kQlen ? error(DAT_QUEUE_FULL)
                                         : static_cast<DAT_RETURN>(DAT_SUCCESS);
              }},
    Operation{"enable",
              [](const OpenIa& ia, DAT_EVD_HANDLE evd) { return ia->evd_enable_func(evd); },
              always_ok},
    Operation{"disable",
              [](const OpenIa& ia, DAT_EVD_HANDLE evd) { return ia->evd_disable_func(evd); },
              always_ok},
    Operation{
        "clear_unwaitable",
        [](const OpenIa& ia, DAT_EVD_HANDLE evd) { return ia->evd_clear_unwaitable_func(evd); },
        always_ok},
    Operation{"set_unwaitable",
              [](const OpenIa& ia, DAT_EVD_HANDLE evd) { return ia->evd_set_unwaitable_func(evd); },
              always_ok},
    Operation{"modify_cno",
              [](const OpenIa& ia, DAT_EVD_HANDLE evd) {
                return ia->evd_modify_cno_func(evd, DAT_HANDLE_NULL);
              },
              always_ok},
    Operation{"query",
              [](const OpenIa& ia, DAT_EVD_HANDLE evd) {
                DAT_EVD_PARAM param{};
                return ia->evd_query_func(evd, DAT_EVD_FIELD_ALL, &param);
              },
              always_ok},
    Operation{
        "resize larger",
        [](const OpenIa& ia, DAT_EVD_HANDLE evd) { return ia->evd_resize_func(evd, 2 * kQlen); },
        [](const State& s) {
          return s.waited ? error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER)
                          : static_cast<DAT_RETURN>(DAT_SUCCESS);
        }},
    Operation{
        "resize smaller",
        [](const OpenIa& ia, DAT_EVD_HANDLE evd) { return ia->evd_resize_func(evd, kQlen - 1); },
        [](const State& s) {
          if (s.waited) return error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER);
          return s.events == kQlen ? error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_IN_USE)
                                   : static_cast<DAT_RETURN>(DAT_SUCCESS);
        }},
    Operation{"free", [](const OpenIa& ia, DAT_EVD_HANDLE evd) { return ia->evd_free_func(evd); },
              [](const State& s) {
                return s.waited ? error(DAT_INVALID_STATE, DAT_INVALID_STATE_EVD_WAITER)
                                : static_cast<DAT_RETURN>(DAT_SUCCESS);
              }},
};

// Creates an EVD, brings it to the state, and checks its state bits and the operation's return
// code.
void check(const OpenIa& ia, const State& state, const Operation& operation) {
  const DAT_CNO_HANDLE cno = state.with_cno ? ia.cno() : DAT_HANDLE_NULL;
  const DAT_EVD_HANDLE evd =
      ia.evd(DAT_EVD_SOFTWARE_FLAG | (state.dto ? unsigned{DAT_EVD_DTO_FLAG} : 0U), kQlen, cno);
  for (int i = 0; i < state.events; ++i) REQUIRE_OK(ia.post(evd));
  if (!state.enabled) REQUIRE_OK(ia->evd_disable_func(evd));
  if (!state.waitable) REQUIRE_OK(ia->evd_set_unwaitable_func(evd));
  std::future<DAT_RETURN> waiter;
  if (state.waited) {
    waiter = std::async(std::launch::async, [&ia, evd] {
      DAT_EVENT event{};
      DAT_COUNT more = 0;
      return ia->evd_wait_func(evd, kForever, kQlen, &event, &more);
    });
    await_waiter(evd);
  }
  BOOST_CHECK_EQUAL(object(evd).state(),
                    (state.enabled ? 0x1 : 0x2) | (state.waitable ? 0x4 : 0x8) | 0x30);

  const DAT_RETURN code = operation.run(ia, evd);
  BOOST_CHECK_MESSAGE(code == operation.expected(state),
                      operation.name << " on " << text(state) << ": 0x" << std::hex << code
                                     << ", expected 0x" << operation.expected(state));

  if (state.waited) {
    // After any operation the waiter stays until it is made to leave.
    REQUIRE_OK(ia->evd_set_unwaitable_func(evd));
    waiter.get();
  }
  if (dapl::handle_cast<dapl::Evd>(evd) != nullptr) REQUIRE_OK(ia->evd_free_func(evd));
  if (cno != DAT_HANDLE_NULL) REQUIRE_OK(ia->cno_free_func(cno));
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(evd_states, Fixture)

BOOST_AUTO_TEST_CASE(every_operation_in_every_state) {
  int pairs = 0;
  for (int bits = 0; bits < 32; ++bits) {
    for (const int events : {0, 1, static_cast<int>(kQlen)}) {
      const State state{(bits & 1) != 0, (bits & 2) != 0,  (bits & 4) != 0,
                        (bits & 8) != 0, (bits & 16) != 0, events};
      // A full queue satisfies the waiter, and an unwaitable EVD has none.
      if (state.waited && (!state.waitable || events == kQlen)) continue;
      for (const Operation& operation : kOperations) {
        check(ia, state, operation);
        ++pairs;
      }
    }
  }
  BOOST_CHECK_EQUAL(pairs, (16 * 3 + 8 * 2) * static_cast<int>(kOperations.size()));
}

BOOST_AUTO_TEST_CASE(operations_on_an_invalid_handle) {
  const DAT_EVD_HANDLE dead = ia.evd(DAT_EVD_SOFTWARE_FLAG);
  REQUIRE_OK(ia->evd_free_func(dead));
  for (const DAT_HANDLE handle : {DAT_HANDLE{nullptr}, ia.raw, ia.cno(), dead}) {
    for (const Operation& operation : kOperations) {
      // The registry dispatches a dequeue through the first word of the object, and refuses null.
      if (handle == nullptr && std::string_view(operation.name) == "dequeue") continue;
      const DAT_RETURN code = operation.run(ia, handle);
      BOOST_CHECK_MESSAGE(is_error(code, DAT_INVALID_HANDLE),
                          operation.name << " gave 0x" << std::hex << code);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::test
