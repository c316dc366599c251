//! Events as JSON, one object on a line: docs/reference/json.md is their schema.

use crate::exit::Exit;
use crate::{out, show};
use serde_json::{Map, Value};
use std::ffi::OsStr;
use thalweg_client::events;
pub use thalweg_client::events::{about, listed, progress, why};
use thalweg_client::staged::Summary;
use thalweg_mover::failure::Result;
use thalweg_mover::model::prediction::Compared;
use thalweg_mover::run::copy::Report;
use thalweg_wire::RelativePath;
use thalweg_wire::message::Failure;

/// A failure of the whole command, or of an entry that a listing could not look at.
pub fn error(failure: &Failure, exit: Option<Exit>) -> Value {
    with_exit(events::error(failure), exit)
}

/// A failure at one of the places of a command: a path in it is below that place.
pub fn error_at(place: &OsStr, failure: &Failure) -> Value {
    Value::Object(events::error_at(place, failure))
}

/// What is missing, extra or different.
pub fn difference(what: &str, path: &RelativePath, why: &str) -> Value {
    Value::Object(events::difference(what, path, why))
}

/// The last event of a copy.
pub fn finished(report: &Report, dry_run: bool, exit: Exit) -> Value {
    with_exit(events::finished(report, dry_run), Some(exit))
}

/// The last event of a copy through a stage.
pub fn staged(summary: &Summary, dry_run: bool, exit: Exit) -> Value {
    with_exit(events::staged(summary, dry_run), Some(exit))
}

/// Predicted against actual, as an event of its own.
pub fn compared(compared: &Compared) -> Value {
    Value::Object(events::prediction(compared))
}

fn with_exit(mut object: Map<String, Value>, exit: Option<Exit>) -> Value {
    if let Some(exit) = exit {
        object.insert("exit".into(), exit.code().into());
    }
    Value::Object(object)
}

/// Prints an event of a command that only prints.
///
/// # Errors
/// As [`out::line`].
pub fn line(value: &Value) -> Result<()> {
    out::line(&inert(&value.to_string()))
}

/// Prints an event that is to be seen at once; see [`out::tell`].
pub fn tell(value: &Value) {
    out::tell(&inert(&value.to_string()));
}

/// The same from where the work is done, which does not wait for a reader; see [`out::tell_later`].
pub fn tell_later(value: &Value) {
    out::tell_later(inert(&value.to_string()), None);
}

/// The same of how far the copy with this number is: only the newest is told to a reader that pauses.
pub fn tell_progress(value: &Value, number: usize) {
    out::tell_later(inert(&value.to_string()), Some(number));
}

/// The same on stderr, where stdout is what was asked for.
pub fn tell_aside(value: &Value) {
    show::line(&inert(&value.to_string()));
}

/// The same from where the work is done; see [`out::tell_aside_later`].
pub fn tell_aside_later(value: &Value) {
    out::tell_aside_later(inert(&value.to_string()), None);
}

/// The same of how far it is: only the newest is told to a reader that pauses.
pub fn tell_progress_aside(value: &Value) {
    out::tell_aside_later(inert(&value.to_string()), Some(1));
}

/// The same JSON without what a terminal would act on: it can stand in strings only, where it can be escaped. (The
/// serialiser escapes below 0x20 only; a peer's words may hold more.)
pub fn inert(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_graphic() || c == ' ' || thalweg_wire::path::is_inert(c) || c == '\\' {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}
