"""Checks a receipt without thalweg, by docs/reference/receipt.md alone, and says what was signed and by whom.

Usage: python check_receipt.py RECEIPT (needs cryptography and blake3)
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509 import load_der_x509_certificate

LINE = re.compile(r"(-|[0-9a-f]{64})  (0|[1-9][0-9]*)  [a-z-]+  (done|unchanged)  [^\n]+\n")


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
        # Zigzag: twice the number, as it is not negative.
        signed_at=fields.number() // 2,
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
    return statement


def check(receipt: Path) -> tuple[Statement, Statement]:
    header, *parts, last, nothing = receipt.read_bytes().split(b"\n")
    blocks: dict[int, blake3] = {}
    block, entries = blake3(), 0
    for text in parts:
        part = json.loads(text)
        if json.dumps(part, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode() != text:
            raise ValueError("a text is written in another way")
        if "block" in part:
            block = blake3()
            if blocks.setdefault(part["block"], block) is not block:
                raise ValueError("a block comes twice")
        elif "line" in part:
            if not blocks or not LINE.fullmatch(part["line"]):
                raise ValueError("a line is none")
            block.update(part["line"].encode())
            entries += 1
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
    return sender, receiver


def main(receipt: Path) -> None:
    sender, receiver = check(receipt)
    for who, side in (("sender", sender), ("receiver", receiver)):
        kept = ", with a key that was kept nowhere" if side.signer[1] else ""
        print(f"signed by the {who} {side.signer[0].hex()} at {side.signed_at}{kept}")
    kind = ("files", "a stream")[receiver.kind]
    print(f"{kind}: {receiver.entries} entries, {receiver.totals[3]} failed, to {receiver.place}")
    print(f"{sender.unread} digests that the sender did not read")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
