//! Frames inside TLS records that rustls seals and opens.

use super::reader::{Fault, RECEIVE, cut};
use crate::link::tls::{is_transient, of_tls};
use crate::mutex::lock;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use thalweg_sys::socket::{self, Interest};

/// A stream in TLS form, used by its two halves, each on a thread of its own or one of them not at all.
///
/// The halves share what rustls knows, never while one of them waits for the socket: a writer in front of a full socket
/// does not keep the reader from reading, else two movers that send to each other would wait for ever. Only the writer
/// sends; what the reader makes rustls want to say goes out with the next frame.
///
/// Ours never change keys: a stream is replaced before. A peer of another make may, and ask us to do the same; so
/// somebody must read what it says, also where only one direction is used. The writer does, between frames, while no
/// reader is at work. rustls takes 32 of them from a peer that sends no data (then the stream is refused, after 8 TiB);
/// our own movers never get there, because rustls keeps its answers back until there is something else to send.
pub(super) struct TlsStream {
    pub(super) socket: Arc<TcpStream>,
    inbox: Mutex<Inbox>,
    /// Locked after `inbox`, for no longer than rustls takes.
    tls: Mutex<rustls::Connection>,
}

/// TLS bytes from the socket that rustls has not taken yet. Its lock is the right to read from the socket.
#[derive(Default)]
struct Inbox {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
    /// The socket has no more.
    is_ended: bool,
}

/// TLS bytes taken from the socket at once: four records.
const INBOX_BYTES: usize = 4 * ((16 << 10) + 64);
/// Plaintext turned into records at once, four of them: between 64 KiB and 1 MiB no difference was measured (0.82 to
/// 0.93 CPU-s/GB for both ends over loopback, frames of 512 KiB; sealed 0.36).
const BATCH_BYTES: usize = 64 << 10;

impl TlsStream {
    pub(super) fn new(socket: Arc<TcpStream>, mut tls: rustls::Connection) -> TlsStream {
        // Emptied after each batch, so its own bound would only cost a check.
        tls.set_buffer_limit(None);
        TlsStream { socket, inbox: Mutex::default(), tls: Mutex::new(tls) }
    }

    /// No foreign code runs under the lock; after a panic inside of rustls its own state refuses.
    pub(super) fn tls(&self) -> MutexGuard<'_, rustls::Connection> {
        lock(&self.tls)
    }

    /// Sends a frame; `records` is memory kept from call to call.
    pub(super) fn send(&self, frame: &[u8], records: &mut Vec<u8>) -> io::Result<()> {
        self.read_answers()?;
        for batch in frame.chunks(BATCH_BYTES) {
            records.clear();
            let mut tls = self.tls();
            tls.writer().write_all(batch)?;
            while tls.wants_write() {
                tls.write_tls(records)?;
            }
            drop(tls);
            socket::send_all(&*self.socket, records)?;
        }
        Ok(())
    }

    /// Has rustls see what the peer says, without waiting, unless a reader is at it or has something to fetch.
    fn read_answers(&self) -> io::Result<()> {
        let Ok(mut inbox) = self.inbox.try_lock() else { return Ok(()) };
        while !inbox.is_ended {
            if inbox.is_empty() {
                let ready = socket::poll(&[(self.socket.as_fd(), Interest::READ)], Some(Duration::ZERO))?;
                if !ready.iter().any(|ready| ready.readable) {
                    return Ok(());
                }
                inbox.fill(&self.socket)?;
            }
            let mut tls = self.tls();
            match tls.reader().into_first_chunk() {
                // Frames, or the peer's end: the reader's business.
                Ok(_) => return Ok(()),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
            match inbox.give(&mut tls) {
                Ok(()) => {}
                Err(Fault::Cut(_)) => inbox.is_ended = true,
                Err(Fault::Refused(failure)) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, failure));
                }
            }
        }
        Ok(())
    }

    pub(super) fn receive(&self, bytes: &mut [u8]) -> std::result::Result<(), Fault> {
        let mut inbox = lock(&self.inbox);
        let mut filled = 0;
        while filled < bytes.len() {
            let mut tls = self.tls();
            match tls.reader().read(&mut bytes[filled..]) {
                Ok(0) => return Err(Fault::Cut(cut())),
                Ok(read) => filled += read,
                Err(error) if !is_transient(&error) => return Err(Fault::Cut(error)),
                Err(_) if !inbox.is_empty() => inbox.give(&mut tls)?,
                Err(_) => {
                    drop(tls);
                    inbox.fill(&self.socket).map_err(Fault::Cut)?;
                    if inbox.is_ended {
                        return Err(Fault::Cut(cut()));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Inbox {
    fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Waits for bytes from the socket, or its end.
    fn fill(&mut self, socket: &TcpStream) -> io::Result<()> {
        if self.bytes.is_empty() {
            self.bytes = vec![0; INBOX_BYTES].into_boxed_slice();
        }
        (self.from, self.to) = (0, socket::receive(socket, &mut self.bytes)?);
        self.is_ended = self.to == 0;
        Ok(())
    }

    /// Has rustls take some of it; there is some, and rustls holds no plaintext.
    fn give(&mut self, tls: &mut rustls::Connection) -> std::result::Result<(), Fault> {
        let mut rest = &self.bytes[self.from..self.to];
        let taken = tls.read_tls(&mut rest).map_err(Fault::Cut)?;
        if taken == 0 {
            // After close_notify nothing counts.
            return Err(Fault::Cut(cut()));
        }
        self.from += taken;
        tls.process_new_packets().map_err(|error| Fault::Refused(of_tls(RECEIVE, &error)))?;
        Ok(())
    }
}
