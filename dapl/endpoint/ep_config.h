// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/block_cache.h"
#include "dapl/endpoint/srq.h"
#include "dapl/events/evd.h"
#include "dapl/memory/pz.h"
#include "dapl/objects/object.h"
#include "dapl/transport/adapter.h"

#include <memory>

namespace udapl::dapl {

// The consumer's configuration, which dat_ep_query returns and dat_ep_modify changes.
struct EpConfig {
  Pz* pz = nullptr;
  Evd* recv_evd = nullptr;
  Evd* request_evd = nullptr;
  Evd* connect_evd = nullptr;
  Srq* srq = nullptr;
  DAT_COMM comm{};  // domain 0: not set
  DAT_EP_ATTR attr{};
  bool delayed_ack = false;         // the named attribute; attr shows it (named_attributes.h)
  bool default_read_depths = true;  // the consumer has not set them: queries show those in use
};

// The handles of an EP's objects as the consumer passes them; each may be null.
struct EpHandles {
  DAT_PZ_HANDLE pz;
  DAT_EVD_HANDLE recv_evd;
  DAT_EVD_HANDLE request_evd;
  DAT_EVD_HANDLE connect_evd;
};
// Stores in the configuration the objects of those handles whose fields are in `mask`.
// INVALID_HANDLE.
[[nodiscard]] Status read_handles(const EpHandles& handles, DAT_EP_PARAM_MASK mask,
                                  EpConfig* config) noexcept;

// Outstanding requests and receives of an EP that is made without attributes.
inline constexpr DAT_COUNT kDefaultDtos = 16;

// The attributes of an EP made without any (docs/semantics.md#default-attributes), with `dtos` in
// each direction if the adapter has them.
[[nodiscard]] DAT_EP_ATTR default_attributes(const transport::Attributes& limits,
                                             DAT_COUNT dtos) noexcept;

// The effective numbers of the attributes: existing programs never had to set these carefully, so
// values beyond the adapter's limit are clamped to it (docs/compatibility.md C67). Queries return
// them as they were set.
struct EpLimits {
  DAT_COUNT recv_segments;
  DAT_COUNT request_segments;
  DAT_COUNT read_segments;
  DAT_COUNT write_segments;
  DAT_COUNT rdma_read_in;
  DAT_COUNT rdma_read_out;
};
[[nodiscard]] EpLimits effective_limits(const transport::Attributes& limits,
                                        const EpConfig& config) noexcept;

// Checks that the objects belong together and the attributes are within the limits; traces the
// reason of a refusal. INVALID_HANDLE with the object's subtype, INVALID_PARAMETER with subtype
// `arg`.
[[nodiscard]] Status check_config(const Ia& ia, const EpConfig& config, DAT_RETURN arg) noexcept;
// Checks for a new EP that a direction with an EVD also has DTOs. A direction with DTOs needs no
// EVD: its completions are discarded. INVALID_PARAMETER with subtype `arg`.
[[nodiscard]] Status check_directions(const EpConfig& config, DAT_RETURN arg) noexcept;

// For its lifetime, counts as a use of each object of an EP and keeps the EP's streams attached to
// the EVDs. Not thread-safe: the Ep's lock protects it.
class EpBindings final {
 public:
  explicit EpBindings(const EpConfig& config) noexcept;
  ~EpBindings() { detach(); }
  EpBindings(const EpBindings&) = delete;
  EpBindings& operator=(const EpBindings&) = delete;
  static void* operator new(std::size_t) { return BlockCache<EpBindings>::allocate(); }
  static void operator delete(void* block) noexcept { BlockCache<EpBindings>::release(block); }

  // Attaches the streams to the EVDs.
  void attach() noexcept;
  void detach() noexcept;

 private:
  Use<Pz> pz_;
  Use<Evd> recv_evd_;
  Use<Evd> request_evd_;
  Use<Evd> connect_evd_;
  Use<Srq> srq_;
  CompletionMode recv_mode_;
  CompletionMode request_mode_;
  bool attached_ = false;
};

// Whether the communicator is supported: {AF_INET or AF_INET6, SOCK_STREAM, default or TCP}.
[[nodiscard]] bool is_supported(const DAT_COMM& comm) noexcept;

}  // namespace udapl::dapl
