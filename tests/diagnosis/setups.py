#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Ways of breaking a setup. Each case compares, word for word, the text that an application gets from
dat_last_cause() and the one that datinfo prints.

usage: setups.py DATINFO OPEN_IA LIBDAPLSOFT STUB_FOLDER DAT_CONF
"""

import os
import re
import shutil
import socket
import subprocess

from support import differences, entry, main

CASES = []
ROOT = os.geteuid() == 0
SANITIZED = bool(os.environ.get("UDAPL_SANITIZED"))
# root without capabilities is refused like any other user.
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if ROOT else ()

NOT_FOUND = "DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED"


def case(function):
    CASES.append(function)
    return function


def told(world, cause, person, name="ia", words=(), before=(), options=()):
    """Compares the application's text, and datinfo's below its table; both must fail.

    `cause` is the text below the headline, or the whole text if it begins with "=". If `person` is None, datinfo
    is not run.
    """
    status, out, err = world.run(world.open_ia, name, *words, before=before)
    complaints = [] if status == 1 else [f"open_ia ended with {status}"]
    if not cause.startswith("="):
        headline, _, rest = out.partition("\n")
        if not headline.startswith(f'cannot open "{name}" (version 2.0, nonthreadsafe): DAT_'):
            complaints.append(f"headline: {headline}")
        out = rest
    complaints += differences(cause.lstrip("=") + "\n", out) + differences("", err)
    if person is None:
        return complaints
    status, out, err = world.run(world.datinfo, "list", *options, name, before=before)
    if status != 1:
        complaints.append(f"datinfo ended with {status}")
    if out.count("  no: DAT_") != 1:
        complaints.append("datinfo does not say once that it does not open")
    seen = out.split("\n\n", 2)[2] if out.count("\n\n") >= 2 else out
    return complaints + differences(f"{name}\n{person}\n", seen) + differences("", err)


def entry_told(world, reason, advice, device, library, **more):
    """Like told(), for an entry in line 1 that fails with one reason and possibly advice."""
    tail = f"\n  try: {advice}" if advice else ""
    person = reason.replace(f' did not open "{device}":', " did not open it:")
    return told(world, f"  {world.conf_path} line 1: {reason}{tail}", f"  {person}{tail}", **more)


@case
def no_file(world):
    advice = ("  try: `datinfo generate > FILE`, which writes entries for this machine, and "
              "DAT_OVERRIDE=FILE in the program's environment")
    text = f"  {world.conf_path}: No such file or directory (ENOENT)\n  no configuration file was read\n{advice}"
    return told(world, text, text)


@case
def story_in_the_chosen_sink(world):
    """The library itself reports the cause as well, to the trace sink and nowhere else."""
    log = world.path("log")
    status, _, err = world.run(world.open_ia, "ia",
                               environment={"DAT_TRACE_LEVEL": "1", "DAT_TRACE_SINK": f"file:{log}"})
    with open(log, encoding="utf-8") as file:
        lines = [re.sub(r"^\d\d:\d\d:\d\d\.\d{6} \d+/\d+ ", "", line) for line in file]
    return ([] if status == 1 else [f"ended with {status}"]) + differences("", err) + differences(
        f'dat error - ia_open: cannot open "ia" (version 2.0, nonthreadsafe): {NOT_FOUND}\n'
        f"dat error - ia_open:   {world.conf_path}: No such file or directory (ENOENT)\n"
        "dat error - ia_open:   no configuration file was read\n", "".join(lines))


@case
def unreadable_file(world):
    world.conf(entry("ia", world.soft, "lo 0"), mode=0)
    text = (f"  {world.conf_path}: Permission denied (EACCES)\n  no configuration file was read\n"
            f'  try: permission to read "{world.conf_path}" and to enter its folders for this user')
    return told(world, text, text, before=UNPRIVILEGED)


@case
def folder_instead_of_a_file(world):
    os.mkdir(world.conf_path)
    text = (f"  {world.conf_path}: Is a directory (EISDIR)\n  no configuration file was read\n"
            f'  try: a file, "{world.conf_path}" is a folder')
    return told(world, text, text)


@case
def too_large_a_file(world):
    line = entry("ia", world.soft, "lo 0") + "\n"
    world.write("dat.conf", line * ((17 << 20) // len(line)))
    text = (f"  {world.conf_path}: larger than 16 MiB\n  no configuration file was read\n"
            "  try: `datinfo generate > FILE`, which writes entries for this machine, and "
            "DAT_OVERRIDE=FILE in the program's environment")
    return told(world, text, text)


@case
def bad_line(world):
    world.conf(entry("other", world.soft, "lo 0"), "ia u2.0 nonthreadsafe default")
    text = ("  line 2: only 4 of 8 fields, lib_path is missing\n"
            f"  {world.conf_path}: entries read: 1, malformed lines skipped: 1\n"
            "  try: to correct that line of the file")
    return told(world, text, text)


@case
def quote_that_does_not_end(world):
    world.conf('ia u2.0 nonthreadsafe default libdaplsoft.so.2 test.1.0 "lo 0 ')
    status, out, _ = world.run(world.datinfo, "check")
    expected = (f"{world.conf_path}: error: no usable entry. try: datinfo generate\n"
                f"{world.conf_path}:1: error: quoted string does not end on the line\n"
                f"{world.conf_path}: entries: 0, errors: 2\n")
    return differences(expected, out) + ([] if status == 1 else [f"datinfo ended with {status}"])


@case
def wrong_thread_safety_word(world):
    world.conf(entry("ia", world.soft, "lo 0", safety="threadsave"))
    line = 'line 1: threadsafety is "threadsave", expected threadsafe or nonthreadsafe'
    text = (f"  {line}\n  {world.conf_path}: entries read: 0, malformed lines skipped: 1\n"
            "  try: to correct that line of the file")
    return told(world, text, text)


@case
def only_for_other_programs(world):
    world.conf(entry("ia", world.soft, "lo 0", safety="threadsafe"))
    text = (f"  there is only version 2.0 threadsafe\n  {world.conf_path}: entries read: 1\n"
            "  try: an entry with u2.0 and nonthreadsafe, or another version or thread safety in the call")
    return told(world, text, None)


@case
def wrong_api_version(world):
    world.conf(entry("ia", world.soft, "lo 0", version="u1.2"))
    text = (f"  there is only version 1.2 nonthreadsafe\n  {world.conf_path}: entries read: 1\n"
            "  try: an entry with u2.0 and nonthreadsafe, or another version or thread safety in the call")
    complaints = told(world, text, None)
    _, out, _ = world.run(world.datinfo, "check")
    return complaints + differences(
        f"{world.conf_path}:1: remark: version 1.2: programs ask for 2.0 unless they say otherwise\n"
        f"{world.conf_path}: entries: 1, errors: 0\n", out)


@case
def mistyped_name(world):
    world.conf(entry("ofa-v2-ib0", world.soft, "lo 0"))
    text = (f'  did you mean "ofa-v2-ib0"?\n  {world.conf_path}: entries read: 1\n'
            "  try: a name that the file has; `datinfo list` shows them")
    return told(world, text, text, name="ofa-v2-ib1")


@case
def missing_library(world):
    world.conf(entry("ia", "libdaplnone.so.2", "lo 0"))
    return entry_told(
        world, "libdaplnone.so.2: cannot open shared object file: No such file or directory",
        'the package that has "libdaplnone.so.2", or its folder in LD_LIBRARY_PATH, or its whole path in '
        "the fifth field", "lo 0", "")


@case
def library_of_another_version(world):
    library = world.stub("unresolved")
    world.conf(entry("ia", library, "lo 0"))
    return entry_told(world, f"{library}: undefined symbol: function_that_no_library_has",
                      f'a build of "{shown(library)}" that fits the libraries of this machine', "lo 0", library)


def shown(path):
    """The path, cut like in quoted() of dat, but without quotes."""
    return path if len(path) <= 64 else path[:64] + "..."


@case
def library_without_entry_points(world):
    library = world.stub("no_init")
    world.conf(entry("ia", library, "lo 0"))
    return entry_told(world, f'"{shown(library)}" has no function dat_provider_init',
                      f'the library of a DAT 2.0 provider in the fifth field: "{shown(library)}" is not '
                      "one", "lo 0", library)


@case
def text_file_as_library(world):
    library = world.write("lib.so", "This is not a library, but it is long enough to have been one. " * 9)
    world.conf(entry("ia", library, "lo 0"))
    return entry_told(world, f"{library}: invalid ELF header",
                      f'a shared library for this processor: "{shown(library)}" is not one', "lo 0", library)


@case
def library_without_permission(world):
    library = world.path("lib.so")
    shutil.copy(world.stub("good"), library)
    os.chmod(library, 0)
    world.conf(entry("ia", library, "good"))
    return entry_told(
        world, f"{library}: cannot open shared object file: Permission denied",
        f'permission to read and execute "{shown(library)}" for this user', "good", library,
        before=UNPRIVILEGED)


@case
def empty_fields(world):
    world.conf('ia u2.0 nonthreadsafe default "" test.1.0 "" ""')
    complaints = entry_told(world, "the library name is empty",
                            "the name of a provider library in the fifth field", "", "")
    _, out, _ = world.run(world.datinfo, "check")
    return complaints + differences(
        f"{world.conf_path}:1: warning: the ia_params are empty; providers want a device, as in \"eth0 0\"\n"
        f"{world.conf_path}:1: error: the lib_path is empty, so the entry cannot be opened\n"
        f"{world.conf_path}: entries: 1, errors: 1\n", out)


@case
def lines_of_windows(world):
    world.write("dat.conf", entry("ia", world.soft, "lo 0") + "\r\n")
    status, out, _ = world.run(world.open_ia, "ia")
    complaints = differences("ok\n", out) + ([] if status == 0 else ["does not open"])
    status, out, _ = world.run(world.datinfo, "check")
    return complaints + ([] if status == 0 else [f"check ended with {status}"]) + differences(
        f"{world.conf_path}:1: warning: ends with CR LF, as on Windows; older DAT libraries lose every such "
        f"entry. try: sed -i 's/\\r$//'\n{world.conf_path}: entries: 1, errors: 0\n", out)


def interfaces():
    """The interfaces of this machine, in the order of the provider's list."""
    text = subprocess.run(["ip", "-o", "addr"], check=True, text=True, stdout=subprocess.PIPE).stdout
    found = []
    for line in text.splitlines():
        words = line.split()
        found.append((words[2] == "inet6", int(words[0][:-1]), words[1], words[3].split("/")[0]))
    return found


def netdev_told(world, device):
    library = world.soft
    world.conf(entry("ia", library, f"{device} 0"))
    status, out, err = world.run(world.open_ia, "ia")
    lines = out.splitlines()
    complaints = [] if status == 1 and len(lines) == 3 and not err else [f"ended with {status}", out, err]
    if complaints:
        return complaints
    begin = (f'  {world.conf_path} line 1: "{library}" did not open "{device} 0": dat.conf: "{device}" is not '
             "a network interface with an address, nor an address or host name of this machine. There are: ")
    complaints += differences('cannot open "ia" (version 2.0, nonthreadsafe): DAT_INVALID_ADDRESS', lines[0])
    complaints += differences(begin, lines[1][:len(begin)])
    for _, _, name, address in interfaces():
        if f"{name} {address}" not in lines[1]:
            complaints.append(f"{name} {address} is not in: {lines[1]}")
    advice = ("  try: a network interface or address of this machine in the seventh field; `datinfo generate` "
              "writes entries that fit")
    complaints += differences(advice, lines[2])
    status, out, _ = world.run(world.datinfo, "list", "ia")
    person = out.split("\n\n", 2)[2]
    return complaints + differences(
        "ia\n" + "\n".join([lines[1].replace(f"{world.conf_path} line 1: ", "")
                            .replace(f'open "{device} 0":', "open it:"), advice]) + "\n", person)


@case
def wrong_network_interface(world):
    return netdev_told(world, "eth77")


@case
def address_of_another_machine(world):
    return netdev_told(world, "198.51.100.7")


@case
def no_network_interface(world):
    world.conf(entry("ia", world.soft, ""))
    return entry_told(
        world, f'"{world.soft}" did not open "": dat.conf: the seventh field is empty; it names a network '
        'interface: "lo 0"', None, "", world.soft)


@case
def interface_without_rdma_device(world):
    """The provider for RDMA hardware, beside libdat2, on a machine without RDMA hardware."""
    if not os.path.exists(os.path.join(os.path.dirname(world.soft), "libdaplofa.so.2")):
        return "no libdaplofa in this build"
    if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        return "this machine has RDMA devices"
    world.conf(entry("ia", "libdaplofa.so.2", "lo 0"))
    status, out, err = world.run(world.open_ia, "ia")
    lines = out.splitlines()
    begin = (f'  {world.conf_path} line 1: "libdaplofa.so.2" did not open "lo 0": dat.conf: "lo 0": 127.0.0.1 (lo) '
             "is on no RDMA device: No such device (ENODEV). RDMA devices: none. Interfaces: lo 127.0.0.1")
    advice = ("  try: a network interface or address of this machine in the seventh field; `datinfo generate` "
              "writes entries that fit")
    return ([] if status == 1 and len(lines) == 3 else [f"ended with {status}"]) + differences(
        "\n".join(['cannot open "ia" (version 2.0, nonthreadsafe): DAT_INVALID_ADDRESS', begin, advice]),
        "\n".join([lines[0], lines[1][:len(begin)], *lines[2:]])) + differences("", err)


@case
def port_in_use(world):
    world.conf(entry("ia", world.soft, "lo 0"))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        return told(world, f"=cannot listen at 127.0.0.1:{port} (qualifier {port}): Address already in use (EADDRINUSE)\n"
                    "try: another connection qualifier; `ss -tanp` shows which program uses it", None,
                    words=("port", str(port)))


@case
def port_of_the_privileged(world):
    world.conf(entry("ia", world.soft, "lo 0"))
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as file:
        if int(file.read()) <= 7:
            return "no port is privileged here"
    with socket.socket() as other:  # at the port that is taken in its place (docs/adr/0106)
        other.bind(("127.0.0.1", 7 + 32510))
        other.listen()
        return told(world, "=cannot listen at 127.0.0.1:32517 (qualifier 7): Address already in use (EADDRINUSE)\n"
                    "try: another connection qualifier; `ss -tanp` shows which program uses it", None,
                    words=("port", "7"), before=UNPRIVILEGED)


@case
def limit_of_the_adapter(world):
    world.conf(entry("ia", world.soft, "lo 0"))
    return told(world, "=evd_min_qlen 2000000, at most 1048576", None, words=("events", "2000000"))


@case
def set_user_id(world):
    if not ROOT:
        return "needs root"
    if SANITIZED:
        return "sanitizers do not run in set-user-ID programs"
    world.conf(entry("ia", world.soft, "lo 0"))
    program = world.path("program")
    shutil.copy(world.open_ia, program)
    os.chown(program, 65534, 65534)
    os.chmod(program, 0o4755)
    status, out, _ = world.run(program, "no-such-adapter")
    if status == 127:
        return "the dynamic linker does not find libdat2 for a set-user-ID program"
    ignored = (f"  {world.conf_path}: DAT_OVERRIDE is ignored, as this program has more rights than the user "
               "who runs it")
    if out.splitlines()[1:2] == [f"  {world.conf_path}: entries read: 1"]:
        return "the file system ignores set-user-ID"
    complaints = [] if status == 1 and ignored in out.splitlines() else [out]
    complaints += [f"it was read: {out}"] if f"{world.conf_path}: entries" in out else []
    return complaints


@case
def open_that_fails(world):
    library = world.stub("good")
    world.conf(entry("ia", library, "open_fails"))
    return entry_told(
        world, f'"{library}" did not open "open_fails": it returned DAT_INVALID_ADDRESS and gave no reason',
        "a network interface or address of this machine in the seventh field; `datinfo generate` writes "
        "entries that fit", "open_fails", library)


@case
def open_that_says_why(world):
    library = world.stub("good")
    world.conf(entry("ia", library, "says_why the cable is cut"))
    return entry_told(world, f'"{library}" did not open "says_why the cable is cut": the cable is cut', None,
                      "says_why the cable is cut", library)


@case
def provider_that_wants_other_parameters(world):
    library = world.stub("good")
    world.conf(entry("ia", library, "nothing"))
    return entry_told(
        world, f'"{shown(library)}" did not register this name and version; does it accept its ia_params '
        "\"nothing\"?", "parameters in the seventh field that this provider understands, and the version that it "
        "has in the second", "nothing", library)


@case
def provider_that_crashes(world):
    world.conf(entry("ia", world.stub("good"), "crashes"))
    status, out, _ = world.run(world.datinfo, "list", "ia")
    return ([] if status == 1 else [f"datinfo ended with {status}"]) + differences(
        "ia\n  the provider crashed: Aborted\n  try: another version of the provider\n",
        out.split("\n\n", 2)[2])


@case
def provider_that_hangs(world):
    world.conf(entry("ia", world.stub("good"), "hangs"), entry("other", world.stub("good"), "good"))
    status, out, _ = world.run(world.datinfo, "--timeout", "1")
    return ([] if status == 0 else [f"datinfo ended with {status}"]) + differences(
        "ia\n  the provider did not finish within 1000 ms\n"
        "  try: whether the network of the device works; --timeout waits longer\n",
        out.split("\n\n", 2)[2])


@case
def paths_of_other_providers(world):
    world.conf(entry("ia", world.stub("good"), "hangs"), entry("other", world.stub("good"), "good"))
    status, out, err = world.run(world.datinfo, "paths", "--timeout", "1")
    return ([] if status == 0 else [f"datinfo ended with {status}: {err}"]) + differences(
        "NAME   DEVICE  PATH WITHIN THIS HOST\n"
        "ia     hangs   none: the provider did not finish within 1000 ms; try: whether the network of the device "
        "works; --timeout waits longer\n"
        "other  good    adapter: it is not the software RNIC\n", out)


@case
def few_open_files(world):
    if SANITIZED:
        return "sanitizers need descriptors of their own"
    world.conf(entry("ia", world.soft, "lo 0"))
    limited = ("prlimit", "--nofile=5")
    reason = f'"{world.soft}" did not open "lo 0": cannot list the network interfaces: Too many open files (EMFILE)'
    advice = "a higher limit of open files for this process (ulimit -n)"
    complaints = told(world, f"  {world.conf_path} line 1: {reason}\n  try: {advice}", None, before=limited)
    status, out, _ = world.run(world.datinfo, "list", "ia", before=("prlimit", "--nofile=9"))
    if "this process may open only 9 files; try: ulimit -n 1024\n" not in out or status != 0:
        complaints.append(f"datinfo, with 9 files: {status}\n{out}")
    return complaints


@case
def little_memory(world):
    world.conf(entry("ia", world.soft, "lo 0"))
    for mebibytes in range(4, 25):
        status, out, _ = world.run(world.open_ia, "ia", before=("prlimit", f"--as={mebibytes << 20}"))
        if status == 0:
            break
        if not out.startswith("cannot open"):
            continue  # too little memory even for the program
        return differences(
            'cannot open "ia" (version 2.0, nonthreadsafe): DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED\n'
            f"  {world.conf_path} line 1: {world.soft}: failed to map segment from shared object\n"
            "  try: higher limits of memory for this process (ulimit -v), or a file system that permits "
            "programs\n", out)
    return "no limit lets the program start, but not load the provider"


def rdma_machine(world):
    """Writes the sysfs files of a machine with one RDMA device."""
    port = "sys/class/infiniband/rxe0/ports/1/"
    world.write(port + "state", "4: ACTIVE\n")
    world.write(port + "link_layer", "Ethernet\n")
    world.write(port + "gid_attrs/ndevs/0", "lo\n")
    world.conf(entry("ia", world.soft, "lo 0"))
    return "--sysfs", world.path("sys"), "--dev", world.path("dev")


def remarked(line, out):
    """Checks that the line is one of those before the table."""
    return [] if line in out.split("\n\n")[0].splitlines() else [f"no line: {line}", out]


@case
def little_locked_memory(world):
    options = rdma_machine(world)
    world.write("dev/infiniband/uverbs0", "")
    _, out, _ = world.run(world.datinfo, *options, before=("prlimit", "--memlock=65536"))
    return remarked(
        "this process may lock only 64 KiB of memory, which RDMA hardware needs for every LMR and queue; try: "
        "ulimit -l unlimited (memlock in limits.conf)", out)


@case
def device_without_permission(world):
    options = rdma_machine(world)
    device = world.write("dev/infiniband/uverbs0", "", mode=0)
    _, out, _ = world.run(world.datinfo, *options, before=UNPRIVILEGED)
    return remarked(f"{device}: Permission denied; try: as a member of its group, or a udev rule that opens it",
                    out)


@case
def device_without_files(world):
    options = rdma_machine(world)
    _, out, _ = world.run(world.datinfo, *options)
    return remarked(f"there are RDMA devices but no {world.path('dev')}/infiniband/uverbs*; try: modprobe "
                    "ib_uverbs, or pass the files into the container", out)


@case
def device_without_entry(world):
    options = rdma_machine(world)
    world.write("dev/infiniband/uverbs0", "")
    world.conf(entry("ia", world.soft, "127.0.0.1 0"))
    _, out, _ = world.run(world.datinfo, *options)
    return remarked("rxe0 port 1 has no entry; try: datinfo generate", out)


# ---- the provider for RDMA hardware, with mocks of its libraries --------------------------------

EPERM, EAGAIN, ENOMEM, EACCES = 1, 11, 12, 13


def on_doubles(world, device, words=(), before=(), **environment):
    """Opens "mock" as defined in dat.conf. Returns the lines that open_ia prints, or a reason to skip."""
    folder = os.path.dirname(os.path.dirname(world.soft))
    doubles, library = f"{folder}/verbs_mock", f"{folder}/lib/libdaplofa.so.2"
    if SANITIZED or not os.path.isdir(doubles) or not os.path.exists(library):
        return "no doubles of the RDMA libraries in this build"
    world.conf(entry("mock", library, device))
    environment["LD_LIBRARY_PATH"] = doubles
    status, out, err = world.run(world.open_ia, "mock", *words, before=before, environment=environment)
    return out.splitlines() if status == 1 and not err else [f"ended with {status}", out, err]


def doubles_told(told_lines, *wanted):
    """Checks that each line contains the text that is wanted for it."""
    if isinstance(told_lines, str):
        return told_lines
    complaints = [] if len(told_lines) == len(wanted) else [f"{len(told_lines)} lines"]
    complaints += [f"not there: {text}" for text, line in zip(wanted, told_lines) if text not in line]
    return [*complaints, *told_lines] if complaints else []


def opens_and_tells(told_lines, wanted):
    if isinstance(told_lines, str):
        return told_lines
    complaints = [] if told_lines[:2] == ["ended with 0", "ok\n"] else ["does not open"]
    return complaints + ([] if wanted in told_lines[-1] else told_lines)


NO_DEVICE = 'cannot open "mock" (version 2.0, nonthreadsafe): DAT_INVALID_ADDRESS'
OTHER_DEVICE = "try: a network interface or address of this machine in the seventh field"


@case
def verbs_wrong_name(world):
    return doubles_told(on_doubles(world, "mlx7 1"), NO_DEVICE,
                        "RDMA devices: mock0 port 1 ACTIVE. Interfaces: lo 127.0.0.1", OTHER_DEVICE)


@case
def verbs_port_down(world):
    """The adapter opens, as the port may come up later, but the default level reports that it is down now."""
    return opens_and_tells(on_doubles(world, "mock0 1", VERBS_MOCK_FABRIC="infiniband", DAPL_TRACE_LEVEL="1"),
                           "mock0 port 1 is DOWN, so no peer can be reached until it is ACTIVE; check cable, switch, "
                           "subnet manager")


@case
def verbs_device_without_permission(world):
    return doubles_told(on_doubles(world, "lo 0", VERBS_MOCK_FAIL=f"ibv_open_device={EACCES}"), NO_DEVICE,
                        "mock0 (cannot be opened: Permission denied (EACCES))", OTHER_DEVICE)


@case
def verbs_little_locked_memory(world):
    return doubles_told(
        on_doubles(world, "lo 0", ("memory", "1048576"), ("prlimit", "--memlock=65536"),
                   VERBS_MOCK_FAIL=f"ibv_reg_mr_iova2={ENOMEM}"),
        "ibv_reg_mr of 1048576 bytes with access",
        "try: ulimit -l unlimited (memlock in limits.conf)")


@case
def verbs_no_locked_memory(world):
    return doubles_told(
        on_doubles(world, "lo 0", ("memory", "4096"), ("prlimit", "--memlock=0"),
                   VERBS_MOCK_FAIL=f"ibv_reg_mr_iova2={EPERM}"),
        "this process may lock 0 KiB of memory (ulimit -l)",
        "try: ulimit -l unlimited (memlock in limits.conf)")


@case
def verbs_limit_of_the_cgroup(world):
    """The kernel refuses objects beyond rdma.max with EAGAIN."""
    return doubles_told(on_doubles(world, "lo 0", ("memory", "4096"), VERBS_MOCK_FAIL=f"ibv_alloc_pd={EAGAIN}"),
                        "ibv_alloc_pd: Resource temporarily unavailable (EAGAIN)", "rdma.max of its cgroup")


@case
def verbs_mtu_of_no_port(world):
    """A wrong setting is reported at the default level, and the adapter opens."""
    return opens_and_tells(on_doubles(world, "lo 0", DAPL_IB_MTU="1500", DAPL_TRACE_LEVEL="1"),
                           "DAPL_IB_MTU: 1500 is not an MTU (256, 512, 1024, 2048 or 4096) and is ignored")


@case
def verbs_mtu_of_the_peer(world):
    """The other host's port has a larger MTU than ours, which is reported at the default level."""
    folder = os.path.dirname(os.path.dirname(world.soft))
    program, doubles = f"{folder}/bin/datconform", f"{folder}/verbs_mock"
    if SANITIZED or not os.path.isdir(doubles) or not os.path.exists(program):
        return "no doubles of the RDMA libraries in this build"
    world.conf(entry("mock", f"{folder}/lib/libdaplofa.so.2", "lo 0"))
    _, _, err = world.run(
        program, "--ia", "mock", "--run_test=connection/conn_reject_event", "--run_test=disconnect/disc_flushes_recvs",
        environment={"LD_LIBRARY_PATH": doubles, "VERBS_MOCK_PATH_MTU": "5", "DAPL_TRACE_LEVEL": "1"})
    wanted = ("ibv_modify_qp to RTR: Invalid argument (EINVAL); the path's MTU is 4096, that of mock0 port 1 "
              "only 1024; try: the same MTU for the interfaces of both hosts")
    return [] if wanted in err else [err]


@case
def traces_have_the_name_of_the_code(world):
    world.conf(entry("soft", world.soft, "lo 0 crc=maybe"))
    _, _, err = world.run(world.open_ia, "soft", environment={"DAPL_TRACE_LEVEL": "1"})
    return [] if re.search(r'"lo 0 crc=maybe" could not be opened \[DAT_INVALID_PARAMETER', err) else [err]


if __name__ == "__main__":
    main(CASES)
