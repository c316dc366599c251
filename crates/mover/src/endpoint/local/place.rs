//! From the words for a destination to its root, as rsync reads them.
//!
//! A single file that goes to something that is no directory gets that as its new name; everything else goes
//! into the directory named, which is made with all that is missing above it.

use super::{failed_at_place, is_in_staging, is_staging, of_room, shown};
use crate::endpoint::OPEN_DESTINATION;
use crate::failure::{self, Failure, FailureKind, Result};
use std::borrow::Cow;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use thalweg_sys::{Dir, Links, process};
use thalweg_wire::RelativePath;
use thalweg_wire::message::SourceForm;

/// Where to write.
pub struct DestinationPlace {
    /// The path as the user wrote it; relative to `below` if that is given.
    pub path: PathBuf,
    /// The export that `path` must not leave.
    pub below: Option<Dir>,
}

impl DestinationPlace {
    /// The mode of directories that are made on the way, which have no source: what `mkdir -p` would give them, and
    /// their owner makes names in them. In an export others do not, whatever umask the daemon has.
    pub(super) fn made_mode(&self) -> u32 {
        self.unmasked() | 0o700
    }

    /// The permission bits that the user's umask leaves, in an export without those for others to write.
    pub(super) fn unmasked(&self) -> u32 {
        let mode = process::user_directory_mode();
        if self.below.is_some() { mode & 0o755 } else { mode }
    }
}

/// What the path of a destination leads to.
pub(super) struct Resolved {
    /// `None`: it is not there, and nothing may be made (a dry run).
    pub(super) root: Option<Arc<Dir>>,
    /// The words for the root itself.
    pub(super) words: PathBuf,
    /// The single entry's own name and the one it gets.
    pub(super) rename: Option<(Vec<u8>, Vec<u8>)>,
    /// The root was made just now.
    pub(super) is_new: bool,
    /// Directories in which names were made on the way.
    pub(super) made_in: Vec<Arc<Dir>>,
    /// The first of the directories above what was named that were missing, and were made (in a dry run: would be).
    pub(super) missing_above: Option<PathBuf>,
    /// Bytes that an ordinary user can write in the root, or in what it would be made in.
    pub(super) free_bytes: Option<u64>,
}

pub(super) fn resolve(
    place: &DestinationPlace,
    source: &SourceForm,
    trailing_slash: bool,
    dry_run: bool,
) -> Result<Resolved> {
    let mut maker = Maker { place, dry_run, made_in: Vec::new(), first_missing: None, free_bytes: None };
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
            return Err(Failure::new(FailureKind::Usage, OPEN_DESTINATION, cause));
        };
        let words = parent_words(&place.path);
        let root = maker.make_all(&words)?;
        let rename = Some((name.clone(), new.as_bytes().to_vec()));
        let Maker { made_in, first_missing: missing_above, free_bytes, .. } = maker;
        let is_new = !made_in.is_empty();
        return Ok(Resolved { root, words, rename, is_new, made_in, missing_above, free_bytes });
    }
    let root = maker.make_all(&place.path)?;
    // The directory that was named is made as a matter of course.
    let Maker { made_in, first_missing, free_bytes, .. } = maker;
    let missing_above = first_missing.filter(|first| *first != place.path);
    let (words, is_new) = (place.path.clone(), !made_in.is_empty());
    Ok(Resolved { root, words, rename: None, is_new, made_in, missing_above, free_bytes })
}

impl Resolved {
    /// The path of an entry at the destination: another one only for a single entry that gets a new name.
    pub(super) fn final_path<'a>(&self, path: &'a RelativePath) -> Cow<'a, RelativePath> {
        match &self.rename {
            Some((from, to)) if path.as_bytes() == from => {
                RelativePath::new(to.clone()).map_or(Cow::Borrowed(path), Cow::Owned)
            }
            _ => Cow::Borrowed(path),
        }
    }
}

struct Maker<'a> {
    place: &'a DestinationPlace,
    dry_run: bool,
    made_in: Vec<Arc<Dir>>,
    first_missing: Option<PathBuf>,
    /// Of what is there.
    free_bytes: Option<u64>,
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
        // Loops: a peer may say how many levels are missing, and a stack has an end.
        let mut missing = Vec::new();
        let mut at = path;
        let mut dir = loop {
            let error = match self.open(at) {
                Ok(dir) => break Arc::new(dir),
                Err(error) => error,
            };
            match (error.kind(), at.file_name(), at.parent()) {
                (io::ErrorKind::NotFound, Some(name), Some(parent)) => {
                    missing.push((at, name));
                    at = parent;
                }
                _ => return Err(not_opened(self.place, at, error)),
            }
        };
        // By whatever links: who wrote in there could put other content under what another transfer makes.
        if is_in_staging(&dir, self.place.below.as_ref())
            || missing.iter().any(|(_, name)| is_staging(name.as_bytes()))
        {
            let cause = format!("{} is where thalweg keeps what is unfinished", shown(path));
            return Err(Failure::new(FailureKind::Conflict, OPEN_DESTINATION, cause));
        }
        // One that has no size, as some served by a program, does not say what it holds.
        let system = dir.file_system().ok().filter(|system| system.bytes_total > 0);
        self.free_bytes = system.map(|system| system.bytes_available);
        if let Some((first, _)) = missing.last() {
            self.first_missing.get_or_insert_with(|| first.to_path_buf());
            if self.dry_run {
                return Ok(None);
            }
        }
        for (path, name) in missing.into_iter().rev() {
            match dir.make_dir(name.as_bytes(), self.place.made_mode()) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    let failure = failure::of_io(OPEN_DESTINATION, &of_room(&dir, error));
                    let failure = of_export(failure, self.place, &parent_words(path));
                    return Err(super::at_words(failure, path));
                }
                _ => {}
            }
            // A dangling link is there and leads nowhere: refused, not followed.
            let made = dir.open_beneath(name.as_bytes(), Links::Refuse).map_err(|error| match error {
                error if super::is_errno(&error, super::errno::LOOP) => {
                    not_opened(self.place, path, io::ErrorKind::NotADirectory.into())
                }
                error => not_opened(self.place, path, error),
            })?;
            self.made_in.push(std::mem::replace(&mut dir, Arc::new(made)));
        }
        Ok(Some(dir))
    }
}

/// The failure of what was to be made in `words`, with its cause where that is an export's own directory: the daemon
/// holds it open, and nothing can be made in it once it was removed.
pub(super) fn of_export(failure: Failure, place: &DestinationPlace, words: &Path) -> Failure {
    let is_export = place.below.is_some()
        && words.components().all(|component| matches!(component, Component::RootDir | Component::CurDir));
    match failure.kind {
        FailureKind::NotFound if is_export => {
            let cause =
                "the export's directory was removed or replaced: reload the daemon (SIGHUP) or start it anew";
            Failure { cause: cause.to_owned(), ..failure }
        }
        _ => failure,
    }
}

fn not_opened(place: &DestinationPlace, path: &Path, error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            let cause = format!("{} is not a directory", shown(path));
            Failure::new(FailureKind::Conflict, OPEN_DESTINATION, cause)
        }
        _ => failed_at_place(OPEN_DESTINATION, path, place.below.is_some(), &error),
    }
}

pub(super) fn parent_words(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(below: &Path, path: &str, dry_run: bool) -> Result<Resolved> {
        let place = DestinationPlace { path: path.into(), below: Some(Dir::open(below).unwrap()) };
        resolve(&place, &SourceForm::Many, true, dry_run)
    }

    #[test]
    fn what_is_missing_above_a_place_is_made_from_the_top_and_named() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("there")).unwrap();
        let dry = resolved(scratch.path(), "there/a/b/c", true).unwrap();
        assert!(dry.root.is_none() && dry.made_in.is_empty());
        assert_eq!(dry.missing_above.as_deref(), Some(Path::new("there/a")));
        assert!(!scratch.path().join("there/a").exists());
        let made = resolved(scratch.path(), "there/a/b/c", false).unwrap();
        assert!(made.root.is_some() && scratch.path().join("there/a/b/c").is_dir());
        assert_eq!((made.made_in.len(), made.missing_above), (3, dry.missing_above));
    }

    #[test]
    fn what_a_link_leads_out_to_is_not_told_from_what_is_not_there() {
        let scratch = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("..", scratch.path().join("out")).unwrap();
        std::os::unix::fs::symlink("loop", scratch.path().join("loop")).unwrap();
        for path in ["out/x", "loop/x", "loop"] {
            let refused = resolved(scratch.path(), path, false).err().expect(path);
            assert_eq!(refused.kind, FailureKind::NotFound, "{refused}");
            assert_eq!(refused.cause, format!("the export has no `{path}`"));
        }
    }

    #[test]
    fn nothing_is_written_where_unfinished_files_are_kept() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join(".thalweg-staging/job")).unwrap();
        std::os::unix::fs::symlink(".thalweg-staging/job", scratch.path().join("way")).unwrap();
        for path in [
            ".thalweg-staging",
            ".thalweg-staging/job",
            ".thalweg-staging/new/x",
            "way",
            "way/x",
            "a/.thalweg-staging",
        ] {
            let refused = resolved(scratch.path(), path, false).err().expect(path);
            assert_eq!(refused.kind, FailureKind::Conflict, "{path}: {refused}");
        }
        let own = scratch.path().join(".thalweg-staging/job");
        assert!(resolved(&own, ".", false).is_ok(), "a scratch directory of our own is in there");
        assert!(!scratch.path().join(".thalweg-staging/new").exists() && !scratch.path().join("a").exists());
    }

    /// Programs that clear their umask keep the user's; this one does not.
    #[test]
    fn what_is_made_on_the_way_is_the_users_to_mask_and_in_an_export_not_for_others_to_write_in() {
        let scratch = tempfile::tempdir().unwrap();
        let mode = |below| DestinationPlace { path: "a".into(), below }.made_mode();
        assert_eq!(mode(None), 0o777, "the kernel masks it");
        assert_eq!(mode(Some(Dir::open(scratch.path()).unwrap())), 0o755);
    }

    /// A stack that overflows ends the process.
    #[test]
    fn a_place_of_many_levels_takes_no_stack_for_each() {
        let scratch = tempfile::tempdir().unwrap();
        let below = scratch.path().to_path_buf();
        let deep = vec!["a"; thalweg_wire::limits::PLACE_LEVELS_MAX].join("/");
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let dry = small.spawn(move || resolved(&below, &deep, true).map(|dry| dry.missing_above));
        let missing = dry.unwrap().join().unwrap().unwrap();
        assert_eq!(missing.as_deref(), Some(Path::new("a")));
    }
}
