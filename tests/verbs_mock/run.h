// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/udat.h>

#include "mock_control.h"

#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

// One run of a scenario on the doubles, in which any call may fail: it goes on until the first
// error, and then takes back what it has made. Errors are noted, and whether they were clean.
namespace faults {

// Connection qualifiers, each process its own: on a software RNIC they are ports of the machine.
[[nodiscard]] inline DAT_CONN_QUAL conn_qual(DAT_CONN_QUAL number = 0) {
  return 20'000 + static_cast<DAT_CONN_QUAL>(::getpid()) % 5'000 * 2 + number;
}

class Run {
 public:
  // `adapter`: of this folder's dat.conf.
  explicit Run(const char* name = "mock", bool threads = false)
      : adapter(name), threadsafe(threads) {}
  // Frees what was made, newest first, and closes the IA. Notes everything that is not clean.
  void finish();

  // Was it a success? Anything else ends the scenario and has to be a documented error.
  [[nodiscard]] bool ok(DAT_RETURN code, const char* call);
  // To be done in the end, if the call that makes the object was a success.
  void owe(const char* call, std::function<DAT_RETURN()> undo) {
    debts_.emplace_back(call, std::move(undo));
  }
  // Waits for `number` on `evd`. False: another event came, which is then noted as the outcome, on
  // `evd` or on `also`, where an error may be told instead.
  [[nodiscard]] bool expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, DAT_EVENT* event,
                            DAT_EVD_HANDLE also = DAT_HANDLE_NULL);
  // A transfer's completion on `evd`, and a success.
  [[nodiscard]] bool expect_done(DAT_EVD_HANDLE evd, DAT_EVD_HANDLE also);

  [[nodiscard]] bool open();

  const char* const adapter;
  const bool threadsafe;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_ATTR attr{};

  void complain(const std::string& what) { complaints_.push_back(what); }
  [[nodiscard]] const std::vector<std::string>& complaints() const { return complaints_; }
  // The first error or event that ended the scenario; empty: it went through.
  [[nodiscard]] const std::string& outcome() const { return outcome_; }

 private:
  void note(const std::string& outcome) {
    if (outcome_.empty()) outcome_ = outcome;
  }

  std::vector<std::pair<const char*, std::function<DAT_RETURN()>>> debts_;
  std::vector<std::string> complaints_;
  std::string outcome_;
  DAT_EVD_HANDLE kept_from_ = DAT_HANDLE_NULL;  // where kept_ was looked for too early
  DAT_EVENT kept_{};
};

#define FAULTS_OK(run, call) (run).ok((call), #call)

// Objects of one end of a connection.
struct End {
  DAT_EVD_HANDLE recv_evd = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE request_evd = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE connect_evd = DAT_HANDLE_NULL;
  DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

// A PZ, memory, a listener and two EPs. `shared`: the passive one draws from an SRQ.
struct Pair {
  explicit Pair(Run& owner);
  [[nodiscard]] bool create(bool shared = false);
  // One more EP with its EVDs, without an SRQ.
  [[nodiscard]] bool make_end(End& end);
  // `size` bytes of private data go each way, and come as they are.
  [[nodiscard]] bool connect(DAT_COUNT size = 4);
  [[nodiscard]] bool reject();
  [[nodiscard]] bool disconnect(DAT_CLOSE_FLAGS how);
  // Connects as far as the request's arrival, in `cr`.
  [[nodiscard]] bool request(DAT_COUNT size = 4);

  [[nodiscard]] DAT_LMR_TRIPLET local(std::size_t offset, DAT_SEG_LENGTH length) const;
  [[nodiscard]] DAT_RMR_TRIPLET remote(std::size_t offset, DAT_SEG_LENGTH length) const;

  Run& run;
  std::vector<std::byte> memory;
  DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
  DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT lmr_context = 0;
  DAT_RMR_CONTEXT rmr_context = 0;
  DAT_EVD_HANDLE cr_evd = DAT_HANDLE_NULL;
  DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
  DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
  DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
  End active;
  End passive;
};

// What both QPs of the one connection were told. Fails the test if there are not two.
[[nodiscard]] std::array<verbs_mock_connection, 2> both_ends();

}  // namespace faults
