//! What the delay of a packet is made of, and the part that must not be taken for the whole.

use super::{Result, not_negative};
use serde::Serialize;

/// d_prop of a path by its round trip time, in seconds: half of it, if both ways are alike.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub(super) fn propagation_s(rtt_s: f64) -> Result<f64> {
    Ok(not_negative("round trip time", rtt_s)? / 2.0)
}

/// The four parts of a packet's delay, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Delay {
    /// Looking at the packet.
    pub processing_s: f64,
    /// Waiting in queues.
    pub queueing_s: f64,
    /// Putting its bits on the line: size / rate.
    pub transmission_s: f64,
    /// Distance / speed of light in the medium.
    pub propagation_s: f64,
}

impl Delay {
    /// All of it: `d_total = d_proc + d_queue + d_trans + d_prop` (003 Eq 1).
    pub fn total_s(&self) -> f64 {
        self.processing_s + self.queueing_s + self.transmission_s + self.propagation_s
    }

    /// What is overlooked by taking propagation for the whole, `d_continuum = d_prop` (003 Eq 2): the paper shows that
    /// equation as a trap. It holds only where queues are empty, which needs a path without other traffic.
    pub fn overlooked_s(&self) -> f64 {
        self.total_s() - self.propagation_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 003 section 4: 16 ms round trip; under load 0.5 GB took more than 5 s instead of 0.16 s.
    #[test]
    fn queues_are_what_the_trap_overlooks() {
        let busy = Delay { processing_s: 0.0, queueing_s: 4.832, transmission_s: 0.16, propagation_s: 0.008 };
        assert!((busy.total_s() - 5.0).abs() < 1e-9);
        assert!(busy.overlooked_s() / busy.propagation_s > 600.0);
    }

    proptest! {
        #[test]
        fn what_waits_is_overlooked_in_full_and_distance_is_not(
            processing_s in 0.0..1.0, queueing_s in 0.0..100.0, transmission_s in 0.0..100.0, propagation_s in 0.0..1.0,
            more in 0.0..10.0
        ) {
            let delay = Delay { processing_s, queueing_s, transmission_s, propagation_s };
            let is_near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            prop_assert!(delay.overlooked_s() > -1e-9);
            prop_assert!(is_near(delay.overlooked_s() + propagation_s, delay.total_s()));
            let fuller = Delay { queueing_s: queueing_s + more, ..delay };
            prop_assert!(is_near(fuller.overlooked_s() - delay.overlooked_s(), more));
            let longer = Delay { propagation_s: propagation_s + more, ..delay };
            prop_assert!(is_near(longer.overlooked_s(), delay.overlooked_s()));
            prop_assert!(is_near(longer.total_s() - delay.total_s(), more));
        }
    }
}
