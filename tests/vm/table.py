#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Prints a Markdown table of results of tests/peers/run.py: table.py PACKAGED.jsonl BUILT.jsonl [COMMIT]

  script/vm --timeout 1800 --packaged --share R -- python3 tests/peers/run.py --build build/release --setup vm \\
    --server packaged --client packaged --results R/packaged.jsonl '*'
  script/vm --timeout 1800 --share R -- python3 tests/peers/run.py --build build/release --setup vm \\
    --results R/built.jsonl '*'

A case that was run more than once counts with its last result.
"""

import json
import sys

HEAD = """# dapl2-utils on the kernel's RDMA stack

Unmodified programs of `dapl2-utils` in the virtual machine (soft-RoCE, one host, `ofa-v2-rxe0`), with the distribution's
libdat2 and libdaplofa, and with ours. Written by `tests/vm/table.py`, which says how to repeat it{commit}. The seconds are
those of an emulated processor on a busy machine: no measurement.

{summary}
| case | packaged | s | ours | s |
|---|---|---:|---|---:|
"""


def read(path):
    with open(path) as file:
        return {result["case"]: result for result in map(json.loads, file)}


def cells(result):
    if result is None:
        return "not run", ""
    said = result["result"] + (f": {result['why']}" if result["why"] else "")
    return said, f"{result['seconds']:.1f}"


def main():
    packaged, built = read(sys.argv[1]), read(sys.argv[2])
    commit = f"; ours as of commit {sys.argv[3]}" if len(sys.argv) > 3 else ""
    summary = ""
    for name, results in (("packaged", packaged), ("ours", built)):
        passed = sum(result["result"] == "passed" for result in results.values())
        summary += f"- {name}: {passed} of {len(results)} passed\n"
    worse = [case for case, result in built.items()
             if result["result"] != "passed" and packaged.get(case, {}).get("result") == "passed"]
    summary += f"- passed by the packaged libraries and not by ours: {', '.join(worse) or 'none'}\n"
    print(HEAD.format(commit=commit, summary=summary), end="")
    for case in dict.fromkeys([*packaged, *built]):
        print("| " + " | ".join([case, *cells(packaged.get(case)), *cells(built.get(case))]) + " |")


if __name__ == "__main__":
    main()
