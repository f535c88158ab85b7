#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What <dat/dat.hpp> costs beside C: instructions per call of a program's own code.

usage: cpp.py CPP_COST

Counted by callgrind over calls of DAT that do nothing. Exit status 0: the C++ of no call takes more than the C of it,
1: not so, 77: no valgrind.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

CALLS = 512  # as in cpp_cost.cpp
OPERATIONS = ["send", "recv", "write", "dequeue"]


def main():
    program = sys.argv[1]
    if not shutil.which("valgrind"):
        print("skipped: no valgrind")
        return 77
    names = [f"{operation}_{language}" for operation in OPERATIONS for language in ("c", "cpp")]
    counts = {}
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={work}/out",
                        "--collect-atstart=no", "--toggle-collect=measure_*",
                        *(f"--dump-after=measure_{name}" for name in names), program],
                       check=True, timeout=120, stdout=subprocess.DEVNULL)
        for path in glob.glob(os.path.join(work, "out*")):
            with open(path, encoding="utf-8", errors="replace") as dump:
                text = dump.read()
            measured = re.search(r"^desc: Trigger: .*measure_(\w+)", text, re.M)
            total = re.search(r"^totals: (\d+)", text, re.M) or re.search(r"^summary: (\d+)", text, re.M)
            if measured and total:
                counts[measured.group(1)] = int(total.group(1)) / CALLS
    missing = set(names) - set(counts)
    if missing:
        print(f"callgrind counted nothing for {sorted(missing)}")
        return 1
    print(f"{'instructions per call':<24}{'C':>8}{'C++':>8}")
    failed = 0
    for operation in OPERATIONS:
        plain, ours = counts[f"{operation}_c"], counts[f"{operation}_cpp"]
        failed += ours > plain + 0.1  # 0.1: entry to and exit from the function
        print(f"{operation:<24}{plain:>8.1f}{ours:>8.1f}{'' if ours <= plain + 0.1 else '  too many'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
