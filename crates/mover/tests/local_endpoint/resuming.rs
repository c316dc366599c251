//! A second attempt after one that stopped half way.

use super::*;

const CHUNKS: u64 = 8;

/// A first attempt that stops after `chunks` of the one file.
fn half_way(trees: &Trees, chunks: u64) -> LocalSource {
    let source = contents(&trees.source);
    let destination = open(to(&trees.target), &SourceForm::Many).unwrap();
    let (found, _) = scan(&source);
    destination.decide(&found.entries[0], &|_, _| true);
    let entry = found.entry("large");
    assert!(matches!(destination.decide(entry, &|_, _| true), Decision::Fresh));
    write_chunks(&source, &destination, entry, None, chunks).unwrap();
    destination.close(false);
    source
}

fn staged(trees: &Trees) -> PathBuf {
    trees.target.join(".thalweg-staging").join("05".repeat(16))
}

fn partial(trees: &Trees) -> PathBuf {
    fs::read_dir(staged(trees))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().as_bytes().starts_with(b"partial-"))
        .unwrap()
}

fn large() -> Trees {
    let trees = trees();
    fs::write(trees.source.join("large"), noise((CHUNKS * CHUNK) as usize - 100, 11)).unwrap();
    trees
}

fn same(trees: &Trees) -> bool {
    fs::read(trees.source.join("large")).unwrap() == fs::read(trees.target.join("large")).unwrap()
}

#[test]
fn recorded_chunks_are_not_sent_again() {
    let trees = large();
    let source = half_way(&trees, 5);
    assert!(!trees.target.join("large").exists());
    let copied = copy(&source, to(&trees.target));
    assert_eq!(copied.assert_whole().resumed_chunks, 5);
    assert!(same(&trees));
    assert!(!trees.target.join(".thalweg-staging").exists());
}

#[test]
fn a_partial_that_nobody_waits_for_any_more_stays_for_the_next_attempt() {
    let trees = large();
    let source = half_way(&trees, 5);
    let destination = open(to(&trees.target), &SourceForm::Many).unwrap();
    let (found, _) = scan(&source);
    destination.decide(&found.entries[0], &|_, _| true);
    let decided = destination.decide(found.entry("large"), &|done, _| done < CHUNK);
    let Decision::Settled { outcome: Outcome::Failed(failure), .. } = decided else { panic!("it read on") };
    assert_eq!(failure.kind, FailureKind::Stopped);
    destination.close(false);
    assert_eq!(copy(&source, to(&trees.target)).assert_whole().resumed_chunks, 5);
    assert!(same(&trees));
}

/// 004 section II-A: chunks are written in any order, and the file system knows from the beginning where all of them
/// go.
#[test]
fn room_for_all_of_a_file_is_reserved_when_its_first_chunk_is_written() {
    let trees = large();
    let beside = trees.source.parent().unwrap();
    let probe = Dir::open(beside).and_then(|dir| dir.create_new(b"probe", 0o600));
    if let Err(why) = probe.and_then(|file| file.preallocate(0, CHUNK)) {
        eprintln!("skipped: this file system reserves nothing: {why}");
        return;
    }
    half_way(&trees, 1);
    let about = fs::metadata(partial(&trees)).unwrap();
    let whole = fs::metadata(trees.source.join("large")).unwrap().len();
    assert_eq!(about.len(), whole);
    assert!(about.blocks() * 512 >= whole, "{} blocks for {whole} bytes", about.blocks());
}

/// The same, seen on the medium: all of a fresh file has its place there before a byte of it comes, and reads as zeros.
#[test]
fn a_fresh_file_has_its_extents_before_its_data() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    for (make, kind) in [("mkfs.ext4 -qF", "ext4"), ("mkfs.xfs -qf", "xfs")] {
        let Some(mount) = Mount::new(make, kind) else {
            eprintln!("skipped: {kind} cannot be mounted here");
            continue;
        };
        let trees = Trees { target: mount.path.join("to"), ..large() };
        let bytes = fs::metadata(trees.source.join("large")).unwrap().len();
        for chunks in [0, 3] {
            half_way(&trees, chunks);
            let path = partial(&trees);
            let name = path.file_name().unwrap().as_bytes();
            let file = Dir::open(path.parent().unwrap()).unwrap().open_read(name).unwrap();
            let found = extents(&file, usize::MAX).unwrap();
            let is_placed = found.iter().all(|extent| !extent.unplaced && extent.physical > 0);
            assert!(is_placed, "{kind}, {chunks}: {found:?}");
            let placed: u64 = found.iter().map(|extent| extent.length).sum();
            assert_eq!(found[0].logical, 0, "{kind}, {chunks}: {found:?}");
            assert_eq!(placed, bytes.next_multiple_of(4096), "{kind}, {chunks}: {found:?}");
            let empty: u64 = found.iter().filter(|extent| extent.unwritten).map(|extent| extent.length).sum();
            assert_eq!(empty, placed - chunks * CHUNK, "{kind}, {chunks}: {found:?}");
            fs::remove_dir_all(&trees.target).unwrap();
        }
    }
}

#[test]
fn a_flipped_bit_in_the_partial_costs_its_chunk() {
    let trees = large();
    let source = half_way(&trees, 5);
    let file = fs::File::options().read(true).write(true).open(partial(&trees)).unwrap();
    let mut byte = [0];
    let at = 2 * CHUNK + 1000;
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    let copied = copy(&source, to(&trees.target));
    assert_eq!(copied.assert_whole().resumed_chunks, 4);
    assert!(same(&trees));
}

#[test]
fn holes_stay_zero_whatever_an_earlier_attempt_left_there() {
    let trees = trees();
    let file = fs::File::create(trees.source.join("large")).unwrap();
    file.set_len(CHUNKS * CHUNK).unwrap();
    file.write_all_at(&noise(CHUNK as usize, 3), 0).unwrap();
    file.write_all_at(&noise(CHUNK as usize, 4), 3 * CHUNK).unwrap();
    drop(file);
    let source = half_way(&trees, 4);
    for entry in fs::read_dir(staged(&trees)).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().as_bytes().starts_with(b"partial-") {
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.write_all_at(&noise(CHUNK as usize, 99), CHUNK).unwrap();
            file.write_all_at(&noise(CHUNK as usize, 99), 6 * CHUNK).unwrap();
        }
    }
    let copied = copy(&source, to(&trees.target));
    assert_eq!(copied.assert_whole().resumed_chunks, 3);
    assert!(same(&trees));
}

/// On a full disk nothing can be recorded.
#[test]
fn what_an_earlier_attempt_left_is_gone_on_with_where_it_is_and_nothing_is_recorded_anew() {
    let trees = large();
    let source = half_way(&trees, 5);
    let (left, journal) = (partial(&trees), staged(&trees).join("journal"));
    let recorded = fs::read(&journal).unwrap();
    let destination = open(to(&trees.target), &SourceForm::Many).unwrap();
    let (found, _) = scan(&source);
    destination.decide(&found.entries[0], &|_, _| true);
    let decided = destination.decide(found.entry("large"), &|_, _| true);
    assert!(matches!(decided, Decision::Wanted { left: Some(_), .. }));
    assert_eq!((partial(&trees), fs::read(&journal).unwrap()), (left, recorded));
    destination.close(false);
    assert_eq!(copy(&source, to(&trees.target)).assert_whole().resumed_chunks, 5);
}

#[test]
fn what_an_earlier_attempt_left_is_gone_on_with_beside_a_file_of_another_name() {
    let trees = large();
    set_mtime(&trees.source.join("large"), 1_000_000_000, 5);
    let source = half_way(&trees, 5);
    fs::copy(trees.source.join("large"), trees.target.join("old")).unwrap();
    set_mtime(&trees.target.join("old"), 1_000_000_000, 5);
    let asked = || To { terms: Terms { finds_renames: true, ..terms() }, ..to(&trees.target) };
    let destination = open(asked(), &SourceForm::Many).unwrap();
    let (found, _) = scan(&source);
    destination.decide(&found.entries[0], &|_, _| true);
    let decided = destination.decide(found.entry("large"), &|_, _| true);
    let Decision::Elsewhere { left: Some(left) } = decided else { panic!("what is left is not found") };
    assert_eq!(left.present.len(), 5);
    drop(left);
    destination.close(false);
    assert_eq!(copy(&source, asked()).assert_whole().resumed_chunks, 5);
    assert!(same(&trees));
}

#[test]
fn a_source_that_changed_meanwhile_starts_anew() {
    let trees = large();
    half_way(&trees, 5);
    fs::write(trees.source.join("large"), noise((CHUNKS * CHUNK) as usize - 100, 12)).unwrap();
    let copied = copy(&contents(&trees.source), to(&trees.target));
    assert_eq!((copied.assert_whole().resumed_chunks, copied.fresh), (0, 1));
    assert!(same(&trees));
}

#[test]
fn a_missing_or_short_partial_starts_anew() {
    for damage in [
        |path: &Path| fs::remove_file(path).unwrap(),
        |path: &Path| {
            fs::File::options().write(true).open(path).unwrap().set_len(1000).unwrap();
        },
    ] {
        let trees = large();
        let source = half_way(&trees, 5);
        damage(&staged(&trees).join("partial-1"));
        let copied = copy(&source, to(&trees.target));
        assert_eq!(copied.assert_whole().resumed_chunks, 0);
        assert!(same(&trees));
    }
}

#[test]
fn with_any_byte_of_the_journal_flipped_the_content_is_right() {
    let trees = large();
    half_way(&trees, 5);
    let kept = trees.source.parent().unwrap().join("kept");
    let copy_tree = |from: &Path, to: &Path| {
        let _ = fs::remove_dir_all(to);
        let status = std::process::Command::new("cp").args(["-a"]).arg(from).arg(to).status().unwrap();
        assert!(status.success());
    };
    copy_tree(&trees.target, &kept);
    let journal = fs::read(staged(&trees).join("journal")).unwrap();
    let mut resumed = 0;
    for at in 0..journal.len() {
        copy_tree(&kept, &trees.target);
        let mut bad = journal.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(staged(&trees).join("journal"), bad).unwrap();
        // A flipped layout number is another version's journal: refused, not overwritten.
        let source = contents(&trees.source);
        if let Err(failure) =
            open(to(&trees.target), &source.form()).map(|destination| destination.close(false))
        {
            assert_eq!(failure.kind, FailureKind::Unsupported);
            continue;
        }
        let copied = copy(&source, to(&trees.target));
        copied.assert_whole();
        resumed += u64::from(copied.resumed_chunks > 0);
        assert!(same(&trees), "byte {at}");
    }
    assert_eq!(resumed, 0, "a damaged record counted");
}

#[test]
fn what_no_record_names_is_removed_at_the_next_start() {
    let trees = large();
    half_way(&trees, 0);
    let staged = staged(&trees);
    fs::write(staged.join("partial-77"), "left over").unwrap();
    let destination = open(to(&trees.target), &SourceForm::Many).unwrap();
    assert!(!staged.join("partial-77").exists());
    destination.close(true);
}

#[test]
fn a_partial_that_cannot_get_its_name_does_not_stay() {
    let trees = large();
    let source = contents(&trees.source);
    let destination = open(to(&trees.target), &SourceForm::Many).unwrap();
    let (found, _) = scan(&source);
    found.entries.iter().for_each(|entry| drop(destination.decide(entry, &|_, _| true)));
    let entry = found.entry("large");
    let (file, digest) = write_chunks(&source, &destination, entry, None, u64::MAX).unwrap();
    assert!(partial(&trees).exists());
    fs::write(trees.target.join("large"), "somebody else's").unwrap();
    let failure = destination.finish(entry, Ready::Partial(file), digest.unwrap()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Conflict);
    let partials = fs::read_dir(staged(&trees)).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.as_bytes().starts_with(b"partial-")
    });
    assert_eq!(partials.count(), 0);
    destination.close(false);
}
