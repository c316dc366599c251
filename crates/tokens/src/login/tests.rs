//! Logins at a small provider in this process, which answers each question as it was told.

use super::*;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use thalweg_mover::testing::{Answer, Service};

/// Statuses and bodies.
type Answers = Arc<Mutex<VecDeque<(u16, String)>>>;

struct Issuer {
    url: String,
    answers: Answers,
    service: Service,
}

impl Issuer {
    fn new() -> Issuer {
        let answers = Answers::default();
        let told = answers.clone();
        let service = Service::start(move |asked| {
            let (status, body) = told.lock().unwrap().pop_front().unwrap_or((500, String::new()));
            let answer = Answer::new(status, body);
            if status == 302 { answer.with("location", format!("{}/elsewhere", asked.here)) } else { answer }
        });
        Issuer { url: service.url(""), answers, service }
    }

    fn will_answer(&self, status: u16, body: &Value) {
        self.answers.lock().unwrap().push_back((status, body.to_string()));
    }

    fn discovery(&self) -> Value {
        let url = &self.url;
        json!({
            "issuer": url, "token_endpoint": format!("{url}/token"),
            "device_authorization_endpoint": format!("{url}/device"),
            "revocation_endpoint": format!("{url}/revoke"),
        })
    }

    /// A login there.
    fn login(&self) -> Login {
        self.will_answer(200, &self.discovery());
        Login::find(&self.url, "thalweg").unwrap()
    }

    fn asked(&self) -> Value {
        json!({
            "device_code": "a-device-code", "user_code": "WDJB-MJHT",
            "verification_uri": format!("{}/approve", self.url), "expires_in": 600,
        })
    }

    /// The path that was asked last, and the form behind a space.
    fn last_heard(&self) -> String {
        let asked = self.service.asked();
        asked.last().map(|asked| format!("{} {}", asked.path(), asked.body)).unwrap_or_default()
    }

    /// Whether somebody went where an answer of 302 leads.
    fn led_elsewhere(&self) -> bool {
        self.service.asked().iter().any(|asked| asked.path().starts_with("/elsewhere"))
    }
}

fn error(name: &str) -> Value {
    json!({ "error": name, "error_description": "words of the provider" })
}

fn granted(refresh: Option<&str>) -> Value {
    json!({
        "access_token": "an-access-token", "token_type": "Bearer", "expires_in": 300, "refresh_token": refresh,
    })
}

#[test]
fn a_code_is_asked_for_until_it_is_approved() {
    let issuer = Issuer::new();
    let login = issuer.login();
    issuer.will_answer(200, &issuer.asked());
    let asked = login.begin(&["openid".to_owned(), "storage.read:/".to_owned()]).unwrap();
    assert_eq!(issuer.last_heard(), "/device client_id=thalweg&scope=openid+storage.read%3A%2F");
    assert_eq!((asked.user_code.as_str(), asked.lasts), ("WDJB-MJHT", Duration::from_secs(600)));
    assert_eq!(asked.address, format!("{}/approve", issuer.url));
    assert!(asked.address_with_code.is_none());
    issuer.will_answer(400, &error("authorization_pending"));
    assert!(matches!(login.poll(&asked), Ok(Polled::Pending)));
    let heard = issuer.last_heard();
    for part in ["/token ", "device_code=a-device-code", "grant-type%3Adevice_code", "client_id=thalweg"] {
        assert!(heard.contains(part), "{part}: {heard}");
    }
    issuer.will_answer(400, &error("slow_down"));
    assert!(matches!(login.poll(&asked), Ok(Polled::TooSoon)));
    issuer.will_answer(200, &granted(Some("a-refresh-token")));
    let Ok(Polled::Granted(given)) = login.poll(&asked) else { panic!("it is granted") };
    assert_eq!(given.access.as_str(), "an-access-token");
    assert_eq!(given.lasts, Duration::from_secs(300));
    assert_eq!(given.refresh.map(|token| token.as_str().to_owned()).as_deref(), Some("a-refresh-token"));
}

#[test]
fn who_refuses_or_comes_too_late_hears_so_and_a_provider_that_fails_is_asked_again() {
    let issuer = Issuer::new();
    let login = issuer.login();
    issuer.will_answer(200, &issuer.asked());
    let asked = login.begin(&[]).unwrap();
    assert_eq!(issuer.last_heard(), "/device client_id=thalweg");
    let over = |status: u16, answer: &Value| {
        issuer.will_answer(status, answer);
        login.poll(&asked).unwrap_err()
    };
    for (name, why) in [
        ("access_denied", "refused there"),
        ("authorization_declined", "refused there"),
        ("expired_token", "in time"),
        ("invalid_client", "no such client"),
        ("odd_one", "`odd_one`"),
    ] {
        let failure = over(400, &error(name));
        assert_eq!(failure.kind, FailureKind::Permission, "{failure}");
        assert!(failure.cause.contains(why) && !failure.cause.contains("a-device-code"), "{failure}");
    }
    let not_now = [(503, error("temporarily_unavailable")), (429, error("slow_down")), (302, Value::Null)];
    let no_sense = [
        (200, json!({ "access_token": "two words", "token_type": "bearer" })),
        (400, error("escape\u{1b}[31m")),
        (400, json!([])),
    ];
    for (status, answer) in not_now.into_iter().chain(no_sense) {
        let failure = over(status, &answer);
        assert_eq!(failure.kind, FailureKind::Connection, "{failure}");
        assert!(!failure.to_string().contains("two words"), "{failure}");
    }
    assert!(!issuer.led_elsewhere(), "a form was sent where an answer leads");
    // A key of the client's own goes with these.
    let bound = json!({ "access_token": "bound", "token_type": "DPoP" });
    assert_eq!(over(200, &bound).kind, FailureKind::Unsupported);
}

#[test]
fn questions_come_as_seldom_as_a_provider_asks_for_and_never_more_seldom_than_once_a_minute() {
    let issuer = Issuer::new();
    let login = issuer.login();
    let pace = |interval: Value| {
        let mut asked = issuer.asked();
        asked["interval"] = interval;
        issuer.will_answer(200, &asked);
        Pace::of(&login.begin(&[]).unwrap())
    };
    let waits = |pace: &Pace| pace.interval().as_secs();
    assert_eq!(waits(&pace(Value::Null)), 5);
    assert_eq!(waits(&pace(json!("7"))), 7);
    assert_eq!((waits(&pace(json!(0))), waits(&pace(json!(86_400)))), (1, 60));
    let mut pace = pace(json!(5));
    pace.slow_down();
    assert_eq!(waits(&pace), 10);
    pace.back_off();
    assert_eq!(waits(&pace), 20);
    // What it was asked to keep to stays.
    pace.answered();
    assert_eq!(waits(&pace), 10);
    (0..10).for_each(|_| pace.back_off());
    assert_eq!(waits(&pace), 60);
}

#[test]
fn nobody_is_asked_to_open_or_type_what_is_odd() {
    let issuer = Issuer::new();
    let login = issuer.login();
    for (field, odd) in [
        ("verification_uri", json!("http://phish.example.org/")),
        ("verification_uri", json!("file:///etc/passwd")),
        ("verification_uri", json!(format!("https://h/{}", "x".repeat(ADDRESS_BYTES_MAX)))),
        ("user_code", json!("A\u{1b}[31m")),
        ("user_code", json!("")),
        ("device_code", json!("two words")),
    ] {
        let mut asked = issuer.asked();
        asked[field] = odd.clone();
        issuer.will_answer(200, &asked);
        assert_eq!(login.begin(&[]).unwrap_err().kind, FailureKind::Connection, "{odd}");
    }
    let mut asked = issuer.asked();
    asked["verification_uri_complete"] = json!("http://phish.example.org/");
    asked["expires_in"] = json!(u64::MAX);
    issuer.will_answer(200, &asked);
    let asked = login.begin(&[]).unwrap();
    assert_eq!((asked.address_with_code, asked.lasts), (None, APPROVAL_MAX));
}

#[test]
fn a_provider_with_tls_has_nobody_open_a_page_without() {
    let issuer = Issuer::new();
    // As one that is reached by TLS, for which it would need a certificate.
    let login = Login { issuer: "https://iam.example.org/".to_owned(), ..issuer.login() };
    let asked = |plain: &str, with_code: &str| {
        let mut asked = issuer.asked();
        asked["verification_uri"] = json!(plain);
        asked["verification_uri_complete"] = json!(with_code);
        issuer.will_answer(200, &asked);
        login.begin(&[])
    };
    let (secure, near) = ("https://iam.example.org/approve", "http://127.0.0.1:1/approve");
    assert_eq!(asked(near, secure).unwrap_err().kind, FailureKind::Connection);
    assert_eq!(asked(secure, near).unwrap().address_with_code, None);
    assert_eq!(asked(secure, secure).unwrap().address_with_code.as_deref(), Some(secure));
}

#[test]
fn what_the_tokens_are_for_is_said_with_each_question_for_one() {
    let issuer = Issuer::new();
    let login = issuer.login().asking_for(Some("https://data.example.org"));
    let refresh = Token::from_bytes(b"a-refresh-token").unwrap();
    let said = || {
        let heard = issuer.last_heard();
        for name in ["resource", "audience"] {
            let part = format!("&{name}=https%3A%2F%2Fdata.example.org");
            assert!(heard.contains(&part), "{heard}");
        }
    };
    issuer.will_answer(200, &issuer.asked());
    let asked = login.begin(&[]).unwrap();
    said();
    issuer.will_answer(400, &error("authorization_pending"));
    assert!(matches!(login.poll(&asked), Ok(Polled::Pending)));
    said();
    issuer.will_answer(200, &granted(None));
    login.refresh(&refresh).unwrap();
    said();
    issuer.will_answer(400, &error("invalid_target"));
    let refused = login.poll(&asked).unwrap_err();
    assert!(refused.cause.contains("`https://data.example.org`"), "{refused}");
}

#[test]
fn a_provider_that_calls_itself_otherwise_or_has_no_such_logins_is_refused() {
    let issuer = Issuer::new();
    let mut other = issuer.discovery();
    other["issuer"] = json!("https://iam.example.org/");
    issuer.will_answer(200, &other);
    let refused = Login::find(&issuer.url, "thalweg").map(|_| ()).unwrap_err();
    assert!(refused.cause.contains("calls itself otherwise"), "{refused}");
    issuer.will_answer(302, &Value::Null);
    assert!(Login::find(&issuer.url, "thalweg").is_err() && !issuer.led_elsewhere());
    let mut elsewhere = issuer.discovery();
    elsewhere["token_endpoint"] = json!("http://iam.example.org/token");
    issuer.will_answer(200, &elsewhere);
    assert!(Login::find(&issuer.url, "thalweg").is_err());
    assert!(Login::find("http://iam.example.org/", "thalweg").is_err());
    let mut without = issuer.discovery();
    without["device_authorization_endpoint"] = Value::Null;
    issuer.will_answer(200, &without);
    let login = Login::find(&issuer.url, "thalweg").unwrap();
    assert_eq!(login.begin(&[]).unwrap_err().kind, FailureKind::Unsupported);
}

#[test]
fn another_token_is_had_by_the_login_until_that_is_over_or_taken_back() {
    let issuer = Issuer::new();
    let login = issuer.login();
    let refresh = Token::from_bytes(b"a-refresh-token").unwrap();
    issuer.will_answer(200, &granted(Some("another")));
    let given = login.refresh(&refresh).unwrap();
    assert_eq!(given.refresh.map(|token| token.as_str().to_owned()).as_deref(), Some("another"));
    assert!(issuer.last_heard().contains("refresh_token=a-refresh-token"), "{}", issuer.last_heard());
    // Some say by an empty text that there is none.
    for none in [None, Some("")] {
        issuer.will_answer(200, &granted(none));
        assert!(login.refresh(&refresh).unwrap().refresh.is_none());
    }
    issuer.will_answer(400, &error("invalid_grant"));
    let over = login.refresh(&refresh).unwrap_err();
    assert_eq!((over.kind, over.reason), (FailureKind::Permission, Reason::TokenNotTaken));
    assert!(over.cause.contains("thalweg login") && !over.to_string().contains("a-refresh-token"), "{over}");
    issuer.will_answer(200, &Value::Null);
    assert!(login.revoke(&refresh, true).unwrap());
    let heard = issuer.last_heard();
    assert!(heard.starts_with("/revoke ") && heard.contains("token_type_hint=refresh_token"), "{heard}");
    issuer.will_answer(503, &Value::Null);
    assert_eq!(login.revoke(&refresh, true).unwrap_err().kind, FailureKind::Connection);
    let mut without = issuer.discovery();
    without["revocation_endpoint"] = Value::Null;
    issuer.will_answer(200, &without);
    assert!(!Login::find(&issuer.url, "thalweg").unwrap().revoke(&refresh, true).unwrap());
}
