//! Where a frame goes when it is ready.

use crate::link::{FrameBuffer, FrameWriter};
use crate::stage::Clocks;
use crate::stage::intake::Intake;
use std::io;
use std::time::Duration;
use thalweg_wire::frame::Inner;

/// What was put and has not arrived, as the socket knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queued {
    /// Bytes that the path has no room for yet.
    pub unsent: u64,
    /// These, and those that are under way: no word of them has come back.
    pub unacknowledged: u64,
    /// The shortest round trip so far: for so long bytes are under way in any case.
    pub rtt_min: Duration,
}

/// Takes frames, one after the other.
pub trait Outlet {
    /// Takes the first `payload` bytes of `buffer` with their inner header. The buffer may be used again
    /// when this returns; its content is undefined then, and its memory may be other.
    ///
    /// # Errors
    /// When the stream is gone.
    fn put(&mut self, buffer: &mut FrameBuffer, payload: usize, inner: &Inner) -> io::Result<()>;

    /// Whether the time of [`Outlet::put`] is booked behind it already.
    fn books_itself(&self) -> bool {
        false
    }

    /// Whether nothing that is put goes anywhere any more: whoever waits before [`Outlet::put`] need not wait on. Work
    /// is taken only where this was asked for under the lock that the loss of a stream takes to give work back: else
    /// what a thread takes that has not seen yet that its stream is lost, or another's by now, would be given back by
    /// nobody.
    fn is_over(&self) -> bool {
        false
    }

    /// Bytes that were put and that the path has no room for yet; 0 where that is not known.
    fn unsent_bytes(&self) -> u64 {
        0
    }

    /// What was put and has not arrived; nothing where that is not known.
    fn queued(&self) -> Queued {
        Queued::default()
    }

    /// Waits, before so many bytes are put, for their part of a limit that others share, while `goes_on` and
    /// it is not over; whether it had to. Asked only while it waits, a few times a second.
    fn wait_for_share(&mut self, _bytes: u64, _goes_on: &mut dyn FnMut() -> bool) -> bool {
        false
    }
}

/// Over a link: sealed, one call of the kernel.
impl Outlet for FrameWriter {
    fn put(&mut self, buffer: &mut FrameBuffer, payload: usize, inner: &Inner) -> io::Result<()> {
        self.send(buffer, payload, inner)
    }

    fn unsent_bytes(&self) -> u64 {
        FrameWriter::unsent_bytes(self)
    }

    fn queued(&self) -> Queued {
        let unsent = FrameWriter::unsent_bytes(self);
        let unacknowledged = thalweg_sys::socket::queued(self.fd()).unwrap_or(unsent);
        let rtt_min = thalweg_sys::socket::tcp_info(self.fd()).map_or(Duration::MAX, |info| info.rtt_min);
        Queued { unsent, unacknowledged, rtt_min }
    }
}

/// Inside one process: straight into the receiving stages.
impl Outlet for Intake {
    fn put(&mut self, buffer: &mut FrameBuffer, payload: usize, inner: &Inner) -> io::Result<()> {
        self.take(Clocks::read(), inner, buffer, payload).map_err(io::Error::other)
    }

    fn books_itself(&self) -> bool {
        true
    }
}
