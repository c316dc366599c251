//! What arrives on a stream: frames taken apart, compared, written.

use super::receiving::no_space;
use super::*;

impl World {
    pub(super) fn take_frame(&mut self, at: usize) {
        self.pump_receiver();
        let stream = &mut self.streams[at];
        let Some(receiver) = self.receiver.as_mut().filter(|r| r.instance == stream.instance) else { return };
        let is_dry = !stream.receiver_alive || (stream.network.is_empty() && stream.arrived.is_empty());
        if stream.cut && stream.writing.is_none() && is_dry {
            stream.cut = false;
            receiver.machine.writer_gone(at as u64);
        }
        if !stream.receiver_alive || stream.writing.is_some() {
            return;
        }
        let Some(frame) = stream.arrived.pop_front() else { return };
        let again = frame.clone();
        let writing = match frame {
            Frame::Segment { entry, offset, bytes, digest, copy } => {
                let writer = at as u64;
                take_segment(
                    receiver,
                    stream,
                    writer,
                    &mut self.disk,
                    &self.plan,
                    self.now,
                    (entry, offset, bytes, digest, copy),
                )
            }
            Frame::Pack(items) => {
                let wanted = receiver.machine.small_wanted(items.iter().map(|(id, ..)| *id));
                let mut good = Vec::new();
                for ((id, bytes, digest), entry) in items.into_iter().zip(wanted) {
                    assert!(receiver.machine.was_offered(id), "data of an entry never offered");
                    let Some(entry) = entry else { continue };
                    if digest::of_piece(0, &bytes, bytes.len() as u64) == digest {
                        good.push((entry, bytes, digest));
                    } else {
                        receiver.machine.damaged(id, 0);
                    }
                }
                Some(Writing::Pack(good))
            }
            Frame::Compare { entry: id, chunk, digest } => {
                let Ok(wanted) = receiver.machine.compare_wanted(id, chunk) else {
                    panic!("a comparison that no correct sender makes")
                };
                Some(wanted.map_or(Writing::Nothing, |entry| {
                    let found = receiver.destination.existing_chunk(&self.disk, &entry, chunk);
                    let found = found.map(|(_, digest)| digest);
                    Writing::Comparison { entry: id, chunk, digest, found }
                }))
            }
        };
        if writing.is_none() {
            stream.arrived.push_front(again);
            self.soon(self.plan.write_time, Event::TakeFrame(at));
            return;
        }
        stream.writing = writing;
        if let Some(frame) = stream.blocked.take() {
            self.push(at, frame);
            if self.streams[at].blocked.is_none() {
                self.soon(self.plan.read_time, Event::Worker(at));
            }
        }
        self.soon(self.plan.write_time, Event::Written(at));
    }

    pub(super) fn written(&mut self, at: usize) {
        // What the machine wants thrown away is thrown away before it hears of anything new by the same id.
        self.pump_receiver();
        let stream = &mut self.streams[at];
        let Some(writing) = stream.writing.take() else { return };
        let Some(receiver) = self.receiver.as_mut().filter(|r| r.instance == stream.instance) else { return };
        match writing {
            Writing::Nothing => {}
            Writing::Comparison { entry, chunk, digest, found } if found == Some(digest) => {
                receiver.machine.chunk_same(entry, chunk, digest, self.now);
            }
            Writing::Comparison { entry, chunk, .. } => {
                receiver.machine.chunk_differs(entry, chunk, self.now);
            }
            Writing::Segment { entry, inode, chunk, offset, mut bytes } => {
                if self.damage_write && !bytes.is_empty() {
                    let place = self.random.below(bytes.len() as u64) as usize;
                    bytes[place] ^= 1 << self.random.below(8);
                    self.damage_write = false;
                }
                let last = {
                    let chunk_bytes = self.plan.terms.chunk_bytes;
                    chunk * chunk_bytes + digest::chunk_length(chunk, entry.evidence.size, chunk_bytes)
                };
                if offset + bytes.len() as u64 != last {
                    receiver.machine.segment_written(at as u64, entry.id, chunk);
                }
                if self.disk.write(inode, offset as usize, &bytes) {
                    if let Some(assembly) = &mut stream.assembly {
                        let size = entry.evidence.size;
                        let chunk_bytes = self.plan.terms.chunk_bytes;
                        let end = chunk * chunk_bytes + digest::chunk_length(chunk, size, chunk_bytes);
                        if assembly.chunk == chunk && offset + bytes.len() as u64 == end && !assembly.bad {
                            let digest = digest::join(&assembly.digests, size <= chunk_bytes);
                            stream.assembly = None;
                            receiver.machine.chunk_written(entry.id, chunk, digest, self.now);
                        }
                    }
                } else {
                    receiver.machine.write_failed(entry.id, no_space(), self.now);
                }
                self.check_inode(inode);
            }
            Writing::Pack(items) => {
                let mut files = Vec::new();
                let mut staged = Vec::new();
                for (entry, mut bytes, digest) in items {
                    if self.damage_write && !bytes.is_empty() {
                        let place = self.random.below(bytes.len() as u64) as usize;
                        bytes[place] ^= 1 << self.random.below(8);
                        self.damage_write = false;
                    }
                    match receiver.destination.stage(&mut self.disk, u32::from(stream.number), &bytes) {
                        Ok(file) => {
                            files.push((entry.id, digest));
                            staged.push(file);
                        }
                        Err(failure) => receiver.machine.write_failed(entry.id, failure, self.now),
                    }
                }
                let taken = receiver.machine.files_staged(&files, self.now);
                for (((id, _), file), taken) in files.into_iter().zip(staged).zip(taken) {
                    if taken {
                        receiver.staged.insert(id, file);
                    } else {
                        receiver.destination.discard(&mut self.disk, Ready::Staged(file));
                    }
                }
            }
        }
        self.take_frame(at);
    }
}

pub(super) fn take_segment(
    receiver: &mut ReceiverSide,
    stream: &mut Stream,
    writer: u64,
    disk: &mut Disk,
    plan: &Plan,
    now: Duration,
    (id, offset, bytes, digest, copy): (EntryId, u64, Vec<u8>, Digest, Copy),
) -> Option<Writing> {
    assert!(receiver.machine.was_offered(id), "data of an entry never offered");
    let chunk_bytes = plan.terms.chunk_bytes;
    let chunk = offset / chunk_bytes;
    if offset.is_multiple_of(chunk_bytes) {
        if let Some(last) = stream.assembly.take().filter(|assembly| !assembly.bad) {
            receiver.machine.copy_given_up(writer, last.entry, last.chunk);
        }
        stream.assembly = Some(Assembly { entry: id, chunk, offset, digests: Vec::new(), bad: false });
    }
    let Some(assembly) = &mut stream.assembly else { return Some(Writing::Nothing) };
    if assembly.entry != id || assembly.chunk != chunk || assembly.offset != offset {
        panic!("segments of a chunk come out of order");
    }
    let is_first = offset.is_multiple_of(chunk_bytes);
    assembly.offset += bytes.len() as u64;
    if assembly.bad {
        return Some(Writing::Nothing);
    }
    let Some(entry) = receiver.machine.chunks_wanted(id) else {
        assembly.bad = true;
        return Some(Writing::Nothing);
    };
    if receiver.destination.rule(&entry).segment(offset, &bytes) != Some(digest) {
        assembly.bad = true;
        receiver.machine.damaged(id, chunk);
        receiver.machine.copy_given_up(writer, id, chunk);
        return Some(Writing::Nothing);
    }
    match receiver.machine.claim_chunk(writer, id, chunk, is_first.then_some(copy)) {
        Claim::Write => {}
        Claim::Busy => return None,
        Claim::Unwanted => {
            assembly.bad = true;
            return Some(Writing::Nothing);
        }
    }
    assembly.digests.push(digest);
    match partial_of(receiver, disk, &entry) {
        Ok(inode) => Some(Writing::Segment { entry, inode, chunk, offset, bytes }),
        Err(failure) => {
            receiver.machine.write_failed(id, failure, now);
            Some(Writing::Nothing)
        }
    }
}

/// The partial of a wanted entry, begun if need be.
pub(super) fn partial_of(
    receiver: &mut ReceiverSide,
    disk: &mut Disk,
    entry: &Entry,
) -> crate::failure::Result<Inode> {
    let number = match receiver.partials.get(&entry.id) {
        Some(number) => *number,
        None => {
            let number = receiver.destination.begin(disk, entry)?;
            receiver.partials.insert(entry.id, number);
            number
        }
    };
    match receiver.destination.partial(number) {
        Some(partial) => Ok(partial.inode),
        None => panic!("the partial of a wanted entry is gone"),
    }
}
