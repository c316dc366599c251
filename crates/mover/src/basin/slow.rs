//! Streams, and cards, that are much slower than the others.
//!
//! A stream's rate is what was acknowledged by the time in which it had something to send, so that one which held the
//! others up at the end, alone with its last chunk, counts with that time too.

use super::Evidence;
use super::path::rate;
use std::collections::BTreeMap;
use std::net::IpAddr;
use thalweg_wire::account::StreamAccount;

/// What has less than this share of the others' rate is slow.
const SLOW: f64 = 0.4;

/// The two addresses that streams of one card and route have in common; ours first.
pub(super) type Way = (Option<IpAddr>, Option<IpAddr>);

/// What is slow, and its rate as a share of that of the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Slow {
    /// One stream.
    Stream(u16, f64),
    /// All streams of a way, where others go another way.
    Way(Way, f64),
}

/// The slowest way or, where all go the same way or do alike, the slowest stream.
pub(super) fn of(evidence: &Evidence) -> Option<Slow> {
    let streams = &evidence.sender.streams;
    slow_way(streams).or_else(|| slow_stream(streams))
}

/// How many times faster all would be if the slow ones did as the others, at least 1.
pub(super) fn without(evidence: &Evidence) -> f64 {
    let streams = &evidence.sender.streams;
    let usual = match of(evidence) {
        Some(Slow::Way(slow, _)) => mean(streams.iter().filter(|stream| way(stream) != slow)),
        Some(Slow::Stream(..)) => median(streams),
        None => return 1.0,
    };
    // What was sent twice, because a slow stream had it too long, would not have been.
    let rate = evidence.bytes as f64 / evidence.seconds().max(1e-9);
    (usual * streams.len() as f64 / rate.max(1.0)).max(1.0)
}

fn way(stream: &StreamAccount) -> Way {
    (stream.local, stream.remote)
}

fn slow_way(streams: &[StreamAccount]) -> Option<Slow> {
    let mut ways: BTreeMap<Way, Vec<&StreamAccount>> = BTreeMap::new();
    for stream in streams {
        ways.entry(way(stream)).or_default().push(stream);
    }
    if ways.len() < 2 {
        return None;
    }
    let rate_of = |streams: &Vec<&StreamAccount>| mean(streams.iter().copied());
    let (&slowest, its) = ways.iter().min_by(|a, b| rate_of(a.1).total_cmp(&rate_of(b.1)))?;
    let others: Vec<&StreamAccount> = streams.iter().filter(|stream| way(stream) != slowest).collect();
    let usual = mean(others.iter().copied());
    let share = rate_of(its) / usual.max(1.0);
    // One slow stream of a good card is a slow stream.
    let all_are = its.iter().all(|stream| rate(stream) < usual * SLOW);
    (all_are && is_always_busy(its, &others)).then_some(Slow::Way(slowest, share))
}

fn slow_stream(streams: &[StreamAccount]) -> Option<Slow> {
    if streams.len() < 2 {
        return None;
    }
    let slowest = streams.iter().min_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let share = rate(slowest) / median(streams).max(1.0);
    let all: Vec<&StreamAccount> = streams.iter().collect();
    let others: Vec<&StreamAccount> =
        streams.iter().filter(|stream| stream.stream != slowest.stream).collect();
    let is_slow = share < SLOW && is_always_busy(&[slowest], &all);
    (is_slow && (are_alike(&others) || goes_another_way(slowest, &others)))
        .then_some(Slow::Stream(slowest.stream, share))
}

/// Whether several do as well as each other. Streams that share a thin link part it unevenly, all of them: one of two
/// that has less is not slow, for the other would have less without it.
fn are_alike(streams: &[&StreamAccount]) -> bool {
    /// Of the fastest rate.
    const ALIKE: f64 = 0.6;
    let rates = || streams.iter().map(|stream| rate(stream));
    streams.len() >= 2 && rates().fold(f64::INFINITY, f64::min) > rates().fold(0.0, f64::max) * ALIKE
}

/// Whether the kernel saw one go where the others do not: farther, or losing much more.
fn goes_another_way(slow: &StreamAccount, others: &[&StreamAccount]) -> bool {
    /// So many times as far, and by so many nanoseconds.
    const FARTHER: (f64, f64) = (1.5, 1e6);
    /// So many times as many bytes sent again, and by such a share of all.
    const LOSSIER: (f64, f64) = (4.0, 1e-3);
    let lost = |stream: &StreamAccount| stream.retransmitted_bytes as f64 / stream.sent_bytes.max(1) as f64;
    let most =
        |of: &dyn Fn(&StreamAccount) -> f64| others.iter().map(|stream| of(stream)).fold(0.0, f64::max);
    let distance = |stream: &StreamAccount| stream.rtt_min_nanos as f64;
    let is_more =
        |own: f64, of_others: f64, (times, by): (f64, f64)| own > of_others * times && own > of_others + by;
    is_more(distance(slow), most(&distance), FARTHER) || is_more(lost(slow), most(&lost), LOSSIER)
}

/// Whether these had bytes to send for at least half of the time in which the others had.
fn is_always_busy(slow: &[&StreamAccount], others: &[&StreamAccount]) -> bool {
    let busy = |of: &[&StreamAccount]| {
        of.iter().map(|stream| stream.busy_nanos).sum::<u64>() / of.len().max(1) as u64
    };
    busy(slow) * 2 > busy(others)
}

fn mean<'a>(streams: impl Iterator<Item = &'a StreamAccount>) -> f64 {
    let (sum, count) = streams.fold((0.0, 0.0), |(sum, count), stream| (sum + rate(stream), count + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}

/// The upper one of two in the middle.
fn median(streams: &[StreamAccount]) -> f64 {
    let mut rates: Vec<f64> = streams.iter().map(rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}
