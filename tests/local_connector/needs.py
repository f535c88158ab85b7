#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Fails if the library named on the command line needs librdmacm, or any symbol of it."""

import subprocess
import sys

shown = subprocess.run(["readelf", "--wide", "--dynamic", "--dyn-syms", sys.argv[1]], check=True, capture_output=True,
                       text=True).stdout
found = [line.strip() for line in shown.splitlines() if "rdmacm" in line or " rdma_" in line]
print("\n".join(found) or "nothing of librdmacm is needed")
sys.exit(1 if found or "libibverbs" not in shown else 0)
