//! The figures of a result: by the rows of its suite, beside what the papers published.

use super::files_fit::FilesFit;
use super::paper_comparison::beside;
use super::papers;
use super::reading::{self, Choice, Measure, Over};
use super::suite::{Hold, Kind, PLANS, Plan};
use crate::bench::import::ROUND_TRIP;
use crate::bench::record::{PathKind, Quantity, Results, Sample};
use crate::bench::statistics::Summary;
use crate::bench::suite::{path, storage};
use crate::plot::palette::SERIES;
use crate::plot::unit::Unit;
use crate::plot::{
    Across, Axis, Bars, Body, Cells, Curves, Figure, Limit, Look, Point, Scale, Series, Value, Way,
};
use std::collections::BTreeMap;

/// Names of what is left out of a figure that it tells at most.
const NAMED_MAX: usize = 8;

/// Levels of another program that a figure shows at most: words stand beside each.
const LEVELS_MAX: usize = 4;

/// The parameter of distances.
const RTT: &str = "rtt";

/// The largest over the smallest of a figure from which on the axis of what was measured is logarithmic.
const LOG_FROM: f64 = 30.0;

/// A figure of ours, and what of its suite was chosen for it, in words.
pub struct Made {
    pub figure: Figure,
    pub chosen: Vec<String>,
}

/// All figures of a result, `foreign` ones (of other programs) in the same plots. A suite that is not known here gets
/// one all the same.
pub fn figures(results: &Results, foreign: &[&Results]) -> Vec<Figure> {
    let suite = results.about.suite.as_str();
    // What others measured over a network says nothing about disks, and of a disk nothing about networks.
    let is_of_disk = |other: &Results| other.about.suite == storage::SUITE.name;
    let foreign = foreign.iter().copied().filter(|other| match results.about.path {
        PathKind::Loopback | PathKind::Testbed { .. } => !is_of_disk(other),
        PathKind::Disk => is_of_disk(other) && suite == storage::SUITE.name,
        PathKind::Simulated | PathKind::Foreign { .. } => false,
    });
    let foreign: Vec<&Results> = foreign.collect();
    let mut figures: Vec<Figure> = Vec::new();
    for plan in PLANS.iter().filter(|plan| plan.suite == suite) {
        figures.extend(of_plan(plan, results, &foreign).into_iter().map(|made| made.figure));
    }
    if figures.is_empty() {
        figures.extend(of_any(results));
    }
    // What other programs measured was not on our line, and beside a paper stands only what is ours.
    let first = PLANS.iter().find(|plan| plan.suite == suite && !results.is_foreign());
    let ours = first.and_then(|plan| of_plan(plan, results, &[]).into_iter().next());
    if let Some(ours) = ours {
        figures.extend(papers::of(suite).filter_map(|published| beside(published, results, &ours)));
    }
    figures
}

fn of_plan(plan: &Plan, results: &Results, foreign: &[&Results]) -> Vec<Made> {
    choices(results, plan.apart)
        .into_iter()
        .filter_map(|choice| {
            let mut samples = reading::chosen(results, &choice);
            // How ours were measured says nothing of another program.
            let note = Some(plan.note).filter(|note| !note.is_empty() && !results.is_foreign());
            let mut notes: Vec<String> = note.map(str::to_owned).into_iter().collect();
            // Distances and loads of others are told beside theirs.
            let is_word = |(_, value): &&(String, Quantity)| value.word().is_some();
            let mut shared: Choice = choice.iter().filter(is_word).cloned().collect();
            for (name, hold) in plan.held {
                let values = reading::values(&samples, name);
                shared.extend(kept(&values, *hold).map(|kept| ((*name).to_owned(), kept.clone())));
                if let (Some(kept), true) = (kept(&values, *hold), values.len() > 1) {
                    samples.retain(|sample| sample.parameters.get(*name) == Some(kept));
                    let shown = reading::words(results, name, kept);
                    notes.push(format!("{}: {shown}; the table has the others.", reading::label(name)));
                }
            }
            let others = others(foreign, &shared, &mut notes);
            let (body, measure) = body(&plan.kind, results, &samples, &others, &mut notes)?;
            notes.extend(measure.map(|measure| reading::intervals(results, measure)));
            let words: Vec<String> =
                choice.iter().map(|(name, value)| reading::words(results, name, value)).collect();
            let body = without(body, &words);
            let mut title = plan.title.to_owned();
            if !words.is_empty() {
                title = format!("{title}: {}", words.join(", "));
            }
            if !plan.after.is_empty() {
                title = format!("{title} (after {})", plan.after);
            }
            let name = [plan.suite, plan.name].into_iter().map(str::to_owned).chain(words);
            let name = slug(&name.collect::<Vec<_>>().join("-"));
            let chosen = choice.iter().map(|(name, value)| reading::set(results, name, value)).collect();
            let figure = Figure { name, title, facts: facts(results, &samples), notes, body };
            Some(Made { figure, chosen })
        })
        .collect()
}

/// What others measured where the same was chosen, as far as they say; what they did at another place is told to be
/// left out.
fn others<'a>(foreign: &[&'a Results], shared: &Choice, notes: &mut Vec<String>) -> Vec<Other<'a>> {
    let is_elsewhere = |sample: &&Sample| {
        shared.iter().any(|(name, value)| sample.parameters.get(name).is_some_and(|of| of != value))
    };
    let mut others = Vec::new();
    for results in foreign.iter().copied() {
        let (elsewhere, samples): (Samples<'_>, Samples<'_>) = results.counting().partition(is_elsewhere);
        if !elsewhere.is_empty() {
            let program = &results.about.program;
            notes.push(format!("What {program} measured in another way is left out; its own table has it."));
        }
        others.push((results, samples));
    }
    others
}

/// The value that is shown, of values that rise.
fn kept(values: &[Quantity], hold: Hold) -> Option<&Quantity> {
    match hold {
        Hold::Smallest => values.first(),
        Hold::Largest => values.last(),
        Hold::AtMost(most) => {
            let fits = |value: &&Quantity| value.value().is_some_and(|value| value <= most);
            values.iter().rev().find(fits).or(values.first())
        }
    }
}

/// What the title says need not stand in the legend.
fn without(mut body: Body, words: &[String]) -> Body {
    if let Body::Curves(curves) = &mut body {
        for series in &mut curves.series {
            let parts = series.name.split(", ").filter(|part| !words.iter().any(|word| word == part));
            let name = parts.collect::<Vec<_>>().join(", ");
            if !name.is_empty() {
                series.name = name;
            }
        }
    }
    body
}

/// Every combination of the values of these parameters that was measured.
fn choices(results: &Results, apart: &[&str]) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    for sample in results.counting() {
        let of = |name: &&str| Some(((*name).to_owned(), sample.parameters.get(*name)?.clone()));
        let choice: Choice = apart.iter().filter_map(of).collect();
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    choices
}

pub type Samples<'a> = Vec<&'a Sample>;

/// A result of another program, and those of its samples that are shown.
type Other<'a> = (&'a Results, Samples<'a>);

fn body(
    kind: &Kind,
    results: &Results,
    samples: &Samples<'_>,
    others: &[Other<'_>],
    notes: &mut Vec<String>,
) -> Option<(Body, Option<Measure>)> {
    match *kind {
        Kind::Over { x, scale, measure } => {
            let curves = over(results, samples, others, (x, scale), measure, notes)?;
            Some((Body::Curves(curves), Some(measure)))
        }
        Kind::Bars { groups, measure } => {
            let (groups, series) = reading::bars(results, samples, groups, measure);
            let series = first(series, |series| &series.name, notes);
            let values = series.iter().flat_map(|series| series.values.iter().flatten());
            let scale = scale_of(measure, values.map(|value| (value.value, value.interval)));
            let axis = Axis::new(measure.label(), measure.unit(), scale);
            if scale.is_logarithmic() {
                notes.push("The axis is logarithmic: dots stand instead of bars.".to_owned());
            }
            (!groups.is_empty()).then_some((Body::Bars(Bars { axis, groups, series }), Some(measure)))
        }
        Kind::Cells { rows, columns, measure } => cells(results, samples, rows, columns, measure),
        Kind::Shares { distribution } => {
            shares(results, samples, distribution, notes).map(|curves| (Body::Curves(curves), None))
        }
        Kind::OverTime { distribution } => {
            let series = told_apart(reading::over_time(results, samples, distribution), notes);
            if series.is_empty() {
                return None;
            }
            let x = Axis::new("Time since the start", Unit::Seconds, Scale::Linear);
            let y = reading::axis(distribution);
            Some((Body::Curves(Curves { x, y, series, limits: Vec::new(), remarks: Vec::new() }), None))
        }
        Kind::Fit => fitted(results, notes).map(|body| (body, None)),
    }
}

/// Ours and those of other programs over the values of a parameter, with what they are to be held against.
fn over(
    results: &Results,
    samples: &Samples<'_>,
    others: &[Other<'_>],
    (x, scale): (&str, Scale),
    measure: Measure,
    notes: &mut Vec<String>,
) -> Option<Curves> {
    let Over { mut series, mut is_less } = reading::series(results, samples, x, measure);
    let mut limits = Vec::new();
    for (other, theirs) in others {
        let (over, alone): (Samples<'_>, Samples<'_>) =
            theirs.iter().copied().partition(|sample| sample.parameter(x).is_some());
        let more = reading::series(other, &over, x, measure);
        is_less |= more.is_less;
        series.extend(more.series.into_iter().map(|series| {
            let name = format!("{}: {}", other.about.program, series.name);
            Series { name, ..series }
        }));
        limits.extend(levels(other, &alone, measure, notes));
        if x == RTT {
            limits.extend(distances(other, theirs, notes));
        }
    }
    if is_less {
        notes.push(
            "What was measured at one place of this axis only is left out; the table has it.".to_owned(),
        );
    }
    renumber(&mut series);
    let series = told_apart(series, notes);
    if series.is_empty() {
        return None;
    }
    if measure == Measure::Rate
        && let Some(line) = reading::line_bits_per_s(results)
    {
        limits.push(Limit {
            across: Across::Level,
            at: line,
            label: format!("line: {}", Unit::BitsPerS.show(line)),
        });
    }
    limits.extend(ideal(samples, measure));
    if measure == Measure::Number(path::OFF) {
        let label = "what it may be off by".to_owned();
        limits.push(Limit { across: Across::Level, at: 1.0, label });
    }
    let measured = series.iter().filter(|series| matches!(series.look, Look::Measured(_)));
    let points = measured.flat_map(|series| &series.points).map(|point| (point.y, point.interval));
    let y_scale = scale_of(measure, points);
    let y = Axis::new(measure.label(), measure.unit(), y_scale);
    let x = Axis::new(&reading::label(x), reading::unit(results, x), scale);
    Some(Curves { x, y, series, limits, remarks: Vec::new() })
}

/// Which share of a distribution's values took no longer than each of them.
fn shares(
    results: &Results,
    samples: &Samples<'_>,
    distribution: &str,
    notes: &mut Vec<String>,
) -> Option<Curves> {
    let series = told_apart(reading::shares(results, samples, distribution), notes);
    if series.is_empty() {
        return None;
    }
    let level = |at: f64, label: &str| Limit { across: Across::Level, at, label: label.to_owned() };
    let x = Axis::new(&reading::label(distribution), Unit::Seconds, Scale::Log10);
    let y = Axis::new("Share that took no longer", Unit::Share, Scale::Linear);
    let limits = vec![level(0.9, "P90"), level(0.99, "P99")];
    notes.push("All values of all runs. The right end of a line is its largest.".to_owned());
    Some(Curves { x, y, series, limits, remarks: Vec::new() })
}

/// So many series as can be told apart, with their laws.
fn told_apart(series: Vec<Series>, notes: &mut Vec<String>) -> Vec<Series> {
    let (measured, laws): (Vec<Series>, Vec<Series>) =
        series.into_iter().partition(|series| matches!(series.look, Look::Measured(_)));
    let mut shown = first(measured, |series| &series.name, notes);
    shown.extend(laws.into_iter().filter(|law| law.look.index() < SERIES));
    shown
}

/// The first series, as many as can be told apart; the names of the others stand below.
fn first<T>(mut series: Vec<T>, name: fn(&T) -> &str, notes: &mut Vec<String>) -> Vec<T> {
    let count = series.len();
    let others = series.split_off(count.min(SERIES));
    if !others.is_empty() {
        let mut names: Vec<String> = others.iter().take(NAMED_MAX).map(|one| name(one).to_owned()).collect();
        names.extend((others.len() > NAMED_MAX).then(|| format!("and {} more", others.len() - NAMED_MAX)));
        let names = names.join("; ");
        notes.push(format!("{SERIES} of {count} series are drawn; the table has the others: {names}."));
    }
    series
}

/// Equal factors where figures, with their intervals, span so many that the smaller ones would lie on the axis. Of a
/// share it counts how near it is to the whole.
fn scale_of(measure: Measure, measured: impl Iterator<Item = (f64, Option<(f64, f64)>)>) -> Scale {
    let values = measured.flat_map(|(value, interval)| {
        let (low, high) = interval.unwrap_or((value, value));
        [low, value, high]
    });
    let (least, most) =
        values.fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
    match measure.unit() != Unit::Share && least > 0.0 && most / least >= LOG_FROM {
        true => Scale::Log10,
        false => Scale::Linear,
    }
}

/// Each series in its own look; a law in that of the series that it is of.
fn renumber(series: &mut [Series]) {
    let mut next = 0;
    for series in series {
        if let Look::Measured(_) = series.look {
            series.look = Look::Measured(next);
            next += 1;
        }
    }
}

/// What a transfer would take alone, where samples say so.
fn ideal(samples: &Samples<'_>, measure: Measure) -> Option<Limit> {
    let at = samples.iter().find_map(|sample| sample.predicted.get("ideal")?.value())?;
    let label = format!("ideal: {}", Unit::Seconds.show(at));
    matches!(measure, Measure::Worst(_)).then_some(Limit { across: Across::Level, at, label })
}

/// What others measured at no place of the axis: a level for each way in which they did, the largest first.
fn levels(other: &Results, samples: &Samples<'_>, measure: Measure, notes: &mut Vec<String>) -> Vec<Limit> {
    let program = &other.about.program;
    let (ways, series) = reading::bars(other, samples, None, measure);
    if ways.len() > LEVELS_MAX {
        let count = ways.len();
        notes.push(format!(
            "{LEVELS_MAX} of {count} levels of {program} are drawn; its own table has the others."
        ));
    }
    let values = series.into_iter().flat_map(|series| series.values).take(LEVELS_MAX);
    let level = |(way, value): (&String, Option<Value>)| {
        let at = value?.value;
        let shown = measure.unit().show(at);
        let label = match ways.len() {
            1 => format!("{program}: {shown}"),
            _ => format!("{program}: {shown}, {way}"),
        };
        Some(Limit { across: Across::Level, at, label })
    };
    ways.iter().zip(values).filter_map(level).collect()
}

/// Where on the axis of distances paths lie over which others saw round trips and moved nothing, the nearest first.
fn distances(other: &Results, samples: &Samples<'_>, notes: &mut Vec<String>) -> Vec<Limit> {
    let program = &other.about.program;
    let place = |sample: &&Sample| {
        let host = sample.parameters.get("host").and_then(Quantity::word).unwrap_or("a host");
        Some((sample.parameter(RTT)?, host.to_owned()))
    };
    let mut places: Vec<(f64, String)> =
        samples.iter().filter(|sample| sample.bytes == 0).filter_map(place).collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    places.dedup();
    if places.len() > LEVELS_MAX {
        let count = places.len();
        notes.push(format!(
            "{LEVELS_MAX} of {count} distances of {program} are drawn; its own table has the others."
        ));
    }
    let upright = |(at, host): (f64, String)| {
        let label = format!("{program} to {host}: {}", Unit::Seconds.show(at));
        Limit { across: Across::Upright, at, label }
    };
    places.into_iter().take(LEVELS_MAX).map(upright).collect()
}

fn cells(
    results: &Results,
    samples: &Samples<'_>,
    rows: &str,
    columns: &str,
    measure: Measure,
) -> Option<(Body, Option<Measure>)> {
    let (row_values, column_values) = (reading::values(samples, rows), reading::values(samples, columns));
    if row_values.len() < 2 || column_values.len() < 2 {
        return None;
    }
    // What else varies is held at its smallest.
    let cell = |row, column| {
        let fits = |sample: &&&Sample| {
            sample.parameters.get(rows) == Some(row) && sample.parameters.get(columns) == Some(column)
        };
        let smallest = samples.iter().filter(fits).min_by(|a, b| reading::by_parameters(a, b))?;
        let alike = samples
            .iter()
            .filter(|sample| sample.series == smallest.series && sample.parameters == smallest.parameters);
        let values: Vec<f64> = alike.filter_map(|sample| measure.of(sample)).collect();
        Some(Summary::of(&values)?.median)
    };
    let names = |name: &str, values: &[Quantity]| {
        values.iter().map(|value| reading::words(results, name, value)).collect::<Vec<_>>()
    };
    let values = row_values.iter().map(|row| column_values.iter().map(|column| cell(row, column)).collect());
    let body = Body::Cells(Cells {
        row_title: reading::label(rows),
        rows: names(rows, &row_values),
        column_title: reading::label(columns),
        columns: names(columns, &column_values),
        label: measure.label().to_owned(),
        unit: measure.unit(),
        values: values.collect(),
    });
    Some((body, None))
}

/// 001 Fig 9: what was measured, used for the fit or predicted by it, and the curve; of several numbers of files at
/// once each with its own. Of the sizes the largest is drawn.
fn fitted(results: &Results, notes: &mut Vec<String>) -> Option<Body> {
    let all = FilesFit::all(results);
    let (mut series, mut laws, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    for fitted in &all {
        let of_it = if all.len() > 1 { format!("{} at once: ", fitted.at_once()) } else { String::new() };
        let fit = &fitted.fit;
        let (bytes, end) = (fit.bytes.1, fit.files.1);
        let first = fitted.rates[0].0;
        let curve = (0..=64).filter_map(|step| {
            let files = first * (end / first).powf(f64::from(step) / 64.0);
            Some(Point::new(files, bytes * 8.0 / fit.predict(bytes, files).ok()?.time_s))
        });
        let of = |uses: &[bool]| {
            let kept = fitted.rates.iter().filter(|(.., used)| uses.contains(used));
            kept.map(|(files, rate, _)| Point::new(*files, *rate)).collect::<Vec<_>>()
        };
        notes.extend(fitted.error_words().map(|words| format!("{of_it}{words}.")));
        notes.extend(fitted.best_words().map(|words| format!("{of_it}Number of files: {words}.")));
        notes.push(format!("{of_it}Condition of Eq 6: {}.", fitted.condition_words()));
        let label = |best: f64| format!("{of_it}N* = {best:.0}");
        let upright = |best: f64| Limit { across: Across::Upright, at: best, label: label(best) };
        limits.extend(fitted.best.map(upright));
        let index = series.len();
        let mut dots = |name: &str, points: Vec<Point>| {
            let look = Look::Measured(series.len());
            series.push(Series { name: format!("{of_it}{name}"), look, way: Way::Dots, points });
        };
        // Of several the notes say which were used.
        match all.len() {
            1 => {
                dots("measured, used for the fit", of(&[true]));
                dots("measured, predicted", of(&[false]));
            }
            _ => dots("measured", of(&[true, false])),
        }
        let (name, points) = (format!("{of_it}001 Eq 6"), curve.collect());
        laws.push(Series { name, look: Look::Law(index), way: Way::Line, points });
    }
    if series.is_empty() {
        return None;
    }
    series.extend(laws);
    let x = Axis::new("Files", Unit::Count, Scale::Log2);
    let y = Axis::new("Throughput", Unit::BitsPerS, Scale::Linear);
    Some(Body::Curves(Curves { x, y, series, limits, remarks: Vec::new() }))
}

/// A figure of a suite that has no plan: over the parameter that varies most, or bars.
fn of_any(results: &Results) -> Option<Figure> {
    let samples: Samples<'_> = results.counting().collect();
    if samples.iter().all(|sample| Measure::Rate.of(sample).is_none()) {
        return of_round_trips(results, &samples);
    }
    let mut names: Vec<&String> = samples.iter().flat_map(|sample| sample.parameters.keys()).collect();
    names.sort();
    names.dedup();
    let numbers = |name: &&String| {
        reading::values(&samples, name).iter().filter(|value| value.value().is_some()).count()
    };
    let x = names.into_iter().filter(|name| numbers(name) > 1).max_by_key(|name| numbers(name));
    let axis = || Axis::new(Measure::Rate.label(), Measure::Rate.unit(), Scale::Linear);
    let mut notes = Vec::new();
    let body = match x {
        Some(x) => {
            let series = told_apart(reading::series(results, &samples, x, Measure::Rate).series, &mut notes);
            if series.is_empty() {
                return None;
            }
            let x = Axis::new(&reading::label(x), reading::unit(results, x), Scale::Steps);
            Body::Curves(Curves { x, y: axis(), series, limits: Vec::new(), remarks: Vec::new() })
        }
        None => {
            let (groups, series) = reading::bars(results, &samples, None, Measure::Rate);
            let series = first(series, |series| &series.name, &mut notes);
            if groups.is_empty() {
                return None;
            }
            Body::Bars(Bars { axis: axis(), groups, series })
        }
    };
    notes.push(reading::intervals(results, Measure::Rate));
    Some(Figure {
        name: slug(&format!("{}-rate", results.about.suite)),
        title: format!("{}: throughput", results.about.suite),
        facts: facts(results, &samples),
        notes,
        body,
    })
}

/// Of who measured no rate: which share of round trips took no longer than each of them.
fn of_round_trips(results: &Results, samples: &Samples<'_>) -> Option<Figure> {
    let mut notes = Vec::new();
    let curves = shares(results, samples, ROUND_TRIP, &mut notes)?;
    let suite = &results.about.suite;
    Some(Figure {
        name: slug(&format!("{suite}-round-trips")),
        title: format!("{suite}: round trips"),
        facts: facts(results, samples),
        notes,
        body: Body::Curves(curves),
    })
}

/// Date, whose measurements these are if not ours, path of the samples that are shown, iterations, encryption,
/// verification; what the path cost by itself.
pub fn facts(results: &Results, shown: &Samples<'_>) -> Vec<String> {
    let about = &results.about;
    let date = about.date.split('T').next().unwrap_or_default().to_owned();
    let counted = results.counted();
    let mut facts = vec![date];
    facts.extend(results.is_foreign().then(|| about.program.clone()));
    facts.push(results.path_of(shown));
    facts.push(format!("{counted} {}", if counted == "1" { "iteration" } else { "iterations" }));
    facts.extend(fewer_runs(results, shown));
    facts.extend(about.protection());
    // What is taken through an emulated path is taken on the same cores.
    let cost = results.path_cpu_s_per_gb();
    facts.extend(cost.map(|cost| format!("the path itself took {}", Measure::Cpu.unit().show(cost))));
    let all = results.samples.len();
    let void = results.void();
    facts.extend(void.map(|void| format!("{void} and not shown: the machine was too slow for the path")));
    let wrong = results.samples.iter().filter(|sample| sample.is_wrong()).count();
    if wrong > 0 {
        facts.push(format!(
            "{wrong} of {all} samples FAILED and are not shown: not each frame was accounted for"
        ));
    }
    facts
}

/// How many runs are in a point of a result that is whole, where some have fewer than were to be.
fn fewer_runs(results: &Results, shown: &Samples<'_>) -> Option<String> {
    let wanted = results.about.iterations as usize;
    if results.is_foreign() || results.counted() != wanted.to_string() {
        return None;
    }
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for sample in shown.iter().filter(|sample| sample.counts()) {
        *runs.entry(format!("{} {:?}", sample.series, sample.parameters)).or_default() += 1;
    }
    let (fewest, most) = (runs.values().copied().min()?, runs.values().copied().max()?);
    (fewest < wanted).then(|| match fewest == most {
        true => format!("{fewest} of them in each point"),
        false => format!("{fewest} to {most} of them in a point"),
    })
}

/// Letters, digits and `-`.
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for letter in text.chars() {
        match letter.is_ascii_alphanumeric() {
            true => slug.push(letter.to_ascii_lowercase()),
            false if !slug.ends_with('-') => slug.push('-'),
            false => {}
        }
    }
    slug.trim_matches('-').to_owned()
}
