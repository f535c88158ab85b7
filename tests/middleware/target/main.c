/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * mw_target - an iSER target and its initiators. All sessions draw from one SRQ, which the target
 * fills only when the event of its low watermark tells it to. Each command opens a window of scope
 * EP, which the target's answer invalidates. The first bytes that an initiator writes come in the
 * command, the rest is read by RDMA. The target sleeps in dat_cno_wait, for asynchronous events,
 * too; initiators suppress all completions of requests, end sessions in the middle of commands, and
 * log in again with the same EP or a new one. With -t they are threads of one process.
 */
#include "iser.h"

#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

options_t options = {"soft", 0, 4, 12, 120, 0};
common_t* common;
static int limit = 120, in_threads;

region_t add(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, void* data, size_t length,
             DAT_MEM_PRIV_FLAGS rights) {
  region_t region;
  DAT_REGION_DESCRIPTION where;
  DAT_VLEN size;
  DAT_VADDR start;
  where.for_va = data;
  OK(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, where, length, pz, rights, DAT_VA_TYPE_VA,
                    &region.lmr, &region.local, &region.remote, &size, &start));
  return region;
}

DAT_LMR_TRIPLET part_of(const region_t* region, const void* data, uint32_t length) {
  DAT_LMR_TRIPLET iov;
  iov.virtual_address = (DAT_VADDR)(uintptr_t)data;
  iov.segment_length = length;
  iov.lmr_context = region->local;
  return iov;
}

void attributes(DAT_EP_ATTR* attr, const DAT_IA_ATTR* of_ia) {
  memset(attr, 0, sizeof *attr);
  attr->service_type = DAT_SERVICE_TYPE_RC;
  attr->max_message_size = 65536;
  attr->max_rdma_size = of_ia->max_rdma_size;
  attr->qos = DAT_QOS_BEST_EFFORT;
  attr->max_recv_dtos = DEPTH + 1; /* with a marker */
  attr->max_request_dtos = DEPTH * (PARTS + 1);
  attr->max_recv_iov = 1;
  attr->max_request_iov = 2;
  attr->max_rdma_read_in = 4;
  attr->max_rdma_read_out = 4;
  attr->srq_soft_hw = DAT_HW_DEFAULT;
}

static void read_options(int argc, char** argv) {
  int option;
  while ((option = getopt(argc, argv, "D:Tc:s:n:mtw:")) != -1) {
    switch (option) {
      case 'D':
        options.ia_name = optarg;
        break;
      case 'T':
        options.threadsafe = 1;
        break;
      case 'c':
        options.initiators = atoi(optarg);
        break;
      case 's':
        options.sessions = atoi(optarg);
        break;
      case 'n':
        options.commands = atoi(optarg);
        break;
      case 'm':
        options.no_windows = 1;
        break;
      case 't':
        in_threads = 1;
        break;
      case 'w':
        limit = atoi(optarg);
        break;
      default:
        fprintf(stderr,
                "usage: mw_target [-D ia] [-T] [-c initiators] [-s sessions] [-n commands] [-m] "
                "[-t] [-w seconds]\n");
        exit(2);
    }
  }
  if (options.initiators > SESSIONS) {
    options.initiators = SESSIONS;
  }
}

int main(int argc, char** argv) {
  int status, failed = 0;
  pthread_t threads[SESSIONS + 1];
  pid_t processes[SESSIONS + 1];
  read_options(argc, argv);
  common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  alarm((unsigned)limit);
  for (int i = 0; i <= options.initiators; ++i) {
    void* (*run)(void*) = i ? run_initiator : run_target;
    void* argument = (void*)(uintptr_t)(i - 1);
    if (in_threads) {
      pthread_create(&threads[i], NULL, run, argument);
    } else if ((processes[i] = fork()) == 0) {
      alarm((unsigned)limit);
      run(argument);
      exit(0);
    }
  }
  for (int i = 0; i <= options.initiators; ++i) {
    if (in_threads) {
      pthread_join(threads[i], NULL);
    } else {
      const pid_t ended = wait(&status);
      if (status && !failed) {
        failed = 1;
        fprintf(stderr, "the %s ended with 0x%x\n", ended == processes[0] ? "target" : "initiator",
                (unsigned)status);
        for (int other = 0; other <= options.initiators; ++other) {
          if (processes[other] != ended) {
            kill(processes[other], SIGKILL);
          }
        }
      }
    }
  }
  printf("mw_target: %s\n", failed ? "FAILED" : "ok");
  return failed;
}
