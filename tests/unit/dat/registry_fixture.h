// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string>

#include "tests/unit/dat/fake_provider.h"

// Shared by the tests of the registry.
namespace registry_test {

inline constexpr DAT_RETURN kNameNotRegistered = 0x800A0064U;
inline constexpr DAT_RETURN kMajorNotFound = 0x800A0065U;
inline constexpr DAT_RETURN kMinorNotFound = 0x800A0066U;
inline constexpr DAT_RETURN kThreadSafetyNotFound = 0x800A0067U;
inline constexpr DAT_RETURN kInvalidState = 0x80070000U;
inline constexpr DAT_RETURN kInvalidIa = 0x8005000BU;
inline constexpr DAT_RETURN kAlreadyRegistered = 0x80100000U;
inline constexpr DAT_RETURN kInUse = 0x80110000U;
inline constexpr DAT_RETURN kNotImplemented = 0xBFFF0000U;
inline constexpr DAT_RETURN kUnreachable =
    0x00120000U;  // without class bits, as OpenFabrics returns it

inline std::string line(const std::string& name, int library, const std::string& version = "u2.0",
                        const std::string& safety = "nonthreadsafe") {
  return name + ' ' + version + ' ' + safety + " default lib" + std::to_string(library) +
         ".so dapl.2.0 \"" + name + " params\" \"\"\n";
}

inline DAT_PROVIDER_INFO info_of(const std::string& name, DAT_UINT32 major = 2,
                                 DAT_UINT32 minor = 0) {
  DAT_PROVIDER_INFO info{};
  name.copy(info.ia_name, sizeof info.ia_name - 1);
  info.dapl_version_major = major;
  info.dapl_version_minor = minor;
  return info;
}

struct Fixture {
  fake::World world;
  fake::Provider a{"ia"};
  fake::Provider b{"ia"};
  DAT_IA_HANDLE ia = nullptr;
};

}  // namespace registry_test
