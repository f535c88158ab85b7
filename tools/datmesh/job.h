// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The processes that mpirun or srun has started, by PMIx. Not thread-safe. Throws JobError.
#pragma once

#include <pmix.h>

#include <functional>
#include <stdexcept>
#include <string>

namespace datmesh {

struct JobError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Job {
 public:
  /** Fails if nobody has started this process as one of many. */
  Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();

  [[nodiscard]] std::uint32_t rank() const { return self_.rank; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

  /** What others may get after the next fence. */
  void put(const char* key, const std::string& text);
  [[nodiscard]] std::string get(std::uint32_t rank, const char* key);
  /** Waits until all have come here, and calls `meanwhile` again and again, which has to take a
   *  little time. */
  void fence(const std::function<void()>& meanwhile);

 private:
  pmix_proc_t self_{};
  std::uint32_t size_ = 0;
};

}  // namespace datmesh
