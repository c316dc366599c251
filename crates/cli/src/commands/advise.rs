//! `thalweg advise`: local, stream or files?

use crate::commands::model;
use crate::exit::Exit;
use crate::{json, out, units};
use serde_json::json;
use thalweg_cli::args::model::{AdviseArgs, StartsArg};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::model::ModelError;
use thalweg_mover::model::advice::{self, Advice, Choice, Files, Ground, Question, Tail, WayTimes};
use thalweg_mover::model::congestion::{ALONE_STRETCH, BED_PERIOD_S, BED_RTT_S, LIKE_BED, Starts, Unlike003};
use thalweg_mover::model::files::Optimum;
use thalweg_mover::model::fit::{Condition, Fit, OneSided, Prediction, fit};
use thalweg_mover::model::path::{BoundBy, Carried, Path};
use thalweg_mover::model::score::{TIMES_FOR_P99, Tier};

const OPERATION: &str = "advise";

/// `thalweg advise …`.
///
/// # Errors
/// If the question makes no sense, or a file of measurements cannot be read.
pub fn advise(args: &AdviseArgs) -> Result<Exit> {
    let path = path(args);
    let carried = path.carried().map_err(of)?;
    let fitted = fitted(args)?;
    let tail = tail(args)?;
    let (local_s, remote_s) = analysis(args);
    let question = Question {
        bytes: args.data as f64,
        period_s: args.every.map(|every| every.as_secs_f64()),
        bandwidth_bits_per_s: args.bandwidth as f64,
        efficiency: args.efficiency.unwrap_or(carried.rate_bits_per_s / args.bandwidth as f64),
        is_efficiency_bound: carried.is_beyond_law,
        rtt_s: args.rtt.map(|rtt| rtt.as_secs_f64()),
        path: args.efficiency.is_none().then_some(path),
        local_s,
        remote_s,
        files: match args.io_overhead {
            Some(overhead) => vec![Files::Overhead(overhead)],
            None => fitted.iter().map(|one| Files::Timed(one.prediction, one.fit.condition())).collect(),
        },
        tail,
        deadline_s: args.deadline.map(|deadline| deadline.as_secs_f64()),
    };
    let advice = advice::advise(&question).map_err(of)?;
    let files = advice.files.and_then(|at| fitted.get(at));
    let told = match args.json {
        true => json::line(&json!({
            "event": "advice", "efficiency": question.efficiency,
            "path": args.efficiency.is_none().then_some(carried),
            "files": files.map(|files| json!({
                "concurrency": files.fit.concurrency as u64, "optimum": files.optimum,
                "is_flat": files.is_flat, "time": files.prediction, "bound": files.bound,
                "condition": files.fit.condition(),
            })),
            "advice": advice,
        })),
        false => tell(args, &question, &advice, carried, files),
    };
    let exit = match advice.best {
        Some((_, Ground::Quickest | Ground::QuickestAsExpected | Ground::InTime)) => Exit::Done,
        Some((_, Ground::InTimeAsExpected | Ground::TooLate)) | None => Exit::Partial,
    };
    out::answered(told, exit)
}

/// The path, with what windows and loss leave of it; nothing is asked of these where alpha is given.
fn path(args: &AdviseArgs) -> Path {
    Path {
        bandwidth_bits_per_s: args.bandwidth as f64,
        rtt_s: args.rtt.filter(|_| args.efficiency.is_none()).map(|rtt| rtt.as_secs_f64()),
        window_bytes: args.path.window.map(|bytes| bytes as f64),
        loss: args.loss.unwrap_or_default(),
        control: model::control(args.path.cca),
        segment_bytes: model::segment_bytes(args.path.mtu),
        streams: f64::from(args.path.streams.unwrap_or(1)),
    }
}

/// Seconds of the analysis, here (if it can be done here) and there.
fn analysis(args: &AdviseArgs) -> (Option<f64>, f64) {
    let at = |speed: Option<f64>| args.work.zip(speed).map(|(work, speed)| work / speed);
    let local = args.local_time.map(|time| time.as_secs_f64()).or_else(|| at(args.local_speed));
    let remote = args.remote_time.map(|time| time.as_secs_f64()).or_else(|| at(args.remote_speed));
    (local, remote.unwrap_or_default())
}

fn tail(args: &AdviseArgs) -> Result<Option<Tail>> {
    if args.times.is_none() && (args.case.series.is_some() || args.case.load.is_some()) {
        let why = "--series and --load choose among the cases of --times FILE, and it is not given";
        return Err(Failure::new(FailureKind::Usage, OPERATION, why));
    }
    Ok(match (&args.times, args.score, args.starts) {
        (Some(file), ..) => {
            let (bytes, bandwidth_bits_per_s) = (args.data as f64, args.bandwidth as f64);
            let load = args.every.map(|every| bytes * 8.0 / every.as_secs_f64() / bandwidth_bits_per_s);
            let asked = model::tail::Asked { bytes, bandwidth_bits_per_s, load };
            Some(Tail::from(model::tail::read_one(file, &args.case, &asked)?))
        }
        (_, Some(score), _) => Some(Tail::Score(score)),
        (_, _, Some(StartsArg::Scheduled)) => Some(Tail::Like003(Starts::Scheduled)),
        (_, _, Some(StartsArg::Simultaneous)) => Some(Tail::Like003(Starts::Simultaneous)),
        // A load is known only of data that come again and again.
        _ => args.every.map(|_| Tail::Like003(Starts::Simultaneous)),
    })
}

/// What files take by the measurements of one concurrency, in the number of them with the least time.
struct Fitted {
    fit: Fit,
    optimum: Optimum,
    /// No number of them is better than another.
    is_flat: bool,
    prediction: Prediction,
    /// What the prediction is, if the data are not as many as were measured.
    bound: Option<OneSided>,
}

/// Of each concurrency that was measured; none without --fit.
fn fitted(args: &AdviseArgs) -> Result<Vec<Fitted>> {
    let Some(file) = &args.fit else { return Ok(Vec::new()) };
    let of = |error: ModelError| model::of_model("fit measurements", &error);
    let bytes = args.data as f64;
    let (mut all, mut failed) = (Vec::new(), None);
    for measurements in model::measurements::read_measurements(file)?.groups.values() {
        // With fewer files than processes only the larger concurrencies are out of the question.
        let best =
            |fit: Fit| model::fit::best_files(&fit, bytes, args.files_max).map(|optimum| (optimum, fit));
        let (optimum, fit) = match fit(measurements).and_then(best) {
            Ok(both) => both,
            Err(error) => {
                failed = Some(of(error));
                continue;
            }
        };
        let is_flat = model::fit::is_flat(&fit, bytes, args.files_max).map_err(of)?;
        let prediction = fit.predict(bytes, optimum.files).map_err(of)?;
        let bound = fit.bound(bytes);
        all.push(Fitted { fit, optimum, is_flat, prediction, bound });
    }
    match failed {
        Some(failed) if all.is_empty() => Err(failed),
        _ => Ok(all),
    }
}

fn tell(
    args: &AdviseArgs,
    question: &Question,
    advice: &Advice,
    carried: Carried,
    files: Option<&Fitted>,
) -> Result<()> {
    let bound = files.and_then(|files| files.bound).map(|bound| {
        let article = if bound == OneSided::Upper { "an" } else { "a" };
        format!(" Time with files is {article} {}.", model::fit::bound_words(bound))
    });
    out::line(&format!("{}{}", verdict(question, advice), bound.unwrap_or_default()))?;
    out::line("")?;
    out::line(&format!(
        "{:<8} {:>10} {:>10} {:>10}   of it: path, files, analysis",
        "", "expected", "P99", "left"
    ))?;
    for way in &advice.ways {
        let or_unknown = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), units::time);
        let tier = way.tier.map(|tier| format!("   {}", tier_words(tier))).unwrap_or_default();
        let late = if way.keeps_up { "" } else { "   falls behind the data" };
        out::line(&format!(
            "{:<8} {:>10} {:>10} {:>10}   {}, {}, {}{tier}{late}",
            name(way.way),
            units::time(way.time_s),
            or_unknown(way.p99_s),
            or_unknown(way.left_s),
            units::time(way.transfer_s + way.distance_s),
            units::time(way.io_s),
            units::time(way.analysis_s),
        ))?;
    }
    out::line("")?;
    if let Some(load) = advice.utilisation {
        let of_it = match question.efficiency {
            alpha if alpha < 1.0 => format!(", {} of what a transfer gets", units::share(load / alpha)),
            _ => String::new(),
        };
        out::line(&format!("The data need {} of the path{of_it}.", units::share(load)))?;
    }
    out::line(&path_words(args, question, carried))?;
    out::line(&distance_words(advice, question))?;
    out::line(&tail_words(question, advice.unlike_003))?;
    for way in advice.ways.iter().filter(|way| way.way != Choice::Local) {
        for line in what_would_change(question, advice.utilisation, way)? {
            out::line(&line)?;
        }
    }
    match files {
        Some(files) => {
            let words = model::fit::optimum_words(&files.optimum, files.is_flat);
            out::line(&format!("Best with files, {} at once: {words}.", files.fit.concurrency))?;
            if let Some(way) = advice.ways.iter().find(|way| way.way == Choice::File) {
                let theta = (way.transfer_s + way.io_s) / way.transfer_s;
                out::line(&format!(
                    "Their theta, {theta:.2}, is fitted, for these data over this path: no path makes them quicker than \
                     was measured."
                ))?;
            }
            let condition = files.fit.condition();
            if condition != Condition::Holds {
                let less = if condition == Condition::Broken { "; so there is no P99" } else { "" };
                let words = model::fit::condition_words(&files.fit);
                out::line(&format!("Their law, 001 Eq 6, wants a_ck < a_trs, which {words}{less}."))?;
            }
        }
        None if args.io_overhead.is_none() => out::line(
            "Of files nothing is known: measure some transfers and give --fit FILE, or give --io-overhead.",
        )?,
        None => {}
    }
    Ok(())
}

fn verdict(question: &Question, advice: &Advice) -> String {
    let deadline = units::time(question.deadline_s.unwrap_or_default());
    let Some((way, ground)) = advice.best else {
        let load = units::share(advice.utilisation.unwrap_or_default());
        let alpha = units::share(question.efficiency);
        return format!("IMPOSSIBLE: the data need {load} of the path, and a transfer gets {alpha} of it.");
    };
    let times = advice.ways.iter().find(|times| times.way == way);
    let (time_s, slowest_s) = times.map_or((0.0, 0.0), |times| (times.time_s, times.slowest_s));
    let is_as_003 = matches!(question.tail, Some(Tail::Like003(_)))
        && times.is_some_and(|times| times.way != Choice::Local && times.p99_s.is_some());
    let as_003 = if is_as_003 { " as on 003's testbed" } else { "" };
    let (expected, slowest) = (units::time(time_s), units::time(slowest_s));
    let word = name(way).to_uppercase();
    // The next best, by what the best was chosen by.
    let next = |by: &dyn Fn(&WayTimes) -> f64| {
        let others = advice.ways.iter().filter(|other| other.way != way && other.keeps_up);
        let next = others.min_by(|a, b| by(a).total_cmp(&by(b)));
        let words = next.map(|next| format!(", before {} with {}", name(next.way), units::time(by(next))));
        words.unwrap_or_default()
    };
    match ground {
        Ground::Quickest => {
            format!("{word}: it is the quickest at P99, {slowest}{as_003}{}.", next(&|way| way.slowest_s))
        }
        Ground::QuickestAsExpected => {
            format!("{word}: it is the quickest as expected, {expected}{}.", next(&|way| way.time_s))
        }
        Ground::InTime => format!("{word}: it holds the deadline of {deadline} at P99, {slowest}{as_003}."),
        Ground::InTimeAsExpected => {
            let why = why_unsure(question, advice.unlike_003);
            format!("{word}, perhaps: {expected} is expected, within {deadline}; {why}.")
        }
        Ground::TooLate => {
            let name = name(way);
            format!("TOO LATE: the nearest is {name} with {slowest}{as_003}, and {deadline} are allowed.")
        }
    }
}

/// Why it is not known whether the deadline holds.
fn why_unsure(question: &Question, unlike_003: Option<Unlike003>) -> String {
    match (question.tail, unlike_003) {
        _ if question.is_efficiency_bound => {
            "with so much loss it takes longer, by no law that is known".to_owned()
        }
        (Some(Tail::WorstOf { count, worst_s }), _) => worst_words(count, worst_s),
        (_, Some(unlike)) => unlike_words(unlike),
        _ => "of the slowest transfers nothing is known".to_owned(),
    }
}

/// Why 003's testbed says nothing of the slowest transfers.
fn unlike_words(unlike: Unlike003) -> String {
    let (period, rtt) = (units::time(BED_PERIOD_S), units::time(BED_RTT_S));
    match unlike {
        Unlike003::Period => format!(
            "003 measured a unit each {period}, and says nothing of one that comes more than {LIKE_BED} times as often \
             or as rarely"
        ),
        Unlike003::RoundTrip => format!(
            "003 measured over a round trip of {rtt}, and says nothing of one more than {LIKE_BED} times as long or as \
             short"
        ),
        Unlike003::Slots => format!(
            "slots of {ALONE_STRETCH} x what a transfer takes, as 003 measured them, are longer than the period: they \
             do not keep up"
        ),
    }
}

fn worst_words(count: usize, worst_s: f64) -> String {
    let (times, worst) = (failure::counted(count as u64, "time", "times"), units::time(worst_s));
    format!("the worst of {times} is {worst}, and P99 takes {TIMES_FOR_P99}")
}

fn path_words(args: &AdviseArgs, question: &Question, carried: Carried) -> String {
    let rate = units::bit_rate(question.efficiency * question.bandwidth_bits_per_s);
    let why = match (args.efficiency, args.rtt, carried.by) {
        (Some(_), ..) => "as you say",
        (None, None, _) => "nothing else is known; give --efficiency, or --rtt with --window and --loss",
        (None, Some(_), BoundBy::Line) => "the line binds, neither windows nor loss",
        (None, Some(_), BoundBy::Window) => "the window binds: a larger --window or more --streams",
        (None, Some(_), BoundBy::Loss) => "loss binds: more --streams, or another --cca",
    };
    let (at_most, beyond) = match carried.is_beyond_law {
        true => ("at most ", format!("; {}", model::BEYOND_LOSS)),
        false => ("", String::new()),
    };
    format!("A transfer gets {at_most}{rate}, alpha {:.3}: {why}{beyond}.", question.efficiency)
}

fn distance_words(advice: &Advice, question: &Question) -> String {
    let stream = advice.ways.iter().find(|way| way.way == Choice::Stream);
    match (question.rtt_s, stream) {
        (Some(_), Some(stream)) => {
            let distance = units::time(stream.distance_s);
            format!("Of the time on the path {distance} are its distance, half of the round trip.")
        }
        _ => "Distance is in none of these times; give --rtt.".to_owned(),
    }
}

fn tail_words(question: &Question, unlike_003: Option<Unlike003>) -> String {
    let words = match question.tail {
        _ if question.is_efficiency_bound => "not known, as alpha is not",
        None => "nothing is known; give --times, --score, or --every",
        Some(Tail::Measured(_)) => "as measured",
        Some(Tail::BoundOf { count, p99_s }) => {
            let count = units::count(count as u64);
            let bound = units::time(p99_s);
            return format!(
                "P99 of transfers: at most {bound} with 95 % confidence, by {count} measured times."
            );
        }
        Some(Tail::WorstOf { count, worst_s }) => {
            return format!("P99 of transfers: not known; {}.", worst_words(count, worst_s));
        }
        Some(Tail::Score(_)) => "not above the worst, from the score",
        Some(Tail::Like003(starts)) => match (unlike_003, starts) {
            (Some(unlike), _) => {
                return format!(
                    "P99 of transfers: not known; {}. Give --times or --score.",
                    unlike_words(unlike)
                );
            }
            (None, Starts::Scheduled) => {
                "as 003 measured in slots on its testbed, with bandwidth reserved (`--slot`); better give --times or \
                 --score"
            }
            (None, Starts::Simultaneous) => {
                "as 003 measured at this load on its testbed; better give --times or --score"
            }
        },
    };
    format!("P99 of transfers: {words}.")
}

/// Break-evens of a way, in words.
fn what_would_change(question: &Question, load: Option<f64>, way: &WayTimes) -> Result<Vec<String>> {
    let name = name(way.way);
    if !way.keeps_up {
        let rate = load.unwrap_or_default() * question.bandwidth_bits_per_s;
        return Ok(vec![format!("To keep up, {name} needs {}.", to_carry(question, rate)?)]);
    }
    let mut lines = Vec::new();
    let targets = [("To beat local", way.to_beat_local), ("To be in time as expected", way.to_be_in_time)];
    for (what, even) in targets {
        let Some(even) = even else { continue };
        let mut needs = Vec::new();
        needs.extend(even.efficiency.map(|alpha| format!("alpha >= {:.3}", up(alpha, 1e-3))));
        needs.extend(even.io_overhead.map(|theta| format!("theta <= {:.2}", down(theta, 1e-2))));
        // Without analysis there is no machine to be quicker.
        if question.remote_s > 0.0 && question.local_s.is_some() {
            needs.extend(even.ratio.map(|ratio| format!("r >= {:.2}", up(ratio, 1e-2))));
        }
        match (even.bandwidth_bits_per_s, even.efficiency, &question.path) {
            (Some(rate), ..) => needs.push(format!("bandwidth >= {}", rate_up(rate))),
            (None, Some(alpha), Some(path)) => {
                needs.extend(streams_or_window(path, alpha * question.bandwidth_bits_per_s)?);
            }
            (None, ..) => {}
        }
        let words = match needs.is_empty() {
            true => "no single parameter is enough".to_owned(),
            false => format!("{}; each with the others as they are", needs.join(", ")),
        };
        lines.push(format!("{what}, {name}: {words}."));
    }
    lines.extend(way.score_allowed.map(|score| {
        let score = down(score, 1e-1);
        format!("To be in time, {name}: the worst transfer <= {score:.1} x data / bandwidth.")
    }));
    Ok(lines)
}

/// Up to whole `steps`: what is asked again in the digits that were told has to be enough.
fn up(value: f64, step: f64) -> f64 {
    (value / step - STEP_ROUNDING).ceil() * step
}

/// Likewise down.
fn down(value: f64, step: f64) -> f64 {
    (value / step + STEP_ROUNDING).floor() * step
}

/// Of a step: by so little a number may be off that is whole steps.
const STEP_ROUNDING: f64 = 1e-9;

/// The same of a rate, in the digits that [`units::bit_rate`] shows: none behind the point from 100 on, else two.
fn rate_up(bits_per_s: f64) -> String {
    let digits = bits_per_s.max(1.0).log10().floor() as i32;
    let thousands = digits / 3 * 3;
    let step = 10_f64.powi(if digits - thousands == 2 { thousands } else { thousands - 2 });
    units::bit_rate(up(bits_per_s, step))
}

/// The same of a size, in the digits that [`units::size`] shows: two behind the point, of bytes none.
fn size_up(bytes: f64) -> String {
    let bytes = u128::from(up(bytes, 1.0) as u64);
    let mut unit = 1;
    while bytes >= 1024 * unit && unit < SIZE_UNIT_MAX {
        unit *= 1024;
    }
    let hundredths = (100 * bytes).div_ceil(unit);
    units::size(u64::try_from((hundredths * unit).div_ceil(100)).unwrap_or(u64::MAX))
}

/// Bytes of the largest unit of sizes, PiB.
const SIZE_UNIT_MAX: u128 = 1 << 50;

/// What carries such a rate: a wider line only where nothing else binds.
fn to_carry(question: &Question, rate_bits_per_s: f64) -> Result<String> {
    let bandwidth = match &question.path {
        None => Some(rate_bits_per_s / question.efficiency),
        Some(path) => path.bandwidth_for(rate_bits_per_s).map_err(of)?,
    };
    if let Some(bandwidth) = bandwidth {
        return Ok(format!("a bandwidth of {}", rate_up(bandwidth)));
    }
    let enough = question.path.map(|path| streams_or_window(&path, rate_bits_per_s)).transpose()?;
    let words = match enough.unwrap_or_default() {
        none if none.is_empty() => "more bandwidth, and wider windows or more streams".to_owned(),
        enough => enough.join(", or "),
    };
    Ok(format!("{} on the path: {words}", units::bit_rate(rate_bits_per_s)))
}

/// How many streams, and how wide a window of each, carry such a rate; nothing where the line is too narrow for it.
fn streams_or_window(path: &Path, rate_bits_per_s: f64) -> Result<Vec<String>> {
    let streams = path.streams_for(rate_bits_per_s).map_err(of)?;
    let window = path.window_for(rate_bits_per_s).map_err(of)?;
    let streams = streams.map(|streams| format!("streams >= {}", units::count(streams as u64)));
    let window = window.map(|bytes| format!("window >= {}", size_up(bytes)));
    Ok(streams.into_iter().chain(window).collect())
}

fn of(error: ModelError) -> Failure {
    model::of_model(OPERATION, &error)
}

fn name(way: Choice) -> &'static str {
    match way {
        Choice::Local => "local",
        Choice::Stream => "stream",
        Choice::File => "files",
    }
}

fn tier_words(tier: Tier) -> &'static str {
    match tier {
        Tier::RealTime => "tier 1, real time",
        Tier::NearRealTime => "tier 2, near real time",
        Tier::QuasiRealTime => "tier 3, quasi real time",
    }
}
