//! A copy between two daemons: one of them *acts*, as the client of the other, and data go from the one to the other.
//!
//! 1. Both are dialled, each with the user's ticket for it. That of the destination is asked first whether it may be
//!    sent to the other one, then that of the source: the operator of each says so, by itself to none.
//! 2. A key is made for this copy. The other daemon hears whose it is, and what its holder may do: this copy alone,
//!    with no more rights than our ticket there, until our session ends. No key that lasts leaves this machine.
//! 3. The one that acts gets that key and what is to be copied, and tells how it goes. It stops in order when it loses
//!    us. Where it does not reach the other one, that one is asked to act, if it may.
//! 4. What both state at the end is looked at here: each has signed that it is done.
//!
//! If a link of ours is lost, or the time is over for which the guest is let in, all of it begins anew, with another
//! key: the copy resumes by what is durable.
//!
//! How long it took is held against what earlier copies of the way took, which are remembered here: the daemons know of
//! none.

use crate::far_movers::{FarMovers, How, Whom, lacks_ticket, lacks_ticket_by, place_there};
use crate::place::Place;
use crate::profiles::{self, ByHand, Ends, Foreknown, Profiles};
use crate::{job, not_here};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::event::Event;
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::link::Identity;
use thalweg_mover::model::prediction::Compared;
use thalweg_mover::retry::attempts::Attempts;
use thalweg_mover::run::client::{Client, LinkSettings};
use thalweg_mover::run::copy::{Fidelity, HEALS, Report, Stop, Watch, Wishes, stopped_in};
use thalweg_mover::run::{LineSink, ReceiptPart};
use thalweg_service::errands::report::{Between, ReportTold, inert, plan_of};
use thalweg_wire::digest::Pieces;
use thalweg_wire::message::{
    self, Errand, ErrandCounts, ErrandKnobs, ErrandTold, GuestKey, PartOf, Pull, Question, Reply, Terms,
    Vouch,
};
use thalweg_wire::receipt::{self, Block, Side};
use thalweg_wire::{Digest, limits};

/// A block of a receipt has no more bytes: of the longest names that a kernel takes at once it has an eighth of that.
const BLOCK_BYTES_MAX: usize = 64 << 20;
const RUN: &str = "copy between daemons";
/// What ends a guest so long before its time is over may be that end: the clocks of two machines do not run apart by
/// more than this part of it.
const CLOCKS_APART: u32 = 1000;

/// See the module.
#[derive(Debug, Clone)]
pub struct BetweenDaemons {
    command: String,
    sources: Vec<Place>,
    destination: Place,
    from: End,
    to: End,
    part: Option<PartOf>,
    guest_seconds: u32,
}

/// One of the daemons.
#[derive(Debug, Clone)]
struct End {
    whom: Whom,
    address: String,
}

/// Who does what in an attempt.
struct Cast<'a> {
    acting: &'a Client,
    other: &'a Client,
    /// Where the one that acts is, and the other.
    acting_at: &'a str,
    other_at: &'a str,
    /// The one that acts has the sources.
    sends: bool,
}

/// Who was asked to act, and did not reach the other one.
struct Unreached {
    /// It has the sources.
    sends: bool,
    why: Failure,
}

/// What is known of the attempts of a command.
struct Course {
    attempts: Attempts,
    unreached: Option<Unreached>,
    /// Copies that began to run, or may have.
    begun: u32,
    /// The rate that the last of them was asked for with, in bytes a second.
    bytes_per_s_max: Option<u64>,
}

/// Why an attempt came to nothing.
enum Ended {
    /// A way of ours was lost, or never there, or an earlier attempt of ours is still about: another may do better.
    Lost(Failure),
    /// It is over.
    Final(Failure),
}

impl Ended {
    fn of(failure: Failure) -> Ended {
        match failure.kind {
            FailureKind::Connection | FailureKind::Busy => Ended::Lost(failure),
            _ => Ended::Final(failure),
        }
    }

    /// The same where the guest is not let in any more: our session at the other daemon is lost, or its time is over.
    fn without_voucher(self) -> Ended {
        match self {
            Ended::Final(failure)
                if matches!(failure.kind, FailureKind::Permission | FailureKind::Connection) =>
            {
                Ended::Lost(Failure { kind: FailureKind::Connection, ..failure })
            }
            ended => ended,
        }
    }
}

type Attempted<T> = std::result::Result<T, Ended>;

/// For how long a guest is let in, by our clock.
#[derive(Debug, Clone, Copy)]
struct Stay {
    /// Before the other daemon was asked for it.
    asked_at: Instant,
    lasts: Duration,
}

impl Stay {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.asked_at) >= self.lasts - self.lasts / CLOCKS_APART
    }
}

impl BetweenDaemons {
    /// The copy that this is, if both places are at daemons. `command` is what was asked for: `cp`.
    pub(crate) fn of(
        command: &str,
        sources: &[Place],
        destination: &Place,
        part: Option<PartOf>,
    ) -> Option<BetweenDaemons> {
        let end = |place: &Place| match Whom::of(place)? {
            Whom::Daemon(address, ticket) => {
                Some(End { whom: Whom::Daemon(address.clone(), ticket), address })
            }
            Whom::Ssh(..) => None,
        };
        let (from, to) = (end(sources.first()?)?, end(destination)?);
        let (command, sources, destination) = (command.to_owned(), sources.to_vec(), destination.clone());
        let guest_seconds = limits::GUEST_SECONDS_MAX;
        Some(BetweenDaemons { command, sources, destination, from, to, part, guest_seconds })
    }

    /// The same, in which a guest is let in for so many seconds, 1 to [`limits::GUEST_SECONDS_MAX`]: a copy that takes
    /// longer goes on with another guest. Default: the most.
    #[must_use]
    pub fn with_guests_for(self, guest_seconds: u32) -> BetweenDaemons {
        BetweenDaemons { guest_seconds, ..self }
    }

    /// The part that it is of, if it is of one alone.
    pub fn part(&self) -> Option<PartOf> {
        self.part
    }

    /// Runs it to its end, says how long it was predicted to take, and remembers in the state directory how long it
    /// took. [`How::ticket`] is the ticket for the daemon at the source, `to_ticket` for that at the destination, where
    /// a place has none of its own; `tells_all`: each entry is an event, and not only those that did not come to a
    /// plain end.
    ///
    /// # Errors
    /// As a copy from or to a daemon; `Unsupported` if neither daemon may be sent to the other, or both are one;
    /// `Damage` if they do not state the same.
    pub fn run(
        &self,
        wishes: &Wishes,
        (how, to_ticket): (&How, Option<PathBuf>),
        tells_all: bool,
        state: &Path,
        watch: &Watch,
        stop: &Stop,
    ) -> Result<Report> {
        let hows = [how.clone(), How { ticket: to_ticket, ..how.clone() }];
        let attempts = Attempts::new(HEALS, wishes.movement.link.patience, Instant::now());
        let mut course = Course { attempts, unreached: None, begun: 0, bytes_per_s_max: None };
        // As it is known before this copy is.
        let profiles = (!wishes.remembered.no_profile && !wishes.dry_run).then(|| Profiles::read(state));
        watch.meter.came(0);
        loop {
            course.attempts.begin();
            let ended = self.attempt(&mut course, &hows, (wishes, tells_all), watch, stop);
            let failure = match ended {
                Ok(mut report) => {
                    if let Some(profiles) = &profiles {
                        report.compared = self.compared(profiles, &report, wishes, &course, state);
                    }
                    let attempts = course.attempts.count().max(report.attempts);
                    (watch.events)(Event::Finished(report.totals));
                    return Ok(Report { attempts, ..report });
                }
                Err(Ended::Final(failure)) => return Err(failure),
                Err(Ended::Lost(failure)) => failure,
            };
            watch.lost(RUN, &mut course.attempts, failure, stop)?;
        }
    }

    /// Predicted against actual, by what was known of the way; it is known by one more copy then.
    fn compared(
        &self,
        profiles: &Profiles,
        report: &Report,
        wishes: &Wishes,
        course: &Course,
        state: &Path,
    ) -> Option<Compared> {
        let export = |place: &Place| place_there(place).and_then(|place| place.export);
        let (from, to) = (export(self.sources.first()?)?, export(&self.destination)?);
        let ends = Ends::between_daemons((&self.from.address, &from), (&self.to.address, &to));
        let verify = wishes.fidelity.verify;
        let known = profiles.of_ends(&ends, &ByHand::of(wishes));
        let foreknown = Foreknown::of(known, verify, course.bytes_per_s_max);
        // What a daemon tells is of the last that began.
        let attempts = course.begun.max(report.attempts);
        // Another rate that is wanted here counts for what begins anew alone.
        let compared = profiles::compared(foreknown, report, verify, attempts, false);
        Profiles::observe(state, &ends, wishes, report, attempts, false);
        Some(compared)
    }

    /// The daemons at the source and at the destination.
    pub fn ends(&self) -> (&Whom, &Whom) {
        (&self.from.whom, &self.to.whom)
    }

    /// Refuses it where there is no ticket for one of them: neither given, `from` and `to`, nor a place's own.
    ///
    /// # Errors
    /// `Usage`.
    pub fn check_tickets(&self, from: Option<&Path>, to: Option<&Path>) -> Result<()> {
        let lacks =
            |end: &End, given: Option<&Path>| given.is_none() && matches!(end.whom, Whom::Daemon(_, None));
        if lacks(&self.from, from) {
            return Err(lacks_ticket(&self.from.address));
        }
        match lacks(&self.to, to) {
            true => Err(lacks_ticket_by(&self.to.address, "--to-ticket")),
            false => Ok(()),
        }
    }

    /// Refuses what is not done between two daemons.
    ///
    /// # Errors
    /// `Usage`.
    pub fn check(&self, wishes: &Wishes) -> Result<()> {
        let usage = |cause: String| Err(Failure::new(FailureKind::Usage, RUN, cause));
        let places = limits::PLACES_MAX;
        let all = self.sources.iter().chain([&self.destination]).filter_map(place_there);
        let bytes: usize = all.map(|place| place.path.len()).sum();
        if self.sources.len() > places || bytes > limits::GUEST_PLACES_BYTES_MAX {
            let cause = format!(
                "at most {places} sources, and not as long names: name the directory that they are in"
            );
            return usage(cause);
        }
        job::refuse_long_list(&wishes.selection.only)?;
        if wishes.removes_sources {
            let cause = "a copy between two daemons leaves its source files (--remove-source-files): log in at one of them";
            return usage(cause.to_owned());
        }
        Ok(())
    }

    /// No daemon copies to itself.
    fn at_one(&self) -> Failure {
        not_here::both_far(&self.command, &self.sources, &self.destination)
    }

    fn attempt(
        &self,
        course: &mut Course,
        [from, to]: &[How; 2],
        (wishes, tells_all): (&Wishes, bool),
        watch: &Watch,
        stop: &Stop,
    ) -> Attempted<Report> {
        let spent = course.attempts.dial(Instant::now());
        let questions = LinkSettings { spent, ..wishes.movement.link.clone() };
        let reach = |how: &How| FarMovers::new(How { questions: questions.clone(), ..how.clone() });
        let (mut from, mut to) = (reach(from), reach(to));
        let source = from.dial(&self.from.whom).map_err(Ended::of)?;
        let destination = to.dial(&self.to.whom).map_err(Ended::of)?;
        course.attempts.linked();
        // One daemon under two addresses.
        if source.session.peer == destination.session.peer {
            return Err(Ended::Final(self.at_one()));
        }
        let cast = self.cast((&source, &destination), course.unreached.as_ref(), stop)?;
        let guest = Identity::generate("thalweg guest").map_err(Ended::Final)?;
        let errand = self.errand(&cast, &guest, wishes, tells_all)?;
        let deed = errand.deed().map_err(|error| Ended::Final(odd(&error.to_string())))?;
        let vouch = Vouch {
            certificate: guest.fingerprint().0,
            places: if cast.sends { vec![self.written()?] } else { self.read(wishes)? },
            write: cast.sends,
            deed,
            seconds: self.guest_seconds,
            at: cast.acting_at.to_owned(),
        };
        let lasts = Duration::from_secs(u64::from(vouch.seconds));
        let stay = Stay { asked_at: Instant::now(), lasts };
        let since = vouch_for(cast.other, vouch, stop).map_err(Ended::of)?;
        (watch.events)(Event::Detail(format!(
            "the daemon at {} acts, where `thalweg why` is asked about it",
            cast.acting_at
        )));
        let header = wishes.receipt.as_ref().map(|receipt| receipt.header);
        let (sender, receiver) = (source.session.peer, destination.session.peer);
        let Fidelity { verify, check, .. } = wishes.fidelity;
        let other = if cast.sends { Side::Receiver } else { Side::Sender };
        let between = Between { sender, receiver, header, other, since, verify, check };
        course.begun += 1;
        course.bytes_per_s_max = errand.terms.rate_bytes_per_s;
        let (attempts, receipt) = (&mut course.attempts, ReceiptHeard::default());
        let mut hearing = Hearing { wishes, watch, attempts, between, receipt };
        let ended = hearing.hear(cast.acting, Question::Errand(Box::new(errand)), stop);
        if let Err(Ended::Final(why)) = &ended
            && matches!(why.reason, Reason::NotAnswered | Reason::NotResolved)
            && course.unreached.is_none()
        {
            // Nothing of it was moved.
            course.begun -= 1;
            course.unreached = Some(Unreached { sends: cast.sends, why: why.clone() });
            return Err(Ended::Lost(why.clone()));
        }
        let session = &cast.other.session;
        let is_lost = session.is_closed() || session.lost_since().is_some();
        let is_out = is_lost || stay.is_over(Instant::now());
        ended.map_err(|ended| if is_out { ended.without_voucher() } else { ended })
    }

    /// Which of the two acts: that of the destination if it may be sent to the other one, and is not known not to reach
    /// it.
    fn cast<'a>(
        &'a self,
        (source, destination): (&'a Client, &'a Client),
        unreached: Option<&Unreached>,
        stop: &Stop,
    ) -> Attempted<Cast<'a>> {
        let mut refused = Vec::new();
        let roles = [false, true].into_iter();
        for sends in roles.filter(|sends| unreached.is_none_or(|unreached| unreached.sends != *sends)) {
            let (acting, other) = if sends { (source, destination) } else { (destination, source) };
            let (at, to) = if sends { (&self.from, &self.to) } else { (&self.to, &self.from) };
            match ask(acting, Question::ErrandTo { address: to.address.clone() }, stop) {
                Ok(()) => {
                    let (acting_at, other_at) = (at.address.as_str(), to.address.as_str());
                    return Ok(Cast { acting, other, acting_at, other_at, sends });
                }
                Err(why) if why.reason == Reason::NoErrands => refused.push((at, why)),
                Err(failure) => return Err(Ended::of(failure)),
            }
        }
        if let Some(Unreached { why, .. }) = unreached {
            return Err(Ended::Final(why.clone()));
        }
        Err(Ended::Final(not_here::no_errands(
            &self.command,
            (&self.sources[..], &self.destination),
            refused.iter().map(|(at, why)| (at.address.as_str(), why)),
        )))
    }

    /// The place that is written, as its daemon knows it.
    fn written(&self) -> Attempted<message::Place> {
        place_there(&self.destination).ok_or_else(|| Ended::Final(odd("a place is at no daemon")))
    }

    /// Those that are read.
    fn read(&self, wishes: &Wishes) -> Attempted<Vec<message::Place>> {
        let there = |place: &Place| {
            let mut place = place.clone();
            // Names of a list are below the sources.
            if !wishes.selection.only.is_empty() {
                place.mean_contents();
            }
            place_there(&place).ok_or_else(|| Ended::Final(odd("a place is at no daemon")))
        };
        self.sources.iter().map(there).collect()
    }

    fn errand(
        &self,
        cast: &Cast<'_>,
        guest: &Identity,
        wishes: &Wishes,
        tells_all: bool,
    ) -> Attempted<Errand> {
        let Wishes { selection, fidelity, movement, .. } = wishes;
        let (asked, link) = (&movement.asked, &movement.link);
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
        Ok(Errand {
            address: cast.other_at.to_owned(),
            server: cast.other.session.peer.0,
            guest: GuestKey(guest.to_pem().to_string()),
            sends: cast.sends,
            source: Pull {
                filter: selection.filter.clone(),
                only: selection.only.clone(),
                one_file_system: selection.one_file_system,
                follow_links: selection.follow_links,
                ..Pull::of(self.read(wishes)?)
            },
            destination: self.written()?,
            terms: Terms {
                verify: fidelity.verify,
                check: fidelity.check,
                preserve: fidelity.preserve,
                delete_max: fidelity.delete_max,
                compress: asked.compress,
                rate_bytes_per_s: movement.rate.bytes_per_s(),
                dry_run: wishes.dry_run,
                ignore_existing: selection.ignore_existing,
                update: selection.update,
                concurrency: asked.concurrency,
                depth: asked.depth,
                window_bytes: asked.window_bytes,
                congestion: link.congestion.clone(),
                disk: asked.disk,
                dscp: link.dscp,
                yields: asked.yields,
                part: self.part,
                finds_renames: fidelity.finds_renames,
                ..Terms::of(limits::CHUNK_BYTES_MIN, limits::SEGMENT_BYTES_MIN as u32)
            },
            knobs: ErrandKnobs {
                streams: asked.streams,
                chunk_bytes: asked.chunk_bytes,
                request_bytes: asked.request_bytes,
                cipher: link.cipher,
                holds_still: movement.holds_still,
                patience_ms: millis(link.patience),
                stall_ms: millis(link.stall_timeout),
            },
            receipt: wishes.receipt.as_ref().map(|receipt| receipt.header),
            tells_all,
        })
    }
}

/// Vouches for a guest: when it was let in at the earliest, by the clock of the one that let it in.
fn vouch_for(client: &Client, vouch: Vouch, stop: &Stop) -> Result<i64> {
    let mut answers = client.ask(Question::Vouch(vouch))?;
    let mut since = None;
    loop {
        match answers.piece(&|| stop.is_asked()) {
            Some(Ok(Reply::Vouched { at })) if since.is_none() => since = Some(at),
            Some(Err(failure)) => return Err(failure),
            None if stop.is_asked() => return Err(stopped()),
            None => return since.ok_or_else(|| odd("the daemon did not say when it let the guest in")),
            Some(Ok(_)) => return Err(odd("the daemon answered another question")),
        }
    }
}

/// Asks what is answered by its end alone.
fn ask(client: &Client, question: Question, stop: &Stop) -> Result<()> {
    match client.ask(question)?.piece(&|| stop.is_asked()) {
        None if stop.is_asked() => Err(stopped()),
        None => Ok(()),
        Some(Err(failure)) => Err(failure),
        Some(Ok(_)) => Err(odd("the daemon answered another question")),
    }
}

fn odd(cause: &str) -> Failure {
    Failure::new(FailureKind::Protocol, RUN, cause)
}

/// Whether it is the last that is told.
fn is_end(told: &ErrandTold) -> bool {
    matches!(told, ErrandTold::Over(_) | ErrandTold::Failed(_))
}

/// Why it failed where it ran. Stopped there, though nobody asked for that here, it lost us; busy is what our own last
/// attempt has not left yet.
fn left(failure: Failure, stop: &Stop) -> Ended {
    match failure.kind {
        FailureKind::Stopped if !stop.is_asked() => {
            let cause = "the daemon that acts stopped it: it heard nothing of this side";
            Ended::Lost(Failure::new(FailureKind::Connection, RUN, cause))
        }
        FailureKind::Busy => Ended::Lost(failure),
        _ => Ended::Final(failure),
    }
}

fn stopped() -> Failure {
    stopped_in(RUN)
}

/// What is heard of the daemon that acts.
struct Hearing<'a> {
    wishes: &'a Wishes,
    watch: &'a Watch,
    attempts: &'a mut Attempts,
    between: Between,
    receipt: ReceiptHeard,
}

/// The receipt as it comes.
#[derive(Default)]
struct ReceiptHeard {
    sink: Option<LineSink>,
    /// Lines of the block that is not whole yet, and their bytes.
    lines: Vec<String>,
    bytes: usize,
    /// Digests of the blocks, with their numbers: of these is the root that both state.
    blocks: Vec<(u64, Digest)>,
}

impl Hearing<'_> {
    /// Until the copy is over.
    fn hear(&mut self, acting: &Client, errand: Question, stop: &Stop) -> Attempted<Report> {
        let mut answers = acting.ask(errand).map_err(Ended::of)?;
        loop {
            match answers.piece(&|| stop.is_asked()) {
                // Where much is told there is always another piece.
                Some(Ok(Reply::Errand(told))) if stop.is_asked() && !is_end(&told) => {
                    return Err(Ended::Final(stopped()));
                }
                Some(Ok(Reply::Errand(told))) => {
                    if let Some(report) = self.take(*told).map_err(|failure| left(failure, stop))? {
                        return Ok(report);
                    }
                }
                None if stop.is_asked() => return Err(Ended::Final(stopped())),
                Some(Err(failure)) => return Err(Ended::of(failure)),
                Some(Ok(_)) | None => return Err(Ended::Final(odd("the daemon did not say how it ended"))),
            }
        }
    }

    /// Takes what was told; the report, if that was the last of it. No text of it has a control character here.
    fn take(&mut self, told: ErrandTold) -> Result<Option<Report>> {
        use ErrandTold as T;
        let tell = |event: Event| (self.watch.events)(event);
        match told {
            T::Settled(all) => {
                all.into_iter().for_each(|(entry, outcome)| tell(Event::Settled(Arc::new(entry), outcome)));
            }
            T::Aside(all) => all.into_iter().for_each(|(path, outcome)| tell(Event::Aside(path, outcome))),
            T::Deleted(all) => all.into_iter().for_each(|path| tell(Event::Deleted(path))),
            T::LinkLost(why) => tell(Event::LinkLost(why)),
            T::LinkUp { millis } => tell(Event::LinkUp(Duration::from_millis(millis))),
            T::StreamLost(stream, why) => tell(Event::StreamLost(stream, why)),
            T::Repaired(count) => tell(Event::Repaired(count)),
            T::Note(text) => tell(Event::Note(inert(&text))),
            T::Knob(text) => tell(Event::Knob(inert(&text))),
            T::Detail(text) => tell(Event::Detail(inert(&text))),
            T::LacksRoom { room, is_all } => tell(Event::LacksRoom { room, is_all }),
            T::Planned(text) => {
                // One that makes no sense is not shown; the copy goes by it all the same.
                if let Some(plan) = plan_of(&text) {
                    tell(Event::Planned(Box::new(plan)));
                }
            }
            T::Counts(counts) => self.count(&counts),
            T::ReceiptBegins => {
                let sink = self.wishes.receipt.as_ref().map(|receipt| (receipt.lines)());
                self.receipt = ReceiptHeard { sink, ..ReceiptHeard::default() };
            }
            T::Block { number, lines, is_whole } => self.receipt.block(number, lines, is_whole)?,
            T::Pieces { path, piece_bytes, digests } => {
                self.receipt.write(ReceiptPart::Pieces(path, Pieces { piece_bytes, digests }));
            }
            T::Over(text) => {
                let told = ReportTold::read(&text)?;
                let report = told.report(self.between, !self.wishes.dry_run)?;
                if let Some(agreed) = report.agreed.as_ref().filter(|_| self.wishes.receipt.is_some()) {
                    self.receipt.check(agreed.receiver.statement.root)?;
                }
                return Ok(Some(report));
            }
            T::Failed(failure) => return Err(failure),
        }
        Ok(None)
    }

    fn count(&mut self, counts: &ErrandCounts) {
        self.watch.meter.count_as(counts);
        let bytes = counts.bytes_verified.saturating_add(counts.bytes_unmoved);
        self.attempts.reached(counts.entries_settled, bytes, Instant::now());
    }
}

impl ReceiptHeard {
    fn write(&mut self, part: ReceiptPart) {
        if let Some(sink) = &mut self.sink {
            sink(part);
        }
    }

    fn block(&mut self, number: u64, lines: Vec<String>, is_whole: bool) -> Result<()> {
        self.bytes += lines.iter().map(String::len).sum::<usize>();
        self.lines.extend(lines);
        if self.bytes > BLOCK_BYTES_MAX || self.lines.len() as u64 > receipt::BLOCK_ENTRIES {
            return Err(odd("a block of the receipt is too long"));
        }
        if is_whole {
            let block = Block { number, lines: std::mem::take(&mut self.lines) };
            self.bytes = 0;
            self.blocks.push((number, block.digest()));
            self.write(ReceiptPart::Block(block));
        }
        Ok(())
    }

    /// Whether its lines are those of which this is the root.
    fn check(&mut self, root: Digest) -> Result<()> {
        self.blocks.sort_unstable_by_key(|(number, _)| *number);
        match receipt::root_of(self.blocks.iter().map(|(_, digest)| *digest)) == root {
            true => Ok(()),
            false => {
                let cause = "the lines of the receipt are not those that the daemons signed";
                Err(Failure::new(FailureKind::Damage, "write the receipt", cause))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Places;
    use thalweg_mover::run::copy::Selection;
    use thalweg_wire::RelativePath;

    fn heard() -> ReceiptHeard {
        ReceiptHeard::default()
    }

    #[test]
    fn lines_of_a_receipt_that_nobody_signed_are_no_receipt() {
        let lines = |name: &str| vec![format!("-  0  directory  done  {name}\n")];
        let block = |number: u64, name: &str| Block { number, lines: lines(name) };
        let root = receipt::root_of([block(0, "a").digest(), block(1, "b").digest()]);
        // Blocks come as they are complete.
        let mut honest = heard();
        honest.block(1, lines("b"), true).unwrap();
        honest.block(0, lines("a"), true).unwrap();
        honest.check(root).unwrap();
        let mut other = heard();
        other.block(0, lines("a"), true).unwrap();
        other.block(1, lines("c"), true).unwrap();
        assert_eq!(other.check(root).unwrap_err().kind, FailureKind::Damage);
    }

    /// Else the command would end as if somebody had pressed Ctrl-C.
    #[test]
    fn a_copy_that_is_stopped_where_it_runs_and_not_here_begins_anew() {
        let stop = Stop::default();
        let ended = left(stopped(), &stop);
        assert!(matches!(ended, Ended::Lost(failure) if failure.kind == FailureKind::Connection));
        let full = Failure::new(FailureKind::Space, "copy", "no room");
        assert!(matches!(left(full, &stop), Ended::Final(failure) if failure.kind == FailureKind::Space));
        let busy = Failure::new(FailureKind::Busy, "open", "the job is under way");
        assert!(
            matches!(left(busy.clone(), &stop), Ended::Lost(_)) && matches!(Ended::of(busy), Ended::Lost(_))
        );
        stop.stop();
        assert!(
            matches!(left(stopped(), &stop), Ended::Final(failure) if failure.kind == FailureKind::Stopped)
        );
    }

    #[test]
    fn a_guest_that_lost_who_vouched_for_it_is_another_link_that_was_lost() {
        let ended = |kind| Ended::Final(Failure::new(kind, "begin a session", "no")).without_voucher();
        for kind in [FailureKind::Permission, FailureKind::Connection] {
            assert!(matches!(ended(kind), Ended::Lost(failure) if failure.kind == FailureKind::Connection));
        }
        assert!(matches!(ended(FailureKind::Space), Ended::Final(_)));
    }

    /// Else a copy would end for good that takes longer than a guest may stay.
    #[test]
    fn a_guest_whose_time_is_over_is_another_link_that_was_lost_and_not_one_that_was_refused_before() {
        let stay = Stay { asked_at: Instant::now(), lasts: Duration::from_secs(2000) };
        let is_over = |seconds: u64| stay.is_over(stay.asked_at + Duration::from_secs(seconds));
        assert!(!is_over(0) && !is_over(1997));
        // By its clock it may have been there for two seconds longer.
        assert!(is_over(1998) && is_over(2000) && is_over(3000));
    }

    fn between(from: &str, to: &str) -> BetweenDaemons {
        let read = |text: &str| Place::parse(text.as_ref(), &Places::default()).unwrap();
        BetweenDaemons::of("cp", &[read(from)], &read(to), None).unwrap()
    }

    #[test]
    fn a_list_that_no_message_has_room_for_is_refused_before_anybody_is_dialled() {
        let daemons = between("tw://a.example/data/run7", "tw://b.example/in/");
        let name = |number: usize| RelativePath::new(format!("{number:080}").into_bytes()).unwrap();
        let check = |names: usize| {
            let selection = Selection { only: (0..names).map(name).collect(), ..Selection::default() };
            daemons.check(&Wishes { selection, ..Wishes::default() })
        };
        assert!(check(20_000).is_ok());
        let refused = check(30_000).unwrap_err();
        assert!(refused.kind == FailureKind::Usage && refused.cause.contains("--files-from"), "{refused}");
        assert!(refused.cause.contains("in parts"), "{refused}");
    }

    #[test]
    fn a_block_that_never_ends_takes_no_memory_without_bound() {
        let mut endless = heard();
        let pieces = (0..).map_while(|_| endless.block(0, vec!["x\n".to_owned(); 100], false).ok());
        assert!(pieces.take(100).count() < 10);
    }
}
