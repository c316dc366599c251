//! What a destination remembers of finished files across jobs: by which evidence a file was recognised, and the
//! digest of its content. With it a file whose mtime was set back, or that was replaced within one second by one
//! of the same size, is sent again.
//!
//! A file of fixed slots in the state directory, one file per destination, open addressing, read and written in
//! place. Memory does not grow with it. It is advisory: whatever is damaged, torn, lost or written by another
//! version reads as "no entry", and then size and mtime decide as they would without it. An entry is put only
//! after its file is durable; the catalogue itself is never synced, for losing an entry is harmless.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thalweg_wire::{Digest, Evidence, RelativePath};

/// An open catalogue, locked against other processes.
pub struct Catalogue {
    table: Table,
    path: PathBuf,
    hash_key: [u8; 32],
    generation: u32,
    _lock: File,
}

/// What is remembered of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remembered {
    /// [`bind`] of both sides when the file was finished.
    pub evidence: [u8; 16],
    /// Digest of the content.
    pub digest: Digest,
}

/// One value for what both sides showed of a file. Device numbers are left out: they may change at boot.
pub fn bind(source: &Evidence, destination: &Evidence) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 catalogue evidence");
    for evidence in [source, destination] {
        hasher.update(&evidence.size.to_le_bytes());
        for time in [evidence.mtime, evidence.ctime] {
            hasher.update(&time.seconds.to_le_bytes()).update(&time.nanos.to_le_bytes());
        }
        hasher.update(&evidence.inode.to_le_bytes());
    }
    first_16(hasher.finalize().as_bytes())
}

impl Catalogue {
    /// Opens or creates the catalogue of the destination that `identity` names, in the directory `state`.
    /// `None` if another process has it open. A damaged one is begun anew.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(state: &Path, identity: &[u8]) -> io::Result<Option<Catalogue>> {
        std::fs::create_dir_all(state)?;
        let name = blake3::hash(identity).to_hex();
        let path = state.join(format!("{}.catalogue", &name[..32]));
        let lock = options().truncate(false).create(true).open(path.with_extension("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let file = options().truncate(false).create(true).open(&path)?;
        let head = Head::read(&file);
        let (head, table) = match head {
            Some(head) => {
                let table = Table { file, slots: head.slots, used: head.used };
                (head, table)
            }
            None => {
                let head = Head { slots: SLOTS_FIRST, used: 0, generation: 0, hash_key: random_key()? };
                file.set_len(0)?;
                (head, Table::new(file, SLOTS_FIRST)?)
            }
        };
        let generation = head.generation.wrapping_add(1);
        let mut catalogue = Catalogue { table, path, hash_key: head.hash_key, generation, _lock: lock };
        // Entries since the last count are not in it.
        catalogue.table.used += COUNT_EVERY;
        catalogue.write_head()?;
        Ok(Some(catalogue))
    }

    /// What is remembered of `path`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn find(&self, path: &RelativePath) -> io::Result<Option<Remembered>> {
        let found = self.table.find(self.key_of(path))?;
        Ok(found.map(|slot| Remembered { evidence: slot.evidence, digest: slot.digest }))
    }

    /// Remembers `path`, in place of what was remembered of it.
    ///
    /// # Errors
    /// What the kernel says; then the old entry, the new one or none is there.
    pub fn put(&mut self, path: &RelativePath, remembered: Remembered) -> io::Result<()> {
        let key = self.key_of(path);
        let slot = Slot {
            key,
            evidence: remembered.evidence,
            digest: remembered.digest,
            generation: self.generation,
        };
        if !self.table.has_room() {
            self.grow()?;
        }
        if !self.table.put(&slot)? {
            self.grow()?;
            self.table.put(&slot)?;
        }
        if self.table.used.is_multiple_of(COUNT_EVERY) {
            self.write_head()?;
        }
        Ok(())
    }

    /// Forgets `path`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&mut self, path: &RelativePath) -> io::Result<()> {
        self.table.remove(self.key_of(path))
    }

    fn grow(&mut self) -> io::Result<()> {
        let path = self.path.with_extension("new");
        let file = options().truncate(true).create(true).open(&path)?;
        self.table = self.table.grown(file)?;
        self.write_head()?;
        std::fs::rename(&path, &self.path)
    }

    fn write_head(&self) -> io::Result<()> {
        let head = Head {
            slots: self.table.slots,
            used: self.table.used,
            generation: self.generation,
            hash_key: self.hash_key,
        };
        self.table.file.write_all_at(&head.encode(), 0)
    }

    fn key_of(&self, path: &RelativePath) -> [u8; 16] {
        first_16(blake3::keyed_hash(&self.hash_key, path.as_bytes()).as_bytes())
    }
}

impl Drop for Catalogue {
    fn drop(&mut self) {
        self.table.used = self.table.used.saturating_sub(COUNT_EVERY);
        let _ = self.write_head();
    }
}

/// A set of byte strings on disk: which names a source offered. Memory does not grow with it. Two strings that
/// collide in 128 bits of BLAKE3 count as one.
pub struct OnDiskSet<F> {
    table: Table,
    make_file: F,
}

impl<F: FnMut() -> io::Result<File>> OnDiskSet<F> {
    /// An empty set. `make_file` makes an empty file without a name, and another each time the set grows.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(mut make_file: F) -> io::Result<Self> {
        let table = Table::new(make_file()?, SLOTS_FIRST)?;
        Ok(OnDiskSet { table, make_file })
    }

    /// Adds `item`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn insert(&mut self, item: &[u8]) -> io::Result<()> {
        let slot = Slot {
            key: first_16(blake3::hash(item).as_bytes()),
            evidence: [0; 16],
            digest: Digest::default(),
            generation: 0,
        };
        while !self.table.has_room() || !self.table.put(&slot)? {
            self.table = self.table.grown((self.make_file)()?)?;
        }
        Ok(())
    }

    /// Whether `item` was added.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn contains(&self, item: &[u8]) -> io::Result<bool> {
        Ok(self.table.find(first_16(blake3::hash(item).as_bytes()))?.is_some())
    }
}

/// Slots of a new table: 320 KiB, most of it holes.
const SLOTS_FIRST: u64 = 4096;
/// A run of occupied slots longer than this does not happen below the largest load; it means that the file was
/// tampered with.
const PROBES_MAX: u64 = 4096;
/// The count of entries is stored this often.
const COUNT_EVERY: u64 = 1024;
const HEAD_BYTES: u64 = 4096;
const SLOT_BYTES: usize = 80;
/// Slots read at once: most look-ups end in the first.
const RUN: usize = 8;
const MAGIC: &[u8; 16] = b"thalweg-catalog\n";
const LAYOUT: u32 = 1;

#[derive(Clone, Copy)]
struct Slot {
    key: [u8; 16],
    evidence: [u8; 16],
    digest: Digest,
    generation: u32,
}

enum Found {
    Empty,
    /// Torn, damaged or removed.
    Unsound,
    Slot(Slot),
}

impl Slot {
    /// `key 16 | evidence 16 | digest 32 | generation 4 | zero 4 | check 8`, integers little-endian.
    fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..16].copy_from_slice(&self.key);
        bytes[16..32].copy_from_slice(&self.evidence);
        bytes[32..64].copy_from_slice(&self.digest.0);
        bytes[64..68].copy_from_slice(&self.generation.to_le_bytes());
        let check = check_value(&bytes[..72]);
        bytes[72..].copy_from_slice(&check);
        bytes
    }

    fn decode(bytes: &[u8]) -> Found {
        if bytes.iter().all(|&byte| byte == 0) {
            return Found::Empty;
        }
        if bytes.len() != SLOT_BYTES || bytes[72..] != check_value(&bytes[..72]) {
            return Found::Unsound;
        }
        let mut slot = Slot { key: [0; 16], evidence: [0; 16], digest: Digest::default(), generation: 0 };
        slot.key.copy_from_slice(&bytes[..16]);
        slot.evidence.copy_from_slice(&bytes[16..32]);
        slot.digest.0.copy_from_slice(&bytes[32..64]);
        slot.generation = u32::from_le_bytes([bytes[64], bytes[65], bytes[66], bytes[67]]);
        Found::Slot(slot)
    }
}

struct Head {
    slots: u64,
    used: u64,
    generation: u32,
    hash_key: [u8; 32],
}

impl Head {
    const BYTES: usize = 80;

    /// `magic 16 | layout 4 | generation 4 | slots 8 | used 8 | key 32 | check 8`.
    fn encode(&self) -> [u8; Head::BYTES] {
        let mut bytes = [0; Head::BYTES];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..20].copy_from_slice(&LAYOUT.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.slots.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.used.to_le_bytes());
        bytes[40..72].copy_from_slice(&self.hash_key);
        let check = check_value(&bytes[..72]);
        bytes[72..].copy_from_slice(&check);
        bytes
    }

    fn read(file: &File) -> Option<Head> {
        let mut bytes = [0; Head::BYTES];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let number = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).unwrap_or_default();
        let word = |at: usize| bytes[at..at + 4].try_into().map(u32::from_le_bytes).unwrap_or_default();
        if bytes[..16] != MAGIC[..] || bytes[72..] != check_value(&bytes[..72]) || word(16) != LAYOUT {
            return None;
        }
        let slots = number(24);
        if slots == 0 || file.metadata().ok()?.len() != length_of(slots)? {
            return None;
        }
        let hash_key = bytes[40..72].try_into().ok()?;
        Some(Head { slots, used: number(32), generation: word(20), hash_key })
    }
}

struct Table {
    file: File,
    slots: u64,
    used: u64,
}

impl Table {
    fn new(file: File, slots: u64) -> io::Result<Table> {
        file.set_len(length_of(slots).ok_or(io::ErrorKind::FileTooLarge)?)?;
        Ok(Table { file, slots, used: 0 })
    }

    /// Load up to 0.7: half of all look-ups for what is not there end within three slots.
    fn has_room(&self) -> bool {
        self.used < self.slots / 10 * 7
    }

    fn find(&self, key: [u8; 16]) -> io::Result<Option<Slot>> {
        let mut found = None;
        self.probe(key, |_, slot| match slot {
            Found::Empty => true,
            Found::Slot(slot) if slot.key == key => {
                found = Some(slot);
                true
            }
            _ => false,
        })?;
        Ok(found)
    }

    /// False if there is no place within reach.
    fn put(&mut self, slot: &Slot) -> io::Result<bool> {
        let (mut place, mut is_new) = (None, false);
        self.probe(slot.key, |at, found| match found {
            Found::Slot(other) if other.key == slot.key => {
                (place, is_new) = (Some(at), false);
                true
            }
            Found::Slot(_) => false,
            Found::Unsound => {
                place = place.or(Some(at));
                false
            }
            Found::Empty => {
                is_new = place.is_none();
                place = place.or(Some(at));
                true
            }
        })?;
        let Some(at) = place else { return Ok(false) };
        self.file.write_all_at(&slot.encode(), at)?;
        self.used += u64::from(is_new);
        Ok(true)
    }

    fn remove(&mut self, key: [u8; 16]) -> io::Result<()> {
        let mut place = None;
        self.probe(key, |at, found| match found {
            Found::Empty => true,
            Found::Slot(slot) if slot.key == key => {
                place = Some(at);
                true
            }
            _ => false,
        })?;
        match place {
            Some(at) => self.file.write_all_at(&[0xff; SLOT_BYTES], at),
            None => Ok(()),
        }
    }

    /// The same entries in a table of at least twice the size, in `file`.
    fn grown(&self, file: File) -> io::Result<Table> {
        let factor = if self.slots < 1 << 20 { 8 } else { 2 };
        let mut table = Table::new(file, self.slots.saturating_mul(factor))?;
        let mut bytes = vec![0; 1024 * SLOT_BYTES];
        let mut at = 0;
        while at < self.slots {
            let count = (self.slots - at).min(1024) as usize;
            let bytes = &mut bytes[..count * SLOT_BYTES];
            self.file.read_exact_at(bytes, HEAD_BYTES + at * SLOT_BYTES as u64)?;
            for slot in bytes.chunks_exact(SLOT_BYTES) {
                if let Found::Slot(slot) = Slot::decode(slot) {
                    table.put(&slot)?;
                }
            }
            at += count as u64;
        }
        Ok(table)
    }

    /// Shows `visit` offset and content of one slot after the other from the key's own on, until it says true.
    fn probe(&self, key: [u8; 16], mut visit: impl FnMut(u64, Found) -> bool) -> io::Result<()> {
        let mut bytes = [0; RUN * SLOT_BYTES];
        let mut at = u64::from_le_bytes(key[..8].try_into().unwrap_or_default()) % self.slots;
        let mut left = PROBES_MAX.min(self.slots);
        while left > 0 {
            let count = left.min(RUN as u64).min(self.slots - at);
            let bytes = &mut bytes[..count as usize * SLOT_BYTES];
            let offset = HEAD_BYTES + at * SLOT_BYTES as u64;
            self.file.read_exact_at(bytes, offset)?;
            for (index, slot) in bytes.chunks_exact(SLOT_BYTES).enumerate() {
                if visit(offset + (index * SLOT_BYTES) as u64, Slot::decode(slot)) {
                    return Ok(());
                }
            }
            left -= count;
            at = (at + count) % self.slots;
        }
        Ok(())
    }
}

fn length_of(slots: u64) -> Option<u64> {
    slots.checked_mul(SLOT_BYTES as u64)?.checked_add(HEAD_BYTES)
}

fn check_value(bytes: &[u8]) -> [u8; 8] {
    let mut check = [0; 8];
    check.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    check
}

fn first_16(hash: &[u8; 32]) -> [u8; 16] {
    let mut first = [0; 16];
    first.copy_from_slice(&hash[..16]);
    first
}

/// Unpredictable, so that nobody can choose names that all want the same slot.
fn random_key() -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| io::Error::other("no randomness"))?;
    Ok(key)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: u32) -> RelativePath {
        RelativePath::new(format!("dir/file{number}").into_bytes()).unwrap()
    }

    fn remembered(number: u32) -> Remembered {
        Remembered { evidence: [number as u8; 16], digest: Digest([(number >> 8) as u8; 32]) }
    }

    #[test]
    fn what_was_put_is_found_after_growth_and_reopening() {
        let state = tempfile::tempdir().unwrap();
        let mut catalogue = Catalogue::open(state.path(), b"here").unwrap().unwrap();
        for number in 0..20_000 {
            catalogue.put(&path(number), remembered(number)).unwrap();
        }
        catalogue.put(&path(7), remembered(8)).unwrap();
        catalogue.remove(&path(9)).unwrap();
        for _ in 0..2 {
            for number in (0..20_000).filter(|number| ![7, 9].contains(number)) {
                assert_eq!(catalogue.find(&path(number)).unwrap(), Some(remembered(number)), "{number}");
            }
            assert_eq!(catalogue.find(&path(7)).unwrap(), Some(remembered(8)));
            assert_eq!(catalogue.find(&path(9)).unwrap(), None);
            assert_eq!(catalogue.find(&path(20_000)).unwrap(), None);
            drop(catalogue);
            catalogue = Catalogue::open(state.path(), b"here").unwrap().unwrap();
        }
    }

    #[test]
    fn one_process_at_a_time_has_it_and_each_destination_has_its_own() {
        let state = tempfile::tempdir().unwrap();
        let first = Catalogue::open(state.path(), b"here").unwrap();
        assert!(Catalogue::open(state.path(), b"here").unwrap().is_none());
        assert!(Catalogue::open(state.path(), b"there").unwrap().is_some());
        drop(first);
        assert!(Catalogue::open(state.path(), b"here").unwrap().is_some());
    }

    #[test]
    fn a_damaged_slot_or_head_is_no_entry() {
        let state = tempfile::tempdir().unwrap();
        let mut catalogue = Catalogue::open(state.path(), b"here").unwrap().unwrap();
        for number in 0..50 {
            catalogue.put(&path(number), remembered(number)).unwrap();
        }
        let file = catalogue.path.clone();
        drop(catalogue);
        let good = std::fs::read(&file).unwrap();
        for at in (0..good.len()).filter(|&at| good[at] != 0).step_by(3) {
            let bad = OpenOptions::new().write(true).open(&file).unwrap();
            bad.write_all_at(&[good[at] ^ 4], at as u64).unwrap();
            let catalogue = Catalogue::open(state.path(), b"here").unwrap().unwrap();
            for number in 0..50 {
                let found = catalogue.find(&path(number)).unwrap();
                assert!(found.is_none_or(|found| found == remembered(number)), "byte {at}");
            }
            drop(catalogue);
            std::fs::write(&file, &good).unwrap();
        }
    }

    #[test]
    fn a_set_on_disk_holds_what_was_added() {
        let mut set = OnDiskSet::new(tempfile::tempfile).unwrap();
        for number in 0..10_000u32 {
            set.insert(&number.to_le_bytes()).unwrap();
            set.insert(&number.to_le_bytes()).unwrap();
        }
        assert_eq!(set.table.used, 10_000);
        assert!((0..10_000u32).all(|number| set.contains(&number.to_le_bytes()).unwrap()));
        assert!(!set.contains(b"else").unwrap());
    }
}
