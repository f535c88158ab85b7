# SPDX-License-Identifier: MIT OR GPL-2.0-only

if(TARGET udapl_soft)
  udapl_fuzzer(fuzz_soft_connection SOURCES fuzz_soft_connection.cpp LIBS udapl_soft)
  udapl_fuzzer(fuzz_soft_rings SOURCES fuzz_soft_rings.cpp LIBS udapl_soft)
  udapl_fuzzer(fuzz_soft_settings SOURCES fuzz_soft_settings.cpp LIBS udapl_soft)
endif()
