//! What a path carries and what processors do, moment by moment, while something runs (001 Fig 6).

use super::network::Testbed;
use super::record::{Distribution, Sample};
use super::workspace::Workspace;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::failure::Result;

/// How often it is looked. CPU is counted in ticks of 10 ms: a look that is much sooner sees steps.
const LOOK: Duration = Duration::from_millis(100);

/// Names in samples.
pub const LOOK_EVERY: &str = "look_every";
pub const RATE: &str = "rate_over_time";
pub const CORES: &str = "cores_over_time";

/// What was counted up to a moment.
struct Look {
    at_s: f64,
    bytes: u64,
    cpu_s: f64,
}

/// Measures, and looks on: the rate from left to right with all headers, and how many cores clients and servers keep
/// busy; the wire's own are not among them. Both from one look to the next.
///
/// # Errors
/// Those of `measure`.
pub fn beside(
    workspace: &Workspace,
    testbed: &Testbed,
    measure: impl FnOnce() -> Result<Sample>,
) -> Result<Sample> {
    let (is_over, began) = (AtomicBool::new(false), Instant::now());
    let look = || -> Option<Look> {
        let bytes = testbed.carried().ok()?.forward_bytes;
        Some(Look { at_s: began.elapsed().as_secs_f64(), bytes, cpu_s: workspace.cpu_s() })
    };
    let (sample, looks) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut looks = Vec::new();
            // Once more after the end.
            while !is_over.load(Ordering::Relaxed) {
                looks.extend(look());
                std::thread::sleep(LOOK);
            }
            looks.extend(look());
            looks
        });
        let sample = measure();
        is_over.store(true, Ordering::Relaxed);
        (sample, looking.join().unwrap_or_default())
    });
    Ok(with(sample?, &looks))
}

fn with(sample: Sample, looks: &[Look]) -> Sample {
    let mut sample = sample.measured(LOOK_EVERY, LOOK.as_secs_f64(), "s");
    let between = |of: fn(&Look, &Look) -> f64| -> Vec<f64> {
        looks
            .windows(2)
            .map(|pair| of(&pair[0], &pair[1]) / (pair[1].at_s - pair[0].at_s).max(1e-3))
            .collect()
    };
    let rates = between(|one, two| two.bytes.saturating_sub(one.bytes) as f64 * 8.0);
    let cores = between(|one, two| (two.cpu_s - one.cpu_s).max(0.0));
    sample.distributions.insert(RATE.to_owned(), Distribution { unit: "bit/s".into(), values: rates });
    sample.distributions.insert(CORES.to_owned(), Distribution { unit: "1".into(), values: cores });
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_from_one_look_to_the_next_and_never_negative() {
        let look = |at_s, bytes, cpu_s| Look { at_s, bytes, cpu_s };
        // CPU of a process that ended between two looks may be missed for once.
        let looks = [look(0.0, 0, 1.0), look(0.1, 1000, 1.2), look(0.3, 1000, 1.1)];
        let sample = with(Sample::default(), &looks);
        let of = |name: &str| sample.distributions[name].values.clone();
        assert_eq!(of(RATE), [80_000.0, 0.0]);
        assert!((of(CORES)[0] - 2.0).abs() < 1e-9 && of(CORES)[1] == 0.0);
    }
}
