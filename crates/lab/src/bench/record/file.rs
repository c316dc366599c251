//! The file itself: written line by line, and read again within bounds.

use super::{About, End, LeftOut, Line, Results, Sample};
use rustix::fs::OFlags;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thalweg_sys::atomic_file;

/// Most bytes of a result file that are read.
pub const RESULT_BYTES_MAX: u64 = 256 << 20;
/// Of one of its lines.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Most of its samples.
const SAMPLES_MAX: usize = 100_000;

/// A result file in the making: below a hidden name until it is whole, so that a run that fails leaves the former one.
/// Its lock is held meanwhile, so that no other run takes the name away.
#[derive(Debug)]
pub struct Log {
    out: File,
    hidden: PathBuf,
    path: PathBuf,
    /// Of its whole lines.
    bytes: u64,
    results: Results,
}

impl Log {
    /// Begins the file `path`.
    ///
    /// # Errors
    /// If it cannot be written, or stands for a device, a FIFO or a socket; `ResourceBusy` while another run writes it.
    pub fn begin(path: &Path, about: About) -> io::Result<Log> {
        let hidden = partial(path);
        for name in [path, &hidden] {
            atomic_file::refuse_special(name).map_err(|error| error.cause)?;
        }
        let out = begin_alone(&hidden)?;
        let about = About { is_unfinished: true, ..about };
        let results = Results { about, samples: Vec::new(), left_out: Vec::new(), has_end: false };
        let mut log = Log { out, hidden, path: path.to_owned(), bytes: 0, results };
        log.write(&Line::About(Box::new(log.results.about.clone())))?;
        Ok(log)
    }

    /// Adds a measurement; gives it its place in the file.
    ///
    /// # Errors
    /// If it cannot be written, or nobody would read a file with it.
    pub fn sample(&mut self, mut sample: Sample) -> io::Result<()> {
        if self.results.samples.len() >= SAMPLES_MAX {
            return Err(too_large());
        }
        // A process that ended between two looks may have been missed: then nothing was counted.
        sample.cpu_s = sample.cpu_s.filter(|cpu_s| *cpu_s >= 0.0);
        sample.check().map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        sample.order = u32::try_from(self.results.samples.len() + 1).unwrap_or(u32::MAX);
        self.write(&Line::Sample(sample.clone()))?;
        self.results.samples.push(sample);
        Ok(())
    }

    /// Adds what did not run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn left_out(&mut self, what: &str, why: &str) -> io::Result<()> {
        let line = LeftOut { what: what.to_owned(), why: why.to_owned() };
        self.write(&Line::LeftOut(line.clone()))?;
        self.results.left_out.push(line);
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If it cannot be written or renamed; with what [`Log::give_up`] gives.
    pub fn end(mut self) -> Result<Results, (io::Error, Option<PathBuf>)> {
        let written = self.write(&Line::End(End {}));
        match written.and_then(|()| fs::rename(&self.hidden, &self.path)) {
            Ok(()) => {
                self.results.about.is_unfinished = false;
                self.results.has_end = true;
                Ok(self.results)
            }
            Err(error) => Err((error, self.give_up())),
        }
    }

    /// Leaves it as it is, below its hidden name, and gives that; what has no sample goes.
    pub fn give_up(self) -> Option<PathBuf> {
        if self.results.samples.is_empty() {
            // What stays behind is no harm: the next run replaces it.
            let _ = fs::remove_file(&self.hidden);
            return None;
        }
        Some(self.hidden)
    }

    /// Handed on at once: who looks on sees what there is, and a kill leaves it. Of a line that cannot be written whole
    /// nothing stays, because a file with half of one cannot be read.
    fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let bytes = self.bytes + text.len() as u64;
        if bytes > RESULT_BYTES_MAX || text.len() as u64 > LINE_BYTES_MAX {
            return Err(too_large());
        }
        if let Err(error) = self.out.write_all(&text) {
            // Why it cannot be written is told; that it cannot be cut either would follow from the same.
            let _ = self.out.set_len(self.bytes);
            return Err(error);
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// Makes the hidden file, unless another run has it. Of two that begin at once one has it at most: who takes the lock
/// of a file looks whether it still has the name.
fn begin_alone(hidden: &Path) -> io::Result<File> {
    // Its name can be foretold: somebody else's link is not followed, and no FIFO waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let former = File::options().read(true).custom_flags(flags).open(hidden);
    if let Ok(former) = &former
        && !(has_lock(former)? && is_at(former, hidden))
    {
        return Err(taken());
    }
    // What a run that failed left there goes, and a link. What was not there is made by one of several.
    if !former.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        fs::remove_file(hidden)?;
    }
    // Whatever goes wrong with a line, the next one is put behind the whole ones.
    let out = match File::options().append(true).create_new(true).open(hidden) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(taken()),
        other => other?,
    };
    // The lock of the former one is held until here: who comes between finds it taken, or this one without its name.
    match has_lock(&out)? && is_at(&out, hidden) {
        true => Ok(out),
        false => Err(taken()),
    }
}

/// Takes the file's lock, for as long as it is open. Where there are no locks nobody else has it.
fn has_lock(file: &File) -> io::Result<bool> {
    let handle = thalweg_sys::File::from_fd(file.try_clone()?.into());
    Ok(handle.lock_exclusive().unwrap_or(true))
}

fn is_at(file: &File, name: &Path) -> bool {
    let identity = |about: fs::Metadata| (about.dev(), about.ino());
    let there = fs::symlink_metadata(name).map(identity);
    file.metadata().map(identity).is_ok_and(|own| there.is_ok_and(|there| there == own))
}

fn taken() -> io::Error {
    let why = "another run writes it: wait for that, or give another --out";
    io::Error::new(io::ErrorKind::ResourceBusy, why)
}

fn too_large() -> io::Error {
    io::Error::other(format!(
        "a result has at most {} MiB and {SAMPLES_MAX} samples: fewer --runs make a smaller one",
        RESULT_BYTES_MAX >> 20
    ))
}

/// Where the result file `path` is as long as it is not whole.
pub fn partial(path: &Path) -> PathBuf {
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(path.file_name().unwrap_or_default());
    path.with_file_name(hidden)
}

impl Results {
    /// Reads a file.
    ///
    /// # Errors
    /// What the file system says; `InvalidData` with the number of the line that is no such line, and why.
    pub fn read(path: &Path) -> io::Result<Results> {
        Self::parse(BufReader::new(File::open(path)?.take(RESULT_BYTES_MAX))).map_err(|error| {
            match error.kind() {
                io::ErrorKind::InvalidData => {
                    let why = format!("it is no result file, which `thalweg bench` writes: {error}");
                    io::Error::new(io::ErrorKind::InvalidData, why)
                }
                _ => error,
            }
        })
    }

    /// The same from anything that has lines.
    ///
    /// # Errors
    /// As [`Results::read`].
    pub fn parse(mut lines: impl BufRead) -> io::Result<Results> {
        let odd = |number: usize, why: &dyn fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {why}"))
        };
        let mut results: Option<Results> = None;
        let mut text = Vec::new();
        for number in 1.. {
            text.clear();
            if (&mut lines).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut text)? == 0 {
                break;
            }
            if text.len() as u64 > LINE_BYTES_MAX {
                return Err(odd(number, &format_args!("is longer than {} MiB", LINE_BYTES_MAX >> 20)));
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            let mut line: Line = serde_json::from_slice(&text).map_err(|error| odd(number, &error))?;
            if let Line::Sample(sample) = line {
                let sample = sample.in_base_units().map_err(|why| odd(number, &why))?;
                sample.check().map_err(|why| odd(number, &why))?;
                line = Line::Sample(sample);
            }
            match (line, &mut results) {
                (Line::Sample(_), Some(results)) if results.samples.len() >= SAMPLES_MAX => {
                    return Err(odd(number, &format_args!("is one sample more than {SAMPLES_MAX}")));
                }
                (Line::About(about), None) => {
                    let (samples, left_out) = (Vec::new(), Vec::new());
                    results = Some(Results { about: *about, samples, left_out, has_end: false });
                }
                (Line::Sample(sample), Some(results)) => results.samples.push(sample),
                (Line::LeftOut(line), Some(results)) => results.left_out.push(line),
                (Line::End(End {}), Some(results)) => {
                    results.has_end |= std::mem::take(&mut results.about.is_unfinished);
                }
                (Line::About(_), Some(_)) => return Err(odd(number, &"a second `about`")),
                (_, None) => return Err(odd(number, &"the first line must be `about`")),
            }
        }
        results.map(Results::without_choice).ok_or_else(|| odd(1, &"there is nothing in it"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{about, sample};
    use super::*;

    /// Somebody else made it beforehand, where all may write.
    #[test]
    fn a_link_under_the_hidden_name_is_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, others) = (scratch.path().join("out.jsonl"), scratch.path().join("others"));
        fs::write(&others, "theirs").unwrap();
        std::os::unix::fs::symlink(&others, partial(&path)).unwrap();
        Log::begin(&path, about()).unwrap().end().unwrap();
        assert_eq!(fs::read_to_string(&others).unwrap(), "theirs");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn a_second_run_is_refused_until_the_first_one_is_over_and_takes_nothing_of_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("out.jsonl");
        let mut first = Log::begin(&path, about()).unwrap();
        let refused = || Log::begin(&path, about()).unwrap_err();
        assert_eq!(refused().kind(), io::ErrorKind::ResourceBusy);
        first.sample(sample(1, 0.1)).unwrap();
        assert!(refused().to_string().contains("--out"));
        first.end().unwrap();
        assert_eq!(Results::read(&path).unwrap().samples.len(), 1);
        // What one that failed left behind is nobody's.
        let mut failed = Log::begin(&path, about()).unwrap();
        failed.sample(sample(1, 0.1)).unwrap();
        failed.give_up().unwrap();
        Log::begin(&path, about()).unwrap().end().unwrap();
        assert!(Results::read(&path).unwrap().samples.is_empty());
    }

    #[test]
    fn what_is_given_up_without_a_sample_leaves_nothing_and_with_one_says_where_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("out.jsonl");
        assert_eq!(Log::begin(&path, about()).unwrap().give_up(), None);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        let mut log = Log::begin(&path, about()).unwrap();
        log.sample(sample(1, 0.1)).unwrap();
        assert_eq!(log.give_up(), Some(partial(&path)));
        assert_eq!(Results::read(&partial(&path)).unwrap().samples.len(), 1);
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_get_its_name_says_where_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("out.jsonl");
        let mut log = Log::begin(&path, about()).unwrap();
        log.sample(sample(1, 0.1)).unwrap();
        fs::create_dir(&path).unwrap();
        let (_, kept) = log.end().unwrap_err();
        assert_eq!(kept, Some(partial(&path)));
        assert_eq!(Results::read(&partial(&path)).unwrap().samples.len(), 1);
    }

    /// A file in memory that may not grow stands for a disk that is full.
    #[test]
    fn of_a_line_that_cannot_be_written_whole_nothing_stays() {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
        let scratch = tempfile::tempdir().unwrap();
        let mut log = Log::begin(&scratch.path().join("out.jsonl"), about()).unwrap();
        let whole = log.bytes;
        log.out = File::from(memfd_create("out", MemfdFlags::ALLOW_SEALING).unwrap());
        log.out.set_len(whole).unwrap();
        std::io::Seek::seek(&mut log.out, io::SeekFrom::End(0)).unwrap();
        // As far as it got.
        log.out.write_all(b"{\"sample\":").unwrap();
        fcntl_add_seals(&log.out, SealFlags::GROW).unwrap();
        assert!(log.sample(sample(1, 0.1)).is_err());
        assert_eq!((log.out.metadata().unwrap().len(), log.bytes), (whole, whole));
        assert!(log.results.samples.is_empty());
    }

    #[test]
    fn a_sample_that_nobody_would_read_is_not_written() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("out.jsonl");
        let mut log = Log::begin(&path, about()).unwrap();
        let timeless = Sample { wall_s: 0.0, ..sample(1, 0.1) };
        let endless = sample(1, 0.1).measured("rate", f64::INFINITY, "bit/s");
        for (bad, why) in [(timeless, "`wall_s` must be more than 0"), (endless, "`rate` cannot be inf")] {
            let refused = log.sample(bad).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        log.sample(sample(1, 0.1)).unwrap();
        log.end().unwrap();
        assert_eq!(Results::read(&path).unwrap().samples.len(), 1);
    }

    #[test]
    fn what_would_be_more_than_is_read_again_is_not_written() {
        let scratch = tempfile::tempdir().unwrap();
        let mut log = Log::begin(&scratch.path().join("long.jsonl"), about()).unwrap();
        log.sample(sample(1, 0.1)).unwrap();
        log.bytes = RESULT_BYTES_MAX - 10;
        let refused = log.sample(sample(2, 0.1)).unwrap_err().to_string();
        assert!(refused.contains("256 MiB") && refused.contains("--runs"), "{refused}");
        let mut log = Log::begin(&scratch.path().join("many.jsonl"), about()).unwrap();
        log.results.samples = vec![Sample::default(); SAMPLES_MAX];
        assert!(log.sample(sample(1, 0.1)).is_err());
    }
}
