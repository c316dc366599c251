use super::*;
use crate::objects::Bucket;
use crate::objects::tests::bucket;
use std::sync::mpsc;
use std::time::SystemTime;
use thalweg_objects::testing::Fake;
use thalweg_wire::message::{FilterRule, Preserve, Reason};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind};

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
    let names = |load: &Load| {
        let names: Vec<String> = load.names.iter().map(|name| name.path.to_string()).collect();
        names.join(" ")
    };
    let told: Vec<(u64, String)> = loads.iter().map(|load| (load.room_bytes / BLOCK, names(load))).collect();
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
    assert_eq!((room.take(6, &stop).unwrap(), room.take(4, &stop).unwrap()), (1, 2));
    let (told, hears) = mpsc::channel();
    let waits = std::thread::spawn({
        let room = room.clone();
        move || told.send(room.take(5, &Stop::default())).unwrap()
    });
    let batch = |number, room_bytes| Batch { number, names: Vec::new(), room_bytes, is_again: false };
    room.release(&batch(2, 4), true);
    assert!(hears.recv_timeout(Duration::from_millis(100)).is_err());
    // The list of the first stays, and with it its number.
    room.release(&batch(1, 6), false);
    assert_eq!(hears.recv().unwrap().unwrap(), 2);
    waits.join().unwrap();
    // Two left, also for who looks only now.
    assert!(room.wait_left(0, &stop) && !room.wait_left(room.left(), &stop));
    let refused = |bytes| room.take(bytes, &stop).unwrap_err().kind;
    assert_eq!(refused(11), FailureKind::Space);
    room.set_aside(4);
    assert_eq!(refused(7), FailureKind::Space);
    stop.stop();
    assert_eq!(refused(1), FailureKind::Stopped);
}

#[test]
fn another_name_of_a_file_goes_with_it_only_where_both_have_room() {
    let mut file = item("a", 2 << 20);
    let name = |text: &str| Name { path: path(text), is_directory: false };
    assert!(!file.takes(&name("b"), 2 << 20) && file.takes(&name("b"), (2 << 20) + BLOCK_BYTES));
    let long = name(&vec!["n".repeat(255); 8].join("/"));
    while file.takes(&long, u64::MAX) {
        file.names.push(long.clone());
    }
    assert_eq!(file.names.len(), 1 + BATCH_NAME_BYTES_MAX / long.path.as_bytes().len());
}

#[test]
fn a_stage_is_for_what_is_selected_and_found_again_by_the_same() {
    let key = |from: &str, selection: &Selection, devices: bool| {
        let [from, to] = [from, "/nowhere/to"].map(|path| Place::Local(path.into()));
        key_of(&Asked::new("cp", from, to).unwrap(), selection, devices)
    };
    let rule = FilterRule { include: false, pattern: "secret".to_owned() };
    let all = Selection::default();
    let filtered = Selection { filter: vec![rule], ..Selection::default() };
    let only = Selection { only: vec![path("secret")], ..Selection::default() };
    let followed = Selection { follow_links: true, ..Selection::default() };
    let updates = Selection { update: true, ..Selection::default() };
    let ignores = ignoring().selection;
    let mut keys: Vec<String> = [&all, &filtered, &only, &followed, &updates, &ignores]
        .map(|selection| key("/nowhere/from", selection, false))
        .to_vec();
    keys.extend([key("/nowhere/from/", &all, false), key("/nowhere/from", &all, true)]);
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len(), "{keys:?}");
    assert_eq!(keys[0], key("/nowhere/from", &all, false));
}

fn word(fate: Fate) -> String {
    match fate {
        Fate::Same(_) => "same".to_owned(),
        Fate::Open(differs) => format!("open {differs}"),
        Fate::Left(_) => "left".to_owned(),
        Fate::Failed(failure) => failure.kind.word(),
    }
}

#[test]
fn only_what_was_read_at_the_source_and_brought_is_told_as_done() {
    let fate_of = |came: Option<Outcome>, went: Option<Outcome>, marked: bool| {
        let heard = |outcome: Option<Outcome>, marked| {
            let mut heard = Heard::default();
            if let Some(outcome) = outcome {
                heard.hear(b"", Event::Settled(file("a", marked), outcome));
            }
            heard
        };
        word(fate(&path("a"), &heard(came, false), &heard(went, marked)))
    };
    let unchanged = || Some(Outcome::Unchanged { digest: Some(Digest([1; 32])) });
    let skipped = || Some(Outcome::Skipped("it exists".to_owned()));
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
        (Some(done(Some(1))), skipped(), false, "left"),
        (skipped(), skipped(), false, "unsupported"),
        (None, Some(done(Some(1))), false, "notfound"),
        (Some(done(Some(1))), None, false, "notfound"),
    ] {
        assert_eq!(fate_of(came.clone(), went.clone(), marked), told, "{came:?} {went:?}");
    }
}

#[test]
fn what_has_no_digest_is_told_as_done_only_if_both_legs_had_the_same() {
    let heard = |kind: &Kind, size: u64| {
        let evidence = Evidence { size, ..Evidence::default() };
        let entry = Entry { kind: kind.clone(), evidence, ..(*file("a", false)).clone() };
        let mut heard = Heard::default();
        heard.hear(b"", Event::Settled(Arc::new(entry), done(None)));
        heard
    };
    let plain = Kind::File { sparse: false, marked: false };
    let link = |target: &[u8]| Kind::Symlink { target: target.to_vec() };
    // Of the first name nothing was heard.
    let hard = Kind::HardLink { first: path("b"), of: EntryId(1) };
    for ((came, came_bytes), (went, went_bytes), told) in [
        ((&plain, 0), (&plain, 0), "same"),
        ((&plain, 9), (&plain, 0), "open false"),
        ((&plain, 0), (&plain, 9), "open false"),
        ((&Kind::Directory, 0), (&Kind::Directory, 0), "same"),
        ((&plain, 9), (&Kind::Directory, 0), "open true"),
        ((&Kind::Directory, 0), (&plain, 0), "open true"),
        ((&link(b"x"), 0), (&link(b"x"), 0), "same"),
        ((&link(b"x"), 0), (&link(b"y"), 0), "open true"),
        ((&hard, 0), (&hard, 0), "open false"),
        ((&plain, 0), (&hard, 0), "open false"),
    ] {
        let fate = fate(&path("a"), &heard(came, came_bytes), &heard(went, went_bytes));
        assert_eq!(word(fate), told, "{came:?} {went:?}");
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

/// Two legs between directories of this machine, as an earlier command may have left them.
pub(super) fn legs_of(root: &Path) -> Legs {
    std::fs::create_dir_all(root.join("stage")).unwrap();
    let place = StagePlace::open(&root.join("stage"), "k").unwrap();
    let left = batches_left(&place).unwrap();
    let from = root.join("from");
    let (alone, below) = (From::Local(vec![from.clone()]), From::Local(vec![slashed(&from)]));
    Legs {
        sources: vec![Source { prefix: b"from".to_vec(), alone, below }],
        to: To::Local(root.join("to")),
        signer: Arc::new(Identity::generate("test").unwrap()),
        names: ("from".to_owned(), "to".to_owned()),
        place,
        bytes_max: 64 << 20,
        gone_bytes: 0,
        batches_left: Mutex::new(left),
        tried: Arc::default(),
        passed: Mutex::default(),
        carried: Mutex::default(),
        course: Mutex::default(),
    }
}

/// A source with two files, a destination that has them at the end, and what both legs tell of them.
fn between(work: impl FnOnce(&Path, &Running<'_>)) -> Vec<Event> {
    between_by(&Wishes::default(), |root, running| {
        work(root, running);
        assert!(arrived(root, "a") && arrived(root, "b"));
        assert_eq!(std::fs::read_dir(root.join("stage")).unwrap().count(), 0);
    })
}

/// Whether the destination has what the source has under this name.
fn arrived(root: &Path, name: &str) -> bool {
    let [from, to] = ["from", "to/from"].map(|at| std::fs::read(root.join(at).join(name)).unwrap());
    from == to
}

/// Leaves alone what exists.
fn ignoring() -> Wishes {
    let selection = Selection { ignore_existing: true, ..Selection::default() };
    Wishes { selection, ..Wishes::default() }
}

/// The same by these wishes, whatever there is at the end.
fn between_by(wishes: &Wishes, work: impl FnOnce(&Path, &Running<'_>)) -> Vec<Event> {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    for directory in ["from", "to", "state"] {
        std::fs::create_dir(root.join(directory)).unwrap();
    }
    std::fs::write(root.join("from/a"), vec![1; 300_000]).unwrap();
    std::fs::write(root.join("from/b"), vec![2; 3000]).unwrap();
    let (congestion, stop) = (Wished::default(), Stop::default());
    let told = Mutex::new(Vec::new());
    let tell = |event: Event| lock(&told).push(event);
    work(
        root,
        &Running {
            wishes,
            congestion: &congestion,
            state: &root.join("state"),
            link_events: thalweg_mover::event::nobody(),
            meter: Arc::default(),
            stop: &stop,
            tell: &tell,
            tells_failed: true,
        },
    );
    told.into_inner().unwrap()
}

fn both() -> Vec<Name> {
    ["from/a", "from/b"].map(|name| Name { path: path(name), is_directory: false }).to_vec()
}

/// As a disk does that loses a bit: size and times stay.
fn damage(file: &Path) {
    use std::os::unix::fs::FileExt;
    let modified = file.metadata().unwrap().modified().unwrap();
    let opened = std::fs::File::options().write(true).open(file).unwrap();
    opened.write_all_at(b"damaged", 99).unwrap();
    opened.set_times(std::fs::FileTimes::new().set_modified(modified)).unwrap();
}

#[test]
fn what_the_disk_of_the_stage_damages_between_the_legs_is_found_and_repaired_before_it_is_told() {
    let told = between(|root, running| {
        let legs = legs_of(root);
        let batch = Batch { number: 1, names: both(), room_bytes: 1 << 20, is_again: false };
        legs.place.write_list(1, batch.room_bytes, &batch.names).unwrap();
        let came = legs.leg_in(1, &batch.names, Check::Evidence, running).unwrap();
        damage(&legs.place.tree(1).join("from/a"));
        assert!(legs.drain_one(&batch, came, running).unwrap());
        let carried = legs.carried();
        assert_eq!((carried.done, carried.repaired, carried.failed), (2, 1, 0));
        drop(legs);
    });
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn what_came_to_the_destination_meanwhile_is_left_alone_also_where_another_file_is_repaired() {
    let told = between_by(&ignoring(), |root, running| {
        let legs = legs_of(root);
        let batch = Batch { number: 1, names: both(), room_bytes: 1 << 20, is_again: false };
        legs.place.write_list(1, batch.room_bytes, &batch.names).unwrap();
        let came = legs.leg_in(1, &batch.names, Check::Evidence, running).unwrap();
        damage(&legs.place.tree(1).join("from/a"));
        std::fs::create_dir(root.join("to/from")).unwrap();
        std::fs::write(root.join("to/from/b"), b"theirs").unwrap();
        assert!(legs.drain_one(&batch, came, running).unwrap());
        let carried = legs.carried();
        assert_eq!((carried.done, carried.repaired, carried.skipped, carried.failed), (1, 1, 1, 0));
        assert!(arrived(root, "a"));
        assert_eq!(std::fs::read(root.join("to/from/b")).unwrap(), b"theirs");
    });
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn what_an_earlier_command_brought_is_compared_also_where_it_is_left_alone() {
    let told = between_by(&ignoring(), |root, running| {
        let before = legs_of(root);
        before.place.write_list(3, 1 << 20, &both()).unwrap();
        before.leg_in(3, &both(), Check::Evidence, running).unwrap();
        before.leg_out(3, Check::Evidence, Pass::First, running).unwrap();
        damage(&root.join("to/from/a"));
        drop(before);
        let legs = legs_of(root);
        legs.carry(Vec::new(), running).unwrap();
        let carried = legs.carried();
        assert_eq!((carried.done, carried.unchanged, carried.skipped, carried.failed), (0, 1, 0, 1));
        drop(legs);
        // It is neither replaced nor forgotten.
        assert!(!arrived(root, "a") && arrived(root, "b"));
        std::fs::remove_file(root.join("to/from/a")).unwrap();
        let legs = legs_of(root);
        legs.carry(Vec::new(), running).unwrap();
        assert_eq!((legs.carried().done, legs.carried().failed), (1, 0));
        drop(legs);
        assert!(arrived(root, "a"));
        assert_eq!(std::fs::read_dir(root.join("stage")).unwrap().count(), 0);
    });
    let is_conflict = |event: &&Event| matches!(event, Event::Aside(_, Outcome::Failed(failure)) if failure.kind == FailureKind::Conflict);
    assert_eq!(told.iter().filter(is_conflict).count(), 1, "{told:?}");
}

#[test]
fn what_is_left_in_the_stage_is_compared_from_end_to_end_by_the_next_command() {
    for is_at_destination in [false, true] {
        let told = between(|root, running| {
            let before = legs_of(root);
            before.place.write_list(3, 1 << 20, &both()).unwrap();
            if is_at_destination {
                // It was brought damaged, and its command killed before that was seen.
                std::fs::create_dir(root.join("to/from")).unwrap();
                std::fs::copy(root.join("from/a"), root.join("to/from/a")).unwrap();
                let modified = root.join("from/a").metadata().unwrap().modified().unwrap();
                let there = std::fs::File::options().write(true).open(root.join("to/from/a")).unwrap();
                there.set_times(std::fs::FileTimes::new().set_modified(modified)).unwrap();
                damage(&root.join("to/from/a"));
            } else {
                before.leg_in(3, &both(), Check::Evidence, running).unwrap();
                damage(&before.place.tree(3).join("from/a"));
            }
            drop(before);
            let legs = legs_of(root);
            assert!(legs.has_left());
            assert_eq!(legs.names_left().len(), 2);
            legs.carry(Vec::new(), running).unwrap();
            drop(legs);
        });
        assert_eq!(told.len(), 2, "{told:?}");
    }
}

#[test]
fn what_was_left_in_the_stage_and_is_gone_at_the_source_is_not_brought_on() {
    let told = between(|root, running| {
        let before = legs_of(root);
        std::fs::create_dir(root.join("from/old")).unwrap();
        std::fs::write(root.join("from/old/c"), b"old").unwrap();
        let old = Name { path: path("from/old/c"), is_directory: false };
        let names = [both(), vec![old]].concat();
        before.place.write_list(1, 1 << 20, &names).unwrap();
        before.leg_in(1, &names, Check::Evidence, running).unwrap();
        drop(before);
        std::fs::remove_dir_all(root.join("from/old")).unwrap();
        let legs = legs_of(root);
        legs.carry(Vec::new(), running).unwrap();
        assert!(!root.join("to/from/old").exists());
        assert_eq!((legs.carried().done, legs.carried().failed), (2, 0));
        drop(legs);
        // Nor is it lost.
        let stage = StagePlace::path(&root.join("stage"), "k");
        assert_eq!(std::fs::read(stage.join("gone/1/from/old/c")).unwrap(), b"old");
        std::fs::remove_dir_all(stage).unwrap();
    });
    let is_told =
        |event: &&Event| matches!(event, Event::Note(text) if text.starts_with("1 file of an earlier"));
    assert_eq!(told.iter().filter(is_told).count(), 1, "{told:?}");
}

#[test]
fn what_is_whole_in_the_stage_of_an_earlier_command_is_not_fetched_again() {
    between(|root, running| {
        let before = legs_of(root);
        before.place.write_list(3, 1 << 20, &both()).unwrap();
        before.leg_in(3, &both(), Check::Evidence, running).unwrap();
        drop(before);
        let legs = legs_of(root);
        let came = legs.leg_in(3, &both(), Check::Digest, running).unwrap();
        for name in both() {
            let fate = fate(&name.path, &came, &came);
            let is_here = matches!(fate, Fate::Same(Event::Settled(_, Outcome::Unchanged { .. })));
            assert!(is_here, "{}", name.path);
        }
        legs.carry(Vec::new(), running).unwrap();
        drop(legs);
    });
}

#[test]
fn what_the_stage_lost_between_the_legs_is_told_and_brought_by_the_next_command() {
    let told = between(|root, running| {
        let legs = legs_of(root);
        let batch = Batch { number: 1, names: both(), room_bytes: 1 << 20, is_again: true };
        legs.place.write_list(1, batch.room_bytes, &batch.names).unwrap();
        let came = legs.leg_in(1, &batch.names, Check::Evidence, running).unwrap();
        std::fs::remove_file(legs.place.tree(1).join("from/a")).unwrap();
        assert!(!legs.drain_one(&batch, came, running).unwrap());
        assert_eq!((legs.carried().done, legs.carried().failed), (1, 1));
        drop(legs);
        let legs = legs_of(root);
        legs.carry(Vec::new(), running).unwrap();
        drop(legs);
    });
    assert_eq!(told.len(), 3, "{told:?}");
}

#[test]
fn batches_follow_each_other_through_a_stage_that_has_room_for_few_of_them() {
    between(|root, running| {
        let mut legs = legs_of(root);
        legs.bytes_max = 400 << 10;
        for number in 0..9u8 {
            std::fs::write(root.join(format!("from/{number}")), vec![number; 90_000]).unwrap();
        }
        let mut items: Vec<Item> = (0..9).map(|number| item(&format!("from/{number}"), 90_000)).collect();
        items.extend([item("from/a", 300_000), item("from/b", 3000)]);
        legs.carry(items, running).unwrap();
        assert_eq!((legs.carried().done, legs.carried().bytes), (11, 9 * 90_000 + 303_000));
        for number in 0..9 {
            let [from, to] = ["from", "to/from"].map(|at| std::fs::read(root.join(format!("{at}/{number}"))));
            assert_eq!(from.unwrap(), to.unwrap());
        }
        drop(legs);
    });
}

/// The same where one of the places is on this machine.
fn near<'a>(running: &Running<'a>) -> Running<'a> {
    let (link_events, meter) = (running.link_events.clone(), running.meter.clone());
    Running { link_events, meter, tells_failed: false, ..*running }
}

/// The direct copy that ends such a one.
fn direct_of(root: &Path, to: To) -> Job {
    let from = From::Local(vec![root.join("from")]);
    let signer = Arc::new(Identity::generate("test").unwrap());
    let names = ("from".to_owned(), "to".to_owned());
    Job { from, to, signer, names, part: None, client_line: None }
}

/// Else it would find the same for ever.
#[test]
fn a_round_finds_nothing_that_an_earlier_one_brought_also_where_all_is_copied_whatever_is_there() {
    let fidelity = Fidelity { check: Check::Nothing, ..Fidelity::default() };
    between_by(&Wishes { fidelity, ..Wishes::default() }, |root, running| {
        let (running, legs) = (near(running), legs_of(root));
        let direct = direct_of(root, To::Local(root.join("to")));
        let round = || {
            let Needs { items, has_more, .. } = legs.needs_of(&direct, &running, 1).unwrap();
            legs.carry(items, &running).unwrap();
            (has_more, legs.carried().done)
        };
        assert_eq!([round(), round(), round()], [(true, 1), (false, 2), (false, 2)]);
        drop(legs);
        assert!(arrived(root, "a") && arrived(root, "b"));
    });
}

/// Also where something is remembered of what was copied directly before, and where no time is kept there.
#[test]
fn what_came_into_a_bucket_through_a_stage_is_found_there_by_the_copy_that_ends_it() {
    for times in [true, false] {
        let preserve = Preserve { times, ..Preserve::default() };
        let fidelity = Fidelity { preserve, ..Fidelity::default() };
        between_by(&Wishes { fidelity, ..Wishes::default() }, |root, running| {
            let (running, fake) = (near(running), Fake::start().unwrap());
            let place = bucket(&fake, "to/");
            let opened = |place: Bucket| To::Given(place.destination(running.state).unwrap());
            let direct = direct_of(root, opened(place.clone()));
            let copy = || {
                let (events, link_events) = (thalweg_mover::event::nobody(), running.link_events.clone());
                let meter = Arc::default();
                let watch = Watch { events, is_behind: None, link_events, meter, evidence: None };
                let report = direct.run(running.wishes, running.state, &watch, running.stop).unwrap();
                report.totals.bytes_received
            };
            let pass = || {
                let mut legs = legs_of(root);
                legs.to = opened(place.clone().behind_stage());
                let needs = legs.needs_of(&direct, &running, ROUND_ITEMS_MAX).unwrap();
                legs.carry(needs.items, &running).unwrap();
                legs.carried().bytes
            };
            let change = |byte: u8| {
                let content = vec![byte; 300_000];
                std::fs::write(root.join("from/a"), &content).unwrap();
                let file = std::fs::File::options().write(true).open(root.join("from/a")).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(byte.into())).unwrap();
                content
            };
            assert_eq!((pass(), copy()), (303_000, 0), "{times}");
            change(3);
            assert_eq!(copy(), 300_000, "{times}");
            let content = change(4);
            assert_eq!((pass(), copy()), (300_000, 0), "{times}");
            assert!(fake.content("to/from/a").unwrap() == content);
        });
    }
}
