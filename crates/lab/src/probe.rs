//! From measurements of the parts of a way to its five stages and the narrowest of them (004, section II; 000, section
//! II).
//!
//! Three witnesses, each of which may be missing:
//!
//! 1. *Alone*: what each part does when nothing else is there. Parts that one thread does in turn add their times.
//! 2. *Substitution* (002, section VI-C.2): the whole way, and the way with one end or both replaced by a source of
//!    noise and a destination that keeps nothing. The end without which it is faster is the narrow one.
//! 3. *Accounts*: what both sides of the whole way said of their time ([`thalweg_mover::basin`]).
//!
//! Substitution decides where it can: it sees stages in each other's company and changes one thing at a time. But who
//! takes an end away also takes the work that its host had with it: where the accounts of the whole way say that a CPU
//! was used up, they decide, and so they do where both they and the parts alone name one other stage, and the gain is
//! small, or the end is far faster alone than the way: transfers that are cut off at different moments, or lose their
//! packets at others, differ by as much. Where ends make no difference, the
//! accounts of the way without ends tell hosts and network apart. What is left is decided by the accounts of the whole
//! way, then by the parts alone. Pure: nothing here measures.

use serde::{Deserialize, Serialize};
use thalweg_mover::basin::times::Passage;
use thalweg_mover::basin::{Cause, Evidence, Verdict, Where, judge, width};
use thalweg_mover::stage::Stage as Step;
use thalweg_wire::message::Measured;

// The drawing as SVG.
pub mod svg;

#[cfg(test)]
mod tests;

/// A stage of the way, as 004 (section II) tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The disk that is read.
    SourceStorage,
    /// The machine that reads: digests, seals, sends.
    SourceHost,
    /// What is between.
    Network,
    /// The machine that writes: receives, opens, compares digests.
    DestinationHost,
    /// The disk that is written, until what was written survives a power cut.
    DestinationStorage,
}

impl Stage {
    /// All of them, in the order in which a byte meets them.
    pub const ALL: [Stage; 5] = [
        Stage::SourceStorage,
        Stage::SourceHost,
        Stage::Network,
        Stage::DestinationHost,
        Stage::DestinationStorage,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Stage::SourceStorage => "source storage",
            Stage::SourceHost => "source host",
            Stage::Network => "network",
            Stage::DestinationHost => "destination host",
            Stage::DestinationStorage => "destination storage",
        }
    }

    /// What the engine calls the part of it that is most of its work.
    pub fn step(self) -> &'static str {
        match self {
            Stage::SourceStorage => "read",
            Stage::SourceHost => "digest, encrypt",
            Stage::Network => "wire",
            Stage::DestinationHost => "decrypt, verify",
            Stage::DestinationStorage => "write, sync",
        }
    }
}

/// A rate that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The median, or the whole where there is no series; in bits a second.
    pub bits_per_s: f64,
    /// A quarter of the series is below.
    pub low_bits_per_s: f64,
    /// A quarter of the series is above.
    pub high_bits_per_s: f64,
    /// Content bytes that it rests on.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
    /// Threads or streams.
    pub threads: u16,
    /// Something else was the bound: it is at least as wide.
    pub is_at_least: bool,
    /// Reading: share of the bytes that were in the page cache before, 0 (cold) to 1 (warm), where the kernel tells.
    pub cached: Option<f64>,
    /// Reading and writing: share of the bytes that went past the page cache, 0 to 1; `None` of what has no disk.
    pub past_cache: Option<f64>,
}

impl Rate {
    /// From a series of rates in bits a second, each over the same time; the whole where there are fewer than three.
    pub fn of_series(bytes: u64, seconds: f64, threads: u16, series: &[f64]) -> Rate {
        let whole = bytes as f64 * 8.0 / seconds.max(1e-9);
        let mut sorted: Vec<f64> = series.iter().copied().filter(|rate| rate.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let [low, middle, high] = match sorted.len() {
            0..3 => [whole; 3],
            _ => [0.25, 0.5, 0.75].map(|share| quantile(&sorted, share)),
        };
        Rate {
            bits_per_s: middle,
            low_bits_per_s: low,
            high_bits_per_s: high,
            bytes,
            seconds,
            threads,
            is_at_least: false,
            cached: None,
            past_cache: None,
        }
    }

    /// The median of several transfers, with the quarters of all of them; of one its own.
    pub fn of_rounds(rounds: &[Rate]) -> Rate {
        let Some(&last) = rounds.last() else { return Rate::of_series(0, 0.0, 0, &[]) };
        if rounds.len() == 1 {
            return last;
        }
        let mut sorted: Vec<f64> = rounds.iter().map(|rate| rate.bits_per_s).collect();
        sorted.sort_by(f64::total_cmp);
        Rate {
            bits_per_s: quantile(&sorted, 0.5),
            low_bits_per_s: quantile(&sorted, 0.25),
            high_bits_per_s: quantile(&sorted, 0.75),
            bytes: rounds.iter().map(|rate| rate.bytes).sum(),
            seconds: rounds.iter().map(|rate| rate.seconds).sum(),
            ..last
        }
    }

    /// What a part did alone. Of writing: until it was durable.
    pub fn of_part(measured: &Measured) -> Rate {
        let threads = f64::from(measured.threads.max(1));
        let seconds = measured.busy_nanos as f64 / 1e9 / threads;
        let series: Vec<f64> = measured.rates.iter().map(|&rate| rate as f64 * 8.0).collect();
        let rate = Rate::of_series(measured.bytes, seconds, measured.threads, &series);
        let synced = measured.sync_nanos as f64 / 1e9;
        // Of the last file more may have been cached than was read.
        let share_of = |bytes: u64| (bytes as f64 / measured.bytes as f64).min(1.0);
        // All of the series waited for the same sync at the end.
        let late = (seconds / (seconds + synced).max(1e-9)).min(1.0);
        Rate {
            bits_per_s: rate.bits_per_s * late,
            low_bits_per_s: rate.low_bits_per_s * late,
            high_bits_per_s: rate.high_bits_per_s * late,
            seconds: seconds + synced,
            cached: measured.cached_bytes.filter(|_| measured.bytes > 0).map(share_of),
            past_cache: measured.past_cache_bytes.filter(|_| measured.bytes > 0).map(share_of),
            ..rate
        }
    }

    /// Half of the distance between the quarters, as a share of the rate.
    pub fn spread(&self) -> f64 {
        (self.high_bits_per_s - self.low_bits_per_s) / 2.0 / self.bits_per_s.max(1e-9)
    }
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// A rate, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reading {
    /// Measured.
    Rate(Rate),
    /// Not.
    Missing {
        /// Why.
        missing: String,
    },
}

impl Reading {
    /// None, for this reason.
    pub fn missing(why: impl ToString) -> Reading {
        Reading::Missing { missing: why.to_string() }
    }

    /// The rate.
    pub fn rate(&self) -> Option<&Rate> {
        match self {
            Reading::Rate(rate) => Some(rate),
            Reading::Missing { .. } => None,
        }
    }

    fn bits(&self) -> Option<f64> {
        self.rate().map(|rate| rate.bits_per_s)
    }
}

/// What one thread does in turn: the times of a byte add up. Missing where one is.
pub fn in_turn(parts: &[&Reading]) -> Reading {
    let mut rates = Vec::new();
    for part in parts {
        match part {
            Reading::Rate(rate) => rates.push(*rate),
            missing => return (*missing).clone(),
        }
    }
    let Some(first) = rates.first() else { return Reading::missing("nothing was measured") };
    let sum = |of: fn(&Rate) -> f64| 1.0 / rates.iter().map(|rate| 1.0 / of(rate).max(1e-9)).sum::<f64>();
    Reading::Rate(Rate {
        bits_per_s: sum(|rate| rate.bits_per_s),
        low_bits_per_s: sum(|rate| rate.low_bits_per_s),
        high_bits_per_s: sum(|rate| rate.high_bits_per_s),
        bytes: rates.iter().map(|rate| rate.bytes).min().unwrap_or(0),
        seconds: rates.iter().map(|rate| rate.seconds).sum(),
        ..*first
    })
}

/// Each part alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Reading the source.
    pub read: Reading,
    /// Digesting, at the source.
    pub digest: Reading,
    /// Sealing, at the source.
    pub encrypt: Reading,
    /// Opening, at the destination.
    pub decrypt: Reading,
    /// Digesting, at the destination.
    pub verify: Reading,
    /// Writing at the destination, without the sync.
    pub write: Reading,
    /// Writing and syncing.
    pub sync: Reading,
}

/// The whole way, and with ends replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ways {
    /// Noise to nowhere, without an end: what hosts and network carry.
    pub wire: Reading,
    /// Noise to nowhere, as many bytes as in the next three: only ways with the same beginning and end can be compared.
    pub without_ends: Reading,
    /// The source to nowhere.
    pub without_destination: Reading,
    /// Noise to the destination.
    pub without_source: Reading,
    /// All of it.
    pub full: Reading,
}

/// All that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurements {
    /// Each part alone.
    pub parts: Parts,
    /// In company.
    pub ways: Ways,
    /// Accounts of the way without ends.
    pub evidence_without_ends: Option<Evidence>,
    /// Accounts of the whole way.
    pub evidence: Option<Evidence>,
    /// When the content of that came, if it came to its end.
    #[serde(default)]
    pub passage: Option<Passage>,
}

/// A stage of the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub stage: Stage,
    /// Alone; of the network: with the hosts, without the ends.
    pub alone: Reading,
    /// What it would let through in the company of all others, by its accounts of the whole way, in bits a second.
    pub company_bits_per_s: Option<f64>,
    /// What it lets through in the whole way, by what decided which is the narrowest: what it is drawn by. No row is
    /// narrower than the narrowest.
    pub way_bits_per_s: Option<f64>,
    /// Of that is only known that it is at least so much.
    pub way_is_at_least: bool,
}

/// What named the narrowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Witness {
    /// Replacing the ends.
    Substitution,
    /// Accounts of the whole way.
    Accounts,
    /// The parts alone.
    Alone,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The five stages.
    pub rows: Vec<Row>,
    /// The narrowest; `None` where too little could be measured.
    pub narrowest: Option<Stage>,
    /// What decided it.
    pub decided_by: Option<Witness>,
    /// What each witness says alone, where it says anything.
    pub witnesses: Vec<(Witness, Stage)>,
    /// The way would be so many times as fast without the narrowest, by substitution, where that was measured.
    pub factor: Option<f64>,
    /// What the accounts of the whole way say in a sentence.
    pub sentence: Option<String>,
}

/// Less than this says nothing beside what runs differ by.
const GAIN_MIN: f64 = 1.15;

/// What lets so much more through alone is not what holds back in company.
const ALONE_FACTOR_MAX: f64 = 10.0;

/// Less than this does not stand against two other witnesses who agree.
const GAIN_SURE: f64 = 1.5;

/// Puts it together.
pub fn find(measured: &Measurements) -> Finding {
    let parts = &measured.parts;
    let verdict_without_ends = measured.evidence_without_ends.as_ref().and_then(judge);
    let verdict = measured.evidence.as_ref().and_then(judge);
    let mut network = measured.ways.wire.clone();
    let is_linked = [&measured.evidence_without_ends, &measured.evidence]
        .into_iter()
        .flatten()
        .next()
        .is_none_or(|evidence| evidence.is_linked);
    if !is_linked {
        network = Reading::missing("source and destination are one machine");
    } else if let (Reading::Rate(rate), Some(verdict)) = (&mut network, &verdict_without_ends) {
        rate.is_at_least = verdict.narrowest.place != Where::Path;
    }
    let alone = |stage: Stage| match stage {
        Stage::SourceStorage => parts.read.clone(),
        Stage::SourceHost if !is_linked => parts.digest.clone(),
        Stage::SourceHost => in_turn(&[&parts.digest, &parts.encrypt]),
        Stage::Network => network.clone(),
        Stage::DestinationHost if !is_linked => parts.verify.clone(),
        Stage::DestinationHost => in_turn(&[&parts.decrypt, &parts.verify]),
        Stage::DestinationStorage => parts.sync.clone(),
    };
    let company = measured.evidence.as_ref().map(in_company).unwrap_or_default();
    let mut rows: Vec<Row> = Stage::ALL
        .iter()
        .map(|&stage| Row {
            stage,
            alone: alone(stage),
            company_bits_per_s: company.iter().find(|(of, _)| *of == stage).map(|(_, bits)| *bits),
            way_bits_per_s: None,
            way_is_at_least: false,
        })
        .collect();
    let by_accounts = verdict.as_ref().and_then(|verdict| stage_of(verdict, &rows));
    let is_of_cpu =
        verdict.as_ref().is_some_and(|why| matches!(why.narrowest.cause, Cause::Cpu | Cause::CpuQuota));
    let by_substitution = match is_of_cpu && by_accounts.is_some() {
        true => None,
        false => by_substitution(&measured.ways, verdict_without_ends.as_ref(), &rows),
    };
    // A wire that was not measured may be too slow for that: then what the others do alone says nothing.
    let by_alone = measured.ways.wire.rate().and_then(|_| narrowest_of(&rows, &Stage::ALL));
    let full = measured.ways.full.bits();
    let is_outvoted = |(stage, gain): &(Stage, Option<f64>)| {
        let is_far_faster_alone = || full.is_some_and(|full| !may_hold_back(&rows, &[*stage], full));
        by_accounts.is_some()
            && by_accounts == by_alone
            && by_accounts != Some(*stage)
            && gain.is_some_and(|gain| gain < GAIN_SURE || is_far_faster_alone())
    };
    let by_substitution = by_substitution.filter(|found| !is_outvoted(found));
    let witnesses: Vec<(Witness, Stage)> = [
        (Witness::Substitution, by_substitution.map(|(stage, _)| stage)),
        (Witness::Accounts, by_accounts),
        (Witness::Alone, by_alone),
    ]
    .into_iter()
    .filter_map(|(witness, stage)| Some((witness, stage?)))
    .collect();
    let decided = witnesses.first().copied();
    in_the_way(&mut rows, measured, decided);
    Finding {
        narrowest: decided.map(|(_, stage)| stage),
        decided_by: decided.map(|(witness, _)| witness),
        factor: by_substitution.and_then(|(_, factor)| factor),
        sentence: verdict.map(|verdict| verdict.sentence),
        rows,
        witnesses,
    }
}

/// What each lets through in the whole way. The narrowest: what the way carried. Each other one: what it would have let
/// through by the accounts, else what it does alone, and no less than what was carried by a way that it is in. Where
/// the parts alone decided, what they do alone is all that is known.
fn in_the_way(rows: &mut [Row], measured: &Measurements, decided: Option<(Witness, Stage)>) {
    let ways = &measured.ways;
    let carried = |stage: Stage| {
        let (source, destination) = match stage {
            Stage::SourceStorage => (true, false),
            Stage::DestinationStorage => (false, true),
            _ => (false, false),
        };
        let all = [
            (&ways.full, true),
            (&ways.without_destination, !destination),
            (&ways.without_source, !source),
            (&ways.without_ends, !source && !destination),
        ];
        all.iter().filter(|(_, is_in)| *is_in).filter_map(|(way, _)| way.bits()).fold(0.0, f64::max)
    };
    let by_parts = !matches!(decided, Some((Witness::Substitution | Witness::Accounts, _)));
    for row in rows.iter_mut() {
        let alone = row.alone.rate().map(|rate| (rate.bits_per_s, rate.is_at_least));
        let company = row.company_bits_per_s.map(|bits| (bits, false));
        let own = if by_parts { alone.or(company) } else { company.or(alone) };
        let carried = carried(row.stage);
        (row.way_bits_per_s, row.way_is_at_least) = match own {
            Some((bits, _)) if bits < carried && !by_parts => (Some(carried), true),
            Some((bits, is_at_least)) => (Some(bits), is_at_least),
            None => (None, false),
        };
    }
    let Some((_, narrowest)) = decided else { return };
    let whole = ways.full.bits().or_else(|| {
        let evidence = measured.evidence.as_ref()?;
        Some(evidence.bytes as f64 * 8.0 / evidence.seconds()).filter(|bits| bits.is_finite())
    });
    let Some(at) = rows.iter().position(|row| row.stage == narrowest) else { return };
    if let Some(whole) = whole.filter(|_| !by_parts) {
        (rows[at].way_bits_per_s, rows[at].way_is_at_least) = (Some(whole), false);
    }
    let Some(least) = rows[at].way_bits_per_s else { return };
    // Of the others is known then that they are wider.
    for row in rows.iter_mut().filter(|row| row.way_bits_per_s.is_some_and(|bits| bits < least)) {
        (row.way_bits_per_s, row.way_is_at_least) = (Some(least), true);
    }
}

/// The narrowest of some by what they do alone. What is only known to be at least so wide is not.
fn narrowest_of(rows: &[Row], of: &[Stage]) -> Option<Stage> {
    let known = rows.iter().filter(|row| of.contains(&row.stage)).filter_map(|row| {
        let rate = row.alone.rate().filter(|rate| !rate.is_at_least)?;
        Some((row.stage, rate.bits_per_s))
    });
    known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(stage, _)| stage)
}

/// Whether one of these is alone slow enough to hold back a way of this rate, in bits a second, or is not known
/// to be fast: a gain without it is chance where each lets far more through.
fn may_hold_back(rows: &[Row], of: &[Stage], bits_per_s: f64) -> bool {
    let rates = rows.iter().filter(|row| of.contains(&row.stage)).map(|row| row.alone.rate());
    let mut rates = rates.map(|rate| rate.map_or(0.0, |rate| rate.bits_per_s));
    rates.any(|rate| rate < ALONE_FACTOR_MAX * bits_per_s)
}

/// By what factor runs differ by chance, at least 1: a way with fewer parts cannot be slower, and if it was, by so much
/// what else went on was different.
fn disorder(ways: &Ways) -> f64 {
    let (none, full) = (ways.without_ends.bits(), ways.full.bits());
    let (source, destination) = (ways.without_source.bits(), ways.without_destination.bits());
    let pairs = [(full, none), (source, none), (destination, none), (full, source), (full, destination)];
    let slower = |(more, fewer): (Option<f64>, Option<f64>)| Some(more? / fewer?.max(1e-9));
    pairs.into_iter().filter_map(slower).fold(1.0, f64::max)
}

/// The stage, and what the way gains without it.
fn by_substitution(
    ways: &Ways,
    verdict_without_ends: Option<&Verdict>,
    rows: &[Row],
) -> Option<(Stage, Option<f64>)> {
    let full = ways.full.bits()?;
    let gain = |way: &Reading| Some(way.bits()? / full.max(1e-9));
    let gain_min = GAIN_MIN * disorder(ways);
    let (source, destination) = (gain(&ways.without_source), gain(&ways.without_destination));
    let ends = [(Stage::SourceStorage, source), (Stage::DestinationStorage, destination)];
    let best =
        ends.into_iter().filter_map(|(stage, gain)| Some((stage, gain?))).max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((stage, gain)) = best.filter(|(_, gain)| *gain >= gain_min) {
        return Some((stage, Some(gain)));
    }
    // Without both it goes faster, without either it does not: both ends are about equally narrow.
    let ends = [Stage::SourceStorage, Stage::DestinationStorage];
    let is_known = source.is_some() && destination.is_some();
    let without_ends = ways.without_ends.bits()?;
    if gain(&ways.without_ends)? >= gain_min && is_known && may_hold_back(rows, &ends, without_ends) {
        return narrowest_of(rows, &ends).map(|stage| (stage, None));
    }
    // The ends make no difference: hosts or network. What end was not tried may still be it.
    source.and(destination)?;
    stage_of(verdict_without_ends?, rows).map(|stage| (stage, None))
}

/// The stage that a verdict is about.
fn stage_of(verdict: &Verdict, rows: &[Row]) -> Option<Stage> {
    let narrow = &verdict.narrowest;
    let is_one_of = |steps: &[Step]| steps.iter().any(|step| step.name() == narrow.stage);
    Some(match narrow.place {
        Where::Path => Stage::Network,
        Where::Source if is_one_of(SOURCE_STORAGE[0]) || is_one_of(SOURCE_STORAGE[1]) => Stage::SourceStorage,
        Where::Source if narrow.stage == "plan" => return None,
        Where::Source => Stage::SourceHost,
        Where::Destination if is_one_of(DESTINATION_STORAGE[0]) || is_one_of(DESTINATION_STORAGE[1]) => {
            Stage::DestinationStorage
        }
        Where::Destination => Stage::DestinationHost,
        // One machine does both.
        Where::Both => return narrowest_of(rows, &[Stage::SourceHost, Stage::DestinationHost]),
    })
}

/// Steps by the pool of threads that does them in turn.
const SOURCE_STORAGE: [&[Step]; 2] = [&[Step::Scan], &[Step::Read, Step::Open]];
const SOURCE_HOST: [&[Step]; 1] = [&[Step::Digest, Step::Compress, Step::Send]];
const DESTINATION_HOST: [&[Step]; 2] = [&[Step::Receive, Step::Expand, Step::Verify], &[Step::Decide]];
const DESTINATION_STORAGE: [&[Step]; 2] =
    [&[Step::Write, Step::Create], &[Step::Sync, Step::ReadBack, Step::Record, Step::Finish, Step::Conclude]];

/// What each stage would let through in the company of the others: steps that one thread does in turn add their times,
/// of several pools the narrowest counts.
fn in_company(evidence: &Evidence) -> Vec<(Stage, f64)> {
    let widths = width::by_own_work(evidence);
    let pool = |steps: &[Step], place: Where| -> Option<f64> {
        let is_here = |width: &&width::Width| {
            width.place == place && steps.iter().any(|step| step.name() == width.stage)
        };
        let per_byte: f64 = widths.iter().filter(is_here).map(|width| 1.0 / width.bytes_per_s).sum();
        (per_byte > 0.0).then(|| 8.0 / per_byte)
    };
    let least = |pools: &[&[Step]], place: Where| {
        pools.iter().filter_map(|steps| pool(steps, place)).min_by(f64::total_cmp)
    };
    let path = widths.iter().find(|width| width.place == Where::Path).map(|width| width.bytes_per_s * 8.0);
    [
        (Stage::SourceStorage, least(&SOURCE_STORAGE, Where::Source)),
        (Stage::SourceHost, least(&SOURCE_HOST, Where::Source)),
        (Stage::Network, path),
        (Stage::DestinationHost, least(&DESTINATION_HOST, Where::Destination)),
        (Stage::DestinationStorage, least(&DESTINATION_STORAGE, Where::Destination)),
    ]
    .into_iter()
    .filter_map(|(stage, bits)| Some((stage, bits?)))
    .filter(|(_, bits)| bits.is_finite())
    .collect()
}
