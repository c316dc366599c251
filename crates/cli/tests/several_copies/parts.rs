//! One copy that several hosts share: parts, and several hosts in one place.

use super::support::facts;
use super::support::job::journal_bytes;
use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use thalweg_mover::part;
use thalweg_wire::RelativePath;
use thalweg_wire::message::PartOf;

/// A tree here, and two daemons of one site: they have one key, and one file system behind them.
struct Pair {
    scratch: Scratch,
    beside: Scratch,
    one: Daemon,
    other: Daemon,
}

impl Pair {
    fn new() -> Pair {
        let (scratch, beside) = (Scratch::new(), Scratch::new());
        make_tree(&scratch.path("from"));
        let (export, state) = (scratch.path("export"), beside.path("server-state"));
        std::fs::create_dir(&export).unwrap();
        std::fs::create_dir(&state).unwrap();
        chmod(&state, 0o700);
        let one = scratch.daemon(&[("data", &export)]);
        for key in ["server.pem", "client.pem"] {
            std::fs::copy(scratch.path("server-state").join(key), state.join(key)).unwrap();
        }
        let other = beside.daemon(&[("data", &export)]);
        Pair { scratch, beside, one, other }
    }

    fn place(&self, path: &str) -> String {
        format!("tw://{},{}/data/{path}", self.one.address(), self.other.address())
    }

    fn copy(&self, more: &[&str], from: &str, to: &str) -> Output {
        let ticket = text(&self.one.ticket);
        let options = ["cp", "--json", "--ticket", &ticket];
        self.scratch.run([&options[..], more, &[from, to]].concat())
    }
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mtime(path: &Path) -> (i64, i64) {
    let meta = std::fs::metadata(path).unwrap();
    (meta.mtime(), meta.mtime_nsec())
}

/// How each copy of a command ended, by its number.
fn ends(output: &Output) -> BTreeMap<u64, Value> {
    let told = events(&String::from_utf8_lossy(&output.stdout));
    let ends = told.into_iter().filter(|event| event["event"] == "finished");
    ends.map(|event| (event["copy"].as_u64().unwrap(), event)).collect()
}

/// What is no directory below a place.
fn names(root: &Path) -> BTreeSet<Vec<u8>> {
    let all = facts(root).into_iter().filter(|(_, fact)| !fact.starts_with("directory"));
    all.map(|(name, _)| name).collect()
}

#[test]
fn two_daemons_of_one_place_take_and_give_a_part_each_and_the_second_time_nothing_moves() {
    let pair = Pair::new();
    let (from, back) = (text(&pair.scratch.path("from/")), text(&pair.scratch.path("back/")));
    let receipt = text(&pair.scratch.path("receipt"));
    let there = pair.place("to/");
    let ways = [(&from, &there, "export/to"), (&there, &back, "back")];
    for (source, destination, end) in ways {
        let output = pair.copy(&["--receipt", &receipt], source, destination);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert_eq!(ends(&output).keys().collect::<Vec<_>>(), [&1u64, &2], "{}", said(&output));
        assert!(ends(&output).values().all(|end| end["bytes_done"].as_u64() > Some(0)), "{}", said(&output));
        let end = pair.scratch.path(end);
        assert_same(&pair.scratch.path("from"), &end);
        assert_eq!(mtime(&pair.scratch.path("from")), mtime(&end));
        assert_no_litter(&end);
        for number in [1, 2] {
            let receipt = format!("{receipt}.{number}");
            let written = std::fs::read_to_string(&receipt).unwrap();
            let header: Value = serde_json::from_str(written.lines().next().unwrap()).unwrap();
            assert_eq!(header["part"], format!("{number}/2"), "{header}");
        }
        pair.scratch.ok(["verify", &format!("{receipt}.1"), &format!("{receipt}.2"), &text(&end)]);
        let again = pair.copy(&[], source, destination);
        assert_eq!(again.status.code(), Some(0), "{}", said(&again));
        assert!(ends(&again).values().all(|end| end["bytes_received"] == 0), "{}", said(&again));
        assert_same(&pair.scratch.path("from"), &end);
        assert_eq!(mtime(&pair.scratch.path("from")), mtime(&end));
    }
}

#[test]
fn receipts_of_all_parts_certify_the_tree_together() {
    let pair = Pair::new();
    let (from, end) = (text(&pair.scratch.path("from/")), pair.scratch.path("export/to"));
    let receipt = text(&pair.scratch.path("receipt"));
    let output = pair.copy(&["--receipt", &receipt], &from, &pair.place("to/"));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let (one, other, place) = (format!("{receipt}.1"), format!("{receipt}.2"), text(&end));
    let verify = |words: &[&str]| {
        let output = pair.scratch.run([&["verify", "--json"][..], words].concat());
        let last = events(&String::from_utf8_lossy(&output.stdout)).pop().unwrap_or_default();
        (output.status.code(), last)
    };
    let (code, told) = verify(&["--strict", &one, &other, &place]);
    assert_eq!((code, told["extra"].as_u64()), (Some(0), Some(0)), "{told}");
    let receipts = told["receipts"].as_array().unwrap();
    let parts: Vec<&Value> = receipts.iter().map(|each| &each["part"]).collect();
    assert_eq!(parts, ["1/2", "2/2"]);
    // Directories are in both, and were looked at once.
    let in_them: u64 = receipts.iter().filter_map(|each| each["entries"].as_u64()).sum();
    assert!(told["entries"].as_u64() < Some(in_them), "{told}");
    // One alone does not know what the other has, and twice the same is not both.
    let (code, told) = verify(&["--strict", &one, &place]);
    assert!(code == Some(2) && told["extra"].as_u64() > Some(0), "{told}");
    for named in [&[&*one, &*place][..], &[&*one, &*one, &*place]] {
        let (code, told) = verify(named);
        assert_eq!((code, &told["parts_missing"]), (Some(2), &serde_json::json!([2])), "{told}");
    }
    let alone = pair.scratch.run(["verify", &one, &place]);
    assert!(said(&alone).contains("verified: part 1 of 2: "), "{}", said(&alone));
    // Each has to be what was signed.
    let written = std::fs::read_to_string(&other).unwrap();
    std::fs::write(&other, written.replacen("\"part\":\"2/2\"", "\"part\":\"3/3\"", 1)).unwrap();
    assert_eq!(verify(&[&one, &other, &place]).0, Some(4));
    let alone = [place.as_str()];
    for refused in [&alone[..], &["--sample", "5", &one, &one, &place], &["--show", &one, &place]] {
        assert_eq!(verify(refused).0, Some(1), "{refused:?}");
    }
}

#[test]
fn hosts_share_a_comparison_as_they_share_a_copy_and_one_that_is_down_leaves_its_part() {
    let pair = Pair::new();
    let (from, there) = (text(&pair.scratch.path("from/")), pair.place("to/"));
    let at_one = format!("tw://{}/data/to/", pair.one.address());
    let output = pair.copy(&[], &from, &there);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let Pair { scratch, beside: _beside, one, other } = pair;
    let ticket = text(&one.ticket);
    let check = |words: &[&str]| {
        let options = ["check", "--json", "--patience", "2s", "--ticket", &ticket];
        let output = scratch.run([&options[..], words].concat());
        let mut told = events(&String::from_utf8_lossy(&output.stdout));
        let last = told.pop().unwrap_or_default();
        let differences = told.iter().filter(|event| event["event"] == "difference").count();
        (output.status.code(), differences, last)
    };
    let (code, _, whole) = check(&[&from, &at_one]);
    assert_eq!((code, &whole["part"]), (Some(0), &Value::Null), "{whole}");
    let (code, _, told) = check(&[&from, &there]);
    assert_eq!((code, &told["parts_missing"]), (Some(0), &serde_json::json!([])), "{told}");
    for count in ["entries", "files", "bytes"] {
        assert_eq!(told[count], whole[count], "{count}");
    }
    let files = |event: &Value| event["files"].as_u64().unwrap();
    let parts = ["1/3", "2/3", "3/3"].map(|part| {
        let (code, _, told) = check(&["--part", part, &from, &at_one]);
        assert_eq!((code, told["part"].as_str()), (Some(0), Some(part)), "{told}");
        files(&told)
    });
    assert!(parts.iter().all(|part| *part < files(&whole)), "{parts:?}");
    assert_eq!(parts.iter().sum::<u64>(), files(&whole));
    // One part has each difference, that of a directory and what is in it too.
    std::fs::create_dir(scratch.path("export/to/extra")).unwrap();
    std::fs::write(scratch.path("export/to/extra/file"), "x").unwrap();
    let (code, differences, told) = check(&[&from, &there]);
    assert_eq!((code, differences, told["extra"].as_u64()), (Some(2), 2, Some(2)), "{told}");
    std::fs::remove_dir_all(scratch.path("export/to/extra")).unwrap();
    for words in [["--part", "1/2"], ["--sample", "5"]] {
        assert_eq!(check(&[&words[..], &[&*from, &*there]].concat()).0, Some(1), "{words:?}");
    }
    other.kill();
    let (code, differences, told) = check(&[&from, &there]);
    assert_eq!((code, differences), (Some(3), 0), "{told}");
    assert_eq!(told["parts_missing"], serde_json::json!([2]), "{told}");
    assert!(files(&told) < files(&whole), "{told}");
}

#[test]
fn a_host_that_is_down_leaves_its_part_undone_and_the_same_command_does_it() {
    let pair = Pair::new();
    let (from, there) = (text(&pair.scratch.path("from/")), pair.place("to/"));
    let receipt = text(&pair.scratch.path("receipt"));
    // What they leave would pass for receipts of the next run.
    let before = pair.copy(&["--receipt", &receipt], &from, &pair.place("before/"));
    assert_eq!(before.status.code(), Some(0), "{}", said(&before));
    let (export, address) = (pair.scratch.path("export"), pair.other.address());
    let Pair { scratch, beside, one, other } = pair;
    other.kill();
    let ticket = text(&one.ticket);
    let copy = |patience: &str| {
        let options = ["cp", "--json", "--ticket", &ticket, "--receipt", &receipt, "--patience", patience];
        scratch.run([&options[..], &[&*from, &*there]].concat())
    };
    let (one_of_them, other_of_them) = (format!("{receipt}.1"), format!("{receipt}.2"));
    let end = text(&export.join("to"));
    let output = copy("2s");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(ends(&output).keys().collect::<Vec<_>>(), [&1u64], "{}", said(&output));
    let (all, first) = (names(&scratch.path("from")), names(&export.join("to")));
    assert!(!first.is_empty() && first.len() < all.len(), "{} of {}", first.len(), all.len());
    assert!(said(&output).contains("receipt.2` was of an earlier run"), "{}", said(&output));
    assert!(!Path::new(&other_of_them).exists());
    let alone = scratch.run(["verify", &one_of_them, &end]);
    assert_eq!(alone.status.code(), Some(2), "{}", said(&alone));
    let _other = beside.daemon_at(&address, &[("data", &export)], &[], |command| command);
    let output = copy("60s");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(ends(&output)[&1u64]["bytes_received"], 0, "{}", said(&output));
    assert_same(&scratch.path("from"), &export.join("to"));
    let both = scratch.run(["verify", "--json", &one_of_them, &other_of_them, &end]);
    let told = events(&String::from_utf8_lossy(&both.stdout)).pop().unwrap_or_default();
    let expected = (&serde_json::json!([]), Some(0));
    assert_eq!((&told["parts_missing"], told["missing"].as_u64()), expected, "{told}");
}

#[test]
fn an_ssh_host_that_is_not_reached_leaves_its_part_undone_and_the_other_goes_on() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    make_tree(&scratch.path("from"));
    // Nobody listens at the first port.
    let place = format!("ssh://127.0.0.1:1,127.0.0.1:{}{}", sshd.port, scratch.path("to/").display());
    let output = scratch.run(["cp", "--json", "-e", &sshd.rsh, &text(&scratch.path("from/")), &place]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(ends(&output).keys().collect::<Vec<_>>(), [&2u64], "{}", said(&output));
    let alone = text(&scratch.path("alone/"));
    scratch.ok(["cp", "--part", "2/2", &text(&scratch.path("from/")), &alone]);
    assert_same(&scratch.path("alone"), &scratch.path("to"));
}

/// Pushed, pulled and by ssh, and within one machine.
#[test]
fn a_part_is_the_same_whichever_way_it_goes_and_all_are_together_the_tree() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let exports = [("in", scratch.path("from")), ("out", scratch.path("export"))];
    let exports: Vec<(&str, &Path)> = exports.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let daemon = scratch.daemon(&exports);
    let sshd = Sshd::start(&scratch);
    let (from, ticket) = (text(&scratch.path("from/")), text(&daemon.ticket));
    let mut met = BTreeSet::new();
    for number in 1..=4 {
        let part = format!("{number}/4");
        let at = |name: &str| scratch.path(&format!("{name}-{number}"));
        let copy = |more: &[&str], from: &str, to: &str| {
            let options = ["cp", "--part", &part, "--ticket", &ticket];
            scratch.ok([&options[..], more, &[from, to]].concat());
        };
        copy(&[], &from, &text(&at("here")));
        let alone = names(&at("here"));
        assert!(met.is_disjoint(&alone), "part {part}");
        met.extend(alone);
        copy(&[], &from, &daemon.place("out", &format!("pushed-{number}/")));
        copy(&[], &daemon.place("in", ""), &text(&at("pulled")));
        let mut others = vec![at("export/pushed"), at("pulled")];
        if let Some(sshd) = &sshd {
            copy(&["-e", &sshd.rsh], &from, &sshd.url(&at("put")));
            copy(&["-e", &sshd.rsh], &sshd.url(&scratch.path("from/")), &text(&at("got")));
            others.extend([at("put"), at("got")]);
        }
        for other in others {
            assert_same(&at("here"), &other);
        }
    }
    assert_eq!(met, names(&scratch.path("from")));
}

#[test]
fn parts_that_run_at_the_same_time_make_the_tree_that_one_copy_makes() {
    let scratch = Scratch::new();
    let from = scratch.path("from");
    make_tree(&from);
    let copy = |options: &[&str], to: &Path| {
        let parts = (1..=4).map(|number| {
            let command = with(scratch.thalweg(), ["cp", "--part", &format!("{number}/4")]);
            Running::start(with(with(command, options), [scratch.path("from/"), to.join("")]))
        });
        for part in parts.collect::<Vec<_>>() {
            part.end(LIMIT).expect(0);
        }
    };
    // The second time by content, which all of them read.
    let to = scratch.path("to");
    for check in ["evidence", "digest"] {
        copy(&["--check", check], &to);
        assert_same(&from, &to);
        assert_eq!(mtime(&from), mtime(&to));
        assert_no_litter(&to);
    }
    let timeless = scratch.path("timeless");
    for _ in 0..2 {
        copy(&["--no-times"], &timeless);
        assert_eq!(names(&from), names(&timeless));
        assert_no_litter(&timeless);
    }
}

#[test]
fn parts_into_an_export_that_replaces_nothing_are_together_the_tree() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let once = format!("once={}:no-replace", export.display());
    let daemon = scratch.daemon_with(&[("data", &export)], &["--export", &once]);
    let (from, there, ticket) =
        (text(&scratch.path("from/")), daemon.place("once", "to/"), text(&daemon.ticket));
    for _ in 0..2 {
        let parts = (1..=3).map(|number| {
            let part = format!("{number}/3");
            let command = with(scratch.thalweg(), ["cp", "--ticket", &ticket, "--part", &part]);
            Running::start(with(command, [&from, &there]))
        });
        for part in parts.collect::<Vec<_>>() {
            part.end(LIMIT).expect(0);
        }
        assert_same(&scratch.path("from"), &export.join("to"));
    }
}

#[test]
fn parts_of_a_user_whom_modes_keep_out_fill_directories_that_others_close_at_the_same_time() {
    let scratch = Scratch::new();
    let root = scratch.path("from");
    std::fs::create_dir_all(root.join("d/e")).unwrap();
    for number in 0..80 {
        std::fs::write(root.join(format!("d/f{number}")), noise(number, 500)).unwrap();
        std::fs::write(root.join(format!("d/e/g{number}")), noise(number, 500)).unwrap();
    }
    std::fs::hard_link(root.join("d/f0"), root.join("second-name")).unwrap();
    chmod(&root.join("d/e"), 0o500);
    chmod(&root.join("d"), 0o555);
    chmod(scratch.root(), 0o777);
    let Some(as_nobody) = scratch.as_nobody("parts in closed directories") else { return };
    let nobody = support::chance::is_root().then_some(support::NOBODY);
    for name in facts(&root).into_keys().chain([Vec::new()]) {
        let path = root.join(String::from_utf8(name).unwrap());
        std::os::unix::fs::chown(path, nobody, nobody).unwrap();
    }
    let part = |number: u32| -> Command {
        let command = with(scratch.thalweg(), ["cp", "--part", &format!("{number}/6")]);
        let mut command = with(command, [scratch.path("from/"), scratch.path("to/")]);
        command.current_dir(scratch.root());
        as_nobody(command)
    };
    for part in (1..=6).map(|number| Running::start(part(number))).collect::<Vec<_>>() {
        part.end(LIMIT).expect(0);
    }
    assert_same(&root, &scratch.path("to"));
    assert_no_litter(&scratch.path("to"));
    for tree in [root, scratch.path("to")] {
        ["d", "d/e"].iter().for_each(|name| chmod(&tree.join(name), 0o755));
    }
}

#[test]
fn a_part_that_is_killed_goes_on_and_sends_nothing_that_another_part_has() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from/below")).unwrap();
    let is_first = |number: &u64| {
        let path = RelativePath::new(format!("below/file-{number}").into_bytes()).unwrap();
        part::has_name(PartOf::new(1, 2).unwrap(), &path)
    };
    let write = |number: u64, bytes| {
        let path = scratch.path(&format!("from/below/file-{number}"));
        std::fs::write(path, noise(number, bytes)).unwrap();
    };
    // One large file is all of the part that is killed.
    let (firsts, seconds): (Vec<u64>, Vec<u64>) = (0..24).partition(is_first);
    write(firsts[0], 48 << 20);
    seconds.into_iter().for_each(|number| write(number, 1 << 20));
    let (from, to) = (text(&scratch.path("from/")), text(&scratch.path("to/")));
    scratch.ok(["cp", "--part", "2/2", &from, &to]);
    let theirs = names(&scratch.path("to"));
    let inodes = || -> Vec<u64> {
        let path = |name: &Vec<u8>| scratch.path("to").join(String::from_utf8(name.clone()).unwrap());
        theirs.iter().map(|name| std::fs::metadata(path(name)).unwrap().ino()).collect()
    };
    let before = inodes();
    let first = ["cp", "--part", "1/2", "--chunk", "1MiB"];
    let mut slow = Running::start(with(with(scratch.thalweg(), first), ["--bwlimit", "8MB", &*from, &*to]));
    // Some chunks are recorded: a digest of each has 32 bytes.
    let is_at_work = || journal_bytes(&scratch.path("to")) > 500;
    assert!(wait_until(LIMIT, || is_at_work() || slow.is_over()));
    assert!(!slow.is_over(), "it was to be killed at work");
    slow.kill();
    let report = scratch.path("report");
    let out = scratch.ok([&first[..], &["--json", "--report", &text(&report), &from, &to]].concat());
    let end = events(&out).into_iter().find(|event| event["event"] == "finished").unwrap();
    assert!(end["bytes_resumed"].as_u64() > Some(0), "{end}");
    let told = events(&std::fs::read_to_string(&report).unwrap());
    let sent: Vec<&str> = told.iter().filter_map(|event| event["path"].as_str()).collect();
    assert!(sent.iter().any(|path| path.starts_with("below/file-")), "{sent:?}");
    assert!(sent.iter().all(|path| !theirs.contains(path.as_bytes())), "{sent:?}");
    assert_eq!(inodes(), before);
    assert_same(&scratch.path("from"), &scratch.path("to"));
    assert_no_litter(&scratch.path("to"));
    for part in ["1/2", "2/2"] {
        let out = scratch.ok(["cp", "--json", "--part", part, &from, &to]);
        let end = events(&out).into_iter().find(|event| event["event"] == "finished").unwrap();
        assert!(end["bytes_received"] == 0 && end["bytes_done"] == 0, "part {part}: {end}");
    }
}

#[test]
fn parts_that_there_are_not_and_what_a_part_cannot_do_are_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    let (from, to) = (text(&scratch.path("from/")), text(&scratch.path("to/")));
    let refuse = |words: &[&str], why: &str| {
        let out = scratch.run(words);
        assert_eq!(out.status.code(), Some(1), "{words:?}: {}", said(&out));
        assert!(said(&out).contains(why), "{words:?}: {}", said(&out));
        assert!(!scratch.path("to").exists(), "{words:?}");
    };
    for part in ["0/4", "5/4", "1/0", "4", "1/4/4", "a/b", "1/4097"] {
        refuse(&["cp", "--part", part, &from, &to], "part K of N is K/N");
    }
    refuse(&["sync", "--delete", "--part", "1/4", &from, &to], "let one host run `thalweg sync --delete`");
    refuse(&["sync", "--delete", &from, "a,b:x"], "let one host run `thalweg sync --delete`");
    let kept = "no source file can be removed";
    refuse(&["cp", "--remove-source-files", "--part", "1/4", &from, &to], kept);
    refuse(&["cp", "--remove-source-files", &from, "a,b:x"], kept);
    let both = ["cp", "--part", "1/4", &from, &to, "--and", &from, &to];
    refuse(&both, "cannot be used with");
    refuse(&both, "--part");
    refuse(&["cp", "--part", "1/4", &from, "a,b:x"], "part 1/4 is one host's, and 2 are named");
    refuse(&["cp", "a,b:x", "a:y", &to], "all sources are at the same hosts");
    refuse(&["cp", &from, "a[1-17]:x"], "at most 16 hosts share a copy in one command");
    refuse(&["cp", &from, "a,b:x", "--and", &from, "n[1-15]:x"], "at most 16 copies in one command");
    refuse(&["ls", "a,b:x"], "one place is at one host here");
    refuse(&["watch", &from, "a,b:x"], "one place is at one host here");
}
