#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Checks the lock annotations with clang, whatever compiler the build uses.

usage: thread_safety.py COMPILE_COMMANDS ROOT CLANG FOLDER...

Compiles the sources of the folders with -Wthread-safety -Werror and the include paths, macros and warnings the build
gives them; with ccache, if there is one, so that what has not changed is not looked at again. Exit status 0: clean, 1: not, 2: could not check.
"""

import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

KEPT = re.compile(r"-(I|D|U|W(?!l,|error)|std=|isystem|include|pthread)")


def clang_command(clang, entry):
    words = entry.get("arguments") or shlex.split(entry["command"])
    kept, index = [], 1
    while index < len(words):
        word = words[index]
        if KEPT.match(word):
            kept.append(word)
            if word in ("-I", "-D", "-U", "-isystem", "-include"):
                index += 1
                kept.append(words[index])
        index += 1
    return [clang, *kept, "-Wno-unknown-warning-option", "-Wthread-safety", "-Werror", entry["file"]]


def check(clang, entry):
    command = clang_command(clang, entry)
    with tempfile.TemporaryDirectory() as folder:  # removed even if the compiler fails
        if shutil.which("ccache"):  # which caches only compilations that write an object file
            command = ["ccache", *command, "-c", "-o", os.path.join(folder, "unused.o")]
        else:
            command.append("-fsyntax-only")
        result = subprocess.run(command, cwd=entry["directory"], check=False, capture_output=True, text=True)
    return entry["file"], result.returncode, result.stdout + result.stderr


def main():
    if len(sys.argv) < 5:
        print(__doc__, file=sys.stderr)
        return 2
    commands, root, clang, folders = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    with open(commands, encoding="utf-8") as file:
        entries = json.load(file)
    wanted = {}
    for entry in entries:
        name = os.path.relpath(os.path.realpath(entry["file"]), os.path.realpath(root))
        if name.endswith(".cpp") and name.startswith(tuple(f + "/" for f in folders)):
            wanted.setdefault(name, entry)
    if not wanted:
        print(f"no source of {', '.join(folders)} in {commands}", file=sys.stderr)
        return 2
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for file, status, output in pool.map(lambda e: check(clang, e), wanted.values()):
            if status != 0:
                failed += 1
                print(f"{file}:\n{output}")
    print(f"thread safety: {len(wanted)} files, {failed} with errors")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
