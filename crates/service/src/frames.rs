//! The server's side of frames: channels below exports, and who is at them.

use crate::counts::{Counted, Counts};
use crate::export::Exports;
use crate::log::{Done, Line, of_session};
use crate::sessions::{Host, Origin, check_congestion};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::frames::{ChannelWishes, HeldLevel, OPEN_CHANNEL, TAKE_NAME};
use thalweg_mover::plan;
use thalweg_mover::run::frames::StorePlace;
use thalweg_mover::run::frames::consume::ConsumeRun;
use thalweg_mover::run::frames::hub::{Attached, ChannelKey};
use thalweg_mover::run::frames::job::{self, ConsumeWishes, Keeper};
use thalweg_mover::run::frames::windows::is_of_window;
use thalweg_mover::run::session::Session;
use thalweg_mover::run::thread;
use thalweg_wire::account::SideAccounts;
use thalweg_wire::limits;
use thalweg_wire::message::{
    ChannelStatus, FramePolicy, FrameRole, FrameTerms, Open, Opened, Place, Terms, TransferNumber,
};
use thalweg_wire::path::Escaped;

/// Between two looks whether a client is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Between two times that it is noted how much came or went.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// For no longer than this a producer is waited for whose end of the link was closed, and has most likely ended: its
/// consumers wait for word of it.
const PRODUCER_ENDED: Duration = Duration::from_secs(60);
/// For so long a consumer in an outage is waited for whatever patience it says that it has, and for
/// [`PATIENCE_TIMES`] that of the daemon, if that is longer: what waits for it takes others' room.
const OUTAGE_MAX: Duration = Duration::from_secs(3600);
const PATIENCE_TIMES: u32 = 4;
/// A client that comes back is let in when its older link was silent for so long.
const COMES_BACK: Duration = Duration::from_secs(5);
/// Attachments of a daemon, and of those from one address, however few sessions there may be.
const ATTACHMENTS_MIN: usize = limits::CONSUMERS_MAX;

/// The attachments that there are, by where their clients are, or were when they were opened. Each has a thread, and
/// outlasts its session, which is not counted any more then.
#[derive(Default)]
pub(crate) struct Attachments(Arc<Counts<Option<IpAddr>>>);

impl Attachments {
    /// One more from there, until what it returns goes, where there are so many at `most`, and `each` of those from one
    /// address.
    ///
    /// # Errors
    /// `Busy` if it would be one too many.
    fn begin(&self, source: Option<IpAddr>, (most, each): (usize, usize)) -> Result<Counted<Option<IpAddr>>> {
        let by_source = self.0.lock();
        let theirs = by_source.get(&source).copied().unwrap_or(0);
        if theirs >= each || by_source.values().sum::<usize>() >= most {
            let cause = "there are as many producers and consumers as there may be, in all or from one address; one \
                         that may come back counts until it is given up";
            return Err(Failure::new(FailureKind::Busy, OPEN_CHANNEL, cause));
        }
        Ok(self.0.take(by_source, source, 1))
    }
}

impl Host {
    pub(crate) fn open_frames(
        &self,
        session: &Arc<Session>,
        open: &Open,
        (place, frames): (&Place, &FrameTerms),
        line: &Line,
    ) -> Result<Opened> {
        let is_producer = matches!(&frames.role, FrameRole::Produce { .. });
        if let Some(name) = &open.terms.congestion {
            check_congestion(name)?;
        }
        let stores = frames.channel.is_recorded
            || match &frames.role {
                FrameRole::Produce { level, .. } => *level == HeldLevel::Durable,
                FrameRole::Consume(consume) => consume.policy == FramePolicy::Spill,
            };
        let writes = is_producer || stores;
        let host = Arc::downgrade(&self.strong()?);
        let exports = self.exports_of(session)?;
        let at = channel_at(&self.exports(), &exports, place, writes, self.spill_bytes_max())?;
        let ChannelAt { key, store, beneath, can_write } = at;
        // How large a log is that is found there is not for who may write nothing.
        let spill_bytes = frames.channel.spill_bytes.filter(|_| can_write);
        let wishes = ChannelWishes { spill_bytes, ..frames.channel };
        // One whose log is open writes on, whoever comes.
        if stores && !self.hub.has_log(&key) {
            exports.resolve(place, true)?.kept_free(0)?;
        }
        // As many as all sessions may have at a time.
        let most = |sessions: usize| sessions.saturating_mul(limits::TRANSFERS_MAX).max(ATTACHMENTS_MIN);
        let bounds = (most(self.limits.sessions), most(self.limits.sessions_per_address));
        let counted = self.attachments.begin(Origin::of_session(session).source, bounds)?;
        let channel = self.hub.channel(&key, &wishes, store, &beneath)?;
        let since = Instant::now();
        let attached = loop {
            match channel.attach(open.transfer, open.terms.clone(), frames, session.outbox()) {
                // Its own older link, which is about to be noticed as lost.
                Err(failure)
                    if failure.kind == FailureKind::Busy
                        && !is_of_window(&failure)
                        && since.elapsed() < COMES_BACK =>
                {
                    std::thread::sleep(LOOK_AGAIN);
                }
                other => break other?,
            }
        };
        let before = attached.taken_before();
        if let Err(failure) = session.add(open.transfer, attached.link()) {
            attached.give_up();
            return Err(failure);
        }
        session.set_stream_options();
        if let Some(peer) = session.peer_address() {
            attached.set_address(peer.ip());
        }
        line.opened();
        channel.begin();
        let keep = Keep::of(&frames.role, self.patience());
        let (session, number) = (session.clone(), open.transfer);
        of_session!(debug, &session, is_producer, "frames");
        let (watched, line) = (attached.clone(), line.clone());
        let (failed, theirs, its_line) = (attached.clone(), session.clone(), line.clone());
        let on_panic = move |failure: Failure| {
            its_line.tell(Done::default(), Err(&failure));
            failed.link().detach();
            theirs.remove(number);
            failed.give_up();
            drop(failed);
            tell_when_back(&theirs, number, failure);
        };
        let work = self.work.clone();
        let see_it_go = move || {
            let _work = work;
            let _counted = counted;
            watch(&host, watched, (&session, number), keep, &line);
        };
        let watches = thread::guarded("frames", on_panic, see_it_go);
        // Nobody would see it go, and its window would stay taken.
        watches.inspect_err(|_| attached.give_up())?;
        let channel = channel.terms();
        Ok(match &attached {
            Attached::Producer(_) => Opened::Produce { channel, before },
            Attached::Consumer(_, instance) => Opened::Consume { instance: *instance, channel },
        })
    }

    /// Attaches a consumer of this process to a channel, and begins. `kept`: how the channel is kept, if this is the
    /// first to open it; `window_bytes`: what may be under way, as over a link.
    ///
    /// # Errors
    /// Why it cannot begin, as over a link.
    pub fn consume_within(
        &self,
        place: &Place,
        wishes: ConsumeWishes,
        (window_bytes, kept): (u64, ChannelWishes),
    ) -> Result<(Arc<ConsumeRun>, Keeper)> {
        let writes = kept.is_recorded || wishes.policy == FramePolicy::Spill;
        let ChannelAt { key, store, beneath, .. } = self.channel_at(place, writes)?;
        let channel = self.hub.channel(&key, &kept, store, &beneath)?;
        let terms = Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES);
        job::consume_within(channel, wishes, (window_bytes, kept), terms)
    }

    /// Why the spill log of a channel cannot be written for now, if it cannot; `None` also for a channel that nobody
    /// opened.
    pub fn spill_trouble(&self, place: &Place) -> Option<String> {
        let at = self.channel_at(place, false).ok()?;
        self.hub.spill_trouble(&at.key)
    }

    fn channel_at(&self, place: &Place, writes: bool) -> Result<ChannelAt> {
        let all = self.exports();
        channel_at(&all, &all, place, writes, self.spill_bytes_max())
    }

    /// How a channel stands, for the client of this session.
    ///
    /// # Errors
    /// `NotFound` if nobody has opened it; why it cannot be one.
    pub(crate) fn channel_status(&self, session: &Session, place: &Place) -> Result<ChannelStatus> {
        let theirs = self.exports_of(session)?;
        let ChannelAt { key, .. } =
            channel_at(&self.exports(), &theirs, place, false, self.spill_bytes_max())?;
        self.hub.status(&key).ok_or_else(|| {
            Failure::new(
                FailureKind::NotFound,
                "look at a channel",
                format!("nobody has opened `{}/{}` since the hub began", key.0, Escaped(&place.path)),
            )
        })
    }
}

/// For how long who is gone is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Keep {
    /// In an outage.
    silent: Duration,
    /// Where its end of the link was closed.
    closed: Duration,
    /// When its session is over: nobody counts it any more.
    ended: Duration,
    /// When its session is over in an outage, if that is longer: so long it tries to come back.
    patience: Duration,
}

impl Keep {
    /// `patience`: for how long a session without a link is kept.
    fn of(role: &FrameRole, patience: Duration) -> Keep {
        match role {
            FrameRole::Produce { keep_ms, .. } => {
                let silent = Duration::from_millis((*keep_ms).into());
                Keep { silent, closed: silent.min(PRODUCER_ENDED), ended: silent, patience: silent }
            }
            // One that was killed or stopped comes back under its name. A day would be much where nobody
            // does. In an outage it comes back by itself, and what waits for it meanwhile goes by its policy.
            FrameRole::Consume(consume) => {
                let keep = Duration::from_millis(consume.keep_ms.into());
                let most = patience.saturating_mul(PATIENCE_TIMES).max(OUTAGE_MAX);
                let theirs = Duration::from_millis(consume.patience_ms.into()).min(most);
                Keep { silent: keep.max(theirs), closed: keep, ended: keep.min(patience), patience: theirs }
            }
        }
    }

    /// Whether it was waited for long enough. `ended`: for how long its session has been over.
    fn is_over(self, gone: Duration, fell_silent: bool, ended: Option<Duration>) -> bool {
        let (most, ended_most) = match fell_silent {
            true => (self.silent, self.ended.max(self.patience)),
            false => (self.closed, self.ended),
        };
        gone > most || ended.is_some_and(|ended| ended > ended_most)
    }
}

/// Why the client of this session, which is over, may not come back, if it may not: its ticket was taken back, then or
/// later.
fn turned_out(host: &Weak<Host>, session: &Session) -> Option<Failure> {
    let said = session.failure().filter(|why| why.kind == FailureKind::Permission);
    said.or_else(|| host.upgrade()?.ends_for_ticket(session))
}

/// Until a client is over, or is not waited for any more: it may come back in its session, or in another.
fn watch(
    host: &Weak<Host>,
    watched: Attached,
    (session, number): (&Session, TransferNumber),
    keep: Keep,
    line: &Line,
) {
    let link = watched.link();
    let done = || Done { bytes: link.crossed().verified_bytes, ..Done::default() };
    let note = || line.note(done(), &SideAccounts::default(), None);
    let (mut closed_at, mut noted_at) = (None, Instant::now());
    let given_up = loop {
        let is_settled = watched.is_over() || watched.is_replaced();
        // Looked at behind that: how a channel that is being closed stands says nothing of who is at it.
        if !watched.is_over() && host.upgrade().is_some_and(|host| host.ends_channels()) {
            // Its place is kept: it comes back to the next daemon.
            note();
            let why = Failure::new(FailureKind::Connection, "serve", "the server is shutting down");
            return line.tell(done(), Err(&why));
        }
        if is_settled {
            break None;
        }
        if closed_at.is_none() && session.is_closed() {
            closed_at = Some(Instant::now());
            // It asks for another when it comes back.
            watched.free_window();
        }
        let gone = session.lost_since().or(closed_at).map(|since| since.elapsed());
        let ended = closed_at.map(|at| at.elapsed());
        if let Some(why) = ended.and_then(|_| turned_out(host, session)) {
            break Some(why);
        }
        if gone.is_some_and(|since| keep.is_over(since, session.fell_silent(), ended)) {
            break Some(gone_for_good());
        }
        if noted_at.elapsed() >= NOTE_EVERY {
            note();
            noted_at = Instant::now();
        }
        std::thread::sleep(LOOK_AGAIN);
    };
    link.detach();
    session.remove(number);
    let is_given_up = given_up.is_some();
    match is_given_up {
        true => watched.give_up(),
        false => watched.forget(),
    }
    note();
    let done = done();
    let why = match watched.failure().or(given_up) {
        Some(failure) => {
            line.tell(done, Err(&failure));
            is_given_up.then_some(failure)
        }
        None if watched.is_over() => {
            line.tell(done, Ok(None));
            None
        }
        // It goes on by another link, which has a line of its own.
        None => Some(replaced()),
    };
    drop((watched, link));
    if let Some(why) = why {
        tell_when_back(session, number, why);
    }
}

/// A client hears why its transfer is not known any more, also one that comes back in its session.
pub(crate) fn tell_when_back(session: &Session, number: TransferNumber, why: Failure) {
    let is_away = session.lost_since().is_some();
    if is_away && why.kind == FailureKind::Connection && session.transfers().is_empty() {
        // With nothing to come back to in this session it begins another.
        session.close(Some(why));
        return;
    }
    session.tell_over(number, why);
}

fn replaced() -> Failure {
    let cause = "another process has this name since this one lost its link";
    Failure::new(FailureKind::Conflict, TAKE_NAME, cause).because(Reason::NameTaken)
}

fn gone_for_good() -> Failure {
    Failure::new(FailureKind::Connection, "serve", "the client did not come back")
}

/// Where a channel is.
struct ChannelAt {
    /// Its name.
    key: ChannelKey,
    /// Where its log may be, whoever comes first; `None`: nowhere.
    store: Option<StorePlace>,
    /// Path of the directory that is all of the export to who asks; empty: all of it.
    beneath: String,
    /// Whether who asks may write there.
    can_write: bool,
}

/// Where the channel is that is named by who reaches `theirs` of `all`: these decide who may ask, and what the export
/// permits whether and how there is a log, of so many bytes where it does not say otherwise.
fn channel_at(
    all: &Exports,
    theirs: &Exports,
    place: &Place,
    writes: bool,
    spill_bytes_max: u64,
) -> Result<ChannelAt> {
    let resolved = theirs.resolve(place, writes)?;
    if resolved.below.is_none() {
        let cause = "channels of frames live in daemons, below an export";
        return Err(Failure::new(FailureKind::Unsupported, OPEN_CHANNEL, cause));
    }
    if resolved.path.is_empty() || resolved.trailing_slash {
        let cause = "a channel has a name below its export";
        return Err(Failure::new(FailureKind::Usage, OPEN_CHANNEL, cause));
    }
    StorePlace::check(&resolved.path)?;
    // By where it is, whatever directory of the export a ticket reaches.
    let mut path = resolved.beneath.clone().into_bytes();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(&resolved.path);
    let whole = Place { export: place.export.clone(), path: path.clone() };
    // Where nobody may write there is no log.
    let store = all.resolve(&whole, true).ok().and_then(|resolved| {
        let rights = resolved.rights;
        let (min_free, keeps_all) = (rights.guard.min_free, rights.no_delete);
        let spill_bytes_max = rights.spill_bytes_max.unwrap_or(spill_bytes_max);
        Some(StorePlace { below: resolved.below?, path: resolved.path, min_free, keeps_all, spill_bytes_max })
    });
    let key = (place.export.clone().unwrap_or_default(), path);
    Ok(ChannelAt { key, store, beneath: resolved.beneath, can_write: !resolved.rights.read_only })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Export, Rights};
    use crate::sessions::HostLimits;
    use crate::sessions::tests::cut_off;
    use crate::tickets::{self, Part, Reach, Record, Tickets};
    use std::sync::mpsc;
    use thalweg_mover::endpoint::local::destination::guard::{Guard, MinFree};
    use thalweg_mover::frames::ProducerId;
    use thalweg_mover::link::{Fingerprint, Identity};
    use thalweg_mover::run::frames::hub::Hub;
    use thalweg_wire::message::{Consume, FrameFrom, Request};

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_log_goes_by_the_flags_of_its_export() {
        let scratch = tempfile::tempdir().unwrap();
        let min_free = Some(MinFree::Bytes(7));
        let guard = Guard { min_free, ..Guard::default() };
        let place = Place { export: Some("data".into()), path: b"scan".to_vec() };
        for (spill_bytes_max, most) in [(None, 5), (Some(9), 9), (Some(3), 3)] {
            let rights = Rights { no_delete: true, guard, spill_bytes_max, ..Rights::default() };
            let export = Export { rights, ..Export::of("data", scratch.path().to_path_buf()) };
            let exports = Exports::open(vec![export]).unwrap();
            let at = channel_at(&exports, &exports, &place, true, 5).unwrap();
            let store = at.store.expect("it may be written");
            assert_eq!((store.min_free, store.keeps_all, store.spill_bytes_max), (min_free, true, most));
        }
    }

    /// Else two who reach different directories would meet in one channel, and two who reach the same in none.
    #[test]
    fn a_channel_is_where_it_is_whatever_directory_a_ticket_reaches() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("run7/deep")).unwrap();
        let exports = Exports::open(vec![Export::of("data", scratch.path().to_path_buf())]).unwrap();
        let key = |below: &str, path: &str| {
            let part = Part { below: below.to_owned(), ..Part::read("data").unwrap() };
            let place = Place { export: Some("data".into()), path: path.as_bytes().to_vec() };
            let theirs = exports.narrowed(&Reach::Only(vec![part]));
            channel_at(&exports, &theirs, &place, true, 5).unwrap().key
        };
        assert_eq!(key("", "run7/deep/scan"), key("run7", "deep/scan"));
        assert_eq!(key("run7/deep", "scan"), key("run7", "deep/scan"));
        assert_ne!(key("run7", "scan"), key("run7/deep", "scan"));
    }

    fn server() -> Arc<Host> {
        let identity = Identity::generate("server").unwrap();
        Host::new(identity, Exports::open(Vec::new()).unwrap(), None, HostLimits::default())
    }

    fn terms(channel: ChannelWishes, role: FrameRole) -> FrameTerms {
        FrameTerms { window_bytes: 1 << 20, window_items: 64, channel, role }
    }

    /// Else who reads alone, and comes before who records, would keep the channel from being recorded, or its log from
    /// being found.
    #[test]
    fn whoever_comes_first_a_channel_has_its_log_where_the_export_has_it() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("run7")).unwrap();
        let all = Exports::open(vec![Export::of("data", scratch.path().to_path_buf())]).unwrap();
        let part = Part { below: "run7".to_owned(), ..Part::read("data:ro,no-delete").unwrap() };
        let theirs = all.narrowed(&Reach::Only(vec![part]));
        let place = |path: &str| Place { export: Some("data".into()), path: path.as_bytes().to_vec() };
        let host = server();
        let session = cut_off(&host, 1);
        for is_there in [false, true] {
            let hub = Hub::new(64 << 20);
            let refused = channel_at(&all, &theirs, &place("scan"), true, u64::MAX).err();
            assert_eq!(refused.map(|failure| failure.kind), Some(FailureKind::Permission));
            let at = channel_at(&all, &theirs, &place("scan"), false, u64::MAX).unwrap();
            assert!(!at.can_write && at.store.as_ref().is_some_and(|store| !store.keeps_all));
            let first = hub.channel(&at.key, &ChannelWishes::default(), at.store, &at.beneath).unwrap();
            assert_eq!(hub.has_log(&at.key), is_there, "what was recorded is found by whoever comes");
            let at = channel_at(&all, &all, &place("run7/scan"), true, u64::MAX).unwrap();
            let wishes = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
            let channel = hub.channel(&at.key, &wishes, at.store, &at.beneath).unwrap();
            assert!(Arc::ptr_eq(&first, &channel));
            let role = FrameRole::Produce {
                producer: ProducerId::new("cam").unwrap(),
                process: [1 + u8::from(is_there); 16],
                first: None,
                level: HeldLevel::Memory,
                keep_ms: 1,
            };
            let frames = terms(wishes, role);
            let asked = Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES);
            let attached = channel.attach(TransferNumber(1), asked, &frames, session.outbox()).unwrap();
            assert!(hub.has_log(&at.key) && scratch.path().join("run7/scan.frames").is_dir());
            attached.give_up();
            drop((attached, first, channel));
            hub.close();
        }
    }

    /// Each has a thread: who ends his sessions and has their places kept would take all that there are.
    #[test]
    fn who_is_kept_though_his_session_is_over_counts_until_he_is_given_up() {
        let scratch = tempfile::tempdir().unwrap();
        let exports = Exports::open(vec![Export::of("data", scratch.path().to_path_buf())]).unwrap();
        let host = Host::new(Identity::generate("server").unwrap(), exports, None, HostLimits::default());
        let session = cut_off(&host, 1);
        let state = tempfile::tempdir().unwrap();
        tickets::add(state.path(), &Record::of("a", session.peer, 1)).unwrap();
        host.heed(Tickets::new(state.path(), Fingerprint([0; 32])));
        let place = Place { export: Some("data".into()), path: b"scan".to_vec() };
        let frames = terms(ChannelWishes::default(), consumes(60 * MINUTE, 60 * MINUTE));
        let asked = Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES);
        let request = Request::Frames { place: place.clone(), frames: frames.clone() };
        let open = Open { transfer: TransferNumber(1), request, terms: asked, signer: None };
        let line = Line::of_open(&session, &open, Arc::default());
        let count = || host.attachments.0.lock().values().sum::<usize>();
        host.open_frames(&session, &open, (&place, &frames), &line).unwrap();
        session.close(None);
        assert_eq!(count(), 1);
        tickets::revoke(state.path(), "a", 2).unwrap();
        let until = Instant::now() + MINUTE;
        while count() > 0 {
            assert!(Instant::now() < until, "it counts though nobody waits for him");
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    #[test]
    fn attachments_are_as_many_as_are_bounded_in_all_and_from_one_address() {
        let all = Attachments::default();
        let from = |last: u8| all.begin(Some(IpAddr::from([192, 0, 2, last])), (5, 3));
        let mut held: Vec<_> = (0..3).map(|_| from(1).unwrap()).collect();
        assert_eq!(from(1).err().map(|failure| failure.kind), Some(FailureKind::Busy));
        held.extend([from(2).unwrap(), from(3).unwrap()]);
        assert!(from(4).is_err(), "all together are too many");
        held.pop();
        assert!(from(1).is_err() && from(4).is_ok());
        drop(held);
        assert!(all.0.lock().is_empty());
    }

    /// It would have begun in the log, and never ended.
    #[test]
    fn who_is_attached_when_a_server_ends_is_seen_to_his_end_before_that() {
        let scratch = tempfile::tempdir().unwrap();
        let exports = Exports::open(vec![Export::of("data", scratch.path().to_path_buf())]).unwrap();
        let host = Host::new(Identity::generate("server").unwrap(), exports, None, HostLimits::default());
        let session = cut_off(&host, 1);
        let place = Place { export: Some("data".into()), path: b"scan".to_vec() };
        let frames = terms(ChannelWishes::default(), consumes(60 * MINUTE, 60 * MINUTE));
        let asked = Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES);
        let request = Request::Frames { place: place.clone(), frames: frames.clone() };
        let open = Open { transfer: TransferNumber(1), request, terms: asked, signer: None };
        let line = Line::of_open(&session, &open, Arc::default());
        host.open_frames(&session, &open, (&place, &frames), &line).unwrap();
        assert!(host.is_at_work());
        host.stop();
        assert!(!host.is_at_work() && host.attachments.0.lock().is_empty());
    }

    /// As one that asked for its place to be kept for an hour.
    #[test]
    fn who_consumed_with_a_ticket_that_was_taken_back_holds_nobody_up() {
        for (kind, cause) in
            [(FailureKind::Permission, "it was revoked"), (FailureKind::Connection, "the client was killed")]
        {
            it_is_given_up(Failure::new(kind, "serve", cause));
        }
    }

    /// A consumer that blocks, and is waited for so long.
    fn consumes(keep: Duration, patience: Duration) -> FrameRole {
        FrameRole::Consume(Box::new(Consume {
            consumer: [1; 16],
            process: [2; 16],
            name: None,
            instance: None,
            group: None,
            policy: FramePolicy::Block,
            from: FrameFrom::Start,
            has: Vec::new(),
            producers: 1,
            keep_ms: keep.as_millis() as u32,
            patience_ms: patience.as_millis() as u32,
        }))
    }

    /// A consumer in a session that ends so, with a ticket that is taken back.
    fn it_is_given_up(end: Failure) {
        let (host, hub) = (server(), Hub::new(64 << 20));
        let session = cut_off(&host, 1);
        let state = tempfile::tempdir().unwrap();
        tickets::add(state.path(), &Record::of("a", session.peer, 1)).unwrap();
        host.heed(Tickets::new(state.path(), Fingerprint([0; 32])));
        let key = ("data".to_owned(), b"scan".to_vec());
        let channel = hub.channel(&key, &ChannelWishes::default(), None, "").unwrap();
        let hour = Duration::from_secs(3600);
        let role = consumes(hour, hour);
        let frames = terms(ChannelWishes::default(), role);
        let (number, asked) = (TransferNumber(1), Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES));
        let attached = channel.attach(number, asked.clone(), &frames, session.outbox()).unwrap();
        session.add(number, attached.link()).unwrap();
        let keep = Keep::of(&frames.role, 10 * MINUTE);
        let place = Place { export: Some("data".into()), path: b"scan".to_vec() };
        let request = Request::Frames { place, frames };
        let open = Open { transfer: number, request, terms: asked, signer: None };
        let line = Line::of_open(&session, &open, Arc::default());
        assert_eq!(hub.status(&key).unwrap().consumers.len(), 1);
        if end.kind != FailureKind::Permission {
            tickets::revoke(state.path(), "a", 2).unwrap();
        }
        session.close(Some(end));
        let (ends, ended) = mpsc::channel();
        let host = Arc::downgrade(&host);
        std::thread::spawn(move || {
            watch(&host, attached, (&session, number), keep, &line);
            ends.send(())
        });
        ended.recv_timeout(MINUTE).expect("it is still waited for");
        assert!(hub.status(&key).unwrap().consumers.is_empty());
    }

    #[test]
    fn a_producer_in_an_outage_is_waited_for_as_long_as_it_has_patience_and_one_that_ended_a_minute() {
        let of = |keep: Duration| {
            let role = FrameRole::Produce {
                producer: ProducerId::new("cam").unwrap(),
                process: [1; 16],
                first: None,
                level: HeldLevel::Memory,
                keep_ms: keep.as_millis() as u32,
            };
            Keep::of(&role, MINUTE)
        };
        let (short, minute, patience) =
            (Duration::from_secs(5), Duration::from_secs(60), Duration::from_secs(600));
        let moment = Duration::from_millis(1);
        for (keep, fell_silent, most) in [
            (patience, true, patience),
            (patience, false, minute),
            (short, true, short),
            (short, false, short),
        ] {
            assert!(!of(keep).is_over(most, fell_silent, None), "{keep:?} {fell_silent}");
            assert!(of(keep).is_over(most + moment, fell_silent, None), "{keep:?} {fell_silent}");
        }
        // Also where its session is not waited for any more.
        assert!(!of(patience).is_over(patience, true, Some(9 * MINUTE)));
    }

    #[test]
    fn a_consumer_is_waited_for_a_day_only_while_its_session_stands_or_it_has_patience() {
        let of = |keep, patience| Keep::of(&consumes(keep, patience), 10 * MINUTE);
        let (day, moment) = (Duration::from_secs(86_400), Duration::from_millis(1));
        // It says goodbye as soon as it has its place, or falls silent for good.
        for fell_silent in [false, true] {
            let ended = 10 * MINUTE;
            let (long, short) = (of(day, Duration::ZERO), of(MINUTE, Duration::ZERO));
            assert!(!long.is_over(ended, fell_silent, Some(ended)), "{fell_silent}");
            assert!(long.is_over(ended + moment, fell_silent, Some(ended + moment)), "{fell_silent}");
            assert!(!long.is_over(day, fell_silent, None), "{fell_silent}");
            assert!(short.is_over(MINUTE + moment, fell_silent, Some(moment)), "{fell_silent}");
        }
        // In an outage it comes back for as long as it has patience, also where its session is not waited for any more.
        for patience in [5 * MINUTE, 60 * MINUTE] {
            let keep = of(MINUTE, patience);
            assert!(!keep.is_over(patience, true, Some(patience)), "{patience:?}");
            assert!(keep.is_over(patience + moment, true, None), "{patience:?}");
            assert!(keep.is_over(MINUTE + moment, false, None), "{patience:?}");
        }
        // No longer than the daemon's own patience allows, whatever it says of its own; a place that it keeps is kept.
        assert!(of(MINUTE, day).is_over(60 * MINUTE + moment, true, None));
        assert!(!of(day, day).is_over(day, true, None));
    }
}
