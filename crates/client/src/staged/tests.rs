use super::*;
use std::sync::mpsc;
use thalweg_wire::message::Reason;
use thalweg_wire::{EntryId, Evidence};

fn path(text: &str) -> RelativePath {
    RelativePath::new(text.as_bytes().to_vec()).unwrap()
}

fn item(text: &str, bytes: u64) -> Item {
    Item { names: vec![Name { path: path(text), is_directory: false }], bytes }
}

fn file(text: &str, marked: bool) -> Arc<Entry> {
    let kind = Kind::File { sparse: marked, marked };
    let evidence = Evidence { size: 9, ..Evidence::default() };
    let (mode, uid, gid) = (0o644, 0, 0);
    Arc::new(Entry { id: EntryId(0), path: path(text), kind, mode, uid, gid, evidence, xattrs: Vec::new() })
}

fn done(digest: Option<u8>) -> Outcome {
    Outcome::Done { digest: digest.map(|byte| Digest([byte; 32])), losses: Vec::new() }
}

#[test]
fn batches_are_no_larger_than_their_share_but_for_one_file_and_keep_the_order() {
    const BLOCK: u64 = BLOCK_BYTES;
    let items = [("a", 1), ("b", BLOCK), ("c", 1), ("large", 9 * BLOCK), ("d", BLOCK + 1), ("e", 0)];
    let loads = loads_of(items.map(|(name, bytes)| item(name, bytes)).to_vec(), 3 * BLOCK);
    let told: Vec<(u64, Vec<String>)> = loads
        .iter()
        .map(|load| {
            let names = load.names.iter().map(|name| name.path.to_string()).collect();
            (load.room_bytes / BLOCK, names)
        })
        .collect();
    let told: Vec<(u64, String)> = told.into_iter().map(|(blocks, names)| (blocks, names.join(" "))).collect();
    let expected = [(3, "a b c"), (9, "large"), (3, "d e")];
    assert_eq!(told, expected.map(|(blocks, names)| (blocks, names.to_owned())));
    let many = (0..2 * BATCH_NAMES_MAX + 1).map(|number| item(&number.to_string(), 0)).collect();
    let sizes: Vec<usize> = loads_of(many, u64::MAX).iter().map(|load| load.names.len()).collect();
    assert_eq!(sizes, [BATCH_NAMES_MAX, BATCH_NAMES_MAX, 1]);
}

#[test]
fn a_batch_waits_for_room_and_gets_it_when_another_one_leaves() {
    let room = Arc::new(Room::new(10));
    let stop = Stop::default();
    assert_eq!((room.take(6, &stop), room.take(4, &stop)), (Some(1), Some(2)));
    let (told, hears) = mpsc::channel();
    let waits = std::thread::spawn({
        let room = room.clone();
        move || told.send(room.take(5, &Stop::default())).unwrap()
    });
    let batch = |number, room_bytes| Batch { number, names: Vec::new(), room_bytes, is_again: false };
    room.release(&batch(2, 4), true);
    assert!(hears.try_recv().is_err());
    // The list of the first stays, and with it its number.
    room.release(&batch(1, 6), false);
    assert_eq!(hears.recv().unwrap(), Some(2));
    waits.join().unwrap();
    stop.stop();
    assert_eq!(room.take(1, &stop), None);
}

#[test]
fn only_what_was_read_at_the_source_and_brought_is_told_as_done() {
    let fate_of = |came: Option<Outcome>, went: Option<Outcome>, marked: bool| {
        let heard = |outcome: Option<Outcome>, marked| {
            let mut heard = Heard::default();
            outcome.into_iter().for_each(|outcome| heard.hear(b"", Event::Settled(file("a", marked), outcome)));
            heard
        };
        match fate(&path("a"), &heard(came, false), &heard(went, marked)) {
            Fate::Same(_) => "same".to_owned(),
            Fate::Open(differs) => format!("open {differs}"),
            Fate::Failed(failure) => failure.kind.word(),
        }
    };
    let unchanged = || Some(Outcome::Unchanged { digest: Some(Digest([1; 32])) });
    let failure = Failure::new(FailureKind::Permission, "read", "no").because(Reason::Other);
    for (came, went, marked, told) in [
        (Some(done(Some(1))), Some(done(Some(1))), false, "same"),
        (Some(done(Some(1))), unchanged(), false, "same"),
        (Some(done(Some(1))), Some(done(Some(2))), false, "open true"),
        (Some(done(Some(1))), Some(Outcome::Unchanged { digest: None }), false, "open false"),
        (Some(done(None)), Some(done(Some(1))), false, "open false"),
        (Some(done(Some(1))), Some(done(Some(1))), true, "unsupported"),
        (Some(Outcome::Failed(failure.clone())), Some(done(Some(1))), false, "permission"),
        (Some(done(Some(1))), Some(Outcome::Failed(failure)), false, "permission"),
        (None, Some(done(Some(1))), false, "notfound"),
        (Some(done(Some(1))), None, false, "notfound"),
    ] {
        assert_eq!(fate_of(came.clone(), went.clone(), marked), told, "{came:?} {went:?}");
    }
}

#[test]
fn names_of_a_source_have_its_name_before_them_in_the_whole() {
    for (prefix, below, of_all) in [("", "a/b", "a/b"), ("run7", "a/b", "run7/a/b"), ("run7", "", "run7")] {
        assert_eq!(whole(prefix.as_bytes(), &path(below)), Some(path(of_all)));
        assert_eq!(rest(prefix.as_bytes(), &path(of_all)), Some(path(below)));
    }
    assert_eq!(rest(b"run7", &path("run70/a")), None);
    // A hard link has the digest of the name that has its content.
    let mut heard = Heard::default();
    heard.hear(b"run7", Event::Settled(file("a", false), done(Some(3))));
    let kind = Kind::HardLink { first: path("a"), of: EntryId(0) };
    let link = Arc::new(Entry { kind, ..(*file("b", false)).clone() });
    heard.hear(b"run7", Event::Settled(link, done(None)));
    assert_eq!(heard.digest(&path("run7/b")), Some(Digest([3; 32])));
}
