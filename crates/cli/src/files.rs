//! Files that a command writes because its user asked for them: reports, figures, drawings.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_sys::atomic_file::{self, AtomicFile, Durability};
use thalweg_wire::path::Escaped;

/// Writes a file that is there as a whole, or as it was; not synced, with the mode that the user's umask leaves.
///
/// # Errors
/// With the operation and the path: what the kernel says; `Usage` for a path that does not end in a name, or under
/// which a device, a FIFO or a socket stands.
pub fn write_whole(operation: &str, path: &Path, bytes: &[u8]) -> Result<()> {
    let written = atomic_file::write(path, bytes, thalweg_sys::process::user_mode(), Durability::Unsynced);
    written.map_err(|error| not_written(operation, path, &error))
}

/// Whether such a file could be written: for who works long for what it is to hold. Nothing stays of the attempt.
///
/// # Errors
/// As [`write_whole`].
pub fn can_be_written(operation: &str, path: &Path) -> Result<()> {
    let begun = AtomicFile::begin(path, thalweg_sys::process::user_mode(), Durability::Unsynced);
    begun.map(drop).map_err(|error| not_written(operation, path, &error))
}

/// Whether one file is under both names, links followed.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let which = |path: &Path| std::fs::metadata(path).ok().map(|there| (there.dev(), there.ino()));
    which(one).is_some_and(|one| which(other) == Some(one))
}

/// Refuses to write over what was read, by whatever name: what was measured cannot be made again of what is made of it.
///
/// # Errors
/// `Usage` with both names.
pub fn refuse_input(operation: &str, out: &Path, inputs: &[PathBuf]) -> Result<()> {
    let Some(input) = inputs.iter().find(|input| is_same(out, input)) else { return Ok(()) };
    let shown = |path: &Path| Escaped(path.as_os_str().as_bytes()).to_string();
    let (out, input) = (shown(out), shown(input));
    let cause = format!("`{out}`: would replace `{input}`, which is read: name another --out");
    Err(Failure::new(FailureKind::Usage, operation, cause))
}

fn not_written(operation: &str, path: &Path, error: &atomic_file::Error) -> Failure {
    failure::at_path(failure::of_io(operation, &error.cause), path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody else made it beforehand, where all may write.
    #[test]
    fn a_link_under_a_name_that_could_be_foretold_is_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("out");
        let others = scratch.path().join("others");
        std::fs::write(&others, "theirs").unwrap();
        let pid = std::process::id();
        for name in [format!(".out.{pid}"), format!(".out.{pid}.tmp"), format!("out.{pid}")] {
            std::os::unix::fs::symlink(&others, scratch.path().join(name)).unwrap();
        }
        write_whole("write", &path, b"ours").unwrap();
        assert_eq!(std::fs::read_to_string(&others).unwrap(), "theirs");
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "ours");
    }

    #[test]
    fn what_cannot_be_written_is_told_with_its_path() {
        let scratch = tempfile::tempdir().unwrap();
        let failure = write_whole("write the report", &scratch.path().join("none/out\n"), b"").unwrap_err();
        assert_eq!(failure.operation, "write the report");
        assert!(failure.cause.contains("none/out\\x0a"), "{failure}");
    }
}
