//! How a transfer begins: who sends what to which place.

use super::{Failure, FlowTerms, FrameTerms, Terms, TransferNumber, check_count};
use crate::receipt::Signatory;
use crate::{DecodeError, RelativePath, limits};
use serde::{Deserialize, Serialize};

/// Whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Who sends.
    pub direction: Direction,
    /// Push: the destination. Pull: the sources.
    pub places: Vec<Place>,
    /// Push: what the source is, as far as names at the destination depend on it.
    pub source: SourceForm,
    /// How to do it.
    pub terms: Terms,
    /// Pull: which names to leave out, in order.
    pub filter: Vec<FilterRule>,
    /// Pull: only these names (`--files-from`), relative to the source; empty for all.
    pub only: Vec<RelativePath>,
    /// Pull: what is on another file system than its root is left out (`--one-file-system`).
    pub one_file_system: bool,
    /// Pull: what symbolic links lead to is sent instead of the links (`--copy-links`); from an export of none that
    /// leads out.
    pub follow_links: bool,
    /// A transfer that only measures, and what the server's place is in it.
    pub trial: Option<Trial>,
    /// What is sent is still being made, and goes by this.
    pub flow: Option<FlowTerms>,
    /// Frames to or from a channel, by this.
    pub frames: Option<FrameTerms>,
    /// Who signs for the client; `None`: who shows the certificate of the session, or nobody.
    pub signer: Option<Signatory>,
}

impl Open {
    /// A transfer by these terms and no more: no names are left out, it is no trial, and neither flows nor frames;
    /// for the client signs who shows the certificate of the session.
    pub fn of(transfer: TransferNumber, direction: Direction, places: Vec<Place>, terms: Terms) -> Open {
        Open {
            transfer,
            direction,
            places,
            source: SourceForm::Many,
            terms,
            filter: Vec::new(),
            only: Vec::new(),
            one_file_system: false,
            follow_links: false,
            trial: None,
            flow: None,
            frames: None,
            signer: None,
        }
    }
}

/// What the server's place is in a transfer that only measures: of two places one after the other is taken out of the
/// way (002, section VI-C).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trial {
    /// Pull: at most so many bytes of the source. What was not in the page cache before is not in it afterwards.
    Source {
        /// Bytes.
        bytes_max: u64,
    },
    /// Pull: files of noise instead of the source.
    Noise {
        /// Bytes of all of them.
        bytes: u64,
        /// Bytes of each; at least 1.
        file_bytes: u64,
    },
    /// Push: what comes is verified and kept nowhere.
    Null,
    /// Push: what comes is kept in a scratch directory below the place, which goes with the transfer. Refused if so
    /// many bytes would take too much of the room that is left.
    Scratch {
        /// At most so many bytes are sent.
        bytes_max: u64,
    },
}

impl Trial {
    /// The direction that it is for.
    pub fn direction(self) -> Direction {
        match self {
            Trial::Source { .. } | Trial::Noise { .. } => Direction::Pull,
            Trial::Null | Trial::Scratch { .. } => Direction::Push,
        }
    }
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

/// The server's word on an [`Open`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// From the request.
    pub transfer: TransferNumber,
    /// Pull: what the source is. Push: as sent.
    pub source: SourceForm,
    /// Number of this receiver; a new one means that what was not settled must be offered again.
    pub instance: u64,
    /// Why not, if not.
    pub refused: Option<Failure>,
    /// The key of the server, by which it signs, is kept nowhere: see [`Signatory::is_ephemeral`].
    pub is_ephemeral: bool,
    /// Of flows: the bytes that the server lets be kept until they are marked, [`FlowTerms::window_bytes`] or less.
    pub window_bytes: Option<u64>,
}

impl Open {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        let terms = &self.terms;
        if !limits::is_chunk_size(terms.chunk_bytes) {
            return Err(DecodeError::Invalid { what: "chunk size" });
        }
        let segment = u64::from(terms.segment_bytes);
        let segments = limits::SEGMENT_BYTES_MIN..=limits::SEGMENT_BYTES_MAX.min(terms.chunk_bytes);
        if !segment.is_power_of_two() || !segments.contains(&segment) {
            return Err(DecodeError::Invalid { what: "segment size" });
        }
        terms.check_knobs()?;
        let is_odd = |trial: Trial| {
            trial.direction() != self.direction || matches!(trial, Trial::Noise { file_bytes: 0, .. })
        };
        if self.trial.is_some_and(is_odd) {
            return Err(DecodeError::Invalid { what: "trial" });
        }
        if let Some(flow) = &self.flow {
            flow.check()?;
            check_count("places", self.places.len(), 1)?;
            if self.trial.is_some() {
                return Err(DecodeError::Invalid { what: "trial" });
            }
        }
        if let Some(frames) = &self.frames {
            frames.check()?;
            check_count("places", self.places.len(), 1)?;
            if self.trial.is_some() || self.flow.is_some() {
                return Err(DecodeError::Invalid { what: "frames" });
            }
        }
        check_count("places", self.places.len(), limits::PLACES_MAX)?;
        check_count("filter rules", self.filter.len(), limits::MESSAGE_ITEMS_MAX)?;
        check_count("names", self.only.len(), limits::MESSAGE_DIGESTS_MAX)?;
        if self.places.is_empty() {
            return Err(DecodeError::Invalid { what: "places" });
        }
        self.places.iter().try_for_each(Place::check)?;
        for rule in &self.filter {
            check_count("pattern", rule.pattern.len(), limits::TEXT_BYTES_MAX)?;
        }
        self.source.check()
    }
}

impl Opened {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        self.source.check()?;
        let windows = limits::FLOW_WINDOW_BYTES_MIN..=limits::FLOW_WINDOW_BYTES_MAX;
        if self.window_bytes.is_some_and(|bytes| !windows.contains(&bytes)) {
            return Err(DecodeError::Invalid { what: "window of flows" });
        }
        self.refused.as_ref().map_or(Ok(()), Failure::check)
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
    use crate::message::{LENGTH_BYTES, Message, Part, Question};

    #[test]
    fn a_place_whose_export_or_path_is_longer_than_any_is_neither_opened_nor_asked_about() {
        let is_taken = |export: usize, path: usize| {
            let place = Place { export: Some("e".repeat(export)), path: vec![b'p'; path] };
            let terms = Terms::of(limits::CHUNK_BYTES_MIN, limits::SEGMENT_BYTES_MIN as u32);
            let open = Open::of(TransferNumber(1), Direction::Push, vec![place.clone()], terms);
            let mut messages = vec![Message::Open(Box::new(open))];
            let questions = [
                Question::List { place: place.clone(), recursive: true },
                Question::Read { place: place.clone(), offset: 0, bytes: 0, seen: None },
                Question::Digest { place: place.clone(), chunk_bytes: 0 },
                Question::Remove { place: place.clone(), recursive: false },
                Question::Channel { place: place.clone() },
                Question::Measure { place: place.clone(), part: Part::Read, millis: 1, threads: 1 },
                Question::Look { place, follow: false },
            ];
            messages.extend(questions.map(|question| Message::Ask { number: 1, question }));
            let taken =
                |message: &Message| Message::decode(&message.encode().unwrap()[LENGTH_BYTES..]).is_ok();
            let taken: Vec<bool> = messages.iter().map(taken).collect();
            assert!(taken.iter().all(|one| *one == taken[0]), "{taken:?}");
            taken[0]
        };
        assert!(is_taken(limits::NAME_BYTES_MAX, limits::PATH_BYTES_MAX));
        assert!(!is_taken(limits::NAME_BYTES_MAX + 1, 1));
        assert!(!is_taken(1, limits::PATH_BYTES_MAX + 1));
    }

    #[test]
    fn a_source_whose_name_is_none_is_no_answer() {
        let answer = |name: &[u8]| {
            let source = SourceForm::Single { name: name.to_vec() };
            let transfer = TransferNumber(1);
            let (refused, window_bytes) = (None, None);
            let opened = Opened { transfer, source, instance: 1, refused, is_ephemeral: false, window_bytes };
            Message::decode(&Message::Opened(opened).encode().unwrap()[LENGTH_BYTES..])
        };
        assert!(answer(&[b'n'; limits::NAME_BYTES_MAX]).is_ok());
        for name in [&[b'n'; limits::NAME_BYTES_MAX + 1][..], &[b'n'; 1 << 20], b"", b"..", b"a/b", b"a\0"] {
            assert!(answer(name).is_err(), "{} bytes", name.len());
        }
    }

    #[test]
    fn a_window_that_is_none_is_not_granted() {
        let is_taken = |bytes| {
            let (transfer, source) = (TransferNumber(1), SourceForm::Many);
            let (refused, window_bytes) = (None, Some(bytes));
            let opened = Opened { transfer, source, instance: 1, refused, is_ephemeral: false, window_bytes };
            Message::decode(&Message::Opened(opened).encode().unwrap()[LENGTH_BYTES..]).is_ok()
        };
        let (least, most) = (limits::FLOW_WINDOW_BYTES_MIN, limits::FLOW_WINDOW_BYTES_MAX);
        let taken = [least - 1, least, most, most + 1, u64::MAX].map(is_taken);
        assert_eq!(taken, [false, true, true, false, false]);
    }
}
