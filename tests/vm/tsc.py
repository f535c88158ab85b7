# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The frequency of this machine's time-stamp counter, which QEMU passes on to the guest unscaled.

The guest is told, because on a busy machine its kernel sometimes measures a fraction of it. Time then passes several
times too fast in the guest, as long as it runs: a time limit of two minutes ended after 13 seconds.
"""

import ctypes
import mmap
import time

RDTSC = b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3"  # rdtsc; shl $32, %rdx; or %rdx, %rax; ret


def sample(read):
    """(nanoseconds, ticks) of one moment: of many pairs the one that was read fastest, as this thread loses the
    processor between two reads now and then."""
    def pair():
        begin, ticks, end = time.monotonic_ns(), read(), time.monotonic_ns()
        return end - begin, begin, ticks
    return min(pair() for _ in range(50))[1:]


def frequency():
    """In kHz. None if this process may not execute code of its own."""
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    code.write(RDTSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    begin = sample(read)
    time.sleep(0.1)
    end = sample(read)
    return round((end[1] - begin[1]) * 1_000_000 / (end[0] - begin[0]))
