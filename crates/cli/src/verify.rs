//! `thalweg verify RECEIPT PLACE`: is what the receipt says still there?
//!
//! 1. Both signatures, both statements against each other, and the root against the lines.
//! 2. Every entry of the receipt at the place; every file is read past the page cache and digested.
//! 3. Files whose content differs, and of which the receipt has the digests of parts, are read once more: which bytes?
//! 4. With `--strict`: nothing is there that the receipt does not have.
//!
//! Not checked: modes, owners, times, link targets; the receipt does not hold them. Files of which the receipt has no
//! digest (found unchanged by evidence, never read) are compared by size and counted.

use crate::args::VerifyArgs;
use crate::exit::Exit;
use crate::place::Places;
use crate::places::Troubles;
use crate::reach::{self, Reach};
use crate::receipt_file::{self, Part, Reader, Seal, Signer};
use crate::{json, out, units};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use thalweg_mover::endpoint::local::survey::{DigestAs, Found};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_wire::digest::{PieceHasher, Pieces};
use thalweg_wire::path::{Escaped, Sentence};
use thalweg_wire::receipt::Line;
use thalweg_wire::{Digest, Kind, RelativePath};

/// Files that are asked about at the same time: here, and at a far place, where it hides the round trip.
const WORKERS: (usize, usize) = (4, 16);
/// Damaged files of which the damage is looked for, at most: each is read again.
const LOCATED_MAX: usize = 4096;

/// `thalweg verify`.
///
/// # Errors
/// `Usage` for a file that is no receipt, `Damage` for one that does not say what was signed; when the place
/// cannot be reached.
pub fn verify(args: &VerifyArgs, places: &Places) -> Result<Exit> {
    let seal = open(&args.receipt)?.authenticate()?;
    for (who, signer) in [("sender", seal.sender), ("receiver", seal.receiver)] {
        if !args.keys.is_empty() && !is_expected(&signer, &args.keys) {
            let cause = format!("the {who} signed with {}, which is not among --keys", shown(&signer));
            return Err(Failure::new(FailureKind::Damage, "check the receipt", cause));
        }
    }
    if !args.ask.json {
        tell_signers(&seal, args.keys.is_empty());
    }
    let mut fars = reach::fars(&args.ask, places);
    let reach = Reach::open(&args.place, &mut fars)?;
    let is_file = matches!(reach.kind()?, Kind::File { .. });
    if is_file && seal.entries != 1 {
        let cause = "the receipt has more than one entry: name the directory that they are in";
        return Err(Failure::new(FailureKind::Usage, "verify", cause));
    }
    let judge = Mutex::new(Judge::new(args));
    let lines = Mutex::new(open(&args.receipt)?);
    let workers = if matches!(reach, Reach::Local(_)) { WORKERS.0 } else { WORKERS.1 };
    std::thread::scope(|scope| {
        for _ in 0..workers.min(seal.entries as usize).max(1) {
            scope.spawn(|| {
                loop {
                    let next = next_line(&mut lock(&lines));
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
    locate(&reach, is_file, &args.receipt, &mut judge)?;
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

fn open(path: &Path) -> Result<Reader<BufReader<File>>> {
    let file = File::open(path).map_err(|error| {
        let mut failure = failure::of_io("read the receipt", &error);
        failure.cause = format!("`{}`: {}", Escaped(path.as_os_str().as_encoded_bytes()), failure.cause);
        failure
    })?;
    Reader::begin(BufReader::new(file))
}

/// By the key or by the certificate.
fn is_expected(signer: &Signer, keys: &[String]) -> bool {
    let (key, certificate) = (json::hex(&signer.public_key), signer.certificate.to_string());
    keys.iter().any(|known| *known == key || *known == certificate)
}

fn shown(signer: &Signer) -> String {
    format!("the certificate {} (key {})", signer.certificate, json::hex(&signer.public_key))
}

fn tell_signers(seal: &Seal, unknown: bool) {
    use std::io::Write;
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "signed by the sender with {}", shown(&seal.sender));
    let _ = writeln!(err, "  and the receiver with {}", shown(&seal.receiver));
    if unknown {
        let _ =
            writeln!(err, "warning: anybody can sign a receipt; give the keys that you expect with --keys");
    }
}

fn next_line(reader: &mut Reader<BufReader<File>>) -> Result<Option<Line>> {
    loop {
        match reader.next_part()? {
            Some(Part::Line(text)) => return text.parse().map(Some).map_err(not_readable),
            Some(Part::Block(_) | Part::Pieces(..)) => {}
            None => return Ok(None),
        }
    }
}

fn not_readable(error: thalweg_wire::DecodeError) -> Failure {
    Failure::new(FailureKind::Usage, "read the receipt", error)
}

/// Tells which bytes of the damaged files differ, where the receipt has the digests of their parts.
fn locate(reach: &Reach, is_file: bool, receipt: &Path, judge: &mut Judge) -> Result<()> {
    if judge.damaged.is_empty() {
        return Ok(());
    }
    let mut reader = open(receipt)?;
    while let Some(part) = reader.next_part()? {
        let Part::Pieces(path, pieces) = part else { continue };
        let Some(&(bytes, digest)) = judge.damaged.get(&path) else { continue };
        if !receipt_file::are_parts_of(&pieces, bytes, digest) {
            let cause = format!("the digests of the parts of `{path}` do not join to that of the file");
            return Err(Failure::new(FailureKind::Damage, "check the receipt", cause));
        }
        let here = RelativePath::root();
        let place = if is_file { &here } else { &path };
        let mut search = Search::new(&pieces, bytes);
        match reach.with_below(place, |below| below.read(&mut |bytes| search.take(bytes))) {
            Ok(()) => judge.located(&path, &search.end()),
            Err(failure) => judge.troubles.add(&failure.at(&path)),
        }
    }
    Ok(())
}

/// Compares a file, as it is read, with the digests of its parts.
struct Search<'a> {
    pieces: &'a Pieces,
    file_bytes: u64,
    at: u64,
    /// Of the part that is being read, and where that part ends.
    hasher: Option<(PieceHasher, u64)>,
    /// Byte ranges that differ; neighbours are one.
    differing: Vec<Range<u64>>,
}

impl<'a> Search<'a> {
    fn new(pieces: &'a Pieces, file_bytes: u64) -> Self {
        Search { pieces, file_bytes, at: 0, hasher: None, differing: Vec::new() }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() && self.at < self.file_bytes {
            let start = self.at - self.at % self.pieces.piece_bytes;
            let end = self.file_bytes.min(start + self.pieces.piece_bytes);
            let (hasher, _) = self
                .hasher
                .get_or_insert_with(|| (PieceHasher::new(start, end - start, self.file_bytes), end));
            let step = bytes.len().min(usize::try_from(end - self.at).unwrap_or(usize::MAX));
            hasher.update(&bytes[..step]);
            bytes = &bytes[step..];
            self.at += step as u64;
            if self.at == end
                && let Some((hasher, _)) = self.hasher.take()
            {
                let expected = &self.pieces.digests[(start / self.pieces.piece_bytes) as usize];
                if hasher.finish() != *expected {
                    self.differs(start..end);
                }
            }
        }
        Ok(())
    }

    /// What is missing at the end differs too.
    fn end(mut self) -> Vec<Range<u64>> {
        if self.at < self.file_bytes {
            let start = self.at - self.at % self.pieces.piece_bytes;
            self.differs(start..self.file_bytes);
        }
        self.differing
    }

    fn differs(&mut self, range: Range<u64>) {
        match self.differing.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.differing.push(range),
        }
    }
}

enum Verdict {
    Same,
    /// Its size is the same, and there is no digest to compare.
    Unknown,
    Missing(String),
    Differs(String),
    /// Right kind and size, wrong content: it should have this digest.
    Damaged(String, Digest),
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
            let why = format!("its content has the digest {digest}, and {expected} was copied");
            Verdict::Damaged(why, expected)
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
    /// Files with wrong content, and what they should have: bytes and digest.
    damaged: HashMap<RelativePath, (u64, Digest)>,
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
            damaged: HashMap::new(),
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
            Verdict::Damaged(why, digest) => {
                self.say(1, "differs", &line.path, &why);
                if self.damaged.len() < LOCATED_MAX {
                    self.damaged.insert(line.path.clone(), (line.bytes, digest));
                }
            }
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

    /// Tells where a damaged file differs.
    fn located(&self, path: &RelativePath, ranges: &[Range<u64>]) {
        for range in ranges {
            if self.json {
                let mut object = json::about("damage", path);
                object.insert("start".into(), range.start.into());
                object.insert("end".into(), range.end.into());
                out::tell(&Value::Object(object).to_string());
            } else {
                out::tell(&format!("damaged  {path}  bytes {}..{}", range.start, range.end));
            }
        }
        if ranges.is_empty() && !self.json {
            out::tell(&format!("damaged  {path}  read again, it is as it was copied: look at the medium"));
        }
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
            out::tell(&format!("{word}  {path}  ({})", Sentence(why)));
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
