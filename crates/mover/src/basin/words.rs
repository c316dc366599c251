//! The answer in words.

use super::slow::{self, Slow};
use super::width::{self, Width};
use super::{Cause, Evidence, Narrow, Verdict, Where, cpu, crowd, heat, path};
use crate::failure::counted;
use crate::stage::Stage;
use std::net::IpAddr;
use thalweg_wire::path::Escaped;

/// Entries smaller than this on average are told in entries a second.
const SMALL_BYTES: u64 = 64 << 10;

/// From this share of the time on a stage is said to have no time left.
const FULL: f64 = 0.9;

/// One sentence: the narrowest with its rate, what would be gained without it, the next with its rate, the knob.
///
/// A rate is what a stage lets through while it is busy, so it stands with the share of the time in which it was; the
/// gain is one of the whole transfer's time, and not the ratio of the two rates.
///
/// Behind it another one, where nothing could move for a while: shares of a time of which that is part look small.
pub(super) fn sentence(evidence: &Evidence, verdict: &Verdict) -> String {
    let said = of_stages(evidence, verdict);
    match evidence.outages.sentence(evidence.seconds()) {
        Some(outages) => format!("{said} {outages}"),
        None => said,
    }
}

fn of_stages(evidence: &Evidence, verdict: &Verdict) -> String {
    let narrowest = &verdict.narrowest;
    if evidence.content_bytes() == 0 {
        return nothing_moved(evidence, verdict);
    }
    let slowed = [heated(evidence, narrowest), crowded(evidence, narrowest)].concat();
    let reason = format!("{}{slowed}", reason(evidence, narrowest));
    let all_of_it = if is_part(evidence, narrowest) { ", with all that its threads do" } else { "" };
    let mut text = format!("{}: {reason} ({}{all_of_it})", subject(narrowest), share(narrowest));
    if let Some(next) = &verdict.next {
        let rate = through(evidence, next);
        // Busier than the narrowest, and not held to be narrower: so it can be wider, and have held up for less.
        let (or_more, at_most) = match next.busy > narrowest.busy {
            true => (" or more", "at most "),
            false => ("", ""),
        };
        text.push_str(&format!(
            "; {}; next is {}, at {rate}{or_more} ({at_most}{})",
            gain(verdict),
            next_subject(narrowest, next),
            share(next)
        ));
    }
    format!("{text}. {}", verdict.knob)
}

/// Of a transfer that found everything there, or is about names only: widths in bits a second say nothing.
fn nothing_moved(evidence: &Evidence, verdict: &Verdict) -> String {
    let narrowest = &verdict.narrowest;
    let stage = format!("{} ({})", subject(narrowest), share(narrowest));
    let time = match (narrowest.busy > 0.5, evidence.is_linked) {
        (true, _) => format!("most of that time took {stage}"),
        // No stage was at work: streams were dialled, or an answer was due.
        (false, true) => {
            format!("most of that time it waited for the link or the far side; the busiest was {stage}")
        }
        (false, false) => format!("no stage took most of that time; the busiest was {stage}"),
    };
    let entries = counted(evidence.entries, "entry", "entries");
    let told = format!("no content was moved: {entries} settled in {}; {time}", seconds(evidence.seconds()));
    // What was idle for most of the time is nothing to turn.
    if narrowest.busy <= 0.5 {
        return told;
    }
    let next = verdict.next.as_ref().map(|next| {
        let next_to = next_subject(narrowest, next);
        format!("; next is {next_to} ({})", share(next))
    });
    format!("{told}; {}{}. {}", gain(verdict), next.unwrap_or_default(), verdict.knob)
}

/// Whether what is said of a stage is largely that of others which its threads do in turn.
fn is_part(evidence: &Evidence, narrow: &Narrow) -> bool {
    /// Of the time of all that they do.
    const MOSTLY: f64 = 0.6;
    // Neither the path nor a wait for others is work of theirs.
    let is_wait = matches!(narrow.cause, Cause::RateLimit | Cause::OperatorLimit | Cause::Producer);
    if narrow.place == Where::Path || is_wait {
        return false;
    }
    let of_stage = |width: &Width| width.stage == narrow.stage && width.place == narrow.place;
    let own = width::by_own_work(evidence).into_iter().find(of_stage);
    own.is_some_and(|own| own.busy < narrow.busy * MOSTLY)
}

/// What is next, as a subject. A disk that is gone leaves what its reads compute.
fn next_subject(narrowest: &Narrow, next: &Narrow) -> String {
    match subject(next) {
        same if same == subject(narrowest) => format!("the computing of {same}"),
        other => other,
    }
}

/// How busy it was, as in the last line of a copy.
fn share(narrow: &Narrow) -> String {
    format!("{:.0} % busy", narrow.busy * 100.0)
}

/// What the whole transfer would gain if the narrowest were as wide as the next.
fn gain(verdict: &Verdict) -> String {
    let part = |factor: f64| format!("{:.0}", 100.0 / factor);
    let times = |factor: f64| if factor >= 9.95 { format!("{factor:.0}") } else { format!("{factor:.1}") };
    let most = verdict.factor;
    let gained = match verdict.factor_low {
        _ if most < 1.05 => return "without it the transfer would take as long".to_owned(),
        Some(low) if low < 1.05 => {
            format!("no less than {} % of its time (at most {} times as fast)", part(most), times(most))
        }
        Some(low) => format!(
            "{} to {} % of its time ({} to {} times as fast)",
            part(most),
            part(low),
            times(low),
            times(most)
        ),
        None => format!("{} % of its time ({} times as fast)", part(most), times(most)),
    };
    format!("without it the transfer would take {gained}")
}

/// A stage with its place, as a subject.
pub(super) fn subject(narrow: &Narrow) -> String {
    match (narrow.cause, narrow.place) {
        (Cause::RateLimit, _) => "the rate limit".to_owned(),
        (Cause::OperatorLimit, place) => format!("the limit {}", at(place)),
        (Cause::Plan, _) => "the plan".to_owned(),
        (Cause::Producer, _) => "the producer".to_owned(),
        (Cause::CpuQuota, place) => format!("the CPU quota {}", at(place)),
        (Cause::Cpu, place) => format!("the CPU {}", at(place)),
        (_, Where::Path) => "the path".to_owned(),
        (_, place) => format!("{} {}", narrow.stage, at(place)),
    }
}

fn at(place: Where) -> &'static str {
    match place {
        Where::Source => "at the source",
        Where::Destination => "at the destination",
        Where::Path => "on the path",
        Where::Both => "of this machine",
    }
}

fn reason(evidence: &Evidence, narrow: &Narrow) -> String {
    let rate = through(evidence, narrow);
    let is_full = narrow.busy >= FULL;
    match narrow.cause {
        Cause::Scan => format!("listing the source gives {rate}"),
        Cause::Producer => format!("nothing more is there to read: what makes the data gives {rate}"),
        Cause::SourceDisk => format!("its disk gives {rate}"),
        Cause::SmallFilesRead => format!("opening {} gives {rate}", files(evidence)),
        Cause::SourceCpu | Cause::DestinationCpu if is_full => {
            format!("it computes all the time, for {rate}")
        }
        Cause::SourceCpu | Cause::DestinationCpu => format!("it computes, enough for {rate}"),
        Cause::Cpu if is_full => format!("it is used up at {rate}"),
        Cause::Cpu => format!("it would be enough for {rate}"),
        Cause::CpuQuota => by_quota(evidence, narrow, &rate),
        Cause::RateLimit => limited(evidence, narrow, &rate),
        Cause::OperatorLimit => by_operator(evidence, narrow),
        Cause::Link => carried(evidence, is_full, &rate),
        Cause::Ssh => format!("data travel in ssh, which gives {rate}"),
        Cause::Window => format!(
            "the receive window of {} limits each of {} to {} at {:.1} ms",
            size(window_bytes(evidence)),
            streams(evidence),
            rate_of(evidence.bytes as f64 / evidence.seconds().max(1e-9) / count(evidence)),
            path::rtt_seconds(evidence) * 1e3,
        ),
        Cause::SendBuffer => format!(
            "the send buffer limits each of {} to {} at {:.1} ms",
            streams(evidence),
            rate_of(evidence.bytes as f64 / evidence.seconds().max(1e-9) / count(evidence)),
            path::rtt_seconds(evidence) * 1e3,
        ),
        Cause::Loss => {
            let lost = path::lost_share(evidence);
            let control = evidence.sender.streams.first().map_or("tcp", |stream| stream.congestion.as_str());
            format!("{:.2} % of the bytes are sent again, with which {control} reaches {rate}", lost * 100.0)
        }
        Cause::SlowStream | Cause::SlowCard => uneven(evidence, rate),
        Cause::DestinationDisk if is_reading(narrow) => format!("its disk gives {rate}"),
        Cause::DestinationDisk => format!("its disk takes {rate}"),
        Cause::SlowSync => {
            let items = |stage: Stage| evidence.receiver.stage(stage as u8).items;
            let times = items(Stage::Sync);
            format!("each of {times} syncs takes its time however little there is, which gives {rate}")
        }
        Cause::SmallFilesWrite => format!("creating {} gives {rate}", files(evidence)),
        Cause::Names => format!("giving files their names gives {rate}"),
        Cause::Look => format!("looking at what is there gives {rate}"),
        Cause::Plan => format!("no more may be under way, which gives {rate}"),
    }
}

fn is_reading(narrow: &Narrow) -> bool {
    [Stage::Read, Stage::ReadBack, Stage::Reread].iter().any(|stage| narrow.stage == stage.name())
}

/// A quota of a control group, and whether it is ours alone.
fn by_quota(evidence: &Evidence, narrow: &Narrow, rate: &str) -> String {
    let side = if narrow.place == Where::Destination { &evidence.receiver } else { &evidence.sender };
    let quota = f64::from(side.process.quota_milli.unwrap_or(0)) / 1e3;
    let enough = match cpu::is_quota_of_others(evidence, narrow.place) {
        true => "most of which went to other work in it; what was left is",
        false => "which is",
    };
    format!("its control group may use {quota:.2} of a CPU, {enough} enough for {rate}")
}

/// A rate limit: as it was asked for, if one of now explains it.
fn limited(evidence: &Evidence, narrow: &Narrow, rate: &str) -> String {
    /// Of the rate that was asked for.
    const ALIKE: f64 = 0.1;
    let is_packed = evidence.sender.stage(Stage::Compress as u8).busy_nanos > 0;
    match evidence.rate_bytes_per_s.map(|asked| asked as f64) {
        Some(asked) if (narrow.bytes_per_s / asked.max(1.0) - 1.0).abs() <= ALIKE => {
            format!("{rate}, as asked")
        }
        Some(asked) if is_packed => {
            format!("{rate} of content; {} is asked for, of bytes as they are sent", rate_of(asked))
        }
        Some(asked) => format!("{rate} on average; {} is asked for now", rate_of(asked)),
        None => format!("{rate} on average, under limits that changed"),
    }
}

/// A limit for all that a side moves: who set it, and what this transfer has of it.
fn by_operator(evidence: &Evidence, narrow: &Narrow) -> String {
    let side = if narrow.place == Where::Source { &evidence.sender } else { &evidence.receiver };
    let own = narrow.bytes_per_s;
    match &side.limit {
        // What its first bytes did not wait for makes it look faster than all may be.
        Some(limit) => {
            let export = limit.export.as_ref();
            let export = export.map(|name| format!("its export `{}`", Escaped(name.as_bytes())));
            format!(
                "the operator of {} limits all that {} moves to {}, of which this transfer has {}",
                Escaped(limit.machine.as_bytes()),
                export.as_deref().unwrap_or("it"),
                rate_of(limit.bytes_per_s as f64),
                rate_of(own.min(limit.bytes_per_s as f64))
            )
        }
        None => {
            format!("its operator limited all that it moves, of which this transfer had {}", rate_of(own))
        }
    }
}

/// What a link carries, all of it or our part.
fn carried(evidence: &Evidence, is_full: bool, rate: &str) -> String {
    if evidence.yields {
        return match path::is_queue_common(evidence) {
            true => format!("it gives way to others, by the delay, which leaves it {rate}"),
            false => format!(
                "it gives way to others, and hardly any queue was seen: it may be growing still, at {rate}"
            ),
        };
    }
    let sent_again = sent_again(evidence);
    match is_full {
        true => format!("the link is full at {rate}{sent_again}"),
        false => format!("the link carries {rate} while it is waited for{sent_again}"),
    }
}

/// Which stream, or which way, is slower than the others, and by how much.
fn uneven(evidence: &Evidence, rate: String) -> String {
    let percent = |share: f64| format!("{:.0} % of the others' rate", share * 100.0);
    match slow::of(evidence) {
        Some(Slow::Stream(stream, share)) => {
            format!("stream {stream} has {}, all together {rate}", percent(share))
        }
        Some(Slow::Way((local, remote), share)) => format!(
            "each stream from {} to {} has {}, all together {rate}",
            address(local),
            address(remote),
            percent(share)
        ),
        None => rate,
    }
}

/// That heat slowed the CPUs which are the narrowest, if it did.
fn heated(evidence: &Evidence, narrow: &Narrow) -> String {
    let what = if narrow.cause == Cause::Cpu { "it" } else { "its CPUs" };
    match heat::of(evidence, narrow.cause, narrow.place) {
        Some(heat) => {
            let looks = counted(heat.looks.into(), "look", "looks");
            format!("; heat slowed {what} at {} of {looks}", heat.slowed)
        }
        None => String::new(),
    }
}

/// That the CPUs which are the narrowest had other work, if they had.
fn crowded(evidence: &Evidence, narrow: &Narrow) -> String {
    let side = match (narrow.cause, narrow.place) {
        (Cause::SourceCpu, _) => &evidence.sender,
        (Cause::DestinationCpu, _) => &evidence.receiver,
        _ => return String::new(),
    };
    let stage = Stage::ALL.into_iter().find(|stage| stage.name() == narrow.stage);
    match stage.and_then(|stage| crowd::explains(side, stage)) {
        Some(share) => format!("; something waited for a CPU there {:.0} % of the time", share * 100.0),
        None => String::new(),
    }
}

/// What a link loses that is named for its width, if that is worth a word.
fn sent_again(evidence: &Evidence) -> String {
    let lost = path::lost_share(evidence);
    match lost > path::LOSSY {
        true => format!("; {:.2} % of the bytes are sent again", lost * 100.0),
        false => String::new(),
    }
}

/// Whether files are small on average.
pub(super) fn is_small(evidence: &Evidence) -> bool {
    evidence.content_bytes() / evidence.entries.max(1) < SMALL_BYTES
}

fn files(evidence: &Evidence) -> &'static str {
    if is_small(evidence) { "small files" } else { "files" }
}

/// What it lets through, in the unit that matters.
pub(super) fn through(evidence: &Evidence, narrow: &Narrow) -> String {
    match evidence.entries > 16 && is_small(evidence) {
        true => format!("{} entries/s", thousands(narrow.entries_per_s)),
        false => rate_of(narrow.bytes_per_s),
    }
}

fn address(address: Option<IpAddr>) -> String {
    address.map_or("elsewhere".to_owned(), |address| address.to_string())
}

fn count(evidence: &Evidence) -> f64 {
    evidence.sender.streams.len().max(1) as f64
}

fn streams(evidence: &Evidence) -> String {
    counted(evidence.sender.streams.len().max(1) as u64, "stream", "streams")
}

pub(super) fn window_bytes(evidence: &Evidence) -> u64 {
    evidence.sender.streams.iter().map(|stream| stream.window_bytes).max().unwrap_or(0)
}

/// Decimal bits a second.
pub(super) fn rate_of(bytes_per_s: f64) -> String {
    let bits = bytes_per_s * 8.0;
    let (value, unit) = match bits {
        bits if bits >= 1e9 => (bits / 1e9, "Gbit/s"),
        bits if bits >= 1e6 => (bits / 1e6, "Mbit/s"),
        bits => (bits / 1e3, "kbit/s"),
    };
    format!("{} {unit}", ratio(value))
}

pub(super) fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", ratio(bytes as f64 / f64::from(1 << 20))),
        bytes => format!("{} KiB", bytes >> 10),
    }
}

/// A time of a whole transfer.
fn seconds(seconds: f64) -> String {
    match seconds {
        long if long >= 1.0 => format!("{} s", ratio(long)),
        short => format!("{} ms", ratio(short * 1e3)),
    }
}

/// Two or three digits that mean something.
fn ratio(value: f64) -> String {
    let digits = match value {
        value if value >= 99.5 => 0,
        value if value >= 9.95 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

fn thousands(value: f64) -> String {
    if value >= 1e4 { format!("{:.1} k", value / 1e3) } else { format!("{value:.0}") }
}
