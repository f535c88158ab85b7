#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A server with an event loop must serve many clients at once, even if one of them is killed while connected.

usage: many_clients.py SERVER CLIENT
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import free_port

CLIENTS = 12
MESSAGES = 50
TIMEOUT_S = 90


def main():
    server_program, client_program = sys.argv[1:]
    port = str(free_port())
    server = subprocess.Popen([server_program, "--server", "--clients", str(CLIENTS + 1), "--port", port],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    clients = []
    try:
        if not server.stdout.readline():
            return "the server did not start"
        # A client with so many messages that it is killed below before it has sent all of them.
        victim = subprocess.Popen([client_program, "--port", port, "127.0.0.1", *["x" * 100] * 5000],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        clients.append(victim)
        victim.stdout.readline()  # it is connected, and has received an answer
        for number in range(CLIENTS):
            words = [f"{number}.{i}" for i in range(MESSAGES)]
            clients.append(subprocess.Popen([client_program, "--port", port, "127.0.0.1", *words],
                                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        victim.kill()
        for number, client in enumerate(clients[1:]):
            said, _ = client.communicate(timeout=TIMEOUT_S)
            if client.returncode != 0 or said.split() != [f"{number}.{i}" for i in range(MESSAGES)]:
                return f"client {number} ended with {client.returncode}: {said}"
        _, said = server.communicate(timeout=TIMEOUT_S)
        if server.returncode != 0:
            return f"the server ended with {server.returncode}: {said}"
    finally:
        for process in [server, *clients]:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
    return None


if __name__ == "__main__":
    failure = main()
    if failure:
        print(f"FAILED: {failure}")
        sys.exit(1)
