"""Streams of what is still being made, through Python."""

from __future__ import annotations

import asyncio
import bz2
import gc
import gzip
import io
import itertools
import json
import lzma
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Daemon, program

import thalweg
import thalweg.aio
from thalweg import _thalweg
from thalweg._work import reaching_of

#: Far more than anything here takes.
LIMIT_S = 60.0


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(0.01)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_a_pipe_goes_to_a_daemon_as_it_is_written(daemon: Daemon, leaves_no_threads: None) -> None:
    """Each piece is readable there before the next is made."""
    reader, writer = os.pipe()
    content = os.urandom(3 << 20)
    result: list[thalweg.StreamReport] = []

    def carry() -> None:
        result.append(thalweg.stream(reader, daemon.url("shot"), ticket=daemon.ticket))

    thread = threading.Thread(target=carry, name="carry")
    thread.start()
    for at in range(0, len(content), 1 << 20):
        view = memoryview(content)[at : at + (1 << 20)]
        while view:
            view = view[os.write(writer, view) :]
        wait_until(lambda: size(daemon.root / "shot") == at + (1 << 20), "a piece does not arrive")
    os.close(writer)
    thread.join()
    os.close(reader)
    assert (daemon.root / "shot").read_bytes() == content
    report = result[0]
    assert (report.files_complete, report.files_failed, report.bytes) == (1, 0, len(content))
    assert report.seconds > 0 and report.root and len(report.root) == 64 and report.failures == []


def test_a_far_file_comes_out_of_a_pipe(daemon: Daemon, tmp_path: Path) -> None:
    content = os.urandom(1 << 20)
    (daemon.root / "there").write_bytes(content)
    with (tmp_path / "here").open("wb") as file:
        report = thalweg.stream(daemon.url("there"), file, ticket=daemon.ticket)
        assert not file.closed
    assert report.bytes == len(content) and (tmp_path / "here").read_bytes() == content


def test_a_stream_is_told_of_as_the_programs_are(tmp_path: Path) -> None:
    """``thalweg why`` knows it."""
    source, destination = tmp_path / "made", tmp_path / "there"
    source.write_bytes(b"content")
    thalweg.stream(source, destination)
    words = [program(), "why", "--list", "--json", "--state", str(tmp_path / "state")]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    [told] = [json.loads(line) for line in listed.splitlines()]
    assert (told["event"], told["state"], told["served"]) == ("transfer", "finished", False)
    assert (told["from"], told["to"], told["pid"]) == (str(source), str(destination), os.getpid())


def test_a_socket_is_a_pipe_both_ways(daemon: Daemon) -> None:
    content = os.urandom(3 << 20)
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as others, ours, theirs:
        moving = others.submit(thalweg.stream, theirs, daemon.url("shot"), ticket=daemon.ticket)
        ours.sendall(content)
        ours.shutdown(socket.SHUT_WR)
        report = moving.result()
    assert (report.files_complete, report.bytes) == (1, len(content))
    assert (daemon.root / "shot").read_bytes() == content
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as others, ours:
        with theirs:
            reading = others.submit(lambda: ours.makefile("rb").read())
            report = thalweg.stream(daemon.url("shot"), theirs, ticket=daemon.ticket)
        assert reading.result() == content and report.bytes == len(content)


def test_what_is_dropped_while_a_daemon_does_not_answer_holds_up_no_other_thread(daemon: Daemon) -> None:
    reader, writer = os.pipe()
    moving = thalweg.streaming(reader, daemon.url("shot"), ticket=daemon.ticket, stall_timeout_s=3.0, patience_s=3.0)
    os.write(writer, b"first")
    wait_until(lambda: size(daemon.root / "shot") == 5, "it does not arrive")
    session = _thalweg.Session(daemon.url(), reaching_of({"ticket": str(daemon.ticket)}))
    assert session.list(b"", False)
    counted: list[float] = []
    is_over = threading.Event()

    def count() -> None:
        while not is_over.wait(0.01):
            counted.append(time.monotonic())

    thread = threading.Thread(target=count, name="count")
    thread.start()
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        for what in ("a stream", "a session"):
            begun = time.monotonic()
            if what == "a stream":
                del moving
            else:
                del session
            gc.collect()
            ended = time.monotonic()
            steps = [begun, *(at for at in counted if begun <= at <= ended), ended]
            gap = max(after - before for before, after in itertools.pairwise(steps))
            # A busy machine makes gaps as well; who holds the lock makes one of all the time that it takes.
            assert gap < max(0.2, (ended - begun) / 2), f"{what}: {gap:.2f} s of {ended - begun:.2f} s"
    finally:
        daemon.process.send_signal(signal.SIGCONT)
        is_over.set()
        thread.join()
        os.close(writer)
        os.close(reader)


def test_a_stream_that_is_stopped_while_its_far_side_is_reached_holds_no_pipe(tmp_path: Path) -> None:
    began, goes_on, rsh = (tmp_path / name for name in ("began", "goes-on", "rsh"))
    rsh.write_text(f"#!/bin/sh\ntouch '{began}'\nwhile ! test -e '{goes_on}'; do sleep 0.05; done\nexit 1\n")
    rsh.chmod(0o755)
    reader, writer = os.pipe()
    moving = thalweg.streaming(reader, "ssh://127.0.0.1/shot", rsh=str(rsh))
    os.close(reader)
    try:
        wait_until(began.exists, "nobody reaches the far side")
        moving.stop()
        with pytest.raises(thalweg.StoppedError):
            moving.report()
        with pytest.raises(BrokenPipeError):
            os.write(writer, b"shot")
    finally:
        goes_on.touch()
        os.close(writer)


def test_a_directory_in_which_files_grow_ends_with_its_marker(daemon: Daemon, tmp_path: Path) -> None:
    source = tmp_path / "run7"
    source.mkdir()
    # It is complete when nobody writes it any more.
    growing = (source / "a").open("wb", buffering=0)
    growing.write(b"first")
    with thalweg.streaming(
        f"{source}/", daemon.url("run7"), ticket=daemon.ticket, until_marker="DONE", entries=True, progress_s=0.05
    ) as moving:
        events: list[thalweg.Event] = []
        for event in moving:
            events.append(event)
            if not (source / "b").exists() and size(daemon.root / "run7/a") == 5:
                with growing:
                    growing.write(b", and more")
                (source / "b").write_bytes(b"second")
                (source / "DONE").touch()
        report = moving.report()
    assert (daemon.root / "run7/a").read_bytes() == b"first, and more"
    assert (daemon.root / "run7/b").read_bytes() == b"second"
    assert report.files_complete == 2
    assert {event["path"] for event in events if event["event"] == "entry"} == {"a", "b"}
    assert any(event["event"] == "progress" and "bytes_durable" in event for event in events)


def test_what_cannot_be_streamed_is_an_exception_by_its_kind(daemon: Daemon, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        thalweg.stream(tmp_path / "absent", daemon.url("x"), ticket=daemon.ticket)
    with pytest.raises(ValueError, match="buffer"):
        thalweg.stream(tmp_path, daemon.url("x"), ticket=daemon.ticket, buffer_bytes=1)
    for streams in (0, 257):
        with pytest.raises(ValueError, match="streams: from 1 to 256"):
            thalweg.stream(tmp_path, daemon.url("x"), ticket=daemon.ticket, streams=streams)
    with pytest.raises(ValueError, match="follow"):
        thalweg.stream(tmp_path, daemon.url("x"), ticket=daemon.ticket, follow=True, until_idle_s=1.0)
    with pytest.raises(TypeError, match="untill"):
        thalweg.stream(tmp_path, daemon.url("x"), untill=1)  # type: ignore[call-arg]
    with pytest.raises(OSError, match="descriptor"):
        thalweg.stream(2**20 - 1, daemon.url("x"), ticket=daemon.ticket)


def test_a_stream_that_is_left_makes_durable_what_was_read_and_goes_on(daemon: Daemon, tmp_path: Path) -> None:
    source = tmp_path / "log"
    source.write_bytes(b"a" * 100_000)
    with thalweg.streaming(source, daemon.url("log"), ticket=daemon.ticket, follow=True, progress_s=0.05) as moving:
        for _ in moving:
            if size(daemon.root / "log") == 100_000:
                break
    with pytest.raises(thalweg.StoppedError):
        moving.report()
    with source.open("ab") as file:
        file.write(b"b" * 5)
    report = thalweg.stream(source, daemon.url("log"), ticket=daemon.ticket)
    assert report.bytes_resumed > 0 and (daemon.root / "log").read_bytes() == source.read_bytes()


def test_a_socket_with_a_timeout_takes_all_of_it_however_slowly_it_is_read(tmp_path: Path) -> None:
    """A timeout puts the descriptor into non-blocking mode, which the duplicate shares."""
    content = os.urandom(8 << 20)
    (tmp_path / "there").write_bytes(content)
    ours, theirs = socket.socketpair()
    ours.settimeout(5.0)
    got = bytearray()

    def read() -> None:
        while piece := theirs.recv(200_000):
            got.extend(piece)
            time.sleep(0.002)

    thread = threading.Thread(target=read, name="read")
    thread.start()
    try:
        report = thalweg.stream(tmp_path / "there", ours)
    finally:
        ours.close()
        thread.join()
        theirs.close()
    assert report.bytes == len(content) and got == content


def test_what_an_open_file_has_in_memory_goes_first_and_what_was_read_of_it_does_not(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"the body")
    with (tmp_path / "whole").open("wb") as whole:
        whole.write(b"a header; ")
        thalweg.stream(tmp_path / "body", whole)
        whole.write(b"; the end")
    assert (tmp_path / "whole").read_bytes() == b"a header; the body; the end"
    with (tmp_path / "whole").open("rb") as whole:
        assert whole.read(10) == b"a header; "
        thalweg.stream(whole, tmp_path / "rest")
    assert (tmp_path / "rest").read_bytes() == b"the body; the end"


def test_coroutines_stream_and_a_cancelled_one_stops(
    daemon: Daemon, tmp_path: Path, leaves_no_threads: None
) -> None:
    source = tmp_path / "grown"
    source.write_bytes(os.urandom(1 << 20))

    async def work() -> thalweg.StreamReport:
        endless = asyncio.ensure_future(
            thalweg.aio.stream(source, daemon.url("endless"), ticket=daemon.ticket, follow=True)
        )
        report = await thalweg.aio.stream(source, daemon.url("grown"), ticket=daemon.ticket)
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        return report

    assert asyncio.run(work()).bytes == 1 << 20
    assert (daemon.root / "grown").read_bytes() == source.read_bytes()


#: Streams a file where no file may have more than so many bytes, and says what its failure says.
LIMITED = """
import json, pickle, resource, sys
import thalweg
source, destination, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    thalweg.stream(source, destination)
except thalweg.PartialError as error:
    [failure] = error.failures
    again = pickle.loads(pickle.dumps(failure))
    print(json.dumps({"range": failure.range, "again": again.range, "path": failure.path, "text": str(failure)}))
"""


def test_a_failure_names_the_bytes_that_it_concerns(tmp_path: Path) -> None:
    source, destination, limit = tmp_path / "source", tmp_path / "destination", 1 << 20
    source.write_bytes(os.urandom(3 << 20))
    words = [sys.executable, "-c", LIMITED, str(source), str(destination), str(limit)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    start, end = told["range"]
    # The piece that has the first byte which no file may have there.
    assert start <= limit < end <= 3 << 20, told
    assert told["again"] == told["range"], told
    assert told["path"] in ("source", "destination"), told
    assert f"at bytes {start}..{end}: " in told["text"], told


def test_a_stream_has_a_slot_and_a_receipt(slotted: Daemon, tmp_path: Path) -> None:
    source, receipt = tmp_path / "run7", tmp_path / "receipt"
    source.mkdir()
    (source / "a").write_bytes(os.urandom(50_000))
    (source / "b").write_bytes(b"")
    there = slotted.url("live/")
    report = thalweg.stream(
        f"{source}/", there, ticket=slotted.ticket, until_idle_s=0.2, slot="1s:100kB:5s", receipt=receipt
    )
    assert report.files_complete == 2
    assert report.slot is not None and report.slot.deadline_s == 5 and report.slot.pieces > 0
    assert thalweg.verify(receipt, there, ticket=slotted.ticket).ok
    (slotted.root / "live" / "a").write_bytes(b"another")
    assert not thalweg.verify(receipt, there, ticket=slotted.ticket).ok
    # More than the way carries: refused before anything is sent.
    with pytest.raises(thalweg.BusyError, match="too long"):
        thalweg.stream(source / "a", slotted.url("c"), ticket=slotted.ticket, slot="1s:100MB:5s")
    assert not (slotted.root / "c").exists()
    with pytest.raises(thalweg.UsageError):
        thalweg.stream(source / "a", slotted.url("c"), ticket=slotted.ticket, slot="sometimes")


def test_a_stream_without_a_slot_has_none(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    assert thalweg.stream(tmp_path / "a", daemon.url("a"), ticket=daemon.ticket).slot is None


def test_a_file_that_compresses_is_no_pipe_and_stays_as_it_is(tmp_path: Path) -> None:
    content = b"".join(b"line %d\n" % number for number in range(20_000))
    (tmp_path / "plain").write_bytes(content)
    openers: list[Callable[[Path, str], Any]] = [gzip.open, bz2.open, lzma.open]
    for number, opens in enumerate(openers):
        there = tmp_path / f"compressed{number}"
        for mode in ("wb", "wt"):
            with opens(there, mode) as file:
                with pytest.raises(TypeError, match="descriptor"):
                    thalweg.stream(tmp_path / "plain", file)
                file.write(content if mode == "wb" else content.decode())
            with opens(there, "rb") as file:
                first = file.readline()
                with pytest.raises(TypeError, match="descriptor"):
                    thalweg.stream(file, tmp_path / "out")
                assert first + file.read() == content
    with pytest.raises(TypeError, match="descriptor"):
        thalweg.stream(io.BytesIO(content), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    # What is meant to go compressed goes by its descriptor.
    with gzip.open(tmp_path / "compressed0") as file:
        thalweg.stream(file.fileno(), tmp_path / "out")
    assert gzip.decompress((tmp_path / "out").read_bytes()) == content


def test_files_that_python_wraps_and_pipes_of_processes_are_streamed(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"the content")
    wrapped: list[Callable[[], Any]] = [
        tempfile.TemporaryFile,
        tempfile.NamedTemporaryFile,
        tempfile.SpooledTemporaryFile,
        lambda: (tmp_path / "unbuffered").open("w+b", buffering=0),
        lambda: (tmp_path / "text").open("w+"),
    ]
    for wraps in wrapped:
        with wraps() as file:
            thalweg.stream(tmp_path / "plain", file)
            file.seek(0)
            assert file.read() in (b"the content", "the content")
    for text in (False, True):
        with subprocess.Popen(["echo", "said"], stdout=subprocess.PIPE, text=text) as process:
            assert process.stdout is not None
            thalweg.stream(process.stdout, tmp_path / "said")
        assert (tmp_path / "said").read_bytes() == b"said\n"
        (tmp_path / "said").unlink()
