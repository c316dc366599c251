//! `thalweg frames push`.

use super::{Teller, clock_json, clock_text, link_settings, slots};
use crate::exit::Exit;
use crate::place::Places;
use crate::{begun, show, signals, units};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_cli::args::frames::FramesPushArgs;
use thalweg_client::events;
use thalweg_client::frames::files::{self, Cut};
use thalweg_client::frames::framed::{self, Given, Reading};
use thalweg_client::frames::{
    ChannelWishes, HeldLevel, NewFrame, ProducerReport, Sender, SenderWishes, TakenBefore,
};
use thalweg_mover::admission::SlotHeld;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::run::copy::Stop;
use thalweg_mover::run::flow::lags::Lag;
use thalweg_mover::run::frames::wall_ns;
use thalweg_sys::socket::{self, Interest, open_pipe, widen_pipe};
use thalweg_wire::limits;
use thalweg_wire::path::Escaped;

/// Between two looks whether it shall stop.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Of a pipe: what a user may have by default.
const PIPE_BYTES_MAX: usize = 1 << 20;
/// What is due later than after so many seconds is due then: 30 years.
const DUE_MAX_S: f64 = 1e9;

/// Sends frames until there are no more.
///
/// # Errors
/// When it could not begin.
pub(super) fn push(args: &FramesPushArgs, places: &Places) -> Result<Exit> {
    let teller = Teller::of(&args.link, false);
    let Some((place, from)) = args.places.split_last() else {
        return Err(Failure::new(FailureKind::Usage, "read the command line", "the channel is missing"));
    };
    let whole = Whole::of(args, from)?;
    if args.resume {
        check_resumable(from)?;
    }
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
        slot: args.slot,
        link: link_settings(&args.link, teller, true)?,
        events: teller.events(),
    };
    let began = Instant::now();
    let sender = Sender::open(place, args.link.how(places), wishes)?;
    let before = if args.resume { sender.next_sequence() } else { 0 };
    if before > 0 {
        let text =
            format!("the hub has {} of {}", units::counted(before, "frame", "frames"), sender.producer());
        teller.tell(&json!({"event": "note", "text": text}), || text.clone());
    }
    let job = Job {
        args,
        whole,
        sender: &sender,
        stop: &stop,
        pace: Cell::new(None),
        before,
        left_out: Cell::new(0),
        left_out_bytes: Cell::new(0),
        unlike: RefCell::default(),
        has_one_source: from.len() == 1,
        withheld: RefCell::default(),
        is_pipe: Cell::new(false),
        reading: Cell::default(),
        sent: Cell::new(0),
        has_more: Cell::new(false),
        latest: Cell::new(0),
        torn: RefCell::default(),
    };
    begun::tell();
    let report = job.run(from);
    match report {
        Ok(report) => {
            let made = job.made();
            let unlike = whole.and_then(|whole| whole.unlike(made, job.has_more.get()));
            let exit = match &unlike {
                _ if stop.is_asked() => signal.exit(),
                None => Exit::Done,
                Some((_, exit)) => *exit,
            };
            let torn = job.torn.take();
            let exit = if torn.is_empty() { exit } else { exit.worst(Exit::Partial) };
            let others = job.others().filter(|_| !stop.is_asked());
            let exit = if others.is_none() { exit } else { exit.worst(Exit::Changed) };
            let whole = whole.map(|whole| (whole, made));
            tell_end(teller, &report, whole, &torn, sender.slot(), (began.elapsed(), exit));
            if let Some((failure, _)) = unlike.filter(|_| !stop.is_asked()) {
                show::failure(&failure);
            }
            others.iter().for_each(show::failure);
            torn.iter().for_each(|torn| show::failure(&torn.failure()));
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

/// Whether what was sent before can be told in these sources: a pipe gives it no second time.
fn check_resumable(from: &[OsString]) -> Result<()> {
    let is_file = |source: &&OsString| std::fs::metadata(source).is_ok_and(|metadata| metadata.is_file());
    match from.iter().find(|source| *source == "-" || !is_file(source)) {
        Some(source) => {
            let cause =
                format!("{} is no regular file: --resume leaves out what was sent of it", named(source));
            Err(Failure::new(FailureKind::Usage, "read the command line", cause))
        }
        None => Ok(()),
    }
}

/// The set that all of it is, where its frames are known before the first.
#[derive(Debug, Clone, Copy)]
struct Whole {
    set: u64,
    frames: u32,
    /// Somebody said so; else the files do.
    is_told: bool,
}

impl Whole {
    /// `None` without a set, and where only the end will show how many there are.
    fn of(args: &FramesPushArgs, from: &[OsString]) -> Result<Option<Whole>> {
        let Some(set) = args.set else { return Ok(None) };
        if let Some(frames) = args.set_frames {
            return Ok(Some(Whole { set, frames, is_told: true }));
        }
        let sources = || from.iter().map(Path::new);
        let counted = match args.index {
            // What stands under that name is not what is read.
            _ if from.iter().any(|source| source == "-") => None,
            true => files::count_indexed(sources())?,
            false => files::count_cut(sources(), args.frame_bytes.unwrap_or(0)),
        };
        let Some(frames) = counted.filter(|&frames| frames > 0) else { return Ok(None) };
        let frames = u32::try_from(frames).ok().filter(|&frames| frames <= limits::SET_FRAMES_MAX);
        Ok(Some(Whole { set, frames: frames.ok_or_else(too_many)?, is_told: false }))
    }

    /// What is wrong, and costs, if so many were pushed in the end, or there were more.
    fn unlike(self, pushed: u64, has_more: bool) -> Option<(Failure, Exit)> {
        let Whole { set, frames, is_told } = self;
        let what = match has_more {
            true => "there are more: the others were not sent".to_owned(),
            false if pushed < u64::from(frames) => {
                format!("there were {pushed}: consumers are told that {pushed}..{frames} are missing")
            }
            false => return None,
        };
        let (kind, exit, said) = match is_told {
            true => (FailureKind::Usage, Exit::Partial, "was to have"),
            false => (FailureKind::Changed, Exit::Changed, "had, by the files as they were at first,"),
        };
        let frames = failure::counted(frames.into(), "frame", "frames");
        let cause = format!("the set {set} {said} {frames}, and {what}");
        Some((Failure::new(kind, "push frames", cause), exit))
    }
}

fn too_many() -> Failure {
    let cause = format!("a set has at most {} frames", limits::SET_FRAMES_MAX);
    Failure::new(FailureKind::Usage, "push frames", cause)
}

/// The last frame of a source that ended in the middle of it. It was sent.
struct Torn {
    source: OsString,
    sequence: u64,
    bytes: u64,
    /// That a frame has.
    of: u64,
    how: Cause,
}

/// Why a frame has fewer bytes than others.
#[derive(Clone, Copy)]
enum Cause {
    /// The source had no more.
    Ended,
    /// It was to stop: more may have come.
    Stopped,
    /// An earlier push sent it so, and more came since.
    Grew,
}

impl Torn {
    fn json(&self) -> Value {
        json!({"source": Escaped(self.source.as_encoded_bytes()).to_string(), "sequence": self.sequence, "bytes": self.bytes})
    }

    fn failure(&self) -> Failure {
        let Torn { source, sequence, bytes, of, how } = self;
        let source = named(source);
        let sent = format!("it was sent with {} of {of}", failure::counted(*bytes, "byte", "bytes"));
        let cause = match how {
            Cause::Ended => format!("{source} ended in the middle of frame {sequence}: {sent}"),
            Cause::Stopped => format!("{source} was left in the middle of frame {sequence}: {sent}"),
            Cause::Grew => format!(
                "{source} has grown since it ended in the middle of frame {sequence}: {sent}, and the rest of it is in \
                 no frame"
            ),
        };
        Failure::new(FailureKind::Usage, "push frames", cause)
    }
}

/// Whether so many frames of so many bytes, of which the last has `last_bytes`, may be those of a file that was cut by
/// one number of bytes: the smaller last one apart all have it.
fn is_cut_by_another(frames: u64, bytes: u64, last_bytes: u64) -> bool {
    let (others, bytes) = (frames.saturating_sub(1), bytes.saturating_sub(last_bytes));
    bytes.checked_rem(others) == Some(0) && bytes / others >= last_bytes
}

/// A source, for people.
fn named(source: &OsStr) -> String {
    match source == "-" {
        true => "standard input".to_owned(),
        false => format!("`{}`", Escaped(source.as_encoded_bytes())),
    }
}

/// A pipe, or what else may never give anything, that is read no further than to the end of a frame when this shall
/// stop.
struct Pipe<'a> {
    file: File,
    stop: &'a Stop,
    frame_bytes: u64,
    /// Of frames of any size who reads says where they end.
    reading: Option<&'a Cell<Reading>>,
    /// That were read.
    bytes: u64,
}

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // A frame of which something was read is read to its end, as long as it comes: nobody else can read it.
            let is_asked = self.stop.is_asked();
            let reading = self.reading.map(Cell::get);
            let is_between = match reading {
                Some(reading) => reading == Reading::Between,
                None => self.bytes.is_multiple_of(self.frame_bytes),
            };
            if is_asked && is_between {
                return Ok(0);
            }
            let ready = socket::poll(&[(self.file.as_fd(), Interest::READ)], Some(LOOK_AGAIN))?;
            if !ready.iter().any(|ready| ready.readable) {
                if is_asked {
                    return Ok(0);
                }
                continue;
            }
            let most = if is_asked && reading == Some(Reading::Line) { 1 } else { buffer.len() };
            let most = most.min(buffer.len());
            match self.file.read(&mut buffer[..most]) {
                // Who shares it took that, or it was put into non-blocking mode.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                other => return other.inspect(|&read| self.bytes += read as u64),
            }
        }
    }
}

/// Frames at a steady rate, from the first on.
#[derive(Debug, Clone, Copy)]
struct Pace {
    began: Instant,
    per_s: f64,
}

impl Pace {
    /// When a frame is due.
    fn due(self, number: u64) -> Instant {
        self.began + Duration::from_secs_f64((number as f64 / self.per_s).min(DUE_MAX_S))
    }

    /// When a frame was due, in nanoseconds since 1970, where it is `now`, and by the clock on the wall `now_ns`;
    /// `now_ns` itself if it is not due yet.
    fn due_ns(self, number: u64, (now, now_ns): (Instant, u64)) -> u64 {
        let late = now.saturating_duration_since(self.due(number));
        now_ns.saturating_sub(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX))
    }
}

struct Job<'a> {
    args: &'a FramesPushArgs,
    whole: Option<Whole>,
    sender: &'a Sender,
    stop: &'a Stop,
    /// Once the first frame is there.
    pace: Cell<Option<Pace>>,
    /// Frames that the hub has of a push before this one, and those of them that were left out.
    before: u64,
    left_out: Cell<u64>,
    /// Bytes of these, as the sources have them now, and why they are not what the hub has.
    left_out_bytes: Cell<u64>,
    unlike: RefCell<Option<Failure>>,
    has_one_source: bool,
    /// Sets that were declared among those, and their frames: the hub heard of them, and of some the end.
    withheld: RefCell<BTreeMap<u64, u32>>,
    /// What is read is a pipe, or what else cannot be read twice; and where it is in what that has framed.
    is_pipe: Cell<bool>,
    reading: Cell<Reading>,
    sent: Cell<u64>,
    /// There was a frame beyond the whole.
    has_more: Cell<bool>,
    /// Sequence of the latest that was sent.
    latest: Cell<u64>,
    torn: RefCell<Vec<Torn>>,
}

impl Job<'_> {
    fn run(&self, from: &[OsString]) -> Result<ProducerReport> {
        if self.args.durable && self.before > 0 {
            self.wait_for_earlier()?;
        }
        // Before its first frame: who is killed among them has said what there should be. One that goes on says it
        // again only with a frame: the set may be over.
        if self.before == 0 {
            self.declare_whole()?;
        }
        for source in from {
            if self.stop.is_asked() {
                break;
            }
            match self.read(source) {
                Err(_) if self.has_more.get() || self.unlike.borrow().is_some() => break,
                Err(failure) if failure.kind == FailureKind::Stopped && self.stop.is_asked() => break,
                other => other?,
            }
        }
        if let Some(set) = self.args.set
            && self.whole.is_none()
            && self.sent.get() > 0
        {
            let frames = u32::try_from(self.made()).unwrap_or(u32::MAX);
            self.sender.declare_set(set, frames)?;
        }
        loop {
            match self.sender.finish(Some(LOOK_AGAIN)) {
                Err(failure) if failure.kind == FailureKind::Busy => {}
                other => return other,
            }
        }
    }

    fn declare_whole(&self) -> Result<()> {
        self.whole.map_or(Ok(()), |whole| self.sender.declare_set(whole.set, whole.frames))
    }

    /// What an earlier push gave is on disk before anything follows it: a hub that is killed would lose it, and this
    /// one does not send it.
    fn wait_for_earlier(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            match self.sender.wait_for_earlier(Some(LOOK_AGAIN)) {
                Err(failure)
                    if failure.kind == FailureKind::Busy && began.elapsed() < self.args.link.patience =>
                {
                    self.go_on()?;
                }
                other => return other,
            }
        }
    }

    /// The hub has other frames under this name than the sources, or more.
    fn others(&self) -> Option<Failure> {
        if let Some(unlike) = &*self.unlike.borrow() {
            return Some(unlike.clone());
        }
        let (has, left_out) = (self.before, self.left_out.get());
        let cause = format!(
            "the hub has {} of {}, and these files have {left_out}: they are others, and nothing of them was sent; {}",
            failure::counted(has, "frame", "frames"),
            self.sender.producer(),
            self.instead(),
        );
        (left_out < has).then(|| Failure::new(FailureKind::Changed, "push frames", cause))
    }

    /// What brings them to the hub all the same. Of several files nobody knows of which one the last frame was cut
    /// short.
    fn instead(&self) -> &'static str {
        match self.has_one_source {
            true => "under another --producer all of it is sent",
            false => {
                "under another --producer all of them are sent, and one that grows goes on if it has a name of its own"
            }
        }
    }

    /// Frames of the sources up to here: those that were sent, and those that were before.
    fn made(&self) -> u64 {
        self.left_out.get() + self.sent.get()
    }

    /// Whether a frame of a source is left out.
    fn is_left_out(&self) -> bool {
        let is_left_out = self.left_out.get() < self.before;
        self.left_out.set(self.left_out.get() + u64::from(is_left_out));
        is_left_out
    }

    /// Goes past what was sent of a file before.
    fn skip(&self, source: &OsStr, file: &mut File, frame_bytes: u64) -> Result<()> {
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let all = if frame_bytes == 0 { 0 } else { bytes.div_ceil(frame_bytes) };
        let frames = (self.before - self.left_out.get()).min(all);
        let end = frames.saturating_mul(frame_bytes);
        let left_out = end.min(bytes);
        self.left_out.set(self.left_out.get() + frames);
        self.left_out_bytes.set(self.left_out_bytes.get().saturating_add(left_out));
        if frames > 0 && self.left_out.get() == self.before {
            let last_bytes = left_out - (frames - 1).saturating_mul(frame_bytes);
            self.compare_left_out(source, last_bytes, frame_bytes)?;
        }
        let skipped = file.seek(SeekFrom::Start(end));
        skipped.map(|_| ()).map_err(|error| failure::of_io("read frames", &error))
    }

    /// Holds what is left out against what the hub has, as far as it knows: the last frame, of this source, has so many
    /// bytes by now. One that was sent cut short stays so, and is named: what follows it goes on at its place.
    fn compare_left_out(&self, source: &OsStr, last_bytes: u64, frame_bytes: u64) -> Result<()> {
        let Some(TakenBefore { bytes, last_bytes: sent }) = self.sender.taken_before() else { return Ok(()) };
        let (left_out, torn) = (self.left_out_bytes.get(), last_bytes.saturating_sub(sent));
        // Those that were cut short in earlier pushes were named by the next ones. Of several files nobody knows of
        // which one they are, and of any but the last they would move what follows.
        let earlier = left_out.saturating_sub(torn).checked_sub(bytes);
        let is_alike = |earlier: u64| {
            let is_less = earlier.saturating_add(torn).saturating_mul(2) <= left_out;
            let may_be_torn =
                earlier < frame_bytes || is_less && !is_cut_by_another(self.before, bytes, sent);
            earlier == 0 || self.has_one_source && may_be_torn
        };
        if sent > last_bytes || !earlier.is_some_and(is_alike) {
            let has = failure::counted(self.before, "frame", "frames");
            let cause = format!(
                "the hub has {has} of {} with {}, and the first {} of these files have {left_out}: they are \
                 others, or grew since, and nothing of them was sent; {}",
                self.sender.producer(),
                failure::counted(bytes, "byte", "bytes"),
                self.before,
                self.instead(),
            );
            let failure = Failure::new(FailureKind::Changed, "push frames", cause);
            *self.unlike.borrow_mut() = Some(failure.clone());
            return Err(failure);
        }
        if torn > 0 {
            let (source, sequence) = (source.to_owned(), self.before - 1);
            let torn = Torn { source, sequence, bytes: sent, of: frame_bytes, how: Cause::Grew };
            self.torn.borrow_mut().push(torn);
        }
        Ok(())
    }

    fn read(&self, source: &OsStr) -> Result<()> {
        let args = self.args;
        if args.framed {
            let mut from = self.open(source, 1)?;
            let read = framed::read(&mut *from, &self.reading, &mut |given| self.give(given));
            return match read {
                Err(failure) if failure.operation == framed::READ_FRAMED => self.torn_off(failure),
                other => other,
            };
        }
        if args.index {
            let mut sink = |frame| match self.is_left_out() {
                true => self.go_on(),
                false => self.push(frame).and_then(|()| self.go_on()),
            };
            // Of a pipe any number of bytes is read when this shall stop: nothing but lines comes by it.
            let mut lines = self.open(source, 1)?;
            return match files::by_lines(Path::new(source), &mut *lines, &mut sink) {
                // The rest of a line was not waited for.
                Err(torn) if torn.operation == files::READ_INDEX && self.stop.is_asked() => self.go_on(),
                other => other,
            };
        }
        let how = Cut {
            frame_bytes: args.frame_bytes.unwrap_or(0),
            dtype: args.dtype.clone(),
            shape: args.shape.clone(),
        };
        let mut sink = |frame: NewFrame| {
            let is_whole = frame.payload.len() as u64 == how.frame_bytes;
            self.push(frame)?;
            // After a torn one it ends anyway, and says so.
            if is_whole { self.go_on() } else { Ok(()) }
        };
        let mut from = self.open(source, how.frame_bytes)?;
        if let Some(bytes) = files::cut(&mut *from, &how, &mut sink)? {
            let (sequence, of) = (self.latest.get(), how.frame_bytes);
            let how = if self.stop.is_asked() { Cause::Stopped } else { Cause::Ended };
            self.torn.borrow_mut().push(Torn { source: source.to_owned(), sequence, bytes, of, how });
        }
        Ok(())
    }

    /// What a program framed ends in the middle of a record, or is none. What came before was taken, and nobody else
    /// can read it: it is with the hub when this fails.
    fn torn_off(&self, failure: Failure) -> Result<()> {
        // The rest of a record was not waited for.
        if failure.kind == FailureKind::Usage && self.stop.is_asked() {
            return self.go_on();
        }
        loop {
            match self.sender.flush(Some(LOOK_AGAIN)) {
                Err(held_up) if held_up.kind == FailureKind::Busy => {}
                other => return other.and(Err(failure)),
            }
        }
    }

    /// Gives what a program framed. What was read of a pipe goes too when this shall stop: nobody else can read it.
    fn give(&self, given: Given) -> Result<()> {
        let is_before = self.left_out.get() < self.before;
        match given {
            Given::Frame(_) if self.is_left_out() => {}
            Given::Frame(frame) => {
                self.declare_withheld(frame.set)?;
                self.push(frame)?;
            }
            Given::Declare { set, frames } if is_before => self.withhold(set, frames),
            Given::Declare { set, frames } => self.sender.declare_set(set, frames)?,
            Given::EndSet(set) => {
                self.withheld.borrow_mut().remove(&set);
                if !is_before {
                    self.sender.end_set(set)?;
                }
            }
        }
        if self.is_pipe.get() { Ok(()) } else { self.go_on() }
    }

    /// A set was declared among what is left out: it may be over, and more of it may come.
    fn withhold(&self, set: u64, frames: u32) {
        let mut withheld = self.withheld.borrow_mut();
        withheld.insert(set, frames);
        // At a hub the lowest of more is over.
        if withheld.len() > limits::SETS_OPEN_MAX {
            withheld.pop_first();
        }
    }

    /// Says again how many frames the set of a frame has.
    fn declare_withheld(&self, set: Option<(u64, u32)>) -> Result<()> {
        let Some((set, _)) = set else { return Ok(()) };
        let frames = self.withheld.borrow_mut().remove(&set);
        frames.map_or(Ok(()), |frames| self.sender.declare_set(set, frames))
    }

    /// What a source gives, until this shall stop.
    fn open(&self, source: &OsStr, frame_bytes: u64) -> Result<Box<dyn Read + '_>> {
        let is_fifo = || std::fs::metadata(source).is_ok_and(|metadata| metadata.file_type().is_fifo());
        let opened = match source == "-" {
            // Not by its lock, which reads more than it is asked for.
            true => io::stdin().as_fd().try_clone_to_owned().map(File::from),
            // To open it as a file waits for somebody who writes.
            false if is_fifo() => open_pipe(Path::new(source)).map(File::from),
            false => File::open(source),
        };
        let mut file = opened.map_err(|error| {
            let mut failure = failure::of_io("read frames", &error);
            failure.cause = format!("{}: {}", named(source), failure.cause);
            failure
        })?;
        self.is_pipe.set(!file.metadata().is_ok_and(|metadata| metadata.is_file()));
        if !self.is_pipe.get() {
            if self.args.resume && !self.args.index && !self.args.framed {
                self.skip(source, &mut file, frame_bytes)?;
            }
            return Ok(Box::new(file));
        }
        // A frame that is written at once is read at once.
        let most_bytes = usize::try_from(frame_bytes).unwrap_or(usize::MAX);
        let _ = widen_pipe(&file, most_bytes.min(PIPE_BYTES_MAX));
        let reading = self.args.framed.then_some(&self.reading);
        Ok(Box::new(Pipe { file, stop: self.stop, frame_bytes, reading, bytes: 0 }))
    }

    /// Whether there may be another frame.
    fn go_on(&self) -> Result<()> {
        match self.stop.is_asked() {
            true => Err(Failure::new(FailureKind::Stopped, "push frames", "stopped on request")),
            false => Ok(()),
        }
    }

    /// Pushes a frame as long as it takes, also when this shall stop: it was read, and no other push finds it again.
    fn push(&self, frame: NewFrame) -> Result<()> {
        let (args, sent) = (self.args, self.sent.get());
        let index = u32::try_from(self.made()).unwrap_or(u32::MAX);
        if self.whole.is_some_and(|whole| index >= whole.frames) {
            self.has_more.set(true);
            return Err(Failure::new(FailureKind::Usage, "push frames", "the set has no more frames"));
        }
        if args.set.is_some() && index >= limits::SET_FRAMES_MAX {
            return Err(too_many());
        }
        let due_ns = args.frames_per_s.map(|per_s| self.wait_until_due(per_s, sent));
        let deadline_ns = args.deadline.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let frame = NewFrame {
            set: args.set.map(|set| (set, index)).or(frame.set),
            deadline_ns: deadline_ns.or(frame.deadline_ns),
            // When it was made is what an index says; else when it is sent, or was due, as a detector's would be: who
            // is held up is not made later.
            time_ns: due_ns.or(frame.time_ns),
            ..frame
        };
        if self.before > 0 && sent == 0 {
            self.declare_whole()?;
        }
        let prepared = self.sender.prepare(frame)?;
        loop {
            match self.sender.push_prepared(prepared.clone(), Some(LOOK_AGAIN)) {
                Err(failure) if failure.kind == FailureKind::Busy => {}
                other => {
                    self.sent.set(sent + 1);
                    return other.map(|sequence| self.latest.set(sequence));
                }
            }
        }
    }

    /// Waits until a frame is due, or it shall stop; when it was due, in nanoseconds since 1970.
    fn wait_until_due(&self, per_s: f64, number: u64) -> u64 {
        let pace = self.pace.get().unwrap_or_else(|| Pace { began: Instant::now(), per_s });
        self.pace.set(Some(pace));
        let due = pace.due(number);
        while Instant::now() < due && !self.stop.is_asked() {
            std::thread::sleep(due.saturating_duration_since(Instant::now()).min(LOOK_AGAIN));
        }
        pace.due_ns(number, (Instant::now(), wall_ns()))
    }
}

/// `whole`: the set, and how many of its frames were pushed.
fn tell_end(
    teller: Teller,
    report: &ProducerReport,
    whole: Option<(Whole, u64)>,
    torn: &[Torn],
    slot: Option<(SlotHeld, Lag)>,
    (took, exit): (Duration, Exit),
) {
    let figures = &report.figures;
    let mut event = json!({
        "event": "finished", "exit": exit.code(), "producer": report.producer, "frames": figures.frames,
        "bytes": figures.bytes, "next_sequence": report.frames, "again": figures.again,
        "blocked_s": figures.blocked_ns as f64 / 1e9, "outages": figures.outages,
        "clock": clock_json(figures.clock), "seconds": took.as_secs_f64(),
        "set": whole.map(|(whole, pushed)| json!({"set": whole.set, "frames": whole.frames, "pushed": pushed})),
        "torn": torn.iter().map(Torn::json).collect::<Value>(),
    });
    if let Some((held, lag)) = &slot {
        for (key, value) in events::lag(lag) {
            event[key] = value;
        }
        event["slot"] = events::slot(held, Instant::now());
    }
    teller.tell(&event, || {
        let kept = slot.map(|(held, lag)| format!("; {}", slots::kept(&held, &lag)));
        let set = whole.filter(|(whole, pushed)| *pushed < u64::from(whole.frames));
        let set =
            set.map(|(whole, pushed)| format!("; {pushed} of {} of the set {}", whole.frames, whole.set));
        format!(
            "{}, {} in {:.2} s as {}; the hub has all of them{}; waited {} for room; clock {}{}",
            units::counted(figures.frames, "frame", "frames"),
            units::size(figures.bytes),
            took.as_secs_f64(),
            report.producer,
            set.unwrap_or_default(),
            units::time(figures.blocked_ns as f64 / 1e9),
            clock_text(figures.clock),
            kept.unwrap_or_default(),
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_frame_was_made_when_it_was_due_however_long_it_was_held_up() {
        const NOW_NS: u64 = 1_790_000_000_000_000_000;
        let pace = Pace { began: Instant::now(), per_s: 1000.0 };
        // Number, milliseconds after the first in which it is pushed, how long ago it was due then.
        for (number, after_ms, late_ms) in
            [(0, 0, 0), (0, 250, 250), (700, 700, 0), (700, 2200, 1500), (9, 5, 0)]
        {
            let now = pace.began + Duration::from_millis(after_ms);
            let told = pace.due_ns(number, (now, NOW_NS));
            // To the nanosecond, but for the one that a float rounds.
            assert!(told.abs_diff(NOW_NS - late_ms * 1_000_000) <= 1, "{number} after {after_ms} ms");
            assert!(told <= NOW_NS, "made later than now");
        }
        // Of frames that wait together each is as late as it is.
        let held_up = (pace.began + Duration::from_secs(2), NOW_NS);
        let told = |number| pace.due_ns(number, held_up);
        assert!((1..1000).all(|number| told(number) > told(number - 1)));
    }

    #[test]
    fn a_pace_that_hardly_goes_on_and_a_clock_before_1970_break_nothing() {
        let pace = Pace { began: Instant::now(), per_s: f64::MIN_POSITIVE };
        assert_eq!(pace.due(u64::MAX), pace.began + Duration::from_secs(1_000_000_000));
        assert_eq!(pace.due(0), pace.began);
        assert_eq!(pace.due_ns(0, (pace.began + Duration::from_secs(9), 5)), 0);
    }

    #[test]
    fn a_set_that_is_not_what_was_said_costs_an_exit_code_by_who_said_it() {
        let exit = |is_told, pushed, has_more| {
            let whole = Whole { set: 42, frames: 1440, is_told };
            whole.unlike(pushed, has_more).map(|(failure, exit)| {
                assert!(failure.cause.contains("42") && failure.cause.contains("1440"), "{failure}");
                exit
            })
        };
        assert_eq!((exit(true, 1440, false), exit(false, 1440, false)), (None, None));
        assert_eq!(
            (exit(true, 700, false), exit(true, 1440, true)),
            (Some(Exit::Partial), Some(Exit::Partial))
        );
        assert_eq!(
            (exit(false, 700, false), exit(false, 1440, true)),
            (Some(Exit::Changed), Some(Exit::Changed))
        );
    }
}
