//! One stream, from its ends as they are written to its report: what the program and the Python module do the same way.

use crate::far_movers::{self, FarMovers, Whom};
use crate::place::{Place, Places};
use crate::receipt::ReportFile;
use crate::{identity, not_here};
use serde_json::Value;
use std::ffi::OsStr;
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Arc, Mutex};
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io};
use thalweg_mover::flow::numbers::FlowNumbers;
use thalweg_mover::link::Identity;
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{EvidenceSink, Stop, Watch};
use thalweg_mover::run::far_mover::FarMover;
use thalweg_mover::run::flow::job::{self, FlowFrom, FlowReport, FlowTo, FlowWishes};
use thalweg_service::published::{Publisher, State};
use thalweg_wire::EntryId;
use thalweg_wire::message;

/// One end of a stream.
pub enum End {
    /// A pipe: read to its end, or written.
    Pipe(OwnedFd),
    /// A place.
    Named(Place),
}

impl End {
    /// As typed; `-` is the pipe, which is then asked for.
    ///
    /// # Errors
    /// `Usage`, if it is no place; what opening the pipe says.
    pub fn parse(text: &OsStr, places: &Places, pipe: impl FnOnce() -> Result<OwnedFd>) -> Result<End> {
        match text.as_encoded_bytes() {
            b"-" => pipe().map(End::Pipe),
            _ => Place::parse(text, places).map(End::Named),
        }
    }

    /// Whether it is a pipe.
    pub fn is_pipe(&self) -> bool {
        matches!(self, End::Pipe(_))
    }
}

/// Both ends, reached, and who signs for this side.
pub struct Ends {
    /// Where the bytes come from.
    pub from: FlowFrom,
    /// Where they go.
    pub to: FlowTo,
    /// Who signs.
    pub signer: Arc<Identity>,
}

impl Ends {
    /// The far mover that is to be reached, if one end is far.
    pub fn far(source: &End, destination: &End) -> Option<Whom> {
        let of = |end: &End| match end {
            End::Named(named) => Whom::of(named),
            End::Pipe(_) => None,
        };
        match (of(source), of(destination)) {
            (Some(whom), None) | (None, Some(whom)) => Some(whom),
            _ => None,
        }
    }

    /// Reaches the far one, if one is far. `state` is where our own keys are.
    ///
    /// # Errors
    /// `Usage` for what cannot be an end of a stream; `Unsupported` for a bucket, and if both are far; when the far
    /// mover cannot be reached.
    pub fn reach(source: End, destination: End, far_movers: &mut FarMovers, state: &Path) -> Result<Ends> {
        if let (End::Named(from), End::Named(to)) = (&source, &destination)
            && Whom::of(from).and(Whom::of(to)).is_some()
        {
            return Err(not_here::both_far("stream", std::slice::from_ref(from), to));
        }
        let from = match source {
            End::Pipe(pipe) => FlowFrom::Pipe(pipe),
            End::Named(Place::Local(path)) => FlowFrom::Local(path),
            End::Named(Place::Object { .. }) => return Err(unsupported(not_here::STREAM_FROM_BUCKET)),
            End::Named(named) => match far(&named, far_movers)? {
                Some((far, place)) => FlowFrom::Far(far, place),
                None => return Err(usage("this is no source of a stream")),
            },
        };
        let to = match destination {
            End::Pipe(pipe) => FlowTo::Pipe(pipe),
            End::Named(Place::Local(path)) => FlowTo::Local(path),
            End::Named(Place::Null) => FlowTo::Null,
            End::Named(Place::Object { .. }) => return Err(unsupported(not_here::STREAM_TO_BUCKET)),
            End::Named(named) => match far(&named, far_movers)? {
                Some((far, place)) => FlowTo::Far(far, place),
                None => return Err(usage("this is no destination of a stream")),
            },
        };
        Ok(Ends { from, to, signer: Arc::new(identity::own(state)?) })
    }

    /// Streams, and tells what it does in the state directory, under the `names` of source and destination as a user
    /// would write them. See [`job::stream`] for what it does to `watch` (whose `evidence` is taken for the telling)
    /// and when it stops.
    ///
    /// # Errors
    /// As [`job::stream`].
    pub fn run(
        self,
        names: [&str; 2],
        wishes: &FlowWishes,
        state: &Path,
        watch: &Watch,
        stop: &Stop,
    ) -> Result<FlowReport> {
        // Nobody knows how much there is to be done.
        let progress = None;
        let told = Publisher::begin(state, names[0], names[1], false).map(Arc::new);
        let evidence =
            told.clone().map(|told| -> EvidenceSink { Arc::new(move |now| told.tell(now, progress)) });
        let watch = Watch { evidence, ..watch.clone() };
        let result = job::stream(self.from, self.to, wishes, &self.signer, &watch, stop);
        if let Some(told) = told {
            if let Ok(report) = &result {
                told.tell(&report.evidence, progress);
            }
            told.over(if result.is_ok() { State::Finished } else { State::Failed });
        }
        result
    }
}

/// A far mover, and the place there.
type There = (Arc<FarMover>, message::Place);

fn far(named: &Place, far_movers: &mut FarMovers) -> Result<Option<There>> {
    let Some((whom, there)) = Whom::of(named).zip(far_movers::place_there(named)) else { return Ok(None) };
    Ok(Some((far_movers.reach(&whom)?.far, there)))
}

/// A report: a line for each file, once: after an outage in which a session ended complete files are settled again.
pub struct Report {
    file: ReportFile,
    told: Mutex<FlowNumbers>,
}

impl Report {
    /// Begins it.
    ///
    /// # Errors
    /// As [`ReportFile::begin`].
    pub fn begin(path: &Path) -> Result<Report> {
        Ok(Report { file: ReportFile::begin(path)?, told: Mutex::default() })
    }

    /// How a file ended.
    pub fn tell(&self, flow: EntryId, event: impl FnOnce() -> Value) {
        if lock(&self.told).add(flow) {
            self.file.line(&event());
            // A stream may go on for months, and is read about meanwhile.
            self.file.flush();
        }
    }

    /// Makes it durable.
    ///
    /// # Errors
    /// As [`ReportFile::finish`].
    pub fn finish(&self) -> Result<()> {
        self.file.finish()
    }
}

/// Bytes that are kept until they are marked, if so many were `asked` for: of a bound for all buffers of the process
/// they have half, and wire frames have half.
pub fn buffer_bytes(asked: u64, memory_bytes: Option<u64>) -> u64 {
    memory_bytes.map_or(asked, |bytes| asked.min(bytes / 2))
}

/// Whether this can be the name of a marker.
///
/// # Errors
/// What is wanted instead.
pub fn check_marker(name: &[u8]) -> std::result::Result<(), String> {
    match name {
        b"" | b"." | b".." => Err("the name of a marker".to_owned()),
        path if path.contains(&b'/') => {
            Err("a name, not a path: it is beside the file, or in the directory".to_owned())
        }
        _ => Ok(()),
    }
}

/// The pipe of this number, of which the caller keeps the original.
///
/// # Errors
/// `Io`, if it is not open.
pub fn pipe(number: RawFd) -> Result<OwnedFd> {
    thalweg_sys::file::duplicate(number).map_err(|error| of_io("open a pipe", &error))
}

fn usage(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, READ_PLACES, cause)
}

fn unsupported(cause: &str) -> Failure {
    Failure::new(FailureKind::Unsupported, READ_PLACES, cause)
}

/// What fails where places cannot be the ends of a stream.
const READ_PLACES: &str = "read the places of a stream";
