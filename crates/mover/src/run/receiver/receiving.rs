//! What streams and the thread of rounds tell the machine: what came, was written, is durable, has its name.

use super::ReceiveRun;
use crate::endpoint::{Conclusion, Destination, Ready, Staged};
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use crate::mutex::lock;
use crate::stage::Accounts;
use crate::stage::receiving::{OpenPartial, Receiving, StagedFile};
use crate::stage::round::HeldContent;
use crate::stage::turn::Gate;
use crate::transfer::Copy;
use crate::transfer::receiver::{Claim, Finished, RoundResult};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use thalweg_sys::Pool;
use thalweg_wire::digest::{Tree, hole_chunk_mark};
use thalweg_wire::message::{Terms, WaitingFor};
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath};

impl Receiving for ReceiveRun {
    fn terms(&self) -> &Terms {
        &self.common.terms
    }

    fn accounts(&self) -> &Accounts {
        &self.common.accounts
    }

    fn destination(&self) -> &dyn Destination {
        &*self.destination
    }

    fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    fn open_partial(&self, id: EntryId) -> Result<Option<OpenPartial>> {
        let wanted = {
            let state = self.lock();
            if !state.machine.was_offered(id) {
                return Err(never_offered());
            }
            state.machine.chunks_wanted(id)
        };
        let wanted = wanted.filter(|_| !self.is_given_up());
        Ok(wanted.and_then(|entry| self.held_or_begun(entry)))
    }

    fn partial(&self, id: EntryId) -> Option<OpenPartial> {
        match self.held().get(&id) {
            Some(HeldContent::Partial(file)) => Some(file.clone()),
            _ => None,
        }
    }

    fn staged(&self, id: EntryId) -> Option<(Arc<Entry>, Staged)> {
        match self.held().get(&id) {
            Some(HeldContent::Staged(entry, staged)) => Some((entry.clone(), staged.clone())),
            _ => None,
        }
    }

    fn entry(&self, id: EntryId) -> Option<Arc<Entry>> {
        match self.held().get(&id)? {
            HeldContent::Partial(file) => Some(file.entry.clone()),
            HeldContent::Staged(entry, _) => Some(entry.clone()),
        }
    }

    fn begin_if_hole(&self, id: EntryId, digest: Digest) -> Result<()> {
        if self.held().contains_key(&id) {
            return Ok(());
        }
        let Some(entry) = self.lock().machine.finishing(id) else { return Ok(()) };
        // Nothing else may ever become a file of zeros.
        if !is_one_hole(&entry, &self.common.terms, digest) {
            return Ok(());
        }
        let Some(_turn) = self.turn_to_begin(&entry) else { return Ok(()) };
        let partial = self.destination.begin(&entry).map_err(|failure| failure.at(&entry.path))?;
        let file = self.open_for(entry, partial);
        self.held().insert(id, HeldContent::Partial(file));
        Ok(())
    }

    fn is_worth_waiting(&self, id: EntryId) -> bool {
        // Not with the lock: who makes directories meanwhile has the destination waiting for the disk.
        self.staged(id).is_some_and(|(entry, staged)| self.destination.is_worth_waiting(&entry, &staged))
    }

    fn take_content(&self, id: EntryId) -> Option<Ready> {
        self.held().remove(&id).map(HeldContent::ready)
    }

    fn small_wanted(&self, ids: &[EntryId]) -> Result<Vec<Option<Arc<Entry>>>> {
        let state = self.lock();
        if !ids.iter().all(|&id| state.machine.was_offered(id)) {
            return Err(never_offered());
        }
        match self.is_given_up() {
            true => Ok(vec![None; ids.len()]),
            false => Ok(state.machine.small_wanted(ids.iter().copied())),
        }
    }

    fn files_staged(&self, files: Vec<StagedFile>) {
        if files.is_empty() {
            return;
        }
        // Held first: a round may want them as soon as the machine knows. A second copy of a file that came
        // twice stays out.
        let (mut told, mut places, mut twice) =
            (Vec::with_capacity(files.len()), Vec::with_capacity(files.len()), Vec::new());
        {
            let mut held = self.held();
            for StagedFile { entry, digest, staged } in files {
                let id = entry.id;
                match held.entry(id) {
                    std::collections::hash_map::Entry::Occupied(_) => twice.push(staged),
                    std::collections::hash_map::Entry::Vacant(place) => {
                        told.push((id, digest));
                        places.push((staged.lane, staged.number));
                        place.insert(HeldContent::Staged(entry, staged));
                    }
                }
            }
        }
        let now = self.clock.now();
        let taken = self.lock().machine.files_staged(&told, now);
        // Before the round that they begin, if no other stream begins it. And not with the lock of what is said and
        // heard: who makes directories meanwhile has the destination waiting for the disk.
        for ((lane, number), _) in places.into_iter().zip(&taken).filter(|(_, taken)| **taken) {
            self.destination.taken(lane, number);
        }
        self.pump(&mut self.lock());
        for ((id, _), taken) in told.into_iter().zip(taken) {
            if !taken && let Some(ready) = self.take_content(id) {
                self.destination.discard(ready);
            }
        }
        twice.into_iter().for_each(|staged| self.destination.discard(Ready::Staged(staged)));
    }

    fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref()
    }

    fn buffers(&self) -> &Pool {
        &self.buffers
    }

    fn claim_chunk(
        &self,
        writer: u64,
        id: EntryId,
        chunk: u64,
        begins: Option<Copy>,
        before_wait: &mut dyn FnMut(),
    ) -> bool {
        let mut is_settled = false;
        loop {
            let mut state = self.lock();
            // The machine may not know, as when a thread panicked. What is written may be the next attempt's by now.
            if self.is_given_up() {
                return false;
            }
            let claim = state.machine.claim_chunk(writer, id, chunk, begins);
            match claim {
                // Of what is to be written there is nothing to do or to say.
                Claim::Write => return true,
                Claim::Unwanted => {
                    self.pump(&mut state);
                    return false;
                }
                // Another stream is inside a write of the same chunk: a matter of milliseconds, or of a disk that
                // hangs, where waiting is all there is to do.
                Claim::Busy if !is_settled => {
                    drop(state);
                    before_wait();
                    is_settled = true;
                }
                Claim::Busy => {
                    drop(self.common.wait_in(state, Duration::from_millis(5)));
                }
            }
        }
    }

    fn segment_written(&self, writer: u64, id: EntryId, chunk: u64) {
        self.lock().machine.segment_written(writer, id, chunk);
    }

    fn copy_given_up(&self, writer: u64, id: EntryId, chunk: u64) {
        let mut state = self.lock();
        state.machine.copy_given_up(writer, id, chunk);
        self.pump(&mut state);
    }

    fn writer_gone(&self, writer: u64) {
        let mut state = self.lock();
        state.machine.writer_gone(writer);
        self.pump(&mut state);
    }

    fn chunk_written(&self, id: EntryId, chunk: u64, digest: Digest) {
        let mut state = self.lock();
        let now = self.clock.now();
        state.machine.chunk_written(id, chunk, digest, now);
        self.pump(&mut state);
    }

    fn damaged(&self, id: EntryId, chunk: u64) {
        (self.events)(Event::Repaired(1));
        let mut state = self.lock();
        state.machine.damaged(id, chunk);
        self.pump(&mut state);
    }

    fn lost(&self, id: EntryId, chunk: u64) {
        self.tell(|machine, now| machine.lost(id, chunk, now));
    }

    fn compare_wanted(&self, id: EntryId, chunk: u64) -> Result<Option<Arc<Entry>>> {
        let mut state = self.lock();
        let wanted = state.machine.compare_wanted(id, chunk);
        self.pump(&mut state);
        wanted
    }

    fn chunk_same(&self, id: EntryId, chunk: u64, digest: Digest) {
        self.tell(|machine, now| machine.chunk_same(id, chunk, digest, now));
    }

    fn chunk_differs(&self, id: EntryId, chunk: u64) {
        self.tell(|machine, now| machine.chunk_differs(id, chunk, now));
    }

    fn is_copy_wanted(&self, id: EntryId, chunk: u64) -> bool {
        self.lock().machine.is_copy_wanted(id, chunk)
    }

    fn copied(&self, id: EntryId, chunk: u64, is_there: bool) {
        self.tell(|machine, now| machine.copied(id, chunk, is_there, now));
    }

    fn is_undecided(&self, id: EntryId) -> bool {
        self.lock().machine.is_undecided(id)
    }

    fn holes_compared(&self, id: EntryId, is_hole: bool) {
        self.tell(|machine, now| machine.holes_compared(id, is_hole, now));
    }

    fn write_failed(&self, id: EntryId, failure: Failure) {
        if self.ends_if_lost() {
            return;
        }
        let mut state = self.lock();
        let now = self.clock.now();
        state.machine.write_failed(id, failure, now);
        self.pump(&mut state);
    }

    fn round_done(&self, result: RoundResult) {
        self.set_busy(None);
        let mut state = self.lock();
        let now = self.clock.now();
        state.machine.round_done(result, now);
        self.pump(&mut state);
    }

    fn finished(&self, results: Finished) {
        if results.iter().any(|(_, result)| result.is_err()) && self.ends_if_lost() {
            return;
        }
        let mut state = self.lock();
        let now = self.clock.now();
        state.machine.finished(results, now);
        self.pump(&mut state);
    }

    fn noted(&self, entries: usize) {
        self.unnoted.fetch_sub(entries, Ordering::AcqRel);
    }

    fn concludes(&self) -> bool {
        self.set_busy(Some(WaitingFor::Write));
        !self.is_given_up.load(Ordering::Acquire)
    }

    fn concluded(&self, conclusion: Conclusion) {
        self.set_busy(None);
        let mut state = self.lock();
        let Conclusion { revised, deleted, deleted_names, troubles, failed } = conclusion;
        match failed {
            Some(failure) => state.machine.abort(failure),
            None => {
                let revised = revised.into_iter().map(|it| (it.path, it.was_unchanged, it.outcome)).collect();
                state.machine.concluded(revised, deleted, deleted_names, troubles);
            }
        }
        self.pump(&mut state);
    }
}

impl ReceiveRun {
    /// The partial of an entry that was wanted a moment ago, begun if need be. `None` if it cannot be, or nobody wants
    /// it any more.
    fn held_or_begun(&self, entry: Arc<Entry>) -> Option<OpenPartial> {
        let id = entry.id;
        if let Some(file) = self.partial(id) {
            return Some(file);
        }
        // Two streams do not begin the same one twice.
        let Some(_turn) = self.turn_to_begin(&entry) else { return self.partial(id) };
        if !self.lock().machine.is_under_way(id) {
            // Whose turn it was before may have failed.
            return None;
        }
        let file = match self.destination.begin(&entry) {
            Ok(partial) => self.open_for(entry, partial),
            Err(failure) => {
                self.write_failed(id, failure.at(&entry.path));
                return None;
            }
        };
        let is_wanted = {
            let state = self.lock();
            // With the lock of what is said and heard: what is held of an entry that is withdrawn goes at once, and of
            // this there was nothing yet.
            let is_wanted = state.machine.is_under_way(id) && !self.is_given_up();
            if is_wanted {
                self.held().insert(id, HeldContent::Partial(file.clone()));
            }
            is_wanted
        };
        if !is_wanted {
            self.destination.discard(Ready::Partial(file.partial));
            return None;
        }
        Some(file)
    }

    /// The turn to begin the partial of an entry, which lasts until it is dropped; `None` if something is held of it.
    /// Waits for whose turn it is. It is no lock of what is held: the destination may wait for a sync of its records,
    /// and whoever throws something away has the lock of what is said and heard. By path: what takes an entry's place
    /// while its partial is begun, is begun behind it.
    fn turn_to_begin(&self, entry: &Entry) -> Option<Turn<'_>> {
        let path = &entry.path;
        let waited = self.begun.wait_while(lock(&self.beginning), |beginning| beginning.contains(path));
        let mut beginning = waited.unwrap_or_else(PoisonError::into_inner);
        if self.held().contains_key(&entry.id) {
            return None;
        }
        beginning.insert(path.clone());
        Some(Turn { run: self, path: path.clone() })
    }
}

/// See [`ReceiveRun::turn_to_begin`]. Who panics gives it back too.
struct Turn<'a> {
    run: &'a ReceiveRun,
    path: RelativePath,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.run.beginning).remove(&self.path);
        self.run.begun.notify_all();
    }
}

/// Whether `digest` is that of a file of this entry's size which is a single hole.
fn is_one_hole(entry: &Entry, terms: &Terms, digest: Digest) -> bool {
    let (size, chunk_bytes) = (entry.evidence.size, terms.chunk_bytes);
    let mark = hole_chunk_mark(chunk_bytes, u64::from(terms.segment_bytes));
    let mut tree = Tree::new(size, chunk_bytes);
    tree.insert_marked_holes(0, size / chunk_bytes, mark);
    matches!(entry.kind, Kind::File { marked: true, .. }) && tree.root() == Some(digest)
}

fn never_offered() -> Failure {
    Failure::new(FailureKind::Protocol, "receive", "data of an entry that was never offered")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Decision;
    use crate::endpoint::testing::{HeldUp, Hold};
    use crate::link::testing::LONG;
    use crate::run::Outbox;
    use crate::run::party::Party;
    use crate::run::transfer::Transfer;
    use crate::stage::Stage;
    use crate::stage::round::{self, Job};
    use crate::transfer::receiver::Limits;
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Mutex, mpsc};
    use std::thread::{JoinHandle, ThreadId};
    use std::time::Instant;
    use thalweg_wire::message::{Run, TransferMessage, TransferNumber};
    use thalweg_wire::{Evidence, RelativePath};

    /// Says when something is wanted.
    struct Wants(mpsc::Sender<()>);

    impl Outbox for Wants {
        fn say(&self, _: TransferNumber, message: TransferMessage) {
            if let TransferMessage::Want(_) = message {
                let _ = self.0.send(());
            }
        }

        fn work(&self) {}
    }

    /// Keeps the numbers of what is taken, and of what is thrown away with the thread that does it. What is staged has
    /// its name early. A sync ends at the end of the test.
    struct Discards {
        taken: Mutex<Vec<u64>>,
        discarded: Mutex<Vec<(u64, ThreadId)>>,
        syncs: Mutex<mpsc::Receiver<()>>,
        /// Who begins the next partial says so, and waits until the other end lets go.
        begins: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
        /// Partials begun.
        begun: AtomicUsize,
    }

    impl Hold for Discards {
        fn begin(&self) {
            self.begun.fetch_add(1, Ordering::AcqRel);
            let held_up = lock(&self.begins).take();
            if let Some((reached, goes_on)) = held_up {
                let _ = reached.send(());
                let _ = goes_on.recv();
            }
        }

        fn taken(&self, _: u32, number: u64) {
            lock(&self.taken).push(number);
        }

        fn may_be_named_early(&self) -> bool {
            true
        }

        fn sync(&self) {
            let _ = lock(&self.syncs).recv_timeout(LONG);
        }

        fn discard(&self, ready: &Ready) {
            let number = match ready {
                Ready::Partial(partial) => partial.number(),
                Ready::Staged(staged) => staged.number,
            };
            lock(&self.discarded).push((number, std::thread::current().id()));
        }
    }

    /// A file stands there that may be the entry. How often it was opened.
    #[derive(Default)]
    struct Stands(AtomicUsize);

    impl Hold for Stands {
        fn decided(&self, entry: &Entry, _: Decision) -> Decision {
            Decision::Wanted { left: None, candidate: Some(entry.evidence.size) }
        }

        fn existing(&self) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    const ID: EntryId = EntryId(0);

    /// One file of so many bytes was offered and is wanted.
    fn offered<H: Hold + 'static>(hold: H, size: u64) -> (Arc<ReceiveRun>, Arc<HeldUp<H>>) {
        let to = Arc::new(HeldUp::new(hold));
        let (wants, wanted) = mpsc::channel();
        let terms = Terms::of(4 << 20, 1 << 20);
        let (outbox, events) = (Box::new(Wants(wants)), crate::event::nobody());
        let limits = Limits::default();
        let run = ReceiveRun::start(TransferNumber(0), to.clone(), terms, limits, outbox, events).unwrap();
        let entry = Entry {
            id: ID,
            path: RelativePath::new(b"file".to_vec()).unwrap(),
            kind: Kind::File { sparse: false, marked: false },
            mode: 0o644,
            uid: 0,
            gid: 0,
            evidence: Evidence { size, ..Evidence::default() },
            xattrs: Vec::new(),
        };
        run.hear(TransferMessage::Offer(vec![entry])).unwrap();
        wanted.recv_timeout(LONG).unwrap();
        (run, to)
    }

    /// The same. Syncs go on when the sender is dropped.
    fn wanted(size: u64) -> (Arc<ReceiveRun>, Arc<HeldUp<Discards>>, mpsc::Sender<()>) {
        let (syncs_on, syncs) = mpsc::channel();
        let (taken, discarded, begins) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (syncs, begun) = (Mutex::new(syncs), AtomicUsize::new(0));
        let (run, to) = offered(Discards { taken, discarded, syncs, begins, begun }, size);
        (run, to, syncs_on)
    }

    fn discarded(to: &HeldUp<Discards>) -> Vec<u64> {
        lock(&to.hold.discarded).iter().map(|(number, _)| *number).collect()
    }

    /// As a stream that wrote it, under this number.
    fn stage(run: &ReceiveRun, entry: &Arc<Entry>, number: u64) {
        let staged = Staged { lane: 0, number, name: None, losses: Vec::new() };
        let digest = Digest([7; 32]);
        run.files_staged(vec![StagedFile { entry: entry.clone(), digest, staged }]);
    }

    /// A stream that meets a chunk of the file, and the number of the partial that it gets.
    fn opens(run: &Arc<ReceiveRun>) -> JoinHandle<Option<u64>> {
        let run = run.clone();
        std::thread::spawn(move || run.open_partial(ID).unwrap().map(|file| file.partial.number()))
    }

    /// The same, which begins the partial, and is not done with that before the sender is dropped.
    fn begins(run: &Arc<ReceiveRun>, to: &HeldUp<Discards>) -> (JoinHandle<Option<u64>>, mpsc::Sender<()>) {
        let (reached, reaches) = mpsc::channel();
        let (goes_on, waits) = mpsc::channel();
        *lock(&to.hold.begins) = Some((reached, waits));
        let stream = opens(run);
        reaches.recv_timeout(LONG).unwrap();
        (stream, goes_on)
    }

    /// As where a link was lost while one stream wrote it, and the stream in its place brought it again.
    #[test]
    fn of_a_file_that_was_staged_twice_the_first_that_is_told_is_taken_and_the_other_thrown_away() {
        let (run, to, syncs_on) = wanted(1);
        let [Some(entry)] = &run.small_wanted(&[ID]).unwrap()[..] else { panic!("it is wanted") };
        stage(&run, entry, 2);
        stage(&run, entry, 1);
        assert_eq!(*lock(&to.hold.taken), [2]);
        assert_eq!(discarded(&to), [1]);
        drop(syncs_on);
        run.close();
    }

    /// Else what comes in its place may be decided first, find it under its name, and lose it.
    #[test]
    fn what_may_have_its_name_early_is_gone_when_its_withdrawal_was_heard() {
        let (run, to, syncs_on) = wanted(1);
        let [Some(entry)] = &run.small_wanted(&[ID]).unwrap()[..] else { panic!("it is wanted") };
        stage(&run, entry, 1);
        run.hear(TransferMessage::Withdraw(vec![(ID, None)])).unwrap();
        assert_eq!(*lock(&to.hold.discarded), [(1, std::thread::current().id())]);
        drop(syncs_on);
        run.close();
    }

    /// It may wait for a sync of the destination's records: nothing would be said or heard as long. And what nobody
    /// throws away has its room until the transfer ends.
    #[test]
    fn an_entry_is_withdrawn_while_its_partial_is_begun_and_that_is_thrown_away_when_it_is_there() {
        let (run, to, syncs_on) = wanted(4 << 20);
        let (stream, goes_on) = begins(&run, &to);
        let (told, hears) = mpsc::channel();
        let control = {
            let run = run.clone();
            std::thread::spawn(move || {
                run.hear(TransferMessage::Withdraw(vec![(ID, None)])).unwrap();
                let _ = told.send(run.progress());
            })
        };
        hears.recv_timeout(LONG).expect("who hears and says waits for the destination too");
        assert!(discarded(&to).is_empty());
        drop(goes_on);
        assert_eq!(stream.join().unwrap(), None);
        control.join().unwrap();
        assert_eq!(discarded(&to), [0]);
        assert!(run.partial(ID).is_none());
        drop(syncs_on);
        run.close();
    }

    #[test]
    fn of_two_streams_that_meet_a_new_file_one_begins_its_partial_and_the_other_gets_that() {
        let (run, to, syncs_on) = wanted(8 << 20);
        let (first, goes_on) = begins(&run, &to);
        let second = opens(&run);
        drop(goes_on);
        assert_eq!([first, second].map(|stream| stream.join().unwrap()), [Some(0); 2]);
        assert_eq!(to.hold.begun.load(Ordering::Acquire), 1);
        drop(syncs_on);
        run.close();
    }

    /// In a session that goes on, the next attempt may have that partial by then. Of a thread that panicked, and of who
    /// closes it, the machine does not know.
    #[test]
    fn of_a_transfer_that_is_over_no_stream_writes_on_into_the_partial_that_it_has_open() {
        fn why() -> Failure {
            Failure::new(FailureKind::Internal, "receive", "as the test wants it")
        }
        let ends: [fn(&ReceiveRun); 3] = [|run| run.abort(why()), |run| run.fail(why()), |run| run.close()];
        for end in ends {
            let (run, _to, syncs_on) = wanted(8 << 20);
            assert!(run.open_partial(ID).unwrap().is_some());
            assert!(run.claim_chunk(1, ID, 0, Some(Copy::First), &mut || {}));
            end(&run);
            assert!(!run.claim_chunk(1, ID, 0, None, &mut || {}), "the rest of what it had begun");
            assert!(!run.claim_chunk(2, ID, 1, Some(Copy::First), &mut || {}));
            assert!(run.open_partial(ID).unwrap().is_none());
            drop(syncs_on);
            run.close();
        }
    }

    /// For each a whole chunk is read and digested, and who closes the transfer waits for all that are queued.
    #[test]
    fn chunks_that_nobody_waits_for_any_more_are_not_read_to_be_copied() {
        let work_off = |run: &ReceiveRun, entry: &Arc<Entry>| {
            let (jobs, queue) = mpsc::channel();
            jobs.send(Job::Copy(entry.clone(), 0, Digest([7; 32]))).unwrap();
            jobs.send(Job::CompareHoles(entry.clone(), Run { first: 0, count: 1 })).unwrap();
            jobs.send(Job::Stop).unwrap();
            round::work(run, &queue, Stage::Sync);
        };
        let (run, to) = offered(Stands::default(), 8 << 20);
        let entry = run.lock().machine.chunks_wanted(ID).unwrap();
        run.chunk_same(ID, 0, Digest([7; 32]));
        run.chunk_differs(ID, 1);
        let opened = |to: &HeldUp<Stands>| to.hold.0.load(Ordering::Acquire);
        let until = Instant::now() + LONG;
        while opened(&to) == 0 || run.is_copy_wanted(ID, 0) {
            assert!(Instant::now() < until, "what is the same is copied");
            std::thread::sleep(Duration::from_millis(1));
        }
        // It was not there any more, and the sender was asked for it.
        work_off(&run, &entry);
        assert_eq!(opened(&to), 1);
        run.close();
        // Still wanted, for all that the machine knows.
        let (run, to) = offered(Stands::default(), 8 << 20);
        run.fail(Failure::new(FailureKind::Internal, "receive", "as the test wants it"));
        assert!(run.is_undecided(ID));
        work_off(&run, &entry);
        assert_eq!(opened(&to), 0);
        run.close();
    }
}
