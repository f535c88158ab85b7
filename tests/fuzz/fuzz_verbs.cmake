# SPDX-License-Identifier: MIT OR GPL-2.0-only

if(TARGET udapl_verbs)
  udapl_fuzzer(fuzz_verbs_params SOURCES fuzz_verbs_params.cpp LIBS udapl_verbs)
endif()
