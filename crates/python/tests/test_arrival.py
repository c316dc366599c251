"""What a program that `thalweg watch` runs is told of its item."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import program

import thalweg
import thalweg.arrival

EXAMPLE = Path(__file__).parents[1] / "examples/on_arrival.py"

#: Holds what it is told against what is there.
HOLDS = """
import json, sys
from pathlib import Path
import thalweg, thalweg.arrival
item = thalweg.arrival.item()
assert thalweg.verify(item.receipt, item.path.parent).ok
assert list(item.results.iterdir()) == []
told = [item.name, item.path.read_bytes().decode(), item.bytes, item.attempt, item.source, item.destination]
with open(sys.argv[1], "a") as log:
    print(json.dumps([*told, item.digest, item.key]), file=log)
"""


def watch(tmp_path: Path, *more: str | Path) -> None:
    words = [program(), "watch", tmp_path / "in", tmp_path / "out", "--stable", "100ms", "--look-every", "100ms"]
    words += ["--idle-exit", "500ms", *more]
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    ended = subprocess.run(words, capture_output=True, text=True, timeout=600, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def put(tmp_path: Path, name: bytes, content: bytes) -> None:
    path = os.fsencode(tmp_path / "in") + b"/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def test_an_item_is_what_arrived_whatever_its_name(tmp_path: Path) -> None:
    names = [b"a b", b"sub/$(x)", b"odd\xff"]
    for name in names:
        put(tmp_path, name, b"content of " + name[:3])
    script, log = tmp_path / "holds.py", tmp_path / "log"
    script.write_text(HOLDS)
    watch(tmp_path, "--on-arrival", sys.executable, "--", script, log)
    told = {entry[0]: entry[1:] for entry in map(json.loads, log.read_text().splitlines())}
    assert told.keys() == {os.fsdecode(name) for name in names}
    for name in names:
        content, size, attempt, source, destination, digest, key = told[os.fsdecode(name)]
        assert content == "content of " + name[:3].decode()
        assert (size, attempt, len(digest), len(key)) == (len(content), 1, 64, 32)
        assert source.startswith(str(tmp_path / "in")) and destination.startswith(str(tmp_path / "out"))
    assert told[os.fsdecode(b"odd\xff")][4].endswith("odd\\xff")


def test_the_example_enters_each_name_and_content_once(tmp_path: Path) -> None:
    table = tmp_path / "table.db"
    contents = [(b"a", b"first"), (b"b", b"second"), (b"a", b"corrected")]
    for name, content in contents:
        put(tmp_path, name, content)
        watch(tmp_path, "--results-back", tmp_path / "results", "--on-arrival", sys.executable, "--", EXAMPLE, table)
    with contextlib.closing(sqlite3.connect(table)) as database:
        rows = list(database.execute("SELECT source, bytes FROM arrived ORDER BY rowid"))
    assert rows == [(str(tmp_path / "in" / name.decode()), len(content)) for name, content in contents]
    summary = json.loads((tmp_path / "results/a/summary.json").read_text())
    assert summary["bytes"] == len(b"corrected")


def test_without_a_watch_there_is_no_item(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = [field.name for field in dataclasses.fields(thalweg.arrival.Item)]
    for field in fields:
        monkeypatch.delenv(f"THALWEG_ITEM_{field.upper()}", raising=False)
    with pytest.raises(thalweg.UsageError, match="THALWEG_ITEM_NAME is not set.*--on-arrival"):
        thalweg.arrival.item()
    for field in fields:
        monkeypatch.setenv(f"THALWEG_ITEM_{field.upper()}", "7")
    item = thalweg.arrival.item()
    assert (item.bytes, item.stale, item.attempt, item.receipt) == (7, 7, 7, Path("7"))
    # Between a bucket and a far directory nothing of it is here.
    assert item.path == Path("7")
    monkeypatch.delenv("THALWEG_ITEM_PATH")
    assert thalweg.arrival.item().path is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        item.bytes = 8  # type: ignore[misc]
    for number in ("-1", "1_0", "many"):
        monkeypatch.setenv("THALWEG_ITEM_BYTES", number)
        with pytest.raises(ValueError, match="THALWEG_ITEM_BYTES"):
            thalweg.arrival.item()
