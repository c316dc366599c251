//! Receipts, reports and `thalweg verify`, by the real program.

mod support;

#[path = "receipt/signers.rs"]
mod signers;

#[path = "receipt/sample.rs"]
mod sample;

use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use support::volume::{Volume, can_mount};
use support::{Scratch, make_tree, noise};
use thalweg_lab::wrap::wrap;

/// A tree copied with a receipt; returns the receipt and where the copy is.
fn copied(scratch: &Scratch) -> (PathBuf, PathBuf) {
    make_tree(&scratch.path("from"));
    let (receipt, to) = (scratch.path("receipt"), scratch.path("to"));
    scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), scratch.path("from/"), to.clone()]);
    (receipt, to)
}

fn verify(scratch: &Scratch, receipt: &Path, place: &Path, more: &[&str]) -> (i32, String, String) {
    let out = scratch.run(
        [Path::new("verify").as_os_str(), receipt.as_os_str(), place.as_os_str()]
            .into_iter()
            .chain(more.iter().map(std::ffi::OsStr::new)),
    );
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code().unwrap_or(-1), text(&out.stdout), text(&out.stderr))
}

#[test]
fn a_receipt_of_a_whole_copy_is_verified_here_and_at_a_daemon() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    let (code, out, err) = verify(&scratch, &receipt, &to, &["--strict"]);
    assert_eq!(code, 0, "{out}{err}");
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let (ticket, far) = (daemon.ticket.display().to_string(), daemon.place("data", "x"));
    let (from, pushed) =
        (scratch.path("from/").display().to_string(), scratch.path("pushed").display().to_string());
    scratch.ok(["cp", "--ticket", &ticket, "--receipt", &pushed, &from, &far]);
    let (code, out, err) =
        verify(&scratch, &scratch.path("pushed"), Path::new(&far), &["--strict", "--ticket", &ticket]);
    assert_eq!(code, 0, "{out}{err}");
    // Pulled, the receipt is the receiver's.
    let (back, pulled) =
        (scratch.path("back").display().to_string(), scratch.path("pulled").display().to_string());
    scratch.ok(["cp", "--ticket", &ticket, "--receipt", &pulled, &format!("{far}/"), &back]);
    let (code, out, err) = verify(&scratch, &scratch.path("pulled"), &scratch.path("back"), &["--strict"]);
    assert_eq!(code, 0, "{out}{err}");
    let hidden = std::fs::read_dir(scratch.root())
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().as_encoded_bytes().starts_with(b"."));
    assert_eq!(hidden.count(), 0);
}

#[test]
fn who_writes_a_far_place_as_a_path_here_is_told_how_places_are_written() {
    let scratch = Scratch::new();
    let (receipt, _) = copied(&scratch);
    for place in ["host/data/run7", "tw//host/data/run7"] {
        let (code, _, err) = verify(&scratch, &receipt, Path::new(place), &[]);
        assert!(code != 0 && err.contains("tw://HOST[:PORT]/EXPORT/PATH"), "{place}: {code}, {err}");
    }
    // What is not there in a directory that is here is merely missing.
    let (code, _, err) = verify(&scratch, &receipt, Path::new("tests/nonesuch"), &[]);
    assert!(code != 0 && !err.contains("tw://HOST"), "{code}, {err}");
}

#[test]
fn the_root_can_be_computed_from_the_lines_alone() {
    let scratch = Scratch::new();
    let (receipt, _) = copied(&scratch);
    let text = std::fs::read_to_string(receipt).unwrap();
    let values: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values[0]["thalweg_receipt"], 1);
    let mut blocks: std::collections::BTreeMap<u64, blake3::Hasher> = Default::default();
    let (mut block, mut lines) = (0, 0);
    for value in &values {
        block = value["block"].as_u64().unwrap_or(block);
        if let Some(line) = value["line"].as_str() {
            blocks.entry(block).or_default().update(line.as_bytes());
            lines += 1;
        }
    }
    let mut root = blake3::Hasher::new();
    for block in blocks.values() {
        root.update(block.finalize().as_bytes());
    }
    let footer = values.last().unwrap();
    assert_eq!(footer["root"], root.finalize().to_hex().as_str());
    assert_eq!(footer["entries"], lines);
    assert!(!text.contains("PRIVATE KEY"));
}

/// Of a link to a directory only what the link says was copied; what it leads to is no part of it.
#[test]
fn a_link_and_the_directory_that_it_leads_to_do_not_pass_for_each_other() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let ticket = daemon.ticket.display().to_string();
    symlink("to", scratch.path("place")).unwrap();
    let places = [to.clone(), scratch.path("place"), daemon.place("data", "place").into()];
    let all = |verdict: &dyn Fn(i32, &str)| {
        for place in &places {
            let (code, out, err) = verify(&scratch, &receipt, place, &["--strict", "--ticket", &ticket]);
            println!("{}: {out}{err}", place.display());
            verdict(code, &out);
        }
    };
    all(&|code, _| assert_eq!(code, 0));
    std::fs::remove_file(to.join("link-to-directory")).unwrap();
    std::fs::create_dir(to.join("link-to-directory")).unwrap();
    std::fs::remove_dir(to.join("empty")).unwrap();
    std::fs::create_dir(scratch.path("elsewhere")).unwrap();
    symlink("../elsewhere", to.join("empty")).unwrap();
    all(&|code, out| {
        assert_eq!(code, 4);
        assert!(out.contains("differs  link-to-directory  (a directory is there, and a symlink was copied)"));
        assert!(out.contains("differs  empty  (a symlink is there, and a directory was copied)"));
        assert_eq!(out.lines().count(), 3);
    });
}

/// I-7: one bit in one file, a truncation, two files of one length exchanged.
#[test]
fn damage_after_the_copy_is_found_and_named_and_nothing_else_is() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    let flip = to.join("deep/er/exactly-a-chunk");
    let mut content = std::fs::read(&flip).unwrap();
    content[(4 << 20) - 1] ^= 0x80;
    std::fs::write(&flip, content).unwrap();
    let short = std::fs::File::options().write(true).open(to.join("deep/er/medium")).unwrap();
    short.set_len(1 << 20).unwrap();
    let (code, out, _) = verify(&scratch, &receipt, &to, &[]);
    assert_eq!(code, 4, "{out}");
    assert!(
        out.contains("differs  deep/er/exactly-a-chunk") && out.contains("differs  deep/er/medium"),
        "{out}"
    );
    assert_eq!(out.lines().count(), 3, "{out}");
}

/// I-7: located to the chunk. Local, pushed and pulled, so that each kind of side has kept the digests.
#[test]
fn damage_in_a_large_file_is_named_by_its_byte_range() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let content = noise(7, (64 << 20) + 12_345);
    std::fs::write(scratch.path("from/large"), &content).unwrap();
    std::fs::write(scratch.path("from/small"), b"small").unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let ticket = daemon.ticket.display().to_string();
    let path = |name: &str| scratch.path(name).display().to_string();
    for (words, from, to, copy) in [
        ("local", path("from/"), path("local"), scratch.path("local")),
        ("push", path("from/"), daemon.place("data", "x"), scratch.path("export/x")),
        ("pull", format!("{}/", daemon.place("data", "x")), path("pulled"), scratch.path("pulled")),
    ] {
        let receipt = scratch.path(&format!("{words}-receipt"));
        let shown = receipt.display().to_string();
        scratch.ok(["cp", "--chunk", "4MiB", "--ticket", &ticket, "--receipt", &shown, &from, &to]);
        assert_eq!(verify(&scratch, &receipt, &copy, &[]).0, 0, "{words}");
        let mut damaged = content.clone();
        for at in [(13 << 20) + 5, (16 << 20) - 1, 16 << 20, 64 << 20] {
            damaged[at] ^= 0x20;
        }
        std::fs::write(copy.join("large"), &damaged).unwrap();
        let ranges = ["12582912..20971520", "67108864..67121209"];
        let at_the_daemon = words == "push";
        let place = if at_the_daemon { PathBuf::from(&to) } else { copy.clone() };
        let (code, out, err) = verify(&scratch, &receipt, &place, &["--ticket", &ticket]);
        assert_eq!(code, 4, "{words}: {out}{err}");
        let damage: Vec<&str> = out.lines().filter(|line| line.starts_with("damaged")).collect();
        assert_eq!(
            damage,
            ranges.map(|range| format!("damaged  large  bytes {range}")),
            "{words}: {out}{err}"
        );
        let (_, out, _) = verify(&scratch, &receipt, &copy, &["--json"]);
        assert!(
            out.contains(r#"{"end":20971520,"event":"damage","path":"large","start":12582912}"#),
            "{out}"
        );
        std::fs::write(copy.join("large"), &content).unwrap();
    }
    // Digests of parts that do not join to what was signed are no receipt.
    let receipt = scratch.path("local-receipt");
    let text = std::fs::read_to_string(&receipt).unwrap();
    let at = text.find(r#""digests":""#).unwrap() + 11;
    let forged = scratch.path("forged");
    let digit = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
    std::fs::write(&forged, format!("{}{digit}{}", &text[..at], &text[at + 1..])).unwrap();
    std::fs::write(scratch.path("local/large"), noise(8, content.len())).unwrap();
    let (code, _, err) = verify(&scratch, &forged, &scratch.path("local"), &[]);
    assert!(code == 4 && err.contains("do not join"), "{err}");
}

#[test]
fn two_files_of_one_length_that_changed_places_are_found() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(scratch.path("from").join(name), noise(name.as_bytes()[0].into(), 5000)).unwrap();
    }
    let receipt = scratch.path("receipt");
    scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), scratch.path("from/"), scratch.path("to")]);
    std::fs::rename(scratch.path("to/a"), scratch.path("to/t")).unwrap();
    std::fs::rename(scratch.path("to/b"), scratch.path("to/a")).unwrap();
    std::fs::rename(scratch.path("to/t"), scratch.path("to/b")).unwrap();
    let (code, out, _) = verify(&scratch, &receipt, &scratch.path("to"), &[]);
    assert_eq!(code, 4);
    assert!(out.contains("differs  a") && out.contains("differs  b") && !out.contains("differs  c"), "{out}");
}

/// A hard link has no digest of its own: it is one of the files that have. What was skipped has no line, and may not
/// excuse a link that is no other name of it.
#[test]
fn another_file_in_place_of_a_hard_link_is_found_and_named() {
    for has_skipped in [false, true] {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("from")).unwrap();
        std::fs::write(scratch.path("from/a"), b"content").unwrap();
        std::fs::hard_link(scratch.path("from/a"), scratch.path("from/b")).unwrap();
        if has_skipped {
            std::os::unix::net::UnixListener::bind(scratch.path("from/socket")).unwrap();
        }
        let (receipt, to) = (scratch.path("receipt"), scratch.path("to"));
        scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), scratch.path("from/"), to.clone()]);
        let text = std::fs::read_to_string(&receipt).unwrap();
        let (first, second) = if text.contains("hardlink  done  b") { ("a", "b") } else { ("b", "a") };
        let daemon = scratch.daemon(&[("data", scratch.root())]);
        let ticket = daemon.ticket.display().to_string();
        let all = |expected: i32, differing: &[&str]| {
            for place in [to.clone(), daemon.place("data", "to").into()] {
                let (code, out, err) = verify(&scratch, &receipt, &place, &["--ticket", &ticket]);
                assert_eq!(code, expected, "{}: {out}{err}", place.display());
                for name in ["a", "b"] {
                    let is_told = out.contains(&format!("differs  {name}  "));
                    assert_eq!(is_told, differing.contains(&name), "{}: {out}{err}", place.display());
                }
                assert!(out.contains(" 0 without a digest"), "{out}");
            }
        };
        all(0, &[]);
        std::fs::remove_file(to.join(second)).unwrap();
        std::fs::write(to.join(second), b"another").unwrap();
        all(4, &[second]);
        std::fs::remove_file(to.join(second)).unwrap();
        std::fs::hard_link(to.join(first), to.join(second)).unwrap();
        all(0, &[]);
        // Passed on by somebody who does not keep hard links.
        std::fs::remove_file(to.join(second)).unwrap();
        std::fs::copy(to.join(first), to.join(second)).unwrap();
        all(0, &[]);
        std::fs::remove_file(to.join(second)).unwrap();
        std::fs::hard_link(to.join(first), to.join(second)).unwrap();
        // Written through one name, and so under both.
        std::fs::write(to.join(first), b"another").unwrap();
        all(4, &["a", "b"]);
    }
}

#[test]
fn a_second_name_of_a_link_is_no_difference_and_a_link_in_place_of_a_second_name_is() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path(name);
    std::fs::create_dir(at("from")).unwrap();
    std::fs::write(at("from/a"), b"content").unwrap();
    std::os::unix::fs::symlink("a", at("from/link")).unwrap();
    for name in ["a", "link"] {
        std::fs::hard_link(at("from").join(name), at("from").join(format!("{name}-too"))).unwrap();
    }
    let (receipt, to) = (at("receipt"), at("to"));
    scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), at("from/"), to.clone()]);
    let (code, out, err) = verify(&scratch, &receipt, &to, &[]);
    assert!(code == 0 && out.contains(" 0 without a digest"), "{out}{err}");
    // Passed on by somebody who does not keep hard links.
    std::fs::remove_file(to.join("link-too")).unwrap();
    std::os::unix::fs::symlink("a", to.join("link-too")).unwrap();
    let (code, out, err) = verify(&scratch, &receipt, &to, &[]);
    assert!(code == 0 && out.contains(" 0 without a digest"), "{out}{err}");
    // It leads to the right content, and is neither a name of it nor as any link that was copied.
    std::fs::remove_file(to.join("a-too")).unwrap();
    std::os::unix::fs::symlink("./a", to.join("a-too")).unwrap();
    let (code, out, err) = verify(&scratch, &receipt, &to, &[]);
    assert!(code == 4 && out.contains("differs  a-too  "), "{out}{err}");
}

/// The first name was there and was left alone, so the receipt has only the second.
#[test]
fn a_hard_link_to_a_file_that_was_skipped_is_no_difference() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    std::fs::write(scratch.path("from/a"), b"content").unwrap();
    std::fs::hard_link(scratch.path("from/a"), scratch.path("from/b")).unwrap();
    let (receipt, to) = (scratch.path("receipt"), scratch.path("to"));
    std::fs::create_dir(&to).unwrap();
    scratch.ok(["cp".into(), scratch.path("from/a"), to.join("a")]);
    scratch.ok([
        "cp".into(),
        "--ignore-existing".into(),
        "--receipt".into(),
        receipt.clone(),
        scratch.path("from/"),
        to.clone(),
    ]);
    let (code, out, err) = verify(&scratch, &receipt, &to, &[]);
    assert!(out.contains("0 missing, 0 differ, "), "{out}{err}");
    // If that is how they came, the receipt has nothing to compare its content with.
    let is_link = std::fs::read_to_string(&receipt).unwrap().contains("hardlink  done  b");
    let expected = if is_link { (2, true) } else { (0, false) };
    assert_eq!((code, out.starts_with("NOT all compared: ")), expected, "{out}");
}

/// By size and time it is unchanged, and neither side has read it.
#[test]
fn content_that_nobody_digested_is_not_verified_until_a_copy_compares_it() {
    let scratch = Scratch::new();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for (tree, content) in [("from", "content"), ("to", "CONTENT")] {
        std::fs::create_dir(scratch.path(tree)).unwrap();
        for (name, content) in [("a", content), ("empty", "")] {
            std::fs::write(scratch.path(tree).join(name), content).unwrap();
            let file = std::fs::File::options().write(true).open(scratch.path(tree).join(name)).unwrap();
            file.set_modified(time).unwrap();
        }
    }
    let (receipt, to) = (scratch.path("receipt"), scratch.path("to"));
    let copy = |check: &str| {
        let words = ["cp", "--check", check, "--receipt"].map(PathBuf::from);
        scratch.ok(words.into_iter().chain([receipt.clone(), scratch.path("from/"), to.clone()]))
    };
    copy("evidence");
    let (code, out, err) = verify(&scratch, &receipt, &to, &["--json"]);
    let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!((code, &last["exit"]), (2, &2.into()), "{out}{err}");
    // An empty file has no content that could differ.
    assert_eq!((&last["without_digest"], &last["differing"]), (&1.into(), &0.into()), "{out}");
    let (_, out, err) = verify(&scratch, &receipt, &to, &[]);
    assert!(out.starts_with("NOT all compared: ") && err.contains("--check digest"), "{out}{err}");
    copy("digest");
    let (code, out, err) = verify(&scratch, &receipt, &to, &["--strict"]);
    assert!(code == 0 && out.starts_with("verified: "), "{out}{err}");
    assert_eq!(std::fs::read(to.join("a")).unwrap(), b"content");
}

#[test]
fn what_is_missing_is_exit_2_and_what_is_extra_only_with_strict() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    std::fs::write(to.join("deep/new"), b"x").unwrap();
    assert_eq!(verify(&scratch, &receipt, &to, &[]).0, 0);
    let (code, out, _) = verify(&scratch, &receipt, &to, &["--strict"]);
    assert_eq!(code, 2);
    assert!(out.contains("extra  deep/new"), "{out}");
    std::fs::remove_file(to.join("empty-file")).unwrap();
    std::fs::remove_file(to.join("link")).unwrap();
    let (code, out, _) = verify(&scratch, &receipt, &to, &[]);
    assert_eq!(code, 2, "{out}");
    assert!(out.contains("missing  empty-file") && out.contains("missing  link"), "{out}");
}

#[test]
fn what_nobody_looked_for_is_not_counted_as_none() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    let (code, out, _) = verify(&scratch, &receipt, &to, &[]);
    assert!(code == 0 && out.contains("extra not looked for (--strict)"), "{out}");
    assert!(!out.contains("when it was copied"), "nothing failed and nothing was skipped: {out}");
    let (_, out, _) = verify(&scratch, &receipt, &to, &["--strict"]);
    assert!(out.contains(", 0 extra,"), "{out}");
    let strict = ["--json", "--strict"];
    for (more, expected) in [(&strict[..1], serde_json::Value::Null), (&strict[..], 0.into())] {
        let (_, out, _) = verify(&scratch, &receipt, &to, more);
        let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        assert_eq!(last["extra"], expected, "{last}");
    }
}

/// Who copied `run7` into a directory is to give that directory, and easily gives `run7` in it.
#[test]
fn where_nothing_of_a_receipt_is_there_it_is_said_which_place_is_meant() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("run7"));
    std::fs::create_dir(scratch.path("new")).unwrap();
    let (receipt, new) = (scratch.path("receipt"), scratch.path("new"));
    scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), scratch.path("run7"), new.clone()]);
    let (code, out, err) = verify(&scratch, &receipt, &new.join("run7"), &[]);
    assert!(code == 2 && out.contains("missing  run7"), "{out}{err}");
    assert!(err.contains("hint: nothing of the receipt is there by its name"), "{err}");
    assert!(err.contains(&format!(" to `{}`, begun ", new.display())), "{err}");
    let (code, out, err) = verify(&scratch, &receipt, &new, &[]);
    assert!(code == 0 && !err.contains("hint: "), "{out}{err}");
}

/// What failed has no line that could be held against what is there: the signed totals tell of it.
#[test]
fn a_receipt_of_a_copy_of_which_a_part_failed_does_not_pass_for_one_of_all() {
    let scratch = Scratch::new();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(scratch.root(), 0o777);
    let Some(as_nobody) = scratch.as_nobody("receipt of nobody") else { return };
    std::fs::create_dir(scratch.path("from")).unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(scratch.path("from").join(name), name).unwrap();
    }
    mode(&scratch.path("from"), 0o755);
    mode(&scratch.path("from/b"), 0o000);
    let (receipt, to) = (scratch.path("receipt"), scratch.path("to"));
    let mut command = scratch.thalweg();
    command.args(["cp", "--receipt"]).arg(&receipt).arg(scratch.path("from/")).arg(&to);
    let limit = std::time::Duration::from_secs(60);
    support::job::Running::start(as_nobody(command)).end(limit).expect(2);
    let (code, out, err) = verify(&scratch, &receipt, &to, &["--strict"]);
    assert_eq!(code, 2, "{out}{err}");
    assert!(!out.contains("verified") && out.contains("0 missing, 0 differ, 0 extra, 0 unreadable"), "{out}");
    assert!(out.contains("; 1 failed and 0 skipped when it was copied, of which it has nothing"), "{out}");
    let (code, out, _) = verify(&scratch, &receipt, &to, &["--json"]);
    let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(code, 2, "{last}");
    for (key, expected) in [("exit", 2), ("failed", 1), ("skipped", 0)] {
        assert_eq!(last[key], expected, "{key}: {last}");
    }
}

#[test]
fn what_cannot_be_listed_may_hold_anything_and_strict_says_so() {
    let scratch = Scratch::new();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(scratch.root(), 0o777);
    let Some(as_nobody) = scratch.as_nobody("verify of nobody") else { return };
    std::fs::create_dir_all(scratch.path("from/closed")).unwrap();
    std::fs::write(scratch.path("from/closed/file"), b"content").unwrap();
    let (receipt, to) = (scratch.path("receipt"), scratch.path("to"));
    scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), scratch.path("from/"), to.clone()]);
    std::fs::write(to.join("closed/extra"), b"x").unwrap();
    mode(&receipt, 0o644);
    // What is in it can be opened by its name, and its names are not told.
    mode(&to.join("closed"), 0o311);
    let daemon = scratch.daemon_at("127.0.0.1:0", &[("data", &to)], &[], &as_nobody);
    for place in [to.display().to_string(), daemon.place("data", "")] {
        let verify = |more: &[&str]| {
            let mut command = scratch.thalweg();
            command.arg("verify").arg(&receipt).arg(&place).arg("--ticket").arg(&daemon.ticket).args(more);
            support::job::Running::start(as_nobody(command)).end(std::time::Duration::from_secs(60))
        };
        verify(&[]).expect(0);
        let ran = verify(&["--strict"]).expect(2);
        assert!(
            ran.stdout.contains("NOT as the receipt says") && ran.stdout.contains("1 unreadable"),
            "{ran:?}"
        );
        assert!(ran.stderr.contains("closed") && ran.stderr.contains("Permission denied"), "{ran:?}");
    }
    mode(&to.join("closed"), 0o755);
}

#[test]
fn a_receipt_that_was_changed_is_damage_and_no_receipt_is_usage() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    let text = std::fs::read_to_string(&receipt).unwrap();
    let forged = scratch.path("forged");
    let when = text.find(r#""began":"#).map(|at| text[at..at + 18].to_owned()).unwrap();
    let said = text.rfind(r#""when":"#).map(|at| text[at..at + 17].to_owned()).unwrap();
    for (from, into) in [
        ("  1  file", "  2  file"),
        ("one-byte", "one-bite"),
        // The header, and the words of the footer.
        (when.as_str(), r#""began":1000000000"#),
        (r#""delete":false"#, r#""delete":true"#),
        (r#""verify":"written""#, r#""verify":"paranoid""#),
        (r#""chunk_bytes":"#, r#""chunk_bytes":1"#),
        (said.as_str(), r#""when":1000000000"#),
        (r#""done":"#, r#""done":1"#),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(&forged, text.replacen(from, into, 1)).unwrap();
        let (code, _, err) = verify(&scratch, &forged, &to, &[]);
        assert_eq!(code, 4, "{err}");
    }
    let without_a_line: Vec<&str> =
        text.lines().enumerate().filter(|(at, _)| *at != 3).map(|(_, line)| line).collect();
    std::fs::write(&forged, without_a_line.join("\n")).unwrap();
    assert_eq!(verify(&scratch, &forged, &to, &[]).0, 4);
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(&forged, lines[..lines.len() - 1].join("\n")).unwrap();
    assert_eq!(verify(&scratch, &forged, &to, &[]).0, 1);
    std::fs::write(&forged, noise(1, 10_000)).unwrap();
    assert_eq!(verify(&scratch, &forged, &to, &[]).0, 1);
}

/// Nothing that was signed is changed: the same text is cut into other lines, or words stand beside it.
#[test]
fn a_receipt_with_lines_cut_elsewhere_or_words_that_nobody_signed_is_damage() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    let text = std::fs::read_to_string(&receipt).unwrap();
    let texts: Vec<&str> = text.lines().collect();
    let first = texts.iter().position(|text| text.starts_with(r#"{"line":"#)).unwrap();
    let said: Vec<String> = texts[first..first + 3]
        .iter()
        .map(|text| {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            value["line"].as_str().unwrap().to_owned()
        })
        .collect();
    let (left, right) = said[2].split_at(10);
    let line = |text: &str| serde_json::json!({ "line": text }).to_string();
    let cut = [line(&said[..2].concat()), line(left), line(right)].join("\n");
    let three = texts[first..first + 3].join("\n");
    let root = r#""root":""#;
    let root_twice = format!(r#""root":"deadbeef",{root}"#);
    for (from, into) in [
        (three.as_str(), cut.as_str()),
        (r#"{"line":"#, r#"{"line":"evil","line":"#),
        (r#"{"line":"#, r#"{"approved_by":"Director","line":"#),
        (r#"{"block":"#, r#"{"block":99,"block":"#),
        (root, root_twice.as_str()),
    ] {
        assert!(text.contains(from), "{from}");
        let forged = scratch.path("forged");
        std::fs::write(&forged, text.replacen(from, into, 1)).unwrap();
        let (code, out, err) = verify(&scratch, &forged, &to, &["--strict"]);
        assert_eq!(code, 4, "{into}: {out}{err}");
        assert!(!out.contains("verified"), "{into}: {out}");
    }
    assert_eq!(verify(&scratch, &receipt, &to, &["--strict"]).0, 0);
}

/// What an auditor does who holds the certificates of both sites, and never saw their keys. Those of its tickets a
/// daemon has too.
#[test]
fn through_a_daemon_the_user_signs_with_a_key_of_his_own_and_the_daemon_says_where_it_wrote() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 1000)).unwrap();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let ticket = thalweg_mover::link::Ticket::read(&daemon.ticket).unwrap();
    let receipt = scratch.path("receipt");
    let path = |path: &Path| path.display().to_string();
    scratch.ok([
        "cp",
        "--ticket",
        &path(&daemon.ticket),
        "--receipt",
        &path(&receipt),
        &path(&scratch.path("file")),
        &daemon.place("data", "file"),
    ]);
    let own = thalweg_mover::link::Identity::load(&scratch.path("client-state/identity.pem")).unwrap();
    let both = format!("{},{}", ticket.server, own.fingerprint());
    let place = scratch.path("export/file");
    assert_eq!(verify(&scratch, &receipt, &place, &["--keys", &both]).0, 0);
    for with_tickets in [ticket.server, ticket.identity().unwrap().fingerprint()] {
        let keys = format!("{},{with_tickets}", ticket.server);
        let (code, _, err) = verify(&scratch, &receipt, &place, &["--keys", &keys]);
        assert!(code == 4 && err.contains("sender signed with the certificate"), "{err}");
    }
    let text = std::fs::read_to_string(&receipt).unwrap();
    let footer: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(footer["place"], serde_json::json!({ "export": "data", "path": "file" }));
    assert_eq!((&footer["kind"], footer["session"].is_string()), (&"files".into(), true));
    assert_eq!(footer["sender"]["ephemeral"], false);
}

#[test]
fn a_link_that_leads_elsewhere_is_found() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    std::fs::remove_file(to.join("link-to-directory")).unwrap();
    symlink("elsewhere", to.join("link-to-directory")).unwrap();
    let (code, out, err) = verify(&scratch, &receipt, &to, &[]);
    assert_eq!(code, 4, "{out}{err}");
    let told = "differs  link-to-directory  (it leads to `elsewhere`, and the copied one elsewhere)";
    assert!(out.contains(told), "{out}");
}

#[test]
fn a_file_with_marked_holes_is_verified_by_its_segments() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    let file = std::fs::File::create(scratch.path("from/hole")).unwrap();
    file.set_len(1 << 40).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"island", 700 << 30).unwrap();
    let receipt = scratch.path("receipt");
    scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), scratch.path("from/"), scratch.path("to")]);
    assert!(std::fs::read_to_string(&receipt).unwrap().contains("file-marked-holes"));
    let (code, out, err) = verify(&scratch, &receipt, &scratch.path("to"), &[]);
    assert_eq!(code, 0, "{out}{err}");
    let copy = std::fs::File::options().write(true).open(scratch.path("to/hole")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&copy, b"x", 3 << 30).unwrap();
    assert_eq!(verify(&scratch, &receipt, &scratch.path("to"), &[]).0, 4);
}

#[test]
fn a_single_file_is_verified_under_its_new_name() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 100_000)).unwrap();
    let receipt = scratch.path("receipt");
    scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), scratch.path("file"), scratch.path("new")]);
    assert_eq!(verify(&scratch, &receipt, &scratch.path("new"), &[]).0, 0);
    std::fs::write(scratch.path("new"), noise(2, 100_000)).unwrap();
    assert_eq!(verify(&scratch, &receipt, &scratch.path("new"), &[]).0, 4);
}

#[test]
fn a_single_link_or_fifo_is_verified_under_its_new_name() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path(name);
    std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
    for name in ["link", "fifo"] {
        let (receipt, new) = (at(&format!("{name}.receipt")), at(&format!("new-{name}")));
        scratch.ok([
            "cp".into(),
            "--devices".into(),
            "--receipt".into(),
            receipt.clone(),
            at(name),
            new.clone(),
        ]);
        let (code, out, err) = verify(&scratch, &receipt, &new, &["--strict"]);
        assert_eq!(code, 0, "{out}{err}");
        std::fs::remove_file(&new).unwrap();
        std::fs::write(&new, "").unwrap();
        let (code, out, err) = verify(&scratch, &receipt, &new, &[]);
        assert!(code == 4 && out.contains("(a file is there, and a "), "{out}{err}");
    }
}

#[test]
fn a_single_link_to_a_directory_is_verified_under_its_new_name() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path(name);
    std::fs::create_dir(at("directory")).unwrap();
    std::os::unix::fs::symlink("directory", at("link")).unwrap();
    let (receipt, new) = (at("receipt"), at("new"));
    scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), at("link"), new.clone()]);
    assert!(new.symlink_metadata().unwrap().is_symlink());
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let ticket = daemon.ticket.display().to_string();
    for place in [new.clone(), daemon.place("data", "new").into()] {
        let (code, out, err) = verify(&scratch, &receipt, &place, &["--strict", "--ticket", &ticket]);
        assert_eq!(code, 0, "{}: {out}{err}", place.display());
        // What it leads to has no such link.
        let behind = PathBuf::from(format!("{}/", place.display()));
        let (code, out, err) = verify(&scratch, &receipt, &behind, &["--ticket", &ticket]);
        assert!(code == 2 && out.contains("missing  link"), "{}: {out}{err}", behind.display());
    }
    std::fs::remove_file(&new).unwrap();
    std::fs::create_dir(&new).unwrap();
    let (code, out, err) = verify(&scratch, &receipt, &new, &[]);
    assert!(code == 2 && out.contains("missing  link"), "{out}{err}");
}

#[test]
fn a_report_has_every_name_and_its_counts_add_up() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    std::os::unix::net::UnixListener::bind(scratch.path("from/socket")).unwrap();
    let report = scratch.path("report");
    let out = scratch.ok([
        "cp".into(),
        "--json".into(),
        "--report".into(),
        report.clone(),
        scratch.path("from/"),
        scratch.path("to"),
    ]);
    let finished: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let text = std::fs::read_to_string(report).unwrap();
    let mut lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.pop().unwrap()["event"], "prediction");
    let count = |outcome: &str| lines.iter().filter(|line| line["outcome"] == outcome).count() as u64;
    for outcome in ["done", "unchanged", "skipped", "failed"] {
        assert_eq!(finished[outcome], count(outcome), "{outcome}");
    }
    assert!(lines.iter().any(|line| line["path"] == "socket" && line["outcome"] == "skipped"));
    // The root of the tree itself, and everything in it.
    assert_eq!(lines.len(), 1 + support::facts(&scratch.path("from")).len());
}

#[test]
fn a_receipt_that_cannot_be_written_is_known_before_anything_is_copied() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let out = scratch.run([
        "cp".into(),
        "--receipt".into(),
        scratch.path("no/such/place"),
        scratch.path("file"),
        scratch.path("to"),
    ]);
    assert_eq!(out.status.code(), Some(3));
    assert!(!scratch.path("to").exists());
}

/// What was copied is copied, and what failed has failed.
#[test]
fn a_receipt_that_cannot_be_completed_does_not_hide_how_the_copy_ended() {
    if !can_mount("a full disk for a receipt") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from")).unwrap();
    std::fs::create_dir_all(scratch.path("to/b/full")).unwrap();
    // A directory that is not empty makes no way for a file: one of two entries fails.
    for name in ["from/a", "from/b"] {
        std::fs::write(scratch.path(name), b"x").unwrap();
    }
    let volume = Volume::in_memory(scratch.root(), "full", "size=64k");
    // As much as there is room for.
    std::fs::write(volume.path.join("filler"), noise(1, 1 << 20)).unwrap_err();
    let out = scratch.run([
        "cp".into(),
        "--json".into(),
        "--receipt".into(),
        volume.path.join("receipt"),
        scratch.path("from/"),
        scratch.path("to/"),
    ]);
    let told: Vec<serde_json::Value> = String::from_utf8_lossy(&out.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let last = told.last().expect("events");
    assert_eq!((&last["event"], &last["exit"]), (&"finished".into(), &6.into()), "{told:?}");
    assert!(last["done"].as_u64() >= Some(1) && last["failed"] == 1, "{told:?}");
    let error = told.iter().find(|event| event["event"] == "error").expect("the receipt is told of");
    assert!(error["kind"] == "space" && error["exit"].is_null(), "{error}");
    assert_eq!(out.status.code(), Some(6));
    assert_eq!(std::fs::read_dir(&volume.path).unwrap().count(), 1);
}

/// Copies get the modes of their sources; the user's own files those that any program would give them, and nothing that
/// is kept is for others.
#[test]
fn files_that_a_copy_leaves_beside_its_copies_obey_the_umask() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("from"), "x").unwrap();
    std::fs::set_permissions(scratch.path("from"), Permissions::from_mode(0o646)).unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "umask 027; exec \"$@\"", "sh"]);
    let mut shell = wrap(shell, &scratch.thalweg());
    shell.arg("cp").arg("--receipt").arg(scratch.path("receipt")).arg("--report").arg(scratch.path("report"));
    shell.arg(scratch.path("from")).arg(scratch.path("to"));
    assert!(shell.status().unwrap().success());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&scratch.path("to")), 0o646);
    assert_eq!(mode(&scratch.path("receipt")), 0o640);
    assert_eq!(mode(&scratch.path("report")), 0o640);
    let state = support::facts(&scratch.path("client-state"));
    assert!(!state.is_empty());
    for name in state.keys() {
        let path = scratch.path("client-state").join(std::ffi::OsStr::from_bytes(name));
        let is_link = std::fs::symlink_metadata(&path).unwrap().is_symlink();
        assert!(is_link || mode(&path) & 0o077 == 0, "{} is for others", path.display());
    }
}

#[test]
fn a_list_is_not_written_into_the_receipt_that_it_is_of() {
    let scratch = Scratch::new();
    let (receipt, _) = copied(&scratch);
    let before = std::fs::read(&receipt).unwrap();
    let behind = std::fs::OpenOptions::new().append(true).open(&receipt).unwrap();
    let mut command = scratch.thalweg();
    command.args([Path::new("verify"), Path::new("--as-b3sum"), &receipt]);
    let out = support::finish(command.stdout(behind).stderr(Stdio::piped()).spawn().unwrap());
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{told}");
    assert!(told.contains("it is the receipt"), "{told}");
    assert!(std::fs::read(&receipt).unwrap() == before, "it was written to");
}

/// Names are those that a line has to escape. `b3sum` itself has its say where it is installed.
#[test]
fn a_receipt_gives_a_list_of_b3sum_and_check_compares_a_place_with_such_a_list() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from/d")).unwrap();
    for (name, content) in [("plain", "a"), ("d/line\nbreak", "b"), ("back\\slash", "c")] {
        std::fs::write(scratch.path("from").join(name), content).unwrap();
    }
    std::os::unix::fs::symlink("plain", scratch.path("from/link")).unwrap();
    let (receipt, to) = (scratch.path("receipt"), scratch.path("to"));
    scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), scratch.path("from/"), to.clone()]);
    let told = scratch.ok([Path::new("verify"), Path::new("--as-b3sum"), &receipt]);
    let mut lines: Vec<&str> = told.lines().collect();
    lines.sort_unstable();
    let digest = |content: &str| blake3::hash(content.as_bytes()).to_hex().to_string();
    let mut expected = [
        format!("{}  plain", digest("a")),
        format!("\\{}  d/line\\nbreak", digest("b")),
        format!("\\{}  back\\\\slash", digest("c")),
    ];
    expected.sort_unstable();
    assert_eq!(lines, expected);
    let list = scratch.path("list");
    std::fs::write(&list, lines.join("\n") + "\n").unwrap();
    match std::process::Command::new("b3sum").arg("--check").arg(&list).current_dir(&to).output() {
        Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr)),
        Err(error) => eprintln!("skipped: the word of b3sum: {error}"),
    }
    let daemon = scratch.daemon(&[("data", &to)]);
    let (ticket, far) = (daemon.ticket.display().to_string(), daemon.place("data", ""));
    let (list_text, to_text) = (list.display().to_string(), to.display().to_string());
    let check = |more: &[&str], place: &str| {
        let words = ["check", "--ticket", &ticket, "--sums", &list_text];
        let out = scratch.run(words.iter().chain(more).copied().chain([place]));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code().unwrap_or(-1), text(&out.stdout), text(&out.stderr))
    };
    // To b3sum a link is what it leads to.
    std::fs::write(&list, format!("{}\n{}  ./link\n", lines.join("\n"), digest("a"))).unwrap();
    for place in [&to_text, &far] {
        let (code, out, err) = check(&[], place);
        assert_eq!(code, 0, "{out}{err}");
        assert!(out.starts_with("same: 4 files of the list looked at, "), "{out}");
    }
    std::fs::write(to.join("plain"), "A").unwrap();
    std::fs::remove_file(to.join("back\\slash")).unwrap();
    std::fs::write(to.join("extra"), "").unwrap();
    std::fs::remove_file(to.join("d/line\nbreak")).unwrap();
    std::fs::create_dir(to.join("d/line\nbreak")).unwrap();
    for place in [&to_text, &far] {
        let (code, out, err) = check(&[], place);
        assert_eq!(code, 2, "{out}{err}");
        for line in
            ["differs  plain ", "differs  link ", "missing  back\\x5cslash ", "(a directory is there)"]
        {
            assert!(out.contains(line), "{line}: {out}");
        }
        assert!(out.contains("1 missing, 3 differ, 0 unreadable") && out.lines().count() == 5, "{out}");
        assert!(err.contains("is it a list of b3sum?"), "{err}");
        let (code, out, _) = check(&["--json", "--exclude", "*"], place);
        let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        assert_eq!((code, &last["files"], last["extra"].is_null()), (0, &0.into(), true), "{out}");
        // Whoever names a file wants to hear of it; a directory is in no list.
        let names = scratch.path("names");
        std::fs::write(&names, "extra\nd\n").unwrap();
        let (code, out, err) = check(&["--files-from", names.to_str().unwrap()], place);
        assert!(code == 2 && out.contains("1 unreadable"), "{out}{err}");
        assert!(err.contains("`extra`") && err.contains("the list does not have it"), "{err}");
        assert!(!err.contains("`d`"), "{err}");
    }
    // One file, whatever its name; with more than one it is no such list.
    std::fs::write(&list, format!("{}  another name\n", digest("A"))).unwrap();
    assert_eq!(check(&[], &to.join("plain").display().to_string()).0, 0);
    for (bad, why) in [
        (format!("{}  ../x", digest("A")), "line 2: `../x` leads out of the place"),
        (format!("{}  /etc/passwd", digest("A")), "line 2: `/etc/passwd` is absolute"),
        (format!("{} *x", digest("A")), "line 2: it is not "),
    ] {
        std::fs::write(&list, format!("{}  plain\n{bad}\n", digest("B"))).unwrap();
        let (code, out, err) = check(&[], &to_text);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains(why), "{why}: {err}");
    }
    std::fs::write(&list, "\n").unwrap();
    assert_eq!(check(&[], &to_text).0, 1);
    // Two lists cannot both come by stdin.
    for other in ["--files-from", "--exclude-from", "--include-from"] {
        let refused = scratch.run(["check", "--sums", "-", other, "-", &to_text]);
        let err = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(1) && err.contains("stdin is one file"), "{err}");
    }
    // A second place has no part in it.
    assert_eq!(check(&[to_text.as_str()], &to_text).0, 1);
}
