//! What becomes of small packets: lost, passed by later ones, twice; and of how many that can be told.

use super::ends::{End, PATIENCE, SMALL_BYTES, SMALL_PACKET_BYTES, port, while_reading};
use super::{Line, Part};
use crate::testbed::wire::Path;
use std::io;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Result, of_io};

/// Small packets of which the lost ones are counted, at most.
pub(super) const COUNTED_PACKETS: f64 = 20_000.0;
/// Of these so many a second at most: a slow machine's wire keeps up with them.
const COUNTED_PACKETS_PER_S: f64 = 10_000.0;
/// The counting takes no longer.
const COUNTING_TIME: Duration = Duration::from_secs(4);
/// A packet is late for sure where so many follow it before it comes: threads that send and read wait for each other.
const LATE_BY_PACKETS: f64 = 3.0;
/// Packets of which rare losses are counted, and how many a second. Of a loss of 1e-5 four are hit in each direction.
const RARE_PACKETS: f64 = 400_000.0;
const RARE_PACKETS_PER_S: f64 = 20_000.0;
const RARE_COUNTING_TIME: Duration = Duration::from_secs(30);

/// How packets are counted.
pub(super) struct Load {
    pub(super) part: Part,
    packets: f64,
    per_s: f64,
    time: Duration,
}

pub(super) const COUNTED: Load =
    Load { part: Part::Packets, packets: COUNTED_PACKETS, per_s: COUNTED_PACKETS_PER_S, time: COUNTING_TIME };

pub(super) const RARE: Load = Load {
    part: Part::RarePackets,
    packets: RARE_PACKETS,
    per_s: RARE_PACKETS_PER_S,
    time: RARE_COUNTING_TIME,
};

/// What became of small packets.
#[derive(Debug, Default)]
pub(super) struct Counted {
    sent: u64,
    per_s: f64,
    lost: u64,
    passed_by_later: u64,
    twice: u64,
}

/// How many small packets are sent in a second: half of the line at most, so that its queue drops none.
pub(super) fn packets_per_s(path: &Path, load: &Load) -> f64 {
    let bits = (SMALL_PACKET_BYTES + u64::from(path.framing_bytes)) as f64 * 8.0;
    path.rate_bits_per_s.map_or(f64::MAX, |rate| rate as f64 / bits / 2.0).min(load.per_s)
}

/// Whether each late one of so many packets a second is passed for sure: at least [`LATE_BY_PACKETS`] follow before it
/// comes.
pub(super) fn is_passed(path: &Path, per_s: f64) -> bool {
    path.late_by_ns as f64 / 1e9 * per_s >= LATE_BY_PACKETS
}

/// After the last packet, for all to come, late ones too.
fn rest(path: &Path, rtt: Duration) -> Duration {
    let late_by = if path.reorder > 0.0 { Duration::from_nanos(path.late_by_ns) } else { Duration::ZERO };
    rtt + late_by + PATIENCE
}

pub(super) fn count(from: &End, to: &End, path: &Path, rtt: Duration, load: &Load) -> Result<Counted> {
    let failed = |error: io::Error| of_io("count lost packets", &error);
    let (sends, receives) = (from.udp()?, to.udp()?);
    let target = to.at(port(&receives)?);
    let per_s = packets_per_s(path, load);
    let sent = (per_s * load.time.as_secs_f64()).min(load.packets) as u64;
    let mut times = vec![0u8; sent as usize];
    let (mut highest, mut passed_by_later) = (0, 0);
    while_reading(
        || {
            let mut bytes = [0; SMALL_BYTES];
            receives.recv(&mut bytes)?;
            let number = u64::from_be_bytes(bytes[..8].try_into().unwrap_or_default());
            if let Some(times) = times.get_mut(number as usize) {
                *times = times.saturating_add(1);
                passed_by_later += u64::from(number < highest && *times == 1);
                highest = highest.max(number);
            }
            Ok(())
        },
        || {
            let begun = Instant::now();
            for number in 0..sent {
                let due = Duration::from_secs_f64(number as f64 / per_s);
                // A millisecond's worth at a time: sleeps are no finer.
                if let Some(left) = due.checked_sub(begun.elapsed() + Duration::from_millis(1)) {
                    std::thread::sleep(left);
                }
                let mut bytes = [0; SMALL_BYTES];
                bytes[..8].copy_from_slice(&number.to_be_bytes());
                sends.send_to(&bytes, target).map_err(failed)?;
            }
            std::thread::sleep(rest(path, rtt));
            Ok(())
        },
    )?;
    let lost = times.iter().filter(|times| **times == 0).count() as u64;
    let twice = times.iter().filter(|times| **times > 1).count() as u64;
    Ok(Counted { sent, per_s, lost, passed_by_later, twice })
}

impl Counted {
    pub(super) fn lines(&self, direction: &str, path: &Path) -> Vec<Line> {
        let line = |what: &str, share: f64, measured: u64| Line {
            what: format!("{direction}: {what}"),
            expected: self.sent as f64 * share,
            measured: measured as f64,
            tolerance: binomial_tolerance(self.sent, share),
            draws: Some(self.sent),
            unit: "packets",
            note: format!("of {}", self.sent),
        };
        let mut lines = vec![line(LOST, path.loss, self.lost)];
        if path.duplicate > 0.0 {
            lines.push(line(TWICE, path.duplicate * (1.0 - path.loss), self.twice));
        }
        if path.reorder > 0.0 && is_passed(path, self.per_s) {
            lines.push(line(LATE, path.reorder * (1.0 - path.loss), self.passed_by_later));
        }
        lines
    }

    /// That late packets may come before the next one, in words; nothing where that is not so.
    pub(super) fn not_passed(&self, direction: &str, path: &Path) -> Option<String> {
        let is_so = path.reorder > 0.0 && !is_passed(path, self.per_s);
        is_so.then(|| {
            format!(
                "{direction}: {LATE}: packets are late by {:?}, and the next one leaves {:.3} ms later; \
                 `set --late-by {}ms` first",
                Duration::from_nanos(path.late_by_ns),
                1e3 / self.per_s,
                (LATE_BY_PACKETS * 1e3 / self.per_s).ceil()
            )
        })
    }
}

/// What becomes of packets, at the end of [`Line::what`].
pub const LOST: &str = "lost";
/// See [`LOST`].
pub const TWICE: &str = "came twice";
/// See [`LOST`].
pub const LATE: &str = "passed by later ones";

/// Four standard deviations of a binomial distribution: outside of it once in 16,000 times; and one packet, since
/// few hits are not distributed normally.
pub fn binomial_tolerance(draws: u64, share: f64) -> f64 {
    4.0 * (draws as f64 * share * (1.0 - share)).sqrt() + 1.0
}

/// Whether none at all would be within the tolerance of so rare a thing.
pub(super) fn is_too_few(draws: u64, share: f64) -> bool {
    binomial_tolerance(draws, share) >= draws as f64 * share
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::check::parts_of;
    use crate::testbed::spec::Paths;

    #[test]
    fn a_loss_that_cannot_be_told_from_none_is_said_not_to_be_measured() {
        let said = |loss: f64, sent: u64| -> Vec<String> {
            let path = Path { loss, ..Path::default() };
            let counted = Counted { sent, ..Counted::default() };
            counted.lines("forward", &path).iter().filter_map(Line::too_few).collect()
        };
        let told = said(1e-5, RARE_PACKETS as u64);
        assert!(
            told[0].starts_with("forward: lost: ") && told[0].contains("4.0 packets are expected"),
            "{told:?}"
        );
        assert!(said(1e-4, RARE_PACKETS as u64).is_empty(), "40, give or take 26");
        assert!(said(0.0, RARE_PACKETS as u64).is_empty(), "none are asked for");
    }

    #[test]
    fn packets_that_no_later_one_passes_for_sure_are_said_not_to_be_counted() {
        // A line of 1 Mbit/s has one each 1.57 ms, half as many as it carries.
        let slow = Path { rate_bits_per_s: Some(1_000_000), reorder: 0.01, ..Path::default() };
        let per_s = packets_per_s(&slow, &COUNTED);
        assert!((1e3 / per_s - 1.568).abs() < 1e-9, "{per_s}");
        let counted = Counted { sent: 2550, per_s, ..Counted::default() };
        let is_counted =
            |path: &Path| counted.lines("forward", path).iter().any(|line| line.what.ends_with(LATE));
        let told = counted.not_passed("forward", &slow).unwrap();
        assert!(!is_counted(&slow) && told.ends_with("`set --late-by 5ms` first"), "{told}");
        let later = Path { late_by_ns: 5_000_000, ..slow.clone() };
        assert!(is_counted(&later) && counted.not_passed("forward", &later).is_none());
        // More packets are no help there, and are where they are close enough.
        let parts = |path: Path| parts_of(&Paths { forward: path, ..Paths::default() });
        assert!(parts(Path { reorder: 1e-4, ..slow }).contains(&Part::Packets));
        assert!(parts(Path { reorder: 1e-4, ..Path::default() }).contains(&Part::RarePackets));
    }

    #[test]
    fn late_packets_are_waited_for() {
        let path = Path { reorder: 0.01, late_by_ns: 2_000_000_000, ..Path::default() };
        let rtt = Duration::from_millis(10);
        assert_eq!(rest(&path, rtt), rtt + PATIENCE + Duration::from_secs(2));
        assert_eq!(rest(&Path { reorder: 0.0, ..path }, rtt), rtt + PATIENCE);
    }

    #[test]
    fn of_rare_losses_enough_packets_are_counted_over_three_runs_to_tell_them_from_none() {
        let draws = 2 * 3 * RARE_PACKETS as u64;
        let expected = draws as f64 * 1e-5;
        assert!(expected > binomial_tolerance(draws, 1e-5), "{expected}");
        assert!(RARE_PACKETS / RARE_PACKETS_PER_S <= RARE_COUNTING_TIME.as_secs_f64());
    }
}
