//! The program `thalweg`: reads the command line, runs the command, turns its end into an exit code.

mod copy;

mod serve;

mod stream;

mod mark;

mod mover;

mod progress;

mod show;

mod out;

mod json;

mod tell;

mod verify;

mod reach;

mod places;

mod check;

mod gc;

mod running;

mod signals;

mod watch;

mod limit;

mod comparison;

mod why;

mod probe;

mod predict;

mod drawing;

mod testbed;

mod model;

mod advise;

mod doctor;

mod report;

mod frames;

mod dataset;

mod bench;

use clap::FromArgMatches;
use std::ffi::OsString;
use thalweg_cli::{args, config, exit, place, units, watch_args};
use thalweg_client::identity;
use thalweg_mover::failure::{Failure, FailureKind};

fn main() -> std::process::ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let wants_json = words.iter().any(|word| word == "--json");
    let (command, places) = match config::layered(&words) {
        Ok(layered) => layered,
        Err(failure) => return failed(&failure, wants_json),
    };
    let parsed =
        command.try_get_matches_from(words).and_then(|matches| args::Args::from_arg_matches(&matches));
    let args = match parsed {
        Ok(args) => args,
        Err(error) => {
            let is_usage = error.use_stderr();
            if is_usage && wants_json {
                let why = error.to_string();
                let failure = Failure::new(FailureKind::Usage, "read the command line", why.trim_end());
                json::tell(&json::error(&failure, Some(exit::Exit::Usage)));
            }
            let _ = error.print();
            return if is_usage { exit::Exit::Usage.into() } else { exit::Exit::Done.into() };
        }
    };
    start_log();
    if args.command.makes_copies() {
        prepare_process();
    }
    let json = args.command.wants_json();
    let result = match args.command {
        args::Command::Cp(args) => copy::cp(&args, &places),
        args::Command::Sync(args) => copy::sync(&args, &places),
        args::Command::Verify(args) => verify::verify(&args, &places),
        args::Command::Check(args) => check::check(&args, &places),
        args::Command::Ls(args) => places::ls(&args, &places),
        args::Command::Du(args) => places::du(&args, &places),
        args::Command::Cat(args) => places::cat(&args, &places),
        args::Command::Rm(args) => places::rm(&args, &places),
        args::Command::Gc(args) => gc::gc(&args, &places),
        args::Command::Limit(args) => limit::limit(&args),
        args::Command::Why(args) => why::why(&args),
        args::Command::Predict(args) => predict::predict(&args, &places),
        args::Command::Probe(args) => probe::probe(&args, &places),
        args::Command::ExplainFilter(args) => tell::explain_filter(&args),
        args::Command::Serve(args) => serve::serve(&args),
        args::Command::Testbed(command) => testbed::testbed(&command),
        args::Command::Advise(args) => advise::advise(&args),
        args::Command::Model(command) => model::model(&command),
        args::Command::Doctor(args) => doctor::doctor(&args),
        args::Command::Stream(args) => stream::stream(&args, &places),
        args::Command::Mark(args) => mark::mark(&args),
        args::Command::Frames(command) => frames::frames(&command, &places),
        args::Command::Bench(command) => bench::bench(&command),
        args::Command::Dataset(command) => dataset::dataset(&command),
        args::Command::Plot(args) => report::plot(&args),
        args::Command::Report(args) => report::report(&args),
        args::Command::Mover(args) => mover::mover(&args),
        args::Command::Watch(args) => watch::watch(&args, &places),
        args::Command::KeepRun(args) => watch::keep_run(&args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => failed(&failure, json),
    }
}

/// Modes and sizes are what the source says; the limits of the shell are ours to meet with an error.
fn prepare_process() {
    thalweg_sys::usage::clear_umask();
    let _ = thalweg_sys::usage::ignore_file_size_signal();
    let _ = thalweg_sys::usage::raise_open_files();
}

fn failed(failure: &Failure, json: bool) -> std::process::ExitCode {
    let exit = exit::Exit::of(failure.kind);
    if json {
        json::tell(&json::error(failure, Some(exit)));
    }
    show::failure(failure);
    exit.into()
}

/// Log lines go to stderr when `THALWEG_LOG` asks for them (`info`, `thalweg_mover=debug`, ...).
fn start_log() {
    use tracing_subscriber::EnvFilter;
    if let Ok(filter) = EnvFilter::try_from_env("THALWEG_LOG") {
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    }
}
