#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Runs the programs of this folder.

  run.py --list
  run.py --bin DIR [--ia NAME] [--threads MODE] [--repeat N] [--load N] [--without FEATURE]... CASE...

CASE is a name or a pattern (mpi.*). MODE is nonthreadsafe (default), threadsafe or both: which entry of dat.conf the
programs open. --repeat runs each case N times in a row; --load keeps N processes busy meanwhile. --without leaves out
the cases that need what an OpenFabrics provider does not do (cases.FEATURE below). Exit status 0 only if all passed.
"""

import argparse
import fnmatch
import os
import signal
import subprocess
import sys
import time

# name: (program, arguments, features)
CASES = {
    "mpi.poll.2": ("mw_mpi", "-n 2", ""),
    "mpi.poll.4": ("mw_mpi", "-n 4 -a", ""),
    "mpi.poll.8": ("mw_mpi", "-n 8 -i 1", ""),
    "mpi.poll.read.4": ("mw_mpi", "-n 4 -R", ""),
    "mpi.poll.split.3": ("mw_mpi", "-n 3 -s -p", ""),
    "mpi.block.2": ("mw_mpi", "-n 2 -b", ""),
    "mpi.block.4": ("mw_mpi", "-n 4 -b -a -g", ""),
    "mpi.block.8": ("mw_mpi", "-n 8 -b -a", ""),
    "mpi.block.split.4": ("mw_mpi", "-n 4 -b -s -R -p", ""),
    "btl.4": ("mw_btl", "-n 4", ""),
    "btl.8": ("mw_btl", "-n 8", ""),
    "btl.messages.4": ("mw_btl", "-n 4 -s", ""),
    "btl.messages.8": ("mw_btl", "-n 8 -s", ""),
    "db": ("mw_db", "", ""),
    "db.many": ("mw_db", "-c 2 -s 16 -r 40", ""),
    "db.srq": ("mw_db", "-S", ""),
    "db.killed_clients": ("mw_db", "-k 5", ""),
    "db.srq.killed_clients": ("mw_db", "-S -k 5", ""),
    "db.killed_server": ("mw_db", "-K", ""),
    "rpc.wait": ("mw_rpc", "-e wait", ""),
    "rpc.agent": ("mw_rpc", "-e agent", "agents"),
    "rpc.inline": ("mw_rpc", "-e inline", "agents"),
    "lazy.poll": ("mw_lazy", "-n 4", ""),
    "lazy.block": ("mw_lazy", "-n 8 -b -c 3", ""),
    "lazy.free": ("mw_lazy", "-n 5 -b -f -c 2", ""),
    "ledger": ("mw_ledger", "", ""),
    "ledger.segments": ("mw_ledger", "-f 1 -g 3", ""),
    "ledger.looks_at_queues": ("mw_ledger", "-f 1 -i", ""),
    "storage": ("mw_storage", "", ""),
    "storage.no_windows": ("mw_storage", "-m", ""),
    "target": ("mw_target", "", "watermarks invalidate"),
    "target.many": ("mw_target", "-c 8 -s 6", "watermarks invalidate"),
    "target.no_windows": ("mw_target", "-m", "watermarks"),
    "pingpong": ("mw_pingpong", "-c memory", ""),
    "pingpong.same_memory": ("mw_pingpong", "-c memory -s", ""),
    "pingpong.queue": ("mw_pingpong", "-c queue", ""),
    "pingpong.wait": ("mw_pingpong", "-c wait -s", ""),
    "pingpong.cno": ("mw_pingpong", "-c cno", ""),
    "pingpong.write": ("mw_pingpong", "-r -c memory", ""),
    "pingpong.write.wait": ("mw_pingpong", "-r -c wait", ""),
    "copy": ("mw_copy", "", "resize"),
    "copy.cached": ("mw_copy", "-c -x", ""),
}


def stop(process):
    """Kills a program and all processes that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run(name, options, mode):
    """Runs a case. Returns None, or why it failed."""
    program, arguments, _ = CASES[name]
    command = [os.path.join(options.bin, program), "-D", options.ia, *arguments.split(), "-w", str(options.timeout)]
    if mode == "threadsafe":
        command.append("-T")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=options.timeout + 20)
    except subprocess.TimeoutExpired:
        stop(process)
        output, _ = process.communicate()
        return " ".join(command) + "\ndid not end\n" + output
    finally:
        stop(process)  # also processes that a failed program left behind
    if options.verbose:
        print(output, end="")
    return None if process.returncode == 0 else " ".join(command) + "\n" + output


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--bin", default=".")
    parser.add_argument("--ia", default="soft")
    parser.add_argument("--threads", choices=("nonthreadsafe", "threadsafe", "both"), default="nonthreadsafe")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--timeout", type=int, default=120, help="seconds for each run")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("case", nargs="*", default=["*"])
    options = parser.parse_args()
    names = [name for name, (_, _, features) in CASES.items()
             if any(fnmatch.fnmatchcase(name, pattern) for pattern in options.case)
             and not set(features.split()) & set(options.without)]
    if options.list:
        print("\n".join(names))
        return 0
    if not names:
        parser.error("no such case")
    modes = ("nonthreadsafe", "threadsafe") if options.threads == "both" else (options.threads,)
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.load)]
    failures = runs = 0
    try:
        for name in names:
            for mode in modes:
                begin, bad = time.monotonic(), 0
                for _ in range(options.repeat):
                    why = run(name, options, mode)
                    runs += 1
                    if why is not None:
                        bad += 1
                        print("\n".join(why.splitlines()[:1] + why.splitlines()[1:][-40:]), flush=True)
                failures += bad
                print(f"{'FAILED' if bad else 'passed'}: {name}, {mode}: {options.repeat - bad} of {options.repeat}, "
                      f"{time.monotonic() - begin:.1f} s", flush=True)
    finally:
        for process in load:
            process.kill()
    print(f"{runs - failures} of {runs} runs passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
