//! How long until data are analysed: here, or at a larger machine far away (003 section 3).
//!
//! Every term grows with the size of the unit alike, so the size decides nothing about *where*; rates and ratios do.

use super::{Result, at_least_one, not_negative, positive, share};
use serde::Serialize;

/// `T_local = C S / R_local` (003 Eq 3), in seconds. `flop_per_byte`: C, 0 or more. `bytes`: S, positive.
/// `flop_per_s`: R_local, positive. The paper counts in FLOP/GB and TFLOPS; here nothing is scaled.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn local_s(flop_per_byte: f64, bytes: f64, flop_per_s: f64) -> Result<f64> {
    let flop = not_negative("work for a byte", flop_per_byte)? * positive("data", bytes)?;
    Ok(flop / positive("local speed", flop_per_s)?)
}

/// `alpha = R_transfer / Bw` (003 section 3.1): transfer efficiency, more than 0, at most 1.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn efficiency(transfer_bits_per_s: f64, bandwidth_bits_per_s: f64) -> Result<f64> {
    let ratio =
        positive("transfer rate", transfer_bits_per_s)? / positive("bandwidth", bandwidth_bits_per_s)?;
    share("transfer efficiency", ratio)
}

/// `theta = (T_IO + T_transfer) / T_transfer` (003 Eq 7): 1 where nothing is written to or read from files.
///
/// # Errors
/// [`OutOfRange`](super::ModelError::OutOfRange).
pub fn io_overhead(io_s: f64, transfer_s: f64) -> Result<f64> {
    let transfer_s = positive("transfer time", transfer_s)?;
    Ok((not_negative("I/O time", io_s)? + transfer_s) / transfer_s)
}

/// Remote processing of one unit of data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Remote {
    /// S: bytes of a unit; positive.
    pub bytes: f64,
    /// Bw: of the path, in bits a second (the paper: GB/s); positive.
    pub bandwidth_bits_per_s: f64,
    /// alpha: transfer efficiency; more than 0, at most 1.
    pub efficiency: f64,
    /// theta: I/O overhead; 1 or more. 1 is a stream.
    pub io_overhead: f64,
    /// T_local ([`local_s`]): seconds that the analysis takes here; 0 or more, 0 if there is none.
    pub local_s: f64,
    /// r = R_remote / R_local: positive.
    pub ratio: f64,
}

/// What one parameter has to be for a given time, the others as they are. `None`: by that parameter alone it cannot be
/// reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BreakEven {
    /// At least this transfer efficiency.
    pub efficiency: Option<f64>,
    /// At most this I/O overhead.
    pub io_overhead: Option<f64>,
    /// At least so many times as fast a remote machine.
    pub ratio: Option<f64>,
    /// At least this bandwidth.
    pub bandwidth_bits_per_s: Option<f64>,
}

impl Remote {
    /// `T_transfer = S / (alpha Bw)` (003 Eq 5), in seconds.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn transfer_s(&self) -> Result<f64> {
        let rate = share("transfer efficiency", self.efficiency)?
            * positive("bandwidth", self.bandwidth_bits_per_s)?;
        super::volume::time_s(positive("data", self.bytes)?, rate)
    }

    /// `T_IO = (theta - 1) T_transfer` (003 Eq 8), in seconds.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn io_s(&self) -> Result<f64> {
        Ok((at_least_one("I/O overhead", self.io_overhead)? - 1.0) * self.transfer_s()?)
    }

    /// `T_remote = C S / (r R_local)` (003 Eq 6), which is `T_local / r`, in seconds.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn remote_s(&self) -> Result<f64> {
        Ok(not_negative("local time", self.local_s)? / positive("ratio of speeds", self.ratio)?)
    }

    /// `T_pct = T_transfer + T_remote + T_IO` (003 Eq 4), which is `theta S / (alpha Bw) + C S / (r R_local)` (Eqs 9
    /// and 10), in seconds.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn total_s(&self) -> Result<f64> {
        Ok(self.transfer_s()? + self.remote_s()? + self.io_s()?)
    }

    /// `T_local / T_pct`: above 1 remote is quicker (003 section 6 speaks of a gain function and gives none).
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn gain(&self) -> Result<f64> {
        Ok(self.local_s / self.total_s()?)
    }

    /// What each parameter must be for `T_pct = target_s`: with [`local_s`](Remote::local_s) where remote begins to
    /// win, with a deadline where it begins to hold.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn break_even(&self, target_s: f64) -> Result<BreakEven> {
        let target_s = positive("target", target_s)?;
        let (transfer_s, remote_s) = (self.transfer_s()?, self.remote_s()?);
        let moving_s = transfer_s + self.io_s()?;
        // What is left for moving after the analysis, and the other way round.
        let (for_moving_s, for_analysis_s) = (target_s - remote_s, target_s - moving_s);
        let bandwidth = (for_moving_s > 0.0).then(|| self.bandwidth_bits_per_s * moving_s / for_moving_s);
        let efficiency = (for_moving_s > 0.0).then(|| self.efficiency * moving_s / for_moving_s);
        let overhead = for_moving_s / transfer_s;
        Ok(BreakEven {
            efficiency: efficiency.filter(|&efficiency| efficiency <= 1.0),
            io_overhead: (overhead >= 1.0).then_some(overhead),
            ratio: (for_analysis_s > 0.0).then(|| self.local_s / for_analysis_s),
            bandwidth_bits_per_s: bandwidth,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    /// A second of LCLS-II's coherent scattering (003 Table 3): 2 GB, 34 TFLOP, over 25 Gbit/s.
    fn coherent_scattering() -> Remote {
        Remote {
            bytes: 2e9,
            bandwidth_bits_per_s: 25e9,
            efficiency: 1.0,
            io_overhead: 1.0,
            local_s: local_s(17e12 / 1e9, 2e9, 10e12).unwrap(),
            ratio: 10.0,
        }
    }

    #[test]
    fn a_second_of_coherent_scattering() {
        let case = coherent_scattering();
        assert!(is_near(case.local_s, 3.4, 1e-12), "34 TFLOP at 10 TFLOPS");
        assert!(is_near(case.transfer_s().unwrap(), 0.64, 1e-12), "64 % of a second");
        assert!(is_near(case.remote_s().unwrap(), 0.34, 1e-12));
        assert_eq!(case.io_s(), Ok(0.0));
        assert!(is_near(case.total_s().unwrap(), 0.98, 1e-12));
        assert!(is_near(case.gain().unwrap(), 3.4 / 0.98, 1e-12));
    }

    #[test]
    fn terms_of_equations_4_9_and_10_are_the_same() {
        let case = Remote { efficiency: 0.8, io_overhead: 1.5, ..coherent_scattering() };
        let (transfer, remote) = (case.transfer_s().unwrap(), case.remote_s().unwrap());
        let eq9 = 1.5 * transfer + remote;
        let eq10 = 1.5 * 2e9 / (0.8 * 25e9 / 8.0) + 17e3 * 2e9 / (10.0 * 10e12);
        assert!(is_near(case.total_s().unwrap(), eq9, 1e-12) && is_near(eq9, eq10, 1e-12));
        assert!(is_near(io_overhead(case.io_s().unwrap(), transfer).unwrap(), 1.5, 1e-12));
        assert!(is_near(efficiency(20e9, 25e9).unwrap(), 0.8, 1e-12));
    }

    #[test]
    fn what_cannot_be_reached_by_one_parameter_is_said() {
        // A remote machine of the same speed never wins: the transfer comes on top.
        let equal = Remote { ratio: 1.0, ..coherent_scattering() };
        let even = equal.break_even(equal.local_s).unwrap();
        assert_eq!((even.efficiency, even.io_overhead, even.bandwidth_bits_per_s), (None, None, None));
        assert!(is_near(even.ratio.unwrap(), 3.4 / 2.76, 1e-9));
        // A path on which the transfer alone takes longer: no machine is quick enough.
        let slow = Remote { bandwidth_bits_per_s: 1e9, ..coherent_scattering() };
        assert_eq!(slow.break_even(slow.local_s).unwrap().ratio, None);
        for bad in [0.0, -1.0, 1.1, f64::NAN] {
            assert!(Remote { efficiency: bad, ..equal }.total_s().is_err());
        }
        assert!(Remote { io_overhead: 0.9, ..equal }.total_s().is_err());
    }

    prop_compose! {
        fn cases()(
            bytes in 1e3..1e15, bandwidth_bits_per_s in 1e6..1e12, efficiency in 0.01..1.0, io_overhead in 1.0..20.0,
            local_s in 0.0..1e5, ratio in 0.01..1e4
        ) -> Remote {
            Remote { bytes, bandwidth_bits_per_s, efficiency, io_overhead, local_s, ratio }
        }
    }

    proptest! {
        #[test]
        fn at_a_break_even_the_target_is_met(case in cases(), factor in 0.1..10.0) {
            let target = case.total_s().unwrap() * factor;
            let even = case.break_even(target).unwrap();
            let meets = |case: Remote| is_near(case.total_s().unwrap(), target, 1e-6);
            let of = |efficiency| meets(Remote { efficiency, ..case });
            prop_assert!(even.efficiency.is_none_or(of));
            let of = |io_overhead| meets(Remote { io_overhead, ..case });
            prop_assert!(even.io_overhead.is_none_or(of));
            let of = |bandwidth_bits_per_s| meets(Remote { bandwidth_bits_per_s, ..case });
            prop_assert!(even.bandwidth_bits_per_s.is_none_or(of));
            let of = |ratio| meets(Remote { ratio, ..case });
            prop_assert!(even.ratio.filter(|&ratio| ratio > 0.0).is_none_or(of));
        }

        #[test]
        fn better_parameters_never_take_longer(case in cases(), by in 1.0..10.0) {
            let time = case.total_s().unwrap();
            let quicker = Remote { ratio: case.ratio * by, ..case };
            prop_assert!(quicker.total_s().unwrap() <= time);
            let wider = Remote { bandwidth_bits_per_s: case.bandwidth_bits_per_s * by, ..case };
            prop_assert!(wider.total_s().unwrap() <= time);
            let heavier = Remote { io_overhead: case.io_overhead * by, ..case };
            prop_assert!(heavier.total_s().unwrap() >= time);
        }

        #[test]
        fn the_size_of_the_unit_does_not_decide_where(case in cases(), by in 0.1..10.0) {
            let larger = Remote { bytes: case.bytes * by, local_s: case.local_s * by, ..case };
            prop_assert!(is_near(larger.gain().unwrap(), case.gain().unwrap(), 1e-9) || case.local_s == 0.0);
        }
    }
}
