// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
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
#include <memory>
#include <string_view>

#include "attributes.h"

namespace datinfo {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxConcurrent = 4;
constexpr std::size_t kMaxOutput = 64 * 1024;  // a provider might write without end

// The child's answer consists of strings, each as "<length>:<bytes>": "open" or "fail", the status,
// the cause and the library, then names, values and kinds of attributes, then "end".
void put(std::string& answer, std::string_view text) {
  answer += std::to_string(text.size());
  answer += ':';
  answer += text;
}

// Removes one string from the front. Returns false if the answer is incomplete.
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

std::string name_of(DAT_RETURN status) {
  const char* major = "";
  const char* minor = "";
  dat_strerror(status, &major, &minor);
  return std::string(major) + (*minor != '\0' ? ", " : "") + minor;
}

// The file from which the dynamic linker loaded a library; empty if it is not loaded.
std::string file_of(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return {};
  const link_map* map = nullptr;
  const bool known = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name != nullptr;
  std::string file = known ? map->l_name : "";
  ::dlclose(handle);
  return file;
}

std::string answer_for(const Entry& entry) {
  std::string name = entry.ia_name;
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_RETURN status = dat_ia_openv(name.data(), 8, &async_evd, &ia, entry.major, entry.minor,
                                   entry.thread_safe ? DAT_TRUE : DAT_FALSE);
  std::string answer;
  Attributes attributes;
  if (status == DAT_SUCCESS) status = attributes_of(ia, attributes);
  const char* cause = "";
  dat_last_cause(status, &cause);
  put(answer, status == DAT_SUCCESS ? "open" : "fail");
  put(answer, name_of(status));
  put(answer, cause);
  put(answer, entry.library.empty() ? "" : file_of(entry.library));
  for (const auto& [key, value, kind] : attributes) {
    put(answer, key);
    put(answer, value);
    put(answer, kind == Attribute::Kind::kNumber ? "n"
                : kind == Attribute::Kind::kFlag ? "f"
                                                 : "t");
  }
  if (ia != DAT_HANDLE_NULL) dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
  put(answer, "end");
  return answer;
}

[[noreturn]] void child(const Entry& entry, int answer_fd, int output_fd) {
  // It ends with its parent, even if the provider hangs.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(output_fd, STDOUT_FILENO);
  ::dup2(output_fd, STDERR_FILENO);
  // Close all other descriptors, so that the provider finds only one descriptor fewer than in a
  // program that has just started.
  answer_fd = ::dup2(answer_fd, STDERR_FILENO + 1);
  ::close_range(STDERR_FILENO + 2, ~0U, 0);
  ::setenv("DAT_TRACE_LEVEL", "0", 1);
  ::setenv("DAPL_TRACE_LEVEL", "0", 1);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const std::string answer = answer_for(entry);
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

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }
  [[nodiscard]] int get() const { return fd_; }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// One child and its answer and output so far.
class Child {
 public:
  Child(const Entry& entry, Outcome& outcome, std::chrono::milliseconds limit)
      : outcome_(outcome), limit_(limit), deadline_(Clock::now() + limit) {
    std::array<int, 2> answer{-1, -1};
    std::array<int, 2> output{-1, -1};
    if (::pipe2(answer.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0) {
      outcome_.cause =
          std::string("cannot create a pipe to a child process: ") + std::strerror(errno);
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
    if (pid_ == 0) child(entry, answer[1], output[1]);
    if (pid_ < 0) {
      outcome_.cause = std::string("cannot create a child process: ") + std::strerror(errno);
      answer_fd_.reset();
      output_fd_.reset();
    }
    ::close(answer[1]);
    ::close(output[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) end();
  }

  // Both are -1 once the child has closed them, or if there was never a child.
  [[nodiscard]] int answer_fd() const { return answer_fd_.get(); }
  [[nodiscard]] int output_fd() const { return output_fd_.get(); }
  [[nodiscard]] Clock::time_point deadline() const { return deadline_; }
  [[nodiscard]] bool done() const { return answer_fd_.get() < 0 || Clock::now() >= deadline_; }

  void read_answer() { read(answer_fd_, answer_, std::string::npos); }
  void read_output() { read(output_fd_, output_, kMaxOutput); }

 private:
  static void read(Fd& fd, std::string& text, std::size_t limit) {
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) {
      fd.reset();
    } else if (text.size() < limit) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }

  void end() {
    const bool late = answer_fd_.get() >= 0;
    if (late) ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    // Read what the child wrote before it ended. Do not wait for the end of the file: a grandchild
    // may keep the pipe open.
    while (output_fd_.get() >= 0) {
      pollfd ready{output_fd_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) break;
      read_output();
    }
    if (!parse_answer())
      outcome_.cause =
          late ? "the provider did not finish opening it within " + std::to_string(limit_.count()) +
                     " ms\ntry: whether the network of the device works; --timeout waits longer"
          : WIFSIGNALED(status)
              ? std::string("the provider crashed: ") + ::strsignal(WTERMSIG(status)) +
                    "\ntry: another version of the provider"
              : "the provider ended the program with status " +
                    std::to_string(WEXITSTATUS(status)) + "\ntry: another version of the provider";
    outcome_.output = output_;
  }

  bool parse_answer() {
    std::string_view rest = answer_;
    std::string word;
    Outcome parsed;
    if (!take(rest, word) || !take(rest, parsed.status) || !take(rest, parsed.cause) ||
        !take(rest, parsed.library))
      return false;
    parsed.opened = word == "open";
    for (;;) {
      std::string key;
      std::string value;
      if (!take(rest, key)) return false;
      if (rest.empty()) break;  // "end"
      std::string kind;
      if (!take(rest, value) || !take(rest, kind)) return false;
      parsed.attributes.push_back({key, value,
                                   kind == "n"   ? Attribute::Kind::kNumber
                                   : kind == "f" ? Attribute::Kind::kFlag
                                                 : Attribute::Kind::kText});
    }
    if (parsed.opened) parsed.cause.clear();
    outcome_ = std::move(parsed);
    return true;
  }

  Outcome& outcome_;
  std::chrono::milliseconds limit_;
  Clock::time_point deadline_;
  pid_t pid_ = -1;
  Fd answer_fd_;
  Fd output_fd_;
  std::string answer_;
  std::string output_;
};

using Children = std::vector<std::unique_ptr<Child>>;

// Waits until one of the children has written something or its time is up, and reads the output.
void serve(const Children& children) {
  std::vector<pollfd> waits;
  Clock::time_point first = Clock::time_point::max();
  for (const auto& one : children) {
    waits.push_back({one->answer_fd(), POLLIN, 0});
    waits.push_back({one->output_fd(), POLLIN, 0});
    first = std::min(first, one->deadline());
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now()).count();
  if (::poll(waits.data(), waits.size(), static_cast<int>(std::max<std::int64_t>(0, left))) <= 0)
    return;
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (waits[2 * i].revents != 0) children[i]->read_answer();
    if (waits[2 * i + 1].revents != 0) children[i]->read_output();
  }
}

// The number of children for which there are enough descriptors: two each, and some for other uses.
std::size_t concurrent_children() {
  constexpr rlim_t kOthers = 10;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur <= kOthers) return 1;
  return std::clamp<std::size_t>((files.rlim_cur - kOthers) / 2, 1, kMaxConcurrent);
}

}  // namespace

std::vector<Outcome> probe(const std::vector<Entry>& entries, std::chrono::milliseconds limit) {
  const std::size_t at_once = concurrent_children();
  std::vector<Outcome> outcomes(entries.size());
  Children running;
  std::size_t next = 0;
  while (next < entries.size() || !running.empty()) {
    while (next < entries.size() && running.size() < at_once) {
      running.push_back(std::make_unique<Child>(entries[next], outcomes[next], limit));
      ++next;
    }
    serve(running);
    std::erase_if(running, [](const auto& one) { return one->done(); });
  }
  return outcomes;
}

}  // namespace datinfo
