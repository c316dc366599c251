//! What both movers agree was done, and sign.
//!
//! Each side makes its own statement from its own numbers: the sender from what it read, the receiver from
//! what it wrote. The root is BLAKE3 over one line per settled entry, in the order of entry numbers; both
//! sides compute it apart, so equal roots mean that both saw the same entries with the same digests.

use crate::digest::Digest;
use crate::message::Totals;
use serde::{Deserialize, Serialize};

/// What a mover says about a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// BLAKE3 over the lines of all settled entries.
    pub root: Digest,
    /// Entries in it.
    pub entries: u64,
    /// The receiver's totals.
    pub totals: Totals,
    /// When, in seconds since 1970 by the signer's clock.
    pub signed_at: i64,
}

/// A statement with the signature of the mover that makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// The statement.
    pub statement: Statement,
    /// Ed25519 public key of the signer.
    pub public_key: [u8; 32],
    /// Signature over [`Statement::signed_bytes`].
    #[serde(with = "serde_bytes")]
    pub signature: Vec<u8>,
}

impl Statement {
    /// The bytes that are signed: a context line, then the statement as postcard.
    pub fn signed_bytes(&self) -> Vec<u8> {
        postcard::to_extend(self, b"thalweg receipt v1\n".to_vec()).unwrap_or_default()
    }
}
