// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/annotations.h"
#include "common/fork.h"
#include "common/mutex.h"
#include "common/worker.h"
#include "dapl/objects/object.h"
#include "dapl/objects/require.h"
#include "dapl/objects/visits.h"
#include "dapl/transport/adapter.h"

#include <atomic>
#include <memory>
#include <tuple>
#include <utility>

namespace udapl::dapl {

class Cno;
class Cr;
class Csp;
class Ep;
class Evd;
class Lmr;
class OpenIa;
class Psp;
class Pz;
class Rmr;
class Rsp;
class Srq;

// One open of an interface adapter: owns every object that is created from it. Thread-safe. Its
// lock protects only the lists of objects, and is acquired before the locks of objects. Always the
// base of an OpenIa, which opens and closes it.
class Ia : public ObjectHeader {
 public:
  static constexpr DAT_HANDLE_TYPE kType = DAT_HANDLE_TYPE_IA;

  Ia(const Ia&) = delete;
  Ia& operator=(const Ia&) = delete;

  // The name under which it was opened.
  [[nodiscard]] const char* name() const noexcept { return provider->device_name; }
  // forks::generation() of the process that opened it.
  [[nodiscard]] unsigned generation() const noexcept { return generation_; }
  [[nodiscard]] transport::Adapter& adapter() const noexcept { return *adapter_; }
  [[nodiscard]] const transport::Attributes& attributes() const noexcept {
    return adapter_->attributes();
  }
  // The consumer's handle. REQUIRES: no lock held (it queries the registry).
  [[nodiscard]] DAT_IA_HANDLE handle() const noexcept;

  // ---- objects ---------------------------------------------------------------------------------

  // Whether the IA already has `limit` objects of type T, so that the transport need not be called
  // for one more. Read without the lock: another thread may create one at the same time.
  template <class T>
  [[nodiscard]] bool full(int limit) const noexcept UDAPL_NO_THREAD_SAFETY_ANALYSIS {
    return std::get<ObjectList<T>>(lists_).size() >=
           static_cast<std::size_t>(limit < 0 ? 0 : limit);
  }
  // Takes ownership and makes the object visible to all threads.
  template <class T>
  T& adopt(Owned<T>&& object) noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    return list<T>().insert(std::move(object));
  }
  // Removes an adopted object from its list; the caller then destroys it without the lock.
  template <class T>
  [[nodiscard]] Owned<T> release(T& object) noexcept UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    return list<T>().remove(object);
  }
  // Removes and destroys an adopted object.
  template <class T>
  void destroy(T& object) noexcept UDAPL_EXCLUDES(lock_) {
    release(object).reset();
  }
  // Calls f(T&) for each object of type T; f may acquire only locks of objects.
  template <class T, class F>
  void for_each(F&& f) UDAPL_EXCLUDES(lock_) {
    const ScopedLock lock(lock_);
    for (T* object = list<T>().front(); object != nullptr; object = ObjectList<T>::next(*object))
      f(*object);
  }

  // ---- visitors --------------------------------------------------------------------------------

  [[nodiscard]] Visits& visits() noexcept { return visits_; }
  // Whether dat_ia_close waits for the visitors, or has done so.
  [[nodiscard]] bool closing() const noexcept { return closing_.load(std::memory_order_seq_cst); }
  // The thread that calls the proxy agents, one after the other.
  [[nodiscard]] Worker& agents() noexcept { return agents_; }

 private:
  friend class OpenIa;

  // Throws std::bad_alloc.
  explicit Ia(const DAT_PROVIDER* table) : ObjectHeader(table, kType, this) {}
  ~Ia() = default;  // REQUIRES: the lists are empty

  template <class T>
  ObjectList<T>& list() noexcept UDAPL_REQUIRES(lock_) {
    return std::get<ObjectList<T>>(lists_);
  }
  const unsigned generation_ = forks::generation();
  Visits visits_;
  std::atomic<bool> closing_{false};
  Worker agents_{"udapl-agent"};
  std::unique_ptr<transport::Adapter> adapter_;

  Mutex lock_;
  std::tuple<ObjectList<Cno>, ObjectList<Evd>, ObjectList<Pz>, ObjectList<Lmr>, ObjectList<Rmr>,
             ObjectList<Srq>, ObjectList<Ep>, ObjectList<Cr>, ObjectList<Psp>, ObjectList<Rsp>,
             ObjectList<Csp>>
      lists_ UDAPL_GUARDED_BY(lock_);
};

// A call with an IA handle is a visitor of the IA, so that dat_ia_close waits until it returns.
template <>
class Required<Ia> {
 public:
  explicit Required(DAT_HANDLE handle) noexcept : ia_(handle_cast<Ia>(handle)) {
    if (ia_ != nullptr) {
      ia_->visits().enter();
      if (!ia_->closing()) [[likely]]
        return;
      ia_->visits().leave();
      ia_ = nullptr;
    }
    refusal_ = handles::refuse_handle(handles::kind_of(Ia::kType), handle);
  }
  ~Required() {
    if (ia_ != nullptr) ia_->visits().leave();
  }
  Required(const Required&) = delete;
  Required& operator=(const Required&) = delete;

  operator Ia*() const noexcept { return ia_; }
  [[nodiscard]] Ia* operator->() const noexcept { return ia_; }
  [[nodiscard]] Status refusal() const noexcept { return refusal_; }

 private:
  Ia* ia_;
  Status refusal_;
};

template <>
[[nodiscard]] inline Required<Ia> require<Ia>(DAT_HANDLE handle) noexcept {
  return Required<Ia>(handle);
}

}  // namespace udapl::dapl
