// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "control.h"

namespace dapltest {
namespace {

// Messages in the memory of a control connection.
enum Slot : std::size_t { kReceiveFirst, kReceiveSecond, kSendFirst, kSendSecond, kSlots };

bool same_version(const wire::Info& info, const char* who) {
  return info.version == wire::kVersion ||
         fail(fmt::format("the {} speaks version {} of the dapltest protocol, this is version {}",
                          who, info.version, wire::kVersion));
}

std::uint32_t number_on_wire(Test test) {
  return test == Test::kTransaction   ? wire::kTransactionTest
         : test == Test::kPerformance ? wire::kPerformanceTest
                                      : wire::kQuitTest;
}

}  // namespace

bool Control::create(const Adapter& adapter, std::uint32_t timeout_s, DAT_QOS qos) {
  EndpointPlan plan;
  plan.requests = 2;
  plan.receives = 2;
  plan.largest = wire::kControlSize;
  plan.qos = qos;
  plan.timeout_s = timeout_s;
  return endpoint_.create(adapter, plan, kSlots * wire::kControlSize) &&
         endpoint_.post_receive(message(kReceiveFirst)) &&
         endpoint_.post_receive(message(kReceiveSecond));
}

bool Control::request(Address& server, const Options& options, wire::Info& info) {
  if (!endpoint_.connect(server, options.port, {}, false)) {
    return false;
  }
  wire::Info mine;
  mine.third = number_on_wire(options.test);
  mine.endpoints = options.test == Test::kTransaction   ? options.threads * options.endpoints
                   : options.test == Test::kPerformance ? 1
                                                        : 0;
  wire::encode(mine, message(kSendFirst));
  switch (options.test) {
    case Test::kTransaction:
      wire::encode_transaction(options, message(kSendSecond));
      break;
    case Test::kPerformance:
      wire::encode_performance(options, message(kSendSecond));
      break;
    default:
      wire::encode_quit(options, message(kSendSecond));
  }
  if (!send(kSendFirst) || !send(kSendSecond) ||
      !endpoint_.reap_receive(wire::kControlSize, "the answer of the server")) {
    return false;
  }
  info = wire::decode_info(message(kReceiveFirst));
  return same_version(info, "server");
}

bool Control::accept(DAT_CR_HANDLE cr, wire::Info& info, Options& options) {
  if (!endpoint_.accept(cr) ||
      !endpoint_.reap_receive(wire::kControlSize, "the name of a client's test")) {
    return false;
  }
  info = wire::decode_info(message(kReceiveFirst));
  if (!same_version(info, "client") ||
      !endpoint_.reap_receive(wire::kControlSize, "a client's command")) {
    return false;
  }
  switch (info.third) {
    case wire::kTransactionTest:
      options = wire::decode_transaction(message(kReceiveSecond), info.little_endian);
      return true;
    case wire::kPerformanceTest:
      options = wire::decode_performance(message(kReceiveSecond), info.little_endian);
      return true;
    case wire::kQuitTest:
      options = Options{};
      options.test = Test::kQuit;
      return true;
    default:
      return fail(
          fmt::format("a client asks for test number {}, which does not exist", info.third));
  }
}

bool Control::answer(std::uint32_t first_port) {
  wire::Info info;
  info.third = first_port;
  wire::encode(info, message(kSendFirst));
  return send(kSendFirst);
}

}  // namespace dapltest
