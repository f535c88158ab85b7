// SPDX-License-Identifier: MIT OR GPL-2.0-only
/// @file
/// DAT for C++20, in this header alone: objects that free themselves, errors as exceptions with
/// their cause, spans, events as a variant, chrono time-outs, and an event loop.
///
///     dat::Adapter adapter("soft");
///     dat::Queue completions(adapter, DAT_EVD_DTO_FLAG, 64);
///
/// Every class wraps a C handle and what is needed to free it. An object keeps the objects that it
/// was created from alive (an endpoint its queues and its zone, every object its adapter), so they
/// may go out of scope in any order. Posts and dequeues are the C calls, inline, with one branch
/// for an error.
///
/// Threads: as for the C calls. An object is moved or destroyed by one thread, while no call on it
/// runs. A moved-from object may only be destroyed or assigned to.
///
/// Exceptions: dat::Error if a C call fails; std::bad_alloc. Destructors do not throw.
#pragma once

#if __cplusplus < 201709L
#error "<dat/dat.hpp> needs C++20 (-std=c++20; with CMake: target_compile_features(... cxx_std_20))"
#endif

#include <dat/dat_diagnosis_extensions.h>
#include <dat/udat.h>

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace dat {

// ---- errors ------------------------------------------------------------------------------------

/// A failed DAT call. what() is "<call>: <cause>", with the reason from dat_last_cause().
class Error : public std::runtime_error {
 public:
  Error(DAT_RETURN status, const char* call)
      : std::runtime_error(text(status, call)), status_(status) {}

  [[nodiscard]] DAT_RETURN status() const noexcept { return status_; }
  /// Without class and subtype, to be compared with DAT_INVALID_STATE and the like.
  [[nodiscard]] DAT_RETURN type() const noexcept { return DAT_GET_TYPE(status_); }

 private:
  static std::string text(DAT_RETURN status, const char* call) {
    const char* cause = nullptr;
    const bool told = dat_last_cause(status, &cause) == DAT_SUCCESS && cause != nullptr;
    return std::string(call) + ": " + (told ? cause : "unknown error");
  }

  DAT_RETURN status_;
};

[[noreturn]] [[gnu::cold]] [[gnu::noinline]] inline void fail(DAT_RETURN status, const char* call) {
  throw Error(status, call);
}

/// Throws unless `status` is success.
inline void check(DAT_RETURN status, const char* call) {
  if (status != DAT_SUCCESS) [[unlikely]]
    fail(status, call);
}

// ---- time --------------------------------------------------------------------------------------

using Duration = std::chrono::microseconds;
/// No time limit.
inline constexpr Duration kForever = Duration::max();

/// Converts to the argument of a C call; a duration too long for one becomes DAT_TIMEOUT_INFINITE.
[[nodiscard]] constexpr DAT_TIMEOUT timeout(Duration duration) noexcept {
  if (duration.count() < 0) return 0;
  if (duration.count() >= static_cast<Duration::rep>(DAT_TIMEOUT_INFINITE))
    return DAT_TIMEOUT_INFINITE;
  return static_cast<DAT_TIMEOUT>(duration.count());
}

// ---- what objects share ------------------------------------------------------------------------

namespace detail {

using Free = DAT_RETURN (*)(DAT_HANDLE);

/// A handle and the nodes that it keeps alive.
struct Node {
  Node(DAT_HANDLE of, Free how, std::initializer_list<std::shared_ptr<Node>> those)
      : handle(of), free(how), parents(those) {}
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() {
    if (handle != DAT_HANDLE_NULL) free(handle);
  }

  DAT_HANDLE handle;
  Free free;
  std::vector<std::shared_ptr<Node>> parents;
};

inline DAT_RETURN close_adapter(DAT_HANDLE ia) { return dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG); }

}  // namespace detail

/// Base of all objects: a handle and its ownership.
class Object {
 public:
  Object(Object&& other) noexcept
      : handle_(std::exchange(other.handle_, DAT_HANDLE_NULL)), node_(std::move(other.node_)) {}
  Object& operator=(Object&& other) noexcept {
    handle_ = std::exchange(other.handle_, DAT_HANDLE_NULL);
    node_ = std::move(other.node_);
    return *this;
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  /// For C calls; this object keeps ownership.
  [[nodiscard]] DAT_HANDLE handle() const noexcept { return handle_; }
  /// Gives up ownership: the caller must free the handle with the C call.
  [[nodiscard]] DAT_HANDLE release() noexcept {
    if (node_ != nullptr) node_->handle = DAT_HANDLE_NULL;
    return std::exchange(handle_, DAT_HANDLE_NULL);
  }

 protected:
  Object() = default;
  ~Object() = default;
  void own(DAT_HANDLE handle, detail::Free free,
           std::initializer_list<std::shared_ptr<detail::Node>> parents) {
    handle_ = handle;
    try {
      node_ = std::make_shared<detail::Node>(handle, free, parents);
    } catch (...) {
      free(handle);
      throw;
    }
  }
  static const std::shared_ptr<detail::Node>& node_of(const Object& object) { return object.node_; }

 private:
  DAT_HANDLE handle_ = DAT_HANDLE_NULL;
  std::shared_ptr<detail::Node> node_;
};

/// An open adapter, by its name in dat.conf.
class Adapter : public Object {
 public:
  explicit Adapter(const std::string& name, DAT_COUNT async_events = 8) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    check(dat_ia_open(name.c_str(), async_events, &evd, &ia), "dat_ia_open");
    own(ia, &detail::close_adapter, {});
    async_evd_ = evd;
  }

  [[nodiscard]] DAT_EVD_HANDLE async_evd() const noexcept { return async_evd_; }
  [[nodiscard]] DAT_IA_ATTR attributes() const {
    DAT_IA_ATTR attributes{};
    check(dat_ia_query(handle(), nullptr, DAT_IA_FIELD_ALL, &attributes, 0, nullptr),
          "dat_ia_query");
    return attributes;
  }

 private:
  DAT_EVD_HANDLE async_evd_ = DAT_HANDLE_NULL;
};

// ---- events ------------------------------------------------------------------------------------

/// A transfer is complete.
struct Completion {
  DAT_EP_HANDLE endpoint;
  DAT_DTO_COOKIE cookie;
  DAT_DTO_COMPLETION_STATUS status;
  DAT_DTOS operation;
  std::size_t length;  ///< valid on success only

  [[nodiscard]] bool good() const noexcept { return status == DAT_DTO_SUCCESS; }
  [[nodiscard]] const char* status_name() const noexcept { return dat_dto_status_name(status); }
};

/// A bind of a memory window is complete.
struct Bound {
  DAT_RMR_HANDLE window;
  DAT_RMR_COOKIE cookie;
  DAT_DTO_COMPLETION_STATUS status;
};

/// A peer requests a connection: construct a Request from this.
struct Arrival {
  DAT_CR_HANDLE request;
  DAT_CONN_QUAL port;
};

/// A connection is established. The data is the peer's, valid until the endpoint is reset or freed.
struct Established {
  DAT_EP_HANDLE endpoint;
  std::span<const std::byte> private_data;
};

/// A connection has ended or could not be established: `why` is one of DAT_CONNECTION_EVENT_*.
struct Ended {
  DAT_EP_HANDLE endpoint;
  DAT_EVENT_NUMBER why;
  std::span<const std::byte> private_data;  ///< from a peer that rejected the connection

  [[nodiscard]] const char* name() const noexcept { return dat_event_name(why); }
};

/// An object has failed, or a watermark was crossed.
struct Asynchronous {
  DAT_EVENT_NUMBER number;
  DAT_HANDLE object;
  DAT_COUNT reason;
};

/// From dat_evd_post_se().
struct Software {
  void* pointer;
};

/// An extension event, as in C.
struct Extended {
  DAT_EVENT event;
};

using Event =
    std::variant<Completion, Bound, Arrival, Established, Ended, Asynchronous, Software, Extended>;

[[nodiscard]] inline Completion completion_of(const DAT_EVENT& event) noexcept {
  const DAT_DTO_COMPLETION_EVENT_DATA& done = event.event_data.dto_completion_event_data;
  return {done.ep_handle, done.user_cookie, done.status, done.operation,
          static_cast<std::size_t>(done.transfered_length)};
}

[[nodiscard]] inline Event event_of(const DAT_EVENT& event) noexcept {
  const auto data = [](const DAT_CONNECTION_EVENT_DATA& of) {
    return of.private_data_size > 0 ? std::span(static_cast<const std::byte*>(of.private_data),
                                                static_cast<std::size_t>(of.private_data_size))
                                    : std::span<const std::byte>();
  };
  const DAT_EVENT_DATA& of = event.event_data;
  const auto number = static_cast<unsigned>(event.event_number);
  if (number == DAT_DTO_COMPLETION_EVENT) return completion_of(event);
  if (number == DAT_CONNECTION_EVENT_ESTABLISHED)
    return Established{of.connect_event_data.ep_handle, data(of.connect_event_data)};
  if ((number & ~0xfffU) == 0x4000U)
    return Ended{of.connect_event_data.ep_handle, event.event_number, data(of.connect_event_data)};
  if (number == DAT_CONNECTION_REQUEST_EVENT)
    return Arrival{of.cr_arrival_event_data.cr_handle, of.cr_arrival_event_data.conn_qual};
  if (number == DAT_RMR_BIND_COMPLETION_EVENT)
    return Bound{of.rmr_completion_event_data.rmr_handle, of.rmr_completion_event_data.user_cookie,
                 of.rmr_completion_event_data.status};
  if ((number & ~0xfffU) == 0x8000U)
    return Asynchronous{event.event_number, of.asynch_error_event_data.dat_handle,
                        of.asynch_error_event_data.reason};
  if (number == DAT_SOFTWARE_EVENT) return Software{of.software_event_data.pointer};
  return Extended{event};
}

/// Combines handlers of several kinds of events: std::visit(dat::Handlers{...}, event).
template <typename... Kinds>
struct Handlers : Kinds... {
  using Kinds::operator()...;
};
template <typename... Kinds>
Handlers(Kinds...) -> Handlers<Kinds...>;

/// A CNO with a file descriptor, which is readable while one of its queues has new events.
class Notifier : public Object {
 public:
  explicit Notifier(const Adapter& adapter) {
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    check(dat_cno_fd_create(adapter.handle(), &fd_, &cno), "dat_cno_fd_create");
    own(cno, &dat_cno_free, {node_of(adapter)});
  }
  /// For polling, with epoll for example; belongs to the notifier.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  /// Call it before emptying the queues: later events make the descriptor readable again.
  void acknowledge() {
    DAT_EVD_HANDLE hint = DAT_HANDLE_NULL;
    check(dat_cno_trigger(handle(), &hint), "dat_cno_trigger");
  }

 private:
  DAT_FD fd_ = -1;
};

/// An EVD: a queue of events.
class Queue : public Object {
 public:
  Queue(const Adapter& adapter, DAT_EVD_FLAGS flags, DAT_COUNT length) {
    create(adapter, DAT_HANDLE_NULL, flags, length);
    own(created_, &dat_evd_free, {node_of(adapter)});
  }
  Queue(const Adapter& adapter, const Notifier& notifier, DAT_EVD_FLAGS flags, DAT_COUNT length) {
    create(adapter, notifier.handle(), flags, length);
    own(created_, &dat_evd_free, {node_of(adapter), node_of(notifier)});
  }

  /// Takes ownership of an EVD that was created with a C call.
  [[nodiscard]] static Queue adopt(DAT_EVD_HANDLE evd) { return Queue(evd); }

  /// The next event, if there is one.
  [[nodiscard]] bool poll(DAT_EVENT& event) const {
    const DAT_RETURN status = dat_evd_dequeue(handle(), &event);
    if (status == DAT_SUCCESS) return true;
    if (DAT_GET_TYPE(status) != DAT_QUEUE_EMPTY) [[unlikely]]
      fail(status, "dat_evd_dequeue");
    return false;
  }
  [[nodiscard]] std::optional<Event> poll() const {
    DAT_EVENT event;
    if (!poll(event)) return std::nullopt;
    return event_of(event);
  }
  /// Waits for the next event. Returns nothing when the limit has passed or a signal has arrived.
  /// Not for queues of a notifier.
  [[nodiscard]] std::optional<Event> wait(Duration limit = kForever) const {
    DAT_EVENT event;
    DAT_COUNT more = 0;
    const DAT_RETURN status = dat_evd_wait(handle(), timeout(limit), 1, &event, &more);
    if (status == DAT_SUCCESS) return event_of(event);
    const DAT_RETURN type = DAT_GET_TYPE(status);
    if (type != DAT_TIMEOUT_EXPIRED && type != DAT_INTERRUPTED_CALL) fail(status, "dat_evd_wait");
    return std::nullopt;
  }

 private:
  explicit Queue(DAT_EVD_HANDLE evd) { own(evd, &dat_evd_free, {}); }
  void create(const Adapter& adapter, DAT_HANDLE cno, DAT_EVD_FLAGS flags, DAT_COUNT length) {
    check(dat_evd_create(adapter.handle(), length, cno, flags, &created_), "dat_evd_create");
  }
  DAT_EVD_HANDLE created_ = DAT_HANDLE_NULL;
};

// ---- memory ------------------------------------------------------------------------------------

/// A protection zone: determines which memory endpoints may access.
class Zone : public Object {
 public:
  explicit Zone(const Adapter& adapter) {
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    check(dat_pz_create(adapter.handle(), &pz), "dat_pz_create");
    own(pz, &dat_pz_free, {node_of(adapter)});
  }
};

/// Memory of the program, registered for transfers. The program still owns the bytes. They must
/// outlive this object, and this object must outlive the transfers.
class Memory : public Object {
 public:
  Memory(const Adapter& adapter, const Zone& zone, std::span<std::byte> bytes,
         DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_LOCAL_READ_FLAG |
                                         DAT_MEM_PRIV_LOCAL_WRITE_FLAG)
      : bytes_(bytes) {
    DAT_REGION_DESCRIPTION region{};
    region.for_va = bytes.data();
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_VLEN length = 0;
    DAT_VADDR start = 0;
    check(
        dat_lmr_create(adapter.handle(), DAT_MEM_TYPE_VIRTUAL, region, bytes.size(), zone.handle(),
                       privileges, DAT_VA_TYPE_VA, &lmr, &local_, &remote_, &length, &start),
        "dat_lmr_create");
    own(lmr, &dat_lmr_free, {node_of(adapter), node_of(zone)});
  }

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// A piece for a post.
  [[nodiscard]] DAT_LMR_TRIPLET segment(std::size_t offset, std::size_t size) const noexcept {
    DAT_LMR_TRIPLET triplet{};
    triplet.virtual_address = reinterpret_cast<std::uintptr_t>(bytes_.data()) + offset;
    triplet.segment_length = static_cast<DAT_SEG_LENGTH>(size);
    triplet.lmr_context = local_;
    return triplet;
  }
  [[nodiscard]] DAT_LMR_TRIPLET segment() const noexcept { return segment(0, bytes_.size()); }
  /// A piece as the peer must specify it.
  [[nodiscard]] DAT_RMR_TRIPLET remote(std::size_t offset, std::size_t size) const noexcept {
    DAT_RMR_TRIPLET triplet{};
    triplet.virtual_address = reinterpret_cast<std::uintptr_t>(bytes_.data()) + offset;
    triplet.segment_length = static_cast<DAT_SEG_LENGTH>(size);
    triplet.rmr_context = remote_;
    return triplet;
  }

 private:
  std::span<std::byte> bytes_;
  DAT_LMR_CONTEXT local_ = 0;
  DAT_RMR_CONTEXT remote_ = 0;
};

// ---- connections -------------------------------------------------------------------------------

using Segments = std::span<const DAT_LMR_TRIPLET>;

[[nodiscard]] inline DAT_DTO_COOKIE cookie(std::uint64_t number) noexcept {
  DAT_DTO_COOKIE cookie;
  cookie.as_64 = number;
  return cookie;
}
[[nodiscard]] inline DAT_DTO_COOKIE cookie(void* pointer) noexcept {
  DAT_DTO_COOKIE cookie{};
  cookie.as_ptr = pointer;
  return cookie;
}

/// An EP: one end of a connection. Destroying one breaks its connection, and messages that are
/// still in its queue of receives may be lost: first call disconnect(), wait for Ended, and empty
/// the queues.
class Endpoint : public Object {
 public:
  Endpoint(const Adapter& adapter, const Zone& zone, const Queue& receives, const Queue& requests,
           const Queue& connections, const DAT_EP_ATTR* attributes = nullptr) {
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    check(dat_ep_create(adapter.handle(), zone.handle(), receives.handle(), requests.handle(),
                        connections.handle(), const_cast<DAT_EP_ATTR*>(attributes), &ep),
          "dat_ep_create");
    own(ep, &dat_ep_free,
        {node_of(adapter), node_of(zone), node_of(receives), node_of(requests),
         node_of(connections)});
  }

  /// Takes ownership of an EP that was created with a C call, but not of its EVDs and PZ.
  [[nodiscard]] static Endpoint adopt(DAT_EP_HANDLE ep) { return Endpoint(ep); }

  /// Requests a connection; Established or Ended reports the outcome.
  void connect(const sockaddr* address, DAT_CONN_QUAL port, Duration limit = kForever,
               std::span<const std::byte> private_data = {}) const {
    check(dat_ep_connect(handle(), const_cast<sockaddr*>(address), port, timeout(limit),
                         static_cast<DAT_COUNT>(private_data.size()),
                         const_cast<std::byte*>(private_data.data()), DAT_QOS_BEST_EFFORT,
                         DAT_CONNECT_DEFAULT_FLAG),
          "dat_ep_connect");
  }
  /// The same with the name or address of a host.
  void connect(const std::string& host, DAT_CONN_QUAL port, Duration limit = kForever,
               std::span<const std::byte> private_data = {}) const {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
      throw std::runtime_error(host + ": " + ::gai_strerror(error));
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
    connect(found->ai_addr, port, limit, private_data);
  }
  /// Posted requests complete first, unless `how` is abrupt; Ended reports the end.
  void disconnect(DAT_CLOSE_FLAGS how = DAT_CLOSE_GRACEFUL_FLAG) const {
    check(dat_ep_disconnect(handle(), how), "dat_ep_disconnect");
  }
  [[nodiscard]] DAT_EP_STATE state() const {
    DAT_EP_STATE state{};
    DAT_BOOLEAN receive_idle{};
    DAT_BOOLEAN request_idle{};
    check(dat_ep_get_status(handle(), &state, &receive_idle, &request_idle), "dat_ep_get_status");
    return state;
  }

  void post_send(Segments local, DAT_DTO_COOKIE cookie = {},
                 DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const {
    check(dat_ep_post_send(handle(), count(local), data(local), cookie, flags), "dat_ep_post_send");
  }
  void post_recv(Segments local, DAT_DTO_COOKIE cookie = {},
                 DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const {
    check(dat_ep_post_recv(handle(), count(local), data(local), cookie, flags), "dat_ep_post_recv");
  }
  void post_write(Segments local, const DAT_RMR_TRIPLET& remote, DAT_DTO_COOKIE cookie = {},
                  DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const {
    check(dat_ep_post_rdma_write(handle(), count(local), data(local), cookie, &remote, flags),
          "dat_ep_post_rdma_write");
  }
  void post_read(Segments local, const DAT_RMR_TRIPLET& remote, DAT_DTO_COOKIE cookie = {},
                 DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const {
    check(dat_ep_post_rdma_read(handle(), count(local), data(local), cookie, &remote, flags),
          "dat_ep_post_rdma_read");
  }
  /// With one segment.
  void post_send(const DAT_LMR_TRIPLET& local, DAT_DTO_COOKIE cookie = {},
                 DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const {
    post_send(Segments(&local, 1), cookie, flags);
  }
  void post_recv(const DAT_LMR_TRIPLET& local, DAT_DTO_COOKIE cookie = {},
                 DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const {
    post_recv(Segments(&local, 1), cookie, flags);
  }

 private:
  explicit Endpoint(DAT_EP_HANDLE ep) { own(ep, &dat_ep_free, {}); }
  static DAT_COUNT count(Segments local) noexcept { return static_cast<DAT_COUNT>(local.size()); }
  static DAT_LMR_TRIPLET* data(Segments local) noexcept {
    return const_cast<DAT_LMR_TRIPLET*>(local.data());  // only read
  }
};

/// A PSP: delivers the requests for a port to a queue, as Arrival.
class Listener : public Object {
 public:
  Listener(const Adapter& adapter, DAT_CONN_QUAL port, const Queue& requests) {
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    check(dat_psp_create(adapter.handle(), port, requests.handle(), DAT_PSP_CONSUMER_FLAG, &psp),
          "dat_psp_create");
    own(psp, &dat_psp_free, {node_of(adapter), node_of(requests)});
  }
};

/// A peer's request for a connection; rejected unless it is accepted.
class Request {
 public:
  explicit Request(const Arrival& arrival) : cr_(arrival.request) {}
  Request(Request&& other) noexcept : cr_(std::exchange(other.cr_, DAT_HANDLE_NULL)) {}
  Request& operator=(Request&&) = delete;
  ~Request() {
    if (cr_ != DAT_HANDLE_NULL) dat_cr_reject(cr_, 0, nullptr);
  }

  /// The peer, and its private data; valid until the request is accepted or rejected.
  [[nodiscard]] DAT_CR_PARAM parameters() const {
    DAT_CR_PARAM parameters{};
    check(dat_cr_query(cr_, DAT_CR_FIELD_ALL, &parameters), "dat_cr_query");
    return parameters;
  }
  /// Established or Ended reports the outcome.
  void accept(const Endpoint& endpoint, std::span<const std::byte> private_data = {}) {
    check(dat_cr_accept(cr_, endpoint.handle(), static_cast<DAT_COUNT>(private_data.size()),
                        const_cast<std::byte*>(private_data.data())),
          "dat_cr_accept");
    cr_ = DAT_HANDLE_NULL;
  }
  void reject(std::span<const std::byte> private_data = {}) {
    check(dat_cr_reject(std::exchange(cr_, DAT_HANDLE_NULL),
                        static_cast<DAT_COUNT>(private_data.size()),
                        const_cast<std::byte*>(private_data.data())),
          "dat_cr_reject");
  }

 private:
  DAT_CR_HANDLE cr_;
};

// ---- event loop --------------------------------------------------------------------------------

/// An event loop over queues with one handler each, for one thread. Runs by itself with run(), or
/// inside another loop, which polls fd() and calls dispatch() when it is readable.
class Loop {
 public:
  using Handler = std::function<void(const Event&)>;

 private:
  struct Entry {
    Entry(Queue of, Handler to) : queue(std::move(of)), handler(std::move(to)) {}
    Queue queue;
    Handler handler;
    bool removed = false;
  };

 public:
  explicit Loop(const Adapter& adapter) : notifier_(adapter) {}
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  [[nodiscard]] int fd() const noexcept { return notifier_.fd(); }

  /// Keeps a queue in the loop as long as this object exists. The loop must outlive it.
  class Watch {
   public:
    Watch(Watch&& other) noexcept
        : loop_(std::exchange(other.loop_, nullptr)), entry_(std::move(other.entry_)) {}
    Watch& operator=(Watch&&) = delete;
    ~Watch() {
      if (loop_ != nullptr) loop_->remove(entry_);
    }
    [[nodiscard]] const Queue& queue() const noexcept { return entry_->queue; }

   private:
    friend class Loop;
    Watch(Loop* loop, std::shared_ptr<Entry> entry) : loop_(loop), entry_(std::move(entry)) {}
    Loop* loop_;
    std::shared_ptr<Entry> entry_;
  };

  /// Creates a queue whose events go to `handler`. Handlers may add watches and destroy any watch,
  /// their own included; an exception of a handler propagates out of dispatch().
  [[nodiscard]] Watch watch(const Adapter& adapter, DAT_EVD_FLAGS flags, DAT_COUNT length,
                            Handler handler) {
    auto entry =
        std::make_shared<Entry>(Queue(adapter, notifier_, flags, length), std::move(handler));
    entries_.push_back(entry);
    return Watch(this, std::move(entry));
  }

  /// Handles all queued events, without waiting, and returns their number.
  std::size_t dispatch() {
    notifier_.acknowledge();
    std::size_t handled = 0;
    for (bool more = true; more;) {
      more = false;
      const std::vector<std::shared_ptr<Entry>> now = entries_;  // handlers change it
      for (const std::shared_ptr<Entry>& entry : now) {
        DAT_EVENT event;
        // A few of each in turn, so that one queue does not keep the others waiting.
        for (int turn = 0; turn < 16 && !entry->removed && entry->queue.poll(event); ++turn) {
          entry->handler(event_of(event));
          ++handled;
          more = true;
        }
      }
    }
    return handled;
  }
  /// Waits for events, at most for `limit`, and handles them. Returns their number.
  std::size_t run_once(Duration limit = kForever) {
    using std::chrono::milliseconds;
    pollfd ready{notifier_.fd(), POLLIN, 0};
    const auto most = milliseconds(std::numeric_limits<int>::max());
    const int wait =
        limit == kForever
            ? -1
            : static_cast<int>(std::min(std::chrono::ceil<milliseconds>(limit), most).count());
    if (::poll(&ready, 1, wait) < 0 && errno != EINTR) throw std::runtime_error("poll");
    return dispatch();
  }
  /// Runs until stop() is called.
  void run() {
    for (stopped_ = false; !stopped_;) run_once();
  }
  /// Call it from a handler.
  void stop() noexcept { stopped_ = true; }

 private:
  void remove(const std::shared_ptr<Entry>& entry) noexcept {
    entry->removed = true;
    std::erase(entries_, entry);
  }

  Notifier notifier_;
  std::vector<std::shared_ptr<Entry>> entries_;
  bool stopped_ = false;
};

}  // namespace dat
