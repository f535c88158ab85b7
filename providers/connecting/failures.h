// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"

// What an errno of bind, listen or connect means to the consumer, from a socket or from rdma_cm.
namespace udapl {

// The Status of transport::Adapter::listen for an errno of bind or listen. `any_port`: the caller
// did not request a certain port. If the machine no longer has the address, that is not reported as
// an occupied port: a program that searches for a free port would try all of them.
[[nodiscard]] Status listen_failure(int error, bool any_port) noexcept;

// The Status of transport::Qp::connect. Success means that the peer is unreachable or refuses,
// which an event reports. If the machine no longer has the adapter's address, that is reported by
// an event as well: a pulled cable is neither the caller's mistake nor a lack of resources.
[[nodiscard]] Status connect_failure(int error) noexcept;

}  // namespace udapl
