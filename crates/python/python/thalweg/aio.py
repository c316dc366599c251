"""The same as coroutines.

>>> report = await thalweg.aio.copy("run7", "tw://host/data/")  # doctest: +SKIP
>>> async with thalweg.aio.transfer("run7", "tw://host/data/") as copying:  # doctest: +SKIP
...     async for event in copying:
...         print(event)
>>> report = await copying.report()  # doctest: +SKIP

A task that is cancelled stops its copy in order, and the cancellation goes on when it has ended; the same call resumes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import TypeVar, Unpack

from thalweg import _work
from thalweg._work import STEP_S, CopyOptions, Event, Place, Reaching, Report, Verified

__all__ = ["Transfer", "copy", "sync", "transfer", "verify"]

_T = TypeVar("_T")


async def _to_its_end(work: Callable[[], _T]) -> _T:
    """Waits for what holds up no event loop and cannot be interrupted; a cancellation comes through behind it."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


class Transfer:
    """A copy under way: an async iterator over its events, and an async context manager that stops it on the way out."""

    def __init__(self, inner: _work.Transfer) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (events := await _to_its_end(lambda: self._inner.events(STEP_S))) is not None:
            for event in events:
                yield event

    def stop(self) -> None:
        """Asks it to stop in order; does not wait. The same copy resumes."""
        self._inner.stop()

    async def report(self) -> Report:
        """As :meth:`thalweg.Transfer.report`."""
        try:
            async for _ in self:
                pass
        except BaseException:
            self._inner.stop()
            raise
        return await _to_its_end(self._inner.report)

    async def __aenter__(self) -> Transfer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner.stop()
        await _to_its_end(lambda: self._inner.__exit__(kind, error, trace))


def transfer(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    entries: bool = False,
    progress_s: float = 1.0,
    check_entries: bool = True,
    delete_max: int | None = None,
    **options: Unpack[CopyOptions],
) -> Transfer:
    """Begins a copy; as :func:`thalweg.transfer`."""
    return Transfer(
        _work.start(
            source,
            destination,
            entries=entries,
            progress_s=progress_s,
            check_entries=check_entries,
            delete_max=delete_max,
            **options,
        )
    )


async def copy(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    on_event: Callable[[Event], object] | None = None,
    entries: bool = False,
    progress_s: float = 1.0,
    check_entries: bool = True,
    **options: Unpack[CopyOptions],
) -> Report:
    """As :func:`thalweg.copy`; ``on_event`` is called on the event loop's thread."""
    copying = transfer(
        source,
        destination,
        entries=entries,
        progress_s=progress_s,
        check_entries=check_entries,
        **options,
    )
    return await _drive(copying, on_event)


async def sync(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    delete: bool = False,
    max_delete: int = 1000,
    on_event: Callable[[Event], object] | None = None,
    entries: bool = False,
    progress_s: float = 1.0,
    check_entries: bool = True,
    **options: Unpack[CopyOptions],
) -> Report:
    """As :func:`thalweg.sync`."""
    copying = transfer(
        source,
        destination,
        entries=entries,
        progress_s=progress_s,
        check_entries=check_entries,
        delete_max=max_delete if delete else None,
        **options,
    )
    return await _drive(copying, on_event)


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
    work = _work.start_verify(receipt, place, strict=strict, keys=keys, **reaching)
    findings: list[Event] = []
    try:
        while (events := await _to_its_end(lambda: work.wait(STEP_S))) is not None:
            _work.take_findings(events, findings, on_event)
    except BaseException:
        work.stop()
        raise
    return _work.verified_of(await _to_its_end(work.result), findings)


async def _drive(copying: Transfer, on_event: Callable[[Event], object] | None) -> Report:
    async with copying:
        async for event in copying:
            if on_event is not None:
                on_event(event)
        return await copying.report()
