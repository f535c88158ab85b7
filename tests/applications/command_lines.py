#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tests edge cases of every installed program: the version, wrong options, an output that cannot be written or
whose reader has gone, an interrupt.

usage: command_lines.py VERSION PROGRAM...      DAT_OVERRIDE names a dat.conf with the IA "soft"
"""

import os
import re
import signal
import subprocess
import sys
import time
import unittest

VERSION = ""
PROGRAMS = {}
# Arguments that print something without another program, and arguments with which a program runs until a signal.
PRINTING = {"datinfo": ["list", "soft"], "datconform": ["--run_test=ia/ia_open_*"],
            "dapltest": ["-T", "L", "-D", "soft", "-m", "10", "limit_pz"], "dtestx": ["-P", "soft", "-q"]}
WAITING = {"dattx": ["server", "--port", "0PORT"], "datperf": ["server", "--port", "0PORT"], "dapltest": ["-T", "S", "-D", "soft", "-n", "0PORT"],
           "datconform": ["--listen=0PORT"]}


def run(name, *arguments, **more):
    # With buffered output, as users have it, so that text that is not flushed in time is lost.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    return subprocess.run([PROGRAMS[name], *arguments], check=False, text=True, timeout=60, env=environment,
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})


class Edges(unittest.TestCase):
    def test_version(self):
        for name in PROGRAMS:
            with self.subTest(name):
                result = run(name, "--version")
                self.assertEqual((result.returncode, result.stdout, result.stderr),
                                 (0, f"{name} (udapl) {VERSION}\n", ""))

    def test_wrong_option(self):
        for name in PROGRAMS:
            with self.subTest(name):
                result = run(name, "--no-such-option", "12")
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                if name != "dattrace-chart":  # argparse has its own format
                    self.assertRegex(result.stderr, rf"\A(\S*/)?{name}: .*no-such-option.*\n"
                                                    rf"Try '{name} --help'.\n\Z")
                self.assertNotIn("\x1b", result.stderr)

    def test_full_disk(self):
        for name in PROGRAMS:
            for arguments in (["--help"], PRINTING.get(name), ["--version"] if name == "dattrace-chart" else None):
                if arguments is None:
                    continue
                with self.subTest(f"{name} {' '.join(arguments)}"), open("/dev/full", "w", encoding="utf-8") as full:
                    result = run(name, *arguments, stdout=full)
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertRegex(result.stderr, f"{name}: standard output: No space left on device\n")

    def test_no_reader(self):
        for name, arguments in PRINTING.items():
            with self.subTest(name):
                read_end, write_end = os.pipe()
                os.close(read_end)
                with os.fdopen(write_end, "w") as gone:
                    result = run(name, *arguments, stdout=gone)
                self.assertEqual(result.returncode, -signal.SIGPIPE, result.stderr)

    def test_interrupt(self):
        for name, arguments in WAITING.items():
            with self.subTest(name):
                port = str(20000 + os.getpid() % 20000)
                with subprocess.Popen([PROGRAMS[name], *(a.replace("0PORT", port) for a in arguments)],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
                    deadline = time.monotonic() + 30
                    # Wait until it listens: from then on no signal is lost, and it waits for nothing else.
                    while f":{int(port):04X} " not in listening() and time.monotonic() < deadline:
                        self.assertIsNone(process.poll())
                        time.sleep(0.02)
                    process.send_signal(signal.SIGINT)
                    self.assertIn(process.wait(30), (0, -signal.SIGINT))
                    self.assertNotRegex(process.stderr.read(), "(?i)error|abort|terminate")

    def test_chart_says_what_is_wrong(self):
        name = "dattrace-chart"
        if name not in PROGRAMS:
            self.skipTest("not built")
        for arguments, words in ((["/nowhere"], "No such file"), ([], "TRACE"), (["--rows", "x", "-"], "--rows")):
            result = run(name, *arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)
            self.assertNotIn("Traceback", result.stderr)
        self.assertEqual(len(re.findall("^usage:", run(name, "--help").stdout, re.M)), 1)

    def test_dattrace_says_what_is_wrong(self):
        if "dattrace" not in PROGRAMS:
            self.skipTest("not built")
        for arguments, words in (([], "missing"), (["1", "2"], "one process"), (["self"], '"self"'),
                                 (["--dat", "11", "1"], '"11"')):
            result = run("dattrace", *arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr.splitlines()[0])


def listening():
    found = ""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="utf-8") as file:
            found += "".join(line for line in file if " 0A " in line)
    return found


if __name__ == "__main__":
    VERSION, *programs = sys.argv[1:]
    PROGRAMS = {os.path.basename(program): program for program in programs}
    unittest.main(argv=sys.argv[:1], verbosity=1)
