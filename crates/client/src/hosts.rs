//! Several hosts in one place, which see the same file system: `HOST1,HOST2:PATH`, `tw://HOST1,HOST2/EXPORT/PATH`,
//! `ssh://HOST1,HOST2/PATH`, `@NAME1,NAME2/PATH`. Numbers in brackets stand for as many hosts, as in a host list of
//! Slurm: `dtn[1-3,07-08]`. An address in brackets has colons.
//!
//! A port behind the last host is that of all that name none; a user is that of the host behind it alone.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_wire::limits::TRANSFERS_MAX;
use thalweg_wire::path::Escaped;

/// The places that a place is, one at each of its hosts, in order: mostly itself alone.
///
/// # Errors
/// `Usage`: a list that is none, or of more than [`TRANSFERS_MAX`] hosts.
pub(crate) fn each(text: &OsStr) -> Result<Vec<OsString>> {
    let bytes = text.as_bytes();
    let Some((start, end)) = hosts_in(bytes) else { return Ok(vec![text.to_owned()]) };
    let (before, behind) = (&bytes[..start], &bytes[end..]);
    // What is no text is refused where the place is read.
    let Some(hosts) = std::str::from_utf8(&bytes[start..end]).ok().filter(|hosts| is_list(hosts)) else {
        return Ok(vec![text.to_owned()]);
    };
    let has_ports = matches!(before, b"tw://" | b"ssh://");
    let hosts = all(hosts, has_ports).map_err(|cause| {
        Failure::new(FailureKind::Usage, "read place", format!("`{}`: {cause}", Escaped(bytes)))
    })?;
    let place = |host: String| OsString::from_vec([before, host.as_bytes(), behind].concat());
    Ok(hosts.into_iter().map(place).collect())
}

/// Where the hosts of a place stand, if it has any.
fn hosts_in(bytes: &[u8]) -> Option<(usize, usize)> {
    for scheme in [&b"tw://"[..], b"ssh://", b"@"] {
        if let Some(rest) = bytes.strip_prefix(scheme) {
            let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            return Some((scheme.len(), scheme.len() + end));
        }
    }
    let mut is_bracketed = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'[' => is_bracketed = true,
            b']' => is_bracketed = false,
            b'/' => return None,
            b':' if !is_bracketed && !bytes[at..].starts_with(b"://") => return Some((0, at)),
            b':' if !is_bracketed => return None,
            _ => {}
        }
    }
    None
}

fn is_list(hosts: &str) -> bool {
    items(hosts).len() > 1 || numbers_in(hosts).is_some()
}

/// Between the commas that are in no brackets.
fn items(hosts: &str) -> Vec<&str> {
    let mut is_bracketed = false;
    let between = |letter: char| {
        match letter {
            '[' => is_bracketed = true,
            ']' => is_bracketed = false,
            _ => {}
        }
        letter == ',' && !is_bracketed
    };
    hosts.split(between).collect()
}

/// Where the first brackets with numbers stand: an address has colons in them.
fn numbers_in(host: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(open) = host[from..].find('[').map(|at| from + at) {
        let close = open + host[open..].find(']')?;
        let within = &host[open + 1..close];
        if !within.is_empty() && within.bytes().all(|byte| byte.is_ascii_digit() || b",-".contains(&byte)) {
            return Some((open, close));
        }
        from = close;
    }
    None
}

fn all(hosts: &str, has_ports: bool) -> std::result::Result<Vec<String>, String> {
    let mut named = Vec::new();
    for item in items(hosts) {
        if item.is_empty() {
            return Err("a host of the list is missing".to_owned());
        }
        named.extend(of_item(item)?);
        bounded(&named)?;
    }
    let port = named.last().filter(|_| has_ports).and_then(|last| port_of(last)).map(str::to_owned);
    if let Some(port) = port {
        for host in named.iter_mut().filter(|host| port_of(host).is_none()) {
            host.push_str(&format!(":{port}"));
        }
    }
    Ok(named)
}

/// One host, or as many as its brackets say.
fn of_item(item: &str) -> std::result::Result<Vec<String>, String> {
    let (mut named, mut rest) = (vec![String::new()], item);
    while let Some((open, close)) = numbers_in(rest) {
        let numbers = numbers(&rest[open + 1..close])?;
        let with = |name: &String| {
            let before = format!("{name}{}", &rest[..open]);
            numbers.iter().map(move |number| format!("{before}{number}")).collect::<Vec<_>>()
        };
        named = named.iter().flat_map(with).collect();
        bounded(&named)?;
        rest = &rest[close + 1..];
    }
    Ok(named.into_iter().map(|name| name + rest).collect())
}

/// `1-3,07-08`; a number that begins with a zero has its digits kept.
fn numbers(text: &str) -> std::result::Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for piece in text.split(',') {
        let (low, high) = piece.split_once('-').unwrap_or((piece, piece));
        let read = |digits: &str| digits.parse::<u32>().ok().filter(|_| digits.len() <= NUMBER_DIGITS_MAX);
        let (Some(first), Some(last)) = (read(low), read(high)) else {
            return Err(format!("`{piece}` is no range of numbers, as in [1-4,7]"));
        };
        if first > last {
            return Err(format!("the range `{piece}` goes down"));
        }
        let digits = if low.starts_with('0') { low.len() } else { 0 };
        for number in first..=last {
            numbers.push(format!("{number:0digits$}"));
            bounded(&numbers)?;
        }
    }
    Ok(numbers)
}

/// More than any number of hosts has.
const NUMBER_DIGITS_MAX: usize = 9;

fn bounded(named: &[String]) -> std::result::Result<(), String> {
    match named.len() > TRANSFERS_MAX {
        true => Err(format!(
            "at most {TRANSFERS_MAX} hosts share a copy in one command; with --part more do, each by a command of its \
             own"
        )),
        false => Ok(()),
    }
}

/// The port that a host names.
fn port_of(host: &str) -> Option<&str> {
    let (_, port) = host.rsplit_once(':')?;
    (!port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<String> {
        let each = each(OsStr::new(text)).unwrap();
        each.into_iter().map(|place| place.into_string().unwrap()).collect()
    }

    #[test]
    fn a_place_with_several_hosts_is_one_place_at_each_in_order() {
        assert_eq!(places("a,b:/x"), ["a:/x", "b:/x"]);
        assert_eq!(places("me@a,b:x,y"), ["me@a:x,y", "b:x,y"]);
        assert_eq!(places("n[1-3,7]:"), ["n1:", "n2:", "n3:", "n7:"]);
        assert_eq!(places("r[1-2]n[08-10]b:x")[..4], ["r1n08b:x", "r1n09b:x", "r1n10b:x", "r2n08b:x"]);
        assert_eq!(places("tw://a,b/d/x,y"), ["tw://a/d/x,y", "tw://b/d/x,y"]);
        assert_eq!(places("tw://127.0.0.1:1,127.0.0.1:2/d/"), ["tw://127.0.0.1:1/d/", "tw://127.0.0.1:2/d/"]);
        assert_eq!(places("tw://n[1-2]:9/d"), ["tw://n1:9/d", "tw://n2:9/d"]);
        assert_eq!(places("tw://a,b:7,c:9/d"), ["tw://a:9/d", "tw://b:7/d", "tw://c:9/d"]);
        assert_eq!(places("tw://[::1],[fd09::2]:9/d"), ["tw://[::1]:9/d", "tw://[fd09::2]:9/d"]);
        assert_eq!(places("ssh://a,me@b:22/x"), ["ssh://a:22/x", "ssh://me@b:22/x"]);
        assert_eq!(places("[::1],[::2]:x"), ["[::1]:x", "[::2]:x"]);
        assert_eq!(places("@one,two/x"), ["@one/x", "@two/x"]);
        assert_eq!(places("@dtn[1-2]"), ["@dtn1", "@dtn2"]);
        assert_eq!(places("n[1-16]:x").len(), TRANSFERS_MAX);
    }

    #[test]
    fn what_has_one_host_or_none_stays_as_it_is_written() {
        for text in [
            "a:/x,y",
            "a,b",
            "a,b/c:d",
            "./a,b:c",
            "n[1-3]",
            "n[1-3]/x:y",
            "[::1]:x",
            "me@[fd09::1]:x,y",
            "tw://a:9/d,e",
            "tw://[::1]:9/d",
            "s3://a,b/k",
            "gs://a,b/x",
            "data:files=9,size=1MiB",
            "zero:1,5GiB",
            "null:",
            "n[a-c]:x",
            "n[]:x",
            "n[1-3:x",
            "-",
            "",
            ":x",
            "sim:seek=8ms,rate=100MB",
        ] {
            assert_eq!(places(text), [text]);
        }
        let odd = OsStr::from_bytes(b"a\xff,b:x");
        assert_eq!(each(odd).unwrap(), [odd]);
    }

    #[test]
    fn a_list_that_is_none_or_too_long_is_refused_whatever_it_says() {
        for (text, told) in [
            ("a,:x", "a host of the list is missing"),
            (",a:x", "a host of the list is missing"),
            ("tw://a,,b/d", "a host of the list is missing"),
            ("n[3-1]:x", "goes down"),
            ("n[1-]:x", "no range"),
            ("n[1,,2]:x", "no range"),
            ("n[1-2-3]:x", "no range"),
            ("n[1-99999999999]:x", "no range"),
            ("n[1-17]:x", "at most 16 hosts"),
            ("n[0-999999999]:x", "at most 16 hosts"),
            ("n[1-9][1-9][1-9]:x", "at most 16 hosts"),
            ("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q:x", "at most 16 hosts"),
        ] {
            let failure = each(OsStr::new(text)).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Usage, "{text}");
            assert!(failure.cause.contains(told), "{text}: {failure}");
        }
    }
}
