// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/environment.h"

#include "common/trace.h"

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <limits>

namespace udapl::verbs {

namespace {

constexpr std::uint32_t kMaxMilliseconds = std::numeric_limits<std::int32_t>::max();
constexpr std::uint32_t kMaxRetries = 1000;

class Reader {
 public:
  explicit Reader(const std::function<const char*(const char*)>& lookup) : lookup_(lookup) {}

  // Stores the value of `name`, if there is one from `least` to `most`.
  template <class Field>
  void number(const char* name, Field& field, std::uint32_t least, std::uint32_t most) const {
    const char* const text = lookup_(name);
    if (text == nullptr || *text == '\0') return;
    char* end = nullptr;
    errno = 0;
    const unsigned long value = std::strtoul(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || value < least ||
        value > most) {
      UDAPL_TRACE(kError, "%s: \"%s\" is not a number from %u to %u and is ignored", name, text,
                  least, most);
      return;
    }
    store(field, value);
  }

  void mtu(const char* name, std::optional<std::uint32_t>& field) const {
    std::optional<std::uint32_t> value;
    number(name, value, 256, 4096);
    if (value && std::has_single_bit(*value))
      field = value;
    else if (value)
      UDAPL_TRACE(kError, "%s: %u is no MTU (256, 512, 1024, 2048 or 4096) and is ignored", name,
                  *value);
  }

 private:
  template <class T>
  static void store(T& field, unsigned long value) {
    field = static_cast<T>(value);
  }
  template <class T>
  static void store(std::optional<T>& field, unsigned long value) {
    field = static_cast<T>(value);
  }

  const std::function<const char*(const char*)>& lookup_;
};

}  // namespace

Environment Environment::read() {
  return from([](const char* name) -> const char* { return ::secure_getenv(name); });
}

Environment Environment::from(const std::function<const char*(const char* name)>& lookup) {
  const Reader read(lookup);
  Environment e;
  read.number("DAPL_CM_ARP_TIMEOUT_MS", e.arp_timeout_ms, 1, kMaxMilliseconds);
  read.number("DAPL_CM_ARP_RETRY_COUNT", e.arp_retries, 0, kMaxRetries);
  read.number("DAPL_CM_ROUTE_TIMEOUT_MS", e.route_timeout_ms, 1, kMaxMilliseconds);
  read.number("DAPL_CM_ROUTE_RETRY_COUNT", e.route_retries, 0, kMaxRetries);
  read.number("DAPL_CM_TOS", e.tos, 0, 255);
  read.number("DAPL_ACK_RETRY", e.retry_count, 0, 7);
  read.number("DAPL_RNR_RETRY", e.rnr_retry, 0, 7);
  read.number("DAPL_ACK_TIMER", e.ack_timer, 0, 31);
  read.number("DAPL_RNR_TIMER", e.rnr_timer, 0, 31);
  read.mtu("DAPL_IB_MTU", e.path_mtu);
  read.number("DAPL_IB_PKEY", e.pkey, 0, 0xffff);
  if (e.pkey == 0) e.pkey.reset();  // the first of the port, as without
  read.number("DAPL_IB_SL", e.service_level, 0, 15);
  read.number("DAPL_WR_MAX", e.max_work, 1, std::numeric_limits<std::int32_t>::max());
  read.number("DAPL_MAX_INLINE", e.max_inline, 0, 1 << 16);
  return e;
}

}  // namespace udapl::verbs
