//! A copy from beginning to end: plan, link, both sides, attempts, agreement.

use crate::basin::terms::Passage;
use crate::basin::{self, Evidence, Verdict};
use crate::endpoint::dataset::{DatasetSource, DatasetSpec};
use crate::endpoint::local::destination::{DestinationPlace, LocalDestination};
use crate::endpoint::local::overlap;
use crate::endpoint::local::source::{LocalSource, ScanOptions, SourceRoot};
use crate::endpoint::simulated::{ArraySpec, SimulatedDisk, SimulatedSource};
use crate::endpoint::sparing::SparingSource;
use crate::endpoint::synthetic::{NoiseSource, NullDestination, ZeroSource};
use crate::endpoint::{Destination, Source};
use crate::event::{Event, Events};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::link::{Fingerprint, Identity, own_system};
use crate::manifest::filter::Filter;
use crate::model::prediction::Compared;
use crate::plan::{self, Asked, Learned, Path, Plan, Tuned};
use crate::run::agree::{self, Agreed, Signer};
use crate::run::client::{Client, LinkSettings, StreamHints};
use crate::run::expected::Expected;
use crate::run::far::Far;
use crate::run::ledger::{self, Settings};
use crate::run::local::LocalTransfer;
use crate::run::receiver::ReceiveRun;
use crate::run::sender::SendRun;
use crate::run::session::Transfer;
use crate::run::steer::{Rate, Steering};
use crate::run::{Ended, LineSink};
use crate::transfer::{receiver, sender};
use crate::tune::Sample;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_wire::account::SideAccounts;
use thalweg_wire::hello::System;
use thalweg_wire::message::{
    Check, Direction, Disk, FilterRule, Open, Place, Preserve, SourceForm, Steer, Terms, Totals,
    TransferNumber, Trial, VerifyLevel,
};
use thalweg_wire::{Digest, RelativePath, limits};

/// Where a copy reads.
#[derive(Clone)]
pub enum From {
    /// Paths of this machine; a trailing slash means the contents.
    Local(Vec<PathBuf>),
    /// So many zeros.
    Zero(u64),
    /// Files of noise: bytes of all of them, and of each.
    Noise(u64, u64),
    /// A data set made of numbers, and what its description says.
    Dataset(DatasetSpec, Vec<u8>),
    /// A file on a simulated array.
    Simulated(ArraySpec),
    /// Places at a far mover.
    Far(Arc<Far>, Vec<Place>),
}

/// Where a copy writes.
#[derive(Clone)]
pub enum To {
    /// A path of this machine.
    Local(PathBuf),
    /// Nowhere.
    Null,
    /// A scratch directory below a path of this machine, which goes with the copy; for at most so many bytes.
    Scratch(PathBuf, u64),
    /// Nowhere, by way of a simulated array.
    Simulated(ArraySpec),
    /// A place at a far mover.
    Far(Arc<Far>, Place),
}

/// Everything that a user can say about a copy.
#[derive(Clone, Default)]
pub struct Wishes {
    /// Knobs.
    pub asked: Asked,
    /// How far to check.
    pub verify: VerifyLevel,
    /// How to recognise what is there.
    pub check: Check,
    /// What to keep besides content.
    pub preserve: Preserve,
    /// Delete what the source lacks, at most so many entries.
    pub delete_max: Option<u64>,
    /// Compress where it pays.
    pub compress: bool,
    /// Send no more than so many content bytes a second; may change while the copy runs.
    pub rate: Arc<Rate>,
    /// Yield to others: the scavenger class.
    pub yields: bool,
    /// Turn no knob while the copy runs; else those that were not asked for may be turned.
    pub holds_still: bool,
    /// What did best on the route of this copy.
    pub learned: Option<Learned>,
    /// What trials found best for the way of this copy.
    pub tuned: Option<Tuned>,
    /// Decide and report only.
    pub dry_run: bool,
    /// Neither predict the time from what earlier copies took, nor remember what this one took; for who does either.
    pub no_profile: bool,
    /// Leave alone what exists.
    pub ignore_existing: bool,
    /// Leave alone what is newer.
    pub update: bool,
    /// Do not cross into other file systems.
    pub one_file_system: bool,
    /// Which names to leave out.
    pub filter: Vec<FilterRule>,
    /// Only these names.
    pub only: Vec<RelativePath>,
    /// How each side uses its disk.
    pub disk: Disk,
    /// The link.
    pub link: LinkSettings,
    /// Where what destinations hold is remembered.
    pub state: Option<PathBuf>,
    /// Takes the lines of the receipt. Called at the beginning of each attempt: its sink starts over.
    pub lines: Option<Arc<dyn Fn() -> LineSink + Send + Sync>>,
    /// Digest of the first line of the receipt, to be signed with the rest.
    pub header: Option<Digest>,
    /// It only measures, and this is what the far place is.
    pub trial: Option<Trial>,
    /// It only measures: of a source here at most so many bytes are read, as [`SparingSource`] does.
    pub trial_bytes_max: Option<u64>,
}

/// Stops a copy from another thread, in order: what is durable stays for the next attempt.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Asks for it.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was asked for.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Counters of a copy while it runs.
#[derive(Debug, Default)]
pub struct Meter {
    /// Entries found so far.
    pub entries_found: AtomicU64,
    /// Content bytes found so far.
    pub bytes_found: AtomicU64,
    /// Whether that is all.
    pub scan_over: AtomicBool,
    /// Entries settled.
    pub entries_settled: AtomicU64,
    /// Content bytes verified at the destination.
    pub bytes_verified: AtomicU64,
}

/// What a copy did.
#[derive(Debug, Clone)]
pub struct Report {
    /// The receiver's totals.
    pub totals: Totals,
    /// Both sides' statements.
    pub agreed: Agreed,
    /// What it went by.
    pub plan: Plan,
    /// From the first connection to the last word.
    pub elapsed: Duration,
    /// Where the time went.
    pub evidence: Evidence,
    /// Which stage set the rate, and why.
    pub verdict: Option<Verdict>,
    /// How often it had to start over.
    pub attempts: u32,
    /// What it taught about its route.
    pub learned: Option<Learned>,
    /// When its content came, seen from outside.
    pub passage: Passage,
    /// Predicted against actual; from who remembers what earlier copies took.
    pub compared: Option<Compared>,
}

/// Who watches a copy.
#[derive(Clone)]
pub struct Watch {
    /// Hears what happens to the copy.
    pub events: Events,
    /// Hears what happens to the link that it dials; other copies may ride on it.
    pub link_events: Events,
    /// Counts.
    pub meter: Arc<Meter>,
    /// Hears where the time goes, once a second.
    pub evidence: Option<EvidenceSink>,
}

/// Takes what is known about a copy under way. Called on the thread that waits for it: hands on and returns.
pub type EvidenceSink = Arc<dyn Fn(&Evidence) + Send + Sync>;

/// Time between two tellings of evidence.
const EVIDENCE_EVERY: Duration = Duration::from_secs(1);

/// Copies. The session with a far mover stays open for other copies: [`Far::close`] ends it.
///
/// # Errors
/// When nothing could be done, or not everything: the failure of the last attempt. Single entries that failed
/// are no error here; they are events and counted in the totals.
pub fn copy(
    from: &From,
    to: &To,
    wishes: &Wishes,
    identity: &Identity,
    watch: &Watch,
    stop: &Stop,
) -> Result<Report> {
    let job = Job {
        from,
        to,
        wishes,
        identity,
        watch,
        stop,
        started: Instant::now(),
        is_dialling: AtomicBool::new(false),
        had_link: AtomicBool::new(false),
        progress: Mutex::new((0, Instant::now())),
        passage: Mutex::new(None),
        evidence_at: Mutex::new(Instant::now()),
    };
    job.attempts()
}

/// Tries to reach a peer that answers, but not well, before there ever was a link.
const FIRST_TRIES: u32 = 3;

struct Job<'a> {
    from: &'a From,
    to: &'a To,
    wishes: &'a Wishes,
    identity: &'a Identity,
    watch: &'a Watch,
    stop: &'a Stop,
    started: Instant,
    is_dialling: AtomicBool,
    had_link: AtomicBool,
    /// The most that was verified and settled in any attempt, and when that was reached.
    progress: Mutex<(u64, Instant)>,
    /// The first and the last time at which more content stood verified, and how much.
    passage: Mutex<Option<[(Duration, u64); 2]>>,
    evidence_at: Mutex<Instant>,
}

impl Job<'_> {
    /// Whether the next attempt may go better.
    fn may_heal(&self, failure: &Failure, attempts: u32) -> bool {
        let had_link = self.had_link.load(Ordering::Relaxed);
        let again =
            had_link || (attempts < FIRST_TRIES && !matches!(&*failure.operation, "connect" | "look up"));
        match failure.kind {
            FailureKind::Connection => again,
            // Of a handshake: what came was altered on the way.
            FailureKind::Damage | FailureKind::Protocol => self.is_dialling.load(Ordering::Relaxed) && again,
            // Our own last attempt, which its server has not given up yet.
            FailureKind::Busy => had_link && attempts > 1,
            _ => false,
        }
    }

    fn without_progress(&self) -> Duration {
        self.progress.lock().unwrap_or_else(|p| p.into_inner()).1.elapsed()
    }

    fn note_progress(&self) {
        let bytes = self.watch.meter.bytes_verified.load(Ordering::Relaxed);
        let mut passage = self.passage.lock().unwrap_or_else(|p| p.into_inner());
        let now = (self.started.elapsed(), bytes);
        match &mut *passage {
            Some([_, last]) if bytes > last.1 => *last = now,
            None if bytes > 0 => *passage = Some([now, now]),
            _ => {}
        }
        drop(passage);
        let done = self.watch.meter.bytes_verified.load(Ordering::Relaxed)
            + self.watch.meter.entries_settled.load(Ordering::Relaxed);
        let mut progress = self.progress.lock().unwrap_or_else(|p| p.into_inner());
        if done > progress.0 {
            *progress = (done, Instant::now());
        }
    }

    /// Tries again after each outage, as long as there is progress within the patience.
    fn attempts(&self) -> Result<Report> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let failure = match self.attempt() {
                Ok(report) => return Ok(Report { attempts, ..report }),
                Err(failure) => failure,
            };
            let is_late = self.without_progress() > self.wishes.link.patience;
            if !self.may_heal(&failure, attempts) || self.stop.is_asked() || is_late {
                return Err(failure);
            }
            (self.watch.events)(Event::LinkLost(failure));
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn attempt(&self) -> Result<Report> {
        match (self.from, self.to) {
            (From::Far(..), To::Far(..)) => {
                let cause = "both places are far: run thalweg at one of them";
                Err(Failure::new(FailureKind::Unsupported, "copy", cause))
            }
            (From::Far(far, places), _) => {
                self.in_session(far, |client, number| self.pull(client, number, places))
            }
            (_, To::Far(far, place)) => {
                let source = self.source()?;
                self.in_session(far, |client, number| self.push(client, number, source, place))
            }
            _ => self.local(),
        }
    }

    fn local(&self) -> Result<Report> {
        let here = own_system();
        let plan = self.planned(Path { sender: here, receiver: here, ..Path::default() });
        let terms = self.terms(&plan);
        let mut steering = self.steering(&plan, None);
        let (source, form) = self.source()?;
        let destination = self.destination(&form, &terms)?;
        let lines = self.lines();
        let transfer = LocalTransfer::start(
            source,
            destination,
            terms,
            plan.streams.value,
            self.watch.events.clone(),
            lines,
        )?;
        let ended = loop {
            let is_stopped = self.stop.is_asked();
            let ended = transfer.wait(Duration::from_millis(100));
            self.measure_sender(&transfer.sender);
            if let Some(steer) = self.look(&mut steering) {
                transfer.sender.steer(&steer);
            }
            self.tell_evidence(&plan, || (transfer.sender.side(), transfer.receiver.side()));
            if let Some(ended) = ended {
                break ended;
            }
            if is_stopped {
                transfer.close();
                return Err(stopped());
            }
        };
        let agreed = agree::totals_of(ended).and_then(|totals| {
            let signer = self.signer(self.identity.fingerprint());
            Ok((totals, agree::as_both(&*transfer.sender, &*transfer.receiver, &signer, totals)?))
        });
        let rows = (transfer.sender.side(), transfer.receiver.side());
        transfer.close();
        let (totals, agreed) = agreed?;
        Ok(self.report(totals, agreed, plan, rows, None))
    }

    fn push(
        &self,
        client: &Client,
        number: TransferNumber,
        (source, form): (Arc<dyn Source>, SourceForm),
        place: &Place,
    ) -> Result<Report> {
        let plan = self.plan(client, Direction::Push);
        let terms = self.terms(&plan);
        dial_early(client, &plan);
        client.open(Open {
            transfer: number,
            direction: Direction::Push,
            places: vec![place.clone()],
            source: form,
            terms: terms.clone(),
            filter: self.wishes.filter.clone(),
            only: Vec::new(),
            trial: self.far_trial(Direction::Push),
            flow: None,
            frames: None,
        })?;
        let limits = sender::Limits::for_terms(&terms);
        let outbox = client.session.outbox();
        let run = SendRun::new(number, source, terms, limits, outbox, self.watch.events.clone());
        if let Some(lines) = self.lines() {
            run.tell_lines(lines);
        }
        client.session.add(number, Transfer::Send(run.clone()))?;
        want_streams(client, &plan, plan.streams.value);
        run.start().map_err(|error| failure::of_io("start", &error))?;
        let mut steering = self.steering(&plan, Some(client.rtt));
        if self.is_trial() {
            run.steer(&steering.only(plan.streams.value));
        }
        let ended = self.wait(client, || {
            self.measure_sender(&run);
            if let Some(steer) = self.look(&mut steering) {
                want_streams(client, &plan, steer.streams.unwrap_or(0));
                run.steer(&steer);
            }
            self.tell_evidence(&plan, || (run.side(), run.peer_accounts()));
            run.wait(Duration::from_millis(100))
        })?;
        let totals = agree::totals_of(ended)?;
        let signer = self.signer(client.session.peer);
        let agreed = agree::as_sender(&*run, &signer, totals, self.wishes.link.patience)?;
        let rows = (run.side(), run.peer_accounts());
        Ok(self.report(totals, agreed, plan, rows, steering.learned()))
    }

    fn pull(&self, client: &Client, number: TransferNumber, places: &[Place]) -> Result<Report> {
        let plan = self.plan(client, Direction::Pull);
        let terms = self.terms(&plan);
        dial_early(client, &plan);
        let opened = client.open(Open {
            transfer: number,
            direction: Direction::Pull,
            places: places.to_vec(),
            source: SourceForm::Many,
            terms: terms.clone(),
            filter: self.wishes.filter.clone(),
            only: self.wishes.only.clone(),
            trial: self.far_trial(Direction::Pull),
            flow: None,
            frames: None,
        })?;
        let made = [Place { export: None, path: b"noise/".to_vec() }];
        let named = if matches!(self.wishes.trial, Some(Trial::Noise { .. })) { &made[..] } else { places };
        let expected = Expected::of(named, &self.wishes.only, self.filter()?, &opened.source)?;
        let destination = self.destination(&opened.source, &terms)?;
        let run = ReceiveRun::start(
            number,
            destination,
            terms,
            receiver::Limits::default(),
            client.session.outbox(),
            self.watch.events.clone(),
        )
        .map_err(|error| failure::of_io("start", &error))?;
        run.expect(expected);
        if let Some(lines) = self.lines() {
            run.tell_lines(lines);
        }
        if let Err(failure) = client.session.add(number, Transfer::Receive(run.clone())) {
            run.close();
            return Err(failure);
        }
        want_streams(client, &plan, plan.streams.value);
        let mut steering = self.steering(&plan, Some(client.rtt));
        if self.is_trial() {
            client.steer(number, steering.only(plan.streams.value));
        }
        let result = self
            .wait(client, || {
                self.measure_receiver(&run);
                if let Some(steer) = self.look(&mut steering) {
                    want_streams(client, &plan, steer.streams.unwrap_or(0));
                    client.steer(number, steer);
                }
                self.tell_evidence(&plan, || (run.peer_accounts(), run.side()));
                run.wait(Duration::from_millis(100))
            })
            .and_then(agree::totals_of)
            .and_then(|totals| {
                let signer = self.signer(client.session.peer);
                Ok((totals, agree::as_receiver(&*run, &signer, totals, self.wishes.link.patience)?))
            });
        run.close();
        let rows = (run.peer_accounts(), run.side());
        let (totals, agreed) = result?;
        Ok(self.report(totals, agreed, plan, rows, steering.learned()))
    }

    fn signer(&self, peer: Fingerprint) -> Signer<'_> {
        Signer { identity: self.identity, peer, header: self.wishes.header }
    }

    /// Does `work` as one transfer of the session with `far`, which other copies may share.
    fn in_session(
        &self,
        far: &Far,
        work: impl FnOnce(&Client, TransferNumber) -> Result<Report>,
    ) -> Result<Report> {
        let (client, number) = self.connect(far)?;
        let result = work(&client, number);
        match &result {
            Ok(_) => {}
            Err(failure) if failure.kind == FailureKind::Connection => {
                // What the peer heard nobody knows: all transfers begin anew, in a session of their own.
                client.session.close(Some(failure.clone()));
            }
            // The others go on.
            Err(failure) => client.give_up(number, failure),
        }
        client.session.remove(number);
        result
    }

    fn wait(&self, client: &Client, mut step: impl FnMut() -> Option<Ended>) -> Result<Ended> {
        loop {
            // Asked before: the step tells the last evidence of one that is stopped.
            let is_stopped = self.stop.is_asked();
            if let Some(ended) = step() {
                return Ok(ended);
            }
            if is_stopped {
                client.session.close(Some(stopped()));
                return Err(stopped());
            }
            if client.session.is_closed() {
                let lost = || Failure::new(FailureKind::Connection, "transfer", "the session ended");
                return Err(client.session.failure().unwrap_or_else(lost));
            }
        }
    }

    fn connect(&self, far: &Far) -> Result<(Arc<Client>, TransferNumber)> {
        let mut link = self.wishes.link.clone();
        link.congestion = link.congestion.or_else(|| self.tuned()?.congestion);
        if self.had_link.load(Ordering::Relaxed) {
            // What is left of it: a new session is no progress.
            link.patience = link.patience.saturating_sub(self.without_progress()).max(Duration::from_secs(1));
        }
        self.is_dialling.store(true, Ordering::Relaxed);
        let place = far.transfer(link, self.watch.link_events.clone())?;
        self.is_dialling.store(false, Ordering::Relaxed);
        self.had_link.store(true, Ordering::Relaxed);
        Ok(place)
    }

    /// It only measures, after others in the same session.
    fn is_trial(&self) -> bool {
        self.wishes.trial_bytes_max.is_some()
    }

    /// What trials found, where nothing else bounds the rate.
    fn tuned(&self) -> Option<Tuned> {
        let wishes = self.wishes;
        let is_bound = wishes.rate.bytes_per_s().is_some() || wishes.yields;
        let tuned = wishes.tuned.clone().filter(|_| !is_bound)?;
        let is_asked = wishes.link.congestion.is_some();
        Some(Tuned { congestion: tuned.congestion.filter(|_| !is_asked), ..tuned })
    }

    fn plan(&self, client: &Client, direction: Direction) -> Plan {
        let (sender, receiver): (System, System) = match direction {
            Direction::Push => (own_system(), client.system),
            Direction::Pull => (client.system, own_system()),
        };
        let learned = self.wishes.learned;
        self.planned(Path { rtt: Some(client.rtt), sender, receiver, learned, ..Path::default() })
    }

    fn planned(&self, path: Path) -> Plan {
        let path = Path { tuned: self.tuned(), ..path };
        let rate_bits_per_s = self.wishes.rate.bytes_per_s().map(|rate| rate.saturating_mul(8));
        // Whether there is an io_uring is found out by making one.
        let no_io_uring = thalweg_sys::queue::io_uring_is_there().err().map(|error| error.to_string());
        let (yields, disk) = (self.wishes.yields, self.wishes.disk);
        let mut asked = Asked { rate_bits_per_s, yields, disk, no_io_uring, ..self.wishes.asked.clone() };
        if self.wishes.compress {
            // What is packed lies beside what it is made of.
            asked.memory_bytes = asked.memory_bytes.map(|bytes| bytes / 2);
        }
        let plan = plan::plan(&asked, &path);
        (self.watch.events)(Event::Planned(Box::new(plan.clone())));
        plan
    }

    fn steering(&self, plan: &Plan, rtt: Option<Duration>) -> Steering {
        // A transfer that yields is as fast as others let it be.
        let tunes = !self.wishes.holds_still && rtt.is_some() && !self.wishes.yields && !self.wishes.dry_run;
        let (asked, rate) = (&self.wishes.asked, &self.wishes.rate);
        Steering::new(plan, asked, rtt.unwrap_or_default(), rate, tunes, self.watch.events.clone())
    }

    /// Whether a knob is to be turned.
    fn look(&self, steering: &mut Steering) -> Option<Steer> {
        let meter = &self.watch.meter;
        let sample = Sample {
            bytes: meter.bytes_verified.load(Ordering::Relaxed),
            entries: meter.entries_settled.load(Ordering::Relaxed),
            entries_found: meter.entries_found.load(Ordering::Relaxed),
        };
        steering.look(&self.wishes.rate, &sample)
    }

    fn terms(&self, plan: &Plan) -> Terms {
        let wishes = self.wishes;
        let tuned = self.tuned().unwrap_or_default();
        Terms {
            chunk_bytes: plan.chunk_bytes.value,
            segment_bytes: plan.segment_bytes.value,
            verify: wishes.verify,
            check: wishes.check,
            preserve: wishes.preserve,
            delete_max: wishes.delete_max,
            compress: wishes.compress,
            rate_bytes_per_s: wishes.rate.bytes_per_s(),
            dry_run: wishes.dry_run,
            ignore_existing: wishes.ignore_existing,
            update: wishes.update,
            job_key: self.job_key(),
            concurrency: wishes.asked.concurrency.or(tuned.concurrency),
            depth: wishes.asked.depth,
            window_bytes: plan.window_bytes.value,
            congestion: wishes.link.congestion.clone().or(tuned.congestion),
            disk: Disk { depth: wishes.disk.depth.or(tuned.io_depth), ..wishes.disk },
            share_bytes: plan.share_bytes.map(|bytes| bytes.min(limits::WINDOW_BYTES_MAX)),
            dscp: wishes.link.dscp,
            yields: wishes.yields,
        }
    }

    /// Same sources and destination, same key: what lets a second attempt find what the first left behind.
    fn job_key(&self) -> [u8; 16] {
        use std::os::unix::ffi::OsStrExt;
        let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 job key");
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        let mut add_place = |place: &Place| {
            add(place.export.as_deref().unwrap_or("").as_bytes());
            add(&place.path);
        };
        match self.from {
            From::Far(_, places) => places.iter().for_each(&mut add_place),
            From::Local(_) | From::Zero(_) | From::Noise(..) | From::Dataset(..) | From::Simulated(_) => {}
        }
        if let To::Far(_, place) = self.to {
            add_place(place);
        }
        match self.from {
            From::Local(paths) => {
                for path in paths {
                    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                    add(absolute.as_os_str().as_bytes());
                }
            }
            From::Zero(bytes) | From::Noise(bytes, _) => add(&bytes.to_le_bytes()),
            // It says all that there is to say of the set.
            From::Dataset(_, description) => add(description),
            From::Simulated(spec) => {
                add(&spec.bytes.to_le_bytes());
                add(&spec.seed.to_le_bytes());
            }
            From::Far(far, _) => add(far.name().as_bytes()),
        }
        if let To::Local(path) = self.to {
            add(std::path::absolute(path).unwrap_or_else(|_| path.clone()).as_os_str().as_bytes());
        }
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        key
    }

    /// What the far place is, if it is a trial.
    fn far_trial(&self, direction: Direction) -> Option<Trial> {
        self.wishes.trial.filter(|trial| trial.direction() == direction)
    }

    fn filter(&self) -> Result<Filter> {
        Filter::new(self.wishes.filter.clone())
    }

    fn lines(&self) -> Option<LineSink> {
        self.wishes.lines.as_ref().map(|begin| begin())
    }

    fn source(&self) -> Result<(Arc<dyn Source>, SourceForm)> {
        match self.from {
            From::Zero(bytes) => {
                Ok((Arc::new(ZeroSource { bytes: *bytes }), SourceForm::Single { name: b"zero".to_vec() }))
            }
            From::Noise(bytes, file_bytes) => {
                let source = NoiseSource { bytes: *bytes, file_bytes: *file_bytes };
                Ok((Arc::new(source), SourceForm::Many))
            }
            From::Dataset(spec, description) => {
                let source = DatasetSource::new(spec.clone(), description.clone())?;
                Ok((Arc::new(source), SourceForm::Many))
            }
            From::Simulated(spec) => {
                let source = SimulatedSource::new(spec.clone())?;
                Ok((Arc::new(source), SourceForm::Single { name: b"sim".to_vec() }))
            }
            From::Local(paths) => {
                let roots = paths
                    .iter()
                    .map(|path| SourceRoot {
                        path: path.clone(),
                        contents: ends_with_slash(path),
                        below: None,
                    })
                    .collect();
                let options = ScanOptions {
                    filter: self.filter()?,
                    only: self.wishes.only.clone(),
                    preserve: self.wishes.preserve,
                    one_file_system: self.wishes.one_file_system,
                    follow_links: false,
                    direct: self.wishes.disk.source.direct,
                };
                let source = LocalSource::open(roots, options)?;
                if let To::Local(to) = self.to {
                    overlap::refuse(&source, to, ends_with_slash(to), self.wishes.delete_max.is_some())?;
                }
                let form = source.form();
                let source: Arc<dyn Source> = Arc::new(source);
                match self.wishes.trial_bytes_max {
                    Some(bytes_max) => Ok((Arc::new(SparingSource::new(source, bytes_max)), form)),
                    None => Ok((source, form)),
                }
            }
            From::Far(..) => Err(Failure::new(FailureKind::Internal, "open", "the source is far")),
        }
    }

    fn destination(&self, form: &SourceForm, terms: &Terms) -> Result<Arc<dyn Destination>> {
        match self.to {
            To::Null => Ok(Arc::new(NullDestination::default())),
            To::Simulated(spec) => Ok(Arc::new(NullDestination::on(SimulatedDisk::new(spec.clone())?))),
            To::Scratch(path, bytes_max) => {
                let place = DestinationPlace { path: path.clone(), below: None };
                Ok(Arc::new(LocalDestination::open_scratch(&place, form, terms.clone(), *bytes_max)?))
            }
            To::Local(path) => {
                let slash = ends_with_slash(path);
                let place = DestinationPlace { path: path.clone(), below: None };
                let protect = self.filter()?;
                let state = self.wishes.state.clone();
                Ok(Arc::new(LocalDestination::open(place, form, slash, terms.clone(), state, protect)?))
            }
            To::Far(..) => Err(Failure::new(FailureKind::Internal, "open", "the destination is far")),
        }
    }

    fn measure_sender(&self, run: &SendRun) {
        let progress = run.progress();
        self.watch.meter.entries_found.store(progress.entries_offered, Ordering::Relaxed);
        self.watch.meter.bytes_found.store(progress.bytes_offered, Ordering::Relaxed);
        self.watch.meter.scan_over.store(run.scan_totals().is_some(), Ordering::Relaxed);
        self.watch.meter.entries_settled.store(progress.entries_settled, Ordering::Relaxed);
        self.watch.meter.bytes_verified.store(progress.bytes_verified, Ordering::Relaxed);
        self.note_progress();
    }

    fn measure_receiver(&self, run: &ReceiveRun) {
        let progress = run.progress();
        if let Some(totals) = run.scan_totals() {
            self.watch.meter.entries_found.store(totals.entries, Ordering::Relaxed);
            self.watch.meter.bytes_found.store(totals.bytes, Ordering::Relaxed);
            self.watch.meter.scan_over.store(true, Ordering::Relaxed);
        }
        self.watch.meter.entries_settled.store(progress.settled_entries, Ordering::Relaxed);
        self.watch.meter.bytes_verified.store(progress.verified_bytes, Ordering::Relaxed);
        self.note_progress();
    }

    fn report(
        &self,
        totals: Totals,
        agreed: Agreed,
        plan: Plan,
        sides: (SideAccounts, SideAccounts),
        learned: Option<Learned>,
    ) -> Report {
        let elapsed = self.started.elapsed();
        let settled = totals.done + totals.unchanged + totals.skipped + totals.failed;
        let evidence = Evidence { entries: settled, ..self.evidence(&plan, sides) };
        let verdict = basin::judge(&evidence);
        if let Some(advice) = window_advice(&plan, totals.bytes_done, elapsed) {
            (self.watch.events)(Event::Note(advice));
        }
        (self.watch.events)(Event::Finished(totals));
        let passage = self.passage.lock().unwrap_or_else(|p| p.into_inner()).map_or(
            // Without content, all of it is before and after.
            Passage { first_s: elapsed.as_secs_f64(), last_s: elapsed.as_secs_f64(), ..Passage::default() },
            |[first, last]| Passage {
                first_s: first.0.as_secs_f64(),
                first_bytes: first.1,
                last_s: last.0.as_secs_f64(),
                seconds: 0.0,
            },
        );
        let passage = Passage { seconds: elapsed.as_secs_f64(), ..passage };
        Report {
            totals,
            agreed,
            plan,
            elapsed,
            evidence,
            verdict,
            attempts: 1,
            learned,
            passage,
            compared: None,
        }
    }

    /// Tells where the time goes, if it is time to; of a copy that is stopped the last time.
    fn tell_evidence(&self, plan: &Plan, sides: impl FnOnce() -> (SideAccounts, SideAccounts)) {
        let Some(sink) = &self.watch.evidence else { return };
        let mut at = self.evidence_at.lock().unwrap_or_else(|p| p.into_inner());
        if at.elapsed() >= EVIDENCE_EVERY || self.stop.is_asked() {
            *at = Instant::now();
            sink(&self.evidence(plan, sides()));
        }
    }

    fn evidence(&self, plan: &Plan, (sender, receiver): (SideAccounts, SideAccounts)) -> Evidence {
        let is_local = !matches!(self.from, From::Far(..)) && !matches!(self.to, To::Far(..));
        let settings = Settings {
            is_linked: !is_local,
            is_flow: false,
            streams: plan.streams.value,
            concurrency: plan.concurrency.value,
            depth: plan.depth.value,
            rate_bytes_per_s: self.wishes.rate.bytes_per_s(),
            window_bytes: self.wishes.asked.window_bytes,
        };
        let entries = self.watch.meter.entries_settled.load(Ordering::Relaxed);
        ledger::evidence(&settings, entries, sender, receiver)
    }
}

/// Has the streams dialled while the far side opens the place, if all of them may have frames of this size: a link that
/// stands with more would not take the transfer.
fn dial_early(client: &Client, plan: &Plan) {
    let frames = u64::from(plan.streams.value) * (u64::from(plan.segment_bytes.value) + (64 << 10));
    if frames <= limits::STREAM_BYTES_MAX {
        want_streams(client, plan, plan.streams.value);
    }
}

fn want_streams(client: &Client, plan: &Plan, streams: u16) {
    let hints = StreamHints { window_bytes: plan.window_bytes.value, share_bytes: plan.share_bytes };
    client.want_streams(streams, hints);
}

/// The system's limits, where they were what held the transfer: its streams carried at least half of what their windows
/// let them.
fn window_advice(plan: &Plan, bytes: u64, elapsed: Duration) -> Option<String> {
    let window = plan.window.as_ref()?;
    let reached = bytes as f64 * 8.0 / elapsed.as_secs_f64().max(1e-9);
    let streams = plan.streams.value;
    let allowed = window.rate_bits_per_s() as f64 * f64::from(streams);
    (reached >= 0.5 * allowed).then(|| window.advice(plan::RATE_BITS_PER_S, streams)).flatten()
}

fn ends_with_slash(path: &std::path::Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().ends_with(b"/")
}

fn stopped() -> Failure {
    Failure::new(FailureKind::Stopped, "copy", "stopped on request; the same command resumes it")
}
