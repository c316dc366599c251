//! What a server signs of the transfers that it opened, and for whom.

use super::Host;
use thalweg_mover::run::agree::Signer;
use thalweg_mover::run::session::Session;
use thalweg_wire::Digest;
use thalweg_wire::message::{Open, Place, Request};
use thalweg_wire::receipt::{Signatory, TransferKind};

/// What is known of the statements of a transfer when it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Signs {
    kind: TransferKind,
    /// Who signs for the client.
    client: Signatory,
    session: Digest,
    place: Option<Place>,
}

impl Host {
    /// Who signs what was opened so; `None` if nobody does. `place`: where we write.
    pub(crate) fn signs(session: &Session, open: &Open, place: Option<Place>) -> Option<Signs> {
        // What is thrown away, or was not moved, would pass for what is kept.
        if open.is_trial() || open.terms.dry_run {
            return None;
        }
        let kind = match &open.request {
            Request::Push(_) | Request::Pull(_) => TransferKind::Files,
            Request::FlowPush { .. } | Request::FlowPull { .. } => TransferKind::Stream,
            Request::Frames { .. } => return None,
        };
        let shown = Signatory { certificate: session.peer.0, is_ephemeral: false };
        Some(Signs { kind, client: open.signer.unwrap_or(shown), session: session.tie(open.transfer), place })
    }

    pub(crate) fn signer(&self, signs: &Signs) -> Signer<'_> {
        let Signs { kind, client, session, place } = signs.clone();
        let session = Some(session);
        Signer { identity: &self.identity, kind, peer: client, session, place, header: None }
    }
}
