// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "server.h"
#include "../program.h"

#include "pattern.h"

#include <fmt/core.h>

#include <algorithm>

namespace dattx {
namespace {

// Limits of what a client may request, as clients are not trusted.
constexpr std::uint32_t kMaxWindow = 64;
constexpr std::uint32_t kMaxSlotSize = 64U << 20;
constexpr std::uint64_t kMaxMemory = 512U << 20;

bool acceptable(const Hello& hello) {
  return hello.window >= 1 && hello.window <= kMaxWindow && hello.slot_size >= Words::kSize &&
         hello.slot_size <= kMaxSlotSize &&
         std::uint64_t{hello.slot_size} * (2 * hello.window + 3) <= kMaxMemory;
}

// The server's part of one connection: executes commands until the client disconnects.
class Session {
 public:
  explicit Session(Connection& connection) : connection_(connection) {}

  // Returns whether the client disconnected gracefully.
  [[nodiscard]] bool run() {
    while (const auto received = connection_.receive()) {
      const bool done = data_left_ > 0 ? on_data(*received) : on_command(*received);
      if (!done) {
        return false;
      }
    }
    if (!connection_.closed() || !connection_.was_disconnected()) {
      return false;
    }
    if (data_left_ > 0) {
      tools::print(stderr, "dattx: the client disconnected with {} messages to come\n", data_left_);
    }
    return data_left_ == 0;
  }

 private:
  [[nodiscard]] bool answer(bool good) {
    return connection_.send(Message{.command = Command::kDone, .good = good});
  }

  // Handles a message of a kSink or kEcho series. Posts the slot again before answering, because
  // the answer allows the client to send the next message.
  [[nodiscard]] bool on_data(const Connection::Received& received) {
    --data_left_;
    if (series_.command == Command::kEcho) {
      return connection_.send(received.data) && connection_.drain() &&
             connection_.release(received);
    }
    const bool good = received.data.size() == series_.size &&
                      (!series_.verify || has_pattern(received.data, series_.seed));
    ++series_.seed;
    return connection_.release(received) && answer(good);
  }

  [[nodiscard]] bool on_command(const Connection::Received& received) {
    const auto words = Words::read(received.data);
    if (!words || !connection_.release(received)) {
      tools::print(stderr, "dattx: not a command\n");
      return false;
    }
    const Message message = Message::decode(*words);
    const std::span<std::byte> region = connection_.region();
    if (message.size > region.size()) {
      tools::print(stderr, "dattx: command for {} bytes, agreed on {}\n", message.size,
                   region.size());
      return false;
    }
    const std::span<std::byte> data = region.first(message.size);
    switch (message.command) {
      case Command::kSink:
      case Command::kEcho:
        series_ = message;
        data_left_ = message.count;
        return true;
      case Command::kCheck: {
        const bool good = has_pattern(data, message.seed);
        std::fill(data.begin(), data.end(), std::byte{0});
        return answer(good);
      }
      case Command::kFill:
        fill_pattern(data, message.seed);
        return answer(true);
      case Command::kReply:
        return answer(true);
      case Command::kDone:
        break;
    }
    tools::print(stderr, "dattx: unknown command {}\n", static_cast<unsigned>(message.command));
    return false;
  }

  Connection& connection_;
  Message series_;
  std::uint32_t data_left_ = 0;
};

bool serve_one(const Adapter& adapter, DAT_CR_HANDLE cr) {
  DAT_CR_PARAM request{};
  if (!ok(dat_cr_query(cr, DAT_CR_FIELD_ALL, &request), "querying the connection request")) {
    return false;
  }
  std::optional<Words> words;
  if (request.private_data_size > 0) {
    words = Words::read({static_cast<const std::byte*>(request.private_data),
                         static_cast<std::size_t>(request.private_data_size)});
  }
  const Hello hello = words ? Hello::decode(*words) : Hello{};
  Connection connection(adapter);
  if (!acceptable(hello) || !connection.create(hello)) {
    if (!acceptable(hello)) {
      tools::print(stderr, "dattx: the client {}\n",
                   words ? "requests too much" : "is no dattx of this version");
    }
    static_cast<void>(ok(dat_cr_reject(cr, 0, nullptr), "refusing a client"));
    return false;
  }
  return connection.accept(cr) && Session(connection).run();
}

}  // namespace

int serve(const Settings& settings, std::uint32_t clients) {
  Adapter adapter;
  Evd requests;
  Psp listener;
  if (!adapter.open(settings) ||
      !ok(dat_evd_create(adapter.handle(), 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, requests.out()),
          "creating an event dispatcher") ||
      !ok(dat_psp_create(adapter.handle(), settings.port, requests.get(), DAT_PSP_CONSUMER_FLAG,
                         listener.out()),
          fmt::format("listening on port {}", settings.port))) {
    return 1;
  }
  tools::print("dattx: {} listens on port {}\n", settings.ia, settings.port);
  tools::flush();
  bool all_good = true;
  for (std::uint32_t served = 0; clients == 0 || served < clients; ++served) {
    const auto event = adapter.wait_forever(requests.get());
    if (!event) {
      return 1;
    }
    const bool good = serve_one(adapter, event->event_data.cr_arrival_event_data.cr_handle);
    all_good = all_good && good;
    if (good) {
      tools::print("dattx: client {} done\n", served + 1);
    } else {
      tools::print(stderr, "dattx: client {} failed\n", served + 1);
    }
    tools::flush();
  }
  return all_good ? 0 : 1;
}

}  // namespace dattx
