//! The receipt that a place is compared with: opened once, checked, and read again in each pass.

use super::superseded::{At, Superseded};
use crate::b3sum;
use crate::receipt_file::{self, Part, Reader, Seal, Signer};
use serde_json::{Map, Value};
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_sys::atomic_file::{AtomicFile, Durability};
use thalweg_wire::Digest;
use thalweg_wire::hex::hex;
use thalweg_wire::receipt::Line;

/// What fails where a receipt is not what was signed.
const CHECK: &str = "check the receipt";

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

/// Files of a receipt that a list of `b3sum` does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unlisted {
    /// The receipt has no digest of them that `b3sum` knows: unchanged, hard links, large holes.
    pub without_digest: u64,
    /// Their names are not UTF-8.
    pub unnamed: u64,
}

impl Unlisted {
    /// Whether a list is whole beside them: it has all files that the copy was to move.
    pub fn is_whole(&self, seal: &Seal) -> bool {
        self.without_digest + self.unnamed == 0 && seal.failed == 0
    }
}

/// A receipt that was opened, whatever its name leads to by now.
#[derive(Debug)]
pub struct Receipt {
    file: File,
    /// As the user wrote it.
    path: PathBuf,
    /// Which of its lines are not the last of their path, once that was looked for.
    superseded: OnceLock<Superseded>,
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
        Ok(Receipt { file, path: path.to_owned(), superseded: OnceLock::new() })
    }

    /// Tells the lines of a receipt that was checked, in their order; of several with one path that with the highest
    /// number. Memory: some 4 bytes for each, and some 80 MB where very many paths have several.
    ///
    /// # Errors
    /// `Damage` if it was written meanwhile; what the sink says.
    pub fn last_lines(&self, seal: &Seal, sink: &mut dyn FnMut(Line) -> Result<()>) -> Result<()> {
        let superseded = self.superseded(seal)?;
        let mut pass = self.pass(seal)?;
        while let Some(line) = pass.next_line()? {
            if !superseded.has(pass.at()) {
                sink(line)?;
            }
        }
        pass.end()
    }

    /// Which of its lines are not the last of their path, if it was checked. Looked for once: that reads it twice and
    /// more.
    ///
    /// # Errors
    /// As [`Receipt::last_lines`].
    pub(super) fn superseded(&self, seal: &Seal) -> Result<&Superseded> {
        match self.superseded.get() {
            Some(known) => Ok(known),
            None => {
                let found = Superseded::of(self, seal)?;
                Ok(self.superseded.get_or_init(|| found))
            }
        }
    }

    /// Refuses to write a list over the receipt itself. `to`: what is known of the file that is to be written, if it is
    /// there.
    ///
    /// # Errors
    /// `Usage`.
    pub fn refuse_to_replace(&self, to: io::Result<Metadata>) -> Result<()> {
        let file = |known: Metadata| (known.dev(), known.ino());
        match (self.file.metadata().map(file), to.map(file)) {
            (Ok(own), Ok(other)) if own == other => {
                let cause = "it is the receipt, which would be lost";
                Err(named(&self.path, Failure::new(FailureKind::Usage, "write the list", cause)))
            }
            _ => Ok(()),
        }
    }

    /// Tells the lines of its files, if it was checked, as `b3sum --check` takes them, each with its end; see
    /// [`Receipt::last_lines`]. `unlisted` grows by those that have none, also where it fails.
    ///
    /// # Errors
    /// As there.
    pub fn sums(
        &self,
        seal: &Seal,
        unlisted: &mut Unlisted,
        sink: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        self.last_lines(seal, &mut |line| {
            match (line.kind.as_str(), line.digest) {
                // It is what `b3sum` prints of a file that has no marked holes.
                ("file" | "hardlink", Some(digest)) => match b3sum::line(&line.path, digest) {
                    Some(text) => return sink(&text),
                    None => unlisted.unnamed += 1,
                },
                ("file" | "file-marked-holes" | "hardlink", _) => unlisted.without_digest += 1,
                _ => {}
            }
            Ok(())
        })
    }

    fn begin(&self) -> Result<Reader<BufReader<FromStart<'_>>>> {
        Reader::begin(BufReader::new(FromStart { file: &self.file, at: 0 }))
    }

    /// A pass after the one that checked it.
    pub(super) fn pass(&self, seal: &Seal) -> Result<Pass<'_>> {
        let reader = self.begin().map_err(|failure| self.other(failure))?;
        Ok(Pass { receipt: self, reader, root: seal.root, block: 0, lines: 0 })
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
pub(super) struct Pass<'a> {
    receipt: &'a Receipt,
    reader: Reader<BufReader<FromStart<'a>>>,
    /// What was checked.
    root: Digest,
    /// The block of the line that was read last.
    block: u64,
    /// How many lines were read.
    lines: u64,
}

impl Pass<'_> {
    pub(super) fn next_part(&mut self) -> Result<Option<Part>> {
        self.reader.next_part().map_err(|failure| self.receipt.other(failure))
    }

    pub(super) fn next_line(&mut self) -> Result<Option<Line>> {
        loop {
            match self.next_part()? {
                Some(Part::Line(line)) => {
                    self.lines += 1;
                    return Ok(Some(line));
                }
                Some(Part::Block(number)) => self.block = number,
                Some(Part::Pieces(..)) => {}
                None => return Ok(None),
            }
        }
    }

    /// Where the last [line](Pass::next_line) stands.
    pub(super) fn at(&self) -> At {
        At { block: self.block, line: self.lines.saturating_sub(1) }
    }

    /// At its end: whether it read what was checked. The root, as the times of a file can be set, and are coarse.
    pub(super) fn end(self) -> Result<()> {
        match self.reader.root() == self.root {
            true => Ok(()),
            false => Err(named(&self.receipt.path, written_meanwhile())),
        }
    }
}

fn written_meanwhile() -> Failure {
    Failure::new(FailureKind::Damage, CHECK, "it was written while it was read")
}

/// Who may have signed: public keys or fingerprints of certificates, as [`parse_key`] has them. Of an empty list
/// nothing is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// Whom each side has to be among, whichever of them it is.
    pub both: Vec<String>,
    /// Whom the sender has to be among.
    pub sender: Vec<String>,
    /// Whom the receiver has to be among.
    pub receiver: Vec<String>,
}

impl Expected {
    /// Whether anything is asked of who signed as the sender, and as the receiver. If not, anybody may have.
    pub fn is_asked(&self) -> [bool; 2] {
        [&self.sender, &self.receiver].map(|own| !(self.both.is_empty() && own.is_empty()))
    }
}

/// Checks that both sides signed all of the receipt, and that they are whom is expected.
///
/// # Errors
/// `Usage` for a file that is no receipt, `Damage` for one that does not say what was signed, or that others signed.
pub fn seal(receipt: &Receipt, expected: &Expected) -> Result<Seal> {
    let sealed = receipt.begin().and_then(Reader::authenticate);
    let seal = sealed.map_err(|failure| named(&receipt.path, failure))?;
    for (who, signer, own) in
        [("sender", seal.sender, &expected.sender), ("receiver", seal.receiver, &expected.receiver)]
    {
        for (keys, option) in [(&expected.both, "keys"), (own, who)] {
            if !keys.is_empty() && !is_expected(&signer, keys) {
                let cause = format!("the {who} signed with {signer}, which is not among --{option}");
                return Err(named(&receipt.path, Failure::new(FailureKind::Damage, CHECK, cause)));
            }
        }
    }
    Ok(seal)
}

/// What a receipt certifies, and what its signatures are worth: [`Seal::words`], of each side `expected` (whether it
/// was asked that it is somebody), and `one_signer`.
pub fn certified(seal: &Seal, expected: &Expected) -> Map<String, Value> {
    let mut words = seal.words.as_object().cloned().unwrap_or_default();
    for (who, is_asked) in ["sender", "receiver"].into_iter().zip(expected.is_asked()) {
        if let Some(side) = words.get_mut(who).and_then(Value::as_object_mut) {
            side.insert("expected".into(), is_asked.into());
        }
    }
    words.insert("one_signer".into(), seal.has_one_signer().into());
    words
}

/// By the key or by the certificate.
fn is_expected(signer: &Signer, keys: &[String]) -> bool {
    let (key, certificate) = (hex(&signer.public_key), signer.certificate.to_string());
    keys.iter().any(|known| *known == key || *known == certificate)
}

/// The same failure, with the receipt that it is about.
fn named(path: &Path, failure: Failure) -> Failure {
    failure::at_path(failure, path)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::reach::Reach;
    use crate::receipt_file::tests::Sample;
    use crate::verify::{Told, verify};
    use thalweg_mover::run::copy::Stop;

    /// Which nobody may read.
    pub(in crate::verify) fn no_receipt() -> Receipt {
        Receipt {
            file: tempfile::tempfile().unwrap(),
            path: "no receipt".into(),
            superseded: OnceLock::new(),
        }
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
        let reach = Reach::local(scratch.join("place"));
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
        let seal = super::seal(&receipt, &Expected::default()).unwrap();
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
            let seal = super::seal(&receipt, &Expected::default()).unwrap();
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
        let seal = super::seal(&receipt, &Expected::default()).unwrap();
        assert_eq!(compared(&receipt, &seal, scratch.path()).unwrap(), (2, 1));
        // What has no end is not waited for, if it does not begin as a receipt.
        let writer = write("x".repeat(32 << 20));
        assert_eq!(Receipt::open(&fifo).unwrap_err().kind, FailureKind::Usage);
        writer.join().unwrap();
    }

    #[test]
    fn each_side_has_to_be_whom_is_expected_as_that_side() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("receipt");
        let sample = Sample::new(&["-  0  file  done  a\n"]);
        let known = sample.seal().receiver.certificate.to_string();
        std::fs::write(&path, sample.text()).unwrap();
        let receipt = Receipt::open(&path).unwrap();
        let (known, other) = (vec![known], vec!["ab".repeat(32)]);
        let all = Expected { both: known.clone(), sender: known.clone(), receiver: known.clone() };
        let sealed = super::seal(&receipt, &all).unwrap();
        assert!(sealed.has_one_signer());
        for (option, expected) in [
            ("--keys", Expected { both: other.clone(), ..all.clone() }),
            ("the sender signed", Expected { sender: other.clone(), ..all.clone() }),
            ("--receiver", Expected { receiver: other, ..all.clone() }),
        ] {
            let refused = super::seal(&receipt, &expected).unwrap_err();
            assert_eq!(refused.kind, FailureKind::Damage, "{refused}");
            assert!(refused.cause.contains(option), "{refused}");
        }
        // Who one side is says nothing of the other.
        let one = Expected { receiver: known, ..Expected::default() };
        assert_eq!(one.is_asked(), [false, true]);
        let words = certified(&sealed, &one);
        let sides = ["sender", "receiver"].map(|side| words[side]["expected"].as_bool());
        assert_eq!((sides, words["one_signer"].as_bool()), ([Some(false), Some(true)], Some(true)));
    }
}
