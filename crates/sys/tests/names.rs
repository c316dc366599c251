//! Names of any bytes, paths of any depth, listings of any length, and what renaming replaces.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use thalweg_sys::{Dir, Kind, Links, Replace};

fn scratch() -> (tempfile::TempDir, Dir) {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    (scratch, dir)
}

/// Makes a chain of directories, each called `name`, and returns its path.
fn chain(root: &Dir, name: &[u8], levels: usize) -> Vec<u8> {
    let mut here = root.try_clone().unwrap();
    for _ in 0..levels {
        here.make_dir(name, 0o700).unwrap();
        here = here.open_beneath(name, Links::Refuse).unwrap();
    }
    vec![name; levels].join(&b'/')
}

/// Removes it again, from its end: the scratch directory's own clean-up would need a descriptor for each level.
fn remove_chain(root: &Dir, path: &[u8]) {
    let mut path = path;
    loop {
        let (parent, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path),
        };
        root.open_beneath(parent, Links::Refuse).unwrap().remove_dir(name).unwrap();
        if parent.is_empty() {
            return;
        }
        path = parent;
    }
}

#[test]
fn forty_names_of_120_bytes_are_one_path() {
    let (_scratch, root) = scratch();
    let path = chain(&root, &[b'n'; 120], 40);
    assert!(path.len() > 4096);
    for links in [Links::Refuse, Links::Beneath] {
        let deep = root.open_beneath(&path, links).unwrap();
        if deep.stat(b"file").is_err() {
            deep.create_new(b"file", 0o600).unwrap().append(b"deep").unwrap();
        }
        assert_eq!(deep.open_read(b"file").unwrap().read_to_end(10).unwrap(), b"deep");
    }
    root.open_beneath(&path, Links::Refuse).unwrap().remove_file(b"file").unwrap();
    remove_chain(&root, &path);
}

#[test]
fn two_thousand_levels_are_one_path_even_with_needless_slashes() {
    let (_scratch, root) = scratch();
    let path = chain(&root, b"abc", 2000);
    assert_eq!(path.len(), 7999);
    let deep = root.open_beneath(&path, Links::Refuse).unwrap();
    // Needless slashes must not turn a later piece into an absolute path.
    let slashes = path.split(|&b| b == b'/').collect::<Vec<_>>().join(&b"///"[..]);
    let same = root.open_beneath(&[&slashes[..], b"/././"].concat(), Links::Beneath).unwrap();
    assert!(same.stat_self().unwrap().is_same_entry(&deep.stat_self().unwrap()));
    assert_eq!(deep.entries().unwrap().count(), 0);
    remove_chain(&root, &path);
}

#[test]
fn the_users_own_path_may_be_as_long() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let (scratch, root) = scratch();
    let path = chain(&root, &[b'u'; 100], 60);
    let deep = Dir::open(&scratch.path().join(OsStr::from_bytes(&path))).unwrap();
    let same = root.open_beneath(&path, Links::Refuse).unwrap();
    assert!(same.stat_self().unwrap().is_same_entry(&deep.stat_self().unwrap()));
    remove_chain(&root, &path);
    assert_eq!(Dir::open(Path::new("")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(Dir::open(Path::new("/dev/null")).unwrap_err().kind(), ErrorKind::NotADirectory);
}

#[test]
fn names_are_bytes_up_to_255_of_them() {
    let (_scratch, root) = scratch();
    let mut names: BTreeSet<Vec<u8>> =
        (1..=255u8).filter(|&b| b != b'/' && b != b'.').map(|b| vec![b]).collect();
    names.insert(vec![0xff; 255]);
    names.insert(vec![b'x'; 255]);
    names.extend([
        b"...".to_vec(),
        b"\xed\xa0\x80".to_vec(),
        b"a\nb".to_vec(),
        b"e\xcc\x81".to_vec(),
        "é".into(),
    ]);
    for (round, name) in names.iter().enumerate() {
        let made = match round % 4 {
            0 => root.create_new(name, 0o600).map(drop),
            1 => root.make_dir(name, 0o700),
            2 => root.make_symlink(name, name),
            _ => root.make_fifo(name, 0o600),
        };
        if let Err(error) = made {
            panic!("{name:?}: {error}");
        }
    }
    let listed: Vec<_> = root.entries().unwrap().map(Result::unwrap).collect();
    assert_eq!(listed.len(), names.len());
    for entry in listed {
        assert!(names.remove(&entry.name), "{:?} was not made or is listed twice", entry.name);
        let stat = root.stat(&entry.name).unwrap();
        assert_eq!(stat.inode, entry.inode);
        assert!(entry.kind == stat.kind || entry.kind == Kind::Unknown);
        if stat.kind == Kind::Symlink {
            assert_eq!(root.read_link(&entry.name).unwrap(), entry.name);
        }
    }
}

#[test]
fn a_listing_begins_at_the_beginning_and_takes_many_batches() {
    let (_scratch, root) = scratch();
    let mut names = BTreeSet::new();
    for number in 0..5000 {
        let name = format!("a-name-of-common-length-{number:06}").into_bytes();
        root.create_new(&name, 0o600).unwrap();
        names.insert(name);
    }
    let mut begun = root.entries().unwrap();
    begun.next().unwrap().unwrap();
    for _ in 0..2 {
        let listed: BTreeSet<_> = root.entries().unwrap().map(|entry| entry.unwrap().name).collect();
        assert_eq!(listed, names);
    }
    assert_eq!(begun.count(), 4999);
}

#[test]
fn a_link_says_what_it_was_told_whatever_its_length() {
    let (_scratch, root) = scratch();
    for length in [1, 59, 60, 61, 255, 256, 1023, 1024, 4095] {
        let target = vec![0xfe; length];
        match root.make_symlink(&target, b"link") {
            Ok(()) => {}
            // XFS keeps at most 1023.
            Err(error) if error.kind() == ErrorKind::InvalidFilename => {
                println!("skipped: {length} bytes are too many for this file system: {error}");
                continue;
            }
            Err(error) => panic!("{length}: {error}"),
        }
        assert_eq!(root.read_link(b"link").unwrap(), target);
        root.remove_file(b"link").unwrap();
    }
    assert_eq!(root.make_symlink(b"", b"link").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(root.make_symlink(b"a\0b", b"link").unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_rename_replaces_what_it_was_told_to() {
    let (_scratch, root) = scratch();
    root.make_dir(b"sub", 0o700).unwrap();
    let sub = root.open_beneath(b"sub", Links::Refuse).unwrap();
    let write =
        |dir: &Dir, name: &[u8], bytes: &[u8]| dir.create_new(name, 0o600).unwrap().append(bytes).unwrap();
    let read = |dir: &Dir, name: &[u8]| dir.open_read(name).unwrap().read_to_end(10).unwrap();
    write(&root, b"a", b"A");
    write(&sub, b"b", b"B");

    let error = root.rename(b"a", &sub, b"b", Replace::Never).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!((read(&root, b"a"), read(&sub, b"b")), (b"A".to_vec(), b"B".to_vec()));

    root.rename(b"a", &sub, b"b", Replace::Exchange).unwrap();
    assert_eq!((read(&root, b"a"), read(&sub, b"b")), (b"B".to_vec(), b"A".to_vec()));

    root.rename(b"a", &sub, b"c", Replace::Never).unwrap();
    root.rename(b"c", &sub, b"d", Replace::Existing).unwrap_err();
    sub.rename(b"c", &sub, b"b", Replace::Existing).unwrap();
    assert_eq!(read(&sub, b"b"), b"B");
    assert_eq!(sub.entries().unwrap().count(), 1);

    // An empty directory would be replaced by the plain call.
    root.make_dir(b"x", 0o700).unwrap();
    root.make_dir(b"y", 0o700).unwrap();
    let error = root.rename(b"x", &root, b"y", Replace::Never).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(root.rename(b"x", &root, b"missing", Replace::Exchange).is_err());
    // A dangling link is a name that is taken.
    root.make_symlink(b"nowhere", b"dangling").unwrap();
    let error = root.rename(b"x", &root, b"dangling", Replace::Never).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(root.create_new(b"dangling", 0o600).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn a_second_name_is_the_same_entry() {
    let (_scratch, root) = scratch();
    root.create_new(b"a", 0o600).unwrap();
    root.make_link(b"a", &root, b"b").unwrap();
    let (a, b) = (root.stat(b"a").unwrap(), root.stat(b"b").unwrap());
    assert!(a.is_same_entry(&b));
    assert_eq!(a.links, 2);
    assert_eq!(root.make_link(b"a", &root, b"b").unwrap_err().kind(), ErrorKind::AlreadyExists);
    // Of a link the link itself, not what it points to.
    root.make_symlink(b"a", b"link").unwrap();
    root.make_link(b"link", &root, b"link2").unwrap();
    assert_eq!(root.stat(b"link2").unwrap().kind, Kind::Symlink);
    assert_eq!(root.stat(b"a").unwrap().links, 2);
}

#[test]
fn a_held_directory_stays_itself_when_its_name_changes() {
    let (scratch, root) = scratch();
    root.make_dir(b"old", 0o700).unwrap();
    let held = root.open_beneath(b"old", Links::Refuse).unwrap();
    root.rename(b"old", &root, b"new", Replace::Never).unwrap();
    root.make_dir(b"old", 0o700).unwrap();
    held.create_new(b"file", 0o600).unwrap();
    assert!(scratch.path().join("new/file").exists() && !scratch.path().join("old/file").exists());
    held.sync().unwrap();
    held.sync_file_system().unwrap();
}

#[test]
fn a_directory_that_knows_no_sync_is_synced_with_its_file_system() {
    let proc = Path::new("/proc");
    let synced = std::fs::File::open(proc).unwrap().sync_all();
    if !synced.is_err_and(|error| error.kind() == ErrorKind::InvalidInput) {
        eprintln!("skipped: /proc knows one");
        return;
    }
    Dir::open(proc).unwrap().sync().unwrap();
}

#[test]
fn only_a_directory_is_held_as_one() {
    let file = tempfile::tempfile().unwrap();
    assert_eq!(Dir::from_fd(file.into()).unwrap_err().kind(), ErrorKind::NotADirectory);
    let (_scratch, root) = scratch();
    let again = Dir::from_fd(root.as_file().unwrap().into()).unwrap();
    assert!(again.stat_self().unwrap().is_same_entry(&root.stat_self().unwrap()));
}
