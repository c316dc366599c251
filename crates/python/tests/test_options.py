"""Options of copies, streams and comparisons that the program has too: each does what it says, or is refused."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Daemon, make_tree, start_daemon, stop_daemon, tree_of

import thalweg
import thalweg.aio
from thalweg import _copy, errors


def make_full_tree(root: Path, files: int) -> dict[str, bytes]:
    """A tree in which no file is empty."""
    content = make_tree(root, files) | {"d0/f0": b"x"}
    (root / "d0/f0").write_bytes(b"x")
    return content


def lines_of(path: Path) -> list[thalweg.Event]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_only_the_names_of_a_list_are_copied_and_compared(daemon: Daemon, tmp_path: Path) -> None:
    source = tmp_path / "source"
    content = make_tree(source, 9)
    # A directory that is named comes without what is in it.
    listed = ["d0/f3", Path("d1/f1"), b"./d2/f2", "/d2"]
    thalweg.copy(source, daemon.url("a"), ticket=daemon.ticket, files_from=listed)
    wanted = {name: content[name] for name in ("d0/f3", "d1/f1", "d2/f2")}
    assert tree_of(daemon.root / "a") == wanted
    assert not thalweg.check(source, daemon.url("a"), ticket=daemon.ticket).ok
    found = thalweg.check(source, daemon.url("a"), ticket=daemon.ticket, files_from=listed)
    assert found.ok and found.files == 3, found
    (daemon.root / "a" / "d1/f1").unlink()
    assert thalweg.check(source, daemon.url("a"), ticket=daemon.ticket, files_from=listed).missing == 1
    ways: list[Callable[[Any], object]] = [
        lambda names: thalweg.copy(source, tmp_path / "b", files_from=names),
        lambda names: thalweg.check(source, source, files_from=names),
    ]
    for way in ways:
        with pytest.raises(thalweg.UsageError, match=r"\.\./x"):
            way(["../x"])
        with pytest.raises(thalweg.UsageError, match="the list is empty"):
            way([])
        with pytest.raises(TypeError, match="files_from='d0': a list"):
            way("d0")
    assert not (tmp_path / "b").exists()


def test_parts_are_together_what_one_copy_is(daemon: Daemon, tmp_path: Path) -> None:
    source = tmp_path / "source"
    content = make_tree(source, 40)
    met: dict[str, bytes] = {}
    for number in (1, 2, 3):
        alone = tmp_path / f"alone-{number}"
        thalweg.copy(f"{source}/", alone, part=(number, 3))
        part = tree_of(alone)
        assert part and not part.keys() & met.keys(), number
        met |= part
        thalweg.copy(f"{source}/", daemon.url("a"), ticket=daemon.ticket, part=(number, 3))
        again = thalweg.copy(f"{source}/", daemon.url("a"), ticket=daemon.ticket, part=(number, 3))
        assert again.bytes_done == 0, again
    assert met == content and tree_of(daemon.root / "a") == content
    checked = [thalweg.check(source, daemon.url("a"), ticket=daemon.ticket, part=(number, 3)) for number in (1, 2, 3)]
    assert all(found.ok and 0 < found.files < 40 for found in checked), checked
    assert sum(found.files for found in checked) == 40
    (daemon.root / "a/d1/f1").unlink()
    missing = [thalweg.check(source, daemon.url("a"), ticket=daemon.ticket, part=(number, 3)) for number in (1, 2, 3)]
    assert sorted(found.missing for found in missing) == [0, 0, 1]
    with pytest.raises(thalweg.UsageError, match="part K of N"):
        thalweg.check(source, source, part=(0, 3))
    for odd in ((0, 3), (4, 3), (1, 4097)):
        with pytest.raises(thalweg.UsageError, match="part K of N"):
            thalweg.copy(source, tmp_path / "b", part=odd)
    with pytest.raises(thalweg.UsageError, match="nothing can be deleted"):
        thalweg.sync(source, tmp_path / "b", part=(1, 3), delete=True)
    with pytest.raises(TypeError, match="a pair"):
        thalweg.copy(source, tmp_path / "b", part=3)  # type: ignore[arg-type]
    assert not (tmp_path / "b").exists()


def test_two_far_places_are_refused_with_the_command_that_copies_between_them(tmp_path: Path) -> None:
    with pytest.raises(thalweg.UnsupportedError, match="both places are far.*thalweg cp a:x b:y") as far:
        thalweg.copy("a:x", "b:y", state=tmp_path)
    assert far.value.reason == "both-far"
    with pytest.raises(thalweg.UnsupportedError, match="thalweg sync a:x b:y"):
        thalweg.sync("a:x", "b:y", delete=True, state=tmp_path)


def test_receipts_of_all_parts_certify_a_copy_together(tmp_path: Path) -> None:
    source, copied = tmp_path / "source", tmp_path / "b"
    content = make_full_tree(source, 40)
    receipts = [tmp_path / f"receipt.{number}" for number in (1, 2, 3)]
    for number, receipt in enumerate(receipts, 1):
        thalweg.copy(f"{source}/", copied, part=(number, 3), receipt=receipt)
    found = thalweg.verify(receipts, copied, strict=True)
    assert found.ok and found.extra == 0 and found.parts_missing == [], found
    assert found.bytes == sum(map(len, content.values()))
    assert [receipt["part"] for receipt in found.receipts] == ["1/3", "2/3", "3/3"]
    # What others brought is in none of these, and nobody certifies it.
    some = thalweg.verify([receipts[0], str(receipts[2])], copied)
    assert not some.ok and some.parts_missing == [2] and some.missing == some.differing == 0, some
    alone = thalweg.verify(receipts[1], copied)
    assert not alone.ok and alone.parts_missing == [1, 3], alone
    assert alone.receipts == [] and alone.receipt["part"] == "2/3"
    (copied / "d0/f0").unlink()
    assert thalweg.verify(receipts, copied).missing == 1
    with pytest.raises(thalweg.UsageError, match="the receipt is missing"):
        thalweg.verify([], copied)
    with pytest.raises(FileNotFoundError) as missing:
        thalweg.verify([receipts[0], tmp_path / "absent"], copied)
    assert missing.value.filename == str(tmp_path / "absent")


def test_source_files_go_once_the_destination_has_them(daemon: Daemon, tmp_path: Path) -> None:
    source = tmp_path / "source"
    content = make_full_tree(source, 6)
    there: dict[str, Any] = {"ticket": daemon.ticket, "remove_source_files": True}
    told: list[thalweg.Event] = []
    dry = thalweg.copy(source, daemon.url(), dry_run=True, **there)
    assert dry.sources_removed == 6 and tree_of(source) == content
    report = thalweg.copy(source, daemon.url(), entries=True, on_event=told.append, **there)
    assert (report.sources_removed, report.sources_left, report.sources_kept) == (6, 0, 0)
    assert tree_of(source) == {} and (source / "d0").is_dir()
    assert tree_of(daemon.root / "source") == content
    assert sum(event["event"] == "source-removed" for event in told) == 6
    # What was there before, and was not compared, stays.
    make_full_tree(source, 6)
    thalweg.copy(source, f"{tmp_path}/near/")
    again = thalweg.copy(source, f"{tmp_path}/near/", remove_source_files=True)
    assert (again.sources_removed, again.sources_left) == (0, 6) and tree_of(source) == content
    compared = thalweg.copy(source, f"{tmp_path}/near/", remove_source_files=True, check="digest")
    assert compared.sources_removed == 6 and tree_of(source) == {}
    with pytest.raises(TypeError, match="remove_source_files"):
        thalweg.sync(source, tmp_path / "b", remove_source_files=True)  # type: ignore[call-arg]
    with pytest.raises(thalweg.UsageError, match="--delete"):
        thalweg.transfer(source, tmp_path / "b", delete=True, remove_source_files=True).report()
    # At a daemon they go as well.
    pulled = thalweg.copy(daemon.url("source/"), tmp_path / "b", **there)
    assert pulled.sources_removed == 6 and tree_of(daemon.root / "source") == {}
    assert tree_of(tmp_path / "b") == content


def test_a_daemon_that_lets_nothing_be_deleted_keeps_its_source_files(tmp_path: Path) -> None:
    root = tmp_path / "export"
    content = make_full_tree(root / "source", 6)
    daemon = start_daemon(tmp_path, root, "--export", f"kept={root}:no-delete")
    try:
        place = f"tw://{daemon.address}/kept/source/"
        with pytest.raises(thalweg.NotPermittedError, match="no-delete"):
            thalweg.copy(place, tmp_path / "b", ticket=daemon.ticket, remove_source_files=True)
    finally:
        stop_daemon(daemon)
    assert tree_of(root / "source") == content and not (tmp_path / "b").exists()


def test_a_source_file_that_somebody_writes_is_among_those_that_stay(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("quiet", "written"):
        (source / name).write_bytes(name.encode())
    with open(source / "written", "ab"):
        try:
            with open(source / "written", "rb") as looked:
                fcntl.fcntl(looked, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            pytest.skip("nobody tells who writes here")
        except BlockingIOError:
            pass
        except OSError as error:
            pytest.skip(f"there are no leases here: {error}")
        report = thalweg.copy(f"{source}/", tmp_path / "b", remove_source_files=True, check_entries=False)
        with pytest.raises(thalweg.PartialError, match="written") as partial:
            thalweg.copy(f"{source}/", tmp_path / "b", remove_source_files=True, check="digest")
    for told in (report, partial.value.report):
        assert isinstance(told, thalweg.Report)
        assert told.sources_left == told.sources_kept == told.details["sources_left_by"]["open_for_writing"] == 1
        assert [failure.path for failure in told.failures] == ["written"]
    assert report.sources_removed == 1 and list(tree_of(source)) == ["written"]


def test_a_source_file_that_could_not_be_removed_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    report = thalweg.copy(tmp_path / "f", f"{tmp_path}/b/")
    kept = {"event": "source-kept", "path": "f", "kind": "changed", "operation": "remove", "why": "it changed"}

    def told(**more: Any) -> dict[str, Any]:
        kept_of = {"failures": [kept], "sources_kept": 1, "is_source_kept": True, "lost": None}
        return {**report.details, **kept_of, **more}

    with pytest.raises(thalweg.PartialError, match="1 source files could not be removed; the first: .*it changed") as partial:
        errors.concluded(thalweg.Report._of, told(), True)
    assert partial.value.report.failed == 0
    assert [type(failure) for failure in partial.value.failures] == [thalweg.ChangedError]
    assert pickle.loads(pickle.dumps(partial.value)).report.sources_kept == 1
    unchecked = errors.concluded(thalweg.Report._of, told(), False)
    assert unchecked.sources_kept == 1 and "sources_kept" not in unchecked.details
    assert "is_source_kept" not in unchecked.details
    # What the far side did not say of a lost link is in no number.
    with pytest.raises(thalweg.PartialError, match="0 entries failed; the first: "):
        errors.concluded(thalweg.Report._of, told(sources_kept=0), True)
    # A stop among the last removals does not hide what was done.
    lost = {"kind": "stopped", "operation": "remove source files", "why": "stopped on request"}
    with pytest.raises(thalweg.StoppedError) as stopped:
        errors.concluded(thalweg.Report._of, told(sources_kept=0, lost=lost), True)
    assert stopped.value.report is not None


def test_a_report_has_each_entry_and_keeps_what_is_in_it(daemon: Daemon, tmp_path: Path) -> None:
    source, report = tmp_path / "source", tmp_path / "report"
    content = make_tree(source, 6)
    there: dict[str, Any] = {"ticket": daemon.ticket, "report": report}
    thalweg.sync(f"{source}/", daemon.url("a"), **there)
    first = lines_of(report)
    files = {line["path"] for line in first if line["event"] == "entry" and line["type"] == "file"}
    assert files == set(content) and first[-1]["event"] == "prediction"
    (source / "d0/f3").unlink()
    thalweg.sync(f"{source}/", daemon.url("a"), delete=True, **there)
    lines = lines_of(report)
    assert lines[: len(first)] == first and lines[len(first)]["event"] == "continued"
    assert [line["path"] for line in lines if line["event"] == "deleted"] == ["d0/f3"]
    of_stream = tmp_path / "of-stream"
    thalweg.stream(source / "d1/f1", daemon.url("shot"), ticket=daemon.ticket, report=of_stream)
    assert [line["outcome"] for line in lines_of(of_stream)] == ["done"]
    with pytest.raises(thalweg.Error, match="absent"):
        thalweg.copy(source, tmp_path / "b", report=tmp_path / "absent/report")


def unusual() -> str:
    """A congestion control that every user here may choose and no near path has unasked; where there is none, reno."""
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    return next((name for name in allowed if name not in ("cubic", "reno")), "reno")


def test_data_take_the_ways_that_are_named(daemon: Daemon, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(8 << 20))
    host, _, port = daemon.address.rpartition(":")
    name = unusual()
    there: dict[str, Any] = {
        "ticket": daemon.ticket,
        "via": [(host, int(port))],
        "bind": [host],
        "family": "ipv4",
        "cca": name,
        "bwlimit": "8MB/s",
    }
    for way in (thalweg.copy, thalweg.stream):
        report = way(source, daemon.url(way.__name__), **there)
        streams = report.details["evidence"]["sender"]["streams"]
        assert streams and all(stream["congestion"] == name for stream in streams), streams
        assert (daemon.root / way.__name__).read_bytes() == source.read_bytes()
    with pytest.raises(thalweg.UsageError, match="no address of IPv6"):
        thalweg.check(source, daemon.url("copy"), ticket=daemon.ticket, family="ipv6")
    with pytest.raises(thalweg.UsageError, match="`nonesuch` is not to be had here"):
        thalweg.copy(source, daemon.url("b"), ticket=daemon.ticket, cca="nonesuch")
    with pytest.raises(thalweg.UsageError, match="`nonesuch` is not to be had here"):
        thalweg.Sender(daemon.url("frames"), ticket=daemon.ticket, cca="nonesuch")
    odd: list[tuple[str, object]] = [
        ("via", ["h/x"]),
        ("via", [("::1", 0)]),
        ("bind", ["x" * 16]),
        ("family", "ipv5"),
        ("cca", "a b"),
        ("ktls", "maybe"),
        ("tls_records", 7),
    ]
    for option, value in odd:
        with pytest.raises(thalweg.UsageError, match=option):
            thalweg.copy(source, daemon.url("b"), ticket=daemon.ticket, **{option: value})  # type: ignore[arg-type]
    for option, value in (("via", "host"), ("via", [8487]), ("bind", "lo")):
        with pytest.raises(TypeError, match=option):
            thalweg.copy(source, daemon.url("b"), ticket=daemon.ticket, **{option: value})  # type: ignore[arg-type]
    assert not (daemon.root / "b").exists()


def test_a_way_that_no_copy_takes_is_told_if_the_call_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"x")

    def told(**options: Any) -> list[str]:
        heard: list[thalweg.Event] = []
        thalweg.copy(tmp_path / "f", f"{tmp_path}/b/", on_event=heard.append, **options)
        return [event["text"] for event in heard if "without effect" in event.get("text", "")]

    [text] = told(via=["host"], bind=["lo"])
    assert "--via" in text and "--bind" in text
    # The environment has it for every call.
    monkeypatch.setenv("THALWEG_VIA", "host,10.1.0.7:8487")
    assert told() == []


def test_an_empty_list_of_ways_is_none_whatever_the_environment_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"x")
    for option, variable, odd in (("via", "THALWEG_VIA", "h/x"), ("bind", "THALWEG_BIND", "x" * 16)):
        monkeypatch.setenv(variable, odd)
        with pytest.raises(thalweg.UsageError, match=option):
            thalweg.copy(tmp_path / "f", f"{tmp_path}/b/")
        none: dict[str, Any] = {option: []}
        thalweg.copy(tmp_path / "f", f"{tmp_path}/b/", **none)
        monkeypatch.delenv(variable)


def test_knobs_are_turned_by_hand_within_their_ranges(daemon: Daemon, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3 << 20))
    report = thalweg.copy(
        source,
        daemon.url("a"),
        ticket=daemon.ticket,
        streams=2,
        chunk_bytes=1 << 20,
        request_bytes=256 << 10,
        window_bytes=1 << 20,
        concurrency=7,
        depth=3,
        io_depth=2,
        direct="source=off",
        order="source=none",
        io_uring=False,
        dscp="CS1",
        tune=False,
        profile=False,
    )
    plan = report.details["plan"]
    asked = {"chunk_bytes": 1 << 20, "segment_bytes": 256 << 10, "concurrency": 7, "depth": 3, "io_depth": 2}
    assert {name: plan[name]["value"] for name in asked} == asked
    assert (plan["direct"]["source"]["value"], plan["order"]["source"]["value"]) == ("off", "none")
    # Without a profile nothing is predicted.
    assert "prediction" not in report.details
    assert (daemon.root / "a").read_bytes() == source.read_bytes()
    odd: dict[str, object] = {
        "chunk_bytes": 3,
        "request_bytes": 1 << 32,
        "window_bytes": 1,
        "concurrency": 0,
        "depth": 1 << 40,
        "io_depth": 65,
        "direct": "maybe",
        "order": "destination=layout",
        "dscp": 64,
    }
    for option, value in odd.items():
        with pytest.raises(thalweg.UsageError, match=f"{option}="):
            thalweg.copy(source, tmp_path / "b", **{option: value})  # type: ignore[arg-type]
    with pytest.raises(thalweg.UsageError, match="a request is at most a chunk: 1048576 and 65536 bytes"):
        thalweg.copy(source, tmp_path / "b", chunk_bytes=64 << 10, request_bytes=1 << 20)
    with pytest.raises(TypeError, match="chunk_bytes"):
        thalweg.copy(source, tmp_path / "b", chunk_bytes="1MiB")  # type: ignore[arg-type]
    with pytest.raises(thalweg.UsageError, match="until_marker="):
        thalweg.stream(source, tmp_path / "b", until_marker="a/done")
    assert not (tmp_path / "b").exists()


@pytest.fixture
def _memory_is_free_again() -> Iterator[None]:
    yield
    thalweg.limit_memory(None)


def test_the_memory_of_all_buffers_is_bounded(daemon: Daemon, tmp_path: Path, _memory_is_free_again: None) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3 << 20))

    def streams(name: str) -> dict[str, Any]:
        report = thalweg.copy(source, daemon.url(name), ticket=daemon.ticket, streams=32)
        assert (daemon.root / name).read_bytes() == source.read_bytes()
        told: dict[str, Any] = report.details["plan"]["streams"]
        return told

    thalweg.limit_memory(8 << 20)
    bounded = streams("a")
    assert bounded["value"] < 32 and "--memory" in bounded["why"], bounded
    thalweg.limit_memory(None)
    assert "--memory" not in streams("b")["why"]
    with pytest.raises(thalweg.UsageError, match="bytes=1000: at least 8MiB"):
        thalweg.limit_memory(1000)
    with pytest.raises(TypeError, match="bytes"):
        thalweg.limit_memory("8MiB")  # type: ignore[arg-type]


def test_a_receipt_says_what_it_certifies_and_its_files_are_a_list_of_b3sum(daemon: Daemon, tmp_path: Path) -> None:
    source, receipt, sums = tmp_path / "source", tmp_path / "receipt", tmp_path / "sums"
    content = make_full_tree(source, 9)
    thalweg.copy(source, daemon.url(), ticket=daemon.ticket, receipt=receipt)
    told = thalweg.read_receipt(receipt)
    assert told.bytes == sum(map(len, content.values())) and told.details["from"] == [str(source)]
    assert (told.listed, told.without_digest, told.unnamed, told.failed) == (None, None, None, 0)
    assert told.is_whole and not sums.exists()
    assert pickle.loads(pickle.dumps(told)) == told and "<th>sender</th>" in told._repr_html_()
    told = thalweg.read_receipt(receipt, as_b3sum=sums)
    assert (told.listed, told.without_digest, told.unnamed) == (9, 0, 0) and told.is_whole
    assert len(sums.read_text().splitlines()) == 9
    found = thalweg.check(daemon.url(), sums=sums, ticket=daemon.ticket)
    assert found.ok and (found.same, found.extra, found.findings) == (9, None, [])
    (daemon.root / "source/d1/f7").write_bytes(b"damage")
    (daemon.root / "source/d0/f3").unlink()
    found = thalweg.check(daemon.url(), sums=sums, ticket=daemon.ticket)
    assert not found.ok and (found.differing, found.missing, found.same) == (1, 1, 7)
    # A list that is not whole leaves what was there.
    with pytest.raises(thalweg.DamageError):
        thalweg.read_receipt(receipt, as_b3sum=sums, keys=["00" * 32])
    (tmp_path / "none").write_text("none\n")
    with pytest.raises(thalweg.UsageError):
        thalweg.read_receipt(tmp_path / "none", as_b3sum=sums)
    assert len(sums.read_text().splitlines()) == 9
    # A list does not take the place of its receipt.
    before = receipt.read_bytes()
    (tmp_path / "link").symlink_to(receipt)
    for there in (receipt, tmp_path / "link"):
        with pytest.raises(thalweg.UsageError, match="it is the receipt"):
            thalweg.read_receipt(receipt, as_b3sum=there)
    assert receipt.read_bytes() == before
    with pytest.raises(FileNotFoundError):
        thalweg.read_receipt(tmp_path / "absent")
    with pytest.raises(thalweg.UsageError, match="line 1"):
        thalweg.check(source, sums=tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        thalweg.check(source, sums=tmp_path / "absent")
    # Nobody writes into it.
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(thalweg.UsageError, match="no regular file"):
        thalweg.check(source, sums=tmp_path / "fifo")
    with pytest.raises(thalweg.UsageError, match="devices"):
        thalweg.check(source, sums=sums, devices=True)
    for places in ((source,), (source, source)):
        with pytest.raises(TypeError, match="one of the two"):
            thalweg.check(*places, sums=None if len(places) == 1 else sums)


def test_work_under_way_says_between_which_places(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    with thalweg.transfer(tmp_path / "f", "null:") as copying:
        assert repr(copying) == f"<Transfer {tmp_path}/f -> null:: under way>"
        copying.report()
        assert repr(copying).endswith(": over>")


def test_the_rate_of_a_copy_under_way_can_be_changed(tmp_path: Path) -> None:
    with thalweg.transfer("zero:256MiB", "null:", bwlimit="2MB/s", progress_s=0.05) as copying:
        for event in copying:
            if event["event"] == "progress" and event["bytes_verified"] > 0:
                break
        with pytest.raises(thalweg.UsageError, match="unit"):
            copying.limit("5")
        copying.limit("4GB/s")
        copying.limit(None)
        report = copying.report()
    # At the rate that it began with, it takes two minutes; what is told of it does not depend on that.
    assert report.bytes_done == 256 << 20 and report.details["prediction"] == {"missing": "rate-changed"}
    # What only asks has no rate.
    with _copy.start_check(tmp_path, tmp_path, None, False, False, None, (), None, {}) as checking:
        assert not hasattr(checking, "limit") and not hasattr(thalweg.aio.Underway(checking), "limit")
