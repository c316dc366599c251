"""The same as coroutines."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from conftest import Daemon, make_tree, start_daemon, stop_daemon, tree_of

import thalweg.aio


def test_coroutines_copy_sync_verify_and_check(daemon: Daemon, tmp_path: Path, leaves_no_threads: None) -> None:
    content = make_tree(tmp_path / "source")

    async def work() -> None:
        told: list[thalweg.Event] = []
        receipt = tmp_path / "receipt"
        report = await thalweg.aio.copy(
            f"{tmp_path}/source/", daemon.url("a"), ticket=daemon.ticket, on_event=told.append, receipt=receipt
        )
        assert report.failed == 0 and told
        assert (await thalweg.aio.verify(receipt, daemon.url("a"), ticket=daemon.ticket)).ok
        compared = (tmp_path / "source", daemon.url("a"))
        assert (await thalweg.aio.check(*compared, ticket=daemon.ticket)).ok
        assert (await thalweg.aio.check(*compared, ticket=daemon.ticket, copy_links=True)).ok
        told_of = await thalweg.aio.read_receipt(receipt, as_b3sum=tmp_path / "sums")
        assert told_of.listed is not None and told_of.listed + (told_of.without_digest or 0) == len(content)
        assert (await thalweg.aio.check(daemon.url("a"), sums=tmp_path / "sums", ticket=daemon.ticket)).ok
        one, two = await asyncio.gather(
            thalweg.aio.sync(daemon.url("a/"), tmp_path / "b", ticket=daemon.ticket),
            thalweg.aio.sync(daemon.url("a/"), tmp_path / "c", ticket=daemon.ticket),
        )
        assert one.root == two.root
        with pytest.raises(thalweg.NotFoundError):
            await thalweg.aio.copy(tmp_path / "absent", tmp_path / "d")

    asyncio.run(work())
    assert tree_of(tmp_path / "b") == tree_of(tmp_path / "c") == content


def test_a_task_that_is_cancelled_stops_its_copy_and_the_loop_stays_alive(
    tmp_path: Path, leaves_no_threads: None
) -> None:
    async def work() -> int:
        copying = asyncio.ensure_future(
            thalweg.aio.copy("zero:2GiB", "null:", bwlimit="20MB/s", progress_s=0.05)
        )
        ticks, since = 0, time.monotonic()
        # At the rate asked for, the copy takes two minutes.
        while time.monotonic() < since + 0.5 or (ticks <= 5 and time.monotonic() < since + 60):
            await asyncio.sleep(0.01)
            ticks += 1
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying
        return ticks

    assert asyncio.run(work()) > 5


def test_what_is_cancelled_twice_goes_on_when_its_work_has_ended() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        assert may_end.wait(60)
        raise RuntimeError("nobody asks")

    async def work() -> None:
        running = asyncio.ensure_future(thalweg.aio.to_its_end(hold))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        for _ in range(3):
            running.cancel()
            await asyncio.sleep(0.05)
            assert not running.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(work())


def test_a_comparison_that_is_cancelled_does_not_wait_for_a_server_that_does_not_answer(tmp_path: Path) -> None:
    make_tree(tmp_path / "source")
    daemon = start_daemon(tmp_path, tmp_path / "export")
    daemon.process.send_signal(signal.SIGSTOP)

    async def work() -> None:
        comparing = asyncio.ensure_future(
            thalweg.aio.check(tmp_path / "source", daemon.url(), ticket=daemon.ticket)
        )
        await asyncio.sleep(0.5)
        comparing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(comparing, 15.0)

    try:
        asyncio.run(work())
    finally:
        stop_daemon(daemon)


def test_events_are_iterated(tmp_path: Path, leaves_no_threads: None) -> None:
    (tmp_path / "f").write_bytes(os.urandom(1 << 20))

    async def work() -> tuple[set[str], int]:
        async with thalweg.aio.transfer(tmp_path / "f", tmp_path / "g", entries=True) as copying:
            seen = {event["event"] async for event in copying}
            return seen, (await copying.report()).bytes_done

    seen, done = asyncio.run(work())
    assert {"entry", "progress"} <= seen and done == 1 << 20


def test_receivers_that_wait_hold_up_neither_another_nor_the_threads_of_the_loop(
    tmp_path: Path, leaves_no_threads: None
) -> None:
    ticket = tmp_path / "hub-ticket"
    (tmp_path / "hub").mkdir()

    async def work(hub: thalweg.Hub) -> list[float]:
        async def rest(number: int) -> None:
            async with idle(f"idle{number}") as receiver:
                async for _ in receiver:
                    pass

        def idle(name: str) -> thalweg.aio.Receiver:
            return thalweg.aio.Receiver(hub.place(name), ticket=ticket, window_bytes=1 << 20, memory_bytes=1 << 20)

        resting = [asyncio.ensure_future(rest(number)) for number in range(40)]
        took: list[float] = []
        async with idle("live") as receiver:
            place = hub.place("live")
            async with thalweg.aio.Sender(place, ticket=ticket, window_bytes=1 << 20) as sender:
                for number in range(10):
                    begun = time.monotonic()
                    await sender.push(b"%d" % number)
                    what = await receiver.next(60.0)
                    took.append(time.monotonic() - begun)
                    assert isinstance(what, thalweg.Frame) and bytes(what) == b"%d" % number
                    begun = time.monotonic()
                    await asyncio.to_thread(lambda: None)
                    took.append(time.monotonic() - begun)
        for one in resting:
            one.cancel()
        ended = await asyncio.gather(*resting, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended
        return took

    with thalweg.Hub(tmp_path / "hub", ticket) as hub:
        took = asyncio.run(work(hub))
    # No matter of speed: who waits for a turn among so many waits for seconds.
    assert sorted(took)[len(took) // 2] < 2.0, took


def test_an_opening_that_is_cancelled_does_not_wait_for_a_server_that_does_not_answer(tmp_path: Path) -> None:
    daemon = start_daemon(tmp_path, tmp_path / "export")
    daemon.process.send_signal(signal.SIGSTOP)

    async def work() -> None:
        opening = asyncio.ensure_future(thalweg.aio.Sender(daemon.url("scan"), ticket=daemon.ticket).__aenter__())
        await asyncio.sleep(0.5)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(opening, 15.0)

    try:
        asyncio.run(work())
    finally:
        stop_daemon(daemon)


def test_events_go_on_where_an_iteration_was_left(tmp_path: Path) -> None:
    make_tree(tmp_path / "source", 30)

    async def work() -> list[str]:
        seen: list[str] = []
        async with thalweg.aio.transfer(f"{tmp_path}/source/", tmp_path / "b", entries=True) as copying:
            # All of it comes as one batch.
            await asyncio.sleep(0.5)
            seen.append((await anext(copying))["event"])
            async for event in copying:
                seen.append(event["event"])
                if seen.count("entry") == 2:
                    break
            seen.extend([event["event"] async for event in copying])
        return seen

    # Files and their directories.
    assert asyncio.run(work()).count("entry") >= 33


def test_a_listener_that_nobody_would_await_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")

    async def hear(event: thalweg.Event) -> None:
        raise AssertionError

    with pytest.raises(TypeError, match="coroutine function"):
        asyncio.run(thalweg.aio.copy(tmp_path / "f", tmp_path / "g", on_event=hear))
    with pytest.raises(TypeError, match="coroutine function"):
        thalweg.copy(tmp_path / "f", tmp_path / "g", on_event=hear)
    assert not (tmp_path / "g").exists()


def test_a_removal_without_a_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with pytest.raises(TypeError, match="max_delete"):
        asyncio.run(
            thalweg.aio.sync(f"{tmp_path}/source/", tmp_path / "b", delete=True, max_delete=None)  # type: ignore[arg-type]
        )
