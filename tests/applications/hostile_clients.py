#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Hostile clients at the servers of the tools: whatever they do, the next good client must be served.

usage: hostile_clients.py dattx|datperf|dapltest|datconform PROGRAM

Exit status 0 if all good clients were served, else 1.
"""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import free_port

TIMEOUT_S = 120
MPA_REQUEST = b"MPA ID Req Frame"
CRC = 0x40
DATTX_HELLO = struct.pack(">8I", 0x64747831, 2, 4096, 0, 0, 0, 0, 0)
# One of two connections of a group whose other connection never arrives, and one that requests too much.
DATPERF_HELLO = struct.pack(">12I", 0x64707232, 2 << 24, 4096, 16, 2, 7, 7, 0, 0, 0, 0, 0)
DATPERF_GREEDY = struct.pack(">12I", 0x64707232, 2 << 24, 64 << 20, 1024, 256, 8, 8, 0, 0, 0, 0, 0)
DATPERF_PLACES = 256
HELLOS = {"dattx": [DATTX_HELLO], "datperf": [DATPERF_HELLO, DATPERF_GREEDY]}


def mpa_request(private_data, revision=1, length=None):
    size = len(private_data) if length is None else length
    return MPA_REQUEST + struct.pack(">BBH", CRC, revision, size) + private_data


class Stranger:
    """A TCP connection to the port; its methods are what a hostile client may do."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # the server has closed the connection
        return self

    def answer(self):
        try:
            return self.socket.recv(65536)
        except OSError:
            return b""

    def end(self):
        self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def attacks(port, hellos):
    """Runs attacks that end immediately. Returns connections that stay open."""
    Stranger(port).end()
    Stranger(port).reset()
    Stranger(port).send(os.urandom(4096)).end()
    Stranger(port).send(b"GET / HTTP/1.0\r\n\r\n").end()
    Stranger(port).send(mpa_request(b"")).end()
    Stranger(port).send(mpa_request(b"")).reset()
    Stranger(port).send(mpa_request(b"x" * 511, length=512)).end()
    Stranger(port).send(mpa_request(b"", length=65535)).end()
    Stranger(port).send(mpa_request(b"", revision=77)).end()
    for size in (1, 31, 32, 33, 511, 512):
        wrong = Stranger(port).send(mpa_request(os.urandom(size)))
        wrong.answer()
        wrong.end()
    for hello in hellos:
        Stranger(port).send(mpa_request(hello)).reset()
        garbage = Stranger(port).send(mpa_request(hello))
        garbage.answer()
        garbage.send(os.urandom(70000))  # more than a 16-bit length can announce
        garbage.answer()
        garbage.reset()
    silent = Stranger(port)
    half = Stranger(port).send(MPA_REQUEST[:9])
    return [silent, half, *(Stranger(port).send(mpa_request(hello)) for hello in hellos)]


class Server:
    def __init__(self, command, ready):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        end = time.monotonic() + TIMEOUT_S
        while not re.search(ready, self.text()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server does not start:\n{self.text()}")
            time.sleep(0.02)

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        if self.alive():
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def datconform_client(program, port):
    return [program, "--ia", "soft", f"--peer=127.0.0.1:{port}", "--run_test=remote/rem_private_data"]


TOOLS = {
    "dattx": (lambda p, port: [p, "server", "--timeout", "2", "--port", str(port)],
              lambda p, port: [p, "client", "--timeout", "60", "--count", "3", "--sizes", "64", "--port", str(port),
                               "127.0.0.1"],
              "listens on port"),
    "datperf": (lambda p, port: [p, "server", "--timeout", "2", "--sockets", "--port", str(port)],
                lambda p, port: [p, "client", "--timeout", "60", "--count", "3", "--rounds", "2", "--sizes", "64",
                                 "--sockets", "--port", str(port), "127.0.0.1"],
                "sockets listen at port"),
    "dapltest": (lambda p, port: [p, "-T", "S", "-D", "soft", "-n", str(port)],
                 lambda p, port: [p, "-T", "T", "-s", "127.0.0.1", "-D", "soft", "-n", str(port), "-i", "10", "-t", "1",
                                  "-w", "1", "client", "SR", "256", "server", "SR", "256"],
                 "Service Point Ready"),
    "datconform": (lambda p, port: [p, "--ia", "soft", f"--listen={port}"], datconform_client, "partner for IA"),
}


def main():
    name, program = sys.argv[1:]
    server_of, client_of, ready = TOOLS[name]
    port = free_port()
    server = Server(server_of(program, port), ready)
    errors = 0
    stayed = []
    try:
        for turn in range(3):
            stayed += attacks(port, HELLOS.get(name, [DATTX_HELLO]))
            if name == "datconform":
                # Each gets a partner process; these are limited in number, and end with their drivers.
                stayed += [Stranger(port).send(b"\0\0\0\x04T") for _ in range(100)]
                for stranger in stayed:
                    stranger.reset()
                stayed = []
            crowd = []
            if name == "datperf":
                # More than the server accepts with --sockets.
                crowd = [Stranger(port + 1) for _ in range(DATPERF_PLACES + 4)]
            client = subprocess.run(client_of(program, port), check=False, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S)
            for stranger in crowd:
                stranger.end()
            if client.returncode != 0:
                print(f"FAILED: turn {turn}: the good client ended with {client.returncode}\n{client.stdout}")
                errors += 1
            if not server.alive():
                print(f"FAILED: turn {turn}: the server ended with {server.process.returncode}")
                errors += 1
                break
    finally:
        server.stop()
    if errors:
        print(server.text()[-5000:])
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
