//! The ends of the path: a host of each side, its sockets, and the small packets that go between the two.

use crate::testbed::registry::{HostRecord, Record};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_mover::failure::{Result, of_io};
use thalweg_sys::namespace::NetworkNamespace;

/// Bytes behind the headers of an echo and of a packet that is counted.
pub(super) const SMALL_BYTES: usize = 32;
/// The same with the headers of IP and UDP.
pub(super) const SMALL_PACKET_BYTES: u64 = SMALL_BYTES as u64 + 28;
/// What one direction's delay may add to a wait before a packet counts as lost.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// A host that takes part.
pub(in crate::testbed) struct End {
    /// Where it is.
    pub namespace: NetworkNamespace,
    /// Its address.
    pub address: Ipv4Addr,
}

impl End {
    pub(super) fn of(record: &Record, name: &str) -> Result<End> {
        let host: &HostRecord = record.host(name)?;
        Ok(End { namespace: record.namespace(host.fd)?, address: host.address })
    }

    pub(super) fn udp(&self) -> Result<UdpSocket> {
        let made = self.namespace.inside(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.set_read_timeout(Some(Duration::from_millis(20)))?;
            // As much as the default if more is not permitted.
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20);
            Ok(socket)
        });
        made.map_err(|error| of_io("open a socket in a host", &error))
    }

    pub(super) fn at(&self, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, port)
    }
}

pub(super) fn port(socket: &UdpSocket) -> Result<u16> {
    Ok(socket.local_addr().map_err(|error| of_io("look at a socket", &error))?.port())
}

/// A thread reads what comes until told that no more will.
pub(super) fn while_reading<T>(
    mut read: impl FnMut() -> io::Result<()> + Send,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // Timeouts are how it notices the end.
                let _ = read();
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}
