//! What to turn when a stage is too narrow.

use super::need::{Cause, Need};
use super::words::{rate_of, size, window_bytes};
use super::{Evidence, Place, path};
use crate::stage::Stage;

/// Most streams that this advises.
const STREAMS_MAX: f64 = 64.0;

/// One or two short sentences.
pub(super) fn knob(evidence: &Evidence, narrowest: &Need) -> String {
    let (source, destination) = ("the source", "the destination");
    match narrowest.cause {
        Cause::Scan => "To turn: name fewer directories, or copy several parts at once with --and.".into(),
        Cause::Producer => "To turn: nothing on this way; who writes the data sets the pace.".into(),
        Cause::SourceDisk => {
            "To turn: a faster disk at the source, or --streams for more reads at once.".into()
        }
        Cause::SmallFilesRead | Cause::SmallFilesWrite if evidence.streams < 4 => {
            "To turn: --streams 8 works on more small files at once.".into()
        }
        Cause::SmallFilesRead => {
            "To turn: a source with quicker metadata, or an archive of the files.".into()
        }
        Cause::SmallFilesWrite => {
            "To turn: a destination with quicker metadata, or an archive of the files.".into()
        }
        Cause::SourceCpu | Cause::DestinationCpu => {
            let place = if narrowest.place == Place::Source { source } else { destination };
            match narrowest.stage {
                Some(Stage::Compress) => "To turn: leave out --compress.".into(),
                Some(Stage::Send | Stage::Receive) => {
                    format!("To turn: --cipher aes128 where {place} has AES instructions, or more --streams.")
                }
                _ => format!("To turn: more --streams, if {place} has idle CPUs."),
            }
        }
        Cause::Cpu => "To turn: more or faster CPUs; other work of this machine slows the copy.".into(),
        Cause::CpuQuota => "To turn: the quota (cpu.max of the control group, CPUQuota= of its unit).".into(),
        Cause::RateLimit => "To turn: --bwlimit.".into(),
        Cause::Link => "To turn: a wider link, or --compress where the data shrink.".into(),
        Cause::Window => window(evidence),
        Cause::SendBuffer => {
            let most = match evidence.socket_bytes_max.1 {
                0 => String::new(),
                bytes => format!(" (now at most {})", size(bytes)),
            };
            format!(
                "To turn: --streams {}, or raise net.ipv4.tcp_wmem{most}: `thalweg doctor` at the source tells how.",
                more_streams(evidence)
            )
        }
        Cause::Loss => {
            let uses_bbr = evidence.sender.streams.iter().any(|stream| stream.congestion == "bbr");
            let control = if uses_bbr { "" } else { "--cca bbr, or " };
            format!("To turn: {control}--streams {}; a path should not lose packets.", more_streams(evidence))
        }
        Cause::SlowStream => {
            "To turn: look at the card, route or middle box of that stream; --streams spreads the rest."
                .into()
        }
        Cause::SlowCard => {
            "To turn: look at that card, its cable and its route; or leave it out of --via and --bind.".into()
        }
        Cause::DestinationDisk => "To turn: a faster disk at the destination.".into(),
        Cause::SlowSync => {
            "To turn: a destination whose disk flushes quicker (a write cache with a battery); \
             copy more in one command."
                .into()
        }
        Cause::Names => "To turn: a destination with quicker renames and attributes.".into(),
        Cause::Look => "To turn: fewer entries that are there already, or --check evidence.".into(),
        Cause::Plan => match evidence.depth {
            Some(depth) => format!("To turn: --depth (now {depth}), or leave it out."),
            None => format!("To turn: --concurrency (now {}), --streams.", evidence.concurrency),
        },
    }
}

fn window(evidence: &Evidence) -> String {
    let streams = more_streams(evidence);
    match evidence.window_bytes {
        Some(bytes) => format!("To turn: --window (now {}), or --streams {streams}.", size(bytes)),
        None => {
            let rtt = path::rtt_seconds(evidence);
            let each = window_bytes(evidence) as f64 / rtt.max(1e-6);
            format!(
                "To turn: --streams {streams}, or raise net.ipv4.tcp_rmem at the receiver (`thalweg doctor` there tells how); \
                 a stream cannot pass {} now.",
                rate_of(each)
            )
        }
    }
}

/// Streams that would carry four times as much.
fn more_streams(evidence: &Evidence) -> u32 {
    let now = f64::from(evidence.streams.max(1));
    (now * 4.0).min(STREAMS_MAX).max(now) as u32
}
