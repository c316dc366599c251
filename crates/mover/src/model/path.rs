//! What streams carry over a path: the least of line, windows and losses.

use super::loss::{self, CongestionControl};
use super::{Result, at_least_one, positive, window};
use serde::Serialize;

/// A path, and the streams on it. What is `None` binds nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// Of the line, in bits a second; positive.
    pub bandwidth_bits_per_s: f64,
    /// Round trip time, in seconds; positive. Without it neither window nor loss says anything.
    pub rtt_s: Option<f64>,
    /// Bytes that each stream has under way at most; positive.
    pub window_bytes: Option<f64>,
    /// Share of packets lost; 0 or more.
    pub loss: f64,
    /// What answers loss.
    pub control: CongestionControl,
    /// TCP's payload in a packet, in bytes.
    pub segment_bytes: f64,
    /// Number of streams; 1 or more.
    pub streams: f64,
}

/// What bounds the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BoundBy {
    /// The line.
    Line,
    /// The window of each stream.
    Window,
    /// Loss, as the congestion control answers it.
    Loss,
}

/// The most that streams carry.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Carried {
    /// In bits a second.
    pub rate_bits_per_s: f64,
    /// What bounds it.
    pub by: BoundBy,
    /// Whether loss is beyond what its law is good for ([`loss::SENSIBLE_MAX`]): then streams carry less than this.
    pub is_beyond_law: bool,
}

impl Path {
    /// The least of the line (less what is lost and sent again), and of the streams' windows and losses together. Assumes
    /// that streams lose independently, and that no other traffic is there.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn carried(&self) -> Result<Carried> {
        let lost =
            super::within("loss", self.loss, (0.0..1.0).contains(&self.loss), "at least 0, less than 1")?;
        let streams = at_least_one("streams", self.streams)?;
        let line = positive("bandwidth", self.bandwidth_bits_per_s)? * (1.0 - lost);
        let is_asked = self.rtt_s.is_some() && self.control != CongestionControl::Bbr;
        let is_beyond_law = is_asked && lost > loss::SENSIBLE_MAX;
        let mut least = Carried { rate_bits_per_s: line, by: BoundBy::Line, is_beyond_law };
        let mut bind = |rate: f64, by| {
            if rate < least.rate_bits_per_s {
                least = Carried { rate_bits_per_s: rate, by, is_beyond_law };
            }
        };
        if let Some(rtt_s) = self.rtt_s {
            if let Some(bytes) = self.window_bytes {
                bind(streams * window::rate_bits_per_s(bytes, rtt_s)?, BoundBy::Window);
            }
            if lost > 0.0
                && let Some(rate) = loss::rate_bits_per_s(self.control, lost, rtt_s, self.segment_bytes)?
            {
                bind(streams * rate, BoundBy::Loss);
            }
        }
        Ok(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    fn far() -> Path {
        Path {
            bandwidth_bits_per_s: 1e9,
            rtt_s: Some(0.1),
            window_bytes: None,
            loss: 0.0,
            control: CongestionControl::Cubic,
            segment_bytes: 1448.0,
            streams: 1.0,
        }
    }

    #[test]
    fn the_least_of_the_three_binds() {
        assert_eq!(
            far().carried(),
            Ok(Carried { rate_bits_per_s: 1e9, by: BoundBy::Line, is_beyond_law: false })
        );
        let window = Path { window_bytes: Some(4_194_304.0), ..far() };
        let carried = window.carried().unwrap();
        assert_eq!(carried.by, BoundBy::Window);
        assert!(is_near(carried.rate_bits_per_s, 335.5e6, 1e-3));
        let lossy = Path { loss: 1e-4, ..window }.carried().unwrap();
        assert_eq!(lossy.by, BoundBy::Loss);
        assert!(is_near(lossy.rate_bits_per_s, 21.7e6, 0.01));
        let enough = Path { loss: 1e-4, streams: 64.0, ..window }.carried().unwrap();
        assert_eq!(enough.by, BoundBy::Line);
        let bbr = Path { loss: 1e-4, control: CongestionControl::Bbr, ..far() }.carried().unwrap();
        assert!(is_near(bbr.rate_bits_per_s, 0.9999e9, 1e-9));
    }

    /// Also where the line seems to bind: the streams that are to fill it carry less than the law says.
    #[test]
    fn loss_beyond_the_range_of_its_law_is_told_with_the_rate() {
        let lossy = |loss| Path { loss, streams: 1e4, ..far() };
        let is_beyond = |path: Path| path.carried().unwrap().is_beyond_law;
        assert!(!is_beyond(lossy(0.01)) && is_beyond(lossy(0.011)));
        assert!(!is_beyond(Path { control: CongestionControl::Bbr, ..lossy(0.04) }), "no law binds it");
        assert!(!is_beyond(Path { rtt_s: None, ..lossy(0.04) }), "no law was asked");
    }

    proptest! {
        #[test]
        fn more_streams_never_carry_less_and_never_more_than_the_line(
            streams in 1.0..64.0, by in 1.0..8.0, loss in 0.0..0.01, window in 1e3..1e9
        ) {
            let path = Path { loss, window_bytes: Some(window), streams, ..far() };
            let (few, many) = (path.carried().unwrap(), Path { streams: streams * by, ..path }.carried().unwrap());
            prop_assert!(many.rate_bits_per_s >= few.rate_bits_per_s);
            prop_assert!(many.rate_bits_per_s <= path.bandwidth_bits_per_s);
        }
    }
}
