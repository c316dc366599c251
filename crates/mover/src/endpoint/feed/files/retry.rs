//! Files that failed: which are begun again, and when.
//!
//! What may pass is begun again after a pause, whether or not the file grew ([`crate::retry`]). What does not pass is
//! begun again when the file grew, [`FAILURES_MAX`] times at most.

use super::super::Taker;
use super::super::file::{Growing, Identity};
use super::{DONE_MAX, Done, FilesFeed, short};
use crate::failure::{Failure, Reason, Result};
use crate::retry::{Again, FAILURES_MAX, Rule, Tries};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use thalweg_sys::File;
use thalweg_wire::RelativePath;

/// Of the files that may be open at the same time, those that failed have one part in so many. Others are found again
/// by their names.
const HELD_PART: usize = 4;

/// A file that failed since it came right last.
#[derive(Default)]
struct Failing {
    tries: Tries,
    /// How often it failed for what does not pass.
    lasting: u32,
    /// When it is begun again, if it waits for that.
    again: Option<Instant>,
}

/// A file that stays open until it is begun again.
struct HeldFile {
    at: Instant,
    path: RelativePath,
    file: File,
    cuts: u32,
    is_replaced: bool,
}

/// Whether a file that was found may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    /// If it is not over.
    Yes,
    /// It failed, and its pause is over: whether or not it grew.
    Again,
    /// Not yet, or not any more.
    No,
}

/// Which files are begun again, and when.
pub(super) struct Retries {
    pub rule: Rule,
    /// Those that failed since they came right last.
    failing: BTreeMap<Identity, Failing>,
    /// Of these, those that stay open until they are begun again.
    held: BTreeMap<Identity, HeldFile>,
}

impl Retries {
    pub(super) fn by(rule: Rule) -> Retries {
        Retries { rule, failing: BTreeMap::new(), held: BTreeMap::new() }
    }

    /// How many stay open.
    pub(super) fn open(&self) -> usize {
        self.held.len()
    }

    /// Whether a file that was found may begin, as far as it failed before.
    pub(super) fn begins(&self, identity: &Identity, now: Instant) -> Begins {
        let Some(failing) = self.failing.get(identity) else { return Begins::Yes };
        match failing.again {
            Some(_) if self.held.contains_key(identity) => Begins::No,
            Some(at) if now < at => Begins::No,
            Some(_) => Begins::Again,
            None if failing.lasting >= FAILURES_MAX => Begins::No,
            None => Begins::Yes,
        }
    }

    /// A file is under way: again, if it failed before.
    pub(super) fn has_begun(&mut self, identity: &Identity) {
        self.failing.entry(*identity).and_modify(|failing| failing.again = None);
    }

    /// All of a file is at the destination.
    pub(super) fn came_right(&mut self, identity: &Identity) {
        self.failing.remove(identity);
    }

    /// Whether the end waits for files that failed or may fail yet: where it comes by itself, and they are begun again.
    pub(super) fn awaits(&self, are_under_way: bool) -> bool {
        let may_fail = self.rule == Rule::Few && are_under_way;
        may_fail || self.failing.values().any(|failing| failing.again.is_some())
    }

    /// Files that wait to be begun again, are not open, and were not found by a look at everything are gone.
    pub(super) fn give_up_gone(&mut self, names: &BTreeMap<RelativePath, Identity>) {
        let waits = |failing: &Failing| failing.again.is_some();
        if !self.failing.values().any(waits) {
            return;
        }
        let there: BTreeSet<Identity> = names.values().copied().collect();
        for (identity, failing) in &mut self.failing {
            if !there.contains(identity) && !self.held.contains_key(identity) {
                failing.again = None;
            }
        }
    }

    /// Forgets that files failed which are not there any more.
    pub(super) fn forget(&mut self, there: &BTreeSet<Identity>) {
        let held = &self.held;
        self.failing.retain(|identity, _| there.contains(identity) || held.contains_key(identity));
    }
}

impl FilesFeed {
    /// A file was let go because it failed: when it is begun again.
    pub(super) fn fails(&mut self, identity: Identity, file: Growing, failure: &Failure) -> Option<Again> {
        let now = self.now();
        if self.retries.failing.len() >= DONE_MAX && !self.retries.failing.contains_key(&identity) {
            return None;
        }
        // Said by who reads it, and not by the destination.
        let is_source = file.is_ended && file.ended_at.is_none();
        // What another stream still writes is not complete in the end, whenever it is looked at. (A read that finds a
        // file in use is another matter, and passes.)
        let is_ours_to_end = is_source && failure.reason == Reason::StillWritten;
        let passes = !is_ours_to_end && self.retries.rule.may(&identity.origin(file.cuts), failure.kind);
        let went_on_for =
            file.goes_on_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let (rule, is_last) = (self.retries.rule, self.end.is_last);
        let failing = self.retries.failing.entry(identity).or_default();
        let again = match passes && !is_last {
            true => failing.tries.failed(rule, failure.kind, went_on_for),
            false => None,
        };
        let Some(again) = again else {
            failing.again = None;
            failing.lasting = if passes { FAILURES_MAX } else { failing.lasting.saturating_add(1) };
            return None;
        };
        // What takes long to read again is read a fifth of the time at most.
        let again = Again { pause: again.pause.max(file.rests), ..again };
        let at = now + again.pause;
        failing.again = Some(at);
        // What could not be read by this handle may be by another.
        if !is_source && self.retries.held.len() < self.at_once / HELD_PART {
            let Growing { path, file, cuts, is_replaced, .. } = file;
            self.retries.held.insert(identity, HeldFile { at, path, file, cuts, is_replaced });
        }
        Some(again)
    }

    /// Begins those again that stayed open and whose pause is over.
    pub(super) fn begin_again(&mut self, taker: &dyn Taker) -> Result<()> {
        if self.end.is_last || self.retries.held.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let due = self.retries.held.iter().filter(|(_, held)| now >= held.at).map(|(identity, _)| *identity);
        for identity in due.collect::<Vec<_>>() {
            let Some(held) = self.retries.held.remove(&identity) else { continue };
            let HeldFile { path, file, cuts, is_replaced, .. } = held;
            self.begin(path, file, identity, cuts, taker)?;
            // Nobody looked at its name meanwhile.
            let is_gone = !self.found.names.values().any(|there| *there == identity);
            self.flows.files.entry(identity).and_modify(|file| file.is_replaced = is_replaced || is_gone);
        }
        Ok(())
    }

    /// It cannot be looked at now, and nothing waits for it: it begins when its name shows it again, of any length.
    pub(super) fn begins_when_found(&mut self, path: &RelativePath, identity: Identity, cuts: u32) {
        self.retries.has_begun(&identity);
        if self.done.len() < DONE_MAX || self.done.contains_key(&identity) {
            let done = Done { bytes: u64::MAX, digest: None, cuts, name: short(path), changed: None };
            self.done.insert(identity, done);
        }
    }
}
