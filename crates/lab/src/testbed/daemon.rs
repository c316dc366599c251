//! The testbed's own process: makes the hosts, carries the packets, answers `status` and `set`, and takes all of it
//! with it when it ends.

use super::check::{End, round_trips};
use super::direction::{Direction, Numbers, Shared};
use super::hosts::{self, Hosts, QUEUE_BACK, QUEUE_FORWARD};
use super::presets::MTU_BYTES;
use super::registry::{HostRecord, Record, own_start_ticks, socket_of};
use super::spec::{Paths, Side, Spec};
use super::warden;
use super::wire::{Counters, Path, Wire};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io, of_namespace, of_thread};
use thalweg_sys::namespace::NetworkNamespace;
use thalweg_sys::process::boot_id;

/// What a request may have.
pub const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// More than this is never taken off a direction's delay: a machine that is so slow is to be seen.
const OWN_NS_MAX: u64 = 300_000;

/// The round trip time at which the wire is calibrated, beside none.
const TRIAL_NS: u64 = 16_000_000;

/// Packets that calibrate: a third of a second at [`TRIAL_NS`].
const TRIAL_ECHOES: usize = 20;

/// How long who asks may take to say what.
const REQUEST_WAIT: Duration = Duration::from_secs(5);

/// A question to a running testbed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// How are you?
    Status,
    /// Do this from now on.
    Set(Paths),
}

/// What a running testbed says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// What it was asked to be, with the path as it is now.
    pub spec: Spec,
    /// Since it is up, in seconds.
    pub seconds: f64,
    /// CPU time of its process, user and system, in seconds. The kernel books on it most of what the receiving
    /// host's TCP does, since packets go on from here.
    pub cpu_seconds: f64,
    /// CPU-seconds for each 10^9 bytes carried, both directions together; `None` before the first.
    pub cpu_seconds_per_gb: Option<f64>,
    /// From left to right.
    pub forward: DirectionStatus,
    /// From right to left.
    pub back: DirectionStatus,
}

/// One direction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// What happened to packets.
    pub counters: Counters,
    /// What a packet takes without any delay of the wire's, in nanoseconds, measured when the testbed came up; taken
    /// off the delay.
    pub own_ns: u64,
    /// Packets and super-packets that the kernel holds for the wire now: in the queue and on the way.
    pub held: u64,
    /// The most of them at a time.
    pub held_max: u64,
    /// Packets lost because the wire was too slow, or refused verdicts: anything but 0 spoils a measurement.
    pub trouble: u64,
}

/// Runs a testbed until its process is ended. `directory` is its own; `spec` was checked; `warden` is a program that
/// calls [`warden::watch`].
///
/// # Errors
/// If it cannot begin, or a direction ends.
pub fn serve(mut spec: Spec, directory: &std::path::Path, warden: Command) -> Result<()> {
    let mut record = Record {
        id: new_id()?,
        pid: std::process::id(),
        start_ticks: own_start_ticks()?,
        boot: boot_id(),
        router_fd: -1,
        hosts: Vec::new(),
        spec: spec.clone(),
    };
    record.write(directory)?;
    let hosts = hosts::build(&spec)?;
    let directions = Directions::open(&spec, &hosts)?;
    write_hosts_file(&hosts, directory)?;
    record.router_fd = hosts.router.number();
    for host in &hosts.hosts {
        let inode = host.namespace.inode().map_err(|error| of_io("look at a network namespace", &error))?;
        record.hosts.push(HostRecord {
            name: host.name.clone(),
            side: host.side,
            address: host.address,
            fd: host.namespace.number(),
            inode,
            cookie: host.namespace.cookie().ok(),
        });
    }
    let listener = std::fs::File::open(directory)
        .and_then(|directory| UnixListener::bind(socket_of(&directory)))
        .map_err(|error| of_io("listen for requests", &error))?;
    // From the next line on programs may come into the hosts.
    warden::appoint(warden, &record)?;
    record.write(directory)?;
    let begun = Instant::now();
    // One that cannot be heard is the asker's loss.
    for stream in listener.incoming().flatten() {
        let _ = directions.answer(&stream, &mut spec, begun);
    }
    Ok(())
}

/// Whether a path can be emulated here: in a network namespace, which goes with the call, what is forwarded is queued,
/// and the queues are taken. Hosts and the devices between them are not made, so whether there is an `ip` that makes
/// them is not seen.
///
/// # Errors
/// As [`serve`], with what the kernel lacks.
pub fn try_wire() -> Result<()> {
    let router = NetworkNamespace::new().map_err(|error| of_namespace(&error))?;
    hosts::queue_between_sides(&router)?;
    let shared = Arc::new(Shared::new(Wire::new(Path::default(), 0)));
    open_direction(&router, QUEUE_FORWARD, MTU_BYTES, shared).map(drop)
}

fn open_direction(
    router: &NetworkNamespace,
    queue: u16,
    mtu_bytes: u32,
    shared: Arc<Shared>,
) -> Result<Direction> {
    let numbers = Numbers { whole: queue, parts: queue + 1 };
    router.inside(|| Direction::open(numbers, mtu_bytes, shared)).map_err(|error| {
        let kind = thalweg_mover::failure::kind_of_io(&error);
        Failure::new(kind, "open the wire", error.to_string())
    })
}

struct Directions {
    forward: Arc<Shared>,
    back: Arc<Shared>,
    router_queues: std::path::PathBuf,
    own: Own,
}

/// What a packet takes on this machine beyond its delay, in each direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Own {
    /// Without any delay.
    awake_ns: u64,
    /// At a round trip of [`TRIAL_NS`]: a machine that has waited for some milliseconds is deeper asleep, and takes
    /// some tenths of one longer to wake up the hosts. Longer waits do not change that much.
    asleep_ns: u64,
}

impl Own {
    /// At this round trip time, between the two in proportion.
    fn at(self, round_trip_ns: u64) -> u64 {
        let share = round_trip_ns.min(TRIAL_NS) as f64 / TRIAL_NS as f64;
        (self.awake_ns as f64 * (1.0 - share) + self.asleep_ns as f64 * share) as u64
    }
}

impl Directions {
    /// Both directions at work, each in a thread of its own in the router.
    fn open(spec: &Spec, hosts: &Hosts) -> Result<Directions> {
        let idle = || Arc::new(Shared::new(Wire::new(Path::default(), 0)));
        let (forward, back) = (idle(), idle());
        let mut router_queues = None;
        for (shared, queue) in [(&forward, QUEUE_FORWARD), (&back, QUEUE_BACK)] {
            let direction = open_direction(&hosts.router, queue, spec.mtu_bytes, Arc::clone(shared))?;
            let told = start(direction, hosts, queue)?;
            router_queues.get_or_insert(told);
        }
        let router_queues = router_queues.unwrap_or_default();
        let mut directions = Directions { forward, back, router_queues, own: Own::default() };
        directions.own =
            Own { awake_ns: directions.own_at(hosts, 0)?, asleep_ns: directions.own_at(hosts, TRIAL_NS)? };
        directions.take_own_off(&spec.paths);
        *directions.forward.wire() = Wire::new(spec.paths.forward.clone(), spec.seed);
        // Another stream of chance for the way back.
        *directions.back.wire() = Wire::new(spec.paths.back.clone(), !spec.seed);
        Ok(directions)
    }

    /// Half of what a round trip takes on this machine beyond the delay that it was asked for.
    fn own_at(&self, hosts: &Hosts, round_trip_ns: u64) -> Result<u64> {
        let end = |side: Side| -> Result<End> {
            let host = hosts.hosts.iter().find(|host| host.side == side);
            let host = host.ok_or_else(|| {
                Failure::new(FailureKind::Internal, "calibrate the wire", "there are no hosts")
            })?;
            Ok(End { namespace: super::registry::reopen(&host.namespace)?, address: host.address })
        };
        for shared in [&self.forward, &self.back] {
            *shared.wire() = Wire::new(Path { delay_ns: round_trip_ns / 2, ..Path::default() }, 0);
        }
        let asked = Duration::from_nanos(round_trip_ns);
        let seen = round_trips(&end(Side::Left)?, &end(Side::Right)?, asked, TRIAL_ECHOES)?;
        let beyond = seen[seen.len() / 2].saturating_sub(asked);
        Ok((beyond.as_nanos() as u64 / 2).min(OWN_NS_MAX))
    }

    fn take_own_off(&self, paths: &Paths) {
        let own_ns = self.own.at(paths.forward.delay_ns.saturating_add(paths.back.delay_ns));
        self.forward.set_own_ns(own_ns);
        self.back.set_own_ns(own_ns);
    }

    fn answer(&self, stream: &UnixStream, spec: &mut Spec, begun: Instant) -> std::io::Result<()> {
        stream.set_read_timeout(Some(REQUEST_WAIT))?;
        stream.set_write_timeout(Some(REQUEST_WAIT))?;
        let mut line = String::new();
        BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
        let answer: std::result::Result<Status, String> = match serde_json::from_str(&line) {
            Ok(Request::Status) => Ok(self.status(spec, begun)),
            Ok(Request::Set(paths)) => paths.check().map(|()| {
                self.take_own_off(&paths);
                self.forward.set_path(paths.forward);
                self.back.set_path(paths.back);
                spec.paths.preset = paths.preset;
                self.status(spec, begun)
            }),
            Err(error) => Err(error.to_string()),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        (&mut &*stream).write_all(text.as_bytes())
    }

    fn status(&self, spec: &Spec, begun: Instant) -> Status {
        let (forward_path, forward) = self.direction_status(&self.forward, QUEUE_FORWARD);
        let (back_path, back) = self.direction_status(&self.back, QUEUE_BACK);
        let cpu_seconds = thalweg_sys::cpu_time::process_cpu().as_secs_f64();
        let bytes = forward.counters.bytes + back.counters.bytes;
        let mut spec = spec.clone();
        (spec.paths.forward, spec.paths.back) = (forward_path, back_path);
        Status {
            spec,
            seconds: begun.elapsed().as_secs_f64(),
            cpu_seconds,
            cpu_seconds_per_gb: (bytes > 0).then(|| cpu_seconds / (bytes as f64 / 1e9)),
            forward,
            back,
        }
    }

    fn direction_status(&self, shared: &Shared, queue: u16) -> (Path, DirectionStatus) {
        let (path, counters) = {
            let wire = shared.wire();
            (wire.path().clone(), wire.counters())
        };
        let direction = DirectionStatus {
            counters,
            own_ns: shared.own_ns(),
            held: shared.held.load(Ordering::Relaxed),
            held_max: shared.held_max.load(Ordering::Relaxed),
            trouble: shared.errors.load(Ordering::Relaxed) + self.dropped_by_kernel(queue),
        };
        (path, direction)
    }

    /// Packets that the kernel could not queue, or not tell of.
    fn dropped_by_kernel(&self, queue: u16) -> u64 {
        let text = std::fs::read_to_string(&self.router_queues).unwrap_or_default();
        text.lines()
            .map(|line| {
                line.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0)).collect::<Vec<u64>>()
            })
            .filter(|row| row.len() > 6 && (row[0] == u64::from(queue) || row[0] == u64::from(queue) + 1))
            .map(|row| row[5] + row[6])
            .sum()
    }
}

/// Starts a direction's thread; returns where that thread's view of the kernel's queues is.
fn start(direction: Direction, hosts: &Hosts, queue: u16) -> Result<std::path::PathBuf> {
    let router = super::registry::reopen(&hosts.router)?;
    let (told, hears) = std::sync::mpsc::channel();
    let carry = move || {
        let entered = router.enter().and_then(|()| {
            // Packets are late otherwise when programs in the hosts keep all cores busy; without the right to it, as
            // good as it gets.
            let _ = thalweg_sys::priority::run_before_others();
            let tid = rustix::thread::gettid().as_raw_nonzero();
            let _ = told.send(format!("/proc/self/task/{tid}/net/netfilter/nfnetlink_queue").into());
            direction.carry()
        });
        // Half a path is no path.
        eprintln!("error: carry packets failed: {entered:?}");
        std::process::exit(1);
    };
    std::thread::Builder::new()
        .name(format!("wire-{queue}"))
        .spawn(carry)
        .map_err(|error| of_thread(&error))?;
    hears
        .recv_timeout(REQUEST_WAIT)
        .map_err(|error| Failure::new(FailureKind::Internal, "start the wire", error.to_string()))
}

/// `/etc/hosts` of the hosts: `left` and `right` are the first of each side.
fn write_hosts_file(hosts: &Hosts, directory: &std::path::Path) -> Result<()> {
    let mut text = "127.0.0.1 localhost\n".to_owned();
    for host in &hosts.hosts {
        let short = host.name.strip_suffix("-1").map(|short| format!(" {short}")).unwrap_or_default();
        text += &format!("{} {}{short}\n", host.address, host.name);
    }
    let path = directory.join("hosts");
    // Programs of any user look up names; the umask may say otherwise.
    std::fs::write(&path, text)
        .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)))
        .map_err(|error| of_io("write the hosts file", &error))
}

fn new_id() -> Result<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/uuid")
        .map(|text| text.trim().to_owned())
        .map_err(|error| of_io("read /proc/sys/kernel/random/uuid", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_off_grows_with_the_delay_until_the_machine_is_asleep() {
        let own = Own { awake_ns: 20_000, asleep_ns: 120_000 };
        assert_eq!(
            [0, TRIAL_NS / 2, TRIAL_NS, 400_000_000].map(|rtt| own.at(rtt)),
            [20_000, 70_000, 120_000, 120_000]
        );
    }
}
