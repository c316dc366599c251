//! From the words for a source to what reads it.

use super::files::{FilesFeed, FilesSpec};
use super::pipe::{PipeFeed, refuse_other_ends};
use super::{Feed, Taker};
use crate::endpoint::OPEN;
use crate::endpoint::local::{failed_at_place, is_in_staging, of_source};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::retry::Rule;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_sys::{Dir, Kind, Links, Stat};
use thalweg_wire::RelativePath;
use thalweg_wire::message::{SourceForm, Until};

/// Where to read.
pub struct GrowingPlace {
    /// The path as the user wrote it; relative to `below` if that is given.
    pub path: PathBuf,
    /// The export that `path` must not leave.
    pub below: Option<Dir>,
}

/// What reads a place: a file, all files in a directory, or a FIFO; and what names depend on. A trailing slash on a
/// directory means its contents, as for copies. If nobody says when a single file is complete, it is when nobody has it
/// open for writing; without `--until` a directory never is.
///
/// # Errors
/// `NotFound`, unless it is to be waited for; `Permission`, `Io`; `Unsupported` for what neither grows nor flows;
/// `Usage` for an end that it cannot have.
pub fn open(place: &GrowingPlace, until: &Until, piece_bytes: usize) -> Result<(Box<dyn Feed>, SourceForm)> {
    let of_io = |error: &io::Error| place.failed(error);
    let is_contents = place.path.as_os_str().as_bytes().ends_with(b"/");
    let name = place.path.file_name().map(|name| name.as_bytes().to_vec());
    let mut until = until.clone();
    let opened = place.dir(&place.path);
    let is_waited_for = until.wait
        && is_contents
        && opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if opened.is_ok() || is_waited_for {
        if until.bytes.is_some() {
            let cause = "a size is of a single file; a directory ends by --until-idle or --until-marker";
            return Err(Failure::new(FailureKind::Usage, OPEN, cause));
        }
        let prefix = match name.as_ref().filter(|_| !is_contents) {
            Some(name) => RelativePath::new(name.clone()).map_err(|error| usage(&error.to_string()))?,
            None => RelativePath::default(),
        };
        until.closed = true;
        let rule = Rule::of(&until, false);
        let named = place.try_clone().map_err(|error| of_io(&error))?;
        let spec = move |dir| {
            let place = Some(named);
            FilesSpec { dir, place, name: None, below: None, prefix, until, piece_bytes }
        };
        let feed: Box<dyn Feed> = match opened {
            Ok(dir) => Box::new(FilesFeed::new(spec(dir))),
            Err(_) => Box::new(ComingDirectory {
                place: place.try_clone().map_err(|error| of_io(&error))?,
                spec: Box::new(spec),
                rule,
            }),
        };
        return Ok((feed, SourceForm::Many));
    }
    match opened {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => {}
        Err(error) => return Err(of_io(&error)),
    }
    let Some(name) = name else { return Err(usage("the place has no name")) };
    let parent = place.path.parent().unwrap_or(Path::new(""));
    let dir = place.dir(parent).map_err(|error| of_io(&error))?;
    match dir.stat(&name) {
        Ok(stat) if stat.kind == Kind::Fifo => {
            refuse_other_ends(&until)?;
            let path = RelativePath::new(name.clone()).map_err(|error| usage(&error.to_string()))?;
            let fifo = dir.open_fifo(&name).map_err(|error| of_io(&error))?;
            let feed = PipeFeed::new(fifo.into(), path, piece_bytes);
            return Ok((Box::new(feed), SourceForm::Single { name }));
        }
        Ok(stat) if stat.kind == Kind::File => {}
        Ok(_) => {
            let cause = "it is neither a file nor a directory nor a FIFO";
            return Err(Failure::new(FailureKind::Unsupported, OPEN, cause));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && until.wait => {}
        Err(error) => return Err(of_io(&error)),
    }
    if until.idle_ms.is_none() && until.bytes.is_none() && until.marker.is_none() && !until.forever {
        until.closed = true;
    }
    let prefix = RelativePath::default();
    let below = place.below.as_ref().map(Dir::try_clone).transpose().map_err(|error| of_io(&error))?;
    let above = place.try_clone().map_err(|error| of_io(&error))?;
    let above = Some(GrowingPlace { path: parent.to_path_buf(), ..above });
    let spec = FilesSpec { dir, place: above, name: Some(name.clone()), below, prefix, until, piece_bytes };
    Ok((Box::new(FilesFeed::new(spec)), SourceForm::Single { name }))
}

/// A directory that is not there yet.
struct ComingDirectory<S> {
    place: GrowingPlace,
    /// What is streamed of it.
    spec: Box<S>,
    rule: Rule,
}

/// Between two looks whether it has come.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl<S: FnOnce(Dir) -> FilesSpec + Send> Feed for ComingDirectory<S> {
    fn rule(&self) -> Rule {
        self.rule
    }

    fn run(self: Box<Self>, taker: &dyn Taker) {
        while !taker.is_over() {
            match self.place.dir(&self.place.path) {
                Ok(dir) => return Box::new(FilesFeed::new((self.spec)(dir))).run(taker),
                Err(error) if error.kind() == io::ErrorKind::NotFound => std::thread::sleep(LOOK_AGAIN),
                Err(error) => return taker.failed(self.place.failed(&error)),
            }
        }
    }
}

impl GrowingPlace {
    fn failed(&self, error: &io::Error) -> Failure {
        let failure = match self.below.is_some() {
            true => failed_at_place(OPEN, &self.path, true, error),
            false => failure::at_path(failure::of_io(OPEN, error), &self.path),
        };
        of_source(failure, &self.path)
    }

    fn try_clone(&self) -> io::Result<GrowingPlace> {
        let below = self.below.as_ref().map(Dir::try_clone).transpose()?;
        Ok(GrowingPlace { path: self.path.clone(), below })
    }

    /// What its name leads to now, if that is a directory.
    pub(super) fn there(&self) -> Option<Stat> {
        self.dir(&self.path).and_then(|dir| dir.stat_self()).ok()
    }

    fn dir(&self, path: &Path) -> io::Result<Dir> {
        let bytes = path.as_os_str().as_bytes();
        let dir = match &self.below {
            Some(below) => {
                let slashes = bytes.iter().take_while(|&&byte| byte == b'/').count();
                below.open_beneath(&bytes[slashes..], Links::Beneath)?
            }
            None if bytes.is_empty() => Dir::open(Path::new("."))?,
            None => Dir::open(path)?,
        };
        // What is unfinished is nobody's source.
        match is_in_staging(&dir, self.below.as_ref()) {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(dir),
        }
    }
}

fn usage(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, OPEN, cause)
}
