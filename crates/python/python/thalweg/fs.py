"""An fsspec file system: ``tw://host[:port]/export/path`` and ``tw+ssh://[user@]host[:port]/path``.

Registered by entry points, so pandas, xarray, zarr, dask and others open such URLs when thalweg is installed:

>>> pandas.read_csv("tw://host/data/t.csv", storage_options={"ticket": "ticket"})  # doctest: +SKIP

Reads are ranges over one session for each file system object, kept open, with fsspec's caches (``cache_type``). They are all
of what the file was when it was opened, or raise ``ChangedError``. Writes go to a temporary file here and are copied when the
file is closed: verified, durable, and under the final name stands the old content or the whole new one; what is appended to is
fetched first. ``get``, ``put`` and their kin are copies by the engine.
"""

from __future__ import annotations

import datetime
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from urllib.parse import urlsplit

from fsspec import AbstractFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.spec import AbstractBufferedFile

from thalweg import _copy, _thalweg, _work
from thalweg._written import Packed, Written
from thalweg.errors import (
    ChangedError,
    ConflictError,
    Error,
    NotFoundError,
    PartialError,
    UnsupportedError,
    UsageError,
    of_json,
)

__all__ = ["ThalwegFileSystem", "ThalwegSshFileSystem"]

#: Port of a daemon if none is given.
DEFAULT_PORT = 8487

#: How earlier daemons refuse any directory that is to go by itself, an empty one too; they give no reason but these words.
_NO_SUCH_STEP = "it is a directory: use -r"

#: Options of fsspec's own, which reach every file system. (``skip_instance_cache`` does not.)
_OF_FSSPEC = {
    "add_aliases",
    "add_docs",
    "asynchronous",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "use_listings_cache",
}


class ThalwegFileSystem(AbstractFileSystem):
    """Files that a daemon exports. A path is ``export/path``; the root holds the exports.

    ``host``, ``port``: the daemon, usually from the URL. ``ticket``: what ``thalweg serve`` wrote (default:
    ``$THALWEG_TICKET``). Other options are those of :class:`thalweg.Reaching`, and fsspec's own (``use_listings_cache``,
    ``listings_expiry_time``, ``skip_instance_cache``); any other raises ``TypeError``.
    """

    protocol: ClassVar[tuple[str, ...]] = ("tw",)
    root_marker = ""
    cachable = True
    #: Whether the root is no directory but holds exports.
    _has_exports: ClassVar[bool] = True

    def __init__(
        self,
        host: str = "",
        port: int | None = None,
        ticket: str | os.PathLike[str] | None = None,
        state: str | os.PathLike[str] | None = None,
        **storage_options: Any,
    ) -> None:
        if not host:
            raise UsageError("the host is missing: tw://host[:port]/export/path", kind="usage", operation="open")
        asked = {name: value for name, value in storage_options.items() if name not in _OF_FSSPEC}
        _work.refuse_unknown(asked, _work.Reaching)
        # Each session reads them anew.
        asked |= {name: list(value) for name, value in asked.items() if isinstance(value, Iterator)}
        super().__init__(host=host, port=port, ticket=ticket, state=state, **storage_options)
        self.host, self.port = host, port
        self._reaching: dict[str, Any] = {"ticket": ticket, "state": state, **asked}
        self._sessions: dict[tuple[int, str], _thalweg.Session] = {}

    # Names and URLs

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = os.fspath(path)
        for protocol in cls.protocol:
            if text.startswith(f"{protocol}://"):
                _, _, text = text[len(protocol) + 3 :].partition("/")
        return text.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        told = urlsplit(path)
        if not told.netloc:
            return {}
        user = f"{told.username}@" if told.username else ""
        host = told.hostname or ""
        host = f"[{host}]" if ":" in host else host
        return {"host": f"{user}{host}"} | ({"port": told.port} if told.port else {})

    def unstrip_protocol(self, name: str) -> str:
        port = f":{self.port}" if self.port else ""
        return f"{self.protocol[0]}://{self.host}{port}/{self._strip_protocol(name)}"

    def _place(self, path: str) -> str:
        """A path as thalweg reads places."""
        return f"tw://{self.host}:{self.port or DEFAULT_PORT}/{path}"

    def _split(self, path: str) -> tuple[str, str]:
        """What a session is for, and the path in it."""
        export, _, below = path.partition("/")
        if not export:
            raise NotFoundError("the root of a daemon holds only exports: name one", kind="notfound", operation="open")
        return export, below

    # Sessions

    def _session(self, path: str) -> tuple[_thalweg.Session, bytes]:
        root, below = self._split(path)
        # A session does not survive a fork: it is of the process that began it.
        key = (os.getpid(), root)
        session = self._sessions.get(key)
        if session is None:
            session = _thalweg.Session(self._place(root), _work.reaching_of(self._reaching))
            session = self._sessions.setdefault(key, session)
        return session, os.fsencode(below)

    def close(self) -> None:
        """Ends all sessions of this process; the next call begins others."""
        for key in [key for key in self._sessions if key[0] == os.getpid()]:
            self._sessions.pop(key).close()

    # Looking

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if self._is_of_exports(path):
            return self._list(path)[0]
        above = self._parent(path)
        # fsspec's `_ls_from_cache` says that what came after the listing is not there. Of an export the root knows less.
        for entry in () if self._is_of_exports(above) else self.dircache.get(above, ()):
            if entry["name"] == path:
                return dict(entry)
        return self._look(path)[0]

    def _there(self, path: str) -> dict[str, Any] | None:
        """What is there now, whatever was listed before; ``None`` for nothing."""
        try:
            return self._list(path)[0]
        except NotFoundError:
            return None

    def _file(self, path: str, operation: str) -> tuple[dict[str, Any], _thalweg.Seen]:
        """What is known of a file now, and what shows that it is still that; raises for what is none."""
        told, seen = self._look(path)
        if told["type"] == "file":
            return told, seen
        where = f" (it leads to {told['destination']!r})" if "destination" in told else ""
        cause = f"it is no file but of kind {told['type']}{where}"
        raise UnsupportedError(cause, kind="unsupported", operation=operation, path=path)

    def _look(self, path: str) -> tuple[dict[str, Any], _thalweg.Seen]:
        """What is there now, and what shows that; a link is the link, as in the listing of its directory."""
        session, below = self._session(path)
        with _named(path):
            text, seen = session.look(below)
        return _entry(path, json.loads(text), is_first=True), seen

    # Of fsspec's own an outage says that nothing is there.

    def exists(self, path: str, **kwargs: Any) -> bool:
        return self._type(path) is not None

    def isdir(self, path: str) -> bool:
        """Whether it can be listed: a directory, or a link that leads to one, though ``info`` calls that a link."""
        kind = self._type(path)
        if kind != "link":
            return kind == "directory"
        # Copies do not ask this: a link is copied as the link.
        there = self._there(self._strip_protocol(path))
        return there is not None and there["type"] == "directory"

    def isfile(self, path: str) -> bool:
        return self._type(path) == "file"

    def _type(self, path: str) -> str | None:
        try:
            return str(self.info(path)["type"])
        except NotFoundError:
            return None

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        """All that is below, links as such: by one question, or with ``maxdepth`` by one for each directory. What cannot be
        listed is raised."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        path = self._strip_protocol(path)
        try:
            listed = self._list(path, recursive=True) if maxdepth is None else self._levels(path, maxdepth)
        except NotFoundError:
            # Of the root it is an export that is gone.
            if self._is_of_exports(path):
                raise
            return {} if detail else []
        # The root has no name.
        found = {one["name"]: one for one in listed if one["name"] and (withdirs or one["type"] != "directory")}
        return {name: found[name] for name in sorted(found)} if detail else sorted(found)

    def _levels(self, path: str, depth: int) -> list[dict[str, Any]]:
        """What is at a path, and so many levels of what is in it."""
        first, *level = self._list(path)
        listed = [first, *level]
        for _ in range(1, depth):
            below: list[dict[str, Any]] = []
            for name in [one["name"] for one in level if one["type"] == "directory"]:
                try:
                    below += self._list(name)[1:]
                except NotFoundError:
                    # It went meanwhile.
                    continue
            if not below:
                break
            listed += below
            level = below
        return listed

    def du(
        self, path: str, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **kwargs: Any
    ) -> Any:
        # fsspec's own asks once more for each file.
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **kwargs)
        sizes = {name: one["size"] for name, one in found.items()}
        return sum(sizes.values()) if total else sizes

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        if refresh:
            self.dircache.pop(path, None)
        # fsspec's `_ls_from_cache` takes a directory in its parent's listing for what is in it.
        entries = self.dircache[path] if path in self.dircache else None
        if entries is None:
            first, *rest = self._list(path)
            entries = rest if first["type"] == "directory" else [first]
            if first["type"] == "directory":
                self.dircache[path] = entries
        return [dict(entry) for entry in entries] if detail else sorted(entry["name"] for entry in entries)

    def _is_of_exports(self, path: str) -> bool:
        return self._has_exports and not path

    def _exports(self, recursive: bool) -> list[dict[str, Any]]:
        """The root of a daemon, and what is in it, as it was listed last: to ask is a session of its own."""
        listed = self.dircache.get("")
        if listed is None:
            address = f"{self.host}:{self.port or DEFAULT_PORT}"
            told = _thalweg.exports(address, _work.reaching_of(self._reaching))
            listed = self.dircache[""] = [{"name": name, "size": 0, "type": "directory"} for name, _ in told]
        names = [one["name"] for one in listed]
        root, *exports = [{"name": name, "size": 0, "type": "directory"} for name in ["", *names]]
        if recursive:
            exports = [one for name in names for one in self._list(name, recursive=True)]
        return [root, *exports]

    def _list(self, path: str, recursive: bool = False) -> list[dict[str, Any]]:
        if self._is_of_exports(path):
            return self._exports(recursive)
        session, below = self._session(path)
        with _named(path):
            entries = [json.loads(text) for text in session.list(below, recursive)]
        if not entries:
            raise NotFoundError("it is of a kind that is not listed", kind="notfound", operation="list", path=path)
        told = [_entry(path, entry, is_first=number == 0) for number, entry in enumerate(entries)]
        return told

    def checksum(self, path: str) -> int:
        """BLAKE3 of the file where it is, as a number; :meth:`digest` has it in digits."""
        return int(self.digest(path), 16)

    def digest(self, path: str) -> str:
        """BLAKE3 of the file, digested at the far side: what ``b3sum`` prints."""
        path = self._strip_protocol(path)
        session, below = self._session(path)
        with _named(path):
            return session.digest(below)

    def ukey(self, path: str) -> str:
        info = self.info(path)
        return f"{info['size']}-{info['mtime']}"

    def modified(self, path: str) -> Any:
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.UTC)

    # Reading

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """As fsspec's. Of what is written, closing what compresses or encodes it closes the file too, and raises what fails
        then; what is still open when a transaction is committed is closed first."""
        asked: dict[str, Any] = {"block_size": block_size, "cache_options": cache_options, **kwargs}
        if "r" in mode:
            return super().open(path, mode, compression=compression, **asked)
        if "b" not in mode:
            # It asks for the bytes by what follows.
            text = super().open(path, mode, compression=compression, **asked)
            text.buffer.wrapped_by(text)
            return text
        codec = None if compression is None else get_compression(self._strip_protocol(path), compression)
        written = super().open(path, mode, **asked)
        if codec is None:
            return written
        try:
            packed = Packed(written, compr[codec](written, mode=mode[0]))
        except BaseException:
            written.close()
            raise
        written.wrapped_by(packed)
        return packed

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        if mode in ("wb", "xb", "ab"):
            is_there = mode != "wb" and self._there(path) is not None
            if mode == "xb" and is_there:
                raise ConflictError("it exists", kind="conflict", operation="open", path=path)
            if is_there:
                self._file(path, "open")
            return Written(self, path, autocommit, goes_on=is_there)
        if mode != "rb":
            raise UsageError(f"mode {mode!r}: rb, wb, ab or xb", kind="usage", operation="open", path=path)
        block = block_size if isinstance(block_size, int) else "default"
        # As it is now: by the size of an older listing the end of one that grew would be missing.
        told, seen = self._file(path, "open")
        kwargs["size"] = told["size"]
        return _Read(self, path, seen, mode, block, cache_options=cache_options, **kwargs)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        path = self._strip_protocol(path)
        start = 0 if start is None else start
        size, seen = 0, None
        if start < 0 or end is None or end < 0:
            told, seen = self._file(path, "read")
            size = told["size"]
        start = max(0, size + start) if start < 0 else start
        end = size if end is None else max(0, size + end) if end < 0 else end
        return self._read_range(path, start, end, seen)

    def _read_range(self, path: str, start: int, end: int, seen: _thalweg.Seen | None) -> bytes:
        """Of the file as it was seen, or ``ChangedError``; of whatever is there, if it was not."""
        session, below = self._session(path)
        with _named(path):
            return session.read(below, start, end - start, seen) if end > start else b""

    # Copying

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """As fsspec's; a whole directory to where nothing stands yet is one copy."""
        if recursive and maxdepth is None and not kwargs and _is_one(rpath) and _is_one(lpath):
            source, there = self._strip_protocol(rpath), os.path.expanduser(lpath)
            into = there.endswith("/") or os.path.isdir(there)
            place = os.path.abspath(_placed(rpath, source, there, into))
            # (What is in an export goes into a directory as if a slash ended the name of the export.)
            is_named = "/" in source or not into
            if is_named and source and not os.path.lexists(place) and self._type(source) == "directory":
                os.makedirs(os.path.dirname(place), exist_ok=True)
                self._copy(f"{self._place(source)}/", place, callback, unit="entries")
                return
        super().get(rpath, lpath, recursive=recursive, callback=callback, maxdepth=maxdepth, **kwargs)

    def put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """As fsspec's; a whole directory to where nothing stands yet is one copy, in which links stay links. Of a link that
        is put by itself what it leads to is put."""
        if recursive and maxdepth is None and not kwargs and _is_one(lpath) and _is_one(rpath):
            # fsspec takes what is in the working directory for it.
            here = "./" if lpath == "." else os.path.expanduser(lpath)
            if os.path.isdir(here) and not os.path.islink(here.rstrip("/")):
                into = rpath.endswith("/") or self.isdir(rpath)
                path = _placed(here, os.path.abspath(here), self._strip_protocol(rpath), into).strip("/")
                if path and self._there(path) is None:
                    self._copy(f"{os.path.abspath(here)}/", self._place(path), callback, unit="entries")
                    self.invalidate_cache(path)
                    return
        super().put(lpath, rpath, recursive=recursive, callback=callback, maxdepth=maxdepth, **kwargs)

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, outfile: Any = None, **kwargs: Any) -> None:
        rpath = self._strip_protocol(rpath)
        if outfile is not None or not isinstance(lpath, str | os.PathLike):
            super().get_file(rpath, lpath, outfile=outfile, **kwargs)
        elif self._type(rpath) == "directory":
            os.makedirs(lpath, exist_ok=True)
        elif os.path.isdir(lpath):
            raise ConflictError("a directory stands there", kind="conflict", operation="get", path=os.fspath(lpath))
        else:
            # A path of this machine, whatever its name looks like.
            self._copy(self._place(rpath), os.path.abspath(lpath), callback)

    def put_file(self, lpath: Any, rpath: str, callback: Any = None, mode: str = "overwrite", **kwargs: Any) -> None:
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=mode != "create")
        else:
            # What a link leads to, as of other file systems: nobody could open the link as a file there.
            self._put(os.path.realpath(lpath), rpath, callback, mode)

    def _put(
        self, here: str, path: str, callback: Any = None, mode: str = "overwrite", only_content: bool = False
    ) -> None:
        """Copies a file. ``only_content``: what stands there keeps its mode, owner and attributes."""
        there = self._there(path)
        if there is not None and (mode == "create" or there["type"] == "directory"):
            # A copy would go into the directory.
            cause = "it exists" if mode == "create" else "a directory stands there"
            raise ConflictError(cause, kind="conflict", operation="put", path=path)
        kept: dict[str, Any] = {}
        if only_content and there is not None:
            kept = {"perms": False, "owner": False, "xattrs": False}
        self._copy(here, self._place(path), callback, **kept)
        self.invalidate_cache(path)

    def cp_file(
        self, path1: str, path2: str, pairs: list[tuple[str, str]] | None = None, **kwargs: Any
    ) -> None:
        """By way of this machine: a daemon copies nothing within itself. With ``pairs`` nothing is copied; what would be
        is added there."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if pairs is not None:
            pairs.append((path1, path2))
            return
        if _same(path1) == _same(path2):
            # It is there already; raises if it is not.
            self._list(path1)
            return
        if self._type(path1) == "directory":
            self.makedirs(path2, exist_ok=True)
            return
        with tempfile.TemporaryDirectory(prefix="thalweg-") as scratch:
            here = os.path.join(scratch, "content")
            self._copy(self._place(path1), here, None)
            self._put(here, path2)

    def mv(
        self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> None:
        """Copies, by way of this machine, and removes what was copied and nothing else: each file behind its own copy,
        the directories at the end.

        A file that was written or replaced since its copy began (by size, times and inode) stays, and so do the
        directories above it; the others are moved, then ``ChangedError`` names it. What came into a directory meanwhile
        stays: ``ConflictError``. What a writer adds between the last look and the removal is not noticed. After another
        error the files that come behind it are where they were.

        A place that is moved to itself, however it is written, stays as it is. What would go into itself, or in place of
        something else that is moved too, is refused before anything is copied: ``ConflictError``; a directory without
        ``recursive``: ``UsageError``. That two exports show the same directory is not noticed, nor are links to it.
        """
        asked = [[_same(self._strip_protocol(one)) for one in _as_list(path)] for path in (path1, path2)]
        if asked[0] == asked[1]:
            return
        # Which places these are is fsspec's to say.
        pairs: list[tuple[str, str]] = []
        self.copy(path1, path2, recursive=recursive, maxdepth=maxdepth, on_error="raise", pairs=pairs)
        if not pairs:
            cause = "a directory is moved with recursive=True"
            raise UsageError(cause, kind="usage", operation="mv", path=asked[0][0])
        pairs = [(source, there) for source, there in pairs if _same(source) != _same(there)]
        moved, taken = {_same(source) for source, _ in pairs}, set()
        for _, there in pairs:
            above = _same(there)
            if above in taken:
                raise ConflictError("two would go there", kind="conflict", operation="mv", path=there)
            taken.add(above)
            while above:
                if above in moved:
                    cause = f"it would go into, or in place of, {above!r}, which is to be moved"
                    raise ConflictError(cause, kind="conflict", operation="mv", path=there)
                above = self._parent(above)
        directories = {source for source, _ in pairs if self._type(source) == "directory"}
        changed = []
        for source, there in pairs:
            if source in directories:
                self.cp_file(source, there)
            elif not self._mv_file(source, there):
                changed.append(source)
        try:
            self._rmdirs(directories, changed)
        except Error as error:
            if changed:
                raise _changed(changed) from error
            raise
        if changed:
            raise _changed(changed)

    def _mv_file(self, source: str, there: str) -> bool:
        """Copies what is no directory and removes it, unless it is not what it was before the copy; says whether it did."""
        _, seen = self._look(source)
        self.cp_file(source, there)
        try:
            if not self._look(source)[1].is_same(seen):
                return False
            self._remove(source, False)
        except NotFoundError:
            # Somebody else removed it, once it was copied.
            pass
        return True

    def _rmdirs(self, directories: set[str], kept: list[str]) -> None:
        """Removes directories whose content was moved, but for those above what was ``kept``. What came meanwhile was
        not copied and stays: its directory is not removed, and the first such is raised when the others are gone."""
        above = set()
        for path in kept:
            while path := self._parent(_same(path)):
                above.add(path)
        conflict = None
        # What is in a directory sorts behind it.
        for source in sorted(directories, reverse=True):
            if _same(source) in above:
                continue
            try:
                self.rmdir(source)
            except ConflictError as error:
                conflict = conflict or error
        if conflict is not None:
            raise conflict

    def _copy(self, source: str, destination: str, callback: Any, unit: str = "bytes", **kept: Any) -> None:
        """Raises the first entry that fails; the others are copied. The callback counts in ``unit``, bytes or entries.
        ``kept``: options of a copy."""
        size = None

        def tell(event: dict[str, Any]) -> None:
            nonlocal size
            if callback is not None and event["event"] == "progress":
                if size != event[f"{unit}_found"]:
                    size = event[f"{unit}_found"]
                    callback.set_size(size)
                callback.absolute_update(event[f"{unit}_settled"])

        asked: dict[str, Any] = {"progress_s": 0.2, "check_entries": False, **self._reaching, **kept}
        with _copy.transfer(source, destination, **asked) as copying:
            for event in copying:
                tell(event)
            report = copying.report()
        if report.failures:
            raise report.failures[0]
        if report.failed:
            raise PartialError(report)

    # Writing and removing

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        if not create_parents and self._there(self._parent(path)) is None:
            raise NotFoundError("the directory above it", kind="notfound", operation="mkdir", path=path)
        self.makedirs(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        there = self._there(path)
        if there is not None:
            if exist_ok and there["type"] == "directory":
                # A copy would give it the mode and times of ours.
                return
            raise ConflictError("it exists", kind="conflict", operation="mkdir", path=path)
        with tempfile.TemporaryDirectory(prefix="thalweg-") as empty:
            os.chmod(empty, 0o755)
            self._copy(f"{empty}/", self._place(path), None)
        self.invalidate_cache(path)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        if not truncate and self.exists(path):
            raise NotImplementedError("what is there keeps its times: only a copy sets them (truncate=True empties it)")
        super().touch(path, truncate=True, **kwargs)

    def rm_file(self, path: str) -> None:
        self._remove(path, False)

    def _rm(self, path: str) -> None:
        self._remove(path, False)

    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        told, _ = self._look(path)
        if told["type"] != "directory":
            raise ConflictError("it is no directory", kind="conflict", operation="rmdir", path=path)
        try:
            # In one step: what comes meanwhile stays, and so does the directory then.
            self._remove(path, False, as_directory=True)
        except ConflictError as error:
            if _NO_SUCH_STEP not in error.cause:
                raise
            if self.ls(path, detail=False, refresh=True):
                raise ConflictError("it is not empty", kind="conflict", operation="rmdir", path=path) from error
            # What comes now goes with it: there nothing else removes a directory.
            self._remove(path, True)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        if maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        for one in self.expand_path(path) if self._is_glob(path) else _as_list(path):
            self._remove(one, recursive)

    @staticmethod
    def _is_glob(path: Any) -> bool:
        return any(letter in one for one in _as_list(path) for letter in "*?[")

    def _remove(self, path: str, recursive: bool, as_directory: bool = False) -> None:
        """``as_directory``: a directory, if nothing is in it, which a ``/`` behind its name asks for."""
        path = self._strip_protocol(path)
        session, below = self._session(path)
        if as_directory and below:
            below += b"/"
        with _named(path):
            _, troubles = session.remove(below, recursive)
            self.invalidate_cache(path)
            if troubles:
                raise of_json(troubles[0])

    def invalidate_cache(self, path: str | None = None) -> None:
        if path is None:
            self.dircache.clear()
            return
        path = self._strip_protocol(path)
        for below in [known for known in self.dircache if known.startswith(f"{path}/")]:
            self.dircache.pop(below, None)
        while path:
            self.dircache.pop(path, None)
            path = self._parent(path)
        self.dircache.pop("", None)


class ThalwegSshFileSystem(ThalwegFileSystem):
    """The same by the user's own ssh: ``tw+ssh://[user@]host[:port]/path``; ``/~/path`` is below the home directory there.

    The host needs a thalweg, or ``bootstrap=True``; ``rsh`` and ``far_path`` are those of ``thalweg cp``.
    """

    protocol: ClassVar[tuple[str, ...]] = ("tw+ssh",)
    _has_exports: ClassVar[bool] = False

    def _place(self, path: str) -> str:
        port = f":{self.port}" if self.port else ""
        return f"ssh://{self.host}{port}/{path}"

    def _split(self, path: str) -> tuple[str, str]:
        return ("~", path[2:]) if path == "~" or path.startswith("~/") else ("", path)


class _Read(AbstractBufferedFile):
    """A far file, read by ranges, all of them of what it was when it was opened."""

    def __init__(self, fs: ThalwegFileSystem, path: str, seen: _thalweg.Seen, *args: Any, **kwargs: Any) -> None:
        # Some caches read at once.
        self._seen = seen
        super().__init__(fs, path, *args, **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        fs: ThalwegFileSystem = self.fs
        return fs._read_range(fs._strip_protocol(self.path), start, end, self._seen)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Failures say which path was asked for."""
    try:
        yield
    except Error as error:
        error.at(path)
        raise


def _same(path: str) -> str:
    """Equal for what names the same place: without empty components and such as mean nothing."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _changed(paths: list[str]) -> ChangedError:
    """What says that these stayed where they were; it names some of them."""
    told_max = 20
    told = ", ".join(f"`{path}`" for path in paths[:told_max])
    more = f" and {len(paths) - told_max} more" if len(paths) > told_max else ""
    return ChangedError(
        f"what was written or replaced since its copy began was not removed: {told}{more}",
        kind="changed",
        operation="mv",
        path=paths[0] if len(paths) == 1 else None,
        hint="the copies may be older: move these again when nobody writes to them",
    )


def _is_one(path: Any) -> bool:
    """Whether fsspec takes it for one path of ours or of this machine, and not for a list, a pattern or another's URL."""
    if not isinstance(path, str) or any(letter in path for letter in "*?["):
        return False
    return "://" not in path or path.startswith("tw")


def _placed(typed: str, source: str, there: str, into: bool) -> str:
    """Where fsspec puts a directory: in one that is there, under its name, unless a slash ends what was ``typed``."""
    there = there.rstrip("/") or there
    return f"{there}/{os.path.basename(source)}" if into and not typed.endswith("/") else there


def _as_list(path: Any) -> list[str]:
    return [os.fspath(path)] if isinstance(path, str | os.PathLike) else list(path)


def _entry(path: str, told: dict[str, Any], is_first: bool) -> dict[str, Any]:
    """An event ``listed`` as fsspec tells entries."""
    name = path
    if not is_first:
        below = bytes.fromhex(told["path_bytes"]) if "path_bytes" in told else _unescaped(told["path"])
        name = f"{path}/{os.fsdecode(below)}" if path else os.fsdecode(below)
    seconds, _, nanos = told["mtime"].partition(".")
    kinds = {"file": "file", "hardlink": "file", "directory": "directory", "symlink": "link"}
    entry = {
        "name": name,
        "size": told["bytes"],
        "type": kinds.get(told["type"], "other"),
        "mode": int(told["mode"], 8),
        "uid": told["uid"],
        "gid": told["gid"],
        "mtime": int(seconds) + int(nanos) / 1e9,
        "islink": told["type"] == "symlink",
    }
    if "target" in told:
        entry["destination"] = os.fsdecode(_unescaped(told["target"]))
    return entry


def _unescaped(text: str) -> bytes:
    """Undoes the escaping of names: ``\\xNN`` is that byte."""
    out = bytearray()
    raw = text.encode()
    at = 0
    while at < len(raw):
        if raw[at : at + 2] == b"\\x":
            out += bytes.fromhex(raw[at + 2 : at + 4].decode())
            at += 4
        else:
            out.append(raw[at])
            at += 1
    return bytes(out)
