# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The measurements of bench/peers and their goals. `here` is sides.Sides."""

import statistics


class Row:
    """`samples`: side -> a function that measures once. `goals`: (ratio, names of sides), or (absolute number, [])."""

    def __init__(self, title, unit, samples, *goals, more_is_better=False):
        self.title, self.unit, self.samples, self.goals = title, unit, samples, goals
        self.more_is_better = more_is_better
        self.found = []  # (side, state, value)

    def median(self, side, state):
        values = [value for name, where, value in self.found if name == side and where == state]
        return statistics.median(values) if values else None

    def verdict(self, goal, state):
        """Returns the ratio to the best of the goal's sides, if it names any, and whether the goal is reached.

        Each is None if not known.
        """
        ours = self.median("ours", state)
        times, others = goal
        best = [value for value in (self.median(other, state) for other in others) if value is not None]
        if ours is None or (others and not best):
            return None, None
        ratio = ours / (max(best) if self.more_is_better else min(best)) if others else None
        number = ours if ratio is None else ratio
        return ratio, number >= times if self.more_is_better else number <= times


def latency(here, path, operation, size, waiting="poll"):
    return lambda: here.ours(path, "latency", operation, waiting, size)


def rate(here, path, size, window):
    """For 8 bytes: millions of messages per second; for larger messages: GB/s."""
    scale = 1 if size == 8 else size / 1e3
    samples = {"ours": lambda: here.ours(path, "bandwidth", "send", "poll", size, window),
               "ucx": lambda: here.ucx(path, "tag_bw", size, window),
               "libfabric": lambda: here.fabric_rate(path, size, window)}
    return {side: lambda sample=sample: sample() * scale for side, sample in samples.items()}


def shared_memory(here):
    def shm(operation, size, test):
        return {"ours": latency(here, "shm", operation, size), "ucx": lambda: here.ucx("shm", test, size),
                "libfabric": lambda: here.fabric("shm", size), "machine": lambda: here.floor("ring", size)}

    yield Row("shm, 8 B Send", "us", shm("send", 8, "tag_lat"), (1.0, ["ucx"]))
    yield Row("shm, 8 B RDMA Write", "us",
              {**shm("write", 8, "ucp_put_lat"), "our Send": latency(here, "shm", "send", 8)}, (1.2, ["our Send"]))
    yield Row("shm, 4 KiB Send", "us", shm("send", 4096, "tag_lat"), (0.8, ["ucx", "libfabric"]))
    yield Row("shm, 64 KiB Send", "us", shm("send", 65536, "tag_lat"), (0.8, ["ucx", "libfabric"]))
    yield Row("shm, 1 MiB Send", "us", shm("send", 1048576, "tag_lat"), (0.6, ["ucx"]))
    yield Row("shm, 1 MiB RDMA Write", "us", shm("write", 1048576, "tag_lat"), (0.6, ["ucx"]))
    yield Row("shm, 8 B Sends, 64 in flight", "M/s", rate(here, "shm", 8, 64), (1.0, ["ucx"]), more_is_better=True)
    yield Row("shm, 1 MiB Sends, 16 in flight", "GB/s", rate(here, "shm", 1048576, 16), more_is_better=True)
    yield Row("shm, 8 B Send, both asleep", "us",
              {"ours": latency(here, "shm", "send", 8, "block"), "eventfd": lambda: here.floor("eventfd")},
              (1.2, ["eventfd"]))
    yield Row("shm, 8 B RDMA Read, target polls", "us", {"ours": latency(here, "shm", "read", 8)})


def asleep(here):
    """RDMA to a process that sleeps outside DAT, from the post to the completion."""
    def access(operation, size):
        return {"ours": lambda: here.pair("shm", operation, size), "our TCP": lambda: here.pair("tcp", operation, size)}

    for operation, ours, call in (("RDMA Read", "read", "read"), ("RDMA Write", "write", "write"),
                                  ("RDMA Write until it is there", "placed", "write")):
        machine = f"process_vm_{call}v"
        for size, words in ((8, "8 B"), (4096, "4 KiB"), (65536, "64 KiB"), (1048576, "1 MiB")):
            goals = ((1.5, [machine]), (2.5, [])) if size == 8 else ()
            yield Row(f"shm, {words} {operation}, target asleep", "us",
                      {**access(ours, size), machine: lambda call=call, size=size: here.floor(call, size)}, *goals)


def sockets(here):
    def tcp(path, size):
        return {"ours": latency(here, path, "send", size), "ucx": lambda: here.ucx("tcp", "tag_lat", size),
                "libfabric": lambda: here.fabric("tcp", size), "socket": lambda: here.floor("socket", size)}

    def without_crc(size):
        return {**tcp("tcp-no-crc", size), "our CRC": latency(here, "tcp", "send", size)}

    yield Row("TCP, 8 B Send", "us", tcp("tcp", 8), (1.0, ["ucx"]), (1.15, ["socket"]))
    yield Row("TCP, 8 B Send, both asleep", "us",
              {"ours": latency(here, "tcp", "send", 8, "block"), "socket": lambda: here.floor("socket", 8, "block")},
              (0.9, ["socket"]))
    yield Row("TCP, 64 KiB Send, CRC", "us", tcp("tcp", 65536), (0.85, ["libfabric"]))
    yield Row("TCP, 1 MiB Send, CRC", "us", tcp("tcp", 1048576), (0.85, ["libfabric"]))
    yield Row("TCP, 64 KiB Send, no CRC", "us", without_crc(65536), (1.1, ["socket"]), (1.0, ["our CRC"]))
    yield Row("TCP, 1 MiB Send, no CRC", "us", without_crc(1048576), (1.1, ["socket"]), (1.0, ["our CRC"]))
    yield Row("TCP, 8 B Sends, 64 in flight", "M/s", rate(here, "tcp", 8, 64), (9.0, ["ucx"]), more_is_better=True)
    yield Row("TCP, 1 MiB Sends, 16 in flight", "GB/s", rate(here, "tcp", 1048576, 16), more_is_better=True)


def many(here):
    """Many connections, many processes."""
    def token(path):
        return {"ours": lambda: here.ring(path, 8), "2 processes": lambda: here.ring(path, 2),
                "machine": lambda: here.floor("token", 8)}

    def turns(path, count):
        return lambda: here.pair(path, "turns", count)

    def memory(path, what):
        return lambda: here.pair(path, what, min(1024, max(here.connections)))

    for path, title, each_second in (("shm", "shm", 3000), ("tcp", "TCP", 5000)):
        yield Row(f"{title}, connections one by one", "/s",
                  {"ours": lambda path=path: here.ours(path, "connections", None, "block", None)}, (each_second, []),
                  more_is_better=True)
        yield Row(f"{title}, memory of an idle connection", "KiB",
                  {"ours": memory(path, "resident"), "unused": memory(path, "fresh"),
                   "shared by half": memory(path, "proportional")}, (16, []))
        for count in here.connections:
            yield Row(f"{title}, 8 B Send, {count} connections in turn", "us",
                      {"ours": turns(path, count), "1 connection": turns(path, 1)}, (1.3, ["1 connection"]))
        yield Row(f"{title}, token around 8 processes, a hop", "us", token(path), (3.0, ["2 processes"]))


def rows_of(here):
    return [*shared_memory(here), *asleep(here), *sockets(here), *many(here)]
