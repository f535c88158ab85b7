#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs a command in a virtual machine with a kernel RDMA stack (soft-RoCE or soft-iWARP), on the tree as it is built.

The machine sees this one's files, read-only, with a layer in memory above: nothing that the command writes
comes back except what lies below --share. It runs in the current folder, as root; a dat.conf made for it has
`ofa-v2-rxe0`, or with --siw `ofa-v2-siw0`; libraries come from --build. Exit status: the command's; 124 not finished in time; 125 the
machine ended without telling; 77 no machine can be had here (says why).

  script/vm rping -V          script/vm --timeout 300 -- dtest -P ofa-v2-rxe0
  script/vm bash -c 'ibv_devinfo; rdma link'
"""

import argparse
import os
import shlex
import shutil
import sys

import machine


def environment(options):
    result = {"UDAPL_VM": "1", "UDAPL_VM_HOSTS": str(options.hosts), "UDAPL_VM_DEVICE": options.device,
              "UDAPL_BUILD": os.path.abspath(options.build)}
    if not options.packaged:
        result["LD_LIBRARY_PATH"] = os.path.join(os.path.abspath(options.build), "lib")
    result["DAT_OVERRIDE"] = os.path.join(machine.FOLDER, "dat.conf")
    for setting in options.env:
        name, _, value = setting.partition("=")
        result[name] = value
    return result


def main():
    parser = argparse.ArgumentParser(prog="script/vm", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(machine.REPOSITORY, "build", "release"), metavar="DIR",
                        help="build tree whose lib/ is used (default: build/release)")
    parser.add_argument("--packaged", action="store_true", help="the distribution's libraries instead of ours")
    parser.add_argument("--hosts", type=int, choices=(1, 2), default=1,
                        help="2: rxe0 is one host, rxe1 (192.0.2.2) the other, and a wire is between them")
    parser.add_argument("--siw", dest="device", action="store_const", const="siw", default="rxe",
                        help="soft-iWARP instead of soft-RoCE: siw0 for rxe0; compiles the kernel's module the first time")
    parser.add_argument("--share", action="append", default=[], metavar="DIR",
                        help="folder that the command may write; may be repeated")
    parser.add_argument("--fresh", action="append", default=[], metavar="DIR", help="as --share, emptied before")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="from power-on (default: 120)")
    parser.add_argument("--memory", type=int, default=2048, metavar="MIB")
    parser.add_argument("--console", action="store_true", help="show the machine's console on standard error")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="a program and its arguments")
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("a command is needed")
    for folder in options.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    shares = [os.path.abspath(folder) for folder in options.share + options.fresh]
    for folder in shares:
        os.makedirs(folder, exist_ok=True)
    vm = machine.Machine(hosts=options.hosts, device=options.device, memory=options.memory, shares=shares,
                         environment=environment(options), folder=os.getcwd())
    try:
        return vm.run("exec " + shlex.join(command), options.timeout, console=options.console)
    except machine.Unavailable as reason:
        machine.say(f"SKIPPED: {reason}")
        return 77


if __name__ == "__main__":
    sys.exit(main())
