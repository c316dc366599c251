"""The code of docs/guide/python.md and the example run as they stand, with a daemon in place of dtn.example.org."""

from __future__ import annotations

import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Daemon

import thalweg
from thalweg import arrival, model

ROOT = Path(__file__).parents[3]


def test_the_code_of_the_guide_runs(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/guide/python.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 10
    host, _, port = daemon.address.rpartition(":")
    text = "\n".join(blocks)
    text = text.replace("tw://dtn.example.org", f"tw://{daemon.address}").replace("/tmp/", f"{tmp_path}/")
    text = text.replace('host="dtn.example.org"', f'host="{host}", port={port}')
    work = tmp_path / "work"
    (work / "run7").mkdir(parents=True)
    (work / "run7/a").write_bytes(b"0123456789")
    (work / "ticket").symlink_to(daemon.ticket)
    script = work / "guide.py"
    script.write_text(text)
    ended = subprocess.run([sys.executable, script], cwd=work, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert "b'2345'" in ended.stdout and "stream" in ended.stdout
    assert "\n3 Latency(count=3" in ended.stdout and "lost" not in ended.stdout


def test_the_guide_has_every_public_name() -> None:
    text = (ROOT / "docs/guide/python.md").read_text()
    missing = [name for name in thalweg.__all__ if not re.search(rf"\b{re.escape(name)}\b", text)]
    assert not missing


def test_the_example_runs(daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "data.bin"
    file.write_bytes(b"sixteen bytes at" + os.urandom(1 << 20))
    example = ROOT / "crates/python/examples/push_and_look.py"
    words = [sys.executable, example, file, daemon.url(), daemon.ticket]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert "sixteen bytes at" in ended.stdout and "undamaged" in ended.stdout


def test_docstrings_have_every_field_with_its_text() -> None:
    """Also those that a class has of others, and of every public name that has fields."""
    seen = 0
    for module in (thalweg, model, arrival):
        for name in module.__all__:
            kind = getattr(module, name)
            options = getattr(kind, "__optional_keys__", None)
            fields = getattr(kind, "__dataclass_fields__", options)
            if fields is None or not isinstance(kind, type):
                continue
            told = pydoc.plain(pydoc.render_doc(kind))
            for field in fields:
                found = re.search(rf"^ \|      {field}: .+\n \|          \S+", told, re.MULTILINE)
                assert found, f"{name}.{field}"
                seen += 1
    assert seen > 200
    for function in (thalweg.copy, thalweg.transfer, thalweg.stream, thalweg.predict, thalweg.verify, thalweg.check):
        named = re.search(r"help\(thalweg\.(\w+)\)", function.__doc__ or "")
        assert named and named[1] in thalweg.__all__, function
