// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "server.h"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

namespace rpc {

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

void Server::on_request(const DAT_EVENT& event) {
  auto connection = std::make_unique<Connection>();
  connection->prepare(ia_, pz_, dto_evd_, dto_evd_, connection_evd_, DAT_COMPLETION_DEFAULT_FLAG);
  must(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, connection->ep, 0, nullptr),
       "dat_cr_accept");
  ++opened_;
  std::lock_guard<std::mutex> guard(table_);
  connections_[connection->ep] = std::move(connection);
}

// The completions of a connection that has ended are in the other EVD.
void Server::discard_completions(Connection& connection) {
  DAT_EVENT left;
  const auto begin = std::chrono::steady_clock::now();
  while (connection.posted_recvs > 0 || connection.posted_sends > 0) {
    if (dat_evd_dequeue(dto_evd_, &left) == DAT_SUCCESS) {
      const auto& done = left.event_data.dto_completion_event_data;
      if (done.ep_handle == connection.ep) {
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
}

void Server::on_connection_event(const DAT_EVENT& event) {
  const auto& data = event.event_data.connect_event_data;
  std::lock_guard<std::mutex> guard(table_);
  const auto found = connections_.find(data.ep_handle);
  if (found == connections_.end()) {
    fail("event of an unknown EP");
  }
  if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
    found->second->connected = true;
    return;
  }
  discard_completions(*found->second);
  found->second->release();
  connections_.erase(data.ep_handle);
  ++closed_;
}

void Server::on_completion(const DAT_EVENT& event) {
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

void Server::handle(const DAT_EVENT& event) {
  if (event.event_number == DAT_CONNECTION_REQUEST_EVENT) {
    on_request(event);
    // OpenFabrics providers report flushed receives as events of their extension.
  } else if (event.event_number == DAT_DTO_COMPLETION_EVENT ||
             event.event_number == DAT_IB_EXTENSION_RANGE_BASE) {
    on_completion(event);
  } else {
    on_connection_event(event);
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

}  // namespace rpc
