//! A far mover, and the session with it that copies share.
//!
//! The first copy that needs it dials; the others find the session and take numbers of their own in it, so pushes and
//! pulls ride on one link at the same time. When it is over, whoever comes first begins another.

use crate::event::Events;
use crate::failure::Result;
use crate::run::client::{Client, Connect, LinkSettings};
use crate::run::spread::{Local, Spread};
use rustls::ClientConfig;
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_wire::message::TransferNumber;

/// What is told of options that do nothing on the way to a far mover, or within this machine; of each whether it does not.
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

/// See the module.
pub struct FarMover {
    connect: Arc<dyn Connect>,
    tls: Arc<ClientConfig>,
    server_name: String,
    shared: Mutex<Option<Shared>>,
}

struct Shared {
    client: Arc<Client>,
    /// Number that was given out last.
    transfers: u16,
}

impl FarMover {
    /// One that `connect` reaches; `tls` says who we are and whom we expect under `server_name`. Nothing is dialled
    /// yet.
    pub fn new(connect: Arc<dyn Connect>, tls: Arc<ClientConfig>, server_name: &str) -> FarMover {
        FarMover { connect, tls, server_name: server_name.to_owned(), shared: Mutex::default() }
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
        Client::connect(self.connect.clone(), self.tls.clone(), &self.server_name, settings, events)
    }

    /// The session that is shared, and a number for one more transfer in it. Dials if there is none, or no more;
    /// `settings` and `events` are those of who dials.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn transfer(&self, settings: LinkSettings, events: Events) -> Result<(Arc<Client>, TransferNumber)> {
        // Held while it is dialled: the others wait for it rather than dial as well.
        let mut shared = self.lock();
        if let Some(Shared { client, transfers }) = &mut *shared
            && !client.session.is_closed()
            && let Some(number) = transfers.checked_add(1)
        {
            *transfers = number;
            return Ok((client.clone(), TransferNumber(number)));
        }
        let client = Arc::new(self.dial(settings, events)?);
        *shared = Some(Shared { client: client.clone(), transfers: 1 });
        Ok((client, TransferNumber(1)))
    }

    /// All copies are over: ends the session in order, and what was started to reach the far mover.
    pub fn close(&self) {
        if let Some(shared) = self.lock().take() {
            shared.client.close();
        }
        self.connect.close();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Shared>> {
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
