//! The energy that this machine has used, as far as its counters tell (RAPL, in the kernel's powercap class).
//!
//! 1. [`Sources`]: zones that count are looked for once. A package has its cores and what is beside them, its zone
//!    `dram` its memory, `psys` the whole platform, packages and memory included.
//! 2. [`EnergyWatch`] sums up by how much counters grew from look to look, for they wrap. [`seen`] asks the one of this
//!    process, which all its transfers share.
//!
//! Not counted: the other zones of a package, which it contains; what a second interface (`intel-rapl-mmio`) counts
//! again. Not seen: disks, cards and fans, unless `psys` has them; anything in most guests.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Callers that ask more often share a look.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Looks further apart may miss that a counter wrapped: the smallest ones do after 65 kJ, which a package of 1 kW uses
/// in that time.
const LOOK_WITHIN: Duration = Duration::from_secs(60);
/// Counters that are read at most, and entries of a directory that are looked at.
const COUNTERS_MAX: usize = 128;
const ENTRIES_MAX: usize = 4096;

/// What the counters told since the first look; only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Energy {
    /// All packages and their memory, in microjoules. `None`: not all of them could be read.
    packages_microjoules: Option<u64>,
    /// The platform, in microjoules. `None`: not counted, or it could not be read.
    platform_microjoules: Option<u64>,
    /// Times that a counter was read so late that it may have wrapped unseen.
    late: u64,
    /// Whether the last look was not permitted to read one.
    pub is_denied: bool,
}

/// What all of a machine used, other work included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// In microjoules.
    pub microjoules: u64,
    /// Whether that is the whole platform; else it is packages and their memory.
    pub is_platform: bool,
}

impl Energy {
    /// What was used since. `None` where it could not be read then or now, and where nobody looked for a minute in
    /// between.
    pub fn since(self, then: Energy) -> Option<Used> {
        if self.late != then.late {
            return None;
        }
        let grew = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let packages = grew(self.packages_microjoules, then.packages_microjoules);
        let platform = grew(self.platform_microjoules, then.platform_microjoules);
        // A platform that tells less than what it contains is one that its maker has not wired up.
        match platform.filter(|platform| packages.is_none_or(|packages| *platform >= packages)) {
            Some(microjoules) => Some(Used { microjoules, is_platform: true }),
            None => packages.map(|microjoules| Used { microjoules, is_platform: false }),
        }
    }
}

/// What this process has seen, by a look of now if the last one is a twentieth of a second old. `None`: nothing counts
/// here.
pub fn seen() -> Option<Energy> {
    static OWN: Mutex<Option<EnergyWatch>> = Mutex::new(None);
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let watch = own.get_or_insert_with(|| EnergyWatch::of(Sources::below(Path::new("/sys"))));
    watch.look(Instant::now(), LOOK_EVERY)
}

/// Looks, and sums up.
#[derive(Debug)]
pub struct EnergyWatch {
    sources: Sources,
    /// Of each counter when it was last read, what it told, and by how much it has grown.
    rows: Vec<Row>,
    last: Option<(Instant, Energy)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Row {
    read: Option<(Instant, u64)>,
    microjoules: u64,
}

impl EnergyWatch {
    /// Nothing was seen yet.
    pub fn of(sources: Sources) -> EnergyWatch {
        let rows = vec![Row::default(); sources.counters.len()];
        EnergyWatch { sources, rows, last: None }
    }

    /// Looks if the last look is so long ago; what was seen by all looks. `None` where nothing counts.
    pub fn look(&mut self, now: Instant, every: Duration) -> Option<Energy> {
        self.look_by(now, every, read)
    }

    fn look_by(
        &mut self,
        now: Instant,
        every: Duration,
        read: impl Fn(&Path) -> io::Result<u64>,
    ) -> Option<Energy> {
        let counters = &self.sources.counters;
        if counters.is_empty() {
            return None;
        }
        let before = self.last.map(|(_, energy)| energy).unwrap_or_default();
        if self.last.is_some_and(|(at, _)| now.saturating_duration_since(at) < every) {
            return Some(before);
        }
        let told: Vec<io::Result<u64>> = counters.iter().map(|counter| read(&counter.file)).collect();
        let mut late = before.late;
        for ((counter, row), told) in counters.iter().zip(&mut self.rows).zip(&told) {
            let Ok(value) = *told else { continue };
            if let Some((at, last)) = row.read {
                row.microjoules = row.microjoules.saturating_add(counter.grew(last, value));
                late += u64::from(now.saturating_duration_since(at) > LOOK_WITHIN);
            }
            row.read = Some((now, value));
        }
        let sum = |is_platform: bool| {
            let all = counters.iter().zip(&self.rows).zip(&told);
            let of_it = all.filter(|((counter, _), _)| counter.is_platform == is_platform);
            let read = of_it.map(|((_, row), told)| told.is_ok().then_some(row.microjoules));
            let read: Vec<u64> = read.collect::<Option<_>>()?;
            read.into_iter().reduce(u64::saturating_add)
        };
        let energy = Energy {
            packages_microjoules: sum(false),
            platform_microjoules: sum(true),
            late,
            is_denied: told.iter().any(is_denied),
        };
        self.last = Some((now, energy));
        Some(energy)
    }
}

/// Whether this process may read the counters of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// There are none.
    Absent,
    /// It may not read this one.
    Denied(PathBuf),
    /// This one cannot be read, for that reason.
    Broken(PathBuf, String),
    /// It may: of so many packages, and of the platform, if that is counted.
    Readable(usize, bool),
}

/// Counters of energy.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    counters: Vec<Counter>,
}

#[derive(Debug, Clone)]
struct Counter {
    file: PathBuf,
    /// What it goes up to before it begins at 0 again, in microjoules; `None` where that is not told.
    range: Option<u64>,
    is_platform: bool,
    is_package: bool,
}

impl Sources {
    /// Those below `sys`, which is `/sys` on a real machine.
    pub fn below(sys: &Path) -> Sources {
        let class = sys.join("class/powercap");
        let Ok(entries) = fs::read_dir(&class) else { return Sources::default() };
        let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        let mut zones: Vec<String> = entries.flatten().take(ENTRIES_MAX).filter_map(name).collect();
        // What two interfaces have is taken from the one that counts all.
        zones.sort_by_key(|zone| (zone.contains("-mmio"), zone.clone()));
        let (mut counters, mut known) = (Vec::new(), BTreeSet::new());
        for zone in zones {
            let Some(what) = counted(&class, &zone) else { continue };
            if counters.len() < COUNTERS_MAX && known.insert(what.clone()) {
                counters.push(Counter {
                    file: class.join(&zone).join("energy_uj"),
                    range: read(&class.join(&zone).join("max_energy_range_uj")).ok(),
                    is_platform: what == PLATFORM,
                    is_package: is_package(&what),
                });
            }
        }
        Sources { counters }
    }

    /// Whether they may be read now.
    pub fn access(&self) -> Access {
        for Counter { file, .. } in &self.counters {
            match read(file) {
                Ok(_) => {}
                told if is_denied(&told) => return Access::Denied(file.clone()),
                Err(error) => return Access::Broken(file.clone(), error.to_string()),
            }
        }
        let packages = self.counters.iter().filter(|counter| counter.is_package).count();
        match self.counters.is_empty() {
            true => Access::Absent,
            false => Access::Readable(packages, self.counters.iter().any(|counter| counter.is_platform)),
        }
    }
}

impl Counter {
    /// By how much, if it has wrapped at most once.
    fn grew(&self, then: u64, now: u64) -> u64 {
        match now.checked_sub(then) {
            Some(grew) => grew,
            None => self.range.map_or(0, |range| range.saturating_sub(then).saturating_add(now)),
        }
    }
}

const PLATFORM: &str = "psys";

/// What a zone counts, if that is not counted with another: a package, the memory of one, or the platform.
fn counted(class: &Path, zone: &str) -> Option<String> {
    let name = |zone: &str| Some(fs::read_to_string(class.join(zone).join("name")).ok()?.trim().to_owned());
    let (above, _) = zone.rsplit_once(':')?;
    let own = name(zone)?;
    match above.contains(':') {
        false => (is_package(&own) || own == PLATFORM).then_some(own),
        true => {
            let package = name(above).filter(|above| is_package(above) && own == "dram")?;
            Some(format!("memory of {package}"))
        }
    }
}

fn is_package(name: &str) -> bool {
    name.starts_with("package-")
}

fn is_denied(told: &io::Result<u64>) -> bool {
    told.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

fn read(file: &Path) -> io::Result<u64> {
    fs::read_to_string(file)?.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    //! Machines made of files: nothing of the machine that runs the tests is read.

    use super::*;
    use tempfile::TempDir;

    struct Tree(TempDir);

    impl Tree {
        fn new() -> Tree {
            Tree(tempfile::tempdir().unwrap())
        }

        fn zone(&self, zone: &str, name: &str, microjoules: u64) {
            let zone = self.0.path().join("class/powercap").join(zone);
            fs::create_dir_all(&zone).unwrap();
            for (file, text) in
                [("name", name), ("max_energy_range_uj", "1000"), ("energy_uj", &microjoules.to_string())]
            {
                fs::write(zone.join(file), format!("{text}\n")).unwrap();
            }
        }

        fn watch(&self) -> EnergyWatch {
            EnergyWatch::of(Sources::below(self.0.path()))
        }
    }

    /// Reads all counters but those of which the path contains `denied`.
    fn all_but(denied: &'static str) -> impl Fn(&Path) -> io::Result<u64> {
        move |file| match file.to_string_lossy().contains(denied) {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => Ok(10),
        }
    }

    fn used(microjoules: u64, is_platform: bool) -> Option<Used> {
        Some(Used { microjoules, is_platform })
    }

    #[test]
    fn packages_and_their_memory_count_once_and_what_they_contain_does_not() {
        let (tree, began) = (Tree::new(), Instant::now());
        let zones = [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:0:1", "dram"),
            ("intel-rapl:1", "package-1"),
            ("intel-rapl:1:0", "uncore"),
            ("intel-rapl-mmio:0", "package-0"),
            ("intel-rapl-mmio:0:0", "dram"),
            ("dtpm:0", "soc"),
        ];
        let all = |microjoules| zones.iter().for_each(|(zone, name)| tree.zone(zone, name, microjoules));
        all(10);
        fs::create_dir(tree.0.path().join("class/powercap/intel-rapl")).unwrap();
        let mut watch = tree.watch();
        let then = watch.look(began, LOOK_EVERY).unwrap();
        all(15);
        let now = watch.look(began + Duration::from_secs(1), LOOK_EVERY).unwrap();
        assert_eq!(now.since(then), used(15, false), "two packages and the memory of one");
        assert_eq!(Sources::below(tree.0.path()).access(), Access::Readable(2, false));
    }

    #[test]
    fn a_platform_counts_in_place_of_what_it_contains_unless_it_tells_less() {
        let (tree, began) = (Tree::new(), Instant::now());
        let both = |package, platform| {
            tree.zone("intel-rapl:0", "package-0", package);
            tree.zone("intel-rapl:1", "psys", platform);
        };
        both(0, 0);
        let mut watch = tree.watch();
        let first = watch.look(began, LOOK_EVERY).unwrap();
        both(40, 90);
        let second = watch.look(began + Duration::from_secs(1), LOOK_EVERY).unwrap();
        assert_eq!(second.since(first), used(90, true));
        both(80, 91);
        let third = watch.look(began + Duration::from_secs(2), LOOK_EVERY).unwrap();
        assert_eq!(third.since(second), used(40, false));
        assert_eq!(Sources::below(tree.0.path()).access(), Access::Readable(1, true));
    }

    #[test]
    fn a_counter_that_wrapped_goes_on_and_one_that_may_have_unseen_is_not_told() {
        let (tree, began) = (Tree::new(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        tree.zone("intel-rapl:0", "package-0", 900);
        let mut watch = tree.watch();
        let then = watch.look(began, LOOK_EVERY).unwrap();
        tree.zone("intel-rapl:0", "package-0", 50);
        let now = watch.look(at(1), LOOK_EVERY).unwrap();
        assert_eq!(now.since(then), used(150, false));
        // Between two transfers nobody looks: what is begun then is counted from there.
        tree.zone("intel-rapl:0", "package-0", 60);
        let late = watch.look(at(100), LOOK_EVERY).unwrap();
        assert_eq!(late.since(now), None);
        tree.zone("intel-rapl:0", "package-0", 80);
        let later = watch.look(at(101), LOOK_EVERY).unwrap();
        assert_eq!(later.since(late), used(20, false));
        // Who asks soon again shares a look.
        tree.zone("intel-rapl:0", "package-0", 90);
        assert_eq!(watch.look(at(101), LOOK_EVERY), Some(later));
    }

    #[test]
    fn what_may_not_be_read_is_told_apart_from_what_is_not_there() {
        let (tree, began) = (Tree::new(), Instant::now());
        assert_eq!(tree.watch().look(began, LOOK_EVERY), None);
        assert_eq!(Sources::below(tree.0.path()).access(), Access::Absent);
        // A guest's: the class is there, and nothing in it counts.
        fs::create_dir_all(tree.0.path().join("class/powercap/intel-rapl")).unwrap();
        assert_eq!(tree.watch().look(began, LOOK_EVERY), None);
        tree.zone("intel-rapl:0", "package-0", 10);
        tree.zone("intel-rapl:1", "package-1", 10);
        let mut watch = tree.watch();
        let at = |seconds| began + Duration::from_secs(seconds);
        let all = watch.look_by(at(0), LOOK_EVERY, all_but("nothing")).unwrap();
        let some = watch.look_by(at(1), LOOK_EVERY, all_but("rapl:1")).unwrap();
        assert!(!all.is_denied && some.is_denied);
        assert_eq!(some.since(all), None, "one of two packages is not the machine");
        assert_eq!(watch.look_by(at(2), LOOK_EVERY, all_but("nothing")).unwrap().since(all), used(0, false));
        // What is no number harms nobody.
        let file = tree.0.path().join("class/powercap/intel-rapl:0/energy_uj");
        fs::write(&file, "much\n").unwrap();
        let now = tree.watch().look(began, LOOK_EVERY).unwrap();
        assert!(!now.is_denied && now.since(now).is_none());
        assert!(matches!(Sources::below(tree.0.path()).access(), Access::Broken(which, _) if which == file));
    }
}
