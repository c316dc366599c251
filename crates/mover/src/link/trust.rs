//! Whom we accept. What is not accepted here is refused: there is no case that lets somebody in by default.
//!
//! A pinned peer is known by its certificate's fingerprint and by nothing else: names, dates and usages in a
//! certificate that signs itself are the peer's own words. TLS 1.3 makes the peer prove that it has the key.

use super::identity::Fingerprint;
use super::tls::provider;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Which server a client accepts.
#[derive(Debug, Clone)]
pub enum ServerTrust {
    /// The one with this certificate.
    Pinned(Fingerprint),
    /// One with a certificate of a set that may change while it is used: a far mover that is started anew has a new
    /// one.
    PinnedAnyOf(Pins),
}

/// Which clients a server accepts: those pinned, and those in a register. Without any of these nobody.
#[derive(Debug, Clone, Default)]
pub struct ClientTrust {
    /// Certificates known one by one; may change while the server runs.
    pub pinned: Pins,
    /// Who else is known.
    pub register: Option<Arc<dyn Register>>,
}

/// Certificates that are known besides those pinned, looked up when one comes.
pub trait Register: fmt::Debug + Send + Sync {
    /// Whether a client with this certificate may finish its handshake. What it may do then, and whether it is told
    /// that it may not come in any more, is not decided here. Called within the handshake: it does not wait long.
    fn knows(&self, certificate: &Fingerprint) -> bool;

    /// Whether a client that it does not know may finish its handshake as well, because it may show a token then.
    fn takes_tokens(&self) -> bool {
        false
    }
}

/// A set of fingerprints that may change while it is used. A clone is the same set.
///
/// A change counts for handshakes that begin after it. Whoever removes a pin also ends the sessions of its owner.
#[derive(Debug, Clone, Default)]
pub struct Pins(Arc<RwLock<HashSet<Fingerprint>>>);

impl Pins {
    /// No pins.
    pub fn new() -> Pins {
        Pins::default()
    }

    /// Adds one; false if it was there.
    pub fn insert(&self, fingerprint: Fingerprint) -> bool {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(fingerprint)
    }

    /// Removes one; false if it was not there.
    pub fn remove(&self, fingerprint: &Fingerprint) -> bool {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(fingerprint)
    }

    /// Puts the whole set in place of the old one.
    pub fn replace(&self, fingerprints: impl IntoIterator<Item = Fingerprint>) {
        let set: HashSet<_> = fingerprints.into_iter().collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = set;
    }

    /// Whether it is there.
    ///
    /// The look-up is by a keyed hash of the fingerprint, which is itself a hash, so that its time tells nothing about
    /// the fingerprints in the set.
    pub fn contains(&self, fingerprint: &Fingerprint) -> bool {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(fingerprint)
            .is_some_and(|pin| pin.matches(fingerprint))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<Fingerprint> for Pins {
    fn from_iter<I: IntoIterator<Item = Fingerprint>>(fingerprints: I) -> Pins {
        Pins(Arc::new(RwLock::new(fingerprints.into_iter().collect())))
    }
}

impl ServerTrust {
    /// What rustls asks.
    pub(super) fn verifier(&self) -> Arc<dyn ServerCertVerifier> {
        let pins: Pins = match self {
            ServerTrust::Pinned(fingerprint) => [*fingerprint].into_iter().collect(),
            ServerTrust::PinnedAnyOf(pins) => pins.clone(),
        };
        Arc::new(ServerVerifier { pins, algorithms: provider().signature_verification_algorithms })
    }
}

impl ClientTrust {
    /// What rustls asks.
    pub(super) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        let algorithms = provider().signature_verification_algorithms;
        let (pinned, register) = (self.pinned.clone(), self.register.clone());
        Arc::new(ClientVerifier { pinned, register, algorithms })
    }
}

#[derive(Debug)]
struct ServerVerifier {
    pins: Pins,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.pins.contains(&Fingerprint::of(end_entity)) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(not_pinned()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[derive(Debug)]
struct ClientVerifier {
    pinned: Pins,
    register: Option<Arc<dyn Register>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        true
    }

    /// No hints: there are no authorities.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let certificate = Fingerprint::of(end_entity);
        let is_let_in =
            |register: &Arc<dyn Register>| register.knows(&certificate) || register.takes_tokens();
        match self.pinned.contains(&certificate) || self.register.as_ref().is_some_and(is_let_in) {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(not_pinned()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The peer is told `access_denied`, whatever the reason.
fn not_pinned() -> Error {
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
}

fn no_tls12() -> Error {
    Error::General("TLS 1.2 is not spoken".to_owned())
}
