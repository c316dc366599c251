//! The everyday copies, by the real program.

mod support;

use std::os::unix::fs::MetadataExt;
use support::{Scratch, assert_no_litter, assert_same, make_tree, noise};

#[test]
fn a_tree_copied_locally_is_the_same_in_everything() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    let out = scratch.ok(["cp".into(), scratch.path("from/"), scratch.path("to")]);
    assert!(out.contains("narrowest stage"), "{out}");
    assert_same(&scratch.path("from"), &scratch.path("to"));
    assert_no_litter(&scratch.path("to"));
}

#[test]
fn a_tree_goes_through_a_daemon_and_comes_back_the_same() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let ticket = daemon.ticket.display().to_string();
    let from = scratch.path("from").display().to_string();
    scratch.ok(["cp", "--ticket", &ticket, &from, &daemon.place("data", "")]);
    assert_same(&scratch.path("from"), &scratch.path("export/from"));
    assert_no_litter(&scratch.path("export"));
    let back = scratch.path("back").display().to_string();
    scratch.ok(["cp", "--ticket", &ticket, &daemon.place("data", "from/"), &back]);
    assert_same(&scratch.path("from"), &scratch.path("back"));
    assert_no_litter(&scratch.path("back"));
}

#[test]
fn running_a_copy_twice_neither_nests_nor_sends_again() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    for _ in 0..2 {
        scratch.ok(["cp".into(), scratch.path("from"), scratch.path("to")]);
    }
    assert!(!scratch.path("to/from/from").exists());
    let out = scratch.ok(["cp".into(), "--json".into(), scratch.path("from"), scratch.path("to")]);
    assert!(out.contains("\"bytes_received\":0"), "{out}");
    assert_same(&scratch.path("from"), &scratch.path("to/from"));
}

#[test]
fn a_single_file_gets_a_new_name_or_goes_into_a_directory() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 3 << 20)).unwrap();
    scratch.ok(["cp".into(), scratch.path("file"), scratch.path("new-name")]);
    assert_eq!(std::fs::read(scratch.path("new-name")).unwrap(), noise(1, 3 << 20));
    std::fs::create_dir(scratch.path("dir")).unwrap();
    scratch.ok(["cp".into(), scratch.path("file"), scratch.path("dir")]);
    assert_eq!(std::fs::read(scratch.path("dir/file")).unwrap(), noise(1, 3 << 20));
}

#[test]
fn a_hole_of_a_tebibyte_takes_no_time_and_no_space() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    let file = std::fs::File::create(scratch.path("from/hole")).unwrap();
    file.set_len(1 << 40).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"island", 700 << 30).unwrap();
    scratch.ok(["cp".into(), scratch.path("from/"), scratch.path("to")]);
    let copy = std::fs::metadata(scratch.path("to/hole")).unwrap();
    assert_eq!(copy.len(), 1 << 40);
    assert!(copy.blocks() * 512 <= (1 << 20), "{} blocks", copy.blocks());
    let mut island = [0; 6];
    let file = std::fs::File::open(scratch.path("to/hole")).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut island, 700 << 30).unwrap();
    assert_eq!(&island, b"island");
}

#[test]
fn a_usage_error_is_exit_1_and_an_unreachable_daemon_exit_3() {
    let scratch = Scratch::new();
    assert_eq!(scratch.run(["cp", "only-one-place"]).status.code(), Some(1));
    assert_eq!(scratch.run(["cp", "/nonexistent/thing", "x"]).status.code(), Some(3));
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let (ticket, place) = (daemon.ticket.clone(), daemon.place("data", ""));
    daemon.kill();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let out = scratch.run(["cp".into(), "--ticket".into(), ticket, scratch.path("file"), place.into()]);
    assert_eq!(out.status.code(), Some(3));
}

#[test]
fn every_level_of_verification_and_every_cipher_gives_the_same_copy() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let ticket = daemon.ticket.display().to_string();
    let from = scratch.path("from/").display().to_string();
    for (name, options) in [
        ("readback", &["--verify", "readback"][..]),
        ("paranoid", &["--verify", "paranoid"]),
        ("aes256", &["--cipher", "aes256"]),
        ("chacha20", &["--cipher", "chacha20"]),
        ("tls", &["--cipher", "tls"]),
        ("compressed", &["-z", "--streams", "3"]),
        ("small-chunks", &["--chunk", "64KiB", "--streams", "1"]),
    ] {
        let far = daemon.place("data", name);
        let mut words = vec!["cp", "--ticket", &ticket];
        words.extend_from_slice(options);
        scratch.ok(words.iter().copied().chain([from.as_str(), far.as_str()]));
        assert_same(&scratch.path("from"), &scratch.path("export").join(name));
        let back = scratch.path(&format!("back-{name}")).display().to_string();
        let far = daemon.place("data", &format!("{name}/"));
        scratch.ok(words.iter().copied().chain([far.as_str(), back.as_str()]));
        assert_same(&scratch.path("from"), scratch.path(&format!("back-{name}")).as_path());
    }
}

#[test]
fn a_rate_limit_is_kept() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 4 << 20)).unwrap();
    let started = std::time::Instant::now();
    scratch.ok(["cp".into(), "--bwlimit".into(), "2MB/s".into(), scratch.path("file"), scratch.path("copy")]);
    // 4 MiB at 2 MB/s, the first segment at once. No upper bound: that would time the machine.
    assert!(started.elapsed() >= std::time::Duration::from_millis(1500));
}
