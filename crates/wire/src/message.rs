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

use crate::account::SideAccounts;
use crate::digest::Digest;
use crate::entry::{Entry, EntryId, Evidence};
use crate::path::Sentence;
use crate::receipt::Signed;
use crate::{DecodeError, RelativePath, limits};
use serde::{Deserialize, Serialize};

/// Bytes in front of every message.
pub const LENGTH_BYTES: usize = 4;

/// Which transfer of a session a message or frame belongs to. Chosen by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransferNumber(pub u16);

/// A run of chunks `first .. first + count` of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// First chunk.
    pub first: u64,
    /// How many; at least 1.
    pub count: u64,
}

impl Run {
    fn check(&self) -> Result<(), DecodeError> {
        match self.first.checked_add(self.count) {
            Some(end) if end > self.first => Ok(()),
            _ => Err(DecodeError::Invalid { what: "run" }),
        }
    }
}

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
    /// Server: the transfer can begin.
    Opened(Opened),
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
}

/// Knobs that may be turned while a transfer runs; all of them, each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Steer {
    /// Send no more than so many content bytes a second.
    pub rate_bytes_per_s: Option<u64>,
    /// Streams that take work, of those that stand; all of them if nobody says.
    pub streams: Option<u16>,
    /// As [`Terms::concurrency`].
    pub concurrency: Option<u32>,
    /// As [`Terms::depth`].
    pub depth: Option<u32>,
}

/// Messages of one transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransferMessage {
    /// Sender: entries found, in scan order.
    Offer(Vec<Entry>),
    /// Sender: the scan is over.
    OfferEnd(ScanTotals),
    /// Receiver: what it wants of entries offered.
    Want(Vec<(EntryId, Want)>),
    /// Receiver: digests of chunks that it has from an earlier attempt, before the [`Want::Missing`].
    Have {
        /// Which entry.
        entry: EntryId,
        /// First chunk.
        first: u64,
        /// One digest for each chunk from `first` on.
        digests: Vec<Digest>,
    },
    /// Receiver: chunks that are verified, or durable.
    Ack(AckLevel, Vec<(EntryId, Run)>),
    /// Receiver: these chunks or packed files came damaged or not at all; send them again.
    Repair(Vec<(EntryId, Run)>),
    /// Receiver: of what was to be compared, these chunks differ from what it has; send them.
    Differs(Vec<(EntryId, Run)>),
    /// Sender: these chunks are holes.
    Holes(Vec<(EntryId, Run)>),
    /// Sender: all chunks were read and the source did not change meanwhile.
    Seal(Vec<(EntryId, Seal)>),
    /// Sender: forget this entry. With a failure: it cannot be had. Without: it changed and will be offered
    /// again under a new number.
    Withdraw(Vec<(EntryId, Option<Failure>)>),
    /// Sender: names that it saw and does not offer, numbered like entries; told as settled in return.
    Aside(Vec<(EntryId, RelativePath, Outcome)>),
    /// Sender: after an outage, everything that is not settled has been offered again. What was not is
    /// withdrawn.
    OffersRepeated,
    /// Receiver, before it has finished: names below the destination that it could not deal with.
    Troubles(Vec<(RelativePath, Outcome)>),
    /// Receiver, before it has finished: names that it removed, or would remove in a dry run; not more of all than
    /// [`limits::DELETED_TOLD_MAX`].
    Deleted(Vec<RelativePath>),
    /// Sender: it has the outcomes of the entries with these numbers. Runs of entries, not of chunks.
    Heard(Vec<Run>),
    /// Receiver: final word on entries.
    Settled(Vec<(EntryId, Outcome)>),
    /// Receiver: all entries are settled, directories have their metadata, everything is durable.
    Finished(Totals),
    /// Sender, when the receiver has finished: its statement, signed. Receiver: its own in return.
    Receipt(Box<Signed>),
    /// Both, a few times while it runs and at the end: where its time went.
    Accounts(Box<SideAccounts>),
    /// Either: the transfer ends here, without success.
    Abort(Failure),
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
    /// For how long, in milliseconds.
    pub waiting_ms: u32,
}

/// The part of a peer that makes us wait. Claims extend a stall only up to our own patience.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitingFor {
    /// Reading the source.
    Read,
    /// Writing at the destination.
    Write,
    /// Making written bytes durable.
    Sync,
    /// Scanning the source tree.
    Scan,
}

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

/// How far a copy is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub enum VerifyLevel {
    /// Digest checked before each write, write errors fatal, everything synced.
    #[default]
    Written,
    /// As `Written`, then read again from the medium, past the page cache.
    Readback,
    /// As `Readback`, and the source read twice.
    Paranoid,
}

/// How an entry that exists at the destination is recognised as unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Check {
    /// Size, mtime in ns, and what the catalogue remembers of ctime and inode.
    #[default]
    Evidence,
    /// Compare content by digests; only chunks that differ are sent.
    Digest,
    /// Send everything.
    Nothing,
}

/// What besides content is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preserve {
    /// Permission bits.
    pub mode: bool,
    /// Numeric owner and group, where permitted.
    pub owner: bool,
    /// Times of last change, in ns.
    pub times: bool,
    /// Extended attributes and POSIX ACLs.
    pub xattrs: bool,
    /// Symbolic links as links.
    pub symlinks: bool,
    /// Hard links as links.
    pub hard_links: bool,
    /// Holes as holes.
    pub holes: bool,
    /// FIFOs and device nodes.
    pub devices: bool,
}

impl Preserve {
    /// All of it.
    pub const ALL: Preserve = Preserve {
        mode: true,
        owner: true,
        times: true,
        xattrs: true,
        symlinks: true,
        hard_links: true,
        holes: true,
        devices: true,
    };
}

impl Default for Preserve {
    /// An archive: all but FIFOs and devices, which are for who asks.
    fn default() -> Self {
        Preserve { devices: false, ..Preserve::ALL }
    }
}

/// How a transfer is done; the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Bytes of a chunk: a power of two, see [`limits`].
    pub chunk_bytes: u64,
    /// Largest payload of a frame before compression: a power of two, at most `chunk_bytes`.
    pub segment_bytes: u32,
    /// How far to check.
    pub verify: VerifyLevel,
    /// How to recognise what is there already.
    pub check: Check,
    /// What to keep.
    pub preserve: Preserve,
    /// Remove what the source does not have: at most this many entries.
    pub delete_max: Option<u64>,
    /// Compress where it pays.
    pub compress: bool,
    /// Send no more than so many content bytes a second.
    pub rate_bytes_per_s: Option<u64>,
    /// Decide and report, change nothing.
    pub dry_run: bool,
    /// Make names of the destination only if they do not exist.
    pub ignore_existing: bool,
    /// Leave an entry alone when the destination's is newer.
    pub update: bool,
    /// Identifies the job across attempts: same sources and destination, same key.
    pub job_key: [u8; 16],
    /// Files with chunks in flight at once, at most; the sender's choice if nobody asked.
    pub concurrency: Option<u32>,
    /// Chunks or packs of one stream that are handed out and not verified, at most; as many as the window takes if
    /// nobody asked.
    pub depth: Option<u32>,
    /// Bytes under way in each stream, for both ends of it; left to the kernel if nobody asked.
    pub window_bytes: Option<u64>,
    /// Congestion control of the streams, for the end that sends; left to the path if nobody asked.
    pub congestion: Option<String>,
    /// How each side uses its disk.
    pub disk: Disk,
    /// Bytes that the end that sends should make room for in each stream, as planned: its share of the bandwidth-delay
    /// product. `None`: left to the kernel.
    pub share_bytes: Option<u64>,
    /// Mark of the packets of both ends, 0..=63 (DSCP, RFC 2474); left to the system if nobody asked.
    pub dscp: Option<u8>,
    /// The scavenger class: the sender yields to others by delay (RFC 6817).
    pub yields: bool,
}

/// How the two sides use their disks; the default is: as they see fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Disk {
    /// At the source.
    pub source: DiskSide,
    /// At the destination.
    pub destination: DiskSide,
    /// Requests in flight for each stream, at most, see [`limits::IO_DEPTH_MAX`]; the side's choice if nobody asked.
    pub depth: Option<u16>,
    /// Helper threads even where there is an io_uring.
    pub no_io_uring: bool,
}

/// How one side uses its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct DiskSide {
    /// Past the page cache or through it.
    pub direct: Direct,
    /// In which order requests are made; the side's choice if nobody asked.
    pub order: Option<Order>,
}

/// Direct I/O: past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Direct {
    /// Where it measured faster: for writing large files, on file systems that gain by it.
    #[default]
    Auto,
    /// For every file that goes by segments, where the file system takes it; what is to be read and is in the page
    /// cache already comes from there.
    On,
    /// Never.
    Off,
}

/// Which chunk next, and when a thread may make its request (004, section II-A.3; `Layout`: 002, section VI-D).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Each thread has its own offsets, dealt round-robin, and waits for nobody.
    Strict,
    /// A request is made when all before it have ended.
    Serial,
    /// A request is made when all before it have been made.
    Loose,
    /// As it comes.
    None,
    /// By the place on the medium, one queue for each device.
    Layout,
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
}

/// What a scan found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ScanTotals {
    /// Entries offered.
    pub entries: u64,
    /// Bytes of regular files among them.
    pub bytes: u64,
    /// Names that could not be offered, each of which was reported.
    pub failed: u64,
    /// Whether every directory could be listed in full. Without that nothing is deleted.
    pub complete: bool,
}

/// What a receiver wants of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// All of its content.
    Whole,
    /// Only these chunks; the rest is there from an earlier attempt, see [`TransferMessage::Have`].
    Missing(Vec<Run>),
    /// Nothing more: [`Outcome`] follows without data.
    Nothing,
    /// These chunks may be there already, in the file that stands at the destination: read them and tell only
    /// their digests ([`FrameKind::Compare`](crate::frame::FrameKind::Compare)). What differs is asked for.
    Compare(Vec<Run>),
}

/// What an acknowledgement promises. A sender may strike a chunk off its list only at `Durable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AckLevel {
    /// Bytes arrived, match their digest and are written; a power cut can still lose them.
    Verified,
    /// Bytes and their journal record survive a power cut.
    Durable,
}

/// The sender's word that an entry is of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// What the source showed after the last read; equal to what it showed before the first.
    pub evidence: Evidence,
    /// Digest of the whole, joined from what the sender read.
    pub digest: Digest,
    /// How often the receiver has asked for pieces of it (`Repair`, `Differs`), by what the sender had heard over this
    /// link: a seal that crossed such a request is of another moment than what is read for it.
    pub asked: u32,
}

/// The final word on an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It stands under its final name, durable; with the digest of its content if it has any.
    Done {
        /// BLAKE3 of the content.
        digest: Option<Digest>,
        /// What could not be kept, each in words.
        losses: Vec<Loss>,
    },
    /// It was there already.
    Unchanged {
        /// Digest from the catalogue or the comparison, if known.
        digest: Option<Digest>,
    },
    /// It was left out on purpose.
    Skipped(String),
    /// It could not be done.
    Failed(Failure),
}

/// Something about an entry that the destination could not keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// For instance `owner`, `xattr security.capability`.
    pub what: String,
    /// Why.
    pub why: String,
}

/// What a receiver did, at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Totals {
    /// Entries done.
    pub done: u64,
    /// Entries that were there already.
    pub unchanged: u64,
    /// Entries left out on purpose.
    pub skipped: u64,
    /// Entries that failed.
    pub failed: u64,
    /// Entries removed by `--delete`.
    pub deleted: u64,
    /// Content bytes of the entries done.
    pub bytes_done: u64,
    /// Content bytes that arrived, repetitions included.
    pub bytes_received: u64,
    /// Content bytes found from an earlier attempt.
    pub bytes_resumed: u64,
    /// Content bytes that a file at the destination was found to have, by comparing.
    pub bytes_same: u64,
    /// Chunks that came damaged and were sent again.
    pub chunks_repaired: u64,
}

/// Whose fault and what kind: decides exit codes, retries and hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailureKind {
    /// The request makes no sense.
    Usage,
    /// No such file, export or job; or no right to know.
    NotFound,
    /// No permission.
    Permission,
    /// The connection failed or ended.
    Connection,
    /// The peer broke the protocol.
    Protocol,
    /// Data arrived damaged and could not be repaired.
    Damage,
    /// The source changed while it was read.
    Changed,
    /// No space, quota used up, or read-only.
    Space,
    /// Reading or writing failed.
    Io,
    /// Something else stands at the destination.
    Conflict,
    /// What the entry is cannot be made here.
    Unsupported,
    /// Stopped on request.
    Stopped,
    /// Another transfer holds it.
    Busy,
    /// A defect of thalweg.
    Internal,
}

/// A failure as it travels: enough for a person to act on, nothing that is not theirs to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Class.
    pub kind: FailureKind,
    /// What was being done, for instance `write`.
    pub operation: String,
    /// Where, if it concerns one entry.
    pub path: Option<RelativePath>,
    /// Byte range `start..end`, if it concerns one.
    pub range: Option<(u64, u64)>,
    /// The cause in one line.
    pub cause: String,
}

/// A question that needs no data stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Entries below a place; all levels if `recursive`. Answered by `Entries`, then `End`.
    List {
        /// Where.
        place: Place,
        /// All levels.
        recursive: bool,
    },
    /// Content of a file from `offset`, at most `bytes`. Answered by `Bytes`, then `End`.
    Read {
        /// Which file.
        place: Place,
        /// From where.
        offset: u64,
        /// How much; 0 for all.
        bytes: u64,
    },
    /// Digests of the files below a place. Answered by `Digests`, then `End`.
    Digest {
        /// Where.
        place: Place,
        /// 0: plain BLAKE3. Else a segment size: files above [`crate::digest::HASHED_HOLE_BYTES_MAX`] are
        /// digested with marked holes, whatever the disk keeps for them.
        chunk_bytes: u64,
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
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Entries, paths relative to the place asked.
    Entries(Vec<Entry>),
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
        /// Exports with their rights.
        exports: Vec<(String, bool)>,
    },
    /// Something on the way could not be done; the answer goes on.
    Trouble(Failure),
    /// The answer is complete, or why not.
    End(Option<Failure>),
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
    /// `Invalid` for anything a correct peer would not send, `TooLarge` for lists and texts beyond their limits.
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
            Message::Goodbye(Some(failure)) => failure.check(),
            Message::Opened(opened) => opened.refused.as_ref().map_or(Ok(()), Failure::check),
            Message::Reply { reply, .. } => match reply {
                Reply::Entries(entries) => check_entries(entries),
                Reply::Trouble(failure) | Reply::End(Some(failure)) => failure.check(),
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
            T::Want(items) => items.len(),
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
                items.iter().try_for_each(|(_, _, outcome)| outcome.check())?;
                items.len()
            }
            T::Troubles(items) => {
                items.iter().try_for_each(|(_, outcome)| outcome.check())?;
                items.len()
            }
            T::Deleted(names) => names.len(),
            T::Settled(items) => {
                items.iter().try_for_each(|(_, outcome)| outcome.check())?;
                items.len()
            }
            T::Abort(failure) => return failure.check(),
            T::Receipt(signed) => {
                check_count("signature", signed.signature.len(), 64)?;
                return check_count("certificate", signed.certificate.len(), limits::CERTIFICATE_BYTES_MAX);
            }
            T::OfferEnd(_) | T::Finished(_) | T::OffersRepeated => 0,
            T::Accounts(accounts) => return accounts.check(),
        };
        check_count("items", items, limits::MESSAGE_ITEMS_MAX)
    }
}

impl Open {
    fn check(&self) -> Result<(), DecodeError> {
        let terms = &self.terms;
        let power_of_two_within =
            |value: u64, low: u64, high: u64| value.is_power_of_two() && value >= low && value <= high;
        if !power_of_two_within(terms.chunk_bytes, limits::CHUNK_BYTES_MIN, limits::CHUNK_BYTES_MAX) {
            return Err(DecodeError::Invalid { what: "chunk size" });
        }
        let segment = u64::from(terms.segment_bytes);
        if !power_of_two_within(segment, limits::SEGMENT_BYTES_MIN, limits::SEGMENT_BYTES_MAX)
            || segment > terms.chunk_bytes
        {
            return Err(DecodeError::Invalid { what: "segment size" });
        }
        terms.check_knobs()?;
        check_count("places", self.places.len(), limits::PLACES_MAX)?;
        check_count("filter rules", self.filter.len(), limits::MESSAGE_ITEMS_MAX)?;
        check_count("names", self.only.len(), limits::MESSAGE_DIGESTS_MAX)?;
        if self.places.is_empty() {
            return Err(DecodeError::Invalid { what: "places" });
        }
        for place in &self.places {
            check_count("path", place.path.len(), limits::PATH_BYTES_MAX)?;
        }
        for rule in &self.filter {
            check_count("pattern", rule.pattern.len(), limits::TEXT_BYTES_MAX)?;
        }
        if let SourceForm::Single { name } = &self.source {
            crate::path::check_name(name)?;
        }
        Ok(())
    }
}

impl Steer {
    fn check(&self) -> Result<(), DecodeError> {
        if self.streams.is_some_and(|streams| !(1..=limits::STREAMS_MAX).contains(&streams)) {
            return Err(DecodeError::Invalid { what: "streams" });
        }
        check_in_flight(self.concurrency, self.depth)
    }
}

fn check_in_flight(concurrency: Option<u32>, depth: Option<u32>) -> Result<(), DecodeError> {
    let is_within = |value: Option<u32>, high: u32| value.is_none_or(|value| (1..=high).contains(&value));
    if !is_within(concurrency, limits::CONCURRENCY_MAX) {
        return Err(DecodeError::Invalid { what: "concurrency" });
    }
    if !is_within(depth, limits::DEPTH_MAX) {
        return Err(DecodeError::Invalid { what: "depth" });
    }
    Ok(())
}

impl Terms {
    /// An archive in chunks and segments of these sizes; nothing is deleted, compressed, or held back.
    pub fn of(chunk_bytes: u64, segment_bytes: u32) -> Terms {
        Terms {
            chunk_bytes,
            segment_bytes,
            verify: VerifyLevel::default(),
            check: Check::default(),
            preserve: Preserve::default(),
            delete_max: None,
            compress: false,
            rate_bytes_per_s: None,
            dry_run: false,
            ignore_existing: false,
            update: false,
            job_key: [0; 16],
            concurrency: None,
            depth: None,
            window_bytes: None,
            congestion: None,
            disk: Disk::default(),
            share_bytes: None,
            dscp: None,
            yields: false,
        }
    }

    fn check_knobs(&self) -> Result<(), DecodeError> {
        check_in_flight(self.concurrency, self.depth)?;
        if self.dscp.is_some_and(|dscp| dscp > limits::DSCP_MAX) {
            return Err(DecodeError::Invalid { what: "DSCP" });
        }
        let windows = limits::WINDOW_BYTES_MIN..=limits::WINDOW_BYTES_MAX;
        if self.share_bytes.is_some_and(|bytes| bytes > limits::WINDOW_BYTES_MAX) {
            return Err(DecodeError::Invalid { what: "share" });
        }
        if self.window_bytes.is_some_and(|bytes| !windows.contains(&bytes)) {
            return Err(DecodeError::Invalid { what: "window" });
        }
        if self.congestion.as_deref().is_some_and(|name| !is_congestion_name(name)) {
            return Err(DecodeError::Invalid { what: "congestion control" });
        }
        if self.disk.depth.is_some_and(|depth| !(1..=limits::IO_DEPTH_MAX).contains(&depth)) {
            return Err(DecodeError::Invalid { what: "depth of disk requests" });
        }
        Ok(())
    }
}

/// Whether this can be the name of a congestion control.
pub fn is_congestion_name(name: &str) -> bool {
    (1..=limits::CONGESTION_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

impl Outcome {
    fn check(&self) -> Result<(), DecodeError> {
        match self {
            Outcome::Failed(failure) => failure.check(),
            Outcome::Skipped(text) => check_count("text", text.len(), limits::TEXT_BYTES_MAX),
            Outcome::Done { losses, .. } => losses.iter().try_for_each(|loss| {
                check_count("text", loss.what.len() + loss.why.len(), limits::TEXT_BYTES_MAX)
            }),
            Outcome::Unchanged { .. } => Ok(()),
        }
    }
}

impl Failure {
    /// A failure without a place.
    pub fn new(kind: FailureKind, operation: &str, cause: impl ToString) -> Self {
        let mut cause = cause.to_string();
        truncate(&mut cause);
        Failure { kind, operation: operation.to_owned(), path: None, range: None, cause }
    }

    /// The same failure, at `path`.
    pub fn at(mut self, path: &RelativePath) -> Self {
        self.path = Some(path.clone());
        self
    }

    /// The same failure, in bytes `start..end`.
    pub fn in_range(mut self, start: u64, end: u64) -> Self {
        self.range = Some((start, end));
        self
    }

    fn check(&self) -> Result<(), DecodeError> {
        check_count("text", self.operation.len() + self.cause.len(), limits::TEXT_BYTES_MAX)
    }
}

/// One line: operation, place, range, cause. A peer's words are shown escaped.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} failed", Sentence(&self.operation))?;
        if let Some(path) = &self.path {
            write!(f, " on `{path}`")?;
        }
        if let Some((start, end)) = self.range {
            write!(f, " at bytes {start}..{end}")?;
        }
        write!(f, ": {}", Sentence(&self.cause))
    }
}

impl std::error::Error for Failure {}

fn truncate(text: &mut String) {
    if text.len() > limits::TEXT_BYTES_MAX / 2 {
        let end = (0..=limits::TEXT_BYTES_MAX / 2).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
    }
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
