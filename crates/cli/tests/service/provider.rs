//! Tokens of a real identity provider: the certified oidc-provider, as oidc-provider.mjs sets it. Promises 127 and 128 of
//! SPEC.md.

use super::support::chance::skipped;
use super::support::job::Running;
use super::support::{noise, wait_until};
use super::tokens::{AUDIENCE, LIMIT, stand_by};
use serde_json::Value;
use std::path::Path;
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
    /// One whose tokens last so many seconds. `None`, with the reason told, where there is none. In CI that is a failure.
    fn start(row: &str, token_s: u32) -> Option<Provider> {
        let built = Path::new(env!("CARGO_BIN_EXE_thalweg"));
        // Where `cargo xtask test` puts it.
        let packages = built.ancestors().nth(2).expect("a directory of builds").join("issuer/node_modules");
        let package = packages.join("oidc-provider");
        let nodes = ["x64", "arm64"].map(|name| packages.join(format!("node-linux-{name}/bin/node")));
        let Some(node) = nodes.iter().find(|node| node.exists() && package.exists()) else {
            let why = format!("no {} (`cargo xtask test` installs it)", package.display());
            assert!(std::env::var_os("CI").is_none(), "{row}: {why}");
            skipped(row, &why);
            return None;
        };
        let mut command = Command::new(node);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/service/oidc-provider.mjs");
        command.arg(script).arg(package).args([AUDIENCE, &token_s.to_string()]);
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
            "[issuer.real]\nissuer = \"{url}\"\naudience = \"{AUDIENCE}\"\n\n\
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
