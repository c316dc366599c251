//! Tells who started the daemon how it is: `sd_notify(3)`, a datagram to the socket that `NOTIFY_SOCKET` names.
//!
//! 1. READY when it listens: `systemctl start` returns then, and what is ordered behind the daemon begins.
//! 2. STOPPING when it was told to end.   3. With both a STATUS, which `systemctl status` shows.
//!
//! Not here: a watchdog, descriptors that outlive a restart, sockets of other families (`vsock:`). Nobody waits for an
//! answer, and a daemon that cannot be heard serves all the same.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Whose name it has in the environment.
const VARIABLE: &str = "NOTIFY_SOCKET";
/// A manager that does not take a datagram for so long is not waited for.
const TELL_TIMEOUT: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Manager {
    /// Who started this process, if it wants to hear of it; one that cannot be reached is logged.
    pub fn of_environment() -> Option<Manager> {
        let name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty())?;
        Manager::at(&name).inspect_err(|error| tracing::warn!(%error, "{VARIABLE}: nobody is told")).ok()
    }

    /// The one at this socket: an absolute path, or `@` and a name of Linux's abstract ones.
    ///
    /// # Errors
    /// `Unsupported` for any other address; what the kernel says.
    pub fn at(name: &OsStr) -> io::Result<Manager> {
        let address = match name.as_bytes() {
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(TELL_TIMEOUT))?;
        Ok(Manager { socket, address })
    }

    /// It listens.
    pub fn ready(&self, status: &str) {
        self.tell("READY=1", status);
    }

    /// It was told to end, and does.
    pub fn stopping(&self, status: &str) {
        self.tell("STOPPING=1", status);
    }

    fn tell(&self, state: &str, status: &str) {
        // One assignment to a line: what is in a status is none.
        let status: String = status.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let told = self.socket.send_to_addr(format!("{state}\nSTATUS={status}").as_bytes(), &self.address);
        if let Err(error) = told {
            tracing::warn!(%error, state, "the service manager was not told");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut buffer = [0; 256];
        let bytes = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..bytes]).into_owned()
    }

    #[test]
    fn a_manager_hears_at_a_path_and_at_an_abstract_name() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let manager = Manager::at(path.as_os_str()).unwrap();
        manager.ready("listening at [::]:1");
        manager.stopping("ending\nREADY=0");
        assert_eq!(heard(&by_path), "READY=1\nSTATUS=listening at [::]:1");
        assert_eq!(heard(&by_path), "STOPPING=1\nSTATUS=ending READY=0");

        // A name that nobody else has: a path below a directory of our own.
        let name = path.display().to_string();
        let abstractly = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Manager::at(OsStr::new(&format!("@{name}"))).unwrap().ready("");
        assert_eq!(heard(&abstractly), "READY=1\nSTATUS=");
    }

    #[test]
    fn a_manager_that_is_gone_or_not_understood_stops_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        Manager::at(scratch.path().join("nobody").as_os_str()).unwrap().ready("");
        assert_eq!(Manager::at(OsStr::new("vsock:2:3")).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert!(Manager::at(OsStr::new("relative")).is_err());
    }
}
