//! The keys of a provider, kept.
//!
//! 1. They are fetched when a token comes and there are none, or none of that number, or those that are here are older
//!    than [`FRESH`]. One fetches at a time.
//! 2. Not within [`FETCH_REST`] of the last fetch, whatever became of it: a stranger decides how many tokens with
//!    unknown keys come.
//! 3. While the provider is away those that are here are good, until they are [`KEPT`] old.
//!
//! Of a document only what we can check with is kept: public keys of RSA, of the curves P-256 and P-384, and of
//! Ed25519, which are not for encryption.

use crate::discovery::Discovery;
use crate::http;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use url::Url;

/// Older keys are fetched again when they are needed.
const FRESH: Duration = Duration::from_secs(3600);
/// So long after a fetch there is no other.
const FETCH_REST: Duration = Duration::from_secs(60);
/// So long keys are good while no others can be fetched: a provider that is mended within a day keeps nobody out.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Keys of one provider: those that it signs with, and some that it did.
const KEYS_MAX: usize = 64;
/// Longest modulus of RSA, in base64: 8192 bits.
const MODULUS_BYTES_MAX: usize = 1400;

/// See the module.
pub(crate) struct Keys {
    issuer: String,
    address: Url,
    agent: ureq::Agent,
    known: Mutex<Known>,
    /// Held by who fetches.
    fetching: Mutex<()>,
}

#[derive(Default)]
struct Known {
    keys: Arc<Vec<Jwk>>,
    /// When they were fetched.
    at: Option<Instant>,
    /// How much older they count, in tests.
    #[cfg(test)]
    older: Duration,
    /// When they were tried to be, and why they could not.
    tried: Option<(Instant, Option<Failure>)>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<serde_json::Value>,
}

impl Keys {
    /// Those of an issuer at this address; none is fetched yet.
    pub(crate) fn of(issuer: &str, address: Url) -> Keys {
        let agent = http::agent(&address, http::FETCH_LIMIT);
        let issuer = issuer.to_owned();
        Keys { issuer, address, agent, known: Mutex::default(), fetching: Mutex::default() }
    }

    /// The key with this number, or the only one, that is for this algorithm. `None`: there is none.
    ///
    /// # Errors
    /// `Connection` if nobody can say.
    pub(crate) fn find(&self, number: Option<&str>, algorithm: Algorithm) -> Result<Option<DecodingKey>> {
        let chosen = |keys: &[Jwk]| choose(keys, number, algorithm);
        let (keys, is_fresh) = self.kept(Instant::now());
        let found = chosen(&keys);
        if found.is_some() && is_fresh {
            return Ok(found);
        }
        // Who finds a key that is good does not wait for who fetches.
        let fetching = match found.is_some() {
            true => match self.fetching.try_lock() {
                Ok(fetching) => fetching,
                Err(_) => return Ok(found),
            },
            false => lock(&self.fetching),
        };
        self.fetch_if_due(Instant::now());
        drop(fetching);
        let (keys, _) = self.kept(Instant::now());
        match chosen(&keys) {
            Some(key) => Ok(Some(key)),
            None if keys.is_empty() => Err(self.why_none()),
            None => Ok(None),
        }
    }

    /// Those that are good, and whether they are fresh.
    fn kept(&self, now: Instant) -> (Arc<Vec<Jwk>>, bool) {
        let known = lock(&self.known);
        let age = known.at.map(|at| now.saturating_duration_since(at));
        #[cfg(test)]
        let age = age.map(|age| age + known.older);
        match age {
            Some(age) if age < KEPT => (known.keys.clone(), age < FRESH),
            _ => (Arc::default(), false),
        }
    }

    fn why_none(&self) -> Failure {
        let tried = lock(&self.known).tried.clone();
        tried.and_then(|(_, why)| why).unwrap_or_else(|| {
            Failure::new(FailureKind::Connection, http::FETCH, format!("`{}`: it has no keys", self.issuer))
        })
    }

    fn fetch_if_due(&self, now: Instant) {
        let is_tried = |(at, _): &(Instant, Option<Failure>)| now.saturating_duration_since(*at) < FETCH_REST;
        if lock(&self.known).tried.as_ref().is_some_and(is_tried) {
            return;
        }
        let fetched = self.fetch();
        let mut known = lock(&self.known);
        match fetched {
            Ok(keys) => {
                *known = Known { keys: Arc::new(keys), at: Some(now), ..Known::default() };
                known.tried = Some((now, None));
            }
            Err(failure) => {
                tracing::warn!(issuer = %self.issuer, %failure, "the keys of an identity provider are not to be had");
                known.tried = Some((now, Some(failure)));
            }
        }
    }

    fn fetch(&self) -> Result<Vec<Jwk>> {
        let odd = |why: &str| {
            Failure::new(FailureKind::Connection, http::FETCH, format!("`{}`: {why}", self.issuer))
        };
        let document = Discovery::fetch(&self.agent, &self.issuer, &self.address)?;
        let keys = document.endpoint(document.jwks_uri.as_deref(), "its keys")?;
        let set = http::fetch(&self.agent, &keys)?;
        let set: KeySet =
            serde_json::from_slice(&set).map_err(|_| odd("what it answers is no set of keys"))?;
        if set.keys.len() > KEYS_MAX {
            return Err(odd("it has more than 64 keys"));
        }
        // Of a kind that nobody knows yet there may be some beside.
        let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        let keys: Vec<Jwk> = keys.filter(is_usable).collect();
        // It would take the place of those that are good.
        if keys.is_empty() {
            return Err(odd("it has no key that can be used"));
        }
        Ok(keys)
    }
}

/// No secret that both sides have, nothing for encryption, nothing too long.
fn is_usable(key: &Jwk) -> bool {
    let is_for_signatures =
        key.common.public_key_use.as_ref().is_none_or(|for_what| *for_what == PublicKeyUse::Signature);
    let is_known = match &key.algorithm {
        AlgorithmParameters::RSA(rsa) => rsa.n.len() <= MODULUS_BYTES_MAX && rsa.e.len() <= 16,
        AlgorithmParameters::EllipticCurve(point) => {
            matches!(point.curve, EllipticCurve::P256 | EllipticCurve::P384)
        }
        AlgorithmParameters::OctetKeyPair(point) => point.curve == EllipticCurve::Ed25519,
        _ => false,
    };
    is_for_signatures && is_known
}

/// Whether a key is one of this algorithm: what the token says of itself does not make another of it.
fn is_of(key: &Jwk, algorithm: Algorithm) -> bool {
    use Algorithm as A;
    let is_of_family = match (&key.algorithm, algorithm) {
        (AlgorithmParameters::RSA(_), A::RS256 | A::RS384 | A::RS512 | A::PS256 | A::PS384 | A::PS512) => {
            true
        }
        (AlgorithmParameters::EllipticCurve(point), A::ES256) => point.curve == EllipticCurve::P256,
        (AlgorithmParameters::EllipticCurve(point), A::ES384) => point.curve == EllipticCurve::P384,
        (AlgorithmParameters::OctetKeyPair(_), A::EdDSA) => true,
        _ => false,
    };
    let said = key.common.key_algorithm;
    is_of_family && said.is_none_or(|said| Algorithm::try_from(said).is_ok_and(|said| said == algorithm))
}

fn choose(keys: &[Jwk], number: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
    let mut fitting = keys.iter().filter(|key| {
        let is_it = number.is_none_or(|number| key.common.key_id.as_deref() == Some(number));
        is_it && is_of(key, algorithm)
    });
    match (fitting.next(), fitting.next()) {
        (Some(key), None) => DecodingKey::from_jwk(key).ok(),
        _ => None,
    }
}

#[cfg(test)]
impl Keys {
    /// As if the last fetch was so long ago that there may be another.
    pub(crate) fn rest_is_over(&self) {
        lock(&self.known).tried = None;
    }

    /// As if so much time had passed since they were fetched.
    pub(crate) fn age(&self, time: Duration) {
        let mut known = lock(&self.known);
        known.older += time;
        known.tried = None;
    }
}
