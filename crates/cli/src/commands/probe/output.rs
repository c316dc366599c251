//! What a probe tells: to people, to programs, in a drawing.

use crate::args::probe::ProbeArgs;
use crate::drawing::{self, Bar, Look};
use crate::{out, units};
use serde_json::{Value, json};
use std::time::Duration;
use thalweg_client::job::Job;
use thalweg_lab::probe::{Finding, Measurements, Rate, Reading, Stage, Witness};
use thalweg_mover::basin::width;
use thalweg_sys::clock::unix_seconds;

/// What could not be measured, and why; each reason once.
pub(super) fn missing(measured: &Measurements) -> Vec<(String, String)> {
    let Measurements { parts, ways, .. } = measured;
    let all = [
        ("read", &parts.read),
        ("digest", &parts.digest),
        ("encrypt", &parts.encrypt),
        ("decrypt", &parts.decrypt),
        ("verify", &parts.verify),
        ("write", &parts.write),
        ("sync", &parts.sync),
        ("wire", &ways.wire),
        ("noise to nowhere", &ways.without_ends),
        ("source to nowhere", &ways.without_destination),
        ("noise to destination", &ways.without_source),
        ("source to destination", &ways.full),
    ];
    let mut missing: Vec<(String, String)> = Vec::new();
    for (name, reading) in all {
        if let Reading::Missing { missing: why } = reading {
            // Not a lack: there is no such part.
            if why.starts_with("on one machine") {
                continue;
            }
            match missing.iter_mut().find(|(_, known)| known == why) {
                Some((names, _)) => names.push_str(&format!(", {name}")),
                None => missing.push((name.to_owned(), why.clone())),
            }
        }
    }
    missing
}

/// When, how long, how warm.
pub(super) fn note(measured: &Measurements, seconds: Duration) -> String {
    let now = units::moment(i64::try_from(unix_seconds()).unwrap_or(0));
    let read = measured.parts.read.rate().and_then(|rate| rate.cached).map_or(String::new(), |cached| {
        format!(", {} of the source was in the page cache", units::share(cached))
    });
    format!("thalweg probe, {now}, {} s{read}; heights are logarithmic", seconds.as_secs())
}

pub(super) fn as_json(job: &Job, measured: &Measurements, finding: &Finding) -> Value {
    let witnesses: Vec<Value> = finding
        .witnesses
        .iter()
        .map(|(witness, stage)| json!({"witness": witness, "stage": stage}))
        .collect();
    let missing: Vec<Value> =
        missing(measured).iter().map(|(parts, why)| json!({"parts": parts, "why": why})).collect();
    json!({
        "event": "probe", "from": job.names.0, "to": job.names.1,
        "narrowest": finding.narrowest, "decided_by": finding.decided_by, "factor": finding.factor,
        "witnesses": witnesses, "sentence": finding.sentence,
        "stages": finding.rows, "parts": measured.parts, "ways": measured.ways, "missing": missing,
        "evidence": measured.evidence,
    })
}

pub(super) fn tell(job: &Job, args: &ProbeArgs, measured: &Measurements, finding: &Finding) {
    out::tell(&sentence(finding));
    out::tell(&format!("({} -> {})", job.names.0, job.names.1));
    out::tell("");
    out::tell(&format!(
        "{:<20} {:<16} {:>23} {:>15}  {}",
        "stage", "parts", "alone", "in company", "rests on"
    ));
    for row in &finding.rows {
        let company = row.company_bits_per_s.map_or("-".to_owned(), |bits| drawing::rate(bits / 8.0));
        let mark = if finding.narrowest == Some(row.stage) { " <" } else { "" };
        out::tell(&format!(
            "{:<20} {:<16} {:>23} {:>15}  {}{mark}",
            row.stage.name(),
            row.stage.step(),
            shown(&row.alone),
            company,
            rests_on(row.stage, &row.alone),
        ));
    }
    out::tell("");
    for (name, reading) in [
        ("noise -> nowhere", &measured.ways.without_ends),
        ("source -> nowhere", &measured.ways.without_destination),
        ("noise -> destination", &measured.ways.without_source),
        ("source -> destination", &measured.ways.full),
    ] {
        out::tell(&format!("{name:<37} {:>23}  {}", shown(reading), way_rests_on(reading)));
    }
    out::tell("");
    let bars: Vec<Bar> = finding
        .rows
        .iter()
        .map(|row| Bar {
            name: row.stage.name().to_owned(),
            bytes_per_s: row.way_bits_per_s.map(|bits| bits / 8.0),
            is_at_least: row.way_is_at_least,
            is_narrowest: finding.narrowest == Some(row.stage),
        })
        .collect();
    out::tell("what each lets through in the whole way, or alone where nothing else is known (+: at least):");
    drawing::draw_bars(&bars, Look::of_stdout()).iter().for_each(|line| out::tell(line));
    let missing = missing(measured);
    if !missing.is_empty() {
        out::tell("");
        missing.iter().for_each(|(parts, why)| out::tell(&format!("not measured: {parts}: {why}")));
    }
    if args.verbose {
        details(measured, finding);
    }
}

fn details(measured: &Measurements, finding: &Finding) {
    out::tell("");
    for (name, reading) in [
        ("read", &measured.parts.read),
        ("digest (source)", &measured.parts.digest),
        ("encrypt", &measured.parts.encrypt),
        ("decrypt", &measured.parts.decrypt),
        ("digest (destination)", &measured.parts.verify),
        ("write, not yet synced", &measured.parts.write),
        ("write and sync", &measured.parts.sync),
    ] {
        out::tell(&format!("{name:<37} {:>23}  {}", shown(reading), way_rests_on(reading)));
    }
    if let Some(sentence) = &finding.sentence {
        out::tell(&format!("\nin company, by its accounts: {sentence}"));
    }
    for width in measured.evidence.iter().flat_map(width::widths) {
        out::tell(&format!("  {:<26} {:>12}", drawing::name(&width), drawing::rate(width.bytes_per_s)));
    }
}

/// So many times wider alone than in the whole way is worth a word.
const WIDER_ALONE: f64 = 1.15;

/// The answer in a sentence.
fn sentence(finding: &Finding) -> String {
    let Some(narrowest) = finding.narrowest else {
        return "too little could be measured to name the narrowest stage".to_owned();
    };
    let row = finding.rows.iter().find(|row| row.stage == narrowest);
    let rate = |bits: f64| drawing::rate(bits / 8.0).trim_start().to_owned();
    let in_the_way = row.and_then(|row| row.way_bits_per_s);
    let by_parts = finding.decided_by == Some(Witness::Alone);
    let at = in_the_way.map_or(String::new(), |bits| match by_parts {
        true => format!(" at {}", rate(bits)),
        false => format!(", with which the way carries {}", rate(bits)),
    });
    // Wider alone: what it shares with the others, and what comes at its end, is not in that.
    let alone = row.and_then(|row| row.alone.rate()).map(|rate| rate.bits_per_s);
    let alone = alone.zip(in_the_way).filter(|(alone, way)| !by_parts && *alone > way * WIDER_ALONE);
    let alone = alone.map_or(String::new(), |(alone, _)| format!(" (alone it does {})", rate(alone)));
    let gain = match finding.factor {
        Some(factor) => format!("; without it the way is {factor:.1} times as fast"),
        None => String::new(),
    };
    let by = match finding.decided_by {
        Some(Witness::Substitution) => "",
        Some(Witness::Accounts) => " (by the accounts of the whole way)",
        _ => " (by the parts alone: the way as a whole was not measured)",
    };
    let mut text =
        format!("narrowest stage: {} ({}){at}{alone}{gain}{by}", narrowest.name(), narrowest.step());
    let others: Vec<String> = finding
        .witnesses
        .iter()
        .filter(|(_, stage)| *stage != narrowest)
        .map(|(witness, stage)| {
            let says = match witness {
                Witness::Substitution => "replacing the ends says",
                Witness::Accounts => "the accounts of the whole way say",
                Witness::Alone => "alone, the slowest part is",
            };
            format!("{says} {}", stage.name())
        })
        .collect();
    if !others.is_empty() {
        text.push_str(&format!(". Not all agree: {}", others.join(", ")));
    }
    text
}

/// Rate and spread.
fn shown(reading: &Reading) -> String {
    match reading {
        Reading::Missing { .. } => "-".to_owned(),
        Reading::Rate(rate) => {
            let more = if rate.is_at_least { ">= " } else { "" };
            format!("{more}{} \u{b1}{:>3.0} %", drawing::rate(rate.bits_per_s / 8.0), rate.spread() * 100.0)
        }
    }
}

fn rests_on(stage: Stage, reading: &Reading) -> String {
    let Some(rate) = reading.rate() else { return String::new() };
    let workers = if stage == Stage::Network { "streams" } else { "threads" };
    let mut text =
        format!("{} in {:.1} s, {} {workers}", units::size(rate.bytes), rate.seconds, rate.threads);
    if stage == Stage::SourceStorage {
        text.push_str(&match rate.cached {
            None => "; whether it was in the page cache, the kernel does not say".to_owned(),
            Some(cached) if cached < 0.05 => "; cold: not in the page cache".to_owned(),
            Some(cached) if cached > 0.95 => "; warm: all of it in the page cache".to_owned(),
            Some(cached) => format!("; {} of it in the page cache", units::share(cached)),
        });
        text.push_str(&past_cache(rate, "read past it"));
    }
    if stage == Stage::DestinationStorage {
        text.push_str("; until durable");
        text.push_str(&past_cache(rate, "past the page cache"));
    }
    text
}

/// How much went past the page cache, if anything did: in such words.
fn past_cache(rate: &Rate, words: &str) -> String {
    match rate.past_cache {
        Some(share) if share > 0.95 => format!(", {words}"),
        Some(share) if share > 0.0 => format!(", {} {words}", units::share(share)),
        Some(_) | None => String::new(),
    }
}

fn way_rests_on(reading: &Reading) -> String {
    reading
        .rate()
        .map_or(String::new(), |rate| format!("{} in {:.1} s", units::size(rate.bytes), rate.seconds))
}
