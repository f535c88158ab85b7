// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// mw_rpc - an RPC library: the server is notified of all events through one CNO, the clients sleep
// until a solicited reply arrives.
//
//   -e wait    a proxy thread waits in dat_cno_wait
//   -e agent   the CNO's agent wakes the proxy thread, which installs the agent again
//   -e inline  the agent serves the calls itself, and installs itself again
#include <dat/udat.h>
#include <getopt.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kBuffers = 16;
constexpr int kWindow = 6;
constexpr std::size_t kMessage = 1024;

struct Options {
  std::string ia = "soft";
  bool threadsafe = false;
  std::string engine = "wait";
  int clients = 4;
  int calls = 200;
  int limit = 120;
  DAT_CONN_QUAL qual = 0;
};
Options options;

enum Procedure : std::uint32_t {
  kEcho = 1,
  kSlow,
  kTalk,
  kQuitGraceful,
  kQuitAbrupt,
  kReply,
  kNote
};

struct Message {
  std::uint64_t xid;
  std::uint32_t procedure;
  std::uint32_t length;
  unsigned char data[kMessage - 16];
};

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "mw_rpc %d: %s\n", static_cast<int>(getpid()), text.c_str());
  _exit(1);
}

void must(DAT_RETURN status, const char* what) {
  if (status != DAT_SUCCESS) {
    const char *major = "?", *minor = "?";
    dat_strerror(status, &major, &minor);
    fail(std::string(what) + ": " + major + " " + minor);
  }
}

unsigned char pattern(std::uint64_t xid, std::size_t i) {
  return static_cast<unsigned char>(xid * 37 + i * 5 + (i >> 7));
}

void verify(const Message& message, std::size_t length) {
  if (length != 16u + message.length) {
    fail("message of " + std::to_string(length) + " bytes says " + std::to_string(message.length));
  }
  for (std::size_t i = 0; i < message.length; ++i) {
    if (message.data[i] != pattern(message.xid, i)) {
      fail("call " + std::to_string(message.xid) + ": byte " + std::to_string(i) + " is wrong");
    }
  }
}

DAT_IA_HANDLE open_ia(DAT_EVD_HANDLE& async_evd) {
  DAT_IA_HANDLE ia;
  async_evd = DAT_HANDLE_NULL;
  must(dat_ia_openv(const_cast<char*>(options.ia.c_str()), 8, &async_evd, &ia, DAT_VERSION_MAJOR,
                    DAT_VERSION_MINOR, options.threadsafe ? DAT_TRUE : DAT_FALSE),
       "dat_ia_open");
  return ia;
}

// The receive and send buffers of one connection, in one region.
struct Connection {
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT context = 0;
  std::vector<Message> memory = std::vector<Message>(2 * kBuffers);
  std::mutex lock;  // protects free_sends: both timer and dispatcher send
  std::vector<int> free_sends;
  bool connected = false;
  bool quitting = false;
  int posted_recvs = 0;
  std::atomic<int> posted_sends{0};

  void prepare(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
               DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd, DAT_COMPLETION_FLAGS flags) {
    DAT_REGION_DESCRIPTION where;
    DAT_RMR_CONTEXT remote;
    DAT_VLEN size;
    DAT_VADDR start;
    where.for_va = memory.data();
    must(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, where, memory.size() * sizeof(Message), pz,
                        static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_LOCAL_READ_FLAG |
                                                        DAT_MEM_PRIV_LOCAL_WRITE_FLAG),
                        DAT_VA_TYPE_VA, &lmr, &context, &remote, &size, &start),
         "dat_lmr_create");
    DAT_EP_ATTR attr;
    std::memset(&attr, 0, sizeof attr);
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_message_size = kMessage;
    attr.qos = DAT_QOS_BEST_EFFORT;
    attr.recv_completion_flags = flags;
    attr.request_completion_flags = DAT_COMPLETION_DEFAULT_FLAG;
    attr.max_recv_dtos = attr.max_request_dtos = kBuffers;
    attr.max_recv_iov = attr.max_request_iov = 1;
    must(dat_ep_create(ia, pz, recv_evd, request_evd, connect_evd, &attr, &ep), "dat_ep_create");
    for (int i = 0; i < kBuffers; ++i) {
      free_sends.push_back(kBuffers + i);
      post_recv(i);
    }
  }

  void post_recv(int index) {
    DAT_LMR_TRIPLET iov = {reinterpret_cast<DAT_VADDR>(&memory[index]), kMessage, context};
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = static_cast<DAT_UINT64>(index);
    ++posted_recvs;
    must(dat_ep_post_recv(ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_recv");
  }

  // Returns false if there is no buffer. If the connection has ended, the message is lost.
  bool send(std::uint64_t xid, std::uint32_t procedure, std::uint32_t length,
            DAT_COMPLETION_FLAGS flags) {
    std::lock_guard<std::mutex> guard(lock);
    if (free_sends.empty()) {
      return false;
    }
    const int index = free_sends.back();
    Message& message = memory[index];
    message.xid = xid;
    message.procedure = procedure;
    message.length = length;
    for (std::size_t i = 0; i < length; ++i) {
      message.data[i] = pattern(xid, i);
    }
    DAT_LMR_TRIPLET iov = {reinterpret_cast<DAT_VADDR>(&message), 16 + length, context};
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = static_cast<DAT_UINT64>(index);
    ++posted_sends;
    const DAT_RETURN status = dat_ep_post_send(ep, 1, &iov, cookie, flags);
    if (status == DAT_SUCCESS) {
      free_sends.pop_back();
    } else {
      --posted_sends;
      if (DAT_GET_TYPE(status) != DAT_INVALID_STATE) {
        must(status, "dat_ep_post_send");
      }
    }
    return true;
  }

  void sent(int index) {
    std::lock_guard<std::mutex> guard(lock);
    --posted_sends;
    free_sends.push_back(index);
  }

  void release() {
    must(dat_ep_free(ep), "dat_ep_free");
    must(dat_lmr_free(lmr), "dat_lmr_free");
  }
};

// ---- server --------------------------------------------------------------------------------

class Server {
 public:
  void run(int ready_fd, int clients);
  void dump() const;  // called by a signal handler, so it takes no locks

 private:
  struct Late {
    std::chrono::steady_clock::time_point due;
    DAT_EP_HANDLE ep;
    std::uint64_t xid;
    std::uint32_t length;
  };

  static void agent(DAT_PVOID self, DAT_EVD_HANDLE evd);
  void install_agent();
  void proxy();
  void timer();
  void drain_all();
  void handle(const DAT_EVENT& event);
  void on_call(Connection& connection, const Message& call);
  void reply(Connection& connection, const Message& call, std::uint32_t length);

  DAT_IA_HANDLE ia_{};
  DAT_EVD_HANDLE async_evd_{}, cr_evd_{}, connection_evd_{}, dto_evd_{};
  DAT_CNO_HANDLE cno_{};
  DAT_PZ_HANDLE pz_{};
  DAT_PSP_HANDLE psp_{};
  std::map<DAT_EP_HANDLE, std::unique_ptr<Connection>> connections_;
  std::mutex table_;  // protects connections_ from the timer
  std::mutex late_lock_;
  std::deque<Late> late_;
  sem_t wake_;
  std::atomic<bool> stop_{false};
  std::atomic<int> opened_{0}, closed_{0}, agent_calls_{0};
  std::mutex dispatch_;
};

void Server::agent(DAT_PVOID self, DAT_EVD_HANDLE) {
  auto* server = static_cast<Server*>(self);
  ++server->agent_calls_;
  if (options.engine == "agent") {
    sem_post(&server->wake_);
  } else {
    // First install the agent for future events, then handle those that have arrived.
    server->install_agent();
    server->drain_all();
  }
}

void Server::install_agent() {
  DAT_OS_WAIT_PROXY_AGENT agent;
  agent.instance_data = this;
  agent.proxy_agent_func = &Server::agent;
  must(dat_cno_modify_agent(cno_, agent), "dat_cno_modify_agent");
}

void Server::drain_all() {
  std::lock_guard<std::mutex> guard(dispatch_);
  DAT_EVENT event;
  bool found = true;
  while (found) {
    found = false;
    for (DAT_EVD_HANDLE evd : {cr_evd_, connection_evd_, dto_evd_}) {
      while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS) {
        handle(event);
        found = true;
      }
    }
  }
}

void Server::proxy() {
  while (!stop_) {
    if (options.engine == "wait") {
      DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
      const DAT_RETURN status = dat_cno_wait(cno_, 200000, &evd);
      if (DAT_GET_TYPE(status) != DAT_QUEUE_EMPTY && DAT_GET_TYPE(status) != DAT_TIMEOUT_EXPIRED) {
        must(status, "dat_cno_wait");
      } else {
        continue;  // timeout: no event to handle
      }
    } else {
      sem_wait(&wake_);
      install_agent();
    }
    drain_all();
  }
}

void Server::timer() {
  while (!stop_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (;;) {
      Late late;
      {
        std::lock_guard<std::mutex> guard(late_lock_);
        if (late_.empty() || late_.front().due > std::chrono::steady_clock::now()) {
          break;
        }
        late = late_.front();
        late_.pop_front();
      }
      std::lock_guard<std::mutex> guard(table_);
      const auto found = connections_.find(late.ep);
      if (found != connections_.end() &&
          !found->second->send(late.xid, kReply, late.length, DAT_COMPLETION_SOLICITED_WAIT_FLAG)) {
        fail("no buffer for a late reply");
      }
    }
  }
}

void Server::reply(Connection& connection, const Message& call, std::uint32_t length) {
  if (!connection.send(call.xid, kReply, length, DAT_COMPLETION_SOLICITED_WAIT_FLAG)) {
    fail("no buffer for a reply");
  }
}

void Server::on_call(Connection& connection, const Message& call) {
  switch (call.procedure) {
    case kEcho:
      reply(connection, call, call.length);
      break;
    case kSlow: {
      std::lock_guard<std::mutex> guard(late_lock_);
      late_.push_back({std::chrono::steady_clock::now() + std::chrono::milliseconds(15),
                       connection.ep, call.xid, call.length});
      break;
    }
    case kTalk:  // unsolicited notes, then the reply
      for (int i = 0; i < 2; ++i) {
        if (!connection.send(call.xid, kNote, 8, DAT_COMPLETION_DEFAULT_FLAG)) {
          fail("no buffer for a note");
        }
      }
      reply(connection, call, 100);
      break;
    case kQuitGraceful:
      reply(connection, call, 64);
      connection.quitting = true;
      must(dat_ep_disconnect(connection.ep, DAT_CLOSE_GRACEFUL_FLAG), "dat_ep_disconnect");
      break;
    case kQuitAbrupt:  // disconnects as soon as the reply is complete
      reply(connection, call, 64);
      connection.quitting = true;
      break;
    default:
      fail("unknown procedure " + std::to_string(call.procedure));
  }
}

void Server::handle(const DAT_EVENT& event) {
  if (event.event_number == DAT_CONNECTION_REQUEST_EVENT) {
    auto connection = std::make_unique<Connection>();
    connection->prepare(ia_, pz_, dto_evd_, dto_evd_, connection_evd_, DAT_COMPLETION_DEFAULT_FLAG);
    must(
        dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, connection->ep, 0, nullptr),
        "dat_cr_accept");
    ++opened_;
    std::lock_guard<std::mutex> guard(table_);
    connections_[connection->ep] = std::move(connection);
    return;
  }
  // OpenFabrics providers report flushed receives as events of their extension.
  if (event.event_number != DAT_DTO_COMPLETION_EVENT &&
      event.event_number != DAT_IB_EXTENSION_RANGE_BASE) {
    const auto& data = event.event_data.connect_event_data;
    std::lock_guard<std::mutex> guard(table_);
    const auto found = connections_.find(data.ep_handle);
    if (found == connections_.end()) {
      fail("event of an unknown EP");
    }
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
      found->second->connected = true;
    } else {
      // The completions of this connection are in the other EVD. Discard them.
      DAT_EVENT left;
      Connection& connection = *found->second;
      const auto begin = std::chrono::steady_clock::now();
      while (connection.posted_recvs > 0 || connection.posted_sends > 0) {
        if (dat_evd_dequeue(dto_evd_, &left) == DAT_SUCCESS) {
          const auto& done = left.event_data.dto_completion_event_data;
          if (done.ep_handle == data.ep_handle) {
            (done.user_cookie.as_64 < kBuffers ? connection.posted_recvs -= 1
                                               : connection.posted_sends -= 1);
            continue;
          }
          // It belongs to another connection. handle() locks table_ itself, so unlock it.
          table_.unlock();
          handle(left);
          table_.lock();
        } else if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(30)) {
          fail("not everything was flushed");
        }
      }
      connection.release();
      connections_.erase(data.ep_handle);
      ++closed_;
    }
    return;
  }
  const auto& done = event.event_data.dto_completion_event_data;
  const auto found = connections_.find(done.ep_handle);
  if (found == connections_.end()) {
    fail("completion of an unknown EP");
  }
  Connection& connection = *found->second;
  const int index = static_cast<int>(done.user_cookie.as_64);
  if (index >= kBuffers) {
    connection.sent(index);
    if (connection.quitting && connection.posted_sends == 0 && done.status == DAT_DTO_SUCCESS) {
      dat_ep_disconnect(connection.ep, DAT_CLOSE_ABRUPT_FLAG);  // may already be disconnecting
    }
    return;
  }
  --connection.posted_recvs;
  if (done.status == DAT_DTO_SUCCESS) {
    const Message call = connection.memory[index];
    verify(call, done.transfered_length);
    connection.post_recv(index);
    on_call(connection, call);
  } else if (done.status != DAT_DTO_ERR_FLUSHED) {
    fail("a receive ended with status " + std::to_string(done.status));
  }
}

void Server::dump() const {
  std::fprintf(stderr, "server: %d connections, %d ended, agent called %d times\n", opened_.load(),
               closed_.load(), agent_calls_.load());
  for (const auto& entry : connections_) {
    const Connection& connection = *entry.second;
    DAT_EP_STATE state = DAT_EP_STATE_UNCONNECTED;
    dat_ep_get_status(connection.ep, &state, nullptr, nullptr);
    std::fprintf(stderr, "  EP in state %d: %d receives, %d sends, %squitting\n",
                 static_cast<int>(state), connection.posted_recvs, connection.posted_sends.load(),
                 connection.quitting ? "" : "not ");
  }
}

void Server::run(int ready_fd, int clients) {
  sem_init(&wake_, 0, 0);
  ia_ = open_ia(async_evd_);
  DAT_OS_WAIT_PROXY_AGENT none = DAT_OS_WAIT_PROXY_AGENT_NULL;
  must(dat_cno_create(ia_, none, &cno_), "dat_cno_create");
  must(dat_pz_create(ia_, &pz_), "dat_pz_create");
  must(dat_evd_create(ia_, 64, cno_, DAT_EVD_CR_FLAG, &cr_evd_), "dat_evd_create");
  must(dat_evd_create(ia_, 64, cno_, DAT_EVD_CONNECTION_FLAG, &connection_evd_), "dat_evd_create");
  must(dat_evd_create(ia_, 64 * 2 * kBuffers, cno_, DAT_EVD_DTO_FLAG, &dto_evd_), "dat_evd_create");
  if (options.engine != "wait") {
    install_agent();
  }
  std::thread proxy, timer([this] { this->timer(); });
  if (options.engine != "inline") {
    proxy = std::thread([this] { this->proxy(); });
  }
  must(dat_psp_create(ia_, options.qual, cr_evd_, DAT_PSP_CONSUMER_FLAG, &psp_), "dat_psp_create");
  if (write(ready_fd, "R", 1) != 1) {
    fail("cannot report that the server is ready");
  }
  while (closed_ < clients) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  must(dat_psp_free(psp_), "dat_psp_free");
  stop_ = true;
  sem_post(&wake_);
  if (proxy.joinable()) {
    proxy.join();
  }
  timer.join();
  if (options.engine != "wait") {
    must(dat_cno_modify_agent(cno_, none), "dat_cno_modify_agent");
    if (agent_calls_ == 0) {
      fail("the agent was never called");
    }
    // The agent that closed the last connection may still be dequeuing: wait for it.
    std::lock_guard<std::mutex> guard(dispatch_);
  }
  must(dat_evd_free(cr_evd_), "dat_evd_free");
  must(dat_evd_free(connection_evd_), "dat_evd_free");
  must(dat_evd_free(dto_evd_), "dat_evd_free");
  must(dat_cno_free(cno_), "dat_cno_free");
  must(dat_pz_free(pz_), "dat_pz_free");
  must(dat_ia_close(ia_, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
}

// ---- client --------------------------------------------------------------------------------

class Client {
 public:
  explicit Client(int number) : number_(number) {}
  void run();

 private:
  void connect();
  void receiver();
  void on_message(const DAT_EVENT& event);
  void reap_sends();

  int number_;
  DAT_IA_HANDLE ia_{};
  DAT_EVD_HANDLE async_evd_{}, recv_evd_{}, request_evd_{}, connect_evd_{};
  DAT_PZ_HANDLE pz_{};
  Connection connection_;
  std::mutex lock_;
  std::map<std::uint64_t, std::uint32_t> expected_;  // call -> length of its reply
  std::map<std::uint64_t, int> notes_;
  std::atomic<int> replies_{0};
  std::atomic<bool> ended_{false};
  int timeouts_ = 0;
};

void Client::connect() {
  DAT_IA_ATTR attr;
  must(dat_ia_query(ia_, nullptr, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, DAT_PROVIDER_FIELD_NONE,
                    nullptr),
       "dat_ia_query");
  must(dat_ep_connect(connection_.ep, attr.ia_address_ptr, options.qual, 20000000, 0, nullptr,
                      DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
       "dat_ep_connect");
  DAT_EVENT event;
  DAT_COUNT more;
  must(dat_evd_wait(connect_evd_, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
  if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED) {
    fail("connection event " + std::to_string(event.event_number));
  }
}

void Client::on_message(const DAT_EVENT& event) {
  const auto& done = event.event_data.dto_completion_event_data;
  --connection_.posted_recvs;
  if (done.status != DAT_DTO_SUCCESS) {
    if (done.status != DAT_DTO_ERR_FLUSHED) {
      fail("client: a receive ended with status " + std::to_string(done.status));
    }
    return;
  }
  const int index = static_cast<int>(done.user_cookie.as_64);
  const Message message = connection_.memory[index];
  verify(message, done.transfered_length);
  connection_.post_recv(index);
  std::lock_guard<std::mutex> guard(lock_);
  if (message.procedure == kNote) {
    ++notes_[message.xid];
    return;
  }
  const auto found = expected_.find(message.xid);
  if (found == expected_.end() || found->second != message.length) {
    fail("client: reply " + std::to_string(message.xid) + " of " + std::to_string(message.length) +
         " bytes was not expected");
  }
  expected_.erase(found);
  ++replies_;
}

// Waits for replies until the EVD is made unwaitable.
void Client::receiver() {
  for (unsigned round = 0;; ++round) {
    DAT_EVENT event;
    DAT_COUNT more;
    static const DAT_TIMEOUT limits[] = {DAT_TIMEOUT_INFINITE, 0, 1000, DAT_TIMEOUT_INFINITE,
                                         20000};
    const DAT_RETURN status = dat_evd_wait(recv_evd_, limits[round % 5], 1, &event, &more);
    if (DAT_GET_TYPE(status) == DAT_INVALID_STATE) {
      return;
    }
    if (DAT_GET_TYPE(status) == DAT_TIMEOUT_EXPIRED) {
      ++timeouts_;
      continue;
    }
    must(status, "client: dat_evd_wait");
    on_message(event);
    while (dat_evd_dequeue(recv_evd_, &event) == DAT_SUCCESS) {
      on_message(event);
    }
  }
}

void Client::reap_sends() {
  DAT_EVENT event;
  while (dat_evd_dequeue(request_evd_, &event) == DAT_SUCCESS) {
    const auto& done = event.event_data.dto_completion_event_data;
    if (done.status != DAT_DTO_SUCCESS) {
      fail("client: a send ended with status " + std::to_string(done.status));
    }
    connection_.sent(static_cast<int>(done.user_cookie.as_64));
  }
}

void Client::run() {
  ia_ = open_ia(async_evd_);
  must(dat_pz_create(ia_, &pz_), "dat_pz_create");
  must(dat_evd_create(ia_, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &recv_evd_), "dat_evd_create");
  must(dat_evd_create(ia_, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &request_evd_), "dat_evd_create");
  must(dat_evd_create(ia_, 4, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connect_evd_),
       "dat_evd_create");
  connection_.prepare(ia_, pz_, recv_evd_, request_evd_, connect_evd_,
                      DAT_COMPLETION_SOLICITED_WAIT_FLAG);
  connect();
  std::thread receiver([this] { this->receiver(); });
  int talks = 0;
  for (int call = 1; call <= options.calls; ++call) {
    while (call - 1 - replies_ >= kWindow) {
      reap_sends();
      std::this_thread::yield();
    }
    const std::uint32_t length = static_cast<std::uint32_t>((call * 131 + number_) % 1008);
    std::uint32_t procedure = call % 23 == 0 ? kSlow : call % 7 == 0 ? kTalk : kEcho;
    std::uint32_t answer = procedure == kTalk ? 100 : length;
    if (call == options.calls) {  // the server ends the connection
      while (call - 1 - replies_ > 0) {
        std::this_thread::yield();
      }
      procedure = number_ % 2 ? kQuitGraceful : kQuitAbrupt;
      answer = 64;
    }
    talks += procedure == kTalk;
    const std::uint64_t xid =
        static_cast<std::uint64_t>(number_) << 32 | static_cast<unsigned>(call);
    {
      std::lock_guard<std::mutex> guard(lock_);
      expected_[xid] = answer;
    }
    while (!connection_.send(xid, procedure, length, DAT_COMPLETION_DEFAULT_FLAG)) {
      reap_sends();
    }
  }
  DAT_EVENT event;
  DAT_COUNT more;
  must(dat_evd_wait(connect_evd_, DAT_TIMEOUT_INFINITE, 1, &event, &more), "dat_evd_wait");
  if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED) {
    fail("the connection ended with event " + std::to_string(event.event_number));
  }
  must(dat_evd_set_unwaitable(recv_evd_), "dat_evd_set_unwaitable");
  receiver.join();
  must(dat_evd_clear_unwaitable(recv_evd_), "dat_evd_clear_unwaitable");
  while (connection_.posted_recvs > 0) {
    if (dat_evd_dequeue(recv_evd_, &event) == DAT_SUCCESS) {
      on_message(event);
    }
  }
  reap_sends();
  if (!expected_.empty()) {
    fail("client " + std::to_string(number_) + ": " + std::to_string(expected_.size()) +
         " calls without reply");
  }
  for (const auto& [xid, count] : notes_) {
    if (count != 2) {
      fail("call " + std::to_string(xid) + " had " + std::to_string(count) + " notes");
    }
  }
  if (static_cast<int>(notes_.size()) != talks) {
    fail("notes are missing");
  }
  connection_.release();
  must(dat_evd_free(recv_evd_), "dat_evd_free");
  must(dat_evd_free(request_evd_), "dat_evd_free");
  must(dat_evd_free(connect_evd_), "dat_evd_free");
  must(dat_pz_free(pz_), "dat_pz_free");
  must(dat_ia_close(ia_, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
}

pid_t start(void (*what)(int), int fd) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(static_cast<unsigned>(options.limit));
    what(fd);
    std::fflush(nullptr);
    _exit(0);
  }
  return pid;
}

Server* server;

void on_alarm(int) {
  server->dump();
  _exit(3);
}

void serve(int ready_fd) {
  server = new Server;
  signal(SIGALRM, on_alarm);
  server->run(ready_fd, options.clients);
  delete server;
}

void call(int) {
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::thread> threads;
  for (int i = 0; i < options.clients; ++i) {
    clients.push_back(std::make_unique<Client>(i + 1));
    threads.emplace_back([client = clients.back().get()] { client->run(); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

}  // namespace

int main(int argc, char** argv) {
  int option;
  while ((option = getopt(argc, argv, "D:Te:c:n:w:")) != -1) {
    switch (option) {
      case 'D':
        options.ia = optarg;
        break;
      case 'T':
        options.threadsafe = true;
        break;
      case 'e':
        options.engine = optarg;
        break;
      case 'c':
        options.clients = std::atoi(optarg);
        break;
      case 'n':
        options.calls = std::atoi(optarg);
        break;
      case 'w':
        options.limit = std::atoi(optarg);
        break;
      default:
        std::fprintf(stderr,
                     "usage: mw_rpc [-D ia] [-T] [-e wait|agent|inline] [-c clients] [-n calls]\n");
        return 2;
    }
  }
  options.qual = 20000 + static_cast<DAT_CONN_QUAL>(getpid()) % 6000;  // no ephemeral port
  int ready[2];
  char token;
  if (pipe(ready) != 0) {
    return 1;
  }
  const pid_t server = start(serve, ready[1]);
  close(ready[1]);
  if (read(ready[0], &token, 1) != 1) {
    std::fprintf(stderr, "the server does not start\n");
    return 1;
  }
  const pid_t client = start(call, -1);
  int status = 0, failed = 0;
  for (int left = 2; left > 0; --left) {
    const pid_t pid = wait(&status);
    if (status != 0) {
      std::fprintf(stderr, "%s ended with 0x%x\n", pid == server ? "server" : "clients", status);
      failed = 1;
      kill(pid == server ? client : server, SIGKILL);
    }
  }
  std::printf("mw_rpc -e %s: %s\n", options.engine.c_str(), failed ? "FAILED" : "ok");
  return failed;
}
