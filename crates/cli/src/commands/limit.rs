//! `thalweg limit`: another rate for copies, streams and watches that run.

use crate::args::running::LimitArgs;
use crate::exit::Exit;
use crate::{identity, out, running, units};
use serde_json::json;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::plan::show_rate;

/// Tells one copy, or all that this user runs.
///
/// # Errors
/// `Usage` for what is no rate; `NotFound` where there is no such copy.
pub fn limit(args: &LimitArgs) -> Result<Exit> {
    let usage = |cause: String| Failure::new(FailureKind::Usage, "read the command line", cause);
    let Some((rate, pids)) = args.words.split_last() else {
        return Err(usage("the rate is missing".into()));
    };
    let bits = units::parse_limit(rate).map_err(usage)?;
    let pids = pids
        .iter()
        .map(|pid| pid.parse().map_err(|_| usage(format!("`{pid}` is no process number"))))
        .collect::<Result<Vec<u32>>>()?;
    let state = identity::state_directory(args.state.as_deref())?;
    let asked = if pids.is_empty() { running::all(&state)? } else { pids.clone() };
    let mut told = 0;
    for pid in asked {
        match running::ask(&state, pid, &json!({"limit_bits_per_s": bits}))? {
            Some(_) => {
                let rate = bits.map_or("no limit".to_owned(), show_rate);
                out::line(&format!("{pid}: {rate}"))?;
                told += 1;
            }
            None if pids.is_empty() => {}
            None => {
                let cause = format!("no copy of yours with process number {pid} runs");
                return Err(Failure::new(FailureKind::NotFound, "limit", cause));
            }
        }
    }
    if told == 0 {
        return Err(Failure::new(FailureKind::NotFound, "limit", "no copy of yours runs"));
    }
    out::flush()?;
    Ok(Exit::Done)
}
