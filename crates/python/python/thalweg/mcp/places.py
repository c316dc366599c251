"""Which places may be read and written, and how a place that a model names is held against that.

1. A place is read as answers write it: ``\\xNN`` is that byte.
2. Of this machine links in it are resolved, to the end. Elsewhere no name in it is empty, ``.`` or ``..``.
3. It has to be a place that may be read, or written, or below one.
4. Below one elsewhere the names in between are looked at, one by one: a link among them would lead out of it.
5. The engine gets the place as it was put together here, never the text that came.

Not guaranteed: what another program swaps for a link between these steps and the work. What copies of this server write
nobody reads or writes by this server meanwhile (:meth:`Place.meets`, ``jobs``).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from thalweg import _thalweg, _work
from thalweg.errors import NotFoundError, UsageError
from thalweg.mcp.answers import escaped, refused, unescaped

#: A path of this machine, ``tw://``, ssh, ``s3://``.
Kind: TypeAlias = Literal["local", "daemon", "ssh", "bucket"]

#: The port of a daemon that names none.
_PORT = b"8487"
#: The most characters of a place: a path of 4096 bytes, all of them escaped, and what stands before it.
PLACE_MAX = 5 * 4096
#: What is no place of files, but would be read as a host.
_MADE = (b"zero", b"null", b"data", b"sim")


@dataclass(frozen=True)
class Place:
    """One that may be named."""

    kind: Kind
    #: What the server was started with, in one spelling.
    root: bytes
    #: The path below it; empty for itself.
    below: bytes
    #: Whether it ended with a slash: of a source its contents are meant.
    is_contents: bool

    @property
    def raw(self) -> bytes:
        """All of it, without a slash at its end."""
        return _joined(self.root, self.below)

    @property
    def text(self) -> str:
        """As the engine reads it."""
        return os.fsdecode(self.raw + (b"/" if self.is_contents and self.raw != b"/" else b""))

    @property
    def shown(self) -> str:
        """As a model reads it, and may write it."""
        return escaped(os.fsencode(self.text))

    def meets(self, other: Place) -> bool:
        """Whether one is the other, or in it. (Of two names for one place nobody knows.)"""
        return _is_in(self.raw, other.raw) or _is_in(other.raw, self.raw)

    def refuse_links(self, reaching: _work.Asking) -> None:
        """Asks the far side about each name below the root, and refuses a link. Waits."""
        if self.kind not in ("daemon", "ssh") or not self.below:
            return
        session = _thalweg.Session(os.fsdecode(self.root), _work.reaching_of(reaching))
        try:
            names = self.below.split(b"/")
            for end in range(1, len(names) + 1):
                try:
                    told, _ = session.look(b"/".join(names[:end]))
                except NotFoundError:
                    # Nothing is there yet, or below it.
                    return
                if json.loads(told)["type"] == "symlink":
                    at = _joined(self.root, b"/".join(names[:end]))
                    raise refused("there is a link, which may lead elsewhere: only the far side knows where", at)
        finally:
            session.close()


class Allowed:
    """What the server was started with. Raises :class:`~thalweg.UsageError` for what is no place of files."""

    def __init__(self, read: Sequence[str], write: Sequence[str]) -> None:
        self.read, self.write = [_root(text) for text in read], [_root(text) for text in write]

    def source(self, text: str) -> Place:
        """One that may be read. Raises :class:`~thalweg.NotPermittedError` for any other."""
        return self._found(text, self.read, "read")

    def destination(self, text: str) -> Place:
        """One that may be written."""
        return self._found(text, self.write, "written")

    def looked_at(self, text: str) -> Place:
        """One that may be listed and compared: what may be read or written."""
        return self._found(text, self.read + self.write, "looked at")

    def holds(self, path: str) -> bool:
        """Whether this path of our machine is in one of the places."""
        real = os.path.realpath(os.fsencode(path))
        return any(_is_in(real, root) for kind, root in self.read + self.write if kind == "local")

    def told(self) -> dict[str, list[str]]:
        """All of them, as a model may write them."""
        return {"read": [escaped(root) for _, root in self.read], "write": [escaped(root) for _, root in self.write]}

    def _found(self, text: str, roots: list[tuple[Kind, bytes]], how: str) -> Place:
        try:
            raw = unescaped(text)
        except ValueError:
            cause = "a place is text, written as answers have it: a backslash is \\x5c"
            raise UsageError(cause, kind="usage", operation="ask") from None
        kind, plain = _plain(raw)
        held = [root for of, root in roots if of == kind and _is_in(plain, root)]
        if not held:
            hint = "`list` without a place tells which places there are"
            raise refused(f"this is in no place that may be {how}", raw, hint)
        root = max(held, key=len)
        below = plain[len(root) :].strip(b"/") if plain != root else b""
        return Place(kind, root, below, raw.endswith(b"/"))


def _plain(raw: bytes) -> tuple[Kind, bytes]:
    """What kind of a place it is, and its one spelling, without a slash at its end."""
    if b"\0" in raw:
        raise refused("a place has no zero byte", raw)
    if raw.startswith(b"/"):
        return "local", os.path.realpath(raw)
    host, colon, path = raw.partition(b":")
    scheme = host if path.startswith(b"//") else b""
    if not host or not colon or b"/" in host or host in _MADE or scheme not in (b"", b"tw", b"ssh", b"s3"):
        cause = "a place is /PATH, tw://HOST[:PORT]/EXPORT/PATH, [USER@]HOST:PATH, ssh://HOST/PATH or s3://BUCKET/KEY"
        raise refused(cause, raw)
    if scheme:
        host, _, path = path[2:].partition(b"/")
    path = path.removesuffix(b"/")
    if any(name in (b"", b".", b"..") for name in path.lstrip(b"/").split(b"/")) and path:
        raise refused("in a far place no name is empty, `.` or `..`", raw)
    if scheme == b"tw":
        host = host if re.search(rb":[0-9]+$", host) else host + b":" + _PORT
        return "daemon", b"tw://" + host + b"/" + path
    if scheme == b"s3":
        return "bucket", b"s3://" + host + (b"/" + path if path else b"")
    return "ssh", b"ssh://" + host + b"/" + path if scheme else host + b":" + path


def _root(text: str) -> tuple[Kind, bytes]:
    """A place that the server is started with; a path may be relative there, to where it was started."""
    raw = os.fsencode(text)
    head = raw.partition(b"/")[0]
    if raw and b":" not in head:
        raw = os.path.join(os.fsencode(os.getcwd()), raw)
    kind, plain = _plain(raw)
    if kind in ("daemon", "ssh") and plain.endswith((b"/", b":")):
        cause = "name an export, or a directory of the host"
        raise UsageError(cause, kind="usage", operation="read places", path=escaped(raw))
    return kind, plain


def _joined(root: bytes, below: bytes) -> bytes:
    return root.removesuffix(b"/") + b"/" + below if below else root


def _is_in(place: bytes, root: bytes) -> bool:
    return place == root or place.startswith(root.removesuffix(b"/") + b"/")
