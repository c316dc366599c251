"""Checks a receipt without thalweg, by docs/reference/receipt.md alone, and says what was signed and by whom.

Not checked are the digests of parts of files, which join as BLAKE3 does inside: how many there are is said.

Usage: python check_receipt.py RECEIPT (needs cryptography and blake3)
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_der_x509_certificate

LINE = re.compile(r"(-|[0-9a-f]{64})  (0|[1-9][0-9]*)  [a-z-]+  (done|unchanged)  [^\n]+\n")
PIECES = {"digests", "path", "piece_bytes"}
KIND = ("files", "stream")
VERIFY = ("written", "readback", "paranoid")
CHECK = ("evidence", "digest", "nothing")
TOTALS = (
    *("done", "unchanged", "skipped", "failed", "deleted"),
    *("bytes_done", "bytes_received", "bytes_resumed", "bytes_same", "chunks_repaired"),
)


@dataclass(frozen=True)
class Statement:
    root: bytes
    entries: int
    totals: tuple[int, ...]
    unread: int
    signed_at: int
    side: int
    kind: int
    signer: tuple[bytes, int]
    peer: tuple[bytes, int]
    session: bytes | None
    place: tuple[str | None, bytes] | None
    terms: tuple[int, ...]
    header: bytes | None
    public_key: bytes = b""


class Fields:
    """Fields in bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        if len(taken) != count:
            raise ValueError("a signed statement ends early")
        self.at += count
        return taken

    def number(self) -> int:
        value = 0
        for place in range(10):
            byte = self.take(1)[0]
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return value
        raise ValueError("a number does not end")

    def time(self) -> int:
        """Zigzag: twice the number, or what a negative one comes to."""
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def text(self) -> bytes:
        return self.take(self.number())

    def digest(self) -> bytes | None:
        return self.take(32) if self.number() else None

    def signatory(self) -> tuple[bytes, int]:
        return self.take(32), self.number()

    def place(self) -> tuple[str | None, bytes] | None:
        if not self.number():
            return None
        return self.text().decode() if self.number() else None, self.text()


def statement_of(signed: bytes) -> Statement:
    """What is signed, if it is."""
    fields = Fields(signed)
    statement = Statement(
        root=fields.take(32),
        entries=fields.number(),
        totals=tuple(fields.number() for _ in range(10)),
        unread=fields.number(),
        signed_at=fields.time(),
        side=fields.number(),
        kind=fields.number(),
        signer=fields.signatory(),
        peer=fields.signatory(),
        session=fields.digest(),
        place=fields.place(),
        terms=tuple(fields.number() for _ in range(4)),
        header=fields.digest(),
    )
    message = b"thalweg receipt v1\n" + signed[: fields.at]
    certificate, signature = fields.text(), fields.text()
    key = load_der_x509_certificate(certificate).public_key()
    if not isinstance(key, Ed25519PublicKey) or fields.at != len(signed):
        raise ValueError("this is no signed statement")
    key.verify(signature, message)
    if hashlib.sha256(certificate).digest() != statement.signer[0]:
        raise ValueError("a side signed as somebody else")
    return replace(statement, public_key=key.public_bytes(Encoding.Raw, PublicFormat.Raw))


def written(part: Mapping[str, Any]) -> bytes:
    """The only way in which it is written."""
    return json.dumps(part, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def unescaped(word: str) -> bytes:
    return re.sub(rb"\\x([0-9a-f]{2})", lambda byte: bytes([int(byte[1], 16)]), word.encode())


def footer_of(sender: Statement, receiver: Statement, told: Mapping[str, Any]) -> bytes:
    """The footer that these two make. Of the one that is `told` are what was signed, and how a path is escaped."""
    place = None
    if receiver.place:
        path = told["place"]["path"]
        if unescaped(path) != receiver.place[1]:
            raise ValueError("the place is not what was signed")
        place = {"export": receiver.place[0], "path": path}
    verify, check, chunk_bytes, segment_bytes = receiver.terms
    footer: dict[str, Any] = {
        "root": receiver.root.hex(),
        "entries": receiver.entries,
        "kind": KIND[receiver.kind],
        "session": receiver.session.hex() if receiver.session else None,
        "place": place,
        "totals": dict(zip(TOTALS, receiver.totals, strict=True)),
        "unread": sender.unread,
        "terms": {
            "verify": VERIFY[verify],
            "check": CHECK[check],
            "chunk_bytes": chunk_bytes,
            "segment_bytes": segment_bytes,
        },
    }
    for name, side in (("sender", sender), ("receiver", receiver)):
        footer[name] = {
            "when": side.signed_at,
            "ephemeral": bool(side.signer[1]),
            "fingerprint": side.signer[0].hex(),
            "public_key": side.public_key.hex(),
            "signed": told[name]["signed"],
        }
    return written(footer)


def check(receipt: Path) -> tuple[Statement, Statement, int]:
    """What both signed, and of how many files there are parts, which are not checked."""
    header, *parts, last, nothing = receipt.read_bytes().split(b"\n")
    blocks: dict[int, blake3] = {}
    block, entries, in_parts = blake3(), 0, 0
    for text in parts:
        part = json.loads(text)
        if written(part) != text:
            raise ValueError("a text is written in another way")
        if part.keys() == {"block"}:
            block = blake3()
            if blocks.setdefault(part["block"], block) is not block:
                raise ValueError("a block comes twice")
        elif part.keys() == {"line"}:
            if not blocks or not LINE.fullmatch(part["line"]):
                raise ValueError("a line is none")
            block.update(part["line"].encode())
            entries += 1
        elif part.keys() == {"pieces"} and part["pieces"].keys() == PIECES:
            in_parts += 1
        else:
            raise ValueError("there are words that nobody signed")
    root = blake3(b"".join(blocks[number].digest() for number in sorted(blocks))).digest()
    footer = json.loads(last)
    sender, receiver = (statement_of(bytes.fromhex(footer[side]["signed"])) for side in ("sender", "receiver"))
    digest = blake3(header).digest()
    for ours, theirs, side in ((sender, receiver, 0), (receiver, sender, 1)):
        if (ours.root, ours.entries, ours.side, ours.peer) != (root, entries, side, theirs.signer):
            raise ValueError("a side signed another copy")
        if ours.header not in (None, digest) or nothing:
            raise ValueError("the header or the end is not what was signed")
    alike = [(one.kind, one.session, one.terms, one.totals) for one in (sender, receiver)]
    if alike[0] != alike[1] or (sender.header or receiver.header) is None:
        raise ValueError("the two statements do not make a receipt")
    if sender.place is not None or receiver.unread:
        raise ValueError("a side states what is the other's to say")
    if footer_of(sender, receiver, footer) != last:
        raise ValueError("the words at the end are not what was signed")
    return sender, receiver, in_parts


def main(receipt: Path) -> None:
    sender, receiver, in_parts = check(receipt)
    for who, side in (("sender", sender), ("receiver", receiver)):
        kept = ", with a key that was kept nowhere" if side.signer[1] else ""
        print(f"signed by the {who} {side.signer[0].hex()} at {side.signed_at}{kept}")
    print(f"{KIND[receiver.kind]}: {receiver.entries} entries, {receiver.totals[3]} failed, to {receiver.place}")
    print(f"{sender.unread} digests that the sender did not read")
    print(f"not checked: the digests of the parts of {in_parts} files")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
