//! What the buffers of this process may take together, as users ask for it.

use super::units;
use thalweg_sys::buffer;

/// The least bound, in bytes.
pub const BYTES_MIN: u64 = 8 << 20;

/// Whether so many bytes can be a bound.
///
/// # Errors
/// What is wanted instead.
pub fn check(bytes: u64) -> Result<u64, String> {
    if bytes >= BYTES_MIN { Ok(bytes) } else { Err(format!("at least {}", units::typed_size(BYTES_MIN))) }
}

/// From now on all buffers of this process together take at most so many bytes; `None`: there is no bound any more.
pub fn bound(bytes: Option<u64>) {
    buffer::bound(bytes.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)));
}

/// The bound, in bytes, for the plan of what begins now; `None`: there is none.
pub fn bytes_max() -> Option<u64> {
    buffer::allowed().map(|bytes| bytes as u64)
}
