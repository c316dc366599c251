"""The code of docs/guide/python.md and the example run as they stand, with a daemon in place of dtn.example.org."""

from __future__ import annotations

import json
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
    missing = [name for name in [*thalweg.__all__, *arrival.__all__] if not re.search(rf"\b{re.escape(name)}\b", text)]
    assert not missing


def test_the_example_runs(daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "data.bin"
    file.write_bytes(b"sixteen bytes at" + os.urandom(1 << 20))
    example = ROOT / "crates/python/examples/push_and_look.py"
    words = [sys.executable, example, file, daemon.url(), daemon.ticket]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert "sixteen bytes at" in ended.stdout and "undamaged" in ended.stdout


def test_a_receipt_is_checked_by_its_documentation_alone(daemon: Daemon, tmp_path: Path) -> None:
    """A file in parts and a name with a control character among them; one word changed is found."""
    source, receipt = tmp_path / "run7", tmp_path / "receipt"
    source.mkdir()
    (source / "large").write_bytes(os.urandom(9 << 20))
    (source / "a\nb é").write_bytes(b"x")
    (source / "link").symlink_to("large")
    thalweg.copy(source, daemon.url(), ticket=daemon.ticket, receipt=receipt)
    words = [sys.executable, ROOT / "crates/python/examples/check_receipt.py", receipt]

    def checked() -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, capture_output=True, text=True, timeout=600)

    good = checked()
    assert good.returncode == 0, good.stderr
    text = receipt.read_text()
    footer = json.loads(text.splitlines()[-1])
    for side in ("sender", "receiver"):
        assert f"signed by the {side} {footer[side]['fingerprint']} at {footer[side]['when']}" in good.stdout
    assert f"files: {footer['entries']} entries, 0 failed, to ('data', b'')" in good.stdout
    for word, other in (("  done  ", "  unchanged  "), ('"from":', '"From":')):
        receipt.write_text(text.replace(word, other, 1))
        assert checked().returncode != 0
    in_parts = text.count('\n{"pieces":')
    assert f"not checked: the digests of the parts of {in_parts} files" in good.stdout
    changed = footer["receiver"]["signed"].replace("0", "1", 1)
    receipt.write_text(text.replace(footer["receiver"]["signed"], changed))
    assert checked().returncode != 0
    # Words that nobody signed, between the lines, in one, and at the end.
    *lines, last = text.splitlines()

    def words_are_found(*parts: str) -> None:
        receipt.write_text("".join(f"{part}\n" for part in parts))
        assert checked().returncode != 0, parts

    def written(part: object) -> str:
        return json.dumps(part, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    for extra in ({"note": "x"}, {"block": 9, "note": "x"}):
        words_are_found(*lines, written(extra), last)
    at = next(number for number, line in enumerate(lines) if line.startswith('{"line":'))
    lined = written(json.loads(lines[at]) | {"note": "x"})
    words_are_found(*lines[:at], lined, *lines[at + 1 :], last)
    others = [
        {"unread": 7},
        {"entries": 999},
        {"note": "x"},
        {"place": {"export": "data", "path": "elsewhere"}},
        {"totals": footer["totals"] | {"failed": 1}},
        {"terms": footer["terms"] | {"verify": "paranoid"}},
        {"sender": footer["sender"] | {"when": footer["sender"]["when"] + 1}},
        {"receiver": footer["receiver"] | {"ephemeral": True}},
    ]
    for other in others:
        words_are_found(*lines, written(footer | other))
    # Written again as it was it is good, so these are found for what was changed.
    receipt.write_text("\n".join([*lines, written(footer)]) + "\n")
    assert checked().returncode == 0


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
