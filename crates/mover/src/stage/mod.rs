//! The steps of a byte's journey, in their order, and the account of each.
//!
//! The data path has one blocking thread per stream and side, and each runs a frame to completion: at the
//! sender read, digest, compress, seal, send; at the receiver receive, open, expand, verify, write. Handing frames
//! from thread to thread cost 0.3 CPU-s/GB more. What follows a write (sync, record, finish) is done for
//! many chunks at once by one thread of its own.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_wire::message::StageAccount;

/// What the receiving stages tell the transfer that they work for, and ask of it.
pub mod receiving;

/// 5 and 10. Requests to disks, one after the other.
pub mod turn;

/// 5. Bytes from the source into a buffer.
pub mod read;

/// 5. The next segments while one is worked on.
pub mod ahead;

/// 6. Compress where it pays.
pub mod compress;

/// 6. No faster than asked.
pub mod pace;

/// 7. Out: sealed frames, or straight to the other side of the same process.
pub mod send;

/// 8 and 9. In: expand, verify.
pub mod intake;

/// 10. Verified bytes to their place, several writes in flight.
pub mod write;

/// 11 to 13 and 15. Rounds: sync, read back, record, finish.
pub mod round;

/// The stages, numbered in the order in which a byte passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Listing the source.
    Scan,
    /// Reading the source.
    Read,
    /// Digesting what was read.
    Digest,
    /// Compressing it.
    Compress,
    /// Sealing and handing it to the kernel, and waiting for the path.
    Send,
    /// Waiting for frames, taking and opening them.
    Receive,
    /// Expanding what was compressed.
    Expand,
    /// Comparing digests.
    Verify,
    /// Writing at the destination.
    Write,
    /// Making bytes durable.
    Sync,
    /// Reading back from the medium.
    ReadBack,
    /// Making the journal durable.
    Record,
    /// Giving entries their names and metadata.
    Finish,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 13] = [
        Stage::Scan,
        Stage::Read,
        Stage::Digest,
        Stage::Compress,
        Stage::Send,
        Stage::Receive,
        Stage::Expand,
        Stage::Verify,
        Stage::Write,
        Stage::Sync,
        Stage::ReadBack,
        Stage::Record,
        Stage::Finish,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Scan => "scan",
            Stage::Read => "read",
            Stage::Digest => "digest",
            Stage::Compress => "compress",
            Stage::Send => "send",
            Stage::Receive => "receive",
            Stage::Expand => "expand",
            Stage::Verify => "verify",
            Stage::Write => "write",
            Stage::Sync => "sync",
            Stage::ReadBack => "read back",
            Stage::Record => "record",
            Stage::Finish => "finish",
        }
    }

    /// The stage with this number.
    pub fn from_number(number: u8) -> Option<Stage> {
        Stage::ALL.get(usize::from(number)).copied()
    }
}

/// The accounts of all stages of one side of a transfer.
#[derive(Default)]
pub struct Accounts {
    rows: [Row; Stage::ALL.len()],
}

#[derive(Default)]
struct Row {
    nanos: AtomicU64,
    bytes: AtomicU64,
    threads: AtomicU32,
}

impl Accounts {
    /// Bytes that went through a stage so far.
    pub fn bytes(&self, stage: Stage) -> u64 {
        self.rows[stage as usize].bytes.load(Ordering::Relaxed)
    }

    /// Books `time` and `bytes` on a stage.
    pub fn book(&self, stage: Stage, time: Duration, bytes: u64) {
        let row = &self.rows[stage as usize];
        row.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        row.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// One more thread works in this stage.
    pub fn enter(&self, stage: Stage) {
        self.rows[stage as usize].threads.fetch_add(1, Ordering::Relaxed);
    }

    /// The rows that saw anything.
    pub fn rows(&self) -> Vec<StageAccount> {
        Stage::ALL
            .iter()
            .zip(&self.rows)
            .map(|(&stage, row)| StageAccount {
                stage: stage as u8,
                nanos: row.nanos.load(Ordering::Relaxed),
                bytes: row.bytes.load(Ordering::Relaxed),
                threads: u16::try_from(row.threads.load(Ordering::Relaxed)).unwrap_or(u16::MAX),
            })
            .filter(|row| row.nanos > 0 || row.bytes > 0)
            .collect()
    }
}

/// Books the time between calls on stages: one reading of the clock for each step.
pub struct Stopwatch<'a> {
    accounts: &'a Accounts,
    since: Instant,
}

impl<'a> Stopwatch<'a> {
    /// Starts now.
    pub fn start(accounts: &'a Accounts) -> Self {
        Stopwatch { accounts, since: Instant::now() }
    }

    /// Books the time since the last lap on `stage`.
    pub fn lap(&mut self, stage: Stage, bytes: u64) {
        let now = Instant::now();
        self.accounts.book(stage, now - self.since, bytes);
        self.since = now;
    }

    /// Forgets the time since the last lap: it belongs to nobody.
    pub fn skip(&mut self) {
        self.since = Instant::now();
    }
}
