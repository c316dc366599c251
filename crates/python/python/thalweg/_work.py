"""Copies and verifications: what :mod:`thalweg` and :mod:`thalweg.aio` share."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from thalweg import _thalweg
from thalweg.errors import Error, PartialError, of_object

#: A place as the program reads it. ``bytes`` are a path of this machine as it is.
Place: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
#: What happened, as ``--json`` tells it (docs/reference/json.md): ``event`` says what, the rest by event.
Event: TypeAlias = dict[str, Any]
#: How far to verify: ``written`` checks each digest before the write, ``readback`` also reads from the medium again,
#: ``paranoid`` reads the source twice too.
Verify: TypeAlias = Literal["written", "readback", "paranoid"]
#: How to recognise what is there: by size and time (``evidence``), by content (``digest``), not at all (``nothing``).
Check: TypeAlias = Literal["evidence", "digest", "nothing"]

#: The longest that a wait holds back a Ctrl-C, in seconds.
STEP_S = 0.1


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


class CopyOptions(Reaching, total=False):
    """What a copy goes by, beyond its places."""

    #: Compress where it pays.
    compress: bool
    #: How far to verify. Default: ``written``.
    verify: Verify
    #: How to recognise what is there. Default: ``evidence``.
    check: Check
    #: Say what would be done, change nothing.
    dry_run: bool
    #: Leave alone what is newer at the destination.
    update: bool
    #: Leave alone what exists at the destination.
    ignore_existing: bool
    #: Do not cross into other file systems.
    one_file_system: bool
    #: Rules as rsync reads them, ``"+ PATTERN"`` and ``"- PATTERN"``; the first that matches decides.
    filter: Sequence[str]
    #: Send no faster than this, with its unit: ``"500Mbit/s"``, ``"50MB/s"``.
    bwlimit: str | None
    #: TCP connections, 1 to 256. Default: by round trip and cores.
    streams: int | None
    #: Write what both sides signed to this file, for :func:`verify`.
    receipt: str | os.PathLike[str] | None


@dataclass(frozen=True)
class Report:
    """What a copy did. Sizes are in bytes, times in seconds."""

    #: Entries copied.
    done: int
    #: Entries that were there already.
    unchanged: int
    #: Entries left out.
    skipped: int
    #: Entries that failed.
    failed: int
    #: Entries removed at the destination.
    deleted: int
    #: Content bytes of the entries copied.
    bytes_done: int
    #: Content bytes that travelled.
    bytes_received: int
    #: Content bytes found by comparing, and copied from there.
    bytes_same: int
    #: Content bytes that an earlier attempt had left durable.
    bytes_resumed: int
    #: Chunks that came damaged and were sent again.
    chunks_repaired: int
    #: From the first connection to the last word.
    seconds: float
    #: How often it had to start over.
    attempts: int
    #: BLAKE3 over the lines of all entries, which both sides signed.
    root: str
    #: Which stage was the narrowest and what to turn, in words.
    sentence: str | None
    #: One error for each entry that failed; the first 1000.
    failures: list[Error] = field(repr=False)
    #: All of it, as the event ``finished`` of docs/reference/json.md.
    details: Event = field(repr=False)

    @staticmethod
    def _of(told: Event) -> Report:
        failures = [of_object(failure) for failure in told.pop("failures")]
        plain = {name: told[name] for name in _REPORTED}
        return Report(**plain, failures=failures, details=told)


_REPORTED = [name for name in Report.__dataclass_fields__ if name not in ("failures", "details")]


@dataclass(frozen=True)
class Verified:
    """What a verification found."""

    #: Entries of the receipt that were looked for.
    entries: int
    #: Content bytes that have the digest of the receipt.
    bytes: int
    #: Entries that are not there.
    missing: int
    #: Entries of another kind, size or content.
    differing: int
    #: Entries that the receipt does not have (only with ``strict``).
    extra: int
    #: Entries that could not be read.
    unreadable: int
    #: Files of the right size of which the receipt has no digest.
    without_digest: int
    #: Who signed as the sender: certificate and key.
    sender: str
    #: Who signed as the receiver.
    receiver: str
    #: Events ``difference``, ``damage`` (byte ranges) and ``error``; the first 10,000.
    findings: list[Event] = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether all is as the receipt says."""
        return not (self.missing or self.differing or self.extra or self.unreadable)


#: Findings of a verification that are kept.
_FINDINGS_MAX = 10_000


class Transfer:
    """A copy under way: an iterator over its events, and a context manager that stops it on the way out.

    >>> with thalweg.transfer("run7", "tw://host/data/") as copying:  # doctest: +SKIP
    ...     for event in copying:
    ...         print(event["event"])
    >>> copying.report().bytes_done  # doctest: +SKIP

    ``progress`` events come every ``progress_s`` seconds while it is iterated, and once at the end.
    """

    def __init__(self, work: _thalweg.Work, progress_s: float, check: bool) -> None:
        self._work, self._progress_s, self._check = work, progress_s, check
        self._next_progress = time.monotonic() + progress_s
        self._is_over = False

    def events(self, timeout_s: float = STEP_S) -> list[Event] | None:
        """What happened, waiting at most ``timeout_s`` seconds for the first; ``None`` when it is over."""
        if self._is_over:
            return None
        told = self._work.wait(timeout_s)
        events = [json.loads(text) for text in told or []]
        now = time.monotonic()
        if told is None or now >= self._next_progress:
            self._next_progress = now + self._progress_s
            events.append(json.loads(self._work.progress()))
        self._is_over = told is None
        return events

    def __iter__(self) -> Iterator[Event]:
        while (events := self.events()) is not None:
            yield from events

    def stop(self) -> None:
        """Asks it to stop in order; does not wait. The same copy resumes."""
        self._work.stop()

    def report(self) -> Report:
        """Waits for its end. Raises what failed: the whole, or (unless ``check=False``) entries as
        :class:`~thalweg.PartialError`. Events that were not taken are lost."""
        while self.events() is not None:
            pass
        report = Report._of(json.loads(self._work.result()))
        if report.failed and self._check:
            raise PartialError(report)
        return report

    def __enter__(self) -> Transfer:
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


def start(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    entries: bool = False,
    progress_s: float = 1.0,
    check_entries: bool = True,
    tells: bool = True,
    delete_max: int | None = None,
    **options: Unpack[CopyOptions],
) -> Transfer:
    sources = [source] if isinstance(source, str | bytes | os.PathLike) else list(source)
    places = [_text(place) for place in [*sources, destination]]
    asked = {
        "delete_max": delete_max,
        "compress": options.get("compress", False),
        "verify": options.get("verify", "written"),
        "check": options.get("check", "evidence"),
        "dry_run": options.get("dry_run", False),
        "update": options.get("update", False),
        "ignore_existing": options.get("ignore_existing", False),
        "one_file_system": options.get("one_file_system", False),
        "filter": list(options.get("filter", ())),
        "bwlimit": options.get("bwlimit"),
        "streams": options.get("streams"),
        "receipt": options.get("receipt"),
        "entries": entries,
        "tells": tells,
    }
    _refuse_unknown(options, CopyOptions)
    return Transfer(_thalweg.copy(places, asked, reaching_of(options)), progress_s, check_entries)


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
    """Begins a copy and returns at once; see :class:`Transfer` and :func:`copy`.

    ``entries``: an event for each entry too. ``delete_max``: remove what the source lacks, at most so many entries.
    """
    return start(
        source,
        destination,
        entries=entries,
        progress_s=progress_s,
        check_entries=check_entries,
        delete_max=delete_max,
        **options,
    )


def copy(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    on_event: Callable[[Event], object] | None = None,
    entries: bool = False,
    progress_s: float = 1.0,
    check_entries: bool = True,
    **options: Unpack[CopyOptions],
) -> Report:
    """Copies files and trees; returns when everything is verified and durable.

    ``source``: a place, or several at the same machine. ``on_event`` is called on this thread: with ``progress`` every
    ``progress_s`` seconds, with what happens to the link, and with each entry if ``entries``; while it works, and is slow,
    the copy waits. If it raises, the copy stops in order. ``check_entries=False``: entries that fail are in the report,
    and no :class:`~thalweg.PartialError` is raised. Further options: :class:`CopyOptions` (docs/guide/python.md).

    Raises :class:`~thalweg.Error`, of a class by its kind. On Ctrl-C it stops in order; the same call resumes.
    """
    return _drive(
        start(
            source,
            destination,
            entries=entries,
            progress_s=progress_s,
            check_entries=check_entries,
            tells=on_event is not None,
            **options,
        ),
        on_event,
    )


def sync(
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
    """Makes a destination the same as a source: :func:`copy`, and with ``delete`` removes what the source lacks, refusing
    more than ``max_delete`` entries. Give the source a trailing slash to mean its contents."""
    return _drive(
        start(
            source,
            destination,
            entries=entries,
            progress_s=progress_s,
            check_entries=check_entries,
            tells=on_event is not None,
            delete_max=max_delete if delete else None,
            **options,
        ),
        on_event,
    )


def verify(
    receipt: str | os.PathLike[str],
    place: Place,
    *,
    strict: bool = False,
    keys: Sequence[str] = (),
    on_event: Callable[[Event], object] | None = None,
    **reaching: Unpack[Reaching],
) -> Verified:
    """Whether what a receipt says is still at a place, undamaged. Every file is read and digested where it is.

    ``strict``: what the receipt does not have is a difference. ``keys``: public keys or fingerprints of certificates, in
    hexadecimal, that both signers must be among; without, anybody may have signed. Raises
    :class:`~thalweg.DamageError` for a receipt that is not what was signed; differences are no error but findings.
    """
    work = start_verify(receipt, place, strict=strict, keys=keys, **reaching)
    findings: list[Event] = []
    try:
        while (events := work.wait(STEP_S)) is not None:
            take_findings(events, findings, on_event)
    except BaseException:
        work.stop()
        raise
    return verified_of(work.result(), findings)


def start_verify(
    receipt: str | os.PathLike[str],
    place: Place,
    *,
    strict: bool,
    keys: Sequence[str],
    **reaching: Unpack[Reaching],
) -> _thalweg.Work:
    _refuse_unknown(reaching, Reaching)
    return _thalweg.verify(receipt, _text(place), strict, list(keys), reaching_of(reaching))


def take_findings(
    texts: list[str], findings: list[Event], on_event: Callable[[Event], object] | None
) -> None:
    for text in texts:
        event = json.loads(text)
        if len(findings) < _FINDINGS_MAX:
            findings.append(event)
        if on_event is not None:
            on_event(event)


def verified_of(text: str, findings: list[Event]) -> Verified:
    return Verified(**json.loads(text), findings=findings)


def _drive(work: Transfer, on_event: Callable[[Event], object] | None) -> Report:
    with work:
        for event in work:
            if on_event is not None:
                on_event(event)
        return work.report()


def _text(place: Place) -> str:
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


def _refuse_unknown(options: Any, known: Any) -> None:
    unknown = sorted(set(options) - set(known.__annotations__) - set(Reaching.__annotations__))
    if unknown:
        raise TypeError(f"unexpected options: {', '.join(unknown)}")
