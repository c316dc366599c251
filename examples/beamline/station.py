"""The far process: a hub of its own, the reconstruction while frames come, and commands back to the detector.

It says on its first line where the channels are. At the end it draws what arrived and says how it came: tail, losses,
completeness.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import thalweg
from phantom import Image, ahead_bytes, angle, truth
from picture import draw
from reduction import Slice, change, likeness

#: Signal over noise that the open beam should have in a pixel.
SNR_WANTED = 40.0
#: Longest exposure that may be asked for: a pixel counts no further than 16 bits.
EXPOSURE_MAX = 8.0
#: An image that changes by less from look to look is good enough.
CHANGE_MAX = 0.1
#: Frames between two looks.
LOOK_EVERY = 12


class Station:
    """What is known so far, and what to ask for."""

    def __init__(self, pixels: int, image_pixels: int) -> None:
        self.slice = Slice(pixels, image_pixels)
        self.exposure_asked: float | None = None
        self.is_stop_asked = False
        self.changes: list[tuple[int, float]] = []
        self.latencies_s: list[float] = []
        self.exposures: list[float] = []
        self.lost: list[thalweg.Lost] = []
        self.sets: list[thalweg.SetReport] = []
        self._before: Image | None = None

    def take(self, frame: thalweg.Frame) -> dict[str, Any] | None:
        """Works a frame in; what the detector should do about it."""
        said = json.loads(frame.metadata)
        # A view: its bytes are where they arrived.
        self.slice.add(np.asarray(frame), angle(said["number"]))
        self.exposures.append(said["exposure"])
        if frame.latency_ns is not None:
            self.latencies_s.append(frame.latency_ns / 1e9)
        count = len(self.exposures)
        if self.exposure_asked is None and self.slice.open_beam_snr < SNR_WANTED:
            # Photons are counted: their noise is the root of their number.
            factor = (SNR_WANTED / max(self.slice.open_beam_snr, 1.0)) ** 2
            self.exposure_asked = min(EXPOSURE_MAX, said["exposure"] * factor)
            return {"exposure": self.exposure_asked}
        if count % LOOK_EVERY == 0 and not self.is_stop_asked:
            image = self.slice.image()
            if self._before is not None:
                self.changes.append((count, change(self._before, image)))
                self.is_stop_asked = self.changes[-1][1] < CHANGE_MAX
            self._before = image
            if self.is_stop_asked:
                return {"stop": True}
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", required=True, type=Path, help="for the hub, the ticket and the results")
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--pixels", type=int, default=2048)
    parser.add_argument("--image", type=int, default=512, help="pixels of the reconstructed slice")
    asked = parser.parse_args()

    (asked.directory / "hub").mkdir(parents=True, exist_ok=True)
    ticket = asked.directory / "ticket"
    station = Station(asked.pixels, asked.image)
    with thalweg.Hub(asked.directory / "hub", ticket, listen=asked.listen) as hub:
        scan, back = hub.place("scan"), hub.place("commands")
        commands = thalweg.Sender(back, ticket=ticket, unattended=True)
        ahead = ahead_bytes(asked.pixels)
        with thalweg.Receiver(scan, ticket=ticket, window_bytes=ahead, memory_bytes=ahead) as receiver:
            print(json.dumps({"scan": scan, "commands": back, "ticket": str(ticket)}), flush=True)
            began: float | None = None
            for what in receiver:
                if began is None:
                    began = time.monotonic()
                if isinstance(what, thalweg.Frame):
                    command = station.take(what)
                    if command is not None:
                        commands.push(json.dumps(command).encode())
                elif isinstance(what, thalweg.Lost):
                    station.lost.append(what)
                else:
                    station.sets.append(what)
        commands.finish(timeout_s=10.0)
    seconds = time.monotonic() - (began or time.monotonic())
    assert receiver.report is not None
    told = summary(station, receiver.report.figures, seconds, asked.image)
    draw(asked.directory / "arrived.png", station, truth(asked.image, 0.0), told)
    (asked.directory / "report.json").write_text(json.dumps(told, indent=2) + "\n")


def summary(
    station: Station, figures: thalweg.ReceiverFigures, seconds: float, image_pixels: int
) -> dict[str, Any]:
    """The figures of the run."""
    image = station.slice.image()
    return {
        "frames": figures.frames,
        "bytes": figures.bytes,
        "seconds": seconds,
        "gbit_per_s": figures.bytes * 8 / 1e9 / max(seconds, 1e-9),
        "lost": [asdict(lost) for lost in station.lost],
        "sets_complete": figures.sets_complete,
        "sets_incomplete": [asdict(told) for told in station.sets if not told.is_complete],
        "late": figures.late,
        "late_unknown": figures.deadline_unknown,
        "latency": None if figures.latency is None else asdict(figures.latency),
        "first_exposure": station.exposures[0] if station.exposures else None,
        "last_exposure": station.exposures[-1] if station.exposures else None,
        "changes": station.changes,
        "stop_asked": station.is_stop_asked,
        "likeness": likeness(image, truth(image_pixels, 0.0)),
    }


if __name__ == "__main__":
    main()
