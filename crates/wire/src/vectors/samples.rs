//! The values. [`each`] makes sure that every variant of an enum has one.

use super::Sample;
use crate::account::{
    DiskAccount, EnergyAccount, LimitAccount, ProcessAccount, RenamedAccount, RoomAccount, SideAccounts,
    StageAccount, StreamAccount,
};
use crate::entry::Xattr;
use crate::frame::{Encoding, FrameKind, INNER_BYTES, Inner, PackItem, TAG_BYTES};
use crate::hello::{Answer, Cipher, Hello, Purpose, ServerHello, System};
use crate::journal::{LAYOUT, MAGIC, MarkRecord, Record};
use crate::message::{
    AckLevel, Check, Disk, ErrandTold, Failure, FailureKind, FlowBegin, FlowLeft, FlowMark, FlowMessage,
    FlowStand, FramesMessage, Heartbeat, Left, Loss, MeasureTerms, Measured, Message, Opened, Origin,
    Outcome, Part, PartOf, Place, Question, Reason, Reply, Rhythm, Run, ScanTotals, Seal, Slot, SlotAsk,
    SlotTable, SlotTaken, SlotWish, SourceTotals, Stays, Steer, Totals, TransferMessage, TransferNumber,
    VerifyLevel, WaitingFor, Want,
};
use crate::receipt::{Side, Signatory, Signed, Statement, TransferKind};
use crate::{Digest, Entry, EntryId, Evidence, Kind, RelativePath, Time, limits};

/// Files in the sample of a pack.
pub(super) const PACK_FILES: u64 = 3;
/// Where the sample records stand: behind the first bytes of a journal.
pub(super) const RECORD_AT: u64 = MAGIC.len() as u64;

/// Samples of an enum, at least one for each variant: a variant without a line does not compile, and a line whose
/// value is another variant panics.
macro_rules! each {
    ($type:ty; $($pattern:pat => $($name:literal: $value:expr),+;)+) => {{
        let exhaustive = |value: &$type| match value { $($pattern => ()),+ };
        vec![$($({
            let value: $type = $value;
            exhaustive(&value);
            assert!(matches!(value, $pattern), "{} is another variant", $name);
            Sample { name: $name.to_owned(), value }
        }),+),+]
    }};
}

// Frames of detectors.
pub(super) mod frames;

// Transfers as they are opened.
mod opening;

// Copies that one server runs as the client of another.
mod errands;

impl<T> Sample<T> {
    fn into<U>(self, kind: &str, wrap: impl FnOnce(T) -> U) -> Sample<U> {
        Sample { name: format!("{kind} {}", self.name).trim().to_owned(), value: wrap(self.value) }
    }
}

/// All samples, each made into something larger.
fn within<T, U>(samples: Vec<Sample<T>>, kind: &str, wrap: impl Fn(T) -> U) -> Vec<Sample<U>> {
    samples.into_iter().map(|sample| sample.into(kind, &wrap)).collect()
}

fn one<T>(name: &str, value: T) -> Vec<Sample<T>> {
    vec![Sample { name: name.to_owned(), value }]
}

pub(super) fn hellos() -> Vec<Sample<Hello>> {
    let hello = |purpose, cipher| Hello {
        versions: (1, 2),
        purpose,
        cipher,
        stream: 0x0102,
        features: 0x0102_0304_0506_0708,
        session: [0x5e; 16],
        proof: [0x9f; 32],
    };
    let mut all = within(purposes(), "purpose", |purpose| hello(purpose, Cipher::Aes128Gcm));
    all.extend(within(ciphers(), "cipher", |cipher| hello(Purpose::Stream, cipher)));
    all
}

pub(super) fn server_hellos() -> Vec<Sample<ServerHello>> {
    let hello = |answer, cipher| ServerHello {
        version: 2,
        versions: (1, 3),
        answer,
        cipher,
        features: 0x0102_0304_0506_0708,
        session: [0x5e; 16],
        system: System {
            rmem_max_kib: 4096,
            wmem_max_kib: 208,
            tcp_rmem_max_kib: 32 << 10,
            tcp_wmem_max_kib: 0x0102_0304,
            cores: 12,
        },
    };
    let mut all = within(answers(), "answer", |answer| hello(answer, Cipher::Aes256Gcm));
    all.extend(within(ciphers(), "cipher", |cipher| hello(Answer::Accepted, cipher)));
    all
}

fn purposes() -> Vec<Sample<Purpose>> {
    each! { Purpose;
        Purpose::Control => "control": Purpose::Control;
        Purpose::Stream => "stream": Purpose::Stream;
        Purpose::Resume => "resume": Purpose::Resume;
        Purpose::Token => "token": Purpose::Token;
    }
}

fn ciphers() -> Vec<Sample<Cipher>> {
    each! { Cipher;
        Cipher::Aes128Gcm => "aes-128-gcm": Cipher::Aes128Gcm;
        Cipher::Aes256Gcm => "aes-256-gcm": Cipher::Aes256Gcm;
        Cipher::ChaCha20Poly1305 => "chacha20-poly1305": Cipher::ChaCha20Poly1305;
        Cipher::Tls => "tls": Cipher::Tls;
    }
}

fn answers() -> Vec<Sample<Answer>> {
    each! { Answer;
        Answer::Accepted => "accepted": Answer::Accepted;
        Answer::Version => "version": Answer::Version;
        Answer::UnknownSession => "unknown session": Answer::UnknownSession;
        Answer::Busy => "busy": Answer::Busy;
        Answer::TokenWanted => "token wanted": Answer::TokenWanted;
        Answer::TokenExpired => "token expired": Answer::TokenExpired;
        Answer::TokenRefused => "token refused": Answer::TokenRefused;
        Answer::TokenWithoutRights => "token without rights": Answer::TokenWithoutRights;
        Answer::TokenUnchecked => "token unchecked": Answer::TokenUnchecked;
    }
}

pub(super) fn sealed_lengths() -> Vec<Sample<usize>> {
    let mut all = one("shortest", INNER_BYTES + TAG_BYTES);
    all.extend(one("longest", limits::FRAME_BYTES_MAX));
    all
}

pub(super) fn frames() -> Vec<Sample<(Inner, Vec<u8>)>> {
    let inner = |kind, raw_bytes| Inner {
        kind,
        encoding: Encoding::Raw,
        transfer: TransferNumber(0x0203),
        raw_bytes,
        entry: EntryId(0x04),
        offset: 0x0001_0000_0000,
        digest: Digest([0xd1; 32]),
        is_again: false,
    };
    let mut all = each! { (Inner, Vec<u8>);
        (Inner { kind: FrameKind::Segment, .. }, _) => "segment": (inner(FrameKind::Segment, 5), b"bytes".to_vec());
        (Inner { kind: FrameKind::Zeros, .. }, _) => "zeros": (inner(FrameKind::Zeros, 65536), vec![]);
        (Inner { kind: FrameKind::Compare, .. }, _) => "compare": (inner(FrameKind::Compare, 0), vec![]);
        (Inner { kind: FrameKind::Pack, .. }, _) => "pack": (inner(FrameKind::Pack, 7), b"a pack!".to_vec());
        (Inner { kind: FrameKind::End, .. }, _) => "end": (Inner::end(), vec![]);
    };
    let encodings = each! { Encoding;
        Encoding::Raw => "raw": Encoding::Raw;
        Encoding::Zstd => "zstd": Encoding::Zstd;
    };
    all.extend(within(one("again", true), "copy", |is_again| {
        (Inner { is_again, ..inner(FrameKind::Segment, 4) }, b"data".to_vec())
    }));
    all.extend(within(encodings, "encoding", |encoding| {
        let raw_bytes = if encoding == Encoding::Raw { 4 } else { 4096 };
        (Inner { encoding, ..inner(FrameKind::Segment, raw_bytes) }, b"data".to_vec())
    }));
    all
}

/// Items with their contents.
type Pack = Vec<(PackItem, Vec<u8>)>;

pub(super) fn packs() -> Vec<Sample<Pack>> {
    let files = [&b"first"[..], b"", b"3rd"].into_iter().zip(7u64..).map(|(content, entry)| {
        let digest = Digest([entry as u8; 32]);
        (PackItem { entry: EntryId(entry), bytes: content.len() as u32, digest }, content.to_vec())
    });
    one("three files", files.collect())
}

pub(super) fn records() -> Vec<Sample<Record>> {
    each! { Record;
        Record::Header { .. } => "header": Record::Header {
            layout: LAYOUT,
            job_key: [0x70; 16],
            chunk_bytes: 4 << 20,
        };
        Record::Begin { .. } => "begin": Record::Begin { partial: 300, path: path(b"dir/\xff"), evidence: evidence() };
        Record::Chunks { .. } =>
            "chunks": Record::Chunks { partial: 300, chunks: vec![(0, digest(1)), (1 << 40, digest(2))] },
            "no chunks": Record::Chunks { partial: 1, chunks: vec![] };
        Record::End { .. } => "end": Record::End { partial: u64::MAX };
    }
}

pub(super) fn statements() -> Vec<Sample<Statement>> {
    let sides = each! { Side;
        Side::Sender => "sender": Side::Sender;
        Side::Receiver => "receiver": Side::Receiver;
    };
    let mut all = within(sides, "by the", |side| {
        let place = (side == Side::Receiver).then(place);
        let unread = if side == Side::Sender { 150 } else { 0 };
        Statement { side, place, unread, ..statement() }
    });
    let kinds = each! { TransferKind;
        TransferKind::Files => "files": TransferKind::Files;
        TransferKind::Stream => "a stream": TransferKind::Stream;
    };
    all.extend(within(kinds, "of", |kind| Statement { kind, session: None, header: None, ..statement() }));
    all
}

pub(super) fn signed() -> Vec<Sample<Signed>> {
    one("signed", signed_statement())
}

/// Entries of every kind with every outcome.
pub(super) fn settled() -> Vec<Sample<(Entry, Outcome)>> {
    let done = Outcome::Done { digest: Some(digest(3)), losses: vec![] };
    let mut all = within(kinds(), "kind", |kind| (entry(kind), done.clone()));
    let file = || entry(Kind::File { sparse: false, marked: false });
    all.extend(within(outcomes(), "outcome", |outcome| (file(), outcome)));
    all
}

pub(super) fn messages() -> Vec<Sample<Message>> {
    let mut all = each! { Message;
        Message::Heartbeat(_) => "heartbeat": Message::Heartbeat(Heartbeat::default());
        Message::Goodbye(_) => "goodbye": Message::Goodbye(None), "goodbye failure": Message::Goodbye(Some(failure()));
        Message::Ask { .. } => "ask": Message::Ask { number: 1, question: Question::About };
        Message::Reply { .. } => "reply": Message::Reply { number: 1, reply: Reply::End(None) };
        Message::Open(_) => "open": Message::Open(Box::new(opening::open()));
        Message::Taken { .. } => "taken": Message::Taken { number: 513, pieces: 300 };
        Message::Enough { .. } => "enough": Message::Enough { number: 513 };
        Message::Steer(..) => "steer": Message::Steer(TransferNumber(1), Steer::default()),
            "steer all": Message::Steer(TransferNumber(1), steer());
        Message::Stuck { .. } => "stuck": Message::Stuck { stream: 3 };
        Message::NoStream { .. } => "no stream": Message::NoStream { stream: 3, why: failure() };
        Message::Opened(..) => "opened": opened(Opened::Push { is_ephemeral: true });
        Message::Transfer(..) => "transfer": transfer(TransferMessage::OffersRepeated);
    };
    all.extend(within(waits(), "heartbeat waiting for", |waiting_for| {
        Message::Heartbeat(Heartbeat {
            arrived_bytes: 4 << 40,
            verified_bytes: 3 << 40,
            durable_bytes: 2 << 30,
            settled_entries: 70_000,
            waiting_for: Some(waiting_for),
            waiting_ms: 1500,
        })
    }));
    all.extend(within(failure_kinds(), "goodbye", |kind| {
        Message::Goodbye(Some(Failure { kind, ..failure() }))
    }));
    all.extend(within(reasons(), "goodbye because of", |reason| {
        Message::Goodbye(Some(Failure { reason, ..failure() }))
    }));
    all.extend(within(parts(), "ask", |question| Message::Ask { number: 514, question }));
    all.extend(within(questions(), "ask", |question| Message::Ask { number: 513, question }));
    all.extend(within(slot_asks(), "ask", |question| Message::Ask { number: 515, question }));
    all.extend(within(replies(), "reply", |reply| Message::Reply { number: 513, reply }));
    all.extend(within(errands::told(), "reply errand", |told| Message::Reply {
        number: 513,
        reply: Reply::Errand(Box::new(told)),
    }));
    all.extend(within(opening::opens(), "open", |open| Message::Open(Box::new(open))));
    all.extend(within(opening::answers(), "opened", opened));
    all.extend(within(transfer_messages(), "", transfer));
    all
}

fn transfer_messages() -> Vec<Sample<TransferMessage>> {
    use TransferMessage as T;
    let run = || vec![(EntryId(2), Run { first: 1, count: 300 })];
    let mut all = each! { T;
        T::Offer(_) => "offer": T::Offer(vec![]);
        T::OfferEnd(_) => "offer end": T::OfferEnd(ScanTotals { entries: 300, bytes: 5 << 40, failed: 1, complete: true, empty: 0 });
        T::Want(_) => "want": T::Want(vec![]);
        T::Have { .. } => "have": T::Have { entry: EntryId(2), first: 128, digests: vec![digest(1), digest(2)] };
        T::Ack(..) => "ack": T::Ack(AckLevel::Verified, vec![]);
        T::Differs(_) => "differs": T::Differs(run());
        T::Repair(_) => "repair": T::Repair(run());
        T::Holes(_) => "holes": T::Holes(run());
        T::Seal(_) => "seal": T::Seal(vec![(EntryId(2), Seal { evidence: evidence(), digest: digest(4), asked: 2 })]);
        T::Withdraw(_) => "withdraw": T::Withdraw(vec![(EntryId(2), None), (EntryId(3), Some(failure()))]);
        T::Aside(_) => "aside": T::Aside(vec![(EntryId(2), path(b"dir/socket"), Outcome::Skipped("a socket".into()))]);
        T::OffersRepeated => "offers repeated": T::OffersRepeated;
        T::Troubles(_) => "troubles": T::Troubles(vec![(path(b"dir/extra"), Outcome::Failed(failure()))]);
        T::Deleted(_) => "deleted": T::Deleted(vec![path(b"dir/old"), path(b"dir")]);
        T::Heard(_) => "heard": T::Heard(vec![Run { first: 128, count: 1024 }]);
        T::Settled(_) => "settled": T::Settled(vec![]);
        T::Finished(_) => "finished": T::Finished(totals());
        T::Receipt(_) => "receipt": T::Receipt(Box::new(signed_statement()));
        T::Unsigned => "unsigned": T::Unsigned;
        T::SourcesGone(_) => "sources gone": T::SourcesGone(vec![path(b"dir/a"), path(b"dir/b")]);
        T::SourcesKept(_) => "sources kept": T::SourcesKept(vec![failure()]);
        T::SourcesDone(_) => "sources done": T::SourcesDone(SourceTotals { removed: 300, kept: 1, left: left(), is_cut_short: true });
        T::SourcesHeard => "sources heard": T::SourcesHeard;
        T::Accounts(_) => "accounts": T::Accounts(Box::new(accounts()));
        T::Abort(_) => "abort": T::Abort(failure());
        T::Flow(_) => "flow": T::Flow(FlowMessage::Last);
        T::Frames(_) => "frames": T::Frames(FramesMessage::Leave);
    };
    all.extend(within(flow_messages(), "flow", T::Flow));
    all.extend(within(frames::messages(), "frames", T::Frames));
    all.extend(within(kinds(), "offer", |kind| T::Offer(vec![entry(kind)])));
    all.extend(within(wants(), "want", |want| T::Want(vec![(EntryId(2), want)])));
    all.extend(within(ack_levels(), "ack", |level| T::Ack(level, run())));
    all.extend(within(outcomes(), "settled", |outcome| T::Settled(vec![(EntryId(2), outcome)])));
    all
}

fn left() -> Left {
    let mut left = Left::default();
    left.add(Stays::NotCompared, 2);
    left.add(Stays::NotRemoved, 300);
    left
}

fn flow_messages() -> Vec<Sample<FlowMessage>> {
    use FlowMessage as F;
    let mark = || FlowMark { flow: EntryId(3), bytes: 5 << 33, digest: digest(8) };
    each! { F;
        F::Begin(_) => "begin": F::Begin(vec![FlowBegin {
            flow: EntryId(3), path: path(b"run/log"), origin: Origin([9; 16]), mode: 0o640, is_certain: true,
        }]);
        F::Left(..) => "left": F::Left(vec![FlowLeft {
            path: path(b"run/log"), origin: Origin([9; 16]), name: path(b"run/log.~2~"), bytes: 5 << 33,
        }], Some(1));
        F::Stand(_) => "stand": F::Stand(vec![
            FlowStand { at: mark(), is_ours: true, is_over: false, name: None },
            FlowStand { at: mark(), is_ours: true, is_over: false, name: Some(path(b"a/b.~2~")) },
        ]);
        F::Mark(_) => "mark": F::Mark(vec![mark()]);
        F::Again(_) => "again": F::Again(vec![(EntryId(3), 1 << 33)]);
        F::End(_) => "end": F::End(vec![mark()]);
        F::Last => "last": F::Last;
        F::Note(_) => "note": F::Note("run/log was replaced".into());
    }
}

pub(super) fn mark_records() -> Vec<Sample<MarkRecord>> {
    each! { MarkRecord;
        MarkRecord::Header { .. } => "header": MarkRecord::Header { layout: LAYOUT };
        MarkRecord::Begin { .. } => "begin": MarkRecord::Begin {
            flow: 2, path: path(b"run/log"), origin: Origin([9; 16]), name: path(b"run/log.~2~"),
        };
        MarkRecord::Marks(_) => "marks": MarkRecord::Marks(vec![(2, 5 << 33, digest(8)), (1, 0, digest(9))]);
        MarkRecord::End { .. } => "end": MarkRecord::End { flow: 2 };
        MarkRecord::Made { .. } => "made": MarkRecord::Made { flow: 2, inode: 5 << 33 };
    }
}

fn accounts() -> SideAccounts {
    let stage = StageAccount {
        stage: 3,
        busy_nanos: 1 << 40,
        input_nanos: 1 << 20,
        output_nanos: 1 << 30,
        cpu_nanos: 1 << 39,
        bytes: 1 << 33,
        items: 1 << 13,
        threads: 8,
        queue: 3,
        queue_max: 300,
    };
    let process = ProcessAccount {
        host: 0x0102_0304_0506_0708,
        user_nanos: 1 << 38,
        system_nanos: 1 << 37,
        runnable_nanos: 1 << 36,
        voluntary_switches: 300,
        involuntary_switches: 3,
        read_bytes: 1 << 33,
        written_bytes: 0,
        cores_milli: 16_000,
        quota_milli: Some(250),
        throttled_nanos: 1 << 35,
        throttled_count: 77,
        io_pressure_nanos: Some(1 << 34),
        cpu_pressure_nanos: None,
        heat_looks: 300,
        heat_slowed: 7,
        heat_times: 1 << 14,
    };
    let disk = DiskAccount {
        major: 259,
        minor: 3,
        read_bytes: 1 << 33,
        written_bytes: 4096,
        busy_nanos: 1 << 32,
        flush_nanos: 1 << 22,
    };
    let stream = StreamAccount {
        stream: 2,
        acked_bytes: 1 << 31,
        rtt_nanos: 101_000_000,
        rtt_min_nanos: 100_000_000,
        cwnd_bytes: 1 << 22,
        window_bytes: 1 << 23,
        busy_nanos: 1 << 33,
        rwnd_limited_nanos: 1 << 32,
        sndbuf_limited_nanos: 1 << 31,
        sent_bytes: (1 << 31) + 1448,
        retransmitted_bytes: 1448,
        delivery_bytes_per_s: 1 << 25,
        delivery_bytes_per_s_max: 1 << 26,
        congestion: "cubic".into(),
        local: Some([192, 0, 2, 7].into()),
        remote: Some([0x2001, 0xdb8, 0, 0, 0, 0, 0, 9].into()),
        send_buffer_bytes: 4 << 20,
        overflow_bytes: 724,
        queued_nanos: 1 << 30,
        peak_share_bytes_per_s: 1 << 24,
        open_share_bytes_per_s: 1 << 23,
    };
    SideAccounts {
        elapsed_nanos: 1 << 41,
        stages: vec![stage],
        process,
        disk: Some(disk),
        streams: vec![stream],
        room: Some(RoomAccount { free_bytes: 5 << 40, wanted_bytes: 10 << 40 }),
        limit: Some(LimitAccount {
            bytes_per_s: 125_000_000,
            machine: "dtn1".into(),
            export: Some("data".into()),
        }),
        energy: Some(EnergyAccount { joules: Some(18_000), is_platform: true, is_denied: false }),
        renamed: Some(RenamedAccount { files: 300, bytes: 1 << 40, is_cut: true }),
    }
}

fn kinds() -> Vec<Sample<Kind>> {
    each! { Kind;
        Kind::File { .. } => "file": Kind::File { sparse: false, marked: false },
            "file sparse and marked": Kind::File { sparse: true, marked: true };
        Kind::Directory => "directory": Kind::Directory;
        Kind::Symlink { .. } => "symlink": Kind::Symlink { target: b"../to\xfe".to_vec() };
        Kind::HardLink { .. } => "hard link": Kind::HardLink { first: path(b"first"), of: EntryId(1) };
        Kind::Fifo => "fifo": Kind::Fifo;
        Kind::Device { .. } => "device": Kind::Device { block: true, major: 259, minor: 3 };
    }
}

fn wants() -> Vec<Sample<Want>> {
    each! { Want;
        Want::Whole => "whole": Want::Whole;
        Want::Missing(_) => "missing": Want::Missing(vec![Run { first: 0, count: 1 }, Run { first: 200, count: 1 << 33 }]);
        Want::Nothing => "nothing": Want::Nothing;
        Want::Compare(_) => "compare": Want::Compare(vec![Run { first: 3, count: 4 }]);
    }
}

fn ack_levels() -> Vec<Sample<AckLevel>> {
    each! { AckLevel;
        AckLevel::Verified => "verified": AckLevel::Verified;
        AckLevel::Durable => "durable": AckLevel::Durable;
    }
}

fn outcomes() -> Vec<Sample<Outcome>> {
    each! { Outcome;
        Outcome::Done { .. } =>
            "done": Outcome::Done { digest: Some(digest(5)), losses: vec![] },
            "done with losses": Outcome::Done {
                digest: None,
                losses: vec![Loss { what: "owner".into(), why: "not permitted".into() }],
            };
        Outcome::Unchanged { .. } =>
            "unchanged": Outcome::Unchanged { digest: None },
            "unchanged with digest": Outcome::Unchanged { digest: Some(digest(6)) };
        Outcome::Skipped(_) => "skipped": Outcome::Skipped("newer at the destination".into());
        Outcome::Failed(_) => "failed": Outcome::Failed(failure());
    }
}

fn waits() -> Vec<Sample<WaitingFor>> {
    each! { WaitingFor;
        WaitingFor::Read => "read": WaitingFor::Read;
        WaitingFor::Write => "write": WaitingFor::Write;
        WaitingFor::Sync => "sync": WaitingFor::Sync;
        WaitingFor::Scan => "scan": WaitingFor::Scan;
        WaitingFor::Consumer => "consumer": WaitingFor::Consumer;
        WaitingFor::Share => "share": WaitingFor::Share;
    }
}

fn failure_kinds() -> Vec<Sample<FailureKind>> {
    each! { FailureKind;
        FailureKind::Usage => "usage": FailureKind::Usage;
        FailureKind::NotFound => "not found": FailureKind::NotFound;
        FailureKind::Permission => "permission": FailureKind::Permission;
        FailureKind::Connection => "connection": FailureKind::Connection;
        FailureKind::Protocol => "protocol": FailureKind::Protocol;
        FailureKind::Damage => "damage": FailureKind::Damage;
        FailureKind::Changed => "changed": FailureKind::Changed;
        FailureKind::Space => "space": FailureKind::Space;
        FailureKind::Io => "io": FailureKind::Io;
        FailureKind::Conflict => "conflict": FailureKind::Conflict;
        FailureKind::Unsupported => "unsupported": FailureKind::Unsupported;
        FailureKind::Stopped => "stopped": FailureKind::Stopped;
        FailureKind::Busy => "busy": FailureKind::Busy;
        FailureKind::Internal => "internal": FailureKind::Internal;
    }
}

fn reasons() -> Vec<Sample<Reason>> {
    each! { Reason;
        Reason::Other => "other": Reason::Other;
        Reason::NoDescriptors => "no descriptors": Reason::NoDescriptors;
        Reason::FileTooLarge => "file too large": Reason::FileTooLarge;
        Reason::NoMemory => "no memory": Reason::NoMemory;
        Reason::NoThreads => "no threads": Reason::NoThreads;
        Reason::CongestionRefused => "congestion refused": Reason::CongestionRefused;
        Reason::DiskFailed => "disk failed": Reason::DiskFailed;
        Reason::NoInodes => "no inodes": Reason::NoInodes;
        Reason::NotOurs => "not ours": Reason::NotOurs;
        Reason::NotReplaced => "not replaced": Reason::NotReplaced;
        Reason::NoState => "no state": Reason::NoState;
        Reason::NotAskedFor => "not asked for": Reason::NotAskedFor;
        Reason::NotExpanded => "not expanded": Reason::NotExpanded;
        Reason::BothFar => "both far": Reason::BothFar;
        Reason::NoPlace => "no place": Reason::NoPlace;
        Reason::NotBesideIndex => "not beside index": Reason::NotBesideIndex;
        Reason::NotTrusted => "not trusted": Reason::NotTrusted;
        Reason::NotAnswered => "not answered": Reason::NotAnswered;
        Reason::NotResolved => "not resolved": Reason::NotResolved;
        Reason::NoWay => "no way": Reason::NoWay;
        Reason::NotMeasured => "not measured": Reason::NotMeasured;
        Reason::NoSsh => "no ssh": Reason::NoSsh;
        Reason::NotPlaced => "not placed": Reason::NotPlaced;
        Reason::NoFarProgram => "no far program": Reason::NoFarProgram;
        Reason::FarProgramDiffers => "far program differs": Reason::FarProgramDiffers;
        Reason::SshEnded => "ssh ended": Reason::SshEnded;
        Reason::FarNotReached => "far not reached": Reason::FarNotReached;
        Reason::FarEnds => "far ends": Reason::FarEnds;
        Reason::Damaged => "damaged": Reason::Damaged;
        Reason::NameLost => "name lost": Reason::NameLost;
        Reason::NameReplaced => "name replaced": Reason::NameReplaced;
        Reason::NoWindow => "no window": Reason::NoWindow;
        Reason::NameTaken => "name taken": Reason::NameTaken;
        Reason::ChannelCrowded => "channel crowded": Reason::ChannelCrowded;
        Reason::LogNotWritten => "log not written": Reason::LogNotWritten;
        Reason::ConsumersSlow => "consumers slow": Reason::ConsumersSlow;
        Reason::SetOver => "set over": Reason::SetOver;
        Reason::NoChannelRoom => "no channel room": Reason::NoChannelRoom;
        Reason::LogTaken => "log taken": Reason::LogTaken;
        Reason::LogChanged => "log changed": Reason::LogChanged;
        Reason::LogSizeUnknown => "log size unknown": Reason::LogSizeUnknown;
        Reason::HubDirectoryTaken => "hub directory taken": Reason::HubDirectoryTaken;
        Reason::StateTaken => "state taken": Reason::StateTaken;
        Reason::PortTaken => "port taken": Reason::PortTaken;
        Reason::DestinationTaken => "destination taken": Reason::DestinationTaken;
        Reason::GrowingTaken => "growing taken": Reason::GrowingTaken;
        Reason::StillWritten => "still written": Reason::StillWritten;
        Reason::CopySilent => "copy silent": Reason::CopySilent;
        Reason::WatchTaken => "watch taken": Reason::WatchTaken;
        Reason::NoProgram => "no program": Reason::NoProgram;
        Reason::InFork => "in fork": Reason::InFork;
        Reason::NoNamespace => "no namespace": Reason::NoNamespace;
        Reason::ThreadPanicked => "thread panicked": Reason::ThreadPanicked;
        Reason::BeginsAnew => "begins anew": Reason::BeginsAnew;
        Reason::NotFollowed => "not followed": Reason::NotFollowed;
        Reason::SourceStays => "source stays": Reason::SourceStays;
        Reason::NoLocks => "no locks": Reason::NoLocks;
        Reason::NoVersion => "no version": Reason::NoVersion;
        Reason::KeyUsedUp => "key used up": Reason::KeyUsedUp;
        Reason::StoreNotTrusted => "store not trusted": Reason::StoreNotTrusted;
        Reason::StoreNotAnswered => "store not answered": Reason::StoreNotAnswered;
        Reason::TokenNotTaken => "token not taken": Reason::TokenNotTaken;
        Reason::NoErrands => "no errands": Reason::NoErrands;
        Reason::SessionGone => "session gone": Reason::SessionGone;
        Reason::NotDeleted => "not deleted": Reason::NotDeleted;
    }
}

fn questions() -> Vec<Sample<Question>> {
    each! { Question;
        Question::List { .. } => "list": list_of(false), "list on and follow links": list_of(true);
        Question::Read { .. } => "read": read(None), "read on": read(Some(evidence()));
        Question::Digest { .. } => "digest": digest_of(false),
            "digest on and follow links": digest_of(true);
        Question::Remove { .. } => "remove": Question::Remove { place: place(), recursive: false };
        Question::About => "about": Question::About;
        Question::Channel { .. } => "channel": Question::Channel { place: place() };
        Question::Measure { .. } => "measure": measure(Part::Read);
        Question::Slot(_) => "slot": Question::Slot(SlotAsk::All);
        Question::Look { .. } => "look": Question::Look { place: place(), follow: true };
        Question::ErrandTo { .. } => "errand to": Question::ErrandTo { address: "dtn2:8487".into() };
        Question::Vouch(_) => "vouch": errands::vouch();
        Question::Errand(_) => "errand": errands::errand();
    }
}

fn list_of(follow_links: bool) -> Question {
    let after = follow_links.then(|| path(b"a"));
    Question::List { place: place(), recursive: true, follow_links, after }
}

fn digest_of(follow_links: bool) -> Question {
    let after = follow_links.then(|| path(b"a"));
    let part = follow_links.then_some(PartOf { number: 2, count: 3 });
    Question::Digest { place: place(), chunk_bytes: 1 << 20, follow_links, after, part }
}

fn read(seen: Option<Evidence>) -> Question {
    Question::Read { place: place(), offset: 1 << 33, bytes: 4096, seen }
}

fn slot_asks() -> Vec<Sample<Question>> {
    let bursts = Rhythm::Bursts { period_micros: 1_000_000, bytes: 20_000_000 };
    let take = |rhythm, instead| SlotAsk::Take {
        wish: SlotWish { rhythm, deadline_micros: 300_000, ready_ago_micros: 300, guard_micros: 5000 },
        instead,
    };
    let asks = each! { SlotAsk;
        SlotAsk::Take { .. } => "take": take(bursts, None),
            "take steady": take(Rhythm::Steady { bytes_per_s: 1 << 20 }, Some([7; 16]));
        SlotAsk::Keep(_) => "keep": SlotAsk::Keep([7; 16]);
        SlotAsk::Leave(_) => "leave": SlotAsk::Leave([7; 16]);
        SlotAsk::All => "all": SlotAsk::All;
    };
    within(asks, "slot", Question::Slot)
}

fn slot() -> Slot {
    Slot {
        lease: [7; 16],
        lease_millis: 15_000,
        period_micros: 1_000_000,
        length_micros: 165_000,
        opens_micros: 300,
        bytes: 20_000_000,
        bytes_per_s: 125_000_000,
        worst_micros: 300_000,
        is_any_time: true,
        settle_micros: 20_000,
        over_bytes: 300,
    }
}

fn parts() -> Vec<Sample<Question>> {
    let parts = each! { Part;
        Part::Read => "read": Part::Read;
        Part::Digest => "digest": Part::Digest;
        Part::Seal => "seal": Part::Seal;
        Part::Open => "open": Part::Open;
        Part::Write => "write": Part::Write;
    };
    within(parts, "measure", measure)
}

fn measure(part: Part) -> Question {
    let disk = Disk { depth: Some(4), ..Disk::default() };
    let terms = MeasureTerms { chunk_bytes: 4 << 20, segment_bytes: 1 << 20, disk };
    Question::Measure { place: place(), part, millis: 1500, threads: 4, terms }
}

fn replies() -> Vec<Sample<Reply>> {
    each! { Reply;
        Reply::Entries(_) => "entries": Reply::Entries(vec![entry(Kind::Directory)]);
        Reply::Bytes(_) => "bytes": Reply::Bytes(b"\x00content\xff".to_vec());
        Reply::Digests(_) => "digests": Reply::Digests(vec![(path(b"a"), 300, digest(7))]);
        Reply::Removed(_) => "removed": Reply::Removed(300);
        Reply::About { .. } => "about": Reply::About {
            program: "thalweg 0.1.0".into(),
            exports: vec![("data".into(), true), ("in".into(), false)],
        };
        Reply::Measured(_) => "measured": Reply::Measured(Measured {
            bytes: 1 << 33,
            items: 300,
            threads: 4,
            busy_nanos: 4_000_000_000,
            sync_nanos: 100_000_000,
            cached_bytes: Some(300),
            past_cache_bytes: Some(8000),
            rates: vec![1 << 31, 300],
        });
        Reply::Slot(_) => "slot": Reply::Slot(slot());
        Reply::Slots(_) => "slots": Reply::Slots(SlotTable {
            bytes_per_s: 125_000_000,
            slots: vec![SlotTaken { slot: slot(), is_yours: true }],
            settle_micros: 20_000,
            beside_bytes: 300,
            held_micros: 300,
        });
        Reply::Channel(_) => "channel": Reply::Channel(Box::new(frames::status()));
        Reply::Trouble(_) => "trouble": Reply::Trouble(failure());
        Reply::End(_) => "end": Reply::End(None), "end failure": Reply::End(Some(failure()));
        Reply::Unordered(_) => "unordered": Reply::Unordered(path(b"a"));
        Reply::Errand(_) => "errand": Reply::Errand(Box::new(ErrandTold::ReceiptBegins));
        Reply::Vouched { .. } => "vouched": Reply::Vouched { at: 1_790_000_000 };
    }
}

fn transfer(message: TransferMessage) -> Message {
    Message::Transfer(TransferNumber(1), message)
}

fn steer() -> Steer {
    Steer { rate_bytes_per_s: Some(125_000_000), streams: Some(12), concurrency: Some(32), depth: Some(8) }
}

fn opened(answer: Opened) -> Message {
    Message::Opened(TransferNumber(1), answer)
}

fn place() -> Place {
    Place { export: Some("data".into()), path: b"run/7".to_vec() }
}

fn failure() -> Failure {
    Failure {
        kind: FailureKind::Io,
        reason: Reason::Other,
        operation: "write".into(),
        path: Some(path(b"dir/file")),
        range: Some((4096, 8192)),
        cause: "Input/output error".into(),
    }
}

fn entry(kind: Kind) -> Entry {
    Entry {
        id: EntryId(300),
        path: path(b"dir/name\xff\n"),
        kind,
        mode: 0o4755,
        uid: 1000,
        gid: 100,
        evidence: evidence(),
        xattrs: vec![Xattr { name: b"user.note".to_vec(), value: b"\x00value".to_vec() }],
    }
}

fn evidence() -> Evidence {
    Evidence {
        size: 5 << 30,
        mtime: Time { seconds: -2, nanos: 999_999_999 },
        ctime: Time { seconds: 1_790_000_000, nanos: 1 },
        device: 2049,
        inode: 1 << 40,
    }
}

fn totals() -> Totals {
    Totals {
        done: 300,
        unchanged: 200,
        skipped: 3,
        failed: 2,
        deleted: 1,
        bytes_done: 1 << 40,
        bytes_received: (1 << 40) + 5,
        bytes_resumed: 1 << 20,
        bytes_same: 300,
        chunks_repaired: 4,
    }
}

fn statement() -> Statement {
    Statement {
        root: digest(8),
        entries: 500,
        totals: totals(),
        unread: 0,
        signed_at: 1_790_000_000,
        side: Side::Sender,
        kind: TransferKind::Files,
        signer: signatory(),
        peer: Signatory { certificate: [0xfe; 32], is_ephemeral: false },
        session: Some(digest(10)),
        place: None,
        verify: VerifyLevel::Written,
        check: Check::Evidence,
        chunk_bytes: 4 << 20,
        segment_bytes: 1 << 20,
        header: Some(digest(9)),
    }
}

fn signatory() -> Signatory {
    Signatory { certificate: [0xfd; 32], is_ephemeral: true }
}

fn signed_statement() -> Signed {
    Signed { statement: statement(), certificate: b"a certificate".to_vec(), signature: vec![0x51; 64] }
}

fn path(bytes: &[u8]) -> RelativePath {
    match RelativePath::new(bytes.to_vec()) {
        Ok(path) => path,
        Err(error) => panic!("{error}"),
    }
}

fn digest(byte: u8) -> Digest {
    Digest([byte; 32])
}
