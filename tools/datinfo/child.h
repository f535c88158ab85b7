// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace datinfo {

// Texts in a row, each as "<length>:<bytes>".
void put(std::string& answer, std::string_view text);
// Removes one text from the front. Returns false if it is incomplete.
[[nodiscard]] bool take(std::string_view& answer, std::string& text);

// The name of a result, such as "DAT_INVALID_ADDRESS".
[[nodiscard]] std::string name_of(int status);

// Work in a child process of its own, because a provider may crash, hang or write to stdout. The
// child has no descriptors of ours, and ends with this process. REQUIRES: this process has one
// thread and has not used the registry.
class Child {
 public:
  using Clock = std::chrono::steady_clock;
  // Returns the answer of the child.
  using Work = std::function<std::string()>;

  // How it ended.
  struct End {
    std::string problem;  // the reason, if the answer is incomplete
    std::string answer;
    std::string output;  // what the child wrote to stdout and stderr
  };

  // `trace_level`: of the provider; its records become output.
  Child(const Work& work, int trace_level, std::chrono::milliseconds limit);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  // Whether it has answered, or its time is up.
  [[nodiscard]] bool done() const { return answer_fd_.get() < 0 || Clock::now() >= deadline_; }
  // Ends the child if it still runs. REQUIRES: called once.
  [[nodiscard]] End end();

 private:
  class Fd {
   public:
    Fd() = default;
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd() { reset(); }
    [[nodiscard]] int get() const { return fd_; }
    void reset(int fd = -1);

   private:
    int fd_ = -1;
  };

  static void read(Fd& fd, std::string& text, std::size_t limit);
  void read_output();
  friend void serve(const std::vector<std::unique_ptr<Child>>& children);

  std::chrono::milliseconds limit_;
  Clock::time_point deadline_;
  pid_t pid_ = -1;
  std::string problem_;
  Fd answer_fd_;  // both are -1 once the child has closed them, or if there was never a child
  Fd output_fd_;
  std::string answer_;
  std::string output_;
};

// Waits until one of the children has written something or its time is up, and reads the output.
void serve(const std::vector<std::unique_ptr<Child>>& children);

}  // namespace datinfo
