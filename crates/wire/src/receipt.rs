//! What both movers agree was done, and sign.
//!
//! Each side makes its own statement from its own numbers: the sender from what it read and sent, the receiver from
//! what it wrote; of what was found unchanged, and was not compared with the source, the sender takes the receiver's
//! word. The root is BLAKE3 over the digests of blocks, a block is BLAKE3 over one line for each settled entry of 512
//! successive entry numbers; both sides compute it apart, so equal roots mean that both say the same of the same
//! entries.

use crate::digest::Digest;
use crate::entry::{Entry, EntryId, Kind};
use crate::message::{Check, Outcome, Place, Totals, VerifyLevel};
use crate::{DecodeError, RelativePath, limits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ops::Range;

/// The line of an entry in a receipt: what its root is computed over. `None` for entries that were not
/// copied and are not there.
///
/// ```text
/// 9f86d0…  4096  file  done  dir/name\x0awith newline
/// ```
/// Digest of the content, or of the target of a symbolic link (or `-`), bytes, kind, outcome, path; names escaped as
/// everywhere, so a line is always one line.
pub fn line(entry: &Entry, outcome: &Outcome) -> Option<String> {
    let (word, digest) = match outcome {
        Outcome::Done { digest, .. } => ("done", digest),
        Outcome::Unchanged { digest } => ("unchanged", digest),
        Outcome::Skipped(_) | Outcome::Failed(_) => return None,
    };
    let kind = match &entry.kind {
        Kind::File { marked: true, .. } => "file-marked-holes",
        kind => kind.word(),
    };
    let digest = match &entry.kind {
        Kind::Symlink { target } => Some(digest_of_target(target)),
        _ => *digest,
    };
    Some(text_of(digest, entry.content_bytes(), (kind, word), &entry.path))
}

/// What stands for where a symbolic link leads: BLAKE3 of its target.
pub fn digest_of_target(target: &[u8]) -> Digest {
    Digest(*blake3::hash(target).as_bytes())
}

/// What [`line()`] has for kinds and for outcomes.
const WORDS: (&[&str], &[&str]) = (
    &["file-marked-holes", "file", "directory", "symlink", "hardlink", "fifo", "device"],
    &["done", "unchanged"],
);

fn text_of(digest: Option<Digest>, bytes: u64, (kind, word): (&str, &str), path: &RelativePath) -> String {
    let digest = digest.map_or_else(|| "-".to_owned(), |digest| digest.to_string());
    format!("{digest}  {bytes}  {kind}  {word}  {path}\n")
}

/// Entry numbers in a block of a receipt.
pub const BLOCK_ENTRIES: u64 = 512;

/// The lines of a block that is complete, in entry order; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Which: the number of its first entry, divided by [`BLOCK_ENTRIES`].
    pub number: u64,
    /// What its digest is computed over.
    pub lines: Vec<String>,
}

impl Block {
    /// What the root is computed over.
    pub fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        for line in &self.lines {
            hasher.update(line.as_bytes());
        }
        Digest(*hasher.finalize().as_bytes())
    }
}

/// The root of a receipt with these blocks, in the order of their numbers.
pub fn root_of(blocks: impl IntoIterator<Item = Digest>) -> Digest {
    let mut hasher = blake3::Hasher::new();
    for block in blocks {
        hasher.update(&block.0);
    }
    Digest(*hasher.finalize().as_bytes())
}

/// Computes the root while entries settle in any order.
///
/// Holds the lines of blocks in which an entry is not settled, and a digest for each complete block behind those: one
/// entry that takes for ever keeps [`BLOCK_ENTRIES`] lines, however many settle after it. One in each block that does
/// keeps them all: whoever hands out numbers looks at [`RootHasher::held_bytes`] and waits. Numbers that will never
/// settle (withdrawn) must be [skipped](RootHasher::skip), which does not change the root.
#[derive(Default)]
pub struct RootHasher {
    hasher: blake3::Hasher,
    /// The first block that is not in it.
    next: u64,
    open: BTreeMap<u64, BTreeMap<u64, Option<String>>>,
    /// Complete, and behind one that is not; without a digest if they have no lines.
    closed: BTreeMap<u64, Option<Digest>>,
    entries: u64,
    /// Of the lines in open blocks.
    line_bytes: usize,
}

/// Memory of a line that is held, beside its text, and of a block that is.
const LINE_MORE_BYTES: usize = 64;
/// See [`LINE_MORE_BYTES`]. One of which lines are missing takes a leaf of a map, for a single line too.
const OPEN_BYTES: usize = 448;
/// See [`LINE_MORE_BYTES`].
const CLOSED_BYTES: usize = 64;

impl RootHasher {
    /// An entry settled with this line, if it has one. Returns the block that is complete now. An entry that was
    /// counted already is ignored.
    pub fn settled(&mut self, id: EntryId, line: Option<String>) -> Option<Block> {
        let number = id.0 / BLOCK_ENTRIES;
        if number < self.next || self.closed.contains_key(&number) {
            return None;
        }
        let lines = self.open.entry(number).or_default();
        if let Slot::Vacant(place) = lines.entry(id.0) {
            self.line_bytes += bytes_of(&line);
            place.insert(line);
        }
        if (lines.len() as u64) < BLOCK_ENTRIES {
            return None;
        }
        let block = self.close(number);
        self.take_closed();
        block
    }

    /// This number will never settle.
    pub fn skip(&mut self, id: EntryId) -> Option<Block> {
        self.settled(id, None)
    }

    /// None of these numbers will ever settle, however many they are. Returns the blocks that are complete now.
    pub fn skip_all(&mut self, numbers: Range<u64>) -> Vec<Block> {
        let (mut blocks, mut at) = (Vec::new(), numbers.start);
        while at < numbers.end {
            let number = at / BLOCK_ENTRIES;
            let is_whole = at.is_multiple_of(BLOCK_ENTRIES) && numbers.end - at >= BLOCK_ENTRIES;
            if is_whole && !self.open.contains_key(&number) {
                if number >= self.next {
                    self.closed.entry(number).or_default();
                }
                at += BLOCK_ENTRIES;
            } else {
                blocks.extend(self.skip(EntryId(at)));
                at += 1;
            }
        }
        self.take_closed();
        blocks
    }

    /// Memory that is held until blocks are complete, in bytes; about.
    pub fn held_bytes(&self) -> usize {
        self.line_bytes + self.open.len() * OPEN_BYTES + self.closed.len() * CLOSED_BYTES
    }

    /// Root over all lines so far, how many there were, and the blocks that were not complete.
    pub fn finish(mut self) -> (Digest, u64, Vec<Block>) {
        let open: Vec<u64> = self.open.keys().copied().collect();
        let rest = open.into_iter().filter_map(|number| self.close(number)).collect();
        for digest in std::mem::take(&mut self.closed).into_values() {
            self.take(digest);
        }
        (Digest(*self.hasher.finalize().as_bytes()), self.entries, rest)
    }

    fn take_closed(&mut self) {
        while let Some(digest) = self.closed.remove(&self.next) {
            self.next += 1;
            self.take(digest);
        }
    }

    fn close(&mut self, number: u64) -> Option<Block> {
        let lines = self.open.remove(&number)?;
        self.line_bytes -= lines.values().map(bytes_of).sum::<usize>();
        let lines: Vec<String> = lines.into_values().flatten().collect();
        self.entries += lines.len() as u64;
        let block = (!lines.is_empty()).then_some(Block { number, lines });
        self.closed.insert(number, block.as_ref().map(Block::digest));
        block
    }

    fn take(&mut self, block: Option<Digest>) {
        if let Some(digest) = block {
            self.hasher.update(&digest.0);
        }
    }
}

fn bytes_of(line: &Option<String>) -> usize {
    LINE_MORE_BYTES + line.as_ref().map_or(0, String::len)
}

/// First bytes of what is signed, so that no other signature of the same key passes for one of these.
const CONTEXT: &[u8] = b"thalweg receipt v1\n";
/// Of an Ed25519 signature.
const SIGNATURE_BYTES: usize = 64;

/// Which side of a transfer a mover was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// It read the source.
    Sender,
    /// It wrote the destination.
    Receiver,
}

/// What was moved. Of a dry run and of a transfer that only measures nobody states anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferKind {
    /// Files as they stood: a copy.
    Files,
    /// What was still being made: a stream.
    Stream,
}

impl TransferKind {
    /// As a receipt and the log of a daemon have it.
    pub fn word(self) -> &'static str {
        match self {
            TransferKind::Files => "files",
            TransferKind::Stream => "stream",
        }
    }
}

/// Who signs, as that side says when a transfer is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signatory {
    /// SHA-256 of the certificate whose key signs.
    pub certificate: [u8; 32],
    /// The key is kept nowhere and goes with its process: nobody can tell later whose it was.
    pub is_ephemeral: bool,
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
    /// By the sender: entries in it with a digest that is the receiver's word, as it did not read them for this
    /// transfer, or not all of them. 0 by the receiver.
    pub unread: u64,
    /// When, in seconds since 1970 by the signer's clock.
    pub signed_at: i64,
    /// Which side the signer was.
    pub side: Side,
    /// What was moved.
    pub kind: TransferKind,
    /// Who makes this statement.
    pub signer: Signatory,
    /// Who makes the other side's, as that said when the transfer was opened; the signer itself if both were one
    /// process.
    pub peer: Signatory,
    /// What ties the two statements of a transfer to each other: made from a secret of their TLS session and the number
    /// of the transfer in it. `None` if both sides were one process.
    pub session: Option<Digest>,
    /// By the receiver: the place that it wrote to, as it resolved it: an export, and the path below it; of a mover
    /// without exports, and of the client, a path of that machine. `None` by the sender, and by a receiver that keeps
    /// nothing.
    pub place: Option<Place>,
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
    /// The certificate of [`Statement::signer`], DER. Its key, Ed25519, makes the signature.
    #[serde(with = "serde_bytes")]
    pub certificate: Vec<u8>,
    /// Signature over [`Statement::signed_bytes`].
    #[serde(with = "serde_bytes")]
    pub signature: Vec<u8>,
}

impl Signed {
    /// What a correct peer would not send is refused.
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        let place = self.statement.place.as_ref();
        let export = place.and_then(|place| place.export.as_ref());
        for (what, bytes, limit) in [
            ("signature", self.signature.len(), SIGNATURE_BYTES),
            ("certificate", self.certificate.len(), limits::CERTIFICATE_BYTES_MAX),
            ("name of an export", export.map_or(0, String::len), limits::TEXT_BYTES_MAX),
            ("path", place.map_or(0, |place| place.path.len()), limits::PATH_BYTES_MAX),
        ] {
            if bytes > limit {
                return Err(DecodeError::TooLarge { what, value: bytes as u64, limit: limit as u64 });
            }
        }
        Ok(())
    }

    /// Heap bytes, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let place = self.statement.place.as_ref();
        let place = place.map_or(0, |place| place.export.as_ref().map_or(0, String::len) + place.path.len());
        size_of::<Signed>() + self.certificate.len() + self.signature.len() + place
    }

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
    /// Digest of the content, if the entry has one that was known; of a symbolic link that of its target.
    pub digest: Option<Digest>,
    /// Bytes of content.
    pub bytes: u64,
    /// What it is: the words of [`line()`].
    pub kind: String,
    /// Its name.
    pub path: RelativePath,
}

impl std::str::FromStr for Line {
    type Err = DecodeError;

    /// Reads what [`line()`] wrote, byte for byte, and nothing else. A root is computed over lines without anything
    /// between them: what is cut elsewhere would have the same.
    fn from_str(text: &str) -> Result<Line, DecodeError> {
        let invalid = || DecodeError::Invalid { what: "line of a receipt" };
        let mut fields = text.strip_suffix('\n').ok_or_else(invalid)?.splitn(5, "  ");
        let mut field = || fields.next().ok_or_else(invalid);
        let (digest, bytes, kind, word, path) = (field()?, field()?, field()?, field()?, field()?);
        let digest = if digest == "-" { None } else { Some(digest.parse()?) };
        let bytes = bytes.parse::<u64>().map_err(|_| invalid())?;
        let path = if path == "." { Vec::new() } else { crate::path::unescape(path)? };
        let path = RelativePath::new(path)?;
        let is_known = WORDS.0.contains(&kind) && WORDS.1.contains(&word);
        match is_known && text_of(digest, bytes, (kind, word), &path) == text {
            true => Ok(Line { digest, bytes, kind: kind.to_owned(), path }),
            false => Err(invalid()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line_of(id: u64) -> Option<String> {
        // Some numbers never have a line.
        (!id.is_multiple_of(7)).then(|| format!("line {id}\n"))
    }

    #[test]
    fn the_root_does_not_depend_on_the_order_in_which_entries_settle() {
        let ids: Vec<u64> = (0..5 * BLOCK_ENTRIES + 77).collect();
        let mut orders = vec![ids.clone(), ids.iter().rev().copied().collect(), ids.clone()];
        let stride = 1009;
        orders.push((0..ids.len()).map(|at| ids[at * stride % ids.len()]).collect());
        let mut roots = Vec::new();
        for order in orders {
            let mut hasher = RootHasher::default();
            let mut blocks: Vec<Block> =
                order.into_iter().filter_map(|id| hasher.settled(EntryId(id), line_of(id))).collect();
            let (root, entries, rest) = hasher.finish();
            blocks.extend(rest);
            blocks.sort_unstable_by_key(|block| block.number);
            let lines: Vec<&String> = blocks.iter().flat_map(|block| &block.lines).collect();
            assert_eq!(lines.len() as u64, entries);
            assert!(lines.into_iter().eq(&ids.iter().filter_map(|&id| line_of(id)).collect::<Vec<_>>()));
            assert_eq!(root_of(blocks.iter().map(Block::digest)), root);
            roots.push(root);
        }
        assert!(roots.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn numbers_that_are_skipped_together_leave_what_they_would_one_by_one() {
        let end = 5 * BLOCK_ENTRIES;
        let ranges = [3..9, 0..BLOCK_ENTRIES, BLOCK_ENTRIES - 1..3 * BLOCK_ENTRIES + 7, 1..end, 0..end - 1];
        for numbers in ranges {
            let (mut together, mut apart) = (RootHasher::default(), RootHasher::default());
            // In a block that is open by then.
            let id = EntryId(2 * BLOCK_ENTRIES + 6);
            for hasher in [&mut together, &mut apart] {
                assert!(hasher.settled(id, line_of(id.0)).is_none());
            }
            let blocks: Vec<Block> = numbers.clone().filter_map(|id| apart.skip(EntryId(id))).collect();
            assert_eq!(together.skip_all(numbers.clone()), blocks, "{numbers:?}");
            assert_eq!(together.held_bytes(), apart.held_bytes(), "{numbers:?}");
            for id in (0..end).filter(|id| !numbers.contains(id)) {
                let line = || line_of(id);
                assert_eq!(together.settled(EntryId(id), line()), apart.settled(EntryId(id), line()));
            }
            assert_eq!(together.finish(), apart.finish(), "{numbers:?}");
        }
    }

    #[test]
    fn one_entry_that_never_settles_keeps_a_block_and_not_all_behind_it() {
        let mut hasher = RootHasher::default();
        for id in 1..1000 * BLOCK_ENTRIES {
            hasher.settled(EntryId(id), line_of(id));
            assert!(hasher.held_bytes() <= (2 * BLOCK_ENTRIES as usize + 1000) * 128);
        }
    }

    #[test]
    fn what_is_held_is_counted_until_the_blocks_are_complete() {
        let mut hasher = RootHasher::default();
        // One of each block is missing.
        for id in (0..8 * BLOCK_ENTRIES).filter(|id| !id.is_multiple_of(BLOCK_ENTRIES)) {
            (0..2).for_each(|_| drop(hasher.settled(EntryId(id), Some("x".repeat(100)))));
        }
        let lines = 8 * (BLOCK_ENTRIES as usize - 1);
        assert_eq!(hasher.held_bytes(), lines * (100 + LINE_MORE_BYTES) + 8 * OPEN_BYTES);
        for block in (1..8).rev() {
            hasher.skip(EntryId(block * BLOCK_ENTRIES));
            let open = block as usize * (lines / 8 * (100 + LINE_MORE_BYTES) + OPEN_BYTES);
            assert!(hasher.held_bytes() <= open + 8 * CLOSED_BYTES);
        }
        hasher.skip(EntryId(0));
        assert_eq!(hasher.held_bytes(), 0);
    }

    #[test]
    fn a_block_is_counted_as_more_than_the_one_line_that_it_has() {
        let mut hasher = RootHasher::default();
        (0..1000).for_each(|block| drop(hasher.skip(EntryId(block * BLOCK_ENTRIES))));
        assert!(hasher.held_bytes() >= 1000 * 512, "{}", hasher.held_bytes());
    }

    const NAMES: [&[u8]; 6] = [b"", b"a", b"a  b", b"x  0  file  done  y", b"a\nb", b"\xc3\xa9/\xff\\"];

    fn written(digest: Option<u8>, bytes: u64, (kind, word): (usize, usize), name: &[u8]) -> String {
        let path = RelativePath::new(name.to_vec()).unwrap();
        let digest = digest.map(|byte| Digest([byte; 32]));
        text_of(digest, bytes, (WORDS.0[kind], WORDS.1[word]), &path)
    }

    #[test]
    fn what_no_mover_writes_is_no_line() {
        let digest = "ab".repeat(32);
        let good = format!("{digest}  7  file  done  a\\x0ab\n");
        assert!(good.parse::<Line>().is_ok());
        for (from, into) in [
            ("\n", ""),
            ("\n", "\n\n"),
            ("\n", "\r\n"),
            ("\\x0a", "\n"),
            ("\\x0a", "\u{1}"),
            ("\\x0a", "\\x61"),
            ("\\x0ab", "\\x0Ab"),
            ("a\\x0ab", "-\n-  0  directory  done  ."),
            ("a\\x0ab", ""),
            ("  7", "  +7"),
            ("  7", "  07"),
            ("  7", "   7"),
            ("file", "filet"),
            ("done", "done well"),
            ("done", "failed"),
            ("ab", "AB"),
        ] {
            assert!(good.contains(from), "{from:?}");
            let bad = good.replacen(from, into, 1);
            assert!(bad.parse::<Line>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn lines_that_are_cut_elsewhere_are_no_lines(
            lines in proptest::collection::vec(
                (any::<Option<u8>>(), any::<u64>(), (0..WORDS.0.len(), 0..WORDS.1.len()), 0..NAMES.len()),
                1..5,
            ),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..5),
        ) {
            let lines: Vec<String> =
                lines.into_iter().map(|(digest, bytes, words, name)| written(digest, bytes, words, NAMES[name])).collect();
            prop_assert!(lines.iter().all(|line| line.parse::<Line>().is_ok()));
            let text = lines.concat();
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let mut at: Vec<usize> = cuts.into_iter().map(|cut| places[cut.index(places.len())]).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            at.dedup();
            let pieces: Vec<&str> = at.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
            let all_are_lines = pieces.iter().all(|piece| piece.parse::<Line>().is_ok());
            prop_assert_eq!(all_are_lines, pieces == lines);
        }
    }

    #[test]
    fn an_entry_counts_once() {
        let mut hasher = RootHasher::default();
        for _ in 0..3 {
            (0..2 * BLOCK_ENTRIES).for_each(|id| drop(hasher.settled(EntryId(id), Some("x\n".into()))));
        }
        assert_eq!(hasher.finish().1, 2 * BLOCK_ENTRIES);
    }
}
