//! A destination over a simulated disk, by the contract of [`crate::endpoint::Destination`].
//!
//! Everything here is lost when its process is killed; what it finds again stands on the [`Disk`].

use super::disk::{Disk, Inode, Name, Node};
use super::random::Random;
use super::source::chunk_digest;
use crate::failure::{Failure, FailureKind, Result};
use crate::transfer::receiver::{Candidate, Decided};
use std::collections::BTreeMap;
use thalweg_wire::digest::{self, Rule};
use thalweg_wire::journal::{self, Record};
use thalweg_wire::message::{Check, Outcome, Terms};
use thalweg_wire::{Digest, Entry, Evidence, Kind, RelativePath};

/// See the module.
pub struct Destination {
    terms: Terms,
    partials: BTreeMap<u64, Partial>,
    next: u64,
    /// What stood at a path when it was decided.
    seen: BTreeMap<RelativePath, Option<Node>>,
    staged: u64,
}

/// A partial file that the journal knows.
#[derive(Debug, Clone)]
pub struct Partial {
    /// Entry it will become.
    pub path: RelativePath,
    /// Of what content.
    pub evidence: Evidence,
    /// Its file.
    pub inode: Inode,
    chunks: BTreeMap<u64, Digest>,
}

/// A staged small file.
#[derive(Debug, Clone)]
pub struct Staged {
    name: Name,
    /// Its file.
    pub inode: Inode,
}

/// Content ready for its name.
pub enum Ready {
    /// A staged file.
    Staged(Staged),
    /// A partial, by number.
    Partial(u64),
}

impl Destination {
    /// Opens what an earlier process left: replays the journal, throws away what it does not name.
    ///
    /// First of all it makes durable whatever an earlier process left in the page cache, names and data. Else
    /// something that stands there would be told as unchanged, or a chunk written again over a damaged one
    /// be taken for the one that was recorded, and a power cut could still take it.
    pub fn open(disk: &mut Disk, terms: &Terms, random: &mut Random) -> Self {
        disk.fail_sync = false;
        let mark = disk.mark();
        disk.sync(mark, 0..disk.inodes(), random);
        let mut destination = Destination {
            terms: terms.clone(),
            partials: BTreeMap::new(),
            next: 0,
            seen: BTreeMap::new(),
            staged: 0,
        };
        let mut at = 0;
        while let Ok((record, bytes)) = Record::decode(at as u64, &disk.journal[at..]) {
            destination.replay(disk, record);
            at += bytes;
        }
        disk.truncate_journal(at);
        if at == 0 {
            let header = Record::Header {
                layout: journal::LAYOUT,
                job_key: terms.job_key,
                chunk_bytes: terms.chunk_bytes,
            };
            destination.append(disk, &header);
        }
        let litter: Vec<Name> = disk
            .names
            .keys()
            .filter(|name| match name {
                Name::Final(_) => false,
                Name::Partial(number) => !destination.partials.contains_key(number),
                Name::Staged(..) => true,
            })
            .cloned()
            .collect();
        for name in litter {
            if let Name::Partial(number) | Name::Staged(_, number) = name {
                destination.next = destination.next.max(number + 1);
            }
            disk.set(vec![(name, None)]);
        }
        destination
    }

    fn replay(&mut self, disk: &Disk, record: Record) {
        match record {
            Record::Header { .. } => {}
            Record::Begin { partial, path, evidence } => {
                self.next = self.next.max(partial + 1);
                if let Some(Node::File(inode, _)) = disk.names.get(&Name::Partial(partial)) {
                    self.partials
                        .insert(partial, Partial { path, evidence, inode: *inode, chunks: BTreeMap::new() });
                }
            }
            Record::Chunks { partial, chunks } => {
                if let Some(partial) = self.partials.get_mut(&partial) {
                    partial.chunks.extend(chunks);
                }
            }
            Record::End { partial } => {
                self.partials.remove(&partial);
            }
        }
    }

    fn append(&self, disk: &mut Disk, record: &Record) {
        let at = disk.journal.len() as u64;
        record.encode(at, &mut disk.journal);
    }

    /// Looks and decides. With the number of the partial if it is resumed.
    pub fn decide(&mut self, disk: &mut Disk, entry: &Entry) -> (Decided, Option<u64>) {
        let name = Name::Final(entry.path.clone());
        let node = disk.names.get(&name).cloned();
        if !self.parent_is_there(disk, &entry.path) {
            let failure = Failure::new(FailureKind::NotFound, "open", "No such file or directory");
            return (Decided::Settled { outcome: Outcome::Failed(failure), made: false }, None);
        }
        self.seen.insert(entry.path.clone(), node.clone());
        let wanted = match &entry.kind {
            Kind::Directory => Node::Directory,
            Kind::Symlink { target } => Node::Symlink(target.clone()),
            _ => return self.decide_file(disk, entry, node),
        };
        if node.as_ref() == Some(&wanted) {
            // The source's may go for a link that an earlier run made: so it is durable first.
            let made = matches!(wanted, Node::Symlink(_));
            return (Decided::Settled { outcome: Outcome::Unchanged { digest: None }, made }, None);
        }
        disk.set(vec![(name, Some(wanted))]);
        let outcome = Outcome::Done { digest: None, losses: Vec::new() };
        (Decided::Settled { outcome, made: true }, None)
    }

    fn decide_file(&mut self, disk: &mut Disk, entry: &Entry, node: Option<Node>) -> (Decided, Option<u64>) {
        let is_known = matches!(node, Some(Node::File(_, Some(evidence))) if evidence == entry.evidence);
        if is_known && self.terms.check == Check::Evidence {
            return (Decided::Settled { outcome: Outcome::Unchanged { digest: None }, made: false }, None);
        }
        let earlier: Vec<u64> =
            self.partials.iter().filter(|(_, partial)| partial.path == entry.path).map(|(&n, _)| n).collect();
        let candidate = match node {
            Some(Node::File(inode, _)) if self.terms.check == Check::Digest => {
                let size = disk.content(inode).len() as u64;
                Candidate::of(size, entry.evidence.size, self.terms.chunk_bytes)
            }
            _ => None,
        };
        let mut found = None;
        let mut present = Vec::new();
        for number in earlier {
            let partial = &self.partials[&number];
            if partial.evidence == entry.evidence && found.is_none() {
                present = self.sound_chunks(disk, partial, entry);
                found = Some(number);
            } else {
                self.discard(disk, Ready::Partial(number));
            }
        }
        match (found, candidate) {
            (None, None) => (Decided::Fresh, None),
            _ => (Decided::Wanted { present, candidate }, found),
        }
    }

    /// The file that stood there when the entry was decided, if it still does.
    pub fn existing(&self, disk: &Disk, entry: &Entry) -> Option<Inode> {
        let node = disk.names.get(&Name::Final(entry.path.clone()));
        match (node, self.seen.get(&entry.path)) {
            (Some(Node::File(inode, _)), Some(seen)) if seen.as_ref() == node => Some(*inode),
            _ => None,
        }
    }

    /// Digest of a chunk of the file that stands there.
    pub fn existing_chunk(&self, disk: &Disk, entry: &Entry, chunk: u64) -> Option<(Vec<u8>, Digest)> {
        let content = disk.content(self.existing(disk, entry)?);
        let start = chunk * self.terms.chunk_bytes;
        let bytes = digest::chunk_length(chunk, entry.evidence.size, self.terms.chunk_bytes);
        let piece = content.get(start as usize..(start + bytes) as usize)?;
        Some((piece.to_vec(), chunk_digest(self.rule(entry), start, piece, self.terms.chunk_bytes)))
    }

    /// Keeps the file that stands there; `None` if it is another by now.
    pub fn keep(&mut self, disk: &mut Disk, entry: &Entry, digest: Digest) -> Option<(Outcome, bool)> {
        let inode = self.existing(disk, entry)?;
        let name = Name::Final(entry.path.clone());
        let node = Node::File(inode, Some(entry.evidence));
        let made = disk.names.get(&name) != Some(&node);
        if made {
            disk.set(vec![(name, Some(node.clone()))]);
            self.seen.insert(entry.path.clone(), Some(node));
        }
        Some((Outcome::Unchanged { digest: Some(digest) }, made))
    }

    fn sound_chunks(&self, disk: &Disk, partial: &Partial, entry: &Entry) -> Vec<(u64, Digest)> {
        let rule = self.rule(entry);
        let content = disk.content(partial.inode);
        let sound = |(&chunk, &digest): (&u64, &Digest)| {
            let start = chunk * self.terms.chunk_bytes;
            let bytes = digest::chunk_length(chunk, entry.evidence.size, self.terms.chunk_bytes);
            let piece = content.get(start as usize..(start + bytes) as usize)?;
            (chunk_digest(rule, start, piece, self.terms.chunk_bytes) == digest).then_some((chunk, digest))
        };
        partial.chunks.iter().filter_map(sound).collect()
    }

    /// How the pieces of `entry` are digested.
    pub fn rule(&self, entry: &Entry) -> Rule {
        Rule {
            file_bytes: entry.evidence.size,
            segment_bytes: u64::from(self.terms.segment_bytes),
            marked: matches!(entry.kind, Kind::File { marked: true, .. }),
        }
    }

    fn parent_is_there(&self, disk: &Disk, path: &RelativePath) -> bool {
        let (parent, _) = path.split().unwrap_or_default();
        parent.is_empty()
            || RelativePath::new(parent.to_vec())
                .is_ok_and(|parent| disk.names.get(&Name::Final(parent)) == Some(&Node::Directory))
    }

    /// Links a hard link to its first name, if what stands there is what was offered. Else its content is wanted.
    pub fn link(&mut self, disk: &mut Disk, entry: &Entry) -> Decided {
        let Kind::HardLink { first, .. } = &entry.kind else {
            return Decided::Settled { outcome: Outcome::Skipped(String::new()), made: false };
        };
        if !self.parent_is_there(disk, &entry.path) {
            let failure = Failure::new(FailureKind::NotFound, "link", "No such file or directory");
            return Decided::Settled { outcome: Outcome::Failed(failure), made: false };
        }
        let stands = disk.names.get(&Name::Final(first.clone())).cloned();
        let is_as_offered =
            matches!(stands, Some(Node::File(_, Some(evidence))) if evidence == entry.evidence);
        if !is_as_offered {
            return Decided::Fresh;
        }
        let name = Name::Final(entry.path.clone());
        if disk.names.get(&name) != stands.as_ref() {
            disk.set(vec![(name, stands)]);
        }
        Decided::Settled { outcome: Outcome::Done { digest: None, losses: Vec::new() }, made: true }
    }

    /// Begins a partial.
    pub fn begin(&mut self, disk: &mut Disk, entry: &Entry) -> Result<u64> {
        if disk.full {
            return Err(no_space("preallocate"));
        }
        let number = self.next;
        self.next += 1;
        let inode = disk.create(Name::Partial(number), entry.evidence.size as usize);
        let (path, evidence) = (entry.path.clone(), entry.evidence);
        self.append(disk, &Record::Begin { partial: number, path: path.clone(), evidence });
        self.partials.insert(number, Partial { path, evidence, inode, chunks: BTreeMap::new() });
        Ok(number)
    }

    /// The partial, unless it was thrown away.
    pub fn partial(&self, number: u64) -> Option<&Partial> {
        self.partials.get(&number)
    }

    /// Writes a small file into staging.
    pub fn stage(&mut self, disk: &mut Disk, lane: u32, content: &[u8]) -> Result<Staged> {
        if disk.full {
            return Err(no_space("write"));
        }
        self.staged += 1;
        let name = Name::Staged(lane, self.next + self.staged);
        let inode = disk.create(name.clone(), content.len());
        disk.write(inode, 0, content);
        Ok(Staged { name, inode })
    }

    /// Appends chunks to the journal. Returns the length that is to be synced.
    pub fn record(&mut self, disk: &mut Disk, chunks: &[(u64, Vec<(u64, Digest)>)]) -> Result<usize> {
        if disk.full {
            return Err(no_space("record"));
        }
        for (partial, chunks) in chunks {
            if self.partials.contains_key(partial) {
                self.append(disk, &Record::Chunks { partial: *partial, chunks: chunks.clone() });
            }
        }
        Ok(disk.journal.len())
    }

    /// Gives content its final name.
    pub fn finish(&mut self, disk: &mut Disk, entry: &Entry, ready: &Ready) -> Result<()> {
        if disk.full {
            return Err(no_space("rename"));
        }
        let name = Name::Final(entry.path.clone());
        let stands = disk.names.get(&name).cloned();
        if self.seen.get(&entry.path) != Some(&stands) {
            return Err(Failure::new(FailureKind::Conflict, "rename", "something else stands there by now"));
        }
        let (hidden, inode) = match ready {
            Ready::Staged(staged) => (staged.name.clone(), staged.inode),
            Ready::Partial(number) => match self.partials.get(number) {
                Some(partial) => (Name::Partial(*number), partial.inode),
                None => return Err(Failure::new(FailureKind::Internal, "rename", "no such partial")),
            },
        };
        let node = Node::File(inode, Some(entry.evidence));
        self.seen.insert(entry.path.clone(), Some(node.clone()));
        disk.set(vec![(hidden, None), (name, Some(node))]);
        Ok(())
    }

    /// Throws something away.
    pub fn discard(&mut self, disk: &mut Disk, ready: Ready) {
        let name = match ready {
            Ready::Staged(staged) => staged.name,
            Ready::Partial(number) => {
                if self.partials.remove(&number).is_none() {
                    return;
                }
                self.append(disk, &Record::End { partial: number });
                Name::Partial(number)
            }
        };
        disk.set(vec![(name, None)]);
    }

    /// The entry is settled and durable: its partial need not be remembered.
    pub fn settled(&mut self, disk: &mut Disk, number: u64) {
        if self.partials.remove(&number).is_some() {
            self.append(disk, &Record::End { partial: number });
        }
    }
}

fn no_space(operation: &str) -> Failure {
    Failure::new(FailureKind::Space, operation, "No space left on device")
}
