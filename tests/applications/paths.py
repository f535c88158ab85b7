#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Which way connections within one host take where the two processes may not do everything: other users, other
namespaces, calls that a sandbox refuses. Data arrive in each case, and the traces of both sides name the way and the
reason, as does `datinfo paths` where both sides are alike. Also, what is left when processes are killed.

usage: paths.py DATTX WITHOUT LIBDAPLSOFT DATINFO

Exit status 77 if some of it is not possible here, and the rest holds.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import free_port

DATTX = WITHOUT = LIBRARY = DATINFO = ""
PATIENCE_S = 90
ROOT = os.geteuid() == 0

DEVICES = {"soft": "lo 0", "tcp": "lo 0 path=tcp", "required": "lo 0 path=shm", "copied": "lo 0 direct=off",
           "absent": "no-such-device 0"}
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
NO_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
PROCESSES = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
USERS = ("unshare", "--user", "--map-root-user")
CONTAINER = (*USERS, *PROCESSES)

SHARED = "shared memory with 127.0.0.1"
ALONE = r"reach process \d+ without its threads"
HIDDEN = "the peer to take part: it belongs to another user or is not visible from here"
NOT_OFFERED = "the peer to take part: it offers no direct access"
REFUSED = r"process \d+ to take part: process_vm_readv: .*\(EPERM\)"


def usable(*wrapper):
    """Whether a program can be run in this way here."""
    probe = subprocess.run([*wrapper, DATTX, "--version"], check=False, capture_output=True)
    return probe.returncode == 0


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        self.conf = os.path.join(folder.name, "dat.conf")
        with open(self.conf, "w", encoding="utf-8") as file:
            for name, device in DEVICES.items():
                file.write(f'{name} u2.0 nonthreadsafe default {LIBRARY} dapl.2.0 "{device}" ""\n')
        self.port = str(free_port())

    def start(self, *words):
        environment = dict(os.environ, DAT_OVERRIDE=self.conf, DAPL_TRACE_LEVEL="3", DAT_TRACE_LEVEL="0")
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def server(self, *words, before=()):
        process = self.start(*before, DATTX, "server", "--port", self.port, *words)
        self.assertIn("listens", process.stdout.readline())
        return process

    def client(self, *words, before=()):
        return self.start(*before, DATTX, "client", "--port", self.port, *words, "127.0.0.1")


class Ways(Setup):
    def transfer(self, server=(), client=(), server_ia="soft", client_ia="soft"):
        """Returns the traces of both sides."""
        for wrapper in (server, client):
            if wrapper and not usable(*wrapper):
                self.skipTest("not possible here: " + " ".join(wrapper))
        one = self.server("--clients", "1", "--ia", server_ia, before=server)
        other = self.client("--ia", client_ia, "--count", "20", "--sizes", "8,4096,300000", before=client)
        out, client_trace = other.communicate(timeout=PATIENCE_S)
        self.assertEqual(other.returncode, 0, client_trace)
        self.assertEqual(len(re.findall("  yes$", out, re.MULTILINE)), 12, out)
        _, server_trace = one.communicate(timeout=PATIENCE_S)
        self.assertEqual(one.returncode, 0, server_trace)
        return server_trace, client_trace

    def shared(self, server_says, client_says, **sides):
        for trace, reason in zip(self.transfer(**sides), (server_says, client_says)):
            self.assertIn(SHARED, trace)
            self.assertNotIn("no shared memory", trace)
            self.assertRegex(trace, reason)

    def separate(self, server_says, client_says, **sides):
        for trace, reason in zip(self.transfer(**sides), (server_says, client_says)):
            self.assertRegex(trace, r"no shared memory with 127.0.0.1:\d+: " + reason)
            self.assertNotRegex(trace, "[^o] shared memory with|without its threads")

    def test_one_user(self):
        self.shared(ALONE, ALONE)

    @unittest.skipUnless(ROOT, "needs root")
    def test_other_users(self):
        self.shared(HIDDEN, HIDDEN, server=NOBODY)
        self.shared(HIDDEN, HIDDEN, client=NOBODY)

    @unittest.skipUnless(ROOT, "needs root")
    def test_no_right_to_trace(self):
        self.shared(ALONE, REFUSED, client=NO_CAPABILITIES)
        self.shared(REFUSED, ALONE, server=NO_CAPABILITIES)

    @unittest.skipUnless(ROOT, "needs root")
    def test_another_pid_namespace(self):
        self.shared(HIDDEN, NOT_OFFERED, server=PROCESSES)
        self.shared(NOT_OFFERED, HIDDEN, client=PROCESSES)
        self.shared(HIDDEN, HIDDEN, server=PROCESSES, client=PROCESSES)

    def test_another_user_namespace(self):
        self.shared(REFUSED, ALONE, server=USERS)
        self.shared(ALONE, REFUSED, client=USERS)
        self.shared(REFUSED, REFUSED, server=USERS, client=USERS)

    def test_two_containers(self):
        self.shared(HIDDEN, HIDDEN, server=CONTAINER, client=CONTAINER)

    def test_copies_are_forbidden(self):
        forbidden = (WITHOUT, "EPERM", "copies")
        self.shared(REFUSED, ALONE, server=forbidden)
        self.shared(ALONE, REFUSED, client=forbidden)
        self.shared(r"process_vm_readv: .*\(ENOSYS\)", ALONE, server=(WITHOUT, "ENOSYS", "copies"))

    def test_no_memfd(self):
        for error in ("EPERM", "ENOSYS"):
            self.separate("it has offered none", "no shared memory is available", client=(WITHOUT, error, "memfd"))
        self.shared(ALONE, ALONE, server=(WITHOUT, "ENOSYS", "memfd"))  # only the client creates one

    def test_one_side_is_set_to_tcp(self):
        self.separate("path=tcp is set", "no listener there accepts offers of shared memory", server_ia="tcp")
        self.separate("it has offered none", "path=tcp is set", client_ia="tcp")

    def test_the_listener_cannot_map_it(self):
        small = ("prlimit", "--as=60000000")
        self.separate("its offer is not here, or cannot be mapped", "it has not taken the offer", server=small)


class Datinfo(Setup):
    """What `datinfo paths` says about the adapters that open, in this order: soft, tcp, required, copied."""

    TCP = ("tcp", False, "path=tcp is set")
    SHM = ("shm", True, "")
    COPIED = ("shm", False, "direct=off is set")

    def run_datinfo(self, *words, before=()):
        if before and not usable(*before):
            self.skipTest("not possible here: " + " ".join(before))
        environment = dict(os.environ, DAT_OVERRIDE=self.conf, DAPL_TRACE_LEVEL="9", DAPL_TRACE_SINK="stdout")
        process = subprocess.run([*before, DATINFO, "paths", *words], check=False, capture_output=True, text=True,
                                 env=environment, timeout=PATIENCE_S)
        self.assertEqual(process.stderr, "")
        return process.returncode, process.stdout

    def says(self, *wanted, before=()):
        status, out = self.run_datinfo("--json", before=before)
        self.assertEqual(status, 0)
        adapters = json.loads(out)["adapters"]
        self.assertEqual([one["name"] for one in adapters], list(DEVICES))
        for one, (path, direct, reason) in zip(adapters, wanted):
            self.assertEqual((one["path"], one["direct"]), (path, direct), out)
            self.assertRegex(one["reason"], f"^(?:{reason})$")
        self.assertEqual(adapters[-1]["path"], "none")
        self.assertIn("DAT_INVALID_ADDRESS", adapters[-1]["reason"])

    def test_everything_is_permitted(self):
        self.says(self.SHM, self.TCP, self.SHM, self.COPIED)

    def test_table(self):
        status, out = self.run_datinfo("tcp", "soft", "copied")
        self.assertEqual(status, 0)
        self.assertEqual(out, "NAME    DEVICE           PATH WITHIN THIS HOST\n"
                              "tcp     lo 0 path=tcp    tcp: path=tcp is set\n"
                              "soft    lo 0             shm\n"
                              "copied  lo 0 direct=off  shm, rings only: direct=off is set\n")

    def test_status(self):
        self.assertEqual(self.run_datinfo("soft", "absent")[0], 1)
        self.assertEqual(self.run_datinfo("nobody-has-this-name")[0], 1)

    def test_no_memfd(self):
        none = ("tcp", False, "no shared memory is available")
        fails = ("none", False, "the processes cannot connect with each other; no shared memory is available")
        self.says(none, self.TCP, fails, none, before=(WITHOUT, "EPERM", "memfd"))

    def test_copies_are_forbidden(self):
        for error in ("EPERM", "ENOSYS"):
            refused = ("shm", False, rf"process_vm_readv: .*\({error}\).*")
            self.says(refused, self.TCP, refused, self.COPIED, before=(WITHOUT, error, "copies"))

    @unittest.skipUnless(ROOT, "needs root")
    def test_another_user(self):
        self.says(self.SHM, self.TCP, self.SHM, self.COPIED, before=NOBODY)

    def test_a_container(self):
        self.says(self.SHM, self.TCP, self.SHM, self.COPIED, before=CONTAINER)


# In namespaces of its own, so that what other programs do is not seen.
PRIVATE = ("unshare", "--net", "--mount", "sh", "-c", "ip link set lo up && mount -t tmpfs none /dev/shm && "
           'mount -t tmpfs none /run && exec "$@"', "sh")


@unittest.skipUnless(ROOT and shutil.which("ip"), "needs root and iproute2")
class Remains(Setup):
    """After kill -9."""

    def setUp(self):
        super().setUp()
        if not usable(*PRIVATE):
            self.skipTest("no namespaces can be made here")

    def inside(self, server, words):
        """The output of a program in the namespaces of the server."""
        enter = ("nsenter", "--target", str(server.pid), "--net", "--mount")
        return subprocess.run([*enter, *words], check=True, capture_output=True, text=True, errors="replace").stdout

    def pair(self, server):
        enter = ("nsenter", "--target", str(server.pid), "--net", "--mount")
        client = self.client("--operations", "pp", "--sizes", "4", "--count", "10000000", before=enter)
        self.assertIn("latency", "".join(client.stdout.readline() for _ in range(2)))
        time.sleep(0.3)  # a series of messages has begun
        self.assertIsNone(client.poll())
        self.assertEqual(self.holdings(client)[1], 1)
        return client

    @staticmethod
    def holdings(process):
        """The numbers of descriptors and of rings that a process has."""
        base = f"/proc/{process.pid}"
        with open(base + "/maps", encoding="utf-8") as maps:
            rings = sum("memfd:udapl-soft" in line for line in maps)
        return len(os.listdir(base + "/fd")), rings

    def files(self, server):
        return self.inside(server, ("find", "/dev/shm", "/run", "-mindepth", "1"))

    def test_the_peer(self):
        server = self.server(before=PRIVATE)
        before = self.holdings(server)
        for _ in range(3):
            client = self.pair(server)
            self.assertEqual(self.holdings(server)[1], 1)
            client.kill()
            client.wait()
            end = time.monotonic() + PATIENCE_S
            while self.holdings(server) != before and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual(self.holdings(server), before)
        self.assertEqual(self.files(server), "")

    def test_both(self):
        keeper = self.start(*PRIVATE, "sh", "-c", "echo ready; exec sleep 1000")
        keeper.stdout.readline()
        enter = ("nsenter", "--target", str(keeper.pid), "--net", "--mount")
        server = self.server(before=enter)
        client = self.pair(server)
        self.assertIn("udapl-soft", self.inside(keeper, ("cat", "/proc/net/unix")))
        for process in (server, client):
            process.kill()
        for process in (server, client):
            process.wait()
        self.assertEqual(self.files(keeper), "")
        self.assertNotIn("udapl", self.inside(keeper, ("cat", "/proc/net/unix")))
        second = self.server(before=enter)  # at the same place
        self.pair(second)


if __name__ == "__main__":
    DATTX, WITHOUT, LIBRARY, DATINFO = sys.argv[1:]
    result = unittest.main(argv=sys.argv[:1], verbosity=2, exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
