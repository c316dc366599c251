//! Tests of frames in files.

use super::left::LOOK_AGAIN;
use super::*;
use thalweg_wire::Digest;

fn frame(sequence: u64, bytes: &[u8]) -> Frame {
    Frame {
        producer: "cam".into(),
        sequence,
        set: Some((4, sequence as u32)),
        time_ns: 7,
        deadline_ns: None,
        latency_ns: None,
        dtype: "|u1".into(),
        shape: vec![bytes.len() as u64],
        metadata: b"\x00\xff".to_vec(),
        payload: bytes.to_vec().into(),
        digest: Digest(*blake3::hash(bytes).as_bytes()),
    }
}

#[test]
fn frames_come_out_of_files_as_they_went_in_and_no_file_has_its_name_too_early() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = FrameFiles::new(directory.path(), "frames", 2).unwrap();
    for sequence in 0..3 {
        files.frame(&frame(sequence, &[sequence as u8; 5])).unwrap();
    }
    let names = || -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["frames-000000.jsonl", "frames-000000.raw"]);
    files.close().unwrap();
    assert_eq!(FrameFiles::new(directory.path(), "frames", 0).unwrap().number, 2);
    let mut seen = Vec::new();
    for number in 0..2 {
        let index = directory.path().join(format!("frames-00000{number}.jsonl"));
        by_index(&index, &mut |frame| {
            seen.push(frame);
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(seen.len(), 3);
    assert_eq!((seen[2].set, &seen[2].payload[..]), (Some((4, 2)), &[2u8; 5][..]));
    assert_eq!((&seen[1].metadata[..], &seen[1].dtype[..]), (&b"\x00\xff"[..], "|u1"));
}

#[test]
fn the_end_of_a_set_ends_its_file_and_is_synced_before_it_is_told_to_be_put_away() {
    let report = SetReport { set: 4, frames: 2, delivered: 2, taken: 2, missing: vec![] };
    let directory = tempfile::tempdir().unwrap();
    let mut files = FrameFiles::new(directory.path(), "frames", 2).unwrap();
    for sequence in 0..2 {
        files.frame(&frame(sequence, &[sequence as u8; 5])).unwrap();
    }
    files.set_over(&report).unwrap();
    // Behind a file that is full, too.
    assert!(!files.is_open() && files.finished() == 2);
    let last = std::fs::read_to_string(directory.path().join("frames-000001.jsonl")).unwrap();
    assert!(last.contains("set_over"), "{last}");
    // Where all are in one the file goes on.
    let mut files = FrameFiles::new(directory.path(), "all", 0).unwrap();
    files.set_over(&report).unwrap();
    assert!(files.open.as_ref().is_some_and(|open| open.is_dirty));
    files.sync().unwrap();
    assert!(files.open.as_ref().is_some_and(|open| !open.is_dirty));
}

/// What is in a directory, hidden or not.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Sequences and payloads that an index names.
fn named(index: &Path) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    by_index(index, &mut |frame| {
        all.push(frame.payload.to_vec());
        Ok(())
    })
    .unwrap();
    all
}

#[test]
fn what_a_killed_writer_left_gets_its_name_as_far_as_it_is_whole_and_nothing_of_it_is_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let left = || {
        let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
        for sequence in 0..3 {
            files.frame(&frame(sequence, &[sequence as u8; 5])).unwrap();
        }
        files.sync().unwrap();
        files
    };
    drop(left());
    // Of the next frame a part, with and without a line that names it; then all of it, and half a line.
    let raw = path(".frames-000000.raw.part");
    let mut torn = std::fs::read(&raw).unwrap();
    torn.extend([3; 4]);
    std::fs::write(&raw, &torn).unwrap();
    let index = path(".frames-000000.jsonl.part");
    let text = std::fs::read_to_string(&index).unwrap();
    let fourth = text.lines().last().unwrap().replace("\"offset\":10", "\"offset\":15");
    std::fs::write(&index, format!("{text}{fourth}\n{fourth}")).unwrap();
    let mut next = FrameFiles::new(directory.path(), "frames", 0).unwrap();
    assert_eq!(next.number, 1, "it does not go on in what it does not know");
    let recovered = next.recover().unwrap();
    let of = |name: &str, frames, torn_bytes| Recovered { name: name.to_owned(), frames, torn_bytes };
    assert_eq!(recovered, [of("frames-000000", 3, 4)]);
    assert_eq!(names(directory.path()), ["frames-000000.jsonl", "frames-000000.raw", "frames-000000.torn"]);
    assert_eq!(named(&path("frames-000000.jsonl")), [vec![0; 5], vec![1; 5], vec![2; 5]]);
    assert_eq!(
        (std::fs::read(path("frames-000000.torn")).unwrap(), next.recover().unwrap()),
        (vec![3; 4], vec![])
    );
    // Killed while names were given: before the first, between the two, and after.
    for given in 0..3 {
        let number = 1 + given;
        drop(left());
        let part = |kind: &str| path(&format!(".frames-{number:06}.{kind}.part"));
        let whole = |kind: &str| path(&format!("frames-{number:06}.{kind}"));
        if given >= 1 {
            std::fs::hard_link(part("jsonl"), whole("jsonl")).unwrap();
        }
        if given >= 2 {
            std::fs::remove_file(part("jsonl")).unwrap();
            std::fs::hard_link(part("raw"), whole("raw")).unwrap();
        }
        let recovered = FrameFiles::new(directory.path(), "frames", 0).unwrap().recover().unwrap();
        assert_eq!(recovered, [of(&format!("frames-{number:06}"), 3, 0)]);
        assert_eq!(named(&whole("jsonl")).len(), 3);
        assert!(names(directory.path()).iter().all(|name| !name.starts_with('.')));
    }
    // One that wrote nothing leaves nothing, and one without an index what it wrote.
    FrameFiles::new(directory.path(), "frames", 0).unwrap().open().unwrap();
    assert_eq!(FrameFiles::new(directory.path(), "frames", 0).unwrap().recover().unwrap(), []);
    std::fs::write(path(".frames-000004.raw.part"), b"what is it").unwrap();
    let recovered = FrameFiles::new(directory.path(), "frames", 0).unwrap().recover().unwrap();
    assert_eq!(recovered, [of("frames-000004", 0, 10)]);
    assert_eq!(std::fs::read(path("frames-000004.torn")).unwrap(), b"what is it");
    assert_eq!(FrameFiles::new(directory.path(), "frames", 0).unwrap().number, 5);
}

#[test]
fn frames_whose_sync_failed_are_not_told_as_durable_by_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
    files.frame(&frame(0, &[0; 5])).unwrap();
    files.flush().unwrap();
    // A pipe knows no sync.
    let (_end, pipe) = std::io::pipe().unwrap();
    let pipe = BufWriter::new(File::from(std::os::fd::OwnedFd::from(pipe)));
    let raw = std::mem::replace(&mut files.open.as_mut().unwrap().raw, pipe);
    let failure = files.sync().unwrap_err();
    // A kernel tells a failed sync once: the next one has nothing to say.
    files.open.as_mut().unwrap().raw = raw;
    assert_eq!(files.sync().unwrap_err(), failure);
    assert_eq!(files.close().unwrap_err(), failure);
    assert!(names(directory.path()).iter().all(|name| name.starts_with('.')));
}

#[test]
fn frames_that_could_not_be_given_their_name_are_not_told_as_named_by_the_next_close() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
    files.frame(&frame(0, &[0; 5])).unwrap();
    std::fs::write(directory.path().join("frames-000000.jsonl"), "of somebody else").unwrap();
    let failure = files.close().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Conflict);
    assert_eq!(files.close().unwrap_err(), failure);
    assert_eq!(files.sync().unwrap_err(), failure);
}

#[test]
fn two_writers_do_not_write_the_same_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
    let mut other = FrameFiles::new(directory.path(), "frames", 0).unwrap();
    files.frame(&frame(0, b"first")).unwrap();
    assert_eq!(other.frame(&frame(1, b"second")).unwrap_err().kind, FailureKind::Conflict);
    let mut third = FrameFiles::new(directory.path(), "frames", 0).unwrap();
    assert_eq!(third.recover().unwrap_err().kind, FailureKind::Busy);
    // Who waited, and saw it come to its end, finds nothing that was left.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| third.recover());
        std::thread::sleep(LOOK_AGAIN);
        files.close().unwrap();
        assert_eq!(waits.join().unwrap().unwrap(), []);
    });
    assert_eq!(named(&directory.path().join("frames-000000.jsonl")), [b"first"]);
}

#[test]
fn a_frame_that_comes_again_is_not_written_again_and_another_of_its_number_is() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = FrameFiles::new(directory.path(), "frames", 2).unwrap();
    for sequence in 0..5 {
        files.frame(&frame(sequence, &[sequence as u8; 5])).unwrap();
    }
    files.close().unwrap();
    // Wherever the hub goes on.
    for first in [2, 3, 5] {
        let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
        files.expect_again();
        for sequence in first..7 {
            let stands = files.stands(&frame(sequence, &[sequence as u8; 5])).unwrap();
            assert_eq!(stands, sequence < 5, "{sequence}");
        }
    }
    let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
    files.expect_again();
    files.frame(&frame(3, b"3333")).unwrap();
    files.frame(&frame(4, &[4; 5])).unwrap();
    assert_eq!(files.stood(), 0, "a producer that begins anew");
    files.close().unwrap();
    assert_eq!(named(&directory.path().join("frames-000003.jsonl")), [&b"3333"[..], &[4; 5]]);
}

/// A pull of the same name may have written many thousands of files.
#[test]
fn a_frame_that_cannot_stand_in_a_file_does_not_wait_for_its_index_to_be_read() {
    const FILES: u64 = 20;
    let directory = tempfile::tempdir().unwrap();
    let mut files = FrameFiles::new(directory.path(), "frames", 1).unwrap();
    for sequence in 0..FILES {
        files.frame(&frame(sequence, &[sequence as u8; 5])).unwrap();
    }
    let now = std::time::SystemTime::now();
    let hours_ago = |hours: u64| now - std::time::Duration::from_secs(3600 * hours);
    for number in 0..FILES {
        let index = File::options().append(true).open(files.path(number, "jsonl")).unwrap();
        index.set_modified(hours_ago(10 * (FILES - number))).unwrap();
    }
    let made_at =
        |time: std::time::SystemTime| time.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let of = |producer: &str, sequence: u64, time_ns: u64| Frame {
        producer: producer.into(),
        time_ns,
        ..frame(sequence, &[sequence as u8; 5])
    };
    let after_three = made_at(hours_ago(10 * (FILES - 3) + 5));
    // Of each: how many indexes are read, and whether it stands.
    for (story, came, reads, stands) in [
        ("of a new producer, just made", of("new", 0, made_at(now)), 0, false),
        ("made after three of the files", of("new", 0, after_three), FILES - 3, false),
        ("of a clock that is ahead", of("new", 0, u64::MAX), FILES, false),
        ("the next one, of a clock that knows no time", of("cam", FILES, 7), 1, false),
        ("the last but one again", of("cam", FILES - 2, 7), 2, true),
    ] {
        let mut files = FrameFiles::new(directory.path(), "frames", 1).unwrap();
        files.expect_again();
        assert_eq!(files.stands(&came).unwrap(), stands, "{story}");
        let unread = files.standing.as_ref().unwrap().unread();
        assert_eq!(FILES - unread, reads, "{story}");
    }
}

#[test]
fn a_deadline_goes_through_an_index_and_one_without_any_is_still_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
    files.frame(&Frame { deadline_ns: Some(5), ..frame(0, b"soon") }).unwrap();
    files.frame(&frame(1, b"whenever")).unwrap();
    files.close().unwrap();
    let index = directory.path().join("frames-000000.jsonl");
    let deadlines = || {
        let mut all = Vec::new();
        by_index(&index, &mut |frame| {
            all.push(frame.deadline_ns);
            Ok(())
        })
        .unwrap();
        all
    };
    assert_eq!(deadlines(), [Some(5), None]);
    let text = std::fs::read_to_string(&index).unwrap();
    std::fs::write(&index, text.replace("\"deadline_ns\":5,", "").replace("\"deadline_ns\":null,", ""))
        .unwrap();
    assert_eq!(deadlines(), [None, None]);
}

#[test]
fn a_frame_that_rotted_in_its_file_is_damage_and_an_index_does_not_lead_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
    files.frame(&frame(0, b"sound")).unwrap();
    files.close().unwrap();
    std::fs::write(directory.path().join("frames-000000.raw"), b"wound").unwrap();
    let index = directory.path().join("frames-000000.jsonl");
    let mut nothing = |_| Ok(());
    assert_eq!(by_index(&index, &mut nothing).unwrap_err().kind, FailureKind::Damage);
    let text = std::fs::read_to_string(&index).unwrap();
    for bad in ["../x", "/etc/passwd", "..", ""] {
        std::fs::write(&index, text.replace("frames-000000.raw", bad)).unwrap();
        assert_eq!(by_index(&index, &mut nothing).unwrap_err().kind, FailureKind::Usage);
    }
}

#[test]
fn the_frames_of_files_are_counted_before_they_are_read_where_their_sizes_say_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: usize| {
        let path = directory.path().join(name);
        std::fs::write(&path, vec![7; bytes]).unwrap();
        path
    };
    let (whole, with_rest, empty) = (file("whole", 8), file("rest", 9), file("empty", 0));
    for (path, truth) in [(&whole, 2), (&with_rest, 3)] {
        let mut frames = 0;
        let how = Cut { frame_bytes: 4, ..Cut::default() };
        let rest = cut(&mut File::open(path).unwrap(), &how, &mut |_| {
            frames += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(rest, (truth == 3).then_some(1));
        assert_eq!((frames, count_cut([path.as_path()], 4)), (truth, Some(truth)));
    }
    assert_eq!(count_cut([whole.as_path(), &with_rest], 4), Some(5));
    assert_eq!(count_cut([whole.as_path(), &empty], 4), None);
    assert_eq!(count_cut([whole.as_path(), Path::new("/dev/null")], 4), None);
    assert_eq!(count_cut([whole.as_path(), &directory.path().join("missing")], 4), None);
    assert_eq!(count_cut([whole.as_path()], 0), None);
    // Of an index by its lines, and not by those of what was lost.
    let mut files = FrameFiles::new(directory.path(), "frames", 0).unwrap();
    for sequence in 0..3 {
        files.frame(&frame(sequence, &[sequence as u8; 5])).unwrap();
    }
    let report = SetReport { set: 4, frames: 4, delivered: 3, taken: 3, missing: vec![(3, 4)] };
    files.set_over(&report).unwrap();
    files.close().unwrap();
    let index = directory.path().join("frames-000000.jsonl");
    assert_eq!(count_indexed([index.as_path(), &index]).unwrap(), Some(6));
    assert_eq!(count_indexed([index.as_path(), Path::new("/dev/null")]).unwrap(), None);
    assert_eq!(count_indexed([whole.as_path()]).unwrap_err().kind, FailureKind::Usage);
}

#[test]
fn a_file_is_cut_and_its_rest_is_a_shorter_frame() {
    let mut sizes = Vec::new();
    let how = Cut { frame_bytes: 4, dtype: "<u2".into(), shape: vec![2] };
    let rest = cut(&mut &b"0123456789"[..], &how, &mut |frame| {
        sizes.push((frame.payload.len(), frame.shape.len()));
        Ok(())
    })
    .unwrap();
    assert_eq!(sizes, [(4, 1), (4, 1), (2, 0)]);
    assert_eq!(rest, Some(2));
}

#[test]
fn what_somebody_put_where_a_writer_leaves_its_files_is_neither_followed_nor_waited_for() {
    let scratch = tempfile::tempdir().unwrap();
    let victim = scratch.path().join("victim");
    std::fs::write(&victim, b"precious").unwrap();
    let recover = |directory: &Path| FrameFiles::new(directory, "frames", 0).unwrap().recover();
    let place = |name: &str| {
        let directory = scratch.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        directory
    };
    let link = place("link");
    std::os::unix::fs::symlink(&victim, link.join(".frames-000000.raw.part")).unwrap();
    assert_eq!(recover(&link).unwrap_err().kind, FailureKind::Conflict);
    let pipe = place("pipe");
    let made = std::process::Command::new("mkfifo").arg(pipe.join("frames-000000.jsonl")).status();
    assert!(made.unwrap().success());
    let mut files = FrameFiles::new(&pipe, "frames", 0).unwrap();
    files.expect_again();
    assert!(!files.stands(&frame(0, b"x")).unwrap());
    // Where torn bytes are kept.
    let torn = place("torn");
    std::fs::write(torn.join(".frames-000000.raw.part"), b"torn").unwrap();
    std::os::unix::fs::symlink(&victim, torn.join("frames-000000.torn")).unwrap();
    assert_eq!(recover(&torn).unwrap_err().kind, FailureKind::Conflict);
    assert_eq!(std::fs::read(torn.join(".frames-000000.raw.part")).unwrap(), b"torn", "it is still there");
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    // Kept already, and killed before it was cut off: once is enough.
    std::fs::remove_file(torn.join("frames-000000.torn")).unwrap();
    std::fs::write(torn.join("frames-000000.torn"), b"torn").unwrap();
    assert_eq!(recover(&torn).unwrap()[0].torn_bytes, 4);
    assert_eq!(names(&torn), ["frames-000000.torn"]);
}

#[test]
fn where_there_are_no_second_names_a_file_is_renamed_and_replaces_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let (part, name) = (scratch.path().join("part"), scratch.path().join("name"));
    std::fs::write(&part, "new").unwrap();
    std::fs::write(&name, "old").unwrap();
    let refused = rename_to_free(&part, &name).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&name).unwrap(), b"old");
    std::fs::remove_file(&name).unwrap();
    rename_to_free(&part, &name).unwrap();
    assert!(!part.exists() && std::fs::read(&name).unwrap() == b"new");
}
