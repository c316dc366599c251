//! On simulated arrays, in virtual time, orders differ as in 004 (Fig. 3) and layouts as in 002 (Table II).

use super::*;
use crate::endpoint::content::mixed;
use crate::order::{Asker, Dealer, Layout, Left, Placed, Turns};
use std::collections::BTreeSet;
use std::time::Duration;
use thalweg_wire::EntryId;
use thalweg_wire::message::Order;

const CHUNK: u64 = 4 << 20;
const CHUNKS: u64 = 256;
const MIB: u64 = 1 << 20;

struct Set(BTreeSet<u64>);

impl Left for Set {
    fn contains(&self, chunk: u64) -> bool {
        self.0.contains(&chunk)
    }

    fn next_at(&self, chunk: u64) -> Option<u64> {
        self.0.range(chunk..).next().copied()
    }
}

/// What a thread does, and until when.
#[derive(Clone, Copy)]
enum Step {
    /// It asks for a chunk.
    Free(Duration),
    /// It has one, and gets ready.
    Late {
        chunk: u64,
        turn: Option<u64>,
        at: Duration,
    },
    /// It could make its request.
    Ready {
        chunk: u64,
        turn: Option<u64>,
        at: Duration,
    },
    /// It made it, and looks when it ends.
    Waiting {
        request: u64,
        turn: Option<u64>,
        at: Duration,
    },
    /// Its request ends.
    Reading {
        turn: Option<u64>,
        end: Duration,
    },
    Over,
}

/// Time to read the file with so many threads. Between getting a chunk and asking the disk for it a thread is held up
/// by the host, and by up to `delay`, and by up to that once more after it: the scheduler, memory, the network.
fn time_of(
    spec: &ArraySpec,
    mut dealer: Dealer,
    order: Order,
    threads: u64,
    chunk_bytes: u64,
    delay: Duration,
) -> Duration {
    let mut array = Array::new(spec.clone()).unwrap();
    let mut host = Host::new(spec.host_bytes_per_s, spec.seed);
    let mut turns = Turns::of(order);
    let mut left = Set((0..spec.bytes / chunk_bytes).collect());
    let mut steps = vec![Step::Free(Duration::ZERO); threads as usize];
    let mut draws = 0;
    let held_up = |draws: &mut u64| {
        *draws += 1;
        delay.mul_f64((mixed(7, *draws) % 1000) as f64 / 1000.0)
    };
    let mut now = Duration::ZERO;
    loop {
        // The thread that can go on first.
        let next = steps
            .iter()
            .enumerate()
            .filter_map(|(thread, step)| match *step {
                Step::Free(at) | Step::Late { at, .. } | Step::Waiting { at, .. } => Some((at, thread)),
                Step::Ready { turn, at, .. } => {
                    let may =
                        turn.is_none_or(|turn| turns.as_ref().is_none_or(|turns| turns.may_issue(turn)));
                    may.then_some((at, thread))
                }
                Step::Reading { end, .. } => Some((end, thread)),
                Step::Over => None,
            })
            .min();
        let Some((at, thread)) = next else { break };
        now = now.max(at);
        steps[thread] = match steps[thread] {
            Step::Free(_) => {
                match dealer.pick(EntryId(1), &left, Asker { rank: thread as u64, of: threads }) {
                    Some(chunk) => {
                        left.0.remove(&chunk);
                        let turn = turns.as_mut().map(Turns::draw);
                        let late = host.late(chunk * chunk_bytes) + held_up(&mut draws);
                        host.begin(chunk_bytes);
                        Step::Late { chunk, turn, at: now + late }
                    }
                    None => Step::Over,
                }
            }
            Step::Late { chunk, turn, at } => {
                host.end(chunk_bytes);
                Step::Ready { chunk, turn, at }
            }
            Step::Ready { chunk, turn, .. } => {
                if let (Some(turns), Some(turn)) = (&mut turns, turn) {
                    turns.issued(turn);
                }
                host.begin(chunk_bytes);
                Step::Waiting { request: array.request(now, chunk * chunk_bytes, chunk_bytes), turn, at: now }
            }
            Step::Waiting { request, turn, .. } => match array.look(now, request) {
                Outlook::Ends(end) => Step::Reading { turn, end },
                Outlook::Open(at) => Step::Waiting { request, turn, at },
            },
            Step::Reading { turn, .. } => {
                host.end(chunk_bytes);
                if let (Some(turns), Some(turn)) = (&mut turns, turn) {
                    turns.ended(turn);
                }
                Step::Free(now + held_up(&mut draws))
            }
            Step::Over => Step::Over,
        };
    }
    assert!(left.0.is_empty(), "{order:?}");
    now
}

#[test]
fn with_many_threads_serial_and_loose_read_faster_than_none_and_strict() {
    let spec =
        ArraySpec { bytes_per_s: 100_000_000, devices: 4, bytes: CHUNK * CHUNKS, ..ArraySpec::default() };
    let delay = Duration::from_millis(20);
    let mb_per_s = |order, threads| {
        let time = time_of(&spec, Dealer::new(order), order, threads, CHUNK, delay);
        (CHUNK * CHUNKS) as f64 / 1e6 / time.as_secs_f64()
    };
    for threads in [1, 2, 4, 8, 16, 32] {
        let rates = [Order::None, Order::Strict, Order::Serial, Order::Loose].map(|o| mb_per_s(o, threads));
        eprintln!(
            "{threads:2} threads, MB/s: none {:.0}, strict {:.0}, serial {:.0}, loose {:.0}",
            rates[0], rates[1], rates[2], rates[3]
        );
    }
    for threads in [8, 16, 32] {
        let (none, strict) = (mb_per_s(Order::None, threads), mb_per_s(Order::Strict, threads));
        let (serial, loose) = (mb_per_s(Order::Serial, threads), mb_per_s(Order::Loose, threads));
        assert!(loose > 1.2 * none && loose > 1.2 * strict, "{threads}: {loose} {none} {strict}");
        assert!(serial > 1.1 * none, "{threads}: {serial} {none}");
        assert!(loose >= serial, "{threads}: {loose} {serial}");
    }
}

/// MB/s of an order, for threads whose host is the array's.
fn mb_per_s(spec: &ArraySpec, order: Order, threads: u64, request_bytes: u64) -> f64 {
    let delay = Duration::from_millis(1);
    let time = time_of(spec, Dealer::new(order), order, threads, request_bytes, delay);
    spec.bytes as f64 / 1e6 / time.as_secs_f64()
}

/// The rate of each order as a share of that of loose.
fn shares_of_loose(spec: &ArraySpec, threads: u64, request_bytes: u64) -> [f64; 3] {
    let loose = mb_per_s(spec, Order::Loose, threads, request_bytes);
    let shares = [Order::None, Order::Strict, Order::Serial]
        .map(|order| mb_per_s(spec, order, threads, request_bytes) / loose);
    eprintln!("{threads:2} threads: loose {loose:.0} MB/s; of that none, strict, serial {shares:.2?}");
    shares
}

/// 004 section IV-B: few threads read fast in any order, many without one do not. Section IV-C: loose is fastest,
/// serial is steadiest. Its requests of 32 MiB, its 4 and 16 threads (section IV-D.1), and 32.
#[test]
fn on_the_arrays_of_004_none_and_strict_fall_with_many_threads_and_serial_and_loose_do_not() {
    const REQUEST: u64 = 32 * MIB;
    for seed in 0..3 {
        let spec = ArraySpec { bytes: 256 * REQUEST, seed, ..ArraySpec::eonstor() };
        let [none_of_2, none_of_4, none_of_16, none_of_32] =
            [2, 4, 16, 32].map(|threads| shares_of_loose(&spec, threads, REQUEST)[0]);
        assert!(none_of_2 > 0.97 && none_of_4 > 0.9, "{seed}: {none_of_2} {none_of_4}");
        assert!(none_of_16 < 0.92 * none_of_4, "{seed}: {none_of_16} {none_of_4}");
        assert!(none_of_32 < 0.85, "{seed}: {none_of_32}");
        for threads in [16, 32] {
            let [none, strict, _] = shares_of_loose(&spec, threads, REQUEST);
            assert!(strict < 0.85 && strict < none, "{seed}: {strict} {none}");
        }
        let loose = [4, 16, 32].map(|threads| mb_per_s(&spec, Order::Loose, threads, REQUEST));
        let serial = [4, 16, 32].map(|threads| mb_per_s(&spec, Order::Serial, threads, REQUEST));
        for rates in [loose, serial] {
            assert!(rates.iter().all(|rate| (rate / rates[0] - 1.0).abs() < 0.02), "{seed}: {rates:?}");
        }
        assert!(serial[0] < loose[0], "{seed}: {serial:?} {loose:?}");
    }
}

/// What `thalweg bench order` reads: smaller requests, in which a seek weighs more.
#[test]
fn with_small_requests_none_falls_to_half_of_loose_from_thirty_two_threads() {
    for seed in 0..3 {
        let spec = ArraySpec {
            devices: 7,
            queue: 4,
            host_bytes_per_s: Some(1_000_000_000),
            bytes: 256 * MIB,
            seed,
            ..ArraySpec::default()
        };
        let [none_of_4, none_of_16, none_of_32] =
            [4, 16, 32].map(|threads| shares_of_loose(&spec, threads, MIB)[0]);
        assert!(none_of_4 > 0.9, "{seed}: {none_of_4}");
        assert!(none_of_16 < none_of_4 && none_of_32 < none_of_16, "{seed}: {none_of_16} {none_of_32}");
        assert!(none_of_32 < 0.6, "{seed}: {none_of_32}");
        // Without a queue that makes it good, fewer threads are enough.
        let unsorted = ArraySpec { queue: 1, ..spec.clone() };
        assert!(shares_of_loose(&unsorted, 8, MIB)[0] < 0.7, "{seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let spec = ArraySpec { bytes: 256 * MIB, seed: 9, ..ArraySpec::eonstor() };
    let time =
        |spec: &ArraySpec| time_of(spec, Dealer::new(Order::None), Order::None, 16, MIB, Duration::ZERO);
    assert_eq!(time(&spec), time(&spec));
    assert_ne!(time(&spec), time(&ArraySpec { seed: 10, ..spec.clone() }));
}

#[test]
fn queues_for_each_device_beat_none_and_sorted_ones_beat_both() {
    // A file in scattered pieces of a chunk each, as blocks of a parallel file system.
    let spec = ArraySpec {
        seek: Duration::from_millis(15),
        bytes_per_s: 200_000_000,
        devices: 4,
        stripe_bytes: CHUNK,
        is_scattered: true,
        bytes: CHUNK * CHUNKS,
        seed: 3,
        ..ArraySpec::default()
    };
    let told = |spec: ArraySpec| Array::new(spec).unwrap().layout().collect::<Vec<Placed>>();
    let placed = told(spec.clone());
    let dealer = |placed: &[Placed]| {
        let mut dealer = Dealer::new(Order::Layout);
        assert!(dealer.lay_out(EntryId(1), Layout::of(placed, CHUNK * CHUNKS, CHUNK)));
        dealer
    };
    // The device is known, the place on it not.
    let by_device = told(ArraySpec { hides_places: true, ..spec.clone() });
    assert!(by_device.iter().zip(&placed).all(|(hidden, place)| hidden.device == place.device));
    let time = |dealer, order| time_of(&spec, dealer, order, 4, CHUNK, Duration::from_millis(1));
    let unsorted = time(Dealer::new(Order::None), Order::None);
    let layout = time(dealer(&by_device), Order::Layout);
    let sorted = time(dealer(&placed), Order::Layout);
    eprintln!("unsorted {unsorted:?}, by device {layout:?}, by device and sorted {sorted:?}");
    assert!(layout < unsorted && sorted < layout);
    assert!(sorted.as_secs_f64() < 0.8 * unsorted.as_secs_f64());
}
