"""What can go wrong: one class for each kind of failure.

Every one is an :class:`Error`; where Python has a class of its own for it, it is that as well, so that
``except FileNotFoundError`` does what it says.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from thalweg._docs import document

if TYPE_CHECKING:
    from thalweg import Report, StreamReport

__all__ = [
    "BusyError",
    "ChangedError",
    "ConflictError",
    "ConnectionFailedError",
    "DamageError",
    "DiskError",
    "Error",
    "InternalError",
    "NoSpaceError",
    "NotFoundError",
    "NotPermittedError",
    "PartialError",
    "ProtocolError",
    "StoppedError",
    "UnsupportedError",
    "UsageError",
]


class Error(Exception):
    """A failure of thalweg."""

    #: The class of the failure, as in ``--json``: ``"space"``, ``"notfound"``, ...
    kind: str
    #: What is behind it, as in ``--json``: ``"no-inodes"``, ``"not-answered"``, ...; often ``None``.
    reason: str | None
    #: What was being done, for instance ``"write"``.
    operation: str
    #: The entry that it concerns, escaped (``\\xNN``) where its name is no printable text.
    path: str | None
    #: The bytes ``(start, end)`` that it concerns.
    range: tuple[int, int] | None
    #: The cause in one line.
    cause: str
    #: What may be done about it.
    hint: str | None
    #: What a copy, or a stream, did all the same, where that is over and only its receipt or report could not be written, or a
    #: stop came while source files were removed.
    report: Report | StreamReport | None = None

    def __init__(
        self,
        cause: str,
        *,
        kind: str = "internal",
        reason: str | None = None,
        operation: str = "",
        path: str | None = None,
        range: tuple[int, int] | None = None,
        hint: str | None = None,
    ) -> None:
        self.kind, self.reason, self.operation = kind, reason, operation
        self.path, self.range, self.cause, self.hint = path, range, cause, hint
        super().__init__(cause)
        self._tell_system()

    #: The error number of those that are an ``OSError``.
    _errno: int = errno.EIO

    def __str__(self) -> str:
        at = f" on `{self.path}`" if self.path is not None else ""
        of = f" at bytes {self.range[0]}..{self.range[1]}" if self.range is not None else ""
        text = f"{self.operation} failed{at}{of}: {self.cause}" if self.operation else self.cause
        return f"{text} ({self.hint})" if self.hint else text

    def _tell_system(self) -> None:
        """In the fields of an ``OSError`` too, of those that are one."""
        if isinstance(self, OSError):
            for name, value in (("errno", self._errno), ("strerror", str(self)), ("filename", self.path)):
                setattr(self, name, value)

    def at(self, place: str) -> None:
        """Says which place it concerns, if it concerns one and the engine did not say which."""
        if self.path or self.kind not in _OF_PLACES:
            return
        self.path = place
        # What follows says it already.
        self.cause = self.cause.removeprefix(f"`{place}`: ").removeprefix(f"{place}: ")
        self.args = (self.cause,)
        self._tell_system()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (type(self), self.cause, self._fields()), {"report": self.report})

    def _fields(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "reason": self.reason,
            "operation": self.operation,
            "path": self.path,
            "range": self.range,
            "hint": self.hint,
        }


#: Kinds of failures that concern a place, and not a link or the request as a whole.
_OF_PLACES = frozenset({"notfound", "permission", "damage", "changed", "space", "io", "conflict", "unsupported"})


def _again(of: type[Error], cause: str, fields: dict[str, Any]) -> Error:
    return of(cause, **fields)


class UsageError(Error, ValueError):
    """The request makes no sense."""


class NotFoundError(Error, FileNotFoundError):
    """No such file or export; or no right to know."""

    _errno = errno.ENOENT


class NotPermittedError(Error, PermissionError):
    """No permission."""

    _errno = errno.EACCES


class ConnectionFailedError(Error, ConnectionError):
    """The connection failed or ended. The same call resumes."""

    _errno = errno.ECONNABORTED


class ProtocolError(Error):
    """The peer broke the protocol, or speaks another version."""


class DamageError(Error):
    """Data arrived damaged and could not be repaired, or a receipt is not what was signed."""


class ChangedError(Error):
    """The source changed while it was read; a copy tries some times before it says so."""


class NoSpaceError(Error, OSError):
    """No space, quota used up, or read-only. The same call resumes when there is room."""

    _errno = errno.ENOSPC


class DiskError(Error, OSError):
    """Reading or writing failed."""

    _errno = errno.EIO


class ConflictError(Error, FileExistsError):
    """Something else stands at the destination."""

    _errno = errno.EEXIST


class UnsupportedError(Error, OSError):
    """What was asked for, or what an entry is, cannot be made here."""

    _errno = errno.EOPNOTSUPP


class StoppedError(Error):
    """Stopped on request. The same call resumes."""


class BusyError(Error):
    """Another transfer holds the destination."""


class InternalError(Error, RuntimeError):
    """A defect of thalweg."""


class PartialError(Error):
    """Some entries failed, or source files could not be removed; the others arrived, verified and durable.

    :attr:`report` says how many, :attr:`failures` which (the first 1000).
    """

    #: What the copy, or the stream, did all the same.
    report: Report | StreamReport
    #: One error for each entry that failed, and each source file that could not be removed.
    failures: list[Error]

    def __init__(self, report: Report | StreamReport) -> None:
        self.report, self.failures = report, report.failures
        first = f"; the first: {self.failures[0]}" if self.failures else ""
        kept = getattr(report, "sources_kept", 0)
        stay = f", {kept} source files could not be removed" if kept else ""
        super().__init__(f"{report.failed} entries failed{stay}{first}", kind="partial", operation="copy")

    def __reduce__(self) -> tuple[Any, ...]:
        return (PartialError, (self.report,))


for _one in (Error, PartialError):
    document(_one)

_AnyReport = TypeVar("_AnyReport", bound="Report | StreamReport")


def concluded(report_of: Callable[[dict[str, Any]], _AnyReport], told: dict[str, Any], checks: bool) -> _AnyReport:
    """The report of what was told at the end. Raised, with the report, is why there is no receipt or report, or why source files
    stay that nobody came to; and what failed, if it ``checks`` that, as :class:`PartialError`."""
    lost, is_source_kept = told.pop("lost"), told.pop("is_source_kept")
    report = report_of(told)
    if lost is not None:
        error = of_object(lost)
        error.report = report
        raise error
    # One that the far side told of without its name, or that was gone by then, is in no number.
    if (report.failed or is_source_kept or getattr(report, "sources_kept", 0)) and checks:
        raise PartialError(report)
    return report


_KINDS: dict[str, type[Error]] = {
    "usage": UsageError,
    "notfound": NotFoundError,
    "permission": NotPermittedError,
    "connection": ConnectionFailedError,
    "protocol": ProtocolError,
    "damage": DamageError,
    "changed": ChangedError,
    "space": NoSpaceError,
    "io": DiskError,
    "conflict": ConflictError,
    "unsupported": UnsupportedError,
    "stopped": StoppedError,
    "busy": BusyError,
    "internal": InternalError,
}


def name_place(error: Error, sources: Sequence[str], destination: str | None = None) -> None:
    """Says which of the places that were asked for a failure concerns, if it tells that: the engine names a place in words, and
    a far one as it is there."""
    if destination is not None and error.operation == "open the destination":
        error.at(destination)
        return
    told = _NAMED.search(error.cause)
    name = "" if told is None else (told[1] or told[2]).strip("/").removeprefix("./")
    places = list(sources) if destination is None else [*sources, destination]
    if error.cause.startswith(("the export ", "there is no export")):
        # Only a daemon says that. (Which of two, nobody can tell.)
        places = [place for place in places if place.startswith(("tw://", "@"))] or places
    for place in places:
        # The name of an export is somewhere in the place.
        if name and f"/{name}/" in f"/{place.strip('/')}/":
            error.at(place)
            return
    if error.operation == "open the source" and len(sources) == 1:
        error.at(sources[0])


#: How a cause names a place: in marks, or in front of it.
_NAMED = re.compile(r"`([^`]+)`|^([^:]+): ")


def of_json(text: str) -> Error:
    """The exception for a failure as ``--json`` tells it."""
    return of_object(json.loads(text))


def of_object(told: dict[str, Any]) -> Error:
    """The same, parsed."""
    kind = told.get("kind", "internal")
    asked = told.get("range")
    return _KINDS.get(kind, InternalError)(
        told.get("why", ""),
        kind=kind,
        reason=told.get("reason"),
        operation=told.get("operation", ""),
        path=told.get("path"),
        range=None if asked is None else (asked[0], asked[1]),
        hint=told.get("hint"),
    )
