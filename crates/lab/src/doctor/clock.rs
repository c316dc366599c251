//! The clock: what time is read from, and whether it is right.

use super::finding::{Finding, Subject};
use super::machine::Machine;
use super::measure::Probes;
use super::roots::{Roots, read};

/// Sources that are read without a call into the kernel (vDSO).
const QUICK: &[&str] = &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// Everything about it.
pub fn findings(roots: &Roots, machine: &Machine, probes: &Probes) -> Vec<Finding> {
    let directory = roots.sys.join("devices/system/clocksource/clocksource0");
    let mut found = Vec::new();
    match read(&directory.join("current_clocksource")) {
        Ok(current) => {
            let available = read(&directory.join("available_clocksource")).unwrap_or_default();
            let best = available.split_whitespace().find(|source| QUICK.contains(source));
            let is_good = QUICK.contains(&current.as_str()) || best.is_none();
            let wanted = best.unwrap_or(&current).to_owned();
            let scope = match machine.container {
                Some(_) => "the host",
                None => "this kernel",
            };
            let place = directory.join("current_clocksource");
            found.push(
                Finding::told(
                    Subject::Clock,
                    "clock source",
                    &current,
                    "others cost a call into the kernel each time the clock is read",
                )
                .wanted(&wanted, is_good, "vdso(7)")
                .scoped(scope)
                .remedied(
                    format!("echo {wanted} > {}", place.display()),
                    format!("echo {current} > {}", place.display()),
                ),
            );
        }
        Err(why) => found.push(Finding::unseen(Subject::Clock, "clock source", why)),
    }
    found.push(match &probes.clock {
        Some(Ok(state)) => Finding::told(
            Subject::Clock,
            "synchronised",
            match state.synchronised {
                true => format!("yes, off by {:.1} ms at most", state.error_max.as_secs_f64() * 1e3),
                false => "no".into(),
            },
            "times of files and receipts are compared across machines",
        )
        .wanted("yes", state.synchronised, "adjtimex(2)")
        .scoped(if machine.container.is_some() { "the host" } else { "this machine" })
        .remedied("start chronyd or systemd-timesyncd", "stop it again"),
        Some(Err(why)) => Finding::unseen(Subject::Clock, "synchronised", why),
        None => Finding::unseen(Subject::Clock, "synchronised", "not asked"),
    });
    found
}
