// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "both.h"
#include "../program.h"
#include "group.h"
#include "server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace datperf {

namespace {

// Runs in the child: discards its standard output and keeps stderr. The child ends with its parent.
[[noreturn]] void serve_parent(const Plan& plan, int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) ::dup2(nowhere, STDOUT_FILENO);
  int status = 1;
  try {
    status =
        serve(plan, 0, [ready] { [[maybe_unused]] const auto written = ::write(ready, "", 1); });
  } catch (const std::exception& error) {
    tools::print(stderr, "datperf: server: {}\n", error.what());
  }
  ::_exit(status);
}

// Kills the child in its destructor.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(id_, SIGKILL);
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR)
      ;
  }

 private:
  pid_t id_;
};

}  // namespace

int with_own_server(const Plan& plan, const std::function<int()>& client) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) throw Trouble(std::string("pipe: ") + std::strerror(errno));
  const pid_t id = ::fork();
  if (id < 0) throw Trouble(std::string("fork: ") + std::strerror(errno));
  if (id == 0) serve_parent(plan, ready[1]);
  const Child child(id);
  ::close(ready[1]);
  char byte = 0;
  ssize_t got;
  while ((got = ::read(ready[0], &byte, 1)) < 0 && errno == EINTR)
    ;
  ::close(ready[0]);
  if (got != 1) throw Trouble("the server did not start");
  return client();
}

}  // namespace datperf
