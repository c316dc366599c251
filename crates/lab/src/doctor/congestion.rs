//! Congestion control: what is there, what programs may choose, what they get without choosing.

use super::finding::{Finding, Subject};
use super::machine::Machine;
use super::network;
use super::roots::{Roots, read};

/// Everything about it.
pub fn findings(roots: &Roots, machine: &Machine) -> Vec<Finding> {
    let mut found = network::sysctls(roots, machine, Subject::Congestion);
    let list = |key: &str, why: &str| match roots.sysctl_value(key) {
        Ok(list) => Finding::told(Subject::Congestion, key, list, why),
        Err(unseen) => Finding::unseen(Subject::Congestion, key, unseen),
    };
    found.push(list("net.ipv4.tcp_available_congestion_control", "what the kernel has loaded"));
    found.push(list(
        "net.ipv4.tcp_allowed_congestion_control",
        "what a program may choose for its sockets without CAP_NET_ADMIN; thalweg takes cubic on short paths if it is here",
    ));
    found
}

/// TCP segments sent and sent again by everybody in this network namespace since it began.
pub fn segments(roots: &Roots) -> Result<(u64, u64), String> {
    let path = roots.proc.join("net/snmp");
    let text = read(&path)?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let columns = lines.next().zip(lines.next());
    let find = |name: &str| {
        let (names, values) = columns?;
        let at = names.split_whitespace().position(|column| column == name)?;
        values.split_whitespace().nth(at)?.parse::<u64>().ok()
    };
    find("OutSegs")
        .zip(find("RetransSegs"))
        .ok_or_else(|| format!("{} has no counters of TCP", path.display()))
}
