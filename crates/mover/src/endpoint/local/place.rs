//! From the words for a destination to its root, as rsync reads them.
//!
//! A single file that goes to something that is no directory gets that as its new name; everything else goes
//! into the directory named, which is made with all that is missing above it.

use super::{failed_at_words, shown};
use crate::failure::{Failure, FailureKind, Result};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_sys::{Dir, Links};
use thalweg_wire::message::SourceForm;

/// Where to write.
pub struct DestinationPlace {
    /// The path as the user wrote it; relative to `below` if that is given.
    pub path: PathBuf,
    /// The export that `path` must not leave.
    pub below: Option<Dir>,
}

pub(super) struct Resolved {
    /// `None`: it is not there, and nothing may be made (a dry run).
    pub(super) root: Option<Arc<Dir>>,
    /// The words for the root itself.
    pub(super) words: PathBuf,
    /// The single entry's own name and the one it gets.
    pub(super) rename: Option<(Vec<u8>, Vec<u8>)>,
    /// Directories in which names were made on the way.
    pub(super) made_in: Vec<Arc<Dir>>,
    /// The first of the directories above what was named that were missing, and were made (in a dry run: would be).
    pub(super) missing_above: Option<PathBuf>,
}

pub(super) fn resolve(
    place: &DestinationPlace,
    source: &SourceForm,
    trailing_slash: bool,
    dry_run: bool,
) -> Result<Resolved> {
    let mut maker = Maker { place, dry_run, made_in: Vec::new(), first_missing: None };
    let there = maker.open(&place.path);
    let is_missing = match &there {
        Ok(_) => false,
        Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    };
    if let SourceForm::Single { name } = source
        && is_missing
        && !trailing_slash
    {
        let Some(new) = place.path.file_name() else {
            let cause = format!("{} has no last component to name the file after", shown(&place.path));
            return Err(Failure::new(FailureKind::Usage, "open the destination", cause));
        };
        let words = parent_words(&place.path);
        let root = maker.make_all(&words)?;
        let rename = Some((name.clone(), new.as_bytes().to_vec()));
        let missing_above = maker.first_missing;
        return Ok(Resolved { root, words, rename, made_in: maker.made_in, missing_above });
    }
    let root = maker.make_all(&place.path)?;
    // The directory that was named is made as a matter of course.
    let missing_above = maker.first_missing.filter(|first| *first != place.path);
    Ok(Resolved { root, words: place.path.clone(), rename: None, made_in: maker.made_in, missing_above })
}

struct Maker<'a> {
    place: &'a DestinationPlace,
    dry_run: bool,
    made_in: Vec<Arc<Dir>>,
    first_missing: Option<PathBuf>,
}

impl Maker<'_> {
    fn open(&self, path: &Path) -> io::Result<Dir> {
        match &self.place.below {
            Some(below) => {
                let bytes = path.as_os_str().as_bytes();
                let slashes = bytes.iter().take_while(|&&byte| byte == b'/').count();
                below.open_beneath(&bytes[slashes..], Links::Beneath)
            }
            None if path.as_os_str().is_empty() => Dir::open(Path::new(".")),
            None => Dir::open(path),
        }
    }

    /// Opens `path`, making what is missing of it. What another process makes meanwhile is taken as it is.
    fn make_all(&mut self, path: &Path) -> Result<Option<Arc<Dir>>> {
        let of_io = |error: io::Error| match error.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                let cause = format!("{} is not a directory", shown(path));
                Failure::new(FailureKind::Conflict, "open the destination", cause)
            }
            _ => failed_at_words("open the destination", path, &error),
        };
        let missing = match self.open(path) {
            Ok(dir) => return Ok(Some(Arc::new(dir))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => error,
            Err(error) => return Err(of_io(error)),
        };
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
            return Err(of_io(missing));
        };
        let Some(parent) = self.make_all(parent)? else { return Ok(None) };
        self.first_missing.get_or_insert_with(|| path.to_path_buf());
        if self.dry_run {
            return Ok(None);
        }
        // Not for others to write in, should the process have no umask.
        match parent.make_dir(name.as_bytes(), 0o755) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(of_io(error)),
            _ => {}
        }
        // A dangling link is there and leads nowhere: refused, not followed.
        let made = parent.open_beneath(name.as_bytes(), Links::Refuse).map_err(|error| match error {
            error if super::is_errno(&error, super::errno::LOOP) => {
                of_io(io::ErrorKind::NotADirectory.into())
            }
            error => of_io(error),
        })?;
        self.made_in.push(parent);
        Ok(Some(Arc::new(made)))
    }
}

pub(super) fn parent_words(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::new(),
    }
}
