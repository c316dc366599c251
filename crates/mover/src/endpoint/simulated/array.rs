//! An array of disks in numbers: seek time, rate, stripes, a queue. Pure: it knows no time but what it is told.
//!
//! Each device serves one request after the other. A request costs a seek unless it begins where the last one on that
//! device ended, and then its bytes at the device's rate. Of the few that came first, its queue, the controller takes
//! the next behind the head; with a queue of one they are served as they come. That is as much of a disk as 004 (Figs 3
//! and 4) and 002 (Table II) need to be seen: which requests come in which order, from how many threads.
//! Not here: caches, what is read ahead, tracks, parity. How far a head moves and the turn of the disk are in the one
//! time to seek.

use crate::endpoint::content::mixed;
use crate::order::Placed;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// What an array is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArraySpec {
    /// Time until a head is where a request begins, if it was elsewhere.
    pub seek: Duration,
    /// Bytes that one device moves in a second.
    pub bytes_per_s: u64,
    /// Devices, 1 to [`ArraySpec::DEVICES_MAX`].
    pub devices: u32,
    /// Bytes that lie together on one device.
    pub stripe_bytes: u64,
    /// Stripes lie anywhere, as `seed` has it, instead of one after the other: a file in pieces.
    pub is_scattered: bool,
    /// Requests of one device of which the controller chooses the next, 1 to [`ArraySpec::QUEUE_MAX`]. With 1 they are
    /// served as they come.
    pub queue: u32,
    /// Bytes that the host of the threads handles in a second, for all of them together, at least 1: see
    /// [`Host`](super::Host). `None`: no thread is ever late.
    pub host_bytes_per_s: Option<u64>,
    /// What it says of its layout is the device of each stripe only, and not the place on it.
    pub hides_places: bool,
    /// Bytes of the one file that lies there.
    pub bytes: u64,
    /// What its content, the places of scattered stripes, and how late threads are, come from.
    pub seed: u64,
}

impl Default for ArraySpec {
    /// One disk of an array of 004 (section III-A: 64 KiB stripes, 7200 turns a minute), with a file of 1 GiB.
    fn default() -> Self {
        ArraySpec {
            seek: Duration::from_millis(8),
            bytes_per_s: 60_000_000,
            devices: 1,
            stripe_bytes: 64 << 10,
            is_scattered: false,
            queue: 1,
            host_bytes_per_s: None,
            hides_places: false,
            bytes: 1 << 30,
            seed: 0,
        }
    }
}

impl ArraySpec {
    /// Most devices of one array.
    pub const DEVICES_MAX: u32 = 1024;
    /// Most stripes of one array: their places are kept, 8 bytes each.
    pub const STRIPES_MAX: u64 = 1 << 20;
    /// Longest queue of one device.
    pub const QUEUE_MAX: u32 = 256;

    /// A file system of 004: three arrays of 7 + 1 disks, striped (sections III-A and III-B), which give hardly 1000
    /// MB/s (section IV-D). Of three numbers the paper has nothing. The seek is that of [`ArraySpec::default`] and half
    /// a turn. The host handles as much as its arrays give. With a queue of four, few threads read fast in any order,
    /// and 16 or more without one do not (section IV-B).
    pub fn eonstor() -> ArraySpec {
        ArraySpec {
            seek: Duration::from_millis(12),
            bytes_per_s: 48_000_000,
            devices: 21,
            stripe_bytes: 64 << 10,
            queue: 4,
            host_bytes_per_s: Some(1_000_000_000),
            ..ArraySpec::default()
        }
    }

    /// Whether all numbers are within their bounds; else which is not.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            _ if !(1..=Self::DEVICES_MAX).contains(&self.devices) => Err("devices: 1 to 1024"),
            _ if self.bytes_per_s == 0 => Err("rate: at least 1 byte a second"),
            _ if self.stripe_bytes == 0 => Err("stripe: at least 1 byte"),
            _ if !(1..=Self::QUEUE_MAX).contains(&self.queue) => Err("queue: 1 to 256"),
            _ if self.host_bytes_per_s == Some(0) => Err("host: at least 1 byte a second"),
            _ if self.seek > Duration::from_secs(60) => Err("seek: at most 60s"),
            _ if self.is_scattered && self.bytes.div_ceil(self.stripe_bytes) > Self::STRIPES_MAX => {
                Err("scattered: at most 1048576 stripes; use larger ones")
            }
            _ => Ok(()),
        }
    }
}

/// An array at work.
#[derive(Debug)]
pub struct Array {
    spec: ArraySpec,
    /// Where stripes lie, if they are scattered.
    places: Vec<u64>,
    devices: Vec<Device>,
    /// Requests whose end nobody has heard yet.
    open: HashMap<u64, Open>,
    requests: u64,
}

/// What is known of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// It ends then. It is known once, and then forgotten.
    Ends(Duration),
    /// Part of it waits: what comes meanwhile may be served before. Before this time nothing more is known.
    Open(Duration),
}

#[derive(Debug, Clone, Default)]
struct Device {
    /// Byte of the device behind the last request.
    at: u64,
    /// When it is through with what it has begun.
    free: Duration,
    /// What it has not begun, as it came. A request has one piece here; more if its stripes are scattered.
    waiting: VecDeque<Piece>,
    /// How often in a row another was served before the oldest.
    passed: u32,
}

/// What lies together on a device of one request.
#[derive(Debug, Clone)]
struct Piece {
    request: u64,
    came: Duration,
    address: u64,
    bytes: u64,
    /// To move them, without the seek.
    takes: Duration,
}

#[derive(Debug)]
struct Open {
    /// Pieces that no device has begun.
    waiting: usize,
    /// Of those that were begun.
    end: Duration,
}

impl Array {
    /// All heads at the beginning.
    ///
    /// # Errors
    /// As [`ArraySpec::check`].
    pub fn new(spec: ArraySpec) -> Result<Array, &'static str> {
        spec.check()?;
        let stripes = if spec.is_scattered { spec.bytes.div_ceil(spec.stripe_bytes) } else { 0 };
        let mut places: Vec<u64> = (0..stripes).collect();
        for last in (1..places.len()).rev() {
            places.swap(last, (mixed(spec.seed, last as u64) % (last as u64 + 1)) as usize);
        }
        let devices = vec![Device::default(); spec.devices as usize];
        Ok(Array { spec, places, devices, open: HashMap::new(), requests: 0 })
    }

    /// A request of `bytes` at `offset` comes at `now`, which never goes back; returns its number, for
    /// [`Array::look`].
    pub fn request(&mut self, now: Duration, offset: u64, bytes: u64) -> u64 {
        // What was begun before it came was chosen without it.
        self.begin(|start| start < now);
        let request = self.requests;
        self.requests += 1;
        let mut open = Open { waiting: 0, end: now };
        let mut at = offset;
        while at < offset.saturating_add(bytes) {
            let piece = (self.spec.stripe_bytes - at % self.spec.stripe_bytes).min(offset + bytes - at);
            let (device, address) = self.place(at);
            let takes = Duration::from_secs_f64(piece as f64 / self.spec.bytes_per_s as f64);
            let piece_of_it = Piece { request, came: now, address, bytes: piece, takes };
            open.waiting += usize::from(self.devices[device as usize].add(piece_of_it));
            at += piece;
        }
        self.open.insert(request, open);
        if self.spec.queue == 1 {
            // Nothing that comes later is served before.
            self.begin(|_| true);
        }
        request
    }

    /// When a request ends, if that is known `now`, or when to look again: later than now.
    pub fn look(&mut self, now: Duration, request: u64) -> Outlook {
        self.begin(|start| start <= now);
        match self.open.get(&request) {
            Some(open) if open.waiting > 0 => Outlook::Open(self.earliest(request)),
            Some(open) => {
                let end = open.end;
                self.open.remove(&request);
                Outlook::Ends(end)
            }
            None => Outlook::Ends(now),
        }
    }

    /// Has all devices begin what they begin at a time that `may` allows.
    fn begin(&mut self, may: impl Fn(Duration) -> bool) {
        for device in &mut self.devices {
            while let Some(start) = device.next_start().filter(|start| may(*start)) {
                let Some(piece) = device.choose(self.spec.queue, start) else { break };
                let seek = if device.at == piece.address { Duration::ZERO } else { self.spec.seek };
                device.free = start + seek + piece.takes;
                device.at = piece.address + piece.bytes;
                if let Some(open) = self.open.get_mut(&piece.request) {
                    open.waiting -= 1;
                    open.end = open.end.max(device.free);
                }
            }
        }
    }

    /// Before this time no device begins the last piece of the request.
    fn earliest(&self, request: u64) -> Duration {
        let queue = self.spec.queue as usize;
        self.devices.iter().filter_map(|device| device.earliest(request, queue)).max().unwrap_or_default()
    }

    /// Where each stripe of the file lies; with places that are hidden as if each device held them in the file's order.
    pub fn layout(&self) -> impl Iterator<Item = Placed> + '_ {
        (0..self.spec.bytes.div_ceil(self.spec.stripe_bytes)).map(|stripe| {
            let logical = stripe * self.spec.stripe_bytes;
            let (device, place) = self.place(logical);
            let physical = if self.spec.hides_places { logical } else { place };
            let length = self.spec.stripe_bytes.min(self.spec.bytes - logical);
            Placed { logical, length, device, physical }
        })
    }

    /// Device and byte on it.
    fn place(&self, offset: u64) -> (u32, u64) {
        let (stripe, within) = (offset / self.spec.stripe_bytes, offset % self.spec.stripe_bytes);
        let stripe = self.places.get(stripe as usize).copied().unwrap_or(stripe);
        let devices = u64::from(self.spec.devices);
        ((stripe % devices) as u32, stripe / devices * self.spec.stripe_bytes + within)
    }
}

impl Device {
    /// False if that goes on where the last piece of the same request ends.
    fn add(&mut self, piece: Piece) -> bool {
        match self.waiting.back_mut() {
            Some(last) if last.request == piece.request && last.address + last.bytes == piece.address => {
                last.bytes += piece.bytes;
                last.takes += piece.takes;
                false
            }
            _ => {
                self.waiting.push_back(piece);
                true
            }
        }
    }

    /// When it begins the next piece; `None` if none waits.
    fn next_start(&self) -> Option<Duration> {
        self.waiting.front().map(|oldest| self.free.max(oldest.came))
    }

    /// Takes the piece that it begins at `start`: of those in the queue by then the next behind the head, or else the
    /// first on the device. But the oldest is passed over fewer times in a row than the queue is long, so that it does
    /// not wait for ever.
    fn choose(&mut self, queue: u32, start: Duration) -> Option<Piece> {
        let queued = self.waiting.iter().take(queue as usize).enumerate();
        let nearest = queued
            .filter(|(_, piece)| piece.came <= start)
            .min_by_key(|(_, piece)| (piece.address < self.at, piece.address));
        let next = match nearest {
            Some((index, _)) if self.passed + 1 < queue => index,
            _ => 0,
        };
        self.passed = if next == 0 { 0 } else { self.passed + 1 };
        self.waiting.remove(next)
    }

    /// Before this time it does not begin the last piece of the request that waits here.
    fn earliest(&self, request: u64, queue: usize) -> Option<Duration> {
        let index = self.waiting.iter().rposition(|piece| piece.request == request)?;
        // So many have to be gone for it to be in the queue.
        let before = u32::try_from((index + 1).saturating_sub(queue)).unwrap_or(u32::MAX);
        let shortest = self.waiting.iter().take(index).map(|piece| piece.takes).min().unwrap_or_default();
        Some(self.next_start()?.saturating_add(shortest.saturating_mul(before)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// When a request ends that comes then, and nothing after it.
    fn ends(array: &mut Array, now: Duration, offset: u64, bytes: u64) -> Duration {
        let request = array.request(now, offset, bytes);
        match array.look(now, request) {
            Outlook::Ends(end) => end,
            Outlook::Open(_) => panic!("requests are served as they come"),
        }
    }

    /// When each of these ends. Whoever waits looks when it is told to, and at these times too.
    fn ends_of(array: &mut Array, requests: &[u64], also: &[Duration]) -> Vec<Duration> {
        let mut ends: Vec<Option<Duration>> = vec![None; requests.len()];
        let mut now = Duration::ZERO;
        while ends.contains(&None) {
            let mut next = Duration::MAX;
            for (request, end) in requests.iter().zip(&mut ends).filter(|(_, end)| end.is_none()) {
                match array.look(now, *request) {
                    Outlook::Ends(at) => *end = Some(at),
                    Outlook::Open(until) => {
                        assert!(until > now, "{request} would be looked at for ever");
                        next = next.min(until);
                    }
                }
            }
            now = also.iter().copied().filter(|at| *at > now).fold(next, Duration::min);
        }
        ends.into_iter().flatten().collect()
    }

    /// One device on which ten bytes take a second, and a seek another.
    fn one(queue: u32) -> Array {
        let spec = ArraySpec {
            seek: SECOND,
            bytes_per_s: 10,
            stripe_bytes: 10,
            bytes: 1000,
            queue,
            ..ArraySpec::default()
        };
        Array::new(spec).unwrap()
    }

    #[test]
    fn a_request_costs_a_seek_unless_it_goes_on_where_the_last_one_ended() {
        let spec = ArraySpec {
            seek: SECOND,
            bytes_per_s: 10,
            stripe_bytes: 10,
            devices: 2,
            bytes: 1000,
            ..ArraySpec::default()
        };
        let mut array = Array::new(spec).unwrap();
        // Both devices work at once.
        assert_eq!(ends(&mut array, Duration::ZERO, 0, 20), SECOND);
        assert_eq!(ends(&mut array, SECOND, 20, 20), 2 * SECOND);
        assert_eq!(ends(&mut array, 2 * SECOND, 0, 10), 4 * SECOND);
        // The second waits for the first.
        assert_eq!(ends(&mut array, 2 * SECOND, 10, 10), 4 * SECOND);
        assert_eq!(ends(&mut array, 2 * SECOND, 20, 10), 5 * SECOND);
    }

    #[test]
    fn what_is_out_of_order_by_less_than_a_queue_costs_no_seek() {
        let of = |queue: u32| {
            let mut array = one(queue);
            let requests: Vec<u64> =
                [0, 30, 20, 10].map(|offset| array.request(Duration::ZERO, offset, 10)).into();
            ends_of(&mut array, &requests, &[])
        };
        // As they come: each but the first costs a seek.
        assert_eq!(of(1), [SECOND, 3 * SECOND, 5 * SECOND, 7 * SECOND]);
        assert_eq!(of(4), [SECOND, 4 * SECOND, 3 * SECOND, 2 * SECOND]);
        // Of two the one at 10 is not seen before one of the others is gone.
        assert_eq!(of(2), [SECOND, 4 * SECOND, 3 * SECOND, 6 * SECOND]);
    }

    #[test]
    fn what_comes_while_a_device_is_busy_is_chosen_from_and_what_comes_later_is_not() {
        let mut array = one(4);
        let first = array.request(Duration::ZERO, 0, 10);
        let far = array.request(SECOND / 2, 90, 10);
        let next = array.request(SECOND / 2, 10, 10);
        // The device has begun the far one by then.
        let late = array.request(5 * SECOND / 2, 20, 10);
        let all = [first, far, next, late];
        assert_eq!(ends_of(&mut array, &all, &[]), [SECOND, 4 * SECOND, 2 * SECOND, 6 * SECOND]);
    }

    #[test]
    fn when_somebody_looks_changes_nothing() {
        let of = |also: &[Duration]| {
            let mut array = one(3);
            let mut requests = Vec::new();
            for number in 0..40_u32 {
                let now = SECOND * number / 3;
                if !also.is_empty() {
                    // At a request that is not there, so that none is forgotten.
                    array.look(now.saturating_sub(SECOND / 10), u64::MAX);
                }
                requests.push(array.request(now, mixed(5, number.into()) % 90 * 10, 10));
            }
            ends_of(&mut array, &requests, also)
        };
        let often: Vec<Duration> = (40..400).map(|number| SECOND * number / 3).collect();
        assert_eq!(of(&[]), of(&often));
    }

    #[test]
    fn the_oldest_request_is_not_passed_over_for_ever() {
        let mut array = one(3);
        let first = array.request(Duration::ZERO, 500, 10);
        let oldest = array.request(SECOND / 2, 0, 10);
        // There is always one that goes on at the head.
        let others: Vec<u64> =
            (1..40).map(|number| array.request(SECOND / 2, 500 + 10 * number, 10)).collect();
        let all: Vec<u64> = [first, oldest].into_iter().chain(others).collect();
        let ends = ends_of(&mut array, &all, &[]);
        // The first takes a seek; two are served before the oldest, and no more.
        assert_eq!((ends[0], ends[1]), (2 * SECOND, 6 * SECOND));
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        let refused = |spec: ArraySpec| Array::new(spec).is_err();
        assert!(refused(ArraySpec { queue: 0, ..ArraySpec::default() }));
        assert!(refused(ArraySpec { queue: ArraySpec::QUEUE_MAX + 1, ..ArraySpec::default() }));
        assert!(refused(ArraySpec { host_bytes_per_s: Some(0), ..ArraySpec::default() }));
        assert!(!refused(ArraySpec::eonstor()));
    }

    #[test]
    fn scattered_stripes_lie_all_over_and_none_on_another() {
        let spec = ArraySpec { is_scattered: true, devices: 4, bytes: 100 << 16, ..ArraySpec::default() };
        let array = Array::new(spec).unwrap();
        let mut places: Vec<(u32, u64)> =
            array.layout().map(|place| (place.device, place.physical)).collect();
        assert!(!places.is_sorted());
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 100);
        assert!(Array::new(ArraySpec { devices: 0, ..ArraySpec::default() }).is_err());
    }
}
