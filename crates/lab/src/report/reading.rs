//! From samples to points: medians with their intervals, grouped into series by what was set.

use crate::bench::import::ROUND_TRIP;
use crate::bench::record::{PathKind, Quantity, Results, Sample};
use crate::bench::statistics::{CONFIDENCE, Summary};
use crate::bench::timeline::LOOK_EVERY;
use crate::plot::unit::Unit;
use crate::plot::{Axis, BarSeries, Look, Point, Scale, Series, Value, Way};
use std::collections::BTreeMap;

/// What a figure measures of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Payload in a second.
    Rate,
    /// From start to end.
    Time,
    /// CPU of both sides for 10^9 bytes.
    Cpu,
    /// A number of `measured`, by its name.
    Number(&'static str),
    /// The largest of a distribution, by its name.
    Worst(&'static str),
    /// The median of a distribution, by its name.
    Middle(&'static str),
}

impl Measure {
    /// What the axis is called.
    pub fn label(self) -> &'static str {
        match self {
            Measure::Rate => "Throughput",
            Measure::Time => "Time",
            Measure::Cpu => "CPU of both sides",
            Measure::Number(name) => known(name).map_or(name, |known| known.0),
            Measure::Worst(_) => "Longest transfer",
            Measure::Middle(name) => known(name).map_or(name, |known| known.0),
        }
    }

    /// Its unit.
    pub fn unit(self) -> Unit {
        match self {
            Measure::Rate => Unit::BitsPerS,
            Measure::Time | Measure::Worst(_) | Measure::Middle(_) => Unit::Seconds,
            Measure::Cpu => Unit::Other("CPU-s/GB"),
            Measure::Number(name) => known(name).map_or(Unit::Count, |known| known.1),
        }
    }

    /// Of a sample; nothing if it has none.
    pub fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            // One stream of TCP is measured once it runs: its rate is a figure of its own.
            Measure::Rate => match sample.measured.get("rate") {
                Some(rate) => rate.value(),
                None => (sample.bytes > 0 && sample.wall_s > 0.0).then(|| sample.rate_bits_per_s()),
            },
            Measure::Time => (sample.wall_s > 0.0).then_some(sample.wall_s),
            Measure::Cpu => sample.cpu_s_per_gb(),
            Measure::Number(name) => sample.measured.get(name)?.value(),
            Measure::Worst(name) => sample.distributions.get(name)?.values.iter().copied().reduce(f64::max),
            Measure::Middle(name) => Some(Summary::of(&sample.distributions.get(name)?.values)?.median),
        }
    }

    /// What a law says of a sample.
    fn predicted(self, sample: &Sample) -> Option<f64> {
        let name = match self {
            Measure::Rate => "rate",
            Measure::Time => "wall_s",
            Measure::Cpu => return None,
            Measure::Number(name) | Measure::Worst(name) | Measure::Middle(name) => name,
        };
        sample.predicted.get(name)?.value()
    }
}

/// Words and units of parameters and measured numbers that suites have.
fn known(name: &str) -> Option<(&'static str, Unit)> {
    Some(match name {
        "rtt" | ROUND_TRIP => ("Round-trip time", Unit::Seconds),
        "share_of_the_tolerance" => ("Off, as a share of the tolerance", Unit::Share),
        "rate" => ("Rate of the line", Unit::BitsPerS),
        "rate_over_time" => ("Carried by the line", Unit::BitsPerS),
        "cores_over_time" => ("Busy cores of both sides", Unit::Count),
        "loss" => ("Share of packets lost", Unit::Count),
        "file_size" => ("Size of a file", Unit::Bytes),
        "request_size" => ("Size of a request", Unit::Bytes),
        "threads" => ("Threads", Unit::Count),
        "streams" => ("Streams", Unit::Count),
        "concurrency" => ("Files at once", Unit::Count),
        "depth" => ("Depth", Unit::Count),
        "files" => ("Files", Unit::Count),
        "check_rate" => ("Rate of a check", Unit::BitsPerS),
        "last_check" => ("Check of the last file, alone", Unit::Seconds),
        "damaged_share" => ("Damaged chunks", Unit::Share),
        "clients_per_s" => ("Clients in a second", Unit::Count),
        "load" => ("Load of the line", Unit::Share),
        "sent_again_on_the_wire" => ("Sent again, on the wire", Unit::Bytes),
        "speed_score" => ("Streaming speed score", Unit::Times),
        "request_latency" => ("Latency of a request", Unit::Seconds),
        "lag_at_the_end" => ("Behind the writer at the end", Unit::Seconds),
        "transfer_time" => ("Time of a transfer", Unit::Seconds),
        "lag" => ("From written to readable", Unit::Seconds),
        "lag_p99" => ("From written to readable, P99", Unit::Seconds),
        "lag_max" => ("From written to readable, the longest", Unit::Seconds),
        "message_size" => ("Size of a message", Unit::Bytes),
        "period" => ("Time between frames", Unit::Seconds),
        "off_by" => ("Prediction off by, as a share of the time", Unit::Share),
        "taken_each" => ("Time between frames that are taken", Unit::Seconds),
        "stall" => ("How long the consumer stands still", Unit::Seconds),
        "after_last_frame" => ("After the last frame", Unit::Seconds),
        _ => return None,
    })
}

/// An axis for a distribution.
pub fn axis(name: &str) -> Axis {
    Axis::new(&label(name), known(name).map_or(Unit::Count, |known| known.1), Scale::Linear)
}

/// What a parameter is called on an axis.
pub fn label(name: &str) -> String {
    known(name).map_or_else(|| name.replace('_', " "), |known| known.0.to_owned())
}

/// The unit of a parameter: as the files say, and what they leave open (`1`) by its name.
pub fn unit(results: &Results, name: &str) -> Unit {
    let quantity = results.samples.iter().find_map(|sample| sample.parameters.get(name));
    match quantity {
        Some(Quantity::Number { unit, .. }) => match unit.as_str() {
            "s" => Unit::Seconds,
            "B" => Unit::Bytes,
            "bit/s" => Unit::BitsPerS,
            _ => known(name).map_or(Unit::Count, |known| known.1),
        },
        _ => Unit::Count,
    }
}

/// A quantity in words.
pub fn words(results: &Results, name: &str, quantity: &Quantity) -> String {
    match quantity {
        Quantity::Word(word) => word.clone(),
        Quantity::Number { value, .. } => unit(results, name).show(*value),
    }
}

/// A parameter and what it was set to, in words; a word stands for itself.
pub fn set(results: &Results, name: &str, quantity: &Quantity) -> String {
    match quantity {
        Quantity::Word(word) => word.clone(),
        Quantity::Number { .. } => {
            format!("{} {}", label(name).to_lowercase(), words(results, name, quantity))
        }
    }
}

/// A choice of samples: those whose parameters have these values.
pub type Choice = Vec<(String, Quantity)>;

/// Different values of a parameter, numbers rising, words as they came.
pub fn values(samples: &[&Sample], name: &str) -> Vec<Quantity> {
    let mut values: Vec<Quantity> = Vec::new();
    for quantity in samples.iter().filter_map(|sample| sample.parameters.get(name)) {
        if !values.contains(quantity) {
            values.push(quantity.clone());
        }
    }
    values.sort_by(|a, b| match (a.value(), b.value()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => std::cmp::Ordering::Equal,
    });
    values
}

/// Samples that count and that a choice takes.
pub fn chosen<'a>(results: &'a Results, choice: &Choice) -> Vec<&'a Sample> {
    let fits =
        |sample: &&Sample| choice.iter().all(|(name, value)| sample.parameters.get(name) == Some(value));
    results.counting().filter(fits).collect()
}

/// Series over an axis.
pub struct Over {
    pub series: Vec<Series>,
    /// Whether series of a single point are left out, where others have more: they belong to another axis.
    pub is_less: bool,
}

/// One series for each name and each other parameter that varies within it, over the values of `x`: medians, and the
/// laws that the samples carry.
pub fn series(results: &Results, samples: &[&Sample], x: &str, measure: Measure) -> Over {
    let names = Names::new(results, samples, Some(x));
    let mut found: Vec<Found<'_>> = Vec::new();
    for sample in samples {
        let (Some(at), Some(value)) = (sample.parameter(x), measure.of(sample)) else { continue };
        let (name, beside) = (names.of(sample), beside(sample, x));
        let index = found.iter().position(|known| known.name == name).unwrap_or_else(|| {
            found.push(Found { name, beside: Some(beside.clone()), ..Found::default() });
            found.len() - 1
        });
        let one = &mut found[index];
        one.beside.take_if(|known| *known != beside);
        // Parameters are not negative, so that the order of their bits is theirs.
        one.measured.entry(at.to_bits()).or_default().push(value);
        if let Some(law) = measure.predicted(sample) {
            one.predicted.entry(at.to_bits()).or_default().push(law);
        }
    }
    let (mut found, is_less) = lines(found);
    // Samples are taken in turns, so that the order in which they came says nothing.
    found.sort_by(|a, b| natural(&a.name, &b.name));
    let (mut all, mut laws) = (Vec::new(), Vec::new());
    for (index, Found { name, measured, predicted, .. }) in found.into_iter().enumerate() {
        if predicted.len() > 1 {
            let points = law(&points(&predicted), x);
            let name = if name.is_empty() { "law".to_owned() } else { format!("{name}: law") };
            laws.push(Series { name, look: Look::Law(index), way: Way::Line, points });
        }
        let name = if name.is_empty() { measure.label().to_owned() } else { name };
        all.push(Series { name, look: Look::Measured(index), way: Way::Line, points: points(&measured) });
    }
    all.extend(laws);
    Over { series: all, is_less }
}

/// Series of several points, if there are any. A single point belongs to the one of them beside whose axis the same was
/// set, where it has none there: a suite may have measured it for another axis. What belongs to none is left out:
/// whether there is such.
fn lines(found: Vec<Found<'_>>) -> (Vec<Found<'_>>, bool) {
    let (mut lines, single): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.measured.len() > 1);
    if lines.is_empty() {
        return (single, false);
    }
    let mut is_less = false;
    for one in single {
        let is_of = |line: &&mut Found<'_>| {
            let is_alike = line.beside.is_some() && line.beside == one.beside;
            is_alike && !one.measured.keys().any(|at| line.measured.contains_key(at))
        };
        let mut of = lines.iter_mut().filter(is_of);
        match (of.next(), of.next()) {
            (Some(line), None) => {
                line.measured.extend(one.measured);
                line.predicted.extend(one.predicted);
            }
            _ => is_less = true,
        }
    }
    (lines, is_less)
}

/// What was set beside an axis.
fn beside<'a>(sample: &'a Sample, x: &str) -> BTreeMap<&'a str, &'a Quantity> {
    let others = sample.parameters.iter().filter(|(name, _)| *name != x);
    others.map(|(name, quantity)| (name.as_str(), quantity)).collect()
}

/// A law's line through its points. Over the round-trip time it is the window law, a power: straight lines between few
/// points would show too much.
fn law(points: &[Point], x: &str) -> Vec<Point> {
    let mut line: Vec<Point> = points.first().map(|first| Point::new(first.x, first.y)).into_iter().collect();
    for pair in points.windows(2) {
        let (one, two) = (pair[0], pair[1]);
        let is_power = x == "rtt" && one.x > 0.0 && one.y > 0.0 && two.y > 0.0;
        for step in 1..if is_power { 16 } else { 1 } {
            let part = f64::from(step) / 16.0;
            line.push(Point::new(one.x * (two.x / one.x).powf(part), one.y * (two.y / one.y).powf(part)));
        }
        line.push(Point::new(two.x, two.y));
    }
    line
}

/// Values of one series, by the bits of x.
#[derive(Default)]
struct Found<'a> {
    name: String,
    /// What was set beside x, if it is the same in all of it.
    beside: Option<BTreeMap<&'a str, &'a Quantity>>,
    measured: BTreeMap<u64, Vec<f64>>,
    predicted: BTreeMap<u64, Vec<f64>>,
}

/// How series of samples are called: by their own names, and by what else varies and is not said in them.
struct Names<'a> {
    results: &'a Results,
    samples: &'a [&'a Sample],
    axis: Option<&'a str>,
    /// Whether the name of a series tells more than the axis.
    is_named: bool,
}

impl<'a> Names<'a> {
    fn new(results: &'a Results, samples: &'a [&'a Sample], axis: Option<&'a str>) -> Names<'a> {
        let places = |of: &Sample| {
            let same = samples.iter().filter(|other| other.series == of.series).copied();
            values(&same.collect::<Vec<_>>(), axis.unwrap_or_default()).len()
        };
        let is_named = axis.is_none() || samples.iter().any(|sample| places(sample) > 1);
        Names { results, samples, axis, is_named }
    }

    fn of(&self, sample: &Sample) -> String {
        let mut words = Vec::new();
        words.extend(self.is_named.then(|| sample.series.clone()));
        // What follows from the axis (a load from a number of clients) needs no saying.
        let is_alike = |other: &&&Sample| {
            (!self.is_named || other.series == sample.series)
                && self.axis.is_none_or(|axis| other.parameters.get(axis) == sample.parameters.get(axis))
        };
        for (parameter, quantity) in &sample.parameters {
            let is_said = match quantity {
                Quantity::Word(word) => self.is_named && sample.series.contains(word.as_str()),
                Quantity::Number { value, .. } => {
                    self.is_named && sample.series.contains(&format!("{value} {parameter}"))
                }
            };
            let is_axis = self.axis == Some(parameter.as_str());
            let mut others = self.samples.iter().filter(is_alike);
            if is_said || is_axis || !others.any(|other| other.parameters.get(parameter) != Some(quantity)) {
                continue;
            }
            words.push(set(self.results, parameter, quantity));
        }
        words.join(", ")
    }
}

fn points(values: &BTreeMap<u64, Vec<f64>>) -> Vec<Point> {
    let of = |(x, values): (&u64, &Vec<f64>)| {
        let summary = Summary::of(values)?;
        let interval = (summary.count > 1).then_some((summary.interval.low, summary.interval.high));
        Some(Point { x: f64::from_bits(*x), y: summary.median, interval })
    };
    values.iter().filter_map(of).collect()
}

/// The median of these samples with its interval; nothing where none has it.
pub fn middle(samples: &[&Sample], measure: Measure) -> Option<Value> {
    let values: Vec<f64> = samples.iter().filter_map(|sample| measure.of(sample)).collect();
    let summary = Summary::of(&values)?;
    let interval = (summary.count > 1).then_some((summary.interval.low, summary.interval.high));
    Some(Value { value: summary.median, interval })
}

/// One bar for each series in each group that has it.
pub fn bars(
    results: &Results,
    samples: &[&Sample],
    groups: Option<&str>,
    measure: Measure,
) -> (Vec<String>, Vec<BarSeries>) {
    let of = Names::new(results, samples, groups);
    let mut names: Vec<String> = Vec::new();
    let mut found: Vec<(String, BTreeMap<usize, Vec<f64>>)> = Vec::new();
    for sample in samples {
        let Some(value) = measure.of(sample) else { continue };
        let (group, series) = match groups.and_then(|by| Some((by, sample.parameters.get(by)?))) {
            Some((by, quantity)) => (words(results, by, quantity), of.of(sample)),
            None => (of.of(sample), measure.label().to_owned()),
        };
        let at = names.iter().position(|known| *known == group).unwrap_or_else(|| {
            names.push(group);
            names.len() - 1
        });
        match found.iter_mut().find(|(known, _)| *known == series) {
            Some((_, values)) => values.entry(at).or_default().push(value),
            None => found.push((series, BTreeMap::from([(at, vec![value])]))),
        }
    }
    found.sort_by(|(a, _), (b, _)| natural(a, b));
    let bar = |values: &Vec<f64>| {
        let summary = Summary::of(values)?;
        let interval = (summary.count > 1).then_some((summary.interval.low, summary.interval.high));
        Some(Value { value: summary.median, interval })
    };
    // The largest on top.
    let first =
        |at: &usize| found.first().and_then(|(_, values)| bar(values.get(at)?)).map_or(0.0, |bar| bar.value);
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|a, b| first(b).total_cmp(&first(a)));
    let groups = order.iter().map(|at| names[*at].clone()).collect();
    let series = found.into_iter().enumerate().map(|(index, (name, values))| BarSeries {
        name,
        look: Look::Measured(index),
        values: order.iter().map(|at| values.get(at).and_then(bar)).collect(),
    });
    (groups, series.collect())
}

/// All values of a distribution, as shares that were reached: one series for each name.
pub fn shares(results: &Results, samples: &[&Sample], distribution: &str) -> Vec<Series> {
    let names = Names::new(results, samples, None);
    let mut found: Vec<(String, Vec<f64>)> = Vec::new();
    for sample in samples {
        let Some(values) = sample.distributions.get(distribution) else { continue };
        let name = names.of(sample);
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, all)) => all.extend(&values.values),
            None => found.push((name, values.values.clone())),
        }
    }
    found.sort_by(|(a, _), (b, _)| natural(a, b));
    let stairs = |(index, (name, mut values)): (usize, (String, Vec<f64>))| {
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        let shown = (0..values.len()).filter(|at| is_shown(*at, values.len()));
        let points = shown.map(|at| Point::new(values[at], (at + 1) as f64 / count));
        Series { name, look: Look::Measured(index), way: Way::Stairs, points: points.collect() }
    };
    found.into_iter().enumerate().map(stairs).collect()
}

/// Values of a distribution over time, each in the middle of its step; of each name the first run.
pub fn over_time(results: &Results, samples: &[&Sample], distribution: &str) -> Vec<Series> {
    let names = Names::new(results, samples, None);
    let mut found: Vec<(String, Vec<Point>)> = Vec::new();
    for sample in samples {
        let step_s = sample.measured.get(LOOK_EVERY).and_then(Quantity::value);
        let (Some(values), Some(step_s)) = (sample.distributions.get(distribution), step_s) else { continue };
        let name = names.of(sample);
        if found.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let values = values.values.iter().enumerate();
        found
            .push((name, values.map(|(at, value)| Point::new((at as f64 + 0.5) * step_s, *value)).collect()));
    }
    found.sort_by(|(a, _), (b, _)| natural(a, b));
    let line = |(index, (name, points))| Series { name, look: Look::Measured(index), way: Way::Line, points };
    found.into_iter().enumerate().map(line).collect()
}

/// Steps of a distribution that are drawn, beside those of its tail.
const STEPS_MAX: usize = 400;
/// Steps at its end that are all drawn.
const STEPS_OF_TAIL: usize = 100;

/// Whether a step is drawn: of thousands nobody sees each, but the tail counts.
fn is_shown(at: usize, count: usize) -> bool {
    let step = |at: usize| at * STEPS_MAX / count;
    count <= STEPS_MAX + STEPS_OF_TAIL || at == 0 || at + STEPS_OF_TAIL >= count || step(at) != step(at - 1)
}

/// Samples of each case, in the order of series and parameters.
pub fn cases(results: &Results) -> Vec<Vec<&Sample>> {
    let mut cases = results.cases();
    cases.sort_by(|a, b| natural(&a[0].series, &b[0].series).then_with(|| by_parameters(a[0], b[0])));
    cases
}

/// In the order of what was set, the smallest first.
pub fn by_parameters(a: &Sample, b: &Sample) -> std::cmp::Ordering {
    let pairs = a.parameters.values().zip(b.parameters.values());
    let mut orders = pairs.map(|pair| match pair {
        (Quantity::Word(a), Quantity::Word(b)) => natural(a, b),
        (a, b) => a.value().unwrap_or(0.0).total_cmp(&b.value().unwrap_or(0.0)),
    });
    orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
}

/// As people sort names: numbers in them by their values.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    let parts = |text: &str| {
        let mut parts: Vec<(String, f64)> = Vec::new();
        for word in text.split([' ', ',', '-']) {
            parts
                .push(word.parse().map_or_else(|_| (word.to_owned(), 0.0), |number| (String::new(), number)));
        }
        parts
    };
    let (a, b) = (parts(a), parts(b));
    let pairs = a.iter().zip(&b).map(|(a, b)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    pairs.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// The rate of the line, if the path has one.
pub fn line_bits_per_s(results: &Results) -> Option<f64> {
    match results.about.path {
        PathKind::Testbed { rate_bits_per_s, .. } => rate_bits_per_s.map(|rate| rate as f64),
        _ => None,
    }
}

/// What intervals are, in words: how sure the least sure of them is.
pub fn intervals(results: &Results, measure: Measure) -> String {
    let summaries = results.counting_cases().into_iter().filter_map(|case| {
        let values: Vec<f64> = case.into_iter().filter_map(|sample| measure.of(sample)).collect();
        Summary::of(&values)
    });
    let (single, several): (Vec<Summary>, Vec<Summary>) = summaries.partition(|summary| summary.count < 2);
    let least =
        several.into_iter().reduce(|a, b| if b.interval.confidence < a.interval.confidence { b } else { a });
    let words = match least {
        None if single.is_empty() => return String::new(),
        None => return "Points are single runs.".to_owned(),
        Some(few) if few.interval.confidence < CONFIDENCE => format!(
            "Points are medians of {} runs or more; bars reach from the smallest to the largest: a confidence interval of \
             {:.0} %.",
            few.count,
            few.interval.confidence * 100.0
        ),
        Some(_) => "Points are medians; bars are their confidence intervals of 95 %.".to_owned(),
    };
    match single.is_empty() {
        true => words,
        false => format!("{words} What has no bar is a single run."),
    }
}
