//! What an earlier attempt left: gone on with, ended, or begun anew.

use super::*;
use crate::destination::leftover::leftovers_of;

#[test]
fn what_was_noted_is_gone_on_with_and_nothing_else() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let bytes = noise(4 * CHUNK as usize + 77, 1);
    let entry = file(1, "a", bytes.len());
    let half_way = || {
        let to = open(&bucket, Some(state.path()));
        assert_fresh(&to, &entry);
        let partial = to.begin(&entry).unwrap();
        write(&to, &partial, &bytes, &[0, 2]).unwrap();
        // Nobody noted this one.
        partial.write_at(&bytes[3 * CHUNK as usize..4 * CHUNK as usize], 3 * CHUNK).unwrap();
        to.close(false);
        assert!(to.note().unwrap().contains("1 unfinished upload is kept"), "{:?}", to.note());
    };
    half_way();
    let to = open(&bucket, Some(state.path()));
    let Decision::Wanted { left: Some(left), candidate: None } = decide(&to, &entry) else {
        panic!("nothing is left")
    };
    assert_eq!(left.present.iter().map(|(chunk, _)| *chunk).collect::<Vec<_>>(), [0, 2]);
    let before = bucket.count("part");
    write(&to, &left.partial, &bytes, &[1, 3, 4]).unwrap();
    name(&to, &entry, Ready::Partial(left.partial), &bytes).unwrap();
    assert_eq!(bucket.count("part") - before, 3);
    assert!(content(&bucket, "to/a").unwrap() == bytes);
    to.close(true);
    assert!(bucket.hidden().is_empty() && to.note().is_none());
    // Of another file it is thrown away.
    bucket.forget("to/a");
    half_way();
    let to = open(&bucket, Some(state.path()));
    let mut other = entry.clone();
    other.evidence.inode += 1;
    assert_fresh(&to, &other);
    assert!(bucket.hidden().is_empty());
    to.close(true);
    // A transfer that keeps no state leaves nothing either.
    let to = open(&bucket, None);
    assert_fresh(&to, &entry);
    let partial = to.begin(&entry).unwrap();
    write(&to, &partial, &bytes, &[0]).unwrap();
    to.close(false);
    assert!(bucket.hidden().is_empty());
}

#[test]
fn what_was_noted_is_gone_on_with_after_the_source_was_booted() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let bytes = noise(2 * CHUNK as usize, 1);
    let mut entry = file(1, "a", bytes.len());
    let to = open(&bucket, Some(state.path()));
    assert_fresh(&to, &entry);
    let partial = to.begin(&entry).unwrap();
    write(&to, &partial, &bytes, &[0]).unwrap();
    to.close(false);
    // Its devices have other numbers since.
    entry.evidence.device += 1;
    let to = open(&bucket, Some(state.path()));
    let Decision::Wanted { left: Some(left), .. } = decide(&to, &entry) else { panic!("nothing is left") };
    assert_eq!(left.present.iter().map(|(chunk, _)| *chunk).collect::<Vec<_>>(), [0]);
    write(&to, &left.partial, &bytes, &[1]).unwrap();
    name(&to, &entry, Ready::Partial(left.partial), &bytes).unwrap();
    assert!(content(&bucket, "to/a").unwrap() == bytes);
    to.close(true);
}

#[test]
fn one_transfer_at_a_time_has_the_uploads_of_a_job_and_what_all_left_can_be_ended() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let bytes = noise(2 * CHUNK as usize, 1);
    let to = open(&bucket, Some(state.path()));
    let again = open_as(&bucket, terms(), Some(state.path()), DestinationOptions::default());
    assert_eq!(again.err().unwrap().reason, Reason::DestinationTaken);
    let entry = file(1, "a", bytes.len());
    assert_fresh(&to, &entry);
    let partial = to.begin(&entry).unwrap();
    write(&to, &partial, &bytes, &[0]).unwrap();
    // Not while it runs.
    leftovers_of("s3://memory", state.path(), &mut |running| {
        let left = running.uploads();
        assert!(running.are_in_use() && left.len() == 1);
        assert_eq!(running.end_in(&*bucket, &left[0]).unwrap_err().kind, FailureKind::Busy);
    })
    .unwrap();
    assert_eq!(bucket.hidden(), [1]);
    to.close(false);
    leftovers_of("s3://another", state.path(), &mut |_| panic!("it is of another bucket")).unwrap();
    let notes = || std::fs::read_dir(state.path()).unwrap().flatten();
    let notes = || notes().filter(|name| name.path().extension().is_some_and(|end| end == "uploads")).count();
    let mut jobs = 0;
    leftovers_of("s3://memory", state.path(), &mut |job| {
        jobs += 1;
        let left = job.uploads();
        assert_eq!((left.len(), left[0].key.as_str(), left[0].bytes), (1, "to/a", CHUNK));
        assert!(!job.are_in_use() && job.noted_at().is_some());
        // Nobody goes on with what is about to be ended.
        let begins = open_as(&bucket, terms(), Some(state.path()), DestinationOptions::default());
        assert_eq!(begins.err().unwrap().kind, FailureKind::Busy);
        assert_eq!((bucket.hidden().len(), notes()), (1, 1));
        job.end_in(&*bucket, &left[0]).unwrap();
    })
    .unwrap();
    assert_eq!((jobs, bucket.hidden().len(), notes()), (1, 0, 0));
}

#[test]
fn of_uploads_of_a_job_those_that_are_not_ended_stay_noted_and_their_note_keeps_its_time() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let bytes = noise(2 * CHUNK as usize, 1);
    let to = open(&bucket, Some(state.path()));
    for (id, name) in [(1, "a"), (2, "b")] {
        let entry = file(id, name, bytes.len());
        assert_fresh(&to, &entry);
        let partial = to.begin(&entry).unwrap();
        write(&to, &partial, &bytes, &[0]).unwrap();
    }
    to.close(false);
    let look = |ends: bool| {
        let mut seen = Vec::new();
        leftovers_of("s3://memory", state.path(), &mut |job| {
            seen.push((job.uploads().into_iter().map(|left| left.key).collect::<Vec<_>>(), job.noted_at()));
            for left in job.uploads().iter().filter(|left| ends && left.key == "to/a") {
                job.end_in(&*bucket, left).unwrap();
            }
        })
        .unwrap();
        seen
    };
    let before = look(false);
    assert_eq!(before, look(true));
    assert_eq!(before[0].0, ["to/a", "to/b"]);
    assert_eq!(bucket.hidden(), [1]);
    // The next attempt goes on with the other.
    let to = open(&bucket, Some(state.path()));
    let entry = file(2, "b", bytes.len());
    assert!(matches!(decide(&to, &entry), Decision::Wanted { left: Some(_), .. }));
    to.close(false);
    assert_eq!(look(false)[0].0, ["to/b"]);
}

#[test]
fn a_transfer_that_begins_while_what_was_left_is_ended_waits_and_notes_where_it_is_found() {
    let (memory, scratch) = (Memory::new(), tempfile::tempdir().unwrap());
    let (bucket, state) = (&memory, scratch.path());
    let bytes = noise(2 * CHUNK as usize, 1);
    let leave = |to: &ObjectDestination, name: &str| {
        let entry = file(1, name, bytes.len());
        assert_fresh(to, &entry);
        let partial = to.begin(&entry).unwrap();
        write(to, &partial, &bytes, &[0]).unwrap();
        to.close(false);
    };
    leave(&open(bucket, Some(state)), "a");
    std::thread::scope(|scope| {
        let mut begins = None;
        leftovers_of("s3://memory", state, &mut |job| {
            begins = Some(scope.spawn(move || open(bucket, Some(state))));
            job.uploads().iter().for_each(|left| job.end_in(&**bucket, left).unwrap());
        })
        .unwrap();
        leave(&begins.unwrap().join().unwrap(), "b");
    });
    let mut keys = Vec::new();
    leftovers_of("s3://memory", state, &mut |job| {
        keys.extend(job.uploads().into_iter().map(|left| left.key));
    })
    .unwrap();
    assert_eq!((keys, bucket.hidden()), (vec!["to/b".to_owned()], vec![1]));
}

#[test]
fn who_stops_waits_for_no_part_and_what_was_noted_stays() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let bytes = noise(2 * CHUNK as usize, 1);
    let entry = file(1, "a", bytes.len());
    let to = open(&bucket, Some(state.path()));
    assert_fresh(&to, &entry);
    let partial = to.begin(&entry).unwrap();
    write(&to, &partial, &bytes, &[0]).unwrap();
    bucket.hold(true);
    bucket.is_given_up.store(true, Ordering::Relaxed);
    assert_eq!(write(&to, &partial, &bytes, &[1]).unwrap_err().kind, FailureKind::Stopped);
    let stopped = name(&to, &entry, Ready::Partial(partial), &bytes).unwrap_err();
    assert_eq!(stopped.kind, FailureKind::Stopped);
    bucket.hold(false);
    to.close(false);
    bucket.is_given_up.store(false, Ordering::Relaxed);
    let to = open(&bucket, Some(state.path()));
    let Decision::Wanted { left: Some(left), .. } = decide(&to, &entry) else { panic!("nothing is left") };
    assert_eq!(left.present.iter().map(|(chunk, _)| *chunk).collect::<Vec<_>>(), [0]);
    to.close(false);
}

#[test]
fn an_upload_that_cannot_be_gone_on_with_is_begun_anew() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let bytes = noise(2 * CHUNK as usize, 1);
    let entry = file(1, "a", bytes.len());
    for kind in [FailureKind::Protocol, FailureKind::Permission] {
        let to = open(&bucket, Some(state.path()));
        assert_fresh(&to, &entry);
        let partial = to.begin(&entry).unwrap();
        write(&to, &partial, &bytes, &[0]).unwrap();
        to.close(false);
        let to = open(&bucket, Some(state.path()));
        *lock(&bucket.refuses) = Some(kind);
        assert_fresh(&to, &entry);
        *lock(&bucket.refuses) = None;
        assert!(bucket.hidden().is_empty());
        to.close(false);
    }
}

#[test]
fn who_begins_an_upload_does_not_wait_for_the_end_of_an_older_one() {
    let (bucket, state) = (Memory::new(), tempfile::tempdir().unwrap());
    let bytes = noise(2 * CHUNK as usize, 1);
    let entry = file(1, "a", bytes.len());
    let to = open(&bucket, Some(state.path()));
    assert_fresh(&to, &entry);
    let partial = to.begin(&entry).unwrap();
    write(&to, &partial, &bytes, &[0]).unwrap();
    to.close(false);
    let to = open(&bucket, Some(state.path()));
    // Nobody waits for this decision: what was left stays.
    let _ = to.decide(&entry, &|_, _| false);
    bucket.hold(true);
    let partial = to.begin(&entry).unwrap();
    bucket.hold(false);
    write(&to, &partial, &bytes, &[0, 1]).unwrap();
    name(&to, &entry, Ready::Partial(partial), &bytes).unwrap();
    to.close(true);
    assert!(bucket.hidden().is_empty() && to.note().is_none());
}
