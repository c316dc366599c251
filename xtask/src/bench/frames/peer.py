"""One side of a measurement of frames: gives or takes so many of one size, by plain TCP, ZeroMQ or thalweg.

Usage: peer.py give|take TOOL FRAMES BYTES DIRECTORY

The side that takes says `ready` and where it is found; the side that gives waits for a line on its input, and begins.
Each ends with one line of JSON: when it began and ended, by the clock that both share, and the CPU time of all of its
threads in between. Payloads are `bytes`, the same one again and again, so that none of the tools copies them in Python.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: Frames that may wait at either side.
AHEAD = 16
HEAD = struct.Struct(">Q")


def payload(size: int) -> bytes:
    """What every frame holds."""
    return random.Random(size).randbytes(size)


Give = Callable[[bytes], object]


def tcp_give(place: str, directory: Path) -> Iterator[Give]:
    host, _, port = place.rpartition(":")
    with socket.create_connection((host, int(port))) as stream:

        def give(frame: bytes) -> None:
            stream.sendall(HEAD.pack(len(frame)))
            stream.sendall(frame)

        yield give
        stream.shutdown(socket.SHUT_WR)
        # Until the other side has closed: it has everything.
        stream.recv(1)


def tcp_take(say: Callable[[str], None], frames: int, directory: Path) -> Iterator[Any]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        say("127.0.0.1:%d" % server.getsockname()[1])
        stream, _ = server.accept()
        with stream:
            head = bytearray(HEAD.size)
            for _ in range(frames):
                fill(stream, memoryview(head))
                # A new one for each, as the others have.
                frame = bytearray(HEAD.unpack(head)[0])
                fill(stream, memoryview(frame))
                yield frame


def fill(stream: socket.socket, view: memoryview) -> None:
    while view:
        count = stream.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]


def zeromq_give(place: str, directory: Path, curve: bool) -> Iterator[Give]:
    import zmq

    context = zmq.Context()
    pipe = context.socket(zmq.PUSH)
    pipe.set_hwm(AHEAD)
    if curve:
        pipe.curve_serverkey = (directory / "server.public").read_bytes()
        pipe.curve_publickey, pipe.curve_secretkey = zmq.curve_keypair()
    pipe.connect(f"tcp://{place}")
    yield lambda frame: pipe.send(frame, copy=False)
    pipe.close(linger=-1)
    context.term()


def zeromq_take(say: Callable[[str], None], frames: int, directory: Path, curve: bool) -> Iterator[Any]:
    import zmq

    context = zmq.Context()
    pipe = context.socket(zmq.PULL)
    pipe.set_hwm(AHEAD)
    if curve:
        public, pipe.curve_secretkey = zmq.curve_keypair()
        (directory / "server.public").write_bytes(public)
        pipe.curve_server = True
    port = pipe.bind_to_random_port("tcp://127.0.0.1")
    say(f"127.0.0.1:{port}")
    for _ in range(frames):
        yield pipe.recv(copy=False).buffer
    pipe.close()
    context.term()


def thalweg_give(place: str, directory: Path) -> Iterator[Give]:
    import thalweg

    with thalweg.Sender(place, ticket=directory / "ticket", state=directory / "giver") as sender:
        yield sender.push


def thalweg_take(say: Callable[[str], None], frames: int, directory: Path) -> Iterator[Any]:
    import thalweg

    (directory / "hub").mkdir(exist_ok=True)
    ticket = directory / "ticket"
    with thalweg.Hub(directory / "hub", ticket) as hub:
        place = hub.place("frames")
        with thalweg.Receiver(place, ticket=ticket, state=directory / "taker") as receiver:
            say(place)
            for what in receiver:
                if not isinstance(what, thalweg.Frame):
                    raise RuntimeError(what)
                yield what.data


def give(tool: str, place: str, directory: Path) -> Iterator[Give]:
    if tool == "tcp":
        return tcp_give(place, directory)
    if tool == "thalweg":
        return thalweg_give(place, directory)
    return zeromq_give(place, directory, tool == "curve")


def take(tool: str, say: Callable[[str], None], frames: int, directory: Path) -> Iterator[Any]:
    if tool == "tcp":
        return tcp_take(say, frames, directory)
    if tool == "thalweg":
        return thalweg_take(say, frames, directory)
    return zeromq_take(say, frames, directory, tool == "curve")


def main() -> None:
    role, tool, frames, size, directory = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5])
    frame = payload(size)

    def say(word: str) -> None:
        print(word, flush=True)

    if role == "give":
        giving = give(tool, sys.stdin.readline().strip(), directory)
        push = next(giving)
        # The first opens everything.
        push(frame)
        sys.stdin.readline()
        began, cpu = time.monotonic(), time.process_time()
        for _ in range(frames):
            push(frame)
        for _ in giving:
            pass
        ended = time.monotonic()
    else:
        taken, last, began, cpu, ended = 0, None, 0.0, 0.0, 0.0
        for last in take(tool, say, frames + 1, directory):
            if taken == 0:
                began, cpu = time.monotonic(), time.process_time()
                say("first")
            taken += 1
            ended = time.monotonic()
        if taken != frames + 1 or last is None or bytes(last) != frame:
            raise SystemExit(f"{taken} of {frames + 1} frames came, or another one")
    say(json.dumps({"began": began, "ended": ended, "cpu_s": time.process_time() - cpu, "pid": os.getpid()}))


if __name__ == "__main__":
    main()
