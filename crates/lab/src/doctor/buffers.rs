//! How large TCP's buffers should be able to grow: weighed by what the line needs, and by what all of TCP may have.
//!
//! Only the last number of a setting is judged. The one before is what each socket begins with: to raise it takes
//! memory of every connection, and brings a long transfer nothing.

use super::finding::{Finding, Remedy, Verdict};
use super::roots::Roots;
use super::wanted::{BUFFER_RTT, Sysctl, last, with_last};
use super::{device, limits};
use std::time::Duration;
use thalweg_mover::model::window::whole_bandwidth_delay_product_bytes;

/// Of a buffer about half is window (`tcp_adv_win_scale`); the rest holds what the kernel notes of each packet.
const BUFFERS_PER_WINDOW: u64 = 2;

/// Part of memory that the kernel makes the second number of tcp_mem of (`tcp_mem_init` in net/ipv4/tcp.c).
const TCP_PART_OF_MEMORY: u64 = 16;

/// By what buffers are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// The fastest line, in bits a second, if a card says.
    pub line_bits_per_s: Option<u64>,
    /// Round trip time of the way that was asked about, if one was measured.
    pub rtt: Option<Duration>,
    /// What all buffers of TCP together may have before the kernel shrinks them, and who says so.
    pub room: Option<(u64, &'static str)>,
}

impl Scale {
    /// That of a machine.
    pub fn of(roots: &Roots, rtt: Option<Duration>) -> Scale {
        Scale { line_bits_per_s: device::line_rate_bits_per_s(roots), rtt, room: room(roots) }
    }

    /// What a buffer needs, if the line is known.
    fn needed_bytes(&self) -> Option<u64> {
        let window =
            whole_bandwidth_delay_product_bytes(self.line_bits_per_s?, self.rtt.unwrap_or(BUFFER_RTT));
        Some(BUFFERS_PER_WINDOW.saturating_mul(window).checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX))
    }
}

/// In a network namespace the setting is not shown: there memory says what it is if nobody has changed it.
fn room(roots: &Roots) -> Option<(u64, &'static str)> {
    let pages = roots.sysctl_value("net.ipv4.tcp_mem").ok();
    let second = pages.and_then(|pages| pages.split(' ').nth(1)?.parse::<u64>().ok());
    match second {
        Some(pages) => Some((pages.saturating_mul(page_bytes()), "the second number of net.ipv4.tcp_mem")),
        None => limits::machine_memory_bytes(roots)
            .map(|memory| (memory / TCP_PART_OF_MEMORY, "a sixteenth of memory, as net.ipv4.tcp_mem has it")),
    }
}

/// Bytes of a page, where the kernel counts memory in pages.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Weighs the finding of such a setting. `may_change`: whether it may be changed from here.
pub fn weigh(finding: &mut Finding, sysctl: &Sysctl, scale: &Scale, may_change: bool) {
    let Some(current) = finding.current.clone() else { return };
    let Some(now) = last(&current) else { return };
    let table = last(sysctl.value).unwrap_or(u64::MAX);
    let room = scale.room.map_or(u64::MAX, |(bytes, _)| bytes);
    let needed = scale.needed_bytes().unwrap_or(table).min(table);
    let fits = needed.min(room);
    let (verdict, wanted) = match scale.line_bits_per_s {
        _ if now >= needed => (Verdict::Good, now),
        Some(_) if now < fits => (Verdict::Change, fits),
        Some(_) => (Verdict::Depends, needed),
        None if now < fits => (Verdict::Depends, fits),
        None => (Verdict::Good, now),
    };
    finding.why = format!("{}; {}", sysctl.why, reason(scale, needed, table));
    finding.verdict = verdict;
    // What all of TCP may not have takes another change first.
    let may_change = may_change && wanted <= room;
    if wanted < table {
        finding.source = finding.source.take().map(|source| format!("{source}, bounded by this machine"));
    }
    let wanted = with_last(&current, wanted);
    finding.remedy = (verdict != Verdict::Good && may_change).then(|| Remedy {
        apply: format!("sysctl -w {}='{wanted}'", sysctl.key),
        undo: format!("sysctl -w {}='{current}'", sysctl.key),
        by_apply: verdict == Verdict::Change,
    });
    finding.wanted = Some(wanted);
}

/// What the last number is judged by.
fn reason(scale: &Scale, needed: u64, table: u64) -> String {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let ms = scale.rtt.unwrap_or(BUFFER_RTT).as_secs_f64() * 1e3;
    let need = match scale.line_bits_per_s {
        None => format!(
            "no card says how fast its line is, so what it needs is not known: the {} are for 100 Gbit/s",
            mib(table)
        ),
        Some(line) => {
            let most = if needed == table { ", or the table's value if that is less" } else { "" };
            format!(
                "twice what the line's {} Gbit/s have under way in {ms:.1} ms are {}{most}",
                line as f64 / 1e9,
                mib(needed)
            )
        }
    };
    let may = match scale.room {
        None => "what all buffers of TCP may have cannot be seen".to_owned(),
        Some((bytes, whose)) if bytes < needed => format!(
            "all buffers of TCP together may have no more than {} ({whose}) before the kernel shrinks them: more needs a larger \
             net.ipv4.tcp_mem first",
            mib(bytes)
        ),
        Some((bytes, whose)) => format!("all buffers of TCP together may have {} ({whose})", mib(bytes)),
    };
    format!("{need}; {may}")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Subject;
    use super::super::wanted::SYSCTLS;
    use super::*;

    const GBIT: u64 = 1_000_000_000;
    const STOCK: &str = "4096 131072 6291456";

    fn weighed(current: &str, line: Option<u64>, rtt_ms: Option<u64>, room: Option<u64>) -> Finding {
        let sysctl = SYSCTLS.iter().find(|sysctl| sysctl.key == "net.ipv4.tcp_rmem").expect("it is there");
        let room = room.map(|bytes| (bytes, "the second number of net.ipv4.tcp_mem"));
        let scale = Scale { line_bits_per_s: line, rtt: rtt_ms.map(Duration::from_millis), room };
        let mut finding = Finding::told(Subject::Network, sysctl.key, current, sysctl.why);
        weigh(&mut finding, sysctl, &scale, true);
        finding
    }

    #[track_caller]
    fn assert_weighed(found: &Finding, verdict: Verdict, wanted: &str) {
        assert_eq!((found.verdict, found.wanted.as_deref()), (verdict, Some(wanted)), "{found:?}");
        let by_apply = found.remedy.as_ref().map(|remedy| remedy.by_apply);
        let expected = match verdict {
            Verdict::Change => Some(true),
            Verdict::Depends => Some(false),
            _ => None,
        };
        assert_eq!(by_apply, expected);
    }

    #[test]
    fn the_last_number_is_what_the_line_needs_and_the_others_stay() {
        let one = weighed(STOCK, Some(GBIT), None, None);
        // By hand: 12.5 MB are under way in 100 ms, twice that are 23.8 MiB.
        assert_weighed(&one, Verdict::Change, "4096 131072 25165824");
        assert!(one.why.contains("1 Gbit/s") && one.why.contains("100.0 ms are 24 MiB"), "{}", one.why);
        let fast = weighed(STOCK, Some(100 * GBIT), None, None);
        assert_weighed(&fast, Verdict::Change, "4096 131072 1073741824");
        assert_weighed(&weighed(STOCK, Some(GBIT), Some(10), None), Verdict::Good, STOCK);
        let larger = "4096 87380 2147483647";
        assert_weighed(&weighed(larger, Some(GBIT), None, None), Verdict::Good, larger);
    }

    #[test]
    fn where_the_line_is_not_known_larger_buffers_may_be_better_and_are_not_applied() {
        let unknown = weighed(STOCK, None, None, None);
        assert_weighed(&unknown, Verdict::Depends, "4096 131072 1073741824");
        assert!(unknown.why.contains("no card says how fast its line is"), "{}", unknown.why);
    }

    #[test]
    fn no_buffer_is_made_larger_than_all_of_tcp_may_have_and_that_is_said() {
        let room = Some(256 << 20);
        let small = weighed(STOCK, Some(100 * GBIT), None, room);
        assert_weighed(&small, Verdict::Change, "4096 131072 268435456");
        assert!(small.why.contains("no more than 256 MiB (the second number of"), "{}", small.why);
        let full = weighed("4096 131072 268435456", Some(100 * GBIT), None, room);
        let wanted = Some("4096 131072 1073741824");
        assert_eq!((full.verdict, full.wanted.as_deref()), (Verdict::Depends, wanted));
        assert_eq!(full.remedy, None, "nothing that --prove could try and --apply do");
        assert!(full.why.contains("a larger net.ipv4.tcp_mem first"), "{}", full.why);
        assert_weighed(&weighed(STOCK, None, None, room), Verdict::Depends, "4096 131072 268435456");
    }

    #[test]
    fn what_tcp_may_have_is_counted_in_this_machines_pages_and_else_by_its_memory() {
        let scratch = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = scratch.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let roots = Roots::below(scratch.path());
        assert_eq!(room(&roots), None);
        put("proc/meminfo", "MemTotal:       16777216 kB\n");
        assert_eq!(room(&roots).map(|(bytes, _)| bytes), Some(1 << 30));
        put("proc/sys/net/ipv4/tcp_mem", "100\t1000\t2000\n");
        assert_eq!(room(&roots).map(|(bytes, _)| bytes), Some(1000 * page_bytes()));
    }
}
