//! A stream from beginning to end: plan, link, both sides, attempts, agreement.
//!
//! Both sides on this machine outlive the sessions that they ride in: what was read of a pipe, or delivered to a program,
//! is not had a second time. So only the link is begun anew after an outage that a session did not survive.

use super::lags::Lag;
use super::local::LocalFlow;
use super::receiver::FlowReceive;
use super::sender::FlowSend;
use super::slot::{TakenSlot, Word, fit_pieces};
use crate::admission::{SlotAsked, SlotHeld};
use crate::again::{Again, Rule, Tries};
use crate::basin::{self, Evidence, Verdict};
use crate::endpoint::flow::{FlowDestination, NullFlows, PipeDestination};
use crate::endpoint::grow::Feed;
use crate::endpoint::grow::open::{self, GrowingPlace};
use crate::endpoint::grow::pipe::{PipeFeed, refuse_other_ends};
use crate::endpoint::local::destination::DestinationPlace;
use crate::endpoint::local::flows::LocalFlows;
use crate::endpoint::local::overlap;
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use crate::link::{Fingerprint, Identity, own_system};
use crate::manifest::filter::Filter;
use crate::plan::{self, Asked, Path, Plan};
use crate::run::agree::{self, Agreed, Signer};
use crate::run::client::{Client, LinkSettings};
use crate::run::copy::{Stop, Watch};
use crate::run::expected::Expected;
use crate::run::far_mover::{FarMover, without_effect};
use crate::run::ledger::{self, Settings};
use crate::run::party::Party;
use crate::run::session::Transfer;
use crate::run::steer::{Rate, turned_to};
use crate::run::{Ended, LineSink};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thalweg_wire::account::SideAccounts;
use thalweg_wire::message::{
    Check, Direction, FlowTerms, Open, Place, SourceForm, Steer, Terms, Totals, TransferNumber, Until,
    WaitingFor,
};
use thalweg_wire::{Digest, RelativePath, limits};

/// Name of standard input in messages and receipts.
pub const PIPE_NAME: &[u8] = b"stdin";
/// Streams that are opened without being asked for: over a distance each brings a first window of its own, so that what
/// comes early does not wait for one to grow; beyond some they only let pieces overtake each other.
const STREAMS_MAX: u16 = 8;
/// What was read before a stop is to become durable: that is waited for as long as some of it does within this time.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// And at most so long.
const STOP_PATIENCE_MAX: Duration = Duration::from_secs(60);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// Between two looks, in a pause, whether somebody asked to stop.
const STOP_NOTICE: Duration = Duration::from_millis(100);

/// Where a stream comes from.
pub enum FlowFrom {
    /// A descriptor that is read to its end.
    Pipe(OwnedFd),
    /// A path of this machine: a file, a directory, a FIFO.
    Local(PathBuf),
    /// A place at a far mover.
    Far(Arc<FarMover>, Place),
}

/// Where a stream goes.
pub enum FlowTo {
    /// A descriptor that is written.
    Pipe(OwnedFd),
    /// A path of this machine.
    Local(PathBuf),
    /// Nowhere.
    Null,
    /// A place at a far mover.
    Far(Arc<FarMover>, Place),
}

/// Everything that a user can say about a stream.
#[derive(Clone)]
pub struct FlowWishes {
    /// TCP connections, and bytes of a piece.
    pub asked: Asked,
    /// When it ends, what is kept, and how often it is marked.
    pub terms: FlowTerms,
    /// Send no faster, which may change while it runs.
    pub rate: Arc<Rate>,
    /// Send to a far place only in windows that its server promises; refused, nothing is sent.
    pub slot: Option<SlotAsked>,
    /// The link.
    pub link: LinkSettings,
    /// Options that somebody typed and that do nothing for either place: they are told with those of this stream.
    pub unused: Vec<String>,
    /// Takes the lines of the receipt. Called whenever the receipt begins: its sink starts over.
    pub lines: Option<Arc<dyn Fn() -> LineSink + Send + Sync>>,
    /// Digest of the first line of the receipt, to be signed with the rest.
    pub header: Option<Digest>,
}

impl FlowWishes {
    /// What is usual, until then.
    pub fn new(until: Until) -> FlowWishes {
        FlowWishes {
            asked: Asked::default(),
            terms: FlowTerms { until, window_bytes: WINDOW_BYTES, mark_every_ms: MARK_EVERY_MS },
            rate: Arc::default(),
            slot: None,
            link: LinkSettings::default(),
            unused: Vec::new(),
            lines: None,
            header: None,
        }
    }
}

/// Bytes that are kept until they are marked, if nobody says otherwise: 1 Gbit/s over half a second.
pub const WINDOW_BYTES: u64 = 64 << 20;
/// Milliseconds between two marks, if nobody says otherwise.
pub const MARK_EVERY_MS: u32 = 100;

/// What a stream did.
#[derive(Debug, Clone)]
pub struct FlowReport {
    /// The receiver's totals.
    pub totals: Totals,
    /// Both sides' statements.
    pub agreed: Agreed,
    /// What it went by.
    pub plan: Plan,
    /// From the beginning to the last word.
    pub elapsed: Duration,
    /// Where the time went.
    pub evidence: Evidence,
    /// Which stage set the rate, and why.
    pub verdict: Option<Verdict>,
    /// How often it needed a new session.
    pub attempts: u32,
    /// How late bytes were; where this side read them.
    pub lag: Option<Lag>,
    /// What the slot promised, if there was one.
    pub slot: Option<SlotHeld>,
}

/// Streams, until the source is complete and all of it is durable (or delivered) at the destination.
///
/// # Errors
/// When it could not begin, or not go on. Single flows that failed are events and counted in the totals.
pub fn stream(
    from: FlowFrom,
    to: FlowTo,
    wishes: &FlowWishes,
    identity: &Identity,
    watch: &Watch,
    stop: &Stop,
) -> Result<FlowReport> {
    let mut job = Job {
        wishes,
        identity,
        watch,
        stop,
        started: Instant::now(),
        progress: (0, Instant::now()),
        told: None,
        steered: (0, wishes.rate.bytes_per_s()),
        is_unused_told: false,
        opens_by: None,
        openings: Tries::default(),
    };
    let far = (matches!(from, FlowFrom::Far(..)), matches!(to, FlowTo::Far(..)));
    if wishes.slot.is_some() && far != (false, true) {
        let cause = match far {
            (true, _) => SLOT_OF_A_PULL,
            (false, _) => "slots are for streams from this machine to a daemon",
        };
        return Err(Failure::new(FailureKind::Usage, "take a slot", cause));
    }
    match (from, to) {
        (FlowFrom::Far(..), FlowTo::Far(..)) => {
            let cause = "both places are far: run thalweg at one of them";
            Err(Failure::new(FailureKind::Unsupported, "stream", cause))
        }
        (FlowFrom::Far(far, place), to) => job.pull(&far, &place, to),
        (from, FlowTo::Far(far, place)) => job.push(from, &far, &place),
        (from, to) => job.local(from, to),
    }
}

/// A daemon knows what comes to it. What goes from it leaves by the other direction, to ways that differ by client.
const SLOT_OF_A_PULL: &str = "slots are for streams from this machine to a daemon: a daemon gives away the way to it, and \
    what it sends takes the ways from it; have the machine that has the data push to a daemon here";

struct Job<'a> {
    wishes: &'a FlowWishes,
    identity: &'a Identity,
    watch: &'a Watch,
    stop: &'a Stop,
    started: Instant,
    /// The most that was marked and settled, and when that was reached.
    progress: (u64, Instant),
    told: Option<Instant>,
    /// The rate that the sender goes by, and in which epoch of the link it was told.
    steered: (u64, Option<u64>),
    /// What was asked for and does nothing on this way was told.
    is_unused_told: bool,
    /// While the destination is opened: whether that is begun again if there is no room.
    opens_by: Option<Rule>,
    /// How often in a row there was none.
    openings: Tries,
}

/// Time between two tellings of evidence.
const EVIDENCE_EVERY: Duration = Duration::from_secs(1);

impl Job<'_> {
    fn local(&mut self, from: FlowFrom, to: FlowTo) -> Result<FlowReport> {
        if let (FlowFrom::Local(from), FlowTo::Local(to)) = (&from, &to) {
            overlap::refuse_stream(from, to)?;
        }
        self.tell_unused(None);
        let here = own_system();
        let plan = self.planned(Path { sender: here, receiver: here, ..Path::default() });
        let terms = self.terms(&plan, job_key_of(None, &to));
        let is_pipe = matches!(from, FlowFrom::Pipe(_)) || matches!(to, FlowTo::Pipe(_));
        let (mut feed, form) = self.feed(from, &terms)?;
        if matches!(to, FlowTo::Pipe(_)) {
            feed.begins_nothing_again();
        }
        let rule = self.rule_of(&form, is_pipe);
        let mut to = Some(to);
        let destination = loop {
            match open_destination(&mut to, &form, &terms) {
                Ok(destination) => break destination,
                Err(failure) => self.wait_for_room(rule, failure)?,
            }
        };
        let flow = self.wishes.terms.clone();
        // Events of flows come from one side only.
        let receiver = FlowReceive::start(destination, terms.clone(), &flow, crate::event::nobody())?;
        let sender = FlowSend::new(terms, flow, self.watch.events.clone());
        let local = LocalFlow::start(&sender, &receiver, self.lines())?;
        sender.start(feed)?;
        let ended = loop {
            let ended = sender.wait(Duration::from_millis(100));
            self.measure_sender(&sender);
            self.keep_rate(0, |steer| {
                sender.steer(steer);
                true
            });
            self.tell_evidence(&plan, || (sender.own_accounts(), receiver.own_accounts()));
            match ended {
                Some(ended) => break Ok(ended),
                None if self.stop.is_asked() => break Err(self.stop_sender(&sender)),
                None => {}
            }
        };
        let agreed = ended.and_then(agree::totals_of).and_then(|totals| {
            let signer = self.signer(self.identity.fingerprint());
            Ok((totals, agree::as_both(&*sender, &*receiver, &signer, totals)?))
        });
        if let Err(failure) = &agreed {
            sender.abort(failure.clone());
        }
        let rows = (sender.own_accounts(), receiver.own_accounts());
        sender.tell_failing();
        receiver.close();
        local.close();
        let (totals, agreed) = agreed.map_err(|failure| sender.read_failure().unwrap_or(failure))?;
        Ok(FlowReport { lag: Some(sender.lag()), ..self.report(totals, agreed, plan, rows, 1) })
    }

    fn push(&mut self, from: FlowFrom, far: &Arc<FarMover>, place: &Place) -> Result<FlowReport> {
        let is_pipe = matches!(from, FlowFrom::Pipe(_));
        let mut from = Some(from);
        let mut begun: Option<(Arc<FlowSend>, SourceForm, Plan)> = None;
        let mut held = None;
        let result = self.attempts(far, &mut |job, client, number| {
            let ready = begun.as_ref().and_then(|(run, ..)| run.latest_burst());
            let mut slot = job.take_slot(client, ready)?;
            let (run, form, plan) = match &begun {
                Some(begun) => begun.clone(),
                None => {
                    let mut plan = job.plan(client, Direction::Push);
                    if let Some(slot) = &slot {
                        job.check_rate(&slot.held())?;
                        fit_pieces(&mut plan, slot.held().slot.bytes);
                    }
                    let key = job_key_of(Some((far, place)), &FlowTo::Null);
                    let terms = job.terms(&plan, key);
                    let from = from.take().ok_or_else(|| internal("the source is gone"))?;
                    let (feed, form) = job.feed(from, &terms)?;
                    let flow = job.flow_terms(slot.as_ref())?;
                    let run = FlowSend::new(terms, flow, job.watch.events.clone());
                    run.start(feed)?;
                    begun.insert((run, form, plan)).clone()
                }
            };
            job.opens_by = Some(job.rule_of(&form, is_pipe));
            client.open(job.opening(number, Direction::Push, place, form, run.terms(), &run.flow))?;
            job.opens_by = None;
            job.openings = Tries::default();
            if let Some(slot) = &mut slot {
                run.set_slot(Some((slot.gate(), slot.held().deadline)));
                slot.keep(run.clone())?;
            }
            run.attach(number, client.session.outbox(), job.lines());
            client.session.add(number, Transfer::SendFlows(run.clone()))?;
            client.want_streams(plan.streams.value, &plan);
            let mut is_read_told = false;
            let ended = job.wait(client, |job| {
                let waits_for = client.session.peer_heartbeat().waiting_for;
                if waits_for == Some(WaitingFor::Read) && !std::mem::replace(&mut is_read_told, true) {
                    let text = "the destination reads what it has again, to go on behind it";
                    (job.watch.events)(Event::Note(text.into()));
                }
                if let Some(slot) = &slot {
                    if let Some(news) = slot.news(&mut held) {
                        (job.watch.events)(Event::Slot(Box::new(news)));
                    }
                    slot.look_for_late();
                    if let Some(failure) = slot.failure() {
                        return Some(Err(failure));
                    }
                }
                job.measure_sender(&run);
                job.keep_rate(0, |steer| {
                    run.steer(steer);
                    true
                });
                job.tell_evidence(&plan, || (run.own_accounts(), run.peer_accounts()));
                match run.wait(Duration::from_millis(100)) {
                    None if job.stop.is_asked() => Some(Err(job.stop_sender(&run))),
                    ended => ended.map(Ok),
                }
            })?;
            // What came during the last wait.
            job.measure_sender(&run);
            let totals = agree::totals_of(ended).map_err(|failure| run.read_failure().unwrap_or(failure))?;
            let signer = job.signer(client.session.peer);
            let agreed = agree::as_sender(&*run, &signer, totals, job.wishes.link.patience)?;
            let rows = (run.own_accounts(), run.peer_accounts());
            Ok((totals, agreed, plan, rows))
        });
        if let (Err(failure), Some((run, ..))) = (&result, &begun) {
            run.abort(failure.clone());
        }
        if let Some((run, ..)) = &begun {
            run.tell_failing();
        }
        let lag = begun.as_ref().map(|(run, ..)| run.lag());
        self.reported(result).map(|report| FlowReport { lag, slot: held, ..report })
    }

    fn take_slot(&self, client: &Arc<Client>, ready: Option<Instant>) -> Result<Option<TakenSlot>> {
        let Some(asked) = self.wishes.slot else { return Ok(None) };
        let word = Word::Durable(Duration::from_millis(self.wishes.terms.mark_every_ms.into()));
        TakenSlot::take(client, asked, (word, self.wishes.link.stall_timeout), ready).map(Some)
    }

    /// What a window is for has to go within it: else more and more waits for the next one.
    fn check_rate(&self, held: &SlotHeld) -> Result<()> {
        let slot = &held.slot;
        let needed = u128::from(slot.bytes) * 1_000_000 / u128::from(slot.length_micros.max(1));
        let needed = u64::try_from(needed).unwrap_or(u64::MAX);
        let Some(rate) = self.wishes.rate.bytes_per_s().filter(|&rate| rate < needed) else { return Ok(()) };
        let cause = format!(
            "a window of the slot is for {} bytes in {:.3} s, which is {}, and --bwlimit allows {}: allow that much, or leave \
            it out",
            slot.bytes,
            slot.length_micros as f64 / 1e6,
            plan::show_rate(needed.saturating_mul(8)),
            plan::show_rate(rate.saturating_mul(8))
        );
        Err(Failure::new(FailureKind::Usage, "take a slot", cause))
    }

    /// What a slot promises is for bytes that are read when they are ready: the buffer is as large as that takes.
    fn flow_terms(&self, slot: Option<&TakenSlot>) -> Result<FlowTerms> {
        let terms = self.wishes.terms.clone();
        let Some(needed) = slot.map(TakenSlot::buffer_bytes).filter(|&needed| needed > terms.window_bytes)
        else {
            return Ok(terms);
        };
        let allowed = self.wishes.asked.memory_bytes.map_or(u64::MAX, |bytes| bytes / 2);
        let most = limits::FLOW_WINDOW_BYTES_MAX.min(allowed);
        if needed > most {
            let cause = format!(
                "{needed} bytes would have to be kept until they are durable, and {most} are allowed: smaller \
                bursts, a shorter --mark-every, or more --memory"
            );
            return Err(Failure::new(FailureKind::Usage, "take a slot", cause));
        }
        Ok(FlowTerms { window_bytes: needed, ..terms })
    }

    fn pull(&mut self, far: &Arc<FarMover>, place: &Place, to: FlowTo) -> Result<FlowReport> {
        let mut to = Some(to);
        let mut begun: Option<(Arc<FlowReceive>, Plan)> = None;
        let result = self.attempts(far, &mut |job, client, number| {
            let plan = begun.as_ref().map(|(_, plan)| plan.clone());
            let plan = plan.unwrap_or_else(|| job.plan(client, Direction::Pull));
            let key = job_key_of(None, to.as_ref().unwrap_or(&FlowTo::Null));
            let terms = begun.as_ref().map_or_else(|| job.terms(&plan, key), |(run, _)| run.terms().clone());
            let flow = job.wishes.terms.clone();
            let opening = job.opening(number, Direction::Pull, place, SourceForm::Many, &terms, &flow);
            let opened = client.open(opening)?;
            let expected =
                Expected::of(std::slice::from_ref(place), &[], Filter::new(Vec::new())?, &opened.source)?;
            let run = match &begun {
                Some((run, _)) => run.clone(),
                None => {
                    let rule = job.rule_of(&opened.source, matches!(to, Some(FlowTo::Pipe(_))));
                    job.opens_by = Some(rule);
                    let destination = open_destination(&mut to, &opened.source, &terms)?;
                    job.opens_by = None;
                    let run = FlowReceive::start(destination, terms, &flow, job.watch.events.clone())?;
                    run.expect(expected);
                    run.begins_again(rule);
                    begun = Some((run.clone(), plan.clone()));
                    run
                }
            };
            run.attach(number, client.session.outbox(), job.lines());
            client.session.add(number, Transfer::ReceiveFlows(run.clone()))?;
            client.want_streams(plan.streams.value, &plan);
            // Another session knows what stands in the terms.
            job.steered = (client.session.epoch(), run.terms().rate_bytes_per_s);
            let ended = job.wait(client, |job| {
                job.measure_receiver(&run);
                // What was said to a link that broke may not have been heard.
                job.keep_rate(client.session.epoch(), |steer| client.steer(number, *steer));
                job.tell_evidence(&plan, || (run.peer_accounts(), run.own_accounts()));
                match run.wait(Duration::from_millis(100)) {
                    None if job.stop.is_asked() => Some(Err(stopped())),
                    ended => ended.map(Ok),
                }
            })?;
            // What came during the last wait.
            job.measure_receiver(&run);
            let totals = agree::totals_of(ended)?;
            let signer = job.signer(client.session.peer);
            let agreed = agree::as_receiver(&*run, &signer, totals, job.wishes.link.patience)?;
            // Those that both signed.
            let totals = agreed.receiver.statement.totals;
            let rows = (run.peer_accounts(), run.own_accounts());
            Ok((totals, agreed, plan, rows))
        });
        if let Some((run, _)) = &begun {
            run.tell_failing();
            run.close();
        }
        self.reported(result)
    }

    /// Tries again in a session of its own after each outage, as long as there is progress within the patience.
    fn attempts(&mut self, far: &Arc<FarMover>, attempt: &mut Attempt<'_>) -> Result<(Done, u32)> {
        let mut attempts = 0;
        let mut had_link = false;
        loop {
            attempts += 1;
            self.opens_by = None;
            let mut link = self.wishes.link.clone();
            if had_link {
                let left = link.patience.saturating_sub(self.progress.1.elapsed());
                link.patience = left.max(Duration::from_secs(1));
            }
            let result = far.transfer(link, self.watch.link_events.clone()).and_then(|(client, number)| {
                had_link = true;
                self.tell_unused(Some(&**far));
                let result = attempt(self, &client, number);
                client.conclude(number, result.as_ref().err());
                result
            });
            let failure = match result {
                Ok(done) => return Ok((done, attempts)),
                Err(failure) => failure,
            };
            if failure.kind == FailureKind::Space
                && let Some(rule) = self.opens_by.take()
            {
                self.wait_for_room(rule, failure)?;
                // The link was there: that needed no new session, and is no time without progress.
                attempts -= 1;
                self.progress.1 = Instant::now();
                continue;
            }
            let may_heal = had_link
                && match failure.kind {
                    FailureKind::Connection => true,
                    // Our own last attempt, which its server has not given up yet.
                    FailureKind::Busy => attempts > 1,
                    _ => false,
                };
            if !may_heal || self.stop.is_asked() || self.progress.1.elapsed() > self.wishes.link.patience {
                return Err(failure);
            }
            (self.watch.events)(Event::LinkLost(failure));
            std::thread::sleep(PAUSE);
        }
    }

    /// What is begun again of a stream from such a source; nothing from a program, or to one.
    fn rule_of(&self, form: &SourceForm, is_pipe: bool) -> Rule {
        match is_pipe {
            true => Rule::Never,
            false => Rule::of(&self.wishes.terms.until, matches!(form, SourceForm::Single { .. })),
        }
    }

    /// The destination could not be opened. If only room is missing, it is tried again as a file is for which there is none: this
    /// returns when the pause is over. What else is wrong at the beginning is most likely the command, and is told at once.
    ///
    /// # Errors
    /// The failure, if it is not to be tried again; `Stopped`.
    fn wait_for_room(&mut self, rule: Rule, failure: Failure) -> Result<()> {
        let again = match failure.kind {
            FailureKind::Space => self.openings.failed(rule, failure.kind, Duration::ZERO),
            _ => None,
        };
        let Some(Again { pause, is_news }) = again else { return Err(failure) };
        if is_news {
            (self.watch.events)(Event::TriedAgain(failure, pause));
        }
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if self.stop.is_asked() {
                return Err(stopped());
            }
            std::thread::sleep(STOP_NOTICE);
        }
        Ok(())
    }

    /// Says what was asked for and does nothing on this way, once.
    fn tell_unused(&mut self, far: Option<&FarMover>) {
        // Of what rides in ssh, or goes nowhere, no socket is ours.
        let has_sockets = far.is_some_and(|far| !far.is_carried());
        let link = &self.wishes.link;
        let mut options = vec![
            ("--dscp", link.dscp.is_some() && !has_sockets),
            ("--cca", link.congestion.is_some() && !has_sockets),
        ];
        options.extend(self.wishes.unused.iter().map(|option| (option.as_str(), true)));
        if let Some(text) = without_effect(far, &options)
            && !std::mem::replace(&mut self.is_unused_told, true)
        {
            (self.watch.events)(Event::Note(text));
        }
    }

    fn wait(
        &mut self,
        client: &Client,
        mut step: impl FnMut(&mut Self) -> Option<Result<Ended>>,
    ) -> Result<Ended> {
        loop {
            if let Some(ended) = step(self) {
                return ended;
            }
            if client.session.is_closed() {
                let lost = || Failure::new(FailureKind::Connection, "stream", "the session ended");
                return Err(client.session.failure().unwrap_or_else(lost));
            }
        }
    }

    /// Lets what was read become durable; the flows are not complete.
    fn stop_sender(&self, run: &FlowSend) -> Failure {
        run.stop_reading();
        let (began, mut least, mut fell) = (Instant::now(), u64::MAX, Instant::now());
        loop {
            let kept = run.progress().kept_bytes;
            if kept < least {
                (least, fell) = (kept, Instant::now());
            }
            if kept == 0 || fell.elapsed() >= STOP_PATIENCE || began.elapsed() >= STOP_PATIENCE_MAX {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if least > 0 {
            let text = format!(
                "{least} bytes that were read are not known to be durable at the destination: the same command reads them \
                 again, where the source still has them"
            );
            (self.watch.events)(Event::Note(text));
        }
        stopped()
    }

    fn feed(&self, from: FlowFrom, terms: &Terms) -> Result<(Box<dyn Feed>, SourceForm)> {
        let piece_bytes = terms.segment_bytes as usize;
        let until = &self.wishes.terms.until;
        let is_given = matches!(from, FlowFrom::Pipe(_));
        let (feed, form): (Box<dyn Feed>, SourceForm) = match from {
            FlowFrom::Pipe(pipe) => {
                refuse_other_ends(until)?;
                let name =
                    RelativePath::new(PIPE_NAME.to_vec()).map_err(|error| internal(&error.to_string()))?;
                let feed = PipeFeed::new(pipe, name, piece_bytes);
                (Box::new(feed), SourceForm::Single { name: PIPE_NAME.to_vec() })
            }
            FlowFrom::Local(path) => open::open(&GrowingPlace { path, below: None }, until, piece_bytes)?,
            FlowFrom::Far(..) => return Err(internal("the source is far")),
        };
        if feed.is_pipe() {
            self.tell_unused_of_pipe(is_given);
        }
        Ok((feed, form))
    }

    /// Says what was asked for and is only for files. A pipe that has a name may be waited for; one that is given is there.
    fn tell_unused_of_pipe(&self, is_given: bool) {
        let until = &self.wishes.terms.until;
        let options = [
            ("-f", until.forever),
            ("--wait", until.wait && is_given),
            ("--poll", until.poll_ms.is_some()),
            ("--recheck", until.recheck),
        ];
        let unused: Vec<&str> =
            options.into_iter().filter_map(|(option, is_asked)| is_asked.then_some(option)).collect();
        if !unused.is_empty() {
            let text = format!("without effect for a pipe: {}", unused.join(", "));
            (self.watch.events)(Event::Note(text));
        }
    }

    fn opening(
        &self,
        transfer: TransferNumber,
        direction: Direction,
        place: &Place,
        source: SourceForm,
        terms: &Terms,
        flow: &FlowTerms,
    ) -> Open {
        Open {
            source,
            flow: Some(flow.clone()),
            ..Open::of(transfer, direction, vec![place.clone()], terms.clone())
        }
    }

    fn plan(&self, client: &Client, direction: Direction) -> Plan {
        let (sender, receiver) = client.systems(direction);
        self.planned(Path { rtt: Some(client.rtt), sender, receiver, ..Path::default() })
    }

    fn planned(&self, path: Path) -> Plan {
        let rate_bits_per_s = self.wishes.rate.bytes_per_s().map(|rate| rate.saturating_mul(8));
        let asked = Asked { rate_bits_per_s, ..self.wishes.asked.clone() };
        let mut plan = plan::plan(&asked, &path);
        if self.wishes.asked.streams.is_none() && plan.streams.value > STREAMS_MAX {
            plan.streams.value = STREAMS_MAX;
            plan.streams.why = "pieces come one after the other: more only let them overtake".into();
        }
        (self.watch.events)(Event::Planned(Box::new(plan.clone())));
        plan
    }

    fn terms(&self, plan: &Plan, job_key: [u8; 16]) -> Terms {
        Terms {
            check: Check::Digest,
            rate_bytes_per_s: self.wishes.rate.bytes_per_s(),
            job_key,
            ..self.wishes.link.terms(plan)
        }
    }

    fn signer(&self, peer: Fingerprint) -> Signer<'_> {
        Signer { identity: self.identity, peer, header: self.wishes.header }
    }

    fn lines(&self) -> Option<LineSink> {
        self.wishes.lines.as_ref().map(|begin| begin())
    }

    /// Has `say` tell the sender the rate that is wanted, if that is another than in this epoch of the link before. `say` is
    /// asked again later if it says false.
    fn keep_rate(&mut self, epoch: u64, say: impl FnOnce(&Steer) -> bool) {
        let rate = self.wishes.rate.bytes_per_s();
        let is_turned = self.steered.1 != rate;
        if self.steered != (epoch, rate) && say(&Steer { rate_bytes_per_s: rate, ..Steer::default() }) {
            self.steered = (epoch, rate);
            if is_turned {
                (self.watch.events)(turned_to(rate));
            }
        }
    }

    fn measure_sender(&mut self, run: &FlowSend) {
        let progress = run.progress();
        let bytes = (progress.read_bytes, progress.marked_bytes);
        self.measure(progress.flows, progress.settled, bytes, progress.is_at_rest());
    }

    fn measure_receiver(&mut self, run: &FlowReceive) {
        let progress = run.progress();
        let settled = progress.settled_entries;
        let bytes = (progress.verified_bytes, progress.durable_bytes);
        self.measure(settled, settled, bytes, bytes.0 == bytes.1);
    }

    fn measure(
        &mut self,
        found: u64,
        settled: u64,
        (read_bytes, marked_bytes): (u64, u64),
        is_at_rest: bool,
    ) {
        let meter = &self.watch.meter;
        meter.entries_found.store(found, Ordering::Relaxed);
        meter.entries_settled.store(settled, Ordering::Relaxed);
        meter.bytes_found.store(read_bytes, Ordering::Relaxed);
        meter.bytes_verified.store(marked_bytes, Ordering::Relaxed);
        // A producer may rest: then there is nothing to wait for.
        if settled + marked_bytes > self.progress.0 || is_at_rest {
            self.progress = (settled + marked_bytes, Instant::now());
        }
    }

    fn tell_evidence(&mut self, plan: &Plan, sides: impl FnOnce() -> (SideAccounts, SideAccounts)) {
        let Some(sink) = &self.watch.evidence else { return };
        if self.told.is_none_or(|at| at.elapsed() >= EVIDENCE_EVERY) {
            sink(&self.evidence(plan, sides()));
            self.told = Some(Instant::now());
        }
    }

    fn evidence(&self, plan: &Plan, (sender, receiver): (SideAccounts, SideAccounts)) -> Evidence {
        let settings = Settings {
            is_linked: plan.streams.value > 0,
            is_flow: true,
            yields: false,
            streams: plan.streams.value,
            concurrency: 1,
            depth: None,
            rate_bytes_per_s: self.wishes.rate.bytes_per_s(),
            window_bytes: self.wishes.asked.window_bytes,
        };
        let entries = self.watch.meter.entries_settled.load(Ordering::Relaxed);
        ledger::evidence(&settings, entries, sender, receiver)
    }

    fn reported(&mut self, result: Result<(Done, u32)>) -> Result<FlowReport> {
        result
            .map(|((totals, agreed, plan, rows), attempts)| self.report(totals, agreed, plan, rows, attempts))
    }

    fn report(
        &mut self,
        totals: Totals,
        agreed: Agreed,
        plan: Plan,
        sides: (SideAccounts, SideAccounts),
        attempts: u32,
    ) -> FlowReport {
        let evidence = Evidence { entries: totals.done + totals.failed, ..self.evidence(&plan, sides) };
        let verdict = basin::judge(&evidence);
        (self.watch.events)(Event::Finished(totals));
        FlowReport {
            totals,
            agreed,
            plan,
            elapsed: self.started.elapsed(),
            evidence,
            verdict,
            attempts,
            lag: None,
            slot: None,
        }
    }
}

/// One attempt, in a session and under a number of its own.
type Attempt<'a> = dyn FnMut(&mut Job<'_>, &Arc<Client>, TransferNumber) -> Result<Done> + 'a;

/// What an attempt that went well has to tell.
type Done = (Totals, Agreed, Plan, (SideAccounts, SideAccounts));

/// A path is opened as often as it takes, a descriptor once.
fn open_destination(
    to: &mut Option<FlowTo>,
    form: &SourceForm,
    terms: &Terms,
) -> Result<Arc<dyn FlowDestination>> {
    let to = match to {
        Some(FlowTo::Local(path)) => FlowTo::Local(path.clone()),
        to => to.take().ok_or_else(|| internal("the destination is gone"))?,
    };
    destination_of(to, form, terms)
}

fn destination_of(to: FlowTo, form: &SourceForm, terms: &Terms) -> Result<Arc<dyn FlowDestination>> {
    match to {
        FlowTo::Null => Ok(Arc::new(NullFlows)),
        FlowTo::Pipe(_) if *form == SourceForm::Many => {
            let cause = "a directory does not go into a pipe: name a single file";
            Err(Failure::new(FailureKind::Usage, "open the destination", cause))
        }
        FlowTo::Pipe(pipe) => Ok(Arc::new(PipeDestination::new(pipe))),
        FlowTo::Local(path) => {
            let slash = path.as_os_str().as_bytes().ends_with(b"/");
            let place = DestinationPlace { path, below: None };
            Ok(Arc::new(LocalFlows::open(place, form, slash, &terms.job_key)?))
        }
        FlowTo::Far(..) => Err(internal("the destination is far")),
    }
}

/// Same destination, same key, whatever the source: one stream at a time marks what grows there.
fn job_key_of(far: Option<(&Arc<FarMover>, &Place)>, to: &FlowTo) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 key of a stream");
    if let Some((_, place)) = far {
        hasher.update(place.export.as_deref().unwrap_or("").as_bytes()).update(b"\0").update(&place.path);
    }
    if let FlowTo::Local(path) = to {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        hasher.update(absolute.as_os_str().as_bytes());
    }
    let mut key = [0; 16];
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    key
}

fn stopped() -> Failure {
    Failure::new(FailureKind::Stopped, "stream", "stopped on request; the same command resumes it")
}

fn internal(cause: &str) -> Failure {
    Failure::new(FailureKind::Internal, "stream", cause)
}
