//! A far mover, and the sessions with it that copies share.
//!
//! The first copy that needs it dials; the others find the session and take numbers of their own in it, so pushes and
//! pulls ride on one link at the same time. When it is over, or has as many as it bears, whoever comes first begins
//! another.

use crate::event::Events;
use crate::failure::Result;
use crate::link::{KernelTls, TlsForm};
use crate::mutex::lock;
use crate::run::client::{Client, Connect, LinkSettings};
use crate::run::session::Session;
use crate::run::spread::{Local, Spread};
use rustls::ClientConfig;
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_wire::hello::Cipher;
use thalweg_wire::limits;
use thalweg_wire::message::TransferNumber;

/// What is told of options that do nothing on the way to a far mover, or within this machine; of each whether it does
/// not.
pub(super) fn without_effect(far: Option<&FarMover>, options: &[(&str, bool)]) -> Option<String> {
    let unused: Vec<&str> =
        options.iter().filter_map(|(option, is_unused)| is_unused.then_some(*option)).collect();
    let place = match far {
        None => " within this machine, where nothing is sent",
        Some(far) if far.is_carried() => " where data ride in ssh",
        Some(far) if !far.is_dialled() => " where the far side dials",
        // It is for want of another option, which is named.
        Some(_) => "",
    };
    (!unused.is_empty()).then(|| format!("without effect{place}: {}", unused.join(", ")))
}

/// Which options of data streams somebody asked for this time: they are told where they do nothing. What holds for all
/// commands, as a file may say it, is not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskedOfWay {
    /// Addresses of the far side (`--via`).
    pub via: bool,
    /// Addresses or cards of this machine (`--bind`).
    pub bind: bool,
    /// How they are protected.
    pub cipher: bool,
    /// Whether the kernel seals TLS records.
    pub ktls: bool,
    /// How many of these a stream carries.
    pub tls_records: bool,
}

/// Options of a link; of each whether it was asked for and does nothing on the way to a far mover, or within this
/// machine. What is as it would be anyway was not asked for, or does not matter.
pub fn unused_of_link(
    far: Option<&FarMover>,
    link: &LinkSettings,
    asked: AskedOfWay,
) -> Vec<(&'static str, bool)> {
    // Of what rides in ssh, or goes nowhere, no socket is ours.
    let has_sockets = far.is_some_and(|far| !far.is_carried());
    let is_dialled = far.is_some_and(FarMover::is_dialled);
    let is_ciphered = link.cipher != LinkSettings::default().cipher;
    let is_tls = link.cipher == Cipher::Tls;
    let (ktls, tls_records) = match is_tls {
        true => ("--ktls", "--tls-records"),
        false => ("--ktls (without --cipher tls)", "--tls-records (without --cipher tls)"),
    };
    let has_kernel = link.tls_form.kernel == KernelTls::On;
    let has_records = link.tls_form.records_max != TlsForm::default().records_max;
    let goes_as_tls = is_tls && far.is_some();
    vec![
        ("--cca", link.congestion.is_some() && !has_sockets),
        ("--via", asked.via && !is_dialled),
        ("--bind", asked.bind && !is_dialled),
        ("--cipher", asked.cipher && is_ciphered && far.is_none()),
        (ktls, asked.ktls && has_kernel && !goes_as_tls),
        (tls_records, asked.tls_records && has_records && !goes_as_tls),
    ]
}

/// What is called for each transfer that is begun, before anything of it moves.
pub type OnBegin = Arc<dyn Fn(&Arc<Session>, TransferNumber) + Send + Sync>;

/// See the module.
pub struct FarMover {
    connect: Arc<dyn Connect>,
    tls: Arc<ClientConfig>,
    on_begin: Option<OnBegin>,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    shared: Vec<Shared>,
    /// How the one is reached that was begun last: it knows which ways are bad.
    connect: Option<Arc<dyn Connect>>,
}

/// Transfers at the same time in one session. The far side takes one out a moment after us, so it bears some more.
const AT_ONCE: usize = limits::TRANSFERS_MAX - 4;

struct Shared {
    client: Arc<Client>,
    /// Number that was given out last.
    transfers: u16,
}

impl Shared {
    /// Transfers that were begun and are not over.
    fn under_way(&self) -> usize {
        usize::from(self.transfers).saturating_sub(self.client.session.transfers_over())
    }

    /// A number for one more transfer, if there is room for it and for its frames.
    fn begin(&mut self) -> Option<TransferNumber> {
        let under_way = self.under_way();
        if under_way > 0 && !self.client.session.has_frames_for(under_way + 1) {
            return None;
        }
        self.transfers = next_number(self.transfers, under_way)?;
        Some(TransferNumber(self.transfers))
    }
}

/// The number after `last`, if so many under way leave room for one more.
fn next_number(last: u16, under_way: usize) -> Option<u16> {
    if under_way < AT_ONCE { last.checked_add(1) } else { None }
}

impl FarMover {
    /// One that `connect` reaches; `tls` says who we are and whom we expect. Nothing is dialled yet.
    pub fn new(connect: Arc<dyn Connect>, tls: Arc<ClientConfig>) -> FarMover {
        FarMover { connect, tls, on_begin: None, sessions: Mutex::default() }
    }

    /// Has this called for each transfer: what it moves may have to share with others.
    #[must_use]
    pub fn on_begin(self, on_begin: OnBegin) -> FarMover {
        FarMover { on_begin: Some(on_begin), ..self }
    }

    /// Has data streams spread over addresses of both sides, as [`Spread::new`]; none of either changes nothing.
    ///
    /// # Errors
    /// As there.
    pub fn spread(mut self, far: Vec<String>, local: Vec<Local>) -> Result<FarMover> {
        if !far.is_empty() || !local.is_empty() {
            self.connect = Arc::new(Spread::new(self.connect, far, local)?);
        }
        Ok(self)
    }

    /// For messages, and to know the same place again.
    pub fn name(&self) -> String {
        self.connect.name()
    }

    /// Whether connections ride in something that is no socket of ours: what is asked of sockets does nothing.
    pub fn is_carried(&self) -> bool {
        self.connect.is_carried()
    }

    /// Whether it is dialled at addresses, from those that are to be used.
    pub fn is_dialled(&self) -> bool {
        !self.connect.addresses().is_empty()
    }

    /// A session of its own, for questions.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn dial(&self, settings: LinkSettings, events: Events) -> Result<Client> {
        self.dial_by(self.connect.clone(), settings, events)
    }

    fn dial_by(&self, connect: Arc<dyn Connect>, settings: LinkSettings, events: Events) -> Result<Client> {
        Client::connect(connect, self.tls.clone(), settings, events)
    }

    /// A session that is shared, and a number for one more transfer in it. Dials if there is none, or no more, or none
    /// with room; `settings` and `events` are those of who dials.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn transfer(&self, settings: LinkSettings, events: Events) -> Result<(Arc<Client>, TransferNumber)> {
        let (client, number) = self.take_number(settings, events)?;
        if let Some(on_begin) = &self.on_begin {
            on_begin(&client.session, number);
        }
        Ok((client, number))
    }

    fn take_number(&self, settings: LinkSettings, events: Events) -> Result<(Arc<Client>, TransferNumber)> {
        // Held while it is dialled: the others wait for it rather than dial as well.
        let mut sessions = self.lock();
        sessions.shared.retain(|shared| !shared.client.session.is_closed());
        let begin = |shared: &mut Shared| Some((shared.begin()?, shared.client.clone()));
        if let Some((number, client)) = sessions.shared.iter_mut().find_map(begin) {
            // Those that a crowd needed go with it.
            sessions.shared.retain(|shared| shared.under_way() > 0);
            return Ok((client, number));
        }
        let latest = sessions.connect.as_ref().unwrap_or(&self.connect);
        let connect = latest.for_session().unwrap_or_else(|| latest.clone());
        let client = Arc::new(self.dial_by(connect.clone(), settings, events)?);
        sessions.connect = Some(connect);
        sessions.shared.push(Shared { client: client.clone(), transfers: 1 });
        Ok((client, TransferNumber(1)))
    }

    /// All copies are over: ends the sessions in order, and what was started to reach the far mover.
    pub fn close(&self) {
        let shared = std::mem::take(&mut self.lock().shared);
        shared.iter().for_each(|shared| shared.client.close());
        self.connect.close();
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.sessions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_room_for_fewer_transfers_than_the_far_side_bears_and_again_when_one_is_over() {
        assert_eq!(next_number(0, 0), Some(1));
        let last = AT_ONCE as u16;
        assert_eq!(next_number(last - 1, AT_ONCE - 1), Some(last));
        assert_eq!(next_number(last, AT_ONCE), None);
        assert_eq!(next_number(last, AT_ONCE - 1), Some(last + 1));
        assert_eq!(next_number(u16::MAX, 0), None, "numbers are used once");
    }
}
