#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs a server and its client, and checks how both end.

usage: run_pair.py [--status N] [--server-status N] [--expect REGEX]... SERVER-WORDS... -- CLIENT-WORDS...

The word PORT is replaced by a free port. The server is ready when it has written a line. Without server
words the client runs alone. The client must exit with --status (default 0), and its output (both streams) must
match every expression. With --server-status the server must exit with that status. Without it, the server must
exit with 0 if --status is 0, and is killed otherwise.
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import free_port

TIMEOUT_S = 90


def parse(words):
    status, server_status, expected = 0, None, []
    while words and words[0] in ("--status", "--server-status", "--expect"):
        if words[0] == "--status":
            status = int(words[1])
        elif words[0] == "--server-status":
            server_status = int(words[1])
        else:
            expected.append(words[1])
        words = words[2:]
    split = words.index("--")
    if server_status is None and status == 0:
        server_status = 0
    return status, server_status, expected, words[:split], words[split + 1:]


def main():
    status, server_status, expected, server_words, client_words = parse(sys.argv[1:])
    port = str(free_port())
    server = None
    if server_words:
        server = subprocess.Popen([port if w == "PORT" else w for w in server_words],
                                  stdout=subprocess.PIPE, text=True)
        ready = server.stdout.readline()
        print("server:", ready.strip())
        if not ready:
            return f"the server ended with {server.wait(TIMEOUT_S)} before it was ready"
    try:
        client = subprocess.run([port if w == "PORT" else w for w in client_words], check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=TIMEOUT_S)
        print(client.stdout)
        if client.returncode != status:
            return f"the client ended with {client.returncode}, not {status}"
        for expression in expected:
            if not re.search(expression, client.stdout):
                return f"the client did not write '{expression}'"
        if server is not None and server_status is not None:
            print("server:", server.stdout.read().strip())
            if server.wait(TIMEOUT_S) != server_status:
                return f"the server ended with {server.returncode}, not {server_status}"
    except subprocess.TimeoutExpired as expired:
        return f"no end after {TIMEOUT_S} s: {expired.cmd}"
    finally:
        if server is not None and server.poll() is None:
            server.kill()
            server.wait()
    return None


if __name__ == "__main__":
    failure = main()
    if failure:
        print(f"FAILED: {failure}")
        sys.exit(1)
