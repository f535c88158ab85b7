// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Common code of dtest, dtestx, dtestcm and dtestsrq. They are small, single-threaded programs that
// run their steps in sequence, so the first failure ends them: see fail().
#pragma once

#include "../program.h"

#include <dat/dat_ib_extensions.h>
#include <dat/udat.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace dtest {

/** The name of the program, and the line on standard output that tells scripts that it failed. */
inline const char* program = "dtest";
inline std::string failed_line;

/** Reports an error on stderr, prints failed_line, and ends the program with status 1. */
[[noreturn]] void fail(std::string_view what);
/** Calls fail() if a DAT call failed, with the name of its result and, if the library knows it, the
 * cause. */
void must(DAT_RETURN status, std::string_view what);

/** Options that all four have: -P, -h, -s, -v, --help, --version. */
struct Common {
  std::string provider;  // empty if none was given
  std::string host;      // of the server; empty: this is the server
  bool as_server = false;
  bool verbose = false;

  [[nodiscard]] bool server() const { return host.empty(); }
  [[nodiscard]] const char* role() const { return server() ? "server" : "client"; }
  [[nodiscard]] const char* upper_case_role() const { return server() ? "SERVER" : "CLIENT"; }
};
void add_common(CLI::App& app, Common& common);
/** Parses the arguments. Returns an exit status if the program must end: 0 after --help and
 * --version, 2 for wrong arguments. */
std::optional<int> parse(CLI::App& app, int argc, char** argv);

using Clock = std::chrono::steady_clock;
inline double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}
/** Runs `body` and returns how many microseconds it took. */
template <typename Body>
double timed(Body body) {
  const Clock::time_point start = Clock::now();
  body();
  return us_since(start);
}

/** The first adapter of dat.conf. */
std::string first_adapter();

/** An open adapter with a protection zone. */
class Adapter {
 public:
  void open(const std::string& name);
  void close();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] DAT_IA_HANDLE ia() const { return ia_; }
  [[nodiscard]] DAT_PZ_HANDLE pz() const { return pz_; }
  [[nodiscard]] const DAT_IA_ATTR& attributes() const { return attributes_; }
  [[nodiscard]] const sockaddr* address() const {
    return reinterpret_cast<const sockaddr*>(attributes_.ia_address_ptr);
  }
  /** The value of a named attribute of the provider; empty if it has none of that name. */
  [[nodiscard]] std::string named(std::string_view attribute) const;
  [[nodiscard]] bool has(std::string_view attribute) const { return named(attribute) == "TRUE"; }
  [[nodiscard]] std::span<const DAT_NAMED_ATTR> all_named() const;
  /** Fails if the adapter has reported an asynchronous event, such as a queue overflow. Events
   * named `ignored_ep` are ignored. */
  void check_async(const char* ignored_ep = nullptr) const;
  [[nodiscard]] DAT_EVD_HANDLE evd(DAT_COUNT length, DAT_EVD_FLAGS flags,
                                   DAT_CNO_HANDLE cno = DAT_HANDLE_NULL) const;

  double open_us = 0;
  double close_us = 0;
  double pz_create_us = 0;
  double pz_free_us = 0;

 private:
  std::string name_;
  DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async_evd_ = DAT_HANDLE_NULL;
  DAT_PZ_HANDLE pz_ = DAT_HANDLE_NULL;
  DAT_IA_ATTR attributes_{};
  DAT_PROVIDER_ATTR provider_{};
};

/** Zeroed and registered memory. */
class Memory {
 public:
  void create(const Adapter& adapter, std::size_t size, DAT_MEM_PRIV_FLAGS more = {});
  void free();

  [[nodiscard]] std::byte* at(std::size_t offset) const { return bytes_.get() + offset; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] DAT_LMR_TRIPLET segment(std::size_t offset, std::size_t length) const;
  [[nodiscard]] DAT_RMR_CONTEXT rmr_context() const { return rmr_context_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = 0;
  DAT_LMR_HANDLE lmr_ = DAT_HANDLE_NULL;
  DAT_LMR_CONTEXT lmr_context_ = 0;
  DAT_RMR_CONTEXT rmr_context_ = 0;
};

/** The description of a side's memory that it sends to its peer: 16 bytes on the wire, big-endian.
 */
struct RemoteBuffer {
  static constexpr std::size_t kSize = 16;
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t context = 0;

  void write(std::byte* to) const;
  static RemoteBuffer read(const std::byte* from);
  [[nodiscard]] DAT_RMR_TRIPLET triplet(std::size_t size) const;
};

/** The address as text, such as "127.0.0.1", and its port. */
std::string numeric(const sockaddr* address);
unsigned port_of(const sockaddr* address);
/** Text such as "AF_INET - 127.0.0.1 port 45248". */
std::string family_and_address(const sockaddr* address, unsigned port);
/** The address of a host; calls fail() if there is none. */
sockaddr_storage resolve(const std::string& host);

inline DAT_DTO_COOKIE cookie(std::uint64_t number) {
  DAT_DTO_COOKIE cookie{};
  cookie.as_64 = number;
  return cookie;
}

}  // namespace dtest
