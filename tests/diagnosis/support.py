# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Common code of the tests of this folder: locations, running programs, comparing texts."""

import difflib
import os
import re
import subprocess
import sys

TIMEOUT_S = 60


class World:
    """The programs and libraries of the build, and a folder for one case."""

    def __init__(self, arguments, folder):
        self.datinfo, self.open_ia, self.soft, self.stubs, self.shipped = arguments
        self.folder = folder
        self.conf_path = os.path.join(folder, "dat.conf")

    def stub(self, variant):
        return os.path.join(self.stubs, f"stub_{variant}.so")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=None):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        if mode is not None:
            os.chmod(path, mode)
        return path

    def conf(self, *lines, mode=None):
        return self.write("dat.conf", "".join(line + "\n" for line in lines), mode)

    def run(self, *words, before=(), environment=None):
        """Runs a program with the case's dat.conf. Returns status, stdout and stderr."""
        full = {k: v for k, v in os.environ.items()
                if not k.startswith(("DAT_", "DAPL_")) and k != "LD_LIBRARY_PATH"}
        full.update(DAT_OVERRIDE=self.conf_path, DAT_TRACE_LEVEL="0", DAPL_TRACE_LEVEL="0", LC_ALL="C")
        if os.environ.get("UDAPL_SANITIZED"):  # its dlopen ignores the run path of the caller
            full["LD_LIBRARY_PATH"] = os.path.dirname(self.soft)
        full.update(environment or {})
        # The leak check traces the process, which set-user-ID or a limit may forbid; last_cause runs with it.
        full["ASAN_OPTIONS"] = full.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        done = subprocess.run([*before, *words], check=False, env=full, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIMEOUT_S)
        return done.returncode, done.stdout, done.stderr


def entry(name, library, device, version="u2.0", safety="nonthreadsafe"):
    return f'{name} {version} {safety} default "{library}" test.1.0 "{device}" ""'


def differences(expected, actual):
    """An empty list if the texts are equal, else their differences."""
    if expected == actual:
        return []
    return list(difflib.unified_diff(expected.splitlines(), actual.splitlines(), "expected", "seen",
                                     lineterm=""))


def run_cases(cases, arguments):
    """Runs each case in a folder of its own. A case returns a list of complaints, or a string with the reason to
    skip it. Returns the exit status for main()."""
    import tempfile

    failed = skipped = 0
    for case in cases:
        name = case.__name__
        with tempfile.TemporaryDirectory(prefix="diagnosis.") as folder:
            os.chmod(folder, 0o755)
            try:
                complaints = case(World(arguments, folder))
            except subprocess.TimeoutExpired as late:
                complaints = [f"no end after {late.timeout} s: {late.cmd}"]
        if isinstance(complaints, str):
            skipped += 1
            print(f"skipped {name}: {complaints}")
        elif complaints:
            failed += 1
            print(f"FAILED  {name}")
            for line in complaints:
                print("    " + re.sub(r"\n", "\n    ", line))
        else:
            print(f"passed  {name}")
    print(f"{len(cases)} cases, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def main(cases):
    sys.exit(run_cases(cases, sys.argv[1:]))
