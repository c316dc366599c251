//! What `thalweg tune` turns: each knob with its steps, where it begins, and what it does to a copy.

use crate::units;
use thalweg_client::options::congestion;
use thalweg_mover::model::loss::CongestionControl;
use thalweg_mover::plan::{self, Plan, Tuned};
use thalweg_mover::run::copy::Movement;
use thalweg_mover::tune::search::{Ladder, Setting};
use thalweg_sys::socket;
use thalweg_wire::limits;
use thalweg_wire::message::Direct;

/// Files at once matter only where so many travel in chunks.
const ENTRIES_MIN: u64 = 64;
/// Of chunks a trial says something if each stream has so many of them: what comes late at its end is a thirtieth then.
const CHUNKS_MIN: u64 = 16;

const STREAMS: &[u64] = &[1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
const NEAR_STREAMS_MAX: u64 = 8;
const REQUEST_BYTES: &[u64] = &[256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
const CHUNK_BYTES: &[u64] = &[1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20];
const IO_DEPTHS: &[u64] = &[1, 2, 4, 8, 16];
const CONCURRENCY: &[u64] = &[64, 256, 1024, 4096];
const DEPTHS: &[u64] = &[1, 2, 4, 8, 16, 32];
const CONGESTION: [CongestionControl; 3] =
    [CongestionControl::Cubic, CongestionControl::Bbr, CongestionControl::Reno];
const _: () = assert!(STREAMS[STREAMS.len() - 1] == plan::STREAMS_PLANNED_MAX as u64);
const _: () = assert!(REQUEST_BYTES[REQUEST_BYTES.len() - 1] <= plan::CHUNK_BYTES);
const _: () = assert!(CHUNK_BYTES[CHUNK_BYTES.len() - 1] <= limits::CHUNK_BYTES_MAX);
const _: () = assert!(IO_DEPTHS[IO_DEPTHS.len() - 1] <= limits::IO_DEPTH_MAX as u64);
const _: () = assert!(CONCURRENCY[CONCURRENCY.len() - 1] <= limits::CONCURRENCY_MAX as u64);
const _: () = assert!(DEPTHS[DEPTHS.len() - 1] <= limits::DEPTH_MAX as u64);

/// What can be turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Streams,
    Congestion,
    Request,
    IoDepth,
    DirectDestination,
    DirectSource,
    Concurrency,
    Chunk,
    Depth,
}

/// Where a knob may stand.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Number(u64),
    /// As much as there is.
    Unbounded,
    Name(String),
    /// What the system would choose.
    System,
    Direct(Direct),
}

/// A knob, and what its steps are.
pub(super) struct Knob {
    what: What,
    steps: Vec<Step>,
    start: Step,
}

/// The knobs of a way, in the order in which they are tried, and those that are not, each with the reason.
pub(super) struct Knobs {
    pub all: Vec<Knob>,
    pub left_out: Vec<(&'static str, String)>,
}

impl Knobs {
    /// Of a way that would go by `now`; `known` is what earlier trials found. `is_far`: there is a link; `sends`: this
    /// machine sends. A trial moves `bytes` of `entries` files.
    pub fn of(is_far: bool, sends: bool, now: &Plan, known: &Tuned, (bytes, entries): (u64, u64)) -> Knobs {
        let mut knobs = Knobs { all: Vec::new(), left_out: Vec::new() };
        let mut add = |what: What, steps: Vec<Step>| knobs.all.push(Knob::new(what, steps, now, known));
        let numbers = |values: &[u64]| values.iter().copied().map(Step::Number).collect::<Vec<Step>>();
        // More than on a path within a room gain nothing there, and are never tuned to by a copy either.
        let is_near = now.share_bytes.is_none();
        let is_wanted = |streams: &u64| !is_near || *streams <= NEAR_STREAMS_MAX;
        add(What::Streams, STREAMS.iter().copied().filter(is_wanted).map(Step::Number).collect());
        if is_far {
            // Of a far side that sends nobody knows what it has: it says so when it is tried.
            let permitted = sends.then(permitted_congestion);
            let is_there =
                |name: &&str| permitted.as_ref().is_none_or(|there| there.iter().any(|is| is == *name));
            let names = CONGESTION.map(CongestionControl::name).into_iter().filter(is_there);
            let steps = names.map(|name| Step::Name(name.to_owned()));
            add(What::Congestion, std::iter::once(Step::System).chain(steps).collect());
        }
        for what in [What::DirectDestination, What::DirectSource] {
            add(what, [Direct::Auto, Direct::On, Direct::Off].map(Step::Direct).to_vec());
        }
        add(What::Request, numbers(REQUEST_BYTES));
        add(What::IoDepth, numbers(IO_DEPTHS));
        let most = bytes / (u64::from(now.streams.value.max(1)) * CHUNKS_MIN);
        let has_chunks = now.chunk_bytes.value <= most;
        if has_chunks {
            let chunks = CHUNK_BYTES.iter().copied().filter(|bytes| *bytes <= most);
            add(What::Chunk, chunks.map(Step::Number).collect());
        }
        let in_chunks = plan::files_in_chunks(entries, bytes, now.segment_bytes.value);
        if in_chunks >= ENTRIES_MIN {
            add(What::Concurrency, numbers(CONCURRENCY));
        }
        add(What::Depth, numbers(DEPTHS).into_iter().chain([Step::Unbounded]).collect());
        if in_chunks < ENTRIES_MIN {
            let why = format!(
                "a trial moves {}: it matters from {ENTRIES_MIN} on that are more than a request of {}",
                units::entries(entries),
                units::size(now.segment_bytes.value.into())
            );
            knobs.left_out.push((What::Concurrency.name(), why));
        }
        if !has_chunks {
            let needed = now.chunk_bytes.value * u64::from(now.streams.value.max(1)) * CHUNKS_MIN;
            let why = format!(
                "a trial moves {} here, and says something of chunks of {} from {} on",
                units::size(bytes),
                units::size(now.chunk_bytes.value),
                units::size(needed)
            );
            knobs.left_out.push((What::Chunk.name(), why));
        }
        knobs
    }

    /// As a search takes them.
    pub fn ladders(&self) -> Vec<Ladder> {
        self.all.iter().map(Knob::ladder).collect()
    }

    /// A setting in words.
    pub fn words(&self, setting: &Setting) -> String {
        let word = |(knob, &step): (&Knob, &usize)| format!("{} {}", knob.name(), knob.word(step));
        self.all.iter().zip(setting).map(word).collect::<Vec<String>>().join(", ")
    }

    /// What a setting is to a copy.
    pub fn apply(&self, setting: &Setting, movement: &mut Movement) {
        for (knob, &step) in self.all.iter().zip(setting) {
            knob.apply(step, movement);
        }
        // A request is at most a chunk. Where chunks are not tried they are small, so that little comes late at the
        // end.
        let asked = &mut movement.asked;
        let request = u64::from(asked.request_bytes.unwrap_or(plan::NEAR_SEGMENT_BYTES));
        let chunk = asked.chunk_bytes.unwrap_or_else(|| small_chunk_bytes(request));
        asked.chunk_bytes = Some(chunk.max(request));
    }

    /// What later copies start with: where a setting differs from what they would choose by themselves.
    pub fn found(&self, setting: &Setting, untuned: &Plan, bits_per_s: u64) -> Option<Tuned> {
        let mut tuned = Tuned { rate_bits_per_s: bits_per_s, ..Tuned::default() };
        for (knob, &step) in self.all.iter().zip(setting) {
            let step = &knob.steps[step];
            if *step != knob.what.stands(untuned, &Tuned::default()) {
                knob.what.note(step, &mut tuned);
            }
        }
        let nothing = Tuned { rate_bits_per_s: bits_per_s, ..Tuned::default() };
        (tuned != nothing).then_some(tuned)
    }
}

/// Small chunks, so that little comes late at the end of a trial; the same of all candidates whose requests are no
/// larger.
pub(super) fn small_chunk_bytes(request_bytes: u64) -> u64 {
    request_bytes.max(1 << 20)
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Streams => "streams",
            What::Congestion => "congestion control",
            What::Request => "request",
            What::IoDepth => "I/O depth",
            What::DirectDestination => "direct I/O at the destination",
            What::DirectSource => "direct I/O at the source",
            What::Concurrency => "concurrency",
            What::Chunk => "chunk",
            What::Depth => "depth",
        }
    }

    /// Neighbours are alike.
    fn is_ordered(self) -> bool {
        !matches!(self, What::Congestion | What::DirectDestination | What::DirectSource)
    }

    /// Where it stands by a plan, and by what trials found where a plan does not say.
    fn stands(self, plan: &Plan, known: &Tuned) -> Step {
        match self {
            What::Streams => Step::Number(plan.streams.value.into()),
            What::Congestion => known.congestion.clone().map_or(Step::System, Step::Name),
            What::Request => Step::Number(plan.segment_bytes.value.into()),
            What::IoDepth => Step::Number(plan.disk.io_depth.value.into()),
            What::DirectDestination => Step::Direct(known.direct_destination.unwrap_or_default()),
            What::DirectSource => Step::Direct(known.direct_source.unwrap_or_default()),
            What::Concurrency => Step::Number(plan.concurrency.value.into()),
            What::Chunk => Step::Number(plan.chunk_bytes.value),
            What::Depth => plan.depth.value.map_or(Step::Unbounded, |tasks| Step::Number(tasks.into())),
        }
    }

    /// Notes a step as found.
    fn note(self, step: &Step, tuned: &mut Tuned) {
        match (self, step) {
            (What::Streams, Step::Number(streams)) => tuned.streams = u16::try_from(*streams).ok(),
            (What::Congestion, Step::Name(name)) => tuned.congestion = Some(name.clone()),
            (What::Request, Step::Number(bytes)) => tuned.request_bytes = u32::try_from(*bytes).ok(),
            (What::IoDepth, Step::Number(depth)) => tuned.io_depth = u16::try_from(*depth).ok(),
            (What::DirectDestination, Step::Direct(direct)) => tuned.direct_destination = Some(*direct),
            (What::DirectSource, Step::Direct(direct)) => tuned.direct_source = Some(*direct),
            (What::Concurrency, Step::Number(files)) => tuned.concurrency = u32::try_from(*files).ok(),
            (What::Chunk, Step::Number(bytes)) => tuned.chunk_bytes = Some(*bytes),
            (What::Depth, Step::Number(tasks)) => tuned.depth = u32::try_from(*tasks).ok(),
            // What the system would choose, or all that there is: nothing to ask for.
            _ => {}
        }
    }
}

impl Knob {
    fn new(what: What, mut steps: Vec<Step>, now: &Plan, known: &Tuned) -> Knob {
        let start = what.stands(now, known);
        if !steps.contains(&start) {
            steps.push(start.clone());
        }
        if what.is_ordered() {
            steps.sort_by_key(|step| if let Step::Number(number) = step { *number } else { u64::MAX });
        }
        Knob { what, steps, start }
    }

    /// Its name, for people.
    pub fn name(&self) -> &'static str {
        self.what.name()
    }

    /// A step in words.
    pub fn word(&self, step: usize) -> String {
        match &self.steps[step] {
            Step::Number(bytes) if matches!(self.what, What::Request | What::Chunk) => units::size(*bytes),
            Step::Number(number) => number.to_string(),
            Step::Unbounded => "what the window takes".to_owned(),
            Step::Name(name) => name.clone(),
            Step::System => "the system's choice".to_owned(),
            Step::Direct(Direct::Auto) => "auto".to_owned(),
            Step::Direct(Direct::On) => "on".to_owned(),
            Step::Direct(Direct::Off) => "off".to_owned(),
        }
    }

    fn ladder(&self) -> Ladder {
        Ladder {
            name: self.name(),
            steps: (0..self.steps.len()).map(|step| self.word(step)).collect(),
            start: self.steps.iter().position(|step| *step == self.start).unwrap_or(0),
            is_ordered: self.what.is_ordered(),
        }
    }

    fn apply(&self, step: usize, movement: &mut Movement) {
        let mut tried = Tuned::default();
        self.what.note(&self.steps[step], &mut tried);
        let Movement { asked, link, .. } = movement;
        match self.what {
            What::Streams => asked.streams = tried.streams,
            What::Congestion => link.congestion = tried.congestion,
            What::Request => asked.request_bytes = tried.request_bytes,
            What::IoDepth => asked.disk.depth = tried.io_depth,
            What::DirectDestination => {
                asked.disk.destination.direct = tried.direct_destination.unwrap_or_default();
            }
            What::DirectSource => asked.disk.source.direct = tried.direct_source.unwrap_or_default(),
            What::Concurrency => asked.concurrency = tried.concurrency,
            What::Chunk => asked.chunk_bytes = tried.chunk_bytes,
            What::Depth => asked.depth = tried.depth,
        }
    }
}

/// What this machine has, and lets us have.
fn permitted_congestion() -> Vec<String> {
    let is_root = thalweg_sys::user::effective_uid() == 0;
    let words = if is_root { socket::available_congestion() } else { socket::allowed_congestion() };
    // Root within a container may be refused what others are.
    words.unwrap_or_default().into_iter().filter(|name| congestion::is_permitted(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::plan::{Asked, Path};
    use thalweg_wire::limits::SEGMENT_BYTES_MIN;

    fn now(tuned: Option<Tuned>) -> Plan {
        let mut path = Path { tuned, ..Path::default() };
        (path.sender.cores, path.receiver.cores) = (4, 4);
        plan::plan(&Asked::default(), &path)
    }

    fn names(knobs: &Knobs) -> Vec<&'static str> {
        knobs.all.iter().map(Knob::name).collect()
    }

    /// The setting with one knob at the step of this word.
    fn with(knobs: &Knobs, setting: &Setting, name: &str, word: &str) -> Setting {
        let mut setting = setting.clone();
        let at = knobs.all.iter().position(|knob| knob.name() == name).expect("a knob");
        let steps = &knobs.ladders()[at].steps;
        setting[at] =
            steps.iter().position(|step| step == word).unwrap_or_else(|| panic!("{word}: {steps:?}"));
        setting
    }

    #[test]
    fn a_knob_turns_what_its_name_says_and_what_was_found_is_started_with() {
        let knobs = Knobs::of(true, false, &now(None), &Tuned::default(), (2 << 30, 1000));
        assert!(knobs.left_out.is_empty());
        let start: Setting = knobs.ladders().iter().map(|ladder| ladder.start).collect();
        assert_eq!(knobs.found(&start, &now(None), 8_000_000), None);
        let turned = [
            ("streams", "3"),
            ("request", "256.00 KiB"),
            ("I/O depth", "16"),
            ("direct I/O at the destination", "off"),
            ("direct I/O at the source", "on"),
            ("concurrency", "1024"),
            ("chunk", "16.00 MiB"),
            ("depth", "8"),
            ("congestion control", "reno"),
        ];
        let setting =
            turned.iter().fold(start.clone(), |setting, (name, word)| with(&knobs, &setting, name, word));
        let found = knobs.found(&setting, &now(None), 8_000_000).expect("it differs");
        let expected = Tuned {
            streams: Some(3),
            request_bytes: Some(256 << 10),
            chunk_bytes: Some(16 << 20),
            io_depth: Some(16),
            direct_source: Some(Direct::On),
            direct_destination: Some(Direct::Off),
            concurrency: Some(1024),
            depth: Some(8),
            congestion: Some("reno".into()),
            rate_bits_per_s: 8_000_000,
            rtt: None,
        };
        assert_eq!(found, expected);
        assert_eq!(found.clone().within_bounds(), found);
        let mut movement = Movement::default();
        knobs.apply(&setting, &mut movement);
        let asked = &movement.asked;
        assert_eq!(
            (asked.streams, asked.request_bytes, asked.chunk_bytes),
            (Some(3), Some(256 << 10), Some(16 << 20))
        );
        assert_eq!((asked.concurrency, asked.depth), (Some(1024), Some(8)));
        let disk = &asked.disk;
        assert_eq!(
            (disk.depth, disk.source.direct, disk.destination.direct),
            (Some(16), Direct::On, Direct::Off)
        );
        // A search that goes on from there begins there, and finds its way back.
        let again = Knobs::of(true, false, &now(Some(found.clone())), &found, (2 << 30, 1000));
        let begins: Setting = again.ladders().iter().map(|ladder| ladder.start).collect();
        assert_eq!(again.words(&begins), knobs.words(&setting));
        let back = with(&again, &begins, "depth", "what the window takes");
        assert_eq!(again.found(&back, &now(None), 8_000_000).expect("it differs").depth, None);
    }

    #[test]
    fn files_at_once_are_not_tried_where_they_are_small() {
        let tried = |bytes, entries| {
            let knobs = Knobs::of(true, false, &now(None), &Tuned::default(), (bytes, entries));
            names(&knobs).contains(&"concurrency")
        };
        assert!(tried(2 << 30, 1000) && tried(65 << 20, 64));
        assert!(!tried(1 << 30, 100_000) && !tried(1 << 30, 63) && !tried(0, 0));
    }

    #[test]
    fn a_request_is_never_larger_than_a_chunk() {
        let knobs = Knobs::of(true, false, &now(None), &Tuned::default(), (1 << 30, 1));
        let start: Setting = knobs.ladders().iter().map(|ladder| ladder.start).collect();
        let setting = with(&knobs, &with(&knobs, &start, "request", "4.00 MiB"), "chunk", "1.00 MiB");
        let mut movement = Movement::default();
        knobs.apply(&setting, &mut movement);
        assert_eq!(movement.asked.chunk_bytes, Some(4 << 20));
        assert!(REQUEST_BYTES.iter().all(|bytes| *bytes >= SEGMENT_BYTES_MIN));
    }

    #[test]
    fn what_a_trial_says_nothing_of_is_not_tried_and_chunks_are_small_then() {
        let knobs = Knobs::of(false, false, &now(None), &Tuned::default(), (24 << 20, 2));
        assert!(!names(&knobs).contains(&"chunk") && !names(&knobs).contains(&"concurrency"));
        assert!(!names(&knobs).contains(&"congestion control"), "nothing is sent within a machine");
        let left_out: Vec<&str> = knobs.left_out.iter().map(|(name, _)| *name).collect();
        assert_eq!(left_out, ["concurrency", "chunk"]);
        assert!(knobs.left_out[1].1.contains("256.00 MiB"), "{}", knobs.left_out[1].1);
        let start: Setting = knobs.ladders().iter().map(|ladder| ladder.start).collect();
        let mut movement = Movement::default();
        knobs.apply(&start, &mut movement);
        assert_eq!(movement.asked.chunk_bytes, Some(1 << 20));
    }
}
