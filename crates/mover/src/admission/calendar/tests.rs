//! What the calendar promises is held against what would happen: every window of a whole cycle is laid out, every burst
//! is sent in it, by code that knows nothing of how it was decided.

use super::*;
use proptest::prelude::*;

const GBIT: u64 = 125_000_000;

fn bursts(period_ms: u64, bytes: u64, deadline_ms: u64) -> SlotWish {
    SlotWish {
        rhythm: Rhythm::Bursts { period_micros: period_ms * 1000, bytes },
        deadline_micros: deadline_ms * 1000,
        ready_ago_micros: 0,
        guard_micros: 0,
    }
}

fn steady(bytes_per_s: u64, deadline_ms: u64) -> SlotWish {
    SlotWish { rhythm: Rhythm::Steady { bytes_per_s }, ..bursts(1, 1, deadline_ms) }
}

fn take(calendar: &mut Calendar, wish: &SlotWish, now: u64) -> Result<Promise, Refusal> {
    let promise = calendar.admit(wish, now)?;
    calendar.hold(promise);
    Ok(promise)
}

/// Windows of all slots from `from` to `to`, each by itself: opening, end, which slot.
fn laid_out(promises: &[Promise], from: u64, to: u64) -> Vec<(u64, u64, usize)> {
    let mut all = Vec::new();
    for (slot, promise) in promises.iter().enumerate() {
        let mut opens = promise.windows.opens(from);
        while opens < to {
            all.push((opens, opens + promise.windows.length, slot));
            opens += promise.windows.period;
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn the_bursts_of_the_paper_fit_six_times_a_second_and_the_seventh_is_refused() {
    // 003 section 4: 0.16 s each at the rate of the way.
    let mut calendar = Calendar::new(GBIT);
    for slot in 0..6u64 {
        let promise = take(&mut calendar, &bursts(1000, 20_000_000, 1000), 0).unwrap();
        assert_eq!(promise.windows, Windows { period: 1_000_000, offset: slot * 160_000, length: 160_000 });
        assert_eq!(promise.worst, (slot + 1) * 160_000);
    }
    let refused = take(&mut calendar, &bursts(1000, 20_000_000, 1000), 0).unwrap_err();
    assert!(matches!(refused, Refusal::Load { .. }));
    assert_eq!(
        refused.to_string(),
        "it would take 16.0 % of the way's time, and 4.0 % are left: 12.0 % too much"
    );
    assert!(take(&mut calendar, &bursts(1000, 5_000_000, 1000), 0).is_ok());
}

#[test]
fn a_deadline_that_cannot_hold_is_refused_with_one_that_can() {
    let mut calendar = Calendar::new(GBIT);
    take(&mut calendar, &bursts(1000, 20_000_000, 200), 0).unwrap();
    let alone = take(&mut calendar, &bursts(1000, 20_000_000, 150), 0).unwrap_err();
    assert_eq!(alone, Refusal::Deadline { asked: 150_000, alone: 160_000 });
    let refused = take(&mut calendar, &bursts(1000, 20_000_000, 200), 0).unwrap_err();
    let Refusal::Crowded { deadline, bytes, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(deadline, Some(320_000));
    // What goes in 40 ms behind the first one.
    assert_eq!(bytes, Some(5_000_000));
    assert!(calendar.admit(&bursts(1000, 20_000_000, 320), 0).is_ok());
    assert!(calendar.admit(&bursts(1000, 5_000_000, 200), 0).is_ok());
    assert!(calendar.admit(&bursts(1000, 5_020_000, 200), 0).is_err());
}

#[test]
fn a_period_that_does_not_fit_the_others_is_refused_with_one_that_does() {
    let mut calendar = Calendar::new(GBIT);
    take(&mut calendar, &bursts(1000, 12_500_000, 2000), 0).unwrap();
    // 7 ms and 1 s have 1 ms in common.
    let refused = take(&mut calendar, &bursts(7, 12_500, 20), 0).unwrap_err();
    let Refusal::Crowded { deadline: None, bytes: None, period } = refused else { panic!("{refused:?}") };
    assert_eq!(period, None, "2 ms of each second with a deadline of 20 ms come too late");
    let refused = take(&mut calendar, &bursts(999, 12_500_000, 600), 0).unwrap_err();
    let Refusal::Crowded { period: Some(period), .. } = refused else { panic!("{refused:?}") };
    assert_eq!(period, 1_000_000);
    assert!(calendar.admit(&bursts(1000, 12_512_512, 600), 0).is_ok());
}

#[test]
fn a_steady_flow_gets_windows_that_fit_the_others_and_keep_its_deadline() {
    let mut calendar = Calendar::new(GBIT);
    take(&mut calendar, &bursts(1000, 12_500_000, 2000), 0).unwrap();
    let promise = take(&mut calendar, &steady(GBIT / 4, 500), 0).unwrap();
    assert!(promise.is_any_time && promise.worst <= 500_000, "{promise:?}");
    assert_eq!(1_000_000 % promise.windows.period, 0, "{promise:?}");
    let refused = take(&mut calendar, &steady(GBIT, 500), 0).unwrap_err();
    assert!(matches!(refused, Refusal::Load { .. }), "{refused:?}");
    let refused = take(&mut calendar, &steady(GBIT / 4, 1), 0).unwrap_err();
    assert!(matches!(refused, Refusal::Deadline { .. }), "{refused:?}");
}

#[test]
fn what_is_given_back_is_there_for_the_next() {
    let mut calendar = Calendar::new(GBIT);
    let wish = bursts(100, 10_000_000, 200);
    let first = calendar.hold(calendar.admit(&wish, 0).unwrap());
    assert!(calendar.admit(&wish, 0).is_err());
    let promise = calendar.release(first).unwrap();
    assert!(calendar.admit(&wish, 0).is_ok() && calendar.has_room_for(&promise));
    calendar.hold(promise);
    assert!(calendar.admit(&wish, 0).is_err() && !calendar.has_room_for(&promise));
    assert_eq!(calendar.held().count(), 1);
}

#[test]
fn openings_are_counted_from_any_moment() {
    let windows = Windows { period: 10, offset: 7, length: 2 };
    assert_eq!([0, 6, 7, 8, 17, 18].map(|now| windows.opens(now)), [7, 7, 7, 17, 17, 27]);
}

fn any_wish() -> impl Strategy<Value = SlotWish> {
    let period = prop_oneof![
        // As people choose them, and as nobody does.
        3 => prop_oneof![Just(10u64), Just(20), Just(25), Just(40), Just(50), Just(100), Just(200)],
        1 => 1u64..120,
    ];
    (period, 1u64..4_000_000, 1u64..400, 0u64..3000, 0u64..2000, any::<bool>()).prop_map(
        |(period_ms, bytes, deadline_ms, ready_ago_micros, guard_micros, is_steady)| {
            let wish = match is_steady {
                true => steady(bytes * 10, deadline_ms),
                false => bursts(period_ms, bytes, deadline_ms),
            };
            SlotWish { ready_ago_micros, guard_micros, ..wish }
        },
    )
}

proptest! {
    /// Whoever comes, in whichever order, and whoever leaves meanwhile.
    #[test]
    fn what_is_promised_holds_whatever_the_others_do(
        wishes in prop::collection::vec((any_wish(), 0u64..5_000_000, any::<bool>()), 1..16),
    ) {
        let mut calendar = Calendar::new(GBIT);
        let mut kept: Vec<(u64, SlotWish, Promise)> = Vec::new();
        let mut now = 0;
        for (wish, later, leaves) in wishes {
            now += later;
            let Ok(promise) = calendar.admit(&wish, now) else { continue };
            prop_assert!(promise.worst <= wish.deadline_micros);
            let is_steady = matches!(wish.rhythm, Rhythm::Steady { .. });
            prop_assert!(promise.is_any_time || !is_steady);
            let number = calendar.hold(promise);
            match leaves && kept.len() > 2 {
                true => { calendar.release(number); }
                false => kept.push((now, wish, promise)),
            }
        }
        let promises: Vec<Promise> = kept.iter().map(|(_, _, promise)| *promise).collect();
        let from = now + 1_000_000;
        let all = laid_out(&promises, from, from + 3_000_000);
        for pair in all.windows(2) {
            prop_assert!(pair[0].1 <= pair[1].0, "{pair:?} overlap");
        }
        for (slot, (asked, wish, promise)) in kept.iter().enumerate() {
            let mine: Vec<_> = all.iter().filter(|window| window.2 == slot).collect();
            match wish.rhythm {
                Rhythm::Bursts { period_micros, bytes } => {
                    let takes = (u128::from(bytes) * 1_000_000).div_ceil(u128::from(GBIT)) as u64;
                    let ready = asked.saturating_sub(wish.ready_ago_micros);
                    // The first burst that is ready from `from` on.
                    let mut ready = ready + (from - ready).div_ceil(period_micros) * period_micros;
                    while ready + 2 * period_micros < from + 2_000_000 {
                        let window = mine.iter().find(|window| window.0 >= ready).unwrap();
                        prop_assert!(window.0 + takes + wish.guard_micros <= window.1);
                        prop_assert!(window.1 - ready <= wish.deadline_micros, "burst too late");
                        ready += period_micros;
                    }
                }
                Rhythm::Steady { bytes_per_s } => {
                    // The worst byte becomes ready just after a window opened.
                    let of_period = bytes_per_s as f64 * promise.windows.period as f64 / 1e6;
                    prop_assert!(of_period <= promise.bytes as f64);
                    let takes = (u128::from(promise.bytes) * 1_000_000).div_ceil(u128::from(GBIT)) as u64;
                    prop_assert!(takes + wish.guard_micros <= promise.windows.length);
                    for pair in mine.windows(2) {
                        prop_assert!(pair[1].1 - pair[0].0 <= wish.deadline_micros, "byte too late");
                    }
                }
            }
        }
    }

    /// Each suggestion of a refusal, taken alone, is admitted.
    #[test]
    fn what_a_refusal_says_would_fit_fits(
        wishes in prop::collection::vec(any_wish(), 1..12), last in any_wish(),
    ) {
        let mut calendar = Calendar::new(GBIT);
        wishes.iter().for_each(|wish| drop(take(&mut calendar, wish, 0)));
        let Rhythm::Bursts { period_micros, bytes } = last.rhythm else { return Ok(()) };
        let now = last.ready_ago_micros;
        let Err(Refusal::Crowded { deadline, bytes: fewer, period }) = calendar.admit(&last, now) else {
            return Ok(());
        };
        let of = |period_micros, bytes| SlotWish { rhythm: Rhythm::Bursts { period_micros, bytes }, ..last };
        if let Some(deadline_micros) = deadline {
            let wish = SlotWish { deadline_micros, ..last };
            prop_assert!(calendar.admit(&wish, now).is_ok());
        }
        if let Some(fewer) = fewer {
            prop_assert!(fewer <= bytes && calendar.admit(&of(period_micros, fewer), now).is_ok());
        }
        if let Some(period) = period {
            let bytes = (u128::from(bytes) * u128::from(period) / u128::from(period_micros)) as u64;
            prop_assert!(calendar.admit(&of(period, bytes), now).is_ok());
        }
    }

    /// The rule of two slots, against every window of their common cycle.
    #[test]
    fn two_slots_are_apart_exactly_if_no_window_overlaps(
        a in (1u64..60, 0u64..60, 1u64..60), b in (1u64..60, 0u64..60, 1u64..60),
    ) {
        let of = |(period, offset, length): (u64, u64, u64)| Windows {
            period, offset: offset % period, length: (length % period).max(1),
        };
        let (a, b) = (of(a), of(b));
        let cycle = a.period * b.period;
        let busy = |windows: &Windows, at: u64| (at + windows.period - windows.offset) % windows.period < windows.length;
        let overlaps = (0..cycle).any(|at| busy(&a, at) && busy(&b, at));
        prop_assert_eq!(a.is_apart(&b), !overlaps);
        prop_assert_eq!(b.is_apart(&a), !overlaps);
    }
}
