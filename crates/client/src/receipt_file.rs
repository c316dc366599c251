//! The form of a receipt file: docs/reference/receipt.md. JSON lines, written by [`receipt`](crate::receipt), read by
//! [`verify`](crate::verify).
//!
//! 1. The header: what was asked for. Its digest is in the statement of the side that writes the file.
//! 2. The lines of settled entries, block by block as they became complete, which the signed root is computed over; before
//!    that of a large file, maybe others between, the digests of its parts, which join to the digest in its line.
//! 3. The footer: both signed statements, and what they say in words. Words that the statements do not say are refused.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::BufRead;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::{Fingerprint, public_key_of};
use thalweg_mover::run::agree::is_signed;
use thalweg_wire::digest::{self, PIECES_MAX, Pieces};
use thalweg_wire::hex::{hex, unhex};
use thalweg_wire::message::Totals;
use thalweg_wire::receipt::{self, Side, Signed, Statement};
use thalweg_wire::{Digest, RelativePath, limits};

/// Version that is written.
pub const VERSION: u64 = 1;
/// A line with the longest path there can be, escaped twice, or with the digests of all parts of a file.
const LINE_BYTES_MAX: u64 = 8 << 20;

/// The numbers of a copy.
pub fn totals(totals: &Totals) -> Map<String, Value> {
    let value = json!({
        "done": totals.done, "unchanged": totals.unchanged, "skipped": totals.skipped, "failed": totals.failed,
        "deleted": totals.deleted, "bytes_done": totals.bytes_done, "bytes_received": totals.bytes_received,
        "bytes_resumed": totals.bytes_resumed, "bytes_same": totals.bytes_same, "chunks_repaired": totals.chunks_repaired,
    });
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// The text in front of the lines of a block.
pub fn block(number: u64) -> String {
    json!({ "block": number }).to_string()
}

/// The text of an entry's line.
pub fn line(line: &str) -> String {
    json!({ "line": line }).to_string()
}

/// The text of the digests of a file's parts.
pub fn pieces(path: &RelativePath, pieces: &Pieces) -> String {
    let digests: String = pieces.digests.iter().map(|digest| hex(&digest.0)).collect();
    let value = json!({"path": path.to_string(), "piece_bytes": pieces.piece_bytes, "digests": digests});
    json!({ "pieces": value }).to_string()
}

/// The footer.
pub fn footer(sender: &Signed, receiver: &Signed) -> Value {
    let Statement { root, entries, totals: numbers, verify, check, chunk_bytes, segment_bytes, .. } =
        &receiver.statement;
    let word = |debug: String| debug.to_lowercase();
    let side = |signed: &Signed| {
        json!({
            "when": signed.statement.signed_at,
            "fingerprint": Fingerprint::of(&signed.certificate.as_slice().into()).to_string(),
            "public_key": public_key_of(&signed.certificate).map(|key| hex(&key)),
            "signed": hex(&signed.to_bytes()),
        })
    };
    json!({
        "root": root.to_string(),
        "entries": entries,
        "totals": totals(numbers),
        "terms": {
            "verify": word(format!("{verify:?}")),
            "check": word(format!("{check:?}")),
            "chunk_bytes": chunk_bytes,
            "segment_bytes": segment_bytes,
        },
        "sender": side(sender),
        "receiver": side(receiver),
    })
}

/// What stands between header and footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The lines of this block follow.
    Block(u64),
    /// Line of an entry, as the root is computed over it.
    Line(String),
    /// Digests of the parts of this file.
    Pieces(RelativePath, Pieces),
}

/// Reads a receipt from its beginning to its end, in memory for a digest of each block.
pub struct Reader<R> {
    file: R,
    header: Digest,
    footer: Option<Value>,
}

/// Who signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signer {
    /// Ed25519 key.
    pub public_key: [u8; 32],
    /// SHA-256 of the certificate.
    pub certificate: Fingerprint,
}

impl std::fmt::Display for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the certificate {} (key {})", self.certificate, hex(&self.public_key))
    }
}

/// What the signatures hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// Who read the source.
    pub sender: Signer,
    /// Who wrote the destination.
    pub receiver: Signer,
    /// Entries in the receipt.
    pub entries: u64,
    /// Hard links among them.
    pub hard_links: u64,
    /// Entries that failed: they are not in the receipt.
    pub failed: u64,
    /// Entries that were skipped: they are not in the receipt either.
    pub skipped: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// `Usage` if this is no receipt, or one of a later version; what the file system says.
    pub fn begin(file: R) -> Result<Reader<R>> {
        let mut reader = Reader { file, header: Digest::default(), footer: None };
        let text = reader.next_text()?.ok_or_else(|| none("it is empty"))?;
        let header: Value = serde_json::from_slice(&text).map_err(|error| none(&error.to_string()))?;
        reader.header = Digest(*blake3::hash(&text).as_bytes());
        match header.get("thalweg_receipt").and_then(Value::as_u64) {
            Some(VERSION) => Ok(reader),
            Some(version) => Err(none(&format!("version {version} is not known to this program"))),
            None => Err(none("the first line is no header")),
        }
    }

    /// The next part; `None` at the footer.
    ///
    /// # Errors
    /// `Usage` for what stands in no receipt; what the file system says.
    pub fn next_part(&mut self) -> Result<Option<Part>> {
        let Some(text) = self.next_text()? else { return Ok(None) };
        let mut value: Value = serde_json::from_slice(&text).map_err(|error| none(&error.to_string()))?;
        match value.get_mut("line").map(Value::take) {
            Some(Value::String(text)) => return Ok(Some(Part::Line(text))),
            Some(_) => return Err(none("a line is no text")),
            None => {}
        }
        if let Some(number) = value.get("block") {
            return number.as_u64().map(Part::Block).map(Some).ok_or_else(|| none("a block has no number"));
        }
        if let Some(value) = value.get("pieces") {
            let (path, pieces) =
                parse_pieces(value).ok_or_else(|| none("parts of a file are not readable"))?;
            return Ok(Some(Part::Pieces(path, pieces)));
        }
        self.footer = Some(value);
        Ok(None)
    }

    /// Reads the rest, and checks that both sides signed all of it: signatures, both statements against each other, the
    /// header, the lines, and the words of the footer. Whether those who signed are whom you know is left to the caller.
    ///
    /// # Errors
    /// `Damage`, saying what is not what was signed; as [`Reader::next_part`].
    pub fn authenticate(mut self) -> Result<Seal> {
        let mut digests: BTreeMap<u64, Digest> = BTreeMap::new();
        let mut open: Option<(u64, blake3::Hasher)> = None;
        let (mut entries, mut hard_links) = (0, 0u64);
        while let Some(part) = self.next_part()? {
            match part {
                Part::Block(number) => {
                    digests.extend(open.replace((number, blake3::Hasher::new())).map(closed));
                    if digests.contains_key(&number) {
                        return Err(damage("a block of it comes twice"));
                    }
                }
                Part::Line(line) => {
                    let (_, block) = open.as_mut().ok_or_else(|| damage("a line of it is in no block"))?;
                    block.update(line.as_bytes());
                    entries += 1;
                    hard_links += u64::from(line.split("  ").nth(2) == Some("hardlink"));
                }
                Part::Pieces(..) => {}
            }
        }
        digests.extend(open.map(closed));
        let root = receipt::root_of(digests.into_values());
        let footer = self.footer.take().ok_or_else(|| none("it has no end"))?;
        if self.next_text()?.is_some() {
            return Err(damage("there is more behind its end"));
        }
        let seal = self.authenticate_footer(&footer, root, entries)?;
        Ok(Seal { hard_links, ..seal })
    }

    fn authenticate_footer(&self, footer: &Value, root: Digest, entries: u64) -> Result<Seal> {
        let signed = |who| {
            signed_bytes(footer, who).and_then(|bytes| {
                Signed::from_bytes(&bytes).map_err(|_| none("a signed statement is not readable"))
            })
        };
        let (sender, receiver) = (signed("sender")?, signed("receiver")?);
        for (who, side, signed, other) in
            [("sender", Side::Sender, &sender, &receiver), ("receiver", Side::Receiver, &receiver, &sender)]
        {
            let statement = &signed.statement;
            if !is_signed(signed) {
                return Err(damage(&format!("the signature of the {who} is not valid")));
            }
            if (statement.root, statement.entries) != (root, entries) {
                return Err(damage(&format!("its {entries} lines are not those that the {who} signed")));
            }
            if statement.header.is_some_and(|header| header != self.header) {
                return Err(damage(&format!("its header is not the one that the {who} signed")));
            }
            if statement.side != side || statement.peer != fingerprint(other).0 {
                return Err(damage(&format!("the {who} signed a copy with somebody else")));
            }
        }
        let terms = |s: &Statement| (s.verify, s.check, s.chunk_bytes, s.segment_bytes);
        if terms(&sender.statement) != terms(&receiver.statement) {
            return Err(damage("the two statements are not of one copy"));
        }
        if sender.statement.header.is_none() && receiver.statement.header.is_none() {
            return Err(damage("nobody signed its header"));
        }
        if *footer != self::footer(&sender, &receiver) {
            return Err(damage("the words of its footer are not what was signed"));
        }
        let signer = |signed: &Signed| Signer {
            public_key: public_key_of(&signed.certificate).unwrap_or_default(),
            certificate: fingerprint(signed),
        };
        let totals = &receiver.statement.totals;
        Ok(Seal {
            sender: signer(&sender),
            receiver: signer(&receiver),
            entries,
            hard_links: 0,
            failed: totals.failed,
            skipped: totals.skipped,
            segment_bytes: u64::from(receiver.statement.segment_bytes),
        })
    }

    /// The next line, without its end.
    fn next_text(&mut self) -> Result<Option<Vec<u8>>> {
        let mut text = Vec::new();
        let mut limited = std::io::Read::take(&mut self.file, LINE_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut text);
        let got = read.map_err(|error| failure::of_io("read the receipt", &error))?;
        if text.last() == Some(&b'\n') {
            text.pop();
        }
        Ok((got > 0).then_some(text))
    }
}

fn closed((number, block): (u64, blake3::Hasher)) -> (u64, Digest) {
    (number, Digest(*block.finalize().as_bytes()))
}

fn signed_bytes(footer: &Value, who: &str) -> Result<Vec<u8>> {
    let text = footer.get(who).and_then(|side| side.get("signed")).and_then(Value::as_str);
    text.and_then(unhex).ok_or_else(|| none("a signed statement is missing"))
}

fn parse_pieces(value: &Value) -> Option<(RelativePath, Pieces)> {
    let path = thalweg_wire::path::unescape(value.get("path")?.as_str()?).ok()?;
    let piece_bytes = value.get("piece_bytes")?.as_u64()?;
    let bytes = unhex(value.get("digests")?.as_str()?)?;
    let (digests, rest) = bytes.as_chunks::<32>();
    let fits = rest.is_empty()
        && (2..=PIECES_MAX).contains(&(digests.len() as u64))
        && piece_bytes.is_power_of_two()
        && piece_bytes >= limits::CHUNK_BYTES_MIN;
    let digests = digests.iter().map(|bytes| Digest(*bytes)).collect();
    // The root of a tree is no file.
    let path = RelativePath::new(path).ok().filter(|path| !path.is_root())?;
    fits.then_some((path, Pieces { piece_bytes, digests }))
}

/// Whether these are the parts of a file of this length and digest.
pub fn are_parts_of(pieces: &Pieces, file_bytes: u64, digest: Digest) -> bool {
    file_bytes.div_ceil(pieces.piece_bytes) == pieces.digests.len() as u64
        && digest::join(&pieces.digests, true) == digest
}

fn fingerprint(signed: &Signed) -> Fingerprint {
    Fingerprint::of(&signed.certificate.as_slice().into())
}

fn none(why: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the receipt", format!("this is no receipt: {why}"))
}

fn damage(why: &str) -> Failure {
    Failure::new(FailureKind::Damage, "check the receipt", why)
}
