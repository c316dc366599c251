//! What became of a copy, as a daemon that ran it for somebody hands it on.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use thalweg_mover::basin::times::Passage;
use thalweg_mover::basin::{self, Evidence};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::Fingerprint;
use thalweg_mover::plan::{Chosen, Plan};
use thalweg_mover::run::agree::{Agreed, is_signed};
use thalweg_mover::run::copy::{Beginning, Report, Sources};
use thalweg_wire::Digest;
use thalweg_wire::account::RenamedAccount;
use thalweg_wire::message::{Check, Totals, VerifyLevel, is_congestion_name};
use thalweg_wire::path::Sentence;
use thalweg_wire::receipt::{Side, Signed, Statement, TransferKind};

/// No copy takes longer: a century, in seconds.
const PASSAGE_SECONDS_MAX: f64 = 3.2e9;

/// A [`Report`], but for what only the machine has use for that it was made on, and what follows from the rest.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReportTold {
    totals: Totals,
    /// The statements of the sender and of the receiver.
    signed: Option<(Signed, Signed)>,
    plan: Plan,
    elapsed: Duration,
    evidence: Evidence,
    attempts: u32,
    passage: Passage,
    /// What says most of the rest, of what its beginning had shown.
    beginning: Option<Beginning>,
    renamed: RenamedAccount,
}

/// The two that a copy was between, by their certificates.
#[derive(Debug, Clone, Copy)]
pub struct Between {
    /// Who sent.
    pub sender: Fingerprint,
    /// Who received.
    pub receiver: Fingerprint,
    /// Digest of the header of the receipt that is written of it, if one is.
    pub header: Option<Digest>,
    /// The one of them that was not asked to run it.
    pub other: Side,
    /// The time there just before it let in the one that runs it, in seconds since 1970.
    pub since: i64,
    /// How far it was to be checked.
    pub verify: VerifyLevel,
    /// How what was there already was to be recognised.
    pub check: Check,
}

impl ReportTold {
    /// Of what became of a copy here.
    pub fn of(report: &Report) -> ReportTold {
        let signed = report.agreed.as_ref();
        ReportTold {
            totals: report.totals,
            signed: signed.map(|agreed| (agreed.sender.clone(), agreed.receiver.clone())),
            plan: report.plan.clone(),
            elapsed: report.elapsed,
            evidence: report.evidence.clone(),
            attempts: report.attempts,
            passage: report.passage,
            beginning: report.early().cloned(),
            renamed: report.renamed,
        }
    }

    /// Reads what somebody told.
    ///
    /// # Errors
    /// `Protocol` if it makes no sense.
    pub fn read(text: &[u8]) -> Result<ReportTold> {
        let odd = |error| Failure::new(FailureKind::Protocol, "read a report", error);
        serde_json::from_slice(text).map_err(odd)
    }

    /// What it says, if it is of a copy between these two: each has signed what it states, and they state the same.
    /// `is_stated`: somebody has to, as not of a dry run.
    ///
    /// # Errors
    /// `Damage` if that is not so.
    pub fn report(self, between: Between, is_stated: bool) -> Result<Report> {
        let agreed = self.signed.map(|(sender, receiver)| Agreed { sender, receiver });
        match &agreed {
            Some(agreed) => check(agreed, between, &self.totals)?,
            None if is_stated => return Err(odd("nobody signed what was done")),
            None => {}
        }
        let evidence = if is_within(&self.evidence) { self.evidence } else { Evidence::default() };
        let is_sound = |beginning: &Beginning| is_within(&beginning.evidence);
        let beginning = self.beginning.filter(is_sound);
        let beginning = beginning.map(|of| Beginning { passage: sound(of.passage), ..of });
        Ok(Report {
            totals: self.totals,
            agreed,
            plan: inert_plan(self.plan),
            elapsed: self.elapsed,
            verdict: basin::judge(&evidence),
            evidence,
            attempts: self.attempts,
            in_ssh: false,
            learned: None,
            passage: sound(self.passage),
            beginnings: beginning.into_iter().collect(),
            compared: None,
            sources: Sources::default(),
            renamed: self.renamed,
        })
    }
}

/// What no peer may tell of itself is not told of it by another either.
fn is_within(evidence: &Evidence) -> bool {
    [&evidence.sender, &evidence.receiver].iter().all(|side| side.check().is_ok())
}

/// Times that may be reckoned with: none is negative, or beyond a century, and they are in their order.
fn sound(passage: Passage) -> Passage {
    let within = |seconds: f64, most: f64| if seconds > 0.0 { seconds.min(most) } else { 0.0 };
    let seconds = within(passage.seconds, PASSAGE_SECONDS_MAX);
    let last_s = within(passage.last_s, seconds);
    Passage { first_s: within(passage.first_s, last_s), last_s, seconds, ..passage }
}

/// A sentence of somebody else, without what would do something to a terminal.
pub fn inert(text: &str) -> String {
    Sentence(text).to_string()
}

/// Reads a plan that somebody told. `None` if it makes no sense.
pub fn plan_of(text: &[u8]) -> Option<Plan> {
    serde_json::from_slice(text).ok().map(inert_plan)
}

/// The same with reasons that are inert.
fn inert_plan(plan: Plan) -> Plan {
    fn of<T>(Chosen { value, why }: Chosen<T>) -> Chosen<T> {
        Chosen { value, why: inert(&why) }
    }
    let Plan { streams, chunk_bytes, segment_bytes, concurrency, depth, window_bytes, mut disk, .. } = plan;
    disk.io_depth = of(disk.io_depth);
    disk.engine = of(disk.engine);
    disk.direct = disk.direct.map(of);
    disk.order = disk.order.map(of);
    Plan {
        streams: of(streams),
        chunk_bytes: of(chunk_bytes),
        segment_bytes: of(segment_bytes),
        concurrency: of(concurrency),
        depth: of(depth),
        window_bytes: of(window_bytes),
        congestion: plan.congestion.filter(|name| is_congestion_name(&name.value)).map(of),
        disk,
        ..plan
    }
}

/// Who ran the copy says how it ended; that the other one says the same is in what that signed.
fn check(agreed: &Agreed, between: Between, totals: &Totals) -> Result<()> {
    let (sender, receiver) = (&agreed.sender, &agreed.receiver);
    for (signed, side, who) in
        [(sender, Side::Sender, between.sender), (receiver, Side::Receiver, between.receiver)]
    {
        let is_theirs = Fingerprint::of(&signed.certificate.as_slice().into()).matches(&who);
        let is_stated = signed.statement.side == side && signed.statement.signer.certificate == who.0;
        if !is_theirs || !is_stated || !is_signed(signed) {
            return Err(odd("a statement is not signed by the daemon that it is of"));
        }
    }
    let (sent, received) = (&sender.statement, &receiver.statement);
    let what = |of: &Statement| (of.root, of.entries, of.session, of.kind, of.verify, of.check);
    // Else one could have signed what it did with somebody else.
    let are_mutual = sent.peer == received.signer && received.peer == sent.signer;
    let is_same = what(sent) == what(received) && sent.kind == TransferKind::Files;
    if !are_mutual || !is_same || received.totals != *totals {
        return Err(odd("the two daemons state different things"));
    }
    if (sent.verify, sent.check) != (between.verify, between.check) {
        return Err(odd("the daemons signed for another --verify or --check than was asked for"));
    }
    // Who ran it may have statements of an earlier copy.
    let of_other = if between.other == Side::Sender { sent } else { received };
    if of_other.signed_at < between.since {
        return Err(odd("the other daemon signed that before this copy began"));
    }
    // Who ran it signs the header, the other one none.
    let signed = sent.header.or(received.header);
    let is_ours = between.header.is_none() || signed == between.header;
    if is_ours { Ok(()) } else { Err(odd("the daemons did not sign for this receipt")) }
}

fn odd(cause: &str) -> Failure {
    Failure::new(FailureKind::Damage, "compare receipts", cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::link::Identity;

    const SIGNED_AT: i64 = 1_790_000_000;

    fn signed(by: &Identity, peer: &Identity, side: Side, root: u8) -> Signed {
        signed_for(by, peer, side, root, None)
    }

    fn signed_for(by: &Identity, peer: &Identity, side: Side, root: u8, header: Option<Digest>) -> Signed {
        let statement = Statement {
            root: Digest([root; 32]),
            entries: 1,
            totals: Totals::default(),
            unread: 0,
            signed_at: SIGNED_AT,
            side,
            kind: TransferKind::Files,
            signer: by.signatory(),
            peer: peer.signatory(),
            session: None,
            place: None,
            verify: VerifyLevel::default(),
            check: Check::default(),
            chunk_bytes: 1 << 20,
            segment_bytes: 1 << 16,
            header,
        };
        let signature = by.sign(&statement.signed_bytes());
        Signed { statement, certificate: by.chain()[0].to_vec(), signature }
    }

    /// Whoever predicts takes quantiles of them.
    #[test]
    fn times_that_a_daemon_tells_are_in_order_whatever_they_are() {
        let odd = Passage { first_s: 5.0, first_bytes: 7, last_s: -3.0, seconds: f64::INFINITY };
        let all = sound(odd);
        assert_eq!((all.first_s, all.first_bytes, all.last_s), (0.0, 7, 0.0));
        assert_eq!(all.seconds, PASSAGE_SECONDS_MAX);
        assert_eq!(
            sound(Passage { seconds: f64::NAN, ..odd }),
            Passage { first_bytes: 7, ..Passage::default() }
        );
        let fair = Passage { first_s: 1.0, first_bytes: 1, last_s: 2.0, seconds: 3.0 };
        assert_eq!(sound(fair), fair);
        let late = sound(Passage { first_s: 4.0, ..fair });
        assert_eq!((late.first_s, late.last_s), (2.0, 2.0));
    }

    #[test]
    fn who_ran_a_copy_is_believed_what_the_other_daemon_signed_as_well() {
        let identities = ["acting", "other", "nobody"].map(|name| Identity::generate(name).unwrap());
        let [acting, other, nobody] = &identities;
        let (sender, receiver) = (other.fingerprint(), acting.fingerprint());
        let (verify, asked) = (VerifyLevel::default(), Check::default());
        let (other_side, since) = (Side::Sender, SIGNED_AT);
        let between =
            Between { sender, receiver, header: None, other: other_side, since, verify, check: asked };
        let looked_at = |sender: Signed, receiver: Signed, totals: Totals| {
            check(&Agreed { sender, receiver }, between, &totals).map_err(|failure| failure.kind)
        };
        let sent = |root| signed(other, acting, Side::Sender, root);
        let received = |root| signed(acting, other, Side::Receiver, root);
        assert_eq!(looked_at(sent(1), received(1), Totals::default()), Ok(()));
        let damage = Err(FailureKind::Damage);
        assert_eq!(looked_at(sent(1), received(2), Totals::default()), damage, "of another copy");
        let more = Totals { done: 1, ..Totals::default() };
        assert_eq!(looked_at(sent(1), received(1), more), damage, "more than was signed");
        let forged = signed(nobody, acting, Side::Sender, 1);
        assert_eq!(looked_at(forged, received(1), Totals::default()), damage, "by somebody else");
        let mut changed = sent(2);
        changed.statement.root = Digest([1; 32]);
        assert_eq!(looked_at(changed, received(1), Totals::default()), damage, "changed since");
        let with_another = signed(other, nobody, Side::Sender, 1);
        assert_eq!(looked_at(with_another, received(1), Totals::default()), damage, "with somebody else");
        let later = Between { since: SIGNED_AT + 1, ..between };
        let earlier = Agreed { sender: sent(1), receiver: received(1) };
        let replayed = check(&earlier, later, &Totals::default()).map_err(|failure| failure.kind);
        assert_eq!(replayed, damage, "of an earlier copy");
        for less in [
            Between { verify: VerifyLevel::Paranoid, ..between },
            Between { check: Check::Digest, ..between },
        ] {
            let signed = Agreed { sender: sent(1), receiver: received(1) };
            let refused = check(&signed, less, &Totals::default()).map_err(|failure| failure.kind);
            assert_eq!(refused, damage, "checked less than was asked for");
        }
        let ours = Between { header: Some(Digest([7; 32])), ..between };
        let for_receipt = |header: Option<u8>| {
            let header = header.map(|header| Digest([header; 32]));
            let receiver = signed_for(acting, other, Side::Receiver, 1, header);
            check(&Agreed { sender: sent(1), receiver }, ours, &Totals::default()).is_ok()
        };
        assert!(for_receipt(Some(7)) && !for_receipt(Some(8)) && !for_receipt(None), "of another receipt");
    }
}
