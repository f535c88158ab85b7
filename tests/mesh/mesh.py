#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs datmesh as jobs of mpirun, on this host and in network namespaces.

usage: mesh.py DATMESH NAMESPACES BUILD_FOLDER      with DAT_OVERRIDE set to a dat.conf with the IA "soft"
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = NAMESPACES = BUILD = ""


def run(*words):
    environment = dict(os.environ, DAPL_TRACE_LEVEL="0")
    return subprocess.run(words, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                          env=environment)


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
class Mesh(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json, self.html = (os.path.join(folder.name, "mesh." + kind) for kind in ("json", "html"))

    def report(self):
        with open(self.json, encoding="utf-8") as file:
            return json.load(file)

    def check_page(self, ranks):
        with open(self.html, encoding="utf-8") as file:
            page = file.read()
        self.assertEqual(page.count("<figure>"), 2)
        self.assertGreater(page.count("<rect "), ranks * (ranks - 1) * 3 // 2)
        self.assertNotRegex(page, "nan|[^a-z]inf[^a-z]|://")

    def test_all_to_all(self):
        for ranks in (1, 2, 5):
            with self.subTest(ranks):
                result = run("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), PROGRAM, "--count", "5",
                             "--size", "3000", "--port", str(random.randint(10000, 32000)), "--json", self.json,
                             "--html", self.html)
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertIn(f"{ranks} ranks, {ranks * (ranks - 1) // 2} pairs, 0 failed", result.stdout)
                report = self.report()
                self.assertEqual(report["failed"], [])
                for one in range(ranks):
                    for other in range(ranks):
                        self.assertEqual(report["mb_per_s"][one][other] > 0, one != other)
                        self.assertEqual(report["setup_us"][one][other] > 0, one < other)
                if ranks > 1:
                    self.check_page(ranks)

    def test_who_cannot_reach_each_other_is_named(self):
        result = run(NAMESPACES, BUILD, "--ranks", "8", "--cut", "2,5", "--count", "4", "--timeout", "5", "--json",
                     self.json)
        if result.returncode == 77:
            self.skipTest(result.stdout)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("8 ranks, 28 pairs, 1 failed", result.stdout)
        (failed,) = self.report()["failed"]
        self.assertEqual((failed["from"], failed["to"]), (2, 5))
        self.assertIn("failed: rank 2 (datmesh2) and rank 5 (datmesh5): ", result.stdout)

    def test_no_job_and_wrong_arguments(self):
        result = run(PROGRAM)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, "^datmesh: no PMIx .*mpirun")
        result = run(PROGRAM, "--size", "0")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stdout, "^datmesh: .*0.*\nTry 'datmesh --help'.\n$")


if __name__ == "__main__":
    PROGRAM, NAMESPACES, BUILD = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
