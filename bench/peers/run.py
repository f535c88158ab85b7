#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The software RNIC beside others that move data between two processes of one host: UCX, libfabric, sockets, and what
the machine itself can do. Interleaved, each side on a processor of its own, a probe of the processors' distance before
and after each sample.

  bench/peers/run.py --build build/release [--rounds 9] [--svg peers.svg] [--json peers.json]

UCX is measured with ucx_perftest (Debian: ucx-utils), libfabric with a client of our own (libfabric-dev when building;
without it, with fi_pingpong of libfabric-bin). Numbers are medians of the rounds; a ratio compares ours with the best
of the sides that the row's goal names. Exit status: 0 if everything ran, 1 if not, 2 if the arguments are wrong; how
fast anything was does not matter.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chart
import rows
import sides

NEAR_US = 0.12  # a cache line takes longer between processors that do not share a cache


def state_of(before, after):
    if before < NEAR_US and after < NEAR_US:
        return "near"
    return "far" if before >= NEAR_US and after >= NEAR_US else "changed"


def measure(table, rounds, here):
    """Returns the measurements that were not possible: (title of the row, side) -> reason."""
    without = {}
    for number in range(rounds):
        for row in table:
            for side, sample in row.samples.items():
                if side in here.missing or (row.title, side) in without:
                    continue
                before = here.floor("probe")
                try:
                    value = sample()
                except sides.Skipped as reason:
                    without[row.title, side] = str(reason)
                    continue
                except sides.Failure as reason:
                    if side not in sides.PROGRAMS:
                        raise
                    without[row.title, side] = f"failed: {reason}"  # a program that is not ours
                    continue
                row.found.append((side, state_of(before, here.floor("probe")), value))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return without


def shown(value):
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def lines(table, state):
    yield "| | ours | others | ratio | goal | |"
    yield "|---|---:|---|---:|---:|---|"
    for row in table:
        others = ", ".join(f"{side} {shown(row.median(side, state))}" for side in row.samples if side != "ours")
        sign = "≥" if row.more_is_better else "≤"
        if not row.goals:
            yield f"| {row.title}, {row.unit} | {shown(row.median('ours', state))} | {others} | | none | |"
        for number, goal in enumerate(row.goals):
            ratio, reached = row.verdict(goal, state)
            times, sides_of_goal = goal
            asked = f"{sign} {times:g} " + (f"× {' or '.join(sides_of_goal)}" if sides_of_goal else row.unit)
            word = {True: "reached", False: "not reached", None: "not known"}[reached]
            begin = (f"{row.title}, {row.unit} | {shown(row.median('ours', state))} | {others}" if number == 0
                     else " | | ")
            yield f"| {begin} | {shown(ratio)} | {asked} | {word} |"


def report(table, here, without):
    for side in sorted(here.missing):
        print(f"Not measured: {side} ({sides.PROGRAMS[side]}), {here.missing[side]}.")
    for (title, side), reason in without.items():
        print(f"Not measured: {title}, {side}: {reason}")
    for state, words in (("near", "share a cache"), ("far", "do not share a cache"), ("changed", "moved meanwhile")):
        count = sum(where == state for row in table for _, where, _ in row.found)
        if count == 0:
            continue
        print(f"\nProcessors that {words} ({count} samples):\n")
        print("\n".join(lines(table, state)))


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a sample of ours")
    parser.add_argument("--without", default="", metavar="SIDE,...", help="ucx, libfabric")
    parser.add_argument("--connections", type=numbers, default=[64, 1024, 4096], metavar="N,...",
                        help="of two processes: cost of a message (64,1024,4096); memory: the most, 1024 at most")
    parser.add_argument("--svg", metavar="FILE")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds have to be positive")
    if (os.cpu_count() or 1) < 2:
        sys.exit("bench/peers: two processors are needed")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        here = stack.enter_context(sides.Sides(folder, options))
        table = rows.rows_of(here)
        try:
            without = measure(table, options.rounds, here)
        except (sides.Failure, OSError) as reason:
            sys.exit(f"bench/peers: {reason}")
    report(table, here, without)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump([{"row": row.title, "unit": row.unit, "side": side, "processors": state, "value": value}
                       for row in table for side, state, value in row.found], out, indent=1)
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as out:
            out.write(chart.draw(table))
    return any(reason.startswith("failed") for reason in without.values())


if __name__ == "__main__":
    sys.exit(main())
