//! What damage costs: whole files sent again (001), or only the damaged chunks; on the path alone, as 001 has it, or
//! with what is looked at again for it.

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

    /// Seconds with whole files sent again, each of them read at the source and its checksum made once more:
    /// `x (N + n) / R_e2e + n x (1 / R_read + a_ck)`.
    ///
    /// The second term is what 001 Eq 1 leaves out. Its `R_e2e` is that of files of which one is read and checked
    /// while another is on the path (001 section 4, Fig 8), which hides what both cost. That a file is damaged is known
    /// behind its transfer and its checksum: it is read again, and checked again, with few or no others on the path
    /// meanwhile. 001 Eq 5 counts one checksum that nothing hides for the same reason. Here none of these is hidden, so
    /// it is a bound: no mover that sends `n` files again for damage has to take longer.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn time_with_looks_s(&self, rate_bits_per_s: f64, looks: &Looks) -> Result<f64> {
        let again_bytes = not_negative("failures", self.failures)? * positive("file", self.file_bytes)?;
        Ok(self.time_s(rate_bits_per_s)? + again_bytes * looks.s_per_byte()?)
    }

    /// What users see of a rate then, in bits a second: 001 Eq 2 with [`Damage::time_with_looks_s`].
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn effective_rate_with_looks_bits_per_s(&self, rate_bits_per_s: f64, looks: &Looks) -> Result<f64> {
        let bytes = positive("files", self.files)? * positive("file", self.file_bytes)?;
        super::volume::rate_bits_per_s(bytes, self.time_with_looks_s(rate_bits_per_s, looks)?)
    }

    /// Seconds with only a chunk sent again for each failure, where comparing finds them:
    /// `(N x + n chunk) / R_e2e + N x (1 / R_read + a_ck)`. All of the data are read, and their checksums made, once
    /// more, damaged or not; both ends do so at the same time, and `looks` is of the slower. Where checksums travel
    /// with the data, as in a copy under way, nothing is looked at again: then [`Damage::time_by_chunk_s`].
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn time_by_chunk_with_looks_s(
        &self,
        chunk_bytes: f64,
        rate_bits_per_s: f64,
        looks: &Looks,
    ) -> Result<f64> {
        let all_bytes = positive("files", self.files)? * positive("file", self.file_bytes)?;
        Ok(self.time_by_chunk_s(chunk_bytes, rate_bits_per_s)? + all_bytes * looks.s_per_byte()?)
    }

    fn time_if_again(&self, again_bytes: f64, rate_bits_per_s: f64) -> Result<f64> {
        let once = positive("files", self.files)? * positive("file", self.file_bytes)?;
        let again = not_negative("failures", self.failures)? * again_bytes;
        super::volume::time_s(once + again, rate_bits_per_s)
    }
}

/// What it costs to look at content once more, beside sending it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Looks {
    /// Seconds in which a byte is read, 1 / R_read; 0 or more.
    pub read_s_per_byte: f64,
    /// Seconds in which its part of a checksum is made, a_ck; 0 or more.
    pub check_s_per_byte: f64,
}

impl Looks {
    fn s_per_byte(&self) -> Result<f64> {
        let read_s = not_negative("time to read a byte", self.read_s_per_byte)?;
        Ok(read_s + not_negative("time to check a byte", self.check_s_per_byte)?)
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

    /// The same snapshot: 12.8 files cross the path again in 7.3 s at 72 Gbit/s. To read them at 186 Gbit/s, and to
    /// check them as quickly, takes three quarters of that.
    #[test]
    fn what_is_sent_again_is_read_and_checked_again() {
        let file_bytes = 1.2 * 1_099_511_627_776.0 / 256.0;
        let damaged = Damage { files: 256.0, file_bytes, failures: 12.8 };
        let a_byte_s = 8.0 / 186e9;
        let looks = Looks { read_s_per_byte: a_byte_s, check_s_per_byte: a_byte_s };
        let path_s = damaged.time_s(72e9).unwrap();
        let whole_s = damaged.time_with_looks_s(72e9, &looks).unwrap();
        assert!(is_near(whole_s - path_s, 2.0 * 12.8 * file_bytes * 8.0 / 186e9, 1e-9));
        assert!(is_near(whole_s - path_s, 7.33 * 2.0 * 72.0 / 186.0, 1e-3));
        let seen = damaged.effective_rate_with_looks_bits_per_s(72e9, &looks).unwrap();
        assert!(is_near(seen, 256.0 * file_bytes * 8.0 / whole_s, 1e-12));
        assert!(seen < damaged.effective_rate_bits_per_s(72e9).unwrap());
        // Nothing is looked at again where nothing is sent again, but by who looks for damage.
        let sound = Damage { failures: 0.0, ..damaged };
        assert_eq!(sound.time_with_looks_s(72e9, &looks), sound.time_s(72e9));
        let searched_s = sound.time_by_chunk_with_looks_s(4_194_304.0, 72e9, &looks).unwrap();
        assert!(is_near(searched_s, sound.time_s(72e9).unwrap() * (1.0 + 2.0 * 72.0 / 186.0), 1e-9));
        // Where both are nothing, it is what 001 has.
        assert_eq!(damaged.time_with_looks_s(72e9, &Looks::default()), Ok(path_s));
        assert!(damaged.time_with_looks_s(72e9, &Looks { read_s_per_byte: -1.0, ..looks }).is_err());
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
