//! Decoders of the program: what users write.

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use thalweg_arrival::journal::Journal;
use thalweg_cli::args::filters;
use thalweg_cli::jobs::{self, Job};
use thalweg_cli::place::{Configured, Place, Places, Settings};
use thalweg_cli::receipt_file::{self, Part, Reader};
use thalweg_cli::{args, config, units};
use thalweg_client::frames::framed::{self, Given};
use thalweg_lab::bench::import;
use thalweg_mover::failure::FailureKind;

/// What a target checks of any bytes.
pub type Property = fn(&[u8]);

/// As in `wire.rs`.
pub const TARGETS: [(&str, Property); 10] = [
    ("units", units),
    ("place", place),
    ("files_from", files_from),
    ("arguments", arguments),
    ("receipt_file", receipt_file),
    ("config", config),
    ("import", import),
    ("framed", framed),
    ("watch_journal", watch_journal),
    ("job_record", job_record),
];

/// A number or a sentence that can be shown; what we print of sizes we read again.
pub fn units(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(bytes) = units::parse_size(text) {
        assert!(!units::size(bytes).is_empty());
        assert_eq!(units::parse_size(&bytes.to_string()), Ok(bytes));
    }
    if let Ok(rate) = units::parse_rate(text) {
        assert!(!units::rate(rate, 1.0).is_empty());
    }
    let _ = units::parse_time(text);
}

/// A place or an error; no host is an option or a command.
pub fn place(data: &[u8]) {
    let mut places = Places::default();
    places.insert(
        "site",
        Configured { url: "tw://host:1/data".to_owned(), ticket: None, settings: Settings::default() },
    );
    match Place::parse(OsStr::from_bytes(data), &places) {
        Ok(Place::Ssh { host, .. }) => assert!(!host.starts_with('-') && !host.contains(char::is_control)),
        Ok(mut named) => {
            named.mean_contents();
            let once = named.clone();
            named.mean_contents();
            assert_eq!(named, once);
        }
        Err(failure) => assert!(!failure.to_string().contains(char::is_control)),
    }
}

/// Names below the source, or an error.
pub fn files_from(data: &[u8]) {
    for from0 in [false, true] {
        match filters::names(data, from0) {
            Ok(names) => assert!(names.iter().all(|name| !name.is_root())),
            Err(failure) => assert!(!failure.to_string().contains(char::is_control)),
        }
    }
}

/// Words, one a line, as a command line: read or refused, exports and sizes in it too.
pub fn arguments(data: &[u8]) {
    use clap::Parser;
    let words = data.split(|&byte| byte == b'\n').take(16).map(OsStr::from_bytes);
    let _ = args::Args::try_parse_from(std::iter::once(OsStr::new("thalweg")).chain(words));
}

/// Parts or an error; what is not signed is never taken for a receipt; parts come back as they were written.
pub fn receipt_file(data: &[u8]) {
    let Ok(mut reader) = Reader::begin(data) else { return };
    while let Ok(Some(part)) = reader.next_part() {
        if let Part::Pieces(path, pieces) = part {
            let text = receipt_file::pieces(&path, &pieces);
            let header = data.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let again = [header, text.as_bytes()].join(&b'\n');
            let part = Reader::begin(&again[..]).and_then(|mut reader| reader.next_part());
            assert_eq!(part.ok().flatten(), Some(Part::Pieces(path, pieces)));
        }
    }
    match Reader::begin(data).and_then(Reader::authenticate) {
        // Only from the seed, which is a real one.
        Ok(seal) => assert_eq!(seal.sender.public_key, seal.receiver.public_key),
        Err(failure) => assert!(matches!(failure.kind, FailureKind::Usage | FailureKind::Damage)),
    }
}

/// Options and places, or a sentence that can be shown.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut places = Places::default();
    match config::apply(std::path::Path::new("config.toml"), text, config::command(), &mut places) {
        Ok(_) => {
            let _ = Place::parse(OsStr::new("@site/x"), &places);
        }
        Err(failure) => assert!(!failure.to_string().contains(char::is_control)),
    }
}

/// Samples that a result file may have, or a sentence.
pub fn import(data: &[u8]) {
    if let Ok(results) = import::results(&String::from_utf8_lossy(data), units::moment) {
        assert!(!results.samples.is_empty());
        assert!(results.samples.iter().all(|sample| sample.check().is_ok()));
    }
}

/// Frames of no more than there is, and words of sets; or a sentence that can be shown.
pub fn framed(data: &[u8]) {
    let mut payload_bytes = 0;
    let mut sink = |given: Given| {
        if let Given::Frame(frame) = given {
            payload_bytes += frame.payload.len();
        }
        Ok(())
    };
    let read = framed::read(&mut &data[..], &Cell::default(), &mut sink);
    assert!(payload_bytes <= data.len());
    if let Err(failure) = read {
        assert!(matches!(failure.kind, FailureKind::Usage | FailureKind::Damage));
        assert!(!failure.to_string().contains(char::is_control));
    }
}

/// Lines, each behind the check that is right, as the journal of a watch: it is damaged, or what it says is said again.
pub fn watch_journal(data: &[u8]) {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut text = b"thalweg watch 1\n".to_vec();
    for line in data.split(|&byte| byte == b'\n') {
        text.extend_from_slice(&blake3::hash(line).to_hex().as_bytes()[..16]);
        text.push(b' ');
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    std::fs::write(scratch.path().join("journal"), &text).expect("written");
    match Journal::open(scratch.path()) {
        Ok((mut journal, records)) => {
            journal.rewrite(&records).expect("it can be written");
            drop(journal);
            let (_, again) = Journal::open(scratch.path()).expect("what was written can be read");
            assert_eq!(again, records);
        }
        Err(failure) => assert_eq!(failure.kind, FailureKind::Damage),
    }
}

/// A job with this number, or none; its record can be written and read again, and whether it runs can be told.
pub fn job_record(data: &[u8]) {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().join("6a0000000007");
    std::fs::create_dir(&directory).expect("made");
    std::fs::write(directory.join("record.json"), data).expect("written");
    std::fs::write(directory.join("lock"), b"").expect("written");
    let Some(record) = jobs::read_record(&directory) else {
        assert!(Job::read(&directory).is_none());
        return;
    };
    if let Some(job) = Job::read(&directory) {
        assert!(!job.state.word().is_empty());
        let _ = job.over_at();
    }
    jobs::write_record(&directory, &record).expect("it can be written");
    assert_eq!(jobs::read_record(&directory), Some(record));
}
