//! What the legs say of entries, and what follows from both: whether the destination has what was read at the source.

use super::whole;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thalweg_mover::event::Event;
use thalweg_mover::failure::{Failure, FailureKind, Result, VERIFY};
use thalweg_wire::message::{Loss, Outcome};
use thalweg_wire::{Digest, Entry, Kind, RelativePath};

/// How the entries of one leg ended, by their paths in the whole.
#[derive(Default)]
pub(super) struct Heard(pub(super) HashMap<RelativePath, Seen>);

/// How one ended.
pub(super) struct Seen {
    /// `None`: it was never offered.
    entry: Option<Arc<Entry>>,
    outcome: Outcome,
    /// Of a hard link the name that has its content.
    first: Option<RelativePath>,
}

impl Heard {
    pub(super) fn hear(&mut self, prefix: &[u8], event: Event) {
        let (path, entry, outcome) = match event {
            Event::Settled(entry, outcome) => (entry.path.clone(), Some(entry), outcome),
            Event::Aside(path, outcome) => (path, None, outcome),
            _ => return,
        };
        let first = match entry.as_ref().map(|entry| &entry.kind) {
            Some(Kind::HardLink { first, .. }) => whole(prefix, first),
            _ => None,
        };
        if let Some(path) = whole(prefix, &path) {
            self.0.insert(path, Seen { entry, outcome, first });
        }
    }

    /// The same leg once more. What it brought the first time stays brought when it is found there the second time.
    pub(super) fn go_on(&mut self, later: Heard) {
        for (path, mut seen) in later.0 {
            if let Some(Seen { outcome: Outcome::Done { losses, .. }, .. }) = self.0.get(&path)
                && let Outcome::Unchanged { digest } = seen.outcome
            {
                seen.outcome = Outcome::Done { digest, losses: losses.clone() };
            }
            self.0.insert(path, seen);
        }
    }

    /// Names that the leg left alone at its end.
    pub(super) fn left_alone(&self) -> HashSet<RelativePath> {
        let is_left = |seen: &Seen| matches!(seen.outcome, Outcome::Skipped(_));
        self.0.iter().filter(|(_, seen)| is_left(seen)).map(|(path, _)| path.clone()).collect()
    }

    /// Of what the leg left alone, what has there the content that `came`, as a `look` shows that replaces nothing,
    /// counts as found.
    pub(super) fn find(&mut self, came: &Heard, look: &Heard) {
        for (path, seen) in &mut self.0 {
            let found = look.0.get(path).map(|found| &found.outcome);
            // What differs is told as done there, and has no digest.
            let is_kept =
                matches!(found, Some(Outcome::Unchanged { .. } | Outcome::Done { digest: Some(_), .. }));
            let digest = look.digest(path).filter(|digest| is_kept && came.digest(path) == Some(*digest));
            if digest.is_some() && matches!(seen.outcome, Outcome::Skipped(_)) {
                seen.outcome = Outcome::Unchanged { digest };
            }
        }
    }

    /// Has its failures told as `named` does.
    pub(super) fn name(&mut self, named: &dyn Fn(Failure) -> Failure) {
        for seen in self.0.values_mut() {
            if let Outcome::Failed(failure) = &seen.outcome {
                seen.outcome = Outcome::Failed(named(failure.clone()));
            }
        }
    }

    /// Whether it is at the end of the leg.
    pub(super) fn has(&self, path: &RelativePath) -> bool {
        let outcome = self.0.get(path).map(|seen| &seen.outcome);
        matches!(outcome, Some(Outcome::Done { .. } | Outcome::Unchanged { .. }))
    }

    /// The name that has the content of this one.
    fn content(&self, path: &RelativePath) -> Option<&Seen> {
        let seen = self.0.get(path)?;
        seen.first.as_ref().map_or(Some(seen), |first| self.0.get(first))
    }

    pub(super) fn digest(&self, path: &RelativePath) -> Option<Digest> {
        match self.content(path)?.outcome {
            Outcome::Done { digest, .. } | Outcome::Unchanged { digest } => digest,
            _ => None,
        }
    }

    /// Whether the leg did not find it.
    pub(super) fn lacks(&self, path: &RelativePath) -> bool {
        match self.0.get(path).map(|seen| &seen.outcome) {
            Some(Outcome::Failed(failure)) => failure.kind == FailureKind::NotFound,
            Some(_) => false,
            None => true,
        }
    }

    /// What could not be kept of it.
    pub(super) fn losses(&self, path: &RelativePath) -> &[Loss] {
        match self.0.get(path).map(|seen| &seen.outcome) {
            Some(Outcome::Done { losses, .. }) => losses,
            _ => &[],
        }
    }

    /// The entry with its content.
    fn content_entry(&self, path: &RelativePath) -> Option<&Arc<Entry>> {
        self.content(path)?.entry.as_ref()
    }
}

/// Whether a leg failed for want of room.
pub(super) fn lacks_room(heard: &Result<Heard>) -> bool {
    match heard {
        Err(failure) => failure.kind == FailureKind::Space,
        Ok(heard) => heard.0.values().any(
            |seen| matches!(&seen.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::Space),
        ),
    }
}

/// What became of a name on its way.
pub(super) enum Fate {
    /// The destination has what was read at the source.
    Same(Event),
    /// It is not known that it has; if true, it has something else.
    Open(bool),
    /// The destination has something under that name, and it was left alone.
    Left(Event),
    /// A leg failed with it.
    Failed(Failure),
}

/// What became of it, `came` being what the leg in did and `went` what the leg out did.
pub(super) fn fate(path: &RelativePath, came: &Heard, went: &Heard) -> Fate {
    if let Some(Seen { entry: Some(entry), outcome: outcome @ Outcome::Skipped(_), .. }) = went.0.get(path)
        && came.has(path)
    {
        return Fate::Left(Event::Settled(entry.clone(), outcome.clone()));
    }
    for (heard, cause) in [(came, "it is not there any more"), (went, "it is not in the stage any more")] {
        match heard.0.get(path).map(|seen| &seen.outcome) {
            Some(Outcome::Done { .. } | Outcome::Unchanged { .. }) => {}
            Some(Outcome::Failed(failure)) => return Fate::Failed(failure.clone()),
            Some(Outcome::Skipped(why)) => {
                return Fate::Failed(Failure::new(FailureKind::Unsupported, "copy", why));
            }
            None => {
                return Fate::Failed(Failure::new(FailureKind::NotFound, "copy", cause));
            }
        }
    }
    let Some(Seen { entry: Some(entry), outcome, .. }) = went.0.get(path) else { return Fate::Open(false) };
    let same = || Fate::Same(Event::Settled(entry.clone(), outcome.clone()));
    let (Some(before), Some(after)) = (came.content_entry(path), went.content_entry(path)) else {
        return Fate::Open(false);
    };
    let (read_marked, brought_marked) = match (&before.kind, &after.kind) {
        (Kind::File { marked: read, .. }, Kind::File { marked: brought, .. }) => (read, brought),
        // A link is compared by where it leads.
        (read, brought) if read == brought => return same(),
        _ => return Fate::Open(true),
    };
    match (came.digest(path), went.digest(path)) {
        _ if before.content_bytes() == 0 && after.content_bytes() == 0 => same(),
        _ if read_marked != brought_marked => {
            let cause = "the file systems of source and stage keep its holes otherwise, by more than 1 GiB, and \
                         digests of the two cannot be compared: copy it without --stage";
            Fate::Failed(Failure::new(FailureKind::Unsupported, VERIFY, cause))
        }
        (Some(read), Some(brought)) if read == brought => same(),
        (Some(_), Some(_)) => Fate::Open(true),
        _ => Fate::Open(false),
    }
}
