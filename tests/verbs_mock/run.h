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

// One run of a scenario on the doubles, in which any call may fail: it continues until the first
// error, and then frees what it has created. It records the errors, and every violation of the
// rules for failed calls.
namespace faults {

// Connection qualifiers that differ between processes: on a software RNIC they are ports of the
// machine. They lie between those of the conformance suites and the ports that the kernel chooses.
[[nodiscard]] inline DAT_CONN_QUAL conn_qual(DAT_CONN_QUAL number = 0) {
  return 30'000 + static_cast<DAT_CONN_QUAL>(::getpid()) % 1'380 * 2 + number;
}

class Run {
 public:
  // `name`: an adapter of this folder's dat.conf.
  explicit Run(const char* name = "mock", bool threads = false)
      : adapter(name), threadsafe(threads) {}
  // Frees what was created, newest first, and closes the IA. Records leaks and failed calls.
  void finish();

  // Returns whether `code` is a success. Anything else ends the scenario and must be a documented
  // error.
  [[nodiscard]] bool ok(DAT_RETURN code, const char* call);
  // Registers a call for finish(). Call it if the object was created.
  void on_finish(const char* call, std::function<DAT_RETURN()> undo) {
    cleanups_.emplace_back(call, std::move(undo));
  }
  // Waits for `number` on `evd`. Returns false if another event arrived first on `evd`, or on
  // `also`, where an error may be reported instead; that event is recorded as the outcome.
  [[nodiscard]] bool expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, DAT_EVENT* event,
                            DAT_EVD_HANDLE also = DAT_HANDLE_NULL);
  // Waits for a successful completion of a transfer on `evd`.
  [[nodiscard]] bool expect_done(DAT_EVD_HANDLE evd, DAT_EVD_HANDLE also);

  [[nodiscard]] bool open();

  const char* const adapter;
  const bool threadsafe;
  DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_ATTR attr{};

  void complain(const std::string& what) { complaints_.push_back(what); }
  [[nodiscard]] const std::vector<std::string>& complaints() const { return complaints_; }
  // The first error or event that ended the scenario; empty: the scenario succeeded.
  [[nodiscard]] const std::string& outcome() const { return outcome_; }

 private:
  void note(const std::string& outcome) {
    if (outcome_.empty()) outcome_ = outcome;
  }

  std::vector<std::pair<const char*, std::function<DAT_RETURN()>>> cleanups_;
  std::vector<std::string> complaints_;
  std::string outcome_;
  DAT_EVD_HANDLE kept_from_ = DAT_HANDLE_NULL;  // the EVD of kept_, which arrived early
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

// A PZ, memory, a listener and two EPs. `shared`: the passive one takes its receives from an SRQ.
struct Pair {
  explicit Pair(Run& owner);
  [[nodiscard]] bool create(bool shared = false);
  // Creates one more EP with its EVDs, without an SRQ.
  [[nodiscard]] bool make_end(End& end);
  // Sends `size` bytes of private data each way, which must arrive unchanged.
  [[nodiscard]] bool connect(DAT_COUNT size = 4);
  [[nodiscard]] bool reject();
  [[nodiscard]] bool disconnect(DAT_CLOSE_FLAGS how);
  // Connects up to the arrival of the request, which is stored in `cr`.
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
  bool with_cno = false;  // set before create(): passive.recv_evd is created with a CNO
  DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
  DAT_CR_HANDLE cr = DAT_HANDLE_NULL;
  End active;
  End passive;
};

// The attributes of both QPs of the only connection. Fails the test unless there are two QPs.
[[nodiscard]] std::array<verbs_mock_connection, 2> both_ends();

}  // namespace faults
