// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "job.h"

#include <atomic>
#include <cstring>

namespace datmesh {

namespace {

void check(pmix_status_t status, const char* what) {
  if (status != PMIX_SUCCESS) throw JobError(std::string(what) + ": " + PMIx_Error_string(status));
}

pmix_proc_t process(const pmix_proc_t& like, pmix_rank_t rank) {
  pmix_proc_t other = like;
  other.rank = rank;
  return other;
}

// A fence in progress; `status` is its result once `over` is set.
struct Pending {
  std::atomic<bool> over{false};
  pmix_status_t status = PMIX_SUCCESS;
};

void on_fence_done(pmix_status_t status, void* context) {
  auto* pending = static_cast<Pending*>(context);
  pending->status = status;
  pending->over = true;
}

}  // namespace

Job::Job() {
  if (const pmix_status_t status = PMIx_Init(&self_, nullptr, 0); status != PMIX_SUCCESS)
    throw JobError(std::string("no PMIx (") + PMIx_Error_string(status) +
                   "); try: mpirun -n 4 datmesh");
  const pmix_proc_t all = process(self_, PMIX_RANK_WILDCARD);
  pmix_value_t* value = nullptr;
  check(PMIx_Get(&all, PMIX_JOB_SIZE, nullptr, 0, &value), "the number of ranks");
  size_ = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
}

Job::~Job() { PMIx_Finalize(nullptr, 0); }

void Job::put(const char* key, const std::string& text) {
  std::string copy = text;
  pmix_value_t value{};
  value.type = PMIX_STRING;
  value.data.string = copy.data();
  check(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put");
  check(PMIx_Commit(), "PMIx_Commit");
}

std::string Job::get(std::uint32_t rank, const char* key) {
  const pmix_proc_t other = process(self_, rank);
  pmix_value_t* value = nullptr;
  check(PMIx_Get(&other, key, nullptr, 0, &value), "PMIx_Get");
  std::string text = value->type == PMIX_STRING ? value->data.string : "";
  PMIX_VALUE_RELEASE(value);
  return text;
}

void Job::fence(const std::function<void()>& meanwhile) {
  const pmix_proc_t all = process(self_, PMIX_RANK_WILDCARD);
  pmix_info_t info{};
  std::strncpy(info.key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  Pending pending;
  check(PMIx_Fence_nb(&all, 1, &info, 1, &on_fence_done, &pending), "PMIx_Fence_nb");
  while (!pending.over) meanwhile();
  check(pending.status, "PMIx_Fence_nb");
}

}  // namespace datmesh
