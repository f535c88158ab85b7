#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tests what the completion for bash offers.

usage: completion.py COMPLETION_FILE FOLDER_OF_PROGRAMS
"""

import os
import subprocess
import sys
import tempfile
import unittest

FILE = BIN = ""


class Completion(unittest.TestCase):
    def offered(self, *words, more="", override=None):
        """The completions of the last word, requested in the same way as by bash."""
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); ' \
                 '_udapl "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; ' \
                 'printf "%s\\n" "${COMPREPLY[@]}"'
        with tempfile.TemporaryDirectory() as folder:
            conf = os.path.join(folder, "dat.conf")
            with open(conf, "w", encoding="utf-8") as file:
                file.write('# none u2.0\nsoft u2.0 nonthreadsafe default lib d.1.0 "lo 0" ""\n'
                           '  "ofa-v2-ib0" u2.0 threadsafe default lib d.1.0 "ib0 0" ""\n' + more)
            result = subprocess.run(["bash", "--norc", "-c", script, "bash", FILE, *words], check=False, text=True,
                                    cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                                    env=dict(os.environ, DAT_OVERRIDE=override or conf, PATH=f"{BIN}:{os.environ['PATH']}"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.split()

    def test_commands(self):
        self.assertEqual(self.offered("datinfo", "ch"), ["check"])
        self.assertEqual(sorted(self.offered("dattx", "")), ["client", "server"])
        self.assertEqual(sorted(self.offered("datperf", "")), ["both", "client", "server"])

    def test_options(self):
        self.assertEqual(self.offered("dattx", "client", "--si"), ["--sizes"])
        self.assertEqual(self.offered("datinfo", "generate", "--out"), ["--output"])
        self.assertEqual(self.offered("datperf", "both", "--wi"), ["--windows"])
        for program, option in (("dapltest", "--json"), ("datconform", "--isolate"), ("dattrace", "--dat"),
                                ("dattrace-chart", "--rows")):
            self.assertIn(option, self.offered(program, option[:4]))

    def test_datmesh(self):
        if not os.path.exists(os.path.join(BIN, "datmesh")):
            self.skipTest("datmesh is not built")
        self.assertEqual(self.offered("datmesh", "--ne"), ["--netns"])
        self.assertEqual(self.offered("datmesh", "--ia", "so"), ["soft"])
        self.assertEqual(self.offered("datmesh", "--html", "da"), ["dat.conf"])

    def test_adapters(self):
        self.assertEqual(self.offered("dattx", "server", "--ia", ""), ["soft", "ofa-v2-ib0"])
        self.assertEqual(self.offered("dapltest", "-T", "S", "-D", "s"), ["soft"])
        self.assertEqual(self.offered("dtest", "-P", "so"), ["soft"])
        self.assertEqual(self.offered("datinfo", "list", "of"), ["ofa-v2-ib0"])

    def test_a_name_is_not_executed(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace")
            bad = [f"x$(touch${{IFS}}{trace})", f"x`touch${{IFS}}{trace}`", "x$HOME", "x*"]
            more = "".join(f'{name} u2.0 nonthreadsafe default lib d.1.0 "lo 0" ""\n' for name in bad)
            for words in (("dattx", "client", "--ia", "x"), ("datinfo", "list", "x")):
                self.assertEqual(self.offered(*words, more=more), bad)
            self.assertFalse(os.path.exists(trace))

    def test_an_override_stands_alone(self):
        self.assertEqual(self.offered("dattx", "client", "--ia", "", override="/nonexistent/dat.conf"), [])

    def test_folder_of_the_installation(self):
        """Without DAT_OVERRIDE the registry reads the dat.conf of its installation first."""
        with open(FILE, encoding="utf-8") as file:
            text = file.read()
        self.assertRegex(text, r"for file in '/\S*/dat\.conf' /etc/dat\.conf ")

    def test_files(self):
        self.assertEqual(self.offered("datinfo", "check", "da"), ["dat.conf"])


if __name__ == "__main__":
    FILE, BIN = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=1)
