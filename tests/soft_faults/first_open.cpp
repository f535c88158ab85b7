// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The first dat_ia_open of a process makes what all later ones use. Each of its allocations fails
// once, in a process of its own. So does each of the first wait of a thread.
#define BOOST_TEST_MODULE soft_first_open
#include <dat/udat.h>

#include <boost/test/unit_test.hpp>

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "mock_control.h"
#include "tests/child/in_child.h"

namespace {

using udapl::test::in_child;
using udapl::test::status_in_child;

constexpr unsigned kMaxCalls = 5000;
#ifdef UDAPL_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

enum Outcome : int {
  kOpened,   // although a call failed, perhaps
  kRefused,  // and opened by the next attempt
  kWrongCode,
  kRefusedAgain,
  kNotClosed,
  kNothingFailed
};

DAT_RETURN open(DAT_IA_HANDLE& ia) {
  std::string name = "mock";
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  return dat_ia_open(name.data(), 8, &async_evd, &ia);
}

// A provider cannot tell the registry why it does not register an IA.
bool is_documented(DAT_RETURN code) {
  return code == DAT_SUCCESS || DAT_GET_TYPE(code) == DAT_INSUFFICIENT_RESOURCES ||
         code == (DAT_CLASS_ERROR | DAT_PROVIDER_NOT_FOUND | DAT_NAME_NOT_REGISTERED);
}

Outcome open_first(unsigned n) {
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  verbs_mock_fail_at(n);
  const DAT_RETURN first = open(ia);
  const bool failed = verbs_mock_failed_call() != nullptr;
  verbs_mock_fail_at(0);
  if (!is_documented(first)) return kWrongCode;
  if (first != DAT_SUCCESS && open(ia) != DAT_SUCCESS) return kRefusedAgain;
  if (dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG) != DAT_SUCCESS) return kNotClosed;
  if (!failed) return kNothingFailed;
  return first == DAT_SUCCESS ? kOpened : kRefused;
}

void* open_and_close(void*) {
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  static int opened;
  opened = open(ia) == DAT_SUCCESS && dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS;
  return opened != 0 ? &opened : nullptr;
}

// Returns 0 if a thread with a stack of that size can open an IA.
int open_on_stack(std::size_t bytes) {
  pthread_attr_t attributes;
  pthread_t thread{};
  void* opened = nullptr;
  if (::pthread_attr_init(&attributes) != 0 ||
      ::pthread_attr_setstacksize(&attributes, bytes) != 0 ||
      ::pthread_create(&thread, &attributes, &open_and_close, nullptr) != 0 ||
      ::pthread_join(thread, &opened) != 0)
    return 1;
  return opened != nullptr ? 0 : 2;
}

struct FirstWait {
  DAT_EVD_HANDLE evd;
  unsigned fails_at;
  bool failed = false;
  DAT_RETURN code = DAT_SUCCESS;
};

void* wait_in_thread(void* argument) {
  auto& wait = *static_cast<FirstWait*>(argument);
  DAT_EVENT event{};
  DAT_COUNT more = 0;
  verbs_mock_fail_at(wait.fails_at);
  wait.code = dat_evd_wait(wait.evd, 1000, 1, &event, &more);
  wait.failed = verbs_mock_failed_call() != nullptr;
  verbs_mock_fail_at(0);
  return nullptr;
}

// Each call of the first wait of a thread fails once, in a thread of its own.
int wait_in_threads() {
  std::string name = "mock";
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  if (dat_ia_open(name.data(), 8, &async_evd, &ia) != DAT_SUCCESS) return 1;
  for (unsigned n = 1; n < kMaxCalls; ++n) {
    FirstWait wait{async_evd, n};
    pthread_t thread{};
    if (::pthread_create(&thread, nullptr, &wait_in_thread, &wait) != 0 ||
        ::pthread_join(thread, nullptr) != 0)
      return 2;
    if (DAT_GET_TYPE(wait.code) != DAT_TIMEOUT_EXPIRED) return 3;
    if (!wait.failed) return dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS ? 0 : 4;
  }
  return 5;
}

// calls.cpp, without which only allocations would fail.
BOOST_AUTO_TEST_CASE(calls_of_the_libraries_are_replaced) {
  if (kSanitized) return;
  Dl_info program{};
  BOOST_REQUIRE(::dladdr(reinterpret_cast<const void*>(&open_first), &program) != 0);
  for (const char* const call : {"socket", "accept4", "epoll_create1", "epoll_ctl", "eventfd",
                                 "memfd_create", "mmap", "pthread_create", "calloc"}) {
    Dl_info info{};
    BOOST_REQUIRE(::dladdr(::dlsym(RTLD_DEFAULT, call), &info) != 0);
    BOOST_TEST(info.dli_fbase == program.dli_fbase, call << " is that of " << info.dli_fname);
  }
}

BOOST_AUTO_TEST_CASE(the_first_open_survives_every_failure) {
  unsigned refused = 0;
  for (unsigned n = 1; n < kMaxCalls; ++n) {
    int outcome = kNotClosed;
    BOOST_TEST_CONTEXT("call " << n)
    outcome = status_in_child([n] { return open_first(n); });
    if (outcome == kNothingFailed) {
      BOOST_TEST(refused > 0U);
      return;
    }
    BOOST_TEST((outcome == kOpened || outcome == kRefused), "call " << n << ": " << outcome);
    if (outcome == kRefused) ++refused;
  }
  BOOST_FAIL("it never succeeds");
}

BOOST_AUTO_TEST_CASE(the_first_wait_of_a_thread_survives_every_failure) {
  in_child(&wait_in_threads);
}

BOOST_AUTO_TEST_CASE(first_open_without_writable_files_succeeds) {
  in_child([] {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_FSIZE, &none) != 0) return 1;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    if (open(ia) != DAT_SUCCESS) return 2;
    return dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS ? 0 : 3;
  });
}

// getifaddrs of the C library alone takes 8 KiB, and its thread takes some for itself.
BOOST_AUTO_TEST_CASE(the_first_open_needs_a_small_stack) {
  if (kSanitized) return;  // code with checks needs more
  const auto least = static_cast<std::size_t>(PTHREAD_STACK_MIN);
  const std::size_t bytes = std::max<std::size_t>(least, 24 * 1024);
  in_child([bytes] { return open_on_stack(bytes); });
}

}  // namespace
