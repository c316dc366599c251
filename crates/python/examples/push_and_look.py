"""Pushes a file to a daemon, tells how far it is, reads a piece of it back, and checks it against its receipt.

Usage: python push_and_look.py FILE tw://HOST:PORT/EXPORT/ TICKET
"""

from __future__ import annotations

import sys
from pathlib import Path

import fsspec

import thalweg


def tell(event: thalweg.Event) -> None:
    if event["event"] == "progress":
        print(f"{event['bytes_settled']} of {event['bytes_found']} bytes")


def main(file: Path, place: str, ticket: Path) -> None:
    receipt = file.with_suffix(".receipt")
    try:
        report = thalweg.copy(file, place, ticket=ticket, receipt=receipt, on_event=tell)
    except thalweg.NoSpaceError as error:
        # With the path and what may be done about it, where that is known.
        sys.exit(str(error))
    print(f"{report.bytes_done} bytes in {report.seconds:.1f} s; {report.sentence}")
    with fsspec.open(f"{place}{file.name}", ticket=str(ticket)) as far:
        print(f"it begins with {far.read(16)!r}")
    print("undamaged" if thalweg.verify(receipt, place, ticket=ticket).ok else "damaged")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
