//! Memory, and what of it TCP may take.

use super::finding::{Finding, Subject};
use super::machine::nodes;
use super::roots::{Roots, read};

/// Bytes of a page where memory is counted in pages; the kernel's files do not say which it is, and the others that
/// Linux runs on here are larger.
const PAGE_BYTES: u64 = 4096;

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
                    format!("{} for all TCP buffers together", mib(most.saturating_mul(PAGE_BYTES))),
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
    let nodes = nodes(roots);
    found.push(Finding::told(
        Subject::Memory,
        "NUMA nodes",
        nodes.len().max(1),
        "with several, a card, its interrupts and the program that uses it belong to one node",
    ));
    found
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Of `always [madvise] never` the one in brackets.
pub fn chosen(words: &str) -> String {
    let inside = words.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(words, |(word, _)| word).to_owned()
}
