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
    /// The least of the line (less what is lost and sent again), and of the streams' windows and losses together.
    /// Assumes that streams lose independently, and that no other traffic is there.
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
        let (rate_bits_per_s, by) = match self.each()? {
            Some((rate, by)) if streams * rate < line => (streams * rate, by),
            _ => (line, BoundBy::Line),
        };
        Ok(Carried { rate_bits_per_s, by, is_beyond_law })
    }

    /// The bandwidth that this rate takes, all else as it is. `None`: windows or loss carry less, whatever the
    /// bandwidth.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn bandwidth_for(&self, rate_bits_per_s: f64) -> Result<Option<f64>> {
        let rate = positive("rate", rate_bits_per_s)?;
        let is_carried = self.each()?.is_none_or(|(each, _)| carries(self.streams * each, rate));
        Ok(is_carried.then_some(rate / (1.0 - self.loss)))
    }

    /// The fewest streams that carry this rate, all else as it is. `None`: the line does not, or nothing binds a
    /// stream.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn streams_for(&self, rate_bits_per_s: f64) -> Result<Option<f64>> {
        let rate = positive("rate", rate_bits_per_s)?;
        let each = self.each()?.filter(|_| self.is_wide_enough(rate));
        Ok(each.map(|(each, _)| (rate / each * (1.0 - ROUNDING)).ceil().max(1.0)))
    }

    /// The window of each stream that this rate takes, in bytes, all else as it is. `None`: line or loss carry less,
    /// whatever the window.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn window_for(&self, rate_bits_per_s: f64) -> Result<Option<f64>> {
        let Some(rtt_s) = self.rtt_s else { return Ok(None) };
        let bytes = window::bandwidth_delay_product_bytes(rate_bits_per_s, rtt_s)?;
        let by_loss = Path { window_bytes: None, ..*self }.bandwidth_for(rate_bits_per_s)?;
        let is_carried = by_loss.is_some() && self.is_wide_enough(rate_bits_per_s);
        Ok(is_carried.then_some(bytes / at_least_one("streams", self.streams)?))
    }

    fn is_wide_enough(&self, rate: f64) -> bool {
        carries(self.bandwidth_bits_per_s * (1.0 - self.loss), rate)
    }

    /// What windows and loss leave each stream, whatever the line, and which of them; `None` where neither binds.
    fn each(&self) -> Result<Option<(f64, BoundBy)>> {
        let Some(rtt_s) = self.rtt_s else { return Ok(None) };
        let window = self.window_bytes.map(|bytes| window::rate_bits_per_s(bytes, rtt_s)).transpose()?;
        let lossy = match self.loss > 0.0 {
            true => loss::rate_bits_per_s(self.control, self.loss, rtt_s, self.segment_bytes)?,
            false => None,
        };
        let both = [(window, BoundBy::Window), (lossy, BoundBy::Loss)];
        let both = both.into_iter().filter_map(|(rate, by)| Some((rate?, by)));
        Ok(both.min_by(|(one, _), (other, _)| one.total_cmp(other)))
    }
}

/// What two ways to the same number may differ by.
const ROUNDING: f64 = 1e-12;

/// Whether what carries `most` carries this rate.
pub(super) fn carries(most: f64, rate: f64) -> bool {
    most >= rate * (1.0 - ROUNDING)
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
        /// One of them at a time: with it the rate is carried, and where there is none of it nothing of it helps.
        #[test]
        fn what_a_rate_takes_carries_it(
            rate in 1e6..1e11, window in 1e3..1e9, loss in 1e-7..1e-2, streams in 1.0..64.0, binds in 0..4
        ) {
            let window_bytes = (binds & 1 != 0).then_some(window);
            let path = Path { window_bytes, loss: if binds & 2 != 0 { loss } else { 0.0 }, streams, ..far() };
            let carries_it = |path: Path| path.carried().unwrap().rate_bits_per_s >= rate * (1.0 - 1e-9);
            let wider = |bandwidth_bits_per_s| Path { bandwidth_bits_per_s, ..path };
            let bandwidth = path.bandwidth_for(rate).unwrap();
            prop_assert_eq!(carries_it(wider(bandwidth.unwrap_or(1e30))), bandwidth.is_some());
            if let Some(streams) = path.streams_for(rate).unwrap() {
                let with_streams = Path { streams, ..path };
                prop_assert!(carries_it(with_streams));
            }
            if let Some(bytes) = path.window_for(rate).unwrap() {
                let with_window = Path { window_bytes: Some(bytes), ..path };
                prop_assert!(carries_it(with_window));
            }
        }

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
