//! Items that are analysed in order, by name or by time.

use crate::{Bench, LOG, analysis, ends};
use std::time::Duration;

#[test]
fn in_order_the_next_waits_until_the_one_before_has_succeeded() {
    let bench = Bench::new();
    // The second fails twice.
    let script = analysis(
        &bench.scratch,
        &format!("case $THALWEG_ITEM_NAME in snap9) test \"$THALWEG_ITEM_ATTEMPT\" -gt 2;; esac\n{LOG}"),
    );
    let names = ["snap8", "snap9", "snap10", "snap11"];
    for name in names {
        bench.put(name, name.as_bytes());
    }
    let more = ["--idle-exit", "500ms", "--in-order", "name", "--on-arrival", script.to_str().unwrap()];
    let (code, text) = ends(bench.local(&more));
    assert_eq!(code, Some(0), "{text}");
    let order: Vec<String> =
        bench.log().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(order, names);
    assert!(text.contains("snap9: the command ended with exit code 1"), "{text}");
}

#[test]
fn by_time_the_one_that_changed_first_is_first_whatever_its_name() {
    let bench = Bench::new();
    let script = analysis(&bench.scratch, LOG);
    let names = ["c", "a", "d", "b"];
    for (name, hours) in names.iter().zip([40, 30, 20, 10]) {
        bench.put(name, name.as_bytes());
        let file = std::fs::File::options().write(true).open(bench.source.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3600 * hours)).unwrap();
    }
    let more = ["--idle-exit", "500ms", "--in-order", "time", "--on-arrival", script.to_str().unwrap()];
    let (code, text) = ends(bench.local(&more));
    assert_eq!(code, Some(0), "{text}");
    let order: Vec<String> =
        bench.log().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(order, names);
}
