//! What the machine charges a process, and what it withholds: CPU, waits, control group, disks.
//!
//! Everything is read from `/proc` and the control group file systems, takes some tens of microseconds, and is a total
//! since some start: take the difference of two looks. What a kernel does not tell is `None` or zero.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cpu_time;

/// What this process has used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Times a thread waited.
    pub voluntary_switches: u64,
    /// Times a CPU was taken away from a thread that could have gone on.
    pub involuntary_switches: u64,
    /// Time in which the threads that live now could have run and had no CPU, summed.
    pub runnable: Duration,
    /// Bytes fetched from a medium for it.
    pub read_bytes: u64,
    /// Bytes it caused to be written to a medium.
    pub written_bytes: u64,
}

/// What the control group of this process lets it have, and whether it had to wait for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuQuota {
    /// CPUs in the long run, in thousandths; the tightest of the group and those above it.
    pub quota_milli: Option<u32>,
    /// Time in which a quota was used up, summed over the group and those above it; `None` where none tells.
    pub throttled: Option<Duration>,
    /// Times it was.
    pub throttled_count: u64,
}

/// What a block device did for everybody since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time with anything under way.
    pub busy: Duration,
    /// Time in flushes (5.5).
    pub flush: Duration,
}

/// How well the system's clock follows the world's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// Whether something sets it by others.
    pub synchronised: bool,
    /// How far it may be off.
    pub error_max: Duration,
}

/// Asks the kernel about the system's clock (`adjtimex`, without setting anything).
///
/// # Errors
/// What the kernel says.
pub fn clock_state() -> io::Result<ClockState> {
    // JUSTIFICATION: rustix has no such call.
    // SAFETY: a `timex` is plain numbers, of which zero is a value.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `modes` is 0, so nothing is set; the kernel writes within `state`.
    let said = unsafe { libc::adjtimex(&raw mut state) };
    if said < 0 {
        return Err(io::Error::last_os_error());
    }
    let error_max = Duration::from_micros(u64::try_from(state.maxerror).unwrap_or(0));
    Ok(ClockState { synchronised: said != libc::TIME_ERROR, error_max })
}

/// Looks at this process.
///
/// # Errors
/// What the kernel says.
pub fn process_use() -> io::Result<ProcessUse> {
    let own = cpu_time::of_process()?;
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    Ok(ProcessUse {
        runnable: runnable(),
        read_bytes: after(&io, "read_bytes:").unwrap_or(0),
        written_bytes: after(&io, "write_bytes:").unwrap_or(0),
        ..own
    })
}

/// Second number of each thread's `schedstat`. Threads that have ended are not in it.
fn runnable() -> Duration {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let of_task = |task: io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(of_task).sum())
}

/// A number that is the same for all processes of one running kernel, and tells nothing else about it. 0 if unknown.
pub fn boot_number() -> u64 {
    let Ok(id) = fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return 0 };
    // FNV-1a, 64 bits: only ever compared.
    id.trim()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Looks at the control group of this process, of version 1 or 2, and at those above it: any of them may have a quota,
/// and each counts only what its own took.
pub fn cpu_quota() -> CpuQuota {
    cpu_group().map(|(directory, root, is_v1)| cpu_quota_of(&directory, &root, is_v1)).unwrap_or_default()
}

fn cpu_quota_of(directory: &Path, root: &Path, is_v1: bool) -> CpuQuota {
    let groups = directory.ancestors().take_while(|group| group.starts_with(root));
    let of_group = |group: &Path| {
        let read = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
        let stat = read("cpu.stat");
        let throttled = match is_v1 {
            true => after(&stat, "throttled_time ").map(Duration::from_nanos),
            false => after(&stat, "throttled_usec ").map(Duration::from_micros),
        };
        let quota_milli = match is_v1 {
            true => quota_of(&read("cpu.cfs_quota_us"), &read("cpu.cfs_period_us")),
            false => {
                read("cpu.max").trim().split_once(' ').and_then(|(quota, period)| quota_of(quota, period))
            }
        };
        CpuQuota { quota_milli, throttled, throttled_count: after(&stat, "nr_throttled ").unwrap_or(0) }
    };
    // A sum, so that what one group took before hides nothing of what another takes now.
    groups.map(of_group).fold(CpuQuota::default(), |all, one| CpuQuota {
        quota_milli: all.quota_milli.into_iter().chain(one.quota_milli).min(),
        throttled: all.throttled.into_iter().chain(one.throttled).reduce(|all, one| all + one),
        throttled_count: all.throttled_count + one.throttled_count,
    })
}

/// `max` and -1 are no limit.
fn quota_of(quota: &str, period: &str) -> Option<u32> {
    let (quota, period) = (quota.trim().parse::<i64>().ok()?, period.trim().parse::<i64>().ok()?);
    let is_limited = quota > 0 && period > 0;
    is_limited.then(|| u32::try_from(quota.saturating_mul(1000) / period).unwrap_or(u32::MAX))
}

/// Directory of this process's group that governs CPU, root of its hierarchy, and whether that is of version 1.
fn cpu_group() -> Option<(PathBuf, PathBuf, bool)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let v1 = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == "cpu").then(|| (controllers.to_owned(), path.to_owned()))
    });
    if let Some((controllers, path)) = v1 {
        let root = [controllers.as_str(), "cpu"].map(|name| Path::new("/sys/fs/cgroup").join(name));
        let root = root.into_iter().find(|root| root.is_dir())?;
        return Some((root.join(path.trim_start_matches('/')), root, true));
    }
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    // Beside version 1, version 2 has a place of its own.
    let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(PathBuf::from);
    let root = root.into_iter().find(|root| root.join("cgroup.controllers").exists())?;
    Some((root.join(path.trim_start_matches('/')), root, false))
}

/// Time in which some task of the machine waited for `io` or `cpu` (pressure stall information); `None` where the
/// kernel does not tell.
pub fn pressure(of: &str) -> Option<Duration> {
    let text = fs::read_to_string(Path::new("/proc/pressure").join(of)).ok()?;
    let some = text.lines().find(|line| line.starts_with("some"))?;
    after(some, "total=").map(Duration::from_micros)
}

/// Major and minor number of a device number as `st_dev` has it.
pub fn device_numbers(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// What a block device did. `None` for what is none (a file system without a device of its own).
pub fn device_use(major: u32, minor: u32) -> Option<DeviceUse> {
    device_line(&fs::read_to_string("/proc/diskstats").ok()?, major, minor)
}

/// Fields as in Documentation/admin-guide/iostats.rst, sectors of 512 bytes, times in ms.
fn device_line(text: &str, major: u32, minor: u32) -> Option<DeviceUse> {
    let line = text.lines().find(|line| {
        let mut fields = line.split_ascii_whitespace().map(str::parse::<u32>);
        fields.next() == Some(Ok(major)) && fields.next() == Some(Ok(minor))
    })?;
    let fields: Vec<u64> =
        line.split_ascii_whitespace().skip(3).map(|field| field.parse().unwrap_or(0)).collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    Some(DeviceUse {
        read_bytes: field(2).saturating_mul(512),
        written_bytes: field(6).saturating_mul(512),
        busy: Duration::from_millis(field(9)),
        flush: Duration::from_millis(field(16)),
    })
}

/// The number right behind `key`.
fn after(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.split_once(key).filter(|(before, _)| is_edge(before)))?.1;
    rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A key begins a line or follows a space: `write_bytes` is no part of `cancelled_write_bytes`.
fn is_edge(before: &str) -> bool {
    before.is_empty() || before.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::Instant;

    #[test]
    fn a_process_that_computes_is_charged_for_it() {
        let before = process_use().unwrap();
        let begun = Instant::now();
        let mut sum = 0u64;
        while begun.elapsed() < Duration::from_millis(50) {
            sum = black_box(sum.wrapping_add(1));
        }
        let after = process_use().unwrap();
        assert!(after.user + after.system > before.user + before.system);
        assert!(boot_number() != 0 && boot_number() == boot_number());
    }

    #[test]
    fn quotas_are_shares_of_a_period_and_max_is_none() {
        assert_eq!(quota_of("25000", "100000\n"), Some(250));
        assert_eq!(quota_of("max", "100000"), None);
        assert_eq!(quota_of("-1\n", "100000\n"), None);
        assert!(cpu_quota().quota_milli.is_none_or(|milli| milli > 0));
    }

    /// The group above has the quota, and says that it was used up.
    #[test]
    fn a_quota_of_a_group_above_counts_with_what_it_took() {
        let root = std::env::temp_dir().join(format!("thalweg-groups-{}", std::process::id()));
        let own = root.join("above/own");
        fs::create_dir_all(&own).unwrap();
        let write = |group: &Path, name: &str, text: &str| fs::write(group.join(name), text).unwrap();
        write(&root.join("above"), "cpu.max", "25000 100000\n");
        write(&root.join("above"), "cpu.stat", "nr_periods 9\nnr_throttled 7\nthrottled_usec 1500000\n");
        write(&own, "cpu.max", "max 100000\n");
        write(&own, "cpu.stat", "nr_periods 2\nnr_throttled 1\nthrottled_usec 200000\n");
        let seen = cpu_quota_of(&own, &root, false);
        write(&root.join("above"), "cpu.cfs_quota_us", "25000\n");
        write(&root.join("above"), "cpu.cfs_period_us", "100000\n");
        write(&root.join("above"), "cpu.stat", "nr_periods 9\nnr_throttled 7\nthrottled_time 1500000000\n");
        write(&own, "cpu.cfs_quota_us", "-1\n");
        write(&own, "cpu.cfs_period_us", "100000\n");
        write(&own, "cpu.stat", "nr_periods 2\nnr_throttled 1\nthrottled_time 200000000\n");
        let seen_v1 = cpu_quota_of(&own, &root, true);
        let nowhere = cpu_quota_of(&root.join("nowhere"), &root.join("nowhere"), false);
        fs::remove_dir_all(&root).unwrap();
        let throttled = Some(Duration::from_millis(1700));
        assert_eq!(seen, CpuQuota { quota_milli: Some(250), throttled, throttled_count: 8 });
        assert_eq!(seen_v1, seen);
        assert_eq!(nowhere, CpuQuota::default());
    }

    #[test]
    fn a_devices_line_is_found_by_its_numbers() {
        let text =
            " 254 0 vda 1 0 16 5 2 0 32 6 0 700 11 0 0 0 0 3 90\n   7 0 loop0 1 2 3 4 5 6 7 8 9 10 11\n";
        let vda = device_line(text, 254, 0).unwrap();
        assert_eq!((vda.read_bytes, vda.written_bytes), (16 * 512, 32 * 512));
        assert_eq!((vda.busy, vda.flush), (Duration::from_millis(700), Duration::from_millis(90)));
        assert_eq!(device_line(text, 7, 0).unwrap().flush, Duration::ZERO);
        assert_eq!(device_line(text, 7, 1), None);
        let io = "rchar: 5\nread_bytes: 7\ncancelled_write_bytes: 1\nwrite_bytes: 9\n";
        assert_eq!((after(io, "read_bytes:"), after(io, "write_bytes:")), (Some(7), Some(9)));
    }
}
