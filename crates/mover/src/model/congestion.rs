//! How much longer than ideal the worst transfer takes at a given load, where nobody measured it: from the figures that
//! 003 publishes of its own bed (25 Gbit/s, round trip 16 ms, clients that start together each second).
//!
//! It is one bed's behaviour: good for a first answer of paths that are like it, no substitute for measured times.

use super::{Result, not_negative, positive};
use serde::Serialize;

/// How transfers that share a link begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Starts {
    /// Together, whenever data are there (003 Fig 2a).
    Simultaneous,
    /// Each in a slot of its own (003 Fig 2b), with the bandwidth reserved for it.
    Scheduled,
}

/// Why 003's figures say nothing of the slowest transfers of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unlike003 {
    /// Data come much more often than each second, or more rarely.
    Period,
    /// The round trip is much shorter than 16 ms, or longer.
    RoundTrip,
    /// In slots 1.25 times what a transfer takes is longer than the period: no slot is over when the next one begins.
    Slots,
}

/// How often data come in that bed, in seconds.
pub const BED_PERIOD_S: f64 = 1.0;
/// Its round trip time, in seconds.
pub const BED_RTT_S: f64 = 0.016;

/// So many times as long or as short a period or a round trip may be. Of others nothing was published, and what makes
/// transfers late does not shrink with them: Linux waits 200 ms at least before it sends again what got no answer.
pub const LIKE_BED: f64 = 2.0;

/// In a slot, or where nobody else is in the way: 0.2 s instead of 0.16 s (003 section 4.1).
pub const ALONE_STRETCH: f64 = 1.25;

/// Why the bed's [`stretch`] cannot be asked of such a path at this load; `None` if it can. A round trip that is not
/// known is taken for the bed's.
pub(super) fn unlike_003(period_s: f64, rtt_s: Option<f64>, load: f64, starts: Starts) -> Option<Unlike003> {
    let is_like = |value: f64, bed: f64| (bed / LIKE_BED..=bed * LIKE_BED).contains(&value);
    match starts {
        _ if !is_like(period_s, BED_PERIOD_S) => Some(Unlike003::Period),
        _ if rtt_s.is_some_and(|rtt_s| !is_like(rtt_s, BED_RTT_S)) => Some(Unlike003::RoundTrip),
        Starts::Scheduled if load <= 1.0 && load * ALONE_STRETCH > 1.0 => Some(Unlike003::Slots),
        _ => None,
    }
}

/// Share of a link that data need which come again and again: `S / (period Bw)`. Above 1 it is impossible.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn utilisation(bytes: f64, period_s: f64, bandwidth_bits_per_s: f64) -> Result<f64> {
    let rate = super::volume::rate_bits_per_s(positive("data", bytes)?, period_s)?;
    Ok(rate / positive("bandwidth", bandwidth_bits_per_s)?)
}

/// `T_worst / T_ideal` of everything that comes in one period, at this utilisation; `None` above 1, where the backlog
/// grows for ever.
///
/// - Scheduled: 0.2 s / 0.16 s = 1.25 at any load (003 section 4.1), of the transfer of one slot.
/// - Simultaneous: 1.2 s at 64 % and 6 s at 96 % for what comes in a second (003 section 5, read off Fig 2a), which are
///   1.875 and 6.25 times 0.64 s and 0.96 s. Up to 16 %, a single client of that bed, nobody is in the way: 1.25.
///   Between and beyond, the logarithm goes in straight lines.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange) if negative.
pub fn stretch(utilisation: f64, starts: Starts) -> Result<Option<f64>> {
    const ALONE: (f64, f64) = (0.16, ALONE_STRETCH);
    const BUSY: (f64, f64) = (0.64, 1.2 / 0.64);
    const FULL: (f64, f64) = (0.96, 6.0 / 0.96);
    let load = not_negative("utilisation", utilisation)?;
    if load > 1.0 {
        return Ok(None);
    }
    Ok(Some(match starts {
        Starts::Scheduled => ALONE.1,
        Starts::Simultaneous if load <= ALONE.0 => ALONE.1,
        Starts::Simultaneous if load <= BUSY.0 => between(ALONE, BUSY, load),
        Starts::Simultaneous => between(BUSY, FULL, load),
    }))
}

fn between((x0, y0): (f64, f64), (x1, y1): (f64, f64), x: f64) -> f64 {
    y0 * (y1 / y0).powf((x - x0) / (x1 - x0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    /// Seconds that the worst takes of `bytes` a second over 25 Gbit/s.
    fn worst_s(bytes: f64) -> Option<f64> {
        let load = utilisation(bytes, 1.0, 25e9).unwrap();
        stretch(load, Starts::Simultaneous).unwrap().map(|stretch| stretch * bytes * 8.0 / 25e9)
    }

    /// 003 section 5.
    #[test]
    fn the_case_study() {
        assert!(is_near(utilisation(2e9, 1.0, 25e9).unwrap(), 0.64, 1e-12), "XPCS: 64 %");
        assert!(is_near(worst_s(2e9).unwrap(), 1.2, 1e-9), "1.2 s, which leaves 8.8 of 10 s");
        assert!(is_near(utilisation(4e9, 1.0, 25e9).unwrap(), 1.28, 1e-12), "32 of 25 Gbit/s");
        assert_eq!(worst_s(4e9), None, "liquid scattering at 4 GB/s is impossible");
        assert!(is_near(utilisation(3e9, 1.0, 25e9).unwrap(), 0.96, 1e-12), "3 GB/s: 96 %");
        assert!(is_near(worst_s(3e9).unwrap(), 6.0, 1e-9), "6 s, which leaves 4 of 10 s");
    }

    /// 003 section 4.1: 0.5 GB take 0.16 s at best. In slots the worst of 1 to 6 clients a second takes 0.2 s, a score
    /// of 1.25; together more than 5 s, a score above 31. Seven and eight are more than the link.
    #[test]
    fn slots_keep_the_tail_flat() {
        const CLIENT_BYTES: f64 = 0.5e9;
        let ideal_s = CLIENT_BYTES * 8.0 / 25e9;
        let mut before_s = 0.0;
        for clients in 1..=8 {
            let load = utilisation(CLIENT_BYTES * f64::from(clients), 1.0, 25e9).unwrap();
            let of = |starts| stretch(load, starts).unwrap();
            if clients > 6 {
                assert_eq!((of(Starts::Scheduled), of(Starts::Simultaneous)), (None, None), "{load}");
                continue;
            }
            let slot_s = of(Starts::Scheduled).unwrap() * ideal_s;
            assert!(is_near(slot_s, 0.2, 1e-9), "{clients} in slots: {slot_s}");
            // What comes together is there together: the worst waits for all of it.
            let together_s = of(Starts::Simultaneous).unwrap() * ideal_s * f64::from(clients);
            assert!(together_s > before_s, "{clients} together: {together_s}, one fewer {before_s}");
            match clients {
                1 => assert!(is_near(together_s, slot_s, 1e-9), "alone nobody is in the way: {together_s}"),
                4 => assert!(is_near(together_s, 1.2, 1e-9), "64 %: {together_s}"),
                6 => assert!(together_s > 5.0 && together_s / ideal_s > 31.0, "96 %: {together_s}"),
                _ => assert!(together_s > slot_s),
            }
            before_s = together_s;
        }
        assert!(stretch(-0.1, Starts::Scheduled).is_err() && stretch(-0.1, Starts::Simultaneous).is_err());
    }

    #[test]
    fn the_bed_is_asked_of_paths_like_it_alone() {
        let of = |period_s, rtt_s| unlike_003(period_s, rtt_s, 0.64, Starts::Simultaneous);
        assert_eq!((of(1.0, None), of(1.0, Some(BED_RTT_S)), of(1.4, Some(0.01))), (None, None, None));
        for period_s in [1e-3, 0.49, 2.1, 60.0] {
            assert_eq!(of(period_s, None), Some(Unlike003::Period), "{period_s}");
        }
        for rtt_s in [0.0, 1e-4, 0.0079, 0.0321, 0.1] {
            assert_eq!(of(1.0, Some(rtt_s)), Some(Unlike003::RoundTrip), "{rtt_s}");
        }
        // In slots of 1.25 times what they take there is room for 80 % of the line.
        let slots = |load| unlike_003(1.0, None, load, Starts::Scheduled);
        let longer = Some(Unlike003::Slots);
        assert_eq!((slots(0.8), slots(0.81), slots(1.0)), (None, longer, longer));
    }

    proptest! {
        #[test]
        fn more_load_never_stretches_less(load in 0.0..1.0, more in 0.0..1.0) {
            let of = |load: f64| stretch(load.min(1.0), Starts::Simultaneous).unwrap().unwrap();
            prop_assert!(of(load + more) >= of(load));
            prop_assert!(of(load) >= 1.25);
        }
    }
}
