//! What a copy notes of an item is told with the item's name.

use crate::Bench;
use crate::support;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

#[test]
fn what_is_noted_of_items_is_told_to_people_once_and_to_programs_each_time() {
    let row = "watch notes";
    if !support::chance::is_root() {
        return support::chance::skipped(row, "needs files of two users");
    }
    let bench = Bench::new();
    std::fs::set_permissions(bench.scratch.root(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let Some(by) = bench.scratch.as_nobody(row) else { return };
    let names = ["run1", "run2", "run3"];
    names.iter().for_each(|name| bench.put(&format!("{name}/data"), b"data"));
    let _socket = std::os::unix::net::UnixListener::bind(bench.source.join("run2/socket")).unwrap();
    names.iter().for_each(|name| bench.put(&format!("{name}/READY"), b""));
    let watch = |name: &str, more: &[&str]| {
        let [state, destination] = ["state", "to"].map(|what| bench.scratch.path(&format!("{what}-{name}")));
        for path in [&state, &destination] {
            std::fs::create_dir(path).unwrap();
            std::os::unix::fs::chown(path, Some(support::NOBODY), Some(support::NOBODY)).unwrap();
        }
        let mut command = by(bench.scratch.thalweg());
        command.arg("watch").args([&bench.source, &destination]).args(["--item", "directory"]);
        command.args(["--marker", "READY", "--idle-exit", "500ms", "--transfers", "1", "--state"]);
        command.arg(state).args(more).current_dir(bench.scratch.root());
        let output =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = support::finish(output);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
        (stdout, stderr)
    };
    let (_, stderr) = watch("people", &[]);
    let lines = |words: &str| stderr.lines().filter(|line| line.contains(words)).collect::<Vec<_>>();
    // Whichever is copied first.
    let told = lines("owner not kept: not permitted to give it to user 0");
    assert!(told.len() == 1 && told[0].starts_with("warning: run"), "{stderr}");
    assert_eq!(lines("run2: `run2/socket`: skipped: ").len(), 1, "{stderr}");
    assert_eq!(lines("more notes of items: --json tells each").len(), 1, "{stderr}");
    let (_, stderr) = watch("nobody", &["-q"]);
    assert!(!stderr.contains("not kept") && !stderr.contains("notes"), "{stderr}");
    let (stdout, _) = watch("programs", &["--json"]);
    let events: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |item: &str, path: &str| {
        let is_it = |event: &&serde_json::Value| {
            event["event"] == "entry" && event["item"] == item && event["path"] == path
        };
        events.iter().find(is_it).unwrap_or_else(|| panic!("{item} {path}: {stdout}"))
    };
    for name in names {
        let losses = &of(name, &format!("{name}/data"))["losses"];
        assert!(losses.to_string().contains("\"what\":\"owner\""), "{losses}");
    }
    assert_eq!(of("run2", "run2/socket")["outcome"], "skipped");
}
