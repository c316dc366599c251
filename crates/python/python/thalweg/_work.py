"""Work that takes its time, and how it is waited for: what :mod:`thalweg` and :mod:`thalweg.aio` share."""

from __future__ import annotations

import html
import inspect
import json
import math
import operator
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeAlias, TypedDict, TypeVar, overload

from thalweg import _thalweg
from thalweg._docs import document
from thalweg.errors import Error, UsageError, name_place, of_object

#: A place as the program reads it. ``bytes`` are a path of this machine as it is.
Place: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
#: A path below a place: of a list of names.
Name: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
#: What happened, as ``--json`` tells it (docs/reference/json.md): ``event`` says what, the rest by event.
Event: TypeAlias = dict[str, Any]

#: The longest that a wait holds back a Ctrl-C, in seconds.
STEP_S = 0.1

#: The most that the native part's numbers hold.
U32_MAX, U64_MAX = (1 << 32) - 1, (1 << 64) - 1
#: Bytes under way, and TCP connections: the least and the most.
WINDOW_BYTES, STREAMS = (64 << 10, 256 << 20), (1, 256)
#: TLS records of a stream: the least, and the most.
TLS_RECORDS = (1 << 10, 15 << 20)

R = TypeVar("R")


#: How data streams are sealed: in frames of thalweg's own, or (``tls``) as plain TLS 1.3 records.
Cipher: TypeAlias = Literal["aes128", "aes256", "chacha20", "tls"]
#: Of which family the addresses are that are dialled.
Family: TypeAlias = Literal["ipv4", "ipv6"]


class Asking(TypedDict, total=False):
    """How far places are reached that are only asked."""

    #: The file that ``thalweg serve`` wrote: whom to expect and who we are. Default: ``$THALWEG_TICKET``.
    ticket: str | os.PathLike[str] | None
    #: The ssh to start, with its options. Default: ``$THALWEG_RSH``, else ``ssh``.
    rsh: str | None
    #: Port of sshd, 1 to 65535.
    port: int | None
    #: The thalweg to start at the far side of ssh. Default: ``$THALWEG_FAR_PATH``, else ``thalweg`` in the ``PATH`` of
    #: the login there, in ``~/.cargo/bin`` or in ``~/.local/bin``.
    far_path: str | None
    #: Ports that the far side of ssh may listen at, ``"LOW-HIGH"``, if a firewall lets only some through. Default:
    #: ``$THALWEG_FAR_PORTS``, else any.
    far_ports: str | None
    #: Ports that this side may listen at where the far side of ssh dials, ``"LOW-HIGH"``. Default: ``$THALWEG_NEAR_PORTS``,
    #: else any.
    near_ports: str | None
    #: If the far side of ssh has no thalweg, place a static one in its user's cache: the program that ``$THALWEG_STATIC``
    #: names, else ``thalweg-static`` beside this package, else ``thalweg-static`` or ``thalweg`` on ``$PATH``.
    bootstrap: bool
    #: Dial only addresses of this family, by ssh too. Default: any.
    family: Family | None
    #: Give up without progress for so many seconds, more than 0. Default: 600; one answer is waited for 60 at most.
    patience_s: float
    #: Drop a link that acknowledges nothing for so many seconds, 0.1 or more, and dial again. Default: 30.
    stall_timeout_s: float


class Reaching(Asking, total=False):
    """How far places are reached that data go to or come from."""

    #: Where keys and what is remembered are kept. Default: ``$THALWEG_STATE``, else ``$XDG_STATE_HOME/thalweg``.
    state: str | os.PathLike[str] | None
    #: Protection of the data streams. Default: ``$THALWEG_CIPHER``, else by the processor. A daemon that was started with
    #: ``--require-tls`` wants ``tls``.
    cipher: Cipher | None
    #: With the cipher ``tls``, whether the kernel seals what this side sends and opens what it receives: where that was
    #: measured to be faster (``auto``), wherever the kernel can (``on``), never (``off``). Default: ``auto``.
    ktls: Literal["auto", "on", "off"]
    #: With the cipher ``tls``, replace a stream after so many TLS records of this side, 1024 to 15728640. Default: the most.
    tls_records: int | None
    #: Addresses of the far side over which data streams are spread: ``"HOST"``, ``"HOST:PORT"`` or pairs ``(host, port)``;
    #: ``"ticket"`` means all that the ticket names. Default: ``$THALWEG_VIA``, with commas, else (and with an empty list) the
    #: one that answered first.
    via: Iterable[str | tuple[str, int]]
    #: Addresses, or names of network cards, of this machine over which they are spread. Default: ``$THALWEG_BIND``, with commas,
    #: else (and with an empty list) the system's choice.
    bind: Iterable[str]
    #: Congestion control of the side that sends, for instance ``"bbr"``. One that this machine does not have raises
    #: :class:`~thalweg.UsageError`. One that is not permitted to this user is told as an event ``note`` and another is used; of
    #: frames it raises :class:`~thalweg.NotPermittedError`. Default: by the path.
    cca: str | None


class Watching(TypedDict, total=False):
    """What is told of work."""

    #: An event for each entry too. Default: no.
    entries: bool
    #: Seconds between two events ``progress``. Default: 1.
    progress_s: float


class Tabled:
    """A value that a notebook shows as a table of its fields."""

    def _repr_html_(self) -> str:
        value: Any = self
        shown = [(known.name, getattr(value, known.name)) for known in fields(value) if known.repr]
        rows = "".join(f"<tr><th>{name}</th><td>{html.escape(str(told))}</td></tr>" for name, told in shown)
        return f"<table><caption>{type(value).__name__}</caption>{rows}</table>"


@dataclass(frozen=True, kw_only=True)
class Finished(Tabled):
    """What reports of copies and of streams have alike. Sizes are in bytes, times in seconds."""

    #: Content bytes that travelled.
    bytes_received: int
    #: Content bytes that an earlier attempt had left durable.
    bytes_resumed: int
    #: From the first connection to the last word.
    seconds: float
    #: How often it had to start over; a stream: how often it had to begin a new session.
    attempts: int
    #: BLAKE3 over the lines of all entries or files, which both sides signed; of a dry run ``None``.
    root: str | None
    #: Which stage was the narrowest and what to turn, in words.
    sentence: str | None
    #: One error for each entry or file that failed, and each source file that could not be removed; the first 1000.
    failures: list[Error] = field(repr=False, hash=False)
    #: All of it, as the event ``finished`` of docs/reference/json.md.
    details: Event = field(repr=False, hash=False)

    @classmethod
    def _of(cls, told: Event) -> Self:
        failures = [of_object(failure) for failure in told.pop("failures")]
        names = {known.name for known in fields(cls)} - {"failures", "details"}
        counted = {name: told[name] for name in names}
        # It is not of the event.
        told.pop("sources_kept", None)
        return cls(**counted, failures=failures, details=told)


@dataclass(frozen=True)
class SlotReport:
    """What a slot promises, and what was kept so far. Times in seconds: from when bytes were ready here until they were known
    to be at the other side, durable there or, of frames that need not be, in memory."""

    #: The worst that is promised, of all that keeps to what was registered.
    promised_s: float
    #: What was asked for.
    deadline_s: float
    #: Half were at most so late.
    lag_p50_s: float
    #: 99 of 100 were at most so late.
    lag_p99_s: float
    #: The worst was so late.
    lag_worst_s: float
    #: Of the worst, the time until it might go.
    lag_worst_until_sent_s: float
    #: Pieces, or frames, that are there.
    pieces: int
    #: How many of them were later than the deadline.
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
    ``None``. ``conclude`` makes the report of what the work says at its end. ``places``: what it is between, for failures.
    An iteration that is taken up again goes on where the one before it ended.
    """

    def __init__(
        self,
        work: _thalweg.Work,
        conclude: Callable[[Event], R],
        progress_s: float | None,
        notice: Callable[[Event], object] | None = None,
        places: tuple[Sequence[str], str | None] = ((), None),
    ) -> None:
        self._work, self._conclude, self._progress_s, self._notice = work, conclude, progress_s, notice
        self._places = places
        self._next_progress = time.monotonic() + (progress_s or 0.0)
        self._is_over = False
        #: What happened and was not handed out yet.
        self._kept: deque[Event] = deque()

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

    def gather(self) -> bool:
        """Keeps what happens for :meth:`handed_out`, waiting a step for it; ``False`` when it is over."""
        events = self.events()
        self._kept.extend(events or ())
        return events is not None

    def handed_out(self) -> Event | None:
        """The next event of those that were kept."""
        return self._kept.popleft() if self._kept else None

    def __repr__(self) -> str:
        sources, destination = self._places
        between = ", ".join(sources) + (f" -> {destination}" if destination is not None else "")
        return f"<{type(self).__name__} {between}: {'over' if self._is_over else 'under way'}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        while (event := self.handed_out()) is None:
            if not self.gather():
                raise StopIteration
        return event

    def stop(self) -> None:
        """Asks it to stop in order; does not wait. The same call resumes."""
        self._work.stop()

    def report(self) -> R:
        """Waits for its end, and says what it did; raises what failed. Events that were not taken are lost. What interrupts
        the wait, Ctrl-C for instance, stops the work in order."""
        try:
            while self.events() is not None:
                pass
        except BaseException:
            self._work.stop()
            raise
        self._kept.clear()
        try:
            told = json.loads(self._work.result())
        except Error as error:
            name_place(error, *self._places)
            raise
        return self._conclude(told)

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


class Moving(Underway[R]):
    """Work under way that sends content."""

    def limit(self, bwlimit: str | None) -> None:
        """From now on it sends no faster than this, with its unit: ``"500Mbit/s"``, ``"50MB/s"``; ``None``: no limit. Raises
        :class:`~thalweg.UsageError` for what is no rate."""
        self._work.limit(bwlimit)


def drive(work: Underway[R], on_event: Callable[[Event], object] | None) -> R:
    """To its end; the listener is called on this thread."""
    with work:
        for event in work:
            if on_event is not None:
                on_event(event)
        return work.report()


def listens(on_event: Callable[[Event], object] | None) -> bool:
    """Whether somebody listens."""
    if inspect.iscoroutinefunction(on_event) or inspect.iscoroutinefunction(getattr(on_event, "__call__", None)):
        raise TypeError("on_event is a coroutine function, which nobody would await: iterate `thalweg.aio.transfer` instead")
    return on_event is not None


@overload
def whole(name: str, number: int, least: int, most: int) -> int: ...
@overload
def whole(name: str, number: int | None, least: int, most: int) -> int | None: ...
def whole(name: str, number: int | None, least: int, most: int) -> int | None:
    """A whole number in its range; ``None`` is none."""
    if number is None:
        return None
    try:
        number = operator.index(number)
    except TypeError:
        raise TypeError(f"{name}={number!r}: a whole number") from None
    if not least <= number <= most:
        raise _out_of_range(name, f"from {least} to {most}", number)
    return number


def seconds(name: str, time_s: float | None, least_s: float, most_s: float = math.inf) -> float | None:
    """Seconds in their range; ``None`` are none."""
    if time_s is None:
        return None
    try:
        in_range = least_s <= time_s <= most_s
    except TypeError:
        raise TypeError(f"{name}={time_s!r}: seconds") from None
    if not in_range:
        wanted = f"from {least_s} seconds on" if most_s == math.inf else f"from {least_s} to {most_s} seconds"
        raise _out_of_range(name, wanted, time_s)
    return time_s


def texts(name: str, given: Iterable[str]) -> list[str]:
    """All of them; one alone would be taken for its letters."""
    if isinstance(given, str | bytes):
        raise TypeError(f"{name}={given!r}: a list of texts")
    return list(given)


def names(name: str, given: Iterable[Name] | None) -> list[bytes] | None:
    """All of them, as bytes; ``None`` is no list."""
    if given is None:
        return None
    if isinstance(given, str | bytes | os.PathLike):
        raise TypeError(f"{name}={given!r}: a list of names")
    return [os.fsencode(one) for one in given]


def dscp_of(mark: int | str | None) -> str | None:
    """A mark of packets, as the native part reads it."""
    return None if mark is None else str(mark)


def part_of(part: tuple[int, int] | None) -> tuple[int, int] | None:
    """A part and how many there are; ``None`` is all of it. Which there can be the engine says."""
    if part is None:
        return None
    try:
        number, count = part
    except (TypeError, ValueError):
        raise TypeError(f"part={part!r}: a pair (K, N)") from None
    return whole("part", number, 0, U32_MAX), whole("part", count, 0, U32_MAX)


def _addresses(given: Iterable[str | tuple[str, int]]) -> list[str]:
    """As the native part reads them."""
    if isinstance(given, str | bytes):
        raise TypeError(f"via={given!r}: a list of texts or pairs")
    return [one if isinstance(one, str) else _address(one) for one in given]


def _address(pair: tuple[str, int]) -> str:
    try:
        host, port = pair
    except (TypeError, ValueError):
        raise TypeError(f"via: {pair!r} is no text and no pair of host and port") from None
    number = whole("via", port, 1, 65535)
    return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"


def positive_seconds(name: str, time_s: float | None) -> float | None:
    """Seconds, more than none."""
    if seconds(name, time_s, 0.0) == 0:
        raise _out_of_range(name, "more than 0 seconds", time_s)
    return time_s


def _out_of_range(name: str, range: str, number: object) -> UsageError:
    return UsageError(f"{name}: {range}, not {number}", kind="usage", operation="read options")


def text_of(place: Place) -> str:
    """As the native part reads it."""
    if isinstance(place, str):
        return place
    path = os.fsdecode(place)
    # A path object is a path of this machine, whatever its name looks like.
    return path if path.startswith("/") else os.path.join(".", path)


def reaching_of(options: Any) -> dict[str, Any]:
    # An empty list is none, whatever the environment has.
    via, bind = options.get("via"), options.get("bind")
    return {
        "ticket": options.get("ticket") or os.environ.get("THALWEG_TICKET") or None,
        "state": options.get("state") or os.environ.get("THALWEG_STATE") or None,
        "rsh": options.get("rsh") or os.environ.get("THALWEG_RSH") or None,
        "port": whole("port", options.get("port"), 1, 65535),
        "far_path": options.get("far_path") or os.environ.get("THALWEG_FAR_PATH") or None,
        "far_ports": options.get("far_ports") or os.environ.get("THALWEG_FAR_PORTS") or None,
        "near_ports": options.get("near_ports") or os.environ.get("THALWEG_NEAR_PORTS") or None,
        "bootstrap": options.get("bootstrap", False),
        "static_programs": _static_programs() if options.get("bootstrap") else [],
        "family": options.get("family"),
        "via": _addresses(_listed("THALWEG_VIA") if via is None else via),
        "bind": texts("bind", _listed("THALWEG_BIND") if bind is None else bind),
        "cca": options.get("cca"),
        "cipher": options.get("cipher") or os.environ.get("THALWEG_CIPHER") or None,
        "ktls": options.get("ktls"),
        "tls_records": whole("tls_records", options.get("tls_records"), *TLS_RECORDS),
        "patience_s": positive_seconds("patience_s", options.get("patience_s", _thalweg.PATIENCE_S)),
        "stall_timeout_s": seconds("stall_timeout_s", options.get("stall_timeout_s", _thalweg.STALL_TIMEOUT_S), 0.1),
        "typed": [name for name in ("via", "bind", "cipher", "ktls", "tls_records") if options.get(name)],
    }


def _listed(variable: str) -> list[str]:
    """What a variable of the environment has between its commas."""
    return [text for text in os.environ.get(variable, "").split(",") if text]


def limit_memory(bytes: int | None) -> None:
    """From now on all buffers of this process together take at most so many ``bytes``, 8 MiB or more; ``None``: there is no
    bound any more. Copies and streams that begin then have fewer streams, smaller requests, and read less ahead. Each plans as if
    it were alone: where several run at once, or the bound is lowered meanwhile, one that is left without memory raises
    :class:`~thalweg.NoSpaceError` (over a link after ten seconds); the same call resumes. (A far side has a bound of its own: the
    program's ``serve --memory``. Frames in a hub have theirs: ``memory_bytes``.)

    Raises :class:`~thalweg.UsageError` for less.
    """
    _thalweg.limit_memory(whole("bytes", bytes, 0, U64_MAX))


def _static_programs() -> list[str]:
    """Where a static program of ours may be. (The one that runs is Python's.)"""
    on_path = [shutil.which(name) for name in ("thalweg-static", "thalweg")]
    return [os.path.join(os.path.dirname(__file__), "thalweg-static"), *filter(None, on_path)]


def refuse_unknown(options: Any, known: Any) -> None:
    unknown = sorted(set(options) - known.__optional_keys__)
    if unknown:
        raise TypeError(f"unexpected options: {', '.join(unknown)}")


document(Asking)
document(Reaching, Asking)
document(SlotReport)
