//! Decides what is done with each item, and when. Pure: looks, ends and the time go in, records and actions come out.
//!
//! The way of an item: *growing* until it is complete, *moved*, *run*, its results *returned*, *done*. A later version
//! of it goes the same way once the earlier one is done, or in its place if the earlier one waits for the command then.
//! That it begins to be copied over it is a record of its own: from then on the earlier one is not run, unless the copy
//! is known to have replaced nothing.
//!
//! Its driver makes records durable before it does the actions that came with or after them. [`Machine::replay`] of
//! the records and [`Machine::begin`] then go on wherever it was killed.
//!
//! What is done and gone from the source is forgotten when the journal is rewritten ([`Machine::forget`]), but for its
//! key: should it come again under its name, it is not analysed again. Keys have a bound of their own
//! ([`crate::done_keys`]).

use crate::done_keys::{DONE_KEYS_MAX, DoneKeys};
use crate::item::{Complete, Order, Version};
use item::{Item, Line, Work};
use looks::Unseen;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use thalweg_wire::RelativePath;

/// One item.
mod item;

/// What is durable of it.
mod records;

/// What looks say.
mod looks;

/// What ends say.
mod ends;

/// How it stands.
mod state;

pub use ends::{BACKOFF_MAX, BACKOFF_MIN};
pub use records::{Arrived, Known, Outcome, Record, Stage};

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Rules {
    /// When an item is complete.
    pub complete: Complete,
    /// In which order items are analysed.
    pub order: Order,
    /// Items copied, or their results sent back, at the same time.
    pub moves_max: usize,
    /// Commands at the same time; one where there is an order.
    pub runs_max: usize,
    /// Failed attempts of the command, in one life of the watcher, after which an item is given up.
    pub attempts_max: u32,
    /// Whether there is a command.
    pub runs_command: bool,
    /// Whether results are sent back.
    pub returns_results: bool,
}

/// An item in a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: RelativePath,
    /// What it is now.
    pub version: Version,
    /// Whether its marker is there.
    pub is_marked: bool,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// All that is there now, but for what is at these paths or below: there nobody could look.
    Looked(Vec<Seen>, Vec<RelativePath>),
    /// A copy ended. One that failed replaced nothing of what stood there before.
    Moved(RelativePath, Result<Arrived, Trouble>),
    /// A copy failed, and something of it may be in place.
    MovedInPart(RelativePath, Trouble),
    /// A run ended.
    Ended(RelativePath, u32, Outcome),
    /// A run did not begin, for what arrived is not there any more; and that in words.
    CopyGone(RelativePath, u32, String),
    /// A run did not begin, for the source has another version than what arrived: this one.
    SourceChanged(RelativePath, u32, Version),
    /// Results are back, or not.
    Returned(RelativePath, Result<(), Trouble>),
}

/// Why something was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It may go better another time.
    Passing,
    /// It will not.
    Lasting,
    /// Something is not there. Whether that is the item only a look can say.
    Missing,
}

impl Trouble {
    /// Failed attempts after which it is given up.
    fn tries_max(self) -> u32 {
        if self == Trouble::Lasting { 1 } else { u32::MAX }
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Copy it.
    Move(RelativePath, Version),
    /// Run the command for it, with this number of the attempt.
    Run(RelativePath, u32),
    /// Find out what became of this run, and wait for its end if it lives.
    Recover(RelativePath, u32),
    /// Send its results back.
    Return(RelativePath),
}

/// See the module.
pub struct Machine {
    rules: Rules,
    items: HashMap<RelativePath, Item>,
    /// Items with something left to do, in order.
    open: BTreeSet<Line>,
    /// What was done before, and of which nothing else is known.
    past: DoneKeys,
    moves: usize,
    runs: usize,
    met: i64,
    /// When the last look began. Before there was one nobody knows whose turn it is.
    looked_at: Option<Duration>,
    /// When what was seen to change will have rested long enough, from the last look on.
    rests: BTreeSet<(Duration, RelativePath)>,
    /// There may be runs to be found out about.
    has_lost_runs: bool,
    /// What went before it arrived, though copies of it were tried.
    lost: BTreeSet<RelativePath>,
}

impl Machine {
    /// Nothing is known yet.
    pub fn new(rules: Rules) -> Machine {
        Machine {
            rules,
            items: HashMap::new(),
            open: BTreeSet::new(),
            past: DoneKeys::new(DONE_KEYS_MAX),
            moves: 0,
            runs: 0,
            met: 0,
            looked_at: None,
            rests: BTreeSet::new(),
            has_lost_runs: false,
            lost: BTreeSet::new(),
        }
    }

    /// Takes what happened, and when; of a look when it began. The records come first, then whatever
    /// [`Machine::decide`] says.
    #[must_use]
    pub fn take(&mut self, now: Duration, input: Input) -> Vec<Record> {
        let (name, mut records) = match input {
            Input::Looked(all, unseen) => {
                self.looked(now, all, &Unseen::new(&unseen));
                self.looked_at = Some(now);
                let (items, rules) = (&self.items, &self.rules);
                let rests_at =
                    |name: &RelativePath| items.get(name).and_then(|item: &Item| item.rests_at(rules));
                self.rests.retain(|(at, name)| *at > now && rests_at(name) == Some(*at));
                return Vec::new();
            }
            Input::Moved(name, result) => (name.clone(), self.moved(now, name, result)),
            Input::MovedInPart(name, trouble) => (name.clone(), self.not_moved(now, name, trouble, true)),
            Input::Ended(name, attempt, outcome) => (name.clone(), self.ended(now, name, attempt, outcome)),
            Input::CopyGone(name, attempt, why) => (name.clone(), self.copy_gone(now, name, attempt, why)),
            Input::SourceChanged(name, attempt, version) => {
                (name.clone(), self.source_changed(now, name, attempt, version))
            }
            Input::Returned(name, result) => (name.clone(), self.returned(now, name, result)),
        };
        records.iter().for_each(|record| self.apply(record));
        let item = self.items.get(&name);
        if item.is_some_and(|item| item.work == Work::Rest && item.is_over(&self.rules)) {
            let done = Record::Done(name);
            self.apply(&done);
            records.push(done);
        }
        records
    }

    /// What is to be done now. Records come before actions.
    #[must_use]
    pub fn decide(&mut self, now: Duration) -> (Vec<Record>, Vec<Action>) {
        let (mut records, mut actions) = (Vec::new(), Vec::new());
        let has_lost_runs = std::mem::take(&mut self.has_lost_runs);
        for (place, line) in self.open.iter().enumerate() {
            let is_turn = !self.is_ordered() || (place == 0 && self.looked_at.is_some());
            let runs_max = if self.is_ordered() { 1 } else { self.rules.runs_max };
            let may_run = self.runs < runs_max && (place == 0 || !self.is_ordered());
            // A million items are not gone through at each end of a copy.
            if place > 0 && !may_run && self.moves >= self.rules.moves_max && !has_lost_runs {
                break;
            }
            let Some(item) = self.items.get_mut(&line.name) else { continue };
            match item.work {
                Work::Rest => {}
                Work::Later(at) if at <= now => {}
                Work::Recover => {
                    item.work = Work::Busy;
                    self.runs += 1;
                    let attempt = item.known.as_ref().map_or(0, |known| known.attempt);
                    actions.push(Action::Recover(line.name.clone(), attempt));
                    continue;
                }
                Work::Later(_) | Work::Busy => continue,
                // Another version of it may do better.
                Work::GivenUp => continue,
            }
            let is_complete = item.seen.is_some_and(|look| match self.rules.complete {
                // By looks alone: nobody knows what changed after the last.
                Complete::Stable(time) => {
                    self.looked_at.is_some_and(|at| at.saturating_sub(look.since) >= time)
                }
                Complete::Marker(_) => look.is_marked && !look.is_unseen,
            });
            if item.is_over(&self.rules) {
                records.push(Record::Done(line.name.clone()));
                continue;
            }
            let is_copied_anew = item.is_replaced() || item.is_copy_gone();
            match item.known.as_ref().map(|known| (known.stage, known.attempt)) {
                Some((Stage::Arrived, attempt)) if !is_copied_anew => {
                    if is_turn && self.runs < runs_max {
                        item.work = Work::Busy;
                        self.runs += 1;
                        records.push(Record::Started(line.name.clone(), attempt + 1));
                        actions.push(Action::Run(line.name.clone(), attempt + 1));
                    }
                }
                Some((Stage::Succeeded, _)) if self.moves >= self.rules.moves_max => {}
                Some((Stage::Succeeded, _)) => {
                    item.work = Work::Busy;
                    self.moves += 1;
                    actions.push(Action::Return(line.name.clone()));
                }
                Some((Stage::Running, _)) => {}
                // What arrived is not run any more once somebody put another in its place, which is to be complete.
                Some((Stage::Done | Stage::Arrived | Stage::Replacing, _)) | None => {
                    let Some(look) = item.seen else { continue };
                    if is_complete && self.moves < self.rules.moves_max {
                        item.work = Work::Busy;
                        self.moves += 1;
                        item.is_first_over = item.stage() == Some(Stage::Arrived);
                        if item.is_first_over {
                            records.push(Record::Replacing(line.name.clone()));
                        }
                        actions.push(Action::Move(line.name.clone(), look.version));
                    }
                }
            }
        }
        records.iter().for_each(|record| self.apply(record));
        (records, actions)
    }

    /// Keeps the list of what is left to do, and in it the place of each by time.
    fn settle(&mut self, name: &RelativePath) {
        let Some(item) = self.items.get_mut(name) else { return };
        if self.rules.order == Order::Time
            && let Some(version) = item.version()
            && version.changed_ns != item.line.first
        {
            self.open.remove(&item.line);
            item.line.first = version.changed_ns;
        }
        let is_over = item.work == Work::Rest
            && item.known.as_ref().is_some_and(|known| {
                known.stage == Stage::Done
                    && item.seen.is_none_or(|look| look.version == known.arrived.version)
            });
        match is_over || item.is_torn() {
            true => self.open.remove(&item.line),
            false => self.open.insert(item.line.clone()),
        };
    }

    fn is_ordered(&self) -> bool {
        self.rules.order != Order::Arrival
    }
}

#[cfg(test)]
mod tests;
