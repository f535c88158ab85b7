# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Checks that each installed file is in exactly one package of debian/ and in exactly one of rpm/udapl.spec."""

import fnmatch
import glob
import os
import re

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MACROS = {"_bindir": "usr/bin", "_includedir": "usr/include", "_libdir": "usr/lib/multiarch", "_sysconfdir": "etc",
          "_datadir": "usr/share", "_mandir": "usr/share/man", "_docdir": "usr/share/doc"}


def lines_of(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read().splitlines()


def debian_packages():
    """{package: [pattern of its files]}"""
    return {os.path.basename(path)[:-len(".install")]:
            [line.split()[0].removeprefix("debian/tmp/") for line in lines_of(path) if line.strip()]
            for path in glob.glob(os.path.join(SOURCE, "debian", "*.install"))}


def rpm_packages():
    packages, patterns = {}, None
    for line in lines_of("rpm", "udapl.spec"):
        heading = re.match(r"%files (?:-n )?(\S+)$", line)
        if heading:
            patterns = packages.setdefault(heading[1], [])
        elif re.match(r"%(changelog|package|description|prep|build|install|check)\b", line):
            patterns = None
        elif patterns is not None and line and not line.startswith("%license"):
            line = re.sub(r"^%config\S* ", "", line)
            patterns.append(re.sub(r"%\{(\w+)\}", lambda macro: MACROS[macro[1]], line))
    return packages


def as_packaged(path):
    """The path in the packages of a file that is staged with the prefix /usr."""
    for staged, packaged in (("usr/lib/", "usr/lib/multiarch/"), ("usr/etc/", "etc/"),
                             ("usr/share/doc/udapl/", "usr/share/doc/udapl-doc/")):
        if path.startswith(staged):
            return packaged + path[len(staged):]
    return path


def owners(path, packages):
    return [name for name, patterns in packages.items()
            if any(fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, pattern + "/*")
                   for pattern in patterns)]


def check_cut(staged):
    """`staged`: all files of an installation with the prefix /usr, relative to its root."""
    files = [as_packaged(path) for path in staged]
    programs = [os.path.basename(path) for path in files if path.startswith("usr/bin/")]
    for kind, packages in (("debian", debian_packages()), ("rpm", rpm_packages())):
        if len(packages) < 5 or not programs:
            raise RuntimeError(f"{kind}: packages {sorted(packages)}, programs {programs}")
        of = {path: owners(path, packages) for path in files}
        wrong = [f"{path} ({', '.join(names) or 'none'})" for path, names in of.items() if len(names) != 1]
        if wrong:
            raise RuntimeError(f"{kind}: not in exactly one package: {'; '.join(wrong)}")
        for program in programs:
            parts = {f"usr/bin/{program}", f"usr/share/man/man1/{program}.1",
                     f"usr/share/bash-completion/completions/{program}"}
            missing = parts - set(files)
            if missing or len({of[part][0] for part in parts}) != 1:
                raise RuntimeError(f"{kind}: {program}, its page and its completion are not in one package: "
                                   f"{', '.join(sorted(missing)) or [of[part] for part in sorted(parts)]}")
