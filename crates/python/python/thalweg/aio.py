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
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack

from thalweg import _copy, _stream, _work
from thalweg._copy import CopyOptions, Report, Verified
from thalweg._stream import End, StreamOptions, StreamReport
from thalweg._work import STEP_S, Event, Place, R, Reaching

__all__ = ["Streaming", "Transfer", "Underway", "copy", "stream", "streaming", "sync", "transfer", "verify"]

_T = TypeVar("_T")


async def to_its_end(work: Callable[[], _T]) -> _T:
    """Waits for what holds up no event loop and cannot be interrupted; a cancellation comes through behind it."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


class Underway(Generic[R]):
    """Work under way: an async iterator over its events, and an async context manager that stops it on the way out."""

    def __init__(self, inner: _work.Underway[R]) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (events := await to_its_end(lambda: self._inner.events(STEP_S))) is not None:
            for event in events:
                yield event

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


class Transfer(Underway[Report]):
    """A copy under way; as :class:`thalweg.Transfer`."""


class Streaming(Underway[StreamReport]):
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
    delete_max: int | None = None,
    **options: Unpack[CopyOptions],
) -> Transfer:
    """Begins a copy; as :func:`thalweg.transfer`."""
    return Transfer(_copy.start(source, destination, options, delete_max=delete_max))


async def copy(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[CopyOptions],
) -> Report:
    """As :func:`thalweg.copy`; ``on_event`` is called on the event loop's thread."""
    return await drive(transfer(source, destination, **options), on_event)


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
    delete_max = max_delete if delete else None
    return await drive(transfer(source, destination, delete_max=delete_max, **options), on_event)


async def verify(
    receipt: str | os.PathLike[str],
    place: Place,
    *,
    strict: bool = False,
    keys: Sequence[str] = (),
    on_event: Callable[[Event], object] | None = None,
    **reaching: Unpack[Reaching],
) -> Verified:
    """As :func:`thalweg.verify`."""
    return await drive(Underway(_copy.start_verify(receipt, place, strict, keys, reaching)), on_event)


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
    return await drive(streaming(source, destination, **options), on_event)
