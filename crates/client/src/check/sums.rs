//! Do the files of a place have the digests of a list of `b3sum`?
//!
//! 1. A list that is a regular file is read to its end before anything else: what is wrong with it is told first.
//! 2. Line by line, several at a time: what stands there is looked at, and a file is digested where it is. A link is
//!    what it leads to, as to `b3sum`.
//!
//! Memory does not grow with the list. What is not in the list is not looked for; what `--files-from` names and the
//! list does not have is told.

use super::differences::Differences;
use super::{Found, Selected, Tell};
use crate::reach::Reach;
use crate::verify::FAR_WORKERS;
use crate::{b3sum, threads};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use thalweg_mover::endpoint::local::survey::{DigestAs, WORKERS};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{Meter, Stop};
use thalweg_wire::{Digest, Kind, RelativePath};

/// What reads a list.
const READ_LIST: &str = "read the list";

/// What comes of a line.
enum Met {
    /// So many bytes.
    Same(RelativePath, u64),
    Missing(RelativePath, String),
    Differs(RelativePath, String),
    Trouble(Failure),
}

impl Met {
    fn path(&self) -> Option<&RelativePath> {
        match self {
            Met::Same(path, _) | Met::Missing(path, _) | Met::Differs(path, _) => Some(path),
            Met::Trouble(failure) => failure.path.as_ref(),
        }
    }
}

/// Compares the files of a list with those of a place. `meter` counts what was looked at. It ends when `stop` is asked
/// for, and asks for that itself where it fails: what is under way ends where nobody wants it any more.
///
/// # Errors
/// `Usage` for a list that is none, of which nothing is compared if it is a regular file; `Stopped`; when the place
/// cannot be reached, or is misspelt; what `tell` says.
pub fn check_list(
    list: List,
    place: &Reach,
    selected: &Selected,
    meter: &Meter,
    tell: &mut Tell<'_>,
    stop: &Arc<Stop>,
) -> Result<Found> {
    let lost_before = place.links_lost();
    let place = place.until(stop).outlasting();
    place.refuse_misspelt()?;
    let is_single = !matches!(place.entry(b"")?.kind, Kind::Directory);
    let lines = Mutex::new(List { is_single, ..list });
    let mut report = Differences::new(false, meter, tell);
    let workers = if place.is_local() { WORKERS } else { FAR_WORKERS };
    let work = |tell: SyncSender<Result<Met>>| {
        while let Some(met) = next(&lines, selected, &place, stop) {
            let is_over = met.is_err();
            if tell.send(met).is_err() || is_over {
                return;
            }
        }
    };
    // Of one file the name does not matter.
    let mut awaited: BTreeSet<&RelativePath> = selected.names().filter(|_| !is_single).collect();
    std::thread::scope(|scope| {
        let (tell, hear) = sync_channel(workers);
        for number in 0..workers {
            let tell = tell.clone();
            match threads::spawn_scoped(scope, "check", move || work(tell)) {
                Err(failure) if number == 0 => return Err(failure),
                // Fewer of them only take longer.
                Err(_) => break,
                Ok(_) => {}
            }
        }
        drop(tell);
        let heard = hear.iter().try_for_each(|met| {
            let met = met?;
            report.found.entries += 1;
            report.found.files += 1;
            if let Some(path) = met.path() {
                awaited.remove(path);
            }
            let bytes = if let Met::Same(_, bytes) = &met { *bytes } else { 0 };
            report.alike(bytes);
            report.looked(bytes);
            match met {
                Met::Same(_, bytes) => {
                    report.found.same += 1;
                    report.found.bytes += bytes;
                    Ok(())
                }
                Met::Missing(path, why) => report.missing(&path, &why),
                Met::Differs(path, why) => report.differs(&path, &why),
                Met::Trouble(failure) => report.trouble(1, &failure),
            }
        });
        if heard.is_err() {
            stop.stop();
        }
        // Who still has something to say hears that nobody listens.
        drop(hear);
        heard
    })?;
    let lines = lines.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    if lines.lines_read == 0 {
        let cause = "there is no line in it";
        return Err(failure::at_path(Failure::new(FailureKind::Usage, READ_LIST, cause), &lines.path));
    }
    for path in awaited {
        match place.below(path.as_bytes()).entry(b"") {
            // There is no directory in any list.
            Ok(entry) if entry.kind == Kind::Directory => {}
            Err(failure) if matches!(failure.kind, FailureKind::Connection | FailureKind::Stopped) => {
                return Err(failure);
            }
            _ => {
                let cause = "the list does not have it, and --files-from names it";
                report.trouble(0, &Failure::new(FailureKind::NotFound, "compare", cause).at(path))?;
            }
        }
    }
    Ok(Found { links_lost: place.links_lost() - lost_before, ..report.found })
}

/// Takes the next line and compares what stands there; `None` at the end. What fails as a whole is an error.
fn next(lines: &Mutex<List>, selected: &Selected, place: &Reach, stop: &Stop) -> Option<Result<Met>> {
    if stop.is_asked() {
        return Some(Err(Failure::new(FailureKind::Stopped, "check", "stopped on request")));
    }
    let (line, is_single) = {
        let mut lines = lock(lines);
        let line = loop {
            match lines.next_line() {
                Ok(Some((path, _))) if !lines.is_single && !selected.has(&path, false) => {}
                Ok(line) => break line?,
                Err(failure) => return Some(Err(failure)),
            }
        };
        (line, lines.is_single)
    };
    let (path, digest) = line;
    let there = if is_single { place.clone() } else { place.below(path.as_bytes()) };
    match compare(&there, path, digest) {
        // The rest would fail in the same way, one by one.
        Met::Trouble(failure) if matches!(failure.kind, FailureKind::Connection | FailureKind::Stopped) => {
            Some(Err(failure))
        }
        met => Some(Ok(met)),
    }
}

fn compare(there: &Reach, path: RelativePath, digest: Digest) -> Met {
    let digested = match there.entry(b"") {
        Ok(entry) => match entry.kind {
            Kind::File { .. } | Kind::HardLink { .. } | Kind::Symlink { .. } => {
                there.digest_of_file(DigestAs::Plain)
            }
            _ => return Met::Differs(path, format!("a {} is there", entry.kind.word())),
        },
        Err(failure) => Err(failure),
    };
    match digested {
        Ok((bytes, found)) if found == digest => Met::Same(path, bytes),
        Ok(_) => Met::Differs(path, "content".to_owned()),
        Err(failure) if failure.kind == FailureKind::NotFound => Met::Missing(path, failure.cause),
        Err(failure) => Met::Trouble(failure.at(&path)),
    }
}

/// A list, line by line.
pub struct List {
    path: PathBuf,
    from: Box<dyn BufRead + Send>,
    /// Of the line that was read last, from 1.
    number: u64,
    /// Lines with a file.
    lines_read: u64,
    /// The place is the one file, whatever its name.
    is_single: bool,
}

impl List {
    /// The one in a file; a regular one is read to its end.
    ///
    /// # Errors
    /// What the file system says; `Usage` for a regular file that is no list.
    pub fn open(path: &Path) -> Result<List> {
        let of_io = |error: io::Error| failure::at_path(failure::of_io(READ_LIST, &error), path);
        let mut file = File::open(path).map_err(of_io)?;
        if file.metadata().map_err(of_io)?.is_file() {
            let again = file.try_clone().map_err(of_io)?;
            let mut all = List::of(path, Box::new(BufReader::new(again)));
            while all.next_line()?.is_some() {}
            file.rewind().map_err(of_io)?;
        }
        Ok(List::of(path, Box::new(BufReader::new(file))))
    }

    /// What comes `from` somewhere; `path` is what it is called.
    pub fn of(path: &Path, from: Box<dyn BufRead + Send>) -> List {
        List { path: path.to_owned(), from, number: 0, lines_read: 0, is_single: false }
    }

    /// The next file; empty lines say nothing.
    fn next_line(&mut self) -> Result<Option<(RelativePath, Digest)>> {
        let mut line = Vec::new();
        loop {
            self.number += 1;
            line.clear();
            let mut from = self.from.by_ref().take(b3sum::LINE_BYTES_MAX);
            if let Err(error) = from.read_until(b'\n', &mut line) {
                return Err(failure::at_path(failure::of_io(READ_LIST, &error), &self.path));
            }
            let is_cut = line.len() as u64 == b3sum::LINE_BYTES_MAX && !line.ends_with(b"\n");
            if is_cut {
                return Err(self.refuse(&format!("it is longer than {} bytes", b3sum::LINE_BYTES_MAX)));
            }
            if line.is_empty() {
                return Ok(None);
            }
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            if line.iter().all(|byte| *byte == b'\r') {
                continue;
            }
            let read = b3sum::parse(line).map_err(|why| self.refuse(&why))?;
            self.lines_read += 1;
            if self.is_single && self.lines_read > 1 {
                return Err(self.refuse("it is not the only one: name the directory that the files are in"));
            }
            return Ok(Some(read));
        }
    }

    fn refuse(&self, why: &str) -> Failure {
        let cause = format!("line {}: {why}", self.number);
        failure::at_path(Failure::new(FailureKind::Usage, READ_LIST, cause), &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &[u8]) -> List {
        List::of(Path::new("list"), Box::new(io::Cursor::new(text.to_vec())))
    }

    #[test]
    fn a_line_that_is_none_is_refused_with_its_number_and_one_without_end_is_not_kept() {
        let good = format!("{}  a\n", Digest([7; 32]));
        let mut read = list(format!("{good}\r\n\n{good}/etc/passwd\n").as_bytes());
        assert!(read.next_line().unwrap().is_some() && read.next_line().unwrap().is_some());
        let refused = read.next_line().unwrap_err();
        assert_eq!(refused.kind, FailureKind::Usage);
        assert!(refused.cause.contains("`list`") && refused.cause.contains("line 5: "), "{refused}");
        // Of what never ends a bounded part is read.
        let mut endless = List::of(Path::new("list"), Box::new(BufReader::new(io::repeat(b'x'))));
        let refused = endless.next_line().unwrap_err();
        assert!(refused.cause.contains("line 1: it is longer than "), "{refused}");
        // The last line needs no end.
        let mut read = list(good.trim_end().as_bytes());
        assert!(read.next_line().unwrap().is_some() && read.next_line().unwrap().is_none());
    }
}
