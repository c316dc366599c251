//! One pipe: standard input, or a FIFO. Complete when its last writer closes it.
//!
//! A second attempt of the same command begins the pipe anew. What the destination has already is then read, compared
//! and dropped, so that a producer that makes the same bytes again is not sent twice.

use super::{Feed, Pushed, Taker, Wanted};
use crate::endpoint::{OPEN, OPEN_DESTINATION};
use crate::failure::{self, Failure, FailureKind, Result};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use thalweg_sys::process;
use thalweg_sys::socket::{self, Interest};
use thalweg_wire::RelativePath;
use thalweg_wire::message::{FlowMark, Origin, Until};

/// How long a look takes at whether it is over, while nothing comes.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Of the file that a pipe becomes, where nothing is known of the user's wishes: a pipe has no mode worth keeping.
const PIPE_MODE: u32 = 0o644;

fn pipe_mode() -> u32 {
    process::umask_before().map_or(PIPE_MODE, |_| process::user_mode())
}

/// See the module.
pub struct PipeFeed {
    pipe: File,
    name: RelativePath,
    piece_bytes: usize,
    offset: u64,
}

/// Refuses what only a file can be complete by: at a pipe nobody would look for it.
///
/// # Errors
/// `Usage` if such an end was asked for.
pub(crate) fn refuse_other_ends(until: &Until) -> Result<()> {
    if until.bytes.is_none() && until.idle_ms.is_none() && until.marker.is_none() {
        return Ok(());
    }
    let cause = "a pipe is complete when its writer closes it; an end by size, rest or marker is of files";
    Err(Failure::new(FailureKind::Usage, OPEN, cause))
}

impl PipeFeed {
    /// Of this pipe, in pieces of at most so many bytes. `name` is for messages and the receipt.
    pub fn new(pipe: OwnedFd, name: RelativePath, piece_bytes: usize) -> PipeFeed {
        PipeFeed { pipe: pipe.into(), name, piece_bytes, offset: 0 }
    }

    /// Reads what there is; `None` if nothing more is to be read.
    fn read(&mut self, buffer: &mut [u8], taker: &dyn Taker) -> io::Result<Option<usize>> {
        loop {
            if taker.is_over() {
                return Ok(None);
            }
            let ready = socket::poll(&[(self.pipe.as_fd(), Interest::READ)], Some(LOOK_AGAIN))?;
            if !ready.iter().any(|ready| ready.readable) {
                continue;
            }
            match self.pipe.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(Some),
            }
        }
    }

    fn rewind(&mut self, at: &FlowMark, is_ours: bool, taker: &dyn Taker) -> Result<blake3::Hasher> {
        if self.offset > 0 {
            let cause = "the destination lost what it had, and a pipe cannot be read again";
            return Err(Failure::new(FailureKind::Damage, "go on with the stream", cause)
                .in_range(at.bytes, self.offset));
        }
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; self.piece_bytes];
        while self.offset < at.bytes {
            let most = (at.bytes - self.offset).min(buffer.len() as u64) as usize;
            match self.read(&mut buffer[..most], taker) {
                Ok(Some(read)) if read > 0 => {
                    hasher.update(&buffer[..read]);
                    self.offset += read as u64;
                }
                Ok(_) => break,
                Err(error) => return Err(failure::of_io("read", &error)),
            }
        }
        if self.offset < at.bytes || hasher.finalize().as_bytes() != &at.digest.0 {
            let whose = if is_ours { "an earlier, unfinished stream" } else { "another file" };
            let cause = format!(
                "{whose} of {} bytes stands there, and what comes from the pipe does not begin with it; choose \
                 another name, or remove it",
                at.bytes
            );
            return Err(Failure::new(FailureKind::Conflict, OPEN_DESTINATION, cause));
        }
        if at.bytes > 0 {
            taker.note(format!("the first {} bytes are there already and are not sent again", at.bytes));
        }
        Ok(hasher)
    }
}

impl Feed for PipeFeed {
    fn is_pipe(&self) -> bool {
        true
    }

    fn run(mut self: Box<Self>, taker: &dyn Taker) {
        let Ok(flow) = taker.begin(self.name.clone(), (Origin::default(), false), pipe_mode()) else {
            return;
        };
        taker.last();
        // A producer that writes much at once is read in large pieces then; as much as it may be is enough.
        let _ = socket::widen_pipe(self.pipe.as_fd(), self.piece_bytes);
        let mut buffer = vec![0; self.piece_bytes];
        // Bytes that were read and not taken yet.
        let mut pending = 0;
        while !taker.is_over() {
            // Nothing is read before it is known what is there, and nothing after the end.
            if taker.position(flow).is_none() {
                let mut is_over = false;
                for wanted in taker.wanted(LOOK_AGAIN) {
                    match wanted {
                        Wanted::Rewind { at, is_ours, .. } => {
                            let result = self.rewind(&at, is_ours, taker);
                            if result.is_err() && taker.is_over() {
                                // It was not read to its end: that says nothing of what stands there.
                                return;
                            }
                            taker.rewound(&at, result);
                        }
                        Wanted::GoesOn { .. } => {}
                        Wanted::LetGo { .. } => is_over = true,
                    }
                }
                if is_over {
                    return;
                }
                continue;
            }
            if pending == 0 {
                match self.read(&mut buffer, taker) {
                    Ok(None) => return,
                    Ok(Some(0)) => {
                        taker.end(flow);
                        continue;
                    }
                    Ok(Some(read)) => pending = read,
                    Err(error) => return taker.give_up(flow, failure::of_io("read", &error)),
                }
            }
            match taker.push(flow, self.offset, &buffer[..pending]) {
                Pushed::Taken => self.offset += std::mem::take(&mut pending) as u64,
                Pushed::Elsewhere => {}
                Pushed::Over => return,
            }
        }
    }
}
