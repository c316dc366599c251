//! A transfer that was opened, as a server sees it to its end: within its bounds, told and logged meanwhile, agreed on
//! when it is over.

use super::Host;
use super::signing::Signs;
use crate::export::KeptFree;
use crate::frames::tell_when_back;
use crate::log::{Done, Line};
use crate::min_free::{self, Looks};
use crate::published::Served;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::run::Ended;
use thalweg_mover::run::agree::{self, Wait};
use thalweg_mover::run::party::Party;
use thalweg_mover::run::session::Session;
use thalweg_mover::run::thread;
use thalweg_mover::run::transfer::Transfer;
use thalweg_wire::account::SideAccounts;
use thalweg_wire::message::{Totals, TransferNumber};

/// Time between two tellings of where a transfer's time goes.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What of a transfer that a server does is told, logged and signed.
pub(crate) struct ServedTransfer {
    /// Tells `thalweg why` of it, if anybody may ask.
    pub told: Option<Served>,
    /// It measures, and nobody comes back for it.
    pub is_trial: bool,
    /// What stands in the log.
    pub line: Line,
    /// Who signs it, if anybody does.
    pub signs: Option<Signs>,
}

impl ServedTransfer {
    /// With more that is told of it.
    pub fn telling(self, more: impl FnOnce(Served) -> Served) -> ServedTransfer {
        ServedTransfer { told: self.told.map(more), ..self }
    }
}

/// How a side is ended.
pub(crate) type EndOf<R> = fn(&R, Failure);

/// What ends a receiving side before its time.
pub(crate) struct Bounds<R> {
    /// The room that is kept free there, if some is.
    pub kept_free: Option<KeptFree>,
    /// What it has taken of that by now, in bytes.
    pub taken: fn(&R) -> u64,
    /// How it ends where there is too little, as on a full disk.
    pub full: EndOf<R>,
    /// How it ends where its thread panics.
    pub abort: EndOf<R>,
}

impl Host {
    /// Adds a sending side to its session, and sees it to its end on a thread of its own. `by_then`: how much of it is
    /// done. `end` does what is left to do then, and ends its line.
    pub(crate) fn send<R: Party + Transfer + 'static>(
        &self,
        session: &Arc<Session>,
        served: ServedTransfer,
        run: Arc<R>,
        by_then: fn(&R) -> Done,
        abort: EndOf<R>,
        end: impl FnOnce(&R, Result<Totals>, &Line) + Send + 'static,
    ) -> Result<()> {
        let ServedTransfer { told, is_trial, line, signs } = served;
        let number = run.number();
        session.add(number, run.clone())?;
        session.set_stream_options();
        line.opened();
        let (host, session, work) = (self.strong()?, session.clone(), self.work.clone());
        let failed = run.clone();
        let on_panic = ends_by_panic(line.clone(), session.clone(), number, move |why| abort(&failed, why));
        let see_to_its_end = move || {
            let _work = work;
            let seen = || {
                let (own, peer) = (run.own_accounts(), run.peer_accounts());
                Seen { done: by_then(&run), own, peer, sends: true }
            };
            let watched = Watched { told: told.as_ref(), line: &line, session: &session, is_trial };
            let ended = watched.see_to_its_end(|time| run.wait(time), seen);
            let ended = totals_of(ended, &session).and_then(|totals| {
                let Some(signs) = &signs else {
                    agree::unsigned_as_sender(&*run, Wait::default())?;
                    return Ok(totals);
                };
                let signer = host.signer(signs);
                agree::as_sender(&*run, &signer, totals, Wait::default())?;
                Ok(totals)
            });
            let why = ended.as_ref().err().cloned();
            // Its scan waits for room as long as it has no end.
            if let Some(why) = &why
                && run.ended().is_none()
            {
                abort(&run, why.clone());
            }
            end(&run, ended, &line);
            session.remove(number);
            if let Some(why) = why {
                session.tell_over(number, why);
            }
        };
        thread::guarded("transfer", on_panic, see_to_its_end).map(drop)
    }

    /// Adds a receiving side to its session, and sees it to its end, within its bounds, on a thread of its own.
    pub(crate) fn receive<R: Party + Transfer + 'static>(
        &self,
        session: &Arc<Session>,
        served: ServedTransfer,
        run: Arc<R>,
        bounds: Bounds<R>,
        by_then: impl Fn(&R) -> Done + Send + 'static,
    ) -> Result<()> {
        let ServedTransfer { told, is_trial, line, signs } = served;
        let Bounds { kept_free, taken, full, abort } = bounds;
        let number = run.number();
        if let Err(failure) = session.add(number, run.clone()) {
            run.close();
            return Err(failure);
        }
        session.set_stream_options();
        line.opened();
        let (host, session, work) = (self.strong()?, session.clone(), self.work.clone());
        let begun = run.clone();
        let failed = run.clone();
        let end = move |why| {
            abort(&failed, why);
            failed.close();
        };
        let on_panic = ends_by_panic(line.clone(), session.clone(), number, end);
        let see_to_its_end = move || {
            let _work = work;
            let looks = Cell::new(Looks::new(Instant::now(), taken(&run)));
            let seen = || {
                let (own, peer) = (run.own_accounts(), run.peer_accounts());
                Seen { done: by_then(&run), own, peer, sends: false }
            };
            let wait = |time: Duration| {
                let Some(kept_free) = &kept_free else { return run.wait(time) };
                let until = Instant::now() + time;
                loop {
                    let ended = run.wait(min_free::STEP);
                    if ended.is_some() {
                        return ended;
                    }
                    // Without a link nothing comes.
                    if session.lost_since().is_some() {
                        looks.set(Looks::new(Instant::now(), taken(&run)));
                    } else if let Some(failure) = too_full(kept_free, &looks, taken(&run)) {
                        full(&run, failure);
                    }
                    if Instant::now() >= until {
                        return None;
                    }
                }
            };
            let watched = Watched { told: told.as_ref(), line: &line, session: &session, is_trial };
            let ended = watched.see_to_its_end(wait, seen);
            let ended = totals_of(ended, &session).and_then(|totals| {
                let Some(signs) = &signs else {
                    return agree::unsigned_as_receiver(&*run, totals, Wait::default());
                };
                let signer = host.signer(signs);
                let agreed = agree::as_receiver(&*run, &signer, totals, Wait::default())?;
                Ok(agreed.receiver.statement.totals)
            });
            line.end(&ended, run.stated_root(), by_then(&run));
            // Its client hears that, and not that it was closed.
            if let Err(why) = &ended
                && run.ended().is_none()
            {
                abort(&run, why.clone());
            }
            run.close();
            session.remove(number);
            if let Err(why) = ended {
                tell_when_back(&session, number, why);
            }
        };
        let ends = thread::guarded("transfer", on_panic, see_to_its_end).map(drop);
        // Nobody would see it to its end, and its job would stay locked.
        ends.inspect_err(|_| begun.close())
    }
}

/// Looks at the room that is kept free, if it is time to when so much is taken. Why the transfer ends, if it
/// does.
pub(super) fn too_full(kept: &KeptFree, looks: &Cell<Looks>, taken: u64) -> Option<Failure> {
    let (mut seen, now) = (looks.get(), Instant::now());
    if !seen.is_due(now, taken) {
        return None;
    }
    let short = kept.check(0).err();
    let ends = seen.saw(now, taken, short.is_none().then(|| kept.spare()));
    looks.set(seen);
    short.filter(|_| ends)
}

/// What ends a transfer whose thread panicked: its line says so, `end` ends its side, and its session has it no
/// more.
fn ends_by_panic(
    line: Line,
    session: Arc<Session>,
    number: TransferNumber,
    end: impl FnOnce(Failure) + Send + 'static,
) -> impl FnOnce(Failure) + Send + 'static {
    move |failure| {
        line.tell(Done::default(), Err(&failure));
        end(failure);
        session.remove(number);
    }
}

/// What a transfer did that was [`Watched`] to its end.
fn totals_of(ended: Option<Ended>, session: &Session) -> Result<Totals> {
    let lost = || Failure::new(FailureKind::Connection, "serve", "the session ended");
    match ended {
        Some(ended) => agree::totals_of(ended),
        None => Err(session.failure().unwrap_or_else(lost)),
    }
}

/// What is seen of a transfer.
struct Seen {
    done: Done,
    own: SideAccounts,
    peer: SideAccounts,
    /// Whether we send.
    sends: bool,
}

/// A transfer that is seen to its end.
struct Watched<'a> {
    told: Option<&'a Served>,
    line: &'a Line,
    session: &'a Session,
    is_trial: bool,
}

impl Watched<'_> {
    /// Waits until it has ended, or its session, and tells meanwhile what is `seen`: how much is done, and where the
    /// time goes at both sides.
    fn see_to_its_end(
        &self,
        wait: impl Fn(Duration) -> Option<Ended>,
        seen: impl Fn() -> Seen,
    ) -> Option<Ended> {
        let tell = || {
            // Looked at whether or not it is told: a daemon with slots measures by it.
            let Seen { done, own, peer, sends } = seen();
            let evidence = self.told.map(|told| {
                let (sender, receiver) = if sends { (own.clone(), peer) } else { (peer, own.clone()) };
                told.tell(self.session, done.entries.unwrap_or(0), sender, receiver)
            });
            self.line.note(done, &own, evidence);
        };
        let ended = loop {
            match wait(TELL_EVERY) {
                // Nobody comes back for a measurement.
                None if self.is_trial && self.session.lost_since().is_some() => break None,
                None if !self.session.is_closed() => tell(),
                ended => break ended,
            }
        };
        tell();
        if let Some(told) = self.told {
            told.end(matches!(ended, Some(Ended::Finished(_))));
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::super::HostLimits;
    use super::super::tests::{LIMIT, Stuck, cut_off};
    use super::*;
    use crate::export::Exports;
    use std::sync::{Mutex, mpsc};
    use thalweg_mover::endpoint::synthetic::{NoiseSource, NullDestination};
    use thalweg_mover::endpoint::testing::HeldUp;
    use thalweg_mover::event;
    use thalweg_mover::link::Identity;
    use thalweg_mover::run::receiver::ReceiveRun;
    use thalweg_mover::run::sender::SendRun;
    use thalweg_mover::transfer::{receiver, sender};
    use thalweg_wire::message::{Place, Question, Terms};

    /// The lock of its job would stay with it.
    #[test]
    fn a_transfer_of_which_a_thread_panics_ends_with_that_and_is_put_away() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let session = cut_off(&host, 1);
        let number = TransferNumber(1);
        let (closes, closed) = mpsc::channel();
        let (goes_on, waits) = mpsc::channel();
        drop(goes_on);
        let stuck = Stuck { reached: closes, goes_on: Mutex::new(waits) };
        let (limits, outbox) = (receiver::Limits::default(), session.outbox());
        let terms = Terms::of(1 << 20, 1 << 16);
        let run =
            ReceiveRun::start(number, Arc::new(HeldUp::new(stuck)), terms, limits, outbox, event::nobody());
        let run = run.expect("threads");
        let place = Place { export: None, path: b"/x".to_vec() };
        let question =
            Question::Digest { place, chunk_bytes: 0, follow_links: false, after: None, part: None };
        let line = Line::of_question(&session, &question, Arc::default()).expect("a line");
        let panics = |_: &ReceiveRun| -> Done { panic!("as the test wants it") };
        let served = ServedTransfer { told: None, is_trial: false, line, signs: None };
        let (abort, taken) = (ReceiveRun::abort, |_: &ReceiveRun| 0);
        let bounds = Bounds { kept_free: None, taken, full: abort, abort };
        host.receive(&session, served, run.clone(), bounds, panics).expect("threads");
        closed.recv_timeout(LIMIT).expect("it is put away");
        match run.ended() {
            Some(Ended::Failed(why)) => assert_eq!(why.kind, FailureKind::Internal, "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_trial_whose_link_is_lost_ends_with_that() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let session = cut_off(&host, 1);
        let (number, terms) = (TransferNumber(1), Terms::of(1 << 20, 1 << 16));
        let (limits, outbox) = (receiver::Limits::default(), session.outbox());
        let destination = Arc::new(NullDestination::default());
        let run = ReceiveRun::start(number, destination, terms, limits, outbox, event::nobody());
        let run = run.expect("threads");
        let place = Place { export: None, path: b"/x".to_vec() };
        let question =
            Question::Digest { place, chunk_bytes: 0, follow_links: false, after: None, part: None };
        let line = Line::of_question(&session, &question, Arc::default()).expect("a line");
        let served = ServedTransfer { told: None, is_trial: true, line, signs: None };
        let (abort, taken) = (ReceiveRun::abort, |_: &ReceiveRun| 0);
        let bounds = Bounds { kept_free: None, taken, full: abort, abort };
        let by_then = |_: &ReceiveRun| Done::default();
        host.receive(&session, served, run.clone(), bounds, by_then).expect("threads");
        match run.wait(LIMIT) {
            Some(Ended::Failed(why)) => assert_eq!(why.kind, FailureKind::Connection, "{why}"),
            other => panic!("{other:?}"),
        }
    }

    /// Else the thread of its scan, and what that holds open, would stay as long as the daemon runs.
    #[test]
    fn a_trial_that_is_sent_and_whose_link_is_lost_ends_with_that_too() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let session = cut_off(&host, 1);
        let (number, terms) = (TransferNumber(1), Terms::of(1 << 20, 1 << 16));
        let (limits, outbox) = (sender::Limits::for_path(&terms, None), session.outbox());
        // More files than may be under way.
        let source = Arc::new(NoiseSource { bytes: 1 << 40, file_bytes: 1 });
        let run = SendRun::new(number, source, terms, limits, outbox, event::nobody());
        let place = Place { export: None, path: b"/x".to_vec() };
        let question =
            Question::Digest { place, chunk_bytes: 0, follow_links: false, after: None, part: None };
        let line = Line::of_question(&session, &question, Arc::default()).expect("a line");
        let served = ServedTransfer { told: None, is_trial: true, line, signs: None };
        let by_then = |_: &SendRun| Done::default();
        let end = |_: &SendRun, _: Result<Totals>, _: &Line| {};
        host.send(&session, served, run.clone(), by_then, SendRun::abort, end).expect("threads");
        run.start().expect("a thread");
        match run.wait(LIMIT) {
            Some(Ended::Failed(why)) => assert_eq!(why.kind, FailureKind::Connection, "{why}"),
            other => panic!("{other:?}"),
        }
        let until = Instant::now() + LIMIT;
        while Arc::strong_count(&run) > 1 {
            assert!(Instant::now() < until, "its scan goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
