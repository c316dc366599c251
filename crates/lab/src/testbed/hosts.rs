//! Makes the namespaces, and in them devices, addresses, routes and the rule that hands packets to the wire.
//!
//! Neighbours are entered by hand, so that no packet of a measurement waits for an address to be resolved. IPv6 is
//! off: nothing travels that the user did not send.

use super::netlink::{Forwarded, queue_forwarded};
use super::spec::{ROUTER, Side, Spec, sysctl_path};
use std::fmt::Write;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io, of_namespace};
use thalweg_sys::namespace::NetworkNamespace;

/// Device groups of the router, by which the rule knows the sides.
const GROUP_LEFT: u32 = 1;
const GROUP_RIGHT: u32 = 2;

/// Queue numbers. They are of the router's namespace, so every testbed has the same.
pub const QUEUE_FORWARD: u16 = 0;
/// See [`QUEUE_FORWARD`].
pub const QUEUE_BACK: u16 = 2;

/// A host.
#[derive(Debug)]
pub struct Host {
    /// `left-1`.
    pub name: String,
    /// Where it stands.
    pub side: Side,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its namespace.
    pub namespace: NetworkNamespace,
}

/// All namespaces of a testbed.
#[derive(Debug)]
pub struct Hosts {
    /// Where the wire is.
    pub router: NetworkNamespace,
    /// Left ones first.
    pub hosts: Vec<Host>,
}

/// Makes them.
///
/// # Errors
/// `Permission` without root; `NotFound` without `ip`; `Unsupported` where the kernel lacks something.
pub fn build(spec: &Spec) -> Result<Hosts> {
    let new = || NetworkNamespace::new().map_err(|error| of_namespace(&error));
    let router = new()?;
    let mut hosts = Vec::new();
    let mut at_router = format!("link set lo up\naddr add {ROUTER}/32 dev lo\n");
    for (side, number, name, address) in spec.hosts() {
        let namespace = new()?;
        let (group, ours, theirs) = match side {
            Side::Left => (GROUP_LEFT, mac(1, 0, number), mac(1, 1, number)),
            Side::Right => (GROUP_RIGHT, mac(2, 0, number), mac(2, 1, number)),
        };
        let (mtu, pid, fd) = (spec.mtu_bytes, std::process::id(), namespace.number());
        // Written into a String: cannot fail.
        let _ = write!(
            at_router,
            "link add {name} mtu {mtu} address {ours} type veth peer name eth0 mtu {mtu} address {theirs} \
             netns /proc/{pid}/fd/{fd}\n\
             link set {name} group {group} up\n\
             route add {address}/32 dev {name}\n\
             neigh add {address} lladdr {theirs} dev {name} nud permanent\n"
        );
        hosts.push((Host { name, side, address, namespace }, ours));
    }
    set_up(&router, "the router", &at_router, &router_sysctls())?;
    for (host, router_mac) in &hosts {
        let lines = format!(
            "link set lo up\n\
             link set eth0 up\n\
             addr add {}/32 dev eth0\n\
             neigh add {ROUTER} lladdr {router_mac} dev eth0 nud permanent\n\
             route add {ROUTER} dev eth0\n\
             route add {}\n",
            host.address,
            to_the_others(&spec.sysctls, None)
        );
        // What earlier connections learned about the path would change the next measurement.
        let mut sysctls = quiet_sysctls();
        sysctls.push(("net.ipv4.tcp_no_metrics_save".into(), "1".into()));
        sysctls.extend(spec.sysctls.iter().cloned());
        set_up(&host.namespace, &host.name, &lines, &sysctls)?;
    }
    queue_between_sides(&router)?;
    Ok(Hosts { router, hosts: hosts.into_iter().map(|(host, _)| host).collect() })
}

/// Has a router queue what it forwards from one side to the other.
///
/// # Errors
/// As [`build`].
pub fn queue_between_sides(router: &NetworkNamespace) -> Result<()> {
    let directions = [
        Forwarded { from_group: GROUP_LEFT, to_group: GROUP_RIGHT, queue: QUEUE_FORWARD },
        Forwarded { from_group: GROUP_RIGHT, to_group: GROUP_LEFT, queue: QUEUE_BACK },
    ];
    router.inside(|| queue_forwarded(&directions)).map_err(|error| {
        let cause = format!(
            "{error}; the kernel needs nf_tables, and for queueing CONFIG_NFT_QUEUE, or CONFIG_NFT_COMPAT with \
             CONFIG_NETFILTER_XT_TARGET_NFQUEUE"
        );
        Failure::new(thalweg_mover::failure::kind_of_io(&error), "queue what is forwarded", cause)
    })
}

/// Has connections that begin from now on in a host begin with so many segments, which are sent before anything is
/// acknowledged and offered before anything has come; `None`: with as many as the kernel gives them. `sysctls` are
/// those of its testbed.
///
/// # Errors
/// As [`build`].
pub fn set_initial_window(
    host: &NetworkNamespace,
    name: &str,
    sysctls: &[(String, String)],
    segments: Option<u32>,
) -> Result<()> {
    let lines = format!("route replace {}\n", to_the_others(sysctls, segments));
    set_up(host, name, &lines, &[])
}

/// Has packets of more than `mtu_bytes` to a host be lost at the router without a word, from now on: a black hole. What
/// is sent whole as a super-packet is judged by its segments.
///
/// # Errors
/// As [`build`].
pub fn make_black_hole(router: &NetworkNamespace, host: &str, mtu_bytes: u32) -> Result<()> {
    set_up(router, "the router", &black_hole(host, mtu_bytes), &[])
}

/// The router's device takes no more, and what the router would say of it (ICMP) finds no way. What others say is
/// forwarded, which the rule is not about. Settings do not do: no limit of ICMP holds for what tells of an MTU.
fn black_hole(host: &str, mtu_bytes: u32) -> String {
    format!("link set {host} mtu {mtu_bytes}\nrule add pref 1 iif lo ipproto icmp blackhole\n")
}

/// Has what a host sends wait in a queue of this kind (tc(8)), behind which a line has this rate.
///
/// # Errors
/// `Unsupported` where the kernel has no such queue, or none that limits a rate; `NotFound` without `tc`; `Usage` if
/// that is no name of a kind.
pub fn set_queue(host: &NetworkNamespace, kind: &str, rate_bits_per_s: u64) -> Result<()> {
    const OPERATION: &str = "set the queue of a host";
    // Becomes a word of a command.
    if kind.is_empty() || !kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        let cause = format!("`{}` is no kind of a queue", kind.escape_debug());
        return Err(Failure::new(FailureKind::Usage, OPERATION, cause));
    }
    let lines = queue(kind, rate_bits_per_s);
    let done = host.inside(|| Ok(batch("tc", &lines)));
    done.map_err(|error| of_io("enter a network namespace", &error))?
}

/// A quantum of its own: the one that tc reckons from the rate is larger than the kernel likes.
fn queue(kind: &str, rate_bits_per_s: u64) -> String {
    format!(
        "qdisc replace dev eth0 root handle 1: htb default 1\n\
         class add dev eth0 parent 1: classid 1:1 htb rate {rate_bits_per_s}bit quantum 65536\n\
         qdisc add dev eth0 parent 1:1 handle 10: {kind}\n"
    )
}

fn mac(side: u8, end: u8, number: u8) -> String {
    // Locally administered.
    format!("02:77:00:{side:02x}:{end:02x}:{number:02x}")
}

fn quiet_sysctls() -> Vec<(String, String)> {
    ["all", "default"]
        .map(|which| (format!("net.ipv6.conf.{which}.disable_ipv6"), "1".to_owned()))
        .into_iter()
        .filter(|(key, _)| sysctl_path(key).is_some_and(|path| std::path::Path::new(&path).exists()))
        .collect()
}

fn router_sysctls() -> Vec<(String, String)> {
    let mut sysctls = quiet_sysctls();
    sysctls.push(("net.ipv4.ip_forward".into(), "1".into()));
    sysctls
}

/// Settings first: a device takes its defaults when it is made.
fn set_up(space: &NetworkNamespace, whose: &str, lines: &str, sysctls: &[(String, String)]) -> Result<()> {
    let done = space.inside(|| Ok(write_sysctls(whose, sysctls).and_then(|()| batch("ip", lines))));
    done.map_err(|error| of_io("enter a network namespace", &error))?
}

/// A kernel lets only the first namespace make a congestion control the default that it does not allow to
/// everybody (`tcp_allowed_congestion_control`); a route may name any.
const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";

/// A host's route to all others, as `ip` takes it.
fn to_the_others(sysctls: &[(String, String)], initial_window: Option<u32>) -> String {
    let chosen = sysctls.iter().rev().find(|(key, _)| key == CONGESTION_CONTROL);
    let control = chosen.map(|(_, name)| format!(" congctl {name}")).unwrap_or_default();
    let window = initial_window.map(|segments| format!(" initcwnd {segments} initrwnd {segments}"));
    format!("default via {ROUTER} dev eth0{control}{}", window.unwrap_or_default())
}

fn write_sysctls(whose: &str, sysctls: &[(String, String)]) -> Result<()> {
    for (key, value) in sysctls {
        let Some(path) = sysctl_path(key) else { continue };
        let written = std::fs::write(&path, value);
        if key == CONGESTION_CONTROL
            && written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        {
            continue;
        }
        written.map_err(|error| {
            let operation = format!("set {key} of {whose} to `{}`", value.escape_debug());
            let mut failure = of_io(&operation, &error);
            if error.kind() == io::ErrorKind::NotFound {
                failure.cause = "this kernel has no such setting of a network namespace".into();
            }
            failure
        })?;
    }
    Ok(())
}

/// Runs lines of `ip` or `tc` where the calling thread is.
fn batch(program: &str, lines: &str) -> Result<()> {
    let failed = |error: &io::Error| {
        let mut failure = of_io(&format!("run {program}"), error);
        if error.kind() == io::ErrorKind::NotFound {
            failure.cause = format!("there is no program `{program}` (package iproute2)");
        }
        failure
    };
    let mut child = Command::new(program)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(lines.as_bytes()).map_err(|error| failed(&error))?;
    }
    let output = child.wait_with_output().map_err(|error| failed(&error))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let cause = words.trim().lines().collect::<Vec<_>>().join("; ");
    Err(Failure::new(FailureKind::Unsupported, &format!("set up devices with {program}"), cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_is_given_an_initial_window_keeps_its_congestion_control() {
        let sysctls = [("net.ipv4.tcp_mtu_probing", "1"), (CONGESTION_CONTROL, "cubic")];
        let sysctls = sysctls.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let route = "default via 10.77.0.1 dev eth0";
        assert_eq!(to_the_others(&sysctls, None), format!("{route} congctl cubic"));
        let window = "initcwnd 112 initrwnd 112";
        assert_eq!(to_the_others(&sysctls, Some(112)), format!("{route} congctl cubic {window}"));
        assert_eq!(to_the_others(&[], Some(112)), format!("{route} {window}"));
    }

    #[test]
    fn a_queue_is_behind_a_limit_of_the_rate_and_its_kind_is_one_word() {
        let lines = queue("fq_codel", 500_000_000);
        assert_eq!(lines.lines().count(), 3);
        assert!(
            lines.contains(" htb rate 500000000bit ") && lines.ends_with("handle 10: fq_codel\n"),
            "{lines}"
        );
        let here = NetworkNamespace::open(std::path::Path::new("/proc/thread-self/ns/net")).unwrap();
        for odd in ["", "fq; true", "fq\nqdisc"] {
            assert_eq!(set_queue(&here, odd, 1).unwrap_err().kind, FailureKind::Usage, "{odd}");
        }
    }

    /// What the router forwards of others' ICMP is not of `lo`.
    #[test]
    fn a_black_hole_takes_less_and_says_nothing_of_its_own() {
        let lines = black_hole("right-1", 1400);
        assert!(lines.starts_with("link set right-1 mtu 1400\n"), "{lines}");
        assert!(lines.contains(" iif lo ipproto icmp blackhole"), "{lines}");
    }
}
