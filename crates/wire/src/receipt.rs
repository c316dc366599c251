//! What both movers agree was done, and sign.
//!
//! Each side makes its own statement from its own numbers: the sender from what it read, the receiver from
//! what it wrote. The root is BLAKE3 over one line per settled entry, in the order of entry numbers; both
//! sides compute it apart, so equal roots mean that both saw the same entries with the same digests.

use crate::digest::Digest;
use crate::entry::{Entry, EntryId, Kind};
use crate::message::{Check, Outcome, Totals, VerifyLevel};
use crate::{DecodeError, RelativePath};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The line of an entry in a receipt: what its root is computed over. `None` for entries that were not
/// copied and are not there.
///
/// ```text
/// 9f86d0…  4096  file  done  dir/name\x0awith newline
/// ```
/// Digest (or `-`), bytes, outcome, path; names escaped as everywhere, so a line is always one line.
pub fn line(entry: &Entry, outcome: &Outcome) -> Option<String> {
    let (word, digest) = match outcome {
        Outcome::Done { digest, .. } => ("done", digest),
        Outcome::Unchanged { digest } => ("unchanged", digest),
        Outcome::Skipped(_) | Outcome::Failed(_) => return None,
    };
    let kind = match &entry.kind {
        Kind::File { marked: true, .. } => "file-marked-holes",
        Kind::File { .. } => "file",
        Kind::Directory => "directory",
        Kind::Symlink { .. } => "symlink",
        Kind::HardLink { .. } => "hardlink",
        Kind::Fifo => "fifo",
        Kind::Device { .. } => "device",
    };
    let digest = digest.map_or_else(|| "-".to_owned(), |digest| digest.to_string());
    Some(format!("{digest}  {}  {kind}  {word}  {}\n", entry.content_bytes(), entry.path))
}

/// Computes the root while entries settle in any order.
///
/// Holds the lines of what settled early, so its memory is bounded by the entries in flight. Numbers that
/// will never settle (withdrawn) must be [skipped](RootHasher::skip).
pub struct RootHasher {
    hasher: blake3::Hasher,
    next: u64,
    early: BTreeMap<u64, Option<String>>,
    entries: u64,
}

impl Default for RootHasher {
    fn default() -> Self {
        RootHasher { hasher: blake3::Hasher::new(), next: 0, early: BTreeMap::new(), entries: 0 }
    }
}

impl RootHasher {
    /// An entry settled with this line, if it has one. Returns the lines that are in order now. An entry
    /// that was counted already is ignored.
    pub fn settled(&mut self, id: EntryId, line: Option<String>) -> Vec<String> {
        if id.0 >= self.next {
            self.early.entry(id.0).or_insert(line);
        }
        let mut ready = Vec::new();
        while let Some(line) = self.early.remove(&self.next) {
            self.next += 1;
            if let Some(line) = line {
                self.hasher.update(line.as_bytes());
                self.entries += 1;
                ready.push(line);
            }
        }
        ready
    }

    /// This number will never settle.
    pub fn skip(&mut self, id: EntryId) -> Vec<String> {
        self.settled(id, None)
    }

    /// Root over the lines so far, and how many there were. What settled early and still waits for a gap is
    /// taken in, in order.
    pub fn finish(mut self) -> (Digest, u64, Vec<String>) {
        let mut rest = Vec::new();
        for line in std::mem::take(&mut self.early).into_values().flatten() {
            self.hasher.update(line.as_bytes());
            self.entries += 1;
            rest.push(line);
        }
        (Digest(*self.hasher.finalize().as_bytes()), self.entries, rest)
    }
}

/// First bytes of what is signed, so that no other signature of the same key passes for one of these.
const CONTEXT: &[u8] = b"thalweg receipt v2\n";

/// Which side of a transfer a mover was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// It read the source.
    Sender,
    /// It wrote the destination.
    Receiver,
}

/// What a mover says about a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// BLAKE3 over the lines of all settled entries.
    pub root: Digest,
    /// Entries in it.
    pub entries: u64,
    /// The receiver's totals.
    pub totals: Totals,
    /// When, in seconds since 1970 by the signer's clock.
    pub signed_at: i64,
    /// Which side the signer was.
    pub side: Side,
    /// SHA-256 of the certificate that the other side proved to own; the signer's own if both were one process.
    pub peer: [u8; 32],
    /// How far it was checked.
    pub verify: VerifyLevel,
    /// How what was there already was recognised.
    pub check: Check,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes of a segment: what digests of files with marked holes depend on.
    pub segment_bytes: u32,
    /// BLAKE3 of the first line of the receipt file, by the side that writes one.
    pub header: Option<Digest>,
}

/// A statement with the signature of the mover that makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// The statement.
    pub statement: Statement,
    /// The signer's certificate, DER: the one of its TLS connection. Its key, Ed25519, makes the signature.
    #[serde(with = "serde_bytes")]
    pub certificate: Vec<u8>,
    /// Signature over [`Statement::signed_bytes`].
    #[serde(with = "serde_bytes")]
    pub signature: Vec<u8>,
}

impl Signed {
    /// All of it, as postcard: what a receipt file keeps.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_extend(self, Vec::new()).unwrap_or_default()
    }

    /// Reads back what [`Signed::to_bytes`] wrote. Says nothing about the signature.
    ///
    /// # Errors
    /// `Invalid` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Signed, DecodeError> {
        match postcard::take_from_bytes(bytes) {
            Ok((signed, [])) => Ok(signed),
            _ => Err(DecodeError::Invalid { what: "signed statement" }),
        }
    }
}

/// A line of a receipt, read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Digest of the content, if the entry has one that was known.
    pub digest: Option<Digest>,
    /// Bytes of content.
    pub bytes: u64,
    /// What it is: the words of [`line`].
    pub kind: String,
    /// Its name.
    pub path: RelativePath,
}

impl std::str::FromStr for Line {
    type Err = DecodeError;

    /// Reads what [`line`] wrote, with or without the end of line.
    fn from_str(text: &str) -> Result<Line, DecodeError> {
        let invalid = || DecodeError::Invalid { what: "line of a receipt" };
        let text = text.strip_suffix('\n').unwrap_or(text);
        let mut fields = text.splitn(5, "  ");
        let mut field = || fields.next().ok_or_else(invalid);
        let (digest, bytes, kind, _, path) = (field()?, field()?, field()?, field()?, field()?);
        let digest = if digest == "-" { None } else { Some(digest.parse()?) };
        let path = if path == "." { Vec::new() } else { crate::path::unescape(path)? };
        Ok(Line {
            digest,
            bytes: bytes.parse().map_err(|_| invalid())?,
            kind: kind.to_owned(),
            path: RelativePath::new(path)?,
        })
    }
}

impl Statement {
    /// The bytes that are signed: a context line, then the statement as postcard.
    pub fn signed_bytes(&self) -> Vec<u8> {
        postcard::to_extend(self, CONTEXT.to_vec()).unwrap_or_default()
    }

    /// Reads back what [`Statement::signed_bytes`] wrote.
    ///
    /// # Errors
    /// `Magic` without the context line, `Invalid` for anything else that is no statement.
    pub fn from_signed_bytes(bytes: &[u8]) -> Result<Statement, DecodeError> {
        let body = bytes.strip_prefix(CONTEXT).ok_or(DecodeError::Magic { what: "statement" })?;
        match postcard::take_from_bytes(body) {
            Ok((statement, [])) => Ok(statement),
            _ => Err(DecodeError::Invalid { what: "statement" }),
        }
    }
}

/// Receipts of version 1: read, not written any more. They hold the bare key, and nothing of how the copy was made.
pub mod v1 {
    use super::{DecodeError, Deserialize, Digest, Serialize};

    /// As [`crate::message::Totals`] was.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
    pub struct Totals {
        /// Entries done.
        pub done: u64,
        /// Entries that were there already.
        pub unchanged: u64,
        /// Entries left out on purpose.
        pub skipped: u64,
        /// Entries that failed.
        pub failed: u64,
        /// Entries removed by `--delete`.
        pub deleted: u64,
        /// Content bytes of the entries done.
        pub bytes_done: u64,
        /// Content bytes that arrived, repetitions included.
        pub bytes_received: u64,
        /// Content bytes found from an earlier attempt.
        pub bytes_resumed: u64,
        /// Chunks that came damaged and were sent again.
        pub chunks_repaired: u64,
    }

    /// As [`super::Statement`].
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Statement {
        /// BLAKE3 over the lines of all settled entries.
        pub root: Digest,
        /// Entries in it.
        pub entries: u64,
        /// The receiver's totals.
        pub totals: Totals,
        /// When, in seconds since 1970 by the signer's clock.
        pub signed_at: i64,
    }

    /// As [`super::Signed`].
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Signed {
        /// The statement.
        pub statement: Statement,
        /// Ed25519 public key of the signer.
        pub public_key: [u8; 32],
        /// Signature over [`Statement::signed_bytes`].
        #[serde(with = "serde_bytes")]
        pub signature: Vec<u8>,
    }

    impl Signed {
        /// Reads a signed statement. Says nothing about the signature.
        ///
        /// # Errors
        /// `Invalid` for anything else.
        pub fn from_bytes(bytes: &[u8]) -> Result<Signed, DecodeError> {
            match postcard::take_from_bytes(bytes) {
                Ok((signed, [])) => Ok(signed),
                _ => Err(DecodeError::Invalid { what: "signed statement" }),
            }
        }
    }

    impl Statement {
        /// The bytes that are signed: a context line, then the statement as postcard.
        pub fn signed_bytes(&self) -> Vec<u8> {
            postcard::to_extend(self, b"thalweg receipt v1\n".to_vec()).unwrap_or_default()
        }
    }
}
