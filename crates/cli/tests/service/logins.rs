//! Logins at a provider in this process, and commands that are ended while they refresh a token. Promise 130 of
//! SPEC.md.

use super::support::job::{Running, signal};
use super::support::wait_until;
use super::tokens::{AUDIENCE, LIMIT, Stand, stand_by};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thalweg_mover::testing::{Answer, Asked, Service};

/// Approves each code at once, or never, and answers who refreshes when it is told to. Tokens last as long as is
/// refreshed.
struct Provider {
    url: String,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// So often somebody asked for another token.
    asked: AtomicU64,
    /// So many of them may be answered.
    answered: AtomicU64,
    /// No code is approved.
    is_pending: AtomicBool,
}

impl Provider {
    fn new() -> Provider {
        let counts = Arc::<Counts>::default();
        let shared = counts.clone();
        let service = Service::start(move |asked| answer(asked, &shared));
        Provider { url: service.url(""), counts }
    }

    fn issuers(&self) -> String {
        let url = &self.url;
        format!(
            "[issuer.near]\nissuer = \"{url}\"\naudience = \"{AUDIENCE}\"\nclient = \"thalweg\"\n\n\
             [[issuer.near.rule]]\neveryone = true\nexport = [\"a\"]\n"
        )
    }
}

fn answer(asked: &Asked, counts: &Counts) -> Answer {
    let url = &asked.here;
    let given = |number: u64| {
        json!({
            "access_token": format!("access-{number}"), "refresh_token": format!("refresh-{number}"),
            "token_type": "Bearer", "expires_in": 30,
        })
    };
    let is_code = asked.body.contains("device_code=code");
    let is_refused = is_code && counts.is_pending.load(Ordering::Acquire);
    let body = if asked.line.starts_with("GET ") {
        json!({
            "issuer": url, "jwks_uri": format!("{url}/keys"), "token_endpoint": format!("{url}/token"),
            "device_authorization_endpoint": format!("{url}/device"),
        })
    } else if asked.line == "POST /device" {
        json!({
            "device_code": "code", "user_code": "WDJB-MJHT", "verification_uri": format!("{url}/approve"),
            "expires_in": 600, "interval": 1,
        })
    } else if is_refused {
        json!({ "error": "authorization_pending" })
    } else if is_code {
        given(0)
    } else {
        let number = counts.asked.fetch_add(1, Ordering::AcqRel) + 1;
        if !wait_until(LIMIT, || counts.answered.load(Ordering::Acquire) >= number) {
            return Answer::HangsUp;
        }
        given(number)
    };
    Answer::new(if is_refused { 400 } else { 200 }, body.to_string())
}

/// The text of the only login.
fn login_of(stand: &Stand) -> String {
    let entries = std::fs::read_dir(stand.scratch.path("state/thalweg/logins")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_none()).collect();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn a_command_that_is_ended_while_a_token_is_refreshed_keeps_what_comes() {
    let provider = Provider::new();
    let stand = stand_by(&provider.issuers());
    let (code, said) = stand.run(None, &["login"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("logged in at") && said.contains("for the daemon of"), "{said}");
    let there = stand.daemon.place("a", "file-a");
    let here = stand.scratch.path("here");
    // One that listens for no signal, and one that ends at the second.
    let list = ["ls", there.as_str()];
    let copy = ["cp", "-q", there.as_str(), here.to_str().unwrap()];
    for (words, signals, number) in [
        (&list[..], &[Signal::SIGINT][..], 1),
        (&list[..], &[Signal::SIGTERM][..], 2),
        (&copy[..], &[Signal::SIGINT, Signal::SIGTERM][..], 3),
    ] {
        let running = Running::start(stand.command(None, words));
        let is_asked = || provider.counts.asked.load(Ordering::Acquire) >= number;
        assert!(wait_until(LIMIT, is_asked), "{:?}", running.said());
        for one in signals {
            signal(running.pid(), *one);
        }
        provider.counts.answered.store(number, Ordering::Release);
        let ended = running.end(LIMIT);
        assert_ne!(ended.code, Some(0), "{}", ended.stderr);
        let kept = login_of(&stand);
        assert!(kept.contains(&format!("refresh = refresh-{number}\n")), "{words:?}: {}", ended.stderr);
    }
}

#[test]
fn a_login_of_which_nobody_hears_any_more_ends() {
    let provider = Provider::new();
    provider.counts.is_pending.store(true, Ordering::Release);
    let stand = stand_by(&provider.issuers());
    let mut login = stand.command(None, &["login"]);
    let mut child = login.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.contains("WDJB-MJHT"), "{line}");
    // As when an ssh without a terminal ends.
    drop(told);
    assert!(wait_until(LIMIT, || child.try_wait().unwrap().is_some()));
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_token_that_counts_before_a_login_is_told_and_a_login_is_forgotten_without_its_place_file() {
    let provider = Provider::new();
    let stand = stand_by(&provider.issuers());
    let (code, said) = stand.run(Some("a-token"), &["login"]);
    // It would be shown in the place of what was had.
    assert!(code == Some(0) && said.contains("BEARER_TOKEN has a token"), "{said}");
    std::fs::remove_file(&stand.place).unwrap();
    let mut logout = stand.scratch.thalweg();
    logout.args(["logout", "--all", "--json"]).env("XDG_STATE_HOME", stand.scratch.path("state"));
    let ended = Running::start(logout).end(LIMIT).expect(0);
    let told: Value = serde_json::from_str(ended.stdout.trim_end()).unwrap();
    assert_eq!(told["issuer"], provider.url.as_str());
    assert_eq!((&told["revoked"], &told["error"]), (&Value::from(false), &Value::Null), "{told}");
    let logins = stand.scratch.path("state/thalweg/logins");
    let left = std::fs::read_dir(&logins).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(left.filter(|path| path.extension().is_none()).count(), 0);
}
