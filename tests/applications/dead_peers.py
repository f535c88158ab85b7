#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tests that a program whose peer is killed ends soon, with the reason, and that a server says why it cannot start.

usage: dead_peers.py DATTX DTESTSRQ      DAT_OVERRIDE names a dat.conf with the IA "soft"
"""

import os
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import free_port

DATTX = DTESTSRQ = ""
SOON_S = 30  # the programs themselves wait 100 s for one step of the peer


def start(*words):
    return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line_with(process, words):
    for line in process.stdout:
        if words in line:
            return
    raise AssertionError(f"ended with {process.wait()} without {words!r}: {process.stderr.read()}")


class DeadPeers(unittest.TestCase):
    def started(self, *words):
        process = start(*words)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_dattx(self):
        port = free_port()
        server = self.started(DATTX, "server", "--port", port, "--clients", 1)
        line_with(server, "listens")
        client = self.started(DATTX, "client", "--port", port,
                              "--operations", "pp", "--sizes", 4, "--count", 10000000, "127.0.0.1")
        line_with(client, "latency")
        time.sleep(0.3)  # a series of messages has begun
        client.kill()
        out, err = server.communicate(timeout=SOON_S)
        self.assertEqual(server.returncode, 1, err)
        self.assertRegex(err, r"dattx: (the connection broke|the client disconnected|a request failed|posting).*\n"
                              r"dattx: client 1 failed\n")
        self.assertEqual(out, "")

    def test_port_in_use(self):
        port = free_port()
        line_with(self.started(DATTX, "server", "--port", port), "listens")
        second = self.started(DATTX, "server", "--port", port)
        _, err = second.communicate(timeout=SOON_S)
        self.assertEqual(second.returncode, 1)
        self.assertRegex(err, rf"dattx: listening on port {port}: .*Address already in use.*\n *try: .*`ss -tanp`")

    def test_dtestsrq(self):
        for victim in (0, 1):
            port = free_port()
            words = [DTESTSRQ, "-P", "soft", "-p", port, "-t", 1 << 30, "-c", 2]
            sides = [self.started(*words, "-s")]
            line_with(sides[0], "Accepting")
            sides.append(self.started(*words, "-h", "127.0.0.1"))
            for side in sides:
                line_with(side, "CONNECTED")
            time.sleep(0.2)
            sides[victim].kill()
            out, err = sides[1 - victim].communicate(timeout=SOON_S)
            self.assertEqual(sides[1 - victim].returncode, 1)
            self.assertRegex(err, r"dtestsrq: (sending|receiving|posting a send): .*(CONNECTION_EVENT_|FLUSHED|STATE)")
            self.assertIn("FAILED", out)


if __name__ == "__main__":
    DATTX, DTESTSRQ = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
