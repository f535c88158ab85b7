// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "options.h"
#include "report.h"

#include <dat/udat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dapltest {

// Owns one DAT handle and frees it. Not thread-safe.
template <DAT_RETURN (*kFree)(DAT_HANDLE)>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, DAT_HANDLE_NULL)) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() { reset(); }

  [[nodiscard]] DAT_HANDLE get() const { return handle_; }
  // For the OUT parameter of the creating call; on its failure the handle stays null.
  [[nodiscard]] DAT_HANDLE* out() {
    reset();
    return &handle_;
  }
  // Frees the handle now. Returns the result of the call, or success if there was no handle.
  DAT_RETURN reset() {
    if (handle_ == DAT_HANDLE_NULL) {
      return DAT_SUCCESS;
    }
    return kFree(std::exchange(handle_, DAT_HANDLE_NULL));
  }
  // Gives up ownership: the handle has another owner or no longer exists.
  DAT_HANDLE release() { return std::exchange(handle_, DAT_HANDLE_NULL); }

 private:
  DAT_HANDLE handle_ = DAT_HANDLE_NULL;
};

inline DAT_RETURN close_ia(DAT_HANDLE ia) { return dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG); }

using Ia = Handle<close_ia>;
using Pz = Handle<dat_pz_free>;
using Lmr = Handle<dat_lmr_free>;
using Cno = Handle<dat_cno_free>;
using Evd = Handle<dat_evd_free>;
using Ep = Handle<dat_ep_free>;
using Psp = Handle<dat_psp_free>;
using Rsp = Handle<dat_rsp_free>;

// Opens an adapter. If `device` is empty, opens the first one in dat.conf.
[[nodiscard]] DAT_RETURN open_ia(const std::string& device, Ia& ia);

// An open adapter. Each thread has its own, so that adapters declared nonthreadsafe work as well.
// Not thread-safe. Must outlive every object created from it.
class Adapter {
 public:
  // Reports failures. If `device` is empty, opens the first adapter in dat.conf.
  [[nodiscard]] bool open(const std::string& device);
  [[nodiscard]] DAT_IA_HANDLE handle() const { return ia_.get(); }
  [[nodiscard]] const DAT_IA_ATTR& attributes() const { return attributes_; }
  [[nodiscard]] std::string address() const;  // its own address as text

 private:
  Ia ia_;
  DAT_IA_ATTR attributes_{};
};

// The name of the first adapter in the registry; empty if there is none.
[[nodiscard]] std::string first_adapter();

// The address of a host. resolve() reports why it fails.
struct Address {
  alignas(8) unsigned char storage[28] = {};  // sockaddr_in or sockaddr_in6
  [[nodiscard]] bool resolve(const std::string& host);
  [[nodiscard]] DAT_IA_ADDRESS_PTR get() { return reinterpret_cast<DAT_IA_ADDRESS_PTR>(storage); }
  [[nodiscard]] std::string text() const;
};

// A block of memory, registered as a whole. Not thread-safe.
class Memory {
 public:
  [[nodiscard]] bool create(const Adapter& adapter, DAT_PZ_HANDLE pz, std::size_t size);
  [[nodiscard]] std::span<std::byte> span(std::size_t at, std::size_t size) {
    return {bytes_.get() + at, size};
  }
  [[nodiscard]] DAT_LMR_TRIPLET segment(std::span<const std::byte> data) const;
  [[nodiscard]] DAT_RMR_CONTEXT rmr_context() const { return rmr_context_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  Lmr lmr_;
  DAT_LMR_CONTEXT lmr_context_ = 0;
  DAT_RMR_CONTEXT rmr_context_ = 0;
};

// How to create and use an Endpoint.
struct EndpointPlan {
  std::uint32_t requests = 1;
  std::uint32_t receives = 1;
  std::uint32_t segments = 1;
  std::uint64_t largest = 0;  // bytes of the largest transfer
  DAT_QOS qos = DAT_QOS_BEST_EFFORT;
  bool poll = false;
  bool cno = false;
  std::uint32_t timeout_s = 60;                  // for every wait; 0: no limit
  const std::atomic<bool>* peer_gone = nullptr;  // ends the wait for a connection request
};

// One end of a connection: an EP with its PZ, EVDs and memory. Not thread-safe. Failures are
// reported where they happen; the function then returns false, and the object must be destroyed.
class Endpoint {
 public:
  [[nodiscard]] bool create(const Adapter& adapter, const EndpointPlan& plan,
                            std::size_t memory_size);

  // Active side. Retries while the server rejects the request; if `patient`, also while no server
  // listens.
  [[nodiscard]] bool connect(Address& address, std::uint32_t port, std::string_view private_data,
                             bool patient);
  // Passive side: listen, then accept. kInUse: the caller must try another port.
  enum class Listening : std::uint8_t { kDone, kInUse, kFailed };
  [[nodiscard]] Listening listen(std::uint32_t port, bool reserved_point);
  void stop_listening();
  [[nodiscard]] bool accept();
  // Accepts a request that arrived at a service point of another object.
  [[nodiscard]] bool accept(DAT_CR_HANDLE cr);
  // Disconnects gracefully and waits for the end of the connection, a few seconds at most.
  void disconnect();
  // Returns whether the peer has ended the connection. Does not wait.
  [[nodiscard]] bool ended();
  // Waits until the peer has ended the connection, a few seconds at most.
  void await_disconnect();

  // The segments are `count` equal parts of `data`.
  [[nodiscard]] bool post_receive(std::span<std::byte> data, std::uint32_t count = 1);
  [[nodiscard]] bool post_send(std::span<std::byte> data, std::uint32_t count = 1);
  [[nodiscard]] bool post_rdma(Transfer transfer, std::span<std::byte> data, std::uint32_t count,
                               std::uint32_t rmr_context, std::uint64_t address);
  // Waits for the oldest request. Returns true if it completed successfully.
  [[nodiscard]] bool reap_request();
  // Waits for the oldest receive. Returns true if it completed with exactly `bytes` bytes.
  [[nodiscard]] bool reap_receive(std::uint64_t bytes, const char* what);

  void set_timeout(std::uint32_t seconds) { plan_.timeout_s = seconds; }
  [[nodiscard]] Memory& memory() { return memory_; }

 private:
  [[nodiscard]] bool create_events(const Adapter& adapter, const EndpointPlan& plan);
  [[nodiscard]] DAT_RETURN look_for_event(DAT_EVD_HANDLE evd, DAT_TIMEOUT wait,
                                          DAT_EVENT* event) const;
  [[nodiscard]] std::optional<DAT_EVENT> next_event(DAT_EVD_HANDLE evd, std::uint32_t timeout_ms,
                                                    const char* of_what);
  [[nodiscard]] std::span<DAT_LMR_TRIPLET> segments(std::span<std::byte> data, std::uint32_t count);
  [[nodiscard]] bool reap(DAT_EVD_HANDLE evd, std::optional<std::uint64_t> bytes, const char* what);
  [[nodiscard]] std::uint32_t patience_ms() const { return plan_.timeout_s * 1000; }

  DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
  std::string from_;  // the adapter's address
  EndpointPlan plan_;
  std::uint32_t port_ = 0;
  bool reserved_ = false;
  bool connected_ = false;
  std::vector<DAT_LMR_TRIPLET> segments_;
  // Destroyed in reverse order.
  Pz pz_;
  Cno cno_;
  Evd receive_evd_;
  Evd request_evd_;
  Evd connection_evd_;
  Evd cr_evd_;
  Memory memory_;
  Ep ep_;
  Psp psp_;
  Rsp rsp_;
};

}  // namespace dapltest
