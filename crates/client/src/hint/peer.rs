use super::RESUME;
use thalweg_wire::message::{Failure, FailureKind, Reason};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.reason) {
        // What a daemon trusts, and who it is, stands in the ticket.
        (_, Reason::NotTrusted) => {
            "the ticket is an old one, or that of another daemon: fetch the one that `thalweg serve` there wrote last, and name it \
             with --ticket or THALWEG_TICKET"
        }
        (_, Reason::TokenNotTaken) => {
            "have another token from that issuer, for instance by `oidc-token` of oidc-agent, and give it with BEARER_TOKEN_FILE or \
             BEARER_TOKEN; `thalweg serve` there says in its log why it takes none"
        }
        (_, Reason::StoreNotTrusted) => {
            "if its authority is your own, name that with `ca` in [place.NAME], or with AWS_CA_BUNDLE"
        }
        (FailureKind::Connection, Reason::StoreNotAnswered) => {
            "is that its endpoint, and may this host reach it? The same command resumes"
        }
        // The link stood all the while.
        (FailureKind::Connection, Reason::NoWay) => {
            "the far side answers, but not there: name with --via and --bind what leads to it, or leave them out. The same \
             command resumes"
        }
        (FailureKind::Connection, Reason::NotAnswered) => {
            "is `thalweg serve` running there, and may this host reach its port? The same command resumes"
        }
        (FailureKind::Connection, Reason::NotResolved) => {
            "is the name of the host right, and known here (`getent ahosts NAME`)? With -4 or -6 only addresses of that family count. \
             The same command resumes"
        }
        (FailureKind::Connection, Reason::BeginsAnew) => {
            "see that the far side can be reached, then run the same command again: it begins anew. --patience says how long an \
             outage may last"
        }
        (_, Reason::NotMeasured) => "name a TCP port that is open there, or leave --to out",
        (FailureKind::Connection, _) => RESUME,
        _ => return None,
    })
}
