//! Addresses that data streams are to take, as they are written: of the far side, and addresses and cards of this
//! machine.

use std::net::Ipv6Addr;
use thalweg_mover::run::spread::Local;

/// Reads an address that streams can be dialled at, or `ticket`, which means all that the ticket names. A name that is
/// no address would be looked up for as long as there is patience.
///
/// # Errors
/// What is wanted instead.
pub fn parse_via(text: &str) -> Result<String, String> {
    let is_six = |host: &str| host.split('%').next().is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_odd = |letter: char| letter.is_whitespace() || matches!(letter, ':' | '/' | '@' | '[' | ']');
    let is_name = |host: &str| !host.is_empty() && !host.contains(is_odd);
    let is_address = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, ""))) => is_six(host),
        Some(Some((host, port))) => is_six(host) && port.strip_prefix(':').is_some_and(is_port),
        Some(None) => false,
        None if is_six(text) => true,
        None => match text.split_once(':') {
            Some((host, port)) => is_name(host) && is_port(port),
            None => is_name(text),
        },
    };
    match is_address {
        true => Ok(text.to_owned()),
        false => Err("HOST, HOST:PORT (of IPv6 [ADDRESS]:PORT), or `ticket`".into()),
    }
}

/// Reads an address of this machine, or the name of a network card.
///
/// # Errors
/// What is wanted instead.
pub fn parse_local(text: &str) -> Result<Local, String> {
    match (text.parse(), text.len()) {
        (Ok(address), _) => Ok(Local::Address(address)),
        // IFNAMSIZ, the final NUL not counted.
        (Err(_), 1..=15) => Ok(Local::Interface(text.to_owned())),
        (Err(_), _) => Err("an address of this machine, or the name of a network card".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_streams_is_a_host_with_or_without_a_port() {
        let names = ["ticket", "host", "dtn.example.org:8487", "10.1.0.7", "10.1.0.7:1"];
        for good in names.into_iter().chain(["::1", "[::1]", "[fe80::1%eth0]:9"]) {
            assert_eq!(parse_via(good), Ok(good.to_owned()));
        }
        let ports = [":8487", "host:", "host:0", "host:65536"];
        for odd in ports.into_iter().chain(["", " host", "[::1", "[::1]9", "[host]:1", "h/x"]) {
            assert!(parse_via(odd).is_err_and(|why| why.contains("HOST:PORT")), "{odd}");
        }
    }
}
