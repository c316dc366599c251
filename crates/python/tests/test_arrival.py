"""What a program learns that `thalweg watch` runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import program

import thalweg

ROOT = Path(__file__).parents[3]


def test_a_program_of_a_watch_learns_its_item_and_the_example_sends_results_back(tmp_path: Path) -> None:
    """Every variable that a watch sets is read, and the example of the guide runs as it stands."""
    source, results = tmp_path / "source", tmp_path / "results"
    source.mkdir()
    results.mkdir()
    name = os.fsdecode(b"run7 \xff.raw")
    (source / name).write_bytes(b"\0" * 7 + b"x" * 5)
    told = tmp_path / "told"
    script = tmp_path / "program"
    example = ROOT / "crates/python/examples/on_arrival.py"
    script.write_text(
        f"#!{sys.executable}\n"
        "import dataclasses, json, runpy, thalweg\n"
        "item = dataclasses.asdict(thalweg.arrival.item())\n"
        f"open({str(told)!r}, 'w').write(json.dumps(item, default=str))\n"
        f"runpy.run_path({str(example)!r}, run_name='__main__')\n"
    )
    script.chmod(0o755)
    words = [program(), "watch", source, tmp_path / "destination", "--stable", "100ms", "--look-every", "100ms"]
    words += ["--idle-exit", "1s", "--results-back", results, "--on-arrival", script]
    ended = subprocess.run(words, capture_output=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    item = json.loads(told.read_text())
    assert item["name"] == name and item["path"] == str(tmp_path / "destination" / name)
    assert (item["bytes"], item["attempt"], len(item["digest"]), len(item["key"])) == (12, 1, 64, 32)
    assert thalweg.verify(item["receipt"], item["path"]).ok
    summary = json.loads((results / name / "summary.json").read_text())
    assert (summary["zeros"], summary["key"]) == (7, item["key"])


def test_outside_of_a_watch_the_variable_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [variable for variable in os.environ if variable.startswith("THALWEG_ITEM_")]:
        monkeypatch.delenv(variable)
    with pytest.raises(thalweg.UsageError, match="THALWEG_ITEM_NAME is not set: `thalweg watch"):
        thalweg.arrival.item()
    names = ("NAME", "PATH", "SOURCE", "DESTINATION", "DIGEST", "BYTES", "RECEIPT", "KEY", "ATTEMPT", "RESULTS")
    told = {f"THALWEG_ITEM_{name}": "1" for name in names}
    item = thalweg.arrival.item(told)
    assert (item.attempt, item.path) == (1, Path("1")) and hash(item) == hash(thalweg.arrival.item(told))
    with pytest.raises(thalweg.UsageError, match="BYTES='many': a number"):
        thalweg.arrival.item(told | {"THALWEG_ITEM_BYTES": "many"})
