"""Who asked what, and what was answered: JSON lines in a file, each durable before anything follows from it.

A record that cannot be written ends the server's readiness: what is not recorded is not done. A line is written whole, at
the end of what is there, so that several servers may have one file. Nobody but its user reads it, and no tool of this server
reaches it: the file may not be in a place that a model may name.
"""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from typing import Any

from thalweg.errors import UsageError
from thalweg.mcp.answers import inert

#: The most characters of one text of a call that are recorded; behind them stands how many were left off.
_TEXT_MAX = 4096
#: The most fields, and entries of a list, of a call, and levels in each other, that are recorded.
_FIELDS_MAX, _LEVELS_MAX = 64, 4


class Audit:
    """The file; made, for its user alone, where there is none. Raises ``OSError`` if it cannot be opened or written."""

    def __init__(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        self._file = os.open(path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            os.close(self._file)
            raise UsageError("it is no file", kind="usage", operation="open the audit file", path=inert(path))
        self._lock = threading.Lock()
        self._sync_directory(os.path.dirname(os.path.abspath(path)))
        size = os.fstat(self._file).st_size
        # What a power cut left of a line does not spoil the next one.
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def write(self, event: str, told: dict[str, Any]) -> None:
        """Writes a record and syncs it; one at a time. Raises ``OSError`` if it is not there as a whole."""
        line = json.dumps({"event": event, "at": time.time(), **told}).encode() + b"\n"
        with self._lock:
            if os.write(self._file, line) != len(line):
                raise OSError(f"only a part of a record of {len(line)} bytes was written")
            os.fsync(self._file)

    @staticmethod
    def _sync_directory(path: str) -> None:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def clipped(value: Any, level: int = 0) -> Any:
    """What was asked, bounded and inert: a model sends what it likes."""
    if isinstance(value, str):
        left_off = len(value) - _TEXT_MAX
        return inert(value[:_TEXT_MAX]) + (f" [{left_off} more characters]" if left_off > 0 else "")
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 64):
        return value
    if level < _LEVELS_MAX and isinstance(value, dict):
        return {clipped(str(name)): clipped(one, level + 1) for name, one in list(value.items())[:_FIELDS_MAX]}
    if level < _LEVELS_MAX and isinstance(value, list):
        return [clipped(one, level + 1) for one in value[:_FIELDS_MAX]]
    return f"[{type(value).__name__}]"
