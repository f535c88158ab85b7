#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Instructions per post and dequeue: trace points compiled out, compiled in and off, and on.

usage: cost.py WITHOUT WITH

The programs are post_cost.cpp without and with trace points. Points that are off may cost at most 5 instructions a
call: a load, a compare and a branch, and with this transport, which is inlined, a register more (a Send takes 4.4).
Over verbs they cost a post three, which cost.instructions judges. Exit status 0: they do not cost more, 1: they do, 77:
there is no valgrind.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

LIMIT = 5
FUNCTIONS = ("send", "recv", "write", "dequeue")
FEW, MANY = 800, 8800


def total(program, function, posts, level):
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("DAT_", "DAPL_"))}
        environment["DAPL_TRACE_LEVEL"] = "0"
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--toggle-collect=*counted_{function}*",
             f"--callgrind-out-file={folder}/out", program, str(posts), str(level)],
            check=False, capture_output=True, text=True, env=environment)
        found = re.search(r"Collected : (\d+)", result.stderr)
        if result.returncode != 0 or not found:
            sys.exit(f"{program}: {result.stderr[-2000:]}")
        return int(found.group(1))


def per_post(program, function, level=0):
    """Subtracts two runs, to eliminate the cost that does not depend on the number of posts."""
    calls = (MANY - FEW) * (3 if function == "dequeue" else 1)
    return (total(program, function, MANY, level) - total(program, function, FEW, level)) / calls


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    if shutil.which("valgrind") is None:
        print("SKIPPED: no valgrind")
        return 77
    without, with_points = sys.argv[1:]
    print(f"{'':8} {'compiled out':>12} {'off':>8} {'on':>10}   instructions, with the loop around")
    failed = False
    for function in FUNCTIONS:
        out, off = per_post(without, function), per_post(with_points, function)
        on = per_post(with_points, function, 7)
        print(f"{function:8} {out:12.1f} {off:8.1f} {on:10.1f}")
        if off - out > LIMIT:
            print(f"FAILED: {function}: {off - out:.1f} more, {LIMIT} are allowed")
            failed = True
        if on < off + 50:
            print(f"FAILED: {function}: the points are not on at level 7: this test would find nothing")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
