//! Counts what was found of each line, tells it, and keeps what a later pass has to look at.

use super::compare::{Identity, Seen, Standing, UNTOLD, Verdict, short};
use super::sample::{Sample, Sampled};
use super::{Found, Tell, Told};
use crate::receipt_file::Seal;
use std::collections::{BTreeMap, HashMap, HashSet};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_wire::receipt::Line;
use thalweg_wire::{Digest, RelativePath};

/// Damaged files of which the damage is looked for, at most: each is read again.
const LOCATED_MAX: usize = 4096;

/// Counts and tells.
pub(super) struct Judge<'a, 'b> {
    /// Hashes of the paths that the receipts have, to find what they do not have.
    known: Option<HashSet<[u8; 16]>>,
    /// Hashes of directories that were looked at; only where there are several receipts, of which each has them all.
    directories: Option<HashSet<[u8; 16]>>,
    pub(super) tell: &'a mut Tell<'b>,
    pub(super) stopped: Option<Failure>,
    /// The place cannot be reached any more, which is told: nothing else is looked at, and what was found stands.
    pub(super) is_away: bool,
    pub(super) found: Found,
    /// Of which files content is read, if not of all.
    sample: Option<&'a Sample>,
    /// Files with wrong content, and what they should have: bytes and digest.
    pub(super) damaged: HashMap<RelativePath, (u64, Digest)>,
    /// What was found of the files, and of links, FIFOs and devices; only for a receipt with hard links.
    files: Option<HashMap<Identity, Standing>>,
    /// Links, FIFOs and devices that are as the receipt says ([`Seen::bare`]): never more than there are `files`.
    bare: HashSet<[u8; 16]>,
    /// Hard links, until all files were looked at.
    links: Vec<(RelativePath, Seen)>,
}

impl<'a, 'b> Judge<'a, 'b> {
    pub(super) fn new(strict: bool, tell: &'a mut Tell<'b>) -> Judge<'a, 'b> {
        Judge {
            known: strict.then(HashSet::new),
            directories: None,
            tell,
            stopped: None,
            is_away: false,
            found: Found { extra: strict.then_some(0), ..Found::default() },
            sample: None,
            damaged: HashMap::new(),
            files: None,
            bare: HashSet::new(),
            links: Vec::new(),
        }
    }

    /// The same for as many receipts together.
    pub(super) fn of(self, receipts: usize) -> Self {
        Judge { directories: (receipts > 1).then(HashSet::new), ..self }
    }

    /// The same for the lines of the next receipt. Names of one file are all in one.
    pub(super) fn on(mut self, seal: &Seal) -> Self {
        self.found.failed = self.found.failed.saturating_add(seal.failed);
        self.found.skipped = self.found.skipped.saturating_add(seal.skipped);
        self.damaged.clear();
        self.bare.clear();
        self.links.clear();
        Judge { files: (seal.hard_links > 0).then(HashMap::new), ..self }
    }

    /// Whether this is a directory that was looked at for another receipt.
    pub(super) fn has_looked_at(&mut self, line: &Line) -> bool {
        let Some(directories) = self.directories.as_mut().filter(|_| line.kind == "directory") else {
            return false;
        };
        let is_new = directories.insert(short(line.path.as_bytes()));
        if !is_new {
            (self.tell)(Told::Looked(line.bytes));
        }
        !is_new
    }

    /// The same where content is read of a sample alone, if there is one.
    pub(super) fn reading(mut self, sample: Option<&'a Sample>) -> Self {
        self.found.sampled = sample.map(|sample| Sampled { files: 0, bytes: 0, ..sample.drawn });
        Judge { sample, ..self }
    }

    /// A later line says what is there.
    pub(super) fn pass_over(&mut self, line: &Line) {
        (self.tell)(Told::Looked(line.bytes));
    }

    /// False: stop.
    pub(super) fn take(&mut self, line: &Line, verdict: Verdict, seen: Seen) -> bool {
        self.found.entries += 1;
        (self.tell)(Told::Looked(line.bytes));
        if let (Some(files), Some(standing)) = (&mut self.files, verdict.standing())
            && seen.identity != UNTOLD
            && !matches!(line.kind.as_str(), "directory" | "hardlink")
        {
            let known = files.entry(seen.identity).or_insert(standing);
            *known = standing.max(*known);
            if standing == Standing::Same {
                self.bare.extend(seen.bare);
            }
        }
        if let Some(known) = &mut self.known {
            let path = line.path.as_bytes();
            known.insert(short(path));
            // A directory that was made on the way belongs to what is in it.
            path.iter().enumerate().filter(|(_, byte)| **byte == b'/').for_each(|(at, _)| {
                known.insert(short(&path[..at]));
            });
        }
        if let (Some(sample), Some(read)) = (self.sample, &mut self.found.sampled)
            && matches!(verdict, Verdict::Same | Verdict::Damaged(..))
            && sample.has(line)
        {
            read.files += 1;
            read.bytes = read.bytes.saturating_add(line.bytes);
        }
        match verdict {
            Verdict::Same => self.found.bytes += line.bytes,
            Verdict::Unread => {}
            Verdict::Unknown => self.found.without_digest += 1,
            Verdict::Link => self.links.push((line.path.clone(), seen)),
            Verdict::Missing(why) => {
                self.found.missing += 1;
                (self.tell)(Told::Difference("missing", &line.path, &why));
            }
            Verdict::Differs(why) => self.differs(&line.path, &why),
            Verdict::Damaged(why, digest) => {
                self.differs(&line.path, &why);
                if self.damaged.len() < LOCATED_MAX {
                    self.damaged.insert(line.path.clone(), (line.bytes, digest));
                }
            }
            Verdict::Trouble(failure) if failure.kind == FailureKind::Connection => self.stop(failure),
            Verdict::Trouble(failure) => self.is_unreadable(&failure),
        }
        self.stopped.is_none()
    }

    /// The hard links that are none of the files, nor as a link, FIFO or device of the receipt is; the others have
    /// their verdict.
    pub(super) fn take_strays(&mut self) -> BTreeMap<RelativePath, Seen> {
        let (files, mut strays) = (self.files.take().unwrap_or_default(), BTreeMap::new());
        let alike = std::mem::take(&mut self.bare);
        for (path, seen) in std::mem::take(&mut self.links) {
            match files.get(&seen.identity) {
                Some(Standing::Same | Standing::Unread) => {}
                Some(Standing::Differs) => self.differs(&path, "its file differs under its other name too"),
                Some(Standing::Unknown) => self.found.without_digest += 1,
                None if seen.identity == UNTOLD => self.found.without_digest += 1,
                None if seen.bare.is_some_and(|bare| alike.contains(&bare)) => {}
                None => {
                    strays.insert(path, seen);
                }
            }
        }
        strays
    }

    pub(super) fn differs(&mut self, path: &RelativePath, why: &str) {
        self.found.differing += 1;
        (self.tell)(Told::Difference("differs", path, why));
    }

    pub(super) fn is_unreadable(&mut self, failure: &Failure) {
        self.found.unreadable += 1;
        (self.tell)(Told::Trouble(failure));
    }

    pub(super) fn stop(&mut self, failure: Failure) {
        self.stopped.get_or_insert(failure);
    }

    pub(super) fn is_extra(&mut self, path: &RelativePath) {
        let is_known = |known: &HashSet<[u8; 16]>| known.contains(&short(path.as_bytes()));
        if !path.is_root() && !self.known.as_ref().is_some_and(is_known) {
            *self.found.extra.get_or_insert(0) += 1;
            (self.tell)(Told::Difference("extra", path, "the receipt does not have it"));
        }
    }

    pub(super) fn end(self) -> Result<Found> {
        self.stopped.map_or(Ok(self.found), Err)
    }
}
