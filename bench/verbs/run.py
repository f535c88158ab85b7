#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Raw verbs, our provider and the packaged one on one RDMA device, alternating in one process; a table for people.

  script/vm --timeout 300 -- bench/verbs/run.py --build build/release              in the virtual machine
  bench/verbs/run.py --build build/release --device "eth2 0"                       on a device of this machine

--device is what dat.conf says there: interface, address or RDMA device, and port. Numbers are medians of the rounds;
each round measures every side, so what is compared is the difference within a round. When the middle half of these
differences has zero in it, the difference is called noise. `packaged` is the distribution's libdaplofa.so.2 behind our
registry, left out where it is not installed.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "peers"))
import places

SIDES = {"raw": "raw verbs", "ours": "ours", "ours/threadsafe": "ours, threadsafe", "packaged": "packaged libdaplofa"}
WAITING_SIDES = {**SIDES, "ours+cno": "ours, dat_cno_wait", "ours+fd": "ours, descriptor of a CNO",
                 "packaged+cno": "packaged, dat_cno_wait"}


def measure(options):
    libraries = {"ours": os.path.join(os.path.abspath(options.build), "lib", "libdaplofa.so.2")}
    try:
        libraries["packaged"] = places.packaged_library("libdaplofa.so.2")
    except places.Failure as reason:
        print(f"without the packaged provider: {reason}", file=sys.stderr)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        for name, library in libraries.items():
            for threads in ("nonthreadsafe", "threadsafe"):
                conf.write(f'{name} u2.0 {threads} default {library} dapl.2.0 "{options.device}" ""\n')
        conf.flush()
        program = os.path.join(options.build, "bin", "verbs_waiting" if options.waiting else "verbs_bench")
        sides = WAITING_SIDES if options.waiting else SIDES
        environment = dict(os.environ, DAT_OVERRIDE=conf.name)
        environment["LD_LIBRARY_PATH"] = os.path.join(os.path.abspath(options.build), "lib")
        output = subprocess.run([program, f"--rounds={options.rounds}", f"--count={options.count}",
                                 *(side for side in sides if re.split("[/+]", side)[0] in libraries)],
                                stdout=subprocess.PIPE, text=True, env=environment, check=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def in_us(nanoseconds):
    return f"{nanoseconds / 1000:.2f}"


def middle(values):
    """The median and the bounds of the middle half."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return median, low, high


def table(results):
    rounds = {}  # (operation, bytes) -> side -> a number per round
    for result in results:
        sides = rounds.setdefault((result["operation"], result["bytes"]), {})
        sides.setdefault(result["side"], []).append(result["ns"])
    yield "| us, median (middle half of the rounds) | side | time | more than raw verbs |"
    yield "|---|---|---:|---:|"
    for (operation, size), sides in rounds.items():
        for side, values in sides.items():
            median, low, high = middle(values)
            more = ""
            if side != "raw":
                difference, least, most = middle([own - raw for own, raw in zip(values, sides["raw"])])
                noise = ", noise" if least <= 0 <= most else ""
                more = f"{in_us(difference)} ({in_us(least)} to {in_us(most)}){noise}"
            yield (f"| {operation}, {size} bytes | {WAITING_SIDES[side]} | "
                   f"{in_us(median)} ({in_us(low)} to {in_us(high)}) | {more} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, metavar="DIR")
    parser.add_argument("--device", default="d0 0")
    parser.add_argument("--waiting", action="store_true", help="two threads that sleep until a message comes")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    print("\n".join(table(measure(options))))


if __name__ == "__main__":
    main()
