//! Receipts and reports as they are written.
//!
//! The form of a receipt is that of [`receipt_file`]. It is written under a hidden name, made durable, and renamed:
//! under its own name stands a whole receipt or none.

use crate::receipt_file::{self, selection::Selected};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::agree::Agreed;
use thalweg_mover::run::copy::Selection;
use thalweg_mover::run::{LineSink, ReceiptPart, ReceiptSink};
use thalweg_sys::atomic_file::{AtomicFile, Durability};
use thalweg_sys::clock::unix_seconds;
use thalweg_sys::socket::open_pipe_to_write;
use thalweg_sys::{Dir, Replace};
use thalweg_wire::message::PartOf;
use thalweg_wire::path::Escaped;
use thalweg_wire::{Digest, limits};

/// What the header of a receipt says was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Sources, escaped.
    pub from: Vec<String>,
    /// Destination, escaped.
    pub to: String,
    /// Compress where it pays.
    pub compress: bool,
    /// Remove what the source lacks.
    pub delete: bool,
    /// The part that it is of, if it is of one alone.
    pub part: Option<PartOf>,
    /// Which names of the sources.
    pub selected: Selected,
}

impl Asked {
    /// Of a copy between places as a user writes them, sources first.
    pub fn of(
        places: &[OsString],
        compress: bool,
        delete: bool,
        part: Option<PartOf>,
        selection: &Selection,
    ) -> Asked {
        let mut from: Vec<String> =
            places.iter().map(|place| Escaped(place.as_encoded_bytes()).to_string()).collect();
        let to = from.pop().unwrap_or_default();
        Asked { from, to, compress, delete, part, selected: Selected::of(selection) }
    }

    /// Of a stream between two places, escaped: all of a source streams.
    pub fn of_stream(from: &str, to: &str) -> Asked {
        Asked {
            from: vec![from.to_owned()],
            to: to.to_owned(),
            compress: false,
            delete: false,
            part: None,
            selected: Selected::default(),
        }
    }
}

/// A receipt that is being written.
pub struct ReceiptFile {
    name: Arc<Mutex<Name>>,
    header: String,
    inner: Arc<Mutex<Inner>>,
}

/// The name that a receipt gets when it is complete.
struct Name {
    path: PathBuf,
    /// Until it is given.
    hidden: Option<AtomicFile>,
    /// What became of that: it is given once.
    given: Option<Result<()>>,
}

struct Inner {
    file: BufWriter<File>,
    /// Of a receipt: how often it began.
    began: u64,
    /// The first error; told at the end, since copying goes on.
    error: Option<io::Error>,
}

impl ReceiptFile {
    /// Begins it: so that a place that cannot be written is known before anything is copied.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn begin(path: &Path, asked: &Asked) -> Result<ReceiptFile> {
        if path.metadata().is_ok_and(|meta| !meta.is_file()) {
            let name = Escaped(path.as_os_str().as_encoded_bytes());
            let cause = format!("`{name}` is no regular file: a receipt is renamed into its place");
            return Err(Failure::new(FailureKind::Usage, "write the receipt", cause));
        }
        let mode = thalweg_sys::process::user_mode();
        let hidden =
            AtomicFile::begin(path, mode, Durability::Synced).map_err(|error| of_io(path, &error.cause))?;
        let file = hidden.file().try_clone().map_err(|error| of_io(path, &error))?;
        let file = BufWriter::with_capacity(256 << 10, file);
        let name = Name { path: path.to_owned(), hidden: Some(hidden), given: None };
        Ok(ReceiptFile {
            name: Arc::new(Mutex::new(name)),
            header: header(asked).to_string(),
            inner: Arc::new(Mutex::new(Inner { file, began: 0, error: None })),
        })
    }

    /// As a copy or a stream takes it. What our side signs of it is the header; an attempt starts over.
    pub fn sink(&self) -> ReceiptSink {
        let header = Digest(*blake3::hash(self.header.as_bytes()).as_bytes());
        let (name, inner) = (self.name.clone(), self.inner.clone());
        let complete = Arc::new(move |agreed: &Agreed| complete(&name, &inner, agreed));
        ReceiptSink { lines: self.lines(), header, complete }
    }

    fn lines(&self) -> Arc<dyn Fn() -> LineSink + Send + Sync> {
        let (inner, header) = (self.inner.clone(), self.header.clone());
        Arc::new(move || {
            let mut begins = lock(&inner);
            begins.began += 1;
            let number = begins.began;
            begins.attempt(|file| {
                file.flush()?;
                file.get_ref().set_len(0)?;
                file.rewind()?;
                writeln!(file, "{header}")
            });
            drop(begins);
            let inner = inner.clone();
            Box::new(move |told| {
                let mut inner = lock(&inner);
                // A thread of an earlier attempt that ends late has no part in this one.
                if inner.began != number {
                    return;
                }
                inner.attempt(|file| match told {
                    ReceiptPart::Block(block) => {
                        writeln!(file, "{}", receipt_file::block(block.number))?;
                        block.lines.iter().try_for_each(|line| writeln!(file, "{}", receipt_file::line(line)))
                    }
                    ReceiptPart::Pieces(path, pieces) => {
                        writeln!(file, "{}", receipt_file::pieces(&path, &pieces))
                    }
                });
            })
        })
    }

    /// Completes it, unless the copy has done so.
    ///
    /// # Errors
    /// What went wrong with any line, or when it was completed.
    pub fn finish(self, agreed: &Agreed) -> Result<()> {
        complete(&self.name, &self.inner, agreed)
    }
}

/// Writes the last line of a receipt, and gives it its name; the second time only says what became of that.
fn complete(name: &Mutex<Name>, inner: &Mutex<Inner>, agreed: &Agreed) -> Result<()> {
    let Name { path, hidden, given } = &mut *lock(name);
    let give = || {
        let footer = receipt_file::footer(&agreed.sender, &agreed.receiver);
        let mut inner = lock(inner);
        inner.attempt(|file| {
            writeln!(file, "{footer}")?;
            file.flush()
        });
        // Where it is not whole, it goes.
        let hidden = hidden.take();
        if let Some(error) = inner.error.take() {
            return Err(of_io(path, &error));
        }
        let named = hidden.map_or(Ok(()), |hidden| hidden.finish(Replace::Existing));
        named.map_err(|error| of_io(path, &error.cause))
    };
    given.get_or_insert_with(give).clone()
}

impl Inner {
    fn attempt(&mut self, work: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = work(&mut self.file).err();
        }
    }
}

/// For the reader of a FIFO: a shell that starts both has the one or the other first.
const READER_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks whether it is there.
const READER_LOOK: Duration = Duration::from_millis(20);

/// One line for each entry with its outcome. What an earlier run left in the file stays: a deletion is told once only,
/// by the run that made it.
pub struct ReportFile {
    path: PathBuf,
    /// It had a name when it was begun: what a program hands over may have none.
    is_named: bool,
    inner: Mutex<Inner>,
}

impl ReportFile {
    /// Begins it, or goes on behind what is in it, after a line that says so.
    ///
    /// # Errors
    /// What the kernel says; `Usage` of a FIFO that nobody reads, which would have us wait for ever.
    pub fn begin(path: &Path) -> Result<ReportFile> {
        let found = path.metadata().ok();
        let file = match found.as_ref().is_some_and(|meta| meta.file_type().is_fifo()) {
            true => open_fifo(path, READER_TIMEOUT)?,
            false => for_user().open(path).map_err(|error| of_io(path, &error))?,
        };
        let is_named = has_name(&file).map_err(|error| of_io(path, &error))?;
        let file = BufWriter::with_capacity(256 << 10, file);
        let inner = Mutex::new(Inner { file, began: 0, error: None });
        let report = ReportFile { path: path.to_owned(), is_named, inner };
        if let Some(bytes) = found.filter(|meta| meta.is_file() && meta.len() > 0).map(|meta| meta.len()) {
            if !ends_a_line(path, bytes) {
                lock(&report.inner).attempt(|file| writeln!(file));
            }
            report.line(&json!({"event": "continued", "at": unix_seconds()}));
        }
        Ok(report)
    }

    /// Writes a line.
    pub fn line(&self, value: &Value) {
        let mut inner = lock(&self.inner);
        inner.attempt(|file| writeln!(file, "{value}"));
    }

    /// A reader of the file finds all lines so far, whatever becomes of this process.
    pub fn flush(&self) {
        let mut inner = lock(&self.inner);
        inner.attempt(Write::flush);
    }

    /// Makes it durable, and its name.
    ///
    /// # Errors
    /// What went wrong with any line, or does now; `Io` if it has no name any more.
    pub fn finish(&self) -> Result<()> {
        let mut inner = lock(&self.inner);
        inner.attempt(|file| {
            file.flush()?;
            if self.is_named && !has_name(file.get_ref())? {
                return Err(io::Error::other("it was removed while it was written: what it told is nowhere"));
            }
            match file.get_ref().sync_all() {
                // A pipe or terminal.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
                other => other.and_then(|()| sync_name(&self.path)),
            }
        });
        inner.error.take().map_or(Ok(()), |error| Err(of_io(&self.path, &error)))
    }
}

/// Whether a regular file has a name; others, as pipes and terminals, need none.
fn has_name(file: &File) -> io::Result<bool> {
    file.metadata().map(|metadata| !metadata.is_file() || metadata.nlink() > 0)
}

/// Makes the name of a file durable, if it still has it and its directory may be read.
fn sync_name(path: &Path) -> io::Result<()> {
    // Behind links.
    let Ok(path) = path.canonicalize() else { return Ok(()) };
    let Some(above) = path.parent() else { return Ok(()) };
    match Dir::open(above).and_then(|above| above.sync()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

/// A file of the user's own; what is in it stays.
fn for_user() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(thalweg_sys::process::user_mode());
    options
}

/// Whether a file of so many bytes ends with its last line: a run that was killed may have left a part of one. Of a
/// file that may not be read it is taken for granted.
fn ends_a_line(path: &Path, bytes: u64) -> bool {
    let mut last = [b'\n'];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut last, bytes - 1));
    read.is_err() || last == [b'\n']
}

/// A FIFO whose reader is there, or comes within that time.
fn open_fifo(path: &Path, timeout: Duration) -> Result<File> {
    let until = Instant::now() + timeout;
    loop {
        if let Some(pipe) = open_pipe_to_write(path).map_err(|error| of_io(path, &error))? {
            return Ok(pipe.into());
        }
        if Instant::now() >= until {
            let name = Escaped(path.as_os_str().as_encoded_bytes());
            let cause = format!("nobody reads the FIFO `{name}`: start its reader first");
            return Err(Failure::new(FailureKind::Usage, "write the report", cause));
        }
        std::thread::sleep(READER_LOOK);
    }
}

fn of_io(path: &Path, error: &io::Error) -> thalweg_mover::Failure {
    failure::at_path(failure::of_io("write", error), path)
}

fn header(asked: &Asked) -> Value {
    let mut header = json!({
        "thalweg_receipt": receipt_file::VERSION,
        "began": unix_seconds(),
        "from": asked.from,
        "to": asked.to,
        "digest": "blake3",
        "program": format!("thalweg {}", env!("CARGO_PKG_VERSION")),
        "protocol": [limits::VERSION_MIN, limits::VERSION_MAX],
        "compress": asked.compress,
        "delete": asked.delete,
    });
    if let Some(part) = asked.part {
        header["part"] = part.to_string().into();
    }
    if let Some(header) = header.as_object_mut() {
        header.extend(asked.selected.keys());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt_file::tests::Sample;
    use thalweg_wire::receipt::Block;

    fn asked() -> Asked {
        Asked::of_stream("a", "b")
    }

    #[test]
    fn a_header_has_all_sources_and_the_last_place_as_the_destination_escaped() {
        let places = ["a", "b\n", "to"].map(OsString::from);
        let header = header(&Asked::of(&places, true, false, None, &Selection::default()));
        assert_eq!((&header["from"], &header["to"]), (&json!(["a", "b\\x0a"]), &json!("to")));
        assert_eq!((&header["compress"], &header["delete"]), (&json!(true), &json!(false)));
    }

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
        let asked = asked();
        let receipt = ReceiptFile::begin(&path, &asked).unwrap();
        drop(receipt.lines()());
        assert_eq!(std::fs::read_to_string(&others).unwrap(), "theirs");
        drop(receipt);
        // What was planted, and nothing of ours.
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_thread_of_an_earlier_attempt_writes_nothing_into_the_receipt_of_the_next() {
        let scratch = tempfile::tempdir().unwrap();
        let asked = asked();
        let receipt = ReceiptFile::begin(&scratch.path().join("out"), &asked).unwrap();
        let block = |line: &str| ReceiptPart::Block(Block { number: 0, lines: vec![line.to_owned()] });
        let mut late = receipt.lines()();
        late(block("first"));
        let mut latest = receipt.lines()();
        latest(block("second"));
        late(block("late"));
        lock(&receipt.inner).attempt(Write::flush);
        let mut text = vec![0; 1 << 10];
        let bytes = lock(&receipt.name).hidden.as_ref().unwrap().file().read_at(&mut text, 0).unwrap();
        let text = String::from_utf8(text[..bytes].to_vec()).unwrap();
        let written = [receipt.header.clone(), receipt_file::block(0), receipt_file::line("second")];
        assert_eq!(text.lines().collect::<Vec<_>>(), written);
    }

    /// Source files go for it: it has its name before the first of them does, and what went wrong is not forgotten.
    #[test]
    fn a_receipt_that_the_copy_completes_has_its_name_then_and_is_completed_once() {
        let scratch = tempfile::tempdir().unwrap();
        let asked = asked();
        let agreed = Sample::new(&[]).agreed();
        let path = scratch.path().join("out");
        let receipt = ReceiptFile::begin(&path, &asked).unwrap();
        let sink = receipt.sink();
        drop((sink.lines)());
        (sink.complete)(&agreed).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        receipt.finish(&agreed).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);

        let path = scratch.path().join("blocked");
        let receipt = ReceiptFile::begin(&path, &asked).unwrap();
        let sink = receipt.sink();
        std::fs::create_dir(&path).unwrap();
        let failure = (sink.complete)(&agreed).unwrap_err();
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(receipt.finish(&agreed), Err(failure));
        // The whole one, and nothing hidden.
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    /// Also behind one that was killed while it wrote a line.
    #[test]
    fn a_report_of_an_earlier_run_is_not_lost_to_the_run_that_resumes_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("report");
        let run = |line: &str| {
            let report = ReportFile::begin(&path).unwrap();
            report.line(&json!(line));
            report.finish().unwrap();
        };
        run("one");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "\"one\"\n");
        run("two");
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "\"cut").unwrap();
        run("three");
        let text = std::fs::read_to_string(&path).unwrap();
        let (marks, lines): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.contains("\"continued\""));
        assert_eq!(lines, ["\"one\"", "\"two\"", "\"cut", "\"three\""]);
        assert_eq!(marks.len(), 2, "{text}");
    }

    #[test]
    fn a_report_that_was_removed_while_it_was_written_is_an_error_and_one_that_never_had_a_name_is_none() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("report");
        let report = ReportFile::begin(&path).unwrap();
        report.line(&json!("one"));
        std::fs::remove_file(&path).unwrap();
        let failure = report.finish().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Io, "{failure}");
        assert!(failure.cause.contains("report") && failure.cause.contains("it was removed"), "{failure}");
        // As a program hands it over that reads it itself.
        let mut file = tempfile::tempfile_in(scratch.path()).unwrap();
        let handed = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
        let report = ReportFile::begin(&handed).unwrap();
        report.line(&json!("two"));
        report.finish().unwrap();
        file.rewind().unwrap();
        assert_eq!(io::read_to_string(&file).unwrap(), "\"two\"\n");
    }

    #[test]
    fn a_report_into_a_fifo_waits_for_its_reader_a_bounded_time_and_reaches_one_that_is_there() {
        let scratch = tempfile::tempdir().unwrap();
        let fifo = scratch.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let refused = open_fifo(&fifo, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Usage);
        assert!(refused.cause.contains("nobody reads"), "{refused}");
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || std::fs::read_to_string(fifo)
        });
        let report = ReportFile::begin(&fifo).unwrap();
        // More than a pipe holds: a write that finds it full waits.
        let line = json!("x".repeat(1 << 20));
        report.line(&line);
        report.finish().unwrap();
        drop(report);
        assert_eq!(reader.join().unwrap().unwrap(), format!("{line}\n"));
    }
}
