//! Nothing leads out of a held directory: not a path, not a link, not somebody who swaps components meanwhile.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thalweg_sys::{Dir, Kind, Links, Replace, Time};

const BOTH: [Links; 2] = [Links::Refuse, Links::Beneath];

/// `tree/inside/here` to be opened, and `outside/here` never.
fn tree() -> (tempfile::TempDir, Dir) {
    let scratch = tempfile::tempdir().unwrap();
    fs::create_dir_all(scratch.path().join("tree/inside/here")).unwrap();
    fs::create_dir_all(scratch.path().join("outside/here")).unwrap();
    let root = Dir::open(&scratch.path().join("tree")).unwrap();
    (scratch, root)
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn a_path_of_a_peer_is_relative_and_goes_only_down() {
    let (scratch, root) = tree();
    for links in BOTH {
        let here = root.open_beneath(b"inside//./here/", links).unwrap();
        assert_eq!(here.stat_self().unwrap().inode, inode(&scratch.path().join("tree/inside/here")));
        for own in [&b""[..], b".", b"./", b"./."] {
            let same = root.open_beneath(own, links).unwrap();
            assert!(same.stat_self().unwrap().is_same_entry(&root.stat_self().unwrap()));
        }
        for refused in [
            &b"/"[..],
            b"/etc",
            b"..",
            b"../outside",
            b"inside/../..",
            b"inside/../inside",
            b"inside/..",
            b"a\0b",
        ] {
            let error = root.open_beneath(refused, links).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{refused:?}");
        }
        let long = [b"inside/here/../../".repeat(500).as_slice(), b"inside"].concat();
        assert_eq!(root.open_beneath(&long, links).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_link_is_followed_only_beneath_and_only_when_asked() {
    let (scratch, root) = tree();
    let path = scratch.path().join("tree");
    symlink("inside", path.join("good")).unwrap();
    symlink("../good", path.join("inside/back")).unwrap();
    symlink("../outside", path.join("relative")).unwrap();
    symlink("../../outside", path.join("inside/relative")).unwrap();
    symlink(scratch.path().join("outside"), path.join("absolute")).unwrap();
    symlink(path.join("inside"), path.join("absolute-inside")).unwrap();
    symlink("loop", path.join("loop")).unwrap();

    for good in [&b"good/here"[..], b"inside/back/here"] {
        let here = root.open_beneath(good, Links::Beneath).unwrap();
        assert_eq!(here.stat_self().unwrap().inode, inode(&path.join("inside/here")));
        assert!(root.open_beneath(good, Links::Refuse).is_err());
    }
    for bad in [&b"relative/here"[..], b"relative", b"inside/relative", b"absolute", b"absolute/here"] {
        for links in BOTH {
            assert!(root.open_beneath(bad, links).is_err(), "{bad:?} {links:?}");
        }
    }
    assert!(root.open_beneath(b"absolute-inside", Links::Beneath).is_err());
    assert!(root.open_beneath(b"loop", Links::Beneath).is_err());
}

#[test]
fn a_magic_link_is_never_followed() {
    let process = Dir::open(Path::new("/proc/self")).unwrap();
    assert_eq!(process.stat(b"cwd").unwrap().kind, Kind::Symlink);
    for links in BOTH {
        for magic in [&b"cwd"[..], b"root", b"root/etc", b"task/../cwd"] {
            assert!(process.open_beneath(magic, links).is_err(), "{magic:?} {links:?}");
        }
    }
    assert_eq!(process.open_read(b"exe").unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn every_call_refuses_a_name_that_is_a_path() {
    let (_scratch, root) = tree();
    let long = [b'x'; 256];
    for bad in [&b""[..], b".", b"..", b"../outside", b"inside/here", b"/etc/passwd", b"a\0", &long] {
        let refusals: Vec<io::Result<()>> = vec![
            root.stat(bad).map(drop),
            root.open_read(bad).map(drop),
            root.open_read_write(bad).map(drop),
            root.create_new(bad, 0o600).map(drop),
            root.make_dir(bad, 0o700),
            root.remove_file(bad),
            root.remove_dir(bad),
            root.rename(bad, &root, b"x", Replace::Existing),
            root.rename(b"inside", &root, bad, Replace::Never),
            root.rename(b"inside", &root, bad, Replace::Exchange),
            root.make_symlink(b"target", bad),
            root.read_link(bad).map(drop),
            root.make_link(bad, &root, b"x"),
            root.make_link(b"inside", &root, bad),
            root.make_fifo(bad, 0o600),
            root.make_device(bad, 0o600, false, 1, 3),
            root.set_times(bad, None, None),
            root.set_owner(bad, None, None),
            root.set_mode(bad, 0o600),
            root.xattrs(bad).map(drop),
            root.set_xattr(bad, b"user.a", b"1"),
            root.remove_xattr(bad, b"user.a"),
        ];
        for (call, refusal) in refusals.into_iter().enumerate() {
            assert_eq!(refusal.unwrap_err().kind(), ErrorKind::InvalidInput, "call {call}, name {bad:?}");
        }
    }
    assert_eq!(root.entries().unwrap().count(), 1);
}

/// A second thread exchanges a directory and a link that leads out, as fast as it can, while we open beneath.
#[test]
fn ten_thousand_swaps_of_a_component_open_no_way_out() {
    for (links, target) in [
        (Links::Refuse, "../outside"),
        (Links::Beneath, "../outside"),
        (Links::Beneath, "absolute"),
        (Links::Beneath, "inside/../../outside"),
    ] {
        let (scratch, root) = tree();
        let outside = scratch.path().join("outside");
        let outside_inode = inode(&outside.join("here"));
        let inside_inode = inode(&scratch.path().join("tree/inside/here"));
        let target = if target == "absolute" { outside.clone() } else { target.into() };
        symlink(target, scratch.path().join("tree/trap")).unwrap();

        let (mut opened, mut refused) = (0u64, 0u64);
        // On a busy machine the two threads may fall into step; then again.
        for _ in 0..20 {
            while_swapping(&root, b"inside", b"trap", || match root.open_beneath(b"inside/here", links) {
                Ok(dir) => {
                    let inode = dir.stat_self().unwrap().inode;
                    assert_ne!(inode, outside_inode, "escaped");
                    assert_eq!(inode, inside_inode);
                    opened += 1;
                }
                Err(_) => refused += 1,
            });
            if opened > 0 && refused > 0 {
                break;
            }
        }
        println!("{links:?}: {opened} opened inside, {refused} refused, 0 escaped");
        assert!(opened > 0 && refused > 0, "the swap was never seen: {opened} {refused}");
        assert_eq!(outside_inode, inode(&outside.join("here")));
    }
}

/// The same with one name: a file and a link to a file outside change places while we read and change it.
#[test]
fn ten_thousand_swaps_of_a_name_touch_nothing_outside() {
    let (scratch, root) = tree();
    let secret = scratch.path().join("outside/secret");
    fs::write(&secret, b"secret").unwrap();
    fs::write(scratch.path().join("tree/file"), b"public").unwrap();
    symlink("../outside/secret", scratch.path().join("tree/trap")).unwrap();
    let before = fs::metadata(&secret).unwrap();

    let (mut read, mut refused, mut round) = (0u64, 0u64, 0u32);
    while_swapping(&root, b"file", b"trap", || {
        round += 1;
        match root.open_read(b"file").and_then(|file| file.read_to_end(100)) {
            Ok(bytes) => {
                assert_eq!(bytes, b"public");
                read += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
                refused += 1;
            }
        }
        if let Ok(file) = root.open_read_write(b"file") {
            file.write_all_at(b"P", 0).unwrap();
            file.write_all_at(b"p", 0).unwrap();
        }
        let _ = root.set_mode(b"file", 0o600 + round % 64);
        let _ = root.set_owner(b"file", None, None);
        let time = Some(Time { seconds: i64::from(round), nanos: 0 });
        root.set_times(b"file", time, time).unwrap();
        let _ = root.set_xattr(b"file", b"user.swap", b"1");
        let _ = root.xattrs(b"file").unwrap();
    });
    println!("{read} read inside, {refused} refused");
    assert!(read > 0 && refused > 0, "the swap was never seen: {read} {refused}");

    let after = fs::metadata(&secret).unwrap();
    assert_eq!(fs::read(&secret).unwrap(), b"secret");
    assert_eq!((after.mode(), after.uid(), after.mtime()), (before.mode(), before.uid(), before.mtime()));
    assert_eq!((after.ctime(), after.ctime_nsec()), (before.ctime(), before.ctime_nsec()));
    let outside = Dir::open(&scratch.path().join("outside")).unwrap();
    assert!(outside.xattrs(b"secret").unwrap().iter().all(|(key, _)| key != b"user.swap"));
}

/// Runs `work` at least 10 000 times and until there were 10 000 exchanges of `a` and `b`.
fn while_swapping(root: &Dir, a: &[u8], b: &[u8], mut work: impl FnMut()) {
    const ROUNDS: u64 = 10_000;
    /// Stops the swapper even where an assertion of `work` unwinds through the scope.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                root.rename(a, root, b, Replace::Exchange).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _stop = Stop(&stop);
        let mut rounds = 0;
        while rounds < ROUNDS || swaps.load(Ordering::Relaxed) < ROUNDS {
            work();
            rounds += 1;
        }
    });
}
