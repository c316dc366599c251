//! The program `thalweg`: reads the command line, runs the command, turns its end into an exit code.

mod identity;

mod copy;

mod serve;

mod ssh;

mod mover;

mod progress;

mod show;

mod out;

mod json;

mod tell;

mod receipt;

mod verify;

mod reach;

mod places;

mod check;

mod gc;

use clap::Parser;
use thalweg_cli::{args, exit, place, receipt_file, units};
use thalweg_mover::failure::{Failure, FailureKind};

fn main() -> std::process::ExitCode {
    // Modes and sizes are what the source says; the limits of the shell are ours to meet with an error.
    thalweg_sys::usage::clear_umask();
    let _ = thalweg_sys::usage::ignore_file_size_signal();
    let _ = thalweg_sys::usage::raise_open_files();
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let is_usage = error.use_stderr();
            if is_usage && std::env::args_os().any(|word| word == "--json") {
                let why = error.to_string();
                let failure = Failure::new(FailureKind::Usage, "read the command line", why.trim_end());
                json::tell(&json::error(&failure, Some(exit::Exit::Usage)));
            }
            let _ = error.print();
            return if is_usage { exit::Exit::Usage.into() } else { exit::Exit::Done.into() };
        }
    };
    start_log();
    let json = args.command.wants_json();
    let result = match args.command {
        args::Command::Cp(args) => copy::cp(&args),
        args::Command::Sync(args) => copy::sync(&args),
        args::Command::Verify(args) => verify::verify(&args),
        args::Command::Check(args) => check::check(&args),
        args::Command::Ls(args) => places::ls(&args),
        args::Command::Du(args) => places::du(&args),
        args::Command::Cat(args) => places::cat(&args),
        args::Command::Rm(args) => places::rm(&args),
        args::Command::Gc(args) => gc::gc(&args),
        args::Command::ExplainFilter(args) => tell::explain_filter(&args),
        args::Command::Serve(args) => serve::serve(&args),
        args::Command::Mover(args) => mover::mover(&args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            let exit = exit::Exit::of(failure.kind);
            if json {
                json::tell(&json::error(&failure, Some(exit)));
            }
            show::failure(&failure);
            exit.into()
        }
    }
}

/// Log lines go to stderr when `THALWEG_LOG` asks for them (`info`, `thalweg_mover=debug`, ...).
fn start_log() {
    use tracing_subscriber::EnvFilter;
    if let Ok(filter) = EnvFilter::try_from_env("THALWEG_LOG") {
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    }
}
