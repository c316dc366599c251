//! `thalweg frames push`.

use super::{Teller, clock_json, clock_text, link_settings};
use crate::exit::Exit;
use crate::place::Places;
use crate::{signals, units};
use serde_json::json;
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_cli::args::frames::FramesPushArgs;
use thalweg_client::frames::files::{self, Cut};
use thalweg_client::frames::{ChannelWishes, HeldLevel, NewFrame, ProducerReport, Sender, SenderWishes};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::run::copy::Stop;
use thalweg_wire::limits;
use thalweg_wire::path::Escaped;

/// Between two looks whether it shall stop.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Sends frames until there are no more.
///
/// # Errors
/// When it could not begin.
pub(super) fn push(args: &FramesPushArgs, places: &Places) -> Result<Exit> {
    let teller = Teller::of(&args.link, false);
    let Some((place, from)) = args.places.split_last() else {
        return Err(Failure::new(FailureKind::Usage, "read the command line", "the channel is missing"));
    };
    let stop = Arc::new(Stop::default());
    let telling = "stopping: what was read goes to the hub first; once more to stop at once";
    let signal = signals::stop_on(stop.clone(), (!args.link.quiet).then_some(telling))?;
    let level = if args.durable { HeldLevel::Durable } else { HeldLevel::Memory };
    let channel = args.link.wishes();
    let wishes = SenderWishes {
        producer: args.producer.clone(),
        level,
        window_bytes: args.link.window,
        channel: ChannelWishes { is_recorded: channel.is_recorded || args.durable, ..channel },
        streams: args.link.streams,
        link: link_settings(&args.link),
        events: teller.events(),
    };
    let began = Instant::now();
    let sender = Sender::open(place, args.link.how(places), wishes)?;
    let job = Job { args, sender: &sender, stop: &stop, began, sent: Cell::new(0) };
    let report = job.run(from);
    match report {
        Ok(report) => {
            let exit = if stop.is_asked() { signal.exit() } else { Exit::Done };
            tell_end(teller, &report, began.elapsed(), exit);
            Ok(exit)
        }
        Err(failure) => {
            let exit = match failure.kind {
                FailureKind::Stopped if stop.is_asked() => signal.exit(),
                kind => Exit::of(kind),
            };
            Ok(teller.failed(&failure, exit))
        }
    }
}

struct Job<'a> {
    args: &'a FramesPushArgs,
    sender: &'a Sender,
    stop: &'a Stop,
    began: Instant,
    sent: Cell<u64>,
}

impl Job<'_> {
    fn run(&self, from: &[OsString]) -> Result<ProducerReport> {
        for source in from {
            match self.read(source) {
                Err(failure) if failure.kind == FailureKind::Stopped && self.stop.is_asked() => break,
                other => other?,
            }
        }
        if let Some(set) = self.args.set
            && self.sent.get() > 0
        {
            let frames = u32::try_from(self.sent.get()).unwrap_or(u32::MAX);
            self.sender.declare_set(set, frames)?;
        }
        loop {
            match self.sender.finish(Some(LOOK_AGAIN)) {
                Err(failure) if failure.kind == FailureKind::Busy => {}
                other => return other,
            }
        }
    }

    fn read(&self, source: &OsStr) -> Result<()> {
        let args = self.args;
        let mut sink = |frame| self.push(frame);
        if args.index {
            return files::by_index(Path::new(source), &mut sink);
        }
        let how = Cut {
            frame_bytes: args.frame_bytes.unwrap_or(0),
            dtype: args.dtype.clone(),
            shape: args.shape.clone(),
        };
        let mut from: Box<dyn Read> = match source == OsStr::new("-") {
            true => Box::new(std::io::stdin().lock()),
            false => Box::new(File::open(source).map_err(|error| {
                use std::os::unix::ffi::OsStrExt;
                let mut failure = failure::of_io("read frames", &error);
                failure.cause = format!("`{}`: {}", Escaped(source.as_bytes()), failure.cause);
                failure
            })?),
        };
        files::cut(&mut *from, &how, &mut sink)
    }

    fn push(&self, frame: NewFrame) -> Result<()> {
        let (args, sent) = (self.args, self.sent.get());
        let stopped = || Failure::new(FailureKind::Stopped, "push frames", "stopped on request");
        if let Some(rate) = args.frames_per_s {
            let due = self.began + Duration::from_secs_f64(sent as f64 / rate);
            while Instant::now() < due && !self.stop.is_asked() {
                std::thread::sleep(due.saturating_duration_since(Instant::now()).min(LOOK_AGAIN));
            }
        }
        let index = u32::try_from(sent).unwrap_or(u32::MAX);
        if args.set.is_some() && index >= limits::SET_FRAMES_MAX {
            return Err(Failure::new(FailureKind::Usage, "push frames", "a set has at most 1048576 frames"));
        }
        let frame = NewFrame {
            set: args.set.map(|set| (set, index)).or(frame.set),
            deadline_ns: args.deadline.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            // When it was made is when it is sent, as a detector's would be.
            time_ns: None,
            ..frame
        };
        let prepared = self.sender.prepare(frame)?;
        while !self.stop.is_asked() {
            match self.sender.push_prepared(prepared.clone(), Some(LOOK_AGAIN)) {
                Err(failure) if failure.kind == FailureKind::Busy => {}
                other => {
                    self.sent.set(sent + 1);
                    return other.map(drop);
                }
            }
        }
        Err(stopped())
    }
}

fn tell_end(teller: Teller, report: &ProducerReport, took: Duration, exit: Exit) {
    let figures = &report.figures;
    let event = json!({
        "event": "finished", "exit": exit.code(), "producer": report.producer, "frames": figures.frames,
        "bytes": figures.bytes, "next_sequence": report.frames, "again": figures.again,
        "blocked_s": figures.blocked_ns as f64 / 1e9, "outages": figures.outages,
        "clock": clock_json(figures.clock), "seconds": took.as_secs_f64(),
    });
    teller.tell(&event, || {
        format!(
            "{} frames, {} in {:.2} s as {}; the hub has all of them; waited {} for room; clock {}",
            units::count(figures.frames),
            units::size(figures.bytes),
            took.as_secs_f64(),
            report.producer,
            units::time(figures.blocked_ns as f64 / 1e9),
            clock_text(figures.clock),
        )
    });
}
