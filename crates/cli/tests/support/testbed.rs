//! A path of its own, made by `thalweg testbed`.

use super::chance::{has, is_root, skipped};
use super::{Scratch, finish};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use thalweg_lab::wrap::wrap;

/// Measurements one after another: they would disturb each other.
static ALONE: Mutex<()> = Mutex::new(());

/// A testbed that is up, and goes with the value.
pub struct Testbed {
    pub scratch: Scratch,
    _alone: MutexGuard<'static, ()>,
}

impl Testbed {
    /// `None`, with the reason told, where it cannot be had.
    pub fn up(row: &str, options: &[&str]) -> Option<Testbed> {
        let missing = ["ip", "ping", "iperf3", "chrt"].iter().find(|program| !has(program));
        if let Some(program) = missing {
            skipped(row, &format!("needs {program}"));
            return None;
        }
        Testbed::up_bare(row, options)
    }

    /// The same, for who measures nothing with other people's programs.
    pub fn up_bare(row: &str, options: &[&str]) -> Option<Testbed> {
        let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !is_root() {
            skipped(row, "needs root");
            return None;
        }
        let testbed = Testbed { scratch: Scratch::in_memory(), _alone: alone };
        let output = finish(testbed.command("up", options).spawn().expect("start"));
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        if words.contains("the kernel needs") {
            skipped(row, words.trim());
            return None;
        }
        assert!(output.status.success(), "{words}");
        Some(testbed)
    }

    /// `thalweg testbed WHAT` for it.
    pub fn command(&self, what: &str, options: &[&str]) -> Command {
        let mut command = self.scratch.thalweg();
        command.args(["testbed", what, "--state"]).arg(self.scratch.path("testbeds")).args(options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs that to its end.
    pub fn do_it(&self, what: &str, options: &[&str]) -> Output {
        finish(self.command(what, options).spawn().expect("start"))
    }

    /// A program in one of its hosts, the first word; it must succeed.
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.do_it("run", words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The same command, in a host of it.
    pub fn enter(&self, host: &str, command: &Command) -> Command {
        let mut outer = wrap(self.command("run", &[host]), command);
        outer.stdin(Stdio::null());
        outer
    }

    /// What `thalweg testbed WHAT --json` says.
    pub fn json(&self, what: &str, options: &[&str]) -> Value {
        let output = self.do_it(what, &[&["--json"], options].concat());
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Changes the path.
    pub fn set(&self, options: &[&str]) {
        let output = self.do_it("set", options);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let _ = self.do_it("down", &["--all"]);
    }
}
