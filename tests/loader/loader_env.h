// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

#include <functional>
#include <string>

#include "tests/stub_provider/stub.h"

// The code of an error as libdat2 returns it.
constexpr DAT_RETURN dat_error(DAT_RETURN type, DAT_RETURN subtype = DAT_NO_SUBTYPE) {
  return DAT_CLASS_ERROR | type | subtype;
}

// The environment of one test of libdat2: a folder, a dat.conf in it, and a separate process,
// because the library reads its configuration once per process. Several may exist; not thread-safe.
class LoaderEnv {
 public:
  LoaderEnv();
  ~LoaderEnv();
  LoaderEnv(const LoaderEnv&) = delete;
  LoaderEnv& operator=(const LoaderEnv&) = delete;

  // Writes the dat.conf; the child processes find it through DAT_OVERRIDE.
  void conf(const std::string& text);
  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::string conf_path() const { return folder_ + "/dat.conf"; }

  // Runs `body` in a new process and fails the test if a check in it fails, if it dies, or if it
  // takes longer than a minute. The calling process must never use libdat2 itself.
  void run(const std::function<void()>& body) const;

 private:
  std::string folder_;
};

// The path of a variant of the stub provider.
std::string stub(const std::string& variant);

// A line of dat.conf, with its newline.
std::string entry(const std::string& name, const std::string& library,
                  const std::string& params = "good", const std::string& version = "u2.0",
                  const std::string& safety = "nonthreadsafe",
                  const std::string& default_word = "default");

// The record of a stub library that is loaded in this process.
const StubLog& log_of(const char* variant);

// Calls dat_ia_openv with a queue length of 8; by default version 2.0 and not thread-safe.
DAT_RETURN open_ia(const std::string& name, DAT_IA_HANDLE* ia, DAT_UINT32 major = 2,
                   DAT_UINT32 minor = 0, DAT_BOOLEAN thread_safe = DAT_FALSE);
DAT_RETURN close_ia(DAT_IA_HANDLE ia);

DAT_PROVIDER_INFO make_info(const std::string& name, DAT_UINT32 major = 2, DAT_UINT32 minor = 0,
                            DAT_BOOLEAN thread_safe = DAT_FALSE);

// Collects what is written to stderr while it exists.
class StderrCapture {
 public:
  StderrCapture();
  ~StderrCapture();
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;
  [[nodiscard]] std::string text() const;  // so far

 private:
  int file_ = -1;
  int saved_ = -1;
};

bool contains(const std::string& text, const std::string& part);
