// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// mw_rpc - an RPC library: the server is notified of all events through one CNO, the clients sleep
// until a solicited reply arrives.
//
//   -e wait    a proxy thread waits in dat_cno_wait
//   -e agent   the CNO's agent wakes the proxy thread, which installs the agent again
//   -e inline  the agent serves the calls itself, and installs itself again
#include <getopt.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "client.h"
#include "rpc.h"
#include "server.h"

namespace {

using namespace rpc;

pid_t start(void (*what)(int), int fd) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(static_cast<unsigned>(options.limit));
    what(fd);
    std::fflush(nullptr);
    _exit(0);
  }
  return pid;
}

Server* server;

void on_alarm(int) {
  server->dump();
  _exit(3);
}

void serve(int ready_fd) {
  server = new Server;
  signal(SIGALRM, on_alarm);
  server->run(ready_fd, options.clients);
  delete server;
}

void call(int) {
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::thread> threads;
  for (int i = 0; i < options.clients; ++i) {
    clients.push_back(std::make_unique<Client>(i + 1));
    threads.emplace_back([client = clients.back().get()] { client->run(); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

bool parse(int argc, char** argv) {
  int option;
  while ((option = getopt(argc, argv, "D:Te:c:n:w:")) != -1) {
    switch (option) {
      case 'D':
        options.ia = optarg;
        break;
      case 'T':
        options.threadsafe = true;
        break;
      case 'e':
        options.engine = optarg;
        break;
      case 'c':
        options.clients = std::atoi(optarg);
        break;
      case 'n':
        options.calls = std::atoi(optarg);
        break;
      case 'w':
        options.limit = std::atoi(optarg);
        break;
      default:
        std::fprintf(stderr,
                     "usage: mw_rpc [-D ia] [-T] [-e wait|agent|inline] [-c clients] [-n calls]\n");
        return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (!parse(argc, argv)) {
    return 2;
  }
  options.qual = 20000 + static_cast<DAT_CONN_QUAL>(getpid()) % 6000;  // no ephemeral port
  int ready[2];
  char token;
  if (pipe(ready) != 0) {
    return 1;
  }
  const pid_t server = start(serve, ready[1]);
  close(ready[1]);
  if (read(ready[0], &token, 1) != 1) {
    std::fprintf(stderr, "the server does not start\n");
    return 1;
  }
  const pid_t client = start(call, -1);
  int status = 0, failed = 0;
  for (int left = 2; left > 0; --left) {
    const pid_t pid = wait(&status);
    if (status != 0) {
      std::fprintf(stderr, "%s ended with 0x%x\n", pid == server ? "server" : "clients", status);
      failed = 1;
      kill(pid == server ? client : server, SIGKILL);
    }
  }
  std::printf("mw_rpc -e %s: %s\n", options.engine.c_str(), failed ? "FAILED" : "ok");
  return failed;
}
