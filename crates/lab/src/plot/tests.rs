//! Figures of every kind, drawn.

use super::unit::Unit;
use super::*;
use resvg::usvg::{Group, Node};

fn axis(label: &str, unit: Unit, scale: Scale) -> Axis {
    Axis::new(label, unit, scale)
}

fn figure(body: Body) -> Figure {
    Figure {
        name: "latency".into(),
        title: "Throughput against the round-trip time: default and tuned buffers".into(),
        facts: ["2026-11-22", "testbed, 1 Gbit/s", "5 iterations", "not encrypted", "not verified"]
            .map(str::to_owned)
            .to_vec(),
        notes: vec![
            "Points are medians, bars their confidence intervals of 95 %. Hollow: 000 Fig 2, at 100 Gbit/s."
                .into(),
        ],
        body,
    }
}

fn curves() -> Figure {
    let point = |rtt_ms: f64, gbit: f64| Point {
        x: rtt_ms / 1e3,
        y: gbit * 1e9,
        interval: Some((gbit * 0.93e9, gbit * 1.04e9)),
    };
    let law = (1..=100).map(|at| Point::new(f64::from(at) * 1e-3, 6e6 * 8.0 / (f64::from(at) * 1e-3)));
    let series = |name: &str, look, way, points| Series { name: name.into(), look, way, points };
    figure(Body::Curves(Curves {
        x: axis("Round-trip time", Unit::Seconds, Scale::Linear),
        y: axis("Throughput", Unit::BitsPerS, Scale::Linear),
        series: vec![
            series(
                "default buffers",
                Look::Measured(0),
                Way::Line,
                vec![point(10.0, 0.94), point(30.0, 0.9), point(50.0, 0.7), point(100.0, 0.4)],
            ),
            series(
                "tuned buffers",
                Look::Measured(1),
                Way::Line,
                vec![point(10.0, 0.95), point(30.0, 0.94), point(50.0, 0.93), point(100.0, 0.9)],
            ),
            series("window law", Look::Law(0), Way::Line, law.collect()),
            series(
                "000 Fig 2, a hundredth",
                Look::Published(2),
                Way::Line,
                vec![Point::new(0.01, 0.67e9), Point::new(0.1, 0.066e9)],
            ),
        ],
        limits: vec![
            Limit { across: Across::Level, at: 1e9, label: "the line: 1 Gbit/s".into() },
            Limit { across: Across::Upright, at: 0.048, label: "window = product".into() },
        ],
        remarks: vec![Remark { x: 0.1, y: 0.4e9, label: "0.40 Gbit/s".into() }],
    }))
}

fn stairs() -> Figure {
    let points = |shift: f64| {
        (1..=80)
            .map(|at| Point::new(0.16 * shift * (1.0 + f64::from(at * at) / 900.0), f64::from(at) / 80.0))
            .collect()
    };
    let series = |name: &str, index, shift| Series {
        name: name.into(),
        look: Look::Measured(index),
        way: Way::Stairs,
        points: points(shift),
    };
    figure(Body::Curves(Curves {
        x: axis("Transfer time", Unit::Seconds, Scale::Log10),
        y: Axis { to: Some(1.0), ..axis("Share of transfers", Unit::Share, Scale::Linear) },
        series: vec![series("2 streams", 0, 1.0), series("4 streams", 1, 1.4), series("8 streams", 2, 2.2)],
        limits: vec![
            Limit { across: Across::Level, at: 0.9, label: "P90".into() },
            Limit { across: Across::Level, at: 0.99, label: "P99".into() },
        ],
        remarks: Vec::new(),
    }))
}

fn sizes() -> Figure {
    let rate =
        |power: i32, best: f64| Point::new(f64::from(power).exp2(), best / (1.0 + 2f64.powi(18 - power)));
    let series = |index, name: &str, best| Series {
        name: name.into(),
        look: Look::Measured(index),
        way: Way::Line,
        points: (10..=30).map(|power| rate(power, best)).collect(),
    };
    figure(Body::Curves(Curves {
        x: axis("File size", Unit::Bytes, Scale::Log2),
        y: axis("Throughput", Unit::BitsPerS, Scale::Log10),
        series: vec![
            series(0, "10 ms", 9.6e8),
            series(1, "50 ms", 8.8e8),
            series(2, "100 ms", 8e8),
            series(3, "a", 7e8),
            series(4, "b", 6e8),
            series(5, "c", 5e8),
            series(6, "d", 4e8),
        ],
        limits: Vec::new(),
        remarks: Vec::new(),
    }))
}

fn bars() -> Figure {
    let value = |value: f64| Some(Value { value, interval: Some((value * 0.9, value * 1.1)) });
    figure(Body::Bars(Bars {
        axis: axis("Time", Unit::Seconds, Scale::Linear),
        groups: ["Normal embedded", "Layout aware", "Layout aware, segments sorted"]
            .map(str::to_owned)
            .to_vec(),
        series: vec![
            BarSeries {
                name: "here".into(),
                look: Look::Measured(0),
                values: vec![value(5.2), value(4.4), value(3.7)],
            },
            BarSeries {
                name: "rsync".into(),
                look: Look::Measured(1),
                values: vec![value(6.2), None, value(4.7)],
            },
            BarSeries {
                name: "002 Table II, a tenth".into(),
                look: Look::Published(2),
                values: vec![value(5.7), value(4.7), value(4.0)],
            },
        ],
    }))
}

/// Beside the largest of these the smaller ones would have no bar.
fn dots() -> Figure {
    let value = |value: f64| Some(Value { value, interval: Some((value * 0.7, value * 1.4)) });
    let series = |index, name: &str, values| {
        let look = Look::Measured(index);
        BarSeries { name: name.into(), look, values }
    };
    figure(Body::Bars(Bars {
        axis: axis("From written to readable, P99", Unit::Seconds, Scale::Log10),
        groups: ["0 s", "100 ms"].map(str::to_owned).to_vec(),
        series: vec![
            series(0, "stream", vec![value(534e-6), value(0.139)]),
            series(1, "frames", vec![value(2.5e-3), None]),
            series(2, "frames, a consumer that stands still, spill", vec![value(30.9), value(29.3)]),
        ],
    }))
}

fn cells() -> Figure {
    figure(Body::Cells(Cells {
        row_title: "Concurrency".into(),
        rows: (0..5).map(|at| (1 << at).to_string()).collect(),
        column_title: "Streams".into(),
        columns: (0..4).map(|at| (1 << at).to_string()).collect(),
        label: "Throughput".into(),
        unit: Unit::BitsPerS,
        values: (0..5)
            .map(|row| {
                (0..4)
                    .map(|column| (row + column < 7).then(|| 1e8 * f64::from(1 + row * column + row)))
                    .collect()
            })
            .collect(),
    }))
}

fn all() -> [Figure; 6] {
    [curves(), stairs(), sizes(), bars(), dots(), cells()]
}

#[test]
fn the_same_figure_gives_the_same_bytes() {
    for figure in all() {
        assert_eq!(svg(&figure, WIDTH), svg(&figure, WIDTH));
        assert_eq!(png(&figure, WIDTH, 1.0).unwrap(), png(&figure, WIDTH, 1.0).unwrap());
        assert_eq!(csv(&figure), csv(&figure));
    }
}

/// Words as the renderer of the PNG sets them: (what, left, top, right, bottom).
fn words(group: &Group, into: &mut Vec<(String, [f32; 4])>) {
    for node in group.children() {
        match node {
            Node::Group(group) => words(group, into),
            Node::Text(text) => {
                let all: Vec<&str> = text.chunks().iter().map(|chunk| chunk.text()).collect();
                let place = node.abs_bounding_box();
                into.push((all.concat(), [place.left(), place.top(), place.right(), place.bottom()]));
            }
            _ => {}
        }
    }
}

#[test]
fn no_words_touch_or_leave_the_page_wide_or_narrow() {
    for (figure, width) in all().iter().flat_map(|figure| [(figure, WIDTH), (figure, 360.0)]) {
        let tree = png::tree(figure, width).unwrap();
        let mut all = Vec::new();
        words(tree.root(), &mut all);
        assert!(all.len() > 10, "{} has no words", figure.title);
        for (at, (one, a)) in all.iter().enumerate() {
            let (right, bottom) = (tree.size().width(), tree.size().height());
            assert!(a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= right && a[3] <= bottom, "{one} at {a:?}, {width}");
            for (two, b) in &all[at + 1..] {
                let touch = a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
                assert!(!touch, "{one} and {two} touch on {width} pixels: {a:?} {b:?}");
            }
        }
    }
}

#[test]
fn names_over_their_bars_stand_beside_the_axis_and_not_on_it() {
    let drawn = svg(&bars(), 360.0);
    let after = |mark: &str| -> f64 {
        let (_, rest) = drawn.split_once(mark).unwrap_or_else(|| panic!("no {mark} in {drawn}"));
        rest.split([' ', '"']).next().unwrap().parse().unwrap()
    };
    let axis = after("class=\"axis\" d=\"M");
    assert!(after("class=\"strong halo\" x=\"") > axis, "the axis is drawn over the first letter");
}

/// Each series once in each group that has it, and once in the legend.
#[test]
fn on_a_logarithmic_axis_stand_dots_with_their_figures_and_no_bars() {
    let drawn = svg(&dots(), WIDTH);
    let dots_of = |index: usize| drawn.matches(&format!("class=\"s{index} dot\"")).count();
    assert_eq!([0, 1, 2].map(dots_of), [3, 2, 3]);
    assert!(!drawn.contains(" bar\""), "{drawn}");
    assert!(drawn.contains(">534 µs</text>") && drawn.contains(">30.9 s</text>"), "{drawn}");
    assert!(svg(&bars(), WIDTH).contains("class=\"s0 bar\""));
}

#[test]
fn a_picture_without_pixels_or_with_too_many_is_refused() {
    for scale in [0.0, -1.0, f32::NAN, 17.0] {
        assert!(matches!(png(&bars(), WIDTH, scale), Err(PngError::Size)));
    }
}

#[test]
fn data_are_complete_and_in_base_units() {
    let text = csv(&curves());
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("series,kind,Round-trip time (s),Throughput (bit/s),low,high"));
    assert_eq!(lines.next(), Some("default buffers,measured,0.01,940000000,874200000,977600000"));
    assert!(text.contains("\"000 Fig 2, a hundredth\",published,0.01,670000000,,\n"));
    assert!(text.ends_with("window = product,limit,0.048,,,\n"));
    assert!(csv(&bars()).contains("\"Layout aware, segments sorted\",here,measured,3.7,"));
    assert_eq!(csv(&cells()).lines().count(), 1 + 5 * 4 - 1);
}

#[test]
fn those_who_do_not_see_it_are_told_what_it_shows() {
    let words = curves().alternative();
    assert!(words.contains("Throughput against round-trip time."), "{words}");
    assert!(
        words.contains("tuned buffers: 4 points, from 950 Mbit/s at 10 ms to 900 Mbit/s at 100 ms."),
        "{words}"
    );
    assert!(bars().alternative().contains("Layout aware: here 4.4 s, 002 Table II, a tenth 4.7 s."));
}

#[test]
fn a_figure_is_named_by_its_title_and_described_without_it() {
    for figure in all() {
        let drawn = svg(&figure, WIDTH);
        let roles = r#"aria-labelledby="latency-title" aria-describedby="latency-desc""#;
        assert!(drawn.contains(roles), "{drawn}");
        let (_, said) = drawn.split_once("<desc id=\"latency-desc\">").unwrap();
        let (said, _) = said.split_once("</desc>").unwrap();
        assert!(!said.is_empty() && !said.contains(&figure.title), "{said}");
        assert!(figure.alternative().starts_with(&figure.title), "what has no name besides keeps it");
    }
}
