//! The program `thalweg`: reads the command line, runs the command, turns its end into an exit code.

mod commands;

mod progress;

mod show;

mod out;

mod files;

mod json;

mod copy_output;

mod running;

mod begun;

mod signals;

mod comparison;

mod drawing;

use args::serve::LogFormat;
use clap::FromArgMatches;
use std::ffi::OsString;
use thalweg_cli::{args, config, exit, help_flag, place, spellings, units};
use thalweg_client::{identity, login, threads};
use thalweg_mover::failure::{Failure, FailureKind};
use thalweg_wire::path::Escaped;

fn main() -> std::process::ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let wants_json = words.iter().any(|word| word == "--json");
    let is_data = args::words_ask_for_data(&words);
    let internal = config::internal(&words);
    let is_internal = internal.is_some();
    let (command, places) = match internal {
        Some((command, said)) => {
            said.iter().for_each(|text| show::line(text));
            (command, place::Places::default())
        }
        None => match config::layered(&words) {
            Ok(layered) => layered,
            Err(failure) => return failed(&failure, wants_json, is_data),
        },
    };
    // Not in the manual, which is made once for many commits.
    let command = command.long_version(thalweg_cli::VERSION);
    let parsed = help_flag::parse(&command, &words).and_then(|matches| {
        args::model::refuse_unheard(&matches)?;
        args::copy::refuse_unheard(&matches)?;
        args::report::refuse_unheard(&matches)?;
        spellings::refuse_alone(&command, &words)?;
        args::Args::from_arg_matches(&matches)
    });
    let parsed = parsed.map_err(|error| match config::wrong_variable(&error, &words) {
        Some(why) => clap::Error::raw(error.kind(), why),
        None => spellings::explained(error, &command, &words),
    });
    let args = match parsed {
        Ok(args) => args,
        Err(error) => {
            let is_usage = error.use_stderr();
            if is_usage && wants_json {
                let why = error.to_string();
                let failure = Failure::new(FailureKind::Usage, "read the command line", why.trim_end());
                tell(&json::error(&failure, Some(exit::Exit::Usage)), is_data);
            }
            print(&error);
            return if is_usage { exit::Exit::Usage.into() } else { exit::Exit::Done.into() };
        }
    };
    if !is_internal {
        let names = std::env::vars_os().map(|(name, _)| name);
        config::unknown_variables(names).iter().for_each(|why| show::line(&format!("warning: {why}")));
    }
    thalweg_sys::process::bound_arenas();
    start_log(args.command.log_format());
    let detaches = args.command.job().is_some_and(|(job, _)| job.detach) && !begun::is_job();
    if args.command.makes_copies() && !detaches {
        prepare_process();
    }
    let (json, is_data) = (args.command.wants_json(), args.command.stdout_is_data());
    let done = match detaches {
        true => commands::detach(&args.command, &words),
        false => commands::run(args.command, &places),
    };
    let code: std::process::ExitCode = match done {
        Ok(exit) => and_told(exit).into(),
        // As with every Unix tool: whoever read it has what they wanted.
        Err(failure) if out::is_unread(&failure) => exit::Exit::Done.into(),
        Err(failure) => failed(&failure, json, is_data),
    };
    login::settle();
    code
}

/// A reader takes what is not told for not done: that it could not be written is in the exit code.
fn and_told(exit: exit::Exit) -> exit::Exit {
    out::drain_aside();
    let Some(failure) = out::untold() else { return exit };
    show::failure(failure);
    exit.worst(exit::Exit::of(failure.kind))
}

/// Modes and sizes are what the source says; the limits of the shell are ours to meet with an error.
fn prepare_process() {
    thalweg_sys::process::clear_umask();
    let _ = thalweg_sys::process::ignore_file_size_signal();
    let _ = thalweg_sys::process::raise_open_files();
}

/// `is_data`: stdout is what was asked for, and nothing else may get in there.
fn failed(failure: &Failure, json: bool, is_data: bool) -> std::process::ExitCode {
    let exit = match failure.kind {
        FailureKind::Stopped => signals::exit(),
        kind => exit::Exit::of(kind),
    };
    // What was done before it.
    let _ = out::flush();
    if json {
        tell(&json::error(failure, Some(exit)), is_data);
    }
    show::failure(failure);
    exit.into()
}

fn tell(event: &serde_json::Value, is_data: bool) {
    match is_data {
        false => json::tell(event),
        true => json::tell_aside(event),
    }
}

/// What THALWEG_LOG asks for.
///
/// # Errors
/// What of it makes no sense.
fn log_filter(words: &std::ffi::OsStr) -> Result<tracing_subscriber::EnvFilter, String> {
    let words = words.to_str().ok_or("it is no text")?;
    // To the library any word is the name of a module, of which there is nothing to log.
    let level = |word: &str| word.parse::<tracing_subscriber::filter::LevelFilter>().is_ok();
    let is_odd = |word: &&str| !word.is_empty() && !word.contains(['=', ':']) && !word.starts_with("thalweg");
    let mut parts = words.split(',').map(str::trim).filter(|_| !words.contains('['));
    if let Some(odd) = parts.find(|word| is_odd(word) && !level(word)) {
        return Err(format!("`{}` is no level", Escaped(odd.as_bytes())));
    }
    // Of all that stands below it, what `start_log` says of it would not hold.
    if words.contains("ureq:") || words.contains("ureq_proto:") {
        return Err("what `ureq` logs has signed addresses in it".to_owned());
    }
    tracing_subscriber::EnvFilter::try_new(words).map_err(|error| error.to_string())
}

/// Log lines go to stderr when `THALWEG_LOG` asks for them (`info`, `thalweg_mover=debug`, ...) or a form was asked
/// for.
fn start_log(form: Option<LogFormat>) {
    use tracing_subscriber::EnvFilter;
    let asked = std::env::var_os("THALWEG_LOG").and_then(|words| match log_filter(&words) {
        Ok(filter) => Some(filter),
        Err(why) => {
            let words = Escaped(words.as_encoded_bytes());
            show::line(&format!(
                "warning: THALWEG_LOG is not followed: `{words}`: {why}; `info` or `thalweg_mover=debug,info` would be"
            ));
            None
        }
    });
    let Some(mut filter) = asked.or_else(|| form.map(|_| EnvFilter::new("info"))) else { return };
    // Further down these log signed addresses of a store, and whoever has one can do what it says.
    for quiet in ["ureq=info", "ureq_proto=info"] {
        if let Ok(directive) = quiet.parse() {
            filter = filter.add_directive(directive);
        }
    }
    // Colours are for people: a journal keeps what it is given.
    let colours = form != Some(LogFormat::Json) && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .with_writer(std::io::stderr)
        // A line that cannot be written is no reason to end: it would be told where it could not be written.
        .log_internal_errors(false);
    let _ = match form {
        Some(LogFormat::Json) => log.json().flatten_event(true).with_current_span(false).try_init(),
        _ => log.try_init(),
    };
}
/// What clap says of a command line. It takes escape sequences out of the words that it repeats, but not the control
/// characters behind ASCII, which a terminal obeys too.
fn print(error: &clap::Error) {
    let text = error.to_string();
    let is_c1 = |c: char| ('\u{80}'..='\u{9f}').contains(&c);
    match text.contains(is_c1) {
        true => show::line(text.replace(is_c1, "\u{fffd}").trim_end()),
        false => drop(error.print()),
    }
}
