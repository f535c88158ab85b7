#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The software RNIC beside others that move data between two processes of one host: UCX, libfabric, sockets, and what
the machine itself can do. Interleaved, each side on a processor of its own, a probe of the processors' distance before
and after each sample.

  bench/peers/run.py --build build/release [--rounds 9] [--svg peers.svg] [--json peers.json]

UCX is measured with ucx_perftest (Debian: ucx-utils), libfabric with fi_pingpong (libfabric-bin). Numbers are medians
of the rounds; the ratio is ours to the best of those that the goal names. Exit status: 0 if everything ran, 1 if not, 2 if the
arguments are wrong. How fast anything was changes nothing about that.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chart
import sides

NEAR_US = 0.12  # a cache line takes longer between processors that do not share a cache


class Row:
    """`samples`: side -> a function that measures once. `goals`: (times, names of sides), or (a number, []) to reach."""

    def __init__(self, title, unit, samples, *goals, more_is_better=False):
        self.title, self.unit, self.samples, self.goals = title, unit, samples, goals
        self.more_is_better = more_is_better
        self.found = []  # (side, state, value)

    def median(self, side, state):
        values = [value for name, where, value in self.found if name == side and where == state]
        return statistics.median(values) if values else None

    def verdict(self, goal, state):
        """Ratio to the best of the goal's sides, if it names any, and whether the goal is reached; None if not known."""
        ours = self.median("ours", state)
        times, others = goal
        best = [value for value in (self.median(other, state) for other in others) if value is not None]
        if ours is None or (others and not best):
            return None, None
        ratio = ours / (max(best) if self.more_is_better else min(best)) if others else None
        number = ours if ratio is None else ratio
        return ratio, number >= times if self.more_is_better else number <= times


def rows_of(here):
    """The table of what the software RNIC has to reach. `here`: sides.Sides."""
    ours, ucx, fabric, floor, ring = here.ours, here.ucx, here.fabric, here.floor, here.ring

    def latency(path, operation, size, waiting="poll"):
        return lambda: ours(path, "latency", operation, waiting, size)

    def shm(operation, size, test):
        return {"ours": latency("shm", operation, size), "ucx": lambda: ucx("shm", test, size),
                "libfabric": lambda: fabric("shm", size), "machine": lambda: floor("ring", size)}

    def tcp(path, size):
        return {"ours": latency(path, "send", size), "ucx": lambda: ucx("tcp", "tag_lat", size),
                "libfabric": lambda: fabric("tcp", size), "socket": lambda: floor("socket", size)}

    def without_crc(size):
        return {**tcp("tcp-no-crc", size), "our CRC": latency("tcp", "send", size)}

    def rate(path, kind):
        return {"ours": lambda: ours(path, "bandwidth", "send", "poll", 8), "ucx": lambda: ucx(kind, "tag_bw", 8)}

    def connections(path):
        return {"ours": lambda: ours(path, "connections", None, "block", None)}

    def token(path):
        return {"ours": lambda: ring(path, 8), "2 processes": lambda: ring(path, 2)}

    return [
        Row("shm, 8 B Send", "us", shm("send", 8, "tag_lat"), (1.0, ["ucx"])),
        Row("shm, 8 B RDMA Write", "us", {**shm("write", 8, "ucp_put_lat"), "our Send": latency("shm", "send", 8)},
            (1.2, ["our Send"])),
        Row("shm, 4 KiB Send", "us", shm("send", 4096, "tag_lat"), (0.8, ["ucx", "libfabric"])),
        Row("shm, 64 KiB Send", "us", shm("send", 65536, "tag_lat"), (0.8, ["ucx", "libfabric"])),
        Row("shm, 1 MiB Send", "us", shm("send", 1048576, "tag_lat"), (0.6, ["ucx"])),
        Row("shm, 1 MiB RDMA Write", "us", shm("write", 1048576, "tag_lat"), (0.6, ["ucx"])),
        Row("shm, 8 B Sends, 64 in flight", "M/s", rate("shm", "shm"), (1.0, ["ucx"]), more_is_better=True),
        Row("shm, 8 B Send, both asleep", "us",
            {"ours": latency("shm", "send", 8, "block"), "eventfd": lambda: floor("eventfd")}, (1.2, ["eventfd"])),
        Row("shm, 8 B RDMA Read, target polls", "us",
            {"ours": latency("shm", "read", 8), "process_vm_readv": lambda: floor("read", 8)}),  # the goal is for one that sleeps
        Row("TCP, 8 B Send", "us", tcp("tcp", 8), (1.0, ["ucx"]), (1.15, ["socket"])),
        Row("TCP, 8 B Send, both asleep", "us",
            {"ours": latency("tcp", "send", 8, "block"), "socket": lambda: floor("socket", 8, "block")}, (0.9, ["socket"])),
        Row("TCP, 64 KiB Send, CRC", "us", tcp("tcp", 65536), (0.85, ["libfabric"])),
        Row("TCP, 1 MiB Send, CRC", "us", tcp("tcp", 1048576), (0.85, ["libfabric"])),
        Row("TCP, 64 KiB Send, no CRC", "us", without_crc(65536), (1.1, ["socket"]), (1.0, ["our CRC"])),
        Row("TCP, 1 MiB Send, no CRC", "us", without_crc(1048576), (1.1, ["socket"]), (1.0, ["our CRC"])),
        Row("TCP, 8 B Sends, 64 in flight", "M/s", rate("tcp", "tcp"), (9.0, ["ucx"]), more_is_better=True),
        Row("shm, connections one by one", "/s", connections("shm"), (3000, []), more_is_better=True),
        Row("TCP, connections one by one", "/s", connections("tcp"), (5000, []), more_is_better=True),
        Row("shm, token around 8 processes, a hop", "us", token("shm"), (3.0, ["2 processes"])),
        Row("TCP, token around 8 processes, a hop", "us", token("tcp"), (3.0, ["2 processes"])),
    ]


def state_of(before, after):
    if before < NEAR_US and after < NEAR_US:
        return "near"
    return "far" if before >= NEAR_US and after >= NEAR_US else "changed"


def measure(rows, rounds, here):
    for number in range(rounds):
        for row in rows:
            for side, sample in row.samples.items():
                if side in here.missing:
                    continue
                before = here.floor("probe")
                value = sample()
                row.found.append((side, state_of(before, here.floor("probe")), value))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)


def shown(value):
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def table(rows, state):
    yield "| | ours | others | ratio | goal | |"
    yield "|---|---:|---|---:|---:|---|"
    for row in rows:
        others = ", ".join(f"{side} {shown(row.median(side, state))}" for side in row.samples if side != "ours")
        sign = "≥" if row.more_is_better else "≤"
        if not row.goals:
            yield f"| {row.title}, {row.unit} | {shown(row.median('ours', state))} | {others} | | none | |"
        for number, goal in enumerate(row.goals):
            ratio, reached = row.verdict(goal, state)
            times, sides_of_goal = goal
            asked = f"{sign} {times:g} × {' or '.join(sides_of_goal)}" if sides_of_goal else f"{sign} {times:g} {row.unit}"
            word = {True: "reached", False: "not reached", None: "not known"}[reached]
            begin = (f"{row.title}, {row.unit} | {shown(row.median('ours', state))} | {others}" if number == 0
                     else " | | ")
            yield f"| {begin} | {shown(ratio)} | {asked} | {word} |"


def report(rows, here):
    for side in sorted(here.missing):
        print(f"Not measured: {side} ({sides.PROGRAMS[side]}), {here.missing[side]}.")
    for state, words in (("near", "share a cache"), ("far", "do not share a cache"), ("changed", "moved meanwhile")):
        count = sum(where == state for row in rows for _, where, _ in row.found)
        if count == 0:
            continue
        print(f"\nProcessors that {words} ({count} samples):\n")
        print("\n".join(table(rows, state)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a sample of ours")
    parser.add_argument("--without", default="", metavar="SIDE,...", help="ucx, libfabric")
    parser.add_argument("--svg", metavar="FILE")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds have to be positive")
    if (os.cpu_count() or 1) < 2:
        sys.exit("bench/peers: two processors are needed")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        here = stack.enter_context(sides.Sides(options.build, folder, options.seconds,
                                               set(filter(None, options.without.split(",")))))
        rows = rows_of(here)
        try:
            measure(rows, options.rounds, here)
        except (sides.Failure, OSError) as reason:
            sys.exit(f"bench/peers: {reason}")
    report(rows, here)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump([{"row": row.title, "unit": row.unit, "side": side, "processors": state, "value": value}
                       for row in rows for side, state, value in row.found], out, indent=1)
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as out:
            out.write(chart.draw(rows))


if __name__ == "__main__":
    main()
