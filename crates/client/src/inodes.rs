//! Files by device and inode, so that content is not counted once more under another name.

use std::collections::HashSet;
use thalweg_wire::Entry;

/// Files that are kept in mind: 36 MB of them, and half as much again for a moment while the set grows. Of further ones
/// each name counts.
const INODES_MAX: usize = 1 << 20;

/// See the module.
#[derive(Debug, Default)]
pub struct Inodes(HashSet<(u64, u64)>);

impl Inodes {
    /// Whether a file was not seen before, under another name. One whose inode is not told never was.
    pub fn is_new(&mut self, entry: &Entry) -> bool {
        let identity = (entry.evidence.device, entry.evidence.inode);
        match self.0.len() < INODES_MAX {
            _ if identity == (0, 0) => true,
            true => self.0.insert(identity),
            false => !self.0.contains(&identity),
        }
    }
}
