//! How well the path keeps what was asked, measured by ordinary sockets in the first hosts of both sides. Other
//! traffic on the path disturbs it.

use super::daemon::{Request, Status};
use super::registry::Registry;
use super::spec::Paths;
use super::wire::Path;
use packets::{COUNTED, COUNTED_PACKETS, RARE, count, is_passed, is_too_few, packets_per_s};
use rate::{STREAMS, rate_line, tcp_rate};
use round_trip::{ECHOES, SPREAD_ECHOES, SPREAD_TIME, rtt_line, spread_line, unless_lost};
use serde::Serialize;
use std::time::Duration;
use thalweg_mover::failure::Result;

/// Hosts, sockets and small packets, for all of them.
mod ends;

/// Round trip time and jitter.
mod round_trip;

/// Loss, order and copies.
mod packets;

/// Rate.
mod rate;

/// Bursts, and small packets beside streams.
mod load;

pub(super) use ends::End;
pub use load::{rate_of_bursts, round_trip_beside};
pub use packets::{LATE, LOST, TWICE, binomial_tolerance};
pub use rate::{RATE_TIME, Streams, rate_of_one_stream, rate_of_streams};
pub(super) use round_trip::round_trips;

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Accuracy {
    /// One for each thing measured.
    pub lines: Vec<Line>,
    /// What could not be measured on this path, and why.
    pub not_measured: Vec<String>,
    /// What the wire used meanwhile, in CPU-seconds for each 10^9 bytes carried; of small packets alone it says
    /// nothing.
    pub wire_cpu_seconds_per_gb: f64,
}

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// What was measured.
    pub what: String,
    /// What it should be, in [`Line::unit`].
    pub expected: f64,
    /// What it is.
    pub measured: f64,
    /// How far apart they may be.
    pub tolerance: f64,
    /// Of what is counted: so many could have been hit.
    pub draws: Option<u64>,
    /// `ms`, `packets`, `Mbit/s`.
    pub unit: &'static str,
    /// In words: of how many, or why nothing was to be expected.
    pub note: String,
}

impl Line {
    /// Whether it is as it should be.
    pub fn is_within(&self) -> bool {
        (self.measured - self.expected).abs() <= self.tolerance
    }

    /// That none at all would be as it should be too, in words; nothing where that is not so.
    fn too_few(&self) -> Option<String> {
        let is_so = self.draws.is_some() && self.expected > 0.0 && self.tolerance >= self.expected;
        is_so.then(|| {
            format!(
                "{}: whether it is so rare, or never: {:.1} {} are expected, give or take {:.1}; `thalweg bench path` counts \
                 more",
                self.what, self.expected, self.unit, self.tolerance
            )
        })
    }
}

/// A thing that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Round trip time of small packets.
    RoundTrip,
    /// Of small packets those lost, passed by later ones, and twice, in both directions.
    Packets,
    /// The same of twenty times as many, for what is rare: some 20 s for each direction.
    RarePackets,
    /// How far round trip times of small packets are spread, where there is jitter.
    Spread,
    /// Payload of TCP in both directions, where nothing is lost on purpose.
    Rate,
}

/// Measures round trip time, jitter, loss, order, copies and rate.
///
/// # Errors
/// `NotFound` if no such testbed is up; what the kernel says.
pub fn measure(registry: &Registry, name: &str) -> Result<Accuracy> {
    let paths = registry.ask(name, &Request::Status)?.spec.paths;
    measure_parts(registry, name, &parts_of(&paths))
}

/// What there is to measure of these: what is rare among more packets, which takes longer.
fn parts_of(paths: &Paths) -> [Part; 4] {
    let is_rare = |path: &Path| {
        let is_few = |share: f64| share > 0.0 && is_too_few(COUNTED_PACKETS as u64, share);
        let late = if is_passed(path, packets_per_s(path, &RARE)) { path.reorder } else { 0.0 };
        [path.loss, late, path.duplicate].into_iter().any(is_few)
    };
    let packets = match is_rare(&paths.forward) || is_rare(&paths.back) {
        true => Part::RarePackets,
        false => Part::Packets,
    };
    [Part::RoundTrip, Part::Spread, packets, Part::Rate]
}

/// The same of some of these.
///
/// # Errors
/// As [`measure`].
pub fn measure_parts(registry: &Registry, name: &str, parts: &[Part]) -> Result<Accuracy> {
    let record = registry.running(name)?;
    let (left, right) = (End::of(&record, "left")?, End::of(&record, "right")?);
    let before = registry.ask(name, &Request::Status)?;
    let (paths, mtu_bytes) = (&before.spec.paths, before.spec.mtu_bytes);
    let rtt = Duration::from_nanos(paths.rtt_ns());
    let (mut lines, mut not_measured) = (Vec::new(), Vec::new());
    if parts.contains(&Part::RoundTrip) {
        let measure = || round_trips(&left, &right, rtt, ECHOES);
        if let Some(seen) = unless_lost("round trip time", paths, &mut not_measured, measure)? {
            lines.push(rtt_line(&paths.forward, &paths.back, seen[seen.len() / 2]));
        }
    }
    if parts.contains(&Part::Spread) && paths.forward.jitter_ns + paths.back.jitter_ns > 0 {
        let echoes = (SPREAD_TIME.as_secs_f64() / rtt.as_secs_f64().max(1e-3)) as u32;
        let echoes = echoes.clamp(*SPREAD_ECHOES.start(), *SPREAD_ECHOES.end());
        let measure = || round_trips(&left, &right, rtt, echoes as usize);
        if let Some(seen) = unless_lost("jitter", paths, &mut not_measured, measure)? {
            lines.push(spread_line(&paths.forward, &paths.back, &seen));
        }
    }
    for (direction, path, from, to) in
        [("forward", &paths.forward, &left, &right), ("back", &paths.back, &right, &left)]
    {
        for load in [COUNTED, RARE].iter().filter(|load| parts.contains(&load.part)) {
            let counted = count(from, to, path, rtt, load)?;
            let of_packets = counted.lines(direction, path);
            not_measured.extend(of_packets.iter().filter_map(Line::too_few));
            not_measured.extend(counted.not_passed(direction, path));
            lines.extend(of_packets);
        }
        match path.rate_bits_per_s.filter(|_| parts.contains(&Part::Rate)) {
            Some(_) if path.loss > 0.0 => not_measured.push(format!(
                "{direction}: rate: where packets are lost, TCP's says more of TCP than of the line; `set --loss 0` first"
            )),
            Some(_) if paths.forward.loss.max(paths.back.loss) >= 1.0 => not_measured
                .push(format!("{direction}: rate: no acknowledgement can come back; `set --loss 0` first")),
            Some(rate) => {
                let measured = tcp_rate(from, to, rtt, &STREAMS, RATE_TIME)?;
                lines.push(rate_line(direction, rate as f64, path.framing_bytes, mtu_bytes, measured));
            }
            None => {}
        }
    }
    let after = registry.ask(name, &Request::Status)?;
    let cpu_seconds = after.cpu_seconds - before.cpu_seconds;
    let wire_cpu_seconds_per_gb = cpu_seconds / ((carried(&after) - carried(&before)).max(1) as f64 / 1e9);
    lines.push(Line {
        what: "lost by the wire itself".into(),
        expected: 0.0,
        measured: (trouble(&after) - trouble(&before)) as f64,
        tolerance: 0.0,
        draws: None,
        unit: "packets",
        note: "anything but 0: this machine was too slow".into(),
    });
    Ok(Accuracy { lines, not_measured, wire_cpu_seconds_per_gb })
}

fn carried(status: &Status) -> u64 {
    status.forward.counters.bytes + status.back.counters.bytes
}

fn trouble(status: &Status) -> u64 {
    status.forward.trouble + status.back.trouble
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rare_is_counted_among_more_packets_and_jitter_is_measured() {
        let parts = |path: Path| parts_of(&Paths { forward: path, ..Paths::default() });
        let lossy = |loss| parts(Path { loss, ..Path::default() });
        assert!(parts(Path::default()).contains(&Part::Spread));
        assert!(lossy(0.0).contains(&Part::Packets) && lossy(1e-2).contains(&Part::Packets));
        assert!(lossy(1e-5).contains(&Part::RarePackets) && lossy(5e-4).contains(&Part::RarePackets));
        assert!(parts(Path { duplicate: 1e-4, ..Path::default() }).contains(&Part::RarePackets));
    }
}
