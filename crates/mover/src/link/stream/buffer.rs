//! Memory for one frame.

use std::fmt;
use std::io;
use thalweg_sys::buffer::{Buffer, Memory};
use thalweg_wire::frame::{INNER_BYTES, OUTER_BYTES, TAG_BYTES};
use thalweg_wire::limits;

/// Memory for one frame: the payload at an address that direct I/O takes, the outer header right before it, the inner
/// header and the tag right behind, so that all of it goes out in one piece.
///
/// ```text
/// page 0                     page 1
/// [ unused ... outer header ][ payload ... inner header, tag ]
/// ```
pub struct FrameBuffer {
    pub(super) memory: Memory,
    /// Bytes of the payload last received.
    pub(super) payload_bytes: usize,
}

/// What the payload's address is a multiple of.
pub const PAYLOAD_ALIGNMENT: usize = 4096;

impl FrameBuffer {
    /// A buffer for payloads of at most `payload_max` bytes.
    ///
    /// # Errors
    /// `OutOfMemory`, or `InvalidInput` above what a frame may have ([`limits::FRAME_BYTES_MAX`]).
    pub fn new(payload_max: usize) -> io::Result<FrameBuffer> {
        if payload_max > limits::FRAME_BYTES_MAX - INNER_BYTES - TAG_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no frame has so large a payload"));
        }
        Ok(FrameBuffer {
            memory: Memory::Own(Buffer::new(Self::memory_bytes(payload_max))?),
            payload_bytes: 0,
        })
    }

    /// Memory that a buffer for payloads of `payload_max` bytes takes.
    pub const fn memory_bytes(payload_max: usize) -> usize {
        PAYLOAD_ALIGNMENT + payload_max + INNER_BYTES + TAG_BYTES
    }

    /// Most bytes a payload in it can have.
    pub fn payload_max(&self) -> usize {
        self.memory.len() - Self::memory_bytes(0)
    }

    /// The payload last received; empty before the first and after a failure.
    pub fn payload(&self) -> &[u8] {
        &self.memory[PAYLOAD_ALIGNMENT..PAYLOAD_ALIGNMENT + self.payload_bytes]
    }

    /// Room for a payload, [`FrameBuffer::payload_max`] bytes at an address that is a multiple of
    /// [`PAYLOAD_ALIGNMENT`]. Has what was left there.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = PAYLOAD_ALIGNMENT + self.payload_max();
        &mut self.memory[PAYLOAD_ALIGNMENT..end]
    }

    /// Takes the memory out, payload and all, and puts other in its place. The payload begins at [`PAYLOAD_ALIGNMENT`].
    pub fn replace_memory(&mut self, memory: Memory) -> Memory {
        self.payload_bytes = 0;
        std::mem::replace(&mut self.memory, memory)
    }

    /// All of a frame with `body` bytes behind its outer header.
    pub(super) fn frame_mut(&mut self, body: usize) -> &mut [u8] {
        &mut self.memory[PAYLOAD_ALIGNMENT - OUTER_BYTES..PAYLOAD_ALIGNMENT + body]
    }
}

/// What a plan counts with is no less than what frames take, up to the largest.
const _: () = {
    let mut segment = limits::SEGMENT_BYTES_MIN;
    while segment <= limits::SEGMENT_BYTES_MAX {
        let takes = Buffer::memory_bytes(FrameBuffer::memory_bytes(segment as usize));
        assert!(takes as u64 <= crate::plan::frame_bytes(segment));
        segment *= 2;
    }
};

/// Sizes; the content is the user's.
impl fmt::Debug for FrameBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameBuffer")
            .field("payload_max", &self.payload_max())
            .field("payload_bytes", &self.payload_bytes)
            .finish()
    }
}
