//! An item is complete when its marker is there, and not before.

use crate::support::{self, wait_until};
use crate::{Bench, LIMIT, LOG, analysis, ends, start, terminate};
use std::os::unix::fs::MetadataExt;

#[test]
fn a_directory_arrives_when_its_marker_is_there_and_a_pull_analyses_where_data_arrive() {
    let bench = Bench::new();
    let script = analysis(
        &bench.scratch,
        &format!(
            "test -f \"$THALWEG_ITEM_PATH/data\"\ncp \"$THALWEG_ITEM_PATH/data\" \"$THALWEG_ITEM_RESULTS/seen\"\n{LOG}"
        ),
    );
    bench.put("run1/data", b"one");
    let export = bench.scratch.path("in");
    let back = bench.scratch.path("back");
    std::fs::create_dir(&back).unwrap();
    let daemon = bench.scratch.daemon(&[("data", &export), ("back", &back)]);
    let ticket = daemon.ticket.to_str().unwrap().to_owned();
    let (source, results) = (daemon.place("data", ""), daemon.place("back", ""));
    let more = [
        "--item",
        "directory",
        "--marker",
        "READY",
        "--ticket",
        &ticket,
        "--on-arrival",
        script.to_str().unwrap(),
        "--results-back",
        &results,
    ];
    let mut command = bench.scratch.thalweg();
    command.args(["watch", &source]).arg(&bench.destination).args(["--look-every", "100ms"]).args(more);
    command.env("LOG", bench.scratch.path("log"));
    let mut watch = start(command);
    bench.put("run2/data", b"two");
    bench.put("run2/READY", b"");
    let is_back = |name: &str| back.join(name).join("seen").exists();
    assert!(wait_until(LIMIT, || is_back("run2")));
    assert!(!bench.destination.join("run1").exists(), "it is not complete");
    bench.put("run1/READY", b"");
    assert!(wait_until(LIMIT, || is_back("run1")));
    assert_eq!(std::fs::read(back.join("run1/seen")).unwrap(), b"one");
    terminate(&watch);
    assert_eq!(watch.wait().unwrap().code(), Some(143));
    assert_eq!(bench.log().len(), 2);
}

#[test]
fn a_marker_that_stands_from_before_does_not_make_half_a_file_an_arrival() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, "cat \"$THALWEG_ITEM_PATH\" >> \"$LOG\"\necho >> \"$LOG\"");
    let watch = start(bench.by_markers(&["--on-arrival", script.to_str().unwrap()]));
    bench.put("a", b"first");
    bench.put("a.done", b"");
    assert!(wait_until(LIMIT, || bench.log() == ["first"]));
    // As an instrument does that pauses, once the clock of the file system has gone on.
    let changed = |name: &str| {
        let of = std::fs::metadata(bench.source.join(name)).unwrap();
        (of.ctime(), of.ctime_nsec())
    };
    let rewrite = |content: &[u8]| {
        std::fs::write(bench.source.join("a"), content).unwrap();
        changed("a") > changed("a.done")
    };
    assert!(wait_until(LIMIT, || rewrite(b"half")));
    bench.put("b", b"other");
    bench.put("b.done", b"");
    assert!(wait_until(LIMIT, || bench.log() == ["first", "other"]), "{:?}", bench.log());
    assert!(rewrite(b"second"));
    bench.put("a.done", b"");
    assert!(wait_until(LIMIT, || bench.log().len() > 2));
    assert_eq!(bench.log(), ["first", "other", "second"]);
    terminate(&watch);
    assert_eq!(support::finish(watch).status.code(), Some(143));
}

#[test]
fn an_item_without_its_marker_keeps_no_watch_from_its_end_and_in_order_is_told() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, LOG);
    bench.put("a", b"a");
    bench.put("b", b"b");
    bench.put("b.done", b"");
    let more = ["--idle-exit", "500ms", "--on-arrival", script.to_str().unwrap(), "--in-order", "name"];
    let (code, text) = ends(bench.by_markers(&more));
    assert_eq!((code, bench.log().len()), (Some(2), 0), "{text}");
    assert!(text.contains("a: given up"), "{text}");
    let (code, text) = ends(bench.by_markers(&more[..4]));
    assert_eq!((code, bench.log().len()), (Some(0), 1), "{text}");
    assert!(!bench.destination.join("a").exists(), "it is not complete");
}
