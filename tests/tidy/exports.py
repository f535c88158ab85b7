#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Compares the dynamic interface of a built library with its list in symbols/.

usage: exports.py LIST LIBRARY

Checks SONAME, version nodes, exported symbols, imported DAT functions, that nothing of our own is left
undefined, immediate binding, and that neither a text relocation nor an executable stack is asked for.
Not for sanitized libraries. Exit status 0: as listed, 1: not, 2: could not check.
"""

import re
import subprocess
import sys


def read_list(path):
    """The list as {'soname': str, 'exports': {(node, symbol)}, 'imports': {symbol}}."""
    wanted = {"soname": None, "exports": set(), "imports": set(), "nodes": set()}
    node = None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            words = line.split("#")[0].split()
            if not words:
                continue
            kind, name = words
            if kind == "soname":
                wanted["soname"] = name
            elif kind == "node":
                node = name
                wanted["nodes"].add(node)
            elif kind == "symbol":
                wanted["exports"].add((node, name))
            elif kind == "import":
                wanted["imports"].add(name)
            else:
                sys.exit(f"{path}: unknown word '{kind}'")
    return wanted


def readelf(option, library):
    result = subprocess.run(["readelf", "--wide", option, library], check=False,
                            capture_output=True, text=True)
    if result.returncode != 0:
        print(result.stderr.strip(), file=sys.stderr)
        sys.exit(2)
    return result.stdout


def read_library(library):
    found = {"exports": set(), "unversioned": set(), "nodes": set(), "imports": set()}
    for line in readelf("--dyn-syms", library).splitlines():
        words = line.split()
        if len(words) < 8 or not words[0].rstrip(":").isdigit() or int(words[0].rstrip(":")) == 0:
            continue
        kind, binding, section, name = words[3], words[4], words[6], words[7]
        if section == "UND":
            if re.match(r"(dats?|dapl)_", name) or "5udapl" in name:  # 5udapl: mangled udapl::
                found["imports"].add(name)
        elif section == "ABS" and kind == "OBJECT":
            found["nodes"].add(name.split("@")[0])
        elif binding in ("GLOBAL", "WEAK", "UNIQUE"):
            symbol, _, node = name.partition("@@")
            found["exports" if node else "unversioned"].add((node, symbol) if node else symbol)
    # Newer linkers omit the absolute symbols of the nodes; the version table always has the nodes.
    table = readelf("--version-info", library).split("Version definition section")
    if len(table) > 1:
        definitions = table[1].split("Version needs section")[0]
        for flags, name in re.findall(r"Flags: (\S+)\s+Index: \d+\s+Cnt: \d+\s+Name: (\S+)",
                                      definitions):
            if flags != "BASE":
                found["nodes"].add(name)
    dynamic = readelf("--dynamic", library)
    soname = re.search(r"\(SONAME\).*\[(.*)\]", dynamic)
    found["soname"] = soname.group(1) if soname else None
    found["needed"] = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    found["now"] = bool(re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW", dynamic))
    found["textrel"] = "TEXTREL" in dynamic
    stack = re.search(r"GNU_STACK\s+\S+\s+\S+\s+\S+\s+\S+\s+\S+\s+(\S+)",
                      readelf("--program-headers", library))
    found["executable_stack"] = bool(stack and "E" in stack.group(1))
    return found


def compare(wanted, found):
    errors = []

    def differ(what, expected, actual):
        for item in sorted(expected - actual):
            errors.append(f"missing {what}: {item}")
        for item in sorted(actual - expected):
            errors.append(f"unexpected {what}: {item}")

    if found["soname"] != wanted["soname"]:
        errors.append(f"SONAME is {found['soname']}, not {wanted['soname']}")
    differ("version node", wanted["nodes"], found["nodes"])
    differ("symbol", {f"{s}@@{n}" for n, s in wanted["exports"]},
           {f"{s}@@{n}" for n, s in found["exports"]})
    for symbol in sorted(found["unversioned"]):
        errors.append(f"exported without a version: {symbol}")
    for symbol in sorted(found["imports"] - wanted["imports"]):
        errors.append(f"imports {symbol}")
    for library in sorted(found["needed"]):
        if re.match(r"lib(dat|dapl)", library):
            errors.append(f"links {library}: registry and providers find each other at run time only")
    if not found["now"]:
        errors.append("not bound at load time (-z now)")
    if found["textrel"]:
        errors.append("has text relocations")
    if found["executable_stack"]:
        errors.append("asks for an executable stack")
    return errors


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    wanted = read_list(sys.argv[1])
    found = read_library(sys.argv[2])
    errors = compare(wanted, found)
    for error in errors:
        print(f"{sys.argv[2]}: {error}")
    print(f"{wanted['soname']}: {len(found['exports'])} symbols in {len(found['nodes'])} version nodes, "
          f"{len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
