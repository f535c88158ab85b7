/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * differential - runs random DAT programs and writes what the library did. Each program runs in a
 * process of its own, because a library may crash or hang. See README.md.
 */
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "world.h"

namespace {

constexpr unsigned kSteps = 30;
constexpr unsigned kSeconds = 60;

// Returns whether the program came to its end.
bool run_program(const std::string& adapter, unsigned long seed, unsigned scale, bool exchanges) {
  Protocol out;
  out.line("program " + std::to_string(seed));
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    World world(adapter, seed, scale, static_cast<unsigned short>(20000 + seed % 400 * 32));
    exchanges ? world.exchange() : world.run(kSteps);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    out.line("killed " + std::to_string(WTERMSIG(status)));
    return false;
  }
  out.line("end " + std::to_string(WEXITSTATUS(status)));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: differential ADAPTER FIRST-SEED COUNT [SCALE [exchange]]\n");
    return 2;
  }
  const unsigned long first = std::strtoul(argv[2], nullptr, 10);
  const unsigned long count = std::strtoul(argv[3], nullptr, 10);
  const auto scale = static_cast<unsigned>(argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 1);
  const bool exchanges = argc > 5 && std::string(argv[5]) == "exchange";
  bool passed = count != 0;
  for (unsigned long seed = first; seed < first + count; seed++) {
    passed = run_program(argv[1], seed, scale, exchanges) && passed;
  }
  return passed ? 0 : 1;
}
