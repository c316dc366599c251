//! Where a link of a place leads that is followed: to what a copy with `--copy-links` would find there.

use super::SurveyPlace;
use crate::endpoint::OPEN;
use crate::endpoint::local::source::Spot;
use crate::endpoint::local::source::follow::end_of;
use crate::failure::Result;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_sys::{Dir, Kind, Stat};

/// What a link leads to.
pub(super) enum End {
    /// A directory, which may have no name of its own.
    Directory(Dir, Stat),
    /// What has this name there, and is no directory.
    Name(Arc<Dir>, Vec<u8>, Stat),
}

impl SurveyPlace {
    /// The words that lead to this path below the place.
    pub(super) fn words_of(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.path.clone() } else { self.path.join(OsStr::from_bytes(path)) }
    }

    /// Follows the link that is `name` in `dir`, and to which these words lead too.
    pub(super) fn follow(&self, words: &Path, dir: &Arc<Dir>, name: &[u8]) -> io::Result<End> {
        let closed = match self.open_dir(words) {
            Ok(child) => {
                let stat = child.stat_self()?;
                return Ok(End::Directory(child, stat));
            }
            Err(error) => error,
        };
        let end = end_of(words, Spot { dir: dir.clone(), name: name.to_vec() }, self.below.as_ref())?;
        let stat = end.dir.stat(&end.name)?;
        if stat.kind == Kind::Dir { Err(closed) } else { Ok(End::Name(end.dir, end.name, stat)) }
    }

    /// What has the last name of the place, or what that leads to where links are followed.
    ///
    /// # Errors
    /// As [`super::list`].
    pub(super) fn end(&self, dir: Dir, name: Vec<u8>, stat: Stat) -> Result<(Arc<Dir>, Vec<u8>, Stat)> {
        let dir = Arc::new(dir);
        if !self.follow_links || stat.kind != Kind::Symlink {
            return Ok((dir, name, stat));
        }
        match self.follow(&self.path, &dir, &name) {
            Ok(End::Name(dir, name, stat)) => Ok((dir, name, stat)),
            // It came meanwhile.
            Ok(End::Directory(..)) => Err(self.failed(OPEN, &io::ErrorKind::IsADirectory.into())),
            Err(error) => Err(self.failed(OPEN, &error)),
        }
    }
}
