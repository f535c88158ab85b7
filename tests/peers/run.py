#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs one case of cases.py: unmodified binaries of dapl2-utils on our libraries.

  run.py --list [--subset]
  run.py --build DIR [--setup loopback|netns|packaged-registry] CASE

loopback            our libdat2 and our provider, both programs in one fresh network namespace
netns               the same, each program in a namespace of its own, joined by a veth pair
packaged-registry   the distribution's libdat2.so.2 in front of our provider

Exit status 0 passed, 1 failed, 77 not run or known to fail (says why). Needs root for the namespaces.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cases

SKIP = 77


class Failure(Exception):
    pass


def run_quietly(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: {done.stderr.strip()}")


class Hosts:
    """The network namespace(s) of one run, removed at the end."""

    def __init__(self, two):
        self.names = []
        tag = f"udapl{os.getpid()}"
        for index in range(2 if two else 1):
            self.names.append(f"{tag}-{index}")
        self.two = two

    def __enter__(self):
        for name in self.names:
            run_quietly("ip", "netns", "add", name)
            run_quietly("ip", "-n", name, "link", "set", "lo", "up")
        if self.two:
            server, client = self.names
            run_quietly("ip", "link", "add", "veth0", "netns", server, "type", "veth", "peer", "name", "veth0",
                        "netns", client)
            for name, address in ((server, "192.0.2.1/24"), (client, "192.0.2.2/24")):
                run_quietly("ip", "-n", name, "addr", "add", address, "dev", "veth0")
                run_quietly("ip", "-n", name, "link", "set", "veth0", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    @property
    def device(self):
        return "veth0" if self.two else "lo"

    @property
    def server_address(self):
        return "192.0.2.1" if self.two else "127.0.0.1"

    def command(self, role, argv):
        name = self.names[1 if role == "client" and self.two else 0]
        return ["ip", "netns", "exec", name, *argv]


class Program:
    """A running program whose output is collected."""

    def __init__(self, label, argv, environment, directory):
        self.label = label
        self.path = os.path.join(directory, label + ".out")
        self.file = open(self.path, "wb")
        print(f"  {label}: {' '.join(argv[4:])}", flush=True)
        self.process = subprocess.Popen(argv, stdout=self.file, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, env=environment, cwd=directory,
                                        start_new_session=True)

    def output(self):
        self.file.flush()
        with open(self.path, "r", errors="replace") as file:
            return file.read()

    def wait_for(self, pattern, deadline):
        while not re.search(pattern, self.output()):
            if self.process.poll() is not None:
                raise Failure(f"{self.label} ended with {self.process.returncode} before it was ready")
            if time.monotonic() > deadline:
                raise Failure(f"{self.label} was not ready in time")
            time.sleep(0.02)

    def wait(self, deadline):
        try:
            return self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.label} did not end in time") from None

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.file.close()


def wait_for_tcp_listener(hosts, port, deadline):
    """dtest and its relatives say nothing when they are ready; their helper port does."""
    while time.monotonic() < deadline:
        shown = subprocess.run(hosts.command("server", ["ss", "-Hltn", f"sport = :{port}"]),
                               capture_output=True, text=True).stdout
        if shown.strip():
            return
        time.sleep(0.02)
    raise Failure(f"no listener on port {port}")


def execute(case, build, setup, hosts, directory):
    library = os.path.join(build, "lib", "libdaplsoft.so.2")
    conf = os.path.join(directory, "dat.conf")
    with open(conf, "w") as file:
        file.write(f'soft u2.0 nonthreadsafe default {library} dapl.2.0 "{hosts.device} 0" ""\n')
    environment = dict(os.environ, DAT_OVERRIDE=conf)
    if setup != "packaged-registry":
        environment["LD_LIBRARY_PATH"] = os.path.join(build, "lib")

    def fill(argv):
        return [word.format(ia="soft", host=hosts.server_address) for word in argv]

    deadline = time.monotonic() + case.timeout
    running = []
    try:
        server = None
        if case.server:
            server = Program("server", hosts.command("server", fill(case.server)), environment, directory)
            running.append(server)
            if case.server[0] == "dapltest":
                server.wait_for(case.ready, deadline)
            elif case.server[0] == "dtestsrq":
                wait_for_tcp_listener(hosts, 45248, deadline)
            else:
                wait_for_tcp_listener(hosts, 15828, deadline)
        client = Program("client", hosts.command("client", fill(case.client)), environment, directory)
        running.append(client)
        status = client.wait(deadline)
        if status != case.client_status:
            raise Failure(f"client ended with {status}")
        if case.quit:
            quitter = Program("quit", hosts.command("client", fill(case.quit)), environment, directory)
            running.append(quitter)
            if quitter.wait(deadline) != 0:
                raise Failure("the server did not take the quit request")
        if server:
            status = server.wait(deadline)
            if status != 0:
                raise Failure(f"server ended with {status}")
        for program, patterns in ((client, case.expect), (server, case.expect_server)):
            for pattern in patterns:
                if not re.search(pattern, program.output()):
                    raise Failure(f"{program.label} did not say /{pattern}/")
        for program in running:
            bad = re.search(r"(?im)^.*(segmentation fault|verification failed|data mismatch|Result: FAIL).*$",
                            program.output())
            if bad:
                raise Failure(f"{program.label} said: {bad.group(0).strip()}")
    except Failure:
        for program in running:
            print(f"---- {program.label} ----")
            print("\n".join(program.output().splitlines()[-60:]))
        raise
    finally:
        for program in running:
            program.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--subset", action="store_true")
    parser.add_argument("--build")
    parser.add_argument("--setup", choices=("loopback", "netns", "packaged-registry"), default="loopback")
    parser.add_argument("case", nargs="?")
    options = parser.parse_args()
    by_name = {case.name: case for case in cases.all_cases()}
    if options.list:
        print("\n".join(cases.SUBSET if options.subset else by_name))
        return 0
    if not options.build or options.case not in by_name:
        parser.error("--build and the name of a case are needed (see --list)")
    case = by_name[options.case]
    if not shutil.which(case.client[0]):
        print(f"SKIPPED: {case.client[0]} is not installed (package dapl2-utils)")
        return SKIP
    if os.geteuid() != 0:
        print("SKIPPED: network namespaces need root")
        return SKIP
    reason = cases.KNOWN_FAILURES.get(case.name)
    try:
        with Hosts(options.setup == "netns") as hosts, tempfile.TemporaryDirectory() as directory:
            execute(case, os.path.abspath(options.build), options.setup, hosts, directory)
    except Failure as failure:
        print(f"{'KNOWN FAILURE' if reason else 'FAILED'}: {case.name}: {failure}")
        if reason:
            print(f"reason: {reason}")
        return SKIP if reason else 1
    print(f"PASSED: {case.name}" + (f" (listed as a known failure: {reason})" if reason else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
