#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Records what programs do with LTTng and checks the traces.

usage: lttng.py BUILD SOURCE preload|environment|verbs|document

preload, environment: a transfer on the software RNIC, with the probes loaded in either way. Checks that both
sides of the connection are in the trace, in order, with the identity of their endpoints, and that the chart
of the connection can be drawn. verbs: the verbs provider on the doubles of the RDMA libraries. Checks
the records of the calls to verbs and rdma_cm and of their results, and every fault by name. document: the
commands of docs/tracing.md, as they are printed there, for a connection that is accepted late.

Starts a session daemon of its own, as an ordinary user, with a home of its own, and ends it. Exit status
0: found, 1: not, 77: LTTng is not installed.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

NOBODY = 65534
PORT = 45300 + os.getpid() % 500
EVENT = re.compile(r"(dat|dapl):(\w+): \{.*?\}, \{ vpid = (\d+).*?\}, \{ (.*) \}$")
FIELD = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|[^,]+)')


class Failed(Exception):
    pass


def as_user():
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


class Session:
    """A session daemon and what it records."""

    def __init__(self, home, environment):
        self.home = home
        self.environment = environment
        self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], env=environment,
                                       preexec_fn=as_user, start_new_session=True,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def run(self, *command, check=True, user=as_user):
        result = subprocess.run(command, env=self.environment, preexec_fn=user, check=False,
                                capture_output=True, text=True, timeout=60)
        if check and result.returncode != 0:
            raise Failed(f"{' '.join(command)}: {result.stdout}{result.stderr}")
        return result

    def begin(self, record):
        """Waits for the daemon; then, if `record` is set, starts to record everything."""
        until = time.monotonic() + 30
        while self.run("lttng", "--no-sessiond", "list", check=False).returncode != 0:
            if self.daemon.poll() is not None:
                raise Failed(f"lttng-sessiond: {self.daemon.stderr.read().decode()}")
            if time.monotonic() > until:
                raise Failed("lttng-sessiond does not answer")
            time.sleep(0.2)
        if not record:
            return
        lttng = ("lttng", "--no-sessiond")
        self.run(*lttng, "create", "udapl", f"--output={self.home}/trace")
        for events in ("dat:*", "dapl:*"):
            self.run(*lttng, "enable-event", "--userspace", events)
        self.run(*lttng, "add-context", "--userspace", "--type=vpid", "--type=vtid")
        self.run(*lttng, "start")

    def end(self):
        self.run("lttng", "--no-sessiond", "destroy")

    def stop_daemon(self):
        if self.daemon.poll() is None:
            os.killpg(self.daemon.pid, signal.SIGTERM)
            self.daemon.wait(30)


def transfer(session, samples, probes):
    environment = dict(session.environment, **probes)
    server = subprocess.Popen([f"{samples}/ping", "--server", "--port", str(PORT)], env=environment,
                              preexec_fn=as_user, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
    try:
        server.stdout.readline()  # printed when it listens
        client = subprocess.Popen([f"{samples}/ping", "--port", str(PORT), "--count", "2", "--size", "4096",
                                   "127.0.0.1"], env=environment, preexec_fn=as_user,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        out, _ = client.communicate(timeout=60)
        if client.returncode != 0:
            raise Failed(f"client: {out}")
        server.communicate(timeout=60)
        return client.pid, server.pid
    finally:
        for process in (server,):
            if process.poll() is None:
                process.kill()
                process.wait()


def read_events(text):
    events = []
    for line in text.splitlines():
        found = EVENT.search(line)
        if not found:
            raise Failed(f"not understood: {line}")
        fields = {name: value.strip('"') for name, value in FIELD.findall(found.group(4))}
        events.append((f"{found.group(1)}:{found.group(2)}", int(found.group(3)), fields))
    return events


def expect_sequence(events, pid, wanted, what):
    """Checks that a process has the wanted (event, fields) in this order, possibly with others in between. Returns the EP."""
    position, endpoint = 0, None
    for name, process, fields in events:
        if process != pid or position == len(wanted):
            continue
        want_name, want_fields = wanted[position]
        if name != want_name or any(fields.get(k) != v for k, v in want_fields.items()):
            continue
        if fields.get("type") == "EP":
            if endpoint not in (None, fields["object"]):
                continue
            endpoint = fields["object"]
        position += 1
    if position != len(wanted):
        raise Failed(f"{what}: no {wanted[position]} after {wanted[:position]}")
    return endpoint


CLIENT = [("dapl:object_create", {"type": "IA", "ia": "soft"}),
          ("dat:call", {"function": "dat_ep_create"}),
          ("dapl:call", {"function": "ep_create"}),
          ("dapl:object_create", {"type": "EP"}),
          ("dapl:call_return", {"function": "ep_create", "status": "DAT_SUCCESS"}),
          ("dat:call_return", {"function": "dat_ep_create", "status": "DAT_SUCCESS"}),
          ("dapl:ep_state", {"to": "ACTIVE_CONNECTION_PENDING"}),
          ("dapl:ep_state", {"from": "ACTIVE_CONNECTION_PENDING", "to": "CONNECTED"}),
          ("dapl:connection", {"event": "DAT_CONNECTION_EVENT_ESTABLISHED"}),
          ("dapl:post", {"operation": "send"}),
          ("dapl:frame", {"direction": "out", "message": "Send"}),
          ("dapl:completion", {"operation": "send", "status": "DAT_DTO_SUCCESS"}),
          ("dapl:completion", {"operation": "recv", "status": "DAT_DTO_SUCCESS"})]
SERVER = [("dapl:object_create", {"type": "PSP"}),
          ("dapl:evd_arm", {}),
          ("dapl:connection", {"event": "DAT_CONNECTION_REQUEST_EVENT", "type": "CR"}),
          ("dapl:evd_wake", {}),
          ("dapl:call", {"function": "cr_accept"}),
          ("dapl:ep_state", {"to": "COMPLETION_PENDING"}),
          ("dapl:ep_state", {"from": "COMPLETION_PENDING", "to": "CONNECTED"}),
          ("dapl:connection", {"event": "DAT_CONNECTION_EVENT_ESTABLISHED"}),
          ("dapl:frame", {"direction": "in", "message": "Send"}),
          ("dapl:completion", {"operation": "recv", "status": "DAT_DTO_SUCCESS"}),
          ("dapl:post", {"operation": "send"}),
          ("dapl:completion", {"operation": "recv", "status": "DAT_DTO_ERR_FLUSHED", "length": "0"})]


# One process has both sides; each sequence begins where the EP is known as the object.
VERBS_ACTIVE = [("dapl:verbs_call", {"call": "rdma_resolve_addr", "status": "ok", "type": "EP"}),
                ("dapl:verbs_event", {"source": "rdma_cm", "event": "RDMA_CM_EVENT_ADDR_RESOLVED", "code": "0"}),
                ("dapl:verbs_call", {"call": "rdma_resolve_route", "status": "ok"}),
                ("dapl:verbs_event", {"event": "RDMA_CM_EVENT_ROUTE_RESOLVED"}),
                ("dapl:verbs_call", {"call": "rdma_connect", "code": "0"}),
                ("dapl:verbs_event", {"event": "RDMA_CM_EVENT_CONNECT_RESPONSE", "type": "EP"}),
                ("dapl:verbs_call", {"call": "ibv_modify_qp", "what": "RTR", "status": "ok", "type": "EP"}),
                ("dapl:verbs_call", {"call": "ibv_modify_qp", "what": "RTS"}),
                ("dapl:verbs_call", {"call": "rdma_establish"}),
                ("dapl:connection", {"event": "DAT_CONNECTION_EVENT_ESTABLISHED"})]
VERBS_PASSIVE = [("dapl:verbs_event", {"event": "RDMA_CM_EVENT_CONNECT_REQUEST", "object": "0x0", "type": "-"}),
                 ("dapl:verbs_call", {"call": "ibv_modify_qp", "what": "RTS", "type": "EP"})]
# The return of rdma_accept is traced by the calling thread, its result by another thread, possibly earlier.
VERBS_ACCEPTED = (("dapl:verbs_call", {"call": "rdma_accept", "status": "ok", "type": "EP"}),
                  ("dapl:verbs_event", {"event": "RDMA_CM_EVENT_ESTABLISHED", "type": "EP"}))


def check_verbs(events, pid):
    active = expect_sequence(events, pid, VERBS_ACTIVE, "active side")
    passive = {expect_sequence(events, pid, [*VERBS_PASSIVE, last], "passive side") for last in VERBS_ACCEPTED}
    if len(passive) != 1 or active in passive:
        raise Failed(f"active side {active}, passive side {passive}")
    refused = {(f["call"], f["status"]) for name, _, f in events
               if name == "dapl:verbs_call" and f["status"] != "ok"}
    for wanted in (("ibv_alloc_pd", "ENOMEM"), ("ibv_reg_mr", "ENOMEM"), ("ibv_create_cq", "ENOMEM"),
                   ("ibv_create_qp", "ENOMEM"), ("ibv_modify_qp", "ENOMEM"), ("ibv_post_send", "ENOMEM"),
                   ("rdma_create_event_channel", "EMFILE"), ("rdma_connect", "ENOMEM")):
        if wanted not in refused:
            raise Failed(f"no {wanted} among {sorted(refused)}")
    of_nothing = {f["what"] for name, _, f in events if name == "dapl:verbs_call" and f["call"] == "ibv_alloc_pd"}
    if of_nothing != {"-"}:
        raise Failed(f"ibv_alloc_pd of {of_nothing}")
    failed = [f for name, _, f in events if name == "dapl:verbs_completion"]
    if not any(f["status"] == "IBV_WC_WR_FLUSH_ERR" and f["code"] == "5" and f["qp"] != "0" and
               f["queue"] == "receive" for f in failed):
        raise Failed(f"no flushed receive in {failed}")


def record_verbs(session, build, probes):
    """Records every fault in a connection with transfers, and flushed receives. Returns the first process."""
    environment = dict(session.environment, DAT_OVERRIDE=f"{build}/tests/verbs_mock/dat.conf", **probes,
                       LD_LIBRARY_PATH=f"{build}/verbs_mock")
    pids = []
    for words in (("verbs_faults", "--run_test=*/transfers_fail_cleanly"),
                  ("datconform", "--ia", "mock", "--run_test=disconnect/disc_flushes_recvs")):
        program = subprocess.Popen([f"{build}/bin/{words[0]}", *words[1:]], env=environment, preexec_fn=as_user,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        out, _ = program.communicate(timeout=100)
        if program.returncode != 0:
            raise Failed(f"{words[0]}: {out}")
        pids.append(program.pid)
    return pids[0]


def ends_of(events, pid, endpoint):
    for name, process, fields in events:
        if name == "dapl:connection" and process == pid and fields["object"] == endpoint:
            return re.findall(r"[\d.]+:\d+", fields["ends"])
    raise Failed(f"no connection of {endpoint}")


def check(events, client, server):
    ours = expect_sequence(events, client, CLIENT, "client")
    theirs = expect_sequence(events, server, SERVER, "server")
    if ends_of(events, client, ours) != ends_of(events, server, theirs)[::-1]:
        raise Failed(f"ends do not match: {ends_of(events, client, ours)}, {ends_of(events, server, theirs)}")
    posted = [f for n, p, f in events if n == "dapl:post" and p == client and f["operation"] == "send"]
    done = [f for n, p, f in events if n == "dapl:completion" and p == client and f["operation"] == "send"]
    if not posted or [(f["cookie"], f["length"]) for f in posted] != [(f["cookie"], f["length"]) for f in done]:
        raise Failed("posted sends and their completions differ")


def follow_document(session, build, source):
    """Runs the five commands of the document in a folder, and checks the picture."""
    with open(f"{source}/docs/tracing.md", encoding="utf-8") as file:
        commands = re.search(r"\n## From nothing.*?\n```\n(.*?)```\n", file.read(), re.S).group(1)
    if len(commands.splitlines()) != 5:
        raise Failed(f"not five commands:\n{commands}")
    program = f"{session.home}/program"
    with open(program, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{build}/samples/ping --server --port {PORT} > server.log & sleep 1\n"
                   f"{build}/samples/ping --port {PORT} --count 2 --size 100 127.0.0.1 && wait\n")
    os.chmod(program, 0o755)
    path = os.pathsep.join((session.home, f"{build}/bin", f"{source}/tools", session.environment["PATH"]))
    result = subprocess.run(["bash", "-ec", f"cd {session.home}\n{commands}"],
                            env=dict(session.environment, PATH=path), preexec_fn=as_user, check=False,
                            capture_output=True, text=True, timeout=100)
    said = result.stdout + result.stderr
    if result.returncode != 0 or "\n1: 127.0.0.1:" not in said:
        raise Failed(f"ended with {result.returncode}: {said}")
    look_at(f"{session.home}/slow.svg", ("ESTABLISHED", "send 64", "active side", "passive side", "later"))
    return said.splitlines()[-1]


def look_at(picture, wanted):
    texts = xml.etree.ElementTree.parse(picture).getroot().iter("{http://www.w3.org/2000/svg}text")
    words = " ".join("".join(text.itertext()) for text in texts)
    for word in wanted:
        if word not in words:
            raise Failed(f"the chart does not show {word}: {words}")


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    build, source, way = sys.argv[1:]
    library = f"{build}/lib/libudapl-lttng.so.1"
    missing = [t for t in ("lttng", "lttng-sessiond", "babeltrace2") if shutil.which(t) is None]
    if missing or not os.path.exists(library):
        print(f"SKIPPED: no {', '.join(missing) or library}")
        return 77
    if way == "verbs" and not os.path.exists(f"{build}/bin/verbs_faults"):
        print("SKIPPED: no doubles of the RDMA libraries in this build")
        return 77
    probes = {"LD_PRELOAD": library} if way == "preload" else {"DAT_TRACE_LTTNG": "1"}
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o755)
        if os.getuid() == 0:
            os.chown(home, NOBODY, NOBODY)
        environment = {"PATH": os.environ["PATH"], "HOME": home, "LTTNG_HOME": home,
                       "LTTNG_UST_REGISTER_TIMEOUT": "-1", "DAT_OVERRIDE": f"{build}/etc/dat.conf"}
        session = Session(home, environment)
        try:
            session.begin(way != "document")
            if way == "document":
                print(follow_document(session, build, source))
                return 0
            if way == "verbs":
                program = record_verbs(session, build, probes)
                session.end()
                events = read_events(session.run("babeltrace2", f"{home}/trace").stdout)
                check_verbs(events, program)
                print(f"{len(events)} events, verbs and rdma_cm by name")
                return 0
            client, server = transfer(session, f"{build}/samples", probes)
            session.end()
            text = session.run("babeltrace2", f"{home}/trace").stdout
            events = read_events(text)
            check(events, client, server)
            chart = session.run(sys.executable, f"{source}/tools/dattrace-chart", f"{home}/trace",
                                f"--output={home}/chart.svg", user=None)
            look_at(f"{home}/chart.svg", ("ESTABLISHED", "send 4096", str(client), str(server), "127.0.0.1"))
            print(f"{len(events)} events, both sides in order; {chart.stdout.strip()}")
            return 0
        except Failed as failure:
            print(failure)
            return 1
        finally:
            session.stop_daemon()


if __name__ == "__main__":
    sys.exit(main())
