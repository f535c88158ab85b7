// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// echo - a server with many clients and an event loop, and its client, in C++ with <dat/dat.hpp>.
//
//   echo --server [--ia NAME] [--port PORT] [--clients N]
//   echo [--ia NAME] [--port PORT] HOST TEXT...
//
// The server sends back what it receives; it ends after N clients. The client sends each TEXT and
// prints the reply. echo.c is the same in C.
#include <dat/dat.hpp>

#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <list>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kMessage = 256;  // bytes of the longest message
constexpr std::size_t kSlots = 4;      // messages that a peer may send before it receives a reply
constexpr auto kPatience = std::chrono::seconds(10);

struct Options {
  bool server = false;
  std::string ia = "soft";
  DAT_CONN_QUAL port = 45243;
  int clients = 0;  // 0: no limit
  std::vector<std::string> words;
};

// One connection of the server: kSlots messages, each of which is received, sent back and posted
// again.
class Client {
 public:
  using Over = std::function<void(Client&)>;  // destroys the client; outlives it

  Client(const dat::Adapter& adapter, const dat::Zone& zone, dat::Loop& loop, dat::Request request,
         const Over& over)
      : over_(over),
        memory_(adapter, zone, std::as_writable_bytes(std::span(bytes_))),
        // One queue for both directions and the connection, so that the end of the connection
        // follows the last completion.
        watch_(loop.watch(adapter, DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG, 4 * kSlots,
                          [this](const dat::Event& event) { handle(event); })),
        endpoint_(adapter, zone, watch_.queue(), watch_.queue(), watch_.queue()) {
    for (std::size_t slot = 0; slot < kSlots; ++slot) receive(slot);
    request.accept(endpoint_);  // after the receives were posted, so that each message finds one
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

 private:
  void handle(const dat::Event& event) {
    std::visit(
        dat::Handlers{[this](const dat::Completion& done) { completed(done); },
                      [this](const dat::Ended&) { over_(*this); },  // this destroys the object
                      [](const auto&) {}},
        event);
  }
  void completed(const dat::Completion& done) {
    if (!done.good()) return;  // flushed; the end of the connection follows
    const auto slot = static_cast<std::size_t>(done.cookie.as_64);
    try {
      if (done.operation == DAT_DTO_RECEIVE)
        endpoint_.post_send(memory_.segment(slot * kMessage, done.length), dat::cookie(slot));
      else
        receive(slot);
    } catch (const dat::Error& error) {
      if (error.type() != DAT_INVALID_STATE)
        throw;  // otherwise the connection has ended, which the next event reports
    }
  }
  void receive(std::size_t slot) {
    endpoint_.post_recv(memory_.segment(slot * kMessage, kMessage), dat::cookie(slot));
  }

  std::array<char, kSlots * kMessage> bytes_{};
  const Over& over_;
  dat::Memory memory_;
  dat::Loop::Watch watch_;
  dat::Endpoint endpoint_;
};

int serve(const Options& options) {
  const dat::Adapter adapter(options.ia);
  const dat::Zone zone(adapter);
  dat::Loop loop(adapter);
  std::list<Client> clients;
  int served = 0;
  const Client::Over over = [&](Client& which) {
    std::erase_if(clients, [&](const Client& one) { return &one == &which; });
    if (++served == options.clients) loop.stop();
  };
  const auto requests = loop.watch(adapter, DAT_EVD_CR_FLAG, 64, [&](const dat::Event& event) {
    const auto* arrival = std::get_if<dat::Arrival>(&event);
    if (arrival == nullptr) return;
    try {
      clients.emplace_back(adapter, zone, loop, dat::Request(*arrival), over);
    } catch (const dat::Error& error) {
      std::cerr << "echo: a client is turned away: " << error.what() << '\n';
    }
  });
  const dat::Listener listener(adapter, options.port, requests.queue());
  std::cout << "listening on port " << options.port << std::endl;
  loop.run();
  return 0;
}

// Waits for the next event, which must be of type Kind.
template <typename Kind>
Kind expect(const dat::Queue& queue) {
  const std::optional<dat::Event> event = queue.wait(kPatience);
  if (!event) throw std::runtime_error("no answer in time");
  if (const auto* ended = std::get_if<dat::Ended>(&*event);
      ended != nullptr && !std::is_same_v<Kind, dat::Ended>)
    throw std::runtime_error(std::string("no connection: ") + ended->name());
  const Kind* kind = std::get_if<Kind>(&*event);
  if (kind == nullptr) throw std::runtime_error("an event that was not expected");
  return *kind;
}

int call(const Options& options) {
  const dat::Adapter adapter(options.ia);
  const dat::Zone zone(adapter);
  std::array<char, 2 * kMessage> bytes{};
  const dat::Memory memory(adapter, zone, std::as_writable_bytes(std::span(bytes)));
  const dat::Queue receives(adapter, DAT_EVD_DTO_FLAG, 8);
  const dat::Queue requests(adapter, DAT_EVD_DTO_FLAG, 8);
  const dat::Queue connections(adapter, DAT_EVD_CONNECTION_FLAG, 8);
  const dat::Endpoint endpoint(adapter, zone, receives, requests, connections);
  endpoint.connect(options.words.front(), options.port, kPatience);
  expect<dat::Established>(connections);

  for (std::size_t i = 1; i < options.words.size(); ++i) {
    const std::string_view word = std::string_view(options.words[i]).substr(0, kMessage);
    std::memcpy(bytes.data(), word.data(), word.size());
    endpoint.post_recv(memory.segment(kMessage, kMessage));
    endpoint.post_send(memory.segment(0, word.size()));
    if (!expect<dat::Completion>(requests).good()) throw std::runtime_error("the message failed");
    const auto answer = expect<dat::Completion>(receives);
    if (!answer.good()) throw std::runtime_error(answer.status_name());
    std::cout << std::string_view(bytes.data() + kMessage, answer.length) << '\n';
  }
  endpoint.disconnect();
  expect<dat::Ended>(connections);
  return 0;
}

int usage(std::ostream& out, int status) {
  out << "usage: echo --server [--ia NAME] [--port PORT] [--clients N]\n"
         "       echo [--ia NAME] [--port PORT] HOST TEXT...\n"
         "NAME is an entry of dat.conf (soft), PORT 1024 to 65535 (45243).\n";
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--help") return usage(std::cout, 0);
    if (word == "--server") {
      options.server = true;
    } else if (word == "--ia" && has_value) {
      options.ia = argv[++i];
    } else if (word == "--port" && has_value) {
      options.port = std::strtoul(argv[++i], nullptr, 10);
    } else if (word == "--clients" && has_value) {
      options.clients = std::atoi(argv[++i]);
    } else if (word.starts_with("--")) {
      std::cerr << "echo: unrecognized option '" << word << "'\n";
      return usage(std::cerr, 2);
    } else {
      options.words.emplace_back(word);
    }
  }
  if (options.server ? !options.words.empty() : options.words.empty()) return usage(std::cerr, 2);
  try {
    return options.server ? serve(options) : call(options);
  } catch (const std::exception& error) {
    std::cerr << "echo: " << error.what() << '\n';
    return 1;
  }
}
