//! What a destination remembers of finished files across jobs: by which evidence a file was recognised, and the
//! digest of its content. With it a file whose mtime was set back, or that was replaced within one second by one
//! of the same size, is sent again.
//!
//! A [`table`] in the state directory, one file per destination. Memory does not grow with it. It is advisory: whatever
//! is damaged, torn, lost or written by another version reads as "no entry", and then size and mtime decide as they
//! would without it. An entry is put only after its file is durable; the catalogue itself is never synced, and entries
//! that come fast are written together, for losing one is harmless.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use table::{SLOTS_FIRST, Slot, Table, check_value, length_of};
use thalweg_wire::{Digest, Evidence, RelativePath};

mod table;

/// An open catalogue, locked against other processes; or one that is only read.
pub struct Catalogue {
    table: Table,
    /// Put and not written yet.
    waiting: HashMap<[u8; 16], Slot>,
    written_at: Option<Instant>,
    path: PathBuf,
    hash_key: [u8; 32],
    generation: u32,
    /// `None`: it is only read.
    lock: Option<File>,
}

/// What is remembered of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remembered {
    /// [`bind`] of both sides when the file was finished; in a bucket the beginning of that, and what is beside the
    /// object.
    pub evidence: [u8; 16],
    /// Digest of the content.
    pub digest: Digest,
}

/// One value for what both sides showed of a file. Device numbers are left out: they may change at boot.
pub fn bind(source: &Evidence, destination: &Evidence) -> [u8; 16] {
    /// Keeps these values apart from other digests.
    const KEY: &[u8; 32] = b"thalweg 2026-11 catalogue proof\n";
    let mut bytes = [0; 80];
    let mut at = 0;
    let mut add = |piece: &[u8]| {
        bytes[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    };
    for evidence in [source, destination] {
        add(&evidence.size.to_le_bytes());
        for time in [evidence.mtime, evidence.ctime] {
            add(&time.seconds.to_le_bytes());
            add(&time.nanos.to_le_bytes());
        }
        add(&evidence.inode.to_le_bytes());
    }
    first_16(blake3::keyed_hash(KEY, &bytes).as_bytes())
}

impl Catalogue {
    /// Opens or creates the catalogue of the destination that `identity` names, in the directory `state`.
    /// `None` if another process has it open. A damaged one is begun anew. For a new one those go that were not
    /// used for longest, if there are too many.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(state: &Path, identity: &[u8]) -> io::Result<Option<Catalogue>> {
        Catalogue::open_within(state, identity, CATALOGUES_MAX)
    }

    fn open_within(state: &Path, identity: &[u8], catalogues_max: usize) -> io::Result<Option<Catalogue>> {
        DirBuilder::new().recursive(true).mode(0o700).create(state)?;
        let path = path_of(state, identity);
        if !path.exists() {
            forget_oldest(state, catalogues_max);
        }
        let Some(lock) = take_lock(&path)? else { return Ok(None) };
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
        let hash_key = head.hash_key;
        let (waiting, lock) = (HashMap::new(), Some(lock));
        let mut catalogue = Catalogue { table, waiting, written_at: None, path, hash_key, generation, lock };
        // Entries since the last count are not in it.
        catalogue.table.used += COUNT_EVERY;
        catalogue.write_head()?;
        Ok(Some(catalogue))
    }

    /// Opens the catalogue of a destination to look into it, whoever has it: nothing is written, made or locked. `None`
    /// if there is none, or a damaged one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open_to_read(state: &Path, identity: &[u8]) -> io::Result<Option<Catalogue>> {
        let path = path_of(state, identity);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let Some(Head { slots, used, generation, hash_key }) = Head::read(&file) else { return Ok(None) };
        let (table, waiting) = (Table { file, slots, used }, HashMap::new());
        let (written_at, lock) = (None, None);
        Ok(Some(Catalogue { table, waiting, written_at, path, hash_key, generation, lock }))
    }

    /// Whether there is one of the destination that `identity` names.
    #[cfg(test)]
    fn is_there(state: &Path, identity: &[u8]) -> bool {
        path_of(state, identity).exists()
    }

    /// What is remembered of `path`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn find(&self, path: &RelativePath) -> io::Result<Option<Remembered>> {
        let key = self.key_of(path);
        let found = match self.waiting.get(&key) {
            Some(slot) => Some(*slot),
            None => self.table.find(&key)?,
        };
        Ok(found.map(|slot| Remembered { evidence: slot.evidence, digest: slot.digest }))
    }

    /// Remembers `path`, in place of what was remembered of it. `now`: entries that come fast are written together, so
    /// the last second of them is lost with the process. One that is only read remembers nothing.
    ///
    /// # Errors
    /// What the kernel says; then of each entry not written yet the old one, the new one or none is there.
    pub fn put(&mut self, path: &RelativePath, remembered: Remembered, now: Instant) -> io::Result<()> {
        if self.lock.is_none() {
            return Ok(());
        }
        let key = self.key_of(path);
        let Remembered { evidence, digest } = remembered;
        self.waiting.insert(key, Slot { key, evidence, digest, generation: self.generation });
        let is_due = self.written_at.is_none_or(|at| now.saturating_duration_since(at) >= WAIT_MAX);
        if is_due || self.waiting.len() >= WAITING_MAX {
            self.written_at = Some(now);
            self.write_waiting()?;
        }
        Ok(())
    }

    fn write_waiting(&mut self) -> io::Result<()> {
        let mut slots: Vec<Slot> = self.waiting.drain().map(|(_, slot)| slot).collect();
        let before = self.table.used / COUNT_EVERY;
        if !self.table.has_room(slots.len() as u64) {
            self.grow(slots.len() as u64)?;
        }
        if !self.table.put_all(&mut slots)? {
            self.grow(slots.len() as u64)?;
            self.table.put_all(&mut slots)?;
        }
        if self.table.used / COUNT_EVERY != before {
            self.write_head()?;
        }
        Ok(())
    }

    fn grow(&mut self, for_more: u64) -> io::Result<()> {
        let path = self.path.with_extension("new");
        let file = options().truncate(true).create(true).open(&path)?;
        self.table = self.table.grown(file, self.table.next_slots(for_more))?;
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
        if self.lock.is_none() {
            return;
        }
        let _ = self.write_waiting();
        self.table.used = self.table.used.saturating_sub(COUNT_EVERY);
        let _ = self.write_head();
    }
}

fn path_of(state: &Path, identity: &[u8]) -> PathBuf {
    let name = blake3::hash(identity).to_hex();
    state.join(format!("{}.{EXTENSION}", &name[..32]))
}

/// The lock of the catalogue at `path`, unless another process has it.
fn take_lock(path: &Path) -> io::Result<Option<File>> {
    let path = path.with_extension("lock");
    let lock = options().truncate(false).create(true).open(&path)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Who removes old ones may have had it until now, and taken its name.
    let held = lock.metadata()?;
    let is_it = |named: Metadata| (named.dev(), named.ino()) == (held.dev(), held.ino());
    Ok(std::fs::metadata(&path).is_ok_and(is_it).then_some(lock))
}

/// Makes room for another one. What cannot be looked at or removed stays: all of it is advisory.
fn forget_oldest(state: &Path, catalogues_max: usize) {
    let Ok(names) = std::fs::read_dir(state) else { return };
    let paths = names.flatten().map(|entry| entry.path());
    let paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == EXTENSION)).collect();
    if paths.len() < catalogues_max {
        return;
    }
    // Who opens one writes to it. Some at once, so that not each new one looks at them all.
    let mut used: Vec<(SystemTime, PathBuf)> =
        paths.into_iter().filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path))).collect();
    used.sort_unstable();
    let going = used.len() + 1 - catalogues_max.min(used.len()) + catalogues_max / 16;
    for (_, path) in used.into_iter().take(going) {
        let Ok(Some(_lock)) = take_lock(&path) else { continue };
        for extension in [EXTENSION, "new", "lock"] {
            let _ = std::fs::remove_file(path.with_extension(extension));
        }
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
        while !self.table.has_room(1) || !self.table.put(&slot)? {
            self.table = self.table.grown((self.make_file)()?, self.table.next_slots(1))?;
        }
        Ok(())
    }

    /// Whether `item` was added.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn contains(&self, item: &[u8]) -> io::Result<bool> {
        Ok(self.table.find(&first_16(blake3::hash(item).as_bytes()))?.is_some())
    }
}

const EXTENSION: &str = "catalogue";
/// Destinations that are remembered. Each directory that is one has a catalogue, and who may write to a daemon
/// may name as many as they please. More than a site copies to in turn.
const CATALOGUES_MAX: usize = 4096;
/// The count of entries is stored this often.
const COUNT_EVERY: u64 = 1024;
/// Entries put and not written yet, at most: 2 MiB. And they wait no longer than [`WAIT_MAX`] while others come.
const WAITING_MAX: usize = 16 << 10;
/// What a killed process forgets, at most; size and mtime decide for that.
const WAIT_MAX: Duration = Duration::from_secs(1);
const MAGIC: &[u8; 16] = b"thalweg-catalog\n";
const LAYOUT: u32 = 2;

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
        let now = Instant::now();
        for number in 0..20_000 {
            catalogue.put(&path(number), remembered(number), now).unwrap();
        }
        catalogue.put(&path(7), remembered(8), now).unwrap();
        for _ in 0..2 {
            for number in (0..20_000).filter(|&number| number != 7) {
                assert_eq!(catalogue.find(&path(number)).unwrap(), Some(remembered(number)), "{number}");
            }
            assert_eq!(catalogue.find(&path(7)).unwrap(), Some(remembered(8)));
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
    fn who_only_reads_changes_nothing_and_keeps_it_from_nobody() {
        let state = tempfile::tempdir().unwrap();
        let nowhere = state.path().join("nowhere");
        assert!(Catalogue::open_to_read(&nowhere, b"here").unwrap().is_none() && !nowhere.exists());
        let now = Instant::now();
        let mut catalogue = Catalogue::open(state.path(), b"here").unwrap().unwrap();
        catalogue.put(&path(7), remembered(7), now).unwrap();
        let file = catalogue.path.clone();
        let reads = || Catalogue::open_to_read(state.path(), b"here").unwrap();
        assert_eq!(reads().unwrap().find(&path(7)).unwrap(), Some(remembered(7)), "somebody has it");
        drop(catalogue);
        // As by its last use long ago.
        std::fs::remove_file(file.with_extension("lock")).unwrap();
        let used = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        OpenOptions::new().write(true).open(&file).unwrap().set_modified(used).unwrap();
        let before = std::fs::read(&file).unwrap();
        let mut reader = reads().unwrap();
        reader.put(&path(8), remembered(8), now).unwrap();
        assert_eq!(reader.find(&path(8)).unwrap(), None);
        drop(reader);
        let is_as_before = |content: &[u8]| {
            std::fs::read(&file).unwrap() == content
                && std::fs::metadata(&file).unwrap().modified().unwrap() == used
                && std::fs::read_dir(state.path()).unwrap().count() == 1
        };
        assert!(is_as_before(&before));
        // Nor is a damaged one begun anew.
        std::fs::write(&file, b"damaged").unwrap();
        OpenOptions::new().write(true).open(&file).unwrap().set_modified(used).unwrap();
        assert!(reads().is_none() && is_as_before(b"damaged"));
        std::fs::write(&file, &before).unwrap();
        let reader = reads();
        assert!(reader.is_some() && Catalogue::open(state.path(), b"here").unwrap().is_some());
    }

    #[test]
    fn of_many_destinations_those_that_were_used_last_are_remembered() {
        let state = tempfile::tempdir().unwrap();
        let identity = |number: u32| number.to_le_bytes();
        let open = |number| Catalogue::open_within(state.path(), &identity(number), 4).unwrap().unwrap();
        // Used long ago, in this order; the first is in use all the time.
        let _in_use = open(0);
        for number in 0..4 {
            drop((number > 0).then(|| open(number)));
            let path = path_of(state.path(), &identity(number));
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(number.into())).unwrap();
        }
        drop(open(1));
        drop(open(4));
        let is_there = |number| Catalogue::is_there(state.path(), &identity(number));
        // One more than there is room for goes, and that one is in use.
        assert_eq!([0, 1, 2, 3, 4].map(is_there), [true; 5]);
        drop(open(5));
        assert_eq!([0, 1, 2, 3, 4, 5].map(is_there), [true, true, false, true, true, true]);
        drop(open(2));
        assert!(is_there(2) && !is_there(3), "it is begun anew, and the next goes");
        let names = std::fs::read_dir(state.path()).unwrap().count();
        assert_eq!(names, 2 * 5, "with its lock");
    }

    #[test]
    fn a_damaged_slot_or_head_is_no_entry() {
        let state = tempfile::tempdir().unwrap();
        let mut catalogue = Catalogue::open(state.path(), b"here").unwrap().unwrap();
        let now = Instant::now();
        for number in 0..50 {
            catalogue.put(&path(number), remembered(number), now).unwrap();
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
