"""The same as coroutines.

>>> report = await thalweg.aio.copy("run7", "tw://host/data/")  # doctest: +SKIP
>>> async with thalweg.aio.transfer("run7", "tw://host/data/") as copying:  # doctest: +SKIP
...     async for event in copying:
...         print(event)
>>> report = await copying.report()  # doctest: +SKIP

A task that is cancelled stops its work in order, and the cancellation goes on when it has ended; the same call resumes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack

from thalweg import _copy, _frames, _predict, _stream, _thalweg, _work
from thalweg._copy import Checked, CopyOptions, Receipt, Report, Verified
from thalweg._frames import (
    ConsumerReport,
    Data,
    Delivery,
    ProducerReport,
    ReceiverFigures,
    ReceiverOptions,
    SenderFigures,
    SenderOptions,
    prepared,
)
from thalweg._predict import Predicted, PredictOptions
from thalweg._stream import End, StreamOptions, StreamReport
from thalweg._work import STEP_S, Asking, Event, Name, Place, R, listens
from thalweg.errors import BusyError, Error, StoppedError

__all__ = [
    "Receiver",
    "Sender",
    "Streaming",
    "Transfer",
    "Underway",
    "check",
    "copy",
    "predict",
    "read_receipt",
    "stream",
    "streaming",
    "sync",
    "transfer",
    "verify",
]

_T = TypeVar("_T")

#: Threads that wait, at most: one for each wait under way. What is beyond takes turns with the others, a step each.
_THREADS_MAX = 512
#: The longest step of a wait for frames, in seconds, which may be given up in between.
_FRAMES_STEP_S = 1.0

#: The threads of this process that wait: not the loop's own, of which there are few, and which look up names for it. A thread
#: begins when no other is free, and the interpreter ends them on its way out.
_threads: ThreadPoolExecutor | None = None


def _waiting_threads() -> ThreadPoolExecutor:
    global _threads
    if _threads is None:
        _threads = ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="thalweg-aio")
    return _threads


def _forget_threads() -> None:
    global _threads
    _threads = None


# A fork has none of them.
os.register_at_fork(after_in_child=_forget_threads)


async def to_its_end(work: Callable[[], _T], give_up: Callable[[], object] | None = None) -> _T:
    """Waits for what holds up no event loop and cannot be interrupted; a cancellation comes through behind it. ``give_up``
    makes it end soon then."""
    running = asyncio.get_running_loop().run_in_executor(_waiting_threads(), work)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            # However often: it goes on when the work has ended.
            cancelled = error
            if give_up is not None:
                give_up()
    if cancelled is None:
        return running.result()
    if not running.cancelled():
        # Nobody asks any more how it ended.
        running.exception()
    raise cancelled


async def _given_up(work: Callable[[_thalweg.GivingUp], _T]) -> _T:
    """The same for what can be given up."""
    gives_up = _thalweg.GivingUp()
    return await to_its_end(lambda: work(gives_up), gives_up.give_up)


class Underway(Generic[R]):
    """Work under way: an async iterator over its events, and an async context manager that stops it on the way out. An iteration
    that is taken up again goes on where the one before it ended."""

    def __init__(self, inner: _work.Underway[R]) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while (event := self._inner.handed_out()) is None:
            if not await to_its_end(self._inner.gather):
                raise StopAsyncIteration
        return event

    def stop(self) -> None:
        """Asks it to stop in order; does not wait. The same call resumes."""
        self._inner.stop()

    async def report(self) -> R:
        """Waits for its end, and says what it did; raises what failed."""
        try:
            async for _ in self:
                pass
        except BaseException:
            self._inner.stop()
            raise
        return await to_its_end(self._inner.report)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner.stop()
        await to_its_end(lambda: self._inner.__exit__(kind, error, trace))


class Moving(Underway[R]):
    """Work under way that sends content."""

    def __init__(self, inner: _work.Moving[R]) -> None:
        super().__init__(inner)
        self._moving = inner

    def limit(self, bwlimit: str | None) -> None:
        """As :meth:`thalweg.Transfer.limit`."""
        self._moving.limit(bwlimit)


class Transfer(Moving[Report]):
    """A copy under way; as :class:`thalweg.Transfer`."""


class Streaming(Moving[StreamReport]):
    """A stream under way; as :class:`thalweg.Streaming`."""


async def drive(work: Underway[R], on_event: Callable[[Event], object] | None) -> R:
    """To its end; the listener is called on the event loop's thread."""
    async with work:
        async for event in work:
            if on_event is not None:
                on_event(event)
        return await work.report()


def transfer(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    delete: bool = False,
    max_delete: int = 1000,
    remove_source_files: bool = False,
    **options: Unpack[CopyOptions],
) -> Transfer:
    """Begins a copy; as :func:`thalweg.transfer`."""
    return Transfer(
        _copy.start(
            source,
            destination,
            options,
            delete=delete,
            max_delete=max_delete,
            remove_source_files=remove_source_files,
        )
    )


async def copy(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    remove_source_files: bool = False,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[CopyOptions],
) -> Report:
    """As :func:`thalweg.copy`; ``on_event`` is called on the event loop's thread."""
    tells = listens(on_event)
    copying = _copy.start(source, destination, options, remove_source_files=remove_source_files, tells=tells)
    return await drive(Transfer(copying), on_event)


async def sync(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    delete: bool = False,
    max_delete: int = 1000,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[CopyOptions],
) -> Report:
    """As :func:`thalweg.sync`."""
    tells = listens(on_event)
    copying = _copy.start(source, destination, options, delete=delete, max_delete=max_delete, tells=tells)
    return await drive(Transfer(copying), on_event)


async def verify(
    receipt: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    place: Place,
    *,
    strict: bool = False,
    sender: Sequence[str] = (),
    receiver: Sequence[str] = (),
    keys: Sequence[str] = (),
    on_event: Callable[[Event], object] | None = None,
    **reaching: Unpack[Asking],
) -> Verified:
    """As :func:`thalweg.verify`."""
    listens(on_event)
    expected = (keys, sender, receiver)
    return await drive(Underway(_copy.start_verify(receipt, place, strict, expected, reaching)), on_event)


async def read_receipt(
    receipt: str | os.PathLike[str],
    *,
    as_b3sum: str | os.PathLike[str] | None = None,
    sender: Sequence[str] = (),
    receiver: Sequence[str] = (),
    keys: Sequence[str] = (),
) -> Receipt:
    """As :func:`thalweg.read_receipt`."""
    expected = (keys, sender, receiver)
    return await _given_up(lambda gives_up: _copy.read(receipt, as_b3sum, expected, gives_up))


async def check(
    source: Place,
    destination: Place | None = None,
    *,
    sums: str | os.PathLike[str] | None = None,
    devices: bool = False,
    copy_links: bool = False,
    part: tuple[int, int] | None = None,
    filter: Sequence[str] = (),
    files_from: Iterable[Name] | None = None,
    on_event: Callable[[Event], object] | None = None,
    **reaching: Unpack[Asking],
) -> Checked:
    """As :func:`thalweg.check`."""
    listens(on_event)
    checking = _copy.start_check(source, destination, sums, devices, copy_links, part, filter, files_from, reaching)
    return await drive(Underway(checking), on_event)


async def predict(source: Place, destination: Place, **options: Unpack[PredictOptions]) -> Predicted:
    """As :func:`thalweg.predict`."""
    return await _given_up(lambda gives_up: _predict.asked(source, destination, options, gives_up))


def streaming(source: End, destination: End, **options: Unpack[StreamOptions]) -> Streaming:
    """Begins a stream; as :func:`thalweg.streaming`."""
    return Streaming(_stream.start(source, destination, options))


async def stream(
    source: End,
    destination: End,
    *,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[StreamOptions],
) -> StreamReport:
    """As :func:`thalweg.stream`."""
    return await drive(Streaming(_stream.start(source, destination, options, tells=listens(on_event))), on_event)


async def _in_steps(step: Callable[[float], _T], timeout_s: float | None) -> _T:
    """Tries until it is no longer busy; the last word on it is raised."""
    until = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left = STEP_S if until is None else min(STEP_S, max(0.0, until - time.monotonic()))
        try:
            return await to_its_end(lambda: step(left))
        except BusyError:
            if until is not None and time.monotonic() >= until:
                raise


class _End(Generic[_T]):
    """What gives frames to a channel or takes them; the channel is reached on entry."""

    def __init__(self, reached: Callable[[_thalweg.GivingUp], _T]) -> None:
        self._reached = reached
        self._inner: _T | None = None

    def _there(self) -> _T:
        if self._inner is None:
            text = "the channel is reached on entry: `async with`"
            raise StoppedError(text, kind="stopped", operation="use a channel")
        return self._inner

    async def __aenter__(self) -> Self:
        self._inner = await _given_up(self._reached)
        return self


class Sender(_End[_frames.Sender]):
    """As :class:`thalweg.Sender`; the channel is reached on entry.

    >>> async with thalweg.aio.Sender("tw://host/export/scan42") as sender:  # doctest: +SKIP
    ...     await sender.push(image)

    A push that is cancelled may have been taken.
    """

    def __init__(self, place: Place, **options: Unpack[SenderOptions]) -> None:
        super().__init__(lambda gives_up: _frames.Sender.reached(place, options, gives_up))

    @property
    def producer(self) -> str:
        """Its name."""
        return self._there().producer

    async def push(
        self,
        data: Data,
        *,
        set: tuple[int, int] | None = None,
        time_ns: int | None = None,
        deadline_s: float | None = None,
        metadata: bytes = b"",
        timeout_s: float | None = None,
    ) -> int:
        """As :meth:`thalweg.Sender.push`."""
        inner = self._there()
        payload, head = prepared(data, set, time_ns, deadline_s, metadata)
        return await _in_steps(lambda left: inner.push_prepared(payload, head, left), timeout_s)

    async def declare_set(self, set: int, frames: int) -> None:
        """As :meth:`thalweg.Sender.declare_set`."""
        inner = self._there()
        await to_its_end(lambda: inner.declare_set(set, frames))

    async def end_set(self, set: int) -> None:
        """As :meth:`thalweg.Sender.end_set`."""
        inner = self._there()
        await to_its_end(lambda: inner.end_set(set))

    @property
    def next_sequence(self) -> int:
        """As :attr:`thalweg.Sender.next_sequence`."""
        return self._there().next_sequence

    async def finish(self, timeout_s: float | None = None) -> ProducerReport:
        """As :meth:`thalweg.Sender.finish`."""
        return await _in_steps(self._there().finish, timeout_s)

    def abort(self) -> None:
        """As :meth:`thalweg.Sender.abort`."""
        self._there().abort()

    def figures(self) -> SenderFigures:
        """Figures so far."""
        return self._there().figures()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        inner = self._there()
        try:
            if kind is None and not inner.is_aborted:
                await self.finish()
        finally:
            # Of one that has finished nothing is left to end.
            await to_its_end(inner.abort)


class Receiver(_End[_frames.Receiver]):
    """As :class:`thalweg.Receiver`, an async iterator; the channel is reached on entry. Cancelling a task loses nothing: what
    had come is handed out next. For one task at a time."""

    def __init__(self, place: Place, **options: Unpack[ReceiverOptions]) -> None:
        super().__init__(lambda gives_up: _frames.Receiver.reached(place, options, gives_up))
        #: What came, and was not handed out yet.
        self._kept: deque[Delivery] = deque()

    @property
    def report(self) -> ConsumerReport | None:
        """What it got, once all producers have finished or it was closed."""
        return self._there().report

    async def next(self, timeout_s: float | None = None) -> Delivery | None:
        """As :meth:`thalweg.Receiver.next`."""
        inner = self._there()
        until = None if timeout_s is None else time.monotonic() + timeout_s

        def take(gives_up: _thalweg.GivingUp) -> None:
            left = _FRAMES_STEP_S if until is None else min(_FRAMES_STEP_S, max(0.0, until - time.monotonic()))
            delivery = inner.take(left, gives_up)
            if delivery is not None:
                self._kept.append(delivery)

        while not self._kept and inner.report is None:
            await _given_up(take)
            if until is not None and time.monotonic() >= until:
                break
        return self._kept.popleft() if self._kept else None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        inner = self._there()
        while inner.report is None or self._kept:
            delivery = await self.next()
            if delivery is not None:
                return delivery
        raise StopAsyncIteration

    def figures(self) -> ReceiverFigures:
        """Figures so far."""
        return self._there().figures()

    def hold(self) -> None:
        """As :meth:`thalweg.Receiver.hold`."""
        self._there().hold()

    def settle(self) -> None:
        """As :meth:`thalweg.Receiver.settle`; after a wait that was cancelled, when what had come then was handed out."""
        if not self._kept:
            self._there().settle()

    async def let_go(self) -> ConsumerReport:
        """As :meth:`thalweg.Receiver.let_go`."""
        return await to_its_end(self._there().let_go)

    async def close(self) -> ConsumerReport:
        """As :meth:`thalweg.Receiver.close`."""
        return await to_its_end(self._there().close)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        inner = self._there()
        # One that came to a wait that was cancelled was not handed out.
        is_taken = kind is None and not self._kept
        try:
            await to_its_end(lambda: inner.leave_block(is_taken))
        except Error:
            # Whoever leaves early does not ask how it ended.
            pass
