//! How a transfer begins: who sends what to which place.

use super::terms::check_sizes;
use super::{
    ChannelTerms, Failure, FlowTerms, FrameRole, FrameTerms, TakenBefore, Terms, TransferNumber, check_count,
    list,
};
use crate::receipt::Signatory;
use crate::{DecodeError, RelativePath, limits};
use serde::{Deserialize, Serialize};

/// Whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The client sends.
    Push,
    /// The client receives.
    Pull,
}

/// A place at the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Name of the export; `None` with a mover started by ssh, which has the user's own rights.
    pub export: Option<String>,
    /// Path below the export, or as the user wrote it; bytes.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
}

impl Place {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        let export_bytes = self.export.as_ref().map_or(0, String::len);
        check_count("name of an export", export_bytes, limits::NAME_BYTES_MAX)?;
        check_count("path", self.path.len(), limits::PATH_BYTES_MAX)
    }
}

/// Begins a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// Number for it in this session.
    pub transfer: TransferNumber,
    /// What is asked for.
    pub request: Request,
    /// How to do it.
    pub terms: Terms,
    /// Who signs for the client; `None`: the holder of the session's certificate, or nobody.
    pub signer: Option<Signatory>,
}

/// What is moved, which way, and what only that kind of transfer has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Files that the client sends.
    Push(Push),
    /// Files that the client receives.
    Pull(Pull),
    /// What is still being made, sent by the client.
    FlowPush {
        /// The destination.
        place: Place,
        /// As [`Push::source`].
        source: SourceForm,
        /// By this.
        flow: FlowTerms,
    },
    /// What is still being made, sent by the server.
    FlowPull {
        /// The source.
        place: Place,
        /// By this.
        flow: FlowTerms,
    },
    /// Frames to or from a channel.
    Frames {
        /// The channel.
        place: Place,
        /// By this.
        frames: FrameTerms,
    },
}

/// Files that the client sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Push {
    /// The destination.
    pub place: Place,
    /// What the source is, as far as names at the destination depend on it.
    pub source: SourceForm,
    /// Which names the client leaves out, in order.
    #[serde(deserialize_with = "list::items")]
    pub filter: Vec<FilterRule>,
    /// It only measures, and this becomes of what comes.
    pub trial: Option<PushTrial>,
}

/// Files that the client receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pull {
    /// The sources; one to [`limits::PLACES_MAX`].
    #[serde(deserialize_with = "list::places")]
    pub places: Vec<Place>,
    /// Which names to leave out, in order.
    #[serde(deserialize_with = "list::items")]
    pub filter: Vec<FilterRule>,
    /// Only these names (`--files-from`), relative to the source, at most [`limits::ONLY_NAMES_MAX`]; empty for all.
    #[serde(deserialize_with = "list::names")]
    pub only: Vec<RelativePath>,
    /// What is on another file system than its root is left out (`--one-file-system`).
    pub one_file_system: bool,
    /// What symbolic links lead to is sent instead of the links (`--copy-links`); from an export of none that leads
    /// out.
    pub follow_links: bool,
    /// Where source files are removed ([`Terms::removes_source`]): none goes before both sides have signed. The client
    /// writes a receipt, and in that of another transfer what is gone by then would be missing.
    pub removes_at_end: bool,
    /// It only measures, and this is sent.
    pub trial: Option<PullTrial>,
}

impl Open {
    /// A transfer by these terms; for the client signs who shows the certificate of the session.
    pub fn of(transfer: TransferNumber, request: Request, terms: Terms) -> Open {
        Open { transfer, request, terms, signer: None }
    }

    /// Who sends.
    pub fn direction(&self) -> Direction {
        match &self.request {
            Request::Push(_) | Request::FlowPush { .. } => Direction::Push,
            Request::Pull(_) | Request::FlowPull { .. } => Direction::Pull,
            Request::Frames { frames, .. } => match frames.role {
                FrameRole::Produce { .. } => Direction::Push,
                FrameRole::Consume(_) => Direction::Pull,
            },
        }
    }

    /// Where at the server.
    pub fn places(&self) -> &[Place] {
        match &self.request {
            Request::Pull(pull) => &pull.places,
            Request::Push(Push { place, .. })
            | Request::FlowPush { place, .. }
            | Request::FlowPull { place, .. }
            | Request::Frames { place, .. } => std::slice::from_ref(place),
        }
    }

    /// Whether it only measures.
    pub fn is_trial(&self) -> bool {
        match &self.request {
            Request::Push(push) => push.trial.is_some(),
            Request::Pull(pull) => pull.trial.is_some(),
            Request::FlowPush { .. } | Request::FlowPull { .. } | Request::Frames { .. } => false,
        }
    }
}

impl Push {
    /// To this place, from a directory or several sources; no names are left out, and it is no trial.
    pub fn to(place: Place) -> Push {
        Push { place, source: SourceForm::Many, filter: Vec::new(), trial: None }
    }
}

impl Pull {
    /// All of these places, and it is no trial.
    pub fn of(places: Vec<Place>) -> Pull {
        Pull {
            places,
            filter: Vec::new(),
            only: Vec::new(),
            one_file_system: false,
            follow_links: false,
            removes_at_end: false,
            trial: None,
        }
    }
}

/// What becomes of what comes in a push that only measures: the server's place is taken out of the way (002, section
/// VI-C).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PushTrial {
    /// It is verified and kept nowhere.
    Null,
    /// It is kept in a scratch directory below the place, which goes with the transfer. Refused if so many bytes would
    /// take too much of the room that is left.
    Scratch {
        /// At most so many bytes are sent.
        bytes_max: u64,
    },
}

/// What is sent in a pull that only measures: the server's place is taken out of the way (002, section VI-C).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PullTrial {
    /// At most so many bytes of the source. What was not in the page cache before is not in it afterwards.
    Source {
        /// Bytes.
        bytes_max: u64,
    },
    /// Files of noise instead of the source.
    Noise {
        /// Bytes of all of them.
        bytes: u64,
        /// Bytes of each; at least 1.
        file_bytes: u64,
    },
}

/// A rule of the one ordered list of `--include` and `--exclude`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterRule {
    /// Include if true, exclude if not.
    pub include: bool,
    /// The pattern as typed.
    pub pattern: String,
}

/// What the source is, as far as names at the destination depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceForm {
    /// One file (or link): the destination may be its new name.
    Single {
        /// Its own name.
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
    },
    /// A directory or several sources: the destination is a directory.
    Many,
}

/// The server's word on an [`Open`]: of the kind that was asked for, or why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opened {
    /// It receives files.
    Push {
        /// The key of the server, by which it signs, is kept nowhere: see [`Signatory::is_ephemeral`].
        is_ephemeral: bool,
    },
    /// It sends them.
    Pull {
        /// What the source is.
        source: SourceForm,
        /// As of a push.
        is_ephemeral: bool,
    },
    /// It receives what is still being made.
    FlowPush {
        /// As of a push.
        is_ephemeral: bool,
        /// Bytes that it keeps until they are marked: [`FlowTerms::window_bytes`] or less.
        window_bytes: u64,
    },
    /// It sends that.
    FlowPull {
        /// What the source is.
        source: SourceForm,
        /// As of a push.
        is_ephemeral: bool,
        /// As of a push of flows.
        window_bytes: u64,
    },
    /// Its hub takes frames.
    Produce {
        /// How the channel is kept.
        channel: ChannelTerms,
        /// What it took under this name before, if it knows all of it.
        before: Option<TakenBefore>,
    },
    /// Its hub gives frames.
    Consume {
        /// Number of its lane: another one than before means that the lane begins anew.
        instance: u64,
        /// As of a producer.
        channel: ChannelTerms,
    },
    /// It does not begin, and why.
    Refused(Failure),
}

impl Open {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        let terms = &self.terms;
        check_sizes(terms.chunk_bytes, terms.segment_bytes)?;
        terms.check_knobs()?;
        self.request.check()
    }
}

impl Request {
    fn check(&self) -> Result<(), DecodeError> {
        match self {
            Request::Push(push) => {
                push.place.check()?;
                push.source.check()?;
                check_filter(&push.filter)
            }
            Request::Pull(pull) => pull.check(),
            Request::FlowPush { place, source, flow } => {
                place.check()?;
                source.check()?;
                flow.check()
            }
            Request::FlowPull { place, flow } => {
                place.check()?;
                flow.check()
            }
            Request::Frames { place, frames } => {
                place.check()?;
                frames.check()
            }
        }
    }
}

impl Pull {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        if self.places.is_empty() {
            return Err(DecodeError::Invalid { what: "places" });
        }
        check_count("places", self.places.len(), limits::PLACES_MAX)?;
        self.places.iter().try_for_each(Place::check)?;
        check_filter(&self.filter)?;
        check_count("names", self.only.len(), limits::ONLY_NAMES_MAX)?;
        match self.trial {
            Some(PullTrial::Noise { file_bytes: 0, .. }) => Err(DecodeError::Invalid { what: "trial" }),
            _ => Ok(()),
        }
    }
}

fn check_filter(rules: &[FilterRule]) -> Result<(), DecodeError> {
    check_count("filter rules", rules.len(), limits::MESSAGE_ITEMS_MAX)?;
    rules.iter().try_for_each(|rule| check_count("pattern", rule.pattern.len(), limits::TEXT_BYTES_MAX))
}

impl Opened {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        match self {
            Opened::Pull { source, .. } => source.check(),
            Opened::FlowPush { window_bytes, .. } => check_window(*window_bytes),
            Opened::FlowPull { source, window_bytes, .. } => {
                source.check()?;
                check_window(*window_bytes)
            }
            Opened::Refused(why) => why.check(),
            Opened::Push { .. } | Opened::Produce { .. } | Opened::Consume { .. } => Ok(()),
        }
    }
}

fn check_window(bytes: u64) -> Result<(), DecodeError> {
    let windows = limits::FLOW_WINDOW_BYTES_MIN..=limits::FLOW_WINDOW_BYTES_MAX;
    match windows.contains(&bytes) {
        true => Ok(()),
        false => Err(DecodeError::Invalid { what: "window of flows" }),
    }
}

impl SourceForm {
    fn check(&self) -> Result<(), DecodeError> {
        match self {
            SourceForm::Single { name } => crate::path::check_name(name),
            SourceForm::Many => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{
        ChannelWishes, Disk, HeldLevel, LENGTH_BYTES, MeasureTerms, Message, Part, PartOf, ProducerId,
        Question, Until,
    };

    fn body(message: &Message) -> Vec<u8> {
        message.encode().unwrap()[LENGTH_BYTES..].to_vec()
    }

    fn opens(request: Request) -> Message {
        let terms = Terms::of(limits::CHUNK_BYTES_MIN, limits::SEGMENT_BYTES_MIN as u32);
        Message::Open(Box::new(Open::of(TransferNumber(1), request, terms)))
    }

    /// One of each kind, at this place.
    fn requests(place: &Place) -> [Request; 5] {
        let window_bytes = limits::FLOW_WINDOW_BYTES_MIN;
        let flow = FlowTerms { until: Until::default(), window_bytes, mark_every_ms: 0 };
        let role = FrameRole::Produce {
            producer: ProducerId::new("cam").unwrap(),
            process: [2; 16],
            first: None,
            level: HeldLevel::Memory,
            keep_ms: 0,
        };
        let channel = ChannelWishes::default();
        let frames = FrameTerms { window_bytes: limits::LANE_BYTES_MIN, window_items: 1, channel, role };
        [
            Request::Push(Push::to(place.clone())),
            Request::Pull(Pull::of(vec![place.clone()])),
            Request::FlowPush { place: place.clone(), source: SourceForm::Many, flow: flow.clone() },
            Request::FlowPull { place: place.clone(), flow },
            Request::Frames { place: place.clone(), frames },
        ]
    }

    fn place() -> Place {
        Place { export: Some("data".into()), path: b"x".to_vec() }
    }

    fn digest_of(place: &Place, part: Option<PartOf>) -> Question {
        let place = place.clone();
        Question::Digest { place, chunk_bytes: 0, follow_links: false, after: None, part }
    }

    #[test]
    fn a_place_whose_export_or_path_is_longer_than_any_is_neither_opened_nor_asked_about() {
        let is_taken = |export: usize, path: usize| {
            let place = Place { export: Some("e".repeat(export)), path: vec![b'p'; path] };
            let mut messages: Vec<Message> = requests(&place).map(opens).into();
            let questions = [
                Question::List { place: place.clone(), recursive: true, follow_links: false, after: None },
                Question::Read { place: place.clone(), offset: 0, bytes: 0, seen: None },
                digest_of(&place, None),
                Question::Remove { place: place.clone(), recursive: false },
                Question::Channel { place: place.clone() },
                Question::Measure {
                    place: place.clone(),
                    part: Part::Read,
                    millis: 1,
                    threads: 1,
                    terms: MeasureTerms {
                        chunk_bytes: limits::CHUNK_BYTES_MIN,
                        segment_bytes: limits::SEGMENT_BYTES_MIN as u32,
                        disk: Disk::default(),
                    },
                },
                Question::Look { place, follow: false },
            ];
            messages.extend(questions.map(|question| Message::Ask { number: 1, question }));
            let taken: Vec<bool> =
                messages.iter().map(|message| Message::decode(&body(message)).is_ok()).collect();
            assert!(taken.iter().all(|one| *one == taken[0]), "{taken:?}");
            taken[0]
        };
        assert!(is_taken(limits::NAME_BYTES_MAX, limits::PATH_BYTES_MAX));
        assert!(!is_taken(limits::NAME_BYTES_MAX + 1, 1));
        assert!(!is_taken(1, limits::PATH_BYTES_MAX + 1));
    }

    #[test]
    fn a_pull_is_of_at_least_one_place_and_noise_is_in_files_that_have_content() {
        let is_taken = |pull: Pull| Message::decode(&body(&opens(Request::Pull(pull)))).is_ok();
        let of = |places: usize| Pull::of(vec![place(); places]);
        assert!(is_taken(of(1)) && is_taken(of(limits::PLACES_MAX)));
        assert!(!is_taken(of(0)) && !is_taken(of(limits::PLACES_MAX + 1)));
        let name = RelativePath::new(b"a".to_vec()).unwrap();
        let alone = |names: usize| Pull { only: vec![name.clone(); names], ..of(1) };
        assert!(is_taken(alone(limits::ONLY_NAMES_MAX)) && !is_taken(alone(limits::ONLY_NAMES_MAX + 1)));
        let noise = |file_bytes| Pull { trial: Some(PullTrial::Noise { bytes: 9, file_bytes }), ..of(1) };
        assert!(is_taken(noise(1)) && !is_taken(noise(0)));
    }

    /// Of each kind is decoded what that kind has, whatever a client says.
    #[test]
    fn a_kind_of_transfer_or_of_trial_that_there_is_none_of_is_refused() {
        let refused = Err(DecodeError::Invalid { what: "message" });
        for (kind, request) in requests(&place()).into_iter().enumerate() {
            let mut bytes = body(&opens(request));
            assert!(Message::decode(&bytes).is_ok());
            // Behind the tag of the message and the number of the transfer.
            assert_eq!(usize::from(bytes[2]), kind);
            for none in [5, 0x7f, 0xff] {
                bytes[2] = none;
                assert_eq!(Message::decode(&bytes), refused, "{kind} as {none}");
            }
        }
        let pushed = |trial| Request::Push(Push { trial: Some(trial), ..Push::to(place()) });
        let source = PullTrial::Source { bytes_max: 7 };
        let pulled = Request::Pull(Pull { trial: Some(source), ..Pull::of(vec![place()]) });
        let scratch = pushed(PushTrial::Scratch { bytes_max: 7 });
        for (request, without) in [
            (pushed(PushTrial::Null), Request::Push(Push::to(place()))),
            (scratch, Request::Push(Push::to(place()))),
            (pulled, Request::Pull(Pull::of(vec![place()]))),
        ] {
            let (mut bytes, without) = (body(&opens(request)), body(&opens(without)));
            // Whether there is one, and behind it which.
            let at = bytes.iter().zip(&without).position(|(one, other)| one != other).unwrap() + 1;
            for none in [2, 0x7f, 0xff] {
                bytes[at] = none;
                assert_eq!(Message::decode(&bytes), refused, "{none}");
            }
        }
        let produce = Opened::Produce { channel: ChannelTerms::default(), before: None };
        let mut answer = body(&Message::Opened(TransferNumber(1), produce));
        for none in [6, 0x7f, 0xff] {
            answer[2] = none;
            assert_eq!(Message::decode(&answer), refused, "{none}");
        }
    }

    #[test]
    fn a_part_that_there_is_not_and_one_in_which_is_deleted_are_not_opened() {
        let is_taken = |number, count, delete_max| {
            let Message::Open(open) = opens(Request::Push(Push::to(place()))) else { return false };
            let terms = Terms { part: Some(PartOf { number, count }), delete_max, ..open.terms.clone() };
            Message::decode(&body(&Message::Open(Box::new(Open { terms, ..*open })))).is_ok()
        };
        let most = limits::PARTS_MAX;
        let parts = [(1, 1), (2, 4), (4, 4), (most, most), (0, 4), (5, 4), (0, 0), (1, 0), (1, most + 1)];
        let taken = parts.map(|(number, count)| is_taken(number, count, None));
        assert_eq!(taken, [true, true, true, true, false, false, false, false, false]);
        assert_eq!(parts.map(|(number, count)| PartOf::new(number, count).is_some()), taken);
        assert!(!is_taken(2, 4, Some(1)));
        // Nor asked about.
        let asked = parts.map(|(number, count)| {
            let question = digest_of(&place(), Some(PartOf { number, count }));
            Message::decode(&body(&Message::Ask { number: 1, question })).is_ok()
        });
        assert_eq!(asked, taken);
        assert_eq!(PartOf { number: 2, count: 4 }.to_string(), "2/4");
    }

    #[test]
    fn a_source_whose_name_is_none_is_no_answer() {
        let answer = |name: &[u8]| {
            let source = SourceForm::Single { name: name.to_vec() };
            let opened = Opened::Pull { source, is_ephemeral: false };
            Message::decode(&body(&Message::Opened(TransferNumber(1), opened)))
        };
        assert!(answer(&[b'n'; limits::NAME_BYTES_MAX]).is_ok());
        for name in [&[b'n'; limits::NAME_BYTES_MAX + 1][..], &[b'n'; 1 << 20], b"", b"..", b"a/b", b"a\0"] {
            assert!(answer(name).is_err(), "{} bytes", name.len());
        }
    }

    #[test]
    fn a_window_that_is_none_is_not_granted() {
        let is_taken = |bytes| {
            let push = Opened::FlowPush { is_ephemeral: false, window_bytes: bytes };
            let source = SourceForm::Many;
            let pull = Opened::FlowPull { source, is_ephemeral: false, window_bytes: bytes };
            let taken = [push, pull].map(|opened| Message::Opened(TransferNumber(1), opened));
            let taken = taken.map(|message| Message::decode(&body(&message)).is_ok());
            assert_eq!(taken[0], taken[1], "{bytes}");
            taken[0]
        };
        let (least, most) = (limits::FLOW_WINDOW_BYTES_MIN, limits::FLOW_WINDOW_BYTES_MAX);
        let taken = [least - 1, least, most, most + 1, u64::MAX].map(is_taken);
        assert_eq!(taken, [false, true, true, false, false]);
    }
}
