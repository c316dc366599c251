"""The near process: a detector that pushes frames as they are made, and does what the far side asks for.

Frames go to the channel `scan`, in sets of so many; commands come back on `commands`, of which only the latest counts:
`{"exposure": X}` for the frames to come, `{"stop": true}` to end after this set. Only a few frames are under way at any time:
what is asked for holds for the next that is made, not for those that wait.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import thalweg
from phantom import Detector, ahead_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scan", required=True, help="place of the channel of frames")
    parser.add_argument("--commands", required=True, help="place of the channel back")
    parser.add_argument("--ticket", required=True, type=Path)
    parser.add_argument("--pixels", type=int, default=2048)
    parser.add_argument("--frames", type=int, default=180, help="at most so many")
    parser.add_argument("--set", type=int, default=36, help="frames of a set")
    parser.add_argument("--period", type=float, default=0.0, help="seconds from frame to frame; 0: as they are made")
    parser.add_argument("--deadline", type=float, default=1.0, help="seconds in which a frame should be there")
    parser.add_argument("--exposure", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()

    camera = Detector(asked.pixels, asked.seed)
    exposure, is_asked_to_stop, done = asked.exposure, False, 0
    began = time.monotonic()
    with (
        thalweg.Receiver(asked.commands, ticket=asked.ticket, policy="latest-only") as commands,
        thalweg.Sender(
            asked.scan, ticket=asked.ticket, producer="detector", window_bytes=ahead_bytes(asked.pixels)
        ) as sender,
    ):
        while done < asked.frames and not is_asked_to_stop:
            number, size = done // asked.set, min(asked.set, asked.frames - done)
            sender.declare_set(number, size)
            for index in range(size):
                while (command := commands.next(timeout_s=0.0)) is not None:
                    if isinstance(command, thalweg.Frame):
                        wish = json.loads(bytes(command))
                        exposure = wish.get("exposure", exposure)
                        is_asked_to_stop = wish.get("stop", is_asked_to_stop)
                frame = camera.frame(done, exposure)
                time.sleep(max(0.0, began + done * asked.period - time.monotonic()))
                said = json.dumps({"number": done, "exposure": exposure}).encode()
                sender.push(frame, set=(number, index), deadline_s=asked.deadline, metadata=said)
                done += 1
        report = sender.finish()
    seconds = time.monotonic() - began
    figures = report.figures
    print(
        json.dumps(
            {
                "frames": figures.frames,
                "bytes": figures.bytes,
                "seconds": seconds,
                "blocked_s": figures.blocked_ns / 1e9,
                "sent_again": figures.again,
                "stopped_by_the_far_side": is_asked_to_stop,
                "exposure": exposure,
            }
        )
    )


if __name__ == "__main__":
    main()
