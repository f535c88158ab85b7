// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The job: the processes started by mpirun or srun, as PMIx knows them. Not thread-safe. Throws
// JobError.
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
  /** Throws if the process was not started as part of a job. */
  Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();

  [[nodiscard]] std::uint32_t rank() const { return self_.rank; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

  /** Publishes a value that other ranks can get() after the next fence. */
  void put(const char* key, const std::string& text);
  [[nodiscard]] std::string get(std::uint32_t rank, const char* key);
  /** Waits until all ranks have called it. Calls `meanwhile` in a loop, so that function should
   *  sleep or wait for a short time. */
  void fence(const std::function<void()>& meanwhile);

 private:
  pmix_proc_t self_{};
  std::uint32_t size_ = 0;
};

}  // namespace datmesh
