"""Streams of what is still being made: what :mod:`thalweg` and :mod:`thalweg.aio` share."""

from __future__ import annotations

import io
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, Unpack, runtime_checkable

from thalweg import _thalweg
from thalweg._docs import document
from thalweg._work import (
    STREAMS,
    U64_MAX,
    WINDOW_BYTES,
    Asking,
    Event,
    Finished,
    Moving,
    Place,
    Reaching,
    SlotReport,
    Watching,
    drive,
    dscp_of,
    listens,
    reaching_of,
    refuse_unknown,
    seconds,
    text_of,
    whole,
)
from thalweg.errors import concluded


@runtime_checkable
class HasDescriptor(Protocol):
    """An open file, pipe or socket."""

    def fileno(self) -> int: ...


#: A place, or a pipe: an open file (of ``open``, ``tempfile``, ``subprocess``), a socket, or the number of a descriptor. It is
#: duplicated, and stays yours to close. Of an open file what was written to it before goes first, and what was read of it
#: before is not streamed, where it can be told. A file that compresses, or makes other bytes of its own, is refused.
End: TypeAlias = Place | HasDescriptor | int


class StreamOptions(Reaching, Watching, total=False):
    """What a stream goes by, beyond its ends."""

    #: Files are complete when nobody has them open for writing. This is the default; in a directory each file is
    #: complete then in any case.
    until_closed: bool
    #: All is complete when nothing grew, and nothing new came, for so many seconds.
    until_idle_s: float | None
    #: The file is complete when it has so many bytes.
    until_bytes: int | None
    #: All is complete when there is a file of this name beside the file, or in the directory; it is not sent.
    until_marker: str | None
    #: Never complete: go on until it is stopped.
    follow: bool
    #: Wait for a source that is not there yet.
    wait: bool
    #: Look every so many seconds, and do not go by the file system's events (which network file systems lack).
    poll_s: float | None
    #: Read each file again as a whole before it is said to be complete: one whose writer changed what was sent fails, also
    #: where that changed while the file went on growing.
    recheck: bool
    #: Bytes that are kept in memory until they are durable at the destination, 64 KiB to 256 MiB: a producer that is
    #: faster waits. Default: 64 MiB.
    buffer_bytes: int
    #: Seconds between two marks, up to 60: how late a byte may become durable. Default: 0.1.
    mark_every_s: float
    #: Send no faster than this, with its unit: ``"500Mbit/s"``, ``"50MB/s"``.
    bwlimit: str | None
    #: Mark the packets of both sides: a number from 0 to 63, or ``"EF"``, ``"AF11"``, ``"CS1"``, ``"LE"``, ... Default: none.
    dscp: int | str | None
    #: TCP connections, 1 to 256. Default: by round trip and cores, at most 4.
    streams: int | None
    #: Send in a slot of the daemon: ``"PERIOD:BYTES:DEADLINE"``, for instance ``"1s:20MB:300ms"``, or ``"RATE:DEADLINE"``, for
    #: instance ``"100Mbit/s:300ms"``. What cannot be promised raises :class:`~thalweg.BusyError`, with by how much it does not
    #: fit or what would. Marks are made at least ten times in a deadline.
    slot: str | None
    #: Write what both sides signed, and a line for each file, to this file.
    receipt: str | os.PathLike[str] | None
    #: Write how each file ended, as JSON lines, to this file, behind what is in it.
    report: str | os.PathLike[str] | None
    #: Whether files that fail raise :class:`~thalweg.PartialError`; otherwise they are only in the report. Default: yes.
    check_entries: bool


@dataclass(frozen=True, kw_only=True)
class StreamReport(Finished):
    """What a stream did. Sizes are in bytes, times in seconds."""

    #: Files, or pipes, that are complete.
    files_complete: int
    #: Files that failed.
    files_failed: int
    #: Content bytes that are durable, or delivered to a pipe.
    bytes: int
    #: Pieces that came damaged and were sent again.
    pieces_repaired: int

    @property
    def failed(self) -> int:
        """Files that failed, as reports of copies have it."""
        return self.files_failed

    @property
    def slot(self) -> SlotReport | None:
        """What its slot promised and what was kept, if it had one."""
        return SlotReport._of(self.details)


class Streaming(Moving[StreamReport]):
    """A stream under way: an iterator over its events, and a context manager that stops it on the way out. What was read
    becomes durable before it stops."""


def start(source: End, destination: End, options: StreamOptions, *, tells: bool = True) -> Streaming:
    refuse_unknown(options, StreamOptions)
    ends = [_end(source), _end(destination)]
    asked = {
        "until_closed": options.get("until_closed", False),
        "until_idle_s": seconds("until_idle_s", options.get("until_idle_s"), 0.0),
        "until_bytes": whole("until_bytes", options.get("until_bytes"), 0, U64_MAX),
        "until_marker": options.get("until_marker"),
        "follow": options.get("follow", False),
        "wait": options.get("wait", False),
        "poll_s": seconds("poll_s", options.get("poll_s"), 0.0),
        "recheck": options.get("recheck", False),
        "buffer_bytes": whole("buffer_bytes", options.get("buffer_bytes", 64 << 20), *WINDOW_BYTES),
        "mark_every_s": seconds("mark_every_s", options.get("mark_every_s", 0.1), 0.0, 60.0),
        "bwlimit": options.get("bwlimit"),
        "dscp": dscp_of(options.get("dscp")),
        "streams": whole("streams", options.get("streams"), *STREAMS),
        "slot": options.get("slot"),
        "receipt": options.get("receipt"),
        "report": options.get("report"),
        "entries": options.get("entries", False),
        "tells": tells,
    }
    checks, progress_s = options.get("check_entries", True), seconds("progress_s", options.get("progress_s", 1.0), 0.0)
    places, pipes = (ends[0][0], ends[1][0]), (ends[0][1], ends[1][1])
    work = _thalweg.stream(places, pipes, asked, reaching_of(options))
    # A pipe has no name.
    named = [place for place, pipe in zip(places, pipes, strict=True) if pipe is None]
    return Streaming(work, lambda told: concluded(StreamReport._of, told, checks), progress_s, places=(named, None))


def streaming(source: End, destination: End, **options: Unpack[StreamOptions]) -> Streaming:
    """Begins a stream and returns at once; see :class:`Streaming` and :func:`stream`."""
    return start(source, destination, options)


def stream(
    source: End,
    destination: End,
    *,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[StreamOptions],
) -> StreamReport:
    """Moves bytes as they are written: of a pipe, of a file that grows, of all files in a directory; returns when the source
    is complete and all of it is verified and durable (or delivered, where the destination is a pipe).

    Either end is a place, or a pipe (an open file or a descriptor, which stays yours to close). Without ``until_...`` a file
    is complete when nobody has it open for writing. Further options: ``help(thalweg.StreamOptions)``
    (docs/guide/streaming.md).

    Raises :class:`~thalweg.Error`, of a class by its kind. On Ctrl-C what was read becomes durable first; the same call
    goes on.
    """
    return drive(start(source, destination, options, tells=listens(on_event)), on_event)


def _end(end: End) -> tuple[str, int | None]:
    if isinstance(end, int):
        return "-", end
    if isinstance(end, HasDescriptor):
        if not _is_of_descriptor(end):
            kind = f"{type(end).__module__}.{type(end).__qualname__}"
            text = f"what {kind} reads or writes may be other bytes than its descriptor's: pass the descriptor, `fileno()`"
            raise TypeError(f"{text}, if those are meant")
        number = end.fileno()
        _settle(end, number)
        return "-", number
    # The program's name for a pipe is here the name of a file.
    return ("./-" if end == "-" else text_of(end)), None


def _is_of_descriptor(end: object) -> bool:
    """Whether the bytes that it reads or writes are those of its descriptor. One that compresses has a descriptor too."""
    if isinstance(end, tempfile.SpooledTemporaryFile):
        # In memory it has no descriptor.
        end.rollover()
        end = end._file
    elif isinstance(end, tempfile._TemporaryFileWrapper):
        end = end.file
    if isinstance(end, io.TextIOWrapper):
        end = end.buffer
    if isinstance(end, io.BufferedReader | io.BufferedWriter | io.BufferedRandom):
        end = end.raw
    return isinstance(end, io.FileIO | socket.SocketIO | socket.socket)


def _settle(end: HasDescriptor, number: int) -> None:
    """Puts the descriptor of an open file where the file is for who used it before: what waits in Python's memory to be
    written is written, and what was read ahead is left to be read again."""
    flush = getattr(end, "flush", None)
    if callable(flush):
        flush()
    seekable = getattr(end, "seekable", None)
    if not callable(seekable) or not seekable():
        return
    position: int = end.tell()  # type: ignore[attr-defined]
    # The position of a text is a number of bytes only between two states of its decoder.
    if position >= 1 << 63:
        raise ValueError("a text that was read in part cannot be streamed: open it in binary mode")
    if os.lseek(number, 0, os.SEEK_CUR) != position:
        os.lseek(number, position, os.SEEK_SET)


document(StreamOptions, Watching, Reaching, Asking)
document(StreamReport, Finished)
