//! One direction of the path, done: takes packets from the kernel's queue, asks the [`Wire`] what becomes of them,
//! and gives each its verdict when its time has come. The kernel holds the packets meanwhile; only their headers
//! come here.
//!
//! Two queues. Super-packets come to `whole` as they are. If their segments have different fates, the verdict sends
//! them on to `parts` at once, marked with the number of the plan; on the way there the kernel cuts them, and each
//! segment comes with that mark and, since a second copy of it may have to be made, with all of its bytes.

use super::netlink::{Messages, Queue, Queued, Socket, Verdict, read};
use super::wire::{Fate, Nanos, Packet, Passage, Path, Segment, Wire};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto};
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use thalweg_mover::mutex::lock;

/// IP header with options, TCP header with options: 60 each at most.
const HEAD_BYTES: u32 = 120;

/// Packets that a queue holds at most: 100 ms of the smallest at 1 Gbit/s are 150,000.
const PACKETS_MAX: u32 = 1 << 20;

/// What may wait to be received: about 100,000 packets' headers. What does not fit is lost, and counted by the
/// kernel.
const RECEIVE_BUFFER_BYTES: usize = 128 << 20;

/// Waking from a sleep takes some time, in virtual machines up to tenths of a millisecond. It is measured, and packets
/// are let go so much earlier; never by more than this.
const LATENESS_NS_MAX: Nanos = 200_000;

/// The weight of one waking in the mean lateness: 1/16.
const LATENESS_SHIFT: u32 = 4;

/// A processor that sleeps longer than this goes to sleep more deeply, and takes longer to wake: it is woken so much
/// before it is time, and sleeps the rest lightly.
const DEEP_SLEEP_NS: Nanos = 2_000_000;
const WOKEN_BEFORE_NS: Nanos = 400_000;

/// While packets keep coming they are not looked at one by one: each waking costs more than a packet. When they came is
/// told by their stamps; they need only be seen some time before they leave: within half the delay, and so long.
const LOOK_AWAY_NS_MAX: Nanos = 500_000;

/// Packets that follow each other closer than this leave together, when the first does: up to so much too early, never
/// more than 1/200 of the delay.
const TOGETHER_NS_MAX: Nanos = 50_000;

/// A stamp older than this is not believed: the clock of the day was set.
const STAMP_AGE_NS_MAX: Nanos = 20_000_000;

/// Two clocks read further apart than this are read again,
const CLOCKS_APART_NS_MAX: Nanos = 5_000;

/// so many times at most.
const CLOCK_READS_MAX: usize = 3;

/// Packets taken in before it is looked again whose time has come.
const BATCH_PACKETS: usize = 64;

/// Plans of split super-packets that are remembered. Their segments come at once; what is older was lost on the way.
const PLANS_MAX: usize = 1024;

/// Dropped packets leave the kernel's queue in their turn, which costs it no search; beyond so many, at once.
const DROPPED_HELD_MAX: usize = 4096;

/// What others may see and change while a direction runs.
#[derive(Debug)]
pub struct Shared {
    wire: Mutex<Wire>,
    /// The wire's time counts from here.
    begun: Instant,
    own_ns: AtomicU64,
    /// Packets in the kernel's queues.
    pub held: AtomicU64,
    /// The most of them at a time.
    pub held_max: AtomicU64,
    /// Answers of the kernel that say no, and packets that it had no room to tell of.
    pub errors: AtomicU64,
}

impl Shared {
    /// Of an idle wire.
    pub fn new(wire: Wire) -> Shared {
        let zero = || AtomicU64::new(0);
        Shared {
            wire: Mutex::new(wire),
            begun: Instant::now(),
            own_ns: zero(),
            held: zero(),
            held_max: zero(),
            errors: zero(),
        }
    }

    /// Has the wire do something else from now on.
    pub fn set_path(&self, path: Path) {
        // The lock first: the wire's time does not go back.
        let mut wire = self.wire();
        wire.set(self.now(), path);
    }

    fn now(&self) -> Nanos {
        self.begun.elapsed().as_nanos() as Nanos
    }

    /// What a packet takes in this direction without any delay of the wire's: it is taken off, as if packets had come
    /// so much earlier.
    pub fn own_ns(&self) -> Nanos {
        self.own_ns.load(Ordering::Relaxed)
    }

    /// See [`Self::own_ns`].
    pub fn set_own_ns(&self, nanos: Nanos) {
        self.own_ns.store(nanos, Ordering::Relaxed);
    }

    /// The wire; hold it shortly, packets wait.
    pub fn wire(&self) -> MutexGuard<'_, Wire> {
        lock(&self.wire)
    }
}

/// See the module.
pub struct Direction {
    parts: u16,
    mtu_bytes: u32,
    shared: Arc<Shared>,
    socket: Socket,
    /// Where second copies go. Has the kernel stamp packets, too.
    copies: OwnedFd,
    /// Mean time from when a sleep should have ended to when it did.
    lateness_ns: Nanos,
    /// The last moment told to the wire, whose time never goes back.
    told_ns: Nanos,
    waiting: Waiting,
    verdicts: Messages,
}

/// The two queues of a direction.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    /// Of super-packets.
    pub whole: u16,
    /// Of segments.
    pub parts: u16,
}

/// Which packets wait, for what, and in which order they leave. No I/O.
#[derive(Default)]
struct Waiting {
    held: BinaryHeap<Held>,
    dropped_held: usize,
    /// Packets that the wire was asked about.
    offers: u64,
    /// Packets that are, or were, held.
    arrivals: u64,
    plans: VecDeque<Plan>,
    plan_number: u32,
}

struct Held {
    at: Nanos,
    /// Of packets that leave at one moment the one that the wire was asked about first goes first: jitter that keeps
    /// order has many leave together, and who takes the way through `parts` comes back behind later ones.
    offer: u64,
    /// Segments of one packet keep their order.
    arrival: u64,
    queue: u16,
    id: u32,
    end: End,
}

enum End {
    Accept,
    Drop,
    /// Accept, and send these bytes as well.
    Twice(Vec<u8>),
}

struct Plan {
    number: u32,
    offer: u64,
    segments: VecDeque<Segment>,
}

impl Direction {
    /// Takes over the queues, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// As [`Socket::take_queue`], with the operation named.
    pub fn open(numbers: Numbers, mtu_bytes: u32, shared: Arc<Shared>) -> io::Result<Direction> {
        let socket = Socket::open().map_err(|error| during("open a netfilter socket", &error))?;
        socket
            .set_receive_buffer(RECEIVE_BUFFER_BYTES)
            .map_err(|error| during("set the size of a netfilter socket's buffer", &error))?;
        let queue = Queue {
            number: numbers.whole,
            head_bytes: HEAD_BYTES,
            packets_max: PACKETS_MAX,
            keeps_super_packets: true,
        };
        let parts = Queue { number: numbers.parts, head_bytes: 0xffff, keeps_super_packets: false, ..queue };
        for queue in [queue, parts] {
            socket.take_queue(&queue).map_err(|error| {
                during("take a packet queue (the kernel needs CONFIG_NETFILTER_NETLINK_QUEUE)", &error)
            })?;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let copies =
            rustix::net::socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::RAW))
                .map_err(|error| during("open a raw socket", &error.into()))?;
        thalweg_sys::socket::set_time_stamps(&copies)
            .map_err(|error| during("ask for time stamps", &error))?;
        Ok(Direction {
            parts: numbers.parts,
            mtu_bytes,
            shared,
            socket,
            copies,
            lateness_ns: 0,
            told_ns: 0,
            waiting: Waiting::default(),
            verdicts: Messages::default(),
        })
    }

    /// Carries packets until the process ends.
    ///
    /// # Errors
    /// If the queue cannot be read any more.
    pub fn carry(mut self) -> io::Result<()> {
        // The kernel may otherwise wake us 50 us late, to save wake-ups.
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
        let mut buffer = vec![0; 128 << 10];
        loop {
            let before = self.waiting.arrivals;
            let is_drained = self.take_in(&mut buffer)?;
            self.let_go();
            self.send_verdicts();
            if is_drained {
                self.sleep(self.waiting.arrivals != before)?;
            }
        }
    }

    /// Returns whether nothing more is there.
    fn take_in(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        for _ in 0..BATCH_PACKETS {
            match self.socket.receive(buffer) {
                Ok(length) => {
                    let clocks = together(|| self.now(), since_1970);
                    let mut packets = Vec::new();
                    let errors = read(&buffer[..length], |queued| packets.push(queued));
                    self.shared.errors.fetch_add(errors as u64, Ordering::Relaxed);
                    for queued in &packets {
                        let came =
                            clocks.0.saturating_sub(age(queued.came_us, clocks.1) + self.shared.own_ns());
                        self.told_ns = self.told_ns.max(came);
                        self.take(self.told_ns, queued);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                    self.shared.errors.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn take(&mut self, now: Nanos, queued: &Queued<'_>) {
        let offer = || self.shared.wire().offer(now, shape(queued.head, queued.bytes, self.mtu_bytes));
        if let Some(verdict) = self.waiting.take(queued, self.parts, offer) {
            self.verdicts.verdict(queued.queue, queued.id, verdict);
        }
        let held = self.waiting.held.len() as u64;
        self.shared.held.store(held, Ordering::Relaxed);
        self.shared.held_max.fetch_max(held, Ordering::Relaxed);
    }

    /// Verdicts for all whose time has come.
    fn let_go(&mut self) {
        let delay_ns = self.shared.wire().path().delay_ns;
        let due = self.now() + self.lateness_ns + (delay_ns / 200).min(TOGETHER_NS_MAX);
        while self.waiting.held.peek().is_some_and(|held| held.at <= due) {
            let Some(held) = self.waiting.held.pop() else { break };
            let verdict = match held.end {
                End::Accept => Verdict::Accept,
                End::Drop => {
                    self.waiting.dropped_held -= 1;
                    Verdict::Drop
                }
                End::Twice(packet) => {
                    // The first copy is to be the first.
                    self.verdicts.verdict(held.queue, held.id, Verdict::Accept);
                    self.send_verdicts();
                    self.send_copy(&packet);
                    continue;
                }
            };
            self.verdicts.verdict(held.queue, held.id, verdict);
            if self.verdicts.len() > 16 << 10 {
                self.send_verdicts();
            }
        }
        self.shared.held.store(self.waiting.held.len() as u64, Ordering::Relaxed);
    }

    fn send_verdicts(&mut self) {
        if self.verdicts.is_empty() {
            return;
        }
        if self.socket.send(&self.verdicts).is_err() {
            self.shared.errors.fetch_add(1, Ordering::Relaxed);
        }
        self.verdicts.clear();
    }

    fn send_copy(&self, packet: &[u8]) {
        let Some(to) = packet.get(16..20).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()) else { return };
        let to = SocketAddrV4::new(Ipv4Addr::from(to), 0);
        if rustix::net::sendto(&self.copies, packet, SendFlags::empty(), &to).is_err() {
            self.shared.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Until the next packet is due; or until one comes, unless they come anyway.
    fn sleep(&mut self, are_coming: bool) -> io::Result<()> {
        let begun = self.now();
        let next = self.waiting.held.peek();
        let due = next.map(|held| held.at.saturating_sub(begun + self.lateness_ns));
        let look_away = (self.shared.wire().path().delay_ns / 2).min(LOOK_AWAY_NS_MAX);
        let is_away = are_coming && look_away == LOOK_AWAY_NS_MAX;
        let left = if is_away { Some(due.map_or(look_away, |due| due.min(look_away))) } else { due };
        let is_deep = left.is_some_and(|left| left > DEEP_SLEEP_NS);
        let left = if is_deep { left.map(|left| left - WOKEN_BEFORE_NS) } else { left };
        let timeout = left.map(|left| Timespec {
            tv_sec: (left / 1_000_000_000) as i64,
            tv_nsec: (left % 1_000_000_000) as i64,
        });
        let mut wanted = [PollFd::new(&self.socket, PollFlags::IN)];
        let watched = if is_away { &mut wanted[..0] } else { &mut wanted[..] };
        match poll(watched, timeout.as_ref()) {
            Ok(0) if is_deep => Ok(()),
            Ok(0) => {
                let late = self.now().saturating_sub(begun + left.unwrap_or(0)).min(LATENESS_NS_MAX);
                self.lateness_ns =
                    self.lateness_ns - (self.lateness_ns >> LATENESS_SHIFT) + (late >> LATENESS_SHIFT);
                Ok(())
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn now(&self) -> Nanos {
        self.shared.now()
    }
}

impl Waiting {
    /// A packet came; `parts` is the queue of segments, and `offer` asks the wire. The verdict that it gets at once, if
    /// any.
    fn take(&mut self, queued: &Queued<'_>, parts: u16, offer: impl FnOnce() -> Passage) -> Option<Verdict> {
        if queued.queue == parts
            && let Some((offer, segment)) = self.planned(queued.mark)
        {
            return self.hold(queued, offer, segment);
        }
        let passage = offer();
        self.offers += 1;
        match passage {
            Passage::Whole(at) => self.hold(queued, self.offers, Segment { at, fate: Fate::Pass }),
            Passage::Dropped(at) => self.hold(queued, self.offers, Segment { at, fate: Fate::Drop }),
            Passage::Split(segments) => Some(self.split(parts, segments.into())),
        }
    }

    fn split(&mut self, parts: u16, segments: VecDeque<Segment>) -> Verdict {
        if self.plans.len() == PLANS_MAX {
            self.plans.pop_front();
        }
        // 0 is no mark.
        self.plan_number = self.plan_number.wrapping_add(1).max(1);
        self.plans.push_back(Plan { number: self.plan_number, offer: self.offers, segments });
        Verdict::Requeue { queue: parts, mark: self.plan_number }
    }

    /// The fate of the next segment of a plan, and which offer it was of.
    fn planned(&mut self, mark: u32) -> Option<(u64, Segment)> {
        let at = self.plans.iter().rposition(|plan| plan.number == mark)?;
        let plan = &mut self.plans[at];
        // More segments than were counted share the last one's time.
        let segment = match plan.segments.len() {
            1 => plan.segments[0],
            _ => plan.segments.pop_front()?,
        };
        Some((plan.offer, segment))
    }

    fn hold(&mut self, queued: &Queued<'_>, offer: u64, segment: Segment) -> Option<Verdict> {
        let end = match segment.fate {
            Fate::Pass => End::Accept,
            Fate::Twice => End::Twice(queued.head.to_vec()),
            Fate::Drop if self.dropped_held >= DROPPED_HELD_MAX => return Some(Verdict::Drop),
            Fate::Drop => {
                self.dropped_held += 1;
                End::Drop
            }
        };
        self.arrivals += 1;
        let (at, arrival) = (segment.at, self.arrivals);
        self.held.push(Held { at, offer, arrival, queue: queued.queue, id: queued.id, end });
        None
    }
}

/// What both clocks say at one moment, the first one's first. A core that was taken away between them makes the second
/// say too little, never too much: what it stamped seems younger than it is, and no packet leaves too early.
fn together(first: impl Fn() -> Nanos, second: impl Fn() -> Nanos) -> (Nanos, Nanos) {
    let mut before = first();
    for _ in 0..CLOCK_READS_MAX {
        let (there, after) = (second(), first());
        if after - before <= CLOCKS_APART_NS_MAX {
            return (after, there);
        }
        before = after;
    }
    let there = second();
    (first(), there)
}

/// The clock of the day, in nanoseconds.
fn since_1970() -> Nanos {
    thalweg_sys::clock::since_1970().as_nanos() as Nanos
}

/// How long ago a stamp was, in nanoseconds; 0 if it is not to be believed.
fn age(came_us: Option<u64>, now_since_1970: Nanos) -> Nanos {
    let age = came_us.and_then(|came_us| now_since_1970.checked_sub(came_us.saturating_mul(1000)));
    age.filter(|age| *age <= STAMP_AGE_NS_MAX).unwrap_or(0)
}

fn during(operation: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{operation}: {error}"))
}

/// How the kernel, or a network card, would cut a packet of so many bytes that begins like this.
///
/// The size of segments is not told; it is taken to be what fills the MTU. TCP does that; who sends UDP super-packets
/// (`UDP_SEGMENT`) of smaller pieces has them counted as fewer.
fn shape(head: &[u8], bytes: u32, mtu_bytes: u32) -> Packet {
    if bytes <= mtu_bytes {
        return Packet::single(bytes);
    }
    let ip_bytes = head.first().map_or(20, |byte| u32::from(byte & 0xf) * 4);
    let transport_bytes = match head.get(9) {
        Some(6) => head.get(ip_bytes as usize + 12).map_or(20, |byte| u32::from(byte >> 4) * 4),
        _ => 8,
    };
    let header_bytes = ip_bytes + transport_bytes;
    let payload_bytes = bytes.saturating_sub(header_bytes);
    Packet { header_bytes, payload_bytes, segment_bytes: mtu_bytes.saturating_sub(header_bytes).max(1) }
}

impl Ord for Held {
    /// The one that leaves first is the greatest; of equals the one that came first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.offer, other.arrival).cmp(&(self.at, self.offer, self.arrival))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Held {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn a_tcp_super_packet_is_cut_behind_its_options() {
        let mut head = vec![0; 52];
        head[0] = 0x45;
        head[9] = 6;
        head[32] = 8 << 4;
        let packet = shape(&head, 52 + 14_480, 1500);
        assert_eq!(packet, Packet { header_bytes: 52, payload_bytes: 14_480, segment_bytes: 1448 });
        assert_eq!(packet.segments(), 10);
        assert_eq!(shape(&head, 1500, 1500), Packet::single(1500));
    }

    #[test]
    fn a_stamp_is_believed_unless_the_clock_was_set() {
        assert_eq!(age(Some(1_000_000), 1_000_300_000), 300_000);
        assert_eq!(age(None, 1_000_300_000), 0);
        assert_eq!(age(Some(1_000_001), 1_000_000_000), 0, "from the future");
        assert_eq!(age(Some(1), 1_000_000_000), 0, "too old");
    }

    /// Two clocks that show the same, read by a thread that is held up for so long after each reading.
    fn two_clocks(held_up: &[Nanos]) -> (Nanos, Nanos) {
        let (time, waits) = (Cell::new(1_000), RefCell::new(held_up.iter()));
        let read = || {
            let now = time.get();
            time.set(now + waits.borrow_mut().next().copied().unwrap_or(100));
            now
        };
        together(read, read)
    }

    #[test]
    fn a_core_taken_away_between_two_clocks_makes_no_packet_older() {
        assert_eq!(two_clocks(&[]), (1_200, 1_100));
        for held_up in [[2_000_000, 100], [100, 2_000_000]] {
            let (first, second) = two_clocks(&held_up);
            assert_eq!(first - second, 100, "read again: {held_up:?}");
        }
        let (first, second) = two_clocks(&[2_000_000; 100]);
        assert_eq!(first - second, 2_000_000, "always held up: the first may be ahead, never behind");
    }

    #[test]
    fn what_leaves_first_is_let_go_first_and_equals_keep_their_order() {
        let held = |at, arrival| Held { at, offer: 0, arrival, queue: 0, id: 0, end: End::Accept };
        let mut heap = BinaryHeap::from([held(5, 3), held(1, 4), held(5, 2)]);
        let order: Vec<u64> = std::iter::from_fn(|| heap.pop()).map(|held| held.arrival).collect();
        assert_eq!(order, [4, 2, 3]);
    }

    /// Segments in the order in which they leave: those of a thousand packets that come 200 us apart, numbered by
    /// packet and place in it. What is sent on to the second queue comes back when two more packets have come.
    fn departures(path: Path, packet: Packet) -> Vec<u32> {
        const PARTS: u16 = 1;
        let came = |queue, mark, id| Queued { queue, id, mark, came_us: None, bytes: 100, head: &[] };
        let (mut waiting, mut wire) = (Waiting::default(), Wire::new(path, 1));
        let mut sent_on = VecDeque::new();
        let come_back = |waiting: &mut Waiting, (first, mark): (u32, u32)| {
            for segment in 0..packet.segments() {
                let segment = came(PARTS, mark, first + segment);
                assert_eq!(waiting.take(&segment, PARTS, || panic!("it has no plan")), None);
            }
        };
        for number in 0..1000u32 {
            let first = number * 100;
            let now = Nanos::from(number) * 200_000;
            let verdict = waiting.take(&came(0, 0, first), PARTS, || wire.offer(now, packet));
            match verdict {
                Some(Verdict::Requeue { queue: PARTS, mark }) => sent_on.push_back((first, mark)),
                verdict => assert_eq!(verdict, None),
            }
            while sent_on.front().is_some_and(|(sent, _)| sent + 200 <= first) {
                come_back(&mut waiting, sent_on.pop_front().unwrap());
            }
        }
        while let Some(last) = sent_on.pop_front() {
            come_back(&mut waiting, last);
        }
        std::iter::from_fn(|| waiting.held.pop()).map(|held| held.id).collect()
    }

    #[test]
    fn with_jitter_no_packet_passes_one_that_is_doubled_or_cut() {
        let path = Path { delay_ns: 10_000_000, jitter_ns: 1_000_000, ..Path::default() };
        let packet = Packet { header_bytes: 52, payload_bytes: 14_480, segment_bytes: 1448 };
        for (path, packet) in [
            (Path { duplicate: 0.05, ..path.clone() }, Packet::single(100)),
            (Path { loss: 0.01, ..path.clone() }, packet),
        ] {
            let order = departures(path, packet);
            assert!(order.len() >= 1000, "{}", order.len());
            assert_eq!(order.windows(2).find(|two| two[0] > two[1]), None);
        }
        let late = Path { reorder: 0.05, late_by_ns: 1_000_000, ..path };
        assert!(!departures(late, Packet::single(100)).is_sorted(), "late ones are passed");
    }
}
