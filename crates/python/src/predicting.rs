//! How long a transfer would take, by what earlier ones took.

use crate::failures::raise;
use crate::options::{seconds, streams};
use crate::reaching::Reaching;
use crate::waiting::{GivingUp, on_a_thread};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::sync::Arc;
use thalweg_client::identity;
use thalweg_client::job::Asked;
use thalweg_client::options::{memory, units};
use thalweg_client::place::Places;
use thalweg_client::predict::{self as predicting, Wanted};
use thalweg_client::profiles::ByHand;
use thalweg_mover::event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::plan;
use thalweg_mover::run::copy::{From, Stop, To, Wishes};

/// What is asked.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct PredictOptions {
    deadline_s: Option<f64>,
    scan_s: f64,
    reads_back: bool,
    bwlimit: Option<String>,
    streams: Option<u16>,
}

/// The event `predicted`, as JSON. Nothing is measured: the program does that.
#[pyfunction]
pub fn predict(
    py: Python<'_>,
    places: (OsString, OsString),
    options: PredictOptions,
    reaching: Reaching,
    gives_up: Option<Bound<'_, GivingUp>>,
) -> PyResult<String> {
    let told = on_a_thread(py, gives_up.as_ref(), move |stop| predicted(places, &options, &reaching, stop))?;
    told.map_err(|failure| raise(py, &failure))
}

fn predicted(
    places: (OsString, OsString),
    options: &PredictOptions,
    reaching: &Reaching,
    stop: &Arc<Stop>,
) -> Result<String> {
    let usage = |cause: String| Failure::new(FailureKind::Usage, "predict", cause);
    let streams = streams("predict", options.streams)?;
    let asked = plan::Asked { streams, memory_bytes: memory::bytes_max(), ..plan::Asked::default() };
    let mut movement = reaching.movement(asked)?;
    let link = movement.link.clone();
    let bits_per_s_max = options.bwlimit.as_deref().map(units::parse_rate).transpose().map_err(usage)?;
    let state = identity::state_directory(reaching.state())?;
    let source = places.0.clone();
    let asked = Asked::read("predict", &[places.0, places.1], None, &Places::default())?;
    let mut far_movers = reaching.to_copy(state.clone(), event::nobody())?;
    let job = asked.reach(&mut far_movers, &state)?;
    movement.link.congestion = reaching.congestion(job.is_push())?.where_we_send(job.is_push());
    let wanted = Wanted {
        reads_back: options.reads_back,
        bits_per_s_max,
        asked: movement.asked.clone(),
        holds_still: movement.holds_still,
        // As a copy with the same options is remembered.
        by_hand: ByHand::of(&Wishes { movement, ..Wishes::default() }),
        deadline: options.deadline_s.map(seconds),
    };
    let size = predicting::size(&job, &source, &mut far_movers, seconds(options.scan_s), stop)?;
    let far = match (&job.from, &job.to) {
        (From::Far(far, _), _) | (_, To::Far(far, _)) => Some(far),
        _ => None,
    };
    let client = far.map(|far| far.dial(link.clone(), event::nobody())).transpose()?;
    let path = predicting::path(&job, client.as_ref());
    let told = predicting::predict(&job, size, &state, wanted, &path, &mut || Ok(None))?;
    Ok(told.as_json().to_string())
}
