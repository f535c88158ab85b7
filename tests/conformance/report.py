#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Writes the results of runs of datconform into docs/conformance.md, between its two markers.

usage: report.py DOCUMENT TEXT_FILE NAME=JUNIT_FILE[,JUNIT_FILE...]...

First the text, which says what was run. A table has a row for each group of tests and a column for each run. What was skipped
and what failed in each run, and why, is printed. A test that is in several files counts with its last result.
tests/conformance/publish makes the runs.
"""

import re
import sys
import xml.etree.ElementTree

BEGIN = "<!-- results: written by tests/conformance/report.py -->\n"
END = "<!-- end of results -->\n"
LONGEST = 150  # characters of a reason


class Run:
    def __init__(self, name, files):
        self.name = name
        self.groups = {}  # group -> [passed, failed, skipped]
        self.failures = []  # (group, test, reason)
        self.skips = {}  # reason -> number
        suites = [xml.etree.ElementTree.parse(file).getroot() for file in files.split(",")]
        cases = {(case.get("classname"), case.get("name")): case for suite in suites for case in suite.iter("testcase")}
        for (group, _), case in cases.items():
            counts = self.groups.setdefault(group, [0, 0, 0])
            failure, skipped = case.find("failure"), case.find("skipped")
            if failure is not None:
                counts[1] += 1
                self.failures.append((group, case.get("name"), reason_of(failure.get("message"))))
            elif skipped is not None:
                counts[2] += 1
                reason = skipped.get("message")
                self.skips[reason] = self.skips.get(reason, 0) + 1
            else:
                counts[0] += 1

    def cell(self, group):
        if group not in self.groups:
            return "not run"
        passed, failed, skipped = self.groups[group]
        words = [f"{passed} passed"]
        if failed:
            words.append(f"**{failed} failed**")
        if skipped:
            words.append(f"{skipped} skipped")
        return ", ".join(words)

    def total(self):
        passed, failed, skipped = (sum(counts[i] for counts in self.groups.values()) for i in range(3))
        return f"{passed} passed, {failed} failed, {skipped} skipped"


def reason_of(message):
    """The message without source locations and handles, which differ between runs."""
    text = re.sub(r"\S*?\w+\.(?:cpp|h):\d+: ", "", message.strip())
    text = re.sub(r"^.* (?:-> (?=DAT_))", "", text) if "-> DAT_" in text else text
    text = re.sub(r"\s+", " ", text).replace("|", "\\|").replace("*", "\\*")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def results(what, runs):
    groups = []
    for run in runs:
        groups += [group for group in run.groups if group not in groups]
    lines = [what, "", "| group | " + " | ".join(run.name for run in runs) + " |", "|---|" + "---|" * len(runs)]
    for group in groups:
        lines.append(f"| `{group}` | " + " | ".join(run.cell(group) for run in runs) + " |")
    lines.append("| all | " + " | ".join(run.total() for run in runs) + " |")
    return "\n".join(lines) + "\n"


def details(runs):
    lines = []
    for run in runs:
        if run.skips:
            lines += ["", f"## Skipped: {run.name}", "", "| reason | tests |", "|---|---|"]
            lines += [f"| {reason_of(reason)} | {number} |" for reason, number in sorted(run.skips.items())]
        if run.failures:
            lines += ["", f"## Failed: {run.name}", "", "| test | what happened |", "|---|---|"]
            lines += [f"| `{group}/{test}` | {reason} |" for group, test, reason in run.failures]
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) < 4 or any("=" not in argument for argument in sys.argv[3:]):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as document:
        text = document.read()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{sys.argv[1]}: no markers\n{BEGIN}{END}")
    runs = [Run(*argument.split("=", 1)) for argument in sys.argv[3:]]
    with open(sys.argv[2], encoding="utf-8") as file:
        what = " ".join(file.read().split())
    with open(sys.argv[1], "w", encoding="utf-8") as document:
        document.write(before + BEGIN + "\n" + results(what, runs) + "\n" + END + after)
    print(details(runs), end="")


if __name__ == "__main__":
    main()
