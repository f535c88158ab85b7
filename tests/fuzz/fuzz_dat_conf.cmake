# SPDX-License-Identifier: MIT OR GPL-2.0-only

if(TARGET udapl_dat)
  udapl_fuzzer(fuzz_dat_conf SOURCES fuzz_dat_conf.cpp LIBS udapl_dat)
endif()
