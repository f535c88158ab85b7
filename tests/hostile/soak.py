# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Peers connect, send, lie, die and stop for hours; descriptors, threads and memory must not grow."""

import contextlib
import random
import signal
import time

import wire
from support import eventually, require

SAMPLES = 20
# Queues that the first quarter fills on a slow machine, too: their pages count only when they are used.
SHORT_QUEUES = ("--qlen", "256", "--dto-qlen", "1024")
LEAK_LIMIT = 6 << 20  # bytes from the first quarter to the end: pages that the victim touches for the first time


def _talks(peer, victim, rng):
    if peer.connect():
        for msn in range(1, rng.randrange(2, 6)):
            payload = rng.randbytes(rng.randrange(4096))
            peer.push(wire.send(msn, payload))
            frame = peer.frame()
            require(frame is None or frame.payload[:1400] == payload[:1400], "a wrong echo")


def _writes(peer, victim, rng):
    if peer.connect():
        peer.push(wire.write(victim.stag, victim.region, rng.randbytes(20000)))
        peer.push(wire.read_request(2, victim.stag, victim.region, 3000))
        peer.frame()


def _half_message(peer, victim, rng):
    if peer.connect():
        peer.push(wire.send(1, b"half", last=False))


def _half_frame(peer, victim, rng):
    if peer.connect():
        frame = wire.send(1, rng.randbytes(3000))
        peer.push(frame[:rng.randrange(1, len(frame))])


def _damaged(peer, victim, rng):
    if peer.connect():
        frames = bytearray(wire.send(1, rng.randbytes(100)) + wire.write(victim.stag, victim.region))
        for _ in range(rng.randrange(1, 4)):
            frames[rng.randrange(len(frames))] ^= 1 << rng.randrange(8)
        peer.push(bytes(frames))
        peer.socket.settimeout(0.2)
        peer.ended()


def _noise(peer, victim, rng):
    peer.push(rng.randbytes(rng.randrange(1, 600)))


def _half_request(peer, victim, rng):
    frame = wire.request(b"x" * rng.randrange(100))
    peer.push(frame[:rng.randrange(len(frame))])


def _does_not_read(peer, victim, rng):
    if peer.connect():
        peer.push(b"".join(wire.send(msn, bytes(4096)) for msn in range(1, 4)))


def _silent(peer, victim, rng):
    pass


_DEEDS = [_talks, _writes, _half_message, _half_frame, _damaged, _noise, _half_request,
          _does_not_read, _silent]


def soak(setup):
    """Generates traffic, disconnections, kills and stops for the given time."""
    rng = random.Random(20261122)
    samples, count = [], 0
    with setup.victim(*SHORT_QUEUES, settings="peer_timeout=2") as victim, victim.bystander():
        fresh = victim.descriptors()
        end, next_sample = time.monotonic() + setup.seconds, 0.0
        stopped = []
        while time.monotonic() < end:
            source = f"127.{rng.randrange(1, 200)}.{rng.randrange(200)}.{rng.randrange(1, 200)}"
            peer = wire.Peer(victim.address, source=source)
            with contextlib.suppress(OSError):
                rng.choice(_DEEDS)(peer, victim, rng)
            count += 1
            way = rng.random()
            if way < 0.1:
                stopped.append(peer)  # sends and reads nothing any more, like a stopped process
                if len(stopped) > 40:
                    stopped.pop(rng.randrange(40)).abort()
            else:
                getattr(peer, "abort" if way < 0.5 else "close")()
            if time.monotonic() >= next_sample:
                samples.append((victim.descriptors(), victim.threads(), victim.resident()))
                next_sample = time.monotonic() + setup.seconds / SAMPLES
            victim.check_alive()
        for peer in stopped:
            peer.abort()
        eventually(lambda: victim.descriptors() <= fresh, "the descriptors are given back")
        last = (victim.descriptors(), victim.threads(), victim.resident())
    _judge(setup, f"{count} peers", samples, last)


def _judge(setup, peers, samples, last):
    print(f"  {peers}; descriptors, threads, MB:", ", ".join(f"{d} {t} {r >> 20}" for d, t, r in [*samples, last]))
    settled = samples[len(samples) // 4:] or [last]
    require(last[1] <= settled[0][1], "threads grow")
    require(setup.sanitized or last[2] <= settled[0][2] + LEAK_LIMIT, "memory grows")


LIARS = 3  # at a time
LIVES = 20  # connections of a liar


def soak_of_rings(setup):
    """Peers on this host write anything into the memory that they share with the victim. Some are killed."""
    rng = random.Random(20261128)
    samples, killed, rounds, scribbled = [], 0, 0, 0
    with setup.victim(*SHORT_QUEUES, settings="path=shm peer_timeout=2") as victim, victim.bystander():
        fresh = victim.descriptors()
        end, next_sample = time.monotonic() + setup.seconds, 0.0
        liars = []
        while liars or time.monotonic() < end:
            if len(liars) < LIARS and time.monotonic() < end:
                liars.append((victim.start_liar(rng.randrange(1 << 32), LIVES), rng.random() < 0.2))
            for liar, dies in list(liars):
                if dies and rng.random() < 0.05:
                    liar.kill()
                    killed += 1
                elif liar.poll() is None:
                    continue
                liars.remove((liar, dies))
                output, errors = liar.communicate()
                if liar.returncode == -signal.SIGKILL:
                    continue
                require(liar.returncode == 0, f"a liar ended with {liar.returncode}: {errors}")
                came_back, words = (int(word.split("=")[1]) for word in output.split())
                rounds, scribbled = rounds + came_back, scribbled + words
            if time.monotonic() >= next_sample:
                samples.append((victim.descriptors(), victim.threads(), victim.resident()))
                next_sample = time.monotonic() + setup.seconds / SAMPLES
            victim.check_alive()
            time.sleep(0.02)
        eventually(lambda: victim.descriptors() <= fresh, "the descriptors are given back")
        last = (victim.descriptors(), victim.threads(), victim.resident())
        connections, ends = victim.count("established"), victim.ends()
    print(f"  {ends.count('broken')} broken, {ends.count('disconnected')} disconnected")
    require(rounds > 0 and scribbled > 0, "no liar did anything")
    _judge(setup, f"{connections} connections, {rounds} rounds, {scribbled} words, {killed} killed", samples, last)
