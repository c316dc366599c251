//! Who a mover is: an Ed25519 key and a certificate of it.
//!
//! A key may authenticate TLS and sign receipts. The two cannot be confused: what TLS 1.3 signs begins with
//! 64 spaces (RFC 8446, 4.4.3), what a receipt signs begins with its context line.
//!
//! A certificate made here is signed by itself and has no end date; it is trusted by its [`Fingerprint`], never by
//! its name or dates. One that an authority signed can be loaded instead, as long as its key is Ed25519.
//!
//! Secrets are overwritten when dropped and are in no `Debug`. Not covered: memory that the allocator or the
//! kernel copied, and core files.

use super::secret_file;
use crate::{Failure, FailureKind, Result};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use thalweg_wire::receipt::Signatory;
use zeroize::Zeroizing;

/// Longest name in a certificate: what X.520 gives a common name.
pub const NAME_CHARS_MAX: usize = 64;
/// Largest identity file. A key and a chain of certificates have a few KiB.
pub(crate) const IDENTITY_BYTES_MAX: usize = 64 << 10;
/// Longest chain of certificates in an identity.
const CHAIN_MAX: usize = 8;

/// SHA-256 of a certificate's DER: what a pinned peer is known by. Not a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Fingerprint(bytes)
    }

    /// Compares in a time that does not depend on where the two differ.
    pub fn matches(&self, other: &Fingerprint) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

/// 64 hexadecimal digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = Failure;

    /// Reads 64 hexadecimal digits of either case; `Usage` for anything else.
    fn from_str(text: &str) -> Result<Fingerprint> {
        let digits: &[u8; 64] = text
            .as_bytes()
            .try_into()
            .map_err(|_| usage("read fingerprint", "a fingerprint has 64 hexadecimal digits"))?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let value = |digit: u8| char::from(digit).to_digit(16);
            let (Some(high), Some(low)) = (value(pair[0]), value(pair[1])) else {
                return Err(usage("read fingerprint", "a fingerprint has hexadecimal digits only"));
            };
            *byte = (high << 4 | low) as u8;
        }
        Ok(Fingerprint(bytes))
    }
}

/// A key and its certificate.
pub struct Identity {
    /// PKCS #8, as it is written to files and given to rustls.
    pkcs8: Zeroizing<Vec<u8>>,
    signer: Ed25519KeyPair,
    /// Our certificate first, then those that lead to its authority, if there is one.
    chain: Vec<CertificateDer<'static>>,
    /// It was read from where it stays, or put there.
    is_kept: bool,
}

impl Identity {
    /// Makes a new key and a certificate of it that calls it `name` (for people; nothing is decided by it).
    ///
    /// # Errors
    /// `Usage` for a name that is empty or longer than [`NAME_CHARS_MAX`] characters; `Internal` if the system has no
    /// randomness.
    pub fn generate(name: &str) -> Result<Identity> {
        if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || name.chars().any(char::is_control) {
            return Err(usage("make identity", "a name has 1 to 64 printable characters"));
        }
        let random = aws_lc_rs::rand::SystemRandom::new();
        let document =
            Ed25519KeyPair::generate_pkcs8(&random).map_err(|_| internal("no key could be made"))?;
        let pkcs8 = Zeroizing::new(document.as_ref().to_vec());
        let signer = signer_of(&pkcs8)?;
        let certificate = certificate_of(&signer, name)?;
        Ok(Identity { pkcs8, signer, chain: vec![certificate], is_kept: false })
    }

    /// Fingerprint of our own certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }

    /// Who signs with it. One that was made and kept nowhere is ephemeral.
    pub fn signatory(&self) -> Signatory {
        Signatory { certificate: self.fingerprint().0, is_ephemeral: !self.is_kept }
    }

    /// The same once more.
    ///
    /// # Errors
    /// None that is to be expected: those of [`Identity::from_pem`].
    pub fn copied(&self) -> Result<Identity> {
        Ok(Identity { is_kept: self.is_kept, ..Identity::from_pem(&self.to_pem())? })
    }

    /// Our certificate first, then those that lead to its authority.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The Ed25519 public key that [`Identity::sign`] signs for.
    pub fn public_key(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.signer.public_key().as_ref());
        bytes
    }

    /// Signs a message; 64 bytes. The message begins with a line that says what it is, see the head of this module.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.signer.sign(message).as_ref().to_vec()
    }

    /// Key and certificates as PEM. A secret.
    pub fn to_pem(&self) -> Zeroizing<String> {
        let mut out = Zeroizing::new(String::with_capacity(4096));
        pem_block("PRIVATE KEY", &self.pkcs8, &mut out);
        for certificate in &self.chain {
            pem_block("CERTIFICATE", certificate, &mut out);
        }
        out
    }

    /// The certificates alone as PEM. No secret: what others know us by.
    pub fn certificates_pem(&self) -> String {
        let mut out = String::new();
        for certificate in &self.chain {
            pem_block("CERTIFICATE", certificate, &mut out);
        }
        out
    }

    /// Reads what [`Identity::to_pem`] wrote: one PKCS #8 Ed25519 key, then its certificate and at most seven more.
    ///
    /// # Errors
    /// `Usage` if that is not what it is, or if the key is not the certificate's.
    pub fn from_pem(pem: &str) -> Result<Identity> {
        let refuse = |why: &str| usage("read identity", why);
        if pem.len() > IDENTITY_BYTES_MAX {
            return Err(refuse("it is too large"));
        }
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes())
            .map(Zeroizing::new)
            .map_err(|_| refuse("there is no PKCS #8 private key in it"))?;
        let pkcs8 = Zeroizing::new(key.secret_pkcs8_der().to_vec());
        let signer = signer_of(&pkcs8)?;
        let chain = CertificateDer::pem_slice_iter(pem.as_bytes())
            .take(CHAIN_MAX + 1)
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|_| refuse("a certificate in it is damaged"))?;
        if chain.is_empty() || chain.len() > CHAIN_MAX {
            return Err(refuse("it has no certificate, or more than 8"));
        }
        let identity = Identity { pkcs8, signer, chain, is_kept: true };
        identity.certified_key()?.keys_match().map_err(|_| refuse("the key is not the certificate's"))?;
        Ok(identity)
    }

    /// Reads the identity at `path`, or makes one called `name` and writes it there with mode 0600.
    ///
    /// The file appears whole and durable or not at all. When two processes do this at once, both get the same
    /// identity.
    ///
    /// # Errors
    /// `Permission` for a file that others may read, `Usage` for one that is no identity, else what the file system
    /// said.
    pub fn load_or_create(path: &Path, name: &str) -> Result<Identity> {
        match Identity::load(path) {
            Err(failure) if failure.kind == FailureKind::NotFound => {}
            other => return other,
        }
        let identity = Identity::generate(name)?;
        match secret_file::create(path, identity.to_pem().as_bytes()) {
            Ok(()) => Ok(Identity { is_kept: true, ..identity }),
            Err(failure) if failure.kind == FailureKind::Conflict => Identity::load(path),
            Err(failure) => Err(failure),
        }
    }

    /// Reads the identity at `path`.
    ///
    /// # Errors
    /// As [`Identity::load_or_create`], and `NotFound`.
    pub fn load(path: &Path) -> Result<Identity> {
        let bytes = secret_file::read(path, IDENTITY_BYTES_MAX)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| usage("read identity", "it is not text"))?;
        Identity::from_pem(text)
    }

    /// Key and certificates as rustls takes them, without a copy of the key that nobody would overwrite.
    pub(super) fn certified_key(&self) -> Result<CertifiedKey> {
        let key = PrivatePkcs8KeyDer::from(self.pkcs8.as_slice());
        let key = rustls::crypto::aws_lc_rs::sign::any_eddsa_type(&key)
            .map_err(|_| usage("read identity", "the key is not Ed25519"))?;
        Ok(CertifiedKey::new(self.chain.clone(), key))
    }
}

/// Fingerprint only.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

/// Whether `signature` is one of `message` by the owner of `public_key`. False for keys and signatures of any odd form.
pub fn verify_signature(public_key: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public_key).verify(message, signature).is_ok()
}

/// The Ed25519 public key of a certificate; `None` if it is no certificate or has another kind of key. Says nothing
/// about who signed the certificate.
pub fn public_key_of(certificate: &[u8]) -> Option<[u8; 32]> {
    let certificate = CertificateDer::from(certificate);
    let parsed = webpki::EndEntityCert::try_from(&certificate).ok()?;
    parsed.subject_public_key_info().strip_prefix(&ED25519_KEY_INFO)?.try_into().ok()
}

/// What stands in front of the 32 bytes of an Ed25519 key in a certificate (RFC 8410, section 4): lengths and the
/// algorithm, without parameters.
const ED25519_KEY_INFO: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

fn signer_of(pkcs8: &[u8]) -> Result<Ed25519KeyPair> {
    Ed25519KeyPair::from_pkcs8(pkcs8).map_err(|_| usage("read identity", "the key is not Ed25519"))
}

/// rcgen signs through this, so that it never holds a copy of the key.
struct Signing<'a>(&'a Ed25519KeyPair);

impl rcgen::PublicKeyData for Signing<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}

impl rcgen::SigningKey for Signing<'_> {
    fn sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, rcgen::Error> {
        Ok(self.0.sign(message).as_ref().to_vec())
    }
}

fn certificate_of(signer: &Ed25519KeyPair, name: &str) -> Result<CertificateDer<'static>> {
    use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyUsagePurpose};
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let certificate =
        params.self_signed(&Signing(signer)).map_err(|_| internal("no certificate could be made"))?;
    Ok(certificate.der().clone())
}

/// One PEM block (RFC 7468): lines of 64 characters.
fn pem_block(label: &str, der: &[u8], out: &mut String) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push_str(&format!("-----BEGIN {label}-----\n"));
    // 48 bytes make a full line.
    for line in der.chunks(48) {
        for group in line.chunks(3) {
            let bits =
                group.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
            for at in 0..4 {
                let digit = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
                out.push(if at <= group.len() { char::from(digit) } else { '=' });
            }
        }
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
}

fn usage(operation: &str, why: &str) -> Failure {
    Failure::new(FailureKind::Usage, operation, why)
}

fn internal(why: &str) -> Failure {
    Failure::new(FailureKind::Internal, "make identity", why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_identity_comes_back_from_its_pem() {
        let made = Identity::generate("laptop of Åsa").unwrap();
        let read = Identity::from_pem(&made.to_pem()).unwrap();
        assert_eq!(read.fingerprint(), made.fingerprint());
        assert_eq!(read.public_key(), made.public_key());
        let signature = read.sign(b"thalweg test\nhello");
        assert!(verify_signature(&made.public_key(), b"thalweg test\nhello", &signature));
    }

    #[test]
    fn two_identities_of_one_name_are_two() {
        let (one, two) = (Identity::generate("a").unwrap(), Identity::generate("a").unwrap());
        assert_ne!(one.fingerprint(), two.fingerprint());
        assert_ne!(one.public_key(), two.public_key());
    }

    #[test]
    fn a_signature_of_other_bytes_or_another_key_or_another_length_is_none() {
        let (one, two) = (Identity::generate("a").unwrap(), Identity::generate("b").unwrap());
        let signature = one.sign(b"message");
        assert!(verify_signature(&one.public_key(), b"message", &signature));
        assert!(!verify_signature(&one.public_key(), b"messagf", &signature));
        assert!(!verify_signature(&two.public_key(), b"message", &signature));
        for length in 0..signature.len() {
            assert!(!verify_signature(&one.public_key(), b"message", &signature[..length]));
        }
        assert!(!verify_signature(&[0; 32], b"message", &[0; 64]));
    }

    #[test]
    fn the_key_of_one_with_the_certificate_of_another_is_refused() {
        let (one, two) = (Identity::generate("a").unwrap(), Identity::generate("b").unwrap());
        let (one, two) = (one.to_pem(), two.to_pem());
        let split = |pem: &str| pem.find("-----BEGIN CERTIFICATE").unwrap();
        let mixed = format!("{}{}", &one[..split(&one)], &two[split(&two)..]);
        assert_eq!(Identity::from_pem(&mixed).unwrap_err().kind, FailureKind::Usage);
    }

    #[test]
    fn what_is_no_identity_is_refused_without_a_panic() {
        let good = Identity::generate("a").unwrap().to_pem();
        let key_only = &good[..good.find("-----BEGIN CERTIFICATE").unwrap()];
        let certificate_only = &good[good.find("-----BEGIN CERTIFICATE").unwrap()..];
        let nine = format!("{key_only}{}", certificate_only.repeat(9));
        for bad in ["", "hello", key_only, certificate_only, &nine, &"x".repeat(IDENTITY_BYTES_MAX + 1)] {
            assert_eq!(Identity::from_pem(bad).unwrap_err().kind, FailureKind::Usage);
        }
        for cut in 0..good.len() - 1 {
            let _ = Identity::from_pem(&good[..cut]);
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let identity = Identity::generate("a").unwrap();
        let shown = format!("{identity:?}");
        assert_eq!(shown, format!("Identity {{ fingerprint: {:?}, .. }}", identity.fingerprint()));
    }

    #[test]
    fn a_fingerprint_is_64_hexadecimal_digits_and_nothing_else() {
        let fingerprint = Identity::generate("a").unwrap().fingerprint();
        assert_eq!(fingerprint.to_string().parse::<Fingerprint>().unwrap(), fingerprint);
        assert_eq!(fingerprint.to_string().to_uppercase().parse::<Fingerprint>().unwrap(), fingerprint);
        for bad in
            ["", "00", &"g".repeat(64), &"0".repeat(63), &"0".repeat(65), &"+1".repeat(32), &"é".repeat(32)]
        {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_short_and_printable() {
        for bad in ["", "a\nb", &"x".repeat(65)] {
            assert_eq!(Identity::generate(bad).unwrap_err().kind, FailureKind::Usage);
        }
    }

    #[test]
    fn an_identity_file_is_made_once_for_its_owner_alone_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity.pem");
        let made = Identity::load_or_create(&path, "a").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(Identity::load_or_create(&path, "a").unwrap().fingerprint(), made.fingerprint());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left behind");
    }

    #[test]
    fn an_identity_file_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity.pem");
        Identity::load_or_create(&path, "a").unwrap();
        for mode in [0o640, 0o604, 0o660, 0o601] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let failure = Identity::load_or_create(&path, "a").unwrap_err();
            assert_eq!(failure.kind, FailureKind::Permission);
            assert!(failure.cause.contains("chmod 600"), "{failure}");
        }
    }

    #[test]
    fn threads_that_create_at_once_get_one_identity() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity.pem");
        let prints: Vec<Fingerprint> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| Identity::load_or_create(&path, "a").unwrap().fingerprint()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(prints.iter().all(|print| *print == prints[0]));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
