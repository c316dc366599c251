//! Local, file or stream? All laws on one question (003 section 5): which way is quickest, which holds the deadline
//! even in the tail, and what would have to change for another answer.
//!
//! 1. The stream is as slow as the slowest transfer that is known of. Files are never quicker, neither as expected nor
//!    at P99: the same bytes cross the same line.
//! 2. A deadline holds at P99 only. There is none of a few times, of a law that does not hold, or of one that was asked
//!    beyond its range.
//! 3. No time is shorter than the way of the last byte, half a round trip (003 Eq 1), where that is known.
//! 4. Ways are ranked by P99 where it is known of all of them, else all by what is expected. So are the files of
//!    several concurrencies, of which the best is judged.
//!
//! Judged besides time is whether the path keeps up with data that come again and again. Whether a machine does is not:
//! it may work on several units at once.

use super::completion::{BreakEven, Remote};
use super::congestion::{self, Starts, Unlike003};
use super::delay;
use super::fit::{Condition, Prediction};
use super::path::{self, Path};
use super::score::{self, Tier};
use super::{ModelError, Result, positive};
use serde::Serialize;

/// What is to be decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// S: bytes of a unit; positive.
    pub bytes: f64,
    /// Such a unit comes every so many seconds.
    pub period_s: Option<f64>,
    /// Bw: of the path, in bits a second.
    pub bandwidth_bits_per_s: f64,
    /// alpha: transfer efficiency.
    pub efficiency: f64,
    /// Whether alpha is no more than an upper bound. Then transfers take longer than is expected, and nothing is
    /// promised.
    pub is_efficiency_bound: bool,
    /// Round trip time of the path, in seconds. `None`: its distance is in no time of the answer.
    pub rtt_s: Option<f64>,
    /// What alpha comes from, with this bandwidth: of another it would be another share. `None`: it is the same of any.
    pub path: Option<Path>,
    /// T_local: seconds of the analysis here, if it can be done here.
    pub local_s: Option<f64>,
    /// T_remote: seconds of the analysis there; 0 if data are only moved.
    pub remote_s: f64,
    /// What files would cost, for each concurrency of which it is known.
    pub files: Vec<Files>,
    /// What is known of the slowest transfers.
    pub tail: Option<Tail>,
    /// Seconds within which a unit has to be done.
    pub deadline_s: Option<f64>,
}

/// What is known of files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Files {
    /// theta.
    Overhead(f64),
    /// Seconds from source to destination file, all overheads in it; from [`fit`](super::fit), with whether its law
    /// holds. Where that is broken it takes longer, and there is no P99.
    Timed(Prediction, Condition),
}

/// What is known of the slowest transfers of a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tail {
    /// P99 in seconds, as somebody knows it.
    Measured(f64),
    /// Measured times: with 95 % confidence P99 is no longer than one of them.
    BoundOf {
        /// So many were measured.
        count: usize,
        /// In seconds.
        p99_s: f64,
    },
    /// The longest of so few times that their P99 is not known ([`score::TIMES_FOR_P99`]).
    WorstOf {
        /// So many were measured.
        count: usize,
        /// In seconds.
        worst_s: f64,
    },
    /// Worst / ideal, as measured elsewhere: an upper bound of P99.
    Score(f64),
    /// Nothing: as in 003's bed at this load of what transfers get, alpha x Bw ([`congestion::stretch`]). Of a path
    /// that is not like that bed there is no P99 ([`Unlike003`]).
    Like003(Starts),
}

impl From<score::Tail> for Tail {
    fn from(times: score::Tail) -> Tail {
        match times.p99_bound_s {
            Some(p99_s) => Tail::BoundOf { count: times.count, p99_s },
            None => Tail::WorstOf { count: times.count, worst_s: times.max_s },
        }
    }
}

/// What there is to choose from. In this order where they are equally good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// Analyse here.
    Local,
    /// Send from memory to memory.
    Stream,
    /// Send files.
    File,
}

/// A way, with its times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WayTimes {
    /// Which.
    pub way: Choice,
    /// All of it, as expected.
    pub time_s: f64,
    /// Of that on the path.
    pub transfer_s: f64,
    /// Of that the way of the last byte, half a round trip; 0 if that is not known.
    pub distance_s: f64,
    /// Of that reading and writing files.
    pub io_s: f64,
    /// Of that analysis.
    pub analysis_s: f64,
    /// All of it, in 99 of 100 cases no longer; `None` if that is not known.
    pub p99_s: Option<f64>,
    /// All of it, with the slowest transfer that is known of: P99, or without it the longest that was measured, or as
    /// expected.
    pub slowest_s: f64,
    /// What it is good for, by the slowest.
    pub tier: Option<Tier>,
    /// Whether the path carries the data as they come.
    pub keeps_up: bool,
    /// Whether the deadline holds at P99; `None` without a deadline, or if P99 is not known and nothing that is exceeds
    /// it.
    pub holds: Option<bool>,
    /// Deadline less the slowest, in seconds; `None` also if it does not keep up.
    pub left_s: Option<f64>,
    /// The worst / ideal of a transfer at which the deadline still holds.
    pub score_allowed: Option<f64>,
    /// Where it begins to be quicker than local, and keeps up.
    pub to_beat_local: Option<BreakEven>,
    /// Where it begins to hold the deadline as expected, and keeps up.
    pub to_be_in_time: Option<BreakEven>,
}

/// Why the best is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ground {
    /// There is no deadline: it is the quickest at P99.
    Quickest,
    /// There is no deadline: it is the quickest as expected; of some way P99 is not known.
    QuickestAsExpected,
    /// It holds the deadline at P99.
    InTime,
    /// It holds the deadline as expected; P99 is not known.
    InTimeAsExpected,
    /// None holds the deadline: it is the nearest.
    TooLate,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// Share of the path that the data need; above 1 it is impossible.
    pub utilisation: Option<f64>,
    /// Why there is no P99 of [`Tail::Like003`]; `None` if there is, or the tail comes from elsewhere.
    pub unlike_003: Option<Unlike003>,
    /// The best way and why; `None` if none keeps up with the data.
    pub best: Option<(Choice, Ground)>,
    /// All ways that could be judged.
    pub ways: Vec<WayTimes>,
    /// Which of [`Question::files`] was judged: the best of them.
    #[serde(skip)]
    pub files: Option<usize>,
}

/// Answers.
///
/// # Errors
/// `OutOfRange` if a quantity makes no sense, or if the tail is to be taken from the load and no period is given.
pub fn advise(question: &Question) -> Result<Advice> {
    if let Some(deadline_s) = question.deadline_s {
        positive("deadline", deadline_s)?;
    }
    let load = |period_s| congestion::utilisation(question.bytes, period_s, question.bandwidth_bits_per_s);
    let utilisation = question.period_s.map(load).transpose()?;
    let mut ways = Vec::new();
    if let Some(local_s) = question.local_s {
        ways.push(local(question, local_s)?);
    }
    let stream = remote(question, 1.0);
    let keeps_up = utilisation.is_none_or(|load| path::carries(question.efficiency, load));
    let slowest = slowest_transfer(question, utilisation, stream.transfer_s()? + distance_s(question)?)?;
    let slowest_stream = slowest.followed_by(stream.remote_s()?);
    ways.push(timed(question, Choice::Stream, stream, slowest_stream, keeps_up, None)?);
    let in_files = |&files: &Files| with_files(question, files, slowest, keeps_up);
    let in_files = question.files.iter().map(in_files).collect::<Result<Vec<_>>>()?;
    let files = best(&in_files, question.deadline_s).map(|(at, _)| at);
    ways.extend(files.map(|at| in_files[at]));
    let able: Vec<WayTimes> = ways.iter().filter(|way| way.keeps_up).copied().collect();
    let best = best(&able, question.deadline_s).map(|(at, ground)| (able[at].way, ground));
    Ok(Advice { utilisation, unlike_003: slowest.unlike_003, best, ways, files })
}

fn local(question: &Question, local_s: f64) -> Result<WayTimes> {
    let time_s = positive("local time", local_s)?;
    Ok(WayTimes {
        way: Choice::Local,
        time_s,
        transfer_s: 0.0,
        distance_s: 0.0,
        io_s: 0.0,
        analysis_s: time_s,
        p99_s: Some(time_s),
        slowest_s: time_s,
        tier: Tier::of(time_s),
        keeps_up: true,
        holds: question.deadline_s.map(|deadline_s| time_s <= deadline_s),
        left_s: question.deadline_s.map(|deadline_s| deadline_s - time_s),
        score_allowed: None,
        to_beat_local: None,
        to_be_in_time: None,
    })
}

fn remote(question: &Question, io_overhead: f64) -> Remote {
    // Without a local machine the remote one is measured by itself; without analysis there is nothing to be quicker in.
    let (local_s, ratio) = match (question.local_s, question.remote_s) {
        (_, 0.0) => (0.0, 1.0),
        (Some(local_s), remote_s) => (local_s, local_s / remote_s),
        (None, remote_s) => (remote_s, 1.0),
    };
    Remote {
        bytes: question.bytes,
        bandwidth_bits_per_s: question.bandwidth_bits_per_s,
        efficiency: question.efficiency,
        io_overhead,
        local_s,
        ratio,
    }
}

/// Seconds of every byte's way to the far side; none where nobody knows how far that is.
fn distance_s(question: &Question) -> Result<f64> {
    question.rtt_s.map_or(Ok(0.0), delay::propagation_s)
}

fn with_files(question: &Question, files: Files, slowest: Slowest, keeps_up: bool) -> Result<WayTimes> {
    let (transfer_s, distance_s) = (remote(question, 1.0).transfer_s()?, distance_s(question)?);
    let overhead = match files {
        Files::Overhead(overhead) => overhead,
        // No file is quicker than the path: such measurements were of a wider one, and vary by the same share. Distance
        // is in what was measured.
        Files::Timed(prediction, _) => ((prediction.time_s - distance_s) / transfer_s).max(1.0),
    };
    let way = remote(question, overhead);
    let analysis_s = way.remote_s()?;
    let slowest = slowest.followed_by(way.io_s()? + analysis_s);
    let p99_s = match files {
        Files::Overhead(_) => slowest.p99_s,
        Files::Timed(_, Condition::Broken) => None,
        // Where nobody knows how slow a stream may be, nobody knows it of files: they cross the same line.
        Files::Timed(prediction, _) => slowest.p99_s.and_then(|least_s| {
            let spread = prediction.high_s? / prediction.time_s;
            Some((spread * (overhead * transfer_s + distance_s) + analysis_s).max(least_s))
        }),
    };
    let measured_s = match files {
        Files::Overhead(_) => None,
        Files::Timed(prediction, _) => Some(prediction.time_s),
    };
    timed(question, Choice::File, way, Slowest { p99_s, ..slowest }, keeps_up, measured_s)
}

/// `measured_s`: what files take whatever the path, because it was measured and not counted by theta.
fn timed(
    question: &Question,
    way: Choice,
    remote: Remote,
    slowest: Slowest,
    keeps_up: bool,
    measured_s: Option<f64>,
) -> Result<WayTimes> {
    let distance_s = distance_s(question)?;
    let time_s = remote.total_s()? + distance_s;
    let (transfer_s, io_s, analysis_s) = (remote.transfer_s()?, remote.io_s()?, remote.remote_s()?);
    let deadline = question.deadline_s;
    let p99_s = slowest.p99_s.filter(|_| keeps_up && !question.is_efficiency_bound);
    let slowest_s = p99_s.unwrap_or(slowest.known_s);
    let ideal_s = transfer_s * remote.efficiency;
    let even = |target_s| break_even(question, &remote, target_s, measured_s, keeps_up);
    let is_in_time = |deadline_s: f64| match slowest_s <= deadline_s {
        true => p99_s.map(|_| true),
        false => Some(false),
    };
    Ok(WayTimes {
        way,
        time_s,
        transfer_s,
        distance_s,
        io_s,
        analysis_s,
        p99_s,
        slowest_s,
        tier: Tier::of(slowest_s),
        keeps_up,
        holds: if keeps_up { deadline.and_then(is_in_time) } else { deadline.map(|_| false) },
        left_s: deadline.filter(|_| keeps_up).map(|deadline_s| deadline_s - slowest_s),
        score_allowed: deadline
            .map(|deadline_s| (deadline_s - distance_s - io_s - analysis_s) / ideal_s)
            .filter(|&score| score >= 1.0),
        to_beat_local: question.local_s.map(even).transpose()?,
        to_be_in_time: deadline.map(even).transpose()?,
    })
}

/// Where windows or loss bind, a wider line changes nothing but alpha. Nor is a path of any use to files that were
/// measured to take longer than the target by themselves; for others it need only carry the bytes in time. Of data that
/// come again and again it has to carry one unit before the next one comes, whatever the target is.
fn break_even(
    question: &Question,
    remote: &Remote,
    target_s: f64,
    measured_s: Option<f64>,
    keeps_up: bool,
) -> Result<BreakEven> {
    let after_distance_s = target_s - distance_s(question)?;
    if after_distance_s <= 0.0 {
        return Ok(BreakEven {
            efficiency: None,
            io_overhead: None,
            ratio: None,
            bandwidth_bits_per_s: None,
        });
    }
    let mut even = remote.break_even(after_distance_s)?;
    if let Some(measured_s) = measured_s {
        let bytes = Remote { io_overhead: 1.0, ..*remote }.break_even(after_distance_s)?;
        let is_reached = measured_s + remote.remote_s()? <= target_s;
        even.efficiency = bytes.efficiency.filter(|_| is_reached);
        even.bandwidth_bits_per_s = bytes.bandwidth_bits_per_s.filter(|_| is_reached);
    }
    if let Some(period_s) = question.period_s {
        let rate = super::volume::rate_bits_per_s(question.bytes, period_s)?;
        let least = rate / question.bandwidth_bits_per_s;
        even.efficiency = even.efficiency.map(|alpha| alpha.max(least)).filter(|&alpha| alpha <= 1.0);
        let enough = rate / remote.efficiency;
        even.bandwidth_bits_per_s = even.bandwidth_bits_per_s.map(|bandwidth| bandwidth.max(enough));
        // Neither of these makes a path keep up.
        even.io_overhead = even.io_overhead.filter(|_| keeps_up);
        even.ratio = even.ratio.filter(|_| keeps_up);
    }
    let Some(path) = question.path else { return Ok(even) };
    let rate = even.bandwidth_bits_per_s.map(|bandwidth| bandwidth * remote.efficiency);
    let rate = rate.filter(|rate| rate.is_finite());
    let bandwidth_bits_per_s = rate.map(|rate| path.bandwidth_for(rate)).transpose()?.flatten();
    Ok(BreakEven { bandwidth_bits_per_s, ..even })
}

/// The slowest that is known of, in seconds.
#[derive(Debug, Clone, Copy)]
struct Slowest {
    p99_s: Option<f64>,
    /// P99; without it the longest that was measured, or what is expected.
    known_s: f64,
    unlike_003: Option<Unlike003>,
}

impl Slowest {
    /// With what comes behind it and always takes the same.
    fn followed_by(self, more_s: f64) -> Slowest {
        Slowest { p99_s: self.p99_s.map(|p99_s| p99_s + more_s), known_s: self.known_s + more_s, ..self }
    }
}

/// Of a score the ideal is the line's own; of a load it is what transfers get of the line: there is no more for them to
/// wait for, so that a line of which they get half is as full at half of the data. Distance comes on top of both; in
/// measured times it is.
fn slowest_transfer(question: &Question, utilisation: Option<f64>, expected_s: f64) -> Result<Slowest> {
    let ideal_s = super::volume::time_s(question.bytes, question.bandwidth_bits_per_s)?;
    let distance_s = distance_s(question)?;
    let mut unlike_003 = None;
    let (slowest_s, is_p99) = match question.tail {
        None => (None, false),
        Some(Tail::Measured(p99_s) | Tail::BoundOf { p99_s, .. }) => (Some(positive("P99", p99_s)?), true),
        Some(Tail::WorstOf { worst_s, .. }) => (Some(positive("worst time", worst_s)?), false),
        Some(Tail::Score(score)) => {
            (Some(super::at_least_one("speed score", score)? * ideal_s + distance_s), true)
        }
        Some(Tail::Like003(starts)) => {
            let unknown = ModelError::OutOfRange { what: "period", value: f64::NAN, range: "known" };
            let (load, period_s) = utilisation.zip(question.period_s).ok_or(unknown)?;
            let load = load / question.efficiency;
            // All that transfers get, and no more.
            let load = if path::carries(1.0, load) { load.min(1.0) } else { load };
            let gets_s = ideal_s / question.efficiency;
            unlike_003 = congestion::unlike_003(period_s, question.rtt_s, load, starts);
            let stretch = congestion::stretch(load, starts)?.filter(|_| unlike_003.is_none());
            (stretch.map(|stretch| stretch * gets_s + distance_s), true)
        }
    };
    // What was measured elsewhere may be shorter than what this path makes expect.
    let slowest_s = slowest_s.map(|slowest_s| slowest_s.max(expected_s));
    let p99_s = slowest_s.filter(|_| is_p99);
    Ok(Slowest { p99_s, known_s: slowest_s.unwrap_or(expected_s), unlike_003 })
}

/// Which is the best, and why; `None` of none.
fn best(ways: &[WayTimes], deadline_s: Option<f64>) -> Option<(usize, Ground)> {
    let least = |time_s: &dyn Fn(&WayTimes) -> f64, accepts: &dyn Fn(&WayTimes) -> bool| {
        let accepted = (0..ways.len()).filter(|&at| accepts(&ways[at]));
        accepted.min_by(|&a, &b| time_s(&ways[a]).total_cmp(&time_s(&ways[b])))
    };
    let (slowest, expected) = (|way: &WayTimes| way.slowest_s, |way: &WayTimes| way.time_s);
    if deadline_s.is_none() {
        // The P99 of one beside what is expected of another tells nothing.
        return match ways.iter().all(|way| way.p99_s.is_some()) {
            true => least(&slowest, &|_| true).map(|at| (at, Ground::Quickest)),
            false => least(&expected, &|_| true).map(|at| (at, Ground::QuickestAsExpected)),
        };
    }
    let sure = least(&slowest, &|way| way.holds == Some(true)).map(|at| (at, Ground::InTime));
    let likely = || least(&expected, &|way| way.holds.is_none()).map(|at| (at, Ground::InTimeAsExpected));
    let nearest = || least(&slowest, &|_| true).map(|at| (at, Ground::TooLate));
    sure.or_else(likely).or_else(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use crate::model::loss::CongestionControl;
    use proptest::prelude::*;

    /// Data of a second over the path of 003, to be done in 10 s (tier 2).
    fn lcls(bytes: f64) -> Question {
        Question {
            bytes,
            period_s: Some(1.0),
            bandwidth_bits_per_s: 25e9,
            efficiency: 1.0,
            is_efficiency_bound: false,
            rtt_s: None,
            path: None,
            local_s: None,
            remote_s: 0.0,
            files: Vec::new(),
            tail: Some(Tail::Like003(Starts::Simultaneous)),
            deadline_s: Some(10.0),
        }
    }

    /// Files of one concurrency, measured.
    fn measured(time_s: f64, high_s: Option<f64>) -> Files {
        Files::Timed(Prediction { time_s, low_s: high_s.map(|_| 0.0), high_s }, Condition::Holds)
    }

    fn way(advice: &Advice, way: Choice) -> WayTimes {
        *advice.ways.iter().find(|times| times.way == way).unwrap()
    }

    /// 003 section 5: 64 %, 1.2 s, 8.8 s left; local wins only below 1.2 s.
    #[test]
    fn coherent_scattering_is_streamed() {
        let advice = advise(&lcls(2e9)).unwrap();
        assert!(is_near(advice.utilisation.unwrap(), 0.64, 1e-12));
        assert_eq!(advice.best, Some((Choice::Stream, Ground::InTime)));
        let stream = way(&advice, Choice::Stream);
        assert!(is_near(stream.p99_s.unwrap(), 1.2, 1e-9) && is_near(stream.left_s.unwrap(), 8.8, 1e-9));
        assert_eq!(stream.tier, Some(Tier::NearRealTime));
        for (local_s, best) in [(1.1, Choice::Local), (1.3, Choice::Stream)] {
            let advice = advise(&Question { local_s: Some(local_s), ..lcls(2e9) }).unwrap();
            assert_eq!(advice.best, Some((best, Ground::InTime)), "{local_s}");
        }
    }

    /// 003 section 5: 4 GB/s do not fit; 3 GB/s need 96 %, take 6 s and leave 4.
    #[test]
    fn liquid_scattering_is_impossible_until_it_is_reduced() {
        let advice = advise(&lcls(4e9)).unwrap();
        assert!(advice.utilisation.unwrap() > 1.0);
        assert_eq!(advice.best, None);
        let with_local = advise(&Question { local_s: Some(30.0), ..lcls(4e9) }).unwrap();
        assert_eq!(with_local.best, Some((Choice::Local, Ground::TooLate)), "limited by local power");
        let reduced = advise(&lcls(3e9)).unwrap();
        assert!(is_near(reduced.utilisation.unwrap(), 0.96, 1e-12));
        assert!(is_near(way(&reduced, Choice::Stream).left_s.unwrap(), 4.0, 1e-9));
    }

    /// 003 section 2.1: 1 MB at 1 kHz, a second of it: if the worst is 5 s, no feedback comes within a second, whatever
    /// the mean is.
    #[test]
    fn the_worst_decides_and_not_the_mean() {
        let advice = advise(&Question {
            bytes: 1e9,
            tail: Some(Tail::Measured(5.0)),
            deadline_s: Some(1.0),
            ..lcls(1e9)
        })
        .unwrap();
        let stream = way(&advice, Choice::Stream);
        assert!(stream.time_s < 1.0 && stream.holds == Some(false));
        assert_eq!(advice.best, Some((Choice::Stream, Ground::TooLate)));
        assert!(is_near(stream.score_allowed.unwrap(), 1.0 / 0.32, 1e-9));
    }

    /// 2 GB each 1.4 s are 46 % of 25 Gbit/s, but 91 % of the half that transfers get. By hand: 1.28 s, stretched by
    /// 1.875 x (6.25 / 1.875)^((0.9143 - 0.64) / 0.32) = 5.26 times.
    #[test]
    fn a_load_is_of_what_transfers_get_and_not_of_the_whole_line() {
        let half = Question { period_s: Some(1.4), efficiency: 0.5, deadline_s: Some(2.0), ..lcls(2e9) };
        let advice = advise(&half).unwrap();
        assert!(is_near(advice.utilisation.unwrap(), 0.4571, 1e-3));
        let stream = way(&advice, Choice::Stream);
        assert!(
            is_near(stream.time_s, 1.28, 1e-9) && is_near(stream.p99_s.unwrap(), 6.735, 1e-3),
            "{stream:?}"
        );
        assert_eq!(advice.best, Some((Choice::Stream, Ground::TooLate)));
        // A line of half the bandwidth, all of which they get, is the same to them.
        let narrow = Question { bandwidth_bits_per_s: 12.5e9, efficiency: 1.0, ..half.clone() };
        let narrow = way(&advise(&narrow).unwrap(), Choice::Stream);
        assert!(is_near(narrow.p99_s.unwrap(), stream.p99_s.unwrap(), 1e-9), "{narrow:?}");
        // All that they get, and no more.
        let full = Question { period_s: Some(1.29), ..half };
        assert!(way(&advise(&full).unwrap(), Choice::Stream).p99_s.unwrap() > 6.25 * 1.28);
    }

    #[test]
    fn an_unknown_tail_is_no_promise() {
        let advice = advise(&Question { tail: None, ..lcls(2e9) }).unwrap();
        assert_eq!(advice.best, Some((Choice::Stream, Ground::InTimeAsExpected)));
        assert_eq!(way(&advice, Choice::Stream).holds, None);
        assert!(advise(&Question { period_s: None, ..lcls(2e9) }).is_err(), "no load without a period");
    }

    #[test]
    fn files_cost_their_overhead_and_lose_to_a_stream() {
        let question = Question { files: vec![Files::Overhead(1.5)], ..lcls(2e9) };
        let advice = advise(&question).unwrap();
        let (file, stream) = (way(&advice, Choice::File), way(&advice, Choice::Stream));
        assert!(is_near(file.time_s, 1.5 * stream.time_s, 1e-12));
        assert!(is_near(file.p99_s.unwrap() - stream.p99_s.unwrap(), file.io_s, 1e-9));
        let slow = advise(&Question { files: vec![measured(2.0, Some(3.0))], ..question }).unwrap();
        assert!(is_near(way(&slow, Choice::File).time_s, 2.0, 1e-12));
        assert!(is_near(way(&slow, Choice::File).p99_s.unwrap(), 3.0, 1e-12));
        // Measured where the path was wider: no quicker than this one, with the same spread.
        let tail = Some(Tail::Measured(0.64));
        let wider = Question { files: vec![measured(0.1, Some(0.2))], tail, ..lcls(2e9) };
        let wider = way(&advise(&wider).unwrap(), Choice::File);
        assert!(is_near(wider.time_s, 0.64, 1e-12) && is_near(wider.p99_s.unwrap(), 1.28, 1e-12));
    }

    /// Files that were measured on an idle path, quicker than this one is when it is busy: the stream takes 1.2 s at
    /// P99.
    #[test]
    fn what_makes_a_stream_late_makes_files_late_too() {
        let busy = Question { deadline_s: Some(1.0), ..lcls(2e9) };
        for (files, p99_s) in [(measured(0.3, Some(0.35)), Some(1.2)), (measured(0.3, None), None)] {
            let advice = advise(&Question { files: vec![files], ..busy.clone() }).unwrap();
            let file = way(&advice, Choice::File);
            assert_eq!((file.p99_s.is_some(), file.holds), (p99_s.is_some(), Some(false)), "{file:?}");
            assert!(is_near(file.slowest_s, 1.2, 1e-9), "{file:?}");
            assert_eq!(advice.best, Some((Choice::Stream, Ground::TooLate)));
        }
        // The longest of a few is known to take so long.
        let few = Tail::WorstOf { count: 3, worst_s: 1.1 };
        let few = Question { tail: Some(few), files: vec![measured(0.3, Some(0.35))], ..busy };
        assert_eq!(advise(&few).unwrap().best, Some((Choice::Stream, Ground::TooLate)));
    }

    /// Of a hundred times P99 is likelier longer than their last but one than not; of 299 their longest is no shorter,
    /// with 95 % confidence.
    #[test]
    fn the_worst_of_a_few_times_is_no_p99() {
        let times: Vec<f64> = (1..=299).map(|at| 2.0 + f64::from(at) / 299.0).collect();
        let of = |times: &[f64], deadline_s| {
            let tail = Some(Tail::from(score::tail(times).unwrap()));
            advise(&Question { tail, deadline_s: Some(deadline_s), ..lcls(2e9) }).unwrap()
        };
        let enough = of(&times, 3.0);
        assert_eq!(enough.best, Some((Choice::Stream, Ground::InTime)));
        assert!(is_near(way(&enough, Choice::Stream).p99_s.unwrap(), 3.0, 1e-12));
        let best = of(&times, 2.995).best;
        assert_eq!(best, Some((Choice::Stream, Ground::TooLate)), "99 of 100 are not enough");
        let few = of(&times[1..], 3.0);
        assert_eq!(few.best, Some((Choice::Stream, Ground::InTimeAsExpected)));
        let stream = way(&few, Choice::Stream);
        assert!(stream.p99_s.is_none() && is_near(stream.slowest_s, 3.0, 1e-12), "{stream:?}");
        assert_eq!(of(&times[1..], 2.9).best, Some((Choice::Stream, Ground::TooLate)), "one took longer");
    }

    #[test]
    fn a_broken_law_gives_no_p99() {
        let of = |condition| {
            let prediction = Prediction { time_s: 1.0, low_s: Some(0.9), high_s: Some(1.1) };
            let files = vec![Files::Timed(prediction, condition)];
            let tail = Some(Tail::Measured(0.7));
            way(&advise(&Question { files, tail, ..lcls(2e9) }).unwrap(), Choice::File)
        };
        let file = of(Condition::Broken);
        assert_eq!((file.p99_s, file.holds), (None, None));
        for condition in [Condition::Holds, Condition::Unknown] {
            let file = of(condition);
            assert!(is_near(file.p99_s.unwrap(), 1.1, 1e-12), "{file:?}");
            assert_eq!(file.holds, Some(true));
        }
    }

    #[test]
    fn where_alpha_is_an_upper_bound_nothing_is_promised() {
        let bound = Question { is_efficiency_bound: true, local_s: Some(20.0), ..lcls(2e9) };
        let advice = advise(&bound).unwrap();
        assert_eq!(advice.best, Some((Choice::Stream, Ground::InTimeAsExpected)));
        assert_eq!(way(&advice, Choice::Stream).p99_s, None);
        let advice = advise(&Question { local_s: Some(5.0), ..bound }).unwrap();
        assert_eq!(advice.best, Some((Choice::Local, Ground::InTime)), "what is done here holds");
    }

    /// The stream takes 0.64 s, 1.2 s at P99; of files only the 0.64 s are known.
    #[test]
    fn a_p99_is_not_ranked_beside_an_expectation() {
        let question = Question { deadline_s: None, files: vec![measured(0.3, None)], ..lcls(2e9) };
        assert_eq!(advise(&question).unwrap().best, Some((Choice::Stream, Ground::QuickestAsExpected)));
        let known = Question { files: vec![measured(0.3, Some(0.35))], local_s: Some(1.1), ..question };
        assert_eq!(advise(&known).unwrap().best, Some((Choice::Local, Ground::Quickest)));
    }

    #[test]
    fn of_several_concurrencies_the_one_that_holds_the_deadline_is_advised() {
        let (varying, steady, unknown) =
            (measured(10.0, Some(30.0)), measured(10.5, Some(12.0)), measured(9.0, None));
        let of = |files: &[Files], deadline_s| {
            let tail = Some(Tail::Measured(1.0));
            let advice = advise(&Question { files: files.to_vec(), tail, deadline_s, ..lcls(2e9) });
            let advice = advice.unwrap();
            assert_eq!(advice.ways.len(), 2, "the best alone is judged: {advice:?}");
            (advice.files, way(&advice, Choice::File).holds)
        };
        assert_eq!(of(&[varying, steady], Some(15.0)), (Some(1), Some(true)));
        assert_eq!(of(&[unknown, varying, steady], Some(15.0)), (Some(2), Some(true)));
        assert_eq!(of(&[unknown, varying, steady], Some(11.0)), (Some(0), None), "none is sure to");
        assert_eq!(of(&[varying, steady], None), (Some(1), None));
        assert_eq!(of(&[unknown, varying, steady], None), (Some(0), None));
    }

    /// 1 MB over 25 Gbit/s is sent in 0.32 ms, and its last byte is under way for 50 ms.
    #[test]
    fn nothing_is_there_before_light_is() {
        let far = Question { period_s: Some(0.001), rtt_s: Some(0.1), deadline_s: Some(0.01), ..lcls(1e6) };
        for tail in [None, Some(Tail::Score(1.0)), Some(Tail::Measured(0.001)), far.tail] {
            let files = vec![Files::Overhead(1.0)];
            let advice = advise(&Question { tail, files, local_s: Some(0.02), ..far.clone() }).unwrap();
            assert_eq!(advice.best.map(|(_, ground)| ground), Some(Ground::TooLate), "{advice:?}");
            for way in &advice.ways[1..] {
                assert!([way.time_s, way.slowest_s].iter().all(|&time_s| is_near(time_s, 0.05032, 1e-9)));
                assert_eq!((way.distance_s, way.holds, way.score_allowed), (0.05, Some(false), None));
                for even in [way.to_beat_local, way.to_be_in_time].map(Option::unwrap) {
                    let paths = (even.efficiency, even.bandwidth_bits_per_s, even.io_overhead);
                    assert_eq!(paths, (None, None, None));
                }
            }
        }
        // What is left of 60 ms after the distance are 10 ms: 0.8 Gbit/s, and 1 MB each second takes less.
        let near = Question { period_s: Some(1.0), deadline_s: Some(0.06), ..far };
        let stream = way(&advise(&near).unwrap(), Choice::Stream);
        let even = stream.to_be_in_time.unwrap();
        assert!(is_near(even.bandwidth_bits_per_s.unwrap(), 0.8e9, 1e-9), "{even:?}");
        // Files that were measured had their distance in the time, and are no quicker than light either.
        for (measured_s, time_s) in [(0.2, 0.2), (0.01, 0.05032)] {
            let files = vec![measured(measured_s, None)];
            let file = way(&advise(&Question { files, ..near.clone() }).unwrap(), Choice::File);
            assert!(is_near(file.time_s, time_s, 1e-9), "{file:?}");
        }
    }

    /// 003's bursts came each second over 16 ms: 1.2 s there say nothing of 0.32 ms in each millisecond.
    #[test]
    fn a_path_that_is_not_like_the_bed_of_003_has_no_p99_of_it() {
        let of = |question: &Question| {
            let advice = advise(question).unwrap();
            let stream = way(&advice, Choice::Stream);
            (advice.unlike_003, stream.p99_s.is_some(), stream.holds)
        };
        assert_eq!(of(&Question { rtt_s: Some(0.016), ..lcls(2e9) }), (None, true, Some(true)));
        let often = Question { period_s: Some(0.001), ..lcls(1e6) };
        assert_eq!(of(&often), (Some(Unlike003::Period), false, None));
        assert_eq!(advise(&often).unwrap().best, Some((Choice::Stream, Ground::InTimeAsExpected)));
        let far = Question { rtt_s: Some(0.1), ..lcls(2e9) };
        assert_eq!(of(&far), (Some(Unlike003::RoundTrip), false, None));
        // What is known otherwise needs no bed.
        assert_eq!(of(&Question { tail: Some(Tail::Score(2.0)), ..far }), (None, true, Some(true)));
        // Slots of 1.25 times 0.96 s are longer than the second in which the next one begins.
        let slots = |bytes| Question { tail: Some(Tail::Like003(Starts::Scheduled)), ..lcls(bytes) };
        assert_eq!(of(&slots(2e9)), (None, true, Some(true)));
        assert_eq!(of(&slots(3e9)), (Some(Unlike003::Slots), false, None));
    }

    /// The same over a path that alpha comes from.
    fn over(path: Path, question: &Question) -> Question {
        let bandwidth_bits_per_s = path.bandwidth_bits_per_s;
        let efficiency = path.carried().unwrap().rate_bits_per_s / bandwidth_bits_per_s;
        Question { bandwidth_bits_per_s, efficiency, path: Some(path), ..question.clone() }
    }

    fn path(window_bytes: Option<f64>, loss: f64, streams: f64) -> Path {
        Path {
            bandwidth_bits_per_s: 25e9,
            rtt_s: Some(0.016),
            window_bytes,
            loss,
            control: CongestionControl::Cubic,
            segment_bytes: 1448.0,
            streams,
        }
    }

    /// A window of 64 KiB carries 33 Mbit/s over 16 ms, and a loss of 1 % leaves less, whatever the line.
    #[test]
    fn where_windows_or_loss_bind_no_bandwidth_is_advised() {
        let question = Question { period_s: None, tail: None, local_s: Some(5.0), ..lcls(2e9) };
        let evens = |path| {
            let stream = way(&advise(&over(path, &question)).unwrap(), Choice::Stream);
            [stream.to_beat_local, stream.to_be_in_time].map(|even| even.unwrap().bandwidth_bits_per_s)
        };
        assert_eq!(evens(path(Some(65536.0), 0.0, 1.0)), [None, None]);
        assert_eq!(evens(path(None, 1e-2, 1.0)), [None, None]);
        let [local, in_time] = evens(path(Some(65536.0), 0.0, 600.0));
        assert!(is_near(local.unwrap(), 3.2e9, 1e-9) && is_near(in_time.unwrap(), 1.6e9, 1e-9));
    }

    /// The stream takes 0.64 s. Files that take 2 s wherever they go are in time within 4 s over a path of any width
    /// that carries the bytes in 4 s, and within 1 s over none.
    #[test]
    fn no_path_is_advised_to_files_that_were_measured_to_take_too_long() {
        let even = |deadline_s| {
            let files = vec![measured(2.0, Some(2.1))];
            let (period_s, tail) = (None, None);
            let question = Question { files, deadline_s: Some(deadline_s), period_s, tail, ..lcls(2e9) };
            way(&advise(&question).unwrap(), Choice::File).to_be_in_time.unwrap()
        };
        let late = even(1.0);
        assert_eq!((late.efficiency, late.bandwidth_bits_per_s), (None, None));
        assert!(is_near(late.io_overhead.unwrap(), 1.0 / 0.64, 1e-9));
        let in_time = even(4.0);
        assert!(is_near(in_time.efficiency.unwrap(), 0.16, 1e-9));
        assert!(is_near(in_time.bandwidth_bits_per_s.unwrap(), 4e9, 1e-9));
    }

    proptest! {
        #[test]
        fn with_an_advised_bandwidth_the_target_is_met_whatever_binds(
            gb in 0.1..30.0, window in 1e4..1e9, loss in 1e-7..1e-2, streams in 1.0..64.0, binds in 0..4,
            local_s in 0.1..20.0, deadline_s in 0.1..60.0, overhead in 1.0..5.0,
            is_measured in any::<bool>()
        ) {
            let files = if is_measured { measured(4.0 * overhead, None) } else { Files::Overhead(overhead) };
            let (period_s, tail, files) = (None, None, vec![files]);
            let (local_s, deadline_s) = (Some(local_s), Some(deadline_s));
            let question = Question { period_s, tail, files, local_s, deadline_s, ..lcls(gb * 1e9) };
            let loss = if binds & 2 != 0 { loss } else { 0.0 };
            let path = path((binds & 1 != 0).then_some(window), loss, streams);
            for one in advise(&over(path, &question)).unwrap().ways {
                for (even, target_s) in [(one.to_beat_local, local_s), (one.to_be_in_time, deadline_s)] {
                    let Some(bandwidth_bits_per_s) = even.and_then(|even| even.bandwidth_bits_per_s) else {
                        continue;
                    };
                    let wider = over(Path { bandwidth_bits_per_s, ..path }, &question);
                    let time_s = way(&advise(&wider).unwrap(), one.way).time_s;
                    prop_assert!(time_s <= target_s.unwrap() * (1.0 + 1e-6), "{} {:?}", time_s, target_s);
                }
            }
        }

        #[test]
        fn with_an_advised_value_the_path_keeps_up_and_the_target_is_met(
            gb in 0.1..10.0, period_s in 0.1..10.0, rtt_s in 0.0..0.3, efficiency in 0.05..1.0, local_s in 0.1..20.0,
            remote_s in 0.01..5.0, deadline_s in 0.1..60.0, overhead in 1.0..3.0
        ) {
            let (period_s, rtt_s, tail) = (Some(period_s), Some(rtt_s), None);
            let files = vec![Files::Overhead(overhead)];
            let (local_s, deadline_s) = (Some(local_s), Some(deadline_s));
            let question = Question {
                period_s, rtt_s, tail, efficiency, files, local_s, remote_s, deadline_s, ..lcls(gb * 1e9)
            };
            for one in advise(&question).unwrap().ways {
                for (even, target_s) in [(one.to_beat_local, local_s), (one.to_be_in_time, deadline_s)] {
                    let Some(even) = even else { continue };
                    let alpha = even.efficiency.map(|efficiency| Question { efficiency, ..question.clone() });
                    let wide = even.bandwidth_bits_per_s;
                    let wide = wide.map(|bandwidth_bits_per_s| Question { bandwidth_bits_per_s, ..question.clone() });
                    let theta = even.io_overhead.map(|overhead| {
                        Question { files: vec![Files::Overhead(overhead)], ..question.clone() }
                    });
                    let is_file = one.way == Choice::File;
                    for again in alpha.into_iter().chain(wide).chain(theta.filter(|_| is_file)) {
                        let again = way(&advise(&again).unwrap(), one.way);
                        prop_assert!(again.keeps_up, "{:?}", again);
                        let target_s = target_s.unwrap();
                        prop_assert!(again.time_s <= target_s * (1.0 + 1e-6), "{:?} {}", again, target_s);
                    }
                }
            }
        }

        #[test]
        fn a_later_deadline_never_stops_holding(
            gb in 0.1..3.0, local_s in 0.1..50.0, remote_s in 0.0..20.0, deadline_s in 0.1..60.0, later in 1.0..10.0,
            overhead in 1.0..5.0
        ) {
            let question = Question {
                local_s: Some(local_s), remote_s, files: vec![Files::Overhead(overhead)], deadline_s: Some(deadline_s),
                ..lcls(gb * 1e9)
            };
            let soon = advise(&question).unwrap();
            let late = advise(&Question { deadline_s: Some(deadline_s * later), ..question }).unwrap();
            let holds = |advice: &Advice| advice.best.is_some_and(|(_, ground)| ground == Ground::InTime);
            prop_assert!(!holds(&soon) || holds(&late));
            for way in &soon.ways {
                prop_assert!(way.p99_s.is_none_or(|p99_s| p99_s >= way.time_s * (1.0 - 1e-12)));
                let parts_s = way.transfer_s + way.distance_s + way.io_s + way.analysis_s;
                prop_assert!(is_near(parts_s, way.time_s, 1e-9));
            }
        }

        #[test]
        fn files_are_never_surer_than_a_stream(
            gb in 0.1..3.2, time_s in 0.01..20.0, spread in 1.0..3.0, score in 1.0..30.0, remote_s in 0.0..5.0
        ) {
            let few = Tail::WorstOf { count: 3, worst_s: score };
            let known = [Tail::Like003(Starts::Simultaneous), Tail::Score(score), Tail::Measured(score), few];
            for tail in known.map(Some).into_iter().chain([None]) {
                let files = vec![measured(time_s, Some(time_s * spread)), Files::Overhead(spread)];
                for files in files {
                    let question = Question { files: vec![files], tail, remote_s, ..lcls(gb * 1e9) };
                    let advice = advise(&question).unwrap();
                    let (file, stream) = (way(&advice, Choice::File), way(&advice, Choice::Stream));
                    prop_assert_eq!(file.p99_s.is_some(), stream.p99_s.is_some());
                    for (file_s, stream_s) in file.p99_s.into_iter().zip(stream.p99_s).chain([
                        (file.time_s, stream.time_s), (file.slowest_s, stream.slowest_s)
                    ]) {
                        prop_assert!(file_s >= stream_s * (1.0 - 1e-12));
                    }
                }
            }
        }
    }
}
