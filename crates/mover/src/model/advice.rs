//! Local, file or stream? All laws on one question (003 section 5): which way is quickest, which holds the deadline
//! even in the tail, and what would have to change for another answer.
//!
//! Judged besides time is whether the path keeps up with data that come again and again. Whether a machine does is not:
//! it may work on several units at once.

use super::completion::{BreakEven, Remote};
use super::congestion::{self, Starts};
use super::fit::Prediction;
use super::score::Tier;
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
    /// T_local: seconds of the analysis here, if it can be done here.
    pub local_s: Option<f64>,
    /// T_remote: seconds of the analysis there; 0 if data are only moved.
    pub remote_s: f64,
    /// What files would cost, if known.
    pub files: Option<Files>,
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
    /// Seconds from source to destination file, all overheads in it; from [`fit`](super::fit).
    Timed(Prediction),
}

/// What is known of the slowest transfers of a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tail {
    /// P99 in seconds, as measured.
    Measured(f64),
    /// Worst / ideal, as measured elsewhere: an upper bound of P99.
    Score(f64),
    /// Nothing: as in 003's bed at this load of what transfers get, alpha x Bw ([`congestion::stretch`]).
    Like003(Starts),
}

/// A way to do it. In this order where they are equally good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
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
    pub way: Way,
    /// All of it, as expected.
    pub time_s: f64,
    /// Of that on the path.
    pub transfer_s: f64,
    /// Of that reading and writing files.
    pub io_s: f64,
    /// Of that analysis.
    pub analysis_s: f64,
    /// All of it, in 99 of 100 cases no longer; `None` if nothing is known of the tail.
    pub p99_s: Option<f64>,
    /// What it is good for, by P99 if that is known.
    pub tier: Option<Tier>,
    /// Whether the path carries the data as they come.
    pub keeps_up: bool,
    /// Whether the deadline holds at P99; `None` without a deadline, or if it holds as expected and the tail is unknown.
    pub holds: Option<bool>,
    /// Deadline less time (P99 if known), in seconds; `None` also if it does not keep up.
    pub left_s: Option<f64>,
    /// The worst / ideal of a transfer at which the deadline still holds.
    pub score_allowed: Option<f64>,
    /// Where it begins to be quicker than local.
    pub to_beat_local: Option<BreakEven>,
    /// Where it begins to hold the deadline, as expected.
    pub to_be_in_time: Option<BreakEven>,
}

/// Why the best is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ground {
    /// There is no deadline: it is the quickest.
    Quickest,
    /// It holds the deadline at P99.
    InTime,
    /// It holds the deadline as expected; of the tail nothing is known.
    InTimeAsExpected,
    /// None holds the deadline: it is the nearest.
    TooLate,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// Share of the path that the data need; above 1 it is impossible.
    pub utilisation: Option<f64>,
    /// The best way and why; `None` if none keeps up with the data.
    pub best: Option<(Way, Ground)>,
    /// All ways that could be judged.
    pub ways: Vec<WayTimes>,
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
    let transfer_s = stream.transfer_s()?;
    let worst_s =
        question.tail.map(|tail| worst_transfer_s(question, tail, utilisation)).transpose()?.flatten();
    // A worst that was measured elsewhere may be shorter than what this path makes expect.
    let worst_s = worst_s.map(|worst_s| worst_s.max(transfer_s));
    let keeps_up = utilisation.is_none_or(|load| load <= question.efficiency);
    let analysis_s = stream.remote_s()?;
    let streamed =
        timed(question, Way::Stream, stream, worst_s.map(|worst_s| worst_s + analysis_s), keeps_up)?;
    ways.push(streamed);
    if let Some(files) = question.files {
        let (overhead, p99_s) = match files {
            Files::Overhead(overhead) => {
                let io_s = remote(question, overhead).io_s()?;
                (overhead, worst_s.map(|worst_s| worst_s + io_s + analysis_s))
            }
            Files::Timed(prediction) => {
                // No file is quicker than the path: such measurements were of a wider one, and vary by the same share.
                let overhead = (prediction.time_s / transfer_s).max(1.0);
                let spread = prediction.high_s.map(|high_s| high_s / prediction.time_s);
                (overhead, spread.map(|spread| spread * overhead * transfer_s + analysis_s))
            }
        };
        ways.push(timed(question, Way::File, remote(question, overhead), p99_s, keeps_up)?);
    }
    Ok(Advice { utilisation, best: best(&ways, question.deadline_s), ways })
}

fn local(question: &Question, local_s: f64) -> Result<WayTimes> {
    let time_s = positive("local time", local_s)?;
    Ok(WayTimes {
        way: Way::Local,
        time_s,
        transfer_s: 0.0,
        io_s: 0.0,
        analysis_s: time_s,
        p99_s: Some(time_s),
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

fn timed(
    question: &Question,
    way: Way,
    remote: Remote,
    p99_s: Option<f64>,
    keeps_up: bool,
) -> Result<WayTimes> {
    let time_s = remote.total_s()?;
    let (transfer_s, io_s, analysis_s) = (remote.transfer_s()?, remote.io_s()?, remote.remote_s()?);
    let deadline = question.deadline_s;
    let surely_s = p99_s.unwrap_or(time_s);
    let ideal_s = transfer_s * remote.efficiency;
    let is_in_time = |deadline_s: f64| match p99_s {
        Some(p99_s) => Some(p99_s <= deadline_s),
        None if time_s > deadline_s => Some(false),
        None => None,
    };
    Ok(WayTimes {
        way,
        time_s,
        transfer_s,
        io_s,
        analysis_s,
        p99_s,
        tier: Tier::of(surely_s),
        keeps_up,
        holds: if keeps_up { deadline.and_then(is_in_time) } else { deadline.map(|_| false) },
        left_s: deadline.filter(|_| keeps_up).map(|deadline_s| deadline_s - surely_s),
        score_allowed: deadline
            .map(|deadline_s| (deadline_s - io_s - analysis_s) / ideal_s)
            .filter(|&score| score >= 1.0),
        to_beat_local: question.local_s.map(|local_s| remote.break_even(local_s)).transpose()?,
        to_be_in_time: deadline.map(|deadline_s| remote.break_even(deadline_s)).transpose()?,
    })
}

/// Of a score the ideal is the line's own; of a load it is what transfers get of the line: there is no more for them to wait
/// for, so that a line of which they get half is as full at half of the data.
fn worst_transfer_s(question: &Question, tail: Tail, utilisation: Option<f64>) -> Result<Option<f64>> {
    let ideal_s = super::volume::time_s(question.bytes, question.bandwidth_bits_per_s)?;
    Ok(match tail {
        Tail::Measured(p99_s) => Some(positive("P99", p99_s)?),
        Tail::Score(score) => Some(super::at_least_one("speed score", score)? * ideal_s),
        Tail::Like003(starts) => {
            let unknown = ModelError::OutOfRange { what: "period", value: f64::NAN, range: "known" };
            let load = utilisation.ok_or(unknown)? / question.efficiency;
            let gets_s = ideal_s / question.efficiency;
            congestion::stretch(load, starts)?.map(|stretch| stretch * gets_s)
        }
    })
}

fn best(ways: &[WayTimes], deadline_s: Option<f64>) -> Option<(Way, Ground)> {
    let surely_s = |way: &WayTimes| way.p99_s.unwrap_or(way.time_s);
    let quickest = |accepts: &dyn Fn(&WayTimes) -> bool| {
        ways.iter()
            .filter(|way| way.keeps_up && accepts(way))
            .min_by(|a, b| surely_s(a).total_cmp(&surely_s(b)))
            .map(|way| way.way)
    };
    if deadline_s.is_none() {
        return quickest(&|_| true).map(|way| (way, Ground::Quickest));
    }
    let sure = quickest(&|way| way.holds == Some(true)).map(|way| (way, Ground::InTime));
    let likely = || quickest(&|way| way.holds.is_none()).map(|way| (way, Ground::InTimeAsExpected));
    let nearest = || quickest(&|_| true).map(|way| (way, Ground::TooLate));
    sure.or_else(likely).or_else(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use proptest::prelude::*;

    /// Data of a second over the path of 003, to be done in 10 s (tier 2).
    fn lcls(bytes: f64) -> Question {
        Question {
            bytes,
            period_s: Some(1.0),
            bandwidth_bits_per_s: 25e9,
            efficiency: 1.0,
            local_s: None,
            remote_s: 0.0,
            files: None,
            tail: Some(Tail::Like003(Starts::Simultaneous)),
            deadline_s: Some(10.0),
        }
    }

    fn way(advice: &Advice, way: Way) -> WayTimes {
        *advice.ways.iter().find(|times| times.way == way).unwrap()
    }

    /// 003 section 5: 64 %, 1.2 s, 8.8 s left; local wins only below 1.2 s.
    #[test]
    fn coherent_scattering_is_streamed() {
        let advice = advise(&lcls(2e9)).unwrap();
        assert!(is_near(advice.utilisation.unwrap(), 0.64, 1e-12));
        assert_eq!(advice.best, Some((Way::Stream, Ground::InTime)));
        let stream = way(&advice, Way::Stream);
        assert!(is_near(stream.p99_s.unwrap(), 1.2, 1e-9) && is_near(stream.left_s.unwrap(), 8.8, 1e-9));
        assert_eq!(stream.tier, Some(Tier::NearRealTime));
        for (local_s, best) in [(1.1, Way::Local), (1.3, Way::Stream)] {
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
        assert_eq!(with_local.best, Some((Way::Local, Ground::TooLate)), "limited by local power");
        let reduced = advise(&lcls(3e9)).unwrap();
        assert!(is_near(reduced.utilisation.unwrap(), 0.96, 1e-12));
        assert!(is_near(way(&reduced, Way::Stream).left_s.unwrap(), 4.0, 1e-9));
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
        let stream = way(&advice, Way::Stream);
        assert!(stream.time_s < 1.0 && stream.holds == Some(false));
        assert_eq!(advice.best, Some((Way::Stream, Ground::TooLate)));
        assert!(is_near(stream.score_allowed.unwrap(), 1.0 / 0.32, 1e-9));
    }

    /// 2 GB each 1.4 s are 46 % of 25 Gbit/s, but 91 % of the half that transfers get. By hand: 1.28 s, stretched by
    /// 1.875 x (6.25 / 1.875)^((0.9143 - 0.64) / 0.32) = 5.26 times.
    #[test]
    fn a_load_is_of_what_transfers_get_and_not_of_the_whole_line() {
        let half = Question { period_s: Some(1.4), efficiency: 0.5, deadline_s: Some(2.0), ..lcls(2e9) };
        let advice = advise(&half).unwrap();
        assert!(is_near(advice.utilisation.unwrap(), 0.4571, 1e-3));
        let stream = way(&advice, Way::Stream);
        assert!(
            is_near(stream.time_s, 1.28, 1e-9) && is_near(stream.p99_s.unwrap(), 6.735, 1e-3),
            "{stream:?}"
        );
        assert_eq!(advice.best, Some((Way::Stream, Ground::TooLate)));
        // A line of half the bandwidth, all of which they get, is the same to them.
        let narrow = Question { bandwidth_bits_per_s: 12.5e9, efficiency: 1.0, ..half.clone() };
        let narrow = way(&advise(&narrow).unwrap(), Way::Stream);
        assert!(is_near(narrow.p99_s.unwrap(), stream.p99_s.unwrap(), 1e-9), "{narrow:?}");
        // All that they get, and no more.
        let full = Question { period_s: Some(1.29), ..half };
        assert!(way(&advise(&full).unwrap(), Way::Stream).p99_s.unwrap() > 6.25 * 1.28);
    }

    #[test]
    fn an_unknown_tail_is_no_promise() {
        let advice = advise(&Question { tail: None, ..lcls(2e9) }).unwrap();
        assert_eq!(advice.best, Some((Way::Stream, Ground::InTimeAsExpected)));
        assert_eq!(way(&advice, Way::Stream).holds, None);
        assert!(advise(&Question { period_s: None, ..lcls(2e9) }).is_err(), "no load without a period");
    }

    #[test]
    fn files_cost_their_overhead_and_lose_to_a_stream() {
        let question = Question { files: Some(Files::Overhead(1.5)), ..lcls(2e9) };
        let advice = advise(&question).unwrap();
        let (file, stream) = (way(&advice, Way::File), way(&advice, Way::Stream));
        assert!(is_near(file.time_s, 1.5 * stream.time_s, 1e-12));
        assert!(is_near(file.p99_s.unwrap() - stream.p99_s.unwrap(), file.io_s, 1e-9));
        let prediction = Prediction { time_s: 2.0, low_s: Some(1.0), high_s: Some(3.0) };
        let timed = advise(&Question { files: Some(Files::Timed(prediction)), ..question }).unwrap();
        assert!(is_near(way(&timed, Way::File).time_s, 2.0, 1e-12));
        assert!(is_near(way(&timed, Way::File).p99_s.unwrap(), 3.0, 1e-12));
        // Measured where the path was wider: no quicker than this one, with the same spread.
        let wider = Prediction { time_s: 0.1, low_s: Some(0.05), high_s: Some(0.2) };
        let timed = advise(&Question { files: Some(Files::Timed(wider)), ..lcls(2e9) }).unwrap();
        assert!(is_near(way(&timed, Way::File).time_s, 0.64, 1e-12));
        assert!(is_near(way(&timed, Way::File).p99_s.unwrap(), 1.28, 1e-12));
    }

    proptest! {
        #[test]
        fn a_later_deadline_never_stops_holding(
            gb in 0.1..3.0, local_s in 0.1..50.0, remote_s in 0.0..20.0, deadline_s in 0.1..60.0, later in 1.0..10.0,
            overhead in 1.0..5.0
        ) {
            let question = Question {
                local_s: Some(local_s), remote_s, files: Some(Files::Overhead(overhead)), deadline_s: Some(deadline_s),
                ..lcls(gb * 1e9)
            };
            let soon = advise(&question).unwrap();
            let late = advise(&Question { deadline_s: Some(deadline_s * later), ..question }).unwrap();
            let holds = |advice: &Advice| advice.best.is_some_and(|(_, ground)| ground == Ground::InTime);
            prop_assert!(!holds(&soon) || holds(&late));
            for way in &soon.ways {
                prop_assert!(way.p99_s.is_none_or(|p99_s| p99_s >= way.time_s * (1.0 - 1e-12)));
                prop_assert!(is_near(way.transfer_s + way.io_s + way.analysis_s, way.time_s, 1e-9));
            }
        }
    }
}
