"""Frames through Python: arrays in, arrays out, losses, sets, coroutines, and what is not copied."""

from __future__ import annotations

import array
import asyncio
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Daemon

import thalweg
import thalweg.aio

#: Far more than anything here takes.
LIMIT_S = 60.0


@dataclass
class Channel:
    """Channels in a hub of this process, of which no thread is left when it has stopped."""

    hub: thalweg.Hub
    ticket: Path

    def sender(self, name: str = "scan", **options: object) -> thalweg.Sender:
        return thalweg.Sender(self.hub.place(name), ticket=self.ticket, **options)  # type: ignore[arg-type]

    def receiver(self, name: str = "scan", **options: object) -> thalweg.Receiver:
        return thalweg.Receiver(self.hub.place(name), ticket=self.ticket, **options)  # type: ignore[arg-type]

    def named(self) -> thalweg.Receiver:
        """One that goes on where the one before it ended."""
        return thalweg.Receiver(self.hub.place("scan"), ticket=self.ticket, name="calib")


@pytest.fixture
def channel(tmp_path: Path, leaves_no_threads: None) -> Iterator[Channel]:
    (tmp_path / "hub").mkdir()
    ticket = tmp_path / "hub-ticket"
    with thalweg.Hub(tmp_path / "hub", ticket) as hub:
        yield Channel(hub, ticket)


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def frames_of(receiver: thalweg.Receiver) -> list[thalweg.Frame]:
    """All that comes, which must be frames."""
    deliveries = list(receiver)
    assert all(isinstance(delivery, thalweg.Frame) for delivery in deliveries), deliveries
    return [delivery for delivery in deliveries if isinstance(delivery, thalweg.Frame)]


def test_arrays_arrive_as_they_were_in_order_and_digested(channel: Channel) -> None:
    images = [np.arange(n, n + 35, dtype=np.uint16).reshape(5, 7) for n in range(20)]
    with channel.receiver() as receiver:
        with channel.sender(producer="camera") as sender:
            assert sender.producer == "camera"
            # Only frames by measured clocks have a latency.
            wait_until(lambda: sender.figures().clock is not None and receiver.figures().clock is not None)
            for number, image in enumerate(images):
                assert sender.push(image, metadata=b"%d" % number) == number
            report = sender.finish()
            assert (report.producer, report.sequence_end, report.figures.frames) == ("camera", 20, 20)
            assert report.figures.waiting == 0 and report.figures.bytes == 20 * 70
        frames = frames_of(receiver)
        assert receiver.next(timeout_s=0.0) is None
        # What is over already, as a difference of two times may be.
        assert receiver.next(timeout_s=-0.01) is None
        assert receiver.report is not None
        figures = receiver.report.figures
    assert [frame.sequence for frame in frames] == list(range(20))
    for number, (frame, image) in enumerate(zip(frames, images, strict=True)):
        assert (frame.producer, frame.metadata, frame.shape, frame.dtype) == ("camera", b"%d" % number, (5, 7), "<u2")
        got = np.asarray(frame)
        assert got.dtype == np.uint16 and np.array_equal(got, image)
        assert len(frame.digest) == 64 and frame.nbytes == len(frame) == 70
        assert abs(frame.time_ns - time.time_ns()) < LIMIT_S * 1e9
    assert (figures.frames, figures.bytes, figures.lost_frames) == (20, 1400, 0)
    assert figures.latency is not None and (figures.latency.count, figures.unmeasured) == (20, 0)
    assert (figures.with_deadline, figures.late, figures.deadline_unknown) == (0, 0, 0)
    assert 0 < figures.latency.p50_ns <= figures.latency.p99_ns <= figures.latency.max_ns * 1.01
    assert receiver.report.producers_finished == 1 and receiver.report.producers_gone == []


def test_what_arrives_is_looked_at_where_it_is_and_cannot_be_written(channel: Channel) -> None:
    image = np.random.default_rng(1).integers(0, 65535, (64, 64), dtype=np.uint16)
    with channel.receiver() as receiver:
        with channel.sender() as sender:
            sender.push(image)
        frame = frames_of(receiver)[0]
    first, second, view = np.asarray(frame), np.asarray(frame), frame.data
    if sys.version_info >= (3, 12):
        assert bytes(memoryview(frame)) == image.tobytes()  # type: ignore[arg-type]
    address = first.__array_interface__["data"][0]
    assert address == second.__array_interface__["data"][0] == frame.__array_interface__["data"][0]
    assert address == np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 1
    # An array, or a view, keeps the bytes when all else is gone.
    del frame, second
    gc.collect()
    others = [bytearray(image.nbytes) for _ in range(64)]
    assert np.array_equal(first, image) and bytes(view) == image.tobytes() and others
    del first
    gc.collect()
    assert bytes(view) == image.tobytes()


#: Arrays whose bytes are not what they say.
STRANGE: list[Any] = [
    np.array([object()]),
    np.zeros(3, [("a", "i4"), ("b", "f8")]),
    (ctypes.c_wchar * 2)(),
]
if hasattr(np.dtypes, "StringDType"):
    STRANGE.append(np.array(["a", "b" * 60], dtype=np.dtypes.StringDType()))


def test_anything_with_a_buffer_can_be_pushed_and_is_yours_again_at_once(channel: Channel) -> None:
    floats = np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    reused = bytearray(b"first")
    with channel.receiver() as receiver:
        with channel.sender() as sender:
            sender.push(b"plain bytes")
            sender.push(reused)
            reused[:] = b"other"
            sender.push(memoryview(b"0123456789")[2:8:2])
            sender.push(array.array("d", [0.5, 1.5]))
            sender.push(floats[:, ::2])
            sender.push(np.array([[True, False]]))
            sender.push(np.array(["2026-11-22"], dtype="M8[s]"))
            sender.push(b"")
            sender.push(np.zeros((0, 3)))
            sender.push((ctypes.c_int * 3)(1, 2, 3))
            sender.push(((ctypes.c_double * 3) * 2)())
            sender.push((ctypes.c_int16.__ctype_be__ * 2)(1, 2))
            for strange in STRANGE:
                with pytest.raises(TypeError, match="push bytes"):
                    sender.push(strange)
            with pytest.raises(TypeError, match="mask"):
                sender.push(np.ma.masked_array([1, 2, 3], [0, 1, 0]))
            with pytest.raises(TypeError):
                sender.push("text")  # type: ignore[arg-type]
        frames = frames_of(receiver)
    assert [bytes(frame) for frame in frames[:3]] == [b"plain bytes", b"first", b"246"]
    assert np.asarray(frames[0]).tobytes() == b"plain bytes" and frames[0].shape == (11,)
    assert np.array_equal(np.asarray(frames[3]), [0.5, 1.5]) and frames[3].dtype == "<f8"
    assert np.array_equal(np.asarray(frames[4]), floats[:, ::2])
    assert np.asarray(frames[5]).tolist() == [[True, False]]
    assert np.asarray(frames[6]).dtype == np.dtype("M8[s]") and str(np.asarray(frames[6])[0]) == "2026-11-22T00:00:00"
    assert len(frames[7]) == 0 and bytes(frames[7]) == b"" and frames[7].data.nbytes == 0
    assert np.asarray(frames[8]).shape == (0, 3)
    assert np.asarray(frames[9]).dtype == np.int32 and np.asarray(frames[9]).tolist() == [1, 2, 3]
    assert np.asarray(frames[10]).shape == (2, 3) and np.asarray(frames[10]).dtype == np.float64
    assert frames[11].dtype == ">i2" and np.asarray(frames[11]).tolist() == [1, 2]
    assert len(frames) == 12


def test_a_producer_that_lies_about_type_and_shape_has_nobody_read_beyond_what_came(channel: Channel) -> None:
    lies: list[tuple[str, list[int]]] = [
        ("|O8", [1]),  # An address that the producer chose.
        ("d", [4]),
        ("<M8[s]", [4]),
        ("<U9", [2]),
        ("|S5", [1]),
        ("<f8", []),
        ("<u1,<u1", [2]),
        ("", [4, 1]),
    ]
    with channel.receiver() as receiver:
        with channel.sender() as sender:
            for dtype, shape in lies:
                head = {"set": None, "time_ns": 0, "deadline_ns": None, "dtype": dtype, "shape": shape, "metadata": b""}
                sender.push_prepared(b"1234", head, LIMIT_S)
        *frames, plain = frames_of(receiver)
    assert len(frames) == len(lies) - 1
    for frame in frames:
        assert bytes(frame) == bytes(frame.data) == b"1234"
        with pytest.raises(ValueError, match="are no array of"):
            np.asarray(frame)
        with pytest.raises((ValueError, BufferError)):
            frame.__buffer__(0)
    assert np.asarray(plain).tolist() == list(b"1234")


def test_a_buffer_has_the_shape_and_type_that_the_array_has(channel: Channel) -> None:
    arrays = [np.arange(24).reshape(2, 3, 4).astype(kind) for kind in ("u1", "i2", "<u2", "i4", "u8", "f4", "f8", "?")]
    others = [np.arange(4, dtype=">u2"), np.zeros(3, "c8"), np.zeros((0, 3))]
    with channel.receiver() as receiver:
        with channel.sender() as sender:
            for one in [*arrays, *others]:
                sender.push(one)
        frames = frames_of(receiver)
    for one, frame in zip(arrays, frames, strict=False):
        got = np.asarray(frame.__buffer__(0))
        assert got.dtype == one.dtype and np.array_equal(got, one)
    for one, frame in zip(others, frames[len(arrays) :], strict=True):
        with pytest.raises(BufferError):
            frame.__buffer__(0)
        got = np.asarray(frame)
        assert got.dtype == one.dtype and np.array_equal(got, one)


def test_a_receiver_that_is_closed_lets_go_who_waits_for_it(channel: Channel) -> None:
    receiver = channel.receiver()
    got: list[object] = []
    waiting = [threading.Thread(target=lambda: got.append(receiver.next())) for _ in range(2)]
    waiting += [threading.Thread(target=lambda: got.append(list(receiver)))]
    for one in waiting:
        one.start()
    time.sleep(0.2)
    receiver.close()
    for one in waiting:
        one.join(LIMIT_S)
        assert not one.is_alive()
    assert sorted(map(repr, got)) == ["None", "None", "[]"]


def test_a_frame_that_came_goes_on_as_it_is(channel: Channel) -> None:
    image = np.arange(12, dtype=">i4").reshape(3, 4)
    with channel.receiver("a") as one, channel.receiver("b") as two:
        with channel.sender("a") as sender:
            sender.push(image)
        with channel.sender("b") as sender:
            for frame in frames_of(one):
                sender.push(frame)
        went_on = frames_of(two)[0]
    assert went_on.dtype == ">i4" and np.array_equal(np.asarray(went_on), image)


def test_a_frame_without_bytes_is_a_frame(channel: Channel) -> None:
    place = channel.hub.place("scan")
    came = []
    with thalweg.Receiver(place, ticket=channel.ticket) as receiver:
        with thalweg.Sender(place, ticket=channel.ticket) as sender:
            sender.push(b"", deadline_s=2.0)
            sender.push(b"x")
        while frame := receiver.next():
            assert isinstance(frame, thalweg.Frame)
            came.append((len(frame), frame.deadline_ns))
    assert came == [(0, 2_000_000_000), (1, None)]


def test_the_latest_only_drops_and_names_every_frame_that_it_skips(channel: Channel) -> None:
    with channel.receiver(policy="latest-only") as receiver:
        with channel.sender(producer="p") as sender:
            for number in range(200):
                sender.push(np.full(1000, number, np.uint16))
        got: list[int] = []
        lost: list[int] = []
        for what in receiver:
            if isinstance(what, thalweg.Frame):
                assert (np.asarray(what) == what.sequence).all()
                got.append(what.sequence)
            else:
                assert isinstance(what, thalweg.Lost) and what.producer == "p" and what.reason == "superseded"
                assert len(what) == what.end - what.first
                lost.extend(range(what.first, what.end))
        assert receiver.report is not None
        assert receiver.report.figures.lost == ({"superseded": len(lost)} if lost else {})
    assert sorted(got + lost) == list(range(200)) and got == sorted(got)
    assert got[-1] == 199 and lost


def test_a_sender_ends_a_set_that_is_short_and_goes_on(channel: Channel) -> None:
    with channel.receiver() as receiver, channel.sender() as sender:
        sender.declare_set(1, 5)
        sender.push(b"x", set=(1, 0))
        assert sender.next_sequence == 1
        sender.end_set(1)
        report = next(what for what in receiver if isinstance(what, thalweg.SetReport))
        assert (report.set, report.frames, report.delivered, report.missing) == (1, 5, 1, [(1, 5)])
        sender.push(b"y", set=(2, 0))


def test_a_set_is_complete_or_says_what_is_missing(channel: Channel) -> None:
    with channel.receiver() as receiver:
        with channel.sender() as sender:
            sender.declare_set(1, 3)
            sender.declare_set(2, 5)
            for index in range(3):
                sender.push(b"x", set=(1, index))
            for index in (0, 2):
                sender.push(b"y", set=(2, index))
        deliveries = list(receiver)
    sets = {what.set: what for what in deliveries if isinstance(what, thalweg.SetReport)}
    assert sets[1].is_complete and (sets[1].frames, sets[1].delivered) == (3, 3)
    assert not sets[2].is_complete and (sets[2].delivered, sets[2].taken) == (2, 2)
    assert sets[2].missing == [(1, 2), (3, 5)]
    assert [what.set for what in deliveries if isinstance(what, thalweg.Frame)] == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 2)]


def test_a_consumer_that_rests_holds_up_its_producer_and_a_timeout_says_so(channel: Channel) -> None:
    frame = bytes(1 << 20)
    with channel.receiver(window_bytes=1 << 20, memory_bytes=2 << 20) as receiver:
        with channel.sender(window_bytes=1 << 20) as sender:
            with pytest.raises(thalweg.BusyError) as busy:
                for _ in range(50):
                    sender.push(frame, timeout_s=2.0)
            assert busy.value.kind == "busy"
            pushed = sender.figures().frames
            assert 1 <= pushed < 20
            with pytest.raises(thalweg.BusyError):
                sender.finish(timeout_s=0.1)
            # Nothing of it is lost.
            taken = [receiver.next(timeout_s=LIMIT_S) for _ in range(pushed)]
            assert all(isinstance(one, thalweg.Frame) for one in taken)
            assert list(receiver) == []
        assert receiver.report is not None and receiver.report.figures.frames == pushed


def test_the_interpreter_is_free_while_frames_wait(channel: Channel) -> None:
    with channel.receiver() as receiver:
        waiting = threading.Thread(target=lambda: receiver.next(timeout_s=1.0))
        waiting.start()
        ticks = 0
        while waiting.is_alive():
            ticks += 1
        waiting.join()
    assert ticks > 10_000


def test_a_ctrl_c_ends_a_wait_for_frames(channel: Channel) -> None:
    script = (
        "import signal, sys, thalweg\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with thalweg.Receiver(sys.argv[1], ticket=sys.argv[2]) as receiver:\n"
        "    try:\n"
        "        print('waiting', flush=True)\n"
        "        receiver.next()\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(77)\n"
    )
    words = [sys.executable, "-c", script, channel.hub.place("scan"), str(channel.ticket)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == b"waiting\n"
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(timeout=LIMIT_S) == 77


@pytest.mark.parametrize(
    "waits",
    [
        "fsspec.filesystem('tw', host=host, port=int(port), ticket=ticket).cat('data/file')",
        "fs.cat('data/file')",
        "thalweg.Sender(f'{url}scan', ticket=ticket)",
        "thalweg.Receiver(f'{url}scan', ticket=ticket)",
        "thalweg.predict('zero:1GiB', url, ticket=ticket)",
    ],
)
def test_a_ctrl_c_ends_a_wait_for_a_daemon_that_does_not_answer(daemon: Daemon, waits: str) -> None:
    (daemon.root / "file").write_bytes(b"x")
    is_question = "Sender" not in waits and "Receiver" not in waits
    script = f'''
import fsspec, os, signal, sys, thalweg, time
def is_asking():
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{{task}}/comm") as name:
                if name.read() == "thalweg\\n":
                    return True
        except OSError:
            continue
    return False
signal.signal(signal.SIGINT, signal.default_int_handler)
url, ticket, pid = sys.argv[1:]
host, _, port = url.removeprefix("tw://").partition("/")[0].rpartition(":")
# A session that there is.
fs = fsspec.filesystem("tw", host=host, port=int(port), ticket=ticket, skip_instance_cache=True)
assert fs.cat("data/file") == b"x"
os.kill(int(pid), signal.SIGSTOP)
try:
    print("waiting", flush=True)
    {waits}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    # What was asked does not go on: a question would wait for a minute. (A dial waits for ten seconds.)
    until = time.monotonic() + 30
    while {is_question} and is_asking() and time.monotonic() < until:
        time.sleep(0.05)
    assert not ({is_question} and is_asking())
    os.kill(int(pid), signal.SIGCONT)
    # The next question begins another one.
    assert fs.cat("data/file") == b"x"
    sys.exit(77)
'''
    words = [sys.executable, "-c", script, daemon.url(), str(daemon.ticket), str(daemon.process.pid)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as waiting:
        try:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == b"waiting\n"
            time.sleep(1.0)
            assert waiting.poll() is None
            waiting.send_signal(signal.SIGINT)
            # It would wait for most of a minute.
            too_late = threading.Timer(15.0, waiting.kill)
            too_late.start()
            assert waiting.stdout.readline() == b"interrupted\n"
            too_late.cancel()
            assert waiting.wait(timeout=LIMIT_S) == 77
        finally:
            waiting.kill()


def test_a_producer_that_fails_is_gone_and_its_consumer_is_told(channel: Channel) -> None:
    with channel.receiver(policy="block") as receiver:
        with pytest.raises(RuntimeError, match="shutter"), channel.sender(producer="p") as sender:
            sender.push(b"only")
            wait_until(lambda: sender.figures().waiting == 0)
            raise RuntimeError("the shutter is stuck")
        assert [bytes(frame) for frame in frames_of(receiver)] == [b"only"]
        assert receiver.report is not None
        assert (receiver.report.producers_finished, receiver.report.producers_gone) == (0, ["p"])
    # One of its name goes on, with the sequence behind.
    with channel.receiver(start="now") as receiver, channel.sender(producer="p") as again:
        assert again.push(b"more") == 1


def test_several_producers_and_a_group_of_consumers_share_the_work(channel: Channel) -> None:
    got: dict[int, list[tuple[str, int]]] = {0: [], 1: []}
    everything: list[tuple[str, int]] = []

    def consume(number: int, receiver: thalweg.Receiver) -> None:
        for what in receiver:
            assert isinstance(what, thalweg.Frame)
            got[number].append((what.producer, what.sequence))

    members = [channel.receiver(group="workers", producers=3) for _ in range(2)]
    whole = channel.receiver(producers=3)
    threads = [threading.Thread(target=consume, args=one) for one in enumerate(members)]

    def produce(name: str) -> None:
        with channel.sender(producer=name) as sender:
            for number in range(40):
                sender.push(b"%d" % number)

    threads += [threading.Thread(target=produce, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    everything = [(what.producer, what.sequence) for what in whole if isinstance(what, thalweg.Frame)]
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    for receiver in [*members, whole]:
        receiver.close()
    wanted = sorted((name, number) for name in "abc" for number in range(40))
    assert sorted(everything) == wanted and sorted(got[0] + got[1]) == wanted
    for name in "abc":
        assert [number for producer, number in everything if producer == name] == list(range(40))


def test_a_daemon_is_a_hub_and_late_consumers_get_what_is_recorded(daemon: Daemon) -> None:
    place = daemon.url("scan42")
    with thalweg.Receiver(place, ticket=daemon.ticket, recorded=True) as first:
        with thalweg.Sender(place, ticket=daemon.ticket, producer="p", durable=True) as sender:
            for number in range(10):
                sender.push(b"%d" % number)
        assert len(frames_of(first)) == 10
    with thalweg.Receiver(place, ticket=daemon.ticket, start=4) as late:
        assert [bytes(frame) for frame in frames_of(late)] == [b"%d" % number for number in range(4, 10)]


def test_what_is_no_channel_is_an_exception_by_its_kind(channel: Channel, daemon: Daemon, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="channel"):
        thalweg.Sender(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        thalweg.Receiver(f"tw://{daemon.address}/absent/x", ticket=daemon.ticket)
    with pytest.raises(ConnectionError):
        thalweg.Sender("tw://127.0.0.1:1/data/x", ticket=daemon.ticket)
    with pytest.raises(ValueError, match="policy"):
        channel.receiver(policy="whatever")
    with pytest.raises(ValueError, match="start"):
        channel.receiver(start="later")
    for options in ({"streams": 0}, {"depth": -1}, {"producers": 0}, {"start": -1}, {"keep_s": -1.0}, {"window_bytes": 1}):
        with pytest.raises(thalweg.UsageError, match=f"{next(iter(options))}: from "):
            channel.receiver(**options)
    with pytest.raises(thalweg.UsageError, match="xx"):
        thalweg.Hub(tmp_path, tmp_path / "other-ticket", listen="xx")
    with pytest.raises(TypeError, match="policey"):
        channel.receiver(policey="block")
    with channel.sender() as sender:
        with pytest.raises(ValueError):
            sender.push(b"x", metadata=bytes(40_000))
        for options in ({"time_ns": -1}, {"deadline_s": -1.0}, {"deadline_s": float("inf")}, {"set": (-1, 0)}):
            with pytest.raises(thalweg.UsageError, match=f"{next(iter(options))}: from "):
                sender.push(b"x", **options)  # type: ignore[arg-type]
        with pytest.raises(thalweg.UsageError, match="frames: from 1 to"):
            sender.declare_set(0, 0)
        sender.abort()
        with pytest.raises(thalweg.Error):
            sender.push(b"x")


def test_coroutines_push_and_take_and_a_cancelled_wait_loses_nothing(channel: Channel) -> None:
    place, ticket = channel.hub.place("scan"), channel.ticket
    content = [os.urandom(1000) for _ in range(30)]

    async def produce() -> None:
        async with thalweg.aio.Sender(place, ticket=ticket) as sender:
            for number, frame in enumerate(content):
                assert await sender.push(frame) == number
                await asyncio.sleep(0.002)

    async def work() -> list[bytes]:
        got: list[bytes] = []
        async with thalweg.aio.Receiver(place, ticket=ticket) as receiver:
            producing = asyncio.ensure_future(produce())
            # Waits that are given up in the middle, each a little later: on a slow machine the first ones may all be.
            patience_s = 0.003
            while len(got) < 10:
                try:
                    what = await asyncio.wait_for(receiver.next(), patience_s)
                except TimeoutError:
                    patience_s *= 1.05
                    continue
                assert isinstance(what, thalweg.Frame)
                got.append(bytes(what))
            async for what in receiver:
                assert isinstance(what, thalweg.Frame)
                got.append(bytes(what))
            await producing
            assert receiver.report is not None and receiver.report.figures.frames == 30
        return got

    assert asyncio.run(work()) == content


def test_what_two_waits_took_at_the_same_time_is_handed_out_all_of_it(channel: Channel) -> None:
    place, ticket = channel.hub.place("scan"), channel.ticket

    async def work() -> list[bytes]:
        got: list[bytes] = []
        async with thalweg.aio.Receiver(place, ticket=ticket) as receiver:
            async with thalweg.aio.Sender(place, ticket=ticket) as sender:
                for number in range(0, 40, 2):
                    waiting = [asyncio.ensure_future(receiver.next()) for _ in range(2)]
                    await asyncio.sleep(0.01)
                    await sender.push(b"%d" % number)
                    await sender.push(b"%d" % (number + 1))
                    for one in waiting:
                        what = await asyncio.wait_for(one, LIMIT_S)
                        assert isinstance(what, thalweg.Frame)
                        got.append(bytes(what))
        return got

    assert sorted(map(int, asyncio.run(work()))) == list(range(40))


def test_a_fork_does_not_wait_for_the_threads_of_its_parent(channel: Channel) -> None:
    script = """
import os, signal, sys, thalweg

place, ticket = sys.argv[1:]
receiver = thalweg.Receiver(place, ticket=ticket)
sender = thalweg.Sender(place, ticket=ticket)
copying = thalweg.transfer("zero:1MiB", "null:")
sender.push(b"before")
child = os.fork()
if child == 0:
    signal.alarm(60)
    refused = 0
    uses = (lambda: sender.push(b"x"), sender.finish, sender.figures, receiver.next, receiver.close, copying.report)
    for use in uses:
        try:
            use()
        except thalweg.UsageError as error:
            refused += error.hint is not None
    sender.abort()
    copying.stop()
    with receiver, copying:
        pass
    # All of it is dropped on the way out.
    sys.exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert copying.report().failed == 0
sender.push(b"after")
sender.finish()
print([bytes(frame) for frame in receiver])
"""
    words = [sys.executable, "-W", "ignore", "-c", script, channel.hub.place("scan"), str(channel.ticket)]
    told = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=4 * LIMIT_S).stdout
    assert told.splitlines() == ["6", "[b'before', b'after']"]


def test_a_coroutine_that_is_cancelled_leaves_its_channel(channel: Channel) -> None:
    place, ticket = channel.hub.place("scan"), channel.ticket

    async def consume() -> None:
        async with thalweg.aio.Receiver(place, ticket=ticket) as receiver:
            async for _ in receiver:
                pass

    async def work() -> None:
        waiting = asyncio.ensure_future(consume())
        await asyncio.sleep(0.3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(work())


def next_frame(receiver: thalweg.Receiver) -> int:
    """The sequence of what comes, which must be a frame."""
    what = receiver.next(timeout_s=LIMIT_S)
    assert isinstance(what, thalweg.Frame), what
    return what.sequence


def test_a_receiver_goes_on_under_its_name_however_the_one_before_it_ended(channel: Channel, daemon: Daemon) -> None:
    beside = (channel.named, channel.sender)
    place, ticket = daemon.url("scan"), daemon.ticket
    there = (
        lambda: thalweg.Receiver(place, ticket=ticket, name="calib"),
        lambda: thalweg.Sender(place, ticket=ticket),
    )
    for receiver, sender in (beside, there):
        with sender() as maker:
            for number in range(9):
                maker.push(b"%d" % number)
            with pytest.raises(ZeroDivisionError), receiver() as one:
                assert [next_frame(one), next_frame(one)] == [0, 1]
                raise ZeroDivisionError
            # What it had in hand comes again.
            with receiver() as one:
                assert [next_frame(one), next_frame(one)] == [1, 2]
            # The end of a block in order is the end of the work on it.
            one = receiver()
            assert [next_frame(one), next_frame(one)] == [3, 4]
            del one
            gc.collect()
            with receiver() as one:
                assert next_frame(one) == 4
                one.let_go()
            with receiver() as one:
                assert next_frame(one) == 4
        with receiver() as one:
            assert [frame.sequence for frame in frames_of(one)] == [5, 6, 7, 8]
            assert one.report is not None and one.report.figures.lost_frames == 0


def test_what_is_held_comes_again_unless_it_was_settled(channel: Channel) -> None:
    with channel.sender() as sender:
        for number in range(6):
            sender.push(b"%d" % number)
    with channel.named() as receiver:
        receiver.hold()
        assert [next_frame(receiver), next_frame(receiver)] == [0, 1]
        receiver.settle()
        assert [next_frame(receiver), next_frame(receiver)] == [2, 3]
    with channel.named() as receiver:
        receiver.hold()
        assert [frame.sequence for frame in frames_of(receiver)] == [2, 3, 4, 5]
        receiver.settle()


def test_a_coroutine_that_is_cancelled_goes_on_under_its_name_with_what_it_was_not_handed(channel: Channel) -> None:
    place, ticket = channel.hub.place("scan"), channel.ticket
    got: list[int] = []

    async def consume() -> None:
        async with thalweg.aio.Receiver(place, ticket=ticket, name="calib") as receiver:
            async for what in receiver:
                assert isinstance(what, thalweg.Frame)
                # Nothing can end it between this and the next wait.
                got.append(what.sequence)

    async def work() -> None:
        with channel.sender() as sender:
            for _ in range(8):
                waiting, before = asyncio.ensure_future(consume()), len(got)
                for number in range(5):
                    sender.push(b"%d" % number)
                # It is at work, and has others to come.
                while len(got) == before:
                    assert not waiting.done()
                    await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
        await consume()

    asyncio.run(work())
    assert got == list(range(40))


def test_a_sender_has_a_slot_and_says_what_it_kept(slotted: Daemon) -> None:
    place, ticket = slotted.url("scan"), slotted.ticket
    with thalweg.Sender(place, ticket=ticket, slot="1s:100kB:5s", unattended=True) as sender:
        for _ in range(3):
            sender.push(bytes(10_000))
        slot = sender.finish().figures.slot
    assert slot is not None and slot.pieces == 3
    assert 0 < slot.promised_s <= slot.deadline_s == 5 and 0 < slot.lag_p50_s <= slot.lag_worst_s
    # More than the way carries.
    with pytest.raises(thalweg.BusyError, match="too long"):
        thalweg.Sender(place, ticket=ticket, slot="1s:100MB:5s", window_bytes=256 << 20)
    with pytest.raises(thalweg.UsageError):
        thalweg.Sender(place, ticket=ticket, slot="sometimes")


def test_a_hub_without_slots_says_so(channel: Channel) -> None:
    with pytest.raises(thalweg.UnsupportedError):
        channel.sender(slot="1s:100kB:5s")
    with channel.sender(unattended=True) as sender:
        assert sender.figures().slot is None
