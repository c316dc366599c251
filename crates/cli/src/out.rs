//! Standard output: buffered, and without a panic when nobody reads it any more.
//!
//! After a broken pipe everything written is dropped. Who only prints asks [`is_closed`] and ends quietly, like
//! every Unix tool; who copies goes on copying. What else keeps a line from being told is in the exit code: [`untold`].

use std::io::{BufWriter, ErrorKind, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};

static OUT: LazyLock<Mutex<BufWriter<Stdout>>> =
    LazyLock::new(|| Mutex::new(BufWriter::with_capacity(64 << 10, std::io::stdout())));
static CLOSED: AtomicBool = AtomicBool::new(false);
static UNTOLD: OnceLock<Failure> = OnceLock::new();
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
    let told = with(|out| {
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()
    });
    if let Err(failure) = told
        && !is_unread(&failure)
    {
        // The first is the cause.
        let _ = UNTOLD.set(failure);
    }
}

/// Why not everything could be told: what went wrong first. A reader that is gone is no reason.
pub fn untold() -> Option<&'static Failure> {
    UNTOLD.get()
}

/// Hands on what is buffered.
///
/// # Errors
/// As [`write()`].
pub fn flush() -> Result<()> {
    with(|out| out.flush())
}

fn with(work: impl FnOnce(&mut BufWriter<Stdout>) -> std::io::Result<()>) -> Result<()> {
    let gone = || Failure::new(FailureKind::Stopped, PRINT, "nobody reads the output any more");
    if is_closed() {
        return Err(gone());
    }
    let mut out = OUT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match work(&mut out) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Release);
            Err(gone())
        }
        Err(error) => Err(failure::of_io(PRINT, &error)),
    }
}
