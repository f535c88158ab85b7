# SPDX-License-Identifier: MIT OR GPL-2.0-only
# The servers of the tools, compiled from their sources and linked with fake_dat.cpp in place of libdat2.

find_package(fmt REQUIRED)
set(tools ../../tools)
set(fake fake_dat.cpp fake_peers.cpp)

udapl_fuzzer(fuzz_dattx_server QUIET
  SOURCES fuzz_dattx_server.cpp ${fake} ${tools}/dattx/server.cpp ${tools}/dattx/adapter.cpp
    ${tools}/dattx/connection.cpp
  LIBS dat_headers fmt::fmt)
set(dapltest ${tools}/dapltest)
udapl_fuzzer(fuzz_dapltest_server QUIET
  SOURCES fuzz_dapltest_server.cpp ${fake} ${dapltest}/adapter.cpp ${dapltest}/control.cpp
    ${dapltest}/endpoint.cpp ${dapltest}/options.cpp ${dapltest}/performance.cpp ${dapltest}/report.cpp
    ${dapltest}/transaction.cpp ${dapltest}/wire.cpp ${tools}/json.cpp
  LIBS dat_headers fmt::fmt Threads::Threads)
udapl_fuzzer(fuzz_dapltest_words QUIET
  SOURCES fuzz_dapltest_words.cpp ${dapltest}/command_line.cpp ${dapltest}/options.cpp
    ${dapltest}/words.cpp
  LIBS dat_headers fmt::fmt)
set(datperf ${tools}/datperf)
udapl_fuzzer(fuzz_datperf_server QUIET
  SOURCES fuzz_datperf_server.cpp ${fake} ${datperf}/group.cpp ${datperf}/responder.cpp
    ${datperf}/server.cpp ${datperf}/socket.cpp ${datperf}/socket_server.cpp ${datperf}/wire.cpp
  LIBS dat_headers fmt::fmt Threads::Threads)
udapl_fuzzer(fuzz_datperf_socket
  SOURCES fuzz_datperf_socket.cpp ${datperf}/socket.cpp ${datperf}/socket_server.cpp ${datperf}/wire.cpp
  LIBS dat_headers fmt::fmt Threads::Threads)
foreach(fuzzer IN ITEMS fuzz_dattx_server fuzz_dapltest_server fuzz_dapltest_words
    fuzz_datperf_server)
  target_compile_definitions(${fuzzer} PRIVATE UDAPL_VERSION="${PROJECT_VERSION}")
endforeach()
