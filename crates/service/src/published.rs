//! What transfers of this user tell of themselves while they run and after, for `thalweg why`.
//!
//! One file for each in `STATE/transfers`, written anew about once a second and put in place by rename, so that a
//! reader always finds a whole one. After the end it stays; of those that are over the last [`KEPT`] do. Beyond
//! [`AT_ONCE`] that run, further ones are only counted, which the others of their process tell. Nothing in them is
//! secret beyond names of places and addresses of clients. What cannot be written is not told: no copy fails for that.

use crate::sessions::HostLimits;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use thalweg_mover::basin::Evidence;
use thalweg_mover::plan;
use thalweg_mover::run::copy::Meter;
use thalweg_mover::run::ledger::{self, Settings};
use thalweg_mover::run::session::Session;
use thalweg_sys::atomic_file;
use thalweg_sys::clock::{since_1970, unix_seconds};
use thalweg_wire::account::SideAccounts;
use thalweg_wire::digest;
use thalweg_wire::message::{Direction, Open, Place, Request, Terms};
use thalweg_wire::path::Escaped;

/// Transfers that are over whose last word is kept.
pub const KEPT: usize = 16;
/// Transfers that are told of at the same time, twice as many as a daemon has sessions if nobody says. More are only
/// counted.
pub const AT_ONCE: usize = 2 * HostLimits::SESSIONS;
/// Without news for so long a transfer that does not say that it is over is gone, in seconds.
pub const SILENT_S: u64 = 10;
/// Larger files are none of ours.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Layout of a snapshot. Fields are added, never renamed or given another meaning.
const SCHEMA: u32 = 1;

/// How far a transfer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Under way.
    Running,
    /// Over, everything done.
    Finished,
    /// Over, not everything done.
    Failed,
    /// Its process is gone without a last word.
    Gone,
}

/// What a transfer told last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Layout, 1.
    pub schema: u32,
    /// Its name, unique in a state directory; later ones sort behind.
    pub id: String,
    /// Process that runs it.
    pub pid: u32,
    /// Whether it is one of a server's.
    pub is_served: bool,
    /// How far it is.
    pub state: State,
    /// When it began, in seconds since 1970.
    pub began_at: u64,
    /// When this was written, in seconds since 1970.
    pub told_at: u64,
    /// Where it reads, as a user would write it.
    pub from: String,
    /// Where it writes.
    pub to: String,
    /// Where the client of a served one is, or was last; `None` of others, and of what is no internet socket.
    #[serde(default)]
    pub address: Option<SocketAddr>,
    /// Name of the ticket of that client, where its daemon has tickets.
    #[serde(default)]
    pub ticket: Option<String>,
    /// How much of its content is done; `None` where nobody knows how much there is, as of streams.
    #[serde(default)]
    pub progress: Option<Progress>,
    /// Transfers of the same process that ran and were not told of, because [`AT_ONCE`] were.
    #[serde(default)]
    pub left_out: u32,
    /// What is known of it.
    pub evidence: Evidence,
}

/// How much of the content of a copy is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Content bytes for which nothing more is to be done: verified at the destination, or of entries that came to
    /// their end without.
    pub bytes_settled: u64,
    /// Content bytes found at the source so far.
    pub bytes_found: u64,
    /// Whether these are all.
    pub scan_over: bool,
}

impl Progress {
    /// What the counters of a copy say now.
    pub fn of(meter: &Meter) -> Progress {
        Progress {
            bytes_settled: meter.bytes_settled(),
            bytes_found: meter.bytes_found.load(Ordering::Relaxed),
            scan_over: meter.scan_over.load(Ordering::Relaxed),
        }
    }

    /// The same of a side of one. What changed at the source and came again is found once.
    pub(crate) fn of_side(bytes_settled: u64, bytes_found: u64, scan_over: bool) -> Progress {
        let most = if scan_over { bytes_found } else { u64::MAX };
        Progress { bytes_settled: bytes_settled.min(most), bytes_found, scan_over }
    }
}

/// Transfers of this process that are told of, by the directories that they are told of in, and their names: no file
/// need be read to know that they run.
static TOLD: Mutex<BTreeMap<PathBuf, BTreeSet<String>>> = Mutex::new(BTreeMap::new());
/// Transfers of this process that are not told of, because too many are.
static LEFT_OUT: AtomicU32 = AtomicU32::new(0);

/// That a transfer of this process runs, until it is dropped.
enum Runs {
    /// And is told of, in this directory by this name.
    Told(PathBuf, String),
    /// And is one of too many.
    LeftOut,
}

impl Runs {
    /// From now on, in a directory in which so many of `others`, other processes, are told of. Ours count from here on,
    /// not from the first file of each: many may begin at once.
    fn begin(directory: &Path, id: &str, others: usize) -> Runs {
        let mut told = told_here();
        let ours = told.get(directory).map_or(0, BTreeSet::len);
        if others.saturating_add(ours) >= AT_ONCE {
            LEFT_OUT.fetch_add(1, Ordering::Relaxed);
            return Runs::LeftOut;
        }
        told.entry(directory.to_owned()).or_default().insert(id.to_owned());
        Runs::Told(directory.to_owned(), id.to_owned())
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        match self {
            Runs::Told(directory, id) => {
                let mut told = told_here();
                if let Some(ids) = told.get_mut(directory.as_path()) {
                    ids.remove(id.as_str());
                    if ids.is_empty() {
                        told.remove(directory.as_path());
                    }
                }
            }
            Runs::LeftOut => {
                LEFT_OUT.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

fn told_here() -> MutexGuard<'static, BTreeMap<PathBuf, BTreeSet<String>>> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells of one transfer.
pub struct Publisher {
    directory: PathBuf,
    told: Mutex<Snapshot>,
    runs: Runs,
}

impl Publisher {
    /// Begins to tell of a transfer; if too many do already, only that it is left out. `None` if there is no place to.
    pub fn begin(state: &Path, from: &str, to: &str, is_served: bool) -> Option<Publisher> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let directory = state.join("transfers");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
        let others = tidy(&directory);
        let (pid, now) = (std::process::id(), since_1970());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let told = Snapshot {
            schema: SCHEMA,
            id: format!(
                "{:011}{:03}-{pid:010}-{number:010}-{}",
                now.as_secs(),
                now.subsec_millis(),
                machine()
            ),
            pid,
            is_served,
            state: State::Running,
            began_at: now.as_secs(),
            told_at: now.as_secs(),
            from: cut(from.to_owned()),
            to: cut(to.to_owned()),
            address: None,
            ticket: None,
            progress: None,
            left_out: 0,
            evidence: Evidence::default(),
        };
        let runs = Runs::begin(&directory, &told.id, others);
        Some(Publisher { directory, told: Mutex::new(told), runs })
    }

    /// Tells what is known now. Without `progress`, what was told of that stands.
    pub fn tell(&self, evidence: &Evidence, progress: Option<Progress>) {
        self.put(|told| {
            told.evidence = evidence.clone();
            told.progress = progress.or(told.progress);
        });
    }

    /// How far it is by now; the evidence that was told last stands.
    pub fn tell_progress(&self, progress: Progress) {
        self.put(|told| told.progress = Some(progress));
    }

    /// It is done for the client of this session.
    pub(crate) fn is_for(&self, session: &Session) {
        let (address, ticket) = (session.peer_address(), session.ticket().map(str::to_owned));
        self.put(|told| (told.address, told.ticket) = (address, ticket));
    }

    /// The last word; what was told last stands.
    pub fn over(&self, state: State) {
        self.put(|told| told.state = state);
    }

    fn put(&self, change: impl FnOnce(&mut Snapshot)) {
        if matches!(self.runs, Runs::LeftOut) {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut told);
        told.told_at = unix_seconds();
        told.left_out = LEFT_OUT.load(Ordering::Relaxed);
        let path = self.directory.join(format!("{}.json", told.id));
        // The name says whose it is, so that [`tidy`] can tell what a process that was killed left.
        let new = self.directory.join(format!("{}.new", told.id));
        let written = serde_json::to_vec(&*told)
            .map_err(std::io::Error::other)
            .and_then(|bytes| write(&new, &bytes))
            .and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            tracing::debug!(%error, "not told");
        }
    }
}

/// Tells of a transfer that a server does for a client.
pub struct Served {
    publisher: Publisher,
    terms: Terms,
    is_flow: bool,
    /// The rate that is kept now; absent where the client keeps it.
    rate: Option<Box<dyn Fn() -> Option<u64> + Send>>,
    /// How much is done now; absent of streams.
    progress: Option<Box<dyn Fn() -> Progress + Send>>,
}

impl Served {
    /// Begins to tell of what was opened. `None` as [`Publisher::begin`].
    pub fn begin(state: Option<&Path>, open: &Open, client: &str) -> Option<Served> {
        let places: Vec<String> = open.places().iter().map(shown).collect();
        let (here, there) = (places.join(" "), format!("client {client}"));
        let (from, to) = match open.direction() {
            Direction::Push => (there, here),
            Direction::Pull => (here, there),
        };
        let publisher = Publisher::begin(state?, &from, &to, true)?;
        let is_flow = matches!(open.request, Request::FlowPush { .. } | Request::FlowPull { .. });
        Some(Served { publisher, terms: open.terms.clone(), is_flow, rate: None, progress: None })
    }

    /// Of what is sent from here: `rate` says what is kept now, as the client may have changed it since.
    #[must_use]
    pub fn with_rate(self, rate: impl Fn() -> Option<u64> + Send + 'static) -> Served {
        Served { rate: Some(Box::new(rate)), ..self }
    }

    /// Of a copy: `progress` says how much of it is done now.
    #[must_use]
    pub fn with_progress(self, progress: impl Fn() -> Progress + Send + 'static) -> Served {
        Served { progress: Some(Box::new(progress)), ..self }
    }

    /// Tells where the client is, how much is done, and where the time goes on both sides, and gives the last back.
    pub fn tell(
        &self,
        session: &Session,
        entries: u64,
        sender: SideAccounts,
        receiver: SideAccounts,
    ) -> Evidence {
        let evidence = self.evidence(session.streams().len(), entries, sender, receiver);
        let (address, progress) = (session.peer_address(), self.progress.as_ref().map(|progress| progress()));
        let ticket = session.ticket().map(str::to_owned);
        self.publisher.put(|told| {
            told.address = address;
            told.ticket = ticket;
            told.progress = progress;
            told.evidence = evidence.clone();
        });
        evidence
    }

    /// The last word.
    pub fn end(&self, is_done: bool) {
        self.publisher.over(if is_done { State::Finished } else { State::Failed });
    }

    fn evidence(
        &self,
        streams: usize,
        entries: u64,
        sender: SideAccounts,
        receiver: SideAccounts,
    ) -> Evidence {
        let rate = self.rate.as_ref().map_or(self.terms.rate_bytes_per_s, |rate| rate());
        let settings = Settings {
            is_linked: true,
            is_flow: self.is_flow,
            yields: self.terms.yields,
            // Who is served connects by sockets of its own.
            in_ssh: false,
            streams: u16::try_from(streams).unwrap_or(u16::MAX),
            concurrency: self.terms.concurrency.unwrap_or(plan::CONCURRENCY),
            depth: self.terms.depth,
            rate_bytes_per_s: rate,
            window_bytes: self.terms.window_bytes,
        };
        let evidence = ledger::evidence(&settings, entries, sender, receiver);
        // Nobody says here what the client changed it to.
        let at_once = u64::from(settings.streams) * u64::from(self.terms.segment_bytes);
        let (bytes, nanos) = (evidence.bytes, evidence.elapsed_nanos);
        // It is one of bytes as they are sent: of packed ones there is more content.
        let is_known = self.rate.is_some() || self.terms.compress;
        let is_kept = |rate: &u64| is_known || !is_exceeded(*rate, bytes, nanos, at_once);
        Evidence { rate_bytes_per_s: rate.filter(is_kept), ..evidence }
    }
}

/// Whether more was moved than a rate allows, the first pieces of all streams aside: then it was raised meanwhile.
fn is_exceeded(bytes_per_s: u64, bytes: u64, nanos: u64, at_once: u64) -> bool {
    /// Neither clocks nor what is sent again make more of it.
    const SLACK: f64 = 1.2;
    bytes.saturating_sub(at_once) as f64 > bytes_per_s as f64 * (nanos as f64 / 1e9) * SLACK
}

/// Bytes of what a client or a user chose that are shown of one thing: all of it is written twice a second.
pub const SHOWN_BYTES_MAX: usize = 1 << 10;

/// A place that a client named, inert, and cut where it is longer than [`SHOWN_BYTES_MAX`].
pub(crate) fn shown(place: &Place) -> String {
    let export =
        place.export.as_deref().map(|name| format!("{}/", Escaped(name.as_bytes()))).unwrap_or_default();
    let path = &place.path[..place.path.len().min(SHOWN_BYTES_MAX)];
    let is_whole = place.path.len() == path.len();
    let shown = cut(format!("{export}{}", Escaped(path)));
    if is_whole || shown.ends_with(CUT) { shown } else { format!("{shown}{CUT}") }
}

/// Stands where something was cut.
const CUT: &str = "…";

/// What is longer than [`SHOWN_BYTES_MAX`] ends there.
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > SHOWN_BYTES_MAX {
        let end = (0..=SHOWN_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(CUT);
    }
    text
}

/// Only for its user: names of places are nobody else's business.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(bytes)
}

/// What tells this machine from others in names of files that they share: the nodes of a cluster have one home. 8
/// hexadecimal digits.
pub fn machine() -> &'static str {
    static MACHINE: LazyLock<String> = LazyLock::new(|| {
        let identity = thalweg_sys::machine::identity();
        let digest = digest::of_piece(0, &identity, identity.len() as u64);
        digest.to_string().chars().take(8).collect()
    });
    &MACHINE
}

/// Everything that is told of, the latest last.
pub fn all(state: &Path) -> Vec<Snapshot> {
    all_at(state, unix_seconds())
}

/// The same at a time, in seconds since 1970.
fn all_at(state: &Path, now: u64) -> Vec<Snapshot> {
    let mut all: Vec<Snapshot> =
        files(&state.join("transfers")).iter().filter_map(|path| read(path, now)).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

/// The one of these that somebody is most likely to mean: of those that run the last that began; if none does, the one
/// that told something last.
pub fn latest(mut all: Vec<Snapshot>) -> Option<Snapshot> {
    match all.iter().rposition(|told| told.state == State::Running) {
        Some(at) => Some(all.swap_remove(at)),
        None => all.into_iter().max_by(|a, b| (a.told_at, &a.id).cmp(&(b.told_at, &b.id))),
    }
}

/// Transfers that run besides those, and are not told of: so many as the processes that run them said last.
pub fn left_out(all: &[Snapshot]) -> u64 {
    let mut last: BTreeMap<(u32, Option<&str>), (u64, u32)> = BTreeMap::new();
    for told in all.iter().filter(|told| told.state == State::Running) {
        let process = (told.pid, told.id.split('-').nth(3));
        let said = last.entry(process).or_default();
        *said = (*said).max((told.told_at, told.left_out));
    }
    last.values().map(|(_, left_out)| u64::from(*left_out)).sum()
}

/// Removes what was over first, beyond [`KEPT`] less one for the next, and what a writer left that was killed. Returns
/// how many of other processes run.
fn tidy(directory: &Path) -> usize {
    let mut files = files(directory);
    // What somebody is writing at this moment is theirs.
    files.retain(|path| !is_being_written(path));
    let now = unix_seconds();
    let is_own = |path: &PathBuf| {
        let id = path.file_stem().and_then(|id| id.to_str());
        id.is_some_and(|id| told_here().get(directory).is_some_and(|ids| ids.contains(id)))
    };
    let (mut others, mut over) = (0, Vec::new());
    for path in files.into_iter().filter(|path| !is_own(path)) {
        match read(&path, now) {
            Some(told) if told.state == State::Running => others += 1,
            // What nobody can read goes first.
            told => over.push((told.map_or(0, |told| told.told_at), path)),
        }
    }
    // A long one that has just ended began before all others.
    over.sort();
    while over.len() >= KEPT {
        let _ = fs::remove_file(over.remove(0).1);
    }
    others
}

/// Whether a file is not whole yet, and its writer there to make it so.
fn is_being_written(path: &Path) -> bool {
    let is_new = path.extension().is_some_and(|extension| extension == "new");
    let id = path.file_stem().and_then(|id| id.to_str()).unwrap_or_default();
    let writer = id.split('-').nth(1).and_then(|pid| pid.parse().ok());
    is_new && writer.is_some_and(|pid| may_be_there(id, pid))
}

/// Whether the process of a transfer may be there. Of one on another machine nothing is known but what it tells. (Names
/// that say no machine are of earlier versions.)
fn may_be_there(id: &str, pid: u32) -> bool {
    let is_elsewhere = id.split('-').nth(3).is_some_and(|of| of != machine());
    is_elsewhere || Path::new("/proc").join(pid.to_string()).exists()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn read(path: &Path, now: u64) -> Option<Snapshot> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return None;
    }
    let mut text = String::new();
    atomic_file::open(path).ok()?.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    let mut snapshot: Snapshot = serde_json::from_str(&text).ok()?;
    let is_silent = now.saturating_sub(snapshot.told_at) > SILENT_S;
    if snapshot.state == State::Running && (is_silent || !may_be_there(&snapshot.id, snapshot.pid)) {
        snapshot.state = State::Gone;
    }
    Some(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_that_begin_in_one_instant_keep_their_order() {
        let state = tempfile::tempdir().unwrap();
        let began: Vec<String> = (0..12)
            .map(|_| {
                let publisher = Publisher::begin(state.path(), "a", "b", false).unwrap();
                // As if the clock stood still.
                publisher.put(|told| told.id = told.id.replacen(&told.id[..14], "00000000000000", 1));
                publisher.told.into_inner().unwrap().id
            })
            .collect();
        let found: Vec<String> = all(state.path()).into_iter().map(|snapshot| snapshot.id).collect();
        assert_eq!(found, began);
    }

    #[test]
    fn a_rate_that_was_changed_since_the_terms_is_told_as_it_is_or_not_at_all() {
        let state = tempfile::tempdir().unwrap();
        let terms = Terms { rate_bytes_per_s: Some(9_000_000), ..Terms::of(4 << 20, 1 << 20) };
        let publisher = Publisher::begin(state.path(), "a", "b", true).unwrap();
        let served = Served { publisher, terms, is_flow: false, rate: None, progress: None };
        let told = |served: &Served| {
            served.evidence(2, 0, SideAccounts::default(), SideAccounts::default()).rate_bytes_per_s
        };
        assert_eq!(told(&served), Some(9_000_000));
        let served = served.with_rate(|| Some(5_000_000));
        assert_eq!(told(&served), Some(5_000_000));
        assert_eq!(told(&served.with_rate(|| None)), None);
        // Where the client keeps it, only what is moved says that it was raised.
        let at_once = 2 << 20;
        assert!(!is_exceeded(9_000_000, at_once, 0, at_once), "it has just begun");
        assert!(!is_exceeded(9_000_000, 90_000_000, 10_000_000_000, at_once));
        assert!(is_exceeded(9_000_000, 180_000_000, 10_000_000_000, at_once));
    }

    #[test]
    fn what_is_told_is_found_again_and_only_the_last_ones_are_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let state = scratch.path();
        assert!(all(state).is_empty());
        for number in 0..KEPT + 5 {
            let publisher = Publisher::begin(state, "a", &format!("b{number}"), false).unwrap();
            publisher.tell(&Evidence { bytes: number as u64, ..Evidence::default() }, None);
            let told_at = publisher.told.lock().unwrap().told_at;
            let last = |now| all_at(state, now).last().map(|snapshot| snapshot.state);
            assert_eq!(last(told_at + SILENT_S), Some(State::Running));
            assert_eq!(last(told_at + SILENT_S + 1), Some(State::Gone));
            publisher.tell(&Evidence { bytes: 7, ..Evidence::default() }, None);
            publisher.over(State::Finished);
        }
        let told = all(state);
        assert_eq!(told.len(), KEPT);
        let last = told.last().unwrap();
        assert_eq!((last.state, last.evidence.bytes), (State::Finished, 7));
        assert_eq!(last.to, format!("b{}", KEPT + 4));
        // Of a process that is gone.
        let lost = Publisher::begin(state, "a", "lost", false).unwrap();
        lost.put(|told| told.pid = u32::MAX);
        assert_eq!(all(state).last().map(|s| s.state), Some(State::Gone));
        // Whatever names they have.
        let long = Publisher::begin(state, &"ä".repeat(10_000), "b", false).unwrap();
        long.tell(&Evidence::default(), None);
        let from = all(state).pop().unwrap().from;
        assert!(from.len() <= SHOWN_BYTES_MAX + CUT.len() && from.ends_with(CUT), "{}", from.len());
    }

    /// Of a copy of ten hours the last word was gone as soon as it was said, where sixteen short ones were over.
    #[test]
    fn those_that_were_over_last_are_kept_and_meant_whenever_they_began() {
        let scratch = tempfile::tempdir().unwrap();
        let state = scratch.path();
        let over_at = |told_at: u64| {
            let publisher = Publisher::begin(state, "a", "b", true).unwrap();
            publisher.over(State::Finished);
            let told = Snapshot { told_at, ..publisher.told.lock().unwrap().clone() };
            let path = publisher.directory.join(format!("{}.json", told.id));
            write(&path, &serde_json::to_vec(&told).unwrap()).unwrap();
            told.id
        };
        let long = over_at(1_000_000);
        let short: Vec<String> = (0..KEPT as u64).map(|number| over_at(1000 + number)).collect();
        let told = all(state);
        let is_kept = |id: &String| told.iter().any(|told| told.id == *id);
        assert!(is_kept(&long) && !is_kept(&short[0]) && short[1..].iter().all(is_kept));
        assert_eq!(latest(told.clone()).map(|told| told.id), Some(long));
        let runs = Publisher::begin(state, "a", "b", true).unwrap();
        runs.put(|_| ());
        let id = runs.told.lock().unwrap().id.clone();
        assert_eq!(latest(all_at(state, 0)).map(|told| told.id), Some(id));
    }

    #[test]
    fn of_too_many_that_run_the_others_tell_how_many_are_left_out() {
        let state = tempfile::tempdir().unwrap();
        let begin = || Publisher::begin(state.path(), "a", "b", true).unwrap();
        let tell = |publisher: &Publisher| publisher.tell(&Evidence::default(), None);
        let mut told: Vec<Publisher> = (0..AT_ONCE).map(|_| begin()).collect();
        // Also while none of those has told anything.
        let beyond = [begin(), begin()];
        // However long this takes, none is silent.
        let seen = || {
            let all = all_at(state.path(), 0);
            (all.len(), left_out(&all))
        };
        beyond.iter().for_each(tell);
        told.iter().for_each(tell);
        assert_eq!(seen(), (AT_ONCE, 2));
        drop(beyond);
        told.iter().for_each(tell);
        assert_eq!(seen(), (AT_ONCE, 0));
        // Where one is over there is room for another.
        told.remove(0).over(State::Finished);
        tell(&begin());
        assert_eq!(seen(), (AT_ONCE + 1, 0));
    }

    #[test]
    fn what_another_machine_tells_in_the_same_directory_is_not_judged_by_processes_of_this_one() {
        let state = tempfile::tempdir().unwrap();
        let far = Publisher::begin(state.path(), "a", "b", false).unwrap();
        far.put(|told| {
            told.pid = u32::MAX;
            told.id = told.id.replace(machine(), "elsewhere");
        });
        let told = all(state.path()).pop().unwrap();
        assert_eq!(told.state, State::Running);
        let at = |now| all_at(state.path(), now).pop().map(|told| told.state);
        assert_eq!(at(told.told_at + SILENT_S + 1), Some(State::Gone));
        let directory = state.path().join("transfers");
        let new = directory.join(format!("00000000000000-{:010}-0000000000-elsewhere.new", u32::MAX));
        for number in 0..KEPT {
            fs::write(directory.join(format!("over-{number}")), "").unwrap();
        }
        fs::write(&new, "").unwrap();
        assert_eq!(tidy(&directory), 1);
        assert!(new.exists(), "its writer may be about to put it in place");
    }

    #[test]
    fn what_is_being_written_is_left_to_its_writer_and_what_a_dead_one_left_goes() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path();
        let name =
            |pid: u32, number: u32| directory.join(format!("00000000000000-{pid:010}-{number:010}.new"));
        for number in 0..KEPT as u32 {
            fs::write(name(std::process::id(), number), "").unwrap();
            fs::write(name(u32::MAX, number), "").unwrap();
        }
        assert_eq!(tidy(directory), 0);
        let own = (0..KEPT as u32).all(|number| name(std::process::id(), number).exists());
        assert!(own && !name(u32::MAX, 0).exists());
    }
}
