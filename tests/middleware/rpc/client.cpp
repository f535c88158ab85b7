// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "client.h"

#include <string>
#include <thread>

namespace rpc {

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

void Client::wait_for_replies(int calls, int outstanding) {
  while (calls - replies_ > outstanding) {
    reap_sends();
    std::this_thread::yield();
  }
}

// The server ends the connection after the last one.
void Client::call(int number) {
  const bool last = number == options.calls;
  wait_for_replies(number - 1, last ? 0 : kWindow - 1);
  const std::uint32_t length = static_cast<std::uint32_t>((number * 131 + number_) % 1008);
  std::uint32_t procedure = number % 23 == 0 ? kSlow : number % 7 == 0 ? kTalk : kEcho;
  if (last) {
    procedure = number_ % 2 ? kQuitGraceful : kQuitAbrupt;
  }
  talks_ += procedure == kTalk;
  const std::uint64_t xid =
      static_cast<std::uint64_t>(number_) << 32 | static_cast<unsigned>(number);
  {
    std::lock_guard<std::mutex> guard(lock_);
    expected_[xid] = last ? 64 : procedure == kTalk ? 100 : length;
  }
  while (!connection_.send(xid, procedure, length, DAT_COMPLETION_DEFAULT_FLAG)) {
    reap_sends();
  }
}

void Client::check_replies() {
  if (!expected_.empty()) {
    fail("client " + std::to_string(number_) + ": " + std::to_string(expected_.size()) +
         " calls without reply");
  }
  for (const auto& [xid, count] : notes_) {
    if (count != 2) {
      fail("call " + std::to_string(xid) + " had " + std::to_string(count) + " notes");
    }
  }
  if (static_cast<int>(notes_.size()) != talks_) {
    fail("notes are missing");
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
  for (int number = 1; number <= options.calls; ++number) {
    call(number);
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
  check_replies();
  connection_.release();
  must(dat_evd_free(recv_evd_), "dat_evd_free");
  must(dat_evd_free(request_evd_), "dat_evd_free");
  must(dat_evd_free(connect_evd_), "dat_evd_free");
  must(dat_pz_free(pz_), "dat_pz_free");
  must(dat_ia_close(ia_, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
}

}  // namespace rpc
