# SPDX-License-Identifier: MIT OR GPL-2.0-only
# The inputs of datconform: files with exceptions, and the messages that datconform --listen receives.

set(conformance ../conformance)
udapl_fuzzer(fuzz_datconform_channel
  SOURCES fuzz_datconform_channel.cpp ${conformance}/channel.cpp LIBS Threads::Threads)
udapl_fuzzer(fuzz_datconform_quirks
  SOURCES fuzz_datconform_quirks.cpp ${conformance}/quirks.cpp LIBS Threads::Threads)
