# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The victim and the bystander as processes, and assertions about them."""

import contextlib
import os
import queue
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import free_port

PATIENCE_S = 60  # generous, because a stalled machine is no failure


class Failed(Exception):
    pass


def require(condition, text):
    if not condition:
        raise Failed(text)


def eventually(condition, text, patience=PATIENCE_S):
    """Waits until `condition` holds."""
    end = time.monotonic() + patience
    while not condition():
        require(time.monotonic() < end, f"not within {patience} s: {text}")
        time.sleep(0.02)


class Setup:
    """The programs under test and a dat.conf for each victim."""

    def __init__(self, victim, bystander, liar, dat_conf, seconds, sanitized):
        self.victim_program, self.bystander_program, self.liar_program = victim, bystander, liar
        self.seconds, self.sanitized = seconds, sanitized
        with open(dat_conf, encoding="utf-8") as file:
            self.entry = next(line for line in file if " nonthreadsafe " in line)

    def environment(self, folder, settings, device):
        path = os.path.join(folder, "dat.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub(r'"\S+ 0"', f'"{device} 0 {settings}"', self.entry))
        return dict(os.environ, DAT_OVERRIDE=path)

    @contextlib.contextmanager
    def victim(self, *options, settings="", descriptors=None, device="lo", trace=False, variables=None):
        """Starts the victim. `descriptors` is the limit of the process, `variables` are of its environment."""
        with tempfile.TemporaryDirectory() as folder:
            victim = Victim(self, folder, options, settings, descriptors, device, trace, variables)
            try:
                yield victim
                victim.check_alive()
            finally:
                victim.stop()


class Victim:
    def __init__(self, setup, folder, options, settings, descriptors, device, trace, variables):
        self.setup = setup
        self.port = free_port()
        self.address = ("127.0.0.1", self.port)
        self.environment = setup.environment(folder, settings, device)
        environment = dict(self.environment, **(variables or {}))
        if trace:
            environment["DAPL_TRACE_LEVEL"] = "4"
        limit = None if descriptors is None else lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (descriptors, descriptors))
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [setup.victim_program, "--ia", "soft", "--port", str(self.port), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env=environment, preexec_fn=limit)
        self.lines = []
        self.news = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        eventually(lambda: self.lines or self.process.poll() is not None, "the victim is ready")
        self.check_alive()
        _, stag, self.region, size = self.lines[0].split()
        self.stag, self.region, self.region_size = int(stag), int(self.region), int(size)

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def command(self, text):
        done = self.count("done")
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        eventually(lambda: self.count("done") > done or self.process.poll() is not None, text)
        self.check_alive()

    def count(self, beginning):
        return sum(1 for line in list(self.lines) if line.startswith(beginning))

    def ends(self):
        return [line.split()[2] for line in list(self.lines) if line.startswith("ended ")]

    def trace_text(self):
        self.errors.seek(0)
        return self.errors.read()

    def check_alive(self):
        if self.process.poll() is not None:
            raise Failed(f"the victim ended with {self.process.returncode}: {self.trace_text()}")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def resident(self):
        """The resident memory in bytes."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed("the victim did not end") from None
        self.reader.join()
        text = self.trace_text()
        require(self.process.returncode == 0,
                f"the victim ended with {self.process.returncode}: {text}")
        require("ERROR: " not in text, text)  # of a sanitizer

    @contextlib.contextmanager
    def bystander(self):
        """Runs a bystander throughout; prints its latencies and fails if anything was lost."""
        process = subprocess.Popen(
            [self.setup.bystander_program, "--ia", "soft", "--port", str(self.port), "127.0.0.1"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment)
        try:
            connected = process.stdout.readline()
            require(connected.startswith("connected"), "the bystander cannot connect")
            result = {}
            yield result
            output, _ = process.communicate("", timeout=PATIENCE_S)
            require(process.returncode == 0, f"the bystander was disturbed: {output}")
            print(f"  bystander: {output.strip()}")
            result.update((name, float(value)) for name, value in
                          (word.split("=") for word in output.split()))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def start_liar(self, seed, lives):
        """Starts a peer that scribbles over the memory that it shares with the victim."""
        return subprocess.Popen(
            [self.setup.liar_program, "--ia", "soft", "--port", str(self.port), "--seed", str(seed), "--lives",
             str(lives), "--stag", str(self.stag), "--region", str(self.region), "--size", str(self.region_size),
             "127.0.0.1"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)

    def check_service(self):
        """Checks that a new client is served."""
        with self.bystander():
            pass
