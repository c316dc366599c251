//! Frames of a detector, gathered into files or sent as they come: when the last one has arrived (the experiment of 003
//! Fig 4 as a law).

use super::{Result, not_negative, positive};

/// A scan, and the path that it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scan {
    /// Number of frames; 1 or more.
    pub frames: f64,
    /// Bytes of a frame; positive.
    pub frame_bytes: f64,
    /// Seconds from one frame to the next; 0 or more.
    pub period_s: f64,
    /// Of the path, in bits a second; positive.
    pub rate_bits_per_s: f64,
    /// Seconds that each file costs besides its bytes (opening, metadata, registering); 0 or more.
    pub file_start_s: f64,
}

impl Scan {
    /// Bytes in all.
    pub fn bytes(&self) -> f64 {
        self.frames * self.frame_bytes
    }

    /// Seconds until the last frame was taken.
    pub fn acquisition_s(&self) -> f64 {
        self.frames * self.period_s
    }

    /// Seconds from the first frame on until the last has arrived, gathered into `files` equal files, one transferred
    /// after another while the next is filled: `g + t + (N - 1) max(g, t)` with `g` to fill a file, `t` to move it (two
    /// stages in a row, N equal jobs). `files`: 1 to the number of frames.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn in_files_s(&self, files: f64) -> Result<f64> {
        not_negative("cost of a file", self.file_start_s)?;
        super::within(
            "files",
            files,
            files >= 1.0 && files <= self.frames,
            "from 1 to the number of frames",
        )?;
        self.in_pieces_s(files, self.file_start_s)
    }

    /// The same with each frame sent as it comes, and no files.
    ///
    /// # Errors
    /// [`OutOfRange`](super::ModelError::OutOfRange).
    pub fn streamed_s(&self) -> Result<f64> {
        self.in_pieces_s(self.frames, 0.0)
    }

    fn in_pieces_s(&self, pieces: f64, start_s: f64) -> Result<f64> {
        super::at_least_one("frames", self.frames)?;
        positive("frame", self.frame_bytes)?;
        let fill_s = not_negative("period", self.period_s)? * self.frames / pieces;
        let move_s = super::volume::time_s(self.bytes() / pieces, self.rate_bits_per_s)? + start_s;
        Ok(fill_s + move_s + (pieces - 1.0) * fill_s.max(move_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    /// 003 section 4.2: 1440 frames of 2048 x 2048 x 2 bytes, 0.033 s apart. A second for each file is what makes 97 %
    /// ("severe penalties"; the paper names none).
    fn aps_scan() -> Scan {
        Scan {
            frames: 1440.0,
            frame_bytes: 2048.0 * 2048.0 * 2.0,
            period_s: 0.033,
            rate_bits_per_s: 25e9,
            file_start_s: 1.0,
        }
    }

    #[test]
    fn the_scan_is_12_08_gigabytes_not_12_6() {
        assert!(is_near(aps_scan().bytes(), 12.08e9, 1e-3));
    }

    #[test]
    fn many_small_files_are_the_worst_and_a_stream_the_best() {
        let scan = aps_scan();
        let streamed = scan.streamed_s().unwrap();
        assert!(is_near(streamed, scan.acquisition_s(), 1e-3), "next to nothing after the last frame");
        let of = |files: f64| scan.in_files_s(files).unwrap();
        assert!(of(1440.0) > of(144.0) && of(144.0) > of(10.0) && of(10.0) < of(1.0));
        assert!(1.0 - streamed / of(1440.0) > 0.96, "up to 97 % saved");
        // At a tenth of the rate files that are filled slowly hide their costs.
        let slow = Scan { period_s: 0.33, ..scan };
        assert!(slow.in_files_s(10.0).unwrap() / slow.streamed_s().unwrap() < 1.11);
        assert!(scan.in_files_s(1441.0).is_err() && scan.in_files_s(0.5).is_err());
    }

    proptest! {
        #[test]
        fn no_number_of_files_beats_a_stream(
            frames in 1_u32..5000, files in 1_u32..5000, period_s in 0.0..1.0, rate in 1e6..1e11, start in 0.0..2.0
        ) {
            let scan = Scan {
                frames: f64::from(frames), frame_bytes: 1e6, period_s, rate_bits_per_s: rate, file_start_s: start,
            };
            let streamed = scan.streamed_s().unwrap();
            let in_files = scan.in_files_s(f64::from(files.min(frames))).unwrap();
            prop_assert!(streamed <= in_files * (1.0 + 1e-9));
            prop_assert!(streamed >= scan.acquisition_s());
        }
    }
}
