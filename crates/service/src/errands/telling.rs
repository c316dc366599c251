//! What is told of an errand while it runs, from the threads that work on it to the one that tells its client.
//!
//! It never waits: what the client has not taken is kept, and of more than [`BEHIND_BYTES`] the copy hears, and begins
//! no more entries until some is taken. So what is kept has a bound: that, and what is under way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use thalweg_mover::event::Event;
use thalweg_mover::failure::Result;
use thalweg_mover::filter::EXCLUDED_BY;
use thalweg_mover::mutex::lock;
use thalweg_mover::run::ReceiptPart;
use thalweg_mover::run::copy::Report;
use thalweg_wire::message::{ErrandTold, Outcome};
use thalweg_wire::{Entry, Kind, RelativePath, limits};

/// More that is not taken, and the client is behind.
const BEHIND_BYTES: usize = 4 << 20;
/// Items, and bytes, that go in one piece.
const BATCH_ITEMS: usize = 256;
/// See [`BATCH_ITEMS`].
const BATCH_BYTES: usize = 256 << 10;
/// What an item costs beside its words.
const ITEM_BYTES: usize = 128;

/// See the module.
pub(crate) struct Telling {
    /// Every entry is told.
    tells_all: bool,
    kept: Mutex<Kept>,
    kept_bytes: AtomicUsize,
    changed: Condvar,
}

#[derive(Default)]
struct Kept {
    told: VecDeque<(ErrandTold, usize)>,
    /// The copy is over.
    is_over: bool,
    /// How, until that is told.
    ended: Option<Result<Report>>,
    /// Nobody hears it any more.
    is_deaf: bool,
}

/// What comes next.
pub(crate) enum Next {
    /// This is to be told.
    Told(Box<ErrandTold>),
    /// Nothing by now.
    Nothing,
    /// All is told, and the copy ended so.
    Ended(Box<Result<Report>>),
}

impl Telling {
    /// Of a copy that begins.
    pub fn new(tells_all: bool) -> Telling {
        let (kept, kept_bytes, changed) = (Mutex::default(), AtomicUsize::new(0), Condvar::new());
        Telling { tells_all, kept, kept_bytes, changed }
    }

    /// Whether the client has more to take than it should have.
    pub fn is_behind(&self) -> bool {
        self.kept_bytes.load(Ordering::Relaxed) > BEHIND_BYTES
    }

    /// Whether the copy is over.
    pub fn is_over(&self) -> bool {
        lock(&self.kept).is_over
    }

    /// Nobody hears it any more.
    pub fn forget(&self) {
        let mut kept = lock(&self.kept);
        kept.is_deaf = true;
        kept.told.clear();
        self.kept_bytes.store(0, Ordering::Relaxed);
    }

    /// The copy ended so; what comes later says nothing.
    pub fn end(&self, ended: Result<Report>) {
        let mut kept = lock(&self.kept);
        if !std::mem::replace(&mut kept.is_over, true) {
            kept.ended = Some(ended);
        }
        drop(kept);
        self.changed.notify_all();
    }

    /// What comes next, within so long.
    pub fn next(&self, time: Duration) -> Next {
        let mut kept = lock(&self.kept);
        if kept.told.is_empty() && kept.ended.is_none() {
            kept = self.changed.wait_timeout(kept, time).unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some((told, bytes)) = kept.told.pop_front() {
            self.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Next::Told(Box::new(told));
        }
        kept.ended.take().map_or(Next::Nothing, |ended| Next::Ended(Box::new(ended)))
    }

    /// Takes an event of the copy.
    pub fn hear(&self, event: Event) {
        use ErrandTold as T;
        match event {
            Event::Settled(entry, outcome) if self.tells_all || is_worth_telling(&outcome) => {
                self.put(T::Settled(vec![(lean(&entry), outcome)]));
            }
            Event::Aside(path, outcome) if self.tells_all || !is_excluded(&outcome) => {
                self.put(T::Aside(vec![(path, outcome)]));
            }
            Event::Deleted(path) if self.tells_all => self.put(T::Deleted(vec![path])),
            Event::LinkLost(why) => self.put(T::LinkLost(why)),
            Event::LinkUp(after) => {
                self.put(T::LinkUp { millis: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) });
            }
            Event::StreamLost(stream, why) => self.put(T::StreamLost(stream, why)),
            Event::Repaired(count) => self.put(T::Repaired(count)),
            Event::Note(text) => self.put(T::Note(cut(text))),
            Event::Knob(text) => self.put(T::Knob(cut(text))),
            Event::Detail(text) => self.put(T::Detail(cut(text))),
            Event::LacksRoom { room, is_all } => self.put(T::LacksRoom { room, is_all }),
            Event::Planned(plan) => {
                // It is made of numbers and words.
                if let Ok(plan) = serde_json::to_vec(&*plan) {
                    self.put(T::Planned(plan));
                }
            }
            // The rest is not asked for, is no copy's, or is in the report.
            _ => {}
        }
    }

    /// The receipt begins, or begins anew.
    pub fn begin_receipt(&self) {
        self.put(ErrandTold::ReceiptBegins);
    }

    /// Takes a part of it.
    pub fn write(&self, part: ReceiptPart) {
        match part {
            ReceiptPart::Pieces(path, pieces) => {
                let (piece_bytes, digests) = (pieces.piece_bytes, pieces.digests);
                self.put(ErrandTold::Pieces { path, piece_bytes, digests });
            }
            ReceiptPart::Block(block) => {
                let number = block.number;
                let mut lines = block.lines.into_iter().peekable();
                while lines.peek().is_some() {
                    let (mut piece, mut bytes) = (Vec::new(), 0);
                    while bytes < BATCH_BYTES
                        && let Some(line) = lines.next()
                    {
                        bytes += line.len() + ITEM_BYTES;
                        piece.push(line);
                    }
                    let is_whole = lines.peek().is_none();
                    self.put(ErrandTold::Block { number, lines: piece, is_whole });
                }
            }
        }
    }

    fn put(&self, told: ErrandTold) {
        let bytes = bytes_of(&told);
        let mut kept = lock(&self.kept);
        if kept.is_deaf {
            return;
        }
        let joins = kept.told.back().is_some_and(|(last, held)| *held < BATCH_BYTES && joins(last, &told));
        match kept.told.back_mut().filter(|_| joins) {
            Some((last, held)) => {
                join(last, told);
                *held += bytes;
            }
            None => kept.told.push_back((told, bytes)),
        }
        self.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
        drop(kept);
        self.changed.notify_all();
    }
}

/// Whether one goes with the last in one piece.
fn joins(last: &ErrandTold, told: &ErrandTold) -> bool {
    use ErrandTold as T;
    let held = match (last, told) {
        (T::Settled(held), T::Settled(_)) => held.len(),
        (T::Aside(held), T::Aside(_)) => held.len(),
        (T::Deleted(held), T::Deleted(_)) => held.len(),
        _ => return false,
    };
    held < BATCH_ITEMS
}

fn join(last: &mut ErrandTold, told: ErrandTold) {
    use ErrandTold as T;
    match (last, told) {
        (T::Settled(held), T::Settled(more)) => held.extend(more),
        (T::Aside(held), T::Aside(more)) => held.extend(more),
        (T::Deleted(held), T::Deleted(more)) => held.extend(more),
        _ => {}
    }
}

/// Bytes that it takes, roughly.
fn bytes_of(told: &ErrandTold) -> usize {
    use ErrandTold as T;
    let of_path = |path: &RelativePath| path.as_bytes().len() + ITEM_BYTES;
    match told {
        T::Settled(all) => {
            all.iter().map(|(entry, outcome)| of_path(&entry.path) + of_outcome(outcome)).sum()
        }
        T::Aside(all) => all.iter().map(|(path, outcome)| of_path(path) + of_outcome(outcome)).sum(),
        T::Deleted(all) => all.iter().map(of_path).sum(),
        T::Note(text) | T::Knob(text) | T::Detail(text) => text.len() + ITEM_BYTES,
        T::Planned(text) | T::Over(text) => text.len() + ITEM_BYTES,
        T::Block { lines, .. } => lines.iter().map(|line| line.len() + ITEM_BYTES).sum(),
        T::Pieces { path, digests, .. } => of_path(path) + size_of_val(&digests[..]),
        T::LinkLost(_)
        | T::LinkUp { .. }
        | T::StreamLost(..)
        | T::Repaired(_)
        | T::LacksRoom { .. }
        | T::Counts(_)
        | T::ReceiptBegins
        | T::Failed(_) => ITEM_BYTES,
    }
}

fn of_outcome(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Done { losses, .. } => losses.iter().map(|loss| loss.what.len() + loss.why.len()).sum(),
        Outcome::Skipped(why) => why.len(),
        Outcome::Failed(failure) => {
            failure.cause.len() + failure.path.as_ref().map_or(0, |path| path.as_bytes().len())
        }
        Outcome::Unchanged { .. } => 0,
    }
}

/// What a person is told of who did not ask for every entry.
fn is_worth_telling(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done { losses, .. } => !losses.is_empty(),
        Outcome::Failed(_) => true,
        Outcome::Skipped(_) | Outcome::Unchanged { .. } => false,
    }
}

fn is_excluded(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Skipped(why) if why.starts_with(EXCLUDED_BY))
}

/// What tells it: no attributes, and where a link leads is its own.
fn lean(entry: &Entry) -> Entry {
    let kind = match &entry.kind {
        Kind::Symlink { .. } => Kind::Symlink { target: b".".to_vec() },
        kind => kind.clone(),
    };
    Entry { kind, xattrs: Vec::new(), path: entry.path.clone(), ..*entry }
}

/// A text as it may be told.
fn cut(mut text: String) -> String {
    if text.len() > limits::TEXT_BYTES_MAX {
        let end = (0..=limits::TEXT_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_mover::failure::{Failure, FailureKind};
    use thalweg_wire::receipt::Block;
    use thalweg_wire::{EntryId, Evidence};

    fn entry(name: &str) -> Arc<Entry> {
        Arc::new(Entry {
            id: EntryId(1),
            path: RelativePath::new(name.as_bytes().to_vec()).unwrap(),
            kind: Kind::File { sparse: false, marked: false },
            mode: 0o644,
            uid: 0,
            gid: 0,
            evidence: Evidence::default(),
            xattrs: Vec::new(),
        })
    }

    fn all(telling: &Telling) -> Vec<ErrandTold> {
        std::iter::from_fn(|| match telling.next(Duration::ZERO) {
            Next::Told(told) => Some(*told),
            Next::Nothing | Next::Ended(_) => None,
        })
        .collect()
    }

    fn settle(telling: &Telling, entries: usize) {
        for number in 0..entries {
            let outcome = Outcome::Done { digest: None, losses: Vec::new() };
            telling.hear(Event::Settled(entry(&number.to_string()), outcome));
        }
    }

    #[test]
    fn who_takes_nothing_is_behind_and_has_all_of_it_in_pieces_that_a_message_takes() {
        let telling = Telling::new(true);
        settle(&telling, 1000);
        assert!(!telling.is_behind());
        settle(&telling, BEHIND_BYTES / ITEM_BYTES);
        assert!(telling.is_behind());
        let told = all(&telling);
        let counts = told.iter().map(|told| match told {
            ErrandTold::Settled(entries) => entries.len(),
            other => panic!("{other:?}"),
        });
        let counts: Vec<usize> = counts.collect();
        assert!(counts.iter().all(|count| *count <= BATCH_ITEMS));
        assert_eq!(counts.iter().sum::<usize>(), 1000 + BEHIND_BYTES / ITEM_BYTES);
        assert!(!telling.is_behind());
        telling.forget();
        settle(&telling, 10);
        assert!(all(&telling).is_empty());
    }

    #[test]
    fn who_did_not_ask_for_every_entry_hears_of_those_that_failed_alone() {
        let telling = Telling::new(false);
        settle(&telling, 10);
        let failure = Failure::new(FailureKind::Io, "read", "no");
        telling.hear(Event::Settled(entry("bad"), Outcome::Failed(failure)));
        let told = all(&telling);
        assert!(matches!(&told[..], [ErrandTold::Settled(entries)] if entries.len() == 1), "{told:?}");
    }

    #[test]
    fn a_block_of_a_receipt_comes_in_pieces_of_which_the_last_says_so() {
        let telling = Telling::new(false);
        let lines: Vec<String> = (0..10).map(|_| "x".repeat(BATCH_BYTES / 2)).collect();
        telling.write(ReceiptPart::Block(Block { number: 3, lines: lines.clone() }));
        let mut heard = Vec::new();
        let told = all(&telling);
        for (at, piece) in told.iter().enumerate() {
            let ErrandTold::Block { number: 3, lines, is_whole } = piece else { panic!("{piece:?}") };
            assert_eq!(*is_whole, at + 1 == told.len());
            heard.extend(lines.iter().cloned());
        }
        assert!(told.len() > 1 && heard == lines);
    }

    #[test]
    fn the_end_comes_behind_all_that_was_told_before_it() {
        let telling = Telling::new(false);
        telling.hear(Event::Note("so".to_owned()));
        telling.end(Err(Failure::new(FailureKind::Io, "copy", "no")));
        assert!(matches!(telling.next(Duration::ZERO), Next::Told(_)));
        assert!(matches!(telling.next(Duration::ZERO), Next::Ended(_)));
    }
}
