//! Does what the [`machine`](crate::machine) decides, and keeps the journal ahead of all of it: `looks` sees what is
//! there, `perform` copies, runs and sends back.
//!
//! One thread decides; each look, each copy and each run has a thread of its own, as many as the rules let there be. A
//! look that waits for an answer holds up nothing else, and at the end it is left behind. A journal that cannot be
//! written ends the watch: what cannot be remembered is not done.

mod looks;
mod perform;

use crate::WATCH;
use crate::command::Analysis;
use crate::item::ItemKind;
use crate::journal::Journal;
use crate::machine::{Action, Arrived, Input, Machine, Outcome, Record, Rules, Trouble};
use crate::scan::Scanner;
use looks::{Looked, Looks};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_client::far_movers::{self, FarMovers, How};
use thalweg_client::job::Asked;
use thalweg_client::place::Place;
use thalweg_client::reach::Reach;
use thalweg_mover::event::Event;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{Stop, Wishes};
use thalweg_sys::Watch as Changes;
use thalweg_sys::atomic_file::{AtomicFile, Durability};
use thalweg_sys::dir::make_lasting;
use thalweg_sys::priority::Priority;
use thalweg_sys::process::user_directory_mode;
use thalweg_wire::path::Escaped;
use thalweg_wire::{Digest, RelativePath};

/// Between two looks where the kernel tells of changes: what it did not tell is found then.
pub const RECONCILE_EVERY: Duration = Duration::from_secs(10);
/// Between two looks where it does not.
pub const POLL_EVERY: Duration = Duration::from_secs(1);
/// How often a bucket is looked at, if nobody says: each look costs a request for each 1000 objects.
const BUCKET_EVERY: Duration = Duration::from_secs(10);
/// What is waited for goodbyes to far movers.
const GOODBYE: Duration = Duration::from_secs(1);
/// Between two looks whether somebody asked to stop.
const NOTICE: Duration = Duration::from_millis(100);

/// What is watched, and what is done.
pub struct Watch {
    /// The directory; by ssh with the port, if one is given (see [`Place::with_port`]).
    pub source: Place,
    /// Where its items go, under their names; its port likewise.
    pub destination: Place,
    /// Which items.
    pub scanner: Arc<Scanner>,
    /// What is decided by.
    pub rules: Rules,
    /// What is run for each that arrived.
    pub analysis: Option<Analysis>,
    /// Where results go, each item's in a directory of its name.
    pub results: Option<Place>,
    /// Whether what earlier copies brought of an item that is a directory, or of results, goes there before the next
    /// copy if the source has it no more. Else it stays, and how much of an item that is counts as
    /// [`Arrived::stale`].
    pub deletes: bool,
    /// Where receipts go, made if need be; default: into the state directory of this watch.
    pub receipts: Option<PathBuf>,
    /// How far movers are reached.
    pub how: How,
    /// How items are copied.
    pub wishes: Wishes,
    /// By which congestion control results are sent; that of items is in `wishes`.
    pub results_congestion: Option<String>,
    /// How the threads that copy stand to others of this machine. Those that run commands are as this process is, and
    /// so are the commands.
    pub priority: Priority,
    /// The state directory of this user; each watch has one of its own in it.
    pub state: PathBuf,
    /// Looks between which nothing needs to be told; default by whether the kernel tells of changes.
    pub look_every: Option<Duration>,
    /// Ends when there was nothing to do for so long, as a look saw that began then; without, never by itself. While
    /// nobody can look it goes on, and tells why.
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
    /// Something that a copy of the item, or of its results, noted and a person may want to know: `Note`, `Repaired`,
    /// an entry (`Settled`) of which not all could be kept, or nothing, or a name (`Aside`) that no rule leaves out and
    /// that was not copied. Each time, as often as there are such entries, and again when the copy is tried again.
    Noted(&'a RelativePath, &'a Event),
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
    /// Items that went from the source after copies of them failed, and did not arrive; at most 1,024.
    pub lost: Vec<RelativePath>,
    /// Items that arrived, and whose source went after a copy over what had arrived had begun, in this life or in an
    /// earlier one: what stands at the destination may be neither, and no command runs for them before they come again.
    /// The first 1,024 by name.
    pub torn: Vec<RelativePath>,
    /// Where the last look could not look: what is there, or below, nobody knows.
    pub unseen: Vec<RelativePath>,
    /// Whether somebody asked to stop.
    pub is_stopped: bool,
}

/// Watches until it is stopped, idle, or blocked by an item that was given up; `stop` is asked for when it returns. A
/// command that runs when it is stopped goes on; the next watch finds its end.
///
/// # Errors
/// When the directory cannot be looked at at the beginning, the journal not be kept, or no file be made where receipts
/// go; `Usage` for places that cannot be watched, and for a program that cannot be run; `Unsupported` for a
/// congestion control that a far side does not permit. What keeps the first copy from the far mover that items go to
/// and does not pass: `Usage` without a ticket, `Permission` if it is not trusted or does not let us in, `NotFound` if
/// it cannot be started.
pub fn watch(watch: &Watch, tell: &Tell, stop: &Stop) -> Result<Ended> {
    watch.check()?;
    watch.try_priority()?;
    watch.make_receipts()?;
    let directory = watch.directory();
    let (journal, records) = Journal::open(&directory)?;
    for name in ["receipts", "runs", "results"] {
        std::fs::create_dir_all(directory.join(name))
            .map_err(|error| failure::of_io("make the state directory", &error))?;
    }
    let mut machine = Machine::new(watch.rules.clone());
    records.into_iter().for_each(|record| machine.replay(record));
    machine.begin();
    // One word of each item's work and one of the look under way: the rules and `Looks` bound how many there are.
    let (inputs, hears) = mpsc::channel();
    let driver = Driver {
        watch,
        directory,
        far_movers: Arc::new(Mutex::new(FarMovers::new(watch.how.clone()))),
        tell,
        stop,
        changed: AtomicBool::new(false),
        refused: Mutex::default(),
        dialled: Mutex::default(),
        dialled_for_results: Mutex::default(),
        is_over: Arc::default(),
        is_key_told: Arc::default(),
    };
    let in_bucket = watch.source.is_in_bucket().then_some(BUCKET_EVERY);
    let mut looks = Looks::new(watch.look_every.or(in_bucket));
    let result = Life::new(&driver, machine, journal).run(&mut looks, inputs, hears);
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
        let usage = |cause: &str| Err(Failure::new(FailureKind::Usage, WATCH, cause));
        if !matches!(
            self.source,
            Place::Local(_) | Place::Daemon { .. } | Place::Ssh { .. } | Place::Object { .. }
        ) {
            return usage("what is watched is a directory, here or far, or a place in a bucket");
        }
        Asked::new("watch", self.source.clone(), self.destination.clone())?;
        if self.results.is_some() && self.analysis.is_none() {
            return usage("there are no results without a command");
        }
        self.analysis.as_ref().map_or(Ok(()), Analysis::check)?;
        for other in [Some(&self.destination), self.results.as_ref()].into_iter().flatten() {
            let is_within = match (&self.source, other) {
                (Place::Local(source), Place::Local(other)) => nearest(other).starts_with(nearest(source)),
                // It would be seen there.
                (Place::Object { .. }, Place::Object { .. }) => {
                    Asked::new("watch", self.source.clone(), other.clone()).is_err()
                }
                (source, other) => far_movers::holds(source, other),
            };
            if is_within {
                return usage("the destination, or the place of results, is in the watched directory");
            }
        }
        if let (Place::Local(source), Some(receipts)) = (&self.source, &self.receipts)
            && nearest(receipts).starts_with(nearest(source))
        {
            return usage("the directory of receipts is in the watched directory");
        }
        Ok(())
    }

    /// Makes the directory of receipts, if one is named, and tries whether a file can be begun there: where none can,
    /// no item would ever arrive.
    fn make_receipts(&self) -> Result<()> {
        let Some(directory) = &self.receipts else { return Ok(()) };
        let of_io = |error: &_| failure::at_path(failure::of_io("write receipts", error), directory);
        make_lasting(directory, user_directory_mode()).map_err(|error| of_io(&error))?;
        // It is gone again with this line.
        AtomicFile::begin(&directory.join("new.receipt"), 0o600, Durability::Unsynced)
            .map(drop)
            .map_err(|error| of_io(&error.cause))
    }

    /// Whether threads may have what they are to have; tried in one of its own, because there may be no way back.
    fn try_priority(&self) -> Result<()> {
        let priority = self.priority;
        let tried =
            std::thread::Builder::new().spawn(move || priority.take()).map(std::thread::JoinHandle::join);
        match tried {
            Ok(Ok(Err(error))) => Err(failure::of_io("set --nice, --ionice", &error)),
            _ => Ok(()),
        }
    }

    /// Of this source, destination and kind of items: the same command finds it again.
    fn directory(&self) -> PathBuf {
        // As seen from anywhere: it is told to commands.
        let state = std::path::absolute(&self.state).unwrap_or_else(|_| self.state.clone());
        let named = |is_plain| state.join("watch").join(self.name(is_plain));
        let (directory, as_typed) = (named(true), named(false));
        // Once it was named after far places as they were typed. It is not left behind, nor moved: commands that run
        // know where it is.
        if !directory.exists() && as_typed.exists() { as_typed } else { directory }
    }

    /// The name of that directory, where however a far place is written it is the same one, or as it is typed.
    fn name(&self, is_plain: bool) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 watch");
        for place in [&self.source, &self.destination] {
            let text = text_of(place, is_plain);
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        hasher.update(&[u8::from(self.scanner.kind == ItemKind::Directory)]);
        Digest(*hasher.finalize().as_bytes()).to_string()[..16].to_owned()
    }
}

/// What tells a place from others: `is_plain` however a far one is written, else as it is typed.
fn text_of(place: &Place, is_plain: bool) -> String {
    match place {
        Place::Local(path) => Escaped(nearest(path).as_os_str().as_bytes()).to_string(),
        far if is_plain => far.plain().to_string(),
        far => far.to_string(),
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
    /// Why every copy would fail alike, by the command and not by its item: it ends the watch.
    refused: Mutex<Option<Failure>>,
    /// What came of the last dial of the far mover that items go to, in this life; held while it is dialled.
    dialled: Mutex<Option<Result<()>>>,
    /// The same of that to which results go.
    dialled_for_results: Mutex<Option<Result<()>>>,
    is_over: Arc<AtomicBool>,
    /// That a key which signs is kept nowhere was told: it is so of each item.
    is_key_told: Arc<AtomicBool>,
}

/// What the thread that decides hears.
enum Heard {
    /// What came of an action.
    Came(Input),
    /// What came of a look.
    Looked(Box<Looked>),
}

/// The thread that decides.
struct Life<'a> {
    driver: &'a Driver<'a>,
    machine: Machine,
    journal: Journal,
    done: u64,
    /// Where the last look could not look.
    unseen: Vec<RelativePath>,
    /// Since when there is nothing to do.
    idle_since: Duration,
    /// When the last look began that saw what is there.
    seen_at: Option<Duration>,
}

type Scope<'scope, 'env> = &'scope std::thread::Scope<'scope, 'env>;

impl<'a> Life<'a> {
    fn new(driver: &'a Driver<'a>, machine: Machine, journal: Journal) -> Life<'a> {
        Life {
            driver,
            machine,
            journal,
            done: 0,
            unseen: Vec::new(),
            idle_since: Duration::ZERO,
            seen_at: None,
        }
    }

    /// Goes on until it is over, then has what is under way end, and keeps what came of it: that a copy replaced
    /// nothing, no later life could tell.
    fn run(&mut self, looks: &mut Looks, inputs: Sender<Heard>, hears: Receiver<Heard>) -> Result<Ended> {
        let (driver, started) = (self.driver, Instant::now());
        let result = std::thread::scope(|scope| {
            let result = self.live(scope, started, looks, inputs, &hears);
            driver.is_over.store(true, Ordering::Release);
            // Copies under way end in order: what is durable stays for the next life.
            driver.stop.stop();
            result
        });
        let kept = hears.try_iter().try_for_each(|heard| match heard {
            Heard::Came(input) => self.hear(started.elapsed(), input),
            Heard::Looked(looked) => {
                looks.reach = looked.reach;
                Ok(())
            }
        });
        // Why it is over comes before what could not be kept.
        result.and_then(|is_stopped| kept.map(|()| self.ended(is_stopped)))
    }

    /// Until it is over: whether somebody asked for that.
    fn live<'scope>(
        &mut self,
        scope: Scope<'scope, '_>,
        started: Instant,
        looks: &mut Looks,
        inputs: Sender<Heard>,
        hears: &Receiver<Heard>,
    ) -> Result<bool>
    where
        'a: 'scope,
    {
        let driver = self.driver;
        self.journal.rewrite(&self.machine.snapshot())?;
        let changes = driver.changes(scope);
        if changes.is_some() && driver.watch.look_every.is_none() {
            looks.every = RECONCILE_EVERY;
        }
        let looker = driver.looker();
        loop {
            if let Some(failure) = &*lock(&driver.refused) {
                return Err(failure.clone());
            }
            let now = started.elapsed();
            let has_changed = driver.changed.load(Ordering::Acquire);
            if looks.is_due(now, has_changed, self.machine.wakes_at(), self.ends_at()) {
                driver.changed.store(false, Ordering::Release);
                looks.is_under_way = true;
                looker.begin(now, looks.reach.take(), inputs.clone())?;
            }
            if looks.has_seen {
                self.act(scope, started.elapsed(), &inputs)?;
            }
            if let Some(is_stopped) = self.over(started.elapsed(), looks) {
                return Ok(is_stopped);
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
                match heard {
                    Heard::Came(input) => self.hear(now, input)?,
                    Heard::Looked(looked) => self.see(now, *looked, looks, changes.as_deref())?,
                }
            }
        }
    }

    /// From when on a look may be the last: only a look can tell that there is nothing to do.
    fn ends_at(&self) -> Option<Duration> {
        let ends_at = self.idle_since.saturating_add(self.driver.watch.idle_exit?);
        self.seen_at.is_none_or(|seen_at| seen_at < ends_at).then_some(ends_at)
    }

    /// Whether somebody asked to stop, if it is over.
    fn over(&mut self, now: Duration, looks: &Looks) -> Option<bool> {
        if self.driver.stop.is_asked() {
            return Some(true);
        }
        if self.machine.blocked_by().is_some() {
            return Some(false);
        }
        if !self.machine.is_idle() || !looks.has_seen {
            self.idle_since = now;
        }
        // Nobody knows what a look that is under way will see, nor how what is tried once more will end.
        let may_change = looks.is_under_way || self.machine.is_busy();
        let (idle, seen_at) = self.driver.watch.idle_exit.filter(|_| !may_change).zip(self.seen_at)?;
        (seen_at >= self.idle_since.saturating_add(idle)).then_some(false)
    }

    /// Takes what came of a look.
    fn see(
        &mut self,
        now: Duration,
        looked: Looked,
        looks: &mut Looks,
        changes: Option<&Changes>,
    ) -> Result<()> {
        let driver = self.driver;
        looks.reach = looked.reach;
        let saw = looked.view.is_ok().then_some(looked.took);
        match looked.view {
            Ok(view) => {
                looks.has_seen = true;
                self.seen_at = Some(looked.began);
                self.unseen.clone_from(&view.unseen);
                if let Some(changes) = changes
                    && let Err(error) = driver.hear_below(changes, &view)
                    && driver.watch.look_every.is_none()
                    && looks.every > POLL_EVERY
                {
                    looks.every = POLL_EVERY;
                    let text = format!(
                        "not every directory can be watched ({error}); all are looked at every second"
                    );
                    (driver.tell)(Told::Link(&Event::Note(text)));
                }
                self.hear(looked.began, Input::Looked(view.items, view.unseen))?;
            }
            // At the beginning it is a mistake in the command; later it is an outage.
            Err(failure) if !looks.has_seen => return Err(failure),
            Err(failure) if looked.is_new => (driver.tell)(Told::Trouble(None, &failure)),
            Err(_) => {}
        }
        // How often it looks may be another since.
        looks.end(now, saw);
        Ok(())
    }

    fn ended(&self, is_stopped: bool) -> Ended {
        let given_up = self.machine.given_up().into_iter().cloned().collect();
        let lost = self.machine.lost().cloned().collect();
        let torn = self.machine.torn().into_iter().cloned().collect();
        Ended { done: self.done, given_up, lost, torn, unseen: self.unseen.clone(), is_stopped }
    }

    fn hear(&mut self, now: Duration, input: Input) -> Result<()> {
        let is_missing = matches!(
            &input,
            Input::Moved(_, Err(Trouble::Missing)) | Input::MovedInPart(_, Trouble::Missing)
        );
        if is_missing || matches!(&input, Input::SourceChanged(..)) {
            // Maybe the item is gone, or another one.
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
            self.driver.forget_lists(self.machine.names());
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
                    self.driver.forget_results(name);
                    (self.driver.tell)(Told::Done(name));
                }
                Record::Replacing(_) | Record::Stands(_) => {}
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
                    .map_err(|error| failure::of_thread(&error))?;
            }
        }
    }
}
