//! Keeps the link and its streams standing while the session is needed.

use super::dial::Dialler;
use super::pulse::{Limits, Pulse, SILENCE, Seen, Verdict};
use super::{Boxes, Mail};
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Reason, Result};
use crate::link::{Connection, TokenSource};
use crate::mutex::lock;
use crate::run::session::Session;
use crate::run::transfer::{PeerNow, Transfer};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Scope;
use std::time::{Duration, Instant};
use thalweg_wire::message::WaitingFor;

/// First and longest pause between two tries to reach a peer.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// So long a link is dialled for at least.
const DIAL_MIN: Duration = Duration::from_millis(500);
/// Between two looks at a link with which nothing is wrong.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// A peer that refuses for so long refuses for good: an outage that puts somebody else in its place is over by then, or
/// shows as one.
const REFUSES_MIN: Duration = Duration::from_secs(10);
/// Between two looks whether there is another token: tokens last some minutes or more.
const TOKEN_LOOK: Duration = Duration::from_secs(20);
/// So long dials are waited for together; who takes longer goes on beside the others.
const DIALS_WAIT: Duration = Duration::from_secs(1);

/// Keeps the link and its streams standing, and judges the peer by what it acknowledges.
pub(super) struct Keeper {
    pub session: Arc<Session>,
    pub dialler: Arc<Dialler>,
    pub mail: Arc<Mail>,
    pub rtt: Duration,
    pub dials: UnderWay,
}

/// Streams that are being dialled.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<BTreeSet<u16>>);

impl UnderWay {
    fn streams(&self) -> BTreeSet<u16> {
        self.lock().clone()
    }

    /// Dials these side by side and waits for them, at most so long: a handshake that hangs on one way keeps nobody on
    /// the others. False if some are known to have failed by then.
    fn dial<'scope, 'env>(
        &'scope self,
        scope: &'scope Scope<'scope, 'env>,
        streams: Vec<u16>,
        at_most: Duration,
        dial: impl Fn(u16) -> bool + Clone + Send + 'scope,
    ) -> bool {
        // One word of each stream.
        let (tells, told) = mpsc::channel();
        let mut all_stand = true;
        for stream in streams {
            self.lock().insert(stream);
            let (tells, dial) = (tells.clone(), dial.clone());
            let work = move || {
                // One that panics came to nothing.
                let stands = catch_unwind(AssertUnwindSafe(|| dial(stream))).unwrap_or(false);
                self.lock().remove(&stream);
                let _ = tells.send(stands);
            };
            // Where there is no thread to be had it is one that could not be dialled, for now.
            if std::thread::Builder::new().name("dial".into()).spawn_scoped(scope, work).is_err() {
                self.lock().remove(&stream);
                all_stand = false;
            }
        }
        drop(tells);
        let until = Instant::now() + at_most;
        while let Ok(stands) = told.recv_timeout(until.saturating_duration_since(Instant::now())) {
            all_stand &= stands;
        }
        all_stand
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        lock(&self.0)
    }
}

impl Keeper {
    /// Until the session is closed. Dials that are under way then are waited for: what they started to reach the peer
    /// ends with the copy.
    pub fn run(self) {
        let keeper = &self;
        std::thread::scope(|scope| keeper.keep(scope));
    }

    fn keep<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        if let Some(tokens) = self.dialler.connect.tokens() {
            // One that panics keeps the session no longer than its token lasts.
            let work = move || drop(catch_unwind(AssertUnwindSafe(|| self.keep_known(&*tokens))));
            if let Err(error) = std::thread::Builder::new().name("token".into()).spawn_scoped(scope, work) {
                tracing::warn!(%error, "the session ends with the token that was shown");
            }
        }
        let settings = &self.dialler.settings;
        let limits = Limits { patience: settings.patience, stall_timeout: settings.stall_timeout };
        let (across, moved_bytes) = (progress(&self.session), self.session.moved_bytes());
        let mut pulse = Pulse::begin(Instant::now(), settings.spent, across, moved_bytes);
        let mut still_lost = StillLost::default();
        let mut kept_before = 0;
        let mut back_off = BACK_OFF.0;
        while !self.session.is_closed() {
            let now = Instant::now();
            let across = progress(&self.session);
            let kept_now = kept(&self.session);
            self.dialler.connect.got_across(kept_now.saturating_sub(kept_before));
            kept_before = kept_now;
            self.note_streams(now, pulse.progressed(now, across));
            if let Some(why) = self.is_hopeless(now) {
                self.session.close(Some(why));
                return;
            }
            let verdict = pulse.judge(now, &self.seen(), &limits);
            let patience_left = pulse.patience_left(now, &limits);
            let stands = match verdict {
                Verdict::GiveUp => {
                    let cause = format!("no progress for {} s", limits.patience.as_secs());
                    self.session.close(Some(self.why_idle(cause, limits.patience, still_lost.why.as_ref())));
                    return;
                }
                Verdict::Drop => {
                    let seconds = limits.stall_timeout.as_secs();
                    let cause = format!("the peer acknowledged nothing for {seconds} s");
                    self.session.drop_link(lost("transfer", &cause));
                    continue;
                }
                // A dial and a pause that reach beyond the patience would only delay the end.
                Verdict::Dial => match self.dial_link(patience_left.max(DIAL_MIN), &mut still_lost) {
                    Dialled::Stands => {
                        back_off = BACK_OFF.0;
                        pulse.has_new_link(Instant::now());
                        self.dial_streams(scope, patience_left)
                    }
                    Dialled::NotYet => false,
                    Dialled::Never => return,
                },
                Verdict::Keep => {
                    still_lost = StillLost::default();
                    self.dial_streams(scope, patience_left)
                }
            };
            let pause = if stands { LOOK_AGAIN } else { back_off.min(patience_left) };
            back_off = if stands { BACK_OFF.0 } else { (back_off * 2).min(BACK_OFF.1) };
            let since = Instant::now();
            self.pause(pause);
            pulse.slept(Instant::now(), pause, since.elapsed());
        }
    }

    /// Shows the peer each other token that there is, until the session is closed.
    fn keep_known(&self, tokens: &dyn TokenSource) {
        let mut looked = Instant::now();
        while !self.session.is_closed() {
            std::thread::sleep(LOOK_AGAIN);
            if looked.elapsed() < TOKEN_LOOK {
                continue;
            }
            looked = Instant::now();
            // Without a link the next one shows it.
            if self.session.lost_since().is_none()
                && let Err(failure) = self.dialler.show_anew(tokens)
            {
                tracing::warn!(%failure, "the token is not renewed");
            }
        }
    }

    /// Forgets the refusals of streams that stand by now; and since when there was nothing but refusals, if something
    /// got across, or if there is no link: then no stream is to be had, whatever memory there is.
    fn note_streams(&self, now: Instant, progressed: bool) {
        let there = self.session.streams();
        let is_lost = self.session.lost_since().is_some();
        let mut boxes = self.boxes();
        boxes.refusals.stand(now, &there);
        if progressed || is_lost {
            boxes.refusals.since = None;
        }
    }

    /// What the link looks like now.
    fn seen(&self) -> Seen {
        Seen {
            is_lost: self.session.lost_since().is_some(),
            heard_at: self.session.heard_at(),
            moved_bytes: self.session.moved_bytes(),
            awaits_peer: awaits_peer(&self.session),
            is_excused: self.session.peer_heartbeat().waiting_for.is_some() || is_reading(&self.session),
            is_undialled: self.boxes().dials.is_undialled(),
        }
    }

    /// Dials a link in the place of one that is lost or silent, for at most so long. Where the far mover does not know
    /// the session any more, that is its end. `still_lost`: of the dials before this one.
    fn dial_link(&self, at_most: Duration, still_lost: &mut StillLost) -> Dialled {
        match self.dialler.resume(&self.session, at_most).and_then(|c| self.replace_link(c)) {
            Ok(()) => {
                *still_lost = StillLost::default();
                Dialled::Stands
            }
            Err(failure) if failure.kind == FailureKind::NotFound => {
                let cause = "the far mover does not know the session any more: it was restarted, or waited for us \
                             for as long as it may";
                self.session.close(Some(lost("resume", cause).because(Reason::SessionGone)));
                Dialled::Never
            }
            // Nobody starts it any more.
            Err(failure) if failure.reason == Reason::FarEnds => {
                self.session.close(Some(failure));
                Dialled::Never
            }
            Err(failure) => {
                tracing::info!(%failure, "still no link");
                // That it is lost is told by itself.
                if self.session.lost_since().is_none() && still_lost.why.is_none() {
                    let silence = self.silence();
                    let text = format!("{silence}, and it cannot be dialled so far: {failure}");
                    (self.dialler.events)(Event::Note(text));
                }
                let addresses = self.dialler.connect.addresses().len();
                // One that is only silent may be heard again.
                let is_final = still_lost.is_refused(Instant::now(), &failure, addresses)
                    && self.session.lost_since().is_some();
                if is_final {
                    self.session.close(Some(failure));
                    return Dialled::Never;
                }
                Dialled::NotYet
            }
        }
    }

    /// Puts a new control connection in the place of one that is lost or silent.
    fn replace_link(&self, connection: Connection) -> Result<()> {
        if self.session.lost_since().is_none() {
            self.session.drop_link(lost("transfer", &self.silence()));
        }
        self.session.attach_control(connection)
    }

    /// For messages: for how long nothing was heard.
    fn silence(&self) -> String {
        let heard_at = self.session.heard_at();
        let silent = heard_at.map_or(SILENCE, |at| at.elapsed().max(SILENCE));
        format!("the peer said nothing for {} s", silent.as_secs())
    }

    /// Dials what is missing and not being dialled, each for at most so long. False if some could not be had.
    fn dial_streams<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>, at_most: Duration) -> bool {
        // In this order: one that comes to stand in between is dialled no second time.
        let under_way = self.dials.streams();
        let there = self.session.streams();
        let (mut missing, hints) = {
            let (boxes, now) = (self.boxes(), Instant::now());
            let is_missing = |stream: &u16| {
                !there.contains(stream) && !under_way.contains(stream) && !boxes.refusals.rests(now, *stream)
            };
            if boxes.streams_wanted > 0 {
                self.dialler.early.give_up_from(&*self.dialler.connect, boxes.streams_wanted);
            }
            ((0..boxes.streams_wanted).filter(is_missing).collect::<Vec<u16>>(), boxes.hints)
        };
        // One at a time, and what is missing first: what it has under way is sent again.
        if missing.is_empty() && under_way.is_empty() && !there.is_empty() {
            missing.extend(self.dialler.connect.stream_to_move());
        }
        let dial = move |stream: u16| {
            let dialled = self.dialler.stream(&self.session, stream, self.rtt, hints, at_most);
            self.note_dialled(stream, dialled.as_ref().err());
            dialled.is_ok()
        };
        self.dials.dial(scope, missing, DIALS_WAIT, dial)
    }

    /// The first that fails before any stands is told: with a wrong address or card none ever will.
    fn note_dialled(&self, stream: u16, failure: Option<&Failure>) {
        // Without a link no stream can be had: why there is none is told by itself, and what has ended needs none.
        let has_link = !self.session.is_closed() && self.session.lost_since().is_none();
        let is_first = self.boxes().dials.note(failure.cloned(), has_link);
        if let Some(failure) = failure {
            tracing::info!(stream, %failure, "stream not dialled");
            if is_first {
                let text = format!("streams cannot be dialled so far: {failure}");
                (self.dialler.events)(Event::Note(text));
            }
        }
    }

    /// Why nothing moved for so long: `cause`, which is the peer's, unless no stream ever stood; and why there is no
    /// link, if it is `still_lost`.
    fn why_idle(&self, cause: String, after: Duration, still_lost: Option<&Failure>) -> Failure {
        if let Some(failed) = self.boxes().dials.failed(after) {
            return failed;
        }
        match still_lost {
            Some(why) => lost("transfer", &format!("{cause}: {}", why.cause)).because(why.reason),
            None => lost("transfer", &cause),
        }
    }

    /// Why no stream is to be had, if that is so for too long.
    fn is_hopeless(&self, now: Instant) -> Option<Failure> {
        let boxes = self.boxes();
        let why = boxes.refusals.is_hopeless(now, boxes.streams_wanted)?;
        drop(boxes);
        self.session.streams().is_empty().then_some(why)
    }

    fn boxes(&self) -> MutexGuard<'_, Boxes> {
        lock(&self.mail.boxes)
    }

    fn pause(&self, at_most: Duration) {
        let boxes = self.boxes();
        let quiet = |boxes: &mut Boxes| !boxes.knocked;
        let (mut boxes, _) =
            self.mail.knock.wait_timeout_while(boxes, at_most, quiet).unwrap_or_else(|p| p.into_inner());
        boxes.knocked = false;
    }
}

/// What became of a dial.
enum Dialled {
    Stands,
    NotYet,
    Never,
}

/// Dials that came to nothing since there was a link.
#[derive(Default)]
struct StillLost {
    /// Why the last one did.
    why: Option<Failure>,
    /// Since when, and how often, who answered refused for the same reason, and nothing else came of it.
    refused: Option<(Instant, usize)>,
}

impl StillLost {
    /// Notes one more. Whether who answers refuses for good: it may be somebody else whom the outage put in its place,
    /// at one of so many addresses.
    fn is_refused(&mut self, now: Instant, failure: &Failure, addresses: usize) -> bool {
        let final_reasons = [Reason::NotTrusted, Reason::NoVersion, Reason::TokenNotTaken];
        let refuses = final_reasons.contains(&failure.reason);
        let is_same = self.why.as_ref().is_some_and(|before| before.reason == failure.reason);
        let (since, times) = self.refused.take().filter(|_| is_same).unwrap_or((now, 0));
        self.refused = refuses.then_some((since, times + 1));
        self.why = Some(failure.clone());
        refuses && times + 1 > addresses.max(1) && now.saturating_duration_since(since) >= REFUSES_MIN
    }
}

fn lost(operation: &str, cause: &str) -> Failure {
    Failure::new(FailureKind::Connection, operation, cause)
}

/// Everything that the peer acknowledged or sent well: only this counts as progress. A chunk may take longer than a
/// stall is borne, so its segments count; but no claim of the peer counts beyond what we sent.
fn progress(session: &Session) -> [u64; 5] {
    let mut sum = [0; 5];
    let mut sent_bytes = 0;
    for transfer in session.transfers() {
        let one = transfer.crossed();
        let numbers = [one.verified_bytes, one.durable_bytes, one.settled, one.ended, one.received_bytes];
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        sent_bytes += one.sent_bytes;
    }
    sum[4] += session.peer_heartbeat().verified_bytes.min(sent_bytes);
    sum
}

/// Bytes that no further session carries again.
fn kept(session: &Session) -> u64 {
    session.transfers().iter().map(|transfer| transfer.crossed().kept_bytes).sum()
}

fn is_reading(session: &Session) -> bool {
    session.transfers().iter().any(|transfer| transfer.is_reading())
}

fn awaits_peer(session: &Session) -> bool {
    let is_silent = session.heard_at().is_some_and(|at| at.elapsed() > SILENCE / 2);
    let peer = PeerNow { is_silent, heartbeat: session.peer_heartbeat() };
    is_blamed(&peer, &session.transfers())
}

/// Whether the peer is what holds any of them up. One that is heard and waits for its share is not, whatever
/// it moves and whichever way: its operator has it wait.
fn is_blamed(peer: &PeerNow, transfers: &[Arc<dyn Transfer>]) -> bool {
    let waits_for_share = peer.heartbeat.waiting_for == Some(WaitingFor::Share);
    (peer.is_silent || !waits_for_share) && transfers.iter().any(|transfer| transfer.blames(peer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::feed::Taker;
    use crate::endpoint::synthetic::{NoiseSource, NullDestination};
    use crate::event;
    use crate::frames::lane::Window;
    use crate::frames::{NewFrame, ProducerId};
    use crate::link::testing::LONG;
    use crate::run::Outbox;
    use crate::run::flow::job::FlowWishes;
    use crate::run::flow::sender::FlowSend;
    use crate::run::frames::produce::ProduceRun;
    use crate::run::receiver::ReceiveRun;
    use crate::run::sender::SendRun;
    use crate::run::transfer::testing::Double;
    use crate::transfer::{receiver, sender};
    use thalweg_wire::RelativePath;
    use thalweg_wire::message::{
        FramesMessage, Heartbeat, Origin, Terms, TransferMessage, TransferNumber, Until,
    };

    struct Nobody;

    impl Outbox for Nobody {
        fn say(&self, _: TransferNumber, _: TransferMessage) {}
        fn work(&self) {}
    }

    /// Each of which waits for its peer.
    fn transfers() -> [(&'static str, Arc<dyn Transfer>); 5] {
        let (number, terms) = (TransferNumber(0), Terms::of(4 << 20, 1 << 20));
        let source = Arc::new(NoiseSource { bytes: 1 << 10, file_bytes: 1 << 10 });
        let limits = sender::Limits::for_path(&terms, None);
        let push = SendRun::new(number, source, terms.clone(), limits, Box::new(Nobody), event::nobody());
        push.start().unwrap();
        let until = Instant::now() + LONG;
        while !push.awaits_peer() {
            assert!(Instant::now() < until, "it found nothing");
            std::thread::sleep(Duration::from_millis(1));
        }
        let (destination, limits) = (Arc::new(NullDestination::default()), receiver::Limits::default());
        let outbox = Box::new(Nobody);
        let pull =
            ReceiveRun::start(number, destination, terms.clone(), limits, outbox, event::nobody()).unwrap();
        let wishes = FlowWishes::new(Until::default());
        let stream = FlowSend::new(terms.clone(), wishes.terms, event::nobody());
        stream.attach(number, Box::new(Nobody), None);
        let path = RelativePath::new(b"log".to_vec()).unwrap();
        stream.begin(path, (Origin::default(), false), 0o644).unwrap();
        let window = Window { bytes: 1 << 20, items: 4 };
        let producer = ProduceRun::new(ProducerId::new("cam").unwrap(), window);
        let frames = producer.attach(number, terms, Box::new(Nobody));
        frames.hear(TransferMessage::Frames(FramesMessage::Stand { epoch: 1, next: 0 })).unwrap();
        let frame = NewFrame { payload: vec![1; 10].into(), ..NewFrame::default() };
        producer.push(producer.prepare(frame).unwrap(), None).unwrap();
        [
            ("files to it", push),
            ("files from it", pull),
            ("a stream to it", stream),
            ("frames to it", frames),
            ("anything else", Arc::new(Double { blames: true, ..Double::default() })),
        ]
    }

    #[test]
    fn a_peer_that_waits_for_its_share_is_no_stall_whatever_is_moved_unless_it_is_silent() {
        let transfers = transfers();
        for (name, transfer) in &transfers {
            let blames = |waiting_for, is_silent| {
                let heartbeat = Heartbeat { waiting_for, waiting_ms: 60_000, ..Heartbeat::default() };
                is_blamed(&PeerNow { is_silent, heartbeat }, std::slice::from_ref(transfer))
            };
            assert!(blames(None, false), "{name}: it is waited for");
            assert!(!blames(Some(WaitingFor::Share), false), "{name}: its operator has it wait");
            assert!(blames(Some(WaitingFor::Share), true), "{name}: it may be gone");
        }
        let why = Failure::new(FailureKind::Stopped, "transfer", "the test is over");
        for (_, transfer) in transfers {
            transfer.session_ends(transfer.attachment(), &why);
            transfer.put_away();
        }
    }

    #[test]
    fn who_refuses_again_and_again_refuses_for_good_and_an_outage_never_does() {
        let lost = |reason| lost("connect", "no").because(reason);
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        for reason in [Reason::NotTrusted, Reason::NoVersion, Reason::TokenNotTaken] {
            let mut dials = StillLost::default();
            assert!(!dials.is_refused(at(0), &lost(reason), 1), "{reason:?}");
            assert!(!dials.is_refused(at(9), &lost(reason), 1), "{reason:?}: an outage may last so long");
            assert!(dials.is_refused(at(10), &lost(reason), 1), "{reason:?}");
            // Others may be at some of the addresses.
            let mut dials = StillLost::default();
            assert!(!dials.is_refused(at(0), &lost(reason), 2));
            assert!(!dials.is_refused(at(10), &lost(reason), 2));
            assert!(dials.is_refused(at(11), &lost(reason), 2));
            // Not in a row.
            assert!(!dials.is_refused(at(12), &lost(Reason::NotAnswered), 1));
            assert!(!dials.is_refused(at(13), &lost(reason), 1));
            assert!(!dials.is_refused(at(14), &lost(reason), 1));
        }
        let mut dials = StillLost::default();
        for seconds in 0..100 {
            assert!(!dials.is_refused(at(seconds), &lost(Reason::NotAnswered), 1));
        }
    }

    #[test]
    fn a_dial_that_hangs_keeps_no_other() {
        let (dials, (goes_on, hangs)) = (UnderWay::default(), mpsc::channel::<()>());
        let hangs = Mutex::new(hangs);
        std::thread::scope(|scope| {
            // The first one's handshake has no end before the test says so.
            let dial = |stream: u16| stream != 0 || hangs.lock().unwrap().recv().is_ok();
            assert!(dials.dial(scope, vec![0, 1], Duration::from_millis(1), dial), "nothing failed yet");
            assert!(dials.streams().contains(&0), "nobody dials it a second time");
            assert!(dials.dial(scope, vec![2], Duration::from_secs(60), dial));
            assert!(!dials.streams().contains(&2));
            assert!(!dials.dial(scope, vec![3], Duration::from_secs(60), |_| panic!("a dial may")));
            drop(goes_on);
        });
        assert!(dials.streams().is_empty());
    }
}
