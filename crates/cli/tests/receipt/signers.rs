//! Who signed a receipt, and what it certifies.

use super::{copied, verify};
use crate::support::Scratch;
use std::path::{Path, PathBuf};

#[test]
fn only_the_keys_that_are_expected_may_have_signed() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    let text = std::fs::read_to_string(&receipt).unwrap();
    let footer: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let key = footer["receiver"]["public_key"].as_str().unwrap();
    assert_eq!(verify(&scratch, &receipt, &to, &["--keys", key]).0, 0);
    let certificate = footer["receiver"]["fingerprint"].as_str().unwrap();
    assert_eq!(verify(&scratch, &receipt, &to, &["--keys", certificate]).0, 0);
    let as_openssl: Vec<String> =
        certificate.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).to_uppercase()).collect();
    assert_eq!(verify(&scratch, &receipt, &to, &["--keys", &as_openssl.join(":")]).0, 0);
    assert_eq!(verify(&scratch, &receipt, &to, &["--keys", &"ab".repeat(32)]).0, 4);
    assert_eq!(verify(&scratch, &receipt, &to, &["--keys", "abc"]).0, 1);
    // A list of two does not say that both took part: the warning does, and each side can be asked for.
    let other = "ab".repeat(32);
    let (code, _, err) = verify(&scratch, &receipt, &to, &["--keys", &format!("{key},{other}")]);
    assert!(code == 0 && err.contains("ONE key signed for both sides") && !err.contains("anybody"), "{err}");
    assert_eq!(verify(&scratch, &receipt, &to, &["--sender", key, "--receiver", key]).0, 0);
    let (code, _, err) = verify(&scratch, &receipt, &to, &["--sender", key, "--receiver", &other]);
    assert!(code == 4 && err.contains("the receiver signed with") && err.contains("--receiver"), "{err}");
    let (code, _, err) = verify(&scratch, &receipt, &to, &["--receiver", key]);
    assert!(code == 0 && err.contains("anybody can have signed as the sender"), "{err}");
}

#[test]
fn what_a_receipt_certifies_is_told_with_and_without_a_place() {
    let scratch = Scratch::new();
    let (receipt, to) = copied(&scratch);
    let text = std::fs::read_to_string(&receipt).unwrap();
    let [header, footer] = [text.lines().next(), text.lines().last()]
        .map(|line| serde_json::from_str::<serde_json::Value>(line.unwrap()).unwrap());
    let shown = scratch.ok([Path::new("verify"), Path::new("--show"), &receipt]);
    let fingerprint = footer["sender"]["fingerprint"].as_str().unwrap();
    for what in [
        header["from"][0].as_str().unwrap(),
        header["to"].as_str().unwrap(),
        "--verify written, --check evidence",
        footer["root"].as_str().unwrap(),
        fingerprint,
        "0 failed",
    ] {
        assert!(shown.contains(what), "{what}: {shown}");
    }
    let told = |words: &[&str]| -> serde_json::Value {
        let words = words.iter().map(PathBuf::from).chain([receipt.clone()]);
        serde_json::from_str(scratch.ok(words).lines().last().unwrap()).unwrap()
    };
    let alone = told(&["verify", "--show", "--json"]);
    assert_eq!(alone["event"], "receipt");
    let (code, out, err) = verify(&scratch, &receipt, &to, &["--json", "--sender", fingerprint]);
    assert_eq!(code, 0, "{out}{err}");
    let verified: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let beside = &verified["receipt"];
    for told in [&alone, beside] {
        for key in ["began", "from", "to"] {
            assert_eq!(told[key], header[key], "{told}");
        }
        for key in ["root", "entries", "kind", "place", "terms", "totals"] {
            assert_eq!(told[key], footer[key], "{told}");
        }
        for key in ["when", "fingerprint", "public_key", "ephemeral"] {
            assert_eq!(told["receiver"][key], footer["receiver"][key], "{told}");
        }
        assert_eq!(told["one_signer"], true, "{told}");
        assert_eq!(told["receiver"]["expected"], false, "{told}");
    }
    let of_sender = [&alone, beside].map(|told| told["sender"]["expected"].as_bool());
    assert_eq!(of_sender, [Some(false), Some(true)]);
    // What was not signed is not shown.
    std::fs::write(&receipt, text.replacen(r#""began":1"#, r#""began":2"#, 1)).unwrap();
    let refused = scratch.run([Path::new("verify"), Path::new("--show"), &receipt]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(4), 0));
    assert_eq!(scratch.run([Path::new("verify"), Path::new("--show"), &receipt, &to]).status.code(), Some(1));
}

/// Names that were left out are in no line and no total: nothing else tells such a receipt from one of the whole tree.
#[test]
fn a_receipt_of_some_of_a_tree_says_what_left_out_the_rest() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for name in ["a.txt", "b.h5", "c.h5"] {
        std::fs::write(scratch.path("from").join(name), name).unwrap();
    }
    std::fs::write(scratch.path("list"), "a.txt\nb.h5\n").unwrap();
    let (from, list) = (scratch.path("from/").display().to_string(), scratch.path("list"));
    let list = list.display().to_string();
    // What a receipt of such a copy says to people, with and without a place, and to programs.
    let told = |name: &str, options: &[&str]| {
        let (receipt, to) = (scratch.path(&format!("{name}.receipt")), scratch.path(name));
        let [shown, into] = [&receipt, &to].map(|path| path.display().to_string());
        let places = ["--receipt", &shown, &from, &into];
        scratch.ok(["cp"].iter().chain(options).chain(&places));
        let (code, out, err) = verify(&scratch, &receipt, &to, &["--strict"]);
        assert!(code == 0 && out.starts_with("verified: "), "{out}{err}");
        let (_, json, _) = verify(&scratch, &receipt, &to, &["--json"]);
        let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
        let shown = scratch.ok([Path::new("verify"), Path::new("--show"), &receipt]);
        (err, shown, last["receipt"].clone())
    };
    let rules = ["--include", "/b.h5", "--exclude", "*.h5"];
    let (verified, shown, words) = told("ruled", &rules);
    let sentence = "names were left out by 2 rules: `+ /b.h5`, `- *.h5`";
    assert!(verified.contains(sentence) && shown.contains(sentence), "{verified}{shown}");
    assert_eq!(words["rules"]["list"], serde_json::json!(["+ /b.h5", "- *.h5"]), "{words}");
    let (verified, shown, words) = told("listed", &["--files-from", &list, "-x", "-L"]);
    for sentence in ["nothing but a list of 2 names", "other file systems", "links were followed"] {
        assert!(verified.contains(sentence) && shown.contains(sentence), "{verified}{shown}");
    }
    let digest = blake3::hash(b"a.txt\0b.h5\0").to_hex();
    assert_eq!(words["names"]["digest"], digest.as_str(), "{words}");
    // Of the whole tree there is no such word.
    let (verified, shown, words) = told("whole", &[]);
    for sentence in ["names were left out", "nothing but a list", "other file systems", "links were followed"]
    {
        assert!(!verified.contains(sentence) && !shown.contains(sentence), "{verified}{shown}");
    }
    for key in ["rules", "names", "one_file_system", "follow_links"] {
        assert!(words.get(key).is_none(), "{words}");
    }
    // It is signed.
    let receipt = scratch.path("ruled.receipt");
    let text = std::fs::read_to_string(&receipt).unwrap();
    assert!(text.contains("\"- *.h5\""), "{text}");
    std::fs::write(&receipt, text.replacen("\"- *.h5\"", "\"- *.h6\"", 1)).unwrap();
    assert_eq!(verify(&scratch, &receipt, &scratch.path("ruled"), &[]).0, 4);
}

/// What an auditor has to be given: never a key.
#[test]
fn identity_prints_the_certificate_and_fingerprint_that_receipts_name_and_no_key() {
    let scratch = Scratch::new();
    let ask = |words: &[&str]| scratch.ok(std::iter::once("identity").chain(words.iter().copied()));
    // It is there before the first copy.
    let told = ask(&[]);
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    std::fs::write(scratch.path("file"), "x").unwrap();
    let (ticket, receipt) = (daemon.ticket.display().to_string(), scratch.path("receipt"));
    let (shown, file) = (receipt.display().to_string(), scratch.path("file").display().to_string());
    scratch.ok(["cp", "--ticket", &ticket, "--receipt", &shown, &file, &daemon.place("data", "file")]);
    let text = std::fs::read_to_string(&receipt).unwrap();
    let footer: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let state = scratch.path("server-state").display().to_string();
    let of_server = ask(&["--server", "--state", &state]);
    for (told, side) in [(&told, "sender"), (&of_server, "receiver")] {
        let [fingerprint, key] = ["fingerprint", "public_key"].map(|key| footer[side][key].as_str().unwrap());
        assert!(told.contains(fingerprint) && told.contains(key), "{side}: {told}");
        assert!(told.contains("-----BEGIN CERTIFICATE-----") && !told.contains("PRIVATE"), "{told}");
    }
    // Who has only the ticket knows whom to expect too.
    let server = footer["receiver"]["fingerprint"].as_str().unwrap();
    assert!(ask(&[ticket.as_str()]).contains(server));
    let event: serde_json::Value = serde_json::from_str(&ask(&["--json", ticket.as_str()])).unwrap();
    assert_eq!((&event["event"], &event["fingerprint"]), (&"identity".into(), &server.into()));
    assert!(event["certificate"].is_null(), "{event}");
    let event: serde_json::Value = serde_json::from_str(&ask(&["--json"])).unwrap();
    assert_eq!(event["public_key"], footer["sender"]["public_key"]);
    // Nothing is made where a daemon never was.
    let nowhere = scratch.path("nowhere").display().to_string();
    assert_eq!(scratch.run(["identity", "--server", "--state", &nowhere]).status.code(), Some(3));
    assert!(!scratch.path("nowhere").exists());
    let mut asks = scratch.thalweg();
    asks.args(["identity", "--server"]).env_remove("THALWEG_STATE");
    asks.env("XDG_STATE_HOME", scratch.path("never"));
    assert_eq!(asks.output().unwrap().status.code(), Some(3));
    assert!(!scratch.path("never").exists());
}
