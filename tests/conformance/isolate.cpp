// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "isolate.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace conformance {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kResultFd = 3;  // in the process of the test

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  operator int() const { return fd_; }

 private:
  int fd_;
};

Result failed(const std::string& path, std::string text) {
  return {path, Outcome::kFailed, 0, "  " + std::move(text)};
}

[[noreturn]] void become(char* const* argv) {
  // A process group of its own, so that processes started by the test can be killed with it.
  ::setpgid(0, 0);
  ::execv("/proc/self/exe", argv);
  ::_exit(127);
}

// Reads what the process writes until it closes the pipe. Returns false if `until` passes first.
bool read_all(int fd, Clock::time_point until, std::string& text) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{fd, POLLIN, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(left));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    char bytes[4096];
    const ssize_t got = ::read(fd, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    text.append(bytes, static_cast<std::size_t>(got));
  }
}

// Waits until the process ends. Returns false if `until` passes first.
bool reap(pid_t pid, Clock::time_point until, int& status) {
  for (;;) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) return true;
    if (Clock::now() >= until) return false;
    ::usleep(1000);
  }
}

// Parses "outcome seconds\ntext", as written by report_to().
bool parse(const std::string& report, Result& result) {
  int outcome = 0;
  if (std::sscanf(report.c_str(), "%d %lf", &outcome, &result.seconds) != 2) return false;
  if (outcome < 0 || outcome > static_cast<int>(Outcome::kSkipped)) return false;
  result.outcome = static_cast<Outcome>(outcome);
  const std::size_t line = report.find('\n');
  if (line == std::string::npos) return false;
  result.text = report.substr(line + 1);
  return true;
}

}  // namespace

Result run_isolated(const std::string& path, std::vector<std::string> arguments,
                    int limit_seconds) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return failed(path, std::string("no pipe: ") + std::strerror(errno));
  Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  const Clock::time_point start = Clock::now();
  arguments.push_back("--run_test=" + path);
  arguments.push_back("--result-fd=" + std::to_string(kResultFd));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return failed(path, std::string("no process: ") + std::strerror(errno));
  if (pid == 0) {  // other threads may have held any lock, so only system calls from here on
    if (to == kResultFd)
      ::fcntl(to, F_SETFD, 0);
    else
      ::dup2(to, kResultFd);  // a copy survives the exec
    become(argv.data());
  }
  to.close();
  const Clock::time_point until = start + std::chrono::seconds(limit_seconds);
  std::string report;
  int status = 0;
  const bool in_time = read_all(from, until, report) && reap(pid, until, status);
  if (!in_time) {
    ::kill(-pid, SIGKILL);
    ::kill(pid, SIGKILL);  // the group may not exist yet
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
  Result result;
  result.path = path;
  const bool complete = parse(report, result);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (!in_time)
    result = failed(path, complete ? "HUNG: the test was over, but the process did not end"
                                   : "HUNG: no end within " + std::to_string(limit_seconds) + " s");
  else if (WIFSIGNALED(status))
    result = failed(path, std::string("CRASHED: ") + ::strsignal(WTERMSIG(status)) +
                              (complete ? ", after the test was over" : ""));
  else if (!complete)
    result = failed(path, "the process ended during the test, exit status " +
                              std::to_string(WEXITSTATUS(status)));
  else if (WEXITSTATUS(status) != 0)
    result = failed(path, "the test was over, but its process failed, exit status " +
                              std::to_string(WEXITSTATUS(status)));
  if (!in_time || !complete) result.seconds = seconds;
  return result;
}

void run_all_isolated(const std::vector<std::string>& paths,
                      const std::vector<std::string>& arguments, int limit_seconds, int jobs,
                      const std::function<bool(Result)>& done) {
  std::mutex mutex;
  std::condition_variable finished;
  std::vector<std::optional<Result>> results(paths.size());
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < jobs; ++i)
    workers.emplace_back([&] {
      for (std::size_t test; (test = next++) < paths.size();) {
        Result result = run_isolated(paths[test], arguments, limit_seconds);
        const std::scoped_lock lock(mutex);
        results[test] = std::move(result);
        finished.notify_one();
      }
    });
  for (std::optional<Result>& result : results) {
    std::unique_lock lock(mutex);
    finished.wait(lock, [&] { return result.has_value(); });
    lock.unlock();
    if (done(*std::move(result))) continue;
    next = paths.size();
    break;
  }
  for (std::thread& worker : workers) worker.join();
}

bool report_to(int fd, const Results& results) {
  if (results.all().empty()) return false;
  const Result& result = results.all().front();
  std::string text = std::to_string(static_cast<int>(result.outcome)) + " " +
                     std::to_string(result.seconds) + "\n" + result.text;
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::write(fd, text.data() + sent, text.size() - sent);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return ::close(fd) == 0;
}

}  // namespace conformance
