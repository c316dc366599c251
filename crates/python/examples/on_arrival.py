"""Enters an item that arrived into a table, once for each name and content, and leaves a summary as its result.

Usage: thalweg watch DIR DST --results-back PLACE --on-arrival python3 -- on_arrival.py TABLE
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
from pathlib import Path

import thalweg.arrival


def main(table: Path) -> None:
    item = thalweg.arrival.item()
    summary = {"source": item.source, "bytes": item.bytes, "blake3": item.digest}
    (item.results / "summary.json").write_text(json.dumps(summary))
    with contextlib.closing(sqlite3.connect(table)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS arrived (key TEXT PRIMARY KEY, source TEXT, bytes INTEGER)")
        # After a power cut it may run again for what it entered: the key is the same then.
        database.execute("INSERT OR IGNORE INTO arrived VALUES (?, ?, ?)", (item.key, item.source, item.bytes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
