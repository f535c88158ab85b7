#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Installs the build into a folder of its own and uses it from there as a stranger would.

usage: check.py BUILD SAMPLE.c

Checks the layout (lib, include, bin, etc), builds a C sample against it with pkg-config and with
find_package, and lets the installed program transfer data through the installed provider, found by its
bare name in the installed dat.conf. Exit status 0: all well, 1: not.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile

FILES = """
lib/libdat2.so lib/libdat2.so.2 lib/libdat2.so.2.0.0
lib/libdaplsoft.so.2 lib/libdaplsoft.so.2.0.0
lib/libdaplofa.so.2 lib/libdaplofa.so.2.0.0
lib/pkgconfig/dat2.pc
lib/cmake/udapl/udapl-config.cmake lib/cmake/udapl/udapl-config-version.cmake
lib/cmake/udapl/udapl-targets.cmake
include/dat/udat.h include/dat/dat_registry.h include/dat/dat_diagnosis_extensions.h include/dat2/udat.h
bin/datconform bin/dattx bin/datinfo bin/dapltest bin/dattrace etc/dat.conf
share/man/man1/dapltest.1 share/man/man1/dattrace.1
share/man/man1/datinfo.1 share/man/man1/dattx.1 share/man/man3/dat_ia.3 share/man/man3/dat_ia_openv.3
share/man/man3/dat_last_cause.3 share/man/man5/dat.conf.5 share/man/man7/dat.7
""".split()

CONSUMER = """
cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(udapl 2.0 REQUIRED)
add_executable(consumer {sample})
target_link_libraries(consumer PRIVATE udapl::dat2)
"""


def run(*words, **options):
    result = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=120, **options)
    if result.returncode != 0:
        print(result.stdout)
        raise RuntimeError(f"{' '.join(words)} ended with {result.returncode}")
    return result.stdout.strip()


def check_layout(prefix):
    missing = [f for f in FILES if not os.path.exists(os.path.join(prefix, f))]
    if missing:
        raise RuntimeError(f"not installed: {', '.join(missing)}")
    for name in ("lib/libdaplsoft.so",):
        if os.path.lexists(os.path.join(prefix, name)):
            raise RuntimeError(f"{name} should not be installed: nobody links a provider")


def build_with_pkg_config(prefix, sample, work):
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(prefix, "lib/pkgconfig"))
    flags = run("pkg-config", "--cflags", "--libs", "dat2", env=environment).split()
    program = os.path.join(work, "with-pkg-config")
    run("cc", sample, "-o", program, *flags, f"-Wl,-rpath,{prefix}/lib")
    return program


def build_with_cmake(prefix, sample, work):
    source = os.path.join(work, "consumer")
    os.mkdir(source)
    with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="utf-8") as file:
        file.write(CONSUMER.format(sample=sample))
    build = os.path.join(source, "build")
    run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    return os.path.join(build, "consumer")


def add(program, client, environment):
    """Lets `program` serve and `client` add two numbers through the installed provider."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    server = subprocess.Popen([program, "--server", "--port", port], env=environment,
                              stdout=subprocess.PIPE, text=True)
    try:
        if not server.stdout.readline():
            raise RuntimeError("the server did not start")
        answer = run(client, "--port", port, "127.0.0.1", "40", "2", env=environment)
        if answer != "42":
            raise RuntimeError(f"40 + 2 = {answer}")
        if server.wait(60) != 0:
            raise RuntimeError(f"the server ended with {server.returncode}")
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def main():
    build, sample = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        first = os.path.join(work, "prefix")
        run("cmake", "--install", build, "--prefix", first)
        prefix = os.path.join(work, "moved")  # nothing may depend on the place
        shutil.move(first, prefix)
        check_layout(prefix)
        environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        environment["DAT_OVERRIDE"] = os.path.join(prefix, "etc/dat.conf")
        server = build_with_pkg_config(prefix, sample, work)
        client = build_with_cmake(prefix, sample, work)
        add(server, client, environment)
        run(os.path.join(prefix, "bin/dattx"), "--help", env=environment)
        datinfo = os.path.join(prefix, "bin/datinfo")
        run(datinfo, "list", "soft", env=environment)
        run(datinfo, "check", env=environment)
    print(f"{len(FILES)} files installed, two programs built against them, 40 + 2 = 42")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"FAILED: {error}")
        sys.exit(1)
