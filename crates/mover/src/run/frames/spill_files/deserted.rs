//! Logs that nobody can go on with: of hubs that were killed, with what only their memory knew the order of.

use super::{LOCK, RECORDED, RECORDED_NEW, SUFFIX, number_of};
use crate::failure::{self, Result};
use crate::journal::staging_names::is_staging;
use std::collections::VecDeque;
use std::io;
use thalweg_sys::dir::Links;
use thalweg_sys::{Dir, File, Kind};

/// What fails of them.
const CLEAR_LOGS: &str = "clear spill logs";
/// Names that are looked at for them at the start of a daemon, and directories that are looked into: some seconds on a
/// file server, if it is not busy.
const LOOKED_AT_MAX: usize = 1 << 16;
/// Of [`log_signature`].
const SIGNATURE_BYTES: usize = 32;
/// See [`LOOKED_AT_MAX`].
const LOOKED_INTO_MAX: usize = 1 << 10;

/// Removes what hubs that were killed left in this directory of logs that had only what their memory did not hold:
/// nobody can go on with those. What is recorded stays, and what a hub has.
///
/// # Errors
/// What the file system says.
pub fn remove_deserted(below: &Dir) -> Result<()> {
    let of_io = |error: io::Error| failure::of_io(CLEAR_LOGS, &error);
    for entry in below.entries().map_err(of_io)? {
        let name = entry.map_err(of_io)?.name;
        if name.ends_with(SUFFIX) {
            remove_if_deserted(below, &name, false).map_err(of_io)?;
        }
    }
    Ok(())
}

/// The same at all levels, but for staging directories and what is behind links: in the [`LOOKED_INTO_MAX`] directories
/// that are nearest to the top, as far as [`LOOKED_AT_MAX`] names in them tell, and while `goes_on` says so, asked
/// before each directory and name. As other programs write there, a directory goes only if it has nothing but what hubs
/// make, and is closed to others as theirs are, and was this machine's. Whether all of them were looked at.
///
/// # Errors
/// What the file system says of one that was to go; the others go.
pub fn remove_deserted_below(top: &Dir, goes_on: &mut dyn FnMut() -> bool) -> Result<bool> {
    let (mut names, mut directories) = (LOOKED_AT_MAX, LOOKED_INTO_MAX);
    let (mut is_all, mut failed) = (true, None);
    let mut paths = VecDeque::from([Vec::new()]);
    while let Some(path) = paths.pop_front() {
        // Of empty ones there is no name before which it would be asked.
        if !goes_on() {
            return failed.map_or(Ok(false), Err);
        }
        let opened = match path.is_empty() {
            true => top.try_clone(),
            false => top.open_beneath(&path, Links::Refuse),
        };
        // What nobody may look into, no hub of this user has made.
        let Ok(dir) = opened else { continue };
        let Ok(entries) = dir.entries() else { continue };
        for entry in entries {
            let Ok(entry) = entry else { break };
            if names == 0 || !goes_on() {
                return failed.map_or(Ok(false), Err);
            }
            names -= 1;
            if !matches!(entry.kind, Kind::Dir | Kind::Unknown) || is_staging(&entry.name) {
                continue;
            }
            if entry.name.ends_with(SUFFIX) {
                if let Err(error) = remove_if_deserted(&dir, &entry.name, true) {
                    failed.get_or_insert_with(|| failure::of_io(CLEAR_LOGS, &error));
                }
                continue;
            }
            if directories > 0 {
                let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
                paths.push_back([&path[..], slash, &entry.name].concat());
            }
            is_all &= directories > 0;
            directories = directories.saturating_sub(1);
        }
    }
    failed.map_or(Ok(is_all), Err)
}

/// Says in the lock of a log which machine has it.
///
/// # Errors
/// What the file system says.
pub(super) fn sign(lock: &File) -> io::Result<()> {
    lock.truncate(0)?;
    lock.write_all_at(&log_signature(), 0)
}

/// What the lock of a log says that this machine has, the same after every boot.
pub fn log_signature() -> [u8; SIGNATURE_BYTES] {
    blake3::derive_key("thalweg 2026-11 machine of a spill log", &thalweg_sys::machine::identity())
}

/// Whether a hub of this machine had the lock last: on some file servers nobody sees the locks of other machines.
fn is_signed_here(lock: &File) -> io::Result<bool> {
    let mut found = [0; SIGNATURE_BYTES + 1];
    let count = lock.read_at(&mut found, 0)?;
    Ok(found[..count] == log_signature())
}

/// Removes one log, unless it is recorded, or a hub has it; `is_among_others`: or something in it is not a hub's, or it
/// is another machine's.
fn remove_if_deserted(below: &Dir, name: &[u8], is_among_others: bool) -> io::Result<()> {
    let Ok(dir) = below.open_beneath(name, Links::Refuse) else { return Ok(()) };
    if dir.stat(RECORDED).is_ok() || is_among_others && !is_only_ours(&dir)? {
        return Ok(());
    }
    let Ok(lock) = dir.open_read_write(LOCK) else { return Ok(()) };
    if is_among_others && !is_signed_here(&lock)? {
        return Ok(());
    }
    // Who has the lock may yet begin to record.
    if !lock.lock_exclusive()? || dir.stat(RECORDED).is_ok() {
        return Ok(());
    }
    for entry in dir.entries()? {
        let name = entry?.name;
        if number_of(&name).is_some() || name == RECORDED_NEW {
            dir.remove_file(&name)?;
        }
    }
    dir.remove_file(LOCK)?;
    // What is not ours stays, and the directory with it.
    let _ = below.remove_dir(name);
    Ok(())
}

/// Whether a hub made it, as far as it shows.
fn is_only_ours(dir: &Dir) -> io::Result<bool> {
    if dir.stat_self()?.mode & 0o077 != 0 {
        return Ok(false);
    }
    for entry in dir.entries()? {
        let name = entry?.name;
        if number_of(&name).is_none() && name != RECORDED_NEW && name != LOCK {
            return Ok(false);
        }
    }
    Ok(true)
}
