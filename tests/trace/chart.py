#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Checks what dattrace-chart draws from traces written here in the format of babeltrace2.

usage: chart.py DATTRACE_CHART
"""

import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

CHART = ""
CLIENT, SERVER = "local 127.0.0.1:41300 remote 127.0.0.1:4599", "local 127.0.0.1:4599 remote 127.0.0.1:41300"


def line(ms, name, pid, kind, handle, **fields):
    rest = ", ".join(f"{k} = {v}" if isinstance(v, int) else f'{k} = "{v}"' for k, v in fields.items())
    return (f"[12:00:00.{int(ms * 1e6):09d}] (+0.000000001) host dapl:{name}: {{ cpu_id = 0 }}, "
            f'{{ vpid = {pid}, vtid = {pid} }}, {{ component = "dapl-soft", ia = "soft", type = "{kind}", '
            f"object = {handle}, {rest} }}\n")


def asked(ms=1):
    return (line(ms, "ep_state", 10, "EP", "0xA", cause="ep_connect", **{"from": "UNCONNECTED"},
                 to="ACTIVE_CONNECTION_PENDING") +
            line(ms + 0.1, "connection", 20, "CR", "0xC", event="DAT_CONNECTION_REQUEST_EVENT", ends=SERVER,
                 private_data=0))


def state(ms, pid, handle, cause, before, after):
    return line(ms, "ep_state", pid, "EP", handle, cause=cause, **{"from": before}, to=after)


def rejected():
    return (asked() + state(1.3, 10, "0xA", "rejected", "ACTIVE_CONNECTION_PENDING", "DISCONNECTED") +
            line(1.5, "connection", 10, "EP", "0xA", event="DAT_CONNECTION_EVENT_PEER_REJECTED", ends=CLIENT,
                 private_data=0) +
            state(900, 10, "0xA", "ep_free", "DISCONNECTED", "UNCONNECTED"))


def established():
    return (asked() + state(1.2, 20, "0xB", "cr_accept", "UNCONNECTED", "COMPLETION_PENDING") +
            line(1.4, "connection", 20, "EP", "0xB", event="DAT_CONNECTION_EVENT_ESTABLISHED", ends=SERVER,
                 private_data=0) +
            line(1.5, "connection", 10, "EP", "0xA", event="DAT_CONNECTION_EVENT_ESTABLISHED", ends=CLIENT,
                 private_data=0))


def moved(ms, operation, cookie, status="DAT_DTO_SUCCESS"):
    return (line(ms, "post", 10, "EP", "0xA", operation=operation, cookie=cookie, length=4096, flags=0) +
            line(ms + 0.2, "completion", 10, "EP", "0xA", operation=operation, cookie=cookie, length=4096,
                 status=status))


def chart(*arguments, trace=None):
    return subprocess.run([sys.executable, "-B", CHART, *arguments], input=trace, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)


class Chart(unittest.TestCase):
    def picture(self, trace):
        """The texts of the picture, and its arrows."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.svg")
            result = chart("--output", path, "-", trace=trace)
            self.assertEqual(result.returncode, 0, result.stderr)
            root = xml.etree.ElementTree.parse(path).getroot()
        words = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
        arrows = [t for t in root.iter("{http://www.w3.org/2000/svg}line") if t.get("marker-end")]
        return words, arrows

    def test_rejected_has_its_other_side(self):
        words, arrows = self.picture(rejected())
        self.assertIn("process 20 · no EP: it did not accept", words)
        self.assertNotIn("not in the trace", words)
        self.assertIn("request", words)
        self.assertEqual(len(arrows), 1)

    def test_rejected_ends_when_it_was_told(self):
        """The end is the rejection, not the time at which the EP was freed, 900 ms later."""
        listed = chart("--list", "-", trace=rejected()).stdout
        self.assertIn("processes 10 and 20: not established, 0.500 ms", listed)
        words, _ = self.picture(rejected())
        self.assertTrue(any(w.startswith("not established, 500 µs") for w in words), words)

    def test_established(self):
        self.assertIn("set-up 0.500 ms", chart("--list", "-", trace=established()).stdout)

    def test_one_side_only(self):
        words, _ = self.picture("".join(l for l in rejected().splitlines(True) if "vpid = 10" in l))
        self.assertIn("not in the trace", words)

    def test_rdma_has_arrows(self):
        before = len(self.picture(established())[1])
        trace = established() + moved(2, "rdma_write", 7) + moved(3, "rdma_read", 8) + moved(
            4, "rdma_write", 9, "DAT_DTO_ERR_REMOTE_ACCESS")
        words, arrows = self.picture(trace)
        self.assertEqual(len(arrows) - before, 2)  # none for the failed Write
        write, read = arrows[:2]
        self.assertLess(float(write.get("x1")), float(write.get("x2")))
        self.assertGreater(float(read.get("x1")), float(read.get("x2")))
        self.assertIn("write 4096", words)
        self.assertIn("read 4096", words)

    def test_empty_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            result = chart(folder)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertEqual(result.stderr, f"dattrace-chart: {folder}: no trace of LTTng in this folder\n")

    def test_help_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for unbuffered in ("", "1"):
                result = subprocess.run([sys.executable, CHART, "--help"], stdout=full, stderr=subprocess.PIPE, text=True,
                                        env=dict(os.environ, PYTHONUNBUFFERED=unbuffered), check=False)
                self.assertEqual(result.returncode, 1)
                self.assertEqual(result.stderr, "dattrace-chart: standard output: No space left on device\n")

    def test_broken_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "metadata"), "w", encoding="utf-8") as file:
                file.write("nonsense")
            result = chart(folder)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


if __name__ == "__main__":
    CHART = sys.argv.pop(1)
    unittest.main(verbosity=1)
