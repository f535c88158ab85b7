#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tests what datconform does around its tests: options, skips, crashes, hangs, JUnit, a partner over TCP.

usage: program.py DATCONFORM FAULTY_LIBRARY      DAT_OVERRIDE names a dat.conf with the IA "soft"
"""

import os
import socket
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import free_port

PROGRAM = ""
FAULTY = ""
FAST = "--run_test=ia/ia_open_*"


def run(*arguments, fault=None):
    environment = dict(os.environ)
    if fault:
        environment.update(LD_PRELOAD=FAULTY, FAULT=fault)
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env=environment, timeout=100, check=False)


def row(output, group):
    """The numbers in a row of the summary."""
    for line in output.splitlines():
        if line.startswith(group + " "):
            return [int(word) for word in line[len(group):].split()]
    return None


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, text=""):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def test_passes(self):
        result = run("--ia", "soft", FAST)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertEqual(row(result.stdout, "ia")[1:], [0, 0])
        self.assertGreater(row(result.stdout, "all tests")[0], 3)
        self.assertGreater(row(result.stdout, "checklist lines")[0], 3)

    def test_alone_is_the_same(self):
        result = run("--ia=soft", FAST, "--isolate")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertEqual(row(result.stdout, "ia"), row(run("--ia=soft", FAST).stdout, "ia"))

    def test_several_at_a_time_are_the_same(self):
        quirks = self.file("quirks", "ia/ia_open_twice its opening is odd\n")
        names = []
        for extra in ([], ["--isolate", "--jobs=4"]):
            junit = os.path.join(self.folder, "out.xml")
            result = run("--ia=soft", "--run_test=ia,endpoint", "--junit", junit, "--quirks", quirks, *extra)
            self.assertEqual(result.returncode, 0, result.stdout)
            suite = xml.etree.ElementTree.parse(junit).getroot()
            names.append([(case.get("classname"), case.get("name"), len(case)) for case in suite.iter("testcase")])
        self.assertEqual(*names)

    def test_unknown_ia_fails(self):
        result = run("--ia", "nobody")
        self.assertEqual(result.returncode, 1)
        self.assertIn('datconform: the IA "nobody" does not open: ', result.stdout)
        self.assertIsNone(row(result.stdout, "all tests"))  # no test has run
        self.assertIn("PROVIDER_NOT_FOUND", result.stdout)

    def test_wrong_usage(self):
        for arguments in (["--ia"], ["--isolate=x"], ["--isolate=0"], ["--jobs=0"], ["--listen=99999"], ["--junit="],
                          ["--quirks", "/nonexistent"], ["--quirks", "/"], ["--quirks", "/dev/zero"],
                          ["--no-such-option"], ["soft"], ["--threadsafe", "soft"], [FAST, "soft"]):
            self.assertEqual(run(*arguments).returncode, 2, arguments)
        self.assertEqual(run("--ia=soft", "-l", "error", FAST).returncode, 0)  # a value of Boost.Test's

    def test_no_test_is_no_success(self):
        for filter_of_none in ("no_such_suite", "ia/no_such_test"):
            result = run("--ia=soft", "--run_test=" + filter_of_none)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn("datconform: ", result.stdout)

    def test_help(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for option in ("--ia", "--peer", "--listen", "--isolate", "--jobs", "--quirks", "--junit", "--list"):
            self.assertIn(option, result.stdout)

    def test_crash_hang_and_end_cost_one_test(self):
        for mode, said in (("crashes", "CRASHED"), ("hangs", "HUNG: no end within 1 s"),
                           ("ends", "the process ended during the test")):
            result = run("--ia=soft", "--run_test=ia/ia_open_creates_async,ia_open_twice",
                         "--isolate=1", fault=mode)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(row(result.stdout, "ia"), [0, 2, 0], result.stdout)
            self.assertIn(said, result.stdout)

    def test_fail_fast(self):
        for extra in ([], ["--isolate"]):
            result = run("--ia=nobody", FAST, "--fail-fast", *extra)
            self.assertEqual(result.returncode, 1)
            passed, failed, skipped = row(result.stdout, "ia")
            self.assertEqual((passed, failed), (0, 1), result.stdout)
            self.assertGreater(skipped, 3)
            self.assertIn("not run: a test before it has failed", result.stdout)

    def test_observe(self):
        for extra in ([], ["--isolate"]):
            seen = self.file("seen")
            result = run("--ia=soft", FAST, "--observe", seen, *extra)
            self.assertEqual(result.returncode, 0, result.stdout)
            with open(seen, encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertIn("dat_ia_openv\tDAT_SUCCESS\tia/ia_open_twice", lines)
            self.assertIn("dat_ia_openv\tDAT_INVALID_PARAMETER\tia/ia_open_qlen_zero", lines)
        self.assertEqual(run("--ia=soft", FAST, "--observe=/nonexistent/x").returncode, 2)

    def test_observe_on_a_full_disk(self):
        for extra in ([], ["--isolate"]):
            result = run("--ia=soft", FAST, "--observe=/dev/full", *extra)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn("datconform: /dev/full: No space left on device\n", result.stdout)

    def test_quirks(self):
        quirks = self.file("quirks", "# a comment\n\nia/ia_open_* its opening is odd\n")
        for extra in ([], ["--isolate"]):
            result = run("--ia=soft", "--run_test=ia/ia_open_*,ia_close_bad_handle",
                         f"--quirks={quirks}", *extra)
            self.assertEqual(result.returncode, 0, result.stdout)
            self.assertEqual(row(result.stdout, "ia")[:2], [1, 0])
            self.assertGreater(row(result.stdout, "ia")[2], 3)
            self.assertIn("SKIPPED ia/ia_open_twice: its opening is odd", result.stdout)

    def test_a_quirk_has_a_reason(self):
        result = run("--ia=soft", FAST, "--quirks=" + self.file("quirks", "ia/*\n"))
        self.assertEqual(result.returncode, 2)
        self.assertIn(":1: no reason", result.stdout)

    def test_junit(self):
        junit = os.path.join(self.folder, "out.xml")
        quirks = self.file("quirks", 'ia/ia_open_twice <odd> & "so"\n')
        run("--ia=soft", FAST, "--quirks", quirks, "--junit", junit)
        suite = xml.etree.ElementTree.parse(junit).getroot()
        cases = {case.get("name"): case for case in suite.iter("testcase")}
        self.assertEqual(int(suite.get("tests")), len(cases))
        self.assertEqual((suite.get("failures"), suite.get("skipped")), ("0", "1"))
        self.assertEqual(cases["ia_open_twice"].find("skipped").get("message"), '<odd> & "so"')
        self.assertEqual(cases["ia_open_qlen_zero"].get("classname"), "ia")
        self.assertEqual(len(cases["ia_open_qlen_zero"]), 0)

        run("--ia=nobody", FAST, "--junit", junit)
        suite = xml.etree.ElementTree.parse(junit).getroot()
        self.assertEqual(suite.get("failures"), suite.get("tests"))
        self.assertIn("PROVIDER_NOT_FOUND", next(suite.iter("failure")).get("message"))

    def test_junit_that_cannot_be_written(self):
        result = run("--ia=soft", FAST, "--junit=/nonexistent/x.xml")
        self.assertEqual(result.returncode, 2)
        self.assertIsNone(row(result.stdout, "ia"))  # no test has run

    def test_partner_over_tcp(self):
        port = free_port()
        with subprocess.Popen([PROGRAM, "--ia=soft", f"--listen={port}"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as partner:
            try:
                self.assertIn(str(port), partner.stdout.readline())
                result = run("--ia=soft", f"--peer=localhost:{port}", "--run_test=remote")
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertGreater(row(result.stdout, "remote")[0], 10)
            finally:
                partner.terminate()

    def test_no_partner(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
            result = run("--ia=soft", f"--peer=127.0.0.1:{port}", "--run_test=remote/rem_reject")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no datconform --listen there", result.stdout)

    def test_failure_of_the_partner_is_the_drivers(self):
        # The partner has no IA of that name.
        port = free_port()
        with subprocess.Popen([PROGRAM, "--ia=nobody", f"--listen={port}"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as partner:
            try:
                partner.stdout.readline()
                result = run("--ia=soft", f"--peer=127.0.0.1:{port}", "--run_test=remote/rem_reject")
            finally:
                partner.terminate()
        self.assertEqual(result.returncode, 1)
        self.assertEqual(row(result.stdout, "remote"), [0, 1, 0])


if __name__ == "__main__":
    PROGRAM, FAULTY = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
