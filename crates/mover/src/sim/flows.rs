//! Flows in virtual time: the real machines of [`crate::flow`], a simulated source, link and disk, and a check after
//! each step.
//!
//! One seed is one story: some flows, pipes or files, that grow by fits and starts; a window; a disk and a consumer
//! that take their time; and faults, by `seed % 7`: none; streams that break; links that break, with whatever was on
//! its way; kills of the receiver; power cuts, which take any part of what was not synced; kills of the sender (of
//! files: a pipe goes with it); all of these, and bits that flip on the way.
//!
//! # What is checked
//! 1. A mark never goes back, at either side, whatever restarts.
//! 2. What is below a mark, after a power cut too, is what the source has there.
//! 3. No byte is written twice by one receiver, none is left out.
//! 4. What is kept in memory has its bound.
//! 5. Neither machine calls the other's words a breach of protocol.
//! 6. When faults stop, everything is settled, and is the whole.
//!
//! # Not simulated
//! What is a flow, and when it is complete (`endpoint/feed/files/sim.rs` has directories), hostile peers, threads and
//! locks.

use super::random::Random;
use crate::flow::receiver::{Action as Received, Receiver, Slot, Stood};
use crate::flow::sender::{Action as Sent, Piece, Sender};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use thalweg_wire::message::{FlowMark, FlowTerms, Origin, Outcome, TransferMessage, Until};
use thalweg_wire::{Digest, EntryId, RelativePath};

/// Streams of the link.
const STREAMS: u16 = 3;
/// Steps in which faults may strike, and after which everything must have ended.
const FAULTY_STEPS: u64 = 600;
const STEPS_MAX: u64 = 2_000_000;
/// Classes of faults.
const CLASSES: u64 = 7;

struct Source {
    name: RelativePath,
    is_pipe: bool,
    content: Vec<u8>,
    /// Bytes that are there by now.
    grown: usize,
    hasher: blake3::Hasher,
    id: EntryId,
    is_over: bool,
}

/// A file at the destination: what was written, how much of it is synced, and the journaled mark.
#[derive(Default, Clone)]
struct Stored {
    content: Vec<u8>,
    synced: usize,
    mark: (u64, Option<Digest>),
    is_complete: bool,
}

struct World {
    random: Random,
    class: u64,
    terms: FlowTerms,
    piece_max: usize,
    now: Duration,
    sources: Vec<Source>,
    stored: Vec<Stored>,
    sender: Sender,
    receiver: Receiver,
    /// What each slot of this receiver is: which file, and what hashed it.
    slots: BTreeMap<Slot, (usize, blake3::Hasher)>,
    is_linked: bool,
    to_receiver: VecDeque<TransferMessage>,
    to_sender: VecDeque<TransferMessage>,
    streams: Vec<VecDeque<Piece>>,
    jobs: VecDeque<Received>,
    told_marks: Vec<u64>,
    is_finished: (bool, bool),
    faults: u64,
}

/// Runs one seed.
///
/// # Errors
/// What was violated.
pub fn check(seed: u64) -> Result<u64, String> {
    let mut world = World::new(seed);
    for step in 0..STEPS_MAX {
        world.now += Duration::from_millis(world.random.below(20));
        if step < FAULTY_STEPS {
            world.strike()?;
        } else if !world.is_linked {
            world.link_up();
        }
        world.step(step)?;
        world.look()?;
        if world.is_finished == (true, true) {
            world.at_end()?;
            return Ok(world.faults);
        }
    }
    let (sent, received) = (world.sender.progress(), world.receiver.totals());
    Err(format!("it does not end: sender {sent:?}, receiver {received:?}"))
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed ^ 0x5eed_f10f);
        let is_pipe = seed % CLASSES != 5 && random.percent(30);
        let count = if is_pipe { 1 } else { random.within(1, 4) };
        let terms = FlowTerms {
            until: Until::default(),
            window_bytes: random.pick(&[1_000, 3_000, 9_000, 200_000]),
            mark_every_ms: random.pick(&[0, 10, 100, 1000]),
        };
        let piece_max = random.pick(&[1usize, 16, 100, 1000]);
        let sources: Vec<Source> = (0..count)
            .map(|number| {
                let bytes = random.pick(&[0usize, 1, 50, 999, 4096]);
                let content: Vec<u8> = (0..bytes).map(|_| random.below(256) as u8).collect();
                let name = RelativePath::new(format!("flow-{number}").into_bytes()).unwrap_or_default();
                let hasher = blake3::Hasher::new();
                Source { name, is_pipe, content, grown: 0, hasher, id: EntryId(0), is_over: false }
            })
            .collect();
        let mut world = World {
            class: seed % CLASSES,
            piece_max,
            now: Duration::ZERO,
            stored: vec![Stored::default(); sources.len()],
            told_marks: vec![0; sources.len()],
            sender: Sender::new(terms.window_bytes),
            receiver: Receiver::new(&terms, piece_max),
            sources,
            slots: BTreeMap::new(),
            is_linked: false,
            to_receiver: VecDeque::new(),
            to_sender: VecDeque::new(),
            streams: (0..STREAMS).map(|_| VecDeque::new()).collect(),
            jobs: VecDeque::new(),
            is_finished: (false, false),
            faults: 0,
            terms,
            random,
        };
        world.begin_all();
        world.link_up();
        world
    }

    fn begin_all(&mut self) {
        for source in &mut self.sources {
            source.id = self
                .sender
                .begin(source.name.clone(), (Origin::default(), false), 0o644)
                .unwrap_or(EntryId(0));
            source.hasher = blake3::Hasher::new();
            source.is_over = false;
        }
        self.sender.last();
    }

    fn link_up(&mut self) {
        self.is_linked = true;
        self.receiver.link_up();
        self.sender.link_up();
    }

    /// What was on its way is lost, or a first part of it came in time.
    fn link_down(&mut self) -> Result<(), String> {
        self.is_linked = false;
        let kept = self.random.below(self.to_receiver.len() as u64 + 1) as usize;
        self.to_receiver.truncate(kept);
        while let Some(message) = self.to_receiver.pop_front() {
            // An end that hears this hears nothing after it.
            let _ = self.receiver.hear(message, self.now);
        }
        self.to_sender.clear();
        self.streams.iter_mut().for_each(VecDeque::clear);
        (0..STREAMS).for_each(|stream| self.sender.stream_lost(stream));
        // What is said now is lost.
        self.pump()
    }

    fn strike(&mut self) -> Result<(), String> {
        if !self.is_linked {
            if self.random.percent(20) {
                self.link_up();
            }
            return Ok(());
        }
        if !self.random.percent(3) || self.class == 0 {
            return Ok(());
        }
        self.faults += 1;
        let fault = match self.class {
            6 => self.random.within(1, 5),
            class => class,
        };
        match fault {
            1 => {
                let stream = self.random.below(STREAMS.into()) as usize;
                self.streams[stream].clear();
                self.sender.stream_lost(stream as u16);
            }
            2 => self.link_down()?,
            3 => self.restart_receiver(false)?,
            4 => self.restart_receiver(true)?,
            _ => self.restart_sender()?,
        }
        Ok(())
    }

    /// A new process finds what the disk has. After a power cut, any part of what was not synced is gone or wrong.
    fn restart_receiver(&mut self, is_power_cut: bool) -> Result<(), String> {
        self.link_down()?;
        for stored in self.stored.iter_mut().filter(|_| is_power_cut) {
            let kept =
                stored.synced as u64 + self.random.below((stored.content.len() - stored.synced) as u64 + 1);
            stored.content.truncate(kept as usize);
            for byte in &mut stored.content[stored.synced..] {
                *byte = if self.random.percent(30) { 0 } else { *byte };
            }
        }
        self.begin_receiver();
        self.sender.rebind();
        self.is_linked = true;
        Ok(())
    }

    fn begin_receiver(&mut self) {
        self.receiver = Receiver::new(&self.terms, self.piece_max);
        self.slots.clear();
        self.jobs.clear();
        self.is_finished = (false, false);
    }

    fn restart_sender(&mut self) -> Result<(), String> {
        if self.sources.iter().any(|source| source.is_pipe) {
            return self.link_down();
        }
        self.link_down()?;
        self.sender = Sender::new(self.terms.window_bytes);
        self.is_finished = (false, false);
        if self.random.percent(50) {
            self.receiver.rebind();
        } else {
            self.begin_receiver();
        }
        self.begin_all();
        self.sender.rebind();
        self.is_linked = true;
        Ok(())
    }

    fn step(&mut self, step: u64) -> Result<(), String> {
        match self.random.below(6) {
            0 => self.grow(step),
            1 => self.feed(),
            2 => self.send(),
            3 => self.arrive()?,
            4 => self.work(),
            _ => self.receiver.tick(self.now),
        }
        self.pump()
    }

    fn grow(&mut self, step: u64) {
        let index = self.random.below(self.sources.len() as u64) as usize;
        let rest = self.sources[index].content.len() - self.sources[index].grown;
        let most = if step < FAULTY_STEPS { rest.min(300) } else { rest };
        self.sources[index].grown += self.random.below(most as u64 + 1) as usize;
        if step > FAULTY_STEPS {
            self.sources[index].grown += most.min(rest) - most.min(rest).min(self.sources[index].grown);
            self.sources[index].grown = self.sources[index].content.len();
        }
    }

    fn feed(&mut self) {
        let index = self.random.below(self.sources.len() as u64) as usize;
        let source = &mut self.sources[index];
        let Some(position) = self.sender.position(source.id) else { return };
        let position = position as usize;
        if position == source.content.len() {
            self.sender.end(source.id);
        } else if position < source.grown && self.sender.has_room() {
            let most = (source.grown - position).min(self.piece_max) as u64;
            let bytes = source.content[position..position + self.random.within(1, most) as usize].to_vec();
            source.hasher.update(&bytes);
            let prefix = Digest(*source.hasher.finalize().as_bytes());
            let digest = Digest(*blake3::hash(&bytes).as_bytes());
            let bytes = bytes.into();
            let piece = Piece { flow: source.id, offset: position as u64, bytes, digest, prefix };
            let _ = self.sender.push(piece);
        }
    }

    fn send(&mut self) {
        let stream = self.random.below(STREAMS.into()) as u16;
        if self.is_linked
            && let Some(piece) = self.sender.next_piece(stream)
        {
            let Piece { flow, offset, digest, prefix, .. } = *piece;
            let bytes = piece.bytes.clone();
            self.streams[usize::from(stream)].push_back(Piece { flow, offset, bytes, digest, prefix });
        }
    }

    fn arrive(&mut self) -> Result<(), String> {
        let breach = |failure: crate::Failure| format!("breach of protocol: {failure}");
        match self.random.below(3) {
            0 => {
                let message = self.to_receiver.pop_front();
                message.map_or(Ok(()), |message| self.receiver.hear(message, self.now)).map_err(breach)
            }
            1 => {
                let message = self.to_sender.pop_front();
                message.map_or(Ok(()), |message| self.sender.hear(message)).map_err(breach)
            }
            _ => {
                let stream = self.random.below(STREAMS.into()) as usize;
                let Some(piece) = self.streams[stream].pop_front() else { return Ok(()) };
                if self.class == 6 && self.random.percent(1) {
                    self.receiver.damaged(piece.flow, piece.offset);
                    return Ok(());
                }
                self.receiver.arrived(piece.flow, piece.offset, piece.bytes).map_err(breach)
            }
        }
    }

    /// The receiver's threads do what comes next; syncs, opens and writes overtake each other as those of threads do.
    fn work(&mut self) {
        let kinds: [fn(&Received) -> bool; 3] = [
            |job| matches!(job, Received::Open(..)),
            |job| matches!(job, Received::Write(..)),
            |job| matches!(job, Received::Sync(_) | Received::Complete(..)),
        ];
        let is_mine = self.random.pick(&kinds);
        let Some(at) = self.jobs.iter().position(is_mine) else { return };
        let Some(job) = self.jobs.remove(at) else { return };
        match job {
            Received::Open(slot, begin) => {
                let Some(index) = self.sources.iter().position(|source| source.name == begin.path) else {
                    return;
                };
                let stored = &mut self.stored[index];
                stored.is_complete = false;
                let bytes = stored.mark.0;
                stored.content.truncate(bytes as usize);
                let mut hasher = blake3::Hasher::new();
                hasher.update(&stored.content);
                let digest = Digest(*hasher.finalize().as_bytes());
                self.slots.insert(slot, (index, hasher));
                self.receiver
                    .opened(slot, Ok(Stood { bytes, digest, is_ours: true, is_over: false, name: None }));
            }
            Received::Write(slot, offset, bytes) => {
                let Some((index, hasher)) = self.slots.get_mut(&slot) else {
                    return self.receiver.skipped(bytes.len());
                };
                let stored = &mut self.stored[*index];
                // Checked in `look`: a gap or a byte twice shows in the content.
                stored.content.truncate(offset as usize);
                stored.content.extend_from_slice(&bytes);
                hasher.update(&bytes);
                let digest = Digest(*hasher.finalize().as_bytes());
                self.receiver.written(slot, bytes.len(), digest, self.now);
            }
            Received::Sync(marks) => {
                for (slot, bytes, digest) in &marks {
                    if let Some((index, _)) = self.slots.get(slot) {
                        let stored = &mut self.stored[*index];
                        stored.synced = stored.synced.max(*bytes as usize);
                        stored.mark = (*bytes, Some(*digest));
                    }
                }
                self.receiver.synced(&marks, self.now);
            }
            Received::Complete(slot, bytes) => {
                if let Some((index, _)) = self.slots.get(&slot) {
                    let stored = &mut self.stored[*index];
                    stored.content.truncate(bytes as usize);
                    (stored.synced, stored.is_complete) = (stored.content.len(), true);
                }
                self.receiver.completed(slot, Ok(()));
            }
            _ => {}
        }
    }

    fn pump(&mut self) -> Result<(), String> {
        while let Some(action) = self.sender.take_action() {
            match action {
                Sent::Say(message) if self.is_linked => self.to_receiver.push_back(message),
                Sent::Say(_) => {}
                Sent::Rewind { at, .. } => self.rewind(&at),
                Sent::Settled(over) => {
                    if let Outcome::Failed(failure) = over.outcome {
                        return Err(format!("a flow failed without a fault that explains it: {failure}"));
                    }
                    let flow = over.begin.flow;
                    self.sources.iter_mut().filter(|s| s.id == flow).for_each(|s| s.is_over = true);
                }
                // Nobody keeps a receipt here.
                Sent::Gone(_) => {}
                Sent::Finished(_) => self.is_finished.0 = true,
            }
        }
        while let Some(action) = self.receiver.take_action() {
            match action {
                Received::Say(message) if self.is_linked => self.to_sender.push_back(message),
                Received::Say(_) | Received::Settled(..) | Received::Forgotten(..) => {}
                Received::Conclude => self.receiver.concluded(),
                Received::Finished(_) => self.is_finished.1 = true,
                job => self.jobs.push_back(job),
            }
        }
        Ok(())
    }

    fn rewind(&mut self, at: &FlowMark) {
        let Some(source) = self.sources.iter_mut().find(|source| source.id == at.flow) else { return };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&source.content[..at.bytes as usize]);
        source.hasher = hasher;
        self.sender.rewound(at, Ok(()));
    }

    fn look(&mut self) -> Result<(), String> {
        if self.sender.progress().kept_bytes > self.terms.window_bytes + self.piece_max as u64 {
            return Err("more is kept than the window".to_owned());
        }
        for (index, (stored, source)) in self.stored.iter().zip(&self.sources).enumerate() {
            let mark = stored.mark.0 as usize;
            if stored.mark.0 < self.told_marks[index] {
                return Err(format!("a mark went back, from {} to {mark}", self.told_marks[index]));
            }
            self.told_marks[index] = stored.mark.0;
            if stored.synced < mark || stored.content.get(..mark) != source.content.get(..mark) {
                return Err(format!("below the mark {mark} stands something else than the source has"));
            }
        }
        Ok(())
    }

    fn at_end(&self) -> Result<(), String> {
        for (stored, source) in self.stored.iter().zip(&self.sources) {
            if !stored.is_complete || stored.content != source.content {
                return Err(format!("{:?} is not the whole", source.name));
            }
        }
        let totals = self.receiver.totals();
        if totals.done != self.sources.len() as u64 || totals.failed > 0 {
            return Err(format!("the counts do not add up: {totals:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_seed_breaks_a_promise_of_flows() {
        for seed in 0..700 {
            if let Err(what) = super::check(seed) {
                panic!("seed {seed}: {what}; cargo xtask sim --flows --seed {seed}");
            }
        }
    }
}
