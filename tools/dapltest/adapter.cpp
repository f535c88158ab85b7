// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Adapters, addresses and memory.
#include "endpoint.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace dapltest {
namespace {

bool is_registered(const std::string& device, bool thread_safe) {
  std::vector<DAT_PROVIDER_INFO> infos(256);
  std::vector<DAT_PROVIDER_INFO*> pointers;
  for (DAT_PROVIDER_INFO& info : infos) {
    pointers.push_back(&info);
  }
  DAT_COUNT count = 0;
  if (dat_registry_list_providers(static_cast<DAT_COUNT>(infos.size()), &count, pointers.data()) !=
      DAT_SUCCESS) {
    return false;
  }
  return std::any_of(infos.begin(), infos.begin() + std::clamp<DAT_COUNT>(count, 0, 256),
                     [&](const DAT_PROVIDER_INFO& info) {
                       return device == info.ia_name &&
                              (info.is_thread_safe == DAT_TRUE) == thread_safe;
                     });
}

}  // namespace

// ---- Adapter and Address

std::string first_adapter() {
  std::vector<DAT_PROVIDER_INFO> infos(1);
  DAT_PROVIDER_INFO* pointers[] = {infos.data()};
  DAT_COUNT count = 0;
  const DAT_RETURN status = dat_registry_list_providers(1, &count, pointers);
  // If there are more, the call fails but still fills in the first, which is enough.
  if (status != DAT_SUCCESS && count < 1 && infos[0].ia_name[0] == '\0') {
    return {};
  }
  return infos[0].ia_name;
}

DAT_RETURN open_ia(const std::string& device, Ia& ia) {
  std::string name = device.empty() ? first_adapter() : device;
  // No two threads use the same handle, so either kind of entry will do.
  const bool thread_safe = !is_registered(name, false) && is_registered(name, true);
  DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
  return dat_ia_openv(name.data(), 8, &async_evd, ia.out(), DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                      thread_safe ? DAT_TRUE : DAT_FALSE);
}

bool Adapter::open(const std::string& device) {
  if (device.empty() && first_adapter().empty()) {
    // Let the registry explain where it looked.
    const std::string why = describe(open_ia("any", ia_));
    return fail("dat.conf names no adapter" + why.substr(std::min(why.find('\n'), why.size())));
  }
  return ok(open_ia(device, ia_),
            fmt::format("opening the adapter '{}'", device.empty() ? first_adapter() : device)) &&
         ok(dat_ia_query(ia_.get(), nullptr, DAT_IA_FIELD_ALL, &attributes_, 0, nullptr),
            "querying the attributes of the adapter");
}

std::string Adapter::address() const {
  Address own;
  const auto* const address = reinterpret_cast<const sockaddr*>(attributes_.ia_address_ptr);
  if (address == nullptr) {
    return "?";
  }
  std::memcpy(own.storage, address,
              address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  return own.text();
}

bool Address::resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return fail(fmt::format("{}: {}", host, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::memcpy(storage, found->ai_addr, std::min<std::size_t>(found->ai_addrlen, sizeof storage));
  return true;
}

std::string Address::text() const {
  char buffer[NI_MAXHOST] = "?";
  const auto* const address = reinterpret_cast<const sockaddr*>(storage);
  const socklen_t size =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  getnameinfo(address, size, buffer, sizeof buffer, nullptr, 0, NI_NUMERICHOST);
  return buffer;
}

// ---- Memory

void Memory::Free::operator()(std::byte* memory) const { std::free(memory); }

bool Memory::create(const Adapter& adapter, DAT_PZ_HANDLE pz, std::size_t size) {
  constexpr std::size_t kPage = 4096;
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + kPage - 1) / kPage * kPage;
  bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, rounded)));
  if (bytes_ == nullptr) {
    return fail(fmt::format("no memory for {} bytes", size));
  }
  std::memset(bytes_.get(), 0, rounded);
  DAT_REGION_DESCRIPTION description{};
  description.for_va = bytes_.get();
  DAT_VLEN registered_size = 0;
  DAT_VADDR registered_address = 0;
  return ok(dat_lmr_create(adapter.handle(), DAT_MEM_TYPE_VIRTUAL, description, rounded, pz,
                           DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, lmr_.out(), &lmr_context_,
                           &rmr_context_, &registered_size, &registered_address),
            fmt::format("registering {} bytes", rounded));
}

DAT_LMR_TRIPLET Memory::segment(std::span<const std::byte> data) const {
  DAT_LMR_TRIPLET result{};
  result.lmr_context = lmr_context_;
  result.virtual_address = reinterpret_cast<std::uintptr_t>(data.data());
  result.segment_length = static_cast<DAT_SEG_LENGTH>(data.size());
  return result;
}

}  // namespace dapltest
