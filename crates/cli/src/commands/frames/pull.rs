//! `thalweg frames pull`.

use super::{Teller, clock_json, clock_text, latency_json, latency_text, link_settings, lost_json};
use crate::exit::Exit;
use crate::place::Places;
use crate::{signals, units};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_cli::args::frames::FramesPullArgs;
use thalweg_client::far_movers::How;
use thalweg_client::frames::files::{FrameFiles, Recovered};
use thalweg_client::frames::{
    self, ConsumerReport, Delivery, Frame, FramePolicy, Hub, HubWishes, LossReason, LostRange, Receiver,
    ReceiverWishes, SetReport, framed,
};
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::run::copy::Stop;
use thalweg_mover::run::far_mover::AskedOfWay;
use thalweg_sys::Dir;
use thalweg_wire::path::Escaped;

/// Between two looks whether it shall stop.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// What came is settled when nothing more comes for so long, and at the latest after so long.
const SETTLE_AFTER: Duration = Duration::from_millis(20);
const SETTLE_EVERY: Duration = Duration::from_secs(1);
/// How long a hub of ours stays for producers that have finished, and how often it looks.
const FAREWELL: Duration = Duration::from_secs(5);
const SEE_OFF_EVERY: Duration = Duration::from_millis(10);

/// Takes frames until the end.
///
/// # Errors
/// When it could not begin.
pub(super) fn pull(args: &FramesPullArgs, places: &Places) -> Result<Exit> {
    let teller = Teller::of(&args.link, args.directory == OsStr::new("-"));
    let mut to = To::open(args)?;
    if args.hub.is_some() {
        tell_unused_of_hub(args, teller);
    }
    let stop = Arc::new(Stop::default());
    let telling = "stopping: what was taken is put away first; once more to stop at once";
    let signal = signals::stop_on(stop.clone(), (!args.link.quiet).then_some(telling))?;
    let wishes = ReceiverWishes {
        policy: args.policy,
        group: args.group.clone(),
        from: args.from,
        name: args.name.clone(),
        producers: args.producers,
        keep: args.keep,
        link_bits_per_s: args.link_rate,
        window_bytes: args.link.window,
        channel: args.link.wishes(),
        streams: args.link.streams,
        link: link_settings(&args.link, teller, false)?,
        events: teller.events(),
    };
    let mut own = args.hub.as_deref().map(|directory| OwnHub::start(directory, args)).transpose()?;
    let (place, how) = match &own {
        Some(own) => (own.place.clone(), own.how(args, places)),
        None => (args.place.clone(), args.link.how(places)),
    };
    let began = Instant::now();
    let receiver = Receiver::open(&place, how, wishes)?;
    // Now that who pushes finds somebody who takes.
    if let Some(own) = &mut own {
        own.tell(teller);
        own.look(teller)?;
    }
    let holds = args.name.is_some();
    if holds {
        // Who is killed goes on behind what it had put away, not behind what it had.
        receiver.hold();
    }
    let mut job = Job {
        args,
        receiver: &receiver,
        teller,
        to: &mut to,
        holds,
        is_settled: true,
        settled_at: began,
        sets: 0,
    };
    // What cannot be put away is still at the hub.
    let ended = match job.run(&stop) {
        // Whoever takes the frames has gone.
        Err(failure) if failure.kind == FailureKind::Stopped => {
            return Ok(teller.failed(&failure, Exit::Nothing));
        }
        ended => ended?,
    };
    let sets = job.sets;
    receiver.settle();
    let report = match &ended {
        Ended::Over(report) => (**report).clone(),
        // The same command goes on behind what was put away, if it has a name.
        Ended::Failed(_) | Ended::Stopped | Ended::Counted => receiver.let_go(),
    };
    drop(receiver);
    if let (Some(own), Ended::Over(_) | Ended::Counted) = (&own, &ended) {
        own.see_off(args, places);
    }
    let exit = match &ended {
        Ended::Failed(failure) => return Ok(teller.failed(failure, Exit::of(failure.kind))),
        Ended::Stopped => signal.exit(),
        Ended::Over(_) | Ended::Counted => exit_of(args.policy, &report, sets),
    };
    tell_end(teller, &report, &to, began.elapsed(), exit);
    Ok(exit)
}

/// A consumer of a hub in this process has one way to it.
fn tell_unused_of_hub(args: &FramesPullArgs, teller: Teller) {
    let AskedOfWay { via, bind, .. } = args.link.typed.of_streams;
    let options = [via.then_some("--via"), bind.then_some("--bind")];
    let options: Vec<&str> = options.into_iter().flatten().collect();
    if !options.is_empty() {
        let options = options.join(", ");
        let text = format!("without effect with --hub: {options} (--listen says where producers come in)");
        teller.tell(&json!({"event": "note", "text": text}), || text.clone());
    }
}

/// Why it took no more.
enum Ended {
    /// Nothing follows.
    Over(Box<ConsumerReport>),
    /// It has as many as were asked for.
    Counted,
    /// Somebody asked it to stop.
    Stopped,
    /// No more could be had.
    Failed(Failure),
}

struct Job<'a> {
    args: &'a FramesPullArgs,
    receiver: &'a Receiver,
    teller: Teller,
    to: &'a mut To,
    /// What came counts as taken only when it is settled.
    holds: bool,
    /// Nothing came since that, and when it was.
    is_settled: bool,
    settled_at: Instant,
    /// Sets that are not complete.
    sets: u64,
}

impl Job<'_> {
    /// Takes frames until the end, and puts them away: what came is whole then, whatever ended it.
    fn run(&mut self, stop: &Stop) -> Result<Ended> {
        self.to.recover(self.teller)?;
        let ended = self.take(stop)?;
        self.to.close()?;
        Ok(ended)
    }

    fn take(&mut self, stop: &Stop) -> Result<Ended> {
        let mut is_first = true;
        while !stop.is_asked() {
            let wait = if self.is_settled { LOOK_AGAIN } else { SETTLE_AFTER };
            match self.receiver.next(Some(wait)) {
                Err(failure) => return Ok(Ended::Failed(failure)),
                Ok(None) => {
                    self.settle()?;
                    continue;
                }
                Ok(Some(Delivery::Frame(frame))) => {
                    // A hub that is another than before does not know what an earlier process took.
                    let may_come_again = self.receiver.has_gone_on() || self.args.name.is_some();
                    if std::mem::take(&mut is_first) && may_come_again {
                        self.to.expect_again();
                    }
                    self.to.frame(&frame)?;
                    if self.args.count.is_some_and(|count| self.to.frames() >= count) {
                        return Ok(Ended::Counted);
                    }
                }
                Ok(Some(Delivery::Lost(lost))) => {
                    self.to.lost(&lost)?;
                    tell_lost(self.teller, &lost);
                }
                Ok(Some(Delivery::Set(set))) => {
                    self.sets += u64::from(!set.is_complete());
                    self.to.set_over(&set)?;
                    tell_set(self.teller, &set);
                }
                Ok(Some(Delivery::End(report))) => return Ok(Ended::Over(report)),
            }
            self.is_settled = false;
            if self.holds && self.is_due() {
                self.settle()?;
            }
        }
        Ok(Ended::Stopped)
    }

    fn is_due(&self) -> bool {
        let is_away = self.to.is_put_away();
        is_away || self.receiver.wants_settling() || self.settled_at.elapsed() >= SETTLE_EVERY
    }

    /// What came outlives this process. Where a name says who comes back it outlives a power cut too, and then the hub
    /// need not keep it.
    fn settle(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_settled, true) {
            return Ok(());
        }
        if !self.holds {
            return self.to.flush();
        }
        self.to.sync()?;
        self.receiver.settle();
        self.settled_at = Instant::now();
        Ok(())
    }
}

/// A hub of this process, with a directory that is no other's meanwhile. Its ticket goes with it: nobody else has these
/// keys.
struct OwnHub {
    /// It ends with the value.
    hub: Arc<Hub>,
    channel: String,
    place: OsString,
    ticket: PathBuf,
    looking: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
    /// Held as long as the directory is ours.
    _lock: thalweg_sys::File,
}

/// Between two looks whether the log can be written.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Names in the hub's directory.
const TICKET: &str = "ticket";
const SPILL: &str = "spill";

impl OwnHub {
    fn start(directory: &Path, args: &FramesPullArgs) -> Result<OwnHub> {
        let name = args.place.to_str().unwrap_or_default();
        let (spill, ticket) = (directory.join(SPILL), directory.join(TICKET));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&spill);
        made.map_err(|error| failure::of_io("make the hub's directory", &error))?;
        let lock = OwnHub::take(directory)?;
        let mut wishes = HubWishes::new(&spill, &ticket);
        wishes.listen = args.listen.iter().cloned().chain(wishes.listen).take(1).collect();
        let hub = Arc::new(Hub::start(&wishes)?);
        let place = hub.place(name)?;
        Ok(OwnHub { hub, channel: name.to_owned(), place, ticket, looking: None, _lock: lock })
    }

    /// Takes the directory, and removes what one that was killed left in it: a ticket that leads nowhere would be taken
    /// for ours.
    fn take(directory: &Path) -> Result<thalweg_sys::File> {
        const TAKE_DIRECTORY: &str = "take the hub's directory";
        let of_io = |error: std::io::Error| failure::of_io(TAKE_DIRECTORY, &error);
        let held = Dir::open(directory).map_err(of_io)?;
        let lock = held.as_file().map_err(of_io)?;
        if !lock.lock_exclusive().map_err(of_io)? {
            let cause =
                format!("another `frames pull --hub` has {}", Escaped(directory.as_os_str().as_bytes()));
            let failure = Failure::new(FailureKind::Busy, TAKE_DIRECTORY, cause);
            return Err(failure.because(Reason::HubDirectoryTaken));
        }
        let unfinished = format!(".{TICKET}.");
        for entry in held.entries().map_err(of_io)? {
            let name = entry.map_err(of_io)?.name;
            if name == TICKET.as_bytes() || name.starts_with(unfinished.as_bytes()) {
                held.remove_file(&name).map_err(of_io)?;
            }
        }
        Ok(lock)
    }

    fn how(&self, args: &FramesPullArgs, places: &Places) -> How {
        // It is in this process: no other way leads there.
        let (via, bind, family) = (Vec::new(), Vec::new(), None);
        How { ticket: Some(self.ticket.clone()), via, bind, family, ..args.link.how(places) }
    }

    fn tell(&self, teller: Teller) {
        let (place, ticket) = (self.place.to_string_lossy(), self.ticket.to_string_lossy());
        let event = json!({"event": "hub", "place": place, "ticket": ticket});
        teller.tell(&event, || format!("frames are taken at {place}, from who has {ticket}"));
    }

    /// Tells when the log cannot be written, and when it can again: producers are held up, and who takes frames sees
    /// none.
    fn look(&mut self, teller: Teller) -> Result<()> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (hub, channel, over) = (self.hub.clone(), self.channel.clone(), is_over.clone());
        let work = move || {
            let mut told = None;
            while !over.load(Ordering::Acquire) {
                let now = hub.spill_trouble(&channel);
                if now != told {
                    let text = match &now {
                        Some(why) => format!("the spill log cannot be written, producers wait: {why}"),
                        None => "the spill log can be written again".to_owned(),
                    };
                    teller.tell(&json!({"event": "note", "text": text}), || text.clone());
                    told = now;
                }
                std::thread::park_timeout(LOOK_EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("hub".into()).spawn(work);
        let thread = thread.map_err(|error| failure::of_thread(&error))?;
        self.looking = Some((is_over, thread));
        Ok(())
    }

    /// Waits until producers that finished have heard that they did, and are gone: but for who hangs, at once.
    fn see_off(&self, args: &FramesPullArgs, places: &Places) {
        let until = Instant::now() + FAREWELL;
        let is_somebody_there = || {
            let status = frames::status(&self.place, self.how(args, places));
            status.is_ok_and(|status| status.producers.iter().any(|one| one.is_linked && one.is_finished))
        };
        while Instant::now() < until && is_somebody_there() {
            std::thread::sleep(SEE_OFF_EVERY);
        }
    }
}

impl Drop for OwnHub {
    fn drop(&mut self) {
        if let Some((is_over, thread)) = self.looking.take() {
            is_over.store(true, Ordering::Release);
            thread.thread().unpark();
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.ticket);
    }
}

/// Losses that the policy asked for are no failure; all others are.
fn exit_of(policy: FramePolicy, report: &ConsumerReport, incomplete: u64) -> Exit {
    let drops = matches!(policy, FramePolicy::DropOldest { .. } | FramePolicy::LatestOnly);
    let was_asked = |reason| drops && matches!(reason, LossReason::Dropped | LossReason::Superseded);
    let has_lost = report.figures.lost.iter().any(|(reason, _)| !was_asked(*reason));
    match has_lost || !report.producers_gone.is_empty() || (incomplete > 0 && !drops) {
        true => Exit::Partial,
        false => Exit::Done,
    }
}

fn tell_lost(teller: Teller, lost: &LostRange) {
    let reason = lost.reason.name();
    let event = json!({
        "event": "lost", "producer": lost.producer.as_str(), "first": lost.first, "end": lost.end, "reason": reason,
    });
    teller
        .tell(&event, || format!("lost of {}: {} to {} ({reason})", lost.producer, lost.first, lost.end - 1));
}

fn tell_set(teller: Teller, set: &SetReport) {
    let event = json!({
        "event": "set", "set": set.set, "frames": set.frames, "delivered": set.delivered, "taken": set.taken,
        "complete": set.is_complete(), "missing": set.missing,
    });
    teller.tell(&event, || match set.is_complete() {
        true => {
            let frames = failure::counted(set.frames.into(), "frame", "frames");
            format!("set {} is complete: {frames}", set.set)
        }
        false => {
            let missing: Vec<String> =
                set.missing.iter().take(20).map(|(a, b)| format!("{a}..{b}")).collect();
            let more = if set.missing.len() > 20 { ", ..." } else { "" };
            let delivered = set.delivered;
            let frames = failure::counted(set.frames.into(), "frame", "frames");
            format!("set {} has {delivered} of {frames}; missing: {}{more}", set.set, missing.join(", "))
        }
    });
}

fn tell_end(teller: Teller, report: &ConsumerReport, to: &To, took: Duration, exit: Exit) {
    let (files, stood) = to.files();
    let figures = &report.figures;
    let event = json!({
        "event": "finished", "exit": exit.code(), "frames": figures.frames, "bytes": figures.bytes,
        "lost": lost_json(&figures.lost), "sets_complete": figures.sets.0, "sets_incomplete": figures.sets.1,
        "again": figures.again, "damaged": figures.damaged, "late": figures.late,
        "with_deadline": figures.with_deadline, "deadline_unknown": figures.deadline_unknown,
        "latency": latency_json(figures.latency), "unmeasured": figures.unmeasured, "clock": clock_json(figures.clock),
        "outages": figures.outages, "files": files, "stood": stood, "producers_finished": report.producers_finished,
        "producers_gone": report.producers_gone, "seconds": took.as_secs_f64(),
    });
    teller.tell(&event, || {
        let mut line = format!(
            "{}, {} in {:.2} s; verified",
            units::counted(figures.frames, "frame", "frames"),
            units::size(figures.bytes),
            took.as_secs_f64(),
        );
        match figures.lost_frames() {
            0 => line.push_str("; none lost"),
            lost => line.push_str(&format!("; {} lost, each named", units::count(lost))),
        }
        if stood > 0 {
            line.push_str(&format!("; {} came again and stood in the files", units::count(stood)));
        }
        if figures.with_deadline > 0 {
            line.push_str(&format!("; {} of {} late", figures.late, figures.with_deadline));
        }
        if figures.deadline_unknown > 0 {
            line.push_str(&format!(", {} not known to be in time", units::count(figures.deadline_unknown)));
        }
        if let Some(latency) = figures.latency {
            line.push_str(&format!("; {}; clock {}", latency_text(latency), clock_text(figures.clock)));
        }
        if figures.unmeasured > 0 {
            let frames = units::counted(figures.unmeasured, "frame", "frames");
            line.push_str(&format!(
                "; latency of {frames} not known: they came before both clocks were measured"
            ));
        }
        if !report.producers_gone.is_empty() {
            line.push_str(&format!("; went away without finishing: {}", report.producers_gone.join(", ")));
        }
        line
    });
}

/// Where frames go.
enum To {
    Files(Box<FrameFiles>, u64),
    Pipe(std::io::Stdout, u64),
    /// With a line before each, and lines of what was lost or is over.
    Framed(std::io::Stdout, u64),
    Null(u64),
}

/// Whoever reads standard output may have gone.
fn of_pipe(error: &std::io::Error) -> Failure {
    let mut failure = failure::of_io("write frames", error);
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        failure.kind = FailureKind::Stopped;
    }
    failure
}

impl To {
    fn open(args: &FramesPullArgs) -> Result<To> {
        let is_pipe = args.directory == OsStr::new("-");
        if args.framed && !is_pipe {
            let cause = "--framed is for standard output: - in place of the directory";
            return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
        }
        if is_pipe {
            let out = std::io::stdout();
            return Ok(if args.framed { To::Framed(out, 0) } else { To::Pipe(out, 0) });
        }
        if args.directory == OsStr::new("null:") {
            return Ok(To::Null(0));
        }
        let files = FrameFiles::new(Path::new(&args.directory), &args.file_name, args.every)?;
        Ok(To::Files(Box::new(files), 0))
    }

    fn frame(&mut self, frame: &Frame) -> Result<()> {
        match self {
            To::Files(files, count) => {
                *count += 1;
                files.frame(frame)
            }
            To::Pipe(out, count) => {
                *count += 1;
                out.write_all(&frame.payload).and_then(|()| out.flush()).map_err(|error| of_pipe(&error))
            }
            To::Framed(out, count) => {
                *count += 1;
                let written = framed::write_frame(out, frame).and_then(|()| out.flush());
                written.map_err(|error| of_pipe(&error))
            }
            To::Null(count) => {
                *count += 1;
                Ok(())
            }
        }
    }

    fn lost(&mut self, lost: &LostRange) -> Result<()> {
        match self {
            To::Files(files, _) => files.lost(lost),
            To::Framed(out, _) => framed::write_lost(out, lost).map_err(|error| of_pipe(&error)),
            To::Pipe(..) | To::Null(_) => Ok(()),
        }
    }

    fn set_over(&mut self, set: &SetReport) -> Result<()> {
        match self {
            To::Files(files, _) => files.set_over(set),
            To::Framed(out, _) => framed::write_set(out, set).map_err(|error| of_pipe(&error)),
            To::Pipe(..) | To::Null(_) => Ok(()),
        }
    }

    /// Frames that were put there: not those that came again and stood there.
    fn frames(&self) -> u64 {
        match self {
            To::Files(files, count) => count - files.stood(),
            To::Pipe(_, count) | To::Framed(_, count) | To::Null(count) => *count,
        }
    }

    /// Gives what was left by a pull that was killed its name.
    fn recover(&mut self, teller: Teller) -> Result<()> {
        let To::Files(files, _) = self else { return Ok(()) };
        for Recovered { name, frames, torn_bytes } in files.recover()? {
            let event =
                json!({"event": "recovered", "file": name, "frames": frames, "torn_bytes": torn_bytes});
            teller.tell(&event, || {
                let torn = match torn_bytes {
                    0 => String::new(),
                    _ => format!("; {} behind them are torn, in {name}.torn", units::size(torn_bytes)),
                };
                let frames = units::counted(frames, "frame", "frames");
                format!("of a pull that was killed: {frames}, in {name}{torn}")
            });
        }
        Ok(())
    }

    /// Another process may have had what comes first: it may be here already.
    fn expect_again(&mut self) {
        if let To::Files(files, _) = self {
            files.expect_again();
        }
    }

    /// Whether nothing of what came is in our hands.
    fn is_put_away(&self) -> bool {
        match self {
            To::Files(files, _) => !files.is_open(),
            To::Pipe(..) | To::Framed(..) | To::Null(_) => true,
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            To::Files(files, _) => files.flush(),
            _ => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<()> {
        match self {
            To::Files(files, _) => files.sync(),
            _ => Ok(()),
        }
    }

    fn close(&mut self) -> Result<()> {
        match self {
            To::Files(files, _) => files.close(),
            _ => Ok(()),
        }
    }

    /// Files that have their names, and frames that came again and stood in older ones.
    fn files(&self) -> (u64, u64) {
        match self {
            To::Files(files, _) => (files.finished(), files.stood()),
            _ => (0, 0),
        }
    }
}
