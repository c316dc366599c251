//! Failures, for people.

use crate::out;
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
    out::drain_aside();
    line_now(text);
}

/// The same from where the work is done, which does not wait for a reader; see [`out::tell_aside_later`].
pub fn line_later(text: String) {
    out::tell_aside_later(text, None);
}

/// The same before all that waits.
pub fn line_now(text: &str) {
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

/// The same of a failure at one of the places of a command, whose words stand before it. A failure without a path may
/// have them already: its cause begins with what it is about.
pub fn failure_at(place: &OsStr, failure: &Failure) {
    if failure.path.is_none() && failure.cause.starts_with('`') {
        return self::failure(failure);
    }
    let place = Escaped(place.as_encoded_bytes());
    // A `.` says nothing beside the place.
    let path = failure.path.clone().filter(|path| !path.is_root());
    let whole = Failure { path, ..failure.clone() };
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

/// `--state` for a further command, as a shell takes it and with a blank before it; nothing where it was not given. A
/// directory that cannot be shown as it is stands as `DIR`.
pub fn state_option(state: Option<&Path>) -> String {
    let Some(state) = state.map(|state| state.as_os_str().as_encoded_bytes()) else { return String::new() };
    if Escaped(state).to_string().as_bytes() != state {
        return " --state DIR".to_owned();
    }
    format!(" --state {}", String::from_utf8_lossy(&ssh::quote(state)))
}
