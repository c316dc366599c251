//! The report: one HTML page that takes nothing from elsewhere, has light and dark, fits a telephone and paper, and
//! needs no script.

use super::Section;
use super::reading::{self, Measure};
use crate::bench::record::{Quantity, Results, Sample, counting};
use crate::bench::statistics::Summary;
use crate::bench::table::{self, StorageRule};
use crate::plot::draw::draw;
use crate::plot::palette::{DARK, LIGHT, stylesheet};
use crate::plot::text::font_face;
use crate::plot::unit::{Unit, number};
use crate::plot::{Figure, csv, inert};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use thalweg_mover::failure::counted;

const STYLE: &str = include_str!("page.css");

/// Widths of a figure in pixels: for a page of full width, and for a telephone of 360 pixels.
const WIDE: f64 = 840.0;
const NARROW: f64 = 318.0;

/// Raw figures of so many samples are shown at most; the result file has all.
const RAW_MAX: usize = 2_000;

/// A table of more cases is folded.
const CASES_OPEN: usize = 40;

/// One page about these results. `title` stands over it.
pub fn html(title: &str, results: &[Results]) -> String {
    let sections = super::sections(results);
    inert(&page(title, &sections).into_string())
}

fn page(title: &str, sections: &[Section<'_>]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                // An icon of its own, so that no browser asks a server for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(style())) }
            }
            body {
                header {
                    h1 { (title) }
                    @if sections.len() > 1 { (contents(sections)) }
                }
                main {
                    @for (at, section) in sections.iter().enumerate() { (self::section(section, at + 1)) }
                }
                footer {
                    "Made by " code { "thalweg report" } " from result files; it takes nothing from elsewhere. Sizes are in binary \
                     units (1 KiB = 1024 B), rates in decimal bits a second."
                }
            }
        }
    }
}

fn style() -> String {
    let figures = stylesheet(&LIGHT, "figure ");
    // On paper figures are dark on white, whatever the screen is.
    let dark =
        format!("@media screen and (prefers-color-scheme: dark) {{\n{}}}\n", stylesheet(&DARK, "figure "));
    [font_face().as_str(), STYLE, figures.as_str(), dark.as_str()].concat()
}

fn contents(sections: &[Section<'_>]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ul {
                @for (at, section) in sections.iter().enumerate() {
                    li { a href=(format!("#result-{}", at + 1)) { (section.results.about.suite) } }
                }
            }
        }
    }
}

fn section(section: &Section<'_>, number: usize) -> Markup {
    let results = section.results;
    html! {
        section aria-labelledby=(format!("result-{number}")) {
            h2 id=(format!("result-{number}")) { (results.about.suite) }
            p { (super::sentence(&results.about.question)) }
            (about(results))
            @for figure in &section.figures { (self::figure(figure, number)) }
            (storage_rules(results))
            (medians(results))
            (left_out(results))
            (raw(results))
        }
    }
}

/// Drawn twice, so that words are readable on a telephone as well; only one of them is shown.
fn figure(figure: &Figure, number: usize) -> Markup {
    let drawn = |class: &str, width: f64| {
        let drawing = draw(figure, width, &format!("r{number}-{}-{class}", figure.name));
        html! { div class=(class) { (drawing.svg) } }
    };
    html! {
        figure id=(format!("r{number}-{}", figure.name)) {
            (drawn("wide", WIDE))
            (drawn("narrow", NARROW))
            details {
                summary { "Data of this figure (CSV)" }
                pre tabindex="0" { (csv(figure)) }
            }
        }
    }
}

fn about(results: &Results) -> Markup {
    let about = &results.about;
    let machine = &about.machine;
    // Of a foreign result little is known.
    let is_known = machine.cores > 0;
    let memory = Unit::Bytes.show(machine.memory_bytes as f64);
    let mut host = vec![machine.cpu.clone()];
    host.extend(is_known.then(|| counted(u64::from(machine.cores), "core", "cores")));
    host.extend((machine.memory_bytes > 0).then(|| format!("{memory} of memory")));
    host.extend(machine.hypervisor.as_ref().map(|name| format!("a guest of {name}")));
    host.push(machine.kernel.clone());
    host.push(machine.file_system.clone());
    host.extend(is_known.then(|| format!("load {} before", number(machine.load))));
    let host: Vec<String> = host.into_iter().filter(|word| !word.is_empty()).collect();
    let rows = [
        ("Date", about.date.clone()),
        ("Path", results.path_of(&results.samples.iter().collect::<Vec<_>>())),
        ("Iterations", results.counted()),
        ("Encryption", about.encryption.clone()),
        ("Verification", about.verification.clone()),
        ("Program", about.built()),
        ("Machine", host.join(", ")),
    ];
    html! {
        dl {
            @for (what, is) in rows.iter().filter(|(_, is)| !is.is_empty()) {
                dt { (what) }
                dd { (is) }
            }
            @for (what, is) in &about.more {
                dt { (what) }
                dd { (is) }
            }
            @for change in &about.scaling.changes {
                dt { "Scaled: " (change.what) }
                dd { (change.from) " → " (change.to) }
            }
        }
        @if !about.command.is_empty() {
            p { "Repeat it:" }
            pre tabindex="0" { code { (about.command) } }
        }
    }
}

/// Which ways of asking a disk hold the storage rule, where a rate was asked for.
fn storage_rules(results: &Results) -> Markup {
    let of = |rule: &StorageRule<'_>| {
        let target = Unit::BitsPerS.show(rule.target_bits_per_s);
        let (hold, ways) = (rule.hold.len(), rule.ways);
        format!(
            "Storage rule (000 section III-D), {}: {hold} of {ways} ways past the page cache have {target} and answer in \
             time.",
            rule.direction
        )
    };
    html! {
        @for rule in &table::storage_rules(results) {
            p { (of(rule)) }
            @if !rule.hold.is_empty() {
                details {
                    summary { "Ways that hold it, " (rule.direction) }
                    ul { @for way in &rule.hold { li { (table::parameters(way)) } } }
                }
            }
        }
    }
}

/// What a column of the table of medians shows.
struct Column {
    name: String,
    measure: Measure,
}

/// Columns that at least one sample has.
fn columns(results: &Results) -> Vec<Column> {
    let all = [("Rate", Measure::Rate), ("Time", Measure::Time), ("CPU", Measure::Cpu)];
    let has = |measure: &Measure| results.samples.iter().any(|sample| measure.of(sample).is_some());
    all.into_iter()
        .filter(|(_, measure)| has(measure))
        .map(|(name, measure)| Column { name: name.to_owned(), measure })
        .collect()
}

/// Parameters that tell samples apart and are not told by the names of their series, in the order of their names.
fn parameters(results: &Results) -> Vec<&String> {
    let mut names: Vec<&String> =
        results.samples.iter().flat_map(|sample| sample.parameters.keys()).collect();
    names.sort();
    names.dedup();
    let first = results.samples.first();
    names.retain(|name| {
        let differs = |sample: &Sample| {
            let quantity = sample.parameters.get(*name);
            let is_said =
                matches!(quantity, Some(Quantity::Word(word)) if sample.series.contains(word.as_str()));
            !is_said && quantity != first.and_then(|first| first.parameters.get(*name))
        };
        results.samples.iter().any(differs)
    });
    names
}

fn medians(results: &Results) -> Markup {
    let (columns, parameters) = (columns(results), parameters(results));
    let of = |case: &[&Sample], measure: Measure| {
        let values: Vec<f64> = counting(case).into_iter().filter_map(|sample| measure.of(sample)).collect();
        Summary::of(&values)
    };
    let row = |case: &[&Sample]| {
        html! {
            th scope="row" { (case[0].series) }
            (quantities(results, &parameters, case[0]))
            td { (runs(case)) }
            @for column in &columns { (figures(of(case, column.measure), column.measure.unit())) }
        }
    };
    let cases = reading::cases(results);
    let table = table(
        &sure(results),
        html! {
            tr {
                th scope="col" class="word" { "Series" }
                @for name in &parameters { th scope="col" { (reading::label(name)) } }
                th scope="col" { "Runs" }
                @for column in &columns {
                    th scope="col" { (column.name) ", median" }
                    th scope="col" { "interval" }
                    th scope="col" { "mean ± st. dev." }
                }
            }
        },
        html! { @for case in &cases { tr { (row(case)) } } },
    );
    html! {
        h3 { "Medians" }
        @if cases.len() > CASES_OPEN {
            details class="cases" { summary { (cases.len()) " cases" } (table) }
        } @else {
            (table)
        }
    }
}

/// How many runs there were, and of how many the figures do not count.
fn runs(case: &[&Sample]) -> String {
    let void = case.iter().filter(|sample| sample.is_void()).count();
    let wrong = case.iter().filter(|sample| sample.is_wrong()).count();
    let not_counted = [(void, "VOID"), (wrong, "FAILED")].into_iter().filter(|(count, _)| *count > 0);
    let not_counted = not_counted.map(|(count, word)| format!(", {count} {word}"));
    format!("{}{}", case.len(), not_counted.collect::<String>())
}

/// What the intervals are.
fn sure(results: &Results) -> String {
    let counts: Vec<usize> = results.cases().iter().map(|case| counting(case).len()).collect();
    // A single run has none.
    let Some(&runs) = counts.iter().filter(|runs| **runs > 1).min() else {
        return "Each case was measured once.".to_owned();
    };
    let interval = Summary::of(&vec![0.0; runs]).map_or(0.0, |summary| summary.interval.confidence * 100.0);
    let single = if counts.contains(&1) { ", or what a single run measured" } else { "" };
    format!(
        "Medians of {runs} runs or more{single}; in the interval beside it lies the median of what was drawn from with a \
         confidence of {:.0} % at least (order statistics, no assumption about the distribution); then mean and standard \
         deviation.",
        interval.floor()
    )
}

/// Three cells: median, interval, mean and standard deviation.
fn figures(summary: Option<Summary>, unit: Unit) -> Markup {
    let none = || "–".to_owned();
    let [median, interval, mean] = match summary {
        None => [none(), none(), none()],
        Some(summary) => {
            let interval = summary.interval;
            let range = (summary.count > 1).then(|| {
                let (low, high) = (unit.show(interval.low), unit.show(interval.high));
                // The unit once, if it is the same.
                let same = unit.prefix(interval.low).name == unit.prefix(interval.high).name;
                let low = if same { low.split(' ').next().unwrap_or_default() } else { &low };
                format!("{low} to {high}")
            });
            let mean = summary
                .standard_deviation
                .map(|deviation| format!("{} ± {}", unit.show(summary.mean), unit.show(deviation)));
            [unit.show(summary.median), range.unwrap_or_else(none), mean.unwrap_or_else(none)]
        }
    };
    html! { td { strong { (median) } } td { (interval) } td { (mean) } }
}

fn quantities(results: &Results, parameters: &[&String], sample: &Sample) -> Markup {
    html! {
        @for name in parameters {
            @match sample.parameters.get(*name) {
                Some(word @ Quantity::Word(_)) => td class="word" { (reading::words(results, name, word)) },
                Some(value) => td { (reading::words(results, name, value)) },
                None => td { "–" },
            }
        }
    }
}

fn left_out(results: &Results) -> Markup {
    html! {
        @if !results.left_out.is_empty() {
            h3 { "Left out" }
            (table("What did not run, and why.", html! {
                tr { th scope="col" class="word" { "What" } th scope="col" class="word" { "Why" } }
            }, html! {
                @for line in &results.left_out { tr { th scope="row" { (line.what) } td class="word" { (line.why) } } }
            }))
        }
    }
}

fn raw(results: &Results) -> Markup {
    let parameters = parameters(results);
    let shown = results.samples.len().min(RAW_MAX);
    let cell =
        |value: Option<f64>, unit: Unit| value.map_or_else(|| "–".to_owned(), |value| unit.show(value));
    let caption = match shown < results.samples.len() {
        true => format!("The first {shown} of {} samples; the result file has all.", results.samples.len()),
        false if shown == 1 => "The only sample.".to_owned(),
        false => format!("All {shown} samples, in the order in which they were taken."),
    };
    html! {
        details {
            summary { "Raw figures" }
            (table(&caption, html! {
                tr {
                    th scope="col" { "Order" }
                    th scope="col" class="word" { "Series" }
                    @for name in &parameters { th scope="col" { (reading::label(name)) } }
                    th scope="col" { "Run" }
                    th scope="col" { "Bytes" }
                    th scope="col" { "Files" }
                    th scope="col" { "Time" }
                    th scope="col" { "Rate" }
                    th scope="col" { "CPU" }
                    th scope="col" { "CPU of the path" }
                    th scope="col" class="word" { "Else measured" }
                }
            }, html! {
                @for sample in results.samples.iter().take(shown) {
                    tr {
                        th scope="row" { (sample.order) }
                        td class="word" { (sample.series) }
                        (quantities(results, &parameters, sample))
                        td { (sample.run) }
                        td { (number(sample.bytes as f64)) }
                        td { (number(sample.files as f64)) }
                        td { (Unit::Seconds.show(sample.wall_s)) }
                        td { (cell(Measure::Rate.of(sample), Unit::BitsPerS)) }
                        td { (cell(sample.cpu_s, Unit::Seconds)) }
                        td { (cell(sample.wire_cpu_s_per_gb, Measure::Cpu.unit())) }
                        td class="word" { (measured(sample)) }
                    }
                }
            }))
        }
    }
}

/// What else was measured, in one cell.
fn measured(sample: &Sample) -> String {
    let words = sample.measured.iter().map(|(name, quantity)| match quantity {
        Quantity::Word(word) => format!("{name} {word}"),
        Quantity::Number { value, unit } if unit == "1" => format!("{name} {}", number(*value)),
        Quantity::Number { value, unit } => format!("{name} {} {unit}", number(*value)),
    });
    let many = sample.distributions.iter().map(|(name, all)| {
        let summary = Summary::of(&all.values);
        let ends = summary.map_or_else(String::new, |summary| {
            format!(
                ", median {}, P99 {}, largest {} {}",
                number(summary.median),
                number(summary.p99),
                number(summary.max),
                all.unit
            )
        });
        format!("{name}: {} values{ends}", all.values.len())
    });
    words.chain(many).collect::<Vec<_>>().join("; ")
}

/// A table that scrolls by itself where the page is too narrow for it.
fn table(caption: &str, head: Markup, body: Markup) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { span { (caption) } }
                thead { (head) }
                tbody { (body) }
            }
        }
    }
}
