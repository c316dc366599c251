//! Failures become Python exceptions: one class for each kind, see `thalweg/errors.py`.

use pyo3::prelude::*;
use serde_json::Value;
use thalweg_client::events;
use thalweg_mover::failure::Failure;

/// The exception for a failure.
pub fn raise(py: Python<'_>, failure: &Failure) -> PyErr {
    raise_text(py, &Value::Object(events::error(failure)).to_string())
}

/// The exception for a failure that is told as JSON.
pub fn raise_text(py: Python<'_>, text: &str) -> PyErr {
    let made = py
        .import("thalweg.errors")
        .and_then(|errors| errors.getattr("of_json"))
        .and_then(|of_json| of_json.call1((text,)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
