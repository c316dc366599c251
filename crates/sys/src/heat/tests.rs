//! Machines made of files: nothing of the machine that runs the tests is read.

use super::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

struct Tree(TempDir);

impl Tree {
    fn with(files: &[(&str, &str)]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        files.iter().for_each(|(path, text)| tree.put(path, text));
        tree
    }

    /// A file below `/sys`.
    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn cpu(&self, cpu: u32, (package, core): (&str, &str), (of_core, of_package): (&str, &str)) {
        let put = |name: &str, text: &str| self.put(&format!("devices/system/cpu/cpu{cpu}/{name}"), text);
        put("topology/physical_package_id", package);
        put("topology/core_id", core);
        put("thermal_throttle/core_throttle_count", of_core);
        put("thermal_throttle/package_throttle_count", of_package);
    }

    fn cooler(&self, number: u32, name: &str, state: &str) {
        let put = |file: &str, text: &str| {
            self.put(&format!("class/thermal/cooling_device{number}/{file}"), text);
        };
        put("type", name);
        put("cur_state", state);
        put("max_state", "10");
    }

    /// A zone with two trip points, the second of which has this cooling device.
    fn zone(&self, number: u32, name: &str, celsius: u32, second: (&str, u32), cooler: u32) {
        let zone = format!("class/thermal/thermal_zone{number}");
        let put = |file: &str, text: &str| self.put(&format!("{zone}/{file}"), text);
        put("type", name);
        put("mode", "enabled");
        put("policy", "step_wise");
        put("temp", &format!("{celsius}000"));
        put("trip_point_0_type", "passive");
        put("trip_point_0_temp", "60000");
        put("trip_point_1_type", second.0);
        put("trip_point_1_temp", &format!("{}000", second.1));
        put("cdev0_trip_point", "1");
        let link = self.0.path().join(&zone).join("cdev0");
        symlink(format!("../cooling_device{cooler}"), link).unwrap();
    }

    fn sources(&self) -> Sources {
        Sources::below(self.0.path())
    }

    fn look(&self) -> Look {
        self.sources().look()
    }
}

/// What a watch has seen after each step, of which each has a look a second later.
fn watched(tree: &Tree, steps: &[&dyn Fn(&Tree)]) -> Vec<Option<Heat>> {
    let began = Instant::now();
    let mut watch = HeatWatch::of(tree.sources());
    let mut seen = vec![watch.look(began, LOOK_EVERY)];
    for (step, second) in steps.iter().zip(1..) {
        step(tree);
        seen.push(watch.look(began + Duration::from_secs(second), LOOK_EVERY));
    }
    seen
}

fn heat(looks: u64, slowed: u64, times: u64) -> Option<Heat> {
    Some(Heat { looks, slowed, times })
}

#[test]
fn heat_counts_once_for_each_core_and_each_package() {
    // Two packages; the first has a core of two threads, which tell of it one after the other.
    let tree = Tree::with(&[("devices/system/cpu/online", "0-3")]);
    assert_eq!(tree.look().times(), None);
    tree.cpu(0, ("0", "0"), ("5", "2"));
    tree.cpu(1, ("0", "0"), ("4", "2"));
    tree.cpu(2, ("0", "1"), ("1", "2"));
    tree.cpu(3, ("1", "0"), ("10", "3"));
    assert_eq!(tree.look().times(), Some(5 + 1 + 10 + 2 + 3));
    // Where nobody says what belongs together each counts.
    (0..4).for_each(|cpu| {
        let topology = format!("devices/system/cpu/cpu{cpu}/topology");
        fs::remove_dir_all(tree.0.path().join(topology)).unwrap();
    });
    assert_eq!(tree.look().times(), Some(5 + 4 + 1 + 10 + 2 + 2 + 2 + 3));
}

/// Intel: counters, and beside them a cooling device that does nothing.
#[test]
fn a_counter_that_grew_between_two_looks_was_heat() {
    let tree = Tree::with(&[]);
    tree.cpu(0, ("0", "0"), ("5", "2"));
    tree.cpu(1, ("0", "1"), ("1", "2"));
    tree.cooler(0, "Processor", "0");
    let seen = watched(
        &tree,
        &[
            &|tree| tree.cpu(0, ("0", "0"), ("8", "2")),
            &|_| (),
            // It was off meanwhile, and comes back: no heat.
            &|tree| fs::remove_dir_all(tree.0.path().join("devices/system/cpu/cpu0")).unwrap(),
            &|tree| tree.cpu(0, ("0", "0"), ("9", "2")),
            &|tree| tree.cpu(1, ("0", "1"), ("2", "2")),
        ],
    );
    // What was before the first look is not told as seen.
    assert_eq!(
        seen,
        [heat(1, 0, 0), heat(2, 1, 3), heat(3, 1, 3), heat(4, 1, 3), heat(5, 1, 3), heat(6, 2, 4)]
    );
}

/// AMD, and Intel without counters: ACPI's cooling devices say what is now.
#[test]
fn a_cooling_device_that_slows_a_cpu_is_heat_as_long_as_it_does() {
    let tree = Tree::with(&[]);
    (0..4).for_each(|number| tree.cooler(number, "Processor", "0"));
    let seen = watched(
        &tree,
        &[&|tree| tree.cooler(2, "Processor", "3"), &|_| (), &|tree| tree.cooler(2, "Processor", "0")],
    );
    assert_eq!(seen, [heat(1, 0, 0), heat(2, 1, 0), heat(3, 2, 0), heat(4, 2, 0)]);
    assert_eq!(tree.look().times(), None);
}

/// ARM: two clusters, each a cooling device of cpufreq; what else cools is none of a CPU.
#[test]
fn of_cooling_devices_those_of_cpus_count_and_a_limit_of_cpufreq_is_a_policy() {
    let tree = Tree::with(&[
        ("devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "1800000"),
        ("devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "600000"),
        ("devices/system/cpu/cpu0/topology/core_id", "0"),
    ]);
    tree.cooler(0, "pwm-fan", "4");
    tree.cooler(1, "thermal-devfreq-0", "2");
    tree.cooler(2, "intel_powerclamp", "50");
    tree.cooler(3, "devfreq-ff9a0000.gpu", "1");
    assert_eq!((tree.look().is_slowed, tree.look().times()), (None, None));
    assert!(!tree.look().tells() && watched(&tree, &[]) == [None]);
    for name in ["cpufreq-cpu0", "thermal-cpufreq-0", "idle-cpu4", "thermal-idle-1", "Processor"] {
        tree.cooler(4, name, "0");
        assert_eq!(tree.look().is_slowed, Some(false), "{name}");
        tree.cooler(4, name, "2");
        assert_eq!(tree.look().is_slowed, Some(true), "{name}");
        let cooler = Cooler { name: name.into(), state: 2, state_max: Some(10) };
        assert_eq!(tree.sources().slowing(), [cooler]);
    }
}

#[test]
fn a_machine_that_tells_nothing_is_not_said_to_be_cool() {
    let tree = Tree::with(&[]);
    assert_eq!(watched(&tree, &[&|_| ()]), [None, None]);
    assert!(tree.sources().zones().is_empty() && tree.sources().slowing().is_empty());
    // Of files without a number neither.
    tree.cooler(0, "Processor", "");
    tree.cpu(0, ("0", "0"), ("many", "-1"));
    assert!(!tree.look().tells());
    assert_eq!(watched(&tree, &[&|_| ()]), [heat(0, 0, 0); 2]);
}

#[test]
fn who_asks_more_often_shares_a_look() {
    let tree = Tree::with(&[]);
    tree.cooler(0, "cpufreq-cpu0", "1");
    let began = Instant::now();
    let mut watch = HeatWatch::of(tree.sources());
    let mut look = |millis: u64, every: Duration| watch.look(began + Duration::from_millis(millis), every);
    assert_eq!(look(0, LOOK_EVERY), heat(1, 1, 0));
    assert_eq!(look(499, LOOK_EVERY), heat(1, 1, 0));
    assert_eq!(look(500, LOOK_EVERY), heat(2, 2, 0));
    assert_eq!(look(501, Duration::ZERO), heat(3, 3, 0));
    let (then, now) = (heat(1, 1, 0).unwrap(), heat(3, 2, 7).unwrap());
    assert_eq!((Some(now.since(then)), then.since(now)), (heat(2, 1, 7), Heat::default()));
}

#[test]
fn a_zone_slows_cpus_from_its_passive_trip_point_that_has_one_on() {
    let tree = Tree::with(&[]);
    tree.cooler(0, "pwm-fan", "0");
    tree.cooler(1, "cpufreq-cpu0", "0");
    tree.zone(0, "cpu-thermal", 91, ("passive", 90), 1);
    // A fan, a shutdown, and one that is not set: nothing that slows.
    tree.zone(1, "fan-thermal", 91, ("passive", 80), 0);
    tree.zone(2, "hot-thermal", 91, ("critical", 80), 1);
    tree.zone(3, "no-thermal", 91, ("passive", 0), 1);
    // Nor what the kernel leaves to a program.
    tree.zone(4, "user-thermal", 91, ("passive", 80), 1);
    tree.put("class/thermal/thermal_zone4/policy", "user_space");
    let cpu = Zone { name: "cpu-thermal".into(), milli_celsius: 91_000, slows_from_milli_celsius: 90_000 };
    assert_eq!(tree.sources().zones(), [cpu]);
    // Hot is not slowed: that is for the cooling device to say.
    assert_eq!(tree.look().is_slowed, Some(false));
}

#[test]
fn of_a_large_machine_a_part_is_read_from_all_over_it() {
    let tree = Tree::with(&[]);
    for number in 0..130 {
        tree.cooler(number, "Processor", if number % 10 == 0 { "1" } else { "0" });
        let (package, core) = (format!("{}", number / 65), format!("{number}"));
        tree.cpu(number, (&package, &core), ("1", "1"));
    }
    let (all, read) = tree.sources().coolers();
    assert!(all == 130 && (COOLERS_MAX / 2..=COOLERS_MAX).contains(&read), "{read} of {all}");
    assert_eq!(tree.look().is_slowed, Some(true));
    let times = tree.look().times().unwrap() as usize;
    // Both packages, and some of the cores.
    assert!((2 + CORES_MAX / 2..=2 + CORES_MAX).contains(&times), "{times}");
}

#[test]
fn what_held_this_machine_only_grows() {
    // Whatever it tells, asking twice never goes back.
    let (first, second) = (held(), held());
    assert!(second.quota >= first.quota && second.heat.is_some() == first.heat.is_some());
    let (first, second) = (first.heat.unwrap_or_default(), second.heat.unwrap_or_default());
    assert!(second.looks >= first.looks && second.slowed >= first.slowed && second.times >= first.times);
}
