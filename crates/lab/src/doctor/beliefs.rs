//! The six widely held beliefs that 000 section III examines, with what this machine has to say to each.

use super::finding::{Belief, Holds};
use super::machine::{Machine, Virtualisation};
use super::measure::{DISK_TIME_MIN, IN_FLIGHT, Probes};
use super::roots::Roots;
use super::storage::shown;
use super::wanted::{LOSS_TYPICAL, RTTS_MS};
use super::{congestion, cpu, device};
use crate::testbed::presets::RATE_KEPT_BITS_PER_S;
use std::time::Duration;
use thalweg_mover::model::bit_error::bit_error_rate;
use thalweg_mover::model::window;
use thalweg_mover::plan::{Buffer, window_of_buffers};

/// Bytes of a frame for which 000 section III-B.1 turns loss into an error rate.
const FRAME_BYTES: f64 = 1500.0;

/// Share of stolen time from which the hypervisor's other guests are a limit.
const STOLEN_MAX: f64 = 0.01;

/// All six, in the paper's order.
pub fn all(roots: &Roots, machine: &Machine, probes: &Probes) -> Vec<Belief> {
    vec![
        belief("latency is the ultimate killer", "000 III-A", latency(roots, probes)),
        belief("packet loss and the choice of congestion control decide", "000 III-B", loss(roots)),
        belief("only a dedicated private line can show what is possible", "000 III-C", line(probes)),
        belief("more bandwidth makes transfers faster", "000 III-D", bandwidth(roots, probes)),
        belief("only powerful CPUs reach high rates", "000 III-E", processors(roots, machine, probes)),
        belief("virtual machines and clouds serve as well", "000 III-F", virtualisation(roots, machine)),
    ]
}

fn belief(belief: &'static str, source: &'static str, (holds, answer): (Holds, String)) -> Belief {
    Belief { belief, source, holds, answer }
}

fn latency(roots: &Roots, probes: &Probes) -> (Holds, String) {
    let largest = |key: &str| -> Result<u64, String> {
        let value = roots.sysctl_value(key)?;
        value
            .split(' ')
            .nth(2)
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| format!("{key} is `{value}`"))
    };
    let (receive, send) = match (largest("net.ipv4.tcp_rmem"), largest("net.ipv4.tcp_wmem")) {
        (Ok(receive), Ok(send)) => (receive, send),
        (Err(why), _) | (_, Err(why)) => return (Holds::Unknown, why),
    };
    let (window_bytes, binding) = window_of_buffers(receive, send);
    let buffer = match binding {
        Buffer::Receive => {
            format!("a receive buffer (net.ipv4.tcp_rmem) of up to {} MiB, half of it window", receive >> 20)
        }
        Buffer::Send => format!("a send buffer (net.ipv4.tcp_wmem) of up to {} MiB", send >> 20),
    };
    let window_bytes = window_bytes as f64;
    let measured = match &probes.way {
        Some(Ok(way)) if !way.rtt.is_zero() => Some(way),
        _ => None,
    };
    let rtts: Vec<Duration> = match measured {
        Some(way) => vec![way.rtt],
        None => RTTS_MS.iter().map(|&ms| Duration::from_millis(ms)).collect(),
    };
    let line = device::line_rate_bits_per_s(roots);
    let streams_for =
        |rtt_s: f64| line.and_then(|line| window::streams_needed(line as f64, rtt_s, window_bytes).ok());
    let each: Vec<String> = rtts
        .iter()
        .filter_map(|rtt| {
            let rtt_s = rtt.as_secs_f64();
            let rate = window::rate_bits_per_s(window_bytes, rtt_s).ok()?;
            let streams = match streams_for(rtt_s) {
                None => String::new(),
                Some(streams) if streams <= 1.0 => " (one stream fills the line)".to_owned(),
                Some(streams) => format!(" ({streams} streams fill the line)"),
            };
            Some(format!("{:.2} Gbit/s at {:.3} ms{streams}", rate / 1e9, rtt_s * 1e3))
        })
        .collect();
    let is_enough =
        rtts.iter().all(|rtt| streams_for(rtt.as_secs_f64()).is_some_and(|streams| streams <= 1.0));
    let advice = match is_enough {
        true => "The buffers are large enough",
        false => "More streams or larger buffers, not a shorter way",
    };
    let origin = match measured {
        Some(way) => format!("round trip time measured to {}", way.to),
        None => "computed for the round trip times of 000 Table IV; --to HOST:PORT measures one".into(),
    };
    let answer =
        format!("no: windows are. With {buffer} a stream carries {}; {origin}. {advice}", each.join(", "));
    (Holds::No, answer)
}

fn loss(roots: &Roots) -> (Holds, String) {
    let default = roots.sysctl_value(congestion::DEFAULT).unwrap_or_else(|_| "not seen".into());
    let resent = match congestion::resent(roots) {
        Ok(resent) => resent,
        Err(why) => return (Holds::Unknown, why),
    };
    let share = resent.share();
    // Of no loss the law has no answer: that is no error.
    let errors = bit_error_rate(share, FRAME_BYTES).unwrap_or(0.0);
    let rate = format!("{resent}; as a bit error rate that is {errors:.0e}. Congestion control is {default}");
    match share <= LOSS_TYPICAL {
        true => {
            (Holds::No, format!("no: {rate}. That is within what a good backbone loses ({LOSS_TYPICAL:.1e})"))
        }
        false => (
            Holds::Yes,
            format!(
                "{rate}. That is more than a good backbone loses ({LOSS_TYPICAL:.1e}): find the hop, before another algorithm"
            ),
        ),
    }
}

fn line(probes: &Probes) -> (Holds, String) {
    match &probes.testbed {
        Some(Ok(())) => {
            let kept_gbit = RATE_KEPT_BITS_PER_S as f64 / 1e9;
            let answer = format!(
                "no: `thalweg testbed up` emulates round trip times and losses of long lines between hosts on this machine, \
                 at rates that were measured up to {kept_gbit} Gbit/s. Of `--preset continental` it keeps the round trip \
                 time and not the 100 Gbit/s: no thread carries them. Tried were a network namespace and a socket to \
                 netfilter in it, no path; `thalweg testbed check` measures one"
            );
            (Holds::No, answer)
        }
        Some(Err(why)) => (Holds::Unknown, format!("no path can be emulated here: {why}")),
        None => (Holds::Unknown, "not tried".into()),
    }
}

fn bandwidth(roots: &Roots, probes: &Probes) -> (Holds, String) {
    let speeds = probes.disks.iter().filter_map(|(path, speed)| Some((path, speed.as_ref().ok()?)));
    let slowest = speeds.min_by(|a, b| a.1.write_bytes_per_s.total_cmp(&b.1.write_bytes_per_s));
    let Some((path, speed)) = slowest else {
        return (
            Holds::Unknown,
            "name a path that data are written to, so that its disk can be measured".into(),
        );
    };
    if speed.write_time < DISK_TIME_MIN {
        let why = format!("there is too little room at {} to measure its disk for long enough", shown(path));
        return (Holds::Unknown, why);
    }
    let gbit = |bytes_per_s: f64| bytes_per_s * 8.0 / 1e9;
    let disk = gbit(speed.write_bytes_per_s);
    let takes = format!(
        "{} takes {disk:.1} Gbit/s (measured with {IN_FLIGHT} requests in flight; {:.1} one at a time)",
        shown(path),
        gbit(speed.write_one_bytes_per_s)
    );
    match device::line_rate_bits_per_s(roots).map(|line| line as f64 / 1e9) {
        Some(line) if disk < line => (Holds::No, format!("no: {takes}, less than the line's {line:.1}")),
        Some(line) => (Holds::Yes, format!("here it would: {takes}, more than the line's {line:.1}")),
        None => (
            Holds::Unknown,
            format!("{takes}; a line above that brings nothing, and no card says how fast it is"),
        ),
    }
}

fn processors(roots: &Roots, machine: &Machine, probes: &Probes) -> (Holds, String) {
    let core = match &probes.core_bytes_per_s {
        Some(Ok(rate)) => rate * 8.0 / 1e9,
        Some(Err(why)) => return (Holds::Unknown, why.clone()),
        None => return (Holds::Unknown, "not measured".into()),
    };
    let all = core * machine.cpus.usable();
    let those = if machine.cpus.is_limited() { "" } else { " of them" };
    let measured = format!(
        "a core digests and seals {core:.1} Gbit/s (measured), {}{those} {all:.1} at best",
        machine.cpus
    );
    match device::line_rate_bits_per_s(roots).map(|line| line as f64 / 1e9) {
        Some(line) if all > line => (Holds::No, format!("no: {measured}, and the line has {line:.1}")),
        Some(line) => (Holds::Yes, format!("{measured}, and the line has {line:.1}")),
        None => (Holds::Unknown, format!("{measured}; no card says how fast its line is")),
    }
}

fn virtualisation(roots: &Roots, machine: &Machine) -> (Holds, String) {
    let hypervisor = match &machine.virtualisation {
        Virtualisation::Guest(hypervisor) => hypervisor,
        Virtualisation::Hardware => {
            return (Holds::Unknown, "this is no guest, so there is nothing to measure".into());
        }
        Virtualisation::Unseen(why) => {
            return (Holds::Unknown, format!("whether this is a guest cannot be seen: {why}"));
        }
    };
    match cpu::stolen_share(roots) {
        Err(why) => (Holds::Unknown, why),
        Ok(share) if share > STOLEN_MAX => (
            Holds::No,
            format!(
                "no: this is a guest of {hypervisor}, and {:.1} % of its time went to other guests since boot",
                share * 100.0
            ),
        ),
        Ok(share) => (
            Holds::Unknown,
            format!(
                "this is a guest of {hypervisor}; {:.2} % of its time went to others since boot, which is little; what its interrupts cost only the host can tell",
                share * 100.0
            ),
        ),
    }
}
