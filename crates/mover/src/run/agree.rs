//! The end of a transfer: both sides state what was done, compare, and sign.
//!
//! The sender says its statement when the receiver has finished; the receiver cleans up, checks the statement
//! against its own, and answers with its own. Equal roots mean that both saw the same entries with the same
//! digests, each computed from what it read or wrote itself.
//!
//! Each statement is signed with the key of the certificate that its mover showed in TLS, and names the certificate that
//! the other side showed: so who holds a site's certificate, or its fingerprint, can tell later that this very site
//! signed, and with whom it spoke.

use crate::failure::{Failure, FailureKind, Result};
use crate::link::{Fingerprint, Identity, public_key_of, verify_signature};
use crate::run::Ended;
use crate::run::party::Party;
use rustls::pki_types::CertificateDer;
use std::time::Duration;
use thalweg_sys::clock::unix_seconds;
use thalweg_wire::Digest;
use thalweg_wire::message::{Terms, Totals, TransferMessage};
use thalweg_wire::receipt::{Side, Signed, Statement};

/// Time for the other side's statement, cleaning up included; less where the user has less patience.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Who makes a statement, and with whom.
pub struct Signer<'a> {
    /// Who we are.
    pub identity: &'a Identity,
    /// The certificate that the other side proved to own.
    pub peer: Fingerprint,
    /// Digest of the first line of the receipt that is written here, if one is.
    pub header: Option<Digest>,
}

/// What both sides agreed on.
#[derive(Debug, Clone)]
pub struct Agreed {
    /// The sender's statement.
    pub sender: Signed,
    /// The receiver's statement.
    pub receiver: Signed,
}

/// The sender's part, after [`Ended::Finished`].
///
/// # Errors
/// `Connection` if the receiver's statement does not come, `Damage` if it differs from ours.
pub fn as_sender(run: &impl Party, signer: &Signer, totals: Totals, patience: Duration) -> Result<Agreed> {
    let ours = signer.sign(Side::Sender, run.take_root(), run.terms(), totals)?;
    // Before the statement: whoever has that has these.
    run.tell_accounts();
    run.say(TransferMessage::Receipt(Box::new(ours.clone())));
    let theirs =
        run.peer_receipt(patience.min(STATEMENT_TIMEOUT)).ok_or_else(|| missing("receiver", patience))?;
    signer.check(&theirs, &ours)?;
    Ok(Agreed { sender: ours, receiver: theirs })
}

/// The receiver's part, after [`Ended::Finished`]. Closes the receiver first, so that whoever sees the
/// statement finds no hidden files any more.
///
/// # Errors
/// `Connection` if the sender's statement does not come, `Damage` if it differs from ours.
pub fn as_receiver(run: &impl Party, signer: &Signer, totals: Totals, patience: Duration) -> Result<Agreed> {
    let theirs =
        run.peer_receipt(patience.min(STATEMENT_TIMEOUT)).ok_or_else(|| missing("sender", patience))?;
    run.close();
    // Those that the sender heard last: it may have come with a changed source after the end that the caller saw.
    let totals = match run.ended() {
        Some(Ended::Finished(last)) => last,
        _ => totals,
    };
    let ours = signer.sign(Side::Receiver, run.take_root(), run.terms(), totals)?;
    // Before the statement: whoever has that has these.
    run.tell_accounts();
    run.say(TransferMessage::Receipt(Box::new(ours.clone())));
    signer.check(&theirs, &ours)?;
    Ok(Agreed { sender: theirs, receiver: ours })
}

/// Both parts, where both sides are in this process.
///
/// # Errors
/// `Damage` if the two differ.
pub(crate) fn as_both(
    sender: &impl Party,
    receiver: &impl Party,
    signer: &Signer,
    totals: Totals,
) -> Result<Agreed> {
    receiver.wait(STATEMENT_TIMEOUT);
    receiver.close();
    let agreed = Agreed {
        sender: signer.sign(Side::Sender, sender.take_root(), sender.terms(), totals)?,
        receiver: signer.sign(Side::Receiver, receiver.take_root(), receiver.terms(), totals)?,
    };
    signer.check(&agreed.sender, &agreed.receiver)?;
    Ok(agreed)
}

/// The totals of an end, or its failure.
///
/// # Errors
/// The failure.
pub fn totals_of(ended: Ended) -> Result<Totals> {
    match ended {
        Ended::Finished(totals) => Ok(totals),
        Ended::Failed(failure) => Err(failure),
    }
}

impl Signer<'_> {
    fn sign(&self, side: Side, root: Option<(Digest, u64)>, terms: &Terms, totals: Totals) -> Result<Signed> {
        let (root, entries) = root.ok_or_else(|| {
            Failure::new(FailureKind::Internal, "sign the receipt", "the transfer is not over")
        })?;
        let statement = Statement {
            root,
            entries,
            totals,
            signed_at: i64::try_from(unix_seconds()).unwrap_or(i64::MAX),
            side,
            peer: self.peer.0,
            verify: terms.verify,
            check: terms.check,
            chunk_bytes: terms.chunk_bytes,
            segment_bytes: terms.segment_bytes,
            header: self.header,
        };
        let signature = self.identity.sign(&statement.signed_bytes());
        Ok(Signed { statement, certificate: self.identity.chain()[0].to_vec(), signature })
    }

    /// Holds what the other side says against what we say and know.
    fn check(&self, theirs: &Signed, ours: &Signed) -> Result<()> {
        let damage = |cause: String| Err(Failure::new(FailureKind::Damage, "compare receipts", cause));
        let (said, known) = (&theirs.statement, &ours.statement);
        if (said.root, said.entries) != (known.root, known.entries) {
            return damage(format!(
                "the peer says {} entries with root {}, we say {} entries with root {}",
                said.entries, said.root, known.entries, known.root
            ));
        }
        if Fingerprint::of(&CertificateDer::from(theirs.certificate.as_slice())) != self.peer {
            return damage("the peer did not sign with the certificate that it showed".to_owned());
        }
        if !is_signed(theirs) {
            return damage("the signature of the peer is not valid".to_owned());
        }
        if said.totals != known.totals {
            return damage(format!("the peer says {:?}, we say {:?}", said.totals, known.totals));
        }
        let same = (said.verify, said.check, said.chunk_bytes, said.segment_bytes)
            == (known.verify, known.check, known.chunk_bytes, known.segment_bytes);
        if said.side == known.side || said.peer != self.identity.fingerprint().0 || !same {
            return damage("the peer states another transfer".to_owned());
        }
        Ok(())
    }
}

/// Whether a statement is signed with the key of the certificate beside it. Whose certificate that is, the caller must know.
pub fn is_signed(signed: &Signed) -> bool {
    public_key_of(&signed.certificate)
        .is_some_and(|key| verify_signature(&key, &signed.statement.signed_bytes(), &signed.signature))
}

fn missing(who: &str, patience: Duration) -> Failure {
    let seconds = patience.min(STATEMENT_TIMEOUT).as_secs();
    let cause = format!("the {who}'s statement did not come within {seconds} s");
    Failure::new(FailureKind::Connection, "compare receipts", cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else the statements of two copies could be joined: of one in which a part failed, and of one of all.
    #[test]
    fn a_peer_that_states_other_totals_is_not_agreed_with() {
        let identity = Identity::generate("somebody").unwrap();
        let signer = Signer { identity: &identity, peer: identity.fingerprint(), header: None };
        let terms = Terms::of(4 << 20, 256 << 10);
        let sign = |side, failed| {
            let totals = Totals { done: 1, failed, ..Totals::default() };
            signer.sign(side, Some((Digest([1; 32]), 1)), &terms, totals).unwrap()
        };
        let ours = sign(Side::Sender, 0);
        signer.check(&sign(Side::Receiver, 0), &ours).unwrap();
        let refused = signer.check(&sign(Side::Receiver, 1), &ours).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Damage);
        assert!(refused.cause.contains("failed: 1"), "{refused}");
    }
}
