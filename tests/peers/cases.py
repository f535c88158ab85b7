# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What the unmodified programs of dapl2-utils are asked to do on our libraries.

A case is a server command (or none), a client command and what both must say. {host} is the server's address,
{port} a conn qual of the case's own. The programs' exit status alone is not enough: dtest exits 0 on FAILED.
"""

from dataclasses import dataclass, field, replace

# Cases that do not pass, with the reason. They run all the same; when one passes the run says so.
KNOWN_FAILURES = {}


@dataclass
class Case:
    name: str
    client: list
    server: list = None
    ready: str = None  # the server has said this: the client may start
    expect: list = field(default_factory=list)  # regular expressions the client's output must match
    expect_server: list = field(default_factory=list)
    quit: list = None  # ends the server afterwards; without: it must end by itself
    timeout: int = 150
    client_status: int = 0
    attempts: int = 1
    rounds: int = 1  # so many times in a row
    busy: int = 0    # beside so many programs that only use the CPU


def dapltest(name, operation, *, timeout=150, expect=(), port="45300"):
    """A dapltest client against a dapltest server of its own."""
    return Case(
        name="dapltest." + name,
        server=["dapltest", "-T", "S", "-D", "{ia}", "-n", port],
        ready=r"Service Point Ready",
        client=["dapltest", *operation[:2], "-s", "{host}", "-D", "{ia}", "-n", port, *operation[2:]],
        expect=[r"End of Work -- Client Exiting", *expect],
        quit=["dapltest", "-T", "Q", "-s", "{host}", "-D", "{ia}", "-n", port],
        timeout=timeout)


def transaction(name, options, operations, timeout=150):
    return dapltest("T." + name, ["-T", "T", *options.split(), *operations.split()], timeout=timeout,
                    expect=[r"Total Time"])


def performance(name, options, timeout=150):
    return dapltest("P." + name, ["-T", "P", *options.split()], timeout=timeout, expect=[r"raw: "])


def transactions(emulated):
    for size in (4, 64, 1024, 4096, 65536, 1 << 20, 4 << 20):
        iterations = 100 if size <= 65536 else 3 if emulated else 10
        for transfer in ("SR", "RR", "RW"):
            sync = "" if transfer == "SR" else " client SR 64 server SR 64"
            yield transaction(f"{transfer}.{size}", f"-i {iterations} -V",
                              f"client {transfer} {size} 1 server {transfer} {size} 1{sync}")
    everything = "client RW 4096 2 server RR 2048 4 client SR 1024 4 server SR 4096 2"
    for threads in (1, 4):
        for eps in (1, 8):
            for mode, flag in (("wait", ""), ("poll", "-P")):
                yield transaction(f"mix.t{threads}.w{eps}.{mode}",
                                  f"-i 50 -t {threads} -w {eps} -V {flag}", everything, timeout=120)
    yield transaction("rsp", "-i 1000 -r -V", everything)
    yield transaction("reap_sends_on_recv", "-i 100 -V",
                      "client SR 1024 3 -f server SR 2048 1 -f", timeout=150)
    yield transaction("many_segments", "-i 50 -V", "client SR 512 4 server SR 512 4 client RW 512 4")


def threads(emulated):
    """Its threads post and dequeue on the nonthreadsafe entry, where the machine is busy with other things."""
    for count, eps in ((2, 2), (4, 8)):
        case = transaction(f"SR.threads.t{count}.w{eps}", f"-i 50 -t {count} -w {eps}",
                           "client SR 4096 1 server SR 4096 1", timeout=60)
        yield replace(case, rounds=2 if emulated else 5, busy=2)


def performances(emulated):
    for transfer in ("RW", "RR"):
        for mode in ("b", "p"):
            for size in (4, 4096, 1 << 20):
                count = 1000 if size <= 4096 else 10 if emulated else 100
                yield performance(f"{transfer}.{mode}.{size}", f"-m {mode} -i {count} {transfer} {size} 1")
        yield performance(f"{transfer}.pipeline64", f"-m p -i 2000 -p 64 {transfer} 1024 2")


def limits():
    for limit in ("ia", "pz", "cno", "evd", "ep", "rsp", "psp", "lmr", "rpost", "size_lmr"):
        yield Case(name=f"dapltest.L.{limit}",
                   client=["dapltest", "-T", "L", "-D", "{ia}", "-w", "2", "-m", "200", f"limit_{limit}"],
                   expect=[r"LimitTest:"], timeout=120)


def features():
    for feature in ("hwconn", "endpoint", "pz", "mem", "queryinfo"):
        yield Case(name=f"dapltest.F.{feature}",
                   client=["dapltest", "-T", "F", "-D", "{ia}", "-f", feature],
                   expect=[r"Result: PASS"], timeout=150)
    # It listens itself; the server's name is only looked at.
    yield Case(name="dapltest.F.connmgt",
               client=["dapltest", "-T", "F", "-D", "{ia}", "-s", "{host}", "-f", "connmgt"],
               expect=[r"(?s)Result: PASS.*Result: PASS"], timeout=150)


def dtests(emulated):
    # The programs' own buffers of 4 MB take a minute each there.
    buffers = "-b 65536 " if emulated else ""

    def dtest(name, options="", expect=(r"DAPL Test Complete\. PASSED",), timeout=150):
        # No option of dtest says where the server listens; "waiting" is the last line before it does.
        return Case(name="dtest." + name, server=["dtest", "-P", "{ia}", *options.split()],
                    ready=r"(?i)waiting for|server", expect=list(expect),
                    expect_server=[r"DAPL Test Complete\. PASSED"],
                    client=["dtest", "-P", "{ia}", "-h", "{host}", *options.split()], timeout=timeout)

    yield dtest("default")
    yield dtest("small", "-b 64")
    yield dtest("poll", buffers + "-p")
    yield dtest("cno", buffers + "-c")
    yield dtest("verbose_times", buffers + "-v -t")
    yield dtest("data_check", buffers + "-D", timeout=140)
    yield dtest("write_streaming", buffers + "-w")
    yield dtest("write_pingpong", buffers + "-W")
    # -W and -D set the number of Writes where they stand; -W sets the size only without -D.
    yield dtest("burst_before_pingpong", "-B 3 -W", expect=(r"\(1000 x 1\)",))
    yield dtest("burst_before_data_check", "-B 3 -b 4000 -D", expect=(r"\(1000 x 4000\)",))
    yield dtest("burst_after_data_check", "-D -B 3 -b 4000", expect=(r"\(3 x 4000\)",))
    yield dtest("pingpong_and_data_check", "-W -D -B 2", expect=(r"\(2 x 4194304\)",))
    yield dtest("unidirectional", buffers + "-u -w")
    # Its server listens only after it has told the client where: the client may be too early.
    yield Case(name="dtestx.rc", attempts=3, server=["dtestx", "-P", "{ia}", "-s"], ready=None,
               client=["dtestx", "-P", "{ia}", "-h", "{host}"],
               expect=[r"RDMA_WRITE_WITH_IMMEDIATE_DATA test - PASSED", r"CMP_SWAP test - PASSED",
                       r"FETCH_ADD test - PASSED", r"IB extension test - immed/atomic test PASSED"])
    yield Case(name="dtestx.open_query", client=["dtestx", "-P", "{ia}", "-q"], expect=[r"Open_Query"])
    yield Case(name="dtestcm.1000", server=["dtestcm", "-P", "{ia}", "-s"], ready=None,
               client=["dtestcm", "-P", "{ia}", "-h", "{host}"],
               expect=[r"ALL 1000 CONNECTED on Client!", r"DAPL Connection Test Complete"], timeout=120)
    yield Case(name="dtestcm.multi_listen", server=["dtestcm", "-P", "{ia}", "-s", "-m", "-c", "100"],
               ready=None, client=["dtestcm", "-P", "{ia}", "-h", "{host}", "-m", "-c", "100"],
               expect=[r"ALL 100 CONNECTED on Client!"], timeout=120)
    yield Case(name="dtestsrq.rc", server=["dtestsrq", "-P", "{ia}", "-s"], ready=None,
               client=["dtestsrq", "-P", "{ia}", "-h", "{host}"], expect=[r"DAPL RC SRQ Test Complete"])
    yield Case(name="dtestsrq.many", server=["dtestsrq", "-P", "{ia}", "-s", "-c", "8", "-B", "10"],
               ready=None, client=["dtestsrq", "-P", "{ia}", "-h", "{host}", "-c", "8", "-B", "10"],
               expect=[r"DAPL RC SRQ Test Complete"])


def all_cases(emulated=False):
    """emulated: for a machine of emulated processors, which moves 100 MB/s; less data, the same operations."""
    for group in (dtests, transactions, performances, threads):
        yield from group(emulated)
    for group in (limits, features):
        yield from group()


# Repeated between two network namespaces, and with the packaged registry in front of our provider.
SUBSET = ("dtest.default", "dapltest.T.SR.4096", "dapltest.T.RR.65536", "dapltest.T.RW.1048576",
          "dapltest.T.mix.t4.w8.wait", "dapltest.P.RW.p.4096", "dapltest.P.RR.b.4096", "dtestcm.1000",
          "dtestsrq.rc", "dtestx.rc")
