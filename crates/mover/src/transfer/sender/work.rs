//! Work for streams: what is next, what became of it, and what goes back when a stream is lost.

use super::packs::Room;
use super::{Check, Copy, Handed, Item, Large, Limits, Next, Retry, Sender, State, Task, Work, is_link};
use crate::order::{Asker, Layout};
use std::time::Duration;
use thalweg_wire::digest;
use thalweg_wire::message::{Order, Run, Seal, Steer, TransferMessage as Say};
use thalweg_wire::{Digest, EntryId, Evidence};

/// Files of a pack, where there are so many: each is a frame of its own.
const FILES_MIN: usize = 16;
/// The same while the windows of a far path are small: what a stream sends in its first round trip is three of 4 KiB.
const FILES_MIN_AT_FIRST: usize = 3;

/// What became of a task that a stream says it is through with.
#[derive(PartialEq, Eq)]
enum Known {
    Yes,
    /// It was taken from the stream meanwhile.
    No,
}

/// What a stream has of the small files that wait.
enum Share {
    /// So many it may take.
    Files(usize),
    /// It has enough under way: they are left to others until then.
    OfOthers(Duration),
}

enum Hedge {
    None,
    Task(Task),
    At(Duration),
}

impl Sender {
    /// A stream is ready for work. False if it was before.
    pub fn stream_up(&mut self, stream: u16) -> bool {
        let is_new = !self.tasks.streams.contains_key(&stream);
        self.tasks.streams.entry(stream).or_default();
        is_new
    }

    /// A stream broke: what it had, and the receiver has not verified, goes back. False if it was not there.
    pub fn stream_lost(&mut self, stream: u16) -> bool {
        let Some(handed) = self.tasks.streams.remove(&stream) else { return false };
        self.tasks.small.leave(stream);
        handed.into_iter().for_each(|handed| self.give_back(handed));
        true
    }

    /// Streams that take work: the others stand by.
    pub fn streams_at_work(&self) -> usize {
        self.tasks.streams.len().min(self.limits.streams)
    }

    /// Whether a stream takes no work: it is one too many for now.
    pub fn stands_by(&self, stream: u16) -> bool {
        self.tasks.streams.range(..stream).count() >= self.limits.streams
    }

    fn working_streams(&self) -> usize {
        self.streams_at_work().max(1)
    }

    /// Turns the knobs from now on; what is under way stays.
    pub fn steer(&mut self, steer: &Steer) {
        let defaults = Limits::for_segment(self.terms.segment_bytes);
        self.limits.streams = steer.streams.map_or(defaults.streams, usize::from);
        self.limits.concurrency = steer.concurrency.map_or(defaults.concurrency, |files| files as usize);
        self.limits.depth = steer.depth.map_or(defaults.depth, |tasks| tasks as usize);
    }

    /// What `stream` should do now.
    pub fn next_work(&mut self, stream: u16, now: Duration) -> Next {
        self.tasks.clock = self.tasks.clock.max(now);
        if self.is_over() {
            return Next::Done;
        }
        if !self.tasks.streams.contains_key(&stream) {
            return Next::Wait(None);
        }
        if self.stands_by(stream) {
            // What it has under way stays its own until it is verified or lost.
            return Next::Wait(None);
        }
        self.tasks.first_up.get_or_insert(now);
        self.flush_offers();
        // Even streams look for packs first, odd ones for chunks: many small files do not starve a large
        // one, nor the other way round.
        let packs_first = stream.is_multiple_of(2);
        let is_full = self.is_full(stream);
        let task = self.take_check().or_else(|| match (is_full, packs_first) {
            (true, _) => None,
            (false, true) => self.take_pack(stream).or_else(|| self.take_chunk(stream)),
            (false, false) => self.take_chunk(stream).or_else(|| self.take_pack(stream)),
        });
        if is_full && task.is_none() {
            // An acknowledgement makes room, and wakes the stream.
            return Next::Wait(None);
        }
        let is_hedge = task.is_none();
        if is_hedge && let Share::OfOthers(until) = self.share(stream) {
            return Next::Wait(Some(until));
        }
        let hedge = if is_hedge { self.take_hedge(stream, now) } else { Hedge::None };
        let task = match (task, hedge) {
            (Some(task), _) | (None, Hedge::Task(task)) => task,
            (None, Hedge::At(time)) => return Next::Wait(Some(time)),
            (None, Hedge::None) => return Next::Wait(None),
        };
        let Some(work) = self.work_of(&task) else { return Next::Wait(Some(now)) };
        let task = match &work {
            Work::Pack(entries) => Task::Pack(entries.iter().map(|entry| entry.id).collect()),
            _ => task,
        };
        if let Some(handed) = self.tasks.streams.get_mut(&stream) {
            // A copy is not copied again: with chunks that are all late all streams would send one.
            handed.push(Handed { task, at: now, sent: false, hedged: is_hedge, damaged: Vec::new() });
        }
        self.progress.taken_over += u64::from(is_hedge);
        Next::Work(work)
    }

    /// The chunk of this file that `stream` is to send behind the one that it sends now, handed out before it asks for
    /// work: so that it is read meanwhile. `None` where something else comes next, where the order of requests goes by
    /// who asks or by when reads end, and near the end, for streams that would go idle.
    pub fn take_ahead(&mut self, stream: u16, id: EntryId, now: Duration) -> Option<(u64, Copy)> {
        self.tasks.clock = self.tasks.clock.max(now);
        let is_bound = matches!(self.terms.disk.source.order, Some(Order::Strict | Order::Serial));
        let packs_first = stream.is_multiple_of(2) && !self.tasks.small.is_empty();
        let may_take = !self.is_over()
            && self.tasks.streams.contains_key(&stream)
            && !self.stands_by(stream)
            && !self.is_full(stream);
        if is_bound || packs_first || !may_take || !self.tasks.checks.is_empty() {
            return None;
        }
        // A stream that goes on like this does not ask for work until its file ends.
        self.flush_offers();
        let asker = self.asker(stream);
        let device = self.tasks.large.in_turn(asker).first().copied()?;
        if self.tasks.large.files(device)?.front() != Some(&id) {
            return None;
        }
        let Item { state: State::Large(large), .. } = self.items.get(&id)? else { return None };
        if !large.holds_slot || !large.compare.is_empty() || large.queue.len() <= asker.of {
            return None;
        }
        let task = self.take_chunk_of(device, asker)?;
        let Work::Chunk(_, chunk, copy) = self.work_of(&task)? else { return None };
        if let Some(handed) = self.tasks.streams.get_mut(&stream) {
            handed.push(Handed { task, at: now, sent: false, hedged: false, damaged: Vec::new() });
        }
        Some((chunk, copy))
    }

    /// Whether a chunk that was handed to a stream, and that it has not sent, is still its own.
    pub fn still_has(&self, stream: u16, entry: EntryId, chunk: u64) -> bool {
        let is_it = |handed: &Handed| !handed.sent && handed.task == Task::Chunk(entry, chunk);
        self.tasks.streams.get(&stream).is_some_and(|handed| handed.iter().any(is_it))
    }

    /// A chunk went out on `stream`, with the digest of what was read.
    pub fn chunk_sent(&mut self, stream: u16, entry: EntryId, chunk: u64, digest: Digest) {
        if let Some(item) = self.items.get(&entry) {
            let bytes = digest::chunk_length(chunk, item.entry.evidence.size, self.terms.chunk_bytes);
            self.progress.bytes_sent += bytes;
        }
        self.chunk_told(stream, entry, chunk, digest);
    }

    /// The digest of a chunk went out on `stream`, alone.
    pub fn chunk_told(&mut self, stream: u16, entry: EntryId, chunk: u64, digest: Digest) {
        let known = self.mark_sent(stream, &Task::Chunk(entry, chunk));
        self.tasks.chunks_read += 1;
        let Some(item) = self.items.get_mut(&entry) else { return };
        let State::Large(large) = &mut item.state else { return };
        if known == Known::Yes {
            large.read_ended(chunk);
        }
        large.tree.insert(chunk, digest);
        self.ask_check(entry);
    }

    /// The chunks of `run` were found to be holes (and were not sent). Chunk by chunk, they may have been
    /// handed out or queued.
    pub fn chunks_are_holes(&mut self, stream: u16, entry: EntryId, chunk: u64, run: Run) {
        let known = self.forget(stream, &Task::Chunk(entry, chunk));
        self.tasks.chunks_read += 1;
        let mark = digest::hole_chunk_mark(self.terms.chunk_bytes, u64::from(self.terms.segment_bytes));
        let Some(item) = self.items.get_mut(&entry) else { return };
        let State::Large(large) = &mut item.state else { return };
        if known == Known::Yes {
            large.read_ended(chunk);
        }
        large.queue.remove(run.first, run.first + run.count);
        large.tree.insert_marked_holes(run.first, run.count, mark);
        self.say(Say::Holes(vec![(entry, run)]));
        self.ask_check(entry);
    }

    /// Small files were read, and are about to go out.
    pub fn small_read(&mut self, files: impl Iterator<Item = (EntryId, Digest)>) {
        for (id, digest) in files {
            if let Some(item) = self.items.get_mut(&id) {
                item.read = Some(digest);
            }
        }
    }

    /// A pack went out on `stream` with these entries, of these sizes.
    pub fn pack_sent(&mut self, stream: u16, asked: &[EntryId], sent: &[EntryId]) {
        let task = Task::Pack(asked.to_vec());
        let handed = self.tasks.streams.get_mut(&stream).and_then(|handed| {
            let at = handed.iter().position(|handed| !handed.sent && handed.task == task)?;
            Some(handed.swap_remove(at))
        });
        let (hedged, damaged) = handed.map_or((false, Vec::new()), |handed| (handed.hedged, handed.damaged));
        let bytes: u64 =
            sent.iter().filter_map(|id| self.items.get(id)).map(|item| item.entry.content_bytes()).sum();
        self.progress.bytes_sent += bytes;
        // Some may have arrived, or even be settled, by now.
        let is_under_way = |id: &EntryId| self.is_small(*id) && !damaged.contains(id);
        let mut under_way: Vec<EntryId> = sent.iter().copied().filter(is_under_way).collect();
        under_way.sort_unstable();
        for id in &under_way {
            if let Some(item) = self.items.get_mut(id) {
                item.sent_on = Some(stream);
            }
        }
        if let Some(handed) = self.tasks.streams.get_mut(&stream).filter(|_| !under_way.is_empty()) {
            // Age counts from the next look for idle work; the machine has no later time here.
            handed.push(Handed {
                task: Task::Pack(under_way),
                at: Duration::MAX,
                sent: true,
                hedged,
                damaged: Vec::new(),
            });
        }
    }

    /// Answer to [`Work::Check`]: what the source shows after the last read.
    pub fn checked(&mut self, stream: u16, entry: EntryId, evidence: Evidence) -> Retry {
        let is_other = |item: &Item| is_link(&item.entry) || item.entry.evidence != evidence;
        if self.items.get(&entry).is_some_and(is_other) {
            let retry = self.changed(entry);
            if retry == Retry::No {
                self.forget(stream, &Task::Check(entry));
            }
            // The stream keeps the task until it offers again: if it is lost before, another checks.
            return retry;
        }
        self.forget(stream, &Task::Check(entry));
        let Some(item) = self.items.get_mut(&entry) else { return Retry::No };
        let asked = item.asked;
        let State::Large(large) = &mut item.state else { return Retry::No };
        if large.check != Check::Asked {
            return Retry::No;
        }
        let Some(digest) = large.tree.root() else { return Retry::No };
        large.check = Check::Sealed;
        if std::mem::take(&mut large.holds_slot) {
            self.tasks.started -= 1;
        }
        self.say(Say::Seal(vec![(entry, Seal { evidence, digest, asked })]));
        Retry::No
    }

    /// What the chunks read so far join to, where all were.
    pub fn digest_read(&self, entry: EntryId) -> Option<Digest> {
        match &self.items.get(&entry)?.state {
            State::Large(large) => large.tree.root(),
            _ => None,
        }
    }

    /// Whether there is work that a stream may not begin: by depth, or by concurrency.
    pub fn is_held_back(&self, stream: u16) -> bool {
        let is_waiting = !self.tasks.small.is_empty() || !self.tasks.large.is_empty();
        is_waiting && (self.is_full(stream) || self.tasks.started >= self.limits.concurrency)
    }

    /// Whether a stream has as much under way as it may.
    fn is_full(&self, stream: u16) -> bool {
        let is_data = |handed: &&Handed| !matches!(handed.task, Task::Check(_));
        self.tasks.streams.get(&stream).is_some_and(|handed| {
            handed.len() >= self.limits.depth && handed.iter().filter(is_data).count() >= self.limits.depth
        })
    }

    fn take_check(&mut self) -> Option<Task> {
        while let Some(id) = self.tasks.checks.pop_front() {
            if self.items.contains_key(&id) {
                return Some(Task::Check(id));
            }
        }
        None
    }

    fn take_pack(&mut self, stream: u16) -> Option<Task> {
        let Share::Files(fair) = self.share(stream) else { return None };
        let room = Room { files: self.limits.pack_files.min(fair), bytes: self.limits.pack_bytes };
        let items = &self.items;
        let ids = self.tasks.small.take(stream, room, |id| {
            let item = items.get(&id).filter(|item| matches!(item.state, State::Small))?;
            Some(item.entry.evidence.size)
        });
        (!ids.is_empty()).then_some(Task::Pack(ids))
    }

    /// Until when more streams may come than are up, if they may.
    fn come_until(&self) -> Option<Duration> {
        let until = self.tasks.first_up? + self.limits.come_within;
        (self.working_streams() < self.streams_to_come() && self.tasks.clock < until).then_some(until)
    }

    /// Until when the windows of streams are about as small as all begin, if they are.
    fn small_until(&self) -> Option<Duration> {
        let until = self.tasks.first_up? + self.limits.windows_are_small;
        (self.tasks.clock < until).then_some(until)
    }

    /// What this stream has of the small files that wait. With several streams a short queue is shared out rather than
    /// packed into one: what slow start takes many round trips for on one, many send at once. While windows are small,
    /// and while streams may still come, each has as many under way as the others, so that none takes twice, for its
    /// socket has room, what another would send at once.
    fn share(&self, stream: u16) -> Share {
        let waiting = self.tasks.small.len();
        let come_until = self.come_until();
        let streams = match come_until {
            Some(_) => self.streams_to_come(),
            None => self.working_streams(),
        };
        let is_short = waiting < streams.saturating_mul(self.limits.pack_files);
        let Some(until) = come_until.or(self.small_until()).filter(|_| waiting > 0 && is_short) else {
            return Share::Files(waiting.div_ceil(streams).max(FILES_MIN));
        };
        let files = |handed: &Handed| match &handed.task {
            Task::Pack(ids) => ids.len(),
            Task::Chunk(..) | Task::Check(_) => 0,
        };
        let under_way = |handed: &Vec<Handed>| handed.iter().map(files).sum::<usize>();
        let own = self.tasks.streams.get(&stream).map_or(0, under_way);
        let all: usize = self.tasks.streams.values().map(under_way).sum();
        // Of a path that nobody knows it is not sure that more come.
        let fewest = if self.limits.windows_are_small.is_zero() { FILES_MIN / 2 } else { FILES_MIN_AT_FIRST };
        let even = (waiting + all).div_ceil(streams).max(fewest);
        match even.saturating_sub(own) {
            0 => Share::OfOthers(until),
            room => Share::Files(room.max(fewest)),
        }
    }

    fn streams_to_come(&self) -> usize {
        self.limits.streams_to_come.min(self.limits.streams)
    }

    /// A small file waits for a pack.
    pub(super) fn queue_small(&mut self, id: EntryId) {
        if let Some(item) = self.items.get(&id) {
            self.tasks.small.push(id, &item.entry.path);
        }
    }

    /// Where the chunks of an entry lie: for an order that goes by it. False if there is no room to keep it.
    #[must_use]
    pub fn lay_out(&mut self, id: EntryId, layout: Layout) -> bool {
        self.tasks.dealer.lay_out(id, layout)
    }

    fn take_chunk(&mut self, stream: u16) -> Option<Task> {
        let asker = self.asker(stream);
        let devices = self.tasks.large.in_turn(asker);
        devices.into_iter().find_map(|device| self.take_chunk_of(device, asker))
    }

    fn asker(&self, stream: u16) -> Asker {
        let rank = self.tasks.streams.range(..stream).count() as u64;
        Asker { rank, of: self.working_streams() as u64 }
    }

    fn take_chunk_of(&mut self, device: u64, asker: Asker) -> Option<Task> {
        let files = self.tasks.large.files(device)?;
        for _ in 0..files.len() {
            let &id = files.front()?;
            let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) else {
                files.pop_front();
                continue;
            };
            // With nothing to read, for what was wanted has come meanwhile, it takes no slot: there would be
            // no look at its source that gives it back.
            if large.queue.is_empty() {
                large.is_listed = false;
                files.pop_front();
                continue;
            }
            if !large.holds_slot {
                if self.tasks.started >= self.limits.concurrency {
                    files.rotate_left(1);
                    continue;
                }
                large.holds_slot = true;
                self.tasks.started += 1;
            }
            let Some(chunk) = self.tasks.dealer.pick(id, &large.queue, asker) else {
                // What is left of it is for others.
                files.rotate_left(1);
                continue;
            };
            large.queue.remove(chunk, chunk + 1);
            large.being_read.push(chunk);
            if large.queue.is_empty() {
                large.is_listed = false;
                files.pop_front();
            }
            self.tasks.large.serve(device);
            return Some(Task::Chunk(id, chunk));
        }
        None
    }

    /// A file has chunks to read: it stands in their queue once, however often something of it is wanted.
    pub(super) fn list(&mut self, id: EntryId) {
        if let Some(Item { state: State::Large(large), entry, .. }) = self.items.get_mut(&id)
            && !std::mem::replace(&mut large.is_listed, true)
        {
            self.tasks.large.push(entry.evidence.device, id);
        }
    }

    /// Work that another stream sent long ago and the receiver has not verified: once, to a stream that
    /// has nothing else to do.
    fn take_hedge(&mut self, stream: u16, now: Duration) -> Hedge {
        let after = self.limits.hedge.after(self.tasks.usual);
        let mut soonest: Option<Duration> = None;
        let mut sealed = None;
        'streams: for (&other, handed) in &mut self.tasks.streams {
            if other == stream {
                continue;
            }
            for handed in handed.iter_mut().filter(|handed| !handed.hedged) {
                if handed.at == Duration::MAX {
                    handed.at = now;
                }
                let is_pointless = match handed.task {
                    Task::Check(_) => true,
                    Task::Pack(_) => false,
                    Task::Chunk(id, chunk) => match self.items.get(&id).map(|item| &item.state) {
                        Some(State::Large(large)) => large.verified.contains(chunk),
                        _ => true,
                    },
                };
                if is_pointless {
                    continue;
                }
                let due = handed.at + after;
                if due <= now {
                    handed.hedged = true;
                    if let Task::Chunk(id, chunk) = handed.task
                        && let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id)
                    {
                        if matches!(large.check, Check::Sealed | Check::Unsealing) {
                            sealed = Some(id);
                            break 'streams;
                        }
                        if large.check == Check::Asked {
                            // It will be asked for again after this read.
                            large.check = Check::NotYet;
                        }
                        large.being_read.push(chunk);
                    }
                    return Hedge::Task(handed.task.clone());
                }
                soonest = Some(soonest.map_or(due, |soonest| soonest.min(due)));
            }
        }
        if let Some(id) = sealed {
            self.unseal(id);
            return Hedge::At(now);
        }
        soonest.map_or(Hedge::None, Hedge::At)
    }

    /// A sealed entry's bytes are on a stream that may never deliver them. Nothing of it may be read again
    /// while the seal stands: the source may be another by now, and the receiver could name a mixture. So it
    /// is offered again; the receiver drops the seal and answers by what it lacks.
    fn unseal(&mut self, id: EntryId) {
        let Some(Item { state: State::Large(large), entry, wanted, .. }) = self.items.get_mut(&id) else {
            return;
        };
        if large.check == Check::Sealed {
            large.check = Check::Unsealing;
            *wanted = 0;
            let entry = entry.clone();
            self.say_offers(vec![entry]);
        }
    }

    fn work_of(&mut self, task: &Task) -> Option<Work> {
        let entry = |id: &EntryId| self.items.get(id).map(|item| item.entry.clone());
        match task {
            Task::Chunk(id, chunk) => {
                let Item { entry, state: State::Large(large), .. } = self.items.get_mut(id)? else {
                    return None;
                };
                if large.compare.contains(*chunk) {
                    return Some(Work::Compare(entry.clone(), *chunk));
                }
                let copy = if large.begun.contains(*chunk) { Copy::Again } else { Copy::First };
                large.begun.insert(*chunk, chunk + 1);
                Some(Work::Chunk(entry.clone(), *chunk, copy))
            }
            Task::Check(id) => Some(Work::Check(entry(id)?)),
            Task::Pack(ids) => {
                let entries: Vec<_> = ids.iter().filter_map(entry).collect();
                (!entries.is_empty()).then_some(Work::Pack(entries))
            }
        }
    }

    /// When every chunk was read, the source is looked at once more. A stream that never gets through with a chunk (its
    /// connection is dead and nobody knows) does not hold that up if the chunk arrived by another: whatever it reads
    /// later, the receiver does not take.
    pub(super) fn ask_check(&mut self, id: EntryId) {
        let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) else { return };
        if large.queue.is_empty()
            && large.being_read.iter().all(|chunk| large.verified.contains(*chunk))
            && large.tree.is_complete()
            && large.check == Check::NotYet
        {
            large.check = Check::Asked;
            self.tasks.checks.push_back(id);
        }
    }

    fn give_back(&mut self, handed: Handed) {
        match handed.task {
            Task::Check(id) => {
                if self.items.get(&id).is_some_and(|item| is_link(&item.entry)) {
                    self.tasks.checks.push_back(id);
                    return;
                }
                if let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id)
                    && large.check == Check::Asked
                {
                    large.check = Check::NotYet;
                }
                self.ask_check(id);
            }
            Task::Chunk(id, chunk) => {
                let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) else { return };
                if !handed.sent {
                    large.read_ended(chunk);
                }
                if large.verified.contains(chunk) && large.tree.contains(chunk) {
                    self.ask_check(id);
                } else if matches!(large.check, Check::Sealed | Check::Unsealing) {
                    self.unseal(id);
                } else {
                    large.queue.insert(chunk, chunk + 1);
                    large.check = Check::NotYet;
                    self.list(id);
                }
            }
            Task::Pack(ids) => {
                for id in ids {
                    if self.is_small(id) {
                        self.queue_small(id);
                    }
                }
            }
        }
    }

    fn mark_sent(&mut self, stream: u16, task: &Task) -> Known {
        let is_verified = match *task {
            Task::Chunk(id, chunk) => match self.items.get(&id).map(|item| &item.state) {
                Some(State::Large(large)) => large.verified.contains(chunk),
                _ => true,
            },
            _ => false,
        };
        let Some(handed) = self.tasks.streams.get_mut(&stream) else { return Known::No };
        let Some(at) = handed.iter().position(|handed| !handed.sent && handed.task == *task) else {
            return Known::No;
        };
        handed[at].sent = true;
        if is_verified || !handed[at].damaged.is_empty() {
            handed.swap_remove(at);
        }
        Known::Yes
    }

    fn forget(&mut self, stream: u16, task: &Task) -> Known {
        let Some(handed) = self.tasks.streams.get_mut(&stream) else { return Known::No };
        let Some(at) = handed.iter().position(|handed| !handed.sent && handed.task == *task) else {
            return Known::No;
        };
        handed.swap_remove(at);
        Known::Yes
    }

    /// What streams are not through with cannot be taken from them; they drop it when they are.
    pub(super) fn note_damaged(&mut self, id: EntryId, run: Run) {
        for handed in self.tasks.streams.values_mut().flatten().filter(|handed| !handed.sent) {
            let is_damaged = match &handed.task {
                Task::Pack(ids) => ids.contains(&id),
                Task::Chunk(entry, chunk) => {
                    *entry == id && (run.first..run.first + run.count).contains(chunk)
                }
                Task::Check(_) => false,
            };
            if is_damaged && !handed.damaged.contains(&id) {
                handed.damaged.push(id);
            }
        }
    }

    /// These chunks were verified: how long that took. The time is that of the last question for work, which streams
    /// that are busy ask often.
    pub(super) fn note_usual(&mut self, id: EntryId, run: Run) {
        /// Weight of what was before: the last few chunks count, and no single one decides.
        const BEFORE: u32 = 7;
        for handed in self.tasks.streams.values().flatten().filter(|handed| handed.sent && !handed.hedged) {
            if let Task::Chunk(entry, chunk) = handed.task
                && entry == id
                && chunk >= run.first
                && chunk - run.first < run.count
            {
                let took = self.tasks.clock.saturating_sub(handed.at);
                let usual = self.tasks.usual;
                self.tasks.usual =
                    Some(usual.map_or(took, |usual| usual / (BEFORE + 1) * BEFORE + took / (BEFORE + 1)));
            }
        }
    }

    pub(super) fn drop_handed(&mut self, id: EntryId, run: Run) {
        for handed in self.tasks.streams.values_mut() {
            handed.retain(|handed| !matches!(handed.task,
                Task::Chunk(entry, chunk) if handed.sent && entry == id && chunk >= run.first && chunk - run.first < run.count));
        }
    }

    /// Takes a small file out of the packs that are under way.
    pub(super) fn drop_small(&mut self, id: EntryId) {
        let sent_on = self.items.get_mut(&id).and_then(|item| item.sent_on.take());
        self.drop_sent(id, sent_on);
    }

    /// As [`Sender::drop_small`], of a file that went out on this stream last. Asked of every small file, with
    /// thousands of packs under way: it is looked for where it is, and what was sent first arrives first.
    pub(super) fn drop_sent(&mut self, id: EntryId, sent_on: Option<u16>) {
        let Some(stream) = sent_on else { return };
        let of_stream = self.tasks.streams.get_mut(&stream);
        if of_stream.is_some_and(|handed| drop_from(handed, id) == Dropped::OnlyCopy) {
            return;
        }
        // Taken over by another stream, or given back.
        for handed in self.tasks.streams.values_mut() {
            while drop_from(handed, id) != Dropped::No {}
        }
    }

    /// Takes the chunks of an entry and the look at its source from the streams.
    pub(super) fn drop_chunks(&mut self, id: EntryId) {
        for handed in self.tasks.streams.values_mut() {
            handed.retain(|handed| match &handed.task {
                Task::Pack(_) => true,
                Task::Chunk(entry, _) | Task::Check(entry) => *entry != id,
            });
        }
    }

    /// Takes the look at an entry's source from the stream that has it. It was given out lately: of packs that were
    /// sent there may be very many before it.
    pub(super) fn drop_check(&mut self, id: EntryId) {
        let is_it = |handed: &Handed| matches!(handed.task, Task::Check(entry) if entry == id);
        for handed in self.tasks.streams.values_mut() {
            if let Some(at) = handed.iter().rposition(is_it) {
                handed.remove(at);
                return;
            }
        }
    }

    fn is_small(&self, id: EntryId) -> bool {
        self.items.get(&id).is_some_and(|item| matches!(item.state, State::Small))
    }
}

#[derive(PartialEq, Eq)]
enum Dropped {
    No,
    OnlyCopy,
    /// Another stream may have one.
    Copy,
}

/// Takes a small file out of the first pack that it went out in.
fn drop_from(handed: &mut Vec<Handed>, id: EntryId) -> Dropped {
    for at in 0..handed.len() {
        let pack = &mut handed[at];
        let Task::Pack(ids) = &mut pack.task else { continue };
        // In order since it was sent.
        let covers = pack.sent && ids.first() <= Some(&id) && ids.last() >= Some(&id);
        let Some(place) = covers.then(|| ids.binary_search(&id).ok()).flatten() else { continue };
        ids.remove(place);
        let dropped = if pack.hedged { Dropped::Copy } else { Dropped::OnlyCopy };
        if ids.is_empty() {
            handed.remove(at);
        }
        return dropped;
    }
    Dropped::No
}

impl Large {
    fn read_ended(&mut self, chunk: u64) {
        if let Some(at) = self.being_read.iter().position(|read| *read == chunk) {
            self.being_read.swap_remove(at);
        }
    }
}
