use super::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::Sender;
use thalweg_sys::errno;

/// Passes on what it hears of syncs.
struct Hub {
    synced: Mutex<Sender<u64>>,
    /// Whether a write may fail.
    may_fail: bool,
}

impl Heard for Hub {
    fn written(&self, _: u64, _: Location, _: &Record) {}

    fn synced(&self, position: u64) {
        let _ = self.synced.lock().unwrap().send(position);
    }

    fn wants_sync(&self) -> bool {
        true
    }

    fn trouble(&self, why: &Failure) {
        assert!(self.may_fail, "{why}");
    }

    fn broken(&self, why: Failure) {
        panic!("{why}");
    }
}

/// An empty log, `scan.frames` in its directory.
fn opened() -> (tempfile::TempDir, Arc<Store>) {
    let scratch = tempfile::tempdir().unwrap();
    let place = StorePlace::of(Dir::open(scratch.path()).unwrap(), b"scan".to_vec());
    let store = Arc::new(Store::open(&place).unwrap());
    (scratch, store)
}

fn hub(may_fail: bool) -> (Arc<dyn Heard>, Receiver<u64>) {
    let (tells, synced) = mpsc::channel();
    (Arc::new(Hub { synced: Mutex::new(tells), may_fail }), synced)
}

/// Has written nothing yet.
fn begun(store: Arc<Store>, heard: &Arc<dyn Heard>) -> Writer {
    Writer {
        store,
        file_bytes: 1 << 20,
        heard: Arc::downgrade(heard),
        next: 0,
        now: None,
        dirty: 0,
        unseen: 0,
        position: 0,
        waiting: VecDeque::new(),
        is_over: false,
    }
}

#[test]
fn what_is_durable_does_not_go_back_where_an_older_record_is_written_later() {
    let (_scratch, store) = opened();
    let (hub, synced) = hub(false);
    let (jobs, thread) = store.start(1 << 20, Arc::downgrade(&hub)).unwrap();
    for (position, wanted) in [(5, 6), (2, 6), (6, 7)] {
        jobs.send(Job::Write(position, Record::Note(Item::End))).unwrap();
        assert_eq!(synced.recv().unwrap(), wanted);
    }
    jobs.send(Job::Stop).unwrap();
    thread.join().unwrap();
}

/// The room that lacks may be that of the file.
#[test]
fn a_file_that_nobody_needs_is_removed_while_a_record_cannot_be_written() {
    let (scratch, store) = opened();
    let (hub, synced) = hub(true);
    // Each record has a file of its own.
    let (jobs, thread) = store.start(1, Arc::downgrade(&hub)).unwrap();
    let patience = Duration::from_secs(20);
    jobs.send(Job::Write(0, Record::Note(Item::End))).unwrap();
    assert_eq!(synced.recv_timeout(patience), Ok(1));
    let file = |number: u64| scratch.path().join("scan.frames").join(format!("{number:016x}{FILE_SUFFIX}"));
    // No file has this name as long as a directory has it.
    std::fs::create_dir(file(1)).unwrap();
    for position in 1..3 {
        jobs.send(Job::Write(position, Record::Note(Item::End))).unwrap();
    }
    jobs.send(Job::Forget(0)).unwrap();
    let since = Instant::now();
    while file(0).exists() {
        assert!(since.elapsed() < patience, "it stays as long as the record cannot be written");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::remove_dir(file(1)).unwrap();
    // In their order: of those that waited the first one too.
    assert_eq!(synced.recv_timeout(patience), Ok(2));
    assert_eq!(synced.recv_timeout(patience), Ok(3));
    jobs.send(Job::Stop).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_hub_that_ends_while_nothing_can_be_written_has_synced_what_was_and_its_log_is_not_broken() {
    let (scratch, store) = opened();
    let (hub, synced) = hub(true);
    std::fs::write(scratch.path().join("scan.frames/0000000000000000.spill"), [0; 10]).unwrap();
    // One record is in it, and nothing can be appended.
    let file = Arc::new(store.dir.open_read(&file_name(0)).unwrap());
    let begun = begun(store.clone(), &hub);
    let writer = Writer { next: 1, now: Some((0, file, 10)), dirty: 10, position: 1, ..begun };
    let (jobs, queue) = mpsc::channel();
    jobs.send(Job::Write(1, Record::Note(Item::End))).unwrap();
    store.stop();
    writer.run(&queue);
    assert_eq!(synced.try_iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn a_last_sync_that_fails_is_told_with_the_path_of_the_log() {
    #[derive(Default)]
    struct Troubled(Mutex<Vec<Failure>>);

    impl Heard for Troubled {
        fn written(&self, _: u64, _: Location, _: &Record) {}

        fn synced(&self, position: u64) {
            panic!("{position} is not durable");
        }

        fn wants_sync(&self) -> bool {
            false
        }

        fn trouble(&self, why: &Failure) {
            self.0.lock().unwrap().push(why.clone());
        }

        fn broken(&self, why: Failure) {
            panic!("{why}");
        }
    }

    let (scratch, store) = opened();
    let troubled = Arc::new(Troubled::default());
    let heard: Arc<dyn Heard> = troubled.clone();
    let mut writer = begun(store, &heard);
    let (jobs, queue) = mpsc::channel();
    writer.write(0, &Record::Note(Item::End), &queue).unwrap();
    std::fs::remove_dir_all(scratch.path().join("scan.frames")).unwrap();
    jobs.send(Job::Stop).unwrap();
    writer.run(&queue);
    let told = troubled.0.lock().unwrap();
    let [why] = &told[..] else { panic!("{told:?}") };
    assert!(why.cause.contains("somebody removed it"), "{why}");
    assert!(why.path.as_ref().is_some_and(|path| path.as_bytes().starts_with(b"scan.frames/")), "{why}");
}

#[test]
fn what_is_synced_in_a_log_that_lost_its_name_is_not_told_to_be_durable() {
    type Act = fn(&Path);
    let acts: [Act; 3] = [
        |log| std::fs::remove_dir_all(log).unwrap(),
        |log| {
            std::fs::rename(log, log.with_extension("away")).unwrap();
            std::fs::create_dir(log).unwrap();
        },
        |log| std::fs::remove_file(log.join("0000000000000000.spill")).unwrap(),
    ];
    for act in acts {
        let (scratch, store) = opened();
        let (hub, synced) = hub(false);
        let mut writer = begun(store, &hub);
        let (_jobs, queue) = mpsc::channel();
        writer.write(0, &Record::Note(Item::End), &queue).unwrap();
        writer.sync().unwrap();
        assert_eq!(synced.try_recv(), Ok(1));
        let log = scratch.path().join("scan.frames");
        act(&log);
        writer.write(1, &Record::Note(Item::End), &queue).unwrap();
        let failure = writer.sync().unwrap_err();
        assert!(
            failure.kind == FailureKind::Damage && failure.cause.contains("somebody removed it"),
            "{failure}"
        );
        assert!(synced.try_recv().is_err());
        if !log.exists() {
            // Nor is a next file waited for.
            writer.now = None;
            let failure = writer.write(2, &Record::Note(Item::End), &queue).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Damage);
        }
    }
}

#[test]
fn what_the_last_hub_wrote_last_is_read_from_the_medium_and_not_from_the_page_cache() {
    const TORN_BYTES: u64 = 32 << 20;
    // /dev/shm and /tmp may have no medium; the working directory usually has one.
    let scratch = tempfile::tempdir_in(".").unwrap();
    let place = StorePlace::of(Dir::open(scratch.path()).unwrap(), b"scan".to_vec());
    let store = Arc::new(Store::open(&place).unwrap());
    let (hub, _synced) = hub(false);
    let mut writer = begun(store.clone(), &hub);
    let at = writer.try_write(0, &Record::Note(Item::End)).unwrap().unwrap();
    let file = store.files()[&at.file].clone();
    file.write_all_at(&vec![7; TORN_BYTES as usize], at.bytes).unwrap();
    let cached = || file.cached_bytes(0, TORN_BYTES).ok();
    file.sync_all().unwrap();
    let _ = file.advise(Advice::DontNeed, 0, 0);
    if cached() != Some(0) {
        eprintln!("skipped: what is cached is not told here, or cannot be dropped");
        return;
    }
    file.write_all_at(&vec![8; TORN_BYTES as usize], at.bytes).unwrap();
    let mut found = Vec::new();
    // When the first record is told, of what is behind it only what the kernel reads ahead was read again.
    store.recover(true, &mut |record, _| found.push((record.position, cached()))).unwrap();
    assert!(matches!(found[..], [(0, Some(bytes))] if bytes < TORN_BYTES), "{found:?}");
}

#[test]
fn a_file_of_a_log_that_cannot_be_read_is_named_with_what_to_do() {
    let (_scratch, store) = opened();
    let failure = store.unread(&file_name(7), &io::Error::from_raw_os_error(errno::IO));
    assert_eq!(failure.reason, Reason::DiskFailed);
    assert!(failure.cause.contains("move this file away"), "{failure}");
    let path = failure.path.as_ref().unwrap().as_bytes();
    assert_eq!(path, b"scan.frames/0000000000000007.spill");
    // What was removed is missing, not failing.
    let failure = store.unread(&file_name(7), &io::Error::from_raw_os_error(errno::NO_ENTRY));
    assert!(!failure.cause.contains("move"), "{failure}");
}

/// A directory is none of its files, and is not read as one.
#[test]
fn a_log_that_cannot_be_recovered_says_of_which_file() {
    let (scratch, store) = opened();
    std::fs::create_dir(scratch.path().join("scan.frames/0000000000000007.spill")).unwrap();
    let failure = store.recover(true, &mut |_, _| {}).unwrap_err();
    let path = failure.path.as_ref().unwrap().as_bytes();
    assert_eq!(path, b"scan.frames/0000000000000007.spill");
}

#[test]
fn no_log_is_in_a_staging_directory() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir(scratch.path().join(".thalweg-staging")).unwrap();
    for path in [&b".thalweg-staging/scan"[..], b".thalweg-staging", b".thalweg-staging-7/deep/scan"] {
        let place = StorePlace::of(Dir::open(scratch.path()).unwrap(), path.to_vec());
        assert_eq!(Store::open(&place).err().unwrap().kind, FailureKind::Conflict);
    }
    assert_eq!(std::fs::read_dir(scratch.path().join(".thalweg-staging")).unwrap().count(), 0);
}

/// Producers wait for the next file, and whoever removes something gives them room.
#[test]
fn no_file_of_a_log_is_begun_where_too_little_stays_free() {
    let (scratch, _) = opened();
    for (min_free, is_begun) in [(MinFree::Bytes(u64::MAX), false), (MinFree::Bytes(0), true)] {
        let place = StorePlace::of(Dir::open(scratch.path()).unwrap(), b"kept".to_vec());
        let store = Arc::new(Store::open(&StorePlace { min_free: Some(min_free), ..place }).unwrap());
        let (hub, _synced) = hub(true);
        let mut writer = begun(store, &hub);
        let written = writer.try_write(0, &Record::Note(Item::End)).unwrap();
        let refused = written.err().map(|error| error.kind());
        assert_eq!(refused, (!is_begun).then_some(io::ErrorKind::StorageFull));
        assert_eq!(scratch.path().join("kept.frames/0000000000000000.spill").exists(), is_begun);
    }
}

#[test]
fn a_file_of_a_log_does_not_go_on_into_room_that_is_kept_free_and_that_others_took() {
    let (scratch, _) = opened();
    let place = StorePlace::of(Dir::open(scratch.path()).unwrap(), b"kept".to_vec());
    let min_free = Some(MinFree::Bytes(u64::MAX));
    let store = Arc::new(Store::open(&StorePlace { min_free, ..place }).unwrap());
    let (hub, _synced) = hub(true);
    // Begun when there was room.
    let file = Arc::new(store.dir.create_new(&file_name(0), 0o600).unwrap());
    let begun = begun(store, &hub);
    let mut writer = Writer { next: 1, now: Some((0, file, 0)), ..begun };
    let note = Record::Note(Item::End);
    let written = writer.try_write(0, &note).unwrap().expect("it looks now and then");
    writer.unseen = LOOK_BYTES;
    for _ in 0..2 {
        let refused = writer.try_write(1, &note).unwrap().err();
        assert_eq!(refused.map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
    }
    let path = scratch.path().join("kept.frames/0000000000000000.spill");
    assert_eq!(std::fs::metadata(path).unwrap().len(), written.bytes);
}

#[test]
fn what_is_cut_off_a_log_is_kept_where_whole_records_are_in_it() {
    for is_damaged in [false, true] {
        let (scratch, store) = opened();
        let (hub, _synced) = hub(false);
        let mut writer = begun(store.clone(), &hub);
        let mut write = |position| writer.try_write(position, &Record::Note(Item::End)).unwrap().unwrap();
        let [_, second, third] = [0, 1, 2].map(&mut write);
        let file = store.files()[&second.file].clone();
        let size = third.offset + third.bytes;
        // A kill leaves the last one half written; what damages one leaves those behind it.
        match is_damaged {
            true => file.write_all_at(&[0xff; 8], second.offset).unwrap(),
            false => file.truncate(size - 1).unwrap(),
        }
        let mut found = Vec::new();
        store.recover(true, &mut |record, _| found.push(record.position)).unwrap();
        let end = if is_damaged { second.offset } else { third.offset };
        assert_eq!(file.stat().unwrap().size, end);
        let kept = std::fs::read(
            scratch.path().join("scan.frames").join(OsStr::from_bytes(&torn_name(second.file, end))),
        );
        match is_damaged {
            true => assert_eq!((&found[..], kept.unwrap().len() as u64), (&[0][..], size - end)),
            false => assert_eq!((&found[..], kept.is_err()), (&[0, 1][..], true)),
        }
    }
}

#[test]
fn where_what_is_torn_of_a_log_cannot_be_kept_nothing_is_cut_off_and_who_asks_hears_what_to_do() {
    let (scratch, store) = opened();
    let (hub, _synced) = hub(false);
    let mut writer = begun(store.clone(), &hub);
    let mut write = |position| writer.try_write(position, &Record::Note(Item::End)).unwrap().unwrap();
    let [_, second, third] = [0, 1, 2].map(&mut write);
    let file = store.files()[&second.file].clone();
    file.write_all_at(&[0xff; 8], second.offset).unwrap();
    let torn = torn_name(second.file, second.offset);
    // No file takes its place.
    std::fs::create_dir(scratch.path().join("scan.frames").join(OsStr::from_bytes(&torn))).unwrap();
    let told = store.recover(true, &mut |_, _| {}).unwrap_err().to_string();
    let size = third.offset + third.bytes;
    assert_eq!(file.stat().unwrap().size, size);
    let rest = size - second.offset;
    let hint = format!("take {rest} bytes more: make room for them, or move this file away");
    assert!(told.contains("on `scan.frames/0000000000000000.spill`: "), "{told}");
    assert!(told.contains(&hint), "{told}");
    let full = store.unkept(&file_name(second.file), rest, &io::Error::from(io::ErrorKind::StorageFull));
    assert!(full.kind == FailureKind::Space && full.to_string().contains(&hint), "{full}");
}

#[test]
fn a_log_that_nobody_can_look_at_is_not_one_that_is_not_there() {
    let scratch = tempfile::tempdir().unwrap();
    let recorded = |path: &str| {
        let place = StorePlace::of(Dir::open(scratch.path()).unwrap(), path.into());
        Store::is_recorded_at(&place).map_err(|failure| failure.kind)
    };
    let log = scratch.path().join("scan.frames");
    assert_eq!(recorded("scan"), Ok(false));
    assert_eq!(recorded("absent/scan"), Ok(false));
    assert_eq!(recorded(&"n".repeat(250)), Ok(false), "in memory it may have such a name");
    std::fs::create_dir(&log).unwrap();
    std::os::unix::fs::symlink(&log, scratch.path().join("link.frames")).unwrap();
    assert_eq!((recorded("scan"), recorded("link")), (Ok(false), Ok(false)));
    std::fs::write(log.join("recorded"), "7").unwrap();
    assert_eq!((recorded("scan"), recorded("link")), (Ok(true), Ok(false)));
    std::fs::set_permissions(&log, std::fs::Permissions::from_mode(0o0)).unwrap();
    match log.join("recorded").metadata() {
        Ok(_) => eprintln!("skipped in part: root may look at everything"),
        Err(_) => assert_eq!(recorded("scan"), Err(FailureKind::Permission)),
    }
    std::fs::set_permissions(&log, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn deserted_logs_go_at_all_levels_and_nothing_that_is_recorded_held_or_not_of_a_hub() {
    let scratch = tempfile::tempdir().unwrap();
    let top = Dir::open(scratch.path()).unwrap();
    let made = |path: &str, mode: u32, files: &[&str]| {
        let log = scratch.path().join(path);
        std::fs::create_dir_all(&log).unwrap();
        let here = log_signature();
        files.iter().for_each(|file| {
            let content: &[u8] = if *file == "lock" && path != "other.frames" { &here } else { &[] };
            std::fs::write(log.join(file), content).unwrap();
        });
        std::fs::set_permissions(&log, std::fs::Permissions::from_mode(mode)).unwrap();
        log
    };
    let spill = "0000000000000000.spill";
    let gone = [
        made("a.frames", 0o700, &["lock", spill]),
        made("deep/er/b.frames", 0o700, &["lock", "recorded.new"]),
    ];
    let stays = [
        made("recorded.frames", 0o700, &["lock", spill, "recorded"]),
        made("deep/film.frames", 0o700, &["lock", "film.mp4"]),
        made("deep/open.frames", 0o755, &["lock"]),
        made("none.frames", 0o700, &[]),
        // Of another machine, or of one of which it is not known.
        made("other.frames", 0o700, &["lock", spill]),
        made(".thalweg-staging/c.frames", 0o700, &["lock"]),
    ];
    std::os::unix::fs::symlink("elsewhere", scratch.path().join("deep/link")).unwrap();
    let held = Store::open(&StorePlace::of(top.try_clone().unwrap(), b"held".to_vec())).unwrap();
    assert_eq!(remove_deserted_below(&top, &mut || false), Ok(false));
    gone.iter().for_each(|log| assert!(log.exists(), "there was no time for {}", log.display()));
    assert_eq!(remove_deserted_below(&top, &mut || true), Ok(true));
    gone.iter().for_each(|log| assert!(!log.exists(), "{}", log.display()));
    stays.iter().for_each(|log| assert!(log.exists(), "{}", log.display()));
    assert!(stays[1].join("lock").exists() && scratch.path().join("held.frames/lock").exists());
    drop(held);
    assert_eq!(remove_deserted_below(&top, &mut || true), Ok(true));
    assert!(!scratch.path().join("held.frames").exists());
}
