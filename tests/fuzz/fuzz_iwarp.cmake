# SPDX-License-Identifier: MIT OR GPL-2.0-only

if(TARGET udapl_iwarp)
  udapl_fuzzer(fuzz_iwarp_receiver SOURCES fuzz_iwarp_receiver.cpp LIBS udapl_iwarp)
endif()
