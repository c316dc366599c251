//! Cards, queues, buffers, interrupts, the way to another machine.

use super::finding::{Finding, Remedy, Subject, Verdict};
use super::machine::{Machine, nodes};
use super::measure::{Probes, Tried};
use super::queue;
use super::roots::{Roots, names, number, numbers_of_list, read};
use super::wanted::{JUMBO_MTU_BYTES, JUMBO_RATE_BITS_PER_S, RING_SLOTS, Reach, SYSCTLS};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use thalweg_sys::card::Rings;

/// Network devices that lead out: those with hardware behind them; without any, all but the loopback.
pub fn devices(roots: &Roots) -> Vec<String> {
    Devices::of(roots).names
}

/// Devices that lead out, and where their files are.
struct Devices {
    names: Vec<String>,
    /// Why there are no files of them, if there are none.
    directory: Result<PathBuf, String>,
}

impl Devices {
    fn of(roots: &Roots) -> Devices {
        let directory = roots.sys.join("class/net");
        // A machine of files has what its files say.
        let is_here = roots.sys == Path::new("/sys");
        let own = is_here.then(|| thalweg_sys::card::all().ok()).flatten();
        if let Some(own) = own
            && !are_of(&directory, &own)
        {
            let names = own.into_iter().map(|(name, _)| name).filter(|name| name != "lo").collect();
            let why = match directory.exists() {
                true => "/sys is that of another network namespace".to_owned(),
                false => format!("{} is not there", directory.display()),
            };
            return Devices { names, directory: Err(why) };
        }
        let all: Vec<String> =
            names(&directory).into_iter().filter(|name| name != "lo" && !name.contains("bonding")).collect();
        let hardware: Vec<String> =
            all.iter().filter(|name| directory.join(name).join("device").exists()).cloned().collect();
        Devices { names: if hardware.is_empty() { all } else { hardware }, directory: Ok(directory) }
    }

    fn directory_of(&self, name: &str) -> Option<PathBuf> {
        self.directory.as_ref().ok().map(|directory| directory.join(name))
    }
}

/// Whether files of devices are those of the devices that the kernel tells this process of, with their numbers: the
/// files belong to the network namespace of who mounted them.
fn are_of(directory: &Path, own: &[(String, u32)]) -> bool {
    let number_of = |name: String| Some((number::<u32>(&directory.join(&name).join("ifindex"))?, name));
    let seen: BTreeSet<(u32, String)> = names(directory).into_iter().filter_map(number_of).collect();
    let own: BTreeSet<(u32, String)> = own.iter().map(|(name, number)| (*number, name.clone())).collect();
    seen == own
}

/// The rate of the fastest line that is up, in bits a second; none if no card says.
pub fn line_rate_bits_per_s(roots: &Roots) -> Option<u64> {
    let devices = Devices::of(roots);
    let cards = devices.names.iter().filter_map(|name| devices.directory_of(name));
    // Drivers that do not say leave it at `unknown`.
    let is_up = |card: &PathBuf| {
        read(&card.join("operstate")).map_or(true, |state| ["up", "unknown"].contains(&&*state))
    };
    cards.filter(is_up).filter_map(|card| rate(&card)).max()
}

fn rate(card: &Path) -> Option<u64> {
    // -1 or an error where the driver does not know.
    number::<i64>(&card.join("speed")).filter(|rate| *rate > 0).map(|mbit| mbit as u64 * 1_000_000)
}

/// Everything about the network.
pub fn findings(roots: &Roots, machine: &Machine, probes: &Probes) -> Vec<Finding> {
    let mut found = sysctls(roots, machine, Subject::Network);
    if let Some(default) = found.iter_mut().find(|finding| finding.name == queue::DEFAULT) {
        let control = roots.sysctl_value(super::congestion::DEFAULT).ok();
        queue::weigh_default(default, control.as_deref(), machine.reach(Reach::Kernel).is_ok());
    }
    let devices = Devices::of(roots);
    if let Err(why) = &devices.directory {
        found.push(Finding::unseen(Subject::Network, "lines and interrupts of cards", why));
    }
    for device in &devices.names {
        let directory = devices.directory_of(device);
        card(roots, machine, probes, (device.as_str(), directory.as_deref()), &mut found);
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
            if finding.verdict == Verdict::Change && reach.is_ok() {
                finding.remedy = Some(Remedy {
                    apply: format!("sysctl -w {}='{wanted}'", sysctl.key),
                    undo: format!("sysctl -w {}='{current}'", sysctl.key),
                    by_apply: true,
                });
            }
            finding
        })
        .collect()
}

/// `device`: its name, and where its files are.
fn card(
    roots: &Roots,
    machine: &Machine,
    probes: &Probes,
    (device, directory): (&str, Option<&Path>),
    found: &mut Vec<Finding>,
) {
    let rate = directory.and_then(rate);
    let scope = match machine.hypervisor() {
        Some(_) => "the guest's card; the card of the host has its own",
        None => "this card",
    };
    let mut say = |finding: Finding| match finding.scope {
        Some(_) => found.push(finding),
        None => found.push(finding.scoped(scope)),
    };

    let line = match rate {
        Some(rate) => Finding::told(
            Subject::Network,
            format!("{device} line"),
            format!("{} Gbit/s", rate as f64 / 1e9),
            "rate of the line",
        ),
        None => Finding::unseen(
            Subject::Network,
            format!("{device} line"),
            "the driver does not say how fast the line is",
        ),
    };
    // Without files that is told once, of all cards.
    if directory.is_some() {
        say(line);
    }
    if let Some(mtu) = directory.and_then(|directory| number::<u32>(&directory.join("mtu"))) {
        say(packets(device, mtu, rate));
    }
    match probes.cards.get(device) {
        Some(card) => {
            match &card.rings {
                Ok(rings) => say(ring(device, rings)),
                Err(why) => say(Finding::unseen(
                    Subject::Network,
                    rings_name(device),
                    format!("the driver does not say: {why}"),
                )),
            }
            if !card.offloads.is_empty() {
                say(offloads(device, &card.offloads));
            }
            match &card.queue {
                Ok(queue) => {
                    let control = roots.sysctl_value(super::congestion::DEFAULT).ok();
                    let is_hardware = directory.is_some_and(|directory| directory.join("device").exists());
                    say(queue::finding(device, queue, is_hardware, control.as_deref(), scope));
                }
                Err(why) => say(Finding::unseen(Subject::Network, format!("{device} queue"), why)),
            }
        }
        None => say(Finding::unseen(Subject::Network, rings_name(device), "the driver was not asked")),
    }
    if let Some(finding) = directory.and_then(|directory| interrupts(roots, device, directory)) {
        say(finding);
    }
}

fn packets(device: &str, mtu: u32, rate: Option<u64>) -> Finding {
    let name = format!("{device} MTU");
    let why =
        "fewer packets for the same bytes; each hop and both ends must take them, so try the path before";
    if rate.is_none_or(|rate| rate < JUMBO_RATE_BITS_PER_S) {
        return Finding::told(
            Subject::Network,
            name,
            mtu,
            "jumbo packets are for lines of 10 Gbit/s and more",
        );
    }
    Finding::told(Subject::Network, name, mtu, why)
        .wanted(JUMBO_MTU_BYTES, mtu >= JUMBO_MTU_BYTES, "000 section III-B.1")
        .remedied(
            format!("ip link set {device} mtu {JUMBO_MTU_BYTES}"),
            format!("ip link set {device} mtu {mtu}"),
        )
}

/// What the finding about a card's rings is called.
pub fn rings_name(device: &str) -> String {
    format!("{device} rings")
}

/// Slots that a card's rings should have, to receive and to send: no fewer than they have.
pub fn wanted_rings(rings: &Rings) -> (u32, u32) {
    let wanted = |now: u32, max: u32| RING_SLOTS.min(max).max(now);
    (wanted(rings.receive, rings.receive_max), wanted(rings.send, rings.send_max))
}

fn ring(device: &str, rings: &Rings) -> Finding {
    let (receive, send) = wanted_rings(rings);
    let is_good = (rings.receive, rings.send) == (receive, send);
    let shown = |receive, send| format!("rx {receive} tx {send}");
    Finding::told(
        Subject::Network,
        rings_name(device),
        shown(rings.receive, rings.send),
        format!(
            "a burst that the kernel does not fetch in time is lost; the card has at most {}",
            shown(rings.receive_max, rings.send_max)
        ),
    )
    .wanted(shown(receive, send), is_good, "000 Table II")
    .remedied(
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
fn interrupts(roots: &Roots, device: &str, directory: &Path) -> Option<Finding> {
    let interrupts: Vec<String> = ["device/msi_irqs", "device/../msi_irqs"]
        .iter()
        .map(|place| names(&directory.join(place)))
        .find(|names| !names.is_empty())?;
    let name = format!("{device} interrupts");
    let mut cpus = BTreeSet::new();
    for interrupt in &interrupts {
        let place = roots.proc.join("irq").join(interrupt);
        // The first is empty where the kernel does not keep it.
        let list = ["effective_affinity_list", "smp_affinity_list"]
            .iter()
            .filter_map(|file| read(&place.join(file)).ok())
            .find(|list| !list.is_empty());
        cpus.extend(numbers_of_list(&list.unwrap_or_default()));
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
    let node: Option<u32> = ["device/numa_node", "device/../numa_node"]
        .iter()
        .find_map(|place| number::<i64>(&directory.join(place)))
        .and_then(|node| u32::try_from(node).ok());
    let near = node.and_then(|node| nodes.iter().find(|(number, _)| *number == node)).map(|(_, cpus)| cpus);
    let far = near.map_or(0, |near| cpus.iter().filter(|cpu| !near.contains(cpu)).count());
    let is_spread = queues < 2 || cpus.len() > 1 || interrupts.len() < 2;
    let place = match node {
        Some(node) if nodes.len() > 1 => {
            format!(", the card is at node {node}, {far} of these CPUs are at another")
        }
        _ => String::new(),
    };
    let current = format!("{} on {} CPUs, {queues} receive queues{place}", interrupts.len(), cpus.len());
    let wanted = if nodes.len() > 1 { "several CPUs, all at the card's node" } else { "several CPUs" };
    Some(
        Finding::told(
            Subject::Network,
            name,
            current,
            "one CPU cannot take all packets of a fast line, and one at another node fetches them across the machine",
        )
        .wanted(wanted, is_spread && far == 0, "000 section III-F; kernel: networking/scaling")
        .remedied(
            "stop irqbalance, then write CPUs of the card's node to /proc/irq/N/smp_affinity_list",
            "start irqbalance again",
        ),
    )
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
            Finding::told(
                Subject::Network,
                format!("path MTU to {}", way.to),
                way.mtu_bytes,
                "as far as the kernel has found out; only large packets under way show a smaller one",
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_cards_are_of_this_namespace_if_it_has_these_cards_with_their_numbers_and_no_other() {
        let scratch = tempfile::tempdir().unwrap();
        for (name, number) in [("lo", "1\n"), ("eth0", "2\n")] {
            std::fs::create_dir(scratch.path().join(name)).unwrap();
            std::fs::write(scratch.path().join(name).join("ifindex"), number).unwrap();
        }
        // Where there are bonds this is a file among the cards.
        std::fs::write(scratch.path().join("bonding_masters"), "\n").unwrap();
        let are = |own: &[(&str, u32)]| {
            let own = own.iter().map(|(name, number)| ((*name).to_owned(), *number));
            are_of(scratch.path(), &own.collect::<Vec<_>>())
        };
        assert!(are(&[("eth0", 2), ("lo", 1)]));
        assert!(!are(&[("lo", 1)]));
        assert!(!are(&[("lo", 1), ("eth0", 7)]));
        assert!(!are(&[("lo", 1), ("eth1", 2)]));
        assert!(!are(&[("lo", 1), ("eth0", 2), ("eth1", 3)]));
    }
}
