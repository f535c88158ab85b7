#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs one case of our dapltest: run_dapltest.py --dapltest PROGRAM --libraries DIR CASE | --list

Exit status 0 passed, 1 failed, 77 skipped (says why). The adapter is `soft` of $DAT_OVERRIDE.
"""

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import free_port

SKIP = 77
TIMEOUT_S = 50
PACKAGED = "/usr/bin/dapltest"
HOST = "127.0.0.1"
# The sizes are chosen so that a byte in the wrong place is detected. The packaged program can compare RDMA data
# of several segments only if they are aligned, so tests with that program use aligned ones.
MIXED = "client RW 4096 2 server RR 2048 4 client SR 1024 4 server SR 4096 2".split()
ODD = "client RW 50 2 server RW 33 3 client RR 35 1 server RR 7 4 client SR 61 2 server SR 41 3".split()


class Failure(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failure(text)


class Bench:
    def __init__(self, ours, libraries):
        self.ours = ours
        self.environment = dict(os.environ, LD_LIBRARY_PATH=libraries)

    def run(self, *words, status=0, expect=(), program=None):
        """Runs a client, or a test that needs no server."""
        argv = [program or self.ours, *map(str, words)]
        print("+", *argv, flush=True)
        done = subprocess.run(argv, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=TIMEOUT_S, check=False)
        print(done.stdout, flush=True)
        check(done.returncode == status, f"ended with {done.returncode}, not {status}")
        for expression in expect:
            check(re.search(expression, done.stdout), f"did not write /{expression}/")
        return done.stdout

    @contextlib.contextmanager
    def server(self, program=None, status=0):
        """A server, which is told to quit at the end and must exit with `status`. None: it has been killed."""
        for _ in range(5):  # another program may take the port
            port = free_port()
            argv = [program or self.ours, "-T", "S", "-D", "soft", "-n", str(port)]
            server = subprocess.Popen(argv, env=self.environment, stdout=subprocess.PIPE, text=True)
            line = server.stdout.readline()
            if "Service Point Ready" in line:
                break
            server.wait(TIMEOUT_S)
        check("Service Point Ready" in line, "the server did not start")
        log = []
        reader = threading.Thread(target=lambda: log.extend(server.stdout))
        reader.start()
        try:
            yield Side(self, server, port)
            if status is not None:
                self.run("-T", "Q", "-s", HOST, "-D", "soft", "-n", port)
                check(server.wait(TIMEOUT_S) == status, f"the server ended with {server.returncode}")
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
            reader.join()
            print("server:", "".join(log))


class Side:
    def __init__(self, bench, process, port):
        self.bench, self.process, self.port = bench, process, port

    def address(self):
        return ["-s", HOST, "-D", "soft", "-n", str(self.port)]

    def client(self, test, *words, **options):
        return self.bench.run("-T", test, *self.address(), *words, **options)


def transactions(bench):
    with bench.server() as server:
        server.client("T", "-i", 100, "-V", *ODD, expect=[r"Total RDMA Read", r"dapltest: PASSED"])
        server.client("T", "-i", 300, "-V", "-P", "client", "RW", 1)  # the pattern wraps
        server.client("T", "-i", 30, "-V", "-t", 3, "-w", 4, *MIXED)
        server.client("T", "-i", 30, "-V", "-r", *ODD)
        server.client("T", "-i", 30, "-V", "-Q", *ODD)
        server.client("T", "-i", 30, *"-V client SR 1024 3 -f server SR 2048 1 -f".split())
        server.client("T", "-i", 3, "-V", *"client RW 4194304 server RR 4194304".split())
        server.client("T", "-i", 100, *"client SR 1 server SR 1 client SR server SR".split())


# The server's last send and its final Sync arrive together.
def short_transactions(bench):
    with bench.server() as server:
        for count in range(30):
            server.client("T", "-i", 1 + count % 3, *"client SR 1000 server SR 1000".split())


def clients_at_once(bench):
    with bench.server() as server:
        argv = [bench.ours, "-T", "T", *server.address(), "-i", "200", "-V", *MIXED]
        clients = [subprocess.Popen(argv, env=bench.environment, stdout=subprocess.DEVNULL) for _ in range(4)]
        for client in clients:
            check(client.wait(TIMEOUT_S) == 0, "a client failed")


def performance(bench):
    with bench.server() as server:
        for words in ("RW 4096 2", "-m p -p 8 RR 100", "-p 0 RW 1", "-p 64 RR 65536 3"):
            server.client("P", "-i", 400, *words.split(), expect=[r"raw: R[RW], 400", r"p99 "])


def results_as_json(bench):
    with bench.server() as server:
        result = json.loads(server.client("T", "-i", 50, "-V", "--json", *MIXED))
        check(result["verdict"] == "PASSED" and result["iterations"] == 50, "wrong values")
        check(result["bytes_rdma_written"] == 50 * 8192, "wrong number of bytes")
        check(result["iteration_us"]["count"] == 50, "wrong number of samples")
        times = [result["iteration_us"][key] for key in ("min", "p50", "p90", "p99", "p99.9", "max")]
        check(times == sorted(times), "percentiles out of order")
        result = json.loads(server.client("T", "-i", 1, "--json", "client", "SR", 8, "server", "SR", 8))
        # The rate must match the seconds, of which enough digits must be printed.
        check(result["seconds"] > 0 and abs(result["seconds"] * result["operations_per_second"] /
                                            result["operations"] - 1) < 1e-6, f"seconds: {result['seconds']}")
        result = json.loads(server.client("P", "-i", 60, "--json", "RR", 512))
        check(result["latency_us"]["count"] == 60 and result["operation"] == "RR", "wrong values")
    text = bench.run("-T", "L", "-D", "soft", "-m", 7, "--json", "limit_pz", "limit_lmr")
    check(json.loads(text)["limit_pz"] == 7, "wrong limit")
    result = bench.run("-T", "T", "-s", HOST, "-D", "not \"there\"", "--json", *MIXED, status=1)
    result = json.loads(result.splitlines()[-1])
    check(result["verdict"] == "FAILED" and "opening the adapter" in result["reason"], "no reason")
    result = bench.run("-T", "T", "-s", HOST, "-D", "M\u00fcller", "--json", *MIXED, status=1)
    check("M\u00fcller" in json.loads(result.splitlines()[-1])["reason"], "the name of the adapter is not whole")


def limits(bench):
    """Conn quals that other programs use cost none of the objects that are counted."""
    with contextlib.ExitStack() as others:
        for port in (20010, 20060):
            with contextlib.suppress(OSError):  # in use
                others.enter_context(socket.create_server(("", port)))
        bench.run("-T", "L", "-D", "soft", "-w", 2, "-m", 50,
                  expect=[r"IAs opened: 50", r"PZs created: 50", r"RSPs created: 50", r"PSPs created: 50",
                          r"recv buffers posted per EP: [1-9]", r"largest LMR: [1-9]"])
    bench.run("-T", "L", "-D", "not-there", "limit_pz", status=1, expect=[r"FAILED"])


def features(bench):
    for feature, cases in (("hwconn", 4), ("endpoint", 3), ("pz", 3), ("mem", 5), ("connmgt", 2), ("queryinfo", 18)):
        text = bench.run("-T", "F", "-D", "soft", "-f", feature)
        check(text.count("Result: PASS") == cases, f"not {cases} cases")
    bench.run("-T", "F", "-D", "soft", "-f", "pz", "case1", expect=[r"case: 1"])
    bench.run("-T", "F", "-D", "soft", "-f", "pz", "case9", status=1, expect=[r"cases 0 to 2 only"])
    # The packaged program prints PASS in this case.
    bench.run("-T", "F", "-D", "not-there", "-f", "pz", "case0", status=1, expect=[r"Result: FAIL"])


def bad_arguments(bench):
    for words, reason in (
            ("-T X", "not a test"), ("-T", "not a test"), ("-T T", "-s is missing"),
            ("-T T -s h client SR", "at least one SR"), ("-T T -s h -i 0 client SR server SR", "number from 1"),
            ("-T T -s h -i 1x client SR server SR", "number from 1"), ("-T T -s h -i", "needs a value"),
            ("-T T -s h client SR 0 server SR", "number from 1"), ("-T T -s h client XX", "SR, RR or RW"),
            ("-T T -s h peer SR", "client or server"), ("-T T -s h client", "must be followed by SR, RR or RW"),
            ("-T T -s h client SR 4000000000 2 server SR", "1 GiB"), ("-T T -s h -f client SR", "has to follow"),
            ("-T T -s h client SR -f server SR", "in pairs"), ("-T T -s h -R XX client SR", "one of BE"),
            ("-T P -s h SR", "RR and RW"), ("-T P -s h", "no operation"), ("-T P -s h RR 4 1 RW", "one operation"),
            ("-T P -s h -m x RR", "blocking"), ("-T L limit_no", "no such limit"), ("-T F", "-f is missing"),
            ("-T F -f no", "no such feature"), ("-T F -f pz casex", "a case is"), ("-T S more", "too much"),
            ("-T S -n 0", "number from 1"), ("-T S -n 65536", "number from 1"), ("--no", "no such option"),
            ("-T Q", "-s is missing"), ("-f /nonexistent", "cannot read"), ("-z", "no such option"),
            ("-T T -s h --timeout 0 client SR server SR", "number from 1"),
            ("-T T -s h " + "client SR server SR " * 51, "more than 100")):
        bench.run(*words.split(), status=2, expect=[re.escape(reason)])
    bench.run("--help", expect=[r"Exit status"])
    bench.run("-T", "P", "-h", expect=[r"Exit status"])


def script_file(bench):
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"dapltest-{os.getpid()}.script")
    with open(path, "w", encoding="ascii") as file:
        file.write("# how many\ndapltest -T L -D soft  # an adapter\n-m 3 limit_pz\n")
    try:
        bench.run("-f", path, expect=[r"PZs created: 3"])
    finally:
        os.remove(path)
    for bad, why in (("/", "Is a directory"), ("/nonexistent/script", "No such file or directory")):
        bench.run("-f", bad, status=2, expect=[rf"dapltest: cannot read '{bad}': {why}\n"])


def without_adapters(bench):
    bench.environment["DAT_OVERRIDE"] = "/nonexistent/dat.conf"
    for words in ("-T S", "-T T -s h client SR server SR", "-T L limit_pz"):
        text = bench.run(*words.replace(" h ", f" {HOST} ").split(), status=1, expect=[
            r"dat.conf names no adapter\n  /nonexistent/dat.conf: No such file", r"try: `datinfo generate"])
        check(re.search(r"FAILED: \w+: dat.conf names no adapter\n(?! )", text), "the verdict is one line")


def no_server(bench):
    with socket.socket() as probe:
        probe.bind((HOST, 0))  # bound but not listening
        port = probe.getsockname()[1]
        bench.run("-T", "T", "-s", HOST, "-D", "soft", "-n", port, *MIXED, status=1, expect=[
            rf"connecting from {HOST} to {HOST} port {port}: no server listens there"])
    bench.run("-T", "Q", "-s", "no-such-host.invalid", "-D", "soft", status=1, expect=[r"no-such-host.invalid: "])


def busy_server(bench):
    """If a server rejects every request, as a busy one does, the client retries less and less often."""
    asked = []

    def reject(listener):
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                asked.append(time.monotonic())
                peer.settimeout(TIMEOUT_S)
                request = peer.recv(1024)
                peer.sendall(b"MPA ID Rep Frame" + bytes([request[16] & 0x40 | 0x20, request[17], 0, 0]))
                peer.recv(1024)

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=reject, args=(listener,), daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        bench.run("-T", "T", "-s", HOST, "-D", "soft", "-n", port, "--timeout", 3, *MIXED, status=1, expect=[
            "does not accept; trying again", f"port {port}: the server rejected it"])
        listener.shutdown(socket.SHUT_RDWR)
    print(f"asked {len(asked)} times")
    check(3 <= len(asked) <= 12, f"asked {len(asked)} times")


def killed_server(bench):
    for test, words in (("T", MIXED), ("P", ["RW", "4096"])):
        with bench.server(status=None) as server:
            timer = threading.Timer(1.0, server.process.kill)
            timer.start()
            started = time.monotonic()
            server.client(test, "-i", 1000000000, *words, status=1, expect=[r"FAILED: .*(ended|failed|broke)"])
            check(time.monotonic() - started < 20, "the client noticed it late")
            timer.join()


def killed_client(bench):
    # The server reports the failed test, continues to serve, and reflects the failure in its exit status.
    with bench.server(status=1) as server:
        argv = [bench.ours, "-T", "T", *server.address(), "-i", "1000000000", *MIXED]
        client = subprocess.Popen(argv, env=bench.environment, stdout=subprocess.DEVNULL)
        time.sleep(1)
        client.kill()
        client.wait()
        server.client("T", "-i", 10, "-V", *MIXED)


def client_without_descriptors(bench):
    # The client ends while the server waits for its connections, most of which never arrive.
    with bench.server(status=1) as server:
        argv = [bench.ours, "-T", "T", *server.address(), *"-t 8 -w 8".split(), *MIXED]
        client = subprocess.run(argv, env=bench.environment, check=False, timeout=TIMEOUT_S,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
        check(client.returncode == 1, f"the client ended with {client.returncode}")
        server.client("T", "-i", 10, "-V", *MIXED)
        started = time.monotonic()
    check(time.monotonic() - started < 30, "the server waits for a client that has gone")


def stranger(bench):
    # Not a DAT client at all: the service point must keep working.
    with bench.server() as server:
        with socket.create_connection((HOST, server.port)) as intruder:
            intruder.sendall(b"GET / HTTP/1.0\r\n\r\n" * 20)
        server.client("T", "-i", 10, "-V", *MIXED)


def progress(bench):
    with bench.server(status=None) as server:
        argv = [bench.ours, "-T", "T", *server.address(), "-i", "1000000000", *MIXED]
        client = subprocess.Popen(argv, env=bench.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        line = client.stderr.readline()
        client.kill()
        client.communicate()
        check(re.match(r"dapltest: \d+ % \(\d+ of 1000000000\), \d+ s left", line), f"no progress: {line}")


def interoperate(bench, server_program, client_program):
    if not os.path.exists(PACKAGED):
        print("SKIPPED: no dapltest of dapl2-utils")
        return SKIP
    with bench.server(program=server_program) as server:
        for words in (["-i", "300", "-V", "client", "SR", "64", "server", "SR", "96", "2", "client", "RW", "server", "RR"],
                      ["-i", "30", "-V", "-t", "3", "-w", "4", *MIXED],
                      ["-i", "30", "-V", "-r", "-P", *MIXED],
                      "-i 20 -V client SR 1024 3 -f server SR 2048 1 -f".split()):
            text = server.client("T", *words, program=client_program, expect=[r"Total WQE|enough time"])
            check("Validation Error" not in text, "data are wrong")
        for words in ("RW 4096 2", "-m p -p 8 RR 100"):
            server.client("P", "-i", 300, *words.split(), program=client_program, expect=[r"raw: R[RW], 300"])
        if not client_program:  # a QoS that the adapter does not have: the server must be able to quit afterwards
            server.client("T", "-i", 5, "-R", "LL", *MIXED, status=1, expect=[
                rf"FAILED: transaction: connecting to {HOST} port {server.port}: DAT_MODEL_NOT_SUPPORTED"])
    return 0


def packaged_server(bench):
    return interoperate(bench, PACKAGED, None)


def packaged_client(bench):
    return interoperate(bench, None, PACKAGED)


CASES = {function.__name__: function for function in (
    transactions, short_transactions, clients_at_once, performance, results_as_json, limits, features, bad_arguments,
    script_file, without_adapters, no_server, busy_server, killed_server, killed_client, client_without_descriptors, stranger, progress,
    packaged_server,
    packaged_client)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--dapltest")
    parser.add_argument("--libraries")
    parser.add_argument("case", nargs="?", choices=CASES)
    options = parser.parse_args()
    if options.list:
        print("\n".join(CASES))
        return 0
    if not options.case or not options.dapltest or not shutil.which(options.dapltest):
        parser.error("a case, and the path of dapltest are needed")
    try:
        return CASES[options.case](Bench(options.dapltest, options.libraries or "")) or 0
    except (Failure, subprocess.TimeoutExpired, ValueError) as failure:
        print(f"FAILED: {options.case}: {failure}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
