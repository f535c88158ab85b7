// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dat/advice.h"

#include <cerrno>
#include <cstring>
#include <system_error>

#include "dat/text.h"

namespace udapl::dat {

namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool has_error(std::string_view text, int error) {
  const char* const name = ::strerrorname_np(error);
  return has(text, std::generic_category().message(error)) || (name != nullptr && has(text, name));
}

constexpr std::string_view kGenerate =
    "`datinfo generate > FILE`, which writes entries for this machine, and DAT_OVERRIDE=FILE in "
    "the "
    "program's environment";

}  // namespace

// The linker's texts are not localised; "<library>: <what is wrong>: <errno text>".
std::string advice_for_library(std::string_view path, std::string_view failure) {
  if (path.empty()) return "the name of a provider library in the fifth field";
  if (has(failure, "undefined symbol") || has(failure, "version `"))
    return "a build of " + in_quotes(path) + " that fits the libraries of this machine";
  if (has(failure, "invalid ELF header") || has(failure, "file too short") ||
      has(failure, "wrong ELF class") || has(failure, "not a dynamic"))
    return "a shared library for this processor: " + in_quotes(path) + " is not one";
  if (has(failure, "failed to map segment") || has(failure, "Cannot allocate memory"))
    return "higher limits of memory for this process (ulimit -v), or a file system that permits "
           "programs";
  if (has_error(failure, EMFILE))
    return "a higher limit of open files for this process (ulimit -n)";
  if (has_error(failure, EACCES))
    return "permission to read and execute " + in_quotes(path) + " for this user";
  if (has_error(failure, ENOENT) && !failure.starts_with(path))
    return "the package that has the library which " + in_quotes(path) + " needs (ldd shows them)";
  if (has_error(failure, ENOENT) && path.find('/') == std::string_view::npos)
    return "the package that has " + in_quotes(path) +
           ", or its folder in LD_LIBRARY_PATH, or its whole path in the fifth field";
  if (has_error(failure, ENOENT))
    return "the right path in the fifth field, or a bare library name";
  return {};
}

std::string advice_for_no_entry_points(std::string_view path) {
  return "the library of a DAT 2.0 provider in the fifth field: " + in_quotes(path) + " is not one";
}

std::string advice_for_no_registration() {
  return "parameters in the seventh field that this provider understands, and the version that it "
         "has in the second";
}

std::string advice_for_status(DAT_RETURN status, bool reason_given) {
  switch (status & DAT_TYPE_MASK) {
    case DAT_INVALID_ADDRESS:
      return "a network interface or address of this machine in the seventh field; `datinfo "
             "generate` writes entries that fit";
    case DAT_PRIVILEGES_VIOLATION:
      return "as a user who may read and write the files of /dev/infiniband";
    case DAT_INSUFFICIENT_RESOURCES:
      return reason_given ? std::string()
                          : "higher limits of open files (ulimit -n) and locked memory (ulimit -l)";
    default:
      break;
  }
  if (reason_given) return {};
  return "DAPL_DBG_TYPE=0xffff in the environment, with which OpenFabrics providers print more, on "
         "their standard output";
}

std::string advice_for_file(std::string_view path, std::string_view failure) {
  if (has_error(failure, EACCES))
    return "permission to read " + in_quotes(path, 256) + " and to enter its folders for this user";
  if (has_error(failure, EISDIR)) return "a file, " + in_quotes(path, 256) + " is a folder";
  if (has_error(failure, EMFILE))
    return "a higher limit of open files for this process (ulimit -n)";
  return std::string(kGenerate);
}

}  // namespace udapl::dat
