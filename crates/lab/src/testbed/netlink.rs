//! Netfilter's netlink messages, as few as the wire needs: a rule that queues what is forwarded, the queues'
//! settings, packets, verdicts. Layouts: `linux/netlink.h`, `linux/netfilter/nfnetlink.h`, `nf_tables.h`,
//! `nfnetlink_queue.h` of the kernel. Attribute headers are in the machine's byte order, numbers in netfilter's
//! attributes in the network's.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

pub const NLMSG_ERROR: u16 = 2;
pub const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const NLA_F_NESTED: u16 = 0x8000;
pub const NLA_TYPE_MASK: u16 = 0x3fff;

const MESSAGE_HEADER_BYTES: usize = 20;
pub const ATTRIBUTE_HEADER_BYTES: usize = 4;

const NFNL_MSG_BATCH_BEGIN: u16 = 16;
const NFNL_MSG_BATCH_END: u16 = 17;
const SUBSYSTEM_NFTABLES: u16 = 10;
const SUBSYSTEM_QUEUE: u16 = 3;

const QUEUE_PACKET: u16 = SUBSYSTEM_QUEUE << 8;
const QUEUE_VERDICT: u16 = SUBSYSTEM_QUEUE << 8 | 1;
const QUEUE_CONFIG: u16 = SUBSYSTEM_QUEUE << 8 | 2;

const AF_UNSPEC: u8 = 0;
const FAMILY_IPV4: u8 = 2;

/// What the kernel's answer to a setting may take.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Messages in one buffer.
#[derive(Default)]
pub struct Messages {
    bytes: Vec<u8>,
}

impl Messages {
    /// Adds one; `fill` puts its attributes.
    fn add(&mut self, kind: u16, flags: u16, family: u8, id: u16, fill: impl FnOnce(&mut Self)) {
        let begins = self.bytes.len();
        self.bytes.extend(0u32.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        self.bytes.extend([0; 8]);
        self.bytes.extend([family, 0]);
        self.bytes.extend(id.to_be_bytes());
        fill(self);
        let length = (self.bytes.len() - begins) as u32;
        self.bytes[begins..begins + 4].copy_from_slice(&length.to_ne_bytes());
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.bytes.extend(((value.len() + ATTRIBUTE_HEADER_BYTES) as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn text(&mut self, kind: u16, value: &str) {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes);
    }

    fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let begins = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend((kind | NLA_F_NESTED).to_ne_bytes());
        fill(self);
        let length = (self.bytes.len() - begins) as u16;
        self.bytes[begins..begins + 2].copy_from_slice(&length.to_ne_bytes());
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Bytes of all of them.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What to do with a packet that a queue holds.
    pub fn verdict(&mut self, queue: u16, packet: u32, verdict: Verdict) {
        let (code, mark) = match verdict {
            Verdict::Drop => (0, None),
            Verdict::Accept => (1, None),
            Verdict::Requeue { queue, mark } => (u32::from(queue) << 16 | 3, Some(mark)),
        };
        self.add(QUEUE_VERDICT, 0, AF_UNSPEC, queue, |message| {
            let mut header = [0; 8];
            header[..4].copy_from_slice(&code.to_be_bytes());
            header[4..].copy_from_slice(&packet.to_be_bytes());
            message.attribute(2, &header);
            if let Some(mark) = mark {
                message.number(3, mark);
            }
        });
    }
}

/// What to do with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It ends here.
    Drop,
    /// It goes on.
    Accept,
    /// It goes to another queue, marked.
    Requeue {
        /// That queue.
        queue: u16,
        /// Told with the packet there, and with each segment if it is cut on the way.
        mark: u32,
    },
}

/// A packet that a queue holds, as the kernel tells of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Queued<'a> {
    /// Which queue.
    pub queue: u16,
    /// Its number there.
    pub id: u32,
    /// See [`Verdict::Requeue`]; 0 if none.
    pub mark: u32,
    /// When it came to this machine's network code, on the clock of the day, in microseconds since 1970; `None` unless
    /// somebody has asked the kernel for time stamps.
    pub came_us: Option<u64>,
    /// Bytes of the packet.
    pub bytes: u32,
    /// Its beginning: as much as the queue's settings say.
    pub head: &'a [u8],
}

/// Reads what one receive returned: packets are handed to `packet`; the number of errors told is returned.
///
/// Tolerant: what is cut short or of an unknown kind is passed over.
pub fn read<'a>(mut bytes: &'a [u8], mut packet: impl FnMut(Queued<'a>)) -> usize {
    let mut errors = 0;
    while let Some((message, rest)) = next_message(bytes) {
        match message.kind {
            QUEUE_PACKET => {
                if let Some(queued) = queued(&message) {
                    packet(queued);
                }
            }
            NLMSG_ERROR => errors += usize::from(message.error() != Some(0)),
            _ => {}
        }
        bytes = rest;
    }
    errors
}

/// One message of an answer.
pub struct Message<'a> {
    /// What it is.
    pub kind: u16,
    /// All behind the 16 bytes of the netlink header.
    pub body: &'a [u8],
}

impl Message<'_> {
    /// Of an error: its number, negative; 0 of an acknowledgement.
    pub fn error(&self) -> Option<i32> {
        Some(i32::from_ne_bytes(self.body.get(..4)?.try_into().ok()?))
    }
}

/// The first message, and what is behind it; none if it is not whole.
pub fn next_message(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(16..length)?;
    let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((Message { kind, body }, rest))
}

fn queued<'a>(message: &Message<'a>) -> Option<Queued<'a>> {
    let queue = u16::from_be_bytes(message.body.get(2..4)?.try_into().ok()?);
    let mut attributes = message.body.get(4..)?;
    let (mut id, mut mark, mut came_us, mut bytes, mut head) = (None, 0, None, None, &[][..]);
    let number = |value: &[u8]| value.get(..4).and_then(|v| v.try_into().ok()).map(u32::from_be_bytes);
    while attributes.len() >= ATTRIBUTE_HEADER_BYTES {
        let length = usize::from(u16::from_ne_bytes([attributes[0], attributes[1]]));
        let kind = u16::from_ne_bytes([attributes[2], attributes[3]]) & NLA_TYPE_MASK;
        let value = attributes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        match kind {
            1 => id = number(value),
            3 => mark = number(value)?,
            4 => came_us = microseconds(value),
            10 => head = value,
            13 => bytes = number(value),
            _ => {}
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(Queued { queue, id: id?, mark, came_us, bytes: bytes.unwrap_or(head.len() as u32), head })
}

/// Seconds and microseconds, eight bytes each.
fn microseconds(value: &[u8]) -> Option<u64> {
    let seconds = u64::from_be_bytes(value.get(..8)?.try_into().ok()?);
    let rest = u64::from_be_bytes(value.get(8..16)?.try_into().ok()?);
    seconds.checked_mul(1_000_000)?.checked_add(rest)
}

/// A netlink socket to netfilter, in the network namespace of the thread that opened it.
pub struct Socket(OwnedFd);

impl Socket {
    /// Opens one.
    ///
    /// # Errors
    /// `Unsupported` where the kernel has no nfnetlink.
    pub fn open() -> io::Result<Socket> {
        let flags = SocketFlags::CLOEXEC;
        let protocol = Some(netlink::NETFILTER);
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        rustix::net::bind(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
        Ok(Socket(socket))
    }

    /// Takes over a queue.
    ///
    /// # Errors
    /// `ResourceBusy`: another program has it; `Unsupported`: no `nfnetlink_queue` in this kernel.
    pub fn take_queue(&self, queue: &Queue) -> io::Result<()> {
        let mut messages = Messages::default();
        // NFQNL_CFG_CMD_BIND
        messages.add(QUEUE_CONFIG, NLM_F_ACK, AF_UNSPEC, queue.number, |m| m.attribute(1, &[1, 0, 0, 0]));
        messages.add(QUEUE_CONFIG, NLM_F_ACK, AF_UNSPEC, queue.number, |m| {
            // NFQNL_COPY_PACKET
            let mut parameters = queue.head_bytes.to_be_bytes().to_vec();
            parameters.push(2);
            m.attribute(2, &parameters);
            m.number(3, queue.packets_max);
            // NFQA_CFG_F_GSO, by mask; no fail-open: what the queue cannot take is lost, not let through.
            m.number(4, 1 | 4);
            m.number(5, if queue.keeps_super_packets { 4 } else { 0 });
        });
        self.request(&messages)
    }

    /// Sends without waiting for an answer.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn send(&self, messages: &Messages) -> io::Result<()> {
        rustix::net::send(&self.0, &messages.bytes, SendFlags::empty())?;
        Ok(())
    }

    /// What there is to receive, without waiting.
    ///
    /// # Errors
    /// `WouldBlock`, or `ENOBUFS`: the kernel dropped some.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.0, buffer, RecvFlags::DONTWAIT)?.1)
    }

    /// Sets how much may wait to be received; in a user namespace no more than `net.core.rmem_max`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
        set_socket_recv_buffer_size_force(&self.0, bytes)
            .or_else(|_| set_socket_recv_buffer_size(&self.0, bytes))?;
        Ok(())
    }

    /// Sends, and waits until the kernel has answered every message that asks for it.
    fn request(&self, messages: &Messages) -> io::Result<()> {
        self.send(messages)?;
        let mut awaited = messages.acknowledgements();
        let until = Instant::now() + ANSWER_WAIT;
        let mut buffer = vec![0; 64 << 10];
        let mut refused = None;
        while awaited > 0 && Instant::now() < until {
            let mut wanted = [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN)];
            let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
            rustix::event::poll(&mut wanted, Some(&second))?;
            let length = match self.receive(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            let mut bytes = &buffer[..length];
            while let Some((message, rest)) = next_message(bytes) {
                if message.kind == NLMSG_ERROR {
                    awaited -= 1;
                    let code = message.error().unwrap_or(0);
                    if code != 0 {
                        refused = refused.or(Some(io::Error::from_raw_os_error(-code)));
                        // A batch that was refused gets no more answers.
                        awaited = 0;
                        break;
                    }
                }
                bytes = rest;
            }
        }
        match refused {
            Some(error) => Err(error),
            None if awaited > 0 => Err(io::Error::new(io::ErrorKind::TimedOut, "netfilter does not answer")),
            None => Ok(()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Messages {
    fn acknowledgements(&self) -> usize {
        let mut bytes = &self.bytes[..];
        let mut count = 0;
        while bytes.len() >= MESSAGE_HEADER_BYTES {
            let length = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
            count += usize::from(u16::from_ne_bytes([bytes[6], bytes[7]]) & NLM_F_ACK != 0);
            bytes = bytes.get(length..).unwrap_or_default();
        }
        count
    }
}

/// Queues what is forwarded from devices of one group to devices of another, in both directions. Tries nft's own
/// `queue` expression, then the target of iptables by nft's compatibility layer: kernels have one of both.
///
/// In the network namespace of the calling thread.
///
/// # Errors
/// What the kernel says to the second.
pub fn queue_forwarded(directions: &[Forwarded]) -> io::Result<()> {
    let native = |message: &mut Messages, queue: u16| {
        message.text(1, "queue");
        message.nest(2, |data| {
            data.attribute(1, &queue.to_be_bytes());
            data.attribute(2, &1u16.to_be_bytes());
        });
    };
    let target = |message: &mut Messages, queue: u16| {
        message.text(1, "target");
        message.nest(2, |data| {
            data.text(1, "NFQUEUE");
            data.number(2, 0);
            // struct xt_NFQ_info in the machine's byte order, and padding to its alignment.
            let mut info = [0; 8];
            info[..2].copy_from_slice(&queue.to_ne_bytes());
            data.attribute(3, &info);
        });
    };
    // A socket for each attempt: the kernel answers every message of a batch that it refuses.
    Socket::open()?
        .request(&rules(directions, &native))
        .or_else(|_| Socket::open()?.request(&rules(directions, &target)))
}

/// Packets that go from one group of devices to another.
#[derive(Debug, Clone, Copy)]
pub struct Forwarded {
    /// Group of the device where they come in (`ip link set group`).
    pub from_group: u32,
    /// Group of the device where they go out.
    pub to_group: u32,
    /// The queue that gets them.
    pub queue: u16,
}

/// How a queue is set.
#[derive(Debug, Clone, Copy)]
pub struct Queue {
    /// Its number.
    pub number: u16,
    /// Bytes of each packet that are told, from the IP header on.
    pub head_bytes: u32,
    /// Packets it holds at most.
    pub packets_max: u32,
    /// Whether super-packets come whole; else the kernel cuts them before.
    pub keeps_super_packets: bool,
}

/// A table with one chain in the forward hook, and a rule for each direction.
fn rules(directions: &[Forwarded], queue: &dyn Fn(&mut Messages, u16)) -> Messages {
    const TABLE: &str = "thalweg";
    const CHAIN: &str = "wire";
    const HOOK_FORWARD: u32 = 2;
    let kind = |message: u16| SUBSYSTEM_NFTABLES << 8 | message;
    let mut messages = Messages::default();
    messages.add(NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, SUBSYSTEM_NFTABLES, |_| {});
    let flags = NLM_F_CREATE | NLM_F_ACK;
    messages.add(kind(0), flags, FAMILY_IPV4, 0, |m| m.text(1, TABLE));
    messages.add(kind(3), flags, FAMILY_IPV4, 0, |m| {
        m.text(1, TABLE);
        m.text(3, CHAIN);
        m.nest(4, |hook| {
            hook.number(1, HOOK_FORWARD);
            hook.number(2, 0);
        });
        m.text(7, "filter");
    });
    for direction in directions {
        messages.add(kind(6), flags | NLM_F_APPEND, FAMILY_IPV4, 0, |m| {
            m.text(1, TABLE);
            m.text(2, CHAIN);
            m.nest(4, |list| {
                // NFT_META_IIFGROUP, NFT_META_OIFGROUP
                for (key, group) in [(21, direction.from_group), (22, direction.to_group)] {
                    list.nest(1, |expression| {
                        expression.text(1, "meta");
                        expression.nest(2, |data| {
                            data.number(1, 1);
                            data.number(2, key);
                        });
                    });
                    list.nest(1, |expression| {
                        expression.text(1, "cmp");
                        expression.nest(2, |data| {
                            data.number(1, 1);
                            data.number(2, 0);
                            data.nest(3, |value| value.attribute(1, &group.to_ne_bytes()));
                        });
                    });
                }
                list.nest(1, |expression| queue(expression, direction.queue));
            });
        });
    }
    messages.add(NFNL_MSG_BATCH_END, 0, AF_UNSPEC, SUBSYSTEM_NFTABLES, |_| {});
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_verdict_is_laid_out_as_the_kernel_reads_it() {
        let mut messages = Messages::default();
        messages.verdict(2, 7, Verdict::Requeue { queue: 3, mark: 9 });
        let mut expected = 40u32.to_ne_bytes().to_vec();
        expected.extend(0x301u16.to_ne_bytes());
        expected.extend(1u16.to_ne_bytes());
        expected.extend([0; 8]);
        expected.extend([0, 0, 0, 2]);
        expected.extend(12u16.to_ne_bytes());
        expected.extend(2u16.to_ne_bytes());
        expected.extend([0, 3, 0, 3, 0, 0, 0, 7]);
        expected.extend(8u16.to_ne_bytes());
        expected.extend(3u16.to_ne_bytes());
        expected.extend([0, 0, 0, 9]);
        assert_eq!(messages.bytes, expected);
    }

    #[test]
    fn a_packet_is_read_with_its_queue_number_mark_and_length() {
        let mut messages = Messages::default();
        messages.add(QUEUE_PACKET, 0, FAMILY_IPV4, 2, |m| {
            m.attribute(1, &[0, 0, 0, 7, 8, 0, 2]);
            m.number(3, 9);
            m.attribute(4, &[0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5]);
            m.attribute(10, &[0x45, 0, 0]);
            m.number(13, 64_000);
        });
        let mut seen = Vec::new();
        assert_eq!(read(&messages.bytes, |queued| seen.push(queued)), 0);
        let head = &[0x45, 0, 0][..];
        assert_eq!(
            seen,
            [Queued { queue: 2, id: 7, mark: 9, came_us: Some(2_000_005), bytes: 64_000, head }]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic_and_in_bounds(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            is_packet: bool,
        ) {
            if is_packet && bytes.len() >= 6 {
                let length = bytes.len() as u32;
                bytes[..4].copy_from_slice(&length.to_ne_bytes());
                bytes[4..6].copy_from_slice(&QUEUE_PACKET.to_ne_bytes());
            }
            read(&bytes, |queued| assert!(queued.head.len() <= 200));
        }
    }
}
