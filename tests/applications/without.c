/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Runs a program for which the kernel refuses some calls, as the seccomp profile of a container may
 * do.
 *
 * usage: without EPERM|ENOSYS memfd|copies PROGRAM [ARGUMENT]...
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 4) return 125;
  const unsigned error = strcmp(argv[1], "EPERM") == 0 ? EPERM : ENOSYS;
  const int memory = strcmp(argv[2], "memfd") == 0;
  const unsigned one = memory ? SYS_memfd_create : SYS_process_vm_readv;
  const unsigned other = memory ? SYS_memfd_create : SYS_process_vm_writev;
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
  };
  const struct sock_fprog program = {sizeof code / sizeof code[0], code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("without: seccomp");
    return 126;
  }
  execvp(argv[3], argv + 3);
  perror(argv[3]);
  return 127;
}
