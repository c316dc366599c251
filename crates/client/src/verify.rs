//! Is what a receipt says still there?
//!
//! 1. Both signatures, both statements against each other, and the root against the lines.
//! 2. Every entry of the receipt at the place; every file is read past the page cache and digested.
//! 3. Hard links, which have no digest, are each a file (device and inode) of step 2, or have the content of one.
//! 4. Files whose content differs, and of which the receipt has the digests of parts, are read once more: which bytes?
//! 5. If asked: nothing is there that the receipt does not have.
//!
//! The receipt is opened once, and of what is no regular file a copy is made, so that each pass reads what step 1 has
//! checked. A file that is written in place meanwhile is found by the root, which each pass computes again.
//!
//! What failed when it was copied has no line: the signed totals say how much that was, and such a copy is not whole.
//!
//! Not checked: modes, owners, times, link targets; the receipt does not hold them. Files of which the receipt has no
//! digest (found unchanged by evidence, never read) are compared by size and counted.

use crate::reach::Reach;
use crate::receipt_file::{self, Part, Reader, Seal, Signer};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use thalweg_mover::endpoint::local::survey::{DigestAs, Found as Listed};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::Stop;
use thalweg_sys::atomic_file::{AtomicFile, Durability};
use thalweg_wire::digest::{PieceHasher, Pieces};
use thalweg_wire::hex::hex;
use thalweg_wire::receipt::Line;
use thalweg_wire::{Digest, Entry, Kind, RelativePath};

/// Files that are asked about at the same time: here, and at a far place, where it hides the round trip.
const WORKERS: (usize, usize) = (4, 16);
/// Damaged files of which the damage is looked for, at most: each is read again.
const LOCATED_MAX: usize = 4096;

/// What is found on the way.
#[derive(Debug)]
pub enum Told<'a> {
    /// `missing`, `differs` or `extra`: a path, and why.
    Difference(&'static str, &'a RelativePath, &'a str),
    /// A file whose content differs, read again: these bytes do, or none any more.
    Damage(&'a RelativePath, &'a [Range<u64>]),
    /// What could not be looked at.
    Trouble(&'a Failure),
}

/// Takes what is found, from one thread at a time.
pub type Tell<'a> = dyn FnMut(Told<'_>) + Send + 'a;

/// What was found, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Entries of the receipt that were looked for.
    pub entries: u64,
    /// Content bytes that have the digest of the receipt.
    pub bytes: u64,
    /// Entries that are not there.
    pub missing: u64,
    /// Entries of another kind, size or content.
    pub differing: u64,
    /// Entries that the receipt does not have; `None`: nobody looked for them.
    pub extra: Option<u64>,
    /// Entries that could not be read; when it is strict, also directories that could not be listed.
    pub unreadable: u64,
    /// Files of the right size of which the receipt has no digest, and hard links of which it has no file.
    pub without_digest: u64,
    /// Entries that failed when it was copied: the receipt has nothing of them but how many they are.
    pub failed: u64,
    /// Entries that were skipped when it was copied, as somebody wanted it.
    pub skipped: u64,
}

impl Found {
    /// Whether all that the receipt has is as it says.
    pub fn is_same(&self) -> bool {
        self.missing + self.differing + self.extra.unwrap_or(0) + self.unreadable == 0
    }

    /// Whether that is also all that was to be copied.
    pub fn is_whole(&self) -> bool {
        self.is_same() && self.failed == 0
    }
}

/// Reads a public key or the fingerprint of a certificate, also as `openssl` prints it, into the form that [`seal`]
/// takes.
///
/// # Errors
/// What is wanted instead.
pub fn parse_key(text: &str) -> std::result::Result<String, String> {
    // openssl puts colons between the bytes.
    let digits = text.replace(':', "").to_ascii_lowercase();
    match digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(digits),
        false => Err("a fingerprint or public key has 64 hexadecimal digits".into()),
    }
}

/// A receipt that was opened, whatever its name leads to by now.
#[derive(Debug)]
pub struct Receipt {
    file: File,
    /// As the user wrote it.
    path: PathBuf,
}

impl Receipt {
    /// Opens it. What is no regular file, as a pipe, can be read once only: it is copied into a file without a name.
    /// That waits for whoever writes into the pipe.
    ///
    /// # Errors
    /// What the file system says; `Usage` for a pipe in which no receipt begins.
    pub fn open(path: &Path) -> Result<Receipt> {
        let of_io = |error: io::Error| named(path, failure::of_io("read the receipt", &error));
        let file = File::open(path).map_err(of_io)?;
        let is_file = file.metadata().map_err(of_io)?.is_file();
        let file = if is_file { file } else { unnamed_copy(file, path)? };
        Ok(Receipt { file, path: path.to_owned() })
    }

    fn begin(&self) -> Result<Reader<BufReader<FromStart<'_>>>> {
        Reader::begin(BufReader::new(FromStart { file: &self.file, at: 0 }))
    }

    /// A pass after the one that checked it.
    fn pass(&self, seal: &Seal) -> Result<Pass<'_>> {
        let reader = self.begin().map_err(|failure| self.other(failure))?;
        Ok(Pass { receipt: self, reader, root: seal.root })
    }

    /// Why a pass cannot go on. What was checked, and is no receipt by now, was written meanwhile.
    fn other(&self, failure: Failure) -> Failure {
        let is_no_receipt = matches!(failure.kind, FailureKind::Usage | FailureKind::Damage);
        named(&self.path, if is_no_receipt { written_meanwhile() } else { failure })
    }
}

/// See [`Receipt::open`]. What is no receipt is not copied: a device may have no end.
fn unnamed_copy(from: File, path: &Path) -> Result<File> {
    let mut from = BufReader::new(from);
    let mut header = Vec::new();
    from.by_ref()
        .take(receipt_file::LINE_BYTES_MAX)
        .read_until(b'\n', &mut header)
        .map_err(|error| named(path, failure::of_io("read the receipt", &error)))?;
    Reader::begin(&header[..]).map_err(|failure| named(path, failure))?;
    let directory = std::env::temp_dir();
    let of_io = |error: io::Error| named(&directory, failure::of_io("keep the receipt", &error));
    let name = format!("thalweg-receipt-{}", std::process::id());
    let hidden = AtomicFile::begin(&directory.join(name), 0o600, Durability::Unsynced)
        .map_err(|error| of_io(error.cause))?;
    let mut copy = hidden.file().try_clone().map_err(of_io)?;
    // It has no name from here on.
    drop(hidden);
    copy.write_all(&header).and_then(|()| io::copy(&mut from, &mut copy)).map_err(of_io)?;
    Ok(copy)
}

/// Reads a file from its beginning, with a place of its own.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buffer, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

/// Reads a receipt that was checked once more.
struct Pass<'a> {
    receipt: &'a Receipt,
    reader: Reader<BufReader<FromStart<'a>>>,
    /// What was checked.
    root: Digest,
}

impl Pass<'_> {
    fn next_part(&mut self) -> Result<Option<Part>> {
        self.reader.next_part().map_err(|failure| self.receipt.other(failure))
    }

    fn next_line(&mut self) -> Result<Option<Line>> {
        loop {
            match self.next_part()? {
                Some(Part::Line(line)) => return Ok(Some(line)),
                Some(Part::Block(_) | Part::Pieces(..)) => {}
                None => return Ok(None),
            }
        }
    }

    /// At its end: whether it read what was checked. The root, as the times of a file can be set, and are coarse.
    fn end(self) -> Result<()> {
        match self.reader.root() == self.root {
            true => Ok(()),
            false => Err(named(&self.receipt.path, written_meanwhile())),
        }
    }
}

fn written_meanwhile() -> Failure {
    Failure::new(FailureKind::Damage, "check the receipt", "it was written while it was read")
}

/// Checks that both sides signed all of the receipt, and, unless `keys` is empty, that both are among these (public keys
/// or fingerprints of certificates, as [`parse_key`] has them).
///
/// # Errors
/// `Usage` for a file that is no receipt, `Damage` for one that does not say what was signed.
pub fn seal(receipt: &Receipt, keys: &[String]) -> Result<Seal> {
    let sealed = receipt.begin().and_then(Reader::authenticate);
    let seal = sealed.map_err(|failure| named(&receipt.path, failure))?;
    for (who, signer) in [("sender", seal.sender), ("receiver", seal.receiver)] {
        if !keys.is_empty() && !is_expected(&signer, keys) {
            let cause = format!("the {who} signed with {signer}, which is not among --keys");
            return Err(Failure::new(FailureKind::Damage, "check the receipt", cause));
        }
    }
    Ok(seal)
}

/// Compares a place with a receipt whose [`seal`] was checked. `strict`: what the receipt does not have is a difference.
/// When it is asked to stop, the files that are being read are the last.
///
/// # Errors
/// `Usage` for a file as the place of many; `Damage` for a receipt that was written meanwhile; when the place cannot be
/// reached.
pub fn verify(
    receipt: &Receipt,
    seal: &Seal,
    reach: &Reach,
    strict: bool,
    tell: &mut Tell<'_>,
    stop: &Stop,
) -> Result<Found> {
    let is_file = matches!(reach.entry(b"")?.kind, Kind::File { .. });
    if is_file && seal.entries != 1 {
        let cause = "the receipt has more than one entry: name the directory that they are in";
        return Err(Failure::new(FailureKind::Usage, "verify", cause));
    }
    let judge = Mutex::new(Judge::new(strict, seal, tell));
    let lines = Mutex::new(receipt.pass(seal)?);
    let workers = if matches!(reach, Reach::Local(_)) { WORKERS.0 } else { WORKERS.1 };
    std::thread::scope(|scope| {
        for _ in 0..workers.min(seal.entries as usize).max(1) {
            scope.spawn(|| {
                loop {
                    if stop.is_asked() {
                        let failure = Failure::new(FailureKind::Stopped, "verify", "stopped on request");
                        return lock(&judge).stop(failure);
                    }
                    let next = lock(&lines).next_line();
                    let line = match next {
                        Ok(Some(line)) => line,
                        Ok(None) => return,
                        Err(failure) => return lock(&judge).stop(failure),
                    };
                    let (verdict, seen) = compare(reach, &line, is_file, seal.segment_bytes);
                    if !lock(&judge).take(&line, verdict, seen) {
                        return;
                    }
                }
            });
        }
    });
    let mut judge = judge.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    if judge.stopped.is_none() {
        lines.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).end()?;
        compare_last_words(receipt, seal, &mut judge)?;
        compare_links(reach, is_file, seal, receipt, &mut judge)?;
        locate(reach, is_file, (receipt, seal), &mut judge)?;
    }
    if strict && !is_file {
        reach.list(true, &mut |found| {
            match found {
                Listed::Entry(entry) => judge.is_extra(&entry.path),
                // Nobody knows what is there that the receipt does not have.
                Listed::Trouble(failure) => judge.is_unreadable(&failure),
            }
            Ok(())
        })?;
    }
    judge.end()
}

/// Of a file that grew after it was complete a stream states once more what it has: the last word counts.
fn compare_last_words(receipt: &Receipt, seal: &Seal, judge: &mut Judge<'_, '_>) -> Result<()> {
    let longer = std::mem::take(&mut judge.longer);
    if longer.is_empty() {
        return Ok(());
    }
    let (mut lines, mut last) = (receipt.pass(seal)?, BTreeMap::new());
    while let Some(line) = lines.next_line()? {
        if longer.contains_key(&line.path) {
            last.insert(line.path.clone(), line);
        }
    }
    lines.end()?;
    for (path, line) in last {
        if let Some(bytes) = longer.get(&path).filter(|bytes| **bytes > line.bytes) {
            judge.differs(&path, &has_other_bytes(*bytes, &line));
        }
    }
    Ok(())
}

/// A hard link is one of the files that were looked at, and goes by what was found of that one. Where it is none of them,
/// its content has to be that of one: who passed the tree on may not have kept hard links.
fn compare_links(
    reach: &Reach,
    is_file: bool,
    seal: &Seal,
    receipt: &Receipt,
    judge: &mut Judge<'_, '_>,
) -> Result<()> {
    let mut strays = judge.take_strays();
    let digest_of = |path: &RelativePath, how: DigestAs| reach.below(path.as_bytes()).digest_of_file(how);
    pass_copies(&digest_of, seal, receipt, &mut strays, judge)?;
    if strays.is_empty() {
        return Ok(());
    }
    // Its file may be one that could not be looked at.
    let mut is_sure = !is_file && judge.found.missing + judge.found.unreadable == 0;
    let mut named_twice = HashSet::new();
    if is_sure && (seal.skipped > 0 || seal.failed > 0) {
        // Its file may have no line, because it was left as it was: then it is there under that name too.
        let identities: HashSet<Identity> = strays.values().map(|seen| seen.identity).collect();
        reach.list(true, &mut |found| {
            match found {
                Listed::Entry(entry) => {
                    let identity = identity_of(&entry);
                    if identities.contains(&identity) && !strays.contains_key(&entry.path) {
                        named_twice.insert(identity);
                    }
                }
                Listed::Trouble(_) => is_sure = false,
            }
            Ok(())
        })?;
    }
    for (path, seen) in strays {
        if is_sure && !named_twice.contains(&seen.identity) {
            judge.differs(&path, "a hard link was copied, and it has the content of no file of the receipt");
        } else {
            judge.found.without_digest += 1;
        }
    }
    Ok(())
}

/// Bytes and digest of a file at the place.
type DigestOf<'a> = &'a dyn Fn(&RelativePath, DigestAs) -> Result<(u64, Digest)>;

/// Takes out of `strays` what has the content of a file of the receipt, by its digest.
fn pass_copies(
    digest_of: DigestOf<'_>,
    seal: &Seal,
    receipt: &Receipt,
    strays: &mut BTreeMap<RelativePath, Seen>,
    judge: &mut Judge<'_, '_>,
) -> Result<()> {
    let mut has_marked = false;
    for how in [DigestAs::Plain, DigestAs::Marked { segment_bytes: seal.segment_bytes }] {
        // A link has no content, wherever it leads.
        let has_files = strays.values().any(|seen| seen.bare.is_none());
        if !has_files || (how != DigestAs::Plain && !has_marked) {
            return Ok(());
        }
        let mut contents: HashMap<(u64, Digest), Vec<RelativePath>> = HashMap::new();
        for (path, _) in strays.iter().filter(|(_, seen)| seen.bare.is_none()) {
            match digest_of(path, how) {
                Ok(content) => contents.entry(content).or_default().push(path.clone()),
                // That says nothing of the file.
                Err(failure) if failure.kind == FailureKind::Connection => return Err(failure),
                // What cannot be read has no content that is known.
                Err(_) => {}
            }
        }
        let mut lines = receipt.pass(seal)?;
        while let Some(line) = lines.next_line()? {
            has_marked |= line.kind == "file-marked-holes";
            let copies = line.digest.and_then(|digest| contents.remove(&(line.bytes, digest)));
            for path in copies.unwrap_or_default() {
                strays.remove(&path);
                judge.found.bytes += line.bytes;
            }
        }
        lines.end()?;
    }
    Ok(())
}

/// The same failure, with the receipt that it is about.
fn named(path: &Path, failure: Failure) -> Failure {
    failure::at_path(failure, path)
}

/// By the key or by the certificate.
fn is_expected(signer: &Signer, keys: &[String]) -> bool {
    let (key, certificate) = (hex(&signer.public_key), signer.certificate.to_string());
    keys.iter().any(|known| *known == key || *known == certificate)
}

/// Tells which bytes of the damaged files differ, where the receipt has the digests of their parts.
fn locate(
    reach: &Reach,
    is_file: bool,
    (receipt, seal): (&Receipt, &Seal),
    judge: &mut Judge<'_, '_>,
) -> Result<()> {
    if judge.damaged.is_empty() {
        return Ok(());
    }
    let mut parts = receipt.pass(seal)?;
    while let Some(part) = parts.next_part()? {
        let Part::Pieces(path, pieces) = part else { continue };
        let Some(&(bytes, digest)) = judge.damaged.get(&path) else { continue };
        // Of what it was before, if it is in the receipt twice.
        if !receipt_file::are_parts_of(&pieces, bytes, digest) {
            continue;
        }
        let place = if is_file { &b""[..] } else { path.as_bytes() };
        let mut search = Search::new(&pieces, bytes);
        match reach.below(place).read(&mut |bytes| search.take(bytes)) {
            Ok(()) => (judge.tell)(Told::Damage(&path, &search.end())),
            Err(failure) => (judge.tell)(Told::Trouble(&failure.at(&path))),
        }
    }
    parts.end()
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

/// Device and inode: what all names of a file have in common.
type Identity = (u64, u64);

/// Of what is not there, and where they are not told.
const UNTOLD: Identity = (0, 0);

fn identity_of(entry: &Entry) -> Identity {
    (entry.evidence.device, entry.evidence.inode)
}

/// What stands at the path of a line.
#[derive(Clone, Copy)]
struct Seen {
    identity: Identity,
    /// Of a link, FIFO or device: a hash of all that it is. A hash, as the target of a link can be long.
    bare: Option<[u8; 16]>,
}

impl Seen {
    const NOTHING: Seen = Seen { identity: UNTOLD, bare: None };

    fn of(entry: &Entry) -> Seen {
        Seen { identity: identity_of(entry), bare: bare_of(&entry.kind) }
    }
}

fn bare_of(kind: &Kind) -> Option<[u8; 16]> {
    let is_bare = matches!(kind, Kind::Symlink { .. } | Kind::Fifo | Kind::Device { .. });
    is_bare.then(|| short(format!("{kind:?}").as_bytes()))
}

/// What was found of a file, for its further names; the best of its lines counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Differs,
    Unknown,
    Same,
}

enum Verdict {
    Same,
    /// Its size is the same, and there is no digest to compare.
    Unknown,
    /// A hard link: its content stands on the line of its first name, which it does not tell.
    Link,
    Missing(String),
    Differs(String),
    /// It has so many bytes, which are more: a later line may say so.
    Longer(u64),
    /// Right kind and size, wrong content: it should have this digest.
    Damaged(String, Digest),
    Trouble(Failure),
}

impl Verdict {
    /// `None` if the file was not there.
    fn standing(&self) -> Option<Standing> {
        match self {
            Verdict::Same => Some(Standing::Same),
            Verdict::Unknown | Verdict::Trouble(_) => Some(Standing::Unknown),
            Verdict::Differs(_) | Verdict::Longer(_) | Verdict::Damaged(..) => Some(Standing::Differs),
            Verdict::Link | Verdict::Missing(_) => None,
        }
    }
}

fn compare(reach: &Reach, line: &Line, is_file: bool, segment_bytes: u64) -> (Verdict, Seen) {
    let path = if is_file { b"" } else { line.path.as_bytes() };
    match reach.entry(path) {
        Ok(entry) => (compare_entry(reach, path, &entry.kind, line, segment_bytes), Seen::of(&entry)),
        Err(failure) if failure.kind == FailureKind::NotFound => {
            (Verdict::Missing(failure.cause), Seen::NOTHING)
        }
        Err(failure) => (Verdict::Trouble(failure.at(&line.path)), Seen::NOTHING),
    }
}

fn compare_entry(reach: &Reach, path: &[u8], kind: &Kind, line: &Line, segment_bytes: u64) -> Verdict {
    let expected = line.kind.as_str();
    let found = match kind {
        Kind::File { .. } | Kind::HardLink { .. } => "file",
        Kind::Directory => "directory",
        Kind::Symlink { .. } => "symlink",
        Kind::Fifo => "fifo",
        Kind::Device { .. } => "device",
    };
    // Of which kind its first name is, its line does not tell.
    if expected == "hardlink" && line.digest.is_none() && !matches!(found, "file" | "directory") {
        return Verdict::Link;
    }
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
        return Verdict::Link;
    }
    let (bytes, digest) = match reach.below(path).digest_of_file(how) {
        Ok(digested) => digested,
        Err(failure) if failure.kind == FailureKind::NotFound => return Verdict::Missing(failure.cause),
        Err(failure) if failure.kind == FailureKind::Io => return Verdict::Differs(failure.to_string()),
        Err(failure) => return Verdict::Trouble(failure.at(&line.path)),
    };
    if expected == "file" && bytes > line.bytes {
        return Verdict::Longer(bytes);
    }
    if expected != "hardlink" && bytes != line.bytes {
        return Verdict::Differs(has_other_bytes(bytes, line));
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

fn has_other_bytes(bytes: u64, line: &Line) -> String {
    format!("it has {bytes} bytes, and {} were copied", line.bytes)
}

/// Counts and tells.
struct Judge<'a, 'b> {
    /// Hashes of the paths that the receipt has, to find what it does not have.
    known: Option<HashSet<[u8; 16]>>,
    tell: &'a mut Tell<'b>,
    stopped: Option<Failure>,
    found: Found,
    /// Files that have more than a line says, and how much.
    longer: BTreeMap<RelativePath, u64>,
    /// Files with wrong content, and what they should have: bytes and digest.
    damaged: HashMap<RelativePath, (u64, Digest)>,
    /// What was found of the files, and of links, FIFOs and devices; only for a receipt with hard links.
    files: Option<HashMap<Identity, Standing>>,
    /// Links, FIFOs and devices that are as the receipt says ([`Seen::bare`]): never more than there are `files`.
    bare: HashSet<[u8; 16]>,
    /// Hard links, until all files were looked at.
    links: Vec<(RelativePath, Seen)>,
}

impl<'a, 'b> Judge<'a, 'b> {
    fn new(strict: bool, seal: &Seal, tell: &'a mut Tell<'b>) -> Judge<'a, 'b> {
        Judge {
            known: strict.then(HashSet::new),
            tell,
            stopped: None,
            found: Found {
                extra: strict.then_some(0),
                failed: seal.failed,
                skipped: seal.skipped,
                ..Found::default()
            },
            longer: BTreeMap::new(),
            damaged: HashMap::new(),
            files: (seal.hard_links > 0).then(HashMap::new),
            bare: HashSet::new(),
            links: Vec::new(),
        }
    }

    /// False: stop.
    fn take(&mut self, line: &Line, verdict: Verdict, seen: Seen) -> bool {
        self.found.entries += 1;
        if let (Some(files), Some(standing)) = (&mut self.files, verdict.standing())
            && seen.identity != UNTOLD
            && !matches!(line.kind.as_str(), "directory" | "hardlink")
        {
            let known = files.entry(seen.identity).or_insert(standing);
            *known = standing.max(*known);
            if standing == Standing::Same {
                self.bare.extend(seen.bare);
            }
        }
        if let Some(known) = &mut self.known {
            let path = line.path.as_bytes();
            known.insert(short(path));
            // A directory that was made on the way belongs to what is in it.
            path.iter().enumerate().filter(|(_, byte)| **byte == b'/').for_each(|(at, _)| {
                known.insert(short(&path[..at]));
            });
        }
        match verdict {
            Verdict::Longer(bytes) if self.longer.len() < LOCATED_MAX => {
                self.longer.insert(line.path.clone(), bytes);
            }
            Verdict::Longer(bytes) => self.differs(&line.path, &has_other_bytes(bytes, line)),
            Verdict::Same => self.found.bytes += line.bytes,
            Verdict::Unknown => self.found.without_digest += 1,
            Verdict::Link => self.links.push((line.path.clone(), seen)),
            Verdict::Missing(why) => {
                self.found.missing += 1;
                (self.tell)(Told::Difference("missing", &line.path, &why));
            }
            Verdict::Differs(why) => self.differs(&line.path, &why),
            Verdict::Damaged(why, digest) => {
                self.differs(&line.path, &why);
                if self.damaged.len() < LOCATED_MAX {
                    self.damaged.insert(line.path.clone(), (line.bytes, digest));
                }
            }
            Verdict::Trouble(failure) if failure.kind == FailureKind::Connection => self.stop(failure),
            Verdict::Trouble(failure) => self.is_unreadable(&failure),
        }
        self.stopped.is_none()
    }

    /// The hard links that are none of the files, nor as a link, FIFO or device of the receipt is; the others have their
    /// verdict.
    fn take_strays(&mut self) -> BTreeMap<RelativePath, Seen> {
        let (files, mut strays) = (self.files.take().unwrap_or_default(), BTreeMap::new());
        let alike = std::mem::take(&mut self.bare);
        for (path, seen) in std::mem::take(&mut self.links) {
            match files.get(&seen.identity) {
                Some(Standing::Same) => {}
                Some(Standing::Differs) => self.differs(&path, "its file differs under its other name too"),
                Some(Standing::Unknown) => self.found.without_digest += 1,
                None if seen.identity == UNTOLD => self.found.without_digest += 1,
                None if seen.bare.is_some_and(|bare| alike.contains(&bare)) => {}
                None => {
                    strays.insert(path, seen);
                }
            }
        }
        strays
    }

    fn differs(&mut self, path: &RelativePath, why: &str) {
        self.found.differing += 1;
        (self.tell)(Told::Difference("differs", path, why));
    }

    fn is_unreadable(&mut self, failure: &Failure) {
        self.found.unreadable += 1;
        (self.tell)(Told::Trouble(failure));
    }

    fn stop(&mut self, failure: Failure) {
        self.stopped.get_or_insert(failure);
    }

    fn is_extra(&mut self, path: &RelativePath) {
        let is_known = |known: &HashSet<[u8; 16]>| known.contains(&short(path.as_bytes()));
        if !path.is_root() && !self.known.as_ref().is_some_and(is_known) {
            *self.found.extra.get_or_insert(0) += 1;
            (self.tell)(Told::Difference("extra", path, "the receipt does not have it"));
        }
    }

    fn end(self) -> Result<Found> {
        self.stopped.map_or(Ok(self.found), Err)
    }
}

/// Enough of a hash to know a path, or what stands there, again.
fn short(bytes: &[u8]) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt_file::tests::Sample;
    use thalweg_mover::link::Fingerprint;

    const SEGMENT_BYTES: u64 = 256 << 10;

    fn path(name: &str) -> RelativePath {
        RelativePath::new(name.as_bytes().to_vec()).unwrap()
    }

    fn line(kind: &str, name: &str) -> Line {
        Line { digest: None, bytes: 0, kind: kind.to_owned(), path: path(name) }
    }

    fn seen(inode: u64, kind: &Kind) -> Seen {
        Seen { identity: (1, inode), bare: bare_of(kind) }
    }

    /// Of a receipt with hard links.
    fn seal() -> Seal {
        let signer = Signer { public_key: [0; 32], certificate: Fingerprint([0; 32]) };
        Seal {
            sender: signer,
            receiver: signer,
            entries: 5,
            hard_links: 3,
            failed: 0,
            skipped: 0,
            segment_bytes: SEGMENT_BYTES,
            root: Digest::default(),
        }
    }

    /// Which nobody may read.
    fn no_receipt() -> Receipt {
        Receipt { file: tempfile::tempfile().unwrap(), path: "no receipt".into() }
    }

    #[test]
    fn a_link_in_place_of_a_second_name_passes_only_if_one_that_was_copied_stands_like_it() {
        let mut tell = |_: Told<'_>| {};
        let mut judge = Judge::new(false, &seal(), &mut tell);
        let link_to = |target: &str| Kind::Symlink { target: target.as_bytes().to_vec() };
        // The line of a first name can come after those of the others.
        let links = [("alike", 2, link_to("a")), ("as-wrong", 3, Kind::Fifo), ("other", 4, link_to("b"))];
        for (name, inode, kind) in links {
            assert!(judge.take(&line("hardlink", name), Verdict::Link, seen(inode, &kind)));
        }
        assert!(judge.take(&line("symlink", "link"), Verdict::Same, seen(5, &link_to("a"))));
        let wrong = Verdict::Differs("a fifo is there".into());
        assert!(judge.take(&line("symlink", "wrong"), wrong, seen(6, &Kind::Fifo)));
        let strays: Vec<RelativePath> = judge.take_strays().into_keys().collect();
        assert_eq!(strays, [path("as-wrong"), path("other")]);
    }

    #[test]
    fn what_has_no_content_is_not_read_for_that_of_a_file() {
        let mut tell = |_: Told<'_>| {};
        let mut judge = Judge::new(false, &seal(), &mut tell);
        let mut strays = BTreeMap::from([(path("fifo"), seen(2, &Kind::Fifo))]);
        let never = |path: &RelativePath, _: DigestAs| -> Result<(u64, Digest)> { panic!("read {path}") };
        pass_copies(&never, &seal(), &no_receipt(), &mut strays, &mut judge).unwrap();
        assert!(strays.contains_key(&path("fifo")));
    }

    /// Of a place with a file `a`, and the text of a receipt that says so; one that says `b` is there too.
    fn place_and_receipts() -> (tempfile::TempDir, [String; 2]) {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("place")).unwrap();
        std::fs::write(scratch.path().join("place/a"), "").unwrap();
        let line = |name: &str| format!("-  0  file  done  {name}\n");
        let receipts = [vec![line("a")], vec![line("a"), line("b")]].map(|lines| {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            Sample::new(&lines).text()
        });
        (scratch, receipts)
    }

    /// Entries, and how many are missing, at `place`.
    fn compared(receipt: &Receipt, seal: &Seal, scratch: &Path) -> Result<(u64, u64)> {
        let reach = Reach::Local(scratch.join("place"));
        let found = verify(receipt, seal, &reach, false, &mut |_: Told<'_>| {}, &Stop::default())?;
        Ok((found.entries, found.missing))
    }

    #[test]
    fn what_was_checked_is_compared_whatever_is_called_so_meanwhile() {
        let (scratch, [lesser, whole]) = place_and_receipts();
        let (path, other) = (scratch.path().join("receipt"), scratch.path().join("other"));
        std::fs::write(&path, &whole).unwrap();
        std::fs::write(&other, &lesser).unwrap();
        let receipt = Receipt::open(&path).unwrap();
        let seal = super::seal(&receipt, &[]).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(compared(&receipt, &seal, scratch.path()).unwrap(), (2, 1));
    }

    #[test]
    fn a_receipt_that_is_written_in_place_after_it_was_checked_is_damage() {
        let (scratch, [lesser, whole]) = place_and_receipts();
        let path = scratch.path().join("receipt");
        for meanwhile in [lesser.as_str(), "", "something else", &whole[..whole.len() / 2]] {
            std::fs::write(&path, &whole).unwrap();
            let receipt = Receipt::open(&path).unwrap();
            let seal = super::seal(&receipt, &[]).unwrap();
            std::fs::write(&path, meanwhile).unwrap();
            let refused = compared(&receipt, &seal, scratch.path()).unwrap_err();
            assert_eq!(refused.kind, FailureKind::Damage, "{refused}");
        }
    }

    #[test]
    fn a_pipe_is_read_once_and_compared_in_all_passes() {
        let (scratch, [_, whole]) = place_and_receipts();
        let fifo = scratch.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let write = |text: String| {
            let fifo = fifo.clone();
            // Who reads it may not want all of it.
            std::thread::spawn(move || drop(std::fs::write(fifo, text)))
        };
        let writer = write(whole);
        let receipt = Receipt::open(&fifo).unwrap();
        writer.join().unwrap();
        let seal = super::seal(&receipt, &[]).unwrap();
        assert_eq!(compared(&receipt, &seal, scratch.path()).unwrap(), (2, 1));
        // What has no end is not waited for, if it does not begin as a receipt.
        let writer = write("x".repeat(32 << 20));
        assert_eq!(Receipt::open(&fifo).unwrap_err().kind, FailureKind::Usage);
        writer.join().unwrap();
    }

    #[test]
    fn a_lost_connection_is_told_as_such_and_not_as_a_hard_link_that_differs() {
        let mut tell = |_: Told<'_>| {};
        let mut judge = Judge::new(false, &seal(), &mut tell);
        let file = Kind::File { sparse: false, marked: false };
        let mut strays = BTreeMap::from([(path("copy"), seen(2, &file))]);
        let lost = |_: &RelativePath, _: DigestAs| -> Result<(u64, Digest)> {
            Err(Failure::new(FailureKind::Connection, "digest", "the server is gone"))
        };
        let failure = pass_copies(&lost, &seal(), &no_receipt(), &mut strays, &mut judge).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Connection);
    }
}
