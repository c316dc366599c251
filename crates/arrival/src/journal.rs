//! What a watcher knows, on disk: one record on a line, each with its check, each synced before anything follows from
//! it.
//!
//! A line that a crash tore has no end, so it can only be the last, and is dropped. Damage anywhere else is an error,
//! because going on could analyse something twice. Only one watcher has a journal at a time. It is rewritten as a whole
//! at each beginning, and whenever it has become several times as long as what it says, and put in place by a rename.

use crate::WATCH;
use crate::machine::Record;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_sys::Dir;
use thalweg_sys::atomic_file::{self, Durability};
use thalweg_sys::dir::make_lasting;

/// See the module.
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Records in it, and how many it began with.
    records: usize,
    began_with: usize,
    /// What is added is read by the next life: it does not stand behind half a line, nor in a file that has no name any
    /// more.
    is_sound: bool,
    _lock: thalweg_sys::File,
}

/// The first line.
const HEAD: &str = "thalweg watch 1\n";
/// Hexadecimal digits of BLAKE3 before each record.
const CHECK_DIGITS: usize = 16;
/// A journal with fewer records is not rewritten: some tens of KiB.
const RECORDS_MIN: usize = 256;

impl Journal {
    /// Opens the journal in this directory, which is made, and reads what it says.
    ///
    /// # Errors
    /// `Busy` while another watcher has it; `Damage` if it does not make sense; what the kernel says.
    pub fn open(directory: &Path) -> Result<(Journal, Vec<Record>)> {
        let of_io = |error: std::io::Error| failure::of_io("open the journal", &error);
        make_lasting(directory, 0o700).map_err(of_io)?;
        let Some(lock) = Dir::open(directory).and_then(|dir| dir.lock(b"lock")).map_err(of_io)? else {
            let cause = "the same directory is watched for the same destination already";
            return Err(Failure::new(FailureKind::Busy, WATCH, cause).because(Reason::WatchTaken));
        };
        let path = directory.join("journal");
        let mut text = Vec::new();
        let mut file = crate::own_file().read(true).append(true).open(&path).map_err(of_io)?;
        file.read_to_end(&mut text).map_err(of_io)?;
        let records = read(&text)?;
        let count = records.len();
        let journal = Journal { path, file, records: count, began_with: count, is_sound: true, _lock: lock };
        Ok((journal, records))
    }

    /// Adds records and makes them durable.
    ///
    /// # Errors
    /// What the kernel says. Then nothing may follow from them, and before it is rewritten nothing is added: `Io`.
    pub fn append(&mut self, records: &[Record]) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let text = text_of(records)?;
        if !std::mem::replace(&mut self.is_sound, false) {
            let cause = "what was to be added before could not be";
            return Err(Failure::new(FailureKind::Io, "write the journal", cause));
        }
        let of_io = |error: std::io::Error| failure::of_io("write the journal", &error);
        self.file.write_all(&text).map_err(of_io)?;
        self.records += records.len();
        self.file.sync_data().map_err(of_io)?;
        self.is_sound = true;
        Ok(())
    }

    /// Whether it has so much more than it began with that it is to be rewritten.
    pub fn is_long(&self) -> bool {
        self.records >= RECORDS_MIN.max(4 * self.began_with)
    }

    /// Replaces all of it.
    ///
    /// # Errors
    /// What the kernel says. Then the old one stands.
    pub fn rewrite(&mut self, records: &[Record]) -> Result<()> {
        let of_io = |error: std::io::Error| failure::of_io("write the journal", &error);
        let text = [HEAD.as_bytes(), &text_of(records)?].concat();
        atomic_file::write(&self.path, &text, 0o600, Durability::Synced)
            .map_err(|error| of_io(error.cause))?;
        self.is_sound = false;
        self.file = File::options().append(true).open(&self.path).map_err(of_io)?;
        (self.records, self.began_with) = (records.len(), records.len());
        self.is_sound = true;
        Ok(())
    }
}

fn text_of(records: &[Record]) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    for record in records {
        let json = serde_json::to_string(record)
            .map_err(|error| Failure::new(FailureKind::Internal, "write the journal", error))?;
        text.extend_from_slice(format!("{} {json}\n", check(json.as_bytes())).as_bytes());
    }
    Ok(text)
}

fn check(json: &[u8]) -> String {
    blake3::hash(json).to_hex()[..CHECK_DIGITS].to_owned()
}

fn read(text: &[u8]) -> Result<Vec<Record>> {
    let damage = |line: usize| {
        let cause = format!("line {line} of the journal is not what was written; to begin anew remove it");
        Failure::new(FailureKind::Damage, "read the journal", cause)
    };
    let Some(rest) = text.strip_prefix(HEAD.as_bytes()) else {
        // Nothing but a beginning that a crash tore.
        return if HEAD.as_bytes().starts_with(text) { Ok(Vec::new()) } else { Err(damage(1)) };
    };
    let mut records = Vec::new();
    for (number, line) in rest.split_inclusive(|byte| *byte == b'\n').enumerate() {
        // Torn: nothing followed from it.
        let Some(line) = line.strip_suffix(b"\n") else { break };
        records.push(record_of(line).ok_or_else(|| damage(number + 2))?);
    }
    Ok(records)
}

fn record_of(line: &[u8]) -> Option<Record> {
    let (digits, json) = line.split_at_checked(CHECK_DIGITS)?;
    let json = json.strip_prefix(b" ")?;
    (digits == check(json).as_bytes()).then(|| serde_json::from_slice(json).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Version;
    use crate::machine::{Arrived, Known, Outcome, Stage};
    use thalweg_wire::RelativePath;

    fn records() -> Vec<Record> {
        let name = RelativePath::new(b"a\n\"\xff\x1b[2J".to_vec()).unwrap();
        let version = Version { bytes: 1, changed_ns: -2, mark: u64::MAX };
        let (digest, key, receipt) = ("d".into(), "k".into(), "/r\\xff".into());
        let arrived = Arrived { version, digest, key, bytes: 1, receipt, stale: 2 };
        vec![
            Record::Arrived(name.clone(), arrived),
            Record::Started(name.clone(), 1),
            Record::Ended(name.clone(), 1, Outcome::Failed(9)),
            Record::Replacing(name.clone()),
            Record::Stands(name.clone()),
            Record::Done(name),
        ]
    }

    #[test]
    fn a_journal_keeps_what_was_written_and_belongs_to_one() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, known) = Journal::open(directory.path()).unwrap();
        assert_eq!(known, []);
        assert_eq!(Journal::open(directory.path()).map(|_| ()).unwrap_err().kind, FailureKind::Busy);
        journal.rewrite(&records()[..1]).unwrap();
        journal.append(&records()[1..]).unwrap();
        drop(journal);
        assert_eq!(Journal::open(directory.path()).unwrap().1, records());
    }

    #[test]
    fn behind_what_could_not_be_added_nothing_is_before_the_journal_is_rewritten() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(directory.path()).unwrap();
        journal.rewrite(&records()[..1]).unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut journal.file, full);
        assert_eq!(journal.append(&records()[1..2]).unwrap_err().kind, FailureKind::Space);
        journal.file = file;
        assert_eq!(journal.append(&records()[2..3]).unwrap_err().kind, FailureKind::Io);
        let text = std::fs::read(directory.path().join("journal")).unwrap();
        assert_eq!(read(&text).unwrap(), records()[..1]);
        journal.rewrite(&records()[..2]).unwrap();
        journal.append(&records()[2..]).unwrap();
        drop(journal);
        assert_eq!(Journal::open(directory.path()).unwrap().1, records());
    }

    /// As it was written when a copy over what had arrived had no record, and a receipt no name of its own.
    #[test]
    fn a_journal_of_an_earlier_program_says_what_it_said() {
        let json = r#"{"Known":["a",{"arrived":{"version":{"bytes":1,"changed_ns":-2,"mark":3},"digest":"d","key":"k","bytes":1},"attempt":2,"stage":"Arrived"}]}"#;
        let text = format!("{HEAD}{} {json}\n", check(json.as_bytes()));
        let version = Version { bytes: 1, changed_ns: -2, mark: 3 };
        let receipt = String::new();
        let arrived = Arrived { version, digest: "d".into(), key: "k".into(), bytes: 1, receipt, stale: 0 };
        let known = Known { arrived, attempt: 2, stage: Stage::Arrived };
        let name = RelativePath::new(b"a".to_vec()).unwrap();
        assert_eq!(read(text.as_bytes()).unwrap(), [Record::Known(name, known)]);
    }

    #[test]
    fn a_journal_cut_anywhere_keeps_what_was_whole_and_damage_is_noticed() {
        let mut text = HEAD.as_bytes().to_vec();
        text.extend(text_of(&records()).unwrap());
        for end in 0..=text.len() {
            let whole = text[..end].iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
            assert_eq!(read(&text[..end]).unwrap(), records()[..whole], "cut at {end}");
        }
        for at in 0..text.len() - 1 {
            let mut damaged = text.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged).is_err(), "a flipped bit at {at}");
        }
    }
}
