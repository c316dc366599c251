"""Work that takes its time, and how it is waited for: what :mod:`thalweg` and :mod:`thalweg.aio` share."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypedDict, TypeVar

from thalweg import _thalweg
from thalweg.errors import Error, of_object

#: A place as the program reads it. ``bytes`` are a path of this machine as it is.
Place: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
#: What happened, as ``--json`` tells it (docs/reference/json.md): ``event`` says what, the rest by event.
Event: TypeAlias = dict[str, Any]

#: The longest that a wait holds back a Ctrl-C, in seconds.
STEP_S = 0.1

R = TypeVar("R")


class Reaching(TypedDict, total=False):
    """How far places are reached."""

    #: The file that ``thalweg serve`` wrote: whom to expect and who we are. Default: ``$THALWEG_TICKET``.
    ticket: str | os.PathLike[str] | None
    #: Where keys and what is remembered are kept. Default: ``$THALWEG_STATE``, else ``$XDG_STATE_HOME/thalweg``.
    state: str | os.PathLike[str] | None
    #: The ssh to start, with its options. Default: ``ssh``.
    rsh: str | None
    #: Port of sshd.
    port: int | None
    #: The thalweg to start at the far side of ssh. Default: ``thalweg``.
    far_path: str | None
    #: If the far side of ssh has no thalweg, place our own static one in its user's cache.
    bootstrap: bool
    #: Give up without progress for so many seconds. Default: 600.
    patience_s: float
    #: Drop a link that acknowledges nothing for so many seconds, and dial again. Default: 30.
    stall_timeout_s: float


class Watching(TypedDict, total=False):
    """What is told of work."""

    #: An event for each entry too. Default: no.
    entries: bool
    #: Seconds between two events ``progress``. Default: 1.
    progress_s: float


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What reports of copies and of streams have alike. Sizes are in bytes, times in seconds."""

    #: Content bytes that travelled.
    bytes_received: int
    #: Content bytes that an earlier attempt had left durable.
    bytes_resumed: int
    #: From the first connection to the last word.
    seconds: float
    #: How often it had to start over; a stream: how often it had to begin a new session.
    attempts: int
    #: BLAKE3 over the lines of all entries or files, which both sides signed.
    root: str
    #: Which stage was the narrowest and what to turn, in words.
    sentence: str | None
    #: One error for each entry or file that failed; the first 1000.
    failures: list[Error] = field(repr=False)
    #: All of it, as the event ``finished`` of docs/reference/json.md.
    details: Event = field(repr=False)

    @classmethod
    def _of(cls, told: Event) -> Self:
        failures = [of_object(failure) for failure in told.pop("failures")]
        names = {known.name for known in fields(cls)} - {"failures", "details"}
        return cls(**{name: told[name] for name in names}, failures=failures, details=told)


@dataclass(frozen=True)
class SlotReport:
    """What a slot promises, and what was kept so far. Times in seconds: from when bytes were ready here until they were known
    to be at the other side, durable there or, of frames that need not be, in memory."""

    #: The worst that is promised, of all that keeps to what was registered.
    promised_s: float
    #: What was asked for.
    deadline_s: float
    #: Half were at most so late; 99 of 100 were; the worst was.
    lag_p50_s: float
    lag_p99_s: float
    lag_worst_s: float
    #: Of the worst, the time until it might go.
    lag_worst_until_sent_s: float
    #: Pieces, or frames, that are there, and how many of them were later than the deadline.
    pieces: int
    pieces_late: int

    @staticmethod
    def _of(told: Event) -> SlotReport | None:
        slot = told.get("slot")
        if slot is None:
            return None
        return SlotReport(**{known.name: {**told, **slot}[known.name] for known in fields(SlotReport)})


class Underway(Generic[R]):
    """Work under way: an iterator over its events, and a context manager that stops it on the way out.

    ``progress`` events come every ``progress_s`` seconds while it is iterated, and once at the end; never, if that is
    ``None``. ``conclude`` makes the report of what the work says at its end.
    """

    def __init__(
        self,
        work: _thalweg.Work,
        conclude: Callable[[Event], R],
        progress_s: float | None,
        notice: Callable[[Event], object] | None = None,
    ) -> None:
        self._work, self._conclude, self._progress_s, self._notice = work, conclude, progress_s, notice
        self._next_progress = time.monotonic() + (progress_s or 0.0)
        self._is_over = False

    def events(self, timeout_s: float = STEP_S) -> list[Event] | None:
        """What happened, waiting at most ``timeout_s`` seconds for the first; ``None`` when it is over."""
        if self._is_over:
            return None
        told = self._work.wait(timeout_s)
        events: list[Event] = [json.loads(text) for text in told or []]
        if self._notice is not None:
            for event in events:
                self._notice(event)
        now = time.monotonic()
        if self._progress_s is not None and (told is None or now >= self._next_progress):
            self._next_progress = now + self._progress_s
            events.append(json.loads(self._work.progress()))
        self._is_over = told is None
        return events

    def __iter__(self) -> Iterator[Event]:
        while (events := self.events()) is not None:
            yield from events

    def stop(self) -> None:
        """Asks it to stop in order; does not wait. The same call resumes."""
        self._work.stop()

    def report(self) -> R:
        """Waits for its end, and says what it did; raises what failed. Events that were not taken are lost."""
        while self.events() is not None:
            pass
        return self._conclude(json.loads(self._work.result()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_over:
            self._work.stop()
            try:
                self._work.result()
            except Error:
                # It was stopped, and whoever leaves early does not ask how it ended.
                pass
            self._is_over = True


def drive(work: Underway[R], on_event: Callable[[Event], object] | None) -> R:
    """To its end; the listener is called on this thread."""
    with work:
        for event in work:
            if on_event is not None:
                on_event(event)
        return work.report()


def text_of(place: Place) -> str:
    """As the native part reads it."""
    if isinstance(place, str):
        return place
    path = os.fsdecode(place)
    # A path object is a path of this machine, whatever its name looks like.
    return path if path.startswith("/") else os.path.join(".", path)


def reaching_of(options: Any) -> dict[str, Any]:
    return {
        "ticket": options.get("ticket") or os.environ.get("THALWEG_TICKET") or None,
        "state": options.get("state") or os.environ.get("THALWEG_STATE") or None,
        "rsh": options.get("rsh") or os.environ.get("THALWEG_RSH") or None,
        "port": options.get("port"),
        "far_path": options.get("far_path") or os.environ.get("THALWEG_FAR_PATH") or None,
        "bootstrap": options.get("bootstrap", False),
        "patience_s": options.get("patience_s", 600.0),
        "stall_timeout_s": options.get("stall_timeout_s", 30.0),
    }


def refuse_unknown(options: Any, known: Any) -> None:
    unknown = sorted(set(options) - known.__optional_keys__)
    if unknown:
        raise TypeError(f"unexpected options: {', '.join(unknown)}")
