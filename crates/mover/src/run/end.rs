//! What both sides of a transfer keep towards its end: the lines of the receipt, how it ended, what the peer says of
//! it.

use crate::failure::{Failure, FailureKind};
use crate::run::{Ended, LineSink, ReceiptPart};
use std::ops::Range;
use thalweg_wire::account::SideAccounts;
use thalweg_wire::message::{Outcome, TransferMessage};
use thalweg_wire::receipt::{self, Block, RootHasher, Signed};
use thalweg_wire::{Digest, Entry, EntryId};

/// See the module.
pub(super) struct End {
    root: Option<RootHasher>,
    lines: Option<LineSink>,
    /// How it ended: see [`End::come`].
    pub ended: Option<Ended>,
    /// Nobody waits for anything any more.
    pub is_closed: bool,
    /// The peer's signed statement.
    pub peer_receipt: Option<Signed>,
    /// The peer has said its last word and signs nothing.
    pub is_unsigned: bool,
    /// Why the peer's last word does not come any more: it gave up, or the session ended.
    pub no_word: Option<Failure>,
    /// Our last word, once it was said.
    pub last_word: Option<TransferMessage>,
    /// The peer's accounts, as it told them last.
    pub peer_accounts: SideAccounts,
}

impl End {
    pub fn new() -> Self {
        End {
            root: Some(RootHasher::default()),
            lines: None,
            ended: None,
            is_closed: false,
            peer_receipt: None,
            is_unsigned: false,
            no_word: None,
            last_word: None,
            peer_accounts: SideAccounts::default(),
        }
    }

    /// It ended, if it has not before. What the source had changed after that is concluded again: then the last totals
    /// count, which the other side heard too.
    pub fn come(&mut self, ended: Ended) {
        match (&mut self.ended, ended) {
            (Some(Ended::Finished(totals)), Ended::Finished(again)) => *totals = again,
            (Some(_), _) => {}
            (none, ended) => *none = Some(ended),
        }
    }

    /// Closes a side that receives: whether what it received is whole. `None` the second time.
    pub fn close(&mut self) -> Option<bool> {
        if std::mem::replace(&mut self.is_closed, true) {
            return None;
        }
        let cause = "the transfer was closed before its end";
        self.come(Ended::Failed(Failure::new(FailureKind::Stopped, "receive", cause)));
        Some(matches!(self.ended, Some(Ended::Finished(_))))
    }

    /// Begins the receipt anew, with another peer; `lines` hears it. That it had finished with the one before,
    /// who may not have signed it, is of the past: it finishes with this one.
    pub fn restart(&mut self, lines: Option<LineSink>) {
        if matches!(self.ended, Some(Ended::Finished(_))) {
            self.ended = None;
        }
        self.root = Some(RootHasher::default());
        self.lines = lines;
        self.peer_receipt = None;
        self.is_unsigned = false;
        self.no_word = None;
        self.last_word = None;
    }

    /// Our last word, once it was said, or why it failed.
    pub fn said_last(&self) -> Option<TransferMessage> {
        self.last_word.clone().or_else(|| self.why_failed())
    }

    /// The word that says why it failed, if it has.
    pub fn why_failed(&self) -> Option<TransferMessage> {
        match &self.ended {
            Some(Ended::Failed(why)) => Some(TransferMessage::Abort(why.clone())),
            _ => None,
        }
    }

    /// That the peer gave up for a lost connection is of that session: in the next it goes on.
    pub fn outlive(&mut self) {
        let is_lost = |why: &Failure| why.kind == FailureKind::Connection;
        if matches!(&self.ended, Some(Ended::Failed(why)) if is_lost(why)) {
            self.ended = None;
        }
    }

    /// Why the peer's statement does not come any more, if that is known.
    pub fn why_no_statement(&self) -> Option<Failure> {
        let unsigned = || {
            let cause = "the peer signs nothing of this transfer";
            Failure::new(FailureKind::Protocol, "compare receipts", cause)
        };
        self.no_word.clone().or_else(|| self.is_unsigned.then(unsigned))
    }

    /// Keeps what the peer says of the end and of its time; returns what is about something else too.
    pub fn hear(&mut self, message: TransferMessage) -> Option<TransferMessage> {
        match message {
            TransferMessage::Receipt(signed) => self.peer_receipt = Some(*signed),
            TransferMessage::Unsigned => self.is_unsigned = true,
            TransferMessage::Accounts(accounts) => self.peer_accounts = *accounts,
            TransferMessage::Abort(failure) => {
                // Behind the end it is what is said in place of the last word.
                if self.ended.is_some() {
                    let cause = format!("the peer gave up: {}", failure.cause);
                    self.no_word.get_or_insert(Failure { cause, ..failure.clone() });
                }
                return Some(TransferMessage::Abort(failure));
            }
            message => return Some(message),
        }
        None
    }

    /// Has the receipt told from now on.
    pub fn tell_lines(&mut self, sink: LineSink) {
        self.lines = Some(sink);
    }

    /// Whether anybody hears it.
    pub fn tells_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// An entry settled.
    pub fn settled(&mut self, entry: &Entry, outcome: &Outcome) {
        let block = self.root.as_mut().and_then(|root| root.settled(entry.id, receipt::line(entry, outcome)));
        self.tell(block.map(ReceiptPart::Block));
    }

    /// A number will never settle.
    pub fn skipped(&mut self, id: EntryId) {
        let block = self.root.as_mut().and_then(|root| root.skip(id));
        self.tell(block.map(ReceiptPart::Block));
    }

    /// The same of all of these.
    pub fn skipped_all(&mut self, numbers: Range<u64>) {
        let blocks = self.root.as_mut().map(|root| root.skip_all(numbers)).unwrap_or_default();
        self.tell(blocks.into_iter().map(ReceiptPart::Block));
    }

    /// Memory of lines that wait for others of their blocks, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.root.as_ref().map_or(0, RootHasher::held_bytes)
    }

    /// A part of the receipt beside the lines.
    pub fn tell(&mut self, told: impl IntoIterator<Item = ReceiptPart>) {
        if let Some(lines) = &mut self.lines {
            told.into_iter().for_each(lines);
        }
    }

    /// Root and number of entries. `None` before the end, and the second time.
    pub fn take_root(&mut self) -> Option<(Digest, u64)> {
        self.ended.as_ref()?;
        let (root, entries, rest): (_, _, Vec<Block>) = self.root.take()?.finish();
        self.tell(rest.into_iter().map(ReceiptPart::Block));
        Some((root, entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::message::Totals;

    /// Else the next session would take the root of no lines.
    #[test]
    fn what_finished_with_one_peer_has_not_finished_with_the_next() {
        let mut end = End::new();
        end.come(Ended::Finished(Totals::default()));
        assert!(end.take_root().is_some());
        end.restart(None);
        assert!(end.ended.is_none() && end.take_root().is_none());
        end.come(Ended::Finished(Totals::default()));
        assert!(end.take_root().is_some());
        // What failed has failed for all.
        let mut end = End::new();
        end.come(Ended::Failed(Failure::new(FailureKind::Io, "read", "broken")));
        end.restart(None);
        assert!(matches!(end.ended, Some(Ended::Failed(_))));
    }

    #[test]
    fn a_peer_that_lost_its_connection_has_not_failed_for_the_next() {
        for (kind, goes_on) in [(FailureKind::Connection, true), (FailureKind::Space, false)] {
            let mut end = End::new();
            end.come(Ended::Failed(Failure::new(kind, "read", "not read")));
            end.outlive();
            assert_eq!(end.ended.is_none(), goes_on, "{kind:?}");
        }
    }

    #[test]
    fn who_gives_up_behind_the_end_says_no_last_word() {
        let differs = || Failure::new(FailureKind::Damage, "compare receipts", "differs");
        let abort = || TransferMessage::Abort(differs());
        let mut end = End::new();
        end.hear(abort());
        assert!(end.no_word.is_none(), "it is the end");
        end.come(Ended::Finished(Totals::default()));
        assert_eq!(end.hear(abort()), Some(abort()));
        let why = end.why_no_statement().unwrap();
        assert_eq!((why.kind, why.cause.as_str()), (FailureKind::Damage, "the peer gave up: differs"));
        end.restart(None);
        assert!(end.why_no_statement().is_none());
        end.hear(TransferMessage::Unsigned);
        assert_eq!(end.why_no_statement().unwrap().kind, FailureKind::Protocol);
    }

    #[test]
    fn what_is_concluded_again_ends_with_the_totals_of_its_last_end() {
        let totals = |done| Totals { done, ..Totals::default() };
        let failed = || Ended::Failed(Failure::new(FailureKind::Stopped, "receive", "closed"));
        let mut end = End::new();
        end.come(Ended::Finished(totals(1)));
        end.come(Ended::Finished(totals(2)));
        end.come(failed());
        assert!(matches!(end.ended, Some(Ended::Finished(last)) if last == totals(2)));
        let mut end = End::new();
        end.come(failed());
        end.come(Ended::Finished(totals(1)));
        assert!(matches!(end.ended, Some(Ended::Failed(_))));
    }
}
