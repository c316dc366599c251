//! Small files of all sizes, several in one call.

use super::*;
use std::process::Command;
use thalweg_mover::endpoint::together::TOGETHER_MAX;
use thalweg_mover::plan::DIRECT_BYTES;
use thalweg_wire::message::VerifyLevel;

/// Around blocks, around what goes past the page cache by itself, and around what goes into flight.
const SIZES: [usize; TOGETHER_MAX] = [
    0, 1, 4095, 4096, 4097, 100_001, 131_071, 131_072, 131_073, 200_000, 262_144, 262_145, 300_001, 524_288,
    1_048_575, 1_048_576,
];

fn disk(direct: Direct, depth: Option<u16>, no_io_uring: bool) -> Disk {
    Disk { destination: DiskSide { direct, order: None }, depth, no_io_uring, ..Disk::default() }
}

/// Puts them into `target` in one call, and compares what is there.
fn stage_all(source: &LocalSource, target: &Path, disk: Disk) {
    let destination = open(To { terms: Terms { disk, ..terms() }, ..to(target) }, &source.form()).unwrap();
    let (found, _) = scan(source);
    let files: Vec<&Entry> =
        found.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).collect();
    assert_eq!(files.len(), SIZES.len());
    for entry in &found.entries {
        let decided = destination.decide(entry, &|_, _| true);
        assert!(matches!(decided, Decision::Fresh | Decision::Settled { .. }));
    }
    let contents: Vec<Vec<u8>> = files
        .iter()
        .map(|entry| {
            let mut content = vec![0; entry.evidence.size as usize];
            source.read_small(entry, &mut content).unwrap();
            content
        })
        .collect();
    let small: Vec<_> =
        files.iter().zip(&contents).map(|(entry, content)| Small { entry, content }).collect();
    let mut together = Together::new(&disk);
    let staged = destination.stage(0, &small, &mut together);
    assert_eq!(staged.len(), files.len());
    destination.sync(&[]).unwrap();
    for ((entry, content), staged) in files.iter().zip(&contents).zip(staged) {
        let digest = Digest(*blake3::hash(content).as_bytes());
        let staged = staged.unwrap();
        assert_eq!(destination.read_staged_back(&staged, entry.evidence.size).unwrap(), digest);
        let losses = destination.finish(entry, Ready::Staged(staged), digest).unwrap();
        assert!(losses.is_empty(), "{losses:?}");
    }
    destination.sync(&[]).unwrap();
    destination.close(true);
}

/// Bytes of a file that are in the page cache; `None` where there is no program that tells.
fn cached_bytes(path: &Path) -> Option<u64> {
    let told =
        Command::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).arg(path).output();
    String::from_utf8(told.ok()?.stdout).ok()?.trim().parse().ok()
}

#[test]
fn small_files_of_any_size_come_whole_whatever_way_they_are_written() {
    let trees = trees();
    for (number, bytes) in SIZES.into_iter().enumerate() {
        let content: Vec<u8> = (0..bytes).map(|at| (at * 7 + number + at / 4096) as u8).collect();
        fs::write(trees.source.join(format!("f{number:02}")), content).unwrap();
    }
    let source = contents(&trees.source);
    for direct in [Direct::Auto, Direct::On, Direct::Off] {
        for (depth, no_io_uring) in [(None, false), (None, true), (Some(1), false), (Some(3), false)] {
            let target = trees.target.join(format!("{direct:?}-{depth:?}-{no_io_uring}"));
            stage_all(&source, &target, disk(direct, depth, no_io_uring));
            let [wanted, found] = [&trees.source, &target].map(|root| {
                let mut picture = picture(root);
                // The root itself is no small file.
                picture.remove(Path::new(""));
                picture
            });
            assert_eq!(wanted, found, "{direct:?} {depth:?} {no_io_uring}");
        }
    }
}

#[test]
fn what_goes_past_the_page_cache_leaves_none_of_its_blocks_in_it() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let Some(mount) = Mount::new("mkfs.ext4 -qF", "ext4") else {
        eprintln!("skipped: ext4 cannot be mounted here");
        return;
    };
    let trees = trees();
    for (number, bytes) in SIZES.into_iter().enumerate() {
        fs::write(trees.source.join(format!("f{number:02}")), vec![number as u8 + 1; bytes]).unwrap();
    }
    let source = contents(&trees.source);
    let target = mount.path.join("by itself");
    stage_all(&source, &target, Disk::default());
    for (number, bytes) in SIZES.into_iter().enumerate().filter(|(_, bytes)| *bytes as u64 >= DIRECT_BYTES) {
        let Some(cached) = cached_bytes(&target.join(format!("f{number:02}"))) else {
            eprintln!("skipped: there is no fincore here");
            return;
        };
        // The bytes behind the last block take a page.
        assert!(cached <= (bytes % 4096).next_multiple_of(4096) as u64, "{bytes}: {cached}");
    }
}

/// A destination that was offered `directories` of so many files each, and their files.
struct Offered {
    trees: Trees,
    destination: LocalDestination,
    files: Vec<Entry>,
    together: Together,
}

impl Offered {
    fn new(directories: &[(&str, usize)]) -> Offered {
        Offered::with(terms(), directories)
    }

    fn with(terms: Terms, directories: &[(&str, usize)]) -> Offered {
        Offered::in_trees(trees(), terms, directories)
    }

    fn in_trees(trees: Trees, terms: Terms, directories: &[(&str, usize)]) -> Offered {
        for (directory, files) in directories {
            fs::create_dir(trees.source.join(directory)).unwrap();
            for number in 0..*files {
                let name = format!("{directory}/f{number:03}");
                fs::write(trees.source.join(&name), &name).unwrap();
            }
            fs::set_permissions(trees.source.join(directory), fs::Permissions::from_mode(0o751)).unwrap();
        }
        let source = contents(&trees.source);
        let destination = open(To { terms, ..to(&trees.target) }, &source.form()).unwrap();
        let (found, _) = scan(&source);
        for entry in &found.entries {
            let decided = destination.decide(entry, &|_, _| true);
            assert!(matches!(decided, Decision::Fresh | Decision::Settled { .. }));
        }
        let files =
            found.entries.into_iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).collect();
        Offered { trees, destination, files, together: Together::new(&Disk::default()) }
    }

    fn of(&self, directory: &str) -> Vec<Entry> {
        let is_in = |entry: &&Entry| entry.path.as_bytes().starts_with(format!("{directory}/").as_bytes());
        self.files.iter().filter(is_in).cloned().collect()
    }

    /// On one stream, as they come in a pack; the transfer takes them.
    fn stage(&mut self, entries: &[Entry]) -> Vec<Staged> {
        let staged = self.write(entries);
        self.take(&staged);
        staged
    }

    fn take(&self, staged: &[Staged]) {
        staged.iter().for_each(|staged| self.destination.taken(staged.lane, staged.number));
    }

    /// The same, before the transfer knows of them.
    fn write(&mut self, entries: &[Entry]) -> Vec<Staged> {
        let mut staged = Vec::new();
        for entries in entries.chunks(TOGETHER_MAX) {
            let contents: Vec<Vec<u8>> = entries.iter().map(|entry| entry.path.as_bytes().to_vec()).collect();
            let small: Vec<_> =
                entries.iter().zip(&contents).map(|(entry, content)| Small { entry, content }).collect();
            staged.extend(
                self.destination.stage(0, &small, &mut self.together).into_iter().map(Result::unwrap),
            );
        }
        staged
    }

    fn finish(&self, entry: &Entry, staged: &Staged) {
        let digest = Digest(*blake3::hash(entry.path.as_bytes()).as_bytes());
        assert_eq!(self.destination.read_staged_back(staged, entry.evidence.size).unwrap(), digest);
        self.destination.finish(entry, Ready::Staged(staged.clone()), digest).unwrap();
    }

    fn names(&self, directory: &str) -> usize {
        fs::read_dir(self.trees.target.join(directory)).unwrap().count()
    }

    /// All of it, at the end.
    fn end(self) {
        let conclusion = self.destination.conclude(Listing::Whole, &|| true);
        assert!(conclusion.failed.is_none() && conclusion.troubles.is_empty(), "{:?}", conclusion.troubles);
        self.destination.close(true);
        let [wanted, found] = [&self.trees.source, &self.trees.target].map(|root| {
            let mut picture = picture(root);
            picture.remove(Path::new(""));
            picture
        });
        assert_eq!(wanted, found);
    }
}

#[test]
fn files_of_a_new_directory_get_their_names_together() {
    let mut offered = Offered::new(&[("d", 40), ("e", 16)]);
    let (d, e) = (offered.of("d"), offered.of("e"));
    let staged = offered.stage(&d);
    let waits = |offered: &Offered, entry, staged| offered.destination.is_worth_waiting(entry, staged);
    offered.destination.sync(&[]).unwrap();
    assert!(waits(&offered, &d[0], &staged[0]), "more may come");
    assert_eq!(offered.names("d"), 0);
    let others = offered.stage(&e);
    assert!(!waits(&offered, &d[0], &staged[0]), "the stream is elsewhere");
    assert!(waits(&offered, &e[0], &others[0]), "no sync covers them");
    offered.finish(&d[0], &staged[0]);
    assert_eq!(offered.names("d"), 40);
    d.iter().zip(&staged).skip(1).for_each(|(entry, staged)| offered.finish(entry, staged));
    offered.destination.sync(&[]).unwrap();
    e.iter().zip(&others).for_each(|(entry, staged)| offered.finish(entry, staged));
    assert_eq!(offered.names("e"), 16);
    offered.end();
}

#[test]
fn what_no_sync_covers_gets_no_name_with_the_others() {
    let mut offered = Offered::new(&[("d", 40)]);
    let d = offered.of("d");
    let staged = offered.stage(&d[..32]);
    offered.destination.sync(&[]).unwrap();
    let late = offered.stage(&d[32..]);
    offered.finish(&d[0], &staged[0]);
    assert_eq!(offered.names("d"), 1, "one by one: the others are not all covered");
    d.iter().zip(&staged).skip(1).for_each(|(entry, staged)| offered.finish(entry, staged));
    assert_eq!(offered.names("d"), 32);
    offered.destination.sync(&[]).unwrap();
    d[32..].iter().zip(&late).for_each(|(entry, staged)| offered.finish(entry, staged));
    offered.end();
}

#[test]
fn who_puts_something_into_the_new_directory_keeps_it() {
    let mut offered = Offered::new(&[("d", 20), ("e", 20)]);
    let (d, e) = (offered.of("d"), offered.of("e"));
    let (staged, others) = (offered.stage(&d), offered.stage(&e));
    fs::write(offered.trees.target.join("d/foreign"), b"mine").unwrap();
    // Another directory of this name is not the one that was made.
    fs::rename(offered.trees.target.join("e"), offered.trees.target.join("e away")).unwrap();
    fs::create_dir(offered.trees.target.join("e")).unwrap();
    offered.destination.sync(&[]).unwrap();
    d.iter().zip(&staged).for_each(|(entry, staged)| offered.finish(entry, staged));
    assert_eq!(offered.names("d"), 21);
    assert_eq!(fs::read(offered.trees.target.join("d/foreign")).unwrap(), b"mine");
    e.iter().zip(&others).for_each(|(entry, staged)| offered.finish(entry, staged));
    assert_eq!((offered.names("e"), offered.names("e away")), (0, 20), "a directory that is held");
    offered.destination.close(true);
}

#[test]
fn a_file_that_comes_twice_or_is_thrown_away_leaves_the_others_alone() {
    let mut offered = Offered::new(&[("d", 24)]);
    let d = offered.of("d");
    let staged = offered.stage(&d);
    let [twice] = &offered.write(&d[..1])[..] else { panic!("one answer") };
    let throw_away = |offered: &Offered, staged: &Staged| {
        offered.destination.discard(Ready::Staged(staged.clone()));
    };
    throw_away(&offered, twice);
    throw_away(&offered, &staged[1]);
    offered.destination.sync(&[]).unwrap();
    offered.finish(&d[0], &staged[0]);
    assert_eq!(offered.names("d"), 23);
    // It was named with the others, and is damaged, say.
    throw_away(&offered, &staged[2]);
    assert_eq!(offered.names("d"), 22);
    let again = offered.stage(&d[1..3]);
    offered.destination.sync(&[]).unwrap();
    d[1..3].iter().zip(&again).for_each(|(entry, staged)| offered.finish(entry, staged));
    d.iter().zip(&staged).skip(3).for_each(|(entry, staged)| offered.finish(entry, staged));
    offered.end();
}

/// A link that is lost while a pack is written: the stream in its place brings the pack again, and may be the first to
/// say that it is there.
#[test]
fn a_copy_that_the_transfer_did_not_take_never_shows_with_the_others_nor_keeps_out_the_one_that_it_took() {
    for is_gone_before in [true, false] {
        let mut offered = Offered::new(&[("d", 24)]);
        let d = offered.of("d");
        let first = offered.write(&d);
        let again = offered.stage(&d[..1]);
        offered.take(&first[1..]);
        let throw_away = |offered: &Offered| offered.destination.discard(Ready::Staged(first[0].clone()));
        if is_gone_before {
            throw_away(&offered);
        }
        offered.destination.sync(&[]).unwrap();
        if !is_gone_before {
            offered.finish(&d[1], &first[1]);
            assert!(!offered.trees.target.join("d/f000").exists(), "nobody took it");
        }
        offered.finish(&d[0], &again[0]);
        assert_eq!(offered.names("d"), if is_gone_before { 24 } else { 2 });
        if !is_gone_before {
            throw_away(&offered);
            assert!(offered.trees.target.join("d/f000").exists(), "another one was thrown away");
        }
        let left = if is_gone_before { 1 } else { 2 };
        d.iter().zip(&first).skip(left).for_each(|(entry, staged)| offered.finish(entry, staged));
        offered.end();
    }
}

#[test]
fn a_directory_that_is_never_left_is_not_waited_for_for_ever() {
    let mut offered = Offered::new(&[("d", 64)]);
    let d = offered.of("d");
    let mut staged = Vec::new();
    let mut rounds = 0;
    for entries in d.chunks(16) {
        staged.extend(offered.stage(entries));
        offered.destination.sync(&[]).unwrap();
        rounds += u32::from(offered.destination.is_worth_waiting(&d[0], &staged[0]));
    }
    assert_eq!(rounds, 1, "then it takes its place, and what comes goes by lanes");
    d.iter().zip(&staged).for_each(|(entry, staged)| offered.finish(entry, staged));
    offered.end();
}

#[test]
fn what_was_read_back_damaged_gets_no_name_with_the_others() {
    let terms = Terms { verify: VerifyLevel::Readback, ..terms() };
    let mut offered = Offered::with(terms, &[("d", 24)]);
    let d = offered.of("d");
    let staged = offered.stage(&d);
    offered.destination.sync(&[]).unwrap();
    // The first did not read back well, say, and is not thrown away yet.
    d.iter().zip(&staged).skip(1).for_each(|(entry, staged)| offered.finish(entry, staged));
    assert_eq!(offered.names("d"), 23);
    assert!(!offered.trees.target.join("d/f000").exists());
    offered.destination.discard(Ready::Staged(staged[0].clone()));
    let again = offered.stage(&d[..1]);
    offered.destination.sync(&[]).unwrap();
    offered.finish(&d[0], &again[0]);
    offered.end();
}

#[test]
fn a_file_that_is_thrown_away_takes_none_with_it_that_has_its_name_in_another_file_system() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let trees = trees();
    let path = trees.target.join("m");
    fs::create_dir_all(&path).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&path).output();
    if !mounted.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: tmpfs cannot be mounted here");
        return;
    }
    let mount = Mount { path, _scratch: tempfile::tempdir().unwrap() };
    let mut offered = Offered::in_trees(trees, terms(), &[("d", 20), ("m", 0), ("m/e", 20)]);
    let (d, e) = (offered.of("d"), offered.of("m/e"));
    let (staged, others) = (offered.stage(&d), offered.stage(&e));
    offered.destination.discard(Ready::Staged(staged[0].clone()));
    offered.destination.sync(&[]).unwrap();
    e.iter().zip(&others).for_each(|(entry, staged)| offered.finish(entry, staged));
    d.iter().zip(&staged).skip(1).for_each(|(entry, staged)| offered.finish(entry, staged));
    assert_eq!((offered.names("d"), offered.names("m/e")), (19, 20));
    offered.destination.close(true);
    let Offered { trees: _trees, destination, .. } = offered;
    drop(destination);
    drop(mount);
}

/// A daemon holds its exports open: of one that was replaced it has a directory without a name, where nothing can be
/// made.
#[test]
fn an_export_that_was_replaced_is_said_to_be_and_is_not_named_by_no_words() {
    let trees = trees();
    fs::create_dir(&trees.target).unwrap();
    let export = Dir::open(&trees.target).unwrap();
    fs::remove_dir(&trees.target).unwrap();
    fs::create_dir(&trees.target).unwrap();
    for path in ["", "new", "new/below"] {
        let place = DestinationPlace { path: path.into(), below: Some(export.try_clone().unwrap()) };
        let opened =
            LocalDestination::open(place, &SourceForm::Many, false, terms(), None, Filter::default());
        let failure = opened.err().expect("nothing can be made there");
        assert!(failure.cause.contains("the export's directory was removed or replaced"), "{failure:?}");
        assert!(!failure.cause.contains("``"), "{failure:?}");
    }
}

#[test]
fn a_file_that_its_owner_may_not_read_is_read_back_all_the_same() {
    if is_root() {
        eprintln!("skipped: root may read everything");
        return;
    }
    let trees = trees();
    fs::write(trees.source.join("f"), "x").unwrap();
    let source = contents(&trees.source);
    let terms = Terms { verify: VerifyLevel::Readback, ..terms() };
    let destination = open(To { terms, ..to(&trees.target) }, &source.form()).unwrap();
    let (found, _) = scan(&source);
    destination.decide(&found.entries[0], &|_, _| true);
    // As a sender has it that is root.
    let mut entry = found.entry("f").clone();
    entry.mode = 0;
    assert!(matches!(destination.decide(&entry, &|_, _| true), Decision::Fresh));
    let digest = Digest(*blake3::hash(b"x").as_bytes());
    let staged = stage(&destination, &entry, b"x").unwrap();
    destination.sync(&[]).unwrap();
    assert_eq!(destination.read_staged_back(&staged, 1).unwrap(), digest);
    destination.finish(&entry, Ready::Staged(staged), digest).unwrap();
    destination.sync(&[]).unwrap();
    assert_eq!(fs::metadata(trees.target.join("f")).unwrap().mode() & 0o777, 0);
    destination.close(true);
}

#[test]
fn what_is_thrown_away_after_the_end_is_nothing_of_the_next_attempt() {
    /// More lanes than are held open.
    const LANES: usize = 40;
    let trees = trees();
    let names: Vec<String> = (0..LANES).map(|number| format!("f{number:02}")).collect();
    names.iter().for_each(|name| fs::write(trees.source.join(name), "content").unwrap());
    let source = contents(&trees.source);
    let (found, _) = scan(&source);
    let attempt = || {
        let destination = open(to(&trees.target), &source.form()).unwrap();
        for entry in &found.entries {
            destination.decide(entry, &|_, _| true);
        }
        let stage = |(lane, name): (usize, &String)| {
            let small = [Small { entry: found.entry(name), content: b"content" }];
            let mut together = Together::new(&Disk::default());
            destination.stage(lane as u32, &small, &mut together).remove(0).unwrap()
        };
        let staged: Vec<Staged> = names.iter().enumerate().map(stage).collect();
        (destination, staged)
    };
    let (first, late) = attempt();
    first.close(false);
    let (second, staged) = attempt();
    // By a stream that was slow.
    late.into_iter().for_each(|staged| first.discard(Ready::Staged(staged)));
    second.sync(&[]).unwrap();
    let digest = Digest(*blake3::hash(b"content").as_bytes());
    for (name, staged) in names.iter().zip(staged) {
        second.finish(found.entry(name), Ready::Staged(staged), digest).unwrap();
    }
    second.close(true);
}
