# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Where a case runs: which hosts there are, and which libraries each of its programs gets."""

import os
import re
import subprocess
from dataclasses import dataclass

BUILT = "built"
PACKAGED = "packaged"
SERVER, CLIENT = "server", "client"


class Failure(Exception):
    """A case that failed, with what is to be said about it."""


def run_quietly(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: {done.stderr.strip()}")


def shown(command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def packaged_library(name):
    """The distribution's file of that SONAME."""
    found = re.search(rf"^\s*{re.escape(name)} .* => (\S+)$", shown(["/sbin/ldconfig", "-p"]), re.MULTILINE)
    if not found:
        raise Failure(f"{name} is not installed")
    return found.group(1)


@dataclass(frozen=True)
class Stack:
    """The registry (libdat2.so.2) and the provider of one program: BUILT or PACKAGED each."""
    registry: str = BUILT
    provider: str = BUILT

    @classmethod
    def parse(cls, text):
        """"built", "packaged", or REGISTRY/PROVIDER."""
        registry, _, provider = text.partition("/")
        stack = cls(registry, provider or registry)
        if not {stack.registry, stack.provider} <= {BUILT, PACKAGED}:
            raise ValueError(text)
        return stack

    def environment(self, build):
        return {"LD_LIBRARY_PATH": os.path.join(build, "lib")} if self.registry == BUILT else {}


class Place:
    """What the places have in common; a context manager. patience: factor on the time limits of the cases."""
    patience = 1
    own = ()  # the roles whose programs are those built here

    def __init__(self, build, stacks):
        self.build = build
        self.stacks = stacks  # role -> Stack

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def environment(self, role):
        return self.stacks[role].environment(self.build)

    def listens(self, port):
        """Does the server listen there with a TCP socket of its own?"""
        return shown(self.command(SERVER, ["ss", "-Hltn", f"sport = :{port}"])).strip()

    def offers(self, conn_qual):
        """Does the server's provider listen on that conn qual?"""
        return self.listens(conn_qual)


class Namespaces(Place):
    """The software RNIC in fresh network namespaces: one, on its loopback interface, or two with a veth pair."""
    ia = {SERVER: "soft", CLIENT: "soft"}

    def __init__(self, build, stacks, two):
        super().__init__(build, stacks)
        tag = f"udapl{os.getpid()}"
        self.names = [f"{tag}-{index}" for index in range(2 if two else 1)]
        self.two = two
        self.device = "veth0" if two else "lo"
        self.server_address = "192.0.2.1" if two else "127.0.0.1"

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

    def command(self, role, argv):
        name = self.names[1 if role == CLIENT and self.two else 0]
        return ["ip", "netns", "exec", name, *argv]

    def conf(self, role):
        library = os.path.join(self.build, "lib", "libdaplsoft.so.2")
        return f'soft u2.0 nonthreadsafe default {library} dapl.2.0 "{self.device} 0" ""\n'


class Kernel(Place):
    """The kernel's RDMA stack in the virtual machine of tests/vm (see its guest/network): one host or two."""
    patience = 3  # emulated processors
    server_address = "192.0.2.1"

    def __init__(self, build, stacks, two):
        super().__init__(build, stacks)
        self.name = "ofa-v2-" + os.environ.get("UDAPL_VM_DEVICE", "rxe")
        self.ia = {SERVER: self.name + "0", CLIENT: self.name + ("1" if two else "0")}

    def command(self, _, argv):
        return argv

    def offers(self, conn_qual):
        return re.search(rf"state LISTEN\b.*src-addr \S+:{conn_qual}\s", shown(["rdma", "resource", "show", "cm_id"]))

    def conf(self, role):
        """As sites have it: a bare name, which leads to the provider that comes with the registry."""
        stack = self.stacks[role]
        library = "libdaplofa.so.2"
        if stack.provider != stack.registry:
            library = (packaged_library(library) if stack.provider == PACKAGED
                       else os.path.join(self.build, "lib", library))
        return "".join(f'{self.name}{index} u2.0 nonthreadsafe default {library} dapl.2.0 "d{index} 0" ""\n'
                       for index in (0, 1))


def make(setup, build, server, client):
    """The place that a --setup of run.py names."""
    stacks = {SERVER: server, CLIENT: client}
    if setup == "packaged-registry":
        stacks = dict.fromkeys(stacks, Stack(PACKAGED, BUILT))
    if setup in ("vm", "vm-two-hosts"):
        return Kernel(build, stacks, setup == "vm-two-hosts")
    return Namespaces(build, stacks, setup == "netns")


SETUPS = ("loopback", "netns", "packaged-registry", "vm", "vm-two-hosts")
