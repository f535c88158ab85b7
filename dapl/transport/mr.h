// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"
#include "dapl/transport/types.h"

#include <optional>

namespace udapl::transport {

// A protection domain: QPs, MRs, windows and SRQs of different domains cannot touch each other.
// Owned by a PZ, which outlives everything made in it.
class Pd {
 public:
  virtual ~Pd() = default;
};

struct MrInit {
  DAT_VADDR address;  // of the first byte in this process
  DAT_VLEN length;    // bytes, > 0; address + length does not wrap (the core has checked)
  DAT_MEM_PRIV_FLAGS privileges;
  DAT_VA_TYPE va_type;
};

// Registered memory. The destructor revokes: when it returns, no remote access to the memory is
// running or will start.
class Mr {
 public:
  virtual ~Mr() = default;

  [[nodiscard]] virtual DAT_LMR_CONTEXT lmr_context() const noexcept = 0;
  // The key for peers. Memory without a remote privilege has one as well, but peers that use it are
  // refused the access (docs/compatibility.md C139).
  [[nodiscard]] virtual DAT_RMR_CONTEXT rmr_context() const noexcept = 0;

  // Whether a window is bound to it, or a bind is posted and has not failed. Then it must not be
  // destroyed.
  [[nodiscard]] virtual bool has_windows() const noexcept = 0;
};

// The QPs through which a window is accessible: all of its domain, or the one it was bound through.
enum class WindowScope { kPd, kQp };

// The access that a window grants.
struct Binding {
  DAT_LMR_TRIPLET range;
  DAT_MEM_PRIV_FLAGS privileges;
  DAT_VA_TYPE va_type;
};

// A memory window (an RMR). Bound through a QP (Qp::post_bind). The destructor unbinds and revokes
// as ~Mr does.
class Window {
 public:
  virtual ~Window() = default;

  // The context of the latest posted bind; 0 if there was none or it was an unbind.
  [[nodiscard]] virtual DAT_RMR_CONTEXT rmr_context() const noexcept = 0;
  // The current binding; none if never bound, unbound or invalidated by the peer.
  [[nodiscard]] virtual std::optional<Binding> binding() const noexcept = 0;
};

// Arguments of a bind beside the id and flags. length 0 in `range` unbinds (mr may be null then).
struct BindRequest {
  Window* window;
  Mr* mr;
  DAT_LMR_TRIPLET range;
  DAT_MEM_PRIV_FLAGS privileges;  // remote ones only
  DAT_VA_TYPE va_type;
};

}  // namespace udapl::transport
