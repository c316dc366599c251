//! The addresses of this machine, as `/proc/net` has them: a daemon may be forbidden to ask the kernel (`AF_NETLINK`).

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of interfaces that are up, those of the loopback too, each once: of IPv4 in order, then of IPv6. Of those
/// only what is for use by others: none that counts on one link only, is not confirmed, or is to be given up.
///
/// # Errors
/// If the kernel tells of neither.
pub fn own() -> io::Result<Vec<IpAddr>> {
    let (four, six) = (fs::read_to_string("/proc/net/fib_trie"), fs::read_to_string("/proc/net/if_inet6"));
    match (four, six) {
        (Err(error), Err(_)) => Err(error),
        (four, six) => {
            let four = of_routes(&four.unwrap_or_default()).into_iter().map(IpAddr::V4);
            let six = of_interfaces(&six.unwrap_or_default()).into_iter().map(IpAddr::V6);
            Ok(four.chain(six).collect())
        }
    }
}

/// Whether a socket that listens at the unspecified address of IPv6 hears IPv4 as well, unless it says otherwise.
pub fn ipv6_hears_ipv4() -> bool {
    // Where that cannot be read: as the kernel has it by itself.
    fs::read_to_string("/proc/sys/net/ipv6/bindv6only").map_or(true, |text| text.trim() == "0")
}

/// Whether a socket cannot be had for an address because this machine, or this network namespace, does not have that,
/// or nothing of its kind.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

/// `/proc/net/fib_trie`: an address stands on a line `|-- ADDRESS`, and below it what is routed so: `/32 host LOCAL` if
/// it is ours. A table may be shown twice.
fn of_routes(text: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        }
        if line == "/32 host LOCAL"
            && let Some(address) = last
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}

/// `/proc/net/if_inet6`: address, number of the interface, prefix, scope, flags (all hexadecimal) and name.
fn of_interfaces(text: &str) -> Vec<Ipv6Addr> {
    /// `IPV6_ADDR_LINKLOCAL` of `net/ipv6.h`.
    const ON_ONE_LINK: u8 = 0x20;
    /// Of `linux/if_addr.h`: temporary, failed, deprecated, tentative.
    const NOT_FOR_OTHERS: u8 = 0x01 | 0x08 | 0x20 | 0x40;
    let of_line = |line: &str| {
        let mut fields = line.split_whitespace();
        let address = u128::from_str_radix(fields.next()?, 16).ok()?;
        let scope = u8::from_str_radix(fields.nth(2)?, 16).ok()?;
        let flags = u8::from_str_radix(fields.next()?, 16).ok()?;
        (scope != ON_ONE_LINK && flags & NOT_FOR_OTHERS == 0).then(|| Ipv6Addr::from(address))
    };
    text.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let table = "  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     +-- 127.0.0.0/8 2 0 2\n\
                     \x20       |-- 127.0.0.0\n           /8 host LOCAL\n        |-- 127.0.0.1\n           /32 host LOCAL\n\
                     \x20    +-- 192.0.2.0/24 2 0 2\n        |-- 192.0.2.0\n           /24 link UNICAST\n\
                     \x20       |-- 192.0.2.7\n           /32 host LOCAL\n        |-- 192.0.2.255\n\
                     \x20          /32 link BROADCAST\n";
        let both = format!("Main:\n{table}Local:\n{table}");
        assert_eq!(of_routes(&both), [Ipv4Addr::LOCALHOST, Ipv4Addr::new(192, 0, 2, 7)]);
        let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     20010db8000000000000000000000007 02 40 00 80     eth0\n\
                     20010db8000000000000000000000008 02 40 00 01     eth0\n\
                     20010db8000000000000000000000009 02 40 00 40     eth0\n\
                     fe800000000000000000000000000007 02 40 20 80     eth0\n\
                     nonsense\n";
        let known: Ipv6Addr = "2001:db8::7".parse().unwrap();
        assert_eq!(of_interfaces(table), [Ipv6Addr::LOCALHOST, known]);
    }

    #[test]
    fn this_machine_has_those_that_can_be_listened_at() {
        for address in own().unwrap() {
            std::net::TcpListener::bind((address, 0)).unwrap_or_else(|error| panic!("{address}: {error}"));
        }
    }
}
