//! `cargo xtask sim`: runs seeds of the simulation, and prints for each that fails the line that repeats it.

use std::time::Instant;
use thalweg_mover::sim::{self, Report};

#[derive(clap::Args)]
pub struct Args {
    /// Run this one seed, and tell everything that happens
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// How many seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Flows: what is still being made
    #[arg(long)]
    flows: bool,
    /// Frames: of detectors, by way of a hub
    #[arg(long, conflicts_with = "flows")]
    frames: bool,
    /// With --seed: do not tell, only say how it ends
    #[arg(long, requires = "seed")]
    quiet: bool,
    /// Stop after so many seeds failed
    #[arg(long, default_value_t = 10)]
    failures: usize,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.flows {
        return plain(args, "flows", sim::flows::check);
    }
    if args.frames {
        return plain(args, "frames", sim::frames::check);
    }
    if let Some(seed) = args.seed {
        match sim::check(seed, !args.quiet) {
            Ok(report) => println!("{report:#?}"),
            Err(line) => {
                println!("{line}");
                std::process::exit(1);
            }
        }
        return Ok(());
    }
    let started = Instant::now();
    let mut sum = Report::default();
    let mut failed = 0;
    let mut ran = 0;
    for seed in args.from..args.from.saturating_add(args.seeds) {
        ran += 1;
        match sim::check(seed, false) {
            Ok(report) => sum.add(&report),
            Err(line) => {
                println!("{line}");
                failed += 1;
                if failed >= args.failures {
                    break;
                }
            }
        }
    }
    println!(
        "{ran} seeds, {failed} failed, in {:.1} s: {} steps, {} faults, {} attempts, {} entries settled, \
         {} power cuts tried on copies, {:.0} s of virtual time",
        started.elapsed().as_secs_f64(),
        sum.steps,
        sum.faults,
        sum.runs,
        sum.settled,
        sum.cuts_tried,
        sum.time.as_secs_f64(),
    );
    if failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// A simulation that only says how many faults struck, or what was violated.
fn plain(args: &Args, name: &str, check: fn(u64) -> Result<u64, String>) -> anyhow::Result<()> {
    let started = Instant::now();
    let seeds = match args.seed {
        Some(seed) => seed..seed.saturating_add(1),
        None => args.from..args.from.saturating_add(args.seeds),
    };
    let (mut ran, mut failed, mut faults) = (0u64, 0, 0);
    for seed in seeds {
        ran += 1;
        match check(seed) {
            Ok(struck) => faults += struck,
            Err(what) => {
                println!("{what}: cargo xtask sim --{name} --seed {seed}");
                failed += 1;
                if failed >= args.failures {
                    break;
                }
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{ran} seeds of {name}, {failed} failed, in {seconds:.1} s: {faults} faults");
    anyhow::ensure!(failed == 0, "{failed} seeds failed");
    Ok(())
}
