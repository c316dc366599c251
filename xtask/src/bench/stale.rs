//! Whether a committed result of `thalweg bench` is what its suite would give today: the options that it was made with
//! are those of its command line.

use clap::Parser;
use std::path::PathBuf;
use thalweg_cli::args::bench::{BenchCommand, RunArgs};
use thalweg_lab::bench::record::Results;
use thalweg_lab::bench::{Wishes, stale};
use thalweg_mover::link::ssh::split_words;

/// A command line from `bench` on.
#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: BenchCommand,
    /// All commands have it, and no suite goes by it.
    #[arg(long = "config", global = true)]
    _config: Option<PathBuf>,
}

/// In what a result differs from what its suite would give today, in words; nothing where nothing does, or where it was
/// not made by `thalweg bench`.
pub fn difference(results: &Results) -> Option<String> {
    match wishes(&results.about.command)? {
        Ok(wishes) => stale::difference(results, &wishes),
        Err(why) => Some(format!("its command is refused now: {why}")),
    }
}

/// What such a command line asks for; none of another command, why not of one that is not understood.
fn wishes(command: &str) -> Option<Result<Wishes, String>> {
    if !command.starts_with("thalweg ") {
        return None;
    }
    let words = match split_words(command.as_bytes()) {
        Ok(words) => words,
        Err(why) => return Some(Err(why.to_owned())),
    };
    let at = words.iter().position(|word| word.as_os_str() == "bench")?;
    let line = match Line::try_parse_from(&words[at..]) {
        Ok(line) => line,
        // What is wrong stands in its first line; the others show how it is used.
        Err(error) => return Some(Err(error.to_string().lines().next().unwrap_or_default().to_owned())),
    };
    line.command.suite().map(|(_, args)| Ok(asked(args)))
}

fn asked(args: &RunArgs) -> Wishes {
    Wishes {
        budget_bytes: args.budget,
        files_max: args.max_files,
        runs: args.runs,
        seed: args.seed,
        rtts: args.rtt.clone(),
        rate_bits_per_s: args.rate,
        losses: args.loss.clone(),
        time: args.time,
        stall: args.stall,
        target_bits_per_s: args.target,
        ..Wishes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_command_line_is_asked_for_the_options_that_a_result_was_made_with() {
        let of = |command: &str| wishes(command).map(Result::unwrap);
        let plain = of("thalweg bench order -q --out bench/results/order.jsonl").unwrap();
        assert_eq!((plain.budget_bytes, plain.rtts), (None, Vec::new()));
        let asked = of("thalweg bench sweep bulk --rtt 10ms,50ms --budget 512MiB --rate 2Gbit/s").unwrap();
        assert_eq!(asked.rtts, [10, 50].map(Duration::from_millis));
        assert_eq!((asked.budget_bytes, asked.rate_bits_per_s), (Some(512 << 20), Some(2_000_000_000)));
        let configured = of("thalweg bench order --config a.toml --budget 1GiB").unwrap();
        assert_eq!(configured.budget_bytes, Some(1 << 30));
        let quoted = of("thalweg bench files --out 'a file.jsonl' --budget 1GiB").unwrap();
        assert_eq!(quoted.budget_bytes, Some(1 << 30));
        assert!(of("cargo xtask bench --suite large").is_none() && of("").is_none());
        let odd = wishes("thalweg bench order --folklore 3").unwrap().unwrap_err();
        assert!(odd.contains("--folklore"), "{odd}");
    }
}
