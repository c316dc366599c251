//! What the two sides say to each other over ssh before they have a connection: a line each.
//!
//! ```text
//! to the far mover     {"versions":[1,1],"client":"64 digits","ports":[50000,50999],...}\n
//! from the far mover   noise ... THALWEG-MOVER 1 {"port":50123,"fingerprint":"64 digits",...}\n
//! to the far mover     {"port":40000,"token":"32 digits","addresses":[]}\n    dial back, any number of times
//! from a bridge        noise ... THALWEG-BRIDGE up\n     or gone\n    then bytes, both ways
//! ```
//!
//! Both sides ignore keys that they do not know, so that later versions can say more.

use super::START;
use crate::failure::{Failure, FailureKind, Reason, Result};
use crate::link::{Fingerprint, tls};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::net::IpAddr;
use std::time::Duration;
use thalweg_sys::priority::Priority;
use thalweg_wire::hex::{hex, unhex};
use thalweg_wire::{hello, limits};

/// Begins the far mover's line. The number is that of this way to start.
pub const MOVER_MAGIC: &str = "THALWEG-MOVER ";
/// Begins a bridge's line.
pub const BRIDGE_MAGIC: &str = "THALWEG-BRIDGE ";
/// The way to start that is spoken here.
const WAY: u32 = 1;
/// Longest line of either side.
pub const LINE_BYTES_MAX: usize = 8 << 10;
/// Greetings of login scripts before the line, at most.
pub const NOISE_BYTES_MAX: usize = 64 << 10;
/// Letters of a token.
pub const TOKEN_BYTES: usize = 32;
/// Addresses of one end that are told, at most.
pub const ADDRESSES_MAX: usize = 16;

/// What a client tells the mover that it had started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// Protocol versions that the client speaks.
    pub versions: (u16, u16),
    /// Fingerprint of the only certificate to be admitted.
    pub client: String,
    /// Ports to choose from; any if there are none.
    #[serde(default)]
    pub ports: Option<(u16, u16)>,
    /// For how long a session without a link is kept, in milliseconds.
    pub patience_ms: u64,
    /// After how long a silent link counts as lost, in milliseconds.
    pub stall_timeout_ms: u64,
    /// How nice it is to be, above 0 to 19.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// Its I/O priority, as [`IoPriority`](thalweg_sys::priority::IoPriority) is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_priority: Option<String>,
    /// All that it is to serve. Default: what its user may reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Only>,
}

/// The one place, and the direction, of a client that is not the one who ordered the mover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Only {
    /// The path as copies name it, in hexadecimal digits: it need not be text.
    pub path: String,
    /// It is copied into this place; else from it.
    pub write: bool,
}

impl Only {
    /// This path.
    pub fn new(path: &[u8], write: bool) -> Only {
        Only { path: hex(path), write }
    }

    /// The bytes of the path; `None` if it is none.
    pub fn path(&self) -> Option<Vec<u8>> {
        unhex(&self.path)
    }
}

impl Order {
    /// An order of this version of thalweg.
    pub fn new(client: Fingerprint, patience: Duration, stall_timeout: Duration) -> Order {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Order {
            versions: (limits::VERSION_MIN, limits::VERSION_MAX),
            client: client.to_string(),
            ports: None,
            patience_ms: ms(patience),
            stall_timeout_ms: ms(stall_timeout),
            nice: None,
            io_priority: None,
            only: None,
        }
    }

    /// How the far mover is to stand to others of its machine. What it does not know it leaves as it is.
    pub fn priority(&self) -> Priority {
        Priority {
            nice: self.nice.filter(|nice| *nice > 0),
            io: self.io_priority.as_deref().and_then(|io| io.parse().ok()),
        }
    }

    /// The line, with its end.
    pub fn to_line(&self) -> String {
        to_line(self)
    }

    /// Reads the line.
    ///
    /// # Errors
    /// `Protocol` if it is none.
    pub fn of_line(line: &str) -> Result<Order> {
        let order: Order = of_json(line)?;
        if order.ports.is_some_and(|(low, high)| low > high || low == 0) {
            return Err(odd("the range of ports is none"));
        }
        if order.only.as_ref().is_some_and(|only| only.path().is_none()) {
            return Err(odd("the place that alone is to be served is none"));
        }
        Ok(order)
    }
}

/// What a far mover says when it listens.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    /// Port that other hosts may dial.
    pub port: u16,
    /// Addresses at which it listens there; none if it is all of them.
    pub addresses: Vec<IpAddr>,
    /// Port on its loopback, for bridges.
    pub bridge_port: u16,
    /// Whether it knows from where ssh came, so that it can dial back.
    pub dials_back: bool,
    /// Fingerprint of its certificate.
    pub fingerprint: String,
    /// Protocol versions that it speaks.
    pub versions: (u16, u16),
    /// Its own version, for people.
    pub version: String,
    /// Whether it serves the one place of its order alone. One that does not know that passes over it.
    #[serde(default)]
    pub confines: bool,
}

impl Ready {
    /// The line, with a new line in front in case something before it did not end its own.
    pub fn to_line(&self) -> String {
        with_magic(MOVER_MAGIC, self)
    }

    /// Reads what stood behind [`MOVER_MAGIC`], and checks that it can talk with a client of these versions.
    ///
    /// # Errors
    /// `Protocol`, saying which side to update.
    pub fn of_line(line: &str, versions: (u16, u16)) -> Result<Ready> {
        let mut ready: Ready = of_magic(line)?;
        if hello::negotiate(versions, ready.versions).is_none() {
            let mut failure = tls::no_version(ready.versions, versions);
            failure.operation = START.to_owned();
            return Err(failure.because(Reason::FarProgramDiffers));
        }
        ready.addresses.truncate(ADDRESSES_MAX);
        Ok(ready)
    }

    /// Whether it serves no more than it was ordered to.
    ///
    /// # Errors
    /// `Protocol` if it serves all that its user may reach where that is one place.
    pub fn check(&self, order: &Order) -> Result<()> {
        match order.only.is_none() || self.confines {
            true => Ok(()),
            false => Err(odd("the far thalweg is too old to serve one place alone: update it")),
        }
    }
}

/// Asks a far mover to connect to its client, at the address that ssh came from or at others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DialBack {
    /// The client's port.
    pub port: u16,
    /// What it says first, so that the client knows whose connection it is. Who it is, TLS proves.
    pub token: String,
    /// Where the client is, if ssh does not come from there. All are dialled; at most [`ADDRESSES_MAX`] are heard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
}

impl DialBack {
    /// The line, with its end.
    pub fn to_line(&self) -> String {
        to_line(self)
    }

    /// Whether its token is one: nothing else is said to whoever is dialled.
    ///
    /// # Errors
    /// `Protocol` if it is not.
    pub fn check(&self) -> Result<()> {
        check_token(&self.token)
    }

    /// Reads the line.
    ///
    /// # Errors
    /// `Protocol` if it is none.
    pub fn of_line(line: &str) -> Result<DialBack> {
        let mut request: DialBack = of_json(line)?;
        request.check()?;
        request.addresses.truncate(ADDRESSES_MAX);
        Ok(request)
    }
}

/// Whether a token is one.
///
/// # Errors
/// `Protocol` if it is not.
pub fn check_token(token: &str) -> Result<()> {
    match token.len() == TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(()),
        false => Err(odd("a token has 32 hexadecimal digits")),
    }
}

/// Reads until a line that has `magic`, and returns what stands behind it. `Err` with everything that was read if there
/// is none in the first [`NOISE_BYTES_MAX`] bytes, or if the line is longer than [`LINE_BYTES_MAX`].
pub fn read_line(from: &mut impl Read, magic: &str) -> std::result::Result<String, Vec<u8>> {
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(at) = find(&said, magic.as_bytes()) {
            let line = &said[at + magic.len()..];
            if let Some(end) = line.iter().position(|&b| b == b'\n') {
                return match std::str::from_utf8(&line[..end]) {
                    Ok(line) => Ok(line.trim_end_matches('\r').to_owned()),
                    Err(_) => Err(said),
                };
            }
            if line.len() > LINE_BYTES_MAX {
                return Err(said);
            }
        } else if said.len() > NOISE_BYTES_MAX {
            return Err(said);
        }
        match from.read(&mut piece) {
            Ok(0) => return Err(said),
            Ok(read) => said.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(said),
        }
    }
}

/// Where `needle` begins in `hay`.
pub(super) fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}

/// A first word: behind `magic` the way to start, and the rest. A new line stands in front in case something before it
/// did not end its own.
pub(super) fn with_magic(magic: &str, value: &impl Serialize) -> String {
    format!("\n{magic}{WAY} {}", to_line(value))
}

/// Reads what stood behind the magic of a first word.
///
/// # Errors
/// `Protocol`, saying which side to update.
pub(super) fn of_magic<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T> {
    let (way, json) = line.split_once(' ').ok_or_else(|| odd("the far side's first line is cut"))?;
    if way.parse() != Ok(WAY) {
        let cause = format!(
            "the far thalweg is started in another way ({way}) than this one ({WAY}): update the older side"
        );
        return Err(odd(&cause));
    }
    of_json(json)
}

fn to_line(value: &impl Serialize) -> String {
    // Numbers and text: there is nothing in these that JSON could not say.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}

fn of_json<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T> {
    if line.len() > LINE_BYTES_MAX {
        return Err(odd("the line is too long"));
    }
    serde_json::from_str(line).map_err(|error| odd(&format!("the line is not what was expected: {error}")))
}

fn odd(cause: &str) -> Failure {
    Failure::new(FailureKind::Protocol, START, cause).because(Reason::FarProgramDiffers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_sys::priority::IoPriority;

    fn ready() -> Ready {
        Ready {
            port: 50000,
            addresses: vec!["10.0.0.1".parse().unwrap()],
            bridge_port: 50001,
            dials_back: true,
            fingerprint: "ab".repeat(32),
            versions: (1, 1),
            version: "0.1.0".into(),
            confines: false,
        }
    }

    #[test]
    fn the_line_is_found_behind_any_noise_of_bounded_length() {
        for noise in ["", "Welcome!\n", "no newline", "THALWEG-", "\u{1b}[31mred\n\n\0\u{7f}"] {
            let text = format!("{noise}{}afterwards", ready().to_line());
            let line = read_line(&mut text.as_bytes(), MOVER_MAGIC).unwrap();
            assert_eq!(Ready::of_line(&line, (1, 1)).unwrap().port, 50000);
        }
        let much = vec![b'x'; NOISE_BYTES_MAX + 8192];
        assert!(read_line(&mut much.as_slice(), MOVER_MAGIC).is_err());
        let endless = [MOVER_MAGIC.as_bytes(), &much].concat();
        assert!(read_line(&mut endless.as_slice(), MOVER_MAGIC).is_err());
        assert!(read_line(&mut &b"Welcome!\n"[..], MOVER_MAGIC).is_err());
    }

    #[test]
    fn a_far_side_of_another_version_says_which_to_update() {
        let line = ready().to_line();
        let line = line.trim().strip_prefix(MOVER_MAGIC).unwrap();
        let failure = Ready::of_line(line, (2, 3)).unwrap_err();
        assert!(
            failure.cause.contains("versions 1 to 1, this thalweg 2 to 3: update the older side"),
            "{failure}"
        );
        let failure = Ready::of_line("2 {}", (1, 1)).unwrap_err();
        assert!(failure.cause.contains("update the older side"), "{failure}");
    }

    #[test]
    fn lines_come_back_as_they_went_and_odd_ones_are_refused() {
        let order = Order::new(Fingerprint([7; 32]), Duration::from_secs(600), Duration::from_secs(30));
        let back = Order::of_line(order.to_line().trim()).unwrap();
        assert_eq!((back.client, back.patience_ms), (order.client.clone(), 600_000));
        let more = order.to_line().replace('{', "{\"later\":[1],");
        assert!(Order::of_line(more.trim()).is_ok());
        for bad in ["", "{}", "[]", "{\"versions\":[1,1]", &"[".repeat(LINE_BYTES_MAX + 1)] {
            assert!(Order::of_line(bad).is_err());
        }
        let nicer = Order { nice: Some(7), io_priority: Some(IoPriority::Idle.to_string()), ..order.clone() };
        let priority = Order::of_line(nicer.to_line().trim()).unwrap().priority();
        assert_eq!(priority, Priority { nice: Some(7), io: Some(IoPriority::Idle) });
        // Nobody is made to take more than others by it, and what a later version may say is left.
        let later = Order { nice: Some(-7), io_priority: Some("realtime:0".into()), ..order.clone() };
        assert_eq!(Order::of_line(later.to_line().trim()).unwrap().priority(), Priority::default());
        let ports = Order { ports: Some((9, 8)), ..order };
        assert!(Order::of_line(ports.to_line().trim()).is_err());
        for token in ["short", "THALWEG-BRIDGE up\\nxxxxxxxxxxxxxx"] {
            assert!(DialBack::of_line(&format!("{{\"port\":1,\"token\":\"{token}\"}}")).is_err());
        }
    }

    #[test]
    fn where_to_dial_back_and_what_alone_is_served_are_told_and_bounded() {
        let token = "0f".repeat(TOKEN_BYTES / 2);
        let back = DialBack::of_line(&format!("{{\"port\":1,\"token\":\"{token}\"}}")).unwrap();
        assert!(back.addresses.is_empty());
        let many = vec!["10.0.0.1".parse().unwrap(); ADDRESSES_MAX + 1];
        let told = DialBack { addresses: many, ..back };
        assert_eq!(DialBack::of_line(told.to_line().trim()).unwrap().addresses.len(), ADDRESSES_MAX);
        let order = Order::new(Fingerprint([7; 32]), Duration::from_secs(600), Duration::from_secs(30));
        assert_eq!(Order::of_line(order.to_line().trim()).unwrap().only, None);
        let only = Only::new(b"a\xff", true);
        let order = Order { only: Some(only.clone()), ..order };
        let back = Order::of_line(order.to_line().trim()).unwrap().only.unwrap();
        assert_eq!((back.path(), back), (Some(b"a\xff".to_vec()), only));
        // A mover that does not know what that is does not say that it keeps to it.
        let confines = Ready { confines: true, ..ready() };
        assert!(confines.check(&order).is_ok());
        let said = ready().to_line().replace("\"confines\":false", "\"later\":true");
        let older = Ready::of_line(said.trim().strip_prefix(MOVER_MAGIC).unwrap(), (1, 1)).unwrap();
        assert_eq!(older.check(&order).unwrap_err().reason, Reason::FarProgramDiffers);
        assert!(older.check(&Order { only: None, ..order.clone() }).is_ok());
        // One that cannot be read is not taken for none: that would be everything.
        let odd = order.to_line().replace("61ff", "61f");
        assert!(Order::of_line(odd.trim()).is_err());
    }
}
