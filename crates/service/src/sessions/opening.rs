//! Transfers of files as a server opens them.

use super::course::{Bounds, ServedTransfer};
use super::vouched::whose;
use super::{Host, Origin, removal};
use crate::export::KeptFree;
use crate::log::{Done, Line, of_session};
use crate::min_free;
use crate::published::{Progress, Served};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::local::destination::{DestinationPlace, LocalDestination};
use thalweg_mover::endpoint::local::source::{LocalSource, ScanOptions, SourceRoot};
use thalweg_mover::endpoint::sparing::SparingSource;
use thalweg_mover::endpoint::synthetic::{NoiseSource, NullDestination};
use thalweg_mover::endpoint::{Destination, Source};
use thalweg_mover::event::{self, Event, Events};
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::filter::Filter;
use thalweg_mover::run::copy;
use thalweg_mover::run::expected::Expected;
use thalweg_mover::run::party::Party;
use thalweg_mover::run::receiver::ReceiveRun;
use thalweg_mover::run::sender::SendRun;
use thalweg_mover::run::session::{Session, check_memory};
use thalweg_mover::transfer::{receiver, sender};
use thalweg_wire::hello::Cipher;
use thalweg_wire::message::{
    Message, Open, Opened, Place, Pull, PullTrial, Push, PushTrial, Request, SourceForm, Terms, Totals,
};

/// A client that said nothing for three heartbeats and is said to have begun anew is gone.
pub(super) const SILENCE: Duration = Duration::from_secs(3);
/// What is heard later was not on its way before.
pub(super) const IN_FLIGHT: Duration = Duration::from_millis(500);
/// Time for a session that ends, here or in a mover that ends, to put away what it received: on a slow disk a sync
/// takes long.
pub(super) const CLOSING: Duration = Duration::from_secs(30);

impl Host {
    pub(super) fn open(&self, session: &Arc<Session>, open: &Open) {
        let number = open.transfer;
        let line = Line::of_open(session, open, self.failures.clone());
        let line = line.counted(&self.metrics, self.counted_export(open.places()));
        // Before anything is made at the place.
        let may_begin = self.check_form(session).and_then(|()| check_memory(&open.terms));
        if let Some(share) = self.export_totals.share_at(open.places()) {
            session.share_transfer(number, share);
        }
        let may_begin = may_begin.and_then(|()| self.check_guest(session, open));
        let opened = may_begin.and_then(|()| self.open_as_asked(session, open, &line));
        let starts = opened.is_ok();
        let opened = opened.unwrap_or_else(|failure| {
            // What the client says to it now crossed our answer.
            session.remove(number);
            line.tell(Done::default(), Err(&failure));
            Opened::Refused(failure)
        });
        if let Err(failure) = session.say(Message::Opened(number, opened)) {
            of_session!(info, session, %failure, "the client is gone before its transfer began");
        }
        if starts
            && let Some(run) = session.transfer(number).and_then(|transfer| transfer.files_sender())
            && let Err(failure) = run.start()
        {
            run.abort(failure);
        }
    }

    fn open_as_asked(&self, session: &Arc<Session>, open: &Open, line: &Line) -> Result<Opened> {
        self.exports().check_request(&open.request)?;
        let is_ephemeral = self.identity.signatory().is_ephemeral;
        match &open.request {
            Request::Push(push) => {
                self.open_push(session, open, push, line)?;
                Ok(Opened::Push { is_ephemeral })
            }
            Request::Pull(pull) => {
                let source = self.open_pull(session, open, pull, line)?;
                Ok(Opened::Pull { source, is_ephemeral })
            }
            Request::FlowPush { place, source, flow } => {
                let flow = self.within_memory(flow);
                self.receive_flows(session, open, (place, source, &flow), line)?;
                Ok(Opened::FlowPush { is_ephemeral, window_bytes: flow.window_bytes })
            }
            Request::FlowPull { place, flow } => {
                let flow = self.within_memory(flow);
                let source = self.send_flows(session, open, (place, &flow), line)?;
                Ok(Opened::FlowPull { source, is_ephemeral, window_bytes: flow.window_bytes })
            }
            Request::Frames { place, frames } => self.open_frames(session, open, (place, frames), line),
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

    fn open_push(&self, session: &Arc<Session>, open: &Open, push: &Push, line: &Line) -> Result<()> {
        let mut kept_free = None;
        let mut stated = None;
        // What comes to the one place that is served later goes where a link there leads.
        let mut no_link = false;
        let destination: Arc<dyn Destination> = match push.trial {
            None => {
                let (destination, kept, place) = self.open_destination(session, &open.terms, push)?;
                (kept_free, stated) = (kept, Some(place));
                no_link = destination.renames() && self.exports().is_one_place();
                Arc::new(destination)
            }
            Some(PushTrial::Scratch { bytes_max }) => {
                let place = self.exports_of(session)?.resolve(&push.place, true)?;
                kept_free = place.kept_free(bytes_max)?;
                let place = DestinationPlace { path: path_of(place.path), below: place.below };
                let terms = open.terms.clone();
                Arc::new(LocalDestination::open_scratch(&place, &push.source, terms, bytes_max)?)
            }
            Some(PushTrial::Null) => {
                // Nothing is written; who may not even name the place shall not measure either.
                self.exports_of(session)?.resolve(&push.place, false)?;
                Arc::new(NullDestination::default())
            }
        };
        let served = self.served(session, open, line, stated);
        let run = ReceiveRun::start(
            open.transfer,
            destination,
            open.terms.clone(),
            receiver::Limits::default(),
            session.outbox(),
            event::nobody(),
        )?;
        if let SourceForm::Single { name } = &push.source {
            run.expect(Expected::one(name, no_link));
        }
        let come = run.clone();
        let served = served.telling(|told| told.with_progress(move || come_of(&come)));
        let by_then = |run: &ReceiveRun| {
            let progress = run.progress();
            let Totals {
                deleted, failed, bytes_resumed: resumed, bytes_same, chunks_repaired: repaired, ..
            } = run.totals();
            let compared = bytes_same.saturating_add(run.compared_hole_bytes());
            let bytes = progress.verified_bytes.saturating_sub(compared);
            let by_then = Done::by_then(progress.settled_entries, bytes);
            Done { deleted, failed, damaged: run.damaged_entries(), resumed, repaired, ..by_then }
        };
        let taken = |run: &ReceiveRun| {
            let progress = run.progress();
            min_free::taken(progress.verified_bytes, progress.settled_entries)
        };
        let bounds = Bounds { kept_free, taken, full: ReceiveRun::run_out, abort: ReceiveRun::abort };
        self.receive(session, served, run, bounds, by_then)
    }

    /// Begins to tell of what is opened. `stated`: where we write.
    pub(crate) fn served(
        &self,
        session: &Session,
        open: &Open,
        line: &Line,
        stated: Option<Place>,
    ) -> ServedTransfer {
        ServedTransfer {
            told: Served::begin(self.state.as_deref(), open, &session.peer.to_string()),
            is_trial: open.is_trial(),
            line: line.clone(),
            signs: Host::signs(session, open, stated),
        }
    }

    fn open_destination(
        &self,
        session: &Arc<Session>,
        terms: &Terms,
        push: &Push,
    ) -> Result<(LocalDestination, Option<KeptFree>, Place)> {
        self.when_free(session, &terms.job_key, || {
            let place = self.exports_of(session)?.resolve(&push.place, !terms.dry_run)?;
            if terms.delete_max.is_some() {
                place.check_delete("open")?;
            }
            // A dry run takes no room.
            let dry_run = terms.dry_run;
            let room = if dry_run { place.room()? } else { place.kept_free(0)? };
            let (guard, stated) = (place.rights.guard, place.stated());
            let destination = LocalDestination::open(
                DestinationPlace { path: path_of(place.path), below: place.below },
                &push.source,
                place.trailing_slash,
                terms.clone(),
                self.state.clone(),
                Filter::new(push.filter.clone())?,
            )?;
            let spare = room.as_ref().map(KeptFree::spare);
            Ok((destination.guarded(guard, spare), room.filter(|_| !dry_run), stated))
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

    /// Another session of the same client, or of a guest of it, that receives for this job.
    fn holder(&self, session: &Arc<Session>, job_key: &[u8; 16]) -> Option<Arc<Session>> {
        let ours = whose(session);
        let others: Vec<_> = self.sessions().values().cloned().collect();
        others.into_iter().find(|other| {
            !Arc::ptr_eq(other, session)
                && whose(other).matches(&ours)
                && other.transfers().iter().any(|transfer| transfer.writes_for(job_key))
        })
    }

    fn open_pull(&self, session: &Arc<Session>, open: &Open, pull: &Pull, line: &Line) -> Result<SourceForm> {
        if let Some(name) = &open.terms.congestion {
            check_congestion(name)?;
        }
        let (mut source, mut form) = self.pulled_source(session, pull, &open.terms)?;
        let removes = open.terms.removes_source;
        let goes = removes && !open.terms.dry_run;
        if goes && self.outlast_removal(session, &open.terms.job_key) {
            // It was opened while files of it went.
            (source, form) = self.pulled_source(session, pull, &open.terms)?;
        }
        let limits = sender::Limits::for_path(&open.terms, session.rtt());
        let served = self.served(session, open, line, None);
        let notes = logged_notes(session);
        let run = SendRun::new(open.transfer, source, open.terms.clone(), limits, session.outbox(), notes);
        let (kept, sent) = (run.clone(), run.clone());
        let served = served.telling(|told| told.with_rate(move || kept.asked_rate()));
        let served = served.telling(|told| told.with_progress(move || sent_of(&sent)));
        if removes {
            run.remove_sources_for_peer(pull.removes_at_end)?;
        }
        let listed = goes.then(|| self.list_removal(session, &run)).transpose()?;
        let by_then = |run: &SendRun| {
            let progress = run.progress();
            let (resumed, repaired) = (progress.bytes_resumed, progress.repairs);
            let (failed, damaged) = (progress.entries_failed, progress.entries_damaged);
            let bytes = progress.bytes_verified.saturating_sub(progress.bytes_same);
            Done { failed, damaged, resumed, repaired, ..Done::by_then(progress.entries_settled, bytes) }
        };
        let (patience, theirs) = (self.patience(), session.clone());
        let end = move |run: &SendRun, ended: Result<Totals>, line: &Line| {
            let root = run.stated_root();
            if removes {
                removal::finish(run, &ended, &theirs, patience);
            }
            drop(listed);
            line.end(&ended, root, Done { removed: run.sources_removed(), ..by_then(run) });
        };
        self.send(session, served, run, by_then, SendRun::abort, end)?;
        Ok(form)
    }

    /// What a pull reads, and which form the source has.
    pub(super) fn pulled_source(
        &self,
        session: &Session,
        pull: &Pull,
        terms: &Terms,
    ) -> Result<(Arc<dyn Source>, SourceForm)> {
        removal::check(terms, pull)?;
        let removes = terms.removes_source;
        let exports = self.exports_of(session)?;
        let held = self.places.open(Origin::of_session(session).source, pull.places.len())?;
        let roots = pull
            .places
            .iter()
            .map(|place| {
                let place = removal::resolve(&exports, place, removes)?;
                Ok(SourceRoot {
                    path: path_of(place.path),
                    contents: place.trailing_slash,
                    below: place.below,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let options = ScanOptions {
            filter: Filter::new(pull.filter.clone())?,
            only: pull.only.clone(),
            preserve: terms.preserve,
            one_file_system: pull.one_file_system,
            follow_links: pull.follow_links,
            part: terms.part,
            direct: terms.disk.source.direct,
        };
        let opened: (Arc<dyn Source>, SourceForm) = match pull.trial {
            Some(PullTrial::Noise { bytes, file_bytes }) => {
                (Arc::new(NoiseSource { bytes, file_bytes }), SourceForm::Many)
            }
            Some(PullTrial::Source { bytes_max }) => {
                let source = LocalSource::open(roots, options)?.keeping(held);
                let form = source.form();
                (Arc::new(SparingSource::new(Arc::new(source), bytes_max)), form)
            }
            None => {
                let mut source = LocalSource::open(roots, options)?.keeping(held);
                if removes {
                    copy::refuse_sources(&source)?;
                    source.expect_removal();
                }
                let form = source.form();
                (Arc::new(source), form)
            }
        };
        Ok(opened)
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
    let failure = Failure::new(FailureKind::Unsupported, failure::CHOOSE_CONGESTION, cause);
    Err(failure.because(Reason::CongestionRefused))
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

pub(super) fn is_silent(session: &Session) -> bool {
    session.heard_at().is_some_and(|at| at.elapsed() > SILENCE)
}

pub(crate) fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}
