// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Programs that run without the standard descriptors, and programs that close descriptors of ours.
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "every_fault.h"
#include "tests/child/in_child.h"

namespace {

using faults::Pair;
using faults::Run;
using udapl::test::in_child;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

BOOST_AUTO_TEST_SUITE(descriptors)

// With all trace records, which would be written into a descriptor of ours with a standard number.
BOOST_AUTO_TEST_CASE(none_of_ours_is_a_standard_one) {
  in_child([] {
    ::setenv("DAT_TRACE_LEVEL", "9", 1);
    ::setenv("DAPL_TRACE_LEVEL", "9", 1);
    for (int fd = 0; fd <= 2; ++fd) ::close(fd);
    Run run;
    Pair pair(run);
    if (!pair.create() || !pair.connect() || !faults::send(pair)) return 1;
    DAT_FD event = -1;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    if (dat_cno_fd_create(run.ia, &event, &cno) != DAT_SUCCESS) return 2;
    for (int fd = 0; fd <= 2; ++fd)
      if (is_open(fd)) return 10 + fd;
    if (dat_cno_free(cno) != DAT_SUCCESS || !pair.disconnect(DAT_CLOSE_GRACEFUL_FLAG)) return 3;
    run.finish();
    return run.complaints().empty() ? 0 : 4;
  });
}

BOOST_AUTO_TEST_CASE(whoever_closes_them_all_gets_an_async_error) {
  in_child([] {
    Run run;
    Pair pair(run);
    if (!pair.create() || !pair.connect()) return 1;
    for (int fd = 3; fd < 256; ++fd) ::close(fd);
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    if (dat_evd_wait(run.async_evd, 30'000'000, 1, &event, &more) != DAT_SUCCESS) return 2;
    if (event.event_number != DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR) return 3;
    return dat_ia_close(run.ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS ? 0 : 4;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
