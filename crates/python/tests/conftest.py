"""A daemon, trees, and the threads and processes that must not be left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


def program() -> str:
    """The program `thalweg`; `cargo xtask python` says where it is."""
    found = os.environ.get("THALWEG_PROGRAM")
    if not found:
        pytest.exit("THALWEG_PROGRAM is not set: run `cargo xtask python`", 2)
    return found


@dataclass
class Daemon:
    """A daemon with the export `data`, which can be written."""

    root: Path
    ticket: Path
    address: str
    process: subprocess.Popen[bytes]

    def url(self, path: str = "") -> str:
        return f"tw://{self.address}/data/{path}"


def start_daemon(directory: Path, root: Path, *more: str, user: int | None = None) -> Daemon:
    """As this user, if one is named."""
    root.mkdir(exist_ok=True)
    ticket = directory / "ticket"
    ticket.unlink(missing_ok=True)
    command = [program(), "serve", "--listen", "127.0.0.1:0", "--export", f"data={root}"]
    command += ["--ticket-file", str(ticket), "--state", str(directory / "server-state"), *more]
    environment = os.environ | {"XDG_CONFIG_HOME": str(directory / "config")}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, user=user, group=user
    )
    assert process.stdout is not None
    # `listening at ADDRESS, fingerprint …`
    line = process.stdout.readline().decode()
    address = line.removeprefix("listening at ").split(",")[0].strip()
    return Daemon(root, ticket, address, process)


def stop_daemon(daemon: Daemon) -> None:
    daemon.process.kill()
    daemon.process.wait()
    assert daemon.process.stdout is not None
    daemon.process.stdout.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    started = start_daemon(tmp_path, tmp_path / "export")
    yield started
    stop_daemon(started)


@pytest.fixture
def slotted(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that gives its way out in slots."""
    started = start_daemon(tmp_path, tmp_path / "export", "--slots", "80Mbit/s")
    yield started
    stop_daemon(started)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user has configured is none of a test's business."""
    monkeypatch.setenv("THALWEG_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("THALWEG_TICKET", raising=False)


def threads_of_ours() -> list[str]:
    """Native threads of copies in this process."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:
            continue
    usual = {"python", "python3", "pytest", "mypy", Path(sys.executable).name[:15]}
    mine = {thread.name for thread in threading.enumerate()}
    return [name for name in names if name not in usual | mine and not name.startswith("asyncio")]


@pytest.fixture
def leaves_no_threads() -> Iterator[None]:
    # Those of the test before may still be ending.
    before = Counter(threads_of_ours())
    yield
    until = time.monotonic() + 60
    while Counter(threads_of_ours()) - before and time.monotonic() < until:
        time.sleep(0.05)
    assert not Counter(threads_of_ours()) - before


def make_tree(root: Path, files: int = 30) -> dict[str, bytes]:
    """Some files, by name."""
    content = {}
    for number in range(files):
        name = f"d{number % 3}/f{number}"
        content[name] = bytes([number % 251]) * (number * 997)
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[name])
    return content


def tree_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
