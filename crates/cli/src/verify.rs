//! `thalweg verify RECEIPT PLACE`: is what the receipt says still there?
//!
//! 1. Both signatures, both statements against each other, and the root against the lines.
//! 2. Every entry of the receipt at the place; every file is read past the page cache and digested.
//! 3. With `--strict`: nothing is there that the receipt does not have.
//!
//! Not checked: modes, owners, times, link targets; the receipt does not hold them. Files of which the receipt has no
//! digest (found unchanged by evidence, never read) are compared by size and counted.

use crate::args::VerifyArgs;
use crate::exit::Exit;
use crate::place::Places;
use crate::places::Troubles;
use crate::reach::{self, Reach};
use crate::{json, out, units};
use serde_json::Value;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Mutex;
use thalweg_mover::endpoint::local::survey::{DigestAs, Found};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::verify_signature;
use thalweg_wire::path::Escaped;
use thalweg_wire::receipt::{Line, Signed};
use thalweg_wire::{Digest, Kind, RelativePath};

/// A line with the longest path there can be, escaped twice.
const LINE_BYTES_MAX: u64 = 8 << 20;
/// Files that are asked about at the same time: here, and at a far place, where it hides the round trip.
const WORKERS: (usize, usize) = (4, 16);

/// `thalweg verify`.
///
/// # Errors
/// `Usage` for a file that is no receipt, `Damage` for one that does not say what was signed; when the place
/// cannot be reached.
pub fn verify(args: &VerifyArgs, places: &Places) -> Result<Exit> {
    let seal = authenticate(&args.receipt, &args.keys)?;
    if !args.ask.json {
        use std::io::Write;
        let mut err = std::io::stderr().lock();
        let _ = writeln!(err, "signed by the sender {}", json::hex(&seal.sender));
        let _ = writeln!(err, "    and the receiver {}", json::hex(&seal.receiver));
        if args.keys.is_empty() {
            let _ = writeln!(
                err,
                "warning: anybody can sign a receipt; give the keys that you expect with --keys"
            );
        }
    }
    let mut fars = reach::fars(&args.ask, places);
    let reach = Reach::open(&args.place, &mut fars)?;
    let is_file = matches!(reach.kind()?, Kind::File { .. });
    if is_file && seal.entries != 1 {
        let cause = "the receipt has more than one entry: name the directory that they are in";
        return Err(Failure::new(FailureKind::Usage, "verify", cause));
    }
    let judge = Mutex::new(Judge::new(args));
    let lines = Mutex::new(Lines::open(&args.receipt)?);
    let workers = if matches!(reach, Reach::Local(_)) { WORKERS.0 } else { WORKERS.1 };
    std::thread::scope(|scope| {
        for _ in 0..workers.min(seal.entries as usize).max(1) {
            scope.spawn(|| {
                loop {
                    let next = lock(&lines).next_line();
                    let line = match next {
                        Ok(Some(line)) => line,
                        Ok(None) => return,
                        Err(failure) => return lock(&judge).stop(failure),
                    };
                    let verdict = compare(&reach, &line, is_file, seal.segment_bytes);
                    if !lock(&judge).take(&line, verdict) {
                        return;
                    }
                }
            });
        }
    });
    let mut judge = judge.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    if args.strict && !is_file {
        reach.list(true, &mut |found| {
            match found {
                Found::Entry(entry) => judge.is_extra(&entry.path),
                Found::Trouble(failure) => judge.troubles.add(&failure),
            }
            Ok(())
        })?;
    }
    judge.end()
}

/// What the signatures hold.
struct Seal {
    sender: [u8; 32],
    receiver: [u8; 32],
    entries: u64,
    segment_bytes: u64,
}

fn authenticate(path: &Path, keys: &[String]) -> Result<Seal> {
    let mut lines = Lines::open(path)?;
    let segment_bytes = lines.segment_bytes;
    let mut hasher = blake3::Hasher::new();
    let mut entries = 0;
    while let Some(text) = lines.next_text()? {
        hasher.update(text.as_bytes());
        entries += 1;
    }
    let root = Digest(*hasher.finalize().as_bytes());
    let footer = lines.footer.take().ok_or_else(|| no_receipt("it has no end"))?;
    let signed = |who: &str| -> Result<Signed> {
        let bytes =
            footer.get(who).and_then(|side| side.get("signed")).and_then(Value::as_str).and_then(json::unhex);
        bytes
            .and_then(|bytes| Signed::from_bytes(&bytes).ok())
            .ok_or_else(|| no_receipt("a signed statement is missing"))
    };
    let damage = |cause: String| Failure::new(FailureKind::Damage, "check the receipt", cause);
    let (sender, receiver) = (signed("sender")?, signed("receiver")?);
    for (who, signed) in [("sender", &sender), ("receiver", &receiver)] {
        if !verify_signature(&signed.public_key, &signed.statement.signed_bytes(), &signed.signature) {
            return Err(damage(format!("the signature of the {who} is not valid")));
        }
        if (signed.statement.root, signed.statement.entries) != (root, entries) {
            return Err(damage(format!("its {entries} lines are not those that the {who} signed")));
        }
        let key = json::hex(&signed.public_key);
        if !keys.is_empty() && !keys.iter().any(|known| known.eq_ignore_ascii_case(&key)) {
            return Err(damage(format!("the {who} signed with the key {key}, which is not among --keys")));
        }
    }
    Ok(Seal { sender: sender.public_key, receiver: receiver.public_key, entries, segment_bytes })
}

fn no_receipt(why: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the receipt", format!("this is no receipt: {why}"))
}

/// The lines of a receipt file.
struct Lines {
    file: BufReader<File>,
    segment_bytes: u64,
    footer: Option<Value>,
}

impl Lines {
    fn open(path: &Path) -> Result<Lines> {
        let file = File::open(path).map_err(|error| {
            let mut failure = failure::of_io("read the receipt", &error);
            failure.cause = format!("`{}`: {}", Escaped(path.as_os_str().as_encoded_bytes()), failure.cause);
            failure
        })?;
        let mut lines = Lines { file: BufReader::new(file), segment_bytes: 0, footer: None };
        let header = lines.next_value()?.ok_or_else(|| no_receipt("it is empty"))?;
        match header.get("thalweg_receipt").and_then(Value::as_u64) {
            Some(1) => {}
            Some(version) => {
                return Err(no_receipt(&format!("version {version} is newer than this program")));
            }
            None => return Err(no_receipt("the first line is no header")),
        }
        let segment_bytes =
            header.get("terms").and_then(|terms| terms.get("segment_bytes")).and_then(Value::as_u64);
        lines.segment_bytes = segment_bytes.ok_or_else(|| no_receipt("the segment size is missing"))?;
        DigestAs::of_question(lines.segment_bytes)?;
        Ok(lines)
    }

    fn next_value(&mut self) -> Result<Option<Value>> {
        let mut line = Vec::new();
        let mut limited = (&mut self.file).take(LINE_BYTES_MAX);
        let got = limited
            .read_until(b'\n', &mut line)
            .map_err(|error| failure::of_io("read the receipt", &error))?;
        if got == 0 {
            return Ok(None);
        }
        serde_json::from_slice(&line).map(Some).map_err(|error| no_receipt(&error.to_string()))
    }

    /// The text of the next entry; `None` at the footer, which is kept.
    fn next_text(&mut self) -> Result<Option<String>> {
        let Some(value) = self.next_value()? else { return Ok(None) };
        match value.get("line").and_then(Value::as_str) {
            Some(text) => Ok(Some(text.to_owned())),
            None => {
                self.footer = Some(value);
                Ok(None)
            }
        }
    }

    fn next_line(&mut self) -> Result<Option<Line>> {
        let Some(text) = self.next_text()? else { return Ok(None) };
        text.parse().map(Some).map_err(|error: thalweg_wire::DecodeError| no_receipt(&error.to_string()))
    }
}

enum Verdict {
    Same,
    /// Its size is the same, and there is no digest to compare.
    Unknown,
    Missing(String),
    Differs(String),
    Trouble(Failure),
}

fn compare(reach: &Reach, line: &Line, is_file: bool, segment_bytes: u64) -> Verdict {
    let here = RelativePath::root();
    let path = if is_file { &here } else { &line.path };
    let kind = match reach.with_below(path, |below| below.kind()) {
        Ok(kind) => kind,
        Err(failure) if failure.kind == FailureKind::NotFound => return Verdict::Missing(failure.cause),
        Err(failure) => return Verdict::Trouble(failure.at(&line.path)),
    };
    let expected = line.kind.as_str();
    let found = match kind {
        Kind::File { .. } | Kind::HardLink { .. } => "file",
        Kind::Directory => "directory",
        Kind::Symlink { .. } => "symlink",
        Kind::Fifo => "fifo",
        Kind::Device { .. } => "device",
    };
    let is_content = matches!(expected, "file" | "file-marked-holes" | "hardlink");
    if found != if is_content { "file" } else { expected } {
        return Verdict::Differs(format!("a {found} is there, and a {expected} was copied"));
    }
    if !is_content {
        return Verdict::Same;
    }
    let how =
        if expected == "file-marked-holes" { DigestAs::Marked { segment_bytes } } else { DigestAs::Plain };
    if expected == "hardlink" && line.digest.is_none() {
        // Its content stands on the line of its first name.
        return Verdict::Same;
    }
    let (bytes, digest) = match reach.with_below(path, |below| below.digest_of_file(how)) {
        Ok(digested) => digested,
        Err(failure) if failure.kind == FailureKind::NotFound => return Verdict::Missing(failure.cause),
        Err(failure) if failure.kind == FailureKind::Io => return Verdict::Differs(failure.to_string()),
        Err(failure) => return Verdict::Trouble(failure.at(&line.path)),
    };
    if expected != "hardlink" && bytes != line.bytes {
        return Verdict::Differs(format!("it has {bytes} bytes, and {} were copied", line.bytes));
    }
    match line.digest {
        None => Verdict::Unknown,
        Some(expected) if expected == digest => Verdict::Same,
        Some(expected) => {
            Verdict::Differs(format!("its content has the digest {digest}, and {expected} was copied"))
        }
    }
}

/// Counts and tells.
struct Judge {
    json: bool,
    /// Hashes of the paths that the receipt has, for `--strict`.
    known: Option<HashSet<[u8; 16]>>,
    troubles: Troubles,
    stopped: Option<Failure>,
    entries: u64,
    bytes: u64,
    unknown: u64,
    /// Missing, differing, extra, not readable.
    counts: [u64; 4],
}

impl Judge {
    fn new(args: &VerifyArgs) -> Judge {
        Judge {
            json: args.ask.json,
            known: args.strict.then(HashSet::new),
            troubles: Troubles::new(args.ask.json),
            stopped: None,
            entries: 0,
            bytes: 0,
            unknown: 0,
            counts: [0; 4],
        }
    }

    /// False: stop.
    fn take(&mut self, line: &Line, verdict: Verdict) -> bool {
        self.entries += 1;
        if let Some(known) = &mut self.known {
            let path = line.path.as_bytes();
            known.insert(short(path));
            // A directory that was made on the way belongs to what is in it.
            path.iter().enumerate().filter(|(_, byte)| **byte == b'/').for_each(|(at, _)| {
                known.insert(short(&path[..at]));
            });
        }
        match verdict {
            Verdict::Same => self.bytes += line.bytes,
            Verdict::Unknown => self.unknown += 1,
            Verdict::Missing(why) => self.say(0, "missing", &line.path, &why),
            Verdict::Differs(why) => self.say(1, "differs", &line.path, &why),
            Verdict::Trouble(failure) if failure.kind == FailureKind::Connection => self.stop(failure),
            Verdict::Trouble(failure) => {
                self.counts[3] += 1;
                self.troubles.add(&failure);
            }
        }
        self.stopped.is_none()
    }

    fn stop(&mut self, failure: Failure) {
        self.stopped.get_or_insert(failure);
    }

    fn is_extra(&mut self, path: &RelativePath) {
        let is_known = |known: &HashSet<[u8; 16]>| known.contains(&short(path.as_bytes()));
        if !path.is_root() && !self.known.as_ref().is_some_and(is_known) {
            self.say(2, "extra", path, "the receipt does not have it");
        }
    }

    fn say(&mut self, what: usize, word: &str, path: &RelativePath, why: &str) {
        self.counts[what] += 1;
        if self.json {
            let mut object = json::about("difference", path);
            object.insert("what".into(), word.into());
            object.insert("why".into(), why.into());
            json::tell(&Value::Object(object));
        } else {
            out::tell(&format!("{word}  {path}  ({})", Escaped(why.as_bytes())));
        }
    }

    fn end(self) -> Result<Exit> {
        if let Some(failure) = self.stopped {
            return Err(failure);
        }
        let [missing, differing, extra, unreadable] = self.counts;
        let exit = match (differing, missing + extra + unreadable) {
            (1.., _) => Exit::Damage,
            (0, 1..) => Exit::Partial,
            (0, 0) => Exit::Done,
        };
        if self.json {
            json::tell(&serde_json::json!({
                "event": "verified", "exit": exit.code(), "entries": self.entries, "bytes": self.bytes,
                "missing": missing, "differing": differing, "extra": extra, "unreadable": unreadable,
                "without_digest": self.unknown,
            }));
            return Ok(exit);
        }
        out::tell(&format!(
            "{}: {} in {} entries; {missing} missing, {differing} differ, {extra} extra, {unreadable} unreadable, \
             {} without a digest to compare",
            if exit == Exit::Done { "verified" } else { "NOT as the receipt says" },
            units::size(self.bytes),
            units::count(self.entries),
            self.unknown,
        ));
        Ok(exit)
    }
}

/// Enough of a path's hash to know it again.
fn short(path: &[u8]) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&blake3::hash(path).as_bytes()[..16]);
    short
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
