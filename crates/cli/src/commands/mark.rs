//! `thalweg mark`: how much of a file that a stream writes is durable.

use crate::exit::Exit;
use crate::json;
use crate::out;
use serde_json::json;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use thalweg_cli::args::stream::MarkArgs;
use thalweg_mover::failure::{self, Result};
use thalweg_mover::journal::marks;
use thalweg_sys::Dir;
use thalweg_wire::path::Escaped;

/// Prints the mark of each file: bytes, whether it is complete, name. A file that no stream writes is complete.
///
/// # Errors
/// If a file cannot be looked at.
pub fn mark(args: &MarkArgs) -> Result<Exit> {
    for path in &args.paths {
        let (bytes, is_complete) = look(path).map_err(|error| {
            let mut failure = failure::of_io("look at a file", &error);
            failure.cause = format!("{}: {}", Escaped(path.as_os_str().as_bytes()), failure.cause);
            failure
        })?;
        let shown = Escaped(path.as_os_str().as_bytes());
        if args.json {
            let line = json!({
                "event": "mark", "path": shown.to_string(), "bytes": bytes, "complete": is_complete,
            });
            json::line(&line)?;
        } else {
            out::line(&format!("{bytes}\t{}\t{shown}", if is_complete { "complete" } else { "growing" }))?;
        }
    }
    out::flush()?;
    Ok(Exit::Done)
}

fn look(path: &Path) -> io::Result<(u64, bool)> {
    let path = std::path::absolute(path)?;
    let size = std::fs::symlink_metadata(&path)?.len();
    // The stream's destination is the directory of the file, or one above it.
    for parent in path.ancestors().skip(1) {
        let (Ok(dir), Ok(name)) = (Dir::open(parent), path.strip_prefix(parent)) else { continue };
        if let Some(known) = marks::look_up(&dir, name.as_os_str().as_bytes()) {
            return Ok((known.bytes, false));
        }
    }
    Ok((size, true))
}
