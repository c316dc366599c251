//! The commands of docs/guide/first-look.md, as they stand there.

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Scratch, assert_no_litter, chance, finish, wait_until};

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
