#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Checks that every line of the checklist is proven: by a test of datconform, or by an existing test elsewhere.

usage: coverage.py DATCONFORM SOURCE_FOLDER
"""

import os
import re
import subprocess
import sys


def elsewhere_exists(root, place):
    """`place` is "FOLDER/FILE:TEST", or "FILE: why" if it is no test case."""
    match = re.match(r"([\w/.]+):\s*(.+)$", place)
    if not match:
        return False
    path = os.path.join(root, match.group(1))
    if not os.path.isfile(path):
        return False
    test = match.group(2)
    if " " in test:
        return True
    with open(path, encoding="utf-8") as source:
        return re.search(rf"TEST_CASE\(\s*{re.escape(test)}\b", source.read()) is not None


def main():
    program, root = sys.argv[1:]
    complaints = []
    check = subprocess.run([program, "--coverage"], stdout=subprocess.PIPE, text=True, check=False,
                           timeout=60)
    if check.returncode != 0:
        complaints.append(check.stdout)
    listed = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True,
                            timeout=60).stdout.splitlines()
    for expected, line in enumerate(listed, start=1):
        number, _, name, title, where = line.split("\t")
        if int(number) != expected:
            complaints.append(f"{name}: number {number}, expected {expected}")
        if not title:
            complaints.append(f"{name}: no title")
        if where.startswith("tests/") and not elsewhere_exists(root, where):
            complaints.append(f"{name}: there is no {where}")
    print(f"{len(listed)} lines of the checklist, {len(complaints)} complaints")
    print("\n".join(complaints))
    return 1 if complaints or not listed else 0


if __name__ == "__main__":
    sys.exit(main())
