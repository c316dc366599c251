//! Where flows go: files that grow at their own names, a program that takes them, or nowhere.

use super::OPEN_DESTINATION;
use crate::failure::{self, Failure, FailureKind, Result};
use crate::mutex::lock;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_sys::socket::{self, Interest};
use thalweg_wire::message::{FlowBegin, FlowLeft};
use thalweg_wire::{Digest, RelativePath};

/// Where the flows of one transfer go.
pub trait FlowDestination: Send + Sync {
    /// What is there of a flow; made if nothing is. Takes as long as it takes to read what is there: `reading` is told
    /// meanwhile how many bytes are read, and of how many, and says whether to go on.
    ///
    /// # Errors
    /// `Conflict` if something else is in the way, `Busy` if another transfer writes it, `Stopped` if it is not to go
    /// on, `Permission`, `Space`, `Io`.
    fn open(&self, begin: &FlowBegin, reading: &dyn Fn(u64, u64) -> bool) -> Result<Standing>;

    /// Notes that these flows, by their numbers here, have so many bytes that are durable. Returns when the note is
    /// durable.
    ///
    /// # Errors
    /// `Space`, `Io`: these flows cannot go on before they were opened again.
    fn record(&self, marks: &[(u64, u64, Digest)]) -> Result<()>;

    /// What earlier attempts began and did not complete, as far as a sender is to hear of it, and how many there are
    /// besides.
    fn left(&self) -> (Vec<FlowLeft>, u64) {
        (Vec::new(), 0)
    }

    /// The sender has told that nothing more comes of this flow, or (without an origin) of what was left of this path:
    /// its source is gone or another.
    fn given_up(&self, _: &FlowBegin) {}

    /// The transfer is over. After success nothing hidden stays; else what is noted stays for the next attempt.
    fn close(&self, success: bool);

    /// Whether a program takes the bytes, when it likes: its pauses are no fault.
    fn is_consumer(&self) -> bool {
        false
    }

    /// Device number of what it rests on.
    fn device(&self) -> Option<u64> {
        None
    }
}

/// What is there of a flow.
pub struct Standing {
    /// Its number at this destination.
    pub number: u64,
    /// Bytes.
    pub bytes: u64,
    /// BLAKE3 of them.
    pub digest: Digest,
    /// What hashed them, and goes on.
    pub hasher: blake3::Hasher,
    /// An earlier attempt at the same flow left them.
    pub is_ours: bool,
    /// And said that it is all.
    pub is_over: bool,
    /// Takes what follows.
    pub file: Arc<dyn FlowFile>,
    /// Its name below the destination, if that is another than it began with.
    pub name: Option<RelativePath>,
    /// Where it goes, in words, if that is not what its name says.
    pub renamed: Option<String>,
}

impl Standing {
    /// Where nothing is kept of a flow.
    fn at_nothing(file: Arc<dyn FlowFile>) -> Standing {
        let hasher = blake3::Hasher::new();
        Standing {
            number: 0,
            bytes: 0,
            digest: Digest(*hasher.finalize().as_bytes()),
            hasher,
            is_ours: true,
            is_over: false,
            file,
            name: None,
            renamed: None,
        }
    }
}

/// Takes the bytes of one flow, in order.
pub trait FlowFile: Send + Sync {
    /// Writes behind what is there.
    ///
    /// # Errors
    /// `Space`, `Io`; `Stopped` if the program that takes them is gone.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Makes what was written durable.
    ///
    /// # Errors
    /// `Space`, `Io`; final.
    fn sync(&self) -> Result<()>;

    /// It has so many bytes and no more; durable when this returns.
    ///
    /// # Errors
    /// As [`FlowFile::sync`].
    fn complete(&self, bytes: u64) -> Result<()>;
}

/// One flow into a descriptor: a pipe, a terminal, a socket. What was handed over counts as durable; a second attempt
/// cannot go on where the first ended.
pub struct PipeDestination {
    pipe: Arc<Pipe>,
    is_open: Mutex<bool>,
}

/// While who reads a descriptor in non-blocking mode takes nothing: how late it is heard that the transfer is over.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

struct Pipe {
    file: Mutex<Option<std::fs::File>>,
    is_closed: AtomicBool,
}

impl PipeDestination {
    /// Into this one. It may be in non-blocking mode, which it shares with whoever else has it: what it does not take
    /// at once waits.
    pub fn new(fd: OwnedFd) -> PipeDestination {
        let pipe = Pipe { file: Mutex::new(Some(fd.into())), is_closed: AtomicBool::new(false) };
        PipeDestination { pipe: Arc::new(pipe), is_open: Mutex::new(false) }
    }
}

impl Pipe {
    /// Writes all of it; [`io::ErrorKind::Interrupted`] if it was closed before it took everything.
    fn put(&self, file: &mut std::fs::File, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.is_closed.load(Ordering::Acquire) {
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    socket::poll(&[(file.as_fd(), Interest::WRITE)], Some(LOOK_AGAIN))?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl FlowDestination for PipeDestination {
    fn open(&self, begin: &FlowBegin, _: &dyn Fn(u64, u64) -> bool) -> Result<Standing> {
        let mut is_open = lock(&self.is_open);
        if std::mem::replace(&mut *is_open, true) {
            let cause = "a pipe takes one stream: what was replaced, cut or begun again at the source cannot follow in it";
            return Err(Failure::new(FailureKind::Changed, OPEN_DESTINATION, cause).at(&begin.path));
        }
        Ok(Standing::at_nothing(self.pipe.clone()))
    }

    fn record(&self, _: &[(u64, u64, Digest)]) -> Result<()> {
        Ok(())
    }

    fn close(&self, _: bool) {
        // Who reads sees the end when the transfer is over, not when this process is.
        self.pipe.is_closed.store(true, Ordering::Release);
        lock(&self.pipe.file).take();
    }

    fn is_consumer(&self) -> bool {
        true
    }
}

impl FlowFile for Pipe {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let closed = || Failure::new(FailureKind::Stopped, "write", "the destination is closed");
        let mut file = lock(&self.file);
        let Some(file) = file.as_mut() else { return Err(closed()) };
        self.put(file, bytes).map_err(|error| {
            let failure = match error.kind() {
                io::ErrorKind::BrokenPipe => {
                    Failure::new(FailureKind::Stopped, "write", "nobody reads the output any more")
                }
                io::ErrorKind::Interrupted => closed(),
                _ => failure::of_io("write", &error),
            };
            failure.in_range(offset, offset + bytes.len() as u64)
        })
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn complete(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Nowhere; each flow begins at nothing.
#[derive(Default)]
pub struct NullFlows;

impl FlowDestination for NullFlows {
    fn open(&self, _: &FlowBegin, _: &dyn Fn(u64, u64) -> bool) -> Result<Standing> {
        Ok(Standing::at_nothing(Arc::new(NullFlows)))
    }

    fn record(&self, _: &[(u64, u64, Digest)]) -> Result<()> {
        Ok(())
    }

    fn close(&self, _: bool) {}
}

impl FlowFile for NullFlows {
    fn write(&self, _: &[u8], _: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn complete(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_a_descriptor_that_does_not_block_has_no_room_for_waits() {
        const BYTES: usize = 8 << 20;
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let destination = PipeDestination::new(ours.into());
        let content: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
        let reader = std::thread::spawn(move || {
            let (mut all, mut buffer) = (Vec::new(), vec![0; 300_000]);
            loop {
                std::thread::sleep(Duration::from_millis(2));
                match theirs.read(&mut buffer).unwrap() {
                    0 => return all,
                    read => all.extend_from_slice(&buffer[..read]),
                }
            }
        });
        let pipe = destination.pipe.clone();
        for (index, piece) in content.chunks(1 << 20).enumerate() {
            pipe.write(piece, (index << 20) as u64).unwrap();
        }
        destination.close(true);
        assert!(reader.join().unwrap() == content);
    }

    #[test]
    fn closing_ends_a_write_that_nobody_takes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let destination = PipeDestination::new(ours.into());
        let pipe = destination.pipe.clone();
        let writer = std::thread::spawn(move || pipe.write(&vec![1; 8 << 20], 0));
        std::thread::sleep(Duration::from_millis(50));
        destination.close(false);
        assert_eq!(writer.join().unwrap().unwrap_err().kind, FailureKind::Stopped);
        drop(theirs);
    }
}
