//! The program `thalweg`: reads the command line, runs the command, turns its end into an exit code.

mod commands;

mod progress;

mod show;

mod out;

mod json;

mod copy_output;

mod reach;

mod running;

mod signals;

mod comparison;

mod congestion;

mod drawing;

use args::serve::LogFormat;
use clap::FromArgMatches;
use std::ffi::OsString;
use thalweg_cli::{args, config, exit, place, units};
use thalweg_client::identity;
use thalweg_mover::failure::{Failure, FailureKind};

fn main() -> std::process::ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let wants_json = words.iter().any(|word| word == "--json");
    let (command, places) = match config::layered(&words) {
        Ok(layered) => layered,
        Err(failure) => return failed(&failure, wants_json),
    };
    // Not in the manual, which is made once for many commits.
    let command = command.long_version(thalweg_cli::VERSION);
    let parsed = command.try_get_matches_from(words).and_then(|matches| {
        args::model::refuse_unheard(&matches)?;
        args::Args::from_arg_matches(&matches)
    });
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
    start_log(args.command.log_format());
    if args.command.makes_copies() {
        prepare_process();
    }
    let json = args.command.wants_json();
    match commands::run(args.command, &places) {
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
    // What was done before it.
    let _ = out::flush();
    if json {
        json::tell(&json::error(failure, Some(exit)));
    }
    show::failure(failure);
    exit.into()
}

/// Log lines go to stderr when `THALWEG_LOG` asks for them (`info`, `thalweg_mover=debug`, ...) or a form was asked for.
fn start_log(form: Option<LogFormat>) {
    use tracing_subscriber::EnvFilter;
    let asked = EnvFilter::try_from_env("THALWEG_LOG").ok();
    let Some(filter) = asked.or_else(|| form.map(|_| EnvFilter::new("info"))) else { return };
    // Colours are for people: a journal keeps what it is given.
    let colours = form != Some(LogFormat::Json) && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr);
    let _ = match form {
        Some(LogFormat::Json) => log.json().flatten_event(true).with_current_span(false).try_init(),
        _ => log.try_init(),
    };
}
