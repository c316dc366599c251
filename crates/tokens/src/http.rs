//! Documents and answers of a provider: asked for once, small, and soon.
//!
//! A redirect is not followed, and nothing is asked of another scheme than that of the issuer, so that nobody leads us
//! somewhere else than where the operator said.

use std::time::Duration;
use thalweg_http::{Authorities, Kept, Limits, Wishes, is_loopback};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use url::Url;
use zeroize::Zeroizing;

/// In this time a document is here, whole: two of them are fetched while a client waits to be let in.
pub(crate) const FETCH_LIMIT: Duration = Duration::from_secs(3);
/// In this time a question of a login is answered, behind which there may be a directory.
pub const LOGIN_LIMIT: Duration = Duration::from_secs(5);
/// In this time one that cannot be asked twice: a code, or a refresh token, may be good for nothing once it was shown.
/// With a directory behind it that is slow, 5 s would lose login after login.
pub const GRANT_LIMIT: Duration = Duration::from_secs(30);
/// Larger documents are none of these: providers that publish certificates with their keys have some 10 KiB.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 256 << 10;

/// What fails.
pub(crate) const FETCH: &str = "ask an identity provider";

/// What asks, and waits for so long. It believes the system's authorities, or those that `SSL_CERT_FILE` names; the
/// rest is as of all our agents: [`thalweg_http`].
pub(crate) fn agent(issuer: &Url, limit: Duration) -> ureq::Agent {
    thalweg_http::agent(Wishes {
        authorities: Authorities::of_system(),
        is_near: is_loopback(issuer),
        accept: Some("application/json"),
        limits: Limits::Whole(limit),
        kept: Kept::default(),
    })
}

/// The document at this address.
///
/// # Errors
/// `Connection` if there is none within the time, or a larger one, or something else.
pub(crate) fn fetch(agent: &ureq::Agent, address: &Url) -> Result<Vec<u8>> {
    let fail = |why: &dyn std::fmt::Display| {
        Failure::new(FailureKind::Connection, FETCH, format!("`{address}`: {why}"))
    };
    let mut answer = agent.get(address.as_str()).call().map_err(|error| fail(&error))?;
    let status = answer.status().as_u16();
    if status != 200 {
        return Err(fail(&format!("it answers {status}")));
    }
    answer.body_mut().with_config().limit(DOCUMENT_BYTES_MAX).read_to_vec().map_err(|error| fail(&error))
}

/// What is answered to a form within this time: its status and its text.
///
/// # Errors
/// As [`fetch`], whatever the status is.
pub(crate) fn post(
    agent: &ureq::Agent,
    address: &Url,
    form: &[(&str, &str)],
    limit: Duration,
) -> Result<(u16, Zeroizing<Vec<u8>>)> {
    let fail =
        |error: &ureq::Error| Failure::new(FailureKind::Connection, FETCH, format!("`{address}`: {error}"));
    let request = agent.post(address.as_str()).config().timeout_global(Some(limit)).build();
    let mut answer = request.send_form(form.iter().copied()).map_err(|error| fail(&error))?;
    let body = answer.body_mut().with_config().limit(DOCUMENT_BYTES_MAX).read_to_vec();
    Ok((answer.status().as_u16(), Zeroizing::new(body.map_err(|error| fail(&error))?)))
}

/// Reads the address of a provider: `https`, or `http` on this machine's loopback.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn address(text: &str) -> std::result::Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("it is no URL: {error}"))?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    match url.scheme() {
        _ if !is_plain => Err("a URL without user, password and fragment is wanted".to_owned()),
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        _ => Err("a URL of https is wanted (of http only on the loopback)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_at_https_or_on_the_loopback() {
        for good in
            ["https://iam.example.org/", "https://h:8443/realms/x", "http://127.0.0.1:1", "http://[::1]/x"]
        {
            assert!(address(good).is_ok(), "{good}");
        }
        for odd in [
            "iam.example.org",
            "http://iam.example.org/",
            "file:///etc/passwd",
            "https://u:p@h/",
            "https://h/#f",
        ] {
            assert!(address(odd).is_err(), "{odd}");
        }
    }
}
