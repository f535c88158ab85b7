// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "common/thread_end.h"

#include <array>
#include <cstddef>

#include <pthread.h>

namespace udapl {

namespace {

constinit thread_local std::array<void (*)() noexcept, kThreadEnds> functions{};
constinit thread_local bool registered = false;

void run_all(void*) noexcept {
  registered = false;  // a destructor of the program's may make another call
  for (auto* const run : functions)
    if (run != nullptr) run();
}

// A key, because the C library ends the process if it has no memory to register the destructor of
// a thread_local object. It needs none for the first 32 keys of a process. The key is never
// deleted: the libraries are linked with -z nodelete, so run_all() stays loaded.
class Key {
 public:
  Key() noexcept : valid_(::pthread_key_create(&key_, &run_all) == 0) {}
  // Returns whether run_all() will be called when this thread ends.
  [[nodiscard]] bool set() const noexcept {
    return valid_ && ::pthread_setspecific(key_, &functions) == 0;
  }

 private:
  pthread_key_t key_{};
  bool valid_;
};

const Key key;  // made when the library is loaded: a signal handler may make the first call

}  // namespace

void at_thread_end(ThreadEnd when, void (*run)() noexcept) noexcept {
  functions[static_cast<std::size_t>(when)] = run;
  if (!registered) [[unlikely]]
    registered = key.set();
}

void run_now(ThreadEnd when) noexcept {
  if (auto* const run = functions[static_cast<std::size_t>(when)]; run != nullptr) run();
}

}  // namespace udapl
