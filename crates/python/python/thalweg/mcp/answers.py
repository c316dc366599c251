"""What a model is told: inert, bounded, and of failures the fields that ``--json`` has.

Names of files, and whatever else somebody chose who is not our user, stand in fields of their own and never in sentences
of ours. Nothing in them is more than what it looks like: what is not printable is escaped, byte by byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from thalweg.errors import Error, NotPermittedError, UsageError

#: The most bytes of an answer, as JSON: a model reads all of it.
ANSWER_BYTES_MAX = 64 << 10
#: The most characters of one text: a path of 4096 bytes, all of them escaped.
TEXT_MAX = 4 * 4096

_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})|(\\)")


def escaped(raw: bytes) -> str:
    """A name as the engine's events have it: what is not printable UTF-8, and the backslash, is ``\\xNN`` for each byte."""
    return inert(raw.replace(b"\\", b"\\x5c").decode(errors="surrogateescape"))


def unescaped(text: str) -> bytes:
    """Reads back what :func:`escaped` wrote. Raises ``ValueError`` for a backslash that no ``xNN`` follows."""

    def byte(found: re.Match[bytes]) -> bytes:
        if found[2]:
            raise ValueError("a backslash is written \\x5c")
        return bytes([int(found[1], 16)])

    return _ESCAPE.sub(byte, text.encode())


def inert(text: str) -> str:
    """The same text, of which nothing is invisible, turns the direction of writing or controls what shows it."""
    if text.isprintable() and text.isascii():
        return text
    return "".join(one if _is_inert(one) else _bytes_of(one) for one in text)


def _is_inert(one: str) -> bool:
    # Selectors of variants, and tags: invisible, and text can be written in them.
    is_hidden = "\ufe00" <= one <= "\ufe0f" or "\U000e0000" <= one <= "\U000e0fff"
    return one.isprintable() and not is_hidden


def _bytes_of(one: str) -> str:
    is_byte = "\udc80" <= one <= "\udcff"
    return "".join(f"\\x{byte:02x}" for byte in one.encode(errors="surrogateescape" if is_byte else "surrogatepass"))


def fitted(answer: Mapping[str, Any], list_max: int) -> dict[str, Any]:
    """The answer with all texts inert, and lists cut to so many entries, or fewer where it would be too long: ``NAME_left_off``
    beside a list says how many are missing."""
    most = list_max
    while True:
        told: dict[str, Any] = _cut(answer, most)
        if len(json.dumps(told)) <= ANSWER_BYTES_MAX:
            return told
        if most == 0:
            cause = f"the answer is longer than {ANSWER_BYTES_MAX} bytes"
            return {"error": failure(UsageError(cause, kind="usage", operation="answer"))}
        most //= 2


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return inert(value[:TEXT_MAX])
    if isinstance(value, list | tuple):
        return [_cut(one, most) for one in value[:most]]
    if not isinstance(value, Mapping):
        return value
    told = {inert(str(name)): _cut(one, most) for name, one in value.items()}
    for name, one in value.items():
        if isinstance(one, list | tuple) and len(one) > most:
            told[f"{name}_left_off"] = value.get(f"{name}_left_off", 0) + len(one) - most
    return told


def failure(error: Error) -> dict[str, Any]:
    """As the event ``error`` of docs/reference/json.md."""
    return {
        "kind": error.kind,
        "reason": error.reason,
        "operation": error.operation,
        "path": error.path,
        "range": None if error.range is None else list(error.range),
        "why": error.cause,
        "hint": error.hint,
    }


def refused(cause: str, path: bytes | None = None, hint: str | None = None) -> NotPermittedError:
    """What the rules of this server do not allow."""
    shown = None if path is None else escaped(path)
    return NotPermittedError(cause, kind="permission", operation="ask", path=shown, hint=hint)
