// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

// Every operation in every state of an EVD: docs/semantics.md#states-of-an-evd. An EVD is
// enabled or disabled, waitable or unwaitable, in one of three configurations, empty, partly filled
// or full, and with or without a waiter. The tests derive the expected result of an operation from
// the state, independently of the provider. There is one test per operation, which tries all
// states.
namespace conformance {

namespace {

constexpr DAT_COUNT kQlen = 8;

enum class Fill { kEmpty, kSome, kFull };

struct State {
  bool enabled;
  bool waitable;
  DAT_EVD_STATE configuration;
  Fill fill;
  bool waited;

  [[nodiscard]] bool threshold_mode() const {
    return configuration == DAT_EVD_STATE_CONFIG_THRESHOLD;
  }
};

std::ostream& operator<<(std::ostream& out, const State& state) {
  static constexpr const char* kFills[] = {"empty", "some events", "full"};
  const char* const mode = state.threshold_mode()                               ? "THRESHOLD"
                           : state.configuration == DAT_EVD_STATE_CONFIG_NOTIFY ? "NOTIFY"
                                                                                : "SOLICITED";
  return out << (state.enabled ? "ENABLED " : "DISABLED ")
             << (state.waitable ? "WAITABLE " : "UNWAITABLE ") << mode << ", "
             << kFills[static_cast<int>(state.fill)] << (state.waited ? ", with a waiter" : "");
}

std::vector<State> all_states() {
  std::vector<State> states;
  for (const bool enabled : {true, false})
    for (const bool waitable : {true, false})
      for (const auto mode : {DAT_EVD_STATE_CONFIG_THRESHOLD, DAT_EVD_STATE_CONFIG_NOTIFY,
                              DAT_EVD_STATE_CONFIG_SOLICITED}) {
        for (const Fill fill : {Fill::kEmpty, Fill::kSome, Fill::kFull})
          // In the other modes, events are completions, which need a connection: see "dto_" tests.
          if (fill == Fill::kEmpty || mode == DAT_EVD_STATE_CONFIG_THRESHOLD)
            states.push_back({enabled, waitable, mode, fill, false});
        if (waitable) states.push_back({enabled, waitable, mode, Fill::kEmpty, true});
      }
  return states;
}

// An EVD in a state. Modes other than THRESHOLD are set by an EP whose receives use the EVD.
struct Subject {
  Subject(const Ia& on, const State& wanted) : ia(on), state(wanted), pz(make_pz(on)) {
    evd = make_evd(ia, state.threshold_mode() ? DAT_EVD_SOFTWARE_FLAG : DAT_EVD_DTO_FLAG, kQlen);
    if (!state.threshold_mode()) {
      DAT_EP_ATTR attr = default_ep_attr(ia);
      attr.recv_completion_flags = state.configuration == DAT_EVD_STATE_CONFIG_NOTIFY
                                       ? DAT_COMPLETION_UNSIGNALLED_FLAG
                                       : DAT_COMPLETION_SOLICITED_WAIT_FLAG;
      attr.max_request_dtos = 0;
      if (dat_ep_create(ia, pz, evd, DAT_HANDLE_NULL, DAT_HANDLE_NULL, &attr, ep.out()) !=
          DAT_SUCCESS)
        return;
    }
    fill();
    if (state.waited) start_waiter();
    if (!state.enabled) REQUIRE_OK(dat_evd_disable(evd));
    if (!state.waitable) REQUIRE_OK(dat_evd_set_unwaitable(evd));
    reached = true;
  }
  ~Subject() {
    if (evd != DAT_HANDLE_NULL && waiter.joinable()) dat_evd_set_unwaitable(evd);
    if (waiter.joinable()) waiter.join();
    ep = Ep();
  }
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  [[nodiscard]] DAT_EVD_PARAM query() const { return query_evd(evd); }

  const Ia& ia;
  State state;
  Pz pz;
  Evd evd;
  Ep ep;
  std::thread waiter;
  DAT_COUNT events = 0;
  bool reached = false;

 private:
  void fill() {
    if (state.fill == Fill::kSome) {
      for (; events < 3; ++events)
        REQUIRE_OK(post_software(evd, static_cast<std::uintptr_t>(events)));
    } else if (state.fill == Fill::kFull) {
      while (post_software(evd, static_cast<std::uintptr_t>(events)) == DAT_SUCCESS) ++events;
      BOOST_CHECK_GE(events, kQlen);
    }
  }
  void start_waiter() {
    waiter = std::thread([handle = DAT_EVD_HANDLE(evd)] {
      DAT_EVENT event;
      DAT_COUNT more = 0;
      dat_evd_wait(handle, kPatience, 1, &event, &more);
    });
    DAT_EVENT event;
    while (DAT_GET_TYPE(dat_evd_dequeue(evd, &event)) != DAT_INVALID_STATE)
      std::this_thread::yield();
  }
};

// Tries `operation` in every state that the provider supports.
void in_all_states(const std::function<void(Subject&)>& operation) {
  const Ia ia;
  int tried = 0;
  // With a waiter, two threads use the EVD.
  const bool with_waiters = ia.provider().is_thread_safe == DAT_TRUE;
  for (const State& state : all_states()) {
    if (state.waited && !with_waiters) continue;
    BOOST_TEST_CONTEXT("state: " << state) {
      Subject subject(ia, state);
      if (!subject.reached) continue;
      operation(subject);
      ++tried;
    }
  }
  // Every provider supports the states of THRESHOLD mode.
  BOOST_CHECK_GE(tried, with_waiters ? 14 : 12);
}

// The event must be the first one that was queued.
void check_first(const DAT_EVENT& event) {
  BOOST_CHECK_EQUAL(event.event_number, DAT_SOFTWARE_EVENT);
  BOOST_CHECK(event.event_data.software_event_data.pointer == nullptr);
}

void check_state(const Subject& subject, bool enabled, bool waitable) {
  const unsigned expected =
      static_cast<unsigned>(enabled ? DAT_EVD_STATE_ENABLED : DAT_EVD_STATE_DISABLED) |
      static_cast<unsigned>(waitable ? DAT_EVD_STATE_WAITABLE : DAT_EVD_STATE_UNWAITABLE) |
      static_cast<unsigned>(subject.state.configuration);
  BOOST_CHECK_EQUAL(static_cast<unsigned>(subject.query().evd_state), expected);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(evd_states)

BOOST_AUTO_TEST_CASE(query) {
  in_all_states([](Subject& s) {
    check_state(s, s.state.enabled, s.state.waitable);
    BOOST_CHECK_GE(s.query().evd_qlen, kQlen);
    BOOST_CHECK(s.query().ia_handle == s.ia.handle);
  });
}

BOOST_AUTO_TEST_CASE(enable) {
  in_all_states([](Subject& s) {
    REQUIRE_OK(dat_evd_enable(s.evd));
    check_state(s, true, s.state.waitable);
  });
}

BOOST_AUTO_TEST_CASE(disable) {
  in_all_states([](Subject& s) {
    REQUIRE_OK(dat_evd_disable(s.evd));
    check_state(s, false, s.state.waitable);
  });
}

BOOST_AUTO_TEST_CASE(set_unwaitable) {
  in_all_states([](Subject& s) {
    REQUIRE_OK(dat_evd_set_unwaitable(s.evd));
    check_state(s, s.state.enabled, false);
    if (s.waiter.joinable()) s.waiter.join();  // it must return
  });
}

BOOST_AUTO_TEST_CASE(clear_unwaitable) {
  in_all_states([](Subject& s) {
    REQUIRE_OK(dat_evd_clear_unwaitable(s.evd));
    check_state(s, s.state.enabled, true);
  });
}

BOOST_AUTO_TEST_CASE(modify_cno) {
  in_all_states([](Subject& s) {
    Cno cno;
    REQUIRE_OK(dat_cno_create(s.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno.out()));
    REQUIRE_OK(dat_evd_modify_cno(s.evd, cno));
    BOOST_CHECK(s.query().cno_handle == cno);
    CHECK_TYPE(dat_cno_free(cno), DAT_INVALID_STATE);
    REQUIRE_OK(dat_evd_modify_cno(s.evd, DAT_HANDLE_NULL));
    BOOST_CHECK(s.query().cno_handle == DAT_HANDLE_NULL);
  });
}

BOOST_AUTO_TEST_CASE(post_se) {
  in_all_states([](Subject& s) {
    const DAT_RETURN rc = post_software(s.evd, 0);
    if (!s.state.threshold_mode()) {
      CHECK_TYPE(rc, DAT_INVALID_PARAMETER);  // the EVD has no software stream
    } else if (s.state.fill == Fill::kFull) {
      CHECK_TYPE(rc, DAT_QUEUE_FULL);
      BOOST_CHECK_EQUAL(drain(s.evd), s.events);
    } else {
      REQUIRE_OK(rc);
      if (s.waiter.joinable())
        s.waiter.join();  // it receives the event
      else
        BOOST_CHECK_EQUAL(drain(s.evd), s.events + 1);
    }
  });
}

BOOST_AUTO_TEST_CASE(dequeue) {
  in_all_states([](Subject& s) {
    DAT_EVENT event{};
    const DAT_RETURN rc = dat_evd_dequeue(s.evd, &event);
    if (s.state.waited) {
      CHECK_TYPE(rc, DAT_INVALID_STATE);
    } else if (s.events == 0) {
      CHECK_TYPE(rc, DAT_QUEUE_EMPTY);
    } else {
      REQUIRE_OK(rc);
      check_first(event);
      BOOST_CHECK_EQUAL(drain(s.evd), s.events - 1);
    }
  });
}

BOOST_AUTO_TEST_CASE(wait) {
  in_all_states([](Subject& s) {
    DAT_EVENT event{};
    DAT_COUNT more = -1;
    const DAT_RETURN rc = dat_evd_wait(s.evd, 0, 1, &event, &more);
    if (s.state.waited || !s.state.waitable) {
      CHECK_TYPE(rc, DAT_INVALID_STATE);
    } else if (s.events == 0) {
      CHECK_TYPE(rc, DAT_TIMEOUT_EXPIRED);
      BOOST_CHECK_EQUAL(more, 0);
    } else {
      REQUIRE_OK(rc);
      check_first(event);
      BOOST_CHECK_EQUAL(more, s.events - 1);
    }
  });
}

BOOST_AUTO_TEST_CASE(wait_threshold) {
  in_all_states([](Subject& s) {
    DAT_EVENT event{};
    DAT_COUNT more = -1;
    const DAT_RETURN rc = dat_evd_wait(s.evd, 0, 4, &event, &more);
    if (s.state.waited || !s.state.waitable) {
      CHECK_TYPE_OR(rc, DAT_INVALID_STATE, DAT_INVALID_PARAMETER);
    } else if (!s.state.threshold_mode()) {
      CHECK_TYPE_OR(rc, DAT_INVALID_STATE, DAT_INVALID_PARAMETER);
    } else if (s.events < 4) {
      CHECK_TYPE(rc, DAT_TIMEOUT_EXPIRED);
      BOOST_CHECK_EQUAL(more, s.events);  // none was dequeued
      BOOST_CHECK_EQUAL(drain(s.evd), s.events);
    } else {
      REQUIRE_OK(rc);
      check_first(event);
      BOOST_CHECK_EQUAL(more, s.events - 1);
    }
  });
}

BOOST_AUTO_TEST_CASE(resize_larger) {
  in_all_states([](Subject& s) {
    const DAT_COUNT wanted = s.query().evd_qlen * 4;
    const DAT_RETURN rc = dat_evd_resize(s.evd, wanted);
    if (s.state.waited) {
      CHECK_TYPE(rc, DAT_INVALID_STATE);
      return;
    }
    REQUIRE_OK(rc);
    BOOST_CHECK_GE(s.query().evd_qlen, wanted);
    check_state(s, s.state.enabled, s.state.waitable);
    if (!s.state.threshold_mode()) return;
    for (; s.events < wanted; ++s.events)
      REQUIRE_OK(post_software(s.evd, static_cast<std::uintptr_t>(s.events)));
    DAT_EVENT event{};
    for (DAT_COUNT i = 0; i < s.events; ++i) {
      REQUIRE_OK(dat_evd_dequeue(s.evd, &event));
      BOOST_CHECK_EQUAL(
          reinterpret_cast<std::uintptr_t>(event.event_data.software_event_data.pointer),
          static_cast<std::uintptr_t>(i));
    }
  });
}

BOOST_AUTO_TEST_CASE(resize_smaller) {
  in_all_states([](Subject& s) {
    const DAT_RETURN rc = dat_evd_resize(s.evd, s.events > 1 ? s.events - 1 : 1);
    if (s.state.waited) {
      CHECK_TYPE(rc, DAT_INVALID_STATE);
    } else if (s.events > 1 && rc != DAT_SUCCESS) {
      CHECK_TYPE(rc, DAT_INVALID_STATE);
    } else {
      REQUIRE_OK(rc);  // a provider may keep the larger queue
      BOOST_CHECK_GE(s.query().evd_qlen, s.events);
    }
    if (!s.state.waited) BOOST_CHECK_EQUAL(drain(s.evd), s.events);
  });
}

BOOST_AUTO_TEST_CASE(free) {
  in_all_states([](Subject& s) {
    const DAT_RETURN rc = dat_evd_free(s.evd);
    if (s.state.waited || !s.state.threshold_mode()) {
      CHECK_TYPE(rc, DAT_INVALID_STATE);
      check_state(s, s.state.enabled, s.state.waitable);
      return;
    }
    REQUIRE_OK(rc);  // queued events are discarded
    const DAT_EVD_HANDLE freed = s.evd.release();
    DAT_EVENT event{};
    CHECK_TYPE(dat_evd_dequeue(freed, &event), DAT_INVALID_HANDLE);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
