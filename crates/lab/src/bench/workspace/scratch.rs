//! The directory of a workspace: locked as long as it is in use, so that what killed runs left is told from it and
//! removed.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What scratch directories are called, before the number of the process and a random one.
const NAME: &str = "thalweg-bench-";

/// Digits of the random number.
const NAME_DIGITS: usize = 8;

/// Names that are tried.
const NAMES: usize = 100;

/// A directory of its own, with its lock; it goes with the value.
pub(super) struct Scratch {
    /// Where it is.
    pub path: PathBuf,
    _lock: OwnedFd,
}

impl Scratch {
    /// Makes one in `parent`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(parent: &Path) -> io::Result<Scratch> {
        let (path, lock) = make(parent)?;
        Ok(Scratch { path, _lock: lock })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes scratch directories of ours whose run was killed: nobody holds their lock, here or at another machine of a
/// shared file system. Numbers of processes say nothing: in a container the next run has that of the last.
pub(super) fn remove_deserted(parent: &Path, hear: &mut dyn FnMut(&str)) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(is_scratch) {
            continue;
        }
        let path = entry.path();
        let is_ours = fs::symlink_metadata(&path)
            .is_ok_and(|meta| meta.is_dir() && meta.uid() == thalweg_sys::user::effective_uid());
        if !is_ours {
            continue;
        }
        let Ok(_held) = lock(&path) else { continue };
        hear(&match fs::remove_dir_all(&path) {
            Ok(()) => format!("removed what a killed run left: {}", path.display()),
            Err(error) => format!("cannot remove what a killed run left: {}: {error}", path.display()),
        });
    }
}

/// A scratch directory with its lock.
fn make(parent: &Path) -> io::Result<(PathBuf, OwnedFd)> {
    for _ in 0..NAMES {
        // Each state of a hasher begins with another key.
        let random = RandomState::new().hash_one(()) as u32;
        let directory = parent.join(format!("{NAME}{}-{random:0NAME_DIGITS$x}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        // A run that clears what killed runs left may have come before the lock: then it takes this one away.
        match lock(&directory) {
            Ok(held) if is_it(&directory, &held) => return Ok((directory, held)),
            Ok(_) => {}
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::NotFound].contains(&error.kind()) => {}
            Err(error) => {
                let _ = fs::remove_dir(&directory);
                return Err(error);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{NAMES} names are taken")))
}

/// Whether what is open is what has the name.
fn is_it(directory: &Path, held: &OwnedFd) -> bool {
    let named = fs::symlink_metadata(directory);
    let open = rustix::fs::fstat(held);
    named.is_ok_and(|named| open.is_ok_and(|open| (named.dev(), named.ino()) == (open.st_dev, open.st_ino)))
}

fn lock(directory: &Path) -> io::Result<OwnedFd> {
    let held = OwnedFd::from(fs::File::open(directory)?);
    rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    Ok(held)
}

/// Whether a directory of this name is a scratch directory.
fn is_scratch(name: &str) -> bool {
    let numbers = name.strip_prefix(NAME).and_then(|numbers| numbers.split_once('-'));
    numbers.is_some_and(|(pid, random)| {
        pid.parse::<u32>().is_ok()
            && random.len() == NAME_DIGITS
            && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Wishes;
    use crate::bench::workspace::Workspace;

    fn wishes(directory: &Path) -> Wishes {
        Wishes { directory: directory.to_owned(), ..Wishes::default() }
    }

    fn workspace(wishes: &Wishes, told: &mut Vec<String>) -> Workspace {
        Workspace::new(wishes, 1, &mut |line| told.push(line.to_owned())).unwrap()
    }

    /// In a container the next run has the number of the killed one, and this process has its own.
    #[test]
    fn what_a_killed_run_of_the_same_number_left_is_removed_and_what_is_in_use_or_anothers_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let left = at(&format!("{NAME}{}-0123abcd", std::process::id()));
        let others = [at("thalweg-bench-results"), at("thalweg-bench-7-results"), at("thalweg-bench-7")];
        fs::create_dir(&left).unwrap();
        others.iter().for_each(|other| fs::create_dir(other).unwrap());
        let mut told = Vec::new();
        let one = workspace(&wishes(scratch.path()), &mut told);
        assert!(!left.exists() && told[0].contains("removed what a killed run left"), "{told:?}");
        let two = workspace(&wishes(scratch.path()), &mut told);
        assert_eq!(told.len(), 1, "of the same process, and in use: {told:?}");
        assert!(one.path("config.toml").exists() && two.path("config.toml").exists());
        assert!(others.iter().all(|other| other.is_dir()));
        drop((one, two));
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), others.len());
    }
}
