//! What a testbed is to be: hosts, path, settings of the hosts' kernels.

use super::presets;
use super::wire::{Path, default_queue_bytes};
use crate::bench::record::Scaled;
use crate::plot::unit::Unit;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// Hosts of one side at most.
pub const HOSTS_MAX: u8 = 64;

/// The sides of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Where `forward` begins.
    Left,
    /// Where `back` begins.
    Right,
}

/// Both directions of a path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Paths {
    /// From left to right.
    pub forward: Path,
    /// From right to left.
    pub back: Path,
    /// The name of the preset that they were made from; options may have changed them since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
}

/// What a testbed is to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// What the user calls it: letters, digits, `-`, `_`; 1 to 32 of them.
    pub name: String,
    /// Hosts on the left, 1 to [`HOSTS_MAX`].
    pub left: u8,
    /// Hosts on the right, 1 to [`HOSTS_MAX`].
    pub right: u8,
    /// Of every device, in bytes; 576 (RFC 791) to 65535.
    pub mtu_bytes: u32,
    /// The path.
    pub paths: Paths,
    /// Of chance: the same seed and the same packets at the same times meet the same fate.
    pub seed: u64,
    /// Kernel settings in each host, in the order in which they are written: `net.ipv4.tcp_rmem`, value. A congestion
    /// control becomes that of the route to the others as well.
    pub sysctls: Vec<(String, String)>,
}

/// Limits of one direction: refused before anything is made.
pub const DELAY_NS_MAX: u64 = 60_000_000_000;

/// What a line may add to each packet: more than any does, tunnels in tunnels too.
pub const FRAMING_BYTES_MAX: u32 = 1024;

impl Spec {
    /// What is wrong with it, in words.
    ///
    /// # Errors
    /// The first thing found.
    pub fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        for (side, hosts) in [("left", self.left), ("right", self.right)] {
            if !(1..=HOSTS_MAX).contains(&hosts) {
                return Err(format!("{hosts} hosts on the {side}: it must be 1 to {HOSTS_MAX}"));
            }
        }
        if !(576..=65535).contains(&self.mtu_bytes) {
            return Err(format!("an MTU of {} bytes: it must be 576 to 65535", self.mtu_bytes));
        }
        // Becomes a word of a command.
        let is_plain =
            |value: &str| value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_- .".contains(&byte));
        if let Some((key, value)) = self.sysctls.iter().find(|(_, value)| !is_plain(value)) {
            return Err(format!("`{}` is no value of {key}", value.escape_debug()));
        }
        if let Some((key, _)) = self.sysctls.iter().find(|(key, _)| sysctl_path(key).is_none()) {
            return Err(format!("`{key}` is no setting of a network namespace (net.…)"));
        }
        self.paths.check()
    }

    /// What is not as the paper has it whose path it was made from; nothing where it was made from none.
    pub fn scaling(&self) -> Vec<Scaled> {
        let Some(preset) = self.paths.preset.as_deref().and_then(presets::find) else { return Vec::new() };
        let (forward, back) = (&self.paths.forward, &self.paths.back);
        let rate = |rate: Option<u64>| match rate {
            Some(rate) => Unit::BitsPerS.show(rate as f64),
            None => "no limit".to_owned(),
        };
        let rates = [forward, back].map(|path| path.rate_bits_per_s);
        let rates = match rates[0] == rates[1] {
            true => rate(rates[0]),
            false => format!("{} forward, {} back", rate(rates[0]), rate(rates[1])),
        };
        let time = |time_ns: u64| Unit::Seconds.show(time_ns as f64 / 1e9);
        let all = [
            ("rate of the line", rate(Some(preset.rate_bits_per_s)), rates),
            ("round trip time", time(preset.rtt_ns), time(self.paths.rtt_ns())),
            ("MTU", format!("{} B", preset.mtu_bytes), format!("{} B", self.mtu_bytes)),
        ];
        let changed = all.into_iter().filter(|(_, from, to)| from != to);
        let scaled = |(what, from, to): (&str, String, String)| {
            let (what, from) = (what.to_owned(), format!("{from} ({})", preset.source));
            Scaled { what, from, to }
        };
        changed.map(scaled).collect()
    }

    /// All hosts with their addresses, left ones first.
    pub fn hosts(&self) -> impl Iterator<Item = (Side, u8, String, Ipv4Addr)> {
        let of = |side: Side, count: u8| {
            (1..=count).map(move |number| (side, number, host_name(side, number), address(side, number)))
        };
        of(Side::Left, self.left).chain(of(Side::Right, self.right))
    }
}

impl Paths {
    /// What is wrong with them, in words.
    ///
    /// # Errors
    /// The first thing found.
    pub fn check(&self) -> Result<(), String> {
        for (direction, path) in [("forward", &self.forward), ("back", &self.back)] {
            if path.delay_ns > DELAY_NS_MAX || path.jitter_ns > path.delay_ns {
                return Err(format!(
                    "{direction}: delay must be at most 60 s, and jitter no more than the delay of one direction"
                ));
            }
            if path.late_by_ns > DELAY_NS_MAX {
                return Err(format!("{direction}: a late packet is late by 60 s at most"));
            }
            if path.framing_bytes > FRAMING_BYTES_MAX {
                return Err(format!(
                    "{direction}: framing is at most {FRAMING_BYTES_MAX} bytes for each packet"
                ));
            }
            if path.rate_bits_per_s.is_some_and(|rate| rate < 1000) {
                return Err(format!("{direction}: a rate below 1 kbit/s"));
            }
            for share in [path.loss, path.reorder, path.duplicate] {
                if !(0.0..=1.0).contains(&share) {
                    return Err(format!("{direction}: a share of packets must be 0 to 1"));
                }
            }
        }
        Ok(())
    }

    /// Delay of both directions together, in nanoseconds.
    pub fn rtt_ns(&self) -> u64 {
        self.forward.delay_ns + self.back.delay_ns
    }

    /// Gives both directions the default queue for their rate and round trip time.
    pub fn set_default_queues(&mut self) {
        let rtt_ns = self.rtt_ns();
        for path in [&mut self.forward, &mut self.back] {
            path.queue_bytes = default_queue_bytes(path.rate_bits_per_s.unwrap_or(0), rtt_ns);
        }
    }

    /// Gives the default queue for its rate and round trip time to each direction that had it `before` for those of
    /// then. A queue of another size was asked for, and stays.
    pub fn keep_default_queues(&mut self, before: &Paths) {
        let (then_ns, rtt_ns) = (before.rtt_ns(), self.rtt_ns());
        let of = |path: &Path, rtt_ns| default_queue_bytes(path.rate_bits_per_s.unwrap_or(0), rtt_ns);
        for (path, before) in [(&mut self.forward, &before.forward), (&mut self.back, &before.back)] {
            if before.queue_bytes == of(before, then_ns) {
                path.queue_bytes = of(path, rtt_ns);
            }
        }
    }
}

/// Whether this may be the name of a testbed: it becomes a file name.
///
/// # Errors
/// Why not, in words.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    // What begins with a dash would be read as an option, where it is named to another command.
    if is_plain && !name.starts_with('-') && (1..=32).contains(&name.len()) {
        return Ok(());
    }
    Err(format!(
        "`{}` is no name of a testbed: 1 to 32 letters, digits, `-`, `_`, and no `-` first",
        name.escape_debug()
    ))
}

/// `left-2`.
pub fn host_name(side: Side, number: u8) -> String {
    let side = match side {
        Side::Left => "left",
        Side::Right => "right",
    };
    format!("{side}-{number}")
}

/// The router's address, next hop of all hosts.
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// `10.77.1.N` on the left, `10.77.2.N` on the right.
pub fn address(side: Side, number: u8) -> Ipv4Addr {
    let third = match side {
        Side::Left => 1,
        Side::Right => 2,
    };
    Ipv4Addr::new(10, 77, third, number)
}

/// The file of a setting: `net.ipv4.tcp_rmem`. Only settings of the network: all others are of the whole machine.
pub fn sysctl_path(key: &str) -> Option<String> {
    let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let is_beneath = key.split('.').all(|part| !part.is_empty());
    (key.starts_with("net.") && is_plain && is_beneath)
        .then(|| format!("/proc/sys/{}", key.replace('.', "/")))
}

/// What Linux sets where nobody has tuned it (ip-sysctl.rst; buffers of a machine with a few GB).
pub const STOCK: &[(&str, &str)] = &[
    ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
    ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
    ("net.ipv4.tcp_congestion_control", "cubic"),
    ("net.ipv4.tcp_mtu_probing", "0"),
];

/// 000 Table III, as far as it is of a network namespace. `net.core.rmem_max`, `wmem_max`, `netdev_max_backlog` and
/// `default_qdisc` are of the whole machine and stay as they are.
pub const TUNED: &[(&str, &str)] = &[
    ("net.ipv4.tcp_rmem", "4096 67108864 1073741824"),
    ("net.ipv4.tcp_wmem", "4096 67108864 1073741824"),
    ("net.ipv4.tcp_congestion_control", "cubic"),
    ("net.ipv4.tcp_mtu_probing", "1"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_the_directory_are_refused() {
        assert!(check_name("wan-100_ms").is_ok());
        for bad in ["", "..", "a/b", "a b", "-x", "--all", &"x".repeat(33)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    /// What options change of a preset is told as what a suite changes of its paper.
    #[test]
    fn what_is_not_as_the_paper_has_it_is_told_with_the_paper() {
        let preset = presets::find("metro").unwrap();
        let mut spec = Spec {
            name: "x".into(),
            left: 1,
            right: 1,
            mtu_bytes: preset.mtu_bytes,
            paths: Paths::default(),
            seed: 0,
            sysctls: Vec::new(),
        };
        assert_eq!(spec.scaling(), [], "it stands for no paper's path");
        spec.paths.preset = Some(preset.name.to_owned());
        for path in [&mut spec.paths.forward, &mut spec.paths.back] {
            (path.delay_ns, path.rate_bits_per_s) = (preset.rtt_ns / 2, Some(preset.rate_bits_per_s));
        }
        assert_eq!(spec.scaling(), []);
        let told = |spec: &Spec| -> Vec<String> {
            spec.scaling().iter().map(|one| format!("{}: {} -> {}", one.what, one.from, one.to)).collect()
        };
        spec.paths.forward.rate_bits_per_s = Some(1_000_000_000);
        spec.paths.back.rate_bits_per_s = Some(1_000_000_000);
        let source = preset.source;
        assert_eq!(told(&spec), [format!("rate of the line: 100 Gbit/s ({source}) -> 1 Gbit/s")]);
        spec.paths.back.rate_bits_per_s = None;
        spec.paths.forward.delay_ns = preset.rtt_ns;
        spec.mtu_bytes = 9000;
        let rtt = format!("round trip time: 10 ms ({source}) -> 15 ms");
        let mtu = format!("MTU: 1500 B ({source}) -> 9000 B");
        let rate = format!("rate of the line: 100 Gbit/s ({source}) -> 1 Gbit/s forward, no limit back");
        assert_eq!(told(&spec), [rate, rtt, mtu]);
    }

    #[test]
    fn a_path_that_no_number_holds_is_refused() {
        let with = |change: fn(&mut Path)| {
            let mut paths = Paths::default();
            change(&mut paths.back);
            paths.check().map_err(|why| why.starts_with("back: "))
        };
        assert_eq!(with(|path| path.delay_ns = DELAY_NS_MAX), Ok(()));
        let odd: [fn(&mut Path); 7] = [
            |path| path.delay_ns = DELAY_NS_MAX + 1,
            |path| path.jitter_ns = 1,
            |path| path.late_by_ns = u64::MAX,
            |path| path.framing_bytes = u32::MAX,
            |path| path.rate_bits_per_s = Some(999),
            |path| path.loss = f64::NAN,
            |path| path.duplicate = -0.1,
        ];
        for change in odd {
            assert_eq!(with(change), Err(true));
        }
    }

    #[test]
    fn a_queue_that_was_asked_for_stays_and_a_default_one_follows_the_path() {
        const GBIT: u64 = 1_000_000_000;
        let changed = |before: &Paths, change: fn(&mut Paths)| {
            let mut paths = before.clone();
            change(&mut paths);
            paths.keep_default_queues(before);
            (paths.forward.queue_bytes, paths.back.queue_bytes, paths)
        };
        // One that does nothing has the default queue.
        let begin: fn(&mut Paths) = |paths| {
            (paths.forward.delay_ns, paths.back.delay_ns) = (50_000_000, 50_000_000);
            (paths.forward.rate_bits_per_s, paths.back.rate_bits_per_s) = (Some(GBIT), Some(GBIT / 10));
        };
        let (forward, back, mut paths) = changed(&Paths::default(), begin);
        assert_eq!((forward, back), (12_500_000, 1_250_000));
        paths.back.queue_bytes = 20_000;
        let (forward, back, _) = changed(&paths, |paths| paths.back.delay_ns = 0);
        assert_eq!((forward, back), (6_250_000, 20_000), "the other direction's is by the round trip");
        let (forward, _, free) = changed(&paths, |paths| paths.forward.rate_bits_per_s = None);
        assert_eq!(forward, super::super::wire::QUEUE_BYTES_MIN);
        let (forward, back, _) = changed(&free, |paths| paths.forward.rate_bits_per_s = Some(GBIT));
        assert_eq!((forward, back), (12_500_000, 20_000));
    }

    #[test]
    fn only_settings_of_the_network_are_taken() {
        assert_eq!(sysctl_path("net.ipv4.tcp_rmem").as_deref(), Some("/proc/sys/net/ipv4/tcp_rmem"));
        for bad in ["kernel.panic", "net..x", "net.ipv4/../../kernel", "net."] {
            assert_eq!(sysctl_path(bad), None, "{bad}");
        }
    }
}
