//! `thalweg probe`: which stage of a way is the narrowest, before anything is moved.
//!
//! What comes when, and how long it may take, is in `schedule`; `measurer` and `timed_transfer` do it.
//!
//! 1. Each part alone, on the side that does it: read, digest, encrypt; decrypt, verify, write and sync.
//! 2. In company, by real transfers over the real link: noise to nowhere, the source to nowhere, noise to the
//!    destination, the source to the destination (002, section VI-C.2). Each gets so much time and is stopped then.
//! 3. [`thalweg_lab::probe`] makes one answer of it.
//!
//! The source is only read, and the page cache left as it was. At the destination everything happens in a scratch
//! directory that its mover removes. What could not be measured is told with its reason, and the rest is measured all
//! the same.

use crate::args::link::WayArgs;
use crate::args::places::AskArgs;
use crate::args::probe::ProbeArgs;
use crate::exit::Exit;
use crate::place::Places;
use crate::{files, json, show};
use std::path::Path;
use std::time::Duration;
use thalweg_client::far_movers::{FarMovers, How};
use thalweg_client::identity;
use thalweg_client::job::Asked;
use thalweg_client::profiles::{ByHand, Profiles};
use thalweg_lab::probe::{self, Finding, Measurements, Rate, svg};
use thalweg_mover::basin::times::{self, Passage};
use thalweg_mover::event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::history::{Moved, Observed, Probed};
use thalweg_mover::plan;
use thalweg_mover::run::copy::{From, Movement, To, Wishes};
use thalweg_sys::clock::unix_seconds;

mod schedule;

mod measurer;

mod timed_transfer;

mod output;

pub use measurer::Measurer;

/// A link that is silent for so long is lost: nobody waits for more than a probe takes.
const STALL: Duration = Duration::from_secs(8);
/// What fails where the drawing cannot be written.
const DRAW: &str = "write the drawing";
/// What fails of measuring.
const PROBE: &str = "probe";

/// `thalweg probe`.
///
/// # Errors
/// What is wrong with the command line; when the far place cannot be reached; when nothing could be measured.
pub fn probe(args: &ProbeArgs, places: &Places) -> Result<Exit> {
    let state = identity::state_directory(args.state.as_deref())?;
    let typed = [args.source.clone(), args.destination.clone()];
    let asked = Asked::read("probe", &typed, None, places)?;
    if asked.has_bucket() {
        let cause = "a probe measures files of machines, and no object stores: `thalweg predict SRC DST` says how long \
                     a copy with a bucket takes, by earlier ones; where none was made, `thalweg cp` makes the first";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    // What was measured for so long is not to be lost to a wrong name.
    if let Some(path) = &args.svg {
        files::can_be_written(DRAW, path)?;
    }
    let mut far_movers = FarMovers::new(how(&args.ask, &args.way, places, &state));
    let job = asked.reach(&mut far_movers, &state)?;
    if !matches!(job.from, From::Local(_) | From::Far(..)) || !matches!(job.to, To::Local(_) | To::Far(..)) {
        let cause = "a probe measures real places; `thalweg cp zero:1GiB null:` measures others";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    let movement = movement(&args.way, args.streams);
    let measurer = Measurer::new(&job, movement.clone(), args.seconds, &state, args.ask.json)?;
    let measured = measurer.measure()?;
    let finding = probe::find(&measured);
    drop(measurer);
    if !args.no_profile {
        let by_hand = ByHand::of(&Wishes { movement, ..Wishes::default() });
        Profiles::probed(&state, &job.from, &job.to, &by_hand, remembered(&measured, &finding));
    }
    drop(far_movers);
    // The answer before the drawing of it, which may fail.
    if args.ask.json {
        json::tell(&output::as_json(&job, &measured, &finding));
    } else {
        output::tell(&job, args, &measured, &finding);
    }
    if let Some(path) = &args.svg {
        let title = format!("{} \u{2192} {}", job.names.0, job.names.1);
        let drawn = svg::draw(&finding, &title, &output::note(&measured, args.seconds));
        files::write_whole(DRAW, path, drawn.as_bytes())?;
    }
    Ok(if output::missing(&measured).is_empty() { Exit::Done } else { Exit::Partial })
}

/// How content moves in transfers that measure: on these ways, by so many streams, and else as a copy would choose.
pub fn movement(way: &WayArgs, streams: Option<u16>) -> Movement {
    Movement {
        asked: plan::Asked { streams, ..plan::Asked::default() },
        link: way.settings(),
        has_via: !way.via.is_empty(),
        has_bind: !way.bind.is_empty(),
        ..Movement::default()
    }
}

/// How the far side is reached, which transfers are measured with.
pub fn how(ask: &AskArgs, way: &WayArgs, places: &Places, state: &Path) -> How {
    way.on(How {
        patience: STALL,
        stall_timeout: STALL,
        state: Some(state.to_owned()),
        events: if ask.json { event::nobody() } else { show::notes() },
        ..ask.how(places)
    })
}

/// What `thalweg predict` may go by.
pub fn remembered(measured: &Measurements, finding: &Finding) -> Probed {
    let full = measured.ways.full.rate();
    let shared = full.zip(measured.evidence.as_ref()).map(|(rate, evidence)| {
        let seconds = evidence.bytes as f64 * 8.0 / rate.bits_per_s;
        let passage = Passage { last_s: seconds, seconds, ..Passage::default() };
        (times::taken(evidence, &passage), evidence.bytes as f64, evidence.entries as f64)
    });
    let observed = measured.evidence.as_ref().zip(measured.passage).map(|(evidence, passage)| {
        let moved = Moved {
            bytes: evidence.bytes as f64,
            first_bytes: passage.first_bytes as f64,
            entries: evidence.entries as f64,
            reads_back: false,
        };
        Observed::of(&times::taken(evidence, &passage), &moved, false)
    });
    Probed {
        observed,
        stages: finding
            .rows
            .iter()
            .filter_map(|row| Some((row.stage.name().to_owned(), row.way_bits_per_s?)))
            .collect(),
        byte_s: shared.map(|(taken, bytes, _)| taken.bytes_s / bytes.max(1.0)),
        entry_s: shared
            .filter(|(_, _, entries)| *entries >= Probed::ENTRIES_MIN)
            .map(|(taken, _, entries)| taken.entries_s / entries),
        spread: full.map_or(1.0, Rate::spread),
        narrowest: finding.narrowest.map(|stage| stage.name().to_owned()),
        at: unix_seconds(),
    }
}
