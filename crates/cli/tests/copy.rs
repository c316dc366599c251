//! The everyday copies, by the real program.

mod support;

#[path = "copy/removal.rs"]
mod removal;

#[path = "copy/deletion.rs"]
mod deletion;

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::chance::{in_time, skipped};
use support::job::{Strace, peak_memory};
use support::volume::{Volume, can_mount};
use support::{Scratch, assert_no_litter, assert_same, facts, finish, make_tree, noise};
use thalweg_lab::wrap::wrap;
use thalweg_sys::{Dir, user};

#[test]
fn a_tree_copied_locally_is_the_same_in_everything() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    scratch.ok(["cp".into(), scratch.path("from/"), scratch.path("to")]);
    assert_same(&scratch.path("from"), &scratch.path("to"));
    assert_no_litter(&scratch.path("to"));
}

/// What these tests compare trees with sees what neither bytes nor modes show.
#[test]
fn trees_that_differ_in_attributes_or_holes_are_not_the_same() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    make_tree(&from);
    scratch.ok(["cp".into(), scratch.path("from/"), to.clone()]);
    let differ = || std::panic::catch_unwind(|| assert_same(&from, &to)).is_err();
    assert!(!differ());
    let there = Dir::open(&to).unwrap();
    match there.set_xattr(b"one-byte", b"user.a", b"1") {
        Ok(()) => {
            assert!(differ(), "an attribute");
            there.remove_xattr(b"one-byte", b"user.a").unwrap();
            assert!(!differ());
        }
        Err(error) => skipped("trees that differ", &format!("no attributes here: {error}")),
    }
    let sparse = std::fs::metadata(from.join("sparse")).unwrap();
    if sparse.blocks() * 512 >= sparse.len() {
        skipped("trees that differ", "no holes here");
        return;
    }
    let file = std::fs::File::options().write(true).open(to.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0; 8 << 20], 1 << 20).unwrap();
    file.sync_all().unwrap();
    file.set_modified(sparse.modified().unwrap()).unwrap();
    assert!(differ(), "zeros that are no hole");
}

/// A copy of an instant is no measurement of the way; of one that took a second the last line names the narrowest
/// stage.
#[test]
fn the_last_line_names_the_narrowest_stage_of_what_took_a_second_or_where_it_is_asked() {
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.path("small"), b"x").unwrap();
    std::fs::write(scratch.path("file"), noise(1, 3 << 20)).unwrap();
    let said = |options: &[&str], from: &str, to: &str| {
        let mut words: Vec<std::ffi::OsString> = vec!["cp".into()];
        words.extend(options.iter().map(Into::into));
        words.extend([scratch.path(from).into(), scratch.path(to).into()]);
        scratch.ok(words)
    };
    let small = said(&[], "small", "1");
    assert!(!small.contains("narrowest stage") && !small.contains("no profile"), "{small}");
    let asked = said(&["-v"], "small", "2");
    assert!(asked.contains("narrowest stage: "), "{asked}");
    let long = said(&["--bwlimit", "2MB/s"], "file", "3");
    assert!(long.contains("narrowest stage: ") && !long.contains("no profile"), "{long}");
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

/// A destination is made with all that is missing above it; as a mistyped path looks the same, that is said.
#[test]
fn directories_that_are_made_above_a_destination_are_told() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), b"x").unwrap();
    let said = |options: &[&str], from: &str, to: &str| {
        let mut words: Vec<std::ffi::OsString> = vec!["cp".into()];
        words.extend(options.iter().map(Into::into));
        words.extend([scratch.path(from).into(), scratch.path(to).into()]);
        let out = scratch.run(words);
        assert!(out.status.success(), "{out:?}");
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
    };
    let first = |name: &str| format!("made `{}` and what is below it", scratch.path(name).display());
    let dry = said(&["-n"], "from", "mistyped/deep/er");
    assert!(dry.contains("would make `") && !scratch.path("mistyped").exists(), "{dry}");
    let made = said(&[], "from", "mistyped/deep/er");
    assert!(made.contains(&first("mistyped")), "{made}");
    let again = said(&[], "from", "mistyped/deep/er");
    assert!(!again.contains("made `"), "{again}");
    let json = said(&["--json"], "from/", "other/deep");
    let told = json.lines().find(|line| line.contains("\"note\"")).unwrap_or_default();
    assert!(told.contains(&first("other")), "{json}");
    let file = said(&[], "from/file", "third/new-name");
    assert!(file.contains(&first("third")), "{file}");
    // What is named itself is made as a matter of course.
    let usual = said(&[], "from/", "usual");
    assert!(!usual.contains("made `"), "{usual}");
}

#[test]
fn a_dry_run_tells_its_plan_once_however_much_is_to_be_told() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let (file, to) = (scratch.path("file").display().to_string(), scratch.path("to").display().to_string());
    for told in [&["-n"][..], &["-n", "-v"], &["-n", "-vv"]] {
        let out = scratch.run([&["cp"][..], told, &[&*file, &*to]].concat());
        let text =
            format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert_eq!(text.matches("  streams ").count(), 1, "{told:?}: {text}");
    }
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
    let begun = Instant::now();
    scratch.ok(["cp".into(), scratch.path("from/"), scratch.path("to")]);
    // Who reads it, at 10 GB/s, takes a hundred seconds.
    let took = begun.elapsed();
    assert!(in_time("a hole of a tebibyte", took, Duration::from_secs(10)), "{took:?}");
    let copy = std::fs::metadata(scratch.path("to/hole")).unwrap();
    assert_eq!(copy.len(), 1 << 40);
    assert!(copy.blocks() * 512 <= (1 << 20), "{} blocks", copy.blocks());
    let mut island = [0; 6];
    let file = std::fs::File::open(scratch.path("to/hole")).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut island, 700 << 30).unwrap();
    assert_eq!(&island, b"island");
}

#[test]
fn a_file_that_is_one_hole_comes_as_one_anywhere() {
    let scratch = Scratch::new();
    // Whole chunks, one that is none, and so small that holes are not told apart.
    let sizes = [2u64 << 30, (2 << 30) + 5, 1 << 40, 1 << 20];
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::create_dir(scratch.path("export")).unwrap();
    for size in sizes {
        let file = std::fs::File::create(scratch.path(&format!("from/{size}"))).unwrap();
        file.set_len(size).unwrap();
    }
    scratch.ok(["cp".into(), scratch.path("from/"), scratch.path("to")]);
    scratch.ok(["cp".into(), scratch.path("from/"), std::path::PathBuf::from("null:")]);
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let far = daemon.place("data", "there");
    scratch.ok(["cp".into(), "--ticket".into(), daemon.ticket.clone(), scratch.path("from/"), far.into()]);
    for (directory, size) in ["to", "export/there"].into_iter().flat_map(|to| sizes.map(|size| (to, size))) {
        let copy = std::fs::metadata(scratch.path(&format!("{directory}/{size}"))).unwrap();
        assert_eq!(copy.len(), size);
        assert!(copy.blocks() * 512 <= (1 << 20), "{directory}/{size}: {} blocks", copy.blocks());
    }
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

/// Where the kernel can: `cargo xtask ktls`.
#[test]
fn in_tls_form_who_seals_is_said_and_streams_are_replaced_before_a_key_is_used_up() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(3, 40 << 20)).unwrap();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let ticket = daemon.ticket.display().to_string();
    let file = scratch.path("file").display().to_string();
    // 1024 records are 16 MiB.
    let words = ["cp", "-v", "--ticket", &ticket, "--cipher", "tls", "--ktls", "on", "--streams", "1"];
    let words = words.iter().copied().chain(["--tls-records", "1024"]);
    let far = daemon.place("data", "");
    let output = scratch.run(words.chain([file.as_str(), far.as_str()]));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let who = told.lines().find(|line| line.starts_with("kTLS: ")).expect("a line that says who seals");
    assert!(who.starts_with("kTLS: used (") || who.starts_with("kTLS: not used: the kernel"), "{who}");
    assert!(told.contains("its TLS key has sealed"), "{told}");
    assert!(
        std::fs::read(scratch.path("file")).unwrap() == std::fs::read(scratch.path("export/file")).unwrap()
    );
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

#[test]
fn names_that_the_source_has_and_does_not_send_are_not_deleted() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    for directory in [&from, &to.join("pipe"), &to.join("socket"), &to.join("gone")] {
        std::fs::create_dir_all(directory).unwrap();
    }
    std::fs::write(from.join("file"), "x").unwrap();
    let made = Command::new("mkfifo").arg(from.join("pipe")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    std::fs::write(to.join("pipe/inside"), "x").unwrap();
    std::fs::write(to.join("gone/inside"), "x").unwrap();
    let from_words = format!("{}/", from.display());
    let to_words = to.display().to_string();
    scratch.ok(["sync", "--delete", "--max-delete", "2", &from_words, &to_words]);
    assert!(to.join("pipe/inside").exists() && to.join("socket").exists());
    assert!(!to.join("gone").exists());
    // The same by a daemon, which learns of them from the sender.
    std::fs::create_dir(to.join("gone")).unwrap();
    let daemon = scratch.daemon(&[("data", &to)]);
    let ticket = daemon.ticket.display().to_string();
    let place = daemon.place("data", "");
    scratch.ok(["sync", "--delete", "--max-delete", "1", "--ticket", &ticket, &from_words, &place]);
    assert!(to.join("pipe/inside").exists() && to.join("socket").exists());
    assert!(!to.join("gone").exists());
}

/// Here, and pulled from a daemon, who is the one to list.
#[test]
fn another_file_system_is_left_out_and_what_the_copy_has_of_it_is_not_deleted() {
    if !can_mount("--one-file-system") {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("file"), "x").unwrap();
    let volume = Volume::in_memory(&from, "m", "size=1m");
    std::fs::write(volume.path.join("inside"), "x").unwrap();
    let daemon = scratch.daemon(&[("data", &from)]);
    let ticket = daemon.ticket.display().to_string();
    for (place, name) in [(format!("{}/", from.display()), "here"), (daemon.place("data", ""), "pulled")] {
        let to = scratch.path(name);
        std::fs::create_dir_all(to.join("m.mnt")).unwrap();
        std::fs::write(to.join("m.mnt/keep"), "x").unwrap();
        std::fs::write(to.join("extra"), "x").unwrap();
        let to_words = to.display().to_string();
        scratch.ok(["sync", "-x", "--delete", "--ticket", &ticket, &place, &to_words]);
        assert!(to.join("file").exists() && to.join("m.mnt/keep").exists(), "{name}");
        assert!(!to.join("m.mnt/inside").exists() && !to.join("extra").exists(), "{name}");
    }
}

/// Here, and pulled from a daemon: out of its export no link leads.
#[test]
fn what_links_lead_to_is_copied_where_that_is_asked_and_nothing_from_outside_an_export() {
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir_all(from.join("real/sub")).unwrap();
    std::fs::write(from.join("real/sub/f"), "content").unwrap();
    std::fs::write(scratch.path("beside"), "beside").unwrap();
    for (name, says) in [("to-dir", "real/sub"), ("to-file", "to-dir/f"), ("out", "../beside")] {
        std::os::unix::fs::symlink(says, from.join(name)).unwrap();
    }
    let daemon = scratch.daemon(&[("data", &from)]);
    let ticket = daemon.ticket.display().to_string();
    let here = format!("{}/", from.display());
    for (place, name, code) in [(here, "here", 0), (daemon.place("data", ""), "pulled", 2)] {
        let to = scratch.path(name);
        let to_words = to.display().to_string();
        let copied = |options: &[&str]| {
            let places = [place.as_str(), to_words.as_str()];
            let out = scratch.run([options, &["-L", "--ticket", &ticket][..], &places[..]].concat());
            let told = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(code), "{name}: {told}");
            (String::from_utf8_lossy(&out.stdout).into_owned(), told)
        };
        let (_, told) = copied(&["cp"]);
        for path in ["to-dir/f", "to-file", "real/sub/f"] {
            assert_eq!(std::fs::read(to.join(path)).unwrap(), b"content", "{name}: {path}");
        }
        for path in ["to-dir", "to-file"] {
            assert!(!std::fs::symlink_metadata(to.join(path)).unwrap().is_symlink(), "{name}: {path}");
        }
        let why = "follow links failed on `out`: it leads to `../beside`, out of the export";
        let is_told = [why, "hint: from an export"].map(|text| told.contains(text));
        assert_eq!(is_told, [code == 2; 2], "{told}");
        assert_eq!(to.join("out").exists(), code == 0, "{name}");
        let (again, _) = copied(&["cp", "--json"]);
        assert!(again.contains("\"bytes_received\":0"), "{name}: {again}");
        // What the source has behind its links is not what it lacks. Where a name failed nothing is deleted.
        std::fs::write(to.join("to-dir/extra"), "x").unwrap();
        copied(&["sync", "--delete"]);
        assert!(to.join("to-dir/f").exists() && to.join("to-dir/extra").exists() == (code == 2), "{name}");
        assert_no_litter(&to);
    }
}

#[test]
fn a_link_that_leads_nowhere_or_without_end_fails_by_name_and_can_be_left_out() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir_all(from.join("d")).unwrap();
    std::fs::write(from.join("d/f"), "x").unwrap();
    for (name, says) in [("nowhere", "absent"), ("d/up", ".."), ("itself", "itself"), ("into", "../to")] {
        std::os::unix::fs::symlink(says, from.join(name)).unwrap();
    }
    let (from_words, to_words) = (format!("{}/", from.display()), to.display().to_string());
    let out = scratch.run(["cp", "-L", &from_words, &to_words]);
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{told}");
    for (name, why) in [
        ("nowhere", "it leads to `absent`, and nothing is there"),
        ("d/up", "it leads to a directory that it is in"),
        ("itself", "it leads to `itself`, and from link to link without end"),
        ("into", "it leads to the destination, which would be copied into itself"),
    ] {
        assert!(told.contains(&format!("follow links failed on `{name}`: {why}")), "{told}");
        assert!(std::fs::symlink_metadata(to.join(name)).is_err(), "{name}");
    }
    assert!(told.contains("hint: --exclude leaves"), "{told}");
    assert!(to.join("d/f").exists());
    let left_out = ["nowhere", "up", "itself", "into"].map(|name| format!("--exclude={name}"));
    let words = ["cp", "-L"].into_iter().chain(left_out.iter().map(String::as_str));
    scratch.ok(words.chain([from_words.as_str(), &to_words]));
    // A link that is the source itself hides nothing either.
    std::os::unix::fs::symlink("from", scratch.path("link")).unwrap();
    let out = scratch.run(["cp".into(), "-L".into(), scratch.path("link"), from.join("d")]);
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("is inside the source"), "{out:?}");
}

/// As in a container: a file of the machine's is mounted over its name, and a file system over that of a directory.
#[test]
fn what_is_mounted_over_costs_its_own_name_and_no_other() {
    if !can_mount("mounted over") {
        return;
    }
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir(&to).unwrap();
    let names = ["a", "b", "hosts", "m.mnt", "y", "z"];
    names.iter().for_each(|name| std::fs::write(from.join(name), name).unwrap());
    std::fs::write(to.join("hosts"), "below").unwrap();
    std::fs::write(scratch.path("machine"), "of the machine").unwrap();
    let _bound = Volume::bound(&scratch.path("machine"), &to.join("hosts"));
    let _volume = Volume::in_memory(&to, "m", "size=1m");
    let (from_words, to_words) = (format!("{}/", from.display()), to.display().to_string());
    for words in [&["cp"][..], &["sync", "--delete"]] {
        let output = scratch.run([words, &[from_words.as_str(), to_words.as_str()]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for name in ["hosts", "m.mnt"] {
            assert!(said.contains(&format!("`{name}`: another file system is mounted there")), "{said}");
        }
        for name in names.iter().filter(|name| !["hosts", "m.mnt"].contains(name)) {
            assert_eq!(std::fs::read_to_string(to.join(name)).unwrap(), **name);
        }
        assert_eq!(std::fs::read_to_string(to.join("hosts")).unwrap(), "of the machine");
    }
    // What the source has no more cannot go either.
    std::fs::remove_file(from.join("hosts")).unwrap();
    std::fs::remove_file(from.join("a")).unwrap();
    let output = scratch.run(["sync", "--delete", from_words.as_str(), to_words.as_str()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`hosts`: another file system is mounted there"), "{said}");
    assert!(to.join("hosts").exists() && !to.join("a").exists(), "{said}");
}

#[test]
fn deletion_with_a_list_of_names_is_refused_before_anything_is_copied() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("file"), "x").unwrap();
    std::fs::write(scratch.path("list"), "file\n").unwrap();
    let list = scratch.path("list").display().to_string();
    let (from, to_words) = (format!("{}/", from.display()), to.display().to_string());
    let output = scratch.run(["sync", "--delete", "--files-from", &list, &from, &to_words]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing can be deleted"), "{said}");
    assert!(!to.exists());
}

/// Each once, before and while it is done, here, pushed and pulled.
#[test]
fn what_is_deleted_is_named() {
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("file"), "x").unwrap();
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let ticket = daemon.ticket.display().to_string();
    let at = |name: &str| format!("{}/", scratch.path(name).display());
    let deleted = |words: &[&str]| -> Vec<String> {
        let out = scratch.ok([&["sync", "--json", "--delete", "--ticket", &ticket], words].concat());
        let events = out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let named = events.filter(|event| event["event"] == "deleted");
        let mut names: Vec<String> = named.map(|event| event["path"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    for (from, to) in [
        (at("from"), at("here")),
        (at("from"), daemon.place("data", "pushed/")),
        (daemon.place("data", "from/"), at("pulled")),
    ] {
        for name in ["here", "pushed", "pulled"] {
            std::fs::create_dir_all(scratch.path(name).join("old")).unwrap();
            std::fs::write(scratch.path(name).join("old/inside"), "x").unwrap();
        }
        assert_eq!(deleted(&["-n", &from, &to]), ["old", "old/inside"]);
        assert_eq!(deleted(&[&from, &to]), ["old", "old/inside"]);
        assert_eq!(deleted(&[&from, &to]), [""; 0]);
    }
}

#[test]
fn f16_what_would_copy_into_itself_or_delete_its_source_is_refused() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path(name).display().to_string();
    std::fs::create_dir_all(scratch.path("a/sub")).unwrap();
    std::fs::write(scratch.path("a/f"), "content").unwrap();
    std::fs::write(scratch.path("a/sub/g"), "content").unwrap();
    std::fs::hard_link(scratch.path("a/f"), scratch.path("a/other-name")).unwrap();
    std::os::unix::fs::symlink("a", scratch.path("link")).unwrap();
    std::os::unix::fs::symlink("f", scratch.path("a/link-to-f")).unwrap();
    let before = facts(&scratch.path("a"));
    let refused = |words: &[&str], why: &str| {
        let output = scratch.run(words.iter().copied());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
        assert_eq!(facts(&scratch.path("a")), before, "{words:?}");
    };
    let (a, slash, sub) = (at("a"), at("a/"), at("a/sub/"));
    for to in ["a/f", "link/f", "a/other-name", "a/link-to-f", "a", "a/"] {
        refused(&["cp", &at("a/f"), &at(to)], "are the same");
    }
    for (from, to) in [(&slash, "a"), (&slash, "link/"), (&a, "")] {
        refused(&["cp", from, &at(to)], "are the same");
    }
    for (from, to) in [(&a, "a"), (&a, "a/sub"), (&slash, "a/new/deep"), (&slash, "link/sub/new/")] {
        refused(&["cp", from, &at(to)], "is inside the source");
        refused(&["cp", "-n", from, &at(to)], "is inside the source");
    }
    refused(&["sync", "--delete", &sub, &slash], "is inside the destination");
    if can_mount("a source by another way") {
        std::fs::create_dir(scratch.path("bound")).unwrap();
        let _bound = Volume::bound(&scratch.path("a"), &scratch.path("bound"));
        refused(&["cp", &slash, &at("bound")], "are the same");
        refused(&["cp", &slash, &at("bound/sub/new/")], "is inside the source");
    }
    // Upwards without deletion, and where the filter leaves out the way, nothing is lost or found twice.
    scratch.ok(["cp", &sub, &slash]);
    assert!(scratch.path("a/g").exists());
    scratch.ok(["cp", "--exclude", "/new", &slash, &at("a/new/")]);
    assert!(scratch.path("a/new/sub/g").exists() && !scratch.path("a/new/new").exists());
}

#[test]
fn the_last_event_is_the_end() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 4 << 20)).unwrap();
    let out = scratch.ok([
        "cp",
        "--json",
        "--bwlimit",
        "2MB/s",
        &scratch.path("file").display().to_string(),
        "null:",
    ]);
    assert!(out.contains("\"event\":\"progress\""), "{out}");
    assert!(out.lines().last().is_some_and(|line| line.contains("\"event\":\"finished\"")), "{out}");
}

/// No bar is drawn in a pipe: who asks for progress gets it in lines, and misses nothing else for it.
#[test]
fn progress_into_a_pipe_comes_in_lines_and_hides_no_error() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), b"x").unwrap();
    // A directory that is not empty stands where the file should go.
    std::fs::create_dir_all(scratch.path("to/file/full")).unwrap();
    let out = scratch.run(["cp".into(), "-P".into(), scratch.path("from/"), scratch.path("to")]);
    let told = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{told}");
    assert!(told.contains("error: "), "{told}");
    let is_progress = |line: &str| line.contains(" entries, 1 B of 1 B, ") && line.ends_with(" elapsed");
    assert!(told.lines().any(is_progress), "{told}");
}

#[test]
fn a_small_file_is_synced_by_itself_and_many_with_their_file_system() {
    if !Strace::available("syncs of small files") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("many")).unwrap();
    std::fs::write(scratch.path("one"), noise(1, 4096)).unwrap();
    for number in 0..50 {
        std::fs::write(scratch.path(&format!("many/{number}")), noise(number, 4096)).unwrap();
    }
    for (from, of_file_system, of_files) in [("one", false, true), ("many", true, false)] {
        let trace = scratch.path("trace");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-y", "-e", "trace=fsync,syncfs", "-o"]).arg(&trace);
        strace.arg(env!("CARGO_BIN_EXE_thalweg")).arg("cp").arg(scratch.path(from));
        strace.arg(scratch.path(&format!("to-{from}")));
        strace.env("THALWEG_STATE", scratch.path("client-state"));
        assert!(strace.status().expect("strace").success());
        let calls = std::fs::read_to_string(trace).unwrap();
        assert_eq!(calls.contains("syncfs("), of_file_system, "{calls}");
        assert_eq!(calls.contains("/lane-"), of_files, "{calls}");
    }
}

#[test]
fn a_report_is_durable_with_its_name() {
    if !Strace::available("syncs of a report") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.path("from"), "x").unwrap();
    std::fs::create_dir(scratch.path("reports")).unwrap();
    let trace = scratch.path("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-e", "trace=fsync", "-o"]).arg(&trace);
    strace.arg(env!("CARGO_BIN_EXE_thalweg")).arg("cp").arg("--report").arg(scratch.path("reports/report"));
    strace.arg(scratch.path("from")).arg(scratch.path("to"));
    strace.env("THALWEG_STATE", scratch.path("client-state"));
    assert!(strace.status().expect("strace").success());
    let calls = std::fs::read_to_string(trace).unwrap();
    let of = |path: &str| calls.find(path).unwrap_or_else(|| panic!("no sync of `{path}`: {calls}"));
    assert!(of("/reports/report>") < of("/reports>"), "the name before what it names: {calls}");
}

#[test]
fn p14_memory_is_bounded_on_both_sides_however_many_entries() {
    const DIRECTORIES: u64 = 30;
    const FILES: u64 = 1000;
    /// Of both sides, for buffers.
    const MEMORY: (&str, u64) = ("16MiB", 16 << 20);
    /// Each that is on its way at once, and on a busy machine all of these are. With nothing else to do the receiver
    /// took 47 MiB as a whole, and the sender 29.
    const ENTRY_BYTES: u64 = 2 << 10;
    let scratch = Scratch::new();
    for directory in 0..DIRECTORIES {
        let directory = scratch.path(&format!("from/{directory}"));
        std::fs::create_dir_all(&directory).unwrap();
        for file in 0..FILES {
            std::fs::write(directory.join(file.to_string()), "x").unwrap();
        }
    }
    std::fs::create_dir(scratch.path("to")).unwrap();
    let exports = [("from", scratch.path("from")), ("to", scratch.path("to"))];
    let exports: Vec<_> = exports.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let daemon = scratch.daemon_with(&exports, &["--memory", MEMORY.0]);
    let from = format!("{}/", scratch.path("from").display());
    let back = scratch.path("back").display().to_string();
    let copy = |places: [&str; 2]| {
        let mut command = scratch.thalweg();
        command.args(["cp", "-q", "--memory", MEMORY.0, "--ticket"]).arg(&daemon.ticket).args(places);
        command
    };
    // What either side has for a single file: the program and its threads.
    let one = scratch.path("one").display().to_string();
    assert!(copy([daemon.place("from", "0/0").as_str(), &one]).status().unwrap().success());
    let alone = peak_memory(daemon.pid()).unwrap();
    let most_allowed = alone + MEMORY.1 + DIRECTORIES * (FILES + 1) * ENTRY_BYTES;
    for places in [[from, daemon.place("to", "")], [daemon.place("from", ""), back]] {
        let mut command = copy([places[0].as_str(), &places[1]]);
        let told = scratch.path("told");
        let mut client = command.stderr(std::fs::File::create(&told).unwrap()).spawn().unwrap();
        let mut most = 0;
        let until = Instant::now() + Duration::from_secs(600);
        let status = loop {
            most = most.max(peak_memory(client.id()).unwrap_or(0));
            if let Some(status) = client.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > until {
                let _ = client.kill();
                panic!("the copy does not end: {}", std::fs::read_to_string(told).unwrap());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}: {}", std::fs::read_to_string(told).unwrap());
        assert!(most > 0 && most <= most_allowed, "the client took {most} bytes of {most_allowed}");
    }
    let most = peak_memory(daemon.pid()).unwrap();
    assert!(most <= most_allowed, "the daemon took {most} bytes of {most_allowed}, {alone} for one file");
    assert_eq!(facts(&scratch.path("from")).len(), (DIRECTORIES * (FILES + 1)) as usize);
    assert_eq!(facts(&scratch.path("from")), facts(&scratch.path("back")));
}

/// Nobody is to think that it is sealed as asked where it is not sealed at all, or in another form.
#[test]
fn options_of_a_form_that_nothing_travels_in_are_told() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"content").unwrap();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let ticket = daemon.ticket.display().to_string();
    let from = scratch.path("file").display().to_string();
    let told = |options: &[&str], to: &str| {
        let out = scratch.run([&["cp", "--ticket", &ticket][..], options, &[from.as_str(), to]].concat());
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{told}");
        told
    };
    let here = told(&["--cipher", "aes256", "--ktls", "on"], &scratch.path("copy").display().to_string());
    let text = "where nothing is sent: --cipher, --ktls (without --cipher tls)";
    assert!(here.contains(text), "{here}");
    let sealed = told(&["--ktls", "on", "--tls-records", "2048"], &daemon.place("data", "sealed"));
    let text = "without effect: --ktls (without --cipher tls), --tls-records (without --cipher tls)";
    assert!(sealed.contains(text), "{sealed}");
    let by_ssh = told(&["--far-path", "/x"], &daemon.place("data", "by-ssh"));
    assert!(by_ssh.contains("without effect: --far-path (no place is reached by ssh)"), "{by_ssh}");
    let words = ["--cipher", "tls", "--ktls", "on", "--tls-records", "2048"];
    let as_tls = told(&words, &daemon.place("data", "as-tls"));
    assert!(!as_tls.contains("without effect"), "{as_tls}");
}

/// What is not sent would be packed and unpacked for nothing, and written by way of the page cache.
#[test]
fn within_a_machine_nothing_is_compressed_and_the_user_is_told() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), vec![7; 8 << 20]).unwrap();
    let words = ["cp", "-z", "--json", "--dscp", "EF", "--bind", "lo", "--port", "33"].map(Into::into);
    let out = scratch.ok(words.into_iter().chain([scratch.path("file"), scratch.path("copy")]));
    assert_eq!(std::fs::read(scratch.path("copy")).unwrap(), vec![7; 8 << 20]);
    let events: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let notes: Vec<&str> = events
        .iter()
        .filter(|event| event["event"] == "note")
        .filter_map(|event| event["text"].as_str())
        .collect();
    let text =
        "without effect within this machine, where nothing is sent: --compress, --dscp, --bind, --port";
    assert_eq!(notes.iter().filter(|note| **note == text).count(), 1, "{notes:?}");
    // What holds for all commands is not told with each.
    let mut usual = scratch.thalweg();
    usual.arg("cp").args([scratch.path("file"), scratch.path("again")]);
    usual.env("THALWEG_BIND", "lo").env("THALWEG_CIPHER", "tls").env("THALWEG_KTLS", "on");
    let out = usual.output().unwrap();
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && !told.contains("without effect"), "{told}");
    let said: serde_json::Value = serde_json::from_str(scratch.ok(["why", "--json"]).trim()).unwrap();
    let compress = u64::from(thalweg_mover::stage::Stage::Compress as u8);
    let rows = said["evidence"]["sender"]["stages"].as_array().unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["stage"] != compress), "{rows:?}");
}

/// What has a source has its mode; these have none, or a watch and a stream do not ask for it.
#[test]
fn directories_that_are_made_on_the_way_have_the_mode_that_the_users_umask_leaves() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from/sub")).unwrap();
    std::fs::write(scratch.path("from/sub/file"), b"x").unwrap();
    let watch = ["watch", "--stable", "100ms", "--idle-exit", "500ms"];
    for umask in ["077", "002"] {
        let to = |name: &str| scratch.path(&format!("{name}-{umask}/deep/"));
        let run = |command: &Command| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]);
            let mut command = wrap(shell, command);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let output = finish(command.spawn().unwrap());
            assert!(output.status.success(), "umask {umask}: {output:?}");
        };
        let thalweg = |words: &[&str], from: &str, name: &str| {
            let mut command = scratch.thalweg();
            command.args(words).arg(scratch.path(from)).arg(to(name));
            run(&command);
        };
        let mut mkdir = Command::new("mkdir");
        run(mkdir.arg("-p").arg(to("mkdir")));
        thalweg(&["cp"], "from/sub/file", "cp");
        thalweg(&watch, "from", "watch");
        thalweg(&["stream", "--until-idle", "300ms"], "from/", "stream");
        let mode = |directory: &std::path::Path| std::fs::metadata(directory).unwrap().mode() & 0o7777;
        let wanted = mode(&to("mkdir"));
        for (name, below) in [("cp", ""), ("watch", ""), ("watch", "sub"), ("stream", ""), ("stream", "sub")]
        {
            let made = to(name).join(below);
            assert_eq!(mode(&made), wanted, "umask {umask}: {}", made.display());
            assert_eq!(mode(made.parent().unwrap()), wanted, "umask {umask}: above {}", made.display());
        }
    }
}

#[test]
fn without_modes_what_is_new_has_what_the_umask_leaves_and_what_is_there_keeps_its_own() {
    const LARGE: usize = 9 << 20;
    let scratch = Scratch::new();
    let put = |name: &str, bytes: usize, mode: u32| {
        std::fs::write(scratch.path(name), noise(1, bytes)).unwrap();
        std::fs::set_permissions(scratch.path(name), Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir_all(scratch.path("from/dir")).unwrap();
    std::fs::set_permissions(scratch.path("from/dir"), Permissions::from_mode(0o777)).unwrap();
    std::fs::create_dir(scratch.path("to")).unwrap();
    put("from/small", 1, 0o666);
    put("from/large", LARGE, 0o666);
    put("from/set-id", 1, 0o6777);
    put("from/old", 1, 0o777);
    put("from/old-large", LARGE, 0o777);
    put("to/old", 2, 0o604);
    put("to/old-large", 2, 0o604);
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 027; exec \"$@\"", "sh"]);
    let mut thalweg = scratch.thalweg();
    thalweg.args(["cp", "--no-perms"]).arg(scratch.path("from/")).arg(scratch.path("to"));
    let mut command = wrap(shell, &thalweg);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().unwrap());
    assert!(output.status.success(), "{output:?}");
    for (name, mode) in [
        ("small", 0o640),
        ("large", 0o640),
        ("set-id", 0o750),
        ("dir", 0o750),
        ("old", 0o604),
        ("old-large", 0o604),
    ] {
        let there = std::fs::metadata(scratch.path(&format!("to/{name}"))).unwrap();
        assert_eq!(there.mode() & 0o7777, mode, "{name}");
    }
}

/// Its attributes are listed to its owner, who may write it, and not told.
#[test]
fn without_modes_a_file_is_replaced_whose_owner_may_not_read_it() {
    let scratch = Scratch::new();
    let row = "a file whose owner may not read it";
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    mode(scratch.root(), 0o777);
    let Some(as_nobody) = scratch.as_nobody(row) else { return };
    for (name, content) in [("from", "new content"), ("to", "old")] {
        std::fs::create_dir(scratch.path(name)).unwrap();
        mode(&scratch.path(name), 0o755);
        std::fs::write(scratch.path(name).join("file"), content).unwrap();
    }
    mode(&scratch.path("from/file"), 0o644);
    let to = Dir::open(&scratch.path("to")).unwrap();
    if to.set_xattr(b"file", b"user.a", b"1").is_err() {
        support::chance::skipped(row, "no attributes here");
        return;
    }
    to.set_mode(b"file", 0o200).unwrap();
    if user::effective_uid() == 0 {
        let nobody = Some(support::NOBODY);
        for path in ["to", "to/file"] {
            std::os::unix::fs::chown(scratch.path(path), nobody, nobody).unwrap();
        }
    }
    let mut command = scratch.thalweg();
    command.args(["cp", "--no-perms", "--no-owner"]).arg(scratch.path("from/")).arg(scratch.path("to"));
    command.current_dir(scratch.root()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(as_nobody(command).spawn().unwrap());
    assert!(output.status.success(), "{output:?}");
    let there = to.stat(b"file").unwrap();
    assert_eq!((there.size, there.mode & 0o7777), (11, 0o200));
}

#[test]
fn what_is_not_to_be_kept_is_neither_given_nor_a_change() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/file"), b"x").unwrap();
    let from = Dir::open(&scratch.path("from")).unwrap();
    let is_root = user::effective_uid() == 0;
    if is_root {
        from.set_owner(b"file", Some(1234), Some(2345)).unwrap();
    }
    from.set_mode(b"file", 0o4755).unwrap();
    // Not every file system has them.
    let _ = from.set_xattr(b"file", b"user.a", b"1");
    let copy = |options: &[&str]| {
        let mut words: Vec<std::ffi::OsString> = vec!["cp".into(), "--json".into()];
        words.extend(options.iter().map(Into::into));
        words.extend([scratch.path("from/").into(), scratch.path("to").into()]);
        scratch.ok(words)
    };
    let look = || {
        let there = std::fs::metadata(scratch.path("to/file")).unwrap();
        (there.uid(), there.mode() & 0o7777, there.ctime(), there.ctime_nsec())
    };
    let without = ["--no-owner", "--no-xattrs"];
    copy(&without);
    let made = look();
    // The bits of another user would work for root.
    assert_eq!((made.0, made.1), (user::effective_uid(), if is_root { 0o755 } else { 0o4755 }));
    let attributes = Dir::open(&scratch.path("to")).unwrap().xattrs(b"file").unwrap();
    assert!(attributes.iter().all(|(name, _)| name != b"user.a"), "{attributes:?}");
    let again = copy(&without);
    assert!(again.contains("\"bytes_received\":0"), "{again}");
    assert_eq!(look(), made, "{again}");
    copy(&[]);
    assert_same(&scratch.path("from"), &scratch.path("to"));
}
