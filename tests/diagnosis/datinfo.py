#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Tests datinfo as people and scripts use it.

usage: datinfo.py DATINFO OPEN_IA LIBDAPLSOFT STUB_FOLDER DAT_CONF
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

from support import differences, entry, main

CASES = []


def case(function):
    CASES.append(function)
    return function


def ended(status, wanted, out=""):
    return [] if status == wanted else [f"ended with {status}, not {wanted}", out]


@case
def wrong_arguments(world):
    complaints = []
    for words in (["nonsense"], ["--timeout", "0"], ["--timeout", "x"], ["check", "a", "b"],
                  ["generate", "x"], ["list", "--no-such-option"]):
        status, out, err = world.run(world.datinfo, *words)
        complaints += ended(status, 2, f"{words}: {out}{err}")
        if "--help" not in err or out:
            complaints.append(f"{words}: {out}{err}")
    status, out, _ = world.run(world.datinfo, "--help")
    return complaints + ended(status, 0) + ([] if "generate" in out else [out])


@case
def table(world):
    world.conf(entry("first", world.stub("good"), "open_fails"), entry("second", world.stub("good"), "good"),
               entry("third", world.stub("second"), "open_fails", safety="threadsafe"))
    status, out, err = world.run(world.datinfo)
    width = len(world.stub("second"))
    good = world.stub("good").ljust(width)
    advice = ("  try: a network interface or address of this machine in the seventh field; `datinfo generate` "
              "writes entries that fit\n")
    return ended(status, 0, err) + differences(
        f"configuration: {world.conf_path}\nregistry: FILE\n\n"
        f"NAME    VERSION  THREADS        {'LIBRARY'.ljust(width)}  DEVICE      OPENS\n"
        f"first   2.0      nonthreadsafe  {good}  open_fails  no: DAT_INVALID_ADDRESS\n"
        f"second  2.0      nonthreadsafe  {good}  good        yes:  none\n"
        f"third   2.0      threadsafe     {world.stub('second')}  open_fails  no: DAT_INVALID_ADDRESS\n\n"
        f'first\n  "{world.stub("good")}" did not open it: it returned DAT_INVALID_ADDRESS and gave no reason\n'
        f"{advice}\n"
        f'third (threadsafe)\n  "{world.stub("second")}" did not open it: it returned DAT_INVALID_ADDRESS and '
        f"gave no reason\n{advice}", re.sub(r"(?m)^registry: /.*libdat2\.so\.2.*$", "registry: FILE", out))


@case
def attributes_of_the_named(world):
    world.conf(entry("soft", world.soft, "lo 0"))
    status, out, err = world.run(world.datinfo, "list", "soft")
    rows = dict(line.split(None, 1) for line in out.splitlines() if line.startswith("  "))
    wanted = {"adapter_name": "lo", "address": "127.0.0.1", "vendor_name": "udapl software RNIC",
              "max_message_size": "2147483648", "dapl_version": "2.0", "is_thread_safe": "no",
              "DAT_IB_TRANSPORT_MTU": "65536"}
    complaints = [f"{k}: {rows.get(k)}" for k, v in wanted.items() if rows.get(k) != v]
    quiet = world.run(world.datinfo)[1]
    return ended(status, 0, err) + complaints + ([quiet] if "max_eps" in quiet else [])


@case
def json_of_everything(world):
    name = 'quote" \\ and \xe9'
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    world.conf("nonsense", entry("soft", world.soft, "lo 0"),
               entry(f'"{escaped}"', world.stub("good"), "says_why a tab\there"))
    status, out, err = world.run(world.datinfo, "--json")
    told = json.loads(out)
    soft, other = told["adapters"]
    seen = [told["file"], told["remarks"], soft["name"], soft["line"], soft["opens"], soft["causes"],
            soft["attributes"]["address"], soft["attributes"]["max_message_size"],
            soft["attributes"]["is_thread_safe"], soft["attributes"]["dapl_version"], other["opens"], other["status"], other["advice"], other["attributes"],
            other["causes"][0].endswith("a tab here"),
            other["name"]]
    wanted = [world.conf_path, [f"{world.conf_path}:1: only 1 of 8 fields, api_version is missing"], "soft", 2,
              True, [], "127.0.0.1", 1 << 31, False, "2.0", False, "DAT_INSUFFICIENT_RESOURCES", [], {}, True, name]
    return ended(status, 0, err) + differences(repr(wanted), repr(seen))


@case
def files_of_libraries(world):
    """A library name without a folder is resolved, even if the entry does not open; a path is used as it is."""
    folder, other = world.path("here"), world.path("there")
    for place, variant in ((folder, "good"), (other, "second")):
        os.makedirs(place)
        os.symlink(world.stub(variant), os.path.join(place, "libfound.so.7"))
    world.conf(entry("opens", "libfound.so.7", "good"), entry("fails", "libfound.so.7", "open_fails"),
               entry("path", world.stub("good"), "good"), entry("missing", "libmissing.so.7", "good"))
    complaints = []
    for path in ([folder], [other, folder]):
        environment = {"LD_LIBRARY_PATH": ":".join([*path, os.path.dirname(world.soft)])}
        file = os.path.join(path[0], "libfound.so.7")
        _, out, err = world.run(world.datinfo, environment=environment)
        complaints += differences(f"library libfound.so.7: {file}",
                                  "\n".join(line for line in out.splitlines() if line.startswith("library "))) + [err] * bool(err)
        told = json.loads(world.run(world.datinfo, "--json", environment=environment)[1])["adapters"]
        complaints += differences(repr([file, file, world.stub("good"), ""]),
                                  repr([one["library_file"] for one in told]))
    return complaints


@case
def status_counts_what_was_named(world):
    world.conf(entry("good", world.stub("good"), "good"), entry("bad", world.stub("good"), "open_fails"))
    return (ended(world.run(world.datinfo, "list", "good")[0], 0) +
            ended(world.run(world.datinfo, "list", "good", "bad")[0], 1) +
            ended(world.run(world.datinfo, "list", "neither")[0], 1) +
            ended(world.run(world.datinfo)[0], 0))


@case
def noise_of_a_provider_is_shown_apart(world):
    """Other projects' providers may write to standard output. The JSON must stay valid."""
    world.conf(entry("ia", world.stub("good"), "writes"))
    status, out, err = world.run(world.datinfo, "list", "--json", "ia")
    (adapter,) = json.loads(out)["adapters"]
    return ended(status, 1, err) + differences(
        repr(["the provider wrote: open_hca: no luck", "the provider wrote: today"]),
        repr([line for line in adapter["causes"] if "wrote" in line])) + differences("", err)


@case
def entries_that_fail_alike_share_a_reason(world):
    """The registry explains a failure on stderr as well: that was shown as the provider's, with the line of the entry."""
    world.conf(entry("one", "libmissing.so.7", "x 0"), entry("two", "libmissing.so.7", "x 0"))
    status, out, err = world.run(world.datinfo, environment={"DAT_TRACE_LEVEL": "1"})
    return ended(status, 1, err) + [out] * ("wrote" in out or out.count("cannot open shared object file") != 1)


@case
def empty_parameters(world):
    """Our providers always refuse them; what others do is unknown."""
    complaints = []
    for library, severity, expected in ((world.soft, "error", 1), (world.stub("good"), "warning", 0)):
        world.conf(entry("ia", library, ""))
        status, out, err = world.run(world.datinfo, "check")
        complaints += ended(status, expected, err) + [out] * (f":1: {severity}: the ia_params are empty" not in out)
    return complaints


@case
def shipped_names(world):
    """Every name in the shipped file, with the providers that this machine has. A network interface that there is not
    may be looked up as the name of a host, which takes as long as the name server does."""
    begin = time.monotonic()
    status, out, err = world.run(world.datinfo, "--timeout", "50", "--json",
                                 environment={"DAT_OVERRIDE": world.shipped})
    adapters = json.loads(out)["adapters"]
    complaints = [f"{one['name']}: no reason" for one in adapters if not one["opens"] and not one["causes"]]
    complaints += [f"{one['name']}: {one['causes']}" for one in adapters
                   if any("crashed" in line or "did not finish" in line for line in one["causes"])]
    # Only installed providers; the names that need another provider are entries in comments.
    names = {one["name"] for one in adapters}
    complaints += [f"without {name}" for name in ("soft", "ofa-v2-ib0") if name not in names]
    complaints += [f"{one['name']}: {one['library']}" for one in adapters
                   if one["library"] not in ("libdaplsoft.so.2", "libdaplofa.so.2")]
    with open(world.shipped, encoding="utf-8") as file:
        text = file.read()
    status, out, err = world.run(world.datinfo, "--timeout", "50", environment={"DAT_OVERRIDE": world.shipped})
    if len(out.splitlines()) > 30:
        complaints.append(f"a first look has {len(out.splitlines())} lines")
    status, out, err = world.run(world.datinfo, "check", "--json",
                                 world.write("all.conf", text.replace("# ofa-v2-", "ofa-v2-")))
    told = json.loads(out)
    if told["errors"] or told["entries"] < 42:
        complaints.append(f"with the commented entries: {told}")
    print(f"        {len(adapters)} adapters in {time.monotonic() - begin:.1f} s")
    return ended(status, 0, err) + complaints


@case
def check_of_a_good_file(world):
    world.conf("# nothing else", "", entry("soft", world.soft, "lo 0"))
    status, out, err = world.run(world.datinfo, "check")
    return ended(status, 0, err) + differences(f"{world.conf_path}: entries: 1, errors: 0\n", out)


@case
def check_of_a_bad_file(world):
    other = world.write("other.conf", "\n".join([
        "ia u2.0 nonthreadsafe default lib test.1.0",
        entry("ia", "/none/lib.so", "lo 0"),
        entry("ia", "/none/lib.so", "lo 0"),
        entry("ia", world.soft, "lo 0"),
        entry("kernel", world.soft, "lo 0", version="k2.0"),
        entry('""', world.soft, "lo 0", safety="threadsafely")]) + "\n")
    status, out, err = world.run(world.datinfo, "check", other)
    expected = (f"{other}:1: error: only 6 of 8 fields, ia_params is missing\n"
                f"{other}:2: warning: the library /none/lib.so is not a file here\n"
                f"{other}:3: warning: the library /none/lib.so is not a file here\n"
                f'{other}:3: warning: "ia" is in line 2 already: the same entry twice\n'
                f'{other}:4: remark: "ia" is in line 2 already: tried if that one does not open\n'
                f'{other}:5: remark: api_version "k2.0" is a kernel provider, ignored\n'
                f'{other}:6: remark: threadsafety "threadsafely" taken as threadsafe\n'
                f"{other}:6: warning: the ia_name is empty\n"
                f"{other}: entries: 4, errors: 1\n")
    complaints = ended(status, 1, err) + differences(expected, out)
    status, out, _ = world.run(world.datinfo, "check", "--json", other)
    told = json.loads(out)
    return complaints + ended(status, 1) + differences(
        repr([4, 1, 8, "error", 1]),
        repr([told["entries"], told["errors"], len(told["findings"]), told["findings"][0]["severity"],
              told["findings"][0]["line"]]))


@case
def check_of_settings(world):
    """The settings that may follow device and port, for both providers."""
    verbs = world.soft.replace("libdaplsoft", "libdaplofa")
    other = world.write("settings.conf", "\n".join([
        entry("a", world.soft, "lo 0 crc=off delayed_ack=on drain=0"),
        entry("b", world.soft, "lo 0 delayed_ack=yes"),
        entry("c", world.soft, "lo 0 delayed_ak=on"),
        entry("d", world.soft, "lo 0 drain=1s"),
        entry("e", verbs, "ib0 0 delayed_ack=off anything=else"),
        entry("f", verbs, "ib0 0 delayed_ack=1")]) + "\n")
    status, out, err = world.run(world.datinfo, "check", other)
    out = "".join(line for line in out.splitlines(True) if "is not a file here" not in line and
                  '"ib0" is no' not in line)
    return ended(status, 1, err) + differences(
        f"{other}:2: error: ia_params: delayed_ack=yes: must be one of on|off|writes\n"
        f"{other}:3: error: ia_params: no such setting: delayed_ak=on\n"
        f"{other}:4: error: ia_params: drain=1s: must be a number from 0 to 86400\n"
        f"{other}:6: error: ia_params: delayed_ack=1: must be one of on|off|writes\n"
        f"{other}: entries: 6, errors: 4\n", out)


@case
def check_before_the_command(world):
    """Options before the command take effect."""
    world.conf(entry("soft", world.soft, "lo 0"))
    status, out, err = world.run(world.datinfo, "--json", "check")
    return ended(status, 0, err) + differences("1", str(json.loads(out)["entries"]))


@case
def check_sees_what_list_finds(world):
    """Obstacles to opening an entry that can be detected without opening it."""
    verbs = world.soft.replace("libdaplsoft", "libdaplofa")
    text = world.write("text.so", "no library\n")
    stranger = world.write("stranger.so", b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x34\x12" + bytes(60))
    other = world.write("machine.conf", "\n".join([
        entry("a", text, "x 0"),
        entry("b", "libno-such-provider.so.2", "x 0"),
        entry("c", world.soft, "no-such-if0 0"),
        entry("d", world.soft, "192.0.2.9 0"),
        entry("e", world.soft, "127.0.0.1 0 crc=maybe"),
        entry("f", world.soft, "::1 0"),
        entry("g", stranger, "x 0"),
        entry("h", "libdaplsoft.so.2", "127.0.0.1 0"),
        entry("i", verbs, "mlx4_0 1"),
        entry("j", verbs, "no-such-if0 0"),
        entry("k", world.soft, "lo 0 crc=on|off")]) + "\n")
    world.write("sys/class/infiniband/mlx4_0/ports/1/state", "4: ACTIVE\n")
    status, out, err = world.run(world.datinfo, "check", "--sysfs", world.path("sys"), other)
    out = "".join(line for line in out.splitlines(True) if "libdaplofa" not in line and ":6:" not in line)
    return ended(status, 1, err) + differences(
        f"{other}:1: warning: the library {text} is not a shared library\n"
        f"{other}:2: warning: the library libno-such-provider.so.2 cannot be loaded: cannot open shared object file: "
        "No such file or directory\n"
        f'{other}:3: warning: "no-such-if0" is not a network interface or address of this machine\n'
        f'{other}:4: warning: "192.0.2.9" is not a network interface or address of this machine\n'
        f"{other}:5: error: ia_params: crc=maybe: must be one of on|off\n"
        f"{other}:7: warning: the library {stranger} is for another processor\n"
        f'{other}:10: warning: "no-such-if0" is not a network interface, address or RDMA device of this machine\n'
        f"{other}:11: error: ia_params: crc=on|off: must be one of on|off\n"
        f"{other}: entries: 11, errors: 2\n", out)


@case
def check_knows_the_settings_of_the_manual(world):
    """`check` accepts every setting that dat.conf(5) documents for the software RNIC."""
    manual = (pathlib.Path(__file__).parents[2] / "man/dat.conf.5").read_text()
    manual = manual[manual.index(".SS Settings of libdaplsoft.so.2"):manual.index(".SS Settings of libdaplofa.so.2")]
    words = [f"{name}={value.strip()}" for name, values in re.findall(r"^\.BR (\w+)= \{ (.*) \}$", manual, re.M)
             for value in values.split("|")]
    complaints = [] if "direct=off" in words and "path=shm" in words else [f"found in the manual: {words}"]
    world.conf(*(entry(word, world.soft, "127.0.0.1 0 " + word) for word in words))
    status, out, err = world.run(world.datinfo, "check")
    return complaints + ended(status, 0, out + err)


@case
def check_agrees_with_list(world):
    """`check` finds a mistake in exactly those devices and settings with which the software RNIC does not open."""
    devices = ["lo 0", "lo", "127.0.0.1 0", "127.0.0.9 0", "0.0.0.0 0", ":: 0", "lo:1 0", "255.255.255.255 0", "224.0.0.1 0"]
    words = [f"{name}={value}" for name in ("drain", "peer_timeout", "half_open", "staging")
             for value in ("", "0", "1", "1024", "1025", "86400", "86401", "1048576", "1048577", "007", "+1", "-1", "0x1",
                           "99999999999999999999", "1s")]
    words += ["crc=on crc=on", "crc=on crc=off", "word", "crc", "crc=on word", "=", "=on", "crc=", "path=TCP", "drain=1 staging=1"]
    params = devices + ["lo 0 " + word for word in words] + ["lo crc=on"]
    world.conf(*(entry(f"ia{i}", world.soft, text) for i, text in enumerate(params)))
    listed = json.loads(world.run(world.datinfo, "--json")[1])["adapters"]
    found = {one["line"] for one in json.loads(world.run(world.datinfo, "check", "--json")[1])["findings"]}
    return [f"{text!r}: opens {one['opens']}, check finds a mistake: {one['line'] in found}"
            for text, one in zip(params, listed) if one["opens"] == (one["line"] in found)]


@case
def check_of_libraries(world):
    with open(world.soft, "rb") as file:
        cut = world.write("cut.so", file.read(4096))
    other = world.write("libraries.conf", "\n".join(
        [entry("a", world.stub("no_init"), "x 0"), entry("b", cut, "x 0"), entry("c", world.stub("good"), "x 0")]) + "\n")
    status, out, err = world.run(world.datinfo, "check", other)
    lines = out.splitlines()
    complaints = differences(f"{other}:1: warning: the library {world.stub('no_init')} has no function "
                             "dat_provider_init, so it is not a provider", lines[0])
    if not lines[1].startswith(f"{other}:2: warning: the library {cut} cannot be loaded: ") or len(lines) != 3:
        complaints.append(out)
    return ended(status, 0, err) + complaints


@case
def check_of_bytes(world):
    """What an editor may leave in the file."""
    line = entry("a", world.soft, "lo 0")
    other = world.write("bytes.conf", f"\ufeff{line}\r\n# one\r# two\n# three\r")
    status, out, err = world.run(world.datinfo, "check", other)
    return ended(status, 0, err) + differences(
        f"{other}:1: warning: begins with a byte order mark, which becomes part of the first word. try: sed -i "
        "'1s/^\\xEF\\xBB\\xBF//'\n"
        f"{other}:1: warning: ends with CR LF, as on Windows; older DAT libraries lose every such entry. try: sed -i "
        "'s/\\r$//'\n"
        f"{other}:2: warning: contains a CR without LF, which does not end the line. try: tr '\\r' '\\n'\n"
        f"{other}: entries: 1, errors: 0\n", out)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


@case
def a_killed_program_leaves_no_child(world):
    world.conf(entry("ia", world.stub("good"), "hangs"))
    program = subprocess.Popen([world.datinfo, "--timeout", "60"], stdout=subprocess.DEVNULL,
                               env=dict(os.environ, DAT_OVERRIDE=world.conf_path))
    end = time.monotonic() + 10
    children = []
    while not children and time.monotonic() < end:
        children = children_of(program.pid)
    time.sleep(0.2)  # it is inside the provider
    program.kill()
    program.wait()
    while any(os.path.exists(f"/proc/{child}/exe") for child in children) and time.monotonic() < end:
        time.sleep(0.02)
    left = [child for child in children if os.path.exists(f"/proc/{child}/exe")]
    for child in left:
        os.kill(int(child), signal.SIGKILL)
    return ([] if children else ["it had no child"]) + [f"process {child} is left" for child in left]


@case
def check_of_no_file(world):
    path = world.path("none.conf")
    status, out, _ = world.run(world.datinfo, "check", path)
    return ended(status, 1) + differences(f"{path}: error: No such file or directory (ENOENT)\n", out)


@case
def generated_entries_open(world):
    """Generated entries open on this machine, with the provider beside libdat2, found by its bare name."""
    status, text, err = world.run(world.datinfo, "generate", "--sysfs", world.path("nothing"))
    complaints = ended(status, 0, err)
    world.write("dat.conf", text)
    status, out, _ = world.run(world.datinfo, "check")
    complaints += ended(status, 0, out)
    if "warning" in out or "remark" in out:
        complaints.append(out)
    status, out, _ = world.run(world.datinfo, "--json")
    adapters = json.loads(out)["adapters"]
    complaints += ended(status, 0) + [f"{one['name']}: {one['causes']}" for one in adapters if not one["opens"]]
    if len(adapters) < 2 or adapters[-1]["name"] != "soft":
        complaints.append(text)
    return complaints


@case
def generate_for_rdma_devices(world):
    devices = "sys/class/infiniband/"
    # A GID table that names the interface; two ports of one function; a software device; no interface.
    world.write(devices + "mlx5_0/ports/1/state", "4: ACTIVE\n")
    world.write(devices + "mlx5_0/ports/1/link_layer", "InfiniBand\n")
    world.write(devices + "mlx5_0/ports/1/gid_attrs/ndevs/0", "\n")
    world.write(devices + "mlx5_0/ports/1/gid_attrs/ndevs/1", "ib0\n")
    for port, netdev in ((1, "eth4"), (2, "eth5")):
        world.write(devices + f"mlx4_0/ports/{port}/state", "1: DOWN\n")
        world.write(devices + f"mlx4_0/ports/{port}/link_layer", "Ethernet\n")
        world.write(devices + f"mlx4_0/device/net/{netdev}/dev_port", f"{port - 1}\n")
    world.write(devices + "siw0/ports/1/state", "4: ACTIVE\n")
    world.write(devices + "siw0/parent", "eth4\n")
    world.write(devices + "lone0/ports/1/state", "2: INIT\n")
    path = world.path("dat.conf")
    status, out, err = world.run(world.datinfo, "generate", "--sysfs", world.path("sys"), "--output", path)
    complaints = ended(status, 0, err) + differences("", out)
    with open(path, encoding="utf-8") as file:
        text = file.read()

    def both(netdev):
        return "".join(f'"ofa-v2-{netdev}" u2.0 {safety} default libdaplofa.so.2 dapl.2.0 "{netdev} 0" ""\n'
                       for safety in ("nonthreadsafe", "threadsafe"))

    expected = ("# dat.conf for the devices of this machine, written by datinfo generate. See dat.conf(5).\n\n"
                "# lone0 port 1, link unknown, INIT\n"
                "# no entry: the port has no network interface, which the provider finds it by\n\n"
                f"# mlx4_0 port 1, Ethernet, DOWN\n{both('eth4')}\n"
                f"# mlx4_0 port 2, Ethernet, DOWN\n{both('eth5')}\n"
                f"# mlx5_0 port 1, InfiniBand, ACTIVE\n{both('ib0')}\n"
                "# siw0 port 1, link unknown, ACTIVE\n# no entry: eth4 has one already\n\n"
                "# software RNIC on ")
    complaints += differences(expected, text[:len(expected)])
    return complaints + ended(world.run(world.datinfo, "check")[0], 0)


@case
def generate_that_cannot_write(world):
    path = os.path.join(world.folder, "none", "dat.conf")
    status, _, err = world.run(world.datinfo, "generate", "--output", path)
    return ended(status, 1) + differences(f"datinfo: {path}: No such file or directory\n", err)


if __name__ == "__main__":
    main(CASES)
