// SPDX-License-Identifier: MIT OR GPL-2.0-only
#pragma once

#include <cstdint>

// The record of a trace point. The interface between our libraries and the library of LTTng probes,
// which is loaded into the same process but built separately: add members only at the end.
namespace udapl::trace {

enum class Kind : std::uint32_t {
  kMessage,     // text
  kError,       // text: why something failed; code: a DAT_RETURN, or 0
  kCall,        // a control function begins: function
  kReturn,      // ... and ends: code, status
  kState,       // text: new state, detail: old state, function: what caused it
  kConnection,  // text: what happened, detail: both addresses, "local remote"
  kPost,        // text: operation, cookie, length, code: completion flags
  kCompletion,  // text: operation, cookie, length, status, code: its number, other: the EVD
  kArm,         // an EVD or its queue requests a wake-up: text
  kWake,        // a wake-up arrived: text
  kCreate,      // of an object; code: 0
  kFree,        //
  kFrame,      // the transport sends or gets a message: text, detail: "out" or "in", length, cookie
  kVerbsCall,  // a control call of verbs or rdma_cm ended: function, text: of what, code, status
  kVerbsEvent,  // one of their events: function: "rdma_cm" or "async", text: its name, code, status
  kVerbsWork,   // a completion with an error: text: the queue, cookie, code, status, number: the
                // QP's, vendor_error
};

struct Record {
  std::uint32_t size = sizeof(Record);
  std::int32_t level = 0;
  Kind kind = Kind::kMessage;
  std::int64_t code = 0;
  std::uint64_t cookie = 0;
  std::uint64_t length = 0;
  const void* object = nullptr;  // the handle it is about; null: none
  const void* other = nullptr;   // a second one
  // Texts are never null when a probe sees them.
  const char* component = "";  // "dat", "dapl-soft": the library
  const char* ia = "";         // name of the IA that the object belongs to
  const char* type = "";       // "EP", "EVD" ...: kind of the object
  const char* function = "";   // where
  const char* text = "";
  const char* detail = "";
  const char* status = "";  // the name of `code` or of a status
  std::uint32_t number = 0;
  std::uint32_t vendor_error = 0;
};

// The type of udapl_trace_probe_1(), which the probe library exports. Called by any thread; never
// blocks.
using Probe = void (*)(const Record*);

}  // namespace udapl::trace

extern "C" {
// Defined by the probe library. Weak: null where that is not loaded, which is the usual case.
[[gnu::weak, gnu::visibility("default")]] void udapl_trace_probe_1(
    const udapl::trace::Record* record);
}
