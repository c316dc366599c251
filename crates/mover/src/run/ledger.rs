//! What a side tells of its time: the accounts of its stages, and what the machine says; and both sides' together.

use crate::basin::{Evidence, Outages};
use crate::stage::{Accounts, Stage};
use std::time::{Duration, Instant};
use thalweg_sys::energy::{self, Energy};
use thalweg_sys::heat::{self, Heat};
use thalweg_sys::host::{self, CpuQuota, DeviceUse, ProcessUse};
use thalweg_sys::machine;
use thalweg_wire::account::{DiskAccount, EnergyAccount, ProcessAccount, SideAccounts, StreamAccount};

/// Time between two tellings of where the time goes.
pub(super) const EVIDENCE_EVERY: Duration = Duration::from_secs(1);

/// What a transfer goes by, as far as it may limit it.
pub struct Settings {
    /// Whether there is a link.
    pub is_linked: bool,
    /// Whether it moves what is still being made.
    pub is_flow: bool,
    /// Whether it gives way to others on the path.
    pub yields: bool,
    /// Whether data travel in ssh.
    pub in_ssh: bool,
    /// Streams.
    pub streams: u16,
    /// Files under way.
    pub concurrency: u32,
    /// Chunks or packs under way in each stream.
    pub depth: Option<u32>,
    /// Bytes a second.
    pub rate_bytes_per_s: Option<u64>,
    /// Bytes under way in each stream.
    pub window_bytes: Option<u64>,
}

/// Both sides' accounts of a transfer of which `entries` are settled.
pub fn evidence(settings: &Settings, entries: u64, sender: SideAccounts, receiver: SideAccounts) -> Evidence {
    let through = |side: &SideAccounts, stage: Stage| side.stage(stage as u8).bytes;
    Evidence {
        elapsed_nanos: sender.elapsed_nanos.max(receiver.elapsed_nanos),
        bytes: match receiver.stages.is_empty() {
            // Until the receiver has told: what was read. What waits in buffers has gone nowhere.
            true => through(&sender, Stage::Digest).min(acked_bytes(&sender).unwrap_or(u64::MAX)),
            false => through(&receiver, Stage::Verify),
        },
        compared_bytes: through(&receiver, Stage::Read),
        entries,
        is_flow: settings.is_flow,
        yields: settings.yields,
        is_linked: settings.is_linked,
        in_ssh: settings.in_ssh,
        streams: settings.streams,
        rate_bytes_per_s: settings.rate_bytes_per_s,
        depth: settings.depth,
        concurrency: settings.concurrency,
        window_bytes: settings.window_bytes,
        socket_bytes_max: socket_bytes_max(&sender, &receiver),
        // Who has the link knows of them.
        outages: Outages::default(),
        sender,
        receiver,
    }
}

/// What this machine lets a socket's buffers grow to, of what is here: where the other side is, nobody says it.
fn socket_bytes_max(sender: &SideAccounts, receiver: &SideAccounts) -> (u64, u64) {
    let Ok(limits) = thalweg_sys::socket::buffer_limits() else { return (0, 0) };
    let here = host::boot_number();
    let if_here = |side: &SideAccounts, bytes: u64| match side.process.host {
        host if host != 0 && host == here => bytes,
        _ => 0,
    };
    (if_here(receiver, limits.tcp_rmem[2]), if_here(sender, limits.tcp_wmem[2]))
}

/// Bytes that the peer's kernel has of all streams, those of other transfers included; `None` without streams.
fn acked_bytes(sender: &SideAccounts) -> Option<u64> {
    sender.streams.iter().map(|stream| stream.acked_bytes).reduce(u64::saturating_add)
}

/// Looks at the machine at the beginning, and tells the difference.
pub(super) struct Ledger {
    began: Instant,
    process: ProcessUse,
    quota: CpuQuota,
    pressure: [Option<Duration>; 2],
    heat: Option<Heat>,
    energy: Option<Energy>,
    disk: Option<(u32, u32, DeviceUse)>,
}

impl Ledger {
    /// Begins now. `device` is the number of what the source or destination rests on.
    pub fn begin(device: Option<u64>) -> Ledger {
        let disk = device.map(host::device_numbers);
        Ledger {
            began: Instant::now(),
            process: host::process_use().unwrap_or_default(),
            quota: host::cpu_quota(),
            pressure: pressures(),
            heat: heat::seen(),
            energy: energy::seen(),
            disk: disk.and_then(|(major, minor)| Some((major, minor, host::device_use(major, minor)?))),
        }
    }

    /// What is known by now.
    pub fn side(&self, accounts: &Accounts, streams: Vec<StreamAccount>) -> SideAccounts {
        SideAccounts {
            elapsed_nanos: nanos(self.began.elapsed()),
            stages: accounts.rows(),
            process: self.process(),
            disk: self.disk(),
            streams,
            room: None,
            limit: None,
            energy: self.energy(),
            renamed: None,
        }
    }

    /// In whole joules: nobody needs more, and what a process computes cannot be made out by them.
    fn energy(&self) -> Option<EnergyAccount> {
        let (now, then) = energy::seen().zip(self.energy)?;
        let used = now.since(then);
        Some(EnergyAccount {
            joules: used.map(|used| used.microjoules / 1_000_000),
            is_platform: used.is_some_and(|used| used.is_platform),
            is_denied: now.is_denied,
        })
    }

    fn process(&self) -> ProcessAccount {
        let (now, then) = (host::process_use().unwrap_or_default(), &self.process);
        let quota = host::cpu_quota();
        let throttled = |quota: &CpuQuota| quota.throttled.unwrap_or_default();
        let [io, cpu] = pressures();
        let pressed = |now: Option<Duration>, then: Option<Duration>| Some(nanos(now?.saturating_sub(then?)));
        let heat = heat::seen().zip(self.heat).map(|(now, then)| now.since(then)).unwrap_or_default();
        let looks = |looks: u64| u32::try_from(looks).unwrap_or(u32::MAX);
        ProcessAccount {
            host: host::boot_number(),
            user_nanos: nanos(now.user.saturating_sub(then.user)),
            system_nanos: nanos(now.system.saturating_sub(then.system)),
            // Of threads that live: those that ended took theirs along.
            runnable_nanos: nanos(now.runnable.saturating_sub(then.runnable)),
            voluntary_switches: now.voluntary_switches.saturating_sub(then.voluntary_switches),
            involuntary_switches: now.involuntary_switches.saturating_sub(then.involuntary_switches),
            read_bytes: now.read_bytes.saturating_sub(then.read_bytes),
            written_bytes: now.written_bytes.saturating_sub(then.written_bytes),
            // Without the quota, which is an account of its own.
            cores_milli: u32::try_from(machine::cores_by_affinity()).unwrap_or(1).saturating_mul(1000),
            quota_milli: quota.quota_milli,
            throttled_nanos: nanos(throttled(&quota).saturating_sub(throttled(&self.quota))),
            throttled_count: quota.throttled_count.saturating_sub(self.quota.throttled_count),
            io_pressure_nanos: pressed(io, self.pressure[0]),
            cpu_pressure_nanos: pressed(cpu, self.pressure[1]),
            heat_looks: looks(heat.looks),
            heat_slowed: looks(heat.slowed),
            heat_times: heat.times,
        }
    }

    fn disk(&self) -> Option<DiskAccount> {
        let (major, minor, then) = self.disk?;
        let now = host::device_use(major, minor)?;
        Some(DiskAccount {
            major,
            minor,
            read_bytes: now.read_bytes.saturating_sub(then.read_bytes),
            written_bytes: now.written_bytes.saturating_sub(then.written_bytes),
            busy_nanos: nanos(now.busy.saturating_sub(then.busy)),
            flush_nanos: nanos(now.flush.saturating_sub(then.flush)),
        })
    }
}

fn pressures() -> [Option<Duration>; 2] {
    ["io", "cpu"].map(host::pressure)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_large_buffers_may_grow_is_told_of_this_machine_alone() {
        let side = |host: u64| {
            let process = ProcessAccount { host, ..ProcessAccount::default() };
            SideAccounts { process, ..SideAccounts::default() }
        };
        let here = host::boot_number();
        let (ours, far) = (side(here), side(here.wrapping_add(1)));
        let limits = thalweg_sys::socket::buffer_limits().unwrap();
        let [read, write] = match here {
            // Which kernel this is nobody knows.
            0 => [0; 2],
            _ => [limits.tcp_rmem[2], limits.tcp_wmem[2]],
        };
        assert_eq!(socket_bytes_max(&ours, &far), (0, write), "a push");
        assert_eq!(socket_bytes_max(&far, &ours), (read, 0), "a pull");
        // Before the other side has told where it is.
        assert_eq!(socket_bytes_max(&side(0), &ours), (read, 0));
    }
}
