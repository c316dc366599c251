//! A source that changes while it is read, and remembers every moment.

use super::random::Random;
use crate::failure::{Failure, FailureKind, Result};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::digest::{self, Rule};
use thalweg_wire::message::Terms;
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath, Time};

/// Everything to be moved, in scan order.
pub struct Source {
    /// What the scan meets, parents first.
    pub nodes: Vec<(RelativePath, Node)>,
    /// Content, shared by hard links.
    pub files: Vec<File>,
    clock: u64,
}

/// What stands at a path.
#[derive(Debug, Clone)]
pub enum Node {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// The first name of a file.
    File(usize),
    /// A further name: of which file, and its first name.
    Link(usize, RelativePath),
    /// A name the scan leaves out.
    Skipped,
    /// A name the scan cannot read.
    Trouble,
}

/// One inode.
pub struct File {
    /// Offered as sparse.
    pub sparse: bool,
    /// Offered with marked holes.
    pub marked: bool,
    /// Contents with the time from which each stood here.
    pub history: Vec<(Duration, Arc<Vec<u8>>)>,
    /// What it shows.
    pub evidence: Evidence,
    /// Its names are gone.
    pub deleted: bool,
    /// Reading it fails.
    pub unreadable: bool,
}

impl Source {
    /// A random tree of about `size` names.
    pub fn new(random: &mut Random, size: u64, terms: &Terms) -> Self {
        let mut source = Source { nodes: Vec::new(), files: Vec::new(), clock: 1000 };
        let path = |bytes: &str| RelativePath::new(bytes.as_bytes().to_vec()).unwrap_or_default();
        let mut directories = vec![String::new()];
        let style = random.below(4);
        for number in 0..random.within(1, size) {
            let parent = random.below(directories.len() as u64) as usize;
            let name = format!("{}{}", directories[parent], number);
            let kind = match style {
                0 => random.pick(&[20, 30, 40]),
                1 => random.pick(&[55, 60, 75]),
                _ => random.below(100),
            };
            let node = match kind {
                0..10 => {
                    directories.push(format!("{name}/"));
                    Node::Directory
                }
                10..14 => Node::Symlink(format!("to{}", random.below(9)).into_bytes()),
                14 => Node::Skipped,
                15 => Node::Trouble,
                16..50 => {
                    let size = small_size(random, terms);
                    source.add_file(random, size, false, false, terms)
                }
                50..80 => {
                    let size = large_size(random, terms);
                    source.add_file(random, size, false, false, terms)
                }
                80..92 => {
                    let marked = random.percent(60);
                    let size = large_size(random, terms).max(terms.chunk_bytes + 1);
                    source.add_file(random, size, true, marked, terms)
                }
                _ => match source.nodes.iter().rfind(|(_, node)| matches!(node, Node::File(_))) {
                    Some((first, Node::File(file))) => Node::Link(*file, first.clone()),
                    _ => Node::Symlink(b"nowhere".to_vec()),
                },
            };
            source.nodes.push((path(&name), node));
        }
        source
    }

    fn add_file(
        &mut self,
        random: &mut Random,
        size: u64,
        sparse: bool,
        marked: bool,
        terms: &Terms,
    ) -> Node {
        self.clock += 1;
        let content = content(random, size, sparse, terms);
        let evidence = Evidence {
            size,
            mtime: self.time(),
            ctime: self.time(),
            device: 1,
            inode: self.files.len() as u64,
        };
        let history = vec![(Duration::ZERO, Arc::new(content))];
        self.files.push(File { sparse, marked, history, evidence, deleted: false, unreadable: false });
        Node::File(self.files.len() - 1)
    }

    fn time(&self) -> Time {
        Time { seconds: self.clock as i64, nanos: 0 }
    }

    /// Changes one file: other content, at once, with or without its mtime telling.
    pub fn change(&mut self, random: &mut Random, now: Duration, terms: &Terms) {
        if self.files.is_empty() {
            return;
        }
        self.clock += 1;
        let time = self.time();
        let at = random.below(self.files.len() as u64) as usize;
        let file = &mut self.files[at];
        file.evidence.ctime = time;
        match random.below(20) {
            0 => file.deleted = true,
            1 => file.unreadable = true,
            2 => {} // Only its attributes.
            3..7 => {
                let size = if file.marked {
                    large_size(random, terms) + terms.chunk_bytes
                } else {
                    large_size(random, terms)
                };
                file.set(content(random, size, file.sparse, terms), now);
            }
            _ => {
                let mut new = Vec::clone(file.now());
                if !new.is_empty() {
                    let from = random.below(new.len() as u64) as usize;
                    let to = (from + random.within(1, 2 * terms.chunk_bytes) as usize).min(new.len());
                    let value = random.next() as u8 | 1;
                    new[from..to].iter_mut().for_each(|byte| *byte = byte.wrapping_add(value));
                }
                file.set(new, now);
            }
        }
        if random.percent(70) {
            file.evidence.mtime = time;
        }
    }

    /// The entry of node `at`, as a scan sees it now; `None` if its file is gone by now.
    pub fn entry(&self, at: usize, first_id: impl Fn(&RelativePath) -> Option<EntryId>) -> Option<Entry> {
        let (path, node) = &self.nodes[at];
        let mut evidence = Evidence::default();
        let kind = match node {
            Node::Directory => Kind::Directory,
            Node::Symlink(target) => Kind::Symlink { target: target.clone() },
            Node::File(file) => {
                let file = &self.files[*file];
                if file.deleted {
                    return None;
                }
                evidence = file.evidence;
                Kind::File { sparse: file.sparse, marked: file.marked }
            }
            Node::Link(file, first) => {
                let file = &self.files[*file];
                if file.deleted {
                    return None;
                }
                evidence = file.evidence;
                match first_id(first) {
                    Some(of) => Kind::HardLink { first: first.clone(), of },
                    None => Kind::File { sparse: file.sparse, marked: file.marked },
                }
            }
            Node::Skipped | Node::Trouble => return None,
        };
        let path = path.clone();
        Some(Entry { id: EntryId(0), path, kind, mode: 0o644, uid: 0, gid: 0, evidence, xattrs: Vec::new() })
    }

    /// The file behind a path.
    pub fn file_at(&self, path: &RelativePath) -> Option<usize> {
        self.nodes.iter().find(|(other, _)| other == path).and_then(|(_, node)| match node {
            Node::File(file) | Node::Link(file, _) => Some(*file),
            _ => None,
        })
    }

    /// What stands at the path of `entry` by now, by itself: a link as the file that it is.
    pub fn look_again(&self, entry: &Entry) -> Result<Entry> {
        let file = &self.files[self.file_at(&entry.path).unwrap_or_default()];
        if file.deleted {
            return Err(Failure::new(FailureKind::NotFound, "open", "No such file or directory"));
        }
        let kind = Kind::File { sparse: file.sparse, marked: file.marked };
        Ok(Entry { kind, evidence: file.evidence, ..entry.clone() })
    }

    /// Opens and reads; fewer bytes only at the end.
    pub fn read(&self, entry: &Entry, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        self.look_again(entry)?;
        let file = &self.files[self.file_at(&entry.path).unwrap_or_default()];
        if file.unreadable {
            return Err(Failure::new(FailureKind::Permission, "open", "Permission denied"));
        }
        let content = file.now();
        let start = (offset as usize).min(content.len());
        let end = (start + bytes as usize).min(content.len());
        Ok(content[start..end].to_vec())
    }
}

impl File {
    /// Content of this moment.
    pub fn now(&self) -> &Arc<Vec<u8>> {
        &self.history[self.history.len() - 1].1
    }

    /// Whether `content` stood here at one moment at or after `since`.
    pub fn had(&self, content: &[u8], since: Duration) -> bool {
        self.history.iter().enumerate().any(|(at, (_, old))| {
            let until = self.history.get(at + 1).map_or(Duration::MAX, |(next, _)| *next);
            until >= since && **old == content
        })
    }

    fn set(&mut self, content: Vec<u8>, now: Duration) {
        self.evidence.size = content.len() as u64;
        self.history.push((now, Arc::new(content)));
    }
}

fn small_size(random: &mut Random, terms: &Terms) -> u64 {
    let segment = u64::from(terms.segment_bytes);
    match random.below(6) {
        0 => 0,
        1 => segment,
        2 => random.within(1, 40),
        _ => random.within(1, segment),
    }
}

fn large_size(random: &mut Random, terms: &Terms) -> u64 {
    let segment = u64::from(terms.segment_bytes);
    let chunk = terms.chunk_bytes;
    match random.below(5) {
        0 => segment + 1,
        1 => chunk * random.within(1, 4) + 1,
        2 => chunk * random.within(1, 9),
        _ => random.within(segment + 1, 10 * chunk),
    }
}

/// Content that is nowhere like another's; zero segments if sparse.
fn content(random: &mut Random, size: u64, sparse: bool, terms: &Terms) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size as usize + 64);
    while (bytes.len() as u64) < size {
        let word = random.next();
        // Runs of 64 bytes are enough to tell versions apart, and cheap.
        for step in 0..8 {
            bytes.extend_from_slice(&word.wrapping_add(step).to_le_bytes());
        }
    }
    bytes.truncate(size as usize);
    if sparse {
        let unit = random.pick(&[u64::from(terms.segment_bytes), terms.chunk_bytes]) as usize;
        let density = random.pick(&[0, 30, 60, 90]);
        for piece in bytes.chunks_mut(unit) {
            if !random.percent(density) {
                piece.fill(0);
            }
        }
    }
    bytes
}

/// Digest of a chunk whose bytes are all there.
pub fn chunk_digest(rule: Rule, offset: u64, bytes: &[u8], chunk_bytes: u64) -> Digest {
    let pieces: Vec<Digest> = if bytes.is_empty() {
        rule.segment(offset, bytes).into_iter().collect()
    } else {
        bytes
            .chunks(rule.segment_bytes as usize)
            .scan(offset, |at, piece| {
                let digest = rule.segment(*at, piece);
                *at += piece.len() as u64;
                digest
            })
            .collect()
    };
    digest::join(&pieces, rule.file_bytes <= chunk_bytes)
}

/// Digest of a whole file.
pub fn file_digest(content: &[u8], marked: bool, terms: &Terms) -> Digest {
    let size = content.len() as u64;
    let rule = Rule { file_bytes: size, segment_bytes: u64::from(terms.segment_bytes), marked };
    let digests: Vec<Digest> = (0..digest::chunk_count(size, terms.chunk_bytes))
        .map(|chunk| {
            let start = chunk * terms.chunk_bytes;
            let end = (start + terms.chunk_bytes).min(size);
            chunk_digest(rule, start, &content[start as usize..end as usize], terms.chunk_bytes)
        })
        .collect();
    digest::join(&digests, true)
}
