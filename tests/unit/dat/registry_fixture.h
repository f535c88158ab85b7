// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <string>

#include "tests/unit/dat/fake_provider.h"

// Shared by the tests of the registry.
namespace registry_test {

using udapl::dat_error;

inline constexpr DAT_RETURN kNameNotRegistered =
    dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
inline constexpr DAT_RETURN kMajorNotFound = dat_error(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND);
inline constexpr DAT_RETURN kMinorNotFound = dat_error(DAT_PROVIDER_NOT_FOUND, DAT_MINOR_NOT_FOUND);
inline constexpr DAT_RETURN kThreadSafetyNotFound =
    dat_error(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND);
inline constexpr DAT_RETURN kInvalidState = dat_error(DAT_INVALID_STATE);
inline constexpr DAT_RETURN kInvalidIa = dat_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
inline constexpr DAT_RETURN kAlreadyRegistered = dat_error(DAT_PROVIDER_ALREADY_REGISTERED);
inline constexpr DAT_RETURN kInUse = dat_error(DAT_PROVIDER_IN_USE);
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
