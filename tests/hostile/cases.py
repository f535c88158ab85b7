# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""One case per promise: what a hostile peer does must not affect others. Where traffic could be disturbed, a
bystander runs. Latencies are printed and not judged, because machines are noisy."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import time

import wire
from support import Failed, eventually, require

BYSTANDER = b"bystander"  # always accepted by victim.c
BAD_RESPONSE = 5  # DAT_DTO_ERR_BAD_RESPONSE
CASES = []


class Skipped(Exception):
    pass


def case(function):
    CASES.append(function)
    return function


@contextlib.contextmanager
def peers(count, address, **how):
    made = [wire.Peer(address, **how) for _ in range(count)]
    try:
        yield made
    finally:
        for peer in made:
            peer.close()


# ---- before a connection is established ---------------------------------------------------------


@case
def rejected_requests_hold_few_descriptors(setup):
    """The provider waits for rejected peers to hang up, but with a limited number of descriptors."""
    with setup.victim("--reject") as victim, victim.bystander():
        before = victim.descriptors()
        most = 0
        with peers(0, victim.address) as made:
            for _ in range(12):
                for _ in range(50):
                    made.append(wire.Peer(victim.address).push(wire.request()))
                # Undecided requests hold descriptors as well, so wait for the application's decisions first.
                eventually(lambda: victim.count("request") >= len(made), "all requests are rejected")
                most = max(most, victim.descriptors())
        print(f"  at most {most - before} descriptors for 600 rejected peers")
        require(most - before <= 256, f"{most - before} descriptors are held")


@case
def application_keeps_descriptors(setup):
    """Requests that wait for a decision must not use up the descriptors of the process."""
    with setup.victim("--keep", descriptors=128) as victim, victim.bystander():
        with peers(0, victim.address) as made:
            for _ in range(400):
                made.append(wire.Peer(victim.address).push(wire.request()))
            eventually(lambda: victim.count("request") > 50, "requests arrive")
            time.sleep(0.5)  # more requests would arrive now
            held = victim.descriptors()
            print(f"  {held} of 128 descriptors are in use")
            require(held <= 128 - 8, f"{held} of 128 descriptors are in use")
            victim.check_alive()


@case
def requests_leave_room_for_connection_events(setup):
    """Strangers fill the EVD while the application is busy; the end of a connection must still be reported."""
    with setup.victim("--qlen", "16") as victim, peers(3, victim.address) as friends:
        for friend in friends:
            require(friend.connect(BYSTANDER), "a friend is not accepted")
        eventually(lambda: victim.count("established") == 3, "three connections")
        victim.command("busy")
        with peers(64, victim.address) as strangers:
            for stranger in strangers:
                stranger.push(wire.request())
            refused = 0
            for stranger in reversed(strangers):  # there is no room for the last ones
                stranger.socket.settimeout(2)
                try:
                    refused += stranger.reply() is not None
                except TimeoutError:
                    break
            require(refused >= 32, f"only {refused} of 64 requests are refused")
            for friend in friends:
                friend.socket.shutdown(1)
                require(friend.ended(), "the end of a connection is not answered")
            victim.command("serve")
            eventually(lambda: victim.ends().count("disconnected") >= 3, "three disconnections")


@case
def silent_networks_do_not_keep_a_good_client_out(setup):
    """Many addresses of five networks occupy all places and send nothing."""
    for _ in range(3):  # an attempt may fail if the machine stalls for seconds
        with setup.victim(settings="half_open=20", trace=True) as victim, peers(0, None) as made:
            for round_ in range(60):
                source = f"127.{1 + round_ % 5}.7.{1 + round_ % 40}"
                made.append(wire.Peer(victim.address, source=source))
            with victim.bystander():
                waited = victim.trace_text().count("no complete MPA Request in time")
            print(f"  {waited} places became free by the time limit before a good client was in")
            if waited == 0:
                return
    raise Failed("a good client had to wait for the time limit of the silent ones")


@case
def kept_requests_of_lost_peers_hold_no_descriptors(setup):
    """The peer disconnects before the application has decided."""
    with setup.victim("--keep") as victim, victim.bystander():
        before = victim.descriptors()
        for way in ("abort", "close"):
            with peers(50, victim.address) as made:
                seen = victim.count("request")
                for peer in made:
                    peer.push(wire.request())
                eventually(lambda: victim.count("request") >= seen + 50, "50 requests")
                require(victim.descriptors() >= before + 50, "the requests hold no descriptors?")
                for peer in made:
                    getattr(peer, way)()
                eventually(lambda: victim.descriptors() <= before, f"descriptors after {way}")
        victim.command("accept")
        eventually(lambda: victim.ends().count("not-accepted") == 100, "100 failed accepts")


@case
def silent_start_is_limited(setup):
    """MPA revision 1 and a start without a first message: a peer that begins a frame must complete it in time."""
    for how in ({"revision": 1}, {"peer_to_peer": False}, {}):
        with setup.victim(settings="peer_timeout=1") as victim, victim.bystander():
            with peers(1, victim.address) as (peer,):
                require(peer.connect(**how), "not accepted")
                peer.push(wire.send(1, b"hello")[:3])
                eventually(lambda: victim.count("ended"), "the silent peer is given up")


@case
def stopped_program_keeps_its_peers(setup):
    """The program is stopped, as by a debugger, for longer than peers may be silent. All that they owe has arrived
    when it continues: a Request, the first message, the rest of a frame."""
    message = wire.send(1, b"message")
    variables = {"DAPL_CM_RTU_TIMEOUT_MS": "5000"}
    with setup.victim(settings="peer_timeout=1", variables=variables) as victim, contextlib.ExitStack() as stack:
        sending, starting, requesting = [], [], []
        for some in (sending, starting, requesting):
            some += stack.enter_context(peers(100, victim.address))
            for peer in some:
                if some is starting:
                    peer.push(wire.request()).reply()
                if some is sending:
                    require(peer.connect(), "not accepted")
        for peer in sending:
            peer.push(message[:9])
        time.sleep(0.2)  # the victim has read all of it
        os.kill(victim.process.pid, signal.SIGSTOP)
        for peer in requesting:
            peer.push(wire.request())
        for peer in starting:
            peer.push(wire.read_request(1, 1, 0, 0))
        for peer in sending:
            peer.push(message[9:])
        time.sleep(5.5)
        os.kill(victim.process.pid, signal.SIGCONT)
        for name, some, answer in (("requesting", requesting, wire.Peer.reply), ("starting", starting, wire.Peer.frame),
                                   ("sending", sending, wire.Peer.frame)):
            lost = sum(1 for peer in some if answer(peer) is None)
            require(lost == 0, f"{lost} of {len(some)} {name} peers are lost")


# ---- on a connection ----------------------------------------------------------------------------


@case
def wrong_answer_to_a_read_is_a_bad_response(setup):
    """A response with a wrong STag, a wrong offset, too many bytes or too few."""
    for change in ("stag", "offset", "long", "short"):
        with setup.victim() as victim, victim.bystander(), peers(1, victim.address) as (peer,):
            require(peer.connect(), "not accepted")
            eventually(lambda: victim.count("established") == 2, "the connection")
            index = [line for line in victim.lines if line.startswith("established")][1].split()[1]
            victim.command(f"read {index} 77 0 64")
            stag, offset, size, _, _ = peer.frame().read_request()
            peer.push(wire.read_response(stag + (change == "stag"), offset + (change == "offset"),
                                         bytes(size + (change == "long") - (change == "short"))))
            eventually(lambda: victim.count("ended"), "the connection breaks")
            eventually(lambda: victim.count("completion"), "the Read completes")
            line = next(line for line in victim.lines if line.startswith("completion"))
            require(line.split()[3] == str(BAD_RESPONSE), f"{change}: {line}")


@case
def end_inside_a_message_is_orderly(setup):
    """FIN after a complete FPDU that is not the last one of its message, and FIN inside one."""
    half = wire.send(1, b"half", last=False)
    for sent, end in (half, "disconnected"), (half[:-1], "broken"):
        with setup.victim() as victim, victim.bystander(), peers(1, victim.address) as (peer,):
            require(peer.connect(), "not accepted")
            peer.push(sent)
            peer.close()
            eventually(lambda: victim.count("ended"), "the end is told")
            require(victim.ends() == [end], f"told as {victim.ends()}")


@case
def half_messages_do_not_starve_a_shared_queue(setup):
    """As many incomplete messages as the SRQ has buffers, then silence."""
    with setup.victim("--srq", "32", settings="peer_timeout=1") as victim:
        with peers(32, victim.address) as made:
            for peer in made:
                require(peer.connect(), "not accepted")
                peer.push(wire.send(1, b"half", last=False))
            eventually(lambda: victim.count("established") == 32, "32 connections")
            eventually(lambda: victim.count("ended") == 32, "the silent peers are given up")
            victim.check_service()


@case
def stalled_peers_leave_time_and_memory_to_others(setup):
    """Peers send more than the program receives, so their connections stall, and use up the staging memory. Another
    peer may still pause in a frame, and what the stalled ones hold is limited."""
    count = 40
    message = wire.send(1, b"message")
    flood = b"".join(wire.send(msn, bytes(4000)) for msn in range(1, 501))
    with setup.victim(settings="staging=1") as victim, peers(count, victim.address) as made:
        with peers(1, victim.address) as (good,):
            for peer in (good, *made):
                require(peer.connect(), "not accepted")
            eventually(lambda: victim.count("established") == count + 1, "all connections")
            before = victim.resident()
            victim.command("busy")  # no receives are posted again
            for peer in made:
                peer.push(flood)
            time.sleep(0.5)
            good.push(message[:9])
            time.sleep(2.5)
            each = (victim.resident() - before) // count
            print(f"  {each} bytes for each stalled connection")
            good.push(message[9:])
            victim.command("serve")
            require(good.frame() is not None, "a peer that paused in a frame is lost")
            if not setup.sanitized:
                require(each <= 256 * 1024, f"{each} bytes for each stalled connection")


@case
def hard_watermark_counts_on_a_shared_queue(setup):
    """A peer that consumes more than its share of the buffers is dropped; others are not."""
    with setup.victim("--srq", "32") as victim, victim.bystander():
        victim.command("watermarks -1 4")
        with peers(1, victim.address) as (peer,):
            require(peer.connect(), "not accepted")
            eventually(lambda: victim.count("established") == 2, "the connection")
            victim.command("busy")  # no buffers are posted again
            peer.push(b"".join(wire.send(msn, b"x") for msn in range(1, 9)))
            require(peer.ended(), "the peer is not dropped")
            victim.command("serve")
            eventually(lambda: victim.ends() == ["broken"], "the peer is dropped")


@case
def wrong_stags_are_limited_in_rate(setup):
    """A wrong STag ends the connection; after too many of them no connection is accepted for a while."""
    with setup.victim() as victim, victim.bystander():
        guesses = 0
        for stag in range(1, 400):
            with contextlib.suppress(OSError):
                peer = wire.Peer(victim.address, source="127.3.3.3")
                if peer.connect():
                    peer.push(wire.write(stag * 2654435761 % 2**32, 0, b"x"))
                    guesses += peer.frame() is not None
                peer.abort()
        print(f"  {guesses} guesses of 399")
        require(guesses < 300, f"{guesses} of 399 guesses were possible")
        victim.check_service()


@case
def idle_connections_hold_little_memory(setup):
    """An unused connection takes at most 15 KiB of memory in total; after traffic that filled its buffers, it
    releases them."""
    most = 15 * 1024
    count = 128
    if setup.sanitized:
        raise Skipped("memory is the sanitizer's")
    with setup.victim() as victim, peers(count, victim.address) as made:
        fresh = victim.resident()
        for peer in made:
            require(peer.connect(), "not accepted")
        eventually(lambda: victim.count("established") == count, "all connections")
        before = victim.resident()
        each = (before - fresh) // count
        print(f"  {each} bytes for each new connection")
        require(each <= most, f"{each} bytes for each new connection")
        payload = bytes(60000)
        burst = wire.write(victim.stag, victim.region, payload) * 20
        for peer in made:
            peer.push(burst + wire.send(1, b"done"))
        for peer in made:
            require(peer.frame().payload == b"done", "no answer")
        eventually(lambda: victim.resident() - before <= count * most,
                   f"{(victim.resident() - before) // count} bytes for each idle connection", 10)
        print(f"  {(victim.resident() - before) // count} bytes for each idle connection")


def _flood(address, kind, region, seconds):
    """One hostile process with two connections of tiny frames."""
    frame = {"writes": wire.write(1, 0), "four": wire.write(*region, b"abcd"), "bytes": wire.write(1, 0),
             "segments": None}[kind]
    end = time.monotonic() + seconds
    with peers(2, address) as made:
        for peer in made:
            require(peer.connect(), "not accepted")
            peer.socket.settimeout(0.2)
        if kind == "segments":  # segments of one endless message
            block = wire.send(1, b"", last=False) * 2000
        else:
            block = frame * 2000
        while time.monotonic() < end:
            for peer in made:
                with contextlib.suppress(TimeoutError):
                    if kind == "bytes":
                        for byte in frame * 20:
                            peer.socket.sendall(bytes([byte]))
                    else:
                        peer.socket.sendall(block)


@case
def tiny_frames_cost_the_bystander_little(setup):
    """Eight connections: single bytes, empty Writes, Writes of four bytes, empty Send segments."""
    with setup.victim() as victim:
        with victim.bystander() as calm:
            time.sleep(1)
        with victim.bystander() as result:
            region = (victim.stag, victim.region)
            floods = [multiprocessing.Process(target=_flood, args=(victim.address, kind, region, 4))
                      for kind in ("bytes", "writes", "four", "segments")]
            cpu, begun = victim.cpu_seconds(), time.monotonic()
            for flood in floods:
                flood.start()
            for flood in floods:
                flood.join()
            share = (victim.cpu_seconds() - cpu) / (time.monotonic() - begun)
        print(f"  {share:.2f} processors; median {calm['median_us']:.0f} us without the flood, "
              f"{result['median_us']:.0f} us with it")
        require(all(flood.exitcode == 0 for flood in floods), "a flood failed")
        require(result["max_us"] < 2e6, "the bystander had to wait until the floods were over")
        require(setup.sanitized or share < 1.1, f"the victim uses {share:.2f} processors")


# ---- the network itself -------------------------------------------------------------------------


@case
def listener_survives_the_loss_of_its_address(setup):
    """If the address vanishes, there is an async event and a trace line. When it returns, the listener works again."""
    address = "198.18.55.1"

    def ip(*words):
        return subprocess.run(["ip", "addr", *words, address + "/32", "dev", "lo"], check=False,
                              capture_output=True, text=True)

    if ip("add").returncode != 0:
        raise Skipped("no right to add an address")
    try:
        with setup.victim(device=address, trace=True) as victim:
            victim.address = (address, victim.port)
            with peers(1, victim.address) as (peer,):
                require(peer.connect(), "not accepted")
            ip("del")
            eventually(lambda: victim.count("async"), "an async event")
            require("is no longer on this machine" in victim.trace_text(), "no trace line")
            ip("add")
            with peers(1, victim.address) as (peer,):
                require(peer.connect(), "not accepted after the address has returned")
    finally:
        ip("del")
