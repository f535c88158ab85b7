#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs hostile cases against the software RNIC.

usage: run.py --victim PROGRAM --bystander PROGRAM --liar PROGRAM --dat-conf FILE [--seconds N] [--sanitized]
              [CASE...]

Without CASE, runs all cases; --list prints their names. Exit status 0 only if all pass, 77 if all were skipped.
"""

import argparse
import sys
import time

import cases
import soak
from support import Failed, Setup


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--victim")
    parser.add_argument("--bystander")
    parser.add_argument("--liar")
    parser.add_argument("--dat-conf")
    parser.add_argument("--seconds", type=float, default=20, help="of each soak")
    parser.add_argument("--sanitized", action="store_true",
                        help="memory and processor time are a sanitizer's, so not judged")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("case", nargs="*")
    return parser.parse_args()


def run(case, setup):
    """Runs a case. Returns True if it passed, None if it was skipped."""
    begun = time.monotonic()
    print(case.__name__, flush=True)
    try:
        case(setup)
    except cases.Skipped as reason:
        print(f"  skipped: {reason}")
        return None
    except (Failed, OSError) as failure:
        print(f"  FAILED: {failure!r}", flush=True)
        return False
    print(f"  holds ({time.monotonic() - begun:.1f} s)", flush=True)
    return True


def main():
    arguments = parse()
    known = {case.__name__: case for case in cases.CASES + [soak.soak, soak.soak_of_rings]}
    if arguments.list:
        print("\n".join(known))
        return 0
    setup = Setup(arguments.victim, arguments.bystander, arguments.liar, arguments.dat_conf,
                  arguments.seconds, arguments.sanitized)
    results = [run(known[name], setup) for name in arguments.case or known]
    if all(result is None for result in results):
        return 77
    return 0 if False not in results else 1


if __name__ == "__main__":
    sys.exit(main())
