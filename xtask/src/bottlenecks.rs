//! `cargo xtask bottlenecks`: copies with a bottleneck that was made on purpose, and whether `thalweg why` names it.
//!
//! Each is copied twice: with the bottleneck, and without it under the same other limits. The first is judged; the times
//! of both give the true factor. Figures go to stdout as JSON lines and to stderr as a table. Long, and as root: not in CI.
//!
//! With `--probe`: whether `thalweg probe` names the stage under the same throttles, before anything is copied.

use crate::tools;
use anyhow::{Result, ensure};
use scenarios::{Scenario, Throttle};
use serde_json::json;
use stand::{Deed, Stand};
use std::path::PathBuf;

mod scenarios;

mod stand;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Only those whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// How often each
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// This program instead of a release that is built now
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The program whose `testbed` makes long ways, if not the same
    #[arg(long, value_name = "FILE")]
    testbed: Option<PathBuf>,
    /// Probe instead of copying; without those that options of the copy make, or that only a copy has
    #[arg(long)]
    probe: bool,
    /// Fewer stages named truly are a failure
    #[arg(long, value_name = "PERCENT", default_value_t = 95)]
    at_least: usize,
}

/// A factor this close to the true one is right.
const CLOSE: f64 = 0.2;

/// Runs them.
///
/// # Errors
/// If fewer than asked for are named truly, or a copy fails.
pub fn run(args: &Args) -> Result<()> {
    let thalweg = args.program.clone().map_or_else(tools::build_release, Ok)?;
    let testbed = args.testbed.as_ref().unwrap_or(&thalweg);
    let Some(stand) = Stand::new(&thalweg, testbed)? else { return Ok(()) };
    let has_testbed = stand.has_testbed();
    let (mut runs, mut named, mut close) = (0, 0, 0);
    for _ in 0..args.rounds {
        for scenario in scenarios::all().iter().filter(|scenario| scenario.name.contains(&args.only)) {
            let is_far = |throttle: &Throttle| matches!(throttle, Throttle::Path(_));
            if !has_testbed && scenario.beside.iter().any(is_far) {
                eprintln!("skipped: {}: there is no `thalweg testbed`", scenario.name);
                continue;
            }
            let both = [scenario.narrow.clone(), scenario.beside.clone()].concat();
            if args.probe {
                let Some(stage) = stage_of(scenario) else { continue };
                runs += 1;
                named += usize::from(probe(&stand, scenario, &both, stage)?);
                continue;
            }
            let narrow = stand.run(scenario, &both, Deed::Copy)?;
            let wide = stand.run(scenario, &scenario.beside, Deed::Copy)?;
            let factor = narrow.seconds / wide.seconds;
            let (why, found) = (&narrow.why, &narrow.why["narrowest"]);
            let estimate = why["factor"].as_f64().unwrap_or(0.0);
            let low = why["factor_low"].as_f64().unwrap_or(estimate);
            let is_named = found["cause"] == scenario.cause && found["place"] == scenario.place;
            let is_close = low * (1.0 - CLOSE) <= factor && (estimate / factor - 1.0).abs() <= CLOSE;
            runs += 1;
            named += usize::from(is_named);
            close += usize::from(is_named && is_close);
            println!(
                "{}",
                json!({
                    "bottleneck": scenario.name, "cause": scenario.cause, "place": scenario.place,
                    "found": found["cause"], "found_at": found["place"], "named": is_named,
                    "seconds": narrow.seconds, "seconds_without": wide.seconds, "factor": factor,
                    "estimate": estimate, "estimate_low": low, "close": is_close,
                    "sentence": why["sentence"], "next": why["next"]["cause"],
                    "evidence": why["evidence"],
                })
            );
            eprintln!(
                "{} {:28} {:18} {:12} factor {factor:5.2}, said {estimate:5.2} {}",
                if is_named { "named " } else { "MISSED" },
                scenario.name,
                found["cause"].as_str().unwrap_or("-"),
                found["place"].as_str().unwrap_or("-"),
                if is_close { "" } else { "(off)" },
            );
        }
    }
    if args.probe {
        eprintln!("{named} of {runs} named");
        ensure!(named * 100 >= runs * args.at_least, "only {named} of {runs} were named");
        return Ok(());
    }
    eprintln!(
        "{named} of {runs} named, {close} of {runs} named with the factor within {:.0} %",
        CLOSE * 100.0
    );
    ensure!(named * 100 >= runs * args.at_least, "only {named} of {runs} were named");
    Ok(())
}

/// The stage that a probe is to name; `None` for what only a copy can show.
fn stage_of(scenario: &Scenario) -> Option<&'static str> {
    let is_of_the_copy = |throttle: &Throttle| {
        matches!(throttle, Throttle::Args(_) | Throttle::SlowStream { .. } | Throttle::TwoCards(..))
    };
    // A probe writes large files by an io_uring, which strace cannot delay.
    let is_delayed_write = |throttle: &Throttle| matches!(throttle, Throttle::Calls(_, "pwrite64", _));
    let is_not_probed = |throttle: &Throttle| is_of_the_copy(throttle) || is_delayed_write(throttle);
    if scenario.narrow.iter().any(is_not_probed) || scenario.is_there_already {
        return None;
    }
    Some(match (scenario.cause, scenario.place) {
        // What is read back is written, and no probe reads back.
        ("destination-disk", _) if scenario.args.contains(&"readback") => return None,
        ("source-disk" | "small-files-read" | "scan", _) => "source-storage",
        ("destination-disk" | "small-files-write" | "names" | "slow-sync", _) => "destination-storage",
        ("cpu-quota", "source") => "source-host",
        ("cpu-quota", "destination") => "destination-host",
        ("link" | "window" | "send-buffer" | "loss", _) => "network",
        _ => return None,
    })
}

fn probe(stand: &Stand, scenario: &Scenario, throttles: &[Throttle], stage: &str) -> Result<bool> {
    let answer = stand.run(scenario, throttles, Deed::Probe)?;
    let found = answer.why["narrowest"].as_str().unwrap_or("-");
    let is_named = found == stage;
    println!(
        "{}",
        json!({
            "bottleneck": scenario.name, "stage": stage, "found": found, "named": is_named,
            "seconds": answer.seconds, "probe": answer.why,
        })
    );
    let by = answer.why["decided_by"].as_str().unwrap_or("-");
    let word = if is_named { "named " } else { "MISSED" };
    eprintln!("{word} {:28} {found:20} by {by}, {:.1} s", scenario.name, answer.seconds);
    Ok(is_named)
}
