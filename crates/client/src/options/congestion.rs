//! A congestion control that is asked for by name, looked at where this machine would send by it: sockets take a name
//! as advice, and nobody would hear that they do not have it.

use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_sys::socket;
use thalweg_wire::message::is_congestion_name;

/// Reads a name.
///
/// # Errors
/// What is wanted instead.
pub fn parse(text: &str) -> std::result::Result<String, String> {
    match is_congestion_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a name of at most 15 letters, digits, `_` and `-`".into()),
    }
}

/// What was asked for, and whether this machine may send by it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wished {
    asked: Option<String>,
    /// That it is not permitted to us, and what is used instead.
    pub note: Option<String>,
    /// That it is not.
    why: Option<String>,
}

impl Wished {
    /// What is to be wished for where we send, or where a far side does, which says itself whether it has it: a command
    /// may do both. Of one that is not permitted to us, nothing.
    pub fn where_we_send(&self, we_send: bool) -> Option<String> {
        self.asked.clone().filter(|_| !we_send || self.note.is_none())
    }

    /// For who has nobody to tell the note to: one that is not permitted to us is refused.
    ///
    /// # Errors
    /// `Permission`.
    pub fn or_refused(self) -> Result<Wished> {
        match self.why {
            Some(why) => {
                let failure = Failure::new(FailureKind::Permission, failure::CHOOSE_CONGESTION, why);
                Err(failure.because(Reason::CongestionRefused))
            }
            None => Ok(self),
        }
    }
}

/// Looks at what was `asked` for, if this machine `sends` at all.
///
/// # Errors
/// `Usage` for a name that this machine does not have, if it sends.
pub fn wished(asked: Option<&str>, sends: bool) -> Result<Wished> {
    let refused = asked.filter(|_| sends).map(check).transpose()?.flatten();
    let note = refused.as_ref().map(|(why, used)| format!("{why}: {used} is used instead"));
    Ok(Wished { asked: asked.map(str::to_owned), note, why: refused.map(|(why, _)| why) })
}

/// Whether a socket of ours takes one that the kernel has. (Of one that it lacks this may load a module.)
pub fn is_permitted(name: &str) -> bool {
    probe().is_ok_and(|probe| socket::set_congestion(&probe, name).is_ok())
}

/// Of one that is not permitted: what is told of it, and what is used instead.
fn check(name: &str) -> Result<Option<(String, String)>> {
    let probe = probe().map_err(|error| failure::of_io(failure::CHOOSE_CONGESTION, &error))?;
    match socket::set_congestion(&probe, name) {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let permitted = socket::allowed_congestion().unwrap_or_default().join(", ");
            let used = socket::congestion(&probe).unwrap_or_else(|_| "the system's choice".to_owned());
            let of = "is not permitted to this user";
            Ok(Some((format!("the congestion control `{name}` {of} (permitted: {permitted})"), used)))
        }
        Err(_) => {
            let there = socket::available_congestion().unwrap_or_default().join(", ");
            let cause = format!("the congestion control `{name}` is not to be had here; there are: {there}");
            Err(Failure::new(FailureKind::Usage, failure::CHOOSE_CONGESTION, cause))
        }
    }
}

fn probe() -> std::io::Result<std::net::TcpListener> {
    std::net::TcpListener::bind("127.0.0.1:0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_at_by_who_sends_and_one_that_is_not_there_is_no_wish() {
        let nothing = wished(None, true).unwrap();
        assert_eq!(nothing, Wished::default());
        let far = wished(Some("nonesuch"), false).unwrap();
        assert_eq!((far.where_we_send(false).as_deref(), far.note), (Some("nonesuch"), None));
        let refused = wished(Some("nonesuch"), true).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Usage);
        assert!(refused.cause.contains("`nonesuch` is not to be had here"), "{refused}");
        for name in socket::allowed_congestion().unwrap() {
            assert!(is_permitted(&name), "{name}");
            let own = wished(Some(&name), true).unwrap();
            assert_eq!((own.where_we_send(true), own.note), (Some(name), None));
        }
        assert!(!is_permitted("nonesuch"));
        // What the kernel has is used, or told.
        for name in socket::available_congestion().unwrap() {
            let own = wished(Some(&name), true).unwrap();
            let is_wished = own.where_we_send(true).is_some();
            assert_eq!((is_wished, own.note.is_some()), (is_permitted(&name), !is_permitted(&name)));
        }
    }

    #[test]
    fn one_that_is_not_permitted_to_us_is_wished_for_where_a_far_side_sends() {
        let why = Some("not permitted".to_owned());
        let wished = Wished { asked: Some("bbr".into()), note: why.clone(), why };
        assert_eq!(wished.where_we_send(true), None);
        assert_eq!(wished.where_we_send(false).as_deref(), Some("bbr"));
        assert_eq!(wished.or_refused().unwrap_err().kind, FailureKind::Permission);
        assert!(Wished::default().or_refused().is_ok());
    }
}
