//! What streams and the thread of rounds tell the machine: what came, was written, is durable, has its name.

use super::ReceiveRun;
use crate::endpoint::{Conclusion, Destination, Ready, Staged};
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use crate::stage::Accounts;
use crate::stage::receiving::{OpenPartial, Receiving, StagedFile};
use crate::stage::round::HeldContent;
use crate::stage::turn::Gate;
use crate::transfer::Copy;
use crate::transfer::receiver::{Claim, Finished, RoundResult};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thalweg_sys::Pool;
use thalweg_wire::digest::{Tree, hole_chunk_mark};
use thalweg_wire::message::{Terms, WaitingFor};
use thalweg_wire::{Digest, Entry, EntryId, Kind};

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

    fn open_partial(&self, id: EntryId) -> Result<Option<OpenPartial>> {
        let wanted = {
            let state = self.lock();
            if !state.machine.was_offered(id) {
                return Err(never_offered());
            }
            state.machine.chunks_wanted(id)
        };
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
        let mut held = self.held();
        if let std::collections::hash_map::Entry::Vacant(place) = held.entry(id) {
            let partial = self.destination.begin(&entry).map_err(|failure| failure.at(&entry.path))?;
            place.insert(HeldContent::Partial(self.open_for(entry, partial)));
        }
        Ok(())
    }

    fn is_worth_waiting(&self, id: EntryId) -> bool {
        match self.held().get(&id) {
            Some(HeldContent::Staged(entry, staged)) => self.destination.is_worth_waiting(entry, staged),
            _ => false,
        }
    }

    fn take_content(&self, id: EntryId) -> Option<Ready> {
        self.held().remove(&id).map(HeldContent::ready)
    }

    fn small_wanted(&self, ids: &[EntryId]) -> Result<Vec<Option<Arc<Entry>>>> {
        let state = self.lock();
        if !ids.iter().all(|&id| state.machine.was_offered(id)) {
            return Err(never_offered());
        }
        Ok(state.machine.small_wanted(ids.iter().copied()))
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
                Claim::Busy if state.end.ended.is_some() => return false,
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

    fn copied(&self, id: EntryId, chunk: u64, is_there: bool) {
        self.tell(|machine, now| machine.copied(id, chunk, is_there, now));
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
        // Held while a partial is begun, so that two streams do not begin the same one twice.
        let mut held = self.held();
        if let Some(HeldContent::Partial(file)) = held.get(&id) {
            return Some(file.clone());
        }
        let begun = self.destination.begin(&entry);
        let file = match begun {
            Ok(partial) => self.open_for(entry, partial),
            Err(failure) => {
                drop(held);
                self.write_failed(id, failure.at(&entry.path));
                return None;
            }
        };
        held.insert(id, HeldContent::Partial(file.clone()));
        drop(held);
        // What is held of an entry that is withdrawn goes at once: of this there may have been nothing yet.
        let is_under_way = self.lock().machine.is_under_way(id);
        if is_under_way {
            return Some(file);
        }
        if let Some(ready) = self.take_content(id) {
            self.destination.discard(ready);
        }
        None
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
    use crate::endpoint::testing::{HeldUp, Hold};
    use crate::link::testing::LONG;
    use crate::mutex::lock;
    use crate::run::Outbox;
    use crate::run::party::Party;
    use crate::run::transfer::Transfer;
    use crate::transfer::receiver::Limits;
    use std::sync::{Mutex, mpsc};
    use std::thread::ThreadId;
    use thalweg_wire::message::{TransferMessage, TransferNumber};
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
    }

    impl Hold for Discards {
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

    const ID: EntryId = EntryId(0);

    /// One file of so many bytes was offered and is wanted. Syncs go on when the sender is dropped.
    fn wanted(size: u64) -> (Arc<ReceiveRun>, Arc<HeldUp<Discards>>, mpsc::Sender<()>) {
        let (syncs_on, syncs) = mpsc::channel();
        let (taken, discarded) = (Mutex::default(), Mutex::default());
        let to = Arc::new(HeldUp::new(Discards { taken, discarded, syncs: Mutex::new(syncs) }));
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
        (run, to, syncs_on)
    }

    /// As a stream that wrote it, under this number.
    fn stage(run: &ReceiveRun, entry: &Arc<Entry>, number: u64) {
        let staged = Staged { lane: 0, number, name: None, losses: Vec::new() };
        let digest = Digest([7; 32]);
        run.files_staged(vec![StagedFile { entry: entry.clone(), digest, staged }]);
    }

    /// As where a link was lost while one stream wrote it, and the stream in its place brought it again.
    #[test]
    fn of_a_file_that_was_staged_twice_the_first_that_is_told_is_taken_and_the_other_thrown_away() {
        let (run, to, syncs_on) = wanted(1);
        let [Some(entry)] = &run.small_wanted(&[ID]).unwrap()[..] else { panic!("it is wanted") };
        stage(&run, entry, 2);
        stage(&run, entry, 1);
        assert_eq!(*lock(&to.hold.taken), [2]);
        assert_eq!(lock(&to.hold.discarded).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1]);
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

    /// As where a stream waits for another that begins a large file. Else it has its room until the transfer ends.
    #[test]
    fn a_partial_that_is_begun_for_an_entry_that_was_withdrawn_meanwhile_is_thrown_away() {
        let (run, to, syncs_on) = wanted(4 << 20);
        let entry = run.lock().machine.chunks_wanted(ID).unwrap();
        run.hear(TransferMessage::Withdraw(vec![(ID, None)])).unwrap();
        assert!(run.held_or_begun(entry).is_none());
        assert_eq!(lock(&to.hold.discarded).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0]);
        assert!(run.partial(ID).is_none());
        drop(syncs_on);
        run.close();
    }
}
