//! A stream as others see it: to be stopped, paced, and asked how it does.

use crate::link::socket_options::{PathHints, set_stream_options};
use std::fmt;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use thalweg_sys::socket::{self, TcpInfo};
use thalweg_wire::account::StreamAccount;

/// Ends a connection from another thread: whoever waits in it comes back at once, with a cut connection.
#[derive(Clone)]
pub struct StopHandle(Arc<TcpStream>);

/// Fewer segments are not offered: a sender waits with less than one until a timer of a fifth of a second runs out.
const SEGMENTS_OFFERED: u32 = 4;

impl StopHandle {
    pub(in crate::link) fn new(socket: Arc<TcpStream>) -> StopHandle {
        StopHandle(socket)
    }

    /// Shuts the socket down, both ways. Never waits; does nothing the second time.
    pub fn stop(&self) {
        // The only error is that it is not connected any more.
        let _ = socket::shutdown(&*self.0);
    }

    /// Bytes that the peer's kernel acknowledged, and whether more are on their way. `None` where the kernel does not
    /// say. Bytes for which the peer has no room are not on their way.
    pub fn delivered(&self) -> Option<(u64, bool)> {
        let info = socket::tcp_info(&*self.0).ok()?;
        Some((info.bytes_acked, info.unacked_packets > 0))
    }

    /// The kernel's own account. `None` where it has none.
    pub fn info(&self) -> Option<TcpInfo> {
        socket::tcp_info(&*self.0).ok()
    }

    /// Has the kernel send no more than so many bytes a second, packets evenly spaced; `u64::MAX` for no limit.
    pub fn pace(&self, bytes_per_s: u64) {
        // What is no TCP socket goes on as it did.
        let _ = socket::set_pacing_rate(&*self.0, bytes_per_s);
    }

    /// Has the peer send no more than about so many bytes ahead of what is read here; `None`: as the path asks for. By
    /// the size of the buffer: Linux from 6.6 on forgets a clamp as soon as it learns how large what comes is, and
    /// autotuning takes it back.
    pub fn offer_window(&self, bytes: Option<u64>, path: &PathHints) {
        // What is no TCP socket, or an older kernel, goes on as it did.
        match bytes {
            Some(bytes) => {
                // The kernel doubles what it is asked for, and offers between half and all of that at first; then the
                // clamp holds.
                let most = self.most_offered(bytes) as usize;
                if socket::receive_buffer(&*self.0).is_ok_and(|room| room != 2 * most) {
                    let _ = socket::set_receive_buffer(&*self.0, most);
                }
                self.clamp_window(Some(bytes));
            }
            None => {
                let _ = socket::release_buffers(&*self.0);
                self.clamp_window(None);
                self.set_options(path);
            }
        }
    }

    /// Sets the socket's options again, at the round trip that it has.
    pub fn set_options(&self, path: &PathHints) {
        let rtt = self.info().map(|info| info.rtt_min);
        set_stream_options(&*self.0, &PathHints { rtt, ..path.clone() });
    }

    /// Keeps the window that was asked for where the receive buffer could not be fixed at it: what autotuning offers
    /// beyond is taken back, and once the buffer has room for all of it, it stays as it is. Call it a few times a
    /// second.
    pub fn keep_window(&self, bytes: u64) {
        // What is no TCP socket, or an older kernel, goes on as it did.
        let room = socket::receive_buffer(&*self.0).unwrap_or(0);
        if room as u64 >= bytes.saturating_mul(2) {
            let _ = socket::hold_receive_buffer(&*self.0);
        }
        self.clamp_window(Some(bytes));
    }

    fn clamp_window(&self, bytes: Option<u64>) {
        let most = bytes.map_or(u32::MAX, |bytes| self.most_offered(bytes));
        // What is no TCP socket goes on as it did.
        let _ = socket::set_window_clamp(&*self.0, most);
    }

    /// So many bytes, or as few segments as are offered at least.
    fn most_offered(&self, bytes: u64) -> u32 {
        let least = self.info().map_or(0, |info| SEGMENTS_OFFERED * info.mss_bytes);
        u32::try_from(bytes).unwrap_or(u32::MAX).max(least)
    }

    /// What the kernel says about what we send. `None` where it does not say.
    pub fn account(&self, stream: u16) -> Option<StreamAccount> {
        let info = socket::tcp_info(&*self.0).ok()?;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let is_path = !info.delivery_rate_app_limited;
        let delivery = info.delivery_rate_bytes_per_s;
        Some(StreamAccount {
            stream,
            acked_bytes: info.bytes_acked,
            rtt_nanos: nanos(info.rtt),
            rtt_min_nanos: nanos(info.rtt_min),
            cwnd_bytes: u64::from(info.cwnd_packets) * u64::from(info.mss_bytes),
            window_bytes: u64::from(info.send_window_bytes),
            busy_nanos: nanos(info.busy_time),
            rwnd_limited_nanos: nanos(info.rwnd_limited),
            sndbuf_limited_nanos: nanos(info.sndbuf_limited),
            sent_bytes: info.bytes_sent,
            retransmitted_bytes: info.bytes_retrans,
            delivery_bytes_per_s: delivery,
            delivery_bytes_per_s_max: if is_path { delivery } else { 0 },
            congestion: socket::congestion(&*self.0).unwrap_or_default(),
            local: self.0.local_addr().ok().map(|address| address.ip()),
            remote: self.0.peer_addr().ok().map(|address| address.ip()),
            send_buffer_bytes: socket::send_buffer(&*self.0).map_or(0, |bytes| bytes as u64),
            // What only several looks tell.
            overflow_bytes: 0,
            queued_nanos: 0,
            peak_share_bytes_per_s: 0,
            open_share_bytes_per_s: 0,
        })
    }

    /// Bytes that came from the peer so far, parts of frames included. `None` where the kernel does not say.
    pub fn arrived(&self) -> Option<u64> {
        Some(socket::tcp_info(&*self.0).ok()?.bytes_received)
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopHandle")
    }
}
