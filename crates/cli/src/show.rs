//! Failures, for people.

use std::sync::Arc;
use thalweg_client::hint;
use thalweg_mover::event::{Event, Events};
use thalweg_wire::message::Failure;

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

/// The same, as lines.
pub fn lines(failure: &Failure) -> Vec<String> {
    let error = format!("error: {failure}");
    std::iter::once(error).chain(hint::of(failure).map(|hint| format!("hint: {hint}"))).collect()
}
