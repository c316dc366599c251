//! A disk with a page cache. Knows for every byte, name and journal record what a power cut would leave.

use super::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_wire::{Evidence, RelativePath};

/// Number of an inode; never used again.
pub type Inode = usize;

/// A name on the disk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// Visible to the user.
    Final(RelativePath),
    /// A partial in the staging directory.
    Partial(u64),
    /// A small file in a staging lane.
    Staged(u32, u64),
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// A file, with the evidence that the catalogue keeps for it.
    File(Inode, Option<Evidence>),
}

/// Names and what they stand for from now on.
type Changes = Vec<(Name, Option<Node>)>;

/// See the module.
#[derive(Clone)]
pub struct Disk {
    /// As a program sees it.
    pub names: BTreeMap<Name, Node>,
    durable_names: BTreeMap<Name, Node>,
    pending_names: Vec<(u64, Changes)>,
    data: Vec<Data>,
    /// As a program sees it.
    pub journal: Vec<u8>,
    journal_durable: usize,
    sequence: u64,
    /// Nothing more can be written.
    pub full: bool,
    /// The next sync fails, and what it should have written is lost.
    pub fail_sync: bool,
}

#[derive(Clone, Default)]
struct Data {
    cache: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<(u64, usize, Vec<u8>)>,
    /// Sectors that have blocks: a hole cannot rot.
    written: BTreeSet<usize>,
}

/// What a power cut takes of what is not synced.
#[derive(Debug, Clone, Copy)]
pub enum Loss {
    /// Everything.
    All,
    /// Nothing: the disk happened to be quick.
    Nothing,
    /// This percentage, each write by itself.
    Percent(u64),
}

const SECTOR: usize = 512;

impl Disk {
    /// An empty disk.
    pub fn new() -> Self {
        Disk {
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            data: Vec::new(),
            journal: Vec::new(),
            journal_durable: 0,
            sequence: 0,
            full: false,
            fail_sync: false,
        }
    }

    /// Makes a file of `bytes` zeros, preallocated.
    pub fn create(&mut self, name: Name, bytes: usize) -> Inode {
        let inode = self.data.len();
        self.data.push(Data { cache: vec![0; bytes], durable: vec![0; bytes], ..Data::default() });
        self.set(vec![(name, Some(Node::File(inode, None)))]);
        inode
    }

    /// Writes; false if the disk is full.
    pub fn write(&mut self, inode: Inode, offset: usize, bytes: &[u8]) -> bool {
        if self.full && !bytes.is_empty() {
            return false;
        }
        self.sequence += 1;
        let data = &mut self.data[inode];
        data.cache[offset..offset + bytes.len()].copy_from_slice(bytes);
        data.written.extend((offset..offset + bytes.len()).step_by(SECTOR).map(|at| at / SECTOR));
        data.pending.push((self.sequence, offset, bytes.to_vec()));
        true
    }

    /// Inodes that ever were.
    pub fn inodes(&self) -> Inode {
        self.data.len()
    }

    /// What a program reads.
    pub fn content(&self, inode: Inode) -> &[u8] {
        &self.data[inode].cache
    }

    /// What is on the medium.
    pub fn medium(&self, inode: Inode) -> &[u8] {
        &self.data[inode].durable
    }

    /// Whether data of it would be lost.
    pub fn is_dirty(&self, inode: Inode) -> bool {
        !self.data[inode].pending.is_empty()
    }

    /// Changes names, all of them or none (a rename is two).
    pub fn set(&mut self, names: Vec<(Name, Option<Node>)>) {
        self.sequence += 1;
        apply(&mut self.names, &names);
        self.pending_names.push((self.sequence, names));
    }

    /// What `name` may stand for after a power cut.
    pub fn after_power_cut(&self, name: &Name) -> Vec<Option<Node>> {
        let pending = self.pending_names.iter().flat_map(|(_, names)| names);
        std::iter::once(self.durable_names.get(name).cloned())
            .chain(pending.filter(|(other, _)| other == name).map(|(_, node)| node.clone()))
            .collect()
    }

    /// Marks this moment for [`Disk::sync`].
    pub fn mark(&self) -> u64 {
        self.sequence
    }

    /// What was done before `mark` to these files, and to names, is durable now. False: the sync failed.
    pub fn sync(&mut self, mark: u64, inodes: impl Iterator<Item = Inode>, random: &mut Random) -> bool {
        let fails = std::mem::take(&mut self.fail_sync);
        for inode in inodes {
            let data = &mut self.data[inode];
            let split = data.pending.partition_point(|&(sequence, ..)| sequence <= mark);
            for (_, offset, bytes) in data.pending.drain(..split) {
                if !fails || random.percent(50) {
                    data.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
            }
        }
        if fails {
            // Names are in the file system's own journal; it will try again.
            return false;
        }
        let split = self.pending_names.partition_point(|&(sequence, _)| sequence <= mark);
        for (_, names) in self.pending_names.drain(..split) {
            apply(&mut self.durable_names, &names);
        }
        true
    }

    /// The journal up to `bytes` is durable now.
    pub fn sync_journal(&mut self, bytes: usize) {
        self.journal_durable = self.journal_durable.max(bytes);
    }

    /// Cuts the journal at `bytes`, durably.
    pub fn truncate_journal(&mut self, bytes: usize) {
        self.journal.truncate(bytes);
        self.journal_durable = bytes;
    }

    /// Takes the power away and gives it back.
    pub fn power_cut(&mut self, loss: Loss, random: &mut Random) {
        let keeps = |random: &mut Random| match loss {
            Loss::All => false,
            Loss::Nothing => true,
            Loss::Percent(percent) => !random.percent(percent),
        };
        for data in &mut self.data {
            for (_, offset, bytes) in std::mem::take(&mut data.pending) {
                for (sector, piece) in bytes.chunks(SECTOR).enumerate() {
                    if keeps(random) {
                        let at = offset + sector * SECTOR;
                        data.durable[at..at + piece.len()].copy_from_slice(piece);
                    }
                }
            }
            data.cache.clone_from(&data.durable);
        }
        for (_, names) in std::mem::take(&mut self.pending_names) {
            if keeps(random) {
                apply(&mut self.durable_names, &names);
            }
        }
        // What stands in a directory that was lost cannot be reached.
        let mut kept = BTreeSet::new();
        self.durable_names.retain(|name, node| {
            let Name::Final(path) = name else { return true };
            let (parent, _) = path.split().unwrap_or_default();
            let reachable = parent.is_empty() || kept.contains(parent);
            if reachable && *node == Node::Directory {
                kept.insert(path.as_bytes().to_vec());
            }
            reachable
        });
        self.names.clone_from(&self.durable_names);
        let unsynced = self.journal.len() - self.journal_durable;
        let stays = match loss {
            Loss::All => 0,
            Loss::Nothing => unsynced,
            Loss::Percent(_) => random.below(unsynced as u64 + 1) as usize,
        };
        let end = self.journal.len();
        self.journal.truncate(self.journal_durable + stays);
        if matches!(loss, Loss::Percent(_)) && random.percent(30) {
            // The length got there before the bytes.
            self.journal.resize(end, 0);
        }
        self.journal_durable = self.journal.len();
    }

    /// A stored bit of a partial or of the journal rots. Returns the partial's inode.
    pub fn rot(&mut self, random: &mut Random) -> Option<Inode> {
        let partials: Vec<Inode> = self
            .names
            .iter()
            .filter_map(|(name, node)| match (name, node) {
                (Name::Partial(_), Node::File(inode, _)) if !self.data[*inode].written.is_empty() => {
                    Some(*inode)
                }
                _ => None,
            })
            .collect();
        if partials.is_empty() || random.percent(20) {
            let at = random.below(self.journal.len() as u64) as usize;
            if let Some(byte) = self.journal.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
            return None;
        }
        let inode = random.pick(&partials);
        let data = &mut self.data[inode];
        let sectors: Vec<usize> = data.written.iter().copied().collect();
        let at = random.pick(&sectors) * SECTOR + random.below(SECTOR as u64) as usize;
        let at = at.min(data.cache.len() - 1);
        let bit = 1 << random.below(8);
        data.cache[at] ^= bit;
        data.durable[at] ^= bit;
        Some(inode)
    }
}

fn apply(names: &mut BTreeMap<Name, Node>, changes: &[(Name, Option<Node>)]) {
    for (name, node) in changes {
        match node {
            Some(node) => names.insert(name.clone(), node.clone()),
            None => names.remove(name),
        };
    }
}
