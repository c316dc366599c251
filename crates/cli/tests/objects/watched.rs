//! Buckets that are watched.

use super::servers::each;
use super::support::wait_until;
use std::time::Duration;

/// Only what hangs takes longer.
const HANG: Duration = Duration::from_secs(300);

#[test]
fn what_comes_into_a_bucket_is_copied_and_analysed_once_and_again_when_it_is_overwritten() {
    each("watched", |server| {
        let (there, down, log) = (server.place("in/"), server.path("down"), server.path("log"));
        let script = server.path("note");
        std::fs::write(&script, format!("echo \"$THALWEG_ITEM_NAME\" >> '{log}'\n")).unwrap();
        let words = |more: &[&str]| -> Vec<String> {
            let places = ["watch", &there, &down, "--look-every", "200ms"];
            let program = ["--on-arrival", "sh", "--", &script];
            places.iter().chain(more).chain(&program).map(|word| (*word).to_owned()).collect()
        };
        let noted = || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
            names.sort_unstable();
            names
        };
        // Nothing is there yet.
        let watching = server.begin(&words(&[]));
        for (key, content) in [("in/a", "first"), ("in/d/b", "more"), ("inside", "x"), ("in/.hidden", "x")] {
            server.put(key, content.as_bytes());
        }
        assert!(wait_until(HANG, || noted().len() >= 2), "{:?}", noted());
        assert_eq!(std::fs::read(server.scratch.path("down/d/b")).unwrap(), b"more");
        server.put("in/a", b"another");
        assert!(wait_until(HANG, || noted().len() >= 3), "{:?}", noted());
        watching.kill();
        assert_eq!(std::fs::read(server.scratch.path("down/a")).unwrap(), b"another");
        // What arrived is known to the next one.
        server.ok(&words(&["--idle-exit", "1s"]));
        assert_eq!(noted(), ["a", "a", "d/b"]);
    });
}

#[test]
fn what_a_bucket_does_not_keep_of_results_is_told_and_stays_here() {
    each("watched results", |server| {
        let (from, down, found) = (server.path("in"), server.path("down"), server.path("found"));
        std::fs::create_dir(&from).unwrap();
        std::fs::write(server.scratch.path("in/a"), "a").unwrap();
        let script = server.path("analyse");
        let lines = "cd \"$THALWEG_ITEM_RESULTS\"\necho result > seen\nln -s seen latest\n";
        std::fs::write(&script, format!("{lines}printf %s \"$PWD\" > '{found}'\n")).unwrap();
        let back = server.place("back");
        let words = ["watch", &from, &down, "--idle-exit", "1s", "--results-back", &back];
        let ran = server.ok(&[&words[..], &["--on-arrival", "sh", "--", &script]].concat());
        assert_eq!(server.get("back/a/seen").unwrap(), b"result\n");
        assert!(ran.stderr.contains("a: `latest`: skipped: a bucket keeps no"), "{}", ran.stderr);
        let results = std::fs::read_to_string(&found).unwrap();
        let latest = std::fs::read_link(std::path::Path::new(&results).join("latest"));
        assert_eq!(latest.unwrap(), std::path::Path::new("seen"), "it is nowhere else");
    });
}

#[test]
fn directories_in_a_bucket_are_items_when_their_marker_is_there() {
    each("watched directories", |server| {
        for (key, content) in [("in/run1/a", "a"), ("in/run1/deep/b", "b"), ("in/run2/c", "c")] {
            server.put(key, content.as_bytes());
        }
        server.put("in/run1/COMPLETE", b"");
        let (there, down) = (server.place("in"), server.path("down"));
        let places = ["watch", &there, &down, "--item", "directory", "--marker", "COMPLETE"];
        server.run(&[&places[..], &["--look-every", "200ms", "--idle-exit", "1s"]].concat()).expect(0);
        assert_eq!(std::fs::read(server.scratch.path("down/run1/deep/b")).unwrap(), b"b");
        assert!(server.scratch.path("down/run1/COMPLETE").exists());
        assert!(!server.scratch.path("down/run2").exists());
        let refused = server.run(&["watch", &server.place("in/run2/c"), &down]).expect(1);
        assert!(refused.stderr.contains("`c` is no directory"), "{}", refused.stderr);
    });
}
