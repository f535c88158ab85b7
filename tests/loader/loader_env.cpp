// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/loader/loader_env.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/execution_monitor.hpp>
#include <boost/test/results_collector.hpp>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace {

constexpr unsigned kSecondsForACase = 60;

bool all_checks_passed() {
  namespace framework = boost::unit_test::framework;
  const auto& results =
      boost::unit_test::results_collector.results(framework::current_test_case().p_id);
  return results.p_assertions_failed.get() == 0;
}

[[noreturn]] void child(const std::function<void()>& body, const std::string& conf) {
  ::alarm(kSecondsForACase);
  ::setenv("DAT_OVERRIDE", conf.c_str(), 1);
  bool completed = false;
  try {
    body();
    completed = true;
  } catch (const boost::execution_aborted&) {  // a failed REQUIRE, already reported
  }
  std::cout.flush();
  // exit, not _exit: destructors and the leak check are part of the test.
  std::exit(completed && all_checks_passed() ? 0 : 1);
}

}  // namespace

LoaderEnv::LoaderEnv() {
  folder_ = std::filesystem::temp_directory_path() / ("loader." + std::string(6, 'X'));
  BOOST_TEST_REQUIRE(::mkdtemp(folder_.data()) != nullptr);
}

LoaderEnv::~LoaderEnv() { std::filesystem::remove_all(folder_); }

void LoaderEnv::conf(const std::string& text) {
  std::ofstream(conf_path(), std::ios::binary) << text;
}

void LoaderEnv::run(const std::function<void()>& body) const {
  std::signal(SIGCHLD, SIG_DFL);  // Boost.Test would treat the end of a child as a failed test
  std::cout.flush();
  const pid_t pid = ::fork();
  BOOST_TEST_REQUIRE(pid >= 0);
  if (pid == 0) child(body, conf_path());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) BOOST_TEST_REQUIRE(errno == EINTR);
  if (WIFSIGNALED(status)) BOOST_ERROR("the test process died of signal " << WTERMSIG(status));
  if (WIFEXITED(status)) BOOST_TEST(WEXITSTATUS(status) == 0, "a check in the test process failed");
}

std::string stub(const std::string& variant) {
  return std::string(STUB_FOLDER "/stub_") + variant + ".so";
}

std::string entry(const std::string& name, const std::string& library, const std::string& params,
                  const std::string& version, const std::string& safety,
                  const std::string& default_word) {
  return name + ' ' + version + ' ' + safety + ' ' + default_word + " \"" + library +
         "\" stub.1.0 \"" + params + "\" \"\"\n";
}

const StubLog& log_of(const char* variant) {
  void* library = ::dlopen(stub(variant).c_str(), RTLD_NOW | RTLD_NOLOAD);
  BOOST_TEST_REQUIRE(library != nullptr, "stub_" << variant << " is not loaded");
  auto* function = reinterpret_cast<StubLogFunction*>(::dlsym(library, "stub_log"));
  BOOST_TEST_REQUIRE(function != nullptr);
  return *function();
}

DAT_RETURN open_ia(const std::string& name, DAT_IA_HANDLE* ia, DAT_UINT32 major, DAT_UINT32 minor,
                   DAT_BOOLEAN thread_safe) {
  std::string copy = name;
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  return dat_ia_openv(copy.data(), 8, &async_evd, ia, major, minor, thread_safe);
}

DAT_RETURN close_ia(DAT_IA_HANDLE ia) { return dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG); }

DAT_PROVIDER_INFO make_info(const std::string& name, DAT_UINT32 major, DAT_UINT32 minor,
                            DAT_BOOLEAN thread_safe) {
  DAT_PROVIDER_INFO info{};
  name.copy(info.ia_name, sizeof info.ia_name - 1);
  info.dapl_version_major = major;
  info.dapl_version_minor = minor;
  info.is_thread_safe = thread_safe;
  return info;
}

StderrCapture::StderrCapture()
    : file_(::memfd_create("stderr", MFD_CLOEXEC)), saved_(::dup(STDERR_FILENO)) {
  ::dup2(file_, STDERR_FILENO);
}

StderrCapture::~StderrCapture() {
  ::dup2(saved_, STDERR_FILENO);
  ::close(saved_);
  ::close(file_);
}

std::string StderrCapture::text() const {
  std::string all(static_cast<std::size_t>(::lseek(file_, 0, SEEK_END)), '\0');
  const ssize_t got = ::pread(file_, all.data(), all.size(), 0);
  all.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return all;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
