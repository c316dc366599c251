//! The queue in which each device's packets wait before they leave (its queueing discipline): asked of the kernel over
//! rtnetlink, as `tc qdisc show` does (`linux/rtnetlink.h`, `linux/pkt_sched.h`), and judged. Only asks; nothing is
//! set.
//!
//! `net.core.default_qdisc` is what a device gets when it comes up, and no device that is up follows a change of it:
//! what packets really wait in is told by the device alone.

use super::finding::{Finding, Remedy, Subject, Verdict};
use crate::testbed::netlink::{
    ATTRIBUTE_HEADER_BYTES, NLA_TYPE_MASK, NLM_F_REQUEST, NLMSG_ERROR, next_message,
};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, netlink};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::time::Duration;
use thalweg_mover::model::loss::CongestionControl;

const NLMSG_DONE: u16 = 3;
const NLM_F_DUMP: u16 = 0x300;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const TCA_KIND: u16 = 1;

/// `struct nlmsghdr` and `struct tcmsg`.
const QUESTION_BYTES: usize = 16 + TCMSG_BYTES;
const TCMSG_BYTES: usize = 20;

/// `TC_H_ROOT`: the parent of what a device hands its packets to.
const ROOT: u32 = u32::MAX;

/// How long the kernel may be silent.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// Bytes of one part of the answer: the kernel makes none longer than 32 KiB.
const PART_BYTES: usize = 64 << 10;

/// Parts of the answer, at most: some hundred queues in each.
const PARTS_MAX: usize = 1024;

/// What a device's packets wait in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// What they are handed to: `fq_codel`, `mq`, `noqueue`.
    pub root: String,
    /// Its number, the major one; 0 of one that the kernel put there by itself.
    pub number: u16,
    /// Of one that does nothing but share packets out to the queues of the card: what those are, each kind once.
    pub each: BTreeSet<String>,
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        let each: Vec<&str> = self.each.iter().map(String::as_str).collect();
        if each.is_empty() { Ok(()) } else { write!(f, " of {}", each.join(" and ")) }
    }
}

/// The queue of a device in the network namespace of the calling thread.
///
/// # Errors
/// `NotFound` if there is no such device or it is down (`ENODEV`); what the kernel says; `WouldBlock` if it says
/// nothing in two seconds.
pub fn of(device: &str) -> io::Result<Queue> {
    // No protocol is that of routes and devices.
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_WAIT))?;
    let index = netdevice::name_to_index(&socket, device)?;
    rustix::net::send(&socket, &question(), SendFlags::empty())?;
    let mut all = Vec::new();
    let mut buffer = vec![0; PART_BYTES];
    for _ in 0..PARTS_MAX {
        let length = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?.1;
        if read(buffer.get(..length).unwrap_or_default(), &mut all)? {
            let none =
                || io::Error::new(io::ErrorKind::NotFound, "the kernel tells none: the device is down");
            return pick(&all, index).ok_or_else(none);
        }
    }
    Err(io::Error::other("the kernel's answer has no end"))
}

/// All queues of all devices: the kernel has no question for one.
fn question() -> Vec<u8> {
    let mut bytes = (QUESTION_BYTES as u32).to_ne_bytes().to_vec();
    bytes.extend(RTM_GETQDISC.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes.resize(QUESTION_BYTES, 0);
    bytes
}

/// One queue, as the kernel tells of it.
struct Told {
    device: u32,
    handle: u32,
    parent: u32,
    kind: String,
}

/// Reads one part of the answer; whether it was the last. What is cut short is passed over.
fn read(mut bytes: &[u8], into: &mut Vec<Told>) -> io::Result<bool> {
    while let Some((message, rest)) = next_message(bytes) {
        match message.kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => return Err(io::Error::from_raw_os_error(-message.error().unwrap_or_default())),
            RTM_NEWQDISC => into.extend(told(message.body)),
            _ => {}
        }
        bytes = rest;
    }
    Ok(false)
}

fn told(body: &[u8]) -> Option<Told> {
    let number = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    // Behind a byte for the family and three of padding.
    let (device, handle, parent) = (number(4)?, number(8)?, number(12)?);
    let mut attributes = body.get(TCMSG_BYTES..)?;
    while attributes.len() >= ATTRIBUTE_HEADER_BYTES {
        let length = usize::from(u16::from_ne_bytes([attributes[0], attributes[1]]));
        let kind = u16::from_ne_bytes([attributes[2], attributes[3]]) & NLA_TYPE_MASK;
        let value = attributes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        if kind == TCA_KIND {
            let kind = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
            return Some(Told { device, handle, parent, kind });
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

fn pick(all: &[Told], device: u32) -> Option<Queue> {
    let of_device = || all.iter().filter(|told| told.device == device);
    let root = of_device().find(|told| told.parent == ROOT)?;
    let shares_out = ["mq", "mqprio"].contains(&root.kind.as_str());
    let is_child = |told: &&Told| shares_out && told.parent != ROOT && told.parent >> 16 == root.handle >> 16;
    Some(Queue {
        root: root.kind.clone(),
        number: (root.handle >> 16) as u16,
        each: of_device().filter(is_child).map(|told| told.kind.clone()).collect(),
    })
}

/// What a queue does for the streams in it, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ability {
    /// All streams wait in one line, or what is too much is lost.
    OneLine,
    /// Somebody made it for a purpose that cannot be seen here.
    Other,
    /// Streams are kept apart.
    Fair,
    /// And each leaves at its own pace.
    Paced,
}

/// Each kind by what its manual page says (tc-fq(8), tc-fq_codel(8), tc-cake(8), tc-pfifo_fast(8), …).
fn ability(kind: &str) -> Ability {
    match kind {
        "fq" => Ability::Paced,
        "fq_codel" | "fq_pie" | "cake" | "sfq" => Ability::Fair,
        "pfifo_fast" | "pfifo" | "bfifo" | "pfifo_head_drop" | "codel" | "pie" | "red" | NO_QUEUE => {
            Ability::OneLine
        }
        _ => Ability::Other,
    }
}

/// Of a device whose packets do not wait.
pub const NO_QUEUE: &str = "noqueue";

/// What a device gets when it comes up.
pub const DEFAULT: &str = "net.core.default_qdisc";

/// Where it is told what the kernel does for bbr.
const BBR_SOURCE: &str = "kernel: net/ipv4/tcp_bbr.c; tc-fq(8)";

const PACED_BY_TIMERS: &str = "bbr sends at a pace, and `fq` alone keeps it: elsewhere the kernel sets a timer for each stream, which costs CPU";

/// What is to be thought of a queue, and what is wanted instead, by whose word.
struct Judgement {
    verdict: Verdict,
    why: String,
    /// The kind that is wanted.
    kind: &'static str,
    source: &'static str,
}

/// The one rule, for what devices have and for what they get when they come up: what keeps streams apart is good, but
/// where bbr is the default `fq` alone paces it.
fn judge(ability: Ability, control: Option<&str>) -> Judgement {
    let uses_bbr = control.is_some_and(|control| control.starts_with(CongestionControl::Bbr.name()));
    let (kind, source) = if uses_bbr { ("fq", BBR_SOURCE) } else { ("fq_codel", "000 Table III") };
    let (verdict, why) = match ability {
        Ability::Other => {
            (Verdict::Told, "not judged: whoever chose it had a purpose, such as a limit of the rate".into())
        }
        Ability::OneLine if uses_bbr => (
            Verdict::Change,
            format!(
                "{PACED_BY_TIMERS}; and here all streams wait in one line. In a kernel without sch_fq: fq_codel"
            ),
        ),
        Ability::OneLine => (
            Verdict::Change,
            "all streams wait in one line, where a burst of one delays the others; a fair queue keeps them apart"
                .into(),
        ),
        Ability::Fair if uses_bbr => (Verdict::Depends, PACED_BY_TIMERS.into()),
        Ability::Fair | Ability::Paced => (
            Verdict::Good,
            "streams are kept apart, so that a burst of one does not delay the others".into(),
        ),
    };
    Judgement { verdict, why, kind, source }
}

/// Weighs the finding of [`DEFAULT`] as the queue of a device is judged. `control` as for [`finding`]; `may_change`:
/// whether it may be changed from here.
pub fn weigh_default(finding: &mut Finding, control: Option<&str>, may_change: bool) {
    let Some(current) = finding.current.clone() else {
        let Judgement { kind, source, .. } = judge(Ability::OneLine, control);
        (finding.wanted, finding.source) = (Some(kind.into()), Some(source.into()));
        return;
    };
    let Judgement { verdict, why, kind, source } = judge(ability(&current), control);
    finding.why = format!("{why}; {DEFAULT} holds for devices that come up after a change");
    finding.verdict = verdict;
    let is_told = verdict == Verdict::Told;
    let wanted = if verdict == Verdict::Good { current.as_str() } else { kind };
    finding.wanted = (!is_told).then(|| wanted.to_owned());
    finding.source = (!is_told).then(|| source.to_owned());
    let may_be_better = matches!(verdict, Verdict::Change | Verdict::Depends);
    finding.remedy = (may_be_better && may_change).then(|| Remedy {
        apply: format!("sysctl -w {DEFAULT}={kind}"),
        undo: format!("sysctl -w {DEFAULT}={current}"),
        by_apply: verdict == Verdict::Change,
    });
}

/// What is to be thought of the queue of a device. `is_hardware`: there is a card behind it; `control`: the congestion
/// control that a program gets which chooses none, if it could be seen; `scope`: where a change takes effect.
pub fn finding(
    device: &str,
    queue: &Queue,
    is_hardware: bool,
    control: Option<&str>,
    scope: &str,
) -> Finding {
    let told = |why: &str| {
        Finding::told(Subject::Network, format!("{device} queue"), queue, why).scoped(format!(
            "{scope}; it holds until the device comes up anew: {DEFAULT} says what it gets then"
        ))
    };
    let least = queue.each.iter().map(|kind| ability(kind)).min();
    let ability = least.unwrap_or_else(|| ability(&queue.root));
    if queue.root == NO_QUEUE && !is_hardware {
        return told(
            "no packet waits at a device without hardware: it goes on at once, and waits at the card behind, if there is one",
        );
    }
    let Judgement { verdict, why, kind, source } = judge(ability, control);
    let wanted = if queue.each.is_empty() { kind.to_owned() } else { format!("{} of {kind}", queue.root) };
    let (apply, undo) = remedy(device, queue, kind);
    match verdict {
        Verdict::Change => told(&why).wanted(wanted, false, source).remedied(apply, undo),
        Verdict::Depends => told(&why).depends(wanted, source).remedied(apply, undo),
        Verdict::Good => told(&why).wanted(queue, true, source),
        Verdict::Told | Verdict::Unseen | Verdict::Unproved => told(&why),
    }
}

/// How to put `kind` there, and how to put back what is there.
fn remedy(device: &str, queue: &Queue, kind: &str) -> (String, String) {
    let replace = |at: &str, kind: &str| format!("tc qdisc replace dev {device} {at} {kind}");
    let now = queue.each.first().unwrap_or(&queue.root);
    let parameters = format!("with the parameters that `tc qdisc show dev {device}` tells now");
    match (queue.each.is_empty(), queue.number) {
        (true, 0) => (replace("root", kind), replace("root", now)),
        (true, _) => (replace("root", kind), format!("{}, {parameters}", replace("root", now))),
        // The kernel gives each of the card's queues the default when it makes the root anew.
        (false, 0) => (
            format!("sysctl -w {DEFAULT}={kind}, then {}", replace("root", &queue.root)),
            format!("sysctl -w {DEFAULT}={now}, then tc qdisc del dev {device} root"),
        ),
        (false, number) => {
            let at = format!("parent {number:x}:N");
            let each = "for each N that `tc class show` tells of it";
            (format!("{} {each}", replace(&at, kind)), format!("{} {each}, {parameters}", replace(&at, now)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;
    use thalweg_sys::namespace::NetworkNamespace;

    /// An answer of a kernel, as `tc` got it too.
    fn recorded(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex");
        digits.chunks(2).map(byte).collect()
    }

    /// `tc qdisc show`: noqueue 0: dev lo root; pfifo_fast 0: dev eth0 root.
    const ONE: &str = include_str!("queue/one.hex");

    /// pfifo_fast 8002: dev b root; mq 8001: dev a root; pfifo_fast 0: dev a parent 8001:2; the same 8001:1.
    const MANY: &str = include_str!("queue/many.hex");

    fn queue(root: &str, number: u16, each: &[&str]) -> Queue {
        let each = each.iter().map(|kind| (*kind).to_owned()).collect();
        Queue { root: root.into(), number, each }
    }

    #[test]
    fn what_kernels_answered_is_read_as_tc_shows_it() {
        let mut all = Vec::new();
        assert!(read(&recorded(ONE), &mut all).unwrap());
        assert_eq!(pick(&all, 1), Some(queue("noqueue", 0, &[])));
        assert_eq!(pick(&all, 4), Some(queue("pfifo_fast", 0, &[])));
        assert_eq!(pick(&all, 2), None);
        let mut all = Vec::new();
        assert!(read(&recorded(MANY), &mut all).unwrap());
        assert_eq!(pick(&all, 2), Some(queue("pfifo_fast", 0x8002, &[])));
        let many = pick(&all, 3).unwrap();
        assert_eq!(many, queue("mq", 0x8001, &["pfifo_fast"]));
        assert_eq!(many.to_string(), "mq of pfifo_fast");
    }

    #[test]
    fn an_answer_without_its_end_is_not_the_last_and_a_refusal_is_an_error() {
        let whole = recorded(ONE);
        assert!(!read(&whole[..whole.len() - 1], &mut Vec::new()).unwrap());
        let mut refusal = 20u32.to_ne_bytes().to_vec();
        refusal.extend(NLMSG_ERROR.to_ne_bytes());
        refusal.resize(16, 0);
        refusal.extend((-1i32).to_ne_bytes());
        assert_eq!(read(&refusal, &mut Vec::new()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    fn judged(queue: &Queue, is_hardware: bool, control: &str) -> Finding {
        finding("eth0", queue, is_hardware, Some(control), "this card")
    }

    #[test]
    fn one_line_for_all_is_to_be_changed_and_for_bbr_to_what_paces() {
        let line = queue("pfifo_fast", 0, &[]);
        let with_bbr = judged(&line, true, "bbr");
        assert_eq!((with_bbr.verdict, with_bbr.wanted.as_deref()), (Verdict::Change, Some("fq")));
        let remedy = with_bbr.remedy.unwrap();
        assert_eq!(remedy.apply, "tc qdisc replace dev eth0 root fq");
        assert_eq!(remedy.undo, "tc qdisc replace dev eth0 root pfifo_fast");
        assert!(!remedy.by_apply);
        let with_cubic = judged(&line, true, "cubic");
        assert_eq!((with_cubic.verdict, with_cubic.wanted.as_deref()), (Verdict::Change, Some("fq_codel")));
        assert_eq!(judged(&line, false, "cubic").verdict, Verdict::Change);
        assert!(with_cubic.scope.unwrap().contains("net.core.default_qdisc"));
    }

    #[test]
    fn what_keeps_streams_apart_is_good_and_what_paces_them_is_asked_for_only_with_bbr() {
        for kind in ["fq", "fq_codel"] {
            let found = judged(&queue(kind, 0, &[]), true, "cubic");
            assert_eq!((found.verdict, found.wanted.as_deref()), (Verdict::Good, Some(kind)));
        }
        assert_eq!(judged(&queue("fq", 0, &[]), true, "bbr").verdict, Verdict::Good);
        let fair = judged(&queue("mq", 0, &["fq_codel"]), true, "bbr");
        assert_eq!((fair.verdict, fair.wanted.as_deref()), (Verdict::Depends, Some("mq of fq")));
        let remedy = fair.remedy.unwrap();
        assert_eq!(
            remedy.apply,
            "sysctl -w net.core.default_qdisc=fq, then tc qdisc replace dev eth0 root mq"
        );
        assert_eq!(remedy.undo, "sysctl -w net.core.default_qdisc=fq_codel, then tc qdisc del dev eth0 root");
        // The poorest of a card's queues counts.
        assert_eq!(judged(&queue("mq", 0, &["fq", "pfifo_fast"]), true, "bbr").verdict, Verdict::Change);
    }

    #[test]
    fn a_device_without_a_queue_is_a_fact_unless_there_is_a_card_behind_it() {
        let none = queue("noqueue", 0, &[]);
        assert_eq!(judged(&none, false, "bbr").verdict, Verdict::Told);
        assert_eq!(judged(&none, true, "bbr").verdict, Verdict::Change);
        let purpose = judged(&queue("tbf", 0x8003, &[]), true, "bbr");
        assert!(purpose.verdict == Verdict::Told && purpose.remedy.is_none(), "{purpose:?}");
    }

    /// Else one would be told `fq` of the card and `fq_codel` of what the card gets next.
    #[test]
    fn the_default_of_new_devices_is_judged_by_the_rule_of_those_that_are_up() {
        let kinds = ["pfifo_fast", "fq_codel", "cake", "fq", "codel", "hhf"];
        for (kind, control) in kinds.iter().flat_map(|kind| [(*kind, "bbr"), (*kind, "cubic")]) {
            let device = judged(&queue(kind, 0, &[]), true, control);
            let mut default = Finding::told(Subject::Network, DEFAULT, kind, "why");
            weigh_default(&mut default, Some(control), true);
            assert_eq!(
                (default.verdict, &default.wanted),
                (device.verdict, &device.wanted),
                "{kind} {control}"
            );
            assert_eq!(default.source, device.source, "{kind} {control}");
            let by_apply = default.remedy.as_ref().map(|remedy| remedy.by_apply);
            let expected = match default.verdict {
                Verdict::Change => Some(true),
                Verdict::Depends => Some(false),
                _ => None,
            };
            assert_eq!(by_apply, expected, "{kind} {control}");
            weigh_default(&mut default, Some(control), false);
            assert_eq!(default.remedy, None, "{kind} {control}");
        }
    }

    /// A pair of devices in a namespace of its own: what is asked there is what was set there.
    #[test]
    fn the_queue_of_a_device_is_asked_of_the_kernel() {
        if thalweg_sys::user::effective_uid() != 0 {
            println!("skipped: network namespaces need root");
            return;
        }
        let space = NetworkNamespace::new().unwrap();
        let run = |program: &str, line: &str| -> io::Result<bool> {
            Ok(Command::new(program).args(line.split(' ')).status()?.success())
        };
        let has_tools = space.inside(|| {
            Ok(run("ip", "link add dev a type veth peer name b")?
                && run("ip", "link set dev a up")?
                && run("ip", "link set dev b up")?
                && run("tc", "qdisc replace dev b root pfifo_fast")?)
        });
        if !has_tools.as_ref().is_ok_and(|all| *all) {
            println!("skipped: no pair of devices here: {has_tools:?}");
            return;
        }
        let asked = space.inside(|| Ok((of("a")?, of("b")?, of("c").map_err(|error| error.raw_os_error()))));
        let (a, b, c) = asked.unwrap();
        assert_eq!(a, queue("noqueue", 0, &[]));
        assert!(b.root == "pfifo_fast" && b.number != 0, "{b:?}");
        assert_eq!(c, Err(Some(rustix::io::Errno::NODEV.raw_os_error())));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if bytes.len() >= 6 {
                let length = bytes.len() as u32;
                bytes[..4].copy_from_slice(&length.to_ne_bytes());
                bytes[4..6].copy_from_slice(&RTM_NEWQDISC.to_ne_bytes());
            }
            let mut all = Vec::new();
            let _ = read(&bytes, &mut all);
            prop_assert!(all.len() <= 1);
        }
    }
}
