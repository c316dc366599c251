//! `thalweg limit`: another rate for copies, streams, watches and daemons that run.

use crate::args::running::LimitArgs;
use crate::exit::Exit;
use crate::{identity, out, running, show, units};
use serde_json::json;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::plan::show_rate;

/// Tells some copies, or all that this user runs on this machine. One that cannot be told does not keep the others.
///
/// # Errors
/// `Usage` for what is no rate; `NotFound` where no copy runs.
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
    let absent = |cause: String| Failure::new(FailureKind::NotFound, "limit", cause);
    let (mut told, mut failed) = (0, Vec::new());
    for pid in asked {
        let failure = match running::ask(&state, pid, &json!({"limit_bits_per_s": bits})) {
            Ok(Some(_)) => {
                let rate = bits.map_or("no limit".to_owned(), show_rate);
                out::tell(&format!("{pid}: {rate}"));
                told += 1;
                continue;
            }
            Ok(None) if pids.is_empty() => continue,
            Ok(None) => absent(format!(
                "no copy and no daemon of yours with process number {pid} runs on this machine"
            )),
            Err(failure) => failure,
        };
        show::failure(&failure);
        failed.push(failure.kind);
    }
    match (told, failed.is_empty()) {
        (0, true) => Err(absent("no copy of yours runs on this machine".to_owned())),
        (0, false) => Ok(failed.into_iter().map(Exit::of).fold(Exit::Done, Exit::worst)),
        _ => Ok(Exit::of_entries(failed.into_iter())),
    }
}
