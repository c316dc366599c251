//! What `ping` of iputils prints, as Linux has it: a line for each answer, and a summary.
//!
//! - Smallest, mean and largest round trip, and what was sent and lost, are those of the summary; `ping -q` suffices.
//! - The lines of answers are the distribution, as ping rounds them: from 100 ms on to a millisecond. Answers that came
//!   twice are counted, and not in it.
//! - Lines of what did not come, and all before the first `PING`, are passed over.
//!
//! Not taken: what other pings print (BSD, macOS, busybox, Windows), which have other summaries.

use super::{Gathered, MIN_RTT, NotImported, Origin, ROUND_TRIP, RUNS_MAX, named, too_many_runs};
use crate::bench::record::{LeftOut, Machine, Quantity, Results, Sample};
use thalweg_mover::failure::counted;

/// How the first line of a run begins.
const BEGINS: &str = "PING ";

/// What was expected in lines that are read.
const SUMMARY: &str = "`--- HOST ping statistics ---` was expected, once in a run";
const COUNTS: &str =
    "`N packets transmitted, N received, N% packet loss, time Nms` was expected, as iputils writes it";
const RTTS: &str = "`rtt min/avg/max/mdev = N/N/N/N ms` was expected, with numbers that rise";
const ANSWER: &str = "`time=N ms` was expected";

/// A name of a host is no longer (RFC 1035).
const HOST_BYTES_MAX: usize = 255;

/// No number of ping is longer.
const NUMBER_BYTES_MAX: usize = 20;

/// Whether it may be what a ping printed.
pub fn is_of(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(BEGINS))
}

/// Reads what one or several runs printed, one behind the other. Those that ended without a summary, or without an
/// answer, are left out. `moment` writes seconds since 1970 as RFC 3339; a run says when it began only with `-D`.
///
/// # Errors
/// If one is not as ping of iputils writes it: the line, and what was expected; if there are too many runs or values;
/// or nothing was measured.
pub fn read(text: &str, moment: impl Fn(i64) -> String) -> Result<Results, NotImported> {
    let odd = |place: String, why: &str| {
        NotImported(format!("this is no result of ping (iputils): {place}: {why}"))
    };
    let mut runs: Vec<Run> = Vec::new();
    for (number, line) in (1u64..).zip(text.lines()) {
        if let Some(header) = line.strip_prefix(BEGINS) {
            if runs.len() == RUNS_MAX {
                return Err(too_many_runs());
            }
            runs.push(Run { packet_bytes: packet_bytes(header), ..Run::default() });
        } else if let Some(run) = runs.last_mut() {
            run.take(line).map_err(|why| odd(format!("line {number}"), why))?;
        }
    }
    let (mut gathered, mut left_out) = (Gathered::default(), Vec::new());
    for (number, run) in (1..).zip(&runs) {
        if run.has_too_many_answers() {
            return Err(odd(format!("run {number}"), "it has more answers than its summary counts"));
        }
        match run.sample(number).and_then(|sample| sample.check().map(|()| sample)) {
            Ok(sample) => gathered.push(sample)?,
            Err(why) => left_out.push(LeftOut { what: format!("run {number}"), why }),
        }
    }
    let samples = gathered.samples;
    if samples.is_empty() {
        let why = left_out.first().map_or("it is empty", |line: &LeftOut| line.why.as_str());
        return Err(NotImported(format!("ping measured nothing: {why}")));
    }
    let origin = Origin {
        suite: "ping",
        question: "imported from ping",
        program: "ping (iputils)".to_owned(),
        date: moment(runs.iter().find_map(|run| run.began).unwrap_or(0)),
        machine: Machine::default(),
        to: named(samples.iter().filter_map(|sample| sample.parameters.get("host")?.word()), "hosts"),
    };
    Ok(origin.results(samples, left_out))
}

/// What is known of a run, line by line.
#[derive(Default)]
struct Run {
    /// What a packet carries.
    packet_bytes: Option<u64>,
    /// Seconds since 1970, of its first line that has them.
    began: Option<i64>,
    /// Of each answer but those that came twice, in the order in which they came.
    trips_s: Vec<f64>,
    /// Where its summary begins.
    host: Option<String>,
    counts: Option<Counts>,
    /// Smallest, mean, largest, deviation.
    rtts_s: Option<[f64; 4]>,
}

/// The line of the summary that counts.
struct Counts {
    sent: u64,
    received: u64,
    twice: u64,
    time_s: f64,
}

impl Run {
    /// One more line.
    ///
    /// # Errors
    /// What was expected instead.
    fn take(&mut self, line: &str) -> Result<(), &'static str> {
        let (time, line) = timed(line);
        self.began = self.began.or(time);
        if let Some(rest) = line.strip_prefix("--- ") {
            let host = rest.strip_suffix(" ping statistics ---").filter(|host| is_host(host));
            let host = host.filter(|_| self.host.is_none()).ok_or(SUMMARY)?;
            self.host = Some(host.to_owned());
        } else if self.host.is_some() && self.counts.is_none() {
            self.counts = Some(counts(line).ok_or(COUNTS)?);
        } else if self.host.is_some() && line.starts_with("rtt ") {
            self.rtts_s = Some(rtts_s(line).ok_or(RTTS)?);
        } else if self.host.is_none()
            && let Some(trip_s) = answer_s(line)?
        {
            self.trips_s.push(trip_s);
        }
        Ok(())
    }

    fn has_too_many_answers(&self) -> bool {
        self.counts.as_ref().is_some_and(|counts| self.trips_s.len() as u64 > counts.received)
    }

    /// # Errors
    /// Why there is nothing to tell of it.
    fn sample(&self, number: u32) -> Result<Sample, String> {
        let (Some(host), Some(counts)) = (&self.host, &self.counts) else {
            return Err("it has no summary: it was cut off".to_owned());
        };
        if counts.received == 0 {
            return Err(format!("no answer came to {}", counted(counts.sent, "packet", "packets")));
        }
        let Some([least_s, mean_s, most_s, deviation_s]) = self.rtts_s else {
            return Err("it has no round trip times: packets of fewer than 16 bytes carry none".to_owned());
        };
        let lost = (counts.sent - counts.received) as f64;
        // Of a single packet it says no time.
        let wall_s = counts.time_s.max(most_s);
        let mut sample =
            Sample { series: "ping, round trips".to_owned(), run: number, wall_s, ..Sample::default() }
                .with("host", host.as_str().into())
                .measured(MIN_RTT, least_s, "s")
                .measured("mean_rtt", mean_s, "s")
                .measured("max_rtt", most_s, "s")
                .measured("rtt_deviation", deviation_s, "s")
                .measured("packets_sent", counts.sent as f64, "1")
                .measured("packets_lost", lost, "1")
                .measured("packets_twice", counts.twice as f64, "1")
                .measured("share_lost", lost / counts.sent as f64, "1");
        if let Some(bytes) = self.packet_bytes {
            sample = sample.with("packet_size", Quantity::number(bytes as f64, "B"));
        }
        // Of `ping -q` there are none.
        if self.trips_s.is_empty() {
            return Ok(sample);
        }
        Ok(sample.distributed(ROUND_TRIP, "s", self.trips_s.clone()))
    }
}

/// Seconds since 1970 before a line (`-D`), and the line without.
fn timed(line: &str) -> (Option<i64>, &str) {
    let split = || {
        let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let (seconds, _) = time.split_once('.')?;
        Some((i64::try_from(whole(seconds)?).ok()?, rest))
    };
    match split() {
        Some((seconds, rest)) => (Some(seconds), rest),
        None => (None, line),
    }
}

/// What a packet carries, of a first line: `56(84) bytes of data.`, of IPv6 `56 data bytes`.
fn packet_bytes(header: &str) -> Option<u64> {
    let header = header.trim_end();
    let before = [" bytes of data.", " data bytes"].iter().find_map(|end| header.strip_suffix(end))?;
    whole(before.rsplit(' ').next()?.split('(').next()?)
}

/// The round trip that a line tells; nothing of one that tells none, or of an answer that came twice.
///
/// # Errors
/// If it is the line of an answer whose time is none.
fn answer_s(line: &str) -> Result<Option<f64>, &'static str> {
    let Some((bytes, rest)) = line.split_once(" bytes from ") else { return Ok(None) };
    let Some((_, time)) = rest.rsplit_once(" time=").filter(|_| whole(bytes).is_some()) else {
        return Ok(None);
    };
    let (time, behind) = time.split_once(" ms").ok_or(ANSWER)?;
    let trip_s = in_s(time).ok_or(ANSWER)?;
    Ok(Some(trip_s).filter(|_| !behind.contains("(DUP!)")))
}

/// `4 packets transmitted, 3 received, +1 duplicates, +1 errors, 25% packet loss, time 3004ms`
fn counts(line: &str) -> Option<Counts> {
    let mut parts = line.trim_end().split(", ");
    let sent = whole(parts.next()?.strip_suffix(" packets transmitted")?)?;
    let received = whole(parts.next()?.strip_suffix(" received")?)?;
    let (mut twice, mut has_share, mut time_s) = (0, false, None);
    for part in parts {
        if let Some((count, what)) = part.strip_prefix('+').and_then(|part| part.split_once(' ')) {
            let count = whole(count)?;
            match what {
                "duplicates" => twice = count,
                "corrupted" | "errors" => {}
                _ => return None,
            }
        } else if let Some(share) = part.strip_suffix("% packet loss") {
            // Written as C writes numbers: also `1e-05`. What was lost is counted.
            has_share = (0.0..=100.0).contains(&share.parse::<f64>().ok()?);
        } else {
            time_s = Some(in_s(part.strip_prefix("time ")?.strip_suffix("ms")?)?);
        }
    }
    let is_whole = has_share && sent > 0 && received <= sent;
    Some(Counts { sent, received, twice, time_s: time_s? }).filter(|_| is_whole)
}

/// `rtt min/avg/max/mdev = 99.812/101.203/104.411/1.750 ms`, and more behind it.
fn rtts_s(line: &str) -> Option<[f64; 4]> {
    let (numbers, behind) = line.strip_prefix("rtt min/avg/max/mdev = ")?.split_once(" ms")?;
    let mut each = numbers.split('/');
    let mut next_s = || in_s(each.next()?);
    let rtts_s = [next_s()?, next_s()?, next_s()?, next_s()?];
    let is_whole = each.next().is_none() && (behind.trim_end().is_empty() || behind.starts_with(", "));
    let rises = rtts_s[0] <= rtts_s[1] && rtts_s[1] <= rtts_s[2];
    (is_whole && rises).then_some(rtts_s)
}

fn is_host(text: &str) -> bool {
    (1..=HOST_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Milliseconds as ping writes them, in seconds.
fn in_s(text: &str) -> Option<f64> {
    let is_number = text.len() <= NUMBER_BYTES_MAX && text.bytes().all(|byte| b".0123456789".contains(&byte));
    let ms: f64 = is_number.then(|| text.parse().ok())??;
    Some(ms / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: &str = include_str!("ping.txt");

    fn of(text: &str) -> Result<Results, NotImported> {
        read(text, |seconds| seconds.to_string())
    }

    fn why(text: &str) -> String {
        of(text).unwrap_err().to_string()
    }

    #[test]
    fn a_run_has_the_numbers_of_its_summary_and_the_round_trips_of_its_lines() {
        let results = of(FAR).unwrap();
        let sample = &results.samples[0];
        let measured = |name: &str| sample.measured[name].value().unwrap();
        let in_ms = |name: &str| (measured(name) * 1e6).round() / 1e3;
        assert_eq!(
            ["min_rtt", "mean_rtt", "max_rtt", "rtt_deviation"].map(in_ms),
            [99.812, 101.203, 104.411, 1.75]
        );
        let counts = ["packets_sent", "packets_lost", "packets_twice", "share_lost"].map(measured);
        assert_eq!(counts, [4.0, 1.0, 1.0, 0.25]);
        let trips_ms =
            sample.distributions["round_trip"].values.iter().map(|trip_s| (trip_s * 1e4).round() / 10.0);
        assert_eq!(trips_ms.collect::<Vec<_>>(), [99.8, 100.0, 101.0], "not the one that came twice");
        assert_eq!((sample.parameter("packet_size"), sample.parameter("rtt")), (Some(56.0), Some(0.1)));
        assert_eq!((sample.wall_s, results.about.date.as_str()), (3.004, "0"));
        assert_eq!(results.about.path.to_string(), "to far.example.org, 100 ms");
    }

    #[test]
    fn quiet_runs_those_of_ipv6_and_those_with_times_are_read_and_what_told_nothing_is_left_out() {
        let quiet = "PING ::1(::1) 56 data bytes\n\n--- ::1 ping statistics ---\n1 packets transmitted, 1 received, \
                     0% packet loss, time 0ms\nrtt min/avg/max/mdev = 0.045/0.045/0.045/0.000 ms\n";
        let timed = FAR.replace("\n64 bytes", "\n[1795315185.654321] 64 bytes");
        let cut = FAR.split("\n---").next().unwrap();
        let lost = "PING 192.0.2.9 (192.0.2.9) 8(36) bytes of data.\n\n--- 192.0.2.9 ping statistics ---\n\
                    100000 packets transmitted, 99999 received, 0.001% packet loss, time 9ms\n";
        let none = lost.replace("99999 received, 0.001%", "0 received, +3 errors, 100%") + "pipe 3\n";
        let results = of(&["$ ping -q ::1\n", quiet, &timed, cut, "\n", lost, &none].concat()).unwrap();
        let runs: Vec<u32> = results.samples.iter().map(|sample| sample.run).collect();
        assert_eq!((runs, results.about.date.as_str()), (vec![1, 2], "1795315185"));
        let quiet = &results.samples[0];
        assert_eq!((quiet.wall_s, quiet.distributions.len()), (0.045 / 1e3, 0));
        assert_eq!(results.samples[1].distributions["round_trip"].values.len(), 3);
        let left_out: Vec<String> =
            results.left_out.iter().map(|line| format!("{}: {}", line.what, line.why)).collect();
        assert_eq!(
            left_out,
            [
                "run 3: it has no summary: it was cut off",
                "run 4: it has no round trip times: packets of fewer than 16 bytes carry none",
                "run 5: no answer came to 100000 packets",
            ]
        );
        assert_eq!(why(&none), "ping measured nothing: no answer came to 100000 packets");
        assert_eq!(why(cut), "ping measured nothing: it has no summary: it was cut off");
    }

    #[test]
    fn what_ping_of_iputils_does_not_write_is_refused_with_its_line() {
        let long = format!("--- {} ping", "a".repeat(HOST_BYTES_MAX + 1));
        for (from, to, place, expected) in [
            // Other pings.
            ("3 received", "3 packets received", "line 9", COUNTS),
            ("rtt min/avg/max/mdev", "rtt min/avg/max", "line 10", RTTS),
            // Numbers that are none, or cannot be.
            ("time=99.8 ms", "time=inf ms", "line 2", ANSWER),
            ("time=99.8 ms", "time=-1 ms", "line 2", ANSWER),
            ("time=99.8 ms", "time=99,8 ms", "line 2", ANSWER),
            ("time=99.8 ms", "time=99.8 us", "line 2", ANSWER),
            ("time=99.8 ms", "time=123456789012345678901 ms", "line 2", ANSWER),
            ("4 packets", "18446744073709551616 packets", "line 9", COUNTS),
            ("4 packets", "+4 packets", "line 9", COUNTS),
            ("4 packets", "2 packets", "line 9", COUNTS),
            ("25%", "NaN%", "line 9", COUNTS),
            ("+1 errors", "+1 wonders", "line 9", COUNTS),
            ("time 3004ms", "time 3s", "line 9", COUNTS),
            (", time 3004ms", "", "line 9", COUNTS),
            ("99.812/", "999.812/", "line 10", RTTS),
            ("1.750 ms", "1.750/1 ms", "line 10", RTTS),
            // Names that are none.
            ("--- far.example.org ping", "---  ping", "line 8", SUMMARY),
            ("--- far.example.org ping", "--- \u{1b}[2J ping", "line 8", SUMMARY),
            ("--- far.example.org ping", long.as_str(), "line 8", SUMMARY),
            ("rtt min", "--- far.example.org ping statistics ---\nrtt min", "line 10", SUMMARY),
            ("3 received", "2 received", "run 1", "it has more answers than its summary counts"),
        ] {
            assert!(FAR.contains(from), "{from}");
            let told = why(&FAR.replacen(from, to, 1));
            assert_eq!(told, format!("this is no result of ping (iputils): {place}: {expected}"), "{to}");
        }
        for empty in ["", "64 bytes from 192.0.2.7: icmp_seq=1 ttl=57 time=1.00 ms\n"] {
            assert_eq!(why(empty), "ping measured nothing: it is empty");
        }
    }
}
