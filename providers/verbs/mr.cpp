// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/mr.h"

#include <dat/dat_ib_extensions.h>

#include "common/errno_text.h"
#include "common/not_cancelled.h"
#include "common/tracing/cause.h"
#include "common/tracing/trace.h"
#include "providers/verbs/adapter.h"
#include "providers/verbs/attributes.h"
#include "providers/verbs/queue.h"
#include "providers/verbs/status.h"
#include "providers/verbs/trace_points.h"

#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace udapl::verbs {

namespace {

// How long to wait for an unbind that was posted just before the LMR was freed.
constexpr auto kUnbindTime = std::chrono::milliseconds(200);

// Returns whether RC supports this access to memory that the device pages in on demand.
bool can_page(const ibv_device_attr_ex& attr, int access) noexcept {
  if ((attr.odp_caps.general_caps & IBV_ODP_SUPPORT) == 0) return false;
  std::uint32_t needed =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0) needed |= IBV_ODP_SUPPORT_ATOMIC;
  return (attr.odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
}

ibv_mr* reg(ibv_pd* pd, const transport::MrInit& init, int access) noexcept {
  errno = 0;
  return point::made(
      "ibv_reg_mr",
      ibv_reg_mr(pd, reinterpret_cast<void*>(static_cast<std::uintptr_t>(init.address)),
                 init.length, static_cast<unsigned>(access)));
}

// "; this process may lock 64 KiB of memory", or empty if the limit is not the cause.
std::string lock_limit(int error) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  // A process that may not lock any memory gets EPERM.
  if (error != ENOMEM && (error != EPERM || limit.rlim_cur != 0)) return {};
  return "; this process may lock " + std::to_string(limit.rlim_cur / 1024) +
         " KiB of memory (ulimit -l)";
}

Status refused(const transport::MrInit& init, int access, int error) {
  const Status status = error == EFAULT || error == EACCES ? failure(DAT_PRIVILEGES_VIOLATION)
                        : error == EINVAL
                            ? failure(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3)
                            : failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);
  const std::string limit = lock_limit(error);
  const auto bytes = static_cast<unsigned long long>(init.length);
  UDAPL_TRACE_ERROR(kNormal, status.code(), "ibv_reg_mr of %llu bytes with access 0x%x: %s%s",
                    bytes, access, ErrnoText(error).c_str(), limit.c_str());
  cause::note(
      status.code(), "ibv_reg_mr of %llu bytes with access 0x%x: %s%s%s", bytes, access,
      ErrnoText(error).c_str(), limit.c_str(),
      limit.empty() ? cause::remedy(error) : "\ntry: ulimit -l unlimited (memlock in limits.conf)");
  return status;
}

}  // namespace

int access_flags(DAT_MEM_PRIV_FLAGS privileges, bool windows) noexcept {
  const auto wanted = static_cast<unsigned>(privileges);
  int access = 0;
  if ((wanted & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) != 0) access |= IBV_ACCESS_LOCAL_WRITE;
  if ((wanted & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0) access |= IBV_ACCESS_REMOTE_READ;
  if ((wanted & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0)
    access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
  if ((wanted & DAT_IB_MEM_PRIV_REMOTE_ATOMIC) != 0)
    access |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
  if (windows) access |= IBV_ACCESS_MW_BIND;
  return access;
}

// ---- Pd ----------------------------------------------------------------------------------------

Result<std::unique_ptr<transport::Pd>> Pd::create(Adapter& adapter) {
  ibv_pd* const pd = point::made("ibv_alloc_pd", ibv_alloc_pd(adapter.context()));
  if (pd == nullptr) {
    const int error = errno;
    UDAPL_EXPLAIN_ERRNO(kNormal,
                        dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_PROTECTION_DOMAIN),
                        error, "ibv_alloc_pd");
    return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_PROTECTION_DOMAIN);
  }
  return std::unique_ptr<transport::Pd>(std::make_unique<Pd>(adapter, pd));
}

Pd::~Pd() {
  if (const int error = ibv_dealloc_pd(pd_); error != 0)
    UDAPL_TRACE(kError, "ibv_dealloc_pd: %s", ErrnoText(error).c_str());
}

// ---- Mr ----------------------------------------------------------------------------------------

Result<std::unique_ptr<transport::Mr>> Mr::create(Adapter& adapter, Pd& pd,
                                                  const transport::MrInit& init) {
  const Device& device = adapter.device();
  const int plain = access_flags(init.privileges, false);
  const int access = plain | (verbs::has_windows(device) ? IBV_ACCESS_MW_BIND : 0);
  ibv_mr* mr = reg(pd.get(), init, access);
  // The kernel requires memory to which windows may be bound to be writable. A window on read-only
  // memory grants no more than the registration, so read-only memory is registered without windows.
  if (mr == nullptr && access != plain) mr = reg(pd.get(), init, plain);
  // More memory than may be locked (RLIMIT_MEMLOCK), or than can be pinned.
  if (mr == nullptr && errno == ENOMEM && can_page(device.attr, plain))
    mr = reg(pd.get(), init, plain | IBV_ACCESS_ON_DEMAND);
  if (mr == nullptr) {
    const int error = errno;
    return refused(init, access, error);
  }
  auto made = std::make_unique<Mr>(adapter, mr, init);
  adapter.memory().add(*made);
  return std::unique_ptr<transport::Mr>(std::move(made));
}

Mr::Mr(Adapter& adapter, ibv_mr* mr, const transport::MrInit& init) noexcept
    : adapter_(adapter), mr_(mr), init_(init) {}

Mr::~Mr() {
  adapter_.memory().remove(*this);
  const int error = point::ended("ibv_dereg_mr", "", ibv_dereg_mr(mr_));
  if (error != 0) [[unlikely]]
    deregister_later(error);
}

// The device refuses to remove a registration while a stale window is bound to it, or while an
// unbind is outstanding. The peer must not reach the memory any more: so windows whose unbind takes
// too long are renewed, although that breaks the connection when the unbind is executed.
void Mr::deregister_later(int error) noexcept {
  const NotCancelled scope;
  MemoryTable& memory = adapter_.memory();
  const auto hopeful = [&] { return error != 0 && error != EIO && !adapter_.dead(); };
  const auto deadline = Clock::now() + kUnbindTime;
  const DAT_LMR_CONTEXT lkey = mr_->lkey;
  memory.renew_stale_windows();
  error = ibv_dereg_mr(mr_);
  while (hopeful() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    memory.renew_stale_windows();
    error = ibv_dereg_mr(mr_);
  }
  if (hopeful()) {
    memory.renew_windows_formerly_of(lkey);
    error = ibv_dereg_mr(mr_);
  }
  if (error != 0) UDAPL_TRACE(kError, "ibv_dereg_mr: %s", ErrnoText(error).c_str());
}

DAT_RMR_CONTEXT Mr::rmr_context() const noexcept { return mr_->rkey; }

// ---- Window ------------------------------------------------------------------------------------

Result<std::unique_ptr<transport::Window>> Window::create(Adapter& adapter, Pd& pd,
                                                          transport::WindowScope scope) {
  const Device& device = adapter.device();
  const bool type2 = !device.has(IBV_DEVICE_MEM_WINDOW) ||
                     (scope == transport::WindowScope::kQp && has_type2_windows(device));
  errno = 0;
  ibv_mw* const mw =
      point::made("ibv_alloc_mw", ibv_alloc_mw(pd.get(), type2 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1));
  if (mw == nullptr) {
    const int error = errno == 0 ? ENOMEM : errno;
    const Status status = status_of(error, DAT_RESOURCE_MEMORY_REGION);
    UDAPL_EXPLAIN_ERRNO(kNormal, status.code(), error, "ibv_alloc_mw of type %d", type2 ? 2 : 1);
    return status;
  }
  auto window = std::make_unique<Window>(adapter, mw);
  adapter.memory().add(*window, mw->rkey);
  return std::unique_ptr<transport::Window>(std::move(window));
}

Window::Window(Adapter& adapter, ibv_mw* mw) noexcept
    : adapter_(adapter), pd_(mw->pd), type_(mw->type), mw_(mw) {}

Window::~Window() {
  adapter_.memory().remove(*this);
  const ScopedLock lock(lock_);
  const int error = mw_ == nullptr ? 0 : ibv_dealloc_mw(mw_);  // unbinds it
  if (error != 0) UDAPL_TRACE(kError, "ibv_dealloc_mw: %s", ErrnoText(error).c_str());
  release();
}

DAT_RMR_CONTEXT Window::rmr_context() const noexcept {
  const ScopedLock lock(lock_);
  return context_;
}

std::optional<transport::Binding> Window::binding() const noexcept {
  const ScopedLock lock(lock_);
  return binding_;
}

void Window::release() noexcept {
  if (mr_ != nullptr) mr_->windows_.fetch_sub(1, std::memory_order_release);
  mr_ = nullptr;
  binding_.reset();
}

// Only when the old ibv_mw is destroyed can no peer reach memory through it. From then on the
// device may give its key to another window.
void Window::renew() noexcept {
  MemoryTable& table = adapter_.memory();
  if (mw_ != nullptr) {
    const std::uint32_t rkey = mw_->rkey;
    table.key_ends(*this);
    if (const int error = ibv_dealloc_mw(mw_); error != 0) {
      UDAPL_TRACE(kError, "ibv_dealloc_mw: %s", ErrnoText(error).c_str());
      return table.key_begins(*this, rkey);
    }
  }
  release();
  former_ = 0;
  queue_ = nullptr;
  qp_ = nullptr;
  doubtful_ = false;
  mw_ = ibv_alloc_mw(pd_, type_);
  stale_ = mw_ == nullptr;
  if (!stale_) return table.key_begins(*this, mw_->rkey);
  UDAPL_TRACE(kError, "ibv_alloc_mw: %s", ErrnoText(errno).c_str());
}

// If the consumer has dequeued all completions of the former queue, every failure is known, and the
// system call is not needed: as in programs that unbind before they bind elsewhere.
bool Window::may_be_flushed() const noexcept {
  if (queue_->requests_held() == 0) return false;
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  return ibv_query_qp(qp_, &attr, IBV_QP_STATE, &init) != 0 || attr.qp_state != IBV_QPS_RTS;
}

bool Window::prepare(const Queue& queue) noexcept {
  const bool elsewhere = type2() && bound() && queue_ != &queue;
  const bool moves = queue_ != nullptr && queue_ != &queue;
  if (moves && !stale_ && !doubtful_ && !elsewhere) doubtful_ = may_be_flushed();
  if (!stale_ && !doubtful_ && !elsewhere) [[likely]]
    return true;
  renew();
  return !stale_ && !doubtful_ && !bound();
}

void Window::posted(const transport::BindRequest& request, std::uint32_t key, const Queue& queue,
                    std::uint64_t number) noexcept {
  if (mr_ != nullptr) former_ = mr_->lmr_context();
  release();
  queue_ = &queue;
  qp_ = queue.qp();
  last_post_ = number;
  if (queue.in_error()) doubtful_ = true;
  context_ = key;
  if (key == 0) return;
  if (type2()) mw_->rkey = key;  // ibv_bind_mw does so for type 1, ibv_post_send does not
  mr_ = static_cast<Mr*>(request.mr);
  mr_->windows_.fetch_add(1, std::memory_order_relaxed);
  binding_ = transport::Binding{request.range, request.privileges, request.va_type};
}

void Window::bind_failed(std::uint64_t number) noexcept {
  const ScopedLock lock(lock_);
  if (last_post_ != number) return;
  release();
  stale_ = true;
}

void Window::invalidated(std::uint32_t key) noexcept {
  const ScopedLock lock(lock_);
  if (context_ == key) release();
}

void Window::qp_fails(const Queue& queue) noexcept {
  const ScopedLock lock(lock_);
  if (queue_ == &queue) doubtful_ = true;
}

// An unbind, or an invalidation before a bind, may have been flushed. The device then still has the
// binding.
void Window::qp_ends(const Queue& queue) noexcept {
  const ScopedLock lock(lock_);
  if (type2() && mw_ != nullptr && (stale_ || queue_ == &queue)) renew();
  if (queue_ != &queue) return;
  queue_ = nullptr;
  qp_ = nullptr;
}

void Window::renew_if_stale() noexcept {
  const ScopedLock lock(lock_);
  if (stale_ && mw_ != nullptr) renew();
}

void Window::renew_if_formerly(DAT_LMR_CONTEXT lkey) noexcept {
  const ScopedLock lock(lock_);
  if (former_ == lkey && mw_ != nullptr) renew();
}

}  // namespace udapl::verbs
