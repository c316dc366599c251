//! Failures, for people.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use thalweg_client::hint;
use thalweg_mover::event::{Event, Events};
use thalweg_mover::link::ssh;
use thalweg_wire::message::Failure;
use thalweg_wire::path::Escaped;

/// A line on stderr.
pub fn line(text: &str) {
    use std::io::Write;
    // Nothing is to be done about a reader that is gone.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Shows what is noted before there is anything that draws on the terminal.
pub fn notes() -> Events {
    Arc::new(|event| {
        if let Event::Note(text) = event {
            line(&text);
        }
    })
}

/// `error:` and, where there is one, `hint:`, on stderr.
pub fn failure(failure: &Failure) {
    lines(failure).iter().for_each(|text| line(text));
}

/// The same of a failure at one of the places of a command, whose words stand before a path in it.
pub fn failure_at(place: &OsStr, failure: &Failure) {
    let Some(path) = &failure.path else { return self::failure(failure) };
    let place = Escaped(place.as_encoded_bytes());
    // A `.` says nothing beside the place.
    let whole = Failure { path: (!path.is_root()).then(|| path.clone()), ..failure.clone() };
    for text in lines(&whole) {
        match text.strip_prefix("error: ") {
            Some(said) => line(&format!("error: `{place}`: {said}")),
            None => line(&text),
        }
    }
}

/// The same, as lines.
pub fn lines(failure: &Failure) -> Vec<String> {
    let error = format!("error: {failure}");
    std::iter::once(error).chain(hint::of(failure).map(|hint| format!("hint: {hint}"))).collect()
}

/// `--state` for a further command, as a shell takes it and with a blank before it; nothing where it was not given.
pub fn state_option(state: Option<&Path>) -> String {
    let Some(state) = state else { return String::new() };
    let word = ssh::quote(Escaped(state.as_os_str().as_encoded_bytes()).to_string().as_bytes());
    format!(" --state {}", String::from_utf8_lossy(&word))
}
