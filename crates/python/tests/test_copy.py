"""Copies, their failures and interruptions, through Python."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import Daemon, make_tree, program, start_daemon, stop_daemon, tree_of

import thalweg
from thalweg import _copy


def test_a_tree_goes_to_a_daemon_and_comes_back(daemon: Daemon, tmp_path: Path, leaves_no_threads: None) -> None:
    source = tmp_path / "source"
    content = make_tree(source)
    events: list[thalweg.Event] = []
    report = thalweg.copy(
        source, daemon.url(), ticket=daemon.ticket, on_event=events.append, entries=True, progress_s=0.01
    )
    assert tree_of(daemon.root / "source") == content
    assert report.bytes_done == sum(map(len, content.values()))
    assert (report.failed, report.failures) == (0, [])
    assert report.seconds > 0 and report.root and len(report.root) == 64 and "plan" in report.details
    settled = {event["path"] for event in events if event["event"] == "entry" and event["type"] == "file"}
    assert settled == {f"source/{name}" for name in content}
    assert any(event["event"] == "progress" for event in events)
    back = thalweg.copy(daemon.url("source/"), tmp_path / "back", ticket=daemon.ticket)
    assert back.done == report.done and tree_of(tmp_path / "back") == content
    again = thalweg.copy(daemon.url("source/"), tmp_path / "back", ticket=daemon.ticket)
    assert again.bytes_received == 0 and again.unchanged > 0


def test_modes_are_those_of_the_source_whatever_the_umask(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o777)
    os.chmod(tmp_path / "a", 0o775)
    (tmp_path / "a" / "f").write_bytes(b"x")
    os.chmod(tmp_path / "a" / "f", 0o666)
    thalweg.copy(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b/a").stat().st_mode & 0o777 == 0o775
    assert (tmp_path / "b/a/f").stat().st_mode & 0o777 == 0o666


def test_sync_removes_what_the_source_lacks_only_if_asked(tmp_path: Path) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    content = make_tree(source, 5)
    make_tree(destination, 9)
    contents = f"{source}/"
    assert thalweg.sync(contents, destination).deleted == 0
    with pytest.raises(thalweg.Error):
        thalweg.sync(contents, destination, delete=True, max_delete=1)
    with pytest.raises(TypeError, match="max_delete"):
        thalweg.sync(contents, destination, delete=True, max_delete=None)  # type: ignore[arg-type]
    # A limit alone deletes nothing.
    assert thalweg.transfer(contents, destination, max_delete=9).report().deleted == 0
    with pytest.raises(thalweg.Error):
        thalweg.transfer(contents, destination, delete=True, max_delete=1).report()
    # Its own report and receipt would go too.
    own = destination / "d0" / "own"
    with pytest.raises(thalweg.UsageError, match="is in the destination"):
        thalweg.transfer(contents, destination, delete=True, report=own).report()
    with pytest.raises(thalweg.UsageError, match="is in the destination"):
        thalweg.transfer(contents, destination, delete=True, receipt=own).report()
    assert len(tree_of(destination)) > len(content) and not own.exists()
    assert thalweg.transfer(contents, destination, delete=True).report().deleted >= 4
    assert tree_of(destination) == content


def test_what_links_lead_to_is_copied_if_asked(daemon: Daemon, tmp_path: Path) -> None:
    (daemon.root / "run").mkdir()
    (daemon.root / "run" / "f").write_bytes(b"x")
    (daemon.root / "run" / "link").symlink_to("f")
    thalweg.copy(daemon.url("run/"), tmp_path / "as-links", ticket=daemon.ticket)
    assert (tmp_path / "as-links" / "link").is_symlink()
    thalweg.copy(daemon.url("run/"), tmp_path / "as-files", ticket=daemon.ticket, copy_links=True)
    copied = tmp_path / "as-files" / "link"
    assert copied.read_bytes() == b"x" and not copied.is_symlink()
    places = (daemon.url("run"), tmp_path / "as-files")
    assert thalweg.check(*places, ticket=daemon.ticket).differing == 1
    found = thalweg.check(*places, ticket=daemon.ticket, copy_links=True)
    assert found.ok and found.same == 2


def test_a_dry_run_has_no_receipt(daemon: Daemon, tmp_path: Path) -> None:
    """It would look like one of a copy."""
    (tmp_path / "f").write_bytes(b"x")
    for place in (daemon.url(), tmp_path / "there"):
        with pytest.raises(thalweg.UsageError, match="dry run"):
            thalweg.copy(tmp_path / "f", place, ticket=daemon.ticket, dry_run=True, receipt=tmp_path / "r")
        assert thalweg.copy(tmp_path / "f", place, ticket=daemon.ticket, dry_run=True).root is None
    assert not (tmp_path / "r").exists()


def test_a_receipt_is_verified_and_damage_is_found_by_its_bytes(daemon: Daemon, tmp_path: Path) -> None:
    source, receipt = tmp_path / "large", tmp_path / "receipt"
    source.write_bytes(os.urandom(9 << 20))
    thalweg.copy(source, daemon.url(), ticket=daemon.ticket, receipt=receipt)
    told: list[thalweg.Event] = []
    good = thalweg.verify(receipt, daemon.url(), ticket=daemon.ticket, on_event=told.append)
    assert (told[-1]["event"], told[-1]["bytes_settled"]) == ("progress", 9 << 20)
    assert good.ok and good.bytes == 9 << 20 and good.findings == []
    assert (good.extra, good.failed, good.skipped) == (None, 0, 0)
    assert good.receipt["from"] == [str(source)] and good.receipt["totals"]["bytes_done"] == 9 << 20
    assert good.receipt["terms"]["check"] == "evidence" and good.receipt["began"] > 0
    assert not good.receipt["one_signer"] and not good.receipt["sender"]["expected"]
    with (daemon.root / "large").open("r+b") as file:
        file.seek(5 << 20)
        file.write(b"damage")
    bad = thalweg.verify(receipt, daemon.url(), ticket=daemon.ticket)
    assert not bad.ok and bad.differing == 1
    damage = [finding for finding in bad.findings if finding["event"] == "damage"]
    assert len(damage) == 1 and damage[0]["start"] <= 5 << 20 < damage[0]["end"]
    text = receipt.read_text()
    receipt.write_text(text.replace('"bytes_done":9437184', '"bytes_done":9437185'))
    with pytest.raises(thalweg.DamageError):
        thalweg.verify(receipt, daemon.url(), ticket=daemon.ticket)


def test_two_places_are_compared_and_what_differs_is_found(
    daemon: Daemon, tmp_path: Path, leaves_no_threads: None
) -> None:
    source = tmp_path / "source"
    content = make_tree(source)
    os.mkfifo(source / "fifo")
    thalweg.copy(f"{source}/", daemon.url("a"), ticket=daemon.ticket)
    same = thalweg.check(source, daemon.url("a"), ticket=daemon.ticket)
    assert same.ok and same.findings == [] and same.left_out == 1
    assert (same.files, same.bytes) == (len(content), sum(map(len, content.values())))
    assert not thalweg.check(source, daemon.url("a"), ticket=daemon.ticket, devices=True).ok
    # One bit, of as many bytes.
    name = max(content, key=lambda name: len(content[name]))
    (daemon.root / "a" / name).write_bytes(content[name][:-1] + bytes([content[name][-1] ^ 1]))
    (source / "mine").write_bytes(b"x")
    (daemon.root / "a" / "theirs").write_bytes(b"x")
    told: list[thalweg.Event] = []
    found = thalweg.check(source, daemon.url("a"), ticket=daemon.ticket, on_event=told.append)
    assert not found.ok and (found.missing, found.extra, found.differing, found.unreadable) == (1, 1, 1, 0)
    assert {(one["what"], one["path"]) for one in found.findings} == {
        ("differs", name),
        ("missing", "mine"),
        ("extra", "theirs"),
    }
    progress = [one for one in told if one["event"] == "progress"]
    assert progress and progress[-1]["bytes_found"] > 0
    assert [one for one in told if one not in progress] == found.findings
    assert all(one["event"] == "difference" for one in found.findings)
    rules = [f"- /{name}", "- mine", "- theirs"]
    assert thalweg.check(source, daemon.url("a"), ticket=daemon.ticket, filter=rules).ok
    assert "<th>extra</th><td>1</td>" in found._repr_html_() and pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(thalweg.UsageError):
        thalweg.check(source, "null:")
    with pytest.raises(TypeError, match="filter='- a': a list"):
        thalweg.check(source, source, filter="- a")


def test_an_interruption_ends_a_comparison(tmp_path: Path, leaves_no_threads: None) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    b.mkdir()
    # More than are told before somebody hears them.
    for number in range(5000):
        (a / str(number)).touch()

    def interrupted(event: thalweg.Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        thalweg.check(a, b, on_event=interrupted)
    work = _copy.start_check(a, b, None, False, False, None, (), None, {})
    work.stop()
    with pytest.raises(thalweg.StoppedError):
        work.report()


def test_keys_are_read_as_openssl_prints_them(daemon: Daemon, tmp_path: Path) -> None:
    source, receipt = tmp_path / "file", tmp_path / "receipt"
    source.write_bytes(b"content")
    thalweg.copy(source, daemon.url(), ticket=daemon.ticket, receipt=receipt)
    footer = json.loads(receipt.read_text().splitlines()[-1])
    keys = [bytes.fromhex(footer[side]["fingerprint"]).hex(":").upper() for side in ("sender", "receiver")]
    assert thalweg.verify(receipt, daemon.url(), ticket=daemon.ticket, keys=keys).ok
    sender, receiver = [keys[0]], [keys[1]]
    found = thalweg.verify(receipt, daemon.url(), ticket=daemon.ticket, sender=sender, receiver=receiver)
    assert found.ok and found.receipt["receiver"]["expected"]
    with pytest.raises(thalweg.DamageError, match="the receiver signed"):
        thalweg.verify(receipt, daemon.url(), ticket=daemon.ticket, receiver=sender)
    with pytest.raises(thalweg.UsageError, match='sender="xy".*64 hexadecimal digits'):
        thalweg.verify(receipt, daemon.url(), ticket=daemon.ticket, sender=["xy"])
    with pytest.raises(thalweg.DamageError):
        thalweg.verify(receipt, daemon.url(), ticket=daemon.ticket, keys=["00" * 32])
    with pytest.raises(thalweg.UsageError, match="64 hexadecimal digits"):
        thalweg.verify(receipt, daemon.url(), ticket=daemon.ticket, keys=["xy"])


def test_failures_are_exceptions_by_their_kind(daemon: Daemon, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        thalweg.copy(tmp_path / "absent", tmp_path / "b")
    error = missing.value
    assert isinstance(error, thalweg.NotFoundError) and error.kind == "notfound" and error.errno == 2
    with pytest.raises(ValueError, match="ticket"):
        thalweg.copy(tmp_path, daemon.url())
    with pytest.raises(ValueError, match="unit"):
        thalweg.copy(tmp_path, tmp_path / "b", bwlimit="5")
    with pytest.raises(ConnectionError) as refused:
        thalweg.copy(tmp_path, "tw://127.0.0.1:1/data/", ticket=daemon.ticket)
    assert isinstance(refused.value, thalweg.Error) and refused.value.hint is not None
    assert (refused.value.reason, error.reason) == ("not-answered", None)
    assert pickle.loads(pickle.dumps(refused.value)).reason == "not-answered"
    with pytest.raises(TypeError, match="streems"):
        thalweg.copy(tmp_path, tmp_path / "b", streems=3)  # type: ignore[call-arg]
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), copied.kind, str(copied)) == (type(error), error.kind, str(error))


def test_entries_that_fail_are_named_and_the_others_arrive(tmp_path: Path) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    content = make_tree(source, 6)
    # A directory stands where a file should go.
    (destination / "d0/f0").mkdir(parents=True)
    (destination / "d0/f0/in-the-way").touch()
    with pytest.raises(thalweg.PartialError) as partial:
        thalweg.copy(f"{source}/", destination)
    assert partial.value.report.failed == 1
    assert [failure.path for failure in partial.value.failures] == ["d0/f0"]
    report = thalweg.copy(f"{source}/", destination, check_entries=False)
    assert report.failed == 1
    del content["d0/f0"]
    assert content.items() <= tree_of(destination).items()


@pytest.mark.parametrize("streams", [False, True], ids=["copy", "stream"])
def test_a_receipt_that_is_lost_does_not_hide_what_was_done(daemon: Daemon, tmp_path: Path, streams: bool) -> None:
    source, kept = tmp_path / "source", tmp_path / "kept"
    source.write_bytes(os.urandom(4 << 20))
    kept.mkdir()

    def lose(event: thalweg.Event) -> None:
        # Before that it may not have been begun.
        if event.get("bytes_verified") or event.get("bytes_durable"):
            shutil.rmtree(kept, ignore_errors=True)

    way = thalweg.stream if streams else thalweg.copy
    options = {"receipt": kept / "receipt", "bwlimit": "2MB/s", "progress_s": 0.05, "ticket": daemon.ticket}
    with pytest.raises(thalweg.Error, match="receipt") as lost:
        way(source, daemon.url("b"), on_event=lose, **options)
    assert not isinstance(lost.value, thalweg.PartialError)
    for error in (lost.value, pickle.loads(pickle.dumps(lost.value))):
        assert error.report is not None and (error.report.failed, error.report.attempts) == (0, 1)
    assert (daemon.root / "b").read_bytes() == source.read_bytes()
    assert thalweg.Error("nothing was done").report is None


def far_side(tmp_path: Path) -> str:
    """In place of ssh: the far side is this machine, and nobody knows an address at which it could be dialled."""
    script = tmp_path / "far-side.sh"
    script.write_text(
        f"export THALWEG_STATE='{tmp_path}/far-state'\n"
        'unset SSH_CONNECTION\nfor last; do :; done\nexec sh -c "$last"\n'
    )
    return f"sh '{script}'"


def test_that_data_ride_in_ssh_is_told_and_reported(daemon: Daemon, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(1 << 20))
    rsh, there = far_side(tmp_path), f"far.invalid:{tmp_path}/"
    told: list[thalweg.Event] = []
    report = thalweg.copy(source, f"{there}b", rsh=rsh, far_path=program(), on_event=told.append)
    assert any("data ride in ssh" in event.get("text", "") for event in told), told
    assert report.details["in_ssh"] is True
    assert (tmp_path / "b").read_bytes() == source.read_bytes()
    told.clear()
    thalweg.stream(source, f"{there}c", rsh=rsh, far_path=program(), on_event=told.append)
    assert any("data ride in ssh" in event.get("text", "") for event in told), told
    assert thalweg.copy(source, daemon.url(), ticket=daemon.ticket).details["in_ssh"] is False


def test_where_a_state_directory_has_no_room_copies_and_streams_go_on_and_say_so(tmp_path: Path) -> None:
    source, home, state = tmp_path / "source", tmp_path / "home", tmp_path / "home/state/thalweg"
    source.write_bytes(os.urandom(300_000))
    home.mkdir()
    # In memory a directory needs no room, but an inode.
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=8", "tmpfs", str(home)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("file systems may not be mounted here")
    try:
        with pytest.raises(OSError, match="No space left"):
            for number in range(16):
                (home / str(number)).touch()
        for way in (thalweg.copy, thalweg.stream):
            told: list[thalweg.Event] = []
            way(source, tmp_path / way.__name__, state=state, on_event=told.append)
            assert (tmp_path / way.__name__).read_bytes() == source.read_bytes()
            assert sum("create the state directory failed" in event.get("text", "") for event in told) == 1, told
        assert not state.exists()
    finally:
        subprocess.run(["umount", str(home)], check=True)


def test_a_static_program_is_looked_for_on_the_path_and_python_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").write_bytes(b"x")
    monkeypatch.delenv("THALWEG_STATIC", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")

    def copy() -> object:
        place = f"far.invalid:{tmp_path}/b"
        return thalweg.copy(
            tmp_path / "source", place, rsh=far_side(tmp_path), far_path="/absent/thalweg", bootstrap=True
        )

    with pytest.raises(thalweg.UsageError, match="no static thalweg to be placed .*thalweg-static.*THALWEG_STATIC"):
        copy()
    # The head of a static program for a machine that is none of those that run this.
    head = bytearray(64)
    head[:6], head[16], head[18] = b"\x7fELF\x02\x01", 2, 243
    static = tmp_path / "bin/thalweg-static"
    static.parent.mkdir()
    static.write_bytes(head)
    static.chmod(0o755)
    with pytest.raises(thalweg.UnsupportedError, match="riscv64"):
        copy()


def test_an_option_that_would_do_nothing_is_refused_and_the_others_do_something(tmp_path: Path) -> None:
    daemon = start_daemon(tmp_path, tmp_path / "export", "--require-tls")
    try:
        source = tmp_path / "source"
        source.mkdir()
        os.mkfifo(source / "fifo")
        receipt, there = tmp_path / "receipt", {"ticket": daemon.ticket}
        with pytest.raises(thalweg.Error):
            thalweg.copy(f"{source}/", daemon.url("a"), cipher="aes128", **there)
        thalweg.copy(f"{source}/", daemon.url("a"), cipher="tls", devices=True, receipt=receipt, **there)
        assert (daemon.root / "a/fifo").is_fifo()
        asked = {"patience_s": 60, "stall_timeout_s": 20, **there}
        assert thalweg.verify(receipt, daemon.url("a"), **asked).ok
        assert thalweg.check(source, daemon.url("a"), devices=True, **asked).ok
        for name in ("state", "cipher"):
            with pytest.raises(TypeError, match=name):
                thalweg.verify(receipt, daemon.url("a"), **{name: "tls"}, **there)
            with pytest.raises(TypeError, match=name):
                thalweg.check(source, daemon.url("a"), **{name: "tls"}, **there)
        for name, odd in (("far_ports", "9-8"), ("near_ports", "many"), ("cipher", "rot13")):
            with pytest.raises(thalweg.UsageError, match=f"{name}="):
                thalweg.copy(source, daemon.url("b"), **{name: odd}, **there)
        told: list[thalweg.Event] = []
        thalweg.copy(source, f"{tmp_path}/near/", scavenger=True, on_event=told.append)
        assert any("--class scavenger" in event.get("text", "") for event in told), told
    finally:
        stop_daemon(daemon)


def test_a_callback_that_raises_stops_the_copy_in_order(tmp_path: Path, leaves_no_threads: None) -> None:
    source = tmp_path / "source"
    content = make_tree(source, 200)

    def raises(event: thalweg.Event) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        thalweg.copy(f"{source}/", tmp_path / "b", on_event=raises, entries=True)
    thalweg.copy(f"{source}/", tmp_path / "b")
    assert tree_of(tmp_path / "b") == content


def test_a_report_whose_wait_is_interrupted_stops_its_copy(
    monkeypatch: pytest.MonkeyPatch, leaves_no_threads: None
) -> None:
    # At this rate it takes two minutes.
    copying = thalweg.transfer("zero:2GiB", "null:", bwlimit="20MB/s")

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(copying, "events", interrupted)
        with pytest.raises(KeyboardInterrupt):
            copying.report()
    with pytest.raises(thalweg.StoppedError):
        copying.report()


def test_a_transfer_is_iterated_and_left_early(tmp_path: Path, leaves_no_threads: None) -> None:
    with thalweg.transfer("zero:2GiB", "null:", bwlimit="50MB/s", progress_s=0.05) as copying:
        for event in copying:
            if event["event"] == "progress" and event["bytes_verified"] > 0:
                break
    with pytest.raises(thalweg.StoppedError):
        copying.report()


def test_the_interpreter_is_free_while_data_move(tmp_path: Path) -> None:
    ticks = 0
    with thalweg.transfer("zero:2GiB", "null:", bwlimit="200MB/s") as copying:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            ticks += 1
        copying.stop()
    assert ticks > 10_000


def test_several_threads_copy_at_once(daemon: Daemon, tmp_path: Path, leaves_no_threads: None) -> None:
    contents = [make_tree(tmp_path / f"s{number}", 10 + number) for number in range(6)]

    def push(number: int) -> int:
        return thalweg.copy(tmp_path / f"s{number}", daemon.url(), ticket=daemon.ticket).failed

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(push, range(6))) == [0] * 6
    for number, content in enumerate(contents):
        assert tree_of(daemon.root / f"s{number}") == content


def test_a_ctrl_c_ends_a_copy_in_order_and_the_same_call_resumes(daemon: Daemon, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(48 << 20))
    script = (
        "import signal, sys, thalweg\n"
        # Whoever started these tests in the background had it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n"
        "    thalweg.copy(sys.argv[1], sys.argv[2], ticket=sys.argv[3], bwlimit=sys.argv[4], progress_s=0.05,\n"
        "                 on_event=lambda event: print(event.get('bytes_verified', 0), flush=True))\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(77)\n"
    )

    def start(rate: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", script, source, daemon.url(), daemon.ticket, rate]
        return subprocess.Popen(words, stdout=subprocess.PIPE)

    with start("10MB/s") as first:
        assert first.stdout is not None
        for line in first.stdout:
            if int(line) > 12 << 20:
                break
        first.send_signal(signal.SIGINT)
        first.stdout.read()
        assert first.wait(timeout=60) == 77
    assert not (daemon.root / "source").exists()
    report = thalweg.copy(source, daemon.url(), ticket=daemon.ticket)
    # How much of it was durable is the disk's doing.
    assert report.bytes_resumed > 0, report
    assert (daemon.root / "source").read_bytes() == source.read_bytes()


def test_a_copy_outlives_its_daemon(daemon: Daemon, tmp_path: Path) -> None:
    """What a lost link is told as, and that it heals."""
    source = tmp_path / "source"
    source.write_bytes(os.urandom(16 << 20))
    command = list(map(str, daemon.process.args))  # type: ignore[arg-type]
    command[command.index("--listen") + 1] = daemon.address
    told: list[str] = []
    restarted: list[subprocess.Popen[bytes]] = []

    def cut() -> None:
        daemon.process.kill()
        daemon.process.wait()
        restarted.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))

    def hear(event: thalweg.Event) -> None:
        told.append(event["event"])
        if not restarted and event.get("bytes_verified", 0) > 4 << 20:
            thread = threading.Thread(target=cut)
            thread.start()
            thread.join()

    try:
        report = thalweg.copy(
            source, daemon.url(), ticket=daemon.ticket, bwlimit="10MB/s", on_event=hear, progress_s=0.05
        )
    finally:
        for process in restarted:
            process.kill()
            process.wait()
    assert "link-lost" in told and report.failed == 0
    assert (daemon.root / "source").read_bytes() == source.read_bytes()


def test_hostile_names_are_bytes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    names = [b"tw:x", b"@a", b"\xff\xfe", b"a\nb", b"-rf"]
    for name in names:
        Path(os.fsdecode(os.path.join(os.fsencode(source), name))).write_bytes(name)
    # Bytes, as a path object, are a path of this machine whatever they look like.
    os.chdir(source)
    for name in names:
        thalweg.copy(name, f"{tmp_path}/b/")
    assert sorted(os.listdir(os.fsencode(tmp_path / "b"))) == sorted(names)


def test_events_go_on_where_an_iteration_was_left(tmp_path: Path) -> None:
    make_tree(tmp_path / "source", 30)
    seen: list[str] = []
    with thalweg.transfer(f"{tmp_path}/source/", tmp_path / "b", entries=True) as copying:
        # All of it comes as one batch.
        time.sleep(0.5)
        seen.append(next(copying)["event"])
        for event in copying:
            seen.append(event["event"])
            if seen.count("entry") == 2:
                break
        seen.extend(event["event"] for event in copying)
    # Files and their directories.
    assert seen.count("entry") >= 33


def test_a_place_that_is_not_there_is_named(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    near, far = tmp_path / "absent", daemon.url("absent")
    no_export, same = f"tw://{daemon.address}/none/x", daemon.url("there")
    ways: list[tuple[str, Callable[[], object]]] = [
        (str(near), lambda: thalweg.copy(near, tmp_path / "b")),
        (str(near), lambda: thalweg.copy([tmp_path / "there", near], f"{tmp_path}/b/")),
        (far, lambda: thalweg.copy(far, tmp_path / "b", ticket=daemon.ticket)),
        (no_export, lambda: thalweg.copy(tmp_path / "there", no_export, ticket=daemon.ticket)),
        (str(near), lambda: thalweg.stream(near, tmp_path / "b")),
        (far, lambda: thalweg.stream(far, tmp_path / "b", ticket=daemon.ticket)),
        (str(near), lambda: thalweg.predict(near, tmp_path / "b")),
        (str(near), lambda: thalweg.verify(near, tmp_path / "there")),
        (str(near), lambda: thalweg.check(tmp_path / "there", near)),
        (far, lambda: thalweg.check(tmp_path / "there", far, ticket=daemon.ticket)),
        # The other place has the same name, and is there.
        (same, lambda: thalweg.check(tmp_path / "there", same, ticket=daemon.ticket)),
    ]
    for wanted, way in ways:
        with pytest.raises(FileNotFoundError) as missing:
            way()
        error = missing.value
        assert isinstance(error, thalweg.Error)
        assert (error.path, error.filename) == (wanted, wanted)
        # Once is enough.
        assert str(error).count(wanted) == 1 and error.strerror == str(error), error
        assert pickle.loads(pickle.dumps(error)).filename == wanted


@pytest.mark.parametrize(
    "options",
    [
        {"streams": -1},
        {"streams": 10**9},
        {"port": 70_000},
        {"port": 0},
        {"max_delete": -1},
        {"max_delete": 1 << 64},
        {"patience_s": 0},
        {"patience_s": float("nan")},
        {"stall_timeout_s": 0},
        {"progress_s": -1},
    ],
    ids=str,
)
def test_a_number_out_of_its_range_is_named_with_the_range(options: dict[str, float], tmp_path: Path) -> None:
    [name] = options
    with pytest.raises(thalweg.UsageError, match=f"{name}: (from|more than) [0-9]"):
        thalweg.transfer(tmp_path, tmp_path / "b", **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=name):
        thalweg.transfer(tmp_path, tmp_path / "b", **{name: "3"})  # type: ignore[arg-type]


def test_one_text_is_no_list_of_its_letters(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="filter='- a': a list"):
        thalweg.transfer(tmp_path, tmp_path / "b", filter="- a")
    with pytest.raises(TypeError, match="keys='00': a list"):
        thalweg.verify(tmp_path / "receipt", tmp_path, keys="00")


def test_reports_are_values_that_can_be_kept_in_sets(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    report = thalweg.copy(tmp_path / "f", f"{tmp_path}/b/", receipt=tmp_path / "receipt")
    found = thalweg.verify(tmp_path / "receipt", tmp_path / "b")
    told = thalweg.predict(tmp_path / "f", tmp_path / "h")
    assert len({report, found, told, pickle.loads(pickle.dumps(told))}) == 3
    # As a notebook shows them.
    assert "<th>bytes_done</th><td>1</td>" in report._repr_html_() and "details" not in report._repr_html_()
    assert all(value._repr_html_().startswith("<table>") for value in (found, told))
