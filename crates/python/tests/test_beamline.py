"""The example in examples/beamline, small: both processes, the loop back, the picture."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

HERE = Path(__file__).parents[3] / "examples/beamline"


def run(tmp_path: Path, *words: str) -> tuple[str, dict[str, object]]:
    command = [sys.executable, str(HERE / "run.py"), "--out", str(tmp_path / "out"), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told: dict[str, object] = json.loads((tmp_path / "out/report.json").read_text())
    return ended.stdout, told


SMALL = ("--pixels", "128", "--image", "96", "--frames", "240", "--set", "24")


def check(said: str, told: dict[str, object], out: Path) -> None:
    detector = told["detector"]
    assert isinstance(detector, dict)
    # What was made arrived, every set of it whole.
    assert told["frames"] == detector["frames"] and told["lost"] == [] and told["sets_incomplete"] == []
    assert told["bytes"] == detector["frames"] * 128 * 128 * 2
    assert told["sets_complete"] == detector["frames"] / 24
    # The way back: the exposure rose at the station's wish, and it ended the scan.
    assert told["last_exposure"] == detector["exposure"] > told["first_exposure"]  # type: ignore[operator]
    assert told["stop_asked"] is True and detector["stopped_by_the_far_side"] is True
    assert detector["frames"] < 240
    # The slice is that of the sample.
    assert told["likeness"] > 0.8  # type: ignore[operator]
    with Image.open(out / "arrived.png") as picture:
        assert picture.size[0] > 1000 and np.asarray(picture).std() > 10
    assert "lost: 0" in said and "good enough" in said


def test_the_beamline_runs_over_loopback_by_one_command(tmp_path: Path) -> None:
    said, told = run(tmp_path, "--loopback", *SMALL)
    assert "loopback" in said
    check(said, told, tmp_path / "out")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes paths")
def test_the_beamline_runs_over_an_emulated_path_as_root(tmp_path: Path) -> None:
    said, told = run(tmp_path, "--rtt", "20ms", *SMALL)
    assert "emulated path" in said
    check(said, told, tmp_path / "out")
    latency = told["latency"]
    assert isinstance(latency, dict)
    # Light takes half a round trip, whatever the machine does; clocks are told as far as they are known.
    assert latency["p50_ns"] + latency["bound_ns"] >= 10e6


def test_frames_of_2048_by_2048_pixels_are_analysed_as_they_arrive(tmp_path: Path) -> None:
    """The size that detectors have: 8 MiB each, and as many as two cores reduce in some seconds."""
    said, told = run(tmp_path, "--loopback", "--pixels", "2048", "--image", "64", "--frames", "16", "--set", "8")
    detector = told["detector"]
    assert isinstance(detector, dict)
    frames = detector["frames"]
    # The far side may have seen enough before the last.
    assert 0 < frames <= 16 and told["frames"] == frames and told["lost"] == [] and told["sets_incomplete"] == []
    assert told["bytes"] == frames * 2048 * 2048 * 2
    assert "lost: 0" in said
    with Image.open(tmp_path / "out/arrived.png") as picture:
        assert picture.size[0] > 1000


def processes(place: Path) -> dict[int, str]:
    """Those with this directory in their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if os.fsencode(place) in line:
            found[int(entry.name)] = os.fsdecode(line.replace(b"\0", b" "))
    return found


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("over", ["loopback", "path"])
def test_a_beamline_that_is_stopped_half_way_leaves_nothing(tmp_path: Path, how: signal.Signals, over: str) -> None:
    if over == "path" and os.geteuid() != 0:
        pytest.skip("only root makes paths")
    # A socket's path has room for 107 bytes; those of tests are long.
    place = Path(tempfile.mkdtemp(prefix="bl-"))
    command = [sys.executable, str(HERE / "run.py"), "--out", str(tmp_path / "out"), "--period", "0.5", *SMALL]
    command += ["--loopback"] if over == "loopback" else []
    # Whoever started these tests in the background had Ctrl-C ignored.
    hears = {**os.environ, "TMPDIR": str(place)}
    with subprocess.Popen(
        command,
        env=hears,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as running:
        wait_until(lambda: any("detector.py" in line for line in processes(place).values()), "it does not begin")
        running.send_signal(how)
        running.wait(timeout=120)
    wait_until(lambda: not processes(place), "processes are left")
    wait_until(lambda: not list(place.iterdir()), "files are left")
    place.rmdir()


@pytest.mark.parametrize("side", ["station", "detector"])
def test_a_side_that_fails_ends_the_other(tmp_path: Path, side: str) -> None:
    place = Path(tempfile.mkdtemp(prefix="bl-"))
    command = [sys.executable, str(HERE / "run.py"), "--out", str(tmp_path / "out"), "--loopback"]
    # Without that it would take an hour.
    command += [*SMALL, "--frames", "7200", "--period", "0.5"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(place)}, stderr=subprocess.PIPE) as running:
        wait_until(lambda: any("detector.py" in line for line in processes(place).values()), "it does not begin")
        for pid in [pid for pid, line in processes(place).items() if f"{side}.py" in line]:
            os.kill(pid, signal.SIGKILL)
        said = running.communicate(timeout=120)[1]
    assert running.returncode == 1 and f"the {side} failed" in said.decode()
    wait_until(lambda: not list(place.iterdir()), "files are left")
    place.rmdir()


def test_a_scan_that_is_seen_from_all_sides_is_the_sample() -> None:
    sys.path.insert(0, str(HERE))
    try:
        from phantom import Detector, angle, truth
        from reduction import Slice, likeness
    finally:
        sys.path.pop(0)
    camera, slice_ = Detector(64, seed=1), Slice(64, 64)
    for number in range(90):
        slice_.add(camera.frame(number, exposure=5.0), angle(number))
    image, sample = slice_.image(), truth(64, 0.0)
    assert likeness(image, sample) > 0.9
    # Not only the shape: the values are attenuations.
    inside = sample > 0.3
    assert abs(float(image[inside].mean()) / float(sample[inside].mean()) - 1.0) < 0.15
