//! Loss of packets as an error rate of bits, as makers of devices state it.

use super::{Result, positive, share};

/// Error rate of bits that explains a loss of packets: `loss / (frame bytes * 8)` (000 section III-B.1).
///
/// `loss`: share of packets, more than 0; holds for loss much below 1, where hardly a packet has two errors.
/// `frame_bytes`: of the whole frame, for instance 1500, or 9018 with jumbo frames. Loss from full queues is no error
/// of bits: what comes out is an upper bound.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn bit_error_rate(loss: f64, frame_bytes: f64) -> Result<f64> {
    Ok(share("loss", loss)? / (positive("frame", frame_bytes)? * 8.0))
}

/// Loss of packets that an error rate of bits makes: `1 - (1 - BER)^bits`, exact for independent errors.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn loss(bit_error_rate: f64, frame_bytes: f64) -> Result<f64> {
    let bits = positive("frame", frame_bytes)? * 8.0;
    let rate = share("bit error rate", bit_error_rate)?;
    // ln_1p and exp_m1 keep what plain powers of numbers next to 1 would lose.
    Ok(-(bits * (-rate).ln_1p()).exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    /// 000 section III-B.1: 0.0046 % at 1500 bytes is 4e-9.
    #[test]
    fn one_packet_in_22_000_is_four_bits_in_a_milliard() {
        assert!(is_near(bit_error_rate(4.6e-5, 1500.0).unwrap(), 4e-9, 0.05));
        assert!(is_near(1.0 / 22_000.0, 4.6e-5, 0.02));
    }

    #[test]
    fn every_bit_wrong_is_every_packet_lost() {
        assert_eq!(loss(1.0, 1500.0), Ok(1.0));
    }

    proptest! {
        #[test]
        fn there_and_back_is_the_same_where_loss_is_small(lost in 1e-12..1e-4, frame in 64.0..9018.0) {
            let back = loss(bit_error_rate(lost, frame).unwrap(), frame).unwrap();
            prop_assert!(is_near(back, lost, 1e-4));
        }

        #[test]
        fn larger_frames_meet_more_errors(rate in 1e-15..1e-6, frame in 64.0..4000.0) {
            prop_assert!(loss(rate, 2.0 * frame).unwrap() > loss(rate, frame).unwrap());
        }
    }
}
