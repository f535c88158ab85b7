// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "tests/fake_transport/memory.h"

#include "common/result.h"

namespace udapl::fake {

namespace {

DAT_VADDR first_of(const transport::MrInit& init) {
  return init.va_type == DAT_VA_TYPE_ZB ? 0 : init.address;
}

bool inside(DAT_VADDR address, std::uint64_t length, DAT_VADDR first, DAT_VLEN size) {
  return address >= first && length <= size && address - first <= size - length;
}

}  // namespace

std::mutex& world() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

Mr::Mr(Pd& domain, const transport::MrInit& what)
    : pd(&domain), init(what), context_(MemoryTable::instance().add(*this)) {}

Mr::~Mr() {
  const std::scoped_lock lock(world());
  MemoryTable::instance().remove(*this);
}

DAT_RMR_CONTEXT Mr::rmr_context() const noexcept { return context_; }

bool Mr::has_windows() const noexcept {
  const std::scoped_lock lock(world());
  return windows > 0;
}

Window::Window(Pd& domain, bool one_qp) : pd(&domain), qp_scope(one_qp) {}

Window::~Window() {
  const std::scoped_lock lock(world());
  MemoryTable::instance().unbind(*this);
}

DAT_RMR_CONTEXT Window::rmr_context() const noexcept {
  const std::scoped_lock lock(world());
  return context;
}

std::optional<transport::Binding> Window::binding() const noexcept {
  const std::scoped_lock lock(world());
  return bound;
}

MemoryTable& MemoryTable::instance() {
  static auto* const table = new MemoryTable;
  return *table;
}

DAT_LMR_CONTEXT MemoryTable::add(Mr& mr) {
  const std::scoped_lock lock(world());
  regions_[++next_] = &mr;
  return next_;
}

void MemoryTable::remove(const Mr& mr) { regions_.erase(mr.lmr_context()); }

Mr* MemoryTable::find(DAT_LMR_CONTEXT context) {
  const auto found = regions_.find(context);
  return found == regions_.end() ? nullptr : found->second;
}

DAT_RMR_CONTEXT MemoryTable::bind(Window& window, const transport::BindRequest& request,
                                  const Qp& qp) {
  unbind(window);
  if (request.range.segment_length == 0) return 0;
  window.mr = static_cast<Mr*>(request.mr);
  ++window.mr->windows;
  window.qp = &qp;
  window.bound = transport::Binding{request.range, request.privileges, request.va_type};
  window.context = ++next_;
  windows_[next_] = &window;
  return next_;
}

void MemoryTable::unbind(Window& window) {
  if (window.mr != nullptr) --window.mr->windows;
  windows_.erase(window.context);
  window.mr = nullptr;
  window.qp = nullptr;
  window.context = 0;
  window.bound.reset();
}

Window* MemoryTable::find_window(DAT_RMR_CONTEXT context) {
  const auto found = windows_.find(context);
  return found == windows_.end() ? nullptr : found->second;
}

DAT_RETURN MemoryTable::check(const DAT_LMR_TRIPLET* segments, DAT_COUNT count, const Pd* pd,
                              unsigned privilege) {
  for (DAT_COUNT i = 0; i < count; ++i) {
    const DAT_LMR_TRIPLET& segment = segments[i];
    if (segment.segment_length == 0) continue;
    const Mr* const mr = find(segment.lmr_context);
    if (mr == nullptr) return dat_error(DAT_PRIVILEGES_VIOLATION);
    if (pd != nullptr && mr->pd != pd) return dat_error(DAT_PROTECTION_VIOLATION);
    if (!inside(segment.virtual_address, segment.segment_length, first_of(mr->init),
                mr->init.length))
      return dat_error(DAT_INVALID_PARAMETER);
    if ((mr->init.privileges & privilege) != privilege) return dat_error(DAT_PRIVILEGES_VIOLATION);
  }
  return DAT_SUCCESS;
}

std::byte* MemoryTable::remote(const DAT_RMR_TRIPLET& target, std::uint64_t length, const Pd& pd,
                               const Qp& qp, unsigned privilege) {
  const Mr* mr = find(target.rmr_context);
  unsigned granted = 0;
  DAT_VADDR first = 0;
  DAT_VLEN size = 0;
  std::uint64_t base = 0;
  if (mr != nullptr) {
    granted = mr->init.privileges;
    first = first_of(mr->init);
    size = mr->init.length;
    base = mr->init.address;
  } else if (const Window* const window = find_window(target.rmr_context); window != nullptr) {
    if (window->qp_scope && window->qp != &qp) return nullptr;
    mr = window->mr;
    granted = window->bound->privileges;
    first = window->bound->va_type == DAT_VA_TYPE_ZB ? 0 : window->bound->range.virtual_address;
    size = window->bound->range.segment_length;
    base = mr->init.address + (window->bound->range.virtual_address - first_of(mr->init));
  }
  if (mr == nullptr || mr->pd != &pd || (granted & privilege) != privilege ||
      !inside(target.virtual_address, length, first, size))
    return nullptr;
  return reinterpret_cast<std::byte*>(base + (target.virtual_address - first));
}

std::byte* MemoryTable::local(const DAT_LMR_TRIPLET& segment) {
  const Mr* const mr = find(segment.lmr_context);
  return reinterpret_cast<std::byte*>(mr->init.address +
                                      (segment.virtual_address - first_of(mr->init)));
}

}  // namespace udapl::fake
