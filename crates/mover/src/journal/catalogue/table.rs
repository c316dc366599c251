//! Fixed slots in a file, found by open addressing, read and written in place.
//!
//! One entry costs a read and a write. Many entries together cost less: they are put in the order of their places, a
//! stretch of the file at a time ([`Table::put_all`]).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use thalweg_wire::Digest;

/// Slots of a new table: 320 KiB, most of it holes.
pub(super) const SLOTS_FIRST: u64 = 4096;
/// A run of occupied slots longer than this does not happen below the largest load; it means that the file was
/// tampered with.
const PROBES_MAX: u64 = 4096;
/// Bytes before the first slot.
const HEAD_BYTES: u64 = 4096;
const SLOT_BYTES: usize = 80;
/// Slots read at once: most look-ups end in the first.
const RUN: u64 = 8;
/// Slots in memory at once where many are read or written: 80 KiB.
const STRETCH: u64 = 1024;
/// Entries whose places are further apart (a page) are put by a read and a write each.
const GAP_MAX: u64 = 51;

#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) key: [u8; 16],
    pub(super) evidence: [u8; 16],
    pub(super) digest: Digest,
    pub(super) generation: u32,
}

pub(super) struct Table {
    pub(super) file: File,
    pub(super) slots: u64,
    pub(super) used: u64,
}

/// Where an entry with a key is, or may go. Slots of the file are shown to it from the key's own on.
#[derive(Default)]
struct Search {
    /// The entry itself.
    found: Option<Slot>,
    /// Index of its slot, or of the first that it may take.
    place: Option<u64>,
    /// Nothing was there before.
    is_new: bool,
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

    /// `None` for a slot that is empty, torn or damaged.
    fn decode(bytes: &[u8]) -> Option<Slot> {
        let is_sound = bytes.len() == SLOT_BYTES && bytes[72..] == check_value(&bytes[..72]);
        if !is_sound {
            return None;
        }
        let mut slot = Slot { key: [0; 16], evidence: [0; 16], digest: Digest::default(), generation: 0 };
        slot.key.copy_from_slice(&bytes[..16]);
        slot.evidence.copy_from_slice(&bytes[16..32]);
        slot.digest.0.copy_from_slice(&bytes[32..64]);
        slot.generation = u32::from_le_bytes([bytes[64], bytes[65], bytes[66], bytes[67]]);
        Some(slot)
    }
}

impl Search {
    /// Looks at slot `index`; true if there is nothing to be looked for behind it. An entry with another key is taken
    /// as it is: whether it is sound shows when that is looked for.
    fn see(&mut self, key: &[u8; 16], index: u64, bytes: &[u8]) -> bool {
        if bytes.iter().all(|&byte| byte == 0) {
            self.is_new = self.place.is_none();
            self.place.get_or_insert(index);
            return true;
        }
        if bytes[..16] != key[..] {
            return false;
        }
        match Slot::decode(bytes) {
            Some(slot) => {
                (self.found, self.place, self.is_new) = (Some(slot), Some(index), false);
                true
            }
            None => {
                self.place.get_or_insert(index);
                false
            }
        }
    }
}

impl Table {
    pub(super) fn new(file: File, slots: u64) -> io::Result<Table> {
        file.set_len(length_of(slots).ok_or(io::ErrorKind::FileTooLarge)?)?;
        Ok(Table { file, slots, used: 0 })
    }

    /// Room for so many more. Load up to 0.7: half of all look-ups for what is not there end within three slots.
    pub(super) fn has_room(&self, for_more: u64) -> bool {
        self.used.saturating_add(for_more) <= self.slots / 10 * 7
    }

    pub(super) fn find(&self, key: &[u8; 16]) -> io::Result<Option<Slot>> {
        Ok(self.search(key)?.found)
    }

    /// False if there is no place within reach.
    pub(super) fn put(&mut self, slot: &Slot) -> io::Result<bool> {
        let search = self.search(&slot.key)?;
        let Some(place) = search.place else { return Ok(false) };
        self.file.write_all_at(&slot.encode(), offset_of(place))?;
        self.used += u64::from(search.is_new);
        Ok(true)
    }

    /// Puts many; false if one of them found no place within reach: then none or some were put.
    pub(super) fn put_all(&mut self, slots: &mut [Slot]) -> io::Result<bool> {
        slots.sort_by_cached_key(|slot| self.home(&slot.key));
        let mut rest = &*slots;
        while let Some(first) = rest.first() {
            let start = self.home(&first.key);
            let mut last = start;
            let near = rest.iter().take_while(|slot| {
                let home = self.home(&slot.key);
                let is_near = home - last <= GAP_MAX && home - start < STRETCH;
                last = if is_near { home } else { last };
                is_near
            });
            let (these, others) = rest.split_at(near.count());
            rest = others;
            let is_put = match these {
                [slot] => self.put(slot)?,
                _ => self.put_stretch(start, last, these)?,
            };
            if !is_put {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts entries whose own slots are `start` to `last`.
    fn put_stretch(&mut self, start: u64, last: u64, these: &[Slot]) -> io::Result<bool> {
        let end = (last + 2 * RUN).min(self.slots);
        let mut bytes = self.read(start, end)?;
        let mut beyond = Vec::new();
        for slot in these {
            let mut search = Search::default();
            let home = self.home(&slot.key);
            let mut from_home = bytes.chunks_exact(SLOT_BYTES).zip(start..).skip((home - start) as usize);
            let is_over = from_home.any(|(bytes, index)| search.see(&slot.key, index, bytes));
            match search.place.filter(|_| is_over) {
                Some(place) => {
                    let at = (place - start) as usize * SLOT_BYTES;
                    bytes[at..at + SLOT_BYTES].copy_from_slice(&slot.encode());
                    self.used += u64::from(search.is_new);
                }
                None => beyond.push(slot),
            }
        }
        self.file.write_all_at(&bytes, offset_of(start))?;
        for slot in beyond {
            if !self.put(slot)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Slots of the next size, or of the first after it that has room for so many more.
    pub(super) fn next_slots(&self, for_more: u64) -> u64 {
        let mut slots = self.slots;
        loop {
            let factor = if slots < 1 << 20 { 8 } else { 2 };
            slots = slots.saturating_mul(factor);
            if self.used.saturating_add(for_more) <= slots / 10 * 7 || slots == u64::MAX {
                return slots;
            }
        }
    }

    /// The same entries in a table of so many slots, in `file`.
    pub(super) fn grown(&self, file: File, slots: u64) -> io::Result<Table> {
        let mut table = Table::new(file, slots)?;
        let mut at = 0;
        while at < self.slots {
            let end = (at + STRETCH).min(self.slots);
            let bytes = self.read(at, end)?;
            // Empty ones are sound in no case.
            let mut sound: Vec<Slot> = bytes.chunks_exact(SLOT_BYTES).filter_map(Slot::decode).collect();
            table.put_all(&mut sound)?;
            at = end;
        }
        Ok(table)
    }

    fn home(&self, key: &[u8; 16]) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = *key;
        u64::from_le_bytes([a, b, c, d, e, f, g, h]) % self.slots
    }

    fn read(&self, start: u64, end: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (end - start) as usize * SLOT_BYTES];
        self.file.read_exact_at(&mut bytes, offset_of(start))?;
        Ok(bytes)
    }

    fn search(&self, key: &[u8; 16]) -> io::Result<Search> {
        let mut search = Search::default();
        let mut bytes = [0; RUN as usize * SLOT_BYTES];
        let mut at = self.home(key);
        let mut left = PROBES_MAX.min(self.slots);
        while left > 0 {
            let count = left.min(RUN).min(self.slots - at);
            let bytes = &mut bytes[..count as usize * SLOT_BYTES];
            self.file.read_exact_at(bytes, offset_of(at))?;
            if bytes.chunks_exact(SLOT_BYTES).zip(at..).any(|(bytes, index)| search.see(key, index, bytes)) {
                break;
            }
            left -= count;
            at = (at + count) % self.slots;
        }
        Ok(search)
    }
}

fn offset_of(index: u64) -> u64 {
    HEAD_BYTES + index * SLOT_BYTES as u64
}

/// Bytes of a table of so many slots; `None` if no file can be as long.
pub(super) fn length_of(slots: u64) -> Option<u64> {
    slots.checked_mul(SLOT_BYTES as u64)?.checked_add(HEAD_BYTES)
}

pub(super) fn check_value(bytes: &[u8]) -> [u8; 8] {
    let mut check = [0; 8];
    check.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u64) -> Slot {
        let mut key = [0; 16];
        key.copy_from_slice(&blake3::hash(&number.to_le_bytes()).as_bytes()[..16]);
        Slot { key, evidence: [number as u8; 16], digest: Digest::default(), generation: 0 }
    }

    /// Full as far as it may be, so that runs are long, cross the stretches, and go round the end.
    #[test]
    fn what_is_put_together_is_where_it_is_if_put_one_by_one() {
        let new = || Table::new(tempfile::tempfile().unwrap(), 5000).unwrap();
        let (mut one_by_one, mut together) = (new(), new());
        let batches = [0..500, 300..2500, 2400..2410, 2500..3500];
        for batch in batches {
            batch.clone().for_each(|number| assert!(one_by_one.put(&slot(number)).unwrap()));
            let mut slots: Vec<Slot> = batch.map(slot).collect();
            assert!(together.put_all(&mut slots).unwrap());
        }
        for table in [&one_by_one, &together] {
            assert_eq!(table.used, 3500);
            for number in 0..3500 {
                let found = table.find(&slot(number).key).unwrap().unwrap();
                assert_eq!(found.evidence, slot(number).evidence);
            }
            assert!(table.find(&slot(3500).key).unwrap().is_none());
        }
    }
}
