//! Flows into files: pieces of all lengths at any place, past the page cache and through it.

use super::*;
use thalweg_mover::endpoint::flow_destination::{FlowDestination, FlowFile, Standing};
use thalweg_mover::endpoint::local::flow_destination::LocalFlows;
use thalweg_mover::plan::DIRECT_BYTES;
use thalweg_wire::message::{FlowBegin, Origin};

/// Below, at and above what goes past the page cache; whole blocks, and not; what a pipe and a file that grows give.
const PIECES: [usize; 14] = [
    1, 4095, 4096, 131_072, 131_071, 139_264, 262_144, 1, 300_001, 65_536, 1_048_576, 1_048_575, 135_168,
    524_289,
];

fn content(bytes: usize, seed: u64) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut content);
    content
}

fn flows(root: &Path) -> LocalFlows {
    let place = DestinationPlace { path: root.to_path_buf(), below: None };
    LocalFlows::open(place, &SourceForm::Many, true, &[7; 16]).unwrap()
}

fn begin(mode: u32) -> FlowBegin {
    FlowBegin { flow: EntryId(0), path: path(b"run"), origin: Origin([3; 16]), mode, is_certain: false }
}

fn stands(flows: &LocalFlows) -> Standing {
    flows.open(&begin(0o644), &|_, _| true).unwrap()
}

/// Writes all of `content` behind `at`, piece by piece; `look` sees how far it came after each.
fn write(file: &dyn FlowFile, content: &[u8], mut at: usize, mut look: impl FnMut(usize)) {
    for length in PIECES.into_iter().cycle() {
        if at == content.len() {
            return;
        }
        let end = (at + length).min(content.len());
        file.write(&content[at..end], at as u64).unwrap();
        at = end;
        look(at);
    }
}

fn marked(flows: &LocalFlows, standing: &Standing, content: &[u8]) {
    standing.file.sync().unwrap();
    let digest = Digest(*blake3::hash(content).as_bytes());
    flows.record(&[(standing.number, content.len() as u64, digest)]).unwrap();
}

/// Where direct I/O may be had: /tmp may be in memory.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(".").unwrap()
}

/// Whoever sends chooses the names; below this one journals and marks of all jobs are.
#[test]
fn no_flow_has_a_name_in_the_staging_directory() {
    let scratch = scratch();
    let flows = flows(scratch.path());
    let job = "07".repeat(16);
    let marks = scratch.path().join(".thalweg-staging").join(&job).join("marks");
    let before = fs::read(&marks).unwrap();
    let names = [format!(".thalweg-staging/{job}/marks"), "run/.thalweg-staging/x".to_owned()];
    for name in names {
        let begin = FlowBegin {
            flow: EntryId(0),
            path: path(name.as_bytes()),
            origin: Origin([3; 16]),
            mode: 0o644,
            is_certain: false,
        };
        let refused = flows.open(&begin, &|_, _| true).err().expect("it is refused");
        assert_eq!(refused.kind, FailureKind::Conflict, "{name}");
    }
    assert_eq!(fs::read(&marks).unwrap(), before);
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn a_flow_has_every_byte_in_its_place_whatever_its_pieces() {
    let scratch = scratch();
    for end in [0usize, 1, 131_072, 5 << 20, (5 << 20) + 4095] {
        let root = scratch.path().join(end.to_string());
        fs::create_dir(&root).unwrap();
        let flows = flows(&root);
        let standing = stands(&flows);
        let content = content(end, 1);
        write(&*standing.file, &content, 0, |at| {
            // As who looks now and then does; nobody has it open in between.
            assert!(fs::read(root.join("run")).unwrap() == content[..at], "{end} at {at}");
        });
        standing.file.complete(end as u64).unwrap();
        assert!(fs::read(root.join("run")).unwrap() == content, "{end}");
        flows.close(true);
    }
}

#[test]
fn who_reads_a_file_as_it_grows_finds_what_was_written() {
    let scratch = scratch();
    let flows = flows(scratch.path());
    let standing = stands(&flows);
    let content = content(6 << 20, 2);
    let mut reader: Option<fs::File> = None;
    let mut found = Vec::new();
    let mut looks = 0;
    write(&*standing.file, &content, 0, |at| {
        // There for some pieces and gone for some: what it finds in memory and what is on the disk are one file.
        looks += 1;
        if looks % 5 == 1 {
            reader = None;
        } else if looks % 5 == 3 {
            reader = fs::File::open(scratch.path().join("run")).ok();
        }
        let Some(file) = &reader else { return };
        // What it has not read, and what it read before.
        found.resize(at, 0);
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == content[..at], "at {at}");
    });
    drop(reader);
    standing.file.complete(content.len() as u64).unwrap();
    assert!(fs::read(scratch.path().join("run")).unwrap() == content);
    flows.close(true);
}

#[test]
fn a_flow_goes_on_behind_its_mark_over_whatever_a_kill_left_there() {
    let scratch = scratch();
    let content = content(4 << 20, 3);
    // Within a block, at one, and at none.
    for mark in [0, 1 << 20, (1 << 20) + 4095, (2 << 20) + 1] {
        let root = scratch.path().join(mark.to_string());
        fs::create_dir(&root).unwrap();
        {
            let flows = flows(&root);
            let standing = stands(&flows);
            write(&*standing.file, &content[..mark], 0, |_| {});
            marked(&flows, &standing, &content[..mark]);
            // Torn: not what it was to be, and some of it in memory.
            standing.file.write(&vec![0xee; 1_500_000], mark as u64).unwrap();
            standing.file.write(&[0xdd; 5000], mark as u64 + 1_500_000).unwrap();
        }
        let flows = flows(&root);
        let standing = stands(&flows);
        assert_eq!((standing.bytes, standing.is_ours), (mark as u64, true));
        write(&*standing.file, &content, mark, |_| {});
        marked(&flows, &standing, &content);
        standing.file.complete(content.len() as u64).unwrap();
        assert!(fs::read(root.join("run")).unwrap() == content, "{mark}");
        flows.close(true);
    }
}

/// Killed between the making of the file and its first record, and then between its first bytes and their mark.
#[test]
fn an_empty_file_that_a_kill_left_is_ours_from_then_on() {
    let scratch = scratch();
    fs::write(scratch.path().join("run"), b"").unwrap();
    let first = flows(scratch.path());
    let standing = stands(&first);
    assert_eq!((standing.bytes, standing.is_ours), (0, false));
    standing.file.write(b"torn", 0).unwrap();
    drop((standing, first));
    let again = flows(scratch.path());
    let standing = stands(&again);
    assert_eq!((standing.bytes, standing.is_ours), (0, true), "what has no mark is written again");
    standing.file.write(b"whole", 0).unwrap();
    standing.file.complete(5).unwrap();
    assert_eq!(fs::read(scratch.path().join("run")).unwrap(), b"whole");
}

#[test]
fn large_pieces_go_past_the_page_cache_unless_somebody_reads_them() {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return;
    }
    let Some(mount) = Mount::new("mkfs.ext4 -qF", "ext4") else {
        eprintln!("skipped: ext4 cannot be mounted here");
        return;
    };
    let content = content(8 << 20, 4);
    for (is_read, piece_bytes) in
        [(false, 1 << 20), (false, DIRECT_BYTES as usize), (true, 1 << 20), (false, 4096)]
    {
        let root = mount.path.join(format!("{is_read} {piece_bytes}"));
        fs::create_dir(&root).unwrap();
        let flows = flows(&root);
        let standing = stands(&flows);
        let reader = is_read.then(|| fs::File::open(root.join("run")).unwrap());
        for (number, piece) in content.chunks(piece_bytes).enumerate() {
            standing.file.write(piece, (number * piece_bytes) as u64).unwrap();
        }
        let look = Dir::open(&root).unwrap().open_read(b"run").unwrap();
        let Ok(cached) = look.cached_bytes(0, content.len() as u64) else {
            eprintln!("skipped: this kernel does not tell what it has in memory");
            return;
        };
        let is_past = !is_read && piece_bytes as u64 >= DIRECT_BYTES;
        assert_eq!(cached, if is_past { 0 } else { content.len() as u64 }, "{is_read} {piece_bytes}");
        drop((look, reader));
        standing.file.complete(content.len() as u64).unwrap();
        assert!(fs::read(root.join("run")).unwrap() == content);
        flows.close(true);
    }
}

#[test]
fn what_was_complete_and_is_taken_away_stands_as_complete_and_is_not_made_again() {
    let scratch = scratch();
    let content = content(100_000, 5);
    for end in [0, content.len()] {
        let first = flows(scratch.path());
        let standing = stands(&first);
        write(&*standing.file, &content[..end], 0, |_| {});
        marked(&first, &standing, &content[..end]);
        standing.file.complete(end as u64).unwrap();
        drop((standing, first));
        fs::remove_file(scratch.path().join("run")).unwrap();
        // As a daemon does that was started again.
        let again = flows(scratch.path());
        let standing = stands(&again);
        let digest = Digest(*blake3::hash(&content[..end]).as_bytes());
        assert_eq!((standing.bytes, standing.is_over, standing.digest), (end as u64, true, digest));
        standing.file.complete(end as u64).unwrap();
        let failure = standing.file.write(b"more", end as u64).unwrap_err();
        assert!(failure.kind == FailureKind::NotFound && failure.cause.contains("taken away"), "{failure}");
        assert!(!scratch.path().join("run").exists());
        again.close(true);
    }
}

#[test]
fn what_was_not_complete_and_is_gone_is_damage_and_leaves_nothing() {
    let scratch = scratch();
    let content = content(100_000, 6);
    let first = flows(scratch.path());
    let standing = stands(&first);
    write(&*standing.file, &content, 0, |_| {});
    marked(&first, &standing, &content);
    drop((standing, first));
    fs::remove_file(scratch.path().join("run")).unwrap();
    let failure = flows(scratch.path()).open(&begin(0o644), &|_, _| true).err().unwrap();
    assert!(
        failure.kind == FailureKind::Damage && failure.cause.contains("somebody took it away"),
        "{failure}"
    );
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn a_file_that_somebody_cuts_while_it_is_written_is_never_complete() {
    let scratch = scratch();
    let flows = flows(scratch.path());
    let standing = stands(&flows);
    standing.file.write(&[1; 1000], 0).unwrap();
    fs::File::options().write(true).open(scratch.path().join("run")).unwrap().set_len(10).unwrap();
    let failure = standing.file.complete(1000).unwrap_err();
    assert!(failure.kind == FailureKind::Damage && failure.cause.contains("somebody cut it"), "{failure}");
    assert_eq!(fs::metadata(scratch.path().join("run")).unwrap().len(), 10);
}

#[test]
fn a_file_that_loses_its_name_while_it_is_written_is_never_durable_or_complete() {
    type Act = fn(&Path);
    let acts: [(&str, Act); 4] = [
        ("not there any more", |root| fs::remove_file(root.join("d/run")).unwrap()),
        ("not there any more", |root| fs::rename(root.join("d/run"), root.join("away")).unwrap()),
        ("not there any more", |root| fs::rename(root.join("d"), root.join("away")).unwrap()),
        ("somebody replaced it", |root| fs::rename(root.join("other"), root.join("d/run")).unwrap()),
    ];
    for (why, act) in acts {
        let scratch = scratch();
        fs::write(scratch.path().join("other"), [2; 1000]).unwrap();
        let flows = flows(scratch.path());
        let begin = FlowBegin { path: path(b"d/run"), ..begin(0o644) };
        let standing = flows.open(&begin, &|_, _| true).unwrap();
        standing.file.write(&[1; 1000], 0).unwrap();
        marked(&flows, &standing, &[1; 1000]);
        act(scratch.path());
        standing.file.write(&[1; 1000], 1000).unwrap();
        for failure in [standing.file.sync().unwrap_err(), standing.file.complete(2000).unwrap_err()] {
            assert!(failure.kind == FailureKind::Damage && failure.cause.contains(why), "{failure}");
            assert_eq!(failure.path, Some(path(b"d/run")));
        }
    }
}

#[test]
fn a_file_that_its_owner_may_not_write_is_written_all_the_same_and_has_its_mode_in_the_end() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = scratch();
    let mode = || fs::metadata(scratch.path().join("run")).unwrap().permissions().mode() & 0o777;
    for grown in [1u64, 2, 3] {
        // After a kill, and after it was complete: whoever is no root has to be able to open it.
        let flows = flows(scratch.path());
        let standing = flows.open(&begin(0o440), &|_, _| true).unwrap();
        assert_eq!(standing.bytes, grown - 1);
        standing.file.write(b"a", grown - 1).unwrap();
        marked(&flows, &standing, &vec![b'a'; grown as usize]);
        if grown > 1 {
            standing.file.complete(grown).unwrap();
        }
        let expected = if grown > 1 { 0o440 } else { 0o640 };
        assert_eq!(mode(), expected, "{grown}");
    }
}
