//! What measures a way: parts by who has them, transfers by the link.

use super::schedule::{Alone, Hands, Schedule, Side, Transfer};
use super::timed_transfer::{Run, Way};
use super::{PROBE, STALL};
use crate::signals;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_client::job::Job;
use thalweg_client::predict::path;
use thalweg_lab::probe::{Measurements, Rate};
use thalweg_mover::basin::Evidence;
use thalweg_mover::event;
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::measure::{self, Measure};
use thalweg_mover::plan;
use thalweg_mover::run::client::{Client, LinkSettings};
use thalweg_mover::run::copy::{From, Movement, To};
use thalweg_wire::limits;
use thalweg_wire::message::{MeasureTerms, Measured, Part, Place, Question, Reply};

/// Everything that measuring needs.
pub struct Measurer<'a> {
    pub(super) job: &'a Job,
    client: Option<Client>,
    streams: u16,
    /// As a copy without options has them, before trials found others for the way.
    terms: MeasureTerms,
    /// What its transfers begin with.
    pub(super) movement: Movement,
    pub(super) seconds: f64,
    pub(super) state: PathBuf,
    is_told: bool,
    pub(super) stop: Arc<AtomicBool>,
}

impl<'a> Measurer<'a> {
    /// `movement`: streams and link as asked for.
    pub fn new(
        job: &'a Job,
        movement: Movement,
        time: Duration,
        state: &Path,
        is_quiet: bool,
    ) -> Result<Measurer<'a>> {
        let far = match (&job.from, &job.to) {
            (From::Far(far, _), _) | (_, To::Far(far, _)) => Some(far),
            _ => None,
        };
        let link = LinkSettings { stall_timeout: STALL, patience: STALL, ..movement.link };
        let movement = Movement { holds_still: true, link, ..movement };
        let client = far.map(|far| far.dial(movement.link.clone(), event::nobody())).transpose()?;
        let planned = plan::plan(&movement.asked, &path(job, client.as_ref()));
        let terms = MeasureTerms {
            chunk_bytes: planned.chunk_bytes.value,
            segment_bytes: planned.segment_bytes.value,
            disk: movement.asked.disk,
        };
        let stop = Arc::new(AtomicBool::new(false));
        signals::flag_on(stop.clone())?;
        Ok(Measurer {
            job,
            client,
            streams: planned.streams.value,
            terms,
            movement,
            seconds: time.as_secs_f64(),
            state: state.to_owned(),
            is_told: !is_quiet && console::Term::stderr().is_term(),
            stop,
        })
    }

    /// The path between the two sides, as a plan takes it.
    pub fn path(&self) -> plan::Path {
        path(self.job, self.client.as_ref())
    }

    /// Measures all of it, in [`super::schedule::at_most`] however slow the way is.
    ///
    /// # Errors
    /// `Stopped`; what could not be measured is in the result.
    pub fn measure(&self) -> Result<Measurements> {
        let hands = Real { measurer: self, began: Instant::now() };
        let (from, to) = (&self.job.from, &self.job.to);
        Schedule { from, to, is_linked: self.client.is_some(), seconds: self.seconds }.run(&hands)
    }

    /// The source to the destination as a transfer with these settings, at most so many bytes; stopped after twice the
    /// time that it should take. The outer error ends everything, the inner one is told.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn trial(
        &self,
        words: &str,
        bytes_max: u64,
        time: Duration,
        change: impl FnOnce(&mut Movement),
    ) -> Result<Result<(Rate, Evidence)>> {
        let run = Run::new(self, self.job.from.clone(), self.job.to.clone(), bytes_max).with(time, change);
        Ok(self.settled(words, &run)?.map(|(rate, evidence, _)| (rate, evidence)))
    }

    fn say(&self, text: &str) {
        if self.is_told {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "measuring: {text}");
        }
    }

    fn check_stopped(&self) -> Result<()> {
        match self.stop.load(Ordering::Acquire) {
            true => {
                let failure = Failure::new(FailureKind::Stopped, PROBE, "stopped on request");
                Err(failure.because(Reason::BeginsAnew))
            }
            false => Ok(()),
        }
    }

    /// One part alone. The outer error ends the probe, the inner one is told.
    fn alone(&self, asked: Alone) -> Result<Result<Measured>> {
        let Alone { side, part, time, at_most } = asked;
        self.check_stopped()?;
        let what = match part {
            Part::Read => "read",
            Part::Digest => "digest",
            Part::Seal => "encrypt",
            Part::Open => "decrypt",
            Part::Write => "write, sync",
        };
        self.say(&format!("{what} alone"));
        let far = match (&self.job.from, &self.job.to, side) {
            (From::Far(_, places), _, Side::Source) => places.first(),
            (_, To::Far(_, place), Side::Destination) => Some(place),
            _ => None,
        };
        if let Some((client, place)) = self.client.as_ref().zip(far) {
            return Ok(ask(client, place, part, (time, at_most), (self.streams, self.terms)));
        }
        let path = match (&self.job.from, &self.job.to, side) {
            (From::Local(paths), _, Side::Source) => paths.first().cloned().unwrap_or_default(),
            (_, To::Local(path), Side::Destination) => path.clone(),
            _ => PathBuf::new(),
        };
        let asked = Measure {
            part,
            contents: path.as_os_str().as_bytes().ends_with(b"/"),
            path,
            below: None,
            bytes_max: u64::MAX,
            time,
            threads: self.streams,
            cipher: self.movement.link.cipher,
            terms: self.terms,
        };
        let until = Instant::now() + at_most;
        Ok(measure::measure(asked, &|| self.stop.load(Ordering::Acquire) || Instant::now() >= until))
    }

    fn settled(&self, what: &str, run: &Run<'_>) -> Result<Way> {
        self.check_stopped()?;
        self.say(what);
        let result = run.run_and_settle();
        self.check_stopped()?;
        Ok(result)
    }
}

/// Measures what it is asked to.
struct Real<'a> {
    measurer: &'a Measurer<'a>,
    began: Instant,
}

impl Hands for Real<'_> {
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn alone(&self, asked: Alone) -> Result<Result<Measured>> {
        self.measurer.alone(asked)
    }

    fn transfer(&self, asked: Transfer) -> Result<Way> {
        let Transfer { what, from, to, bytes_max, chunk_bytes, time, at_most } = asked;
        let run = Run::new(self.measurer, from, to, bytes_max).with(time, |movement| {
            movement.asked.chunk_bytes = chunk_bytes;
        });
        self.measurer.settled(what, &run.at_most(at_most))
    }
}

/// What a far side measures in so much time, waited for so long.
fn ask(
    client: &Client,
    place: &Place,
    part: Part,
    (time, at_most): (Duration, Duration),
    (threads, terms): (u16, MeasureTerms),
) -> Result<Measured> {
    let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).clamp(1, limits::MEASURE_MILLIS_MAX);
    let most = limits::STREAM_BYTES_MAX / u64::from(terms.segment_bytes.max(1));
    let most = u16::try_from(most).unwrap_or(u16::MAX).clamp(1, limits::MEASURE_THREADS_MAX);
    let threads = threads.clamp(1, most);
    let mut measured = None;
    let question = Question::Measure { place: place.clone(), part, millis, threads, terms };
    for reply in client.ask(question)?.within(at_most) {
        match reply? {
            Reply::Measured(said) => measured = Some(said),
            _ => {
                let cause = "the server answered another question";
                return Err(Failure::new(FailureKind::Protocol, "measure", cause));
            }
        }
    }
    measured.ok_or_else(|| Failure::new(FailureKind::Protocol, "measure", "the server gave no answer"))
}
