//! A login at a provider, as a client that has no secret and no browser: device authorization (RFC 8628).
//!
//! 1. [`Login::find`] asks where that is done.
//! 2. [`Login::begin`] asks for a code, which somebody approves in a browser, on any machine.
//! 3. [`Login::poll`] asks whether they have. How long to wait between two such questions, [`Pace`] says.
//! 4. [`Login::refresh`] has another token in the place of one that ends (RFC 6749, section 6). [`Login::revoke`] takes
//!    back what was given (RFC 7009).
//!
//! Each is one question, answered within `LOGIN_LIMIT` (`GRANT_LIMIT` where what is asked with may be spent by it), or
//! an error; nothing here waits. What is answered is bounded, and no message has a token in it.

use crate::discovery::{self, Discovery};
use crate::http;
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::fmt;
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::link::Token;
use url::Url;

/// What RFC 8628 has a client wait between two questions, where the provider says nothing of it; and what is added
/// where it says that they come too soon.
const INTERVAL: Duration = Duration::from_secs(5);
/// No longer is waited, whatever the provider says: it would be as if nothing came of an approval.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Whoever approves does so in this time: a longer one, which a provider may give, keeps a forgotten command asking.
const APPROVAL_MAX: Duration = Duration::from_secs(1800);
/// A token of which the provider does not say how long it lasts.
const TOKEN_LASTS: Duration = Duration::from_secs(300);
/// Longest code that a person may be asked to type.
const CODE_BYTES_MAX: usize = 64;
/// Longest address that a person may be asked to open.
const ADDRESS_BYTES_MAX: usize = 1024;
/// Longest name of an error: those of the RFCs have at most 25 letters.
const ERROR_BYTES_MAX: usize = 64;

/// What fails.
const LOG_IN: &str = "log in";
const REFRESH: &str = "refresh the token";
const REVOKE: &str = "take the token back";

/// A client at a provider. See the module.
pub struct Login {
    issuer: String,
    client: String,
    resource: Option<String>,
    agent: ureq::Agent,
    token: Url,
    device: Option<Url>,
    revocation: Option<Url>,
}

/// What somebody is asked to approve.
#[derive(Debug)]
pub struct Asked {
    code: Token,
    /// Where it is approved, a URL.
    pub address: String,
    /// What is typed there.
    pub user_code: String,
    /// The address with the code in it, if there is one.
    pub address_with_code: Option<String>,
    /// In this time.
    pub lasts: Duration,
    interval: Duration,
}

/// What a provider says whether a code was approved.
#[derive(Debug)]
pub enum Polled {
    /// Not yet.
    Pending,
    /// Not yet, and it was asked too soon.
    TooSoon,
    /// Yes.
    Granted(Granted),
}

/// What is granted.
#[derive(Debug)]
pub struct Granted {
    /// What a server takes.
    pub access: Token,
    /// For so long.
    pub lasts: Duration,
    /// By what another is had. `None`: by what the last was, or by nothing.
    pub refresh: Option<Token>,
}

/// How long to wait before the next question.
#[derive(Debug)]
pub struct Pace {
    /// Where it answers.
    asked: Duration,
    interval: Duration,
}

#[derive(Deserialize)]
struct AskedText {
    device_code: Secret,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: Option<Value>,
    interval: Option<Value>,
}

#[derive(Deserialize)]
struct GrantedText {
    access_token: Secret,
    token_type: String,
    expires_in: Option<Value>,
    refresh_token: Option<AnySecret>,
}

#[derive(Deserialize)]
struct ErrorText {
    error: String,
}

/// A token in an answer.
struct Secret(Token);

/// The same, or none: some say so by an empty text.
struct AnySecret(Option<Token>);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Secret, D::Error> {
        from.deserialize_str(OneWord)
    }
}

impl<'de> Deserialize<'de> for AnySecret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<AnySecret, D::Error> {
        from.deserialize_str(OneWordOrNone)
    }
}

struct OneWord;

struct OneWordOrNone;

impl Visitor<'_> for OneWord {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token")
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<Secret, E> {
        // What it was is not told.
        Token::from_bytes(text.as_bytes()).map(Secret).map_err(|_| E::custom("it is no token"))
    }
}

impl Visitor<'_> for OneWordOrNone {
    type Value = AnySecret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token, or nothing")
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<AnySecret, E> {
        match text {
            "" => Ok(AnySecret(None)),
            text => OneWord.visit_str(text).map(|secret| AnySecret(Some(secret.0))),
        }
    }
}

impl Login {
    /// Asks the provider where its clients log in.
    ///
    /// # Errors
    /// `Usage` for an issuer that is no URL of https, or of http on the loopback; `Connection` if it does not answer,
    /// or calls itself otherwise.
    pub fn find(issuer: &str, client: &str) -> Result<Login> {
        let address = http::address(issuer)
            .map_err(|why| Failure::new(FailureKind::Usage, http::FETCH, format!("`{issuer}`: {why}")))?;
        let agent = http::agent(&address, http::LOGIN_LIMIT);
        let told = Discovery::fetch(&agent, issuer, &address)?;
        let some = |address: &Option<String>, what: &str| {
            address.as_deref().map(|address| told.endpoint(Some(address), what)).transpose()
        };
        Ok(Login {
            issuer: issuer.to_owned(),
            client: client.to_owned(),
            resource: None,
            token: told.endpoint(told.token_endpoint.as_deref(), "its tokens")?,
            device: some(&told.device_authorization_endpoint, "its codes for logins")?,
            revocation: some(&told.revocation_endpoint, "where tokens are taken back")?,
            agent,
        })
    }

    /// The same, which asks for tokens for this resource (RFC 8707) or audience, if one is given: providers know it by
    /// either name.
    pub fn asking_for(self, resource: Option<&str>) -> Login {
        Login { resource: resource.map(str::to_owned), ..self }
    }

    /// Asks for a code, for these scopes; without any for what the provider gives anyway.
    ///
    /// # Errors
    /// `Unsupported` if there are no such logins; `Permission` if the provider refuses; `Connection` if it does not
    /// answer, or makes no sense.
    pub fn begin(&self, scopes: &[String]) -> Result<Asked> {
        let device = self.device.as_ref().ok_or_else(|| {
            let why = "it has no logins of devices (RFC 8628): have a token in another way";
            self.fail(FailureKind::Unsupported, LOG_IN, why)
        })?;
        let scopes = scopes.join(" ");
        let mut form = vec![("client_id", self.client.as_str())];
        if !scopes.is_empty() {
            form.push(("scope", scopes.as_str()));
        }
        let told = self.ask(device, form, LOG_IN, http::LOGIN_LIMIT)?;
        let told: AskedText = told.map_err(|error| self.refused(&error, LOG_IN))?;
        let odd = |why: &str| self.fail(FailureKind::Connection, LOG_IN, why);
        let is_typed = (1..=CODE_BYTES_MAX).contains(&told.user_code.len())
            && told.user_code.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if !is_typed {
            return Err(odd("its code is none that a person may be asked to type"));
        }
        // It is opened in a browser, with a password to follow.
        let opened = |address: &str| {
            let is_short = address.len() <= ADDRESS_BYTES_MAX;
            let address = discovery::named_by(&self.issuer, address).ok();
            address.filter(|_| is_short).map(|address| address.to_string())
        };
        let address = opened(&told.verification_uri);
        Ok(Asked {
            code: told.device_code.0,
            address: address.ok_or_else(|| odd("where its codes are approved is no URL of https"))?,
            user_code: told.user_code,
            address_with_code: told.verification_uri_complete.as_deref().and_then(opened),
            lasts: seconds(told.expires_in.as_ref()).unwrap_or(APPROVAL_MAX).min(APPROVAL_MAX),
            interval: seconds(told.interval.as_ref()).unwrap_or(INTERVAL),
        })
    }

    /// Asks whether the code was approved.
    ///
    /// # Errors
    /// `Permission` if it was not and will not be: it was refused, or its time is over; `Connection` if the provider
    /// does not answer, or makes no sense.
    pub fn poll(&self, asked: &Asked) -> Result<Polled> {
        let form = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("device_code", asked.code.as_str()),
            ("client_id", self.client.as_str()),
        ];
        match self.ask(&self.token, form, LOG_IN, http::GRANT_LIMIT)? {
            Ok(told) => self.granted(told, LOG_IN).map(Polled::Granted),
            Err(error) if error == "authorization_pending" => Ok(Polled::Pending),
            Err(error) if error == "slow_down" => Ok(Polled::TooSoon),
            Err(error) => Err(self.refused(&error, LOG_IN)),
        }
    }

    /// Has another token by what was granted with the last. What that was may be good for nothing from then on: what
    /// is in the answer is to be kept before it is used.
    ///
    /// # Errors
    /// `Permission` (`TokenNotTaken`) if the login is over; `Connection` if the provider does not answer, or makes no
    /// sense.
    pub fn refresh(&self, refresh: &Token) -> Result<Granted> {
        let form = vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.as_str()),
            ("client_id", self.client.as_str()),
        ];
        match self.ask(&self.token, form, REFRESH, http::GRANT_LIMIT)? {
            Ok(told) => self.granted(told, REFRESH),
            Err(error) if error == "invalid_grant" => {
                let why = "the login is over: log in again with `thalweg login`";
                Err(self.fail(FailureKind::Permission, REFRESH, why).because(Reason::TokenNotTaken))
            }
            Err(error) => Err(self.refused(&error, REFRESH).because(Reason::TokenNotTaken)),
        }
    }

    /// Takes back what was granted with this token, of which `is_refresh` says whether it is for having others.
    /// `false`: the provider has no place for that.
    ///
    /// # Errors
    /// `Permission` if the provider refuses; `Connection` if it does not answer.
    pub fn revoke(&self, token: &Token, is_refresh: bool) -> Result<bool> {
        let Some(revocation) = &self.revocation else { return Ok(false) };
        let kind = if is_refresh { "refresh_token" } else { "access_token" };
        let form =
            [("token", token.as_str()), ("token_type_hint", kind), ("client_id", self.client.as_str())];
        let (status, body) = http::post(&self.agent, revocation, &form, http::LOGIN_LIMIT)?;
        match status {
            // What it does not know is gone as well.
            200 => Ok(true),
            _ => Err(self.refused(&self.error_in(status, &body, REVOKE)?, REVOKE)),
        }
    }

    fn granted(&self, told: GrantedText, operation: &str) -> Result<Granted> {
        if !told.token_type.eq_ignore_ascii_case("bearer") {
            return Err(self.fail(FailureKind::Unsupported, operation, "its tokens are no bearer tokens"));
        }
        Ok(Granted {
            access: told.access_token.0,
            lasts: seconds(told.expires_in.as_ref()).unwrap_or(TOKEN_LASTS),
            refresh: told.refresh_token.and_then(|secret| secret.0),
        })
    }

    /// What is answered to a form, and to what the tokens are for, or the name of the error.
    fn ask<'a, T: DeserializeOwned>(
        &'a self,
        address: &Url,
        mut form: Vec<(&'a str, &'a str)>,
        operation: &str,
        limit: Duration,
    ) -> Result<std::result::Result<T, String>> {
        if let Some(resource) = &self.resource {
            form.extend([("resource", resource.as_str()), ("audience", resource.as_str())]);
        }
        let (status, body) = http::post(&self.agent, address, &form, limit)?;
        if status != 200 {
            return self.error_in(status, &body, operation).map(Err);
        }
        // What serde says may have words of it.
        let odd = |_| self.fail(FailureKind::Connection, operation, "what it answers makes no sense");
        serde_json::from_slice(&body).map(Ok).map_err(odd)
    }

    /// The name of an error (RFC 6749, section 5.2). A provider that is overloaded or fails says none.
    fn error_in(&self, status: u16, body: &[u8], operation: &str) -> Result<String> {
        let told = serde_json::from_slice::<ErrorText>(body).ok().map(|told| told.error);
        let is_name = |error: &String| {
            (1..=ERROR_BYTES_MAX).contains(&error.len()) && error.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let told = told.filter(|error| (400..500).contains(&status) && status != 429 && is_name(error));
        let answers = || self.fail(FailureKind::Connection, operation, &format!("it answers {status}"));
        told.ok_or_else(answers)
    }

    fn refused(&self, error: &str, operation: &str) -> Failure {
        let why = match error {
            // The second is Entra's.
            "access_denied" | "authorization_declined" => "it was refused there".to_owned(),
            "expired_token" => "nobody approved it in time: begin again".to_owned(),
            "invalid_client" | "unauthorized_client" => {
                format!("it has no such client without a secret, or none that may do this: `{}`", self.client)
            }
            "invalid_target" => {
                let asked = self.resource.as_deref().unwrap_or("none");
                format!("it gives no tokens for the resource that is asked for: `{asked}`")
            }
            other => format!("it answers `{other}`"),
        };
        self.fail(FailureKind::Permission, operation, &why)
    }

    fn fail(&self, kind: FailureKind, operation: &str, why: &str) -> Failure {
        Failure::new(kind, operation, format!("`{}`: {why}", self.issuer))
    }
}

impl Pace {
    /// That which the provider asks for.
    pub fn of(asked: &Asked) -> Pace {
        let interval = asked.interval.clamp(Duration::from_secs(1), INTERVAL_MAX);
        Pace { asked: interval, interval }
    }

    /// How long to wait.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// It was asked too soon.
    pub fn slow_down(&mut self) {
        self.asked = (self.asked + INTERVAL).min(INTERVAL_MAX);
        self.interval = self.asked;
    }

    /// It answered: what it was left alone for before is over.
    pub fn answered(&mut self) {
        self.interval = self.asked;
    }

    /// It did not answer.
    pub fn back_off(&mut self) {
        self.interval = (self.interval * 2).min(INTERVAL_MAX);
    }
}

/// A time in seconds, which some providers tell as text.
fn seconds(told: Option<&Value>) -> Option<Duration> {
    let told = told?;
    let seconds = told.as_u64().or_else(|| told.as_str()?.parse().ok())?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests;
