# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The measurement of each side of bench/peers: one sample is one number."""

import json
import os
import re
import shutil
import subprocess
import time

PROGRAMS = {"ucx": "ucx_perftest of ucx-utils",
            "libfabric": "built with libfabric-dev, or fi_pingpong of libfabric-bin"}
ENTRIES = {"shm": "path=shm", "tcp": "path=tcp", "tcp-no-crc": "path=tcp crc=off"}
FIRST_PORT = 27300  # below the ports that the kernel gives to sockets that connect
LIMIT = 60  # seconds; a sample that takes longer hangs


SKIPPED = 77  # exit status of dat_pair: cannot be measured here


class Failure(Exception):
    pass


class Skipped(Exception):
    """The reason."""


def on(processor, *command):
    return ["taskset", "-c", str(processor), *command]


def run(command, environment=None):
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(command)}: no end after {LIMIT} s") from None
    if done.returncode == SKIPPED:
        raise Skipped(done.stdout.strip())
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


class Sides:
    """A context manager: our servers run inside its `with` block."""

    def __init__(self, folder, options):
        self.programs = os.path.join(os.path.abspath(options.build), "bin")
        self.seconds = options.seconds
        self.connections = options.connections
        self.missing = {side: "not wanted" for side in filter(None, options.without.split(","))}  # side -> reason
        self.own_client = os.path.exists(self.program("peers_fabric"))  # our client of libfabric
        if shutil.which("ucx_perftest") is None:
            self.missing.setdefault("ucx", "not installed")
        if not self.own_client and shutil.which("fi_pingpong") is None:
            self.missing.setdefault("libfabric", "neither built nor installed")
        config = os.path.join(folder, "dat.conf")
        library = os.path.join(os.path.abspath(options.build), "lib", "libdaplsoft.so.2")
        with open(config, "w", encoding="utf-8") as out:
            for name, parameters in ENTRIES.items():
                out.write(f'{name} u2.0 nonthreadsafe default {library} dapl.2.0 "lo 0 {parameters}" ""\n')
        self.environment = dict(os.environ, DAT_OVERRIDE=config)
        self.next_port = FIRST_PORT
        self.servers = {}

    def __enter__(self):
        for name in ENTRIES:
            port = self.port()
            server = subprocess.Popen(on(0, self.program("datperf"), "server", "--ia", name, "--port", str(port)),
                                      env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.servers[name] = (server, port)
        time.sleep(0.5)  # the clients also retry
        return self

    def __exit__(self, *_):
        for server, _ in self.servers.values():
            server.terminate()
            server.wait()

    def program(self, name):
        return os.path.join(self.programs, name)

    def port(self):
        self.next_port += 10
        return self.next_port

    def floor(self, what, size=None, waiting=None):
        words = [what, *([str(size)] if size is not None else []), *([waiting] if waiting else [])]
        return float(run([self.program("peers_floor"), *words]))

    def ours(self, path, what, operation, waiting, size, window=64):
        command = on(1, self.program("datperf"), "client", "127.0.0.1", "--ia", path,
                     "--port", str(self.servers[path][1]), "--measure", what, "--waiting", waiting,
                     "--rounds", "1", "--seconds", str(self.seconds), "--json", "-")
        if operation is not None:
            command += ["--operations", operation, "--sizes", str(size)]
        if what == "bandwidth":
            command += ["--windows", str(window)]
        output = run(command, self.environment)
        row = json.loads(output[output.index("{"):])["rows"][0]
        if what == "latency":
            return row["median"]
        return row["per_second"] / (1e6 if what == "bandwidth" else 1)

    def ucx(self, kind, test, size, window=64):
        environment = dict(os.environ, UCX_TLS="posix,self" if kind == "shm" else "tcp,self", UCX_LOG_LEVEL="error",
                           UCX_NET_DEVICES="lo" if kind == "tcp" else "all")
        port = self.port()
        count = 200 if size >= 1 << 20 else 2000 if size >= 1 << 16 else 20000 if kind == "shm" else 5000
        server = subprocess.Popen(on(0, "ucx_perftest", "-p", str(port)), env=environment,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.3)
            bandwidth = test.endswith("_bw")
            command = on(1, "ucx_perftest", "127.0.0.1", "-p", str(port), "-t", test, "-s", str(size),
                         "-n", str(count * (20 if bandwidth else 1)), "-w", "500", "-f",
                         *(["-O", str(window)] if bandwidth else []))
            numbers = run(command, environment).splitlines()[-1].split()
        finally:
            server.terminate()
            server.wait()
        # iterations, latency: median, average, overall; bandwidth: average, overall; rate: average, overall
        return float(numbers[-1]) / 1e6 if test.endswith("_bw") else float(numbers[1])

    def fabric(self, provider, size):
        if not self.own_client:
            return self.pingpong(provider, size)
        return float(run([self.program("peers_fabric"), provider, "latency", str(size)]))

    def fabric_rate(self, provider, size, window):
        if not self.own_client:
            raise Skipped("peers_fabric is not built: libfabric-dev")
        return float(run([self.program("peers_fabric"), provider, "rate", str(size), str(window)]))

    def pingpong(self, provider, size):
        port = str(self.port())
        count = "200" if size >= 1 << 20 else "2000" if size >= 1 << 16 else "10000"
        words = ["fi_pingpong", "-p", provider, "-e", "rdm", "-m", "tagged", "-S", str(size), "-I", count]
        server = subprocess.Popen(on(0, *words, "-B", port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.3)
            return float(run(on(1, *words, "-P", port, "127.0.0.1")).splitlines()[-1].split()[6])
        finally:
            server.terminate()
            server.wait()

    def ring(self, path, processes):
        output = run(on("0,1", self.program("dat_ring"), f"--ia={path}", f"--processes={processes}", "--laps=2000"),
                     self.environment)
        return float(re.search(r"([0-9.]+) us per hop", output).group(1))

    def pair(self, path, what, number):
        return float(run([self.program("dat_pair"), f"--ia={path}", what, str(number)], self.environment))
