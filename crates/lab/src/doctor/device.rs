//! Network devices that data leave by: those that routes lead over and that are up, and what is beneath them (slaves of
//! a bond, ports of a bridge, the device of a VLAN).
//!
//! Not seen: devices in other network namespaces, and which of several routes a transfer takes.

use super::roots::{Roots, names, number, read};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How many devices may stand upon each other: more than the eight that Linux allows.
const LAYERS_MAX: usize = 10;

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Where its files are; none if those that are here are of another network namespace.
    pub directory: Option<PathBuf>,
    /// Whether routes lead over it; else it is beneath one that has them.
    pub is_top: bool,
    /// Devices beneath it that are up, those right below it; where some lead to a card, those alone.
    pub beneath: Vec<String>,
}

/// How a bond sends over its slaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sharing {
    /// Over all of them, each stream over one.
    Spread,
    /// Over one, and the others wait; which, if one is active.
    Active(Option<String>),
    /// Over all of them, each packet.
    Copied,
}

impl Device {
    /// Whether it joins several devices into one.
    pub fn is_bond(&self) -> bool {
        self.directory.as_deref().is_some_and(is_bond)
    }

    /// Whether it is a bridge.
    pub fn is_bridge(&self) -> bool {
        self.directory.as_deref().is_some_and(is_bridge)
    }

    /// How it sends over its slaves, if it is a bond.
    pub fn sharing(&self) -> Option<Sharing> {
        self.directory.as_deref().filter(|directory| is_bond(directory)).map(sharing)
    }

    /// Whether a card is it, or is beneath it.
    pub fn has_hardware(&self) -> bool {
        self.directory.as_deref().is_some_and(|directory| has_hardware(directory, LAYERS_MAX))
    }

    /// Rate of its line, in bits a second; none if no driver says, or no card is beneath it. Of a bond that of all its
    /// slaves together, or of the one that is active; of a bridge that of its fastest port.
    pub fn rate_bits_per_s(&self) -> Option<u64> {
        rate(self.directory.as_deref()?, LAYERS_MAX)
    }

    /// The NUMA node of its card.
    pub fn node(&self) -> Option<u32> {
        let directory = self.directory.as_deref()?;
        let node = ["device/numa_node", "device/../numa_node"]
            .iter()
            .find_map(|place| number::<i64>(&directory.join(place)))?;
        u32::try_from(node).ok()
    }
}

/// Devices that lead out.
pub struct Devices {
    /// Each device with routes, and behind it what is beneath it, each once.
    pub all: Vec<Device>,
    /// Why there are no files of them, if there are none.
    pub files: Result<(), String>,
}

impl Devices {
    /// Looks at them. Where no route says which device is used, all that are up count; of several those with hardware
    /// beneath.
    pub fn of(roots: &Roots) -> Devices {
        let directory = roots.sys.join("class/net");
        // A machine of files has what its files say.
        let is_here = roots.sys == Path::new("/sys");
        let own = is_here.then(|| thalweg_sys::card::all().ok()).flatten();
        if let Some(own) = own
            && !are_of(&directory, &own)
        {
            let names = own.into_iter().map(|(name, _)| name).filter(|name| name != "lo");
            let device = |name| Device { name, directory: None, is_top: true, beneath: Vec::new() };
            let why = match directory.exists() {
                true => "/sys is that of another network namespace".to_owned(),
                false => format!("{} is not there", directory.display()),
            };
            return Devices { all: names.map(device).collect(), files: Err(why) };
        }
        let mut all = Vec::new();
        for name in tops(roots, &directory) {
            walk(&directory, name, true, LAYERS_MAX, &mut all);
        }
        Devices { all, files: Ok(()) }
    }
}

/// Names of network devices that lead out, with those beneath them.
pub fn devices(roots: &Roots) -> Vec<String> {
    Devices::of(roots).all.into_iter().map(|device| device.name).collect()
}

/// The rate of the fastest line that is up, in bits a second; none if no card says.
pub fn line_rate_bits_per_s(roots: &Roots) -> Option<u64> {
    let devices = Devices::of(roots);
    devices.all.iter().filter(|device| device.is_top).filter_map(Device::rate_bits_per_s).max()
}

/// Notes a device and all that is beneath it. One that has routes itself is a top wherever it stands.
fn walk(directory: &Path, name: String, is_top: bool, layers: usize, into: &mut Vec<Device>) {
    if let Some(known) = into.iter_mut().find(|device| device.name == name) {
        known.is_top |= is_top;
        return;
    }
    let own = directory.join(&name);
    let beneath = beneath(&own);
    into.push(Device { name, directory: Some(own), is_top, beneath: beneath.clone() });
    if layers > 0 {
        beneath.into_iter().for_each(|name| walk(directory, name, false, layers - 1, into));
    }
}

/// Of the devices that are up those that routes lead over; without any, those that are beneath no other.
fn tops(roots: &Roots, directory: &Path) -> Vec<String> {
    // Beside the devices there is a file where there are bonds.
    let is_device = |name: &String| name != "lo" && directory.join(name).is_dir();
    let up: Vec<String> =
        names(directory).into_iter().filter(|name| is_device(name) && is_up(&directory.join(name))).collect();
    let routed = routed(roots);
    let mut tops: Vec<String> = up.iter().filter(|name| routed.contains(*name)).cloned().collect();
    if tops.is_empty() {
        let lower: BTreeSet<String> = up.iter().flat_map(|name| all_beneath(&directory.join(name))).collect();
        tops = up.into_iter().filter(|name| !lower.contains(name)).collect();
    }
    // Beside cards there are bridges of containers and tunnels.
    if tops.iter().any(|name| has_hardware(&directory.join(name), LAYERS_MAX)) {
        tops.retain(|name| has_hardware(&directory.join(name), LAYERS_MAX));
    }
    tops
}

/// Devices that routes lead over, by the tables of this network namespace.
fn routed(roots: &Roots) -> BTreeSet<String> {
    let table = |name: &str| read(&roots.proc.join("net").join(name)).unwrap_or_default();
    let four = table("route");
    let six = table("ipv6_route");
    // The first line has the names of the columns.
    let of_four = four.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    // Each device that is up has such of its own link, and of groups.
    const LOCAL: [&str; 5] = ["fe8", "fe9", "fea", "feb", "ff"];
    let is_local = |line: &&str| LOCAL.iter().any(|begin| line.starts_with(begin));
    let far = six.lines().filter(|line| !is_local(line));
    let of_six = far.filter_map(|line| line.split_whitespace().next_back());
    of_four.chain(of_six).filter(|name| *name != "lo").map(str::to_owned).collect()
}

/// Drivers that do not say leave it at `unknown`.
fn is_up(device: &Path) -> bool {
    read(&device.join("operstate")).map_or(true, |state| ["up", "unknown"].contains(&&*state))
}

fn is_bond(device: &Path) -> bool {
    device.join("bonding").is_dir()
}

fn is_bridge(device: &Path) -> bool {
    device.join("bridge").is_dir()
}

fn sharing(bond: &Path) -> Sharing {
    let mode = read(&bond.join("bonding/mode")).unwrap_or_default();
    match mode.split_whitespace().next() {
        Some("active-backup") => {
            let active = read(&bond.join("bonding/active_slave")).unwrap_or_default();
            Sharing::Active(Some(active).filter(|name| !name.is_empty()))
        }
        Some("broadcast") => Sharing::Copied,
        _ => Sharing::Spread,
    }
}

/// What is right below a device and is up. Beside the card of a bridge there are ports of guests, whose speed is
/// nobody's line: what leads to a card goes before what does not.
fn beneath(device: &Path) -> Vec<String> {
    let mut lower = all_beneath(device);
    let leads_out =
        |name: &String| beside(device, name).is_some_and(|lower| has_hardware(&lower, LAYERS_MAX));
    if lower.iter().any(leads_out) {
        lower.retain(leads_out);
    }
    lower
}

/// The same, wherever it leads.
fn all_beneath(device: &Path) -> Vec<String> {
    let links = names(device);
    let lower = links.iter().filter_map(|name| name.strip_prefix("lower_"));
    let slaves = read(&device.join("bonding/slaves")).unwrap_or_default();
    let names: BTreeSet<&str> = lower.chain(slaves.split_whitespace()).collect();
    let is_there = |name: &&str| beside(device, name).is_some_and(|beside| beside.is_dir() && is_up(&beside));
    names.into_iter().filter(is_there).map(str::to_owned).collect()
}

/// The files of another device.
fn beside(device: &Path, name: &str) -> Option<PathBuf> {
    Some(device.parent()?.join(name))
}

fn has_hardware(device: &Path, layers: usize) -> bool {
    device.join("device").exists()
        || layers > 0
            && all_beneath(device)
                .iter()
                .filter_map(|name| beside(device, name))
                .any(|lower| has_hardware(&lower, layers - 1))
}

fn rate(device: &Path, layers: usize) -> Option<u64> {
    // Of devices in memory, as containers and guests have them, the driver names a speed that is nobody's line.
    if !has_hardware(device, layers) {
        return None;
    }
    // -1 or an error where the driver does not know. A bridge says what its fastest port does, a guest's or not.
    let own = number::<i64>(&device.join("speed")).filter(|rate| *rate > 0 && !is_bridge(device));
    let own = own.map(|mbit| (mbit as u64).saturating_mul(1_000_000));
    if layers == 0 || own.is_some() && !is_bond(device) {
        return own;
    }
    let below = || {
        let lower = beneath(device);
        lower.into_iter().filter_map(move |name| Some((rate(&beside(device, &name)?, layers - 1)?, name)))
    };
    let fastest = || below().map(|(rate, _)| rate).max();
    let of_all = match is_bond(device).then(|| sharing(device)) {
        Some(Sharing::Spread) => below().map(|(rate, _)| rate).reduce(u64::saturating_add),
        Some(Sharing::Active(Some(active))) => {
            let one = below().find(|(_, name)| *name == active);
            one.map(|(rate, _)| rate).or_else(fastest)
        }
        None | Some(Sharing::Active(None) | Sharing::Copied) => fastest(),
    };
    of_all.or(own)
}

/// Whether files of devices are those of the devices that the kernel tells this process of, with their numbers: the
/// files belong to the network namespace of who mounted them.
fn are_of(directory: &Path, own: &[(String, u32)]) -> bool {
    let number_of = |name: String| Some((number::<u32>(&directory.join(&name).join("ifindex"))?, name));
    let seen: BTreeSet<(u32, String)> = names(directory).into_iter().filter_map(number_of).collect();
    let own: BTreeSet<(u32, String)> = own.iter().map(|(name, number)| (*number, name.clone())).collect();
    seen == own
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of these files.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let scratch = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = scratch.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        let roots = Roots::below(scratch.path());
        (scratch, roots)
    }

    const ROUTES: &str = "Iface\tDestination\nbond0.7\t00000000\nbond0.7\t0000000A\ndocker0\t000011AC\n\
        eno1\t000010AC";

    /// Two cards of 100 Gbit/s in a bond, a VLAN on it, a card for who keeps the machine, a bridge of containers.
    const BONDED: &[(&str, &str)] = &[
        ("proc/net/route", ROUTES),
        ("sys/class/net/bonding_masters", "bond0"),
        ("sys/class/net/bond0/bonding/slaves", "ens1f0 ens1f1 ens2f0"),
        ("sys/class/net/bond0/bonding/mode", "802.3ad 4"),
        ("sys/class/net/bond0/operstate", "up"),
        ("sys/class/net/bond0.7/lower_bond0/operstate", "up"),
        ("sys/class/net/docker0/lower_veth1/operstate", "up"),
        ("sys/class/net/veth1/speed", "10000"),
        ("sys/class/net/eno1/speed", "1000"),
        ("sys/class/net/eno1/device/numa_node", "0"),
        ("sys/class/net/ens1f0/speed", "100000"),
        ("sys/class/net/ens1f0/device/numa_node", "1"),
        ("sys/class/net/ens1f1/speed", "100000"),
        ("sys/class/net/ens1f1/device/numa_node", "1"),
        ("sys/class/net/ens2f0/speed", "400000"),
        ("sys/class/net/ens2f0/operstate", "down"),
        ("sys/class/net/ens2f0/device/numa_node", "1"),
        ("sys/class/net/ens3f0/speed", "400000"),
        ("sys/class/net/ens3f0/device/numa_node", "1"),
    ];

    #[test]
    fn devices_with_routes_are_taken_with_what_is_beneath_them_and_none_that_is_down() {
        let (_scratch, roots) = machine(BONDED);
        let devices = Devices::of(&roots);
        let told: Vec<(&str, bool)> = devices.all.iter().map(|one| (one.name.as_str(), one.is_top)).collect();
        let (bond, slaves) = (("bond0", false), [("ens1f0", false), ("ens1f1", false)]);
        assert_eq!(told, [("bond0.7", true), bond, slaves[0], slaves[1], ("eno1", true)]);
        assert_eq!(devices.all[2].node(), Some(1));
    }

    #[test]
    fn the_line_of_a_bond_is_that_of_its_slaves_that_are_up_and_of_a_vlan_that_of_what_is_beneath() {
        let (scratch, roots) = machine(BONDED);
        assert_eq!(line_rate_bits_per_s(&roots), Some(200_000_000_000));
        let mode = scratch.path().join("sys/class/net/bond0/bonding/mode");
        std::fs::write(mode, "active-backup 1\n").unwrap();
        assert_eq!(line_rate_bits_per_s(&roots), Some(100_000_000_000), "one at a time");
    }

    /// A card of 1 Gbit/s and a guest in a bridge, which tells the guest's speed.
    const BRIDGED: &[(&str, &str)] = &[
        ("proc/net/route", "Iface\tDestination\nbr0\t00000000"),
        ("sys/class/net/br0/bridge/stp_state", "0"),
        ("sys/class/net/br0/speed", "10000"),
        ("sys/class/net/br0/lower_eno1/operstate", "up"),
        ("sys/class/net/br0/lower_veth9/operstate", "up"),
        ("sys/class/net/eno1/speed", "1000"),
        ("sys/class/net/eno1/device/numa_node", "0"),
        ("sys/class/net/veth9/speed", "10000"),
    ];

    #[test]
    fn the_line_of_a_bridge_is_that_of_its_card_and_not_of_a_guest() {
        let (scratch, roots) = machine(BRIDGED);
        assert_eq!(line_rate_bits_per_s(&roots), Some(1_000_000_000));
        assert_eq!(devices(&roots), ["br0", "eno1"]);
        // Without routes no guest is a way out either.
        std::fs::remove_file(scratch.path().join("proc/net/route")).unwrap();
        assert_eq!(devices(&roots), ["br0", "eno1"]);
        // A card that does not say how fast it is leaves it at that.
        std::fs::remove_file(scratch.path().join("sys/class/net/eno1/speed")).unwrap();
        assert_eq!(line_rate_bits_per_s(&roots), None);
    }

    /// As in a container: its end of a pair in memory says 10 Gbit/s. A guest's card is one (virtio).
    #[test]
    fn where_no_card_is_beneath_a_device_its_line_is_not_known() {
        let container =
            [("proc/net/route", "Iface\tDestination\neth0\t00000000"), ("sys/class/net/eth0/speed", "10000")];
        let (scratch, roots) = machine(&container);
        assert_eq!((devices(&roots), line_rate_bits_per_s(&roots)), (vec!["eth0".to_owned()], None));
        std::fs::create_dir(scratch.path().join("sys/class/net/eth0/device")).unwrap();
        assert_eq!(line_rate_bits_per_s(&roots), Some(10_000_000_000));
    }

    #[test]
    fn without_routes_what_is_beneath_no_other_and_has_hardware_counts() {
        let without = |skipped: &str| {
            let mut files = BONDED.to_vec();
            files.retain(|(path, _)| *path != "proc/net/route" && !path.contains(skipped));
            let (_scratch, roots) = machine(&files);
            let devices = Devices::of(&roots).all.into_iter().filter(|device| device.is_top);
            devices.map(|device| device.name).collect::<Vec<_>>()
        };
        assert_eq!(without("nothing"), ["bond0.7", "eno1", "ens3f0"]);
        assert_eq!(without("/device/"), ["bond0.7", "docker0", "eno1", "ens3f0"], "a container has none");
    }

    /// Each device that is up has an address of its link.
    #[test]
    fn of_ipv6_a_route_of_the_link_alone_does_not_count() {
        let route = |to: &str, device: &str| format!("{to} 40 {:032} 00 {:032} 400 1 0 1 {device}\n", 0, 0);
        let lines = route("fe800000000000000000000000000000", "ens3f0")
            + &route("ff000000000000000000000000000000", "ens3f0")
            + &route("20010db8000000000000000000000000", "ens1f0");
        let mut files = BONDED.to_vec();
        files.extend([("proc/net/route", "Iface\tDestination"), ("proc/net/ipv6_route", lines.as_str())]);
        let (_scratch, roots) = machine(&files);
        assert_eq!(devices(&roots), ["ens1f0"]);
    }

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
