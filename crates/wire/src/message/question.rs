//! Questions that need no data stream, and their answers.

use super::errand::check_address;
use super::terms::check_sizes;
use super::{
    ChannelStatus, Disk, Errand, ErrandTold, Failure, PartOf, Place, Slot, SlotAsk, SlotTable, Vouch,
    check_count, list,
};
use crate::digest::Digest;
use crate::entry::{Entry, Evidence};
use crate::{DecodeError, RelativePath, limits};
use serde::{Deserialize, Serialize};

/// A question that needs no data stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Entries below a place; all levels if `recursive`. Answered by `Entries`, then `End`. A directory comes before
    /// what is in it, names in the order of their bytes; of a directory whose names do not, `Unordered` says so before
    /// they come.
    List {
        /// Where.
        place: Place,
        /// All levels.
        recursive: bool,
        /// What symbolic links lead to instead of the links; in an export none that leads out.
        follow_links: bool,
        /// Only what comes behind this path: an earlier answer, whose link was lost, told all that is before it. Of
        /// directories on the way there `Unordered` and `Trouble` come again.
        after: Option<RelativePath>,
    },
    /// Content of a file from `offset`, at most `bytes`. Answered by `Bytes`, then `End`.
    Read {
        /// Which file.
        place: Place,
        /// From where.
        offset: u64,
        /// How much; 0 for all.
        bytes: u64,
        /// What it was when it was seen; if it is that no more, the answer ends with `Changed`.
        seen: Option<Evidence>,
    },
    /// Digests of the files below a place, in the order of a listing. Answered by `Digests` and, as of a listing,
    /// `Unordered`, then `End`.
    Digest {
        /// Where.
        place: Place,
        /// 0: plain BLAKE3. Else a segment size: files above [`crate::digest::HASHED_HOLE_BYTES_MAX`] are
        /// digested with marked holes, whatever the disk keeps for them.
        chunk_bytes: u64,
        /// As of a listing.
        follow_links: bool,
        /// As of a listing.
        after: Option<RelativePath>,
        /// Only of files whose names are in this part.
        part: Option<PartOf>,
    },
    /// Remove a file or, if `recursive`, a tree. Answered by `Removed`, then `End`.
    Remove {
        /// What.
        place: Place,
        /// Trees too.
        recursive: bool,
    },
    /// What the server is. Answered by `About`, then `End`.
    About,
    /// How a channel of frames stands. Answered by `Channel`, then `End`.
    Channel {
        /// Which.
        place: Place,
    },
    /// How fast the server does one part of a transfer alone. Answered by `Measured`, then `End`.
    Measure {
        /// Where: `Read` reads there, `Write` writes a file without a name there.
        place: Place,
        /// What.
        part: Part,
        /// For so long; at most [`limits::MEASURE_MILLIS_MAX`].
        millis: u32,
        /// Threads; at most [`limits::MEASURE_THREADS_MAX`], and so many that a segment of each fits
        /// [`limits::STREAM_BYTES_MAX`].
        threads: u16,
        /// As the copy would do it that is measured for.
        terms: MeasureTerms,
    },
    /// About slots. Answered by `Slot` or `Slots`, or nothing, then `End`.
    Slot(SlotAsk),
    /// What stands at a place, without what is in it. Answered by `Entries` with that one, then `End`.
    Look {
        /// Where.
        place: Place,
        /// A link that leads to a directory is that directory; else a link is the link.
        follow: bool,
    },
    /// Whether the server may be sent to another one there. Answered by `End`.
    ErrandTo {
        /// Where, `host:port`.
        address: String,
    },
    /// Somebody is to be let in besides. Answered by `Vouched`, then `End`: from then on, until the session ends.
    Vouch(Vouch),
    /// Run a copy between this server and another one. Answered by `Errand`, then `End`.
    Errand(Box<Errand>),
}

/// A part of a transfer that one side can do alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Reading what a place holds.
    Read,
    /// Digesting.
    Digest,
    /// Sealing frames.
    Seal,
    /// Opening sealed frames.
    Open,
    /// Writing, and then making it durable.
    Write,
}

/// What a part alone goes by of the terms of a copy: in which pieces it works, and how it uses its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasureTerms {
    /// Read: unit of order. As of [`Terms`](super::Terms).
    pub chunk_bytes: u64,
    /// Unit of reading, digesting, sealing and writing. As of [`Terms`](super::Terms).
    pub segment_bytes: u32,
    /// Read, write: past the page cache or through it, and how many requests are in flight for each thread.
    pub disk: Disk,
}

/// What a part did alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Measured {
    /// Bytes through it.
    pub bytes: u64,
    /// Files read; else pieces of work.
    pub items: u64,
    /// Threads that did it.
    pub threads: u16,
    /// Their time at work, summed, in nanoseconds.
    pub busy_nanos: u64,
    /// Write: time until what was written was durable, after the last write, in nanoseconds.
    pub sync_nanos: u64,
    /// Read: bytes of the files read that were in the page cache before, where the kernel tells.
    pub cached_bytes: Option<u64>,
    /// Read, write: bytes that went past the page cache; `None` of what has no disk.
    pub past_cache_bytes: Option<u64>,
    /// Rates one after the other, each over a fraction of a second, in bytes a second; at most
    /// [`limits::MEASURE_RATES_MAX`].
    #[serde(deserialize_with = "list::rates")]
    pub rates: Vec<u64>,
}

impl Question {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        match self {
            Question::Digest { place, part, .. } => {
                place.check()?;
                part.map_or(Ok(()), PartOf::check)
            }
            Question::List { place, .. }
            | Question::Remove { place, .. }
            | Question::Channel { place }
            | Question::Look { place, .. } => place.check(),
            Question::Measure { place, millis, threads, terms, .. } => {
                place.check()?;
                terms.check()?;
                let frames_bytes = u64::from(*threads) * u64::from(terms.segment_bytes);
                let is_within = (1..=limits::MEASURE_MILLIS_MAX).contains(millis)
                    && (1..=limits::MEASURE_THREADS_MAX).contains(threads)
                    && frames_bytes <= limits::STREAM_BYTES_MAX;
                if is_within { Ok(()) } else { Err(DecodeError::Invalid { what: "measurement" }) }
            }
            Question::Slot(ask) => ask.check(),
            Question::Read { place, seen, .. } => {
                place.check()?;
                seen.as_ref().map_or(Ok(()), |seen| seen.check())
            }
            Question::ErrandTo { address } => check_address(address),
            Question::Vouch(vouch) => vouch.check(),
            Question::Errand(errand) => errand.check(),
            Question::About => Ok(()),
        }
    }
}

impl MeasureTerms {
    fn check(&self) -> Result<(), DecodeError> {
        check_sizes(self.chunk_bytes, self.segment_bytes)?;
        self.disk.check()
    }
}

impl Measured {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        check_count("rates", self.rates.len(), limits::MEASURE_RATES_MAX)
    }
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Entries, paths relative to the place asked.
    Entries(#[serde(deserialize_with = "list::nesting_entries")] Vec<Entry>),
    /// File content.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Path and digest of files.
    Digests(Vec<(RelativePath, u64, Digest)>),
    /// Entries removed so far.
    Removed(u64),
    /// Program and version, exports.
    About {
        /// For instance `thalweg 0.1.0`.
        program: String,
        /// Exports with their rights; at most [`limits::EXPORTS_TOLD_MAX`].
        #[serde(deserialize_with = "list::exports")]
        exports: Vec<(String, bool)>,
    },
    /// What a part did alone.
    Measured(Measured),
    /// How a channel stands.
    Channel(Box<ChannelStatus>),
    /// Something on the way could not be done; the answer goes on.
    Trouble(Failure),
    /// The answer is complete, or why not.
    End(Option<Failure>),
    /// A slot that was taken, or kept.
    Slot(Slot),
    /// All slots.
    Slots(SlotTable),
    /// The names of this directory, which come next, are in no order.
    Unordered(RelativePath),
    /// What becomes of an errand.
    Errand(Box<ErrandTold>),
    /// A guest is let in.
    Vouched {
        /// The server's time just before, in seconds since 1970: what it signs with the guest is not older.
        at: i64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_in_pieces_that_a_copy_may_have_and_in_memory_that_streams_may_have() {
        let is_taken = |threads: u16, terms: MeasureTerms| {
            let place = Place { export: Some("data".into()), path: b"x".to_vec() };
            let question = Question::Measure { place, part: Part::Read, millis: 1, threads, terms };
            question.check().is_ok()
        };
        let usual = MeasureTerms { chunk_bytes: 4 << 20, segment_bytes: 1 << 20, disk: Disk::default() };
        assert!(is_taken(1, usual) && is_taken(limits::MEASURE_THREADS_MAX, usual));
        assert!(!is_taken(0, usual) && !is_taken(limits::MEASURE_THREADS_MAX + 1, usual));
        let disk = |depth| Disk { depth: Some(depth), ..Disk::default() };
        for terms in [
            MeasureTerms { chunk_bytes: 3 << 20, ..usual },
            MeasureTerms { chunk_bytes: 1 << 19, ..usual },
            MeasureTerms { segment_bytes: 3 << 18, ..usual },
            MeasureTerms { segment_bytes: 0, ..usual },
            MeasureTerms { disk: disk(0), ..usual },
            MeasureTerms { disk: disk(limits::IO_DEPTH_MAX + 1), ..usual },
        ] {
            assert!(!is_taken(1, terms), "{terms:?}");
        }
        let large = MeasureTerms { chunk_bytes: 64 << 20, segment_bytes: 64 << 20, ..usual };
        assert!(is_taken(16, large) && !is_taken(17, large));
    }
}
