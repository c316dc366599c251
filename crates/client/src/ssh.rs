//! Places that the user's own ssh reaches.

use crate::far_movers::How;
use crate::identity;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::Identity;
use thalweg_mover::link::ssh::{FarProgram, Ssh};
use thalweg_mover::run::by_ssh::{self, SshWishes};
use thalweg_mover::run::far_mover::FarMover;
use thalweg_wire::message::Place;

/// Starts the far mover and finds a way to it. Its user may be asked for a password here, so this
/// comes before anything that draws on the terminal.
///
/// # Errors
/// `Connection` if ssh does not get there, `NotFound` if there is no program, `Protocol` if it is too old or too new.
pub fn far(host: &str, port: Option<u16>, how: &How) -> Result<FarMover> {
    let asked = &how.ssh;
    if port.is_some() && asked.port.is_some() && port != asked.port {
        let cause = "--port and the port in ssh:// differ";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    let wishes = SshWishes {
        ssh: Ssh::new(&asked.rsh, host, port.or(asked.port))?.only(how.family),
        program: FarProgram::from_command(&asked.far_path)?,
        bootstrap: asked.bootstrap,
        static_programs: asked.static_programs.clone(),
        ports: asked.far_ports,
        near_ports: asked.near_ports,
        via_ssh: asked.via_ssh,
        patience: how.patience,
        stall_timeout: how.stall_timeout,
        priority: asked.priority,
    };
    let identity = match &how.state {
        Some(state) => identity::own(state)?,
        None => Identity::generate("thalweg by ssh")?,
    };
    by_ssh::reach(wishes, &identity, how.events.clone())
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
