//! What must be durable of an item, and what a later life knows by it.

use super::item::line_of;
use super::{Item, Machine, Work};
use crate::item::{Version, name_text};
use serde::{Deserialize, Serialize};
use thalweg_wire::RelativePath;

/// Keys of the past in one record: a line of the journal has some tens of KiB.
const KEYS_IN_A_RECORD: usize = 1024;

/// What arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// The version that was seen when it was begun to copy.
    pub version: Version,
    /// BLAKE3 of the file; of a directory over what is in it.
    pub digest: String,
    /// [`crate::item::key_of`].
    pub key: String,
    /// Content bytes.
    pub bytes: u64,
    /// Where its receipt is, escaped; empty once nothing is left to do, or if an earlier program recorded it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub receipt: String,
    /// Entries that stood at the destination when it arrived, and are no part of it: earlier copies brought them, and
    /// the source has them no more.
    #[serde(default)]
    pub stale: u64,
}

/// How a run of the command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// With exit code 0.
    Succeeded,
    /// With another one.
    Failed(i32),
    /// By a signal.
    Killed(i32),
    /// It could not be started, and why.
    NotStarted(String),
    /// Nobody knows: its keeper was killed, or the machine went down.
    Unknown,
}

/// What must be durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A new content of the item arrived.
    Arrived(#[serde(with = "name_text")] RelativePath, Arrived),
    /// Content that is done came again, in another version.
    Same(#[serde(with = "name_text")] RelativePath, Version),
    /// The command is about to run.
    Started(#[serde(with = "name_text")] RelativePath, u32),
    /// It ended.
    Ended(#[serde(with = "name_text")] RelativePath, u32, Outcome),
    /// A copy over what arrived is about to begin: from now on nobody knows whether that still stands.
    Replacing(#[serde(with = "name_text")] RelativePath),
    /// That copy failed before it replaced anything: what arrived stands.
    Stands(#[serde(with = "name_text")] RelativePath),
    /// Nothing is left to do.
    Done(#[serde(with = "name_text")] RelativePath),
    /// All that is known of an item at once: what a journal begins with after it was rewritten.
    Known(#[serde(with = "name_text")] RelativePath, Known),
    /// Keys of what was done and is forgotten otherwise, oldest first.
    Past(Vec<String>),
}

/// What is known of an item that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// What arrived last.
    pub arrived: Arrived,
    /// Number of the last run for this name, from 1; 0 if there was none. It never begins again, so that what became of
    /// one run is never taken for the end of another.
    pub attempt: u32,
    /// How far it is.
    pub stage: Stage,
}

/// How far what arrived is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// It waits for the command.
    Arrived,
    /// A copy over it began, and did not end well as far as is known: only what is copied anew waits for the command.
    Replacing,
    /// The command was started, and did not end yet as far as is known.
    Running,
    /// The command succeeded; its results are not back yet.
    Succeeded,
    /// Nothing is left to do.
    Done,
}

impl Machine {
    /// Takes a record of an earlier life; in the order in which they were made.
    pub fn replay(&mut self, record: Record) {
        self.apply(&record);
    }

    /// All records are replayed: runs whose end is not known are to be found out about.
    pub fn begin(&mut self) {
        for item in self.items.values_mut() {
            if item.known.as_ref().is_some_and(|known| known.stage == Stage::Running) {
                item.work = Work::Recover;
                self.has_lost_runs = true;
            }
        }
    }

    /// Forgets all but the keys of what is done and gone from the source. What is left of their runs must be removed
    /// before the next [`Machine::snapshot`] is durable: runs of these names begin with 1 again.
    #[must_use]
    pub fn forget(&mut self) -> Vec<RelativePath> {
        if self.looked_at.is_none() {
            return Vec::new();
        }
        let is_past = |item: &Item| {
            item.seen.is_none()
                && item.work == Work::Rest
                && item.known.as_ref().is_some_and(|known| known.stage == Stage::Done)
        };
        let names: Vec<RelativePath> =
            self.items.iter().filter(|(_, item)| is_past(item)).map(|(name, _)| name.clone()).collect();
        for name in &names {
            if let Some(item) = self.items.remove(name) {
                self.open.remove(&item.line);
                item.known.iter().for_each(|known| self.past.insert(&known.arrived.key));
            }
        }
        names
    }

    /// All that is known, as a journal would begin with it: keys of the past, then items by name.
    pub fn snapshot(&self) -> Vec<Record> {
        let mut all: Vec<(&RelativePath, &Known)> =
            self.items.iter().filter_map(|(name, item)| Some((name, item.known.as_ref()?))).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        let known = all.into_iter().map(|(name, known)| Record::Known(name.clone(), known.clone()));
        self.past.parts(KEYS_IN_A_RECORD).into_iter().map(Record::Past).chain(known).collect()
    }

    /// What arrived of an item last.
    pub fn arrived(&self, name: &RelativePath) -> Option<&Arrived> {
        self.items.get(name)?.known.as_ref().map(|known| &known.arrived)
    }

    /// What a record says, now as in a later life.
    pub(super) fn apply(&mut self, record: &Record) {
        let (name, fresh) = match record {
            Record::Past(keys) => return keys.iter().for_each(|key| self.past.insert(key)),
            Record::Arrived(name, arrived) => {
                let before = self.items.get(name).and_then(|item| item.known.as_ref());
                let attempt = before.map_or(0, |known| known.attempt);
                let arrived = arrived.clone();
                (name, Some(Known { arrived, attempt, stage: Stage::Arrived }))
            }
            Record::Known(name, known) => (name, Some(known.clone())),
            Record::Same(name, _)
            | Record::Started(name, _)
            | Record::Ended(name, ..)
            | Record::Replacing(name)
            | Record::Stands(name)
            | Record::Done(name) => (name, None),
        };
        if let Some(known) = fresh {
            let before = self.items.get(name).and_then(|item| item.known.as_ref());
            if let Some(before) = before.filter(|before| before.stage == Stage::Done) {
                self.past.insert(&before.arrived.key);
            }
            self.met += 1;
            let line = line_of(&self.rules, name, self.met, known.arrived.version.changed_ns);
            self.items.entry(name.clone()).or_insert_with(|| Item::new(line)).known = Some(known);
        } else if let Some(known) = self.items.get_mut(name).and_then(|item| item.known.as_mut()) {
            match record {
                Record::Same(_, version) => known.arrived.version = *version,
                Record::Started(_, attempt) => (known.attempt, known.stage) = (*attempt, Stage::Running),
                Record::Ended(_, _, Outcome::Succeeded) => known.stage = Stage::Succeeded,
                Record::Ended(..) | Record::Stands(_) => known.stage = Stage::Arrived,
                Record::Replacing(_) => known.stage = Stage::Replacing,
                Record::Done(_) => {
                    // Of all that is done only what later arrivals are held against is kept.
                    (known.arrived.receipt, known.stage) = (String::new(), Stage::Done);
                }
                Record::Arrived(..) | Record::Known(..) | Record::Past(_) => {}
            }
        }
        self.settle(&name.clone());
    }
}
