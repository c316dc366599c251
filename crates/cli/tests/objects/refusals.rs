//! What is refused, and with which words.

use super::servers::{KEY, Kind, SECRET, each, with};
use super::support::Scratch;
use super::support::canary::Secrets;
use super::support::job::{Ran, Running};
use std::time::Duration;

const HANG: Duration = Duration::from_secs(300);

fn said(ran: &Ran) -> String {
    format!("{}{}", ran.stdout, ran.stderr)
}

/// Moto checks none.
#[test]
fn wrong_credentials_are_told_without_a_secret() {
    with(Kind::Versity, "credentials", |server| {
        std::fs::write(server.scratch.path("f"), b"x").unwrap();
        let wrong = "canary-of-a-wrong-secret";
        for (key, log) in
            [("AKIDOFATEST", "debug"), ("AKIDOFNOBODY", "debug"), ("AKIDOFATEST", "trace,ureq=trace")]
        {
            let mut command = server.thalweg();
            command.env("AWS_ACCESS_KEY_ID", key).env("AWS_SECRET_ACCESS_KEY", wrong);
            command.env("THALWEG_LOG", log);
            command.args(["cp", &server.path("f"), &server.place("f")]);
            let refused = Running::start(command).end(HANG).expect(3);
            let told = said(&refused);
            assert!(told.contains("error: ") && told.contains("data"), "{told}");
            assert!(!told.contains(wrong) && !told.contains(SECRET), "{told}");
            assert!(!told.contains("X-Amz-Signature"), "{told}");
        }
        assert_eq!(server.keys(), [""; 0]);
    });
}

/// The user's keys, and what files have, with everything logged that can be.
#[test]
fn neither_the_users_secret_nor_content_is_in_logs_events_receipts_state_or_processes() {
    const CONTENT: &str = "canary-of-the-content\n";
    with(Kind::Versity, "secrets", |server| {
        let credentials = server.scratch.path("credentials");
        let text = format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n");
        std::fs::write(&credentials, text).unwrap();
        std::fs::create_dir(server.scratch.path("from")).unwrap();
        std::fs::write(server.scratch.path("from/large"), CONTENT.repeat(1 << 20)).unwrap();
        std::fs::write(server.scratch.path("from/small"), CONTENT).unwrap();
        let mut secrets = Secrets::default();
        secrets.add("the secret key", SECRET.as_bytes());
        secrets.add("a signed address", b"X-Amz-Signature");
        secrets.add("content", CONTENT.trim_end().as_bytes());
        let (from, there, back) = (server.path("from/"), server.place("there/"), server.path("back"));
        let (receipt, none) = (server.path("receipt"), server.path("none"));
        let push = ["cp", "--json", "--chunk", "8MiB", "--bwlimit", "80Mbit/s", "--receipt", &receipt];
        // At least while it pushes, for two seconds: what is refused may be over before anybody looks.
        let mut was_seen = false;
        for (words, places, code) in [
            (&push[..], &[from.as_str(), &there][..], 0),
            (&["cp", "--json"], &[there.as_str(), &back], 0),
            (&["cp", "--json"], &["s3://no-such-bucket/f", &none], 3),
            (&["verify", "--json"], &[receipt.as_str(), &there], 0),
            (&["gc", "--json"], &[there.as_str()], 0),
        ] {
            let mut command = server.thalweg();
            command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
            command.env("AWS_SHARED_CREDENTIALS_FILE", &credentials);
            command.env("THALWEG_LOG", "trace,ureq=trace").args(words).args(places);
            // The store was given its secret by its environment, by us.
            let but = ["versitygw"];
            let (ran, seen) = secrets.watch(command, server.scratch.root(), &but);
            secrets.assert_not_said(&ran);
            was_seen |= seen.contains("thalweg");
            ran.expect(code);
        }
        assert!(was_seen, "nobody looked at a process of ours");
        let belongs = ["credentials", "from", "back", "store", "store.log"];
        secrets.assert_not_below(server.scratch.root(), &belongs.map(|name| server.scratch.path(name)));
    });
}

#[test]
fn a_bucket_that_is_not_there_and_a_key_that_nothing_has_are_told_by_name() {
    each("absent", |server| {
        std::fs::write(server.scratch.path("f"), b"x").unwrap();
        let (file, down) = (server.path("f"), server.path("down"));
        for (from, to, name) in [
            (file.as_str(), "s3://no-such-bucket/f", "no-such-bucket"),
            ("s3://no-such-bucket/f", down.as_str(), "no-such-bucket"),
            ("s3://data/no-such-key", down.as_str(), "no-such-key"),
        ] {
            let refused = server.run(&["cp", from, to]).expect(3);
            assert!(refused.stderr.contains(name), "{from}: {}", refused.stderr);
        }
        assert!(!server.scratch.path("down").exists());
    });
}

#[test]
fn a_program_that_prints_credentials_has_the_users_umask() {
    with(Kind::Versity, "umask", |server| {
        let (script, said) = (server.path("print"), server.path("umask"));
        let keys = format!("{{\"Version\":1,\"AccessKeyId\":\"{KEY}\",\"SecretAccessKey\":\"{SECRET}\"}}");
        std::fs::write(&script, format!("umask > '{said}'\necho '{keys}'\n")).unwrap();
        let config = server.path("aws-config");
        std::fs::write(&config, format!("[default]\ncredential_process = sh '{script}'\n")).unwrap();
        std::fs::write(server.scratch.path("f"), b"x").unwrap();
        let mut command = server.thalweg();
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        command.env("AWS_CONFIG_FILE", &config).args(["cp", &server.path("f"), &server.place("f")]);
        Running::start(command).end(HANG).expect(0);
        let ours = std::process::Command::new("sh").args(["-c", "umask"]).output().unwrap().stdout;
        assert_eq!(std::fs::read(&said).unwrap(), ours);
    });
}

/// Nobody is asked: there is no store.
#[test]
fn what_is_not_here_of_buckets_says_what_does_it() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("tree")).unwrap();
    std::fs::write(scratch.path("tree/f"), b"x").unwrap();
    let tree = scratch.path("tree").display().to_string();
    for (words, code, told) in [
        (&["stream", &tree, "s3://data/x/"][..], 3, "thalweg watch"),
        (&["stream", "s3://data/x", &tree], 3, "thalweg cat"),
        (&["probe", &tree, "s3://data/x/"], 1, "`thalweg predict SRC DST`"),
        (&["probe", "s3://data/x", &tree], 1, "`thalweg predict SRC DST`"),
        (&["rm", "-r", "s3://data"], 1, "no name of its own"),
        (&["cp", "s3://data/a", &tree, "s3://data/z/"], 1, "--and"),
        (&["cp", "s3://data/a", "s3://data/b/", &tree], 1, "a name of its own"),
        (&["cp", "s3://data/x/a", "s3://more/y/a", &tree], 1, "the same name at the destination"),
        (&["cp", "s3://data/y/x/deep", "s3://data/x", "s3://data/y/"], 1, "one inside the other"),
        (&["cp", "s3://data/a//b", &tree], 1, "two slashes"),
        (&["cp", "s3://data/run7/", "s3://data/run7/z/"], 1, "one inside the other"),
        (&["sync", "s3://data/run7", "s3://data/"], 1, "one inside the other"),
        (&["cp", "gs://data/a", &tree], 1, "AWS_ENDPOINT_URL=https://storage.googleapis.com"),
        (&["watch", "s3://data/run7/", "s3://data/run7/z/"], 1, "one inside the other"),
    ] {
        let mut command = scratch.thalweg();
        command.env("HOME", scratch.root()).env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
        command.env("AWS_ACCESS_KEY_ID", "k").env("AWS_SECRET_ACCESS_KEY", "s").args(words);
        let refused = Running::start(command).end(HANG).expect(code);
        assert!(said(&refused).contains(told), "{words:?}: {}", said(&refused));
    }
}

#[test]
fn files_that_go_into_a_bucket_may_go_and_come_back_and_what_was_only_looked_at_stays() {
    each("removal", |server| {
        std::fs::write(server.scratch.path("f"), b"y").unwrap();
        let (file, there) = (server.path("f"), server.place("moved"));
        server.ok(&["cp", "--remove-source-files", &file, &there]);
        assert!(!server.scratch.path("f").exists());
        // It keeps nothing.
        let refused = server.run(&["cp", "--remove-source-files", &there, "null:"]).expect(1);
        assert!(refused.stderr.contains("keeps nothing"), "{}", refused.stderr);
        server.ok(&["cp", "-n", "--remove-source-files", &there, &file]);
        assert_eq!(server.keys(), ["moved"]);
        // What is there by its time and size is not known to be the same. What was changed within a second of it may be
        // the source itself, seen by a mount.
        std::thread::sleep(Duration::from_millis(2500));
        server.ok(&["cp", &there, &file]);
        let told = server.ok(&["cp", "--remove-source-files", &there, &file]);
        assert!(said(&told).contains("not compared by content"), "{}", said(&told));
        assert_eq!(server.keys(), ["moved"]);
        server.ok(&["cp", "--remove-source-files", "--check", "digest", &there, &file]);
        assert_eq!(server.keys(), [""; 0]);
        assert_eq!(std::fs::read(server.scratch.path("f")).unwrap(), b"y");
    });
}
