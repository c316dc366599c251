//! `thalweg bench`.

use crate::exit::Exit;
use crate::{files, json, out, signals, units};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_cli::VERSION;
use thalweg_cli::args::bench::{BenchCommand, ImportArgs, RunArgs};
use thalweg_lab::bench::record::{Quantity, RESULT_BYTES_MAX, Results, Sample, counting, partial};
use thalweg_lab::bench::statistics::Summary;
use thalweg_lab::bench::{Suite, Wishes, import, run, table, write};
use thalweg_mover::failure::{Failure, FailureKind, Result, at_path, of_io};
use thalweg_sys::clock::unix_seconds;

/// `thalweg bench …`.
///
/// # Errors
/// If it cannot be done here, with the reason.
pub fn bench(command: &BenchCommand) -> Result<Exit> {
    match command {
        BenchCommand::Import(args) => import_file(args),
        BenchCommand::Show(args) => {
            let results =
                Results::read(&args.file).map_err(|error| about("read a result file", &args.file, &error))?;
            show(&results, None, args.json)
        }
        _ => match command.suite() {
            Some((name, args)) => measure(name, args),
            None => Err(Failure::new(FailureKind::Internal, "find a suite", "it has no name")),
        },
    }
}

fn measure(name: &str, args: &RunArgs) -> Result<Exit> {
    let suite = Suite::find(name).ok_or_else(|| {
        Failure::new(FailureKind::Internal, "find a suite", format!("there is no `{name}`"))
    })?;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    let ends = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    signals::listen(ends, move |_, _| asked.store(true, Ordering::Release))?;
    let date = units::moment(now());
    let out_file = args.out.clone().unwrap_or_else(|| {
        let plain: String = date.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        format!("{}-{plain}.jsonl", name.replace(' ', "-")).into()
    });
    let (program, version) = match &args.program {
        Some(program) => {
            // It is also started from other directories.
            let absolute = std::fs::canonicalize(program)
                .map_err(|error| about("find the program to measure", program, &error))?;
            let version = version_of(&absolute)?;
            (absolute, version)
        }
        None => {
            let own = std::env::current_exe().map_err(|error| of_io("find the program thalweg", &error))?;
            (own, format!("thalweg {VERSION}"))
        }
    };
    let (version, commit) = parted(&version);
    let wishes = Wishes {
        program,
        is_another: args.program.is_some(),
        version,
        commit,
        command: typed(),
        date,
        directory: args.dir.clone(),
        budget_bytes: args.budget,
        files_max: args.max_files,
        at_once: args.at_once.clone(),
        is_check_free: args.free_check,
        runs: args.runs,
        seed: args.seed,
        rtts: args.rtt.clone(),
        rate_bits_per_s: args.rate,
        losses: args.loss.clone(),
        time: args.time,
        stall: args.stall,
        target_bits_per_s: args.target,
        stop,
    };
    let is_quiet = args.quiet || args.json;
    let mut hear = |line: &str| {
        if !is_quiet {
            // Nobody who listens any more is no reason to stop measuring.
            crate::show::line(&json::inert(line));
        }
    };
    let results = run(suite, &wishes, &out_file, &mut hear)?;
    show(&results, Some(&out_file), args.json)
}

fn import_file(args: &ImportArgs) -> Result<Exit> {
    let failed = |error: std::io::Error| about("import results", &args.file, &error);
    let mut text = String::new();
    let mut file = std::fs::File::open(&args.file).map_err(failed)?;
    // What is longer ends in the middle, and is refused as no JSON.
    file.by_ref().take(RESULT_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    let odd = |why| at_path(Failure::new(FailureKind::Usage, "import results", why), &args.file);
    let results = import::results(&text, units::moment).map_err(odd)?;
    let out_file = args.out.clone().unwrap_or_else(|| args.file.with_extension("jsonl"));
    if out_file.as_os_str() == "-" {
        let cause = "--out names a file, and `-` is none: --json tells the cases on stdout";
        return Err(Failure::new(FailureKind::Usage, "import results", cause));
    }
    // By whatever names: the result is written below a hidden one first.
    let is_source = |path: &Path| files::is_same(path, &args.file);
    if is_source(&out_file) || is_source(&partial(&out_file)) {
        let cause = "the result would replace what is imported: name another --out";
        return Err(Failure::new(FailureKind::Usage, "import results", cause));
    }
    // It may be what was measured here, over the same path.
    if args.out.is_none() && out_file.symlink_metadata().is_ok() {
        let cause = "it is there already: name the result with --out";
        return Err(at_path(Failure::new(FailureKind::Usage, "import results", cause), &out_file));
    }
    let results = write(&results, &out_file)?;
    show(&results, Some(&out_file), args.json)
}

fn show(results: &Results, written: Option<&Path>, wants_json: bool) -> Result<Exit> {
    let exit = if results.samples.iter().any(Sample::is_wrong) { Exit::Partial } else { Exit::Done };
    out::answered(tell(results, written, wants_json), exit)
}

fn tell(results: &Results, written: Option<&Path>, wants_json: bool) -> Result<()> {
    if wants_json {
        return json::line(&described(results, written));
    }
    for line in table::of(results).lines() {
        out::line(&json::inert(line))?;
    }
    if let Some(path) = written {
        out::line(&json::inert(&format!("raw samples: {}", path.display())))?;
    }
    Ok(())
}

/// Values under the names that they have in the file: the statistics of each, with its unit.
fn summaries<'a>(all: impl Iterator<Item = (&'a String, &'a str, &'a [f64])>) -> Value {
    let mut found: BTreeMap<&str, (&str, Vec<f64>)> = BTreeMap::new();
    for (name, unit, values) in all {
        found.entry(name).or_insert_with(|| (unit, Vec::new())).1.extend(values);
    }
    let told = |(name, (unit, values)): (&str, (&str, Vec<f64>))| {
        let mut told = json!(Summary::of(&values)?);
        told["unit"] = json!(unit);
        Some((name.to_owned(), told))
    };
    found.into_iter().filter_map(told).collect()
}

/// All cases with the statistics of all that was measured in their runs that count.
fn described(results: &Results, written: Option<&Path>) -> Value {
    let cases: Vec<Value> = results
        .cases()
        .iter()
        .map(|case| {
            let of = |figure: fn(&Sample) -> f64| {
                Summary::of(&counting(case).into_iter().map(figure).collect::<Vec<_>>())
            };
            let counted = counting(case);
            let numbers = counted.iter().flat_map(|sample| &sample.measured);
            let numbers = numbers.filter_map(|(name, quantity)| match quantity {
                Quantity::Number { value, unit } => Some((name, unit.as_str(), std::slice::from_ref(value))),
                Quantity::Word(_) => None,
            });
            let many = counted.iter().flat_map(|sample| &sample.distributions);
            let many = many.map(|(name, one)| (name, one.unit.as_str(), one.values.as_slice()));
            json!({
                "series": case[0].series, "parameters": case[0].parameters,
                "rate_bits_per_s": of(Sample::shown_rate_bits_per_s),
                "whole_rate_bits_per_s": of(Sample::rate_bits_per_s), "wall_s": of(|sample| sample.wall_s),
                "measured": summaries(numbers), "distributions": summaries(many),
                "void": case.iter().filter(|sample| sample.is_void()).count(),
                "failed": case.iter().filter(|sample| sample.is_wrong()).count(),
            })
        })
        .collect();
    json!({
        "event": "bench", "out": written.map(|path| path.display().to_string()), "about": results.about,
        "cases": cases, "left_out": results.left_out,
    })
}

/// Name and version, and the commit; earlier versions do not say it.
fn parted(version: &str) -> (String, Option<String>) {
    match version.strip_suffix(')').and_then(|version| version.split_once(" (commit ")) {
        Some((version, commit)) => (version.to_owned(), Some(commit.to_owned())),
        None => (version.to_owned(), None),
    }
}

/// What another thalweg calls itself.
fn version_of(program: &Path) -> Result<String> {
    let asked = std::process::Command::new(program).arg("--version").output();
    let output = asked.map_err(|error| about("ask the program for its version", program, &error))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.success() && version.starts_with("thalweg ") {
        true => Ok(version),
        false => {
            let failure =
                Failure::new(FailureKind::Usage, "ask the program for its version", "it is no thalweg");
            Err(at_path(failure, program))
        }
    }
}

/// The command line, so that a shell understands it again.
fn typed() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=%+@".contains(c);
    let words = std::env::args_os().skip(1).map(|word| {
        let word = word.to_string_lossy().into_owned();
        match !word.is_empty() && word.chars().all(plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    });
    std::iter::once("thalweg".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn now() -> i64 {
    i64::try_from(unix_seconds()).unwrap_or(i64::MAX)
}

fn about(operation: &str, file: &Path, error: &std::io::Error) -> Failure {
    at_path(of_io(operation, error), file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_calls_itself_has_its_commit_or_has_none() {
        let of = |version: &str| parted(version).1;
        assert_eq!(of(&format!("thalweg {VERSION}")).as_deref(), Some(thalweg_cli::COMMIT));
        assert_eq!(
            parted("thalweg 0.1.0 (commit 33fe18f-dirty)"),
            ("thalweg 0.1.0".into(), Some("33fe18f-dirty".into()))
        );
        assert_eq!(parted("thalweg 0.1.0"), ("thalweg 0.1.0".into(), None));
    }

    #[test]
    fn json_has_all_that_was_measured_in_the_runs_that_count() {
        let about = json!({"about": {
            "suite": "congest", "question": "how long?", "date": "2026-11-22T02:40:00Z",
            "program": "thalweg 0.1.0", "command": "thalweg bench congest",
            "machine": {"cpu": "", "cores": 2, "memory_bytes": 1, "kernel": "", "file_system": "", "load": 0.0},
            "path": {"kind": "loopback"}, "iterations": 3, "encryption": "", "verification": "",
            "scaling": {"budget_bytes": null, "files_max": null, "seed": 0, "changes": []},
        }});
        let sample = |run: u32, worst_s: f64, void: f64| {
            json!({"sample": {
                "series": "simultaneous", "parameters": {}, "run": run, "order": run, "bytes": 1, "files": 0,
                "wall_s": 1.0,
                "measured": {
                    "worst": {"value": worst_s, "unit": "s"}, "speed_score": {"value": worst_s / 0.16, "unit": "1"},
                    "packets_lost_by_a_slow_machine": {"value": void, "unit": "1"}, "control": "cubic",
                },
                "distributions": {"transfer_time": {"unit": "s", "values": [0.2, worst_s]}},
            }})
        };
        let lines = [about, sample(1, 0.8, 0.0), sample(2, 90.0, 1.0), sample(3, 0.32, 0.0)];
        let text = lines.map(|line| line.to_string()).join("\n");
        let told = described(&Results::parse(text.as_bytes()).unwrap(), None);
        let case = &told["cases"][0];
        let worst = &case["measured"]["worst"];
        assert_eq!((&worst["unit"], &worst["count"], &worst["max"]), (&json!("s"), &json!(2), &json!(0.8)));
        assert_eq!(case["measured"]["speed_score"]["min"], json!(2.0), "{case}");
        assert_eq!(case["measured"]["control"], Value::Null, "of words there is no summary");
        let times = &case["distributions"]["transfer_time"];
        assert_eq!((&times["unit"], &times["count"], &times["min"]), (&json!("s"), &json!(4), &json!(0.2)));
    }
}
