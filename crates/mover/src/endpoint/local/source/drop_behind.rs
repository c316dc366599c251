//! What a large copy brings into the page cache of its source leaves it again, so that it does not push out what others
//! have there.
//!
//! Asked region by region, before the kernel reads ahead in it: what was in the page cache before stays, whoever put it
//! there. What was not is dropped once the reading is two regions further, and at the end. A copy that brings in less
//! than [`FROM_BYTES`] drops nothing: its source is likely to be used again, and the cache has room for it. Where the
//! system does not say what is cached (Linux before 6.5) everything stays.

use crate::endpoint::local::lock;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use thalweg_sys::{Advice, File};

/// A copy may leave so many bytes of its source in the page cache.
const FROM_BYTES: u64 = 1 << 30;
/// What is asked about, and dropped, at once.
pub(super) const REGION_BYTES: u64 = 16 << 20;
/// Files below this are few pages each, and asking costs as much as reading them.
pub(super) const FILE_BYTES_MIN: u64 = 64 << 10;
/// Regions that stay behind the one being read: other streams still read in them.
const KEPT: usize = 2;
/// So many regions before they are read it is asked what of them is there: farther than the kernel reads ahead.
const AHEAD: u64 = 4;

/// What all files of one source brought into the page cache.
#[derive(Debug)]
pub(in crate::endpoint::local) struct Brought {
    bytes: AtomicU64,
    from_bytes: u64,
    /// What is there in part counts as there: its reader has another way to it.
    is_sparing: bool,
    /// The system does not know how to say what is cached: it is not asked again.
    is_untold: AtomicBool,
}

impl Brought {
    /// Nothing yet; `from_bytes` may stay.
    pub(super) fn new(from_bytes: u64) -> Arc<Brought> {
        Brought::so(from_bytes, false)
    }

    /// For who reads once: nothing may stay. With `is_sparing` nothing either of which a part was there goes: it has to
    /// be read past the page cache.
    pub(super) fn by_one_who_reads_once(is_sparing: bool) -> Arc<Brought> {
        Brought::so(0, is_sparing)
    }

    fn so(from_bytes: u64, is_sparing: bool) -> Arc<Brought> {
        let (bytes, is_untold) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Brought { bytes, from_bytes, is_sparing, is_untold })
    }

    /// As it is for a copy.
    pub(in crate::endpoint::local) fn of_a_copy() -> Arc<Brought> {
        Brought::new(FROM_BYTES)
    }

    /// Whether less than half of a range is in the page cache, or for a sparing reader nothing; not where nobody says.
    fn is_out(&self, file: &File, offset: u64, bytes: u64) -> bool {
        if self.is_untold.load(Ordering::Relaxed) {
            return false;
        }
        match file.cached_bytes(offset, bytes) {
            Ok(cached) => cached < if self.is_sparing { 1 } else { bytes.div_ceil(2) },
            Err(error) => {
                if error.kind() == io::ErrorKind::Unsupported {
                    self.is_untold.store(true, Ordering::Relaxed);
                }
                false
            }
        }
    }

    /// So many more. Whether they are to be dropped.
    fn adds(&self, bytes: u64) -> bool {
        self.bytes.fetch_add(bytes, Ordering::Relaxed) >= self.from_bytes
    }
}

/// Of one open file: what is dropped behind its reader.
#[derive(Debug)]
pub(super) struct Behind {
    brought: Arc<Brought>,
    regions: Mutex<Regions>,
}

#[derive(Debug, Default)]
struct Regions {
    /// The one read last, and what was said of it.
    last: Option<(u64, bool)>,
    /// Those that come next, and whether they were out of the page cache when it was asked.
    next: BTreeMap<u64, bool>,
    /// Those read that were, in that order.
    new: VecDeque<u64>,
}

impl Behind {
    /// Nothing read yet.
    pub(super) fn new(brought: Arc<Brought>) -> Behind {
        Behind { brought, regions: Mutex::default() }
    }

    /// Call it before `file` is read at `offset`. Whether what is there was out of the page cache, and for a sparing
    /// reader what comes next as well: the kernel reads ahead beyond a region.
    pub(super) fn reads(&self, file: &File, offset: u64, file_bytes: u64) -> bool {
        let number = offset / REGION_BYTES;
        let mut regions = lock(&self.regions);
        if let Some((last, is_out)) = regions.last
            && last == number
        {
            return is_out;
        }
        let bytes_of = |number: u64| file_bytes.saturating_sub(number * REGION_BYTES).min(REGION_BYTES);
        regions.next.retain(|&next, _| next >= number);
        for next in (number..=number + AHEAD).take_while(|&next| bytes_of(next) > 0) {
            let is_out = || self.brought.is_out(file, next * REGION_BYTES, bytes_of(next));
            regions.next.entry(next).or_insert_with(is_out);
        }
        let is_new = regions.next.remove(&number) == Some(true);
        let is_before_others = self.brought.is_sparing && regions.next.get(&(number + 1)) == Some(&false);
        let is_out = is_new && !is_before_others;
        regions.last = Some((number, is_out));
        if is_new && self.brought.adds(bytes_of(number)) && !regions.new.contains(&number) {
            regions.new.push_back(number);
        }
        while regions.new.len() > KEPT
            && let Some(number) = regions.new.pop_front()
        {
            drop_region(file, number);
        }
        is_out
    }

    /// Nothing more is read.
    pub(super) fn ends(&self, file: &File) {
        lock(&self.regions).new.drain(..).for_each(|number| drop_region(file, number));
    }
}

fn drop_region(file: &File, number: u64) {
    // Advice: what is refused, mapped or dirty stays.
    let _ = file.advise(Advice::DontNeed, number * REGION_BYTES, REGION_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_sys::Dir;

    const REGIONS: u64 = 5;
    const BYTES: u64 = REGIONS * REGION_BYTES;

    fn read_all(file: &File, behind: &Behind) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 20];
        for piece in 0..BYTES >> 20 {
            behind.reads(file, piece << 20, BYTES);
            file.read_at(&mut buffer, piece << 20)?;
        }
        Ok(())
    }

    #[test]
    fn what_was_brought_in_is_dropped_and_what_was_there_stays() {
        // /dev/shm and /tmp may have no medium; the working directory usually has one.
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let file = dir.create_new(b"x", 0o600).unwrap();
        let content = vec![7; 1 << 20];
        (0..BYTES >> 20).for_each(|piece| file.write_all_at(&content, piece << 20).unwrap());
        file.sync_all().unwrap();
        let cached = || file.cached_bytes(0, BYTES);
        file.advise(Advice::DontNeed, 0, 0).unwrap();
        if !cached().is_ok_and(|bytes| bytes < REGION_BYTES) {
            eprintln!("skipped: what is cached is not told here, or cannot be dropped");
            return;
        }
        // A copy that brings in little leaves it, and what was there is nobody's to drop. The kernel may take a few
        // pages of its own accord where memory is short; what is dropped goes by whole regions.
        let stays = |bytes: u64| BYTES - bytes < REGION_BYTES;
        let behind = Behind::new(Brought::new(BYTES));
        read_all(&file, &behind).unwrap();
        behind.ends(&file);
        let left = cached().unwrap();
        assert!(stays(left), "{left} bytes of {BYTES} are left");
        let behind = Behind::new(Brought::new(0));
        read_all(&file, &behind).unwrap();
        behind.ends(&file);
        let left = cached().unwrap();
        assert!(stays(left), "{left} bytes of {BYTES} are left of what was there");
        // What one that brings in much brought in goes, behind it and at the end.
        file.advise(Advice::DontNeed, 0, 0).unwrap();
        let behind = Behind::new(Brought::new(0));
        read_all(&file, &behind).unwrap();
        let left = cached().unwrap();
        assert!(left <= KEPT as u64 * REGION_BYTES, "{left} bytes are left");
        behind.ends(&file);
        assert_eq!(cached().unwrap(), 0);
    }
}
