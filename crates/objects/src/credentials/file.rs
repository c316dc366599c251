//! Files that a user or a platform keeps for us: small, and read anew whenever they are needed.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use thalweg_mover::failure::{at_path, of_io};
use thalweg_mover::{Failure, FailureKind, Result};

/// The text of a file of at most `bytes_max` bytes; `None` if there is none.
///
/// # Errors
/// `Usage` if it is longer, is no text, or is a pipe or a socket, which might be waited for without end; else what the
/// kernel says.
pub(super) fn text(path: &Path, bytes_max: usize) -> Result<Option<String>> {
    let fail = |error: &io::Error| at_path(of_io("read", error), path);
    let refuse = |why: &str| at_path(Failure::new(FailureKind::Usage, "read", why), path);
    let kind = match path.metadata() {
        Ok(metadata) => metadata.file_type(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(fail(&error)),
    };
    if kind.is_fifo() || kind.is_socket() {
        return Err(refuse("it is no file"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| fail(&error))?;
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(|error| fail(&error))?;
    if bytes.len() > bytes_max {
        return Err(refuse(&format!("it has more than {bytes_max} bytes")));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| refuse("it is no text in UTF-8"))
}
