// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The order in which the bytes of a message become visible, over every path. The last bytes lie on
// a page that may not be written: when the store to them faults, all others must have been stored.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

#include "tests/unit/soft/support.h"

// TSan delays signals.
#ifndef __SANITIZE_THREAD__

namespace udapl::soft::test {
namespace {

constexpr std::byte kNew{1};
constexpr std::size_t kMax = 200'000;
constexpr std::size_t kRoom = 256 * 1024;

// Memory before a page that is protected until something is stored in it. The handler of the fault
// counts the bytes that have been stored before.
class Guarded {
 public:
  Guarded() {
    BOOST_REQUIRE(memory_ != MAP_FAILED);
    struct sigaction action {};
    action.sa_sigaction = &on_fault;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &action, &before_);
  }
  ~Guarded() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(memory_, kRoom + page_size_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  [[nodiscard]] std::byte* memory() const { return memory_; }
  [[nodiscard]] std::size_t size() const { return kRoom + page_size_; }
  // The place of a message of `size` bytes, of which `last` are behind the boundary.
  [[nodiscard]] std::byte* place(std::size_t size, std::size_t last) const {
    return page() + last - size;
  }
  void guard(std::size_t size, std::size_t last) {
    std::memset(place(size, last), 0, size);
    first_ = place(size, last);
    boundary_ = page();
    page_length_ = page_size_;
    stored_ = 0;
    faults_ = 0;
    BOOST_REQUIRE(::mprotect(page(), page_size_, PROT_READ) == 0);
  }
  [[nodiscard]] static int faults() { return faults_; }
  [[nodiscard]] static std::size_t stored() { return stored_; }

 private:
  [[nodiscard]] std::byte* page() const { return memory_ + kRoom; }
  static void on_fault(int, siginfo_t* info, void*) {
    const auto* const at = static_cast<const std::byte*>(info->si_addr);
    if (at < boundary_ || at >= boundary_ + page_length_ || faults_ != 0) {
      ::signal(SIGSEGV, SIG_DFL);  // not ours: it is raised again
      return;
    }
    std::size_t count = 0;
    for (const std::byte* byte = first_; byte != boundary_; ++byte) count += *byte == kNew ? 1 : 0;
    stored_ = count;
    faults_ = 1;
    ::mprotect(boundary_, page_length_, PROT_READ | PROT_WRITE);
  }

  const std::size_t page_size_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte* const memory_ = static_cast<std::byte*>(::mmap(
      nullptr, kRoom + page_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  struct sigaction before_ {};
  static inline std::byte* volatile first_ = nullptr;
  static inline std::byte* volatile boundary_ = nullptr;
  static inline volatile std::size_t page_length_ = 0;
  static inline volatile std::size_t stored_ = 0;
  static inline volatile int faults_ = 0;
};

struct Fixture : Guarded, Pair {
  explicit Fixture(bool crc = true) : Pair({}, {}, iwarp::kRtrRead, crc) {}

  // Calls `transfer(size, place)` for messages of all kinds of sizes.
  template <class Transfer>
  void each(Transfer transfer) {
    for (const std::size_t size : std::initializer_list<std::size_t>{
             8, 9, 63, 65, 100, 1000, 4000, 16'000, 65'473, 70'000, kMax}) {
      for (const std::size_t last : {1U, 3U, 4U, 8U}) {
        guard(size, last);
        std::byte* const to = place(size, last);
        transfer(size, to);
        BOOST_TEST(faults() == 1);
        BOOST_TEST(stored() == size - last, "size " << size << ", last " << last << ": " << stored()
                                                    << " bytes were stored before");
        BOOST_TEST(std::memcmp(to, from.data(), size) == 0);
      }
    }
  }
  void writes() {
    const auto to_mr = b.reg(memory(), size());
    each([&](std::size_t size, std::byte* to) {
      const auto segment = local(*from_mr, from.data(), size);
      REQUIRE_OK(a.qp->post_rdma_write(1, &segment, 1, remote(to_mr->rmr_context(), to, size),
                                       kSignalled));
      BOOST_TEST(next(*a.request_cq).status == DAT_DTO_SUCCESS);
      BOOST_REQUIRE(wait([&] { return to[size - 1] == kNew; }));
    });
  }
  void sends() {
    const auto to_mr = b.reg(memory(), size());
    each([&](std::size_t size, std::byte* to) {
      const auto room = local(*to_mr, to, size);
      REQUIRE_OK(b.qp->post_recv(2, &room, 1, kSignalled));
      const auto segment = local(*from_mr, from.data(), size);
      REQUIRE_OK(a.qp->post_send(1, &segment, 1, kSignalled));
      BOOST_TEST(next(*b.recv_cq).status == DAT_DTO_SUCCESS);
      BOOST_TEST(next(*a.request_cq).status == DAT_DTO_SUCCESS);
    });
  }
  void reads() {
    const auto source_mr = b.reg(from);
    const auto to_mr = a.reg(memory(), size());
    each([&](std::size_t size, std::byte* to) {
      const auto sink = local(*to_mr, to, size);
      REQUIRE_OK(a.qp->post_rdma_read(
          1, &sink, 1, remote(source_mr->rmr_context(), from.data(), size), kSignalled));
      BOOST_TEST(next(*a.request_cq).status == DAT_DTO_SUCCESS);
    });
  }

  std::vector<std::byte> from = std::vector<std::byte>(kMax, kNew);
  std::unique_ptr<Mr> from_mr = a.reg(from);
};

BOOST_AUTO_TEST_SUITE(placed_last)

BOOST_AUTO_TEST_CASE(the_end_of_a_write) { Fixture().writes(); }
BOOST_AUTO_TEST_CASE(the_end_of_a_receive_buffer) { Fixture().sends(); }
BOOST_AUTO_TEST_CASE(the_end_of_the_sink_of_a_read) { Fixture().reads(); }
// Over TCP, large messages are then received directly into their place.
BOOST_AUTO_TEST_CASE(the_end_of_a_write_without_crc) { Fixture(false).writes(); }
BOOST_AUTO_TEST_CASE(the_end_of_a_receive_buffer_without_crc) { Fixture(false).sends(); }
BOOST_AUTO_TEST_CASE(the_end_of_the_sink_of_a_read_without_crc) { Fixture(false).reads(); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace udapl::soft::test

#endif
