//! Does what the [`machine`](crate::machine) decides: looks, copies, runs, sends back, and keeps the journal ahead of all of it.
//!
//! One thread decides; each look, each copy and each run has a thread of its own, as many as the rules let there be. A look
//! that waits for an answer holds up nothing else, and at the end it is left behind. A
//! journal that cannot be written ends the watch: what cannot be remembered is not done.

use crate::command::{self, Analysis, RunPlace};
use crate::item::{ItemKind, key_of};
use crate::journal::Journal;
use crate::machine::{Action, Arrived, Input, Machine, Outcome, Record, Rules, Trouble};
use crate::scan::{Scanner, View};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_client::far_movers::{self, FarMovers, How, Whom};
use thalweg_client::job::Asked;
use thalweg_client::place::Named;
use thalweg_client::reach::Reach;
use thalweg_client::receipt::{self, ReceiptFile};
use thalweg_mover::event::{self, Event, Events};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::copy::{Stop, Watch as CopyWatch, Wishes};
use thalweg_sys::{Dir, Watch as Changes};
use thalweg_wire::message::{self, Check};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Digest, Kind, RelativePath};

/// Between two looks where the kernel tells of changes: what it did not tell is found then.
pub const RECONCILE_EVERY: Duration = Duration::from_secs(10);
/// Between two looks where it does not.
pub const POLL_EVERY: Duration = Duration::from_secs(1);
/// After a change, time for more of them before the next look.
const GATHER: Duration = Duration::from_millis(100);
/// A look takes at most this share of the time: the next comes so many times as late as it took.
const LOOK_SHARE: u32 = 10;
/// What is waited for goodbyes to far movers.
const GOODBYE: Duration = Duration::from_secs(1);
/// Before what cannot be read of a run is looked at once more.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// Between two looks whether somebody asked to stop.
const NOTICE: Duration = Duration::from_millis(100);

/// What is watched, and what is done.
pub struct Watch {
    /// The directory.
    pub source: Named,
    /// Where its items go, under their names.
    pub destination: Named,
    /// Which items.
    pub scanner: Arc<Scanner>,
    /// What is decided by.
    pub rules: Rules,
    /// What is run for each that arrived.
    pub analysis: Option<Analysis>,
    /// Where results go, each item's in a directory of its name.
    pub results: Option<Named>,
    /// How far movers are reached.
    pub how: How,
    /// How items are copied.
    pub wishes: Wishes,
    /// The state directory of this user; each watch has one of its own in it.
    pub state: PathBuf,
    /// Looks between which nothing needs to be told; default by whether the kernel tells of changes.
    pub look_every: Option<Duration>,
    /// Ends when there was nothing to do for so long; without, never by itself.
    pub idle_exit: Option<Duration>,
}

/// What is told on the way.
#[derive(Debug)]
pub enum Told<'a> {
    /// An item arrived, durable and verified.
    Arrived(&'a RelativePath, &'a Arrived),
    /// The command is started.
    Started(&'a RelativePath, u32),
    /// It ended.
    Ended(&'a RelativePath, u32, &'a Outcome),
    /// All is done for an item.
    Done(&'a RelativePath),
    /// Something failed, with the item or with the whole; it is tried again, or given up as the rules say.
    Trouble(Option<&'a RelativePath>, &'a Failure),
    /// The link: lost, back, or a note.
    Link(&'a Event),
}

/// Takes what is told, from any thread.
pub type Tell = Arc<dyn Fn(Told<'_>) + Send + Sync>;

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Items done in this life.
    pub done: u64,
    /// Items given up; of them the next start tries those that are still there.
    pub given_up: Vec<RelativePath>,
    /// Items that went from the source after copies of them failed, and did not arrive.
    pub lost: Vec<RelativePath>,
    /// Whether somebody asked to stop.
    pub is_stopped: bool,
}

/// Watches until it is stopped, idle, or blocked by an item that was given up; `stop` is asked for when it returns. A
/// command that runs when it is stopped goes on; the next watch finds its end.
///
/// # Errors
/// When the directory cannot be looked at at the beginning, or the journal not be kept; `Usage` for places that cannot be
/// watched.
pub fn watch(watch: &Watch, tell: &Tell, stop: &Stop) -> Result<Ended> {
    watch.check()?;
    let directory = watch.directory();
    let (journal, records) = Journal::open(&directory)?;
    for name in ["receipts", "runs", "results"] {
        std::fs::create_dir_all(directory.join(name))
            .map_err(|error| failure::of_io("make the state directory", &error))?;
    }
    let mut machine = Machine::new(watch.rules.clone());
    records.into_iter().for_each(|record| machine.replay(record));
    machine.begin();
    let (inputs, hears) = mpsc::channel();
    let driver = Driver {
        watch,
        directory,
        far_movers: Arc::new(Mutex::new(FarMovers::new(watch.how.clone()))),
        tell,
        stop,
        changed: AtomicBool::new(false),
        is_over: Arc::default(),
    };
    let mut looks = Looks::new(watch.look_every);
    let result = std::thread::scope(|scope| {
        let life = Life { driver: &driver, machine, journal, done: 0 };
        let result = life.live(scope, &mut looks, inputs, hears);
        driver.is_over.store(true, Ordering::Release);
        // Copies under way end in order: what is durable stays for the next life.
        stop.stop();
        result
    });
    say_goodbye(looks.reach.take(), driver.far_movers.clone(), watch.how.clone());
    result
}

/// Ends sessions with far movers; for so long at most, for who does not answer now may not for long.
fn say_goodbye(reach: Option<Reach>, far_movers: Arc<Mutex<FarMovers>>, how: How) {
    let (tells, hears) = mpsc::channel::<()>();
    let goodbye = move || {
        drop(reach);
        // A look that is left behind has them as well, and they are closed when they are dropped.
        if let Ok(mut far_movers) = far_movers.try_lock() {
            *far_movers = FarMovers::new(how);
        }
        drop(tells);
    };
    if std::thread::Builder::new().name("goodbye".into()).spawn(goodbye).is_ok() {
        let _ = hears.recv_timeout(GOODBYE);
    }
}

impl Watch {
    fn check(&self) -> Result<()> {
        let usage = |cause: &str| Err(Failure::new(FailureKind::Usage, "watch", cause));
        if !matches!(self.source, Named::Local(_) | Named::Daemon { .. } | Named::Ssh { .. }) {
            return usage("what is watched is a directory, here or far");
        }
        Asked::new("watch", self.source.clone(), self.destination.clone())?;
        if self.results.is_some() && self.analysis.is_none() {
            return usage("there are no results without a command");
        }
        if let Named::Local(source) = &self.source {
            for other in [Some(&self.destination), self.results.as_ref()].into_iter().flatten() {
                if let Named::Local(other) = other
                    && nearest(other).starts_with(nearest(source))
                {
                    return usage("the destination, or the place of results, is in the watched directory");
                }
            }
        }
        Ok(())
    }

    /// Of this source, destination and kind of items: the same command finds it again.
    fn directory(&self) -> PathBuf {
        let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 watch");
        for place in [&self.source, &self.destination] {
            let text = match place {
                Named::Local(path) => Escaped(nearest(path).as_os_str().as_bytes()).to_string(),
                far => far.to_string(),
            };
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        hasher.update(&[u8::from(self.scanner.kind == ItemKind::Directory)]);
        let name = Digest(*hasher.finalize().as_bytes()).to_string();
        // As seen from anywhere: it is told to commands.
        let state = std::path::absolute(&self.state).unwrap_or_else(|_| self.state.clone());
        state.join("watch").join(&name[..16])
    }
}

/// The path without links as far as it is there.
fn nearest(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match there {
        Some((above, real)) => match path.strip_prefix(above) {
            Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
            _ => real,
        },
        None => path,
    }
}

/// What all threads share.
struct Driver<'a> {
    watch: &'a Watch,
    directory: PathBuf,
    far_movers: Arc<Mutex<FarMovers>>,
    tell: &'a Tell,
    stop: &'a Stop,
    /// The kernel told of a change.
    changed: AtomicBool,
    is_over: Arc<AtomicBool>,
}

/// What the thread that decides hears.
enum Heard {
    /// What came of an action.
    Came(Input),
    /// What came of a look.
    Looked(Looked),
}

struct Looked {
    /// When it began: what it saw is as old as that.
    began: Duration,
    /// How long it took to list what is there, without the way to it.
    took: Duration,
    view: Result<View>,
    /// For the next; a session that failed is not kept.
    reach: Option<Reach>,
}

/// When looks are made: one at a time.
struct Looks {
    every: Duration,
    due_at: Duration,
    not_before: Duration,
    is_under_way: bool,
    has_seen: bool,
    /// How long the last one took.
    took: Option<Duration>,
    reach: Option<Reach>,
}

impl Looks {
    fn new(every: Option<Duration>) -> Looks {
        Looks {
            every: every.unwrap_or(POLL_EVERY),
            due_at: Duration::ZERO,
            not_before: Duration::ZERO,
            is_under_way: false,
            has_seen: false,
            took: None,
            reach: None,
        }
    }

    /// `wakes_at`: when something may be seen to be complete.
    fn is_due(&self, now: Duration, has_changed: bool, wakes_at: Option<Duration>) -> bool {
        let is_wanted = has_changed || now >= self.due_at || wakes_at.is_some_and(|at| now >= at);
        is_wanted && now >= self.not_before && !self.is_under_way
    }

    /// One is over that took so long; `None`: it saw nothing.
    fn end(&mut self, now: Duration, took: Option<Duration>) {
        self.is_under_way = false;
        let (pause, every) = match took {
            Some(took) => {
                // One that took longer than the one before it waited for an answer, and that is no work: after an outage
                // nobody is to be blind for ten times as long.
                let work = took.min(self.took.replace(took).unwrap_or(took));
                (work.saturating_mul(LOOK_SHARE), self.every)
            }
            None => (self.every.min(POLL_EVERY), self.every.min(POLL_EVERY)),
        };
        self.due_at = now + every;
        self.not_before = now + GATHER.max(pause);
    }
}

/// Looks.
#[derive(Clone)]
struct Looker {
    source: Named,
    scanner: Arc<Scanner>,
    far_movers: Arc<Mutex<FarMovers>>,
    tell: Tell,
    is_over: Arc<AtomicBool>,
}

impl Looker {
    /// Begins a look on a thread that nobody waits for.
    fn begin(&self, began: Duration, reach: Option<Reach>, tells: Sender<Heard>) -> Result<()> {
        let looker = self.clone();
        let look = move || {
            let looked = catch_unwind(AssertUnwindSafe(|| looker.look(began, reach)));
            // It is waited for: no other begins before it is told.
            let looked = looked.unwrap_or_else(|_| Looked {
                began,
                took: Duration::ZERO,
                view: Err(Failure::new(FailureKind::Internal, "look", "the thread that looks panicked")),
                reach: None,
            });
            // Nobody hears it when the watch is over.
            let _ = tells.send(Heard::Looked(looked));
        };
        std::thread::Builder::new()
            .name("look".into())
            .spawn(look)
            .map(drop)
            .map_err(|error| failure::of_io("start a thread", &error))
    }

    fn look(&self, began: Duration, reach: Option<Reach>) -> Looked {
        let looked = |took, view, reach| Looked { began, took, view, reach };
        let reach = match reach.map_or_else(|| self.reach(), Ok) {
            Ok(reach) => reach,
            Err(failure) => return looked(Duration::ZERO, Err(failure), None),
        };
        let begun = Instant::now();
        let mut trouble = |failure: &Failure| {
            if !self.is_over.load(Ordering::Acquire) {
                (self.tell)(Told::Trouble(None, failure));
            }
        };
        match self.scanner.scan(&reach, &mut trouble) {
            Ok(view) => looked(begun.elapsed(), Ok(view), Some(reach)),
            Err(failure) => looked(begun.elapsed(), Err(failure), None),
        }
    }

    /// As [`Reach::of`], but copies need not wait until it is dialled.
    fn reach(&self) -> Result<Reach> {
        let Some((whom, place)) = Whom::of(&self.source).zip(far_movers::place_there(&self.source)) else {
            return Reach::of(self.source.clone(), &mut lock(&self.far_movers));
        };
        let reached = lock(&self.far_movers).reach(&whom)?;
        let client = reached.far.dial(LinkSettings::default(), event::nobody())?;
        Ok(Reach::Far(Arc::new(client), place))
    }
}

/// The thread that decides.
struct Life<'a> {
    driver: &'a Driver<'a>,
    machine: Machine,
    journal: Journal,
    done: u64,
}

type Scope<'scope, 'env> = &'scope std::thread::Scope<'scope, 'env>;

impl<'a> Life<'a> {
    fn live<'scope>(
        mut self,
        scope: Scope<'scope, '_>,
        looks: &mut Looks,
        inputs: Sender<Heard>,
        hears: mpsc::Receiver<Heard>,
    ) -> Result<Ended>
    where
        'a: 'scope,
    {
        let driver = self.driver;
        self.journal.rewrite(&self.machine.snapshot())?;
        let started = Instant::now();
        let changes = driver.changes(scope);
        if changes.is_some() && driver.watch.look_every.is_none() {
            looks.every = RECONCILE_EVERY;
        }
        let looker = driver.looker();
        let mut idle_since = Duration::ZERO;
        loop {
            let now = started.elapsed();
            if looks.is_due(now, driver.changed.load(Ordering::Acquire), self.machine.wakes_at()) {
                driver.changed.store(false, Ordering::Release);
                looks.is_under_way = true;
                looker.begin(now, looks.reach.take(), inputs.clone())?;
            }
            if looks.has_seen {
                self.act(scope, started.elapsed(), &inputs)?;
            }
            if driver.stop.is_asked() {
                return Ok(self.ended(true));
            }
            if self.machine.blocked_by().is_some() {
                return Ok(self.ended(false));
            }
            let now = started.elapsed();
            if !self.machine.is_idle() || !looks.has_seen {
                idle_since = now;
            }
            // Nobody knows what a look that is under way will see, nor how what is tried once more will end.
            let may_change = looks.is_under_way || self.machine.is_busy();
            let idle = driver.watch.idle_exit.filter(|_| !may_change);
            if idle.is_some_and(|idle| now.saturating_sub(idle_since) >= idle) {
                return Ok(self.ended(false));
            }
            let heard = match hears.recv_timeout(NOTICE) {
                Ok(heard) => std::iter::once(heard).chain(hears.try_iter()).collect(),
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new(FailureKind::Internal, "watch", "nobody is left to hear from"));
                }
            };
            let now = started.elapsed();
            for heard in heard {
                let looked = match heard {
                    Heard::Came(input) => {
                        self.hear(now, input)?;
                        continue;
                    }
                    Heard::Looked(looked) => looked,
                };
                looks.reach = looked.reach;
                looks.end(now, looked.view.is_ok().then_some(looked.took));
                match looked.view {
                    Ok(view) => {
                        looks.has_seen = true;
                        if let Some(changes) = &changes {
                            driver.hear_below(changes, &view.directories);
                        }
                        self.hear(looked.began, Input::Looked(view.items))?;
                    }
                    // At the beginning it is a mistake in the command; later it is an outage.
                    Err(failure) if !looks.has_seen => return Err(failure),
                    Err(failure) => (driver.tell)(Told::Trouble(None, &failure)),
                }
            }
        }
    }

    fn ended(&self, is_stopped: bool) -> Ended {
        let given_up = self.machine.given_up().into_iter().cloned().collect();
        let lost = self.machine.lost().cloned().collect();
        Ended { done: self.done, given_up, lost, is_stopped }
    }

    fn hear(&mut self, now: Duration, input: Input) -> Result<()> {
        if let Input::Moved(_, Err(Trouble::Missing)) = &input {
            // Maybe the item is gone.
            self.driver.changed.store(true, Ordering::Release);
        }
        let records = self.machine.take(now, input);
        self.keep(&records)
    }

    /// Makes records durable, and tells what they say.
    fn keep(&mut self, records: &[Record]) -> Result<()> {
        self.journal.append(records)?;
        if self.journal.is_long() {
            self.driver.forget_runs(&self.machine.forget())?;
            self.journal.rewrite(&self.machine.snapshot())?;
        }
        for record in records {
            match record {
                Record::Arrived(name, arrived) => (self.driver.tell)(Told::Arrived(name, arrived)),
                Record::Started(name, attempt) => (self.driver.tell)(Told::Started(name, *attempt)),
                Record::Ended(name, attempt, outcome) => {
                    self.driver.run_place(name, *attempt).forget();
                    (self.driver.tell)(Told::Ended(name, *attempt, outcome));
                }
                Record::Done(name) => {
                    self.done += 1;
                    (self.driver.tell)(Told::Done(name));
                }
                Record::Same(..) | Record::Known(..) | Record::Past(_) => {}
            }
        }
        Ok(())
    }

    fn act<'scope>(&mut self, scope: Scope<'scope, '_>, now: Duration, inputs: &Sender<Heard>) -> Result<()>
    where
        'a: 'scope,
    {
        loop {
            let (records, actions) = self.machine.decide(now);
            if records.is_empty() && actions.is_empty() {
                return Ok(());
            }
            self.keep(&records)?;
            for action in actions {
                let driver = self.driver;
                let inputs = inputs.clone();
                let arrived = match &action {
                    Action::Run(name, _) => self.machine.arrived(name).cloned(),
                    _ => None,
                };
                let work = move || {
                    // Nobody hears it when the watch is over.
                    if let Some(input) = driver.perform(action, arrived) {
                        let _ = inputs.send(Heard::Came(input));
                    }
                };
                std::thread::Builder::new()
                    .name("item".into())
                    .spawn_scoped(scope, work)
                    .map_err(|error| failure::of_io("start a thread", &error))?;
            }
        }
    }
}

impl Driver<'_> {
    /// Hears of changes where the kernel tells of them.
    fn changes<'scope>(&'scope self, scope: Scope<'scope, '_>) -> Option<Arc<Changes>> {
        let Named::Local(path) = &self.watch.source else { return None };
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

    fn hear_below(&self, changes: &Changes, directories: &[RelativePath]) {
        let Named::Local(root) = &self.watch.source else { return };
        for directory in directories {
            // Without, the regular looks remain.
            let below = root.join(OsString::from_vec(directory.as_bytes().to_vec()));
            let _ = Dir::open(&below).and_then(|directory| changes.add(&directory));
        }
    }

    fn looker(&self) -> Looker {
        Looker {
            source: self.watch.source.clone(),
            scanner: self.watch.scanner.clone(),
            far_movers: self.far_movers.clone(),
            tell: self.tell.clone(),
            is_over: self.is_over.clone(),
        }
    }

    /// Does one thing to its end. `None` if the watch ended first.
    fn perform(&self, action: Action, arrived: Option<Arrived>) -> Option<Input> {
        match action {
            Action::Move(name, version) => {
                let result = self.copy_item(&name).map(|(digest, bytes)| Arrived {
                    version,
                    digest: digest.to_string(),
                    key: key_of(&name, &digest),
                    bytes,
                });
                let result = result.map_err(|failure| self.trouble(&name, &failure));
                Some(Input::Moved(name, result))
            }
            Action::Run(name, attempt) => {
                let outcome = match self.begin_run(&name, attempt, arrived.as_ref()?) {
                    Ok(None) => Outcome::Succeeded,
                    Ok(Some(mut keeper)) => match command::reap(&mut keeper, &|| self.ends()) {
                        Ok(false) => return None,
                        // However that went: what is recorded counts.
                        Ok(true) | Err(_) => self.end_of_run(&name, attempt)?,
                    },
                    Err(error) => Outcome::NotStarted(error.to_string()),
                };
                Some(Input::Ended(name, attempt, outcome))
            }
            Action::Recover(name, attempt) => {
                let outcome = self.end_of_run(&name, attempt)?;
                Some(Input::Ended(name, attempt, outcome))
            }
            Action::Return(name) => {
                let result = self.send_back(&name).map_err(|failure| self.trouble(&name, &failure));
                Some(Input::Returned(name, result))
            }
        }
    }

    fn trouble(&self, name: &RelativePath, failure: &Failure) -> Trouble {
        if failure.kind != FailureKind::Stopped {
            (self.tell)(Told::Trouble(Some(name), failure));
        }
        match failure.kind {
            FailureKind::NotFound => Trouble::Missing,
            FailureKind::Usage | FailureKind::Unsupported | FailureKind::Conflict => Trouble::Lasting,
            _ => Trouble::Passing,
        }
    }

    fn ends(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || self.stop.is_asked()
    }

    /// Copies an item; its digest and bytes.
    fn copy_item(&self, name: &RelativePath) -> Result<(Digest, u64)> {
        let source = self.watch.source.below(name.as_bytes());
        let above = name.split().map_or(&b""[..], |(above, _)| above);
        let mut destination = self.watch.destination.below(above);
        destination.mean_contents();
        let mut wishes = self.watch.wishes.clone();
        // What stands there is compared by content: its digest must be known.
        wishes.check = Check::Digest;
        if self.watch.scanner.kind == ItemKind::File {
            wishes.filter.clear();
        }
        let asked = receipt::Asked {
            from: vec![source.to_string()],
            to: destination.to_string(),
            compress: wishes.compress,
            delete: false,
        };
        let receipt = ReceiptFile::begin(&self.receipt(name), &asked)?;
        (wishes.lines, wishes.header) = (Some(receipt.lines()), Some(receipt.header_digest()));
        let settled: Arc<Mutex<Settled>> = Arc::default();
        let hears = settled.clone();
        let report =
            self.copy(source, destination, &wishes, Arc::new(move |event| lock(&hears).hear(event)))?;
        receipt.finish(&report.agreed)?;
        let settled = std::mem::take(&mut *lock(&settled));
        settled.digest(self.watch.scanner.kind)
    }

    fn send_back(&self, name: &RelativePath) -> Result<()> {
        let directory = self.results(name);
        let is_empty = match std::fs::read_dir(&directory) {
            Ok(mut entries) => entries.next().is_none(),
            // They are back, and we were killed before that was in the journal.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(failure::of_io("read the results", &error)),
        };
        if let (Some(place), false) = (&self.watch.results, is_empty) {
            let mut from = Named::Local(directory.clone());
            from.mean_contents();
            let mut to = place.below(name.as_bytes());
            to.mean_contents();
            let wishes = Wishes { filter: Vec::new(), ..self.watch.wishes.clone() };
            let failed: Arc<Mutex<Settled>> = Arc::default();
            let hears = failed.clone();
            self.copy(from, to, &wishes, Arc::new(move |event| lock(&hears).hear(event)))?;
            if let Some(failure) = lock(&failed).failure.take() {
                return Err(failure);
            }
        }
        // They are back; what cannot be removed is removed before the next run for this name.
        let _ = std::fs::remove_dir_all(&directory);
        Ok(())
    }

    fn copy(
        &self,
        from: Named,
        to: Named,
        wishes: &Wishes,
        events: Events,
    ) -> Result<thalweg_mover::run::copy::Report> {
        let job = Asked::new("watch", from, to)?.reach(&mut lock(&self.far_movers), &self.watch.state)?;
        let tell = self.tell.clone();
        let link_events: Events = Arc::new(move |event| tell(Told::Link(&event)));
        let watch = CopyWatch { events, link_events, meter: Arc::default(), evidence: None };
        job.run(wishes, &self.watch.state, &watch, self.stop)
    }

    /// Starts the command below its keeper; `None` if there is none to run. What fails here has begun nothing.
    fn begin_run(
        &self,
        name: &RelativePath,
        attempt: u32,
        arrived: &Arrived,
    ) -> std::io::Result<Option<Child>> {
        let Some(analysis) = &self.watch.analysis else { return Ok(None) };
        let results = self.results(name);
        // What an attempt that failed left is no result.
        match std::fs::remove_dir_all(&results) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir_all(&results)?,
        }
        let place = self.run_place(name, attempt);
        command::start(analysis, &place, &self.environment(name, attempt, arrived)).map(Some)
    }

    /// How a run ended, once it has; `None` if the watch ended first. What keeps us from seeing it says nothing of it: it is
    /// told once, and looked for again.
    fn end_of_run(&self, name: &RelativePath, attempt: u32) -> Option<Outcome> {
        let place = self.run_place(name, attempt);
        let mut is_told = false;
        loop {
            let error = match place.wait(&|| self.ends()) {
                Ok(outcome) => return outcome,
                Err(error) => error,
            };
            if !std::mem::replace(&mut is_told, true) {
                let failure = failure::of_io("find out how the command ended", &error);
                (self.tell)(Told::Trouble(Some(name), &failure));
            }
            let again = Instant::now() + READ_AGAIN;
            while Instant::now() < again {
                if self.ends() {
                    return None;
                }
                std::thread::sleep(NOTICE);
            }
        }
    }

    /// What the command is told; documented in docs/guide/watch.md.
    fn environment(
        &self,
        name: &RelativePath,
        attempt: u32,
        arrived: &Arrived,
    ) -> Vec<(&'static str, OsString)> {
        let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let source = self.watch.source.below(name.as_bytes());
        let destination = self.watch.destination.below(name.as_bytes());
        let here = match (&destination, &source) {
            (Named::Local(path), _) | (_, Named::Local(path)) => {
                std::path::absolute(path).unwrap_or_else(|_| path.clone()).into_os_string()
            }
            _ => OsString::new(),
        };
        vec![
            ("THALWEG_ITEM_NAME", bytes(name.as_bytes())),
            ("THALWEG_ITEM_PATH", here),
            ("THALWEG_ITEM_SOURCE", source.to_string().into()),
            ("THALWEG_ITEM_DESTINATION", destination.to_string().into()),
            ("THALWEG_ITEM_DIGEST", arrived.digest.clone().into()),
            ("THALWEG_ITEM_BYTES", arrived.bytes.to_string().into()),
            ("THALWEG_ITEM_RECEIPT", self.receipt(name).into_os_string()),
            ("THALWEG_ITEM_KEY", arrived.key.clone().into()),
            ("THALWEG_ITEM_ATTEMPT", attempt.to_string().into()),
            ("THALWEG_ITEM_RESULTS", self.results(name).into_os_string()),
        ]
    }

    fn receipt(&self, name: &RelativePath) -> PathBuf {
        self.directory.join("receipts").join(format!("{}.receipt", short(name)))
    }

    fn results(&self, name: &RelativePath) -> PathBuf {
        self.directory.join("results").join(short(name))
    }

    /// Removes what a kill left of the runs of these names, durably: runs of theirs have numbers from 1 again.
    fn forget_runs(&self, names: &[RelativePath]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let of_io = |error: std::io::Error| failure::of_io("forget old runs", &error);
        let directory = self.directory.join("runs");
        let gone: HashSet<String> = names.iter().map(short).collect();
        for entry in std::fs::read_dir(&directory).map_err(of_io)? {
            let entry = entry.map_err(of_io)?;
            let is_gone = |text: &str| text.split_once('-').is_some_and(|(name, _)| gone.contains(name));
            if entry.file_name().to_str().is_some_and(is_gone) {
                std::fs::remove_file(entry.path()).map_err(of_io)?;
            }
        }
        std::fs::File::open(&directory).and_then(|directory| directory.sync_all()).map_err(of_io)
    }

    fn run_place(&self, name: &RelativePath, attempt: u32) -> RunPlace {
        RunPlace::new(&self.directory.join("runs"), &format!("{}-{attempt}", short(name)))
    }
}

/// A file name that any item can have.
fn short(name: &RelativePath) -> String {
    blake3::hash(name.as_bytes()).to_hex()[..32].to_owned()
}

/// What a copy of an item said of its entries.
#[derive(Default)]
struct Settled {
    /// Path, and what is there: kind and digest, or the target of a link.
    entries: BTreeMap<RelativePath, (u8, Vec<u8>)>,
    digest: Option<Digest>,
    bytes: u64,
    failure: Option<Failure>,
}

impl Settled {
    fn hear(&mut self, event: Event) {
        let (entry, digest) = match event {
            Event::Settled(entry, message::Outcome::Done { digest, .. })
            | Event::Settled(entry, message::Outcome::Unchanged { digest }) => (entry, digest),
            Event::Settled(_, message::Outcome::Failed(failure))
            | Event::Aside(_, message::Outcome::Failed(failure)) => {
                self.failure.get_or_insert(failure);
                return;
            }
            _ => return,
        };
        let what = match &entry.kind {
            Kind::File { .. } => (b'f', digest.map(|digest| digest.0.to_vec()).unwrap_or_default()),
            Kind::Directory => (b'd', Vec::new()),
            Kind::Symlink { target } => (b'l', target.clone()),
            Kind::HardLink { .. } => (b'h', Vec::new()),
            Kind::Fifo => (b'p', Vec::new()),
            Kind::Device { .. } => (b'b', Vec::new()),
        };
        self.bytes += entry.content_bytes();
        self.digest = self.digest.or(digest);
        self.entries.insert(entry.path.clone(), what);
    }

    /// Digest of the whole item, and its bytes.
    fn digest(self, kind: ItemKind) -> Result<(Digest, u64)> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let digest = match kind {
            ItemKind::File => self.digest.ok_or_else(|| {
                Failure::new(FailureKind::Changed, "copy", "it was a file, and is none any more")
            })?,
            ItemKind::Directory => {
                let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 directory digest");
                for (path, (kind, what)) in &self.entries {
                    for part in [path.as_bytes(), &[*kind][..], what] {
                        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
                    }
                }
                Digest(*hasher.finalize().as_bytes())
            }
        };
        Ok((digest, self.bytes))
    }
}
