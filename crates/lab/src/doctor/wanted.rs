//! The values that are wanted, each with its reason and where it comes from. This is their only home.

use super::finding::Subject;
use crate::testbed::spec::TUNED;
use std::time::Duration;

/// When a value is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Each number of it is at least the wanted one: what is larger stays, none is ever lowered.
    AtLeast,
    /// Its last number is at least what the line needs and memory allows: weighed where it is shown. The others stay.
    Buffer,
    /// Another value may be better for some: it is shown, and left to whoever knows.
    MayBe,
    /// It is the wanted value, or one of these.
    OneOf(&'static [&'static str]),
    /// What is wanted depends on more than the value itself: it is weighed where it is shown.
    Weighed,
}

/// What a kernel setting is of (`ip-sysctl.rst`, `sysctl/net.rst` of the kernel).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Every network namespace has its own.
    Namespace,
    /// The kernel has one.
    Kernel,
}

/// A kernel setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sysctl {
    /// As `sysctl` names it.
    pub key: &'static str,
    /// What is wanted.
    pub value: &'static str,
    /// When it is good.
    pub rule: Rule,
    /// What it is of.
    pub reach: Reach,
    /// Where it is shown.
    pub subject: Subject,
    /// Why.
    pub why: &'static str,
    /// Who says so.
    pub source: &'static str,
}

const TABLE_III: &str = "000 Table III";

/// Kernel settings. 000 Table III was found for one mover and 100 Gbit/s; the paper itself warns of copying such
/// tables, hence `--prove`.
pub const SYSCTLS: &[Sysctl] = &[
    Sysctl {
        key: "net.core.rmem_max",
        value: "2147483647",
        rule: Rule::Buffer,
        reach: Reach::Kernel,
        subject: Subject::Network,
        why: "bounds the receive buffer that a program may ask for; thalweg asks where a far path needs more than \
              net.ipv4.tcp_rmem reaches and this allows it, others more often",
        source: TABLE_III,
    },
    Sysctl {
        key: "net.core.wmem_max",
        value: "2147483647",
        rule: Rule::Buffer,
        reach: Reach::Kernel,
        subject: Subject::Network,
        why: "bounds the send buffer that a program may ask for; thalweg asks where a far path needs more than \
              net.ipv4.tcp_wmem reaches and this allows it, others more often",
        source: TABLE_III,
    },
    Sysctl {
        key: "net.ipv4.tcp_rmem",
        value: tuned("net.ipv4.tcp_rmem"),
        rule: Rule::Buffer,
        reach: Reach::Namespace,
        subject: Subject::Network,
        why: "a stream receives at most its window in each round trip, and the last number bounds the window",
        source: TABLE_III,
    },
    Sysctl {
        key: "net.ipv4.tcp_wmem",
        value: tuned("net.ipv4.tcp_wmem"),
        rule: Rule::Buffer,
        reach: Reach::Namespace,
        subject: Subject::Network,
        why: "what is sent stays in the buffer for a round trip, and the last number bounds the buffer",
        source: TABLE_III,
    },
    Sysctl {
        key: "net.ipv4.tcp_mtu_probing",
        value: tuned("net.ipv4.tcp_mtu_probing"),
        rule: Rule::OneOf(&["2"]),
        reach: Reach::Namespace,
        subject: Subject::Network,
        why: "where a router drops large packets and its ICMP is filtered, a stream stops for good without it (RFC 4821)",
        source: TABLE_III,
    },
    Sysctl {
        key: "net.core.default_qdisc",
        value: "fq_codel",
        rule: Rule::Weighed,
        reach: Reach::Kernel,
        subject: Subject::Network,
        why: "what a device's packets wait in, from when it comes up",
        source: TABLE_III,
    },
    Sysctl {
        key: "net.ipv4.tcp_congestion_control",
        value: tuned("net.ipv4.tcp_congestion_control"),
        rule: Rule::Weighed,
        reach: Reach::Namespace,
        subject: Subject::Congestion,
        why: "which is better depends on what the paths lose; thalweg chooses for each socket, other programs do not",
        source: TABLE_III,
    },
    Sysctl {
        key: "net.core.netdev_max_backlog",
        value: "8192",
        rule: Rule::AtLeast,
        reach: Reach::Kernel,
        subject: Subject::Network,
        why: "packets that wait for the kernel on each CPU; above it they are dropped",
        source: TABLE_III,
    },
    Sysctl {
        key: "net.ipv4.tcp_window_scaling",
        value: "1",
        rule: Rule::AtLeast,
        reach: Reach::Namespace,
        subject: Subject::Network,
        why: "without it a window is 64 KiB at most",
        source: "RFC 7323 section 2",
    },
    Sysctl {
        key: "net.ipv4.tcp_sack",
        value: "1",
        rule: Rule::AtLeast,
        reach: Reach::Namespace,
        subject: Subject::Congestion,
        why: "without it several losses in one window cost a round trip each",
        source: "RFC 2018",
    },
    Sysctl {
        key: "net.ipv4.tcp_slow_start_after_idle",
        value: "0",
        rule: Rule::MayBe,
        reach: Reach::Namespace,
        subject: Subject::Congestion,
        why: "for streams with rests: with 1 a connection that was idle begins with a small window again, and over a \
              distance each burst waits for it to grow; copies do not rest",
        source: "RFC 5681 section 4.1; ip-sysctl.rst of the kernel",
    },
    Sysctl {
        key: "net.ipv4.tcp_moderate_rcvbuf",
        value: "1",
        rule: Rule::AtLeast,
        reach: Reach::Namespace,
        subject: Subject::Network,
        why: "the receive buffer grows to what the path needs only with it",
        source: "tcp(7)",
    },
];

/// Round trip that buffers are to fill if none was measured: the longest of 000 Table IV.
pub const BUFFER_RTT: Duration = Duration::from_millis(100);

/// Slots in each ring of a card, if it has so many (000 Table II, for an Intel E810).
pub const RING_SLOTS: u32 = 8160;

/// Bytes of a packet on lines of [`JUMBO_RATE_BITS_PER_S`] and more: a frame of 9,014 or 9,018 bytes (000 section
/// III-B.1).
pub const JUMBO_MTU_BYTES: u32 = 9000;

/// From this rate on, nodes commonly use jumbo frames (000 section III-B.1).
pub const JUMBO_RATE_BITS_PER_S: u64 = 10_000_000_000;

/// Files that a process should be allowed to have open: eight for each of the entries in flight at once by default.
pub const OPEN_FILES: u64 = 8 * thalweg_mover::plan::CONCURRENCY as u64;

/// Memory that a process should be allowed to lock for registered buffers: what the kernel gives everybody.
pub const LOCKED_BYTES: u64 = 8 << 20;

/// Governor of CPU frequencies (000 reference 23, ESnet's tuning of hosts).
pub const GOVERNOR: &str = "performance";

/// Round trips of 000 Table IV, in milliseconds.
pub const RTTS_MS: [u64; 3] = [10, 50, 100];

/// Frames lost of those sent that ESnet names as typical: 1 of 22,000 (000 section III-B.1).
pub const LOSS_TYPICAL: f64 = 4.6e-5;

/// The value that a tuned host of a testbed has.
const fn tuned(key: &str) -> &'static str {
    let mut at = 0;
    while at < TUNED.len() {
        if same(TUNED[at].0, key) {
            return TUNED[at].1;
        }
        at += 1;
    }
    panic!("no such setting in the tuned hosts of a testbed")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while a.len() == b.len() && at < a.len() && a[at] == b[at] {
        at += 1;
    }
    a.len() == b.len() && at == a.len()
}

impl Sysctl {
    /// Whether `current` is as it should be.
    pub fn is_met_by(&self, current: &str) -> bool {
        match self.rule {
            Rule::AtLeast => is_at_least(current, self.value),
            Rule::OneOf(others) => current == self.value || others.contains(&current),
            Rule::Buffer => last(current) >= last(self.value),
            Rule::MayBe | Rule::Weighed => current == self.value,
        }
    }

    /// What is to be made of `current`: the wanted value, of which each number gives way to a larger one that is there
    /// already.
    pub fn wanted_from(&self, current: &str) -> String {
        match self.rule {
            Rule::AtLeast => larger_of_each(current, self.value),
            Rule::Buffer => with_last(current, last(self.value).unwrap_or_default()),
            Rule::OneOf(_) | Rule::MayBe | Rule::Weighed => self.value.to_owned(),
        }
    }
}

/// The last number of a value.
pub fn last(value: &str) -> Option<u64> {
    value.split_whitespace().next_back()?.parse().ok()
}

/// The same value with `number` as its last one, unless the one that is there is larger.
pub fn with_last(value: &str, number: u64) -> String {
    let most = last(value).map_or(number, |last| last.max(number)).to_string();
    let mut words: Vec<&str> = value.split_whitespace().collect();
    words.pop();
    words.push(&most);
    words.join(" ")
}

/// Number by number the larger one; `wanted` where `current` has not as many.
fn larger_of_each(current: &str, wanted: &str) -> String {
    let (have, want): (Vec<&str>, Vec<&str>) =
        (current.split_whitespace().collect(), wanted.split_whitespace().collect());
    if have.len() != want.len() {
        return wanted.to_owned();
    }
    let number = |word: &str| word.parse::<u64>().ok();
    let larger = have.iter().zip(&want).map(|(have, want)| {
        let is_more = number(have).zip(number(want)).is_some_and(|(have, want)| have > want);
        if is_more { *have } else { *want }
    });
    larger.collect::<Vec<_>>().join(" ")
}

/// Whether `current` has as many numbers as `wanted`, each at least as large.
fn is_at_least(current: &str, wanted: &str) -> bool {
    let numbers =
        |text: &str| text.split_whitespace().map(|word| word.parse::<u64>().ok()).collect::<Vec<_>>();
    let (current, wanted) = (numbers(current), numbers(wanted));
    current.len() == wanted.len()
        && current.iter().zip(&wanted).all(|(have, want)| have.is_some_and(|have| Some(have) >= *want))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_iii_of_000_is_here_whole() {
        let table = [
            ("net.core.rmem_max", "2147483647"),
            ("net.core.wmem_max", "2147483647"),
            ("net.ipv4.tcp_rmem", "4096 67108864 1073741824"),
            ("net.ipv4.tcp_wmem", "4096 67108864 1073741824"),
            ("net.ipv4.tcp_mtu_probing", "1"),
            ("net.core.default_qdisc", "fq_codel"),
            ("net.ipv4.tcp_congestion_control", "cubic"),
            ("net.core.netdev_max_backlog", "8192"),
        ];
        let ours: Vec<(&str, &str)> =
            SYSCTLS.iter().filter(|s| s.source == TABLE_III).map(|s| (s.key, s.value)).collect();
        assert_eq!(ours, table);
        assert_eq!(RING_SLOTS, 8160);
    }

    /// As `thalweg_mover::link` does it, and as the plan names the setting that binds.
    #[test]
    fn of_a_buffer_that_is_asked_for_on_far_paths_it_is_said_when() {
        for (key, tuned) in
            [("net.core.rmem_max", "net.ipv4.tcp_rmem"), ("net.core.wmem_max", "net.ipv4.tcp_wmem")]
        {
            let why = SYSCTLS.iter().find(|sysctl| sysctl.key == key).expect("it is there").why;
            assert!(why.contains("thalweg asks where a far path") && why.contains(tuned), "{why}");
        }
    }

    #[test]
    fn of_a_buffer_only_the_last_number_is_judged() {
        let sysctl = SYSCTLS.iter().find(|sysctl| sysctl.key == "net.ipv4.tcp_rmem").expect("it is there");
        assert!(sysctl.is_met_by("4096\t1\t2147483647"));
        assert!(!sysctl.is_met_by("4096 67108864 6291456") && !sysctl.is_met_by("many"));
    }

    #[test]
    fn more_than_wanted_is_good_and_less_of_any_number_is_not() {
        assert!(is_at_least("8192\t67108864\t2147483647", "4096 67108864 1073741824"));
        assert!(!is_at_least("4096 131072 1073741824", "4096 67108864 1073741824"));
        assert!(!is_at_least("4096", "4096 67108864 1073741824"));
        assert!(!is_at_least("many", "1"));
    }

    #[test]
    fn of_a_value_that_is_too_small_in_one_number_the_larger_ones_stay() {
        let wanted = |key: &str, current: &str| {
            SYSCTLS.iter().find(|sysctl| sysctl.key == key).expect("it is there").wanted_from(current)
        };
        let buffers = |current: &str| wanted("net.ipv4.tcp_rmem", current);
        assert_eq!(buffers("4096 87380 2147483647"), "4096 87380 2147483647");
        assert_eq!(buffers("8192\t131072\t6291456"), "8192 131072 1073741824");
        assert_eq!(wanted("net.core.rmem_max", "212992"), "2147483647");
        assert_eq!(larger_of_each("8192 1 9", "4096 67108864 8"), "8192 67108864 9");
        assert_eq!(larger_of_each("many of them", "4096 1 8"), "4096 1 8");
        assert_eq!(wanted("net.core.netdev_max_backlog", "1000"), "8192");
        assert_eq!(wanted("net.ipv4.tcp_mtu_probing", "0"), "1");
    }
}
