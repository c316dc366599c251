//! A copy from beginning to end: plan, link, both sides, attempts, agreement.

use crate::basin::times::Passage;
use crate::basin::{Evidence, Outages, Verdict};
use crate::endpoint::dataset::DatasetSpec;
use crate::endpoint::left_alone::LeftAlone;
use crate::endpoint::simulated::ArraySpec;
use crate::event::{Behind, Event, Events};
use crate::failure::{Failure, FailureKind, Reason, Result};
use crate::link::Identity;
use crate::model::prediction::Compared;
use crate::plan::{Asked, Learned, Plan, Tuned};
use crate::retry::attempts::{Attempts, Policy};
use crate::run::agree::Agreed;
use crate::run::client::{Client, LinkSettings};
use crate::run::far_mover::{AskedOfWay, FarMover};
use crate::run::session::Session;
use crate::run::steer::Rate;
use crate::run::{Ended, ReceiptSink, chance};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_wire::RelativePath;
use thalweg_wire::account::RenamedAccount;
use thalweg_wire::message::{
    Check, FilterRule, PartOf, Place, Preserve, PullTrial, PushTrial, Totals, TransferNumber, VerifyLevel,
};

mod attempt;

mod given;

mod places;

mod terms;

mod told;

mod removal;

mod far_removal;

mod meter;

pub use crate::run::sender::Sources;
pub use crate::transfer::stays::{Left, Stays};
pub use given::{GiveUp, GivenDestination, GivenSource, OpenDestination, OpenSource, SuitsChunks};
pub use meter::{Counted, Meter};
pub use removal::refuse_sources;

/// Where a copy reads.
#[derive(Clone)]
pub enum From {
    /// Paths of this machine; a trailing slash means the contents.
    Local(Vec<PathBuf>),
    /// So many zeros.
    Zero(u64),
    /// Files of noise: bytes of all of them, and of each.
    Noise(u64, u64),
    /// A data set made of numbers.
    Dataset(DatasetSpec),
    /// A file on a simulated array.
    Simulated(ArraySpec),
    /// A source that whoever asks made.
    Given(GivenSource),
    /// Places at a far mover.
    Far(Arc<FarMover>, Vec<Place>),
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
    /// A destination that whoever asks made.
    Given(GivenDestination),
    /// A place at a far mover.
    Far(Arc<FarMover>, Place),
}

/// Everything that a user can say about a copy.
#[derive(Clone, Default)]
pub struct Wishes {
    /// What of the source is copied.
    pub selection: Selection,
    /// How like the source the destination becomes, and how far that is checked.
    pub fidelity: Fidelity,
    /// How content moves.
    pub movement: Movement,
    /// What is known of earlier copies.
    pub remembered: Remembered,
    /// Where its receipt goes.
    pub receipt: Option<ReceiptSink>,
    /// It only measures.
    pub trial: Option<TrialRun>,
    /// Decide and report only.
    pub dry_run: bool,
    /// Remove each file and link of the source once the destination has it, verified and durable, if this
    /// copy moved it or compared its content ([`Check::Digest`]). A far mover that sends removes them there, if it
    /// lets this user do so. With a receipt all of them when both sides have agreed.
    pub removes_sources: bool,
    /// Options of data streams that are told where they do nothing.
    pub asked_of_way: AskedOfWay,
    /// Options that somebody typed and that do nothing for any place of the command: they are told with those of this
    /// copy.
    pub unused: Vec<String>,
}

impl Wishes {
    /// What the far place is, if the copy only measures.
    pub fn far_trial(&self) -> Option<FarTrial> {
        self.trial.and_then(|trial| trial.far)
    }
}

/// What of the source is copied. It is the work of a copy and not its way: what is remembered of a way holds for any.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Which names to leave out.
    pub filter: Vec<FilterRule>,
    /// Only these names.
    pub only: Vec<RelativePath>,
    /// Do not cross into other file systems.
    pub one_file_system: bool,
    /// Copy what symbolic links lead to instead of the links. From an export none that leads out of it.
    pub follow_links: bool,
    /// Leave alone what is newer.
    pub update: bool,
    /// Leave alone what exists.
    pub ignore_existing: bool,
    /// Only this part, as [`part`](crate::part) deals it, and all directories: other copies have the others.
    pub part: Option<PartOf>,
}

impl Selection {
    /// What of the destination is left alone.
    pub fn left_alone(&self) -> LeftAlone {
        LeftAlone { existing: self.ignore_existing, newer: self.update }
    }
}

/// How like the source the destination becomes, and how far that is checked.
#[derive(Debug, Clone, Default)]
pub struct Fidelity {
    /// What to keep besides content.
    pub preserve: Preserve,
    /// Delete what the source lacks, at most so many entries.
    pub delete_max: Option<u64>,
    /// How to recognise what is there.
    pub check: Check,
    /// Before a file is sent that the destination lacks by name, look for its content there under other names.
    pub finds_renames: bool,
    /// How far to check.
    pub verify: VerifyLevel,
}

/// How content moves.
#[derive(Clone, Default)]
pub struct Movement {
    /// Knobs. The copy itself fills in the rate, and why this machine has no io_uring.
    pub asked: Asked,
    /// Send no more than so many content bytes a second; may change while the copy runs.
    pub rate: Arc<Rate>,
    /// Turn no knob while the copy runs; else those that were not asked for may be turned.
    pub holds_still: bool,
    /// The link.
    pub link: LinkSettings,
    /// Addresses of the far side were named over which data streams are spread: how the far mover is reached has them.
    pub has_via: bool,
    /// So were addresses or cards of this machine.
    pub has_bind: bool,
}

/// What is known of earlier copies, and whether this one is to be known to later ones.
#[derive(Debug, Clone, Default)]
pub struct Remembered {
    /// Where what destinations hold is remembered.
    pub state: Option<PathBuf>,
    /// Neither predict the time from what earlier copies took, nor remember what this one took; for who does either.
    pub no_profile: bool,
    /// What did best on the route of this copy.
    pub learned: Option<Learned>,
    /// What trials found best for the way of this copy.
    pub tuned: Option<Tuned>,
}

/// What a copy moves that only measures.
#[derive(Debug, Clone, Copy)]
pub struct TrialRun {
    /// What the far place is, if there is one.
    pub far: Option<FarTrial>,
    /// Of a source here at most so many bytes are read, as
    /// [`SparingSource`](crate::endpoint::sparing::SparingSource) does.
    pub bytes_max: u64,
}

/// What the far place is in a copy that only measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FarTrial {
    /// It is the source.
    Source(PullTrial),
    /// It is the destination.
    Destination(PushTrial),
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

    /// Waits for so long; false once it is asked for.
    pub fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.is_asked() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(STOP_NOTICE));
        }
        false
    }
}

/// Between two looks, in a pause, whether somebody asked to stop.
const STOP_NOTICE: Duration = Duration::from_millis(100);

/// What a copy did.
#[derive(Debug, Clone)]
pub struct Report {
    /// The receiver's totals.
    pub totals: Totals,
    /// Both sides' statements; of a dry run and of a trial nobody states anything.
    pub agreed: Option<Agreed>,
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
    /// Whether data rode in ssh when it ended, which limits what each stream carries.
    pub in_ssh: bool,
    /// What it taught about its route.
    pub learned: Option<Learned>,
    /// When its content came, seen from outside.
    pub passage: Passage,
    /// What its beginning had shown, look by look; empty if it was over before.
    pub beginnings: Vec<Beginning>,
    /// Predicted against actual; from who remembers what earlier copies took.
    pub compared: Option<Compared>,
    /// What became of source files that were to be removed.
    pub sources: Sources,
    /// What the destination had under other names; nothing where it was not asked to look.
    pub renamed: RenamedAccount,
}

/// What a copy had shown when its content had come for at most about [`BEGINNING`]: what tells how long all of it takes
/// where no earlier copy does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Beginning {
    /// Where the time had gone.
    pub evidence: Evidence,
    /// When its content had come.
    pub passage: Passage,
}

/// So long content has come when its beginning is over: more of it would say little more.
pub const BEGINNING: Duration = Duration::from_secs(3);

/// Who watches a copy.
#[derive(Clone)]
pub struct Watch {
    /// Hears what happens to the copy.
    pub events: Events,
    /// Whether who hears that is behind: then a copy begins no more entries. `None`: it never is.
    pub is_behind: Option<Behind>,
    /// Hears what happens to the link that it dials; other copies may ride on it.
    pub link_events: Events,
    /// Counts.
    pub meter: Arc<Meter>,
    /// Hears where the time goes, once a second.
    pub evidence: Option<EvidenceSink>,
}

impl Watch {
    /// Tells that an attempt was lost, and waits until another one is due. `operation`: what it is an attempt of.
    ///
    /// # Errors
    /// `failure` where no other is to be made; `Stopped` if that was asked for meanwhile.
    pub fn lost(
        &self,
        operation: &str,
        attempts: &mut Attempts,
        failure: Failure,
        stop: &Stop,
    ) -> Result<()> {
        let again = attempts.failed(&failure, Instant::now(), chance());
        let Some(pause) = again.filter(|_| !stop.is_asked()) else { return Err(failure) };
        (self.events)(Event::LinkLost(failure));
        if stop.pause(pause) { Ok(()) } else { Err(stopped_in(operation)) }
    }
}

/// Takes what is known about a copy under way. Called on the thread that waits for it: hands on and returns.
pub type EvidenceSink = Arc<dyn Fn(&Evidence) + Send + Sync>;

/// Copies. The session with a far mover stays open for other copies: [`FarMover::close`] ends it.
///
/// # Errors
/// When nothing could be done, or not everything: the failure of the last attempt. Single entries that failed
/// are no error here; they are events and counted in the totals. `Usage` for deletion with a list of names or in a
/// part, and for a receipt of a dry run or of a trial; `Unsupported` for a list of names of a given source; `Usage`
/// where source files are to be removed and may not be, and `Permission` where the far side says so.
pub fn copy(
    from: &From,
    to: &To,
    wishes: &Wishes,
    identity: &Identity,
    watch: &Watch,
    stop: &Stop,
) -> Result<Report> {
    if wishes.fidelity.delete_max.is_some() && !wishes.selection.only.is_empty() {
        let cause = "with a list of names nothing can be deleted: what is not on it was not looked for (--delete, \
                     --files-from)";
        return Err(Failure::new(FailureKind::Usage, "copy", cause));
    }
    if let (Some(_), Some(part)) = (wishes.fidelity.delete_max, wishes.selection.part) {
        return Err(deletes_in_part(part));
    }
    if wishes.receipt.is_some() && (wishes.dry_run || wishes.trial.is_some()) {
        let cause = "what changes nothing, or keeps nothing, has no receipt: nobody signs it";
        return Err(Failure::new(FailureKind::Usage, "copy", cause));
    }
    removal::check(from, to, wishes)?;
    let mut job = Job::new(from, to, wishes, identity, watch, stop);
    watch.meter.came(0);
    let result = given::until_given_up(from, to, stop, || job.run());
    if let To::Given(to) = to
        && let Some(text) = (to.note)()
    {
        (watch.events)(Event::Note(text));
    }
    result
}

/// What is said to who has a part delete what it lacks.
pub fn deletes_in_part(part: PartOf) -> Failure {
    let cause = format!(
        "in part {part} nothing can be deleted: what it lacks the other parts have (--delete). Once all are there, let one \
         host run `thalweg sync --delete` without --part"
    );
    Failure::new(FailureKind::Usage, "copy", cause)
}

/// What is said to who has a part remove the source files.
pub fn removes_in_part(part: PartOf) -> Failure {
    let cause = format!(
        "in part {part} no source file can be removed: it would change times and numbers of names that the other parts \
         go by (--remove-source-files). Once all are there, let one host run `thalweg cp --remove-source-files --check \
         digest` without --part"
    );
    Failure::new(FailureKind::Usage, "copy", cause)
}

/// What heals of copies and of questions: also before there ever was a link, where a peer that answers may do so better
/// the next time.
pub const HEALS: Policy = Policy {
    first_max: 3,
    away: &[Reason::NotAnswered, Reason::NotResolved, Reason::FarNotReached, Reason::StoreNotAnswered],
    handshake: true,
    busy: false,
    pause: Duration::from_millis(500),
    pause_max: Duration::from_secs(4),
};

struct Job<'a> {
    from: &'a From,
    to: &'a To,
    wishes: &'a Wishes,
    identity: &'a Identity,
    watch: &'a Watch,
    stop: &'a Stop,
    started: Instant,
    attempts: Attempts,
    /// What was asked for and does nothing on this way was told.
    is_unused_told: bool,
    /// That the destination lacks room was told.
    is_room_told: bool,
    /// The far side does not permit the congestion control that trials found.
    is_tuned_congestion_refused: bool,
    /// The first and the last time at which more content stood verified, and how much.
    passage: Option<[(Duration, u64); 2]>,
    /// What its beginning had shown, once that was over.
    beginnings: Vec<Beginning>,
    /// When evidence was told last.
    evidence_at: Instant,
    /// The session of the attempt that is under way, and the outages that it had had before.
    session: Option<(Arc<Session>, Outages)>,
    /// Round-trip time of its path; `None`: within this machine, or not known yet.
    rtt: Option<Duration>,
    /// When the attempt that is under way was looked at last.
    looked_at: Option<Instant>,
    /// What was seen of times in which this process stood still.
    stillness: Outages,
    /// Source files removed so far.
    removed: Arc<AtomicU64>,
}

impl Report {
    /// Whether the time that it took says nothing of how long others take: it was tried again, or for a while nothing
    /// could move.
    pub fn is_cut_off(&self) -> bool {
        self.attempts > 1 || self.evidence.outages.is_any()
    }

    /// The last look at its beginning that was in the first half of the time in which its content came: of what it had
    /// shown, what says most of the rest.
    pub fn early(&self) -> Option<&Beginning> {
        let is_early =
            |beginning: &&Beginning| beginning.passage.content_s() * 2.0 <= self.passage.content_s();
        self.beginnings.iter().rev().find(is_early)
    }
}

impl<'a> Job<'a> {
    fn new(
        from: &'a From,
        to: &'a To,
        wishes: &'a Wishes,
        identity: &'a Identity,
        watch: &'a Watch,
        stop: &'a Stop,
    ) -> Job<'a> {
        Job {
            from,
            to,
            wishes,
            identity,
            watch,
            stop,
            started: Instant::now(),
            attempts: Attempts::new(HEALS, wishes.movement.link.patience, Instant::now()),
            is_unused_told: false,
            is_room_told: false,
            is_tuned_congestion_refused: false,
            passage: None,
            beginnings: Vec::new(),
            evidence_at: Instant::now(),
            session: None,
            rtt: None,
            looked_at: None,
            stillness: Outages::default(),
            removed: Arc::default(),
        }
    }
}

impl Job<'_> {
    /// Tries again after each outage, as long as there is progress within the patience.
    fn run(&mut self) -> Result<Report> {
        loop {
            self.attempts.begin();
            let failure = match self.attempt() {
                Ok(report) => return Ok(Report { attempts: self.attempts.count(), ..report }),
                Err(failure) => failure,
            };
            if self.drops_tuned_congestion(&failure) {
                self.attempts.undo(Instant::now());
                continue;
            }
            self.watch.lost("copy", &mut self.attempts, failure, self.stop)?;
        }
    }

    fn attempt(&mut self) -> Result<Report> {
        self.looked_at = None;
        match (self.from, self.to) {
            (From::Far(..), To::Far(..)) => {
                let cause = "both places are far: run thalweg at one of them";
                Err(Failure::new(FailureKind::Unsupported, "copy", cause))
            }
            (From::Far(far, places), _) => {
                self.in_session(far, |job, client, number| job.pull(client, number, places))
            }
            (_, To::Far(far, place)) => {
                let source = self.source()?;
                self.in_session(far, |job, client, number| job.push(client, number, source, place))
            }
            _ => self.local(),
        }
    }

    /// Does `work` as one transfer of the session with `far`, which other copies may share.
    fn in_session(
        &mut self,
        far: &FarMover,
        work: impl FnOnce(&mut Self, &Client, TransferNumber) -> Result<Report>,
    ) -> Result<Report> {
        let (client, number) = self.connect(far)?;
        self.session = Some((client.session.clone(), client.session.outages()));
        self.rtt = Some(client.rtt);
        let result = work(self, &client, number);
        client.conclude(number, result.as_ref().err());
        result
    }

    fn wait(&mut self, client: &Client, mut step: impl FnMut(&mut Self) -> Option<Ended>) -> Result<Ended> {
        loop {
            // Asked before: the step tells the last evidence of one that is stopped.
            let is_stopped = self.stop.is_asked();
            if let Some(ended) = step(self) {
                return Ok(ended);
            }
            if is_stopped {
                client.session.close(Some(stopped()));
                return Err(stopped());
            }
            if client.session.is_closed() {
                return Err(client.session.why_closed("transfer"));
            }
        }
    }

    fn connect(&mut self, far: &FarMover) -> Result<(Arc<Client>, TransferNumber)> {
        let spent = self.attempts.dial(Instant::now());
        let foreseen = Some(Box::new(self.foreseen()));
        let link = LinkSettings { spent, foreseen, ..self.wishes.movement.link.clone() };
        let place = far.transfer(link, self.watch.link_events.clone())?;
        self.attempts.linked();
        Ok(place)
    }
}

fn stopped() -> Failure {
    stopped_in("copy")
}

/// Why what is resumed by the same command ended: a stop was asked for. `operation`: what it was.
pub fn stopped_in(operation: &str) -> Failure {
    Failure::new(FailureKind::Stopped, operation, "stopped on request; the same command resumes it")
}
