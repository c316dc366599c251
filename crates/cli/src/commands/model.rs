//! `thalweg model`: one law at a time.

// Measured times, as files have them.
pub mod measurements;

// The law that is fitted to them, and its words.
pub mod fit;

// Measured times, case by case.
pub mod tail;

use crate::exit::Exit;
use crate::{json, out, units};
use serde_json::{Value, json};
use std::time::Duration;
use thalweg_cli::args::model::{
    BasinArgs, Control, FramesArgs, LossArgs, ModelCommand, PublishedArgs, RepairArgs, TailArgs, VolumeArgs,
    WindowArgs,
};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::model::frames::Scan;
use thalweg_mover::model::loss::CongestionControl;
use thalweg_mover::model::published::{Kind, PUBLISHED};
use thalweg_mover::model::repair::Damage;
use thalweg_mover::model::{ModelError, basin, bit_error, loss, score, volume, window};
use thalweg_wire::path::Escaped;

/// Of a loss above [`loss::SENSIBLE_MAX`].
pub const BEYOND_LOSS: &str =
    "beyond a loss of 1 % timeouts count as well: streams carry less than these laws say";

/// `thalweg model …`.
///
/// # Errors
/// If the law cannot be asked that, or a file cannot be read.
pub fn model(command: &ModelCommand) -> Result<Exit> {
    let exit = match command {
        ModelCommand::Fit(args) => fit::show_fit(args),
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
