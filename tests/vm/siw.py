# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The kernel's soft-iWARP (siw), which Debian's kernel packages leave out: its module, compiled for one of them.

The sources are those of the kernel package's own version, a constant of which becomes a parameter; headers and build
tools come from the packages that belong to it. All are unpacked beside each other, nothing is installed, and only the
module is kept.
"""

import os
import re
import shutil
import subprocess

FOLDER = "drivers/infiniband/sw/siw"
# The one change: MPA's peer-to-peer mode (RFC 6581) becomes a parameter that the module's user sets, off as before. RNICs
# set up connections in that mode, in which the passive side is connected when the active one can receive. siw has it as
# a constant, and without it ends a connection of which the passive side sends first: siw_recv_mpa_rr() of the active
# side takes data that come together with the reply for a violation of the protocol.
CHANGES = (("siw.h", "extern const bool peer_to_peer;", "extern bool peer_to_peer;"),
           ("siw_main.c", "const bool peer_to_peer;", "bool peer_to_peer;\nmodule_param(peer_to_peer, bool, 0644);"))
FLAVOUR = "siw-peer-to-peer"  # tells this module from one built otherwise, in a cache
PROGRAMS = {"make": "make", "xz": "xz-utils", "tar": "tar"}


def source_version(image):
    """The version of the Debian source package that a kernel was built from, e.g. 6.1.192-2, which its image tells."""
    with open(image, "rb") as file:
        file.seek(0x20E)  # "kernel_version" of the x86 boot protocol
        file.seek(0x200 + int.from_bytes(file.read(2), "little"))
        found = re.search(rb"Debian (\S+)", file.read(256).split(b"\0")[0])
    return found.group(1).decode() if found else None


def unpack_source(package, version, folder):
    """Two archives, one in the other, of which one folder is wanted: read as a stream."""
    archive = f"./usr/src/linux-source-{version}.tar.xz"
    outer = subprocess.Popen(["dpkg", "--fsys-tarfile", package], stdout=subprocess.PIPE)
    inner = subprocess.Popen(["tar", "-xO", archive], stdin=outer.stdout, stdout=subprocess.PIPE)
    outer.stdout.close()
    member = f"linux-source-{version}/{FOLDER}"
    done = subprocess.run(["tar", "-xJ", "--strip-components", str(member.count("/") + 1), "-C", folder, member],
                          stdin=inner.stdout, capture_output=True, text=True)
    inner.stdout.close()
    for process in (inner, outer):
        process.wait()
    return done.stderr.strip() if done.returncode else ""


def change_source(folder, unavailable):
    for name, before, after in CHANGES:
        path = os.path.join(folder, name)
        with open(path) as file:
            text = file.read()
        if text.count(before) != 1:
            raise unavailable(f"siw's {name} has no line \"{before}\" any more")
        with open(path, "w") as file:
            file.write(text.replace(before, after))


def build(kernel, work, fetch, run, unavailable):
    """Compiles siw.ko in the folder `work`; its path. fetch(package, version) -> file; run(*command) as machine.checked."""
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            raise unavailable(f"{program} is missing (package {package})")
    version = source_version(kernel.image)
    if version is None:
        raise unavailable(f"the image of kernel {kernel.version} does not name its source package")
    series = ".".join(version.split(".")[:2])
    abi = kernel.version.removesuffix("-amd64")
    tree = os.path.join(work, "tree")
    for package in (f"linux-headers-{kernel.version}", f"linux-headers-{abi}-common", f"linux-kbuild-{series}"):
        run("dpkg", "-x", fetch(package, version), tree)
    headers = os.path.join(tree, "usr/src", f"linux-headers-{kernel.version}")
    compiler = re.search(r"^CONFIG_CC_VERSION_TEXT=\"(\S+)", open(os.path.join(headers, ".config")).read(), re.M).group(1)
    if not shutil.which(compiler):
        raise unavailable(f"{compiler}, which the kernel was built with, is missing")
    # It names the place where the package would have been installed.
    with open(os.path.join(headers, "Makefile"), "w") as file:
        file.write(f"include {tree}/usr/src/linux-headers-{abi}-common/Makefile\n")
    module = os.path.join(work, "siw")
    os.mkdir(module)
    failed = unpack_source(fetch(f"linux-source-{series}", version), series, module)
    if failed:
        raise unavailable(f"linux-source-{series}: {failed}")
    change_source(module, unavailable)
    run("make", "-s", f"-j{os.cpu_count()}", "-C", headers, f"M={module}", "CONFIG_RDMA_SIW=m", "modules")
    result = os.path.join(module, "siw.ko")
    run("strip", "--strip-debug", result)
    return result
