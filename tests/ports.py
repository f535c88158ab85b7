# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""TCP ports for servers that a test starts."""

import random
import socket


def free_port():
    """A port that nobody listens on, below those that the kernel gives to whoever connects or binds to port 0: programs that
    run at the same time do not take it before the server does."""
    for _ in range(1000):
        port = random.randint(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError("no free port between 10000 and 32000")
