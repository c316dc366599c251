#!/usr/bin/env python3
"""Analyses what has arrived, once for each item: `thalweg watch SRC DST --results-back PLACE --on-arrival ./on_arrival.py`."""

import json
import sys

import thalweg


def main() -> int:
    item = thalweg.arrival.item()
    if not item.path.is_file():
        print(f"{item.name}: not a file", file=sys.stderr)
        # Anything but 0 is a failure: it is tried again.
        return 1
    content = item.path.read_bytes()
    summary = {"name": item.name, "key": item.key, "bytes": item.bytes, "zeros": content.count(0)}
    # It goes back when this succeeds; of a run that fails nothing does.
    (item.results / "summary.json").write_text(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
