//! The content of files that the destination lacks, looked for in its own files of other names.
//!
//! 1. The first file that is lacking and large enough has all that stands there listed, once: files by size and time of
//!    change.
//! 2. Those of an entry's size and time are noted for it: first those with its name, and each file once, whatever names
//!    it has.
//! 3. They are opened when a chunk is compared with them or copied from them, by the path that they were listed with.
//!
//! It is a guess: what was read and what is written is digested, so a file that is another one, or is changed or gone
//! meanwhile, costs a read and no more. Names stay; what the source lacks is deleted when all else is settled.
//!
//! Not looked at: what stands beside a single file that gets a new name, what links lead to, other file systems,
//! staging directories, directories that may not be listed, and what came there after the listing, from this copy too.
//! What is left out for another cause, as for want of descriptors, is told as what is beyond the bounds is.

use super::LocalDestination;
use crate::endpoint::local::is_staging;
use crate::endpoint::local::staging::Grain;
use crate::endpoint::local::staging::territory::key_of;
use crate::endpoint::local::walk::{Step, Walk};
use crate::endpoint::{Decision, ELSEWHERE_BYTES_MIN, ELSEWHERE_MAX, Reading};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_sys::{File, Kind, Links, Stat, Time};
use thalweg_wire::message::Check;
use thalweg_wire::{Entry, Evidence};

/// Files that are listed: 48 MiB of memory.
const FILES_MAX: usize = 1 << 20;
/// Bytes of their names and of the paths of their directories: as long as they usually are, for all of those.
const PATH_BYTES_MAX: usize = 64 << 20;
/// Names that are looked at, small files among them: minutes, where each costs a look at a disk.
const NAMES_MAX: u64 = 16 << 20;
/// Files of one size and time that are looked at for an entry.
const ALIKE_MAX: usize = 1024;
/// Names between two questions whether anybody still waits, and two words on how much memory is taken.
const ASK_EVERY: u64 = 256;

/// Where a file stands: the path of its directory, and its name.
pub(super) type At<'a> = (&'a [u8], &'a [u8]);

/// What stands there, for entries that it lacks by name.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// Listed when the first of them comes.
    listed: OnceLock<Listed>,
    /// Memory that this takes, also while it is being listed.
    bytes: AtomicUsize,
}

impl Elsewhere {
    /// Whether more stands there, or may, than was looked at.
    pub(super) fn is_cut(&self) -> bool {
        self.listed.get().is_some_and(|listed| listed.is_cut)
    }

    /// Memory that is taken now.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// What stands there, as far as it is listed.
struct Listed {
    /// By size and time.
    files: Vec<Found>,
    /// Where in `bytes` the paths of their directories are.
    dirs: Vec<(u32, u32)>,
    /// Names and paths.
    bytes: Vec<u8>,
    /// There are more, or may be.
    is_cut: bool,
    /// What all of them are on.
    device: u64,
}

/// A file that stands there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    size: u64,
    mtime: Time,
    inode: u64,
    /// Number of its directory.
    dir: u32,
    /// Where in the bytes its name begins.
    name: u32,
    name_bytes: u8,
}

/// How much is listed.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    files: usize,
    path_bytes: usize,
    names: u64,
}

const BOUNDS: Bounds = Bounds { files: FILES_MAX, path_bytes: PATH_BYTES_MAX, names: NAMES_MAX };

impl LocalDestination {
    /// What becomes of a file of which nothing stands there: what was decided, unless its content may stand there under
    /// other names.
    pub(super) fn or_elsewhere(
        &self,
        entry: &Entry,
        decision: Decision,
        grain: Grain,
        reading: Reading<'_>,
    ) -> Decision {
        let may_find = self.terms.check != Check::Nothing && !self.terms.dry_run;
        // What stands beside a new name is not below the destination.
        let is_asked = self.terms.finds_renames && may_find && !self.renames();
        if !is_asked || entry.evidence.size < ELSEWHERE_BYTES_MIN {
            return decision;
        }
        let Some(listed) = self.listed(&|| reading(0, entry.evidence.size)) else { return decision };
        let name = self.final_path(&entry.path);
        let name = name.split().map_or(&[][..], |(_, name)| name);
        let source = self.is_beside_source.then_some(&entry.evidence);
        let alike = listed.alike(&entry.evidence, grain, name, source);
        if alike.is_empty() {
            return decision;
        }
        self.flights.with(entry.id, |flight| flight.elsewhere = alike);
        let left = match decision {
            Decision::Wanted { left, .. } | Decision::Elsewhere { left } => left,
            Decision::Settled { .. } | Decision::Fresh => None,
        };
        Decision::Elsewhere { left }
    }

    /// What stands there, listed now if it was not; `None` if it cannot be, or nobody waits for it.
    fn listed(&self, goes_on: &dyn Fn() -> bool) -> Option<&Listed> {
        if let Some(listed) = self.elsewhere.listed.get() {
            return Some(listed);
        }
        let listed = Listed::of(self, BOUNDS, goes_on);
        let bytes = listed.as_ref().map_or(0, Listed::held_bytes);
        self.elsewhere.bytes.store(bytes, Ordering::Relaxed);
        let listed = listed?;
        Some(self.elsewhere.listed.get_or_init(|| listed))
    }

    /// A file that was noted for an entry, with the paths of its directory and its name.
    pub(super) fn found_elsewhere(&self, entry: &Entry, number: usize) -> Option<(Found, At<'_>)> {
        let number = self.flights.elsewhere(entry.id, number)?;
        let listed = self.elsewhere.listed.get()?;
        let found = listed.files.get(number as usize)?;
        Some((*found, (listed.dir_of(found), listed.name_of(found))))
    }

    /// Opens it, if it is still there.
    pub(super) fn open_found(&self, found: Found, (dir, name): At<'_>) -> io::Result<File> {
        let changed = || io::Error::new(io::ErrorKind::NotFound, "something else stands there by now");
        let root = self.root.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let dir = self.with_descriptors(|| root.dir.open_beneath(dir, Links::Refuse))?;
        let stat = dir.stat(name)?;
        if stat.kind != Kind::File || (stat.inode, stat.size) != (found.inode, found.size) {
            return Err(changed());
        }
        let file = self.with_descriptors(|| dir.open_read(name))?;
        match file.stat()?.is_same_entry(&stat) {
            true => Ok(file),
            false => Err(changed()),
        }
    }
}

impl Listed {
    /// What stands at `to`; `None` if that cannot be listed, or `goes_on` says that nobody waits for it.
    fn of(to: &LocalDestination, bounds: Bounds, goes_on: &dyn Fn() -> bool) -> Option<Listed> {
        let root = to.root.as_ref()?;
        let key = root.territory.key.mount;
        let reopen = |path: &[u8]| to.with_descriptors(|| root.dir.open_beneath(path, Links::Refuse));
        let mut walk = Walk::new(Box::new(reopen));
        to.with_descriptors(|| walk.enter(b"", root.dir.clone())).ok()?;
        let (files, dirs, bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut listed = Listed { files, dirs, bytes, is_cut: false, device: key.0 };
        // Numbers of the directories on the way, of those that have a file that is listed.
        let mut levels: Vec<Option<u32>> = vec![None];
        let mut names = 0u64;
        loop {
            let (name, kind) = match walk.next() {
                Step::Name(name, kind) => (name, kind),
                Step::Trouble(error) => {
                    listed.is_cut |= hides_some(&error);
                    continue;
                }
                Step::Left(_) => {
                    levels.pop();
                    continue;
                }
                Step::End => break,
            };
            names += 1;
            if names.is_multiple_of(ASK_EVERY) {
                to.elsewhere.bytes.store(listed.held_bytes(), Ordering::Relaxed);
                if !goes_on() {
                    return None;
                }
            }
            if names > bounds.names {
                listed.is_cut = true;
                break;
            }
            if is_staging(&name) || !matches!(kind, Kind::File | Kind::Dir | Kind::Unknown) {
                continue;
            }
            let dir = match walk.dir() {
                Ok(dir) => dir,
                Err(error) => {
                    listed.is_cut |= hides_some(&error);
                    walk.abandon();
                    continue;
                }
            };
            let Some(level) = levels.last_mut() else { break };
            let stat = match dir.stat(&name) {
                Ok(stat) => stat,
                Err(error) => {
                    listed.is_cut |= hides_some(&error);
                    continue;
                }
            };
            match stat.kind {
                Kind::Dir if key_of(&stat) == key => {
                    let entered = to.with_descriptors(|| {
                        let child = dir.open_beneath(&name, Links::Refuse)?;
                        walk.enter(&name, Arc::new(child))
                    });
                    match entered {
                        Ok(()) => levels.push(None),
                        Err(error) => listed.is_cut |= hides_some(&error),
                    }
                }
                Kind::File
                    if stat.size >= ELSEWHERE_BYTES_MIN
                        && key_of(&stat) == key
                        && !listed.add(walk.path(), &name, &stat, level, bounds) =>
                {
                    listed.is_cut = true;
                    break;
                }
                _ => {}
            }
        }
        listed.files.sort_unstable_by_key(|file| (file.size, file.mtime));
        listed.files.shrink_to_fit();
        listed.dirs.shrink_to_fit();
        listed.bytes.shrink_to_fit();
        if listed.is_cut {
            tracing::warn!(
                files = listed.files.len(),
                "more stands at the destination than is looked at for files of other names"
            );
        }
        Some(listed)
    }

    /// Adds a file of the directory at `path`, which has the number `dir` once it has one; false if there is no room.
    fn add(&mut self, path: &[u8], name: &[u8], stat: &Stat, dir: &mut Option<u32>, bounds: Bounds) -> bool {
        let Ok(name_bytes) = u8::try_from(name.len()) else { return true };
        let more_bytes = name.len() + if dir.is_none() { path.len() } else { 0 };
        if self.files.len() >= bounds.files || self.bytes.len() + more_bytes > bounds.path_bytes {
            return false;
        }
        let dir = *dir.get_or_insert_with(|| {
            self.dirs.push((self.bytes.len() as u32, path.len() as u32));
            self.bytes.extend_from_slice(path);
            self.dirs.len() as u32 - 1
        });
        let name_at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        let (size, mtime, inode) = (stat.size, stat.mtime, stat.inode);
        self.files.push(Found { size, mtime, inode, dir, name: name_at, name_bytes });
        true
    }

    /// Files that look as if they had the content of an entry that shows `evidence`, by their numbers: first those of
    /// this name. `source`: what is offered is of the same kernel, and not found in itself.
    fn alike(&self, evidence: &Evidence, grain: Grain, name: &[u8], source: Option<&Evidence>) -> Vec<u32> {
        let wanted = evidence.mtime;
        let exact = Time { seconds: wanted.seconds, nanos: wanted.nanos };
        // No file system keeps times more coarsely than in steps of 2 s.
        let from = match grain == Grain::FINEST {
            true => exact,
            false => Time { seconds: wanted.seconds.saturating_sub(2), nanos: 0 },
        };
        let first = self.files.partition_point(|file| (file.size, file.mtime) < (evidence.size, from));
        let is_source =
            |file: &Found| source.is_some_and(|it| (it.device, it.inode) == (self.device, file.inode));
        let alike: Vec<(u32, &Found)> = (first as u32..)
            .zip(&self.files[first..])
            .take_while(|&(_, file)| file.size == evidence.size && file.mtime <= exact)
            .take(ALIKE_MAX)
            .filter(|&(_, file)| grain.is_same(wanted, file.mtime) && !is_source(file))
            .collect();
        let (named, others): (Vec<_>, Vec<_>) =
            alike.into_iter().partition(|&(_, file)| self.name_of(file) == name);
        let mut picked: Vec<(u32, &Found)> = Vec::new();
        for (number, file) in named.into_iter().chain(others) {
            if picked.len() < ELSEWHERE_MAX && picked.iter().all(|(_, other)| other.inode != file.inode) {
                picked.push((number, file));
            }
        }
        picked.into_iter().map(|(number, _)| number).collect()
    }

    fn held_bytes(&self) -> usize {
        self.files.capacity() * size_of::<Found>()
            + self.dirs.capacity() * size_of::<(u32, u32)>()
            + self.bytes.capacity()
    }

    fn dir_of(&self, file: &Found) -> &[u8] {
        let (start, bytes) = self.dirs[file.dir as usize];
        &self.bytes[start as usize..][..bytes as usize]
    }

    fn name_of(&self, file: &Found) -> &[u8] {
        &self.bytes[file.name as usize..][..usize::from(file.name_bytes)]
    }
}

/// Whether files are missed by this that might be looked at: not what went, nor what may not be read.
fn hides_some(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Destination;
    use crate::endpoint::local::{DestinationPlace, wire_time};
    use crate::filter::Filter;
    use std::cell::Cell;
    use std::path::Path;
    use std::time::{Duration, SystemTime};
    use thalweg_sys::Dir;
    use thalweg_wire::message::{SourceForm, Terms};
    use thalweg_wire::{EntryId, RelativePath};

    /// Changed so long after 1970, and all alike.
    const CHANGED: Duration = Duration::from_secs(1_000_000_000);

    fn put(root: &Path, name: &str) -> Evidence {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = std::fs::File::create(path).unwrap();
        file.set_len(ELSEWHERE_BYTES_MIN).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + CHANGED).unwrap();
        let (dir, name) = match name.rsplit_once('/') {
            Some((dir, name)) => (root.join(dir), name),
            None => (root.to_path_buf(), name),
        };
        let stat = Dir::open(&dir).unwrap().stat(name.as_bytes()).unwrap();
        let (mtime, device, inode) = (wire_time(stat.mtime), stat.device, stat.inode);
        Evidence { size: stat.size, mtime, device, inode, ..Evidence::default() }
    }

    fn opened(root: &Path, terms: Terms) -> LocalDestination {
        let place = DestinationPlace { path: root.to_path_buf(), below: None };
        LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default()).unwrap()
    }

    fn destination(root: &Path) -> LocalDestination {
        opened(root, Terms { dry_run: true, ..Terms::of(4 << 20, 1 << 20) })
    }

    fn listed(root: &Path, bounds: Bounds) -> Listed {
        Listed::of(&destination(root), bounds, &|| true).unwrap()
    }

    fn names(listed: &Listed, picked: &[u32]) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let name = |number: &u32| {
            let file = &listed.files[*number as usize];
            format!("{}/{}", text(listed.dir_of(file)), text(listed.name_of(file)))
        };
        picked.iter().map(name).collect()
    }

    #[test]
    fn no_more_is_listed_than_there_is_room_for_and_that_is_known() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            put(scratch.path(), name);
        }
        std::fs::write(scratch.path().join("small"), "x").unwrap();
        let rows = [
            (BOUNDS, 3, false),
            (Bounds { files: 3, path_bytes: 3, names: 4 }, 3, false),
            (Bounds { files: 2, ..BOUNDS }, 2, true),
            (Bounds { path_bytes: 2, ..BOUNDS }, 2, true),
            (Bounds { names: 2, ..BOUNDS }, 2, true),
        ];
        for (bounds, files, is_cut) in rows {
            let listed = listed(scratch.path(), bounds);
            assert_eq!((listed.files.len(), listed.is_cut), (files, is_cut), "{bounds:?}");
        }
    }

    #[test]
    fn what_is_left_out_for_no_good_cause_is_known() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let deep = "d/".repeat(24);
        put(root, &format!("{deep}file"));
        put(root, "d/x");
        for number in 0..ASK_EVERY {
            std::fs::write(root.join(format!("{deep}{number}")), "").unwrap();
        }
        // The walk is far below, and holds only the innermost directories.
        let goes_on = || {
            std::fs::rename(root.join("d"), root.join("old")).unwrap();
            std::fs::create_dir(root.join("d")).unwrap();
            true
        };
        let listed = Listed::of(&destination(root), BOUNDS, &goes_on).unwrap();
        assert_eq!((listed.files.len(), listed.is_cut), (1, true), "another stands where x was");
        assert!(hides_some(&io::Error::from_raw_os_error(thalweg_sys::errno::TOO_MANY_OPEN)));
        assert!(!hides_some(&io::ErrorKind::PermissionDenied.into()));
    }

    /// Else clients of a daemon take memory that nobody counts.
    #[test]
    fn what_is_listed_counts_as_held_also_on_the_way() {
        let scratch = tempfile::tempdir().unwrap();
        let files = 3 * ASK_EVERY as usize;
        for number in 0..files {
            put(scratch.path(), &number.to_string());
        }
        let to = destination(scratch.path());
        let told = Cell::new(0);
        let goes_on = |most: usize| {
            told.set(told.get().max(to.elsewhere.held_bytes()));
            told.get() < most
        };
        let few = ASK_EVERY as usize / 2 * size_of::<Found>();
        assert!(to.listed(&|| goes_on(few)).is_none() && told.get() >= few, "{}", told.get());
        assert_eq!(to.elsewhere.held_bytes(), 0, "it was given up");
        assert!(to.listed(&|| true).is_some());
        assert!(to.elsewhere.held_bytes() > files * size_of::<Found>());
    }

    /// Else each change at the source leaves something behind.
    #[test]
    fn what_was_noted_for_an_entry_goes_when_another_replaces_it() {
        let scratch = tempfile::tempdir().unwrap();
        let evidence = put(scratch.path(), "old");
        let to = opened(scratch.path(), Terms { finds_renames: true, ..Terms::of(4 << 20, 1 << 20) });
        let entry = Entry {
            id: EntryId(1),
            path: RelativePath::new(b"new".to_vec()).unwrap(),
            kind: thalweg_wire::Kind::File { sparse: false, marked: false },
            mode: 0o644,
            uid: thalweg_sys::user::effective_uid(),
            gid: thalweg_sys::user::effective_gid(),
            evidence,
            xattrs: Vec::new(),
        };
        assert!(matches!(to.decide(&entry, &|_, _| true), Decision::Elsewhere { left: None }));
        assert!(to.flights.elsewhere(entry.id, 0).is_some());
        to.gone(entry.id);
        assert!(to.flights.elsewhere(entry.id, 0).is_none());
        to.close(false);
    }

    #[test]
    fn a_file_is_tried_once_whatever_names_it_has_first_where_it_has_the_entrys() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        put(root, "dir/a");
        for name in ["dir/b", "dir/e", "f", "g"] {
            std::fs::hard_link(root.join("dir/a"), root.join(name)).unwrap();
        }
        let other = put(root, "dir/er/z");
        let listed = listed(root, BOUNDS);
        let alike = |name: &str, source| {
            names(&listed, &listed.alike(&other, Grain::FINEST, name.as_bytes(), source))
        };
        let both = alike("z", None);
        assert_eq!((both.len(), &*both[0]), (2, "dir/er/z"));
        assert_eq!(alike("e", None)[0], "dir/e");
        // It is the source itself.
        assert_eq!(alike("e", Some(&other)), ["dir/e"]);
    }

    #[test]
    fn times_are_as_fine_as_the_file_system_keeps_them() {
        let scratch = tempfile::tempdir().unwrap();
        let there = put(scratch.path(), "a");
        let listed = listed(scratch.path(), BOUNDS);
        let found = |seconds: i64, nanos: u32, grain: Grain| {
            let mtime = thalweg_wire::Time { seconds: there.mtime.seconds + seconds, nanos };
            !listed.alike(&Evidence { mtime, ..there }, grain, b"b", None).is_empty()
        };
        assert!(found(0, 0, Grain::FINEST) && !found(0, 1, Grain::FINEST));
        let coarse = Grain(2_000_000_000);
        assert!(found(1, 999, coarse) && !found(2, 0, coarse) && !found(-1, 0, coarse));
    }
}
