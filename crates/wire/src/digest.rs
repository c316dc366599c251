//! Combines the digests of pieces, hashed in any order on any host, into exactly the BLAKE3 hash of the file.
//!
//! BLAKE3 is a binary tree over 1 KiB leaves (BLAKE3 specification, section 2.1). A piece that starts at a
//! multiple of its own power-of-two length is a whole subtree, so its chaining value can be computed alone.
//! Joining chaining values as the tree does gives the root that `b3sum` prints, without an extra pass.
//!
//! Pieces here are segments (inside a chunk) and chunks (inside a file). A piece that is the whole file has
//! the root hash itself as its digest.
//!
//! One exception, named in the receipt: leaves carry their position, so hashing a hole costs as much as
//! hashing data. A file with more than [`HASHED_HOLE_BYTES_MAX`] of holes is digested with *marked holes*:
//! every whole segment of zeros counts as [`hole_mark`], whatever the disk keeps for it. That digest is
//! a function of content and segment size alone, but it is not what `b3sum` prints.

use blake3::hazmat::{self, HasherExt, Mode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Holes up to this total are hashed as the zeros they read as: about 0.2 s of one core.
pub const HASHED_HOLE_BYTES_MAX: u64 = 1 << 30;

/// A BLAKE3 root hash or the chaining value of a subtree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // At once, not digit by digit: both sides of a transfer write every digest into the receipt.
        let mut text = [0; 64];
        for (digits, byte) in text.chunks_exact_mut(2).zip(self.0) {
            let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
            digits.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::str::FromStr for Digest {
    type Err = crate::DecodeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hash =
            blake3::Hash::from_hex(text).map_err(|_| crate::DecodeError::Invalid { what: "digest" })?;
        Ok(Digest(*hash.as_bytes()))
    }
}

/// Digest of the piece `bytes` at `offset` of a file of `file_bytes`.
///
/// The piece must be a subtree: not empty unless the file is, and aligned to its own power-of-two length of
/// at least 1 KiB or ending at the end of the file.
///
/// # Panics
/// For a piece that is no subtree. Where a peer's numbers come in, use [`Rule`], which checks.
pub fn of_piece(offset: u64, bytes: &[u8], file_bytes: u64) -> Digest {
    let mut hasher = PieceHasher::new(offset, bytes.len() as u64, file_bytes);
    hasher.update(bytes);
    hasher.finish()
}

/// Digest of a piece of zeros, computed from one small buffer.
pub fn of_zeros(offset: u64, bytes: u64, file_bytes: u64) -> Digest {
    static ZEROS: [u8; 128 << 10] = [0; 128 << 10];
    let mut hasher = PieceHasher::new(offset, bytes, file_bytes);
    let mut left = bytes;
    while left > 0 {
        let step = left.min(ZEROS.len() as u64);
        hasher.update(&ZEROS[..step as usize]);
        left -= step;
    }
    hasher.finish()
}

/// What stands for a segment of `segment_bytes` zeros where holes are marked.
pub fn hole_mark(segment_bytes: u64) -> Digest {
    Digest(blake3::derive_key("thalweg 2026-11 marked hole", &segment_bytes.to_le_bytes()))
}

/// What stands for a chunk of zeros where holes are marked: its marked segments, joined.
pub fn hole_chunk_mark(chunk_bytes: u64, segment_bytes: u64) -> Digest {
    let levels = (chunk_bytes / segment_bytes).trailing_zeros();
    (0..levels).fold(hole_mark(segment_bytes), |digest, _| join_pair(digest, digest, false))
}

/// How the pieces of one file are digested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Length of the file.
    pub file_bytes: u64,
    /// Length of a segment.
    pub segment_bytes: u64,
    /// Whether holes are marked.
    pub marked: bool,
}

impl Rule {
    /// Digest of the segment `bytes` at `offset`; `None` if the file has no such segment.
    pub fn segment(&self, offset: u64, bytes: &[u8]) -> Option<Digest> {
        self.has(offset, bytes.len() as u64).then(|| {
            if self.marked && bytes.len() as u64 == self.segment_bytes && is_zero(bytes) {
                return hole_mark(self.segment_bytes);
            }
            of_piece(offset, bytes, self.file_bytes)
        })
    }

    /// Digest of a segment of `bytes` zeros at `offset`; `None` if the file has no such segment.
    pub fn zeros(&self, offset: u64, bytes: u64) -> Option<Digest> {
        self.has(offset, bytes).then(|| {
            if self.marked && bytes == self.segment_bytes {
                return hole_mark(self.segment_bytes);
            }
            of_zeros(offset, bytes, self.file_bytes)
        })
    }

    /// Whether a segment of the file starts at `offset` and is `bytes` long.
    fn has(&self, offset: u64, bytes: u64) -> bool {
        let left = self.file_bytes.saturating_sub(offset);
        offset.is_multiple_of(self.segment_bytes)
            && bytes == left.min(self.segment_bytes)
            && (bytes > 0 || self.file_bytes == 0)
    }
}

/// Whether all bytes are zero; stops at the first that is not.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().all(|block| block.iter().fold(0, |any, &byte| any | byte) == 0)
        && rest.iter().all(|&byte| byte == 0)
}

/// Hashes one piece in steps.
pub struct PieceHasher {
    hasher: blake3::Hasher,
    is_whole_file: bool,
}

impl PieceHasher {
    /// As [`of_piece`], for bytes that come in parts.
    pub fn new(offset: u64, piece_bytes: u64, file_bytes: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        let is_whole_file = offset == 0 && piece_bytes == file_bytes;
        if !is_whole_file {
            hasher.set_input_offset(offset);
        }
        PieceHasher { hasher, is_whole_file }
    }

    /// Appends bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// The digest of everything appended.
    pub fn finish(self) -> Digest {
        Digest(if self.is_whole_file {
            *self.hasher.finalize().as_bytes()
        } else {
            self.hasher.finalize_non_root()
        })
    }
}

/// Joins the digests of neighbouring pieces, all of one power-of-two length but the last, which may be
/// shorter. `is_whole_file` if together they are the file. A single piece is already final.
///
/// # Panics
/// If `pieces` is empty.
pub fn join(pieces: &[Digest], is_whole_file: bool) -> Digest {
    if pieces.len() == 1 {
        return pieces[0];
    }
    let left = pieces.len().next_power_of_two() / 2;
    let (left, right) = pieces.split_at(left);
    join_pair(join(left, false), join(right, false), is_whole_file)
}

fn join_pair(left: Digest, right: Digest, is_root: bool) -> Digest {
    Digest(if is_root {
        *hazmat::merge_subtrees_root(&left.0, &right.0, Mode::Hash).as_bytes()
    } else {
        hazmat::merge_subtrees_non_root(&left.0, &right.0, Mode::Hash)
    })
}

/// The chunks of one file that are there, with their digests, joined as far as they reach.
///
/// Memory grows with the number of gaps, not with the number of chunks: two neighbours that complete a
/// subtree become one node. Marked holes are runs, however long, until a node beside them takes some.
#[derive(Debug, Clone)]
pub struct Tree {
    chunks: u64,
    present: u64,
    /// First chunk of a maximal complete subtree that is not all hole -> (its height, its digest).
    nodes: BTreeMap<u64, (u8, Digest)>,
    /// First chunk of a run of marked holes that are in no node -> chunk after its last.
    holes: BTreeMap<u64, u64>,
    /// What stands for a chunk of them.
    mark: Digest,
    kept: Option<Kept>,
}

/// Digests that a tree keeps although they were joined: of all complete subtrees of one height.
#[derive(Debug, Clone)]
struct Kept {
    height: u8,
    digests: BTreeMap<u64, Digest>,
}

/// Digests of the parts of a file, which join to that of the whole: where it is damaged can be told from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pieces {
    /// Bytes of each part but the last, which may be shorter: a power of two times the chunk size.
    pub piece_bytes: u64,
    /// In order; more than one, at most [`PIECES_MAX`].
    pub digests: Vec<Digest>,
}

/// Parts of one file that are remembered: each chunk of a file up to 64 GiB in chunks of 4 MiB; beyond it, parts of
/// several chunks. Half a megabyte of digests for a file that is under way.
pub const PIECES_MAX: u64 = 16 << 10;

impl Tree {
    /// A file of `file_bytes` in chunks of `chunk_bytes`, none of them there yet. An empty file has one
    /// chunk, which is empty.
    pub fn new(file_bytes: u64, chunk_bytes: u64) -> Self {
        Tree {
            chunks: chunk_count(file_bytes, chunk_bytes),
            present: 0,
            nodes: BTreeMap::new(),
            holes: BTreeMap::new(),
            mark: Digest::default(),
            kept: None,
        }
    }

    /// Keeps the digests of equal parts of the file from now on, for [`Tree::pieces`]: of single chunks, or of as many
    /// chunks together as makes at most `most` parts. Call it before the first chunk is added, and not for a file with
    /// marked holes: its parts could not be compared with bytes.
    pub fn keep_pieces(&mut self, most: u64) {
        let mut height = 0;
        while self.chunks.div_ceil(1 << height) > most {
            height += 1;
        }
        // A file that is one part has nothing to tell apart.
        if self.chunks > 1 << height {
            self.kept = Some(Kept { height, digests: BTreeMap::new() });
        }
    }

    /// The parts of a complete file; `None` if it is not complete, or if they were not kept.
    pub fn pieces(&self, chunk_bytes: u64) -> Option<Pieces> {
        let kept = self.kept.as_ref().filter(|_| self.is_complete())?;
        let mut digests: Vec<Digest> = kept.digests.values().copied().collect();
        // The last part is complete without being a subtree of full height.
        let last = self.chunks >> kept.height << kept.height;
        let rest = self.nodes.range(last..).rev().map(|(_, &(_, digest))| digest);
        digests.extend(rest.reduce(|right, left| join_pair(left, right, false)));
        Some(Pieces { piece_bytes: chunk_bytes << kept.height, digests })
    }

    /// Adds a chunk; false if it was there already (the digest is then left as it was).
    ///
    /// # Panics
    /// If `chunk` is beyond the end of the file: callers check a peer's numbers first.
    pub fn insert(&mut self, chunk: u64, digest: Digest) -> bool {
        assert!(chunk < self.chunks, "chunk {chunk} of {}", self.chunks);
        if self.contains(chunk) {
            return false;
        }
        self.place(chunk, 0, digest);
        self.present += 1;
        true
    }

    /// Adds `count` chunks of zeros from `first` on, as marked holes; `mark` stands for one of them, the same
    /// for all of a file. Chunks that are there stay. Takes time proportional to gaps and height, not to
    /// `count`.
    pub fn insert_marked_holes(&mut self, first: u64, count: u64, mark: Digest) {
        self.mark = mark;
        let end = first.saturating_add(count).min(self.chunks);
        for (start, stop) in self.missing_between(first, end) {
            self.present += stop - start;
            let (mut start, mut stop) = (start, stop);
            if let Some((&before, &touching)) = self.holes.range(..start).next_back()
                && touching == start
            {
                self.holes.remove(&before);
                start = before;
            }
            if let Some(after) = self.holes.remove(&stop) {
                stop = after;
            }
            self.holes.insert(start, stop);
            // Either neighbour may be what completes a subtree with some of it.
            let left = self.nodes.range(..start).next_back().map(|(&node, &(height, _))| (node, height));
            if let Some((node, _)) = left.filter(|&(node, height)| node + (1u64 << height) == start) {
                self.place_again(node);
            }
            self.place_again(stop);
        }
    }

    /// Runs of marked holes that are kept beside the nodes: what holes take of its memory.
    pub fn hole_runs(&self) -> usize {
        self.holes.len()
    }

    /// All that it keeps: nodes, and runs of marked holes.
    pub fn parts(&self) -> usize {
        self.nodes.len() + self.holes.len()
    }

    /// Whether `chunk` is there.
    pub fn contains(&self, chunk: u64) -> bool {
        self.covered_until(chunk).is_some()
    }

    /// The chunk after the node or the run of holes that `chunk` is in.
    fn covered_until(&self, chunk: u64) -> Option<u64> {
        let node =
            self.nodes.range(..=chunk).next_back().map(|(&first, &(height, _))| first + (1u64 << height));
        let hole = self.holes.range(..=chunk).next_back().map(|(_, &stop)| stop);
        node.into_iter().chain(hole).find(|&stop| stop > chunk)
    }

    /// Chunks of the file.
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Chunks that are there.
    pub fn present(&self) -> u64 {
        self.present
    }

    /// Whether all chunks are there.
    pub fn is_complete(&self) -> bool {
        self.present == self.chunks
    }

    /// Runs `(first, end)` of chunks that are not there, in order.
    pub fn missing(&self) -> Vec<(u64, u64)> {
        self.missing_between(0, self.chunks)
    }

    fn missing_between(&self, first: u64, end: u64) -> Vec<(u64, u64)> {
        let nodes = self.nodes.range(first..end).map(|(&node, &(height, _))| (node, node + (1u64 << height)));
        let holes = self.holes.range(first..end).map(|(&start, &stop)| (start, stop));
        let mut there: Vec<(u64, u64)> = nodes.chain(holes).collect();
        // Two sequences in order: this takes time proportional to their length.
        there.sort();
        let mut runs = Vec::new();
        let mut at = self.covered_until(first).unwrap_or(first);
        for (start, stop) in there {
            if start > at {
                runs.push((at, start));
            }
            at = at.max(stop);
        }
        if at < end {
            runs.push((at, end));
        }
        runs
    }

    /// The digest of the whole file; `None` while chunks are missing.
    pub fn root(&self) -> Option<Digest> {
        if !self.is_complete() {
            return None;
        }
        let mut parts: Vec<(u64, Digest)> =
            self.nodes.iter().map(|(&first, &(_, digest))| (first, digest)).collect();
        if !self.holes.is_empty() {
            let marks = self.marks();
            for (&start, &stop) in &self.holes {
                let subtrees = self.subtrees(start, stop);
                parts.extend(subtrees.into_iter().map(|(at, height)| (at, marks[usize::from(height)])));
            }
            parts.sort_unstable_by_key(|&(first, _)| first);
        }
        let mut digests = parts.into_iter().rev().map(|(_, digest)| digest);
        let mut right = digests.next()?;
        let mut rest = digests.peekable();
        while let Some(left) = rest.next() {
            right = join_pair(left, right, rest.peek().is_none());
        }
        Some(right)
    }

    /// What stands for marked holes of each height.
    fn marks(&self) -> Vec<Digest> {
        let next = |mark: &Digest| Some(join_pair(*mark, *mark, false));
        std::iter::successors(Some(self.mark), next).take(64).collect()
    }

    /// The largest subtrees that `start..stop` consists of, with their heights, in order.
    fn subtrees(&self, start: u64, stop: u64) -> Vec<(u64, u8)> {
        let mut subtrees = Vec::new();
        let mut at = start;
        while at < stop {
            let aligned = if at == 0 { 63 } else { at.trailing_zeros() };
            let mut height = aligned.min(63 - (stop - at).leading_zeros()) as u8;
            // The whole file is never one node: its last join makes the root.
            while height > 0 && at == 0 && (1u64 << height) >= self.chunks {
                height -= 1;
            }
            subtrees.push((at, height));
            at += 1 << height;
        }
        subtrees
    }

    /// A node beside which there are more holes than when it was placed; nothing without one there.
    fn place_again(&mut self, node: u64) {
        if let Some((height, digest)) = self.nodes.remove(&node) {
            self.place(node, height, digest);
        }
    }

    /// Takes `first..end` out of a run of holes that has all of it; false if none has.
    fn take_holes(&mut self, first: u64, end: u64) -> bool {
        let run = self.holes.range(..=first).next_back().map(|(&start, &stop)| (start, stop));
        let Some((start, stop)) = run.filter(|&(_, stop)| stop >= end) else { return false };
        self.holes.remove(&start);
        if start < first {
            self.holes.insert(start, first);
        }
        if end < stop {
            self.holes.insert(end, stop);
        }
        true
    }

    fn place(&mut self, first: u64, height: u8, digest: Digest) {
        let (mut first, mut height, mut digest) = (first, height, digest);
        // What stands for holes of its height; looked up only where there are any.
        let mut mark = (!self.holes.is_empty())
            .then(|| (0..height).fold(self.mark, |mark, _| join_pair(mark, mark, false)));
        loop {
            if let Some(kept) = self.kept.as_mut().filter(|kept| height == kept.height) {
                kept.digests.insert(first, digest);
            }
            let span = 1u64 << height;
            let sibling = first ^ span;
            let parent = first & !span;
            if parent == 0 && span.checked_mul(2).is_none_or(|two| two >= self.chunks) {
                break;
            }
            let beside = match (self.nodes.get(&sibling).copied(), mark) {
                (Some((sibling_height, sibling_digest)), _) if sibling_height == height => {
                    self.nodes.remove(&sibling);
                    sibling_digest
                }
                (None, Some(mark)) if self.take_holes(sibling, sibling + span) => mark,
                _ => break,
            };
            digest = if sibling < first {
                join_pair(beside, digest, false)
            } else {
                join_pair(digest, beside, false)
            };
            mark = mark.map(|mark| join_pair(mark, mark, false));
            first = parent;
            height += 1;
        }
        self.nodes.insert(first, (height, digest));
    }
}

/// Chunks of a file; an empty file has one.
pub fn chunk_count(file_bytes: u64, chunk_bytes: u64) -> u64 {
    file_bytes.div_ceil(chunk_bytes).max(1)
}

/// Bytes of chunk `chunk`; 0 beyond the end.
pub fn chunk_length(chunk: u64, file_bytes: u64, chunk_bytes: u64) -> u64 {
    match chunk.checked_mul(chunk_bytes) {
        Some(start) => file_bytes.saturating_sub(start).min(chunk_bytes),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
    }

    fn chunk_digests(data: &[u8], chunk_bytes: u64) -> Vec<Digest> {
        let count = chunk_count(data.len() as u64, chunk_bytes);
        (0..count)
            .map(|i| {
                let start = (i * chunk_bytes) as usize;
                let len = chunk_length(i, data.len() as u64, chunk_bytes) as usize;
                of_piece(start as u64, &data[start..start + len], data.len() as u64)
            })
            .collect()
    }

    #[test]
    fn an_empty_file_has_the_hash_of_nothing() {
        let mut tree = Tree::new(0, 4096);
        assert_eq!(tree.root(), None);
        tree.insert(0, of_piece(0, &[], 0));
        assert_eq!(tree.root().unwrap().0, *blake3::hash(&[]).as_bytes());
    }

    proptest! {
        #[test]
        fn chunks_in_any_order_give_what_b3sum_prints(len in 0usize..70_000, order in any::<u64>(), level in 0u32..4) {
            let data = bytes(len);
            let chunk_bytes = 1024u64 << level;
            let digests = chunk_digests(&data, chunk_bytes);
            let mut indices: Vec<usize> = (0..digests.len()).collect();
            let mut state = order | 1;
            for i in (1..indices.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                indices.swap(i, (state >> 33) as usize % (i + 1));
            }
            let mut tree = Tree::new(len as u64, chunk_bytes);
            for (done, &i) in indices.iter().enumerate() {
                prop_assert_eq!(tree.present(), done as u64);
                prop_assert!(tree.root().is_none());
                prop_assert!(tree.insert(i as u64, digests[i]));
                prop_assert!(!tree.insert(i as u64, Digest::default()));
                let missing: u64 = tree.missing().iter().map(|(a, b)| b - a).sum();
                prop_assert_eq!(missing + tree.present(), tree.chunks());
            }
            let expected = Digest(*blake3::hash(&data).as_bytes());
            prop_assert_eq!(tree.root(), Some(expected));
            prop_assert_eq!(join(&digests, true), expected);
        }

        #[test]
        fn marked_holes_do_not_depend_on_how_they_were_added(chunks in 1u64..200, first in 0u64..200, count in 0u64..200) {
            let mark = hole_chunk_mark(1024, 1024);
            prop_assert_eq!(mark, hole_mark(1024));
            let first = first.min(chunks - 1);
            let count = count.min(chunks - first);
            let data = of_piece(0, b"data", 1 << 40);
            let mut bulk = Tree::new(chunks * 1024, 1024);
            bulk.insert_marked_holes(first, count, mark);
            prop_assert_eq!(bulk.present(), count);
            let mut single = Tree::new(chunks * 1024, 1024);
            for i in 0..chunks {
                let is_hole = i >= first && i < first + count;
                single.insert(i, if is_hole { mark } else { data });
                if !is_hole {
                    bulk.insert(i, data);
                }
            }
            prop_assert!(bulk.is_complete());
            prop_assert_eq!(bulk.root(), single.root());
        }

        #[test]
        fn pieces_are_those_of_the_file_and_join_to_its_digest(len in 0usize..70_000, most in 1u64..20, order in any::<u64>()) {
            prop_assert_eq!(PIECES_MAX, 16_384);
            let data = bytes(len);
            let digests = chunk_digests(&data, 1024);
            let mut tree = Tree::new(len as u64, 1024);
            tree.keep_pieces(most);
            let mut indices: Vec<u64> = (0..digests.len() as u64).collect();
            indices.sort_by_key(|i| (i ^ order).wrapping_mul(6_364_136_223_846_793_005));
            for i in indices {
                prop_assert_eq!(tree.pieces(1024), None);
                tree.insert(i, digests[i as usize]);
            }
            let Some(pieces) = tree.pieces(1024) else {
                prop_assert!(digests.len() == 1 || most == 1);
                return Ok(());
            };
            prop_assert!(pieces.digests.len() > 1 && pieces.digests.len() as u64 <= most);
            prop_assert_eq!(join(&pieces.digests, true), tree.root().unwrap());
            let parts = data.chunks(pieces.piece_bytes as usize).zip(&pieces.digests).enumerate();
            prop_assert_eq!(parts.len(), pieces.digests.len());
            for (at, (part, digest)) in parts {
                prop_assert_eq!(of_piece(at as u64 * pieces.piece_bytes, part, len as u64), *digest);
            }
        }

        #[test]
        fn zeros_hash_like_zeros(kib in 1u64..300, offset in 0u64..4) {
            let offset = offset * (512 << 10);
            let zeros = vec![0; (kib << 10) as usize];
            prop_assert_eq!(of_zeros(offset, kib << 10, 1 << 30), of_piece(offset, &zeros, 1 << 30));
        }
    }

    #[test]
    fn a_segment_that_the_file_does_not_have_is_refused() {
        let rule = Rule { file_bytes: (128 << 10) + 5, segment_bytes: 64 << 10, marked: false };
        assert!(rule.zeros(0, 64 << 10).is_some());
        assert!(rule.zeros(128 << 10, 5).is_some());
        for (offset, bytes) in [
            (1, 64 << 10),
            (0, 5),
            (0, 128 << 10),
            (128 << 10, 4),
            (128 << 10, 0),
            (192 << 10, 0),
            (u64::MAX, 1),
        ] {
            assert_eq!(rule.zeros(offset, bytes), None, "{offset} {bytes}");
        }
        let empty = Rule { file_bytes: 0, ..rule };
        assert_eq!(empty.zeros(0, 0).unwrap().0, *blake3::hash(&[]).as_bytes());
    }

    proptest! {
        #[test]
        fn holes_and_data_in_any_order_give_the_same_digest(kinds in proptest::collection::vec(any::<bool>(), 1..150), order in any::<u64>()) {
            let chunks = kinds.len() as u64;
            let (mark, data) = (hole_mark(1024), of_piece(0, b"data", 1 << 40));
            let digest_of = |is_hole: bool| if is_hole { mark } else { data };
            let mut plain = Tree::new(chunks * 1024, 1024);
            for at in 0..chunks {
                prop_assert!(plain.insert(at, digest_of(kinds[at as usize])));
            }
            let mut indices: Vec<u64> = (0..chunks).collect();
            indices.sort_by_key(|at| (at ^ order).wrapping_mul(6_364_136_223_846_793_005));
            let mut tree = Tree::new(chunks * 1024, 1024);
            for (done, &at) in indices.iter().enumerate() {
                prop_assert_eq!(tree.present(), done as u64);
                prop_assert!(!tree.contains(at) && tree.root().is_none());
                if kinds[at as usize] {
                    tree.insert_marked_holes(at, 1, mark);
                } else {
                    prop_assert!(tree.insert(at, data));
                }
                prop_assert!(tree.contains(at) && !tree.insert(at, Digest::default()));
                let missing: u64 = tree.missing().iter().map(|(a, b)| b - a).sum();
                prop_assert_eq!(missing + tree.present(), chunks);
            }
            prop_assert_eq!(tree.root(), plain.root());
        }
    }

    #[test]
    fn a_run_of_holes_is_one_thing_to_keep_however_long_and_odd_it_is() {
        let mut tree = Tree::new(crate::limits::FILE_BYTES_MAX, 64 << 10);
        let mark = hole_mark(64 << 10);
        // Each would be forty nodes.
        (0..1000).for_each(|at| tree.insert_marked_holes((at << 21) + 1, (1 << 21) - 3, mark));
        assert_eq!((tree.hole_runs(), tree.parts()), (1000, 1000));
        // What is between is a node with what it completes of the holes beside it.
        tree.insert(0, of_piece(0, b"data", 1 << 40));
        assert_eq!(tree.parts(), 1001);
        assert!(tree.contains(1) && tree.contains((1 << 21) - 3) && !tree.contains((1 << 21) - 2));
        assert_eq!(tree.missing()[0], ((1 << 21) - 2, (1 << 21) + 1));
    }

    #[test]
    fn the_largest_file_that_is_all_hole_is_digested_at_once() {
        let size = crate::limits::FILE_BYTES_MAX;
        let mut tree = Tree::new(size, 64 << 10);
        let chunks = tree.chunks();
        tree.insert_marked_holes(0, chunks, hole_mark(64 << 10));
        assert!(tree.is_complete());
        assert!(tree.root().is_some());
        assert_eq!(tree.parts(), 1);
    }
}
