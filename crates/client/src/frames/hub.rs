//! A hub inside this process.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::{ClientTrust, Fingerprint, Identity, Ticket};
use thalweg_mover::run::frames::remove_deserted;
use thalweg_service::accept::{self, Listening};
use thalweg_service::export::{Export, Exports};
use thalweg_service::sessions::{Host, HostLimits};
use thalweg_sys::Dir;
use thalweg_wire::message::Place;

/// Where a hub listens, and where it may write.
#[derive(Debug, Clone)]
pub struct HubWishes {
    /// `ADDRESS:PORT`; port 0: the kernel chooses. Default: `127.0.0.1:0`.
    pub listen: Vec<String>,
    /// Where spill logs go, and what is served as the export `hub`.
    pub directory: PathBuf,
    /// Bytes that all channels together may hold in memory at most; as much again is for what is under way from
    /// producers and to consumers. Default: 1 GiB.
    pub memory_bytes_max: u64,
    /// What clients need is written here, readable by this user only.
    pub ticket: PathBuf,
}

impl HubWishes {
    /// The defaults, with this directory and ticket.
    pub fn new(directory: &Path, ticket: &Path) -> HubWishes {
        HubWishes {
            listen: vec!["127.0.0.1:0".to_owned()],
            directory: directory.to_owned(),
            memory_bytes_max: thalweg_wire::limits::CHANNEL_BYTES_MAX,
            ticket: ticket.to_owned(),
        }
    }
}

/// A hub inside this process, with new keys: who has its ticket may use it. It ends with the value.
pub struct Hub {
    listening: Option<Listening>,
    addresses: Vec<SocketAddr>,
    /// The first at which it is reached from elsewhere.
    reachable: String,
    /// What it proves who it is with.
    server: Fingerprint,
}

impl Hub {
    /// Listens, and writes the ticket.
    ///
    /// # Errors
    /// If an address or the directory cannot be had, or the ticket cannot be written.
    ///
    /// What hubs that were killed left there, and nobody can go on with, is removed first.
    pub fn start(wishes: &HubWishes) -> Result<Hub> {
        let directory = Dir::open(&wishes.directory)
            .map_err(|error| failure::of_io("open the hub's directory", &error))?;
        remove_deserted(&directory)?;
        let own = Identity::generate("thalweg hub")?;
        let client = Identity::generate("thalweg client")?;
        let trust = ClientTrust::default();
        trust.pinned.insert(client.fingerprint());
        let export = Export::of(EXPORT, wishes.directory.clone());
        // Who owns it says how large each log may be.
        let spill_bytes_max = u64::MAX;
        let channel_bytes_max = wishes.memory_bytes_max;
        let limits = HostLimits { channel_bytes_max, spill_bytes_max, ..HostLimits::default() };
        let host = Host::new(Identity::from_pem(&own.to_pem())?, Exports::open(vec![export])?, None, limits);
        let listening = accept::listen(host.clone(), &own, &trust, &wishes.listen)?;
        let (addresses, all) = (listening.addresses.clone(), listening.reachable()?);
        let reachable = all.first().cloned().unwrap_or_default();
        let ticket = Ticket { addresses: all, server: own.fingerprint(), identity_pem: client.to_pem() };
        ticket.write(&wishes.ticket)?;
        let server = own.fingerprint();
        lock_here().push((server, Arc::downgrade(&host)));
        Ok(Hub { listening: Some(listening), addresses, reachable, server })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The place of a channel, for who has the ticket: by the first address that others reach it at.
    ///
    /// # Errors
    /// `Usage` for a name with other characters than letters, digits, `-`, `_` and `.`.
    pub fn place(&self, channel: &str) -> Result<OsString> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if channel.is_empty() || !channel.chars().all(plain) || channel.starts_with('.') {
            let cause = "a name has letters, digits, `-`, `_` and `.`, and no `.` first";
            return Err(Failure::new(FailureKind::Usage, "name a channel", cause));
        }
        Ok(format!("tw://{}/{EXPORT}/{channel}", self.reachable).into())
    }

    /// Why the spill log of a channel cannot be written for now, if it cannot: then its producers are held up.
    pub fn spill_trouble(&self, channel: &str) -> Option<String> {
        let place = Place { export: Some(EXPORT.to_owned()), path: channel.as_bytes().to_vec() };
        here(&self.server)?.spill_trouble(&place)
    }

    /// Ends it in order. What it held in memory is gone; recorded channels stay in the directory.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        lock_here().retain(|(server, _)| *server != self.server);
        if let Some(listening) = self.listening.take() {
            listening.stop();
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.end();
    }
}

/// The hubs of this process that are not stopped, by what they prove who they are with.
static HERE: Mutex<Vec<(Fingerprint, Weak<Host>)>> = Mutex::new(Vec::new());

fn lock_here() -> MutexGuard<'static, Vec<(Fingerprint, Weak<Host>)>> {
    HERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The hub of this process that a ticket is for.
pub(super) fn here(server: &Fingerprint) -> Option<Arc<Host>> {
    lock_here().iter().find(|(known, _)| known == server).and_then(|(_, host)| host.upgrade())
}

/// Name of its export.
const EXPORT: &str = "hub";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_channel_is_where_others_reach_it_also_of_a_hub_that_listens_everywhere() {
        let scratch = tempfile::tempdir().unwrap();
        let ticket = scratch.path().join("ticket");
        let listen = vec!["0.0.0.0:0".to_owned()];
        let hub = Hub::start(&HubWishes { listen, ..HubWishes::new(scratch.path(), &ticket) }).unwrap();
        let place = hub.place("scan42").unwrap().into_string().unwrap();
        let first = Ticket::read(&ticket).unwrap().addresses[0].clone();
        assert_eq!(place, format!("tw://{first}/hub/scan42"));
        assert!(!place.contains("0.0.0.0"), "{place}");
    }
}
