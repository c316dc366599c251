//! The end of a transfer: both sides state what was done, compare, and sign.
//!
//! The sender says its statement when the receiver has finished; the receiver cleans up, checks the statement
//! against its own, and answers with its own. Equal roots mean that both saw the same entries with the same
//! digests, each computed from what it read or wrote itself.

use crate::failure::{Failure, FailureKind, Result};
use crate::link::{Identity, verify_signature};
use crate::run::Ended;
use crate::run::receiver::ReceiveRun;
use crate::run::sender::SendRun;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_wire::Digest;
use thalweg_wire::message::{Totals, TransferMessage};
use thalweg_wire::receipt::{Signed, Statement};

/// Time for the other side's statement, cleaning up included; less where the user has less patience.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

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
pub fn as_sender(run: &SendRun, identity: &Identity, totals: Totals, patience: Duration) -> Result<Agreed> {
    let ours = sign(run.take_root(), identity, totals)?;
    run.say(TransferMessage::Receipt(ours.clone()));
    let theirs =
        run.peer_receipt(patience.min(STATEMENT_TIMEOUT)).ok_or_else(|| missing("receiver", patience))?;
    compare(&ours, &theirs)?;
    Ok(Agreed { sender: ours, receiver: theirs })
}

/// The receiver's part, after [`Ended::Finished`]. Closes the receiver first, so that whoever sees the
/// statement finds no hidden files any more.
///
/// # Errors
/// `Connection` if the sender's statement does not come, `Damage` if it differs from ours.
pub fn as_receiver(
    run: &ReceiveRun,
    identity: &Identity,
    totals: Totals,
    patience: Duration,
) -> Result<Agreed> {
    let theirs =
        run.peer_receipt(patience.min(STATEMENT_TIMEOUT)).ok_or_else(|| missing("sender", patience))?;
    run.close();
    let ours = sign(run.take_root(), identity, totals)?;
    run.say(TransferMessage::Receipt(ours.clone()));
    compare(&theirs, &ours)?;
    Ok(Agreed { sender: theirs, receiver: ours })
}

/// Both parts, where both sides are in this process.
///
/// # Errors
/// `Damage` if the two differ.
pub fn as_both(
    sender: &SendRun,
    receiver: &ReceiveRun,
    identity: &Identity,
    totals: Totals,
) -> Result<Agreed> {
    receiver.wait(STATEMENT_TIMEOUT);
    receiver.close();
    let agreed = Agreed {
        sender: sign(sender.take_root(), identity, totals)?,
        receiver: sign(receiver.take_root(), identity, totals)?,
    };
    compare(&agreed.sender, &agreed.receiver)?;
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

fn sign(root: Option<(Digest, u64)>, identity: &Identity, totals: Totals) -> Result<Signed> {
    let (root, entries) = root
        .ok_or_else(|| Failure::new(FailureKind::Internal, "sign the receipt", "the transfer is not over"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let statement =
        Statement { root, entries, totals, signed_at: i64::try_from(now.as_secs()).unwrap_or(i64::MAX) };
    let signature = identity.sign(&statement.signed_bytes());
    Ok(Signed { statement, public_key: identity.public_key(), signature })
}

fn compare(sender: &Signed, receiver: &Signed) -> Result<()> {
    let damage = |cause: String| Err(Failure::new(FailureKind::Damage, "compare receipts", cause));
    for (who, signed) in [("sender", sender), ("receiver", receiver)] {
        if !verify_signature(&signed.public_key, &signed.statement.signed_bytes(), &signed.signature) {
            return damage(format!("the signature of the {who} is not valid"));
        }
    }
    let (ours, theirs) = (&sender.statement, &receiver.statement);
    if (ours.root, ours.entries) != (theirs.root, theirs.entries) {
        return damage(format!(
            "the sender says {} entries with root {}, the receiver {} entries with root {}",
            ours.entries, ours.root, theirs.entries, theirs.root
        ));
    }
    Ok(())
}

fn missing(who: &str, patience: Duration) -> Failure {
    let seconds = patience.min(STATEMENT_TIMEOUT).as_secs();
    let cause = format!("the {who}'s statement did not come within {seconds} s");
    Failure::new(FailureKind::Connection, "compare receipts", cause)
}
