//! Results: their modes; those that cannot be read, or have no place, are told, and sent back once they can be.

use crate::support::job::Running;
use crate::support::wait_until;
use crate::{Bench, LIMIT, LOG, analysis, ends};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use thalweg_lab::wrap::wrap;

#[test]
fn results_that_cannot_be_read_are_told_and_sent_back_once_they_can() {
    let bench = Bench::new();
    let results = bench.scratch.path("results");
    let body = r#"rmdir "$THALWEG_ITEM_RESULTS"
        echo no directory > "$THALWEG_ITEM_RESULTS"
        printf '%s' "$THALWEG_ITEM_RESULTS" > "$LOG.where""#;
    let script = analysis(&bench.scratch, &format!("{body}\n{LOG}"));
    bench.put("a", b"a");
    let more =
        ["--json", "--results-back", results.to_str().unwrap(), "--on-arrival", script.to_str().unwrap()];
    let watch = Running::start(bench.local(&more));
    let said = || watch.said().iter().map(|(_, line)| format!("{line}\n")).collect::<String>();
    assert!(wait_until(LIMIT, || said().contains("read the results")), "{}", said());
    assert!(!said().contains("item-done"), "{}", said());
    let kept = PathBuf::from(std::fs::read_to_string(bench.scratch.path("log.where")).unwrap());
    std::fs::remove_file(&kept).unwrap();
    let ready = bench.scratch.path("ready");
    std::fs::create_dir(&ready).unwrap();
    std::fs::write(ready.join("seen"), b"seen").unwrap();
    std::fs::rename(&ready, &kept).unwrap();
    assert!(wait_until(LIMIT, || said().contains("item-done")), "{}", said());
    assert_eq!(std::fs::read(results.join("a/seen")).unwrap(), b"seen");
    assert_eq!(bench.log().len(), 1);
    watch.kill();
}

#[test]
fn results_that_have_no_place_are_told_and_no_success_and_the_watch_ends() {
    let bench = Bench::new();
    let back = bench.scratch.path("back");
    std::fs::create_dir(&back).unwrap();
    let daemon = bench.scratch.daemon(&[("back", &back)]);
    let script = analysis(&bench.scratch, &format!("echo result > \"$THALWEG_ITEM_RESULTS/seen\"\n{LOG}"));
    bench.put("a", b"a");
    let (misspelt, place) = (daemon.place("misspelt", ""), daemon.place("back", ""));
    let ends_with = |place: &str| {
        let ticket = daemon.ticket.to_str().unwrap();
        let more = ["--ticket", ticket, "--idle-exit", "500ms", "--attempts", "2", "--results-back", place];
        ends(bench.local(&[&more[..], &["--on-arrival", script.to_str().unwrap()]].concat()))
    };
    let (code, text) = ends_with(&misspelt);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("there is no export `misspelt`") && text.contains("a: given up"), "{text}");
    // The next start sends them back, and runs nothing again.
    let (code, text) = ends_with(&place);
    assert_eq!((code, bench.log().len()), (Some(0), 1), "{text}");
    assert_eq!(std::fs::read(back.join("a/seen")).unwrap(), b"result\n");
}

/// The watch itself has no umask: copies have the modes of their sources.
#[test]
fn the_directory_of_results_has_the_mode_that_the_users_umask_leaves() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, "mkdir \"$THALWEG_ITEM_RESULTS/sub\"");
    bench.put("a", b"a");
    let results = bench.scratch.path("results");
    let more = ["--idle-exit", "500ms", "--on-arrival", script.to_str().unwrap(), "--results-back"];
    let watch = bench.local(&[&more[..], &[results.to_str().unwrap()]].concat());
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 027; exec \"$@\"", "sh"]);
    let (code, text) = ends(wrap(shell, &watch));
    assert_eq!(code, Some(0), "{text}");
    for name in ["a", "a/sub"] {
        let mode = std::fs::metadata(results.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o750, "{name}");
    }
}
