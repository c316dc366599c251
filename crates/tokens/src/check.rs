//! Whether a token is good.

use crate::http;
use crate::keys::Keys;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, dangerous, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use thalweg_mover::failure::{Failure, FailureKind, Result};

/// Algorithms that are taken: all with a public key. With a secret that both sides have, what is public of one of these
/// would do for one.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// So far clocks may be apart, in seconds.
pub(crate) const LEEWAY_S: u64 = 30;
/// Kinds of tokens, as `typ` says them. Another kind that the same keys sign (of a logout, say) says nothing of who
/// comes.
const KINDS: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// A provider whose tokens are taken.
pub struct Provider {
    issuer: String,
    audiences: Vec<String>,
    /// Also of another that was made of the same issuer: see [`Provider::with_keys_of`].
    keys: Arc<Keys>,
}

/// A token that is good.
#[derive(Debug)]
pub struct Checked {
    /// What its provider says of its holder.
    pub claims: Map<String, Value>,
    /// From when on it is not, in seconds since 1970: its `exp`, and so much later as clocks may be apart.
    pub expires_at: u64,
}

/// Why a token is not good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotGood {
    /// It is over.
    Expired,
    /// It is no token of this provider for this server: why, in words for a log.
    Refused(String),
    /// The keys of the provider are not to be had.
    Unchecked(Failure),
}

/// Which provider a token names: nobody has checked it.
pub fn issuer_of(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Claims {
        iss: String,
    }
    dangerous::insecure_decode_claims::<Claims>(token).ok().map(|claims| claims.iss)
}

impl Provider {
    /// One with this issuer (a URL of https, or of http on the loopback), whose tokens are taken if they are for one of
    /// these audiences. Nothing is asked of it yet.
    ///
    /// # Errors
    /// `Usage` for what is no such URL, and without an audience.
    pub fn new(issuer: &str, audiences: Vec<String>) -> Result<Provider> {
        let refuse =
            |why: &str| Failure::new(FailureKind::Usage, "read an issuer", format!("`{issuer}`: {why}"));
        let address = http::address(issuer).map_err(|why| refuse(&why))?;
        if audiences.is_empty() || audiences.iter().any(String::is_empty) {
            return Err(refuse("an audience is wanted"));
        }
        let keys = Arc::new(Keys::of(issuer, address));
        Ok(Provider { issuer: issuer.to_owned(), audiences, keys })
    }

    /// The same, with the keys of another one, if that is of the same issuer. Else who takes its place would have none
    /// where the issuer is away just then, and could be had ask for them more often.
    #[must_use]
    pub fn with_keys_of(self, other: &Provider) -> Provider {
        match self.issuer == other.issuer {
            true => Provider { keys: other.keys.clone(), ..self },
            false => self,
        }
    }

    /// Its URL, as tokens have it.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Whether these claims, of a token that is good, are for one of its audiences.
    pub fn is_for(&self, claims: &Map<String, Value>) -> bool {
        let is_ours = |named: &Value| self.audiences.iter().any(|one| named.as_str() == Some(one.as_str()));
        match claims.get("aud") {
            Some(Value::Array(named)) => named.iter().any(is_ours),
            Some(named) => is_ours(named),
            None => false,
        }
    }

    /// Checks a token. May ask the provider for its keys, which takes some seconds at most.
    ///
    /// # Errors
    /// Why it is not good. What is said of it holds nothing of its text.
    pub fn check(&self, token: &str) -> std::result::Result<Checked, NotGood> {
        let refused = |why: &str| NotGood::Refused(why.to_owned());
        let header = decode_header(token)
            .map_err(|_| refused("it is no signed token, or by no algorithm that is known"))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(refused("its algorithm is not taken"));
        }
        if header.crit.is_some() {
            return Err(refused("it asks for an extension of tokens"));
        }
        if header.typ.is_some_and(|kind| !KINDS.contains(&kind.to_ascii_lowercase().as_str())) {
            return Err(refused("it is of another kind"));
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).map_err(NotGood::Unchecked)?;
        let key = key.ok_or_else(|| refused("its key is none of the provider's"))?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY_S;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&self.audiences);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let good =
            decode::<Map<String, Value>>(token, &key, &validation).map_err(|error| match error.kind() {
                ErrorKind::ExpiredSignature => NotGood::Expired,
                ErrorKind::ImmatureSignature => refused("it is not valid yet: are both clocks right?"),
                ErrorKind::InvalidSignature => refused("its signature is wrong"),
                ErrorKind::InvalidAudience => refused("it is for another audience"),
                ErrorKind::InvalidIssuer => refused("it is of another issuer"),
                ErrorKind::MissingRequiredClaim(claim) => refused(&format!("it has no `{claim}`")),
                _ => refused("it makes no sense"),
            })?;
        // Who shows it would have to prove that key (RFC 7800), and nobody is asked to: it would do for a thief.
        if good.claims.contains_key("cnf") {
            return Err(refused("it is bound to a key (`cnf`), and those are not taken"));
        }
        // It was checked to be there, and to be a number.
        let expires_at =
            good.claims.get("exp").and_then(|at| at.as_u64().or(at.as_f64().map(|at| at as u64)));
        let expires_at = expires_at.ok_or_else(|| refused("it has no `exp`"))?;
        Ok(Checked { claims: good.claims, expires_at: expires_at.saturating_add(LEEWAY_S) })
    }
}

#[cfg(test)]
mod tests;
