//! Every order hands out every chunk once, under any interleaving; strict and serial really go in order; who dies does
//! not hold up the others.

use super::*;
use proptest::prelude::*;

const ORDERS: [Order; 5] = [Order::Strict, Order::Serial, Order::Loose, Order::None, Order::Layout];

#[derive(Default)]
struct Set(BTreeSet<u64>);

impl Left for Set {
    fn contains(&self, chunk: u64) -> bool {
        self.0.contains(&chunk)
    }

    fn next_at(&self, chunk: u64) -> Option<u64> {
        self.0.range(chunk..).next().copied()
    }
}

/// Extents of one chunk each, scattered over devices by `seed`.
fn scattered(chunks: u64, devices: u32, seed: u64) -> Vec<Placed> {
    let mut extents: Vec<Placed> = (0..chunks)
        .map(|chunk| Placed {
            logical: chunk * 10,
            length: 10,
            device: (chunk.wrapping_mul(seed | 1) >> 3) as u32 % devices,
            physical: chunk.wrapping_mul(seed | 1) % 1_000_003,
        })
        .collect();
    extents.reverse();
    extents
}

proptest! {
    #[test]
    fn every_order_hands_out_every_chunk_once(
        chunks in 0u64..200, streams in 1u64..9, devices in 1u32..5, seed in any::<u64>(), holes in 0u64..5,
        steps in proptest::collection::vec((0u64..9, 0u8..20), 0..600),
    ) {
        for order in ORDERS {
            let mut dealer = Dealer::new(order);
            let extents: Vec<Placed> =
                scattered(chunks, devices, seed).into_iter().filter(|e| holes == 0 || e.logical / 10 % 7 >= holes).collect();
            prop_assert!(dealer.lay_out(EntryId(1), Layout::of(&extents, chunks * 10, 10)));
            let mut left = Set((0..chunks).collect());
            let mut alive: Vec<u64> = (0..streams).collect();
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for &(who, what) in &steps {
                let rank = who % alive.len() as u64;
                if what == 0 && alive.len() > 1 {
                    // It dies, and what it had last comes back.
                    let gone = alive.remove(rank as usize);
                    if let Some(at) = taken.iter().rposition(|(stream, _)| *stream == gone) {
                        left.0.insert(taken.remove(at).1);
                    }
                    continue;
                }
                let asker = Asker { rank, of: alive.len() as u64 };
                if let Some(chunk) = dealer.pick(EntryId(1), &left, asker) {
                    prop_assert!(left.0.remove(&chunk), "{order:?} handed out {chunk} twice");
                    if order == Order::Strict {
                        prop_assert_eq!(chunk % asker.of, rank);
                    }
                    taken.push((alive[rank as usize], chunk));
                }
            }
            // Those that are left finish.
            let mut idle = 0;
            while idle < alive.len() {
                idle = 0;
                for rank in 0..alive.len() as u64 {
                    match dealer.pick(EntryId(1), &left, Asker { rank, of: alive.len() as u64 }) {
                        Some(chunk) => {
                            prop_assert!(left.0.remove(&chunk));
                            taken.push((alive[rank as usize], chunk));
                        }
                        None => idle += 1,
                    }
                }
            }
            let mut all: Vec<u64> = taken.iter().map(|&(_, chunk)| chunk).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..chunks).collect::<Vec<_>>(), "{:?}", order);
        }
    }

    #[test]
    fn a_turn_comes_when_those_before_it_passed_and_the_dead_hold_up_nobody(
        threads in 1usize..8, steps in proptest::collection::vec((0usize..8, 0u8..8), 1..500),
    ) {
        for order in [Order::Serial, Order::Loose] {
            let mut turns = Turns::of(order).unwrap();
            // What each thread has: a turn, and whether its request was made.
            let mut held: Vec<Option<(u64, bool)>> = vec![None; threads];
            let (mut issued, mut dead) = (Vec::new(), BTreeSet::new());
            let finish = |held: &mut Vec<Option<(u64, bool)>>, turns: &mut Turns, issued: &mut Vec<u64>| {
                // As long as somebody holds a turn, one of them may go on.
                while held.iter().any(Option::is_some) {
                    let able = held.iter().position(|slot| {
                        slot.is_some_and(|(turn, is_made)| is_made || turns.may_issue(turn))
                    });
                    let Some(thread) = able else { return false };
                    match held[thread] {
                        Some((turn, false)) => {
                            turns.issued(turn);
                            issued.push(turn);
                            held[thread] = Some((turn, true));
                        }
                        Some((turn, true)) => {
                            turns.ended(turn);
                            held[thread] = None;
                        }
                        None => {}
                    }
                }
                true
            };
            for &(thread, what) in &steps {
                let thread = thread % threads;
                match (held[thread], what) {
                    (None, _) => held[thread] = Some((turns.draw(), false)),
                    (Some((turn, _)), 0) => {
                        turns.ended(turn);
                        dead.insert(turn);
                        held[thread] = None;
                    }
                    (Some((turn, false)), _) if turns.may_issue(turn) => {
                        if order == Order::Serial {
                            // Nobody else's request is under way.
                            let others = held.iter().flatten().filter(|(other, is_made)| *is_made && *other != turn);
                            prop_assert_eq!(others.count(), 0);
                        }
                        turns.issued(turn);
                        issued.push(turn);
                        held[thread] = Some((turn, true));
                    }
                    (Some((_, false)), _) => {}
                    (Some((turn, true)), _) => {
                        turns.ended(turn);
                        held[thread] = None;
                    }
                }
            }
            prop_assert!(finish(&mut held, &mut turns, &mut issued), "{:?}: nobody may go on", order);
            prop_assert!(issued.is_sorted(), "{:?} {:?}", order, issued);
        }
    }
}

#[test]
fn orders_without_turns_have_none() {
    assert!(Turns::of(Order::Serial).is_some() && Turns::of(Order::Loose).is_some());
    assert!([Order::Strict, Order::None, Order::Layout].into_iter().all(|order| Turns::of(order).is_none()));
}

#[test]
fn a_stream_goes_along_its_device_by_physical_address() {
    let place = |logical, device, physical| Placed { logical, length: 10, device, physical };
    let extents =
        [place(0, 1, 500), place(10, 0, 300), place(20, 0, 100), place(30, 1, 400), place(50, 0, 200)];
    let mut dealer = Dealer::new(Order::Layout);
    // Chunk 4 lies in a hole.
    assert!(dealer.lay_out(EntryId(1), Layout::of(&extents, 60, 10)));
    let mut left = Set((0..6).collect());
    let mut take = |rank| {
        let chunk = dealer.pick(EntryId(1), &left, Asker { rank, of: 2 })?;
        left.0.remove(&chunk);
        Some(chunk)
    };
    assert_eq!([take(0), take(1), take(0), take(1), take(0)], [Some(2), Some(3), Some(5), Some(0), Some(1)]);
    assert_eq!([take(1), take(0)], [Some(4), None]);
}

/// What is left of more chunks than fit in memory.
struct AllBut {
    chunks: u64,
    taken: BTreeSet<u64>,
}

impl Left for AllBut {
    fn contains(&self, chunk: u64) -> bool {
        chunk < self.chunks && !self.taken.contains(&chunk)
    }

    fn next_at(&self, chunk: u64) -> Option<u64> {
        (chunk..self.chunks).find(|chunk| self.contains(*chunk))
    }
}

/// One `truncate` makes such a file, and a client chooses the chunk.
#[test]
fn a_layout_takes_memory_by_extents_and_not_by_the_length_of_the_file() {
    const CHUNK: u64 = 64 << 10;
    let bytes = i64::MAX as u64;
    let last = bytes / CHUNK * CHUNK;
    let extents = [
        Placed { logical: last, length: CHUNK, device: 0, physical: 7 * CHUNK },
        Placed { logical: 5 * CHUNK, length: 1 << 50, device: 0, physical: 9 * CHUNK },
        // No chunk begins in it.
        Placed { logical: 1, length: 4096, device: 0, physical: 0 },
    ];
    let layout = Layout::of(&extents, bytes, CHUNK);
    assert_eq!(layout.runs(), 2);
    let mut dealer = Dealer::new(Order::Layout);
    assert!(dealer.lay_out(EntryId(1), layout));
    let mut left = AllBut { chunks: bytes.div_ceil(CHUNK), taken: BTreeSet::new() };
    let taken: Vec<u64> = (0..3)
        .filter_map(|_| {
            let chunk = dealer.pick(EntryId(1), &left, Asker { rank: 0, of: 1 })?;
            left.taken.insert(chunk);
            Some(chunk)
        })
        .collect();
    assert_eq!(taken, [last / CHUNK, 5, 6]);
    assert_eq!(Layout::of(&[], bytes, CHUNK).runs(), 1);
}

#[test]
fn a_file_for_whose_layout_there_is_no_room_goes_by_offset_until_others_are_done() {
    let backwards = |chunks: u64| {
        let place =
            |chunk| Placed { logical: chunk * 10, length: 10, device: 0, physical: (chunks - chunk) * 10 };
        Layout::of(&(0..chunks).map(place).collect::<Vec<_>>(), chunks * 10, 10)
    };
    let mut dealer = Dealer::new(Order::Layout);
    assert!(dealer.lay_out(EntryId(1), backwards(RUNS_MAX as u64 - 1)));
    assert!(!dealer.lay_out(EntryId(2), backwards(2)));
    let (left, asker) = (Set((0..2).collect()), Asker { rank: 0, of: 1 });
    assert_eq!(dealer.pick(EntryId(2), &left, asker), Some(0));
    dealer.forget(EntryId(1));
    dealer.forget(EntryId(1));
    assert!(dealer.lay_out(EntryId(2), backwards(2)));
    assert_eq!(dealer.pick(EntryId(2), &left, asker), Some(1));
}
