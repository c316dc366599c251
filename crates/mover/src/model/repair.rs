//! What damage costs: whole files sent again (001), or only the damaged chunks.

use super::{Result, not_negative, positive};

/// Files of a transfer, and how many of them arrived damaged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Damage {
    /// Number of files, N; positive.
    pub files: f64,
    /// Bytes of a file, x; positive.
    pub file_bytes: f64,
    /// Failures of verification, n: each sends a file, or a chunk, again; 0 or more.
    pub failures: f64,
}

impl Damage {
    /// Seconds with whole files sent again: `T_trs = x (N + n) / R_e2e` (001 Eq 1). `rate_bits_per_s`: end to end,
    /// positive.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn time_s(&self, rate_bits_per_s: f64) -> Result<f64> {
        self.time_if_again(self.file_bytes, rate_bits_per_s)
    }

    /// What users see of a rate with whole files sent again, in bits a second: `R_trs = N R_e2e / (N + n)` (001 Eq 2).
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn effective_rate_bits_per_s(&self, rate_bits_per_s: f64) -> Result<f64> {
        let bytes = positive("files", self.files)? * positive("file", self.file_bytes)?;
        super::volume::rate_bits_per_s(bytes, self.time_s(rate_bits_per_s)?)
    }

    /// Seconds with only a chunk of `chunk_bytes` sent again for each failure: `(N x + n chunk) / R_e2e`.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn time_by_chunk_s(&self, chunk_bytes: f64, rate_bits_per_s: f64) -> Result<f64> {
        self.time_if_again(positive("chunk", chunk_bytes)?.min(self.file_bytes), rate_bits_per_s)
    }

    fn time_if_again(&self, again_bytes: f64, rate_bits_per_s: f64) -> Result<f64> {
        let once = positive("files", self.files)? * positive("file", self.file_bytes)?;
        let again = not_negative("failures", self.failures)? * again_bytes;
        super::volume::time_s(once + again, rate_bits_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    /// 001 section 4: a snapshot is 1.2 TiB in 256 files. With five per cent damaged, 72 Gbit/s look like 68.6.
    #[test]
    fn a_snapshot_with_damaged_files() {
        let file_bytes = 1.2 * 1_099_511_627_776.0 / 256.0;
        let sound = Damage { files: 256.0, file_bytes, failures: 0.0 };
        assert!(is_near(sound.effective_rate_bits_per_s(72e9).unwrap(), 72e9, 1e-12));
        assert!(is_near(sound.time_s(72e9).unwrap(), 146.6, 1e-3));
        let damaged = Damage { failures: 12.8, ..sound };
        assert!(is_near(damaged.effective_rate_bits_per_s(72e9).unwrap(), 68.57e9, 1e-3));
        // By the chunk it costs a thousandth of that.
        let chunks = damaged.time_by_chunk_s(4_194_304.0, 72e9).unwrap() - sound.time_s(72e9).unwrap();
        let files = damaged.time_s(72e9).unwrap() - sound.time_s(72e9).unwrap();
        assert!(is_near(files / chunks, file_bytes / 4_194_304.0, 1e-6));
    }

    proptest! {
        #[test]
        fn damage_never_helps_and_chunks_never_cost_more(
            files in 1.0..1e6, file_bytes in 1.0..1e12, failures in 0.0..1e6, chunk_bytes in 1.0..1e9
        ) {
            let damage = Damage { files, file_bytes, failures };
            prop_assert!(damage.effective_rate_bits_per_s(1e9).unwrap() <= 1e9 * (1.0 + 1e-12));
            prop_assert!(damage.time_by_chunk_s(chunk_bytes, 1e9).unwrap() <= damage.time_s(1e9).unwrap());
        }
    }
}
