"""What ``thalweg watch`` tells the program that it runs for what has arrived (docs/guide/watch.md).

>>> item = thalweg.arrival.item()  # doctest: +SKIP
>>> print(item.name, item.path, item.attempt)  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from thalweg._docs import document
from thalweg.errors import UsageError

__all__ = ["Item", "item"]


@dataclass(frozen=True, kw_only=True)
class Item:
    """A file, or a directory, that has arrived whole."""

    #: Its name below the watched directory; ``os.fsencode`` has its bytes.
    name: str
    #: Where it can be read here: the destination if that is on this machine, else the source.
    path: Path
    #: Where it came from, as a place is written; odd bytes are escaped.
    source: str
    #: Where it went to.
    destination: str
    #: Of a file its BLAKE3, as ``b3sum`` prints it; of a directory a digest over paths and contents in it.
    digest: str
    #: Bytes of content.
    bytes: int
    #: What both sides signed: a file for :func:`thalweg.verify`.
    receipt: Path
    #: 32 digits, the same for the same name and content, however often it is run: an idempotency key.
    key: str
    #: Number of this run for this name, from 1.
    attempt: int
    #: An empty directory: what is written there goes back with ``--results-back``.
    results: Path


def item(environment: Mapping[str, str] | None = None) -> Item:
    """What this program is run for. ``environment``: another one than this process has.

    Raises :class:`~thalweg.UsageError` where ``thalweg watch --on-arrival`` did not run it.
    """
    told = os.environ if environment is None else environment

    def of(name: str) -> str:
        try:
            return told[f"THALWEG_ITEM_{name}"]
        except KeyError:
            cause = f"THALWEG_ITEM_{name} is not set: `thalweg watch --on-arrival PROGRAM` sets it for its program"
            raise UsageError(cause, kind="usage", operation="read the item") from None

    return Item(
        name=of("NAME"),
        path=Path(of("PATH")),
        source=of("SOURCE"),
        destination=of("DESTINATION"),
        digest=of("DIGEST"),
        bytes=_number(of("BYTES"), "BYTES"),
        receipt=Path(of("RECEIPT")),
        key=of("KEY"),
        attempt=_number(of("ATTEMPT"), "ATTEMPT"),
        results=Path(of("RESULTS")),
    )


def _number(text: str, name: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise UsageError(f"THALWEG_ITEM_{name}={text!r}: a number", kind="usage", operation="read the item")


document(Item)
