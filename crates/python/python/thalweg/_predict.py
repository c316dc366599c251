"""How long a transfer would take: what :mod:`thalweg` and :mod:`thalweg.aio` share."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, Unpack

from thalweg import _thalweg
from thalweg._copy import Verify
from thalweg._docs import document
from thalweg._work import (
    STREAMS,
    Asking,
    Event,
    Place,
    Reaching,
    Tabled,
    reaching_of,
    refuse_unknown,
    text_of,
    whole,
)
from thalweg.errors import Error, name_place

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
    #: It would have so many TCP connections, 1 to 256.
    streams: int | None


@dataclass(frozen=True)
class Predicted(Tabled):
    """How long a transfer would take. Sizes are in bytes, times in seconds."""

    #: Content bytes at the source; estimated where it is too much to count.
    bytes: float
    #: Entries at the source; estimated where they are too many to count.
    entries: float
    #: The median; ``None`` where nothing is known of the way yet.
    seconds: float | None
    #: 95 of 100 such transfers take from so long ...
    low_s: float | None
    #: ... to so long.
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
    details: Event = field(repr=False, hash=False)


document(PredictOptions, Reaching, Asking)
document(Predicted)


def predict(source: Place, destination: Place, **options: Unpack[PredictOptions]) -> Predicted:
    """How long a copy would take, before it begins: counts what is at the source, and goes by what earlier transfers and
    probes of the same way took (they are remembered in ``state``). Nothing is measured and nothing moved; where nothing is
    known, :attr:`Predicted.missing` says what, and ``thalweg probe`` or one copy teaches it. On Ctrl-C it ends, whatever it waits
    for. Options: ``help(thalweg.PredictOptions)``.
    """
    return asked(source, destination, options, None)


def asked(
    source: Place, destination: Place, options: PredictOptions, gives_up: _thalweg.GivingUp | None
) -> Predicted:
    """:func:`predict`, which may be given up from another thread."""
    refuse_unknown(options, PredictOptions)
    places = (text_of(source), text_of(destination))
    wanted = {
        "deadline_s": options.get("deadline_s"),
        "scan_s": options.get("scan_s", 5.0),
        "reads_back": options.get("verify", "written") != "written",
        "bwlimit": options.get("bwlimit"),
        "streams": whole("streams", options.get("streams"), *STREAMS),
    }
    try:
        told = json.loads(_thalweg.predict(places, wanted, reaching_of(options), gives_up))
    except Error as error:
        name_place(error, places[:1], places[1])
        raise
    return Predicted(**{name: told[name] for name in _TOLD}, details=told)


_TOLD = [name for name in Predicted.__dataclass_fields__ if name != "details"]
