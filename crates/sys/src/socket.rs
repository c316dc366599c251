//! Socket options, TCP's own account of a connection, and blocking I/O on descriptors.
//!
//! Every option is a request: the error says that the kernel refused it (not a TCP socket, not permitted, too
//! old), and the caller may go on without. None of them needs root unless it says so.

use std::ffi::{c_int, c_ulong};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{AddressFamily, sockopt};

use crate::{invalid, uninterrupted};

mod account;
mod blocking;

pub mod ktls;

pub use account::{TcpInfo, tcp_info};
pub use blocking::{
    Interest, Readiness, Wake, begin_connect, open_pipe, open_pipe_to_write, poll, receive, receive_exact,
    receive_now, send_all, send_all_vectored, set_timeouts, shutdown, shutdown_write, widen_pipe,
};

/// The user at the other end of a Unix socket at the time when it was connected (`SO_PEERCRED`).
pub fn peer_uid(fd: impl AsFd) -> io::Result<u32> {
    Ok(sockopt::socket_peercred(fd)?.uid.as_raw())
}

/// The number of the network namespace that the calling thread is in (`SO_NETNS_COOKIE`, Linux 5.14).
pub(crate) fn namespace_cookie() -> io::Result<u64> {
    const SO_NETNS_COOKIE: c_int = 71;
    let socket = rustix::net::socket(AddressFamily::UNIX, rustix::net::SocketType::DGRAM, None)?;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // JUSTIFICATION: rustix has no call for this option and no general one.
    // SAFETY: the pointer is to a number of `length` bytes, and both live through the call.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if done == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

/// Sends small pieces at once instead of waiting to fill a packet (`TCP_NODELAY`).
pub fn set_no_delay(fd: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(fd, on)?)
}

/// Has the kernel ask a peer that said nothing for so long whether it is there, and again each time as long
/// (`SO_KEEPALIVE`, `TCP_KEEPIDLE`, `TCP_KEEPINTVL`): what stands on the way sees that the connection is in use. In
/// whole seconds, at least one.
pub fn set_keepalive(fd: impl AsFd, idle: Duration) -> io::Result<()> {
    let fd = fd.as_fd();
    sockopt::set_tcp_keepidle(fd, idle)?;
    sockopt::set_tcp_keepintvl(fd, idle)?;
    Ok(sockopt::set_socket_keepalive(fd, true)?)
}

/// Has a socket of IPv6 hear no IPv4 (`IPV6_V6ONLY`): before it is bound.
pub fn set_ipv6_only(fd: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_ipv6_v6only(fd, true)?)
}

/// Chooses the congestion control of this connection, at any time (`TCP_CONGESTION`).
///
/// Without `CAP_NET_ADMIN` only those of [`allowed_congestion`] (`EPERM`); `ENOENT` if the kernel does not
/// have it.
pub fn set_congestion(fd: impl AsFd, name: &str) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(fd, name)?)
}

/// The congestion control of this connection.
pub fn congestion(fd: impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(fd)?)
}

/// Congestion controls that anyone may choose in this network namespace.
pub fn allowed_congestion() -> io::Result<Vec<String>> {
    words("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
}

/// Congestion controls that the kernel has loaded.
pub fn available_congestion() -> io::Result<Vec<String>> {
    words("/proc/sys/net/ipv4/tcp_available_congestion_control")
}

/// The congestion control that a connection of this network namespace begins with, unless its route names another.
pub fn default_congestion() -> io::Result<String> {
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "no congestion control is named");
    words("/proc/sys/net/ipv4/tcp_congestion_control")?.pop().ok_or_else(odd)
}

/// Whether a connection that rested begins slowly again (`tcp_slow_start_after_idle`), as far as one can see.
pub fn slow_start_after_idle() -> bool {
    words("/proc/sys/net/ipv4/tcp_slow_start_after_idle").map_or(true, |words| words != ["0"])
}

/// Most bytes of a packet on the way of this connection, as far as the kernel has found out (`IP_MTU`).
pub fn path_mtu(fd: impl AsFd) -> io::Result<u32> {
    match sockopt::socket_domain(&fd)? {
        AddressFamily::INET6 => Ok(sockopt::ipv6_mtu(fd)?),
        _ => Ok(sockopt::ip_mtu(fd)?),
    }
}

/// Has what this socket sends arrive in one piece or not at all (`IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`): no router may
/// cut it. A datagram that is larger than [`path_mtu`] is refused with `EMSGSIZE`; where a router says so later, the
/// next call on the connected socket fails so.
///
/// # Errors
/// What the kernel says.
pub fn set_never_fragmented(fd: impl AsFd) -> io::Result<()> {
    match sockopt::socket_domain(&fd)? {
        AddressFamily::INET6 => Ok(sockopt::set_ipv6_mtu_discover(fd, sockopt::Ipv6PathMtuDiscovery::DO)?),
        _ => Ok(sockopt::set_ip_mtu_discover(fd, sockopt::Ipv4PathMtuDiscovery::DO)?),
    }
}

/// Bytes not yet sent above which the socket takes no more (`TCP_NOTSENT_LOWAT`). 0 goes back to the system's
/// default.
pub fn set_not_sent_low_water(fd: impl AsFd, bytes: u32) -> io::Result<()> {
    set_number(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, c_int::try_from(bytes).unwrap_or(c_int::MAX))
}

/// Most bytes of window the receiver offers (`TCP_WINDOW_CLAMP`); the kernel keeps at least half its smallest buffer.
/// Can be raised and lowered while bytes flow. Autotuning, which it leaves on, takes it back as soon as it makes the
/// buffer larger: see [`hold_receive_buffer`].
pub fn set_window_clamp(fd: impl AsFd, bytes: u32) -> io::Result<()> {
    set_number(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, c_int::try_from(bytes).unwrap_or(c_int::MAX))
}

/// Has the kernel note when each packet came (`SO_TIMESTAMP`): on this socket, and as long as there is such a socket on
/// any packet of the machine, for who else can read it.
///
/// # Errors
/// What the kernel says.
pub fn set_time_stamps(fd: impl AsFd) -> io::Result<()> {
    set_number(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMP, 1)
}

/// Fixes the send buffer (`SO_SNDBUF`), and switches its autotuning off. The kernel takes at most
/// [`BufferLimits::wmem_max`], silently, and doubles it: see [`send_buffer`].
pub fn set_send_buffer(fd: impl AsFd, bytes: usize) -> io::Result<()> {
    Ok(sockopt::set_socket_send_buffer_size(fd, bytes)?)
}

/// The send buffer in bytes, as the kernel counts it: twice what was asked for.
pub fn send_buffer(fd: impl AsFd) -> io::Result<usize> {
    Ok(sockopt::socket_send_buffer_size(fd)?)
}

/// Fixes the receive buffer (`SO_RCVBUF`), and switches its autotuning off, which is a loss unless twice
/// [`BufferLimits::rmem_max`] is above the last of [`BufferLimits::tcp_rmem`]. Set it before connecting: the
/// window scale follows it.
pub fn set_receive_buffer(fd: impl AsFd, bytes: usize) -> io::Result<()> {
    Ok(sockopt::set_socket_recv_buffer_size(fd, bytes)?)
}

/// Leaves the receive buffer at the size that it has, and switches its autotuning off (`SO_BUF_LOCK`, Linux 5.16). That
/// of the send buffer is on then, even if [`set_send_buffer`] had switched it off.
///
/// # Errors
/// `ENOPROTOOPT` from an older kernel.
pub fn hold_receive_buffer(fd: impl AsFd) -> io::Result<()> {
    set_number(fd, libc::SOL_SOCKET, SO_BUF_LOCK, SOCK_RCVBUF_LOCK)
}

/// Switches the autotuning of both buffers on again, whatever had switched it off.
///
/// # Errors
/// As [`hold_receive_buffer`].
pub fn release_buffers(fd: impl AsFd) -> io::Result<()> {
    set_number(fd, libc::SOL_SOCKET, SO_BUF_LOCK, 0)
}

/// include/uapi/asm-generic/socket.h and linux/socket.h.
const SO_BUF_LOCK: c_int = 72;
const SOCK_RCVBUF_LOCK: c_int = 2;

/// Like [`set_receive_buffer`] without the limit (`SO_RCVBUFFORCE`). Needs `CAP_NET_ADMIN` (`EPERM`).
pub fn set_receive_buffer_force(fd: impl AsFd, bytes: usize) -> io::Result<()> {
    Ok(sockopt::set_socket_recv_buffer_size_force(fd, bytes)?)
}

/// The receive buffer in bytes, as the kernel counts it: twice what was asked for.
pub fn receive_buffer(fd: impl AsFd) -> io::Result<usize> {
    Ok(sockopt::socket_recv_buffer_size(fd)?)
}

/// Most bytes a second this socket sends (`SO_MAX_PACING_RATE`); `u64::MAX` for no limit. The kernel enforces
/// it.
pub fn set_pacing_rate(fd: impl AsFd, bytes_per_s: u64) -> io::Result<()> {
    let rate = c_ulong::try_from(bytes_per_s).unwrap_or(c_ulong::MAX);
    set_bytes(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate.to_ne_bytes())
}

/// Marks packets with a DSCP (0..=63; `InvalidInput` above), for IPv4 and IPv6. Leaves the bits of ECN alone.
pub fn set_dscp(fd: impl AsFd, dscp: u8) -> io::Result<()> {
    if dscp > 63 {
        return Err(invalid("a DSCP has 6 bits"));
    }
    let class = dscp << 2;
    if sockopt::socket_domain(&fd)? == AddressFamily::INET6 {
        // A connection to a mapped IPv4 address takes its mark from the IPv4 option.
        let _ = sockopt::set_ip_tos(&fd, class);
        return Ok(sockopt::set_ipv6_tclass(&fd, class.into())?);
    }
    Ok(sockopt::set_ip_tos(&fd, class)?)
}

/// Bytes in the send queue that were not sent yet (`SIOCOUTQNSD`).
pub fn queued_unsent(fd: impl AsFd) -> io::Result<u64> {
    queue::<SIOCOUTQNSD>(fd)
}

/// Bytes in the send queue, unsent or sent and not acknowledged (`SIOCOUTQ`).
pub fn queued(fd: impl AsFd) -> io::Result<u64> {
    queue::<SIOCOUTQ>(fd)
}

/// The system's bounds on socket buffers, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLimits {
    /// Most that [`set_receive_buffer`] takes. The kernel doubles it.
    pub rmem_max: u64,
    /// Most that [`set_send_buffer`] takes. The kernel doubles it.
    pub wmem_max: u64,
    /// Smallest, first and largest receive buffer of autotuning.
    pub tcp_rmem: [u64; 3],
    /// Smallest, first and largest send buffer of autotuning.
    pub tcp_wmem: [u64; 3],
}

/// Reads the bounds of this network namespace.
///
/// Where `/proc` hides `rmem_max` and `wmem_max` (older kernels, in a namespace), a socket is asked what it
/// gets.
pub fn buffer_limits() -> io::Result<BufferLimits> {
    Ok(BufferLimits {
        rmem_max: numbers("/proc/sys/net/core/rmem_max")
            .map(|[max]| max)
            .or_else(|_| granted(|fd| set_receive_buffer(fd, ALL), |fd| receive_buffer(fd)))?,
        wmem_max: numbers("/proc/sys/net/core/wmem_max")
            .map(|[max]| max)
            .or_else(|_| granted(|fd| set_send_buffer(fd, ALL), |fd| send_buffer(fd)))?,
        tcp_rmem: numbers("/proc/sys/net/ipv4/tcp_rmem")?,
        tcp_wmem: numbers("/proc/sys/net/ipv4/tcp_wmem")?,
    })
}

fn set_number(fd: impl AsFd, level: c_int, option: c_int, number: c_int) -> io::Result<()> {
    set_bytes(fd, level, option, &number.to_ne_bytes())
}

fn set_bytes(fd: impl AsFd, level: c_int, option: c_int, bytes: &[u8]) -> io::Result<()> {
    // JUSTIFICATION: rustix has no call for these options and no general one.
    // SAFETY: pointer and length describe `bytes`, which live through the call and are only read.
    let done = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            option,
            bytes.as_ptr().cast(),
            bytes.len() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const SIOCOUTQ: Opcode = 0x5411;
const SIOCOUTQNSD: Opcode = 0x894b;

fn queue<const OPCODE: Opcode>(fd: impl AsFd) -> io::Result<u64> {
    // JUSTIFICATION: these exist only as ioctls, and no crate here wraps them.
    // SAFETY: both opcodes write one C int, and `Getter` gives them the place for it.
    let bytes = uninterrupted(|| unsafe { ioctl(fd.as_fd(), Getter::<OPCODE, c_int>::new()) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

fn words(path: &str) -> io::Result<Vec<String>> {
    Ok(std::fs::read_to_string(path)?.split_ascii_whitespace().map(str::to_owned).collect())
}

fn numbers<const N: usize>(path: &str) -> io::Result<[u64; N]> {
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "unexpected content in /proc/sys/net");
    let found = words(path)?.iter().map(|word| word.parse()).collect::<Result<Vec<u64>, _>>();
    found.map_err(|_| odd())?.try_into().map_err(|_| odd())
}

/// More than any limit, and half of what the kernel can count.
const ALL: usize = (c_int::MAX / 2) as usize;

/// Asks a socket for all and looks what was given, which is twice the limit.
fn granted(
    set: impl Fn(&OwnedFd) -> io::Result<()>,
    get: impl Fn(&OwnedFd) -> io::Result<usize>,
) -> io::Result<u64> {
    let socket = rustix::net::socket(AddressFamily::INET, rustix::net::SocketType::STREAM, None)?;
    set(&socket)?;
    Ok(get(&socket)? as u64 / 2)
}
