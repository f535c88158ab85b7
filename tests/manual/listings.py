#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Compiles and runs the listings of documents.

usage: listings.py COMPILER INCLUDE LIB DOCUMENT...      DAT_OVERRIDE names a dat.conf with the IA "soft"

A block that begins with ```cpp is a whole program; the next block ```text is its standard output.
"""

import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(cpp|text)\n(.*?)^```\n", re.M | re.S)
FLAGS = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def main():
    compiler, include, lib, *documents = sys.argv[1:]
    failed = ran = 0
    for document in documents:
        with open(document, encoding="utf-8") as file:
            blocks = BLOCK.findall(file.read())
        for (kind, program), (after, expected) in zip(blocks, [*blocks[1:], ("", "")]):
            if kind != "cpp":
                continue
            ran += 1
            if after != "text":
                expected = ""
            with tempfile.TemporaryDirectory() as work:
                source, binary = os.path.join(work, "listing.cpp"), os.path.join(work, "listing")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(program)
                said = subprocess.run([compiler, *FLAGS, f"-I{include}", source, f"-L{lib}", "-ldat2",
                                       f"-Wl,-rpath,{lib}", "-o", binary], check=False, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                if said.returncode == 0:
                    said = subprocess.run([binary], check=False, text=True, timeout=60, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE)
            if said.returncode != 0 or said.stdout != expected:
                failed += 1
                print(f"FAILED: {document}, program {ran}: ended with {said.returncode}\n{said.stdout}{said.stderr}")
    print(f"{ran} programs, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
