"""Predictions, by what earlier copies of the same way took."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from conftest import Daemon

import thalweg
import thalweg.aio


def test_what_no_copy_has_taught_yet_is_said_and_copies_teach_it(daemon: Daemon, tmp_path: Path) -> None:
    source, piece = tmp_path / "source", os.urandom(1 << 20)
    source.write_bytes(piece * 64)
    before = thalweg.predict(source, daemon.url(), ticket=daemon.ticket)
    assert (before.bytes, before.seconds, before.missing, before.transfers) == (64 << 20, None, "bytes", 0)
    # A copy of a moment teaches nothing: the faster the machine, the more it takes.
    for copies, mib in enumerate((64, 512, 3072), start=1):
        with source.open("wb") as file:
            for _ in range(mib):
                file.write(piece)
        thalweg.copy(source, daemon.url(), ticket=daemon.ticket)
        after = thalweg.predict(source, daemon.url(), ticket=daemon.ticket, deadline_s=1e6)
        assert after.transfers == copies and after.bytes == mib << 20
        if after.missing is None:
            break
    assert after.seconds is not None and after.low_s is not None and after.p99_s is not None
    assert 0 < after.low_s <= after.seconds <= after.p99_s
    # One transfer is little to go by: how little is in P99.
    assert after.deadline == ("holds" if after.p99_s <= 1e6 else "uncertain")
    assert after.details["plan"]["streams"]["value"] >= 1


def test_a_place_that_is_not_there_is_an_exception(daemon: Daemon, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        thalweg.predict(tmp_path / "absent", daemon.url(), ticket=daemon.ticket)
    with pytest.raises(TypeError, match="deadlin"):
        thalweg.predict(tmp_path, daemon.url(), deadlin=3)  # type: ignore[call-arg]


def test_a_rate_limit_says_no_time_of_much_on_a_way_that_nobody_has_seen(tmp_path: Path) -> None:
    told = asyncio.run(thalweg.aio.predict("zero:100MB", "null:", bwlimit="10MB/s"))
    assert (told.bytes, told.seconds, told.missing) == (100_000_000, None, "bytes")
    # So little passes on any way, and no faster than the limit.
    told = asyncio.run(thalweg.aio.predict("zero:8MB", "null:", bwlimit="1MB/s"))
    assert told.bytes == 8_000_000 and told.seconds is not None and told.seconds > 7


def test_a_deadline_that_is_over_is_too_late_and_a_scan_may_be_endless(tmp_path: Path) -> None:
    told = thalweg.predict("zero:8MB", "null:", bwlimit="1MB/s", deadline_s=-1.0)
    assert told.deadline == "too-late"
    source = tmp_path / "source"
    source.write_bytes(b"x" * 1000)
    for scan_s in (float("inf"), -1.0, float("nan")):
        told = thalweg.predict(source, "null:", scan_s=scan_s)
        assert told.bytes == 1000
