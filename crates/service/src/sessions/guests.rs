//! What is let in besides who has a ticket: who vouches, and what is asked for then.

use super::Host;
use crate::log::of_session;
use crate::tickets::{Guest, vouches_for_nobody};
use std::sync::Arc;
use thalweg_mover::failure::Result;
use thalweg_mover::link::Fingerprint;
use thalweg_mover::run::session::Session;
use thalweg_wire::message::{Open, Question, Vouch};

impl Host {
    /// Lets a guest in, for whom the client of this session vouches.
    ///
    /// # Errors
    /// `Permission` where there are no tickets, or that client is a guest itself; as [`Exports::resolve`] for what is
    /// not its own to share; else as `Tickets::vouch`.
    ///
    /// [`Exports::resolve`]: crate::export::Exports::resolve
    pub(crate) fn vouch(&self, session: &Arc<Session>, vouch: Vouch) -> Result<()> {
        let tickets = self.tickets.get().ok_or_else(vouches_for_nobody)?;
        let exports = self.exports_of(session)?;
        // What may be done there is looked at when the guest asks.
        vouch.places.iter().try_for_each(|place| exports.resolve(place, false).map(drop))?;
        let (guest, writes) = (Fingerprint(vouch.certificate), vouch.write);
        tickets.vouch(session, vouch)?;
        of_session!(info, session, %guest, writes, "a guest is vouched for");
        Ok(())
    }

    /// Whether the client of this session vouched for somebody, who comes in its stead.
    pub(super) fn has_guests_of(&self, session: &Session) -> bool {
        self.tickets.get().is_some_and(|tickets| tickets.has_guests_of(session))
    }

    /// The guest that the client of this session is, if it is one.
    pub(super) fn guest(&self, session: &Session) -> Option<Arc<Guest>> {
        self.tickets.get()?.guest(&session.peer)
    }

    /// Refuses a guest all but its copy.
    ///
    /// # Errors
    /// `Permission`.
    pub(super) fn check_guest(&self, session: &Session, open: &Open) -> Result<()> {
        self.guest(session).map_or(Ok(()), |guest| guest.check(open))
    }

    /// Refuses a guest all questions but what the server is.
    ///
    /// # Errors
    /// `Permission`.
    pub(crate) fn check_guest_question(&self, session: &Session, question: &Question) -> Result<()> {
        match question {
            Question::About => Ok(()),
            _ => self.guest(session).map_or(Ok(()), |guest| Err(guest.refusal())),
        }
    }
}
