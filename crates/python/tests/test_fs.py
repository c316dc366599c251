"""The fsspec file system, with the libraries that people open files with."""

from __future__ import annotations

import gc
import gzip
import io
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import dask.bag as bag
import fsspec
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from conftest import Daemon, make_tree, start_daemon, stop_daemon, tree_of
from fsspec import AbstractFileSystem

import thalweg
from thalweg import _thalweg, _work
from thalweg.fs import ThalwegFileSystem


@pytest.fixture
def fs(daemon: Daemon) -> ThalwegFileSystem:
    host, _, port = daemon.address.rpartition(":")
    made = fsspec.filesystem("tw", host=host, port=int(port), ticket=str(daemon.ticket), skip_instance_cache=True)
    assert isinstance(made, ThalwegFileSystem)
    return made


def options(daemon: Daemon) -> dict[str, str]:
    return {"ticket": str(daemon.ticket)}


def test_ways_that_come_as_iterators_are_there_for_each_session(daemon: Daemon) -> None:
    host, _, port = daemon.address.rpartition(":")
    ways: dict[str, Any] = {"via": iter([(host, int(port))]), "bind": iter([host])}
    made = ThalwegFileSystem(host, int(port), str(daemon.ticket), skip_instance_cache=True, **ways)
    for _ in range(2):
        told = _work.reaching_of(made._reaching)
        assert (told["via"], told["bind"]) == ([f"{host}:{port}"], [host])


def test_ranges_lists_and_information(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    content = make_tree(daemon.root, 9)
    assert sorted(fs.find("data")) == sorted(f"data/{name}" for name in content)
    assert {entry["name"]: entry["type"] for entry in fs.ls("data")} == {
        f"data/d{number}": "directory" for number in range(3)
    }
    info = fs.info("data/d2/f8")
    assert (info["size"], info["type"]) == (len(content["d2/f8"]), "file")
    assert fs.cat_file("data/d2/f8", start=5, end=9) == content["d2/f8"][5:9]
    assert fs.cat_file("data/d2/f8", start=-3) == content["d2/f8"][-3:]
    assert fs.cat_file("data/d2/f8", start=10, end=10) == b""
    with fs.open("data/d2/f8", block_size=1000) as file:
        file.seek(2000)
        assert file.read(500) == content["d2/f8"][2000:2500]
        file.seek(-1, os.SEEK_END)
        assert file.read() == content["d2/f8"][-1:]
    with fs.open("data/d2/f8", cache_type="none") as file:
        assert file.read() == content["d2/f8"]
    ways: list[Callable[[str], object]] = [fs.info, fs.ls, fs.open, fs.cat, fs.digest, fs.rm]
    for way in ways:
        with pytest.raises(FileNotFoundError) as missing:
            way("data/absent")
        assert missing.value.filename == "data/absent"
    with pytest.raises(FileNotFoundError) as missing:
        fs.get_file("data/absent", daemon.root / "got")
    assert missing.value.filename == daemon.url("absent")
    assert not fs.exists("data/absent") and fs.isdir("data/d1")
    assert len(fs.digest("data/d2/f8")) == 64


def test_what_is_written_stands_whole_when_it_is_closed(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    with fs.open("data/new/dir/file", "wb") as file:
        file.write(b"first ")
        assert not (daemon.root / "new").exists()
        file.write(b"second")
    assert (daemon.root / "new/dir/file").read_bytes() == b"first second"
    with pytest.raises(RuntimeError), fs.open("data/broken", "wb") as file:
        file.write(b"half")
        raise RuntimeError
    assert not fs.exists("data/broken")
    with pytest.raises(FileExistsError):
        fs.open("data/new/dir/file", "xb")
    fs.pipe_file("data/piped", b"x" * 100_000)
    assert fs.cat_file("data/piped") == b"x" * 100_000
    fs.mv("data/piped", "data/moved")
    assert not fs.exists("data/piped") and fs.info("data/moved")["size"] == 100_000
    with pytest.raises(NotImplementedError, match="only a copy sets them"):
        fs.touch("data/moved", truncate=False)
    fs.touch("data/touched", truncate=False)
    assert fs.info("data/moved")["size"] == 100_000 and fs.info("data/touched")["size"] == 0
    fs.makedirs("data/empty/below")
    assert fs.ls("data/empty", detail=False) == ["data/empty/below"]
    fs.rm("data/new", recursive=True)
    fs.rm_file("data/moved")
    fs.rmdir("data/empty/below")
    assert fs.ls("data/empty") == []
    with pytest.raises(thalweg.Error):
        fs.rm("data/empty")


def test_what_an_exception_closes_is_thrown_away_however_it_was_opened(
    daemon: Daemon, fs: ThalwegFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionError

    there = daemon.root / "file"
    there.write_bytes(b"whole")
    ways: list[Callable[[], Any]] = [
        lambda: fs.open("data/file", "wb"),
        lambda: fs.open("data/file", "ab"),
        lambda: fs.open("data/file", "w"),
        lambda: fs.open("data/file", "a", encoding="utf-8"),
    ]
    for mode in ("wb", "ab", "w", "wt", "at"):
        ways.append(lambda mode=mode: fsspec.open(daemon.url("file"), mode, **options(daemon)))
    ways.append(lambda: fsspec.open(daemon.url("file"), "wt", compression="gzip", **options(daemon)))
    for number, way in enumerate(ways):
        with pytest.raises(RuntimeError), way() as file:
            file.write("half" if isinstance(file, io.TextIOBase) else b"half")
            raise RuntimeError
        assert there.read_bytes() == b"whole", number

    def by_hand() -> None:
        file = fs.open("data/file", "wb")
        try:
            file.write(b"half")
            raise RuntimeError
        finally:
            file.close()

    with pytest.raises(RuntimeError):
        by_hand()
    with fs.transaction, pytest.raises(RuntimeError), fs.open("data/file", "wb") as file:
        file.write(b"half")
        raise RuntimeError
    assert there.read_bytes() == b"whole"
    # The disk of this machine is full: Python writes what it holds when the file is closed.
    for closes in (lambda file: file.close(), lambda file: file.__exit__(None, None, None)):
        file = fs.open("data/file", "wb")
        file._file.close()
        file._file = open("/dev/full", "wb")
        file.write(b"half")
        with pytest.raises(OSError):
            closes(file)
        del file
        gc.collect()
        assert there.read_bytes() == b"whole"
    # What stands there could not be fetched to go on with it.
    with monkeypatch.context() as patched, pytest.raises(ConnectionError):
        patched.setattr(fs, "get_file", refuse)
        fs.open("data/file", "ab")
    gc.collect()
    assert there.read_bytes() == b"whole"
    # An exception that was handled before the file was opened, or within, is none of its own.
    try:
        raise RuntimeError
    except RuntimeError:
        with fsspec.open(daemon.url("file"), "w", **options(daemon)) as file:
            file.write("new")
            with pytest.raises(KeyError):
                raise KeyError
    assert there.read_bytes() == b"new"


def test_what_is_compressed_stands_whole_when_it_is_closed_or_its_transaction_ends(
    daemon: Daemon, fs: ThalwegFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError

    content = os.urandom(100_000)
    for codec in ("gzip", "bz2", "xz", "zip"):
        with fs.open(f"data/{codec}", "wb", compression=codec) as file:
            file.write(content)
        assert (daemon.root / codec).exists(), codec
        with fs.open(f"data/{codec}", "rb", compression=codec) as file:
            assert file.read() == content, codec
    with fs.open("data/text.gz", "w", compression="infer") as file:
        file.write("words")
    assert gzip.decompress((daemon.root / "text.gz").read_bytes()) == b"words"
    with pytest.raises(RuntimeError), fs.open("data/text.gz", "wb", compression="gzip") as file:
        file.write(content)
        raise RuntimeError
    assert gzip.decompress((daemon.root / "text.gz").read_bytes()) == b"words"
    with fs.transaction:
        with fs.open("data/a.gz", "wb", compression="gzip") as file:
            file.write(content)
        # Nobody closes these.
        left = [fs.open("data/b.gz", "wt", compression="gzip"), fs.open("data/c", "wb"), fs.open("data/d", "w")]
        for file in left:
            file.write("words" if isinstance(file, io.TextIOBase) else b"words")
        assert not (daemon.root / "a.gz").exists()
    assert gzip.decompress((daemon.root / "a.gz").read_bytes()) == content
    assert gzip.decompress((daemon.root / "b.gz").read_bytes()) == b"words"
    assert [(daemon.root / name).read_bytes() for name in "cd"] == [b"words"] * 2
    # What could not be put is said, whoever closes it.
    monkeypatch.setattr(fs, "_put", refuse)
    for mode in ("wb", "wt"):
        with pytest.raises(ConnectionError), fs.open("data/not.gz", mode, compression="gzip") as file:
            file.write("half" if isinstance(file, io.TextIOBase) else b"half")
    with pytest.raises(ConnectionError), fs.transaction:
        fs.open("data/not.gz", "wb", compression="gzip").close()
    assert not (daemon.root / "not.gz").exists()


def test_what_is_written_leaves_what_stands_there_its_mode(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    there = daemon.root / "kept"
    there.write_bytes(b"old")
    there.chmod(0o600)

    def mode(of: Path) -> int:
        return of.stat().st_mode & 0o777

    fs.pipe_file("data/kept", b"new")
    assert (there.read_bytes(), mode(there)) == (b"new", 0o600)
    # It need not let its owner write, either.
    there.chmod(0o444)
    with fs.open("data/kept", "ab") as file:
        assert os.stat(file._here).st_mode & 0o200
        file.write(b" and more")
    assert (there.read_bytes(), mode(there)) == (b"new and more", 0o444)
    before = os.umask(0o027)
    try:
        fs.pipe_file("data/made", b"new")
    finally:
        os.umask(before)
    assert mode(daemon.root / "made") == 0o640


def test_of_a_link_that_is_put_what_it_leads_to_is_put(
    daemon: Daemon, fs: ThalwegFileSystem, tmp_path: Path
) -> None:
    (tmp_path / "real").write_bytes(b"content")
    (tmp_path / "link").symlink_to("real")
    for number, put in enumerate((fs.put, fs.put_file)):
        put(str(tmp_path / "link"), f"data/put{number}")
        there = daemon.root / f"put{number}"
        assert not there.is_symlink() and there.read_bytes() == b"content"


def test_a_directory_that_something_comes_into_is_not_removed(
    daemon: Daemon, fs: ThalwegFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    (daemon.root / "d").mkdir()
    (daemon.root / "file").write_bytes(b"content")
    usual = fs._look

    def and_then(path: str) -> Any:
        told = usual(path)
        (daemon.root / "d/late").write_bytes(b"late")
        return told

    with monkeypatch.context() as patched:
        # Whichever way it looks.
        patched.setattr(fs, "_look", and_then)
        patched.setattr(fs, "ls", lambda path, **_: [and_then(path)][1:])
        with pytest.raises(thalweg.ConflictError):
            fs.rmdir("data/d")
    assert (daemon.root / "d/late").read_bytes() == b"late"
    with pytest.raises(thalweg.ConflictError, match="no directory"):
        fs.rmdir("data/file")
    fs.rm_file("data/d/late")
    with pytest.raises(thalweg.ConflictError):
        fs.rm_file("data/d")
    fs.rmdir("data/d")
    assert not (daemon.root / "d").exists()


def test_a_daemon_that_refuses_every_directory_is_asked_for_the_tree_once_it_is_seen_to_be_empty(
    daemon: Daemon, fs: ThalwegFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    (daemon.root / "d").mkdir()
    (daemon.root / "d/file").write_bytes(b"content")
    usual = fs._remove

    def as_earlier(path: str, recursive: bool, as_directory: bool = False) -> None:
        if as_directory:
            cause = "it is a directory: use -r"
            raise thalweg.ConflictError(cause, kind="conflict", operation="remove", path=path)
        usual(path, recursive)

    monkeypatch.setattr(fs, "_remove", as_earlier)
    with pytest.raises(thalweg.ConflictError, match="not empty"):
        fs.rmdir("data/d")
    assert (daemon.root / "d/file").read_bytes() == b"content"
    (daemon.root / "d/file").unlink()
    fs.rmdir("data/d")
    assert not (daemon.root / "d").exists()


class Cutting:
    """Passes a connection on, until it is to cut it once a file is gone: its answer is lost."""

    def __init__(self, to: str) -> None:
        host, _, port = to.rpartition(":")
        self.to = (host, int(port))
        self.until_gone: Path | None = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def close(self) -> None:
        # It wakes who waits there.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near: socket.socket) -> None:
        with near, socket.create_connection(self.to) as far:
            back = threading.Thread(target=self.relay, args=(far, near, True), daemon=True)
            back.start()
            self.relay(near, far, False)
            back.join()

    def relay(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if is_answer and self.until_gone is not None:
                    deadline = time.monotonic() + 60
                    while self.until_gone.exists() and time.monotonic() < deadline:
                        time.sleep(0.01)
                    self.until_gone = None
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_what_was_removed_before_the_link_was_lost_is_removed(daemon: Daemon) -> None:
    cutting = Cutting(daemon.address)
    fs = ThalwegFileSystem("127.0.0.1", cutting.port, str(daemon.ticket), skip_instance_cache=True)
    try:
        there = daemon.root / "file"
        there.write_bytes(b"content")
        assert fs.exists("data/file")
        cutting.until_gone = there
        fs.rm_file("data/file")
        assert cutting.until_gone is None and not there.exists()
        with pytest.raises(FileNotFoundError):
            fs.rm_file("data/file")
    finally:
        fs.close()
        cutting.close()


def test_text_is_written_and_read_and_walked_to(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    with fs.open("data/d/text", "w", encoding="latin-1", newline="\r\n") as file:
        file.write("one\nzw\u00f6lf\n")
    assert (daemon.root / "d/text").read_bytes() == b"one\r\nzw\xf6lf\r\n"
    with fs.open("data/d/text", "a", encoding="latin-1") as file:
        file.write("more")
    with fsspec.open(daemon.url("d/text"), "rt", encoding="latin-1", **options(daemon)) as file:
        assert file.read() == "one\nzw\u00f6lf\nmore"
    assert fs.read_text("data/d/text", encoding="latin-1").splitlines()[1] == "zw\u00f6lf"
    (daemon.root / "d/below/empty").mkdir(parents=True)
    (daemon.root / "d/below/file").write_bytes(b"")
    (daemon.root / "d/link").symlink_to("below")
    walked = [(path, sorted(directories), sorted(files)) for path, directories, files in fs.walk("data/d")]
    assert walked == [
        ("data/d", ["below"], ["link", "text"]),
        ("data/d/below", ["empty"], ["file"]),
        ("data/d/below/empty", [], []),
    ]
    upwards = [path for path, _, _ in fs.walk("data/d", topdown=False)]
    assert sorted(upwards) == sorted(path for path, _, _ in walked) and upwards[-1] == "data/d"
    assert [path for path, _, _ in fs.walk("data/d", maxdepth=1)] == ["data/d"]


def test_what_is_moved_to_itself_or_into_itself_stays(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    content = make_tree(daemon.root / "run7", 9)
    (daemon.root / "a").write_bytes(b"content")
    for itself in (f"tw://{daemon.address}/data/a", "data/a/", "/data/a", "data//a", "data/./a"):
        for move in (fs.mv, fs.move, fs.rename):
            move("data/a", itself)
            assert (daemon.root / "a").read_bytes() == b"content", itself
    fs.cp_file("data/a", "data//a")
    assert (daemon.root / "a").read_bytes() == b"content"
    with pytest.raises(FileNotFoundError):
        fs.cp_file("data/absent", "data/absent")
    # Into the directory in which it is.
    fs.mv("data/run7/d0/f0", "data/run7/d0")
    fs.mv("data/run7/d0", "data/run7", recursive=True)
    fs.mv("data/run7", daemon.url("run7/"), recursive=True)
    assert tree_of(daemon.root / "run7") == content
    with pytest.raises(thalweg.ConflictError):
        fs.mv("data/run7", "data/run7/old", recursive=True)
    (daemon.root / "run7/d0/old").mkdir()
    with pytest.raises(thalweg.ConflictError):
        fs.mv("data/run7/", "data/run7/d0/old", recursive=True)
    with pytest.raises(thalweg.ConflictError):
        fs.mv(["data/a", "data/run7/d1/f1"], ["data/run7/d1/f1", "data/b"])
    with pytest.raises(thalweg.ConflictError):
        fs.mv(["data/a", "data/run7/d0/old/a"], "data/run7/d1")
    with pytest.raises(thalweg.UsageError):
        fs.mv("data/run7/d0/old", "data/new")
    assert (daemon.root / "run7/d0/old").is_dir() and tree_of(daemon.root / "run7") == content
    # A copy into itself ends, and takes nothing away.
    fs.copy("data/run7", "data/run7/old", recursive=True)
    whole = tree_of(daemon.root / "run7")
    assert {name: whole[name] for name in content} == content
    assert {name: whole[f"old/{name}"] for name in content} == content
    assert len(whole) == 2 * len(content)


def test_a_tree_is_moved_and_what_came_meanwhile_stays(
    daemon: Daemon, fs: ThalwegFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = make_tree(daemon.root / "run7", 9)
    fs.mv("data/run7", "data/moved", recursive=True)
    assert tree_of(daemon.root / "moved") == content and not (daemon.root / "run7").exists()
    fs.mv("data/moved/d0/f*", "data/moved/d1")
    assert sorted(path.name for path in (daemon.root / "moved/d1").iterdir()) == ["f0", "f1", "f3", "f4", "f6", "f7"]
    usual = fs.cp_file

    def and_another(source: str, there: str, **kwargs: object) -> None:
        usual(source, there, **kwargs)
        (daemon.root / "moved/d2/late").write_bytes(b"late")

    monkeypatch.setattr(fs, "cp_file", and_another)
    with pytest.raises(thalweg.ConflictError):
        fs.mv("data/moved/d2", "data/d2", recursive=True)
    assert tree_of(daemon.root / "moved/d2") == {"late": b"late"}
    assert sorted(tree_of(daemon.root / "d2")) == ["f2", "f5", "f8"]


def test_a_file_that_changes_behind_its_copy_is_not_removed_by_a_move_and_named(
    daemon: Daemon, fs: ThalwegFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    run7 = daemon.root / "run7"
    content = make_tree(run7, 9)
    usual = fs.cp_file
    copied: list[str] = []

    def and_write(source: str, there: str, **kwargs: object) -> None:
        if "pairs" in kwargs:
            # Only which places these are: nothing is copied.
            usual(source, there, **kwargs)
            return
        # What was copied before and did not change is gone by now.
        left = [name for name in copied if name != "d0/f3" and (run7 / name).exists()]
        assert left == []
        usual(source, there, **kwargs)
        name = source.removeprefix("data/run7/")
        if name in content:
            copied.append(name)
        if name == "d0/f3":
            with (run7 / name).open("ab") as writer:
                writer.write(b"newer")
        if name == "d1/f4":
            (run7 / name).unlink()
        if name == "d2/f8":
            (run7 / "d2/late").write_bytes(b"late")

    with monkeypatch.context() as patched, pytest.raises(thalweg.ChangedError, match="data/run7/d0/f3") as raised:
        patched.setattr(fs, "cp_file", and_write)
        fs.mv("data/run7", "data/moved", recursive=True)
    assert raised.value.path == "data/run7/d0/f3" and raised.value.hint
    assert tree_of(daemon.root / "moved") == content
    assert tree_of(run7) == {"d0/f3": content["d0/f3"] + b"newer", "d2/late": b"late"}
    assert sorted(path.name for path in run7.iterdir()) == ["d0", "d2"]

    # One that has another content by then, of the same size and time.
    (daemon.root / "a").write_bytes(b"older")

    def and_replace(source: str, there: str, **kwargs: object) -> None:
        usual(source, there, **kwargs)
        if "pairs" in kwargs:
            return
        before = (daemon.root / "a").stat()
        (daemon.root / "new").write_bytes(b"newer")
        os.utime(daemon.root / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
        (daemon.root / "new").rename(daemon.root / "a")

    with monkeypatch.context() as patched, pytest.raises(thalweg.ChangedError, match="data/a"):
        patched.setattr(fs, "cp_file", and_replace)
        fs.mv("data/a", "data/b")
    assert (daemon.root / "a").read_bytes() == b"newer" and (daemon.root / "b").read_bytes() == b"older"


def test_a_listing_that_is_old_hides_and_cuts_nothing(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    there = daemon.root / "d"
    (there / "below").mkdir(parents=True)
    (there / "a").write_bytes(b"short")
    (there / "below/b").write_bytes(b"b")
    assert fs.ls("data/d", detail=False) == ["data/d/a", "data/d/below"]
    fs.ls("data/d/below")
    (there / "a").write_bytes(b"longer than before")
    (there / "late").write_bytes(b"late")
    assert fs.cat_file("data/d/a") == b"longer than before"
    with fs.open("data/d/a") as file:
        assert file.read() == b"longer than before"
    assert fs.exists("data/d/late") and fs.cat_file("data/d/late") == b"late"
    fs.ls("data/d")[0]["size"] = -1
    assert fs.ls("data/d")[0]["size"] >= 0
    fs.rm("data/d", recursive=True)
    assert not fs.exists("data/d/below/b") and not fs.exists("data/d/a")


def test_a_file_that_changes_while_it_is_open_is_no_mixture(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    there = daemon.root / "f"
    there.write_bytes(b"a" * 100_000)
    with fs.open("data/f", cache_type="none") as file:
        assert file.read(10) == b"a" * 10
        (daemon.root / "new").write_bytes(b"b" * 100_000)
        (daemon.root / "new").rename(there)
        with pytest.raises(thalweg.ChangedError, match="`f`: it is not the file"):
            file.read(10)
    # In place, with size and time as they were.
    with fs.open("data/f", block_size=1000) as file:
        assert file.read(10) == b"b" * 10
        before = there.stat()
        while there.stat().st_ctime_ns == before.st_ctime_ns:
            with there.open("r+b") as writer:
                writer.write(b"c" * 100_000)
            os.utime(there, ns=(before.st_atime_ns, before.st_mtime_ns))
        file.seek(50_000)
        with pytest.raises(thalweg.ChangedError):
            file.read(10)
    assert fs.cat_file("data/f") == b"c" * 100_000


def test_find_asks_once_and_finds_what_fsspec_would(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    content = make_tree(daemon.root, 9)
    (daemon.root / "empty").mkdir()
    (daemon.root / "link").symlink_to("d0")
    (daemon.root / "broken").symlink_to("nowhere")
    for path in ("data", "data/", "data/d1", "data/d1/f1", "data/empty", "data/absent", ""):
        for withdirs in (False, True):
            wanted = AbstractFileSystem.find(fs, path, withdirs=withdirs, detail=False)
            assert fs.find(path, withdirs=withdirs) == wanted, (path, withdirs)
            assert sorted(fs.find(path, withdirs=withdirs, detail=True)) == wanted
    assert fs.find("data", maxdepth=1) == ["data/broken", "data/link"]
    for whether_listed in (False, True):
        fs.invalidate_cache()
        if whether_listed:
            fs.ls("data")
        assert fs.info("data/link")["type"] == "link", whether_listed
        assert fs.isdir("data/link") and fs.isdir("data/d0") and not fs.isfile("data/link"), whether_listed
        assert not fs.isdir("data/broken") and fs.exists("data/broken"), whether_listed
    assert sorted(fs.glob("data/**/f*")) == sorted(f"data/{name}" for name in content)
    assert fs.du("data/d1") == sum(len(content[name]) for name in content if name.startswith("d1/"))


def test_a_depth_is_found_and_sizes_are_told_without_a_question_for_each_file(
    daemon: Daemon, fs: ThalwegFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = make_tree(daemon.root, 9)
    (daemon.root / "d0/deep").mkdir()
    (daemon.root / "d0/deep/f").write_bytes(b"12345")
    for path in ("data", "data/d0", "data/d1/f1", "data/absent"):
        for maxdepth in (1, 2, 3):
            for withdirs in (False, True):
                wanted = AbstractFileSystem.find(fs, path, maxdepth=maxdepth, withdirs=withdirs, detail=False)
                assert fs.find(path, maxdepth=maxdepth, withdirs=withdirs) == wanted, (path, maxdepth, withdirs)
    with pytest.raises(ValueError, match="maxdepth"):
        fs.find("data", maxdepth=0)
    assert fs.find("data/d1/f1", maxdepth=1, detail=True)["data/d1/f1"]["size"] == len(content["d1/f1"])
    # What asks for one entry.
    monkeypatch.setattr(fs, "_look", None)
    sizes = {f"data/{name}": len(content[name]) for name in content}
    assert fs.du("data", total=False) == sizes | {"data/d0/deep/f": 5}
    assert fs.du("data", total=False, maxdepth=2) == sizes
    assert fs.du("data") == sum(sizes.values()) + 5


def test_the_root_of_a_daemon_holds_its_exports(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    content = make_tree(daemon.root, 3)
    assert fs.ls(f"tw://{daemon.address}", detail=False) == fs.glob("*") == ["data"]
    assert fs.info("")["type"] == fs.ls("")[0]["type"] == "directory"
    assert fs.exists("") and fs.isdir("") and not fs.isfile("")
    assert fs.find("") == sorted(f"data/{name}" for name in content)
    assert [path for path, _, _ in fs.walk("", maxdepth=2)] == ["", "data"]
    # It knows less of an export than the export.
    assert "mtime" in fs.info("data")
    with pytest.raises(FileNotFoundError, match="holds only exports"):
        fs.rm("", recursive=True)


def test_the_exports_of_a_daemon_are_asked_for_once(fs: ThalwegFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    exports = _thalweg.exports

    def counting(address: str, reaching: Any) -> Any:
        asked.append(address)
        return exports(address, reaching)

    monkeypatch.setattr(_thalweg, "exports", counting)
    for _ in range(2):
        assert fs.exists("") and fs.isdir("") and fs.glob("*") == fs.ls("", detail=False) == ["data"]
    assert len(asked) == 1
    # What a caller does with a listing is his.
    fs.ls("")[0]["name"] = "other"
    assert fs.ls("", detail=False) == ["data"] and fs.ls("", detail=False, refresh=True) == ["data"]
    assert len(asked) == 2


def test_what_stands_there_is_not_changed_by_the_way(
    daemon: Daemon, fs: ThalwegFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = daemon.root / "d"
    there.mkdir(mode=0o700)
    (daemon.root / "f").write_bytes(b"f")
    before = there.stat()
    fs.makedirs("data/d", exist_ok=True)
    assert (there.stat().st_mode, there.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    for refused in (
        lambda: fs.makedirs("data/d"),
        lambda: fs.makedirs("data/f", exist_ok=True),
        lambda: fs.mkdir("data/f"),
        lambda: fs.pipe_file("data/d", b"in place of a directory"),
        lambda: fs.cp_file("data/f", "data/d"),
        lambda: fs.put_file(daemon.root / "f", "data/d"),
        lambda: fs.get_file("data/f", tmp_path),
    ):
        with pytest.raises(FileExistsError):
            refused()
    assert list(there.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        fs.mkdir("data/absent/below", create_parents=False)
    fs.mkdir("data/d/below", create_parents=False)
    # Not a place, but a name.
    monkeypatch.chdir(tmp_path)
    fs.get_file("data/f", "me@host:f")
    assert (tmp_path / "me@host:f").read_bytes() == b"f"


def test_what_is_appended_to_stands_whole_when_it_is_closed(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    for part in (b"first ", b"second"):
        with fs.open("data/log", "ab") as file:
            assert file.tell() == (0 if part == b"first " else 6)
            file.write(part)
    assert (daemon.root / "log").read_bytes() == b"first second"
    with pytest.raises(ValueError, match="mode"):
        fs.open("data/log", "r+b")


def test_a_link_or_a_directory_is_no_empty_file(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    (daemon.root / "f").write_bytes(b"content")
    (daemon.root / "latest").symlink_to("f")
    (daemon.root / "d").mkdir()
    for path, why in (("data/latest", "leads to 'f'"), ("data/d", "directory")):
        for read in (lambda path=path: fs.open(path), lambda path=path: fs.cat_file(path)):
            with pytest.raises(OSError, match=why) as raised:
                read()
            assert isinstance(raised.value, thalweg.UnsupportedError) and raised.value.path == path


def test_who_may_not_ask_is_not_told_that_nothing_is_there(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "another").mkdir()
    other = start_daemon(tmp_path / "another", tmp_path / "another/export")
    try:
        host, _, port = daemon.address.rpartition(":")
        fs = fsspec.filesystem("tw", host=host, port=int(port), ticket=str(other.ticket), skip_instance_cache=True)
        for ask in (fs.exists, fs.isdir, fs.isfile, fs.find):
            with pytest.raises(thalweg.Error):
                ask("data/f")
    finally:
        stop_daemon(other)


def test_what_cannot_be_listed_is_raised_and_passes_for_nothing(tmp_path: Path) -> None:
    # Where every user may go; no mode keeps root out, so nobody serves in its place.
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        directory.chmod(0o777)
        try:
            daemon = start_daemon(directory, directory / "export", user=65534 if os.geteuid() == 0 else None)
        except PermissionError:
            pytest.skip("nobody may not run the program where it is")
        try:
            content = make_tree(daemon.root, 9)
            (daemon.root / "d1").chmod(0)
            host, _, port = daemon.address.rpartition(":")
            # A secret is read only from its owner's file.
            ticket = tmp_path / "ticket"
            ticket.write_bytes(daemon.ticket.read_bytes())
            ticket.chmod(0o600)
            fs = fsspec.filesystem("tw", host=host, port=int(port), ticket=str(ticket), skip_instance_cache=True)
            for ask in (
                lambda: fs.find("data"),
                lambda: fs.find("data", maxdepth=2),
                lambda: fs.ls("data/d1"),
                lambda: fs.get("data", f"{tmp_path}/got", recursive=True),
            ):
                with pytest.raises(thalweg.NotPermittedError):
                    ask()
            # It is known to be there, and what stands beside it can be had.
            assert len(fs.ls("data")) == 3 and fs.isdir("data/d1")
            assert fs.find("data/d2") == sorted(f"data/{name}" for name in content if name.startswith("d2/"))
        finally:
            (daemon.root / "d1").chmod(0o755)
            stop_daemon(daemon)


def test_trees_are_put_and_got(daemon: Daemon, fs: ThalwegFileSystem, tmp_path: Path) -> None:
    content = make_tree(tmp_path / "source", 9)
    fs.put(f"{tmp_path}/source/", "data/put/", recursive=True)
    assert tree_of(daemon.root / "put") == content
    fs.get("data/put/", f"{tmp_path}/got/", recursive=True)
    assert tree_of(tmp_path / "got") == content


def test_a_tree_that_is_put_or_got_is_one_copy_and_lands_where_fsspec_says(
    daemon: Daemon, fs: ThalwegFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = make_tree(tmp_path / "source", 9)
    copies: list[str] = []
    usual = fs._copy

    def counting(source: str, *more: Any, **kwargs: Any) -> None:
        copies.append(source)
        usual(source, *more, **kwargs)

    monkeypatch.setattr(fs, "_copy", counting)
    counts: list[int] = []
    seen = fsspec.callbacks.Callback(hooks={"seen": lambda size, value, **_: counts.append(value)})
    # By what was typed, and whether a directory stands there: below it or in its place.
    (tmp_path / "there").mkdir()
    (daemon.root / "there").mkdir()
    ways = [("source", "new1", "new1"), ("source/", "new2", "new2"), ("source", "there", "there/source")]
    for source, there, where in [*ways, ("source", "new3/", "new3/source")]:
        fs.put(f"{tmp_path}/{source}", f"data/{there}", recursive=True, callback=seen)
        assert tree_of(daemon.root / where) == content, where
        fs.get(f"data/{where}" + source.removeprefix("source"), f"{tmp_path}/{there}", recursive=True)
        got = tmp_path / (where if source.endswith("/") or there.startswith("new1") else f"{there}/source")
        assert tree_of(got) == content, got
    # Entries, and not bytes.
    assert len(copies) == 8 and counts and max(counts) < 20
    # A directory that is there already keeps its mode.
    (daemon.root / "there").chmod(0o700)
    fs.put(f"{tmp_path}/source/", "data/there", recursive=True)
    assert content.items() <= tree_of(daemon.root / "there").items()
    assert (daemon.root / "there").stat().st_mode & 0o777 == 0o700


def test_an_option_that_nobody_knows_is_refused(daemon: Daemon) -> None:
    host, _, port = daemon.address.rpartition(":")
    there = {"host": host, "port": int(port), "skip_instance_cache": True}
    with pytest.raises(TypeError, match="unexpected options: tikcet"):
        fsspec.filesystem("tw", tikcet=str(daemon.ticket), **there)
    fs = fsspec.filesystem("tw", ticket=str(daemon.ticket), use_listings_cache=False, asynchronous=False, **there)
    assert fs.ls("", detail=False) == ["data"]


def test_hostile_names_come_through(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    names = [b"\xff\xfe", b"a\nb", b"#?%20", b"\\x41"]
    for name in names:
        with open(os.path.join(os.fsencode(daemon.root), name), "wb") as file:
            file.write(name)
    listed = fs.ls("data", detail=False)
    assert sorted(map(os.fsencode, listed)) == sorted(b"data/" + name for name in names)
    for name in listed:
        assert b"data/" + fs.cat_file(name) == os.fsencode(name)


def test_a_session_that_is_gone_is_begun_again(daemon: Daemon, fs: ThalwegFileSystem) -> None:
    (daemon.root / "f").write_bytes(b"content")
    assert fs.cat_file("data/f", 0, 3) == b"con"
    fs.close()
    assert fs.cat_file("data/f", 3, 7) == b"tent"


def test_pandas_reads_and_writes(daemon: Daemon) -> None:
    frame = pd.DataFrame({"x": range(1000), "y": np.linspace(0, 1, 1000)})
    frame.to_csv(daemon.url("t.csv"), index=False, storage_options=options(daemon))
    back = pd.read_csv(daemon.url("t.csv"), storage_options=options(daemon))
    pd.testing.assert_frame_equal(frame, back)


def test_h5py_reads_a_slice_of_a_far_file(daemon: Daemon) -> None:
    data = np.arange(1_000_000, dtype="f8").reshape(1000, 1000)
    with h5py.File(daemon.root / "f.h5", "w") as file:
        file.create_dataset("data", data=data, chunks=(100, 100))
    with fsspec.open(daemon.url("f.h5"), **options(daemon)) as far, h5py.File(far, "r") as file:
        np.testing.assert_array_equal(file["data"][200:300, 400:500], data[200:300, 400:500])


def test_xarray_and_zarr_read_and_write_a_far_store(daemon: Daemon) -> None:
    data = xr.Dataset({"t": (("x", "y"), np.random.default_rng(1).random((60, 40)))})
    store = {"storage_options": options(daemon)}
    data.to_zarr(daemon.url("a.zarr"), **store)
    assert (daemon.root / "a.zarr").is_dir()
    back = xr.open_zarr(daemon.url("a.zarr"), **store)
    xr.testing.assert_equal(back.load(), data)


def test_dask_reads_a_far_store_and_far_lines_in_parts(daemon: Daemon) -> None:
    data = np.random.default_rng(1).random((60, 40))
    there = {"storage_options": options(daemon)}
    da.from_array(data, chunks=(20, 40)).to_zarr(daemon.url("a.zarr"), **there)
    assert (daemon.root / "a.zarr").is_dir()
    mean = da.from_zarr(daemon.url("a.zarr"), **there).mean(axis=0)
    np.testing.assert_allclose(mean.compute(scheduler="threads"), data.mean(axis=0))
    for number in range(3):
        (daemon.root / f"{number}.txt").write_text("one\ntwo\n" * 100)
    lines = bag.read_text(daemon.url("*.txt"), blocksize=100, **there)
    assert lines.npartitions > 3
    assert dict(lines.frequencies().compute(scheduler="threads")) == {"one\n": 300, "two\n": 300}


def test_urls_name_host_port_and_export() -> None:
    kwargs = ThalwegFileSystem._get_kwargs_from_urls
    assert kwargs("tw://h/data/x") == {"host": "h"}
    assert kwargs("tw://[::1]:99/data") == {"host": "[::1]", "port": 99}
    assert kwargs("tw+ssh://me@h:22/x") == {"host": "me@h", "port": 22}
    assert ThalwegFileSystem._strip_protocol("tw://h:9/data/x/") == "data/x"
    ssh = fsspec.filesystem("tw+ssh", host="me@h", port=22)
    assert ssh._place("a/b") == "ssh://me@h:22/a/b" and ssh._split("~/x") == ("~", "x")
    with pytest.raises(ValueError, match="host"):
        ThalwegFileSystem()
