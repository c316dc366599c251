//! Noise for tests of ranges: from a seed, so that each run of them sees the same.

use std::f64::consts::TAU;

/// Numbers of a standard normal distribution.
pub struct Noise(u64);

impl Noise {
    /// Those of a seed.
    pub fn new(seed: u64) -> Noise {
        Noise(seed)
    }

    /// The next: G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", 1958.
    pub fn normal(&mut self) -> f64 {
        let (radius, turn) = (self.share(), self.share());
        (-2.0 * radius.ln()).sqrt() * (TAU * turn).cos()
    }

    /// Above 0, at most 1. SplitMix64: G. L. Steele and others, "Fast splittable pseudorandom number generators", 2014.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((bits ^ (bits >> 31)) >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[test]
fn noise_has_no_mean_and_a_spread_of_one() {
    let mut noise = Noise::new(1);
    let values: Vec<f64> = (0..20_000).map(|_| noise.normal()).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
    assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.05, "{mean}, {square}");
    let beyond = values.iter().filter(|value| value.abs() > 1.959_964).count();
    assert!((900..1100).contains(&beyond), "{beyond} of 1000");
}
