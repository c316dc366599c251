//! What a provider says of itself: OpenID Connect Discovery, and RFC 8414.

use crate::http;
use serde::Deserialize;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use url::Url;

/// What such a document has that we need.
#[derive(Deserialize)]
pub(crate) struct Discovery {
    pub(crate) issuer: String,
    pub(crate) jwks_uri: Option<String>,
    pub(crate) token_endpoint: Option<String>,
    pub(crate) device_authorization_endpoint: Option<String>,
    pub(crate) revocation_endpoint: Option<String>,
}

impl Discovery {
    /// That of an issuer at this address.
    ///
    /// # Errors
    /// `Connection` if there is none, or it is that of another.
    pub(crate) fn fetch(agent: &ureq::Agent, issuer: &str, address: &Url) -> Result<Discovery> {
        let document = http::fetch(agent, &discovery_of(address))?;
        let document: Discovery = serde_json::from_slice(&document)
            .map_err(|_| odd(issuer, "what it answers is no discovery document"))?;
        // Exactly: else another issuer could speak for this one.
        if document.issuer != issuer {
            return Err(odd(issuer, "it calls itself otherwise: `issuer` is to be written as it does"));
        }
        Ok(document)
    }

    /// One of the addresses in it, which is `what`.
    ///
    /// # Errors
    /// `Connection` if it is not there, or none that may be asked.
    pub(crate) fn endpoint(&self, address: Option<&str>, what: &str) -> Result<Url> {
        let odd = |why: &str| odd(&self.issuer, &format!("{what}: {why}"));
        let address = address.ok_or_else(|| odd("it does not say where"))?;
        named_by(&self.issuer, address).map_err(|why| odd(&why))
    }
}

/// Reads an address that this issuer names: one of https, or for an issuer on the loopback one that is there too.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn named_by(issuer: &str, address: &str) -> std::result::Result<Url, String> {
    let address = http::address(address)?;
    let is_near = http::address(issuer).is_ok_and(|issuer| issuer.scheme() == "http");
    match is_near || address.scheme() == "https" {
        true => Ok(address),
        false => Err("it is without TLS".to_owned()),
    }
}

fn odd(issuer: &str, why: &str) -> Failure {
    Failure::new(FailureKind::Connection, http::FETCH, format!("`{issuer}`: {why}"))
}

/// Where a provider says what it is.
fn discovery_of(issuer: &Url) -> Url {
    let mut address = issuer.clone();
    let path = format!("{}/.well-known/openid-configuration", issuer.path().trim_end_matches('/'));
    address.set_path(&path);
    address.set_query(None);
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_tells_of_itself_below_its_own_path() {
        let told = |text: &str| discovery_of(&Url::parse(text).unwrap()).to_string();
        assert_eq!(told("https://h"), "https://h/.well-known/openid-configuration");
        assert_eq!(told("https://h/realms/x/"), "https://h/realms/x/.well-known/openid-configuration");
    }

    #[test]
    fn a_provider_with_tls_leads_nobody_where_there_is_none() {
        let of = |issuer: &str| Discovery {
            issuer: issuer.to_owned(),
            jwks_uri: None,
            token_endpoint: None,
            device_authorization_endpoint: None,
            revocation_endpoint: None,
        };
        let (secure, near) = (of("https://h/"), of("http://127.0.0.1:1"));
        assert!(secure.endpoint(Some("https://other/token"), "tokens").is_ok());
        assert!(near.endpoint(Some("http://127.0.0.1:2/token"), "tokens").is_ok());
        for odd in [Some("http://127.0.0.1:2/token"), Some("http://h/token"), Some("file:///token"), None] {
            assert!(secure.endpoint(odd, "tokens").is_err(), "{odd:?}");
        }
        assert!(near.endpoint(Some("http://h/token"), "tokens").is_err());
    }
}
