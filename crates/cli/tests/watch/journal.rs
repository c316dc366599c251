//! What a watch keeps of what is done: as much as is known, however much happens.

use crate::support::wait_until;
use crate::{Bench, LIMIT, LOG, analysis, ends, start, terminate};
use std::path::PathBuf;
use std::time::Duration;

/// All records of its watches.
pub fn journal(bench: &Bench) -> String {
    let watches = std::fs::read_dir(bench.scratch.path("client-state/watch")).into_iter().flatten().flatten();
    watches.filter_map(|watch| std::fs::read_to_string(watch.path().join("journal")).ok()).collect()
}

#[test]
fn the_journal_of_a_watch_does_not_grow_with_what_happens_but_with_what_is_known() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, LOG);
    let more = ["--on-arrival", script.to_str().unwrap(), "--jobs", "4"];
    let mut watch = start(bench.local(&more));
    // Three records for each arrival: more than are kept of four items.
    let mut written = 0;
    for round in 0..100 {
        for name in ["a", "b", "c", "d"] {
            bench.put(name, format!("{name} {round}").as_bytes());
            written += 1;
        }
        let settled = || bench.log().len() >= written;
        assert!(wait_until(LIMIT, settled), "{} of {written}", bench.log().len());
        if journal(&bench).lines().count() < written {
            break;
        }
    }
    assert!(
        journal(&bench).lines().count() < written,
        "{} lines after {written} arrivals",
        journal(&bench).lines().count()
    );
    terminate(&watch);
    assert_eq!(watch.wait().unwrap().code(), Some(143));
    // What was rewritten on the way says the same: nothing is done again.
    let before = bench.log().len();
    let (code, text) = ends(bench.local(&[&more[..], &["--idle-exit", "500ms"]].concat()));
    assert_eq!((code, bench.log().len()), (Some(0), before), "{text}");
}

#[test]
fn of_results_a_watch_keeps_only_what_is_in_them_and_nobody_asked_for() {
    let bench = Bench::new();
    let keeps = r#"[ "$THALWEG_ITEM_NAME" != keeps ] || echo seen > "$THALWEG_ITEM_RESULTS/seen""#;
    let script = analysis(&bench.scratch, keeps);
    for name in ["a", "b", "keeps"] {
        bench.put(name, name.as_bytes());
    }
    let (code, text) = ends(bench.local(&["--idle-exit", "500ms", "--on-arrival", script.to_str().unwrap()]));
    assert_eq!(code, Some(0), "{text}");
    let watches = std::fs::read_dir(bench.scratch.path("client-state/watch")).unwrap().flatten();
    let results = watches.flat_map(|watch| std::fs::read_dir(watch.path().join("results")).unwrap());
    let results: Vec<_> = results.map(|results| results.unwrap().path()).collect();
    assert_eq!(results.len(), 1, "{results:?}");
    assert_eq!(std::fs::read(results[0].join("seen")).unwrap(), b"seen\n");
}

#[test]
fn what_is_done_and_gone_leaves_the_journal_and_is_not_analysed_when_it_comes_again() {
    let bench = Bench::new();
    let keeps = r#"[ "$THALWEG_ITEM_NAME" != r0-0 ] || {
            echo seen > "$THALWEG_ITEM_RESULTS/seen"
            printf '%s' "$THALWEG_ITEM_RESULTS" > "$LOG.where"
        }"#;
    let script = analysis(&bench.scratch, &format!("{keeps}\n{LOG}"));
    let more = ["--on-arrival", script.to_str().unwrap(), "--jobs", "4"];
    let mut watch = start(bench.local(&more));
    let results = || PathBuf::from(std::fs::read_to_string(bench.scratch.path("log.where")).unwrap());
    let (mut written, mut is_forgotten) = (0, false);
    for round in 0..200 {
        let names: Vec<String> = (0..8).map(|number| format!("r{round}-{number}")).collect();
        for name in &names {
            bench.put(name, name.as_bytes());
            written += 1;
        }
        let settled = || bench.log().len() >= written;
        assert!(wait_until(Duration::from_secs(60), settled), "{} of {written}", bench.log().len());
        for name in &names {
            std::fs::remove_file(bench.source.join(name)).unwrap();
        }
        if round == 0 {
            // Somebody took them.
            std::fs::remove_file(results().join("seen")).unwrap();
        }
        is_forgotten = round > 0 && !journal(&bench).contains("\"r0-0\"");
        if is_forgotten {
            break;
        }
    }
    assert!(is_forgotten, "{} lines after {written} items that are gone", journal(&bench).lines().count());
    assert!(!results().exists(), "the directory of its results is forgotten with it");
    terminate(&watch);
    assert_eq!(watch.wait().unwrap().code(), Some(143));
    // As it was, and under the same name with something else in it.
    bench.put("r0-0", b"r0-0");
    bench.put("r0-1", b"another");
    let (code, text) = ends(bench.local(&[&more[..], &["--idle-exit", "500ms"]].concat()));
    assert_eq!(code, Some(0), "{text}");
    let log = bench.log();
    let count = |name: &str| log.iter().filter(|line| line.starts_with(&format!("{name} "))).count();
    assert_eq!((count("r0-0"), count("r0-1"), log.len()), (1, 2, written + 1));
}
