// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "control.h"
#include "performance.h"
#include "transaction.h"

#include <algorithm>
#include <functional>
#include <list>
#include <thread>

namespace dapltest {
namespace {

constexpr std::uint64_t kMaxMemory = std::uint64_t{2} << 30;  // for one client
constexpr std::uint32_t kControlTimeoutS = 10;                // for a client to send its command
constexpr auto kLinger = std::chrono::seconds(5);             // for the client to hang up
constexpr int kPortAttempts = 64;
constexpr int kMaxPendingCommands = 32;  // clients whose command has not arrived yet

// A client's test. First a thread of its own reads the command, so that a silent client does not
// delay the others. From then on the server's thread owns the control connection, and further
// threads run the test.
struct Session {
  enum class CommandState { kAwaited, kInvalid, kValid };

  Control control;
  std::thread command_reader;
  std::atomic<CommandState> command_state{CommandState::kAwaited};
  wire::Info info;
  Options command;
  std::vector<std::unique_ptr<Transaction>> transactions;
  std::unique_ptr<Performance> performance;
  std::vector<std::thread> threads;
  std::atomic<std::uint32_t> running{0};
  std::atomic<bool> good{true};
  std::atomic<bool> client_gone{false};
  bool over = false;
  Clock::time_point ended{};
};

class Server {
 public:
  explicit Server(const Options& options) : options_(options), next_port_(options.port + 1) {}
  ~Server() {
    for (Session& session : sessions_) {
      if (session.command_reader.joinable()) {
        session.command_reader.join();
      }
      join(session);
    }
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  bool run() {
    if (!adapter_.open(options_.device) ||
        !ok(dat_evd_create(adapter_.handle(), 64, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG,
                           requests_.out()),
            "creating an event dispatcher") ||
        !ok(dat_psp_create(adapter_.handle(), options_.port, requests_.get(), DAT_PSP_CONSUMER_FLAG,
                           listener_.out()),
            fmt::format("listening on port {}", options_.port))) {
      return false;
    }
    announce();
    while (!quit_ || !sessions_.empty()) {
      reap();
      DAT_EVENT event{};
      DAT_COUNT more = 0;
      const DAT_TIMEOUT wait = sessions_.empty()        ? DAT_TIMEOUT_INFINITE
                               : pending_commands_ != 0 ? 1'000
                                                        : 50'000;
      if (quit_ && sessions_.empty()) {
        break;
      }
      const DAT_RETURN status = dat_evd_wait(requests_.get(), wait, 1, &event, &more);
      if (DAT_GET_TYPE(status) == DAT_TIMEOUT_EXPIRED ||
          DAT_GET_TYPE(status) == DAT_INTERRUPTED_CALL) {
        continue;
      }
      if (!ok(status, "waiting for clients")) {
        return false;
      }
      read_command(event.event_data.cr_arrival_event_data.cr_handle);
    }
    say(fmt::format("DT_cs_Server ({}):  Exiting.", device()));
    return failed_ == 0;
  }

  [[nodiscard]] std::uint64_t served() const { return served_; }
  [[nodiscard]] std::uint64_t failed() const { return failed_; }

 private:
  [[nodiscard]] std::string device() const {
    return options_.device.empty() ? first_adapter() : options_.device;
  }
  void announce() { say(fmt::format("Dapltest: Service Point Ready - {}", device())); }

  void read_command(DAT_CR_HANDLE cr) {
    Session* session = nullptr;
    if (pending_commands_ < kMaxPendingCommands) {
      session = &sessions_.emplace_back();
      if (!session->control.create(adapter_, kControlTimeoutS)) {
        sessions_.pop_back();
        session = nullptr;
      }
    }
    if (session == nullptr) {
      static_cast<void>(dat_cr_reject(cr, 0, nullptr));
      refused();
      return;
    }
    ++pending_commands_;
    session->command_reader = std::thread([session, cr] {
      const bool good = session->control.accept(cr, session->info, session->command);
      session->command_state =
          good ? Session::CommandState::kValid : Session::CommandState::kInvalid;
    });
  }

  // Called when the thread command_reader has finished. Returns false if the session ends here: the
  // command was invalid, or the test could not be started.
  bool serve(Session& session) {
    session.command_reader.join();
    --pending_commands_;
    if (session.command_state == Session::CommandState::kValid) {
      if (session.command.test == Test::kQuit) {
        quit_ = true;
        return session.control.answer(next_port_) || refused();
      }
      if (start(session, session.info, session.command)) {
        ++served_;
        return true;
      }
    }
    return refused();
  }

  // Counts a refused client. The client sees its connection end; the reason was reported here.
  bool refused() {
    ++served_;
    ++failed_;
    return false;
  }

  bool start(Session& session, const wire::Info& info, Options command) {
    if (const std::string wrong = check_command(command); !wrong.empty()) {
      return fail(fmt::format("a client's command: {}", wrong));
    }
    command.device = options_.device;
    command.client_gone = &session.client_gone;
    const bool performs = command.test == Test::kPerformance;
    if (performs) {
      session.performance = std::make_unique<Performance>(command, true, info.little_endian);
    } else {
      for (std::uint32_t i = 0; i < command.threads; ++i) {
        session.transactions.push_back(
            std::make_unique<Transaction>(command, true, info.little_endian));
      }
    }
    const std::uint64_t size =
        performs ? session.performance->memory_size()
                 : session.transactions[0]->memory_size() * command.threads * command.endpoints;
    if (size > kMaxMemory) {
      return fail(fmt::format("a client's command needs {} bytes of memory", size));
    }
    if (performs ? !session.performance->create()
                 : !std::all_of(session.transactions.begin(), session.transactions.end(),
                                [](const auto& transaction) { return transaction->create(); })) {
      return false;
    }
    std::uint32_t first_port = 0;
    if (!reserve_ports(session, command, first_port)) {
      return false;
    }
    if (!session.control.answer(first_port)) {
      return false;
    }
    launch(session);
    return true;
  }

  // Listens for all connections of the test, on consecutive conn quals as the protocol requires.
  bool reserve_ports(Session& session, const Options& command, std::uint32_t& first_port) {
    const std::uint32_t count =
        session.performance != nullptr ? 1 : command.threads * command.endpoints;
    for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
      if (next_port_ + count > 65536) {
        next_port_ = options_.port + 1 + count <= 65536 ? options_.port + 1 : 65536 - count;
      }
      first_port = next_port_;
      next_port_ += count;
      const auto result = listen(session, first_port, command.endpoints);
      if (result != Endpoint::Listening::kInUse) {
        return result == Endpoint::Listening::kDone;
      }
    }
    return fail("no free conn quals for a client's test");
  }

  static Endpoint::Listening listen(Session& session, std::uint32_t port, std::uint32_t each) {
    if (session.performance != nullptr) {
      return session.performance->listen(port);
    }
    for (std::size_t i = 0; i < session.transactions.size(); ++i) {
      const auto result =
          session.transactions[i]->listen(port + static_cast<std::uint32_t>(i) * each);
      if (result != Endpoint::Listening::kDone) {
        for (std::size_t made = 0; made < i; ++made) {
          session.transactions[made]->stop_listening();
        }
        return result;
      }
    }
    return Endpoint::Listening::kDone;
  }

  static void launch(Session& session) {
    const auto begin = [&session](std::function<bool()> body) {
      ++session.running;
      session.threads.emplace_back([&session, body = std::move(body)] {
        if (!body()) {
          session.good = false;
        }
        --session.running;
      });
    };
    if (session.performance != nullptr) {
      begin([&session] { return session.performance->serve(); });
    }
    for (const auto& transaction : session.transactions) {
      begin([&transaction = *transaction] { return transaction.run(nullptr, 0, nullptr); });
    }
  }

  static void join(Session& session) {
    for (std::thread& thread : session.threads) {
      thread.join();
    }
    session.threads.clear();
  }

  // Starts the sessions whose commands have arrived, and removes those that are over.
  void reap() {
    for (auto it = sessions_.begin(); it != sessions_.end();) {
      Session& session = *it;
      if (session.command_reader.joinable()) {
        if (session.command_state == Session::CommandState::kAwaited) {
          ++it;
          continue;
        }
        const bool begun = serve(session);
        if (!quit_) {
          announce();
        }
        if (!begun) {
          it = sessions_.erase(it);
          continue;
        }
      }
      if (!session.over && session.running == 0) {
        finish(session);
      } else if (!session.over && session.control.ended()) {
        session.client_gone = true;
      }
      const bool gone =
          session.over && (session.control.ended() || Clock::now() > session.ended + kLinger);
      it = gone ? sessions_.erase(it) : std::next(it);
    }
  }

  void finish(Session& session) {
    join(session);
    session.over = true;
    session.ended = Clock::now();
    if (!session.good) {
      ++failed_;
      say("Server: a test of a client has failed");
    } else if (session.performance != nullptr) {
      say("Server: Finished performance test.  Detaching.");
      say("Server: Finished performance test.  Exiting.");
    } else if (!session.transactions.empty()) {
      say("Server: Transaction Test Finished for this client");
    }
    session.performance.reset();
    session.transactions.clear();
  }

  const Options options_;
  std::uint32_t next_port_;
  bool quit_ = false;
  int pending_commands_ = 0;
  std::uint64_t served_ = 0;
  std::uint64_t failed_ = 0;
  Adapter adapter_;
  Evd requests_;
  Psp listener_;
  std::list<Session> sessions_;
};

}  // namespace

bool run_server(const Options& options, Json& json) {
  Server server(options);
  const bool good = server.run();
  json.add("tests", server.served());
  json.add("failed", server.failed());
  return good;
}

}  // namespace dapltest
