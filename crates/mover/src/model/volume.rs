//! Data, time and rate: any two give the third.

use super::{Result, not_negative, positive};

/// Seconds of a day.
pub const DAY_S: f64 = 86_400.0;

/// Seconds that data take at a rate: `bytes * 8 / rate`. `bytes`: 0 or more; `rate_bits_per_s`: positive.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn time_s(bytes: f64, rate_bits_per_s: f64) -> Result<f64> {
    Ok(not_negative("data", bytes)? * 8.0 / positive("rate", rate_bits_per_s)?)
}

/// Rate that moves data in a time, in bits a second. `bytes`: 0 or more; `time_s`: positive.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn rate_bits_per_s(bytes: f64, time_s: f64) -> Result<f64> {
    Ok(not_negative("data", bytes)? * 8.0 / positive("time", time_s)?)
}

/// Bytes that a rate moves in a time. `rate_bits_per_s`, `time_s`: 0 or more. Over [`DAY_S`] it is 000 Table V.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn bytes(rate_bits_per_s: f64, time_s: f64) -> Result<f64> {
    Ok(not_negative("rate", rate_bits_per_s)? * not_negative("time", time_s)? / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    /// 000 Table V: 1, 10, 100 Gbit/s are 10, 100, 1000 TB a day (rounded down from 10.8).
    #[test]
    fn a_day_of_1_10_100_gigabits() {
        for (gbit, terabytes) in [(1.0, 10.8), (10.0, 108.0), (100.0, 1080.0)] {
            assert!(is_near(bytes(gbit * 1e9, DAY_S).unwrap(), terabytes * 1e12, 1e-9));
        }
    }

    /// 001 calls 2^50 bytes a day "93 Gb/s"; that is 10^15 bytes a day.
    #[test]
    fn a_petabyte_a_day_is_not_a_pebibyte_a_day() {
        assert!(is_near(rate_bits_per_s(1e15, DAY_S).unwrap(), 92.6e9, 1e-3));
        assert!(is_near(rate_bits_per_s((1_u64 << 50) as f64, DAY_S).unwrap(), 104.2e9, 1e-3));
    }

    /// ESnet's scorecard (003 [8]), and 002 section II: 1000 processes of 125 MB/s are 1 Tbit/s.
    #[test]
    fn scorecards_and_processes() {
        assert!(is_near(rate_bits_per_s(1e12, 3600.0).unwrap(), 2.2e9, 0.02));
        assert!(is_near(rate_bits_per_s(1e15, 7.0 * DAY_S).unwrap(), 13.2e9, 0.01));
        assert_eq!(rate_bits_per_s(1000.0 * 125e6, 1.0), Ok(1e12));
    }

    /// 000 section III-B: 1 PB in 29 h at 76.63 Gbit/s; 003 section 4.1: 0.5 GB at 25 Gbit/s take 0.16 s.
    #[test]
    fn published_times() {
        assert!(is_near(time_s(1e15, 76.63e9).unwrap() / 3600.0, 29.0, 0.01));
        assert_eq!(time_s(0.5e9, 25e9), Ok(0.16));
    }

    proptest! {
        #[test]
        fn any_two_give_the_third(data in 1.0..1e18, rate in 1e3..1e13) {
            let time = time_s(data, rate).unwrap();
            prop_assert!(is_near(bytes(rate, time).unwrap(), data, 1e-9));
            prop_assert!(is_near(rate_bits_per_s(data, time).unwrap(), rate, 1e-9));
        }
    }
}
