"""Frames of detectors, from memory to memory: what :mod:`thalweg` and :mod:`thalweg.aio` share."""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    runtime_checkable,
)

from thalweg import _thalweg
from thalweg._docs import document
from thalweg._work import (
    STREAMS,
    U32_MAX,
    U64_MAX,
    WINDOW_BYTES,
    Asking,
    Place,
    Reaching,
    SlotReport,
    Tabled,
    reaching_of,
    refuse_unknown,
    seconds,
    text_of,
    whole,
)
from thalweg.errors import Error

if TYPE_CHECKING:
    # Of Python itself from 3.12 on.
    from typing_extensions import Buffer

#: What happens when a consumer is slower than the producers: they wait (``block``), what memory does not hold goes to a
#: log and is replayed (``spill``), the oldest are dropped, or only the latest is handed out. What is lost is always named.
Policy: TypeAlias = Literal["block", "spill", "drop-oldest", "latest-only"]
#: Why a consumer does not get frames.
Reason: TypeAlias = Literal["dropped", "superseded", "forgotten", "hub-restart", "damaged"]


@runtime_checkable
class Array(Protocol):
    """An array as NumPy has it."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

    def tobytes(self) -> bytes: ...


#: What can be pushed: ``bytes``, an array, anything with a buffer, or a frame that came.
Data: TypeAlias = "Frame | Buffer | Array"


class ChannelOptions(Reaching, total=False):
    """How a channel is reached, and how it is kept, if this is the first to open it."""

    #: Bytes of payloads that the hub holds in memory for all consumers together. Default: 256 MiB.
    memory_bytes: int | None
    #: Bytes of the spill log, at most. Default: 16 GiB.
    spill_bytes: int | None
    #: Write every frame to the spill log, for consumers that come later. Default: no.
    recorded: bool
    #: While nobody consumes, frames go nowhere; else they wait, and in the end their producers do. Default: no.
    unattended: bool
    #: Payload bytes under way here, 64 KiB to 256 MiB. Default: 64 MiB.
    window_bytes: int
    #: TCP connections, 1 to 256. Default: by round trip and cores, at most 4.
    streams: int | None


class SenderOptions(ChannelOptions, total=False):
    """What a sender goes by, beyond its place."""

    #: Its name; one that begins under a name that the hub knows goes on with its sequence. Default: a random one.
    producer: str | None
    #: The hub has a frame when it is in its synced log, not when it is in its memory. Default: no.
    durable: bool
    #: Send in a slot of the daemon: ``"PERIOD:BYTES:DEADLINE"``, for instance ``"1s:20MB:300ms"``, or ``"RATE:DEADLINE"``, for
    #: instance ``"100Mbit/s:300ms"``. Frames that are pushed are to be at the hub within the deadline. What cannot be promised
    #: raises :class:`~thalweg.BusyError`, with by how much it does not fit or what would.
    slot: str | None


class ReceiverOptions(ChannelOptions, total=False):
    """What a receiver goes by, beyond its place."""

    #: What happens when it is slower than the producers. Default: ``block``.
    policy: Policy
    #: With ``drop-oldest``: how many frames it may be behind. Default: 0, as memory allows.
    depth: int
    #: Shares frames with all others of this group. Default: everything is for this one.
    group: str | None
    #: Where it begins: with everything that is there, with what comes, or with this sequence. Default: ``first``.
    start: Literal["first", "now"] | int
    #: One that comes back under its name within ``keep_s`` seconds (30) goes on behind what it took, however it ended: a
    #: delivery is taken when the next one is asked for, or when :meth:`Receiver.settle` says so. Default: none.
    name: str | None
    #: See ``name``. Default: 30.
    keep_s: float
    #: It ends when so many have finished, and all that are known. Default: 1.
    producers: int
    #: What the link could carry, in bits a second: :attr:`Latency.speed_score` is reckoned with it. Default: no score.
    link_bits_per_s: int | None


@dataclass(frozen=True)
class Clock:
    """One clock against the hub's: add ``offset_ns`` to have the hub's, wrong by at most ``bound_ns``."""

    #: Nanoseconds that the hub's is ahead.
    offset_ns: int
    #: Nanoseconds that this may be wrong by.
    bound_ns: int


@dataclass(frozen=True)
class Latency:
    """From made to received, by the hub's clock; each figure but the longest is at most 1 % too high."""

    #: Frames measured.
    count: int
    #: Half took no more nanoseconds.
    p50_ns: int
    #: 90 of 100 took no more nanoseconds.
    p90_ns: int
    #: 99 of 100 took no more nanoseconds.
    p99_ns: int
    #: Nanoseconds of the longest.
    max_ns: int
    #: Each figure is wrong by at most so many nanoseconds, because clocks are.
    bound_ns: int
    #: Streaming Speed Score (003 Eq 11): the longest over what a frame of the mean size takes at the rate of the link. 1 is ideal;
    #: ``None`` without ``link_bits_per_s``.
    speed_score: float | None


@dataclass(frozen=True)
class SenderFigures(Tabled):
    """What a sender did so far."""

    #: Frames pushed by this process.
    frames: int
    #: Their payload bytes.
    bytes: int
    #: Of those frames, how many the hub has not yet.
    waiting: int
    #: Of those bytes, how many the hub has not yet.
    waiting_bytes: int
    #: Frames sent again, after outages or damage.
    again: int
    #: Nanoseconds for which pushes waited for room.
    blocked_ns: int
    #: Links lost.
    outages: int
    #: Our clock against the hub's.
    clock: Clock | None
    #: What its slot promises, and what was kept so far; ``None`` without one, and before its windows are placed.
    slot: SlotReport | None

    @staticmethod
    def _of(told: dict[str, Any]) -> SenderFigures:
        known = {**told, "clock": _clock(told["clock"]), "slot": SlotReport._of(told)}
        return SenderFigures(**{one.name: known[one.name] for one in fields(SenderFigures)})


@dataclass(frozen=True)
class ProducerReport:
    """What a producer did, when the hub has all of it."""

    #: Its name.
    producer: str
    #: The sequence after its last frame, earlier processes of its name counted.
    sequence_end: int
    #: The figures at the end.
    figures: SenderFigures


@dataclass(frozen=True)
class ReceiverFigures(Tabled):
    """What a receiver got so far."""

    #: Frames delivered.
    frames: int
    #: Their payload bytes.
    bytes: int
    #: Frames named as lost, by reason.
    lost: dict[Reason, int] = field(hash=False)
    #: Sets that were over, with all their frames.
    sets_complete: int
    #: Sets that were over without some of their frames.
    sets_incomplete: int
    #: Frames that came again and were dropped.
    again: int
    #: Frames that came damaged and were asked for again.
    damaged: int
    #: Frames that came later than their deadline.
    late: int
    #: Frames that had a deadline.
    with_deadline: int
    #: Frames of which it is not known whether they were late, for want of a measured clock.
    deadline_unknown: int
    #: Links lost.
    outages: int
    #: Our clock against the hub's.
    clock: Clock | None
    #: The tail; ``None`` while nothing was measured.
    latency: Latency | None
    #: Frames that are not in the tail, because a clock was not measured yet.
    unmeasured: int

    @staticmethod
    def _of(told: dict[str, Any]) -> ReceiverFigures:
        latency = told["latency"]
        known = {"clock": _clock(told["clock"]), "latency": None if latency is None else Latency(**latency)}
        return ReceiverFigures(**{**told, **known})

    @property
    def lost_frames(self) -> int:
        """Frames named as lost, for any reason."""
        return sum(self.lost.values())


@dataclass(frozen=True)
class ConsumerReport:
    """What a consumer got, at its end."""

    #: The figures at the end.
    figures: ReceiverFigures
    #: Producers that finished.
    producers_finished: int
    #: Producers that went away without finishing.
    producers_gone: list[str] = field(hash=False)

    @staticmethod
    def _of(told: dict[str, Any]) -> ConsumerReport:
        figures = ReceiverFigures._of(told["figures"])
        return ConsumerReport(figures, told["producers_finished"], told["producers_gone"])


@dataclass(frozen=True)
class Lost:
    """Frames of one producer that this consumer does not get: told where they would have come."""

    #: Who made them.
    producer: str
    #: The sequence of the first of them.
    first: int
    #: The sequence after the last of them.
    end: int
    #: Why they do not come.
    reason: Reason

    def __len__(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class SetReport:
    """A set that is over."""

    #: Its number.
    set: int
    #: Frames that it should have.
    frames: int
    #: Frames of it that were delivered here.
    delivered: int
    #: Frames of it that the hub was given.
    taken: int
    #: Indexes that were not delivered, as ranges ``(first, end)``.
    missing: list[tuple[int, int]] = field(default_factory=list, hash=False)

    @property
    def is_complete(self) -> bool:
        """Whether all of it was delivered."""
        return not self.missing


class Frame:
    """A frame that came; its payload was held against its digest.

    ``numpy.asarray(frame)`` and ``frame.data`` look at its bytes where they are: nothing is copied, nothing can be written,
    and they keep them.
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(self, native: _thalweg.Frame) -> None:
        self._native = native

    @property
    def producer(self) -> str:
        """Who made it."""
        return self._native.producer

    @property
    def sequence(self) -> int:
        """Its number among the frames of its producer."""
        return self._native.sequence

    @property
    def set(self) -> tuple[int, int] | None:
        """Set that it belongs to, and its index there."""
        return self._native.set

    @property
    def time_ns(self) -> int:
        """When it was made, in nanoseconds since 1970 by its producer's clock."""
        return self._native.time_ns

    @property
    def deadline_ns(self) -> int | None:
        """Nanoseconds after :attr:`time_ns` in which it should be with its consumers; ``None`` without a deadline."""
        return self._native.deadline_ns

    @property
    def latency_ns(self) -> int | None:
        """From made to received, by the hub's clock; ``None`` without a measured clock."""
        return self._native.latency_ns

    @property
    def is_late(self) -> bool | None:
        """Whether it came later than its deadline; ``None`` without one, or without a measured clock."""
        deadline, latency = self.deadline_ns, self.latency_ns
        return None if deadline is None or latency is None else latency > deadline

    @property
    def dtype(self) -> str:
        """Type of an element, as NumPy writes it; ``"|u1"`` if none was said."""
        return self._native.dtype or "|u1"

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return tuple(self._native.shape) if self._native.dtype else (self._native.nbytes,)

    @property
    def metadata(self) -> bytes:
        """What the producer added."""
        return self._native.metadata

    @property
    def digest(self) -> str:
        """BLAKE3 of the payload: 64 hexadecimal digits."""
        return self._native.digest

    @property
    def nbytes(self) -> int:
        """Bytes of the payload."""
        return self._native.nbytes

    @property
    def data(self) -> memoryview:
        """The payload's bytes, which this keeps."""
        native = self._native
        if not native.nbytes:
            return memoryview(b"")
        # A buffer of the native type's own would be unsafe code, of which only crates/sys has any. The view holds this
        # array, and the array the payload.
        there = (ctypes.c_ubyte * native.nbytes).from_address(native.address)
        there._owner = native  # type: ignore[attr-defined]
        return memoryview(there).cast("B").toreadonly()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        place = (self._native.address, True)
        return {"version": 3, "shape": self._checked(), "typestr": self.dtype, "data": place, "strides": None}

    def _checked(self) -> tuple[int, ...]:
        """Its shape, if type and shape are those of its payload. A producer says both, and nobody else holds them against the
        payload: with a lie, or with a type that has addresses in it, whoever reads it by its address reads anything."""
        size, shape = _element_bytes(self.dtype), self.shape
        if size is None or size * math.prod(shape) != self.nbytes:
            text = f"{self.nbytes} bytes are no array of {self.dtype!r} with shape {shape}: `data` has the bytes"
            raise ValueError(text)
        return shape

    def __buffer__(self, flags: int, /) -> memoryview:
        # From Python 3.12 on NumPy asks this first.
        code = _NATIVE_CODES.get(self.dtype.lstrip(_NATIVE_ORDERS))
        if code is None or 0 in self.shape:
            raise BufferError(f"no buffer has elements of type {self.dtype!r}: `data` has the bytes")
        flat: Any = self.data
        shaped: memoryview = flat.cast(code, self._checked())
        return shaped

    def __bytes__(self) -> bytes:
        return bytes(self.data)

    def tobytes(self) -> bytes:
        """A copy of the payload."""
        return bytes(self.data)

    def __len__(self) -> int:
        return self._native.nbytes

    def __bool__(self) -> bool:
        # One without bytes came too: `while frame := receiver.next()` goes on.
        return True

    def __repr__(self) -> str:
        return f"<Frame {self.producer} {self.sequence}: {self.dtype} {self.shape}>"


#: What a receiver hands out, in order.
Delivery: TypeAlias = Frame | Lost | SetReport


_Options = TypeVar("_Options")


class _End(Generic[_Options]):
    """What gives frames to a channel or takes them."""

    _place: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self._place}>"

    @classmethod
    def reached(cls, place: Place, options: _Options, gives_up: _thalweg.GivingUp) -> Self:
        """One that may be given up from another thread while it reaches the channel."""
        made = cls.__new__(cls)
        made._reach(place, options, gives_up)
        return made

    def _reach(self, place: Place, options: _Options, gives_up: _thalweg.GivingUp | None) -> None:
        raise NotImplementedError


class Sender(_End[SenderOptions]):
    """Gives frames to a channel, in order. May be used from several threads.

    >>> with thalweg.Sender("tw://host/export/scan42", ticket="ticket") as sender:  # doctest: +SKIP
    ...     for number, image in enumerate(camera):
    ...         sender.push(image, set=(0, number))

    Leaving the block waits until the hub has everything; leaving it with an exception ends at once, and consumers are told
    that this producer is gone.

    Options: ``help(thalweg.SenderOptions)``.
    """

    def __init__(self, place: Place, **options: Unpack[SenderOptions]) -> None:
        self._reach(place, options, None)

    def _reach(self, place: Place, options: SenderOptions, gives_up: _thalweg.GivingUp | None) -> None:
        refuse_unknown(options, SenderOptions)
        asked = {
            "producer": options.get("producer"),
            "durable": options.get("durable", False),
            "slot": options.get("slot"),
            **_kept(options),
        }
        self._place = text_of(place)
        self._native = _thalweg.Sender(self._place, asked, reaching_of(options), gives_up)
        self._is_aborted = False

    @property
    def producer(self) -> str:
        """Its name."""
        return self._native.producer

    def push(
        self,
        data: Data,
        *,
        set: tuple[int, int] | None = None,
        time_ns: int | None = None,
        deadline_s: float | None = None,
        metadata: bytes = b"",
        timeout_s: float | None = None,
    ) -> int:
        """Gives a frame, and returns its sequence. It is kept here until the hub has it, and sent again after an outage.

        ``data``: ``bytes`` and frames that came are not copied; arrays and other buffers are, once, so that they are yours
        again when this returns. Type and shape travel with arrays. ``set``: a set that it belongs to, and its index there.
        ``time_ns``: when it was made, in nanoseconds since 1970; default: now. ``deadline_s``: seconds after that in which it
        should be with its consumers. ``metadata``: at most 32 KiB.

        Waits for room at most ``timeout_s`` seconds (``None``: as long as it takes); raises :class:`~thalweg.BusyError` then,
        and the frame was not taken. A hub that does not let this sender back in, for as long as its patience, is a
        :class:`~thalweg.ConnectionFailedError`: it is over.
        """
        payload, head = prepared(data, set, time_ns, deadline_s, metadata)
        return self._native.push(payload, head, timeout_s)

    def push_prepared(self, payload: _thalweg.Frame | bytes, head: dict[str, Any], timeout_s: float | None) -> int:
        """:meth:`push` of what :func:`prepared` made, which may be tried again."""
        return self._native.push(payload, head, timeout_s)

    def declare_set(self, set: int, frames: int) -> None:
        """Says that a set has so many frames (1 to 2^20), so that consumers are told whether they got all of it. Several
        producers may; a set that is not complete is over when all that declared it or gave frames of it have ended."""
        self._native.declare_set(whole("set", set, 0, U64_MAX), whole("frames", frames, 1, 1 << 20))

    def end_set(self, set: int) -> None:
        """Says that no more of a set comes from this sender, which goes on with others: of a scan that was aborted. It is
        over, and consumers are told what is missing, when all that declared it or gave frames of it have said so or ended,
        and the hub has what they gave before."""
        self._native.end_set(whole("set", set, 0, U64_MAX))

    @property
    def next_sequence(self) -> int:
        """The sequence of the next frame: so many the hub took before under this name, and this sender gave."""
        return self._native.next_sequence

    def finish(self, timeout_s: float | None = None) -> ProducerReport:
        """Says that no more will come, and waits until the hub has everything, at most ``timeout_s`` seconds. May be called
        again after :class:`~thalweg.BusyError`."""
        told = json.loads(self._native.finish(timeout_s))
        producer, end = told.pop("producer"), told.pop("sequence_end")
        return ProducerReport(producer, end, SenderFigures._of(told))

    def abort(self) -> None:
        """Ends at once. What the hub has not is lost with this sender."""
        self._is_aborted = True
        self._native.abort()

    @property
    def is_aborted(self) -> bool:
        """Whether it was ended at once."""
        return self._is_aborted

    def figures(self) -> SenderFigures:
        """Figures so far."""
        return SenderFigures._of(json.loads(self._native.figures()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or self._is_aborted:
            self.abort()
            return
        try:
            self.finish()
        except BaseException:
            self.abort()
            raise


class Receiver(_End[ReceiverOptions]):
    """Takes frames from a channel: an iterator over :class:`Frame`, :class:`Lost` and :class:`SetReport`, in order, until all
    producers have finished. May be used from several threads: each delivery goes to one of them.

    >>> with thalweg.Receiver("tw://host/export/scan42", ticket="ticket") as receiver:  # doctest: +SKIP
    ...     for what in receiver:
    ...         if isinstance(what, thalweg.Frame):
    ...             total += numpy.asarray(what)
    >>> receiver.report.figures.latency  # doctest: +SKIP

    Leaving the block leaves the channel. With a name the place is let go instead, and kept for who comes back; left with an
    exception, what was handed out last comes again.

    Options: ``help(thalweg.ReceiverOptions)``.
    """

    def __init__(self, place: Place, **options: Unpack[ReceiverOptions]) -> None:
        self._reach(place, options, None)

    def _reach(self, place: Place, options: ReceiverOptions, gives_up: _thalweg.GivingUp | None) -> None:
        refuse_unknown(options, ReceiverOptions)
        start = options.get("start", "first")
        if isinstance(start, str) and start not in ("first", "now"):
            raise ValueError(f"start={start!r}: first, now or a sequence")
        asked = {
            "policy": options.get("policy", "block"),
            "depth": whole("depth", options.get("depth", 0), 0, U32_MAX),
            "group": options.get("group"),
            "from_now": start == "now",
            "from_sequence": None if isinstance(start, str) else whole("start", start, 0, U64_MAX),
            "name": options.get("name"),
            "producers": whole("producers", options.get("producers", 1), 1, U32_MAX),
            "keep_s": seconds("keep_s", options.get("keep_s", 30.0), 0.0),
            "link_bits_per_s": whole("link_bits_per_s", options.get("link_bits_per_s"), 1, U64_MAX),
            **_kept(options),
        }
        #: What it got, once all producers have finished or it was closed.
        self.report: ConsumerReport | None = None
        self._place = text_of(place)
        self._native = _thalweg.Receiver(self._place, asked, reaching_of(options), gives_up)
        # What was handed out is taken when more is asked for.
        self._settles = asked["name"] is not None
        if self._settles:
            self._native.hold()

    def next(self, timeout_s: float | None = None) -> Delivery | None:
        """What comes next, waiting at most ``timeout_s`` seconds (``None``: as long as it takes). ``None``: nothing came in
        time, or nothing follows; then :attr:`report` is there."""
        return self.take(timeout_s, None)

    def take(self, timeout_s: float | None, gives_up: _thalweg.GivingUp | None) -> Delivery | None:
        """:meth:`next`, which may be given up from another thread: then nothing came."""
        if self.report is not None:
            return None
        self._settle_handed_out()
        told = self._native.next(timeout_s, gives_up)
        if told is None:
            return None
        if not isinstance(told, str):
            return Frame(told)
        event = json.loads(told)
        kind = event.pop("event")
        if kind == "lost":
            return Lost(**event)
        if kind == "set":
            return SetReport(**{**event, "missing": [(first, end) for first, end in event["missing"]]})
        self.report = ConsumerReport._of(event)
        self._settle_handed_out()
        return None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        while self.report is None:
            delivery = self.next()
            if delivery is not None:
                return delivery
        raise StopIteration

    def figures(self) -> ReceiverFigures:
        """Figures so far."""
        return ReceiverFigures._of(json.loads(self._native.figures()))

    def hold(self) -> None:
        """From now on what is handed out is taken only with :meth:`settle`: for who puts away many at a time, or takes in several
        threads. At most as much as ``window_bytes`` may be in hand. The end must be settled too."""
        self._settles = False
        self._native.hold()

    def settle(self) -> None:
        """All that was handed out so far is taken: the hub need not keep it any more."""
        self._native.settle()

    def let_go(self) -> ConsumerReport:
        """Ends, and leaves its place to who comes back under its name within ``keep_s``, with all that was not taken. Without a
        name, or at its end, it leaves the channel. Returns what it got."""
        return self._ended(self._native.let_go())

    def close(self) -> ConsumerReport:
        """Leaves the channel: nothing is kept for it. Returns what it got."""
        self._settle_handed_out()
        return self._ended(self._native.close())

    def leave_block(self, is_taken: bool) -> None:
        """The end of a block; ``is_taken``: so is what was handed out last."""
        if is_taken:
            self._settle_handed_out()
        self.let_go()

    def _settle_handed_out(self) -> None:
        if self._settles:
            self._native.settle()

    def _ended(self, told: str) -> ConsumerReport:
        report = ConsumerReport._of(json.loads(told))
        if self.report is None:
            self.report = report
        return self.report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.leave_block(kind is None)
        except Error:
            # Whoever leaves early does not ask how it ended.
            pass


class Hub:
    """A hub of channels inside this process, with new keys: who has its ticket may use it. Without one, ``thalweg serve`` is
    the hub.

    >>> with thalweg.Hub("/scratch/hub", "ticket", listen="0.0.0.0:0") as hub:  # doctest: +SKIP
    ...     receiver = thalweg.Receiver(hub.place("scan42"), ticket="ticket")

    ``directory``: where spill logs go, and what is served as the export ``hub``. ``ticket``: what clients need is written
    there, readable by this user only. ``listen``: one address with its port or several; port 0: the kernel chooses.
    ``memory_bytes_max``: what all channels together may hold in memory; as much again is for what is under way from producers and
    to consumers. Default: 1 GiB.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        ticket: str | os.PathLike[str],
        *,
        listen: str | Sequence[str] = "127.0.0.1:0",
        memory_bytes_max: int | None = None,
    ) -> None:
        addresses = [listen] if isinstance(listen, str) else list(listen)
        memory = whole("memory_bytes_max", memory_bytes_max, 0, U64_MAX)
        self._native = _thalweg.Hub(directory, ticket, addresses, memory)

    @property
    def addresses(self) -> list[str]:
        """Where it listens."""
        return self._native.addresses()

    def place(self, channel: str) -> str:
        """The place of a channel, for who has the ticket."""
        return self._native.place(channel)

    def stop(self) -> None:
        """Ends it in order. What it held in memory is gone; recorded channels stay in the directory."""
        self._native.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Kept(TypedDict):
    window_bytes: int
    streams: int | None
    channel: dict[str, Any]


def _kept(options: ChannelOptions) -> _Kept:
    return {
        "window_bytes": whole("window_bytes", options.get("window_bytes", 64 << 20), *WINDOW_BYTES),
        "streams": whole("streams", options.get("streams"), *STREAMS),
        "channel": {
            "memory_bytes": whole("memory_bytes", options.get("memory_bytes"), 0, U64_MAX),
            "spill_bytes": whole("spill_bytes", options.get("spill_bytes"), 0, U64_MAX),
            "recorded": options.get("recorded", False),
            "unattended": options.get("unattended", False),
        },
    }


def _clock(told: dict[str, int] | None) -> Clock | None:
    return None if told is None else Clock(**told)


#: Types of NumPy whose elements are what their bytes say, and how many bytes a number behind the letter stands for.
_PLAIN = re.compile(r"[<>|=]?(?:([biufcSV])([1-9][0-9]{0,8})|(U)([1-9][0-9]{0,8})|([mM])8(?:\[[0-9A-Za-z/]*\])?)", re.ASCII)


def _element_bytes(dtype: str) -> int | None:
    """Bytes of an element; ``None`` for a type that is not known, or that is none for bytes from elsewhere."""
    found = _PLAIN.fullmatch(dtype)
    if found is None:
        return None
    plain, size, _, letters, _ = found.groups()
    return int(size) if plain else 4 * int(letters) if letters else 8


#: Elements as the buffer protocol has them, and the marks in front of those that are in this machine's order.
_NATIVE_CODES = {"b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}
_NATIVE_CODES |= {"f4": "f", "f8": "d"}
_NATIVE_ORDERS = "|=<" if sys.byteorder == "little" else "|=>"
#: How the buffer protocol names elements, and how NumPy does.
_NATIVE_KINDS = {"b": "i", "h": "i", "i": "i", "l": "i", "q": "i", "n": "i", "e": "f", "f": "f", "d": "f", "?": "b"}
_NATIVE_KINDS |= {"B": "u", "H": "u", "I": "u", "L": "u", "Q": "u", "N": "u", "c": "S"}
#: The orders of bytes that stand in front of them, as NumPy writes them.
_OWN_ORDER = "<" if sys.byteorder == "little" else ">"
_ORDERS = {"@": _OWN_ORDER, "=": _OWN_ORDER, "<": "<", ">": ">", "!": ">"}
#: The longest deadline: what nanoseconds in 64 bits hold.
_DEADLINE_S_MAX = 18e9


def prepared(
    data: Data, set: tuple[int, int] | None, time_ns: int | None, deadline_s: float | None, metadata: bytes
) -> tuple[_thalweg.Frame | bytes, dict[str, Any]]:
    """A frame as the native part takes it."""
    payload, dtype, shape = _payload(data)
    if set is not None:
        set = (whole("set", set[0], 0, U64_MAX), whole("index in the set", set[1], 0, U32_MAX))
    deadline_s = seconds("deadline_s", deadline_s, 0.0, _DEADLINE_S_MAX)
    head = {
        "set": set,
        "time_ns": time.time_ns() if time_ns is None else whole("time_ns", time_ns, 0, U64_MAX),
        "deadline_ns": None if deadline_s is None else int(deadline_s * 1e9),
        "dtype": dtype,
        "shape": list(shape),
        "metadata": metadata,
    }
    return payload, head


def _payload(data: Data) -> tuple[_thalweg.Frame | bytes, str, Sequence[int]]:
    """What travels, its type and shape."""
    if isinstance(data, bytes):
        return data, "", ()
    if isinstance(data, Frame):
        native = data._native
        return native, native.dtype, native.shape
    if isinstance(data, Array):
        told = data.__array_interface__
        dtype, shape = told["typestr"], told["shape"]
        size = _element_bytes(dtype)
        # Of records only the bytes would travel.
        if size is None or "V" in dtype:
            raise TypeError(f"elements of type {dtype} mean nothing elsewhere: push bytes")
        if told.get("mask") is not None or getattr(data, "mask", None) is not None:
            raise TypeError("a mask does not travel with an array: push what `filled()` returns, and the mask by itself")
        content = data.tobytes()
        if len(content) != size * math.prod(shape):
            raise TypeError(f"{len(content)} bytes are no array of {dtype} with shape {shape}: push bytes")
        return content, dtype, shape
    view = memoryview(data)
    order, code = _ORDERS.get(view.format[:1]), view.format[1:]
    if order is None:
        order, code = _OWN_ORDER, view.format
    kind = _NATIVE_KINDS.get(code)
    if kind is None:
        raise TypeError(f"elements of format {view.format!r} are not known: push bytes")
    order = "|" if view.itemsize == 1 else order
    return view.tobytes(), f"{order}{kind}{view.itemsize}", view.shape or ()


document(SenderOptions, ChannelOptions, Reaching, Asking)
document(ReceiverOptions, ChannelOptions, Reaching, Asking)
for _one in (Clock, Latency, SenderFigures, ProducerReport, ReceiverFigures, ConsumerReport, Lost, SetReport):
    document(_one)
