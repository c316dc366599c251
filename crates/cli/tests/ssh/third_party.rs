//! Copies between two far places, as who asks for them sees it: real sshds at both ends, and this process at neither.

use super::support::chance::skipped;
use super::support::job::journal_bytes;
use super::support::peer::{HostileClient, SOON, asks, entry, file, path as name, symlink};
use super::support::{Scratch, assert_no_litter, assert_same, finish, make_tree, noise, wait_until};
use super::{ARRIVES, GONE, Sshd, lying_program, text};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_client::errand::{Errand, ErrandCounts, Given, Told};
use thalweg_client::far_movers::{How, SshOptions};
use thalweg_client::job::Job;
use thalweg_client::place::{Place, Places};
use thalweg_mover::event;
use thalweg_mover::failure::{FailureKind, Reason, Result};
use thalweg_mover::link::ssh::errand::Deputy;
use thalweg_mover::link::ssh::{MOVER_MAGIC, Only, Order, Ready, read_line};
use thalweg_mover::link::{Identity, ServerTrust, client_config};
use thalweg_mover::run::client::{LinkSettings, TcpConnect};
use thalweg_mover::run::copy::{From, Stop, To, Watch, Wishes};
use thalweg_mover::run::far_mover::FarMover;
use thalweg_wire::message::{self, Outcome, Push, Question, Request, SourceForm, TransferMessage};
use thalweg_wire::{EntryId, Kind};

/// The two ends, each with an sshd and a state directory of its own.
struct Two {
    at_a: Sshd,
    at_b: Sshd,
    a: Scratch,
    b: Scratch,
}

/// What became of an errand.
struct Ran {
    code: Result<i32>,
    out: String,
    err: String,
    progress: Option<ErrandCounts>,
    /// Of what was told last of where the time goes.
    told_bytes: u64,
}

impl Two {
    /// `None`, with the reason told, where there is no sshd.
    fn start(b_has_thalweg: bool) -> Option<Two> {
        let (a, b) = (Scratch::new(), Scratch::new());
        // Before anything is started here: what is started hears signals from then on.
        drop(a.thalweg());
        let at_a = Sshd::start(&a)?;
        let at_b = Sshd::start_with(&b, b_has_thalweg, &[])?;
        Some(Two { at_a, at_b, a, b })
    }

    /// With the keys of both.
    fn how(&self) -> How {
        let key = self.b.path("sshd/user-key");
        let rsh = format!("{} -i '{}'", self.at_a.rsh, key.display()).into();
        let ssh = SshOptions { rsh, ..SshOptions::default() };
        let patience = Duration::from_secs(600);
        How { patience, ..How::to_ask(&Places::default(), None, ssh) }
    }

    fn errand(&self, from: &Path, to: &Path) -> Errand {
        errand(&self.at_a.url(from), &self.at_b.url(to))
    }

    fn run(&self, from: &Path, to: &Path, options: &[&str]) -> Ran {
        let errand = self.errand(from, to);
        run(&errand, given(&errand, options), &self.how(), &Stop::default())
    }

    /// The same, which must succeed.
    fn ok(&self, from: &Path, to: &Path, options: &[&str]) -> Ran {
        let ran = self.run(from, to, options);
        assert!(matches!(ran.code, Ok(0)), "{:?}\n{}\n{}", ran.code, ran.out, ran.err);
        ran
    }

    /// Deputies, their copies, and movers, of both ends.
    fn running(&self) -> Vec<u32> {
        let of = |at: &Sshd| ["deputy", "cp", "mover"].map(|word| at.running(word)).concat();
        [of(&self.at_a), of(&self.at_b)].concat()
    }

    fn assert_nobody(&self) {
        assert!(wait_until(GONE, || self.running().is_empty()), "still there: {:?}", self.running());
        let clients = || self.at_a.clients();
        assert!(wait_until(GONE, || clients().is_empty()), "still there: {:?}", clients());
    }
}

fn errand(from: &str, to: &str) -> Errand {
    let place = |text: &str| Place::parse(OsStr::new(text), &Places::default()).unwrap();
    Errand::of("cp", &[place(from)], &place(to)).unwrap()
}

fn given(errand: &Errand, options: &[&str]) -> Given {
    let words = ["cp"].iter().chain(options).map(OsString::from).chain(errand.places());
    Given { words: words.collect(), progress: true, number: 1, copies: 1, ..Given::default() }
}

/// The same with files that go along, and that come back.
fn with(
    errand: &Errand,
    options: &[&str],
    attached: &[(&str, &[u8])],
    returned: &[(&str, &PathBuf)],
) -> Given {
    let attached = attached.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()));
    let returned = returned.iter().map(|(name, path)| ((*name).to_owned(), (*path).clone()));
    Given { attached: attached.collect(), returned: returned.collect(), ..given(errand, options) }
}

fn run(errand: &Errand, given: Given, how: &How, stop: &Stop) -> Ran {
    let said = Mutex::new((String::new(), String::new(), None, 0));
    let told = |told: Told| {
        let mut said = said.lock().unwrap();
        match told {
            Told::Out(line) => said.0.push_str(&(line + "\n")),
            Told::Err(line) | Told::Note(line) => said.1.push_str(&(line + "\n")),
            Told::Progress(progress) => said.2 = Some(progress),
            Told::Evidence(evidence) => said.3 = evidence.bytes,
        }
    };
    let code = errand.run(given, how, Path::new("/nonexistent"), &told, stop);
    let (out, err, progress, told_bytes) = said.into_inner().unwrap();
    Ran { code, out, err, progress, told_bytes }
}

fn kill(pids: Vec<u32>) {
    assert!(!pids.is_empty(), "there is nobody to kill");
    for pid in pids {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
    }
}

#[test]
fn a_tree_goes_from_one_ssh_host_to_another_and_nothing_of_it_stays_running() {
    let Some(two) = Two::start(true) else { return };
    make_tree(&two.a.path("from"));
    let ran = two.ok(&two.a.path("from"), &two.b.path("to/"), &[]);
    assert!(!ran.err.contains("ride in ssh"), "{}", ran.err);
    assert_same(&two.a.path("from"), &two.b.path("to/from"));
    assert_no_litter(&two.b.path("to"));
    let progress = ran.progress.expect("it tells how far it is");
    assert!(progress.scan_over && progress.bytes_verified > 0, "{progress:?}");
    assert!(ran.told_bytes > 0, "it tells where its time goes");
    // One login for each of them, whatever the number of streams.
    assert_eq!((two.at_a.logins(), two.at_b.logins()), (1, 1));
    two.assert_nobody();
    // And within one of them.
    let here = errand(&two.at_a.url(&two.a.path("from/")), &two.at_a.url(&two.a.path("also")));
    let ran = run(&here, given(&here, &[]), &two.how(), &Stop::default());
    assert!(matches!(ran.code, Ok(0)), "{:?}\n{}", ran.code, ran.err);
    assert_same(&two.a.path("from"), &two.a.path("also"));
    assert_eq!(two.at_b.logins(), 1);
    two.assert_nobody();
}

#[test]
fn what_fails_there_has_its_words_and_its_exit_code_here() {
    let Some(two) = Two::start(true) else { return };
    let ran = two.run(&two.a.path("absent"), &two.b.path("to"), &[]);
    assert!(matches!(ran.code, Ok(3)), "{:?}\n{}", ran.code, ran.err);
    assert!(ran.err.contains("absent") && ran.err.contains("error: "), "{}", ran.err);
    // The other end is not there: who stands at it is named.
    std::fs::write(two.a.path("file"), b"x").unwrap();
    std::fs::remove_file(two.at_b.bin().join("thalweg")).unwrap();
    let ran = two.run(&two.a.path("file"), &two.b.path("to"), &[]);
    assert!(matches!(ran.code, Ok(3)), "{:?}\n{}", ran.code, ran.err);
    assert!(ran.err.contains(&format!("no `thalweg` at 127.0.0.1:{}", two.at_b.port)), "{}", ran.err);
    // Nor is the acting one.
    std::fs::remove_file(two.at_a.bin().join("thalweg")).unwrap();
    let failure = two.run(&two.a.path("file"), &two.b.path("to"), &[]).code.unwrap_err();
    assert_eq!((failure.kind, failure.reason), (FailureKind::NotFound, Reason::NoFarProgram), "{failure}");
    assert!(failure.cause.contains(&format!("127.0.0.1:{}", two.at_a.port)), "{failure}");
    two.assert_nobody();
}

#[test]
fn files_go_along_and_come_back_and_a_daemon_may_be_the_other_end() {
    let Some(two) = Two::start(true) else { return };
    make_tree(&two.a.path("from"));
    let receipt = two.b.path("receipt");
    let go = two.errand(&two.a.path("from/"), &two.b.path("to"));
    let options = ["--files-from", "{file:names}", "--receipt={back:receipt}"];
    let given = with(&go, &options, &[("names", &b"one-byte\nempty-file\n"[..])], &[("receipt", &receipt)]);
    let ran = run(&go, given, &two.how(), &Stop::default());
    assert!(matches!(ran.code, Ok(0)), "{:?}\n{}", ran.code, ran.err);
    assert_eq!(std::fs::read_dir(two.b.path("to")).unwrap().flatten().count(), 2);
    assert!(two.b.ok(["verify".to_owned(), text(&receipt), text(&two.b.path("to"))]).contains("verified: "));
    std::fs::create_dir(two.b.path("export")).unwrap();
    let daemon = two.b.daemon(&[("data", &two.b.path("export"))]);
    let go = errand(&two.at_a.url(&two.a.path("from/")), &daemon.place("data", "to"));
    let ticket = std::fs::read(&daemon.ticket).unwrap();
    let given = with(&go, &["--ticket", "{file:ticket}"], &[("ticket", ticket.as_slice())], &[]);
    let ran = run(&go, given, &two.how(), &Stop::default());
    assert!(matches!(ran.code, Ok(0)), "{:?}\n{}", ran.code, ran.err);
    assert_same(&two.a.path("from"), &two.b.path("export/to"));
    let go = errand(&daemon.place("data", "to/"), &two.at_a.url(&two.a.path("back")));
    let given = with(&go, &["--ticket={file:ticket}"], &[("ticket", ticket.as_slice())], &[]);
    let ran = run(&go, given, &two.how(), &Stop::default());
    assert!(matches!(ran.code, Ok(0)), "{:?}\n{}", ran.code, ran.err);
    assert_same(&two.a.path("from"), &two.a.path("back"));
    two.assert_nobody();
}

#[test]
fn an_other_end_whose_port_is_shut_dials_the_acting_one_and_else_data_pass_through_here() {
    let Some(two) = Two::start(false) else { return };
    make_tree(&two.a.path("from"));
    // Port 1 is shut.
    lying_program(&two.at_b, r#"s/"port":[0-9]*/"port":1/"#);
    let ran = two.ok(&two.a.path("from/"), &two.b.path("back"), &[]);
    assert!(!ran.err.contains("ride in ssh"), "{}", ran.err);
    assert_same(&two.a.path("from"), &two.b.path("back"));
    // The only port at which it may be dialled is another program's.
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ports = format!("{port}-{port}");
    let ran = two.ok(&two.a.path("from/"), &two.b.path("carried"), &["--near-ports", &ports]);
    let why = "data pass through the machine where the copy was asked for";
    assert!(ran.err.contains("ride in ssh") && ran.err.contains(why), "{}", ran.err);
    assert_same(&two.a.path("from"), &two.b.path("carried"));
    // As asked.
    let ran = two.ok(&two.a.path("from/"), &two.b.path("asked"), &["--via-ssh"]);
    assert!(ran.err.contains("ride in ssh (as asked)"), "{}", ran.err);
    assert_same(&two.a.path("from"), &two.b.path("asked"));
    two.assert_nobody();
}

/// Begins a slow copy of one file, does `strike` when some of it is recorded, and returns what became of it.
fn struck(two: &Two, options: &[&str], strike: impl FnOnce(&Stop)) -> Ran {
    let (file, far) = (two.a.path("file"), two.b.path("far"));
    std::fs::write(&file, noise(7, 48 << 20)).unwrap();
    let errand = two.errand(&file, &far);
    let options = [&["--bwlimit", "8MB"][..], options].concat();
    let (given, how, stop) = (given(&errand, &options), two.how(), Stop::default());
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| run(&errand, given, &how, &stop));
        // Some chunks: a digest of each has 32 bytes.
        let some = || journal_bytes(two.b.root()) > 500;
        let moves = wait_until(ARRIVES, || some() || runs.is_finished());
        if moves && !runs.is_finished() {
            strike(&stop);
        }
        runs.join().unwrap()
    })
}

/// The same command again.
fn resumes(two: &Two) {
    two.assert_nobody();
    let ran = two.ok(&two.a.path("file"), &two.b.path("far"), &["--json"]);
    assert_eq!(std::fs::read(two.b.path("far")).unwrap(), noise(7, 48 << 20));
    let last = ran.out.lines().rfind(|line| line.contains("\"finished\"")).expect("a last event");
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    assert!(last["bytes_resumed"].as_u64().unwrap() > 0, "{last}");
    two.assert_nobody();
}

#[test]
fn a_deputy_that_is_killed_takes_its_copy_along_and_the_same_command_resumes() {
    let Some(two) = Two::start(true) else { return };
    let failure = struck(&two, &[], |_| kill(two.at_a.running("deputy"))).code.unwrap_err();
    assert_eq!((failure.kind, failure.reason), (FailureKind::Connection, Reason::SshEnded), "{failure}");
    assert!(failure.cause.contains(&format!("127.0.0.1:{}", two.at_a.port)), "{failure}");
    resumes(&two);
}

/// What is left of who asked, as both ends see it: ssh has ended.
#[test]
fn when_who_asked_is_gone_both_ends_stop_and_the_same_command_resumes() {
    let Some(two) = Two::start(true) else { return };
    let failure = struck(&two, &[], |_| kill(two.at_a.clients())).code.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection, "{failure}");
    resumes(&two);
}

#[test]
fn a_copy_between_two_hosts_stops_in_order_and_the_same_command_resumes() {
    let Some(two) = Two::start(true) else { return };
    let ran = struck(&two, &[], Stop::stop);
    assert!(matches!(ran.code, Ok(130)), "{:?}\n{}", ran.code, ran.err);
    resumes(&two);
}

#[test]
fn a_mover_at_the_other_end_that_is_killed_is_replaced_by_who_asked() {
    let Some(two) = Two::start(true) else { return };
    for options in [&[][..], &["--via-ssh"]] {
        let ran = struck(&two, options, |_| kill(two.at_b.running("mover")));
        assert!(matches!(ran.code, Ok(0)), "{:?}\n{}", ran.code, ran.err);
        assert!(ran.err.contains("starting another"), "{}", ran.err);
        assert_eq!(std::fs::read(two.b.path("far")).unwrap(), noise(7, 48 << 20));
        two.assert_nobody();
        std::fs::remove_file(two.b.path("far")).unwrap();
    }
}

/// What a deputy's copy could do that is not the one that was asked for.
fn place(path: &Path) -> message::Place {
    message::Place { export: None, path: path.as_os_str().as_bytes().to_vec() }
}

/// A mover that serves copies into `to` alone, to `client` alone.
fn mover_for(scratch: &Scratch, client: &Identity, to: &Path) -> (Child, Ready) {
    let only = Only::new(&place(to).path, true);
    let long = Duration::from_secs(60);
    let order = Order { only: Some(only), ..Order::new(client.fingerprint(), long, long) };
    let mut mover = scratch.thalweg();
    let mut child = mover.arg("mover").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(order.to_line().as_bytes()).unwrap();
    let line = read_line(child.stdout.as_mut().unwrap(), MOVER_MAGIC).unwrap();
    (child, Ready::of_line(&line, order.versions).unwrap())
}

/// Where the place is to be the new name of one entry, the root is the directory above it: all of an account, say.
#[test]
fn who_has_a_mover_for_one_place_gets_nothing_beside_it_and_leads_it_nowhere() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    for directory in [".ssh", "there"] {
        std::fs::create_dir_all(home.join(directory)).unwrap();
    }
    std::fs::write(home.join(".profile"), b"theirs").unwrap();
    let offered = |to: &str, offer| {
        let client = Identity::generate("a deputy's copy").unwrap();
        let (child, ready) = mover_for(&scratch, &client, &home.join(to));
        let at = format!("127.0.0.1:{}", ready.port);
        let mut liar = HostileClient::begin_as(client, ready.fingerprint.parse().unwrap(), &at);
        let source = SourceForm::Single { name: b"x".to_vec() };
        liar.open(asks(Request::Push(Push { source, ..Push::to(place(&home.join(to))) }))).expect("opened");
        liar.line.tell(TransferMessage::Offer(vec![offer]));
        (child, liar)
    };
    let end = |mut child: Child| {
        child.kill().unwrap();
        child.wait().unwrap();
    };
    let second = Kind::HardLink { first: name(".profile"), of: EntryId(0) };
    for offer in [
        file(0, ".ssh/authorized_keys", 7),
        file(0, "planted", 7),
        entry(0, "x", second, 0),
        // Who comes to the place again would be led there.
        symlink(0, "x", ".ssh"),
    ] {
        let words = format!("{:?}: {:?}", offer.path, offer.kind);
        let (child, mut liar) = offered("new", offer);
        assert!(liar.line.is_ended(SOON), "{words}");
        end(child);
        for name in [".ssh/authorized_keys", "planted", "new"] {
            assert!(std::fs::symlink_metadata(home.join(name)).is_err(), "{words}: {name}");
        }
    }
    // What goes into the place may be a link.
    let (child, mut liar) = offered("there", symlink(0, "x", ".ssh"));
    let outcome = liar.line.outcome_of(0, SOON);
    assert!(matches!(outcome, Some(Outcome::Done { .. })), "{outcome:?}");
    end(child);
}

#[test]
fn a_mover_that_is_started_for_a_deputy_serves_the_one_place_and_direction_alone() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path(name);
    std::fs::write(at("file"), noise(1, 10_000)).unwrap();
    let client = Identity::generate("a deputy's copy").unwrap();
    let (mut child, ready) = mover_for(&scratch, &client, &at("to"));
    let trust = ServerTrust::Pinned(ready.fingerprint.parse().unwrap());
    let tls = client_config(&client, &trust).unwrap();
    let connect = Arc::new(TcpConnect::new(vec![format!("127.0.0.1:{}", ready.port)]));
    let far = Arc::new(FarMover::new(connect, tls));
    let signer = Arc::new(client);
    let copy = |from: From, to: To| {
        let names = (String::new(), String::new());
        let job = Job { from, to, signer: signer.clone(), names, part: None, client_line: None };
        let watch = Watch {
            events: event::nobody(),
            is_behind: None,
            link_events: event::nobody(),
            meter: Arc::default(),
            evidence: None,
        };
        job.run(&Wishes::default(), &at("state"), &watch, &Stop::default())
    };
    let here = |name: &str| From::Local(vec![at(name)]);
    let there = |path: &Path| To::Far(far.clone(), place(path));
    copy(here("file"), there(&at("to"))).unwrap();
    assert_eq!(std::fs::read(at("to")).unwrap(), noise(1, 10_000));
    for elsewhere in ["other", "to/", "to/below", "."] {
        let failure = copy(here("file"), there(&at(elsewhere))).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Permission, "{elsewhere}: {failure}");
        assert!(failure.cause.contains("serves nothing else"), "{failure}");
    }
    // Not even what it wrote is read.
    for name in ["to", "file"] {
        let from = From::Far(far.clone(), vec![place(&at(name))]);
        let failure = copy(from, To::Local(at("back"))).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Permission, "{name}: {failure}");
    }
    let asks = far.dial(LinkSettings::default(), event::nobody()).unwrap();
    let look = Question::Look { place: place(&at("to")), follow: false };
    let remove = Question::Remove { place: place(&at("to")), recursive: false };
    for question in [look, remove] {
        let refused = asks.ask(question).unwrap().find_map(|reply| reply.err()).expect("a refusal");
        assert_eq!(refused.kind, FailureKind::Permission, "{refused}");
    }
    drop(asks);
    assert!(at("to").exists() && !at("other").exists() && !at("back").exists());
    far.close();
    drop(child.stdin.take());
    assert!(wait_until(GONE, || !matches!(child.try_wait(), Ok(None))), "it stays");
}

/// Whatever comes in its place: a deputy does no more than begin.
#[test]
fn a_deputy_that_hears_nonsense_or_nothing_ends_without_a_copy() {
    let scratch = Scratch::new();
    let hex = |word: &str| word.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let errand = |word: &str, files: &str| {
        format!("{{\"errand\":{{\"words\":[\"{}\"],\"files\":[{files}]}}}}\n", hex(word))
    };
    let file = "{\"name\":\"a\",\"bytes\":1}";
    let piece = |file: u32, data: &str| format!("{{\"piece\":{{\"file\":{file},\"data\":\"{data}\"}}}}\n");
    let begin = "{\"begin\":{}}\n";
    for said in [
        String::new(),
        "nonsense\n".to_owned(),
        begin.to_owned(),
        errand("serve", "") + begin,
        errand("cp", "{\"name\":\"../a\",\"bytes\":1}") + begin,
        errand("cp", "{\"name\":\"a\",\"bytes\":99999999999}") + begin,
        errand("cp", file) + begin,
        errand("cp", file) + &piece(0, "0000") + begin,
        errand("cp", file) + &piece(1, "00") + begin,
        errand("cp", "") + &errand("cp", ""),
    ] {
        let mut child = scratch
            .thalweg()
            .arg("deputy")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(said.as_bytes());
        let out = finish(child);
        let told = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(!out.status.success(), "{said}");
        assert!(told.starts_with("\nTHALWEG-DEPUTY 1 {") && !told.contains("\"exit\""), "{said}: {told}");
    }
    // What it is told well it does, and ends with the code of what it did.
    let mut child =
        scratch.thalweg().arg("deputy").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let words = ["cp", "zero:1MB", "null:"].map(|word| format!("\"{}\"", hex(word))).join(",");
    let said = format!("{{\"errand\":{{\"words\":[{words}]}}}}\n{begin}");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(said.as_bytes()).unwrap();
    let out = finish(child);
    drop(stdin);
    let told = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(told.ends_with("{\"exit\":0}\n"), "{told}");
}

/// What ssh is taken for: says the first word of a deputy, and does this.
fn instead_of_ssh(scratch: &Scratch, does: &str) -> How {
    let (first, script) = (scratch.path("first"), scratch.path("ssh.sh"));
    std::fs::write(&first, Deputy::own().to_line()).unwrap();
    std::fs::write(&script, format!("cat '{}'\n{does}\n", first.display())).unwrap();
    let rsh = format!("sh '{}'", script.display()).into();
    How::to_ask(&Places::default(), None, SshOptions { rsh, ..SshOptions::default() })
}

#[test]
fn a_deputy_is_told_again_and_again_that_who_asked_is_there() {
    let scratch = Scratch::new();
    let does = "while read line; do case $line in *'{\"here\":'*) n=x$n;; esac; \
                case $n in xx) echo '{\"exit\":7}'; exit;; esac; done";
    let go = errand("a:x", "a:y");
    let ran = run(&go, given(&go, &[]), &instead_of_ssh(&scratch, does), &Stop::default());
    assert!(matches!(ran.code, Ok(7)), "{:?}", ran.code);
}

/// It is the one way to stop the copy in order, and a terminal sends it to all that runs there.
#[test]
fn ctrl_c_does_not_end_the_ssh_of_a_deputy() {
    let scratch = Scratch::new();
    let does = "kill -INT $$; echo '{\"exit\":7}'";
    let go = errand("a:x", "a:y");
    let ran = run(&go, given(&go, &[]), &instead_of_ssh(&scratch, does), &Stop::default());
    assert!(matches!(ran.code, Ok(7)), "{:?}", ran.code);
}

#[test]
fn a_login_that_is_stopped_ends_at_once_and_so_is_it_called() {
    let scratch = Scratch::new();
    let script = scratch.path("ssh.sh");
    std::fs::write(&script, "exec sleep 600\n").unwrap();
    let rsh = format!("sh '{}'", script.display()).into();
    let how = How::to_ask(&Places::default(), None, SshOptions { rsh, ..SshOptions::default() });
    let (go, stop) = (errand("a:x", "a:y"), Stop::default());
    stop.stop();
    let failure = run(&go, given(&go, &[]), &how, &stop).code.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Stopped, "{failure}");
    // A password that is being asked for: ssh ends of the signal itself.
    std::fs::write(&script, "exit 255\n").unwrap();
    let failure = run(&go, given(&go, &[]), &how, &stop).code.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Stopped, "{failure}");
    // And so is one that ends before the copy does.
    let failure = run(&go, given(&go, &[]), &instead_of_ssh(&scratch, "exit 255"), &stop).code.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Stopped, "{failure}");
}

#[test]
fn a_host_that_is_not_reached_is_named_before_anything_else_is_done() {
    if !Path::new("/usr/bin/ssh").exists() {
        return skipped("ssh", "no ssh (openssh-client)");
    }
    let shut = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let go = errand(&format!("ssh://127.0.0.1:{shut}/x"), "elsewhere:y");
    let rsh = "ssh -F none -o BatchMode=yes".into();
    let how = How::to_ask(&Places::default(), None, SshOptions { rsh, ..SshOptions::default() });
    let failure = run(&go, given(&go, &[]), &how, &Stop::default()).code.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection, "{failure}");
    assert!(failure.cause.contains(&format!("ssh did not reach 127.0.0.1:{shut}")), "{failure}");
}
