//! Entries that are no regular files, and metadata of all kinds, without following a link.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use thalweg_sys::{Dir, Kind, Links, Replace, Time, user};

fn scratch() -> (tempfile::TempDir, Dir) {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    (scratch, dir)
}

/// Runs `work` on a thread of its own and fails if it is not done in two minutes: what blocks does for ever.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    finished.recv_timeout(Duration::from_secs(120)).expect("it blocks")
}

#[test]
fn a_pipe_never_blocks_an_open() {
    let (_scratch, root) = scratch();
    root.make_fifo(b"pipe", 0o600).unwrap();
    assert_eq!(root.stat(b"pipe").unwrap().kind, Kind::Fifo);
    in_time(move || {
        assert_eq!(root.open_read(b"pipe").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(root.open_read_write(b"pipe").unwrap_err().kind(), ErrorKind::InvalidInput);
        // Metadata neither.
        root.set_mode(b"pipe", 0o640).unwrap();
        root.set_times(b"pipe", None, Some(Time { seconds: 1, nanos: 2 })).unwrap();
        root.xattrs(b"pipe").unwrap();
        assert_eq!(root.stat(b"pipe").unwrap().mode, 0o640);
    });
}

#[test]
fn a_pinned_pipe_stays_the_one_that_is_changed_whatever_has_its_name() {
    let (_scratch, root) = scratch();
    root.make_fifo(b"pipe", 0o600).unwrap();
    root.create_new(b"other", 0o600).unwrap();
    let before = root.stat(b"other").unwrap();
    let pinned = root.pin(b"pipe").unwrap();
    root.rename(b"pipe", &root, b"moved", Replace::Never).unwrap();
    root.rename(b"other", &root, b"pipe", Replace::Never).unwrap();
    let stat = pinned.stat().unwrap();
    pinned.set_mode(0o640).unwrap();
    pinned.set_owner(Some(stat.uid), Some(stat.gid)).unwrap();
    pinned.set_times(None, Some(Time { seconds: 1, nanos: 2 })).unwrap();
    pinned.xattrs().unwrap();
    let (moved, other) = (root.stat(b"moved").unwrap(), root.stat(b"pipe").unwrap());
    assert_eq!((moved.kind, moved.mode, moved.mtime.seconds), (Kind::Fifo, 0o640, 1));
    assert_eq!((other.mode, other.mtime), (before.mode, before.mtime));
    assert_eq!(root.pin(b"nothing").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn nothing_but_a_regular_file_is_opened() {
    let (scratch, root) = scratch();
    root.make_dir(b"dir", 0o700).unwrap();
    root.create_new(b"file", 0o600).unwrap();
    root.make_symlink(b"file", b"link").unwrap();
    root.make_symlink(b"nowhere", b"dangling").unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(scratch.path().join("socket")).unwrap();
    let mut names = vec![&b"dir"[..], b"link", b"dangling", b"socket"];
    match root.make_device(b"null", 0o600, false, 1, 3) {
        Ok(()) => {
            let stat = root.stat(b"null").unwrap();
            assert_eq!((stat.kind, stat.rdev_major, stat.rdev_minor), (Kind::CharDevice, 1, 3));
            names.push(b"null");
        }
        Err(error) => println!("skipped: device nodes cannot be made here: {error}"),
    }
    // No such driver: opening it says so, and that is no regular file either.
    if root.make_device(b"absent", 0o600, true, 4000, 1_000_000).is_ok() {
        let stat = root.stat(b"absent").unwrap();
        assert_eq!((stat.kind, stat.rdev_major, stat.rdev_minor), (Kind::BlockDevice, 4000, 1_000_000));
        names.push(b"absent");
    }
    for name in names {
        assert_eq!(root.open_read(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name:?}");
        assert_eq!(root.open_read_write(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name:?}");
    }
    assert_eq!(root.open_read(b"missing").unwrap_err().kind(), ErrorKind::NotFound);
    for (major, minor) in [(1 << 12, 0), (0, 1 << 20), (u32::MAX, u32::MAX)] {
        let error = root.make_device(b"large", 0o600, false, major, minor).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn an_opened_file_blocks_as_files_do() {
    let (_scratch, root) = scratch();
    root.create_new(b"file", 0o600).unwrap();
    for file in [root.open_read(b"file").unwrap(), root.open_read_write(b"file").unwrap()] {
        let flags = rustix::fs::fcntl_getfl(&file).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
        let kept = rustix::io::fcntl_getfd(&file).unwrap();
        assert!(kept.contains(rustix::io::FdFlags::CLOEXEC));
    }
}

#[test]
fn metadata_of_a_link_is_the_links_own() {
    let (scratch, root) = scratch();
    root.create_new(b"file", 0o600).unwrap();
    symlink("file", scratch.path().join("link")).unwrap();
    let file = root.stat(b"file").unwrap();

    let (atime, mtime) =
        (Time { seconds: -3, nanos: 4 }, Time { seconds: 1_600_000_000, nanos: 987_654_321 });
    root.set_times(b"link", Some(atime), Some(mtime)).unwrap();
    let link = root.stat(b"link").unwrap();
    assert_eq!((link.kind, link.mtime), (Kind::Symlink, mtime));
    assert_eq!(link.atime.seconds, -3);
    // One time can be left as it is.
    root.set_times(b"link", None, Some(Time { seconds: 7, nanos: 0 })).unwrap();
    let link = root.stat(b"link").unwrap();
    assert_eq!((link.atime.seconds, link.mtime.seconds), (-3, 7));

    assert_eq!(root.set_mode(b"link", 0o777).unwrap_err().kind(), ErrorKind::InvalidInput);
    if user::has_capability_chown() {
        root.set_owner(b"link", Some(1234), Some(5678)).unwrap();
        let link = root.stat(b"link").unwrap();
        assert_eq!((link.uid, link.gid), (1234, 5678));
        root.set_owner(b"link", Some(4321), None).unwrap();
        assert_eq!((root.stat(b"link").unwrap().uid, root.stat(b"link").unwrap().gid), (4321, 5678));
    } else {
        println!("skipped: this process may not give files away");
    }
    assert_eq!(root.stat(b"file").unwrap(), file, "the target was touched");
}

#[test]
fn a_directorys_own_metadata_is_reached_through_its_handle() {
    let (_scratch, root) = scratch();
    let own = root.as_file().unwrap();
    own.set_mode(0o750).unwrap();
    own.set_times(None, Some(Time { seconds: 5, nanos: 6 })).unwrap();
    let stat = root.stat_self().unwrap();
    assert_eq!((stat.mode, stat.mtime), (0o750, Time { seconds: 5, nanos: 6 }));
}

#[test]
fn a_directory_that_may_not_be_read_can_be_passed() {
    let (_scratch, root) = scratch();
    root.make_dir(b"dark", 0o700).unwrap();
    root.open_beneath(b"dark", Links::Refuse).unwrap().make_dir(b"deep", 0o700).unwrap();
    root.set_mode(b"dark", 0o300).unwrap();
    if user::effective_uid() == 0 {
        println!("skipped: root may read everything");
    } else {
        let dark = root.open_beneath(b"dark", Links::Refuse).unwrap();
        dark.open_beneath(b"deep", Links::Refuse).unwrap();
        dark.create_new(b"file", 0o600).unwrap();
        assert_eq!(dark.entries().unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(dark.sync().unwrap_err().kind(), ErrorKind::PermissionDenied);
        dark.file_system().unwrap();
    }
    root.set_mode(b"dark", 0o700).unwrap();
}

/// One attribute that this kind of entry may have here, or why there is none.
fn try_xattr(root: &Dir, name: &[u8]) -> Option<&'static [u8]> {
    let mut why = None;
    for key in [&b"user.thalweg"[..], b"trusted.thalweg"] {
        match root.set_xattr(name, key, b"value\0with\xffbytes") {
            Ok(()) => return Some(key),
            Err(error) => why = Some(error),
        }
    }
    println!("skipped: no attributes on {:?} here: {}", String::from_utf8_lossy(name), why.unwrap());
    None
}

#[test]
fn attributes_are_bytes_on_every_kind_of_entry() {
    let (_scratch, root) = scratch();
    root.create_new(b"file", 0o600).unwrap();
    root.make_dir(b"dir", 0o700).unwrap();
    root.make_fifo(b"pipe", 0o600).unwrap();
    root.make_symlink(b"file", b"link").unwrap();
    let has = |name: &[u8], key: &[u8]| root.xattrs(name).unwrap().into_iter().find(|(k, _)| k == key);
    for name in [&b"link"[..], b"pipe", b"dir", b"file"] {
        let Some(key) = try_xattr(&root, name) else { continue };
        assert_eq!(has(name, key).unwrap().1, b"value\0with\xffbytes");
        if name == b"link" {
            assert_eq!(has(b"file", key), None, "the link was followed");
        }
        root.set_xattr(name, key, b"").unwrap();
        assert_eq!(has(name, key).unwrap().1, b"");
        root.remove_xattr(name, key).unwrap();
        assert_eq!(has(name, key), None);
        assert!(root.remove_xattr(name, key).is_err());
    }
    for bad in [&b""[..], b"user.a\0b", &[b'x'; 256]] {
        assert_eq!(root.set_xattr(b"file", bad, b"").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(root.remove_xattr(b"file", bad).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let large = vec![0; (64 << 10) + 1];
    assert_eq!(root.set_xattr(b"file", b"user.a", &large).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn attributes_by_name_and_by_descriptor_are_the_same() {
    let (_scratch, root) = scratch();
    let file = root.create_new(b"file", 0o600).unwrap();
    if try_xattr(&root, b"file").is_none() {
        return;
    }
    // Enough for a list and a value beyond the first guess of their length.
    for number in 0..40 {
        let key = format!("user.a-rather-long-name-of-an-attribute-{number}").into_bytes();
        if let Err(error) = file.set_xattr(&key, &vec![number; if number == 0 { 1500 } else { 3 }]) {
            println!("skipped: no room for more than {number} attributes: {error}");
            break;
        }
    }
    let mut by_name = root.xattrs(b"file").unwrap();
    let mut by_descriptor = file.xattrs().unwrap();
    by_name.sort();
    by_descriptor.sort();
    assert_eq!(by_name, by_descriptor);
    assert!(by_name.len() > 1);
    for (key, _) in by_name.iter().filter(|(key, _)| key.starts_with(b"user.")) {
        file.remove_xattr(key).unwrap();
    }
    assert!(file.xattrs().unwrap().iter().all(|(key, _)| !key.starts_with(b"user.")));
}

#[test]
fn a_file_system_without_attributes_has_none() {
    let process = Dir::open(Path::new("/proc/self")).unwrap();
    assert_eq!(process.xattrs(b"status").unwrap(), Vec::new());
    assert_eq!(process.open_read(b"status").unwrap().xattrs().unwrap(), Vec::new());
}
