//! The path MTU to another machine: the largest packet that arrives there when nobody on the way may cut it.
//!
//! 1. [`sizes`] says what is worth a try: what this machine may send, what TCP sends by what both sides told each
//!    other, and sizes that lines commonly have.
//! 2. [`search`] goes down these until one arrives. It decides, and sends nothing by itself.
//! 3. [`probe`] sends: datagrams of UDP to a port where nobody listens, as traceroute(8) does. The far side says so
//!    (ICMP), and by that the packet has arrived. A router that takes no packet of this size says what it takes.
//! 4. [`standing_still`] counts connections of this machine to there whose segments are sent again and again.
//! 5. [`finding`] judges. A *black hole* loses packets that TCP sends, and says nothing. Where nobody answers
//!    datagrams, connections that stand still while a new one can be made are the sign of one.
//!
//! None of it needs root, and the port that a transfer uses gets no byte. Not seen: the way back, which may have
//! another MTU; anything where the far side, or a firewall before it, answers no datagrams. One that refuses them in
//! the far side's name is taken for it.

use super::finding::{Finding, Subject};
use super::measure::{Tried, Way};
use super::roots::{Roots, read};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use thalweg_sys::socket::{self, TcpInfo};

/// Where nobody listens: the first port of traceroute(8).
const PORT: u16 = 33434;

/// Bytes of a packet that no path loses for its size: every one takes 68 (RFC 791).
const SMALL_BYTES: u32 = 68;

/// Bytes of a packet that every line of IPv6 takes (RFC 8200 section 5).
const IPV6_BYTES_MIN: u32 = 1280;

/// What lines and tunnels commonly take (RFC 1191 section 7, and those since): 9000 jumbo frames, 4470 SONET, 1500
/// Ethernet, 1492 PPPoE, 1476 GRE, 1450 VXLAN, 1420 WireGuard, 1280 the least of IPv6, 576 what every host takes.
const PLATEAUS: [u32; 10] = [9000, 4470, 1500, 1492, 1476, 1450, 1420, 1400, IPV6_BYTES_MIN, 576];

/// Packets of each size before it counts as lost: one is lost by chance now and then.
const TRIES: usize = 2;

/// Packets at most, in all: each size twice, and routers that take less and less.
const PACKETS_MAX: usize = 40;

/// An answer is waited for so many round trips, between these: a host may answer late, and takes its time for the
/// first.
const REPLY_RTTS: u32 = 3;
const REPLY_WAIT_MIN: Duration = Duration::from_millis(200);
const REPLY_WAIT_MAX: Duration = Duration::from_secs(2);

/// Hosts limit how often they answer: Linux, once it has answered some, to one a second (`icmp_ratelimit`). So long
/// after an answer silence tells of the packet.
const REST: Duration = Duration::from_millis(1100);

/// All of it takes no longer.
const PROBE_TIME: Duration = Duration::from_secs(20);

/// So often the first segment of a connection that stands still was sent again, at least: the third time is after 1.4 s
/// without an answer, at the earliest.
const STILL_RESENT_MIN: u32 = 3;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    /// The far side answered.
    Arrived,
    /// Somebody on the way, or this machine, takes no more than so many bytes.
    TooLarge(u32),
    /// Nobody said anything in time.
    Silent,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathMtu {
    /// Bytes of the largest packet that arrived; nothing if the far side answers to none.
    pub arrived_bytes: Option<u32>,
    /// Bytes of the smallest packet that was lost without a word while smaller ones arrived.
    pub lost_bytes: Option<u32>,
    /// What the last router that refused a packet takes, in bytes.
    pub told_bytes: Option<u32>,
}

/// Bytes of the largest packet that TCP sends on a connection: what both sides told each other, with the headers.
pub fn tcp_packet_bytes(info: &TcpInfo, peer: &SocketAddr) -> u32 {
    let ip_bytes = if peer.ip().to_canonical().is_ipv4() { 20 } else { 40 };
    let stamp_bytes = if info.has_time_stamps { 12 } else { 0 };
    info.mss_bytes + ip_bytes + 20 + stamp_bytes
}

/// Probes the path to a machine that answers by TCP. `mtu_bytes`: what this machine may send there, as far as it knows;
/// `tcp_packet_bytes`: see [`tcp_packet_bytes`].
///
/// # Errors
/// Why packets could not be sent, or that it took too long, in words.
pub fn probe(peer: SocketAddr, rtt: Duration, mtu_bytes: u32, tcp_packet_bytes: u32) -> Tried<PathMtu> {
    let to = SocketAddr::new(peer.ip().to_canonical(), PORT);
    let to = match (to, peer) {
        // The zone of a link-local address is part of the way.
        (SocketAddr::V6(_), SocketAddr::V6(mut whole)) => {
            whole.set_port(PORT);
            SocketAddr::V6(whole)
        }
        _ => to,
    };
    let wait = (rtt * REPLY_RTTS).clamp(REPLY_WAIT_MIN, REPLY_WAIT_MAX);
    let begun = Instant::now();
    let send = |bytes| match begun.elapsed() < PROBE_TIME {
        true => send(to, bytes, wait).map_err(|error| error.to_string()),
        false => Err(format!("it was not over after {} s", PROBE_TIME.as_secs())),
    };
    search(&sizes(mtu_bytes, tcp_packet_bytes, to.is_ipv6()), send, || std::thread::sleep(REST))
}

/// One packet, by a socket of its own: a late answer to an earlier one is not this one's.
fn send(to: SocketAddr, bytes: u32, wait: Duration) -> io::Result<Reply> {
    let from: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let udp = UdpSocket::bind(from)?;
    socket::set_never_fragmented(&udp)?;
    udp.connect(to)?;
    udp.set_read_timeout(Some(wait))?;
    let header_bytes = if to.is_ipv4() { 28 } else { 48 };
    let payload = vec![0; bytes.saturating_sub(header_bytes) as usize];
    let sent = udp.send(&payload);
    let is_sent = sent.is_ok();
    match sent.and_then(|_| udp.recv(&mut [0; 1])) {
        // Somebody listens there after all.
        Ok(_) => Ok(Reply::Arrived),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Reply::Arrived),
        Err(error) if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) => {
            Ok(Reply::TooLarge(socket::path_mtu(&udp)?))
        }
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(Reply::Silent)
        }
        // A firewall that prohibits datagrams, wherever it stands: that they arrive is not said by it.
        Err(error)
            if is_sent
                && matches!(
                    error.kind(),
                    io::ErrorKind::HostUnreachable
                        | io::ErrorKind::NetworkUnreachable
                        | io::ErrorKind::PermissionDenied
                ) =>
        {
            Ok(Reply::Silent)
        }
        Err(error) => Err(error),
    }
}

/// What is worth a try, the largest first.
fn sizes(mtu_bytes: u32, tcp_packet_bytes: u32, is_ipv6: bool) -> Vec<u32> {
    let least = if is_ipv6 { IPV6_BYTES_MIN } else { SMALL_BYTES };
    let common = PLATEAUS.into_iter().filter(|bytes| *bytes >= least);
    let all = common.chain([tcp_packet_bytes]).filter(|bytes| *bytes < mtu_bytes).chain([mtu_bytes]);
    all.collect::<BTreeSet<u32>>().into_iter().rev().collect()
}

/// Goes down `sizes`, the largest first, until a packet arrives. `send` sends one of so many bytes; `rest` lets the far
/// side answer again.
///
/// # Errors
/// Those of `send`.
fn search(
    sizes: &[u32],
    mut send: impl FnMut(u32) -> Tried<Reply>,
    mut rest: impl FnMut(),
) -> Tried<PathMtu> {
    let mut left = PACKETS_MAX;
    // Whether the far side has answered nothing for so long. Before the first packet nobody knows.
    let mut is_rested = false;
    let mut attempt = |bytes: u32| -> Tried<Reply> {
        for number in 0..TRIES {
            if number > 0 && !is_rested {
                rest();
                is_rested = true;
            }
            left = left.checked_sub(1).ok_or("more packets than it should take were refused")?;
            match send(bytes)? {
                Reply::Silent => {}
                Reply::Arrived => {
                    is_rested = false;
                    return Ok(Reply::Arrived);
                }
                told => return Ok(told),
            }
        }
        Ok(Reply::Silent)
    };
    let is_answered = attempt(SMALL_BYTES)? == Reply::Arrived;
    let mut found = PathMtu::default();
    let mut lost = Vec::new();
    let mut next = sizes.first().copied();
    while let Some(bytes) = next {
        let lower = sizes.iter().copied().find(|size| *size < bytes);
        match attempt(bytes)? {
            Reply::Arrived => {
                found.arrived_bytes = Some(bytes);
                break;
            }
            Reply::TooLarge(mtu_bytes) if mtu_bytes < bytes => {
                found.told_bytes = Some(mtu_bytes);
                next = Some(mtu_bytes);
            }
            // A router that does not say what it takes.
            Reply::TooLarge(_) => next = lower,
            // What nobody answers to tells of no size.
            Reply::Silent if !is_answered => return Ok(found),
            Reply::Silent => {
                lost.push(bytes);
                next = lower;
            }
        }
    }
    // All of them lost, or the far side has had enough of answering.
    if found.arrived_bytes.is_none() {
        match is_answered && attempt(SMALL_BYTES)? == Reply::Arrived {
            true => found.arrived_bytes = Some(SMALL_BYTES),
            false => return Ok(found),
        }
    }
    // A path that loses packets at random may have lost all of one size.
    while let Some(bytes) = lost.pop() {
        match attempt(bytes)? {
            Reply::Arrived => found.arrived_bytes = Some(bytes),
            Reply::TooLarge(mtu_bytes) => {
                found.told_bytes = Some(mtu_bytes);
                break;
            }
            Reply::Silent => {
                found.lost_bytes = Some(bytes);
                break;
            }
        }
    }
    Ok(found)
}

/// Connections of this machine to that address that stand still: a segment of theirs was sent again
/// [`STILL_RESENT_MIN`] times and more, and not acknowledged. None where that cannot be seen.
pub fn standing_still(roots: &Roots, to: IpAddr) -> usize {
    let to = to.to_canonical();
    let of = |file: &str| {
        let text = read(&roots.proc.join("net").join(file)).unwrap_or_default();
        text.lines().filter(|line| is_still(line, to).unwrap_or(false)).count()
    };
    of("tcp") + of("tcp6")
}

/// A row of /proc/net/tcp: number, here, there, state, queues, timer, how often the first segment was sent again.
fn is_still(row: &str, to: IpAddr) -> Option<bool> {
    const ESTABLISHED: &str = "01";
    let words: Vec<&str> = row.split_whitespace().collect();
    let [_, _, there, state, _, _, resent, ..] = words[..] else { return None };
    let resent = u32::from_str_radix(resent, 16).ok()?;
    let is_there = address(there.split_once(':')?.0)?.to_canonical() == to;
    Some(is_there && state == ESTABLISHED && resent >= STILL_RESENT_MIN)
}

/// Words of 32 bits, each as this machine reads its four bytes.
fn address(digits: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(digits.get(at..at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match digits.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            <[u8; 16]>::try_from(words.concat()).ok().map(IpAddr::from)
        }
        _ => None,
    }
}

/// What is to be thought of the path MTU.
pub fn finding(way: &Way) -> Finding {
    let name = format!("path MTU to {}", way.to);
    let told = |bytes: u32, why: String| Finding::told(Subject::Network, name.as_str(), bytes, why);
    let tcp = way.tcp_packet_bytes;
    let found = match &way.path_mtu {
        Ok(found) => found,
        Err(why) => {
            let why = format!("as far as the kernel has found out; what arrives could not be tried: {why}");
            return told(way.mtu_bytes, why);
        }
    };
    let router = match found.told_bytes {
        Some(_) => "; a router on the way takes no more, and says so",
        None => "",
    };
    let Some(arrived) = found.arrived_bytes else {
        let known = found.told_bytes.unwrap_or(way.mtu_bytes);
        if way.standing_still > 0 {
            let why = format!(
                "a black hole, it seems: {} connections to there stand still, their segments sent again {STILL_RESENT_MIN} \
                 times and more, while a new one was made at once. So small packets arrive, and large ones do not; datagrams \
                 that would tell how large are not answered (port {PORT})",
                way.standing_still
            );
            let source = "RFC 2923 section 2.1; RFC 4821";
            return against_a_black_hole(
                told(known, why)
                    .depends(format!("a path that carries the {tcp} bytes that TCP sends"), source),
            );
        }
        let why = format!(
            "as far as the kernel has found out{router}; whether packets of this size arrive is not seen: nothing there \
             answers datagrams (to port {PORT}). No connection to there stands still, as one of a copy behind a black hole \
             would: ask again while one runs"
        );
        return told(known, why);
    };
    let agreed = if tcp < arrived {
        format!("; TCP sends packets of {tcp} bytes at most, as the far side asked (its MSS)")
    } else {
        String::new()
    };
    let Some(lost) = found.lost_bytes else {
        let why = format!(
            "packets of this size, which nobody may cut, arrived: a datagram to port {PORT} was answered{router}{agreed}"
        );
        return told(arrived, why);
    };
    if tcp <= arrived {
        let why = format!(
            "packets of {lost} bytes, which this machine sends, are lost on the way without a word, smaller ones arrive. TCP \
             sends {tcp} bytes at most, as the far side asked (its MSS), so only programs that use datagrams meet it"
        );
        return told(arrived, why);
    }
    let still = match way.standing_still {
        0 => String::new(),
        some => format!("; connections to there that stand still now: {some}"),
    };
    let why = format!(
        "a black hole: packets of {lost} bytes are lost on the way without a word, smaller ones arrive, and TCP sends {tcp}. A \
         copy stands still with its first full segments. Something on the way takes no more and does not say so, or its \
         ICMP is filtered{still}"
    );
    against_a_black_hole(told(arrived, why).wanted(
        format!("{tcp}, or a router that says what it takes"),
        false,
        "RFC 2923 section 2.1; RFC 4821",
    ))
}

fn against_a_black_hole(finding: Finding) -> Finding {
    finding
        .scoped("the way, which is others'; a setting of this machine helps its own TCP alone")
        .remedied(
            "give all that the way leads over the same MTU, or let ICMP pass (type 3 code 4; of IPv6 `packet too big`); \
             until then `sysctl -w net.ipv4.tcp_mtu_probing=1`, by which TCP finds out in some seconds",
            "`sysctl -w net.ipv4.tcp_mtu_probing=0`, if that is what it was",
        )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;
    use std::cell::Cell;
    use std::process::Command;
    use thalweg_sys::namespace::NetworkNamespace;

    /// A path that takes `takes` bytes. `tells`: it says so; `answers`: the far side does.
    fn path(takes: u32, tells: bool, answers: bool) -> impl FnMut(u32) -> Tried<Reply> {
        move |bytes| {
            Ok(match bytes <= takes {
                true if answers => Reply::Arrived,
                true => Reply::Silent,
                false if tells => Reply::TooLarge(takes),
                false => Reply::Silent,
            })
        }
    }

    fn found(arrived: Option<u32>, lost: Option<u32>, told: Option<u32>) -> PathMtu {
        PathMtu { arrived_bytes: arrived, lost_bytes: lost, told_bytes: told }
    }

    #[test]
    fn what_is_tried_begins_with_what_this_machine_sends_and_has_what_tcp_sends() {
        assert_eq!(sizes(1500, 1500, false)[..3], [1500, 1492, 1476]);
        assert_eq!(sizes(9000, 1400, false)[..3], [9000, 4470, 1500]);
        assert!(sizes(9000, 1397, false).contains(&1397));
        assert_eq!(sizes(1500, 1500, true).last(), Some(&1280));
        assert_eq!(sizes(65_535, 65_535, false)[..2], [65_535, 9000]);
    }

    #[test]
    fn the_largest_packet_that_arrives_is_found_and_whether_larger_ones_are_lost_without_a_word() {
        let sizes = sizes(1500, 1500, false);
        let searched = |takes, tells, answers| search(&sizes, path(takes, tells, answers), || {});
        assert_eq!(searched(1500, true, true), Ok(found(Some(1500), None, None)));
        assert_eq!(searched(1400, true, true), Ok(found(Some(1400), None, Some(1400))));
        // Sizes are those that lines have: of 1410 bytes that arrive 1400 are found, and 1420 is the least that does
        // not.
        assert_eq!(searched(1410, false, true), Ok(found(Some(1400), Some(1420), None)));
        assert_eq!(searched(100, false, true), Ok(found(Some(68), Some(576), None)));
    }

    #[test]
    fn where_nobody_answers_nothing_is_called_lost_and_what_a_router_says_counts() {
        let sizes = sizes(1500, 1500, false);
        assert_eq!(search(&sizes, path(1400, false, false), || {}), Ok(found(None, None, None)));
        assert_eq!(search(&sizes, path(1400, true, false), || {}), Ok(found(None, None, Some(1400))));
    }

    /// Hosts limit how often they answer.
    #[test]
    fn a_far_side_that_has_had_enough_of_answering_is_no_black_hole() {
        let mut answers = 1;
        let tired = |_| {
            answers -= 1;
            Ok(if answers >= 0 { Reply::Arrived } else { Reply::Silent })
        };
        assert_eq!(search(&sizes(1500, 1500, false), tired, || {}), Ok(found(None, None, None)));
    }

    /// As Linux does to one that it has answered before: each rest is one more answer.
    #[test]
    fn a_far_side_that_answers_now_and_then_is_waited_for_and_its_path_is_no_black_hole() {
        let answers = Cell::new(1);
        let limited = |bytes: u32| match bytes <= 1500 && answers.get() > 0 {
            true => {
                answers.set(answers.get() - 1);
                Ok(Reply::Arrived)
            }
            false => Ok(Reply::Silent),
        };
        let rest = || answers.set(answers.get() + 1);
        assert_eq!(search(&sizes(1500, 1500, false), limited, rest), Ok(found(Some(1500), None, None)));
        // It has none left when it is asked first, and what it does not answer to is lost all the same.
        answers.set(0);
        let expected = found(Some(1500), Some(4470), None);
        assert_eq!(search(&sizes(9000, 9000, false), limited, rest), Ok(expected));
    }

    #[test]
    fn one_size_that_is_lost_by_chance_as_often_as_it_is_sent_is_no_black_hole() {
        let mut lost = 0;
        let unlucky = |bytes: u32| match bytes == 1500 && lost < TRIES {
            true => {
                lost += 1;
                Ok(Reply::Silent)
            }
            false => Ok(Reply::Arrived),
        };
        assert_eq!(search(&sizes(1500, 1500, false), unlucky, || {}), Ok(found(Some(1500), None, None)));
    }

    #[test]
    fn one_packet_that_is_lost_by_chance_is_sent_again() {
        let mut sent = 0;
        let every_other = |_| {
            sent += 1;
            Ok(if sent % 2 == 0 { Reply::Arrived } else { Reply::Silent })
        };
        assert_eq!(search(&sizes(1500, 1500, false), every_other, || {}), Ok(found(Some(1500), None, None)));
    }

    /// One that takes less each time, or does not say what it takes, is followed to an end.
    #[test]
    fn routers_that_take_less_and_less_end_the_search() {
        let less =
            |bytes: u32| Ok(if bytes > SMALL_BYTES { Reply::TooLarge(bytes - 1) } else { Reply::Arrived });
        assert!(
            search(&sizes(9000, 9000, false), less, || {}).is_err_and(|why| why.contains("more packets"))
        );
        let odd = |bytes: u32| Ok(if bytes > 1400 { Reply::TooLarge(bytes) } else { Reply::Arrived });
        assert_eq!(search(&sizes(1500, 1500, false), odd, || {}), Ok(found(Some(1400), None, None)));
        let broken = |_| Err::<Reply, String>("Network is unreachable".into());
        let searched = search(&sizes(1500, 1500, false), broken, || {});
        assert_eq!(searched, Err("Network is unreachable".into()));
    }

    fn judged(tcp_packet_bytes: u32, path_mtu: Tried<PathMtu>) -> Finding {
        finding(&Way {
            to: "far:443".into(),
            rtt: Duration::from_millis(74),
            mtu_bytes: 9000,
            tcp_packet_bytes,
            path_mtu,
            standing_still: 0,
        })
    }

    #[test]
    fn only_what_tcp_sends_and_the_path_loses_is_a_black_hole() {
        let hole = judged(9000, Ok(found(Some(1500), Some(4470), None)));
        assert_eq!((hole.verdict, hole.current.as_deref()), (Verdict::Change, Some("1500")));
        assert!(hole.why.starts_with("a black hole: packets of 4470 bytes"), "{}", hole.why);
        let remedy = hole.remedy.expect("a remedy");
        assert!(!remedy.by_apply && remedy.apply.contains("tcp_mtu_probing=1"), "{remedy:?}");
        assert!(hole.scope.is_some());
        let told = |found: Finding, bytes: &str, words: &str| {
            assert_eq!((found.verdict, found.current.as_deref()), (Verdict::Told, Some(bytes)), "{found:?}");
            assert!(found.why.contains(words), "{}", found.why);
        };
        let lost = judged(1500, Ok(found(Some(1500), Some(4470), None)));
        told(lost, "1500", "only programs that use datagrams");
        told(judged(9000, Ok(found(Some(9000), None, None))), "9000", "arrived");
        told(
            judged(1500, Ok(found(Some(9000), None, None))),
            "9000",
            "TCP sends packets of 1500 bytes at most",
        );
        told(
            judged(9000, Ok(found(Some(1400), None, Some(1400)))),
            "1400",
            "a router on the way takes no more",
        );
        told(judged(9000, Ok(PathMtu::default())), "9000", "is not seen: nothing there answers");
        told(judged(9000, Ok(found(None, None, Some(1400)))), "1400", "a router on the way takes no more");
        told(judged(9000, Err("it may not".into())), "9000", "could not be tried: it may not");
    }

    /// As on a machine that reads the first byte of a number first, which all are that tests run on.
    #[test]
    #[cfg(target_endian = "little")]
    fn connections_that_stand_still_are_the_sign_of_a_black_hole_where_nobody_answers_datagrams() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        std::fs::create_dir_all(scratch.path().join("proc/net")).expect("make directories");
        let put = |file: &str, rows: &[&str]| {
            let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid";
            let text = format!("{head}\n{}\n", rows.join("\n"));
            std::fs::write(scratch.path().join("proc/net").join(file), text).expect("write");
        };
        let rest = "000186A0:00000000 01:00000014";
        let row = |there: &str, state: &str, resent: &str| {
            format!("   0: 0100A8C0:D431 {there}:2127 {state} {rest} {resent}     0        0 20135 2 ...")
        };
        // 192.0.2.7, which stands still, resends for the first time, listens; and another address.
        put(
            "tcp",
            &[
                &row("070200C0", "01", "00000004"),
                &row("070200C0", "01", "00000001"),
                &row("070200C0", "0A", "00000004"),
                &row("080200C0", "01", "00000004"),
            ],
        );
        // The same as a socket of IPv6 has it, and 2001:db8::7.
        put(
            "tcp6",
            &[
                &row("0000000000000000FFFF0000070200C0", "01", "0000000F"),
                &row("B80D0120000000000000000007000000", "01", "00000003"),
                "odd",
            ],
        );
        let roots = Roots::below(scratch.path());
        let still = |to: &str| standing_still(&roots, to.parse().expect("an address"));
        assert_eq!([still("192.0.2.7"), still("::ffff:192.0.2.7"), still("2001:db8::7")], [2, 2, 1]);
        assert_eq!(still("192.0.2.9"), 0);
        assert_eq!(
            standing_still(&Roots::below(&scratch.path().join("none")), Ipv4Addr::LOCALHOST.into()),
            0
        );

        let judged = |standing_still, path_mtu| {
            let rtt = Duration::from_millis(74);
            let (to, mtu_bytes) = ("far:443".to_owned(), 1500);
            finding(&Way {
                to,
                rtt,
                mtu_bytes,
                tcp_packet_bytes: 1500,
                path_mtu: Ok(path_mtu),
                standing_still,
            })
        };
        let seems = judged(2, PathMtu::default());
        assert_eq!((seems.verdict, seems.current.as_deref()), (Verdict::Depends, Some("1500")));
        assert!(seems.why.starts_with("a black hole, it seems: 2 connections"), "{}", seems.why);
        assert!(seems.remedy.is_some() && seems.scope.is_some());
        let hole = judged(2, found(Some(1400), Some(1420), None));
        assert!(hole.why.ends_with("that stand still now: 2"), "{}", hole.why);
        assert_eq!(
            judged(2, found(Some(1500), None, None)).verdict,
            Verdict::Told,
            "they stand for another reason"
        );
    }

    #[test]
    fn packets_of_tcp_have_the_headers_of_their_internet() {
        let info = |has_time_stamps| TcpInfo { mss_bytes: 1440, has_time_stamps, ..TcpInfo::default() };
        let bytes = |has_time_stamps, peer: &str| {
            tcp_packet_bytes(&info(has_time_stamps), &peer.parse().expect("an address"))
        };
        assert_eq!(bytes(true, "192.0.2.1:1"), 1492);
        assert_eq!(bytes(false, "192.0.2.1:1"), 1480);
        assert_eq!(bytes(false, "[2001:db8::1]:1"), 1500);
        assert_eq!(bytes(false, "[::ffff:192.0.2.1]:1"), 1480, "it travels as IPv4");
    }

    /// A host, a router and a host, in namespaces that end with the test: what the kernels really answer.
    #[test]
    fn what_a_router_says_and_what_a_path_loses_is_seen_by_datagrams() {
        if thalweg_sys::user::effective_uid() != 0 {
            println!("skipped: network namespaces need root");
            return;
        }
        let [near, router, far] = [(); 3].map(|()| NetworkNamespace::new().expect("a network namespace"));
        let at = |space: &NetworkNamespace| format!("/proc/{}/fd/{}", std::process::id(), space.number());
        let links = [("near0", &near), ("far0", &far)]
            .map(|(name, host)| format!("link add {name} type veth peer name eth0 netns {}\n", at(host)));
        let all = [
            (
                &router,
                links.concat()
                    + "addr add 10.9.1.1/24 dev near0\naddr add 10.9.2.1/24 dev far0\nlink set near0 up\nlink set far0 up",
            ),
            (
                &near,
                "addr add 10.9.1.2/24 dev eth0\nlink set eth0 up\nroute add default via 10.9.1.1".to_owned(),
            ),
            (
                &far,
                "addr add 10.9.2.2/24 dev eth0\nlink set eth0 up\nroute add default via 10.9.2.1".to_owned(),
            ),
        ];
        let ip = |space: &NetworkNamespace, lines: &str| -> io::Result<bool> {
            space.inside(|| {
                for line in lines.lines() {
                    if !Command::new("ip").args(line.split(' ')).status()?.success() {
                        return Ok(false);
                    }
                }
                Ok(true)
            })
        };
        let made: io::Result<Vec<bool>> = all.iter().map(|(space, lines)| ip(space, lines)).collect();
        let forwards = router.inside(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"));
        if !made.as_ref().is_ok_and(|made| made.iter().all(|done| *done)) || forwards.is_err() {
            println!("skipped: no devices here: {made:?} {forwards:?}");
            return;
        }
        let to: SocketAddr = (Ipv4Addr::new(10, 9, 2, 2), 9).into();
        let probed = || {
            let probed = near.inside(|| Ok(probe(to, Duration::from_millis(1), 1500, 1500)));
            probed.expect("a thread in the host").expect("packets")
        };
        assert_eq!(probed(), found(Some(1500), None, None));
        // What a firewall says, wherever it stands, is no answer of the far side.
        assert!(ip(&router, "route add prohibit 10.9.2.2").expect("ip"));
        assert_eq!(probed(), found(None, None, None));
        assert!(ip(&router, "route del prohibit 10.9.2.2").expect("ip"));
        // What comes to a device that takes less is lost without a word, as at a switch.
        assert!(ip(&router, "link set near0 mtu 1400").expect("ip"));
        assert_eq!(probed(), found(Some(1400), Some(1420), None));
        assert!(ip(&router, "link set near0 mtu 1500\nlink set far0 mtu 1300").expect("ip"));
        assert_eq!(probed(), found(Some(1300), None, Some(1300)));
        // The kernel remembers it, and refuses by itself.
        assert_eq!(probed(), found(Some(1300), None, Some(1300)));
    }
}
