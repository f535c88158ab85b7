// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "child.h"

#include <dat/udat.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace datinfo {

namespace {

constexpr std::size_t kMaxOutput = 64 * 1024;  // a provider might write without end

[[noreturn]] void run(const Child::Work& work, int trace_level, int answer_fd, int output_fd) {
  // It ends with its parent, even if the provider hangs.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(output_fd, STDOUT_FILENO);
  ::dup2(output_fd, STDERR_FILENO);
  // Close all other descriptors, so that the provider finds only one descriptor fewer than in a
  // program that has just started.
  answer_fd = ::dup2(answer_fd, STDERR_FILENO + 1);
  ::close_range(STDERR_FILENO + 2, ~0U, 0);
  ::setenv("DAT_TRACE_LEVEL", "0", 1);
  ::setenv("DAPL_TRACE_LEVEL", std::to_string(trace_level).c_str(), 1);
  if (trace_level != 0) ::setenv("DAPL_TRACE_SINK", "stderr", 1);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const std::string answer = work();
  std::string_view rest = answer;
  while (!rest.empty()) {
    const ssize_t written = ::write(answer_fd, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) break;
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
  std::fflush(stdout);
  // Exit without running destructors: those of the provider are not under test.
  ::_exit(rest.empty() ? 0 : 1);
}

}  // namespace

void put(std::string& answer, std::string_view text) {
  answer += std::to_string(text.size());
  answer += ':';
  answer += text;
}

bool take(std::string_view& answer, std::string& text) {
  const std::size_t colon = answer.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon > 9) return false;
  const auto length =
      static_cast<std::size_t>(std::atoll(std::string(answer.substr(0, colon)).c_str()));
  if (answer.size() - colon - 1 < length) return false;
  text.assign(answer.substr(colon + 1, length));
  answer.remove_prefix(colon + 1 + length);
  return true;
}

std::string name_of(int status) {
  const char* major = "";
  const char* minor = "";
  dat_strerror(static_cast<DAT_RETURN>(status), &major, &minor);
  return std::string(major) + (*minor != '\0' ? ", " : "") + minor;
}

void Child::Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Child::Child(const Work& work, int trace_level, std::chrono::milliseconds limit)
    : limit_(limit), deadline_(Clock::now() + limit) {
  std::array<int, 2> answer{-1, -1};
  std::array<int, 2> output{-1, -1};
  if (::pipe2(answer.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0) {
    problem_ = std::string("cannot create a pipe to a child process: ") + std::strerror(errno);
    if (answer[0] >= 0) {
      ::close(answer[0]);
      ::close(answer[1]);
    }
    return;
  }
  answer_fd_.reset(answer[0]);
  output_fd_.reset(output[0]);
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) run(work, trace_level, answer[1], output[1]);
  if (pid_ < 0) {
    problem_ = std::string("cannot create a child process: ") + std::strerror(errno);
    answer_fd_.reset();
    output_fd_.reset();
  }
  ::close(answer[1]);
  ::close(output[1]);
}

Child::~Child() {
  if (pid_ > 0) static_cast<void>(end());
}

void Child::read(Fd& fd, std::string& text, std::size_t limit) {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) {
    fd.reset();
  } else if (text.size() < limit) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

void Child::read_output() { read(output_fd_, output_, kMaxOutput); }

Child::End Child::end() {
  if (pid_ > 0) {
    const bool late = answer_fd_.get() >= 0;
    if (late) ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    // Read what the child wrote before it ended. Do not wait for the end of the file: a grandchild
    // may keep the pipe open.
    while (output_fd_.get() >= 0) {
      pollfd ready{output_fd_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) break;
      read_output();
    }
    if (late)
      problem_ = "the provider did not finish within " + std::to_string(limit_.count()) +
                 " ms\ntry: whether the network of the device works; --timeout waits longer";
    else if (WIFSIGNALED(status))
      problem_ = std::string("the provider crashed: ") + ::strsignal(WTERMSIG(status)) +
                 "\ntry: another version of the provider";
    else
      problem_ = "the provider ended the program with status " +
                 std::to_string(WEXITSTATUS(status)) + "\ntry: another version of the provider";
  }
  return {problem_, answer_, output_};
}

void serve(const std::vector<std::unique_ptr<Child>>& children) {
  std::vector<pollfd> waits;
  Child::Clock::time_point first = Child::Clock::time_point::max();
  for (const auto& one : children) {
    waits.push_back({one->answer_fd_.get(), POLLIN, 0});
    waits.push_back({one->output_fd_.get(), POLLIN, 0});
    if (!one->done()) first = std::min(first, one->deadline_);
  }
  if (first == Child::Clock::time_point::max()) return;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(first - Child::Clock::now()).count();
  if (::poll(waits.data(), waits.size(), static_cast<int>(std::max<std::int64_t>(0, left))) <= 0)
    return;
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (waits[2 * i].revents != 0)
      Child::read(children[i]->answer_fd_, children[i]->answer_, std::string::npos);
    if (waits[2 * i + 1].revents != 0) children[i]->read_output();
  }
}

}  // namespace datinfo
