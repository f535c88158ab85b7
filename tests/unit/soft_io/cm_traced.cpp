// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the trace records of the connection manager are about.
#include <atomic>
#include <string_view>

#include "common/tracing/trace.h"
#include "tests/unit/soft_io/cm_fixture.h"

namespace udapl::soft::test {

BOOST_FIXTURE_TEST_SUITE(cm_traced, CmFixture)

// Regression: the record named the object of the call that the driving thread was in, or none.
BOOST_AUTO_TEST_CASE(failed_connect_is_traced_with_its_endpoint) {
  static std::atomic<const void*> traced;
  static std::atomic<int> records;
  traced = nullptr;
  records = 0;
  DAT_CONN_QUAL free_port = 0;
  {
    Desk desk;
    free_port = listen(desk)->conn_qual();
  }
  const int endpoint = 0;
  const int waited_for = 0;
  FakeQp active;
  trace::set_probe([](const trace::Record* record) {
    if (!std::string_view(record->text).starts_with("connecting to")) return;
    traced = record->object;
    ++records;
  });
  {
    const trace::About about(&endpoint);
    start(active, request(free_port));
  }
  const trace::About about(&waited_for);
  BOOST_TEST(drive_until(*reactor, [&] { return active.outcomes() == 1; }));
  trace::set_probe(nullptr);
  BOOST_TEST(records > 0);
  BOOST_TEST(traced == &endpoint);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace udapl::soft::test
