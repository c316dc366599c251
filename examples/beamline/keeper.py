"""Clears up after run.py, however that ends: also when it is killed.

It waits until nobody holds the other end of its stdin any more. Then it ends the processes that have the scratch directory
among their words, takes the path down if there is one, and removes the directory.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

#: What does not end when it is killed is left.
PATIENCE_S = 30.0


def processes_of(scratch: Path) -> list[int]:
    """All but this one that have the directory in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(scratch) in line:
            found.append(int(entry.name))
    return found


def main() -> None:
    scratch, down = Path(sys.argv[1]), sys.argv[2:]
    sys.stdin.buffer.read()
    until = time.monotonic() + PATIENCE_S
    while (left := processes_of(scratch)) and time.monotonic() < until:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
    if down:
        subprocess.run(down, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
