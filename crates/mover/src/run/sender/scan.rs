//! What the thread that scans does: it hands what the source finds to the machine, no faster than it is settled.

use super::SendRun;
use crate::endpoint::ScanSink;
use crate::event::Event;
use crate::failure::Failure;
use crate::order::{Layout, RUNS_MAX};
use crate::run::party::State;
use crate::stage::{Booking, Stage};
use crate::transfer::sender::Sender;
use std::fmt::Display;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thalweg_sys::usage::thread_cpu;
use thalweg_wire::message::{Order, Outcome};
use thalweg_wire::{Entry, EntryId, Kind, RelativePath};

impl SendRun {
    /// Where the chunks of an entry lie, if that is asked for and can be known.
    fn layout(&self, entry: &Entry) -> Option<Layout> {
        let size = entry.evidence.size;
        let is_of_chunks = matches!(entry.kind, Kind::File { .. }) && size > self.common.terms.chunk_bytes;
        if self.common.terms.disk.source.order != Some(Order::Layout) || !is_of_chunks {
            return None;
        }
        match self.source.layout(entry) {
            Ok(placed) => Some(Layout::of(&placed, size, self.common.terms.chunk_bytes)),
            Err(failure) => {
                self.layout_missed(&failure);
                None
            }
        }
    }

    fn layout_missed(&self, why: &dyn Display) {
        if !self.layout_is_missed.swap(true, Ordering::Relaxed) {
            (self.events)(Event::Note(format!("order layout: by offset instead: {why}")));
        }
    }

    pub(super) fn scan(&self) {
        self.common.accounts.enter(Stage::Scan);
        let mut sink = Sink {
            run: self,
            waited: Duration::ZERO,
            since: Instant::now(),
            cpu: thread_cpu(),
            items: 0,
            bytes: 0,
        };
        let totals = self.source.scan(&mut sink);
        sink.book();
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
}

/// Entries between two bookings of the scan.
const SCAN_ITEMS: u64 = 256;

impl Sink<'_> {
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
        let has_room = |state: &State<Sender, ()>| state.machine.has_room(state.end.held_bytes());
        let mut state = self.run.lock();
        if !has_room(&state) && !state.end.is_closed {
            state.machine.flush_offers();
            self.run.pump(&mut state);
            let since = Instant::now();
            while !has_room(&state) && !state.end.is_closed && state.end.ended.is_none() {
                state = self.run.common.wait_in(state, Duration::from_millis(500));
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
        let layout = run.layout(&entry);
        let mut state = self.room()?;
        let id = state.machine.offer_soon(entry);
        if let Some(layout) = layout
            && !state.machine.lay_out(id, layout)
        {
            run.layout_missed(&format_args!("the files under way have more than {RUNS_MAX} pieces"));
        }
        run.pump(&mut state);
        Some(id)
    }

    fn trouble(&mut self, path: RelativePath, failure: Failure) {
        let run = self.run;
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
