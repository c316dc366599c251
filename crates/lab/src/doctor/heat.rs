//! Heat: whether it slows the CPUs now, and how often it did since boot.

use super::finding::{Finding, Subject};
use super::machine::Machine;
use super::roots::Roots;
use thalweg_mover::failure::counted;
use thalweg_sys::heat::{Cooler, Sources, Zone};

const NAME: &str = "heat";

/// Cooling devices, or zones, that are named; more are counted.
const NAMED_MAX: usize = 3;

/// What is seen of it, with what is not.
pub fn finding(roots: &Roots, machine: &Machine) -> Finding {
    let sources = Sources::below(&roots.sys);
    let look = sources.look();
    if !look.tells() {
        return Finding::unseen(Subject::Limits, NAME, nobody_tells(roots, machine));
    }
    let hot: Vec<Zone> = sources
        .zones()
        .into_iter()
        .filter(|zone| zone.milli_celsius >= zone.slows_from_milli_celsius)
        .collect();
    let now = match look.is_slowed {
        None => "whether a CPU is slowed now is not told".to_owned(),
        Some(false) => "no CPU is slowed now".to_owned(),
        Some(true) => format!("CPUs are slowed now: {}", named(&sources.slowing(), cooler)),
    };
    let so_far = match look.times() {
        None => "how often it was since boot is not counted".to_owned(),
        Some(0) => "none was since boot".to_owned(),
        Some(1) => "a core or package was once since boot".to_owned(),
        Some(times) => format!("cores and packages were {times} times since boot"),
    };
    let hot_ones = (!hot.is_empty()).then(|| format!("hot: {}", named(&hot, zone)));
    let (all, read) = sources.coolers();
    let some = (read < all).then(|| format!("{read} of {all} cooling devices were read"));
    let current: Vec<String> = [now, so_far].into_iter().chain(hot_ones).chain(some).collect();
    let told = Finding::told(
        Subject::Limits,
        NAME,
        current.join("; "),
        "a hot CPU is slowed, by the kernel or by itself, and with it whatever computes; a limit of cpufreq is a \
         policy and does not count",
    )
    .scoped(if machine.container.is_some() { "the host" } else { "this machine" });
    // Of now only cooling devices tell.
    match look.is_slowed {
        None => told,
        Some(is_slowed) => told
            .wanted(
                "no CPU is slowed",
                !is_slowed && hot.is_empty(),
                "Documentation/driver-api/thermal/sysfs-api.rst of the kernel",
            )
            .remedied(
                "cool it: clean fans and filters, colder air, or less work for it",
                "nothing to take back",
            ),
    }
}

fn nobody_tells(roots: &Roots, machine: &Machine) -> String {
    match machine.hypervisor() {
        Some(_) => "a guest does not see whether heat slows its host's CPUs".into(),
        None => format!(
            "no CPU counts it ({}), and no cooling device is a CPU ({})",
            roots.sys.join("devices/system/cpu/cpu*/thermal_throttle").display(),
            roots.sys.join("class/thermal/cooling_device*").display()
        ),
    }
}

fn named<T>(all: &[T], name: fn(&T) -> String) -> String {
    let mut text = all.iter().take(NAMED_MAX).map(name).collect::<Vec<_>>().join(", ");
    if all.len() > NAMED_MAX {
        text.push_str(&format!(" and {} more", all.len() - NAMED_MAX));
    }
    text
}

fn cooler(cooler: &Cooler) -> String {
    let steps = match cooler.state_max {
        Some(most) => format!("{} of {}", cooler.state, counted(most, "step", "steps")),
        None => counted(cooler.state, "step", "steps"),
    };
    format!("{} by {steps}", cooler.name)
}

fn zone(zone: &Zone) -> String {
    let celsius = |milli: i64| format!("{:.1} °C", milli as f64 / 1e3);
    format!(
        "{} at {}, from {} on the kernel slows CPUs",
        zone.name,
        celsius(zone.milli_celsius),
        celsius(zone.slows_from_milli_celsius)
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const CPU: &str = "sys/devices/system/cpu/cpu0";
    const COUNTERS: [(&str, &str); 2] =
        [("thermal_throttle/core_throttle_count", "3"), ("thermal_throttle/package_throttle_count", "9")];

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Tree {
            Tree(tempfile::tempdir().expect("a scratch directory"))
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("make directories");
            fs::write(path, format!("{text}\n")).expect("write a file");
        }

        fn cooler(&self, number: usize, name: &str, state: &str) {
            let device = format!("sys/class/thermal/cooling_device{number}");
            for (file, text) in [("type", name), ("cur_state", state), ("max_state", "7")] {
                self.put(&format!("{device}/{file}"), text);
            }
        }

        /// That it is said so, and what is thought of it.
        #[track_caller]
        fn assert_said(&self, verdict: Verdict, said: &str) -> Finding {
            let roots = Roots::below(self.0.path());
            let found = finding(&roots, &Machine::of(&roots));
            assert_eq!((found.verdict, found.current.as_deref()), (verdict, Some(said)));
            assert!(!found.why.is_empty() && found.scope.is_some());
            assert_eq!(found.remedy.is_some(), verdict == Verdict::Change);
            found
        }
    }

    /// Intel: counters, and in newer kernels ACPI's cooling devices.
    #[test]
    fn counters_alone_say_what_was_and_not_what_is() {
        let tree = Tree::new();
        COUNTERS.iter().for_each(|(file, _)| tree.put(&format!("{CPU}/{file}"), "0"));
        tree.assert_said(Verdict::Told, "whether a CPU is slowed now is not told; none was since boot");
        COUNTERS.iter().for_each(|(file, count)| tree.put(&format!("{CPU}/{file}"), count));
        let said = "cores and packages were 12 times since boot";
        tree.assert_said(Verdict::Told, &format!("whether a CPU is slowed now is not told; {said}"));
        tree.cooler(0, "Processor", "0");
        tree.assert_said(Verdict::Good, &format!("no CPU is slowed now; {said}"));
    }

    /// ARM and AMD: cooling devices, and zones that they belong to.
    #[test]
    fn a_cpu_that_is_slowed_now_or_so_hot_that_it_will_be_is_to_be_cooled() {
        const NOT_COUNTED: &str = "how often it was since boot is not counted";
        let tree = Tree::new();
        tree.cooler(0, "gpio-fan", "2");
        (1..6).for_each(|number| tree.cooler(number, &format!("cpufreq-cpu{number}"), "0"));
        tree.assert_said(Verdict::Good, &format!("no CPU is slowed now; {NOT_COUNTED}"));
        let zone = "sys/class/thermal/thermal_zone0";
        for (file, text) in [
            ("type", "cpu-thermal"),
            ("temp", "95300"),
            ("trip_point_0_type", "passive"),
            ("trip_point_0_temp", "90000"),
            ("cdev0_trip_point", "0"),
        ] {
            tree.put(&format!("{zone}/{file}"), text);
        }
        symlink("../cooling_device1", tree.0.path().join(zone).join("cdev0")).expect("a link");
        let hot = "hot: cpu-thermal at 95.3 °C, from 90.0 °C on the kernel slows CPUs";
        tree.assert_said(Verdict::Change, &format!("no CPU is slowed now; {NOT_COUNTED}; {hot}"));
        tree.put(&format!("{zone}/temp"), "60000");
        (1..6).for_each(|number| tree.cooler(number, &format!("cpufreq-cpu{number}"), "3"));
        let three =
            "cpufreq-cpu1 by 3 of 7 steps, cpufreq-cpu2 by 3 of 7 steps, cpufreq-cpu3 by 3 of 7 steps";
        let said = format!("CPUs are slowed now: {three} and 2 more; {NOT_COUNTED}");
        let found = tree.assert_said(Verdict::Change, &said);
        assert!(found.remedy.is_some_and(|remedy| remedy.apply.starts_with("cool it") && !remedy.by_apply));
    }

    #[test]
    fn a_part_of_many_cooling_devices_is_said_to_be_one() {
        let tree = Tree::new();
        (0..100).for_each(|number| tree.cooler(number, "Processor", "0"));
        let roots = Roots::below(tree.0.path());
        let current = finding(&roots, &Machine::of(&roots)).current.expect("it is told");
        assert!(current.ends_with("of 100 cooling devices were read"), "{current}");
    }

    #[test]
    fn where_nobody_tells_of_heat_that_is_said_and_not_that_it_is_cool() {
        let tree = Tree::new();
        // A policy.
        tree.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "600000");
        tree.put("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "1800000");
        let unseen = |tree: &Tree| {
            let roots = Roots::below(tree.0.path());
            let found = finding(&roots, &Machine::of(&roots));
            assert_eq!((found.verdict, found.current), (Verdict::Unseen, None));
            found.why
        };
        let why = unseen(&tree);
        assert!(why.starts_with("no CPU counts it (") && why.contains("thermal/cooling_device*"), "{why}");
        tree.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor");
        assert_eq!(unseen(&tree), "a guest does not see whether heat slows its host's CPUs");
    }
}
