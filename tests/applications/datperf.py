#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tests datperf: every operation with every way of waiting, machine-readable reports, correct exit statuses.
No test judges a time.

usage: datperf.py PROGRAM LIBRARY_OF_SOFT [TEST...]
"""

import contextlib
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from html.parser import HTMLParser

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import free_port

PROGRAM = SOFT = ""
SHORT = ["--rounds", "3", "--count", "20"]
OPERATIONS = ["send", "write", "read", "fetch-add"]
TIMEOUT_S = 120


class Page(HTMLParser):
    """Parses a page: elements must be closed in order; collects figures, numbers in drawings, references."""
    EMPTY = ("meta", "br")

    def __init__(self, text):
        super().__init__()
        self.text = text
        self.open, self.wrong, self.figures, self.references, self.numbers, self.words = [], [], 0, [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.figures += tag == "figure"
        self.open += [] if tag in self.EMPTY else [tag]
        self.look_at(attrs)

    def handle_startendtag(self, tag, attrs):
        self.look_at(attrs)

    def look_at(self, attrs):
        for name, value in attrs:
            if name in ("src", "href", "xlink:href"):
                self.references.append(value)
            if name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height", "d"):
                self.numbers += re.findall(r"[a-z]{3}|-?[0-9.]+", value)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.words.append(data.strip())


class Datperf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        conf = os.path.join(cls.folder.name, "dat.conf")
        with open(conf, "w", encoding="utf-8") as file:
            for name, device in (("soft", "lo 0"), ("second", "lo 0"), ("six", "::1 0"), ("a<b&c", "lo 0")):
                file.write(f'{name} u2.0 nonthreadsafe default {SOFT} dapl.2.0 "{device}" ""\n')
        # LeakSanitizer of GCC 12 crashes ("Tracer caught signal 11") if the provider's thread ends during its scan.
        leaks = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        cls.environment = dict(os.environ, DAT_OVERRIDE=conf, ASAN_OPTIONS=leaks)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_it(self, *words):
        return subprocess.run([PROGRAM, *words], check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIMEOUT_S, env=self.environment)

    def good(self, *words):
        result = self.run_it(*words)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def both(self, *words):
        return self.good("both", "--port", str(free_port()), *SHORT, *words)

    def rows(self, *words):
        return json.loads(self.both("--json", "-", *words))["rows"]

    def check_row(self, row):
        self.assertGreater(row["operations"], 0)
        self.assertGreater(row["per_second"], 0)
        self.assertLessEqual(row["minimum"], row["median"])
        self.assertLessEqual(row["median"], row["p99"])
        self.assertLessEqual(row["p99"], row["maximum"])
        self.assertLessEqual(row["median_low"], row["median_high"])
        self.assertEqual(len(row["rounds"]), 3)
        self.assertTrue(0.7 < row["confidence"] < 0.8, row["confidence"])  # of three rounds: 1 - 2/8

    def test_each_operation(self):
        for waiting in ("poll", "block"):
            with self.subTest(waiting):
                rows = self.rows("--operations", ",".join(OPERATIONS), "--waiting", waiting, "--sizes", "1,5000")
                for row in rows:
                    self.check_row(row)
                    self.assertEqual((row["column"], row["waiting"]), ("soft", waiting))
                expected = [("latency", o, n) for o in OPERATIONS[:3] for n in (1, 5000)]
                expected += [("latency", "fetch-add", 8)]
                expected += [("bandwidth", *rest) for _, *rest in expected]
                transfers = [row for row in rows if row["measure"] != "connections"]
                self.assertEqual([(r["measure"], r["operation"], r["bytes"]) for r in transfers], expected)
                self.assertTrue(all(r["operations"] == 60 for r in transfers if r["measure"] == "latency"))
                (connect,) = [row for row in rows if row["measure"] == "connections"]
                self.assertEqual((connect["operation"], connect["unit"]), ("connect", "us"))
                self.assertNotIn("bytes", connect)

    def test_windows_endpoints_threads(self):
        rows = self.rows("--operations", "send,write", "--sizes", "64", "--windows", "1,7", "--endpoints", "1,3",
                         "--threads", "1,2")
        shapes = [(r["endpoints"], r["threads"]) for r in rows if r["measure"] == "connections" and r["waiting"] == "poll"]
        self.assertEqual(shapes, [(1, 1), (1, 2), (3, 1), (3, 2)])
        self.assertEqual(len([r for r in rows if r["measure"] == "bandwidth"]), 2 * 2 * 2 * 4)
        for row in rows:
            self.check_row(row)

    def test_a_time(self):
        out = self.good("both", "--port", str(free_port()), "--rounds", "2", "--seconds", "0.01", "--warm-up", "0",
                        "--sizes", "64", "--operations", "send", "--json", "-")
        self.assertEqual(len(json.loads(out)["rows"]), 6)

    def test_table(self):
        out = self.both("--operations", "send", "--sizes", "64,4096", "--waiting", "block")
        self.assertEqual(re.findall(r"^[a-z].*", out, re.M)[0], "latency in us, blocking")
        self.assertEqual(len(re.findall(r"^send +(64|4096) ", out, re.M)), 4)
        self.assertEqual(len(re.findall(r"^connect ", out, re.M)), 1)

    def test_reports_of_one_run(self):
        files = {kind: self.path(f"report.{kind}") for kind in ("json", "csv", "html")}
        out = self.both("--operations", "send,read", "--sizes", "8,64,512",
                        *(word for kind, name in files.items() for word in ("--" + kind, name)))
        self.assertIn("bandwidth in MB/s", out)
        with open(files["json"], encoding="utf-8") as file:
            report = json.load(file)
        with open(files["csv"], encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        self.assertEqual(len(report["rows"]), 2 * 2 * 2 * 3 + 2)
        self.assertEqual([(r["operation"], r["waiting"], float(r["median"])) for r in table],
                         [(r["operation"], r["waiting"], r["median"]) for r in report["rows"]])
        self.assertIn(files["html"], report["command"])
        for key in ("program", "date", "host", "kernel", "processor"):
            self.assertTrue(report[key], key)

    def page(self, *words):
        name = self.path("page.html")
        self.both("--html", name, *words)
        with open(name, encoding="utf-8") as file:
            text = file.read()
        page = Page(text)
        self.assertEqual((page.open, page.wrong, page.references), ([], [], []))
        self.assertNotRegex(text.partition("</dl>")[2], "://|nan|inf[^o]")
        for number in page.numbers:
            self.assertTrue(-20 <= float(number) <= 640, number)  # within the drawing, which is 620 wide
        return page

    def test_page(self):
        page = self.page("--sockets", "--operations", "send,read", "--sizes", "8,4096")
        self.assertEqual(page.figures, 2 + 4 + 4)  # by waiting: latency; bandwidth, rate; set-up, rate
        for words in ("soft send", "sockets send", "soft read", "8 B", "4 KiB", "bytes of a transfer"):
            self.assertIn(words, page.words)

    def test_page_of_threads(self):
        page = self.page("--operations", "send,write", "--sizes", "8", "--threads", "1,2", "--endpoints", "1,2,3")
        self.assertIn("endpoints of a thread", page.words)  # the longer list
        self.assertIn("soft write, 2 threads", page.words)

    def test_page_of_more_curves_than_colours(self):
        page = self.page("--operations", "send,write,read", "--sizes", "8,64", "--threads", "1,2", "--endpoints", "1,2,3",
                         "--measure", "latency", "--waiting", "block")
        curves = re.findall(r'<li style="([^"]*)"><svg [^>]*>(.*?)</svg>', page.text)
        self.assertEqual(len(curves), 12)
        self.assertEqual(len({style for style, _ in curves}), 12)  # each has its own colour or dashes
        colours = [(re.search(r"--c\d", style)[0], re.sub(r"\d", "", mark)) for style, mark in curves]
        self.assertEqual(len(set(colours)), 12)  # curves of one colour have different marks

    def test_page_of_one_value(self):
        page = self.page("--ia", "a<b&c", "--operations", "fetch-add", "--measure", "latency", "--waiting", "block")
        self.assertEqual(page.figures, 1)
        self.assertIn("a<b&c fetch-add", page.words)

    def test_csv_on_standard_output(self):
        table = list(csv.DictReader(io.StringIO(self.both("--operations", "write", "--sizes", "8", "--csv", "-"))))
        self.assertEqual({row["measure"] for row in table}, {"latency", "bandwidth", "connections"})

    def test_columns(self):
        rows = self.rows("--ia", "soft,second", "--sockets", "--operations", "send,read", "--sizes", "64")
        for measure, operation, columns in (("latency", "send", ["soft", "second", "sockets"]),
                                            ("bandwidth", "send", ["soft", "second", "sockets"]),
                                            ("latency", "read", ["soft", "second"])):
            for waiting in ("poll", "block"):
                self.assertEqual([r["column"] for r in rows if (r["measure"], r["operation"], r["waiting"]) ==
                                  (measure, operation, waiting)], columns)
        self.assertEqual([(r["column"], r["waiting"]) for r in rows if r["measure"] == "connections"],
                         [("soft", "poll"), ("second", "poll"), ("soft", "block"), ("second", "block"),
                          ("sockets", "block")])

    def test_ipv6(self):
        rows = self.rows("--ia", "six", "--address", "::1", "--sockets", "--operations", "send,write", "--sizes", "64")
        self.assertEqual({r["column"] for r in rows}, {"six", "sockets"})

    @contextlib.contextmanager
    def server(self, port):
        """A server for two clients; killed at the end of the test in any case."""
        with subprocess.Popen([PROGRAM, "server", "--port", port, "--clients", "2"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=self.environment) as process:
            try:
                yield process
            finally:
                process.kill()

    def test_server_and_client(self):
        port = str(free_port())
        with self.server(port) as server:
            self.assertEqual(server.stdout.readline(), f"soft listens at port {port}\n")
            for _ in range(2):
                out = self.good("client", "--port", port, *SHORT, "--sizes", "64", "--json", "-", "127.0.0.1")
                self.assertEqual(len(json.loads(out)["rows"]), 14)
            self.assertEqual(server.wait(TIMEOUT_S), 0)

    def test_a_client_that_is_killed_leaves_a_server_that_serves(self):
        port = str(free_port())
        with self.server(port) as server:
            server.stdout.readline()
            with subprocess.Popen([PROGRAM, "client", "--port", port, "--sizes", "64", "--seconds", "0.1", "127.0.0.1"],
                                  stdout=subprocess.PIPE, text=True, env=self.environment) as client:
                client.stdout.readline()  # a first row: it is connected
                client.kill()
            self.good("client", "--port", port, *SHORT, "--sizes", "64", "127.0.0.1")
            self.assertEqual(server.wait(TIMEOUT_S), 1)
            self.assertRegex(server.stderr.read(),
                             r"datperf: soft: a client ended before it had finished \(DAT_CONNECTION_EVENT_\w+\)\n")

    def test_what_goes_wrong_is_said(self):
        port = str(free_port())
        for words, why in ((["client", "--port", port, "127.0.0.1"], "127.0.0.1 port .*: no server listens there"),
                           (["client", "--ia", "nowhere", "127.0.0.1"], "nowhere.*DAT_PROVIDER_NOT_FOUND"),
                           (["client", "no-such-host.invalid"], "no-such-host.invalid: "),
                           (["both", "--ia", "nowhere"], "nowhere.*DAT_PROVIDER_NOT_FOUND(.|\n)*the server did not start"),
                           (["both", "--port", port, *SHORT, "--sizes", "8", "--measure", "latency", "--json",
                             "/nowhere/x"], "/nowhere/x: No such file")):
            with self.subTest(" ".join(words)):
                result = self.run_it(*words)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, f"datperf: (.*){why}")

    def test_a_report_that_cannot_be_written_is_noticed_first(self):
        for kind in ("json", "csv", "html"):
            result = self.run_it("both", "--port", str(free_port()), *SHORT, "--sizes", "8", "--" + kind, "/nowhere/x")
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertEqual(result.stderr, "datperf: /nowhere/x: No such file or directory\n")

    def test_wrong_arguments(self):
        for words, why in ((["both", "--operations", "send,shove"], "shove"), (["both", "--sizes", "0"], "0"),
                           (["both", "--sizes", "67108865"], "67108865"), (["both", "--threads", "none"], "none"),
                           (["both", "--waiting", "sleep"], "sleep"), (["both", "--rounds", "0"], "0"),
                           (["both", "--seconds", "-1"], "-1"), (["both", "--seconds", "nan"], "nan"),
                           (["both", "--warm-up", "-nan"], "nan"), (["both", "--warm-up", "inf"], "inf"),
                           (["both", "--ia", ""], "1 to 255"),
                           (["both", "--ia", "soft,soft"], "twice"), (["client"], "host is required"),
                           (["client", "a,b,c"], "one for each"), (["server", "--clients", "x"], "x"), ([], "required"),
                           (["both", "--json", "-", "--csv", "-"], "standard output"), (["measure"], "measure")):
            with self.subTest(" ".join(words)):
                result = self.run_it(*words)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertRegex(result.stderr, rf"\Adatperf: .*{why}.*\nTry 'datperf --help'.\n\Z")


if __name__ == "__main__":
    PROGRAM, SOFT, *tests = sys.argv[1:]
    unittest.main(argv=[sys.argv[0], *tests], verbosity=2)
