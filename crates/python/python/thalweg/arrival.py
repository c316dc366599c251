"""What ``thalweg watch --on-arrival`` tells the program that it runs for an item.

>>> import thalweg.arrival
>>> item = thalweg.arrival.item()  # doctest: +SKIP
>>> item.path, item.digest, item.key  # doctest: +SKIP

The program succeeds with exit code 0; an exception is a failure, and ``watch`` runs it again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from thalweg._docs import document
from thalweg.errors import UsageError

__all__ = ["Item", "item"]


@dataclass(frozen=True, kw_only=True)
class Item:
    """An item that arrived, verified and durable."""

    #: Where it can be read on this machine: at the destination if that is here, else at the source. ``None`` between a
    #: bucket and a far directory: then nothing of it is here.
    path: Path | None
    #: Its name below the watched directory; bytes that are no UTF-8 are as :func:`os.fsdecode` has them.
    name: str
    #: Its place at the source as text, odd bytes escaped (``\\xNN``).
    source: str
    #: Its place at the destination as text, likewise.
    destination: str
    #: Of a file its BLAKE3, 64 digits; of a directory a digest over paths and contents in it.
    digest: str
    #: Bytes of content.
    bytes: int
    #: Entries that stood at the destination when it arrived and are no part of it: earlier copies of the directory
    #: brought them, and the source has them no more. 0 with ``--delete``.
    stale: int
    #: What both sides signed, for :func:`thalweg.verify` of the directory that ``path`` is in.
    receipt: Path
    #: 32 digits, the same for the same name and content: by it a run knows what an earlier one did.
    key: str
    #: Number of this run for this name, from 1.
    attempt: int
    #: A directory for results, empty at first.
    results: Path


def item() -> Item:
    """The item that this program is run for, from its environment.

    Raises :class:`~thalweg.UsageError` where ``thalweg watch`` did not start the program.
    """
    path = os.environ.get("THALWEG_ITEM_PATH")
    return Item(
        path=Path(path) if path else None,
        name=_told("NAME"),
        source=_told("SOURCE"),
        destination=_told("DESTINATION"),
        digest=_told("DIGEST"),
        bytes=_number("BYTES"),
        stale=_number("STALE"),
        receipt=Path(_told("RECEIPT")),
        key=_told("KEY"),
        attempt=_number("ATTEMPT"),
        results=Path(_told("RESULTS")),
    )


def _told(what: str) -> str:
    name = f"THALWEG_ITEM_{what}"
    value = os.environ.get(name)
    if not value:
        raise _refused(f"{name} is not set")
    return value


def _number(what: str) -> int:
    text = _told(what)
    if not (text.isascii() and text.isdigit()):
        raise _refused(f"THALWEG_ITEM_{what}={text!r}: a whole number")
    return int(text)


def _refused(cause: str) -> UsageError:
    hint = "this is for programs that `thalweg watch --on-arrival` starts"
    return UsageError(cause, kind="usage", operation="read the item", hint=hint)


document(Item)
