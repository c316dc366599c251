//! What the driver of a network card says of it (`ethtool`). Only asks; nothing is set.

use std::io;

use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketType};

use crate::{invalid, uninterrupted};

/// Slots of a card's rings, in packets (000 Table II).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// For packets that arrive.
    pub receive: u32,
    /// For packets that leave.
    pub send: u32,
    /// Most that the card has.
    pub receive_max: u32,
    /// Most that the card has.
    pub send_max: u32,
}

/// What a card or the kernel does for many packets at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// The card checks checksums of what arrives.
    ReceiveChecksum,
    /// The card computes checksums of what leaves.
    SendChecksum,
    /// The card cuts large sends into packets (TSO).
    SegmentationByCard,
    /// The kernel cuts large sends late (GSO).
    SegmentationByKernel,
    /// The kernel joins packets that arrive (GRO).
    Joining,
}

/// Whether a card stops who sends to it when it has no room, and lets itself be stopped (pause frames).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Both ends of the cable agree about it.
    pub negotiated: bool,
    /// It lets itself be stopped.
    pub receive: bool,
    /// It stops others.
    pub send: bool,
}

/// Words of `struct ethtool_ringparam`, the longest answer that is asked for.
const WORDS: usize = 9;

/// `ETHTOOL_GRINGPARAM`.
const GET_RINGS: u32 = 0x10;

/// `ETHTOOL_GPAUSEPARAM`.
const GET_PAUSE: u32 = 0x12;

/// `SIOCETHTOOL`.
const SIOCETHTOOL: Opcode = 0x8946;

impl Offload {
    /// All of them.
    pub const ALL: [Offload; 5] = [
        Offload::ReceiveChecksum,
        Offload::SendChecksum,
        Offload::SegmentationByCard,
        Offload::SegmentationByKernel,
        Offload::Joining,
    ];

    /// As `ethtool -K` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Offload::ReceiveChecksum => "rx",
            Offload::SendChecksum => "tx",
            Offload::SegmentationByCard => "tso",
            Offload::SegmentationByKernel => "gso",
            Offload::Joining => "gro",
        }
    }

    /// `ETHTOOL_GRXCSUM`, `GTXCSUM`, `GTSO`, `GGSO`, `GGRO`.
    fn command(self) -> u32 {
        match self {
            Offload::ReceiveChecksum => 0x14,
            Offload::SendChecksum => 0x16,
            Offload::SegmentationByCard => 0x1e,
            Offload::SegmentationByKernel => 0x23,
            Offload::Joining => 0x2b,
        }
    }
}

/// The rings of a card.
///
/// # Errors
/// `EOPNOTSUPP` if the driver does not say; `ENODEV`.
pub fn rings(device: &str) -> io::Result<Rings> {
    let [_, receive_max, _, _, send_max, receive, _, _, send] = ask(device, GET_RINGS)?;
    Ok(Rings { receive, send, receive_max, send_max })
}

/// What a card does about pause frames.
///
/// # Errors
/// As [`rings`].
pub fn pause(device: &str) -> io::Result<Pause> {
    let [_, negotiated, receive, send, ..] = ask(device, GET_PAUSE)?;
    Ok(Pause { negotiated: negotiated != 0, receive: receive != 0, send: send != 0 })
}

/// Whether a card has an offload on.
///
/// # Errors
/// As [`rings`].
pub fn has_offload(device: &str, offload: Offload) -> io::Result<bool> {
    Ok(ask(device, offload.command())?[1] != 0)
}

/// Whether there is a network card with this name.
///
/// # Errors
/// What the kernel says, if it cannot be asked.
pub fn is_there(name: &str) -> io::Result<bool> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    match rustix::net::netdevice::name_to_index(&socket, name) {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::NODEV | rustix::io::Errno::INVAL) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The network cards of this network namespace with their numbers, the loopback too.
///
/// # Errors
/// What the kernel says, if it cannot be asked.
pub fn all() -> io::Result<Vec<(String, u32)>> {
    // That of `/proc` is of the process that reads it, whoever mounted it; that of `/sys` is of who mounted it.
    let text = std::fs::read("/proc/net/dev")?;
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut cards = Vec::new();
    // Two lines of headings have bars and no colon.
    for (name, _) in String::from_utf8_lossy(&text).lines().filter_map(|line| line.split_once(':')) {
        match rustix::net::netdevice::name_to_index(&socket, name.trim()) {
            Ok(index) => cards.push((name.trim().to_owned(), index)),
            // It went meanwhile.
            Err(rustix::io::Errno::NODEV) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(cards)
}

/// `struct ifreq`, as this call reads it.
#[repr(C)]
struct Ask {
    name: [u8; libc::IFNAMSIZ],
    answer: *mut [u32; WORDS],
    /// The rest of the kernel's union.
    rest: [usize; 2],
}

const _: () = assert!(size_of::<Ask>() >= size_of::<libc::ifreq>());

fn ask(device: &str, command: u32) -> io::Result<[u32; WORDS]> {
    let mut name = [0; libc::IFNAMSIZ];
    if device.len() >= name.len() || device.is_empty() {
        return Err(invalid("name of a network device"));
    }
    name[..device.len()].copy_from_slice(device.as_bytes());
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut answer = [0; WORDS];
    answer[0] = command;
    let mut request = Ask { name, answer: &raw mut answer, rest: [0; 2] };
    uninterrupted(|| {
        // JUSTIFICATION: these questions exist only as an ioctl, and no crate here wraps it.
        // SAFETY: the request has the size and layout of `ifreq` (asserted above); the command is one of those of this
        // file, whose answers take at most `WORDS` words, and `answer` lives through the call.
        unsafe { ioctl(&socket, Updater::<SIOCETHTOOL, Ask>::new(&mut request)) }
    })?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_device_is_an_error() {
        assert!(rings("nosuchdevice0").is_err());
        assert!(rings("").is_err());
        assert!(pause("nosuchdevice0").is_err());
        assert!(rings("a-name-that-is-too-long-for-it").is_err());
    }

    #[test]
    fn a_card_is_known_by_its_name() {
        assert!(is_there("lo").unwrap());
        assert!(!is_there("nosuchdevice0").unwrap());
        assert!(!is_there("a-name-that-is-too-long-for-it").unwrap());
    }

    #[test]
    fn the_loopback_is_among_all_cards() {
        assert!(all().unwrap().contains(&("lo".to_owned(), 1)));
    }

    #[test]
    fn the_loopback_joins_or_says_why_not() {
        match has_offload("lo", Offload::SegmentationByKernel) {
            Ok(is_on) => assert!(is_on),
            // A kernel without the question.
            Err(error) => assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::OPNOTSUPP.raw_os_error())),
        }
    }
}
