//! What control connections say. One message is a big-endian `u32` length and that many bytes of postcard.
//!
//! postcard is not self-describing, so the set of messages belongs to the protocol version agreed in the
//! [hello](crate::hello); a message that a version does not know is an error, never skipped.
//!
//! A session holds several transfers, each with a *sender* (source side) and a *receiver* (destination side);
//! which of them is the client does not matter after [`Message::Open`]. The life of an entry:
//!
//! ```text
//! sender                                   receiver
//! Offer(entry)          ------------------>  looks at the destination, its journal, its catalogue
//!                       <------------------  Want: whole | these chunks | compare | nothing, it is there
//! frames on the streams ------------------>  verify, write
//!                       <------------------  Ack: verified
//! Seal: source unchanged ----------------->  sync, record
//!                       <------------------  Ack: durable
//!                                            rename, sync directory
//!                       <------------------  Settled: done, with the digest of the whole
//! ```
//!
//! After an outage the sender offers every unsettled entry again; the receiver answers by what it has. So no
//! message needs to be kept for repetition.
// Lists of what follows.
pub(crate) mod list;

// Those that are too long for one message.
mod batch;

// How a transfer begins.
mod opening;

// How it is done.
mod terms;

// What becomes of its entries.
mod fate;

// Why a source's files stay that were to be removed.
mod stays;

// Failures as they travel.
mod failure;

// Why they are.
mod reason;

// Content that is still being made.
mod flow;

// Frames of detectors.
mod frames;

// Questions that need no data stream.
mod question;

// Times at which a producer has the way for itself.
mod slot;

// Copies that one server runs as the client of another.
mod errand;

pub use batch::{batches, first_batch};
pub use errand::{Errand, ErrandCounts, ErrandKnobs, ErrandTold, GuestKey, Vouch};
pub use failure::{Failure, FailureKind};
pub use fate::{AckLevel, Listing, Loss, Outcome, Run, ScanTotals, Seal, SourceTotals, Totals, Want};
pub use flow::{FlowBegin, FlowLeft, FlowMark, FlowMessage, FlowStand, FlowTerms, Origin, Until};
pub use frames::{
    ChannelStatus, ChannelTerms, ChannelWishes, ClockOffset, Consume, ConsumerAt, ConsumerStatus, FrameFrom,
    FrameHead, FramePolicy, FrameRole, FrameTerms, FramesMessage, GroupSet, HasOf, HeldLevel, HubStamp,
    ITEM_LENGTH_BYTES, Item, LossReason, LostRange, ProducerId, ProducerStatus, SetOver, TakenBefore,
};
pub use opening::{
    Direction, FilterRule, Open, Opened, Place, Pull, PullTrial, Push, PushTrial, Request, SourceForm,
};
pub use question::{MeasureTerms, Measured, Part, Question, Reply};
pub use reason::Reason;
pub use slot::{LeaseId, Rhythm, Slot, SlotAsk, SlotTable, SlotTaken, SlotWish};
pub use stays::{Left, Stays};
pub use terms::{
    Check, Direct, Disk, DiskSide, Order, PartOf, Preserve, Steer, Terms, VerifyLevel, is_congestion_name,
};

use crate::account::SideAccounts;
use crate::digest::Digest;
use crate::entry::{Entry, EntryId};
use crate::receipt::Signed;
use crate::{DecodeError, RelativePath, limits};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};

/// Bytes in front of every message.
pub const LENGTH_BYTES: usize = 4;

/// Which transfer of a session a message or frame belongs to. Chosen by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransferNumber(pub u16);

/// Everything that a control connection carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Both ways, a few times a second while a transfer runs.
    Heartbeat(Heartbeat),
    /// Both ways: the session ends. Nothing follows.
    Goodbye(Option<Failure>),
    /// Client: a question that needs no data stream.
    Ask {
        /// Repeated in the answer.
        number: u32,
        /// The question.
        question: Question,
    },
    /// Server: the answer, in one or more pieces.
    Reply {
        /// From the question.
        number: u32,
        /// A piece of the answer.
        reply: Reply,
    },
    /// Client: begin a transfer.
    Open(Box<Open>),
    /// Server: the transfer can begin, or cannot.
    Opened(TransferNumber, Opened),
    /// Within a transfer.
    Transfer(TransferNumber, TransferMessage),
    /// Client: so many more pieces of an answer were taken. A server is at most [`limits::REPLIES_AHEAD_MAX`] pieces
    /// ahead of what was taken.
    Taken {
        /// From the question.
        number: u32,
        /// Pieces since the last time.
        pieces: u32,
    },
    /// Client: the rest of an answer is not wanted.
    Enough {
        /// From the question.
        number: u32,
    },
    /// Client: the knobs of a transfer, from now on. For the server where it sends.
    Steer(TransferNumber, Steer),
    /// Server: a stream gets nothing across, though the peer is heard. The client puts another in its place.
    Stuck {
        /// Which.
        stream: u16,
    },
    /// Server: it cannot have this stream, for want of memory for its frames; its connection ends. The client goes on
    /// with the others, and tries again later.
    NoStream {
        /// Which.
        stream: u16,
        /// What is needed and what there is.
        why: Failure,
    },
}

/// Messages of one transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferMessage {
    /// Sender: entries found, in scan order.
    Offer(#[serde(deserialize_with = "list::nesting_entries")] Vec<Entry>),
    /// Sender: the scan is over.
    OfferEnd(ScanTotals),
    /// Receiver: what it wants of entries offered.
    Want(#[serde(deserialize_with = "list::nesting_items")] Vec<(EntryId, Want)>),
    /// Receiver: digests of chunks that it has from an earlier attempt, before the [`Want::Missing`].
    Have {
        /// Which entry.
        entry: EntryId,
        /// First chunk.
        first: u64,
        /// One digest for each chunk from `first` on.
        #[serde(deserialize_with = "list::digests")]
        digests: Vec<Digest>,
    },
    /// Receiver: chunks that are verified, or durable.
    Ack(AckLevel, #[serde(deserialize_with = "list::items")] Vec<(EntryId, Run)>),
    /// Receiver: these chunks or packed files came damaged or not at all; send them again.
    Repair(#[serde(deserialize_with = "list::items")] Vec<(EntryId, Run)>),
    /// Receiver: send these chunks, of which nothing came damaged: they were to be compared and differ from what it
    /// has, or the stream whose copy it took instead of another's is gone.
    Differs(#[serde(deserialize_with = "list::items")] Vec<(EntryId, Run)>),
    /// Sender: these chunks are holes.
    Holes(#[serde(deserialize_with = "list::items")] Vec<(EntryId, Run)>),
    /// Sender: all chunks were read and the source did not change meanwhile.
    Seal(#[serde(deserialize_with = "list::items")] Vec<(EntryId, Seal)>),
    /// Sender: forget this entry. With a failure: it cannot be had. Without: it changed and will be offered
    /// again under a new number.
    Withdraw(#[serde(deserialize_with = "list::items")] Vec<(EntryId, Option<Failure>)>),
    /// Sender: names that it saw and does not offer, numbered like entries; told as settled in return.
    Aside(#[serde(deserialize_with = "list::nesting_items")] Vec<(EntryId, RelativePath, Outcome)>),
    /// Sender: after an outage, everything that is not settled has been offered again. What was not is
    /// withdrawn.
    OffersRepeated,
    /// Receiver, before it has finished: names below the destination that it could not deal with.
    Troubles(#[serde(deserialize_with = "list::nesting_items")] Vec<(RelativePath, Outcome)>),
    /// Receiver, before it has finished: names that it removed, or would remove in a dry run; not more of all than
    /// [`limits::DELETED_TOLD_MAX`].
    Deleted(#[serde(deserialize_with = "list::items")] Vec<RelativePath>),
    /// Sender: it has the outcomes of the entries with these numbers. Runs of entries, not of chunks.
    Heard(#[serde(deserialize_with = "list::items")] Vec<Run>),
    /// Receiver: final word on entries.
    Settled(#[serde(deserialize_with = "list::nesting_items")] Vec<(EntryId, Outcome)>),
    /// Receiver: all entries are settled, directories have their metadata, everything is durable.
    Finished(Totals),
    /// Sender, when the receiver has finished: its statement, signed. Receiver: its own in return.
    Receipt(Box<Signed>),
    /// Both, a few times while it runs and at the end: where its time went.
    Accounts(Box<SideAccounts>),
    /// Either: the transfer ends here, without success.
    Abort(Failure),
    /// Of a transfer of flows.
    Flow(FlowMessage),
    /// Of a transfer of frames.
    Frames(FramesMessage),
    /// In place of a [`TransferMessage::Receipt`], of what nobody signs: a dry run, and a transfer that only measures.
    Unsigned,
    /// Server that sends, and removes its files ([`Terms::removes_source`]): names that went, or would in a dry run.
    SourcesGone(#[serde(deserialize_with = "list::items")] Vec<RelativePath>),
    /// The same: why names that were to go stay.
    SourcesKept(#[serde(deserialize_with = "list::items")] Vec<Failure>),
    /// The same, behind both last words, and in place of its own from then on: nothing more goes.
    SourcesDone(SourceTotals),
    /// Receiver, in return, and in place of its last word from then on.
    SourcesHeard,
}

/// What is true now; says that the peer is alive and what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Heartbeat {
    /// Bytes that came on the data streams that stand now, parts of frames included. Says that the path is alive, and
    /// nothing about what is safe.
    pub arrived_bytes: u64,
    /// Receiver: payload bytes verified so far in all transfers of the session.
    pub verified_bytes: u64,
    /// Receiver: payload bytes durable so far.
    pub durable_bytes: u64,
    /// Receiver: entries settled so far.
    pub settled_entries: u64,
    /// What holds the peer up, if anything does.
    pub waiting_for: Option<WaitingFor>,
    /// For how long, in milliseconds; of what goes on piece by piece, since it last did. A sender that tells it says 1
    /// at least: older ones say 0 whatever they do.
    pub waiting_ms: u32,
}

/// The part of a peer that makes us wait. Claims extend a stall only up to our own patience, but those of a peer which
/// is heard and waits for its share, or reads or writes and has gone on with it a moment ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitingFor {
    /// Reading the source, or again what the destination has, or sending no faster than was asked for.
    Read,
    /// Writing at the destination.
    Write,
    /// Making written bytes durable.
    Sync,
    /// Scanning the source tree.
    Scan,
    /// A program that takes what a flow delivers, when it likes.
    Consumer,
    /// Its share of what its operator lets it move.
    Share,
}

impl Message {
    /// Length and bytes, ready to send.
    ///
    /// # Errors
    /// `TooLarge` for a message that the peer would refuse.
    pub fn encode(&self) -> Result<Vec<u8>, DecodeError> {
        let out = postcard::to_extend(self, vec![0; LENGTH_BYTES])
            .map_err(|_| DecodeError::Invalid { what: "message" })?;
        let length = out.len() - LENGTH_BYTES;
        check_length(length)?;
        let mut out = out;
        out[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
        Ok(out)
    }

    /// Length of the message that starts with `head`.
    ///
    /// # Errors
    /// `TooLarge` above [`limits::MESSAGE_BYTES_MAX`].
    pub fn length(head: [u8; LENGTH_BYTES]) -> Result<usize, DecodeError> {
        let length = u32::from_be_bytes(head) as usize;
        check_length(length)?;
        Ok(length)
    }

    /// Reads one message from exactly `bytes` (without the length).
    ///
    /// # Errors
    /// `Invalid` for anything a correct peer would not send, lists that are too long among it, also those within the
    /// items of a list; `TooLarge` for texts beyond their limits.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        check_length(bytes.len())?;
        let (message, rest) = postcard::take_from_bytes::<Message>(bytes)
            .map_err(|_| DecodeError::Invalid { what: "message" })?;
        if !rest.is_empty() {
            return Err(DecodeError::Invalid { what: "bytes after the message" });
        }
        message.check()?;
        Ok(message)
    }

    fn check(&self) -> Result<(), DecodeError> {
        match self {
            Message::Open(open) => open.check(),
            Message::Ask { question, .. } => question.check(),
            Message::Goodbye(Some(failure)) | Message::NoStream { why: failure, .. } => failure.check(),
            Message::Opened(_, opened) => opened.check(),
            Message::Reply { reply, .. } => match reply {
                Reply::Entries(entries) => check_entries(entries),
                Reply::Trouble(failure) | Reply::End(Some(failure)) => failure.check(),
                Reply::Measured(measured) => measured.check(),
                Reply::Slot(slot) => slot.check(),
                Reply::Slots(table) => table.check(),
                Reply::Channel(status) => status.check(),
                Reply::Errand(told) => told.check(),
                _ => Ok(()),
            },
            Message::Transfer(_, message) => message.check(),
            Message::Steer(_, steer) => steer.check(),
            _ => Ok(()),
        }
    }
}

impl TransferMessage {
    fn check(&self) -> Result<(), DecodeError> {
        use TransferMessage as T;
        let items = match self {
            T::Offer(entries) => return check_entries(entries),
            T::Have { digests, .. } => {
                return check_count("digests", digests.len(), limits::MESSAGE_DIGESTS_MAX);
            }
            T::Want(items) => {
                let runs = items.iter().map(|(_, want)| want.runs().len()).sum();
                check_count("runs", runs, limits::MESSAGE_RUNS_MAX)?;
                items.len()
            }
            T::Heard(runs) => {
                runs.iter().try_for_each(Run::check)?;
                runs.len()
            }
            T::Ack(_, items) | T::Repair(items) | T::Differs(items) | T::Holes(items) => {
                items.iter().try_for_each(|(_, run)| run.check())?;
                items.len()
            }
            T::Seal(items) => items.len(),
            T::Withdraw(items) => {
                items.iter().filter_map(|(_, failure)| failure.as_ref()).try_for_each(Failure::check)?;
                items.len()
            }
            T::Aside(items) => {
                check_outcomes(items.iter().map(|(_, _, outcome)| outcome))?;
                items.len()
            }
            T::Troubles(items) => {
                check_outcomes(items.iter().map(|(_, outcome)| outcome))?;
                items.len()
            }
            T::Deleted(names) | T::SourcesGone(names) => names.len(),
            T::SourcesKept(failures) => {
                failures.iter().try_for_each(Failure::check)?;
                failures.len()
            }
            T::Settled(items) => {
                check_outcomes(items.iter().map(|(_, outcome)| outcome))?;
                items.len()
            }
            T::Abort(failure) => return failure.check(),
            T::Flow(message) => return message.check(),
            T::Frames(message) => return message.check(),
            T::Receipt(signed) => return signed.check(),
            T::OfferEnd(_) | T::Finished(_) | T::OffersRepeated | T::Unsigned => 0,
            T::SourcesDone(_) | T::SourcesHeard => 0,
            T::Accounts(accounts) => return accounts.check(),
        };
        check_count("items", items, limits::MESSAGE_ITEMS_MAX)
    }

    /// Approximate heap bytes, for the bound on what is kept until its transfer is there.
    pub fn heap_bytes(&self) -> usize {
        use TransferMessage as T;
        match self {
            T::Offer(entries) => list_bytes(entries, Entry::heap_bytes),
            T::Want(items) => list_bytes(items, |(_, want)| size_of_val(want.runs())),
            T::Have { digests, .. } => size_of_val(&digests[..]),
            T::Ack(_, items) | T::Repair(items) | T::Differs(items) | T::Holes(items) => {
                size_of_val(&items[..])
            }
            T::Seal(items) => size_of_val(&items[..]),
            T::Withdraw(items) => {
                list_bytes(items, |(_, failure)| failure.as_ref().map_or(0, Failure::heap_bytes))
            }
            T::Aside(items) => {
                list_bytes(items, |(_, path, outcome)| path.as_bytes().len() + outcome.heap_bytes())
            }
            T::Troubles(items) => {
                list_bytes(items, |(path, outcome)| path.as_bytes().len() + outcome.heap_bytes())
            }
            T::Deleted(names) | T::SourcesGone(names) => list_bytes(names, |name| name.as_bytes().len()),
            T::SourcesKept(failures) => list_bytes(failures, Failure::heap_bytes),
            T::Heard(runs) => size_of_val(&runs[..]),
            T::Settled(items) => list_bytes(items, |(_, outcome)| outcome.heap_bytes()),
            T::Receipt(signed) => signed.heap_bytes(),
            T::Accounts(accounts) => {
                let streams = list_bytes(&accounts.streams, |stream| stream.congestion.len());
                size_of::<SideAccounts>() + size_of_val(&accounts.stages[..]) + streams
            }
            T::Abort(failure) => failure.heap_bytes(),
            T::Flow(message) => message.heap_bytes(),
            T::OfferEnd(_) | T::Finished(_) | T::OffersRepeated | T::Unsigned | T::Frames(_) => 0,
            T::SourcesDone(_) | T::SourcesHeard => 0,
        }
    }
}

/// The name of a message in its enumeration, for people.
pub fn name_of(message: &impl fmt::Debug) -> String {
    let mut name = Name(String::new());
    // It refuses what comes behind the name.
    let _ = write!(name, "{message:?}");
    name.0
}

struct Name(String);

impl Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric());
        self.0.push_str(&text[..end.unwrap_or(text.len())]);
        end.map_or(Ok(()), |_| Err(fmt::Error))
    }
}

/// What the items of a list take, and what each of them has elsewhere.
fn list_bytes<T>(items: &[T], elsewhere: impl Fn(&T) -> usize) -> usize {
    size_of_val(items) + items.iter().map(elsewhere).sum::<usize>()
}

fn check_outcomes<'a>(outcomes: impl Iterator<Item = &'a Outcome> + Clone) -> Result<(), DecodeError> {
    outcomes.clone().try_for_each(Outcome::check)?;
    let losses = outcomes.map(|outcome| outcome.losses().len()).sum();
    check_count("losses", losses, limits::MESSAGE_LOSSES_MAX)
}

fn check_entries(entries: &[Entry]) -> Result<(), DecodeError> {
    check_count("entries", entries.len(), limits::OFFER_ENTRIES_MAX)?;
    entries.iter().try_for_each(Entry::check)
}

fn check_count(what: &'static str, value: usize, limit: usize) -> Result<(), DecodeError> {
    if value > limit {
        return Err(DecodeError::TooLarge { what, value: value as u64, limit: limit as u64 });
    }
    Ok(())
}

fn check_length(length: usize) -> Result<(), DecodeError> {
    check_count("message", length, limits::MESSAGE_BYTES_MAX)
}
