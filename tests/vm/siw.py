# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Compiles the module of the kernel's soft-iWARP (siw), which Debian's kernel packages omit, for one of these packages.

The sources and headers are those of the version of the kernel package, except that a constant becomes a parameter. The
build tools are the archive's present ones: it keeps no others, and may have newer ones before it has a newer kernel.
All are unpacked side by side, nothing is installed, and only the module is kept.
"""

import os
import re
import shutil
import subprocess

FOLDER = "drivers/infiniband/sw/siw"
# The only change: MPA's peer-to-peer mode (RFC 6581), a constant in siw, becomes a module parameter, off by default as
# before. RNICs set up connections in that mode, in which the passive side is connected only when the active side can
# receive. Without it, siw ends a connection if the passive side sends first: siw_recv_mpa_rr() of the active side
# treats data that arrive together with the reply as a violation of the protocol.
CHANGES = (("siw.h", "extern const bool peer_to_peer;", "extern bool peer_to_peer;"),
           ("siw_main.c", "const bool peer_to_peer;", "bool peer_to_peer;\nmodule_param(peer_to_peer, bool, 0644);"))
FLAVOUR = "siw-peer-to-peer"  # distinguishes this module in a cache from one that was built differently
PROGRAMS = {"make": "make", "xz": "xz-utils", "tar": "tar"}


def source_version(image):
    """The version of the Debian source package of a kernel, e.g. 6.1.192-2, according to its image."""
    with open(image, "rb") as file:
        file.seek(0x20E)  # "kernel_version" of the x86 boot protocol
        file.seek(0x200 + int.from_bytes(file.read(2), "little"))
        found = re.search(rb"Debian (\S+)", file.read(256).split(b"\0")[0])
    return found.group(1).decode() if found else None


def unpack_source(package, version, folder):
    """Unpacks one folder of an archive that is inside another archive, both read as streams."""
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
    """Compiles siw.ko in `work`. Returns its path. fetch(package, version) -> file, of the present version
    if that is None; run(*command): machine.checked."""
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            raise unavailable(f"{program} is missing (package {package})")
    version = source_version(kernel.image)
    if version is None:
        raise unavailable(f"the image of kernel {kernel.version} does not name its source package")
    series = ".".join(version.split(".")[:2])
    abi = kernel.version.removesuffix("-amd64")
    tree = os.path.join(work, "tree")
    for package in (f"linux-headers-{kernel.version}", f"linux-headers-{abi}-common"):
        run("dpkg", "-x", fetch(package, version), tree)
    run("dpkg", "-x", fetch(f"linux-kbuild-{series}", None), tree)
    headers = os.path.join(tree, "usr/src", f"linux-headers-{kernel.version}")
    compiler = re.search(r"^CONFIG_CC_VERSION_TEXT=\"(\S+)", open(os.path.join(headers, ".config")).read(), re.M).group(1)
    if not shutil.which(compiler):
        raise unavailable(f"{compiler}, which the kernel was built with, is missing")
    # The original one names the folder in which the package would have been installed.
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
