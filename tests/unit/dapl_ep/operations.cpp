// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Every operation in every EP state: the legality matrix of the specification.
#include "tests/unit/dapl_ep/support.h"

#include <dat/dat_ib_extensions.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace udapl::test {
namespace {

// Y allowed, F allowed and flushed, 0 allowed without effect, N INVALID_STATE, - not tested.
struct Operation {
  const char* name;
  // UNC RES PAS TEN ACT CMP CON DPD DIS
  std::array<char, 9> legal;
  std::function<DAT_RETURN(Rig&, const Side&)> run;
};

constexpr std::array<DAT_EP_STATE, 9> kStates = {DAT_EP_STATE_UNCONNECTED,
                                                 DAT_EP_STATE_RESERVED,
                                                 DAT_EP_STATE_PASSIVE_CONNECTION_PENDING,
                                                 DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING,
                                                 DAT_EP_STATE_ACTIVE_CONNECTION_PENDING,
                                                 DAT_EP_STATE_COMPLETION_PENDING,
                                                 DAT_EP_STATE_CONNECTED,
                                                 DAT_EP_STATE_DISCONNECT_PENDING,
                                                 DAT_EP_STATE_DISCONNECTED};

// Requests: beyond the specification, an EP takes them as soon as it is accepted.
constexpr auto kRequest = std::array<char, 9>{'N', 'N', 'N', 'N', 'N', 'Y', 'Y', 'N', 'F'};

DAT_RETURN modify(Rig& rig, DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM& param) {
  return rig.ia->ep_modify_func(ep, mask, &param);
}

DAT_RETURN post_extension(const Rig& rig, DAT_HANDLE handle, int operation, ...) {
  va_list args;
  va_start(args, operation);
  const DAT_RETURN code = rig.ia->handle_extendedop_func(handle, operation, args);
  va_end(args);
  return code;
}

// What the posts of an operation name, which must exist until the EP has completed them.
Buffer* last_memory = nullptr;
DAT_RMR_HANDLE last_rmr = DAT_HANDLE_NULL;

Buffer& memory(Rig& rig) {
  delete last_memory;
  last_memory = new Buffer(rig.ia, rig.pz);
  return *last_memory;
}

std::vector<Operation> posts() {
  return {
      {"post_recv",  // a TENTATIVE EP has no PZ yet
       {'Y', 'Y', 'Y', 'N', 'Y', 'Y', 'Y', 'Y', 'F'},
       [](Rig& rig, const Side& side) { return rig.post_recv(side.ep, memory(rig), 7); }},
      {"post_send", kRequest,
       [](Rig& rig, const Side& side) { return rig.post_send(side.ep, memory(rig), 7); }},
      {"post_send_with_invalidate", kRequest,
       [](Rig& rig, const Side& side) {
         DAT_LMR_TRIPLET segment = memory(rig).local(8);
         return rig.ia->ep_post_send_with_invalidate_func(side.ep, 1, &segment, cookie_of(7),
                                                          kDefault, DAT_TRUE, 1);
       }},
      {"post_rdma_write", kRequest,
       [](Rig& rig, const Side& side) {
         DAT_LMR_TRIPLET segment = memory(rig).local(8);
         const DAT_RMR_TRIPLET remote = last_memory->remote(8);
         return rig.ia->ep_post_rdma_write_func(side.ep, 1, &segment, cookie_of(7), &remote,
                                                kDefault);
       }},
      {"post_rdma_read", kRequest,
       [](Rig& rig, const Side& side) {
         DAT_LMR_TRIPLET segment = memory(rig).local(8);
         const DAT_RMR_TRIPLET remote = last_memory->remote(8);
         return rig.ia->ep_post_rdma_read_func(side.ep, 1, &segment, cookie_of(7), &remote,
                                               kDefault);
       }},
      {"post_rdma_read_to_rmr", kRequest,
       [](Rig& rig, const Side& side) {
         const DAT_RMR_TRIPLET local = memory(rig).remote(8);
         const DAT_RMR_TRIPLET remote = last_memory->remote(8);
         return rig.ia->ep_post_rdma_read_to_rmr_func(side.ep, &local, cookie_of(7), &remote,
                                                      kDefault);
       }},
      {"rmr_bind", kRequest,
       [](Rig& rig, const Side& side) {
         DAT_LMR_TRIPLET range = memory(rig).local(8);
         REQUIRE_OK(rig.ia->rmr_create_func(rig.pz, &last_rmr));
         DAT_RMR_CONTEXT context = 0;
         return rig.ia->rmr_bind_func(last_rmr, last_memory->lmr, &range, DAT_MEM_PRIV_ALL_FLAG,
                                      DAT_VA_TYPE_VA, side.ep, cookie_of(7), kDefault, &context);
       }},
      {"fetch_and_add", kRequest,
       [](Rig& rig, const Side& side) {
         DAT_LMR_TRIPLET segment = memory(rig).local(8);
         DAT_RMR_TRIPLET remote = last_memory->remote(8);
         return post_extension(rig, side.ep, DAT_IB_FETCH_AND_ADD_OP, DAT_UINT64{1}, &segment,
                               cookie_of(7), &remote, kDefault);
       }},
  };
}

std::vector<Operation> connecting() {
  return {
      {"connect",
       {'Y', 'N', 'N', 'N', 'N', 'N', 'N', 'N', 'N'},
       [](Rig& rig, const Side& side) { return rig.connect(side.ep); }},
      {"common_connect",
       {'Y', 'N', 'N', 'N', 'N', 'N', 'N', 'N', 'N'},
       [](Rig& rig, const Side& side) {
         DAT_EP_PARAM param{};
         param.comm = {AF_INET, SOCK_STREAM, 0};
         static_cast<void>(modify(rig, side.ep, DAT_EP_FIELD_COMM, param));
         transport::SocketAddress peer = fake::Network::address();
         peer.set_port(static_cast<std::uint16_t>(kService));
         return rig.ia->ep_common_connect_func(side.ep, peer.get(), kLate, 0, nullptr);
       }},
      {"be dup_connected to",
       {'N', 'N', 'N', 'N', 'N', 'N', 'Y', 'N', 'N'},
       [](Rig& rig, const Side& side) {
         return rig.ia->ep_dup_connect_func(rig.side().ep, side.ep, kLate, 0, nullptr,
                                            DAT_QOS_BEST_EFFORT);
       }},
      {"rsp_create",
       {'Y', 'N', 'N', 'N', 'N', 'N', 'N', 'N', 'N'},
       [](Rig& rig, const Side& side) {
         DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
         return rig.ia->rsp_create_func(rig.ia.raw, kService, side.ep, rig.cr_evd, &rsp);
       }},
      {"disconnect abruptly",
       {'N', 'N', 'N', 'N', 'Y', 'Y', 'Y', 'Y', '0'},
       [](Rig& rig, const Side& side) {
         return rig.ia->ep_disconnect_func(side.ep, DAT_CLOSE_ABRUPT_FLAG);
       }},
      {"disconnect gracefully",
       {'N', 'N', 'N', 'N', 'Y', 'Y', 'Y', '0', '0'},
       [](Rig& rig, const Side& side) {
         return rig.ia->ep_disconnect_func(side.ep, DAT_CLOSE_GRACEFUL_FLAG);
       }},
      {"reset",
       {'0', 'N', 'N', 'N', 'N', 'N', 'N', 'N', 'Y'},
       [](Rig& rig, const Side& side) { return rig.ia->ep_reset_func(side.ep); }},
  };
}

std::vector<Operation> modifying() {
  return {
      {"modify the PZ",
       {'Y', 'N', 'N', 'Y', 'N', 'N', 'N', 'N', 'N'},
       [](Rig& rig, const Side& side) {
         DAT_EP_PARAM param{};
         param.pz_handle = rig.ia.pz();
         return modify(rig, side.ep, DAT_EP_FIELD_PZ_HANDLE, param);
       }},
      {"modify an EVD",
       {'Y', 'Y', 'Y', 'Y', 'N', 'N', 'N', 'N', 'N'},
       [](Rig& rig, const Side& side) {
         DAT_EP_PARAM param{};
         param.connect_evd_handle = rig.ia.evd(DAT_EVD_CONNECTION_FLAG);
         return modify(rig, side.ep, DAT_EP_FIELD_CONNECT_EVD_HANDLE, param);
       }},
      {"modify an attribute",
       {'Y', 'Y', 'Y', 'Y', 'N', 'N', 'N', 'N', 'N'},
       [](Rig& rig, const Side& side) {
         DAT_EP_PARAM param{};
         param.ep_attr.max_recv_iov = 1;
         return modify(rig, side.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, param);
       }},
  };
}

std::vector<Operation> watermarks_and_queries() {
  return {
      {"set_watermark",
       {'Y', 'Y', 'Y', 'Y', 'Y', 'Y', 'Y', 'Y', 'Y'},
       [](Rig& rig, const Side& side) {
         return rig.ia->ep_set_watermark_func(side.ep, DAT_WATERMARK_INFINITE,
                                              DAT_WATERMARK_INFINITE);
       }},
      {"recv_query",
       {'Y', 'Y', 'Y', 'Y', 'Y', 'Y', 'Y', 'Y', 'Y'},
       [](Rig& rig, const Side& side) {
         return rig.ia->ep_recv_query_func(side.ep, nullptr, nullptr);
       }},
      {"query",
       {'Y', 'Y', 'Y', 'Y', 'Y', 'Y', 'Y', 'Y', 'Y'},
       [](Rig& rig, const Side& side) {
         DAT_EP_PARAM param{};
         return rig.ia->ep_query_func(side.ep, DAT_EP_FIELD_ALL, &param);
       }},
  };
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> made;
    for (const auto& kind : {posts, connecting, modifying, watermarks_and_queries})
      for (Operation& operation : kind()) made.push_back(std::move(operation));
    made.push_back({"free",  // last, because it destroys the EP
                    {'Y', 'N', 'N', 'N', 'Y', 'Y', 'Y', 'Y', 'Y'},
                    [](Rig& rig, const Side& side) { return rig.ia->ep_free_func(side.ep); }});
    return made;
  }();
  return all;
}

// Empties the scheduler at the end of a case, whatever the operation has left there.
struct Clean {
  ~Clean() { fake::Scheduler::instance().run(); }
};

BOOST_AUTO_TEST_SUITE(operations_by_state)

BOOST_AUTO_TEST_CASE(every_operation_in_every_state) {
  for (const bool thread_safe : {true, false}) {
    for (const Operation& operation : operations()) {
      for (std::size_t i = 0; i < kStates.size(); ++i) {
        BOOST_TEST_CONTEXT(operation.name << " in " << dapl::name(kStates[i])) {
          Rig rig(thread_safe);
          const Clean clean;
          const Side side = rig.reach(kStates[i]);
          const DAT_RETURN code = operation.run(rig, side);
          const char legal = operation.legal[i];
          if (legal == 'N') {
            BOOST_CHECK_MESSAGE(is_error(code, DAT_INVALID_STATE), "0x" << std::hex << code);
            BOOST_CHECK_EQUAL(rig.state(side.ep), kStates[i]);
            continue;
          }
          CHECK_CODE(code, DAT_SUCCESS);
          if (legal == '0') {
            BOOST_CHECK_EQUAL(rig.state(side.ep), kStates[i]);
            BOOST_CHECK(rig.empty(side.connect_evd));
          }
          if (legal == 'F') {
            const bool receive = std::string(operation.name) == "post_recv";
            const bool bind = std::string(operation.name) == "rmr_bind";
            DAT_EVENT event{};
            REQUIRE_OK(
                rig.ia->evd_dequeue_func(receive ? side.recv_evd : side.request_evd, &event));
            const int status = bind ? event.event_data.rmr_completion_event_data.status
                                    : event.event_data.dto_completion_event_data.status;
            const auto cookie = bind ? event.event_data.rmr_completion_event_data.user_cookie
                                     : event.event_data.dto_completion_event_data.user_cookie;
            BOOST_CHECK_EQUAL(status, static_cast<int>(DAT_DTO_ERR_FLUSHED));
            BOOST_CHECK_EQUAL(cookie.as_64, 7U);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(accept_with_an_ep_in_every_state) {
  for (const DAT_EP_STATE state : kStates) {
    BOOST_TEST_CONTEXT(dapl::name(state)) {
      Rig rig;
      const Clean clean;
      // The request is made first, so that it is pending while the EP is brought to its state.
      rig.psp(kService + 1);
      const Side peer = rig.side();
      REQUIRE_OK(rig.connect(peer.ep, kService + 1));
      Rig::run();
      const DAT_CR_HANDLE cr = rig.take_cr();
      const Side side = rig.reach(state);
      const DAT_RETURN code = rig.ia->cr_accept_func(cr, side.ep, 0, nullptr);
      if (state == DAT_EP_STATE_UNCONNECTED) {
        CHECK_CODE(code, DAT_SUCCESS);
        BOOST_CHECK_EQUAL(rig.state(side.ep), DAT_EP_STATE_COMPLETION_PENDING);
        continue;
      }
      BOOST_CHECK_MESSAGE(is_error(code, DAT_INVALID_STATE), "0x" << std::hex << code);
      BOOST_CHECK_EQUAL(rig.state(side.ep), state);
      // The CR and the peer are unaffected.
      const Side good = rig.side();
      CHECK_CODE(rig.ia->cr_accept_func(cr, good.ep, 0, nullptr), DAT_SUCCESS);
    }
  }
}

BOOST_AUTO_TEST_CASE(close_abruptly_in_every_state) {
  for (const bool thread_safe : {true, false}) {
    for (const DAT_EP_STATE state : kStates) {
      BOOST_TEST_CONTEXT(dapl::name(state)) {
        Rig rig(thread_safe);
        const Side side = rig.reach(state);
        Buffer buffer(rig.ia, rig.pz);
        if (state != DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING)
          REQUIRE_OK(rig.post_recv(side.ep, buffer, 1));
        CHECK_ERROR(rig.ia.close(DAT_CLOSE_GRACEFUL_FLAG), DAT_INVALID_STATE);
        CHECK_CODE(rig.ia.close(), DAT_SUCCESS);
        Rig::run();
        BOOST_CHECK(dapl::handle_cast<dapl::Ep>(side.ep) == nullptr);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_handle_that_is_no_ep) {
  Rig rig;
  const Side side = rig.side();
  REQUIRE_OK(rig.ia->ep_free_func(side.ep));
  alignas(64) std::array<std::byte, 512> garbage{};
  for (const DAT_HANDLE handle :
       {DAT_HANDLE_NULL, side.ep, rig.pz, rig.cr_evd, rig.ia.raw,
        static_cast<DAT_HANDLE>(garbage.data()), static_cast<DAT_HANDLE>(garbage.data() + 1)}) {
    for (const Operation& operation : operations()) {
      const std::string name = operation.name;
      if (name == "rsp_create" && handle == DAT_HANDLE_NULL) continue;  // the provider makes an EP
      // The registry dispatches a post through the first word of the object, and refuses handles
      // that are not objects.
      const bool is_object =
          handle == side.ep || handle == rig.pz || handle == rig.cr_evd || handle == rig.ia.raw;
      if (!is_object && name.starts_with("post_")) continue;
      BOOST_TEST_CONTEXT(name << " on " << handle) {
        const Side bad{.ep = handle};
        const DAT_RETURN code = operation.run(rig, bad);
        BOOST_CHECK_MESSAGE(is_error(code, DAT_INVALID_HANDLE), "0x" << std::hex << code);
      }
    }
    CHECK_ERROR(rig.ia->ep_get_status_func(handle, nullptr, nullptr, nullptr), DAT_INVALID_HANDLE);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
