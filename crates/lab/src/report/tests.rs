//! Which figure a result gets, and what stands in it.

use super::*;
use crate::bench::record::{
    About, LOST_BY_A_SLOW_MACHINE, Machine, NOT_ACCOUNTED, PathKind, Quantity, Sample, Scaling,
};
use crate::bench::suite::{BEGINS, FITTED};
use crate::plot::{Bars, Body, Curves, Look, Scale, Series, Value};

fn results(suite: &str, path: PathKind, samples: Vec<Sample>) -> Results {
    let about = About {
        suite: suite.into(),
        question: String::new(),
        date: "2026-11-22T02:40:00Z".into(),
        program: if suite == "iperf3" { "iperf 3.12".into() } else { "thalweg 0.1.0".into() },
        commit: None,
        command: String::new(),
        machine: Machine::default(),
        path,
        iterations: 1,
        encryption: "none".into(),
        verification: "none".into(),
        scaling: Scaling::default(),
        more: [].into(),
        is_unfinished: false,
    };
    Results { about, samples, left_out: Vec::new(), has_end: false }
}

fn gigabit() -> PathKind {
    PathKind::Testbed { rtt_s: None, rate_bits_per_s: Some(1_000_000_000), loss: None, mtu_bytes: 1500 }
}

/// 125 MB in `wall_s`: one Gbit.
fn sample(series: &str, wall_s: f64, parameters: &[(&str, f64)]) -> Sample {
    let sample = Sample { series: series.into(), run: 1, bytes: 125_000_000, wall_s, ..Sample::default() };
    let number = |value| Quantity::number(value, "1");
    parameters.iter().fold(sample, |sample, (name, value)| sample.with(name, number(*value)))
}

fn named<'a>(figures: &'a [Figure], name: &str) -> &'a Figure {
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    figures.iter().find(|figure| figure.name == name).unwrap_or_else(|| panic!("no {name} in {names:?}"))
}

fn curves(figure: &Figure) -> &Curves {
    match &figure.body {
        Body::Curves(curves) => curves,
        other => panic!("{other:?}"),
    }
}

fn bars(figure: &Figure) -> &Bars {
    match &figure.body {
        Body::Bars(bars) => bars,
        other => panic!("{other:?}"),
    }
}

fn names(series: &[Series]) -> Vec<&str> {
    series.iter().map(|series| series.name.as_str()).collect()
}

#[test]
fn ours_and_the_papers_stand_as_shares_of_their_own_lines() {
    let samples = vec![sample("tuned", 2.0, &[("rtt", 0.01)]), sample("tuned", 4.0, &[("rtt", 0.1)])];
    let figures = figures(&[results("latency", gigabit(), samples)]);
    let beside = curves(named(&figures, "latency-beside-000-fig-2"));
    assert_eq!(names(&beside.series), ["ours: tuned", "000: default kernel", "000: tuned kernel"]);
    let ys = |at: usize| beside.series[at].points.iter().map(|point| point.y).collect::<Vec<_>>();
    assert_eq!((ys(0), ys(1)), (vec![0.5, 0.25], vec![0.67, 0.066]));
    assert_eq!(beside.series[2].points[1].interval, Some((0.82, 0.84)));
    assert!(matches!(
        (beside.series[0].look, beside.series[1].look),
        (Look::Measured(0), Look::Published(1))
    ));
}

#[test]
fn what_the_emulated_path_cost_stands_beside_each_figure_that_was_taken_through_it() {
    let taken = |cost| {
        let sample = |wall_s, rtt| sample("tuned", wall_s, &[("rtt", rtt)]);
        let samples = [sample(2.0, 0.01), sample(4.0, 0.1)];
        samples.map(|sample| Sample { wire_cpu_s_per_gb: cost, ..sample }).to_vec()
    };
    let of = |cost| figures(&[results("latency", gigabit(), taken(cost))]);
    assert!(
        of(Some(0.9))
            .iter()
            .all(|figure| figure.facts.iter().any(|fact| fact == "the path itself took 0.9 CPU-s/GB"))
    );
    assert!(!of(None).iter().any(|figure| figure.facts.iter().any(|fact| fact.contains("the path itself"))));
}

#[test]
fn each_figure_says_date_path_iterations_encryption_and_verification() {
    let samples = vec![sample("tuned", 2.0, &[("rtt", 0.01)]), sample("tuned", 4.0, &[("rtt", 0.1)])];
    let figures = figures(&[results("latency", gigabit(), samples)]);
    assert!(figures.len() >= 2, "with the paper's beside it");
    let path = gigabit().to_string();
    for figure in figures {
        for fact in ["2026-11-22", &*path, "1 iteration", "encryption: none", "verification: none"] {
            assert!(
                figure.facts.iter().any(|one| one == fact),
                "{}: no {fact}: {:?}",
                figure.name,
                figure.facts
            );
        }
    }
}

#[test]
fn samples_for_which_the_machine_was_too_slow_are_told_to_be_void_over_each_figure() {
    let taken = |lost: f64| {
        let sample = |wall_s, rtt| sample("tuned", wall_s, &[("rtt", rtt)]);
        let spoiled = sample(2.0, 0.01).measured(LOST_BY_A_SLOW_MACHINE, lost, "1");
        figures(&[results("latency", gigabit(), vec![spoiled, sample(4.0, 0.1)])])
    };
    let is_told =
        |figure: &Figure| figure.facts.iter().any(|fact| fact.starts_with("1 of 2 samples are VOID"));
    assert!(taken(7.0).iter().all(is_told) && !taken(7.0).is_empty());
    assert!(!taken(0.0).iter().any(is_told));
}

#[test]
fn runs_that_are_void_or_failed_are_in_no_figure_and_no_median_and_are_marked() {
    let run = |wall_s| sample("frames", wall_s, &[("rtt", 0.1)]).measured("lag_max", wall_s, "s");
    let samples = vec![
        run(1.0),
        run(8.0).measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1"),
        run(2.0),
        run(9.0).measured(NOT_ACCOUNTED, 3.0, "1"),
    ];
    let all = [results("lag", gigabit(), samples)];
    let figures = figures(&all);
    let figure = named(&figures, "lag-worst");
    let is_told = |words: &str| figure.facts.iter().any(|fact| fact.starts_with(words));
    assert!(is_told("1 of 4 samples are VOID") && is_told("1 of 4 samples FAILED"), "{:?}", figure.facts);
    assert_eq!(bars(figure).series[0].values[0].map(|value| value.value), Some(1.5));
    let page = html("a report", &all);
    assert!(page.contains("<td>4, 1 VOID, 1 FAILED</td>"), "{page}");
    assert!(page.contains("<strong>1.5 s</strong>"), "{page}");
}

/// What is drawn beside a paper, what is said of intervals, and what other programs measured, as well.
#[test]
fn a_void_run_is_neither_beside_a_paper_nor_in_what_is_said_of_intervals_nor_a_level() {
    let void = |sample: Sample| sample.measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1");
    let of = |control: &str, wall_s: f64| sample(control, wall_s, &[("loss", 0.0)]);
    let samples = vec![
        of("bbr", 1.25),
        void(of("bbr", 100.0)),
        void(of("cubic", 100.0)),
        of("cubic", 2.0),
        void(of("reno", 1.0)),
    ];
    let all = figures(&[results("cca", gigabit(), samples)]);
    let beside = named(&all, "cca-beside-000-figs-4-to-6");
    let shares: Vec<Option<f64>> =
        bars(beside).series[0].values.iter().map(|value| value.map(|value| value.value)).collect();
    assert_eq!(shares, [Some(0.8), Some(0.5), None]);
    for told in ["Ours take from 1.25 s to 2 s each", "Points are single runs."] {
        assert!(beside.notes.iter().any(|note| note.starts_with(told)), "{told}: {:?}", beside.notes);
    }
    let own = vec![sample("tuned", 1.0, &[("rtt", 0.01)]), sample("tuned", 1.0, &[("rtt", 0.1)])];
    let foreign = PathKind::Foreign { to: "there".into(), rtt_s: None };
    let foreign = results("iperf3", foreign, vec![void(sample("iperf3, TCP", 2.0, &[]))]);
    let all = figures(&[results("latency", gigabit(), own), foreign]);
    let limits = &curves(named(&all, "latency-rate")).limits;
    assert_eq!(limits.iter().map(|limit| limit.label.as_str()).collect::<Vec<_>>(), ["line: 1 Gbit/s"]);
}

#[test]
fn what_spans_many_factors_stands_on_a_logarithmic_axis() {
    let drawn = |slowest_s: f64| {
        let samples =
            vec![sample("tuned", 1.0, &[("rtt", 0.01)]), sample("tuned", slowest_s, &[("rtt", 0.1)])];
        figures(&[results("latency", gigabit(), samples)])
    };
    for (slowest_s, scale) in [(20.0, Scale::Linear), (40.0, Scale::Log10)] {
        let figures = drawn(slowest_s);
        for name in ["latency-rate", "latency-beside-000-fig-2"] {
            assert_eq!(curves(named(&figures, name)).y.scale, scale, "{name}: {slowest_s}");
        }
    }
}

#[test]
fn what_spans_many_factors_is_no_bar_but_a_dot_on_a_logarithmic_axis() {
    let drawn = |slowest_s: f64| {
        let of = |series: &str, p99_s: f64| {
            let sample = sample(series, 1.0, &[("rtt", 0.1)]);
            sample.measured("lag_p99", p99_s, "s")
        };
        let samples = vec![of("stream", 1e-3), of("frames, spill", slowest_s)];
        figures(&[results("lag", PathKind::Loopback, samples)])
    };
    for (slowest_s, scale) in [(0.02, Scale::Linear), (0.04, Scale::Log10)] {
        let figures = drawn(slowest_s);
        let figure = named(&figures, "lag-p99");
        assert_eq!(bars(figure).axis.scale, scale, "{slowest_s}");
        let is_told = figure.notes.iter().any(|note| note.starts_with("The axis is logarithmic"));
        assert_eq!(is_told, scale == Scale::Log10, "{:?}", figure.notes);
    }
}

#[test]
fn where_ours_has_no_line_both_stand_as_shares_of_their_best() {
    let samples = vec![sample("tuned", 2.0, &[("rtt", 0.01)]), sample("tuned", 4.0, &[("rtt", 0.1)])];
    let figures = figures(&[results("latency", PathKind::Loopback, samples)]);
    let beside = curves(named(&figures, "latency-beside-000-fig-2"));
    let best = |series: &Series| series.points[0].y;
    assert_eq!((best(&beside.series[0]), best(&beside.series[2])), (1.0, 1.0));
    assert_eq!(beside.y.label, "Share of the best");
}

#[test]
fn series_are_named_by_what_tells_them_apart_and_by_nothing_else() {
    let mut samples = Vec::new();
    for streams in [1.0, 4.0] {
        for concurrency in [1.0, 2.0] {
            let at = [("streams", streams), ("concurrency", concurrency), ("depth", 1.0)];
            samples.push(sample(&format!("{streams} streams"), 1.0, &at));
        }
    }
    samples.push(sample("depth, 1 streams", 1.0, &[("streams", 1.0), ("concurrency", 1.0), ("depth", 8.0)]));
    let figures = figures(&[results("concurrency", gigabit(), samples)]);
    let over = |name: &str| names(&curves(named(&figures, name)).series);
    assert_eq!(over("concurrency-streams"), ["files at once 1", "files at once 2"]);
    assert_eq!(over("concurrency-files"), ["1 streams", "4 streams"]);
}

/// One of streams, files and depth, that took so long.
fn turned(series: &str, wall_s: f64, [streams, files, depth]: [f64; 3]) -> Sample {
    sample(series, wall_s, &[("streams", streams), ("concurrency", files), ("depth", depth)])
}

#[test]
fn a_cell_shows_the_smallest_of_what_else_varies_whatever_was_measured_first() {
    let cases = |depth: f64, window: f64, wall_s: f64| {
        [[1.0, 1.0], [1.0, 4.0], [4.0, 1.0], [4.0, 4.0]].map(|[streams, files]| {
            let one = turned("x", wall_s, [streams, files, depth]);
            one.with("window", Quantity::number(window, "B"))
        })
    };
    let samples = [cases(2.0, 8.0, 1.0), cases(1.0, 9.0, 4.0), cases(1.0, 8.0, 2.0)].concat();
    let figures = figures(&[results("concurrency", gigabit(), samples)]);
    let figure = named(&figures, "concurrency-table");
    let Body::Cells(cells) = &figure.body else { panic!("{:?}", figure.body) };
    assert_eq!(cells.values, [[Some(5e8), Some(5e8)], [Some(5e8), Some(5e8)]]);
    assert!(figure.notes.iter().any(|note| note.starts_with("Depth: 1;")), "{:?}", figure.notes);
}

#[test]
fn what_was_measured_for_another_axis_begins_a_line_or_is_said_to_be_left_out() {
    let samples = vec![
        turned("depth, 4 streams", 1.0, [4.0, 4.0, 8.0]),
        turned("depth, 4 streams", 2.0, [4.0, 4.0, 2.0]),
        turned("4 streams", 4.0, [4.0, 4.0, 1.0]),
        turned("4 streams", 5.0, [4.0, 1.0, 1.0]),
        turned("1 streams", 6.0, [1.0, 1.0, 1.0]),
    ];
    let all = figures(&[results("concurrency", gigabit(), samples[..3].to_vec())]);
    let figure = named(&all, "concurrency-depth");
    let line = &curves(figure).series[0];
    assert_eq!(
        line.points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>(),
        [(1.0, 2.5e8), (2.0, 5e8), (8.0, 1e9)]
    );
    let is_less = |figure: &Figure| figure.notes.iter().any(|note| note.contains("is left out"));
    assert!(!is_less(figure), "{:?}", figure.notes);
    let all = figures(&[results("concurrency", gigabit(), samples)]);
    let figure = named(&all, "concurrency-depth");
    assert_eq!((curves(figure).series.len(), is_less(figure)), (1, true), "{:?}", figure.notes);
}

#[test]
fn no_more_series_are_drawn_than_can_be_told_apart_and_the_others_are_named() {
    let of = |at: usize| {
        let name = format!("buffers {at}");
        [sample(&name, 1.0, &[("rtt", 0.01)]), sample(&name, 2.0, &[("rtt", 0.1)])]
    };
    let drawn =
        |suite: &str, count: usize| figures(&[results(suite, gigabit(), (1..=count).flat_map(of).collect())]);
    for suite in ["latency", "something new"] {
        let all = drawn(suite, 9);
        let figure = &all[0];
        assert_eq!(curves(figure).series.len(), 7);
        let told = "7 of 9 series are drawn; the table has the others: buffers 8; buffers 9.";
        assert!(figure.notes.iter().any(|note| note == told), "{:?}", figure.notes);
        assert!(!drawn(suite, 7)[0].notes.iter().any(|note| note.contains("are drawn")));
    }
    let many = drawn("latency", 20);
    let told = many[0].notes.iter().find(|note| note.starts_with("7 of 20")).unwrap();
    assert!(told.ends_with("buffers 15; and 5 more."), "{told}");
    let of = |at: usize| {
        let one = sample(&format!("disk {at}"), 1.0, &[]);
        ["none", "layout"].map(|order| one.clone().with("order", order.into()))
    };
    let all = figures(&[results("layout", PathKind::Disk, (1..=8).flat_map(of).collect())]);
    let figure = named(&all, "layout-time");
    assert_eq!(bars(figure).series.len(), 7);
    assert!(figure.notes.iter().any(|note| note.ends_with("others: disk 8.")), "{:?}", figure.notes);
}

#[test]
fn beside_a_paper_stands_which_of_ours_it_is() {
    let of = |disk: &str, threads: f64| {
        let at = [("threads", threads), ("request_size", 2_097_152.0)];
        let one = sample(&format!("reading, {disk}, loose"), 1.0, &at);
        let larger = Sample { wall_s: 2.0, ..one.clone() };
        [one, larger.with("request_size", Quantity::number(1_048_576.0, "1"))]
            .map(|sample| sample.with("direction", "reading".into()).with("disk", disk.into()))
    };
    let samples =
        ["simulated array", "the disk of --dir"].map(|disk| [of(disk, 1.0), of(disk, 4.0)].concat());
    let all = figures(&[results("order", PathKind::Disk, samples.concat())]);
    let figure = named(&all, "order-beside-004-section-iv-d");
    assert_eq!(figure.title, "Beside the paper: 004 section IV-D (ours: reading, simulated array)");
    assert!(figure.notes.iter().any(|note| note.starts_with("Size of a request: ")), "{:?}", figure.notes);
    assert!(figure.facts.contains(&"simulated disks".to_owned()), "{:?}", figure.facts);
    let own = named(&all, "order-threads-reading-the-disk-of-dir");
    assert!(own.facts.contains(&"disk".to_owned()), "{:?}", own.facts);
    let of = |series: &str, wall_s| sample(series, wall_s, &[("period", 0.033)]);
    let samples = vec![of("1440 files", 60.0), of("stream", 50.0)];
    let all = figures(&[results("frames", PathKind::Loopback, samples)]);
    let figure = named(&all, "frames-beside-003-fig-4");
    assert_eq!(figure.title, "Beside the paper: 003 Fig 4 (ours: time between frames 33 ms)");
    assert_eq!(bars(figure).series[0].name, "ours");
    assert_eq!(bars(figure).groups, ["1440 files", "stream"]);
}

/// Together they would be more lines than can be told apart.
#[test]
fn cold_starts_and_those_with_a_window_that_fits_have_their_own_figures_and_a_paper_has_the_cold_ones() {
    let of = |series: &str, begins: &str, load: f64| {
        let sample = sample(series, 1.0, &[("load", load), ("streams", 2.0)]).with(BEGINS, begins.into());
        sample.distributed("transfer_time", "s", vec![load; 4])
    };
    let (cold, fitted) = ("with the kernel's initial window", format!("scheduled, {FITTED}, 2 streams"));
    let both = |load| [of("scheduled, 2 streams", cold, load), of(&fitted, FITTED, load)];
    let all = figures(&[results("congest", gigabit(), [0.16, 0.96].map(both).concat())]);
    for name in ["with-the-kernel-s-initial-window", "with-an-initial-window-that-fits-the-path"] {
        let figure = named(&all, &format!("congest-worst-{name}"));
        assert_eq!(names(&curves(figure).series), ["scheduled, 2 streams"]);
    }
    let beside = named(&all, "congest-beside-003-fig-2");
    assert_eq!(beside.title, format!("Beside the paper: 003 Fig 2 (ours: {cold})"));
    let ours = names(&curves(beside).series).into_iter().filter(|name| name.starts_with("ours"));
    assert_eq!(ours.collect::<Vec<_>>(), ["ours: scheduled, 2 streams"]);
}

#[test]
fn a_scan_that_was_made_smaller_stands_beside_the_paper_s_and_says_how_many_frames_it_had() {
    let of = |series: &str, wall_s| sample(series, wall_s, &[("period", 0.033)]);
    let samples = vec![of("10 files", 6.0), of("144 files", 16.0), of("stream", 4.0)];
    let all = figures(&[results("frames", PathKind::Loopback, samples)]);
    let bars = bars(named(&all, "frames-beside-003-fig-4"));
    assert_eq!(bars.groups, ["1440 files (ours: 144)", "stream", "10 files"]);
    let ours: Vec<f64> = bars.series[0].values.iter().flatten().map(|value| value.value).collect();
    assert_eq!(ours, [1.0, 0.25, 0.375]);
}

#[test]
fn legends_have_the_rate_and_the_size_that_were_measured() {
    let of = |files: f64, wall_s: f64| Sample {
        files: 64,
        bytes: 64 << 20,
        ..turned("4 streams", wall_s, [4.0, files, 1.0])
    };
    let path =
        PathKind::Testbed { rtt_s: None, rate_bits_per_s: Some(2_000_000_000), loss: None, mtu_bytes: 1500 };
    let all = figures(&[results("concurrency", path, vec![of(1.0, 2.5), of(16.0, 1.0)])]);
    let figure = named(&all, "concurrency-beside-001-section-4");
    let bars = bars(figure);
    assert_eq!(bars.series[0].name, "ours: 4 streams, 2 Gbit/s");
    assert_eq!(bars.groups[3..], ["verified, 1 MiB files, 16 at once", "verified, 1 MiB files, one at once"]);
    let told = "Ours take from 1 s to 2.5 s each, from the start of the program until all is durable.";
    assert!(figure.notes.iter().any(|note| note == told), "{:?}", figure.notes);
}

#[test]
fn tls_stands_beside_what_was_published_of_tls() {
    let of = |control: &str, form: &str| {
        let one = sample(&format!("{control}{form}"), 1.0, &[("loss", 0.0)]);
        one.with("control", control.into())
    };
    let forms = ["", ", TLS", ", kernel TLS"];
    let samples = ["bbr", "cubic", "reno"].map(|control| forms.map(|form| of(control, form)));
    let all = figures(&[results("cca", gigabit(), samples.as_flattened().to_vec())]);
    let bars = bars(named(&all, "cca-beside-000-figs-4-to-6"));
    let names: Vec<&str> = bars.series.iter().take(3).map(|series| series.name.as_str()).collect();
    let expected = ["", ", TLS", ", kernel TLS"].map(|form| format!("ours: one stream{form}, nothing lost"));
    assert_eq!(names, expected);
    assert!(bars.series.iter().take(3).all(|series| series.values.iter().all(Option::is_some)));
}

#[test]
fn a_figure_says_where_a_point_has_fewer_runs_than_were_to_be() {
    let run = |run: u32, rtt: f64| Sample { run, ..sample("tuned", 2.0, &[("rtt", rtt)]) };
    let fact = |samples: Vec<Sample>| {
        let mut results = results("latency", gigabit(), samples);
        (results.about.iterations, results.has_end) = (2, true);
        let figures = figures(&[results]);
        let facts = &named(&figures, "latency-rate").facts;
        assert!(facts.contains(&"2 iterations".to_owned()), "{facts:?}");
        facts.iter().find(|fact| fact.contains("of them in")).cloned()
    };
    let all = [run(1, 0.01), run(1, 0.1), run(2, 0.1), run(2, 0.01)];
    assert_eq!(fact(all.to_vec()), None);
    assert_eq!(fact(all[..3].to_vec()).as_deref(), Some("1 to 2 of them in a point"));
    assert_eq!(fact(all[..2].to_vec()).as_deref(), Some("1 of them in each point"));
    // What is void is in none.
    let void = run(2, 0.01).measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1");
    let fewer = fact([&all[..3], &[void]].concat());
    assert_eq!(fewer.as_deref(), Some("1 to 2 of them in a point"));
}

#[test]
fn a_result_that_is_not_whole_says_so_and_single_runs_are_only_those_that_are() {
    let run = |run: u32, rtt: f64| Sample { run, ..sample("tuned", 2.0, &[("rtt", rtt)]) };
    let taken = |samples: Vec<Sample>| {
        let mut results = results("latency", gigabit(), samples);
        results.about.iterations = 3;
        results
    };
    let part = taken(vec![run(1, 0.01), run(1, 0.1), run(2, 0.1)]);
    let all = figures(std::slice::from_ref(&part));
    let figure = named(&all, "latency-rate");
    assert!(figure.facts.contains(&"partial: 1 to 2 of 3 iterations".to_owned()), "{:?}", figure.facts);
    let note = figure.notes.last().unwrap();
    assert!(
        note.contains("medians of 2 runs") && note.ends_with("What has no bar is a single run."),
        "{note}"
    );
    let page = html("part", &[part]);
    assert!(page.contains("<dd>partial: 1 to 2 of 3</dd>"));
    assert!(page.contains("or what a single run measured") && !page.contains("case was measured once"));
    let single = taken(vec![run(1, 0.01), run(1, 0.1)]);
    assert_eq!(figures(std::slice::from_ref(&single))[0].notes.last().unwrap(), "Points are single runs.");
    assert!(html("single", &[single]).contains("Each case was measured once."));
}

#[test]
fn of_an_imported_result_nothing_is_said_that_is_not_known() {
    let foreign = PathKind::Foreign { to: "there".into(), rtt_s: None };
    let page = html("far", &[results("iperf3", foreign, vec![sample("iperf3, TCP", 2.0, &[])])]);
    assert!(page.contains("<dd>to there</dd>"));
    for words in ["0 cores", "of memory", "load 0"] {
        assert!(!page.contains(words), "{words}");
    }
}

/// The note on how well a fit predicts.
fn predicted(figure: &Figure) -> &str {
    let note = figure.notes.iter().find(|note| note.contains("mean absolute error"));
    note.unwrap_or_else(|| panic!("{:?}", figure.notes))
}

#[test]
fn the_fit_predicts_what_it_was_not_shown_and_says_how_well() {
    // Eq 6 itself, so that the error is none and the optimum sqrt(4 * 8 / 0.002) = 126, in multiples of 4.
    let time = |files: f64, share: f64| 1.0 + 2.0 * share + files / 4.0 * 0.002 + 8.0 * share / files;
    let files = (2..=10).map(|power| f64::from(power).exp2());
    let of = |series: &str, files: f64, time_s: f64| {
        sample(series, time_s, &[("files", files), ("concurrency", 4.0)])
    };
    let mut samples: Vec<Sample> = files.map(|files| of("4 at once", files, time(files, 1.0))).collect();
    // Less data is of the fit, and is not drawn.
    let share = 83_333_333.0 / 125_000_000.0;
    let less = |files: f64| Sample { bytes: 83_333_333, ..of("4 at once, less", files, time(files, share)) };
    samples.extend([4.0, 32.0, 512.0].map(less));
    // Nor is a void run, whose data are the most.
    let void = Sample { bytes: 1 << 30, ..of("4 at once", 64.0, 90.0) };
    samples.push(void.measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1"));
    let figures = figures(&[results("files", gigabit(), samples)]);
    let figure = named(&figures, "files-fit");
    let note = predicted(figure);
    assert!(note.ends_with("a mean absolute error of 0.0 % (below 15 %: met)."), "{note}");
    assert_eq!(curves(figure).limits[0].label, "N* = 128");
    let counts: Vec<usize> = curves(figure).series.iter().map(|series| series.points.len()).collect();
    assert_eq!(counts, [4, 5, 65]);
}

/// In 4 and 4096 files the same within what the measurements differ by.
#[test]
fn of_a_fit_that_is_flat_no_number_of_files_is_drawn_as_the_best() {
    let times = [(4.0, 11.05), (8.0, 11.11), (16.0, 11.14), (32.0, 11.1), (64.0, 11.13), (128.0, 11.06)];
    let of = |(files, time_s): (f64, f64), bytes: u64| {
        let one = sample("4 at once", time_s, &[("files", files), ("concurrency", 4.0)]);
        Sample { bytes, ..one }
    };
    let mut samples: Vec<Sample> = times.map(|one| of(one, 125_000_000)).to_vec();
    samples.extend([(4.0, 7.5), (8.0, 7.6), (32.0, 7.4)].map(|one| of(one, 83_333_333)));
    let figures = figures(&[results("files", gigabit(), samples)]);
    let figure = named(&figures, "files-fit");
    assert_eq!(curves(figure).limits, []);
    let is_told = figure.notes.iter().any(|note| note.contains("flat: no number is better"));
    assert!(is_told, "{:?}", figure.notes);
    // The law is off by less than a per cent, and so is any other.
    let note = predicted(figure);
    assert!(note.contains("shows nothing of it: the slowest takes 0.814 % longer"), "{note}");
    assert!(!note.contains("met"), "{note}");
}

/// A law that is near to what it was not shown has still to be nearer than a single rate.
#[test]
fn a_fit_that_is_hardly_better_than_one_rate_has_missed() {
    let times = [(4.0, 3.0), (8.0, 3.5), (16.0, 3.0), (32.0, 3.0), (64.0, 3.0), (128.0, 3.0), (256.0, 3.0)];
    let of =
        |(files, time_s): (f64, f64)| sample("4 at once", time_s, &[("files", files), ("concurrency", 4.0)]);
    let results = results("files", gigabit(), times.map(of).to_vec());
    let fitted = FilesFit::of(&results).unwrap();
    assert_eq!(fitted.verdict(), Some(Verdict::Missed));
    let words = fitted.error_words().unwrap();
    assert!(words.contains("but one rate for all is off by 4.76 %"), "{words}");
}

/// Eq 6 itself, of one file at a time: N* is the root of 6.4 / 0.25, 5.06.
#[test]
fn whole_files_have_a_best_number_which_stands_beside_the_paper_with_its_condition() {
    let time = |files: f64, share: f64| 8.0 * share + 0.25 * files + 6.4 * share / files + 0.1;
    let of = |files: f64, share: f64| {
        let check_rate = 125e6 * 8.0 / 6.4;
        let set = [("files", files), ("concurrency", 1.0), ("check_rate", check_rate)];
        let one = sample("one at a time", time(files, share), &set);
        Sample { bytes: (125e6 * share) as u64, ..one }
    };
    let counts = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0];
    let all = counts.map(|files| of(files, 1.0)).into_iter();
    let samples: Vec<Sample> = all.chain([1.0, 4.0, 12.0].map(|files| of(files, 0.5))).collect();
    let results = results("whole-files", gigabit(), samples);
    let fitted = FilesFit::of(&results).unwrap();
    assert_eq!(fitted.verdict(), Some(Verdict::Met));
    let best = "N* = 5, measured best 6: 0 % faster than 6, the nearest to N* (at most 5 %: met)";
    assert_eq!(fitted.best_words().as_deref(), Some(best));
    let rates = "1/a_trs is 125 Mbit/s, 1/a_ck is 156 Mbit/s, and was 156 Mbit/s";
    let condition = format!("a_ck < a_trs holds: {rates}; b_trs is 250 ms for each file");
    assert_eq!(fitted.condition_words(), condition);
    let figures = figures(&[results]);
    assert_eq!(curves(named(&figures, "whole-files-fit")).limits[0].label, "N* = 5");
    let beside = named(&figures, "whole-files-beside-001-fig-9");
    assert_eq!(names(&curves(beside).series).last(), Some(&"001: GridFTP"));
    assert!(predicted(beside).ends_with("(below 15 %: met)."), "{:?}", beside.notes);
}

/// The same with two at once, whose line is shared: each has its own costs, curve and best number.
#[test]
fn files_at_once_are_fitted_each_by_themselves_and_drawn_in_one_figure() {
    let of = |at_once: f64, files: f64, share: f64| {
        let time_s = 8.0 * share + 0.25 * files / at_once + 6.4 * share / files + 0.1;
        let one = sample("some at a time", time_s, &[("files", files), ("concurrency", at_once)]);
        Sample { bytes: (125e6 * share) as u64, ..one }
    };
    let mut samples = Vec::new();
    for at_once in [2.0, 1.0] {
        let counts = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0].map(|files| files * at_once);
        samples.extend(counts.map(|files| of(at_once, files, 1.0)));
        samples.extend([1.0, 2.0, 8.0].map(|files| of(at_once, files * at_once, 0.5)));
    }
    let results = results("whole-files", gigabit(), samples);
    let all = FilesFit::all(&results);
    let at_once: Vec<f64> = all.iter().map(FilesFit::at_once).collect();
    assert_eq!((at_once, FilesFit::of(&results).unwrap().at_once()), (vec![1.0, 2.0], 1.0));
    // A start takes a process as long whatever others do, and each transfer twice as long where there are two.
    for (fitted, transfer_s) in all.iter().zip([8.0, 16.0]) {
        let costs = &fitted.fit.costs;
        assert!((costs.transfer_start_s / 0.25 - 1.0).abs() < 1e-3, "{costs:?}");
        assert!((costs.transfer_s_per_byte * 125e6 / transfer_s - 1.0).abs() < 1e-3, "{costs:?}");
        // The root of cc times 25.6.
        assert!((fitted.best.unwrap() - (25.6 * fitted.at_once()).sqrt()).abs() < 1.0, "{:?}", fitted.best);
    }
    let figures = figures(&[results]);
    let drawn = named(&figures, "whole-files-fit");
    let expected =
        ["1 at once: measured", "2 at once: measured", "1 at once: 001 Eq 6", "2 at once: 001 Eq 6"];
    assert_eq!(names(&curves(drawn).series), expected);
    assert_eq!(curves(drawn).limits.len(), 2);
    assert_eq!(drawn.notes.iter().filter(|note| note.contains("at once: Condition of Eq 6")).count(), 2);
}

/// Numbers of files whose times no law of this form has: of 32 and 64 the one is three times the other.
#[test]
fn a_fit_that_misses_what_it_was_not_shown_says_so() {
    let times = [(4.0, 4.0), (8.0, 3.0), (16.0, 3.0), (32.0, 9.0), (64.0, 3.0), (128.0, 3.0), (256.0, 3.0)];
    let of =
        |(files, time_s): (f64, f64)| sample("4 at once", time_s, &[("files", files), ("concurrency", 4.0)]);
    let figures = figures(&[results("files", gigabit(), times.map(of).to_vec())]);
    let note = predicted(named(&figures, "files-fit"));
    assert!(note.ends_with("(below 15 %: missed)."), "{note}");
}

#[test]
fn the_table_of_a_report_has_median_interval_mean_and_deviation() {
    let samples = [1.0, 2.0, 6.0].map(|wall_s| sample("tuned", wall_s, &[("rtt", 0.1)]));
    let page = html("three runs", &[results("latency", gigabit(), samples.to_vec())]);
    assert!(page.contains("Time, median") && page.contains("mean ± st. dev."), "{page}");
    // Of 1, 2 and 6: squared distances from 3 are 4, 1 and 9, and the root of 14 / 2 is 2.65.
    for words in ["<strong>2 s</strong>", "<td>1 to 6 s</td>", "<td>3 s ± 2.65 s</td>"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn the_window_law_is_drawn_as_the_power_that_it_is() {
    let of = |rtt: f64| sample("default", 2.0, &[("rtt", rtt)]).predicted("rate", 1e7 / rtt, "bit/s");
    let figures = figures(&[results("latency", gigabit(), vec![of(0.01), of(0.1)])]);
    let law = &curves(named(&figures, "latency-rate")).series[1];
    assert_eq!((law.name.as_str(), law.look, law.points.len()), ("default: law", Look::Law(0), 17));
    assert!(law.points.iter().all(|point| (point.x * point.y / 1e7 - 1.0).abs() < 1e-9), "{law:?}");
}

#[test]
fn table_two_stands_beside_ours_where_the_orders_are_the_same() {
    let of = |order: &str, wall_s| sample("4 simulated devices", wall_s, &[]).with("order", order.into());
    let samples = vec![of("none", 6.0), of("loose", 5.4), of("by-device", 4.5), of("layout", 3.0)];
    let figures = figures(&[results("layout", PathKind::Simulated, samples)]);
    let bars = bars(named(&figures, "layout-beside-002-table-ii"));
    assert_eq!(bars.groups, ["unsorted", "by layout", "by layout, sorted", "loose"]);
    let values = |at: usize| {
        bars.series[at].values.iter().map(|value| value.map(|value| value.value)).collect::<Vec<_>>()
    };
    assert_eq!(values(0), [Some(1.0), Some(0.75), Some(0.5), Some(0.9)]);
    assert_eq!(values(1), [Some(1.0), Some(47.0 / 57.0), Some(40.0 / 57.0), None]);
}

/// Where a suite has no groups of the paper's, those of its samples that can be compared stand in them.
#[test]
fn what_of_ours_can_be_compared_stands_beside_what_was_published() {
    let of = |control: &str, loss: f64, rate: f64| {
        let mut one = sample(control, 1.0, &[("loss", loss)]);
        one.measured.insert("rate".into(), Quantity::Number { value: rate, unit: "bit/s".into() });
        one
    };
    let samples =
        || vec![of("bbr", 0.0, 9e8), of("cubic", 0.0, 8e8), of("cubic", 4.6e-5, 1e8), of("bbr", 4.6e-5, 7e8)];
    let all = figures(&[results("cca", gigabit(), samples())]);
    let figure = named(&all, "cca-beside-000-figs-4-to-6");
    assert_eq!(figure.title, "Beside the paper: 000 Figs 4 to 6");
    let bars = bars(figure);
    assert_eq!(bars.groups, ["bbr", "cubic", "reno"]);
    let values =
        |at: usize| bars.series[at].values.iter().map(|v| v.as_ref().map(|v| v.value)).collect::<Vec<_>>();
    assert_eq!(values(0), [Some(0.9), Some(0.8), None], "{}", bars.series[0].name);
    assert_eq!(values(1), [Some(0.7), Some(0.1), None]);
    assert_eq!(values(2), [Some(0.844), Some(0.842), Some(0.631)]);
    // Without a line of ours there is no share of it.
    let all = figures(&[results("cca", PathKind::Loopback, samples())]);
    assert_eq!(named(&all, "cca-beside-000-figs-4-to-6").title, "As published: 000 Figs 4 to 6");
    // Of several distances the nearest stands there, and which that is.
    let at = |rtt: f64, rate: f64| of("bbr", 0.0, rate).with("rtt", Quantity::number(rtt, "s"));
    let both = vec![at(0.02, 9e8), at(0.074, 6e8), at(0.15, 1e8)];
    let all = figures(&[results("cca", gigabit(), both)]);
    let figure = named(&all, "cca-beside-000-figs-4-to-6");
    assert_eq!(self::bars(figure).series[0].values[0].map(|value| value.value), Some(0.6));
    let told = "Ours: round-trip time 74 ms, the nearest to the paper's.";
    assert!(figure.notes.iter().any(|note| note == told), "{:?}", figure.notes);
    named(&all, "cca-rate-74-ms");
    // A case that the paper has not stands behind its own.
    let grown = |rtt: f64| {
        let at = [("rtt", rtt), ("file_size", 268_435_456.0)];
        sample("files that grow as fast as the disk takes them", 4.0, &at)
    };
    let all = figures(&[results("sweep streaming", gigabit(), vec![grown(0.01), grown(0.1)])]);
    let bars = self::bars(named(&all, "sweep-streaming-beside-000-fig-6"));
    assert_eq!(bars.groups, ["74 ms, bbr", "74 ms, cubic", "10 ms", "100 ms"]);
    assert!(bars.series[0].values[2].is_some() && bars.series[0].values[0].is_none());
}

#[test]
fn what_a_distance_costs_objects_stands_beside_the_paper_by_times_and_only_of_those_that_go_up() {
    let copied = |tool: &str, way: &str, rtt: f64, wall_s: f64| {
        let at = [("rtt", rtt), ("file_size", 536_870_912.0)];
        sample(tool, wall_s, &at).with("way", way.into())
    };
    let far = || vec![copied("thalweg", "up", 0.15, 6.0), copied("thalweg", "down", 0.002, 40.0)];
    let near = [copied("thalweg", "up", 0.002, 4.0), copied("aws-cli", "up", 0.15, 60.0)];
    let all = figures(&[results("objects-distance", gigabit(), [&far()[..], &near].concat())]);
    for figure in ["objects-distance-rate-up-512-mib", "objects-distance-rate-down-512-mib"] {
        named(&all, figure);
    }
    let figure = named(&all, "objects-distance-beside-000-fig-11");
    let beside = bars(figure);
    assert_eq!(beside.groups, ["near", "across the ocean"]);
    let values = |at: usize| {
        let of = |value: &Option<Value>| value.map(|value| (value.value * 100.0).round());
        beside.series[at].values.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(values(0), [Some(100.0), Some(150.0)], "{}", beside.series[0].name);
    assert_eq!([values(1), values(2)], [[Some(100.0), Some(176.0)], [Some(100.0), Some(310.0)]]);
    let told = "Ours take from 4 s to 6 s each, from the start of the program to its end.";
    assert!(figure.notes.iter().any(|note| note == told), "{:?}", figure.notes);
    // Without what is near there is nothing to hold the distance against.
    let all = figures(&[results("objects-distance", gigabit(), far())]);
    assert_eq!(named(&all, "objects-distance-beside-000-fig-11").title, "As published: 000 Fig 11");
}

#[test]
fn what_others_measured_stands_in_figures_of_a_network_and_not_of_a_disk() {
    let path = PathKind::Foreign { to: "there".into(), rtt_s: None };
    let foreign = || results("iperf3", path.clone(), vec![sample("iperf3, TCP", 2.0, &[("streams", 4.0)])]);
    let at = |suite: &str, path, parameter: &str| {
        let samples = vec![sample("a", 1.0, &[(parameter, 1.0)]), sample("a", 1.0, &[(parameter, 2.0)])];
        figures(&[results(suite, path, samples), foreign()])
    };
    let latency = at("latency", gigabit(), "rtt");
    let labels: Vec<&str> =
        curves(named(&latency, "latency-rate")).limits.iter().map(|limit| limit.label.as_str()).collect();
    assert_eq!(labels, ["iperf 3.12: 500 Mbit/s", "line: 1 Gbit/s"]);
    let storage = at("storage", PathKind::Disk, "request_size");
    assert!(curves(named(&storage, "storage-rate")).limits.is_empty());
    // And it has a figure of its own.
    named(&latency, "iperf3-rate");
}

#[test]
fn a_disk_that_another_program_measured_stands_beside_ours_in_its_direction_and_at_its_depth() {
    let of = |direction: &str, request: f64, depth: f64| {
        let set = [("request_size", request), ("depth", depth)];
        sample(&format!("{direction}, direct, sequential"), 1.0, &set).with("direction", direction.into())
    };
    let both = |request: f64, depth: f64| ["read", "write"].map(|way| of(way, request, depth));
    let at = |depth: f64| [both(4096.0, depth), both(65_536.0, depth)];
    let own = results("storage", PathKind::Disk, [at(1.0), at(16.0)].concat().concat());
    let path = PathKind::Foreign { to: "a disk".into(), rtt_s: None };
    let mut theirs = results("storage", path, [at(4.0), at(16.0)].concat().concat());
    theirs.about.program = "fio 3.36".into();
    let of_network = over_distance("latency", gigabit(), "tuned");
    let all = figures(&[own, of_network, theirs]);
    let read = named(&all, "storage-rate-read");
    assert_eq!(names(&curves(read).series), ["direct, sequential", "fio 3.36: read, direct, sequential"]);
    assert!(curves(read).limits.is_empty(), "{:?}", curves(read).limits);
    let left_out = "What fio 3.36 measured in another way is left out; its own table has it.";
    assert!(read.notes.iter().any(|note| note == left_out), "{:?}", read.notes);
    let latency = curves(named(&all, "latency-rate"));
    assert_eq!((names(&latency.series), latency.limits.len()), (vec!["tuned"], 1), "only the line");
}

#[test]
fn others_stand_at_their_distance_or_as_a_level_for_each_way_in_which_they_measured() {
    let foreign = |samples: Vec<Sample>| {
        results("iperf3", PathKind::Foreign { to: "there".into(), rtt_s: None }, samples)
    };
    let own = || {
        let samples = vec![sample("tuned", 1.0, &[("rtt", 0.01)]), sample("tuned", 1.0, &[("rtt", 0.1)])];
        results("latency", gigabit(), samples)
    };
    let of = |wall_s: f64, streams: f64| sample("iperf3, TCP", wall_s, &[("streams", streams)]);
    let at = |wall_s: f64, rtt: f64| sample("iperf3, TCP", wall_s, &[("rtt", rtt)]);
    let all = figures(&[own(), foreign(vec![at(2.0, 0.01), at(4.0, 0.1), of(8.0, 1.0), of(1.0, 8.0)])]);
    let rate = curves(named(&all, "latency-rate"));
    let far = &rate.series[1];
    assert!(far.name.starts_with("iperf 3.12: "), "{}", far.name);
    assert_eq!(far.points.iter().map(|point| point.y).collect::<Vec<_>>(), [5e8, 2.5e8]);
    let labels: Vec<&str> = rate.limits.iter().map(|limit| limit.label.as_str()).collect();
    assert_eq!(
        labels,
        [
            "iperf 3.12: 1 Gbit/s, iperf3, TCP, streams 8",
            "iperf 3.12: 125 Mbit/s, iperf3, TCP, streams 1",
            "line: 1 Gbit/s"
        ]
    );
    // What others measured is no share of our line.
    let beside = curves(named(&all, "latency-beside-000-fig-2"));
    assert_eq!(names(&beside.series), ["ours: tuned", "000: default kernel", "000: tuned kernel"]);
    // Words stand beside each level: there is no room for many.
    let many: Vec<Sample> = (1..=9).map(|streams| of(1.0, f64::from(streams))).collect();
    let all = figures(&[own(), foreign(many)]);
    let figure = named(&all, "latency-rate");
    assert_eq!(curves(figure).limits.len(), 5);
    assert!(
        figure.notes.iter().any(|note| note.starts_with("4 of 9 levels of iperf 3.12")),
        "{:?}",
        figure.notes
    );
}

#[test]
fn a_path_of_which_only_round_trips_are_known_stands_on_the_axis_of_distances() {
    let own = || over_distance("latency", gigabit(), "tuned");
    let seen = |host: &str, rtt: f64| {
        let sample = Sample { bytes: 0, ..sample("ping, round trips", 3.0, &[("rtt", rtt)]) };
        sample.with("host", host.into()).distributed("round_trip", "s", vec![rtt, rtt * 1.1])
    };
    let pinged = |samples: Vec<Sample>| {
        let mut results = results("ping", PathKind::Foreign { to: "there".into(), rtt_s: None }, samples);
        results.about.program = "ping (iputils)".into();
        results
    };
    let all = figures(&[own(), pinged(vec![seen("far", 0.05), seen("far", 0.05), seen("near", 0.012)])]);
    let rate = curves(named(&all, "latency-rate"));
    assert_eq!(names(&rate.series), ["tuned"]);
    let labels: Vec<&str> = rate.limits.iter().map(|limit| limit.label.as_str()).collect();
    assert_eq!(labels, ["ping (iputils) to near: 12 ms", "ping (iputils) to far: 50 ms", "line: 1 Gbit/s"]);
    let trips = curves(named(&all, "ping-round-trips"));
    assert_eq!(trips.x.label, "Round-trip time");
    assert!(names(&trips.series).iter().all(|name| name.starts_with("ping, round trips, ")));
    // There is no room for the words of many.
    let many = (1..=9).map(|host| seen(&format!("host {host}"), f64::from(host) / 100.0)).collect();
    let all = figures(&[own(), pinged(many)]);
    let figure = named(&all, "latency-rate");
    assert_eq!(curves(figure).limits.len(), 5);
    let told = "4 of 9 distances of ping (iputils) are drawn; its own table has the others.";
    assert!(figure.notes.iter().any(|note| note == told), "{:?}", figure.notes);
}

/// Two points over the distance.
fn over_distance(suite: &str, path: PathKind, series: &str) -> Results {
    let at = |rtt| sample(series, 2.0, &[("rtt", rtt)]);
    results(suite, path, vec![at(0.01), at(0.1)])
}

#[test]
fn what_another_program_measured_is_drawn_as_its_own_and_never_as_ours() {
    let mut theirs =
        over_distance("latency", PathKind::Foreign { to: "there".into(), rtt_s: None }, "4 streams");
    theirs.about.program = "GridFTP".into();
    // Of a suite that papers have figures for.
    let alone = figures(std::slice::from_ref(&theirs));
    assert_eq!(alone.iter().map(|figure| figure.name.as_str()).collect::<Vec<_>>(), ["latency-rate"]);
    assert!(alone[0].facts.contains(&"GridFTP".to_owned()), "{:?}", alone[0].facts);
    let is_of_ours = alone[0].notes.iter().any(|note| note.starts_with("A stream of TCP is measured"));
    assert!(!is_of_ours, "how ours are measured: {:?}", alone[0].notes);
    let both = figures(&[over_distance("latency", gigabit(), "tuned"), theirs]);
    assert_eq!(names(&curves(named(&both, "latency-rate")).series), ["tuned", "GridFTP: 4 streams"]);
    let beside = both.iter().filter(|figure| figure.name.starts_with("latency-beside-"));
    for figure in beside {
        let drawn = names(&curves(figure).series);
        assert!(!drawn.iter().any(|name| name.contains("4 streams")), "{drawn:?}");
    }
}

/// The file that docs/guide/bench.md shows, as it stands there.
#[test]
fn what_the_guide_has_one_write_of_another_program_is_drawn_as_that_programs() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/bench.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, block) = guide.split_once("```json\n").unwrap();
    let (lines, _) = block.split_once("```").unwrap();
    let theirs = Results::parse(lines.as_bytes()).unwrap();
    assert!(theirs.samples.len() > 1, "{lines}");
    let all = [over_distance("latency", gigabit(), "tuned"), theirs];
    let both = figures(&all);
    assert_eq!(names(&curves(named(&both, "latency-rate")).series), ["tuned", "GridFTP: 4 streams"]);
    let beside = curves(named(&both, "latency-beside-000-fig-2"));
    assert_eq!(names(&beside.series), ["ours: tuned", "000: default kernel", "000: tuned kernel"]);
    let own = named(&both, "gridftp-rate");
    assert_eq!(own.facts, ["2026-11-22", "GridFTP", "to HOST", "1 iteration"]);
    let page = html("far", &all[1..]);
    assert!(page.contains("<dd>GridFTP</dd>"));
    for words in
        ["<dt>Encryption</dt>", "<dt>Verification</dt>", "(commit ", "0 cores", "of memory", "Repeat it:"]
    {
        assert!(!page.contains(words), "{words}");
    }
}

#[test]
fn two_results_of_one_suite_have_figures_of_different_names() {
    let one = || results("latency", gigabit(), vec![sample("a", 1.0, &[("rtt", 0.1)])]);
    let figures = figures(&[one(), one()]);
    named(&figures, "latency-rate");
    named(&figures, "latency-rate-2");
}

#[test]
fn a_result_without_samples_has_no_figure_and_a_page_all_the_same() {
    let empty = results("latency", gigabit(), Vec::new());
    assert_eq!(figures(std::slice::from_ref(&empty)), []);
    assert!(html("nothing", &[empty]).contains("<h1>nothing</h1>"));
}

#[test]
fn each_row_of_figures_is_of_a_suite_that_there_is() {
    for plan in super::suite::PLANS {
        let is_ours = crate::bench::Suite::find(plan.suite).is_some();
        assert!(is_ours != OF_CHORE.contains(&plan.suite), "{}: {}", plan.suite, plan.name);
    }
}
