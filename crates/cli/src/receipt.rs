//! `--receipt FILE` and `--report FILE`.
//!
//! A receipt is JSON lines: a header, one line for each settled entry with exactly the text that the signed root is
//! computed over, a footer with both signed statements. docs/reference/receipt.md describes it. It is written under
//! a hidden name, made durable, and renamed: under its own name stands a whole receipt or none.

use crate::{args, json};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_mover::failure::{self, Result};
use thalweg_mover::run::LineSink;
use thalweg_mover::run::agree::Agreed;
use thalweg_mover::run::copy::Report;
use thalweg_wire::limits;
use thalweg_wire::path::Escaped;

/// A receipt that is being written.
pub struct ReceiptFile {
    path: PathBuf,
    hidden: PathBuf,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    file: BufWriter<File>,
    /// The first error; told at the end, since copying goes on.
    error: Option<io::Error>,
}

impl ReceiptFile {
    /// Begins it: so that a place that cannot be written is known before anything is copied.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn begin(path: &Path) -> Result<ReceiptFile> {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.tmp", std::process::id()));
        let hidden = path.with_file_name(name);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&hidden);
        let file = file.map_err(|error| of_io(path, &error))?;
        let file = BufWriter::with_capacity(256 << 10, file);
        Ok(ReceiptFile {
            path: path.to_owned(),
            hidden,
            inner: Arc::new(Mutex::new(Inner { file, error: None })),
        })
    }

    /// What makes a sink for each attempt; an attempt starts over.
    pub fn lines(&self) -> Arc<dyn Fn() -> LineSink + Send + Sync> {
        let inner = self.inner.clone();
        Arc::new(move || {
            lock(&inner).attempt(|file| {
                file.flush()?;
                file.get_ref().set_len(0)?;
                file.rewind()
            });
            let inner = inner.clone();
            Box::new(move |line| {
                let text = json!({ "line": line }).to_string();
                lock(&inner).attempt(|file| writeln!(file, "{text}"));
            })
        })
    }

    /// Completes it. The header is written last and put first.
    ///
    /// # Errors
    /// What went wrong with any line, or does now.
    pub fn finish(self, args: &args::CopyArgs, report: &Report) -> Result<()> {
        self.write(args, report).map_err(|error| of_io(&self.path, &error))
    }

    fn write(&self, args: &args::CopyArgs, report: &Report) -> io::Result<()> {
        let mut inner = lock(&self.inner);
        if let Some(error) = inner.error.take() {
            return Err(error);
        }
        inner.file.flush()?;
        // The plan, and so the segment size, is known only now: lines are copied behind the header.
        let mut lines = inner.file.get_ref().try_clone()?;
        lines.rewind()?;
        let whole = self.hidden.with_extension("whole");
        let mut out = BufWriter::with_capacity(256 << 10, File::create(&whole)?);
        let copied = (|| {
            writeln!(out, "{}", header(args, report))?;
            io::copy(&mut lines, &mut out)?;
            writeln!(out, "{}", footer(&report.agreed))?;
            out.flush()?;
            out.get_ref().sync_all()?;
            std::fs::rename(&whole, &self.path)?;
            let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
        })();
        if copied.is_err() {
            let _ = std::fs::remove_file(&whole);
        }
        copied
    }
}

impl Drop for ReceiptFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.hidden);
    }
}

impl Inner {
    fn attempt(&mut self, work: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = work(&mut self.file).err();
        }
    }
}

/// One line for each entry with its outcome.
pub struct ReportFile {
    path: PathBuf,
    inner: Mutex<Inner>,
}

impl ReportFile {
    /// Begins it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn begin(path: &Path) -> Result<ReportFile> {
        let file = File::create(path).map_err(|error| of_io(path, &error))?;
        let file = BufWriter::with_capacity(256 << 10, file);
        Ok(ReportFile { path: path.to_owned(), inner: Mutex::new(Inner { file, error: None }) })
    }

    /// Writes a line.
    pub fn line(&self, value: &Value) {
        let mut inner = self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        inner.attempt(|file| writeln!(file, "{value}"));
    }

    /// Makes it durable.
    ///
    /// # Errors
    /// What went wrong with any line, or does now.
    pub fn finish(&self) -> Result<()> {
        let mut inner = self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        inner.attempt(|file| {
            file.flush()?;
            match file.get_ref().sync_all() {
                // A pipe or terminal.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
                other => other,
            }
        });
        inner.error.take().map_or(Ok(()), |error| Err(of_io(&self.path, &error)))
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn of_io(path: &Path, error: &io::Error) -> thalweg_mover::Failure {
    let mut failure = failure::of_io("write", error);
    failure.cause = format!("`{}`: {}", Escaped(path.as_os_str().as_encoded_bytes()), failure.cause);
    failure
}

fn header(args: &args::CopyArgs, report: &Report) -> Value {
    let places: Vec<String> =
        args.places.iter().map(|place| Escaped(place.as_encoded_bytes()).to_string()).collect();
    let (to, from) = places.split_last().map(|(to, from)| (to.as_str(), from)).unwrap_or_default();
    json!({
        "thalweg_receipt": 1,
        "when": report.agreed.receiver.statement.signed_at,
        "from": from,
        "to": to,
        "verify": format!("{:?}", args.verify).to_lowercase(),
        "digest": "blake3",
        "program": format!("thalweg {}", env!("CARGO_PKG_VERSION")),
        "protocol": [limits::VERSION_MIN, limits::VERSION_MAX],
        "terms": {
            "chunk_bytes": report.plan.chunk_bytes.value,
            "segment_bytes": report.plan.segment_bytes.value,
            "check": format!("{:?}", args.check).to_lowercase(),
            "compress": args.compress,
            "delete": args.delete,
        },
    })
}

fn footer(agreed: &Agreed) -> Value {
    json!({
        "root": agreed.receiver.statement.root.to_string(),
        "entries": agreed.receiver.statement.entries,
        "totals": json::totals(&agreed.receiver.statement.totals),
        "sender": {
            "public_key": json::hex(&agreed.sender.public_key),
            "signed": json::hex(&agreed.sender.to_bytes()),
        },
        "receiver": {
            "public_key": json::hex(&agreed.receiver.public_key),
            "signed": json::hex(&agreed.receiver.to_bytes()),
        },
    })
}
