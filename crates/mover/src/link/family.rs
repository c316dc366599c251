//! Which addresses are dialled, where only those of one family are.

use std::fmt;
use std::net::IpAddr;

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Four,
    /// IPv6.
    Six,
}

impl Family {
    /// Whether an address is of it.
    pub fn has(self, address: &IpAddr) -> bool {
        address.is_ipv4() == (self == Family::Four)
    }

    /// The option that asks for it: ours, and ssh's.
    pub fn option(self) -> &'static str {
        match self {
            Family::Four => "-4",
            Family::Six => "-6",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Four => "IPv4",
            Family::Six => "IPv6",
        })
    }
}
