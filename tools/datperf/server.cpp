// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "server.h"
#include "../program.h"
#include "responder.h"
#include "socket_server.h"

#include <chrono>
#include <list>
#include <optional>
#include <thread>
#include <unordered_map>

namespace datperf {

namespace {

/** The server on one IA. Its thread accepts connections; each group has a thread of its own. */
class IaServer {
 public:
  IaServer(const std::string& ia, std::uint16_t port, const Plan& plan, const Limits& limits)
      : name_(ia),
        limits_(limits),
        patience_(plan.timeout_s),
        device_(ia),
        zone_(device_.adapter),
        transfers_(device_.adapter, DAT_EVD_DTO_FLAG, static_cast<DAT_COUNT>(limits.bare) + 64),
        events_(device_.adapter, DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG, 2048),
        listener_(device_.adapter, port, events_) {}

  /** Serves that many clients, or forever if `clients` is 0. */
  void run(std::uint32_t clients);
  [[nodiscard]] bool good() const { return good_; }

 private:
  void admit(const dat::Arrival& arrival);
  void admit_bare(dat::Request request, bool session);
  void admit_member(dat::Request request, const Hello& hello);
  void ended(const dat::Ended& end);
  void take_farewells();
  void reap();
  std::optional<dat::Event> next_event();
  void complain(const std::string& what) {
    good_ = false;
    tools::print(stderr, "datperf: {}: {}\n", name_, what);
  }

  struct Bare {
    dat::Endpoint endpoint;
    bool session;
    bool finished = false;  // the client has said so
  };

  std::string name_;
  Limits limits_;
  std::chrono::seconds patience_;
  Device device_;
  dat::Zone zone_;
  dat::Queue transfers_;
  dat::Queue events_;
  std::unordered_map<DAT_EP_HANDLE, Bare> bare_;
  std::list<Responder> groups_;
  std::uint32_t served_ = 0;
  bool good_ = true;
  dat::Listener listener_;  // last member, so that all others exist when the first client arrives
};

void IaServer::run(std::uint32_t clients) {
  while (clients == 0 || served_ < clients) {
    const std::optional<dat::Event> event = next_event();
    if (event)
      std::visit(dat::Handlers{[this](const dat::Arrival& arrival) { admit(arrival); },
                               [this](const dat::Ended& end) { ended(end); }, [](const auto&) {}},
                 *event);
    reap();
  }
}

// While groups are being measured, this thread must not wait inside DAT: a waiting thread drives
// the adapter, and every message for a polling thread would have to wake it.
std::optional<dat::Event> IaServer::next_event() {
  if (groups_.empty()) return events_.wait(std::chrono::milliseconds(200));
  std::optional<dat::Event> event = events_.poll();
  if (!event) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return event;
}

void IaServer::admit(const dat::Arrival& arrival) {
  dat::Request request(arrival);
  try {
    const DAT_CR_PARAM parameters = request.parameters();
    const std::optional<Hello> hello =
        hello_of({static_cast<const std::byte*>(parameters.private_data),
                  static_cast<std::size_t>(std::max(parameters.private_data_size, 0))});
    if (!hello) throw Trouble("refused a client that is not datperf of this version");
    if (hello->role == Role::kMember)
      admit_member(std::move(request), *hello);
    else
      admit_bare(std::move(request), hello->role == Role::kSession);
  } catch (const std::exception& error) {
    complain(error.what());
  }
}

void IaServer::admit_bare(dat::Request request, bool session) {
  if (bare_.size() >= limits_.bare) throw Trouble("refused a connection: there are too many");
  const DAT_EP_ATTR attributes = endpoint_attributes(device_, 64, 1, 1);
  dat::Endpoint endpoint(device_.adapter, zone_, transfers_, transfers_, events_, &attributes);
  if (session) endpoint.post_recv(dat::Segments());
  request.accept(endpoint, encode(Invitation{}));
  const DAT_EP_HANDLE handle = endpoint.handle();
  bare_.emplace(handle, Bare{std::move(endpoint), session});
}

void IaServer::admit_member(dat::Request request, const Hello& hello) {
  for (Responder& group : groups_)
    if (group.fits(hello)) return group.accept(std::move(request), hello);
  std::uint64_t memory = Responder::memory_of(hello.what);
  for (const Responder& group : groups_) memory += Responder::memory_of(group.what());
  if (memory > limits_.memory || groups_.size() >= limits_.groups)
    throw Trouble(fmt::format("refused a client: it would take {} MiB of memory in all, {} groups",
                              memory >> 20, groups_.size() + 1));
  if (hello.what.operation == Operation::kFetchAdd && !device_.atomics)
    throw Trouble("refused a client: the provider has no atomic operations");
  groups_.emplace_back(device_, hello, patience_).accept(std::move(request), hello);
}

void IaServer::take_farewells() {
  DAT_EVENT event;
  while (transfers_.poll(event)) {
    const dat::Completion done = dat::completion_of(event);
    const auto found = bare_.find(done.endpoint);
    if (found != bare_.end() && done.good()) found->second.finished = true;
  }
}

// The end of a killed client's connection may look like a disconnect: the kernel closes its socket.
void IaServer::ended(const dat::Ended& end) {
  const auto found = bare_.find(end.endpoint);
  if (found == bare_.end()) return;
  if (found->second.session) {
    take_farewells();
    ++served_;
    if (!found->second.finished)
      complain(fmt::format("a client ended before it had finished ({})", end.name()));
  }
  bare_.erase(found);
}

void IaServer::reap() {
  const auto late = Clock::now() - patience_;
  for (auto group = groups_.begin(); group != groups_.end();) {
    const bool abandoned = !group->complete() && group->since() < late;
    if (abandoned) complain("a client did not make all of its connections");
    if (group->over() && !group->problem().empty()) complain(group->problem());
    group = abandoned || group->over() ? groups_.erase(group) : std::next(group);
  }
}

}  // namespace

int serve(const Plan& plan, std::uint32_t clients, const std::function<void()>& ready,
          const Limits& limits) {
  std::list<IaServer> servers;
  for (std::size_t i = 0; i < plan.ias.size(); ++i) {
    servers.emplace_back(plan.ias[i], port_of(plan, i), plan, limits);
    tools::print("{} listens at port {}\n", plan.ias[i], port_of(plan, i));
  }
  std::optional<SocketServer> sockets;
  if (plan.sockets) {
    sockets.emplace(socket_port_of(plan), std::chrono::seconds(plan.timeout_s), limits.memory);
    tools::print("sockets listen at port {}\n", socket_port_of(plan));
  }
  tools::flush();
  ready();
  std::vector<std::thread> threads;
  std::atomic<bool> good{true};
  for (IaServer& server : servers)
    threads.emplace_back([&server, clients, &good] {
      try {
        server.run(clients);
        if (!server.good()) good = false;
      } catch (const std::exception& error) {
        good = false;
        tools::print(stderr, "datperf: {}\n", error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return good ? 0 : 1;
}

}  // namespace datperf
