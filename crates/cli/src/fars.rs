//! Far movers that a command needs: places at the same daemon or ssh host share one.

use crate::args::SshArgs;
use crate::place::{Named, Places};
use crate::ssh;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::{Identity, ServerTrust, Ticket, client_config};
use thalweg_mover::run::client::TcpConnect;
use thalweg_mover::run::far::Far;
use thalweg_mover::run::spread::Local;
use thalweg_wire::message::Place;

/// How a command reaches far movers.
pub struct How<'a> {
    /// Places that have names.
    pub places: &'a Places,
    /// Whom to expect at a daemon that has no ticket of its own, and who we are.
    pub ticket: Option<&'a Path>,
    /// How to start one by ssh.
    pub ssh: &'a SshArgs,
    /// For how long one started by ssh keeps a session without a link.
    pub patience: Duration,
    /// After how long a silent link counts as lost there.
    pub stall_timeout: Duration,
    /// Where our own identity is, which copies are signed with: by ssh we are it. Without, we are nobody in particular.
    pub state: Option<&'a Path>,
    /// Tell nothing of the way.
    pub quiet: bool,
    /// Addresses of the far side for data streams.
    pub via: &'a [String],
    /// Addresses and cards of this machine for them.
    pub bind: &'a [Local],
}

/// What tells one far mover from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// A daemon at this address, with this ticket.
    Daemon(String, Option<PathBuf>),
    /// An ssh host, and its port.
    Ssh(String, Option<u16>),
}

/// A far mover that was reached.
#[derive(Clone)]
pub struct Reached {
    /// The far mover.
    pub far: Arc<Far>,
    /// Who we are there.
    pub identity: Arc<Identity>,
}

/// See the module. They are closed with the value.
pub struct Fars<'a> {
    how: How<'a>,
    known: Vec<(Whom, Reached)>,
}

impl Whom {
    /// The far mover that a place is at; `None` for places of this machine.
    pub fn of(place: &Named) -> Option<Whom> {
        match place {
            Named::Daemon { address, ticket, .. } => Some(Whom::Daemon(address.clone(), ticket.clone())),
            Named::Ssh { host, port, .. } => Some(Whom::Ssh(host.clone(), *port)),
            Named::Local(_) | Named::Zero(_) | Named::Simulated(_) | Named::Null => None,
        }
    }
}

/// A place as its far mover knows it; `None` for places of this machine.
pub fn place_there(place: &Named) -> Option<Place> {
    match place {
        Named::Daemon { export, path, .. } => {
            Some(Place { export: Some(export.clone()), path: path.clone() })
        }
        Named::Ssh { path, .. } => Some(ssh::place(path.clone())),
        Named::Local(_) | Named::Zero(_) | Named::Simulated(_) | Named::Null => None,
    }
}

impl<'a> Fars<'a> {
    /// None yet.
    pub fn new(how: How<'a>) -> Fars<'a> {
        Fars { how, known: Vec::new() }
    }

    /// Reads a place.
    ///
    /// # Errors
    /// As [`Named::parse`].
    pub fn named(&self, text: &OsStr) -> Result<Named> {
        Named::parse(text, self.how.places)
    }

    /// The far mover there. By ssh it is started, the first time; its user may be asked for a password, so this comes
    /// before anything that draws on the terminal.
    ///
    /// # Errors
    /// `Permission` without a ticket; by ssh as [`ssh::far`].
    pub fn reach(&mut self, whom: &Whom) -> Result<Reached> {
        if let Some((_, reached)) = self.known.iter().find(|(known, _)| known == whom) {
            return Ok(reached.clone());
        }
        let reached = match whom {
            Whom::Daemon(address, ticket) => {
                daemon(address, ticket.as_deref().or(self.how.ticket), &self.how)?
            }
            Whom::Ssh(host, port) => {
                if self.how.via.iter().any(|via| via == TICKET) {
                    let cause = "`--via ticket` is for daemons: by ssh there is no ticket";
                    return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
                }
                let (far, identity) = ssh::far(host, *port, &self.how)?;
                let far = far.spread(self.how.via.to_vec(), self.how.bind.to_vec())?;
                Reached { far: Arc::new(far), identity: Arc::new(identity) }
            }
        };
        self.known.push((whom.clone(), reached.clone()));
        Ok(reached)
    }
}

impl Drop for Fars<'_> {
    fn drop(&mut self) {
        for (_, reached) in &self.known {
            reached.far.close();
        }
    }
}

/// In `--via`: all addresses of the ticket.
const TICKET: &str = "ticket";

fn daemon(address: &str, ticket: Option<&Path>, how: &How<'_>) -> Result<Reached> {
    let path = ticket.ok_or_else(|| {
        let cause =
            "a daemon asks who you are: give the ticket that it wrote with --ticket or THALWEG_TICKET";
        Failure::new(FailureKind::Permission, "connect", cause)
    })?;
    let ticket = Ticket::read(path)?;
    let identity = ticket.identity()?;
    let tls = client_config(&identity, &ServerTrust::Pinned(ticket.server))?;
    let connect = Arc::new(TcpConnect { addresses: vec![address.to_owned()] });
    let via = how.via.iter().flat_map(|via| match via.as_str() {
        TICKET => ticket.addresses.clone(),
        _ => vec![via.clone()],
    });
    let far = Far::new(connect, tls, "thalweg").spread(via.collect(), how.bind.to_vec())?;
    Ok(Reached { far: Arc::new(far), identity: Arc::new(identity) })
}
