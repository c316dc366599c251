//! What a stream's socket is told about its path. The measurements behind its rules: docs/measurements.md, sockets near
//! and windows far.
//!
//! All of it is advice: what the kernel or the kind of socket refuses is left as it was, and the stream works.

use crate::model::loss::CongestionControl;
use crate::plan::NEAR_RTT;
use std::os::fd::AsFd;
use std::time::Duration;
use thalweg_sys::socket::{self, BufferLimits};
use thalweg_wire::hello::System;

/// A stream that carries nothing for so long shows that it is there: some firewalls forget a connection after five
/// minutes of silence. A peer that does not answer is asked nine times, as often as the kernel's usual.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// What is known or wanted of a path. Everything may be unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathHints {
    /// Round-trip time, the smallest seen.
    pub rtt: Option<Duration>,
    /// Congestion control that was asked for by name.
    pub congestion: Option<String>,
    /// Congestion control that a connection to there has if nobody chooses one: gone back to where another was chosen
    /// before.
    pub usual_congestion: Option<String>,
    /// Largest frame on the stream, in bytes; 0 if unknown.
    pub frame_bytes: usize,
    /// Window that was asked for: bytes under way on this stream.
    pub window_bytes: Option<u64>,
    /// Bytes that this stream shall have room for, as planned: its share of the bandwidth-delay product.
    pub share_bytes: Option<u64>,
    /// Mark of its packets (DSCP, 0..=63).
    pub dscp: Option<u8>,
    /// Rate at which the kernel spaces its packets, in bytes a second.
    pub pacing_bytes_per_s: Option<u64>,
}

/// What this machine lets a stream have, for the peer who plans.
pub fn own_system() -> System {
    let limits = socket::buffer_limits().ok();
    let kib = |bytes: fn(&BufferLimits) -> u64| {
        limits.as_ref().map_or(0, |limits| u32::try_from(bytes(limits) >> 10).unwrap_or(u32::MAX))
    };
    System {
        rmem_max_kib: kib(|limits| limits.rmem_max),
        wmem_max_kib: kib(|limits| limits.wmem_max),
        tcp_rmem_max_kib: kib(|limits| limits.tcp_rmem[2]),
        tcp_wmem_max_kib: kib(|limits| limits.tcp_wmem[2]),
        cores: u16::try_from(thalweg_sys::machine::cores()).unwrap_or(u16::MAX),
    }
}

/// Marks the packets of a connection, control connections too. A kind of socket that has no mark is left alone.
pub fn mark(fd: impl AsFd, dscp: Option<u8>) {
    if let Some(dscp) = dscp {
        let _ = socket::set_dscp(fd, dscp);
    }
}

/// Sets the socket options of a data stream, for sending and receiving alike; may be called again when more is known.
///
/// - No delay: each frame is one send, so there is nothing to gather.
/// - Kept alive: what stands on the way, a NAT or a firewall, forgets a connection on which nothing is said for some
///   minutes.
/// - Little waits unsent in the socket: half the CPU of an unbounded one on a fast path, and a frame that was decided
///   later arrives sooner.
/// - Near (round trip below [`NEAR_RTT`]): the window is clamped, and the congestion control is cubic, or reno where
///   cubic is not permitted. Pacing costs 46 % more CPU there and gains nothing. Farther away both are left to the
///   system: a stream for which a transfer before chose another congestion control goes back to the usual one.
/// - The send buffer is fixed, which ends the kernel's own tuning of it, only when the path needs more than that tuning
///   reaches and the limit for us is higher. So is the receive buffer; with the limits of nearly every system that
///   never happens.
/// - A window that was asked for is kept by a clamp and a receive buffer that is fixed at it; where the limit for us is
///   lower than that, the buffer grows by itself and is held there ([`super::StopHandle::keep_window`]).
/// - Spacing of packets is for a rate that was asked for: the kernel then needs no `fq` queue to keep it.
pub fn set_stream_options(fd: impl AsFd, path: &PathHints) {
    let decided = decide(path, socket::buffer_limits().ok().as_ref());
    let fd = fd.as_fd();
    // Refusals (not TCP, not permitted, an older kernel) leave the system's choice.
    let _ = socket::set_no_delay(fd, true);
    let _ = socket::set_keepalive(fd, KEEPALIVE_IDLE);
    let _ = socket::set_not_sent_low_water(fd, decided.not_sent_bytes);
    if let Some(bytes) = decided.window_clamp_bytes {
        let _ = socket::set_window_clamp(fd, bytes);
    }
    if let Some(bytes) = decided.send_buffer_bytes {
        let _ = socket::set_send_buffer(fd, bytes);
    }
    if let Some(bytes) = decided.receive_buffer_bytes {
        let _ = socket::set_receive_buffer(fd, bytes);
    }
    mark(fd, path.dscp);
    if let Some(rate) = path.pacing_bytes_per_s {
        let _ = socket::set_pacing_rate(fd, rate);
    }
    for name in &decided.congestion {
        if socket::set_congestion(fd, name).is_ok() {
            break;
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Decided {
    not_sent_bytes: u32,
    window_clamp_bytes: Option<u32>,
    send_buffer_bytes: Option<usize>,
    receive_buffer_bytes: Option<usize>,
    /// The first that the kernel takes.
    congestion: Vec<String>,
}

fn decide(path: &PathHints, limits: Option<&BufferLimits>) -> Decided {
    let frame_bytes = u32::try_from(path.frame_bytes).unwrap_or(u32::MAX);
    let is_near = path.rtt.is_some_and(|rtt| rtt < NEAR_RTT);
    let needed_bytes = path.window_bytes.or(path.share_bytes);
    let fixed = |gains: fn(u64, &BufferLimits) -> Option<usize>| gains(needed_bytes?, limits?);
    let window_clamp_bytes = match path.window_bytes {
        Some(bytes) => Some(u32::try_from(bytes).unwrap_or(u32::MAX)),
        None => is_near.then(|| frame_bytes.saturating_mul(2).max(512 << 10)),
    };
    let mut congestion = match &path.congestion {
        Some(name) => vec![name.clone()],
        None if is_near => Vec::from(NEAR_CONGESTION.map(|control| control.name().to_owned())),
        None => Vec::new(),
    };
    congestion.extend(path.usual_congestion.clone());
    Decided {
        not_sent_bytes: frame_bytes.max(256 << 10),
        window_clamp_bytes,
        send_buffer_bytes: fixed(|needed, limits| fix_buffer(needed, limits.tcp_wmem[2], limits.wmem_max)),
        // A clamp alone is taken back by the autotuning of a buffer that it makes larger.
        receive_buffer_bytes: match path
            .window_bytes
            .filter(|bytes| !is_near || *bytes >= NEAR_BUFFER_MIN)
            .and_then(|bytes| fits_receive_buffer(bytes, limits?))
        {
            Some(asked) => Some(asked),
            None => fixed(|needed, limits| fix_buffer(needed, limits.tcp_rmem[2], limits.rmem_max)),
        },
        congestion,
    }
}

/// A few segments as a near path may have them: the loopback's are of 64 KiB. A smaller window is held by its clamp
/// alone, which knows the segment.
const NEAR_BUFFER_MIN: u64 = 256 << 10;

/// What is asked for on near paths, the first before the second.
const NEAR_CONGESTION: [CongestionControl; 2] = [CongestionControl::Cubic, CongestionControl::Reno];

/// What to ask for so that a window of so many bytes is all that there is room for; `None` if it cannot be asked for.
fn fits_receive_buffer(window_bytes: u64, limits: &BufferLimits) -> Option<usize> {
    usize::try_from(window_bytes).ok().filter(|_| window_bytes <= limits.rmem_max)
}

/// What to ask for so that `needed_bytes` can be under way, if asking gains anything over a tuning that reaches
/// `tuned_max`. The kernel takes at most `asked_max`, doubles what is asked for and reckons with half of its buffer
/// being bookkeeping.
fn fix_buffer(needed_bytes: u64, tuned_max: u64, asked_max: u64) -> Option<usize> {
    let asked = needed_bytes.min(asked_max);
    let gains = needed_bytes > tuned_max / 2 && asked.saturating_mul(2) > tuned_max;
    if gains { usize::try_from(asked).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    const LIMITS: BufferLimits = BufferLimits {
        rmem_max: 4 << 20,
        wmem_max: 4 << 20,
        tcp_rmem: [4096, 131_072, 32 << 20],
        tcp_wmem: [4096, 16_384, 4 << 20],
    };

    fn near() -> PathHints {
        PathHints { rtt: Some(Duration::from_micros(80)), frame_bytes: 1 << 20, ..PathHints::default() }
    }

    #[test]
    fn a_near_path_has_small_windows_and_cubic_or_reno() {
        let decided = decide(&near(), Some(&LIMITS));
        assert_eq!(decided.not_sent_bytes, 1 << 20);
        assert_eq!(decided.window_clamp_bytes, Some(2 << 20));
        assert_eq!(decided.congestion, ["cubic", "reno"]);
        assert_eq!(decided.send_buffer_bytes, None);
        let small = decide(&PathHints { frame_bytes: 64 << 10, ..near() }, None);
        assert_eq!((small.not_sent_bytes, small.window_clamp_bytes), (256 << 10, Some(512 << 10)));
    }

    #[test]
    fn a_far_path_is_left_to_the_system_unless_its_window_does_not_fit() {
        // 100 Mbit/s over 100 ms are 1.25 MB: autotuning reaches that.
        let far = PathHints { rtt: Some(Duration::from_millis(100)), share_bytes: Some(1_250_000), ..near() };
        let decided = decide(&far, Some(&LIMITS));
        assert_eq!((decided.window_clamp_bytes, decided.send_buffer_bytes), (None, None));
        assert!(decided.congestion.is_empty());
        // 1 Gbit/s over 100 ms are 12.5 MB: as much as there is.
        let fast = PathHints { share_bytes: Some(12_500_000), ..far.clone() };
        let decided = decide(&fast, Some(&LIMITS));
        // Twice 4 MiB are less than what receive autotuning reaches: fixing that buffer would be a loss.
        assert_eq!((decided.send_buffer_bytes, decided.receive_buffer_bytes), (Some(4 << 20), None));
        let odd = BufferLimits { rmem_max: 1 << 30, tcp_rmem: [4096, 131_072, 6 << 20], ..LIMITS };
        assert_eq!(decide(&fast, Some(&odd)).receive_buffer_bytes, Some(12_500_000));
        // The default of most systems: what may be asked for is less than what autotuning gives.
        let stock = BufferLimits { wmem_max: 212_992, ..LIMITS };
        assert_eq!(decide(&fast, Some(&stock)).send_buffer_bytes, None);
    }

    #[test]
    fn what_was_asked_for_by_name_is_asked_of_the_kernel() {
        let asked = PathHints { congestion: Some("bbr".into()), window_bytes: Some(3 << 20), ..near() };
        let decided = decide(&asked, Some(&LIMITS));
        assert_eq!(decided.congestion, ["bbr"]);
        assert_eq!(
            (decided.window_clamp_bytes, decided.receive_buffer_bytes),
            (Some(3 << 20), Some(3 << 20))
        );
        let stock = BufferLimits { rmem_max: 212_992, ..LIMITS };
        assert_eq!(decide(&asked, Some(&stock)).receive_buffer_bytes, None);
        assert_eq!(decided.send_buffer_bytes, Some(3 << 20));
    }

    /// What one transfer chose is not what the next one of the same streams is sent by.
    #[test]
    fn a_stream_goes_back_to_the_usual_congestion_control_when_nobody_chooses_any_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let usual = socket::congestion(&socket).unwrap();
        let allowed = socket::allowed_congestion().unwrap();
        let far = PathHints {
            rtt: Some(Duration::from_millis(100)),
            usual_congestion: Some(usual.clone()),
            ..PathHints::default()
        };
        for name in allowed {
            set_stream_options(&socket, &PathHints { congestion: Some(name.clone()), ..far.clone() });
            assert_eq!(socket::congestion(&socket).unwrap(), name);
            set_stream_options(&socket, &far);
            assert_eq!(socket::congestion(&socket).unwrap(), usual);
        }
        let refused = PathHints { congestion: Some("nonesuch".into()), ..far.clone() };
        set_stream_options(&socket, &refused);
        assert_eq!(socket::congestion(&socket).unwrap(), usual);
    }

    #[test]
    fn a_tcp_socket_takes_it_and_any_other_is_left_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_stream_options(&socket, &near());
        assert!(socket.nodelay().unwrap());
        assert!(socket2::SockRef::from(&socket).keepalive().unwrap());
        assert!(["cubic", "reno"].contains(&socket::congestion(&socket).unwrap().as_str()));
        let (one, _other) = UnixStream::pair().unwrap();
        set_stream_options(&one, &near());
    }
}
