//! The program `thalweg`: reads the command line, runs the command, turns its end into an exit code.

mod args;

mod place;

mod identity;

mod copy;

mod serve;

mod ssh;

mod mover;

mod progress;

mod show;

mod units;

mod exit;

use clap::Parser;

fn main() -> std::process::ExitCode {
    // Modes and sizes are what the source says; the limits of the shell are ours to meet with an error.
    thalweg_sys::usage::clear_umask();
    let _ = thalweg_sys::usage::ignore_file_size_signal();
    let _ = thalweg_sys::usage::raise_open_files();
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { exit::Exit::Usage.into() } else { exit::Exit::Done.into() };
        }
    };
    start_log();
    let result = match args.command {
        args::Command::Cp(args) => copy::cp(&args),
        args::Command::Sync(args) => copy::sync(&args),
        args::Command::Serve(args) => serve::serve(&args),
        args::Command::Mover(args) => mover::mover(&args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            show::failure(&failure);
            exit::Exit::of(failure.kind).into()
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
