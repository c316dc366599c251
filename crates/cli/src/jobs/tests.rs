use super::*;

fn asked(words: &[&str]) -> Asked {
    let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    Asked { words, directory: b"/".to_vec(), ..Asked::default() }
}

/// Recorded as if this process kept it.
fn begun(state: &Path) -> PathBuf {
    let directory = create(state, asked(&["cp", "a", "b"])).unwrap();
    change(&directory, |record| record.run = Some(Run::of(1, unix_seconds())));
    directory
}

fn change(directory: &Path, change: impl FnOnce(&mut Record)) {
    let mut record = read_record(directory).unwrap();
    change(&mut record);
    write_record(directory, &record).unwrap();
}

fn state_at(directory: &Path) -> Option<State> {
    Job::read(directory).map(|job| job.state)
}

#[test]
fn a_record_keeps_words_that_are_no_text() {
    let state = tempfile::tempdir().unwrap();
    let words = vec![b"cp".to_vec(), b"line\nbreak \xff\xfe".to_vec(), Vec::new()];
    let environment = vec![Variable { name: "PATH".into(), value: Bytes(b"/bin:\xff".to_vec()) }];
    let asked = Asked { words: words.clone(), environment: environment.clone(), ..asked(&[]) };
    let directory = create(state.path(), asked).unwrap();
    let record = read_record(&directory).unwrap();
    assert_eq!(record.words.into_iter().map(|word| word.0).collect::<Vec<_>>(), words);
    assert_eq!(record.environment, environment);
    use std::os::unix::fs::MetadataExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&directory.join(RECORD))), (0o700, 0o600));
    // Moved under another number it is none.
    let moved = super::directory(state.path()).join("0");
    fs::rename(&directory, &moved).unwrap();
    assert_eq!(read_record(&moved), None);
}

#[test]
fn the_lock_tells_whether_a_job_runs_and_its_number_does_not() {
    let state = tempfile::tempdir().unwrap();
    let directory = create(state.path(), asked(&["cp"])).unwrap();
    assert_eq!(state_at(&directory), None);
    let held = claim(&directory).unwrap();
    assert_eq!(state_at(&directory), Some(State::Beginning));
    change(&directory, |record| record.run = Some(Run::of(1, unix_seconds())));
    assert_eq!(state_at(&directory), Some(State::Running));
    assert_eq!(claim(&directory).unwrap_err().kind, FailureKind::Busy);
    assert_eq!(Job::read(&directory).unwrap().forget().unwrap_err().kind, FailureKind::Busy);
    drop(held);
    // The process of this number lives: it is this one.
    assert_eq!(state_at(&directory), Some(State::Interrupted));
    // Of another with its number nobody is asked to stop.
    change(&directory, |record| record.run.as_mut().unwrap().start_ticks += 1);
    assert!(Job::read(&directory).unwrap().keeper().unwrap().is_none());
    // What was resumed since it was looked at is not forgotten, and who only looks keeps nobody from it.
    let before = Job::read(&directory).unwrap();
    change(&directory, |record| record.runs += 1);
    assert_eq!(before.forget().unwrap_err().kind, FailureKind::Busy);
    let looks = open_lock(&directory).unwrap();
    looks.try_lock_shared().unwrap();
    let job = Job::read(&directory).unwrap();
    let looked = std::thread::spawn(move || {
        std::thread::sleep(CLAIM_AGAIN * 3);
        drop(looks);
    });
    job.forget().unwrap();
    looked.join().unwrap();
    assert!(all(state.path()).is_empty());
}

#[test]
fn after_a_new_boot_nothing_runs_and_of_another_machine_nothing_is_judged() {
    let state = tempfile::tempdir().unwrap();
    let directory = begun(state.path());
    let _held = claim(&directory).unwrap();
    change(&directory, |record| record.run.as_mut().unwrap().boot = Some("earlier".into()));
    // Locks of a file server may outlive who had them.
    assert_eq!(state_at(&directory), Some(State::Interrupted));
    // One that was cloned with its id, and has another name.
    change(&directory, |record| record.run.as_mut().unwrap().host = "elsewhere".into());
    assert_eq!(state_at(&directory), Some(State::Elsewhere));
    // This one, before it got its name.
    change(&directory, |record| record.run.as_mut().unwrap().boot = boot_id());
    assert_eq!(state_at(&directory), Some(State::Running));
    change(&directory, |record| record.run.as_mut().unwrap().machine = "elsewhere".into());
    assert_eq!(state_at(&directory), Some(State::Elsewhere));
    let job = Job::read(&directory).unwrap();
    assert!(job.keeper().unwrap().is_none() && job.transfers(state.path()).is_empty());
    assert_eq!(job.forget().unwrap_err().kind, FailureKind::Busy);
    change(&directory, |record| record.end = Some(end(Some(0), None, &directory)));
    assert_eq!(state_at(&directory), Some(State::Done));
}

#[test]
fn how_a_job_ended_tells_a_stop_that_was_asked_for_from_an_interruption() {
    let state = |code, signal, was_stopped| End { ended_at: 0, code, signal, was_stopped }.state();
    assert_eq!(state(Some(0), None, true), State::Done);
    assert_eq!(state(Some(2), None, false), State::Failed);
    for by_signal in [129, 130, 143] {
        assert_eq!(state(Some(by_signal), None, false), State::Interrupted);
    }
    assert_eq!(state(Some(143), None, true), State::Stopped);
    assert_eq!(state(None, Some(9), false), State::Interrupted);
    let scratch = tempfile::tempdir().unwrap();
    let directory = begun(scratch.path());
    ask_to_stop(&directory).unwrap();
    assert!(end(Some(143), None, &directory).was_stopped);
    goes_on(&directory);
    assert!(!end(Some(143), None, &directory).was_stopped);
}

/// Its keeper is killed, or the machine started anew, while it makes durable what was written.
#[test]
fn a_job_that_was_asked_to_stop_and_is_gone_without_an_end_is_stopped_and_not_interrupted() {
    let state = tempfile::tempdir().unwrap();
    let directory = begun(state.path());
    let held = claim(&directory).unwrap();
    ask_to_stop(&directory).unwrap();
    assert_eq!(state_at(&directory), Some(State::Running));
    drop(held);
    assert_eq!(state_at(&directory), Some(State::Stopped));
    // Also after a new boot; and of another machine's still nothing is judged.
    change(&directory, |record| record.run.as_mut().unwrap().boot = Some("earlier".into()));
    assert_eq!(state_at(&directory), Some(State::Stopped));
    change(&directory, |record| record.run.as_mut().unwrap().machine = "elsewhere".into());
    assert_eq!(state_at(&directory), Some(State::Elsewhere));
    change(&directory, |record| record.run.as_mut().unwrap().machine = machine().to_owned());
    goes_on(&directory);
    assert_eq!(state_at(&directory), Some(State::Interrupted));
}

#[test]
fn jobs_are_found_by_number_name_and_beginning() {
    let state = tempfile::tempdir().unwrap();
    let directories = [begun(state.path()), begun(state.path())];
    let ids = directories.each_ref().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    for directory in &directories {
        change(directory, |record| record.name = Some("run7".into()));
    }
    change(&directories[1], |record| record.asked_at_ms += 1000);
    let found = |text: &str| find(state.path(), text).map(|job| job.record.id);
    assert_eq!(found(&ids[0]).unwrap(), ids[0]);
    assert_eq!(found("run7").unwrap(), ids[1]);
    // What both begin with.
    assert_eq!(found(&ids[0][..1]).unwrap_err().kind, FailureKind::Usage);
    for none in ["", "run", "zz", "../x\n"] {
        let failure = found(none).unwrap_err();
        assert_eq!(failure.kind, FailureKind::NotFound);
        assert!(!failure.cause.contains('\n'), "{failure}");
    }
    Job::read(&directories[1]).unwrap().forget().unwrap();
    assert_eq!(found(&ids[0][..11]).unwrap(), ids[0]);
}

#[test]
fn of_many_jobs_the_last_are_kept_and_none_that_runs_goes() {
    let scratch = tempfile::tempdir().unwrap();
    let state = scratch.path();
    let running = begun(state);
    let _held = claim(&running).unwrap();
    change(&running, |record| record.run.as_mut().unwrap().began_at = 1);
    let template = read_record(&running).unwrap();
    let over = |number: u64, ended_at: u64| {
        let id = format!("{number:012x}");
        let directory = super::directory(state).join(&id);
        fs::create_dir(&directory).unwrap();
        let end = Some(End { ended_at, code: Some(0), signal: None, was_stopped: false });
        let record = Record { id, end, ..template.clone() };
        fs::write(directory.join(RECORD), serde_json::to_vec(&record).unwrap()).unwrap();
        directory
    };
    let now = unix_seconds();
    let old = over(0, now - KEPT_FOR.as_secs() - 60);
    let ended: Vec<PathBuf> = (1..KEPT as u64 + 4).map(|number| over(number, now - 1000 + number)).collect();
    let left = create(state, asked(&["cp"])).unwrap();
    assert!(running.exists() && !old.exists() && left.exists());
    let kept: Vec<bool> = ended.iter().map(|directory| directory.exists()).collect();
    assert_eq!(kept.iter().filter(|kept| **kept).count(), KEPT - 1);
    assert!(kept[4..].iter().all(|kept| *kept), "the oldest go");
    // What nobody began goes when nobody can be about to, and what cannot be read stays.
    let [bare, unread] = ["0", "1"].map(|name| super::directory(state).join(name));
    for directory in [&bare, &unread] {
        fs::create_dir(directory).unwrap();
    }
    fs::write(unread.join(RECORD), "{\"schema\":2}").unwrap();
    tidy(state, SystemTime::now() + BEGIN_LIMIT * 2);
    assert!(!left.exists() && !bare.exists() && running.exists() && unread.exists());
}

#[test]
fn what_is_no_record_is_no_job() {
    let scratch = tempfile::tempdir().unwrap();
    let state = scratch.path();
    let directory = begun(state);
    for text in ["", "{}", "[1]", "{\"schema\":1,\"id\":7}", "\u{0}"] {
        fs::write(directory.join(RECORD), text).unwrap();
        assert!(all(state).is_empty(), "{text:?}");
    }
    fs::write(super::directory(state).join("file"), "x").unwrap();
    assert!(all(state).is_empty());
}

#[test]
fn a_record_that_cannot_be_read_is_named_and_that_nobody_can_look_is_not_that_there_is_no_job() {
    let scratch = tempfile::tempdir().unwrap();
    let state = scratch.path();
    assert!(known(state).unwrap().jobs.is_empty(), "nothing was begun yet");
    let (damaged, other) = (begun(state), begun(state));
    fs::write(damaged.join(RECORD), "{\"schema\":2}").unwrap();
    fs::create_dir(super::directory(state).join("bare")).unwrap();
    let Known { jobs, unread } = known(state).unwrap();
    assert_eq!(jobs.iter().map(|job| &job.directory).collect::<Vec<_>>(), [&other]);
    let [(directory, failure)] = &unread[..] else { panic!("{unread:?}") };
    assert_eq!((directory, failure.kind), (&damaged, FailureKind::Damage));
    assert!(failure.cause.contains(damaged.to_str().unwrap()), "{failure}");
    let id = |directory: &Path| directory.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(find(state, &id(&damaged)).unwrap_err().kind, FailureKind::Damage);
    assert_eq!(find(state, &id(&other)).unwrap().directory, other);
    fs::remove_dir_all(super::directory(state)).unwrap();
    fs::write(super::directory(state), "no directory").unwrap();
    let failure = known(state).unwrap_err();
    assert!(failure.cause.contains(super::directory(state).to_str().unwrap()), "{failure}");
    assert!(find(state, "any").is_err());
}
