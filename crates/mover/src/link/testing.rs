//! What the tests of this folder, and of sessions, share: sockets, identities, connections.

use super::{ClientTrust, Connection, Identity, ServerTrust, client_config, server_config};
use crate::Result;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Far more than anything here takes, for what must not time out.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(super) static SERVER: LazyLock<Identity> = LazyLock::new(|| Identity::generate("server").unwrap());
pub(super) static CLIENT: LazyLock<Identity> = LazyLock::new(|| Identity::generate("client").unwrap());

pub(crate) fn unix_pair() -> (OwnedFd, OwnedFd) {
    let (one, two) = UnixStream::pair().unwrap();
    (one.into(), two.into())
}

pub(super) fn tcp_pair() -> (OwnedFd, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client.into(), server.into())
}

pub(super) fn client_trust() -> ServerTrust {
    ServerTrust::Pinned(SERVER.fingerprint())
}

pub(super) fn server_trust() -> ClientTrust {
    ClientTrust { pinned: [CLIENT.fingerprint()].into_iter().collect(), ..ClientTrust::default() }
}

pub(crate) fn our_client_config() -> Arc<rustls::ClientConfig> {
    client_config(&CLIENT, &client_trust()).unwrap()
}

pub(crate) fn our_server_config() -> Arc<rustls::ServerConfig> {
    server_config(&SERVER, &server_trust()).unwrap()
}

/// Both ends of a handshake over `fds`, client first.
pub(super) fn both_ends(
    fds: (OwnedFd, OwnedFd),
    client: Arc<rustls::ClientConfig>,
    server: Arc<rustls::ServerConfig>,
) -> (Result<Connection>, Result<Connection>) {
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| Connection::accept(fds.1, server, LONG));
        let connected = Connection::connect(fds.0, client, LONG);
        (connected, accepting.join().unwrap())
    })
}

/// Both ends of a good connection, client first.
pub(crate) fn connected(fds: (OwnedFd, OwnedFd)) -> (Connection, Connection) {
    let (client, server) = both_ends(fds, our_client_config(), our_server_config());
    (client.unwrap(), server.unwrap())
}

/// Puts somebody between two ends: what the left writes goes through `alter`, piece by piece, to the right, until the
/// left ends or `alter` says that this was all. What the right writes goes back as it is.
pub(super) fn between(
    mut left: UnixStream,
    mut right: UnixStream,
    mut alter: impl FnMut(Vec<u8>) -> (Vec<u8>, bool) + Send + 'static,
) -> std::thread::JoinHandle<()> {
    let (mut back_from, mut back_to) = (right.try_clone().unwrap(), left.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(std::net::Shutdown::Write);
    });
    std::thread::spawn(move || {
        let mut piece = vec![0; 64 << 10];
        loop {
            let read = left.read(&mut piece).unwrap_or(0);
            let (altered, goes_on) = alter(piece[..read].to_vec());
            if read == 0 || right.write_all(&altered).is_err() || !goes_on {
                break;
            }
        }
        let _ = right.shutdown(std::net::Shutdown::Write);
    })
}
