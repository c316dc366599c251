//! Memory, and what of it TCP may take.

use super::buffers::page_bytes;
use super::device::Devices;
use super::finding::{Finding, Subject};
use super::machine::nodes;
use super::roots::{Roots, list_of_numbers, read};

/// Everything about it.
pub fn findings(roots: &Roots) -> Vec<Finding> {
    let mut found = Vec::new();
    match read(&roots.proc.join("meminfo")) {
        Ok(text) => {
            for (field, name, why) in [
                ("MemTotal:", "memory", "of the kernel; a container may be allowed less, see limits"),
                ("MemAvailable:", "memory available", "without swapping"),
            ] {
                let words = text.lines().find_map(|line| line.strip_prefix(field));
                if let Some(kib) =
                    words.and_then(|words| words.split_whitespace().next()?.parse::<u64>().ok())
                {
                    found.push(Finding::told(Subject::Memory, name, mib(kib << 10), why));
                }
            }
        }
        Err(why) => found.push(Finding::unseen(Subject::Memory, "memory", why)),
    }
    match roots.sysctl_value("net.ipv4.tcp_mem") {
        Ok(pages) => {
            let most = pages.split(' ').nth(2).and_then(|pages| pages.parse::<u64>().ok());
            if let Some(most) = most {
                found.push(Finding::told(
                    Subject::Memory,
                    "net.ipv4.tcp_mem",
                    format!("{} for all TCP buffers together", mib(most.saturating_mul(page_bytes()))),
                    "large windows of many streams must fit; from the second number on the kernel shrinks them",
                ));
            }
        }
        Err(why) => found.push(Finding::unseen(Subject::Memory, "net.ipv4.tcp_mem", why)),
    }
    let huge = roots.sys.join("kernel/mm/transparent_hugepage/enabled");
    found.push(match read(&huge) {
        Ok(words) => Finding::told(
            Subject::Memory,
            "transparent huge pages",
            chosen(&words),
            "thalweg asks for them where its buffers gain by them, which `never` refuses",
        ),
        Err(why) => Finding::unseen(Subject::Memory, "transparent huge pages", why),
    });
    found.push(numa(roots));
    found
}

/// With several nodes, where the program belongs: where the fastest card is.
fn numa(roots: &Roots) -> Finding {
    let nodes = nodes(roots);
    let found = Finding::told(
        Subject::Memory,
        "NUMA nodes",
        nodes.len().max(1),
        "with several, a card, its interrupts and the program that uses it belong to one node",
    );
    let devices = Devices::of(roots).all;
    let cards = devices.iter().filter_map(|device| Some((device.rate_bits_per_s(), device.node()?, device)));
    let fastest = cards.max_by_key(|(rate, _, _)| *rate);
    let Some((_, node, device)) = fastest.filter(|_| nodes.len() > 1) else { return found };
    let Some((_, cpus)) = nodes.iter().find(|(number, _)| *number == node) else { return found };
    found
        .depends(format!("thalweg at node {node}, that of {}", device.name), "numactl(8); systemd.exec(5)")
        .scoped("the programs that are started so")
        .remedied(
            format!(
                "numactl --cpunodebind={node} --membind={node} thalweg ...; of the daemon `systemctl edit thalweg` with the lines \
                 `[Service]`, `CPUAffinity={}`, `NUMAPolicy=bind`, `NUMAMask={node}`, then restart it",
                list_of_numbers(cpus)
            ),
            "start it without; of the daemon `systemctl edit thalweg` without these lines, then restart it",
        )
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Of `always [madvise] never` the one in brackets.
pub fn chosen(words: &str) -> String {
    let inside = words.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(words, |(word, _)| word).to_owned()
}
