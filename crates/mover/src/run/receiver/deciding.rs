//! The thread that decides: what stands at the destination, for each entry that was offered.

use super::{ReceiveRun, next_job};
use crate::endpoint::{Decision, ELSEWHERE_BYTES_MIN};
use crate::mutex::lock;
use crate::stage::receiving::Receiving;
use crate::stage::round::HeldContent;
use crate::stage::{Accounts, Booking, Clocks, Stage, Stopwatch};
use crate::transfer::receiver::{Candidate, Decided};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use thalweg_wire::message::Outcome;
use thalweg_wire::{Digest, Entry, EntryId, RelativePath};

/// Entries that are decided before the machine is told of them: a message of wants for each batch. And no longer than
/// [`DECIDED_AFTER`], for a destination that takes its time.
const DECIDED_TOGETHER: usize = 256;
const DECIDED_AFTER: Duration = Duration::from_millis(2);

/// What the deciding thread tells the machine.
enum Verdict {
    Decided(EntryId, Decided),
    Kept(EntryId, Option<(Outcome, bool)>),
    Nothing,
}

/// Work for it.
pub(super) enum Decide {
    Look(Arc<Entry>),
    OfferedBefore(RelativePath),
    Link(Arc<Entry>),
    Keep(Arc<Entry>, Digest),
    Gone(EntryId),
    Stop,
}

impl ReceiveRun {
    pub(super) fn decide(&self, queue: &mpsc::Receiver<Decide>) {
        self.common.accounts.enter(Stage::Decide);
        let mut watch = Stopwatch::start(&self.common.accounts);
        while let Ok(first) = next_job(queue, &mut watch, Stage::Decide) {
            self.wait_for_notes();
            // Told together, so that one look at the machine and one message serve them all.
            let since = Instant::now();
            let mut verdicts = Vec::new();
            let mut next = Some(first);
            while let Some(work) = next.take() {
                self.common.accounts.taken(Stage::Decide);
                if self.may_take_long(&work) {
                    self.tell_verdicts(&mut verdicts);
                }
                // What nobody waits for is not looked at, and what was cut short is no verdict.
                let is_over = || self.is_given_up.load(Ordering::Acquire);
                let verdict =
                    if is_over() { None } else { self.verdict(work, &mut watch).filter(|_| !is_over()) };
                let Some(verdict) = verdict else {
                    self.tell_verdicts(&mut verdicts);
                    return;
                };
                verdicts.push(verdict);
                watch.quick(Stage::Decide, 0);
                if verdicts.len() < DECIDED_TOGETHER && since.elapsed() < DECIDED_AFTER {
                    next = queue.try_recv().ok();
                }
            }
            self.tell_verdicts(&mut verdicts);
        }
    }

    /// Of a large file a partial may be there, which is digested again; for one whose content may stand under another
    /// name all that stands there may be listed.
    fn may_take_long(&self, work: &Decide) -> bool {
        let terms = &self.common.terms;
        match work {
            Decide::Look(entry) => {
                let bytes = entry.content_bytes();
                bytes > u64::from(terms.segment_bytes)
                    || (terms.finds_renames && bytes >= ELSEWHERE_BYTES_MIN)
            }
            Decide::Keep(..) => true,
            Decide::OfferedBefore(_) | Decide::Link(_) | Decide::Gone(_) | Decide::Stop => false,
        }
    }

    fn tell_verdicts(&self, verdicts: &mut Vec<Verdict>) {
        if verdicts.is_empty() {
            return;
        }
        let mut state = self.lock();
        let now = self.clock.now();
        for verdict in verdicts.drain(..) {
            match verdict {
                Verdict::Decided(id, decided) => state.machine.decided(id, decided, now),
                Verdict::Kept(id, kept) => state.machine.kept(id, kept, now),
                Verdict::Nothing => {}
            }
        }
        self.pump(&mut state);
    }

    /// What becomes of an entry; `None` when there is nothing more to decide.
    fn verdict(&self, work: Decide, watch: &mut Stopwatch) -> Option<Verdict> {
        let (entry, decision) = match work {
            Decide::Stop => return None,
            Decide::OfferedBefore(path) => {
                self.destination.offered_before(&path);
                return Some(Verdict::Nothing);
            }
            Decide::Gone(id) => {
                self.destination.gone(id);
                return Some(Verdict::Nothing);
            }
            Decide::Look(entry) => {
                let decision = self.look(&entry, watch);
                (entry, decision)
            }
            Decide::Link(entry) => {
                let decision = self.destination.link(&entry);
                (entry, decision)
            }
            Decide::Keep(entry, digest) => {
                let decision = self.destination.keep(&entry, digest);
                if self.is_end(&decision) {
                    return Some(Verdict::Nothing);
                }
                let kept = match decision {
                    Decision::Settled { outcome, made } => Some((outcome, made)),
                    _ => None,
                };
                return Some(Verdict::Kept(entry.id, kept));
            }
        };
        if self.is_end(&decision) {
            return Some(Verdict::Nothing);
        }
        let decided = match decision {
            Decision::Settled { outcome, made } => Decided::Settled { outcome, made },
            Decision::Fresh => Decided::Fresh,
            Decision::Wanted { left, candidate } => {
                let candidate = candidate
                    .and_then(|size| Candidate::of(size, entry.evidence.size, self.common.terms.chunk_bytes));
                match (left, candidate) {
                    (None, None) => Decided::Fresh,
                    (left, candidate) => Decided::Wanted {
                        present: left.map(|left| left.present).unwrap_or_default(),
                        candidate,
                    },
                }
            }
            Decision::Elsewhere { left } => Decided::Wanted {
                present: left.map(|left| left.present).unwrap_or_default(),
                candidate: Some(Candidate::elsewhere(entry.evidence.size, self.common.terms.chunk_bytes)),
            },
        };
        Some(Verdict::Decided(entry.id, decided))
    }

    /// Ends the transfer if an entry failed because the destination is lost.
    fn is_end(&self, decision: &Decision) -> bool {
        matches!(decision, Decision::Settled { outcome: Outcome::Failed(_), .. }) && self.ends_if_lost()
    }

    /// What an earlier attempt left of an entry is read: the peer knows that it goes on. False if nobody waits for it.
    fn reads_on(&self, id: EntryId) -> bool {
        *lock(&self.reading) = Some(Instant::now());
        !self.is_given_up.load(Ordering::Acquire) && self.lock().machine.is_deciding(id)
    }

    fn look(&self, entry: &Arc<Entry>, watch: &mut Stopwatch) -> Decision {
        let rereading = Rereading::new(&self.common.accounts);
        let mut decision = self.destination.decide(entry, &|done, _| {
            rereading.look(done);
            self.reads_on(entry.id)
        });
        watch.leave_out(rereading.took());
        *lock(&self.reading) = None;
        // A dry run ends here: nothing is asked for, so nothing can be written.
        // But content may be compared.
        let is_candidate = |decision: &Decision| match decision {
            Decision::Wanted { left: None, candidate } => *candidate == Some(entry.evidence.size),
            _ => false,
        };
        if self.common.terms.dry_run
            && !matches!(decision, Decision::Settled { .. })
            && !is_candidate(&decision)
        {
            let outcome = Outcome::Done { digest: None, losses: Vec::new() };
            decision = Decision::Settled { outcome, made: false };
        }
        if let Some(left) = decision.left() {
            let file = self.open_for(entry.clone(), left.partial.clone());
            self.held().insert(entry.id, HeldContent::Partial(file));
            // What is held of an entry that is withdrawn goes at once: of this there was nothing yet.
            let is_withdrawn = !self.lock().machine.is_deciding(entry.id);
            if is_withdrawn && let Some(ready) = self.take_content(entry.id) {
                self.destination.discard(ready);
            }
        }
        decision
    }
}

/// Books the reading of what an earlier attempt left, as it goes on: by the thread that decides, which does as much of
/// it as any other.
struct Rereading<'a> {
    accounts: &'a Accounts,
    thread: ThreadId,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    at: Option<Clocks>,
    /// Bytes that were read until then.
    bytes: u64,
    /// Wall time and CPU time that were booked.
    took: (Duration, Duration),
}

impl<'a> Rereading<'a> {
    /// By the calling thread, and others.
    fn new(accounts: &'a Accounts) -> Self {
        Rereading { accounts, thread: thread::current().id(), seen: Mutex::default() }
    }

    /// So many bytes were read by now. What went on before any were is something else.
    fn look(&self, bytes: u64) {
        if thread::current().id() != self.thread {
            return;
        }
        let mut seen = lock(&self.seen);
        let now = Clocks::read();
        let more = bytes.saturating_sub(seen.bytes);
        if let Some(then) = seen.at.filter(|_| more > 0) {
            let (busy, cpu) = now.since(then);
            seen.took = (seen.took.0 + busy, seen.took.1 + cpu);
            seen.bytes = bytes;
            let booking = Booking { busy, cpu, bytes: more, ..Booking::default() };
            self.accounts.book(Stage::Reread, booking);
        }
        seen.at = Some(now);
    }

    /// Wall time and CPU time of the thread that decides which were booked.
    fn took(self) -> (Duration, Duration) {
        lock(&self.seen).took
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::synthetic::NullDestination;
    use crate::endpoint::testing::{HeldUp, Hold};
    use crate::endpoint::{Destination, Left, Reading, Ready, Staged};
    use crate::failure::{Failure, FailureKind};
    use crate::run::Outbox;
    use crate::run::party::Party;
    use crate::run::transfer::{PeerNow, Transfer};
    use crate::stage::receiving::StagedFile;
    use crate::transfer::receiver::Limits;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use thalweg_wire::message::{
        Heartbeat, ScanTotals, Terms, TransferMessage, TransferNumber, WaitingFor, Want,
    };
    use thalweg_wire::{Evidence, Kind};

    /// Counts what is wanted, and the messages that say so.
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<(usize, usize)>>);

    impl Outbox for Heard {
        fn say(&self, _: TransferNumber, message: TransferMessage) {
            if let TransferMessage::Want(wants) = message {
                let mut heard = self.0.lock().unwrap();
                heard.0 += 1;
                heard.1 += wants.iter().filter(|(_, want)| *want == Want::Whole).count();
            }
        }

        fn work(&self) {}
    }

    fn run(heard: &Heard) -> Arc<ReceiveRun> {
        run_to(Arc::new(NullDestination::default()), heard)
    }

    fn run_to(destination: Arc<dyn Destination>, heard: &Heard) -> Arc<ReceiveRun> {
        run_by(Terms::of(4 << 20, 1 << 20), destination, heard)
    }

    fn run_by(terms: Terms, destination: Arc<dyn Destination>, heard: &Heard) -> Arc<ReceiveRun> {
        ReceiveRun::start(
            TransferNumber(0),
            destination,
            terms,
            Limits::default(),
            Box::new(heard.clone()),
            crate::event::nobody(),
        )
        .unwrap()
    }

    /// Has more to read of each entry than anybody will wait for, and no end before the test says so.
    #[derive(Default)]
    struct Endless {
        decided: AtomicUsize,
        concludes: AtomicBool,
    }

    impl Hold for Endless {
        fn decide(&self, reading: Reading<'_>) {
            self.decided.fetch_add(1, Ordering::AcqRel);
            while reading(1, 1 << 50) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }

        fn conclude(&self) {
            while !self.concludes.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// For the second entry lists more than anybody will wait for.
    #[derive(Default)]
    struct ListsForSecond(AtomicUsize);

    impl Hold for ListsForSecond {
        fn decide(&self, reading: Reading<'_>) {
            let is_second = self.0.fetch_add(1, Ordering::AcqRel) == 1;
            while is_second && reading(0, 1 << 50) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Keeps what is gone.
    #[derive(Default)]
    struct Gone(Mutex<Vec<EntryId>>);

    impl Hold for Gone {
        fn gone(&self, id: EntryId) {
            self.0.lock().unwrap().push(id);
        }
    }

    /// Finds a partial of an earlier attempt, and is not done with it before the test says so.
    #[derive(Default)]
    struct FindsPartial {
        is_asked: AtomicBool,
        goes_on: AtomicBool,
        discarded: Mutex<Vec<u64>>,
    }

    impl Hold for FindsPartial {
        fn decided(&self, entry: &Entry, _: Decision) -> Decision {
            self.is_asked.store(true, Ordering::Release);
            wait_until("goes on", || self.goes_on.load(Ordering::Acquire));
            let partial = NullDestination::default().begin(entry).unwrap();
            let left = Some(Left { partial, present: vec![(0, Digest::default())] });
            Decision::Wanted { left, candidate: None }
        }

        fn discard(&self, ready: &Ready) {
            let Ready::Partial(partial) = ready else { panic!("nothing is staged") };
            self.discarded.lock().unwrap().push(partial.number());
        }
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < until, "not: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn wait_until_it_waits_for(run: &ReceiveRun, what: Option<WaitingFor>) {
        let until = Instant::now() + Duration::from_secs(60);
        while run.progress().waiting_for != what {
            assert!(Instant::now() < until, "{:?}, not {what:?}", run.progress().waiting_for);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn entry(number: u64) -> Entry {
        Entry {
            id: EntryId(number),
            path: RelativePath::new(format!("file{number}").into_bytes()).unwrap(),
            // Some are large: those may take long.
            evidence: Evidence {
                size: if number % 100 == 7 { 4 << 20 } else { 4096 },
                ..Evidence::default()
            },
            kind: Kind::File { sparse: false, marked: false },
            mode: 0o644,
            uid: 0,
            gid: 0,
            xattrs: Vec::new(),
        }
    }

    fn wait_for(heard: &Heard, wanted: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        while heard.0.lock().unwrap().1 < wanted && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn nothing_is_decided_while_too_much_that_is_settled_waits_to_be_noted() {
        let heard = Heard::default();
        let run = run(&heard);
        run.unnoted.store(super::super::UNNOTED_MAX + 1, Ordering::Release);
        run.hear(TransferMessage::Offer(vec![entry(0)])).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(heard.0.lock().unwrap().1, 0);
        run.noted(1);
        wait_for(&heard, 1);
        assert_eq!(heard.0.lock().unwrap().1, 1);
        run.close();
    }

    /// Else its link would be cut for a reader of events that pauses.
    #[test]
    fn nothing_is_decided_while_who_hears_of_what_settles_is_behind_and_no_peer_that_is_heard_is_blamed() {
        let heard = Heard::default();
        let run = run(&heard);
        let is_behind = Arc::new(AtomicBool::new(true));
        let asked = is_behind.clone();
        run.keep_pace_with(Arc::new(move || asked.load(Ordering::Acquire)));
        run.hear(TransferMessage::Offer(vec![entry(0)])).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while !run.is_held_back.load(Ordering::Acquire) {
            assert!(Instant::now() < until, "it waits for nobody");
            std::thread::sleep(Duration::from_millis(1));
        }
        let blames = |is_silent| run.blames(&PeerNow { is_silent, heartbeat: Heartbeat::default() });
        assert!(!blames(false) && blames(true));
        assert_eq!(heard.0.lock().unwrap().1, 0);
        is_behind.store(false, Ordering::Release);
        wait_for(&heard, 1);
        assert_eq!(heard.0.lock().unwrap().1, 1);
        run.close();
    }

    /// Else nothing ends a copy whose sender is older and hangs in a read: neither a stall nor the patience.
    #[test]
    fn a_sender_that_reads_is_borne_while_it_goes_on_if_it_tells_for_how_long_it_did_not() {
        let run = run(&Heard::default());
        let blames = |waiting_ms| {
            let waiting_for = Some(WaitingFor::Read);
            let heartbeat = Heartbeat { waiting_for, waiting_ms, ..Heartbeat::default() };
            run.blames(&PeerNow { is_silent: false, heartbeat })
        };
        assert_eq!([0, 1, 9_999, 10_000].map(blames), [true, false, false, true]);
        run.close();
    }

    #[test]
    fn what_is_wanted_of_many_entries_is_said_in_few_messages() {
        const ENTRIES: u64 = 2000;
        let heard = Heard::default();
        let run = run(&heard);
        for first in (0..ENTRIES).step_by(500) {
            run.hear(TransferMessage::Offer((first..first + 500).map(entry).collect())).unwrap();
        }
        wait_for(&heard, ENTRIES as usize);
        let (messages, wanted) = *heard.0.lock().unwrap();
        assert_eq!(wanted, ENTRIES as usize);
        assert!(messages <= ENTRIES as usize / 4, "{messages} messages");
        run.close();
    }

    #[test]
    fn what_is_decided_is_told_before_all_that_stands_there_is_listed_for_other_names() {
        let heard = Heard::default();
        let terms = Terms { finds_renames: true, ..Terms::of(4 << 20, 1 << 20) };
        let run = run_by(terms, Arc::new(HeldUp::<ListsForSecond>::default()), &heard);
        // Nothing is looked at before both are there.
        run.unnoted.store(super::super::UNNOTED_MAX + 1, Ordering::Release);
        let evidence = Evidence { size: ELSEWHERE_BYTES_MIN, ..Evidence::default() };
        run.hear(TransferMessage::Offer(vec![entry(0), Entry { evidence, ..entry(1) }])).unwrap();
        run.noted(1);
        wait_for(&heard, 1);
        assert_eq!(heard.0.lock().unwrap().1, 1);
        run.close();
    }

    /// Else the first is thrown away as if nobody wanted it, and the entry has nothing when it is to get its name.
    #[test]
    fn of_a_file_that_is_twice_in_one_pack_the_first_is_kept() {
        let heard = Heard::default();
        let run = run(&heard);
        run.hear(TransferMessage::Offer(vec![entry(0)])).unwrap();
        wait_for(&heard, 1);
        let staged = |number| StagedFile {
            entry: Arc::new(entry(0)),
            digest: Digest::default(),
            staged: Staged { lane: 0, number, name: None, losses: Vec::new() },
        };
        run.files_staged(vec![staged(1), staged(2)]);
        assert_eq!(run.staged(EntryId(0)).map(|(_, staged)| staged.number), Some(1));
        run.close();
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_not_decided() {
        let endless = Arc::new(HeldUp::<Endless>::default());
        let run = run_to(endless.clone(), &Heard::default());
        run.hear(TransferMessage::Offer((0..1000).map(entry).collect())).unwrap();
        wait_until_it_waits_for(&run, Some(WaitingFor::Read));
        run.close();
        assert_eq!(endless.hold.decided.load(Ordering::Acquire), 1, "the rest of the queue is not looked at");
    }

    /// Else it keeps for ever what it knows of an entry that changed at the source.
    #[test]
    fn a_destination_hears_of_an_entry_that_another_replaces() {
        let (to, heard) = (Arc::new(HeldUp::<Gone>::default()), Heard::default());
        let run = run_to(to.clone(), &heard);
        run.hear(TransferMessage::Offer(vec![entry(0), entry(1)])).unwrap();
        wait_for(&heard, 2);
        run.hear(TransferMessage::Withdraw(vec![(EntryId(1), None)])).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while *to.hold.0.lock().unwrap() != [EntryId(1)] {
            assert!(Instant::now() < until, "it hears nothing");
            std::thread::sleep(Duration::from_millis(1));
        }
        run.close();
    }

    /// Else it stays open, with all the room that it takes, until the transfer ends.
    #[test]
    fn what_an_earlier_attempt_left_of_an_entry_that_was_withdrawn_meanwhile_is_thrown_away() {
        let gone = Failure::new(FailureKind::NotFound, "read", "gone");
        for failure in [None, Some(gone)] {
            let to = Arc::new(HeldUp::<FindsPartial>::default());
            let run = run_to(to.clone(), &Heard::default());
            run.hear(TransferMessage::Offer(vec![entry(7)])).unwrap();
            wait_until("asked", || to.hold.is_asked.load(Ordering::Acquire));
            run.hear(TransferMessage::Withdraw(vec![(EntryId(7), failure)])).unwrap();
            to.hold.goes_on.store(true, Ordering::Release);
            wait_until("thrown away", || !to.hold.discarded.lock().unwrap().is_empty());
            assert_eq!(*to.hold.discarded.lock().unwrap(), [0]);
            assert!(run.partial(EntryId(7)).is_none());
            run.close();
        }
    }

    /// Reads again what an earlier attempt left, in three steps, the last of which another thread tells.
    #[derive(Default)]
    struct Rereads;

    impl Hold for Rereads {
        fn decide(&self, reading: Reading<'_>) {
            assert!([0, 10, 30].iter().all(|&done| reading(done, 40)));
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(reading(40, 40)));
            });
        }
    }

    #[test]
    fn what_an_earlier_attempt_left_is_booked_apart_when_it_is_read_again() {
        let heard = Heard::default();
        let run = run_to(Arc::new(HeldUp::<Rereads>::default()), &heard);
        run.hear(TransferMessage::Offer(vec![entry(0)])).unwrap();
        wait_for(&heard, 1);
        let accounts = run.own_accounts();
        let [decide, reread] = [Stage::Decide, Stage::Reread].map(|stage| accounts.stage(stage as u8));
        // What others read is found with the next look of the thread that decides.
        assert_eq!((reread.bytes, decide.bytes), (30, 0));
        assert!(reread.busy_nanos > 0, "{reread:?}");
        run.close();
    }

    #[test]
    fn who_waits_for_a_partial_to_be_read_again_hears_that_it_is() {
        let run = run_to(Arc::new(HeldUp::<Endless>::default()), &Heard::default());
        run.hear(TransferMessage::Offer(vec![entry(0)])).unwrap();
        wait_until_it_waits_for(&run, Some(WaitingFor::Read));
        // What is withdrawn is not read any more.
        let gone = Failure::new(FailureKind::NotFound, "read", "gone");
        run.hear(TransferMessage::Withdraw(vec![(EntryId(0), Some(gone))])).unwrap();
        wait_until_it_waits_for(&run, None);
        run.close();
    }

    #[test]
    fn who_waits_for_the_end_hears_that_it_is_worked_at() {
        let endless = Arc::new(HeldUp::<Endless>::default());
        let run = run_to(endless.clone(), &Heard::default());
        let totals = ScanTotals { complete: true, ..ScanTotals::default() };
        run.hear(TransferMessage::OfferEnd(totals)).unwrap();
        wait_until_it_waits_for(&run, Some(WaitingFor::Write));
        endless.hold.concludes.store(true, Ordering::Release);
        wait_until_it_waits_for(&run, None);
        run.close();
    }
}
