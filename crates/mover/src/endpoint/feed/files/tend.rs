//! Handing on what files have, until each is complete, and all are.

use super::super::file::{Growing, Identity, Seen};
use super::super::{Taker, Wanted};
use super::{DONE_MAX, Done, FilesFeed, limit_of, missed, short};
use crate::failure::{Failure, FailureKind, Result};
use crate::journal::marks::Known;
use std::time::Duration;
use thalweg_wire::message::Until;
use thalweg_wire::path::Escaped;
use thalweg_wire::{EntryId, RelativePath};

/// A file whose name was taken away and that did not grow for so long is complete, if who writes it cannot be seen.
const REPLACED_IDLE: Duration = Duration::from_secs(5);
/// So many times as long as a file was read again, to go on with it, it is to rest before it is complete: one that is
/// opened, added to and closed every second is read again at most a fifth of the time.
const REREAD_RESTS: u32 = 4;
/// Of a file whose name is in a mark that is not of it.
const REFUTED: &str = "is not the file that a stream wrote there and did not complete: it is streamed as it is, whatever that \
                       one's mark says";

impl FilesFeed {
    /// Does what the destination asks for.
    pub(super) fn hear(&mut self, at_most: Duration, taker: &dyn Taker, buffer: &mut [u8]) -> Result<()> {
        for wanted in taker.wanted(at_most) {
            match wanted {
                Wanted::LetGo { flow, failure } => self.let_go(flow, failure, taker)?,
                Wanted::GoesOn { flow } => {
                    let identity = self.flows.by_flow.get(&flow);
                    if let Some(identity) = identity.filter(|one| self.flows.asked.remove(one)) {
                        self.flows.busy.insert(*identity);
                    }
                }
                Wanted::Rewind { at, is_ours, is_over } => {
                    let identity = self.flows.by_flow.get(&at.flow).copied().unwrap_or(Identity::NONE);
                    let file = self.flows.files.get_mut(&identity);
                    let Some(file) = file.filter(|file| file.flow == at.flow) else {
                        let cause =
                            "the destination lost what it had, and the source was let go or cut since";
                        let failure = Failure::new(FailureKind::Changed, "go on with the stream", cause);
                        taker.rewound(&at, Err(failure));
                        continue;
                    };
                    (file.is_ended, file.ended_at) = (false, None);
                    let began = (self.eyes.clock)();
                    let result = file.rewind(&at, is_ours, buffer, taker);
                    file.rests = (self.eyes.clock)().saturating_duration_since(began) * REREAD_RESTS;
                    if result.is_err() && taker.is_over() {
                        // It was not read to its end: that says nothing of what it is.
                        return Ok(());
                    }
                    file.is_ended = result.is_err();
                    let was_cut = matches!(&result, Err(failure) if failure.kind == FailureKind::Changed);
                    let whole = (at.bytes, Some(at.digest), file.cuts);
                    let before = self.done.get(&identity).map(|done| (done.bytes, done.digest, done.cuts));
                    match was_cut && (is_over || before == Some(whole)) {
                        // All of it was read before the cut, and is there; or that it is not was told then.
                        true => {
                            taker.note(cut_note(&file.path, at.bytes));
                            taker.rewound(&at, Ok(blake3::Hasher::new()));
                            taker.end(at.flow);
                        }
                        false => taker.rewound(&at, result),
                    }
                    if was_cut {
                        self.begin_cut(identity, taker)?;
                    }
                    self.flows.busy.insert(identity);
                }
            }
        }
        Ok(())
    }

    /// A flow is over. Its file may have grown between the word that it is complete and this one: then it goes on at
    /// once, before anything is concluded.
    fn let_go(&mut self, flow: EntryId, failure: Option<Failure>, taker: &dyn Taker) -> Result<()> {
        let Some((identity, file)) = self.flows.let_go(flow) else {
            // It was cut since: what it had cannot be read again.
            if failure.is_some() {
                taker.begins_again(flow, None);
            }
            return Ok(());
        };
        let is_done = failure.is_none();
        let limit = limit_of(&self.spec.until, None);
        let size = (self.eyes.stat_of)(&file.file).ok().map(|stat| stat.size.min(limit));
        // What failed for good is begun again when it has another length than now, what is complete when it has another
        // than then.
        let ended = file.ended_at.filter(|_| is_done);
        let bytes = ended.map_or(size.unwrap_or(0), |(bytes, _)| bytes);
        // Of what cannot be looked at any more, the next look at its name shows what came since.
        let size = size.unwrap_or(bytes);
        if self.done.len() < DONE_MAX {
            let digest = ended.map(|(_, digest)| digest);
            let changed = file.changed().filter(|_| is_done);
            let name = short(&file.path);
            self.done.insert(identity, Done { bytes, digest, cuts: file.cuts, name, changed });
        }
        if let Some(failure) = failure {
            let again = self.fails(identity, file, &failure);
            self.end.is_single_over |= again.is_none();
            taker.begins_again(flow, again);
            return Ok(());
        }
        self.retries.came_right(&identity);
        if size != bytes && !self.end.is_last {
            let Growing { path, file, cuts, is_replaced, .. } = file;
            self.begin(path, file, identity, cuts, taker)?;
            self.flows.files.entry(identity).and_modify(|file| file.is_replaced = is_replaced);
        }
        Ok(())
    }

    /// What a file has from its beginning, now that it was cut, is another flow. What was read of the old one is kept
    /// elsewhere: its handle is the new one's.
    fn begin_cut(&mut self, identity: Identity, taker: &dyn Taker) -> Result<()> {
        let Some(file) = self.flows.files.remove(&identity) else { return Ok(()) };
        let Growing { path, file, cuts, .. } = file;
        self.begin(path, file, identity, cuts + 1, taker)
    }

    pub(super) fn tend(&mut self, taker: &dyn Taker, buffer: &mut [u8], is_ending: bool) -> Result<()> {
        let mut held_back = None;
        for identity in std::mem::take(&mut self.flows.busy) {
            self.flows.asked.remove(&identity);
            let file = self.flows.files.get_mut(&identity);
            let Some(file) = file.filter(|file| !file.is_ended) else { continue };
            let marks = self.places.as_ref().and_then(|places| file.marked(places.look_up()));
            let limit = limit_of(&self.spec.until, marks.as_ref());
            let before = taker.position(file.flow);
            if before.is_some() && file.goes_on_since.is_none() {
                file.goes_on_since = Some((self.eyes.clock)());
            }
            let seen = match file.tend(buffer, limit, taker) {
                Ok(seen) => seen,
                Err(failure) => {
                    taker.give_up(file.flow, failure);
                    file.is_ended = true;
                    continue;
                }
            };
            if taker.position(file.flow) != before {
                self.flows.grew_at = (self.eyes.clock)();
                self.flows.grown.insert(identity, self.flows.grew_at);
            }
            match seen {
                Seen::More => {
                    self.flows.busy.insert(identity);
                }
                // It may have been said since.
                Seen::Waits if taker.position(file.flow).is_none() => {
                    self.flows.asked.insert(identity);
                }
                Seen::Waits => {
                    self.flows.busy.insert(identity);
                }
                Seen::Over => {}
                Seen::Cut => {
                    // Some of it may have been read just now.
                    let read = taker.position(file.flow).or(before).unwrap_or(0);
                    taker.note(cut_note(&file.path, read));
                    taker.end(file.flow);
                    file.is_ended = true;
                    self.begin_cut(identity, taker)?;
                }
                Seen::AtEnd(position) => {
                    let path = self.tend_at_end((identity, position), marks.as_ref(), taker, is_ending)?;
                    held_back = path.map(|path| (path, position)).or(held_back);
                }
            }
        }
        if let Some((path, position)) = held_back {
            self.note_once(&path, &behind_the_mark(position), taker);
        }
        Ok(())
    }

    /// All `position` bytes of a file were read: it ends if it is complete, or if all is, unless it grew meanwhile.
    /// Gives its path if it rests and has more than its mark lets through.
    fn tend_at_end(
        &mut self,
        (identity, position): (Identity, u64),
        marks: Option<&Known>,
        taker: &dyn Taker,
        is_ending: bool,
    ) -> Result<Option<RelativePath>> {
        let Some(file) = self.flows.files.get_mut(&identity) else { return Ok(None) };
        let now = (self.eyes.clock)();
        let grown = self.flows.grown.get(&identity);
        let idle = grown.map_or(Duration::ZERO, |since| now.saturating_duration_since(*since));
        let until = &self.spec.until;
        let is_whole = until.bytes.is_some_and(|bytes| position >= bytes);
        if let Some(known) = marks
            && !is_whole
            && file.refutes(known, position, idle, taker)
        {
            let path = file.path.clone();
            self.note_once(&path, REFUTED, taker);
            self.flows.busy.insert(identity);
            return Ok(None);
        }
        let is_held_back = marks.is_some()
            && !is_whole
            && idle >= REPLACED_IDLE
            && file.file.stat_now().is_ok_and(|stat| stat.size > position);
        let held_back = is_held_back.then(|| file.path.clone());
        let is_single = self.spec.name.is_some();
        // A directory has another end as well.
        let rests = file.rests;
        let closed = || match file.is_closed() {
            Ok(true) if !is_single && idle < rests => Ok(false),
            Err(failure) if !is_single && !file.is_replaced => {
                if !std::mem::replace(&mut self.told.is_blind, true) {
                    taker.note(format!("{}: a file is complete when the directory is", failure.cause));
                }
                Ok(false)
            }
            other => other,
        };
        let is_complete = (is_ending && marks.is_none())
            || is_complete(until, (position, idle), file.is_replaced, marks, closed)?;
        if !is_ending && !is_complete {
            return Ok(held_back);
        }
        // It may have grown between the two looks.
        let limit = limit_of(until, marks);
        if file.file.stat_now().is_ok_and(|stat| stat.size.min(limit) > position) {
            self.flows.busy.insert(identity);
            return Ok(held_back);
        }
        match is_complete {
            true => file.end(taker),
            false => file.end_as_it_is(taker),
        }
        self.end.is_single_over |= until.closed || is_whole;
        Ok(held_back)
    }

    /// Whether nothing more will begin.
    pub(super) fn conclude(&mut self, taker: &dyn Taker, is_ending: bool) {
        if self.end.is_last {
            return;
        }
        let until = &self.spec.until;
        // What was asked about may have grown while nobody could say where it goes on.
        let idle = self.is_idle() && self.flows.rest();
        let ends = is_ending || (self.spec.name.is_some() && self.end.is_single_over);
        if !(idle || ends && self.flows.all_ended()) {
            return;
        }
        let single = self.spec.name.is_some() && self.end.is_single_over && self.flows.all_ended();
        let all_ended = self.flows.all_ended() && self.flows.busy.is_empty();
        let is_ending = is_ending && all_ended && self.end.is_looked();
        // What came behind the end of one is another's beginning, as soon as that is let go.
        let limit = limit_of(until, None);
        if (idle || is_ending) && self.flows.files.values().any(|file| file.has_changed_since_end(limit)) {
            return;
        }
        if idle {
            // Nobody knows yet where these go on.
            let waits = |file: &Growing| !file.is_ended && taker.position(file.flow).is_none();
            if self.flows.files.values().any(waits) {
                return;
            }
            let has_more = |file: &Growing| {
                let read = taker.position(file.flow).unwrap_or(0);
                let is_all_its_own = !file.is_ended && !file.is_marked;
                is_all_its_own && file.file.stat_now().is_ok_and(|stat| stat.size.min(limit) > read)
            };
            let more = self.flows.files.iter().filter(|(_, file)| has_more(file));
            let more: Vec<_> = more.map(|(identity, _)| *identity).collect();
            if !more.is_empty() {
                self.flows.busy.extend(more);
                return;
            }
            let open = self.flows.files.values_mut().filter(|file| !file.is_ended);
            open.for_each(|file| file.end_as_it_is(taker));
            if self.flows.files.values().any(|file| !file.is_ended) {
                // The link broke this moment.
                return;
            }
        }
        // Those that have to wait for their turn have it when these are let go.
        let awaits_failing = self.retries.awaits(!self.flows.files.is_empty());
        if self.found.waiting == 0 && (idle || is_ending || single) && !awaits_failing {
            self.end.is_last = true;
            for left in std::mem::take(&mut self.left.by_origin).into_values() {
                taker.missed(left.path.clone(), missed(&left));
            }
            for (path, failure) in std::mem::take(&mut self.found.unread) {
                taker.missed(path, failure);
            }
            taker.last();
        }
    }
}

fn behind_the_mark(position: u64) -> String {
    format!(
        "has more than the {position} bytes that the stream which writes it has marked: those behind may not be whole, and are \
         waited for; if no stream writes it any more, begin that one again, or remove what it noted: thalweg gc"
    )
}

fn cut_note(path: &RelativePath, read: u64) -> String {
    format!(
        "{} was cut or written anew: the {read} bytes read of it stay as they are, and what it has now is another stream",
        Escaped(path.as_bytes())
    )
}

/// Whether a file of which all `position` bytes were read, and that grew last `idle` ago, is complete. `closed`:
/// whether nobody has it open for writing.
fn is_complete(
    until: &Until,
    (position, idle): (u64, Duration),
    is_replaced: bool,
    marks: Option<&Known>,
    closed: impl FnOnce() -> Result<bool>,
) -> Result<bool> {
    if until.bytes.is_some_and(|bytes| position >= bytes) {
        return Ok(true);
    }
    if marks.is_some() {
        // It comes from elsewhere, and there is more to come.
        return Ok(false);
    }
    if is_replaced {
        return Ok(closed().unwrap_or(idle >= REPLACED_IDLE));
    }
    match until.closed {
        true => closed(),
        false => Ok(false),
    }
}
