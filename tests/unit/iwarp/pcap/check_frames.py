#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Lets tshark decode every frame the iWARP encoder can produce and compares what it found.

usage: check_frames.py WRITER TSHARK FOLDER

WRITER makes the capture and the expectations in FOLDER. Fails on a malformed packet, a bad CRC, or a
number of frames, good CRCs or opcodes that differs from what was sent. Then it changes one payload byte,
which tshark must notice: that checks the check itself.

Limitations of tshark 4.0: opcodes 8 and 9 have no name (but are shown by number), Revision 2 and the S
bit cause a warning, and the enhanced words count as private data.
"""

import collections
import json
import os
import re
import subprocess
import sys

# Protocols that tshark guesses a Send to carry; it would show a short Send as a malformed packet of these.
GUESSES = ("rpcordma", "smb_direct", "iser", "nvme-rdma")
EXPERT_ERROR = 8388608


def tshark(program, capture, *arguments):
    command = [program, "-n", "-r", capture]
    for protocol in GUESSES:
        command += ["--disable-protocol", protocol]
    environment = dict(os.environ, WIRESHARK_CONFIG_DIR=os.path.dirname(capture), LC_ALL="C.UTF-8")
    result = subprocess.run(command + list(arguments), check=False, capture_output=True, text=True,
                            timeout=100, env=environment)
    if result.returncode != 0:
        sys.exit(f"tshark failed: {result.stderr}")
    return result.stdout


def found_in(program, capture):
    found = {}
    text = tshark(program, capture, "-V")
    found["good_crcs"] = len(re.findall(r"\(Good CRC32\)", text))
    found["bad_crcs"] = len(re.findall(r"\(Bad CRC32", text))
    opcodes, fpdus = collections.Counter(), 0
    for line in tshark(program, capture, "-T", "fields", "-e", "iwarp_rdma.opcode",
                       "-e", "iwarp_mpa.ulpdulength").splitlines():
        columns = line.split("\t")
        opcodes.update(str(int(value, 0)) for value in columns[0].split(",") if value)
        fpdus += sum(1 for value in columns[1].split(",") if value)
    found["opcodes"], found["fpdus"] = dict(opcodes), fpdus
    for name, condition in (("requests", "iwarp_mpa.req"), ("replies", "iwarp_mpa.rep"),
                            ("malformed", "_ws.malformed"), ("bad_lengths", "iwarp_mpa.bad_length"),
                            ("errors", f"_ws.expert.severity == {EXPERT_ERROR}")):
        found[name] = len(tshark(program, capture, "-Y", condition).splitlines())
    return found


def main():
    writer, program, folder = sys.argv[1:]
    capture, expectations = os.path.join(folder, "frames.pcap"), os.path.join(folder, "frames.json")
    subprocess.run([writer, capture, expectations], check=True, timeout=60)
    with open(expectations, encoding="utf-8") as file:
        expected = json.load(file)
    expected.update(bad_crcs=0, malformed=0, bad_lengths=0, errors=0)

    found = found_in(program, capture)
    failures = [f"{key}: sent {expected[key]}, tshark found {found[key]}"
                for key in expected if expected[key] != found[key]]
    for opcode in range(12):
        if str(opcode) not in expected["opcodes"]:
            failures.append(f"opcode {opcode} was never sent")

    damaged = os.path.join(folder, "damaged.pcap")
    with open(capture, "rb") as file:
        data = file.read()
    with open(damaged, "wb") as file:
        file.write(data.replace(b"hello", b"jello", 1))
    if found_in(program, damaged)["bad_crcs"] != 1:
        failures.append("a changed payload byte went unnoticed")

    for failure in failures:
        print(failure)
    if not failures:
        print(f"{found['fpdus']} FPDUs, {found['good_crcs']} good CRCs, opcodes {found['opcodes']}")
    sys.exit(1 if failures else 0)


main()
