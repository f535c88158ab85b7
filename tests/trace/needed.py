#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Checks that none of our libraries except the probes links LTTng.

usage: needed.py PROBES LIBRARY...     PROBES is "" if they are not built
"""

import subprocess
import sys


def needs(library):
    result = subprocess.run(["readelf", "--wide", "--dynamic", library], check=True, capture_output=True,
                            text=True)
    return [line for line in result.stdout.splitlines() if "(NEEDED)" in line and "lttng" in line]


def main():
    errors = [f"{library} links LTTng" for library in sys.argv[2:] if needs(library)]
    if sys.argv[1] and not needs(sys.argv[1]):
        errors.append(f"{sys.argv[1]} does not: this test would find nothing")
    print("\n".join(errors) or f"{len(sys.argv) - 2} libraries")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
