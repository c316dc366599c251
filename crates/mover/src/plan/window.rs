//! What systems allow: they bound windows, and a stream carries no more than its window for each round trip
//! ([`crate::model::window`]).

use super::{Path, show, show_rate};
use crate::model::window::whole_bandwidth_delay_product_bytes;
use std::time::Duration;
use thalweg_wire::hello::System;

/// The largest window that the systems of both ends let one stream have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Content bytes under way.
    pub bytes: u64,
    /// The setting that bounds it.
    pub setting: &'static str,
    /// What that setting allows, in bytes.
    pub allowed_bytes: u64,
    /// The side that has this setting: `sender` or `receiver`.
    pub side: &'static str,
    /// Round-trip time that the bound is reckoned with.
    pub rtt: Duration,
}

impl Window {
    /// The narrower of both ends'. `None` if neither is known.
    pub(super) fn of(path: &Path, rtt: Duration) -> Option<Window> {
        let sends = send_window(&path.sender, rtt);
        let receives = receive_window(&path.receiver, rtt);
        sends.into_iter().chain(receives).min_by_key(|window| window.bytes)
    }

    /// What one stream can carry at most, in bits a second.
    pub fn rate_bits_per_s(&self) -> u64 {
        let bits = u128::from(self.bytes) * 8 * 1_000_000_000 / self.rtt.as_nanos().max(1);
        u64::try_from(bits).unwrap_or(u64::MAX)
    }

    /// For the reason of a plan.
    pub(super) fn in_words(&self) -> String {
        format!("{} under way in each ({} of the {})", mebibytes(self.bytes), self.setting, self.side)
    }

    /// What the system keeps from one stream, and how to lift it, and how many streams are used instead, if they are.
    /// `None` where one stream may carry all of `goal_bits_per_s`.
    pub(super) fn advice(&self, goal_bits_per_s: u64, instead: Option<u16>) -> Option<String> {
        let rate = self.rate_bits_per_s();
        if rate >= goal_bits_per_s {
            return None;
        }
        let needed = whole_bandwidth_delay_product_bytes(goal_bits_per_s, self.rtt);
        let wanted = u128::from(needed) * u128::from(self.allowed_bytes) / u128::from(self.bytes.max(1));
        let instead = match instead {
            Some(1) => "; using 1 stream instead".to_owned(),
            Some(streams) => format!("; using {streams} streams instead"),
            None => String::new(),
        };
        Some(format!(
            "{} of the {} allows {}: at {} no stream can pass {}; for {} in one raise it to {wanted} bytes (`thalweg doctor` there \
             tells how to lift it){instead}",
            self.setting,
            self.side,
            mebibytes(self.allowed_bytes),
            show(self.rtt),
            show_rate(rate),
            show_rate(goal_bits_per_s),
        ))
    }
}

/// A buffer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// The sender's.
    Send,
    /// The receiver's.
    Receive,
}

/// The window that a system offers of a receive buffer, in bytes: half (tcp(7), `tcp_adv_win_scale` 1). The rest is for
/// what the kernel keeps beside the bytes.
fn of_receive_buffer(bytes: u64) -> u64 {
    bytes / 2
}

/// The widest window, in bytes, that buffers of so many bytes leave a connection, and the buffer that bounds it: half
/// of the receiver's, all of the sender's (docs/measurements.md, windows far).
pub fn window_of_buffers(receive_bytes: u64, send_bytes: u64) -> (u64, Buffer) {
    match of_receive_buffer(receive_bytes) {
        window if window <= send_bytes => (window, Buffer::Receive),
        _ => (send_bytes, Buffer::Send),
    }
}

/// Autotuning fills the last of tcp_wmem, nearly all of it with content; SO_SNDBUF is doubled by the kernel: 4 MiB
/// of either gave 0.3 and 0.6 Gbit/s at 100 ms (docs/measurements.md, windows far).
fn send_window(system: &System, rtt: Duration) -> Option<Window> {
    let (tuned, asked) = (kib(system.tcp_wmem_max_kib), kib(system.wmem_max_kib));
    let (bytes, setting, allowed_bytes) = match tuned >= asked * 2 {
        true => (tuned, "net.ipv4.tcp_wmem", tuned),
        false => (asked * 2, "net.core.wmem_max", asked),
    };
    (bytes > 0).then_some(Window { bytes, setting, allowed_bytes, side: "sender", rtt })
}

/// What is asked for is doubled by the kernel here too.
fn receive_window(system: &System, rtt: Duration) -> Option<Window> {
    let (tuned, asked) = (kib(system.tcp_rmem_max_kib), kib(system.rmem_max_kib));
    let (bytes, setting, allowed_bytes) = match tuned >= asked * 2 {
        true => (of_receive_buffer(tuned), "net.ipv4.tcp_rmem", tuned),
        false => (of_receive_buffer(asked * 2), "net.core.rmem_max", asked),
    };
    (bytes > 0).then_some(Window { bytes, setting, allowed_bytes, side: "receiver", rtt })
}

fn kib(kib: u32) -> u64 {
    u64::from(kib) << 10
}

fn mebibytes(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if mebibytes >= 10.0 { format!("{mebibytes:.0} MiB") } else { format!("{mebibytes:.1} MiB") }
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, plan};
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// As in docs/measurements.md, windows far.
    const HERE: System = System {
        rmem_max_kib: 4096,
        wmem_max_kib: 4096,
        tcp_rmem_max_kib: 32 << 10,
        tcp_wmem_max_kib: 4096,
        cores: 2,
    };
    /// Debian's defaults.
    const STOCK: System = System { rmem_max_kib: 208, wmem_max_kib: 208, tcp_rmem_max_kib: 6144, ..HERE };

    fn path(sender: System, receiver: System) -> Path {
        Path { rtt: Some(RTT), sender, receiver, ..Path::default() }
    }

    #[test]
    fn the_narrower_end_is_named_with_its_setting() {
        let window = Window::of(&path(HERE, HERE), RTT).unwrap();
        assert_eq!((window.bytes, window.setting, window.side), (8 << 20, "net.core.wmem_max", "sender"));
        assert_eq!(window.rate_bits_per_s(), 671_088_640);
        let window = Window::of(&path(HERE, STOCK), RTT).unwrap();
        assert_eq!((window.bytes, window.setting, window.side), (3 << 20, "net.ipv4.tcp_rmem", "receiver"));
        let advice = window.advice(10_000_000_000, Some(20)).unwrap();
        assert!(advice.contains("at 100.0 ms no stream can pass 251.7 Mbit/s"), "{advice}");
        let how = "250000000 bytes (`thalweg doctor` there tells how to lift it); using 20 streams instead";
        assert!(advice.contains(how), "{advice}");
        assert_eq!(window.advice(200_000_000, Some(1)), None);
        assert_eq!(Window::of(&path(System::default(), System::default()), RTT), None);
    }

    #[test]
    fn what_a_window_keeps_from_a_stream_is_told_for_what_was_asked() {
        let told = |asked: Asked| {
            let plan = plan(&asked, &path(HERE, HERE));
            plan.window_advice(plan.goal_bits_per_s, plan.streams.value)
        };
        let of_itself = told(Asked::default()).unwrap();
        assert!(of_itself.ends_with("using 19 streams instead"), "{of_itself}");
        // Nobody chose these for the window.
        let by_hand = told(Asked { streams: Some(4), ..Asked::default() }).unwrap();
        assert!(by_hand.contains("for 10.00 Gbit/s in one") && !by_hand.contains("instead"), "{by_hand}");
        // One stream carries that.
        assert_eq!(told(Asked { rate_bits_per_s: Some(20_000_000), ..Asked::default() }), None);
        let two = told(Asked { rate_bits_per_s: Some(1_000_000_000), ..Asked::default() }).unwrap();
        assert!(two.contains("for 1.00 Gbit/s in one") && two.ends_with("using 2 streams instead"), "{two}");
        // What was asked for is what bounds a stream, unless the system does before.
        assert_eq!(told(Asked { window_bytes: Some(256 << 10), ..Asked::default() }), None);
        assert!(told(Asked { window_bytes: Some(256 << 20), ..Asked::default() }).is_some());
    }

    /// docs/measurements.md, windows far: 4 MiB of send buffer carried 0.3 Gbit/s at 100 ms.
    #[test]
    fn half_of_a_receive_buffer_is_window_and_all_of_a_send_buffer() {
        const MIB: u64 = 1 << 20;
        assert_eq!(window_of_buffers(6 * MIB, 4 * MIB), (3 * MIB, Buffer::Receive));
        assert_eq!(window_of_buffers(32 * MIB, 4 * MIB), (4 * MIB, Buffer::Send));
        let window = send_window(&System { tcp_wmem_max_kib: 4096, ..System::default() }, RTT).unwrap();
        assert_eq!(window.bytes, 4 * MIB);
        assert!((255_000_000..345_000_000).contains(&window.rate_bits_per_s()), "{window:?}");
    }

    #[test]
    fn streams_follow_the_window_of_the_poorer_end() {
        let streams = |sender, receiver| plan(&Asked::default(), &path(sender, receiver)).streams;
        // docs/measurements.md, windows far: 20 with windows of 8 MiB carried 9.1 Gbit/s.
        assert_eq!(streams(HERE, HERE).value, 19);
        assert_eq!(streams(STOCK, HERE).value, 32);
        let wide = System { tcp_rmem_max_kib: 1 << 20, tcp_wmem_max_kib: 1 << 20, ..HERE };
        assert_eq!(streams(wide, wide).value, 8);
        let why = streams(STOCK, HERE).why;
        assert!(why.contains("4.0 MiB under way in each (net.ipv4.tcp_wmem of the sender)"), "{why}");
    }
}
