//! How large packets of a device may be made: asked of the kernel over rtnetlink, as `ip -d link show` does
//! (`linux/rtnetlink.h`, `linux/if_link.h`). Only asks; nothing is set.

use crate::testbed::netlink::{
    ATTRIBUTE_HEADER_BYTES, NLA_TYPE_MASK, NLM_F_REQUEST, NLMSG_ERROR, next_message,
};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, netlink};
use std::io;
use std::time::Duration;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_MAX_MTU: u16 = 51;

/// `struct nlmsghdr` and `struct ifinfomsg`.
const QUESTION_BYTES: usize = 16 + IFINFOMSG_BYTES;
const IFINFOMSG_BYTES: usize = 16;

/// How long the kernel may be silent.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// Bytes of the answer: the kernel makes none longer than 32 KiB.
const ANSWER_BYTES: usize = 64 << 10;

/// Bytes that a packet of a device may have at most, in the network namespace of the calling thread.
///
/// # Errors
/// `NotFound` if the kernel does not say (before Linux 4.19); `ENODEV`; what the kernel says; `WouldBlock` if it says
/// nothing in two seconds.
pub fn mtu_max(device: &str) -> io::Result<u32> {
    // No protocol is that of routes and devices.
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_WAIT))?;
    let index = netdevice::name_to_index(&socket, device)?;
    rustix::net::send(&socket, &question(index), SendFlags::empty())?;
    let mut buffer = vec![0; ANSWER_BYTES];
    let length = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?.1;
    read(buffer.get(..length).unwrap_or_default())
}

fn question(index: u32) -> Vec<u8> {
    let mut bytes = (QUESTION_BYTES as u32).to_ne_bytes().to_vec();
    bytes.extend(RTM_GETLINK.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    // Behind a number and a sender that nobody needs, a family, a byte of padding and a type.
    bytes.resize(20, 0);
    bytes.extend(index.to_ne_bytes());
    bytes.resize(QUESTION_BYTES, 0);
    bytes
}

/// Reads the answer. What is cut short is passed over.
fn read(bytes: &[u8]) -> io::Result<u32> {
    let not_told = || io::Error::new(io::ErrorKind::NotFound, "the kernel does not say");
    let (message, _) = next_message(bytes).ok_or_else(not_told)?;
    match message.kind {
        NLMSG_ERROR => Err(io::Error::from_raw_os_error(-message.error().unwrap_or_default())),
        // A device that takes packets of any size says 0.
        RTM_NEWLINK => told(message.body).filter(|most| *most > 0).ok_or_else(not_told),
        _ => Err(not_told()),
    }
}

fn told(body: &[u8]) -> Option<u32> {
    let mut attributes = body.get(IFINFOMSG_BYTES..)?;
    while attributes.len() >= ATTRIBUTE_HEADER_BYTES {
        let length = usize::from(u16::from_ne_bytes([attributes[0], attributes[1]]));
        let kind = u16::from_ne_bytes([attributes[2], attributes[3]]) & NLA_TYPE_MASK;
        let value = attributes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        if kind == IFLA_MAX_MTU {
            return Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?));
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = (16 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(16, 0);
        bytes.extend(body);
        bytes
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn the_most_that_a_device_takes_is_read_among_what_else_is_told_of_it() {
        let mut body = vec![0; IFINFOMSG_BYTES];
        body.extend(attribute(3, b"eth0\0"));
        assert!(read(&answer(RTM_NEWLINK, &body)).is_err());
        body.extend(attribute(IFLA_MAX_MTU, &9702u32.to_ne_bytes()));
        assert_eq!(read(&answer(RTM_NEWLINK, &body)).unwrap(), 9702);
        let refusal = answer(NLMSG_ERROR, &(-1i32).to_ne_bytes());
        assert_eq!(read(&refusal).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn the_kernel_is_asked_of_a_device_and_of_none_it_says_so() {
        // An older kernel does not say; either is an answer.
        let of_loopback = mtu_max("lo").map_err(|error| error.kind());
        assert!(of_loopback.is_ok_and(|most| most >= 1500) || of_loopback == Err(io::ErrorKind::NotFound));
        let none = mtu_max("nosuchdevice0").unwrap_err();
        assert_eq!(none.raw_os_error(), Some(rustix::io::Errno::NODEV.raw_os_error()));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_a_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&answer(RTM_NEWLINK, &body));
        }
    }
}
