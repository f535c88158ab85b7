// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The named attributes of an EP, in a process that may not use process_vm_readv.
#include "tests/unit/dapl_ep/support.h"

#include <dat/dat_trclvl.h>

#include "common/fault_safe_copy.h"
#include "tests/child/in_child.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace udapl::test {
namespace {

bool forbid() {
  std::array program{sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                     sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1,
                                 static_cast<std::uint32_t>(SYS_process_vm_readv)},
                     sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
                     sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog filter{program.size(), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

bool reads(const void* from) {
  char to[16];
  return copy_fault_safe(to, from, sizeof to);
}

BOOST_AUTO_TEST_SUITE(named_attributes)

BOOST_AUTO_TEST_CASE(texts_of_any_address) {
  char to[8];
  const char text[] = "1234567";
  BOOST_CHECK(copy_text_fault_safe(to, text, sizeof to));
  BOOST_CHECK_EQUAL(std::string(to), text);
  BOOST_CHECK(!copy_text_fault_safe(to, "12345678", sizeof to));  // too long
  for (const std::uintptr_t address :
       {std::uintptr_t{0}, std::uintptr_t{1}, ~std::uintptr_t{0}, ~std::uintptr_t{0} / 2 - 5,
        static_cast<std::uintptr_t>(0x5a5a5a5a5a5a5a5a)})
    BOOST_CHECK(!copy_text_fault_safe(to, reinterpret_cast<const char*>(address), sizeof to));
}

BOOST_AUTO_TEST_CASE(without_process_vm_readv) {
  BOOST_CHECK_EQUAL(status_in_child([] {
                      if (!forbid()) return 1;
                      const char text[16] = "abc";
                      char to[16] = {};
                      if (!copy_text_fault_safe(to, text, sizeof to)) return 2;
                      if (std::strcmp(to, text) != 0) return 3;
                      for (const std::uintptr_t address :
                           {std::uintptr_t{0}, std::uintptr_t{16}, ~std::uintptr_t{0}})
                        if (reads(reinterpret_cast<const void*>(address))) return 4;
                      return 0;
                    }),
                    0);
}

// Ignoring the attributes is better than a crash.
BOOST_AUTO_TEST_CASE(without_process_vm_readv_and_descriptors) {
  BOOST_CHECK_EQUAL(status_in_child([] {
                      if (!forbid()) return 1;
                      const rlimit none{0, 0};
                      if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 2;
                      const char text[16] = "abc";
                      return reads(text) ? 3 : 0;
                    }),
                    0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::test
