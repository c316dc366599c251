"""The same as coroutines."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest
from conftest import Daemon, make_tree, tree_of

import thalweg.aio


def test_coroutines_copy_sync_and_verify(daemon: Daemon, tmp_path: Path, leaves_no_threads: None) -> None:
    content = make_tree(tmp_path / "source")

    async def work() -> None:
        told: list[thalweg.Event] = []
        receipt = tmp_path / "receipt"
        report = await thalweg.aio.copy(
            f"{tmp_path}/source/", daemon.url("a"), ticket=daemon.ticket, on_event=told.append, receipt=receipt
        )
        assert report.failed == 0 and told
        assert (await thalweg.aio.verify(receipt, daemon.url("a"), ticket=daemon.ticket)).ok
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


def test_events_are_iterated(tmp_path: Path, leaves_no_threads: None) -> None:
    (tmp_path / "f").write_bytes(os.urandom(1 << 20))

    async def work() -> tuple[set[str], int]:
        async with thalweg.aio.transfer(tmp_path / "f", tmp_path / "g", entries=True) as copying:
            seen = {event["event"] async for event in copying}
            return seen, (await copying.report()).bytes_done

    seen, done = asyncio.run(work())
    assert {"entry", "progress"} <= seen and done == 1 << 20
