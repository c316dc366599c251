//! How each proposal of the doctor is proved in a testbed, or why it cannot be: the only home of both. A proposal that
//! is in no row fails a test.

use super::{congestion, cpu, queue};
use crate::testbed::presets::MTU_BYTES;

/// Which findings a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// The one that is called so.
    Is(&'static str),
    /// Those called so behind the name of a part of the machine: `eth0 MTU`.
    Ends(&'static str),
    /// Those called so before the name of what they are about: `path MTU to far:443`.
    Begins(&'static str),
}

/// How a proposal is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// One stream that sends all the time, on a path that loses what this machine's lose.
    Stream,
    /// The same; where bbr is proposed, on a path that loses packets whatever this machine's do.
    Control,
    /// The same, always on a path that loses packets: it is for nothing else.
    UnderLoss,
    /// One stream that sends bursts, with rests between.
    Bursts,
    /// One stream on a path that loses large packets without a word.
    BlackHole,
    /// One stream, with hosts and a path of another MTU.
    Mtu,
    /// Small packets beside streams that fill the queue of the sender's device.
    Queue,
    /// Not in a testbed: why, and what it would need.
    Not(&'static str),
    /// It is what was measured, on the path or the disk itself, so there is nothing to prove.
    Measured,
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct Proof {
    /// Which findings. Settings of one row make sense only together.
    pub names: &'static [Name],
    /// How.
    pub how: How,
    /// How much better the median has to be.
    pub gain_min: f64,
    /// Whether what helps in the testbed is to be changed. Else it stays with who knows the site: others have to do the
    /// same, or it is for a use that not everybody has.
    pub is_enough: bool,
}

/// How much better the median has to be: what is less is not worth a change.
const GAIN_MIN: f64 = 1.05;

/// Framing and headers make 5.9 % of a line at 1500 bytes and 1.0 % at 9000 (testbed::wire), so no more than 5.2 % are
/// to be gained where nothing is lost.
const MTU_GAIN_MIN: f64 = 1.02;

const OF_THE_KERNEL: &str = "the kernel has one for all its network namespaces, so hosts of a testbed have this machine's own, and to try another \
                             is to change that. It needs a kernel of its own: a guest, or another machine";

const OF_A_CARD: &str = "it is of a card, and hosts of a testbed have none: theirs are pairs of devices in memory. It needs two machines with \
                         such cards";

const OF_THE_CPUS: &str = "hosts of a testbed share this machine's CPUs with the path between them, so what each of them gains is not seen. It \
                           needs two machines";

const OF_NO_PATH: &str = "it is about no path";

/// What is proposed for the sake of bbr's pace.
pub const OF_THE_SENDER: &str = "a queue that paces saves the sender's CPU the timers, and hosts of a testbed share their CPUs with the path. It \
                                 needs two machines";

/// What can be tried, in the order in which it is: each is tried on top of what helped before.
pub const PROOFS: &[Proof] = &[
    Proof { how: How::Control, ..proof(&[Name::Is(congestion::DEFAULT)]) },
    proof(&[Name::Is("net.ipv4.tcp_rmem"), Name::Is("net.ipv4.tcp_wmem")]),
    proof(&[Name::Is("net.ipv4.tcp_window_scaling")]),
    proof(&[Name::Is("net.ipv4.tcp_moderate_rcvbuf")]),
    Proof { how: How::UnderLoss, ..proof(&[Name::Is("net.ipv4.tcp_sack")]) },
    Proof { how: How::Bursts, is_enough: false, ..proof(&[Name::Is("net.ipv4.tcp_slow_start_after_idle")]) },
    Proof { how: How::BlackHole, ..proof(&[Name::Is("net.ipv4.tcp_mtu_probing")]) },
    Proof { how: How::Mtu, gain_min: MTU_GAIN_MIN, is_enough: false, ..proof(&[Name::Ends(" MTU")]) },
    Proof { how: How::Queue, ..proof(&[Name::Is(queue::DEFAULT), Name::Ends(" queue")]) },
    not(
        &[
            Name::Is("net.core.rmem_max"),
            Name::Is("net.core.wmem_max"),
            Name::Is("net.core.netdev_max_backlog"),
        ],
        OF_THE_KERNEL,
    ),
    not(
        &[
            Name::Ends(" rings"),
            Name::Ends(" offloads"),
            Name::Ends(" pause frames"),
            Name::Ends(" PCIe"),
            Name::Ends(" interrupts"),
        ],
        OF_A_CARD,
    ),
    not(&[Name::Is(cpu::GOVERNOR_NAME), Name::Is("NUMA nodes"), Name::Is("heat")], OF_THE_CPUS),
    not(
        &[
            Name::Is("clock source"),
            Name::Is("synchronised"),
            Name::Is("open files"),
            Name::Is("locked memory"),
            Name::Is("kernel.io_uring_disabled"),
            Name::Is("energy"),
            Name::Ends(" mount options"),
        ],
        OF_NO_PATH,
    ),
    Proof {
        how: How::Measured,
        ..proof(&[Name::Begins("path MTU to "), Name::Ends(" write"), Name::Ends(" read")])
    },
];

/// By one stream on the path as it is.
const fn proof(names: &'static [Name]) -> Proof {
    Proof { names, how: How::Stream, gain_min: GAIN_MIN, is_enough: true }
}

const fn not(names: &'static [Name], why: &'static str) -> Proof {
    Proof { how: How::Not(why), ..proof(names) }
}

/// The row of a finding, by its name.
pub fn of(finding: &str) -> Option<&'static Proof> {
    PROOFS.iter().find(|proof| proof.has(finding))
}

impl Proof {
    /// Whether it is about a finding of this name.
    pub fn has(&self, finding: &str) -> bool {
        self.names.iter().any(|name| match name {
            Name::Is(name) => finding == *name,
            Name::Ends(name) => finding.ends_with(*name),
            Name::Begins(name) => finding.starts_with(*name),
        })
    }
}

// What a trial of an MTU is compared with, and what the gain above was reckoned from.
const _: () = assert!(MTU_BYTES == 1500);

#[cfg(test)]
mod tests {
    use super::super::network::rings_name;
    use super::super::wanted::{Reach, SYSCTLS};
    use super::*;
    use crate::testbed::wire::ETHERNET_FRAMING_BYTES;

    fn rows(finding: &str) -> usize {
        PROOFS.iter().filter(|proof| proof.has(finding)).count()
    }

    #[test]
    fn each_setting_has_one_row_and_those_of_a_host_are_tried() {
        for sysctl in SYSCTLS {
            assert_eq!(rows(sysctl.key), 1, "{}", sysctl.key);
            let is_tried = !matches!(of(sysctl.key).expect("a row").how, How::Not(_));
            // The kernel has one default of queues, but a device may have any.
            let expected = sysctl.reach == Reach::Namespace || sysctl.key == queue::DEFAULT;
            assert_eq!(is_tried, expected, "{}", sysctl.key);
        }
    }

    #[test]
    fn a_part_of_a_machine_has_one_row_whatever_it_is_called() {
        let rings = rings_name("bond0.7");
        for name in ["eth0 MTU", "path MTU to queue:443", "/data write", "/a queue write", rings.as_str()] {
            assert_eq!(rows(name), 1, "{name}");
        }
        assert_eq!(of("eth0 MTU").map(|proof| (proof.how, proof.is_enough)), Some((How::Mtu, false)));
        assert_eq!(rows("processors"), 0, "nothing is proposed of them");
    }

    #[test]
    fn what_a_larger_mtu_may_gain_is_more_than_is_asked_of_it() {
        let share = |mtu: f64| (mtu - 52.0) / (mtu + f64::from(ETHERNET_FRAMING_BYTES));
        let gain = share(9000.0) / share(f64::from(MTU_BYTES));
        assert!((gain - 1.0516).abs() < 1e-3 && MTU_GAIN_MIN < gain, "{gain}");
    }
}
