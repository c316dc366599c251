//! What a user says about a stream, and what it did.

use crate::admission::{SlotAsked, SlotHeld};
use crate::basin::{Evidence, Verdict};
use crate::plan::{Asked, Plan};
use crate::run::ReceiptSink;
use crate::run::agree::Agreed;
use crate::run::client::LinkSettings;
use crate::run::far_mover::{AskedOfWay, FarMover};
use crate::run::flow::lags::Lag;
use crate::run::steer::Rate;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::message::{FlowTerms, Place, Totals, Until};

/// Where a stream comes from.
pub enum FlowFrom {
    /// A descriptor that is read to its end.
    Pipe(OwnedFd),
    /// A path of this machine: a file, a directory, a FIFO.
    Local(PathBuf),
    /// A place at a far mover.
    Far(Arc<FarMover>, Place),
}

/// Where a stream goes.
pub enum FlowTo {
    /// A descriptor that is written.
    Pipe(OwnedFd),
    /// A path of this machine.
    Local(PathBuf),
    /// Nowhere.
    Null,
    /// A place at a far mover.
    Far(Arc<FarMover>, Place),
}

/// Everything that a user can say about a stream.
#[derive(Clone)]
pub struct FlowWishes {
    /// TCP connections, and bytes of a piece.
    pub asked: Asked,
    /// When it ends, what is kept, and how often it is marked.
    pub terms: FlowTerms,
    /// Send no faster, which may change while it runs.
    pub rate: Arc<Rate>,
    /// Send to a far place only in windows that its server promises; refused, nothing is sent.
    pub slot: Option<SlotAsked>,
    /// The link.
    pub link: LinkSettings,
    /// Options of data streams that are told where they do nothing.
    pub asked_of_way: AskedOfWay,
    /// Options that somebody typed and that do nothing for either place: they are told with those of this stream.
    pub unused: Vec<String>,
    /// Where its receipt goes.
    pub receipt: Option<ReceiptSink>,
}

impl FlowWishes {
    /// What is usual, until then.
    pub fn new(until: Until) -> FlowWishes {
        FlowWishes {
            asked: Asked::default(),
            terms: FlowTerms { until, window_bytes: WINDOW_BYTES, mark_every_ms: MARK_EVERY_MS },
            rate: Arc::default(),
            slot: None,
            link: LinkSettings::default(),
            asked_of_way: AskedOfWay::default(),
            unused: Vec::new(),
            receipt: None,
        }
    }
}

/// Bytes that are kept until they are marked, if nobody says otherwise: 1 Gbit/s over half a second.
pub const WINDOW_BYTES: u64 = 64 << 20;
/// Milliseconds between two marks, if nobody says otherwise.
pub const MARK_EVERY_MS: u32 = 100;

/// What a stream did.
#[derive(Debug, Clone)]
pub struct FlowReport {
    /// The receiver's totals.
    pub totals: Totals,
    /// Both sides' statements.
    pub agreed: Agreed,
    /// What it went by.
    pub plan: Plan,
    /// From the beginning to the last word.
    pub elapsed: Duration,
    /// Where the time went.
    pub evidence: Evidence,
    /// Which stage set the rate, and why.
    pub verdict: Option<Verdict>,
    /// How often it needed a new session.
    pub attempts: u32,
    /// How late bytes were; where this side read them.
    pub lag: Option<Lag>,
    /// What the slot promised, if there was one.
    pub slot: Option<SlotHeld>,
}
