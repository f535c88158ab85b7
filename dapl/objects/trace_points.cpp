// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "dapl/objects/trace_points.h"

#include "common/dat_names.h"
#include "common/tracing/trace.h"
#include "dapl/objects/traced_call.h"

#include <cstdio>
#include <cstring>

namespace udapl::dapl {

using trace::Kind;

trace::Identity identify(const void* object) noexcept {
  if (!is_address(const_cast<void*>(object))) return {};
  const auto* const header = static_cast<const ObjectHeader*>(object);
  const std::uint32_t tag = header->tag.load(std::memory_order_relaxed);
  for (int type = DAT_HANDLE_TYPE_CR; type < DAT_HANDLE_TYPE_EXTENSION_BASE; ++type) {
    if (tag != ObjectHeader::tag_of(static_cast<DAT_HANDLE_TYPE>(type))) continue;
    return {header->provider->device_name, handle_type_name(static_cast<DAT_HANDLE_TYPE>(type))};
  }
  return {};
}

namespace {

const char* name_of(DAT_RETURN code) noexcept {
  const char* const name = type_name(code);
  return name != nullptr ? name : "unknown error";
}

// "127.0.0.1:45248", "[2001:db8:0:0:0:0:0:1]:45248"; "?" for no address.
void put_address(const transport::SocketAddress& address, DAT_PORT_QUAL port, char* text,
                 std::size_t room) noexcept {
  if (address.family() == AF_INET) {
    unsigned char bytes[4];
    std::memcpy(bytes, &reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr, 4);
    std::snprintf(text, room, "%u.%u.%u.%u:%llu", bytes[0], bytes[1], bytes[2], bytes[3],
                  static_cast<unsigned long long>(port));
    return;
  }
  if (address.family() != AF_INET6) {
    std::snprintf(text, room, "?");
    return;
  }
  unsigned short group[8];
  for (int i = 0; i < 8; ++i)
    group[i] = static_cast<unsigned short>(address.storage.sin6_addr.s6_addr[2 * i] << 8 |
                                           address.storage.sin6_addr.s6_addr[2 * i + 1]);
  std::snprintf(text, room, "[%x:%x:%x:%x:%x:%x:%x:%x]:%llu", group[0], group[1], group[2],
                group[3], group[4], group[5], group[6], group[7],
                static_cast<unsigned long long>(port));
}

const char* device_of(const ObjectHeader& object) noexcept { return object.provider->device_name; }

}  // namespace

void trace_call(trace::Level level, const char* function, DAT_HANDLE handle,
                trace::Identity identity) noexcept {
  trace::emit({.level = level,
               .kind = Kind::kCall,
               .object = handle,
               .ia = identity.ia,
               .type = identity.type,
               .function = function});
}

void trace_return(trace::Level level, const char* function, DAT_HANDLE handle,
                  trace::Identity identity, DAT_RETURN code) noexcept {
  trace::emit({.level = level,
               .kind = Kind::kReturn,
               .code = code,
               .object = handle,
               .ia = identity.ia,
               .type = identity.type,
               .function = function,
               .status = name_of(code)});
}

void trace_create(const ObjectHeader& object, DAT_HANDLE_TYPE type) noexcept {
  trace::emit({.level = trace::kCalls,
               .kind = Kind::kCreate,
               .object = &object,
               .ia = device_of(object),
               .type = handle_type_name(type)});
}

void trace_free(const ObjectHeader& object, DAT_HANDLE_TYPE type) noexcept {
  trace::emit({.level = trace::kCalls,
               .kind = Kind::kFree,
               .object = &object,
               .ia = device_of(object),
               .type = handle_type_name(type)});
}

namespace point {

void state(const ObjectHeader& ep, EpInput why, DAT_EP_STATE from, DAT_EP_STATE to) noexcept {
  trace::emit({.level = trace::kNormal,
               .kind = Kind::kState,
               .object = &ep,
               .ia = device_of(ep),
               .type = "EP",
               .function = name(why),
               .text = name(to),
               .detail = name(from)});
}

void connection(const ObjectHeader& object, DAT_EVENT_NUMBER number,
                const transport::Endpoints& ends, transport::PrivateData data) noexcept {
  char local[64];
  char remote[64];
  char both[160];
  put_address(ends.local, ends.local_port, local, sizeof local);
  put_address(ends.remote, ends.remote_port, remote, sizeof remote);
  std::snprintf(both, sizeof both, "local %s remote %s", local, remote);
  trace::emit({.level = trace::kNormal,
               .kind = Kind::kConnection,
               .length = data.size(),
               .object = &object,
               .function = "event",
               .text = event_name(number),
               .detail = both});
  if (data.empty() || !trace::enabled(trace::kPayload)) return;
  char hex[2 * 256 + 1];
  const std::size_t shown = data.size() < 256 ? data.size() : 256;
  for (std::size_t i = 0; i < shown; ++i)
    std::snprintf(hex + 2 * i, 3, "%02x", std::to_integer<unsigned>(data[i]));
  trace::emit({.level = trace::kPayload,
               .kind = Kind::kMessage,
               .object = &object,
               .function = "private_data",
               .text = hex});
}

void arm(const ObjectHeader& object, const char* what) noexcept {
  trace::emit({.level = trace::kDetail,
               .kind = Kind::kArm,
               .object = &object,
               .function = "arm",
               .text = what});
}

void wake(const ObjectHeader& object, const char* why) noexcept {
  trace::emit({.level = trace::kDetail,
               .kind = Kind::kWake,
               .object = &object,
               .function = "wake",
               .text = why});
}

}  // namespace point
}  // namespace udapl::dapl
