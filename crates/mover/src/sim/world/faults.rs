//! What goes wrong, at moments of the seed's choice.

use super::*;

impl World {
    pub(super) fn any_loss(&mut self) -> Loss {
        match self.random.below(4) {
            0 => Loss::All,
            1 => Loss::Nothing,
            _ => Loss::Percent(self.random.within(5, 95)),
        }
    }

    // Faults.

    pub(super) fn strike(&mut self) {
        if self.faults == 0 || self.is_repetition {
            if self.calm_since.is_none() {
                self.calm();
            }
            return;
        }
        self.faults -= 1;
        self.report.faults += 1;
        self.soon(self.plan.fault_every, Event::Fault);
        let fault = self.random.pick(&self.plan.faults.clone());
        self.note(|| format!("*** {fault:?}"));
        let alive: Vec<usize> = (0..self.streams.len()).filter(|&at| self.streams[at].sender_alive).collect();
        let conn = self.sender.as_ref().and_then(|sender| sender.conn).filter(|&conn| !self.conns[conn].lost);
        let outage = self.random.around(Duration::from_millis(300));
        match fault {
            Fault::StreamReset if !alive.is_empty() => {
                let at = self.random.pick(&alive);
                self.cut_stream(at);
                self.soon(self.plan.latency * 2, Event::StreamLost(at));
            }
            Fault::StreamStall if !alive.is_empty() => {
                let at = self.random.pick(&alive);
                let time = self.random.around(Duration::from_secs(3));
                self.streams[at].stalled_until = self.now + time;
                if time > self.plan.stall_cut {
                    let cut = self.plan.stall_cut;
                    self.after(cut, Event::StreamLost(at));
                }
            }
            Fault::LinkLoss => {
                if let Some(conn) = conn {
                    self.lose_link(conn, outage);
                }
            }
            Fault::ReceiverKill | Fault::PowerCut | Fault::Rot => {
                self.kill_receiver(outage);
                if fault == Fault::PowerCut {
                    let loss = self.any_loss();
                    self.disk.power_cut(loss, &mut self.random);
                    self.check_names();
                }
                if fault == Fault::Rot {
                    self.acked.clear();
                    self.disk.rot(&mut self.random);
                }
            }
            Fault::SenderKill if self.sender.is_some() => self.end_run(),
            Fault::SourceChange => {
                for _ in 0..self.random.within(1, 3) {
                    self.source.change(&mut self.random, self.now, &self.plan.terms);
                }
            }
            Fault::DamagedFrame => self.damage_frame = true,
            Fault::DamagedWrite => self.damage_write = true,
            Fault::DiskFull => {
                self.disk.full = true;
                self.after(outage * 3, Event::DiskFreed);
            }
            Fault::SyncError => self.disk.fail_sync = true,
            Fault::Stranger => self.stranger_writes(),
            _ => {}
        }
    }

    /// Somebody puts a file where one stands at the destination: what was there before, or content of their own.
    pub(super) fn stranger_writes(&mut self) {
        let is_ours = |path: &RelativePath| self.ours.contains(path);
        let paths: Vec<RelativePath> = self.before.keys().filter(|path| !is_ours(path)).cloned().collect();
        if paths.is_empty() || self.disk.full {
            return;
        }
        let path = paths[self.random.below(paths.len() as u64) as usize].clone();
        let is_same = self.random.percent(50);
        let bytes = if is_same { self.before[&path].clone() } else { STRANGE.to_vec() };
        let inode = self.disk.create(Name::Final(path), bytes.len());
        self.disk.write(inode, 0, &bytes);
        // A sync of theirs does not fail in place of ours.
        let fails = std::mem::take(&mut self.disk.fail_sync);
        let mark = self.disk.mark();
        self.disk.sync(mark, [inode].into_iter(), &mut self.random);
        self.disk.fail_sync = fails;
    }

    pub(super) fn kill_receiver(&mut self, outage: Duration) {
        let Some(receiver) = self.receiver.take() else { return };
        for stream in self.streams.iter_mut().filter(|stream| stream.instance == receiver.instance) {
            stream.receiver_alive = false;
        }
        self.down_until = self.now + outage;
        for conn in 0..self.conns.len() {
            self.lose_link(conn, outage);
        }
    }
}

/// Flips a bit of content; false if there is none.
pub(super) fn flip(frame: &mut Frame, random: &mut Random) -> bool {
    let bytes = match frame {
        Frame::Segment { bytes, .. } => bytes,
        Frame::Pack(items) => {
            let at = random.below(items.len() as u64) as usize;
            &mut items[at].1
        }
        Frame::Compare { .. } => return false,
    };
    let at = random.below(bytes.len() as u64) as usize;
    match bytes.get_mut(at) {
        Some(byte) => {
            *byte ^= 1 << random.below(8);
            true
        }
        None => false,
    }
}
