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
    /// It has one, and could make its request.
    Ready {
        chunk: u64,
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

/// Time to read all chunks with so many threads. Between getting a chunk and asking the disk for it a thread is held up
/// by up to `delay`, and as long again after it: the scheduler, memory, the network.
fn time_of(spec: &ArraySpec, mut dealer: Dealer, order: Order, threads: u64, delay: Duration) -> Duration {
    let mut array = Array::new(spec.clone()).unwrap();
    let mut turns = Turns::of(order);
    let mut left = Set((0..CHUNKS).collect());
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
                Step::Free(at) => Some((at, thread)),
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
                        Step::Ready { chunk, turn, at: now + held_up(&mut draws) }
                    }
                    None => Step::Over,
                }
            }
            Step::Ready { chunk, turn, .. } => {
                if let (Some(turns), Some(turn)) = (&mut turns, turn) {
                    turns.issued(turn);
                }
                Step::Reading { turn, end: array.request(now, chunk * CHUNK, CHUNK) }
            }
            Step::Reading { turn, .. } => {
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
        let time = time_of(&spec, Dealer::new(order), order, threads, delay);
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

#[test]
fn queues_for_each_device_beat_none_and_sorted_ones_beat_both() {
    // A file in scattered pieces of a chunk each, as blocks of a parallel file system.
    let spec = ArraySpec {
        seek: Duration::from_millis(15),
        bytes_per_s: 200_000_000,
        devices: 4,
        stripe_bytes: CHUNK,
        is_scattered: true,
        hides_places: false,
        bytes: CHUNK * CHUNKS,
        seed: 3,
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
    let time = |dealer, order| time_of(&spec, dealer, order, 4, Duration::from_millis(1));
    let unsorted = time(Dealer::new(Order::None), Order::None);
    let layout = time(dealer(&by_device), Order::Layout);
    let sorted = time(dealer(&placed), Order::Layout);
    eprintln!("unsorted {unsorted:?}, by device {layout:?}, by device and sorted {sorted:?}");
    assert!(layout < unsorted && sorted < layout);
    assert!(sorted.as_secs_f64() < 0.8 * unsorted.as_secs_f64());
}
