//! What to turn when a stage is too narrow.

use super::need::{Cause, Need};
use super::words::{is_small, rate_of, size, window_bytes};
use super::{Evidence, Where, crowd, heat, path};
use crate::model::loss::CongestionControl;
use crate::stage::Stage;

/// Most streams that are advised: twice as many as thalweg plans unasked. Where those are too few, somebody may try
/// more; each costs CPU, and takes from others on the path.
const STREAMS_ADVISED_MAX: u32 = 64;

/// One or two short sentences.
pub(super) fn knob(evidence: &Evidence, narrowest: &Need) -> String {
    let knob = of_cause(evidence, narrowest);
    if heat::of(evidence, narrowest.cause, narrowest.place).is_none() {
        return format!("To turn: {knob}");
    }
    // A CPU that cools down is faster by itself.
    let place = match narrowest.place {
        Where::Source => "the source",
        Where::Destination => "the destination",
        Where::Path | Where::Both => "this machine",
    };
    format!("To turn: cool {place} (heat slows its CPUs), or {knob}")
}

/// What to turn, as it follows a colon.
fn of_cause(evidence: &Evidence, narrowest: &Need) -> String {
    let (source, destination) = ("the source", "the destination");
    match narrowest.cause {
        Cause::Scan => "name fewer directories, or copy several parts at once with --and.".into(),
        Cause::Producer => "nothing on this way; who writes the data sets the pace.".into(),
        Cause::SourceDisk => "a faster disk at the source, or --streams for more reads at once.".into(),
        Cause::SmallFilesRead | Cause::SmallFilesWrite if evidence.streams < 4 => {
            let files = if is_small(evidence) { "small files" } else { "files" };
            format!("--streams 8 works on more {files} at once.")
        }
        Cause::SmallFilesRead => "a source with quicker metadata, or an archive of the files.".into(),
        Cause::SmallFilesWrite => "a destination with quicker metadata, or an archive of the files.".into(),
        Cause::SourceCpu | Cause::DestinationCpu => {
            let (place, side) = match narrowest.place {
                Where::Source => (source, &evidence.sender),
                _ => (destination, &evidence.receiver),
            };
            match narrowest.stage {
                Some(stage) if crowd::explains(side, stage).is_some() => {
                    format!("less other work at {place} (its CPUs are waited for), or more CPUs there.")
                }
                Some(Stage::Compress) => "leave out --compress.".into(),
                Some(Stage::Send | Stage::Receive) => {
                    format!("--cipher aes128 where {place} has AES instructions, or more --streams.")
                }
                // Not by threads of the streams, however many there are.
                Some(stage @ (Stage::ReadBack | Stage::Copy | Stage::Reread)) => {
                    format!("a faster CPU at {place}{}.", beside(stage))
                }
                _ => format!("more --streams, if {place} has idle CPUs."),
            }
        }
        Cause::Cpu => "more or faster CPUs; other work of this machine slows the copy.".into(),
        Cause::CpuQuota => "the quota (cpu.max of the control group, CPUQuota= of its unit).".into(),
        Cause::RateLimit => "--bwlimit.".into(),
        Cause::OperatorLimit => {
            let (place, side) = match narrowest.place {
                Where::Source => (source, &evidence.sender),
                _ => (destination, &evidence.receiver),
            };
            let is_of_export = side.limit.as_ref().is_some_and(|limit| limit.export.is_some());
            let option = if is_of_export { "bwlimit of the export" } else { "--bwlimit" };
            format!("{option} of `thalweg serve` at {place}, by its operator.")
        }
        Cause::Link if evidence.yields => "--class normal, where it need not give way.".into(),
        Cause::Link => "a wider link, or --compress where the data shrink.".into(),
        Cause::Ssh => {
            "data go beside ssh by a port that is open in either direction (--far-ports, --near-ports), \
             without --via-ssh."
                .into()
        }
        Cause::Window => window(evidence),
        Cause::SendBuffer => {
            let most = match evidence.socket_bytes_max.1 {
                0 => String::new(),
                bytes => format!(" (now at most {})", size(bytes)),
            };
            let streams = streams_option(evidence).map_or(String::new(), |option| format!("{option}, or "));
            format!("{streams}raise net.ipv4.tcp_wmem{most}: `thalweg doctor` at the source tells how.")
        }
        Cause::Loss => {
            let bbr = CongestionControl::Bbr.name();
            let uses_bbr = evidence.sender.streams.iter().any(|stream| stream.congestion == bbr);
            let control = (!uses_bbr).then(|| format!("--cca {bbr} (if the machine that sends permits it)"));
            let options: Vec<String> = control.into_iter().chain(streams_option(evidence)).collect();
            match options.is_empty() {
                true => "nothing on this side; a path should not lose packets.".into(),
                false => format!("{}; a path should not lose packets.", options.join(", or ")),
            }
        }
        Cause::SlowStream => {
            "look at the card, route or middle box of that stream; --streams spreads the rest.".into()
        }
        Cause::SlowCard => {
            "look at that card, its cable and its route; or leave it out of --via and --bind.".into()
        }
        Cause::DestinationDisk => {
            format!("a faster disk at the destination{}.", narrowest.stage.map_or("", beside))
        }
        Cause::SlowSync => "a destination whose disk flushes quicker (a write cache with a battery); \
             copy more in one command."
            .into(),
        Cause::Names => "a destination with quicker renames and attributes.".into(),
        Cause::Look => "fewer entries that are there already, or --check evidence.".into(),
        Cause::Plan => match evidence.depth {
            Some(depth) => format!("--depth (now {depth}), or leave it out."),
            None => format!("--concurrency (now {}), --streams.", evidence.concurrency),
        },
    }
}

/// What is said besides of a stage that reads what stands at the destination, by a thread that is no stream's.
fn beside(stage: Stage) -> &'static str {
    match stage {
        Stage::ReadBack => "; --verify written reads nothing back",
        Stage::Copy => "; without --check digest and --find-renames it is sent instead",
        Stage::Reread => "; what an earlier attempt left is read once, before the rest is moved",
        _ => "",
    }
}

fn window(evidence: &Evidence) -> String {
    let streams = streams_option(evidence);
    match evidence.window_bytes {
        Some(bytes) => {
            let streams = streams.map_or(String::new(), |option| format!(", or {option}"));
            format!("--window (now {}){streams}.", size(bytes))
        }
        None => {
            let rtt = path::rtt_seconds(evidence);
            let each = window_bytes(evidence) as f64 / rtt.max(1e-6);
            let streams = streams.map_or(String::new(), |option| format!("{option}, or "));
            format!(
                "{streams}raise net.ipv4.tcp_rmem at the receiver (`thalweg doctor` there tells how); \
                 a stream cannot pass {} now.",
                rate_of(each)
            )
        }
    }
}

/// Streams that would carry four times as much, or as many as are advised at most; `None` where there are so many
/// already, and for who gives way: more streams would take more from the others.
fn streams_option(evidence: &Evidence) -> Option<String> {
    if evidence.yields {
        return None;
    }
    let now = u32::from(evidence.streams.max(1));
    let more = (now * 4).min(STREAMS_ADVISED_MAX);
    (more > now).then(|| format!("--streams {more}"))
}
