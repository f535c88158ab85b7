# SPDX-License-Identifier: MIT OR GPL-2.0-only

udapl_fuzzer(fuzz_trace_settings SOURCES fuzz_trace_settings.cpp LIBS udapl_common)
