//! A testbed of a suite: two hosts, the path between them, what it carried and what it cost.

use super::record::{LOST_BY_A_SLOW_MACHINE, Sample};
use super::workspace::Workspace;
use crate::testbed::daemon::{self, Request, Status};
use crate::testbed::hosts;
use crate::testbed::registry::{Record, Registry};
use crate::testbed::spec::{Paths, Spec};
use crate::testbed::wire::ETHERNET_FRAMING_BYTES;
use crate::wrap::wrap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_sys::child::dies_with_us;
use thalweg_sys::namespace::NetworkNamespace;

/// See the module; all of it goes with the value.
pub struct Testbed {
    /// Where it is recorded.
    pub registry: Registry,
    record: Record,
    /// Where clients are.
    pub left: Host,
    /// Where servers are.
    pub right: Host,
    /// Further hosts on the right, which reach the first without the path.
    pub beyond: Vec<Host>,
}

/// One host.
pub struct Host {
    /// `left-1`.
    pub name: String,
    /// Its address.
    pub address: std::net::Ipv4Addr,
    /// How a program is put into it: this program, and its words.
    run: (PathBuf, Vec<String>),
}

impl Host {
    /// The command, in this host.
    pub fn enter(&self, command: &Command) -> Command {
        let mut entered = Command::new(&self.run.0);
        // It becomes the program, which ends with us like all others.
        dies_with_us(&mut entered);
        entered.args(&self.run.1);
        wrap(entered, command)
    }
}

/// What a path is like, in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathWish {
    /// Round trip time.
    pub rtt: Duration,
    /// Rate of the line.
    pub rate_bits_per_s: u64,
    /// Share of packets lost on the way from left to right, and from right to left.
    pub loss: f64,
    /// Of all hosts' devices, from when they come up.
    pub mtu_bytes: u32,
}

impl PathWish {
    /// What the line carries of TCP's payload.
    pub fn payload_bits_per_s(&self) -> f64 {
        self.rate_bits_per_s as f64 * payload_share(self.mtu_bytes)
    }

    /// Both directions, alike.
    pub fn paths(&self) -> Paths {
        let mut paths = Paths::default();
        let rtt_ns = u64::try_from(self.rtt.as_nanos()).unwrap_or(u64::MAX);
        for (path, delay_ns) in [(&mut paths.forward, rtt_ns / 2), (&mut paths.back, rtt_ns - rtt_ns / 2)] {
            path.delay_ns = delay_ns;
            path.rate_bits_per_s = Some(self.rate_bits_per_s);
            path.loss = self.loss;
        }
        paths.set_default_queues();
        paths
    }
}

/// What an emulated path is made of.
const NEEDS: &str = "an emulated path needs root, network namespaces and packet queues";

/// What is measured on a machine that has none of it.
const WITHOUT: &str = "without one go `order`, `layout`, `storage`, and without --rtt `sweep bulk`, `sweep streaming`, \
                       `frames`; `lag` and `predict` leave out what is far away";

/// MTU of all hosts, where a suite has no other.
pub const MTU_BYTES: u32 = 1500;

/// TCP's payload in a packet: headers of IP and TCP with time stamps are 52 bytes.
pub fn segment_bytes(mtu_bytes: u32) -> f64 {
    f64::from(mtu_bytes) - 52.0
}

/// Which share of a line's rate is TCP's payload: Ethernet's framing counts.
pub fn payload_share(mtu_bytes: u32) -> f64 {
    segment_bytes(mtu_bytes) / f64::from(mtu_bytes + ETHERNET_FRAMING_BYTES)
}

impl Testbed {
    /// Whether one can be had here; if not, why not. A namespace and its packet queues are tried, and go again.
    ///
    /// # Errors
    /// `Unsupported`, with what is missing, and what can be measured without.
    pub fn check() -> Result<()> {
        daemon::try_wire().map_err(|failure| {
            let cause = format!("{NEEDS}: {}; {WITHOUT}", failure.cause);
            Failure::new(FailureKind::Unsupported, "measure over an emulated path", cause)
        })
    }

    /// Makes one, with these kernel settings in its hosts. `name` is unlike others of the same suite.
    ///
    /// # Errors
    /// What it says if it cannot come up.
    pub fn up(
        workspace: &Workspace,
        name: &str,
        path: &PathWish,
        sysctls: &[(&str, &str)],
    ) -> Result<Testbed> {
        Testbed::up_with(workspace, name, path, sysctls, 1)
    }

    /// The same with so many hosts on the right, 1 to 9.
    ///
    /// # Errors
    /// As [`Self::up`].
    pub fn up_with(
        workspace: &Workspace,
        name: &str,
        path: &PathWish,
        sysctls: &[(&str, &str)],
        on_the_right: u8,
    ) -> Result<Testbed> {
        let state = workspace.path("testbeds");
        let registry = Registry::new(Some(&state.join("testbed")))?;
        let spec = Spec {
            name: name.to_owned(),
            left: 1,
            right: on_the_right,
            mtu_bytes: path.mtu_bytes,
            paths: path.paths(),
            seed: 0,
            sysctls: sysctls.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        };
        let words = |what: &str| {
            let state = state.display().to_string();
            let words = ["testbed", what, "--name", name, "--state", &state];
            words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
        };
        let mut wire = workspace.own_command("testbed")?;
        wire.args(words("wire"));
        let record = registry.up(&spec, wire)?;
        let host = |side: &str| -> Result<Host> {
            let host = record.host(side)?;
            let mut run = words("run");
            run.push(host.name.clone());
            let program = workspace.own_command("testbed")?.get_program().into();
            Ok(Host { name: host.name.clone(), address: host.address, run: (program, run) })
        };
        let (left, right) = (host("left")?, host("right")?);
        let beyond = (2..=on_the_right).map(|number| host(&format!("right-{number}")));
        let beyond = beyond.collect::<Result<Vec<Host>>>()?;
        Ok(Testbed { registry, record, left, right, beyond })
    }

    /// Its name, for whoever asks the registry.
    pub fn name(&self) -> &str {
        &self.record.spec.name
    }

    /// Changes the path.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn set(&self, path: &PathWish) -> Result<()> {
        self.set_paths(path.paths())
    }

    /// The same with all that a path can do to packets.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn set_paths(&self, paths: Paths) -> Result<()> {
        self.registry.ask(self.name(), &Request::Set(paths)).map(drop)
    }

    /// Has connections that begin from now on in any of its hosts begin with a window of so many segments; `None`: with
    /// that of the kernel.
    ///
    /// # Errors
    /// If the testbed ended; if `ip` does not take it.
    pub fn set_initial_window(&self, segments: Option<u32>) -> Result<()> {
        let sysctls = &self.record.spec.sysctls;
        [&self.left, &self.right].into_iter().chain(&self.beyond).try_for_each(|host| {
            hosts::set_initial_window(&self.namespace(host)?, &host.name, sysctls, segments)
        })
    }

    /// What it carried and cost so far.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn carried(&self) -> Result<Carried> {
        Ok(Carried::of(&self.registry.ask(self.name(), &Request::Status)?))
    }

    /// The network of a host.
    ///
    /// # Errors
    /// If the testbed ended.
    pub fn namespace(&self, host: &Host) -> Result<NetworkNamespace> {
        self.record.namespace(self.record.host(&host.name)?.fd)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let _ = self.registry.down(self.name());
    }
}

/// Counters of a testbed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Carried {
    /// From left to right, headers and what was sent again included.
    pub forward_bytes: u64,
    /// From right to left.
    pub back_bytes: u64,
    /// Packets lost on purpose.
    pub lost: u64,
    /// Packets that found the queue full.
    pub overflowed: u64,
    /// Packets that this machine was too slow for: anything but 0 spoils a measurement.
    pub trouble: u64,
    /// CPU of the wire.
    pub cpu_s: f64,
}

impl Carried {
    /// Since it is up, as a testbed says it.
    pub fn of(status: &Status) -> Carried {
        let (forward, back) = (&status.forward, &status.back);
        Carried {
            forward_bytes: forward.counters.bytes,
            back_bytes: back.counters.bytes,
            lost: forward.counters.lost + back.counters.lost,
            overflowed: forward.counters.overflowed + back.counters.overflowed,
            trouble: forward.trouble + back.trouble,
            cpu_s: status.cpu_seconds,
        }
    }

    /// From then to now.
    pub fn since(&self, then: &Carried) -> Carried {
        Carried {
            forward_bytes: self.forward_bytes - then.forward_bytes,
            back_bytes: self.back_bytes - then.back_bytes,
            lost: self.lost - then.lost,
            overflowed: self.overflowed - then.overflowed,
            trouble: self.trouble - then.trouble,
            cpu_s: self.cpu_s - then.cpu_s,
        }
    }

    /// What the wire cost, for 10^9 bytes that it carried in both directions; none if it carried nothing.
    pub fn cpu_s_per_gb(&self) -> Option<f64> {
        let bytes = self.forward_bytes + self.back_bytes;
        (bytes > 0).then(|| self.cpu_s / (bytes as f64 / 1e9))
    }

    /// A sample that was taken meanwhile, with all of it.
    #[must_use]
    pub fn told_in(&self, mut sample: Sample) -> Sample {
        sample.wire_cpu_s_per_gb = self.cpu_s_per_gb();
        for (name, value, unit) in [
            ("bytes_forward_on_the_wire", self.forward_bytes, "B"),
            ("bytes_back_on_the_wire", self.back_bytes, "B"),
            ("packets_lost", self.lost, "1"),
            ("packets_dropped_by_the_queue", self.overflowed, "1"),
            (LOST_BY_A_SLOW_MACHINE, self.trouble, "1"),
        ] {
            sample = sample.measured(name, value as f64, unit);
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Suite;

    #[test]
    fn whoever_can_have_no_path_is_told_of_suites_that_there_are() {
        let names: Vec<&str> = WITHOUT.split('`').skip(1).step_by(2).collect();
        assert_eq!(names.len(), 8);
        assert!(names.iter().all(|name| Suite::find(name).is_some()), "{names:?}");
    }

    #[test]
    fn what_a_path_carried_and_lost_meanwhile_and_what_that_cost_come_into_the_sample() {
        let then = Carried {
            forward_bytes: 1_000_000_000,
            back_bytes: 0,
            lost: 1,
            overflowed: 2,
            trouble: 3,
            cpu_s: 1.0,
        };
        let now = Carried { forward_bytes: 3_500_000_000, back_bytes: 500_000_000, cpu_s: 2.5, ..then };
        let sample = now.since(&then).told_in(Sample { wall_s: 1.0, ..Sample::default() });
        assert_eq!(sample.wire_cpu_s_per_gb, Some(0.5));
        assert!(sample.is_emulated() && sample.counts());
        let number = |name: &str| sample.measured[name].value();
        assert_eq!(number("bytes_forward_on_the_wire"), Some(2.5e9));
        assert_eq!((number("packets_lost"), number(LOST_BY_A_SLOW_MACHINE)), (Some(0.0), Some(0.0)));
        let spoilt = Carried { trouble: 4, ..now }.since(&then).told_in(sample);
        assert!(!spoilt.counts(), "it lost a packet because this machine was too slow");
        assert_eq!(then.since(&then).cpu_s_per_gb(), None);
    }
}
