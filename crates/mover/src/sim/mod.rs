//! Simulation.

mod destination;

mod disk;

mod plan;

mod random;

mod source;

mod world;

pub use plan::{Fault, Plan};
pub use world::Report;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs one seed, and every sixteenth twice. `log`: tell every event on stderr.
///
/// # Errors
/// What was violated, and the line that repeats it.
pub fn check(seed: u64, log: bool) -> Result<Report, String> {
    let first = attempt(seed, log)?;
    if seed.is_multiple_of(16) || seed % 16 > 12 {
        let second = attempt(seed, false)?;
        if first != second {
            return Err(line(seed, "the same seed went another way"));
        }
    }
    Ok(first)
}

fn attempt(seed: u64, log: bool) -> Result<Report, String> {
    thread_local! {
        static LAST: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
    }
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() == Some(THREAD) {
                let text = info.payload_as_str().unwrap_or("panic").to_owned();
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                LAST.with(|last| *last.borrow_mut() = format!("{text} [{place}]"));
            } else {
                before(info);
            }
        }));
    });
    let run = move || {
        catch_unwind(AssertUnwindSafe(|| world::World::new(Plan::new(seed), log).run()))
            .map_err(|_| LAST.with(|last| line(seed, &last.borrow())))
    };
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(run);
    match thread.map(|thread| thread.join()) {
        Ok(Ok(result)) => result,
        _ => Err(line(seed, "the simulation could not run")),
    }
}

const THREAD: &str = "simulation";

fn line(seed: u64, what: &str) -> String {
    format!("cargo xtask sim --seed {seed}    # class {}: {what}", seed % 16)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_seed_breaks_a_promise() {
        let failures: Vec<String> = (0..320).filter_map(|seed| super::check(seed, false).err()).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
