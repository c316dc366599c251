//! `thalweg mark`: how much of a file that a stream writes is durable.
//!
//! What a stream notes of a file goes when the stream is over: of a file without a note nobody can say whether it is
//! complete, or ever was a stream's.

use crate::exit::Exit;
use crate::json;
use crate::out;
use serde_json::json;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use thalweg_cli::args::stream::MarkArgs;
use thalweg_client::place::{Place, Places};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::journal::{marks, staging_names};
use thalweg_sys::{Dir, Links};
use thalweg_wire::path::Escaped;

/// Prints the mark of each file: bytes, whether a stream writes it, name.
///
/// # Errors
/// If a file cannot be looked at, or is none; if what a stream may note of it is closed to this user.
pub fn mark(args: &MarkArgs, places: &Places) -> Result<Exit> {
    for path in &args.paths {
        let Mark { bytes, is_growing } = look(path, places)?;
        let shown = Escaped(path.as_os_str().as_bytes());
        let state = if is_growing { "growing" } else { "no-stream" };
        if args.json {
            // Whether it is complete nobody says where no stream writes it.
            let complete = is_growing.then_some(false);
            let line = json!({
                "event": "mark", "path": shown.to_string(), "bytes": bytes, "state": state, "complete": complete,
            });
            json::line(&line)?;
        } else {
            out::line(&format!("{bytes}\t{state}\t{shown}"))?;
        }
    }
    out::flush()?;
    Ok(Exit::Done)
}

struct Mark {
    /// Bytes that are durable; of a file that no stream writes all that it has.
    bytes: u64,
    /// A stream writes it.
    is_growing: bool,
}

fn look(typed: &Path, places: &Places) -> Result<Mark> {
    let refuse = |kind, cause: &str| {
        let shown = Escaped(typed.as_os_str().as_bytes());
        Failure::new(kind, "look at a file", format!("`{shown}`: {cause}"))
    };
    let of_io = |error: io::Error| {
        let failure = failure::of_io("look at a file", &error);
        refuse(failure.kind, &failure.cause).because(failure.reason)
    };
    let found = match std::fs::symlink_metadata(typed) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_local(typed, places) => {
            return Err(refuse(
                FailureKind::Usage,
                "marks are at the destination: run `thalweg mark` there, with the path that the file has on that machine",
            ));
        }
        other => other.map_err(of_io)?,
    };
    if found.is_symlink() {
        return Err(refuse(FailureKind::Conflict, "it is a link: name the file that it leads to"));
    }
    if found.is_dir() {
        return Err(refuse(FailureKind::Conflict, "it is a directory: name the files in it"));
    }
    if !found.is_file() {
        return Err(refuse(FailureKind::Conflict, "it is no regular file"));
    }
    // Through links on the way: the stream's destination may be above them.
    let path = std::fs::canonicalize(typed).map_err(of_io)?;
    let mut closed = None;
    // The stream's destination is the directory of the file, or one above it.
    for parent in path.ancestors().skip(1) {
        let (Ok(dir), Ok(name)) = (Dir::open(parent), path.strip_prefix(parent)) else { continue };
        if let Some(known) = marks::look_up(&dir, name.as_os_str().as_bytes()) {
            return Ok(Mark { bytes: known.bytes, is_growing: true });
        }
        if is_closed(&dir, name.as_os_str().as_bytes()) {
            closed.get_or_insert(parent.to_owned());
        }
    }
    match closed {
        None => Ok(Mark { bytes: found.len(), is_growing: false }),
        Some(parent) => {
            let parent = Escaped(parent.as_os_str().as_bytes()).to_string();
            let cause = format!(
                "whether a stream writes it is noted in `{parent}`, where only the user may read it who writes there"
            );
            Err(refuse(FailureKind::Permission, &cause))
        }
    }
}

fn is_local(typed: &Path, places: &Places) -> bool {
    matches!(Place::parse(typed.as_os_str(), places), Ok(Place::Local(_)))
}

/// Whether something unfinished is noted there that this user may not read.
fn is_closed(dir: &Dir, entry: &[u8]) -> bool {
    let refused = |name: &Vec<u8>| {
        let staging = dir.open_beneath(name, Links::Refuse).and_then(|staging| staging.entries());
        // No directory of that name, or a link of it, is none of ours.
        staging.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    staging_names::names(dir, entry).iter().any(refused)
}
