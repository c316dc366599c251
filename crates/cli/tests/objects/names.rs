//! Keys that are no paths, and names that are no keys.

use super::servers::{Kind, each, with};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

#[test]
fn keys_that_are_no_paths_are_told_by_name_and_the_rest_is_copied() {
    with(Kind::Moto, "keys", |server| {
        server.put_raw("k//two", b"x");
        server.put("k/good", b"good");
        let copied = server.run(&["cp", &server.place("k/"), &server.path("down/")]).expect(2);
        assert!(copied.stderr.contains("k//two"), "{copied:?}");
        assert_eq!(std::fs::read(server.scratch.path("down/good")).unwrap(), b"good");
        let listed = server.run(&["ls", "-R", &server.place("k/")]).expect(2);
        assert!(listed.stdout.contains("good") && listed.stderr.contains("k//two"), "{listed:?}");
    });
}

#[test]
fn an_object_and_a_directory_of_one_name_are_told_and_the_rest_is_copied() {
    with(Kind::Moto, "object beside directory", |server| {
        server.put("k/a", b"object");
        server.put("k/a/b", b"below");
        server.put("k/c", b"c");
        let copied = server.run(&["cp", &server.place("k/"), &server.path("down/")]).expect(2);
        assert!(copied.stderr.contains('a'), "{copied:?}");
        assert_eq!(std::fs::read(server.scratch.path("down/c")).unwrap(), b"c");
        let a = server.scratch.path("down/a");
        let one = [std::fs::read(&a).ok(), std::fs::read(a.join("b")).ok()];
        assert!(one.iter().flatten().count() <= 1, "{one:?}");
    });
}

#[test]
fn what_a_bucket_cannot_hold_is_named_and_the_rest_is_copied() {
    each("names", |server| {
        let from = server.scratch.path("from");
        std::fs::create_dir(&from).unwrap();
        std::fs::write(from.join("good"), b"good").unwrap();
        std::fs::write(from.join(OsStr::from_bytes(b"not utf-8 \xff")), b"x").unwrap();
        let copied = server.run(&["cp", &server.path("from/"), &server.place("up/")]).expect(2);
        assert!(copied.stderr.contains("not utf-8 \\xff"), "{copied:?}");
        assert_eq!(server.keys(), ["up/good"]);
        // A link is left out, and that is told.
        symlink("good", from.join("link")).unwrap();
        let copied = server.run(&["cp", &server.path("from/"), &server.place("up/")]);
        assert!(format!("{}{}", copied.stdout, copied.stderr).contains("link"), "{copied:?}");
        assert_eq!(server.keys(), ["up/good"]);
    });
}
