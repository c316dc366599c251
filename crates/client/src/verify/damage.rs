//! Which bytes of a damaged file differ, as far as the receipt has the digests of its parts.

use super::Told;
use super::judge::Judge;
use super::receipt::Receipt;
use crate::reach::Reach;
use crate::receipt_file::{self, Part, Seal};
use std::ops::Range;
use thalweg_mover::failure::{FailureKind, Result};
use thalweg_wire::digest::{PieceHasher, Pieces};

/// Links that may be lost while one file is read: over each it is read from its beginning.
const LINKS_MAX: u32 = 16;

/// Tells which bytes of the damaged files differ, where the receipt has the digests of their parts. If the place cannot
/// be reached any more, that is told once, and nothing of the other files; it ends what is yet to list it.
pub(super) fn locate(
    reach: &Reach,
    is_single: bool,
    (receipt, seal): (&Receipt, &Seal),
    judge: &mut Judge<'_, '_>,
) -> Result<()> {
    if judge.damaged.is_empty() {
        return Ok(());
    }
    let mut parts = receipt.pass(seal)?;
    while let Some(part) = parts.next_part()? {
        let Part::Pieces(path, pieces) = part else { continue };
        let Some(&(bytes, digest)) = judge.damaged.get(&path) else { continue };
        // Of what it was before, if it is in the receipt twice.
        if !receipt_file::are_parts_of(&pieces, bytes, digest) {
            continue;
        }
        let place = if is_single { &b""[..] } else { path.as_bytes() };
        match search(&reach.below(place), &pieces, bytes) {
            Ok(differing) => (judge.tell)(Told::Damage(&path, &differing)),
            // The patience was waited for, and would be with each of the others, and for what is to be listed.
            Err(failure) if failure.kind == FailureKind::Connection => {
                let failure = failure.at(&path);
                match judge.found.extra.is_some() && !is_single {
                    true => judge.stop(failure),
                    false => (judge.tell)(Told::Trouble(&failure)),
                }
                return Ok(());
            }
            Err(failure) => (judge.tell)(Told::Trouble(&failure.at(&path))),
        }
    }
    parts.end()
}

/// Which bytes of a file of so many differ. Where a link is lost that another one replaces, it is read again.
fn search(file: &Reach, pieces: &Pieces, bytes: u64) -> Result<Vec<Range<u64>>> {
    let mut links = 0;
    loop {
        let (mut search, lost) = (Search::new(pieces, bytes), file.links_lost());
        match file.read(&mut |bytes| search.take(bytes)) {
            Ok(()) => return Ok(search.end()),
            Err(failure) if failure.kind == FailureKind::Connection && links < LINKS_MAX => {
                // It waits for another link, where there may be one.
                file.entry(b"")?;
                if file.links_lost() == lost {
                    return Err(failure);
                }
                links += 1;
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Compares a file, as it is read, with the digests of its parts.
struct Search<'a> {
    pieces: &'a Pieces,
    file_bytes: u64,
    at: u64,
    /// Of the part that is being read, and where that part ends.
    hasher: Option<(PieceHasher, u64)>,
    /// Byte ranges that differ; neighbours are one.
    differing: Vec<Range<u64>>,
}

impl<'a> Search<'a> {
    fn new(pieces: &'a Pieces, file_bytes: u64) -> Self {
        Search { pieces, file_bytes, at: 0, hasher: None, differing: Vec::new() }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() && self.at < self.file_bytes {
            let start = self.at - self.at % self.pieces.piece_bytes;
            let end = self.file_bytes.min(start + self.pieces.piece_bytes);
            let (hasher, _) = self
                .hasher
                .get_or_insert_with(|| (PieceHasher::new(start, end - start, self.file_bytes), end));
            let step = bytes.len().min(usize::try_from(end - self.at).unwrap_or(usize::MAX));
            hasher.update(&bytes[..step]);
            bytes = &bytes[step..];
            self.at += step as u64;
            if self.at == end
                && let Some((hasher, _)) = self.hasher.take()
            {
                let expected = &self.pieces.digests[(start / self.pieces.piece_bytes) as usize];
                if hasher.finish() != *expected {
                    self.differs(start..end);
                }
            }
        }
        Ok(())
    }

    /// What is missing at the end differs too.
    fn end(mut self) -> Vec<Range<u64>> {
        if self.at < self.file_bytes {
            let start = self.at - self.at % self.pieces.piece_bytes;
            self.differs(start..self.file_bytes);
        }
        self.differing
    }

    fn differs(&mut self, range: Range<u64>) {
        match self.differing.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.differing.push(range),
        }
    }
}
