//! Logins at a small provider in this process.

use super::*;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use thalweg_mover::testing::{self, Service};

/// A provider on the loopback: each refresh token is good once, and each code is approved at once.
struct Provider {
    url: String,
    service: Service,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// How often a token was refreshed.
    refreshed: Mutex<u64>,
    /// What is done before the next refresh is answered.
    meanwhile: Mutex<Option<Meanwhile>>,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

impl Provider {
    fn new() -> Provider {
        let state = Arc::<State>::default();
        let kept = state.clone();
        let service = Service::start(move |asked| answer(asked, &kept));
        Provider { url: service.url(""), service, state }
    }

    fn refreshed(&self) -> u64 {
        *self.state.refreshed.lock().unwrap()
    }

    /// The places where forms came, and what was taken back there, in order.
    fn heard(&self) -> Vec<String> {
        let asked = self.service.asked();
        let forms = asked.iter().filter(|asked| asked.line.starts_with("POST "));
        let shown = |asked: &testing::Asked| {
            let token = asked.body.split('&').find_map(|pair| pair.strip_prefix("token="));
            token.map_or_else(|| asked.path().to_owned(), |token| format!("{} {token}", asked.path()))
        };
        forms.map(shown).collect()
    }

    fn meanwhile(&self, work: impl FnOnce() + Send + 'static) {
        *self.state.meanwhile.lock().unwrap() = Some(Box::new(work));
    }

    fn account(&self, state: &Path) -> Account {
        account(&self.url, state)
    }
}

fn account(url: &str, state: &Path) -> Account {
    let client = Some("thalweg".into());
    let issuer = Issuer { url: url.to_owned(), client, scopes: Vec::new(), resource: None };
    Account::at(&issuer, Fingerprint([7; 32]), state).unwrap()
}

/// A status and what is said.
fn answer(asked: &testing::Asked, state: &State) -> (u16, String) {
    let (url, form) = (&asked.here, &asked.body);
    let mut refreshed = state.refreshed.lock().unwrap();
    let given = |number: u64| {
        json!({
            "access_token": format!("access-{number}"), "token_type": "Bearer", "expires_in": 600,
            "refresh_token": format!("refresh-{number}"),
        })
    };
    let (status, body) = if asked.line.starts_with("GET ") {
        let told = json!({
            "issuer": url, "token_endpoint": format!("{url}/token"),
            "device_authorization_endpoint": format!("{url}/device"),
            "revocation_endpoint": format!("{url}/revoke"),
        });
        (200, told)
    } else if asked.line == "POST /device" {
        let told = json!({
            "device_code": "a-device-code", "user_code": "WDJB-MJHT", "interval": 1, "expires_in": 600,
            "verification_uri": format!("{url}/approve"),
        });
        (200, told)
    } else if form.contains("device_code=a-device-code") {
        (200, given(*refreshed))
    } else if asked.line == "POST /revoke" {
        (200, Value::Null)
    } else if form.contains(&format!("refresh_token=refresh-{refreshed}&")) {
        *refreshed += 1;
        if let Some(work) = state.meanwhile.lock().unwrap().take() {
            work();
        }
        (200, given(*refreshed))
    } else {
        (400, json!({ "error": "invalid_grant" }))
    };
    (status, body.to_string())
}

fn kept(lasts_s: u64, refresh: Option<&[u8]>) -> Kept {
    let token = |text| Token::from_bytes(text).unwrap();
    let granted_at = clock::unix_seconds();
    Kept {
        access: token(b"access-0".as_slice()),
        granted_at,
        ends_at: granted_at + lasts_s,
        refresh: refresh.map(token),
    }
}

fn begin(account: &Account, kept: &Kept) {
    account.make_directory().unwrap();
    account.keep(kept).unwrap();
}

fn shown(token: Option<Token>) -> String {
    token.map_or_else(|| "none".to_owned(), |token| token.as_str().to_owned())
}

#[test]
fn a_token_that_ends_is_refreshed_once_whoever_asks_and_what_comes_is_kept_before_it_is_used() {
    let (scratch, provider) = (tempfile::tempdir().unwrap(), Provider::new());
    let account = provider.account(scratch.path());
    assert_eq!(shown(account.token().unwrap()), "none");
    begin(&account, &kept(300, Some(b"refresh-0")));
    assert_eq!(shown(account.token().unwrap()), "access-0");
    assert_eq!(provider.refreshed(), 0);
    begin(&account, &kept(30, Some(b"refresh-0")));
    // Each as a process of its own would.
    std::thread::scope(|scope| {
        let ask = || shown(provider.account(scratch.path()).token().unwrap());
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        for one in asked {
            assert_eq!(one.join().unwrap(), "access-1");
        }
    });
    assert_eq!(provider.refreshed(), 1);
    let there = account.read().unwrap().unwrap();
    assert_eq!(shown(there.refresh), "refresh-1");
    assert_eq!(shown(Some(there.access)), "access-1");
}

#[test]
fn a_token_that_cannot_be_refreshed_is_good_until_its_end_and_then_the_login_is_over() {
    let (scratch, provider) = (tempfile::tempdir().unwrap(), Provider::new());
    let account = provider.account(scratch.path());
    for refresh in [None, Some(b"spent".as_slice())] {
        begin(&account, &kept(30, refresh));
        assert_eq!(shown(account.token().unwrap()), "access-0");
        begin(&account, &kept(0, refresh));
        let over = account.token().unwrap_err();
        assert_eq!((over.kind, over.reason), (FailureKind::Permission, Reason::TokenNotTaken), "{over}");
        assert!(over.cause.contains("thalweg login"), "{over}");
    }
    // Nobody listens there.
    let away = self::account("http://127.0.0.1:1", scratch.path());
    begin(&away, &kept(30, Some(b"refresh-0")));
    assert_eq!(shown(away.token().unwrap()), "access-0");
    begin(&away, &kept(0, Some(b"refresh-0")));
    assert_eq!(away.token().unwrap_err().kind, FailureKind::Connection);
}

#[test]
fn a_provider_that_did_not_answer_is_not_asked_again_at_once() {
    let scratch = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::<Mutex<u64>>::default();
    let counts = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            *counts.lock().unwrap() += 1;
            drop(stream);
        }
    });
    let account = self::account(&url, scratch.path());
    begin(&account, &kept(30, Some(b"refresh-0")));
    assert_eq!(shown(account.token().unwrap()), "access-0");
    let at_first = *asked.lock().unwrap();
    assert!(at_first > 0);
    begin(&account, &kept(0, Some(b"refresh-0")));
    assert_eq!(account.token().unwrap_err().kind, FailureKind::Connection);
    assert_eq!(*asked.lock().unwrap(), at_first);
    // What another process had meanwhile is used.
    begin(&account, &kept(300, None));
    assert_eq!(shown(account.token().unwrap()), "access-0");
    begin(&account, &kept(0, Some(b"refresh-0")));
    *account.unanswered.lock().unwrap() = None;
    assert_eq!(account.token().unwrap_err().kind, FailureKind::Connection);
    assert!(*asked.lock().unwrap() > at_first);
}

#[test]
fn a_login_is_for_its_owner_its_account_and_its_server_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let one = account("https://iam.example.org/", scratch.path());
    let other = account("https://other.example.org/", scratch.path());
    // Its place file names the issuer and the client of the first.
    let elsewhere =
        Account { server: Fingerprint([8; 32]), ..account("https://iam.example.org/", scratch.path()) };
    begin(&one, &kept(300, None));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&one.path()), mode(&one.directory)), (0o600, 0o700));
    for not_it in [other, elsewhere] {
        assert_eq!(shown(not_it.token().unwrap()), "none");
        fs::copy(one.path(), not_it.path()).unwrap();
        let over = not_it.token().unwrap_err();
        assert_eq!((over.kind, over.reason), (FailureKind::Permission, Reason::TokenNotTaken), "{over}");
    }
    fs::set_permissions(one.path(), fs::Permissions::from_mode(0o640)).unwrap();
    let failure = one.token().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Permission);
    assert!(!failure.to_string().contains("access-0"), "{failure}");
    let longest = vec![b'x'; TOKEN_BYTES_MAX];
    let long = Kept { access: Token::from_bytes(&longest).unwrap(), ..kept(300, Some(&longest)) };
    begin(&one, &long);
    assert_eq!(one.token().unwrap(), Some(long.access));
}

#[test]
fn a_login_that_is_forgotten_is_gone_whether_or_not_its_provider_hears_of_it() {
    let (scratch, provider) = (tempfile::tempdir().unwrap(), Provider::new());
    let account = provider.account(scratch.path());
    assert!(account.log_out().unwrap().is_none());
    begin(&account, &kept(300, Some(b"refresh-0")));
    // As who was killed leaves it.
    let left = account.directory.join(format!(".{}.0123456789abcdef", account.name()));
    fs::write(&left, "refresh = another").unwrap();
    assert!(matches!(account.log_out().unwrap(), Some(TakenBack::Yes)));
    assert!(account.log_out().unwrap().is_none() && !left.exists());
    let away = self::account("http://127.0.0.1:1", scratch.path());
    begin(&away, &kept(300, None));
    assert!(matches!(away.log_out().unwrap(), Some(TakenBack::Failed(_))));
    assert!(!away.path().exists());
    begin(&away, &kept(300, None));
    fs::write(away.path(), "no login").unwrap();
    assert!(matches!(away.log_out().unwrap(), Some(TakenBack::Failed(_))));
    assert!(!away.path().exists());
}

#[test]
fn a_login_that_was_written_and_had_no_name_yet_is_taken_back_too() {
    let (scratch, provider) = (tempfile::tempdir().unwrap(), Provider::new());
    let account = provider.account(scratch.path());
    begin(&account, &kept(300, Some(b"refresh-7")));
    // As who was killed leaves it.
    let left = account.directory.join(format!(".{}.0123456789abcdef", account.name()));
    fs::rename(account.path(), &left).unwrap();
    assert!(matches!(account.log_out().unwrap(), Some(TakenBack::Yes)));
    assert_eq!(provider.heard(), ["/revoke refresh-7"]);
    assert!(account.log_out().unwrap().is_none() && !left.exists());
}

#[test]
fn there_is_room_before_a_token_is_refreshed_and_what_cannot_be_kept_is_kept_as_soon_as_it_can() {
    let (scratch, provider) = (tempfile::tempdir().unwrap(), Provider::new());
    let account = provider.account(scratch.path());
    begin(&account, &kept(0, Some(b"refresh-0")));
    let (path, aside) = (account.path(), scratch.path().join("aside"));
    let (room, found) = (Arc::<Mutex<u64>>::default(), account.left_over().unwrap());
    assert!(found.is_empty());
    let (left, notes) = (account.directory.clone(), room.clone());
    let (from, to) = (path.clone(), aside.clone());
    provider.meanwhile(move || {
        let hidden = fs::read_dir(left).unwrap().map(|entry| entry.unwrap());
        let hidden = hidden.filter(|entry| entry.file_name().as_bytes().starts_with(b"."));
        *notes.lock().unwrap() = hidden.map(|entry| entry.metadata().unwrap().len()).sum();
        // From now on nothing can have its name.
        fs::rename(&from, to).unwrap();
        fs::create_dir(from).unwrap();
    });
    // It is shown to nobody: the login would be over without it.
    assert!(account.token().is_err());
    assert_eq!(*room.lock().unwrap(), FILE_BYTES_MAX as u64);
    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    assert_eq!(shown(account.token().unwrap()), "access-1");
    assert_eq!(provider.refreshed(), 1);
    let there = provider.account(scratch.path()).read().unwrap().unwrap();
    assert_eq!(shown(there.refresh), "refresh-1");
}

#[test]
fn what_was_granted_and_not_kept_comes_in_the_place_of_no_other_login() {
    let scratch = tempfile::tempdir().unwrap();
    let account = account("http://127.0.0.1:1", scratch.path());
    let late = kept(600, Some(b"refresh-1"));
    *account.unkept.lock().unwrap() = Some((Token::from_bytes(b"refresh-0").unwrap(), late));
    begin(&account, &kept(300, Some(b"refresh-anew")));
    let there = account.read_late().unwrap().unwrap();
    assert_eq!(shown(there.refresh), "refresh-anew");
    assert!(account.unkept.lock().unwrap().is_none());
}

#[test]
fn a_login_anew_has_the_one_before_taken_back_before_it_is_approved() {
    let (scratch, provider) = (tempfile::tempdir().unwrap(), Provider::new());
    let account = provider.account(scratch.path());
    begin(&account, &kept(300, Some(b"refresh-before")));
    let logged_in = account.log_in(
        |asked| {
            assert_eq!(asked.user_code, "WDJB-MJHT");
            assert_eq!(provider.heard(), ["/device", "/revoke refresh-before"]);
            assert!(!account.path().exists());
            Ok(())
        },
        &|| false,
    );
    assert!(logged_in.unwrap().renews);
    assert_eq!(provider.heard(), ["/device", "/revoke refresh-before", "/token"]);
    assert_eq!(shown(account.token().unwrap()), "access-0");
}

#[test]
fn a_login_that_cannot_be_kept_is_not_begun_and_one_that_is_approved_by_then_is_taken_back() {
    let (scratch, provider) = (tempfile::tempdir().unwrap(), Provider::new());
    let account = provider.account(scratch.path());
    // A file cannot have that name.
    fs::create_dir_all(account.path()).unwrap();
    assert!(account.log_in(|_| panic!("somebody would approve it"), &|| false).is_err());
    assert!(provider.heard().is_empty());
    fs::remove_dir(account.path()).unwrap();
    let told = |_: &Asked| {
        fs::create_dir(account.path()).unwrap();
        Ok(())
    };
    assert!(account.log_in(told, &|| false).is_err());
    assert_eq!(provider.heard(), ["/device", "/token", "/revoke refresh-0"]);
}

#[test]
fn a_token_of_which_a_clock_that_was_set_back_does_not_know_the_end_is_refreshed_or_not_used() {
    let (scratch, provider) = (tempfile::tempdir().unwrap(), Provider::new());
    let later = |refresh: &[u8]| {
        let now = clock::unix_seconds();
        Kept { granted_at: now + 3600, ends_at: now + 3900, ..kept(0, Some(refresh)) }
    };
    let account = provider.account(scratch.path());
    begin(&account, &later(b"refresh-0"));
    assert_eq!(shown(account.token().unwrap()), "access-1");
    let away = self::account("http://127.0.0.1:1", scratch.path());
    begin(&away, &later(b"refresh-0"));
    assert_eq!(away.token().unwrap_err().kind, FailureKind::Connection);
    // A clock is a bit off.
    begin(&away, &Kept { granted_at: clock::unix_seconds() + 30, ..kept(300, None) });
    assert_eq!(shown(away.token().unwrap()), "access-0");
}

#[test]
fn a_login_that_is_over_keeps_none_from_a_good_one() {
    let scratch = tempfile::tempdir().unwrap();
    let urls = ["https://a.example.org/", "https://b.example.org/", "https://c.example.org/"];
    let accounts = urls.map(|url| account(url, scratch.path()));
    assert!(first_token(&accounts).unwrap().is_none());
    begin(&accounts[0], &kept(0, None));
    let over = first_token(&accounts).unwrap_err();
    assert!(over.reason == Reason::TokenNotTaken && over.cause.contains("a.example.org"), "{over}");
    fs::write(accounts[1].path(), "no login").unwrap();
    fs::set_permissions(accounts[1].path(), fs::Permissions::from_mode(0o600)).unwrap();
    begin(&accounts[2], &kept(300, None));
    let (token, issuer) = first_token(&accounts).unwrap().unwrap();
    assert_eq!((token.as_str(), issuer), ("access-0", urls[2]));
}

#[test]
fn a_login_whose_provider_does_not_answer_or_that_another_process_holds_keeps_none_from_a_good_one() {
    let scratch = tempfile::tempdir().unwrap();
    // Nobody listens there.
    let urls = ["http://127.0.0.1:1/a", "http://127.0.0.1:1/b", "http://127.0.0.1:1/c"];
    let accounts = urls.map(|url| account(url, scratch.path()));
    begin(&accounts[0], &kept(0, None));
    begin(&accounts[1], &kept(0, Some(b"refresh-0")));
    // It may answer again, while the first is over for good.
    let silent = first_token(&accounts).unwrap_err();
    assert_eq!(silent.kind, FailureKind::Connection, "{silent}");
    begin(&accounts[2], &kept(300, None));
    let good = |accounts: &[Account]| first_token(accounts).unwrap().map(|(_, issuer)| issuer.to_owned());
    assert_eq!(good(&accounts).as_deref(), Some(urls[2]));
    let held = Failure::new(FailureKind::Busy, KEEP, "another thalweg holds it");
    *accounts[1].unanswered.lock().unwrap() = Some((Instant::now(), held));
    assert_eq!(good(&accounts).as_deref(), Some(urls[2]));
    begin(&accounts[2], &kept(0, None));
    assert_ne!(first_token(&accounts).unwrap_err().reason, Reason::TokenNotTaken);
}

#[test]
fn logins_are_found_without_the_place_files_that_they_were_made_by() {
    let scratch = tempfile::tempdir().unwrap();
    let one = account("https://iam.example.org/", scratch.path());
    let directory = one.directory.clone();
    assert!(Account::kept_in(&directory).unwrap().is_empty());
    let other =
        Account { server: Fingerprint([8; 32]), ..account("https://iam.example.org/", scratch.path()) };
    for account in [&one, &other] {
        begin(account, &kept(300, None));
        drop(account.lock().unwrap());
    }
    // Of one only what has no name yet.
    fs::rename(other.path(), directory.join(format!(".{}.0123456789abcdef", other.name()))).unwrap();
    fs::write(directory.join(format!(".{}.0123456789abcdef", one.name())), "access").unwrap();
    let all = Account::kept_in(&directory).unwrap();
    let mut names: Vec<String> = all.iter().map(|account| account.as_ref().unwrap().name()).collect();
    let mut wanted = [one.name(), other.name()];
    names.sort();
    wanted.sort();
    assert_eq!(names, wanted);
    fs::write(directory.join("0123"), "no login").unwrap();
    let all = Account::kept_in(&directory).unwrap();
    assert_eq!(all.iter().filter(|account| account.is_err()).count(), 1);
}
