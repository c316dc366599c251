"""How long a transfer would take: what :mod:`thalweg` and :mod:`thalweg.aio` share."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, Unpack

from thalweg import _thalweg
from thalweg._copy import Verify
from thalweg._work import Event, Place, Reaching, reaching_of, refuse_unknown, text_of

#: Whether a deadline is kept: in 99 of 100 cases, more often than not, or not.
Deadline: TypeAlias = Literal["holds", "uncertain", "too-late"]


class PredictOptions(Reaching, total=False):
    """What is asked of a prediction, beyond its places."""

    #: Will it be done in so many seconds?
    deadline_s: float | None
    #: Count what is at the source for so many seconds; of what is larger a sample is taken for as long again. Default: 5.
    scan_s: float
    #: How far the copy would verify. Default: ``written``.
    verify: Verify
    #: It would be held to this, with its unit: ``"500Mbit/s"``, ``"50MB/s"``.
    bwlimit: str | None
    #: It would have so many TCP connections.
    streams: int | None


@dataclass(frozen=True)
class Predicted:
    """How long a transfer would take. Sizes are in bytes, times in seconds."""

    #: What is at the source; estimated where it is too much to count.
    bytes: float
    entries: float
    #: The median, and what it lies between in 95 of 100 cases; ``None`` where nothing is known of the way yet.
    seconds: float | None
    low_s: float | None
    high_s: float | None
    #: 99 of 100 such transfers take less.
    p99_s: float | None
    #: Earlier transfers of this way that it rests on.
    transfers: int
    #: What nothing is known of, if no time can be said: ``bytes``, ``entries``, ... ``thalweg probe`` or a copy teaches it.
    missing: str | None
    #: Whether the deadline holds, if one was given and a time can be said.
    deadline: Deadline | None
    #: Which limit binds.
    binds: str | None
    #: All of it, as the event ``predicted`` of docs/reference/json.md.
    details: Event = field(repr=False)


def predict(source: Place, destination: Place, **options: Unpack[PredictOptions]) -> Predicted:
    """How long a copy would take, before it begins: counts what is at the source, and goes by what earlier transfers and
    probes of the same way took (they are remembered in ``state``). Nothing is measured and nothing moved; where nothing is
    known, :attr:`Predicted.missing` says what, and ``thalweg probe`` or one copy teaches it.
    """
    refuse_unknown(options, PredictOptions)
    asked = {
        "deadline_s": options.get("deadline_s"),
        "scan_s": options.get("scan_s", 5.0),
        "reads_back": options.get("verify", "written") != "written",
        "bwlimit": options.get("bwlimit"),
        "streams": options.get("streams"),
    }
    told = json.loads(_thalweg.predict((text_of(source), text_of(destination)), asked, reaching_of(options)))
    return Predicted(**{name: told[name] for name in _TOLD}, details=told)


_TOLD = [name for name in Predicted.__dataclass_fields__ if name != "details"]
