//! The sending side: scan, work taken by streams, reads of the source.

use super::*;

impl World {
    pub(super) fn scan(&mut self, run: u64) {
        let Some(sender) = self.sender.as_mut().filter(|sender| sender.run == run) else { return };
        sender.scanning = false;
        let batch = self.random.within(1, BATCH_MAX as u64);
        let mut entries = Vec::new();
        let first = sender.machine.next_id().0;
        for _ in 0..batch {
            let room = sender.machine.has_room(0) && sender.scan_at < self.source.nodes.len();
            if !room {
                break;
            }
            let at = sender.scan_at;
            sender.scan_at += 1;
            let (path, node) = &self.source.nodes[at];
            let aside = match node {
                source::Node::Skipped => Some(Outcome::Skipped("excluded".into())),
                source::Node::Trouble => {
                    Some(Outcome::Failed(Failure::new(FailureKind::Permission, "list", "Permission denied")))
                }
                _ => None,
            };
            if let Some(outcome) = aside {
                if !entries.is_empty() {
                    // Numbers are given in order.
                    sender.scan_at -= 1;
                    break;
                }
                sender.account.insert(path.clone(), None);
                sender.scan_totals.failed += u64::from(matches!(outcome, Outcome::Failed(_)));
                sender.machine.aside(path.clone(), outcome);
                break;
            }
            let ids = &sender.ids;
            let Some(entry) = self.source.entry(at, |first| ids.get(first).copied()) else { continue };
            sender.account.insert(path.clone(), None);
            sender.ids.insert(path.clone(), EntryId(first + entries.len() as u64));
            sender.scan_totals.entries += 1;
            sender.scan_totals.bytes += entry.content_bytes();
            entries.push(entry);
        }
        if !entries.is_empty() {
            sender.machine.offer(entries);
        }
        let progress = sender.machine.progress();
        let unsettled = progress.entries_offered - progress.entries_settled;
        if unsettled > (self.plan.sender.entries + BATCH_MAX) as u64 {
            self.violation(format!("{unsettled} entries in flight"));
        }
        if sender.scan_at == self.source.nodes.len() {
            let totals = sender.scan_totals.clone();
            sender.machine.scan_ended(totals);
            sender.scan_at = usize::MAX;
        }
    }

    // Stream workers of the sender.

    pub(super) fn ask_for_work(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        let Some(sender) = &mut self.sender else { return };
        if !stream.sender_alive || !matches!(stream.worker, Worker::Idle) || sender.conn != Some(stream.conn)
        {
            return;
        }
        match sender.machine.next_work(stream.number, self.now) {
            Next::Wait(None) | Next::Done => {}
            Next::Wait(Some(time)) => {
                let time = time.max(self.now + Duration::from_micros(1));
                if stream.wake_at.is_none_or(|at| at > time) {
                    stream.wake_at = Some(time);
                    self.at(time, Event::WakeWorker(at));
                }
            }
            Next::Work(work) => {
                if self.log {
                    eprintln!("{:>12.6}      stream {at}: {}", self.now.as_secs_f64(), describe(&work));
                }
                let conn = stream.conn;
                let chunk_bytes = self.plan.terms.chunk_bytes;
                let worker = match work {
                    Work::Chunk(entry, chunk, copy) => {
                        self.check_not_durable(&entry, chunk, conn);
                        let (offset, copy) = (chunk * chunk_bytes, Some(copy));
                        Worker::Chunk { entry, chunk, offset, digests: Vec::new(), copy }
                    }
                    Work::Compare(entry, chunk) => {
                        let offset = chunk * chunk_bytes;
                        Worker::Chunk { entry, chunk, offset, digests: Vec::new(), copy: None }
                    }
                    Work::Pack(entries) => Worker::Pack { entries, at: 0, half: None, items: Vec::new() },
                    Work::Check(entry) => Worker::Check { entry },
                };
                let sends = !matches!(worker, Worker::Check { .. } | Worker::Chunk { copy: None, .. });
                if self.is_repetition && sends {
                    self.violation("content is sent again although everything is there");
                }
                self.streams[at].worker = worker;
                self.soon(self.plan.read_time, Event::Worker(at));
            }
        }
    }

    pub(super) fn check_not_durable(&self, entry: &Entry, chunk: u64, conn: usize) {
        let durable =
            self.acked.get(&(entry.path.clone(), entry.evidence.ctime)).and_then(|chunks| chunks.get(&chunk));
        if durable.is_some_and(|&acked| acked < conn) && !self.untold.contains(&(entry.id, chunk)) {
            self.violation(format!("chunk {chunk} of `{}` is read again although it is durable", entry.path));
        }
    }

    pub(super) fn work(&mut self, at: usize) {
        if !self.streams[at].sender_alive || self.streams[at].blocked.is_some() || self.sender.is_none() {
            return;
        }
        let worker = std::mem::replace(&mut self.streams[at].worker, Worker::Idle);
        let next = match worker {
            Worker::Idle => Worker::Idle,
            Worker::Chunk { entry, chunk, offset, digests, copy } => {
                self.read_segment(at, entry, chunk, offset, digests, copy)
            }
            Worker::Pack { entries, at: item, half, items } => {
                self.read_small(at, entries, item, half, items)
            }
            Worker::ChunkOut { entry, chunk, digest, compare } => {
                let number = self.streams[at].number;
                match compare {
                    true => self.sender().chunk_told(number, entry.id, chunk, digest),
                    false => self.sender().chunk_sent(number, entry.id, chunk, digest),
                }
                Worker::Idle
            }
            Worker::HolesFound { entry, chunk, run } => {
                let number = self.streams[at].number;
                self.sender().chunks_are_holes(number, entry.id, chunk, run);
                Worker::Idle
            }
            Worker::PackOut { asked, sent } => {
                let number = self.streams[at].number;
                self.sender().pack_sent(number, &asked, &sent);
                Worker::Idle
            }
            Worker::Check { entry } => {
                let number = self.streams[at].number;
                match self.source.look_again(&entry) {
                    Err(failure) => {
                        self.sender().failed(entry.id, failure);
                        Worker::Idle
                    }
                    Ok(now) => match self.sender().checked(number, entry.id, now.evidence) {
                        Retry::LookAgain => Worker::Look { entry, then: Box::new(Worker::Idle) },
                        Retry::No => Worker::Idle,
                    },
                }
            }
            Worker::Look { entry, then } => {
                let now = self.source.look_again(&entry);
                self.sender().offer_again(entry.id, now);
                *then
            }
        };
        self.streams[at].worker = next;
        if !matches!(self.streams[at].worker, Worker::Idle) && self.streams[at].blocked.is_none() {
            self.soon(self.plan.read_time, Event::Worker(at));
        }
    }

    pub(super) fn sender(&mut self) -> &mut Sender {
        match &mut self.sender {
            Some(sender) => &mut sender.machine,
            None => panic!("a worker outlives its process"),
        }
    }

    pub(super) fn look_or(&mut self, entry: Arc<Entry>, then: Worker) -> Worker {
        match self.sender().changed(entry.id) {
            Retry::LookAgain => Worker::Look { entry, then: Box::new(then) },
            Retry::No => then,
        }
    }

    pub(super) fn read_segment(
        &mut self,
        at: usize,
        entry: Arc<Entry>,
        chunk: u64,
        offset: u64,
        mut digests: Vec<Digest>,
        copy: Option<Copy>,
    ) -> Worker {
        let terms = self.plan.terms.clone();
        let size = entry.evidence.size;
        let start = chunk * terms.chunk_bytes;
        let end = start + digest::chunk_length(chunk, size, terms.chunk_bytes);
        let marked = matches!(entry.kind, Kind::File { marked: true, .. });
        if marked && offset == start {
            let content = self.source.read(&entry, start, size.saturating_sub(start)).unwrap_or_default();
            let holes = content
                .chunks_exact(terms.chunk_bytes as usize)
                .take_while(|bytes| digest::is_zero(bytes))
                .count() as u64;
            let whole = (size / terms.chunk_bytes).saturating_sub(chunk);
            let count = holes.min(whole);
            if count > 0 {
                return Worker::HolesFound { entry, chunk, run: Run { first: chunk, count } };
            }
        }
        let want = (end - offset).min(u64::from(terms.segment_bytes));
        let bytes = match self.source.read(&entry, offset, want) {
            Ok(bytes) if bytes.len() as u64 == want => bytes,
            Ok(_) => return self.look_or(entry, Worker::Idle),
            Err(failure) => {
                self.sender().failed(entry.id, failure);
                return Worker::Idle;
            }
        };
        let rule = digest::Rule { file_bytes: size, segment_bytes: u64::from(terms.segment_bytes), marked };
        let Some(digest) = rule.segment(offset, &bytes) else { self.violation("no such segment") };
        digests.push(digest);
        let next = offset + want;
        let joined = (next >= end).then(|| digest::join(&digests, size <= terms.chunk_bytes));
        match (joined, copy) {
            (_, Some(copy)) => self.push(at, Frame::Segment { entry: entry.id, offset, bytes, digest, copy }),
            (Some(digest), None) => self.push(at, Frame::Compare { entry: entry.id, chunk, digest }),
            (None, None) => {}
        }
        match joined {
            Some(digest) => Worker::ChunkOut { entry, chunk, digest, compare: copy.is_none() },
            None => Worker::Chunk { entry, chunk, offset: next, digests, copy },
        }
    }

    pub(super) fn read_small(
        &mut self,
        at: usize,
        entries: Vec<Arc<Entry>>,
        item: usize,
        half: Option<Vec<u8>>,
        mut items: Vec<PackItem>,
    ) -> Worker {
        let Some(entry) = entries.get(item).cloned() else {
            let asked: Vec<EntryId> = entries.iter().map(|entry| entry.id).collect();
            let sent: Vec<EntryId> = items.iter().map(|(id, ..)| *id).collect();
            if !items.is_empty() {
                self.push(at, Frame::Pack(items));
            }
            return Worker::PackOut { asked, sent };
        };
        let size = entry.evidence.size;
        let unchanged = self.source.look_again(&entry).map(|now| now.evidence == entry.evidence);
        let (offset, want) = if half.is_none() { (0, size / 2) } else { (size / 2, size - size / 2) };
        let read = unchanged.and_then(|same| Ok((same, self.source.read(&entry, offset, want)?)));
        match read {
            Err(failure) => {
                self.sender().failed(entry.id, failure);
                Worker::Pack { entries, at: item + 1, half: None, items }
            }
            Ok((true, bytes)) if bytes.len() as u64 == want => match half {
                None => Worker::Pack { entries, at: item, half: Some(bytes), items },
                Some(mut content) => {
                    content.extend(bytes);
                    let digest = digest::of_piece(0, &content, size);
                    items.push((entry.id, content, digest));
                    Worker::Pack { entries, at: item + 1, half: None, items }
                }
            },
            Ok(_) => self.look_or(entry, Worker::Pack { entries, at: item + 1, half: None, items }),
        }
    }

    pub(super) fn pump_sender(&mut self) {
        while let Some(action) = self.sender.as_mut().and_then(|sender| sender.machine.take_action()) {
            match action {
                sender::Action::Say(say) => self.send_to_receiver(say),
                sender::Action::Settled(entry, outcome) => {
                    self.note(|| format!("sender: `{}` {outcome:?}", entry.path));
                    self.report.settled += 1;
                    self.check_outcome(&entry, &outcome, true);
                    self.settle(&entry.path, outcome);
                }
                // Of one that was offered again, and is settled under its other number.
                sender::Action::SettledBefore(..)
                | sender::Action::Gone(_)
                | sender::Action::MayGo(_, Err(_)) => {}
                sender::Action::MayGo(entry, Ok(())) => self.check_may_go(&entry),
                sender::Action::Pieces(entry, pieces) => self.check_pieces(&entry, &pieces),
                sender::Action::Aside(_, path, outcome) => self.settle(&path, outcome),
                sender::Action::Deleted(_) => {}
                sender::Action::Finished(_) => self.finished(),
                sender::Action::Failed(failure) => {
                    self.note(|| format!("sender: the transfer failed: {failure}"));
                    self.check_failure(&failure);
                    self.disk.full = false;
                    self.end_run();
                }
            }
        }
    }

    pub(super) fn settle(&mut self, path: &RelativePath, outcome: Outcome) {
        let Some(sender) = &mut self.sender else { return };
        match sender.account.get_mut(path) {
            Some(slot @ None) => *slot = Some(outcome),
            Some(Some(_)) => self.violation(format!("`{path}` is settled twice")),
            None => self.violation(format!("`{path}` is settled and was never seen")),
        }
    }
}

pub(super) fn describe(work: &Work) -> String {
    match work {
        Work::Chunk(entry, chunk, copy) => format!("chunk {chunk} of {}, {copy:?}", entry.id.0),
        Work::Compare(entry, chunk) => format!("compare chunk {chunk} of {}", entry.id.0),
        Work::Pack(entries) => {
            format!("pack {:?}", entries.iter().map(|entry| entry.id.0).collect::<Vec<_>>())
        }
        Work::Check(entry) => format!("check {}", entry.id.0),
    }
}
