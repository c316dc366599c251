//! What the thread that scans does: it hands what the source finds to the machine, no faster than it is settled.

use super::SendRun;
use super::removing::Removing;
use crate::endpoint::{ExtentMap, ScanSink};
use crate::event::Event;
use crate::failure::{Failure, counted};
use crate::order::{Layout, RUNS_MAX};
use crate::run::party::State;
use crate::stage::{Booking, Stage};
use crate::transfer::sender::Sender;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};
use thalweg_sys::cpu_time::thread_cpu;
use thalweg_wire::message::{Order, Outcome};
use thalweg_wire::{Entry, EntryId, Kind, RelativePath};

/// Files that are read by offset though they are to be read by their places on the medium.
#[derive(Debug, Default)]
struct Unplaced {
    /// Files whose places were asked for.
    asked: u64,
    /// Of these, those of which nothing has a place.
    whole: u64,
    /// Those of which something has none.
    in_part: u64,
    /// Why the first of them.
    why: Option<String>,
}

impl Unplaced {
    fn note_whole(&mut self, why: &dyn Display) {
        self.whole += 1;
        self.why.get_or_insert_with(|| why.to_string());
    }

    fn note_part(&mut self, why: String) {
        self.in_part += 1;
        self.why.get_or_insert(why);
    }

    /// What is told of them, once.
    fn told(&self) -> Option<String> {
        let Unplaced { asked, whole, in_part, why } = self;
        let asked = counted(*asked, "file", "files");
        let files = match (*whole, *in_part) {
            (_, 0) => format!("{whole} of {asked} by offset instead"),
            (0, _) => format!("{in_part} of {asked} by offset in part"),
            _ => format!("{whole} of {asked} by offset instead, {in_part} more in part"),
        };
        Some(format!("order layout: {files}: {}", why.as_ref()?))
    }
}

/// What files lie on that are read by their places on the medium.
#[derive(Debug, Default)]
struct Beneath {
    /// By numbers of devices, each of which has a queue.
    by_device: BTreeMap<u64, OnDisks>,
}

#[derive(Debug, Default)]
struct OnDisks {
    /// Empty where they are not known.
    disks: Vec<String>,
    /// Some file there is read by its places.
    is_read: bool,
}

impl Beneath {
    /// Shown at most: disks of a file system, and sets of disks.
    const DISKS_MAX: usize = 16;
    const SETS_MAX: usize = 4;

    /// Asks for the disks of a device, the first time.
    fn ask(&mut self, device: u64, disks: impl FnOnce() -> Option<Vec<String>>) {
        let ask = || OnDisks { disks: disks().unwrap_or_default(), is_read: false };
        self.by_device.entry(device).or_insert_with(ask);
    }

    fn note_read(&mut self, device: u64) {
        if let Some(on) = self.by_device.get_mut(&device) {
            on.is_read = true;
        }
    }

    /// What is told of file systems on several disks, once: the places in them are not those on each disk.
    fn told(&self) -> Option<String> {
        let mut queues = BTreeMap::<&[String], u64>::new();
        for on in self.by_device.values().filter(|on| on.is_read && on.disks.len() > 1) {
            *queues.entry(on.disks.as_slice()).or_default() += 1;
        }
        let sets = queues.iter().take(Beneath::SETS_MAX);
        let mut told: Vec<String> = sets.map(|(disks, queues)| Beneath::in_words(disks, *queues)).collect();
        let more = queues.len() - told.len();
        if more > 0 {
            told.push(format!("{more} more of this kind"));
        }
        (!told.is_empty()).then(|| format!("order layout: {}", told.join("; ")))
    }

    /// What has so many queues, and lies on these disks.
    fn in_words(disks: &[String], queues: u64) -> String {
        let shown = disks[..disks.len().min(Beneath::DISKS_MAX)].join(", ");
        let more = match disks.len().saturating_sub(Beneath::DISKS_MAX) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let (who, serves) = match queues {
            1 => ("one file system lies".to_owned(), "one queue serves them"),
            _ => (format!("{queues} file systems or subvolumes lie"), "one queue of each serves them"),
        };
        let by = "by addresses of the file system, not of each device";
        format!("{who} on {} devices ({shown}{more}): {serves}, {by}", disks.len())
    }
}

impl SendRun {
    pub(super) fn scan(&self) {
        self.common.accounts.enter(Stage::Scan);
        let mut sink = Sink {
            run: self,
            waited: Duration::ZERO,
            since: Instant::now(),
            cpu: thread_cpu(),
            items: 0,
            bytes: 0,
            unplaced: Unplaced::default(),
            beneath: Beneath::default(),
        };
        let totals = self.source.scan(&mut sink);
        sink.book();
        for text in sink.unplaced.told().into_iter().chain(sink.beneath.told()) {
            (self.events)(Event::Note(text));
        }
        let mut state = self.lock();
        state.machine.scan_ended(totals.clone());
        (self.events)(Event::ScanEnded(totals));
        self.pump(&mut state);
    }
}

/// Hands what the scan finds to the machine, no faster than it is settled.
struct Sink<'a> {
    run: &'a SendRun,
    /// Time without room since the last booking, which was at `since`.
    waited: Duration,
    since: Instant,
    cpu: Duration,
    items: u64,
    bytes: u64,
    unplaced: Unplaced,
    beneath: Beneath,
}

/// Entries between two bookings of the scan.
const SCAN_ITEMS: u64 = 256;

impl Sink<'_> {
    /// Where the chunks of an entry lie, if that is asked for and can be known; and of what of it that is not.
    fn layout(&mut self, entry: &Entry) -> Option<(Layout, Option<String>)> {
        let (size, run) = (entry.evidence.size, self.run);
        let terms = &run.common.terms;
        let is_of_chunks = matches!(entry.kind, Kind::File { .. }) && size > terms.chunk_bytes;
        if terms.disk.source.order != Some(Order::Layout) || !is_of_chunks {
            return None;
        }
        self.unplaced.asked += 1;
        match run.source.layout(entry) {
            Ok(ExtentMap { placed, unplaced_bytes }) => {
                if !placed.is_empty() {
                    self.beneath.ask(entry.evidence.device, || run.source.disks(entry));
                }
                let path = &entry.path;
                let why = || format!("{unplaced_bytes} bytes of `{path}` have no place on the medium yet");
                Some((Layout::of(&placed, size, terms.chunk_bytes), (unplaced_bytes > 0).then(why)))
            }
            Err(failure) => {
                self.unplaced.note_whole(&failure);
                None
            }
        }
    }

    /// Books what the scan did since the last time.
    fn book(&mut self) {
        let (now, cpu) = (Instant::now(), thread_cpu());
        let wall = now.saturating_duration_since(std::mem::replace(&mut self.since, now));
        let output = std::mem::take(&mut self.waited);
        let booking = Booking {
            busy: wall.saturating_sub(output),
            output,
            cpu: cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu)),
            bytes: std::mem::take(&mut self.bytes),
            items: std::mem::take(&mut self.items),
            ..Booking::default()
        };
        self.run.common.accounts.book(Stage::Scan, booking);
    }

    fn room(&mut self) -> Option<MutexGuard<'_, State<Sender, ()>>> {
        // What is said last still waits here while the link is backed up: more would only wait behind it.
        let (removing, behind) = (self.run.removing.get(), self.run.behind.get());
        let has_room = |state: &State<Sender, ()>| {
            state.machine.has_room(state.end.held_bytes())
                && !state.machine.has_to_say()
                && removing.is_none_or(Removing::has_room)
                && behind.is_none_or(|is_behind| !is_behind())
        };
        let mut state = self.run.lock();
        if !has_room(&state) && !state.end.is_closed {
            state.machine.flush_offers();
            self.run.pump(&mut state);
            let since = Instant::now();
            while !has_room(&state) && !state.end.is_closed && state.end.ended.is_none() {
                state = self.run.common.wait_in(state, Duration::from_millis(500));
                self.run.pump(&mut state);
            }
            self.waited += since.elapsed();
            drop(state);
            self.book();
            state = self.run.lock();
        }
        (!state.end.is_closed && state.end.ended.is_none()).then_some(state)
    }
}

impl ScanSink for Sink<'_> {
    fn entry(&mut self, entry: Entry) -> Option<EntryId> {
        let run = self.run;
        self.items += 1;
        self.bytes += entry.content_bytes();
        if self.items >= SCAN_ITEMS {
            self.book();
        }
        let device = entry.evidence.device;
        let (layout, in_part) = self.layout(&entry).unzip();
        let has_layout = layout.is_some();
        let mut state = self.room()?;
        let id = state.machine.offer_soon(entry);
        let is_kept = layout.is_none_or(|layout| state.machine.lay_out(id, layout));
        run.pump(&mut state);
        drop(state);
        if has_layout && is_kept {
            self.beneath.note_read(device);
        }
        match in_part.flatten() {
            _ if !is_kept => {
                self.unplaced
                    .note_whole(&format_args!("the files under way have more than {RUNS_MAX} pieces"));
            }
            Some(why) => self.unplaced.note_part(why),
            None => {}
        }
        Some(id)
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        let run = self.run;
        if run.ends_if_lost() {
            return;
        }
        let Some(mut state) = self.room() else { return };
        state.machine.aside(path.clone(), Outcome::Failed(failure.at(&path)));
        run.pump(&mut state);
    }

    fn skipped(&mut self, path: RelativePath, reason: &str) {
        let run = self.run;
        let Some(mut state) = self.room() else { return };
        state.machine.aside(path, Outcome::Skipped(reason.to_owned()));
        run.pump(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_by_offset_is_counted_and_the_first_reason_told() {
        let mut unplaced = Unplaced { asked: 9, ..Unplaced::default() };
        assert_eq!(unplaced.told(), None);
        unplaced.note_part("5 bytes".to_owned());
        assert_eq!(unplaced.told().unwrap(), "order layout: 1 of 9 files by offset in part: 5 bytes");
        unplaced.note_whole(&"not known");
        unplaced.note_whole(&"no map");
        let told = "order layout: 2 of 9 files by offset instead, 1 more in part: 5 bytes";
        assert_eq!(unplaced.told().unwrap(), told);
        let mut whole = Unplaced { asked: 1, ..Unplaced::default() };
        whole.note_whole(&"no map");
        assert_eq!(whole.told().unwrap(), "order layout: 1 of 1 file by offset instead: no map");
    }

    #[test]
    fn file_systems_on_several_disks_are_told_with_their_disks_and_others_are_not() {
        let owned = |disk: &&str| (*disk).to_owned();
        let on = |disks: &[&str]| Some(disks.iter().map(owned).collect::<Vec<String>>());
        let (mut beneath, mut asked) = (Beneath::default(), 0);
        let mut read = |device: u64, disks: Option<Vec<String>>| {
            beneath.ask(device, || {
                asked += 1;
                disks
            });
            beneath.note_read(device);
            beneath.told()
        };
        assert_eq!(read(1, on(&["sda"])), None);
        assert_eq!(read(2, None), None);
        let told = "order layout: one file system lies on 2 devices (sda, sdb): one queue serves them, \
                    by addresses of the file system, not of each device";
        assert_eq!(read(3, on(&["sda", "sdb"])).unwrap(), told);
        assert_eq!(read(3, on(&["sdc", "sdd"])).unwrap(), told, "asked once");
        // Another subvolume of it, and an array.
        read(4, on(&["sda", "sdb"]));
        let array: Vec<String> = (10..34).map(|number| format!("nvme{number}n1")).collect();
        let told = read(5, Some(array)).unwrap();
        let (array, both) = told.strip_prefix("order layout: ").unwrap().split_once("; ").unwrap();
        let (first, last) =
            ("one file system lies on 24 devices (nvme10n1, ", ", nvme25n1, and 8 more): one queue");
        assert!(array.starts_with(first) && array.contains(last), "{array}");
        let queues =
            "2 file systems or subvolumes lie on 2 devices (sda, sdb): one queue of each serves them,";
        assert!(both.starts_with(queues), "{both}");
        for device in 6..16 {
            read(device, on(&["sda", &format!("sd{device}")]));
        }
        assert!(read(16, None).unwrap().ends_with("; 8 more of this kind"));
        assert_eq!(asked, 16);
    }

    #[test]
    fn what_nothing_is_read_from_by_its_places_is_not_told() {
        let mut beneath = Beneath::default();
        beneath.ask(1, || Some(vec!["sda".to_owned(), "sdb".to_owned()]));
        assert_eq!(beneath.told(), None);
        beneath.note_read(2);
        assert_eq!(beneath.told(), None);
    }
}
