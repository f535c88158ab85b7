#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tests that dattrace changes the trace levels of a running process from outside.

usage: outside.py BUILD

Exit status 0: everything passed, 1: not.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

NOBODY = 65534
PORT = 45900 + os.getpid() % 90


def run(*command, **options):
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, **options)


class Test:
    def __init__(self, build):
        self.build, self.errors = build, 0
        self.environment = dict(os.environ, DAT_OVERRIDE=f"{build}/etc/dat.conf", DAT_TRACE_LEVEL="0",
                                DAPL_TRACE_LEVEL="0")
        for name in ("DAT_DBG_TYPE", "DAPL_DBG_TYPE", "DAT_TRACE_SINK", "DAPL_TRACE_SINK", "DAT_TRACE_LTTNG"):
            self.environment.pop(name, None)

    def expect(self, condition, what):
        if not condition:
            print(f"FAILED: {what}")
            self.errors += 1

    def dattrace(self, *arguments, **options):
        return run(f"{self.build}/bin/dattrace", *map(str, arguments), **options)

    def refused(self, status, text, *arguments, **options):
        result = self.dattrace(*arguments, **options)
        self.expect(result.returncode == status and text in result.stderr,
                    f"dattrace {arguments}: status {result.returncode}, {result.stdout}{result.stderr}")

    def transfer(self):
        result = run(f"{self.build}/bin/dattx", "client", "--port", str(PORT), "--count", "3", "--sizes", "64",
                     "127.0.0.1", env=self.environment)
        self.expect(result.returncode == 0, f"client: {result.stdout}{result.stderr}")

    def levels(self, server, log):
        """Level 0, detail, 0 again: checks what is written while clients connect and disconnect."""
        def written():
            with open(log, encoding="utf-8") as file:
                return [line for line in file if re.match(r"\d\d:\d\d:\d\d\.", line)]

        def threads():
            return len(os.listdir(f"/proc/{server.pid}/task"))

        self.transfer()
        self.expect(not written(), "nothing is traced at level 0")
        before = threads()
        shown = self.dattrace(server.pid)
        self.expect(sorted(shown.stdout.split("\n")) == ["", "dapl-soft 0", "dat 0"], f"shows {shown.stdout}")
        raised = self.dattrace(server.pid, "--dapl", 7)
        self.expect(raised.returncode == 0 and "dapl-soft 7" in raised.stdout and "dat 0" in raised.stdout,
                    f"raised: {raised.stdout}{raised.stderr}")
        self.expect(threads() == before, "no thread is started for it")
        self.transfer()
        detail = written()
        for word in ("post recv", "completion", "CONNECTED", "soft/EP=0x", "cr_accept: returns DAT_SUCCESS"):
            self.expect(any(word in line for line in detail), f"at level 7 there is '{word}'")
        self.expect(not any(" dat " in line for line in detail), "the registry stayed at 0")
        self.dattrace(server.pid, "--dapl", 0)
        time.sleep(0.2)
        count = len(written())
        self.transfer()
        self.expect(len(written()) == count, "nothing more at level 0")
        both = self.dattrace(server.pid, "--dapl", 3, "--dat", 5)
        self.expect("dapl-soft 3" in both.stdout and "dat 5" in both.stdout, f"both: {both.stdout}")

    def stopped(self, server):
        os.kill(server.pid, signal.SIGSTOP)
        try:
            self.expect("dapl-soft 1" in self.dattrace(server.pid, "--dapl", 1).stdout,
                        "a stopped process does not hold it up")
        finally:
            os.kill(server.pid, signal.SIGCONT)

    def others(self, server):
        if os.getuid() != 0:
            print("not root: that another user is refused was not tried")
            return

        def other_user():
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        self.refused(1, "it is not yours", server.pid, "--dapl", 7, preexec_fn=other_user)
        self.expect("dapl-soft 1" in self.dattrace(server.pid).stdout, "another user changes nothing")

    def escapes(self):
        """The name of a page is chosen by the traced process, and must not reach the terminal unescaped."""
        page = os.memfd_create("udapl-trace:\x1b[31mred\x07")
        try:
            shown = self.dattrace(os.getpid())
            self.expect("?[31mred?: not a page of trace levels" in shown.stderr,
                        f"a foreign name is told: {shown.stderr!r}")
            self.expect("\x1b" not in shown.stdout + shown.stderr, "nothing that a terminal would obey")
        finally:
            os.close(page)

    def bad_arguments(self, server):
        for bad in ("11", "-1", "x", "", "7x"):
            self.refused(2, "is not a level from 0 to 10", server.pid, "--dapl", bad)
        for bad in ("x", "0"):
            self.refused(2, "is not the id of a process", bad)
        for bad in ((), ("-5",), (server.pid, server.pid), (server.pid, "--no-such")):
            self.refused(2, "Try 'dattrace --help'", *bad)
        sleep = subprocess.Popen(["sleep", "60"])
        try:
            self.refused(1, "does not use this uDAPL", sleep.pid)
        finally:
            sleep.kill()
            sleep.wait()
        self.refused(1, "no such process", sleep.pid)

    def all(self):
        with tempfile.TemporaryDirectory() as folder:
            log = f"{folder}/server.log"
            with open(log, "w", encoding="utf-8") as file:
                server = subprocess.Popen([f"{self.build}/bin/dattx", "server", "--port", str(PORT), "--clients",
                                           "4"], env=self.environment, stdout=file, stderr=file)
            try:
                time.sleep(1)
                self.levels(server, log)
                self.stopped(server)
                self.others(server)
                self.bad_arguments(server)
                self.escapes()
            finally:
                server.kill()
                server.wait()
        return 1 if self.errors else 0


if __name__ == "__main__":
    sys.exit(Test(sys.argv[1]).all())
