// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <dat/dat_registry.h>

// A provider library for tests of registries, ours and others. The first word of an entry's
// ia_params selects its behaviour for that IA name:
//
//   good            behaves correctly
//   nothing         init registers nothing
//   twice           init registers twice
//   other_minor     init registers minor version 9
//   open_fails      its open fails with DAT_INVALID_ADDRESS without class bits, as OpenFabrics does
//   says_why        its open fails with DAT_INSUFFICIENT_RESOURCES and reports the rest of the
//                   ia_params as the cause
//   writes          its open fails and writes to stdout, as OpenFabrics providers do
//   crashes         its open ends the process with SIGABRT
//   hangs           its open does not return
//   lies            its provider attributes contain another version than was registered
//   forgets         fini does not remove the registration
//   extensions      like good, and its IA attributes say that it has extensions
//
// The variants of the library (CMakeLists.txt) differ in what they export and import.

// How the library has been used since it was loaded. Returned by its function "stub_log", which a
// test finds by dlsym.
struct StubLog {
  int inits;
  int finis;
  int opens;
  int closes;
  DAT_RETURN add_results[2];
  DAT_PROVIDER_INFO info;  // of the last init
  char params[512];        // of the last init
  DAT_COUNT qlen;          // of the last open
  int extension_op;        // the last extension operation
  DAT_HANDLE extension_handle;
  DAT_UINT64 extension_argument;
};
typedef StubLog* StubLogFunction();

// An object that the stub opens: an IA, or an object of the extension operations.
struct StubObject {
  const DAT_PROVIDER* table;
  DAT_CONTEXT context;
};

constexpr DAT_RETURN kStubOpenFailure = DAT_INVALID_ADDRESS;  // no class bits, on purpose

// Extension operations: DAT_OPEN_EXTENSION_BASE takes (name, DAT_HANDLE* object, DAT_UINT64), any
// other takes one DAT_UINT64 and returns it.
