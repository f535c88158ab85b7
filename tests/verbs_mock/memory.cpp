// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Protection domains, memory regions and windows.
#include "device.h"

#include "mock_control.h"

#include <cerrno>

namespace verbs_mock {

namespace {

constexpr int kRemoteAccess =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        int access) {
  const bool remote_write = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (remote_write && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    errno = EINVAL;
    return nullptr;
  }
  const bool paged = (access & IBV_ACCESS_ON_DEMAND) != 0;
  {
    const Lock lock(device().mutex);
    Device& own = device();
    if (paged && !own.pages) {
      errno = EOPNOTSUPP;
      return nullptr;
    }
    if (!paged && own.locked_limit != 0 && own.locked + length > own.locked_limit) {
      errno = ENOMEM;
      return nullptr;
    }
    if (paged)
      ++own.paged;
    else
      own.locked += length;
  }
  auto* const mr = new Mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  const bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  mr->region = {.pd = static_cast<Pd*>(pd)->root(),
                .start = zero_based ? 0 : iova,
                .length = length,
                .memory = static_cast<std::byte*>(address),
                .access = access,
                .qp_num = 0,
                .window = nullptr};
  const Lock lock(device().mutex);
  mr->handle = device().next_handle++;
  mr->lkey = mr->rkey = take_key();
  device().keys.emplace(mr->lkey, &mr->region);
  ++static_cast<Pd*>(pd)->uses;
  verbs_mock_count(Kind::kMr, 1);
  return mr;
}

}  // namespace

// The low eight bits belong to the consumer, for type 2 windows.
std::uint32_t take_key() { return device().next_key += 0x100; }

std::byte* translate(const Qp& qp, std::uint32_t key, std::uint64_t address, std::uint64_t length,
                     int access) {
  const auto found = device().keys.find(key);
  if (found == device().keys.end()) return nullptr;
  const Region& region = *found->second;
  const std::uint64_t offset = address - region.start;
  if (region.pd != static_cast<const Pd*>(qp.pd)->root() || (region.access & access) != access ||
      (region.qp_num != 0 && region.qp_num != qp.qp_num) || offset > region.length ||
      length > region.length - offset)
    return nullptr;
  return region.memory + offset;
}

void unbind(Mw& window) {
  if (window.bound == nullptr) return;
  device().keys.erase(window.device_key);
  --window.bound->windows;
  window.bound = nullptr;
}

Mw* find_window(std::uint32_t key) {
  const auto found = device().windows.find(key >> 8);
  return found != device().windows.end() && found->second->device_key == key ? found->second
                                                                             : nullptr;
}

int bind(Mw& window, const ibv_mw_bind_info& info, std::uint32_t key, std::uint32_t qp_num) {
  auto* const mr = static_cast<Mr*>(info.mr);
  if (info.length != 0) {
    if (mr == nullptr || static_cast<Pd*>(window.pd)->root() != mr->region.pd) return EINVAL;
    const std::uint64_t offset = info.addr - mr->region.start;
    const bool writes =
        (info.mw_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
    if ((mr->region.access & IBV_ACCESS_MW_BIND) == 0 || offset > mr->region.length ||
        info.length > mr->region.length - offset ||
        (writes && (mr->region.access & IBV_ACCESS_LOCAL_WRITE) == 0) ||
        (info.mw_access_flags & ~unsigned{kRemoteAccess | IBV_ACCESS_ZERO_BASED}) != 0)
      return EINVAL;
  }
  unbind(window);
  window.device_key = key;
  if (info.length == 0) return 0;
  const bool zero_based = (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0;
  window.region = {.pd = mr->region.pd,
                   .start = zero_based ? 0 : info.addr,
                   .length = info.length,
                   .memory = mr->region.memory + (info.addr - mr->region.start),
                   .access = static_cast<int>(info.mw_access_flags),
                   .qp_num = qp_num,
                   .window = &window};
  window.bound = mr;
  ++mr->windows;
  device().keys.emplace(key, &window.region);
  return 0;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  auto* const window = new Mw{};
  window->context = pd->context;
  window->pd = pd;
  window->type = type;
  const Lock lock(device().mutex);
  window->handle = device().next_handle++;
  window->rkey = window->device_key = take_key();
  device().windows.emplace(window->rkey >> 8, window);
  ++static_cast<Pd*>(pd)->uses;
  verbs_mock_count(Kind::kMw, 1);
  return window;
}

int dealloc_mw(ibv_mw* mw) {
  auto* const window = static_cast<Mw*>(mw);
  hold_at(VERBS_MOCK_HOLD_WINDOWS);
  const Lock lock(device().mutex);
  unbind(*window);
  device().windows.erase(window->device_key >> 8);
  --static_cast<Pd*>(window->pd)->uses;
  delete window;
  verbs_mock_count(Kind::kMw, -1);
  return 0;
}

}  // namespace verbs_mock

using namespace verbs_mock;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  auto* const pd = new Pd{};
  pd->context = context;
  const Lock lock(device().mutex);
  pd->handle = device().next_handle++;
  verbs_mock_count(Kind::kPd, 1);
  return pd;
}

int ibv_dealloc_pd(ibv_pd* handle) {
  auto* const pd = static_cast<Pd*>(handle);
  const Lock lock(device().mutex);
  if (pd->uses != 0) return EBUSY;
  if (pd->parent != nullptr) --pd->parent->uses;
  delete pd;
  verbs_mock_count(Kind::kPd, -1);
  return 0;
}

void verbs_mock_limit_memory(std::size_t bytes, bool paging) {
  const Lock lock(device().mutex);
  device().locked_limit = bytes;
  device().pages = paging;
}

unsigned verbs_mock_paged() {
  const Lock lock(device().mutex);
  return device().paged;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  return register_memory(pd, address, length, reinterpret_cast<std::uintptr_t>(address), access);
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        int access) {
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  return register_memory(pd, address, length, iova, access);
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                         unsigned access) {
  VERBS_MOCK_FAULT(ENOMEM, nullptr);
  return register_memory(pd, address, length, iova,
                         static_cast<int>(access & ~IBV_ACCESS_OPTIONAL_RANGE));
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  errno = EOPNOTSUPP;
  return nullptr;
}

int ibv_dereg_mr(ibv_mr* handle) {
  auto* const mr = static_cast<Mr*>(handle);
  const Lock lock(device().mutex);
  if (mr->windows != 0) return EBUSY;
  if ((mr->region.access & IBV_ACCESS_ON_DEMAND) != 0)
    --device().paged;
  else
    device().locked -= mr->length;
  device().keys.erase(mr->lkey);
  --static_cast<Pd*>(mr->pd)->uses;
  delete mr;
  verbs_mock_count(Kind::kMr, -1);
  return 0;
}

}  // extern "C"
