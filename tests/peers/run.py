#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs cases of cases.py: unmodified binaries of dapl2-utils on our libraries.

  run.py --list [--subset]
  run.py --build DIR [--setup SETUP] [--server STACK] [--client STACK] [--own ROLE]... [--rounds N]
         [--without CASE] [--results FILE] CASE...

CASE is a name or a pattern (dapltest.T.*). Setups:

loopback            our libdat2 and our software RNIC, both programs in one fresh network namespace
netns               the same, each program in a namespace of its own, joined by a veth pair
packaged-registry   the distribution's libdat2.so.2 in front of our software RNIC
vm, vm-two-hosts    libdaplofa on the kernel's RDMA stack; inside the machine of tests/vm

STACK, in the vm setups, says where a program's libraries come from: built (default), packaged, or one word for
the registry and one for the provider: packaged/built. --own ROLE (server, client; may be repeated): there runs the
program of that name that is built here, where there is one.

Each result is a line of JSON in --results FILE. Exit status 0 all passed, 1 something failed, 77 all that ran were
not to be run here or known to fail (says why). Needs root for the namespaces.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cases
import places
from places import CLIENT, SERVER, Failure

SKIP = 77


class Program:
    """A running program whose output is collected."""

    def __init__(self, label, role, argv, place, directory):
        self.label = label
        self.path = os.path.join(directory, label + ".out")
        self.file = open(self.path, "wb")
        conf = os.path.join(directory, role + ".dat.conf")
        with open(conf, "w") as file:
            file.write(place.conf(role))
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        environment.update(place.environment(role), DAT_OVERRIDE=conf)
        if role in place.own:
            environment["PATH"] = os.path.join(place.build, "bin") + os.pathsep + environment["PATH"]
        argv = [word.format(ia=place.ia[role], host=place.server_address) for word in argv]
        print(f"  {label}: {' '.join(argv)}", flush=True)
        self.process = subprocess.Popen(place.command(role, argv), stdout=self.file, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, env=environment, cwd=directory,
                                        start_new_session=True)

    def output(self):
        self.file.flush()
        with open(self.path, "r", errors="replace") as file:
            return file.read()

    def wait_until(self, ready, deadline):
        while not ready():
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


def start_server(case, place, directory, deadline, running):
    server = Program("server", SERVER, case.server, place, directory)
    running.append(server)
    if case.server[0] == "dapltest":
        server.wait_until(lambda: re.search(case.ready, server.output()), deadline)
    elif case.server[0] == "dtestsrq":
        server.wait_until(lambda: place.offers(45248), deadline)
    else:  # dtest and its relatives say nothing when they are ready; their helper port does
        server.wait_until(lambda: place.listens(15828), deadline)
    return server


def check_output(case, client, server, running):
    for program, patterns in ((client, case.expect), (server, case.expect_server)):
        for pattern in patterns:
            if not re.search(pattern, program.output()):
                raise Failure(f"{program.label} did not say /{pattern}/")
    for program in running:
        bad = re.search(r"(?im)^.*(segmentation fault|verification failed|data mismatch|Result: FAIL).*$",
                        program.output())
        if bad:
            raise Failure(f"{program.label} said: {bad.group(0).strip()}")


def execute(case, place, directory):
    """What the programs said; Failure if anything is not as it should be."""
    deadline = time.monotonic() + case.timeout * place.patience
    running = []
    try:
        server = start_server(case, place, directory, deadline, running) if case.server else None
        client = Program("client", CLIENT, case.client, place, directory)
        running.append(client)
        status = client.wait(deadline)
        if status != case.client_status:
            raise Failure(f"client ended with {status}")
        if case.quit:
            quitter = Program("quit", CLIENT, case.quit, place, directory)
            running.append(quitter)
            if quitter.wait(deadline) != 0:
                raise Failure("the server did not take the quit request")
        if server:
            status = server.wait(deadline)
            if status != 0:
                raise Failure(f"server ended with {status}")
        check_output(case, client, server, running)
        return "\n".join(program.output() for program in running)
    except Failure:
        for program in running:
            print(f"---- {program.label} ----")
            print("\n".join(program.output().splitlines()[-60:]))
        raise
    finally:
        for program in running:
            program.kill()


def attempt(case, options):
    for left in reversed(range(case.attempts)):
        try:
            with places.make(options.setup, os.path.abspath(options.build), options.server, options.client) as place, \
                 tempfile.TemporaryDirectory() as directory:
                place.own = options.own
                return execute(case, place, directory)
        except Failure as failure:
            if left == 0:
                raise
            print(f"AGAIN: {failure}", flush=True)


class BusyLoops:
    """Programs that use the CPU for as long as the scope lasts."""

    def __init__(self, count):
        self.loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def all_rounds(case, options):
    rounds = options.rounds or case.rounds
    with BusyLoops(case.busy):
        for number in range(1, rounds + 1):
            if rounds > 1:
                print(f"  round {number} of {rounds}", flush=True)
            said = attempt(case, options)
    return said


def run_case(case, options):
    """("passed" | "failed" | "known", what is to be said)."""
    reason = cases.KNOWN_FAILURES.get(case.name)
    try:
        said = all_rounds(case, options)
    except Failure as failure:
        print(f"{'KNOWN FAILURE' if reason else 'FAILED'}: {case.name}: {failure}", flush=True)
        if reason:
            print(f"reason: {reason}", flush=True)
        return "known" if reason else "failed", str(failure)
    if options.show:
        print("\n".join(re.findall(options.show, said)))
    print(f"PASSED: {case.name}" + (f" (listed as a known failure: {reason})" if reason else ""), flush=True)
    return "passed", ""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--subset", action="store_true", help="the cases of cases.SUBSET")
    parser.add_argument("--without", default="", metavar="CASE", help="leaves this one out")
    parser.add_argument("--build")
    parser.add_argument("--setup", choices=places.SETUPS, default="loopback")
    parser.add_argument("--server", type=places.Stack.parse, default=places.Stack(), metavar="STACK")
    parser.add_argument("--client", type=places.Stack.parse, default=places.Stack(), metavar="STACK")
    parser.add_argument("--own", action="append", choices=(SERVER, CLIENT), default=[])
    parser.add_argument("--rounds", type=int, metavar="N", help="each case so many times in a row")
    parser.add_argument("--results", metavar="FILE")
    parser.add_argument("--show", metavar="PATTERN", help="print what matches in the programs' output")
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()
    everything = list(cases.all_cases(emulated=options.setup.startswith("vm")))
    wanted = [case for case in everything
              if case.name != options.without and
              ((options.subset and case.name in cases.SUBSET) or
               any(fnmatch.fnmatchcase(case.name, pattern) for pattern in options.case))]
    if options.list:
        wanted = wanted or everything
    elif not options.build or not wanted:
        parser.error("--build and the name of a case are needed (see --list)")
    return options, wanted


def main():
    options, wanted = parse_arguments()
    if options.list:
        print("\n".join(case.name for case in wanted))
        return 0
    if not shutil.which(wanted[0].client[0]):
        print(f"SKIPPED: {wanted[0].client[0]} is not installed (package dapl2-utils)")
        return SKIP
    if os.geteuid() != 0:
        print("SKIPPED: network namespaces need root")
        return SKIP
    results = []
    for case in wanted:
        begin = time.monotonic()
        result, why = run_case(case, options)
        results.append(result)
        if options.results:
            with open(options.results, "a") as file:
                file.write(json.dumps({"case": case.name, "setup": options.setup, "result": result, "why": why,
                                       "seconds": round(time.monotonic() - begin, 1)}) + "\n")
    if len(results) > 1:
        print(f"{results.count('passed')} of {len(results)} passed")
    if "failed" in results:
        return 1
    return 0 if "passed" in results else SKIP


if __name__ == "__main__":
    sys.exit(main())
