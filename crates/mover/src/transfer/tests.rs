//! What the simulation does not look at: the size of what is remembered, and the depth of streams; and single cases of
//! what it does look at: copies of a chunk, ends, hard links.

mod copies;

mod elsewhere;

mod ends;

mod hard_links;

mod hostile;

mod redundant;

mod remembered;

mod streams;

use super::receiver::{self, Action, Decided, Receiver};
use super::sender::{self, Next, Retry, Sender, Work};
use crate::failure::{Failure, FailureKind};
use std::time::Duration;
use thalweg_wire::message::{AckLevel, Outcome, Run, ScanTotals, Terms, TransferMessage as Say, Want};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath};

fn terms() -> Terms {
    Terms::of(4 << 20, 1 << 20)
}

fn file(name: &str, size: u64) -> Entry {
    Entry {
        id: EntryId(0),
        path: RelativePath::new(name.as_bytes().to_vec()).expect("a path"),
        kind: Kind::File { sparse: false, marked: false },
        mode: 0o644,
        uid: 0,
        gid: 0,
        evidence: Evidence { size, ..Evidence::default() },
        xattrs: Vec::new(),
    }
}

const CHUNK: u64 = 64 << 10;

/// A sender with two streams, of which the receiver wants everything.
fn wanted(depth: Option<u32>, files: Vec<Entry>) -> (Sender, EntryId) {
    let terms = Terms { chunk_bytes: CHUNK, segment_bytes: CHUNK as u32, depth, ..terms() };
    let limits = sender::Limits { pack_files: 1, ..sender::Limits::for_path(&terms, None) };
    let mut sender = Sender::new(terms, limits);
    let count = files.len() as u64;
    let first = sender.offer(files);
    [0, 1].into_iter().for_each(|stream| assert!(sender.stream_up(stream)));
    let wants = (first.0..first.0 + count).map(|id| (EntryId(id), Want::Whole)).collect();
    sender.hear(Say::Want(wants)).unwrap();
    (sender, first)
}

fn ack(entry: EntryId, chunk: u64) -> Say {
    Say::Ack(AckLevel::Verified, vec![(entry, Run { first: chunk, count: 1 })])
}

/// Has stream 0 do all that it may, while the source stays as it was: entries and chunks in order.
fn work_off(sender: &mut Sender) -> Vec<(u64, u64)> {
    let mut done = Vec::new();
    while let Next::Work(work) = sender.next_work(0, Duration::ZERO) {
        match work {
            Work::Compare(entry, chunk) => {
                sender.chunk_told(0, entry.id, chunk, Digest::default());
                done.push((entry.id.0, chunk));
            }
            Work::Chunk(entry, chunk, _) => {
                sender.chunk_sent(0, entry.id, chunk, Digest::default());
                done.push((entry.id.0, chunk));
            }
            Work::Check(entry) => {
                sender.checked(0, entry.id, entry.evidence);
            }
            Work::Pack(entries) => panic!("{entries:?}"),
        }
    }
    done
}
