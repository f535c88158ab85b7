#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Installs the build into a temporary folder and uses it from there as a separate project would.

usage: check.py BUILD SAMPLE.c

Checks the layout (lib, include, bin, etc), builds a C sample against it with pkg-config and with
find_package, and lets the installed program transfer data through the installed provider, found by its
bare name in the installed dat.conf. Then tests what administrators and packagers do: an edited dat.conf, components,
DESTDIR, `uninstall`. Exit status 0: everything passed, 1: not.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from cut import check_cut
from ports import free_port

FILES = """
lib/libdat2.so lib/libdat2.so.2 lib/libdat2.so.2.0.0
lib/libdaplsoft.so.2 lib/libdaplsoft.so.2.0.0
lib/libdaplofa.so.2 lib/libdaplofa.so.2.0.0
lib/pkgconfig/dat2.pc
lib/cmake/udapl/udapl-config.cmake lib/cmake/udapl/udapl-config-version.cmake
lib/cmake/udapl/udapl-targets.cmake
include/dat/dat.hpp include/dat/udat.h include/dat/dat_registry.h include/dat/dat_diagnosis_extensions.h include/dat2/udat.h
bin/datconform bin/dattx bin/datperf bin/datinfo bin/dapltest bin/dtest bin/dtestx bin/dtestcm bin/dtestsrq bin/dattrace etc/dat.conf
share/bash-completion/completions/datinfo share/bash-completion/completions/dattrace-chart
share/man/man1/dapltest.1 share/man/man1/dtest.1 share/man/man1/dtestsrq.1 share/man/man1/dattrace.1
share/man/man1/datinfo.1 share/man/man1/dattx.1 share/man/man1/datperf.1 share/man/man3/dat_ia.3 share/man/man3/dat_ia_openv.3
share/man/man3/dat_last_cause.3 share/man/man5/dat.conf.5 share/man/man7/dat.7
share/doc/udapl/README.md share/doc/udapl/docs/cpp.md share/doc/udapl/examples/echo.cpp share/doc/udapl/examples/common.h
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
    for name in ("lib/libdaplsoft.so", "lib/libdaplofa.so", "lib/libudapl-lttng.so"):
        if os.path.lexists(os.path.join(prefix, name)):
            raise RuntimeError(f"{name} should not be installed: no program links it")


def check_links(prefix):
    """The documents link only to what is installed."""
    dead = []
    for path in glob.glob(os.path.join(prefix, "share/doc/udapl/**/*.md"), recursive=True):
        with open(path, encoding="utf-8") as file:
            links = re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", re.sub(r"```.*?```|`[^`]*`", "", file.read(), flags=re.S))
        dead += [f"{path}: {link}" for link in links if not os.path.exists(os.path.join(os.path.dirname(path), link))]
    if dead:
        raise RuntimeError("dead links:\n" + "\n".join(dead))


def build_with_pkg_config(prefix, sample, work):
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(prefix, "lib/pkgconfig"))
    flags = run("pkg-config", "--define-prefix", "--cflags", "--libs", "dat2", env=environment).split()
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
    """Runs `program` as the server, and lets `client` add two numbers through the installed provider."""
    port = str(free_port())
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


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder) for name in names)


def check_pkg_config_names_the_prefix(prefix):
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(prefix, "lib/pkgconfig"))
    for variable, expected in (("prefix", prefix), ("libdir", f"{prefix}/lib"), ("includedir", f"{prefix}/include")):
        said = run("pkg-config", f"--variable={variable}", "dat2", env=environment)
        if said != expected:
            raise RuntimeError(f"dat2.pc: {variable}={said}, expected {expected}")


def check_edited_conf_stays(build, work):
    prefix = os.path.join(work, "edited")
    conf = os.path.join(prefix, "etc/dat.conf")
    run("cmake", "--install", build, "--prefix", prefix)
    with open(conf, "a", encoding="utf-8") as file:
        file.write("# mine\n")
    run("cmake", "--install", build, "--prefix", prefix)
    with open(conf, encoding="utf-8") as file:
        if "# mine" not in file.read():
            raise RuntimeError("cmake --install has overwritten an edited dat.conf")
    if not os.path.exists(conf + ".new"):
        raise RuntimeError("the dat.conf of this version is not beside the edited one")
    run("cmake", "--build", build, "--target", "uninstall")
    left = files_below(prefix)
    if left != ["etc/dat.conf"]:
        raise RuntimeError(f"uninstall has left {', '.join(left)}")


def forget_manifests(build):
    for manifest in glob.glob(os.path.join(build, "install_manifest*.txt")):
        os.remove(manifest)


def check_uninstall_leaves_the_machine_alone(build, work):
    """Checks that files staged below a DESTDIR are not removed from the machine itself."""
    forget_manifests(build)
    mine = os.path.join(work, "mine/bin/dapltest")
    os.makedirs(os.path.dirname(mine))
    with open(mine, "w", encoding="utf-8") as file:
        file.write("somebody else's\n")
    run("cmake", "--install", build, "--prefix", os.path.join(work, "mine"), "--component", "tools",
        env=dict(os.environ, DESTDIR=os.path.join(work, "stage")))
    if subprocess.run(["cmake", "--build", build, "--target", "uninstall"], capture_output=True,
                      check=False).returncode == 0:
        raise RuntimeError("uninstall without the DESTDIR of the installation has succeeded")
    if not os.path.exists(mine):
        raise RuntimeError("uninstall has removed what was not installed")
    forget_manifests(build)


def check_components(build, work):
    """Checks that every file is in one component and in one package, and that runtime suffices to start a program."""
    whole = os.path.join(work, "whole")
    run("cmake", "--install", build, "--prefix", "/usr", env=dict(os.environ, DESTDIR=whole))
    check_cut(files_below(whole))
    parts = []
    for component in ("runtime", "soft", "verbs", "lttng", "tools", "devel", "doc"):
        folder = os.path.join(work, component)
        run("cmake", "--install", build, "--prefix", "/usr", "--component", component,
            env=dict(os.environ, DESTDIR=folder))
        parts += files_below(folder) if os.path.isdir(folder) else []
    if sorted(parts) != files_below(whole):
        difference = set(parts) ^ set(files_below(whole))
        raise RuntimeError(f"in no component, or in two: {', '.join(sorted(difference)) or 'duplicates'}")
    runtime = files_below(os.path.join(work, "runtime"))
    if "usr/lib/libdat2.so.2" not in runtime or any(f.startswith("usr/include") for f in runtime):
        raise RuntimeError(f"the component runtime has {', '.join(runtime)}")


def main():
    build, sample = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        first = os.path.join(work, "prefix")
        run("cmake", "--install", build, "--prefix", first)
        check_pkg_config_names_the_prefix(first)
        prefix = os.path.join(work, "moved")  # nothing may depend on the location
        shutil.move(first, prefix)
        check_layout(prefix)
        check_links(prefix)
        environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        environment["DAT_OVERRIDE"] = os.path.join(prefix, "etc/dat.conf")
        server = build_with_pkg_config(prefix, sample, work)
        client = build_with_cmake(prefix, sample, work)
        add(server, client, environment)
        run(os.path.join(prefix, "bin/dattx"), "--help", env=environment)
        run(os.path.join(prefix, "bin/datperf"), "--help", env=environment)
        datinfo = os.path.join(prefix, "bin/datinfo")
        run(datinfo, "list", "soft", env=environment)
        run(datinfo, "check", env=environment)
        check_edited_conf_stays(build, work)
        check_uninstall_leaves_the_machine_alone(build, work)
        check_components(build, work)
        forget_manifests(build)
    print(f"{len(FILES)} files installed, two programs built against them, 40 + 2 = 42")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"FAILED: {error}")
        sys.exit(1)
