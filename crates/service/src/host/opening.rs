//! Transfers of files as a server opens them, and sees them to their end.

use super::Host;
use crate::export::KeptFree;
use crate::frames::tell_when_back;
use crate::log::{Done, Line, of_session};
use crate::published::{Progress, Served};
use std::cell::Cell;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::local::destination::{DestinationPlace, LocalDestination};
use thalweg_mover::endpoint::local::source::{LocalSource, ScanOptions, SourceRoot};
use thalweg_mover::endpoint::sparing::SparingSource;
use thalweg_mover::endpoint::synthetic::{NoiseSource, NullDestination};
use thalweg_mover::endpoint::{Destination, Source};
use thalweg_mover::event::{self, Event, Events};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::manifest::filter::Filter;
use thalweg_mover::run::Ended;
use thalweg_mover::run::agree;
use thalweg_mover::run::party::Party;
use thalweg_mover::run::receiver::ReceiveRun;
use thalweg_mover::run::sender::SendRun;
use thalweg_mover::run::session::{Session, Transfer, check_memory};
use thalweg_mover::run::thread;
use thalweg_mover::transfer::{receiver, sender};
use thalweg_wire::account::SideAccounts;
use thalweg_wire::hello::Cipher;
use thalweg_wire::message::{Direction, Message, Open, Opened, SourceForm, Totals, Trial};

/// A client that said nothing for three heartbeats and is said to have begun anew is gone.
const SILENCE: Duration = Duration::from_secs(3);
/// What is heard later was not on its way before.
const IN_FLIGHT: Duration = Duration::from_millis(500);
/// Time between two tellings of where a transfer's time goes.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Time for a session that ends, here or in a mover that ends, to put away what it received: on a slow disk a sync takes long.
const CLOSING: Duration = Duration::from_secs(30);

/// How a receiving side is ended.
pub(crate) type EndOf<R> = fn(&R, Failure);

impl Host {
    pub(super) fn open(&self, session: &Arc<Session>, open: Open) {
        let number = open.transfer;
        let form = open.source.clone();
        let line = Line::begin(session, &open, self.failures.clone());
        let instance = self.instances.fetch_add(1, Ordering::Relaxed);
        // Before anything is made at the place.
        let may_begin = self.check_form(session).and_then(|()| check_memory(&open.terms));
        if let (Some(frames), Ok(())) = (open.frames.clone(), &may_begin) {
            return self.open_frames(session, open, &frames, &line);
        }
        let opened = may_begin.and_then(|()| match (open.direction, open.flow.clone()) {
            (Direction::Push, None) => self.open_push(session, open, &line).map(|()| form.clone()),
            (Direction::Pull, None) => self.open_pull(session, open, &line),
            (Direction::Push, Some(flow)) => {
                self.receive_flows(session, open, flow, &line).map(|()| form.clone())
            }
            (Direction::Pull, Some(flow)) => self.send_flows(session, open, flow, &line),
        });
        let (source, refused) = match opened {
            Ok(source) => (source, None),
            Err(failure) => {
                // What the client says to it now crossed our answer.
                session.remove(number);
                line.tell(Done::default(), Err(&failure));
                (form, Some(failure))
            }
        };
        let starts = refused.is_none();
        let said = session.say(Message::Opened(Opened { transfer: number, source, instance, refused }));
        if let Err(failure) = said {
            of_session!(info, session, %failure, "the client is gone before its transfer began");
        }
        if starts
            && let Some(Transfer::Send(run)) = session
                .transfers()
                .into_iter()
                .find(|t| matches!(t, Transfer::Send(run) if run.number() == number))
            && let Err(failure) = run.start()
        {
            run.abort(failure);
        }
    }

    /// Whether data may travel as who began the session asked for.
    fn check_form(&self, session: &Session) -> Result<()> {
        if session.cipher == Cipher::Tls || !self.limits.requires_tls {
            return Ok(());
        }
        let cause = "this daemon moves data in TLS records only (--require-tls): ask for `--cipher tls`";
        Err(Failure::new(FailureKind::Permission, "open", cause))
    }

    fn open_push(&self, session: &Arc<Session>, open: Open, line: &Line) -> Result<()> {
        let is_trial = open.trial.is_some();
        let mut kept_free = None;
        let destination: Arc<dyn Destination> = match open.trial {
            None => {
                let (destination, kept) = self.open_destination(session, &open)?;
                kept_free = kept;
                Arc::new(destination)
            }
            Some(Trial::Scratch { bytes_max }) => {
                let place = self.exports().resolve(&open.places[0], true)?;
                kept_free = place.kept_free(bytes_max)?;
                let place = DestinationPlace { path: path_of(place.path), below: place.below };
                let terms = open.terms.clone();
                Arc::new(LocalDestination::open_scratch(&place, &open.source, terms, bytes_max)?)
            }
            Some(_) => {
                // Nothing is written; who may not even name the place shall not measure either.
                self.exports().resolve(&open.places[0], false)?;
                Arc::new(NullDestination::default())
            }
        };
        let told = Served::begin(self.state.as_deref(), &open, &session.peer.to_string());
        let run = ReceiveRun::start(
            open.transfer,
            destination,
            open.terms,
            receiver::Limits::default(),
            session.outbox(),
            event::nobody(),
        )?;
        let come = run.clone();
        let told = told.map(|told| told.with_progress(move || come_of(&come)));
        let told = (told, is_trial, line.clone());
        let transfer = Transfer::Receive(run.clone());
        let by_then = |run: &ReceiveRun| {
            let progress = run.progress();
            let by_then = Done::by_then(progress.settled_entries, progress.verified_bytes);
            Done { deleted: run.totals().deleted, ..by_then }
        };
        let full: EndOf<ReceiveRun> = ReceiveRun::run_out;
        let abort: EndOf<ReceiveRun> = ReceiveRun::abort;
        self.receive(session, transfer, told, run, (kept_free, full, abort), by_then)
    }

    fn open_destination(
        &self,
        session: &Arc<Session>,
        open: &Open,
    ) -> Result<(LocalDestination, Option<KeptFree>)> {
        self.when_free(session, &open.terms.job_key, || {
            let place = self.exports().resolve(&open.places[0], !open.terms.dry_run)?;
            if open.terms.delete_max.is_some() {
                place.check_delete("open")?;
            }
            // A dry run takes no room.
            let dry_run = open.terms.dry_run;
            let room = if dry_run { place.room()? } else { place.kept_free(0)? };
            let guard = place.rights.guard;
            let destination = LocalDestination::open(
                DestinationPlace { path: path_of(place.path), below: place.below },
                &open.source,
                place.trailing_slash,
                open.terms.clone(),
                self.state.clone(),
                Filter::new(open.filter.clone())?,
            )?;
            let spare = room.as_ref().map(KeptFree::spare);
            Ok((destination.guarded(guard, spare), room.filter(|_| !dry_run)))
        })
    }

    /// Where the job's lock is held by an older session of the same client that was cut off, this is that client
    /// again under the same command: the older session ends, what it made durable stays.
    pub(crate) fn when_free<T>(
        &self,
        session: &Arc<Session>,
        job_key: &[u8; 16],
        open: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let since = Instant::now();
        loop {
            let busy = match open() {
                Err(failure) if failure.kind == FailureKind::Busy => failure,
                other => return other,
            };
            match self.holder(session, job_key) {
                Some(holder) if holder.lost_since().is_some() || is_silent(&holder) => {
                    let older = holder.name();
                    of_session!(
                        info,
                        session,
                        %older,
                        "a client begins its job anew; its older session ends"
                    );
                    let cause = "the same client began the job anew";
                    holder.close(Some(Failure::new(FailureKind::Connection, "serve", cause)));
                }
                // It lives: what it says now was not on its way when we began to ask.
                Some(holder) if holder.heard_at().is_some_and(|at| at > since + IN_FLIGHT) => {
                    return Err(busy);
                }
                // Nobody's, or one that is just closing.
                None if since.elapsed() > CLOSING => return Err(busy),
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Another session of the same client that receives for this job.
    fn holder(&self, session: &Arc<Session>, job_key: &[u8; 16]) -> Option<Arc<Session>> {
        let others: Vec<_> = self.sessions().values().cloned().collect();
        others.into_iter().find(|other| {
            !Arc::ptr_eq(other, session)
                && other.peer.matches(&session.peer)
                && other.transfers().iter().any(|transfer| transfer.writes_for(job_key))
        })
    }

    fn open_pull(&self, session: &Arc<Session>, open: Open, line: &Line) -> Result<SourceForm> {
        if let Some(name) = &open.terms.congestion {
            check_congestion(name)?;
        }
        let exports = self.exports();
        let roots = open
            .places
            .iter()
            .map(|place| {
                let place = exports.resolve(place, false)?;
                Ok(SourceRoot {
                    path: path_of(place.path),
                    contents: place.trailing_slash,
                    below: place.below,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let options = ScanOptions {
            filter: Filter::new(open.filter.clone())?,
            only: open.only.clone(),
            preserve: open.terms.preserve,
            one_file_system: open.one_file_system,
            follow_links: false,
            direct: open.terms.disk.source.direct,
        };
        let is_trial = open.trial.is_some();
        let (source, form): (Arc<dyn Source>, SourceForm) = match open.trial {
            Some(Trial::Noise { bytes, file_bytes }) => {
                (Arc::new(NoiseSource { bytes, file_bytes }), SourceForm::Many)
            }
            trial => {
                let source = LocalSource::open(roots, options)?;
                let form = source.form();
                match trial {
                    Some(Trial::Source { bytes_max }) => {
                        (Arc::new(SparingSource::new(Arc::new(source), bytes_max)), form)
                    }
                    _ => (Arc::new(source), form),
                }
            }
        };
        let limits = sender::Limits::for_path(&open.terms, session.rtt());
        let told = Served::begin(self.state.as_deref(), &open, &session.peer.to_string());
        let notes = logged_notes(session);
        let run = SendRun::new(open.transfer, source, open.terms, limits, session.outbox(), notes);
        let (kept, sent) = (run.clone(), run.clone());
        let told = told.map(|told| told.with_rate(move || kept.asked_rate()));
        let told = told.map(|told| told.with_progress(move || sent_of(&sent)));
        session.add(open.transfer, Transfer::Send(run.clone()))?;
        session.tune_streams();
        let (host, session, work) = (self.strong()?, session.clone(), self.work.clone());
        let line = line.clone();
        let (failed, theirs, its_line) = (run.clone(), session.clone(), line.clone());
        let on_panic = move |failure: Failure| {
            its_line.tell(Done::default(), Err(&failure));
            failed.abort(failure);
            theirs.remove(open.transfer);
        };
        let see_to_its_end = move || {
            let _work = work;
            let seen = || (run.progress().entries_settled, run.own_accounts(), run.peer_accounts());
            let ended = watch(told.as_ref(), &session, is_trial, |time| run.wait(time), seen);
            let ended = totals_of(ended, &session).and_then(|totals| {
                let signer = host.signer(&session);
                let agreed = agree::as_sender(&*run, &signer, totals, agree::STATEMENT_TIMEOUT)?;
                Ok((totals, agreed.sender.statement.root))
            });
            let progress = run.progress();
            line.end(&ended, Done::by_then(progress.entries_settled, progress.bytes_verified));
            session.remove(run.number());
        };
        thread::guarded("transfer", on_panic, see_to_its_end)?;
        Ok(form)
    }

    /// Adds a receiving side to its session, and sees it to its end, on a thread of its own. It is aborted if that panics, and
    /// ends as on a `full` disk where less is free than is kept.
    pub(crate) fn receive<R: Party + Send + Sync + 'static>(
        &self,
        session: &Arc<Session>,
        transfer: Transfer,
        (told, is_trial, line): (Option<Served>, bool, Line),
        run: Arc<R>,
        (kept_free, full, abort): (Option<KeptFree>, EndOf<R>, EndOf<R>),
        by_then: impl Fn(&R) -> Done + Send + 'static,
    ) -> Result<()> {
        let number = run.number();
        if let Err(failure) = session.add(number, transfer) {
            run.close();
            return Err(failure);
        }
        session.tune_streams();
        let (host, session, work) = (self.strong()?, session.clone(), self.work.clone());
        let begun = run.clone();
        let (failed, theirs, its_line) = (run.clone(), session.clone(), line.clone());
        let on_panic = move |failure: Failure| {
            its_line.tell(Done::default(), Err(&failure));
            abort(&failed, failure);
            failed.close();
            theirs.remove(number);
        };
        let see_to_its_end = move || {
            let was_short = Cell::new(false);
            let seen = || (by_then(&run).entries.unwrap_or(0), run.peer_accounts(), run.own_accounts());
            let wait = |time: Duration| {
                let ended = run.wait(time);
                // Without a link nothing comes.
                let looks = ended.is_none() && session.lost_since().is_none();
                match kept_free.as_ref().filter(|_| looks).map(|kept| kept.check(0)) {
                    // What another one has reserved may be given back at once.
                    Some(Err(failure)) if was_short.replace(true) => full(&run, failure),
                    Some(Err(_)) => {}
                    _ => was_short.set(false),
                }
                ended
            };
            let ended = watch(told.as_ref(), &session, is_trial, wait, seen);
            let why = match &ended {
                Some(Ended::Failed(why)) if session.lost_since().is_some() => Some(why.clone()),
                _ => None,
            };
            let ended = totals_of(ended, &session).and_then(|totals| {
                let signer = host.signer(&session);
                let agreed = agree::as_receiver(&*run, &signer, totals, agree::STATEMENT_TIMEOUT)?;
                Ok((agreed.receiver.statement.totals, agreed.receiver.statement.root))
            });
            line.end(&ended, by_then(&run));
            run.close();
            session.remove(number);
            // Who is cut off may not come back for long.
            drop((host, told, kept_free, by_then, run, work));
            if let Some(why) = why {
                tell_when_back(&session, number, why);
            }
        };
        let ends = thread::guarded("transfer", on_panic, see_to_its_end).map(drop);
        // Nobody would see it to its end, and its job would stay locked.
        ends.inspect_err(|_| begun.close())
    }
}

/// Only what everybody on this machine may choose: on a client's word no module is loaded.
pub(crate) fn check_congestion(name: &str) -> Result<()> {
    let allowed = thalweg_sys::socket::allowed_congestion().unwrap_or_default();
    if allowed.iter().any(|known| known == name) {
        return Ok(());
    }
    let cause =
        format!("the congestion control `{name}` is not permitted here; permitted: {}", allowed.join(", "));
    Err(Failure::new(FailureKind::Unsupported, failure::CHOOSE_CONGESTION, cause))
}

/// What a sender notes, as that a layout cannot be read, stands in the daemon's log. Of copies its client is told by no
/// message.
pub(crate) fn logged_notes(session: &Arc<Session>) -> Events {
    // Its transfers would keep it.
    let session = Arc::downgrade(session);
    Arc::new(move |event| {
        if let (Event::Note(text), Some(session)) = (event, session.upgrade()) {
            of_session!(info, &session, %text, "note");
        }
    })
}

/// How much of a copy is sent.
fn sent_of(run: &SendRun) -> Progress {
    let progress = run.progress();
    let settled = progress.bytes_verified.saturating_add(progress.bytes_unmoved);
    Progress::of_side(settled, progress.bytes_offered, run.scan_totals().is_some())
}

/// How much of a copy has come.
fn come_of(run: &ReceiveRun) -> Progress {
    let totals = run.scan_totals();
    let all = totals.as_ref().map(|totals| totals.bytes.saturating_add(run.unlinked_bytes()));
    let settled = run.progress().verified_bytes.saturating_add(run.unmoved_bytes());
    Progress::of_side(settled, all.unwrap_or_else(|| run.offered().1), totals.is_some())
}

fn is_silent(session: &Session) -> bool {
    session.heard_at().is_some_and(|at| at.elapsed() > SILENCE)
}

pub(crate) fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// What a transfer did that [`watch`] saw to its end.
pub(crate) fn totals_of(ended: Option<Ended>, session: &Session) -> Result<Totals> {
    let lost = || Failure::new(FailureKind::Connection, "serve", "the session ended");
    match ended {
        Some(ended) => agree::totals_of(ended),
        None => Err(session.failure().unwrap_or_else(lost)),
    }
}

/// Waits until a transfer has ended, or its session, and tells meanwhile what is `seen`: entries settled, and where the
/// time goes at the sending and at the receiving side.
pub(crate) fn watch(
    told: Option<&Served>,
    session: &Session,
    is_trial: bool,
    wait: impl Fn(Duration) -> Option<Ended>,
    seen: impl Fn() -> (u64, SideAccounts, SideAccounts),
) -> Option<Ended> {
    let tell = || {
        // Looked at whether or not it is told: a daemon with slots measures by it.
        let (entries, sender, receiver) = seen();
        if let Some(told) = told {
            told.tell(session, entries, sender, receiver);
        }
    };
    let ended = loop {
        match wait(TELL_EVERY) {
            // Nobody comes back for a measurement.
            None if is_trial && session.lost_since().is_some() => break None,
            None if !session.is_closed() => tell(),
            ended => break ended,
        }
    };
    tell();
    if let Some(told) = told {
        told.end(matches!(ended, Some(Ended::Finished(_))));
    }
    ended
}
