//! TCP's own account of a connection (`TCP_INFO`).

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What the kernel knows about a connection. Totals count since it was made. A field that the running kernel
/// is too old for is zero; the Linux that brought it is given where that is after 4.9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time, as this sender sees it.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rtt_var: Duration,
    /// Smallest round trip of late (the kernel's own window, 5 minutes by default); `rtt` before there is
    /// one.
    pub rtt_min: Duration,
    /// Round-trip time as the receiver of bytes sees it; zero before there is one.
    pub receive_rtt: Duration,
    /// Packets sent again, in total.
    pub retransmits_total: u32,
    /// Bytes delivered a second, of the latest sample.
    pub delivery_rate_bytes_per_s: u64,
    /// The latest sample was bounded by the sender having nothing to send, so the path may carry more.
    pub delivery_rate_app_limited: bool,
    /// Time with bytes to send, in total. The next two are parts of it. All three are counted in ticks of the
    /// kernel (1 to 10 ms).
    pub busy_time: Duration,
    /// Time in which the peer's window was the bound.
    pub rwnd_limited: Duration,
    /// Time in which our send buffer was the bound.
    pub sndbuf_limited: Duration,
    /// Congestion window in packets of `mss_bytes`.
    pub cwnd_packets: u32,
    /// Bytes in a full packet that we send.
    pub mss_bytes: u32,
    /// Whether the header of each packet has time stamps (RFC 7323), 12 bytes.
    pub has_time_stamps: bool,
    /// Packets sent and not acknowledged.
    pub unacked_packets: u32,
    /// Of these, packets that the peer says it has behind a gap.
    pub sacked_packets: u32,
    /// Bytes that we sent and the peer acknowledged, in total.
    pub bytes_acked: u64,
    /// Bytes that the peer sent and we acknowledged, in total.
    pub bytes_received: u64,
    /// Bytes sent, again-sent ones too, in total (4.19).
    pub bytes_sent: u64,
    /// Bytes sent again, in total (4.19).
    pub bytes_retrans: u64,
    /// Packets now held to be lost.
    pub lost: u32,
    /// Packets that may arrive out of order before one is held to be lost.
    pub reordering: u32,
    /// Bytes a second at which the kernel spaces packets; `u64::MAX` where it does not.
    pub pacing_rate: u64,
    /// Bytes in the send queue that were not sent.
    pub not_sent_bytes: u32,
    /// Window the peer offers, in bytes (5.4).
    pub send_window_bytes: u32,
    /// Window we offer, in bytes (6.2).
    pub receive_window_bytes: u32,
    /// Bytes the receive side's autotuning reckons with for each round trip.
    pub receive_space_bytes: u32,
}

/// Asks the kernel. The error is `ENOPROTOOPT`, `EOPNOTSUPP` or `ENOTSOCK` where `fd` is not a TCP socket.
pub fn tcp_info(fd: impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = Raw::default();
    let mut length = size_of::<Raw>() as libc::socklen_t;
    // JUSTIFICATION: neither std nor rustix has TCP_INFO.
    // SAFETY: pointer and length describe `raw`; the kernel writes at most `length` bytes, and every pattern
    // of them is a value of its integers. What an older kernel leaves out stays zero.
    let done = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut raw).cast(),
            &raw mut length,
        )
    };
    if done == 0 { Ok(convert(&raw, length as usize)) } else { Err(io::Error::last_os_error()) }
}

/// `struct tcp_info` of `linux/tcp.h`: a prefix that only ever grew.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Raw {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    window_scales: u8,
    bits: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,
}

// Against a slip in the list: where the kernel's header has them.
const _: () = assert!(offset_of!(Raw, rtt) == 68 && offset_of!(Raw, pacing_rate) == 104);
const _: () = assert!(offset_of!(Raw, delivery_rate) == 160 && offset_of!(Raw, bytes_sent) == 200);
const _: () = assert!(offset_of!(Raw, snd_wnd) == 228 && size_of::<Raw>() == 240);

/// A bit field's first bit is the lowest on little-endian machines and the highest on the others.
const APP_LIMITED: u8 = if cfg!(target_endian = "little") { 0x01 } else { 0x80 };

/// `TCPI_OPT_TIMESTAMPS`.
const TIME_STAMPS: u8 = 1;

fn convert(raw: &Raw, length: usize) -> TcpInfo {
    let rtt = Duration::from_micros(raw.rtt.into());
    // Before the first sample the kernel says its largest number.
    let min_known = length >= offset_of!(Raw, min_rtt) + 4 && raw.min_rtt != u32::MAX;
    TcpInfo {
        rtt,
        rtt_var: Duration::from_micros(raw.rttvar.into()),
        rtt_min: if min_known { Duration::from_micros(raw.min_rtt.into()) } else { rtt },
        receive_rtt: Duration::from_micros(raw.rcv_rtt.into()),
        retransmits_total: raw.total_retrans,
        delivery_rate_bytes_per_s: raw.delivery_rate,
        delivery_rate_app_limited: raw.bits & APP_LIMITED != 0,
        busy_time: Duration::from_micros(raw.busy_time),
        rwnd_limited: Duration::from_micros(raw.rwnd_limited),
        sndbuf_limited: Duration::from_micros(raw.sndbuf_limited),
        cwnd_packets: raw.snd_cwnd,
        mss_bytes: raw.snd_mss,
        has_time_stamps: raw.options & TIME_STAMPS != 0,
        unacked_packets: raw.unacked,
        sacked_packets: raw.sacked,
        bytes_acked: raw.bytes_acked,
        bytes_received: raw.bytes_received,
        bytes_sent: raw.bytes_sent,
        bytes_retrans: raw.bytes_retrans,
        lost: raw.lost,
        reordering: raw.reordering,
        pacing_rate: raw.pacing_rate,
        not_sent_bytes: raw.notsent_bytes,
        send_window_bytes: raw.snd_wnd,
        receive_window_bytes: raw.rcv_wnd,
        receive_space_bytes: raw.rcv_space,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernels_shorter_answer_is_no_round_trip_of_zero() {
        let raw = Raw { rtt: 1500, ..Raw::default() };
        assert_eq!(convert(&raw, 104).rtt_min, Duration::from_micros(1500));
        let raw = Raw { rtt: 1500, min_rtt: u32::MAX, ..Raw::default() };
        assert_eq!(convert(&raw, 240).rtt_min, Duration::from_micros(1500));
        let raw = Raw { rtt: 1500, min_rtt: 70, ..Raw::default() };
        assert_eq!(convert(&raw, 240).rtt_min, Duration::from_micros(70));
    }
}
