//! What machine this is, and what a change here reaches (000 Table VI).

use super::finding::{Finding, Subject};
use super::limits;
use super::roots::{Roots, names, numbers_of_list, read};
use super::wanted::Reach;
use std::fmt;
use std::path::Path;

/// Hardware, guest or container.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Whether this is a guest.
    pub virtualisation: Virtualisation,
    /// What keeps the container, if this is one.
    pub container: Option<String>,
    /// Whether settings of the kernel may be written.
    pub is_privileged: bool,
    /// Whether those of this network namespace may be: they may have a mount of their own.
    pub may_set_network: bool,
    /// Whether this network namespace is the kernel's first.
    pub is_first_namespace: bool,
    /// Its CPUs.
    pub cpus: Cpus,
    /// Flags of the first CPU.
    pub cpu_flags: Vec<String>,
    /// Its name.
    pub cpu_model: String,
}

/// Whether a machine is a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Virtualisation {
    /// The processor says that it is none.
    Hardware,
    /// A guest, of the hypervisor with this name.
    Guest(String),
    /// Nothing says so or otherwise; why.
    Unseen(String),
}

/// How many CPUs there are, and how many of them a process has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cpus {
    /// Those that are online, or 1.
    pub online: usize,
    /// Those of them that this process may run on, by its affinity and its cpuset.
    pub allowed: usize,
    /// So many at once, by the quota of its control group.
    pub quota: Option<f64>,
}

impl Cpus {
    fn of(roots: &Roots, cpuinfo: &str, status: &str) -> Cpus {
        let processors = cpuinfo.lines().filter_map(|line| line.strip_prefix("processor"));
        let online: Vec<u32> = processors.filter_map(first_number).collect();
        let allowed = match status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")) {
            Some(list) => {
                let list = numbers_of_list(list);
                online.iter().filter(|cpu| list.contains(cpu)).count()
            }
            None => online.len(),
        };
        Cpus { online: online.len().max(1), allowed: allowed.max(1), quota: limits::cpu_quota(roots) }
    }

    /// How many a process has at once.
    pub fn usable(&self) -> f64 {
        self.quota.map_or(self.allowed as f64, |quota| quota.min(self.allowed as f64))
    }

    /// Whether it has fewer than there are.
    pub fn is_limited(&self) -> bool {
        self.usable() < self.online as f64
    }
}

impl fmt::Display for Cpus {
    /// As `8`, or `the 2 of 64 that this process may use`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_limited() {
            false => self.online.fmt(f),
            true => {
                let usable = (self.usable() * 100.0).round() / 100.0;
                write!(f, "the {usable} of {} that this process may use", self.online)
            }
        }
    }
}

/// `CAP_SYS_ADMIN` (capability.h), without which most settings cannot be written.
const CAPABILITY_SYS_ADMIN: u64 = 1 << 21;

impl Machine {
    /// Looks at it.
    pub fn of(roots: &Roots) -> Machine {
        let info = read(&roots.proc.join("cpuinfo")).unwrap_or_default();
        let field = |names: &[&str]| {
            info.lines()
                .filter_map(|line| line.split_once(':'))
                .find_map(|(name, value)| names.contains(&name.trim()).then(|| value.trim().to_owned()))
        };
        let cpu_flags: Vec<String> =
            field(&["flags", "Features"]).unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let status = read(&roots.proc.join("self/status")).unwrap_or_default();
        let capabilities = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0);
        let mounts = read(&roots.proc.join("self/mountinfo")).unwrap_or_default();
        let may_write =
            |path: &str| capabilities & CAPABILITY_SYS_ADMIN != 0 && !is_read_only(&mounts, Path::new(path));
        Machine {
            virtualisation: virtualisation(roots, field(&["flags"]).is_some(), &cpu_flags),
            container: container(roots, &mounts),
            is_privileged: may_write("/proc/sys"),
            may_set_network: may_write("/proc/sys/net"),
            is_first_namespace: is_first_namespace(roots),
            cpus: Cpus::of(roots, &info, &status),
            cpu_model: field(&["model name", "Processor", "CPU part"]).unwrap_or_else(|| "unknown".into()),
            cpu_flags,
        }
    }

    /// The hypervisor's name, if this is a guest.
    pub fn hypervisor(&self) -> Option<&str> {
        match &self.virtualisation {
            Virtualisation::Guest(name) => Some(name),
            Virtualisation::Hardware | Virtualisation::Unseen(_) => None,
        }
    }

    /// Where a kernel setting of this reach takes effect when it is changed here; an error if it cannot be.
    ///
    /// # Errors
    /// What stands against it, and where it could be changed.
    pub fn reach(&self, reach: Reach) -> Result<String, String> {
        let guest = match &self.virtualisation {
            Virtualisation::Guest(_) => "; of this guest, not of its host",
            Virtualisation::Hardware | Virtualisation::Unseen(_) => "",
        };
        let may_write = match reach {
            Reach::Namespace => self.may_set_network,
            Reach::Kernel => self.is_privileged,
        };
        if !may_write {
            return Err(match &self.container {
                Some(_) => "not from inside this container: ask for it on the host, or for namespaced settings when the \
                            container is started (--sysctl)"
                    .to_owned(),
                None => "root may change it".to_owned(),
            });
        }
        match reach {
            Reach::Namespace if !self.is_first_namespace => Ok(format!("this network namespace only{guest}")),
            Reach::Namespace => {
                Ok(format!("this host's network; containers with a network of their own keep theirs{guest}"))
            }
            Reach::Kernel if !self.is_first_namespace => {
                Err("not from this network namespace: the kernel has one such setting, change it on the host"
                    .into())
            }
            Reach::Kernel if self.container.is_some() => {
                Ok(format!("the host and all of its containers: this one is privileged{guest}"))
            }
            Reach::Kernel => Ok(format!("this kernel and all of its containers{guest}")),
        }
    }

    /// What it is, as findings.
    pub fn findings(&self) -> Vec<Finding> {
        let scope = match (&self.container, &self.virtualisation) {
            (Some(_), _) if self.is_privileged => "settings change the host and all of its containers",
            (Some(_), _) if self.may_set_network => {
                "settings change the network of this container, or of its host"
            }
            (Some(_), _) => "only few settings can be changed here, for this container alone",
            (None, Virtualisation::Guest(_)) => {
                "settings change this guest's kernel only; the host's must fit too"
            }
            (None, Virtualisation::Hardware) => "settings change this machine",
            (None, Virtualisation::Unseen(_)) => "settings change this machine's kernel, guest or not",
        };
        let container = self.container.clone().unwrap_or_else(|| "none".into());
        let namespace = if self.is_first_namespace { "the kernel's first" } else { "one of its own" };
        let settings = match (self.is_privileged, self.may_set_network) {
            (true, _) => "may be changed by this process",
            (false, true) => "may be changed by this process if they are of the network",
            (false, false) => "may not be changed by this process",
        };
        let told = |name: &str, current: String, why: &str| {
            let mut finding = Finding::told(Subject::Machine, name, current, why).scoped(scope);
            finding.source = Some("000 Table VI".into());
            finding
        };
        let virtualised = |current| {
            told("virtualisation", current, "a guest pays for interrupts, and depends on its host's kernel")
        };
        vec![
            match &self.virtualisation {
                Virtualisation::Hardware => virtualised("none: hardware".into()),
                Virtualisation::Guest(name) => virtualised(name.clone()),
                Virtualisation::Unseen(why) => {
                    Finding::unseen(Subject::Machine, "virtualisation", why).scoped(scope)
                }
            },
            told("container", container, "a container has no kernel of its own"),
            told(
                "network namespace",
                namespace.into(),
                "some settings are of the namespace, some of the kernel",
            ),
            told("kernel settings", settings.into(), "needs CAP_SYS_ADMIN and a writable /proc/sys"),
        ]
    }
}

/// Whether this network namespace is the kernel's first: there alone it shows this setting
/// (net/core/sysctl_net_core.c).
pub fn is_first_namespace(roots: &Roots) -> bool {
    roots.sysctl("net.core.netdev_max_backlog").exists()
}

/// The first number in a text.
fn first_number(text: &str) -> Option<u32> {
    text.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty())?.parse().ok()
}

/// Names that firmware of guests has, as vendor or product begins (as systemd-detect-virt(1) knows them). Vendors that
/// also build hardware are here with the product.
const FIRMWARE_OF_GUESTS: &[&str] = &[
    "QEMU",
    "KVM",
    "VMware",
    "Xen",
    "innotek GmbH",
    "VirtualBox",
    "Bochs",
    "Parallels",
    "BHYVE",
    "OpenStack",
    "KubeVirt",
    "Amazon EC2",
    "Google Compute Engine",
    "Virtual Machine",
    "Apple Virtualization",
    "vServer",
];

/// x86 processors have a flag that hypervisors set. Others have none: there only the firmware's names speak for a
/// guest, and hardly anything against it.
fn virtualisation(roots: &Roots, is_x86: bool, cpu_flags: &[String]) -> Virtualisation {
    if let Ok(kind) = read(&roots.sys.join("hypervisor/type")) {
        return Virtualisation::Guest(kind);
    }
    let dmi = roots.sys.join("class/dmi/id");
    let names: Vec<String> =
        ["sys_vendor", "product_name"].iter().filter_map(|name| read(&dmi.join(name)).ok()).collect();
    let firmware = names.join(" ");
    if cpu_flags.iter().any(|flag| flag == "hypervisor") {
        let is_named = !firmware.is_empty();
        return Virtualisation::Guest(if is_named { firmware } else { "a hypervisor without a name".into() });
    }
    // Clouds rent whole machines as well, under the same vendor.
    if is_x86 || names.iter().any(|name| name.contains(".metal")) {
        return Virtualisation::Hardware;
    }
    if names.iter().any(|name| FIRMWARE_OF_GUESTS.iter().any(|known| name.starts_with(known))) {
        return Virtualisation::Guest(firmware);
    }
    if let Some(name) = hypervisor_of_device_tree(&roots.proc.join("device-tree")) {
        return Virtualisation::Guest(name);
    }
    Virtualisation::Unseen(match firmware.is_empty() {
        true => "neither the processor nor the firmware says".into(),
        false => {
            format!(
                "the processor does not say, and `{firmware}` is no name of a hypervisor that is known here"
            )
        }
    })
}

/// Machines without DMI are described by a tree of small files, whose words end with a zero.
fn hypervisor_of_device_tree(tree: &Path) -> Option<String> {
    let compatible = |path: &Path| read(&path.join("compatible")).ok();
    if let Some(names) = compatible(&tree.join("hypervisor")) {
        return names.split('\0').next().map(str::to_owned);
    }
    // QEMU's machine `virt`.
    let is_virt = compatible(tree)?.split('\0').any(|name| name == "linux,dummy-virt");
    is_virt.then(|| "linux,dummy-virt (QEMU, KVM)".into())
}

fn container(roots: &Roots, mounts: &str) -> Option<String> {
    if let Ok(name) = read(&roots.run.join("systemd/container")) {
        return Some(name);
    }
    if roots.run.join(".containerenv").exists() {
        return Some("podman".into());
    }
    if roots.proc.with_file_name(".dockerenv").exists() {
        return Some("docker".into());
    }
    // Others say it to the first process of the container, as container(5) of systemd asks them to.
    let first = read(&roots.proc.join("1/environ")).unwrap_or_default();
    if let Some(name) = first.split('\0').find_map(|word| word.strip_prefix("container=")) {
        return Some(name.into());
    }
    // The first process is the host's in a container that sees all of its processes, as a pod with `hostPID`.
    let [first, own] = ["1/cgroup", "self/cgroup"].map(|of| read(&roots.proc.join(of)).unwrap_or_default());
    if let Some(name) = [&first, &own].into_iter().find_map(|groups| keeper_of(groups)) {
        return Some(name.into());
    }
    // A machine that was started from a medium has a root of layers too; there the second process is the kernel's, and
    // the first one's group is not outside of what is seen.
    let sees_kernel = read(&roots.proc.join("2/comm")).is_ok_and(|name| name == "kthreadd");
    if sees_kernel && !paths_of_groups(&first).any(|path| path.starts_with("/..")) {
        return None;
    }
    // With a control group namespace the group says nothing, but the root is still made of layers.
    let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/"))?;
    root.split(" - ")
        .nth(1)?
        .starts_with("overlay ")
        .then(|| "layered root (docker, podman, containerd)".into())
}

/// How groups begin that hold what runs in a container, and what keeps that.
const GROUPS_OF_CONTAINERS: [(&str, &str); 6] = [
    ("docker", "docker"),
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("lxc", "lxc"),
    ("cri-containerd", "containerd"),
    ("nerdctl", "containerd"),
];

/// What keeps the container that control groups are of, as `/proc/PID/cgroup` has them. The service that keeps
/// containers is in none.
fn keeper_of(groups: &str) -> Option<&'static str> {
    let is_in = |mark: &str| {
        let mut names = paths_of_groups(groups).flat_map(|path| path.split('/'));
        names.any(|name| name.starts_with(mark) && !name.ends_with(".service"))
    };
    GROUPS_OF_CONTAINERS.iter().find(|(mark, _)| is_in(mark)).map(|(_, name)| *name)
}

/// The paths of control groups, of lines like `4:memory:/a/b`.
fn paths_of_groups(groups: &str) -> impl Iterator<Item = &str> {
    groups.lines().filter_map(|line| line.splitn(3, ':').nth(2))
}

/// Whether what is mounted at a path, or nearest above it, may not be written.
fn is_read_only(mounts: &str, path: &Path) -> bool {
    let above = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(4);
        let (point, options) = (words.next()?, words.next()?);
        path.starts_with(point).then_some((point, options))
    });
    // The last of equals hides the others.
    let nearest = above.max_by_key(|(point, _)| point.len());
    nearest.is_some_and(|(_, options)| options.split(',').any(|option| option == "ro"))
}

/// Names of the machine's NUMA nodes with their CPUs.
pub fn nodes(roots: &Roots) -> Vec<(u32, Vec<u32>)> {
    let directory = roots.sys.join("devices/system/node");
    names(&directory)
        .iter()
        .filter_map(|name| {
            let number = name.strip_prefix("node")?.parse().ok()?;
            let cpus = read(&directory.join(name).join("cpulist")).ok()?;
            Some((number, numbers_of_list(&cpus)))
        })
        .collect()
}
