//! The end of a transfer: both sides state what was done, compare, and sign.
//!
//! The sender says its statement when the receiver has finished; the receiver cleans up, checks the statement
//! against its own, and answers with its own, or says why it signs nothing. Equal roots mean that both say the
//! same of the same entries. What was sent each digested itself; of what the sender did not read it takes the
//! receiver's digest, and states how many these are.
//!
//! A last word may be lost with the link: each side says its own again with the next one. A receiver that is gone
//! by then has its session say it, to a sender that says its own again.
//!
//! A server signs with the key of the certificate that it shows in TLS, a client with one of its own: a daemon hands
//! out tickets, and has the key in them. So a client says in [`Open`](thalweg_wire::message::Open) who signs for it,
//! each statement names both certificates, and both have what only the two ends of this TLS session can compute:
//! neither can put another key in the place of its own afterwards, and no two statements of different transfers pass
//! for those of one.
//!
//! What nobody signs, a dry run and what only measures, ends with a word of both sides.

use crate::failure::{Failure, FailureKind, Result, counted};
use crate::link::{Fingerprint, Identity, public_key_of, verify_signature};
use crate::run::Ended;
use crate::run::party::Party;
use rustls::pki_types::CertificateDer;
use std::path::Path;
use std::time::Duration;
use thalweg_sys::clock::unix_seconds;
use thalweg_wire::message::{Place, Terms, Totals, TransferMessage, WaitingFor};
use thalweg_wire::receipt::{Side, Signatory, Signed, Statement, TransferKind};
use thalweg_wire::{Digest, limits};

/// Time for the other side's statement; less where the user has less patience. Outages, and while the other side says
/// that it cleans up, do not count.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// For how long the other side's last word is waited for.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    /// So long, at most [`STATEMENT_TIMEOUT`].
    pub patience: Duration,
    /// Whether somebody asked to stop: then it may take some seconds more, and none of them is excused.
    pub is_given_up: &'a dyn Fn() -> bool,
}

impl Default for Wait<'_> {
    /// [`STATEMENT_TIMEOUT`], and nobody asks to stop.
    fn default() -> Self {
        Wait { patience: STATEMENT_TIMEOUT, is_given_up: &|| false }
    }
}

impl Wait<'_> {
    fn time(&self) -> Duration {
        self.patience.min(STATEMENT_TIMEOUT)
    }
}

/// Who makes a statement, and with whom.
pub struct Signer<'a> {
    /// Who we are.
    pub identity: &'a Identity,
    /// What is moved.
    pub kind: TransferKind,
    /// Who signs for the other side, as that said when the transfer was opened.
    pub peer: Signatory,
    /// What [`statement_tie`](crate::link::statement_tie) makes of the session; `None` within one process.
    pub session: Option<Digest>,
    /// Where the receiver writes, if it is in this process and keeps anything.
    pub place: Option<Place>,
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
/// `Connection` if the receiver's statement does not come, or why, if it said so; `Damage` if it differs from
/// ours. [`Party::stated_root`] is what we stated all the same.
pub fn as_sender(run: &impl Party, signer: &Signer, totals: Totals, wait: Wait<'_>) -> Result<Agreed> {
    let ours = signer.sign(Side::Sender, run, totals)?;
    // Before the statement: whoever has that has these.
    run.tell_accounts();
    run.say_last(TransferMessage::Receipt(Box::new(ours.clone())));
    let theirs =
        run.peer_receipt(wait.time(), wait.is_given_up).ok_or_else(|| missing(run, "receiver", wait))?;
    signer.check(&theirs, &ours)?;
    Ok(Agreed { sender: ours, receiver: theirs })
}

/// The receiver's part, after [`Ended::Finished`]. Closes the receiver first, so that whoever sees the
/// statement finds no hidden files any more. What it does not agree with it does not answer with a statement.
///
/// # Errors
/// `Connection` if the sender's statement does not come, or why, if it said so; `Damage` if it differs from ours.
pub fn as_receiver(run: &impl Party, signer: &Signer, totals: Totals, wait: Wait<'_>) -> Result<Agreed> {
    as_keeping_receiver(run, signer, totals, wait, |_| Ok(()))
}

/// The same for a receiver that `keep`s what both signed before it says so: what the sender does then, it does for
/// that.
///
/// # Errors
/// As [`as_receiver`], and those of `keep`, which the sender hears too.
pub fn as_keeping_receiver(
    run: &impl Party,
    signer: &Signer,
    totals: Totals,
    wait: Wait<'_>,
    keep: impl FnOnce(&Agreed) -> Result<()>,
) -> Result<Agreed> {
    let theirs = run.peer_receipt(wait.time(), wait.is_given_up);
    let theirs = theirs.ok_or_else(|| missing(run, "sender", wait))?;
    run.close();
    let totals = last_totals(run, totals);
    let ours = signer.sign(Side::Receiver, run, totals)?;
    // Before we say ours: with both a receipt could be made.
    let agreed = Agreed { sender: theirs, receiver: ours };
    let checked = signer.check(&agreed.sender, &agreed.receiver).and_then(|()| {
        run.tell_busy(Some(WaitingFor::Write));
        let kept = keep(&agreed);
        run.tell_busy(None);
        kept
    });
    if let Err(failure) = checked {
        // Where the link takes it along, the sender says its statement again, and is to hear why.
        run.say_last(TransferMessage::Abort(failure.clone()));
        return Err(failure);
    }
    // Before the statement: whoever has that has these.
    run.tell_accounts();
    run.say_last(TransferMessage::Receipt(Box::new(agreed.receiver.clone())));
    Ok(agreed)
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
        sender: signer.sign(Side::Sender, sender, totals)?,
        receiver: signer.sign(Side::Receiver, receiver, totals)?,
    };
    signer.check(&agreed.sender, &agreed.receiver)?;
    Ok(agreed)
}

/// The end of a transfer that nobody signs, at the sender, after [`Ended::Finished`].
///
/// # Errors
/// `Connection` if the receiver's last word does not come.
pub fn unsigned_as_sender(run: &impl Party, wait: Wait<'_>) -> Result<()> {
    run.tell_accounts();
    run.say_last(TransferMessage::Unsigned);
    match run.peer_is_done(wait.time(), wait.is_given_up) {
        true => Ok(()),
        false => Err(missing(run, "receiver", wait)),
    }
}

/// The same at the receiver: cleans up first, as [`as_receiver`]. Returns its last totals.
///
/// # Errors
/// `Connection` if the sender's last word does not come.
pub fn unsigned_as_receiver(run: &impl Party, totals: Totals, wait: Wait<'_>) -> Result<Totals> {
    if !run.peer_is_done(wait.time(), wait.is_given_up) {
        return Err(missing(run, "sender", wait));
    }
    run.close();
    run.tell_accounts();
    run.say_last(TransferMessage::Unsigned);
    Ok(last_totals(run, totals))
}

/// The same where both sides are in this process.
pub(crate) fn unsigned_as_both(receiver: &impl Party) {
    receiver.wait(STATEMENT_TIMEOUT);
    receiver.close();
}

/// Those that the sender heard last: it may have come with a changed source after the end that the caller saw.
fn last_totals(run: &impl Party, totals: Totals) -> Totals {
    match run.ended() {
        Some(Ended::Finished(last)) => last,
        _ => totals,
    }
}

/// How what [`note_of`] tells ends: it is the same of all receipts that are written one after the other.
pub const NO_KEY_KEPT: &str =
    "no state directory to keep a key in: nobody can tell later whose the key was that signs the receipt";

/// What is to be told where a receipt is written and nobody can tell later who signed it.
pub fn note_of(signer: &Signer) -> Option<String> {
    signer.header.as_ref()?;
    let who = match (signer.identity.signatory().is_ephemeral, signer.peer.is_ephemeral) {
        (false, false) => return None,
        (true, true) => "both sides have",
        (true, false) => "this side has",
        (false, true) => "the far side has",
    };
    Some(format!("{who} {NO_KEY_KEPT}"))
}

/// A path of this machine as the place of a statement.
pub fn place_of(path: &Path) -> Place {
    let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    let absolute = std::path::absolute(path).map(|path| bytes(&path));
    let fits = absolute.ok().filter(|path| path.len() <= limits::PATH_BYTES_MAX);
    Place { export: None, path: fits.unwrap_or_else(|| bytes(path)) }
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
    fn sign(&self, side: Side, run: &impl Party, totals: Totals) -> Result<Signed> {
        self.sign_root(side, run.take_root(), run.terms(), (totals, run.unread()))
    }

    fn sign_root(
        &self,
        side: Side,
        root: Option<(Digest, u64)>,
        terms: &Terms,
        (totals, unread): (Totals, u64),
    ) -> Result<Signed> {
        let internal = |cause: &str| Failure::new(FailureKind::Internal, "sign the receipt", cause);
        if terms.dry_run {
            return Err(internal("a dry run is not signed"));
        }
        let (root, entries) = root.ok_or_else(|| internal("the transfer is not over"))?;
        let statement = Statement {
            root,
            entries,
            totals,
            unread,
            signed_at: i64::try_from(unix_seconds()).unwrap_or(i64::MAX),
            side,
            kind: self.kind,
            signer: self.identity.signatory(),
            peer: self.peer,
            session: self.session,
            place: self.place.clone().filter(|_| side == Side::Receiver),
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
                "the peer says {} with root {}, we say {} with root {}",
                counted(said.entries, "entry", "entries"),
                said.root,
                counted(known.entries, "entry", "entries"),
                known.root
            ));
        }
        let signer = Fingerprint::of(&CertificateDer::from(theirs.certificate.as_slice()));
        if said.signer != self.peer || signer.0 != self.peer.certificate {
            return damage("the peer did not sign as whom it said before".to_owned());
        }
        if !is_signed(theirs) {
            return damage("the signature of the peer is not valid".to_owned());
        }
        if said.totals != known.totals {
            return damage(format!("the peer says {:?}, we say {:?}", said.totals, known.totals));
        }
        let transfer = |s: &Statement| (s.kind, s.session, s.verify, s.check, s.chunk_bytes, s.segment_bytes);
        if said.side == known.side || said.peer != known.signer || transfer(said) != transfer(known) {
            return damage("the peer states another transfer".to_owned());
        }
        let is_others = match said.side {
            Side::Sender => said.place.is_some(),
            Side::Receiver => said.unread != 0,
        };
        if is_others {
            return damage("the peer states what is ours to say".to_owned());
        }
        // One that writes a receipt knows its header; to one that writes none the peer's may be any.
        if known.header.is_some() && said.header.is_some() && said.header != known.header {
            return damage("the peer signed the header of another receipt".to_owned());
        }
        Ok(())
    }
}

/// Whether a statement is signed with the key of the certificate beside it. Whose certificate that is, the caller must
/// know.
pub fn is_signed(signed: &Signed) -> bool {
    public_key_of(&signed.certificate)
        .is_some_and(|key| verify_signature(&key, &signed.statement.signed_bytes(), &signed.signature))
}

/// Why there is no last word of `who`.
fn missing(run: &impl Party, who: &str, wait: Wait<'_>) -> Failure {
    const OPERATION: &str = "compare receipts";
    if let Some(why) = run.why_no_statement() {
        return why;
    }
    if (wait.is_given_up)() {
        return Failure::new(FailureKind::Stopped, OPERATION, "stopped on request");
    }
    let seconds = wait.time().as_secs();
    let cause = format!("the {who}'s last word did not come within {seconds} s");
    Failure::new(FailureKind::Connection, OPERATION, cause)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::endpoint::feed::{Pushed, Taker};
    use crate::endpoint::flow_destination::NullFlows;
    use crate::endpoint::synthetic::{NoiseSource, NullDestination};
    use crate::event;
    use crate::mutex::lock;
    use crate::run::Outbox;
    use crate::run::flow::job::FlowWishes;
    use crate::run::flow::receiver::FlowReceive;
    use crate::run::flow::sender::FlowSend;
    use crate::run::receiver::ReceiveRun;
    use crate::run::sender::SendRun;
    use crate::run::transfer::Transfer;
    use crate::transfer::{receiver, sender};
    use std::sync::{Arc, Mutex};
    use thalweg_wire::RelativePath;
    use thalweg_wire::message::{
        FlowMark, FlowMessage, FlowStand, Heartbeat, Origin, Outcome, TransferNumber, Until,
    };
    use thalweg_wire::receipt::RootHasher;

    fn signer<'a>(identity: &'a Identity, peer: &Identity) -> Signer<'a> {
        Signer {
            identity,
            kind: TransferKind::Files,
            peer: peer.signatory(),
            session: Some(Digest([2; 32])),
            place: Some(Place { export: Some("data".into()), path: b"run/7".to_vec() }),
            header: None,
        }
    }

    fn signed(signer: &Signer, side: Side, failed: u64) -> Signed {
        let totals = Totals { done: 1, failed, ..Totals::default() };
        let terms = Terms::of(4 << 20, 256 << 10);
        signer.sign_root(side, Some((Digest([1; 32]), 1)), &terms, (totals, 0)).unwrap()
    }

    /// Else the statements of two copies could be joined: of one in which a part failed, and of one of all.
    #[test]
    fn a_peer_that_states_other_totals_is_not_agreed_with() {
        let identity = Identity::generate("somebody").unwrap();
        let signer = signer(&identity, &identity);
        let ours = signed(&signer, Side::Sender, 0);
        signer.check(&signed(&signer, Side::Receiver, 0), &ours).unwrap();
        let refused = signer.check(&signed(&signer, Side::Receiver, 1), &ours).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Damage);
        assert!(refused.cause.contains("failed: 1"), "{refused}");
    }

    #[test]
    fn a_peer_that_signs_as_another_than_it_said_or_for_another_session_is_not_agreed_with() {
        let [client, server, other] = ["a", "b", "c"].map(|name| Identity::generate(name).unwrap());
        let ours = signer(&server, &client);
        let statement = signed(&ours, Side::Receiver, 0);
        ours.check(&signed(&signer(&client, &server), Side::Sender, 0), &statement).unwrap();
        let elsewhere = Signer { session: Some(Digest([3; 32])), ..signer(&client, &server) };
        let of_a_stream = Signer { kind: TransferKind::Stream, ..signer(&client, &server) };
        for theirs in [signer(&other, &server), signer(&client, &other), elsewhere, of_a_stream] {
            let refused = ours.check(&signed(&theirs, Side::Sender, 0), &statement).unwrap_err();
            assert_eq!(refused.kind, FailureKind::Damage, "{refused}");
        }
    }

    /// `verify` would call damage what was made of it.
    #[test]
    fn a_peer_that_states_what_is_ours_to_say_or_the_header_of_another_receipt_is_not_agreed_with() {
        let identity = Identity::generate("somebody").unwrap();
        let with = |header| Signer { header, ..signer(&identity, &identity) };
        let [plain, writing, other] = [None, Some(Digest([4; 32])), Some(Digest([5; 32]))].map(with);
        let told = |signer: &Signer, side, change: fn(&mut Statement)| {
            let mut statement = signed(signer, side, 0).statement;
            change(&mut statement);
            let signature = identity.sign(&statement.signed_bytes());
            Signed { statement, certificate: identity.chain()[0].to_vec(), signature }
        };
        let placed = told(&plain, Side::Sender, |said| said.place = Some(place_of(Path::new("/"))));
        let (sent, received) = (signed(&writing, Side::Sender, 0), signed(&writing, Side::Receiver, 0));
        let refused = [
            writing.check(&told(&plain, Side::Receiver, |said| said.unread = 1), &sent),
            writing.check(&placed, &received),
            writing.check(&told(&other, Side::Receiver, |_| ()), &sent),
        ];
        for refused in refused {
            assert_eq!(refused.unwrap_err().kind, FailureKind::Damage);
        }
        writing.check(&told(&plain, Side::Receiver, |_| ()), &sent).unwrap();
        writing.check(&told(&plain, Side::Sender, |said| said.unread = 1), &received).unwrap();
        // A daemon writes none.
        plain.check(&told(&writing, Side::Sender, |_| ()), &signed(&plain, Side::Receiver, 0)).unwrap();
    }

    #[test]
    fn a_key_that_is_kept_nowhere_is_told_where_a_receipt_is_written() {
        let [ephemeral, other] = ["a", "b"].map(|name| Identity::generate(name).unwrap());
        let kept = Identity::from_pem(&other.to_pem()).unwrap();
        let noted = |own, peer, header| note_of(&Signer { header, ..signer(own, peer) });
        let header = Some(Digest([4; 32]));
        assert_eq!(noted(&kept, &kept, header), None);
        assert_eq!(noted(&ephemeral, &other, None), None);
        assert!(noted(&kept, &ephemeral, header).unwrap().starts_with("the far side has"));
        assert!(noted(&ephemeral, &kept, header).unwrap().starts_with("this side has"));
        let told = signed(&signer(&ephemeral, &kept), Side::Sender, 0).statement;
        assert!(told.signer.is_ephemeral && !told.peer.is_ephemeral);
    }

    /// What was said, for who looks.
    #[derive(Clone, Default)]
    pub(in crate::run) struct Said(pub(in crate::run) Arc<Mutex<Vec<TransferMessage>>>);

    impl Outbox for Said {
        fn say(&self, _: TransferNumber, message: TransferMessage) {
            lock(&self.0).push(message);
        }

        fn work(&self) {}
    }

    impl Said {
        fn last_words(&self) -> usize {
            let is_last = |message: &&TransferMessage| matches!(message, TransferMessage::Unsigned);
            lock(&self.0).iter().filter(is_last).count()
        }
    }

    const NUMBER: TransferNumber = TransferNumber(0);
    const AT_ONCE: Wait<'static> = Wait { patience: Duration::ZERO, is_given_up: &|| false };

    fn flows(said: &Said) -> Arc<FlowSend> {
        let (terms, flow) = (Terms::of(4 << 20, 1 << 20), FlowWishes::new(Until::default()).terms);
        let run = FlowSend::new(terms, flow, event::nobody());
        run.attach(NUMBER, Box::new(said.clone()), None);
        run
    }

    /// Says its last word again with the next link, and waits for no other's when its session is gone.
    fn keeps_its_last_word(run: &(impl Party + Transfer), said: &Said) {
        let before = said.last_words();
        run.link_up();
        assert_eq!(said.last_words(), before, "it has said none");
        run.say_last(TransferMessage::Unsigned);
        run.link_up();
        assert_eq!(said.last_words(), before + 2);
        run.common().lock().end.come(Ended::Finished(Totals::default()));
        let why = Failure::new(FailureKind::Connection, "transfer", "cut off");
        run.session_ends(run.attachment(), &why);
        let Wait { patience, is_given_up } = Wait::default();
        assert!(run.peer_receipt(patience, is_given_up).is_none());
        assert!(!run.peer_is_done(patience, is_given_up));
        assert_eq!(missing(run, "receiver", Wait::default()), why);
    }

    #[test]
    fn a_last_word_that_a_link_took_along_is_said_again_and_none_is_waited_for_without_a_session() {
        let (said, terms) = (Said::default(), Terms::of(4 << 20, 1 << 20));
        let outbox = || Box::new(said.clone());
        let source = Arc::new(NoiseSource { bytes: 1 << 10, file_bytes: 1 << 10 });
        let limits = sender::Limits::for_path(&terms, None);
        let sends = SendRun::new(NUMBER, source, terms.clone(), limits, outbox(), event::nobody());
        keeps_its_last_word(&*sends, &said);
        keeps_its_last_word(&*flows(&said), &said);
        let (destination, limits) = (Arc::new(NullDestination::default()), receiver::Limits::default());
        let started =
            ReceiveRun::start(NUMBER, destination, terms.clone(), limits, outbox(), event::nobody());
        let receives = started.unwrap();
        keeps_its_last_word(&*receives, &said);
        let flow = FlowWishes::new(Until::default()).terms;
        let started = FlowReceive::start(Arc::new(NullFlows), terms, &flow, event::nobody());
        let takes = started.unwrap();
        takes.attach(NUMBER, outbox(), None);
        keeps_its_last_word(&*takes, &said);
        // What their sessions say of those that received, to senders that did not hear it.
        assert_eq!(Transfer::last_word(&*receives), Some(TransferMessage::Unsigned));
        assert_eq!(Transfer::last_word(&*takes), Some(TransferMessage::Unsigned));
        receives.close();
        takes.close();
    }

    /// Its path is cut, or its peer has much to put away, for longer than is waited.
    struct Excuses;

    impl Outbox for Excuses {
        fn say(&self, _: TransferNumber, _: TransferMessage) {}

        fn work(&self) {}

        fn excuses_peer(&self) -> bool {
            true
        }
    }

    #[test]
    fn an_outage_takes_none_of_the_time_for_the_last_word() {
        let run = flows(&Said::default());
        run.attach(NUMBER, Box::new(Excuses), None);
        let patience = Duration::from_millis(100);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(5 * patience);
                run.hear(TransferMessage::Unsigned).unwrap();
            });
            assert!(run.peer_is_done(patience, &|| false));
        });
    }

    #[test]
    fn who_is_asked_to_stop_waits_for_no_last_word_in_an_outage() {
        let run = flows(&Said::default());
        run.attach(NUMBER, Box::new(Excuses), None);
        let wait = Wait { is_given_up: &|| true, ..Wait::default() };
        let stopped = unsigned_as_sender(&*run, wait).unwrap_err();
        assert_eq!(stopped.kind, FailureKind::Stopped, "{stopped}");
    }

    /// Else a sender that did not hear it would wait in vain, and not know that the two differ.
    #[test]
    fn why_a_receiver_signs_nothing_is_said_again_too() {
        let [own, other] = ["a", "b"].map(|name| Identity::generate(name).unwrap());
        let (ours, theirs) = (signer(&own, &other), signer(&other, &own));
        let (said, terms) = (Said::default(), Terms::of(4 << 20, 1 << 20));
        let flow = FlowWishes::new(Until::default()).terms;
        let run = FlowReceive::start(Arc::new(NullFlows), terms, &flow, event::nobody()).unwrap();
        run.attach(NUMBER, Box::new(said.clone()), None);
        run.hear(TransferMessage::Flow(FlowMessage::Last)).unwrap();
        // Of other entries than none.
        let statement = signed(&theirs, Side::Sender, 0);
        run.hear(TransferMessage::Receipt(Box::new(statement))).unwrap();
        let differs = as_receiver(&*run, &ours, Totals::default(), AT_ONCE).unwrap_err();
        assert_eq!(differs.kind, FailureKind::Damage, "{differs}");
        let abort = TransferMessage::Abort(differs);
        let aborts = || lock(&said.0).iter().filter(|message| **message == abort).count();
        assert_eq!(aborts(), 1);
        run.link_up();
        assert_eq!(aborts(), 2);
        // What its session says when it is gone.
        assert_eq!(Transfer::last_word(&*run), Some(abort.clone()));
        assert_eq!(run.stated_root(), None);
    }

    /// As a receipt for which the sender then removes its files.
    #[test]
    fn a_receiver_that_cannot_keep_what_both_signed_says_so_in_place_of_its_statement() {
        let [own, other] = ["a", "b"].map(|name| Identity::generate(name).unwrap());
        let (ours, theirs) = (signer(&own, &other), signer(&other, &own));
        let full = Failure::new(FailureKind::Io, "write", "no space left");
        for kept in [Ok(()), Err(full)] {
            let said = Said::default();
            let (terms, flow) = (Terms::of(4 << 20, 1 << 20), FlowWishes::new(Until::default()).terms);
            let run = FlowReceive::start(Arc::new(NullFlows), terms, &flow, event::nobody()).unwrap();
            run.attach(NUMBER, Box::new(said.clone()), None);
            run.hear(TransferMessage::Flow(FlowMessage::Last)).unwrap();
            let (root, entries, _) = RootHasher::default().finish();
            let totals = (Totals::default(), 0);
            let root = Some((root, entries));
            let statement = theirs.sign_root(Side::Sender, root, Party::terms(&*run), totals).unwrap();
            run.hear(TransferMessage::Receipt(Box::new(statement))).unwrap();
            let keep = |agreed: &Agreed| {
                assert_eq!(agreed.receiver.statement.side, Side::Receiver);
                kept.clone()
            };
            let agreed = as_keeping_receiver(
                &*run,
                &ours,
                totals.0,
                Wait { patience: Duration::ZERO, ..Wait::default() },
                keep,
            );
            assert_eq!(agreed.map(drop), kept);
            let is_signed = lock(&said.0).iter().any(|word| matches!(word, TransferMessage::Receipt(_)));
            assert_eq!(is_signed, kept.is_ok());
            if let Err(failure) = kept {
                assert_eq!(Transfer::last_word(&*run), Some(TransferMessage::Abort(failure)));
            }
        }
    }

    /// On a slow disk that takes longer than a sender waits for a word without a reason.
    #[test]
    fn a_receiver_that_keeps_what_both_signed_says_so_meanwhile() {
        let [own, other] = ["a", "b"].map(|name| Identity::generate(name).unwrap());
        let (ours, theirs) = (signer(&own, &other), signer(&other, &own));
        let (said, terms) = (Said::default(), Terms::of(4 << 20, 1 << 20));
        let (root, entries, _) = RootHasher::default().finish();
        let statement =
            theirs.sign_root(Side::Sender, Some((root, entries)), &terms, (Totals::default(), 0)).unwrap();
        let (destination, limits) = (Arc::new(NullDestination::default()), receiver::Limits::default());
        let run = ReceiveRun::start(NUMBER, destination, terms, limits, Box::new(said), event::nobody());
        let run = run.unwrap();
        run.hear(TransferMessage::Receipt(Box::new(statement))).unwrap();
        let waits_for = || {
            let mut heartbeat = Heartbeat::default();
            run.add_to(&mut heartbeat);
            heartbeat.waiting_for
        };
        let keep = |_: &Agreed| {
            assert_eq!(waits_for(), Some(WaitingFor::Write));
            Ok(())
        };
        as_keeping_receiver(&*run, &ours, Totals::default(), AT_ONCE, keep).unwrap();
        assert_eq!(waits_for(), None);
    }

    /// Of a stream, which outlives its sessions: the second session would have found the end of the first.
    #[test]
    fn a_stream_that_finished_and_was_not_signed_is_signed_in_its_next_session() {
        let [own, other] = ["a", "b"].map(|name| Identity::generate(name).unwrap());
        let (ours, theirs) = (signer(&own, &other), signer(&other, &own));
        let said = Said::default();
        let run = flows(&said);
        let path = RelativePath::new(b"log".to_vec()).unwrap();
        let flow = run.begin(path, (Origin::default(), false), 0o644).unwrap();
        let digest_of = |bytes: &[u8]| Digest(*blake3::hash(bytes).as_bytes());
        let stands = |content: &[u8]| {
            let at = FlowMark { flow, bytes: content.len() as u64, digest: digest_of(content) };
            let stand = FlowStand { at, is_ours: true, is_over: false, name: None };
            run.hear(TransferMessage::Flow(FlowMessage::Stand(vec![stand]))).unwrap();
        };
        let totals = Totals { done: 1, bytes_done: 3, ..Totals::default() };
        let finishes = || {
            let outcome = Outcome::Done { digest: Some(digest_of(b"abc")), losses: Vec::new() };
            run.hear(TransferMessage::Settled(vec![(flow, outcome)])).unwrap();
            run.hear(TransferMessage::Finished(totals)).unwrap();
            assert!(matches!(run.ended(), Some(Ended::Finished(_))), "it has not finished");
        };
        stands(b"");
        assert!(matches!(run.push(flow, 0, b"abc"), Pushed::Taken));
        run.end(flow);
        run.last();
        finishes();
        let missed = as_sender(&*run, &ours, totals, AT_ONCE).unwrap_err();
        assert_eq!(missed.kind, FailureKind::Connection, "{missed}");
        let root = run.stated_root().expect("it stated one");

        run.attach(TransferNumber(1), Box::new(said.clone()), None);
        assert!(run.ended().is_none() && run.stated_root().is_none());
        stands(b"abc");
        finishes();
        let statement =
            theirs.sign_root(Side::Receiver, Some((root, 1)), Party::terms(&*run), (totals, 0)).unwrap();
        run.hear(TransferMessage::Receipt(Box::new(statement))).unwrap();
        let agreed = as_sender(&*run, &ours, totals, AT_ONCE).unwrap();
        assert_eq!((agreed.sender.statement.root, agreed.sender.statement.entries), (root, 1));
    }

    #[test]
    fn only_the_receiver_states_where_it_wrote_and_nobody_signs_a_dry_run() {
        let identity = Identity::generate("somebody").unwrap();
        let signer = signer(&identity, &identity);
        let [sent, received] = [Side::Sender, Side::Receiver].map(|side| signed(&signer, side, 0).statement);
        assert_eq!((sent.place, received.place), (None, signer.place.clone()));
        let terms = Terms { dry_run: true, ..Terms::of(4 << 20, 256 << 10) };
        let root = Some((Digest([1; 32]), 1));
        let refused = signer.sign_root(Side::Receiver, root, &terms, (Totals::default(), 0));
        assert_eq!(refused.unwrap_err().kind, FailureKind::Internal);
    }
}
