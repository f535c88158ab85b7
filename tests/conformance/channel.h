// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// The messages of the control channel between the two processes of a test, over a stream socket.
namespace conformance {

inline constexpr std::uint32_t kLongestMessage = 1U << 20;

// A message is its length, its kind and its bytes.
inline constexpr char kOfTest = 'T';    // a message between the sides of a test
inline constexpr char kOfResult = 'R';  // the partner's last message: its failures, or nothing

// Return false if the other end has gone, does not read, sends nothing for `patience` milliseconds,
// or sends something that is no message.
bool send_message(int fd, char kind, std::string_view bytes);
bool receive_message(int fd, int patience, char& kind, std::string& bytes);

}  // namespace conformance
