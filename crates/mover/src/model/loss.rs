//! What loss leaves of a stream, by congestion control: as good as its law allows.

use super::{Result, positive, share};
use serde::Serialize;

/// How a sender answers loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CongestionControl {
    /// Half the window at each loss, a segment more in each round trip.
    Reno,
    /// RFC 9438; Linux's default.
    Cubic,
    /// Version 1. Takes no loss for congestion, so no law of windows binds it.
    Bbr,
}

impl CongestionControl {
    /// All that there are laws for.
    pub const ALL: [CongestionControl; 3] =
        [CongestionControl::Reno, CongestionControl::Cubic, CongestionControl::Bbr];

    /// As Linux calls it.
    pub const fn name(self) -> &'static str {
        match self {
            CongestionControl::Reno => "reno",
            CongestionControl::Cubic => "cubic",
            CongestionControl::Bbr => "bbr",
        }
    }

    /// The one that Linux calls so, if there is a law for it.
    pub fn of_name(name: &str) -> Option<CongestionControl> {
        CongestionControl::ALL.into_iter().find(|control| control.name() == name)
    }
}

/// BBR's pace probes a quarter above the rate; at loss beyond this the model of the path falls (Cardwell et al., "BBR:
/// Congestion-based congestion control", ACM Queue 14(5), 2016, Fig 8: flat to 5 %).
pub const BBR_LOSS_MAX: f64 = 0.05;

/// Beyond this the laws of Reno and CUBIC leave out too much: timeouts (Padhye et al., "Modeling TCP throughput",
/// SIGCOMM 1998).
pub const SENSIBLE_MAX: f64 = 1e-2;

/// Below this nothing is lost: no path has carried as many packets, and the laws leave the numbers.
const LOSS_MIN: f64 = 1e-30;

/// Mean window of one stream, in segments; `None` where loss does not bind it (BBR up to [`BBR_LOSS_MAX`]).
///
/// - Reno: `sqrt(3/2) / sqrt(p)` (Mathis, Semke, Mahdavi, Ott, "The macroscopic behavior of the TCP congestion
///   avoidance algorithm", CCR 27(3), 1997, Eq 3).
/// - CUBIC: the larger of Reno's and `(C (3+b) / (4 (1-b)))^(1/4) * RTT^(3/4) / p^(3/4)` with C = 0.4, b = 0.7 (RFC
///   9438 section 5, Eq 5; it is 1.054 in front).
///
/// `loss`: probability that a packet is lost, each by itself; more than 0, for Reno and CUBIC sensible up to
/// [`SENSIBLE_MAX`]; at least 1e-30. `rtt_s`: positive.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange), also of BBR beyond [`BBR_LOSS_MAX`].
pub fn window_segments(control: CongestionControl, loss: f64, rtt_s: f64) -> Result<Option<f64>> {
    let loss = share("loss", loss)?;
    super::within("loss", loss, loss >= LOSS_MIN, "at least 1e-30")?;
    let rtt_s = positive("round trip time", rtt_s)?;
    let reno = (1.5 / loss).sqrt();
    Ok(match control {
        CongestionControl::Reno => Some(reno),
        CongestionControl::Cubic => Some(reno.max(window_factor_of_cubic() * (rtt_s / loss).powf(0.75))),
        CongestionControl::Bbr => {
            super::within("loss", loss, loss <= BBR_LOSS_MAX, "at most 0.05 with bbr")?;
            None
        }
    })
}

/// Most that one stream carries under loss, in bits a second of payload: [`window_segments`] of `segment_bytes` in each
/// round trip. `None` where loss does not bind it: then the line does, less what is sent again.
///
/// `segment_bytes`: TCP's payload in a packet, 1448 at MTU 1500, 8948 at 9000.
///
/// # Errors
/// As [`window_segments`].
pub fn rate_bits_per_s(
    control: CongestionControl,
    loss: f64,
    rtt_s: f64,
    segment_bytes: f64,
) -> Result<Option<f64>> {
    let window = window_segments(control, loss, rtt_s)?;
    let segment_bytes = positive("segment", segment_bytes)?;
    Ok(window.map(|segments| segments * segment_bytes * 8.0 / rtt_s))
}

/// The loss at which one stream still carries this rate: the same laws the other way round. `None` for BBR.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn loss_allowed(
    control: CongestionControl,
    rate_bits_per_s: f64,
    rtt_s: f64,
    segment_bytes: f64,
) -> Result<Option<f64>> {
    let bytes = super::window::bandwidth_delay_product_bytes(rate_bits_per_s, rtt_s)?;
    let segments = bytes / positive("segment", segment_bytes)?;
    let reno = 1.5 / (segments * segments);
    Ok(match control {
        CongestionControl::Reno => Some(reno.min(1.0)),
        CongestionControl::Cubic => {
            // At a loss of 1 the window is the factor times RTT^(3/4); by p^(-3/4) it grows from there.
            let factor = window_factor_of_cubic() * rtt_s.powf(0.75);
            Some(reno.max((factor / segments).powf(4.0 / 3.0)).min(1.0))
        }
        CongestionControl::Bbr => None,
    })
}

fn window_factor_of_cubic() -> f64 {
    const C: f64 = 0.4;
    const BETA: f64 = 0.7;
    (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))).powf(0.25)
}

#[cfg(test)]
mod tests {
    use super::CongestionControl::{Bbr, Cubic, Reno};
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    #[test]
    fn each_has_one_name_wherever_it_is_written() {
        for control in CongestionControl::ALL {
            assert_eq!(CongestionControl::of_name(control.name()), Some(control));
            assert_eq!(serde_json::to_value(control).unwrap(), control.name());
        }
        assert_eq!(CongestionControl::of_name("vegas"), None);
    }

    /// RFC 9438 section 5.1, Tables 1 and 2, C = 0.4. The RFC rounds Reno's factor 1.2247 to 1.2.
    #[test]
    fn windows_are_those_of_rfc_9438() {
        let at_100_ms = [
            (1e-2, 12.0, 12.0),
            (1e-3, 38.0, 38.0),
            (1e-4, 120.0, 187.0),
            (1e-5, 379.0, 1054.0),
            (1e-6, 1200.0, 5926.0),
            (1e-7, 3795.0, 33325.0),
            (1e-8, 12000.0, 187_400.0),
        ];
        for (loss, reno, cubic) in at_100_ms {
            assert!(is_near(window_segments(Reno, loss, 0.1).unwrap().unwrap(), reno, 0.025), "{loss}");
            assert!(is_near(window_segments(Cubic, loss, 0.1).unwrap().unwrap(), cubic, 0.025), "{loss}");
        }
        let at_10_ms = [(1e-5, 379.0), (1e-6, 1200.0), (1e-7, 5926.0), (1e-8, 33325.0)];
        for (loss, cubic) in at_10_ms {
            assert!(is_near(window_segments(Cubic, loss, 0.01).unwrap().unwrap(), cubic, 0.025), "{loss}");
        }
    }

    /// What "as good as the congestion control allows" is, with a loss of 1e-4 at 100 ms and MTU 1500.
    #[test]
    fn one_packet_in_ten_thousand_leaves_cubic_22_megabits() {
        let rate = |control| rate_bits_per_s(control, 1e-4, 0.1, 1448.0).unwrap();
        assert!(is_near(rate(Reno).unwrap(), 14.2e6, 0.01));
        assert!(is_near(rate(Cubic).unwrap(), 21.7e6, 0.01));
        assert_eq!(rate(Bbr), None);
        assert!(rate_bits_per_s(Bbr, 0.06, 0.1, 1448.0).is_err());
    }

    #[test]
    fn a_loss_that_no_path_can_show_is_refused_and_gives_no_endless_rate() {
        for control in [Reno, Cubic, Bbr] {
            assert!(rate_bits_per_s(control, 1e-320, 0.1, 1448.0).is_err());
            let least = rate_bits_per_s(control, LOSS_MIN, 0.1, 1448.0).unwrap();
            assert!(least.is_none_or(f64::is_finite), "{control:?}");
        }
    }

    /// RFC 9438 section 5.2, Table 3: the loss at which 1500-byte packets over 100 ms still make the rate.
    #[test]
    fn losses_allowed_are_those_of_rfc_9438() {
        let table = [(100e6, 2.0e-6, 1.4e-5), (1e9, 2.0e-8, 6.3e-7), (10e9, 2.0e-10, 2.9e-8)];
        for (rate, reno, cubic) in table {
            let allowed = |control| loss_allowed(control, rate, 0.1, 1500.0).unwrap().unwrap();
            assert!(is_near(allowed(Reno), reno, 0.09), "{rate}");
            assert!(is_near(allowed(Cubic), cubic, 0.04), "{rate}");
        }
        assert_eq!(loss_allowed(Bbr, 1e9, 0.1, 1500.0), Ok(None));
    }

    proptest! {
        #[test]
        fn more_loss_never_carries_more(loss in 1e-9..5e-3, by in 1.01..10.0, rtt in 1e-4..1.0) {
            for control in [Reno, Cubic] {
                let less = rate_bits_per_s(control, loss, rtt, 1448.0).unwrap().unwrap();
                let more = rate_bits_per_s(control, loss * by, rtt, 1448.0).unwrap().unwrap();
                prop_assert!(more < less);
            }
        }

        #[test]
        fn cubic_is_never_worse_than_reno(loss in 1e-9..1e-2, rtt in 1e-4..1.0) {
            let segments = |control| window_segments(control, loss, rtt).unwrap().unwrap();
            prop_assert!(segments(Cubic) >= segments(Reno));
        }

        #[test]
        fn the_loss_allowed_gives_the_rate_back(rate in 1e6..1e11, rtt in 1e-3..1.0) {
            for control in [Reno, Cubic] {
                let loss = loss_allowed(control, rate, rtt, 1448.0).unwrap().unwrap();
                if loss < 1.0 {
                    prop_assert!(is_near(rate_bits_per_s(control, loss, rtt, 1448.0).unwrap().unwrap(), rate, 1e-6));
                }
            }
        }
    }
}
