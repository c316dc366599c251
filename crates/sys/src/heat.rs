//! Whether heat slows the CPUs of this machine, as far as its kernel tells.
//!
//! 1. [`Sources`]: what tells of it is looked for once. Intel's CPUs count how often they were slowed. Cooling devices
//!    that are CPUs (Arm; by ACPI also AMD and Intel) say whether the kernel slows them now.
//! 2. [`HeatWatch`] sums up what was seen from look to look. [`seen`] asks the one of this process, which all its
//!    transfers share; [`held`] adds for how long a CPU quota held it.
//!
//! Not taken for heat: a limit of cpufreq, which is a policy; cooling devices that are no CPU (fans, graphics); a
//! temperature, unless the kernel slows CPUs from there on ([`Sources::zones`]). Not seen: what firmware slows by
//! itself and nobody counts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::host;

/// Callers that ask more often share a look: it reads some tens of files, each within microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Packages, cores and cooling devices that a look reads at most; of more some from all over the machine.
const PACKAGES_MAX: usize = 16;
const CORES_MAX: usize = 32;
const COOLERS_MAX: usize = 32;
/// Of a core or a package that many CPUs are asked: they tell of it one after the other.
const ASKED_MAX: usize = 2;
/// Zones that are read at most, and entries of a directory that are looked at.
const ZONES_MAX: usize = 64;
const ENTRIES_MAX: usize = 4096;

/// What was seen of heat since the first look; only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heat {
    /// Times that somebody looked.
    pub looks: u64,
    /// Of these, looks when a CPU was slowed, or had been since the look before.
    pub slowed: u64,
    /// Times that a core or a package was slowed, where they count.
    pub times: u64,
}

impl Heat {
    /// What was seen since.
    #[must_use]
    pub fn since(self, then: Heat) -> Heat {
        Heat {
            looks: self.looks.saturating_sub(then.looks),
            slowed: self.slowed.saturating_sub(then.slowed),
            times: self.times.saturating_sub(then.times),
        }
    }
}

/// What this process has seen, by a look of now if the last one is half a second old. `None`: not told here.
pub fn seen() -> Option<Heat> {
    own(LOOK_EVERY)
}

/// The same, by a look of now.
pub fn seen_now() -> Option<Heat> {
    own(Duration::ZERO)
}

/// What held the machine or this process back so far, as counters that only grow. `None`: not told here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// What was seen of heat that slows CPUs.
    pub heat: Option<Heat>,
    /// For how long threads of this process's control group, or of one above it, waited because its CPU quota was used
    /// up.
    pub quota: Option<Duration>,
}

/// Looks what holds this process back now: heat, and for how long its quota has so far.
pub fn held() -> Held {
    Held { heat: seen_now(), quota: host::cpu_quota().throttled }
}

fn own(every: Duration) -> Option<Heat> {
    static OWN: Mutex<Option<HeatWatch>> = Mutex::new(None);
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let watch = own.get_or_insert_with(|| HeatWatch::of(Sources::below(Path::new("/sys"))));
    watch.look(Instant::now(), every)
}

/// Looks, and sums up.
#[derive(Debug)]
pub struct HeatWatch {
    sources: Sources,
    last: Option<(Instant, Look)>,
    seen: Heat,
}

impl HeatWatch {
    /// Nothing was seen yet.
    pub fn of(sources: Sources) -> HeatWatch {
        HeatWatch { sources, last: None, seen: Heat::default() }
    }

    /// Looks if the last look is so long ago; what was seen by all looks. `None` where there is nothing to look at.
    pub fn look(&mut self, now: Instant, every: Duration) -> Option<Heat> {
        if !self.sources.tell() {
            return None;
        }
        let is_due = |(at, _): &(Instant, Look)| now.saturating_duration_since(*at) >= every;
        if self.last.as_ref().is_none_or(is_due) {
            let look = self.sources.look();
            let times = self.last.as_ref().map_or(0, |(_, last)| look.times_since(last));
            self.seen.looks += u64::from(look.tells());
            self.seen.slowed += u64::from(look.is_slowed == Some(true) || times > 0);
            self.seen.times = self.seen.times.saturating_add(times);
            self.last = Some((now, look));
        }
        Some(self.seen)
    }
}

/// What was told at one look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    /// Of each core and each package how often it was slowed since boot, if it told.
    counts: Vec<Option<u64>>,
    /// Whether a cooling device slows a CPU now; `None` where none tells.
    pub is_slowed: Option<bool>,
}

impl Look {
    /// Whether anything was told.
    pub fn tells(&self) -> bool {
        self.is_slowed.is_some() || self.times().is_some()
    }

    /// How often any core, or any package, was slowed since boot. `None` where none counts.
    pub fn times(&self) -> Option<u64> {
        self.counts.iter().flatten().copied().reduce(u64::saturating_add)
    }

    /// How often since an earlier look, by those that told at both: a CPU that was off meanwhile is no heat.
    fn times_since(&self, then: &Look) -> u64 {
        let both = self.counts.iter().zip(&then.counts);
        let grew = both.filter_map(|(now, then)| Some((*now)?.saturating_sub((*then)?)));
        grew.fold(0, u64::saturating_add)
    }
}

/// Files that tell of heat.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Of each core and each package the files that count how often it was slowed.
    counters: Vec<Vec<PathBuf>>,
    /// Directories of all cooling devices that are CPUs.
    coolers: Vec<PathBuf>,
    /// Where those are, and the zones.
    class: PathBuf,
}

/// A cooling device that slows a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cooler {
    /// What it is, as its driver calls it.
    pub name: String,
    /// By how many steps.
    pub state: u64,
    /// Of so many, if it tells.
    pub state_max: Option<u64>,
}

/// A thermal zone for whose heat the kernel slows CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// What it is, as its driver calls it.
    pub name: String,
    /// How hot it is, in thousandths of a degree Celsius.
    pub milli_celsius: i64,
    /// From there on CPUs are slowed: its lowest passive trip point that has a CPU as cooling device.
    pub slows_from_milli_celsius: i64,
}

impl Sources {
    /// Those below `sys`, which is `/sys` on a real machine.
    pub fn below(sys: &Path) -> Sources {
        let class = sys.join("class/thermal");
        Sources { counters: counters(&sys.join("devices/system/cpu")), coolers: coolers(&class), class }
    }

    /// Whether there are any.
    fn tell(&self) -> bool {
        !self.counters.is_empty() || !self.coolers.is_empty()
    }

    /// Reads them.
    pub fn look(&self) -> Look {
        let count = |files: &Vec<PathBuf>| files.iter().filter_map(|file| number::<u64>(file)).max();
        let is_slowed = |device: &PathBuf| Some(state(device)? > 0);
        Look {
            counts: self.counters.iter().map(count).collect(),
            is_slowed: self.read_coolers().filter_map(is_slowed).reduce(|any, one| any || one),
        }
    }

    /// How many cooling devices are CPUs, and how many of them are read.
    pub fn coolers(&self) -> (usize, usize) {
        (self.coolers.len(), self.read_coolers().count())
    }

    /// The cooling devices that slow a CPU now.
    pub fn slowing(&self) -> Vec<Cooler> {
        let slowing = |device: &PathBuf| {
            let state = state(device).filter(|state| *state > 0)?;
            let state_max = number(&device.join("max_state"));
            Some(Cooler { name: text(&device.join("type"))?, state, state_max })
        };
        self.read_coolers().filter_map(slowing).collect()
    }

    /// The zones for whose heat the kernel slows CPUs. Drivers may take their time to measure one.
    pub fn zones(&self) -> Vec<Zone> {
        let zones = numbered(&self.class, "thermal_zone");
        zones.iter().take(ZONES_MAX).filter_map(|zone| self.zone(zone)).collect()
    }

    fn read_coolers(&self) -> impl Iterator<Item = &PathBuf> {
        self.coolers.iter().step_by(step(self.coolers.len(), COOLERS_MAX))
    }

    /// `None` of one whose heat slows no CPU, or that is left to a program.
    fn zone(&self, zone: &Path) -> Option<Zone> {
        let says = |name: &str, what: &str| text(&zone.join(name)).is_some_and(|text| text == what);
        if says("mode", "disabled") || says("policy", "user_space") {
            return None;
        }
        let slows_from = numbered(zone, "cdev").iter().filter_map(|link| self.trip(zone, link)).min()?;
        Some(Zone {
            name: text(&zone.join("type"))?,
            milli_celsius: number(&zone.join("temp"))?,
            slows_from_milli_celsius: slows_from,
        })
    }

    /// The passive trip point of a zone that is bound to this cooling device, if that is a CPU.
    fn trip(&self, zone: &Path, link: &Path) -> Option<i64> {
        let device = fs::read_link(link).ok()?;
        if !self.coolers.iter().any(|cooler| cooler.file_name() == device.file_name()) {
            return None;
        }
        // -1: bound to none.
        let trip: u32 = number(&zone.join(format!("{}_trip_point", link.file_name()?.to_str()?)))?;
        let is_passive = text(&zone.join(format!("trip_point_{trip}_type")))? == "passive";
        // One that is not set is far below zero.
        number::<i64>(&zone.join(format!("trip_point_{trip}_temp"))).filter(|from| is_passive && *from > 0)
    }
}

/// By what was slowed: threads of a core, and cores of a package, each tell the same of it.
fn counters(cpus: &Path) -> Vec<Vec<PathBuf>> {
    let mut packages = BTreeMap::<String, Vec<PathBuf>>::new();
    let mut cores = BTreeMap::<String, Vec<PathBuf>>::new();
    for cpu in numbered(cpus, "cpu") {
        let heat = cpu.join("thermal_throttle");
        if !heat.is_dir() {
            continue;
        }
        let own = || cpu.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let id = |name: &str| {
            number::<u64>(&cpu.join("topology").join(name)).map_or_else(own, |id| id.to_string())
        };
        let (package, core) = (id("physical_package_id"), id("core_id"));
        for (counters, what, name) in [
            (&mut packages, package.clone(), "package_throttle_count"),
            (&mut cores, format!("{package} {core}"), "core_throttle_count"),
        ] {
            let files = counters.entry(what).or_default();
            if files.len() < ASKED_MAX {
                files.push(heat.join(name));
            }
        }
    }
    let spread = |counters: BTreeMap<String, Vec<PathBuf>>, most: usize| {
        let step = step(counters.len(), most);
        counters.into_values().step_by(step)
    };
    spread(packages, PACKAGES_MAX).chain(spread(cores, CORES_MAX)).collect()
}

fn coolers(class: &Path) -> Vec<PathBuf> {
    let is_cpu = |device: &PathBuf| text(&device.join("type")).is_some_and(|name| is_name_of_cpu(&name));
    let mut found = numbered(class, "cooling_device");
    found.retain(is_cpu);
    found
}

/// What drivers call cooling devices that are CPUs: ACPI's, those that lower frequencies, those that make CPUs idle. Of
/// the last two by the names of older kernels too. `intel_powerclamp` is not one: it saves power as well.
fn is_name_of_cpu(name: &str) -> bool {
    const BEGINNINGS: [&str; 4] = ["cpufreq-", "thermal-cpufreq-", "idle-cpu", "thermal-idle-"];
    name == "Processor" || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Steps by which a cooling device slows its CPU.
fn state(device: &Path) -> Option<u64> {
    number(&device.join("cur_state"))
}

/// How far apart those are of so many that make up no more than `most`.
fn step(all: usize, most: usize) -> usize {
    all.div_ceil(most).max(1)
}

/// Entries of a directory that are called `prefix` and a number, in its order.
fn numbered(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let number = |entry: fs::DirEntry| -> Option<(u32, PathBuf)> {
        let number = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
        Some((number, entry.path()))
    };
    let mut found: Vec<_> = entries.flatten().take(ENTRIES_MAX).filter_map(number).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number<N: FromStr>(path: &Path) -> Option<N> {
    text(path)?.parse().ok()
}

#[cfg(test)]
mod tests;
