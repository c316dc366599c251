//! The chain as a whole: homes, environments and clocks of tests' own, services on loopback.

use super::testing::Home;
use super::*;
use crate::options::Options;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_mover::testing::{Asked, Service};

const PROFILE_A: &str = "[profile a]\naws_access_key_id = PROFILE\naws_secret_access_key = canary-profile\n";

/// The access key that the chain comes to.
fn key(credentials: &Credentials) -> String {
    credentials.now().unwrap_or_else(|failure| panic!("{failure}")).unwrap().key().to_owned()
}

fn failure(home: &Home) -> Failure {
    home.credentials(&Options::default()).now().unwrap_err()
}

/// What was asked has no secret in a message and none in what is shown.
fn shows_no_secret(failure: &Failure) {
    assert!(!format!("{failure:?} {failure}").contains("canary"), "{failure:?}");
}

/// A moment so long after the beginning of a home's clock, as services write it.
fn minutes(minutes: u32) -> String {
    let (hour, minute) = (1 + (46 + minutes) / 60, (46 + minutes) % 60);
    format!("2001-09-09T{hour:02}:{minute:02}:40Z")
}

fn json(key: &str, until: &str) -> String {
    format!(
        "{{\"Code\":\"Success\",\"AccessKeyId\":\"{key}\",\"SecretAccessKey\":\"canary-secret\",\
         \"Token\":\"canary-token\",\"Expiration\":\"{until}\"}}"
    )
}

/// A platform of containers, the n-th answer of which has the key `Kn`, for so many minutes from the beginning on.
fn platform(home: &mut Home, until: impl Fn(usize) -> u32 + Send + Sync + 'static) -> Service {
    let count = AtomicUsize::new(0);
    let service = Service::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        (200, json(&format!("K{number}"), &minutes(until(number))))
    });
    home.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &service.url("/canary-path"));
    service
}

#[test]
fn keys_of_the_environment_come_first_unless_a_profile_was_named_for_the_place() {
    let mut home = Home::new();
    home.write("config", PROFILE_A);
    home.set("AWS_ACCESS_KEY_ID", "ENVIRONMENT");
    home.set("AWS_SECRET_ACCESS_KEY", " canary \n");
    home.set("AWS_SESSION_TOKEN", "token");
    home.set("AWS_PROFILE", "a");
    let found = home.credentials(&Options::default()).now().unwrap().unwrap();
    assert_eq!((found.key(), found.secret(), found.token()), ("ENVIRONMENT", "canary", Some("token")));
    let options = Options { profile: Some("a".to_owned()), ..Options::default() };
    let found = home.credentials(&options).now().unwrap().unwrap();
    assert_eq!((found.key(), found.secret(), found.token()), ("PROFILE", "canary-profile", None));
    let anonymous = Options { anonymous: true, ..Options::default() };
    assert!(home.credentials(&anonymous).now().unwrap().is_none());
}

#[test]
fn half_a_key_is_no_key_and_none_behind_it_is_taken() {
    let mut home = Home::new();
    home.write("credentials", "[default]\naws_access_key_id = PROFILE\naws_secret_access_key = canary\n");
    home.set("AWS_SECRET_ACCESS_KEY", "canary");
    let half = failure(&home);
    assert_eq!(half.kind, FailureKind::Usage);
    assert!(half.cause.contains("AWS_ACCESS_KEY_ID is not"), "{half}");
    shows_no_secret(&half);
    home.unset("AWS_SECRET_ACCESS_KEY");
    assert_eq!(key(&home.credentials(&Options::default())), "PROFILE");
    home.write("credentials", "[default]\naws_secret_access_key = canary\n");
    let half = failure(&home);
    assert!(half.cause.contains("profile `default`: it has"), "{half}");
    assert!(half.cause.contains("no aws_access_key_id"), "{half}");
    shows_no_secret(&half);
}

#[test]
fn keys_of_one_file_do_not_go_with_a_token_of_the_other() {
    let home = Home::new();
    let keys = |key: &str| format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = {key}\n");
    home.write("config", &format!("{}aws_session_token = A\n", keys("A")));
    home.write("credentials", &keys("B"));
    let found = home.credentials(&Options::default()).now().unwrap().unwrap();
    assert_eq!((found.key(), found.secret(), found.token()), ("B", "B", None));
}

#[test]
fn a_file_that_is_none_is_told_by_its_line_and_not_repeated() {
    let home = Home::new();
    let settle = || Options::default().settle("run7", &home.surroundings()).map(drop).unwrap_err();
    home.write("credentials", "[default]\naws_secret_access_key canary\n");
    let broken = settle();
    assert_eq!(broken.kind, FailureKind::Usage);
    assert!(broken.cause.contains(".aws/credentials`: line 2"), "{broken}");
    shows_no_secret(&broken);
    home.write("credentials", &"# canary\n".repeat(1 << 17));
    assert!(settle().cause.contains("more than 1048576 bytes"));
    std::fs::remove_file(home.path(".aws/credentials")).unwrap();
    let mut mkfifo = std::process::Command::new("mkfifo");
    assert!(mkfifo.arg(home.path(".aws/credentials")).status().unwrap().success());
    assert!(settle().cause.contains("it is no file"));
}

#[test]
fn what_the_aws_tools_sign_in_with_is_refused_with_what_does_it_instead() {
    let home = Home::new();
    for line in ["role_arn = a", "sso_session = b", "sso_start_url = c", "login_session = d"] {
        // With the keys that stand there one would be somebody else.
        home.write("credentials", "[default]\naws_access_key_id = A\naws_secret_access_key = canary\n");
        home.write("config", &format!("[default]\n{line}\n"));
        let refused = failure(&home);
        assert_eq!(refused.kind, FailureKind::Unsupported, "{line}");
        let hint = "credential_process = aws configure export-credentials --profile default --format process";
        assert!(refused.cause.contains(hint), "{refused}");
        shows_no_secret(&refused);
    }
}

#[test]
fn a_command_of_the_profile_is_run_once_until_what_it_printed_ends_soon() {
    let home = Home::new();
    let ran = home.path("ran");
    let script = home.path("print");
    let until = minutes(60);
    let answer = format!(
        "{{\"Version\":1,\"AccessKeyId\":\"COMMAND\",\"SecretAccessKey\":\"canary\",\
         \"Expiration\":\"{until}\"}}"
    );
    std::fs::write(&script, format!("echo x >> \"$1\"\necho '{answer}'\n")).unwrap();
    let command = format!("sh '{}' '{}'", script.display(), ran.display());
    home.write("config", &format!("[default]\ncredential_process = {command}\n"));
    let runs = || std::fs::read_to_string(&ran).unwrap_or_default().lines().count();
    let credentials = home.credentials(&Options::default());
    assert_eq!((key(&credentials), runs()), ("COMMAND".to_owned(), 1));
    assert_eq!((key(&credentials), runs()), ("COMMAND".to_owned(), 1));
    home.advance(Duration::from_secs(54 * 60));
    assert_eq!((key(&credentials), runs()), ("COMMAND".to_owned(), 1));
    home.advance(Duration::from_secs(2 * 60));
    assert_eq!((key(&credentials), runs()), ("COMMAND".to_owned(), 2));
}

const STS_ANSWER: &str = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
    <AccessKeyId>ROLE</AccessKeyId><SecretAccessKey>canary+/&amp;</SecretAccessKey>\
    <SessionToken>canary-token</SessionToken><Expiration>2001-09-09T02:46:40Z</Expiration>\
    </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";

#[test]
fn a_web_identity_is_exchanged_and_its_file_read_anew_at_each_renewal() {
    let mut home = Home::new();
    let service = Service::start(|_| (200, STS_ANSWER.to_owned()));
    std::fs::write(home.path("token"), "canary=1\n").unwrap();
    home.set("AWS_WEB_IDENTITY_TOKEN_FILE", "~/token");
    let without_role = failure(&home);
    assert!(without_role.cause.contains("AWS_ROLE_ARN is not"), "{without_role}");
    home.set("AWS_ROLE_ARN", "arn:aws:iam::1:role/a");
    home.set("AWS_ENDPOINT_URL_STS", &service.url(""));
    let credentials = home.credentials(&Options::default());
    let found = credentials.now().unwrap().unwrap();
    assert_eq!((found.key(), found.secret(), found.token()), ("ROLE", "canary+/&", Some("canary-token")));
    std::fs::write(home.path("token"), "canary=2\n").unwrap();
    home.advance(Duration::from_secs(56 * 60));
    assert_eq!(key(&credentials), "ROLE");
    let asked = service.asked();
    assert_eq!(asked.len(), 2);
    let first = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15\
                 &RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa\
                 &RoleSessionName=thalweg&WebIdentityToken=canary%3D1";
    assert_eq!((&*asked[0].line, &*asked[0].body), ("POST /", first));
    assert!(!asked[0].headers.contains_key("authorization"));
    assert!(asked[1].body.ends_with("WebIdentityToken=canary%3D2"), "{:?}", asked[1]);
}

#[test]
fn a_profile_may_name_the_token_as_well() {
    let mut home = Home::new();
    let service = Service::start(|_| (200, STS_ANSWER.to_owned()));
    let names = "role_arn = r\nrole_session_name = s\nweb_identity_token_file = ~/token\n";
    home.write("config", &format!("[default]\n{names}"));
    home.set("AWS_ENDPOINT_URL_STS", &service.url(""));
    let missing = failure(&home);
    assert_eq!(missing.kind, FailureKind::NotFound);
    std::fs::write(home.path("token"), "t").unwrap();
    assert_eq!(key(&home.credentials(&Options::default())), "ROLE");
    assert!(service.asked()[0].body.contains("RoleArn=r&RoleSessionName=s&"));
}

#[test]
fn a_token_service_that_refuses_is_told_with_its_words_and_not_with_our_token() {
    let mut home = Home::new();
    let service = Service::start(|asked: &Asked| {
        let token = asked.body.rsplit('=').next().unwrap_or_default();
        let error = |code: &str, words: &str| {
            format!("<E><Error><Code>{code}</Code><Message>{words}</Message></Error></E>")
        };
        match token {
            "canary1" => (403, error("AccessDenied", "Not authorized to assume &lt;r&gt;\u{1b}[2J")),
            _ => (400, error("InvalidIdentityToken", token)),
        }
    });
    home.set("AWS_WEB_IDENTITY_TOKEN_FILE", "~/token");
    home.set("AWS_ROLE_ARN", "r");
    home.set("AWS_ENDPOINT_URL_STS", &service.url(""));
    std::fs::write(home.path("token"), "canary1").unwrap();
    let refused = failure(&home);
    assert_eq!(refused.kind, FailureKind::Permission);
    assert!(refused.cause.contains("403: AccessDenied, Not authorized to assume <r>\\x1b[2J"), "{refused}");
    shows_no_secret(&refused);
    std::fs::write(home.path("token"), "canary2").unwrap();
    let refused = failure(&home);
    assert!(refused.cause.ends_with("400: InvalidIdentityToken"), "{refused}");
    shows_no_secret(&refused);
    // Neither is asked again.
    assert_eq!(service.asked().len(), 2);
}

#[test]
fn a_platform_is_shown_the_token_of_its_file_which_is_read_anew() {
    let mut home = Home::new();
    let service = platform(&mut home, |number| if number == 1 { 20 } else { 60 });
    home.set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of-variable");
    assert_eq!(key(&home.credentials(&Options::default())), "K1");
    std::fs::write(home.path("token"), "of-file-1\n").unwrap();
    home.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "~/token");
    let credentials = home.credentials(&Options::default());
    assert_eq!(key(&credentials), "K2");
    std::fs::write(home.path("token"), "of-file-2").unwrap();
    home.advance(Duration::from_secs(56 * 60));
    assert_eq!(key(&credentials), "K3");
    let asked = service.asked();
    let shown: Vec<&str> = asked.iter().map(|asked| &*asked.headers["authorization"]).collect();
    assert_eq!(shown, ["of-variable", "of-file-1", "of-file-2"]);
    assert_eq!(asked[0].line, "GET /canary-path");
    std::fs::write(home.path("token"), "canary\r\nX-Other: a").unwrap();
    let refused = failure(&home);
    assert_eq!(refused.kind, FailureKind::Usage);
    shows_no_secret(&refused);
}

#[test]
fn a_platform_in_clear_that_is_none_is_not_asked() {
    let mut home = Home::new();
    home.set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "canary");
    home.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://10.0.0.1/canary");
    let refused = failure(&home);
    assert_eq!(refused.kind, FailureKind::Usage);
    assert!(refused.cause.contains("http://10.0.0.1: ") && refused.cause.contains("have https"), "{refused}");
    shows_no_secret(&refused);
    // It would be a user of another host.
    home.set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@canary.example.org/");
    let refused = failure(&home);
    assert!(refused.cause.contains("begin with a slash"), "{refused}");
    shows_no_secret(&refused);
}

#[test]
fn a_platform_that_cannot_at_present_is_asked_again_and_one_that_refuses_is_not() {
    let mut home = Home::new();
    let status = Arc::new(Mutex::new(vec![503_u16, 500, 200]));
    let answers = Arc::clone(&status);
    let service = Service::start(move |_| {
        let mut answers = lock(&answers);
        let status = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
        (status, json("K", &minutes(60)))
    });
    home.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &service.url("/"));
    assert_eq!(key(&home.credentials(&Options::default())), "K");
    assert_eq!(service.asked().len(), 3);
    *lock(&status) = vec![403];
    let refused = failure(&home);
    assert_eq!((refused.kind, service.asked().len()), (FailureKind::Permission, 4));
    *lock(&status) = vec![503];
    let busy = failure(&home);
    assert_eq!((busy.kind, service.asked().len()), (FailureKind::Connection, 7));
    shows_no_secret(&busy);
}

/// A metadata service that gives nothing without its token.
fn metadata(home: &mut Home, role: &'static str) -> Service {
    let service = Service::start(move |asked| {
        let header = |name: &str| asked.headers.get(name).map(String::as_str);
        let has_token = header("x-aws-ec2-metadata-token") == Some("canary-imds");
        match &*asked.line {
            "PUT /latest/api/token" if header("x-aws-ec2-metadata-token-ttl-seconds") == Some("21600") => {
                (200, "canary-imds".to_owned())
            }
            "GET /latest/meta-data/iam/security-credentials/" if has_token && role.is_empty() => {
                (404, "canary".to_owned())
            }
            "GET /latest/meta-data/iam/security-credentials/" if has_token => (200, role.to_owned()),
            "GET /latest/meta-data/iam/security-credentials/beam_line" if has_token => {
                (200, json("MACHINE", &minutes(60)))
            }
            _ => (401, "canary".to_owned()),
        }
    });
    home.unset("AWS_EC2_METADATA_DISABLED");
    home.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", &service.url("/"));
    service
}

#[test]
fn a_machine_gives_the_keys_of_its_role_for_a_token() {
    let mut home = Home::new();
    let service = metadata(&mut home, "beam_line");
    let found = home.credentials(&Options::default()).now().unwrap().unwrap();
    assert_eq!((found.key(), found.token()), ("MACHINE", Some("canary-token")));
    assert_eq!(service.asked().len(), 3);
    home.set("AWS_EC2_METADATA_DISABLED", "TRUE");
    let unasked = failure(&home);
    assert!(unasked.cause.contains("AWS_EC2_METADATA_DISABLED"), "{unasked}");
    assert_eq!(service.asked().len(), 3);
}

#[test]
fn a_machine_that_had_a_role_and_does_not_answer_is_waited_for() {
    let mut home = Home::new();
    let _service = metadata(&mut home, "beam_line");
    let credentials = home.credentials(&Options::default());
    assert_eq!(key(&credentials), "MACHINE");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    home.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", &format!("http://{free}"));
    home.advance(Duration::from_secs(24 * 3600));
    let away = credentials.now().unwrap_err();
    assert_eq!(away.kind, FailureKind::Connection, "{away}");
}

#[test]
fn a_role_that_would_be_another_question_is_not_asked_for() {
    let mut home = Home::new();
    let service = metadata(&mut home, "../../canary");
    let refused = failure(&home);
    assert_eq!((refused.kind, service.asked().len()), (FailureKind::Protocol, 2));
    shows_no_secret(&refused);
}

#[test]
fn where_nobody_says_who_we_are_each_place_is_named_with_what_was_found_and_what_to_do() {
    let mut home = Home::new();
    let service = metadata(&mut home, "");
    let nobody = failure(&home);
    assert_eq!(nobody.kind, FailureKind::Permission);
    for words in [
        "AWS_ACCESS_KEY_ID is not set",
        "profile `default` is not in `",
        ".aws/config` or `",
        "AWS_WEB_IDENTITY_TOKEN_FILE is not set",
        "neither AWS_CONTAINER_CREDENTIALS_RELATIVE_URI nor AWS_CONTAINER_CREDENTIALS_FULL_URI is set",
        "the machine has no role",
        "name a profile of `~/.aws/config`",
        "`anonymous`",
    ] {
        assert!(nobody.cause.contains(words), "{words}: {nobody}");
    }
    assert_eq!(service.asked().len(), 2);
    // Nobody listens where somebody did a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    home.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", &format!("http://{free}"));
    let nobody = failure(&home);
    assert_eq!(nobody.kind, FailureKind::Permission);
    assert!(nobody.cause.contains(&format!("http://{free}: Connection refused")), "{nobody}");
}

#[test]
fn a_machine_that_never_answers_is_asked_twice_and_given_up() {
    let mut home = Home::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    home.unset("AWS_EC2_METADATA_DISABLED");
    home.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", &format!("http://{}", silent.local_addr().unwrap()));
    let nobody = failure(&home);
    assert!(nobody.cause.contains("no answer within 1 s"), "{nobody}");
    silent.set_nonblocking(true).unwrap();
    assert_eq!(silent.incoming().map_while(|connection| connection.ok()).count(), 2);
}

#[test]
fn what_a_failure_says_has_room_for_what_to_do_however_long_the_places_are() {
    let mut home = Home::new();
    let long = format!("/{}", "a/".repeat(2000));
    home.set("AWS_CONFIG_FILE", &format!("{long}config"));
    home.set("AWS_SHARED_CREDENTIALS_FILE", &format!("{long}credentials"));
    let nobody = failure(&home);
    assert!(nobody.cause.ends_with("there is `anonymous`"), "{nobody}");
}

#[test]
fn many_threads_that_need_credentials_have_them_fetched_once() {
    const THREADS: usize = 8;
    let mut home = Home::new();
    let started = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&started);
    let service = Service::start(move |_| {
        // All are on their way before the first one has an answer.
        while seen.load(Ordering::SeqCst) < THREADS {
            std::thread::yield_now();
        }
        (200, json("K", &minutes(60)))
    });
    home.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &service.url("/"));
    let credentials = home.credentials(&Options::default());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                started.fetch_add(1, Ordering::SeqCst);
                assert_eq!(key(&credentials), "K");
            });
        }
    });
    assert_eq!(service.asked().len(), 1);
}

#[test]
fn while_one_renews_the_others_go_on_with_the_old_ones() {
    let mut home = Home::new();
    let is_over = Arc::new(AtomicUsize::new(0));
    let over = Arc::clone(&is_over);
    let count = AtomicUsize::new(0);
    let service = Service::start(move |_| {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            return (200, json("OLD", &minutes(20)));
        }
        while over.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        (200, json("NEW", &minutes(60)))
    });
    home.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &service.url("/"));
    let credentials = home.credentials(&Options::default());
    assert_eq!(key(&credentials), "OLD");
    home.advance(Duration::from_secs(16 * 60));
    std::thread::scope(|scope| {
        let renews = scope.spawn(|| key(&credentials));
        while service.asked().len() < 2 {
            std::thread::yield_now();
        }
        assert_eq!(key(&credentials), "OLD");
        is_over.store(1, Ordering::SeqCst);
        assert_eq!(renews.join().unwrap(), "NEW");
    });
    assert_eq!((key(&credentials), service.asked().len()), ("NEW".to_owned(), 2));
}

#[test]
fn old_ones_are_used_while_they_hold_if_a_renewal_fails_and_not_a_moment_longer() {
    let mut home = Home::new();
    let fails = Arc::new(AtomicUsize::new(0));
    let status = Arc::clone(&fails);
    let service = Service::start(move |_| match status.load(Ordering::SeqCst) {
        0 => (200, json("OLD", &minutes(20))),
        1 => (403, String::new()),
        _ => (200, json("NEW", &minutes(60))),
    });
    home.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &service.url("/"));
    let credentials = home.credentials(&Options::default());
    assert_eq!((key(&credentials), service.asked().len()), ("OLD".to_owned(), 1));
    assert_eq!((key(&credentials), service.asked().len()), ("OLD".to_owned(), 1));
    fails.store(1, Ordering::SeqCst);
    home.advance(Duration::from_secs(16 * 60));
    // One look, and none for each request.
    assert_eq!((key(&credentials), service.asked().len()), ("OLD".to_owned(), 2));
    assert_eq!((key(&credentials), service.asked().len()), ("OLD".to_owned(), 2));
    home.advance(Duration::from_secs(11));
    assert_eq!((key(&credentials), service.asked().len()), ("OLD".to_owned(), 3));
    home.advance(Duration::from_secs(4 * 60));
    for _ in 0..2 {
        let failure = credentials.now().unwrap_err();
        assert_eq!((failure.kind, service.asked().len()), (FailureKind::Permission, 4));
    }
    fails.store(2, Ordering::SeqCst);
    home.advance(Duration::from_secs(11));
    assert_eq!(key(&credentials), "NEW");
}

#[test]
fn those_that_never_hold_five_minutes_are_not_renewed_at_each_request() {
    let mut home = Home::new();
    let service = platform(&mut home, |number| 2 * number as u32);
    let credentials = home.credentials(&Options::default());
    assert_eq!((key(&credentials), key(&credentials)), ("K1".to_owned(), "K1".to_owned()));
    home.advance(Duration::from_secs(61));
    assert_eq!((key(&credentials), service.asked().len()), ("K2".to_owned(), 2));
}

#[test]
fn what_has_ended_already_is_refused() {
    let mut home = Home::new();
    let _service = platform(&mut home, |_| 0);
    let ended = failure(&home);
    assert_eq!(ended.kind, FailureKind::Permission);
    assert!(ended.cause.contains("have ended"), "{ended}");
    shows_no_secret(&ended);
}

#[test]
fn what_the_store_refuses_is_fetched_anew_once_whoever_says_so() {
    let mut home = Home::new();
    let service = platform(&mut home, |_| 60);
    let credentials = home.credentials(&Options::default());
    let first = credentials.now().unwrap().unwrap();
    credentials.refuse(&first);
    let second = credentials.now().unwrap().unwrap();
    // Another thread, with an answer to an older request.
    credentials.refuse(&first);
    assert!(Arc::ptr_eq(&second, &credentials.now().unwrap().unwrap()));
    assert_eq!((second.key(), service.asked().len()), ("K2", 2));
}

#[test]
fn what_the_store_refuses_and_nobody_replaces_is_told_until_there_are_others() {
    let home = Home::new();
    let keys = |key: &str| {
        let text = format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = canary\n");
        home.write("credentials", &text);
    };
    keys("OLD");
    let credentials = home.credentials(&Options::default());
    credentials.refuse(&credentials.now().unwrap().unwrap());
    let refused = credentials.now().unwrap_err();
    assert_eq!(refused.kind, FailureKind::Permission);
    assert!(refused.cause.contains("expired") && refused.cause.contains("the profile"), "{refused}");
    shows_no_secret(&refused);
    keys("NEW");
    home.advance(Duration::from_secs(11));
    assert_eq!(key(&credentials), "NEW");
}

#[test]
fn nothing_that_is_shown_of_credentials_is_a_secret() {
    let home = Home::new();
    home.write("credentials", "[default]\naws_access_key_id = canary\naws_secret_access_key = canary\n");
    let credentials = home.credentials(&Options::default());
    credentials.now().unwrap();
    let shown = format!("{credentials:?} {:?}", credentials.means.profile);
    assert!(!shown.contains("canary"), "{shown}");
}
