//! Tokens good and bad, of a small provider in this process.

use super::*;
use crate::http::DOCUMENT_BYTES_MAX;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_mover::testing::{Answer, Asked, Service};
use thalweg_sys::clock::unix_seconds;

const AUDIENCE: &str = "https://data.example.org";

/// A key of a provider, with its number.
struct Key {
    number: &'static str,
    private: EncodingKey,
    algorithm: Algorithm,
}

impl Key {
    fn of_p256(number: &'static str) -> Key {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let private = EncodingKey::from_ec_der(made.unwrap().as_ref());
        Key { number, private, algorithm: Algorithm::ES256 }
    }

    fn of_ed25519(number: &'static str) -> Key {
        let made = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new());
        let private = EncodingKey::from_ed_der(made.unwrap().as_ref());
        Key { number, private, algorithm: Algorithm::EdDSA }
    }

    /// As a set of keys has it.
    fn public(&self) -> Value {
        let mut key = Jwk::from_encoding_key(&self.private, self.algorithm).unwrap();
        key.common.key_id = Some(self.number.to_owned());
        serde_json::to_value(key).unwrap()
    }

    fn signs(&self, claims: &Value, change: impl FnOnce(&mut Header)) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.number.to_owned());
        change(&mut header);
        encode(&header, claims, &self.private).unwrap()
    }
}

/// What it answers to each of its two questions; `None`: nothing, ever.
type Answers = Mutex<(Option<Vec<u8>>, Option<Vec<u8>>)>;

/// A provider that listens on the loopback.
struct Issuer {
    url: String,
    answers: Arc<Answers>,
    service: Service,
}

impl Issuer {
    fn new(keys: &[&Key]) -> Issuer {
        let answers = Arc::<Answers>::default();
        let told = answers.clone();
        let service = Service::start(move |asked| {
            let (document, keys) = told.lock().unwrap().clone();
            let Some(body) = (if is_discovery(asked) { document } else { keys }) else {
                std::thread::sleep(Duration::from_secs(60));
                return Answer::HangsUp;
            };
            Answer::new(200, body)
        });
        let issuer = Issuer { url: service.url(""), answers, service };
        issuer.calls_itself(&issuer.url, &format!("{}/keys", issuer.url));
        issuer.has(keys);
        issuer
    }

    fn calls_itself(&self, name: &str, keys: &str) {
        let document = json!({ "issuer": name, "jwks_uri": keys });
        self.answers.lock().unwrap().0 = Some(document.to_string().into_bytes());
    }

    fn has(&self, keys: &[&Key]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
        self.answers.lock().unwrap().1 = Some(json!({ "keys": keys }).to_string().into_bytes());
    }

    /// How often its keys were asked for.
    fn asked(&self) -> usize {
        self.service.asked().iter().filter(|asked| !is_discovery(asked)).count()
    }

    fn provider(&self) -> Provider {
        Provider::new(&self.url, vec![AUDIENCE.to_owned()]).unwrap()
    }

    fn claims(&self) -> Value {
        json!({ "iss": self.url, "aud": AUDIENCE, "sub": "alice", "exp": unix_seconds() + 600 })
    }
}

fn is_discovery(asked: &Asked) -> bool {
    asked.path() == "/.well-known/openid-configuration"
}

fn why(refused: std::result::Result<Checked, NotGood>) -> String {
    match refused.unwrap_err() {
        NotGood::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_token_of_the_provider_for_us_is_good_until_it_says() {
    let (one, two) = (Key::of_p256("one"), Key::of_ed25519("two"));
    let issuer = Issuer::new(&[&one, &two]);
    let provider = issuer.provider();
    for key in [&one, &two] {
        let claims = issuer.claims();
        let good = provider.check(&key.signs(&claims, |_| {})).unwrap();
        assert_eq!(
            (good.claims["sub"].as_str(), Some(good.expires_at)),
            (Some("alice"), claims["exp"].as_u64().map(|at| at + LEEWAY_S))
        );
    }
    let several = json!({ "aud": ["https://other", AUDIENCE] });
    let mut claims = issuer.claims();
    claims["aud"] = several["aud"].clone();
    assert!(provider.check(&one.signs(&claims, |header| header.typ = Some("at+JWT".into()))).is_ok());
    assert_eq!(issuer.asked(), 1, "keys are kept");
    assert_eq!(issuer_of(&one.signs(&claims, |_| {})).as_deref(), Some(issuer.url.as_str()));
    assert_eq!(issuer_of("x"), None);
}

#[test]
fn a_token_of_another_issuer_for_another_audience_over_or_not_yet_valid_is_not() {
    let key = Key::of_p256("one");
    let issuer = Issuer::new(&[&key]);
    let provider = issuer.provider();
    let with = |name: &str, value: Value| {
        let mut claims = issuer.claims();
        claims[name] = value;
        provider.check(&key.signs(&claims, |_| {}))
    };
    let now = unix_seconds();
    assert_eq!(with("exp", json!(now - LEEWAY_S - 10)).unwrap_err(), NotGood::Expired);
    let late = with("exp", json!(now - LEEWAY_S / 2)).unwrap();
    assert!(late.expires_at > now, "it is good for nothing that is begun");
    assert!(with("nbf", json!(now + LEEWAY_S / 2)).is_ok());
    assert!(why(with("nbf", json!(now + LEEWAY_S + 60))).contains("not valid yet"));
    for odd in [json!("https://other"), json!(["https://other"]), json!([])] {
        assert!(why(with("aud", odd)).contains("audience"));
    }
    assert!(why(with("iss", json!("https://other"))).contains("another issuer"));
    for name in ["exp", "aud", "iss"] {
        assert!(why(with(name, Value::Null)).contains(name), "{name}");
    }
    assert!(with("exp", json!("never")).is_err() && with("exp", json!(-1)).is_err());
    let thumbprint = "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2";
    for bound in [json!({ "x5t#S256": thumbprint }), json!({ "jkt": thumbprint })] {
        assert!(why(with("cnf", bound)).contains("bound to a key"));
    }
}

/// The classics of RFC 8725.
#[test]
fn a_token_that_nobody_signed_or_by_what_is_public_is_not_good() {
    let (key, other) = (Key::of_p256("one"), Key::of_p256("one"));
    let issuer = Issuer::new(&[&key]);
    let provider = issuer.provider();
    let claims = issuer.claims();
    let good = key.signs(&claims, |_| {});
    let parts: Vec<&str> = good.split('.').collect();
    // {"alg":"none"}
    for none in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJOT05FIn0"] {
        assert!(provider.check(&format!("{none}.{}.", parts[1])).is_err());
    }
    // HMAC with the public key for its secret.
    let public = serde_json::to_vec(&key.public()).unwrap();
    for secret in [public.as_slice(), key.public()["x"].as_str().unwrap().as_bytes(), b""] {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some("one".to_owned());
        let forged = encode(&header, &claims, &EncodingKey::from_secret(secret)).unwrap();
        assert!(why(provider.check(&forged)).contains("algorithm"));
    }
    assert!(why(provider.check(&other.signs(&claims, |_| {}))).contains("signature"));
    let cut = &good[..good.len() - 4];
    assert!(provider.check(cut).is_err() && provider.check(&format!("{good}x")).is_err());
    assert!(provider.check(&format!("{}.{}.{}", parts[0], parts[0], parts[2])).is_err());
    // A key in the token itself is nobody's.
    let own = serde_json::from_value(other.public()).unwrap();
    assert!(provider.check(&other.signs(&claims, |header| header.jwk = Some(own))).is_err());
    let of_kind = |kind: &str| key.signs(&claims, |header| header.typ = Some(kind.to_owned()));
    assert!(why(provider.check(&of_kind("logout+jwt"))).contains("kind"));
    let critical = key.signs(&claims, |header| header.crit = Some(vec!["b64".to_owned()]));
    assert!(why(provider.check(&critical)).contains("extension"));
    for odd in ["", ".", "..", "a.b.c", "....", "\u{e9}.\u{e9}.\u{e9}"] {
        assert!(provider.check(odd).is_err(), "{odd}");
    }
    assert!(provider.check(&good).is_ok());
}

#[test]
fn a_key_of_one_kind_is_none_for_an_algorithm_of_another() {
    let (key, ed) = (Key::of_p256("one"), Key::of_ed25519("one"));
    let issuer = Issuer::new(&[&key]);
    let provider = issuer.provider();
    assert!(why(provider.check(&ed.signs(&issuer.claims(), |_| {}))).contains("none of the provider's"));
    // Of two with one number neither counts; of one kind without a number the only one does.
    let twin = Key::of_p256("one");
    let issuer = Issuer::new(&[&key, &twin]);
    assert!(issuer.provider().check(&key.signs(&issuer.claims(), |_| {})).is_err());
    let issuer = Issuer::new(&[&key, &ed]);
    assert!(issuer.provider().check(&key.signs(&issuer.claims(), |header| header.kid = None)).is_ok());
    // A secret, or a key for encryption, that somebody published is no key.
    let mut for_encryption = key.public();
    for_encryption["use"] = json!("enc");
    let secret = json!({ "kty": "oct", "kid": "two", "k": "c2VjcmV0" });
    let keys = json!({ "keys": [for_encryption, secret] }).to_string().into_bytes();
    issuer.answers.lock().unwrap().1 = Some(keys);
    let refused = issuer.provider().check(&key.signs(&issuer.claims(), |_| {}));
    assert!(matches!(refused, Err(NotGood::Unchecked(_))), "{refused:?}");
}

#[test]
fn a_key_that_is_new_is_fetched_and_one_that_nobody_has_at_most_once_in_a_while() {
    let (old, new, nobodys) = (Key::of_p256("old"), Key::of_p256("new"), Key::of_p256("nobody's"));
    let issuer = Issuer::new(&[&old]);
    let provider = issuer.provider();
    let claims = issuer.claims();
    assert!(provider.check(&old.signs(&claims, |_| {})).is_ok());
    for _ in 0..20 {
        assert!(provider.check(&nobodys.signs(&claims, |_| {})).is_err());
    }
    assert_eq!(issuer.asked(), 1, "a stranger has us ask for keys as often as he likes");
    issuer.has(&[&new]);
    provider.keys.rest_is_over();
    assert!(provider.check(&new.signs(&claims, |_| {})).is_ok());
    assert!(provider.check(&old.signs(&claims, |_| {})).is_err(), "it was taken out");
    assert_eq!(issuer.asked(), 2);
}

/// As where a daemon reads anew whose tokens it takes.
#[test]
fn who_takes_the_place_of_a_provider_has_its_keys_and_does_not_ask_for_them_again() {
    let (key, nobodys) = (Key::of_p256("one"), Key::of_p256("nobody's"));
    let issuer = Issuer::new(&[&key]);
    let provider = issuer.provider();
    let claims = issuer.claims();
    let token = key.signs(&claims, |_| {});
    assert!(provider.check(&token).is_ok());
    let another = Provider::new(&issuer.url, vec!["other".to_owned(), AUDIENCE.to_owned()]).unwrap();
    let another = another.with_keys_of(&provider);
    drop(provider);
    assert!(another.check(&token).is_ok() && another.check(&nobodys.signs(&claims, |_| {})).is_err());
    assert_eq!(issuer.asked(), 1);
    let elsewhere = Issuer::new(&[&key]);
    let stranger = elsewhere.provider().with_keys_of(&another);
    assert!(stranger.check(&key.signs(&elsewhere.claims(), |_| {})).is_ok());
    assert_eq!(elsewhere.asked(), 1, "those of another issuer are none of its");
}

#[test]
fn claims_are_for_a_provider_that_has_one_of_their_audiences() {
    let provider = Provider::new("https://iam.example.org/", vec![AUDIENCE.to_owned()]).unwrap();
    let is_for = |audience: Value| provider.is_for(json!({ "aud": audience }).as_object().unwrap());
    assert!(is_for(json!(AUDIENCE)) && is_for(json!(["other", AUDIENCE])));
    assert!(!is_for(json!("other")) && !is_for(json!(["other"])) && !is_for(json!({ "a": AUDIENCE })));
    assert!(!provider.is_for(&Map::new()));
}

#[test]
fn while_the_provider_is_away_the_keys_that_are_there_are_good_for_a_day() {
    let key = Key::of_p256("one");
    let issuer = Issuer::new(&[&key]);
    let provider = issuer.provider();
    let token = key.signs(&issuer.claims(), |_| {});
    assert!(provider.check(&token).is_ok());
    *issuer.answers.lock().unwrap() = (Some(b"no".to_vec()), None);
    provider.keys.age(Duration::from_secs(2 * 3600));
    assert!(provider.check(&token).is_ok());
    // One that tells of no key that is good for anything is as one that is away.
    issuer.calls_itself(&issuer.url, &format!("{}/keys", issuer.url));
    issuer.has(&[]);
    provider.keys.rest_is_over();
    assert!(provider.check(&token).is_ok());
    assert_eq!(issuer.asked(), 2);
    *issuer.answers.lock().unwrap() = (Some(b"no".to_vec()), None);
    provider.keys.age(Duration::from_secs(23 * 3600));
    let refused = provider.check(&token).unwrap_err();
    assert!(
        matches!(&refused, NotGood::Unchecked(why) if why.kind == FailureKind::Connection),
        "{refused:?}"
    );
}

#[test]
fn a_provider_that_is_slow_endless_or_calls_itself_otherwise_is_given_up() {
    let key = Key::of_p256("one");
    let issuer = Issuer::new(&[&key]);
    let token = key.signs(&issuer.claims(), |_| {});
    let unchecked = || match issuer.provider().check(&token).unwrap_err() {
        NotGood::Unchecked(why) => why.to_string(),
        other => panic!("{other:?}"),
    };
    issuer.calls_itself("https://other", &format!("{}/keys", issuer.url));
    assert!(unchecked().contains("calls itself otherwise"));
    issuer.calls_itself(&format!("{}/", issuer.url), &format!("{}/keys", issuer.url));
    assert!(unchecked().contains("calls itself otherwise"));
    issuer.calls_itself(&issuer.url, "http://iam.example.org/keys");
    assert!(unchecked().contains("its keys"));
    issuer.calls_itself(&issuer.url, &format!("{}/keys", issuer.url));
    let much = usize::try_from(DOCUMENT_BYTES_MAX).unwrap() + 1;
    issuer.answers.lock().unwrap().1 = Some(vec![b' '; much]);
    unchecked();
    let many: Vec<Value> = (0..65).map(|_| key.public()).collect();
    issuer.answers.lock().unwrap().1 = Some(json!({ "keys": many }).to_string().into_bytes());
    assert!(unchecked().contains("more than 64"));
    // One that never answers is no reason to wait longer than who comes may take to be let in.
    issuer.answers.lock().unwrap().1 = None;
    let (told, hears) = std::sync::mpsc::channel();
    let (provider, token) = (issuer.provider(), token.clone());
    let began = Instant::now();
    std::thread::spawn(move || told.send(provider.check(&token)));
    let refused = hears.recv_timeout(Duration::from_secs(50)).expect("it waits without end");
    assert!(matches!(refused, Err(NotGood::Unchecked(_))), "{:?}: {refused:?}", began.elapsed());
}

#[test]
fn an_issuer_is_a_url_of_https_and_has_an_audience() {
    let audience = || vec![AUDIENCE.to_owned()];
    assert!(Provider::new("https://iam.example.org/realms/x", audience()).is_ok());
    for odd in ["", "iam.example.org", "http://iam.example.org", "ftp://h/"] {
        assert_eq!(
            Provider::new(odd, audience()).err().map(|why| why.kind),
            Some(FailureKind::Usage),
            "{odd}"
        );
    }
    assert!(Provider::new("https://h/", Vec::new()).is_err());
    assert!(Provider::new("https://h/", vec![String::new()]).is_err());
}
