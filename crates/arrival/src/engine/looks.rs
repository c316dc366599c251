//! When and how a watch looks: one look at a time, on a thread that nobody waits for.
//!
//! What the kernel tells of changes is a reason to look and nothing else. However long a look takes, looking has its
//! share of the time and no more.

use super::{Driver, Heard, NOTICE, POLL_EVERY, Scope, Tell, Told};
use crate::scan::{DIRECTORIES_MAX, Scanner, View};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_client::far_movers::{self, FarMovers, Whom};
use thalweg_client::place::Place;
use thalweg_client::reach::Reach;
use thalweg_mover::event;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::client::LinkSettings;
use thalweg_sys::{Dir, Watch as Changes};

/// After a change, time for more of them before the next look.
const GATHER: Duration = Duration::from_millis(100);
/// A look takes at most this share of the time: the next comes so many times as late as it took.
const LOOK_SHARE: u32 = 10;

/// What a look saw.
pub(super) struct Looked {
    /// When it began: what it saw is as old as that.
    pub began: Duration,
    /// How long it took to list what is there, without the way to it.
    pub took: Duration,
    pub view: Result<View>,
    /// Why it saw nothing was not told since the last look that saw something.
    pub is_new: bool,
    /// For the next; a session that failed is not kept.
    pub reach: Option<Reach>,
}

/// When looks are made: one at a time.
pub(super) struct Looks {
    pub every: Duration,
    due_at: Duration,
    not_before: Duration,
    /// When the last one was over, if it saw something.
    saw_at: Option<Duration>,
    pub is_under_way: bool,
    pub has_seen: bool,
    /// How long the last one took.
    took: Option<Duration>,
    pub reach: Option<Reach>,
}

impl Looks {
    pub(super) fn new(every: Option<Duration>) -> Looks {
        Looks {
            every: every.unwrap_or(POLL_EVERY),
            due_at: Duration::ZERO,
            not_before: Duration::ZERO,
            saw_at: None,
            is_under_way: false,
            has_seen: false,
            took: None,
            reach: None,
        }
    }

    /// `wakes_at`: when something may be seen to be complete; `ends_at`: that there is nothing to do. The look that may
    /// be the last need not keep its share of the time.
    pub(super) fn is_due(
        &self,
        now: Duration,
        has_changed: bool,
        wakes_at: Option<Duration>,
        ends_at: Option<Duration>,
    ) -> bool {
        let is_at = |at: Option<Duration>| at.is_some_and(|at| now >= at);
        let is_wanted = has_changed || now >= self.due_at || is_at(wakes_at);
        let may_be_last = is_at(ends_at) && self.saw_at.is_some_and(|at| now >= at + GATHER);
        (may_be_last || (is_wanted || is_at(ends_at)) && now >= self.not_before) && !self.is_under_way
    }

    /// One is over that took so long; `None`: it saw nothing.
    pub(super) fn end(&mut self, now: Duration, took: Option<Duration>) {
        self.is_under_way = false;
        self.saw_at = took.map(|_| now);
        let (pause, every) = match took {
            Some(took) => {
                // One that took longer than the one before it waited for an answer, and that is no work: after an
                // outage nobody is to be blind for ten times as long.
                let work = took.min(self.took.replace(took).unwrap_or(took));
                (work.saturating_mul(LOOK_SHARE), self.every)
            }
            None => (self.every.min(POLL_EVERY), self.every.min(POLL_EVERY)),
        };
        self.due_at = now + every;
        self.not_before = now + GATHER.max(pause);
    }
}

/// What was told of looks. What lasts is seen by each of them, once a second, and is told once.
#[derive(Default)]
struct Troubles {
    /// Hashes of what stands: the looks before saw it.
    told: HashSet<blake3::Hash>,
    /// And of what this one does.
    seen: HashSet<blake3::Hash>,
}

impl Troubles {
    /// Whether it is to be told.
    fn is_new(&mut self, failure: &Failure) -> bool {
        let text = blake3::hash(failure.to_string().as_bytes());
        self.seen.insert(text) && !self.told.contains(&text)
    }

    /// The look is over. What it did not meet is over too, if it saw all that it could.
    fn end(&mut self, has_seen: bool) {
        if has_seen {
            self.told.clear();
        }
        self.told.extend(self.seen.drain());
    }
}

/// Has what a look needs: the source, and its scanner.
#[derive(Clone)]
pub(super) struct Looker {
    source: Place,
    scanner: Arc<Scanner>,
    far_movers: Arc<Mutex<FarMovers>>,
    tell: Tell,
    troubles: Arc<Mutex<Troubles>>,
    is_over: Arc<AtomicBool>,
}

impl Looker {
    /// Begins a look on a thread that nobody waits for.
    pub(super) fn begin(&self, began: Duration, reach: Option<Reach>, tells: Sender<Heard>) -> Result<()> {
        let looker = self.clone();
        let look = move || {
            let looked = catch_unwind(AssertUnwindSafe(|| looker.look(began, reach)));
            // It is waited for: no other begins before it is told.
            let looked = looked.unwrap_or_else(|_| Looked {
                began,
                took: Duration::ZERO,
                view: Err(Failure::new(FailureKind::Internal, "look", "the thread that looks panicked")),
                is_new: true,
                reach: None,
            });
            // Nobody hears it when the watch is over.
            let _ = tells.send(Heard::Looked(Box::new(looked)));
        };
        std::thread::Builder::new()
            .name("look".into())
            .spawn(look)
            .map(drop)
            .map_err(|error| failure::of_thread(&error))
    }

    fn look(&self, began: Duration, reach: Option<Reach>) -> Looked {
        let mut troubles = lock(&self.troubles);
        let (took, view, reach) = self.see(reach, &mut troubles);
        let is_new = view.as_ref().err().is_some_and(|failure| troubles.is_new(failure));
        troubles.end(view.is_ok());
        Looked { began, took, view, is_new, reach }
    }

    /// How long it took, what there is, and how that was reached.
    fn see(&self, reach: Option<Reach>, troubles: &mut Troubles) -> (Duration, Result<View>, Option<Reach>) {
        let reach = match reach.map_or_else(|| self.reach(), Ok) {
            Ok(reach) => reach,
            Err(failure) => return (Duration::ZERO, Err(failure), None),
        };
        let begun = Instant::now();
        let mut trouble = |failure: &Failure| {
            if troubles.is_new(failure) && !self.is_over.load(Ordering::Acquire) {
                (self.tell)(Told::Trouble(None, failure));
            }
        };
        match self.scanner.scan(&reach, &mut trouble) {
            Ok(view) => (begun.elapsed(), Ok(view), Some(reach)),
            Err(failure) => (begun.elapsed(), Err(failure), None),
        }
    }

    pub(super) fn reach(&self) -> Result<Reach> {
        reach_of(&self.source, &self.far_movers)
    }
}

/// As [`Reach::of`], but copies need not wait until it is dialled. A place in a bucket is a directory.
pub(super) fn reach_of(place: &Place, far_movers: &Mutex<FarMovers>) -> Result<Reach> {
    if let Place::Object { location, settings } = place {
        let bucket = lock(far_movers).bucket(location, settings)?;
        return Ok(Reach::object(bucket.as_directory()));
    }
    let Some((whom, place)) = Whom::of(place).zip(far_movers::place_there(place)) else {
        return Reach::of(place.clone(), &mut lock(far_movers));
    };
    let reached = lock(far_movers).reach(&whom)?;
    let client = reached.far.dial(LinkSettings::default(), event::nobody())?;
    Ok(Reach::far(Arc::new(client), place))
}

impl Driver<'_> {
    /// Hears of changes where the kernel tells of them.
    pub(super) fn changes<'scope>(&'scope self, scope: Scope<'scope, '_>) -> Option<Arc<Changes>> {
        let Place::Local(path) = &self.watch.source else { return None };
        let changes = Arc::new(Changes::new().ok()?);
        changes.add(&Dir::open(path).ok()?).ok()?;
        let heard = changes.clone();
        let listen = move || {
            while !self.is_over.load(Ordering::Acquire) && !self.stop.is_asked() {
                match heard.changes(NOTICE) {
                    Ok(changes) if changes.is_empty() => {}
                    Ok(_) => self.changed.store(true, Ordering::Release),
                    // The regular looks remain.
                    Err(_) => return,
                }
            }
        };
        std::thread::Builder::new().name("changes".into()).spawn_scoped(scope, listen).ok()?;
        Some(changes)
    }

    /// Hears of changes in the directories of a view too.
    ///
    /// # Errors
    /// The first reason why the kernel does not tell of them all; of the others it does. The regular looks remain.
    pub(super) fn hear_below(&self, changes: &Changes, view: &View) -> io::Result<()> {
        let Place::Local(root) = &self.watch.source else { return Ok(()) };
        let mut heard = match view.has_more_directories {
            true => Err(io::Error::other(format!("there are more than {DIRECTORIES_MAX}"))),
            false => Ok(()),
        };
        for directory in &view.directories {
            let below = root.join(OsString::from_vec(directory.as_bytes().to_vec()));
            // What is gone, or may not be read, cannot be looked at either.
            let Ok(directory) = Dir::open(&below) else { continue };
            if let Err(error) = changes.add(&directory)
                && !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
            {
                heard = heard.and(Err(error));
            }
        }
        heard
    }

    pub(super) fn looker(&self) -> Looker {
        Looker {
            source: self.watch.source.clone(),
            scanner: self.watch.scanner.clone(),
            far_movers: self.far_movers.clone(),
            tell: self.tell.clone(),
            troubles: Arc::default(),
            is_over: self.is_over.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::RelativePath;

    /// After one that took a minute the next regular one comes ten minutes later.
    #[test]
    fn the_look_that_may_be_the_last_does_not_wait_for_its_share_of_the_time() {
        let at = Duration::from_secs;
        let mut looks = Looks::new(Some(at(1)));
        for _ in 0..2 {
            looks.end(at(60), Some(at(60)));
        }
        assert!(!looks.is_due(at(66), true, Some(at(65)), None));
        assert!(!looks.is_due(at(64), true, None, Some(at(65))));
        assert!(looks.is_due(at(66), false, None, Some(at(65))));
        // One that saw nothing is no reason to hurry.
        looks.end(at(66), None);
        assert!(!looks.is_due(at(66) + GATHER, false, None, Some(at(65))));
        assert!(looks.is_due(at(67), false, None, Some(at(65))));
    }

    #[test]
    fn what_a_look_cannot_see_is_told_once_until_a_look_has_none_of_it() {
        let trouble = |path: &str| {
            let path = RelativePath::new(path.into()).unwrap();
            Failure::new(FailureKind::Io, "list", "Input/output error").at(&path)
        };
        let mut troubles = Troubles::default();
        let mut look = |paths: &[&str], has_seen: bool| -> Vec<String> {
            let told = paths.iter().filter(|path| troubles.is_new(&trouble(path)));
            let told = told.map(|path| (*path).to_owned()).collect();
            troubles.end(has_seen);
            told
        };
        assert_eq!(look(&["a", "b", "b"], true), ["a", "b"]);
        assert_eq!(look(&["a", "b", "c"], true), ["c"]);
        assert!(look(&["b"], true).is_empty());
        // One that saw nothing says nothing of what the others saw.
        assert_eq!(look(&["whole"], false), ["whole"]);
        assert!(look(&["whole"], false).is_empty());
        assert!(look(&["b"], true).is_empty());
        assert_eq!(look(&["a", "whole", "b"], true), ["a", "whole"]);
    }
}
