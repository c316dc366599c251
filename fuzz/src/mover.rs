//! Decoders of `thalweg-mover`.

use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::filter::{Filter, parse_filter_line, parse_pattern_line};
use thalweg_mover::history::History;
use thalweg_mover::journal::Journal;
use thalweg_mover::journal::catalogue::{Catalogue, Remembered};
use thalweg_mover::link::ssh::errand::{DEPUTY_MAGIC, Deputy, FromDeputy, Lines, Said, ToDeputy};
use thalweg_mover::link::ssh::{BRIDGE_MAGIC, DialBack, MOVER_MAGIC, Order, Ready, read_line};
use thalweg_mover::link::{Identity, Opener, Sealer, Ticket};
use thalweg_mover::model::prediction::Work;
use thalweg_mover::stage::compress::Unpacker;
use thalweg_mover::tune::routes::Routes;
use thalweg_sys::dir::Dir;
use thalweg_wire::frame::{OUTER_BYTES, TAG_BYTES, encode_outer};
use thalweg_wire::hello::Cipher;
use thalweg_wire::journal::{MAGIC, Record};
use thalweg_wire::message::FilterRule;
use thalweg_wire::{Digest, Evidence, RelativePath, limits};

/// What a target checks of any bytes.
pub type Property = fn(&[u8]);

/// As in `wire.rs`.
pub const TARGETS: [(&str, Property); 10] = [
    ("ticket", ticket),
    ("identity", identity),
    ("opener", opener),
    ("filter", filter),
    ("unpacker", unpacker),
    ("ssh_line", ssh_line),
    ("journal", journal),
    ("catalogue", catalogue),
    ("history", history),
    ("routes", routes),
];

/// A ticket or an error; a ticket can be written and read again.
pub fn ticket(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(ticket) = Ticket::from_text(text) {
        let again =
            Ticket::from_text(&ticket.to_text().expect("what was read can be written")).expect("and read");
        assert_eq!((again.addresses, again.server), (ticket.addresses, ticket.server));
    }
}

/// An identity or an error.
pub fn identity(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(identity) = Identity::from_pem(text) {
        let again = Identity::from_pem(&identity.to_pem()).expect("what was written can be read");
        assert_eq!(again.fingerprint(), identity.fingerprint());
    }
}

const SECRET: [u8; 32] = [0x42; 32];

/// Nothing opens but what was sealed, and after the first that does not open nothing does.
pub fn opener(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let cipher = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305][usize::from(first % 3)];
    let outer = encode_outer(data.len());
    let mut opener = Opener::new(cipher, &SECRET, limits::KEY_BYTES_MAX).expect("an opener");
    assert!(opener.open(&outer, &mut data.to_vec()).is_err(), "a forgery");
    assert!(opener.open(&outer, &mut data.to_vec()).is_err(), "after a forgery");

    // The same bytes sealed: they open as they are, and in no other way. A small budget of bytes turns keys often.
    let mut sealer = Sealer::new(cipher, &SECRET, 100).expect("a sealer");
    let mut opener = Opener::new(cipher, &SECRET, 100).expect("an opener");
    for _ in 0..3 {
        let mut sealed = data.to_vec();
        let outer = encode_outer(data.len() + TAG_BYTES);
        let tag = sealer.seal(&outer, &mut sealed).expect("sealed");
        sealed.extend_from_slice(&tag);
        assert_eq!(opener.open(&outer, &mut sealed).expect("what was sealed opens"), data);
    }
    let mut sealed = data.to_vec();
    let mut outer: [u8; OUTER_BYTES] = encode_outer(data.len() + TAG_BYTES);
    let tag = sealer.seal(&outer, &mut sealed).expect("sealed");
    sealed.extend_from_slice(&tag);
    let at = usize::from(first) % (OUTER_BYTES + sealed.len());
    match at.checked_sub(OUTER_BYTES) {
        None => outer[at] ^= 1 << (first % 8),
        Some(at) => sealed[at] ^= 1 << (first % 8),
    }
    assert!(opener.open(&outer, &mut sealed).is_err(), "a flipped bit");
}

/// Patterns in the first half, a path in the second: a decision or an error, in good time.
pub fn filter(data: &[u8]) {
    let (patterns, path) = data.split_at(data.len() / 2);
    let text = String::from_utf8_lossy(patterns);
    let rules = text
        .split('\n')
        .take(16)
        .enumerate()
        .map(|(at, pattern)| FilterRule { include: at % 2 == 1, pattern: pattern.to_owned() })
        .collect();
    for line in text.lines() {
        let _ = (parse_filter_line(line), parse_pattern_line(line, true));
    }
    let Ok(filter) = Filter::new(rules) else { return };
    if let Ok(path) = thalweg_wire::RelativePath::new(path.to_vec()) {
        for is_directory in [true, false] {
            let _ = filter.decide(&path, is_directory);
            assert!(!filter.explain(&path, is_directory).chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}

/// Never more than was declared, whatever it claims; and then the next one is as good as the first.
pub fn unpacker(data: &[u8]) {
    let Some((&[a, b], packed)) = data.split_first_chunk::<2>() else { return };
    let raw = usize::from(u16::from_be_bytes([a, b])) << 6;
    let mut unpacker = Unpacker::new().expect("memory");
    let first = unpacker.unpack(packed, raw).map(<[u8]>::to_vec).ok();
    assert!(first.as_ref().is_none_or(|bytes| bytes.len() == raw));
    assert_eq!(unpacker.unpack(packed, raw).map(<[u8]>::to_vec).ok(), first);
}

/// The lines of both sides of a start by ssh: a value that can be said again, or an error.
pub fn ssh_line(data: &[u8]) {
    for magic in [MOVER_MAGIC, BRIDGE_MAGIC] {
        if let Ok(line) = read_line(&mut &data[..], magic) {
            assert!(!line.contains('\n'));
        }
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(order) = Order::of_line(text) {
        assert!(Order::of_line(order.to_line().trim_end()).is_ok());
    }
    if let Ok(ready) = Ready::of_line(text, (limits::VERSION_MIN, limits::VERSION_MAX)) {
        let line = read_line(&mut ready.to_line().as_bytes(), MOVER_MAGIC).expect("its own line");
        assert!(Ready::of_line(&line, (limits::VERSION_MIN, limits::VERSION_MAX)).is_ok());
    }
    if let Ok(request) = DialBack::of_line(text) {
        assert!(DialBack::of_line(request.to_line().trim_end()).is_ok());
    }
    if let Ok(line) = Lines::new(data).behind(DEPUTY_MAGIC) {
        let _ = Deputy::of_line(&line);
    }
    if let Ok(Some(said)) = ToDeputy::of_line(text) {
        assert!(matches!(ToDeputy::of_line(said.to_line().trim_end()), Ok(Some(_))));
        if let ToDeputy::Errand(errand) = said {
            let _ = (errand.check(), errand.words());
        }
    }
    if let Ok(Some(said)) = FromDeputy::of_line(text) {
        assert!(matches!(FromDeputy::of_line(said.to_line().trim_end()), Ok(Some(_))));
    }
}

/// Bodies cut from the data, each behind a head that is right, as the journal of a directory: it opens, tells only what
/// the records say, and can be written to.
pub fn journal(data: &[u8]) {
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = Arc::new(Dir::open(scratch.path()).expect("it"));
    let (job_key, chunk_bytes) = ([7; 16], 4 << 20);
    let mut bytes = MAGIC.to_vec();
    let header = Record::Header { layout: thalweg_wire::journal::LAYOUT, job_key, chunk_bytes };
    header.encode(MAGIC.len() as u64, &mut bytes);
    let mut rest = data;
    while let Some((&length, behind)) = rest.split_first() {
        let (body, behind) = behind.split_at(usize::from(length).min(behind.len()));
        let check = blake3::Hasher::new().update(&(bytes.len() as u64).to_be_bytes()).update(body).finalize();
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&check.as_bytes()[..8]);
        bytes.extend_from_slice(body);
        rest = behind;
    }
    std::fs::write(scratch.path().join("journal"), &bytes).expect("written");
    let Ok(mut journal) = Journal::open(dir, job_key, chunk_bytes) else { return };
    let live: Vec<u64> = journal.live().map(|(number, _)| number).collect();
    for &number in &live {
        journal.chunks(number).expect("it can be read");
    }
    let path = RelativePath::new(b"new".to_vec()).expect("a path");
    let number = journal.begin(&path, &Evidence::default());
    assert!(!live.contains(&number), "a number is given once");
    journal.record(&[(number, vec![(3, Digest([5; 32]))])]).expect("it can be written");
    assert_eq!(journal.chunks(number).expect("read").get(&3), Some(&Digest([5; 32])));
}

/// A catalogue over which bytes were written: it opens, and remembers what was put or nothing.
pub fn catalogue(data: &[u8]) {
    let Some((&[high, low], data)) = data.split_first_chunk::<2>() else { return };
    let scratch = tempfile::tempdir().expect("a directory");
    let began = Instant::now();
    let put: Vec<(RelativePath, Remembered)> = (0..8u8)
        .map(|name| {
            let path = RelativePath::new(vec![b'a' + name]).expect("a path");
            (path, Remembered { evidence: [name; 16], digest: Digest([name; 32]) })
        })
        .collect();
    {
        let mut catalogue = Catalogue::open(scratch.path(), b"place").expect("opened").expect("not held");
        put.iter().for_each(|(path, remembered)| catalogue.put(path, *remembered, began).expect("put"));
    }
    let files = std::fs::read_dir(scratch.path()).expect("listed");
    let file = files
        .map(|file| file.expect("a file").path())
        .find(|path| path.extension().is_some_and(|extension| extension == "catalogue"))
        .expect("the catalogue");
    let file = std::fs::File::options().write(true).open(file).expect("opened");
    let at = u64::from(u16::from_be_bytes([high, low])) * 5;
    std::os::unix::fs::FileExt::write_all_at(&file, data, at).expect("written");
    let mut catalogue = Catalogue::open(scratch.path(), b"place").expect("opened").expect("not held");
    // Each so late that it is written at once, into what is there.
    for ((path, remembered), turn) in put.iter().zip(1..) {
        let found = catalogue.find(path).expect("looked for");
        assert!(found.is_none_or(|found| found == *remembered));
        catalogue.put(path, *remembered, began + Duration::from_secs(turn)).expect("put");
        assert_eq!(catalogue.find(path).expect("looked for"), Some(*remembered));
    }
}

/// What earlier transfers took, or nothing: it predicts, and what is written of it can be read.
pub fn history(data: &[u8]) {
    let Some(mut history) = History::from_json(data) else { return };
    let work = Work { bytes: 1e9, entries: 10.0, ..Work::default() };
    if let Some(way) = history.of("way", 0) {
        let _ = way.predict(&work, 0.05);
        let _ = way.probe_of_bytes(&work);
        let _ = way.byte_seen(&work);
    }
    history.tuned("way", None, 1);
    assert!(History::from_json(history.to_json().as_bytes()).is_some());
}

/// What routes did best with, or nothing.
pub fn routes(data: &[u8]) {
    let routes = Routes::from_json(data);
    if let Some(learned) = routes.of("route", 0) {
        assert!(learned.streams > 0 && learned.rate_bits_per_s > 0);
    }
    assert_eq!(Routes::from_json(routes.to_json().as_bytes()), routes);
}
