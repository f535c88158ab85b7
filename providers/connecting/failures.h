// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include "common/result.h"

// What an errno of bind, listen or connect means to the consumer, of a socket or of rdma_cm.
namespace udapl {

// The Status of transport::Adapter::listen for an errno of bind or listen.
// `any_port`: no port was asked for. That an address has gone is no occupied port: a program that
// looks for a free one would ask for each.
[[nodiscard]] Status listen_failure(int error, bool any_port) noexcept;

// The Status of transport::Qp::connect. Success: the peer is unreachable, or refuses, which is told
// by an event. So it is when the address of the adapter has gone: a cable that was pulled is
// nothing that the caller did wrong or has too little of.
[[nodiscard]] Status connect_failure(int error) noexcept;

}  // namespace udapl
