//! Filters, lists of names and dry runs, by the real program.

mod support;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use support::{Scratch, facts, finish, make_tree};

/// `a.c`, `a.o`, `keep/b.c`, `keep/b.o`, `only/x.o`, `only/deep/y.o`, `z`.
fn tree(root: &Path) {
    for directory in ["keep", "only/deep"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for name in ["a.c", "a.o", "keep/b.c", "keep/b.o", "only/x.o", "only/deep/y.o", "z"] {
        std::fs::write(root.join(name), name).unwrap();
    }
}

/// Names copied under these options.
fn copied(scratch: &Scratch, options: &[&str]) -> Vec<String> {
    let to = scratch.path("to");
    let _ = std::fs::remove_dir_all(&to);
    let (from, to) = (scratch.path("from/").display().to_string(), to.display().to_string());
    scratch.ok(["cp"].iter().chain(options).copied().chain([from.as_str(), to.as_str()]));
    facts(&scratch.path("to")).keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

#[test]
fn the_first_rule_that_matches_decides_in_the_order_typed_whatever_the_option() {
    let scratch = Scratch::new();
    tree(&scratch.path("from"));
    let all =
        ["a.c", "a.o", "keep", "keep/b.c", "keep/b.o", "only", "only/deep", "only/deep/y.o", "only/x.o", "z"];
    assert_eq!(copied(&scratch, &["--include", "*.o", "--exclude", "*.o"]), all);
    let without = ["a.c", "keep", "keep/b.c", "only", "only/deep", "z"];
    assert_eq!(copied(&scratch, &["--exclude", "*.o", "--include", "*.o"]), without);
    assert_eq!(copied(&scratch, &["--exclude", "*.o", "--filter", "+ *.o"]), without);
    assert_eq!(
        copied(&scratch, &["--filter", "+ /a.o", "--exclude=*.o", "--exclude", "z"]),
        ["a.c", "a.o", "keep", "keep/b.c", "only", "only/deep"]
    );
}

#[test]
fn rules_from_files_stand_where_their_option_stands() {
    let scratch = Scratch::new();
    tree(&scratch.path("from"));
    std::fs::write(scratch.path("rules"), "# what is built\r\n*.o\n\n; and\n+ z\n- z\n").unwrap();
    let rules = scratch.path("rules").display().to_string();
    assert_eq!(
        copied(&scratch, &["--include", "/only/***", "--exclude-from", &rules]),
        ["a.c", "keep", "keep/b.c", "only", "only/deep", "only/deep/y.o", "only/x.o", "z"]
    );
    std::fs::write(scratch.path("in"), b"*/\0*.c\0").unwrap();
    let taken = scratch.path("in").display().to_string();
    assert_eq!(
        copied(&scratch, &["-0", "--include-from", &taken, "--exclude", "*"]),
        ["a.c", "keep", "keep/b.c", "only", "only/deep"]
    );
}

#[test]
fn an_excluded_directory_is_left_out_with_all_that_is_in_it() {
    let scratch = Scratch::new();
    tree(&scratch.path("from"));
    assert_eq!(
        copied(&scratch, &["--exclude", "only/", "--include", "y.o", "--exclude", "a.?"]),
        ["keep", "keep/b.c", "keep/b.o", "z"]
    );
    assert_eq!(copied(&scratch, &["--exclude", "*"]), [] as [&str; 0]);
}

#[test]
fn a_filter_holds_through_a_daemon_in_both_directions() {
    let scratch = Scratch::new();
    tree(&scratch.path("from"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let ticket = daemon.ticket.display().to_string();
    let (from, back) =
        (scratch.path("from/").display().to_string(), scratch.path("back").display().to_string());
    scratch.ok([
        "cp",
        "--ticket",
        &ticket,
        "--include",
        "b.o",
        "--exclude",
        "*.o",
        &from,
        &daemon.place("data", "x"),
    ]);
    assert!(scratch.path("export/x/keep/b.o").exists() && !scratch.path("export/x/a.o").exists());
    scratch.ok([
        "cp",
        "--ticket",
        &ticket,
        "--include",
        "b.o",
        "--exclude",
        "b.*",
        &daemon.place("data", "x/"),
        &back,
    ]);
    assert!(scratch.path("back/keep/b.o").exists() && !scratch.path("back/keep/b.c").exists());
    assert!(scratch.path("back/a.c").exists());
}

#[test]
fn only_the_names_listed_are_copied_from_a_file_from_stdin_and_with_nul() {
    let scratch = Scratch::new();
    tree(&scratch.path("from"));
    std::fs::write(scratch.path("from/line\nbreak"), b"x").unwrap();
    std::fs::write(scratch.path("list"), "./a.c\n/only/deep/y.o\n").unwrap();
    let list = scratch.path("list").display().to_string();
    assert_eq!(copied(&scratch, &["--files-from", &list]), ["a.c", "only", "only/deep", "only/deep/y.o"]);
    let mut command = scratch.thalweg();
    command.args(["cp", "-0", "--files-from", "-"]).arg(scratch.path("from")).arg(scratch.path("by-nul"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"line\nbreak\0z\0").unwrap();
    assert_eq!(finish(child).status.code(), Some(0));
    assert_eq!(facts(&scratch.path("by-nul")).len(), 2);
}

/// Whoever tries a filter with made data is to see what it does.
#[test]
fn a_filter_counts_for_data_that_are_made_and_a_list_is_refused_there() {
    let scratch = Scratch::new();
    let to = scratch.path("to").display().to_string();
    let set = "data:files=3,size=1KiB,seed=1";
    scratch.ok(["cp", "--exclude", "f0000001", set, &to]);
    let names: Vec<String> =
        facts(&scratch.path("to")).keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    let has = |name: &str| names.iter().any(|path| path.ends_with(name));
    assert!(has("/f0000000") && !has("/f0000001") && has("/f0000002"), "{names:?}");
    let out = scratch.path("out").display().to_string();
    scratch.run(["cp", "--exclude", "zero", "zero:1KiB", &out]);
    assert!(!scratch.path("out").is_file());
    std::fs::write(scratch.path("list"), "f0000000\n").unwrap();
    let list = scratch.path("list").display().to_string();
    for from in [set, "zero:1KiB", "sim:"] {
        let out = scratch.run(["cp", "--files-from", &list, from, "null:"]);
        assert_eq!(out.status.code(), Some(3), "{from}");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains("--files-from") && said.contains("--exclude"), "{from}: {said}");
    }
}

#[test]
fn a_list_that_leads_out_or_names_nothing_is_exit_1_and_a_name_that_is_not_there_exit_2() {
    let scratch = Scratch::new();
    tree(&scratch.path("from"));
    let list = scratch.path("list");
    for (content, code) in [("../secret\n", 1), ("\n", 1), ("a.c\nnot-there\n", 2)] {
        std::fs::write(&list, content).unwrap();
        let words =
            ["cp".into(), "--files-from".into(), list.clone(), scratch.path("from"), scratch.path("to")];
        assert_eq!(scratch.run(words).status.code(), Some(code), "{content}");
    }
    let words = ["cp".into(), "--filter".into(), "merge x".into(), scratch.path("from"), scratch.path("to")];
    assert_eq!(scratch.run(words).status.code(), Some(1));
}

#[test]
fn a_filter_explains_itself_and_shows_names_inert() {
    let scratch = Scratch::new();
    let out = scratch.ok([
        "explain-filter",
        "--include",
        "*.c",
        "--exclude",
        "/build/",
        "--filter",
        "- *\x1b*",
        "src/a.c",
        "build/",
        "build/x.c",
        "z",
        "e\x1bsc",
    ]);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].contains("moved") && lines[0].contains("rule 1 `+ *.c`"), "{out}");
    assert!(lines[1].contains("left out") && lines[1].contains("rule 2 `- /build/`"), "{out}");
    assert!(lines[2].contains("left out") && lines[2].contains("directory `build`"), "{out}");
    assert!(lines[3].contains("no rule matches"), "{out}");
    assert!(lines[4].contains("`e\\x1bsc`") && lines[4].contains("rule 3"), "{out}");
    assert!(!out.contains('\x1b'));
}

/// As copied: names of the list by their own rules, and the directories above them whatever the rules say.
#[test]
fn a_filter_explains_what_a_list_of_names_leaves_out() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("list"), "a.c\nshut/a.c\nb.o\nonly/\n").unwrap();
    let list = scratch.path("list").display().to_string();
    let rules = ["--exclude", "*.o", "--exclude", "/shut/"];
    let paths = ["a.c", "z", "b.o", "shut/a.c", "shut/", "only", "only/x", "shut"];
    let out = scratch.ok(["explain-filter", "--files-from", &list].iter().chain(&rules).chain(&paths));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "`a.c` is moved: no rule matches it");
    assert_eq!(lines[1], "`z` is left out: not in --files-from");
    assert!(lines[2].contains("left out") && lines[2].contains("rule 1 `- *.o`"), "{out}");
    assert!(lines[3].contains("`shut/a.c` is moved"), "{out}");
    assert_eq!(lines[4], "`shut` is moved: a name in --files-from is below it");
    assert!(lines[5].contains("is moved"), "{out}");
    assert_eq!(lines[6], "`only/x` is left out: not in --files-from");
    assert_eq!(lines[7], lines[4]);
}

#[test]
fn a_list_copies_what_explain_filter_says_also_below_directories_that_a_rule_leaves_out() {
    let scratch = Scratch::new();
    tree(&scratch.path("from"));
    std::fs::write(scratch.path("list"), "keep/b.c\nonly/deep/y.o\nkeep\nonly/x.o\na.o\nz\n").unwrap();
    let list = scratch.path("list").display().to_string();
    let names =
        ["a.c", "a.o", "keep", "keep/b.c", "keep/b.o", "only", "only/deep", "only/deep/y.o", "only/x.o", "z"];
    for (rules, expected) in [
        (["--include", "*.c", "--exclude", "*"], &["keep", "keep/b.c", "only", "only/deep"][..]),
        (["--exclude", "deep/", "--exclude", "?.o"], &["keep", "keep/b.c", "only", "only/deep", "z"][..]),
        (
            ["--exclude", "/only/", "--exclude", "keep"],
            &["a.o", "keep", "keep/b.c", "only", "only/deep", "only/deep/y.o", "only/x.o", "z"][..],
        ),
    ] {
        let options: Vec<&str> = ["--files-from", &list].into_iter().chain(rules).collect();
        assert_eq!(copied(&scratch, &options), expected, "{rules:?}");
        let out = scratch.ok(["explain-filter"].iter().chain(&options).chain(&names));
        let told = names.iter().zip(out.lines()).filter(|(_, line)| line.contains("` is moved"));
        let told: Vec<&str> = told.map(|(name, _)| *name).collect();
        assert_eq!(told, expected, "{rules:?}: {out}");
    }
}

#[test]
fn a_dry_run_tells_what_it_would_do_and_why_and_changes_nothing_here_and_at_a_daemon() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    make_tree(&scratch.path("export/there"));
    std::fs::write(scratch.path("export/there/one-byte"), b"other content").unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let ticket = daemon.ticket.display().to_string();
    let from = scratch.path("from/").display().to_string();
    let before = facts(&scratch.path("export"));
    for place in [
        daemon.place("data", "new/deep"),
        daemon.place("data", "there"),
        scratch.path("export/there").display().to_string(),
        scratch.path("export/other").display().to_string(),
    ] {
        let out = scratch.ok(["sync", "-n", "--ticket", &ticket, &from, &place]);
        assert!(out.starts_with("dry run: ") && out.contains("would be copied"), "{out}");
        assert!(out.contains("nothing was changed"), "{out}");
        for knob in ["streams      ", "chunk        4.00 MiB (", "segment      ", "concurrency  256 ("] {
            assert!(out.contains(knob), "{out}");
        }
    }
    assert_eq!(facts(&scratch.path("export")), before);
    let words = ["cp", "-n", "--receipt", "x", &from, &daemon.place("data", "")];
    assert_eq!(scratch.run(words).status.code(), Some(1));
}

#[test]
fn a_dry_run_counts_the_bytes_that_the_copy_then_moves() {
    let scratch = Scratch::new();
    tree(&scratch.path("from"));
    let (from, to) = (scratch.path("from/").display().to_string(), scratch.path("to").display().to_string());
    let dry = scratch.ok(["cp", "-n", &from, &to]);
    let copied = scratch.ok(["cp", &from, &to]);
    let start = |text: &str, until: &str| text.split(until).next().unwrap().to_owned();
    assert_eq!(start(dry.strip_prefix("dry run: ").unwrap(), " would"), start(&copied, " copied"));
}

/// What a copy left out is neither missing nor extra.
#[test]
fn check_with_the_filter_of_a_copy_compares_what_the_copy_moved() {
    let scratch = Scratch::new();
    tree(&scratch.path("from"));
    let options = ["--include", "/keep/***", "--exclude", "*.o", "--exclude", "deep/"];
    copied(&scratch, &options);
    let daemon = scratch.daemon(&[("data", &scratch.path("to"))]);
    let from = scratch.path("from").display().to_string();
    let ticket = ["--ticket".to_owned(), daemon.ticket.display().to_string()];
    let check = |options: &[&str], to: &str| {
        let mut words: Vec<&str> = vec!["check", &ticket[0], &ticket[1]];
        words.extend(options);
        let out = scratch.run(words.into_iter().chain([from.as_str(), to]));
        let told = [out.stdout, out.stderr].map(|told| String::from_utf8_lossy(&told).into_owned());
        (out.status.code(), told.concat())
    };
    let places = [scratch.path("to").display().to_string(), daemon.place("data", "")];
    for to in &places {
        let (code, told) = check(&[], to);
        assert!(code == Some(2) && told.contains("missing  a.o "), "{told}");
        assert!(told.contains("missing  only/deep "), "{told}");
        let (code, told) = check(&options, to);
        assert!(code == Some(0) && told.contains("in 4 files compared by digest"), "{told}");
    }
    // Of a list: its names, whatever else differs; one that is nowhere is told.
    std::fs::write(scratch.path("to/a.c"), "A.c").unwrap();
    std::fs::write(scratch.path("to/keep/new"), "new").unwrap();
    let list = scratch.path("list").display().to_string();
    for (names, expected, words) in [
        ("keep/b.c\nz\n", 0, "in 2 files compared by digest"),
        ("/keep/b.c\na.c\n", 2, "differs  a.c "),
        ("keep/b.c\nonly/x.o\n", 2, "missing  only/x.o "),
        ("keep/new\n", 2, "extra  keep/new "),
        ("keep/b.c\nnowhere/x\n", 2, "neither place has it"),
    ] {
        std::fs::write(&list, names).unwrap();
        for to in &places {
            let (code, told) = check(&["--files-from", &list], to);
            assert!(code == Some(expected) && told.contains(words), "{names}: {told}");
            let all = ["missing  ", "extra  ", "differs  ", "neither place"];
            let count: usize = all.iter().map(|word| told.matches(word).count()).sum();
            assert_eq!(count, usize::from(expected != 0), "{names}: {told}");
        }
    }
}
