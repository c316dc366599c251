//! The receiving side: decisions, comparisons, rounds, the end.

use super::content::partial_of;
use super::*;

impl World {
    pub(super) fn pump_receiver(&mut self) {
        while let Some(receiver) = &mut self.receiver {
            let Some(action) = receiver.machine.take_action() else { break };
            let instance = receiver.instance;
            match action {
                receiver::Action::Say(say) => {
                    self.note_durable(&say);
                    self.send_to_sender(say);
                }
                receiver::Action::Decide(entry) => self.enqueue_decide(false, entry),
                receiver::Action::Link(entry) => self.enqueue_decide(true, entry),
                receiver::Action::Copy(entry, chunk, digest) => {
                    let does = Comparing::Copy(entry, chunk, digest);
                    self.soon(self.plan.write_time, Event::Compared { instance, does });
                }
                receiver::Action::CompareHoles(entry, run) => {
                    let does = Comparing::Holes(entry, run);
                    self.soon(self.plan.decide_time, Event::Compared { instance, does });
                }
                receiver::Action::Keep(entry, digest) => {
                    let does = Comparing::Keep(entry, digest);
                    self.soon(self.plan.decide_time, Event::Compared { instance, does });
                }
                receiver::Action::Round(step) => self.start_round_step(step),
                receiver::Action::Finish { entries, may_wait } => {
                    receiver.finishes.push_back(FinishWork { entries, may_wait, results: Vec::new() });
                    if receiver.finishes.len() == 1 {
                        self.soon(self.plan.sync_time, Event::Finish(instance));
                    }
                }
                receiver::Action::Discard(id) => {
                    let partial = receiver.partials.remove(&id).map(Ready::Partial);
                    let staged = receiver.staged.remove(&id).map(Ready::Staged);
                    for ready in partial.into_iter().chain(staged) {
                        receiver.destination.discard(&mut self.disk, ready);
                    }
                    if let Some(entry) = receiver.entries.get(&id) {
                        self.acked.remove(&(entry.path.clone(), entry.evidence.ctime));
                    }
                }
                receiver::Action::Settled(entry, outcome) => {
                    if let Some(partial) = receiver.partials.remove(&entry.id) {
                        receiver.destination.settled(&mut self.disk, partial);
                    }
                    receiver.staged.remove(&entry.id);
                    receiver.entries.remove(&entry.id);
                    self.acked.remove(&(entry.path.clone(), entry.evidence.ctime));
                    self.note(|| format!("receiver: `{}` {outcome:?}", entry.path));
                    self.check_outcome(&entry, &outcome, false);
                }
                receiver::Action::Pieces(entry, pieces) => self.check_pieces(&entry, &pieces),
                receiver::Action::Aside(..)
                | receiver::Action::Deleted(_)
                | receiver::Action::OfferedBefore(_) => {}
                receiver::Action::Gone(id) => {
                    if let Some(partial) = receiver.partials.remove(&id) {
                        receiver.destination.settled(&mut self.disk, partial);
                    }
                    receiver.staged.remove(&id);
                    receiver.entries.remove(&id);
                }
                receiver::Action::Conclude(_) => self.soon(self.plan.sync_time, Event::Conclude(instance)),
                receiver::Action::Finished(_) => self.check_everything_durable(),
                receiver::Action::Failed(failure) => {
                    self.note(|| format!("receiver: the transfer failed: {failure}"));
                    self.check_failure(&failure);
                    self.receiver_gone();
                }
            }
        }
    }

    /// The receiving process ends; what it said may still arrive.
    pub(super) fn receiver_gone(&mut self) {
        let Some(receiver) = self.receiver.take() else { return };
        for stream in self.streams.iter_mut().filter(|stream| stream.instance == receiver.instance) {
            stream.receiver_alive = false;
        }
        for conn in 0..self.conns.len() {
            let notice = self.plan.latency * 10 + self.plan.jitter * 10 + Duration::from_millis(5);
            self.after(notice, Event::SenderNotices(conn));
        }
    }

    pub(super) fn enqueue_decide(&mut self, link: bool, entry: Arc<Entry>) {
        let Some(receiver) = &mut self.receiver else { return };
        receiver.entries.insert(entry.id, entry.clone());
        receiver.decides.push_back((link, entry));
        if !std::mem::replace(&mut receiver.deciding, true) {
            let instance = receiver.instance;
            self.soon(self.plan.decide_time, Event::Decide(instance));
        }
    }

    pub(super) fn decide(&mut self, instance: u64) {
        let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.instance == instance) else {
            return;
        };
        receiver.deciding = false;
        let Some((link, entry)) = receiver.decides.pop_front() else { return };
        let decided = if link {
            receiver.destination.link(&mut self.disk, &entry)
        } else {
            let (decided, partial) = receiver.destination.decide(&mut self.disk, &entry);
            if let Some(partial) = partial {
                receiver.partials.insert(entry.id, partial);
            }
            decided
        };
        if !receiver.decides.is_empty() {
            receiver.deciding = true;
            self.soon(self.plan.decide_time, Event::Decide(instance));
        }
        self.check_resumed(&entry, &decided);
        self.check_name(&entry.path);
        if let Decided::Settled { outcome, .. } = &decided {
            self.ours.insert(entry.path.clone());
            self.check_settled_kind(&entry, outcome);
        }
        let Some(receiver) = &mut self.receiver else { return };
        receiver.machine.decided(entry.id, decided, self.now);
        if receiver.machine.chunks_wanted(entry.id).is_none() {
            receiver.partials.remove(&entry.id);
        }
    }

    pub(super) fn compared(&mut self, instance: u64, does: Comparing) {
        self.pump_receiver();
        let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.instance == instance) else {
            return;
        };
        let machine = &mut receiver.machine;
        match does {
            Comparing::Keep(entry, digest) => {
                let kept = receiver.destination.keep(&mut self.disk, &entry, digest);
                if kept.is_some() {
                    self.ours.insert(entry.path.clone());
                }
                machine.kept(entry.id, kept, self.now);
            }
            Comparing::Holes(entry, run) => {
                let is_hole = (run.first..run.first + run.count).all(|chunk| {
                    let found = receiver.destination.existing_chunk(&self.disk, &entry, chunk);
                    found.is_some_and(|(bytes, _)| digest::is_zero(&bytes))
                });
                machine.holes_compared(entry.id, is_hole, self.now);
            }
            Comparing::Copy(entry, chunk, digest) => {
                let found = receiver.destination.existing_chunk(&self.disk, &entry, chunk);
                let Some((bytes, _)) = found.filter(|(_, found)| *found == digest) else {
                    machine.copied(entry.id, chunk, false, self.now);
                    return;
                };
                if machine.chunks_wanted(entry.id).is_none() {
                    return;
                }
                let inode = match partial_of(receiver, &mut self.disk, &entry) {
                    Ok(inode) => inode,
                    Err(failure) => {
                        receiver.machine.write_failed(entry.id, failure, self.now);
                        return;
                    }
                };
                let offset = (chunk * self.plan.terms.chunk_bytes) as usize;
                if self.disk.write(inode, offset, &bytes) {
                    receiver.machine.copied(entry.id, chunk, true, self.now);
                } else {
                    receiver.machine.write_failed(entry.id, no_space(), self.now);
                }
            }
        }
    }

    pub(super) fn start_round_step(&mut self, step: RoundStep) {
        let text = self.log.then(|| format!("round {step:?}"));
        self.note(|| text.unwrap_or_default());
        let Some(receiver) = &mut self.receiver else { return };
        if receiver.round.is_some() {
            self.violation("two rounds at once");
        }
        let mut work = RoundWork { step, mark: self.disk.mark(), inodes: Vec::new(), journal: 0 };
        let inode_of = |receiver: &ReceiverSide, id: &EntryId| {
            let partial = receiver.partials.get(id)?;
            Some(receiver.destination.partial(*partial)?.inode)
        };
        match &work.step {
            RoundStep::Sync { partials, staged } => {
                work.inodes = partials.iter().filter_map(|id| inode_of(receiver, id)).collect();
                if *staged > 0 {
                    work.inodes.extend(receiver.staged.values().map(|staged| staged.inode));
                }
            }
            RoundStep::Record(chunks) => {
                let chunks: Vec<_> = chunks
                    .iter()
                    .filter_map(|(id, chunks)| Some((*receiver.partials.get(id)?, chunks.clone())))
                    .collect();
                match receiver.destination.record(&mut self.disk, &chunks) {
                    Ok(journal) => work.journal = journal,
                    Err(failure) => {
                        receiver.machine.round_done(RoundResult::Failed(failure), self.now);
                        return;
                    }
                }
            }
            RoundStep::ReadBack { .. } => {}
        }
        let instance = receiver.instance;
        receiver.round = Some(work);
        self.soon(self.plan.sync_time, Event::Round(instance));
    }

    pub(super) fn round(&mut self, instance: u64) {
        let terms = self.plan.terms.clone();
        let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.instance == instance) else {
            return;
        };
        let Some(work) = receiver.round.take() else { return };
        let result = match &work.step {
            RoundStep::Sync { .. } => {
                if self.disk.sync(work.mark, work.inodes.iter().copied(), &mut self.random) {
                    RoundResult::Done
                } else {
                    RoundResult::Failed(Failure::new(FailureKind::Io, "sync", "Input/output error"))
                }
            }
            RoundStep::Record(_) => {
                if std::mem::take(&mut self.disk.fail_sync) {
                    RoundResult::Failed(Failure::new(FailureKind::Io, "sync", "Input/output error"))
                } else {
                    self.disk.sync_journal(work.journal);
                    RoundResult::Done
                }
            }
            RoundStep::ReadBack { chunks, files } => {
                let mut damaged = Vec::new();
                for (id, chunks) in chunks {
                    let (Some(entry), Some(partial)) = (receiver.entries.get(id), receiver.partials.get(id))
                    else {
                        continue;
                    };
                    let Some(partial) = receiver.destination.partial(*partial) else { continue };
                    let rule = receiver.destination.rule(entry);
                    for &(chunk, digest) in chunks {
                        let start = chunk * terms.chunk_bytes;
                        let end = start + digest::chunk_length(chunk, entry.evidence.size, terms.chunk_bytes);
                        let bytes = &self.disk.medium(partial.inode)[start as usize..end as usize];
                        if chunk_digest(rule, start, bytes, terms.chunk_bytes) != digest {
                            damaged.push((*id, chunk));
                        }
                    }
                }
                for (id, digest) in files {
                    let Some(staged) = receiver.staged.get(id) else { continue };
                    let bytes = self.disk.medium(staged.inode);
                    if digest::of_piece(0, bytes, bytes.len() as u64) != *digest {
                        damaged.push((*id, 0));
                    }
                }
                RoundResult::Damaged(damaged)
            }
        };
        receiver.machine.round_done(result, self.now);
    }

    /// Gives the next entry its name. One at a time: a crash may come between any two, and syncs begin and end
    /// meanwhile.
    pub(super) fn finish_next(&mut self, instance: u64) {
        let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.instance == instance) else {
            return;
        };
        let Some(work) = receiver.finishes.front() else { return };
        let (id, digest) = work.entries[work.results.len()];
        let waits = work.may_wait && receiver.staged.contains_key(&id) && self.random.percent(30);
        let result = match waits {
            true => Ok(Named::Later),
            false => finish(receiver, &mut self.disk, id).map(|()| Named::Now(Vec::new())),
        };
        let finished = matches!(result, Ok(Named::Now(_)));
        if let (true, Some(entry)) = (finished, receiver.entries.get(&id)) {
            self.ours.insert(entry.path.clone());
        }
        let entry = receiver.entries.get(&id).cloned();
        let Some(work) = receiver.finishes.front_mut() else { return };
        work.results.push((id, result));
        if work.results.len() == work.entries.len() {
            let results = std::mem::take(&mut work.results);
            receiver.finishes.pop_front();
            receiver.machine.finished(results, self.now);
        }
        if !receiver.finishes.is_empty() {
            self.soon(self.plan.write_time, Event::Finish(instance));
        }
        if let Some(entry) = entry.filter(|_| finished) {
            self.check_finished(&entry, digest);
        }
    }

    pub(super) fn conclude(&mut self, instance: u64) {
        let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.instance == instance) else {
            return;
        };
        self.disk.fail_sync = false;
        let mark = self.disk.mark();
        self.disk.sync(mark, std::iter::empty(), &mut self.random);
        receiver.machine.concluded(Vec::new(), 0, Vec::new(), Vec::new());
    }
}

pub(super) fn finish(
    receiver: &mut ReceiverSide,
    disk: &mut Disk,
    id: EntryId,
) -> crate::failure::Result<()> {
    let Some(entry) = receiver.entries.get(&id).cloned() else { panic!("an unknown entry is finished") };
    let ready = match (receiver.staged.get(&id), receiver.partials.get(&id)) {
        (Some(staged), _) => Ready::Staged(staged.clone()),
        (None, Some(partial)) => Ready::Partial(*partial),
        // All hole: nothing was ever written.
        (None, None) => {
            let number = receiver.destination.begin(disk, &entry)?;
            receiver.partials.insert(id, number);
            Ready::Partial(number)
        }
    };
    receiver.destination.finish(disk, &entry, &ready)
}

pub(super) fn no_space() -> Failure {
    Failure::new(FailureKind::Space, "write", "No space left on device")
}
