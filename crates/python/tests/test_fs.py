"""The fsspec file system, with the libraries that people open files with."""

from __future__ import annotations

import os
from pathlib import Path

import fsspec
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from conftest import Daemon, make_tree, tree_of

import thalweg
from thalweg.fs import ThalwegFileSystem


@pytest.fixture
def fs(daemon: Daemon) -> ThalwegFileSystem:
    host, _, port = daemon.address.rpartition(":")
    made = fsspec.filesystem("tw", host=host, port=int(port), ticket=str(daemon.ticket), skip_instance_cache=True)
    assert isinstance(made, ThalwegFileSystem)
    return made


def options(daemon: Daemon) -> dict[str, str]:
    return {"ticket": str(daemon.ticket)}


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
    with pytest.raises(FileNotFoundError):
        fs.info("data/absent")
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
    fs.makedirs("data/empty/below")
    assert fs.ls("data/empty", detail=False) == ["data/empty/below"]
    fs.rm("data/new", recursive=True)
    fs.rm_file("data/moved")
    fs.rmdir("data/empty/below")
    assert fs.ls("data/empty") == []
    with pytest.raises(thalweg.Error):
        fs.rm("data/empty")


def test_trees_are_put_and_got(daemon: Daemon, fs: ThalwegFileSystem, tmp_path: Path) -> None:
    content = make_tree(tmp_path / "source", 9)
    fs.put(f"{tmp_path}/source/", "data/put/", recursive=True)
    assert tree_of(daemon.root / "put") == content
    fs.get("data/put/", f"{tmp_path}/got/", recursive=True)
    assert tree_of(tmp_path / "got") == content


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
