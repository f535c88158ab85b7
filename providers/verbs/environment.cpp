// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "providers/verbs/environment.h"

#include "common/tracing/trace.h"

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
  explicit Reader(const Environment::Lookup& lookup) : lookup_(lookup) {}

  // Stores the value of `name` if it is a number from `least` to `most`.
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
      UDAPL_TRACE(kError, "%s: %u is not an MTU (256, 512, 1024, 2048 or 4096) and is ignored",
                  name, *value);
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

  const Environment::Lookup& lookup_;
};

constexpr const char* kPathMtu =
    "a connection uses the MTU of its path at both ends; only DAT_IB_TRANSPORT_MTU shows the "
    "variable";
constexpr const char* kServiceLevel =
    "the subnet administrator sets it for the path and may take DAPL_CM_TOS into account";
constexpr const char* kRoute = "rdma_cm makes the route; DAPL_CM_TOS is its traffic class";
constexpr const char* kCmTimes =
    "rdma_cm has its own, and OpenFabrics' provider for it did not use it";
constexpr const char* kNoSockets = "dat.conf names the interface, and connections use no TCP";
constexpr const char* kUcm = "it concerns messages of the UCM provider";
constexpr const char* kMcm = "it concerns the proxy of the MCM provider";
constexpr const char* kNothing = "no provider uses it";

// Variables of the OpenFabrics providers that this one does not use.
constexpr Ineffective kIneffective[] = {{"DAPL_IB_MTU", kPathMtu},
                                        {"DAPL_IB_SL", kServiceLevel},
                                        {"DAPL_GLOBAL_ROUTING", kRoute},
                                        {"DAPL_HOP_LIMIT", kRoute},
                                        {"DAPL_TCLASS", kRoute},
                                        {"DAPL_MAX_CM_RESPONSE_TIME", kCmTimes},
                                        {"DAPL_MAX_CM_RETRIES", kCmTimes},
                                        {"DAPL_SCM_NETDEV", kNoSockets},
                                        {"DAPL_NETWORK_NODES", kUcm},
                                        {"DAPL_NETWORK_PPN", kUcm},
                                        {"DAPL_NETWORK_PROCESS_NUM", kUcm},
                                        {"DAPL_NETWORK_TRESHOLD", kUcm},
                                        {"DAPL_UCM_RETRY", kUcm},
                                        {"DAPL_UCM_REP_TIME", kUcm},
                                        {"DAPL_UCM_RTU_TIME", kUcm},
                                        {"DAPL_UCM_DREQ_RETRY", kUcm},
                                        {"DAPL_UCM_DREP_TIME", kUcm},
                                        {"DAPL_UCM_WAIT_TIME", kUcm},
                                        {"DAPL_UCM_TIMER", kUcm},
                                        {"DAPL_UCM_QP_SIZE", kUcm},
                                        {"DAPL_UCM_CQ_SIZE", kUcm},
                                        {"DAPL_UCM_TX_BURST", kUcm},
                                        {"DAPL_UCM_ENTRY_BITS", kUcm},
                                        {"DAPL_UCM_ARRAY_BITS", kUcm},
                                        {"DAPL_MCM_MFO", kMcm},
                                        {"DAPL_MCM_ALWAYS_PROXY", kMcm},
                                        {"DAPL_MCM_PORT_ID", kMcm},
                                        {"DAPL_MCM_WR_MAX", kMcm},
                                        {"DAPL_MCM_MSG_MAX", kMcm},
                                        {"DAPL_DBG_SYS_MEM", kNothing},
                                        {"DAPL_LOOPBACK", kNothing}};

}  // namespace

const char* Environment::of_process(const char* name) noexcept { return ::secure_getenv(name); }

Environment Environment::from(const Lookup& lookup) {
  const Reader read(lookup);
  Environment e;
  read.number("DAPL_CM_ARP_TIMEOUT_MS", e.arp_timeout_ms, 1, kMaxMilliseconds);
  read.number("DAPL_CM_ARP_RETRY_COUNT", e.arp_retries, 0, kMaxRetries);
  read.number("DAPL_CM_ROUTE_TIMEOUT_MS", e.route_timeout_ms, 1, kMaxMilliseconds);
  read.number("DAPL_CM_ROUTE_RETRY_COUNT", e.route_retries, 0, kMaxRetries);
  read.number("DAPL_CM_RTU_TIMEOUT_MS", e.rtu_timeout_ms, 1, kMaxMilliseconds);
  read.number("DAPL_DRAIN_TIMEOUT_MS", e.drain_timeout_ms, 0, kMaxMilliseconds);
  read.number("DAPL_CM_TOS", e.tos, 0, 255);
  read.number("DAPL_ACK_RETRY", e.retry_count, 0, 7);
  read.number("DAPL_RNR_RETRY", e.rnr_retry, 0, 7);
  read.number("DAPL_ACK_TIMER", e.ack_timer, 0, 31);
  read.number("DAPL_RNR_TIMER", e.rnr_timer, 0, 31);
  read.mtu("DAPL_IB_MTU", e.path_mtu);
  read.number("DAPL_IB_PKEY", e.pkey, 0, 0xffff);
  if (e.pkey == 0) e.pkey.reset();  // 0 means the port's first partition, the default
  read.number("DAPL_WR_MAX", e.max_work, 1, std::numeric_limits<std::int32_t>::max());
  read.number("DAPL_MAX_INLINE", e.max_inline, 0, 1 << 16);
  return e;
}

std::vector<Ineffective> ineffective(const Environment::Lookup& lookup, Addressing addressing) {
  std::vector<Ineffective> found;
  const auto check = [&](const Ineffective& variable) {
    if (lookup(variable.name) != nullptr) found.push_back(variable);
  };
  for (const Ineffective& variable : kIneffective) check(variable);
  if (addressing == Addressing::kIpOnInfiniBand)
    check({"DAPL_IB_PKEY",
           "connections by IP addresses are in the partition of their interface; name its child "
           "interface, or the port by its GID"});
  if (addressing == Addressing::kIpOnEthernet)
    check({"DAPL_IB_PKEY", "Ethernet has no partitions"});
  return found;
}

}  // namespace udapl::verbs
