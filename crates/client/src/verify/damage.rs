//! Which bytes of a damaged file differ, as far as the receipt has the digests of its parts.

use super::Told;
use super::judge::Judge;
use super::receipt::Receipt;
use crate::reach::Reach;
use crate::receipt_file::{self, Part, Seal};
use std::cell::Cell;
use std::ops::Range;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_wire::RelativePath;
use thalweg_wire::digest::{PieceHasher, Pieces};

/// Links that may be lost while one file is read: over each it is read from its beginning.
const LINKS_MAX: u32 = 16;

/// Why a search came to nothing.
enum Ended {
    /// For a reason that is that file's alone.
    Of(Failure),
    /// The place cannot be reached any more.
    Away(Failure),
}

/// What came of a search: which bytes differ.
type Searched = std::result::Result<Vec<Range<u64>>, Ended>;

/// Tells which bytes of the damaged files differ, where the receipt has the digests of their parts. If the place cannot
/// be reached any more, that is told once, and nothing of the other files; it ends what is yet to list it, and nothing
/// is looked at for further receipts. A file over which link after link is lost is named, and the others are looked at.
pub(super) fn locate(
    reach: &Reach,
    is_single: bool,
    of: (&Receipt, &Seal),
    judge: &mut Judge<'_, '_>,
) -> Result<()> {
    let look = |path: &RelativePath, pieces: &Pieces, bytes: u64| {
        let place = if is_single { &b""[..] } else { path.as_bytes() };
        search(&reach.below(place), pieces, bytes)
    };
    locate_by(&look, is_single, of, judge)
}

fn locate_by(
    look: &dyn Fn(&RelativePath, &Pieces, u64) -> Searched,
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
        match look(&path, &pieces, bytes) {
            Ok(differing) => (judge.tell)(Told::Damage(&path, &differing)),
            Err(Ended::Of(failure)) => (judge.tell)(Told::Trouble(&failure.at(&path))),
            // The patience was waited for, and would be with each of the others, and for what is to be listed.
            Err(Ended::Away(failure)) => {
                let failure = failure.at(&path);
                match judge.found.extra.is_some() && !is_single {
                    true => judge.stop(failure),
                    false => {
                        judge.is_away = true;
                        (judge.tell)(Told::Trouble(&failure));
                    }
                }
                return Ok(());
            }
        }
    }
    parts.end()
}

/// Which bytes of a file of so many differ. Where a link is lost that another one replaces, it is read again.
fn search(file: &Reach, pieces: &Pieces, bytes: u64) -> Searched {
    let lost = Cell::new(file.links_lost());
    // It waits for another link, where there may be one.
    let has_another = || -> Result<bool> {
        file.entry(b"")?;
        let now = file.links_lost();
        Ok(lost.replace(now) != now)
    };
    search_by((pieces, bytes), &|take| file.read(take), &has_another)
}

/// Takes the bytes of a file.
type Take<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

fn search_by(
    (pieces, bytes): (&Pieces, u64),
    read: &dyn Fn(&mut Take<'_>) -> Result<()>,
    has_another: &dyn Fn() -> Result<bool>,
) -> Searched {
    let mut links = 0;
    loop {
        let mut search = Search::new(pieces, bytes);
        let failure = match read(&mut |bytes| search.take(bytes)) {
            Ok(()) => return Ok(search.end()),
            Err(failure) if failure.kind != FailureKind::Connection => return Err(Ended::Of(failure)),
            Err(failure) => failure,
        };
        match has_another() {
            Ok(true) => links += 1,
            Ok(false) => return Err(Ended::Away(failure)),
            Err(why) if why.kind == FailureKind::Connection => return Err(Ended::Away(why)),
            Err(why) => return Err(Ended::Of(why)),
        }
        if links > LINKS_MAX {
            let cause = format!("{}; {links} links were lost while it was read", failure.cause);
            return Err(Ended::Of(Failure { cause, ..failure }));
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

#[cfg(test)]
mod tests {
    use super::super::{Expected, seal};
    use super::*;
    use crate::receipt_file::tests::Sample;
    use thalweg_wire::{Digest, digest};

    fn lost() -> Failure {
        Failure::new(FailureKind::Connection, "read", "the link is gone")
    }

    fn parts(of: u8) -> Pieces {
        Pieces { piece_bytes: 64 << 10, digests: vec![Digest([of; 32]), Digest([of + 1; 32])] }
    }

    #[test]
    fn a_file_over_which_link_after_link_is_lost_ends_by_itself_and_a_place_that_is_away_ends_all() {
        let pieces = parts(1);
        let reads = Cell::new(0);
        let searched = |is_back: &dyn Fn() -> Result<bool>| {
            reads.set(0);
            let read = || {
                reads.set(reads.get() + 1);
                Err(lost())
            };
            search_by((&pieces, 100_000), &|_| read(), is_back)
        };
        let Err(Ended::Of(failure)) = searched(&|| Ok(true)) else { panic!("it is that file's alone") };
        assert_eq!((failure.kind, reads.get()), (FailureKind::Connection, LINKS_MAX + 1));
        assert!(failure.cause.ends_with("; 17 links were lost while it was read"), "{failure}");
        assert!(matches!(searched(&|| Ok(false)), Err(Ended::Away(_))));
        assert!(matches!(searched(&|| Err(lost())), Err(Ended::Away(_))));
        let gone = || Err(Failure::new(FailureKind::NotFound, "look", "there is none"));
        assert!(matches!(searched(&gone), Err(Ended::Of(_))) && reads.get() == 1);
    }

    #[test]
    fn behind_a_file_that_could_not_be_searched_the_others_are_and_behind_a_place_that_is_away_none() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| RelativePath::new(name.into()).unwrap();
        let files = [(path("a"), parts(1)), (path("b"), parts(3))];
        let digest_of = |pieces: &Pieces| digest::join(&pieces.digests, true);
        let lines = files
            .each_ref()
            .map(|(path, pieces)| format!("{}  100000  file  done  {path}\n", digest_of(pieces)));
        let told_before: String =
            files.iter().map(|(path, pieces)| receipt_file::pieces(path, pieces) + "\n").collect();
        let text = Sample::new(&[lines[0].as_str(), lines[1].as_str()]).text();
        let text = text.replacen("{\"block\":0}\n", &format!("{told_before}{{\"block\":0}}\n"), 1);
        std::fs::write(scratch.path().join("receipt"), text).unwrap();
        let receipt = Receipt::open(&scratch.path().join("receipt")).unwrap();
        let sealed = seal(&receipt, &Expected::default()).unwrap();
        for (is_away, expected) in [(false, vec!["trouble a", "damage b"]), (true, vec!["trouble a"])] {
            let mut told = Vec::new();
            let mut tell = |what: Told<'_>| match what {
                Told::Damage(path, _) => told.push(format!("damage {path}")),
                Told::Trouble(failure) => {
                    told.push(format!("trouble {}", failure.path.as_ref().unwrap()));
                }
                other => panic!("{other:?}"),
            };
            let mut judge = Judge::new(false, &mut tell).on(&sealed);
            for (path, pieces) in &files {
                judge.damaged.insert(path.clone(), (100_000, digest_of(pieces)));
            }
            let look = |path: &RelativePath, _: &Pieces, _: u64| match (path.as_bytes(), is_away) {
                (b"a", true) => Err(Ended::Away(lost())),
                (b"a", false) => Err(Ended::Of(lost())),
                _ => Ok(std::iter::once(0..1).collect()),
            };
            locate_by(&look, false, (&receipt, &sealed), &mut judge).unwrap();
            assert_eq!((judge.is_away, judge.stopped.is_some()), (is_away, false));
            drop(judge);
            assert_eq!(told, expected);
        }
    }
}
