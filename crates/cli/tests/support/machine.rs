//! Other machines, as far as a program can tell.

use super::Scratch;
use super::chance::{has, is_root, skipped};
use std::process::Command;
use thalweg_lab::wrap::wrap;

/// This command as on another machine with the same files, of another name and `/etc/machine-id`; `None`, and said,
/// where that cannot be made.
pub fn elsewhere(row: &str, scratch: &Scratch, command: &Command) -> Option<Command> {
    if !is_root() || !["unshare", "mount", "hostname"].iter().all(|program| has(program)) {
        skipped(row, "needs root, unshare, mount and hostname");
        return None;
    }
    let id = scratch.path("machine-id");
    std::fs::write(&id, format!("{:032x}\n", std::process::id())).unwrap();
    let script = "hostname other && { test ! -e /etc/machine-id || mount --bind \"$1\" /etc/machine-id; } && \
                  shift && exec \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--uts", "sh", "-c", script, "sh"]).arg(id);
    Some(wrap(unshare, command))
}

/// For `-e`: whatever host and port it is told, the far side is here.
pub fn in_place_of_ssh(scratch: &Scratch) -> String {
    let (program, state) = (scratch.path("far-side.sh"), scratch.path("far-state"));
    let script =
        format!("export THALWEG_STATE='{}'\nfor last; do :; done\nexec sh -c \"$last\"\n", state.display());
    std::fs::write(&program, script).unwrap();
    format!("sh '{}'", program.display())
}
