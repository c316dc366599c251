//! The path between the two: connections, streams, frames on them, and what each side hears.

use super::faults::flip;
use super::*;

impl World {
    pub(super) fn connect(&mut self, run: u64) {
        if self.sender.as_ref().is_none_or(|sender| sender.run != run) {
            return;
        }
        if self.sender.as_ref().is_some_and(|sender| sender.conn.is_some()) {
            return;
        }
        let retry = self.plan.latency * 20 + Duration::from_millis(50);
        if let Some(last) = self.conns.last_mut() {
            if !last.lost && self.now < last.born + retry {
                return;
            }
            last.lost = true;
        }
        // Until it stands, it is tried again.
        self.after(retry, Event::Connect { run });
        if self.now < self.down_until {
            return;
        }
        if self.receiver.is_none() {
            self.instances += 1;
            let instance = self.instances;
            self.note(|| format!("receiver {instance} starts"));
            let destination = Destination::open(&mut self.disk, &self.plan.terms, &mut self.random);
            self.receiver = Some(ReceiverSide {
                instance,
                machine: {
                    let mut machine = Receiver::new(self.plan.terms.clone(), self.plan.receiver.clone());
                    machine.keep_pieces();
                    machine
                },
                destination,
                conn: None,
                decides: VecDeque::new(),
                deciding: false,
                round: None,
                finishes: VecDeque::new(),
                entries: BTreeMap::new(),
                partials: BTreeMap::new(),
                staged: BTreeMap::new(),
                tick_at: None,
                pump_at: None,
            });
        }
        let conn = self.conns.len();
        self.conns.push(Conn { born: self.now, ..Conn::default() });
        self.soon(self.plan.latency, Event::ReceiverLinked(conn));
        self.soon(self.plan.latency, Event::SenderLinked(conn));
    }

    pub(super) fn receiver_linked(&mut self, conn: usize) {
        let Some(receiver) = &mut self.receiver else { return };
        if self.conns[conn].lost || receiver.conn.is_some_and(|old| old > conn) {
            return;
        }
        receiver.machine.link_up();
        receiver.conn = Some(conn);
    }

    pub(super) fn sender_linked(&mut self, conn: usize) {
        let streams = self.plan.streams;
        let Some(sender) = &mut self.sender else { return };
        if self.conns[conn].lost || sender.conn.is_some() {
            return;
        }
        let run = sender.run;
        sender.machine.link_up();
        sender.conn = Some(conn);
        if !std::mem::replace(&mut sender.linked, true) {
            self.after(Duration::from_micros(1), Event::Scan { run });
        }
        for number in 0..streams {
            self.soon(self.plan.latency, Event::StreamUp { conn, number });
        }
    }

    pub(super) fn stream_up(&mut self, conn: usize, number: u16) {
        let (Some(sender), Some(receiver)) = (&mut self.sender, &self.receiver) else { return };
        if sender.conn != Some(conn) || self.conns[conn].lost {
            return;
        }
        sender.machine.stream_up(number);
        self.streams.push(Stream {
            number,
            conn,
            instance: receiver.instance,
            sender_alive: true,
            receiver_alive: true,
            worker: Worker::Idle,
            blocked: None,
            network: VecDeque::new(),
            arrived: VecDeque::new(),
            writing: None,
            assembly: None,
            last_arrival: Duration::ZERO,
            stalled_until: Duration::ZERO,
            wake_at: None,
            cut: false,
        });
    }

    // The link.

    pub(super) fn send_to_receiver(&mut self, say: Say) {
        let Some(conn) = self.sender.as_ref().and_then(|sender| sender.conn) else { return };
        if self.conns[conn].lost {
            return;
        }
        let say = self.over_the_wire(say);
        let delay = self.plan.latency + self.random.around(self.plan.jitter);
        let link = &mut self.conns[conn];
        link.last_to_receiver = link.last_to_receiver.max(self.now + delay);
        let time = link.last_to_receiver;
        link.to_receiver.push_back(say);
        self.at(time, Event::ToReceiver(conn));
    }

    pub(super) fn send_to_sender(&mut self, say: Say) {
        let Some(conn) = self.receiver.as_ref().and_then(|receiver| receiver.conn) else { return };
        if self.conns[conn].lost {
            return;
        }
        let say = self.over_the_wire(say);
        let delay = self.plan.latency + self.random.around(self.plan.jitter);
        let link = &mut self.conns[conn];
        link.last_to_sender = link.last_to_sender.max(self.now + delay);
        let time = link.last_to_sender;
        link.to_sender.push_back(say);
        self.at(time, Event::ToSender(conn));
    }

    pub(super) fn over_the_wire(&self, say: Say) -> Say {
        let message = Message::Transfer(TransferNumber(1), say);
        let there =
            message.encode().and_then(|bytes| Message::decode(&bytes[thalweg_wire::message::LENGTH_BYTES..]));
        match there {
            Ok(Message::Transfer(_, say)) => say,
            other => self.violation(format!("a message does not pass the wire: {other:?}")),
        }
    }

    pub(super) fn receiver_hears(&mut self, conn: usize) {
        let Some(receiver) = &mut self.receiver else { return };
        if receiver.conn != Some(conn) {
            // It has not come up yet, or never will.
            if receiver.conn.is_none_or(|old| old < conn) && !self.conns[conn].lost {
                self.after(Duration::from_millis(1), Event::ToReceiver(conn));
            }
            return;
        }
        let Some(say) = self.conns[conn].to_receiver.pop_front() else { return };
        let text = self.log.then(|| format!("-> {say:?}"));
        self.note(|| text.unwrap_or_default());
        let Some(receiver) = &mut self.receiver else { return };
        if let Err(failure) = receiver.machine.hear(say, self.now) {
            self.violation(format!("the receiver cannot follow: {failure}"));
        }
    }

    pub(super) fn sender_hears(&mut self, conn: usize) {
        let Some(sender) = &mut self.sender else { return };
        if sender.conn != Some(conn) {
            if sender.conn.is_none() && !self.conns[conn].lost {
                self.after(Duration::from_millis(1), Event::ToSender(conn));
            }
            return;
        }
        let Some(say) = self.conns[conn].to_sender.pop_front() else { return };
        let text = self.log.then(|| format!("<- {say:?}"));
        self.note(|| text.unwrap_or_default());
        let Some(sender) = &mut self.sender else { return };
        if let Err(failure) = sender.machine.hear(say) {
            self.violation(format!("the sender cannot follow: {failure}"));
        }
    }

    /// Everything between the movers breaks; what was under way may arrive in part.
    pub(super) fn lose_link(&mut self, conn: usize, outage: Duration) {
        if std::mem::replace(&mut self.conns[conn].lost, true) {
            return;
        }
        let link = &mut self.conns[conn];
        let keep = self.random.below(link.to_receiver.len() as u64 + 1) as usize;
        link.to_receiver.truncate(keep);
        let keep = self.random.below(link.to_sender.len() as u64 + 1) as usize;
        link.to_sender.truncate(keep);
        for at in 0..self.streams.len() {
            if self.streams[at].conn == conn {
                self.cut_stream(at);
            }
        }
        self.down_until = self.down_until.max(self.now + outage);
        self.soon(self.plan.latency * 4, Event::SenderNotices(conn));
        self.soon(self.plan.latency * 4, Event::ReceiverNotices(conn));
    }

    pub(super) fn sender_notices(&mut self, conn: usize) {
        let tells = self.random.percent(70);
        let Some(sender) = self.sender.as_mut().filter(|sender| sender.conn == Some(conn)) else { return };
        sender.conn = None;
        let run = sender.run;
        for stream in self.streams.iter_mut().filter(|stream| stream.conn == conn && stream.sender_alive) {
            stream.sender_alive = false;
            if let Worker::ChunkOut { entry, chunk, .. } = &stream.worker {
                self.untold.insert((entry.id, *chunk));
            }
            if tells {
                sender.machine.stream_lost(stream.number);
            }
        }
        self.conns[conn].lost = true;
        self.at(self.down_until.max(self.now), Event::Connect { run });
    }

    pub(super) fn receiver_notices(&mut self, conn: usize) {
        if let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.conn == Some(conn)) {
            receiver.conn = None;
        }
    }

    /// A stream carries nothing new; what is in it is lost, or comes very late.
    pub(super) fn cut_stream(&mut self, at: usize) {
        let late = self.random.percent(30);
        let delay = self.random.up_to_micros(3_000_000);
        self.soon(self.plan.latency, Event::TakeFrame(at));
        let stream = &mut self.streams[at];
        stream.cut = true;
        if late {
            stream.stalled_until = stream.stalled_until.max(self.now + delay);
        } else {
            stream.receiver_alive = false;
            stream.network.clear();
            stream.arrived.clear();
        }
    }

    pub(super) fn stream_lost(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        let (conn, number) = (stream.conn, stream.number);
        let is_linked = self.sender.as_ref().is_some_and(|sender| sender.conn == Some(conn));
        if !is_linked || !std::mem::take(&mut stream.sender_alive) {
            return;
        }
        if let Worker::ChunkOut { entry, chunk, .. } = &stream.worker {
            self.untold.insert((entry.id, *chunk));
        }
        stream.cut = true;
        self.after(Duration::from_micros(1), Event::TakeFrame(at));
        let Some(sender) = &mut self.sender else { return };
        sender.machine.stream_lost(number);
        self.soon(self.plan.latency * 3, Event::StreamUp { conn, number });
    }

    pub(super) fn push(&mut self, at: usize, mut frame: Frame) {
        if self.damage_frame {
            self.damage_frame = !flip(&mut frame, &mut self.random);
        }
        let stream = &mut self.streams[at];
        if stream.network.len() + stream.arrived.len() >= self.plan.window_frames {
            stream.blocked = Some(frame);
            return;
        }
        let kib = 1 + frame_bytes(&frame) / 1024;
        let start = stream.last_arrival.saturating_sub(self.plan.latency).max(self.now);
        let arrival = start + self.plan.latency + self.plan.kib_time * kib as u32;
        let arrival = (arrival + self.random.up_to_micros(self.plan.jitter.as_micros() as u64))
            .max(stream.last_arrival);
        stream.last_arrival = arrival;
        stream.network.push_back(frame);
        self.at(arrival, Event::Deliver(at));
    }

    // Stream workers of the receiver.

    pub(super) fn deliver(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        if !stream.receiver_alive || stream.network.is_empty() {
            return;
        }
        if stream.stalled_until > self.now {
            let time = stream.stalled_until;
            self.at(time, Event::Deliver(at));
            return;
        }
        if let Some(frame) = stream.network.pop_front() {
            stream.arrived.push_back(frame);
        }
        self.take_frame(at);
    }
}

pub(super) fn frame_bytes(frame: &Frame) -> usize {
    match frame {
        Frame::Segment { bytes, .. } => bytes.len(),
        Frame::Pack(items) => items.iter().map(|(_, bytes, _)| bytes.len() + 48).sum(),
        Frame::Compare { .. } => 0,
    }
}
