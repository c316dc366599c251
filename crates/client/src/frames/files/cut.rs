//! Files that are cut into frames of a size.

use super::super::{NewFrame, Payload};
use super::{REUSED_BYTES_MAX, no_memory, regular_bytes};
use std::io::Read;
use std::path::Path;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::memory::Shelf;
use thalweg_wire::limits;

/// How a file is cut into frames.
#[derive(Debug, Clone, Default)]
pub struct Cut {
    /// Bytes of each; the last may have fewer.
    pub frame_bytes: u64,
    /// Type of the elements of each.
    pub dtype: String,
    /// Elements of each along each axis; only where the frame is whole.
    pub shape: Vec<u64>,
}

/// Reads all of `from` as frames of a size. Says how many bytes the last one has, if these are fewer: then `from` ended
/// in the middle of a frame, and all the same nothing of it is left out.
///
/// # Errors
/// What `sink` says; when it cannot be read; `Usage` for frames beyond the limits.
pub fn cut(
    from: &mut dyn Read,
    cut: &Cut,
    sink: &mut dyn FnMut(NewFrame) -> Result<()>,
) -> Result<Option<u64>> {
    if cut.frame_bytes == 0 || cut.frame_bytes > limits::FRAME_PAYLOAD_BYTES_MAX {
        return Err(Failure::new(FailureKind::Usage, "cut frames", "a frame has from 1 byte to 1 GiB"));
    }
    // As large as the one before: memory grows with what is read, not with what was asked for.
    let mut usual = 0;
    let shelf = Shelf::new(REUSED_BYTES_MAX);
    loop {
        let mut payload = shelf.room(usual).map_err(|_| no_memory())?;
        let read = payload.read_all(from.take(cut.frame_bytes));
        read.map_err(|error| failure::of_io("read frames", &error))?;
        if payload.is_empty() {
            return Ok(None);
        }
        usual = payload.len();
        let is_whole = usual as u64 == cut.frame_bytes;
        let shape = if is_whole { cut.shape.clone() } else { Vec::new() };
        sink(NewFrame {
            dtype: cut.dtype.clone(),
            shape,
            payload: Payload::new(payload),
            ..NewFrame::default()
        })?;
        if !is_whole {
            return Ok(Some(usual as u64));
        }
    }
}

/// Frames that [`cut`] makes of these files as they are now. `None` where that cannot be known before they are read: of
/// a pipe, and of an empty file, which may be one of the kernel's that does not tell its size.
pub fn count_cut<'a>(files: impl IntoIterator<Item = &'a Path>, frame_bytes: u64) -> Option<u64> {
    files.into_iter().try_fold(0u64, |frames, file| {
        let bytes = regular_bytes(file).filter(|&bytes| bytes > 0 && frame_bytes > 0)?;
        frames.checked_add(bytes.div_ceil(frame_bytes))
    })
}
