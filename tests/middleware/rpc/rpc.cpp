// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "rpc.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace rpc {

Options options;

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

static unsigned char pattern(std::uint64_t xid, std::size_t i) {
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

void Connection::prepare(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
                         DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
                         DAT_COMPLETION_FLAGS flags) {
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

void Connection::post_recv(int index) {
  DAT_LMR_TRIPLET iov = {reinterpret_cast<DAT_VADDR>(&memory[index]), kMessage, context};
  DAT_DTO_COOKIE cookie;
  cookie.as_64 = static_cast<DAT_UINT64>(index);
  ++posted_recvs;
  must(dat_ep_post_recv(ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_recv");
}

bool Connection::send(std::uint64_t xid, std::uint32_t procedure, std::uint32_t length,
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

void Connection::sent(int index) {
  std::lock_guard<std::mutex> guard(lock);
  --posted_sends;
  free_sends.push_back(index);
}

void Connection::release() {
  must(dat_ep_free(ep), "dat_ep_free");
  must(dat_lmr_free(lmr), "dat_lmr_free");
}
}  // namespace rpc
