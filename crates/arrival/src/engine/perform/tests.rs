use super::*;
use crate::command::Analysis;
use crate::engine::{Heard, Life, Looks, Tell, Watch};
use crate::item::{Complete, Order};
use crate::journal::Journal;
use crate::machine::{Known, Machine, Record, Rules, Seen, Stage};
use crate::scan::Scanner;
use std::path::Path;
use std::sync::mpsc;
use thalweg_client::far_movers::{FarMovers, How, SshOptions};
use thalweg_client::place::Places;
use thalweg_mover::endpoint::local::survey::Found;
use thalweg_mover::filter::Filter;
use thalweg_mover::run::copy::{Selection, Stop};
use thalweg_sys::priority::Priority;
use thalweg_wire::message::FilterRule;
use thalweg_wire::{EntryId, Evidence};

fn path(text: &str) -> RelativePath {
    RelativePath::new(text.into()).unwrap()
}

/// From `in` to `out`, both below this directory; what the patterns match is left out.
fn watch_of(root: &Path, kind: ItemKind, complete: Complete, patterns: &[&str]) -> Watch {
    let rule = |pattern: &&str| FilterRule { include: false, pattern: (*pattern).into() };
    let filter: Vec<FilterRule> = patterns.iter().map(rule).collect();
    Watch {
        source: Place::Local(root.join("in")),
        destination: Place::Local(root.join("out")),
        scanner: Arc::new(Scanner {
            kind,
            complete: complete.clone(),
            filter: Filter::new(filter.clone()).unwrap(),
            in_bucket: false,
        }),
        rules: Rules {
            complete,
            order: Order::Arrival,
            moves_max: 1,
            runs_max: 1,
            attempts_max: 1,
            runs_command: false,
            returns_results: false,
        },
        analysis: None,
        results: None,
        deletes: true,
        receipts: None,
        how: How::to_ask(&Places::default(), None, SshOptions::default()),
        wishes: Wishes { selection: Selection { filter, ..Selection::default() }, ..Wishes::default() },
        results_congestion: None,
        priority: Priority::default(),
        state: root.join("state"),
        look_every: None,
        idle_exit: None,
    }
}

/// What a look sees of it.
fn seen(watch: &Watch, name: &RelativePath) -> Version {
    let Place::Local(source) = &watch.source else { panic!("it is here") };
    let reach = Reach::local(source.clone());
    let view = watch.scanner.scan(&reach, &mut |failure| panic!("{failure}")).unwrap();
    view.items.into_iter().find(|seen| seen.name == *name).unwrap().version
}

/// A file of so many bytes.
fn entry(size: u64) -> Arc<Entry> {
    Arc::new(Entry {
        id: EntryId(0),
        path: path("one"),
        kind: Kind::File { sparse: false, marked: false },
        mode: 0o644,
        uid: 0,
        gid: 0,
        evidence: Evidence { size, ..Evidence::default() },
        xattrs: Vec::new(),
    })
}

/// What a driver of this watch makes of it.
fn driven<T>(watch: &Watch, act: impl FnOnce(&Driver<'_>) -> T) -> T {
    let directory = watch.state.join("watch");
    std::fs::create_dir_all(directory.join("receipts")).unwrap();
    let tell: Tell = Arc::new(|_: Told<'_>| {});
    let stop = Stop::default();
    act(&Driver {
        watch,
        directory,
        far_movers: Arc::new(Mutex::new(FarMovers::new(watch.how.clone()))),
        tell: &tell,
        stop: &stop,
        changed: AtomicBool::new(false),
        refused: Mutex::default(),
        dialled: Mutex::default(),
        dialled_for_results: Mutex::default(),
        is_over: Arc::default(),
        is_key_told: Arc::default(),
    })
}

fn copied(watch: &Watch, name: &RelativePath, version: Version) -> Result<(Digest, u64)> {
    let came = driven(watch, |driver| driver.copy_item(name, version, &Arc::default()))?;
    Ok((came.digest, came.bytes))
}

#[test]
fn a_file_that_was_written_on_after_it_was_seen_complete_does_not_arrive_in_its_place() {
    let scratch = tempfile::tempdir().unwrap();
    let complete = Complete::Stable(Duration::ZERO);
    let watch = watch_of(scratch.path(), ItemKind::File, complete, &[]);
    let (name, file) = (path("deep/one"), scratch.path().join("in/deep/one"));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "half").unwrap();
    let before = seen(&watch, &name);
    std::fs::write(&file, "half of what is to come").unwrap();
    let failure = copied(&watch, &name, before).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Changed, "{failure}");
    // It stands there by now: that it is the same is an arrival, too.
    for _ in 0..2 {
        let (digest, bytes) = copied(&watch, &name, seen(&watch, &name)).unwrap();
        assert_eq!(digest.0, *blake3::hash(b"half of what is to come").as_bytes());
        assert_eq!(bytes, 23);
    }
}

#[test]
fn that_a_key_is_kept_nowhere_is_told_once_and_not_with_each_item() {
    let told = AtomicBool::new(false);
    let of_key = Event::Note(format!("the far side has {NO_KEY_KEPT}"));
    let of_item = Event::Note("one goes to one.~1~".to_owned());
    assert!(is_noted(&of_item, &told) && is_noted(&of_key, &told));
    assert!(is_noted(&of_item, &told) && !is_noted(&of_key, &told));
}

#[test]
fn each_version_that_arrived_has_a_receipt_of_its_own_and_one_that_did_not_has_none() {
    let scratch = tempfile::tempdir().unwrap();
    let complete = Complete::Stable(Duration::ZERO);
    let receipts = scratch.path().join("receipts/of/in");
    let to = Some(receipts.clone());
    let watch = Watch { receipts: to, ..watch_of(scratch.path(), ItemKind::File, complete, &[]) };
    watch.make_receipts().unwrap();
    assert_eq!(std::fs::read_dir(&receipts).unwrap().count(), 0, "what tried the place is gone");
    let (name, file) = (path("deep/one"), scratch.path().join("in/deep/one"));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let of = |version: Version| driven(&watch, |driver| driver.receipt(&name, version));
    let texts = || -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(&receipts).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|entry| (entry.clone(), std::fs::read(entry).unwrap())).collect()
    };
    std::fs::write(&file, "first").unwrap();
    let first = seen(&watch, &name);
    copied(&watch, &name, first).unwrap();
    let before = texts();
    assert_eq!(before.keys().collect::<Vec<_>>(), [&of(first)]);
    assert!(of(first).file_name().unwrap().to_str().unwrap().starts_with("deep_one."), "{before:?}");
    std::fs::write(&file, "corrected").unwrap();
    assert_eq!(copied(&watch, &name, first).unwrap_err().kind, FailureKind::Changed);
    assert_eq!(texts(), before, "that was no version which was seen to be complete");
    let second = seen(&watch, &name);
    copied(&watch, &name, second).unwrap();
    let after = texts();
    assert_eq!((after.len(), &after[&of(first)]), (2, &before[&of(first)]));
    assert_ne!(after[&of(second)], after[&of(first)]);
    // Another watch, which goes elsewhere, has others in the same directory.
    let name_of = |watch: &[u8], name: &RelativePath| receipt_name(watch, name, first);
    assert_ne!(name_of(b"here", &name), name_of(b"there", &name));
    assert_ne!(name_of(b"here", &path("a/b")), name_of(b"here", &path("a_b")));
    // Any name will do.
    let odd = RelativePath::new([&[0xff_u8; 100][..], b"/", &[b'n'; 255]].concat()).unwrap();
    assert!(name_of(b"here", &odd).len() <= 255 && name_of(b"here", &odd).starts_with("\\xff"));
    let umlauts = path(&format!("n{}", "ä".repeat(120)));
    assert_eq!(name_of(b"here", &umlauts).matches('ä').count(), (SHOWN_BYTES_MAX - 1) / 2);
}

/// The destination is here: what is told of it is known.
#[test]
fn a_copy_that_failed_tells_whether_something_of_it_may_be_in_place() {
    let scratch = tempfile::tempdir().unwrap();
    let watch = watch_of(scratch.path(), ItemKind::File, Complete::Stable(Duration::ZERO), &[]);
    let (name, file) = (path("one"), scratch.path().join("in/one"));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "first").unwrap();
    let before = seen(&watch, &name);
    let moved = || driven(&watch, |driver| driver.perform(Action::Move(name.clone(), before), None)).unwrap();
    assert!(matches!(moved(), Input::Moved(_, Ok(_))));
    // What was copied is not what was to be.
    std::fs::write(&file, "corrected").unwrap();
    assert!(matches!(moved(), Input::MovedInPart(_, Trouble::Passing)));
    assert_eq!(std::fs::read(scratch.path().join("out/one")).unwrap(), b"corrected");
    std::fs::remove_file(&file).unwrap();
    match moved() {
        Input::Moved(_, Err(Trouble::Missing)) => {}
        other => panic!("{other:?}"),
    }
    // Of a far side nobody knows what it did last.
    let begun = || Placed { has_begun: true, ..Placed::default() };
    let lost = Failure::new(FailureKind::Connection, "read", "Connection reset by peer");
    for (is_far, trouble, may_stand) in [
        (false, Trouble::Missing, false),
        (false, Trouble::Passing, true),
        (true, Trouble::Missing, true),
        (true, Trouble::Passing, true),
    ] {
        assert_eq!(begun().may_stand(trouble, is_far), may_stand, "{trouble:?}, far: {is_far}");
        let mut placed = Placed::default();
        placed.hear(&Event::LinkLost(lost.clone()));
        assert!(!placed.may_stand(trouble, is_far), "{trouble:?}: it was not reached");
    }
    // Of names that could not be made durable none is known not to be there.
    let mut placed = begun();
    let missing = Failure::new(FailureKind::NotFound, "sync", "No such file or directory");
    placed.hear(&Event::Settled(entry(3), message::Outcome::Failed(missing)));
    assert!(placed.may_stand(Trouble::Missing, false));
}

/// Why it is over came before it.
#[test]
fn what_came_of_a_copy_is_kept_though_the_watch_is_over_before_that_is_heard() {
    let scratch = tempfile::tempdir().unwrap();
    let watch = watch_of(scratch.path(), ItemKind::File, Complete::Stable(Duration::ZERO), &[]);
    std::fs::create_dir(scratch.path().join("in")).unwrap();
    let name = path("one");
    let version = |number: u64| Version { bytes: number, changed_ns: number as i64, mark: number };
    let (digest, key, receipt) = ("d".into(), "k".into(), String::new());
    let arrived = Arrived { version: version(1), digest, key, bytes: 1, receipt, stale: 0 };
    let mut machine = Machine::new(Rules { runs_command: true, ..watch.rules.clone() });
    machine.replay(Record::Known(name.clone(), Known { arrived, attempt: 1, stage: Stage::Arrived }));
    machine.begin();
    let corrected = Seen { name: name.clone(), version: version(7), is_marked: false };
    let _ = machine.take(Duration::ZERO, Input::Looked(vec![corrected], Vec::new()));
    assert_eq!(machine.decide(Duration::ZERO).0, [Record::Replacing(name.clone())]);
    driven(&watch, |driver| {
        let (journal, _) = Journal::open(&driver.directory).unwrap();
        let refused = Failure::new(FailureKind::Permission, "hello", "the peer does not let us in");
        *lock(&driver.refused) = Some(refused);
        let (inputs, hears) = mpsc::channel();
        inputs.send(Heard::Came(Input::Moved(name.clone(), Err(Trouble::Passing)))).unwrap();
        let mut life = Life::new(driver, machine, journal);
        let failure = life.run(&mut Looks::new(None), inputs, hears).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Permission, "{failure}");
        drop(life);
        let (_, records) = Journal::open(&driver.directory).unwrap();
        assert_eq!(records.last(), Some(&Record::Stands(name.clone())), "{records:?}");
    });
}

/// Looks and copies must agree on everything that can be in a directory, or it never arrives.
#[test]
fn a_directory_arrives_as_it_was_seen_complete_whatever_is_in_it_and_left_out_of_it() {
    let stable = || Complete::Stable(Duration::ZERO);
    let marker = || Complete::Marker(b"READY".to_vec());
    let cases = [
        (stable(), &[][..]),
        (stable(), &["*.log"][..]),
        (marker(), &[][..]),
        // It is not copied, and counts.
        (marker(), &["READY"][..]),
    ];
    for (complete, patterns) in cases {
        let scratch = tempfile::tempdir().unwrap();
        let watch = watch_of(scratch.path(), ItemKind::Directory, complete, patterns);
        let run = scratch.path().join("in/run");
        std::fs::create_dir_all(run.join("deep/empty")).unwrap();
        for name in ["data", "a.log", "deep/.hidden", "deep/nothing", "READY"] {
            std::fs::write(run.join(name), name.repeat(usize::from(name != "deep/nothing"))).unwrap();
        }
        std::fs::hard_link(run.join("data"), run.join("deep/data")).unwrap();
        std::os::unix::fs::symlink("data", run.join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(run.join("socket")).unwrap();
        let name = path("run");
        let before = seen(&watch, &name);
        let first = copied(&watch, &name, before).unwrap();
        assert_eq!(copied(&watch, &name, seen(&watch, &name)).unwrap(), first, "{patterns:?}: it was there");
        std::fs::write(run.join("data"), "data that are longer").unwrap();
        let failure = copied(&watch, &name, before).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Changed, "{patterns:?}: {failure}");
        assert!(copied(&watch, &name, seen(&watch, &name)).is_ok(), "{patterns:?}");
    }
}

#[test]
fn a_directory_that_is_corrected_loses_what_its_source_has_no_more_and_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    let watch = watch_of(scratch.path(), ItemKind::Directory, Complete::Stable(Duration::ZERO), &["*.log"]);
    let (name, run, out) = (path("run"), scratch.path().join("in/run"), scratch.path().join("out/run"));
    let put = |path: PathBuf| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "content").unwrap();
    };
    let stands = || {
        let mut names = Vec::new();
        Reach::local(out.clone())
            .list(true, &mut |found| match found {
                Found::Entry(entry) => {
                    names.push(entry.path.to_string());
                    Ok(())
                }
                Found::Trouble(failure) => Err(failure),
            })
            .unwrap();
        names
    };
    for file in ["a", "b", "deep/c", "file/d", "gone/e"] {
        put(run.join(file));
    }
    let first = seen(&watch, &name);
    copied(&watch, &name, first).unwrap();
    // What a program made there, and somebody else; one by a name that is left out.
    for file in ["report", "deep/report", "b.log"] {
        put(out.join(file));
    }
    std::fs::remove_file(run.join("b")).unwrap();
    for directory in ["deep", "file", "gone"] {
        std::fs::remove_dir_all(run.join(directory)).unwrap();
    }
    put(run.join("file"));
    let failure = copied(&watch, &name, first).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Changed, "{failure}");
    assert!(out.join("b").exists(), "it is not what was seen to be complete");
    copied(&watch, &name, seen(&watch, &name)).unwrap();
    assert_eq!(stands(), [".", "a", "b.log", "deep", "deep/report", "file", "report"]);
    // A disk that is not mounted looks like this.
    for file in ["a", "file"] {
        std::fs::remove_file(run.join(file)).unwrap();
    }
    let failure = copied(&watch, &name, seen(&watch, &name)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Conflict, "{failure}");
    assert!(failure.to_string().contains("nothing was deleted: it is empty at the source"), "{failure}");
    assert_eq!(stands(), [".", "a", "b.log", "deep", "deep/report", "file", "report"]);
}

/// A disk that is purged file by file looks like a correction.
#[test]
fn unless_it_is_asked_for_nothing_goes_and_what_stands_of_earlier_copies_is_counted() {
    let scratch = tempfile::tempdir().unwrap();
    let (name, run, out) = (path("run"), scratch.path().join("in/run"), scratch.path().join("out/run"));
    let stale = |deletes: bool| {
        let complete = Complete::Stable(Duration::ZERO);
        let watch = Watch { deletes, ..watch_of(scratch.path(), ItemKind::Directory, complete, &[]) };
        let version = seen(&watch, &name);
        driven(&watch, |driver| driver.copy_item(&name, version, &Arc::default())).unwrap().stale
    };
    std::fs::create_dir_all(run.join("deep")).unwrap();
    for file in ["a", "b", "deep/c"] {
        std::fs::write(run.join(file), file).unwrap();
    }
    assert_eq!(stale(false), 0);
    std::fs::write(out.join("report"), "somebody's").unwrap();
    std::fs::remove_file(run.join("b")).unwrap();
    std::fs::remove_dir_all(run.join("deep")).unwrap();
    for _ in 0..2 {
        assert_eq!(stale(false), 3, "b, deep, and what is in it");
    }
    assert!(["a", "b", "deep/c", "report"].iter().all(|file| out.join(file).exists()));
    // Somebody removed one, and what has its name then is not ours.
    std::fs::remove_file(out.join("b")).unwrap();
    assert_eq!(stale(false), 2);
    std::fs::write(out.join("b"), "somebody's").unwrap();
    assert_eq!(stale(false), 2);
    std::fs::remove_file(run.join("a")).unwrap();
    assert_eq!(stale(false), 3, "of a source in which nothing is left");
    std::fs::write(run.join("a"), "again").unwrap();
    assert_eq!(stale(true), 0);
    assert!(["a", "b", "report"].iter().all(|file| out.join(file).exists()) && !out.join("deep").exists());
}

#[test]
fn nothing_behind_a_link_goes_though_the_source_has_it_no_more() {
    let scratch = tempfile::tempdir().unwrap();
    let watch = watch_of(scratch.path(), ItemKind::Directory, Complete::Stable(Duration::ZERO), &[]);
    let (name, run, out) = (path("run"), scratch.path().join("in/run"), scratch.path().join("out/run"));
    std::fs::create_dir_all(run.join("deep")).unwrap();
    for file in ["a", "deep/b"] {
        std::fs::write(run.join(file), file).unwrap();
    }
    copied(&watch, &name, seen(&watch, &name)).unwrap();
    let moved = scratch.path().join("moved");
    std::fs::rename(out.join("deep"), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, out.join("deep")).unwrap();
    std::fs::remove_dir_all(run.join("deep")).unwrap();
    copied(&watch, &name, seen(&watch, &name)).unwrap();
    assert!(moved.join("b").exists() && out.join("deep").is_symlink());
}

/// That they are back was not in the journal: the next life is to send them once more.
#[test]
fn results_that_are_back_stay_there_wherever_their_removal_here_is_killed() {
    type Until = fn(&Driver<'_>, &RelativePath);
    let kills: [(&str, Until); 4] = [
        ("before it", |_, _| {}),
        ("once they have another name", |driver, name| driver.put_aside(name).unwrap()),
        ("in the middle", |driver, name| {
            driver.put_aside(name).unwrap();
            std::fs::remove_file(driver.aside(name).join("a")).unwrap();
        }),
        ("behind it", |driver, name| {
            driver.put_aside(name).unwrap();
            driver.forget_aside(name).unwrap();
        }),
    ];
    for (point, kill) in kills {
        let scratch = tempfile::tempdir().unwrap();
        let back = scratch.path().join("back");
        let watch = Watch {
            results: Some(Place::Local(back.clone())),
            ..watch_of(scratch.path(), ItemKind::Directory, Complete::Stable(Duration::ZERO), &[])
        };
        let (name, files) = (path("run"), ["a", "b", "deep/c"]);
        driven(&watch, |driver| {
            let here = driver.results(&name);
            std::fs::create_dir_all(here.join("deep")).unwrap();
            files.iter().for_each(|file| std::fs::write(here.join(file), file).unwrap());
            assert!(driver.deliver(&name).unwrap(), "{point}");
            kill(driver, &name);
            match driver.perform(Action::Return(name.clone()), None) {
                Some(Input::Returned(_, Ok(()))) => {}
                other => panic!("{point}: {other:?}"),
            }
            assert!(!here.exists() && !driver.aside(&name).exists(), "{point}");
        });
        for file in files {
            assert_eq!(std::fs::read_to_string(back.join("run").join(file)).unwrap(), file, "{point}");
        }
    }
}

/// Somebody else's may have the same names there.
#[test]
fn results_take_nothing_away_at_a_place_where_they_did_not_go_before() {
    let scratch = tempfile::tempdir().unwrap();
    let name = path("run");
    let send_back = |to: &str, files: &[&str]| {
        let watch = Watch {
            results: Some(Place::Local(scratch.path().join(to))),
            ..watch_of(scratch.path(), ItemKind::Directory, Complete::Stable(Duration::ZERO), &[])
        };
        driven(&watch, |driver| {
            let here = driver.results(&name);
            std::fs::create_dir_all(&here).unwrap();
            files.iter().for_each(|file| std::fs::write(here.join(file), file).unwrap());
            driver.send_back(&name).unwrap();
        });
    };
    let stands = |to: &str| -> Vec<String> {
        let entries = std::fs::read_dir(scratch.path().join(to).join("run")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    send_back("one", &["new", "old"]);
    std::fs::create_dir_all(scratch.path().join("two/run")).unwrap();
    std::fs::write(scratch.path().join("two/run/old"), "somebody's").unwrap();
    send_back("two", &["new"]);
    assert_eq!(stands("two"), ["new", "old"]);
    assert_eq!(stands("one"), ["new", "old"]);
    send_back("one", &["new"]);
    assert_eq!(stands("one"), ["new"], "there they went before");
}

#[test]
fn a_further_name_of_a_file_that_leads_to_another_one_by_now_is_another_content() {
    let scratch = tempfile::tempdir().unwrap();
    let watch = watch_of(scratch.path(), ItemKind::Directory, Complete::Stable(Duration::ZERO), &[]);
    let (name, run) = (path("run"), scratch.path().join("in/run"));
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("a"), "first").unwrap();
    std::fs::write(run.join("b"), "other").unwrap();
    let arrives_with = |first: &str| {
        let _ = std::fs::remove_file(run.join("z"));
        std::fs::hard_link(run.join(first), run.join("z")).unwrap();
        let (digest, _) = copied(&watch, &name, seen(&watch, &name)).unwrap();
        (digest, std::fs::read_to_string(scratch.path().join("out/run/z")).unwrap())
    };
    let [before, now, again] = ["a", "b", "a"].map(arrives_with);
    assert_eq!((&*before.1, &*now.1), ("first", "other"));
    assert_ne!(before.0, now.0, "no command would be run for what it has now");
    assert_eq!(before, again);
}

/// In whichever order a directory is listed: of two names either may be the first.
#[test]
fn a_further_name_counts_for_what_its_first_one_has() {
    let file = |name: &str, digest: u8| {
        let entry = Arc::new(Entry { path: path(name), ..Entry::clone(&entry(3)) });
        let digest = Some(Digest([digest; 32]));
        Event::Settled(entry, message::Outcome::Done { digest, losses: Vec::new() })
    };
    let link = |name: &str, first: &str| {
        let kind = Kind::HardLink { first: path(first), of: EntryId(0) };
        let entry = Arc::new(Entry { path: path(name), kind, ..Entry::clone(&entry(3)) });
        Event::Settled(entry, message::Outcome::Unchanged { digest: None })
    };
    let digest = |events: Vec<Event>| {
        let mut settled = Settled::default();
        events.into_iter().for_each(|event| settled.hear(event));
        settled.digest(ItemKind::Directory).unwrap().0
    };
    let with = |first: &str, b: u8| digest(vec![file("a", 1), file("b", b), link("z", first)]);
    assert_ne!(with("a", 2), with("b", 2));
    assert_eq!(with("a", 1), with("b", 1), "the content is the same");
    // Of one that did not come its name is all that is known; and nothing goes round for ever.
    assert_ne!(with("elsewhere", 2), with("nowhere", 2));
    assert_ne!(with("z", 2), with("a", 2));
}

/// The last look may be as old as the time between two of them.
#[test]
fn a_run_does_not_begin_for_what_the_source_has_no_more() {
    for (kind, item) in [(ItemKind::File, "run/data"), (ItemKind::Directory, "run")] {
        let scratch = tempfile::tempdir().unwrap();
        let complete = Complete::Stable(Duration::ZERO);
        let keeper = vec!["false".into()];
        let analysis = Some(Analysis { keeper, program: "true".into(), arguments: Vec::new() });
        let watch = Watch { analysis, ..watch_of(scratch.path(), kind, complete, &[]) };
        let (name, file) = (path(item), scratch.path().join("in/run/data"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "first").unwrap();
        let version = seen(&watch, &name);
        let (digest, bytes) = copied(&watch, &name, version).unwrap();
        let arrived = || Arrived {
            version,
            digest: digest.to_string(),
            key: key_of(&name, &digest),
            bytes,
            receipt: String::new(),
            stale: 0,
        };
        let changed = || driven(&watch, |driver| driver.changed_source(&name, &arrived()));
        assert_eq!(changed(), None, "{kind:?}: it is as it arrived");
        std::fs::write(&file, "corrected").unwrap();
        let now = seen(&watch, &name);
        assert_eq!(changed(), Some(now), "{kind:?}");
        let run = || Action::Run(name.clone(), 1);
        match driven(&watch, |driver| driver.perform(run(), Some(arrived()))) {
            Some(Input::SourceChanged(_, 1, version)) => assert_eq!(version, now, "{kind:?}"),
            other => panic!("{kind:?}: {other:?}"),
        }
        std::fs::remove_dir_all(scratch.path().join("in/run")).unwrap();
        assert_eq!(changed(), None, "{kind:?}: what arrived goes its way, though the source has it no more");
    }
}

#[test]
fn a_watch_is_found_again_however_its_far_place_is_written() {
    let scratch = tempfile::tempdir().unwrap();
    let of = |text: &str| {
        let complete = Complete::Stable(Duration::ZERO);
        let destination = Place::parse(text.as_ref(), &Places::default()).unwrap();
        Watch { destination, ..watch_of(scratch.path(), ItemKind::File, complete, &[]) }
    };
    let (bare, slash) = (of("tw://h/data/out"), of("tw://h/data/out/"));
    for text in ["tw://h/data/out//", "tw://h/data/./out", "tw://h:8487/data/out"] {
        assert_eq!(of(text).directory(), bare.directory(), "{text}");
    }
    assert_eq!(slash.directory(), bare.directory());
    assert_ne!(of("tw://h/data/out2").directory(), bare.directory());
    // One whose state is under the name that it had once goes on with it, until there is one under the new name.
    let once = slash.state.join("watch").join(slash.name(false));
    std::fs::create_dir_all(&once).unwrap();
    assert_eq!(slash.directory(), once);
    assert_ne!(bare.directory(), once);
    std::fs::create_dir_all(bare.directory()).unwrap();
    assert_eq!(slash.directory(), bare.directory());
}

#[test]
fn a_command_is_told_no_path_where_nothing_of_its_item_is_here() {
    let scratch = tempfile::tempdir().unwrap();
    let far = |text: &str| Place::parse(text.as_ref(), &Places::default()).unwrap();
    let here = |name: &str| Place::Local(scratch.path().join(name));
    let (digest, key, receipt) = ("d".into(), "k".into(), String::new());
    let arrived = Arrived { version: Version::EMPTY, digest, key, bytes: 1, receipt, stale: 0 };
    let cases = [
        (far("tw://h/data/in"), far("tw://other/data/out"), false),
        (here("in"), far("tw://h/data/out"), true),
        (far("tw://h/data/in"), here("out"), true),
    ];
    for (source, destination, is_here) in cases {
        let complete = Complete::Stable(Duration::ZERO);
        let watch = Watch { source, destination, ..watch_of(scratch.path(), ItemKind::File, complete, &[]) };
        let told = driven(&watch, |driver| driver.environment(&path("one"), 1, &arrived));
        assert_eq!(told.iter().any(|(name, _)| *name == command::ITEM_PATH), is_here, "{told:?}");
        assert!(told.iter().all(|(_, value)| !value.is_empty()), "{told:?}");
    }
}

#[test]
fn what_a_second_attempt_brings_counts_once_and_what_failed_in_the_first_is_over() {
    let failure = || Failure::new(FailureKind::Connection, "read", "Connection reset by peer");
    let done = |size, digest| {
        let digest = Some(Digest([digest; 32]));
        Event::Settled(entry(size), message::Outcome::Done { digest, losses: Vec::new() })
    };
    let end = |events: Vec<Event>| {
        let mut settled = Settled::default();
        events.into_iter().for_each(|event| settled.hear(event));
        settled.digest(ItemKind::File)
    };
    assert_eq!(end(vec![done(3, 1)]).unwrap(), (Digest([1; 32]), 3));
    let lost = || Event::LinkLost(failure());
    assert_eq!(end(vec![done(3, 1), lost(), done(5, 2)]).unwrap(), (Digest([2; 32]), 5));
    let failed = || Event::Settled(entry(3), message::Outcome::Failed(failure()));
    assert_eq!(end(vec![failed(), lost(), done(5, 2)]).unwrap(), (Digest([2; 32]), 5));
    assert!(end(vec![lost(), failed(), done(5, 2)]).is_err());
}

#[test]
fn what_a_place_does_not_keep_is_noted_and_known_from_what_its_source_left_out() {
    let skipped = || message::Outcome::Skipped("a bucket keeps no symbolic links".to_owned());
    let refused = Event::Settled(entry(3), skipped());
    let told = AtomicBool::new(false);
    assert!(is_noted(&refused, &told));
    let of = |event: Event| {
        let mut settled = Settled::default();
        settled.hear(event);
        (settled.is_partial, settled.is_refused)
    };
    assert_eq!(of(refused), (true, true));
    assert_eq!(of(Event::Aside(path("socket"), skipped())), (true, false));
}
