"""Copies, verifications and comparisons: what :mod:`thalweg` and :mod:`thalweg.aio` share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, Unpack

from thalweg import _thalweg
from thalweg._docs import document
from thalweg._work import (
    STREAMS,
    U64_MAX,
    Asking,
    Event,
    Finished,
    Moving,
    Name,
    Place,
    Reaching,
    Tabled,
    Underway,
    Watching,
    drive,
    dscp_of,
    listens,
    names,
    part_of,
    reaching_of,
    refuse_unknown,
    seconds,
    text_of,
    texts,
    whole,
)
from thalweg.errors import Error, UsageError, concluded, name_place

#: How far to verify: ``written`` checks each digest before the write, ``readback`` also reads from the medium again,
#: ``paranoid`` reads the source twice too.
Verify: TypeAlias = Literal["written", "readback", "paranoid"]
#: How to recognise what is there: by size and time (``evidence``), by content (``digest``), not at all (``nothing``).
Check: TypeAlias = Literal["evidence", "digest", "nothing"]


class CopyOptions(Reaching, Watching, total=False):
    """What a copy goes by, beyond its places."""

    #: Whether entries that fail raise :class:`~thalweg.PartialError`; otherwise they are only in the report. Default: yes.
    check_entries: bool
    #: Compress where it pays.
    compress: bool
    #: How far to verify. Default: ``written``.
    verify: Verify
    #: How to recognise what is there. Default: ``evidence``.
    check: Check
    #: Look for the content of files that the destination lacks there under other names, by size and time; the report's
    #: ``details["files_renamed"]`` and ``details["bytes_renamed"]`` have what was found.
    find_renames: bool
    #: Say what would be done, change nothing.
    dry_run: bool
    #: Leave alone what is newer at the destination.
    update: bool
    #: Leave alone what exists at the destination.
    ignore_existing: bool
    #: Do not cross into other file systems.
    one_file_system: bool
    #: Copy what symbolic links lead to instead of the links. From a daemon none that leads out of its export.
    copy_links: bool
    #: ``(K, N)``: only part K of N, from 1 on; files are dealt by their names, directories are in all parts. So N hosts that
    #: see the same trees share a copy, and none knows of another. Not with ``delete``. Default: all of it.
    part: tuple[int, int] | None
    #: Keep modes and ACLs. Default: yes.
    perms: bool
    #: Keep owners and groups, where permitted. Default: yes.
    owner: bool
    #: Keep times; without, what has the same size is compared by content. Default: yes.
    times: bool
    #: Keep attributes and ACLs. Default: yes.
    xattrs: bool
    #: Copy FIFOs and device nodes too.
    devices: bool
    #: Yield to everybody else, by the delay of the path (RFC 6817), with packets marked LE (RFC 8622): the program's
    #: ``--class scavenger``, but for priorities: that of this process is yours (``os.nice``).
    scavenger: bool
    #: Mark the packets of both sides: a number from 0 to 63, or ``"EF"``, ``"AF11"``, ``"CS1"``, ``"LE"``, ... Default: none.
    dscp: int | str | None
    #: Rules as rsync reads them, ``"+ PATTERN"`` and ``"- PATTERN"``; the first that matches decides.
    filter: Sequence[str]
    #: Only these names, relative to the source, whose contents are meant. Directories are not descended into; one that is not
    #: there fails. To a far source at most 32768. Default: all.
    files_from: Iterable[Name] | None
    #: Send no faster than this, with its unit: ``"500Mbit/s"``, ``"50MB/s"``.
    bwlimit: str | None
    #: Turn knobs while the copy runs, and begin with what earlier copies found best on this route. Default: yes.
    tune: bool
    #: Predict the time from what earlier copies of this way took, and remember what this one took. Default: yes.
    profile: bool
    #: TCP connections, 1 to 256. Default: by round trip and cores.
    streams: int | None
    #: Bytes of a chunk: a power of two from 64 KiB to 64 MiB. Default: by the path.
    chunk_bytes: int | None
    #: Bytes of a request to a disk, and of a wire frame: a power of two from 64 KiB to 64 MiB, at most a chunk. Default: 512 KiB.
    request_bytes: int | None
    #: Bytes under way in each stream, 4 KiB to 1 GiB. Default: left to the kernel.
    window_bytes: int | None
    #: Files larger than a request in flight at once, 1 to 4096. Default: 256.
    concurrency: int | None
    #: Chunks or packs of small files in flight in each stream, 1 to 4096. Default: as many as the window takes.
    depth: int | None
    #: Requests to a disk in flight for each stream, 1 to 64. Default: 4.
    io_depth: int | None
    #: Past the page cache: ``"auto"``, ``"on"``, ``"off"``; for one side ``"source=on"``, for both
    #: ``"source=on,destination=off"``. Default: ``"auto"``, where it pays.
    direct: str | None
    #: Order of requests: ``"strict"``, ``"serial"``, ``"loose"``, ``"none"``, ``"layout"`` (by the place on the medium); sides as
    #: with ``direct``. At the destination serial, loose or none. Default: loose at the source, none at the destination.
    order: str | None
    #: Use io_uring where there is one, and not helper threads. Default: yes.
    io_uring: bool
    #: Write what both sides signed to this file, for :func:`verify`.
    receipt: str | os.PathLike[str] | None
    #: Write how each entry ended, and what was deleted or removed, as JSON lines, to this file, behind what is in it.
    report: str | os.PathLike[str] | None


@dataclass(frozen=True, kw_only=True)
class Report(Finished):
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
    #: Content bytes found by comparing, and copied from there.
    bytes_same: int
    #: Chunks that came damaged and were sent again.
    chunks_repaired: int
    #: Source files and links removed (``remove_source_files``); in a dry run those that would be.
    sources_removed: int
    #: All of those that the destination has, or left alone, and that stay, ``sources_kept`` among them:
    #: ``details["sources_left_by"]`` has the causes.
    sources_left: int
    #: Those that were to be removed and could not be, as the last attempt found them: ``failures`` has them.
    sources_kept: int


@dataclass(frozen=True)
class Verified(Tabled):
    """What a verification found."""

    #: Entries of the receipt that were looked for.
    entries: int
    #: Content bytes that have the digest of the receipt.
    bytes: int
    #: Entries that are not there.
    missing: int
    #: Entries of another kind, size or content.
    differing: int
    #: Entries that the receipt does not have; ``None`` without ``strict``: nobody looked for them.
    extra: int | None
    #: Entries that could not be read.
    unreadable: int
    #: Files of the right size, not empty, of which the receipt has no digest, and hard links of which it has no file.
    without_digest: int
    #: Entries that failed when it was copied: the receipt has nothing of them but how many they are.
    failed: int
    #: Entries that were skipped when it was copied.
    skipped: int
    #: Who signed as the sender: certificate and key. Of several receipts the first, as of the two below.
    sender: str
    #: Who signed as the receiver.
    receiver: str
    #: What the receipt certifies, as ``receipt`` of the event ``verified`` in docs/reference/json.md: when, from where and to
    #: where, terms, totals, and who signed when.
    receipt: Event = field(repr=False, hash=False)
    #: Of several receipts the same of each; else none.
    receipts: list[Event] = field(repr=False, hash=False)
    #: Of receipts of parts, also of one alone: numbers of parts of which none was named.
    parts_missing: list[int] = field(hash=False)
    #: Events ``difference``, ``damage`` (byte ranges) and ``error``; the first 10,000.
    findings: list[Event] = field(repr=False, hash=False)

    @property
    def ok(self) -> bool:
        """Whether all is as the receipt says, all content was compared, nothing failed when it was copied, and no part is
        without a receipt."""
        wrong = self.missing or self.differing or self.extra or self.unreadable
        return not (wrong or self.without_digest or self.failed or self.parts_missing)


@dataclass(frozen=True)
class Receipt(Tabled):
    """What a receipt certifies."""

    #: Entries in it.
    entries: int
    #: Content bytes of them.
    bytes: int
    #: Entries that failed when it was copied: the receipt has nothing of them but how many they are.
    failed: int
    #: Entries that were skipped when it was copied.
    skipped: int
    #: Who signed as the sender: certificate and key.
    sender: str
    #: Who signed as the receiver.
    receiver: str
    #: Files in the list of ``as_b3sum``; without one ``None``, as of the two below.
    listed: int | None
    #: Files that are not in it, for the receipt has no digest of them that ``b3sum`` knows: unchanged, hard links, large holes.
    without_digest: int | None
    #: Files that are not in it, for their names are not UTF-8, and ``b3sum`` takes none such.
    unnamed: int | None
    #: All of it, as ``receipt`` of the event ``verified`` in docs/reference/json.md: when, from where and to where, terms,
    #: totals, and who signed when.
    details: Event = field(repr=False, hash=False)

    @property
    def is_whole(self) -> bool:
        """Whether nothing failed when it was copied, and the list, if there is one, has all files."""
        return not (self.failed or self.without_digest or self.unnamed)


@dataclass(frozen=True)
class Checked(Tabled):
    """What a comparison of two places, or of one with a list, found."""

    #: Entries on both sides; files of a list that were looked at.
    entries: int
    #: Files whose digests were compared; of a list as ``entries``.
    files: int
    #: Content bytes of these; of a list of those that are as it says.
    bytes: int
    #: Files whose digests are the same.
    same: int
    #: Entries that only the source, or the list, has.
    missing: int
    #: Entries that only the destination has; ``None`` with a list: nobody looked for them.
    extra: int | None
    #: Entries of another kind, size, link target or content.
    differing: int
    #: Entries that could not be listed or read; what the other side has in such a directory is not compared.
    unreadable: int
    #: FIFOs and devices that only the source has, without ``devices``: no difference.
    left_out: int
    #: Links to far places that were lost, and in whose place another one came.
    links_lost: int
    #: Events ``difference`` and ``error`` (with its ``place``); the first 10,000.
    findings: list[Event] = field(repr=False, hash=False)

    @property
    def ok(self) -> bool:
        """Whether all was compared, and nothing is missing, extra or different."""
        return not (self.missing or self.extra or self.differing or self.unreadable)


#: Findings of a verification or a comparison that are kept.
_FINDINGS_MAX = 10_000


class Transfer(Moving[Report]):
    """A copy under way: an iterator over its events, and a context manager that stops it on the way out.

    >>> with thalweg.transfer("run7", "tw://host/data/") as copying:  # doctest: +SKIP
    ...     for event in copying:
    ...         print(event["event"])
    >>> copying.report().bytes_done  # doctest: +SKIP

    ``progress`` events come every ``progress_s`` seconds while it is iterated, and once at the end. The report raises what
    failed: the whole, or (unless ``check_entries=False``) entries as :class:`~thalweg.PartialError`.
    """


def start(
    source: Place | Sequence[Place],
    destination: Place,
    options: CopyOptions,
    *,
    delete: bool = False,
    max_delete: int = 1000,
    remove_source_files: bool = False,
    tells: bool = True,
) -> Transfer:
    refuse_unknown(options, CopyOptions)
    if options.get("dry_run") and options.get("receipt") is not None:
        cause = "receipt: a dry run has none, nobody signs it"
        raise UsageError(cause, kind="usage", operation="read options")
    if delete and max_delete is None:
        # Nothing would be removed.
        raise TypeError("max_delete=None: with delete=True say how many entries may be removed")
    most = whole("max_delete", max_delete, 0, U64_MAX)
    sources = [source] if isinstance(source, str | bytes | os.PathLike) else list(source)
    places = [text_of(place) for place in [*sources, destination]]
    asked = {
        "delete_max": most if delete else None,
        "remove_source_files": remove_source_files,
        "compress": options.get("compress", False),
        "verify": options.get("verify", "written"),
        "check": options.get("check", "evidence"),
        "find_renames": options.get("find_renames", False),
        "dry_run": options.get("dry_run", False),
        "update": options.get("update", False),
        "ignore_existing": options.get("ignore_existing", False),
        "one_file_system": options.get("one_file_system", False),
        "copy_links": options.get("copy_links", False),
        "part": part_of(options.get("part")),
        "perms": options.get("perms", True),
        "owner": options.get("owner", True),
        "times": options.get("times", True),
        "xattrs": options.get("xattrs", True),
        "devices": options.get("devices", False),
        "scavenger": options.get("scavenger", False),
        "dscp": dscp_of(options.get("dscp")),
        "filter": texts("filter", options.get("filter", ())),
        "files_from": names("files_from", options.get("files_from")),
        "bwlimit": options.get("bwlimit"),
        "tune": options.get("tune", True),
        "profile": options.get("profile", True),
        "streams": whole("streams", options.get("streams"), *STREAMS),
        # Their ranges are those of the engine, which says them.
        "chunk_bytes": whole("chunk_bytes", options.get("chunk_bytes"), 0, U64_MAX),
        "request_bytes": whole("request_bytes", options.get("request_bytes"), 0, U64_MAX),
        "window_bytes": whole("window_bytes", options.get("window_bytes"), 0, U64_MAX),
        "concurrency": whole("concurrency", options.get("concurrency"), 0, U64_MAX),
        "depth": whole("depth", options.get("depth"), 0, U64_MAX),
        "io_depth": whole("io_depth", options.get("io_depth"), 0, U64_MAX),
        "direct": options.get("direct"),
        "order": options.get("order"),
        "io_uring": options.get("io_uring", True),
        "receipt": options.get("receipt"),
        "report": options.get("report"),
        "entries": options.get("entries", False),
        "tells": tells,
    }
    checks, progress_s = options.get("check_entries", True), seconds("progress_s", options.get("progress_s", 1.0), 0.0)
    work = _thalweg.copy(places, asked, reaching_of(options))
    return Transfer(
        work, lambda told: concluded(Report._of, told, checks), progress_s, places=(places[:-1], places[-1])
    )


def transfer(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    delete: bool = False,
    max_delete: int = 1000,
    remove_source_files: bool = False,
    **options: Unpack[CopyOptions],
) -> Transfer:
    """Begins a copy and returns at once; see :class:`Transfer` and :func:`copy`.

    ``delete`` and ``max_delete`` are those of :func:`sync`, ``remove_source_files`` that of :func:`copy`. Further options:
    ``help(thalweg.CopyOptions)``.
    """
    return start(
        source,
        destination,
        options,
        delete=delete,
        max_delete=max_delete,
        remove_source_files=remove_source_files,
    )


def copy(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    remove_source_files: bool = False,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[CopyOptions],
) -> Report:
    """Copies files and trees; returns when everything is verified and durable.

    ``source``: a place, or several at the same machine. ``on_event`` is called on this thread: with ``progress`` every
    ``progress_s`` seconds, with what happens to the link, and with each entry if ``entries``; while it works, and is slow,
    the copy waits. If it raises, the copy stops in order. ``check_entries=False``: entries that fail are in the report,
    and no :class:`~thalweg.PartialError` is raised.

    ``remove_source_files``: remove each file and link of a source once it is verified and durable at the destination; at a
    daemon where its export may be written and deleted in. What was there before only if ``check="digest"`` finds it the same.
    Directories stay, and what cannot be kept in full (``owner=False``, ``xattrs=False``). Not with ``copy_links``. A file that
    could not be removed raises :class:`~thalweg.PartialError`; :attr:`Report.sources_left` has how many stay in all. Further
    options: ``help(thalweg.CopyOptions)``.

    Raises :class:`~thalweg.Error`, of a class by its kind. On Ctrl-C it stops in order; the same call resumes.
    """
    tells = listens(on_event)
    return drive(
        start(source, destination, options, remove_source_files=remove_source_files, tells=tells), on_event
    )


def sync(
    source: Place | Sequence[Place],
    destination: Place,
    *,
    delete: bool = False,
    max_delete: int = 1000,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[CopyOptions],
) -> Report:
    """Makes a destination the same as a source: :func:`copy`, and with ``delete`` removes what the source lacks, refusing
    more than ``max_delete`` entries. Give the source a trailing slash to mean its contents."""
    tells = listens(on_event)
    return drive(start(source, destination, options, delete=delete, max_delete=max_delete, tells=tells), on_event)


def verify(
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
    """Whether what a receipt says is still at a place, undamaged. Every file is read and digested where it is. ``on_event`` is
    called on this thread, with each finding, and with ``progress`` every second.

    ``receipt``: one, or a list of those of all parts of a copy, which are compared as one.
    ``strict``: what the receipt does not have is a difference. ``sender``, ``receiver``: public keys or fingerprints of
    certificates, in hexadecimal, with colons or without, of which one must have signed as that side; ``keys``: of which one
    must have signed as either, maybe the same as both. Without, anybody may have signed. Raises
    :class:`~thalweg.DamageError` for a receipt that is not what was signed, or that others signed; differences are no error
    but findings. Further options: ``help(thalweg.Asking)``.
    """
    listens(on_event)
    return drive(start_verify(receipt, place, strict, (keys, sender, receiver), reaching), on_event)


def start_verify(
    receipt: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    place: Place,
    strict: bool,
    expected: tuple[Sequence[str], Sequence[str], Sequence[str]],
    reaching: Asking,
) -> Underway[Verified]:
    refuse_unknown(reaching, Asking)
    findings: list[Event] = []
    named: Sequence[str | os.PathLike[str]] = [receipt] if isinstance(receipt, str | os.PathLike) else receipt
    receipts, there = [os.fsdecode(one) for one in named], text_of(place)
    places = [*receipts, there]
    work = _thalweg.verify(receipts, there, strict, _signers(expected), reaching_of(reaching))
    return Underway(work, lambda told: Verified(**told, findings=findings), 1.0, _keeping(findings), (places, None))


def read_receipt(
    receipt: str | os.PathLike[str],
    *,
    as_b3sum: str | os.PathLike[str] | None = None,
    sender: Sequence[str] = (),
    receiver: Sequence[str] = (),
    keys: Sequence[str] = (),
) -> Receipt:
    """What a receipt certifies, if it is what was signed. No place is looked at: :func:`verify` does that.

    ``as_b3sum``: write its files to this file, as ``b3sum --check`` and the ``sums`` of :func:`check` take them; it stands whole
    and durable when this returns, in place of what was there. ``sender``, ``receiver``, ``keys``: who may have signed, as for
    :func:`verify`. Raises :class:`~thalweg.DamageError` for a receipt that is not what was signed, or that others signed,
    :class:`~thalweg.UsageError` for a file that is none, and for an ``as_b3sum`` that is the receipt.
    """
    return read(receipt, as_b3sum, (keys, sender, receiver), None)


def read(
    receipt: str | os.PathLike[str],
    as_b3sum: str | os.PathLike[str] | None,
    expected: tuple[Sequence[str], Sequence[str], Sequence[str]],
    gives_up: _thalweg.GivingUp | None,
) -> Receipt:
    """:func:`read_receipt`, which may be given up from another thread."""
    try:
        told = json.loads(_thalweg.read_receipt(receipt, as_b3sum, _signers(expected), gives_up))
    except Error as error:
        name_place(error, [os.fsdecode(receipt)])
        raise
    return Receipt(details=told.pop("receipt"), **told)


def _signers(
    expected: tuple[Sequence[str], Sequence[str], Sequence[str]],
) -> tuple[list[str], list[str], list[str]]:
    keys, sender, receiver = expected
    return texts("keys", keys), texts("sender", sender), texts("receiver", receiver)


def check(
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
    """Whether two places have the same content, now, or one has that of a list. Nothing is changed. Files that are alike in
    size are read, each where it is, and their digests compared; modes, owners and times are not. Names are relative to either
    place, as of a copy of ``source/``. ``on_event`` is called on this thread, with each finding, and with ``progress`` every
    second.

    ``sums``: in place of ``destination`` a file with a list as ``b3sum`` or ``read_receipt(as_b3sum=...)`` writes it, with names
    relative to ``source``; what is not in it is not looked for. (A list of ``sha256sum`` looks the same: then
    :attr:`Checked.same` is 0.) ``devices``: FIFOs and devices that only the source has are missing too; a copy leaves them out,
    and a list has none. ``copy_links``: compare what symbolic links lead to instead of the links, as after a copy with it; with
    ``sums`` it is always so. ``part``: ``(K, N)``, only part K of N, in which names are dealt as those of a copy; all parts
    together are one comparison. ``filter``, ``files_from``: the rules and names of a copy; what they leave out is not compared.
    Differences are no error but findings. Raises :class:`~thalweg.Error` when a place cannot be listed at all,
    :class:`~thalweg.UsageError` for a list that is none. Further options: ``help(thalweg.Asking)``.
    """
    listens(on_event)
    checking = start_check(source, destination, sums, devices, copy_links, part, filter, files_from, reaching)
    return drive(checking, on_event)


def start_check(
    source: Place,
    destination: Place | None,
    sums: str | os.PathLike[str] | None,
    devices: bool,
    copy_links: bool,
    part: tuple[int, int] | None,
    filter: Sequence[str],
    files_from: Iterable[Name] | None,
    reaching: Asking,
) -> Underway[Checked]:
    refuse_unknown(reaching, Asking)
    if (destination is None) == (sums is None):
        raise TypeError("a place is compared with a destination or with sums: name one of the two")
    if sums is not None and devices:
        cause = "devices: a list has only files"
        raise UsageError(cause, kind="usage", operation="read options")
    findings: list[Event] = []
    places = [text_of(place) for place in (source, destination) if place is not None]
    asked = {
        "sums": sums,
        "devices": devices,
        "copy_links": copy_links,
        "part": part_of(part),
        "filter": texts("filter", filter),
        "files_from": names("files_from", files_from),
    }
    work = _thalweg.check(places, asked, reaching_of(reaching))
    named = places if sums is None else [*places, os.fsdecode(sums)]
    return Underway(work, lambda told: Checked(**told, findings=findings), 1.0, _keeping(findings), (named, None))


def _keeping(findings: list[Event]) -> Callable[[Event], None]:
    """Keeps the first of them."""

    def notice(event: Event) -> None:
        if len(findings) < _FINDINGS_MAX:
            findings.append(event)

    return notice


document(CopyOptions, Watching, Reaching, Asking)
document(Report, Finished)
document(Verified)
document(Receipt)
document(Checked)
