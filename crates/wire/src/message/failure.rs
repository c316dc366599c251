//! Failures as they travel.

use super::{Reason, check_count};
use crate::path::Sentence;
use crate::{DecodeError, RelativePath, limits};
use serde::{Deserialize, Serialize};

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
    /// What the entry is cannot be made here, or not as large as it is.
    Unsupported,
    /// Stopped on request.
    Stopped,
    /// Another transfer holds it.
    Busy,
    /// A defect of thalweg.
    Internal,
}

impl FailureKind {
    /// All of them, in order.
    pub const ALL: [FailureKind; 14] = [
        FailureKind::Usage,
        FailureKind::NotFound,
        FailureKind::Permission,
        FailureKind::Connection,
        FailureKind::Protocol,
        FailureKind::Damage,
        FailureKind::Changed,
        FailureKind::Space,
        FailureKind::Io,
        FailureKind::Conflict,
        FailureKind::Unsupported,
        FailureKind::Stopped,
        FailureKind::Busy,
        FailureKind::Internal,
    ];

    /// In one word, as events and logs have it: `notfound`.
    pub fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A failure as it travels: enough for a person to act on, nothing that is not theirs to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Class.
    pub kind: FailureKind,
    /// Why, where a program may go by that.
    #[serde(deserialize_with = "Reason::of_any")]
    pub reason: Reason,
    /// What was being done, for instance `write`.
    pub operation: String,
    /// Where, if it concerns one entry.
    pub path: Option<RelativePath>,
    /// Byte range `start..end`, if it concerns one.
    pub range: Option<(u64, u64)>,
    /// The cause in one line.
    pub cause: String,
}

impl Failure {
    /// A failure without a place, and for no reason that a program goes by.
    pub fn new(kind: FailureKind, operation: &str, cause: impl ToString) -> Self {
        let mut cause = cause.to_string();
        truncate(&mut cause);
        let (reason, operation) = (Reason::Other, operation.to_owned());
        Failure { kind, reason, operation, path: None, range: None, cause }
    }

    /// The same failure, at `path`.
    pub fn at(mut self, path: &RelativePath) -> Self {
        self.path = Some(path.clone());
        self
    }

    /// The same failure, for this reason. One that is known already stays: it is nearer to the cause.
    pub fn because(mut self, reason: Reason) -> Self {
        if self.reason == Reason::Other {
            self.reason = reason;
        }
        self
    }

    /// The same failure, in bytes `start..end`.
    pub fn in_range(mut self, start: u64, end: u64) -> Self {
        self.range = Some((start, end));
        self
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let path = self.path.as_ref().map_or(0, |path| path.as_bytes().len());
        self.operation.len() + path + self.cause.len()
    }

    pub(super) fn check(&self) -> Result<(), DecodeError> {
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

/// Cuts a text to half of what may be said, so that two of them go together.
pub(super) fn truncate(text: &mut String) {
    if text.len() > limits::TEXT_BYTES_MAX / 2 {
        let end = (0..=limits::TEXT_BYTES_MAX / 2).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
    }
}
