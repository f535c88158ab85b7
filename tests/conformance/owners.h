// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "checks.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

// Owners for the objects of the API, and an IA and memory based on them.
namespace conformance {

// A handle with its free function; freed at the end unless released. A failing free fails the test.
template <class Handle, DAT_RETURN (*kFree)(Handle)>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle handle) : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() {
    if (handle_ == nullptr) return;
    const DAT_RETURN rc = kFree(handle_);
    BOOST_CHECK_MESSAGE(rc == DAT_SUCCESS, "free -> " << describe(rc));
  }

  operator Handle() const { return handle_; }
  Handle* out() { return &handle_; }
  Handle release() { return std::exchange(handle_, nullptr); }

 private:
  Handle handle_ = nullptr;
};

using Evd = Owner<DAT_EVD_HANDLE, dat_evd_free>;
using Cno = Owner<DAT_CNO_HANDLE, dat_cno_free>;
using Pz = Owner<DAT_PZ_HANDLE, dat_pz_free>;
using Ep = Owner<DAT_EP_HANDLE, dat_ep_free>;
using Srq = Owner<DAT_SRQ_HANDLE, dat_srq_free>;
using Psp = Owner<DAT_PSP_HANDLE, dat_psp_free>;
using Rsp = Owner<DAT_RSP_HANDLE, dat_rsp_free>;
using Rmr = Owner<DAT_RMR_HANDLE, dat_rmr_free>;
using LmrHandle = Owner<DAT_LMR_HANDLE, dat_lmr_free>;

// An open IA with its attributes. Closed gracefully at the end, which proves that the test left
// nothing behind.
struct Ia {
  explicit Ia(std::string name = options().ia);
  ~Ia();
  Ia(const Ia&) = delete;
  Ia& operator=(const Ia&) = delete;
  operator DAT_IA_HANDLE() const { return handle; }

  DAT_RETURN close(DAT_CLOSE_FLAGS flags);  // instead of the destructor's

  DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  DAT_IA_ATTR attr{};
  // DAT_PROVIDER_ATTR has a const member, so it is stored as bytes.
  [[nodiscard]] const DAT_PROVIDER_ATTR& provider() const {
    return *reinterpret_cast<const DAT_PROVIDER_ATTR*>(provider_bytes_);
  }

 private:
  alignas(DAT_PROVIDER_ATTR) std::byte provider_bytes_[sizeof(DAT_PROVIDER_ATTR)] = {};
};

Evd make_evd(DAT_IA_HANDLE ia, DAT_EVD_FLAGS flags, DAT_COUNT qlen = 64,
             DAT_CNO_HANDLE cno = nullptr);
Pz make_pz(DAT_IA_HANDLE ia);

// A conn qual that no other suite uses, at whose TCP port no program listens, and that this process
// has not used in the last thousand calls.
DAT_CONN_QUAL fresh_conn_qual();

// Memory with an LMR over all of it.
struct Buffer {
  Buffer(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, std::size_t size,
         DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_ALL_FLAG);
  void fill(std::uint8_t seed);  // with a pattern that depends on seed and offset
  [[nodiscard]] bool holds(std::uint8_t seed, std::size_t length, std::size_t offset = 0) const;
  [[nodiscard]] DAT_LMR_TRIPLET local(std::size_t length, std::size_t offset = 0) const;
  [[nodiscard]] DAT_LMR_TRIPLET local() const { return local(bytes.size()); }
  [[nodiscard]] DAT_RMR_TRIPLET remote(std::size_t length, std::size_t offset = 0) const;

  struct Free {
    void operator()(void* allocated) const noexcept { std::free(allocated); }
  };
  // Zero, but not touched, because a stalled Send has 64 MB.
  std::unique_ptr<std::uint8_t[], Free> memory;
  std::span<std::uint8_t> bytes;  // all of it
  LmrHandle lmr;
  DAT_LMR_CONTEXT lmr_context = 0;
  DAT_RMR_CONTEXT rmr_context = 0;
};

DAT_DTO_COOKIE cookie(std::uint64_t value);

// An enumeration with a value that no enumerator has, as a careless C program would pass it.
template <class Enum>
Enum not_an_enumerator(unsigned value) {
  static_assert(sizeof(Enum) == sizeof value);
  Enum result;
  std::memcpy(&result, &value, sizeof value);
  return result;
}

// EP attributes that every provider supports.
DAT_EP_ATTR default_ep_attr(const Ia& ia);

}  // namespace conformance
