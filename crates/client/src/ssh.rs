//! Places that the user's own ssh reaches.

use crate::far_movers::How;
use crate::identity;
use std::ffi::OsStr;
use std::net::IpAddr;
use std::sync::Arc;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::Identity;
use thalweg_mover::link::ssh::{FarProgram, Ssh};
use thalweg_mover::run::by_client::{self, ClientLine, Here};
use thalweg_mover::run::by_ssh::{self, SshWishes};
use thalweg_mover::run::far_mover::FarMover;
use thalweg_sys::address;
use thalweg_wire::message::Place;

/// Starts the far mover and finds a way to it. Its user may be asked for a password here, so this
/// comes before anything that draws on the terminal.
///
/// # Errors
/// `Connection` if ssh does not get there, `NotFound` if there is no program, `Protocol` if it is too old or too new.
pub fn far(host: &str, port: Option<u16>, how: &How) -> Result<FarMover> {
    by_ssh::reach(wishes(host, port, how)?, &who(how)?, how.events.clone())
}

/// Has who started the deputy start the far mover, over this line, and finds a way to it.
///
/// # Errors
/// As [`far`]; `Connection` too if who started the deputy is gone.
pub fn far_by_client(line: &Arc<ClientLine>, host: &str, port: Option<u16>, how: &How) -> Result<FarMover> {
    let asked = &how.ssh;
    let name = port.map_or(host.to_owned(), |port| format!("{host}:{port}"));
    let here = Here {
        family: how.family,
        near_ports: asked.near_ports,
        via_ssh: asked.via_ssh,
        addresses: own_addresses(std::env::var_os("SSH_CONNECTION").as_deref()),
    };
    by_client::reach(line.clone(), &name, &here, &who(how)?, how.events.clone())
}

/// How far movers at this host are started.
///
/// # Errors
/// `Usage`.
pub(crate) fn wishes(host: &str, port: Option<u16>, how: &How) -> Result<SshWishes> {
    let asked = &how.ssh;
    if port.is_some() && asked.port.is_some() && port != asked.port {
        let cause = "--port and the port in ssh:// differ";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    Ok(SshWishes {
        ssh: Ssh::new(&asked.rsh, host, port.or(asked.port))?.only(how.family).within(asked.connect_max),
        program: match &asked.far_path {
            Some(given) => FarProgram::from_command(given)?,
            None => FarProgram::looked_for(),
        },
        bootstrap: asked.bootstrap,
        static_programs: asked.static_programs.clone(),
        ports: asked.far_ports,
        near_ports: asked.near_ports,
        via_ssh: asked.via_ssh,
        patience: how.patience,
        stall_timeout: how.stall_timeout,
        priority: asked.priority,
    })
}

fn who(how: &How) -> Result<Identity> {
    match &how.state {
        Some(state) => identity::own(state),
        None => Identity::generate("thalweg by ssh"),
    }
}

/// Where others may dial this machine: first the address at which sshd was reached, as `SSH_CONNECTION` has it (client
/// address, client port, server address, server port), then those of its cards.
fn own_addresses(ssh_connection: Option<&OsStr>) -> Vec<IpAddr> {
    let of_ssh: Option<IpAddr> =
        ssh_connection.and_then(OsStr::to_str).and_then(|text| text.split(' ').nth(2)?.parse().ok());
    let cards = address::own().unwrap_or_default();
    let mut all: Vec<IpAddr> = of_ssh.into_iter().collect();
    all.extend(cards.into_iter().filter(|card: &IpAddr| !card.is_loopback() && Some(*card) != of_ssh));
    all
}

/// A path as the far user means it: relative ones, and those that begin with `~/`, are below the home directory, in
/// which the far mover works. Another user's home (`~name`) is not looked up.
pub fn place(path: Vec<u8>) -> Place {
    // `ssh://host/~/x` is how a URL says it.
    let below_home = path.strip_prefix(b"/~/").or(path.strip_prefix(b"~/"));
    let path = match below_home {
        Some(b"") => b"./".to_vec(),
        Some(rest) => rest.iter().skip_while(|b| **b == b'/').copied().collect(),
        None if path == b"~" || path == b"/~" => b".".to_vec(),
        None => path,
    };
    Place { export: None, path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_dialled_first_where_sshd_was_reached() {
        let own = |text: &str| own_addresses(Some(OsStr::new(text)));
        assert_eq!(own("10.9.8.7 50000 10.9.8.6 22")[0], "10.9.8.6".parse::<IpAddr>().unwrap());
        assert_eq!(own("::1 50000 ::1 22")[0], "::1".parse::<IpAddr>().unwrap());
        for odd in ["", "10.9.8.7", "a b c d"] {
            assert!(own(odd).iter().all(|address| !address.is_loopback()), "{odd}");
        }
    }

    #[test]
    fn a_tilde_is_the_far_home_in_which_the_far_mover_works() {
        let path = |text: &[u8]| place(text.to_vec()).path;
        assert_eq!(path(b"~"), b".");
        assert_eq!(path(b"~/"), b"./");
        assert_eq!(path(b"~/a/"), b"a/");
        assert_eq!(path(b"~//etc"), b"etc");
        assert_eq!(path(b"/~/a"), b"a");
        assert_eq!(path(b"/a/~/b"), b"/a/~/b");
        assert_eq!(path(b"./~/b"), b"./~/b");
        assert_eq!(path(b"~other/b"), b"~other/b");
    }
}
