//! How much longer than ideal the worst transfer takes at a given load, where nobody measured it: from the figures that
//! 003 publishes of its own bed (25 Gbit/s, round trip 16 ms, clients that start together each second).
//!
//! It is one bed's behaviour: good for a first answer, no substitute for measured times.

use super::{Result, not_negative, positive};
use serde::Serialize;

/// How transfers that share a link begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Starts {
    /// Together, whenever data are there (003 Fig 2a).
    Simultaneous,
    /// Each in a slot of its own (003 Fig 2b).
    Scheduled,
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
/// - Scheduled: 0.2 s / 0.16 s = 1.25 at any load (003 section 4.1).
/// - Simultaneous: 1.2 s at 64 % and 6 s at 96 % for what comes in a second (003 section 5, read off Fig 2a), which are
///   1.875 and 6.25 times 0.64 s and 0.96 s. Up to 16 %, a single client of that bed, nobody is in the way: 1.25.
///   Between and beyond, the logarithm goes in straight lines.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange) if negative.
pub fn stretch(utilisation: f64, starts: Starts) -> Result<Option<f64>> {
    const ALONE: (f64, f64) = (0.16, 1.25);
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

    proptest! {
        #[test]
        fn more_load_never_stretches_less(load in 0.0..1.0, more in 0.0..1.0) {
            let of = |load: f64| stretch(load.min(1.0), Starts::Simultaneous).unwrap().unwrap();
            prop_assert!(of(load + more) >= of(load));
            prop_assert!(of(load) >= 1.25);
        }
    }
}
