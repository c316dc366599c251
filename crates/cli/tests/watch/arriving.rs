//! Items arrive, are analysed, and their results go back.

use crate::support::{self, wait_until};
use crate::{Bench, LIMIT, LOG, analysis, arrived_whole, ends, start};
use std::time::{Duration, Instant};

#[test]
fn an_item_arrives_is_analysed_and_its_results_go_back_whatever_its_name() {
    let bench = Bench::new();
    let script = analysis(
        &bench.scratch,
        &format!(
            "cmp \"$THALWEG_ITEM_PATH\" \"$THALWEG_ITEM_SOURCE\"\n\
                  test -s \"$THALWEG_ITEM_RECEIPT\"\n\
                  wc -c < \"$THALWEG_ITEM_PATH\" > \"$THALWEG_ITEM_RESULTS/bytes\"\n\
                  printf '%s' \"$1$2\" > \"$THALWEG_ITEM_RESULTS/arguments\"\n{LOG}"
        ),
    );
    let names = [
        "-rf",
        "a b",
        "$(touch pwned)",
        "`touch pwned`;x",
        "sub/deep/'\"",
        "@site",
        "h:o",
        "tw:x",
        "é",
        "*?",
    ];
    for name in names {
        bench.put(name, name.as_bytes());
    }
    let results = bench.scratch.path("results");
    let more = [
        "--idle-exit",
        "500ms",
        "--on-arrival",
        script.to_str().unwrap(),
        "--results-back",
        results.to_str().unwrap(),
        "--",
        "$HOME",
        "; touch pwned",
    ];
    let mut command = bench.local(&more);
    command.current_dir(bench.scratch.path(""));
    let (code, text) = ends(command);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(bench.log().len(), names.len(), "{text}");
    for name in names {
        assert_eq!(std::fs::read(bench.destination.join(name)).unwrap(), name.as_bytes());
        let bytes = std::fs::read_to_string(results.join(name).join("bytes")).unwrap();
        assert_eq!(bytes.trim(), name.len().to_string());
        let arguments = std::fs::read_to_string(results.join(name).join("arguments")).unwrap();
        assert_eq!(arguments, "$HOME; touch pwned");
    }
    assert!(!bench.scratch.path("pwned").exists());
    // Again: nothing is left to do.
    let (code, text) = ends(bench.local(&more));
    assert_eq!((code, bench.log().len()), (Some(0), names.len()), "{text}");
    // Other content under a name that is known is another arrival.
    bench.put("a b", b"more");
    let (code, text) = ends(bench.local(&more));
    assert_eq!((code, bench.log().len()), (Some(0), names.len() + 1), "{text}");
}

/// Four are copied at the same time: each for itself would take a quarter of that.
#[test]
fn items_that_are_copied_at_the_same_time_keep_the_rate_together_which_is_changed_while_they_run() {
    let rate = (["--bwlimit", "2M", "--idle-exit", "500ms"], 2 << 20);
    for is_push in [true, false] {
        let bench = Bench::new();
        for number in 0..4 {
            bench.put(&format!("item-{number}"), &support::noise(number, 2 << 20));
        }
        std::fs::create_dir_all(&bench.destination).unwrap();
        let daemon =
            bench.scratch.daemon(&[("in", bench.source.as_path()), ("out", bench.destination.as_path())]);
        let (from, to) = match is_push {
            true => (bench.source.to_str().unwrap().to_owned(), daemon.place("out", "")),
            false => (daemon.place("in", ""), bench.destination.to_str().unwrap().to_owned()),
        };
        let ticket = daemon.ticket.to_str().unwrap();
        let more = [&rate.0[..], &["--ticket", ticket]].concat();
        let began = Instant::now();
        let (code, said) = ends(bench.watch(&from, &to, &more));
        assert_eq!(code, Some(0), "{said}");
        let least = (8 << 20) as f64 / f64::from(rate.1) * 0.7;
        assert!(began.elapsed().as_secs_f64() > least, "{:?}: {said}", began.elapsed());
        let names: Vec<String> = (0..4).map(|number| format!("item-{number}")).collect();
        arrived_whole(&bench.source, &bench.destination, &names);
    }
    // At this rate it would take four minutes.
    let bench = Bench::new();
    bench.put("item", &support::noise(9, 4 << 20));
    let state = bench.scratch.path("state");
    let more = ["--bwlimit", "16K", "--idle-exit", "500ms", "--state", state.to_str().unwrap()];
    let child = start(bench.local(&more));
    let limit = || bench.scratch.run(["limit", "--state", state.to_str().unwrap(), "none"]);
    assert!(wait_until(LIMIT, || limit().status.success()));
    let began = Instant::now();
    assert!(support::finish(child).status.success());
    assert!(began.elapsed() < Duration::from_secs(150), "{:?}", began.elapsed());
    arrived_whole(&bench.source, &bench.destination, &["item".to_owned()]);
}

/// Nobody would wait ten seconds for what the kernel does not tell of without being told why.
#[test]
fn more_directories_than_the_kernel_is_asked_to_tell_of_are_looked_at_every_second_which_is_told() {
    let told = |directories: u32, more: &[&str]| {
        let bench = Bench::new();
        bench.put("item", b"content");
        for number in 0..directories {
            std::fs::create_dir(bench.source.join(number.to_string())).unwrap();
        }
        let mut command = bench.scratch.thalweg();
        command.arg("watch").args([&bench.source, &bench.destination]);
        command.args(["--stable", "100ms", "--idle-exit", "2s"]).args(more);
        let (code, text) = ends(command);
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(std::fs::read(bench.destination.join("item")).unwrap(), b"content");
        text.matches("not every directory can be watched (there are more than 1024)").count()
    };
    assert_eq!(told(1100, &[]), 1);
    assert_eq!(told(10, &[]), 0);
    assert_eq!(told(1100, &["--look-every", "500ms"]), 0, "it is what was asked for");
}
