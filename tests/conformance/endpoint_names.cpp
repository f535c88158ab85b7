// SPDX-License-Identifier: MIT OR GPL-2.0-only
#include "checklist.h"
#include "harness.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

// The named attributes of an EP, whose counts and pointers many programs never initialise.
namespace conformance {

namespace {

// A page that is followed by one that cannot be read.
class LastPage {
 public:
  LastPage() {
    void* const mapped = ::mmap(nullptr, 2 * size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BOOST_REQUIRE(mapped != MAP_FAILED);
    first_ = static_cast<char*>(mapped);
    BOOST_REQUIRE(::mprotect(first_, size_, PROT_READ | PROT_WRITE) == 0);
    std::memset(first_, 'x', size_);
  }
  ~LastPage() { ::munmap(first_, 2 * size_); }
  LastPage(const LastPage&) = delete;
  LastPage& operator=(const LastPage&) = delete;
  [[nodiscard]] char* end() const { return first_ + size_; }

 private:
  const std::size_t size_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  char* first_ = nullptr;
};

template <class T>
T* nowhere(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

// What may be found in fields that were never initialised.
class Garbage {
 public:
  Garbage() {
    std::memset(junk_, 0x5a, sizeof junk_);
    for (DAT_NAMED_ATTR& attr : bad_names_) attr = {nowhere<char>(0x10), nowhere<char>(0x20)};
    for (DAT_NAMED_ATTR& attr : endless_) attr = {page_.end() - 5, page_.end() - 1};
    for (DAT_NAMED_ATTR& attr : bad_values_) attr = {name_, nowhere<char>(0x5a5a5a5a)};
    for (DAT_NAMED_ATTR& attr : unknown_) attr = {name_, name_};
    bad_values_[1] = unknown_[1] = {nullptr, nullptr};
    lists_ = {nullptr,
              nowhere<DAT_NAMED_ATTR>(0x1),
              nowhere<DAT_NAMED_ATTR>(0x10),
              nowhere<DAT_NAMED_ATTR>(0x5a5a5a5a),
              nowhere<DAT_NAMED_ATTR>(~std::uintptr_t{0}),
              nowhere<DAT_NAMED_ATTR>(~std::uintptr_t{0} / 2),
              reinterpret_cast<DAT_NAMED_ATTR*>(page_.end() - sizeof(DAT_NAMED_ATTR)),
              reinterpret_cast<DAT_NAMED_ATTR*>(page_.end()),
              junk_,
              bad_names_,
              endless_,
              bad_values_,
              unknown_};
  }
  // Calls f(attr) with all that.
  template <class F>
  void for_each(DAT_EP_ATTR attr, F&& f) {
    std::vector<DAT_COUNT> counts = {-3, -1, 0x5a5a5a5a, 0x7fffffff};
    for (DAT_COUNT count = 0; count <= 17; ++count) counts.push_back(count);
    for (const DAT_COUNT count : counts)
      for (std::size_t i = 0; i < lists_.size(); ++i)
        BOOST_TEST_CONTEXT(count << " at list " << i) {
          attr.ep_transport_specific_count = attr.ep_provider_specific_count = count;
          attr.ep_transport_specific = attr.ep_provider_specific = lists_[i];
          f(attr);
        }
  }

 private:
  static constexpr std::size_t kMany = 17;
  LastPage page_;
  char name_[10] = "mpi_name";
  DAT_NAMED_ATTR junk_[kMany];
  DAT_NAMED_ATTR bad_names_[kMany];
  DAT_NAMED_ATTR endless_[kMany];  // names without an end, up to the end of a page
  DAT_NAMED_ATTR bad_values_[kMany];
  DAT_NAMED_ATTR unknown_[kMany];
  std::vector<DAT_NAMED_ATTR*> lists_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(endpoint)

BOOST_AUTO_TEST_CASE(ep_create_uninitialised_names, *covers("ep_create_attr_exceeds")) {
  Pair pair;
  Garbage garbage;
  garbage.for_each(default_ep_attr(pair.ia), [&](const DAT_EP_ATTR& attr) {
    Ep ep;
    REQUIRE_OK(dat_ep_create(pair.ia, pair.pz, pair.active.recv_evd, pair.active.request_evd,
                             pair.active.connect_evd, &attr, ep.out()));
  });
}

// Programs modify an EP with the structure that they passed to dat_ep_create.
BOOST_AUTO_TEST_CASE(ep_modify_uninitialised_names) {
  Pair pair;
  Garbage garbage;
  garbage.for_each(default_ep_attr(pair.ia), [&](const DAT_EP_ATTR& attr) {
    DAT_EP_PARAM param{};
    param.ep_attr = attr;
    REQUIRE_OK(dat_ep_modify(pair.active.ep, DAT_EP_FIELD_EP_ATTR_ALL, &param));
  });
  pair.connect();
}

BOOST_AUTO_TEST_CASE(ep_modify_named_attributes) {
  Pair pair;
  char name[] = "no_such_attribute";
  char value[] = "true";
  DAT_NAMED_ATTR unknown[] = {{name, value}};
  DAT_EP_PARAM param = query_ep(pair.active.ep);
  param.ep_attr.ep_provider_specific_count = 1;
  param.ep_attr.ep_provider_specific = unknown;
  param.ep_attr.ep_transport_specific_count = 1;
  param.ep_attr.ep_transport_specific = unknown;
  CHECK_TYPE(dat_ep_modify(pair.active.ep,
                           DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR |
                               DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR,
                           &param),
             DAT_INVALID_PARAMETER);
  CHECK_TYPE(dat_ep_modify(pair.active.ep,
                           DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR |
                               DAT_EP_FIELD_EP_ATTR_TRANSPORT_SPECIFIC_ATTR,
                           &param),
             DAT_INVALID_PARAMETER);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conformance
