//! What becomes of an entry: what is wanted of it, what is safe of it, and the final word; and the sums over all.

use super::failure::truncate;
use super::{Failure, FailureKind, Left, check_count, list, list_bytes};
use crate::digest::Digest;
use crate::entry::Evidence;
use crate::{DecodeError, limits};
use serde::{Deserialize, Serialize};

/// A run of chunks `first .. first + count` of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// First chunk.
    pub first: u64,
    /// How many; at least 1.
    pub count: u64,
}

impl Run {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        match self.first.checked_add(self.count) {
            Some(end) if end > self.first => Ok(()),
            _ => Err(DecodeError::Invalid { what: "run" }),
        }
    }
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
    /// Directories that were named as sources and have nothing in them, not even names that are left out.
    pub empty: u64,
}

/// What is known of the names that a source has, once all else is done: whether what it lacks may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// All of it was listed.
    Whole,
    /// That, and in one of its directories that were named there is nothing: perhaps a volume that is not mounted.
    WithEmpty,
    /// Not all of it was listed: nothing goes.
    Partial,
}

impl ScanTotals {
    /// How the source was listed.
    pub fn listing(&self) -> Listing {
        match (self.complete, self.empty) {
            (false, _) => Listing::Partial,
            (true, 0) => Listing::Whole,
            (true, _) => Listing::WithEmpty,
        }
    }
}

/// What a receiver wants of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// All of its content. Of a hard link: it cannot be made, so what it is by itself is to be offered instead.
    Whole,
    /// Only these chunks; the rest is there from an earlier attempt, see [`Have`](super::TransferMessage::Have).
    Missing(#[serde(deserialize_with = "list::runs")] Vec<Run>),
    /// Nothing more: [`Outcome`] follows without data.
    Nothing,
    /// These chunks may be there already, in the file that stands at the destination: read them and tell only
    /// their digests ([`FrameKind::Compare`](crate::frame::FrameKind::Compare)). What differs is asked for.
    Compare(#[serde(deserialize_with = "list::runs")] Vec<Run>),
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
        #[serde(deserialize_with = "list::losses")]
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

/// What became of source files that a sender was to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct SourceTotals {
    /// Names removed in this transfer; in a dry run those that would be.
    pub removed: u64,
    /// Names that stay for a reason of their own, which was told.
    pub kept: u64,
    /// Names that stay, of files and links that the destination has, or left alone, by cause.
    pub left: Left,
    /// Some of these only because the receiver gave up meanwhile.
    pub is_cut_short: bool,
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

impl Want {
    /// The chunks that it names.
    pub fn runs(&self) -> &[Run] {
        match self {
            Want::Missing(runs) | Want::Compare(runs) => runs,
            Want::Whole | Want::Nothing => &[],
        }
    }
}

impl Outcome {
    /// The same, with no more of what could not be kept than goes in one message: the last says then how much more
    /// there was. Texts that no peer would take are cut.
    #[must_use]
    pub fn cut(mut self) -> Outcome {
        if let Outcome::Done { losses, .. } = &mut self {
            cut(losses);
        }
        self
    }

    /// Whether its content was damaged, and could not be repaired.
    pub fn is_damage(&self) -> bool {
        matches!(self, Outcome::Failed(failure) if failure.kind == FailureKind::Damage)
    }

    pub(super) fn losses(&self) -> &[Loss] {
        match self {
            Outcome::Done { losses, .. } => losses,
            _ => &[],
        }
    }

    /// Memory that it takes beside itself, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Outcome::Done { losses, .. } => list_bytes(losses, |loss| loss.what.len() + loss.why.len()),
            Outcome::Unchanged { .. } => 0,
            Outcome::Skipped(text) => text.len(),
            Outcome::Failed(failure) => failure.heap_bytes(),
        }
    }

    pub(super) fn check(&self) -> Result<(), DecodeError> {
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

/// Bytes of what could not be kept of one entry: they go in one message with its path, and where it leads.
const LOSSES_BYTES_MAX: usize =
    limits::MESSAGE_BYTES_MAX - limits::PATH_BYTES_MAX - limits::LINK_TARGET_BYTES_MAX - (64 << 10);
/// Of these, for the word that there is more.
const MORE_BYTES: usize = 1 << 10;
/// What two texts take beside themselves, at most: their lengths.
const LENGTHS_BYTES: usize = 8;

/// See [`Outcome::cut`].
fn cut(losses: &mut Vec<Loss>) {
    for Loss { what, why } in losses.iter_mut() {
        if what.len() + why.len() > limits::TEXT_BYTES_MAX {
            [what, why].into_iter().for_each(truncate);
        }
    }
    let all: usize = losses.iter().map(loss_bytes).sum();
    if all <= LOSSES_BYTES_MAX && losses.len() <= limits::MESSAGE_LOSSES_MAX {
        return;
    }
    let mut bytes = 0;
    let fits = losses.iter().take(limits::MESSAGE_LOSSES_MAX - 1).take_while(|loss| {
        bytes += loss_bytes(loss);
        bytes <= LOSSES_BYTES_MAX - MORE_BYTES
    });
    let fits = fits.count();
    let more = losses.len() - fits;
    losses.truncate(fits);
    let why = "they are too many to be told one by one".to_owned();
    losses.push(Loss { what: format!("{more} more"), why });
}

fn loss_bytes(loss: &Loss) -> usize {
    LENGTHS_BYTES + loss.what.len() + loss.why.len()
}

#[cfg(test)]
mod tests {
    use super::super::{LENGTH_BYTES, Message, TransferMessage, TransferNumber};
    use super::*;
    use crate::RelativePath;

    fn lost(losses: Vec<Loss>) -> Outcome {
        Outcome::Done { digest: None, losses }
    }

    /// With the longest path.
    fn is_taken(outcome: &Outcome) -> bool {
        let path = format!("{}x", "x/".repeat(limits::PATH_BYTES_MAX / 2 - 1)).into_bytes();
        let path = RelativePath::new(path).unwrap();
        let troubles = TransferMessage::Troubles(vec![(path, outcome.clone())]);
        let encoded = Message::Transfer(TransferNumber(1), troubles).encode();
        encoded.and_then(|encoded| Message::decode(&encoded[LENGTH_BYTES..])).is_ok()
    }

    #[test]
    fn what_is_lost_of_an_entry_goes_in_one_message_and_says_how_much_more_there_was() {
        // Names of attributes in bytes that are no text, each of which takes four times as much.
        let of_name = |number: usize| {
            let what = format!("xattr {number}{}", "\\xff".repeat(250));
            Loss { what, why: "so".into() }
        };
        let few = lost((0..100).map(of_name).collect());
        assert_eq!(few.clone().cut(), few);
        let many = 4096;
        let outcome = lost((0..many).map(of_name).collect());
        assert!(!is_taken(&outcome));
        let cut = outcome.cut();
        assert!(is_taken(&cut));
        let losses = cut.losses();
        let (last, told) = losses.split_last().unwrap();
        assert!(told.len() > 1000 && told.iter().enumerate().all(|(at, loss)| *loss == of_name(at)));
        assert_eq!(last.what, format!("{} more", many - told.len()));
        assert_eq!(cut.clone().cut(), cut);
    }

    #[test]
    fn what_has_more_losses_or_longer_texts_than_a_peer_takes_is_cut_to_what_it_takes() {
        let short = Loss { what: "a".into(), why: String::new() };
        let cut = lost(vec![short; limits::MESSAGE_LOSSES_MAX + 1]).cut();
        assert!(is_taken(&cut));
        assert_eq!(cut.losses().len(), limits::MESSAGE_LOSSES_MAX);
        assert_eq!(cut.losses().last().unwrap().what, "2 more");
        let cut = lost(vec![Loss { what: "owner".into(), why: "x".repeat(1 << 20) }]).cut();
        assert!(is_taken(&cut));
        assert!(cut.losses()[0].what == "owner" && cut.losses()[0].why.len() > 1000);
    }
}
