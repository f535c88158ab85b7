// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "endpoint.h"
#include "options.h"
#include "report.h"
#include "wire.h"

#include <memory>

namespace dapltest {

// The control connection, over which client and server agree on a test: the client sends its
// version and its command, the server returns the conn quals that it has reserved. Not thread-safe.
class Control {
 public:
  // `qos` is for the connection of a client.
  [[nodiscard]] bool create(const Adapter& adapter, std::uint32_t timeout_s,
                            DAT_QOS qos = DAT_QOS_BEST_EFFORT);

  // Client: requests a test. Stores the answer in `info`; fails if the server has another version.
  [[nodiscard]] bool request(Address& server, const Options& options, wire::Info& info);
  void disconnect() { endpoint_.disconnect(); }

  // Server: accepts a client and reads its command.
  [[nodiscard]] bool accept(DAT_CR_HANDLE cr, wire::Info& info, Options& options);
  [[nodiscard]] bool answer(std::uint32_t first_port);
  // Returns whether the client has ended the connection. Does not wait.
  [[nodiscard]] bool ended() { return endpoint_.ended(); }

 private:
  [[nodiscard]] wire::Control message(std::size_t index) {
    return wire::Control(endpoint_.memory().span(index * wire::kControlSize, wire::kControlSize));
  }
  [[nodiscard]] bool send(std::size_t index) {
    return endpoint_.post_send(message(index)) && endpoint_.reap_request();
  }

  Endpoint endpoint_;
};

// One function per kind of run. Each returns whether the run passed; clients fill in `json`.
[[nodiscard]] bool run_client(const Options& options, Json& json);
[[nodiscard]] bool run_server(const Options& options, Json& json);
[[nodiscard]] bool run_limits(const Options& options, Json& json);
[[nodiscard]] bool run_features(const Options& options, Json& json);

}  // namespace dapltest
