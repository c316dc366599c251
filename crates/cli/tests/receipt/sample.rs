//! `thalweg verify --sample`: a part of the files is read, by a draw that others can repeat.

use super::verify;
use crate::support::Scratch;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files of equal size.
const FILES: u64 = 40;

/// Files copied with a receipt; returns the receipt and where the copy is.
fn copied(scratch: &Scratch) -> (PathBuf, PathBuf) {
    std::fs::create_dir(scratch.path("from")).unwrap();
    write_all(&scratch.path("from"), "content");
    let (receipt, to) = (scratch.path("receipt"), scratch.path("to"));
    scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), scratch.path("from/"), to.clone()]);
    (receipt, to)
}

fn write_all(directory: &Path, content: &str) {
    for number in 0..FILES {
        std::fs::write(directory.join(format!("file-{number}")), content).unwrap();
    }
}

/// Names that are told to differ.
fn differing(out: &str) -> BTreeSet<&str> {
    out.lines().filter_map(|line| line.strip_prefix("differs  ")?.split("  ").next()).collect()
}

#[test]
fn a_sample_is_read_here_and_at_a_daemon_and_says_how_much_damage_it_would_have_shown() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let ticket = daemon.ticket.display().to_string();
    for place in [to.clone(), daemon.place("data", "to").into()] {
        let words = ["--strict", "--ticket", &ticket, "--sample", "25%", "--seed", "audit:7"];
        let (code, out, err) = verify(&scratch, &receipt, &place, &words);
        assert_eq!(code, 0, "{out}{err}");
        assert!(out.starts_with("verified by sample: 70 B in 10 of 40 files read, 41 entries"), "{out}");
        // All of 9 damaged ones of 40 are missed by 10 in 5.2 of 100 draws, all of 10 in 3.5.
        assert!(out.contains("damage of at least 10 of these files (1 in 4)"), "{out}");
        assert!(out.contains("a probability of 95 %") && out.contains("--sample 10 --seed audit:7"), "{out}");
        assert!(err.contains("10 of 40 files drawn by the seed audit:7: 70 B of 280 B are read"), "{err}");
        let (code, out, err) = verify(&scratch, &receipt, &place, &[&words[1..], &["--json"]].concat());
        let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        let expected = serde_json::json!({
            "seed": "audit:7", "drawn": 10, "files": 10, "bytes": 70, "of_files": 40, "of_bytes": 280,
            "least_found": 10, "probability": 0.95,
        });
        assert_eq!((code, &last["sample"], &last["bytes"]), (0, &expected, &70.into()), "{out}{err}");
    }
    let (code, out, _) = verify(&scratch, &receipt, &to, &["--sample", "1000"]);
    assert!(code == 0 && out.contains("all files with a digest were read"), "{out}");
    let (_, out, _) = verify(&scratch, &receipt, &to, &["--json"]);
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert!(last["sample"].is_null() && last["bytes"] == 280, "{last}");
}

/// Every file has the right size and the wrong content: what is told to differ is what was read.
#[test]
fn the_seed_that_is_told_draws_the_same_files_again_and_another_draws_others() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    write_all(&to, "CONTENT");
    let (code, out, err) = verify(&scratch, &receipt, &to, &["--sample", "10", "--json"]);
    let told: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = told.last().unwrap();
    assert_eq!((code, &last["differing"], &last["exit"]), (4, &10.into(), &4.into()), "{out}{err}");
    let first: BTreeSet<&str> = told
        .iter()
        .filter(|event| event["event"] == "difference")
        .filter_map(|event| event["path"].as_str())
        .collect();
    let seed = last["sample"]["seed"].as_str().unwrap();
    let (code, out, err) = verify(&scratch, &receipt, &to, &["--sample", "10", "--seed", seed]);
    assert_eq!((code, differing(&out)), (4, first.clone()), "{out}{err}");
    assert!(out.contains("NOT as the receipt says: "), "{out}");
    assert!(err.contains("verify without --sample"), "{err}");
    let (_, out, _) = verify(&scratch, &receipt, &to, &["--sample", "10"]);
    let other = differing(&out);
    // Of 847,660,528 samples of 10 it is another.
    assert!(other.len() == 10 && other != first, "{out}");
}

#[test]
fn of_files_that_were_not_drawn_what_is_missing_or_has_another_size_is_found() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    write_all(&to, "CONTENT");
    let words = ["--sample", "1", "--seed", "x"];
    let (_, out, _) = verify(&scratch, &receipt, &to, &words);
    let drawn = differing(&out).into_iter().next().unwrap().to_owned();
    write_all(&to, "content");
    let others: Vec<String> =
        (0..FILES).map(|number| format!("file-{number}")).filter(|name| *name != drawn).collect();
    std::fs::write(to.join(&others[0]), "content and more").unwrap();
    let (code, out, err) = verify(&scratch, &receipt, &to, &words);
    assert!(code == 4 && differing(&out) == BTreeSet::from([others[0].as_str()]), "{out}{err}");
    std::fs::write(to.join(&others[0]), "content").unwrap();
    std::fs::remove_file(to.join(&others[1])).unwrap();
    let (code, out, err) = verify(&scratch, &receipt, &to, &words);
    assert!(code == 2 && out.contains(&format!("missing  {}  ", others[1])), "{out}{err}");
}

#[test]
fn a_sample_of_two_places_is_digested_here_and_at_a_daemon_and_says_what_it_would_have_shown() {
    let scratch = Scratch::new();
    let (_, to) = copied(&scratch);
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let ticket = daemon.ticket.display().to_string();
    let (from, there) = (scratch.path("from").display().to_string(), daemon.place("data", "to"));
    let check = |place: &str, more: &[&str]| {
        let words = [&["check", "--ticket", &ticket, &from, place, "--sample", "25%"][..], more].concat();
        let out = scratch.run(words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let here = to.display().to_string();
    for place in [&here, &there] {
        let (code, out, err) = check(place, &["--seed", "audit:7"]);
        assert_eq!(code, Some(0), "{out}{err}");
        let first = "same by sample: 41 entries on both sides, 70 B in 10 of 40 files compared by digest; ";
        assert!(out.starts_with(first) && out.contains("--sample 10 --seed audit:7"), "{out}");
        assert!(out.contains("damage of at least 10 of these files (1 in 4)"), "{out}");
        assert!(err.contains("drawn by the seed audit:7"), "{err}");
    }
    // Right size, wrong content.
    write_all(&to, "CONTENT");
    let (code, out, err) = check(&there, &["--seed", "audit:7"]);
    assert!(code == Some(2) && err.contains("check without --sample"), "{out}{err}");
    let drawn: BTreeSet<String> = differing(&out).into_iter().map(str::to_owned).collect();
    assert_eq!(drawn.len(), 10, "{out}");
    let (_, out, _) = check(&here, &["--seed", "audit:7", "--json"]);
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let differs = events.iter().filter(|event| event["event"] == "difference");
    let named: BTreeSet<String> = differs.map(|event| event["path"].as_str().unwrap().to_owned()).collect();
    assert_eq!(named, drawn);
    let expected = serde_json::json!({
        "seed": "audit:7", "drawn": 10, "files": 10, "bytes": 70, "of_files": 40, "of_bytes": 280,
        "least_found": 10, "probability": 0.95,
    });
    assert_eq!(events.last().unwrap()["sample"], expected);
    // What has another size shows without being drawn.
    write_all(&to, "short");
    let (code, out, _) = check(&there, &[]);
    assert_eq!((code, differing(&out).len()), (Some(2), 40), "{out}");
}

#[test]
fn a_sample_of_nothing_and_a_seed_without_one_are_refused() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    for words in [
        &["--sample", "0"][..],
        &["--sample", "0%"],
        &["--sample", "101%"],
        &["--sample", "some"],
        &["--sample", "5", "--seed", "a b"],
        &["--sample", "5", "--seed", ""],
        &["--seed", "7"],
    ] {
        let (code, out, err) = verify(&scratch, &receipt, &to, words);
        assert!(code == 1 && out.is_empty(), "{words:?}: {code} {out}{err}");
    }
    for look_at_no_place in ["--show", "--as-b3sum"] {
        let words = ["verify", look_at_no_place, "--sample", "5", "receipt"];
        assert_eq!(scratch.run(words).status.code(), Some(1), "{look_at_no_place}");
    }
}
