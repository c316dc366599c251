//! Ours and a paper's in one figure, on a common basis: shares of each one's line, best or first.

use super::build::{Made, facts, slug};
use super::papers::{Basis, MeasuredCase, Published, PublishedSeries};
use super::reading::{self, Measure};
use crate::bench::record::{Quantity, Results, Sample};
use crate::plot::unit::Unit;
use crate::plot::{Axis, BarSeries, Bars, Body, Curves, Figure, Look, Point, Scale, Series, Value, Way};
use std::collections::BTreeMap;

/// A published figure, with ours in it where ours measures the same.
pub fn beside(published: &Published, results: &Results, ours: &Made) -> Option<Figure> {
    let line = reading::line_bits_per_s(results);
    let mut notes = vec![published.note()];
    let of_figure = |body: Body| {
        let chosen = if ours.chosen.is_empty() { None } else { Some(ours.chosen.join(", ")) };
        (body, Some((chosen, ours.figure.facts.clone())), ours.figure.notes.clone())
    };
    let (body, said, more) = match &ours.figure.body {
        _ if !published.measured.is_empty() => match with_samples(published, results, line) {
            Some((bars, samples)) => {
                let mut more = vec![took(&samples, published.basis)];
                more.extend(nearest_told(published, results, &samples));
                more.push(reading::intervals(results, Measure::Rate));
                (Body::Bars(bars), Some((None, facts(results, &samples))), more)
            }
            None => (Body::Bars(alone(published)?), None, Vec::new()),
        },
        Body::Curves(curves) if published.groups.is_empty() => {
            of_figure(Body::Curves(with_curves(published, curves, line)))
        }
        Body::Bars(bars) => of_figure(Body::Bars(with_bars(published, bars)?)),
        _ => (Body::Bars(alone(published)?), None, Vec::new()),
    };
    notes.extend(more);
    let (title, facts) = match said {
        Some((None, facts)) => (format!("Beside the paper: {}", published.id), facts),
        Some((Some(chosen), facts)) => {
            (format!("Beside the paper: {} (ours: {chosen})", published.id), facts)
        }
        None => (format!("As published: {}", published.id), Vec::new()),
    };
    let name = slug(&format!("{}-beside-{}", results.about.suite, published.id));
    Some(Figure { name, title, facts, notes, body })
}

/// How long what is shown of ours took. What is held against times by times goes up into a store that syncs nothing.
fn took(samples: &[&Sample], basis: Basis) -> String {
    let times = || samples.iter().map(|sample| sample.wall_s);
    let least = Unit::Seconds.show(times().fold(f64::INFINITY, f64::min));
    let most = Unit::Seconds.show(times().fold(0.0, f64::max));
    let times = if least == most { least } else { format!("from {least} to {most}") };
    let end = if basis == Basis::First { "to its end" } else { "until all is durable" };
    format!("Ours take {times} each, from the start of the program {end}.")
}

/// Where ours were measured that stand beside the paper, if that was left open.
fn nearest_told(published: &Published, results: &Results, samples: &[&Sample]) -> Option<String> {
    let of = |name: &String| {
        let quantity = samples.iter().find_map(|sample| sample.parameters.get(name))?;
        Some(reading::set(results, name, quantity))
    };
    let set: Vec<String> = published.nearest.keys().filter_map(of).collect();
    (!set.is_empty()).then(|| format!("Ours: {}, the nearest to the paper's.", set.join(", ")))
}

/// How a series of ours is called beside a paper's; one without a name of its own is just ours.
fn named_ours(name: &str, axis: &Axis) -> String {
    if name == axis.label { "ours".to_owned() } else { format!("ours: {name}") }
}

/// What the shares are of.
fn axis(basis: Basis) -> Axis {
    let label = match basis {
        Basis::Line(_) => "Share of the line",
        Basis::Best => "Share of the best",
        Basis::First => "Time, as a share of the first",
        Basis::None => return Axis::new("Time", Unit::Seconds, Scale::Linear),
    };
    Axis::new(label, Unit::Share, Scale::Linear)
}

/// Our measured series and theirs, each divided by its own.
fn with_curves(published: &Published, curves: &Curves, line: Option<f64>) -> Curves {
    // Without a line of ours only the shapes can be compared.
    let basis = match (published.basis, line) {
        (Basis::Line(_), None) => Basis::Best,
        (basis, _) => basis,
    };
    let measured = curves.series.iter().filter(|series| matches!(series.look, Look::Measured(_)));
    let ours = measured.map(|one| Series { name: named_ours(&one.name, &curves.y), ..one.clone() });
    let mut series: Vec<Series> = ours.collect();
    let begin = series.len();
    let best = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::MIN_POSITIVE, f64::max);
    let ours = || series.iter().flat_map(|series| &series.points).map(|point| point.y);
    let theirs = || published.series.iter().flat_map(|series| &series.points).map(|point| point[1]);
    let (our_basis, their_basis) = match basis {
        Basis::Line(their_line) => (line.unwrap_or(their_line), their_line),
        Basis::Best => (best(&mut ours()), best(&mut theirs())),
        Basis::First => (ours().next().unwrap_or(1.0), theirs().next().unwrap_or(1.0)),
        Basis::None => (1.0, 1.0),
    };
    for point in series.iter_mut().flat_map(|series| &mut series.points) {
        *point = divided(*point, our_basis);
    }
    for (at, one) in published.series.iter().enumerate() {
        let point = |point: &Vec<f64>| {
            let interval = (point.len() == 4).then(|| (point[2], point[3]));
            divided(Point { x: point[0], y: point[1], interval }, their_basis)
        };
        let points = one.points.iter().map(point).collect();
        series.push(Series {
            name: one.name.clone(),
            look: Look::Published(begin + at),
            way: Way::Line,
            points,
        });
    }
    let y =
        if basis == Basis::None { curves.y.clone() } else { Axis { scale: curves.y.scale, ..axis(basis) } };
    Curves { x: curves.x.clone(), y, series, limits: Vec::new(), remarks: Vec::new() }
}

/// The published bars alone.
fn alone(published: &Published) -> Option<Bars> {
    let values = || published.series.iter().flat_map(|series| &series.values).copied();
    let bars = |(at, one): (usize, &PublishedSeries)| {
        let by = match published.basis {
            Basis::Line(line) => line,
            Basis::Best => values().fold(f64::MIN_POSITIVE, f64::max),
            // Each by its own: they were measured with different ends.
            Basis::First => *one.values.first()?,
            Basis::None => 1.0,
        };
        let value = |at: usize| Some(Value { value: one.values.get(at)? / by, interval: None });
        let values = (0..published.groups.len()).map(value).collect();
        Some(BarSeries { name: one.name.clone(), look: Look::Published(at), values })
    };
    let series = published.series.iter().enumerate().map(bars).collect::<Option<Vec<_>>>()?;
    Some(Bars { axis: axis(published.basis), groups: published.groups.clone(), series })
}

fn divided(point: Point, by: f64) -> Point {
    let interval = point.interval.map(|(low, high)| (low / by, high / by));
    Point { x: point.x, y: point.y / by, interval }
}

/// Samples of ours in the groups of the paper, rates as shares of our line or times as shares of that in the first
/// group, and which they are; nothing without a line or that group, or without such samples.
fn with_samples<'a>(
    published: &Published,
    results: &'a Results,
    line: Option<f64>,
) -> Option<(Bars, Vec<&'a Sample>)> {
    let (measure, line) = match published.basis {
        Basis::First => (Measure::Time, None),
        Basis::Line(_) | Basis::Best | Basis::None => (Measure::Rate, Some(line?)),
    };
    let theirs = alone(published)?;
    let mut groups = theirs.groups;
    let mut series: Vec<BarSeries> = Vec::new();
    let mut shown = Vec::new();
    for one in &published.measured {
        let mut values: Vec<Option<Value>> = vec![None; groups.len()];
        let mut all = Vec::new();
        for case in &one.cases {
            let samples = samples_of(case, &published.nearest, results);
            let Some(value) = reading::middle(&samples, measure) else { continue };
            let name = case.group.replace(FILE, &file_size(&samples));
            let at = groups.iter().position(|group| *group == name).unwrap_or_else(|| {
                groups.push(name);
                groups.len() - 1
            });
            values.resize(groups.len().max(values.len()), None);
            values[at] = Some(value);
            all.extend(samples);
        }
        let first = values.first().and_then(|first| Some(first.as_ref()?.value));
        let Some(by) = line.or(first) else { continue };
        for Value { value, interval } in values.iter_mut().flatten() {
            *value /= by;
            *interval = interval.map(|(low, high)| (low / by, high / by));
        }
        if !all.is_empty() {
            let name =
                line.map_or(one.name.clone(), |line| one.name.replace(LINE, &Unit::BitsPerS.show(line)));
            series.push(BarSeries { name, look: Look::Measured(series.len()), values });
            shown.extend(all);
        }
    }
    if series.is_empty() {
        return None;
    }
    let begin = series.len();
    let hollow = |(at, one): (usize, BarSeries)| BarSeries { look: Look::Published(begin + at), ..one };
    series.extend(theirs.series.into_iter().enumerate().map(hollow));
    let count = groups.len();
    series.iter_mut().for_each(|series| series.values.resize(count, None));
    Some((Bars { axis: theirs.axis, groups, series }, shown))
}

/// What stands in names for the rate of our line, and for the size of our files.
const LINE: &str = "{line}";
const FILE: &str = "{file}";
/// In the name of a group: the number of frames of our scan.
const FRAMES: &str = "{frames}";

fn file_size(samples: &[&Sample]) -> String {
    let size = samples.first().map_or(0.0, |sample| sample.bytes as f64 / sample.files.max(1) as f64);
    Unit::Bytes.show(size)
}

fn samples_of<'a>(
    case: &MeasuredCase,
    nearest: &BTreeMap<String, f64>,
    results: &'a Results,
) -> Vec<&'a Sample> {
    let is_at = |sample: &Sample, name: &str, value: f64| {
        sample.parameter(name).is_some_and(|seen| (seen - value).abs() <= value.abs() * 1e-6)
    };
    let fits = |sample: &&Sample| {
        let says = |(name, word): (&String, &String)| {
            sample.parameters.get(name).and_then(Quantity::word) == Some(word.as_str())
        };
        sample.series == case.series
            && case.at.iter().all(|(name, value)| is_at(sample, name, *value))
            && case.said.iter().all(says)
    };
    let mut samples: Vec<&Sample> = results.counting().filter(fits).collect();
    for (name, of_paper) in nearest {
        let off = |sample: &Sample| sample.parameter(name).map(|seen| (seen - of_paper).abs());
        let least = samples.iter().filter_map(|sample| off(sample)).fold(f64::INFINITY, f64::min);
        samples.retain(|sample| off(sample).is_none_or(|off| off <= least));
    }
    samples
}

/// Our bars in the groups of the paper, relative to the first group that is the same; what the paper has not comes
/// behind.
fn with_bars(published: &Published, ours: &Bars) -> Option<Bars> {
    let theirs = alone(published)?;
    let mut groups = theirs.groups;
    // One file for each frame.
    let files = |name: &String| name.strip_suffix(" files")?.parse::<u64>().ok();
    let frames = ours.groups.iter().filter_map(files).max().unwrap_or_default().to_string();
    let wanted: Vec<String> = published.ours.iter().map(|name| name.replace(FRAMES, &frames)).collect();
    for (group, (wanted, name)) in groups.iter_mut().zip(wanted.iter().zip(&published.ours)) {
        if wanted != name && *wanted != *group {
            *group = format!("{group} (ours: {frames})");
        }
    }
    let same = |name: &String| wanted.iter().position(|ours| ours == name);
    let mut series: Vec<BarSeries> = Vec::new();
    for one in &ours.series {
        let named = || ours.groups.iter().zip(&one.values);
        let first = named().find(|(name, _)| same(name) == Some(0))?.1.as_ref()?.value;
        let mut values: Vec<Option<Value>> = vec![None; groups.len()];
        for (name, value) in named() {
            let Some(value) = value else { continue };
            let interval = value.interval.map(|(low, high)| (low / first, high / first));
            let shown = Some(Value { value: value.value / first, interval });
            match same(name).or_else(|| groups.iter().position(|group| group == name)) {
                Some(at) => values[at] = shown,
                None => {
                    groups.push(name.clone());
                    values.push(shown);
                }
            }
        }
        let name = named_ours(&one.name, &ours.axis);
        series.push(BarSeries { name, look: Look::Measured(series.len()), values });
    }
    let begin = series.len();
    let hollow = |(at, one): (usize, BarSeries)| BarSeries { look: Look::Published(begin + at), ..one };
    series.extend(theirs.series.into_iter().enumerate().map(hollow));
    let count = groups.len();
    series.iter_mut().for_each(|series| series.values.resize(count, None));
    Some(Bars { axis: theirs.axis, groups, series })
}
