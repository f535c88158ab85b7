#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Compares two protocols of `differential`: compare.py LEFT RIGHT [--expected FILE] [--show N]

Prints each kind of difference once, with its number and where it was seen first. Exit status: 0 if all are expected.
"""

import argparse
import collections
import re
import sys

BENIGN = ("query", "get_", "wait", "dequeue", "context", "sync", "drain", "status")
LINE = re.compile(r"^(program|step|=|\.|event|dequeue|killed|end)( |$)")


class Program:
    def __init__(self, seed):
        self.seed = seed
        self.steps = []  # [text, result, details, events]
        self.end = ""


def read(path):
    programs, current = {}, None
    with open(path, errors="replace") as stream:
        for line in stream:
            line = line.rstrip("\n")
            # A library may print to the same stream, even without a newline.
            line = re.sub(r"^.*?((?:step \d+ |event [ab]\.|= [0-9a-f]+$).*)$", r"\1", line) if not LINE.match(line) else line
            if not LINE.match(line):
                continue
            word, _, rest = line.partition(" ")
            if word == "program":
                current = programs.setdefault(int(rest), Program(int(rest)))
            elif word == "step":
                number, _, text = rest.partition(" ")
                current.steps.append([int(number), text, None, [], []])
            elif word == "=":
                if current.steps:
                    current.steps[-1][2] = int(rest, 16)
            elif word == ".":
                current.steps[-1][3].append(rest)
            elif word in ("event", "dequeue"):
                current.steps[-1][4].append(line)
            else:
                current.end = line
    return programs


def fields(text):
    return dict(item.split("=", 1) for item in text.split() if "=" in item)


class Comparison:
    def __init__(self, expected):
        self.expected = expected
        self.found = collections.OrderedDict()
        self.compared = 0

    def note(self, kind, program, step):
        for pattern in self.expected:
            if pattern.search(kind):
                return
        entry = self.found.setdefault(kind, [0, f"program {program} step {step}"])
        entry[0] += 1

    def events_until(self, program, steps):
        queues = collections.defaultdict(list)
        for step in program.steps[:steps]:
            for line in step[4]:
                queues[line.split()[1]].append((step[0], line))
        return queues

    def compare(self, left, right):
        count = 0
        for one, two in zip(left.steps, right.steps):
            if one[1] != two[1] or one[0] != two[0]:
                break
            if one[2] is None or two[2] is None:  # crashed or hung
                side = "left" if one[2] is None else "right"
                self.note(f"STOPPED {side} in {one[1].split()[0]} ({left.end} / {right.end})", left.seed, one[0])
                break
            count += 1
            self.compared += 1
            call = one[1].split()[0]
            if one[2] != two[2]:
                self.note(f"RESULT {call} {one[2]:08x} / {two[2]:08x}", left.seed, one[0])
                if (one[2] == 0) != (two[2] == 0) and not any(word in call for word in BENIGN):
                    break
            if one[2] == 0 and two[2] == 0:
                for first, second in zip(one[3], two[3]):
                    a, b = fields(first), fields(second)
                    for key in a:
                        if a[key] != b.get(key):
                            self.note(f"FIELD {call} {key} {a[key]} / {b.get(key)}", left.seed, one[0])
        self.compare_events(left, right, count)

    def compare_events(self, left, right, count):
        first, second = self.events_until(left, count), self.events_until(right, count)
        for evd in sorted(set(first) | set(second)):
            for i in range(max(len(first[evd]), len(second[evd]))):
                a = first[evd][i] if i < len(first[evd]) else None
                b = second[evd][i] if i < len(second[evd]) else None
                if a is None or b is None:
                    # The last steps may have stopped one of them before its events came.
                    step, line = a or b
                    if len(left.steps) > count + 1 or step < left.steps[count - 1][0]:
                        number = fields(line).get("number", line)
                        status = fields(line).get("status", "")
                        self.note(f"EVENT only {'left' if a else 'right'} {number} status={status}", left.seed, step)
                    break
                if a[1] != b[1]:
                    x, y = fields(a[1]), fields(b[1])
                    different = [f"{k}:{x.get(k)}/{y.get(k)}" for k in sorted(set(x) | set(y)) if x.get(k) != y.get(k)]
                    same = x.get("number") == y.get("number")
                    self.note(f"EVENT {x.get('number')} {' '.join(different) if same else 'number ' + str(x.get('number')) + '/' + str(y.get('number'))}"
                              f" status={x.get('status')}", left.seed, a[0])
                    if not same or x.get("cookie") != y.get("cookie"):
                        break


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("--expected")
    options = parser.parse_args()
    expected = []
    if options.expected:
        with open(options.expected) as stream:
            expected = [re.compile(line.split("\t")[0].strip()) for line in stream
                        if line.strip() and not line.startswith("#")]
    comparison = Comparison(expected)
    left, right = read(options.left), read(options.right)
    for seed in sorted(set(left) & set(right)):
        comparison.compare(left[seed], right[seed])
    for kind, (number, where) in sorted(comparison.found.items()):
        print(f"{number:5} {kind}   [{where}]")
    print(f"{comparison.compared} steps compared, {len(comparison.found)} kinds of differences")
    return 1 if comparison.found else 0


if __name__ == "__main__":
    sys.exit(main())
