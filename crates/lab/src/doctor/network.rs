//! Cards, queues, buffers, interrupts, the way to another machine.

use super::buffers::{self, Scale};
use super::device::{Device, Devices, Sharing};
use super::finding::{Finding, Remedy, Subject, Verdict};
use super::machine::{Machine, nodes};
use super::measure::{Probes, Tried};
use super::roots::{Roots, list_of_numbers, names, number, numbers_of_list, read};
use super::wanted::{JUMBO_MTU_BYTES, JUMBO_RATE_BITS_PER_S, RING_SLOTS, Reach, Rule, SYSCTLS};
use super::{card, path_mtu, queue};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use thalweg_mover::failure::counted;
use thalweg_sys::card::Rings;

/// Packets that wait for each CPU.
const BACKLOG: &str = "net.core.netdev_max_backlog";

/// Everything about the network.
pub fn findings(roots: &Roots, machine: &Machine, probes: &Probes) -> Vec<Finding> {
    let mut found = sysctls(roots, machine, Subject::Network);
    let rtt = probes.way.as_ref().and_then(|way| way.as_ref().ok()).map(|way| way.rtt);
    weigh_buffers(&mut found, &Scale::of(roots, rtt), machine);
    if matches!(probes.way, Some(Err(_))) {
        leave_buffers(&mut found);
    }
    if let Some(backlog) = found.iter_mut().find(|finding| finding.name == BACKLOG) {
        weigh_backlog(backlog, dropped_by_backlog(roots));
    }
    if let Some(default) = found.iter_mut().find(|finding| finding.name == queue::DEFAULT) {
        let control = roots.sysctl_value(super::congestion::DEFAULT).ok();
        queue::weigh_default(default, control.as_deref(), machine.reach(Reach::Kernel).is_ok());
    }
    let devices = Devices::of(roots);
    if let Err(why) = &devices.files {
        found.push(Finding::unseen(Subject::Network, "lines and interrupts of cards", why));
    }
    for device in &devices.all {
        of_device(roots, machine, probes, (device, &devices.all), &mut found);
    }
    if let Some(way) = &probes.way {
        found.extend(the_way(way));
    }
    found
}

/// The kernel settings of a subject.
pub fn sysctls(roots: &Roots, machine: &Machine, subject: Subject) -> Vec<Finding> {
    let of_subject = SYSCTLS.iter().filter(|sysctl| sysctl.subject == subject);
    of_subject
        .map(|sysctl| {
            let reach = machine.reach(sysctl.reach);
            let scope = reach.clone().unwrap_or_else(|why| why);
            let current = match roots.sysctl_value(sysctl.key) {
                Ok(current) => current,
                Err(why) => {
                    let mut finding = Finding::unseen(subject, sysctl.key, why).scoped(scope);
                    finding.wanted = Some(sysctl.value.into());
                    finding.source = Some(sysctl.source.into());
                    return finding;
                }
            };
            let is_good = sysctl.is_met_by(&current);
            let wanted = if is_good { sysctl.value.into() } else { sysctl.wanted_from(&current) };
            let mut finding = Finding::told(subject, sysctl.key, &current, sysctl.why)
                .wanted(&wanted, is_good, sysctl.source)
                .scoped(scope);
            if !is_good && sysctl.rule == Rule::MayBe {
                finding.verdict = Verdict::Depends;
            }
            if !is_good && reach.is_ok() {
                finding.remedy = Some(Remedy {
                    apply: format!("sysctl -w {}='{wanted}'", sysctl.key),
                    undo: format!("sysctl -w {}='{current}'", sysctl.key),
                    by_apply: finding.verdict == Verdict::Change,
                });
            }
            finding
        })
        .collect()
}

fn weigh_buffers(found: &mut [Finding], scale: &Scale, machine: &Machine) {
    for sysctl in SYSCTLS.iter().filter(|sysctl| sysctl.rule == Rule::Buffer) {
        if let Some(finding) = found.iter_mut().find(|finding| finding.name == sysctl.key) {
            buffers::weigh(finding, sysctl, scale, machine.reach(sysctl.reach).is_ok());
        }
    }
}

/// Whoever named a path is not served by buffers for another one: they are not applied.
fn leave_buffers(found: &mut [Finding]) {
    let is_buffer =
        |name: &str| SYSCTLS.iter().any(|sysctl| sysctl.rule == Rule::Buffer && sysctl.key == name);
    for finding in found.iter_mut().filter(|finding| is_buffer(&finding.name)) {
        if finding.verdict == Verdict::Change {
            finding.verdict = Verdict::Depends;
            finding.remedy.iter_mut().for_each(|remedy| remedy.by_apply = false);
            finding.why = format!("{}; the path that was asked for could not be measured", finding.why);
        }
    }
}

/// Packets that were dropped because too many waited for a CPU, since boot.
///
/// # Errors
/// Why that cannot be seen.
fn dropped_by_backlog(roots: &Roots) -> Result<u64, String> {
    let path = roots.proc.join("net/softnet_stat");
    let text = read(&path)?;
    // A line for each CPU, of hexadecimal numbers; the second is what was dropped.
    let dropped = text.lines().map(|line| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok());
    let all = dropped.sum::<Option<u64>>().filter(|_| !text.is_empty());
    all.ok_or_else(|| format!("{} does not tell", path.display()))
}

/// A longer line costs latency: where none was ever too short, nothing speaks for one.
fn weigh_backlog(finding: &mut Finding, dropped: Result<u64, String>) {
    let seen = match &dropped {
        Ok(dropped) => {
            let packets = counted(*dropped, "packet was", "packets were");
            format!("{packets} dropped so since boot (/proc/net/softnet_stat)")
        }
        Err(why) => format!("how many were since boot cannot be seen: {why}"),
    };
    if finding.verdict != Verdict::Unseen {
        finding.why = format!("{}; {seen}", finding.why);
    }
    if finding.verdict == Verdict::Change && !dropped.is_ok_and(|dropped| dropped > 0) {
        finding.verdict = Verdict::Depends;
        finding.remedy.iter_mut().for_each(|remedy| remedy.by_apply = false);
    }
}

/// Everything about a device, which is one of `all`.
fn of_device(
    roots: &Roots,
    machine: &Machine,
    probes: &Probes,
    (device, all): (&Device, &[Device]),
    found: &mut Vec<Finding>,
) {
    let (name, directory) = (device.name.as_str(), device.directory.as_deref());
    let rate = device.rate_bits_per_s();
    let scope = match machine.hypervisor() {
        Some(_) => "the guest's card; the card of the host has its own",
        None => "this card",
    };
    let mut say = |finding: Finding| match finding.scope {
        Some(_) => found.push(finding),
        None => found.push(finding.scoped(scope)),
    };

    // Without files that is told once, of all cards.
    if directory.is_some() {
        say(line(device, rate));
    }
    let asked = probes.cards.get(name);
    // What is beneath a bond has its packets from the bond.
    if let Some(mtu) = mtu_of(device).filter(|_| device.is_top) {
        let mtu_max = |name: &str| probes.cards.get(name)?.mtu_max_bytes.as_ref().ok().copied();
        say(packets((device, all), mtu, &mtu_max, rate));
    }
    let losses = directory.and_then(Losses::of);
    match asked {
        Some(asked) => {
            match &asked.rings {
                Ok(rings) => say(ring(name, rings, losses)),
                // What stands on others has none.
                Err(_) if !device.beneath.is_empty() => {}
                Err(why) => say(Finding::unseen(
                    Subject::Network,
                    rings_name(name),
                    format!("the driver does not say: {why}"),
                )),
            }
            if !asked.offloads.is_empty() {
                say(offloads(name, &asked.offloads));
            }
            if device.beneath.is_empty() {
                say(card::pause(name, &asked.pause));
            }
            match &asked.queue {
                Ok(queue) => {
                    let control = roots.sysctl_value(super::congestion::DEFAULT).ok();
                    let is_hardware = directory.is_some_and(|directory| directory.join("device").exists());
                    say(queue::finding(name, queue, is_hardware, control.as_deref(), scope));
                }
                Err(why) => say(Finding::unseen(Subject::Network, format!("{name} queue"), why)),
            }
        }
        None => say(Finding::unseen(Subject::Network, rings_name(name), "the driver was not asked")),
    }
    if let Some(finding) = directory.and_then(|directory| card::slot(name, directory, rate)) {
        say(finding);
    }
    if let Some(finding) = directory.and_then(|directory| interrupts(roots, device, directory)) {
        say(finding);
    }
}

fn line(device: &Device, rate: Option<u64>) -> Finding {
    let name = format!("{} line", device.name);
    let Some(rate) = rate else {
        let why = match device.has_hardware() {
            true => "the driver does not say how fast the line is",
            false => {
                "no card is seen beneath it, and what a device in memory says of its speed is nobody's line"
            }
        };
        return Finding::unseen(Subject::Network, name, why);
    };
    let slaves = device.beneath.join(", ");
    let why = match device.sharing() {
        None => "rate of the line".to_owned(),
        Some(Sharing::Spread) => format!(
            "of its slaves that are up together ({slaves}); a stream goes over one of them, by \
             xmit_hash_policy"
        ),
        Some(Sharing::Active(Some(active))) => {
            format!("of the slave that is active ({active}); the others wait until that fails")
        }
        Some(Sharing::Active(None)) => {
            format!("of the fastest of its slaves that are up ({slaves}): none of them is active")
        }
        Some(Sharing::Copied) => {
            format!("of the fastest of its slaves that are up ({slaves}): each packet goes over all of them")
        }
    };
    Finding::told(Subject::Network, name, format!("{} Gbit/s", rate as f64 / 1e9), why)
}

/// `mtu_max`: what a device takes at most, if its driver says.
fn packets(
    (device, all): (&Device, &[Device]),
    mtu: u32,
    mtu_max: &dyn Fn(&str) -> Option<u32>,
    rate: Option<u64>,
) -> Finding {
    let name = format!("{} MTU", device.name);
    let why = "fewer packets for the same bytes; the switches of the segment and all hosts in it must take them, so ask who \
               runs it, and try the path before";
    if rate.is_none_or(|rate| rate < JUMBO_RATE_BITS_PER_S) {
        return Finding::told(
            Subject::Network,
            name,
            mtu,
            "jumbo packets are for lines of 10 Gbit/s and more",
        );
    }
    let mut stack = Vec::new();
    push_stack((device, false), all, &mut BTreeSet::new(), &mut stack);
    let most = stack.iter().filter_map(|(one, _)| mtu_max(&one.name)).min();
    let wanted = most.map_or(JUMBO_MTU_BYTES, |most| most.min(JUMBO_MTU_BYTES));
    let set = |device: &str, mtu: u32| format!("ip link set {device} mtu {mtu}");
    // A bond gives it to its slaves; a VLAN or a bridge takes no more than what is beneath it.
    let own = stack.iter().filter(|(_, is_given)| !is_given).filter_map(|(one, _)| {
        let now = if one.name == device.name { mtu } else { mtu_of(one)? };
        (now < wanted).then_some((*one, now))
    });
    let low: Vec<(&Device, u32)> = own.collect();
    let raise: Vec<String> = low.iter().map(|(one, _)| set(&one.name, wanted)).collect();
    let back: Vec<String> = low.iter().rev().map(|(one, mtu)| set(&one.name, *mtu)).collect();
    let stays = match low.iter().any(|(one, _)| one.is_bridge()) {
        true => " # a bridge whose MTU was set no longer follows that of its ports",
        false => "",
    };
    Finding::told(Subject::Network, name, mtu, why)
        .depends_unless(mtu >= wanted, wanted, "000 section III-B.1")
        .remedied(raise.join(" && "), format!("{}{stays}", back.join(" && ")))
}

/// Notes what has to take packets so that a device can: all that is beneath it, the lowest first, then itself; each
/// with whether a bond gives it its MTU.
fn push_stack<'a>(
    (device, is_given): (&'a Device, bool),
    all: &'a [Device],
    seen: &mut BTreeSet<&'a str>,
    into: &mut Vec<(&'a Device, bool)>,
) {
    if !seen.insert(&device.name) {
        return;
    }
    for lower in all.iter().filter(|one| device.beneath.contains(&one.name)) {
        push_stack((lower, is_given || device.is_bond()), all, seen, into);
    }
    into.push((device, is_given));
}

fn mtu_of(device: &Device) -> Option<u32> {
    number(&device.directory.as_deref()?.join("mtu"))
}

/// What the finding about a card's rings is called.
pub fn rings_name(device: &str) -> String {
    format!("{device} rings")
}

/// Slots that a card's rings should have, to receive and to send: no fewer than they have. What has the largest power
/// of two among them stays: many cards round down to that.
fn wanted_rings(rings: &Rings) -> (u32, u32) {
    let wanted = |now: u32, max: u32| {
        let most = RING_SLOTS.min(max);
        let rounded = most.checked_ilog2().map_or(0, |power| 1u32 << power);
        if now >= rounded { now } else { most }
    };
    (wanted(rings.receive, rings.receive_max), wanted(rings.send, rings.send_max))
}

/// Those that a card should have, to receive and to send, that missed packets: the ring to send has no part in that.
pub fn rings_against_losses(rings: &Rings) -> (u32, u32) {
    (wanted_rings(rings).0, rings.send)
}

/// Packets that came and were lost before anybody had them, since the card came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Losses {
    /// For want of a free slot in a ring, or of memory of the card.
    missed: u64,
    /// By the kernel: also those that nobody was waiting for.
    dropped: u64,
}

impl Losses {
    /// None if the driver does not count them.
    fn of(directory: &Path) -> Option<Losses> {
        let counter = |name: &str| number::<u64>(&directory.join("statistics").join(name));
        // The same packets, as drivers differ in where they count them.
        let missed = counter("rx_missed_errors").max(counter("rx_fifo_errors"))?;
        Some(Losses { missed, dropped: counter("rx_dropped").unwrap_or(0) })
    }
}

/// Larger rings cost cache and latency: where no packet was missed, nothing speaks for them.
fn ring(device: &str, rings: &Rings, losses: Option<Losses>) -> Finding {
    let (receive, send) = wanted_rings(rings);
    let is_good = (rings.receive, rings.send) == (receive, send);
    let shown = |receive, send| format!("rx {receive} tx {send}");
    let seen = match losses {
        None => "how many packets it missed is not counted".to_owned(),
        Some(Losses { missed, dropped }) => format!(
            "it missed {} so far (rx_missed_errors, rx_fifo_errors), and the kernel dropped {dropped} (rx_dropped), also \
             such as nobody waited for",
            counted(missed, "packet", "packets")
        ),
    };
    let found = Finding::told(
        Subject::Network,
        rings_name(device),
        shown(rings.receive, rings.send),
        format!(
            "a burst that the kernel does not fetch in time is lost; the card has at most {}; {seen}",
            shown(rings.receive_max, rings.send_max)
        ),
    );
    let is_short = losses.is_some_and(|losses| losses.missed > 0) && rings.receive < receive;
    let (receive, send) = if is_short { rings_against_losses(rings) } else { (receive, send) };
    let found = match is_good || is_short {
        true => found.wanted(shown(receive, send), is_good, "000 Table II"),
        false => found.depends(shown(receive, send), "000 Table II"),
    };
    found.remedied(
        format!("ethtool -G {device} {}", shown(receive, send)),
        format!("ethtool -G {device} {}", shown(rings.receive, rings.send)),
    )
}

fn offloads(device: &str, offloads: &[(thalweg_sys::card::Offload, bool)]) -> Finding {
    let words = |on| {
        offloads
            .iter()
            .map(|(kind, is_on)| format!("{} {}", kind.name(), word(on, *is_on)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let off: Vec<&str> = offloads.iter().filter(|(_, is_on)| !is_on).map(|(kind, _)| kind.name()).collect();
    let each = |value: &str| off.iter().map(|name| format!(" {name} {value}")).collect::<String>();
    Finding::told(
        Subject::Network,
        format!("{device} offloads"),
        words(None),
        "without them the CPU makes each packet and each checksum itself",
    )
    .wanted(words(Some("on")), off.is_empty(), "ethtool(8)")
    .remedied(format!("ethtool -K {device}{}", each("on")), format!("ethtool -K {device}{}", each("off")))
}

fn word(instead: Option<&'static str>, is_on: bool) -> &'static str {
    instead.unwrap_or(if is_on { "on" } else { "off" })
}

/// Where the card's interrupts go; none if it has none of its own.
fn interrupts(roots: &Roots, device: &Device, directory: &Path) -> Option<Finding> {
    let interrupts: Vec<String> = ["device/msi_irqs", "device/../msi_irqs"]
        .iter()
        .map(|place| names(&directory.join(place)))
        .find(|names| !names.is_empty())?;
    let name = format!("{} interrupts", device.name);
    let mut cpus = BTreeSet::new();
    let mut now: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for interrupt in &interrupts {
        let place = roots.proc.join("irq").join(interrupt);
        // The first is empty where the kernel does not keep it.
        let list = ["effective_affinity_list", "smp_affinity_list"]
            .iter()
            .filter_map(|file| read(&place.join(file)).ok())
            .find(|list| !list.is_empty());
        cpus.extend(numbers_of_list(&list.unwrap_or_default()));
        if let Ok(list) = read(&place.join("smp_affinity_list")) {
            now.entry(list).or_default().push(interrupt);
        }
    }
    if cpus.is_empty() {
        let place = roots.proc.join("irq");
        return Some(Finding::unseen(
            Subject::Network,
            name,
            format!("{} does not say where they go", place.display()),
        ));
    }
    let queues = names(&directory.join("queues")).iter().filter(|queue| queue.starts_with("rx-")).count();
    let nodes = nodes(roots);
    let node = device.node();
    let near = node.and_then(|node| nodes.iter().find(|(number, _)| *number == node)).map(|(_, cpus)| cpus);
    let far = near.map_or(0, |near| cpus.iter().filter(|cpu| !near.contains(cpu)).count());
    let is_spread = queues < 2 || cpus.len() > 1 || interrupts.len() < 2;
    let place = match node {
        Some(node) if nodes.len() > 1 => {
            format!(", the card is at node {node}, {far} of these CPUs are at another")
        }
        _ => String::new(),
    };
    let current = format!(
        "{} on {}, {}{place}",
        interrupts.len(),
        counted(cpus.len() as u64, "CPU", "CPUs"),
        counted(queues as u64, "receive queue", "receive queues")
    );
    let wanted = if nodes.len() > 1 { "several CPUs, all at the card's node" } else { "several CPUs" };
    let is_moved = has_irqbalance(roots);
    let spread = match near {
        Some(near) => affinity(&interrupts, &list_of_numbers(near)),
        None => "write CPUs of the card's node to /proc/irq/N/smp_affinity_list".to_owned(),
    };
    let mut back: Vec<String> = now.iter().map(|(list, interrupts)| affinity(interrupts, list)).collect();
    let stop = if is_moved { "systemctl stop irqbalance; " } else { "" };
    if is_moved {
        back.push("systemctl start irqbalance".into());
    }
    if back.is_empty() {
        back.push("write back what was there".into());
    }
    Some(
        Finding::told(
            Subject::Network,
            name,
            current,
            "one CPU cannot take all packets of a fast line, and one at another node fetches them across the machine",
        )
        .wanted(wanted, is_spread && far == 0, "000 section III-F; kernel: networking/scaling")
        .remedied(format!("{stop}{spread}"), back.join("; ")),
    )
}

/// A line of a shell that lets these interrupts go to these CPUs.
fn affinity(interrupts: &[impl AsRef<str>], cpus: &str) -> String {
    let numbers: Vec<&str> = interrupts.iter().map(AsRef::as_ref).collect();
    format!("for n in {}; do echo {cpus} > /proc/irq/$n/smp_affinity_list; done", numbers.join(" "))
}

/// Whether the daemon runs that moves interrupts about.
fn has_irqbalance(roots: &Roots) -> bool {
    let is_it = |process: &String| {
        let name = || read(&roots.proc.join(process).join("comm"));
        process.bytes().all(|letter| letter.is_ascii_digit()) && name().is_ok_and(|name| name == "irqbalance")
    };
    names(&roots.proc).iter().any(is_it)
}

fn the_way(way: &Tried<super::measure::Way>) -> Vec<Finding> {
    match way {
        Err(why) => vec![Finding::unseen(Subject::Network, "path", format!("could not connect to {why}"))],
        Ok(way) => vec![
            Finding::told(
                Subject::Network,
                format!("round trip time to {}", way.to),
                format!("{:.3} ms", way.rtt.as_secs_f64() * 1e3),
                "the least of three connections",
            ),
            path_mtu::finding(way),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cards that round down take 8160 as 4096, and a profile that asks for 8160 each time would never have done.
    #[test]
    fn rings_of_the_largest_power_of_two_that_is_not_above_what_is_wanted_stay() {
        let wanted = |receive, receive_max| {
            let rings = Rings { receive, send: 512, receive_max, send_max: 512 };
            wanted_rings(&rings)
        };
        assert_eq!(wanted(4096, 8192), (4096, 512));
        assert_eq!(wanted(8192, 8192), (8192, 512));
        assert_eq!(wanted(2048, 8160), (8160, 512));
        assert_eq!(wanted(1024, 2047), (1024, 512));
        assert_eq!(wanted(0, 0), (0, 512));
    }

    #[test]
    fn rings_are_to_be_changed_only_where_packets_were_missed() {
        let rings = Rings { receive: 512, send: 512, receive_max: 4096, send_max: 4096 };
        let with = |losses: Option<(u64, u64)>| {
            let found = ring("eth0", &rings, losses.map(|(missed, dropped)| Losses { missed, dropped }));
            assert!(found.remedy.is_some_and(|remedy| remedy.undo == "ethtool -G eth0 rx 512 tx 512"));
            (found.verdict, found.why)
        };
        let (verdict, why) = with(Some((7, 9)));
        assert_eq!(verdict, Verdict::Change);
        assert!(why.contains("missed 7 packets") && why.contains("dropped 9"), "{why}");
        assert_eq!(with(Some((0, 9))).0, Verdict::Depends, "the kernel drops also what nobody waits for");
        assert_eq!(with(None).0, Verdict::Depends);
    }

    /// They were missed when they came.
    #[test]
    fn the_ring_to_send_is_not_to_be_changed_because_packets_were_missed() {
        let missed = Some(Losses { missed: 7, dropped: 0 });
        let with = |receive, send| {
            let rings = Rings { receive, send, receive_max: 4096, send_max: 4096 };
            let found = ring("eth0", &rings, missed);
            (found.verdict, found.wanted, found.remedy.map(|remedy| remedy.apply))
        };
        let told = |text: &str| Some(text.to_owned());
        let both = (Verdict::Change, told("rx 4096 tx 512"), told("ethtool -G eth0 rx 4096 tx 512"));
        assert_eq!(with(512, 512), both);
        let send = (Verdict::Depends, told("rx 4096 tx 4096"), told("ethtool -G eth0 rx 4096 tx 4096"));
        assert_eq!(with(4096, 512), send);
        assert_eq!(with(4096, 4096), (Verdict::Good, told("rx 4096 tx 4096"), None));
    }

    #[test]
    fn the_line_of_a_bond_that_uses_one_slave_at_a_time_is_said_to_be_that_slave_s() {
        let scratch = tempfile::tempdir().unwrap();
        let bond = Device {
            name: "bond0".into(),
            directory: Some(scratch.path().to_owned()),
            is_top: true,
            beneath: vec!["eth0".into(), "eth1".into()],
        };
        std::fs::create_dir(scratch.path().join("bonding")).unwrap();
        let put = |name: &str, text: &str| {
            std::fs::write(scratch.path().join("bonding").join(name), text).unwrap();
        };
        put("mode", "802.3ad 4\n");
        let why = || line(&bond, Some(1_000_000_000)).why;
        assert!(why().contains("up together (eth0, eth1)"), "{}", why());
        put("mode", "active-backup 1\n");
        put("active_slave", "eth1\n");
        assert!(why().starts_with("of the slave that is active (eth1)"), "{}", why());
        put("active_slave", "\n");
        assert!(why().contains("none of them is active"), "{}", why());
        put("mode", "broadcast 3\n");
        assert!(why().contains("each packet goes over all of them"), "{}", why());
    }

    #[test]
    fn packets_are_as_large_as_the_device_takes_and_never_a_fault() {
        let scratch = tempfile::tempdir().unwrap();
        let device = |name: &str, beneath: &[&str]| Device {
            name: name.into(),
            directory: Some(scratch.path().join(name)),
            is_top: true,
            beneath: beneath.iter().map(|name| (*name).to_owned()).collect(),
        };
        let put = |name: &str, text: &str| {
            let path = scratch.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (name, mtu) in [("eth0", "1500"), ("eth1", "9000"), ("bond0", "1500"), ("bond0.7", "1500")] {
            put(&format!("{name}/mtu"), mtu);
        }
        let rate = Some(JUMBO_RATE_BITS_PER_S);
        let card = device("eth0", &[]);
        let found = |mtu, mtu_max: Option<u32>| packets((&card, &[]), mtu, &|_| mtu_max, rate);
        let judged = |found: Finding| (found.verdict, found.wanted);
        let maybe = |mtu: &str| (Verdict::Depends, Some(mtu.to_owned()));
        assert_eq!(judged(found(1500, Some(4096))), maybe("4096"));
        assert_eq!(judged(found(1500, None)), maybe("9000"));
        assert_eq!(found(4096, Some(4096)).verdict, Verdict::Good);
        // One that has such packets already keeps them.
        put("br0/bridge/stp_state", "0\n");
        let bridge = device("br0", &["eth0", "eth1"]);
        let all = [device("eth0", &[]), device("eth1", &[])];
        let remedy = packets((&bridge, &all), 1500, &|_| None, rate).remedy.expect("a remedy");
        assert_eq!(remedy.apply, "ip link set eth0 mtu 9000 && ip link set br0 mtu 9000");
        let undo = "ip link set br0 mtu 1500 && ip link set eth0 mtu 1500 # a bridge whose MTU was set";
        assert!(remedy.undo.starts_with(undo), "{}", remedy.undo);
        // Through all layers, down to a bond, which gives it to its slaves; one of them takes less.
        put("bond0/bonding/mode", "802.3ad 4\n");
        let bridge = device("br0", &["bond0.7"]);
        let (vlan, bond) = (device("bond0.7", &["bond0"]), device("bond0", &["eth0", "eth1"]));
        let all = [device("br0", &["bond0.7"]), vlan, bond, device("eth0", &[]), device("eth1", &[])];
        let mtu_max = |name: &str| Some(if name == "eth0" { 4096 } else { 65_535 });
        let found = packets((&bridge, &all), 1500, &mtu_max, rate);
        assert_eq!(found.wanted.as_deref(), Some("4096"));
        let set = |mtu: u32, names: [&str; 3]| {
            names.map(|name| format!("ip link set {name} mtu {mtu}")).join(" && ")
        };
        let remedy = found.remedy.expect("a remedy");
        assert_eq!(remedy.apply, set(4096, ["bond0", "bond0.7", "br0"]));
        assert!(remedy.undo.starts_with(&set(1500, ["br0", "bond0.7", "bond0"])), "{}", remedy.undo);
        // Files that stand in a circle end it.
        let all = [device("br0", &["br1"]), device("br1", &["br0"])];
        let remedy = packets((&all[0], &all), 1500, &|_| None, rate).remedy.expect("a remedy");
        assert!(remedy.apply.ends_with("br0 mtu 9000"), "{}", remedy.apply);
    }
}
