#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Does the conformance suite notice when the core is wrong? Puts one deliberate defect at a time (defects.py) into a copy
of the tree, builds, runs the suite on the software provider, and says which test has failed.

Takes half an hour to an hour, so it is run by hand: tests/mutation/mutate.py [--only NAME...] [--jobs N].
Exit status 0: every defect was caught. 1: one was not, or its place in the source has changed (defects.py).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

from defects import DEFECTS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGETS = ["dat2", "daplsoft", "conformance"]
# An error in the core may leave a test waiting for what never comes, for 20 s a test.
SUITE_SECONDS = 240


def run(*words, **options):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **options)


def copy_tree(source):
    """The tracked files as they are now, changed ones too."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], stdout=subprocess.PIPE, check=True)
    for name in names.stdout.decode().split("\0"):
        path = os.path.join(ROOT, name)
        if not name or not os.path.isfile(path):
            continue
        target = os.path.join(source, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(path, target)


def build(folder, jobs):
    return run("cmake", "--build", folder, "--parallel", str(jobs), "--target", *TARGETS)


class Caught(Exception):
    """What noticed the defect."""


def run_suite(folder, groups, arguments):
    """Raises Caught if a test fails."""
    junit = os.path.join(folder, "junit.xml")
    if os.path.exists(junit):
        os.remove(junit)
    environment = dict(os.environ, DAT_OVERRIDE=os.path.join(folder, "etc/dat.conf"), DAPL_TRACE_LEVEL="0")
    words = [os.path.join(folder, "bin/datconform"), "--ia=soft", "--log_level=nothing", "--junit", junit,
             *arguments, *([f"--run_test={groups}"] if groups else [])]
    try:
        result = run(*words, env=environment, timeout=SUITE_SECONDS)
    except subprocess.TimeoutExpired:
        raise Caught(f"no end within {SUITE_SECONDS} s: {groups or 'the suite'}") from None
    if result.returncode == 0:
        return
    try:
        failed = [case for case in xml.etree.ElementTree.parse(junit).getroot().iter("testcase")
                  if case.find("failure") is not None]
    except (OSError, xml.etree.ElementTree.ParseError):
        raise Caught(f"the program ended with {result.returncode}") from None
    first = f"{failed[0].get('classname')}/{failed[0].get('name')}" if failed else "?"
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    raise Caught(first + more)


def known_groups(folder):
    listed = run(os.path.join(folder, "bin/datconform"), "--list_content").stdout
    return set(re.findall(r"^(\w+)\*?", listed, re.MULTILINE))


def look(folder, groups):
    """The likely groups first, then everything, with both tables."""
    for arguments in ([], ["--threadsafe"]):
        if groups:
            run_suite(folder, groups, arguments)
    for arguments in ([], ["--threadsafe"]):
        run_suite(folder, "", arguments)


def try_defect(source, folder, defect, jobs, groups_there):
    name, path, before, after, groups = defect
    del name
    groups = ",".join(group for group in groups.split(",") if group in groups_there)
    file = os.path.join(source, path)
    with open(file, encoding="utf-8") as text:
        original = text.read()
    if original.count(before) != 1:
        return "STALE", f"its place occurs {original.count(before)} times in {path}"
    try:
        with open(file, "w", encoding="utf-8") as text:
            text.write(original.replace(before, after))
        built = build(folder, jobs)
        if built.returncode != 0:
            return "STALE", "it does not compile: " + "".join(re.findall(r"error: .*\n", built.stdout)[:1]).strip()
        look(folder, groups)
        return "NOT CAUGHT", ""
    except Caught as caught:
        return "caught", str(caught)
    finally:
        with open(file, "w", encoding="utf-8") as text:
            text.write(original)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these defects")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", default=os.path.join(ROOT, "build/mutation"), help="where to copy and build")
    arguments = parser.parse_args()
    names = [defect[0] for defect in DEFECTS]
    unknown = set(arguments.only or []) - set(names)
    if unknown or len(set(names)) != len(names):
        parser.error(f"unknown or double names: {unknown or names}")

    source = os.path.join(arguments.folder, "src")
    folder = os.path.join(arguments.folder, "build")
    shutil.rmtree(source, ignore_errors=True)
    copy_tree(source)
    launcher = shutil.which("ccache")
    options = [f"-DCMAKE_{language}_COMPILER_LAUNCHER={launcher}" for language in ("C", "CXX")] if launcher else []
    configured = run("cmake", "--preset", "release", "-S", source, "-B", folder, *options, cwd=source)
    built = build(folder, arguments.jobs) if configured.returncode == 0 else configured
    if built.returncode != 0:
        sys.exit(built.stdout[-4000:] + "\nThe tree does not build without any defect.")
    try:
        look(folder, "")
    except Caught as caught:
        sys.exit(f"The suite fails without any defect: {caught}")

    bad = 0
    groups = known_groups(folder)
    chosen = [defect for defect in DEFECTS if not arguments.only or defect[0] in arguments.only]
    for defect in chosen:
        start = time.monotonic()
        verdict, why = try_defect(source, folder, defect, arguments.jobs, groups)
        bad += verdict != "caught"
        print(f"{verdict:10} {defect[0]:34} {time.monotonic() - start:5.0f} s  {why}", flush=True)
    print(f"{len(chosen)} defects, {len(chosen) - bad} caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
