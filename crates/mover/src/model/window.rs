//! The window law: a stream carries at most one window in each round trip.

use super::{Result, at_least_one, positive};
use std::time::Duration;

/// Most that one stream carries, in bits a second: `window / RTT` (000 section III-A).
///
/// `window_bytes`: the smaller of the sender's congestion window or buffer and the receiver's window; positive.
/// `rtt_s`: round trip time under load, in seconds; positive. Holds without loss and where nothing else is narrower.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn rate_bits_per_s(window_bytes: f64, rtt_s: f64) -> Result<f64> {
    Ok(positive("window", window_bytes)? * 8.0 / positive("round trip time", rtt_s)?)
}

/// Bandwidth-delay product: the fewest bytes under way that keep a path busy, `rate * RTT` (000 section III-A).
///
/// `rate_bits_per_s` and `rtt_s`: positive. Holds without loss.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn bandwidth_delay_product_bytes(rate_bits_per_s: f64, rtt_s: f64) -> Result<f64> {
    Ok(positive("rate", rate_bits_per_s)? * positive("round trip time", rtt_s)? / 8.0)
}

/// The same of whole numbers, as plans reckon: rounded down to bytes. Saturates at `u64::MAX`.
pub fn whole_bandwidth_delay_product_bytes(rate_bits_per_s: u64, rtt: Duration) -> u64 {
    let bytes = u128::from(rate_bits_per_s).saturating_mul(rtt.as_nanos()) / 8 / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// How many streams with this window each keep a path busy: the bandwidth-delay product in windows, rounded up.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn streams_needed(rate_bits_per_s: f64, rtt_s: f64, window_bytes: f64) -> Result<f64> {
    let product = bandwidth_delay_product_bytes(rate_bits_per_s, rtt_s)?;
    // A product that is a whole number of windows, but for rounding, is that number.
    at_least_one("streams", (product / positive("window", window_bytes)? * (1.0 - 1e-12)).ceil().max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    #[test]
    fn hundred_gigabits_over_60_ms_need_750_megabytes() {
        assert_eq!(bandwidth_delay_product_bytes(100e9, 0.060), Ok(750e6));
        let rtt = Duration::from_millis(60);
        assert_eq!(whole_bandwidth_delay_product_bytes(100_000_000_000, rtt), 750_000_000);
        assert_eq!(whole_bandwidth_delay_product_bytes(u64::MAX, Duration::MAX), u64::MAX);
    }

    /// hpn-ssh issue 58: SSH's hidden window of 1.98 MB gave 11.8 MiB/s at 167 ms.
    #[test]
    fn the_window_of_ssh_is_what_its_users_measured() {
        let rate = rate_bits_per_s(1.98e6, 0.167).unwrap();
        assert!(is_near(rate / 8.0, 11.8 * 1_048_576.0, 0.05), "{rate}");
    }

    /// 000 Fig 2, default buffers: 67 Gbit/s at 10 ms, 6.6 at 100: a tenth for ten times the delay, as the law says.
    #[test]
    fn default_buffers_of_figure_2_have_one_window() {
        let at_10_ms = bandwidth_delay_product_bytes(67e9, 0.010).unwrap();
        assert!(is_near(rate_bits_per_s(at_10_ms, 0.100).unwrap(), 6.6e9, 0.02));
    }

    /// 000 Table III: buffers of 1 GiB are enough for 100 Gbit/s at 50 ms, and for 85 Gbit/s at 100 ms.
    #[test]
    fn the_buffers_of_table_3_carry_what_was_measured() {
        let window = 1_073_741_824.0;
        assert!(rate_bits_per_s(window, 0.050).unwrap() > 100e9);
        assert!(is_near(rate_bits_per_s(window, 0.100).unwrap(), 85.9e9, 0.001));
    }

    #[test]
    fn ten_streams_carry_what_one_cannot() {
        assert_eq!(streams_needed(1e9, 0.100, 4.0 * 1_048_576.0), Ok(3.0));
        assert_eq!(streams_needed(1e9, 0.100, 1.25e6), Ok(10.0));
        assert_eq!(streams_needed(1e6, 0.001, 4.0 * 1_048_576.0), Ok(1.0));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(rate_bits_per_s(bad, 0.1).is_err(), "{bad}");
            assert!(rate_bits_per_s(1e6, bad).is_err(), "{bad}");
            assert!(bandwidth_delay_product_bytes(bad, 0.1).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_window_of_the_product_gives_the_rate_back(rate in 1e3..1e13, rtt in 1e-6..10.0) {
            let window = bandwidth_delay_product_bytes(rate, rtt).unwrap();
            prop_assert!(is_near(rate_bits_per_s(window, rtt).unwrap(), rate, 1e-9));
            prop_assert_eq!(streams_needed(rate, rtt, window), Ok(1.0));
        }

        #[test]
        fn a_longer_path_or_a_smaller_window_carries_less(window in 1e3..1e10, rtt in 1e-6..10.0, by in 1.01..100.0) {
            let rate = rate_bits_per_s(window, rtt).unwrap();
            prop_assert!(rate_bits_per_s(window, rtt * by).unwrap() < rate);
            prop_assert!(rate_bits_per_s(window / by, rtt).unwrap() < rate);
        }
    }
}
