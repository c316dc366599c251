//! Standard output: buffered, and without a panic when nobody reads it any more.
//!
//! After a broken pipe everything written is dropped. A command that only prints asks [`is_closed`] and ends quietly,
//! like every Unix tool ([`printed`]); one that answers by an exit code keeps that ([`answered`]); one that copies goes
//! on copying. What else keeps a line from being told is in the exit code: [`untold`].
//!
//! What is told from where the work is done waits for its reader elsewhere ([`tell_later`]); all else that is written
//! comes behind that. So it is with stderr ([`tell_aside_later`]).

use crate::exit::Exit;
use crate::{show, threads};
use later::Later;
use std::io::{BufWriter, ErrorKind, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;

mod later;

static OUT: LazyLock<Mutex<BufWriter<Stdout>>> =
    LazyLock::new(|| Mutex::new(BufWriter::with_capacity(64 << 10, std::io::stdout())));
static CLOSED: AtomicBool = AtomicBool::new(false);
static UNTOLD: OnceLock<Failure> = OnceLock::new();
static LATER: Later = Later::new();
/// Whether a thread writes what is told later; where none is to be had it is told at once.
static HAS_WRITER: OnceLock<bool> = OnceLock::new();
/// The same of stderr.
static ASIDE: Later = Later::new();
static HAS_ASIDE_WRITER: OnceLock<bool> = OnceLock::new();
/// Whether some of it is gone, and not only late.
static LOST: AtomicBool = AtomicBool::new(false);
/// What fails where the output cannot be written.
const PRINT: &str = "print";

/// Whether the reader is gone.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Acquire)
}

/// Whether this failure says so, and nothing else.
pub fn is_unread(failure: &Failure) -> bool {
    failure.kind == FailureKind::Stopped && failure.operation == PRINT
}

/// Writes bytes.
///
/// # Errors
/// `Stopped` if the reader is gone, which is no failure of the command; `Space`, `Io` as the kernel says.
pub fn write(bytes: &[u8]) -> Result<()> {
    with(|out| out.write_all(bytes))
}

/// Writes a line.
///
/// # Errors
/// As [`write()`].
pub fn line(text: &str) -> Result<()> {
    with(|out| {
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")
    })
}

/// Writes a line that is to be seen at once. If it cannot be, the work goes on; [`untold`] says why at the end.
pub fn tell(text: &str) {
    LATER.drain();
    tell_now(text);
}

/// Writes a line as soon as the reader takes it, and does not wait for that. Of a `state`, a number that tells it from
/// others, a line that nobody has taken yet is replaced by the next.
pub fn tell_later(text: String, state: Option<usize>) {
    let has_writer = *HAS_WRITER.get_or_init(|| threads::spawn("tell", || LATER.write(tell_now)).is_ok());
    match has_writer {
        true if is_closed() => {}
        true => LATER.put(text, state),
        false => tell_now(&text),
    }
}

/// Writes a line on stderr as soon as its reader takes it, and does not wait for that.
pub fn tell_aside_later(text: String, state: Option<usize>) {
    let has_writer =
        *HAS_ASIDE_WRITER.get_or_init(|| threads::spawn("aside", || ASIDE.write(show::line_now)).is_ok());
    match has_writer {
        true => ASIDE.put(text, state),
        false => show::line_now(&text),
    }
}

/// Waits until all that was told so is written.
pub fn drain_aside() {
    ASIDE.drain();
}

/// What is told later is of so many copies.
pub fn tell_of(copies: usize) {
    LATER.tell_of(copies);
}

/// Whether so much of what is told later waits that less is to come.
pub fn is_behind() -> bool {
    LATER.is_behind()
}

fn tell_now(text: &str) {
    let told = with_now(|out| put(out, text, &LOST));
    if let Err(failure) = told
        && !is_unread(&failure)
    {
        // The first is the cause.
        let _ = UNTOLD.set(failure);
    }
}

/// Puts a line at the end of the buffer and hands all of it on. What cannot be handed on stays there, and goes with
/// what comes next; what finds no room in the buffer is lost.
fn put<W: Write>(out: &mut BufWriter<W>, text: &str, is_lost: &AtomicBool) -> std::io::Result<()> {
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")) {
        is_lost.store(true, Ordering::Release);
        return Err(error);
    }
    out.flush()
}

/// Why not everything was told, after a last try: what went wrong first. A reader that is gone is no reason.
pub fn untold() -> Option<&'static Failure> {
    LATER.drain();
    let failure = UNTOLD.get()?;
    // A disk that was full for a while has room again.
    let is_told = flush().is_ok() && !LOST.load(Ordering::Acquire);
    (!is_told).then_some(failure)
}

/// Hands on what is buffered.
///
/// # Errors
/// As [`write()`].
pub fn flush() -> Result<()> {
    with(|out| out.flush())
}

/// The end of a command whose exit code is an answer of its own: a reader that is gone does not change it.
///
/// # Errors
/// Those of what was told, and what the output says to the rest of it.
pub fn answered(told: Result<()>, exit: Exit) -> Result<Exit> {
    match told.and_then(|()| flush()) {
        Err(failure) if !is_closed() => Err(failure),
        _ => Ok(exit),
    }
}

/// The end of a command that only prints: nobody reading any more is no failure.
///
/// # Errors
/// As above.
pub fn printed(result: Result<()>, exit: Exit) -> Result<Exit> {
    match result.and_then(|()| flush()) {
        Err(_) if is_closed() => Ok(Exit::Done),
        Err(failure) => Err(failure),
        Ok(()) => Ok(exit),
    }
}

fn with(work: impl FnOnce(&mut BufWriter<Stdout>) -> std::io::Result<()>) -> Result<()> {
    LATER.drain();
    with_now(work)
}

fn with_now(work: impl FnOnce(&mut BufWriter<Stdout>) -> std::io::Result<()>) -> Result<()> {
    let gone = || Failure::new(FailureKind::Stopped, PRINT, "nobody reads the output any more");
    if is_closed() {
        return Err(gone());
    }
    let mut out = lock(&OUT);
    match work(&mut out) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Release);
            Err(gone())
        }
        Err(error) => Err(failure::of_io(PRINT, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What can be full for a while.
    #[derive(Default)]
    struct Disk {
        is_full: bool,
        written: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            match self.is_full {
                true => Err(ErrorKind::StorageFull.into()),
                false => self.written.write(bytes),
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_comes_late_is_not_lost_and_one_that_finds_no_room_is() {
        let mut out = BufWriter::with_capacity(8, Disk::default());
        let is_lost = AtomicBool::new(false);
        out.get_mut().is_full = true;
        assert!(put(&mut out, "one", &is_lost).is_err());
        assert!(!is_lost.load(Ordering::Acquire));
        out.get_mut().is_full = false;
        put(&mut out, "two", &is_lost).unwrap();
        assert_eq!(out.get_ref().written, b"one\ntwo\n");
        out.get_mut().is_full = true;
        assert!(put(&mut out, "three", &is_lost).is_err());
        assert!(!is_lost.load(Ordering::Acquire));
        assert!(put(&mut out, "four", &is_lost).is_err());
        assert!(is_lost.load(Ordering::Acquire));
        out.get_mut().is_full = false;
        out.flush().unwrap();
        assert_eq!(out.get_ref().written, b"one\ntwo\nthree\n");
    }
}
