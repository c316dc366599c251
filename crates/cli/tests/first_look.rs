//! The commands of docs/guide/first-look.md, as they stand there.

mod support;

use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Scratch, assert_no_litter, chance, finish, noise, wait_until};

/// The lines that a reader is to type.
fn commands() -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/first-look.md");
    let text = std::fs::read_to_string(guide).expect("the guide");
    let blocks = text.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().trim().to_owned()).collect()
}

#[test]
fn five_commands_lead_from_nothing_to_the_narrowest_stage() {
    let commands = commands();
    assert_eq!(commands.len(), 5);
    // The guide names a port, which somebody may have here: in a network of its own nobody has.
    let alone = Command::new("unshare").args(["--net", "true"]).output();
    if !alone.is_ok_and(|out| out.status.success()) {
        return chance::skipped("the first look", "needs a network namespace (root, unshare)");
    }
    let scratch = Scratch::new();
    let bin = Path::new(env!("CARGO_BIN_EXE_thalweg")).parent().unwrap().display().to_string();
    // What fails leaves no daemon, which would keep our pipes open.
    let mut script = "ip link set lo up\ntrap 'kill $server' EXIT\n".to_owned();
    for command in &commands {
        script.push_str(&format!("echo \"== {}\"\n{command}\n", command.split(' ').next().unwrap()));
        if command.ends_with('&') {
            // A reader takes longer than that.
            script.push_str("server=$!\nfor i in $(seq 200); do [ -e ticket ] && break; sleep 0.1; done\n");
        }
    }
    let mut shell = Command::new("unshare");
    shell.args(["--net", "sh", "-e", "-c", &script]).current_dir(scratch.root());
    let path = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{bin}:{path}")).env("THALWEG_STATE", scratch.path("state"));
    shell.env_remove("THALWEG_TICKET").env("XDG_CONFIG_HOME", scratch.path("config"));
    let out =
        finish(shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}\n{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("narrowest stage: ") && text.contains("copied in "), "{text}");
    let drawing = std::fs::read_to_string(scratch.path("basin.svg")).unwrap();
    assert!(drawing.contains(">narrowest<"), "{drawing}");
    assert_eq!(
        std::fs::read(scratch.path("there/run7")).unwrap(),
        std::fs::read(scratch.path("run7")).unwrap()
    );
    assert!(wait_until(Duration::from_secs(60), || !scratch.path("there/.thalweg-staging").exists()));
    assert_no_litter(&scratch.path("there"));
    // What `why` said last is about the copy.
    let said =
        scratch.thalweg().args(["why", "--json", "--state"]).arg(scratch.path("state")).output().unwrap();
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&said["from"], &said["state"]), (&Value::from("run7"), &Value::from("finished")));
}

/// Too short to be a measurement of the way, and long enough that somebody asks.
#[test]
fn a_copy_that_is_over_at_once_tells_who_reads_it_at_a_terminal_where_to_ask() {
    let scratch = Scratch::in_memory();
    std::fs::write(scratch.path("run7"), noise(1, 24 << 20)).unwrap();
    std::fs::write(scratch.path("small"), noise(1, 100)).unwrap();
    let at_a_terminal = |words: [&str; 2]| {
        let ends = nix::pty::openpty(None, None).expect("a pseudo-terminal");
        let mut command = scratch.thalweg();
        command.arg("cp").args(words.map(|name| scratch.path(name)));
        command.stdin(Stdio::null()).stdout(Stdio::from(ends.slave)).stderr(Stdio::null());
        let mut copy = command.spawn().unwrap();
        // Its copy of the other end.
        drop(command);
        let (mut said, mut piece) = (Vec::new(), [0; 4096]);
        let mut terminal = std::fs::File::from(ends.master);
        // An end that nobody has open any more is an error.
        while let Ok(read @ 1..) = terminal.read(&mut piece) {
            said.extend_from_slice(&piece[..read]);
        }
        assert!(copy.wait().unwrap().success());
        String::from_utf8_lossy(&said).trim_end().to_owned()
    };
    let state = scratch.path("client-state").display().to_string();
    let asks = format!("`thalweg why --state {state}` says what held it up");
    let said = at_a_terminal(["run7", "there"]);
    // On a machine that is held up it takes longer, and has its answer.
    assert!(said.contains(&asks) != said.contains("; narrowest stage: "), "{said}");
    let answer: Value =
        serde_json::from_str(scratch.ok(["why", "--json", "--state", &state]).trim()).unwrap();
    assert_eq!(answer["state"], "finished", "{answer}");
    assert!(answer["narrowest"].is_object(), "{answer}");
    // Nothing to ask about, and nobody who reads.
    let said = at_a_terminal(["small", "small-there"]);
    assert!(said.contains("copied in ") && !said.contains("thalweg why"), "{said}");
    let said = scratch.ok(["cp".into(), scratch.path("run7"), scratch.path("again")]);
    assert!(said.contains("copied in ") && !said.contains("thalweg why"), "{said}");
}
