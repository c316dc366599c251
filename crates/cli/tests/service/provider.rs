//! Tokens of a real identity provider, and logins there: the certified oidc-provider, as oidc-provider.mjs sets it.
//! Promises 127 and 130 of SPEC.md.

use super::support::chance::{has, skipped};
use super::support::job::{Running, signal};
use super::support::{noise, wait_until};
use super::tokens::{AUDIENCE, LIMIT, Stand, stand_by};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};

/// All that the provider gives.
const SCOPES: &str = "storage.read:/ storage.modify:/";

/// The provider, which ends with the value.
struct Provider {
    url: String,
    _running: Running,
    _stdin: ChildStdin,
}

impl Provider {
    /// One whose tokens last so many seconds. `None`, with the reason told, where there is none. In CI that is a
    /// failure.
    fn start(row: &str, token_s: u32) -> Option<Provider> {
        let built = Path::new(env!("CARGO_BIN_EXE_thalweg"));
        // Where `cargo xtask test` puts it.
        let packages = built.ancestors().nth(2).expect("a directory of builds").join("issuer/node_modules");
        let package = packages.join("oidc-provider");
        let nodes = ["x64", "arm64"].map(|name| packages.join(format!("node-linux-{name}/bin/node")));
        let is_there = package.exists() && has("curl");
        let Some(node) = nodes.iter().find(|node| is_there && node.exists()) else {
            let why = format!("no curl, or no {} (`cargo xtask test` installs both)", package.display());
            assert!(std::env::var_os("CI").is_none(), "{row}: {why}");
            skipped(row, &why);
            return None;
        };
        let mut command = Command::new(node);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/service/oidc-provider.mjs");
        command.arg(script).arg(package).arg(token_s.to_string());
        let (running, stdin) = Running::fed(command);
        let listens_at = || {
            let said = running.said();
            said.into_iter().map(|(_, line)| line).find(|line| line.starts_with("http://127.0.0.1:"))
        };
        assert!(wait_until(LIMIT, || listens_at().is_some()), "{:?}", running.said());
        let url = listens_at().unwrap_or_default().trim_end().to_owned();
        Some(Provider { url, _running: running, _stdin: stdin })
    }

    /// What a daemon goes by that takes its tokens.
    fn issuers(&self) -> String {
        let url = &self.url;
        format!(
            "[issuer.real]\nissuer = \"{url}\"\naudience = \"{AUDIENCE}\"\nclient = \"thalweg\"\n\
             scopes = [\"openid\", \"offline_access\", \"storage.read:/\", \"storage.modify:/\"]\n\
             resource = \"{AUDIENCE}\"\n\n\
             [[issuer.real.rule]]\neveryone = true\nstorage = \"a\"\n"
        )
    }

    /// One that a program has by its secret (RFC 6749, section 4.4), for this audience (RFC 8707).
    fn token(&self, scopes: &str, audience: &str) -> String {
        let (scope, resource) = (format!("scope={scopes}"), format!("resource={audience}"));
        let answer = curl(&[
            "--user",
            "machine:secret-of-tests",
            "--data",
            "grant_type=client_credentials",
            "--data-urlencode",
            &scope,
            "--data-urlencode",
            &resource,
            &format!("{}/token", self.url),
        ]);
        let answer: Value = serde_json::from_str(&answer).expect("an answer");
        answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// What the form says in which a code is typed, and whether it is approved (`confirm`) or not (`abort`).
    fn type_code(&self, code: &str, verdict: &str, jar: &Path) -> String {
        let device = format!("{}/device", self.url);
        let form = in_session(jar, &[&device]);
        let tie = between(&form, "name=\"xsrf\" value=\"");
        in_session(jar, &["--data", &format!("xsrf={tie}&user_code={code}&{verdict}=yes"), &device])
    }

    /// Approves a code as somebody who comes with a browser.
    fn approve(&self, code: &str, name: &str, jar: &Path) {
        let sign_in = self.type_code(code, "confirm", jar);
        let named = format!("prompt=login&login={name}&password=any");
        let consent = in_session(jar, &["--data", &named, between(&sign_in, "action=\"")]);
        let done = in_session(jar, &["--data", "prompt=consent", between(&consent, "action=\"")]);
        assert!(done.contains("Sign-in Success"), "{done}");
    }
}

/// What a browser is answered, which keeps cookies and goes where it is led.
fn in_session(jar: &Path, words: &[&str]) -> String {
    let jar = jar.to_str().unwrap();
    curl(&[&["--location", "--cookie", jar, "--cookie-jar", jar][..], words].concat())
}

/// What stands in a page behind these words, up to a quotation mark.
fn between<'a>(page: &'a str, before: &str) -> &'a str {
    let rest = page.split_once(before).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or_else(|| panic!("no {before} in {page}"))
}

/// What curl is answered.
fn curl(words: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "60", "--noproxy", "*"]).args(words);
    let ran = command.output().expect("curl");
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn tokens_of_a_real_provider_give_what_their_scopes_say_and_those_for_others_nothing() {
    let Some(provider) = Provider::start("a real identity provider", 600) else { return };
    let stand = stand_by(&provider.issuers());
    let new = stand.scratch.path("new");
    std::fs::write(&new, noise(3, 1 << 20)).unwrap();
    let (new, there) = (new.to_str().unwrap(), stand.daemon.place("a", "new"));
    let elsewhere = provider.token(SCOPES, "https://elsewhere.example.org");
    let (code, said) = stand.run(Some(&elsewhere), &["cp", "-q", new, &there]);
    assert!(code == Some(3) && said.contains("for another audience"), "{said}");
    assert!(!stand.scratch.path("a/new").exists());
    let (code, said) = stand.run(Some(&provider.token(SCOPES, AUDIENCE)), &["cp", "-q", new, &there]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(std::fs::read(stand.scratch.path("a/new")).unwrap(), noise(3, 1 << 20));
    assert!(
        wait_until(LIMIT, || stand.logged("machine@real", "transfer done") == 1),
        "{}",
        stand.scratch.server_log()
    );
    let reader = provider.token("storage.read:/", AUDIENCE);
    let (code, said) = stand.run(Some(&reader), &["cp", "-q", new, &stand.daemon.place("a", "other")]);
    assert!(code == Some(3) && said.contains("read-only"), "{said}");
    let back = stand.scratch.path("back");
    let (code, said) = stand.run(Some(&reader), &["cp", "-q", &there, back.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(std::fs::read(back).unwrap(), noise(3, 1 << 20));
}

/// `thalweg login`, and the code that it shows.
fn begin_login(stand: &Stand) -> (Running, String) {
    let running = Running::start(stand.command(None, &["login", "--json"]));
    let code = || {
        let said = running.said();
        let mut events = said.iter().filter_map(|(_, line)| serde_json::from_str::<Value>(line).ok());
        let event = events.find(|event| event["event"] == "login")?;
        Some(event["code"].as_str().expect("a code").to_owned())
    };
    assert!(wait_until(LIMIT, || code().is_some()), "{:?}", running.said());
    let code = code().unwrap_or_default();
    (running, code)
}

/// Files of logins.
fn kept(stand: &Stand) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(stand.scratch.path("state/thalweg/logins")).into_iter().flatten();
    let files = listed.map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_none_or(|extension| extension != "lock")).collect()
}

#[test]
fn who_logged_in_has_tokens_for_all_commands_until_they_log_out() {
    // One that ends within a minute is refreshed by each command.
    let Some(provider) = Provider::start("a login", 60) else { return };
    let stand = stand_by(&provider.issuers());
    let all = format!("tw://{}/", stand.daemon.address());
    let (code, said) = stand.run(None, &["ls", &all]);
    assert!(code == Some(1) && said.contains("thalweg login"), "{said}");
    let (login, code) = begin_login(&stand);
    provider.approve(&code, "alice", &stand.scratch.path("jar"));
    let login = login.end(LIMIT).expect(0);
    assert!(login.stderr.contains(&code) && login.stderr.contains(&provider.url), "{}", login.stderr);
    let last: Value = serde_json::from_str(login.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["renews"]), (&Value::from("logged-in"), &Value::from(true)), "{last}");
    let files = kept(&stand);
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(file), mode(file.parent().unwrap())), (0o600, 0o700));
    let mut before = std::fs::read_to_string(file).unwrap();
    let secret = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).expect("a token");
        line.to_owned()
    };
    // Of all that were had.
    let mut secrets = vec![secret(&before, "access = "), secret(&before, "refresh = ")];
    let new = stand.scratch.path("new");
    std::fs::write(&new, noise(3, 1 << 20)).unwrap();
    let there = stand.daemon.place("a", "new");
    let (copy, list) = (["cp", "-q", new.to_str().unwrap(), there.as_str()], ["ls", all.as_str()]);
    let mut told = String::new();
    for words in [&copy[..], &list[..]] {
        let (code, said) = stand.run(None, words);
        assert_eq!(code, Some(0), "{said}");
        let now = std::fs::read_to_string(file).unwrap();
        let refresh = secret(&now, "refresh = ");
        assert_ne!(refresh, secret(&before, "refresh = "), "the provider gives another each time");
        secrets.extend([secret(&now, "access = "), refresh]);
        (before, told) = (now, told + &said);
    }
    assert_eq!(std::fs::read(stand.scratch.path("a/new")).unwrap(), noise(3, 1 << 20));
    assert!(
        wait_until(LIMIT, || stand.logged("alice@real", "transfer done") == 1),
        "{}",
        stand.scratch.server_log()
    );
    told += &(stand.scratch.server_log() + &login.stdout + &login.stderr);
    assert!(!secrets.iter().any(|secret| told.contains(secret)), "a token was told");
    let refresh = secret(&before, "refresh = ");
    let (code, said) = stand.run(None, &["logout", "--json"]);
    assert!(code == Some(0) && said.contains("\"revoked\":true"), "{said}");
    assert!(kept(&stand).is_empty());
    let form = format!("client_id=thalweg&grant_type=refresh_token&refresh_token={refresh}");
    let answer = curl(&["--data", &form, &format!("{}/token", provider.url)]);
    assert!(answer.contains("invalid_grant"), "{answer}");
    assert_eq!(stand.run(None, &["ls", &all]).0, Some(1));
    assert_eq!(stand.run(None, &["logout"]).0, Some(3));
}

#[test]
fn a_login_that_is_refused_or_given_up_keeps_nothing() {
    let Some(provider) = Provider::start("a login that is refused", 600) else { return };
    let stand = stand_by(&provider.issuers());
    let (login, code) = begin_login(&stand);
    provider.type_code(&code, "abort", &stand.scratch.path("jar"));
    let refused = login.end(LIMIT).expect(3);
    assert!(refused.stderr.contains("refused there"), "{}", refused.stderr);
    // Approved, and given up before it asks again; where it was sooner, once more.
    let gave_up = (0..5).any(|number| {
        let (login, code) = begin_login(&stand);
        provider.approve(&code, "alice", &stand.scratch.path(&format!("jar-{number}")));
        signal(login.pid(), Signal::SIGINT);
        let code = login.end(LIMIT).code;
        assert!(code == Some(130) || stand.run(None, &["logout"]).0 == Some(0), "{code:?}");
        code == Some(130)
    });
    assert!(gave_up);
    assert!(kept(&stand).is_empty());
    let place = stand.scratch.path("ticket");
    let ticket = stand.scratch.run(["login", "--ticket", place.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&ticket.stderr);
    assert!(ticket.status.code() == Some(1) && said.contains("it is a ticket"), "{said}");
}
