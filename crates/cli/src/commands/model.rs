//! `thalweg model`: one law at a time.

// Measured times, case by case.
pub mod tail;

use crate::exit::Exit;
use crate::{json, out, units};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use thalweg_cli::args::model::{
    BasinArgs, Control, FitArgs, FramesArgs, LossArgs, ModelCommand, PublishedArgs, RepairArgs, TailArgs,
    VolumeArgs, WindowArgs,
};
use thalweg_lab::bench::record::Sample;
use thalweg_lab::report::FLAT;
use thalweg_mover::failure::{self, Failure, FailureKind, Result, at_path, of_io};
use thalweg_mover::model::files::{Bound, Optimum, Work};
use thalweg_mover::model::fit::{Condition, Fit, Measurement, OneSided, Prediction, fit};
use thalweg_mover::model::frames::Scan;
use thalweg_mover::model::loss::CongestionControl;
use thalweg_mover::model::published::{Kind, PUBLISHED};
use thalweg_mover::model::repair::Damage;
use thalweg_mover::model::{ModelError, basin, bit_error, loss, score, volume, window};
use thalweg_wire::path::Escaped;

/// Bytes of a file of measurements that are read at most: about a million of them.
const INPUT_BYTES_MAX: u64 = 128 << 20;

/// Of a cost that the measurements do not show.
const NOTHING: &str = "nothing that was measured";

/// Of a loss above [`loss::SENSIBLE_MAX`].
pub const BEYOND_LOSS: &str =
    "beyond a loss of 1 % timeouts count as well: streams carry less than these laws say";

/// `thalweg model …`.
///
/// # Errors
/// If the law cannot be asked that, or a file cannot be read.
pub fn model(command: &ModelCommand) -> Result<Exit> {
    let exit = match command {
        ModelCommand::Fit(args) => show_fit(args),
        ModelCommand::Window(args) => show_window(args),
        ModelCommand::Loss(args) => show_loss(args),
        ModelCommand::Volume(args) => show_volume(args),
        ModelCommand::Published(args) => show_published(args),
        ModelCommand::Tail(args) => show_tail(args),
        ModelCommand::Frames(args) => show_frames(args),
        ModelCommand::Repair(args) => show_repair(args),
        ModelCommand::Basin(args) => show_basin(args),
    }?;
    out::answered(Ok(()), exit)
}

/// What a law cannot be asked is the asker's mistake.
pub fn of_model(operation: &str, error: &ModelError) -> Failure {
    Failure::new(FailureKind::Usage, operation, error.to_string())
}

/// The law of a congestion control.
pub fn control(control: Control) -> CongestionControl {
    match control {
        Control::Reno => CongestionControl::Reno,
        Control::Cubic => CongestionControl::Cubic,
        Control::Bbr => CongestionControl::Bbr,
    }
}

/// TCP's payload in a packet: IP and TCP take 40 bytes, time stamps 12.
pub fn segment_bytes(mtu: u32) -> f64 {
    f64::from(mtu) - 52.0
}

fn show_window(args: &WindowArgs) -> Result<Exit> {
    let of = |error: ModelError| of_model("ask the window law", &error);
    let rtt_s = args.rtt.as_secs_f64();
    let carried =
        args.window.map(|bytes| window::rate_bits_per_s(bytes as f64, rtt_s)).transpose().map_err(of)?;
    let wanted = args.rate.map(|rate| rate as f64);
    let product =
        wanted.map(|rate| window::bandwidth_delay_product_bytes(rate, rtt_s)).transpose().map_err(of)?;
    let streams = match (wanted, args.window) {
        (Some(rate), Some(bytes)) => Some(window::streams_needed(rate, rtt_s, bytes as f64).map_err(of)?),
        _ => None,
    };
    if args.json {
        json::line(&json!({
            "event": "model", "law": "window", "rtt_s": rtt_s, "window_bytes": args.window,
            "rate_bits_per_s": carried, "wanted_bits_per_s": wanted, "bandwidth_delay_product_bytes": product,
            "streams": streams,
        }))?;
        return Ok(Exit::Done);
    }
    if let (Some(carried), Some(bytes)) = (carried, args.window) {
        let rate = units::rate((carried / 8.0) as u64, 1.0);
        out::line(&format!("a window of {} carries {rate} in each stream", units::size(bytes)))?;
    }
    if let (Some(product), Some(wanted)) = (product, wanted) {
        let size = units::size(product as u64);
        out::line(&format!("{} needs {size} under way (bandwidth-delay product)", units::bit_rate(wanted)))?;
    }
    if let Some(streams) = streams {
        let streams = failure::counted(streams as u64, "stream", "streams");
        out::line(&format!("that is {streams} with this window"))?;
    }
    Ok(Exit::Done)
}

fn show_loss(args: &LossArgs) -> Result<Exit> {
    let of = |error: ModelError| of_model("ask the laws of loss", &error);
    let (rtt_s, segment) = (args.rtt.as_secs_f64(), segment_bytes(args.mtu));
    let bit_errors = bit_error::bit_error_rate(args.loss, f64::from(args.mtu)).map_err(of)?;
    let mut rows = Vec::new();
    for law in [CongestionControl::Reno, CongestionControl::Cubic] {
        let rate = loss::rate_bits_per_s(law, args.loss, rtt_s, segment).map_err(of)?;
        let wanted = args.rate.map(|rate| rate as f64);
        let allowed =
            wanted.map(|wanted| loss::loss_allowed(law, wanted, rtt_s, segment)).transpose().map_err(of)?;
        let streams = wanted.zip(rate).map(|(wanted, rate)| (wanted / rate).ceil());
        rows.push((law, rate, streams, allowed.flatten()));
    }
    if args.json {
        let laws: Vec<Value> = rows
            .iter()
            .map(|(law, rate, streams, allowed)| {
                json!({"cca": law, "rate_bits_per_s": rate, "streams": streams, "loss_allowed": allowed})
            })
            .collect();
        json::line(&json!({
            "event": "model", "law": "loss", "loss": args.loss, "rtt_s": rtt_s, "segment_bytes": segment,
            "bit_error_rate": bit_errors, "wanted_bits_per_s": args.rate, "laws": laws,
        }))?;
        return Ok(Exit::Done);
    }
    for (law, rate, streams, allowed) in &rows {
        let name = format!("{law:?}").to_lowercase();
        let rate = rate.map(units::bit_rate).unwrap_or_default();
        let mut line = format!("{name:<6} {rate} in each stream");
        if let (Some(streams), Some(wanted), Some(allowed)) = (streams, args.rate, allowed) {
            let wanted = units::bit_rate(wanted as f64);
            let streams = failure::counted(*streams as u64, "stream", "streams");
            line += &format!("; {wanted} takes {streams}, or a loss of {allowed:.1e} with one");
        }
        out::line(&line)?;
    }
    out::line(match args.loss <= loss::BBR_LOSS_MAX {
        true => "bbr    loss up to 5 % does not bind it; what is lost is sent again",
        false => "bbr    a loss beyond 5 % binds it too, by no law that is known",
    })?;
    if args.loss > loss::SENSIBLE_MAX {
        out::line(BEYOND_LOSS)?;
    }
    out::line(&format!("as an error rate of bits, with packets of {} bytes: {bit_errors:.1e}", args.mtu))?;
    Ok(Exit::Done)
}

fn show_volume(args: &VolumeArgs) -> Result<Exit> {
    let of = |error: ModelError| of_model("ask for a volume", &error);
    let (data, rate) = (args.data.map(|bytes| bytes as f64), args.rate.map(|rate| rate as f64));
    let time = args.time.map(|time| time.as_secs_f64());
    let (bytes, rate, time_s) = match (data, rate, time) {
        (Some(bytes), Some(rate), None) => (bytes, rate, volume::time_s(bytes, rate).map_err(of)?),
        (Some(bytes), None, Some(time_s)) => {
            (bytes, volume::rate_bits_per_s(bytes, time_s).map_err(of)?, time_s)
        }
        (None, Some(rate), time) => {
            let time_s = time.unwrap_or(volume::DAY_S);
            (volume::bytes(rate, time_s).map_err(of)?, rate, time_s)
        }
        _ => {
            let why = "give two of --data, --rate and --time, or --rate alone";
            return Err(Failure::new(FailureKind::Usage, "ask for a volume", why));
        }
    };
    if args.json {
        json::line(&json!({
            "event": "model", "law": "volume", "bytes": bytes, "rate_bits_per_s": rate, "time_s": time_s,
        }))?;
        return Ok(Exit::Done);
    }
    let (decimal, binary) = (units::decimal_size(bytes), units::size(bytes as u64));
    out::line(&format!("{decimal} ({binary}) in {} at {}", units::time(time_s), units::bit_rate(rate)))?;
    Ok(Exit::Done)
}

fn show_published(args: &PublishedArgs) -> Result<Exit> {
    let times = PUBLISHED.iter().map(|one| match args.data {
        None => Ok(None),
        Some(bytes) => volume::time_s(bytes as f64, one.bits_per_s).map(Some),
    });
    let times: Vec<Option<f64>> =
        times.collect::<std::result::Result<_, _>>().map_err(|error| of_model("ask for a time", &error))?;
    if args.json {
        let rows: Vec<Value> = PUBLISHED
            .iter()
            .zip(&times)
            .map(|(one, time_s)| json!({"rate": one, "time_s": time_s}))
            .collect();
        json::line(&json!({"event": "model", "law": "published", "bytes": args.data, "rates": rows}))?;
        return Ok(Exit::Done);
    }
    let mut last = None;
    for (one, time_s) in PUBLISHED.iter().zip(&times) {
        if last != Some(one.kind) {
            last = Some(one.kind);
            out::line(match one.kind {
                Kind::Instrument => "instruments make",
                Kind::Cloud => "clouds carry at most, their owners say",
                Kind::Measured => "measured were",
            })?;
        }
        let time = time_s.map_or(String::new(), |time_s| format!("  {:>9}", units::time(time_s)));
        let rate = units::bit_rate(one.bits_per_s);
        out::line(&format!("  {:<40} {rate:>14}{time}  {}, {}", one.name, one.year, one.source))?;
    }
    Ok(Exit::Done)
}

fn show_tail(args: &TailArgs) -> Result<Exit> {
    let cases = tail::read(&args.file, &args.case)?;
    let ideal_s = args.data.zip(args.rate).map(|(data, rate)| volume::time_s(data as f64, rate as f64));
    let of = |error: ModelError| of_model("ask for a tail", &error);
    let ideal_s = ideal_s.transpose().map_err(of)?;
    for case in &cases {
        tell_tail(args, case, ideal_s)?;
    }
    Ok(Exit::Done)
}

fn tell_tail(args: &TailArgs, case: &tail::Case, ideal_s: Option<f64>) -> Result<()> {
    let of = |error: ModelError| of_model("ask for a tail", &error);
    let tail = case.tail;
    let score = ideal_s.map(|ideal_s| score::speed_score(tail.max_s, ideal_s)).transpose().map_err(of)?;
    if args.json {
        return json::line(&json!({
            "event": "model", "law": "tail", "series": case.series, "parameters": case.parameters, "tail": tail,
            "theoretical_s": ideal_s, "speed_score": score,
        }));
    }
    let words = case.words();
    let margin = if words.is_some() { "  " } else { "" };
    if let Some(words) = words {
        out::line(&words)?;
    }
    for (name, time_s) in
        [("P50", tail.p50_s), ("P90", tail.p90_s), ("P99", tail.p99_s), ("worst", tail.max_s)]
    {
        out::line(&format!("{margin}{name:<6} {}", units::time(time_s)))?;
    }
    let times = units::counted(tail.count as u64, "time", "times");
    let count = format!("{margin}of {times}");
    out::line(&match tail.p99_bound_s.map(units::time) {
        Some(bound) => format!("{count}: P99 of further ones is at most {bound}, with 95 % confidence"),
        None => format!("{count}: P99 of further ones is not known, for that takes {}", score::TIMES_FOR_P99),
    })?;
    if let (Some(ideal_s), Some(score)) = (ideal_s, score) {
        // The line cannot be outrun: then --data or --rate is not of these transfers.
        let odd = if score < 1.0 { "; below 1: quicker than this line carries these data" } else { "" };
        let ideal = units::time(ideal_s);
        out::line(&format!("{margin}ideal  {ideal}: Streaming Speed Score {score:.2}{odd}"))?;
    }
    Ok(())
}

fn show_frames(args: &FramesArgs) -> Result<Exit> {
    let of = |error: ModelError| of_model("ask about frames", &error);
    let scan = Scan {
        frames: args.frames as f64,
        frame_bytes: args.frame as f64,
        period_s: args.every.as_secs_f64(),
        rate_bits_per_s: args.rate as f64,
        file_start_s: args.per_file.as_secs_f64(),
    };
    let streamed_s = scan.streamed_s().map_err(of)?;
    let mut in_files = Vec::new();
    let tens = std::iter::successors(Some(1_u64), |files| files.checked_mul(10));
    let usual: Vec<u64> = tens.take_while(|&files| files < args.frames).chain([args.frames]).collect();
    for &files in if args.files.is_empty() { &usual } else { &args.files } {
        in_files.push((files, scan.in_files_s(files as f64).map_err(of)?));
    }
    if args.json {
        let rows: Vec<Value> =
            in_files.iter().map(|(files, time_s)| json!({"files": files, "time_s": time_s})).collect();
        json::line(&json!({
            "event": "model", "law": "frames", "bytes": scan.bytes(), "acquisition_s": scan.acquisition_s(),
            "streamed_s": streamed_s, "in_files": rows,
        }))?;
        return Ok(Exit::Done);
    }
    let (size, taken) = (units::decimal_size(scan.bytes()), units::time(scan.acquisition_s()));
    let frames = failure::counted(args.frames, "frame", "frames");
    out::line(&format!("{frames}, {size}, taken within {taken}; the last has arrived after"))?;
    out::line(&format!("{:>14}  {}", "streamed", units::time(streamed_s)))?;
    for (files, time_s) in &in_files {
        let saved = units::share(1.0 - streamed_s / time_s);
        let name = units::files(*files);
        out::line(&format!("{name:>14}  {}; a stream saves {saved}", units::time(*time_s)))?;
    }
    Ok(Exit::Done)
}

fn show_repair(args: &RepairArgs) -> Result<Exit> {
    let of = |error: ModelError| of_model("ask what damage costs", &error);
    let (files, rate) = (args.files as f64, args.rate as f64);
    let damage = Damage { files, file_bytes: args.data as f64 / files, failures: args.failures as f64 };
    let sound_s = volume::time_s(args.data as f64, rate).map_err(of)?;
    let by_file_s = damage.time_s(rate).map_err(of)?;
    let by_chunk_s = damage.time_by_chunk_s(args.chunk as f64, rate).map_err(of)?;
    let effective = damage.effective_rate_bits_per_s(rate).map_err(of)?;
    if args.json {
        json::line(&json!({
            "event": "model", "law": "repair", "sound_s": sound_s, "by_file_s": by_file_s,
            "by_chunk_s": by_chunk_s, "effective_by_file_bits_per_s": effective,
        }))?;
        return Ok(Exit::Done);
    }
    out::line(&format!("without damage     {}", units::time(sound_s)))?;
    let seen = units::bit_rate(effective);
    out::line(&format!("whole files again  {}, as if the rate were {seen}", units::time(by_file_s)))?;
    out::line(&format!("chunks again       {}", units::time(by_chunk_s)))?;
    Ok(Exit::Done)
}

fn show_basin(args: &BasinArgs) -> Result<Exit> {
    let of = |error: ModelError| of_model("ask the basin", &error);
    let stage = |(name, rate, latency): &(String, u64, Duration)| basin::Stage {
        name: name.clone(),
        capacity_bits_per_s: *rate as f64,
        latency_s: latency.as_secs_f64(),
    };
    let stages: Vec<basin::Stage> = args.stages.iter().map(stage).collect();
    let found = basin::basin(&stages).map_err(of)?;
    let time_s = args.data.map(|bytes| found.time_s(bytes as f64)).transpose().map_err(of)?;
    if args.json {
        let rows: Vec<Value> = stages
            .iter()
            .zip(&found.widths)
            .map(|(stage, width)| json!({"stage": stage, "width": width}))
            .collect();
        json::line(&json!({
            "event": "model", "law": "basin", "narrowest": stages[found.narrowest].name,
            "rate_bits_per_s": found.rate_bits_per_s, "latency_s": found.latency_s, "time_s": time_s, "stages": rows,
        }))?;
        return Ok(Exit::Done);
    }
    let widest = stages.iter().map(|stage| stage.name.chars().count()).max().unwrap_or_default();
    for (at, (stage, width)) in stages.iter().zip(&found.widths).enumerate() {
        let mark = if at == found.narrowest { ">" } else { " " };
        let gain = match width.rate_without_bits_per_s / found.rate_bits_per_s {
            gain if gain.is_infinite() => "the only stage".to_owned(),
            gain if gain > 1.0 => format!("wider, the whole gains up to {gain:.2} times"),
            _ => "wider, nothing is gained".to_owned(),
        };
        let name = json::inert(&Escaped(stage.name.as_bytes()).to_string());
        let in_flight = match width.in_flight_bytes {
            0.0 => String::new(),
            bytes => format!("; {} must be under way in it", units::size(bytes as u64)),
        };
        out::line(&format!(
            "{mark} {name:<widest$}  {:>12}  {:>7.2} x  {gain}{in_flight}",
            units::bit_rate(stage.capacity_bits_per_s),
            width.times_narrowest
        ))?;
    }
    let rate = units::rate((found.rate_bits_per_s / 8.0) as u64, 1.0);
    let time = time_s.map(|time_s| {
        format!(", {} takes {}", units::size(args.data.unwrap_or_default()), units::time(time_s))
    });
    out::line(&format!("the way carries {rate}{}", time.unwrap_or_default()))?;
    Ok(Exit::Done)
}

/// A fit for one concurrency, and what it was not shown.
struct Fitted {
    fit: Fit,
    held_out: Vec<Measurement>,
}

fn show_fit(args: &FitArgs) -> Result<Exit> {
    let read = read_measurements(&args.file)?;
    let (mut exit, mut last) = (Exit::Done, None);
    let mut fitted = 0;
    // What cannot be fitted is in the exit code also where nobody reads.
    let heard = |told: Result<()>| match told {
        Err(failure) if !out::is_unread(&failure) => Err(failure),
        _ => Ok(()),
    };
    for (concurrency, all) in &read.groups {
        let is_point = |one: &&Measurement| {
            args.points.is_empty() || args.points.iter().any(|&files| files as f64 == one.files)
        };
        let (points, held_out): (Vec<&Measurement>, Vec<&Measurement>) = all.iter().partition(is_point);
        let points: Vec<Measurement> = points.into_iter().copied().collect();
        match fit(&points) {
            Ok(fit) => {
                fitted += 1;
                let held_out = held_out.into_iter().copied().collect();
                heard(tell_fit(args, &Fitted { fit, held_out }))?;
            }
            Err(error) => {
                let failure = of_fit(*concurrency, &error);
                heard(match args.json {
                    true => json::line(&json::error(&failure, None)),
                    false => out::line(&format!("concurrency {concurrency}: {}", failure.cause)),
                })?;
                exit = Exit::Partial;
                last = Some(failure);
            }
        }
    }
    if read.passed_over > 0 && !args.json {
        let lines = units::counted(read.passed_over as u64, "line", "lines");
        heard(out::line(&format!("{lines} without a measurement passed over")))?;
    }
    match (fitted, last) {
        (0, Some(failure)) => Err(failure),
        _ => Ok(exit),
    }
}

fn of_fit(concurrency: u64, error: &ModelError) -> Failure {
    let mut failure = of_model("fit measurements", error);
    failure.cause = format!("of concurrency {concurrency}: {}", failure.cause);
    failure
}

fn tell_fit(args: &FitArgs, fitted: &Fitted) -> Result<()> {
    let foretold =
        Foretold::of(args, fitted).map_err(|error| of_fit(fitted.fit.concurrency as u64, &error))?;
    match args.json {
        true => foretold.tell_as_json(&fitted.fit),
        false => {
            tell_costs(&fitted.fit)?;
            foretold.tell(&fitted.fit)
        }
    }
}

/// What a fit says of the files that were asked about, for so many bytes.
struct Foretold<'a> {
    bytes: f64,
    optimum: Optimum,
    is_flat: bool,
    best: Prediction,
    by_files: Vec<(u64, Prediction)>,
    /// Beside what it was not shown.
    held_out: Vec<(&'a Measurement, Prediction)>,
    /// Of those the mean of what it is off by, if there are any.
    held_out_error: Option<f64>,
}

impl<'a> Foretold<'a> {
    fn of(args: &FitArgs, fitted: &'a Fitted) -> std::result::Result<Foretold<'a>, ModelError> {
        let fit = &fitted.fit;
        let bytes = args.data.map_or(fit.bytes.1, |bytes| bytes as f64);
        let optimum = best_files(fit, bytes, args.files_max)?;
        let is_flat = is_flat(fit, bytes, args.files_max)?;
        let best = fit.predict(bytes, optimum.files)?;
        let mut by_files = Vec::new();
        for &files in &args.predict {
            by_files.push((files, fit.predict(bytes, files as f64)?));
        }
        let mut held_out = Vec::new();
        for one in &fitted.held_out {
            held_out.push((one, fit.predict(one.work.bytes, one.files)?));
        }
        let errors: Vec<f64> =
            held_out.iter().map(|(one, prediction)| (prediction.time_s / one.time_s - 1.0).abs()).collect();
        let held_out_error = (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64);
        Ok(Foretold { bytes, optimum, is_flat, best, by_files, held_out, held_out_error })
    }

    fn tell_as_json(&self, fit: &Fit) -> Result<()> {
        let of_files: Vec<Value> =
            self.by_files.iter().map(|(files, time)| json!({"files": files, "time": time})).collect();
        let others: Vec<Value> = self
            .held_out
            .iter()
            .map(|(one, time)| {
                json!({
                    "files": one.files, "bytes": one.work.bytes, "measured_s": one.time_s, "time": time,
                    "bound": fit.bound(one.work.bytes),
                })
            })
            .collect();
        json::line(&json!({
            "event": "model", "law": "files", "fit": fit, "condition": fit.condition(), "bytes": self.bytes,
            "bound": fit.bound(self.bytes), "optimum": self.optimum, "is_flat": self.is_flat, "time": self.best,
            "predicted": of_files, "held_out": others, "held_out_mean_absolute_error": self.held_out_error,
        }))
    }

    fn tell(&self, fit: &Fit) -> Result<()> {
        if let Some(error) = self.held_out_error {
            out::line(&format!(
                "  held out       {}, predicted with a mean error of {}",
                units::counted(self.held_out.len() as u64, "measurement", "measurements"),
                units::share(error)
            ))?;
        }
        out::line(&format!("  best           {}", optimum_words(&self.optimum, self.is_flat)))?;
        let words_of =
            |prediction: &Prediction| prediction_words(self.bytes, prediction, fit.bound(self.bytes));
        out::line(&format!("                 {}", words_of(&self.best)))?;
        for (files, prediction) in &self.by_files {
            let words = words_of(prediction);
            out::line(&format!("  {:<14} {words}", units::files(*files)))?;
        }
        Ok(())
    }
}

/// Of what a fit was made, its costs, whether its condition holds, and what it is off by.
fn tell_costs(fit: &Fit) -> Result<()> {
    let costs = &fit.costs;
    let ends = |(low, high): (f64, f64), show: &dyn Fn(u64) -> String| match low == high {
        true => show(low as u64),
        false => format!("{} to {}", show(low as u64), show(high as u64)),
    };
    out::line(&format!(
        "concurrency {}: {} of {} in {} {}",
        fit.concurrency,
        failure::counted(fit.measurements as u64, "measurement", "measurements"),
        ends(fit.bytes, &units::size),
        ends(fit.files, &units::count),
        if fit.files.1 > 1.0 { "files" } else { "file" }
    ))?;
    let at_most = if fit.is_split_known { "" } else { "at most " };
    let rate_of = |s_per_byte: f64| match s_per_byte {
        0.0 => NOTHING.to_owned(),
        s_per_byte => format!("{s_per_byte:.3e} s/B ({} in each process)", units::bit_rate(8.0 / s_per_byte)),
    };
    let once = if fit.is_split_known { units::time(costs.once_s) } else { "stands in a_trs".to_owned() };
    out::line(&format!("  a_trs          {at_most}{}", rate_of(costs.transfer_s_per_byte)))?;
    let start = match costs.transfer_start_s {
        0.0 => NOTHING.to_owned(),
        seconds => format!("{} for each file", units::time(seconds)),
    };
    out::line(&format!("  b_trs          {start}"))?;
    out::line(&format!("  a_ck           {}", rate_of(costs.check_s_per_byte)))?;
    out::line(&format!("  b_ck + b_srvs  {once}"))?;
    out::line(&format!("  a_ck < a_trs   {}", condition_words(fit)))?;
    out::line(&format!("  off by         {} in the mean", units::share(fit.mean_absolute_error)))
}

/// The best number of files. Beyond what was measured nobody knows: the most is asked for by name.
///
/// # Errors
/// As [`Fit::optimum`].
pub fn best_files(fit: &Fit, bytes: f64, files_max: Option<u64>) -> std::result::Result<Optimum, ModelError> {
    fit.optimum(bytes, most_files(fit, files_max))
}

/// As [`Fit::is_flat`], up to the number of files that [`best_files`] goes to.
///
/// # Errors
/// As [`Fit::is_flat`].
pub fn is_flat(fit: &Fit, bytes: f64, files_max: Option<u64>) -> std::result::Result<bool, ModelError> {
    fit.is_flat(bytes, most_files(fit, files_max))
}

fn most_files(fit: &Fit, files_max: Option<u64>) -> f64 {
    files_max.map_or(fit.files.1.max(fit.concurrency), |files| files as f64)
}

/// Whether the condition of a fit's law holds.
pub fn condition_words(fit: &Fit) -> &'static str {
    match fit.condition() {
        Condition::Holds => "holds",
        Condition::Broken => {
            "does NOT hold: verification is the narrower stage, real times are longer than these"
        }
        Condition::Unknown if is_neither_seen(fit) => {
            "cannot be told: of neither anything was measured, larger files show them"
        }
        Condition::Unknown if fit.is_split_known => {
            "cannot be told: chance makes as much of a difference, more measurements show it"
        }
        Condition::Unknown => {
            "cannot be told from one size of data: measure another, at least a fifth larger"
        }
    }
}

/// As of many tiny files.
fn is_neither_seen(fit: &Fit) -> bool {
    fit.is_split_known && fit.costs.transfer_s_per_byte <= 0.0 && fit.costs.check_s_per_byte <= 0.0
}

/// How many files, of what size, and what keeps it from more or fewer; or that it is all the same.
pub fn optimum_words(optimum: &Optimum, is_flat: bool) -> String {
    if is_flat {
        return format!("{FLAT}, as far as the measurements tell");
    }
    let (files, size) = (units::files(optimum.files as u64), units::size(optimum.file_bytes as u64));
    let why = match optimum.bound {
        Bound::Balance => "fewer leave the last verification uncovered, more cost starts",
        Bound::Concurrency => "one for each process; more only cost starts",
        Bound::Most => "more may be better still: measure more, or allow more with --files-max",
    };
    format!("{files} of {size}: {why}")
}

/// What a prediction is worth that is a bound.
pub fn bound_words(bound: OneSided) -> &'static str {
    match bound {
        OneSided::Upper => "upper bound: measured with one size only",
        OneSided::Lower => "lower bound: measured with one size only",
    }
}

fn prediction_words(bytes: f64, prediction: &Prediction, bound: Option<OneSided>) -> String {
    let range = match (bound, prediction.low_s, prediction.high_s) {
        (Some(bound), ..) => format!(" ({})", bound_words(bound)),
        (None, Some(low_s), Some(high_s)) => {
            format!(" (P1 {}, P99 {})", units::time(low_s), units::time(high_s))
        }
        _ => " (no range: as many parameters as measurements)".to_owned(),
    };
    let rate = units::rate(bytes as u64, prediction.time_s);
    format!("{}{range}, {rate}", units::time(prediction.time_s))
}

/// Measurements by concurrency.
pub struct Measurements {
    /// The measurements of each concurrency.
    pub groups: BTreeMap<u64, Vec<Measurement>>,
    /// Lines that were something else.
    pub passed_over: usize,
}

/// Of a sample whose figures count.
fn concurrency_of(sample: &Sample) -> Option<f64> {
    sample.parameter("concurrency").filter(|_| sample.counts())
}

/// Reads lines of JSON: `files`, `bytes`, `concurrency`, `seconds`; or a result file of `thalweg bench`, of which
/// samples with the parameter `concurrency` count, unless their run was void or failed.
///
/// # Errors
/// `Usage` with the line that makes no sense, or if there is no measurement; what the kernel says.
pub fn read_measurements(file: &Path) -> Result<Measurements> {
    const KEYS: [&str; 4] = ["files", "bytes", "concurrency", "seconds"];
    let mut read = Measurements { groups: BTreeMap::new(), passed_over: 0 };
    for (number, line) in lines(&read_text(file)?) {
        let object: Value = serde_json::from_str(line).map_err(|error| bad_line(file, number, &error))?;
        let object = of_bench(&object, file, number)?.map_or(object, |sample| match concurrency_of(&sample) {
            Some(concurrency) => json!({
                "files": sample.files, "bytes": sample.bytes, "concurrency": concurrency, "seconds": sample.wall_s,
            }),
            None => Value::Null,
        });
        let values = KEYS.map(|key| object.get(key));
        if values.iter().all(Option::is_none) {
            read.passed_over += 1;
            continue;
        }
        let mut numbers = [0.0; 4];
        for (at, value) in values.iter().enumerate() {
            let value = value.and_then(Value::as_f64).filter(|&value| value > 0.0);
            numbers[at] = value.ok_or_else(|| {
                bad_line(file, number, &format_args!("`{}` must be a positive number", KEYS[at]))
            })?;
        }
        let [files, bytes, concurrency, time_s] = numbers;
        if concurrency.fract() != 0.0 || files < concurrency {
            let why = "`concurrency` must be a whole number, and not more than `files`";
            return Err(bad_line(file, number, &why));
        }
        let work = Work { bytes, concurrency };
        read.groups.entry(concurrency as u64).or_default().push(Measurement { files, work, time_s });
    }
    match read.groups.is_empty() {
        true => Err(failure_about(file, &"holds no measurement")),
        false => Ok(read),
    }
}

/// The sample of a line of a result file; `None` of any other line.
///
/// # Errors
/// `Usage` if it says that it is a sample, and is none.
fn of_bench(object: &Value, file: &Path, number: usize) -> Result<Option<Sample>> {
    let Some(sample) = object.get("sample").cloned() else { return Ok(None) };
    let sample: Sample = serde_json::from_value(sample).map_err(|error| bad_line(file, number, &error))?;
    let checked = sample.in_base_units().and_then(|sample| sample.check().map(|()| sample));
    checked.map(Some).map_err(|why| bad_line(file, number, &why))
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())).filter(|(_, line)| !line.is_empty())
}

fn read_text(file: &Path) -> Result<String> {
    let mut text = String::new();
    let limit = INPUT_BYTES_MAX + 1;
    let done = match file.as_os_str() == "-" {
        true => std::io::stdin().lock().take(limit).read_to_string(&mut text),
        false => std::fs::File::open(file).and_then(|opened| opened.take(limit).read_to_string(&mut text)),
    };
    if let Err(error) = done {
        return Err(at_path(of_io("read measurements", &error), file));
    }
    match text.len() as u64 > INPUT_BYTES_MAX {
        true => Err(failure_about(file, &format_args!("is larger than {}", units::size(INPUT_BYTES_MAX)))),
        false => Ok(text),
    }
}

fn bad_line(file: &Path, number: usize, why: &dyn std::fmt::Display) -> Failure {
    failure_about(file, &format_args!("line {number}: {why}"))
}

fn failure_about(file: &Path, why: &dyn std::fmt::Display) -> Failure {
    at_path(Failure::new(FailureKind::Usage, "read measurements", why), file)
}
