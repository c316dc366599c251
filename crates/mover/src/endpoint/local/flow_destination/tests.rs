use super::*;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use thalweg_wire::EntryId;

fn flows(root: &Path) -> LocalFlows {
    let place = DestinationPlace { path: root.to_path_buf(), below: None };
    LocalFlows::open(place, &SourceForm::Many, true, &[7; 16]).unwrap()
}

/// One flow, as it is opened there.
fn opened(flows: &LocalFlows) -> Arc<Grown> {
    let path = RelativePath::new(b"run".to_vec()).unwrap();
    let origin = Origin([3; 16]);
    let begin = FlowBegin { flow: EntryId(0), path, origin, mode: 0o644, is_certain: false };
    let standing = flows.open(&begin, &|_, _| true).unwrap();
    let grown = lock(&flows.opened).get(&standing.number).and_then(Weak::upgrade);
    grown.expect("it is open")
}

#[test]
fn a_second_stream_into_a_directory_hears_that_one_at_a_time_marks_what_grows_there() {
    let scratch = tempfile::tempdir().unwrap();
    let _first = flows(scratch.path());
    let place = DestinationPlace { path: scratch.path().to_path_buf(), below: None };
    let failure = LocalFlows::open(place, &SourceForm::Many, true, &[7; 16]).err().unwrap();
    assert_eq!((failure.kind, failure.reason), (FailureKind::Busy, Reason::GrowingTaken));
}

#[test]
fn of_a_file_that_is_being_written_no_second_one_is_made_under_another_name() {
    let scratch = tempfile::tempdir().unwrap();
    let flows = flows(scratch.path());
    let open = |name: &str| {
        let path = RelativePath::new(name.as_bytes().to_vec()).unwrap();
        let origin = Origin([3; 16]);
        let begin = FlowBegin { flow: EntryId(0), path, origin, mode: 0o644, is_certain: true };
        flows.open(&begin, &|_, _| true)
    };
    let first = open("run").unwrap();
    assert_eq!(open("run.1").err().unwrap().kind, FailureKind::Busy);
    assert!(!scratch.path().join("run.1").exists());
    drop(first);
    let name = open("run.1").unwrap().name.unwrap();
    assert_eq!(name.as_bytes(), b"run", "it goes on under that name");
}

/// FUSE and NFS would keep a hidden name for it there, and the directory with that.
#[test]
fn nothing_in_the_staging_directory_is_open_any_more_when_it_has_been_removed() {
    let scratch = tempfile::tempdir().unwrap();
    let flows = flows(scratch.path());
    flows.close(true);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    let staging = scratch.path().canonicalize().unwrap().join(".thalweg-staging");
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut open = open.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let is_file = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ["lock", "marks"].iter().any(|file| name.starts_with(file))
    };
    assert_eq!(open.find(|path| path.starts_with(&staging) && is_file(path)), None);
}

#[test]
fn where_nothing_is_replaced_a_stream_goes_on_over_what_a_kill_left_and_over_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    let open = || flows(scratch.path()).guarded(Guard { no_replace: true, ..Guard::default() });
    let is_refused = |done: Result<()>| {
        done.is_err_and(|why| (why.kind, why.reason) == (FailureKind::Permission, Reason::NotReplaced))
    };
    let killed = open();
    let grown = opened(&killed);
    grown.write(b"marked", 0).unwrap();
    grown.sync().unwrap();
    killed.record(&[(grown.number, 6, Digest(*blake3::hash(b"marked").as_bytes()))]).unwrap();
    grown.write(b" and not", 6).unwrap();
    drop((grown, killed));
    let again = open();
    let grown = opened(&again);
    assert!(is_refused(grown.write(b" but other", 6)));
    grown.write(b" and not, and more", 6).unwrap();
    assert!(is_refused(grown.complete(10)), "it would be cut");
    grown.complete(24).unwrap();
    assert_eq!(std::fs::read(scratch.path().join("run")).unwrap(), b"marked and not, and more");
}

#[test]
fn where_nothing_is_replaced_a_stream_goes_on_over_zeros_that_a_power_cut_left_behind_its_mark() {
    let scratch = tempfile::tempdir().unwrap();
    let open = || flows(scratch.path()).guarded(Guard { no_replace: true, ..Guard::default() });
    let cut = open();
    let grown = opened(&cut);
    grown.write(b"marked", 0).unwrap();
    grown.sync().unwrap();
    cut.record(&[(grown.number, 6, Digest(*blake3::hash(b"marked").as_bytes()))]).unwrap();
    // A page that was not written yet, before one that was.
    grown.write(b" later", 10).unwrap();
    drop((grown, cut));
    let again = open();
    let grown = opened(&again);
    assert_eq!(std::fs::read(scratch.path().join("run")).unwrap(), b"marked\0\0\0\0 later");
    assert!(grown.write(b" and laser", 6).is_err(), "what is not zero stays");
    grown.write(b" and later", 6).unwrap();
    grown.complete(16).unwrap();
    assert_eq!(std::fs::read(scratch.path().join("run")).unwrap(), b"marked and later");
}

#[test]
fn where_nothing_is_replaced_no_kill_leaves_a_file_that_no_stream_goes_on_with() {
    let scratch = tempfile::tempdir().unwrap();
    let open = || flows(scratch.path()).guarded(Guard { no_replace: true, ..Guard::default() });
    let path = RelativePath::new(b"run".to_vec()).unwrap();
    let origin = Origin([3; 16]);
    let begin = FlowBegin { flow: EntryId(0), path, origin, mode: 0o644, is_certain: false };
    let killed = open();
    // As by a kill there, nothing can be noted any more.
    lock(&killed.marks).close();
    killed.staging.dir.make_dir(b"marks.new", 0o700).unwrap();
    assert!(killed.open(&begin, &|_, _| true).is_err());
    assert!(lock(&killed.marks).find(&begin.path, &origin).is_none(), "nothing was made for it");
    killed.staging.dir.remove_dir(b"marks.new").unwrap();
    drop(killed);
    let again = open();
    drop(again.open(&begin, &|_, _| true).unwrap());
    drop(again);
    // By one behind the note there is none.
    std::fs::remove_file(scratch.path().join("run")).unwrap();
    opened(&open()).write(b"comes", 0).unwrap();
    assert_eq!(std::fs::read(scratch.path().join("run")).unwrap(), b"comes");
}

#[test]
fn where_nothing_is_replaced_only_the_file_that_was_made_for_a_flow_without_a_mark_is_gone_on_with() {
    let zeros = &[0; 4][..];
    for (is_made, content) in [(false, zeros), (true, zeros), (true, &b""[..]), (false, &b"comes"[..])] {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let open = || flows(scratch.path()).guarded(Guard { no_replace: true, ..Guard::default() });
        let path = RelativePath::new(b"run".to_vec()).unwrap();
        let origin = Origin([3; 16]);
        let flow = EntryId(0);
        let begin = FlowBegin { flow, path: path.clone(), origin, mode: 0o644, is_certain: false };
        let killed = open();
        if is_made {
            drop(opened(&killed));
            // It stays, so that no other file has its inode.
            std::fs::rename(at("run"), at("elsewhere")).unwrap();
        } else {
            let mut marks = lock(&killed.marks);
            marks.begin(path.clone(), origin, path, false);
            marks.record(&[]).unwrap();
        }
        drop(killed);
        std::fs::write(at("run"), content).unwrap();
        let refused = open().open(&begin, &|_, _| true).err().expect("it is another's");
        assert_eq!(refused.reason, Reason::NotReplaced, "{is_made}, {content:?}: {refused}");
        assert_eq!(std::fs::read(at("run")).unwrap(), content);
        if is_made {
            std::fs::rename(at("elsewhere"), at("run")).unwrap();
            opened(&open()).write(b"comes", 0).unwrap();
            // Without a mark too: it is the file that was made.
            opened(&open()).write(b"comes", 0).unwrap();
        }
    }
}

fn is_named(grown: &Grown) -> bool {
    grown.is_named.load(Ordering::Acquire)
}

#[test]
fn a_name_that_a_killed_attempt_made_is_synced_by_the_next_unless_it_has_a_mark() {
    let scratch = tempfile::tempdir().unwrap();
    // Known from its beginning, and killed before its first mark.
    assert!(!is_named(&opened(&flows(scratch.path()))));
    let again = flows(scratch.path());
    let grown = opened(&again);
    assert!(!is_named(&grown), "nobody has synced its directory");
    grown.write(b"some", 0).unwrap();
    grown.sync().unwrap();
    assert!(is_named(&grown));
    again.record(&[(grown.number, 4, Digest(*blake3::hash(b"some").as_bytes()))]).unwrap();
    drop((grown, again));
    assert!(is_named(&opened(&flows(scratch.path()))), "its mark came behind that");
}

#[test]
fn a_directory_that_could_not_be_synced_is_synced_before_its_name_counts_as_durable() {
    let scratch = tempfile::tempdir().unwrap();
    let flows = flows(scratch.path());
    let grown = opened(&flows);
    let mut grown = Arc::into_inner(grown).unwrap();
    // What only holds a directory (`O_PATH`) syncs nothing.
    const O_PATH: i32 = 0o10_000_000;
    let held = std::fs::OpenOptions::new().read(true).custom_flags(O_PATH).open(scratch.path()).unwrap();
    let refuses = Arc::new(Dir::from_fd(held.into()).unwrap());
    let made_in = grown.made_in.replace(refuses);
    assert!(grown.sync().is_err() && grown.sync().is_err(), "the second time it is not durable either");
    grown.made_in = made_in;
    grown.sync().unwrap();
    assert!(is_named(&grown));
}
