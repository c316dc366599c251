//! Users with tokens of an identity provider: `serve --issuers`. Promises 127 to 130 of SPEC.md. The provider is a
//! small one in this process.

use super::support::chance::in_time;
use super::support::job::{Running, journal_bytes, signal, with};
use super::support::peer::SOON;
use super::support::{Daemon, Scratch, finish, noise, wait_until};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::Permissions;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{FailureKind, Reason};
use thalweg_mover::link::{Connection, Identity, ServerTrust, Ticket, Token, client_config};
use thalweg_mover::testing::Service;
use thalweg_sys::clock::unix_seconds;
use thalweg_wire::hello::{Cipher, Hello, Purpose};
use thalweg_wire::limits;

pub const LIMIT: Duration = Duration::from_secs(120);
pub const AUDIENCE: &str = "https://data.example.org";
/// The number of its key.
const KEY: &str = "one";

/// A provider on the loopback, which ends with the test.
struct Issuer {
    url: String,
    private: EncodingKey,
}

impl Issuer {
    fn new() -> Issuer {
        let made = rcgen::KeyPair::generate().unwrap();
        let private = EncodingKey::from_ec_der(&made.serialize_der());
        let mut public = Jwk::from_encoding_key(&private, Algorithm::ES256).unwrap();
        public.common.key_id = Some(KEY.to_owned());
        let keys = json!({ "keys": [public] }).to_string();
        let service = Service::start(move |asked| {
            let url = &asked.here;
            let discovery = json!({ "issuer": url, "jwks_uri": format!("{url}/keys") });
            let is_discovery = asked.path().ends_with("/.well-known/openid-configuration");
            (200, if is_discovery { discovery.to_string() } else { keys.clone() })
        });
        Issuer { url: service.url(""), private }
    }

    fn token(&self, claims: &[(&str, Value)]) -> String {
        let mut all =
            json!({ "iss": self.url, "aud": AUDIENCE, "sub": "alice", "exp": unix_seconds() + 600 });
        for (name, value) in claims {
            all[*name] = value.clone();
        }
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(KEY.to_owned());
        encode(&header, &all, &self.private).unwrap()
    }
}

/// What the daemon says where the rules became others, and where nothing of a reload could be done.
const OTHER_RULES: &str = "the issuers are read anew: what they give to tokens is other";
const NOT_RELOADED: &str = "the exports stay as they were, and so do limit and issuers";

/// A daemon with the exports `a` and `b` that takes tokens of a provider.
pub struct Stand {
    pub scratch: Scratch,
    pub daemon: Daemon,
    pub place: PathBuf,
}

fn stand(issuer: &Issuer) -> Stand {
    stand_by(&rules(issuer))
}

/// Who writes in `a`, and who reads in `b`.
fn rules(issuer: &Issuer) -> String {
    let url = &issuer.url;
    format!(
        "[issuer.iam]\nissuer = \"{url}\"\naudience = \"{AUDIENCE}\"\n\n\
         [[issuer.iam.rule]]\nclaim = \"groups\"\nvalue = \"writers\"\nexport = [\"a\"]\n\n\
         [[issuer.iam.rule]]\nclaim = \"groups\"\nvalue = \"readers\"\nexport = [\"b:ro\"]\n"
    )
}

/// One that goes by this file.
pub fn stand_by(issuers: &str) -> Stand {
    let scratch = Scratch::new();
    for name in ["a", "b"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
        std::fs::write(scratch.path(name).join(format!("file-{name}")), noise(1, 100_000)).unwrap();
    }
    let file = scratch.path("issuers.toml");
    std::fs::write(&file, issuers).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let exports = [("a", scratch.path("a")), ("b", scratch.path("b"))];
    let exports: Vec<(&str, &Path)> = exports.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let place = scratch.path("place");
    let words = ["--log-format", "json", "--issuers", file.to_str().unwrap(), "--place-file"];
    let daemon = scratch.daemon_with(&exports, &[&words[..], &[place.to_str().unwrap()]].concat());
    Stand { scratch, daemon, place }
}

impl Stand {
    /// The program with a token in the environment, if one is given.
    pub fn command(&self, token: Option<&str>, words: &[&str]) -> Command {
        let (command, rest) = words.split_first().unwrap();
        let mut program = with(self.scratch.thalweg(), [*command, "--ticket", self.place.to_str().unwrap()]);
        program.args(rest).env_remove("BEARER_TOKEN").env_remove("BEARER_TOKEN_FILE");
        program.env("XDG_RUNTIME_DIR", self.scratch.path("runtime"));
        program.env("XDG_STATE_HOME", self.scratch.path("state"));
        if let Some(token) = token {
            program.env("BEARER_TOKEN", token);
        }
        program
    }

    /// Its exit code, and what it said.
    pub fn run(&self, token: Option<&str>, words: &[&str]) -> (Option<i32>, String) {
        let mut command = self.command(token, words);
        let ran = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let said = [ran.stdout.as_slice(), &ran.stderr].concat();
        (ran.status.code(), String::from_utf8_lossy(&said).into_owned())
    }

    /// The lines of the log that have this message.
    fn lines(&self, message: &str) -> Vec<Value> {
        let log = self.scratch.server_log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["message"] == message).collect()
    }

    /// How many lines of the log have this message, for the ticket of this name.
    pub fn logged(&self, name: &str, message: &str) -> usize {
        self.lines(message).iter().filter(|line| line["ticket"] == name).count()
    }

    /// Has the daemon go by this file; `message` is in its log once more when it does, or does not.
    fn reload(&self, issuers: &str, message: &str) {
        let before = self.lines(message).len();
        std::fs::write(self.scratch.path("issuers.toml"), issuers).unwrap();
        signal(self.daemon.pid(), Signal::SIGHUP);
        let is_told = || self.lines(message).len() > before;
        assert!(wait_until(LIMIT, is_told), "{message}: {}", self.scratch.server_log());
    }

    /// A connection of somebody whom the daemon does not know.
    fn stranger(&self) -> Connection {
        self.connection(&Identity::generate("stranger").unwrap())
    }

    /// A connection with this key.
    fn connection(&self, own: &Identity) -> Connection {
        let server = Ticket::read(&self.daemon.ticket).unwrap().server;
        let tls = client_config(own, &ServerTrust::Pinned(server)).unwrap();
        let socket = TcpStream::connect(self.daemon.address()).unwrap();
        Connection::connect(socket.into(), tls, SOON).unwrap()
    }
}

fn hello() -> Hello {
    Hello::new(Purpose::Control, Cipher::Aes128Gcm)
}

#[test]
fn who_shows_a_token_has_what_the_first_rule_that_fits_gives_and_stands_in_the_log_by_name() {
    let issuer = Issuer::new();
    let stand = stand(&issuer);
    let all = format!("tw://{}/", stand.daemon.address());
    let writer = issuer.token(&[("groups", json!(["writers", "readers"]))]);
    let reader = issuer.token(&[("sub", json!("bob")), ("groups", json!("readers"))]);
    let sees = |token: &str| {
        let (code, said) = stand.run(Some(token), &["ls", &all]);
        assert_eq!(code, Some(0), "{said}");
        ["a", "b"].map(|export| said.lines().any(|line| line.trim_end_matches('/') == export))
    };
    assert_eq!((sees(&writer), sees(&reader)), ([true, false], [false, true]));
    let new = stand.scratch.path("new");
    std::fs::write(&new, noise(3, 1 << 20)).unwrap();
    let new = new.to_str().unwrap();
    let (code, said) = stand.run(Some(&writer), &["cp", "-q", new, &stand.daemon.place("a", "new")]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(std::fs::read(stand.scratch.path("a/new")).unwrap(), noise(3, 1 << 20));
    let (code, said) = stand.run(Some(&reader), &["cp", "-q", new, &stand.daemon.place("b", "new")]);
    assert!(code == Some(3) && said.contains("read-only"), "{said}");
    // The owner comes in by the ticket as before.
    let owner = stand.scratch.run(["ls", "--ticket", stand.daemon.ticket.to_str().unwrap(), &all]);
    assert!(owner.status.success(), "{owner:?}");
    assert!(
        wait_until(LIMIT, || stand.logged("alice@iam", "transfer done") == 1),
        "{}",
        stand.scratch.server_log()
    );
    assert!(stand.logged("bob@iam", "session begun") > 0);
    let state = stand.scratch.path("server-state");
    let listed = stand.scratch.ok(["why", "--list", "--state", state.to_str().unwrap()]);
    assert!(listed.contains("ticket alice@iam"), "{listed}");
    // All these commands have one key: a daemon remembers each for hours.
    let shown = stand.lines("a token is taken");
    let keys: BTreeSet<&str> = shown.iter().filter_map(|line| line["client"].as_str()).collect();
    assert!(shown.len() > 3 && keys.len() == 1, "{shown:?}");
    // The place file is nobody's secret, and has none.
    let place = std::fs::read_to_string(&stand.place).unwrap();
    assert!(place.contains(&issuer.url) && !place.contains("PRIVATE"), "{place}");
    let log = stand.scratch.server_log();
    for token in [&writer, &reader] {
        let signature = token.rsplit('.').next().unwrap();
        assert!(!log.contains(signature), "a token is in the log");
    }
}

/// Two jobs of one machine, or two users of one key: who showed a token last does not say what others may.
#[test]
fn a_session_goes_by_the_token_that_was_shown_on_its_own_connection() {
    let issuer = Issuer::new();
    let stand = stand(&issuer);
    let token = |name: &str| {
        let token = issuer.token(&[("sub", json!(name)), ("groups", json!(["writers"]))]);
        Token::from_bytes(token.as_bytes()).unwrap()
    };
    let own = Identity::generate("both").unwrap();
    let (mut one, mut other) = (stand.connection(&own), stand.connection(&own));
    one.introduce(&token("alice"), SOON).unwrap();
    other.introduce(&token("bob"), SOON).unwrap();
    one.hello(&hello(), SOON).unwrap();
    other.hello(&hello(), SOON).unwrap();
    let begun = || ["alice@iam", "bob@iam"].map(|name| stand.logged(name, "session begun"));
    assert!(wait_until(LIMIT, || begun() == [1, 1]), "{}", stand.scratch.server_log());
    // Without one nobody can say whose a session is to be.
    let why = stand.connection(&own).hello(&hello(), SOON).unwrap_err();
    assert_eq!((why.kind, why.reason), (FailureKind::Permission, Reason::NotTrusted), "{why}");
}

#[test]
fn a_token_that_is_not_taken_is_refused_with_why_and_with_the_issuer_that_gives_another() {
    let issuer = Issuer::new();
    let stand = stand(&issuer);
    let all = format!("tw://{}/", stand.daemon.address());
    let groups = ("groups", json!(["writers"]));
    let refused = |token: Option<&str>, exit: i32, why: &str| {
        let (code, said) = stand.run(token, &["ls", &all]);
        assert_eq!(code, Some(exit), "{said}");
        for word in [why, issuer.url.as_str(), "BEARER_TOKEN_FILE"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(token.is_none_or(|token| !said.contains(token)), "{said}");
    };
    refused(None, 1, "there is none in BEARER_TOKEN");
    let expired = issuer.token(&[groups.clone(), ("exp", json!(unix_seconds() - 3600))]);
    refused(Some(&expired), 3, "it has expired");
    let elsewhere = issuer.token(&[groups.clone(), ("aud", json!("https://elsewhere.example.org"))]);
    refused(Some(&elsewhere), 3, "for another audience");
    refused(Some(&issuer.token(&[])), 3, "it gives no rights");
    let forged = Issuer { url: issuer.url.clone(), ..Issuer::new() };
    refused(Some(&forged.token(std::slice::from_ref(&groups))), 3, "does not take it");
    refused(Some("no-token"), 3, "does not take it");
    // A moment after it was told.
    for why in
        ["iam: it expired", "another audience", "no rule fits", "its signature is wrong", "is no token"]
    {
        let is_logged = || stand.scratch.server_log().contains(why);
        assert!(wait_until(LIMIT, is_logged), "{why}: {}", stand.scratch.server_log());
    }
}

#[test]
fn a_stranger_gets_no_word_before_a_token_is_taken_and_costs_the_daemon_little() {
    let issuer = Issuer::new();
    let stand = stand(&issuer);
    // A session without a token.
    let why = stand.stranger().hello(&hello(), SOON).unwrap_err();
    assert_eq!((why.kind, why.reason), (FailureKind::Permission, Reason::NotTrusted), "{why}");
    let session = Hello { session: [7; 16], ..Hello::new(Purpose::Resume, Cipher::Aes128Gcm) };
    let why = stand.stranger().hello(&session, SOON).unwrap_err();
    assert_eq!(why.kind, FailureKind::NotFound, "{why}");
    // Which versions the daemon speaks he hears, as everybody does.
    let newer = Hello { versions: (limits::VERSION_MAX + 1, limits::VERSION_MAX + 2), ..hello() };
    let why = stand.stranger().hello(&newer, SOON).unwrap_err();
    assert_eq!((why.kind, why.reason), (FailureKind::Protocol, Reason::NoVersion), "{why}");
    // What is no token, and one that is too long.
    for token in ["a.b.c".to_owned(), "x".repeat(limits::TOKEN_BYTES_MAX)] {
        let token = Token::from_bytes(token.as_bytes()).unwrap();
        let mut stranger = stand.stranger();
        let why = stranger.introduce(&token, SOON).unwrap_err();
        assert_eq!((why.kind, why.reason), (FailureKind::Permission, Reason::TokenNotTaken), "{why}");
        assert!(stranger.hello(&hello(), SOON).is_err(), "it goes on as if nothing were");
    }
    let too_long = u16::try_from(limits::TOKEN_BYTES_MAX + 1).unwrap();
    let long = Hello { stream: too_long, ..Hello::new(Purpose::Token, Cipher::Aes128Gcm) };
    let mut stranger = stand.stranger();
    stranger.write_all(&long.encode(), SOON).unwrap();
    assert!(stranger.read_exact(&mut [0], SOON).unwrap_err().cause.contains("closed"));
    // Who says nothing, and who does not end, are cut as before.
    let mut silent = stand.stranger();
    let mut halfway = stand.stranger();
    let half = Hello { stream: 1000, ..Hello::new(Purpose::Token, Cipher::Aes128Gcm) };
    halfway.write_all(&[&half.encode()[..], b"eyJ"].concat(), SOON).unwrap();
    let since = Instant::now();
    for stranger in [&mut silent, &mut halfway] {
        let why = stranger.read_exact(&mut [0], Duration::from_secs(60)).unwrap_err();
        assert!(why.cause.contains("closed"), "{why}");
    }
    assert!(in_time("strangers are cut", since.elapsed(), Duration::from_secs(15)), "{:?}", since.elapsed());
    // One that is taken is the way in.
    let token = issuer.token(&[("groups", json!(["writers"]))]);
    let mut known = stand.stranger();
    known.introduce(&Token::from_bytes(token.as_bytes()).unwrap(), SOON).unwrap();
    assert_ne!(known.hello(&hello(), SOON).unwrap().session, [0; 16]);
}

#[test]
fn a_copy_that_runs_shows_the_token_that_came_in_the_place_of_the_first() {
    let issuer = Issuer::new();
    let stand = stand(&issuer);
    std::fs::write(stand.scratch.path("large"), noise(2, 64 << 20)).unwrap();
    let (large, to) = (stand.scratch.path("large"), stand.daemon.place("a", "large"));
    let file = stand.scratch.path("token");
    let write = |token: String| {
        let new = stand.scratch.path("token.new");
        std::fs::write(&new, token).unwrap();
        std::fs::set_permissions(&new, Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(&new, &file).unwrap();
    };
    let groups = ("groups", json!(["writers"]));
    write(issuer.token(std::slice::from_ref(&groups)));
    let words = ["cp", "--quiet", "--no-tune", "--bwlimit", "400kB/s", large.to_str().unwrap(), &to];
    let mut copy = stand.command(None, &words);
    copy.env("BEARER_TOKEN_FILE", &file);
    let running = Running::start(copy);
    let export = stand.scratch.path("a");
    assert!(wait_until(LIMIT, || journal_bytes(&export) > 0), "{:?}", running.said());
    let before = stand.logged("alice@iam", "a token is taken");
    assert!(before > 0, "{}", stand.scratch.server_log());
    write(issuer.token(&[groups, ("jti", json!("another"))]));
    let is_shown = || stand.logged("alice@iam", "a token is taken") > before;
    assert!(wait_until(LIMIT, is_shown), "{:?}\n{}", running.said(), stand.scratch.server_log());
    drop(running);
}

#[test]
fn a_reload_takes_rights_back_that_the_rules_do_not_give_any_more_also_from_what_runs() {
    let issuer = Issuer::new();
    let stand = stand(&issuer);
    std::fs::write(stand.scratch.path("large"), noise(2, 64 << 20)).unwrap();
    let (large, to) = (stand.scratch.path("large"), stand.daemon.place("a", "large"));
    let all = format!("tw://{}/", stand.daemon.address());
    let alice = issuer.token(&[("groups", json!(["writers"]))]);
    let bob = issuer.token(&[("sub", json!("bob")), ("groups", json!(["readers"]))]);
    let listed = |token: &str| stand.run(Some(token), &["ls", &all]);
    assert_eq!((listed(&alice).0, listed(&bob).0), (Some(0), Some(0)));
    let words = ["cp", "--quiet", "--no-tune", "--bwlimit", "400kB/s", large.to_str().unwrap(), &to];
    let running = Running::start(stand.command(Some(&alice), &words));
    let export = stand.scratch.path("a");
    assert!(wait_until(LIMIT, || journal_bytes(&export) > 0), "{:?}", running.said());

    // The rule of the writers goes, and users may log in.
    let told = format!("audience = \"{AUDIENCE}\"\n");
    let fewer =
        rules(&issuer).replace("writers", "operators").replace(&told, &(told.clone() + "client = \"us\"\n"));
    stand.reload(&fewer, OTHER_RULES);
    assert_eq!(stand.lines(OTHER_RULES)[0]["withdrawn"], 1, "{}", stand.scratch.server_log());
    let ran = running.end(LIMIT).expect(3);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("that of `alice@iam` gives something else now, or nothing"), "{said}");
    let (code, said) = listed(&alice);
    assert!(code == Some(3) && said.contains("it gives no rights"), "{said}");
    assert_eq!(listed(&bob).0, Some(0));
    let place = std::fs::read_to_string(&stand.place).unwrap();
    assert!(place.contains("clients = [\"us\"]"), "{place}");

    // What makes no sense changes nothing, and is said.
    stand.reload("[issuer.iam]\n", NOT_RELOADED);
    let why = stand.lines(NOT_RELOADED)[0]["failure"].as_str().unwrap().to_owned();
    assert!(why.contains("issuers.toml"), "{why}");
    assert_eq!((listed(&alice).0, listed(&bob).0), (Some(3), Some(0)));
    stand.reload(&fewer, "the exports are read anew, and are as they were");
    assert_eq!(stand.lines(OTHER_RULES).len(), 1, "they are those that there were");

    // And back: the same command goes on.
    stand.reload(&rules(&issuer), OTHER_RULES);
    assert_eq!(listed(&alice).0, Some(0));
    let words = ["cp", "--quiet", large.to_str().unwrap(), &to];
    let (code, said) = stand.run(Some(&alice), &words);
    assert_eq!(code, Some(0), "{said}");
    assert!(std::fs::read(stand.scratch.path("a/large")).unwrap() == noise(2, 64 << 20));
}
