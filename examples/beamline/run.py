"""The whole beamline by one command: a path, the station behind it, the detector before it; then a picture and figures.

As root, both processes are hosts of their own, joined by an emulated path (`thalweg testbed`); else, or with --loopback,
they meet on this machine's loopback. However it ends, keeper.py clears up behind it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from picture import words

HERE = Path(__file__).parent
#: A side that has not ended so long after the other is ended.
PATIENCE_S = 300.0


def program() -> str | None:
    """The program `thalweg`, which makes paths."""
    return os.environ.get("THALWEG_PROGRAM") or shutil.which("thalweg")


def loopback_because(asked: argparse.Namespace) -> str | None:
    """Why there is no emulated path, if there is none."""
    if asked.loopback:
        return "asked for"
    if os.geteuid() != 0:
        return "only root makes paths"
    return None if program() else "there is no program thalweg"


def testbed(what: str, directory: Path) -> list[str]:
    """`thalweg testbed` for a path that is recorded in this directory."""
    return [program() or "thalweg", "testbed", what, "--state", str(directory / "testbeds")]


@contextmanager
def cleared_up(asked: argparse.Namespace) -> Iterator[Path]:
    """A directory that goes, with all processes of it and the path, when this process ends: in order, or killed."""
    directory = Path(tempfile.mkdtemp(prefix="beamline-"))
    words = [sys.executable, str(HERE / "keeper.py"), str(directory)]
    if loopback_because(asked) is None:
        words += testbed("down", directory)
    # In a session of its own: Ctrl-C is not for it.
    with subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True):
        # Leaving the block closes the pipe and waits for its end.
        yield directory


def path(asked: argparse.Namespace, directory: Path) -> tuple[list[str], list[str], str]:
    """What puts a program into the near host, and into the far one, and where the far one listens."""
    why = loopback_because(asked)
    if why is not None:
        print(f"over loopback ({why})")
        return [], [], "127.0.0.1:0"
    command = [*testbed("up", directory), "--rtt", asked.rtt, "--rate", asked.bandwidth, "--json"]
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    right = next(host["address"] for host in told["hosts"] if host["side"] == "right")
    print(f"over an emulated path of {asked.rtt}, {asked.bandwidth}")
    enter = testbed("run", directory)
    return [*enter, "left"], [*enter, "right"], f"{right}:8487"


def both_end(sides: dict[str, subprocess.Popen[str]]) -> None:
    """Waits for the ends of all; does not wait for the others of one that failed."""
    until = math.inf
    while sides and time.monotonic() < until:
        for name, side in list(sides.items()):
            code = side.poll()
            if code is None:
                continue
            if code != 0:
                raise SystemExit(f"the {name} failed")
            del sides[name]
            until = time.monotonic() + PATIENCE_S
        time.sleep(0.05)
    if sides:
        raise SystemExit(f"no end came from the {' and the '.join(sides)}")


def run(asked: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Both processes, to their ends."""
    near, far, listen = path(asked, directory)
    words = [*far, sys.executable, str(HERE / "station.py"), "--directory", str(directory), "--listen", listen]
    words += ["--pixels", str(asked.pixels), "--image", str(asked.image)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as station:
        try:
            assert station.stdout is not None
            line = station.stdout.readline()
            if not line:
                raise SystemExit("the station did not begin")
            there = json.loads(line)
            words = [*near, sys.executable, str(HERE / "detector.py")]
            words += ["--scan", there["scan"], "--commands", there["commands"], "--ticket", there["ticket"]]
            words += ["--pixels", str(asked.pixels), "--frames", str(asked.frames), "--set", str(asked.set)]
            words += ["--period", str(asked.period)]
            with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as detector:
                try:
                    both_end({"station": station, "detector": detector})
                finally:
                    detector.kill()
                assert detector.stdout is not None
                made = json.load(detector.stdout)
        finally:
            station.kill()
    told: dict[str, Any] = json.loads((directory / "report.json").read_text())
    told["detector"] = made
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pixels", type=int, default=2048, help="of a frame, each way")
    parser.add_argument("--frames", type=int, default=180, help="at most; the station may ask to stop before")
    parser.add_argument("--set", type=int, default=36, help="frames that are complete together or not")
    parser.add_argument("--period", type=float, default=0.0, help="seconds from frame to frame; 0: as they are made")
    parser.add_argument("--image", type=int, default=512, help="pixels of the reconstructed slice, each way")
    parser.add_argument("--rtt", default="20ms")
    parser.add_argument("--bandwidth", default="2Gbit/s")
    parser.add_argument("--loopback", action="store_true", help="no emulated path, also as root")
    parser.add_argument("--out", type=Path, default=Path("."), help="where arrived.png and report.json go")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with cleared_up(asked) as directory:
        told = run(asked, directory)
        shutil.copy(directory / "arrived.png", asked.out / "arrived.png")
    (asked.out / "report.json").write_text(json.dumps(told, indent=2) + "\n")
    detector = told["detector"]
    for line in words(told):
        print(line)
    print(f"the detector made {detector['frames']} frames in {detector['seconds']:.1f} s, held up for {detector['blocked_s']:.1f} s")
    print(f"{asked.out / 'arrived.png'}, {asked.out / 'report.json'}")
    if told["lost"] or told["sets_incomplete"] or told["frames"] != detector["frames"]:
        raise SystemExit("not everything arrived")


if __name__ == "__main__":
    main()
