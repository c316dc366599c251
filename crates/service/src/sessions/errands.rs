//! A copy that a client has this server run as the client of another one.
//!
//! 1. It may be sent there ([`ErrandsTo`]), and its client may do at this end what the copy does here: the place is one
//!    of the exports, looked up with the client's ticket, with all that holds for a transfer of its own.
//! 2. A thread of its own copies; the thread of the question tells, and looks whether the client is there.
//! 3. Without it the copy stops in order: what was durable stays for the next attempt.
//!
//! Not here: what the other server permits; this one is a guest there.
//!
//! [`ErrandsTo`]: crate::errands::ErrandsTo

use super::course::too_full;
use super::opening::{CLOSING, is_silent};
use super::{Host, Origin, by_of, check_congestion, path_of};
use crate::errands::report::ReportTold;
use crate::errands::telling::{Next, Telling};
use crate::export::KeptFree;
use crate::log::{DRY_RUN, FILES, PULL, PUSH, of_session};
use crate::metrics::Labels;
use crate::min_free::{self, Looks};
use crate::published::{self, Progress, Publisher, State};
use crate::tickets::{have_one_holder, holder_of};
use counting::Counting;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::local::destination::{DestinationPlace, LocalDestination};
use thalweg_mover::endpoint::local::source::{LocalSource, ScanOptions, SourceRoot};
use thalweg_mover::endpoint::{Destination, Source};
use thalweg_mover::event::Event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::filter::Filter;
use thalweg_mover::link::{Fingerprint, Identity, ServerTrust, client_config};
use thalweg_mover::mutex::lock;
use thalweg_mover::plan;
use thalweg_mover::run::client::{LinkSettings, TcpConnect};
use thalweg_mover::run::copy::{
    self, EvidenceSink, Fidelity, From, GivenDestination, GivenSource, Meter, Movement, Remembered, Report,
    Selection, Stop, To, Watch, Wishes,
};
use thalweg_mover::run::far_mover::{FarMover, OnBegin};
use thalweg_mover::run::session::{Session, check_memory};
use thalweg_mover::run::steer::{Rate, streams_most};
use thalweg_mover::run::{LineSink, ReceiptSink, thread};
use thalweg_wire::hello::Cipher;
use thalweg_wire::limits;
use thalweg_wire::message::{
    Errand, ErrandCounts, ErrandTold, PartOf, Place, SourceForm, Terms, TransferNumber,
};

/// What metrics have of one.
mod counting;

/// Copies that run at a time: each has threads, a session and memory of its own.
const AT_ONCE: usize = 64;
/// Of these for one holder of a ticket, in however many sessions: a quarter, and as many as a command has.
const OF_HOLDER_MAX: usize = AT_ONCE / 4;
const _: () = assert!(OF_HOLDER_MAX >= limits::TRANSFERS_MAX);
/// Between two looks whether the client is there, and at how far the copy is.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Between two signs of life.
const ALIVE_EVERY: Duration = Duration::from_secs(2);
/// Between two looks whether an older copy is over.
const WAIT_STEP: Duration = Duration::from_millis(20);
const RUN: &str = "run a copy to another daemon";

/// Copies that run for clients.
#[derive(Default)]
pub(super) struct Errands(Mutex<Vec<Arc<Running>>>);

/// The same command again has the same.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    client: Fingerprint,
    address: String,
    sends: bool,
    sources: Vec<Place>,
    destination: Place,
    part: Option<PartOf>,
}

/// One of them.
pub(super) struct Running {
    session: Arc<Session>,
    key: Key,
    stop: Arc<Stop>,
    /// Its session with the other server, while that lasts.
    far: Mutex<Weak<Session>>,
    /// Streams that it may have, once that is known.
    streams: AtomicUsize,
    /// Why it ends, where that is for want of something here.
    why: Mutex<Option<Failure>>,
}

/// One that runs until this goes.
struct Begun<'a> {
    errands: &'a Errands,
    running: Arc<Running>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        lock(&self.errands.0).retain(|running| !Arc::ptr_eq(running, &self.running));
    }
}

impl Errands {
    /// All of them.
    pub fn running(&self) -> Vec<Arc<Running>> {
        lock(&self.0).clone()
    }

    /// One begins. Where the same copy runs for a client that is gone, that one stops first; it is waited for.
    ///
    /// # Errors
    /// `Busy` if it goes on, or where there are too many.
    fn begin(&self, session: &Arc<Session>, key: Key) -> Result<Begun<'_>> {
        let since = Instant::now();
        let busy = |cause: &str| Err(Failure::new(FailureKind::Busy, RUN, cause));
        loop {
            let mut all = lock(&self.0);
            match all.iter().find(|running| running.key == key) {
                Some(older) if older.is_left() => older.stop.stop(),
                Some(_) => {}
                None => {
                    let is_theirs = |running: &&Arc<Running>| have_one_holder(&running.session, session);
                    if all.iter().filter(is_theirs).count() >= OF_HOLDER_MAX || all.len() >= AT_ONCE {
                        return busy("as many such copies run as may at the same time");
                    }
                    let (far, why) = (Mutex::new(Weak::new()), Mutex::default());
                    let (session, stop, streams) = (session.clone(), Arc::default(), AtomicUsize::new(0));
                    let running = Arc::new(Running { session, key, stop, far, streams, why });
                    all.push(running.clone());
                    return Ok(Begun { errands: self, running });
                }
            }
            drop(all);
            if since.elapsed() > CLOSING {
                return busy("the same copy is under way");
            }
            std::thread::sleep(WAIT_STEP);
        }
    }
}

/// Whether nothing turns how many streams it has.
fn is_held_still(errand: &Errand) -> bool {
    errand.knobs.holds_still || errand.knobs.streams.is_some() || errand.terms.yields || errand.terms.dry_run
}

/// Streams of a copy by this plan that nobody else may have, of those that it was given.
fn kept_of(plan: &plan::Plan, holds_still: bool, given: u16) -> u16 {
    let most = if holds_still { plan.streams.value } else { streams_most(plan) };
    most.min(given)
}

impl Running {
    /// That of who asked for it.
    pub fn asker(&self) -> &Session {
        &self.session
    }

    /// That with the other server, while it lasts.
    pub fn far(&self) -> Option<Arc<Session>> {
        lock(&self.far).upgrade()
    }

    /// From now on so many streams are its own, whether they stand or not.
    pub fn take_streams(&self, streams: u16) {
        self.streams.store(streams.into(), Ordering::Release);
    }

    /// Those that it may have, or has.
    pub fn streams(&self) -> usize {
        let stand = self.far().map_or(0, |far| far.streams().len());
        stand.max(self.streams.load(Ordering::Acquire))
    }

    /// Stops it in order, and says why.
    pub fn end(&self, why: Failure) {
        lock(&self.why).get_or_insert(why);
        self.stop.stop();
    }

    /// Its client is cut off, or says nothing.
    fn is_left(&self) -> bool {
        self.session.is_closed() || self.session.lost_since().is_some() || is_silent(&self.session)
    }
}

/// A copy, ready to go.
struct Work {
    far: Arc<FarMover>,
    from: From,
    to: To,
    wishes: Wishes,
    watch: Watch,
    meter: Arc<Meter>,
    /// Of this end, if it is written: the room that is kept free, once it is opened.
    kept: Arc<Mutex<Option<KeptFree>>>,
    told: Option<Arc<Publisher>>,
    counting: Arc<Counting>,
}

impl Host {
    /// Whether this server may be sent there.
    ///
    /// # Errors
    /// `Permission` if not.
    pub(crate) fn check_errand_to(&self, address: &str) -> Result<()> {
        self.limits.errands.check(address).map(drop)
    }

    /// Runs a copy and tells of it, until it is over; it stops when its client no more `is_there`. `say` tells.
    ///
    /// # Errors
    /// Why it cannot begin. How it ended is told.
    pub(crate) fn run_errand(
        &self,
        session: &Arc<Session>,
        errand: Errand,
        say: &dyn Fn(ErrandTold) -> Result<()>,
        is_there: &dyn Fn() -> bool,
    ) -> Result<()> {
        // Who comes in no more is told nothing of whom it may reach.
        self.exports_of(session)?;
        let address = self.limits.errands.check(&errand.address)?.to_string();
        self.check_errand(session, &errand)?;
        let key = Key {
            client: session.peer,
            address: address.clone(),
            sends: errand.sends,
            sources: errand.source.places.clone(),
            destination: errand.destination.clone(),
            part: errand.terms.part,
        };
        let begun = self.errands.begin(session, key)?;
        let telling = Arc::new(Telling::new(errand.tells_all));
        let (from, to) = names_of(&errand, &address);
        let work = self.work_of(&begun.running, &errand, &address, &telling)?;
        let (meter, stop) = (work.meter.clone(), begun.running.stop.clone());
        of_session!(info, session, from = %from, to = %to, "a copy between daemons begins");
        let began = Instant::now();
        self.start(work, &telling, &begun.running)?;
        let mut ended = attend(&telling, &meter, &stop, say, is_there);
        // What both signed before is done.
        if ended.is_err()
            && let Some(failure) = lock(&begun.running.why).take()
        {
            ended = Err(failure);
        }
        let (bytes, seconds) = (meter.bytes_verified.load(Ordering::Relaxed), began.elapsed().as_secs_f64());
        match ended {
            Ok(report) => {
                let (entries, failed) = (report.totals.done, report.totals.failed);
                of_session!(info, session, entries, failed, bytes, seconds, "a copy between daemons is done");
                let text = serde_json::to_vec(&ReportTold::of(&report));
                let text = text.map_err(|error| Failure::new(FailureKind::Internal, RUN, error))?;
                say(ErrandTold::Over(text))
            }
            Err(failure) => {
                let why = published::cut(failure.to_string());
                of_session!(warn, session, bytes, seconds, %why, "a copy between daemons failed");
                say(ErrandTold::Failed(failure))
            }
        }
    }

    /// What is refused before anything is dialled.
    fn check_errand(&self, session: &Session, errand: &Errand) -> Result<()> {
        if self.limits.requires_tls && errand.knobs.cipher != Cipher::Tls {
            let cause = "this daemon moves data in TLS records only (--require-tls): ask for `--cipher tls`";
            return Err(Failure::new(FailureKind::Permission, RUN, cause));
        }
        if errand.sends
            && let Some(name) = &errand.terms.congestion
        {
            check_congestion(name)?;
        }
        if errand.terms.delete_max.is_some() && !errand.source.only.is_empty() {
            let cause = "with a list of names nothing can be deleted: what is not on it was not looked for (--delete, \
                         --files-from)";
            return Err(Failure::new(FailureKind::Usage, "copy", cause));
        }
        let segment_bytes = errand.knobs.request_bytes.unwrap_or(errand.terms.segment_bytes);
        check_memory(&Terms { segment_bytes, ..errand.terms.clone() })?;
        let exports = self.exports_of(session)?;
        if errand.sends {
            return errand.source.places.iter().try_for_each(|place| exports.resolve(place, false).map(drop));
        }
        let place = exports.resolve(&errand.destination, !errand.terms.dry_run)?;
        if errand.terms.delete_max.is_some() { place.check_delete("open") } else { Ok(()) }
    }

    fn work_of(
        &self,
        running: &Arc<Running>,
        errand: &Errand,
        address: &str,
        telling: &Arc<Telling>,
    ) -> Result<Work> {
        let session = &running.session;
        let guest = Identity::from_pem(&errand.guest.0)?;
        let tls = client_config(&guest, &ServerTrust::Pinned(Fingerprint(errand.server)))?;
        let destination = std::slice::from_ref(&errand.destination);
        let here = if errand.sends { &errand.source.places[..] } else { destination };
        let far = FarMover::new(Arc::new(TcpConnect::new(vec![address.to_owned()])), tls);
        let meter = Arc::<Meter>::default();
        let labels = Labels {
            kind: if errand.terms.dry_run { DRY_RUN } else { FILES },
            direction: Some(if errand.sends { PULL } else { PUSH }),
            export: self.counted_export(here),
            ticket: holder_of(session),
        };
        let counting = Arc::new(Counting::new(self.metrics.clone(), labels, meter.clone()));
        let (shares, counts) = (self.shares_of(running, here)?, counting.clone());
        let begins: OnBegin = Arc::new(move |session: &Arc<Session>, number: TransferNumber| {
            counts.begin();
            shares(session, number);
        });
        let far = Arc::new(far.on_begin(begins));
        let kept = Arc::default();
        // Where nobody asks it plans no more.
        let wanted = errand.knobs.streams.unwrap_or(plan::STREAMS_PLANNED_MAX);
        let streams_most = self.take_for_errand(running, wanted);
        if streams_most == 0 {
            return Err(Failure::new(FailureKind::Busy, RUN, "there are as many streams as there may be"));
        }
        if let Some(asked) = errand.knobs.streams.filter(|asked| *asked > streams_most) {
            let text =
                format!("{streams_most} streams and not {asked}: the daemon that acts has no more left");
            telling.hear(Event::Note(text));
        }
        let wishes = self.wishes_of(errand, telling, streams_most);
        let (from, to) = match errand.sends {
            true => {
                let from = From::Given(self.own_source(session, errand)?);
                (from, To::Far(far.clone(), errand.destination.clone()))
            }
            false => {
                let to = To::Given(self.own_destination(session, errand, &kept)?);
                (From::Far(far.clone(), errand.source.places.clone()), to)
            }
        };
        let (hears, hears_link, asks) = (telling.clone(), telling.clone(), telling.clone());
        let told = self.publish(session, errand, address).map(Arc::new);
        counting.begin();
        let (tells, progress) = (told.clone(), meter.clone());
        let (counts, counts_again) = (counting.clone(), counting.clone());
        let evidence: EvidenceSink = Arc::new(move |now| {
            counts.note(now);
            if let Some(told) = &tells {
                told.tell(now, Some(Progress::of(&progress)));
            }
        });
        let (planned, holds_still) = (running.clone(), is_held_still(errand));
        let watch = Watch {
            events: Arc::new(move |event| {
                match &event {
                    Event::LinkLost(why) => counts_again.again(why),
                    // Until then all that it may have is its own; from now on others have what it never will.
                    Event::Planned(plan) => planned.take_streams(kept_of(plan, holds_still, streams_most)),
                    _ => {}
                }
                hears.hear(event);
            }),
            is_behind: Some(Arc::new(move || asks.is_behind())),
            link_events: Arc::new(move |event| hears_link.hear(event)),
            meter: meter.clone(),
            evidence: Some(evidence),
        };
        Ok(Work { far, from, to, wishes, watch, meter, kept, told, counting })
    }

    /// What all that this server moves, what all that the client's ticket moves, and what all transfers of its export
    /// move have a part in.
    fn shares_of(&self, running: &Arc<Running>, here: &[Place]) -> Result<OnBegin> {
        let (host, here, running) = (self.strong()?, here.to_vec(), running.clone());
        // That with which it began: one that expires meanwhile bounds what goes on for a while.
        let ticket = self.ticket_of(by_of(&running.session))?;
        Ok(Arc::new(move |session: &Arc<Session>, number: TransferNumber| {
            *lock(&running.far) = Arc::downgrade(session);
            let (metrics, id) = (host.metrics.clone(), session.id);
            session.hear_last(Box::new(move |connection, last| metrics.stream_over((id, connection), last)));
            session.share_in(host.total.share());
            if let Some((tickets, ticket)) = host.tickets.get().zip(ticket.as_ref())
                && let Some(share) = tickets.share(ticket)
            {
                session.share_in_ticket(share);
            }
            if let Some(share) = host.export_totals.share_at(&here) {
                session.share_transfer(number, share);
            }
        }))
    }

    fn wishes_of(&self, errand: &Errand, telling: &Arc<Telling>, streams_most: u16) -> Wishes {
        let Errand { source, terms, knobs, .. } = errand;
        // What is read here is chosen where it is opened.
        let only = if errand.sends { Vec::new() } else { source.only.clone() };
        let asked = plan::Asked {
            streams: knobs.streams.map(|streams| streams.min(streams_most)),
            streams_most: Some((streams_most, "as many as the daemon that acts has left")),
            memory_bytes: thalweg_sys::buffer::allowed().map(|bytes| bytes as u64),
            chunk_bytes: knobs.chunk_bytes,
            request_bytes: knobs.request_bytes,
            concurrency: terms.concurrency,
            depth: terms.depth,
            window_bytes: terms.window_bytes,
            disk: terms.disk,
            yields: terms.yields,
            compress: terms.compress,
            ..plan::Asked::default()
        };
        let link = LinkSettings {
            cipher: knobs.cipher,
            tls_form: self.limits.tls_form,
            // No client is waited for longer than this server waits for any.
            stall_timeout: Duration::from_millis(knobs.stall_ms.into()).min(self.limits.stall_timeout),
            patience: Duration::from_millis(knobs.patience_ms.into()).min(self.limits.patience),
            congestion: terms.congestion.clone(),
            dscp: terms.dscp,
            ..LinkSettings::default()
        };
        let (begins, writes) = (telling.clone(), telling.clone());
        let receipt = errand.receipt.map(|header| ReceiptSink {
            lines: Arc::new(move || -> LineSink {
                begins.begin_receipt();
                let writes = writes.clone();
                Box::new(move |part| writes.write(part))
            }),
            header,
            // The client completes it, once it has the report.
            complete: Arc::new(|_| Ok(())),
        });
        Wishes {
            selection: Selection {
                filter: source.filter.clone(),
                only,
                one_file_system: source.one_file_system,
                follow_links: source.follow_links,
                update: terms.update,
                ignore_existing: terms.ignore_existing,
                part: terms.part,
            },
            fidelity: Fidelity {
                preserve: terms.preserve,
                delete_max: terms.delete_max,
                check: terms.check,
                finds_renames: terms.finds_renames,
                verify: terms.verify,
            },
            movement: Movement {
                asked,
                rate: Arc::new(Rate::new(terms.rate_bytes_per_s)),
                holds_still: knobs.holds_still,
                link,
                ..Movement::default()
            },
            remembered: Remembered { state: self.state.clone(), no_profile: true, ..Remembered::default() },
            receipt,
            dry_run: terms.dry_run,
            ..Wishes::default()
        }
    }

    /// The sources, where they are here: the client has them with its ticket, as in a pull; opened for each attempt.
    fn own_source(&self, session: &Arc<Session>, errand: &Errand) -> Result<GivenSource> {
        let (host, session, asked) = (self.strong()?, session.clone(), errand.source.clone());
        let (preserve, part, direct) =
            (errand.terms.preserve, errand.terms.part, errand.terms.disk.source.direct);
        let name = name_of(&asked.places);
        let keeps = Some("a copy between two daemons leaves them".to_owned());
        let (streams, chunk_bytes) = (1, None);
        let way = shown(&asked.places);
        let open = move || -> Result<(Arc<dyn Source>, SourceForm)> {
            let exports = host.exports_of(&session)?;
            let held = host.places.open(Origin::of_session(&session).source, asked.places.len())?;
            let root = |place: &Place| -> Result<SourceRoot> {
                let place = exports.resolve(place, false)?;
                let contents = place.trailing_slash;
                Ok(SourceRoot { path: path_of(place.path), contents, below: place.below })
            };
            let options = ScanOptions {
                filter: Filter::new(asked.filter.clone())?,
                only: asked.only.clone(),
                preserve,
                one_file_system: asked.one_file_system,
                follow_links: asked.follow_links,
                part,
                direct,
            };
            let roots = asked.places.iter().map(root).collect::<Result<Vec<_>>>()?;
            let opened = LocalSource::open(roots, options)?.keeping(held);
            let form = opened.form();
            Ok((Arc::new(opened), form))
        };
        let (open, tops) = (Arc::new(open), vec![Vec::new()]);
        Ok(GivenSource { open, chooses: true, name, way, keeps, streams, chunk_bytes, tops, give_up: None })
    }

    /// The destination, where it is here: as in a push, opened for each attempt.
    fn own_destination(
        &self,
        session: &Arc<Session>,
        errand: &Errand,
        kept: &Arc<Mutex<Option<KeptFree>>>,
    ) -> Result<GivenDestination> {
        let (host, session, place) = (self.strong()?, session.clone(), errand.destination.clone());
        let stated = self.exports_of(&session)?.resolve(&place, false)?.stated();
        let kept = kept.clone();
        Ok(GivenDestination {
            open: Arc::new(move |form, terms, filter| {
                let place = host.exports_of(&session)?.resolve(&place, !terms.dry_run)?;
                if terms.delete_max.is_some() {
                    place.check_delete("open")?;
                }
                // A dry run takes no room.
                let room = if terms.dry_run { place.room()? } else { place.kept_free(0)? };
                let guard = place.rights.guard;
                let opened = LocalDestination::open(
                    DestinationPlace { path: path_of(place.path), below: place.below },
                    form,
                    place.trailing_slash,
                    terms.clone(),
                    host.state.clone(),
                    Filter::new(filter.to_vec())?,
                )?;
                let opened = opened.guarded(guard, room.as_ref().map(KeptFree::spare));
                *lock(&kept) = room.filter(|_| !terms.dry_run);
                let opened: Arc<dyn Destination> = Arc::new(opened);
                Ok(opened)
            }),
            note: Arc::new(|| None),
            name: name_of(std::slice::from_ref(&errand.destination)),
            place: stated,
            way: shown(std::slice::from_ref(&errand.destination)),
            below: errand.destination.path.clone(),
            chunk_bytes: None,
            finds_renames: true,
            give_up: None,
        })
    }

    /// Tells `thalweg why` of it, if anybody may ask.
    fn publish(&self, session: &Session, errand: &Errand, address: &str) -> Option<Publisher> {
        let (from, to) = names_of(errand, address);
        let told = Publisher::begin(self.state.as_deref()?, &from, &to, true)?;
        told.is_for(session);
        Some(told)
    }

    /// Copies on a thread of its own, within the room that is kept free. Its end is told.
    fn start(&self, work: Work, telling: &Arc<Telling>, running: &Arc<Running>) -> Result<()> {
        let Work { far, from, to, wishes, watch, meter, kept, told, counting } = work;
        let (ends, fails, stops, host, at_work) =
            (telling.clone(), telling.clone(), running.stop.clone(), self.strong()?, self.work.clone());
        let is_written = matches!(to, To::Given(_)) && !wishes.dry_run;
        let (counts, ending) = (counting.clone(), running.clone());
        let run = move || {
            let _at_work = at_work;
            let ended = copy::copy(&from, &to, &wishes, &host.identity, &watch, &stops);
            far.close();
            // As who asked hears it.
            let why = |failure: &Failure| lock(&ending.why).clone().unwrap_or_else(|| failure.clone());
            counts.end(&ended.as_ref().map(|report| report.totals).map_err(why));
            if let Some(told) = told {
                told.over(if ended.is_ok() { State::Finished } else { State::Failed });
            }
            ends.end(ended);
        };
        let unbegun = counting.clone();
        let panics = move |why: Failure| {
            counting.end(&Err(why.clone()));
            fails.end(Err(why));
        };
        let begun = thread::guarded("errand", panics, run);
        begun.inspect_err(|why| unbegun.end(&Err(why.clone())))?;
        if is_written {
            let (full, failed, over) = (running.clone(), running.clone(), telling.clone());
            let watches = move || {
                if let Some(failure) = look_at_room(&kept, &meter, &over) {
                    full.end(failure);
                }
            };
            // Without it a disk would be filled: the copy ends.
            if let Err(failure) = thread::guarded("room", move |why| failed.end(why), watches) {
                running.end(failure);
            }
        }
        Ok(())
    }
}

/// Tells the client until the copy is over, and stops it when nobody hears any more.
fn attend(
    telling: &Telling,
    meter: &Meter,
    stop: &Stop,
    say: &dyn Fn(ErrandTold) -> Result<()>,
    is_there: &dyn Fn() -> bool,
) -> Result<Report> {
    let (mut told, mut told_at, mut is_left) = (ErrandCounts::default(), Instant::now(), false);
    loop {
        let mut heard = match telling.next(LOOK_AGAIN) {
            Next::Ended(ended) => return *ended,
            Next::Told(what) => say(*what),
            Next::Nothing => Ok(()),
        };
        let (now, since) = (meter.counts(), told_at.elapsed());
        if !is_left && (now != told && since >= LOOK_AGAIN || since >= ALIVE_EVERY) {
            (told, told_at) = (now, Instant::now());
            heard = heard.and_then(|()| say(ErrandTold::Counts(now)));
        }
        if !is_left && (heard.is_err() || !is_there()) {
            is_left = true;
            telling.forget();
            stop.stop();
        }
    }
}

/// Looks at the room that is kept free until the copy is over, or takes too much of it: that.
fn look_at_room(kept: &Mutex<Option<KeptFree>>, meter: &Meter, telling: &Telling) -> Option<Failure> {
    let taken = || {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        min_free::taken(count(&meter.bytes_verified), count(&meter.entries_settled))
    };
    let looks = Cell::new(Looks::new(Instant::now(), taken()));
    while !telling.is_over() {
        std::thread::sleep(min_free::STEP);
        let short = lock(kept).as_ref().and_then(|kept| too_full(kept, &looks, taken()));
        if short.is_some() {
            return short;
        }
    }
    None
}

/// Source and destination, for people: of the one here a place of an export.
fn names_of(errand: &Errand, address: &str) -> (String, String) {
    let there = |places: &[Place]| format!("tw://{address}/{}", shown(places));
    let (source, destination) = (&errand.source.places[..], std::slice::from_ref(&errand.destination));
    match errand.sends {
        true => (shown(source), there(destination)),
        false => (there(source), shown(destination)),
    }
}

fn shown(places: &[Place]) -> String {
    published::cut(places.iter().map(published::shown).collect::<Vec<_>>().join(" "))
}

/// Tells these places from all others.
fn name_of(places: &[Place]) -> Vec<u8> {
    let mut name = Vec::new();
    for Place { export, path } in places {
        for part in [export.as_deref().unwrap_or("").as_bytes(), path.as_slice()] {
            name.extend((part.len() as u64).to_le_bytes());
            name.extend(part);
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::super::HostLimits;
    use super::super::tests::{cut_off, cut_off_of};
    use super::*;
    use crate::export::Exports;

    fn key(number: usize) -> Key {
        let place = Place { export: Some("data".to_owned()), path: number.to_string().into_bytes() };
        Key {
            client: Fingerprint([7; 32]),
            address: "dtn2:8487".to_owned(),
            sends: true,
            sources: vec![place.clone()],
            destination: place,
            part: None,
        }
    }

    #[test]
    fn one_holder_of_a_ticket_has_a_part_of_the_copies_in_however_many_sessions() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let sessions: Vec<Arc<Session>> = (1..=4).map(|id| cut_off(&host, id)).collect();
        let begin = |number: usize| host.errands.begin(&sessions[number % 4], key(number));
        let begun: Vec<Begun<'_>> = (0..).map_while(|number| begin(number).ok()).collect();
        assert_eq!(begun.len(), OF_HOLDER_MAX);
        let bob = cut_off_of(&host, 9, Fingerprint([8; 32]));
        assert!(host.errands.begin(&bob, key(1000)).is_ok(), "the rest is for others");
        drop(begun);
        assert!(begin(0).is_ok());
    }

    /// Those of many that begin together would be as many as each may have.
    #[test]
    fn a_copy_that_is_run_for_somebody_has_its_streams_before_any_of_them_stands() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let limits = HostLimits { streams: 100, streams_per_address: 10, ..HostLimits::default() };
        let host = Host::new(identity, exports, None, limits);
        let session = cut_off(&host, 1);
        host.sessions().insert(session.id, session.clone());
        let begin = |number: usize| host.errands.begin(&session, key(number)).expect("room");
        let (first, second, third) = (begin(1), begin(2), begin(3));
        assert_eq!(host.take_for_errand(&first.running, 8), 8);
        assert_eq!(host.take_for_errand(&second.running, 8), 2);
        assert_eq!(host.take_for_errand(&third.running, 8), 0);
        assert!(host.take_stream(&session, 0).is_none());
        drop(first);
        assert!(host.take_stream(&session, 0).is_some());
        assert_eq!(host.take_for_errand(&third.running, 16), 8);
        session.close(None);
    }

    #[test]
    fn of_streams_that_a_copy_was_given_it_keeps_those_that_it_may_come_to_have() {
        let plan = |rtt_ms: u64, streams: Option<u16>| {
            let rtt = Some(Duration::from_millis(rtt_ms));
            let path = plan::Path { rtt, ..plan::Path::default() };
            plan::plan(&plan::Asked { streams, ..plan::Asked::default() }, &path)
        };
        let (near, far) = (plan(0, Some(2)), plan(20, Some(10)));
        assert_eq!([&near, &far].map(|plan| kept_of(plan, false, 32)), [8, 32]);
        assert_eq!([&near, &far].map(|plan| kept_of(plan, true, 32)), [2, 10]);
        assert_eq!([&near, &far].map(|plan| kept_of(plan, false, 5)), [5, 5]);
    }

    #[test]
    fn a_copy_that_ends_for_want_of_something_says_the_first_reason() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let begun = host.errands.begin(&cut_off(&host, 1), key(0)).expect("room");
        let far = cut_off(&host, 2);
        *lock(&begun.running.far) = Arc::downgrade(&far);
        let all = host.errands.running();
        let [running] = &all[..] else { panic!("one runs") };
        assert!(running.far().is_some_and(|session| Arc::ptr_eq(&session, &far)));
        for cause in ["no memory", "no room"] {
            running.end(Failure::new(FailureKind::Space, RUN, cause));
        }
        assert!(running.stop.is_asked());
        assert!(lock(&running.why).as_ref().is_some_and(|why| why.cause == "no memory"));
    }
}
